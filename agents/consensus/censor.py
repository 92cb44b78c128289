"""Censoring: an agent broadcasts only what is worth it. h = θ_i − θ̂_i is what changed since its last broadcast."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from netsim.util import check
from netsim.util.typing import Vector


class Censor(Protocol):
    """Decides whether an agent speaks."""

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return whether to broadcast in round k = 1, 2, …

        Parameters
        ----------
        change, state : ndarray of shape (D,)
            h and θ_i.
        round_number : int
            k.
        rng : numpy Generator
            The agent's own.
        """
        ...


@dataclass(frozen=True)
class Always:
    """No censoring: every round is a broadcast."""

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True)
class Geometric:
    """Speak if ‖h‖₂ ≥ v·μᵏ (COKE, Algorithm 2; dissertation 3.20); v = 0 is no censoring.

    Parameters
    ----------
    v : float
        Threshold before the first round, ≥ 0, in the units of θ, or of θ² if ``squared``.
    mu : float
        Its decay per round, in [0, 1].
    squared : bool
        Compare ‖h‖₂² with the threshold in place of ‖h‖₂: v·μᵏ then acts as √v·(√μ)ᵏ does on the norm.
    """

    v: float
    mu: float
    squared: bool = False

    def __post_init__(self) -> None:
        threshold = check.finite("threshold", self.v, low=0.0)
        decay = check.number("decay", self.mu, low=0.0, high=1.0)
        check.put(self, v=threshold, mu=decay, squared=check.flag("squared", self.squared))

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return whether ‖h‖₂, or its square, is v·μᵏ at least."""
        return _size(change, self.squared) >= self.threshold(round_number)

    def threshold(self, round_number: int) -> float:
        """Return v·μᵏ."""
        return self.v * self.mu**round_number


@dataclass(frozen=True)
class PowerLaw:
    """Speak if ‖h‖₂ ≥ v·k^(−μ) (dissertation 4.14).

    Parameters
    ----------
    v : float
        Threshold in the first round, ≥ 0, in the units of θ, or of θ² if ``squared``.
    mu : float
        Exponent of its decay, ≥ 0.
    squared : bool
        Compare ‖h‖₂² with the threshold in place of ‖h‖₂.
    """

    v: float
    mu: float
    squared: bool = False

    def __post_init__(self) -> None:
        threshold = check.finite("threshold", self.v, low=0.0)
        decay = check.finite("decay", self.mu, low=0.0)
        check.put(self, v=threshold, mu=decay, squared=check.flag("squared", self.squared))

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return whether ‖h‖₂, or its square, is v·k^(−μ) at least."""
        return _size(change, self.squared) >= self.threshold(round_number)

    def threshold(self, round_number: int) -> float:
        """Return v·k^(−μ)."""
        return self.v * math.pow(round_number, -self.mu)


@dataclass(frozen=True)
class Periodic:
    """Speak in every m-th round: m, 2m, 3m, …"""

    every: int

    def __post_init__(self) -> None:
        check.put(self, every=check.integer("every", self.every, low=1))

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return whether k is a multiple of m."""
        return round_number % self.every == 0


@dataclass(frozen=True)
class AtRandom:
    """Speak in a share ``rate`` of the rounds, drawn independently by each agent."""

    rate: float

    def __post_init__(self) -> None:
        check.put(self, rate=check.probability("rate", self.rate))

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return True with probability ``rate``."""
        return bool(rng.random() < self.rate)


@dataclass(frozen=True)
class Relative:
    """Speak if ‖h‖₂ ≥ share·‖θ_i‖₂, or ‖h‖₂² ≥ share·‖θ_i‖₂² if ``squared``: silent while the change is small."""

    share: float
    squared: bool = False

    def __post_init__(self) -> None:
        check.put(self, share=check.finite("share", self.share, low=0.0), squared=check.flag("squared", self.squared))

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return whether ‖h‖₂ ≥ share·‖θ_i‖₂, or the same of the squares."""
        share = self.share if self.squared else self.share**2
        return bool(change @ change >= share * (state @ state))


def _size(change: Vector, squared: bool) -> float:
    """Return ‖h‖₂², or ‖h‖₂."""
    square = float(change.dot(change))
    return square if squared else math.sqrt(square)


def may_silence(censor: Censor, round_number: int) -> bool:
    """Return whether in round k a censor may silence an agent that never spoke: one with θ̂_i = 0, so that h = θ_i.

    Where it may not, a neighbour that hears nothing knows that a frame was lost. Of a censor that is not of this module
    nothing is known: it may.
    """
    match censor:
        case Always():
            return False
        case Geometric(v, mu):
            return v * mu**round_number > 0.0
        case PowerLaw(v, mu):
            return v * math.pow(round_number, -mu) > 0.0
        case Periodic(every):
            return round_number % every != 0
        case AtRandom(rate):
            return rate < 1.0
        case Relative(share):
            return share > 1.0
    return True
