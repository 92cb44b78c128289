"""Duty cycles and energy of radios: power × time in each state, plus joules per bit.

A `Schedule` computes whether a radio is awake at a given time. No timer wakes a radio, because pending timers would
keep a run going. A `Meter` sums the time in each state up to the latest change of a state. Asked for the energy at a
later time, it computes the rest without changing its sums.

No timer waits for an empty battery either, because it would keep a deadlocked run going for years of simulated time.
Instead `BatteryWatch` checks a node whenever half of the energy left at its last check may have been spent; after about
forty such halvings the battery is practically empty. If the frames under way will spend the energy left, or if it lasts
for a few nanoseconds only, the watch computes the exact time at which the battery is empty.
"""

import heapq
import itertools
import math
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from netsim.clock.clock import LocalClock, Loop
from netsim.errors import BadInput
from netsim.transport.transmitter import time_tolerance
from netsim.util import check

if TYPE_CHECKING:
    from netsim.radio.mac import Mac

__all__ = ["STATES", "BatteryWatch", "DutyCycle", "Energy", "EnergyAccount", "Meter", "Reception", "Schedule"]

STATES = ("transmit", "receive", "listen", "sleep")
"""The states of a radio: sending a frame; receiving a frame, even one addressed to others; on and idle; off."""

Spent = tuple[float, float, float, float]

# Radios of sensor nodes draw milliwatts, radios of laptops a watt or two. A larger value was probably given in
# milliwatts or milliamperes by mistake.
_MANY_WATTS = 5.0
_MANY_AMPERES = 1.0
# Transmit powers must be within ±200 dBm, which is far beyond any radio.
_MOST_DBM = 200.0

# Columns that `netsim.Run.energy` always has. The columns of ``Energy.states`` and of `Agent.spend` must have other
# names.
_COLUMNS = (*STATES, "bits", "used", "left", "died_at")

# Sums of periods have rounding errors, so a time slightly before the end of a period counts as the start of the next
# period.
# The tolerance is _ROUNDING times the period, but at most _OF_WINDOW times the shortest window.
_ROUNDING, _OF_WINDOW = 1e-9, 1e-3


@check.named
@dataclass(frozen=True, kw_only=True)
class Energy:
    """The powers that a node's radio and other parts draw, and the energy in the node's battery.

    The energy used is the sum of power × time over the states, plus an energy per bit, which is spread evenly over the
    frame's time on the air. A node spends energy on each frame that it hears, even if the frame is addressed to others
    or arrives damaged. A node does not hear a frame if the node sleeps, sends, or begins to send at the instant at
    which the frame begins. If a node begins to send while it hears a frame, it hears the rest of this frame after its
    own transmission. A node that is down spends nothing. Other parts of the node, such as a processor or a sensor, draw
    the powers in ``states``. An agent changes a part's state with ``self.energy.enter``, and counts single expenses in
    joules with ``self.spend``.

    Parameters
    ----------
    transmit, receive, listen, sleep : float
        Power drawn in each state, in watts. ``transmit`` is drawn at the transmit power to which ``Radio.powers``
        refer.
    transmit_at : mapping, optional
        {dBm: watts}: power drawn at other transmit powers, which an agent sets by ``self.radio.power_dbm``. For a
        transmit power between two keys, the watts are interpolated linearly; a transmit power below the lowest key or
        above the highest key is refused. Default: ``transmit`` is drawn at every transmit power.
    transmit_bit, receive_bit : float
        Joules per bit sent or received, as in the first-order model.
    amplifier : float
        Each bit sent over d metres costs ``amplifier``·d^``exponent`` joules in addition to ``transmit_bit``. In a
        broadcast, d is the distance to the farthest neighbour. The nodes then need positions ``pos``.
    exponent : float
        Exponent of the distance.
    battery : float, optional
        Joules in the battery. When they are spent, the node goes off for good, even in the middle of a frame. None: the
        node is on mains power.
    states : mapping, optional
        Powers of other parts of the node, {part: {state: watts}}, such as
        {"mcu": {"sleep": 15e-6, "active": 5.4e-3}}. When a node is switched on, each part starts in its first state.

    Raises
    ------
    BadInput
        If a value is negative or not finite, ``transmit_at`` is given without ``transmit``, or two states have the same
        column in `netsim.Run.energy`.
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
    states: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    transmit_at: Mapping[float, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check.fields(self, check.finite, *STATES, "transmit_bit", "receive_bit", "amplifier", "exponent", low=0)
        check.fields(self, check.finite, "battery", above=0, optional=True)
        check.put(self, states=_checked_states(self.states), transmit_at=_checked_levels(self.transmit_at))
        if self.transmit_at and not self.transmit:
            raise BadInput("transmit: must be given with transmit_at: what sending takes with the usual power")
        several = [(f"transmit_at[{dbm:g}]", watts) for dbm, watts in self.transmit_at.items()]
        for name, watts in [(name, getattr(self, name)) for name in STATES] + several:
            if watts > _MANY_WATTS:
                given = f"{name}={watts:g}e-3" if name in STATES else "transmit_at=..."
                warnings.warn(
                    f"{name} = {watts:g} W: that is much for a radio. For {watts:g} mA use "
                    f"Energy.of_currents(volts, {given})",
                    stacklevel=3,
                )

    @classmethod
    def of_currents(
        cls,
        volts: float,
        *,
        transmit: float = 0.0,
        receive: float = 0.0,
        listen: float = 0.0,
        sleep: float = 0.0,
        battery_mah: float | None = None,
        states: Mapping[str, Mapping[str, float]] | None = None,
        transmit_at: Mapping[float, float] | None = None,
    ) -> "Energy":
        """Return a node's `Energy` from a data sheet's currents.

        Parameters
        ----------
        volts : float
            The supply voltage.
        transmit, receive, listen, sleep : float
            The radio's current in each state, in amperes, at most 1: 17.4e-3 for 17.4 mA.
        battery_mah : float, optional
            The battery's charge in mAh, which it delivers at the constant voltage ``volts``. None: mains power.
        states : mapping, optional
            The currents of other parts of the node, {part: {state: amperes}}.
        transmit_at : mapping, optional
            The currents at other transmit powers, {dBm: amperes}, such as {0: 17.4e-3, -10: 11.2e-3, -25: 8.5e-3}.

        Raises
        ------
        BadInput
            If a value is outside its range.
        """
        volts = check.finite("volts", volts, above=0)
        currents = {"transmit": transmit, "receive": receive, "listen": listen, "sleep": sleep}
        limits = {"low": 0.0, "high": _MANY_AMPERES}
        watts = {name: volts * check.number(f"{name} (A)", each, **limits) for name, each in currents.items()}
        parts = {
            part: {
                state: volts * check.number(f"states[{part!r}][{state!r}] (A)", amperes, **limits)
                for state, amperes in each.items()
            }
            for part, each in _checked_states({} if states is None else states, "amperes").items()
        }
        levels = {
            dbm: volts * check.number(f"transmit_at[{dbm:g}] (A)", amperes, **limits)
            for dbm, amperes in _checked_levels(transmit_at or {}).items()
        }
        battery = None if battery_mah is None else 3.6 * volts * check.finite("battery_mah", battery_mah, above=0)
        return cls(**watts, battery=battery, states=parts, transmit_at=levels)

    @classmethod
    def first_order(
        cls,
        *,
        electronics: float = 50e-9,
        amplifier: float = 100e-12,
        exponent: float = 2.0,
        battery: float | None = None,
    ) -> "Energy":
        """Return the first-order radio model: k bits cost E_elec·k + ε_amp·k·dⁿ to send over d m, and E_elec·k to hear.

        Source: Heinzelman, Chandrakasan, Balakrishnan, "Energy-efficient communication protocol for wireless
        microsensor networks", HICSS 2000: E_elec = 50 nJ/bit, ε_amp = 100 pJ/bit/m², n = 2.

        Raises
        ------
        BadInput
            If a value is negative or not finite.
        """
        electronics = check.finite("electronics", electronics, low=0)
        return cls(
            transmit_bit=electronics,
            receive_bit=electronics,
            amplifier=amplifier,
            exponent=exponent,
            battery=battery,
        )

    def sends_with(self, power_dbm: float) -> float:
        """Return the power (W) drawn while sending at the transmit power ``power_dbm``.

        Raises
        ------
        BadInput
            If the transmit power is outside the range of ``transmit_at``.
        """
        levels = self.transmit_at
        if power_dbm in levels or not levels:
            return levels.get(power_dbm, self.transmit)
        below = max((dbm for dbm in levels if dbm < power_dbm), default=None)
        above = min((dbm for dbm in levels if dbm > power_dbm), default=None)
        if below is None or above is None:
            allowed = f"from {min(levels):g} to {max(levels):g} dBm, for which Energy.transmit_at has watts"
            raise check.refuse("power_dbm", power_dbm, allowed)
        share = (power_dbm - below) / (above - below)
        return levels[below] + share * (levels[above] - levels[below])

    def to_send(self, bits: int, seconds: float, distance: float = 0.0) -> float:
        """Return the energy (J) to send ``bits`` bits in ``seconds`` at the power ``transmit`` over ``distance`` m."""
        # Skip distance**exponent if it is not needed, because it may overflow.
        over = self.amplifier * distance**self.exponent if self.amplifier else 0.0
        return self.transmit * seconds + (self.transmit_bit + over) * bits

    def can_reach(self, distance: float) -> bool:
        """Return whether the energy to send a bit over ``distance`` metres is finite."""
        try:
            return math.isfinite(self.to_send(1, 0.0, distance))
        except OverflowError:
            return False

    def to_hear(self, bits: int, seconds: float) -> float:
        """Return the energy (J) that a node spends to hear a frame of ``bits`` bits for ``seconds``."""
        return self.receive * seconds + self.receive_bit * bits


def _checked_levels(levels: Any) -> dict[float, float]:
    """Return validated powers {dBm: watts}, or raise BadInput."""
    check.instance("transmit_at", levels, Mapping, "a mapping {dBm: watts}")
    limits = {"low": -_MOST_DBM, "high": _MOST_DBM}
    return {
        check.number("transmit_at: dBm", dbm, **limits): check.finite(f"transmit_at[{dbm!r}]", watts, low=0)
        for dbm, watts in levels.items()
    }


def _checked_states(states: Any, power: str = "watts") -> dict[str, dict[str, float]]:
    """Return validated powers {part: {state: power}}, or raise BadInput."""
    allowed = f"{{part: {{state: {power}}}}}, each part with a state or more"
    check.instance("states", states, Mapping, allowed)
    for part, each in states.items():
        if not (isinstance(part, str) and isinstance(each, Mapping) and each and all(isinstance(x, str) for x in each)):
            raise check.refuse(f"states[{part!r}]", each, allowed)
    columns = [f"{part}_{state}" for part, each in states.items() for state in each]
    for column in columns:
        if columns.count(column) > 1 or column in _COLUMNS:
            unit = "s" if column == "died_at" else "j"
            raise check.refuse("states", column, f"a part and a state whose column, {column}_{unit}, no other has")
    return {
        part: {state: check.finite(f"states[{part!r}][{state!r}]", value, low=0) for state, value in each.items()}
        for part, each in states.items()
    }


# --- sleep ------------------------------------------------------------------------------------------------------------


@check.named
@dataclass(frozen=True, kw_only=True)
class DutyCycle:
    """Radios that are on in one or several windows of each period, and asleep for the rest.

    Parameters
    ----------
    period : float
        The length of a period in seconds.
    awake : float, optional
        The seconds for which the radio is on at the beginning of each period, in (0, ``period``].
    offsets : mapping, optional
        {node: time (s) at which the node's first period begins}, in [0, ``period``); 0 for all other nodes.
    windows : sequence of (start, seconds), optional
        Instead of ``awake``: the windows of each period in which the radio is on. A window's start is in seconds from
        the beginning of the period. Windows must not overlap.

    Raises
    ------
    BadInput
        If a value is outside its range, or not exactly one of ``awake`` and ``windows`` is given.
    """

    period: float
    awake: float | None = None
    offsets: Mapping[Any, float] = field(default_factory=dict)
    windows: Sequence[tuple[float, float]] | None = None

    def __post_init__(self) -> None:
        check.fields(self, check.finite, "period", above=0)
        check.fields(self, check.finite, "awake", above=0, optional=True)
        if (self.awake is None) == (self.windows is None):
            raise BadInput(f"awake = {self.awake}: must be given unless windows are, and not with them")
        if self.awake is not None and self.awake > self.period:
            raise check.refuse("awake", self.awake, f"at most the period, {self.period:g} s")
        if self.windows is not None:
            check.put(self, windows=self._checked_windows())
        check.instance("offsets", self.offsets, Mapping, "a mapping {node: seconds}")
        offsets = {node: check.finite(f"offsets[{node!r}]", each) for node, each in self.offsets.items()}
        for node, offset in offsets.items():
            if not 0 <= offset < self.period:
                raise check.refuse(
                    f"offsets[{node!r}]", offset, f"at least 0 and less than the period, {self.period:g} s"
                )
        check.put(self, offsets=offsets)

    def _checked_windows(self) -> tuple[tuple[float, float], ...]:
        """Return the validated windows in order of time, or raise BadInput."""
        windows, end = [], 0.0
        try:
            pairs = sorted((start, seconds) for start, seconds in self.windows or ())
        except (TypeError, ValueError):
            pairs = []
        if not pairs:
            raise check.refuse("windows", self.windows, "a sequence of (start, seconds)")
        for start, seconds in pairs:
            start = check.finite("windows: start", start, low=0)
            seconds = check.finite("windows: seconds", seconds, above=0)
            if start < end or start + seconds > self.period * (1 + check.ROUNDING):
                allowed = f"within the period, {self.period:g} s, without overlap"
                raise check.refuse("windows", (start, seconds), allowed)
            end = start + seconds
            windows.append((start, seconds))
        return tuple(windows)

    @property
    def share(self) -> float:
        """The share of time that a radio is on."""
        return sum(seconds for _, seconds in self._spans()) / self.period

    def _spans(self) -> Sequence[tuple[float, float]]:
        return ((0.0, self.awake or 0.0),) if self.windows is None else self.windows

    def of(self, node: Hashable, clock: LocalClock | None = None) -> "Schedule":
        """Return a node's schedule; ``clock`` is the node's clock if it is skewed."""
        offset, rate = self.offsets.get(node, 0.0), 1.0
        if clock is not None:
            offset, rate = clock.true(offset), clock.rate
        period = self.period * rate
        spans = tuple((start * rate, seconds * rate) for start, seconds in self._spans())
        return Schedule(period, spans, offset % period)


@dataclass(frozen=True)
class Schedule:
    """The times at which one node's radio is on and off, computed from its `DutyCycle`.

    ``offset`` is the time (s) at which some period begins. ``windows`` are the (start, length) in seconds of the
    windows of each period in which the radio is on, in order. `_mac.pyx` has compiled versions of the methods that run
    for each frame.
    """

    period: float
    windows: tuple[tuple[float, float], ...]
    offset: float = 0.0

    @cached_property
    def awake(self) -> float:
        """The seconds per period for which the radio is on."""
        return sum(seconds for _, seconds in self.windows)

    @cached_property
    def shortest(self) -> float:
        """The length (s) of the shortest window."""
        return min(seconds for _, seconds in self.windows)

    @property
    def longest_sleep(self) -> float:
        """The longest time (s) for which the radio is off."""
        ends = [start + seconds for start, seconds in self.windows]
        begins = [start for start, _ in self.windows[1:]] + [self.period + self.windows[0][0]]
        return max(begin - end for begin, end in zip(begins, ends, strict=True))

    def is_awake(self, time: float) -> bool:
        """Return whether the radio is on at a time (s)."""
        phase, rounding = self._place(time)[1], self._rounding(time)
        return any(start - rounding <= phase < start + seconds - rounding for start, seconds in self.windows)

    def next_awake(self, time: float) -> float:
        """Return the earliest time (s) at or after ``time`` at which the radio is on."""
        if self.is_awake(time):
            return time
        number, phase = self._place(time)
        for start, _ in self.windows:
            if start > phase:
                return number * self.period + self.offset + start
        return (number + 1) * self.period + self.offset + self.windows[0][0]

    def awake_seconds(self, start: float, end: float) -> float:
        """Return the seconds for which the radio is on between two times (s)."""
        return self._until(end) - self._until(start)

    def when_spent(self, start: float, energy: float, awake: float, asleep: float, spare: float = 0.0) -> float:
        """Return the time (s) at which an idle radio has spent ``energy`` (J) since ``start``; infinite if never.

        ``awake`` and ``asleep`` are the radio's powers (W) in the two states; ``spare`` (J) is the rounding tolerance.
        """
        each = awake * self.awake + asleep * (self.period - self.awake)
        if energy / each == math.inf if each else True:
            return math.inf
        # Skip whole periods, but leave up to one period's energy for the loop below. If nothing were left, a radio that
        # spends nothing asleep would get the time of its next wake-up as result, and not the end of the window in which
        # the energy was spent.
        whole = max(0, math.ceil((energy - spare) / each) - 1)
        time, left = start + whole * self.period, max(0.0, energy - whole * each)
        begins = self._place(time)[0] * self.period + self.offset
        for until, power in self._changes(awake, asleep):
            end = begins + until
            if power * (end - time) >= left - spare and end > time:
                return time + left / power if power else time
            left -= power * max(0.0, end - time)
            time = max(time, end)
        return time

    def _changes(self, awake: float, asleep: float) -> Iterator[tuple[float, float]]:
        """Yield (end, power) of each span of two successive periods in which the radio is awake or asleep.

        The end is in seconds from the beginning of the first period. The power (W) is ``awake`` or ``asleep``.
        """
        for begins in (0.0, self.period):
            for start, seconds in self.windows:
                yield begins + start, asleep
                yield begins + start + seconds, awake
            yield begins + self.period, asleep

    def _place(self, time: float) -> tuple[int, float]:
        """Return the index of the period that contains a time (s), and the seconds since the period's start."""
        since = time - self.offset
        number = math.floor((since + self._rounding(time)) / self.period)
        return number, max(0.0, since - number * self.period)

    def _rounding(self, time: float) -> float:
        """Return the tolerance (s) by which a rounded time may miss the edge of a window."""
        return min(_ROUNDING * self.period, max(_OF_WINDOW * self.shortest, 4 * math.ulp(time)))

    def _until(self, time: float) -> float:
        number, phase = self._place(time)
        # Not sum(), which compensates for rounding since Python 3.12: the compiled version adds plainly.
        total = 0.0
        for start, seconds in self.windows:
            total += min(max(phase - start, 0.0), seconds)
        return number * self.awake + total


# --- what is spent ----------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Reception:
    """A frame that a node hears: its start and end (s), and the energy of its bits divided by its duration (W)."""

    start: float
    end: float
    watts: float


class Meter:
    """Meters the energy of one node.

    The stored sums cover the time up to the last change of a state. A query adds the energy spent since then to its
    result, but does not change the sums.

    The methods that run for each frame (`transmit`, `receive`, `_advance`, `_lately`) have compiled versions in
    `_mac.pyx`.
    """

    def __init__(self, energy: Energy, schedule: Schedule | None) -> None:
        self.energy = energy
        self._schedule = schedule
        # The seconds in each of the `STATES` until the last change of a state.
        self._seconds: Spent = 0.0, 0.0, 0.0, 0.0
        # The energy (J) of the bits sent and heard until the last change of a state.
        self._bit_energy = 0.0
        # The time (s) of the last change of a state.
        self._since = 0.0
        self._on = True
        # Whether the agent has switched the receiver on.
        self._listening = True
        # The current state of each part of the node other than the radio.
        self._states: dict[str, str] = {}
        # The seconds that each part other than the radio spent in each state until the last change of a state.
        self._part_seconds = {(part, state): 0.0 for part, each in energy.states.items() for state in each}
        # The total power (W) that the parts other than the radio draw in their current states.
        self._part_watts = 0.0
        # {name of an expense: joules} of the expenses counted by `spend`.
        self._at_once: dict[str, float] = {}
        self._reset_states()
        # `sends_until`: when the node's latest transmission ends (s). `_hears_until`: when all frames that the node
        # hears have ended (s).
        self.sends_until = self._hears_until = 0.0
        self._bit_watts = 0.0
        # The power (W) drawn while sending at the transmit power that the agent has set.
        self.transmit_watts = energy.transmit
        # `_more_watts` is the power (W) drawn to send the current frame, minus ``energy.transmit``. `_more_energy` (J)
        # is the sum of this difference × time over all frames, up to the last change of a state.
        self._more_watts = self._more_energy = 0.0
        self._heard: list[Reception] = []
        # `died_at`: when the battery ran out (s); infinite if it has not. `dies_at`: when it will run out (s); infinite
        # as long as `BatteryWatch` has not computed this time.
        self.died_at = self.dies_at = math.inf
        # `committed` is the energy (J) of all frames so far, counting frames under way in full. When `committed`
        # exceeds `allowance` (J), `BatteryWatch` must plan its next check anew.
        self.committed, self.allowance = 0.0, math.inf
        # The energy (J) of the last frame that was sent or given up.
        self.last_frame = 0.0

    @property
    def busy_until(self) -> float:
        """The time (s) at which all frames that the node sends or hears have ended."""
        return max(self.sends_until, self._hears_until)

    def transmit(self, start: float, end: float, bits: int, distance: float, watts: float) -> float:
        """Count a frame sent from ``start`` to ``end`` (s) over ``distance`` metres at ``watts``; return its joules.

        The node hears no other frame from ``start`` to ``end``.
        """
        # A node that begins to send does not hear a frame that begins at the same instant, even if that frame was
        # counted first. "The same instant" means within twice `time_tolerance`. Once would be too little: a node may
        # retransmit at a time-out, which comes one `time_tolerance` late, while another frame begins at the exact
        # time-out. Rounding would then decide whether the node hears it.
        self._hear_only([each for each in self._heard if each.start < start - 2 * time_tolerance(start)])
        self._advance(start)
        joules = self.energy.to_send(bits, 0.0, distance)
        self.sends_until, self._bit_watts = end, self._watts(start, end, joules)
        self._more_watts = watts - self.energy.transmit
        joules = watts * (end - start) + joules
        self.committed += joules
        return joules

    def receive(self, start: float, end: float, bits: int) -> Reception:
        """Count a frame heard from ``start`` to ``end`` (s); overlapping frames draw the receive power only once."""
        self._advance(start)
        energy = self.energy
        joules = energy.receive_bit * bits
        reception = Reception(start, end, self._watts(start, end, joules) if joules else 0.0)
        if start < self._hears_until:
            self._heard = [each for each in self._heard if each.end > start]
            self._heard.append(reception)
        else:
            self._heard = [reception]
        more = end - max(start, self._hears_until, self.sends_until)
        if more > 0:
            joules += energy.receive * more
        if end > self._hears_until:
            self._hears_until = end
        self.committed += joules
        return reception

    def hears_no_more(self, reception: Reception, now: float) -> None:
        """End the reception of a frame at ``now`` (s), because its sender went off or this node stopped receiving."""
        self._advance(now)
        reception.end = min(reception.end, now)
        self._hear_only(self._heard)

    def switch(self, on: bool, now: float) -> None:
        """Switch the node on or off at the time ``now`` (s); a node that is off spends nothing."""
        self._advance(now)
        self._on, self._listening = on, True
        self.sends_until, self._hears_until = min(self.sends_until, now), min(self._hears_until, now)
        self._heard = []
        self.transmit_watts = self.energy.transmit
        self._reset_states()

    def listen(self, on: bool, now: float) -> None:
        """Record that the agent switches the receiver on or off at the time ``now`` (s)."""
        self._advance(now)
        self._listening = on

    def enter(self, part: str, state: str, now: float) -> None:
        """Put a part into another state at the time ``now`` (s)."""
        self._advance(now)
        self._states[part] = state
        self._part_watts = sum(self.energy.states[part][state] for part, state in self._states.items())

    def spend(self, what: str, joules: float, now: float) -> None:
        """Count an expense of ``joules`` at the time ``now`` (s), but at most the energy left in the battery."""
        joules = min(joules, self.left(now)) if self._on else 0.0
        self._at_once[what] = self._at_once.get(what, 0.0) + joules

    def seconds(self, now: float) -> Spent:
        """Return the seconds in each of the `STATES` until the time ``now`` (s)."""
        (sent, received, listened, slept), more = self._seconds, self._lately(now)
        return sent + more[0], received + more[1], listened + more[2], slept + more[3]

    def used(self, now: float) -> float:
        """Return the energy (J) used until the time ``now`` (s)."""
        energy, more = self.energy, self._lately(now)
        powers = energy.transmit, energy.receive, energy.listen, energy.sleep
        seconds = map(float.__add__, self._seconds, more)
        radio = sum(map(float.__mul__, powers, seconds), 0.0) + self._bit_energy + more[4]
        radio += self._more_energy + self._more_watts * more[0]
        if not (self._part_seconds or self._at_once):
            return radio
        parts = (self.energy.states[part][state] * each for (part, state), each in self.part_seconds(now).items())
        return radio + sum(parts) + sum(self._at_once.values())

    def part_seconds(self, now: float) -> dict[tuple[str, str], float]:
        """Return the seconds in each (part, state) until the time ``now`` (s)."""
        seconds = self._part_seconds.copy()
        if self._on and now > self._since:
            for each in self._states.items():
                seconds[each] += now - self._since
        return seconds

    def columns(self, now: float) -> dict[str, float]:
        """Return the columns of `netsim.Run.energy` with seconds and joules by state and part, until ``now`` (s).

        The joules add up to `used`.
        """
        energy, parts = self.energy, self.part_seconds(now)
        found = {f"{part}_{state}_s": seconds for (part, state), seconds in parts.items()}
        for state, seconds in zip(STATES, self.seconds(now), strict=True):
            found[f"{state}_j"] = getattr(energy, state) * seconds
        lately = self._lately(now)
        found["transmit_j"] += self._more_energy + self._more_watts * lately[0]
        found["bits_j"] = self._bit_energy + lately[4]
        found |= {f"{part}_{state}_j": energy.states[part][state] * each for (part, state), each in parts.items()}
        return found | {f"{what}_j": joules for what, joules in self._at_once.items()}

    def left(self, now: float) -> float:
        """Return the energy (J) left in the battery; infinite on mains."""
        return math.inf if self.energy.battery is None else max(0.0, self.energy.battery - self.used(now))

    def uncommitted(self, now: float) -> float:
        """Return the energy (J) that will be left in the battery when all frames under way have ended."""
        return self.left(max(now, self.busy_until))

    def idle_until(self, now: float, energy: float) -> float:
        """Return the time (s) at which ``energy`` (J) is spent if no frame begins after ``now``; infinite if never."""
        awake, asleep = self.energy.listen + self._part_watts, self.energy.sleep + self._part_watts
        if self._schedule is None or not self._listening:
            idle = awake if self._listening else asleep
            return now + energy / idle if idle else math.inf
        return self._schedule.when_spent(now, energy, awake, asleep, self._spare)

    @property
    def _spare(self) -> float:
        """The rounding tolerance of the battery's energy, in joules."""
        return (self.energy.battery or 0.0) * check.ROUNDING

    def empty_at(self, now: float) -> float:
        """Return the time (s) at which the battery is empty if no further frame begins; infinite if never."""
        # The battery counts as empty if at most ``spare`` joules (a rounding tolerance) are left.
        energy, time, spare = self.energy, now, self._spare
        left = self.left(now)
        for end in sorted({self.sends_until, *(each.end for each in self._heard)}):
            if end <= time:
                continue
            if left <= spare:
                break
            if time < self.sends_until:
                power = energy.transmit + self._more_watts + self._bit_watts
            else:
                power = energy.receive + sum(each.watts for each in self._heard if each.end > time)
            power += self._part_watts
            if power * (end - time) >= left - spare:
                return time + left / power
            left -= power * (end - time)
            time = end
        return time if left <= spare else self.idle_until(time, left)

    def _hear_only(self, heard: list[Reception]) -> None:
        """Replace the list of frames that the node is hearing, and compute the time at which all of them have ended."""
        self._heard = heard
        self._hears_until = max((each.end for each in heard), default=0.0)

    def _watts(self, start: float, end: float, joules: float) -> float:
        """Return the energy ``joules`` of a frame's bits divided by the frame's duration, in watts.

        If the duration is 0, count the energy immediately and return 0.
        """
        if end > start:
            return joules / (end - start)
        self._bit_energy += joules
        return 0.0

    def _advance(self, now: float) -> None:
        """Extend the sums to the time ``now`` (s); every method that changes a state calls this first."""
        if now > self._since:
            more, (sent, received, listened, slept) = self._lately(now), self._seconds
            self._seconds = sent + more[0], received + more[1], listened + more[2], slept + more[3]
            self._bit_energy += more[4]
            self._more_energy += self._more_watts * more[0]
            if self._part_seconds:
                self._part_seconds = self.part_seconds(now)
            self._since = now

    def _reset_states(self) -> None:
        """Put each part into its first state."""
        self._states = {part: next(iter(each)) for part, each in self.energy.states.items()}
        self._part_watts = sum(self.energy.states[part][state] for part, state in self._states.items())

    def _lately(self, now: float) -> tuple[float, float, float, float, float]:
        """Return the seconds in each of the `STATES` and the joules of bits since the last change of a state."""
        since = self._since
        if not self._on or now <= since:
            return 0.0, 0.0, 0.0, 0.0, 0.0
        # Sending takes precedence over receiving, receiving over listening, and listening over sleep.
        sent = min(max(self.sends_until, since), now)
        received = min(max(self._hears_until, sent), now)
        if not self._listening:
            awake = 0.0
        else:
            awake = now - received if self._schedule is None else self._schedule.awake_seconds(received, now)
        bits = self._bit_watts * (sent - since)
        for each in self._heard if self.energy.receive_bit else ():
            if each.end > sent:
                bits += each.watts * (min(each.end, now) - sent)
        return sent - since, received - sent, awake, max(0.0, now - received - awake), bits


class EnergyAccount:
    """An agent's access to its node's energy (`netsim.Agent.energy`): read it, set states of parts, spend joules."""

    def __init__(self, mac: "Mac", loop: Loop) -> None:
        assert mac.meter is not None
        self._mac, self._meter, self._now = mac, mac.meter, loop.now

    @property
    def used(self) -> float:
        """The energy used until now, in joules."""
        return self._meter.used(self._now())

    @property
    def left(self) -> float:
        """The energy left in the battery, in joules; infinite on mains."""
        return self._meter.left(self._now())

    @property
    def whole(self) -> float | None:
        """The energy of the full battery, in joules; None on mains."""
        return self._meter.energy.battery

    @property
    def last_frame(self) -> float:
        """The energy (J) of the last frame sent or given up, with its retransmissions; 0 before the first frame."""
        return self._meter.last_frame

    def enter(self, part: str, state: str) -> None:
        """Put a part of the node, such as ``"mcu"``, into another of its states in ``Energy.states``.

        Raises
        ------
        BadInput
            If ``Energy(states=...)`` lacks the part or the state.
        """
        states = self._meter.energy.states
        if not states:
            raise check.refuse("part", part, "one of Energy(states=...), which has none")
        check.one_of("part", part, states)
        check.one_of("state", state, states[part])
        now = self._now()
        self._meter.enter(part, state, now)
        self._mac.medium.watch.plan(self._mac, now)

    def spend(self, what: str, joules: float) -> None:
        """Count ``joules`` under the name ``what``; `netsim.Agent.spend` calls this method."""
        taken = [f"{part}_{state}" for part, each in self._meter.energy.states.items() for state in each]
        if not isinstance(what, str) or what in ("", *_COLUMNS, *taken):
            raise check.refuse("what", what, "a name that no state and no column of Run.energy has")
        now = self._now()
        self._meter.spend(what, check.finite("joules", joules, low=0), now)
        self._mac.medium.watch.plan(self._mac, now)

    def __repr__(self) -> str:
        return f"<energy: {self.used:g} J used, {self.left:g} J left>"


class BatteryWatch:
    """Calls ``on_death(mac, time)`` for each node whose battery runs out.

    The watch is an `Onlooker` of the clock: the clock calls `look` at the planned times, but unlike a timer, a planned
    time does not keep a run going.
    """

    def __init__(self, loop: Loop, on_death: Callable[["Mac", float], None]) -> None:
        self._loop = loop
        self._on_death = on_death
        self._looks: list[tuple[float, int, Mac]] = []
        self._order = itertools.count()
        # {node number: serial number of the node's latest plan}. A plan with a lower number is obsolete.
        self._planned: dict[int, int] = {}

    @property
    def time(self) -> float:
        """The time (s) of the next planned check; infinite if none is planned."""
        looks = self._looks
        while looks and self._planned.get(looks[0][2].number) != looks[0][1]:
            heapq.heappop(looks)
        return looks[0][0] if looks else math.inf

    until = time

    def start(self, macs: "list[Mac]") -> None:
        """Begin to watch, if any node has a battery."""
        for mac in macs:
            self.plan(mac, 0.0)
        if any(mac.meter is not None and mac.meter.energy.battery is not None for mac in macs):
            self._loop.clock.onlookers.append(self)

    def look(self) -> None:
        """Check the nodes whose planned time has come: report an empty battery, or plan the node's next check."""
        now = self.time
        while self.time <= now:
            mac = heapq.heappop(self._looks)[2]
            meter = mac.meter
            assert meter is not None
            if meter.dies_at <= now:
                meter.died_at = now
                self._on_death(mac, now)
            else:
                self.plan(mac, now)

    def plan(self, mac: "Mac", now: float) -> None:
        """Plan the next check of a node, if it has a battery."""
        meter = mac.meter
        if meter is None or meter.energy.battery is None:
            return
        half, begin = meter.uncommitted(now) / 2, max(now, meter.busy_until)
        when = meter.idle_until(begin, half)
        if half <= 0 or when - begin <= time_tolerance(begin):
            # The battery will soon be empty, so compute the exact time. Each further frame may make it earlier, so
            # the allowance of −infinity makes each frame plan again.
            when = meter.dies_at = meter.empty_at(now)
            meter.allowance = -math.inf
        else:
            meter.dies_at = math.inf
            meter.allowance = meter.committed + half
        number = self._planned[mac.number] = next(self._order)
        if when < math.inf:
            heapq.heappush(self._looks, (when, number, mac))

    def forget(self, mac: "Mac") -> None:
        """Cancel the planned check of a node that was switched off, because it spends nothing."""
        meter = mac.meter
        assert meter is not None
        self._planned.pop(mac.number, None)
        meter.dies_at = meter.allowance = math.inf
