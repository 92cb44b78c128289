"""The broadcast path, the common case: encodes a message once and puts it into all neighbours' arrival queues.

In agent → outbox → link → inbox → agent this covers the outbox and the links, which here only lose and delay frames.
"""

from collections.abc import Hashable, Sequence
from typing import Any
from zlib import crc32

from netsim.core.arrival_queue import ArrivalQueue
from netsim.core.frame import Frame, FrameEncoder
from netsim.core.link_draws import LinkDraws
from netsim.core.records import LOST, TO_ALL, Transmission
from netsim.core.tally import Tally
from netsim.wire.codec import is_mutable, payload_bits, saturated

__all__ = ["BroadcastPath", "weighed"]


def weighed(payload: Any, raw_data: bool) -> tuple[int, int, int]:
    """Return the payload's bits, its raw-data bits and its number of clipped elements."""
    bits = payload_bits(payload)
    return bits, bits if raw_data else 0, saturated(payload)


class BroadcastPath:
    """Encodes an agent's broadcasts and puts them into its neighbours' arrival queues.

    Parameters
    ----------
    encoder : FrameEncoder
        Encodes the frames.
    number : int
        The agent's number.
    name : Hashable
        The agent's name.
    draws : LinkDraws
        Draws delays and losses.
    receivers : sequence of ArrivalQueue
        The neighbours' queues, in the order of the links.
    first : int
        Index of the agent's first link; the indices of its other links follow consecutively.
    tally : Tally
        Counts the frames.
    header_bits : int
        Header bits added to each frame by a link, or by the radio.
    on_radio : bool
        Whether one transmission reaches all neighbours; its wire bits are then counted for no single link.
    """

    __slots__ = (
        "_draws",
        "_encoder",
        "_first",
        "_header_bits",
        "_incoming",
        "_name",
        "_number",
        "_on_radio",
        "_receivers",
        "_step",
        "_tally",
    )

    def __init__(
        self,
        encoder: FrameEncoder,
        number: int,
        name: Hashable,
        draws: LinkDraws,
        receivers: Sequence[ArrivalQueue],
        first: int,
        tally: Tally,
        header_bits: int,
        on_radio: bool,
    ) -> None:
        self._encoder = encoder
        self._number = number
        self._name = name
        self._draws = draws
        self._receivers = receivers
        self._incoming = [receiver.incoming for receiver in receivers]
        self._first = first << tally.shift
        self._step = 1 << tally.shift
        self._tally = tally
        self._header_bits = header_bits
        self._on_radio = on_radio

    def delays(self) -> list[float]:
        """Draw the next broadcast's delay on each link, in seconds; negative where the frame is lost."""
        return self._draws.next()

    def broadcast(
        self,
        now: float,
        number: int,
        kind_id: int,
        kind: str,
        round_number: int,
        payload: Any,
        raw_data: bool,
        deadline: float,
    ) -> int:
        """Encode a message, send it over every link and return the number of links.

        ``number`` and ``kind_id`` are the fields ``number`` and ``kind`` of the `Transmission`; a frame that arrives at
        or after ``deadline`` (s) may be late.
        """
        data = self._encoder.encode(kind, self._number, round_number, payload)
        frame = Frame(kind, self._name, round_number, now, data, not is_mutable(payload))
        each = 8 * len(data) + self._header_bits
        links = len(self._receivers)
        wire, each = (each, 0) if self._on_radio else (each * links, each)
        bits, raw, clipped = weighed(payload, raw_data)
        me = self._number
        record = Transmission(now, number, kind_id, me, TO_ALL, 1, bits, raw, wire, clipped, each, crc32(data))
        delays = self._draws.next()
        key = self._first + number
        step = self._step
        for incoming, delay in zip(self._incoming, delays, strict=True):
            if delay < 0.0:
                self._tally.ended(now, key, kind_id, LOST)
            else:
                incoming.append((now + delay, key, kind_id, frame))
            key += step
        if not frame.plain or now + self._draws.longest >= deadline:
            for receiver in self._receivers:
                receiver.careful = True
        self._tally.sent(record, links, round_number, False)
        return links
