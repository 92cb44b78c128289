"""An unbiased coder that rounds to three levels, −s, 0 and s.

Source: Wen et al., "TernGrad: ternary gradients to reduce communication in distributed deep learning", 2017.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from netsim.coders.sign import Scaled
from netsim.errors import WireError
from netsim.util.typing import Vector
from netsim.wire.coded import Coder
from netsim.wire.inputs import float32_above, generator, real_array
from netsim.wire.packing import check_shape

_POWERS = np.array([81, 27, 9, 3, 1], dtype=np.uint8)
# Row i holds the five elements, −1, 0 or 1, that byte i encodes.
_DIGITS = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=5)))


@dataclass(frozen=True)
class Trits(Scaled):
    """A vector or matrix with elements −s, 0 or s, five per byte, since 3⁵ = 243 ≤ 256.

    ``scale`` is s. Five elements x_0 … x_4 make the byte Σ_i (1 + x_i/s)·3^(4 − i); the last byte is padded with
    elements of 0. The type number on the wire is 9.
    """

    def check(self) -> None:
        """Raise WireError unless ``data`` has the length that the shape requires, and valid bytes."""
        count = check_shape(self.shape)
        if type(self.data) is not bytes or len(self.data) != -(-count // 5):
            raise WireError(f"{len(self.data)} bytes cannot hold {count} elements of three levels")
        largest = np.frombuffer(self.data, np.uint8).max(initial=0)
        if largest >= len(_DIGITS):
            raise WireError(f"the byte {largest} does not encode five elements of three levels")

    @property
    def payload_bits(self) -> int:
        """Bits as papers count them: 8⌈n/5⌉, or 1.6 per element, plus 32 for the scale."""
        return 8 * len(self.data) + 32

    def decode(self) -> Vector:
        """Return the elements −s, 0 or s."""
        digits: Vector = _DIGITS[np.frombuffer(self.data, np.uint8)].ravel()[: math.prod(self.shape)]
        return (digits * self.scale).reshape(self.shape)


class Ternary(Coder):
    """Round each x_i at random: to s·sign(x_i) with probability |x_i|/s, else to 0, where s = max|x|.

    The coder C is unbiased, with E‖C(x) − x‖² = s‖x‖₁ − ‖x‖². A message takes 8⌈n/5⌉ + 32 bits. The scale s is rounded
    up to float32.

    Raises
    ------
    BadInput
        In `encode` if an element is not finite or beyond float32's range, or ``rng`` is missing.
    """

    def encode(self, vector: ArrayLike, rng: np.random.Generator | None = None) -> Trits:
        """Return the coded array; rounding draws one number per element from ``rng``."""
        array = real_array(vector)
        draws = generator(rng)
        sizes = np.abs(array)
        scale = float32_above(float(sizes.max(initial=0.0)))
        kept = draws.random(array.shape) * scale < sizes
        # Zeros, the digit 1, fill up the last byte.
        digits = np.ones(-(-array.size // 5) * 5, dtype=np.uint8)
        digits[: array.size] = np.where(kept, np.where(array < 0, 0, 2), 1).ravel()
        return Trits(array.shape, scale, (digits.reshape(-1, 5) @ _POWERS).tobytes())
