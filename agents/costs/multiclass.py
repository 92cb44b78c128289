"""Loss functions ℓ(f, y) of C scores f and the number y of the right class, with their derivatives in f.

The predicted class is the one with the largest score, argmax_j f_j. Below, e_y is the unit vector of class y.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import wrightomega

from netsim.agents.costs.losses import LossFunction, Squared, SquaredHinge
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Array


class MulticlassLoss(ABC):
    """Base class of losses that are convex in the scores f.

    Methods take n samples at once: ``f`` of shape (n, C), and ``y`` of shape (n,) with classes 0 … C − 1, as integers
    or as whole numbers of type float.

    Parameters
    ----------
    classes : int
        Number C ≥ 2 of classes.

    Attributes
    ----------
    name : str
        The name by which `by_name` finds the loss.
    smooth : bool
        Whether the loss is differentiable everywhere.
    """

    name: str
    smooth: bool

    def __init__(self, classes: int) -> None:
        self.classes = check.integer("classes", classes, low=2)

    def check_targets(self, y: NDArray[Any], /) -> None:
        """Raise BadInput unless every target is the number of a class."""
        if np.ndim(y) != 1:
            raise BadInput(f"targets.shape = {np.shape(y)}: must be (n,), the number of a class for each sample")
        bad = np.flatnonzero(~np.isin(y, np.arange(self.classes)))
        if len(bad):
            raise BadInput(
                f"targets[{bad[0]}] = {y[bad[0]]}: must be a class, a whole number from 0 to {self.classes - 1}"
            )

    @abstractmethod
    def value(self, f: Array, y: NDArray[Any], /) -> Array:
        """Return ℓ(f, y), shape (n,)."""

    @abstractmethod
    def derivative(self, f: Array, y: NDArray[Any], /) -> Array:
        """Return ∂ℓ/∂f, or a subgradient at a kink, shape (n, C)."""

    @abstractmethod
    def curvature(self, f: Array, y: NDArray[Any], v: Array, /) -> Array:
        """Return (∂²ℓ/∂f²) v, shape (n, C); each row of ``v``, of the same shape, is a direction for one sample."""

    @abstractmethod
    def slope(self, f: Array, k: float, y: int, /) -> Array:
        """Return the solution s, shape (C,), of s = ℓ'(f − k·s, y) for one sample, with f of shape (C,) and k > 0.

        s holds the slopes of ℓ at the proximal point g = f − k·s, which minimises ℓ(g, y) + ‖g − f‖²/(2k).
        """


class Softmax(MulticlassLoss):
    """The logistic loss of C classes, −log of the right class's softmax: log Σ_j exp(f_j) − f_y.

    The computation does not overflow for any scores.
    """

    name = "logistic"
    smooth = True

    def value(self, f: Array, y: NDArray[Any], /) -> Array:
        """Return log Σ_j exp(f_j) − f_y, shape (n,)."""
        return _log_sum_exp(f) - _of_class(f, y)

    def derivative(self, f: Array, y: NDArray[Any], /) -> Array:
        """Return p − e_y, where p is the softmax of f, shape (n, C)."""
        return _minus_one_hot(_softmax(f), y)

    def curvature(self, f: Array, y: NDArray[Any], v: Array, /) -> Array:
        """Return (diag(p) − ppᵀ) v, shape (n, C)."""
        return _softmax_hessian(_softmax(f), v)

    def slope(self, f: Array, k: float, y: int, /) -> Array:
        """Return p − e_y, where p is the softmax of f − k (p − e_y)."""
        return _softmax_slopes(f, k, y, 1.0)


class MulticlassHinge(MulticlassLoss):
    """The hinge loss of Crammer and Singer, max(0, 1 + f_r − f_y), where r is the wrong class with the largest score.

    It equals max_j m_j for the margins m_j = f_j − f_y + [j ≠ y]. With a temperature τ > 0, the loss is instead the
    smooth function τ log Σ_j exp(m_j/τ), which exceeds max_j m_j by at most τ log C.

    Parameters
    ----------
    classes : int
        Number C ≥ 2 of classes.
    temperature : float
        τ ≥ 0, in units of the scores.

    Attributes
    ----------
    smooth : bool
        Whether τ > 0.
    """

    name = "hinge"

    def __init__(self, classes: int, temperature: float = 0.0) -> None:
        super().__init__(classes)
        self.temperature = check.finite("temperature", temperature, low=0.0)
        self.smooth = self.temperature > 0.0

    def value(self, f: Array, y: NDArray[Any], /) -> Array:
        """Return max_j m_j, or τ log Σ_j exp(m_j/τ), shape (n,)."""
        margins = self._margins(f, y)
        if not self.smooth:
            largest: Array = margins.max(axis=1)
            return largest
        return self.temperature * _log_sum_exp(margins / self.temperature)

    def derivative(self, f: Array, y: NDArray[Any], /) -> Array:
        """Return ∂ℓ/∂f, shape (n, C): for τ > 0, p − e_y with p = softmax(m/τ).

        For τ = 0, ∂ℓ/∂f is e_r − e_y where the loss is positive, else 0.
        """
        margins = self._margins(f, y)
        if self.smooth:
            return _minus_one_hot(_softmax(margins / self.temperature), y)
        # At the kink of the loss, the largest margin m_r of a wrong class equals the margin m_y = 0 of the right class.
        # Raising m_y to a tiny positive number makes argmax choose class y there, so that the result is e_y − e_y = 0.
        own = _class_index(y)
        margins[own] = np.finfo(np.float64).tiny
        largest = np.zeros_like(margins)
        largest[np.arange(len(margins)), margins.argmax(axis=1)] = 1.0
        return _minus_one_hot(largest, y)

    def curvature(self, f: Array, y: NDArray[Any], v: Array, /) -> Array:
        """Return (diag(p) − ppᵀ) v/τ, or 0 for the exact hinge, shape (n, C)."""
        if not self.smooth:
            return np.zeros(np.shape(v))
        return _softmax_hessian(_softmax(self._margins(f, y) / self.temperature), v) / self.temperature

    def slope(self, f: Array, k: float, y: int, /) -> Array:
        """Return the solution s of s = p − e_y, where p = softmax(m/τ) for the margins m of the scores f − k·s.

        If τ = 0, p is the limit for τ → 0.
        """
        margins = f + 1.0
        margins[y] = f[y]
        return _softmax_slopes(margins, k, y, self.temperature)

    def _margins(self, f: Array, y: NDArray[Any]) -> Array:
        margins = f - _of_class(f, y)[:, None] + 1.0
        margins[_class_index(y)] = 0.0
        return margins


class OneVsRest(MulticlassLoss):
    """The sum over classes j of a binary loss of the score f_j, with label +1 if y = j, else −1.

    Parameters
    ----------
    loss : LossFunction
        The loss of each class.
    classes : int
        Number C ≥ 2 of classes.

    Attributes
    ----------
    name : str
        The name of ``loss``.
    smooth : bool
        Whether ``loss`` is smooth.
    """

    def __init__(self, loss: LossFunction, classes: int) -> None:
        super().__init__(classes)
        self.loss = loss
        self.name = loss.name
        self.smooth = loss.smooth

    def value(self, f: Array, y: NDArray[Any], /) -> Array:
        """Return Σ_j ℓ(f_j, ±1), shape (n,)."""
        result: Array = self.loss.value(f, self._signs(y)).sum(axis=1)
        return result

    def derivative(self, f: Array, y: NDArray[Any], /) -> Array:
        """Return ℓ'(f_j, ±1) for each class j, shape (n, C)."""
        return self.loss.derivative(f, self._signs(y))

    def curvature(self, f: Array, y: NDArray[Any], v: Array, /) -> Array:
        """Return ℓ''(f_j, ±1) v_j for each class j, shape (n, C)."""
        return self.loss.second_derivative(f, self._signs(y)) * v

    def slope(self, f: Array, k: float, y: int, /) -> Array:
        """Return the solution s_j of s_j = ℓ'(f_j − k·s_j, ±1) for each class j, shape (C,)."""
        return np.array([self.loss.slope(float(each), k, 1.0 if j == y else -1.0) for j, each in enumerate(f)])

    def _signs(self, y: NDArray[Any]) -> Array:
        signs = np.full((len(y), self.classes), -1.0)
        signs[_class_index(y)] = 1.0
        return signs


def by_name(name: Any, classes: int) -> MulticlassLoss:
    """Return the loss for C classes that corresponds to a binary loss: logistic, hinge, squared or squared_hinge.

    logistic gives `Softmax`, hinge the exact `MulticlassHinge`; the others are summed over the classes (`OneVsRest`).

    Raises
    ------
    BadInput
        For any other name (the message suggests the nearest), or fewer than two classes.
    """
    check.one_of("loss", name, ("logistic", "hinge", "squared", "squared_hinge"))
    if name == "logistic":
        return Softmax(classes)
    if name == "hinge":
        return MulticlassHinge(classes)
    return OneVsRest(Squared() if name == "squared" else SquaredHinge(), classes)


def _class_index(y: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of each sample's right class in an array of shape (n, C)."""
    return np.arange(len(y)), np.asarray(y, dtype=np.intp)


def _of_class(f: Array, y: NDArray[Any]) -> Array:
    """Return the score f_y of each sample's right class, shape (n,)."""
    return f[_class_index(y)]


def _minus_one_hot(p: Array, y: NDArray[Any]) -> Array:
    """Subtract e_y from ``p`` in place, and return ``p``."""
    p[_class_index(y)] -= 1.0
    return p


def _log_sum_exp(z: Array) -> Array:
    """Return log Σ_j exp(z_j) without overflow, shape (n,)."""
    top = z.max(axis=1)
    result: Array = top + np.log(np.exp(z - top[:, None]).sum(axis=1))
    return result


def _softmax(z: Array) -> Array:
    """Return exp(z_j)/Σ exp(z), shape (n, C)."""
    powers: Array = np.exp(z - z.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


def _softmax_hessian(p: Array, v: Array) -> Array:
    """Return (diag(p) − ppᵀ) v for each sample, shape (n, C)."""
    weighted = p * v
    result: Array = weighted - p * weighted.sum(axis=1, keepdims=True)
    return result


def _softmax_slopes(f: Array, k: float, y: int, temperature: float) -> Array:
    """Solve p = softmax((f − k (p − e_y))/τ) and return p − e_y; for τ = 0, solve the limit τ → 0.

    With a = f + k e_y, there is a number ν such that τ log p_j + k p_j = a_j − ν for all j. So p_j = (τ/k)·ω(z_j) with
    z_j = (a_j − ν)/τ − log(τ/k), where Wright's function ω solves ω + log ω = z. The number ν is the root of
    Σ_j p_j = 1. For τ → 0, p is the point of the simplex nearest to a/k.
    """
    from scipy.optimize import brentq

    a = np.array(f, dtype=np.float64)
    a[y] += k
    if temperature == 0.0:
        sorted_ = np.sort(a)[::-1]
        means = (np.cumsum(sorted_) - k) / np.arange(1, len(a) + 1)
        p = np.maximum(a - means[np.flatnonzero(sorted_ > means)[-1]], 0.0) / k
    else:
        ratio = temperature / k

        def shares(level: float) -> Array:
            result: Array = ratio * wrightomega((a - level) / temperature - np.log(ratio))
            return result

        # The root ν lies between low, where the largest p_j is at least 1, and high, where each p_j is at most 1/C.
        top = float(a.max())
        slack = 1e-6 * (k + temperature)
        low, high = top - k - slack, top - k / len(a) + temperature * np.log(len(a)) + slack
        p = shares(brentq(lambda level: float(shares(level).sum()) - 1.0, low, high, xtol=1e-300, rtol=1e-15))
        p /= p.sum()
    slopes: Array = p
    slopes[y] -= 1.0
    return slopes
