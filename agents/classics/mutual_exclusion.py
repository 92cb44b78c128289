"""Mutual exclusion with permission of all nodes: requests are ordered by Lamport timestamps."""

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
    """A node that enters its critical section once all others have given permission.

    A request carries a timestamp: one more than the largest that the node has seen, and the node's name to break ties.
    A node replies to a request at once, unless it is inside, or its own pending request is earlier: then it replies
    when it leaves. An entry takes n - 1 requests and n - 1 replies. Links may delay and reorder frames, but must not
    lose any, and no node may crash: an entry waits for the reply of every other node.

    Parameters
    ----------
    entries : int
        How often the node enters.
    stay : float
        Seconds that it stays inside.
    pause : float
        Mean time (s) before each request, the first included (exponential); 0: at once.

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
    text. After its last entry a node must still reply; it returns when no more requests can arrive, which only the
    simulator knows (``async for frame in self.inbox``).
    """

    draw: ClassVar = {"status": Role(usual="outside"), "deferred": Stack(lambda a: len(a.deferred))}

    paper = papers.RICART_AGRAWALA

    def __init__(self, entries: int = 1, *, stay: float = 0.1, pause: float = 1.0) -> None:
        self.entries = check.integer("entries", entries, low=0)
        self.stay = check.finite("stay", stay, low=0)
        self.pause = check.finite("pause", pause, low=0)
        self.status = "outside"
        self.highest = 0  # the largest timestamp seen so far
        self.stamp: tuple[int, Any] = (0, None)
        self.missing: set[Hashable] = set()  # nodes whose permission is still missing
        self.deferred: list[Hashable] = []  # nodes to reply to on leaving
        self.waits: list[float] = []

    async def run(self) -> None:
        """Request, enter and leave, and meanwhile reply to the others."""
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
        """Handle requests and replies, also after the last entry."""
        async for frame in self.inbox:
            await self.hear(frame)

    async def enter(self) -> None:
        """Send requests to all others, and wait for all replies."""
        self.status, self.stamp = "waiting", (self.highest + 1, self.name)
        self.missing = set(self.neighbors)
        self.permitted.clear()
        await self.broadcast("request", self.stamp[0])
        if self.missing:
            await self.permitted.wait()
        self.status = "inside"
        self.note(f"enters by request {self.stamp[0]}")

    async def leave(self) -> None:
        """Leave the critical section, and send the deferred replies."""
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
