"""A transmission at one receiver: whether it is received and, if not, the drop reason.

A signal is spoiled by signals that overlap it in time at that receiver, and by the receiver's own sending. This is
the rule of reception without a `Phy`; `netsim.radio.sinr` has the rule with one. Its compiled twin is in `_mac.pyx`.
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

# Of several causes the first in this list counts, whatever the order in which they occurred. LOST: the signal never
# arrives, or ends early.
_FIRST = (RECEIVER_DOWN, LINK_DOWN, LOST, HALF_DUPLEX, ASLEEP)


@dataclass(slots=True, eq=False)
class Signal:
    """One transmission at one receiver."""

    # The receiving node, and the sender's index of the link to it; −1: the signal only interferes.
    mac: "Mac"
    link_index: int
    # Arrival of its first bit at the receiver, in seconds.
    start: float
    end: float
    # Received power in mW; 1 for every signal if powers are not given.
    power: float
    # Whether the link's loss model drops it.
    lost: bool = False
    # Drop reason; 0 means received.
    cause: int = 0
    # Total power of overlapping signals; with a `Phy` the mean over this signal's duration, set when it ends.
    noise: float = 0.0
    # The energy that its receiver spends on it; None without an energy model.
    reception: "Reception | None" = None
    # The radio channel.
    channel: int = 0
    # With a `Phy`: its bits, and the uniform draw that decides its reception.
    bits: int = 0
    draw: float = 0.0
    # With a `Phy`: the noise floor (mW) at its start, whether its start was processed, why the receiver did not lock.
    floor: float = 0.0
    seen: bool = False
    missed: int = 0
    # With `Phy.concurrent_s`: the key of `Mac._content`, and the mean power of the copies added to this signal.
    content: tuple[bytes, int] | None = None
    joined: float = 0.0

    def spoil(self, cause: int) -> None:
        """Record a drop reason, unless a known reason takes precedence."""
        if not self.cause or _FIRST.index(cause) < _FIRST.index(self.cause):
            self.cause = cause


class Receiver:
    """One node's receiver: the signals that reach it, the carrier that it senses, and its own sending.

    A frame survives overlapping ones if its power is at least ``captures_above`` times the sum of theirs.
    """

    def __init__(self, captures_above: float = math.inf) -> None:
        self._captures_above = captures_above
        self._signals: list[Signal] = []
        self.channel = 0
        # The last start of a carrier; the end of the carriers that started before it; the end of all carriers.
        self._carrier_start = self._earlier_until = self._carrier_until = -1.0
        self.sends_until = -1.0

    def hear(self, signal: Signal, now: float, width: float) -> None:
        """Register a signal at its sending time ``now`` (s); times within ``width`` (s) are one instant."""
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
        """Return the cause for which a signal that ends at ``now`` (s) is not received; 0 if it is received.

        A captured signal is also stronger than all others together, so that at most one is captured, even at 0 dB.
        """
        if signal.cause:
            return signal.cause
        power, noise = signal.power, signal.noise
        if noise and not (power >= self._captures_above * noise and power > noise):
            return COLLIDED
        return LOST if signal.lost else 0

    def hears(self, now: float) -> bool:
        """Return whether a neighbour's signal that may still be received is arriving at ``now`` (s)."""
        return any(each.start <= now < each.end and each.link_index >= 0 and not each.cause for each in self._signals)

    def turn(self, now: float, until: float) -> None:
        """Switch between receiving and sending from ``now`` to ``until`` (s); without a `Phy`, this loses no signal."""

    def send(self, now: float, end: float) -> None:
        """Send from ``now`` to ``end`` (s): signals that arrive meanwhile are not received."""
        self.sends_until = end
        width = time_tolerance(now)
        for each in self._signals:
            if each.end > now + width and each.start < end - width:
                each.spoil(HALF_DUPLEX)

    def stop(self, now: float) -> None:
        """Stop sending at ``now`` (s)."""
        self.sends_until = now

    def deafen(self, now: float, cause: int = RECEIVER_DOWN) -> list[Signal]:
        """Drop the signals that are arriving at ``now`` (s), because the radio goes off, and return them."""
        missed = [each for each in self._signals if each.end > now]
        for each in missed:
            each.spoil(cause)
        return missed

    def tune(self, channel: int, now: float) -> list[Signal]:
        """Change the channel at ``now`` (s); return the signals whose reception this ends."""
        missed = self.deafen(now, ASLEEP)
        self.channel = channel
        self.senses_until(now)
        return missed

    def sense(self, now: float, end: float, width: float) -> None:
        """Sense a carrier from ``now`` to ``end`` (s); times within ``width`` (s) are one instant."""
        # Starts within the rounding error of an instant are one start.
        if now > self._carrier_start + width:
            self._carrier_start, self._earlier_until = now, self._carrier_until
        if end > self._carrier_until:
            self._carrier_until = end

    def senses_until(self, end: float) -> None:
        """Set the end (s) of the sensed carriers, after one was cut short or the channel was changed."""
        self._carrier_until = end
        self._earlier_until = min(self._earlier_until, end)

    def is_busy(self, since: float, now: float) -> bool:
        """Return whether the receiver sensed a carrier, or sent, at any moment from ``since`` to ``now`` (s)."""
        width = time_tolerance(now)
        return max(self.carrier_until(now, width), self.sends_until) > since + width

    def carrier_until(self, now: float, width: float) -> float:
        """Return the end (s) of the sensed carriers that started before ``now``."""
        # A carrier that starts at ``now``, the assessment's end, does not count, whichever of the two events ran first.
        return self._earlier_until if self._carrier_start >= now - width else self._carrier_until
