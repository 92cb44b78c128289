"""Deep semi-random networks as loops over samples and layers, with gradients by the explicit chain rule.

Kawaguchi, Xie and Song 2018 with random Fourier features (P. Xu's dissertation, section 5.7, "Deep-semi"): r_0 = w_0 =
x; r_l = √(2/L_l) cos(R_l r_{l−1} + b_l); w_l = r_l ⊙ (W_lᵀ w_{l−1}); f = θᵀ w_M. ``fixed`` holds the (R_l, b_l), and
``learned`` holds W_1, …, W_M, θ. This module shares no code with the agents.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Fixed = Sequence[tuple[Array, Array]]


def streams(fixed: Fixed, learned: Sequence[Array], x: Array) -> tuple[list[Array], list[Array]]:
    """Return r_0 … r_M and w_0 … w_M for one input."""
    r, w = [x], [x]
    for (R, b), W in zip(fixed, learned[:-1], strict=True):
        r.append(
            np.array([np.sqrt(2.0 / len(b)) * np.cos(row @ r[-1] + phase) for row, phase in zip(R, b, strict=True)])
        )
        w.append(np.array([r[-1][unit] * (W[:, unit] @ w[-1]) for unit in range(len(b))]))
    return r, w


def predictions(fixed: Fixed, learned: Sequence[Array], inputs: Array) -> Array:
    return np.array([learned[-1].T @ streams(fixed, learned, x)[1][-1] for x in inputs])


def gradient(fixed: Fixed, learned: Sequence[Array], inputs: Array, targets: Array, *, squared: bool) -> list[Array]:
    """Return the gradient of the mean loss (squared error, or cross-entropy of the softmax) by each learned matrix."""
    found = [np.zeros_like(W) for W in learned]
    for x, y in zip(inputs, targets, strict=True):
        r, w = streams(fixed, learned, x)
        f = learned[-1].T @ w[-1]
        e = 2.0 * (f - y) if squared else np.exp(f - f.max()) / np.exp(f - f.max()).sum() - y
        found[-1] += np.outer(w[-1], e) / len(inputs)
        back = learned[-1] @ e
        for layer in range(len(fixed), 0, -1):
            through = back * r[layer]
            found[layer - 1] += np.outer(w[layer - 1], through) / len(inputs)
            back = learned[layer - 1] @ through
    return found
