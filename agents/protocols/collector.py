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
"""The kind of data frames: it travels in each of them, so it is short."""

_HOP_LIMIT = 64
_MOST = 2**62  # limit of the numbers of readings, gradients and flags
_SENT_LATELY = 4  # packets remembered for duplicate suppression after leaving the queue


class Arrival(NamedTuple):
    """A reading that reached the sink: its value, when it arrived there (s), and over how many hops."""

    value: Any
    time: float
    hops: int


@dataclass
class Packet:
    """A reading on its way: ``hops`` were taken so far; ``flags`` belong to the protocol."""

    origin: Hashable
    number: int
    value: Any
    hops: int = 0
    flags: int = 0
    attempts: int = 0

    @property
    def reading(self) -> tuple[Hashable, int]:
        """The reading's identity: its origin and its number there."""
        return self.origin, self.number

    @property
    def label(self) -> str:
        """The reading's identity as the label of its frames: ``12:3``."""
        return cut(f"{short_text(self.origin, 30) or '?'}:{self.number}", 40)


class Collector(Speaker):
    """Base of agents that send readings to a sink over several hops.

    Another part of the `netsim.Mote` calls `report` for each reading, or a subclass does so in `work`. The agent
    forwards received readings from a queue, one frame at a time, retransmitted after a pause until acknowledged,
    without duplicates. It needs a `netsim.Radio` with ``acks``; with ``max_frame_retries=0`` each acknowledgement is
    one sample of the link.

    Parameters
    ----------
    is_sink : bool
        Whether readings end here.
    queue : int
        Packets that wait at most.
    attempts : int
        Transmissions of a packet over a hop until it is given up.
    pause : (float, float)
        Least and most seconds between two transmissions.

    Attributes
    ----------
    parent : Hashable or None
        The neighbour to which packets go.
    last_parent : Hashable or None
        The neighbour to which a packet went last, also after the route was lost.
    heard : dict
        Of a sink: {(origin, number): `Arrival`}, the first arrival of each reading.
    lost : dict
        {(origin, number): reason} of the packets that this agent gave up. If a packet arrived and only its
        acknowledgements were lost, its reading may be at the sink all the same.
    waiting : deque of Packet
        The queue, the packet that is being sent first.
    taken, duplicates : int
        Readings that `report` was called with, and packets that were dropped because they had been here.
    numbers : list of int
        The number of each reading taken. After a late start or a restart, the first number is above 1.
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
    # Attributes that must be equal at all nodes of a protocol.
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
        """Produce readings; the other parts of the agent continue after this returns. To be overridden."""

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
        """Handle a frame of the protocol's own ``kinds``, which a subclass adds to those of `Collector`."""
        raise NotImplementedError

    def inspect(self, packet: Packet, sender: Hashable, gradient: int) -> bool:
        """Validate the path, given a packet to forward and its sender's gradient; return whether to forward it."""
        raise NotImplementedError

    def choose(self) -> None:
        """Choose the parent again after an estimate has changed; call `wake` if there is a parent now."""
        raise NotImplementedError

    def measure(self, neighbor: Hashable, outcome: Delivery) -> None:
        """Update the estimate of a link with the outcome of a frame."""
        self.estimator.sent(neighbor, outcome.attempts, bool(outcome))

    def wake(self) -> None:
        """Go on to forward, if there is a parent and a packet."""
        if self.parent is not None and self.waiting:
            self._woken.set()

    # --- forwarding ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the application, the protocol and the forwarding until the network's run ends."""
        self._woken = asyncio.Event()
        self._known.clear()
        self._number = max(self._number, first_number(self.now))
        # The node has crashed and restarted.
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
        # A packet that returns on a loop has more hops, and so is not a duplicate.
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
        """Take a packet at the sink."""
        self.heard.setdefault(packet.reading, Arrival(packet.value, self.now, packet.hops))

    def has_come_round(self, packet: Packet) -> bool:
        """Return whether this node produced or forwarded a packet's reading before, with fewer hops."""
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
            # A channel that stays busy is an attempt, too.
            packet.attempts += max(1, outcome.attempts)
            if outcome or packet.attempts >= self.attempts:
                self.waiting.popleft()
                if not outcome:
                    self.lost[packet.reading] = f"not acknowledged ({outcome.reason})"
            self.choose()
            await asyncio.sleep(self.rng.uniform(*self.pause))
