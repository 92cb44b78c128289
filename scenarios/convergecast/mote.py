"""The motes of a convergecast: they sample, and pass on the readings of others over a tree that is given or found."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import netsim
from netsim.agents import CTP, LPL, RPL, TSCH, Collector, ContikiMAC, XMac
from netsim.agents.protocols.collector import Packet
from netsim.agents.protocols.mac import Mac
from netsim.core.delivery import Delivery

_ARRIVED = "delivered"
NO_ROUTE = "no route"
"""Why a reading is lost whose mote has no parent."""
SLOT = 10e-3  # s, of TSCH


async def moments(mote: Any) -> AsyncIterator[float]:
    """Yield when a mote takes its readings, at random: motes that coincide once would else coincide each time."""
    for k in range(0 if mote.is_sink else mote.readings):
        await asyncio.sleep(mote.period * (k + mote.rng.random()) - mote.now)
        mote.taken_at.append(mote.now)
        yield mote.now


class Arrival(NamedTuple):
    """A reading at the sink: who took it, when, and when it arrived (s)."""

    mote: Hashable
    taken: float
    arrived: float


class Mote(netsim.Agent):
    """Takes a number of readings, one per period (s), and passes them on to its parent with those that it hears.

    The sink takes none; of another mote without a parent all readings are lost. With ``acks`` it waits for each frame's
    acknowledgement. It runs for two periods more, to pass on late readings. ``taken_at`` lists when readings were taken
    and ``sent_at`` when each, by its number, was first offered to the radio (s); of the sink, ``heard`` lists the
    arrivals. ``lost`` has the reason for each reading, by mote and time, that was not acknowledged.
    """

    def __init__(self, parent: Hashable | None, is_sink: bool, period: float, readings: int, acks: bool) -> None:
        self.parent, self.is_sink = parent, is_sink
        self.period, self.readings, self.acks = period, readings, acks
        self.taken_at: list[float] = []
        self.sent_at: dict[int, float] = {}
        self.heard: list[Arrival] = []
        self.lost: dict[tuple[Hashable, float], str] = {}

    async def run(self) -> None:
        """Sample and listen at the same time, until the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout((self.readings + 2) * self.period):
                await asyncio.gather(self.sample(), self.listen())

    async def sample(self) -> None:
        """Take readings, and pass them on."""
        async for _ in moments(self):
            if self.parent is not None:
                self.sent_at[len(self.taken_at)] = self.now
            await self.forward([self.name, self.now])

    async def listen(self) -> None:
        """Pass on what is heard; the sink keeps it."""
        async for frame in self.inbox:
            if self.is_sink:
                mote, taken = frame.payload
                self.heard.append(Arrival(mote, taken, self.now))
            else:
                await self.forward(frame.payload)

    async def forward(self, reading: list[Any]) -> None:
        """Send a reading to the parent, until it is acknowledged or just once."""
        if self.parent is None:
            self.lost[reading[0], reading[1]] = NO_ROUTE
        elif not self.acks:
            await self.send(self.parent, "reading", reading)
        elif not (outcome := await self.deliver(self.parent, "reading", reading)) and outcome.reason != _ARRIVED:
            self.lost[reading[0], reading[1]] = f"not acknowledged ({outcome.reason})"


class Reports(Collector):
    """The same over a routing protocol, which finds the parent, keeps a queue and sends again."""

    def __init__(self, is_sink: bool, period: float, readings: int, **protocol: Any) -> None:
        super().__init__(is_sink, **protocol)
        self.period, self.readings = period, readings
        self.taken_at: list[float] = []

    async def run(self) -> None:
        """Run the protocol until the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout((self.readings + 2) * self.period):
                await super().run()

    async def work(self) -> None:
        """Report the time of each reading."""
        async for now in moments(self):
            self.report(now)


class CTPMote(Reports, CTP):
    """A mote that routes by CTP."""


class RPLMote(Reports, RPL):
    """A mote that routes by RPL."""


class TreeMote(Reports):
    """A mote that knows its parent: no protocol, and no control traffic. It sends a reading up to four times a hop."""

    gradient = 0

    def __init__(self, parent: Hashable | None, is_sink: bool, period: float, readings: int, mac: Mac) -> None:
        super().__init__(is_sink, period, readings, attempts=4, mac=mac)
        self.parent = parent

    def control(self) -> list[Coroutine[Any, Any, None]]:
        """Nothing runs beside."""
        return []

    def choose(self) -> None:
        """Keep the parent."""

    def measure(self, neighbor: Hashable, outcome: Delivery) -> None:
        """Estimate nothing."""

    def inspect(self, packet: Packet, sender: Hashable, gradient: int) -> bool:
        """Forward everything."""
        return True


ROUTING: Mapping[str, type[Reports]] = {"ctp": CTPMote, "rpl": RPLMote}
"""The motes that find their own routes, by the protocol's name."""


def tsch(cycle: float, is_sink: bool) -> TSCH:
    """Return TSCH with a cell about every ``cycle`` seconds: an odd number of slots, so that all channels are used."""
    return TSCH(is_sink, slotframe=2 * round((cycle / SLOT - 1) / 2) + 1)


MACS: Mapping[str, Callable[[float, bool], Mac]] = {
    "lpl": lambda cycle, _: LPL(cycle),
    "xmac": lambda cycle, _: XMac(cycle),
    "contikimac": lambda cycle, _: ContikiMAC(cycle),
    "tsch": tsch,
}
"""MAC layers that switch the radio themselves, by name: made from the seconds from waking to waking."""
