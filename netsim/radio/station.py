"""One node's side of a shared medium: its queue, and what it does to get a frame across.

agent → outbox → link → inbox → agent: you are at the sender's radio. One fragment at a time seeks access, is sent and,
if it is for one neighbour and the radio acknowledges, sent again until that was heard of, or often enough.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from netsim.clock.clock import LocalClock
from netsim.core import Tally
from netsim.core.framing import damaged
from netsim.core.records import ACCESS_FAILED, CORRUPTED, LINK_DOWN, LOST, QUEUE_FULL, RECEIVER_DOWN, REFUSED
from netsim.radio.access import Access, access_of
from netsim.radio.agenda import Agenda
from netsim.radio.book import Counts
from netsim.radio.energy import Hearing, Meter
from netsim.radio.job import Job
from netsim.radio.settings import Radio
from netsim.radio.signals import Ear, Signal
from netsim.radio.sleep import Schedule
from netsim.transport.bursts import Bursts
from netsim.transport.inbox import Inbox
from netsim.transport.offered import Offered
from netsim.transport.path import Path
from netsim.transport.transmitter import Port, early
from netsim.transport.wiring import Wiring
from netsim.util import draws

__all__ = ["Air", "Common", "Emission", "Station"]


class Air(Protocol):
    """What a station sends into."""

    def transmit(self, sender: "Station", job: Job, now: float, end: float) -> None:
        """Put a fragment on the air from now to ``end`` (s)."""
        ...

    def acknowledge(self, sender: "Station", receiver: "Station", job: Job, turn: int, now: float) -> None:
        """Put an acknowledgement of what ``receiver`` has sent at a turn of its own on the air."""
        ...


@dataclass(frozen=True, slots=True)
class Emission:
    """A fragment or an acknowledgement on the air, and what of it reaches whom."""

    end: float
    is_ack: bool
    reached: list[tuple["Station", Signal, Hearing | None]]


@dataclass(frozen=True)
class Common:
    """What the stations of one run share."""

    radio: Radio
    agenda: Agenda
    tally: Tally
    air: Air
    names: list[Hashable]
    seed: int
    round_period: float


class Station:
    """One node's radio.

    Parameters
    ----------
    common : Common
        What it shares with the others.
    number : int
        The node's.
    name : Hashable
        The node's.
    wiring : Wiring
        The node's links.
    clock : LocalClock, optional
        The node's, if that is off.

    Attributes
    ----------
    ear : Ear
        What reaches it.
    inbox : Inbox
        Where what it receives goes.
    meter : Meter or None
        What it spends, if that is kept.
    link : Link
        The settings of its transmitter.
    paths, ack_paths : list of Path
        Its links, by place; for acknowledgements with draws of their own.
    down : set of int
        The places of the links that are cut, of which it knows nothing; the outbox's.
    watching, bursts : dict, Bursts
        As of `netsim.transport.outbox.Outbox`.
    on : bool
        Whether the node is on: neither crashed nor absent, and its battery not empty.
    emission : Emission or None
        What it last put on the air.
    """

    def __init__(
        self,
        common: Common,
        number: int,
        name: Hashable,
        wiring: Wiring,
        inbox: Inbox,
        clock: LocalClock | None = None,
    ) -> None:
        assert wiring.radio is not None
        self._common, self._radio, self.link = common, common.radio, wiring.radio
        self.number, self.name, self.wiring, self.inbox = number, name, wiring, inbox
        self.paths = self._paths("")
        self.ack_paths = self._paths("ack ") if self._radio.acks else []
        self.ear, self.counts = Ear(), Counts()
        cycle, energy = self._radio.duty_cycle, self._radio.energy_of(name)
        self.schedule: Schedule | None = None if cycle is None else cycle.of(name, clock)
        self.meter = None if energy is None else Meter(energy, self.schedule)
        self.down: set[int] = set()
        self.watching: dict[int, Any] = {}
        self.bursts = Bursts()
        self.on = True
        self.emission: Emission | None = None
        key = np.array([draws.name_key(name)], dtype=np.uint64)
        stream = draws.Stream(int(draws.stream_keys(common.seed, key, "back-off")[0]))
        self._access: Access = access_of(self._radio, self, stream)
        self._port = Port(self.link, common.round_period)
        self._queue: deque[Job] = deque()
        self._job: Job | None = None
        self._held_bits = 0
        self._silent_until = 0.0
        # Jobs of which some end is not known, by number; and which wait counts, so that one that is over is ignored.
        self._open: dict[int, Job] = {}
        self._turn = self._flushed = 0

    def _paths(self, purpose: str) -> list[Path]:
        wiring, seed = self.wiring, self._common.seed
        return [Path(link, wiring.keys[i : i + 1], seed, purpose) for i, link in enumerate(wiring.links)]

    # --- taking frames ------------------------------------------------------------------------------------------------

    @property
    def acknowledges(self) -> bool:
        """Whether what it sends to one neighbour is acknowledged."""
        return self._radio.acks

    def take(self, offered: Offered, now: float) -> int:
        """Take a frame: return 0, or the cause for which it is not taken."""
        self._common.agenda.catch_up(now)
        if not self.on:
            return LINK_DOWN
        fragments = self._port.fragments(len(offered.frame.data))
        bits, link = sum(fragments), self.link
        held = len(self._queue) + (self._job is not None)
        if held >= (link.queue or math.inf) or self._held_bits + bits > (link.queue_bits or math.inf):
            return QUEUE_FULL
        release = self._port.release
        not_before = now if release is None else release(now, bits)
        if not_before == math.inf:
            return REFUSED
        job = self._open[offered.number] = Job(offered, fragments, now, not_before)
        self._held_bits += bits
        self._queue.append(job)
        if self._job is None:
            self._next(now)
        return 0

    def under_way(self) -> Iterator[tuple[int, int]]:
        """Yield key and kind of each link message of which the end is not known yet."""
        for job in self._open.values():
            for place in sorted(job.open):
                yield self.key(place, job), job.offered.kind

    def key(self, place: int, job: Job) -> int:
        """Return the key of a link message."""
        return (self.wiring.first + place << self._common.tally.shift) + job.offered.number

    def _next(self, now: float) -> None:
        if not self._queue:
            return
        job = self._job = self._queue.popleft()
        self._contend(max(now, job.not_before))

    def _finish(self, now: float, acknowledged: bool) -> None:
        """Turn to the next frame."""
        job = self._job
        assert job is not None
        self._job = None
        self._held_bits -= sum(job.fragments)
        if self.meter is not None:
            self.meter.last_frame = job.energy
        job.conclude(acknowledged)
        self._next(now)

    # --- access -------------------------------------------------------------------------------------------------------

    def _contend(self, at: float) -> None:
        """Seek access for the present fragment from a time (s) on."""
        assert self._job is not None
        begin = self.awake_from(max(at, self._silent_until))
        self.counts.queueing_s += begin - self._job.since
        self._job.since = begin
        self._access.contend(begin, self._job.retries)

    def at(self, time: float, call: Callable[[float], None]) -> None:
        """Call back at a time (s), unless the node has gone off by then."""
        self._common.agenda.at(time, partial(self._call, call, self._flushed))

    def _call(self, call: Callable[[float], None], flushed: int, now: float) -> None:
        if self.on and flushed == self._flushed:
            call(now)

    def awake_from(self, time: float) -> float:
        """Return the first time (s) from this one on at which the radio is on."""
        return time if self.schedule is None else self.schedule.next_awake(time)

    def is_awake(self, time: float) -> bool:
        """Return whether the radio is on at a time (s)."""
        return self.schedule is None or self.schedule.is_awake(time)

    def is_busy(self, since: float, now: float) -> bool:
        """Return whether it senses a carrier."""
        busy = self.ear.is_busy(since, now)
        self.counts.busy += busy
        return busy

    def no_access(self, now: float) -> None:
        """Give the frame up."""
        self.counts.access_failures += 1
        self._give_up(now, ACCESS_FAILED)

    # --- sending ------------------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Send the present fragment."""
        job = self._job
        assert job is not None
        if self.is_spent(now):
            return
        if self.ear.sends_until > now + early(now):
            # An acknowledgement of its own is on the air.
            self._access.contend(self.ear.sends_until, job.retries)
            return
        counts, seconds = self.counts, self._radio.seconds(job.bits, self.link)
        counts.frames += 1
        counts.retries += job.retries > 0
        counts.airtime_s += seconds
        counts.access_s += now - job.since
        self._turn += 1
        job.begun = True
        end = now + seconds
        if self._radio.transmit_share is not None:
            self._silent_until = end + seconds * (1.0 / self._radio.transmit_share - 1.0)
        self._common.air.transmit(self, job, now, end)

    def leave_unsent(self, seconds: float) -> None:
        """Take from what it counts so much (s) of the end of what it sends: that will not be sent."""
        assert self.emission is not None
        if self.emission.is_ack:
            self.counts.ack_airtime_s -= seconds
            return
        self.counts.airtime_s -= seconds
        if self._radio.transmit_share is not None:
            self._silent_until -= seconds / self._radio.transmit_share

    def is_spent(self, now: float) -> bool:
        """Return whether its battery is empty at a time (s), though nobody may have looked yet."""
        return self.meter is not None and self.meter.dies_at <= now

    def sent(self, job: Job, now: float) -> None:
        """Go on: the fragment has left."""
        if self._job is not job:
            return
        job.since = now
        if not (job.offered.to_one and self._radio.acks):
            self._fragment_done(now)
            return
        wait = self._radio.wait_for_ack(self.link)
        # What comes as the wait ends is in time, but for rounding.
        self.at(now + wait + early(now), partial(self._no_ack, self._turn))

    def acknowledged(self, job: Job, turn: int, now: float) -> None:
        """Go on: an acknowledgement came, for what was sent at this turn."""
        if self._job is job and turn == self._turn and self.on:
            self._turn += 1
            job.since = now
            self._fragment_done(now)

    @property
    def turn(self) -> int:
        """How often it has begun to send, or ceased to wait for an acknowledgement."""
        return self._turn

    def _no_ack(self, turn: int, now: float) -> None:
        if turn != self._turn:
            return
        job = self._job
        assert job is not None
        self._turn += 1
        self.counts.no_ack += 1
        job.since = now
        if job.retries == self._radio.max_frame_retries:
            self._give_up(now, job.cause or LOST)
            return
        job.retries += 1
        self._contend(now)

    def _fragment_done(self, now: float) -> None:
        job = self._job
        assert job is not None
        if job.is_last:
            self._finish(now, acknowledged=job.offered.to_one and self._radio.acks)
            return
        job.index += 1
        job.retries = 0
        self._contend(now)

    def _give_up(self, now: float, cause: int) -> None:
        job = self._job
        assert job is not None
        for place in sorted(job.open):
            self.ended(job, place, now, job.failed.get(place, cause))
        self._finish(now, acknowledged=False)

    # --- what becomes of it -------------------------------------------------------------------------------------------

    def arrived(self, job: Job, index: int, turn: int, place: int, receiver: "Station", cause: int, now: float) -> None:
        """Take note that a fragment has reached a neighbour, or (``cause``) would have."""
        if not receiver.inbox.up:
            cause = RECEIVER_DOWN
        if job.offered.to_one and self._radio.acks:
            job.cause = cause or job.failed.get(place, 0) or self._take_in(job, index, place, receiver, now)
            if not job.cause:
                receiver.answer(self, job, turn, now)
            return
        if cause:
            job.failed.setdefault(place, cause)
        if index == len(job.fragments) - 1 and place in job.open:
            cause = job.failed.get(place, 0) or self._deliver(job, place, now)
            if cause:
                self.ended(job, place, now, cause)

    def _take_in(self, job: Job, index: int, place: int, receiver: "Station", now: float) -> int:
        """Take in an acknowledged fragment: return 0, or the cause for which it is not received."""
        if index < job.received:
            # Its acknowledgement was lost: the receiver knows it by its number.
            receiver.counts.duplicates += 1
            return 0
        cause = self._deliver(job, place, now) if index == len(job.fragments) - 1 and place in job.open else 0
        job.received += not cause
        return cause

    def _deliver(self, job: Job, place: int, now: float) -> int:
        """Put a frame among the neighbour's arrivals: return 0, or why it is damaged."""
        path, frame = self.paths[place], job.offered.frame
        [(time, corrupted)] = self.bursts.delayed(place, [path.arrive(now)])
        if corrupted:
            link = self.wiring.links[place]
            received = None if link.crc else damaged(frame, path.damage_place(), self._common.names)
            if received is None:
                return CORRUPTED
            frame = received
        self.wiring.inboxes[place].arrivals.push(time, self.key(place, job), job.offered.kind, frame)
        self._close(job, place)
        if place in self.watching:
            self.watching[place].watch()
        return 0

    def ended(self, job: Job, place: int, now: float, cause: int) -> None:
        """Count the end of a link message that was not delivered."""
        self._common.tally.ended(now, self.key(place, job), job.offered.kind, cause)
        self._close(job, place)

    def _close(self, job: Job, place: int) -> None:
        job.open.discard(place)
        if not job.open:
            del self._open[job.offered.number]

    def answer(self, sender: "Station", job: Job, turn: int, now: float) -> None:
        """Acknowledge what a neighbour has sent, as soon as the radio has turned round."""
        self.at(now + self._radio.turnaround, partial(self._acknowledge, sender, job, turn))

    def _acknowledge(self, sender: "Station", job: Job, turn: int, now: float) -> None:
        # It may have begun to send itself; and the other may wait no longer.
        if self.ear.sends_until <= now + early(now) and turn == sender.turn and not self.is_spent(now):
            self._common.air.acknowledge(self, sender, job, turn, now)

    def forgotten_by(self, neighbour: "Station") -> None:
        """Note that a neighbour has gone off, and with it what it had of frames that come in several fragments."""
        for job in self._open.values():
            for place in job.open:
                if self.wiring.receivers[place] == neighbour.number and (job.index or job.received):
                    job.failed.setdefault(place, RECEIVER_DOWN)

    def flush(self, now: float) -> None:
        """Forget all that was taken and not sent; what was on the air, and is not known to have arrived, is lost."""
        self._flushed += 1
        self._held_bits = 0
        waiting = [*([self._job] if self._job is not None else []), *self._queue]
        self._queue.clear()
        self._job = None
        for job in waiting:
            cause = (job.cause or LOST) if job.begun else REFUSED
            for place in sorted(job.open):
                self.ended(job, place, now, job.failed.get(place, cause))
            job.conclude(False)
