"""Random payloads and hostile bytes, a few seconds of them; `tests.fuzzers.wire` can go on for as long as one likes."""

import random
import tracemalloc

import msgpack
import pytest

from netsim.coders import Coded, Sparse
from netsim.errors import WireError
from netsim.wire.codec import decode, encode
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


def test_every_coded_type_is_drawn_and_arrives_bit_for_bit() -> None:
    drawn: dict[type, int] = {}
    parts = set()
    for seed in range(1500):
        rng = random.Random(seed)
        coded = wire.any_coded(rng)
        wire.check_payload(coded)
        assert decode(encode(coded)) == coded
        drawn[type(coded)] = drawn.get(type(coded), 0) + 1
        if isinstance(coded, Sparse):
            parts.add(type(coded.part))
    assert drawn.keys() == wire.CODED.keys()
    assert min(drawn.values()) > 20
    assert len(parts) >= 6


@pytest.mark.parametrize("number", sorted(set(wire.CODED.values())))
def test_damaged_coded_arrays_are_wire_errors_or_arrays(number: int) -> None:
    accepted = refused = 0
    for seed in range(1500):
        rng = random.Random(seed)
        coded = wire.any_coded(rng)
        body = coded.pack() if wire.CODED[type(coded)] == number else b""
        body = wire.mutated(rng, body) if body else wire.near_coded(rng)
        try:
            read = decode(msgpack.packb(msgpack.ExtType(number, body)))
        except WireError:
            refused += 1
            continue
        assert isinstance(read, Coded)
        accepted += 1
        wire.use(read)
        assert decode(encode(read)) == read
    assert accepted > 20
    assert refused > 20


def test_what_bytes_claim_is_checked_before_it_is_made() -> None:
    """Every type, every claim of a size: few bytes take little memory to be refused, or to be a coded array."""
    lengths = [
        msgpack.packb(length) for length in (2**20, 2**24, 2**31, 2**40, 2**47, 2**63, [2**20, 2**20], [0, 2**40])
    ]
    bodies = [head + length + rest for head in (b"", b"\x41", b"\xa1", b"\x03", b"\x10") for length in lengths
              for rest in (b"", b"\0" * 9, *(other + b"\x06" + bytes(20) for other in lengths))]  # fmt: skip
    for number in set(wire.CODED.values()):
        for body in bodies:
            data = msgpack.packb(msgpack.ExtType(number, body))
            tracemalloc.start()
            try:
                decode(data)
            except WireError:
                pass
            finally:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            assert peak < 100_000, (number, body)


def test_coded_arrays_within_each_other_are_refused() -> None:
    body = b"\x01\x01\x06\x10\x01\x00\x3c"
    assert isinstance(decode(msgpack.packb(msgpack.ExtType(7, body))), Sparse)
    for _ in range(3000):
        body = b"\x01\x01\x07" + body
    with pytest.raises(WireError):
        decode(msgpack.packb(msgpack.ExtType(7, body)))
