"""Batteries that run empty: who looks at them as time passes, without making it pass.

No timer waits for a death, for a timer would let a run that stands still go on for years, until the batteries are
empty. A node is looked at when half of what it has left may have been spent, so its death is found after some forty
looks, to a few nanoseconds.
"""

import heapq
import itertools
import math
from collections.abc import Callable

from netsim.radio.station import Station
from netsim.transport.clock import Loop
from netsim.transport.port import early

__all__ = ["BatteryWatch"]


class BatteryWatch:
    """Looks at the nodes that have a battery; a `netsim.transport.instants.Onlooker`.

    Parameters
    ----------
    on_death : callable
        Called with the station of a node whose battery is empty, at that time.
    """

    def __init__(self, loop: Loop, on_death: Callable[[Station], None]) -> None:
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
            if station.meter is not None and station.meter.energy.battery is not None:
                self.plan(station, 0.0)
        self._loop.instants.onlookers.append(self)

    def stop(self) -> None:
        """Look no more."""
        if self in self._loop.instants.onlookers:
            self._loop.instants.onlookers.remove(self)

    def look(self) -> None:
        """Look at the nodes whose turn it is."""
        now = self.time
        while self.time <= now:
            station = heapq.heappop(self._looks)[2]
            meter = station.meter
            assert meter is not None
            if meter.exhausted and meter.sends_until <= now:
                meter.died_at = now
                meter.allowance = math.inf
                del self._planned[station.number]
                self._on_death(station)
            else:
                self.plan(station, now)

    def plan(self, station: Station, now: float) -> None:
        """Decide when to look at a node next."""
        meter = station.meter
        assert meter is not None
        half = meter.uncommitted(now) / 2
        begin, when = max(now, meter.busy_until), meter.idle_until(now, half)
        if meter.exhausted or half <= 0 or when - begin <= early(begin):
            # What it is sending it still sends.
            when, meter.allowance, meter.exhausted = max(now, meter.sends_until), math.inf, True
        else:
            meter.allowance = meter.committed + half
        number = self._planned[station.number] = next(self._order)
        if when < math.inf:
            heapq.heappush(self._looks, (when, number, station))
