"""Vector arithmetic for agents, used in every round; each compiled function needs one pass over the data.

numpy allocates an array for every operation, which for a hundred elements costs more than the arithmetic. Both cores
return the value of the documented expression, to the last bit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from netsim.util.typing import Array

__all__ = ["add_scaled_difference", "add_scaled_sum", "add_weighted_rows", "added", "stacked"]


def add_scaled_sum(y: Array, alpha: float, a: Array, b: Array) -> Array:
    """Return y + alpha·(a + b), for arrays of one shape."""
    result: Any = y + alpha * (a + b)
    return np.asarray(result)


def add_scaled_difference(y: Array, alpha: float, a: Array, b: Array) -> Array:
    """Return y + alpha·(a − b), for arrays of one shape."""
    result: Any = y + alpha * (a - b)
    return np.asarray(result)


def add_weighted_rows(start: Array, weights: Array, rows: Array) -> Array:
    """Return start + Σ_i weights[i]·rows[i], summed in order of i; ``rows`` has one axis more than ``start``."""
    total = start.copy()
    for weight, row in zip(weights, rows, strict=True):
        total += weight * row
    return total


def stacked(frames: Sequence[object]) -> Array | None:
    """Return None; the compiled core returns the frames' vectors as rows, if it can read them without decoding."""
    return None


def added(frames: Sequence[object]) -> Array | None:
    """Return None; the compiled core returns the sum of the frames' vectors, if it can read them without decoding."""
    return None
