"""The sign coder: one bit per element, and one scale for the whole array.

Sources: Seide et al., "1-bit stochastic gradient descent", 2014; for the scale, Karimireddy, Rebjock, Stich and Jaggi,
"Error feedback fixes SignSGD and other gradient compression schemes", 2019.
"""

import math
import struct
from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from netsim.errors import WireError
from netsim.util.typing import Vector
from netsim.wire.coded import Coded, Coder
from netsim.wire.inputs import LARGEST, float32_nearest, real_array
from netsim.wire.packing import check_packed, check_shape, checked, pack, pack_shape, unpack, unpack_shape

_SCALE = struct.Struct("<f")


@dataclass(frozen=True)
class Scaled(Coded):
    """Base class of coded arrays in which each element is a scale times one of a few levels; subclasses define these.

    On the wire: the shape; the scale (float32); the data.

    Attributes
    ----------
    shape : tuple of int
        Shape of the array, n elements in all.
    scale : float
        Largest absolute value of an element.
    data : bytes
        The packed levels.
    """

    shape: tuple[int, ...]
    scale: float
    data: bytes

    @abstractmethod
    def check(self) -> None:
        """Raise WireError unless ``data`` has the length that the shape requires."""

    def pack(self) -> bytes:
        """Encode as bytes; raises WireError if the attributes are inconsistent, or the scale is not a float32."""
        self.check()
        scale = self.scale
        if type(scale) is not float or not 0.0 <= scale <= LARGEST or _SCALE.unpack(_SCALE.pack(scale))[0] != scale:
            raise WireError(f"cannot encode the scale {scale!r:.60}: it is not a float32")
        return pack_shape(self.shape) + _SCALE.pack(scale) + self.data

    @classmethod
    def unpack(cls, data: bytes, /) -> Self:
        """Decode the bytes of `pack`; raises WireError for any other bytes."""
        shape, start = unpack_shape(data)
        if len(data) < start + 4:
            raise WireError(f"{len(data)} bytes have no shape and scale")
        (scale,) = _SCALE.unpack_from(data, start)
        if not 0.0 <= scale <= LARGEST:
            raise WireError(f"no coded array has scale {scale}")
        return checked(cls(shape, scale, data[start + 4 :]))


@dataclass(frozen=True)
class Signs(Scaled):
    """A vector or matrix whose elements are ± ``scale``, with one bit per element, 1 if negative.

    The type number on the wire is 8.
    """

    def check(self) -> None:
        """Raise WireError unless ``data`` has the length that the shape requires."""
        count = check_shape(self.shape)
        if type(self.data) is not bytes:
            raise WireError("the attributes of Signs have wrong types")
        check_packed(self.data, 1, count)

    @property
    def payload_bits(self) -> int:
        """Bits as papers count them: n, plus 32 for the scale."""
        return math.prod(self.shape) + 32

    def decode(self) -> Vector:
        """Return ± scale for each element."""
        negative = unpack(self.data, 1, math.prod(self.shape)).reshape(self.shape)
        return np.where(negative, -self.scale, self.scale)


class Sign(Coder):
    """Send each element's sign and the mean absolute value: C(x) = (‖x‖₁/n)·sign(x), with sign(0) = 1.

    A message takes n + 32 bits. The coder C is biased, with ‖x − C(x)‖² = ‖x‖² − ‖x‖₁²/n, up to the rounding of the
    mean to float32.

    Raises
    ------
    BadInput
        In `encode` if an element is not finite, or the mean absolute value is beyond float32's range.
    """

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Signs:
        """Return the coded array; ``rng`` is not used."""
        array = real_array(vector)
        with np.errstate(over="ignore"):
            mean = float(np.abs(array).sum() / max(array.size, 1))
        return Signs(array.shape, float32_nearest(mean), pack((array < 0).astype(np.uint16), 1))
