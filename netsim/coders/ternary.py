"""Three levels, −s, 0 and s, unbiased: Wen et al., "TernGrad: ternary gradients to reduce communication", 2017."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.coders.sign import Scaled
from netsim.errors import WireError
from netsim.util.typing import Vector
from netsim.wire.coded import Coder
from netsim.wire.inputs import float32_above, generator, real_array
from netsim.wire.packing import check_shape

_POWERS = np.array([81, 27, 9, 3, 1], dtype=np.uint8)
# The five elements, −1, 0 or 1, of each byte.
_DIGITS = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=5)))


@dataclass(frozen=True)
class Trits(Scaled):
    """A vector or matrix with elements −s, 0 or s, five per byte as 3⁵ = 243 ≤ 256.

    ``scale`` is s; a byte is Σ_i (1 + x_i/s)·3^(4 − i) over its five elements; elements beyond the last are 0. Its type
    number on the wire is 9.
    """

    def check(self) -> None:
        """Raise WireError unless the data have the length of the shape."""
        count = check_shape(self.shape)
        if type(self.data) is not bytes or len(self.data) != -(-count // 5):
            raise WireError(f"{len(self.data)} bytes cannot hold {count} elements of three levels")
        largest = np.frombuffer(self.data, np.uint8).max(initial=0)
        if largest >= len(_DIGITS):
            raise WireError(f"the byte {largest} does not encode five elements of three levels")

    @property
    def payload_bits(self) -> int:
        """Bits on the wire: 8⌈n/5⌉, which is 1.6 per element, and 32 for the scale."""
        return 8 * len(self.data) + 32

    def decode(self) -> Vector:
        """Return −s, 0 or s of each element."""
        digits: Vector = _DIGITS[np.frombuffer(self.data, np.uint8)].ravel()[: math.prod(self.shape)]
        return (digits * self.scale).reshape(self.shape)


def _pack_digits(digits: NDArray[np.uint8]) -> bytes:
    """Return ⌈n/5⌉ bytes of n digits 0, 1 or 2."""
    padded = np.ones(-(-len(digits) // 5) * 5, dtype=np.uint8)
    padded[: len(digits)] = digits
    return (padded.reshape(-1, 5) @ _POWERS).tobytes()


class Ternary(Coder):
    """x_i becomes s·sign(x_i) with probability |x_i|/s, else 0, where s = max|x|: unbiased.

    8⌈n/5⌉ + 32 bits, 1.6 per element. E‖C(x) − x‖² = s‖x‖₁ − ‖x‖². (s is rounded up to a float32.)

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
        digits = np.where(kept, np.where(array < 0, 0, 2), 1).astype(np.uint8)
        return Trits(array.shape, scale, _pack_digits(digits.ravel()))
