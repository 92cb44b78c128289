"""Natural compression: round each element at random to a power of two, and send its sign and exponent.

Source: Horváth, Ho, Horváth, Sahu, Canini and Richtárik, "Natural compression for distributed deep learning", 2019
(MSML 2022).
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import WireError
from netsim.util import check
from netsim.util.typing import Vector
from netsim.wire.coded import Coded, Coder
from netsim.wire.inputs import generator, real_array
from netsim.wire.packing import check_packed, check_shape, pack, pack_shape, unpack, unpack_elements

ELEMENT_BITS = 9

# Exponents are coded as in float32: code c > 0 means 2**(c − 127), code 0 means 0.
_BIAS, _CODES = 127, 256
_LARGEST = 2.0 ** (_CODES - 1 - _BIAS)
_SMALLEST = 2.0 ** (1 - _BIAS)

_MAGNITUDES = np.ldexp(1.0, np.arange(_CODES) - _BIAS)
_MAGNITUDES[0] = 0.0
_VALUES = np.concatenate([_MAGNITUDES, -_MAGNITUDES])


@dataclass(frozen=True)
class Powers(Coded):
    """A vector or matrix whose elements are ± powers of two or 0, of 9 bits each: a sign and float32's exponent.

    On the wire (type number 13): the shape; the packed elements.

    Attributes
    ----------
    shape : tuple of int
        Shape of the array, n elements in all.
    data : bytes
        The packed elements. The highest of nine bits is the sign, 1 if negative; the others are a code c for
        2**(c − 127), or 0 for an element of 0.
    """

    shape: tuple[int, ...]
    data: bytes

    @property
    def payload_bits(self) -> int:
        """Bits as papers count them: 9 per element."""
        return ELEMENT_BITS * math.prod(self.shape)

    def pack(self) -> bytes:
        """Encode as bytes; raises WireError if the attributes are inconsistent."""
        count = check_shape(self.shape)
        if type(self.data) is not bytes:
            raise WireError("the attributes of Powers have wrong types")
        check_packed(self.data, ELEMENT_BITS, count)
        return pack_shape(self.shape) + self.data

    @classmethod
    def unpack(cls, data: bytes, /) -> Self:
        """Decode the bytes of `pack`; raises WireError for any other bytes."""
        return cls(*unpack_elements(data, ELEMENT_BITS))

    def decode(self) -> Vector:
        """Return the elements as float64."""
        values: Vector = _VALUES[unpack(self.data, ELEMENT_BITS, math.prod(self.shape))]
        return values.reshape(self.shape)


class Natural(Coder):
    """Round each element t at random to ± the power of two below or above |t|, so that E C(t) = t: 9 bits per element.

    With 2^a ≤ |t| < 2^(a+1), the higher power is chosen with probability |t|/2^a − 1; powers of two stay unchanged.
    The variance is at most ‖x‖²/8. Below 2⁻¹²⁶, float32's smallest normal number, the choice is between 0 and 2⁻¹²⁶:
    still unbiased, but with a variance of up to 2⁻¹²⁶ ‖x‖₁.

    Raises
    ------
    BadInput
        In `encode` if ``rng`` is missing, or an element is not finite or larger than 2¹²⁸ in absolute value.
    """

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Powers:
        """Return the coded array; rounding draws one number per element from ``rng``."""
        array = real_array(vector)
        draws = generator(rng)
        sizes = np.abs(array)
        if sizes.max(initial=0.0) > _LARGEST:
            raise check.refuse("vector", float(sizes.max()), f"at most {_LARGEST:g} in size")
        codes = _codes(sizes, draws.random(array.shape))
        codes |= (array < 0).astype(np.uint16) << np.uint16(ELEMENT_BITS - 1)
        return Powers(array.shape, pack(codes, ELEMENT_BITS))


def _codes(sizes: Vector, uniforms: Vector) -> NDArray[np.uint16]:
    """Round sizes at random to powers of two; return their codes."""
    # frexp: sizes = fraction · 2**exponent with a fraction in [½, 1)
    fraction, exponent = np.frexp(sizes)
    lower = exponent + (_BIAS - 1)
    tiny = sizes < _SMALLEST
    chance = np.where(tiny, sizes / _SMALLEST, 2.0 * fraction - 1.0)
    return (np.where(tiny, 0, lower) + (uniforms < chance)).astype(np.uint16)
