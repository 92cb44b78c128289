"""Residue coding: exact if the receiver's guess is close, detection of a wrong guess, and cost in bits."""

import numpy as np
import pytest

from netsim.coders import Residues
from netsim.coders.residues import width_of
from netsim.errors import WireError
from netsim.wire import registry
from tests.parts import every


def vectors(seed: int = 0, count: int = 37) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-1000, 1000, count), rng.integers(-(2**40), 2**40, count)]


@pytest.mark.parametrize("most", [0, 1, 2, 3, 7, 8, 255, 40_000, 2**30])
def test_a_guess_within_the_width_finds_the_numbers(most: int) -> None:
    rng = np.random.default_rng(most)
    parts = vectors()
    off = [rng.integers(-most, most + 1, part.size) for part in parts]
    for each in off:
        each[:2] = -most, most
    width = max(1, width_of(most))
    coded = Residues.of(parts, [width, width])
    found = coded.unwrapped([part + each for part, each in zip(parts, off, strict=True)])
    assert found is not None
    np.testing.assert_array_equal(found, parts)
    assert width <= most.bit_length() + 1


def test_a_guess_too_far_is_noticed() -> None:
    parts = vectors()
    coded = Residues.of(parts, [4, 4])
    assert coded.unwrapped([parts[0], parts[1] + 7]) is not None
    guess = parts[1].copy()
    guess[5] += 9
    assert coded.unwrapped([parts[0], guess]) is None


def test_whole_ones_need_no_guess() -> None:
    parts = vectors()
    coded = Residues.of(parts, [width_of(1000), width_of(2**40)], whole=True)
    found = coded.unwrapped([np.zeros(37, np.int64), np.full(37, 10**6)])
    assert found is not None
    np.testing.assert_array_equal(found, parts)


@every("widths", [[1], [3, 0], [16, 17], [33, 48], [2, 5, 11]])
@every("count", [0, 1, 37])
def test_bytes_and_bits_are_those_of_the_residues(widths: list[int], count: int) -> None:
    rng = np.random.default_rng(1)
    parts = [rng.integers(-(2**45), 2**45, count) for _ in widths]
    coded = Residues.of(parts, widths)
    number, data = registry.pack(coded)
    assert number == 10
    assert registry.unpack(number, data) == coded
    assert coded.payload_bits == count * sum(widths) + 8 + 8 * len(widths) + 16
    chunks = [16] * (sum(widths) // 16)
    assert len(data) <= 4 + len(widths) + coded.payload_bits // 8 + len(chunks) + len(widths)
    np.testing.assert_array_equal(coded.values, [part % 2**width for part, width in zip(parts, widths, strict=True)])


def test_the_checksum_misses_few_wrong_numbers() -> None:
    parts = [np.arange(50)]
    coded = Residues.of(parts, [2])
    rng = np.random.default_rng(2)
    # Every wrong unwrapping differs from the value by a multiple of 4.
    missed = sum(coded.unwrapped([parts[0] + 4 * rng.integers(-5, 6, 50)]) is not None for _ in range(2000))
    assert missed <= 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        b"\x00\x00\x00\x05",
        b"\x01\x00\x00\x00\x05",  # five residues of 0 bits
        b"\x01\x31\x00\x00\x00",  # a width of 49 bits
        b"\x01\x08\x00\x00\x05abcd",
        b"\x01\x08\x00\x00\x92\x01\x05abcde",
        b"\x01\x01\x00\x00\xcf\x00\x00\xff\xff\xff\xff\xff\xff",
    ],
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        registry.unpack(10, data)
