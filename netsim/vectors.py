"""Arithmetic on vectors that agents do in every round, each in one pass.

numpy makes an array for every operation, which for a hundred elements costs more than the arithmetic. The results are
those of the expressions, to the last bit.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["add_scaled_difference", "add_scaled_sum"]

Array = NDArray[np.float64]


def add_scaled_sum(y: Array, alpha: float, a: Array, b: Array) -> Array:
    """Return y + alpha·(a + b), for arrays of one shape."""
    result: Any = y + alpha * (a + b)
    return np.asarray(result)


def add_scaled_difference(y: Array, alpha: float, a: Array, b: Array) -> Array:
    """Return y + alpha·(a − b), for arrays of one shape."""
    result: Any = y + alpha * (a - b)
    return np.asarray(result)
