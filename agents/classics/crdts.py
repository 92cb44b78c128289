"""Data that replicas change apart and merge later (Shapiro et al. 2011), and gossip that merges it (Demers 1987)."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from netsim import payloads
from netsim.agent import Agent
from netsim.agents import papers
from netsim.core import Frame
from netsim.draw import Badge
from netsim.util import check

__all__ = ["AntiEntropy", "GCounter", "ORSet", "PNCounter"]


@dataclass(frozen=True)
class GCounter:
    """A counter that grows: each replica counts for itself, and the larger of two counts of a replica is the newer.

    Parameters
    ----------
    counts : dict
        How much each replica has added.
    """

    counts: dict[Any, int] = field(default_factory=dict)

    @property
    def value(self) -> int:
        """The sum over all replicas."""
        return sum(self.counts.values())

    def add(self, replica: Hashable, amount: int = 1) -> "GCounter":
        """Return the counter after this replica has added an amount of at least 0."""
        amount = check.integer("amount", amount, low=0)
        return GCounter(self.counts | {replica: self.counts.get(replica, 0) + amount})

    def merge(self, other: "GCounter") -> "GCounter":
        """Return the counter with the larger count of each replica."""
        return GCounter(self.counts | {r: max(n, self.counts.get(r, 0)) for r, n in other.counts.items()})


@dataclass(frozen=True)
class PNCounter:
    """A counter that goes up and down: two that grow.

    Parameters
    ----------
    up, down : GCounter
        What was added, and what was taken away.
    """

    up: GCounter = GCounter()
    down: GCounter = GCounter()

    @property
    def value(self) -> int:
        """What was added, less what was taken away."""
        return self.up.value - self.down.value

    def add(self, replica: Hashable, amount: int = 1) -> "PNCounter":
        """Return the counter after this replica has added an amount, which may be negative."""
        return PNCounter(self.up.add(replica, max(amount, 0)), self.down.add(replica, max(-amount, 0)))

    def merge(self, other: "PNCounter") -> "PNCounter":
        """Return the counter with both parts merged."""
        return PNCounter(self.up.merge(other.up), self.down.merge(other.down))


@dataclass(frozen=True)
class ORSet:
    """A set: an element is in it if it was added, and not by an addition that was removed (observed-remove).

    Each addition has a tag of its own. A removal removes the additions that its replica has seen: one that happens at
    the same time elsewhere survives. Tags of what was removed are kept for ever.

    Parameters
    ----------
    added, removed : dict
        The element of each addition, and of each that was removed, by their tags: replica and number.
    """

    added: dict[Any, Any] = field(default_factory=dict)
    removed: dict[Any, Any] = field(default_factory=dict)

    @property
    def value(self) -> list[Any]:
        """The elements in order of their text."""
        return sorted({each for tag, each in self.added.items() if tag not in self.removed}, key=repr)

    def add(self, replica: Hashable, element: Hashable) -> "ORSet":
        """Return the set after this replica has added an element."""
        number = sum(tag[0] == replica for tag in self.added)
        return ORSet(self.added | {(replica, number): element}, self.removed)

    def remove(self, element: Hashable) -> "ORSet":
        """Return the set after all additions of the element that it has seen were removed."""
        return ORSet(self.added, self.removed | {tag: each for tag, each in self.added.items() if each == element})

    def merge(self, other: "ORSet") -> "ORSet":
        """Return the set with all additions and all removals of both."""
        return ORSet(self.added | other.added, self.removed | other.removed)


def _register(kind: type[Any]) -> None:
    payloads.register(kind, lambda state: tuple(vars(state).values()), lambda parts: kind(*parts))


for _kind in (GCounter, PNCounter, ORSet):
    _register(_kind)


Changes = Mapping[int, Callable[[Any], Any]]
_NONE: Changes = MappingProxyType({})


class AntiEntropy(Agent, papers.Cited):
    """A replica that in each round merges its state with that of a neighbour chosen at random (push-pull gossip).

    It sends its state; the neighbour merges it and answers with the result, which the replica merges. Nothing that is
    lost has to be sent again, because every later exchange carries all that came before. Nothing that arrives twice, or
    out of order, or years late does harm, because `merge` is idempotent and commutative.

    Parameters
    ----------
    state : GCounter, PNCounter, ORSet or another
        The state at the beginning: a payload with a ``value`` that users see, and a method ``merge`` that returns the
        state of two replicas after their exchange and is commutative, associative and idempotent.
    count : int
        The number of rounds.
    changes : mapping
        The replica's own changes: by round, a function that returns the new state from the old one.
    timeout : float
        How long it waits for an answer, in seconds: shorter than a round.

    Attributes
    ----------
    state : object
        The state.
    value : object
        What the user sees: ``state.value``.

    Notes
    -----
    Source: A. Demers et al., Epidemic algorithms for replicated database maintenance, PODC 1987 (anti-entropy);
    M. Shapiro et al., Conflict-free replicated data types, SSS 2011 (state-based objects).
    """

    draw: ClassVar = {"value": Badge()}

    paper = f"{papers.EPIDEMIC} {papers.CRDT}"

    def __init__(self, state: Any, count: int, changes: Changes = _NONE, timeout: float = 0.5) -> None:
        self.state, self.count = state, check.integer("count", count, low=0)
        self.changes, self.timeout = check.mapping("changes", changes), check.finite("timeout", timeout, above=0)

    @property
    def value(self) -> Any:
        """What the user sees."""
        return self.state.value

    def answer(self, frame: Frame) -> Any:
        """Merge a neighbour's state, and return the result (pull)."""
        self.take(frame)
        return self.state

    async def run(self) -> None:
        """Change the state as planned, and exchange it with one neighbour a round (push)."""
        async for k in self.rounds(self.count):
            if k in self.changes:
                self.state = self.changes[k](self.state)
                self.note(f"writes: {self.value}"[:200])
            if not self.neighbors:
                continue
            other = self.neighbors[self.rng.integers(len(self.neighbors))]
            try:
                self.take(await self.request(other, "state", self.state, self.timeout, label=str(self.value)[:40]))
            except TimeoutError:
                continue

    def take(self, frame: Frame) -> None:
        """Merge the state that has arrived."""
        merged = self.state.merge(frame.payload)
        if merged != self.state:
            self.state = merged
            self.note(f"learns from {frame.sender}: {self.value}"[:200])
