"""Base classes of the consensus methods, whose agents take local steps and exchange their states with neighbours.

A method is a dataclass whose fields are the method's parameters and whose `local_step` computes the method's equation.
`Dual` adds the dual variable of the ADMM methods, and `Diffusion` the weighted mean of the diffusion methods. In each
round, `run` first calls `SharingAgent.say` to take a step and broadcast the state, and then `SharingAgent.hear` to
process the received frames.
"""

import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

import netsim
from netsim import Frame
from netsim.agents.consensus.censor import Always, Censor, Lazy
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
    """Protocol of a cost function to minimise. A method may require further members, such as a gradient or samples."""

    @property
    def size(self) -> int | tuple[int, ...]:
        """Length D of the state θ, or its shape if θ is a matrix."""


Step = TypeVar("Step", bound=Callable[..., Array])


def asks(*methods: str) -> Callable[[Step], Step]:
    """Return a decorator that records in a local step which ``methods`` of the cost the step calls.

    A method that overrides a decorated local step does not inherit the record.
    """

    def marked(step: Step) -> Step:
        step.asks = methods  # type: ignore[attr-defined]
        return step

    return marked


def check_cost(kind: type, cost: object, *asked: str) -> None:
    """Raise BadInput unless ``cost`` has all members named in ``asked``, which the agent class ``kind`` requires."""
    missing = [name for name in asked if not hasattr(cost, name)]
    if missing:
        allowed = f"must have {' and '.join(asked)}, which {kind.__name__} asks for"
        raise BadInput(f"cost = <{type(cost).__name__}>: {allowed}; it has no {' and no '.join(missing)}")


def _annotations(cls: type) -> Mapping[str, object]:
    """Return a class's own annotations, without inherited ones.

    Python 3.14 and later evaluate annotations only when they are read.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        # Read the annotations as text: evaluating an annotation fails if its name is imported only for type checkers.
        return get_annotations(cls, format=Format.STRING)
    return inspect.get_annotations(cls)


@dataclass(eq=False, repr=False)
class SharingAgent(Cited, netsim.RoundAgent):
    """Base class of agents that take a local step and exchange their states with neighbours in each round.

    A method without rounds overrides `run`, and calls `begin`, `say` and `hear` at times of its own choice.

    Parameters
    ----------
    cost : Cost
        The cost function to minimise; its ``size`` gives the state's length.
    count : int
        Number of rounds.
    censor : Censor, optional
        Decides whether a change is broadcast; default: always.
    coder : netsim.coders.Coder, optional
        Encodes the state, or the state's change since the last broadcast. By default `Exact`: the state is sent
        unencoded.
    coded_start : bool
        Whether θ̂_i, the state that the neighbours know, starts as Q(0), the decoded value of encoded zeros, instead of
        0 (see `Sharing`).

    Attributes
    ----------
    theta : ndarray
        The state θ_i, initially zeros. It is replaced by a new array, never modified in place.
    sharing : Sharing
        The object that sends the state. It holds θ̂_i, the state last broadcast, and copies of the neighbours' θ̂_n. It
        is created when the agent begins to run.

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

    # Both ends of a link keep a copy of the other end's state.
    needs_links_both_ways = True
    # Whether clients receive a server's model; the censor `Lazy` needs the steps of that model.
    has_server: ClassVar[bool] = False

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
        check.instance("coder", self.coder, Coder, "a netsim.coders.Coder")
        if not callable(getattr(self.censor, "speaks", None)):
            raise check.refuse("censor", self.censor, "a Censor, with a method speaks()")
        if isinstance(self.censor, Lazy) and not self.has_server:
            raise BadInput(f"censor = Lazy: must be with OverStar, EF21 or EF21P; {type(self).__name__} has no server")
        self._forget()

    def _forget(self) -> None:
        """Set θ_i to zeros. A subclass with more learned arrays must extend this method to reset them."""
        size = self.cost.size
        shape = size if isinstance(size, tuple) else (size,)
        self.theta = np.zeros(tuple(check.integer("cost.size", length, low=1) for length in shape))

    def restart(self) -> None:
        """Reset the model and the copies of the neighbours' states to their initial values, as after a crash.

        A fault may call this at any time during a run. The agent takes part in the remaining rounds as if just switched
        on, whether `run` continues or is restarted; samples, step sizes and the number of the last round are kept. A
        subclass with additional state must override `restart` to reset that state, and call this method.
        """
        self._forget()
        vars(self).pop("sharing", None)

    def begin(self) -> None:
        """Call `start` and create the agent's `Sharing`, unless this run has already created it."""
        if "sharing" in vars(self) and self.sharing.is_of_this_run():
            return
        vars(self).pop("sharing", None)
        self._is_beginning = True
        try:
            self.start()
            # Reading the attribute creates the `Sharing`, unless `start` has read it already.
            self.sharing  # noqa: B018
        finally:
            del self._is_beginning

    async def say(self, k: int) -> None:
        """Take a local step, and broadcast the state unless it is censored.

        Parameters
        ----------
        k : int
            Number of the round, from 1, on which schedules and censors depend. In a method without rounds, the number
            of the step.

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
        """Apply the frames of round k to the copies of the neighbours' states, and then call `after_sharing`.

        Between `restart` and the next `say`, frames are ignored, because there are no copies to which they apply.

        Raises
        ------
        AgentError
            If a payload is not of the expected kind, or a sender is not a neighbour.
        """
        if "sharing" in vars(self):
            self.sharing.hear(frames, k)
            self.after_sharing()

    def outgoing(self) -> Array:
        """Return the array to broadcast, by default θ_i; the agent must not modify it in place afterwards."""
        return self.theta

    def imbalance(self) -> dict[str, Array]:
        """Return arrays whose sum over all agents is zero while no frame is lost; by default none.

        Studies record the norm of each sum in a column named after the array's key, such as "dual_residual".
        """
        return {}

    @property
    def _sending(self) -> Sending:
        return Sending(self.censor, self.coder, self.coded_start)

    def new_sharing(self) -> Sharing:
        """Return a new `Sharing` in its initial state."""
        return Sharing(self, self.outgoing().shape, self.censor, self.coder, coded_start=self.coded_start)

    def start(self) -> None:
        """Prepare for the first round; `begin` calls this once the neighbours are known.

        The first read of ``self.sharing`` creates the `Sharing`, and so calls `outgoing`. The inherited `start` may
        read it. So a subclass must first set the attributes that its `outgoing` reads, and then call the inherited
        `start`.
        """

    def local_step(self) -> Array:
        """Return the new θ_i."""
        raise NotImplementedError(f"{type(self).__name__} must define local_step(self), which returns the new θ_i")

    @classmethod
    def local_steps(cls, agents: list[Any]) -> Sequence[Array] | None:
        """Return the new θ_i of several agents of this class and of one network, in the order of the agents.

        A subclass may define this method to save time. The results must equal those of `local_step` to the last bit.
        None, the default, means that the caller must call each agent's `local_step`; the method must then have changed
        no agent. `local_steps` is ignored in a subclass that overrides another method of the class that defines it;
        each agent then takes its own local step.
        """
        return None

    @classmethod
    def _updates(cls, agents: list[Any]) -> bool:
        """Update several agents as their `after_sharing` would; return False if each must call `after_sharing`."""
        return False

    @classmethod
    def batch(cls, agents: Sequence[Any]) -> BatchRounds | None:
        """Return an object that runs the rounds of all these agents, or None if each agent must run its own rounds.

        The result is None if code outside netsim creates the agents' `Sharing` objects. Such an object may await while
        it broadcasts, so each agent needs a separate task.
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
        """Update the agent once the received frames have been applied to the copies; by default, do nothing."""


def _nothing(agents: list[Any]) -> bool:
    return True


class _Sharing:
    """Descriptor of the attribute `SharingAgent.sharing`; the first read during `begin` creates the agent's `Sharing`.

    An earlier read raises AttributeError, so that a probe that reads the attribute does not create the `Sharing`.
    """

    def __get__(self, agent: SharingAgent | None, owner: type[SharingAgent]) -> Any:
        if agent is None:
            return self
        if "_is_beginning" not in vars(agent):
            text = f"{owner.__name__!r} object has no attribute 'sharing' before its first round"
            raise AttributeError(text, name="sharing", obj=agent)
        agent.sharing = agent.new_sharing()
        return agent.sharing


# The descriptor is set outside the class body, where `dataclass` would use it as the field's default value.
SharingAgent.sharing = _Sharing()  # type: ignore[assignment]


class Weighted(SharingAgent):
    """Base class of the methods that weight their neighbours' states.

    `Diffusion` describes ``weights`` and ``unheard``. If ``weighs_itself`` is True, ``weights`` must include a weight
    for the agent itself.
    """

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
        """Return Σ_n w_in (θ̂_n − θ̂_i) over the neighbours whose copy of θ̂_n is valid (`Sharing.known`)."""
        pull, total = self.sharing.add_known(np.zeros_like(self.sharing.own), 0.0, self.weights)
        pull -= total * self.sharing.own
        return pull


class Proximal(SharingAgent):
    """Base class of the methods whose local step is an exact minimisation.

    The solver that the cost provides is reused in every round. A new solver is created only if the factor of ‖θ‖²
    changes.
    """

    cost: Any
    _argmin: Callable[[Array], Array]

    def start(self) -> None:
        """Discard the solver of an earlier run; a subclass that overrides `start` must call this method."""
        super().start()
        self._quadratic = math.nan

    def minimum(self, quadratic: float, linear: Array) -> Array:
        """Return argmin R_i(θ) + quadratic ‖θ‖² + linearᵀθ."""
        if quadratic != self._quadratic:
            self._quadratic, self._argmin = quadratic, self.cost.proximal(quadratic)
        return self._argmin(linear)

    def __getstate__(self) -> Any:
        """Return the attributes to pickle. The solver is left out, because each run creates a new one."""
        state = super().__getstate__()
        fields, *slots = state if isinstance(state, tuple) else (state,)
        fields = {name: value for name, value in fields.items() if name not in ("_argmin", "_quadratic")}
        return (fields, *slots) if slots else fields


@dataclass(eq=False, repr=False)
class WithDual(SharingAgent):
    """Base class of the methods with a dual variable, which starts at 0."""

    dual: Array = field(init=False, repr=False)

    def _forget(self) -> None:
        super()._forget()
        self.dual = np.zeros(self.theta.shape)

    def imbalance(self) -> dict[str, Array]:
        """Return the dual variable, whose sum over all agents is zero while no frame is lost."""
        return {"dual_residual": self.dual}


@dataclass(eq=False, repr=False)
class Dual(WithDual):
    """Base class of the ADMM methods, whose dual variable changes after each round: γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n).

    θ̂_i is the state that agent i last broadcast; the sum is over the neighbours n.

    Parameters
    ----------
    rho : float or schedule
        Penalty ρ > 0.
    duals : Duals, optional
        How γ_i is computed. The default `Accumulated` uses the update above; `RunningSums`, `CodedSums` and `EdgeDuals`
        tolerate lost frames.
    cost, count, censor, coder, coded_start
        As in `SharingAgent`.

    Attributes
    ----------
    dual : ndarray
        γ_i. The γ_i of all agents sum to zero as long as no frame is lost.
    """

    _: KW_ONLY
    rho: Scheduled = Scheduled(above=0.0)
    duals: Duals = Accumulated()

    def __post_init__(self) -> None:
        super().__post_init__()
        check.instance("duals", self.duals, Duals, "one of Accumulated, RunningSums, CodedSums and EdgeDuals")
        self.duals.check(self._sending, is_scheduled="rho" in schedules_of(self))

    def new_sharing(self) -> Sharing:
        """Return a new `Sharing` of the type that ``duals`` needs, in its initial state."""
        return self.duals.sharing(self, self.theta.shape, self._sending, lambda: self.rho)

    def _forget(self) -> None:
        super()._forget()
        # Σ_n θ̂_i over the neighbours n.
        self._own_sum: Array = np.zeros(self.theta.shape)
        # Σ_n θ̂_n over the neighbours n.
        self._others_sum: Array = np.zeros(self.theta.shape)

    @property
    def degree(self) -> int:
        """The number of neighbours d_i."""
        return len(self.neighbors)

    def start(self) -> None:
        """Compute Σ_n θ̂_i and Σ_n θ̂_n for the first step; a subclass that overrides `start` must call this method."""
        self._update_sums()

    def after_sharing(self) -> None:
        """Update the sums and γ_i; with `Accumulated` duals, γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n)."""
        self._update_sums()
        self.dual = self.sharing.next_dual(self.dual, self.rho, self._own_sum, self._others_sum)

    def _update_sums(self) -> None:
        self._own_sum = self.degree * self.sharing.own
        self._others_sum = self.sharing.sum_of_copies()

    def pull_to_sum(self) -> Array:
        """Return γ_i − ρ Σ_n (θ̂_i + θ̂_n), the linear term of an exact minimisation step."""
        return add_scaled_sum(self.dual, -self.rho, self._own_sum, self._others_sum)

    def pull_to_difference(self) -> Array:
        """Return γ_i + ρ Σ_n (θ̂_i − θ̂_n), the linear term of a linearised step."""
        return add_scaled_difference(self.dual, self.rho, self._own_sum, self._others_sum)


@dataclass(eq=False, repr=False)
class Diffusion(Weighted):
    """Base class of the diffusion methods, whose local step starts from ψ_i = w_ii θ_i + Σ_n w_in θ̂_n.

    θ̂_n is the state that neighbour n last broadcast. Until the first frame from n arrives, the mean omits n, and the
    other weights are renormalised to sum to 1; a zero in place of θ̂_n would pull the model towards zero. With
    ``unheard="dropped"``, the mean omits n in every round in which no frame from n arrives. If only a censor has kept n
    silent so far, n counts with θ̂_n = 0. `Sharing.known` decides, as far as possible, whether n was censored or its
    frames were lost.

    Parameters
    ----------
    eta : float or schedule
        Step size η > 0.
    weights : mapping
        The weight w_in of the agent itself and of each neighbour, by name: a row of a doubly stochastic matrix.
    unheard : {"kept", "dropped"}
        Whether a neighbour from which no frame arrived in this round counts with its last θ̂_n ("kept") or not at all
        ("dropped"). "dropped" cannot be combined with a censor, because a censored neighbour sends nothing while its
        state hardly changes.
    cost, count, censor, coder, coded_start
        As in `SharingAgent`.
    """

    _: KW_ONLY
    eta: Scheduled = Scheduled(above=0.0)
    weights: Mapping[Any, float]
    unheard: str = "kept"

    def combined(self, state: Array | None = None) -> Array:
        """Return ψ_i, which is θ_i if every neighbour is omitted or has the weight 0.

        A method that broadcasts another array than θ_i passes that array as ``state``, which then replaces θ_i.
        """
        state = self.theta if state is None else state
        own = self.weights[self.name]
        psi, total = self.sharing.add_known(own * state, own, self.weights)
        if total == 0.0:
            return state.copy()
        psi /= total
        return psi
