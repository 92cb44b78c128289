"""Carry an agent's frames over its links, one link at a time: transmitter, loss and latency, arrival in an inbox.

On the path agent → outbox → link → inbox → agent, this module is the link. For broadcasts over links that only lose and
delay frames, the faster `netsim.core.BroadcastPath` is used instead.
"""

from collections.abc import Hashable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING

from netsim.core import BroadcastPath, Frame
from netsim.core.framing import damaged
from netsim.core.records import CORRUPTED, LINK_DOWN, LOST, QUEUE_FULL, REFUSED, TO_ALL
from netsim.links.link import Link
from netsim.transport.path import Bursts, Copies, Path
from netsim.transport.shared import Shared
from netsim.transport.transmitter import Departure, Shift, Transmitter, transmitters_of

if TYPE_CHECKING:
    from netsim.transport.outbox import Wiring

__all__ = ["LinkStages"]

_CAUSES = {"refused": REFUSED, "queue_full": QUEUE_FULL}
_ACCEPTED = 0

Leg = tuple[int, int, int, Frame, float, float | None]
"""A frame on its way over one link: the link's index, the number of the transmission, the kind id, the frame, the time
(s) from which it may be late, and its delay.

The delay (s) is given only for a broadcast of one fragment over a simple link; a negative delay means that it is lost.
"""


@dataclass(eq=False, repr=False)
class LinkStages:
    """Carries one agent's frames over its links: transmits, loses, delays, copies, corrupts and counts them.

    Parameters
    ----------
    path : BroadcastPath
        The agent's fast path, with which this object shares random draws, the counter of transmissions, and the tally.
    wiring : Wiring
        The agent's links.
    agents : sequence
        The names of all agents, indexed by number.
    down : set of int
        The indices of the links that are cut.
    bursts : Bursts
        Faults that delay or lose single frames of the agent's links.
    """

    _broadcast_path: BroadcastPath
    _wiring: "Wiring"
    shared: InitVar[Shared]
    _agents: Sequence[Hashable]
    _down: set[int]
    _bursts: Bursts
    _paths: dict[int, Path] = field(default_factory=dict)

    def __post_init__(self, shared: Shared) -> None:
        self._tally, self._kinds, rounds = shared.tally, shared.encoder.kinds, shared.rounds
        self._rounds = rounds
        self._transmitters = transmitters_of(self._wiring.links, self._wiring.radio, rounds.period, rounds.offset)

    def change(self, link_index: int, link: Link, now: float, last: float | None) -> list[Shift]:
        """Change a link's settings from ``now`` (s) on; return the frames whose departures change.

        ``last`` is the latest arrival (s) of the link's frames in flight, if some of them are broadcasts.
        """
        if link_index in self._paths or last is not None:
            self._path(link_index).change(link, last)
        if self._wiring.radio is not None:
            return []
        if link_index in self._transmitters:
            return self._transmitters[link_index].change(link, now)
        if link.has_port:
            self._transmitters[link_index] = Transmitter(link, self._rounds.period, self._rounds.offset)
        return []

    def clear(self, link_index: int, now: float) -> None:
        """Drop the frames that wait to leave on a wired link."""
        if self._wiring.radio is None and link_index in self._transmitters:
            self._transmitters[link_index].clear(now)

    def set_last(self, link_index: int, last: float) -> None:
        """Set the latest arrival (s) on a ``fifo`` link after the arrivals of its frames in flight changed."""
        self._path(link_index).last = last

    def offer(self, kind_id: int, frame: Frame, payload: object, raw_data: bool, link: int, deadline: float) -> int:
        """Offer a frame to one link or to all links (`TO_ALL`), and count it; return how many links accepted it.

        Only a frame that arrives at or after ``deadline`` (s) can be late and needs a check, which is slower.
        """
        path, wiring, to_all = self._broadcast_path, self._wiring, link == TO_ALL
        number = path.sent
        path.sent += 1
        link_indices = range(len(wiring.links)) if to_all else (link,)
        taken, wire = self._send_over_links(number, kind_id, frame, link_indices, to_all, deadline)
        each = 0 if to_all or wiring.radio is not None else wire
        network_link = TO_ALL if to_all else wiring.first + link
        path.count(number, kind_id, frame, payload, raw_data, network_link, taken, wire, each)
        return taken

    def _send_over_links(
        self, number: int, kind_id: int, frame: Frame, link_indices: Sequence[int], to_all: bool, deadline: float
    ) -> tuple[int, int]:
        """Send a frame over each link separately; return how many links accepted it, and the wire bits."""
        wiring, tally, size, now = self._wiring, self._tally, frame.size(), frame.sent_at
        on_radio = wiring.radio is not None
        delays = self._broadcast_path.delays() if to_all else ()
        # A radio transmits a frame once for all links, or not at all if all links are cut.
        once = self._transmit(now, None, size, number) if on_radio and not self._down.issuperset(link_indices) else None
        taken = wire = 0
        for link_index in link_indices:
            sent = (
                once
                if once is not None and link_index not in self._down
                else self._transmit(now, link_index, size, number)
            )
            if sent.cause:
                tally.ended(now, self._frame_key(link_index, number), kind_id, sent.cause)
                continue
            taken += 1
            if tally.keeps and sent.ends and (to_all or sent.start > now):
                tally.left(sent.start, self._frame_key(link_index, number), number, sent.bits)
            delay = delays[link_index] if delays and wiring.draws_together(link_index) else None
            self._depart((link_index, number, kind_id, frame, deadline, delay), sent, now)
            wire = sent.bits if on_radio else wire + sent.bits
            if to_all and not on_radio:
                tally.link_bits(wiring.first + link_index, kind_id, sent.bits)
        return taken, wire

    def _transmit(self, now: float, link_index: int | None, size: int, number: int) -> Departure:
        """Transmit a frame on a link or, if ``link_index`` is None, on the agent's radio."""
        if link_index in self._down:
            return Departure(LINK_DOWN, now, (), 0)
        transmitter = self._transmitters.get(link_index or 0)
        if transmitter is None:
            settings = self._wiring.radio or self._wiring.links[link_index or 0]
            return Departure(_ACCEPTED, now, (now,), 8 * size + settings.header_bits)
        return self._offered(now, transmitter, transmitter.fragments(size), number)

    def _offered(
        self, now: float, transmitter: Transmitter, fragments: list[int], number: int, ends_known: bool = True
    ) -> Departure:
        cause, start, ends = transmitter.accept(now, fragments, number)
        if cause:
            return Departure(_CAUSES[cause], now, (), 0)
        return Departure(_ACCEPTED, start, ends if ends_known else (), sum(fragments))

    def _depart(self, leg: Leg, sent: Departure, now: float) -> None:
        """Carry a frame that has left over its link; a lost frame is counted at the time ``now`` (s)."""
        link_index, *_, delay = leg
        if delay is not None and len(sent.ends) == 1:
            copies = [(sent.ends[0] + delay, False)] if delay >= 0.0 else []
        else:
            copies = self._path(link_index).carry(sent.ends)
        copies = [] if self._bursts.loses(link_index) else self._bursts.delayed(link_index, copies)
        self._arrive(leg, copies, sent, now)

    def _arrive(self, leg: Leg, copies: Copies, sent: Departure, now: float) -> None:
        """Put a frame's copies into the neighbour's inbox, or count why they are dropped."""
        link_index, number, kind, frame, deadline, _ = leg
        wiring, tally, path = self._wiring, self._tally, self._broadcast_path
        key = self._frame_key(link_index, number)
        if not copies:
            tally.ended(now, key, kind, LOST)
        for copy, (time, corrupted) in enumerate(copies):
            if copy:
                # A second copy gets a new transmission number: both copies may arrive at the same time, and their keys
                # must differ.
                key = self._frame_key(link_index, path.sent)
                path.sent += 1
                tally.duplicate(wiring.first + link_index, kind)
                if tally.keeps:
                    tally.left(sent.start, key, number, sent.bits)
            arrivals = wiring.inboxes[link_index].arrivals
            if not corrupted:
                arrivals.push(time, key, kind, frame, deadline)
            elif (received := self._damaged(link_index, frame)) is None:
                tally.ended(time, key, kind, CORRUPTED)
            else:
                # Pass no deadline, so that the inbox checks the frame: the flipped bit may have changed its round.
                arrivals.push(time, key, kind, received)

    def _damaged(self, link_index: int, frame: Frame) -> Frame | None:
        """Return the frame as decoded with one flipped bit; None if the CRC detects it or the bytes do not decode."""
        if self._wiring.links[link_index].crc:
            return None
        return damaged(frame, self._path(link_index).damaged_share(), self._agents, self._kinds)

    def _path(self, link_index: int) -> Path:
        path = self._paths.get(link_index)
        if path is None:
            wiring = self._wiring
            link = wiring.links[link_index]
            # Broadcasts over a simple link use the random streams "loss" and "latency" (`LinkDraws`). The path must not
            # draw the same numbers again, so the names of its streams get a prefix.
            purpose = "one by one " if wiring.began_simple(link_index) else ""
            path = self._paths[link_index] = Path(link, wiring.keys[link_index : link_index + 1], wiring.seed, purpose)
        return path

    def _frame_key(self, link_index: int, number: int) -> int:
        return (self._wiring.first + link_index << self._tally.shift) + number
