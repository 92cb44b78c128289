"""Signals, and the receivers that decide which signals are received; a signal is one transmission at one receiver.

This module has the rule of reception without a `Phy`; `netsim.radio.sinr` has the rule with a `Phy`. A signal is not
received if another signal overlaps it in time at the receiver (unless the signal is captured), or if the receiver sends
meanwhile. `_mac.pyx` has compiled versions of these classes.
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

# Drop reasons in order of precedence: if a signal has several reasons, the one that is first in this list counts, even
# if another occurred earlier. LOST means that the signal never arrives, or ends early.
_FIRST = (RECEIVER_DOWN, LINK_DOWN, LOST, HALF_DUPLEX, ASLEEP)


@dataclass(slots=True, eq=False)
class Signal:
    """One transmission at one receiver."""

    # The MAC layer of the receiving node.
    mac: "Mac"
    # The sender's index of its link to the receiving node; −1 if the signal only interferes at this node.
    link_index: int
    # The time (s) at which the signal's first bit arrives at the receiver.
    start: float
    # The time (s) at which the signal's last bit has arrived at the receiver.
    end: float
    # The received power in mW; 1 for all signals if powers are not given.
    power: float
    # Whether the link's loss model drops the signal.
    lost: bool = False
    # The drop reason found so far; 0 if there is none.
    cause: int = 0
    # Without a `Phy`: the total power (mW) of overlapping signals. With a `Phy`: the mean interference (mW) over this
    # signal's duration, computed when the signal ends.
    noise: float = 0.0
    # The record of the energy that the receiver spends on the signal; None without an energy model.
    reception: "Reception | None" = None
    # The radio channel: receivers on other channels drop the signal, and only signals on this channel disturb it.
    channel: int = 0
    # With a `Phy`: the number of bits; the signal is received only if none of these bits is wrong.
    bits: int = 0
    # With a `Phy`: the uniform draw that decides whether the signal is received.
    draw: float = 0.0
    # With a `Phy`: the noise floor (mW) at the signal's start.
    floor: float = 0.0
    # With a `Phy`: whether the receiver has processed the signal's start.
    seen: bool = False
    # With a `Phy`: the drop reason if the receiver did not lock on the signal; else 0.
    missed: int = 0
    # With `Phy.concurrent_s`: a key that copies of this signal share.
    content: tuple[bytes, int] | None = None
    # With `Phy.concurrent_s`: the mean power (mW) of the copies that add to this signal.
    joined: float = 0.0

    def spoil(self, cause: int) -> None:
        """Record a drop reason, unless the signal already has one of higher precedence."""
        if not self.cause or _FIRST.index(cause) < _FIRST.index(self.cause):
            self.cause = cause


class Receiver:
    """One node's receiver: keeps track of arriving signals, of sensed carriers, and of the node's own transmissions.

    A frame is captured if its power is at least ``captures_above`` times the sum of the overlapping frames' powers.
    """

    def __init__(self, captures_above: float = math.inf) -> None:
        self._captures_above = captures_above
        self._signals: list[Signal] = []
        self.channel = 0
        # Times in s. `_carrier_start`: the start of the newest sensed carrier. `_carrier_until`: when all sensed
        # carriers have ended. `_earlier_until`: when all carriers that started before `_carrier_start` have ended.
        self._carrier_start = self._earlier_until = self._carrier_until = -1.0
        self.sends_until = -1.0

    def hear(self, signal: Signal, now: float, width: float) -> None:
        """Register a signal when it is sent, at ``now`` (s); times up to ``width`` (s) apart count as equal."""
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
        """Return the drop reason of a signal that ends at ``now`` (s); 0 if it is received.

        Capture also requires more power than all overlapping signals have together, so that at most one signal is
        captured even if `Radio.capture` is 0 dB.
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
        """Do nothing: without a `Phy`, no signal is lost while the radio turns between receiving and sending."""

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
        """Drop the signals that are arriving at ``now`` (s), with the drop reason ``cause``, and return them."""
        missed = [each for each in self._signals if each.end > now]
        for each in missed:
            each.spoil(cause)
        return missed

    def tune(self, channel: int, now: float) -> list[Signal]:
        """Change the channel at ``now`` (s); drop the signals that are arriving, and return them."""
        missed = self.deafen(now, ASLEEP)
        self.channel = channel
        self.senses_until(now)
        return missed

    def sense(self, now: float, end: float, width: float) -> None:
        """Sense a carrier from ``now`` to ``end`` (s); times up to ``width`` (s) apart count as equal."""
        if now > self._carrier_start + width:
            self._carrier_start, self._earlier_until = now, self._carrier_until
        if end > self._carrier_until:
            self._carrier_until = end

    def senses_until(self, end: float) -> None:
        """Set the time (s) at which all carriers have ended, after a carrier was cut short or the channel changed."""
        self._carrier_until = end
        self._earlier_until = min(self._earlier_until, end)

    def is_busy(self, since: float, now: float) -> bool:
        """Return whether the receiver sensed a carrier, or sent, at any moment from ``since`` to ``now`` (s)."""
        width = time_tolerance(now)
        return max(self.carrier_until(now, width), self.sends_until) > since + width

    def carrier_until(self, now: float, width: float) -> float:
        """Return the end (s) of the sensed carriers that started before ``now``."""
        # A carrier that starts when the assessment ends, at ``now``, does not count, even if its event ran before.
        return self._earlier_until if self._carrier_start >= now - width else self._carrier_until
