"""Censors decide in which rounds an agent broadcasts.

θ̂_i is the state that agent i last broadcast, and h = θ_i − θ̂_i is the change of its state since then.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from netsim.util import check
from netsim.util.typing import Vector


class Censor(Protocol):
    """Decides in each round whether an agent broadcasts."""

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return whether to broadcast in round ``round_number``.

        Parameters
        ----------
        change, state : ndarray of shape (D,)
            The change h and the state θ_i.
        round_number : int
            Number k of the round, from 1.
        rng : numpy Generator
            The agent's generator.
        """
        ...


@dataclass(frozen=True)
class Always:
    """No censoring: broadcast in every round."""

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return True, so that no broadcast is censored."""
        return True


@dataclass(frozen=True)
class Threshold:
    """Base class of the censors that broadcast in round k if ‖h‖₂ is at least `threshold`."""

    v: float
    mu: float
    squared: bool = False

    _most_decay: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        threshold = check.finite("threshold", self.v, low=0.0)
        decay = check.number("decay", self.mu, low=0.0, high=self._most_decay)
        check.put(self, v=threshold, mu=check.finite("decay", decay), squared=check.flag("squared", self.squared))

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return whether ‖h‖₂, or ‖h‖₂² if ``squared``, is at least the threshold."""
        square = float(change.dot(change))
        return (square if self.squared else math.sqrt(square)) >= self.threshold(round_number)

    def threshold(self, round_number: int) -> float:
        """Return the threshold in round ``round_number``."""
        raise NotImplementedError


@dataclass(frozen=True)
class Geometric(Threshold):
    """Broadcast in round k if ‖h‖₂ ≥ v·μᵏ (COKE, Algorithm 2; P. Xu's dissertation, 3.20); v = 0 censors nothing.

    Parameters
    ----------
    v : float
        Threshold before the first round, ≥ 0, in the units of θ, or of θ² if ``squared``.
    mu : float
        Decay of the threshold per round, in [0, 1].
    squared : bool
        Whether ‖h‖₂² is compared with the threshold, instead of ‖h‖₂. The comparison ‖h‖₂² ≥ v·μᵏ is the same as
        ‖h‖₂ ≥ √v·(√μ)ᵏ.
    """

    _most_decay: ClassVar[float] = 1.0

    def threshold(self, round_number: int) -> float:
        """Return v·μᵏ."""
        return self.v * self.mu**round_number


@dataclass(frozen=True)
class PowerLaw(Threshold):
    """Broadcast in round k if ‖h‖₂ ≥ v·k^(−μ) (P. Xu's dissertation, 4.14).

    Parameters
    ----------
    v : float
        Threshold in the first round, ≥ 0, in the units of θ, or of θ² if ``squared``.
    mu : float
        Exponent of the threshold's decay, ≥ 0.
    squared : bool
        Compare ‖h‖₂² instead of ‖h‖₂ with the threshold.
    """

    def threshold(self, round_number: int) -> float:
        """Return v·k^(−μ)."""
        return self.v * math.pow(round_number, -self.mu)


@dataclass(frozen=True)
class Periodic:
    """Broadcast in every m-th round: m, 2m, 3m, …"""

    every: int

    def __post_init__(self) -> None:
        check.put(self, every=check.integer("every", self.every, low=1))

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return whether the round's number is a multiple of m."""
        return round_number % self.every == 0


@dataclass(frozen=True)
class AtRandom:
    """Broadcast with probability ``rate`` in each round, drawn independently by each agent."""

    rate: float

    def __post_init__(self) -> None:
        check.put(self, rate=check.probability("rate", self.rate))

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return True with probability ``rate``."""
        return bool(rng.random() < self.rate)


@dataclass(frozen=True)
class Relative:
    """Broadcast if ‖h‖₂ ≥ share·‖θ_i‖₂, or ‖h‖₂² ≥ share·‖θ_i‖₂² if ``squared``."""

    share: float
    squared: bool = False

    def __post_init__(self) -> None:
        check.put(self, share=check.finite("share", self.share, low=0.0), squared=check.flag("squared", self.squared))

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return whether ‖h‖₂ ≥ share·‖θ_i‖₂, or ‖h‖₂² ≥ share·‖θ_i‖₂²."""
        share = self.share if self.squared else self.share**2
        return bool(change @ change >= share * (state @ state))


@dataclass(frozen=True)
class Lazy:
    """LAG: a client uploads its gradient if ‖h‖₂² > η⁻² Σ_d ξ_d ‖θ^{k+1−d} − θ^{k−d}‖₂², d = 1 … D (algorithm 1, 15a).

    Source: Chen, Giannakis, Sun and Yin 2018, LAG-WK; P. Xu's dissertation, section 5.6. h is the change of the
    client's gradient since its last upload, and θ^k is the server's model in round k. Only the methods over a star
    support this censor (`OverStar`, `EF21`, `EF21P`). There the server sends its model in every round, and a client
    compares h with the steps between the models that it received. For a client that uploads nothing, the server uses
    the client's last gradient.

    In the paper the server's step is θ ← θ − α Σ_i g_i, and the factor before the sum over d is 1/(α²N²). Here the step
    is θ ← θ − (η/N) Σ_i g_i, so α = η/N and the factor is 1/η². If ξ_1 + … + ξ_D ≥ 1, the errors may become as large as
    the gradient itself.

    Parameters
    ----------
    weights : tuple of float
        ξ_1 … ξ_D, each ≥ 0; by default ten weights of 1/10, as in the paper.
    """

    weights: tuple[float, ...] = (0.1,) * 10

    def __post_init__(self) -> None:
        if not isinstance(self.weights, tuple | list) or not self.weights:
            raise check.refuse("weights", self.weights, "a tuple of at least one number")
        each = tuple(check.finite(f"weights[{d}]", weight, low=0.0) for d, weight in enumerate(self.weights))
        check.put(self, weights=each)

    def at(self, client: Any) -> Censor:
        """Return a censor for one client in one run, which reads η and the client's copy of θ^k from the client."""
        return _LazyClient(self.weights, client)

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Return whether h ≠ 0. Without a client the steps of the server are unknown, so the threshold is 0."""
        return bool(change @ change > 0.0)


class _LazyClient:
    """The censor `Lazy` at one client, which stores the steps between the last models received."""

    def __init__(self, weights: tuple[float, ...], client: Any) -> None:
        self._weights, self._client = weights, client
        self._model: Vector | None = None
        # ‖θ^{k+1−d} − θ^{k−d}‖², d = 1 … D.
        self._steps: deque[float] = deque(maxlen=len(weights))

    def speaks(self, change: Vector, state: Vector, round_number: int, rng: np.random.Generator) -> bool:
        """Store the step to the model last received; return whether ‖h‖₂² > η⁻² Σ_d ξ_d ‖θ^{k+1−d} − θ^{k−d}‖₂²."""
        model: Vector = self._client.theta
        if self._model is not None:
            self._steps.appendleft(float(np.sum(np.square(model - self._model))))
        self._model = model
        # strict=False, because in the first rounds there are fewer steps than weights.
        threshold = sum(weight * step for weight, step in zip(self._weights, self._steps, strict=False))
        return bool(change @ change > threshold / self._client.eta**2)


def may_silence(censor: Censor, round_number: int) -> bool:
    """Return whether, in round ``round_number``, a censor may suppress the broadcast of an agent with θ̂_i = 0.

    An agent that has never broadcast has θ̂_i = 0, so h = θ_i. If this function returns False, and a neighbour receives
    nothing from such an agent, the neighbour knows that a frame was lost. The rule of a censor class from outside this
    module is unknown, so the result is True.
    """
    match censor:
        case Always():
            return False
        case Threshold():
            return censor.threshold(round_number) > 0.0
        case Periodic(every):
            return round_number % every != 0
        case AtRandom(rate):
            return rate < 1.0
        case Relative(share):
            return share > 1.0
    return True
