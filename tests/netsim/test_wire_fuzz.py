"""Random payloads and hostile bytes, a few seconds of them; `tests.fuzzers.wire` can go on for as long as one likes."""

import random

import pytest

from tests.fuzzers import wire


@pytest.mark.parametrize("block", range(4))
def test_hostile_bytes_give_wire_errors_or_payloads(block: int) -> None:
    for seed in range(1000 * block, 1000 * (block + 1)):
        try:
            wire.check_one(random.Random(seed))
        except BaseException as error:
            raise AssertionError(f"check_one(random.Random({seed}))") from error


def test_the_fuzzer_finds_its_way_in() -> None:
    accepted = [wire.check_hostile(wire.hostile(random.Random(seed))) for seed in range(1500)]
    assert 0.05 < sum(accepted) / len(accepted) < 0.6


def test_a_seed_repeats_what_it_found() -> None:
    for make in (wire.hostile, wire.payload):
        assert repr(make(random.Random(5))) == repr(make(random.Random(5)))
