"""A transmission at a receiver: whether it is received, and if not, why.

A signal is spoiled by the others that overlap it in time at that receiver, and by the receiver's own sending. This is
the rule of reception without a `Phy` (with one it is in `netsim.radio.sinr`); its compiled twin is in `_mac.pyx`.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.core.records import ASLEEP, COLLIDED, HALF_DUPLEX, LINK_DOWN, LOST, RECEIVER_DOWN
from netsim.transport.transmitter import time_tolerance

if TYPE_CHECKING:
    from netsim.radio.energy import Reception
    from netsim.radio.mac import Mac

__all__ = ["Receiver", "Signal"]

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
    # The power of all that overlaps it, added up; with a `Phy` its mean over the signal's time, once that has ended.
    noise: float = 0.0
    # What its receiver spends on it, where energy is metered.
    reception: "Reception | None" = None
    # The channel that it is on.
    channel: int = 0
    # With a `Phy`: its bits, and the uniform number that decides whether they are received.
    bits: int = 0
    draw: float = 0.0
    # With a `Phy`: the noise floor (mW) as it began, whether its beginning was looked at, and why it was not locked on.
    floor: float = 0.0
    seen: bool = False
    missed: int = 0
    # With `Phy.concurrent_s`: what it carries, None for an acknowledgement; and the mean power of what joined it.
    content: tuple[bytes, int] | None = None
    joined: float = 0.0

    def spoil(self, cause: int) -> None:
        """Note a cause for which it is not received."""
        if not self.cause or _FIRST.index(cause) < _FIRST.index(self.cause):
            self.cause = cause


class Receiver:
    """One node's receiver: the signals that reach it, the carrier that it senses, and its own sending.

    A frame is received in spite of others if its power is at least this many times theirs (``captures_above``).
    """

    def __init__(self, captures_above: float = math.inf) -> None:
        self._captures_above = captures_above
        self._signals: list[Signal] = []
        self.channel = 0
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
                overlap = each.end > signal.start + width and each.start < signal.end - width
                if overlap and each.channel == signal.channel:
                    each.noise += signal.power
                    signal.noise += each.power
        signals.append(signal)

    def fate(self, signal: Signal, now: float) -> int:
        """Return the cause for which a signal that ends now (s) is not received, 0 if it is.

        Of several that overlap at most one is stronger than all the others.
        """
        if signal.cause:
            return signal.cause
        power, noise = signal.power, signal.noise
        if noise and not (power >= self._captures_above * noise and power > noise):
            return COLLIDED
        return LOST if signal.lost else 0

    def hears(self, now: float) -> bool:
        """Return whether a signal of a neighbour comes in now (s) that may be received."""
        return any(each.start <= now < each.end and each.link_index >= 0 and not each.cause for each in self._signals)

    def turn(self, now: float, until: float) -> None:
        """Turn from receiving to sending or back, from now until a time (s): without a `Phy` nothing is missed."""

    def send(self, now: float, end: float) -> None:
        """Send from now to ``end`` (s): what comes meanwhile is not received."""
        self.sends_until = end
        width = time_tolerance(now)
        for each in self._signals:
            if each.end > now + width and each.start < end - width:
                each.spoil(HALF_DUPLEX)

    def stop(self, now: float) -> None:
        """Send no more from now (s) on."""
        self.sends_until = now

    def deafen(self, now: float, cause: int = RECEIVER_DOWN) -> list[Signal]:
        """Receive nothing of what is there now (s), and return that: the radio has gone off."""
        missed = [each for each in self._signals if each.end > now]
        for each in missed:
            each.spoil(cause)
        return missed

    def tune(self, channel: int, now: float) -> list[Signal]:
        """Receive on another channel from now (s) on; return what is received no more."""
        missed = self.deafen(now, ASLEEP)
        self.channel = channel
        self.senses_until(now)
        return missed

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
        return max(self.carrier_until(now, width), self.sends_until) > since + width

    def carrier_until(self, now: float, width: float) -> float:
        """Return until when (s) it senses a carrier that was there before now."""
        # A carrier that starts as the assessment ends was not there yet, whichever of the two acted first.
        return self._earlier_until if self._carrier_start >= now - width else self._carrier_until
