"""What every method that shares a state is made of: a local step, the sharing, and what is done with what was heard.

A method is a dataclass of its parameters with a `local_step` that reads like its equation. `Dual` adds the dual
variable of the ADMM methods, `Diffusion` the weighted mean of the diffusion methods. What a method says and what it
makes of what it hears, `SharingAgent.say` and `SharingAgent.hear`, know no rounds but by their number: only `run` says
when.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

import netsim
from netsim import Frame
from netsim.agents.consensus.censor import Always, Censor
from netsim.agents.consensus.duals import Accumulated, Duals, Sending
from netsim.agents.consensus.sharing import Sharing
from netsim.agents.papers import Cited
from netsim.agents.schedule import Scheduled, advance, schedules_of
from netsim.coders import Coder, Exact
from netsim.core import add_scaled_difference, add_scaled_sum
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Array


class Cost(Protocol):
    """What an agent minimises. A method asks more of it: a gradient, a proximal step, samples."""

    @property
    def size(self) -> int | tuple[int, ...]:
        """Length D of the state θ, or the shape of one that is a matrix."""


Step = TypeVar("Step", bound=Callable[..., Array])


def asks(*methods: str) -> Callable[[Step], Step]:
    """Mark a local step with what it calls of the agent's cost; a subclass with another step asks for nothing of it."""

    def marked(step: Step) -> Step:
        step.asks = methods  # type: ignore[attr-defined]
        return step

    return marked


@dataclass(eq=False, repr=False)
class SharingAgent(Cited, netsim.Agent):
    """In each round it says its state after a local step, and hears those of its neighbours.

    A subclass with a `run` of its own calls `begin`, `say` and `hear` at other moments: a method without rounds is the
    same class.

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
        For an argument outside its range, or a cost without what the method asks for.
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
        asked = ("size", *getattr(type(self).local_step, "asks", ()))
        missing = [name for name in asked if not hasattr(self.cost, name)]
        if missing:
            allowed = f"must have {' and '.join(asked)}, which {type(self).__name__} asks for"
            raise BadInput(f"cost = <{type(self.cost).__name__}>: {allowed}; it has no {' and no '.join(missing)}")
        if not isinstance(self.coder, Coder):
            raise check.refuse("coder", self.coder, "a netsim.coders.Coder")
        if not callable(getattr(self.censor, "speaks", None)):
            raise check.refuse("censor", self.censor, "a Censor, with a method speaks")
        self._forget()

    def _forget(self) -> None:
        """Set what it learned to what it was before the first round."""
        size = self.cost.size
        shape = size if isinstance(size, tuple) else (size,)
        self.theta = np.zeros(tuple(check.integer("cost.size", length, low=1) for length in shape))

    def restart(self) -> None:
        """Lose the state, as in a crash: the model, and all that is known of the neighbours, are as at the beginning.

        A fault may call it at any time of a run. The agent takes part in the rounds that are left as one that has just
        been switched on, whether `run` goes on or is begun anew; samples, step sizes and the number of the last round
        stay. A subclass with a state of its own has a `restart` that forgets it, too, and
        calls this one.
        """
        self._forget()
        vars(self).pop("sharing", None)

    async def run(self) -> None:
        """Take part in the rounds."""
        self.begin()
        async for k in self.rounds(self.count):
            await self.say(k)
            self.hear(await self.collect(), k)

    def begin(self) -> None:
        """Begin to share, unless it did already in this run."""
        if "sharing" not in vars(self) or not self.sharing.is_of_this_run():
            self.sharing = self.new_sharing()
            self.start()

    async def say(self, k: int) -> None:
        """Take a local step, and broadcast the state unless it is censored.

        Parameters
        ----------
        k : int
            Number of the round or, without rounds, of the step, from 1: schedules and censors depend on it.

        Raises
        ------
        BadInput
            If the local step returns no array of the state's shape.
        """
        advance(self, k)
        if "sharing" not in vars(self):
            self.begin()
        theta = self.local_step()
        if getattr(theta, "shape", None) != self.theta.shape:
            raise self._refused(theta)
        self.theta = theta
        await self.sharing.say(theta, k)

    def hear(self, frames: Sequence[Frame], k: int) -> None:
        """Take in frames, and use what they brought: those of round k or, without rounds, what arrived by now.

        Between `restart` and the next `say` nothing is taken in, as the state that the frames met is lost.

        Raises
        ------
        AgentError
            If a payload is not what the neighbours share, or a sender is no neighbour.
        """
        if "sharing" in vars(self):
            self.sharing.hear(frames, k)
            self.after_sharing()

    def new_sharing(self) -> Sharing:
        """Return its end of the sharing, as at the beginning."""
        return Sharing(self, self.theta.shape, self.censor, self.coder, coded_start=self.coded_start)

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


class Weighted(SharingAgent):
    """Base of the methods that weigh what they know of their neighbours, by ``weights`` and ``unheard``."""

    weights: Mapping[Any, float]
    unheard: str
    weighs_itself = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("unheard", self.unheard, ("kept", "dropped"))
        if self.unheard == "dropped" and not isinstance(self.censor, Always):
            raise BadInput("unheard = 'dropped': must go without a censor, for a censored neighbour is unchanged")

    def start(self) -> None:
        """Check the weights; a subclass that has a `start` of its own calls this one."""
        for name in (self.name, *self.neighbors) if self.weighs_itself else self.neighbors:
            try:
                weight = self.weights[name]
            except (LookupError, TypeError):
                expected = f"must have a number for {name!r}, as for the agent and each neighbour"
                raise BadInput(f"weights: {expected}") from None
            check.finite(f"weights[{name!r}]", weight)
        self.sharing.only_present = self.unheard == "dropped"


@dataclass(eq=False, repr=False)
class Dual(SharingAgent):
    """Base of the ADMM methods: after each round γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n).

    Parameters
    ----------
    rho : float or schedule
        Penalty ρ > 0.
    duals : Duals, optional
        How the duals are kept: `Accumulated`, as above, or so that they survive lost frames (`RunningSums`,
        `CodedSums`, `EdgeDuals`).
    cost, count, censor, coder, coded_start
        As in `SharingAgent`.

    Attributes
    ----------
    dual : ndarray
        γ_i. Over all agents the duals sum to zero as long as no frame is lost.
    """

    _: KW_ONLY
    rho: Scheduled = Scheduled(above=0.0)
    duals: Duals = Accumulated()
    dual: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.duals, Duals):
            raise check.refuse("duals", self.duals, "one of Accumulated, RunningSums, CodedSums and EdgeDuals")
        self.duals.check(self._sending, is_scheduled="rho" in schedules_of(self))

    @property
    def _sending(self) -> Sending:
        return Sending(self.censor, self.coder, self.coded_start)

    def new_sharing(self) -> Sharing:
        """Return its end of the sharing, as its way to keep the duals has it."""
        return self.duals.sharing(self, self.theta.shape, self._sending, lambda: self.rho)

    def _forget(self) -> None:
        super()._forget()
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
        self.dual = self.sharing.next_dual(self.dual, self.rho, self._own_sum, self._others_sum)

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
class Diffusion(Weighted):
    """Base of the diffusion methods, which start a step from ψ_i = w_ii θ_i + Σ_n w_in θ̂_n.

    A neighbour that is not believed is left out and the other weights grow to sum to 1, for a zero in its place would
    draw every model to zero. Believed is one that was ever heard, or, with ``unheard="dropped"``, in this round. One
    that the censor may have kept silent so far has θ̂_n = 0 (`Sharing.known` tells them apart as far as that can be
    done).

    Parameters
    ----------
    eta : float or schedule
        Step size η > 0.
    weights : mapping
        w_in of the agent itself and of each neighbour, by name: a row of a doubly stochastic matrix.
    unheard : {"kept", "dropped"}
        Of a neighbour not heard in this round its last θ̂_n counts, or nothing. The latter only without a censor: a
        censored neighbour sends nothing while its state is unchanged.
    cost, count, censor, coder, coded_start
        As in `SharingAgent`.
    """

    _: KW_ONLY
    eta: Scheduled = Scheduled(above=0.0)
    weights: Mapping[Any, float]
    unheard: str = "kept"

    def combined(self) -> Array:
        """Return ψ_i, which is θ_i as long as no neighbour with a weight is known."""
        own = self.weights[self.name]
        psi, total = self.sharing.add_known(own * self.theta, own, self.weights)
        if total == 0.0:
            return self.theta.copy()
        psi /= total
        return psi
