"""b-bit coders of real vectors and matrices: what travels is n integers of b bits, packed, and at most one float32.

`Uniform` is the dissertation's quantizer (ch. 3, on [u, v) with Δ = (v − u)/2ᵇ); `QSGD` the random, unbiased one of
Alistarh et al. 2017 that the gossip paper uses. Sender and receivers decode the same integers, so their copies agree
to the last bit.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim import check
from netsim.errors import BadInput, WireError
from netsim.packing import check_packed, pack, unpack

Vector = NDArray[np.float64]

_LARGEST = float(np.finfo(np.float32).max)

MOST_BITS = 16
"""The widest integer a coder may use for an element."""

METHODS = ("fixed", "range", "qsgd")
"""How integers become values; the number of each is its name on the wire."""


@dataclass(frozen=True)
class Quantized:
    """A coded vector or matrix: what travels, and the values that sender and receivers alike take it for.

    Attributes
    ----------
    method : str
        ``fixed``, ``range`` or ``qsgd``: how integers become values.
    bits : int
        Bits of a level.
    shape : tuple of int
        Shape of the array, n elements in all.
    scale : tuple of float
        ``fixed``: (u, v), agreed beforehand; ``range``: (r,) for the range [−r, r); ``qsgd``: (norm,). The latter two
        have one number for the array, or one for each row.
    data : bytes
        The packed integers.
    saturated : int
        How many elements lay outside the range and were clipped; known to the sender only, so not compared.
    """

    method: str
    bits: int
    shape: tuple[int, ...]
    scale: tuple[float, ...]
    data: bytes
    saturated: int = field(default=0, compare=False)

    def check(self) -> None:
        """Raise WireError unless the attributes fit each other, so that the values can be told and travel exactly."""
        if self.method not in METHODS or type(self.bits) is not int or not 1 <= self.bits <= MOST_BITS:
            raise WireError(f"no quantized vector has method {self.method!r} and {self.bits!r} bits")
        shape, scale = self.shape, self.scale
        if not (type(shape) is tuple and type(scale) is tuple and type(self.data) is bytes and len(shape) in (1, 2)):
            raise WireError("no quantized vector is made of such parts")
        room = 1
        for length in shape:
            if type(length) is not int or length < 0:
                raise WireError(f"no quantized vector has shape {shape!r}")
            room *= length or 1
        if room >= 1 << 48:
            # numpy cannot hold every shape with a zero in it.
            raise WireError(f"no quantized vector has shape {shape!r}")
        for number in scale:
            if type(number) is not float or (self.method != "fixed" and not 0.0 <= number <= _LARGEST):
                raise WireError(f"no {self.method} quantized vector has scale {number!r}")
        if self.method == "fixed":
            fits = len(scale) == 2 and 0.0 <= scale[1] - scale[0] < math.inf
        else:
            fits = len(scale) == 1 or (len(shape) == 2 and len(scale) == shape[0])
        if not fits:
            raise WireError(f"no {self.method} quantized vector of shape {shape} has {len(scale)} such scales")
        if self.method == "qsgd" and self.bits == MOST_BITS:
            # The packed signs come after the packed levels.
            check_packed(self.data[2 * self.count :], 1, self.count)
        else:
            check_packed(self.data, self.element_bits, self.count)

    @property
    def count(self) -> int:
        """Number of elements n."""
        return math.prod(self.shape)

    @property
    def element_bits(self) -> int:
        """Bits of an element: its level, and for QSGD a sign."""
        return self.bits + (self.method == "qsgd")

    @property
    def payload_bits(self) -> int:
        """Bits that the papers count: n·b, and 32 for each range or norm that travels along."""
        return self.count * self.element_bits + (0 if self.method == "fixed" else 32 * len(self.scale))

    @cached_property
    def values(self) -> Vector:
        """The decoded array, read-only."""
        values: Vector
        if self.method == "qsgd":
            codes = unpack(self.data, self.element_bits, self.count) if self.bits < MOST_BITS else self._wide()
            levels = codes & np.uint32((1 << self.bits) - 1)
            magnitude = self._each * (levels.reshape(self.shape) / ((1 << self.bits) - 1))
            codes = codes.reshape(self.shape)
            values = np.where(codes >> np.uint32(self.bits), -magnitude, magnitude)
        else:
            low, high = self.scale if self.method == "fixed" else (-self._each, self._each)
            step = (high - low) / (1 << self.bits)
            values = low + (unpack(self.data, self.bits, self.count).reshape(self.shape) + 0.5) * step
            if not np.all(step):
                values = np.where(step == 0.0, 0.0, values)
        values.flags.writeable = False
        return values

    @property
    def _each(self) -> Any:
        """The range or norm of each element: a number, or a column with one for each row."""
        return self.scale[0] if len(self.scale) == 1 else np.array(self.scale)[:, None]

    def _wide(self) -> NDArray[np.uint32]:
        """Return 17-bit codes: 16-bit levels and then the packed signs."""
        cut = 2 * self.count
        levels = unpack(self.data[:cut], 16, self.count).astype(np.uint32)
        return levels | (unpack(self.data[cut:], 1, self.count).astype(np.uint32) << np.uint32(16))

    def __array__(self, dtype: type | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        """Return the decoded values, so that numpy functions take a coded array as it is."""
        return np.array(self.values, dtype=dtype, copy=bool(copy)) if copy else np.asarray(self.values, dtype=dtype)


Coded = Quantized | NDArray[np.floating[Any]]
"""What a coder returns and a receiver gets; `decoded` gives its values."""


class Coder(Protocol):
    """Turns a vector, or a matrix, into what travels.

    Attributes
    ----------
    whole : bool
        Whether it is precise enough to code a state itself rather than the change of one.
    """

    whole: bool

    def encode(self, array: ArrayLike, rng: np.random.Generator, /) -> Coded:
        """Return the coded array; a coder that rounds at random draws from ``rng``."""
        ...


def decoded(coded: Coded) -> Vector:
    """Return the values that sender and receivers alike take a coded array for, in its shape."""
    return coded.values if isinstance(coded, Quantized) else np.asarray(coded, dtype=np.float64)


class Float:
    """Floating-point numbers of 64, 32 or 16 bits.

    Raises
    ------
    BadInput
        If ``bits`` is another number; in `encode` if an element is not finite, or too large for so few bits.
    """

    whole = True

    def __init__(self, bits: int) -> None:
        if not isinstance(bits, int | np.integer) or bits not in (16, 32, 64):
            raise check.refuse("bits", bits, "16, 32 or 64")
        self.bits = int(bits)
        self._dtype = np.dtype(f"<f{self.bits // 8}")

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> NDArray[np.floating[Any]]:
        """Return the rounded array; ``rng`` is not used."""
        exact = _real_array(vector)
        limit = float(np.finfo(self._dtype).max)
        if np.abs(exact).max(initial=0.0) > limit:
            raise check.refuse("vector", float(np.abs(exact).max()), f"at most {limit:g} for {self.bits} bits")
        return exact.astype(self._dtype)


def _real_array(vector: ArrayLike) -> Vector:
    array = np.asarray(vector)
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        array = check.finite_array("vector", vector)
    if array.ndim not in (1, 2):
        raise check.refuse("vector", array.shape, "of one or two dimensions")
    return array.astype(np.float64, copy=False)


def _scales(sizes: Any) -> tuple[float, ...]:
    """Return the float32 numbers, as they travel, that are not below the sizes: one, or one for each row."""
    return tuple(_float32_above(size) for size in np.atleast_1d(sizes).tolist())


def _columns(scale: tuple[float, ...], by_row: bool) -> Any:
    """Return scales to divide an array by: a number, or a column with one for each row."""
    return np.array(scale)[:, None] if by_row else scale[0]


def _matrix(array: Vector) -> Vector:
    if array.ndim != 2:
        raise check.refuse("vector", array.shape, "a matrix, for by_row = True")
    return array


def _float32_above(value: float) -> float:
    """Return the smallest float32 that is not below ``value``."""
    if not value <= _LARGEST:
        raise BadInput(f"vector has size {value:g}: must be at most {_LARGEST:g}, float32's largest number")
    rounded = np.float32(value)
    return float(rounded if float(rounded) >= value else np.nextafter(rounded, np.float32(np.inf)))


class Uniform:
    """The b-bit uniform quantizer: the integer ⌊(h − u)/Δ⌋ travels and u + (integer + ½)Δ is decoded.

    With ``low`` and ``high`` the range [u, v) is fixed: no side information, values outside saturate and are counted.
    Without, it is ±max|h| of each message, as one float32 that travels along; a vector of zeros then decodes to zeros.
    Within the range the error is at most Δ/2 (dissertation ch. 3). With ``by_row`` each row of a matrix has a range
    of its own.

    Raises
    ------
    BadInput
        If ``bits`` is not in 1…16, only one end is given, or ``low`` ≥ ``high``; in `encode` if an element is not
        finite, or beyond float32's range where the range is the message's.
    """

    whole = False

    def __init__(self, bits: int, low: float | None = None, high: float | None = None, *, by_row: bool = False) -> None:
        self.bits = check.integer("bits", bits, low=1, high=MOST_BITS)
        self.by_row = check.flag("by_row", by_row)
        if by_row and low is not None:
            raise BadInput(f"by_row = True, low = {low!r}: must go without a fixed range, which is that of every row")
        self.fixed: tuple[float, float] | None = None
        if (low is None) != (high is None):
            allowed = "both be given (fixed range) or both be None (per-message range)"
            raise BadInput(f"low = {low!r}, high = {high!r}: must {allowed}")
        if low is not None and high is not None:
            low = check.finite("low", low)
            high = check.finite("high", high, above=low)
            if np.isinf(high - low):
                raise BadInput(f"high = {high:g}: must be within float64's range of low = {low:g}")
            self.fixed = (low, high)

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Quantized:
        """Return the coded array; ``rng`` is not used."""
        h = _real_array(vector)
        scale: tuple[float, ...]
        if self.fixed:
            scale, (low, high) = self.fixed, self.fixed
            saturated = int(np.count_nonzero((h < low) | (h >= high)))
        else:
            scale = _scales(np.abs(_matrix(h)).max(axis=1, initial=0.0) if self.by_row else np.abs(h).max(initial=0.0))
            high = _columns(scale, self.by_row)
            low, saturated = -high, 0
        levels = 1 << self.bits
        step = (high - low) / levels
        # Where a range is zero all elements are.
        integers = np.floor((h - low) / (step if np.all(step) else np.where(step == 0.0, 1.0, step)))
        data = pack(np.clip(integers, 0, levels - 1).astype(np.uint16), self.bits)
        return Quantized("fixed" if self.fixed else "range", self.bits, h.shape, scale, data, saturated)


class QSGD:
    """The random quantizer: |v_i|/‖v‖ is rounded at random to one of the levels 0, 1/M, …, 1 with M = 2ᵇ − 1, unbiased.

    What travels is the norm (float32), and for each element a sign and a b-bit level: n·(b + 1) + 32 bits.
    E‖Q(v) − v‖² ≤ min(n/M², √n/M)·‖v‖² (Alistarh et al. 2017, lemma 3.1; the gossip paper's eq. 12 with |v_i|). With
    ``by_row`` each row of a matrix has a norm of its own: several models in one message.

    Raises
    ------
    BadInput
        If ``bits`` is not in 1…16; in `encode` if an element is not finite.
    """

    whole = False

    def __init__(self, bits: int, *, by_row: bool = False) -> None:
        self.bits = check.integer("bits", bits, low=1, high=MOST_BITS)
        self.by_row = check.flag("by_row", by_row)

    def encode(self, vector: ArrayLike, rng: np.random.Generator) -> Quantized:
        """Return the coded array; rounding draws a number for each element from ``rng``."""
        v = _real_array(vector)
        axis = _matrix(v).ndim - 1 if self.by_row else None
        with np.errstate(over="ignore"):
            norms = np.linalg.norm(v, axis=axis)
        if not np.all(norms):
            # Squares of very small elements are zero where the elements are not.
            norms = np.where(norms == 0.0, np.abs(v).max(axis=axis, initial=0.0), norms)
        scale = _scales(norms)
        norm = _columns(scale, self.by_row)
        # The norm was rounded up, so no |v_i|/norm exceeds 1.
        top = (1 << self.bits) - 1
        exact = np.abs(v) * (top / (norm if np.all(norm) else np.where(norm == 0.0, 1.0, norm)))
        levels = np.minimum(np.floor(exact + rng.random(v.shape)), top).astype(np.uint16)
        if self.bits < MOST_BITS:
            data = pack(levels | ((v < 0).astype(np.uint16) << np.uint16(self.bits)), self.bits + 1)
        else:
            data = pack(levels, 16) + pack((v < 0).astype(np.uint16), 1)
        return Quantized("qsgd", self.bits, v.shape, scale, data)
