"""Base classes of the methods that share a state: a local step, the exchange of states, and an update from them.

A method is a dataclass of parameters whose `local_step` follows the method's equation. `Dual` adds the dual
variable of the ADMM methods, `Diffusion` the weighted mean of the diffusion methods. `SharingAgent.say` and
`SharingAgent.hear` depend on rounds only through the round number; only `run` determines when they are called.
"""

import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

import netsim
from netsim import Frame
from netsim.agents.consensus.censor import Always, Censor
from netsim.agents.consensus.duals import Accumulated, Duals, Sending
from netsim.agents.consensus.shared_rounds import SharedRounds, steps
from netsim.agents.consensus.sharing import Sharing
from netsim.agents.papers import Cited
from netsim.agents.schedule import Scheduled, advance, schedules_of
from netsim.coders import Coder, Exact
from netsim.core import add_scaled_difference, add_scaled_sum
from netsim.errors import BadInput
from netsim.round_agent import BatchRounds, definer, overrides
from netsim.util import check
from netsim.util.typing import Array


class Cost(Protocol):
    """A cost function to minimise. Methods may require further members: a gradient, a proximal step, samples."""

    @property
    def size(self) -> int | tuple[int, ...]:
        """Length D of the state θ, or its shape if θ is a matrix."""


Step = TypeVar("Step", bound=Callable[..., Array])


def asks(*methods: str) -> Callable[[Step], Step]:
    """Declare the cost's members that a local step calls; an overriding step does not inherit them."""

    def marked(step: Step) -> Step:
        step.asks = methods  # type: ignore[attr-defined]
        return step

    return marked


def check_cost(kind: type, cost: object, *asked: str) -> None:
    """Raise BadInput unless a cost has the members that a class of agents requires."""
    missing = [name for name in asked if not hasattr(cost, name)]
    if missing:
        allowed = f"must have {' and '.join(asked)}, which {kind.__name__} asks for"
        raise BadInput(f"cost = <{type(cost).__name__}>: {allowed}; it has no {' and no '.join(missing)}")


def _annotations(cls: type) -> Mapping[str, object]:
    """Return a class's annotations without inherited ones; since Python 3.14 they are evaluated lazily."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        # As text, because a name that only type checkers import has no value.
        return get_annotations(cls, format=Format.STRING)
    return inspect.get_annotations(cls)


@dataclass(eq=False, repr=False)
class SharingAgent(Cited, netsim.RoundAgent):
    """In each round, takes a local step, broadcasts its state and receives its neighbours' states.

    A subclass that overrides `run` may call `begin`, `say` and `hear` at other times, as a method without rounds does.

    Parameters
    ----------
    cost : Cost
        The cost function to minimise; its ``size`` gives the state's length.
    count : int
        Number of rounds.
    censor : Censor, optional
        Decides whether a change is broadcast; default: always.
    coder : netsim.coders.Coder, optional
        Encodes state changes, or states; by default `Exact`, which sends the state unencoded.
    coded_start : bool
        Whether θ̂ starts as Q(0) instead of 0 (see `Sharing`).

    Attributes
    ----------
    theta : ndarray
        The state θ_i, initially zeros. It is replaced by a new array, never modified in place.
    sharing : Sharing
        θ̂_i and the copies of the neighbours' θ̂_n; set when the agent begins to run.

    Raises
    ------
    BadInput
        For an argument outside its range, or a cost that lacks a member the method requires.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, kind in _annotations(cls).items():
            if "Scheduled" in str(kind) and not isinstance(vars(cls).get(name), Scheduled):
                raise TypeError(f"{cls.__qualname__}.{name}: must be Scheduled(default=…), not {vars(cls).get(name)!r}")

    # Both ends of a link keep copies of each other's state.
    needs_links_both_ways = True

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
        check_cost(type(self), self.cost, "size", *getattr(type(self).local_step, "asks", ()))
        if not isinstance(self.coder, Coder):
            raise check.refuse("coder", self.coder, "a netsim.coders.Coder")
        if not callable(getattr(self.censor, "speaks", None)):
            raise check.refuse("censor", self.censor, "a Censor, with a method speaks()")
        self._forget()

    def _forget(self) -> None:
        """Reset the learned state to its initial value."""
        size = self.cost.size
        shape = size if isinstance(size, tuple) else (size,)
        self.theta = np.zeros(tuple(check.integer("cost.size", length, low=1) for length in shape))

    def restart(self) -> None:
        """Reset the model and all knowledge of the neighbours to their initial values, as after a crash.

        A fault may call this at any time during a run. The agent takes part in the remaining rounds as if just switched
        on, whether `run` continues or is restarted; samples, step sizes and the number of the last round are kept. A
        subclass with additional state must override `restart` to reset that state, and call this method.
        """
        self._forget()
        vars(self).pop("sharing", None)

    def begin(self) -> None:
        """Set up the sharing, unless that was already done in this run."""
        if "sharing" in vars(self) and self.sharing.is_of_this_run():
            return
        vars(self).pop("sharing", None)
        self._is_beginning = True
        try:
            self.start()
            # Reading the attribute creates the sharing, unless `start` has read it already.
            self.sharing  # noqa: B018
        finally:
            del self._is_beginning

    async def say(self, k: int) -> None:
        """Take a local step, and broadcast the state unless it is censored.

        Parameters
        ----------
        k : int
            Number of the round (without rounds: of the step), from 1, on which schedules and censors depend.

        Raises
        ------
        BadInput
            If the local step does not return an array of the state's shape.
        """
        advance(self, k)
        if "sharing" not in vars(self):
            self.begin()
        theta = self.local_step()
        if getattr(theta, "shape", None) != self.theta.shape:
            raise self._refused(theta)
        self.theta = theta
        await self.sharing.say(self.outgoing(), k)

    def hear(self, frames: Sequence[Frame], k: int) -> None:
        """Process the frames of round k (without rounds: those that arrived so far) and update the agent.

        Between `restart` and the next `say`, frames are ignored, because the state that they would update is lost.

        Raises
        ------
        AgentError
            If a payload is not of the expected kind, or a sender is not a neighbour.
        """
        if "sharing" in vars(self):
            self.sharing.hear(frames, k)
            self.after_sharing()

    def outgoing(self) -> Array:
        """Return the state that is shared, a new array; by default θ_i."""
        return self.theta

    def imbalance(self) -> dict[str, Array]:
        """Return {column in studies: array}; each array's sum over all agents is zero while no frame is lost.

        The default is an empty dict.
        """
        return {}

    def new_sharing(self) -> Sharing:
        """Return a new `Sharing` in its initial state."""
        return Sharing(self, self.outgoing().shape, self.censor, self.coder, coded_start=self.coded_start)

    def start(self) -> None:
        """Prepare for the first round; called once the neighbours are known.

        The sharing is created when this method first reads ``self.sharing``, or else after it returns. Creating it
        calls `outgoing`, so a subclass must set up what `outgoing` needs before it calls a base's `start`.
        """

    def local_step(self) -> Array:
        """Return the new θ_i."""
        raise NotImplementedError(f"{type(self).__name__} must define local_step(self), which returns the new θ_i")

    @classmethod
    def local_steps(cls, agents: list[Any]) -> Sequence[Array] | None:
        """Return the new θ_i of several agents of this class in one call, in their order; optional.

        The results must equal those of each agent's `local_step` to the last bit. If this method returns None, the
        default, each agent takes its own local step, so no agent may have been changed. The agents take part in the
        rounds of one network. If a subclass overrides a method of the class that defines `local_steps`, each of its
        agents takes its own local step.
        """
        return None

    @classmethod
    def _updates(cls, agents: list[Any]) -> bool:
        """Update several agents as `after_sharing` of the same class does; return False if each must call its own."""
        return False

    @classmethod
    def batch(cls, agents: Sequence[Any]) -> BatchRounds | None:
        """Return an object that runs the rounds of these agents at once, or None if each must run its own.

        A `Sharing` defined by a user may await while it broadcasts, so its agent must run its own rounds, in a task.
        """
        makers = {definer(cls, "new_sharing"), *(type(agent.duals) for agent in agents if issubclass(cls, Dual))}
        if any(not maker.__module__.startswith("netsim.") for maker in makers):
            return None
        usual = definer(cls, "say") is definer(cls, "hear") is definer(cls, "outgoing") is SharingAgent
        if not usual or definer(cls, "new_sharing") not in (SharingAgent, Dual):
            return super().batch(agents)
        source = definer(cls, "after_sharing")
        update: Callable[[list[Any]], bool] | None = None
        if source is SharingAgent:
            update = _nothing
        elif source is definer(cls, "_update_sums") is definer(cls, "degree") is Dual and steps is not None:
            update = steps.update_duals
        elif definer(cls, "_updates") is source and not overrides(cls, source):
            update = cls._updates
        is_changed = overrides(cls, definer(cls, "local_steps"))
        return SharedRounds(agents, SharingAgent.local_steps if is_changed else cls.local_steps, update)

    def _refused(self, theta: object) -> BadInput:
        shown = theta.shape if isinstance(theta, np.ndarray) else type(theta).__name__
        return BadInput(
            f"{type(self).__name__}.local_step() returned {shown}, but must return an array of shape {self.theta.shape}"
        )

    def after_sharing(self) -> None:
        """Update the agent after the neighbours' frames were processed; does nothing by default."""


def _nothing(agents: list[Any]) -> bool:
    return True


class _Sharing:
    """The descriptor of `SharingAgent.sharing` before it is set: creates the sharing in `begin` only.

    Elsewhere it raises AttributeError, so that a probe that reads the attribute does not create the sharing.
    """

    def __get__(self, agent: SharingAgent | None, owner: type[SharingAgent]) -> Any:
        if agent is None:
            return self
        if "_is_beginning" not in vars(agent):
            text = f"{owner.__name__!r} object has no attribute 'sharing' before its first round"
            raise AttributeError(text, name="sharing", obj=agent)
        agent.sharing = agent.new_sharing()
        return agent.sharing


# Set after the class is created, because a dataclass would take it for the field's default.
SharingAgent.sharing = _Sharing()  # type: ignore[assignment]


class Weighted(SharingAgent):
    """Base of the methods that weight their neighbours' states by ``weights``; ``unheard`` as in `Diffusion`."""

    weights: Mapping[Any, float]
    unheard: str
    weighs_itself = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("unheard", self.unheard, ("kept", "dropped"))
        if self.unheard == "dropped" and not isinstance(self.censor, Always):
            raise BadInput(
                "unheard = 'dropped': cannot be combined with a censor, because a silent "
                "neighbour's state may just be unchanged"
            )

    def start(self) -> None:
        """Check the weights; a subclass that overrides `start` must call this method."""
        for name in (self.name, *self.neighbors) if self.weighs_itself else self.neighbors:
            try:
                weight = self.weights[name]
            except (LookupError, TypeError):
                expected = f"must have a number for {name!r}, as for the agent and each neighbour"
                raise BadInput(f"weights: {expected}") from None
            check.finite(f"weights[{name!r}]", weight)
        self.sharing.only_present = self.unheard == "dropped"

    def pull(self) -> Array:
        """Return Σ_n w_in (θ̂_n − θ̂_i) over the neighbours whose θ̂_n is known, in the shape of what is shared."""
        pull, total = self.sharing.add_known(np.zeros_like(self.sharing.own), 0.0, self.weights)
        pull -= total * self.sharing.own
        return pull


class Proximal(SharingAgent):
    """Base of the methods with exact local steps; refactors the cost's matrix when its quadratic term changes."""

    cost: Any
    _argmin: Callable[[Array], Array]

    def start(self) -> None:
        """Discard the factors; a subclass that overrides `start` must call this method."""
        super().start()
        self._quadratic = math.nan

    def minimum(self, quadratic: float, linear: Array) -> Array:
        """Return argmin R_i(θ) + quadratic ‖θ‖² + linearᵀθ."""
        if quadratic != self._quadratic:
            self._quadratic, self._argmin = quadratic, self.cost.proximal(quadratic)
        return self._argmin(linear)

    def __getstate__(self) -> Any:
        """Return the state to pickle, without the factors, which a run computes again."""
        state = super().__getstate__()
        fields, *slots = state if isinstance(state, tuple) else (state,)
        fields = {name: value for name, value in fields.items() if name not in ("_argmin", "_quadratic")}
        return (fields, *slots) if slots else fields


@dataclass(eq=False, repr=False)
class Dual(SharingAgent):
    """Base of the ADMM methods: after each round γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n).

    Parameters
    ----------
    rho : float or schedule
        Penalty ρ > 0.
    duals : Duals, optional
        How the duals are maintained: `Accumulated`, as above, or robust against lost frames (`RunningSums`,
        `CodedSums`, `EdgeDuals`).
    cost, count, censor, coder, coded_start
        As in `SharingAgent`.

    Attributes
    ----------
    dual : ndarray
        γ_i. The duals of all agents sum to zero as long as no frame is lost.
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
        """Return a new `Sharing` of the type that ``duals`` needs, in its initial state."""
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
        """Initialise the sums of states; a subclass that overrides `start` must call this method."""
        self._update_sums()

    def imbalance(self) -> dict[str, Array]:
        """Return γ_i."""
        return {"dual_residual": self.dual}

    def after_sharing(self) -> None:
        """Update the dual: γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n)."""
        self._update_sums()
        self.dual = self.sharing.next_dual(self.dual, self.rho, self._own_sum, self._others_sum)

    def _update_sums(self) -> None:
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
    """Base of the diffusion methods, whose local step starts from ψ_i = w_ii θ_i + Σ_n w_in θ̂_n.

    A neighbour whose copy is not valid is left out and the other weights are renormalised to sum to 1, because a zero
    in its place would pull every model towards zero. A copy is valid if the neighbour was ever received from or, with
    ``unheard="dropped"``, in this round. A neighbour that its censor may have silenced so far counts with θ̂_n = 0
    (`Sharing.known` distinguishes this case from lost frames as far as possible).

    Parameters
    ----------
    eta : float or schedule
        Step size η > 0.
    weights : mapping
        The weight w_in of the agent itself and of each neighbour, by name: a row of a doubly stochastic matrix.
    unheard : {"kept", "dropped"}
        Whether a neighbour from which no frame arrived in this round counts with its last θ̂_n ("kept") or not at all
        ("dropped"). "dropped" requires no censor, because a censored neighbour sends nothing while its state is
        unchanged.
    cost, count, censor, coder, coded_start
        As in `SharingAgent`.
    """

    _: KW_ONLY
    eta: Scheduled = Scheduled(above=0.0)
    weights: Mapping[Any, float]
    unheard: str = "kept"

    def combined(self, state: Array | None = None) -> Array:
        """Return ψ_i, which equals θ_i as long as no neighbour with a non-zero weight is known.

        ``state`` replaces θ_i as the agent's own term if the shared state is not θ_i.
        """
        state = self.theta if state is None else state
        own = self.weights[self.name]
        psi, total = self.sharing.add_known(own * state, own, self.weights)
        if total == 0.0:
            return state.copy()
        psi /= total
        return psi
