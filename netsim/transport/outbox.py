"""An agent's outbox: it encodes a message once and hands it to the links (docs/links.md walks through the stages).

agent → outbox → link → inbox → agent: you are at the outbox.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from netsim import check
from netsim.core import Frame, Spreader
from netsim.count.records import COLLIDED, CORRUPTED, LINK_DOWN, LOST, QUEUE_FULL, REFUSED, TO_ALL, Transmission
from netsim.draws import Keys
from netsim.errors import AgentError, RunOver, WireError
from netsim.link import Link
from netsim.transport.air import Air
from netsim.transport.fan import Fan
from netsim.transport.framing import decode_frame, new_frame
from netsim.transport.inbox import Inbox
from netsim.transport.path import Copies, Path
from netsim.transport.port import Port
from netsim.transport.shared import Shared
from netsim.transport.spreader import weighed

__all__ = ["SENDS_AT_ONCE", "Outbox", "Wiring"]

SENDS_AT_ONCE = 100_000
"""How often an agent may send at one instant of simulated time. One that sends more never waits for anything."""

_CAUSE_OF_PORT = {"refused": REFUSED, "queue_full": QUEUE_FULL}
_TAKEN = 0


@dataclass(frozen=True)
class Wiring:
    """Where one agent's frames go: its outgoing links in order.

    Attributes
    ----------
    receivers : sequence of int
        The neighbours' numbers.
    first : int
        Number of the first of its links; the others follow.
    keys : uint64 array, shape (links,)
        The links' keys.
    block : int
        Broadcasts whose outcomes are drawn at a time.
    seed : int
        The network's.
    radio : Link or None
        On a radio, the settings of the agent's one transmitter.
    air : Air or None
        On a radio where transmissions collide, who is heard where.
    """

    links: Sequence[Link]
    neighbors: Sequence[Hashable]
    inboxes: Sequence[Inbox]
    receivers: Sequence[int]
    first: int
    keys: Keys
    block: int
    seed: int
    radio: Link | None
    air: Air | None


@dataclass(frozen=True)
class Departure:
    """How a frame got through the port of one link, or of an agent's radio.

    Attributes
    ----------
    cause : int
        Why it did not; 0 if it did.
    start, end : float
        When sending starts and ends, in seconds.
    ends : sequence of float
        When each fragment has left.
    bits : int
        What is sent, headers included.
    """

    cause: int
    start: float
    ends: Sequence[float]
    bits: int

    @property
    def end(self) -> float:
        """When the last bit has left, in seconds."""
        return self.ends[-1] if self.ends else self.start


class Outbox:
    """Sends what one agent says.

    Parameters
    ----------
    number : int
        The agent's number, its address on the wire.
    name : Hashable
        The agent's name.
    agents : sequence
        All agents' names, by number.

    Attributes
    ----------
    places : dict
        The place of each neighbour among the links.
    watching : dict
        Inboxes that want to be told when something is on its way to them, by place.
    """

    __slots__ = (
        "_agents",
        "_at_once",
        "_down",
        "_header_bits",
        "_instant",
        "_kinds",
        "_name",
        "_number",
        "_paths",
        "_plain",
        "_ports",
        "_shared",
        "_spreader",
        "_transmissions",
        "_wiring",
        "places",
        "watching",
    )

    def __init__(self, shared: Shared, number: int, name: Hashable, wiring: Wiring, agents: Sequence[Hashable]) -> None:
        self._shared = shared
        self._number = number
        self._name = name
        self._wiring = wiring
        self._agents = agents
        self._kinds: dict[str, int] = {}
        self._transmissions = 0
        self._at_once, self._instant = 0, -1.0
        self._down: set[int] = set()
        self._paths: dict[int, Path] = {}
        self._ports = _ports(wiring, shared.rounds.period)
        headers = {link.header_bits for link in wiring.links} if wiring.radio is None else {wiring.radio.header_bits}
        self._header_bits = min(headers, default=0)
        self._spreader = Spreader(
            shared.encoder,
            number,
            name,
            Fan(wiring.links, wiring.keys, wiring.seed, wiring.block),
            [inbox.arrivals for inbox in wiring.inboxes],
            wiring.first,
            shared.tally,
            self._header_bits,
            wiring.radio is not None,
        )
        # Whether a broadcast needs no more than a row of the fan.
        self._plain = (
            not self._ports
            and wiring.air is None
            and len(headers) <= 1
            and all(link.is_simple for link in {id(link): link for link in wiring.links}.values())
            and bool(wiring.links)
        )
        self.places = {neighbor: place for place, neighbor in enumerate(wiring.neighbors)}
        self.watching: dict[int, Inbox] = {}
        for place, inbox in enumerate(wiring.inboxes):
            inbox.watchers += (self.watching, place)

    def broadcast(self, kind: str, payload: Any, round_number: int, raw_data: bool) -> int:
        """Send to every neighbour; return how many links took the frame."""
        shared = self._shared
        rounds = shared.rounds
        now = shared.loop.time()
        if now == self._instant or shared.over or type(kind) is not str:
            self._check(kind, now)
        else:
            self._instant, self._at_once = now, 1
        deadline = rounds.open_deadline if round_number == rounds.open_round else rounds.deadline(round_number)
        if now >= deadline and rounds.is_closing(round_number, now):
            round_number, deadline = 0, math.inf
        slot = self._kinds.get(kind)
        if slot is None:
            slot = self._kind(kind)
        if self._plain and not self._down:
            number = self._transmissions
            taken = self._spreader.broadcast(now, number, slot, kind, round_number, payload, raw_data, deadline)
            self._transmissions = number + 1
        else:
            taken = self._offer_all(now, slot, kind, round_number, payload, raw_data)
        if self.watching:
            for place in sorted(self.watching):
                self.watching[place].watch()
        return taken

    def send(
        self,
        to: Hashable,
        kind: str,
        payload: Any,
        round_number: int,
        raw_data: bool,
        request: int | None = None,
        is_reply: bool = False,
    ) -> bool:
        """Send to one neighbour; return whether the link took the frame."""
        wiring, shared, place = self._wiring, self._shared, self.places[to]
        now = shared.loop.time()
        self._check(kind, now)
        if round_number and shared.rounds.is_closing(round_number, now):
            round_number = 0
        slot = self._kinds.get(kind)
        if slot is None:
            slot = self._kind(kind)
        data = shared.encoder.encode(kind, self._number, round_number, payload, request, is_reply)
        frame = new_frame(kind, self._name, round_number, now, data, payload, request, is_reply)
        number = self._transmissions
        self._transmissions += 1
        sent = self._leave(now, place, len(data))
        if sent.cause:
            shared.tally.ended(now, self._key(place, number), slot, sent.cause)
        else:
            self._arrive(now, place, number, slot, frame, self._path(place).carry(sent.ends), sent)
            for other in range(len(wiring.links)) if wiring.air is not None else ():
                # On a radio the others hear it, too, though it is not for them.
                if other != place and other not in self._down:
                    self._hear(now, other, sent)
        each = 0 if wiring.radio is not None else sent.bits
        link = wiring.first + place
        taken = not sent.cause
        bits, raw, clipped = weighed(payload, raw_data) if taken else (0, 0, 0)
        me, wire = self._number, sent.bits
        record = Transmission(now, number, slot, me, link, int(taken), bits, raw, wire, clipped, each, crc32(data))
        shared.tally.sent(record, 1)
        if place in self.watching:
            self.watching[place].watch()
        return taken

    def set_link(self, to: Hashable, up: bool) -> None:
        """Cut the link to a neighbour, or mend it."""
        (self._down.discard if up else self._down.add)(self.places[to])

    # --- counting -----------------------------------------------------------------------------------------------------

    def _check(self, kind: str, now: float) -> None:
        """Raise AgentError if the run is over, or if the agent never waits."""
        if type(kind) is not str:
            raise check.refuse("kind", kind, "a text (str)")
        if self._shared.over:
            raise RunOver(f"agent {self._name!r} cannot send {kind!r}: the run is over, and what it sent is counted")
        if now != self._instant:
            self._instant, self._at_once = now, 0
        self._at_once += 1
        if self._at_once > SENDS_AT_ONCE:
            raise AgentError(
                f"agent {self._name!r} sent {SENDS_AT_ONCE:,} messages at one instant: it must wait for something "
                "in between"
            )

    def _kind(self, name: str) -> int:
        """Return the number of a kind of message."""
        number = self._kinds[name] = self._shared.tally.kind(name)
        return number

    def _key(self, place: int, number: int) -> int:
        return (self._wiring.first + place << self._shared.tally.shift) + number

    # --- stages of one frame on one link ------------------------------------------------------------------------------

    def _offer_all(self, now: float, slot: int, kind: str, round_number: int, payload: Any, raw_data: bool) -> int:
        """Offer a broadcast to each link; return how many took it."""
        wiring, tally = self._wiring, self._shared.tally
        if not wiring.links:
            return 0
        data = self._shared.encoder.encode(kind, self._number, round_number, payload)
        frame = new_frame(kind, self._name, round_number, now, data, payload)
        number = self._transmissions
        self._transmissions += 1
        delays = self._spreader.delays()
        on_radio = wiring.radio is not None
        taken = wire = 0
        # Where nobody can hear it, a radio does not send.
        once = self._leave(now, None, len(data)) if on_radio and len(self._down) < len(wiring.links) else None
        for place, link in enumerate(wiring.links):
            down = place in self._down
            sent = once if once is not None and not down else self._leave(now, place, len(data))
            if sent.cause:
                tally.ended(now, self._key(place, number), slot, sent.cause)
                continue
            taken += 1
            if link.is_simple and len(sent.ends) == 1:
                copies = [(sent.ends[0] + delays[place], False)] if delays[place] >= 0.0 else []
            else:
                copies = self._path(place).carry(sent.ends)
            self._arrive(now, place, number, slot, frame, copies, sent)
            if on_radio:
                wire = sent.bits
            else:
                wire += sent.bits
                tally.link_bits(wiring.first + place, slot, sent.bits)
        bits, raw, clipped = weighed(payload, raw_data) if taken else (0, 0, 0)
        me = self._number
        record = Transmission(now, number, slot, me, TO_ALL, int(taken > 0), bits, raw, wire, clipped, 0, crc32(data))
        tally.sent(record, len(wiring.links))
        return taken

    def _leave(self, now: float, place: int | None, size: int) -> Departure:
        """Pass the port of a link; without a place, that of the agent's radio."""
        if place in self._down:
            return Departure(LINK_DOWN, now, (), 0)
        port = self._ports.get(place or 0)
        if port is None:
            on_wires = place is not None and self._wiring.radio is None
            header = self._wiring.links[place or 0].header_bits if on_wires else self._header_bits
            return Departure(_TAKEN, now, (now,), 8 * size + header)
        fragments = port.fragments(size)
        cause, start, ends = port.accept(now, fragments)
        if cause:
            return Departure(_CAUSE_OF_PORT[cause], now, (), 0)
        return Departure(_TAKEN, start, ends, sum(fragments))

    def _arrive(
        self, now: float, place: int, number: int, kind: int, frame: Frame, copies: Copies, sent: Departure
    ) -> None:
        """Put a frame's copies into the neighbour's inbox, or count why not."""
        wiring, tally = self._wiring, self._shared.tally
        key = self._key(place, number)
        collided, under_way = self._hear(now, place, sent)
        if not copies:
            tally.ended(now, key, kind, COLLIDED if collided else LOST)
        for copy, (time, corrupted) in enumerate(copies):
            if copy:
                # A number of its own: two copies may arrive at the same instant.
                key = self._key(place, self._transmissions)
                self._transmissions += 1
                tally.duplicate(wiring.first + place, kind)
            received = self._damaged(place, frame) if corrupted else frame
            if collided:
                tally.ended(now, key, kind, COLLIDED)
            elif received is None:
                tally.ended(time, key, kind, CORRUPTED)
            else:
                wiring.inboxes[place].arrivals.push(time, key, kind, received)
                under_way.append(key)

    def _hear(self, now: float, place: int, sent: Departure) -> tuple[bool, list[int]]:
        """Put a transmission on the air at one neighbour, if transmissions collide (see `Air.hear`)."""
        wiring = self._wiring
        if wiring.air is None:
            return False, []
        return wiring.air.hear(wiring.receivers[place], wiring.inboxes[place].collided, now, sent.start, sent.end)

    def _damaged(self, place: int, frame: Frame) -> Frame | None:
        """Return what a receiver makes of a frame with one bit flipped; None if it notices."""
        if self._wiring.links[place].crc:
            return None
        bit = math.floor(self._path(place).damage_place() * 8 * len(frame.data))
        data = bytearray(frame.data)
        data[bit // 8] ^= 1 << bit % 8
        try:
            received = decode_frame(bytes(data), frame.sent_at, self._agents)
        except WireError:
            return None
        # The link tells from whom a frame comes: another sender's name in it is noticed.
        return received if received.sender == self._name else None

    def _path(self, place: int) -> Path:
        path = self._paths.get(place)
        if path is None:
            wiring = self._wiring
            link = wiring.links[place]
            # On a simple link the fan has used this link's own streams.
            purpose = "one by one " if link.is_simple else ""
            path = self._paths[place] = Path(link, wiring.keys[place : place + 1], wiring.seed, purpose)
        return path


def _ports(wiring: Wiring, period: float) -> dict[int, Port]:
    """Return the ports by place, where frames may wait, be refused or be cut up; on a radio all share one."""
    if wiring.radio is not None:
        return dict.fromkeys(range(len(wiring.links)), Port(wiring.radio, period)) if wiring.radio.has_port else {}
    return {place: Port(link, period) for place, link in enumerate(wiring.links) if link.has_port}
