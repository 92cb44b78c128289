"""A transmission at a receiver: whether it is received, and if not, why.

A signal is spoiled by the others that overlap it in time at that receiver, and by the receiver's own sending. This is
the rule of reception; its compiled twin is in `_mac.pyx`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim._former import former_names
from netsim.core.records import ASLEEP, COLLIDED, HALF_DUPLEX, LINK_DOWN, LOST, RECEIVER_DOWN
from netsim.transport.transmitter import time_tolerance

if TYPE_CHECKING:
    from netsim.radio.energy import Reception
    from netsim.radio.mac import Mac

__all__ = ["Receiver", "Signal"]

__getattr__ = former_names(__name__)

# Of several causes the first in this list counts, in whatever order they came about; LOST: nothing comes, or no more.
_FIRST = (RECEIVER_DOWN, LINK_DOWN, LOST, HALF_DUPLEX, ASLEEP)


@dataclass(slots=True, eq=False)
class Signal:
    """One transmission at one receiver."""

    # The receiving node, and the sender's index of its link there; −1: it only interferes.
    mac: "Mac"
    link_index: int
    # When it reaches the receiver, in seconds.
    start: float
    end: float
    # In mW, or 1 for each where powers are not known.
    power: float
    # Whether the link loses it.
    lost: bool = False
    # Why it is not received; 0 if it is.
    cause: int = 0
    # The power of all that overlaps it, added up.
    noise: float = 0.0
    # What its receiver spends on it, where energy is metered.
    reception: "Reception | None" = None

    def spoil(self, cause: int) -> None:
        """Note a cause for which it is not received."""
        if not self.cause or _FIRST.index(cause) < _FIRST.index(self.cause):
            self.cause = cause

    def fate(self, captures_above: float) -> int:
        """Return the cause for which it is not received, 0 if it is; this ratio to the noise captures the receiver.

        Of several that overlap at most one is stronger than all the others.
        """
        if self.cause:
            return self.cause
        if self.noise and not (self.power >= captures_above * self.noise and self.power > self.noise):
            return COLLIDED
        return LOST if self.lost else 0


class Receiver:
    """One node's receiver: the signals that reach it, the carrier that it senses, and its own sending."""

    def __init__(self) -> None:
        self._signals: list[Signal] = []
        # The last start of a carrier, until when those that started before it last, and until when all do.
        self._carrier_start = self._earlier_until = self._carrier_until = -1.0
        self.sends_until = -1.0

    def hear(self, signal: Signal, now: float, width: float) -> None:
        """Let a signal come in, known once it is sent (s); times within ``width`` (s) are one instant."""
        if self.sends_until > signal.start + width:
            signal.spoil(HALF_DUPLEX)
        signals = self._signals
        if signals:
            self._signals = signals = [each for each in signals if each.end > now]
            for each in signals:
                if each.end > signal.start + width and each.start < signal.end - width:
                    each.noise += signal.power
                    signal.noise += each.power
        signals.append(signal)

    def send(self, now: float, end: float) -> None:
        """Send from now to ``end`` (s): what comes meanwhile is not received."""
        self.sends_until = end
        width = time_tolerance(now)
        for each in self._signals:
            if each.end > now + width and each.start < end - width:
                each.spoil(HALF_DUPLEX)

    def deafen(self, now: float) -> None:
        """Receive nothing of what is there now (s): the radio has gone off."""
        for each in self._signals:
            if each.end > now:
                each.spoil(RECEIVER_DOWN)

    def sense(self, now: float, end: float, width: float) -> None:
        """Sense a carrier from now to ``end`` (s); times within ``width`` (s) are one instant."""
        # What starts at one instant, but for rounding, is one start.
        if now > self._carrier_start + width:
            self._carrier_start, self._earlier_until = now, self._carrier_until
        if end > self._carrier_until:
            self._carrier_until = end

    def senses_until(self, end: float) -> None:
        """Sense carriers until ``end`` (s) only: another has ceased."""
        self._carrier_until = end
        self._earlier_until = min(self._earlier_until, end)

    def is_busy(self, since: float, now: float) -> bool:
        """Return whether it sensed a carrier, or sent, at any moment between two times (s), the second being now."""
        width = time_tolerance(now)
        # A carrier that starts as the assessment ends was not there yet, whichever of the two acted first.
        is_new = self._carrier_start >= now - width
        until = self._earlier_until if is_new else self._carrier_until
        return max(until, self.sends_until) > since + width
