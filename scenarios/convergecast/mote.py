"""The motes of a convergecast: they sample, and forward all readings over a known tree or one found by routing."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import netsim
from netsim.agents import CTP, LPL, RPL, TSCH, Collector, ContikiMAC, XMac
from netsim.agents.protocols.collector import Packet
from netsim.agents.protocols.mac import Mac
from netsim.core.delivery import Delivery
from netsim.draw import Edge, Star

_ARRIVED = "delivered"
NO_ROUTE = "no route"
"""Reason of loss of a reading whose mote has no parent."""
SLOT = 10e-3  # s, slot length of TSCH


async def moments(mote: Any, is_sink: bool, since: float = 0.0) -> AsyncIterator[float]:
    """Yield a mote's sampling times, random within each period, so that no two motes collide in every period."""
    for k in range(0 if is_sink else mote.readings):
        await asyncio.sleep(since + mote.period * (k + mote.rng.random()) - mote.now)
        mote.taken_at.append(mote.now)
        yield mote.now


class Arrival(NamedTuple):
    """A reading received by the sink: its mote, and the times (s) at which it was taken and received."""

    mote: Hashable
    taken: float
    arrived: float


class TreeMote(netsim.Agent):
    """Takes a given number of readings, one per period (s), and forwards these and received readings to its parent.

    The sink takes no readings; another mote without a parent loses all its readings. With ``acks`` the mote waits for
    each frame's acknowledgement. After its last reading it runs for two more periods, to forward late readings.
    ``taken_at`` lists the sampling times (s). ``sent_at`` maps a reading's index to the time at which it was first
    passed to the radio. The sink's ``heard`` lists arrivals. ``lost`` has the reason of loss of each unacknowledged
    reading, by mote and time.
    """

    draw: ClassVar = {"is_sink": Star(), "parent": Edge()}

    def __init__(self, parent: Hashable | None, is_sink: bool, period: float, readings: int, acks: bool) -> None:
        self.parent, self.is_sink = parent, is_sink
        self.period, self.readings, self.acks = period, readings, acks
        self.taken_at: list[float] = []
        self.sent_at: dict[int, float] = {}
        self.heard: list[Arrival] = []
        self.lost: dict[tuple[Hashable, float], str] = {}

    @property
    def routing(self) -> "TreeMote":
        """Return the mote itself, so that measures can read it like a `netsim.Mote` with ``routing`` and ``app``."""
        return self

    app = routing

    async def run(self) -> None:
        """Sample and listen at the same time, until the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout((self.readings + 2) * self.period):
                await asyncio.gather(self.sample(), self.listen())

    async def sample(self) -> None:
        """Take readings and send them towards the sink."""
        async for _ in moments(self, self.is_sink):
            if self.parent is not None:
                self.sent_at[len(self.taken_at)] = self.now
            await self.forward([self.name, self.now])

    async def listen(self) -> None:
        """Forward received readings; the sink stores them."""
        async for frame in self.inbox:
            if self.is_sink:
                mote, taken = frame.payload
                self.heard.append(Arrival(mote, taken, self.now))
            else:
                await self.forward(frame.payload)

    async def forward(self, reading: list[Any]) -> None:
        """Send a reading to the parent: with ``acks`` until it is acknowledged, otherwise once."""
        if self.parent is None:
            self.lost[reading[0], reading[1]] = NO_ROUTE
        elif not self.acks:
            await self.send(self.parent, "reading", reading)
        elif not (outcome := await self.deliver(self.parent, "reading", reading)) and outcome.reason != _ARRIVED:
            self.lost[reading[0], reading[1]] = f"not acknowledged ({outcome.reason})"


class Reports(netsim.Part):
    """An application that reports the time of each reading through the mote's ``routing``, from ``since`` (s) on.

    ``taken_at`` lists the sampling times.
    """

    def __init__(self, period: float, readings: int, since: float = 0.0) -> None:
        self.period, self.readings, self.since = period, readings, since
        self.taken_at: list[float] = []

    async def run(self) -> None:
        """Take all readings and pass each to the routing layer."""
        routing: Any = self.mote.parts["routing"]
        async for now in moments(self, routing.is_sink, self.since):
            routing.report(now)


class PartsMote(netsim.Mote):
    """A mote with a ``routing`` layer and a `Reports` application; like `TreeMote`, it runs for two more periods."""

    async def run(self) -> None:
        """Run the routing layer and the application until the end."""
        app: Any = self.parts["app"]
        with suppress(TimeoutError):
            async with asyncio.timeout((app.readings + 2) * app.period):
                await super().run()


class Tree(Collector):
    """Routing over a known tree, without control traffic; a reading is sent up to ``attempts`` times per hop."""

    gradient = 0

    def __init__(self, is_sink: bool, parent: Hashable | None, attempts: int = 4) -> None:
        super().__init__(is_sink, attempts=attempts)
        self.parent = parent

    def control(self) -> list[Coroutine[Any, Any, None]]:
        """Return no background coroutines."""
        return []

    def choose(self) -> None:
        """Do nothing: the parent is fixed."""

    def measure(self, neighbor: Hashable, outcome: Delivery) -> None:
        """Do nothing: no link quality is needed."""

    def inspect(self, packet: Packet, sender: Hashable, gradient: int) -> bool:
        """Return True, so that every packet is forwarded."""
        return True


ROUTING: Mapping[str, type[Collector]] = {"ctp": CTP, "rpl": RPL}
"""The protocols that find routes, by name."""


def tsch(cycle: float, is_sink: bool) -> TSCH:
    """Return TSCH with one cell about every ``cycle`` seconds; an odd number of slots makes it use all channels."""
    return TSCH(is_sink, slotframe=2 * round((cycle / SLOT - 1) / 2) + 1)


MACS: Mapping[str, Callable[[float, bool], Mac]] = {
    "lpl": lambda cycle, _: LPL(cycle),
    "xmac": lambda cycle, _: XMac(cycle),
    "contikimac": lambda cycle, _: ContikiMAC(cycle),
    "tsch": tsch,
}
"""Functions that make a MAC layer with radio duty cycling, by name; the argument is the wake-up interval (s)."""
