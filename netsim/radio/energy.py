"""What a radio spends: states (transmit, receive, listen, sleep) × their duration, or so much a bit and metre.

A meter keeps sums of durations up to the last change, exactly, and works out what was spent by any time when it is
asked: to ask changes nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from netsim.radio.sleep import Schedule
from netsim.transport.transmitter import early
from netsim.util import check

__all__ = ["STATES", "Account", "Energy", "Meter"]

STATES = ("transmit", "receive", "listen", "sleep")
"""What a radio may be doing: sending; receiving, for itself or not; on and idle; off."""

Spent = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class Energy:
    """What one node's radio spends, and what its battery holds.

    The energy is Σ power × time over the states, plus what each bit costs, evenly while it is on the air. Every frame
    that a node hears costs it receiving, also one that is for others or arrives damaged; a node that sleeps or sends as
    it begins, or begins to send at that instant, hears none, and one that begins to send later hears the rest. A node
    that is down spends nothing.

    Parameters
    ----------
    transmit, receive, listen, sleep : float
        Power in each state, in watts; ``transmit`` is that of the node's level of transmit power.
    transmit_bit, receive_bit : float
        Joules for each bit sent or heard, as in the first-order model.
    amplifier : float
        Joules for each bit sent and metre^``exponent``, over the distance to the receiver, or for a broadcast to the
        farthest neighbour; the nodes need positions ``pos`` then.
    exponent : float
        Of the distance.
    battery : float, optional
        Joules; the moment they are spent the node is off for good, whatever it is doing. None: mains.

    Raises
    ------
    BadInput
        If a value is negative or not finite.
    """

    transmit: float = 0.0
    receive: float = 0.0
    listen: float = 0.0
    sleep: float = 0.0
    transmit_bit: float = 0.0
    receive_bit: float = 0.0
    amplifier: float = 0.0
    exponent: float = 2.0
    battery: float | None = None

    def __post_init__(self) -> None:
        for name in (*STATES, "transmit_bit", "receive_bit", "amplifier", "exponent"):
            check.put(self, **{name: check.finite(name, getattr(self, name), low=0)})
        if self.battery is not None:
            check.put(self, battery=check.finite("battery", self.battery, above=0))

    @classmethod
    def first_order(
        cls,
        *,
        electronics: float = 50e-9,
        amplifier: float = 100e-12,
        exponent: float = 2.0,
        battery: float | None = None,
    ) -> "Energy":
        """Return the first-order radio model: E_elec·k + ε_amp·k·dⁿ to send k bits, E_elec·k to hear them.

        Source: Heinzelman, Chandrakasan, Balakrishnan, "Energy-efficient communication protocol for wireless
        microsensor networks", HICSS 2000: E_elec = 50 nJ/bit, ε_amp = 100 pJ/bit/m², n = 2.
        """
        return cls(
            transmit_bit=electronics,
            receive_bit=electronics,
            amplifier=amplifier,
            exponent=exponent,
            battery=battery,
        )

    def to_send(self, bits: int, seconds: float, distance: float = 0.0) -> float:
        """Return what a frame costs its sender, in joules: ``seconds`` on the air, over ``distance`` metres."""
        # 0·dⁿ without the power, which may overflow.
        over = self.amplifier * distance**self.exponent if self.amplifier else 0.0
        return self.transmit * seconds + (self.transmit_bit + over) * bits

    def can_reach(self, distance: float) -> bool:
        """Return whether what a bit costs over ``distance`` metres is a number."""
        try:
            return math.isfinite(self.to_send(1, 0.0, distance))
        except OverflowError:
            return False

    def to_hear(self, bits: int, seconds: float) -> float:
        """Return what a frame costs each who hears it, in joules."""
        return self.receive * seconds + self.receive_bit * bits


class Hearing:
    """A frame that a node hears: from when until when (s), and what its bits cost while they come (W)."""

    __slots__ = ("end", "start", "watts")

    def __init__(self, start: float, end: float, watts: float) -> None:
        self.start, self.end, self.watts = start, end, watts


class Meter:
    """What one node has spent.

    Its power is constant from one start or end of a frame, waking, sleeping or switching to the next; what bits cost is
    spent evenly while they are on the air.

    Parameters
    ----------
    energy : Energy
        Its powers and its battery.
    schedule : Schedule or None
        When it is awake; None: always.

    Attributes
    ----------
    died_at : float
        When its battery was empty, in seconds; infinite until then.
    dies_at : float
        When it will be, as far as is known, once that is near; infinite until then.
    committed : float
        At most what frames have cost so far, in joules, those under way whole.
    allowance : float
        What they may have cost before somebody must look whether the battery is empty.
    last_frame : float
        What the last frame cost that was done with, in joules.
    """

    __slots__ = (
        "_bit_energy",
        "_bit_watts",
        "_heard",
        "_hears_until",
        "_on",
        "_schedule",
        "_seconds",
        "_sends_until",
        "_since",
        "allowance",
        "committed",
        "died_at",
        "dies_at",
        "energy",
        "last_frame",
    )

    def __init__(self, energy: Energy, schedule: Schedule | None) -> None:
        self.energy = energy
        self._schedule = schedule
        # Seconds in each state, and joules of bits, until the last change; and what goes on since then.
        self._seconds: Spent = 0.0, 0.0, 0.0, 0.0
        self._bit_energy = 0.0
        self._since = 0.0
        self._on = True
        self._sends_until = self._hears_until = 0.0
        self._bit_watts = 0.0
        self._heard: list[Hearing] = []
        self.died_at = self.dies_at = math.inf
        self.committed = 0.0
        self.allowance = math.inf
        self.last_frame = 0.0

    @property
    def busy_until(self) -> float:
        """The end (s) of what it sends or hears."""
        return max(self._sends_until, self._hears_until)

    @property
    def sends_until(self) -> float:
        """The end (s) of what it sends."""
        return self._sends_until

    def transmit(self, start: float, end: float, bits: int, distance: float) -> None:
        """Count a frame that it sends from ``start`` to ``end`` (s), over so many metres; one at a time.

        What it was hearing it hears no more while it sends; and what begins at the same instant not at all, whichever
        of the two was told first.
        """
        self._advance(start)
        width = early(start)
        self._hear_only([each for each in self._heard if each.start < start - width])
        joules = self.energy.to_send(bits, 0.0, distance)
        self._sends_until, self._bit_watts = end, self._watts(start, end, joules)
        self.committed += self.energy.transmit * (end - start) + joules

    def receive(self, start: float, end: float, bits: int) -> Hearing:
        """Count a frame that it hears from ``start`` to ``end`` (s); several at once are one time of receiving."""
        self._advance(start)
        energy = self.energy
        joules = energy.receive_bit * bits
        hearing = Hearing(start, end, self._watts(start, end, joules) if joules else 0.0)
        if start < self._hears_until:
            self._heard = [each for each in self._heard if each.end > start]
            self._heard.append(hearing)
        else:
            self._heard = [hearing]
        more = end - max(start, self._hears_until, self._sends_until)
        if more > 0:
            joules += energy.receive * more
        if end > self._hears_until:
            self._hears_until = end
        self.committed += joules
        return hearing

    def hears_no_more(self, hearing: Hearing, now: float) -> None:
        """Count no more of a frame that it heard, from now (s) on: its sender has gone off."""
        self._advance(now)
        hearing.end = min(hearing.end, now)
        self._hear_only(self._heard)

    def switch(self, on: bool, now: float) -> None:
        """Count from now (s) on that it is off, and spends nothing, or on again."""
        self._advance(now)
        self._on = on
        self._sends_until, self._hears_until = min(self._sends_until, now), min(self._hears_until, now)
        self._heard = []

    def seconds(self, now: float) -> Spent:
        """Return how long it has been in each of the `STATES` by a time (s)."""
        sent, received, listened, slept = self._seconds
        more = self._lately(now)
        return sent + more[0], received + more[1], listened + more[2], slept + more[3]

    def used(self, now: float) -> float:
        """Return what it has spent by a time (s), in joules."""
        energy, more = self.energy, self._lately(now)
        powers = energy.transmit, energy.receive, energy.listen, energy.sleep
        seconds = map(float.__add__, self._seconds, more)
        return sum(map(float.__mul__, powers, seconds), 0.0) + self._bit_energy + more[4]

    def left(self, now: float) -> float:
        """Return what its battery still holds, in joules; infinite on mains."""
        return math.inf if self.energy.battery is None else max(0.0, self.energy.battery - self.used(now))

    def uncommitted(self, now: float) -> float:
        """Return what its battery holds once all that is under way is over, in joules."""
        return self.left(max(now, self.busy_until))

    def idle_until(self, now: float, energy: float) -> float:
        """Return by when (s) it has spent so much (J) if nothing is sent or heard from now on; infinite if never."""
        idle = self.energy
        if self._schedule is None:
            return now + energy / idle.listen if idle.listen else math.inf
        return self._schedule.when_spent(now, energy, idle.listen, idle.sleep, self._spare)

    @property
    def _spare(self) -> float:
        """What rounding may add to what the battery holds, in joules."""
        return (self.energy.battery or 0.0) * check.ROUNDING

    def empty_at(self, now: float) -> float:
        """Return when (s) its battery is empty if nothing more is sent or heard than is under way; infinite if never.

        What is left within rounding of the battery is nothing.
        """
        energy, time, spare = self.energy, now, self._spare
        left = self.left(now)
        for end in sorted({self._sends_until, *(each.end for each in self._heard)}):
            if end <= time:
                continue
            if left <= spare:
                break
            if time < self._sends_until:
                power = energy.transmit + self._bit_watts
            else:
                power = energy.receive + sum(each.watts for each in self._heard if each.end > time)
            if power * (end - time) >= left - spare:
                return time + left / power
            left -= power * (end - time)
            time = end
        return time if left <= spare else self.idle_until(time, left)

    def _hear_only(self, heard: list[Hearing]) -> None:
        """Hear these frames, until they end."""
        self._heard = heard
        self._hears_until = max((each.end for each in heard), default=0.0)

    def _watts(self, start: float, end: float, joules: float) -> float:
        """Return the power at which bits are spent; those of a frame that takes no time are spent at once."""
        if end > start:
            return joules / (end - start)
        self._bit_energy += joules
        return 0.0

    def _advance(self, now: float) -> None:
        """Add up what was spent by a time (s) at which something changes."""
        if now > self._since:
            more, (sent, received, listened, slept) = self._lately(now), self._seconds
            self._seconds = sent + more[0], received + more[1], listened + more[2], slept + more[3]
            self._bit_energy += more[4]
            self._since = now

    def _lately(self, now: float) -> tuple[float, float, float, float, float]:
        """Return the seconds in each state, and the joules of bits, from the last change to a time (s)."""
        since = self._since
        if not self._on or now <= since:
            return 0.0, 0.0, 0.0, 0.0, 0.0
        # Sending comes before receiving, that before listening, that before sleep.
        sent = min(max(self._sends_until, since), now)
        received = min(max(self._hears_until, sent), now)
        awake = now - received if self._schedule is None else self._schedule.awake_seconds(received, now)
        bits = self._bit_watts * (sent - since)
        for each in self._heard if self.energy.receive_bit else ():
            if each.end > sent:
                bits += each.watts * (min(each.end, now) - sent)
        return sent - since, received - sent, awake, max(0.0, now - received - awake), bits


class Account:
    """What an agent can learn of its node's energy, in joules; see `netsim.transport.account.Account`."""

    def __init__(self, meter: Meter, now: Callable[[], float]) -> None:
        self._meter, self._now = meter, now

    @property
    def used(self) -> float:
        """What was spent until now."""
        return self._meter.used(self._now())

    @property
    def left(self) -> float:
        """What the battery still holds; infinite on mains."""
        return self._meter.left(self._now())

    @property
    def last_frame(self) -> float:
        """What the last frame cost that was done with."""
        return self._meter.last_frame

    def __repr__(self) -> str:
        return f"<energy: {self.used:g} J used, {self.left:g} J left>"
