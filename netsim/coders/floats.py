"""Coders that send floating-point numbers: unchanged (`Exact`), or rounded to fewer bits (`Float`)."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import BadInput, WireError
from netsim.util import check
from netsim.util.typing import Vector
from netsim.wire.coded import Coded, Coder, Encoded, decoded
from netsim.wire.inputs import real_array
from netsim.wire.packing import check_shape, checked, pack_shape, to_float32, unpack_shape

_WIDTHS = (16, 32, 64)


class Exact(Coder):
    """Send the array itself as float64, with 64 bits per element, as agents without a coder do.

    Elements need not be finite, so an agent whose state diverged can still send it.
    """

    whole = True

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """Return the array as float64, without a copy if possible; ``rng`` is not used.

        Raises
        ------
        BadInput
            If ``vector`` is not an array of real numbers.
        """
        if type(vector) is np.ndarray and vector.dtype == np.float64:
            return vector
        try:
            if np.iscomplexobj(vector):
                # Refuse complex numbers, because `asarray` would drop the imaginary parts.
                raise TypeError
            return np.asarray(vector, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise check.refuse("vector", vector, "an array of real numbers") from None

    def decode(self, coded: Encoded) -> Vector:
        """Return the array as float64, without a copy if it is a float64 array."""
        if type(coded) is np.ndarray and coded.dtype == np.float64:
            values: Vector = coded  # type: ignore[assignment]
            return values
        return decoded(coded)


class Float(Coder):
    """Round to floating-point numbers of 64, 32 or 16 bits, sent as a numpy array.

    Raises
    ------
    BadInput
        If ``bits`` is not 64, 32 or 16. In `encode`, if an element is not finite, or too large for ``bits`` bits.
    """

    whole = True

    def __init__(self, bits: int) -> None:
        if not isinstance(bits, int | np.integer) or bits not in _WIDTHS:
            raise check.refuse("bits", bits, "16, 32 or 64")
        self.bits = int(bits)
        self._dtype = np.dtype(f"<f{self.bits // 8}")

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> NDArray[np.floating[Any]]:
        """Return the rounded array; ``rng`` is not used."""
        if self.bits == 32 and (rounded := to_float32(vector)) is not None:
            return rounded
        exact = real_array(vector)
        limit = float(np.finfo(self._dtype).max)
        if np.abs(exact).max(initial=0.0) > limit:
            raise check.refuse("vector", float(np.abs(exact).max()), f"at most {limit:g} for {self.bits} bits")
        return exact.astype(self._dtype)


@dataclass(frozen=True)
class Floats(Coded):
    """Finite floats of 16, 32 or 64 bits as a coded array, for use inside other coded arrays such as `Sparse`.

    On the wire (type number 6): a byte with the number of bits, the shape, the numbers (little-endian).

    Attributes
    ----------
    bits : int
        The number of bits of each float.
    shape : tuple of int
        Shape of the vector or matrix.
    data : bytes
        The packed numbers, little-endian.
    """

    bits: int
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, array: NDArray[np.floating[Any]]) -> Self:
        """Wrap an array of 16, 32 or 64-bit floats; raises BadInput for another dtype, or for NaN or infinity."""
        bits = 8 * array.dtype.itemsize
        if array.dtype.kind != "f" or bits not in _WIDTHS:
            raise BadInput(f"an array of dtype {array.dtype}: must be of floats of 16, 32 or 64 bits")
        if not np.isfinite(array).all():
            raise BadInput(f"an array of {array.dtype} that is not finite: must be finite")
        return cls(bits, array.shape, array.astype(f"<f{bits // 8}", copy=False).tobytes())

    def check(self) -> None:
        """Raise WireError unless the attributes are consistent and the numbers finite."""
        if type(self.bits) is not int or self.bits not in _WIDTHS or type(self.data) is not bytes:
            raise WireError(f"floats must have 16, 32 or 64 bits, not {self.bits!r:.60}")
        count = check_shape(self.shape)
        if 8 * len(self.data) != count * self.bits:
            raise WireError(f"{len(self.data)} bytes cannot hold {count} floats of {self.bits} bits")
        if not np.isfinite(np.frombuffer(self.data, f"<f{self.bits // 8}")).all():
            raise WireError("floats in a coded array must be finite")

    @property
    def payload_bits(self) -> int:
        """Bits as papers count them: ``bits`` per number."""
        return 8 * len(self.data)

    def pack(self) -> bytes:
        """Encode as bytes; raises WireError if the attributes are inconsistent."""
        self.check()
        return bytes((self.bits,)) + pack_shape(self.shape) + self.data

    @classmethod
    def unpack(cls, data: bytes, /) -> Self:
        """Decode the bytes of `pack`; raises WireError for any other bytes."""
        if not data:
            raise WireError("0 bytes are not floats")
        shape, start = unpack_shape(data, 1)
        return checked(cls(data[0], shape, data[start:]))

    def decode(self) -> Vector:
        """Return the numbers as float64."""
        return np.frombuffer(self.data, f"<f{self.bits // 8}").astype(np.float64).reshape(self.shape)
