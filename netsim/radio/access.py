"""When a radio may speak: at once, at the next slot, or once the channel is clear.

Each kind is asked to `contend` for one fragment, and calls the station back: `start` to send, `no_access` to give up.
"""

import math
from collections.abc import Callable
from typing import Protocol

from netsim.radio.settings import Radio
from netsim.transport.transmitter import early
from netsim.util.draws import Stream

__all__ = ["Access", "Contender", "access_of"]


class Contender(Protocol):
    """Whose frame seeks access. Times are in seconds."""

    def at(self, time: float, call: Callable[[float], None]) -> None:
        """Call back at a time, with that time."""
        ...

    def awake_from(self, time: float) -> float:
        """Return the first time from this one on at which the radio is on."""
        ...

    def is_busy(self, since: float, now: float) -> bool:
        """Return whether a carrier was sensed at any moment between two times, of which the second is now."""
        ...

    def start(self, now: float) -> None:
        """Send."""
        ...

    def no_access(self, now: float) -> None:
        """Give the frame up: the channel was never clear."""
        ...


class Access(Protocol):
    """A way to share the channel."""

    def contend(self, at: float, retries: int) -> None:
        """Seek access for a fragment from a time (s) on; ``retries`` says how often it was sent before."""
        ...


class Aloha:
    """At once; what is sent again, after a random number of units of back-off."""

    def __init__(self, contender: Contender, radio: Radio, stream: Stream) -> None:
        self._contender, self._radio, self._stream = contender, radio, stream

    def contend(self, at: float, retries: int) -> None:
        """See `Access`."""
        self._contender.at(self._contender.awake_from(at + self._back_off(retries)), self._contender.start)

    def _back_off(self, retries: int) -> float:
        return _units(self._stream, self._radio, retries - 1) * self._radio.unit_backoff if retries else 0.0


class SlottedAloha(Aloha):
    """At the next slot; what is sent again, a random number of slots later."""

    def contend(self, at: float, retries: int) -> None:
        """See `Access`."""
        slot = self._radio.slot
        assert slot is not None
        at = self._contender.awake_from(at)
        later = _units(self._stream, self._radio, retries - 1) if retries else 0
        # A time that is a slot's but for rounding errors is that slot's.
        first = math.ceil((at - early(at)) / slot)
        self._contender.at(max(at, (first + later) * slot), self._contender.start)


class Csma:
    """Unslotted CSMA-CA: wait at random, assess the channel, and send if it was clear; else wait longer."""

    def __init__(self, contender: Contender, radio: Radio, stream: Stream) -> None:
        self._contender, self._radio, self._stream = contender, radio, stream
        self._busy = 0

    def contend(self, at: float, retries: int) -> None:
        """See `Access`. Each time that a frame is sent again begins anew."""
        self._busy = 0
        self._back_off(at)

    def _back_off(self, at: float) -> None:
        radio, contender = self._radio, self._contender
        wait = _units(self._stream, radio, self._busy) * radio.unit_backoff
        # All who wake together with something to say would else assess the channel at one instant.
        begin = contender.awake_from(at) + wait
        awake = contender.awake_from(begin)
        begin = begin if awake == begin else awake + wait
        contender.at(begin + radio.cca, self._assessed)

    def _assessed(self, now: float) -> None:
        radio, contender = self._radio, self._contender
        if contender.is_busy(now - radio.cca, now):
            self._busy += 1
            if self._busy > radio.max_csma_backoffs:
                contender.no_access(now)
            else:
                self._back_off(now)
        else:
            contender.at(now + radio.turnaround, contender.start)


def _units(stream: Stream, radio: Radio, before: int) -> int:
    """Return a back-off in units, after so many failures."""
    return math.floor(stream.uniform() * (1 << min(radio.min_be + before, radio.max_be)))


def access_of(radio: Radio, contender: Contender, stream: Stream) -> Access:
    """Return what a radio's settings ask for."""
    kinds: dict[str, type[Aloha] | type[Csma]] = {"aloha": Aloha, "slotted_aloha": SlottedAloha, "csma": Csma}
    return kinds[radio.access](contender, radio, stream)
