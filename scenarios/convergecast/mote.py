"""The mote of a convergecast: it samples, and passes on what its children have to say."""

import asyncio
from collections.abc import Hashable
from contextlib import suppress

import netsim


class Mote(netsim.Agent):
    """Takes a reading once a period, and passes on to its parent its own readings and those that it hears.

    Parameters
    ----------
    parent : Hashable or None
        Whom it reports to; None: it is the sink, which takes no readings.
    period : float
        Seconds from reading to reading.
    readings : int
        How many it takes. It goes on for two periods more, to pass on what comes late.
    acks : bool
        Whether it waits for the acknowledgement of each frame before it sends the next.

    Attributes
    ----------
    taken : int
        How many readings it took so far.
    heard : list of tuple
        Of the sink: who took each reading that arrived, when, and when it arrived (s).
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
        """Take readings, each at a moment of its own, or what falls together once would do so each time."""
        for k in range(self.readings if self.parent is not None else 0):
            await asyncio.sleep(self.period * (k + self.rng.random()) - self.now)
            self.taken += 1
            await self.forward([self.name, self.now])

    async def listen(self) -> None:
        """Pass on what is heard, or, at the sink, keep it."""
        async for frame in self.inbox:
            if self.parent is None:
                self.heard.append((*frame.payload, self.now))
            else:
                await self.forward(frame.payload)

    async def forward(self, reading: list[object]) -> None:
        """Tell the parent; who waits for no acknowledgement never learns whether it heard."""
        await (self.deliver if self.acks else self.send)(self.parent, "reading", reading)
