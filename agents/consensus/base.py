"""What every method that shares a state is made of: a local step, the sharing, and what is done with what was heard.

A method is a dataclass of its parameters with a `local_step` that reads like its equation. `Dual` adds the dual
variable of the ADMM methods, `Diffusion` the weighted mean of the diffusion methods.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol

import numpy as np

import netsim
from netsim import check
from netsim.agents.consensus.censor import Always, Censor
from netsim.agents.consensus.sharing import Sharing
from netsim.agents.papers import Cited
from netsim.agents.schedule import Scheduled, advance, schedules_of
from netsim.coders import Coder, Exact
from netsim.core import add_scaled_difference, add_scaled_sum
from netsim.errors import BadInput
from netsim.typing import Array


class Cost(Protocol):
    """What an agent minimises. A method asks more of it: a gradient, a proximal step, samples."""

    @property
    def size(self) -> int | tuple[int, ...]:
        """Length D of the state θ, or the shape of one that is a matrix."""


@dataclass(eq=False, repr=False)
class SharingAgent(Cited, netsim.Agent):
    """In each round a local step, then the state is shared.

    Parameters
    ----------
    cost : Cost
        What it minimises; says how long the state is.
    count : int
        Number of rounds.
    censor : Censor, optional
        Decides whether a change is broadcast; default: always.
    coder : netsim.coders.Coder, optional
        Codes changes, or states; default: `Exact`, the state travels as it is.
    coded_start : bool
        θ̂ begins as Q(0) and not as 0 (see `Sharing`).

    Attributes
    ----------
    theta : ndarray
        θ_i, zeros at first. Replaced, never changed in place.
    sharing : Sharing
        θ̂_i and the copies of the neighbours'; available once it runs.

    Raises
    ------
    BadInput
        For an argument outside its range.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, kind in vars(cls).get("__annotations__", {}).items():
            if "Scheduled" in str(kind) and not isinstance(vars(cls).get(name), Scheduled):
                raise TypeError(f"{cls.__qualname__}.{name}: must be Scheduled(default=…), not {vars(cls).get(name)!r}")

    cost: Cost
    count: int
    _: KW_ONLY
    censor: Censor = Always()
    coder: Coder = Exact()
    coded_start: bool = False
    theta: Array = field(init=False, repr=False)
    sharing: Sharing = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.count = check.integer("count", self.count, low=0)
        self.coded_start = check.flag("coded_start", self.coded_start)
        if not isinstance(self.coder, Coder):
            raise check.refuse("coder", self.coder, "a netsim.coders.Coder")
        if not callable(getattr(self.censor, "speaks", None)):
            raise check.refuse("censor", self.censor, "a Censor, with a method speaks")
        size = self.cost.size
        shape = size if isinstance(size, tuple) else (size,)
        self.theta = np.zeros(tuple(check.integer("cost.size", length, low=1) for length in shape))

    async def run(self) -> None:
        """Take part in the rounds."""
        self.sharing = Sharing(self, self.theta.shape, self.censor, self.coder, coded_start=self.coded_start)
        self.start()
        changes = bool(schedules_of(self))
        async for k in self.rounds(self.count):
            if changes:
                advance(self, k)
            theta = self.local_step()
            if getattr(theta, "shape", None) != self.theta.shape:
                raise self._refused(theta)
            self.theta = theta
            await self.sharing.share(self.theta, k)
            self.after_sharing()

    def start(self) -> None:
        """Prepare for the first round, the neighbours being known."""

    def local_step(self) -> Array:
        """Return the new θ_i."""
        raise NotImplementedError(f"{type(self).__name__} must define local_step(self), which returns the new θ_i")

    def _refused(self, theta: object) -> BadInput:
        shown = theta.shape if isinstance(theta, np.ndarray) else type(theta).__name__
        return BadInput(
            f"{type(self).__name__}.local_step() returned {shown}: must return an array of shape {self.theta.shape}"
        )

    def after_sharing(self) -> None:
        """Use what was heard."""


def check_weights(weights: Any, names: Iterable[Hashable]) -> None:
    """Raise BadInput unless ``weights`` has a number for each name."""
    for name in names:
        try:
            weight = weights[name]
        except (LookupError, TypeError):
            raise BadInput(f"weights: must have a number for {name!r}, as for the agent and each neighbour") from None
        check.finite(f"weights[{name!r}]", weight)


@dataclass(eq=False, repr=False)
class Dual(SharingAgent):
    """Base of the ADMM methods: after each round γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n).

    Parameters
    ----------
    rho : float or schedule
        Penalty ρ > 0.
    cost, count, censor, coder, coded_start
        As in `SharingAgent`.

    Attributes
    ----------
    dual : ndarray
        γ_i. Over all agents the duals sum to zero as long as no frame is lost.
    """

    _: KW_ONLY
    rho: Scheduled = Scheduled(above=0.0)
    dual: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dual = np.zeros(self.theta.shape)
        # Σ_n θ̂_i and Σ_n θ̂_n over the neighbours n.
        self._own_sum: Array = np.zeros(self.theta.shape)
        self._others_sum: Array = np.zeros(self.theta.shape)

    @property
    def degree(self) -> int:
        """The number of neighbours d_i."""
        return len(self.neighbors)

    def start(self) -> None:
        """Take in what all know at first; a subclass that has a `start` of its own calls this one."""
        self._add_up()

    def after_sharing(self) -> None:
        """Move the dual: γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n)."""
        self._add_up()
        self.dual = add_scaled_difference(self.dual, self.rho, self._own_sum, self._others_sum)

    def _add_up(self) -> None:
        self._own_sum = self.degree * self.sharing.own
        self._others_sum = self.sharing.sum_of_copies()

    def pull_to_sum(self) -> Array:
        """Return γ_i − ρ Σ_n (θ̂_i + θ̂_n), the linear term of an exact step."""
        return add_scaled_sum(self.dual, -self.rho, self._own_sum, self._others_sum)

    def pull_to_difference(self) -> Array:
        """Return γ_i + ρ Σ_n (θ̂_i − θ̂_n), the linear term of a linearised step."""
        return add_scaled_difference(self.dual, self.rho, self._own_sum, self._others_sum)


@dataclass(eq=False, repr=False)
class Diffusion(SharingAgent):
    """Base of the diffusion methods, which start a step from ψ_i = w_ii θ_i + Σ_n w_in θ̂_n.

    A neighbour whose frames were all lost is left out and the other weights grow to sum to 1. One that the censor may
    have kept silent so far has θ̂_n = 0 (`Sharing.known` tells them apart as far as that can be done).

    Parameters
    ----------
    eta : float or schedule
        Step size η > 0.
    weights : mapping
        w_in of the agent itself and of each neighbour, by name: a row of a doubly stochastic matrix.
    cost, count, censor, coder, coded_start
        As in `SharingAgent`.
    """

    _: KW_ONLY
    eta: Scheduled = Scheduled(above=0.0)
    weights: Mapping[Any, float]

    def start(self) -> None:
        """Check the weights; a subclass that has a `start` of its own calls this one."""
        check_weights(self.weights, [self.name, *self.neighbors])

    def combined(self) -> Array:
        """Return ψ_i, which is θ_i as long as nobody is known who has a weight."""
        own = self.weights[self.name]
        psi, total = self.sharing.add_known(own * self.theta, own, self.weights)
        if total == 0.0:
            return self.theta.copy()
        psi /= total
        return psi
