"""Types of arrays of float64; what they hold and their shapes stand in the docstrings."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Of any shape."""

Vector = NDArray[np.float64]
"""Of shape (D,)."""

Matrix = NDArray[np.float64]
"""Of two dimensions."""
