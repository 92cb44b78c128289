"""Loss functions ℓ(f, y) of a prediction f and a target y, with their derivatives in f."""

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from netsim import check
from netsim.errors import BadInput


class Loss(Protocol):
    """A loss that is convex and twice differentiable in the prediction.

    Every method works element by element on arrays that broadcast together.
    """

    @property
    def name(self) -> str:
        """The name by which `by_name` finds the loss."""

    def check_targets(self, y: NDArray[np.float64], /) -> None:
        """Raise BadInput if a target has no meaning for this loss."""

    def value(self, f: NDArray[np.float64], y: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Return ℓ(f, y)."""

    def derivative(self, f: NDArray[np.float64], y: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Return ∂ℓ/∂f."""

    def second_derivative(self, f: NDArray[np.float64], y: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Return ∂²ℓ/∂f², which is never negative."""


class Squared:
    """The squared error (y − f)², without a factor of one half."""

    name: ClassVar[str] = "squared"

    def check_targets(self, y: NDArray[np.float64], /) -> None:
        """Accept every target."""

    def value(self, f: NDArray[np.float64], y: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Return (y − f)²."""
        return np.square(y - f)

    def derivative(self, f: NDArray[np.float64], y: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Return 2 (f − y)."""
        return 2.0 * (f - y)

    def second_derivative(self, f: NDArray[np.float64], y: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Return 2, in the shape of f − y."""
        return np.full(np.broadcast_shapes(np.shape(f), np.shape(y)), 2.0)


class Logistic:
    """The logistic loss log(1 + exp(−y f)) for labels y = ±1, without overflow at any margin y f."""

    name: ClassVar[str] = "logistic"

    def check_targets(self, y: NDArray[np.float64], /) -> None:
        """Raise BadInput unless every label is −1 or +1."""
        bad = np.argwhere(np.abs(y) != 1.0)
        if len(bad):
            where = ", ".join(str(int(i)) for i in bad[0])
            raise BadInput(f"targets[{where}] = {y[tuple(bad[0])]}: must be -1 or 1 for the logistic loss")

    def value(self, f: NDArray[np.float64], y: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Return log(1 + exp(−y f))."""
        return np.logaddexp(0.0, -y * f)

    def derivative(self, f: NDArray[np.float64], y: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Return −y / (1 + exp(y f))."""
        return -y * expit(-y * f)

    def second_derivative(self, f: NDArray[np.float64], y: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Return 1 / ((1 + exp(y f)) (1 + exp(−y f)))."""
        margin = y * f
        return expit(margin) * expit(-margin)


_LOSSES: dict[str, type[Squared] | type[Logistic]] = {each.name: each for each in (Squared, Logistic)}


def by_name(name: Any) -> Loss:
    """Return the loss called ``name``: squared or logistic.

    Raises
    ------
    BadInput
        For any other name, with the nearest one suggested.
    """
    return _LOSSES[check.one_of("loss", name, _LOSSES)]()
