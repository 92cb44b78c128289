"""The four-bit link estimator against the rules of its paper, and against 1/(p_f p_r)."""

import math

import numpy as np
import pytest

from netsim.agents import LinkEstimator


def estimator(**settings: object) -> LinkEstimator:
    return LinkEstimator(**settings)  # type: ignore[arg-type]


def test_beacons_give_the_inverse_of_the_share_received() -> None:
    links = estimator(beacon_window=4, weight=0.5)
    assert math.isinf(links.etx("a"))
    for sequence in (7, 8):
        links.heard("a", sequence)
    assert math.isinf(links.etx("a"))
    links.heard("a", 11)  # beacons 9 and 10 were missed, so 3 of 5 were received
    assert links.etx("a") == pytest.approx(5 / 3)
    for sequence in (12, 13, 14, 15):
        links.heard("a", sequence)
    share = 0.5 * 0.6 + 0.5 * 1.0
    assert links.etx("a") == pytest.approx(0.5 * 5 / 3 + 0.5 / share)


def test_numbers_of_beacons_are_bytes_and_a_long_silence_makes_a_new_neighbour() -> None:
    links = estimator(beacon_window=3)
    for sequence in (254, 255, 0):
        links.heard("a", sequence)
    assert links.etx("a") == 1.0
    links.heard("a", 100)
    assert math.isinf(links.etx("a"))


def test_a_pinned_neighbour_keeps_its_estimate_over_a_long_silence() -> None:
    links = estimator(data_window=5)
    links.sent("a", 5, True)
    links.heard("a", 0)
    links.pinned = {"a"}
    links.heard("a", 100)
    assert links.etx("a") == 5.0


def test_data_give_transmissions_over_acknowledgements_or_failures_in_a_row() -> None:
    links = estimator(data_window=5, weight=0.5)
    for acknowledged in (True, False, True, False, False):
        links.sent("a", 1, acknowledged)
    assert links.etx("a") == pytest.approx(2.5)
    for _ in range(5):
        links.sent("a", 1, False)
    assert links.etx("a") == pytest.approx((2.5 + 7) / 2)
    links.sent("b", 5, True)
    assert links.etx("b") == 5.0


@pytest.mark.parametrize(("forth", "back"), [(0.9, 0.8), (0.6, 1.0), (1.0, 1.0)])
def test_etx_approaches_the_inverse_of_both_receptions(forth: float, back: float) -> None:
    rng = np.random.default_rng(2)
    links, seen = estimator(data_window=50), []
    for _ in range(20_000):
        links.sent("a", 1, bool(rng.random() < forth and rng.random() < back))
        seen.append(links.etx("a"))
    assert np.mean(seen[2000:]) == pytest.approx(1 / (forth * back), rel=0.03)


def test_small_windows_lie_above_it_as_documented() -> None:
    rng = np.random.default_rng(3)
    links, seen = estimator(), []
    for _ in range(100_000):
        links.sent("a", 1, bool(rng.random() < 0.72))
        seen.append(links.etx("a"))
    assert np.mean(seen[2000:]) * 0.72 == pytest.approx(1.12, abs=0.015)


def test_a_full_table_takes_only_who_is_heard_well_and_offers_a_better_route() -> None:
    links = estimator(size=3)
    for name in "abc":
        assert links.heard(name, 0)
    for bits in ({"white": False, "compare": "c"}, {"white": True}):
        assert not links.heard("d", 0, **bits)
        assert set(links) == {*"abc"}
    assert links.heard("d", 0, compare="c")
    assert set(links) == {*"abd"}
    assert links.heard("a", 1, compare="b")
    assert set(links) == {*"abd"}
