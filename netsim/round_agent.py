"""Base classes of agents that repeat each round: broadcast as the round opens, process frames as it closes."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.agent import Agent
from netsim.core import Frame, added
from netsim.errors import AgentError, BadInput
from netsim.transport.heard import Heard
from netsim.wire.payloads import encodable

Failed = Callable[[int, BaseException], None]
"""Called with the index of an agent in its batch and the error that this agent's work raised."""

Call = Callable[..., Any]
"""Calls a function on behalf of an agent, given by its index in the batch, to which errors are attributed."""


class RoundAgent(Agent):
    """Base of agents that repeat the same actions in ``count`` rounds: subclass it and write `say` and `hear`.

    Attributes
    ----------
    count : int
        The number of rounds.
    """

    count: int

    async def run(self) -> None:
        """Run all rounds: first `begin`, then `say`, `collect` and `hear` in each round."""
        self.begin()
        async for k in self.rounds(self.count):
            await self.say(k)
            # A separate statement, because `hear` may be replaced during the wait and must be looked up afterwards.
            frames = await self.collect()
            self.hear(frames, k)

    def begin(self) -> None:
        """Prepare for the first round; does nothing by default."""

    async def say(self, k: int) -> None:
        """Send the messages of round k; called as the round opens."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: async def say(self, k)")

    def hear(self, frames: Sequence[Frame], k: int) -> None:
        """Process the frames (a `Heard`) that arrived in round k; called as the round closes."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: def hear(self, frames, k)")

    @classmethod
    def batch(cls, agents: Sequence[Any]) -> "BatchRounds | None":
        """Return an object that batches the rounds of this class's agents; None: each agent runs in its own task.

        A user's `say` may wait for other coroutines, and so needs a task. The `say` of netsim's agents never waits in a
        network that batches rounds.
        """
        if any(not definer(cls, name).__module__.startswith("netsim.") for name in ("say", "hear")):
            return None
        return BatchRounds(agents)


class BatchRounds:
    """Runs the rounds of a batch of agents of one class, with the same results as each agent's `say` and `hear`.

    Parameters
    ----------
    agents : sequence of RoundAgent
        The agents, in their order.
    """

    def __init__(self, agents: Sequence[Any]) -> None:
        self._agents = list(agents)
        self._kind = type(self._agents[0])
        # The agents' classes, and how many attributes each agent had, when `own_ways` last examined them.
        self._seen: tuple[list[type], list[int]] = [], []
        self._own_ways: list[int] = []

    def own_ways(self) -> list[int]:
        """Return the indices of agents that need a separate task, because their class or a method was replaced."""
        seen = list(map(type, self._agents)), list(map(len, map(vars, self._agents)))
        if seen != self._seen:
            self._seen = seen
            self._own_ways = [
                place
                for place, agent in enumerate(self._agents)
                if type(agent) is not self._kind or has_own_method(agent)
            ]
        return self._own_ways

    def say(self, k: int, call: Call, failed: Failed) -> None:
        """Send the agents' messages as round k opens, in their order."""
        for place, agent in enumerate(self._agents):
            call(place, complete, agent.say, k)

    def hear(self, k: int, until: float, call: Call, failed: Failed) -> None:
        """Process the frames of round k, which arrived before ``until`` (s), for the agents in their order."""
        for place, agent in enumerate(self._agents):
            call(place, _hear, agent, until, k)


def complete(say: Callable[..., Coroutine[Any, Any, None]], *values: Any) -> None:
    """Run to its end a `say` coroutine, of an agent or of its sharing, that never waits."""
    saying = say(*values)
    try:
        while True:
            saying.send(None)
    except StopIteration:
        return


def _hear(agent: RoundAgent, until: float, k: int) -> None:
    agent.hear(Heard(agent.inbox.take_true(until)), k)


def has_own_method(agent: object) -> bool:
    """Return whether an agent has an attribute that replaces a method of its class."""
    kind = type(agent)
    return any(callable(getattr(kind, name, None)) for name in vars(agent))


def definer(kind: type, name: str) -> type:
    """Return the class in the MRO of ``kind`` that defines an attribute; `object` if none does."""
    return next((each for each in kind.__mro__ if name in vars(each)), object)


def overrides(kind: type, base: type) -> bool:
    """Return whether a class, or a class between it and ``base``, overrides a method or property of ``base``."""
    fields = vars(base).get("__dataclass_fields__", ())
    for each in kind.__mro__[: kind.__mro__.index(base)]:
        for name, value in vars(each).items():
            # A plain value that replaces another one, such as a default, is no override; one that replaces a property
            # is.
            is_code = callable(value) or hasattr(type(value), "__get__")
            is_code = is_code or isinstance(vars(definer(base, name)).get(name), property)
            if is_code and not name.startswith("__") and (name in fields or hasattr(base, name)):
                return True
    return False


class HeardByAll(list[Heard]):
    """The frames received in a round by each agent of a batch: a `Heard` for each agent, and sums and counts as arrays.

    Attributes
    ----------
    agents : list of StateAgent
        The agents, whose parameters `StateAgent.step_all` may read.
    """

    __slots__ = ("_shape", "agents")

    def __init__(self, heard: Sequence[Heard], agents: list[Any], shape: tuple[int, ...]) -> None:
        super().__init__(heard)
        self.agents = agents
        self._shape = shape

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of frames that each agent received, shape (agents, 1, …) with as many axes as the states."""
        return np.array([len(each) for each in self]).reshape(-1, *[1] * len(self._shape))

    def sum(self) -> NDArray[np.float64]:
        """Return `Heard.sum` of each agent, shape (agents, …); zeros for agents that received nothing.

        Raises
        ------
        AgentError
            If an agent received anything but arrays of the shape of its state.
        """
        total = np.zeros((len(self), *self._shape))
        for place, each in enumerate(self):
            if each:
                at_once = added(each)
                one = np.asarray(each.sum()) if at_once is None else at_once
                if one.shape != self._shape:
                    raise AgentError(
                        f"agent {self.agents[place].name!r} heard a sum of shape {one.shape}: must have that of its "
                        f"state, {self._shape}"
                    )
                total[place] = one
        return total


class StateAgent(RoundAgent):
    """Base of agents that broadcast a state each round: subclass it and write `step` (and `step_all`, for speed).

    In each of ``count`` rounds an agent broadcasts its state in a message of kind "state", and computes a new state
    from the received frames.

    Attributes
    ----------
    state : ndarray
        The agent's state, which the subclass sets. A step replaces it.
    """

    state: Any

    async def say(self, k: int) -> None:
        """Broadcast the state."""
        await self.broadcast("state", self.state)

    def hear(self, frames: Sequence[Frame], k: int) -> None:
        """Replace the state by the result of `step`."""
        self.state = self.step(self.state, frames)

    def step(self, state: Any, heard: Any) -> Any:
        """Return the agent's new state.

        Parameters
        ----------
        state : ndarray
            The agent's state, not to be changed in place.
        heard : Heard
            The frames that arrived in this round.
        """
        raise NotImplementedError(f"{type(self).__qualname__} must define: def step(self, state, heard)")

    @classmethod
    def step_all(cls, states: NDArray[np.float64], heard: HeardByAll) -> Any:
        """Return the new states of several agents in one call, byte for byte equal to the results of `step`.

        Optional. `step` is called instead if `step_all` returns None (the default), if the states are not float64
        arrays of one shape, or if a run needs a task for each agent (faults, a radio, watched states, …).

        Parameters
        ----------
        states : float64 array, shape (agents, …)
            The states. This array is a copy, which may be changed in place.
        heard : HeardByAll
            The messages that each agent received.

        Returns
        -------
        array of that shape, or None
        """
        return None

    @classmethod
    def batch(cls, agents: Sequence[Any]) -> BatchRounds | None:
        """Return an object that batches the rounds of this class's agents."""
        if definer(cls, "say") is not StateAgent or definer(cls, "hear") is not StateAgent:
            return super().batch(agents)
        is_changed = overrides(cls, definer(cls, "step_all"))
        return _StateRounds(agents, StateAgent.step_all if is_changed else cls.step_all)


class _StateRounds(BatchRounds):
    """Runs the rounds of a batch of `StateAgent` objects, with `StateAgent.step_all` where possible."""

    def __init__(self, agents: Sequence[Any], step_all: Callable[[NDArray[np.float64], HeardByAll], Any]) -> None:
        super().__init__(agents)
        self._step_all = step_all
        self._contexts = [agent._netsim for agent in agents]

    def say(self, k: int, call: Call, failed: Failed) -> None:
        """Broadcast all states."""
        for place, (agent, context) in enumerate(zip(self._agents, self._contexts, strict=True)):
            try:
                number = -1 if context.captions is None else context.outbox.sent
                context.outbox.broadcast("state", encodable(agent.state), k, False)
                if number >= 0:
                    context.caption(number, None, agent.state)
            except Exception as error:
                failed(place, error)

    def hear(self, k: int, until: float, call: Call, failed: Failed) -> None:
        """Replace the agents' states by the results of `StateAgent.step_all` or `StateAgent.step`."""
        agents = self._agents
        if self.own_ways():
            super().hear(k, until, call, failed)
            return
        heard = [Heard(context.inbox.take_true(until)) for context in self._contexts]
        found = self._stepped(heard)
        for place, agent in enumerate(agents):
            if found is None:
                call(place, agent.hear, heard[place], k)
            else:
                agent.state = found[place]

    def _stepped(self, heard: list[Heard]) -> Sequence[Any] | None:
        """Return the new states, or None if `StateAgent.step` must be called for each agent."""
        agents = self._agents
        before = [agent.state for agent in agents]
        alike = set(map(type, before)) == {np.ndarray} and len({(state.dtype, state.shape) for state in before}) == 1
        if not alike or before[0].dtype != np.float64 or not before[0].shape:
            return None
        shape = before[0].shape
        states = np.concatenate(before).reshape(len(agents), *shape)
        found = self._step_all(states, HeardByAll(heard, agents, shape))
        if found is None:
            return None
        if np.shape(found) != (len(agents), *shape):
            raise BadInput(
                f"{self._kind.__name__}.step_all() returned shape {np.shape(found)}, but must return that of the "
                f"states, {(len(agents), *shape)}"
            )
        # Copy, because if rows of the result share memory (a broadcast array), a change of one state would change
        # others.
        return list(np.array(found))
