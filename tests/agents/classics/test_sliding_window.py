"""Tests of the sliding window: items arrive in order over any link, and the link's use equals closed formulas."""

from typing import Any

import pytest

from netsim import BadInput, Link, Network, latency, topology
from netsim.agents.classics import Receiver, Sender
from netsim.testing import losing
from tests.parts import slow

ROUGH = Link(latency=latency.uniform(0.01, 0.2), loss=0.2, duplicate=0.1, corrupt=0.05)
FRAME, AFTER = 1.0, 5.0  # a frame's transmission time and its propagation delay (s)
TRIP = 1 + 2 * AFTER / FRAME  # from the start of a frame to its acknowledgement, in transmission times of a frame


def carry(count: int, link: Link, rule: dict[str, Any], seed: int = 0, **settings: Any) -> tuple[Sender, Receiver, Any]:
    network = Network(topology.path(2), link, links=settings.pop("links", None), seed=seed)
    pair = {0: Sender(1, range(count), **rule, **settings), 1: Receiver(**rule)}
    run = network.run(pair, until=5000)
    return *pair.values(), run  # type: ignore[return-value]


@pytest.mark.parametrize("selective", [False, True])
@pytest.mark.parametrize("window", [1, 2, 7, 20])
def test_each_item_is_delivered_once_and_in_order(window: int, selective: bool) -> None:
    """Holds on links that lose, duplicate, corrupt and reorder frames and acknowledgements."""
    for seed in range(5):
        rule = {"window": window, "selective": selective}
        sender, receiver, _ = carry(30, ROUGH, rule, seed, timeout=0.5)
        assert receiver.delivered == list(range(30))
        assert sender.status == "done"
        assert sender.base == 30


@pytest.mark.parametrize(("window", "selective", "numbers"), [(1, False, 2), (3, False, 4), (1, True, 2), (4, True, 8)])
def test_few_numbers_are_enough_on_a_link_that_keeps_order(window: int, selective: bool, numbers: int) -> None:
    link = Link(latency=latency.uniform(0.01, 0.1), loss=0.3, duplicate=0.1, fifo=True)
    for seed in range(6):
        rule = {"window": window, "selective": selective, "numbers": numbers}
        _, receiver, _ = carry(30, link, rule, seed, timeout=0.3)
        assert receiver.delivered == list(range(30))


@pytest.mark.parametrize(
    ("window", "selective", "numbers", "delivered"),
    [
        # All acknowledgements of the first window are lost. With too few sequence numbers, the receiver takes the
        # repeated frames for new ones.
        (2, True, 4, [0, 1, 2, 3, 4, 5]),
        (3, True, 4, [0, 1, 2, 3, 0, 1]),
        (3, False, 4, [0, 1, 2, 3, 4, 5]),
        (4, False, 4, [0, 1, 2, 3, 0, 1, 2, 3]),
    ],
)
def test_too_few_numbers_deliver_the_wrong_items(
    window: int, selective: bool, numbers: int, delivered: list[int]
) -> None:
    rule = {"window": window, "selective": selective, "numbers": numbers}
    deaf = {(1, 0): Link(latency=0.1, loss=losing(*range(window)))}
    _, receiver, _ = carry(6, Link(latency=0.1), rule, links=deaf, timeout=1.0)
    assert receiver.delivered[: len(delivered)] == delivered


def used(window: int, selective: bool, loss: float, count: int = 200, seeds: int = 5) -> float:
    """Return the utilisation of the link: the share of time in which it carries items for the first time."""
    time = 0.0
    for seed in range(seeds):
        there = Link(latency=FRAME + AFTER, loss=loss)
        # Avoid ties: an acknowledgement arrives slightly before the timeout, and the timeout expires slightly before
        # the next frame could start.
        back = {(1, 0): Link(latency=AFTER - 0.01)}
        rule: dict[str, Any] = {"window": window, "selective": selective}
        network = Network(topology.path(2), there, links=back, seed=seed)
        sender = Sender(1, range(count), **rule, frame_time=FRAME, timeout=TRIP * FRAME - 0.005)
        run = network.run({0: sender, 1: Receiver(**rule)}, trace=True)
        time += run.trace.table()["time_s"].max() - TRIP  # until the last acknowledgement, without the first round trip
    return seeds * count * FRAME / time


@pytest.mark.parametrize("selective", [False, True])
@pytest.mark.parametrize("window", [1, 4, 11])
def test_without_loss_the_window_limits_the_use(window: int, selective: bool) -> None:
    assert used(window, selective, 0.0, seeds=1) == pytest.approx(min(1, window / TRIP), rel=0.03)


@pytest.mark.parametrize("loss", [0.05, 0.2])
def test_stop_and_wait_is_used_as_its_formula_says(loss: float) -> None:
    assert used(1, False, loss) == pytest.approx((1 - loss) / TRIP, rel=0.06)


@pytest.mark.parametrize("loss", [0.05, slow(0.2)])
def test_go_back_n_is_used_as_its_formulas_say(loss: float) -> None:
    kept = 1 - loss
    # If the window exceeds the round-trip time, each loss costs one round trip.
    assert used(16, False, loss) == pytest.approx(kept / (kept + TRIP * loss), rel=0.08)
    # With a small window, each burst delivers the frames before the first loss. If that is the j-th frame, the sender
    # notices it one round trip and j − 1 frame times after the start of the burst.
    window, places = 4, range(1, 5)
    items = sum(kept**j for j in places)
    time = TRIP + sum((j - 1) * kept ** (j - 1) * loss for j in places)
    assert used(window, False, loss) == pytest.approx(items / time, rel=0.06)


@pytest.mark.parametrize("loss", [0.05, 0.2])
def test_selective_repeat_reaches_its_formula_with_a_large_window_only(loss: float) -> None:
    assert used(100, True, loss) == pytest.approx(1 - loss, rel=0.08)
    assert used(11, True, loss) < 0.85 * (1 - loss)


def test_a_sender_that_is_too_eager_wastes_frames_and_no_item() -> None:
    """The sender's timeout is shorter than the round-trip time."""
    for selective in (False, True):
        sender, receiver, _ = carry(30, Link(latency=0.1), {"window": 4, "selective": selective}, timeout=0.15)
        assert receiver.delivered == list(range(30))
        assert sender.sent > 30


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"window": 0}, "window = 0: must be"),
        ({"numbers": 4}, "numbers = 4: must be"),
        ({"timeout": 0}, "timeout = 0: must be"),
        ({"frame_time": -1}, "frame_time = -1: must be"),
        ({"selective": "yes"}, "selective = 'yes': must be"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(bad: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput) as error:
        Sender(1, [], **bad)
    assert str(error.value).startswith(told)
    assert "\n" not in str(error.value)
