"""What a radio spends: states (transmit, receive, listen, sleep) × their duration, or so much a bit and metre.

A meter keeps sums of durations, exactly, and works out what was spent by any time when it is asked: to ask changes
nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from netsim import check
from netsim.radio.sleep import Schedule

__all__ = ["STATES", "Account", "Energy", "Meter"]

STATES = ("transmit", "receive", "listen", "sleep")
"""What a radio may be doing: sending; receiving, for itself or not; on and idle; off."""

Spent = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class Energy:
    """What one node's radio spends, and what its battery holds.

    The energy is Σ power × time over the states, plus what each bit costs. Every frame that a node hears costs it
    receiving, also one that is for others or arrives damaged; a node that sleeps or sends hears none.

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
        Joules; when they are spent the node is dead. A frame that is begun is still sent. None: mains.

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

    def to_hear(self, bits: int, seconds: float) -> float:
        """Return what a frame costs each who hears it, in joules."""
        return self.receive * seconds + self.receive_bit * bits


class Meter:
    """What one node has spent.

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
    committed : float
        What frames have cost so far, in joules, those under way whole.
    allowance : float
        What they may have cost before somebody must look whether the battery is empty.
    last_frame : float
        What the last frame cost that was done with, in joules.
    exhausted : bool
        Whether it will be, once what is being sent is over: nothing more is begun.
    """

    __slots__ = (
        "_bit_energy",
        "_covered",
        "_hears_until",
        "_received",
        "_schedule",
        "_sends_until",
        "_sent",
        "allowance",
        "committed",
        "died_at",
        "energy",
        "exhausted",
        "last_frame",
    )

    def __init__(self, energy: Energy, schedule: Schedule | None) -> None:
        self.energy = energy
        self._schedule = schedule
        # Seconds that frames took so far, those under way whole: of sending, of receiving, and of both while awake.
        self._sent = self._received = self._covered = 0.0
        self._sends_until = self._hears_until = 0.0
        self._bit_energy = 0.0
        self.died_at = math.inf
        self.committed = 0.0
        self.allowance = math.inf
        self.exhausted = False
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
        """Count a frame that it sends from ``start`` to ``end`` (s), over so many metres; one at a time."""
        energy = self.energy
        # What it was hearing it hears no more while it sends.
        unheard = max(0.0, self._hears_until - start) - max(0.0, self._hears_until - end)
        self._received -= unheard
        self._sent += end - start
        self._cover(max(start, self._hears_until), end)
        self._sends_until = end
        cost = energy.to_send(bits, end - start, distance)
        self._bit_energy += energy.to_send(bits, 0.0, distance)
        self.committed += cost - energy.receive * unheard

    def receive(self, start: float, end: float, bits: int) -> None:
        """Count a frame that it hears from ``start`` to ``end`` (s); several at once are one time of receiving."""
        begin = max(start, self._hears_until, self._sends_until)
        seconds = max(0.0, end - begin)
        if seconds:
            self._received += seconds
            self._cover(begin, end)
            self._hears_until = end
        self._bit_energy += self.energy.to_hear(bits, 0.0)
        self.committed += self.energy.to_hear(bits, seconds)

    def seconds(self, now: float) -> Spent:
        """Return how long it has been in each of the `STATES` by a time (s)."""
        now = min(now, self.died_at)
        sent = self._sent - max(0.0, self._sends_until - now)
        received = self._received - max(0.0, self._hears_until - max(now, self._sends_until))
        awake = self._awake(0.0, now)
        covered = self._covered - (self._awake(now, self.busy_until) if self.busy_until > now else 0.0)
        listened = max(0.0, awake - covered)
        return sent, received, listened, max(0.0, now - sent - received - listened)

    def used(self, now: float) -> float:
        """Return what it has spent by a time (s), in joules."""
        energy = self.energy
        powers = energy.transmit, energy.receive, energy.listen, energy.sleep
        return sum(map(float.__mul__, powers, self.seconds(now)), 0.0) + self._bit_energy

    def left(self, now: float) -> float:
        """Return what its battery still holds, in joules; infinite on mains."""
        return math.inf if self.energy.battery is None else max(0.0, self.energy.battery - self.used(now))

    def uncommitted(self, now: float) -> float:
        """Return what its battery holds once all that is under way is over, in joules, idle time until then apart."""
        return self.left(max(now, self.busy_until))

    def idle_until(self, now: float, energy: float) -> float:
        """Return by when (s) it has spent so much (J) if nothing more is sent or heard; infinite if never."""
        start, idle = max(now, self.busy_until), self.energy
        if self._schedule is None:
            return start + energy / idle.listen if idle.listen else math.inf
        return self._schedule.when_spent(start, energy, idle.listen, idle.sleep)

    def _cover(self, start: float, end: float) -> None:
        if end > start:
            self._covered += self._awake(start, end)

    def _awake(self, start: float, end: float) -> float:
        return end - start if self._schedule is None else self._schedule.awake_seconds(start, end)


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
