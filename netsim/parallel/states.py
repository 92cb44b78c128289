"""Send the changed attributes of agents from a worker to the caller of a run, whose agents get the new values.

An attribute counts as changed if its pickled bytes changed (comparing a megabyte takes about a millisecond). All other
attributes of the caller's agents keep their objects. A reference to an agent of the network becomes a reference to the
caller's copy of that agent.
"""

import io
import pickle
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn

from netsim.agent import Agent, slots_of
from netsim.errors import AgentError, one_line
from netsim.topology import senders_to
from netsim.util.variables import assigned

__all__ = ["Placed", "StateSender", "learn"]

# Types whose values are compared directly, without pickling.
_SIMPLE = frozenset({int, str, bool, type(None), bytes})

_AGENTS: ContextVar[Sequence[Agent]] = ContextVar("_AGENTS")


class _Kept:
    """Digest of a value that cannot be pickled, which counts as unchanged while the attribute is the same object."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept) and other.value is self.value

    __hash__ = object.__hash__


class WorkerOnly:
    """Placeholder in the caller's agent for a value that cannot be pickled; any use raises AgentError."""

    def __init__(self, why: str) -> None:
        vars(self)["_why"] = why

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise AgentError(vars(self)["_why"])

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            # Python looks up optional special methods, and expects AttributeError for those that do not exist.
            raise AttributeError(name)
        self._refuse()

    __call__ = __iter__ = __len__ = __getitem__ = __bool__ = __float__ = __array__ = __enter__ = _refuse

    def __reduce__(self) -> Any:
        return WorkerOnly, (vars(self)["_why"],)


class _Pickler(pickle.Pickler):
    """Pickles attributes of agents, with references to agents replaced by the agents' numbers."""

    def __init__(self, file: io.BytesIO, number_of: Callable[[Agent], int | None]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._number_of = number_of

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Agent) and (number := self._number_of(value)) is not None:
            return _agent, (number,)
        return NotImplemented


def _agent(number: int) -> Agent:
    return _AGENTS.get()[number]


def _attributes(agent: Agent) -> dict[str, Any]:
    """Return an agent's attributes, including those in slots, without its connection to the network."""
    found = {name: value for name, value in vars(agent).items() if name != "_netsim"}
    kind: Any = type(agent)
    for name in slots_of(kind):
        if hasattr(agent, name):
            found[name] = getattr(agent, name)
    return found


class StateSender:
    """Finds and pickles the changed attributes of a worker's agents.

    Parameters
    ----------
    agents : mapping
        The agents of the network that exist in this process.
    numbers : mapping
        The number of each agent of the network.
    own : sequence
        The names of the agents that run in this worker.
    """

    def __init__(
        self, agents: Mapping[Hashable, Agent], numbers: Mapping[Hashable, int], own: Sequence[Hashable]
    ) -> None:
        self._agents, self._number_by_name = agents, numbers
        self._own = own
        self._numbers: dict[int, int] = {}
        self._digests = {name: self._digests_of(agents[name]) for name in own}

    def changes(self) -> bytes:
        """Return the attributes changed since the last call, pickled for `learn`.

        An attribute that cannot be pickled is replaced by a `WorkerOnly`.
        """
        changes: dict[int, tuple[dict[str, Any], list[str]]] = {}
        for name in self._own:
            agent = self._agents[name]
            before, now = self._digests[name], self._digests_of(agent)
            if now == before:
                continue
            self._digests[name] = now
            attributes = _attributes(agent)
            changed = {
                key: attributes[key] for key, digest in now.items() if key not in before or before[key] != digest
            }
            for key, value in changed.items():
                if isinstance(now[key], _Kept):
                    changed[key] = self._stayed(name, key, value)
            changes[self._number_by_name[name]] = changed, [key for key in before if key not in now]
        return self._pickled(changes)

    def _digests_of(self, agent: Agent) -> dict[str, Any]:
        return {name: self._digest(value) for name, value in _attributes(agent).items()}

    def _digest(self, value: Any) -> Any:
        if type(value) in _SIMPLE:
            return type(value), value
        try:
            return hash(self._pickled(value))
        except Exception:
            return _Kept(value)

    def _pickled(self, value: Any) -> bytes:
        file = io.BytesIO()
        _Pickler(file, self._number_of).dump(value)
        return file.getvalue()

    def _number_of(self, agent: Agent) -> int | None:
        if not self._numbers:
            self._numbers = {id(each): self._number_by_name[name] for name, each in self._agents.items()}
        return self._numbers.get(id(agent))

    def _stayed(self, name: Hashable, key: str, value: Any) -> WorkerOnly:
        try:
            self._pickled(value)
            why = "it changes"
        except Exception as error:
            why = one_line(error)
        return WorkerOnly(
            f"agent {name!r}: its attribute {key!r} ({type(value).__name__}) stayed in its worker, "
            f"because it cannot be pickled: {why}"
        )


def learn(agents: Sequence[Agent], changes: bytes) -> None:
    """Apply the result of `StateSender.changes` to the caller's ``agents``, which are indexed by agent number."""
    with assigned(_AGENTS, agents):
        found = pickle.loads(changes)
    for number, (changed, gone) in found.items():
        for name, value in changed.items():
            object.__setattr__(agents[number], name, value)
        for name in gone:
            object.__delattr__(agents[number], name)


class _Begun:
    """Replaces `netsim.transport.shared.Shared` in the caller's process, where no agent runs."""

    begun = over = True

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    @property
    def loop(self) -> Any:
        """Always raises AgentError, because the agents' clocks are in the workers."""
        raise AgentError("the agents run in workers, which have their clocks: here they have their own attributes only")


class Placed:
    """Replaces an agent's `Context` in the caller's process, where no agent runs."""

    __slots__ = ("name", "shared")

    def __init__(self, name: Hashable, shared: "_Begun") -> None:
        self.name, self.shared = name, shared

    @property
    def neighbors(self) -> tuple[Hashable, ...]:
        """The names of the agents to which this agent has a link."""
        return tuple(self.shared.graph[self.name])

    out_neighbors = neighbors

    @property
    def in_neighbors(self) -> tuple[Hashable, ...]:
        """The names of the agents that have a link to this agent."""
        return senders_to(self.shared.graph, self.name)

    def __getattr__(self, name: str) -> Any:
        raise AgentError(
            f"agent {self.name!r} runs in a worker, which has its {name}: here it has its own attributes only"
        )

    @classmethod
    def all(cls, graph: Any, agents: Mapping[Hashable, Agent]) -> None:
        """Replace the `Context` of each agent by a `Placed`."""
        shared = _Begun(graph)
        for name, agent in agents.items():
            agent._netsim = cls(name, shared)  # type: ignore[assignment]
