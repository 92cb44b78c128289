"""Batteries that run empty: who looks at them as time passes, without making it pass.

No timer waits for a death, for a timer would let a run that stands still go on for years, until the batteries are
empty. A node is looked at when half of what it has left may have been spent, so its death comes near in some forty
looks; when what is under way, or the next few nanoseconds, will spend the rest, its time is worked out exactly.
"""

import heapq
import itertools
import math
from collections.abc import Callable

from netsim.clock.clock import Loop
from netsim.radio.station import Station
from netsim.transport.transmitter import early

__all__ = ["BatteryWatch"]


class BatteryWatch:
    """Looks at the nodes that have a battery; a `netsim.clock.virtual_clock.Onlooker`.

    Parameters
    ----------
    on_death : callable
        Called with the station of a node whose battery is empty, and that time (s).
    """

    def __init__(self, loop: Loop, on_death: Callable[[Station, float], None]) -> None:
        self._loop = loop
        self._on_death = on_death
        self._looks: list[tuple[float, int, Station]] = []
        self._order = itertools.count()
        # Each node's latest look: earlier plans are void.
        self._planned: dict[int, int] = {}

    @property
    def time(self) -> float:
        """When to look next, in seconds; infinite if never."""
        looks = self._looks
        while looks and self._planned.get(looks[0][2].number) != looks[0][1]:
            heapq.heappop(looks)
        return looks[0][0] if looks else math.inf

    @property
    def until(self) -> float:
        """The end (s) of that time."""
        return self.time

    def start(self, stations: list[Station]) -> None:
        """Look from now on."""
        for station in stations:
            self.plan(station, 0.0)
        self._loop.clock.onlookers.append(self)

    def stop(self) -> None:
        """Look no more."""
        if self in self._loop.clock.onlookers:
            self._loop.clock.onlookers.remove(self)

    def look(self) -> None:
        """Look at the nodes whose turn it is."""
        now = self.time
        while self.time <= now:
            station = heapq.heappop(self._looks)[2]
            meter = station.meter
            assert meter is not None
            if meter.dies_at <= now:
                meter.died_at = now
                self._on_death(station, now)
            else:
                self.plan(station, now)

    def plan(self, station: Station, now: float) -> None:
        """Decide when to look at a node next, if it has a battery."""
        meter = station.meter
        if meter is None or meter.energy.battery is None:
            return
        half, begin = meter.uncommitted(now) / 2, max(now, meter.busy_until)
        when = meter.idle_until(begin, half)
        if half <= 0 or when - begin <= early(begin):
            # It is so near that each frame more may change it.
            when = meter.dies_at = meter.empty_at(now)
            meter.allowance = -math.inf
        else:
            meter.dies_at = math.inf
            meter.allowance = meter.committed + half
        number = self._planned[station.number] = next(self._order)
        if when < math.inf:
            heapq.heappush(self._looks, (when, number, station))

    def forget(self, station: Station) -> None:
        """Look at a node no more: it is off, and spends nothing."""
        meter = station.meter
        assert meter is not None
        self._planned.pop(station.number, None)
        meter.dies_at = meter.allowance = math.inf
