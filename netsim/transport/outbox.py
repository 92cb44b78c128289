"""An agent's outbox: it encodes a message once and hands it to the links (docs/links.md walks through the stages)."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from netsim.count.ledger import COLLIDED, CORRUPTED, LINK_DOWN, LOST, QUEUE_FULL, REFUSED, STEP
from netsim.draws import Keys
from netsim.errors import RunOver, WireError
from netsim.link import Link
from netsim.quantize import Quantized
from netsim.transport.air import Air
from netsim.transport.frame import Frame, decode_frame, new_frame
from netsim.transport.inbox import Inbox
from netsim.transport.path import Arrivals, Fan, Path
from netsim.transport.port import Port
from netsim.transport.shared import Shared
from netsim.transport.wire import payload_bits

_CAUSE_OF_PORT = {"refused": REFUSED, "queue_full": QUEUE_FULL}


@dataclass(frozen=True)
class Wiring:
    """Where one agent's frames go: its outgoing links in order.

    Attributes
    ----------
    first : int
        Number of the first of its links; the others follow.
    keys : uint64 array, shape (links,)
        The links' keys.
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
    radio: Link | None
    air: Air | None


class Outbox:
    """Sends what one agent says.

    Parameters
    ----------
    number : int
        The agent's number, its address on the wire.
    name : Hashable
        The agent's name.
    block : int
        Broadcasts whose outcomes are drawn at a time.
    """

    __slots__ = (
        "_down",
        "_fan",
        "_header_bits",
        "_incoming",
        "_name",
        "_number",
        "_paths",
        "_plain",
        "_ports",
        "_seed",
        "_shared",
        "_slots",
        "_wiring",
        "places",
    )

    def __init__(self, shared: Shared, number: int, name: Hashable, wiring: Wiring, seed: int, block: int) -> None:
        self._shared = shared
        self._number = number
        self._name = name
        self._wiring = wiring
        self._seed = seed
        self._incoming = [inbox.incoming for inbox in wiring.inboxes]
        self._fan = Fan(wiring.links, wiring.keys, seed, block)
        self._slots: dict[str, int] = {}
        self._down: set[int] = set()
        self._paths: dict[int, Path] = {}
        period = shared.rounds.period
        self._ports: dict[int, Port] = {}
        if wiring.radio is not None:
            self._ports = (
                dict.fromkeys(range(len(wiring.links)), Port(wiring.radio, period)) if wiring.radio.has_port else {}
            )
        else:
            self._ports = {place: Port(link, period) for place, link in enumerate(wiring.links) if link.has_port}
        distinct = {id(link): link for link in wiring.links}.values()
        headers = {link.header_bits for link in distinct} if wiring.radio is None else {wiring.radio.header_bits}
        self._header_bits = min(headers, default=0)
        # Whether a broadcast needs no more than a row of the fan.
        self._plain = (
            not self._ports and wiring.air is None and len(headers) <= 1 and all(link.is_simple for link in distinct)
        )
        self.places = {neighbor: place for place, neighbor in enumerate(wiring.neighbors)}

    def broadcast(self, kind: str, payload: Any, round_number: int, raw_data: bool) -> int:
        """Send to every neighbour; return how many links took the frame."""
        wiring, shared = self._wiring, self._shared
        degree = len(self._incoming)
        if shared.over:
            raise self._too_late(kind)
        if not degree:
            return 0
        ledger = shared.ledger
        now = shared.loop.time()
        data = shared.encoder.encode(kind, self._number, round_number, payload)
        frame = new_frame(kind, self._name, round_number, now, data, payload)
        key = self._new_key(kind, 0, degree)
        if self._plain and not self._down:
            self._push_all(now, frame, key)
            taken = degree
            each = 8 * len(data) + self._header_bits
            wire = each * degree
            if wiring.radio is not None:
                each, wire = 0, each
        else:
            taken, wire = self._offer_all(now, frame, key)
            each = 0
        bits = payload_bits(payload)
        ledger.sent(
            now,
            key,
            self._number,
            degree,
            taken,
            bits,
            bits if raw_data else 0,
            wire,
            each,
            _saturated(payload),
            crc32(data),
        )
        if shared.watched:
            for inbox in wiring.inboxes:
                inbox.watch()
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
        if shared.over:
            raise self._too_late(kind)
        now = shared.loop.time()
        data = shared.encoder.encode(kind, self._number, round_number, payload, request, is_reply)
        frame = new_frame(kind, self._name, round_number, now, data, payload, request, is_reply)
        key = self._new_key(kind, place, 1)
        cause, start, ends, wire = self._leave(now, place, len(data))
        if cause:
            shared.ledger.dropped(now, key, cause)
        else:
            self._arrive(now, place, key, frame, self._path(place).carry(ends), start, ends[-1])
            for other in range(len(wiring.links)) if wiring.air is not None else ():
                # On a radio the others hear it, too, though it is not for them.
                if other != place and other not in self._down:
                    self._hear(now, other, start, ends[-1])
        bits = payload_bits(payload)
        shared.ledger.sent(
            now,
            key,
            self._number,
            0,
            not cause,
            bits,
            bits if raw_data else 0,
            wire,
            0 if wiring.radio is not None else wire,
            _saturated(payload),
            crc32(data),
        )
        if shared.watched:
            wiring.inboxes[place].watch()
        return not cause

    def set_link(self, to: Hashable, up: bool) -> None:
        """Cut the link to a neighbour, or mend it."""
        (self._down.discard if up else self._down.add)(self.places[to])

    def _too_late(self, kind: str) -> RunOver:
        return RunOver(f"agent {self._name!r} cannot send {kind!r}: the run is over, and what it sent is counted")

    def _new_key(self, kind: str, place: int, count: int) -> int:
        """Number ``count`` link messages; return the key of the first, the one on link ``place``."""
        shared = self._shared
        slot = self._slots.get(kind)
        if slot is None:
            ledger = shared.ledger
            slot = self._slots[kind] = ledger.kind(kind) * len(ledger.senders) + self._wiring.first
        number = shared.sequence
        shared.sequence = number + count
        return (number << 32) + slot + place

    def _push_all(self, now: float, frame: Frame, key: int) -> None:
        """Put a broadcast into the inbox of every neighbour whose link keeps it: the usual case, and the fastest."""
        shared, fan = self._shared, self._fan
        delays = fan.next()
        if not frame.plain or (frame.round and now + fan.longest >= shared.rounds.close_time(frame.round)):
            shared.careful = True
        for incoming, delay in zip(self._incoming, delays, strict=True):
            if delay < 0.0:
                shared.ledger.dropped(now, key, LOST)
            else:
                incoming.append((now + delay, key, frame))
            key += STEP

    # --- stages of one frame on one link ------------------------------------------------------------------------------

    def _offer_all(self, now: float, frame: Frame, key: int) -> tuple[int, int]:
        """Offer a broadcast to each link; return how many took it and the bits that crossed."""
        wiring, ledger = self._wiring, self._shared.ledger
        delays = self._fan.next()
        on_radio = wiring.radio is not None
        size = len(frame.data)
        taken = wire = 0
        left = self._leave(now, -1, size) if on_radio else None
        for place, link in enumerate(wiring.links):
            cause, start, ends, bits = left or self._leave(now, place, size)
            if place in self._down:
                cause = LINK_DOWN
            if cause:
                ledger.dropped(now, key + place * STEP, cause)
                continue
            taken += 1
            if link.is_simple and len(ends) == 1:
                arrivals = [(ends[0] + delays[place], False)] if delays[place] >= 0.0 else []
            else:
                arrivals = self._path(place).carry(ends)
            self._arrive(now, place, key + place * STEP, frame, arrivals, start, ends[-1])
            if on_radio:
                wire = bits
            else:
                wire += bits
                ledger.link_bits(key + place * STEP, bits)
        return taken, wire

    def _leave(self, now: float, place: int, size: int) -> tuple[int, float, list[float], int]:
        """Pass a link's port: return why not (0: taken), when sending starts, each fragment's end, and the bits."""
        if place in self._down:
            return LINK_DOWN, now, [], 0
        port = self._ports.get(max(place, 0))
        if port is None:
            header = (
                self._header_bits
                if place < 0 or self._wiring.radio is not None
                else self._wiring.links[place].header_bits
            )
            return 0, now, [now], 8 * size + header
        fragments = port.fragments(size)
        cause, start, ends = port.accept(now, fragments)
        return (_CAUSE_OF_PORT[cause], now, [], 0) if cause else (0, start, ends, sum(fragments))

    def _arrive(
        self, now: float, place: int, key: int, frame: Frame, arrivals: Arrivals, start: float, end: float
    ) -> None:
        """Put a frame's copies into the neighbour's inbox, or count why not."""
        wiring, shared = self._wiring, self._shared
        ledger = shared.ledger
        inbox = wiring.inboxes[place]
        shared.careful = True
        collided, under_way = self._hear(now, place, start, end)
        if not arrivals:
            ledger.dropped(now, key, COLLIDED if collided else LOST)
        for copy, (time, corrupted) in enumerate(arrivals):
            if copy:
                # A number of its own: two copies may arrive at the same instant.
                key = self._new_key(frame.kind, place, 1)
                ledger.duplicate(key)
            received = self._damaged(place, frame) if corrupted else frame
            if collided:
                ledger.dropped(now, key, COLLIDED)
            elif received is None:
                ledger.dropped(time, key, CORRUPTED)
            else:
                inbox.incoming.append((time, key, received))
                under_way.append(key)

    def _hear(self, now: float, place: int, start: float, end: float) -> tuple[bool, list[int]]:
        """Put a transmission on the air at one neighbour, if transmissions collide (see `Air.hear`)."""
        wiring = self._wiring
        if wiring.air is None:
            return False, []
        return wiring.air.hear(wiring.receivers[place], wiring.inboxes[place], now, start, end)

    def _damaged(self, place: int, frame: Frame) -> Frame | None:
        """Return what a receiver makes of a frame with one bit flipped; None if it notices."""
        if self._wiring.links[place].crc:
            return None
        bit = math.floor(self._path(place).damage_place() * 8 * len(frame.data))
        data = bytearray(frame.data)
        data[bit // 8] ^= 1 << bit % 8
        try:
            received = decode_frame(bytes(data), frame.sent_at, self._shared.ledger.agents)
        except WireError:
            return None
        # The link tells from whom a frame comes: another sender's name in it is noticed.
        return received if received.sender == self._name else None

    def _path(self, place: int) -> Path:
        path = self._paths.get(place)
        if path is None:
            link = self._wiring.links[place]
            # On a simple link the fan has used this link's own streams.
            purpose = "one by one " if link.is_simple else ""
            path = self._paths[place] = Path(link, self._wiring.keys[place : place + 1], self._seed, purpose)
        return path


def _saturated(payload: Any) -> int:
    return payload.saturated if isinstance(payload, Quantized) else 0
