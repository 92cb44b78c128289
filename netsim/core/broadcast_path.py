"""The broadcast path, the common case: encodes a message once and puts it into all neighbours' arrival queues.

In agent → outbox → link → inbox → agent this covers the outbox and the links, which here only lose and delay frames.
"""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

from netsim.core.arrival_queue import ArrivalQueue
from netsim.core.frame import Frame, FrameEncoder
from netsim.core.link_draws import LinkDraws
from netsim.core.records import LOST, TO_ALL, Transmission
from netsim.core.tally import Tally
from netsim.wire.codec import is_mutable, payload_bits, saturated

if TYPE_CHECKING:
    from netsim.radio.mac import Mac

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
    mac : Mac, optional
        On a `netsim.Radio`, the MAC layer of the agent's node, which carries the frames and counts their bits.
    """

    __slots__ = (
        "_draws",
        "_encoder",
        "_first",
        "_header_bits",
        "_incoming",
        "_mac",
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
        mac: "Mac | None" = None,
    ) -> None:
        self._mac = mac
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
        """Encode a message, send it over every link and return the number of links that accepted it.

        ``number`` and ``kind_id`` are the fields ``number`` and ``kind`` of the `Transmission`; a frame that arrives at
        or after ``deadline`` (s) may be late.
        """
        data = self._encoder.encode(kind, self._number, round_number, payload)
        frame = Frame(kind, self._name, round_number, now, data, not is_mutable(payload))
        links = len(self._receivers)
        if self._mac is not None:
            taken, wire, each = self._queue_at_mac(self._mac, now, number, kind_id, frame, deadline), 0, 0
        else:
            each = 8 * len(data) + self._header_bits
            taken, wire, each = links, *((each, 0) if self._on_radio else (each * links, each))
            self._spread(now, number, kind_id, frame, deadline)
        bits, raw, clipped = weighed(payload, raw_data) if taken else (0, 0, 0)
        check_sum, me = crc32(data), self._number
        record = Transmission(
            now, number, kind_id, me, TO_ALL, int(taken > 0), bits, raw, wire, clipped, each, check_sum
        )
        self._tally.sent(record, links, round_number, False)
        return taken

    def _spread(self, now: float, number: int, kind_id: int, frame: Frame, deadline: float) -> None:
        """Carry a frame over every link."""
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

    def _queue_at_mac(self, mac: "Mac", now: float, number: int, kind_id: int, frame: Frame, deadline: float) -> int:
        """Pass a frame to the MAC layer; return the number of accepting links."""
        cause = mac.take(now, number, kind_id, frame, -1, None, deadline)
        if not cause:
            return len(self._receivers)
        for link in range(len(self._receivers)):
            self._tally.ended(now, self._first + link * self._step + number, kind_id, cause)
        return 0
