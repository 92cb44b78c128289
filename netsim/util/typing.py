"""Aliases for float64 arrays, named after the number of dimensions, which type checkers do not check."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""A float64 array of any shape."""

Vector = NDArray[np.float64]
"""A float64 array of shape (D,)."""

Matrix = NDArray[np.float64]
"""A float64 array of two dimensions."""
