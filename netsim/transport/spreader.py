"""Carrying a broadcast over all of an agent's links at once: the usual case, and the fastest.

agent → outbox → link → inbox → agent: you are on the links, which here do no more than lose and delay.
"""

from collections.abc import Sequence

from netsim.count.records import LOST
from netsim.count.tally import Tally
from netsim.transport.arrivals import Arrivals
from netsim.transport.fan import Fan
from netsim.transport.frame import Frame

__all__ = ["Spreader"]


class Spreader:
    """Puts an agent's broadcasts among its neighbours' arrivals.

    Parameters
    ----------
    fan : Fan
        Draws what becomes of them.
    receivers : sequence of Arrivals
        The neighbours', in the order of the links.
    first : int
        Number of the first link; the others follow.
    tally : Tally
        Counts what is lost.
    """

    __slots__ = ("_fan", "_first", "_incoming", "_receivers", "_step", "_tally")

    def __init__(self, fan: Fan, receivers: Sequence[Arrivals], first: int, tally: Tally) -> None:
        self._fan = fan
        self._receivers = receivers
        self._incoming = [receiver.incoming for receiver in receivers]
        self._first = first << tally.shift
        self._step = 1 << tally.shift
        self._tally = tally

    def spread(self, now: float, number: int, kind: int, frame: Frame, deadline: float) -> None:
        """Carry a broadcast over every link.

        ``number`` and ``kind`` are as in `netsim.count.records.Transmission`; what arrives at ``deadline`` (s) or after
        may be too late.
        """
        delays = self._fan.next()
        key = self._first + number
        step = self._step
        for incoming, delay in zip(self._incoming, delays, strict=True):
            if delay < 0.0:
                self._tally.ended(now, key, kind, LOST)
            else:
                incoming.append((now + delay, key, kind, frame))
            key += step
        if not frame.plain or now + self._fan.longest >= deadline:
            for receiver in self._receivers:
                receiver.careful = True
