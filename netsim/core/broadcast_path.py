"""The broadcast path, the common case: it encodes a message once and puts it into all neighbours' arrival queues.

On the path agent → outbox → link → inbox → agent, this class does the work of the outbox and of links that only lose
and delay frames.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any
from zlib import crc32

from netsim.core.arrival_queue import ArrivalQueue, Entry
from netsim.core.delivery import Delivery
from netsim.core.frame import Frame, FrameEncoder
from netsim.core.link_draws import LinkDraws
from netsim.core.records import ALL_CAUSES, LOST, TO_ALL, Transmission
from netsim.core.tally import Tally
from netsim.wire.codec import is_mutable, payload_bits, saturated

if TYPE_CHECKING:
    import asyncio

__all__ = ["BroadcastPath", "Take"]

Take = Callable[[float, int, int, Frame, int, "asyncio.Future[Delivery] | None", float, float | None], int]
"""`netsim.radio.mac.Mac.take`: passes a frame to a MAC layer; returns 0, or the number of the cause of a rejection."""


@dataclass(slots=True, eq=False, repr=False)
class BroadcastPath:
    """Encodes an agent's broadcasts, puts them into its neighbours' arrival queues, and counts what the agent sends.

    Parameters
    ----------
    encoder : FrameEncoder
        Encodes the frames.
    number : int
        The agent's index.
    name : Hashable
        The agent's name.
    draws : LinkDraws
        Draws the random delays and losses on the agent's links.
    receivers : sequence of ArrivalQueue
        The neighbours' queues, in the order of the links.
    first : int
        Index of the agent's first link; the indices of its other links follow consecutively.
    tally : Tally
        Counts the frames.
    header_bits : int
        Header bits added to each frame by a link, or by the radio.
    on_radio : bool
        Whether one transmission reaches all neighbours; its wire bits are then not counted per link.
    take : callable, optional
        On a `netsim.Radio`: ``Mac.take`` of the agent's node. Frames then go to this MAC layer, not into ``receivers``.

    Attributes
    ----------
    sent : int
        The number of transmissions that the agent has begun, which is also the index of the next transmission.
    """

    encoder: FrameEncoder
    number: int
    name: Hashable
    draws: LinkDraws
    receivers: Sequence[ArrivalQueue]
    first: InitVar[int]
    tally: Tally
    header_bits: int
    on_radio: bool
    take: Take | None = None
    sent: int = 0
    _incoming: list[list[Entry]] = field(init=False)
    _first: int = field(init=False)
    _step: int = field(init=False)

    def __post_init__(self, first: int) -> None:
        self._incoming = [receiver.incoming for receiver in self.receivers]
        self._first, self._step = first << self.tally.shift, 1 << self.tally.shift

    def links_changed(self) -> None:
        """Apply changed settings of the links to the losses and delays of all following broadcasts."""
        self.draws.change(self.draws.count)

    def delays(self) -> list[float]:
        """Draw the next broadcast's delay on each link, in seconds; negative where the frame is lost."""
        return self.draws.next()

    def frame(
        self,
        now: float,
        kind: str,
        round_number: int,
        payload: Any,
        request: int | None = None,
        is_reply: bool = False,
        sequence: int = 0,
    ) -> Frame:
        """Encode a message of the agent and return its frame."""
        data = self.encoder.encode(kind, self.number, round_number, payload, request, is_reply, sequence)
        plain = request is None and not sequence and not is_mutable(payload)
        return Frame(kind, self.name, round_number, now, data, plain, request, is_reply, sequence)

    def broadcast(
        self, now: float, kind_id: int, kind: str, round_number: int, payload: Any, raw_data: bool, deadline: float
    ) -> int:
        """Encode a message, send it over every link and return the number of links that accepted it.

        ``kind_id`` is the tally's number for ``kind``. A frame that arrives at or after ``deadline`` (s) may count as
        late, so the receiving inbox checks it.
        """
        frame = self.frame(now, kind, round_number, payload)
        if self.take is not None:
            return self.offer_to_mac(kind_id, frame, payload, raw_data, TO_ALL, deadline, None)
        links, number = len(self.receivers), self.sent
        delays = self.draws.next()
        key = self._first + number
        step = self._step
        for incoming, delay in zip(self._incoming, delays, strict=True):
            if delay < 0.0:
                self.tally.ended(now, key, kind_id, LOST)
            else:
                incoming.append((now + delay, key, kind_id, frame))
            key += step
        if not frame.plain or now + self.draws.longest >= deadline:
            for receiver in self.receivers:
                receiver.careful = True
        each = 8 * len(frame.data) + self.header_bits
        wire, each = (each, 0) if self.on_radio else (each * links, each)
        self.count(number, kind_id, frame, payload, raw_data, TO_ALL, links, wire, each)
        self.sent = number + 1
        return links

    def offer_to_mac(
        self,
        kind_id: int,
        frame: Frame,
        payload: Any,
        raw_data: bool,
        link_index: int,
        deadline: float,
        outcome: "asyncio.Future[Delivery] | None",
        event: float | None = None,
    ) -> int:
        """Pass a frame for one link, or for all (`TO_ALL`), to the MAC layer and count it.

        Returns how many links accepted it. ``outcome`` receives the `Delivery` once it is known. ``event`` is a moment
        (s) by the sender's own clock, whose age travels with the frame.
        """
        assert self.take is not None
        number, now = self.sent, frame.sent_at
        self.sent += 1
        links = range(len(self.receivers)) if link_index == TO_ALL else (link_index,)
        cause = self.take(now, number, kind_id, frame, link_index, outcome, deadline, event)
        if cause:
            for index in links:
                self.tally.ended(now, self._first + index * self._step + number, kind_id, cause)
            if outcome is not None:
                outcome.set_result(Delivery(False, 0, 0, ALL_CAUSES[cause]))
        taken = 0 if cause else len(links)
        link = TO_ALL if link_index == TO_ALL else (self._first >> self.tally.shift) + link_index
        # Count no wire bits here: the medium counts them when it transmits the frame. A broadcast counts as accepted
        # even if the agent has no neighbours or its links are cut, because the broadcast is on the air.
        self.count(number, kind_id, frame, payload, raw_data, link, int(not cause), 0, 0)
        return taken

    def count(
        self,
        number: int,
        kind_id: int,
        frame: Frame,
        payload: Any,
        raw_data: bool,
        link: int,
        taken: int,
        wire: int,
        each: int,
    ) -> None:
        """Count a transmission, which was accepted if ``taken`` is not 0.

        ``wire`` is the number of wire bits of the whole transmission. ``each`` is the number of wire bits that are
        counted here for every single link; see `Transmission.each`.
        """
        bits, clipped = (payload_bits(payload), saturated(payload)) if taken else (0, 0)
        raw, accepted, checksum = bits if raw_data else 0, int(taken > 0), crc32(frame.data)
        me, now, links = self.number, frame.sent_at, len(self.receivers) if link == TO_ALL else 1
        record = Transmission(now, number, kind_id, me, link, accepted, bits, raw, wire, clipped, each, checksum)
        self.tally.sent(record, links, frame.round, frame.is_reply)
