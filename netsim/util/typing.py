"""Aliases for float64 arrays. Their names tell readers the number of dimensions; type checkers do not check it."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""A float64 array of any shape."""

Vector = NDArray[np.float64]
"""A float64 array of shape (D,)."""

Matrix = NDArray[np.float64]
"""A float64 array of two dimensions."""
