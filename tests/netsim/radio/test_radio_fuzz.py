"""Random networks on a `netsim.Radio` obey the laws: equal runs for equal seeds, and every frame accounted for."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.records import CAUSES, RADIO_CAUSES
from tests.command import on_the_other_core
from tests.fuzzers.networks import digest
from tests.fuzzers.radios import RadioCase, check_seed
from tests.parts import slow


@pytest.mark.parametrize("more", [0, slow(1)])
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**50))
def test_laws_hold_on_random_radios(more: int, seed: int) -> None:
    check_seed(seed + more)


@pytest.mark.slow
def test_the_radios_are_hard_enough() -> None:
    met: Counter[str] = Counter()
    for seed in range(170):
        played = RadioCase(seed).play()
        for row in played.links:
            met.update({name: row[name] for name in (*CAUSES, *RADIO_CAUSES, "in_flight")})
        met.update(dict(played.run.airtime.drop(columns="agent").sum()))
        met["deaths"] += sum(spent is not None and spent[3] < math.inf for spent in played.run.air.spent)
    wanted = [
        *CAUSES,
        *RADIO_CAUSES,
        "in_flight",
        "retries",
        "acks",
        "duplicates",
        "no_ack",
        "busy",
        "access_failures",
        "deaths",
    ]
    assert all(met[name] > 5 for name in wanted), met


def test_every_process_and_both_cores_run_the_same() -> None:
    code = (
        "from tests.fuzzers.networks import digest; from tests.fuzzers.radios import RadioCase\n"
        "for seed in range(8): print(digest(RadioCase(seed).play().run))"
    )
    assert on_the_other_core(code).splitlines() == [digest(RadioCase(seed).play().run) for seed in range(8)]
