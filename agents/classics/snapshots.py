"""Chandy and Lamport's snapshots: a consistent global state, recorded without stopping the system."""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import netsim
from netsim import Frame
from netsim.agents import papers
from netsim.agents.papers import Cited
from netsim.draw import Role

__all__ = ["ChandyLamport", "Part"]


@dataclass
class Part:
    """One agent's part of a snapshot.

    Attributes
    ----------
    state : object
        The agent's state when it recorded it.
    channels : dict
        By neighbour: the payloads that were under way from there, in order of arrival.
    awaited : list
        The neighbours whose marker has not yet arrived; the part is complete when this set is empty.
    """

    state: Any
    channels: dict[Hashable, list[Any]]
    awaited: list[Hashable]


class ChandyLamport(netsim.Agent, Cited):
    """Base of an application's agents that can record a snapshot of the whole application while it runs.

    A subclass defines `state`, `handle` and `work`, and one agent (or several) calls `record`. Links must keep the
    order of frames and lose none: ``Link(fifo=True)``. On lossy links ``reliability="ack"`` does not help, because
    retransmissions arrive out of order. The messages of kind ``"marker"`` belong to this class. Source: Chandy and
    Lamport (1985), section 3.1.

    Attributes
    ----------
    parts : dict
        By number of the snapshot: this agent's `Part`. They stay where they were recorded; to collect them is another
        task, for instance that of `netsim.agents.classics.Echo`.
    status : str
        ``"working"``; ``"recording"`` from its own state to the last marker of a snapshot; then ``"recorded"``.

    Notes
    -----
    The agent ends when no further frame can arrive, which only the simulator knows. A part is complete when its
    ``awaited`` is empty, which the agent knows by itself.
    """

    draw: ClassVar = {"status": Role(usual="working")}

    paper = papers.CHANDY_LAMPORT

    def __init__(self) -> None:
        self.parts: dict[int, Part] = {}
        self.status = "working"

    def state(self) -> Any:
        """Return the application's state, as a value that never changes."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: def state(self)")

    async def handle(self, frame: Frame) -> None:
        """Handle a frame of the application."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: async def handle(self, frame)")

    async def work(self) -> None:
        """Do the application's spontaneous work; by default nothing."""

    async def run(self) -> None:
        """Run the application, and handle markers."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.work())
            async for frame in self.inbox:
                if frame.kind == "marker":
                    await self.take_marker(frame.sender, frame.payload)
                else:
                    await self.take_message(frame)

    async def record(self, number: int = 1) -> None:
        """Record the agent's own state for a snapshot, once, and send a marker on every link."""
        if number in self.parts:
            return
        neighbors = list(self.in_neighbors)
        self.parts[number] = Part(self.state(), {sender: [] for sender in neighbors}, neighbors)
        self.status = "recording"
        self.note(f"snapshot {number}: {self.parts[number].state}"[:200])
        # The marker separates messages sent before the recorded state from those sent after it.
        await self.broadcast("marker", number)
        self.close(number)

    async def take_marker(self, sender: Hashable, number: int) -> None:
        """Record at the first marker; later messages from its sender do not belong to the snapshot."""
        await self.record(number)
        self.parts[number].awaited.remove(sender)
        self.close(number)

    async def take_message(self, frame: Frame) -> None:
        """Add an in-flight message to the snapshots that wait for its sender's marker, and handle it."""
        for part in self.parts.values():
            if frame.sender in part.awaited:
                part.channels[frame.sender].append(frame.payload)
        await self.handle(frame)

    def close(self, number: int) -> None:
        """Report when the last marker has arrived."""
        if not self.parts[number].awaited:
            self.status = "recorded"
            self.note(f"its part of snapshot {number} is complete")
