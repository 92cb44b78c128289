"""When a radio is awake: a duty cycle as the user sets it, and the schedule that one node follows.

All of it is arithmetic on times: no timer wakes anybody, so a schedule keeps no run going.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from netsim.clock.clock import LocalClock
from netsim.util import check

__all__ = ["DutyCycle", "Schedule"]

# Sums of periods are rounded: what is so little of a period before its end is the next one's beginning.
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class DutyCycle:
    """Radios that are on for the first part of each period, and asleep for the rest.

    Parameters
    ----------
    period : float
        Seconds from waking to waking.
    awake : float
        Seconds of it that the radio is on, in (0, ``period``].
    offsets : mapping, optional
        By node, how much later (s) its periods begin; the others' begin at time 0.

    Raises
    ------
    BadInput
        If a value is outside its range.
    """

    period: float
    awake: float
    offsets: Mapping[Any, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        period = check.finite("period", self.period, above=0)
        awake = check.finite("awake", self.awake, above=0)
        if awake > period:
            raise check.refuse("awake", awake, f"at most the period, {period:g} s")
        if not isinstance(self.offsets, Mapping):
            raise check.refuse("offsets", self.offsets, "a mapping {node: seconds}")
        offsets = {node: check.finite(f"offsets[{node!r}]", each) for node, each in self.offsets.items()}
        check.put(self, period=period, awake=awake, offsets=offsets)

    @property
    def share(self) -> float:
        """The share of time that a radio is on."""
        return self.awake / self.period

    def of(self, node: Hashable, clock: LocalClock | None = None) -> "Schedule":
        """Return a node's schedule, by its own clock if that is off."""
        offset, rate = self.offsets.get(node, 0.0), 1.0
        if clock is not None:
            offset, rate = clock.true(offset), clock.rate
        period = self.period * rate
        return Schedule(period, self.awake * rate, offset % period)


class Schedule:
    """One node's times of waking and sleeping.

    Parameters
    ----------
    period, awake : float
        As of `DutyCycle`.
    offset : float
        When a period begins, in seconds, in [0, ``period``).
    """

    __slots__ = ("_awake", "_offset", "_period")

    def __init__(self, period: float, awake: float, offset: float = 0.0) -> None:
        self._period, self._awake, self._offset = period, awake, offset

    def is_awake(self, time: float) -> bool:
        """Return whether the radio is on at a time (s)."""
        return self._is_on(self._place(time)[1])

    def next_awake(self, time: float) -> float:
        """Return the first time (s) from this one on at which the radio is on."""
        return time if self.is_awake(time) else (self._place(time)[0] + 1) * self._period + self._offset

    def awake_seconds(self, start: float, end: float) -> float:
        """Return for how long the radio is on between two times (s)."""
        return self._until(end) - self._until(start)

    def when_spent(self, start: float, energy: float, awake: float, asleep: float, spare: float = 0.0) -> float:
        """Return by when (s) an idle radio has spent ``energy`` (J) from ``start`` on; infinite if never.

        ``awake`` and ``asleep`` are its powers (W) in the two states; ``spare`` (J) is what rounding may have added.
        """
        each = awake * self._awake + asleep * (self._period - self._awake)
        if energy / each == math.inf if each else True:
            return math.inf
        # All but the last period, so that a radio that spends nothing asleep is not found empty only as it wakes.
        whole = max(0, math.ceil((energy - spare) / each) - 1)
        time, left = start + whole * self._period, max(0.0, energy - whole * each)
        begins = self._place(time)[0] * self._period + self._offset
        ends = (self._awake, self._period, self._period + self._awake, 2 * self._period)
        for end, power in zip((begins + each for each in ends), (awake, asleep) * 2, strict=True):
            if power * (end - time) >= left - spare and end > time:
                return time + left / power if power else time
            left -= power * max(0.0, end - time)
            time = max(time, end)
        return time

    def _is_on(self, phase: float) -> bool:
        return phase < self._awake - _ROUNDING * self._period

    def _place(self, time: float) -> tuple[int, float]:
        """Return the number of the period at a time (s), and how far into it that is."""
        since = time - self._offset
        number = math.floor(since / self._period + _ROUNDING)
        return number, max(0.0, since - number * self._period)

    def _until(self, time: float) -> float:
        number, phase = self._place(time)
        return number * self._awake + min(phase, self._awake)
