"""Chandy and Lamport's snapshots: a state in which the system could have been, recorded without stopping it."""

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
        The neighbours whose marker has not come yet; the part is complete when there is none.
    """

    state: Any
    channels: dict[Hashable, list[Any]]
    awaited: list[Hashable]


class ChandyLamport(netsim.Agent, Cited):
    """Base of an application's agents that can record a snapshot of the whole application while it runs.

    A subclass defines `state`, `handle` and `work`, and one agent (or several) calls `record`. Links must keep the
    order of frames and lose none: ``Link(fifo=True)``. Where frames are lost, ``reliability="ack"`` is not enough,
    because what is sent again comes out of order. The messages of kind ``"marker"`` belong to this class. Source:
    Chandy and Lamport (1985), section 3.1.

    Attributes
    ----------
    parts : dict
        By number of the snapshot: this agent's `Part`. They stay where they were recorded; to collect them is another
        task, for instance that of `netsim.agents.classics.Echo`.
    status : str
        ``"working"``; ``"recording"`` from its own state to the last marker of a snapshot; then ``"recorded"``.

    Notes
    -----
    The agent ends when no frame can come any more, which only the simulator knows. A part is complete when
    its ``awaited`` is empty, and for that the agent needs to know nothing else.
    """

    draw: ClassVar = {"status": Role(usual="working")}

    paper = papers.CHANDY_LAMPORT

    def __init__(self) -> None:
        self.parts: dict[int, Part] = {}
        self.status = "working"

    def state(self) -> Any:
        """Return the application's state, as a value that does not change later."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: def state(self)")

    async def handle(self, frame: Frame) -> None:
        """Do what the application does with a frame."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: async def handle(self, frame)")

    async def work(self) -> None:
        """Do what the application does by itself, beside `handle`; by default nothing."""

    async def run(self) -> None:
        """Run the application; markers go by it."""
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
        # The marker parts what was sent before the recorded state from what is sent after it.
        await self.broadcast("marker", number)
        self.close(number)

    async def take_marker(self, sender: Hashable, number: int) -> None:
        """Record at the first marker; from this sender nothing more belongs to the snapshot."""
        await self.record(number)
        self.parts[number].awaited.remove(sender)
        self.close(number)

    async def take_message(self, frame: Frame) -> None:
        """Add a message that was under way to the snapshots that wait for its sender's marker, and handle it."""
        for part in self.parts.values():
            if frame.sender in part.awaited:
                part.channels[frame.sender].append(frame.payload)
        await self.handle(frame)

    def close(self, number: int) -> None:
        """Say so when the last marker has come."""
        if not self.parts[number].awaited:
            self.status = "recorded"
            self.note(f"its part of snapshot {number} is complete")
