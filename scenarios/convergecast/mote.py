"""The mote of a convergecast: it samples, and passes on the readings of its children."""

import asyncio
from collections.abc import Hashable
from contextlib import suppress

import netsim


class Mote(netsim.Agent):
    """Takes a number of readings, one per period (s), and passes them on to its parent with those that it hears.

    A mote without a parent is the sink, which takes none. With ``acks`` it waits for each frame's acknowledgement. It
    runs for two periods more, to pass on late readings. ``taken`` counts its readings; of the sink, ``heard`` lists who
    took each reading that arrived, when, and when it arrived (s).
    """

    def __init__(self, parent: Hashable | None, period: float, readings: int, acks: bool) -> None:
        self.parent, self.period, self.readings, self.acks = parent, period, readings, acks
        self.taken = 0
        self.heard: list[tuple[Hashable, float, float]] = []

    async def run(self) -> None:
        """Sample and listen at the same time, until the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout((self.readings + 2) * self.period):
                await asyncio.gather(self.sample(), self.listen())

    async def sample(self) -> None:
        """Take readings at random moments, because motes that coincide once would otherwise coincide each time."""
        for k in range(self.readings if self.parent is not None else 0):
            await asyncio.sleep(self.period * (k + self.rng.random()) - self.now)
            self.taken += 1
            await self.forward([self.name, self.now])

    async def listen(self) -> None:
        """Pass on what is heard; the sink keeps it."""
        async for frame in self.inbox:
            if self.parent is None:
                self.heard.append((*frame.payload, self.now))
            else:
                await self.forward(frame.payload)

    async def forward(self, reading: list[object]) -> None:
        """Send a reading to the parent, until it is acknowledged or just once."""
        await (self.deliver if self.acks else self.send)(self.parent, "reading", reading)
