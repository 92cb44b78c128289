"""Logical clocks: numbers that are never against the order of cause and effect, and vectors that are that order."""

import asyncio
from typing import ClassVar, NamedTuple

import netsim
from netsim import Frame
from netsim.agents import papers
from netsim.agents.papers import Cited
from netsim.draw import Badge, Role
from netsim.util import check

__all__ = ["Event", "LamportClock", "Stamped", "VectorClock"]


class LamportClock(Cited):
    """A counter that an agent owns: if event a happened before event b, then a's number is less than b's.

    The converse does not hold: of two concurrent events either may have the smaller number. Source: Lamport (1978),
    rules IR1 and IR2.

    Attributes
    ----------
    stamp : int
        The number of the agent's last event; 0 before the first.
    """

    paper = papers.LAMPORT

    def __init__(self) -> None:
        self.stamp = 0

    def tick(self) -> int:
        """Count an event of the agent's own, such as a message that it sends, and return the event's number."""
        self.stamp += 1
        return self.stamp

    def hear(self, stamp: int) -> int:
        """Count the arrival of a message whose sending had this number, and return the arrival's number."""
        self.stamp = max(self.stamp, stamp) + 1
        return self.stamp


class VectorClock(Cited):
    """A counter for each agent, of which an agent owns a copy: a happened before b if and only if V(a) < V(b).

    Element i is how many events of agent i happened before the agent's last event, or are that event. Source: Mattern
    (1989), found independently by Fidge (1988).

    Parameters
    ----------
    own : int
        The number of the agent that owns the clock, from 0.
    agents : int
        How many agents there are.

    Attributes
    ----------
    stamp : tuple of int
        The vector of the agent's last event; zeros before the first.

    Raises
    ------
    BadInput
        If there is no agent of that number.
    """

    paper = papers.MATTERN

    def __init__(self, own: int, agents: int) -> None:
        agents = check.integer("agents", agents, low=1)
        self.own = check.integer("own", own, low=0, high=agents - 1)
        self.stamp: tuple[int, ...] = (0,) * agents

    def tick(self) -> tuple[int, ...]:
        """Count an event of the agent's own, such as a message that it sends, and return the event's vector."""
        self.stamp = tuple(count + (agent == self.own) for agent, count in enumerate(self.stamp))
        return self.stamp

    def hear(self, stamp: tuple[int, ...]) -> tuple[int, ...]:
        """Count the arrival of a message whose sending had this vector, and return the arrival's vector."""
        self.stamp = tuple(max(pair) for pair in zip(self.stamp, stamp, strict=True))
        return self.tick()

    @staticmethod
    def before(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        """Return whether the event with vector ``a`` happened before the one with ``b``: V(a) < V(b)."""
        return a != b and all(one <= other for one, other in zip(a, b, strict=True))

    @staticmethod
    def concurrent(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        """Return whether neither of two events happened before the other."""
        return a != b and not VectorClock.before(a, b) and not VectorClock.before(b, a)


class Event(NamedTuple):
    """A line of a log: who did what, and three stamps: the agent's own time (s), Lamport's number, the vector."""

    agent: int
    what: str
    wall: float
    lamport: int
    vector: tuple[int, ...]


class Stamped(netsim.Agent, Cited):
    """Works and writes to random neighbours at random times, and logs each event with three stamps.

    Parameters
    ----------
    number : int
        The agent's number, from 0.
    agents : int
        How many agents there are.
    until : float
        When it stops to act, in seconds of its own clock.
    pause : float
        Mean time between two of its own actions, in seconds; the times are exponential.
    work : float
        Probability that an action is work, not a message.

    Attributes
    ----------
    log : list of Event
        Its events in their order: works, sends, hears.
    doing : str
        What the last of them was.

    Notes
    -----
    It ends when no frame can come any more, which only the simulator knows. The clocks do not need that.
    """

    draw: ClassVar = {"doing": Role(usual="nothing yet"), "Lamport": Badge(lambda a: a.lamport.stamp)}

    paper = papers.MATTERN

    def __init__(self, number: int, agents: int, *, until: float = 1.0, pause: float = 0.1, work: float = 0.25) -> None:
        self.lamport, self.vector = LamportClock(), VectorClock(number, agents)
        self.until = check.finite("until", until, low=0)
        self.pause = check.finite("pause", pause, above=0)
        self.work = check.probability("work", work)
        self.log: list[Event] = []
        self.doing = "nothing yet"

    async def run(self) -> None:
        """Act until the time is over, and hear until no frame can come."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.act())
            async for frame in self.inbox:
                self.hear(frame)

    async def act(self) -> None:
        """Work, or write to a neighbour, again and again."""
        while (pause := self.rng.exponential(self.pause)) + self.now < self.until:
            await asyncio.sleep(pause)
            lamport, vector = self.lamport.tick(), self.vector.tick()
            if self.rng.random() < self.work or not self.neighbors:
                self.enter("works")
                self.note(f"works ({lamport})")
            else:
                to = self.neighbors[self.rng.integers(len(self.neighbors))]
                self.enter(f"sends to {to}")
                await self.send(to, "message", (lamport, vector), label=str(lamport))

    def hear(self, frame: Frame) -> None:
        """Move both clocks past the sending of a message that has arrived."""
        lamport, vector = frame.payload
        self.lamport.hear(lamport)
        self.vector.hear(vector)
        self.enter(f"hears {frame.sender}")

    def enter(self, what: str) -> None:
        """Write an event into the log."""
        self.doing = what.partition(" ")[0]
        self.log.append(Event(self.vector.own, what, self.now, self.lamport.stamp, self.vector.stamp))
