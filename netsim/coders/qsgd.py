"""QSGD: the randomized, unbiased quantizer of Alistarh et al., 2017; Ortega and Jafarkhani, 2023, use it for gossip."""

import numpy as np
from numpy.typing import ArrayLike

from netsim.coders.quantized import MOST_BITS, Quantized
from netsim.util import check
from netsim.util.typing import Vector
from netsim.wire.coded import Coder
from netsim.wire.inputs import columns, generator, matrix, real_array, scales, without_zero
from netsim.wire.packing import check_packed, levels, pack, shares, signed_levels, unpack


class NormLevels(Quantized, method="qsgd", code=2):
    """A sign and a b-bit level in units of norm/(2ᵇ − 1) for each element; ``scale`` holds one norm, or one per row.

    On the wire each sign is the bit before its level. Only if levels have 16 bits, all signs follow after all levels.
    """

    @property
    def element_bits(self) -> int:
        """The bits of one element: of its sign and its level."""
        return self.bits + 1

    def check_data(self, count: int) -> None:
        """Raise WireError unless the data have the length of ``count`` elements."""
        if self.bits == MOST_BITS:
            check_packed(self.data[2 * count :], 1, count)
        else:
            check_packed(self.data, self.bits + 1, count)

    def decode(self) -> Vector:
        """Return the elements: ± norm · level/(2ᵇ − 1)."""
        if self.bits < MOST_BITS:
            check_packed(self.data, self.element_bits, self.count)
            return shares(self.data, self.bits, self.shape, self.each)
        cut = 2 * self.count
        magnitude = self.each * (unpack(self.data[:cut], 16, self.count).reshape(self.shape) / ((1 << 16) - 1))
        negative = unpack(self.data[cut:], 1, self.count).reshape(self.shape)
        values: Vector = np.where(negative, -magnitude, magnitude)
        return values


class QSGD(Coder):
    """Round each |v_i|/‖v‖ at random, without bias, to one of the levels 0, 1/M, …, 1 with M = 2ᵇ − 1.

    A message holds the norm (float32) and, for each element, a sign and a b-bit level: n·(b + 1) + 32 bits. The coder Q
    has E‖Q(v) − v‖² ≤ min(n/M², √n/M)·‖v‖² (Alistarh et al. 2017, lemma 3.1; Ortega and Jafarkhani 2023, eq. 12, with
    |v_i| in place of v_i). With ``by_row`` each row of a matrix has its own norm, which suits several models in one
    message.

    Raises
    ------
    BadInput
        If ``bits`` is not in 1…16. In `encode`, if an element is not finite or ``rng`` is missing.
    """

    def __init__(self, bits: int, *, by_row: bool = False) -> None:
        self.bits = check.integer("bits", bits, low=1, high=MOST_BITS)
        self.by_row = check.flag("by_row", by_row)

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Quantized:
        """Return the coded array; rounding draws one number per element from ``rng``."""
        v = real_array(vector)
        draws = generator(rng)
        axis = matrix(v).ndim - 1 if self.by_row else None
        with np.errstate(over="ignore"):
            norms = np.linalg.norm(v, axis=axis)
        if not np.all(norms):
            # If the squares of tiny elements underflow to a norm of 0, the largest absolute value replaces the norm.
            norms = np.where(norms == 0.0, np.abs(v).max(axis=axis, initial=0.0), norms)
        scale = scales(norms)
        norm = columns(scale, self.by_row)
        # Since `scales` rounds the norm up, no |v_i|/norm exceeds 1.
        factor = ((1 << self.bits) - 1) / without_zero(norm)
        uniforms = draws.random(v.shape)
        if self.bits < MOST_BITS:
            data = signed_levels(v, factor, uniforms, self.bits)
        else:
            data = pack(levels(v, factor, uniforms, 16), 16) + pack((v < 0).astype(np.uint16), 1)
        return NormLevels(self.bits, v.shape, scale, data)
