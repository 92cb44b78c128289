"""Mutual exclusion by permission of all: requests are ordered by Lamport's timestamps, and the later one waits."""

import asyncio
from collections.abc import Hashable
from typing import Any, ClassVar

import netsim
from netsim.agents import papers
from netsim.agents.papers import Cited
from netsim.draw import Role, Stack
from netsim.util import check

__all__ = ["RicartAgrawala"]


class RicartAgrawala(netsim.Agent, Cited):
    """A node that enters its critical section once all others have permitted it.

    A request carries a timestamp: one more than the largest that the node has seen, and the node's name to break ties.
    A node that is asked replies at once, unless it is inside, or waits to get in by an earlier request of its own: then
    it replies when it leaves. An entry takes n - 1 requests and n - 1 replies. Links may take any time and need keep no
    order, but must lose nothing, and no node may crash: an entry waits for the reply of every other node.

    Parameters
    ----------
    entries : int
        How often the node enters.
    stay : float
        Seconds that it stays inside.
    pause : float
        Mean seconds between leaving and asking again (exponential), and before it first asks; 0: at once.

    Attributes
    ----------
    status : str
        "outside", "waiting" or "inside".
    stamp : (int, name)
        The timestamp of the node's latest request.
    waits : list of float
        Seconds from the request to the entry, for each entry.

    Raises
    ------
    BadInput
        If an argument is outside its range.

    Notes
    -----
    Ricart and Agrawala (1981), section 2. All nodes must be linked with one another, and their names all numbers or all
    text. After its last entry a node goes on replying, as it must; that it returns when no more request can come is a
    convenience of the simulator (``async for frame in self.inbox``).
    """

    draw: ClassVar = {"status": Role(usual="outside"), "deferred": Stack(lambda a: len(a.deferred))}

    paper = papers.RICART_AGRAWALA

    def __init__(self, entries: int = 1, *, stay: float = 0.1, pause: float = 1.0) -> None:
        self.entries = check.integer("entries", entries, low=0)
        self.stay = check.finite("stay", stay, low=0)
        self.pause = check.finite("pause", pause, low=0)
        self.status = "outside"
        self.highest = 0  # the largest number of a timestamp seen so far
        self.stamp: tuple[int, Any] = (0, None)
        self.missing: set[Hashable] = set()  # who has not permitted the entry yet
        self.deferred: list[Hashable] = []  # who is replied to on leaving
        self.waits: list[float] = []

    async def run(self) -> None:
        """Ask, enter and leave, and meanwhile reply to the others."""
        self.permitted = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.listen())
            for _ in range(self.entries):
                await asyncio.sleep(self.rng.exponential(self.pause))
                asked = self.now
                await self.enter()
                self.waits.append(self.now - asked)
                await asyncio.sleep(self.stay)
                await self.leave()

    async def listen(self) -> None:
        """Hear the others, also after the last entry."""
        async for frame in self.inbox:
            await self.hear(frame)

    async def enter(self) -> None:
        """Ask all others, and wait until all have replied."""
        self.status, self.stamp = "waiting", (self.highest + 1, self.name)
        self.missing = set(self.neighbors)
        self.permitted.clear()
        await self.broadcast("request", self.stamp[0])
        if self.missing:
            await self.permitted.wait()
        self.status = "inside"
        self.note(f"enters by request {self.stamp[0]}")

    async def leave(self) -> None:
        """Reply to those who had to wait."""
        self.status = "outside"
        waiting, self.deferred = self.deferred, []
        for to in waiting:
            await self.send(to, "reply")

    async def hear(self, frame: netsim.Frame) -> None:
        """Reply to a request, at once or on leaving; count a reply."""
        if frame.kind == "reply":
            self.missing.discard(frame.sender)
            if not self.missing:
                self.permitted.set()
            return
        self.highest = max(self.highest, frame.payload)
        mine_first = self.status == "waiting" and self.stamp < (frame.payload, frame.sender)
        if self.status == "inside" or mine_first:
            self.deferred.append(frame.sender)
        else:
            await self.send(frame.sender, "reply")
