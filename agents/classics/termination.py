"""Dijkstra and Scholten's detection of termination: who begins a computation learns that it is over."""

from collections.abc import Hashable
from typing import Any, ClassVar

import netsim
from netsim import Frame
from netsim.agents import papers
from netsim.agents.papers import Cited
from netsim.draw import Edge, Role, Stack, Star
from netsim.util import check

__all__ = ["DijkstraScholten"]


class DijkstraScholten(netsim.Agent, Cited):
    """Base of the agents of a diffusing computation: one begins, and the others work only on what they are asked.

    A subclass defines `handle`, and the root's subclass `begin`; both give tasks to neighbours by `give`. Every task
    is signalled back. An agent that is idle and gets a task joins a tree, below the sender; it signals that first task
    last, when it is idle again and all that it gave away has been signalled. When the root has nothing outstanding,
    nobody works and no task is under way. Then it tells all, so that everybody's `run` ends. Frames may overtake one
    another; links must lose and duplicate nothing. The messages of the kinds ``"task"``, ``"signal"`` and ``"over"``
    belong to this class. Source: Dijkstra and Scholten (1980).

    Parameters
    ----------
    root : bool
        Whether this agent begins; exactly one does.

    Attributes
    ----------
    parent : node or None
        Who gave it the task by which it joined the tree; None outside the tree, and of the root.
    deficit : int
        How many of the tasks that it gave have not been signalled yet.
    status : str
        ``"idle"``, ``"busy"`` with a task, ``"waiting"`` for signals, ``"over"``.
    over_at : float or None
        When it learned that the computation is over, in seconds.
    """

    draw: ClassVar = {
        "status": Role(usual="idle"),
        "parent": Edge(),
        "root": Star(),
        "deficit": Stack(),
    }

    paper = papers.DIJKSTRA_SCHOLTEN

    def __init__(self, root: bool = False) -> None:
        self.root = check.flag("root", root)
        self.parent: Hashable = None
        self.deficit = 0
        self.status = "idle"
        self.over_at: float | None = None

    async def begin(self) -> None:
        """Do the root's first work."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: async def begin(self)")

    async def handle(self, frame: Frame) -> None:
        """Do what a task asks; it may take time, and give tasks."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: async def handle(self, frame)")

    async def give(self, to: Hashable, payload: Any = None, label: str | None = None) -> None:
        """Give a task to a neighbour, and expect its signal."""
        self.deficit += 1
        await self.send(to, "task", payload, label=label)

    async def run(self) -> None:
        """Work until the root says that it is over."""
        if self.root:
            self.status = "busy"
            await self.begin()
            await self.leave_if_done()
        while self.status != "over":
            frame = await self.inbox.get()
            if frame.kind == "over":
                await self.end()
            elif frame.kind == "signal":
                self.deficit -= 1
            else:
                await self.take(frame)
            await self.leave_if_done()

    async def take(self, frame: Frame) -> None:
        """Handle a task; signal it at once, unless it is the one by which the agent joins the tree."""
        joins, self.status = self.status == "idle", "busy"
        if joins:
            self.parent = frame.sender
        await self.handle(frame)
        if not joins:
            await self.send(frame.sender, "signal")

    async def leave_if_done(self) -> None:
        """Leave the tree once nothing is outstanding; for the root that means that all is over."""
        if self.status not in ("busy", "waiting"):
            return
        self.status = "waiting"
        if not self.deficit and self.root:
            self.note("it is over")
            await self.end()
        elif not self.deficit:
            parent, self.parent, self.status = self.parent, None, "idle"
            await self.send(parent, "signal", label="the last")

    async def end(self) -> None:
        """Tell all neighbours, once, and stop."""
        self.status, self.over_at = "over", self.now
        await self.broadcast("over")
