"""Chang's echo algorithm: a wave reaches all agents, and its echo brings back what they are together."""

import operator
from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import netsim
from netsim.agents import papers
from netsim.agents.papers import Cited
from netsim.draw import Edge, Role, Star
from netsim.util import check

__all__ = ["Echo"]


class Echo(netsim.Agent, Cited):
    """Takes part in one wave, which builds a spanning tree and returns an aggregate of all agents' values.

    The first agent sends a wave to its neighbours; who hears of it for the first time passes it on. An agent that has
    heard from all its neighbours, wave or echo, sends the aggregate of its part of the tree to its parent. One message
    goes each way over every edge. Links must lose and duplicate nothing, and exactly one agent is the first. Source:
    Chang (1982).

    Parameters
    ----------
    first : bool
        Whether this agent starts the wave.
    value : object
        What it contributes: any payload. By default 1, so that the result is the number of agents.
    combine : callable
        Maps two values to one. The order of the agents is not known, so it must be associative and commutative:
        by default addition; ``max``, ``min``, the union of sets, ….

    Attributes
    ----------
    parent : node or None
        The neighbour from which the wave came first.
    children : list
        The neighbours whose parent it is, in the order of their echoes.
    result : object
        The aggregate of what it has heard of so far; at the end of all agents below it and itself.
    status : str
        ``"asleep"``, ``"waiting"`` for neighbours, ``"done"``: then all agents below it are done, too.
    """

    draw: ClassVar = {"status": Role(usual="asleep"), "parent": Edge(), "first": Star()}

    paper = papers.CHANG

    def __init__(self, first: bool = False, value: Any = 1, combine: Callable[[Any, Any], Any] = operator.add) -> None:
        self.first = check.flag("first", first)
        if not callable(combine):
            raise check.refuse("combine", combine, "a function of two values")
        self.result, self.combine = value, combine
        self.parent: Hashable = None
        self.children: list[Hashable] = []
        self.status = "asleep"

    async def run(self) -> None:
        """Pass the wave on, wait until all neighbours have been heard, and return the echo."""
        if self.first:
            await self.pass_on()
        heard = 0
        # Every neighbour sends exactly one message here: its wave, or as a child its echo.
        while self.status == "asleep" or heard < len(self.neighbors):
            frame = await self.inbox.get()
            heard += 1
            if frame.kind == "echo":
                self.children.append(frame.sender)
                self.result = self.combine(self.result, frame.payload)
            elif self.status == "asleep":
                self.parent = frame.sender
                await self.pass_on()
        self.status = "done"
        if self.first:
            self.note(f"all are done: {self.result}"[:200])
        else:
            await self.send(self.parent, "echo", self.result)

    async def pass_on(self) -> None:
        """Send the wave to all neighbours but the parent."""
        self.status = "waiting"
        for each in self.neighbors:
            if each != self.parent:
                await self.send(each, "wave")
