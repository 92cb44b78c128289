"""Compressors implemented from their papers in plain numpy: natural compression and PowerSGD with error feedback."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def natural(t: float, uniform: float) -> float:
    """Return C_nat(t) of Horváth et al. 2019, definition 1; ``uniform`` is the random draw from [0, 1)."""
    if t == 0.0:
        return 0.0
    lower = float(np.floor(np.log2(abs(t))))
    # Just below a power of two, log2 may round up to the next integer.
    lower -= 2.0**lower > abs(t)
    below = (2.0 ** (lower + 1) - abs(t)) / 2.0**lower
    return float(np.sign(t)) * (2.0**lower if uniform >= 1.0 - below else 2.0 ** (lower + 1))


def gram_schmidt(matrix: Array) -> Array:
    """Return an orthonormal basis of the columns, computed one column after the other."""
    basis = matrix.copy()
    for i in range(basis.shape[1]):
        for j in range(i):
            basis[:, i] -= (basis[:, j] @ basis[:, i]) * basis[:, j]
        basis[:, i] /= np.linalg.norm(basis[:, i])
    return basis


def power_sgd(gradients: list[Array], right: Array) -> list[Array]:
    """Return one worker's decompressed messages (Vogels et al. 2019, algorithm 1 with error feedback of algorithm 2).

    ``right`` is the initial factor Q; each round starts from the Q that was sent last.
    """
    error: Any = np.zeros_like(gradients[0])
    sent = []
    for gradient in gradients:
        delta = gradient + error
        left = gram_schmidt(delta @ right)
        right = delta.T @ left
        sent.append(left @ right.T)
        error = delta - sent[-1]
    return sent
