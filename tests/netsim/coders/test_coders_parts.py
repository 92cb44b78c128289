"""Vectors coded in several parts: decoded values, sizes in bits, and refused settings."""

import numpy as np
import pytest

from netsim import BadInput
from netsim.coders import QSGD, ErrorFeedback, Exact, Float, Floats, InParts, Several, Sign, Sparse, TopK, Uniform
from netsim.errors import WireError
from netsim.wire import registry
from netsim.wire.codec import decode, encode, payload_bits
from tests.parts import every

RNG = np.random.default_rng(0)
LARGE, SMALL = 1e3 * RNG.normal(size=8), 1e-3 * RNG.normal(size=8)


@every("coder", [Uniform(3), TopK(2), Sign(), Float(32), Exact()])
@every("width", [None, 3])
def test_each_part_is_coded_by_itself(coder: object, width: int | None) -> None:
    parts = [LARGE, SMALL, SMALL + 1.0]
    if width is not None:
        parts = [np.outer(part, np.arange(1.0, width + 1)) for part in parts]
    coded = InParts(coder, 3).encode(np.concatenate(parts))  # type: ignore[arg-type]
    alone = [coder.encode(part) for part in parts]  # type: ignore[attr-defined]
    expected = np.concatenate([np.asarray(each) for each in alone])
    received = decode(encode(coded))
    assert isinstance(received, Several)
    np.testing.assert_array_equal(received.values, expected)
    assert received == coded
    assert payload_bits(coded) == sum(payload_bits(each) for each in alone)


def test_bytes_are_the_parts_and_a_head_for_each() -> None:
    coded = InParts(Uniform(4), 2).encode(np.concatenate([LARGE, SMALL]))
    number, data = registry.pack(coded)
    parts = [Uniform(4).encode(part).pack() for part in (LARGE, SMALL)]
    assert number == 11
    assert data == b"\x02" + b"".join(b"\x05" + len(part).to_bytes(4, "big") + part for part in parts)


def test_clipped_elements_add_up_and_draws_follow_one_another() -> None:
    coded = InParts(Uniform(4, -1.0, 1.0), 2).encode(np.concatenate([LARGE, SMALL]))
    assert coded.saturated == np.count_nonzero((LARGE < -1.0) | (LARGE >= 1.0)) > 0
    one, other = (np.random.default_rng(1) for _ in range(2))
    found = InParts(QSGD(2), 2).encode(np.concatenate([LARGE, SMALL]), one)
    np.testing.assert_array_equal(found.values[:8], QSGD(2).encode(LARGE, other).values)
    np.testing.assert_array_equal(found.values[8:], QSGD(2).encode(SMALL, other).values)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(BadInput, match=r"vector = \(9,\): must be of a length that is a multiple of 2"):
        InParts(Uniform(4), 2).encode(np.ones(9))
    with pytest.raises(BadInput, match="parts = 0"):
        InParts(Uniform(4), 0)
    with pytest.raises(BadInput, match="must be one without error feedback"):
        InParts(ErrorFeedback(Sign()), 2)


def test_hostile_bytes_end_in_an_error() -> None:
    good = InParts(Uniform(4), 2).encode(np.concatenate([LARGE, SMALL])).pack()
    for data in (b"", b"\x00", good[:-1], good + b"x", b"\x03" + good[1:], *(good[:cut] for cut in range(len(good)))):
        with pytest.raises(WireError, match=r"^[^\n]+$"):
            Several.unpack(data)
    nested = b"\x01\x0b" + len(good).to_bytes(4, "big") + good
    with pytest.raises(WireError, match="Several cannot be a part of Several"):
        Several.unpack(nested)
    vector, table = Floats.of(LARGE), Floats.of(np.ones((2, 3)))
    for parts in ((), (vector, table), (vector, 3), [vector]):
        with pytest.raises(WireError):
            Several(parts).pack()  # type: ignore[arg-type]


@pytest.mark.slow
def test_few_bytes_cannot_ask_for_much_memory() -> None:
    (number, wide) = registry.pack(TopK(1).encode(np.ones(1 << 24)))
    assert registry.KINDS[number] is Sparse
    part = number.to_bytes() + len(wide).to_bytes(4, "big") + wide
    with pytest.raises(WireError, match="at most 16777216"):
        Several.unpack(b"\x02" + 2 * part)
