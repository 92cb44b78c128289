"""Send integers modulo 2^m with a checksum; receivers guess the high bits from what they already know.

An integer x is sent as x mod 2^m. A receiver with a guess g recovers x if −2^(m−1) ≤ x − g < 2^(m−1) (phase
unwrapping). A worse guess gives a wrong integer, and the checksum detects this.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from netsim.errors import WireError
from netsim.util.typing import Vector
from netsim.wire.coded import Coded
from netsim.wire.packing import check_packed, check_shape, checked, pack, pack_shape, unpack, unpack_shape

MOST_WIDTH = 48
"""The maximum number of bits of a residue."""

Integers = NDArray[np.int64]

_LITTLE_ENDIAN = np.dtype("<i8")
# A residue is packed in chunks of at most this many bits, because `pack` takes integers of at most 16 bits.
_CHUNK = 16
_MAX_PARTS = 15
_WHOLE = 0x80


@dataclass(frozen=True)
class Residues(Coded):
    """Several vectors of n integers each; the integers of vector p are sent modulo 2^widths[p].

    On the wire (type number 10): a byte with the number of vectors, and its highest bit set if ``whole``; a byte for
    each width; two bytes of checksum; n; for each vector, the packed lowest 16 bits of all residues, then the packed
    next 16 bits, and so on.

    Attributes
    ----------
    shape : (int, int)
        The number of vectors, and n.
    widths : tuple of int
        The number of bits m of a residue, 0 … 48, for each vector. With 0 bits, the receiver's guess is used as it is.
    whole : bool
        Whether every integer lies in [−2^(m−1), 2^(m−1)), so that a receiver needs no guess.
    checksum : int
        16 bits of the CRC-32 of the integers.
    data : bytes
        The packed residues.
    """

    shape: tuple[int, int]
    widths: tuple[int, ...]
    whole: bool
    checksum: int
    data: bytes

    @classmethod
    def of(cls, parts: Sequence[Integers], widths: Sequence[int], *, whole: bool = False) -> Self:
        """Return the residues of the vectors ``parts``, all of the same length."""
        data = b"".join(
            pack((part >> low & (1 << bits) - 1).astype(np.uint16), bits)
            for part, width in zip(parts, widths, strict=True)
            for low, bits in _chunks(width)
        )
        return cls((len(parts), parts[0].size), tuple(map(int, widths)), whole, _checksum(parts), data)

    def unwrapped(self, guesses: Sequence[Integers]) -> list[Integers] | None:
        """Return the vectors of integers recovered from residues and guesses; None if the checksum does not match."""
        found = []
        for part, width, guess in zip(self._parts, self.widths, guesses, strict=True):
            half = 1 << width >> 1
            least = np.full_like(guess, -half) if self.whole else guess - half
            integers = part - least
            integers &= (1 << width) - 1
            integers += least
            found.append(integers)
        return found if _checksum(found) == self.checksum else None

    def check(self) -> None:
        """Raise WireError unless the attributes are consistent."""
        check_shape(self.shape)
        widths = self.widths
        if type(widths) is not tuple or not 0 < len(widths) <= _MAX_PARTS or len(self.shape) != 2:
            raise WireError(f"no residues have widths {widths!r:.60}")
        for width in widths:
            if type(width) is not int or not 0 <= width <= MOST_WIDTH:
                raise WireError(f"no residue has {width!r:.60} bits")
        if self.shape[1] and not any(widths):
            # Residues of 0 bits take no data, so a few hostile bytes could claim any number n of them.
            raise WireError("residues cannot all have 0 bits")
        sizes = (type(self.whole), type(self.checksum), type(self.data)) != (bool, int, bytes)
        if sizes or self.shape[0] != len(widths) or not 0 <= self.checksum < 1 << 16:
            raise WireError("the attributes of Residues have wrong types")
        length = sum(_bytes(self.shape[1], bits) for width in widths for _, bits in _chunks(width))
        if len(self.data) != length:
            raise WireError(f"{len(self.data)} bytes cannot hold residues of {widths} bits")

    @property
    def payload_bits(self) -> int:
        """Bits as papers count them: residues, widths and checksum."""
        return self.shape[1] * sum(self.widths) + 8 * (3 + len(self.widths))

    def pack(self) -> bytes:
        """Encode as bytes; raises WireError if the attributes are inconsistent."""
        self.check()
        head = bytes((len(self.widths) | _WHOLE * self.whole, *self.widths)) + self.checksum.to_bytes(2, "big")
        return head + pack_shape(self.shape[1:]) + self.data

    @classmethod
    def unpack(cls, data: bytes, /) -> Self:
        """Decode the bytes of `pack`; raises WireError for any other bytes."""
        count = data[0] & ~_WHOLE if data else 0
        if len(data) < 3 + count:
            raise WireError(f"{len(data)} bytes are not residues")
        shape, start = unpack_shape(data, 3 + count)
        if len(shape) != 1:
            raise WireError(f"no residues have shape {shape}")
        checksum = int.from_bytes(data[1 + count : 3 + count], "big")
        return checked(cls((count, shape[0]), tuple(data[1 : 1 + count]), data[0] >= _WHOLE, checksum, data[start:]))

    def decode(self) -> Vector:
        """Return the residues, one row per vector; the integers need guesses, see `unwrapped`."""
        return np.array(self._parts, dtype=np.float64).reshape(self.shape)

    @cached_property
    def _parts(self) -> list[Integers]:
        # This result is cached, because all receivers of a message share this object and need the residues.
        start, count, parts = 0, self.shape[1], []
        for width in self.widths:
            part = np.zeros(count, dtype=np.int64)
            for low, bits in _chunks(width):
                end = start + _bytes(count, bits)
                check_packed(self.data[start:end], bits, count)
                part |= unpack(self.data[start:end], bits, count).astype(np.int64) << low
                start = end
            parts.append(part)
        return parts


def width_of(most: int) -> int:
    """Return the number of bits m that suffices for an integer that differs from its guess by at most ``most``."""
    return int(2 * most).bit_length()


def _chunks(width: int) -> list[tuple[int, int]]:
    """Return the lowest bit and the number of bits of each chunk of at most 16 bits of a residue."""
    return [(low, min(_CHUNK, width - low)) for low in range(0, width, _CHUNK)]


def _bytes(count: int, bits: int) -> int:
    return -(-count * bits // 8)


def _checksum(parts: Sequence[Integers]) -> int:
    check = 0
    for part in parts:
        check = crc32(np.ascontiguousarray(part, _LITTLE_ENDIAN).data, check)
    return check & 0xFFFF
