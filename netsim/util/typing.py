"""Types of float64 arrays; docstrings state their contents and shapes."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Of any shape."""

Vector = NDArray[np.float64]
"""Of shape (D,)."""

Matrix = NDArray[np.float64]
"""Of two dimensions."""
