"""Censoring: an agent broadcasts only what has changed enough since it last did."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netsim import check


class Censor(Protocol):
    """Decides whether an agent speaks."""

    def speaks(self, change: NDArray[np.float64], round_number: int) -> bool:
        """Return whether h = θ_i − θ̂_i, shape (D,), is worth a broadcast in round k = 1, 2, …"""
        ...


class Always:
    """No censoring: every round is a broadcast."""

    def speaks(self, change: NDArray[np.float64], round_number: int) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True)
class Geometric:
    """Speak if ‖h‖₂ ≥ v·μᵏ (COKE, Algorithm 2 and Theorem 2); v = 0 is no censoring.

    Parameters
    ----------
    v : float
        Threshold before the first round, ≥ 0, in the units of θ.
    mu : float
        Its decay per round, in [0, 1].
    """

    v: float
    mu: float

    def __post_init__(self) -> None:
        check.finite("threshold", self.v, low=0.0)
        check.probability("decay", self.mu)

    def speaks(self, change: NDArray[np.float64], round_number: int) -> bool:
        """Return whether ‖h‖₂ ≥ v·μᵏ."""
        return math.sqrt(change @ change) >= self.v * self.mu**round_number
