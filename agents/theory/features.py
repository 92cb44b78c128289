"""The number of random features that the generalisation theorems require (COKE, 3; P. Xu's dissertation, 3 and 11)."""

import math

import numpy as np

from netsim.util import check
from netsim.util.typing import Matrix


def degrees_of_freedom(gram: Matrix, regularizer: float) -> float:
    """Return d = Tr K(K + λTI)⁻¹ of a kernel matrix K of T samples, shape (T, T), for the whole λ > 0."""
    values = np.clip(np.linalg.eigvalsh(check.finite_array("gram", gram)), 0.0, None)
    return float(np.sum(values / (values + check.finite("regularizer", regularizer, above=0.0) * len(values))))


def features_needed(
    gram: Matrix, regularizer: float, *, probability: float = 0.05, epsilon: float = 0.5, classes: bool = False
) -> int:
    """Return the number of features L for which the excess risk is at most 3λ + O(1/√T), with a given confidence.

    L ≥ (1/λ)(1/ε² + 2/(3ε)) log(16d/δ) for regression (theorem 3), and L ≥ (5/λ) log(16d/δ) for two classes
    (theorem 11). The theorems leave ε ∈ (0, 1) free, but the proof's term 2λ (dissertation, eq. 2.42) is λ/(1 − ε) in
    general, and so requires ε = ½.

    Parameters
    ----------
    gram : ndarray of shape (T, T)
        The kernel matrix of all samples.
    regularizer : float
        The whole λ.
    probability : float
        δ: the theorem holds with probability 1 − δ.
    epsilon : float
        ε, for regression.
    classes : bool
        Whether to classify into two classes.
    """
    factor = 5.0 if classes else 1.0 / epsilon**2 + 2.0 / (3.0 * epsilon)
    freedom = degrees_of_freedom(gram, regularizer)
    return math.ceil(factor / regularizer * math.log(16.0 * freedom / probability))


def feature_error(gram: Matrix, features: Matrix, regularizer: float) -> float:
    """Return sup over ‖f‖_H ≤ 1 of min_θ (1/T)‖f(x) − Φθ‖² + λ‖θ‖², which theorem 3 bounds by λ/(1 − ε).

    The inner minimum is λ fᵀ(ΦΦᵀ + λTI)⁻¹f, and f(x) ranges over K^½ times the unit ball.

    Parameters
    ----------
    gram : ndarray of shape (T, T)
        The kernel matrix K.
    features : ndarray of shape (T, L)
        Φ.
    regularizer : float
        The whole λ.
    """
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    ridge = features @ features.T + regularizer * len(gram) * np.eye(len(gram))
    return regularizer * float(np.linalg.eigvalsh(root.T @ np.linalg.solve(ridge, root))[-1])
