"""Reception by signal to interference and noise: which frame a receiver locks on, and the probability of its success.

This is the rule of reception with a `Phy`; `_mac.pyx` has a compiled version. No event runs at the start of a signal.
Instead, a receiver processes the starts of past signals when it is next queried. It then knows all signals that have
begun, because each signal is registered when it is sent. Each query sums the powers anew, so rounding errors do not
accumulate.
"""

import math
from collections.abc import Hashable
from itertools import pairwise
from typing import TYPE_CHECKING

from netsim.core.records import ASLEEP, COLLIDED, HALF_DUPLEX, LOST, RECEIVER_DOWN
from netsim.radio.phy import Phy
from netsim.radio.signals import Receiver, Signal
from netsim.transport.transmitter import time_tolerance

if TYPE_CHECKING:
    from netsim.radio.settings import Radio

__all__ = ["SinrReceiver"]


class SinrReceiver(Receiver):
    """One node's receiver: it receives (RX), sends (TX) or turns between them; in RX it is idle or locked on a frame.

    The noise model gets ``seed``, the network's seed, and ``key`` and ``name``, which identify the node.
    """

    def __init__(self, phy: Phy, radio: "Radio", seed: int, key: int, name: Hashable) -> None:
        super().__init__()
        self._phy, self._seed, self._key, self._name = phy, seed, key, name
        self._turnaround, self._cca = radio.turnaround, radio.cca
        self._senses_power = radio.sensing is None
        self._floor = 10.0 ** (phy.noise_dbm / 10.0)
        self._lock_above = 10.0 ** (phy.lock_db / 10.0)
        self._weight = 10.0 ** (phy.interference_db / 10.0)
        self._busy_from = 10.0 ** (phy.sense_dbm / 10.0)
        self._concurrent = phy.concurrent_s
        # The number of signals whose start is not processed yet.
        self._unseen = 0
        # The signal that the receiver locked on last.
        self._locked: Signal | None = None
        # The time (s) until which the receiver is not in RX.
        self._deaf_until = -1.0

    # --- starts -------------------------------------------------------------------------------------------------------

    def hear(self, signal: Signal, now: float, width: float) -> None:
        """Register a signal when it is sent, at ``now`` (s); see `Receiver.hear`."""
        self._see(now - width)
        # Keep signals that ended recently: a channel assessment looks back by ``cca``, and the outcome of the locked
        # frame depends on all signals that overlapped it.
        oldest = now - self._cca - width
        if self._locked is not None and self._locked.end > oldest:
            oldest = min(oldest, self._locked.start)
        self._signals = [each for each in self._signals if each.end > oldest or not each.seen]
        signal.floor = self._floor
        self._signals.append(signal)
        self._unseen += 1

    def _see(self, until: float) -> None:
        """Process the signals that start before ``until`` (s), in order of their starts."""
        while self._unseen:
            first = None
            for each in self._signals:
                if not each.seen and each.start < until and (first is None or each.start < first.start):
                    first = each
            if first is None:
                return
            self._begin(first, time_tolerance(first.start))
            first.seen = True
            self._unseen -= 1

    def _begin(self, signal: Signal, width: float) -> None:
        """Lock the receiver on a beginning signal if possible; otherwise set the signal's drop reason ``missed``."""
        begin = signal.start
        if self._locked is not None and self._locked.end <= begin + width:
            self._locked = None
        if signal.cause:
            return
        if begin < self._deaf_until - width:
            signal.missed = HALF_DUPLEX
            return
        power, others = signal.power, 0.0
        for each in self._signals:
            if each.seen and each.end > begin + width and each.channel == signal.channel:
                if self._joins(each, signal):
                    power += each.power
                else:
                    others += each.power
        signal.floor = self._floor if self._phy.noise is None else self._noise_at(begin)
        if self._locked is not None:
            # If copies of one fragment add up, only the strongest neighbour's copy counts as received.
            if self._joins(self._locked, signal) and self._rank(signal) > self._rank(self._locked):
                self._locked.missed, self._locked = COLLIDED, signal
            else:
                signal.missed = COLLIDED
        elif power > self._lock_above * (self._weight * others + signal.floor):
            self._locked = signal
        else:
            signal.missed = COLLIDED if power > self._lock_above * signal.floor else LOST

    def _joins(self, other: Signal, signal: Signal) -> bool:
        """Return whether the powers of two signals add up.

        They do if the signals are copies of one fragment and begin at most `Phy.concurrent_s` apart.
        """
        is_same = signal.content is not None and other.content == signal.content
        return is_same and abs(other.start - signal.start) <= self._concurrent

    @staticmethod
    def _rank(signal: Signal) -> tuple[bool, float]:
        return signal.link_index >= 0, signal.power

    def _noise_at(self, time: float) -> float:
        """Return the noise (mW) at ``time`` (s) by the phy's noise model."""
        return self._phy.floor(self._seed, self._key, self._name, time)

    def hears(self, now: float) -> bool:
        """Return whether the receiver is locked on a frame; see `Receiver.hears`."""
        self._see(now - time_tolerance(now))
        return self._locked is not None and self._locked.end > now

    # --- ends ---------------------------------------------------------------------------------------------------------

    def fate(self, signal: Signal, now: float) -> int:
        """Return the drop reason of a signal that ends at ``now`` (s); 0 if it is received."""
        self._see(now - time_tolerance(now))
        if signal.cause or signal.missed:
            return signal.cause or signal.missed
        success = self._success(signal, time_tolerance(now))
        if signal.draw >= success:
            return COLLIDED if signal.noise else LOST
        return LOST if signal.lost else 0

    def _success(self, signal: Signal, width: float) -> float:
        """Return the probability that all bits of a signal are correct; also store the signal's mean interference."""
        others = [each for each in self._signals if self._disturbs(each, signal, width)]
        if not others:
            return math.exp(signal.bits * self._phy.log_success(signal.power / signal.floor))
        changes = [each.start for each in others]
        if self._phy.chunks == "any":
            changes += [each.end for each in others]
        times = {signal.start, signal.end, *(time for time in changes if signal.start < time < signal.end)}
        length, log_success = signal.end - signal.start, 0.0
        for begin, end in pairwise(sorted(times)):
            total, joined, share = 0.0, 0.0, (end - begin) / length
            for each in others:
                if each.start <= begin and each.end >= end:
                    if self._joins(each, signal):
                        joined += each.power
                    else:
                        total += each.power
            signal.noise += total * share
            signal.joined += joined * share
            sinr = (signal.power + joined) / (self._weight * total + signal.floor)
            log_success += signal.bits * share * self._phy.log_success(sinr)
        return math.exp(log_success)

    @staticmethod
    def _disturbs(other: Signal, signal: Signal, width: float) -> bool:
        overlaps = other.end > signal.start + width and other.start < signal.end - width
        return overlaps and other is not signal and other.channel == signal.channel and other.power > 0.0

    # --- the radio's states -------------------------------------------------------------------------------------------

    def turn(self, now: float, until: float) -> None:
        """Switch between receiving and sending: signals that begin before ``until`` (s) are not received."""
        self._see(now - time_tolerance(now))
        self._deaf_until = until

    def send(self, now: float, end: float) -> None:
        """Send from ``now`` to ``end`` (s), then turn back to RX: signals that begin meanwhile are not received."""
        self.turn(now, end + self._turnaround)
        super().send(now, end)
        self._locked = None

    def stop(self, now: float) -> None:
        """Stop sending at ``now`` (s), and return to RX without a turnaround."""
        self.sends_until = self._deaf_until = now

    def deafen(self, now: float, cause: int = RECEIVER_DOWN) -> list[Signal]:
        """Drop the signals that are arriving at ``now`` (s), with the drop reason ``cause``, and return them."""
        self._see(now - time_tolerance(now))
        self._locked = None
        if cause == RECEIVER_DOWN:
            # A node that is switched on again is in RX immediately.
            self._deaf_until = min(self._deaf_until, now)
        return super().deafen(now, cause)

    def tune(self, channel: int, now: float) -> list[Signal]:
        """Change the channel at ``now`` (s); drop the signals that are arriving, and return them.

        A signal that began earlier on the new channel interferes, but cannot be received.
        """
        missed = self.deafen(now, ASLEEP)
        self.channel = channel
        return missed

    # --- carrier sense ------------------------------------------------------------------------------------------------

    def is_busy(self, since: float, now: float) -> bool:
        """Return whether a channel assessment from ``since`` to ``now`` (s) finds the channel busy.

        The channel is busy if the radio is not in RX or is locked on a frame, or if the received power reaches
        `Phy.sense_dbm` (with ``Radio.sensing``: if a carrier is sensed). A signal that ends at ``now`` counts, a signal
        that begins at ``now`` does not. The noise of the model `Phy.noise` at ``now`` counts as received power; the
        constant noise floor does not.
        """
        width = time_tolerance(now)
        self._see(now - width)
        if now < self._deaf_until - width or (self._locked is not None and self._locked.end > now - width):
            return True
        if not self._senses_power:
            return self.carrier_until(now, width) > since + width
        begun = [each for each in self._signals if self._is_sensed(each, since, now, width)]
        noise = 0.0 if self._phy.noise is None else self._noise_at(now)
        if not begun:
            return bool(noise >= self._busy_from)
        if self._phy.cca == "ns3":
            # The width is negative so that a signal that ends at ``now`` counts.
            if noise + self._power_at(begun, now, -width) >= self._busy_from:
                return True
            moments = [each.start for each in begun if each.start > since - width]
        else:
            moments = [max(since, each.start) for each in begun]
        return any(noise + self._power_at(begun, moment, width) >= self._busy_from for moment in moments)

    def _is_sensed(self, signal: Signal, since: float, now: float, width: float) -> bool:
        return signal.end > since + width and signal.start < now - width and signal.channel == self.channel

    @staticmethod
    def _power_at(signals: list[Signal], moment: float, width: float) -> float:
        """Return the total power (mW) at ``moment`` (s) of the signals that end later than ``moment + width`` (s)."""
        total = 0.0
        for each in signals:
            if each.start <= moment and each.end > moment + width:
                total += each.power
        return total
