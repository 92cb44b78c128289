"""The MAC layer of one node: its queue, channel access, acknowledgements and retransmissions.

On the path agent → outbox → link → inbox → agent, the MAC layer is the sender's end of the link. The node contends for
the channel and sends one fragment at a time. If acknowledgements are enabled, a unicast fragment is retransmitted until
it is acknowledged or the retries are exhausted. This module handles a frame until its outcome at each neighbour is
known; `_mac.pyx` is the compiled version. `netsim.radio.medium` builds the nodes and switches them on and off.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.clock.clock import LocalClock
from netsim.core import Frame, records
from netsim.core.delivery import Delivery
from netsim.core.framing import damaged, without_sender
from netsim.core.records import ACCESS_FAILED, ASLEEP, CORRUPTED, LINK_DOWN, LOST, QUEUE_FULL, RECEIVER_DOWN, REFUSED
from netsim.radio.airtime import Counts
from netsim.radio.energy import Meter, Schedule
from netsim.radio.settings import Access
from netsim.radio.signals import Receiver, Signal
from netsim.radio.sinr import SinrReceiver
from netsim.transport.inbox import Inbox
from netsim.transport.path import Bursts
from netsim.transport.stages import Path, Transmitter
from netsim.transport.transmitter import time_tolerance
from netsim.util import draws

if TYPE_CHECKING:
    import asyncio

    from netsim.radio.medium import Medium
    from netsim.transport.outbox import Wiring

__all__ = ["STAMP_BITS", "Aloha", "Csma", "Emission", "Mac", "PendingFrame", "RadioLink", "SlottedAloha"]

STAMP_BITS = 32
"""The size in bits of the field for an event's age in microseconds, as in TinyOS TEP 133."""

MICROSECOND = 1e-6


# --- access to the channel --------------------------------------------------------------------------------------------


class Aloha:
    """Send immediately; a retransmission first waits a random number of back-off units."""

    def __init__(self, mac: "Mac", stream: draws.Stream) -> None:
        self._mac, self._radio, self._stream = mac, mac.medium.radio, stream

    def contend(self, at: float, retries: int) -> None:
        """Contend for the channel from the time ``at`` (s) on, then call `Mac.start` or `Mac.on_access_failed`."""
        back_off = self._units(retries - 1) * self._radio.unit_backoff if retries else 0.0
        self._mac.at(self._mac.awake_from(at + back_off), self._mac.start)

    def _units(self, failures: int) -> int:
        """Draw a random back-off, as a number of back-off units, after ``failures`` failed attempts."""
        self._mac.count_backoff()
        return math.floor(self._stream.uniform() * (1 << min(self._radio.min_be + failures, self._radio.max_be)))


class SlottedAloha(Aloha):
    """Send at the next slot; a retransmission waits a random number of additional slots."""

    def contend(self, at: float, retries: int) -> None:
        """Contend for a slot from the time ``at`` (s) on; see `Aloha.contend`."""
        slot = self._radio.slot
        assert slot is not None
        at = self._mac.awake_from(at)
        later = self._units(retries - 1) if retries else 0
        # A time within rounding error of a slot's start counts as that start.
        first = math.ceil((at - time_tolerance(at)) / slot)
        self._mac.at(max(at, (first + later) * slot), self._mac.start)


class Csma(Aloha):
    """Unslotted CSMA-CA: back off, assess the channel, send if it is clear, else back off for longer."""

    def contend(self, at: float, retries: int) -> None:
        """Contend from the time ``at`` (s) on; each retransmission starts again with the smallest back-off exponent."""
        self._back_off(at, 0)

    def _back_off(self, at: float, busy: int) -> None:
        wait = self._units(busy) * self._radio.unit_backoff
        # If the radio is asleep when the back-off ends, back off again after it wakes: nodes that wake together would
        # otherwise all assess the channel at the same time.
        begin = self._mac.awake_from(at) + wait
        awake = self._mac.awake_from(begin)
        begin = begin if awake == begin else awake + wait
        self._mac.at(begin + self._radio.cca, partial(self._assessed, busy))

    def _assessed(self, busy: int, now: float) -> None:
        if self._mac.waits_until_on():
            return
        if not self._mac.is_busy(now - self._radio.cca, now):
            start = now + self._radio.turnaround
            self._mac.receiver.turn(now, start)
            self._mac.at(start, self._mac.start)
        elif busy == self._radio.max_csma_backoffs:
            self._mac.on_access_failed(now)
        else:
            self._back_off(now, busy + 1)


ACCESS: dict[str, type[Aloha]] = {"aloha": Aloha, "slotted_aloha": SlottedAloha, "csma": Csma}
"""The channel access classes, by their names in `netsim.radio.settings.Access`."""


# --- frames -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Emission:
    """A fragment, acknowledgement or carrier on the air: its end (s), and its signal at each node that it reaches."""

    end: float
    is_ack: bool
    reached: list[Signal]
    is_carrier: bool = False


@dataclass(slots=True, eq=False)
class PendingFrame:
    """A frame that the MAC layer accepted and whose outcome is not yet known on every link."""

    # The ``number`` and ``kind`` of the frame's `netsim.core.records.Transmission`.
    number: int
    kind: int
    frame: Frame
    # The index of the link to the receiver, which may acknowledge the frame; −1: a broadcast over all links.
    to: int
    # The future through which the agent awaits the frame's outcome; None if the agent does not await it.
    outcome: "asyncio.Future[Delivery] | None"
    # A receiver must check whether the frame is late if it arrives at or after this time (s).
    late_at: float
    # The number of bits of each fragment, headers included.
    fragments: list[int]
    # The time (s) at which the frame's current wait began.
    since: float
    # The earliest time (s) at which the link's budget allows sending the frame.
    not_before: float
    # The indices of the links on which the frame's outcome is still unknown.
    open: set[int]
    # The index of the current fragment.
    index: int = 0
    # The number of retransmissions of the current fragment.
    retries: int = 0
    # Whether any fragment of the frame has been on the air.
    begun: bool = False
    # With acknowledgements: the number of fragments that the neighbour received.
    received: int = 0
    # With acknowledgements: why the current fragment failed the last time; 0 if it has not failed.
    cause: int = 0
    # The energy (J) that the sender has spent on the frame so far, if energy is modelled.
    energy: float = 0.0
    # The number of fragments sent so far, retransmissions included.
    attempts: int = 0
    # The number of back-offs so far.
    backoffs: int = 0
    # The drop reason of the last link on which the frame was not delivered; 0 if there is none.
    ended: int = 0
    # The frame's transmit power divided by the one to which `Radio.powers` refer; fixed when the frame is queued.
    gain: float = 1.0
    # The power (W) that the node draws while it sends the frame, fixed when the frame is queued.
    watts: float = 0.0
    # The channel to which the radio tunes after this frame; −1: the radio keeps its channel.
    then: int = -1
    # `event`: the time (s) by the sender's own clock of the event whose age the frame carries; None if it carries none.
    # `age`: this age (s), rounded to microseconds, when the latest transmission began.
    event: float | None = None
    age: float | None = None
    # The true start and end (s) of the latest transmission (NaN: not sent yet), and its channel (−1: not sent yet).
    began: float = math.nan
    ends: float = math.nan
    channel: int = -1
    # If frames do not carry a received power: the copy of the frame for the last receiver. Receivers at which the frame
    # began at the same time share one copy.
    received_as: Frame | None = None
    # {link index: drop reason of the first fragment that failed}. With acknowledgements, an entry is made only if the
    # neighbour was switched off, and thereby lost the fragments that it had received.
    failed: dict[int, int] = field(default_factory=dict)

    @property
    def bits(self) -> int:
        """The number of bits of the current fragment."""
        return self.fragments[self.index]

    @property
    def is_last(self) -> bool:
        """Whether the current fragment is the last."""
        return self.index == len(self.fragments) - 1

    def content(self, mtu: int | None) -> bytes:
        """Return the bytes of the frame that the current fragment carries."""
        data, carried = self.frame.data, self.frame.carried
        if carried is not None:
            return bytes(carried.content(data, self.index, self.age, self.event is not None))
        return data if mtu is None else data[self.index * mtu : (self.index + 1) * mtu]

    def set_outcome(self, acknowledged: bool, metered: bool, clock: LocalClock | None, complete: bool) -> None:
        """Set the result of `outcome`, if an agent awaits this frame's outcome."""
        if self.outcome is not None and not self.outcome.done():
            energy, began, ends = self.energy if metered else None, local(clock, self.began), local(clock, self.ends)
            how = self.attempts, self.backoffs, records.ALL_CAUSES[self.ended]
            self.outcome.set_result(Delivery(acknowledged, *how, energy, began, ends, self.channel, complete))


@dataclass(slots=True, eq=False)
class RadioLink:
    """A link from a sender to a node that its transmissions reach, with the received power (mW) and the delay (s).

    ``index`` is the sender's index of the link, or −1 if the transmissions only interfere at the node. ``key``
    identifies the link in the random draws of fading.
    """

    mac: "Mac"
    index: int
    power: float
    delay: float
    key: int = 0


def _without_sender(frame: Frame) -> bytes:
    return without_sender(frame.data) if frame.carried is None else frame.data


def local(clock: LocalClock | None, time: float) -> float:
    """Return the reading (s) of a node's clock at a true time (s); ``clock`` is None if the node's clock is exact."""
    return time if clock is None else clock.local(time)


# --- the layer --------------------------------------------------------------------------------------------------------


class Mac:
    """The MAC layer of one node; ``clock`` is the node's clock if it deviates from simulated time."""

    def __init__(
        self,
        medium: "Medium",
        number: int,
        name: Hashable,
        wiring: "Wiring",
        inbox: Inbox,
        clock: LocalClock | None = None,
    ) -> None:
        assert wiring.radio is not None
        # ``link`` has the settings of the node's transmitter (rate, MTU, queue, budget).
        self.medium, self._radio, self.link = medium, medium.radio, wiring.radio
        # Whether unicast frames are acknowledged.
        self.acknowledges = medium.radio.acks
        self.number, self.name, self.wiring, self.inbox, self.clock = number, name, wiring, inbox, clock
        self.access: Access = self._radio.access_of(name)
        # The `Path` of each link, by link index. Acknowledgements have separate paths with separate random streams.
        self.paths = self._paths("")
        self.ack_paths = self._paths("ack ") if self._radio.acks else []
        self.receiver: Receiver = Receiver(self._radio.captures_above)
        self._name_key = draws.name_key(name)
        self._phy = phy = self._radio.phy
        if phy is not None:
            self.receiver = SinrReceiver(phy, self._radio, medium.seed, self._name_key, name)
        # The streams of random numbers that decide the reception of frames and of acknowledgements, by link index.
        self._chances = [] if phy is None else self._streams("reception")
        self._ack_chances = [] if phy is None else self._streams("ack reception")
        # `gain`: the node's transmit power divided by the one to which `Radio.powers` refer. `listening`: whether the
        # agent has switched the receiver on.
        self.gain, self.listening = 1.0, True
        # The channel that the agent set last. The radio tunes to it after all frames that were queued before.
        self.channel = 0
        # Whether each received frame carries the received power.
        self._tells_power = phy is not None or self._radio.powers is not None
        # Whether the current frame waits until the agent switches the receiver on.
        self._waits = False
        self.counts = Counts()
        # The minimum received power (mW), without fading, at which hearing a neighbour's signal costs energy. The
        # signals of a neighbour that has moved far away may be weaker.
        self._heard_from = 10.0 ** (self._radio.weakest_dbm / 10.0)
        cycle, energy = self._radio.cycle_of(name), self._radio.energy_of(name)
        self.schedule: Schedule | None = None if cycle is None else cycle.of(name, clock)
        self.meter = None if energy is None else Meter(energy, self.schedule)
        # Before the run begins, `down`, `subscribers` and `bursts` are replaced by the objects of the node's outbox,
        # which changes them during the run. `down` holds the indices of cut links; the radio cannot detect a cut.
        self.down: set[int] = set()
        # {link index: inbox to notify of arrivals}.
        self.subscribers: dict[int, Any] = {}
        # The current faults that lose or delay single frames.
        self.bursts = Bursts()
        # Whether the node is on: present, not crashed, and with a battery that is not empty.
        self.on = True
        # The node's latest emission, kept at least until it ends.
        self.emission: Emission | None = None
        # The links to the nodes that this node's transmissions reach.
        self.links: list[RadioLink] = []
        # {node number: link} for all nodes that this node's transmissions reach or have ever reached.
        self._reached: dict[int, RadioLink] = {}
        # The neighbours to which the link loses every frame.
        self.deaf: list[RadioLink] = []
        # The receivers that sense this node's carrier.
        self.sensers: list[Receiver] = []
        # The index of the link to each neighbour, by the neighbour's number.
        self.link_index_of: dict[int, int] = {}
        # The distance (m) to each neighbour, by link index, if the energy of a transmission depends on it; else empty.
        self.distances: list[float] = []
        key = np.array([self._name_key], dtype=np.uint64)
        stream = draws.Stream(int(draws.stream_keys(medium.seed, key, "back-off")[0]))
        self._access = ACCESS[self.access](self, stream)
        self._transmitter = Transmitter(self.link, medium.round_period)
        # The frames to send, in order; the first is called the current frame.
        self._queue: deque[PendingFrame] = deque()
        self._queued_bits = 0
        self._silent_until = 0.0
        # `_share`: the largest share of time for which the node may send; 0 if it is unlimited. `_bands`: the band of
        # each channel. `_silence`: for each band, when the node may send again (s). Channels in no band count as −1.
        self._share, self._bands, self._silence = self._radio.share_of(name), self._radio.band_of, dict[int, float]()
        # The frames whose outcome is still unknown on some link, by transmission number.
        self._open: dict[int, PendingFrame] = {}
        # A counter that grows whenever a fragment is sent and whenever a wait for an acknowledgement ends. An event
        # scheduled with an older value is obsolete and ignored.
        self.turn = 0
        self._flush_count = 0

    def _paths(self, purpose: str) -> list[Path]:
        wiring, seed = self.wiring, self.medium.seed
        return [Path(link, wiring.keys[i : i + 1], seed, purpose) for i, link in enumerate(wiring.links)]

    def _streams(self, purpose: str) -> list[draws.Stream]:
        keys = draws.stream_keys(self.medium.seed, self.wiring.keys, purpose)
        return [draws.Stream(key) for key in keys.tolist()]

    def reach(self, mac: "Mac", index: int, power: float, delay: float) -> None:
        """Add a link to a node that this node's transmissions reach.

        ``index`` is the index of the link if the node is a neighbour, or −1 if the transmissions only interfere there.
        """
        link = self._reached[mac.number] = RadioLink(mac, index, power, delay)
        self.links.append(link)
        if index >= 0:
            self.link_index_of[mac.number] = index
        if self._phy is not None and self._phy.fading is not None:
            # Sort the ends, so that both directions of a link have the same key and therefore the same fading.
            ends = sorted(draws.name_key(each) for each in (self.name, mac.name))
            link.key = int(draws.link_keys(*(np.array([each], dtype=np.uint64) for each in ends))[0])

    def reach_deaf(self, mac: "Mac", index: int) -> None:
        """Add a neighbour to which the link loses every frame."""
        self.deaf.append(RadioLink(mac, index, 0.0, 0.0))
        self.link_index_of[mac.number] = index

    def set_power(self, mac: "Mac", power: float) -> None:
        """Set the power (mW) at which later transmissions reach a node; with 0 they no longer reach it."""
        link = self._reached.get(mac.number)
        if link is None:
            if power > 0.0:
                self.reach(mac, -1, power, 0.0)
            return
        if link.index < 0 and (link.power > 0.0) != (power > 0.0):
            self.links = [each for each in self.links if each is not link]
            if power > 0.0:
                self.links.append(link)
        link.power = power

    # --- control by the agent -----------------------------------------------------------------------------------------

    def tune(self, channel: int, now: float) -> None:
        """Change the channel after all queued frames have ended, or at ``now`` (s) if the queue is empty."""
        self.medium.events.catch_up(now)
        self.channel = channel
        if self._queue:
            self._queue[-1].then = channel
        else:
            self._tune(channel, now)

    def _tune(self, channel: int, now: float) -> None:
        """Change the channel at ``now`` (s); frames being received are lost."""
        if channel != self.receiver.channel:
            self._miss(self.receiver.tune(channel, now), now)

    def listen(self, on: bool, now: float) -> None:
        """Switch the receiver on or off at ``now`` (s), as the agent asked; switching off loses arriving frames."""
        self.medium.events.catch_up(now)
        if self.listening and not on:
            self._miss(self.receiver.deafen(now, ASLEEP), now)
        self.listening = on
        if on and self._waits:
            self._waits = False
            self._contend(now)

    def waits_until_on(self) -> bool:
        """Return, and store, whether the current frame must wait because the agent has switched the receiver off."""
        self._waits = not self.listening
        return self._waits

    def hears(self, now: float) -> bool:
        """Return whether a signal that may still be received is arriving at ``now`` (s)."""
        self.medium.events.catch_up(now)
        return self.receiver.hears(now)

    def senses(self, now: float) -> bool:
        """Return whether a clear channel assessment that ends at ``now`` (s) finds the channel busy."""
        self.medium.events.catch_up(now)
        return self.receiver.is_busy(now - self._radio.cca, now)

    def _miss(self, signals: list[Signal], now: float) -> None:
        for signal in signals:
            if signal.reception is not None and self.meter is not None:
                self.meter.hears_no_more(signal.reception, now)
                self.medium.watch.plan(self, now)

    # --- taking frames ------------------------------------------------------------------------------------------------

    def take(
        self,
        now: float,
        number: int,
        kind: int,
        frame: Frame,
        to: int,
        outcome: "asyncio.Future[Delivery] | None",
        late_at: float,
        event: float | None = None,
    ) -> int:
        """Queue a frame at ``now`` (s); return 0, or the drop reason if the frame is rejected.

        For the parameters see `PendingFrame`.
        """
        self.medium.events.catch_up(now)
        if not self.on:
            return LINK_DOWN
        stamp = 0 if event is None else STAMP_BITS // 8
        if frame.carried is None:
            fragments = self._transmitter.fragments(len(frame.data) + stamp)
        else:
            fragments = [8 * (size + stamp) + self.link.header_bits for size in frame.carried.sizes]
        bits, link = sum(fragments), self.link
        if len(self._queue) >= (link.queue or math.inf) or self._queued_bits + bits > (link.queue_bits or math.inf):
            return QUEUE_FULL
        release = self._transmitter.release
        not_before = now if release is None else release(now, bits)
        if not_before == math.inf:
            return REFUSED
        opened = set(range(len(self.wiring.links))) if to < 0 else {to}
        pending = PendingFrame(number, kind, frame, to, outcome, late_at, fragments, now, not_before, opened)
        pending.gain, pending.watts, pending.event = self.gain, self._watts, event
        if opened:
            self._open[number] = pending
        self._queued_bits += bits
        self._queue.append(pending)
        if len(self._queue) == 1:
            self._contend(max(now, not_before))
        return 0

    def under_way(self) -> Iterator[tuple[int, int]]:
        """Yield (ledger key, kind id) for each frame on each link where its outcome is still unknown."""
        for pending in self._open.values():
            for link_index in sorted(pending.open):
                yield self._key(link_index, pending), pending.kind

    def _key(self, link_index: int, pending: PendingFrame) -> int:
        """Return the key under which the ledger counts a frame on one link."""
        return (self.wiring.first + link_index << self.medium.tally.shift) + pending.number

    def _is_present(self, pending: PendingFrame) -> bool:
        return bool(self._queue) and self._queue[0] is pending

    def _finish(self, now: float, acknowledged: bool, complete: bool) -> None:
        """Remove the current frame from the queue, set its outcome, and start with the next frame."""
        pending = self._queue.popleft()
        self._queued_bits -= sum(pending.fragments)
        if self.meter is not None:
            self.meter.last_frame = pending.energy
        pending.set_outcome(acknowledged, self.meter is not None, self.clock, complete)
        if pending.then >= 0:
            self._tune(pending.then, now)
        if self._queue:
            self._contend(max(now, self._queue[0].not_before))

    # --- access -------------------------------------------------------------------------------------------------------

    def _contend(self, at: float) -> None:
        """Contend for the channel on behalf of the current fragment, from the time ``at`` (s) on."""
        if self.waits_until_on():
            return
        at, silence = max(at, self._silent_until), self._silence.get(self._band, 0.0)
        if silence > at + time_tolerance(at):
            if self._radio.refuses_silent:
                self.at(at, self._refuse)
                return
            self.counts.silences += 1
            self.counts.silence_s += silence - at
        pending, begin = self._queue[0], self.awake_from(max(at, silence))
        self.counts.queueing_s += begin - pending.since
        pending.since = begin
        self._access.contend(begin, pending.retries)

    @property
    def _band(self) -> int:
        """The index of the radio channel's band, or −1 if the channel is in no band."""
        return self._bands.get(self.receiver.channel, -1)

    def _refuse(self, now: float) -> None:
        self._give_up(now, REFUSED)

    def at(self, time: float, call: Callable[[float], None]) -> None:
        """Schedule a callback at ``time`` (s); switching the node off before then drops it."""
        self.medium.events.at(time, partial(self._call, call, self._flush_count))

    def _call(self, call: Callable[[float], None], flushed: int, now: float) -> None:
        if self.on and flushed == self._flush_count:
            call(now)

    def awake_from(self, time: float) -> float:
        """Return the earliest time (s) at or after ``time`` at which the radio is on."""
        return time if self.schedule is None else self.schedule.next_awake(time)

    def count_backoff(self) -> None:
        """Count a back-off of the current frame."""
        self._queue[0].backoffs += 1

    def is_busy(self, since: float, now: float) -> bool:
        """Assess the channel from ``since`` to ``now`` (s): return whether it was busy, and count busy assessments."""
        busy = self.receiver.is_busy(since, now)
        self.counts.busy += busy
        return busy

    def on_access_failed(self, now: float) -> None:
        """Drop the current frame: the channel was busy at every attempt."""
        self.counts.access_failures += 1
        self._give_up(now, ACCESS_FAILED)

    # --- sending ------------------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Send the current fragment, unless the radio is off or still sending, or the battery is empty."""
        pending = self._queue[0]
        if self.is_battery_empty(now) or self.waits_until_on():
            return
        if self.receiver.sends_until > now + time_tolerance(now):
            # The node is still sending, for example an acknowledgement: contend again when that ends.
            self._access.contend(self.receiver.sends_until, pending.retries)
            return
        counts, seconds = self.counts, self._radio.seconds(pending.bits, self.link)
        counts.frames += 1
        counts.retries += pending.retries > 0
        counts.airtime_s += seconds
        counts.access_s += now - pending.since
        self.turn += 1
        pending.begun = True
        pending.attempts += 1
        end = now + seconds
        pending.began, pending.ends, pending.channel = now, end, self.receiver.channel
        if pending.event is not None:
            units = round((local(self.clock, now) - pending.event) / MICROSECOND)
            pending.age = max(units, 0) * MICROSECOND if units < 2**STAMP_BITS else None
        if self._share:
            self._silence[self._band] = end + seconds * (1.0 / self._share - 1.0)
        self._transmit(pending, now, end)

    def carry(self, now: float, end: float) -> None:
        """Emit a carrier from ``now`` to ``end`` (s): power without a frame, so no receiver locks on it."""
        self.medium.events.catch_up(now)
        if self.is_battery_empty(now):
            return
        self._spend(now, end, 0, -1, self._watts)
        self.receiver.send(now, end)
        width, channel = time_tolerance(now), self.receiver.channel
        emission = self.emission = Emission(end, False, [], is_carrier=True)
        for each in self.links:
            mac = each.mac
            signal = Signal(mac, each.index, now + each.delay, end + each.delay, each.power * self.gain, cause=LOST)
            signal.channel = channel
            if self._phy is not None and self._phy.fading is not None:
                signal.power *= self._phy.gain(self.medium.seed, each.key, channel, (self.name, mac.name), signal.start)
            mac.receiver.hear(signal, now, width)
            emission.reached.append(signal)
        for receiver in self.sensers:
            if receiver.channel == channel:
                receiver.sense(now, end, width)

    def leave_unsent(self, seconds: float) -> None:
        """Correct the counts after an abort: the last ``seconds`` of the current emission are not sent."""
        assert self.emission is not None
        if self.emission.is_ack:
            self.counts.ack_airtime_s -= seconds
            return
        self.counts.airtime_s -= seconds
        if self._share:
            self._silence[self._band] -= seconds / self._share

    def is_battery_empty(self, now: float) -> bool:
        """Return whether the battery is empty at ``now`` (s), even if `BatteryWatch` has not run yet."""
        return self.meter is not None and self.meter.dies_at <= now

    def _sent(self, pending: PendingFrame, now: float) -> None:
        """Handle the end of a sent fragment: wait for its acknowledgement, or go on to the next fragment or frame."""
        # Free a finished emission, because it may hold a signal for every other node. An emission that is still going
        # on is not the fragment but an acknowledgement, which this node began to send at this instant (within the time
        # tolerance).
        if self.emission is not None and self.emission.end <= now:
            self.emission = None
        if not self._is_present(pending):
            return
        pending.since = now
        if not (pending.to >= 0 and self._radio.acks):
            self._fragment_done(now)
            return
        wait = self._radio.wait_for_ack(self.link)
        # The tolerance makes an acknowledgement that arrives exactly at the time-out count as in time despite rounding.
        self.at(now + wait + time_tolerance(now), partial(self._no_ack, self.turn))

    def _acknowledged(self, pending: PendingFrame, turn: int, signal: Signal, now: float) -> None:
        """Handle an arriving acknowledgement: if it is intact and of the current turn, go on to the next fragment."""
        if self.receiver.fate(signal, now) or not self.inbox.arrivals.up:
            return
        if self._is_present(pending) and turn == self.turn and self.on:
            self.turn += 1
            pending.since = now
            self._fragment_done(now)

    def _no_ack(self, turn: int, now: float) -> None:
        if turn != self.turn:
            return
        pending = self._queue[0]
        self.turn += 1
        self.counts.no_ack += 1
        pending.since = now
        if pending.retries == self._radio.max_frame_retries:
            self._give_up(now, pending.cause or LOST)
            return
        pending.retries += 1
        self._contend(now)

    def _fragment_done(self, now: float) -> None:
        pending, radio = self._queue[0], self._radio
        if self.access == "csma":
            space = radio.sifs if pending.bits <= radio.max_sifs_bits else radio.lifs
            self._silent_until = max(self._silent_until, now + space)
        if pending.is_last:
            self._finish(now, acknowledged=pending.to >= 0 and radio.acks, complete=True)
            return
        pending.index += 1
        pending.retries = 0
        self._contend(now)

    def _give_up(self, now: float, cause: int) -> None:
        self._end_all(self._queue[0], now, cause)
        self._finish(now, acknowledged=False, complete=False)

    # --- on the air ---------------------------------------------------------------------------------------------------

    def _transmit(self, pending: PendingFrame, now: float, end: float) -> None:
        """Send the current fragment from ``now`` to ``end`` (s), and schedule the arrivals of its signals."""
        medium = self.medium
        if medium.tally.keeps and pending.index == pending.retries == 0:
            for each in range(len(self.wiring.links)) if pending.to < 0 else (pending.to,):
                medium.tally.left(now, self._key(each, pending), pending.number, sum(pending.fragments))
        arrivals = self._emit(pending, now, end, pending.kind, pending.bits, pending.to)
        for arrival, signals in arrivals.items():
            medium.events.at(arrival, partial(self._arrive, pending, pending.index, pending.age, self.turn, signals))
        medium.events.at(end, partial(self._sent, pending))

    def _acknowledge(self, sender: "Mac", pending: PendingFrame, turn: int, now: float) -> None:
        """Acknowledge the fragment that ``sender`` sent in turn ``turn``, if this node still can."""
        # Since the fragment arrived, this node may have begun to send, changed its channel or emptied its battery, or
        # the sender may have stopped waiting.
        busy = self.receiver.sends_until > now + time_tolerance(now) or self.receiver.channel != sender.receiver.channel
        if busy or turn != sender.turn or self.is_battery_empty(now):
            return
        bits, to = self._radio.ack_bits, self.link_index_of[sender.number]
        end = now + self._radio.seconds(bits, self.link)
        self.counts.acks += 1
        self.counts.ack_airtime_s += end - now
        arrivals = self._emit(pending, now, end, self.medium.ack_kind, bits, to)
        [(arrival, [signal])] = arrivals.items()
        self.medium.events.at(arrival, partial(sender._acknowledged, pending, turn, signal))

    def _emit(
        self, pending: PendingFrame, now: float, end: float, kind: int, bits: int, to: int
    ) -> dict[float, list[Signal]]:
        """Emit from ``now`` to ``end`` (s) on link ``to`` (−1: all); return the addressees' signals by arrival time."""
        medium, is_ack, channel = self.medium, kind == self.medium.ack_kind, self.receiver.channel
        gain, watts = (self.gain, self._watts) if is_ack else (pending.gain, pending.watts)
        joules = self._spend(now, end, bits, to, watts)
        pending.energy += 0.0 if is_ack else joules
        medium.tally.aired(self.number, kind, bits)
        self.receiver.send(now, end)
        width, paths, power = time_tolerance(now), self.ack_paths if is_ack else self.paths, 0.0
        chances = self._ack_chances if is_ack else self._chances
        # If the powers of copies may add up: a key that all copies of one fragment share.
        adds_up = self._phy is not None and self._phy.concurrent_s and not is_ack
        content = (_without_sender(pending.frame), pending.index) if adds_up else None
        arrivals: dict[float, list[Signal]] = {}
        emission = self.emission = Emission(end, is_ack, [])
        for each in self.links:
            mac, index = each.mac, each.index
            is_target = index >= 0 and to in (-1, index)
            if is_target:
                arrival, lost = paths[index].cross(end, bits)
                lost = (not is_ack and self.bursts.loses(index)) or lost
                # A transmission over a cut link interferes like any other, but is not received.
                cause = LINK_DOWN if index in self.down else 0
                signal = Signal(mac, index, now + (arrival - end), arrival, each.power * gain, lost, cause)
                if chances:
                    signal.draw = chances[index].uniform()
                arrivals.setdefault(arrival, []).append(signal)
            else:
                signal = Signal(mac, index, now + each.delay, end + each.delay, each.power * gain)
            signal.bits, signal.channel, signal.content = bits, channel, content
            if index >= 0 or self._phy is not None:
                mac._begin_reception(signal, now, end, bits, is_ack and is_target)
            if self._phy is not None and self._phy.fading is not None:
                signal.power *= self._phy.gain(medium.seed, each.key, channel, (self.name, mac.name), signal.start)
            mac.receiver.hear(signal, now, width)
            emission.reached.append(signal)
            if is_target:
                power = signal.power
        if medium.airtime.log is not None:
            self._log(pending, now, end, kind, bits, to, power)
        for each in self.deaf:
            mac, index = each.mac, each.index
            if to in (-1, index):
                signal = Signal(mac, index, now, end, 0.0, cause=LINK_DOWN if index in self.down else LOST)
                if not mac.on or mac.is_battery_empty(now):
                    signal.spoil(RECEIVER_DOWN)
                # Register this signal although its power is 0, so that it is dropped if the receiver is switched off
                # before the signal ends.
                mac.receiver.hear(signal, now, width)
                arrivals.setdefault(end, []).append(signal)
        for receiver in self.sensers:
            if receiver.channel == channel:
                receiver.sense(now, end, width)
        return arrivals

    def _log(self, pending: PendingFrame, now: float, end: float, kind: int, bits: int, to: int, power: float) -> None:
        """Log an emission on link ``to`` (−1: all); ``power`` (mW) is the received power on that link."""
        assert self.medium.airtime.log is not None
        row = (kind, pending.number, pending.index, pending.retries, bits, self.receiver.channel)
        power = power if to >= 0 and self._radio.powers is not None else 0.0
        data = b"" if kind == self.medium.ack_kind else pending.content(self.link.mtu)
        link = self.wiring.first + to if to >= 0 else -1
        self.medium.airtime.log.append((now, end, self.number, link, *row, power, data, True))

    @property
    def _watts(self) -> float:
        """The power (W) drawn while sending at the current transmit power."""
        return 0.0 if self.meter is None else self.meter.transmit_watts

    def _spend(self, now: float, end: float, bits: int, to: int, watts: float) -> float:
        """Charge this node for an emission on link ``to`` (−1: all) at the power ``watts``; return the energy (J)."""
        meter = self.meter
        if meter is None:
            return 0.0
        distances = self.distances
        distance = 0.0 if not distances else distances[to] if to >= 0 else max(distances)
        joules = meter.transmit(now, end, bits, distance, watts)
        self._watch_battery(now)
        return joules

    def _begin_reception(self, signal: Signal, now: float, end: float, bits: int, awaits: bool) -> None:
        """Drop a signal that this node cannot receive, or meter the energy that the node spends to hear it.

        A node that is off, asleep or on another channel drops the signal. If ``awaits``, the signal is an
        acknowledgement for this node, which receives it even while asleep. Hearing a signal costs energy only if it
        comes from a neighbour and is strong enough, and this node is not sending.
        """
        meter = self.meter
        if not self.on or self.is_battery_empty(now):
            signal.spoil(RECEIVER_DOWN)
        elif signal.channel != self.receiver.channel or not (awaits or self._is_awake(now)):
            signal.spoil(ASLEEP)
        elif signal.link_index < 0 or meter is None or signal.power < self._heard_from:
            return
        elif self.receiver.sends_until <= now + time_tolerance(now):
            signal.reception = meter.receive(now, end, bits)
            self._watch_battery(now)

    def _is_awake(self, now: float) -> bool:
        return self.listening and (self.schedule is None or self.schedule.is_awake(now))

    def _watch_battery(self, now: float) -> None:
        assert self.meter is not None
        if self.meter.committed > self.meter.allowance:
            self.medium.watch.plan(self, now)

    # --- outcomes of a frame ------------------------------------------------------------------------------------------

    def _arrive(
        self, pending: PendingFrame, index: int, age: float | None, turn: int, signals: list[Signal], now: float
    ) -> None:
        """Decide the outcome of a fragment at the receivers of ``signals``, which end at ``now`` (s).

        ``age`` is that of the event when these signals began; the frame may have been sent again since.
        """
        for signal in signals:
            cause = signal.mac.receiver.fate(signal, now) if signal.mac.inbox.arrivals.up else RECEIVER_DOWN
            self._arrived(pending, index, age, turn, signal, cause, now)

    def _arrived(
        self, pending: PendingFrame, index: int, age: float | None, turn: int, signal: Signal, cause: int, now: float
    ) -> None:
        """Record that a neighbour received a fragment or, if ``cause`` is not 0, why not."""
        link_index, to = signal.link_index, signal.mac
        if pending.to >= 0 and self._radio.acks:
            pending.cause = (
                cause or pending.failed.get(link_index, 0) or self._take_in(pending, index, age, signal, now)
            )
            if not pending.cause:
                to.receiver.turn(now, now + self._radio.turnaround)
                to.at(now + self._radio.turnaround, partial(to._acknowledge, self, pending, turn))
            return
        if cause:
            pending.failed.setdefault(link_index, cause)
        if index == len(pending.fragments) - 1 and link_index in pending.open:
            cause = pending.failed.get(link_index, 0) or self._deliver(pending, age, signal, now)
            if cause:
                self._ended(pending, link_index, now, cause)

    def _take_in(self, pending: PendingFrame, index: int, age: float | None, signal: Signal, now: float) -> int:
        """Receive a fragment that needs an acknowledgement; return 0, or the drop reason."""
        if index < pending.received:
            # The acknowledgement was lost, so the fragment came again; the receiver recognises it by its number.
            signal.mac.counts.duplicates += 1
            return 0
        is_last = index == len(pending.fragments) - 1
        cause = self._deliver(pending, age, signal, now) if is_last and signal.link_index in pending.open else 0
        pending.received += not cause
        return cause

    def _deliver(self, pending: PendingFrame, age: float | None, signal: Signal, now: float) -> int:
        """Put a frame into the neighbour's arrival queue; return 0, or `CORRUPTED` if it is dropped as damaged."""
        link_index = signal.link_index
        path, frame = self.paths[link_index], pending.frame
        [(time, corrupted)] = self.bursts.delayed(link_index, [path.arrive(now)])
        late_at = pending.late_at
        if corrupted:
            link = self.wiring.links[link_index]
            received = None if link.crc else damaged(frame, path.damaged_share(), self.medium.names, self.medium.kinds)
            if received is None:
                return CORRUPTED
            # The round number in the frame may be damaged, so the receiver must check whether the frame is late.
            frame, late_at = received, -math.inf
        began = local(signal.mac.clock, signal.start)
        event = None if age is None else began - age
        if self._tells_power or corrupted:
            powers = (signal.power + signal.joined, signal.floor, signal.noise) if self._tells_power else None
            frame = frame.received(powers, began, event)
        elif pending.received_as is None or pending.received_as.began != began:
            frame = pending.received_as = frame.received(None, began, event)
        else:
            frame = pending.received_as
        key = self._key(link_index, pending)
        self.wiring.inboxes[link_index].arrivals.push(time, key, pending.kind, frame, late_at)
        self._close(pending, link_index)
        if link_index in self.subscribers:
            self.subscribers[link_index].watch()
        return 0

    def _end_all(self, pending: PendingFrame, now: float, cause: int) -> None:
        """Count a frame as not delivered on every link where its outcome is still unknown."""
        for link_index in sorted(pending.open):
            self._ended(pending, link_index, now, pending.failed.get(link_index, cause))

    def _ended(self, pending: PendingFrame, link_index: int, now: float, cause: int) -> None:
        """Count a frame as not delivered on one link, with the drop reason ``cause``."""
        self.medium.tally.ended(now, self._key(link_index, pending), pending.kind, cause)
        pending.ended = cause
        self._close(pending, link_index)

    def _close(self, pending: PendingFrame, link_index: int) -> None:
        pending.open.discard(link_index)
        if not pending.open:
            del self._open[pending.number]

    def on_neighbour_off(self, neighbour: "Mac") -> None:
        """Mark partly sent frames as failed at a neighbour that was switched off: it lost the fragments it had."""
        for pending in self._open.values():
            for link_index in pending.open:
                if self.wiring.receivers[link_index] == neighbour.number and (pending.index or pending.received):
                    pending.failed.setdefault(link_index, RECEIVER_DOWN)

    def flush(self, now: float) -> None:
        """Drop all queued frames: a frame that was sent at least once counts as lost, any other frame as refused."""
        self._flush_count += 1
        self._waits = False
        self._queued_bits = 0
        waiting, self._queue = self._queue, deque()
        for pending in waiting:
            self._end_all(pending, now, (pending.cause or LOST) if pending.begun else REFUSED)
            pending.set_outcome(False, self.meter is not None, self.clock, complete=False)
