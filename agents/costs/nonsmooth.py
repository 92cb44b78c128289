"""Nonsmooth terms of a cost, given by their proximal step, for `netsim.agents.PGEXTRA`."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from netsim.util import check
from netsim.util.typing import Array


class Nonsmooth(Protocol):
    """Protocol of a convex function r of the model, which may be nonsmooth."""

    def prox(self, z: Array, eta: float, /) -> Array:
        """Return argmin_θ r(θ) + ‖θ − z‖²/(2η), of the shape of z."""


@dataclass(frozen=True)
class L1:
    """The lasso term r(θ) = weight · Σ|θ_j|, which makes elements exactly zero.

    Parameters
    ----------
    weight : float
        At least 0. If each of N agents has this term, the sum of their costs has N times the weight.

    Raises
    ------
    BadInput
        For a negative weight, or one that is not finite.
    """

    weight: float

    def __post_init__(self) -> None:
        check.put(self, weight=check.finite("weight", self.weight, low=0.0))

    def value(self, theta: Array) -> float:
        """Return r(θ)."""
        return float(self.weight * np.abs(theta).sum())

    def prox(self, z: Array, eta: float) -> Array:
        """Return z with each element moved towards zero by at most η · weight (soft threshold)."""
        return np.sign(z) * np.maximum(np.abs(z) - eta * self.weight, 0.0)
