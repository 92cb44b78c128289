"""Carrying a broadcast over all of an agent's links at once: the usual case, and the fastest.

agent → outbox → link → inbox → agent: you are in the outbox and on the links, which here only lose and delay.
"""

from collections.abc import Hashable, Sequence
from typing import Any
from zlib import crc32

from netsim.core.arrivals import Arrivals
from netsim.core.fan import Fan
from netsim.core.frame import Frame, FrameEncoder
from netsim.core.records import LOST, TO_ALL, Transmission
from netsim.core.tally import Tally
from netsim.wire.codec import is_mutable, payload_bits, saturated

__all__ = ["Spreader", "weighed"]


def weighed(payload: Any, raw_data: bool) -> tuple[int, int, int]:
    """Return a payload's bits, how many of them are raw data, and how many elements were clipped."""
    bits = payload_bits(payload)
    return bits, bits if raw_data else 0, saturated(payload)


class Spreader:
    """Encodes an agent's broadcasts and puts them among its neighbours' arrivals.

    Parameters
    ----------
    encoder : FrameEncoder
        Writes the frames.
    number : int
        The agent's number.
    name : Hashable
        The agent's name.
    fan : Fan
        Draws what becomes of the broadcasts.
    receivers : sequence of Arrivals
        The neighbours', in the order of the links.
    first : int
        Number of the first link; the others follow.
    tally : Tally
        Counts.
    header_bits : int
        What each link, or the radio, adds to a frame.
    on_radio : bool
        Whether all hear one transmission, whose bits belong to no link.
    """

    __slots__ = (
        "_encoder",
        "_fan",
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
        fan: Fan,
        receivers: Sequence[Arrivals],
        first: int,
        tally: Tally,
        header_bits: int,
        on_radio: bool,
    ) -> None:
        self._encoder = encoder
        self._number = number
        self._name = name
        self._fan = fan
        self._receivers = receivers
        self._incoming = [receiver.incoming for receiver in receivers]
        self._first = first << tally.shift
        self._step = 1 << tally.shift
        self._tally = tally
        self._header_bits = header_bits
        self._on_radio = on_radio

    def delays(self) -> list[float]:
        """Return the next broadcast's delay on each link, in seconds; negative where it is lost."""
        return self._fan.next()

    def broadcast(
        self,
        now: float,
        number: int,
        slot: int,
        kind: str,
        round_number: int,
        payload: Any,
        raw_data: bool,
        deadline: float,
    ) -> int:
        """Encode a message and carry it over every link; return how many there are.

        ``number`` and ``slot``, the number of the kind, are as in `Transmission`; what arrives at ``deadline`` (s) or
        after may be too late.
        """
        data = self._encoder.encode(kind, self._number, round_number, payload)
        frame = Frame(kind, self._name, round_number, now, data, not is_mutable(payload))
        each = 8 * len(data) + self._header_bits
        links = len(self._receivers)
        wire, each = (each, 0) if self._on_radio else (each * links, each)
        bits, raw, clipped = weighed(payload, raw_data)
        me = self._number
        record = Transmission(now, number, slot, me, TO_ALL, 1, bits, raw, wire, clipped, each, crc32(data))
        delays = self._fan.next()
        key = self._first + number
        step = self._step
        for incoming, delay in zip(self._incoming, delays, strict=True):
            if delay < 0.0:
                self._tally.ended(now, key, slot, LOST)
            else:
                incoming.append((now + delay, key, slot, frame))
            key += step
        if not frame.plain or now + self._fan.longest >= deadline:
            for receiver in self._receivers:
                receiver.careful = True
        self._tally.sent(record, links, round_number, False)
        return links
