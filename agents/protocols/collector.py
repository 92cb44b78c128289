"""Forwarding to a sink, shared by all routing protocols here; each protocol chooses the parent."""

import asyncio
from collections import deque
from collections.abc import Coroutine, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import netsim
from netsim import BadInput
from netsim.agents.protocols.estimator import LinkEstimator
from netsim.agents.protocols.kinds import Form, Speaker, anything, fields, is_name, whole
from netsim.agents.protocols.mac import first_number
from netsim.agents.protocols.together import must_agree, roots_of
from netsim.core.delivery import Delivery
from netsim.draw import Edge, Kind, Stack, Star
from netsim.util import check
from netsim.util.short_text import cut, short_text

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Arrival", "Collector", "Packet"]

DATA = "d"
"""The kind of data frames. It is short, because each frame contains it."""

_HOP_LIMIT = 64
_MOST = 2**62  # upper bound for readings' numbers, gradients and flags
_SENT_LATELY = 4  # packets remembered for duplicate suppression after leaving the queue


class Arrival(NamedTuple):
    """A reading that reached the sink: its value, its arrival time (s), and the number of hops."""

    value: Any
    time: float
    hops: int


@dataclass
class Packet:
    """A reading on the way to the sink. ``hops`` counts its hops so far; the routing protocol defines ``flags``."""

    origin: Hashable
    number: int
    value: Any
    hops: int = 0
    flags: int = 0
    attempts: int = 0

    @property
    def reading(self) -> tuple[Hashable, int]:
        """The identifier of the reading: its origin, and its number among the readings of this origin."""
        return self.origin, self.number

    @property
    def label(self) -> str:
        """The label of the reading's frames in replays, ``origin:number``, such as ``12:3``."""
        return cut(f"{short_text(self.origin, 30) or '?'}:{self.number}", 40)


class Collector(Speaker):
    """Base of agents that send readings to a sink over several hops.

    For each reading, another part of the `netsim.Mote` calls `report`, or a subclass calls it in `work`. The agent
    queues its own and received readings, and forwards one packet at a time. It retransmits a packet after a pause until
    the packet is acknowledged, and drops duplicates. It needs a `netsim.Radio` with ``acks``. With
    ``max_frame_retries=0`` each acknowledgement is one sample of the link's quality.

    Parameters
    ----------
    is_sink : bool
        Whether this node is the sink, the destination of all readings.
    queue : int
        Maximum number of queued packets.
    attempts : int
        Maximum number of transmissions of a packet over a hop; then the packet is dropped.
    pause : (float, float)
        Minimum and maximum time (s) between two transmissions.

    Attributes
    ----------
    parent : Hashable or None
        The neighbour to which packets are sent.
    last_parent : Hashable or None
        The neighbour to which the last packet was sent. It is kept after the route is lost.
    heard : dict
        At a sink: {(origin, number): `Arrival`}, the first arrival of each reading.
    lost : dict
        {(origin, number): reason} of the packets that this agent gave up. If a packet arrived and only its
        acknowledgements were lost, its reading may still reach the sink.
    waiting : deque of Packet
        The queue; the packet that is being sent comes first.
    taken, duplicates : int
        The number of calls of `report`, and the number of packets dropped because they had been received before.
    numbers : list of int
        The number of each reading passed to `report`. After a late start or a restart, the first number is above 1.
    foreign : Counter
        The number of received frames that were ignored, by kind: frames of other protocols, or with a malformed
        payload.
    """

    draw: ClassVar = {
        "is_sink": Star(),
        "parent": Edge(),
        "waiting": Stack(lambda a: len(a.waiting)),
        DATA: Kind("reading"),
    }

    kinds: ClassVar[Mapping[str, Form]] = {
        DATA: fields(is_name, whole(0, _MOST), whole(0, _HOP_LIMIT), whole(-_MOST, _MOST), whole(0, _MOST), anything)
    }
    # The names of the attributes that must be equal at all nodes of a protocol.
    _agreed: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        is_sink: bool = False,
        *,
        queue: int = 12,
        attempts: int = 30,
        pause: tuple[float, float] = (0.016, 0.031),
    ) -> None:
        super().__init__()
        self.is_sink = check.flag("is_sink", is_sink)
        self.queue = check.integer("queue", queue, low=1)
        self.attempts = check.integer("attempts", attempts, low=1)
        try:
            low, high = pause
        except (TypeError, ValueError):
            raise check.refuse("pause", pause, "(least, most), in seconds") from None
        self.pause = check.finite("pause", low, low=0), check.finite("pause", high, low=low)
        self.parent: Hashable | None = None
        self.last_parent: Hashable | None = None
        self.heard: dict[tuple[Hashable, int], Arrival] = {}
        self.lost: dict[tuple[Hashable, int], str] = {}
        self.waiting: deque[Packet] = deque()
        self.sent_at: dict[int, float] = {}
        self.numbers: list[int] = []
        self._known: deque[tuple[Hashable, int, int]] = deque(maxlen=self.queue + _SENT_LATELY)
        self.taken = self.duplicates = self._number = 0
        self.estimator: LinkEstimator

    @classmethod
    def _check_together(cls, agents: "Mapping[Any, netsim.Agent]", graph: "nx.Graph[Any]") -> None:
        protocols: dict[tuple[str, ...], dict[Any, Any]] = {}
        for name, agent in agents.items():
            assert isinstance(agent, Collector)
            protocols.setdefault(tuple(agent.kinds), {})[name] = agent
        for members in protocols.values():
            made = type(next(iter(members.values())))
            must_agree(members, *made._agreed)
            kind = made.__name__
            why = f"the readings of {kind} go nowhere"
            for sinks in roots_of(members, graph, "is_sink", why):
                check.doubt(f"is_sink: agents {', '.join(map(repr, sinks))} are sinks of one {kind}, made for one")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "hear" in vars(cls) and cls.kinds is Collector.kinds:
            raise BadInput(f"{cls.__name__}: kinds: must be declared, for hear gets frames of these only")

    # --- for the application ------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Produce readings. To be overridden; the agent continues to forward packets after this method returns."""

    def report(self, value: Any) -> bool:
        """Send a reading to the sink; return False if it is lost because the queue is full."""
        self.taken += 1
        self._number += 1
        self.numbers.append(self._number)
        packet = Packet(self.name, self._number, value)
        if self.is_sink:
            self.heard[packet.reading] = Arrival(value, self.now, 0)
            return True
        return self._enqueue(packet)

    # --- for the protocol ---------------------------------------------------------------------------------------------

    @property
    def gradient(self) -> int:
        """This node's distance to the sink, which data frames carry; it must decrease from hop to hop."""
        raise NotImplementedError

    def control(self) -> list[Coroutine[Any, Any, None]]:
        """Initialise the protocol's state, and return its background coroutines, such as timers."""
        raise NotImplementedError

    def hear(self, frame: netsim.Frame | netsim.mote.Message) -> None:
        """Handle a frame of one of the ``kinds`` that a subclass adds to those of `Collector`."""
        raise NotImplementedError

    def inspect(self, packet: Packet, sender: Hashable, gradient: int) -> bool:
        """Check a received packet's path by its sender's gradient, and return whether to forward the packet."""
        raise NotImplementedError

    def choose(self) -> None:
        """Choose the parent again after an estimate has changed. If a parent is found, call `wake`."""
        raise NotImplementedError

    def measure(self, neighbor: Hashable, outcome: Delivery) -> None:
        """Update the estimate of a link with the outcome of a frame's transmission."""
        self.estimator.sent(neighbor, outcome.attempts, bool(outcome))

    def wake(self) -> None:
        """Wake the forwarding task if there are a parent and a queued packet."""
        if self.parent is not None and self.waiting:
            self._woken.set()

    # --- forwarding ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the application, the protocol and the forwarding until the network's run ends."""
        self._woken = asyncio.Event()
        self._known.clear()
        self._number = max(self._number, first_number(self.now))
        # Packets are queued here only if the node has crashed and restarted.
        self.lost |= {packet.reading: "crash" for packet in self.waiting}
        self.waiting.clear()
        async with asyncio.TaskGroup() as group:
            for each in (*self.control(), self._listen(), self._forward(), self.work()):
                group.create_task(each)

    async def _listen(self) -> None:
        async for frame in self.inbox:
            if not self.is_own(frame):
                continue
            if frame.kind == DATA:
                self._receive(frame)
            else:
                self.hear(frame)

    def _receive(self, frame: netsim.Frame | netsim.mote.Message) -> None:
        origin, number, hops, gradient, flags, value = frame.payload
        packet = Packet(origin, number, value, hops + 1, flags)
        # The key includes the hops: a packet that returns on a loop has more hops, and must not count as a duplicate.
        key = (origin, number, hops)
        if key in self._known:
            self.duplicates += 1
            return
        self._known.append(key)
        if self.is_sink:
            self._arrive(packet)
        elif packet.hops >= _HOP_LIMIT:
            self.lost[packet.reading] = "hop limit"
        elif self.inspect(packet, frame.sender, gradient):
            self._enqueue(packet)
        else:
            self.lost[packet.reading] = "loop"

    def _arrive(self, packet: Packet) -> None:
        """Record the arrival of a packet at the sink."""
        self.heard.setdefault(packet.reading, Arrival(packet.value, self.now, packet.hops))

    def has_come_round(self, packet: Packet) -> bool:
        """Return whether a packet is in a loop: this node produced or forwarded its reading before, with fewer hops."""
        hops = packet.hops - 1
        return packet.origin == self.name or any((*packet.reading, before) in self._known for before in range(hops))

    def _enqueue(self, packet: Packet) -> bool:
        if len(self.waiting) >= self.queue:
            self.lost[packet.reading] = "queue full"
            return False
        self.waiting.append(packet)
        self.wake()
        return True

    async def _forward(self) -> None:
        while True:
            while self.parent is None or not self.waiting:
                self._woken.clear()
                await self._woken.wait()
            packet, parent = self.waiting[0], self.parent
            self.last_parent = parent
            if packet.origin == self.name:
                self.sent_at.setdefault(packet.number, self.now)
            fields = [packet.origin, packet.number, packet.hops, self.gradient, packet.flags, packet.value]
            outcome = await self.deliver(parent, DATA, fields, label=packet.label)
            self.measure(parent, outcome)
            # If the channel stayed busy, nothing was transmitted; count one attempt nevertheless.
            packet.attempts += max(1, outcome.attempts)
            if outcome or packet.attempts >= self.attempts:
                self.waiting.popleft()
                if not outcome:
                    self.lost[packet.reading] = f"not acknowledged ({outcome.reason})"
            self.choose()
            await asyncio.sleep(self.rng.uniform(*self.pause))
