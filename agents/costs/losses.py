"""Loss functions ℓ(f, y) of a prediction f and a target y, with their derivatives in f."""

from typing import ClassVar, Protocol

import numpy as np
from scipy.special import expit

from netsim.errors import BadInput
from netsim.util.typing import Array


class LossFunction(Protocol):
    """Protocol of losses that are convex in the prediction and, if ``smooth``, differentiable everywhere.

    Methods work element by element on arrays that broadcast together.
    """

    @property
    def name(self) -> str:
        """The name that error messages show."""

    @property
    def smooth(self) -> bool:
        """Whether the loss is differentiable everywhere, as solvers of batch problems require."""

    def check_targets(self, y: Array, /) -> None:
        """Raise BadInput if a target is invalid for this loss."""

    def value(self, f: Array, y: Array, /) -> Array:
        """Return ℓ(f, y)."""

    def derivative(self, f: Array, y: Array, /) -> Array:
        """Return ∂ℓ/∂f, or a subgradient at a kink."""

    def second_derivative(self, f: Array, y: Array, /) -> Array:
        """Return ∂²ℓ/∂f² ≥ 0."""

    def slope(self, f: float, k: float, y: float, /) -> float:
        """Return the solution s of s = ℓ'(f − k·s, y), k ≥ 0, where ℓ' may be any subgradient.

        s is the slope of ℓ at the proximal point g = f − k·s, which minimises ℓ(g, y) + (g − f)²/(2k).
        """


class Squared:
    """The squared error (y − f)², without a factor of one half."""

    name: ClassVar[str] = "squared"
    smooth: ClassVar[bool] = True

    def check_targets(self, y: Array, /) -> None:
        """Accept every target."""

    def value(self, f: Array, y: Array, /) -> Array:
        """Return (y − f)²."""
        return np.square(y - f)

    def derivative(self, f: Array, y: Array, /) -> Array:
        """Return 2 (f − y)."""
        return 2.0 * (f - y)

    def second_derivative(self, f: Array, y: Array, /) -> Array:
        """Return 2, in the shape of f − y."""
        return np.full(np.broadcast_shapes(np.shape(f), np.shape(y)), 2.0)

    def slope(self, f: float, k: float, y: float, /) -> float:
        """Return 2 (f − y)/(1 + 2k)."""
        return 2.0 * (f - y) / (1.0 + 2.0 * k)


class _OfLabels:
    """Base class of losses for labels y = ±1."""

    name: ClassVar[str]

    def check_targets(self, y: Array, /) -> None:
        """Raise BadInput unless every label is −1 or +1."""
        bad = np.argwhere(np.abs(y) != 1.0)
        if len(bad):
            where = ", ".join(str(int(i)) for i in bad[0])
            raise BadInput(f"targets[{where}] = {y[tuple(bad[0])]}: must be -1 or 1 for the {self.name} loss")


class SquaredHinge(_OfLabels):
    """The squared hinge max(0, 1 − y f)² for labels y = ±1."""

    name: ClassVar[str] = "squared_hinge"
    smooth: ClassVar[bool] = True

    def value(self, f: Array, y: Array, /) -> Array:
        """Return max(0, 1 − y f)²."""
        return np.square(np.maximum(0.0, 1.0 - y * f))

    def derivative(self, f: Array, y: Array, /) -> Array:
        """Return −2y max(0, 1 − y f)."""
        return -2.0 * y * np.maximum(0.0, 1.0 - y * f)

    def second_derivative(self, f: Array, y: Array, /) -> Array:
        """Return 2 where y f < 1, else 0."""
        return np.where(y * f < 1.0, 2.0, 0.0)

    def slope(self, f: float, k: float, y: float, /) -> float:
        """Return 2 (f − y)/(1 + 2k) if the margin y f is below 1, else 0."""
        return 2.0 * (f - y) / (1.0 + 2.0 * k) if y * f < 1.0 else 0.0


class Logistic(_OfLabels):
    """The logistic loss log(1 + exp(−y f)) for labels y = ±1, without overflow at any margin y f."""

    name: ClassVar[str] = "logistic"
    smooth: ClassVar[bool] = True

    def value(self, f: Array, y: Array, /) -> Array:
        """Return log(1 + exp(−y f))."""
        return np.logaddexp(0.0, -y * f)

    def derivative(self, f: Array, y: Array, /) -> Array:
        """Return −y / (1 + exp(y f))."""
        return -y * expit(-y * f)

    def second_derivative(self, f: Array, y: Array, /) -> Array:
        """Return 1 / ((1 + exp(y f)) (1 + exp(−y f)))."""
        margin = y * f
        return expit(margin) * expit(-margin)

    def slope(self, f: float, k: float, y: float, /) -> float:
        """Return s = −y m, where m is the unique root in (0, 1) of m = 1/(1 + exp(y f + k m))."""
        from scipy.optimize import brentq

        margin = y * f
        root = brentq(lambda m: m - float(expit(-margin - k * m)), 0.0, 1.0, xtol=1e-300, rtol=1e-15)
        return -y * float(root)


class Hinge(_OfLabels):
    """The hinge max(0, 1 − y f) for labels y = ±1, with a kink where the margin y f is 1."""

    name: ClassVar[str] = "hinge"
    smooth: ClassVar[bool] = False

    def value(self, f: Array, y: Array, /) -> Array:
        """Return max(0, 1 − y f)."""
        return np.maximum(0.0, 1.0 - y * f)

    def derivative(self, f: Array, y: Array, /) -> Array:
        """Return −y where y f < 1, else 0."""
        return np.where(y * f < 1.0, -y, 0.0)

    def second_derivative(self, f: Array, y: Array, /) -> Array:
        """Return 0, in the shape of y f."""
        return np.zeros(np.broadcast_shapes(np.shape(f), np.shape(y)))

    def slope(self, f: float, k: float, y: float, /) -> float:
        """Return −y m, where m is (1 − y f)/k clipped to [0, 1], and k is as in `LossFunction.slope`.

        At the proximal point f + k y m the margin is y f + k m. If 0 < m < 1, this margin is exactly 1, where the loss
        has its kink. If y f ≥ 1, the loss has slope 0 at the proximal point, so m = 0. If y f < 1 and y f + k ≤ 1, the
        loss has slope −y there, so m = 1.
        """
        gap = 1.0 - y * f
        if gap <= 0.0:
            return 0.0
        return -y * (gap / k if gap < k else 1.0)
