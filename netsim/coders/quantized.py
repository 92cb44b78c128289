"""Coded arrays of n packed b-bit integers with a scale: the results of `Uniform` and `QSGD`.

On the wire (type number 5): a byte that combines b, the number of the method, and whether each row has a scale; the
shape; the scale; the packed integers (b bits each, or b + 1 bits with the signs of `QSGD`).
"""

import math
import struct
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from netsim.errors import WireError
from netsim.wire.coded import Coded
from netsim.wire.inputs import LARGEST
from netsim.wire.packing import check_packed, check_shape, checked, pack_shape, unpack_shape

MOST_BITS = 16
"""The maximum number b of bits of a quantized element."""

_METHODS: "dict[int, type[Quantized]]" = {}


@dataclass(frozen=True)
class Quantized(Coded):
    """A vector or matrix of b-bit integers; each subclass defines one method to decode the integers.

    A subclass passes two class arguments: ``method``, the method's name in error messages, and ``code``, the method's
    number in the first byte on the wire.

    Attributes
    ----------
    bits : int
        The number b of bits of an integer, 1 … 16.
    shape : tuple of int
        Shape of the array, n elements in all.
    scale : tuple of float
        The half-width of the range (`MessageRange`) or the norm (`NormLevels`): one float32 for the array, or one for
        each row. For `FixedRange`, the two ends of the range.
    data : bytes
        The packed integers.
    saturated : int
        Number of elements clipped to the range. Only the sender knows it, so comparisons ignore it.
    """

    bits: int
    shape: tuple[int, ...]
    scale: tuple[float, ...]
    data: bytes
    saturated: int = field(default=0, compare=False)

    method: ClassVar[str]
    code: ClassVar[int]
    side: ClassVar[str] = "f"

    def __init_subclass__(cls, method: str, code: int) -> None:
        cls.method, cls.code = method, code
        _METHODS[code] = cls

    def check(self) -> None:
        """Raise WireError unless the attributes are consistent, so that `pack` and `decode` can work."""
        if type(self.bits) is not int or not 1 <= self.bits <= MOST_BITS:
            raise WireError(f"no {self.method} quantized vector has {self.bits!r:.60} bits")
        if type(self.scale) is not tuple or type(self.data) is not bytes:
            raise WireError(f"no {self.method} quantized vector has attributes of wrong types")
        count = check_shape(self.shape)
        if not self.fits():
            raise WireError(f"no {self.method} quantized vector of shape {self.shape} has scale {self.scale!r:.60}")
        self.check_data(count)

    def fits(self) -> bool:
        """Return whether the scale is valid: one number, or one per row, each between 0 and the largest float32."""
        for number in self.scale:
            if type(number) is not float or not 0.0 <= number <= LARGEST:
                return False
        return len(self.scale) == 1 or (len(self.shape) == 2 and len(self.scale) == self.shape[0])

    def check_data(self, count: int) -> None:
        """Raise WireError unless the data have the length of ``count`` elements."""
        check_packed(self.data, self.element_bits, count)

    @property
    def count(self) -> int:
        """Number of elements n."""
        return math.prod(self.shape)

    @property
    def element_bits(self) -> int:
        """Bits of one element."""
        return self.bits

    @property
    def payload_bits(self) -> int:
        """Bits as papers count them: n times `element_bits`, plus 32 for each float32 of the scale."""
        return self.count * self.element_bits + 32 * len(self.scale)

    @property
    def each(self) -> Any:
        """The scale in a shape by which the array can be multiplied: one number, or a column with a number per row."""
        return self.scale[0] if len(self.scale) == 1 else np.array(self.scale)[:, None]

    def pack(self) -> bytes:
        """Encode as bytes; raises WireError if the attributes are inconsistent, or the scale is not a float32."""
        self.check()
        scale = self.scale
        form = f"<{len(scale)}{self.side}"
        side = struct.pack(form, *scale)
        if struct.unpack(form, side) != scale:
            raise WireError(f"cannot encode a quantized vector of scale {scale}: it is not a float32")
        by_row = self.side == "f" and len(scale) != 1
        return bytes((self.code << 5 | self.bits | by_row << 7,)) + pack_shape(self.shape) + side + self.data

    @classmethod
    def unpack(cls, data: bytes, /) -> Self:
        """Decode the bytes of `pack` of any subclass of this class; raises WireError for any other bytes."""
        kind = _METHODS.get(data[0] >> 5 & 3) if data else None
        if kind is None or not issubclass(kind, cls):
            raise WireError(f"{len(data)} bytes are not a quantized vector: there is no such method")
        shape, start = unpack_shape(data, 1)
        by_row = data[0] >> 7
        if by_row and (kind.side != "f" or len(shape) != 2):
            raise WireError(f"no {kind.method} quantized vector of shape {shape} has a scale for each row")
        count = 2 if kind.side == "d" else shape[0] if by_row else 1
        end = start + count * (8 if kind.side == "d" else 4)
        if len(data) < end:
            raise WireError(f"{len(data)} bytes cannot hold a quantized vector of shape {shape}")
        scale = struct.unpack(f"<{count}{kind.side}", data[start:end])
        return checked(kind(data[0] & 31, shape, scale, data[end:]))
