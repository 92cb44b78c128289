"""TSCH with the minimal schedule: all nodes use the same shared cell, which changes its channel each time."""

import asyncio
import math
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import netsim
from netsim import BadInput
from netsim.agents.papers import TSCH as PAPER
from netsim.agents.protocols.kinds import Form, fields, whole
from netsim.agents.protocols.mac import ALL, BEGUN, DATA, Mac, sent
from netsim.agents.protocols.together import must_agree, roots_of
from netsim.core.delivery import Delivery
from netsim.draw import Kind, Number, Stack, Star
from netsim.radio.handle import MOST_CHANNEL
from netsim.util import check

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["TSCH"]

BEACON = "e"

HOPPING = (5, 6, 12, 7, 15, 4, 14, 11, 8, 0, 1, 2, 13, 3, 9, 10)
"""The standard's hopping sequence for 2.4 GHz. Channels are counted from 0, which is the standard's channel 11."""

_MIN_BE, _MAX_BE = 1, 7
# If its clock has not been corrected, a node stops sending after _SILENT mean beacon intervals, and joins again after
# _REJOIN_AFTER. At 40 ppm the clock's error exceeds half of the guard time, 1.1 ms, after 27 s.
_SILENT, _REJOIN_AFTER = 2.5, 5
# An ASN has five bytes. No network has more hops than _MOST_HOPS.
_MOST_ASN, _MOST_HOPS = 2**40 - 1, 2**16 - 1


class _Job(NamedTuple):
    """A queued message to a neighbour, or to all neighbours if ``to`` is None."""

    to: Hashable | None
    packet: list[Any]
    done: "asyncio.Future[Delivery]"


class TSCH(Mac):
    """Time-slotted channel hopping with the schedule of RFC 8180: one shared cell in each slotframe.

    * *Slots*: time is divided into slots, and the absolute slot number (ASN) counts them from the start of the network.
      Every ``slotframe``-th slot is a shared cell. Its channel is ``hopping[ASN mod length]``, where length is the
      length of ``hopping``. If ``slotframe`` and length are coprime, all channels are used.
    * *Frames*: a frame begins ``offset`` seconds after the start of its slot. A receiver listens for ``guard`` seconds
      around that moment, and sleeps again if no frame begins. An unacknowledged frame is repeated after a random number
      of shared cells, up to 2^BE − 1 (BE is the backoff exponent). A frame to all neighbours is sent once, in the next
      cell.
    * *Synchronisation*: beacons carry the ASN and the sender's number of hops from the root. To join, a node listens on
      one channel until it receives a beacon. From then on, each beacon from a node nearer to the root corrects its
      clock, and the beacon's sender becomes its time source. After ``beacons`` seconds without a correction, a beacon
      from an equal distance is accepted, too. Messages of the time source also correct the clock, and its
      acknowledgements confirm it. A time source that is no longer nearer to the root is dropped. Without a correction
      or confirmation, a node only listens after 2.5 · ``beacons`` seconds, and joins again after 5 · ``beacons``.

    The agent switches its radio itself: ``Radio(access="aloha", acks=True, max_frame_retries=0)`` without a duty cycle.
    A subclass defines `work`, which calls `post` and `announce`, and `take`, which handles received messages.
    Alternatively, the layer serves the other parts of a mote: ``netsim.Mote(mac=TSCH(), routing=RPL())``. Keys, 6P and
    further cells are not implemented.

    Parameters
    ----------
    is_root : bool
        Whether this node is the root, which starts the network.
    slot, offset, guard : float
        The length of a slot, the time from its start to a frame, and the time for which a receiver listens, in seconds.
    slotframe : int
        Number of slots from one shared cell to the next.
    hopping : sequence of int
        The channels of successive slots.
    beacons : float
        Mean seconds between two beacons of a node; at least the length of a slotframe.
    retries : int
        Maximum number of retransmissions of a message.

    Attributes
    ----------
    hops : int or None
        Number of hops from the root; None before the node has joined.
    joined_at : float or None
        The time (s), on the node's clock, at which it first joined.
    joins : int
        How many times the node has joined.

    Notes
    -----
    Sources: X. Vilajosana, K. Pister and T. Watteyne, "Minimal IPv6 over the TSCH mode of IEEE 802.15.4e (6TiSCH)
    configuration", RFC 8180, 2017; IEEE Std 802.15.4-2015, 6.2.6, 6.5.4 and 8.4.2.2.1 (timeslot template), the source
    of the defaults.
    """

    draw: ClassVar = {
        **Mac.draw,
        "hops": Number(),
        "is_root": Star(),
        "queue": Stack(lambda a: len(a._jobs)),
        BEACON: Kind("enhanced beacon"),
    }

    paper: ClassVar[str] = PAPER
    kinds: ClassVar[Mapping[str, Form]] = {**Mac.kinds, BEACON: fields(whole(0, _MOST_ASN), whole(0, _MOST_HOPS))}

    def __init__(
        self,
        is_root: bool = False,
        *,
        slot: float = 10e-3,
        slotframe: int = 101,
        hopping: Sequence[int] = HOPPING,
        offset: float = 2.12e-3,
        guard: float = 2.2e-3,
        beacons: float = 10.0,
        retries: int = 7,
    ) -> None:
        super().__init__()
        self.is_root = check.flag("is_root", is_root)
        self.slot = check.finite("slot", slot, above=0)
        self.slotframe = check.integer("slotframe", slotframe, low=1)
        channels = tuple(hopping) if isinstance(hopping, Iterable) else ()
        if not channels:
            raise check.refuse("hopping", hopping, "a sequence of channels, one or more")
        self.hopping = tuple(check.integer("hopping", each, low=0, high=MOST_CHANNEL) for each in channels)
        self.offset = check.finite("offset", offset, above=0, high=slot)
        self.guard = check.finite("guard", guard, above=0, high=2 * offset)
        self.beacons = check.finite("beacons", beacons, low=self.slot * self.slotframe)
        self.retries = check.integer("retries", retries, low=0)
        self.hops: int | None = 0 if is_root else None
        self.joined_at: float | None = 0.0 if is_root else None
        self.joins = 0
        self._source: Hashable = None
        # The local times (s) of ASN 0 and of the next beacon.
        self._zero, self._beacon_at = 0.0, 0.0
        # The local time (s) at which the clock was last corrected or confirmed.
        self._set_at = 0.0
        self._jobs: deque[_Job] = deque()
        self._tries, self._exponent, self._skip = 0, _MIN_BE, 0

    def __getstate__(self) -> Any:
        # A queued job holds a future of the current run, which cannot be copied, so a copy has an empty queue.
        return {**super().__getstate__(), "_jobs": deque()}

    @classmethod
    def _check_together(cls, agents: "Mapping[Any, netsim.Agent]", graph: "nx.Graph[Any]") -> None:
        for roots in roots_of(agents, graph, "is_root", "no node of TSCH ever joins"):
            raise BadInput(
                f"is_root: must be True for one agent only, for each begins a network; {roots!r} are connected"
            )
        must_agree(agents, "slot", "slotframe", "hopping", "offset")

    # --- for the application ------------------------------------------------------------------------------------------

    async def post(self, to: Hashable, value: Any) -> Delivery:
        """Send a message to a neighbour; the result is true if it was acknowledged."""
        self._check_neighbor(to)
        return await self._wait(to, value)

    async def announce(self, value: Any) -> bool:
        """Send a message once to all neighbours; return whether it was transmitted."""
        return bool(await self._wait(None, value))

    async def _wait(self, to: Hashable | None, value: Any) -> Delivery:
        """Queue a message, wait until it was sent, and return the outcome."""
        self._number += 1
        job = _Job(to, [self._number, value], asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        return await job.done

    # --- the protocol -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run `work`, join the network, and send or listen in each shared cell."""
        # The queue contains messages only if the node has crashed and restarted.
        self._jobs.clear()
        self._set_up()
        self.hops = 0 if self.is_root else None
        async with asyncio.TaskGroup() as group:
            group.create_task(self.work())
            if self.is_root:
                self._zero = self.now
            else:
                await self._join()
            self.radio.off()
            self._plan_beacon()
            while True:
                if self._unset_for() > _REJOIN_AFTER * self.beacons:
                    self.hops = None
                    await self._join()
                    self.radio.off()
                number = math.floor((self.now - self._zero) / (self.slot * self.slotframe)) + 1
                begins = self._zero + number * self.slotframe * self.slot
                await self._cell(number * self.slotframe, begins)

    async def _join(self) -> None:
        """Listen on a random channel until a beacon arrives."""
        self.radio.on()
        self.radio.channel = int(self.rng.choice(self.hopping))
        async for frame in self.inbox:
            if self.is_own(frame) and frame.kind == BEACON:
                self._hear(frame, self.now)
                self.joins += 1
                if self.joined_at is None:
                    self.joined_at = self.now
                return
            if self.is_own(frame):
                # The radio has already acknowledged the frame.
                self._take_in(frame)

    async def _cell(self, asn: int, begins: float) -> None:
        """Use a shared cell: send the beacon or a message if one is due; otherwise listen."""
        await self._until(begins)
        # Change the channel only now, because an acknowledgement may have been due on the previous channel.
        self.radio.channel = self.hopping[asn % len(self.hopping)]
        may_send = self._unset_for() < _SILENT * self.beacons
        job = self._jobs[0] if self._jobs and not self._skip and may_send else None
        self._skip = max(0, self._skip - 1)
        # A message takes precedence, unless the beacon is overdue.
        late = self.now - self._beacon_at if may_send else -math.inf
        if late >= (self.beacons if job is not None else 0.0):
            self._plan_beacon()
            await self._until(begins + self.offset)
            self.radio.on()
            await self.broadcast(BEACON, [asn, self.hops])
            await asyncio.sleep(BEGUN)
        elif job is not None:
            await self._until(begins + self.offset)
            self.radio.on()
            await self._send(job)
        else:
            await self._until(begins + self.offset - self.guard / 2)
            self.radio.on()
            heard = await self.radio.listen(self.guard, until=self.is_own)
            if heard is None and self.radio.state == "receive":
                heard = await self.radio.listen(self.slot - self.offset - self.guard / 2, until=self.is_own)
            if heard is not None:
                self._hear(heard, self.now)
        self.radio.off()

    async def _send(self, job: _Job) -> None:
        """Send a message once; after a failure, schedule the next try or give up."""
        if job.to is None:
            await self.broadcast(ALL, job.packet)
            await asyncio.sleep(BEGUN)
            self._finish(job, sent(True, 1, "delivered"))
            return
        outcome = await self.deliver(job.to, DATA, job.packet)
        self._tries += 1
        if outcome and job.to == self._source:
            self._set_at = self.now
        if outcome or self._tries > self.retries:
            self._finish(job, sent(bool(outcome), self._tries, outcome.reason))
            return
        self._skip = int(self.rng.integers(1 << self._exponent))
        self._exponent = min(self._exponent + 1, _MAX_BE)

    def _finish(self, job: _Job, outcome: Delivery) -> None:
        self._jobs.popleft()
        self._tries, self._exponent = 0, _MIN_BE
        # The future is done already if the caller was cancelled.
        if not job.done.done():
            job.done.set_result(outcome)

    def _hear(self, frame: netsim.Frame, now: float) -> None:
        """Handle a frame that has just arrived; if its sender is the time source, correct the clock."""
        began = now - self.radio.airtime(frame)
        if frame.kind == BEACON:
            asn, hops = frame.payload
            if self._leads(hops):
                self._source, self.hops = frame.sender, hops + 1
                self._zero = began - self.offset - asn * self.slot
            elif frame.sender == self._source:
                # The time source is no longer nearer to the root, and may take its time from this node.
                self._source = None
        else:
            self._take_in(frame)
        if frame.sender == self._source:
            asn = round((began - self.offset - self._zero) / self.slot)
            self._zero, self._set_at = began - self.offset - asn * self.slot, now

    def _leads(self, hops: int) -> bool:
        """Return whether a beacon whose sender is ``hops`` hops from the root may correct the clock."""
        if self.is_root or self.hops is None:
            return not self.is_root
        return hops < self.hops + (self._unset_for() > self.beacons)

    def _unset_for(self) -> float:
        """Return the time (s) since the clock was last corrected or confirmed; 0 at the root."""
        return 0.0 if self.is_root else self.now - self._set_at

    def _plan_beacon(self) -> None:
        self._beacon_at = self.now + self.beacons * self.rng.uniform(0.5, 1.5)
