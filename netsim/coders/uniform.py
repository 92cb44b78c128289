"""The b-bit uniform quantizer on a range [u, v), with cells of width Δ = (v − u)/2ᵇ.

Source: P. Xu, "Communication-efficient optimization and learning for distributed multi-agent systems", PhD
dissertation, chapter 3.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from netsim.coders.quantized import MOST_BITS, Quantized
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Vector
from netsim.wire.coded import Coder
from netsim.wire.inputs import columns, float32_above, matrix, real_array, scales
from netsim.wire.packing import cells, largest, middles


class FixedRange(Quantized, method="fixed", code=0):
    """Elements are cell numbers in a range [u, v) that all agents know.

    ``scale`` is (u, v), and costs no payload bits.
    """

    side = "d"

    def fits(self) -> bool:
        """Return whether the scale is a range (u, v): two floats with u ≤ v and a finite difference v − u."""
        scale = self.scale
        return list(map(type, scale)) == [float, float] and 0.0 <= scale[1] - scale[0] < math.inf

    @property
    def payload_bits(self) -> int:
        """Bits as papers count them: n·b."""
        return self.count * self.bits

    def decode(self) -> Vector:
        """Return the middle of each element's cell."""
        return middles(self.data, self.bits, self.shape, *self.scale)


class MessageRange(Quantized, method="range", code=1):
    """Elements are cell numbers in a range [−r, r) that is sent with the message.

    ``scale`` is (r,), or holds an r for each row.
    """

    def decode(self) -> Vector:
        """Return the middle of each element's cell."""
        return middles(self.data, self.bits, self.shape, -self.each, self.each)


class Uniform(Coder):
    """The b-bit uniform quantizer: an element h is sent as its cell number i = ⌊(h − u)/Δ⌋, decoded as u + (i + ½)Δ.

    With ``low`` and ``high``, the range [u, v) is fixed and not sent; values outside the range saturate and are
    counted. With ``saturate=False``, as in equation 3.21 of the dissertation, Δ stays constant, and a message with
    values outside [u, v) takes more bits per element, up to 16, and so more payload bits. Without ``low`` and
    ``high``, each message has the range ±max|h|, sent as a float32; a vector of zeros decodes to zeros. Within the
    range the error is at most Δ/2. With ``by_row`` each row of a matrix has its own range.

    Raises
    ------
    BadInput
        If ``bits`` is not in 1…16, only one of ``low`` and ``high`` is given, ``low`` ≥ ``high``, or ``saturate`` is
        False without ``low`` and ``high``. In `encode`, if an element is not finite or, without a fixed range, beyond
        float32's range.
    """

    def __init__(
        self,
        bits: int,
        low: float | None = None,
        high: float | None = None,
        *,
        by_row: bool = False,
        saturate: bool = True,
    ) -> None:
        self.bits = check.integer("bits", bits, low=1, high=MOST_BITS)
        self.by_row = check.flag("by_row", by_row)
        if by_row and low is not None:
            raise BadInput(
                f"by_row = True, low = {low!r}: must go without a fixed range, which is the same for all rows"
            )
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
        self.unsaturated = not check.flag("saturate", saturate)
        if self.unsaturated and self.fixed is None:
            raise BadInput("saturate = False: must go with low and high; a range per message has no elements outside")

    @property
    def low(self) -> float | None:
        """The lower end of the fixed range; None if each message has its own range."""
        return None if self.fixed is None else self.fixed[0]

    @property
    def high(self) -> float | None:
        """The upper end of the fixed range; None if each message has its own range."""
        return None if self.fixed is None else self.fixed[1]

    @property
    def saturate(self) -> bool:
        """Whether values outside the fixed range saturate."""
        return not self.unsaturated

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Quantized:
        """Return the coded array; ``rng`` is not used."""
        h = real_array(vector)
        if self.fixed:
            bits, low, high = self._wide_enough(h) if self.unsaturated else (self.bits, *self.fixed)
            data, saturated = cells(h, low, high, bits)
            return FixedRange(bits, h.shape, (low, high), data, saturated)
        scale = scales(np.abs(matrix(h)).max(axis=1, initial=0.0)) if self.by_row else (float32_above(largest(h)),)
        reach = columns(scale, self.by_row)
        return MessageRange(self.bits, h.shape, scale, cells(h, -reach, reach, self.bits)[0])

    def _wide_enough(self, h: Vector) -> tuple[int, float, float]:
        """Return bits and ends of a range that contains ``h``: the fixed range, doubled for each additional bit.

        Doubling stops at `MOST_BITS` bits, or before the range would be infinite, even if ``h`` does not fit yet.
        """
        assert self.fixed is not None
        bits, (low, high) = self.bits, self.fixed
        smallest, largest = h.min(initial=low), h.max(initial=low)
        while bits < MOST_BITS and not (low <= smallest and largest < high) and math.isfinite(2.0 * (high - low)):
            half = (high - low) / 2.0
            bits, low, high = bits + 1, low - half, high + half
        return bits, low, high
