"""What a shared medium has to do, in order of time: many events, one timer of the loop.

What is due at a time is done before anything that agents do then, so an agent finds all that ended at that instant. The
timer exists only while something is to come, so it keeps no run from standing still, and when the run is over none is
left.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from contextvars import copy_context

from netsim.clock.clock import Loop

__all__ = ["Agenda"]


class Agenda:
    """Calls back at set times, on one loop.

    Attributes
    ----------
    done : int
        How many events there were.
    """

    __slots__ = ("_context", "_events", "_loop", "_order", "_timer", "done")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        # Made by whoever runs the network: what happens on the air belongs to no agent.
        self._context = copy_context()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self.done = 0

    def at(self, time: float, call: Callable[[float], None]) -> None:
        """Call ``call`` with ``time`` (s) at that time; those of one time in the order in which they were set."""
        heapq.heappush(self._events, (time, next(self._order), call))
        if self._timer is None or time < self._timer.when():
            self._set()

    def catch_up(self, now: float) -> None:
        """Do what was due before a time (s): real time may pass while others act."""
        events = self._events
        while events and events[0][0] < now:
            self._next()

    def stop(self) -> None:
        """Do nothing any more."""
        self._events.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_first_at(self._events[0][0], self._due, self._context)

    def _due(self) -> None:
        self._timer = None
        events, now = self._events, self._loop.now()
        while events and events[0][0] <= now:
            self._next()
        if events and self._timer is None:
            self._set()

    def _next(self) -> None:
        time, _, call = heapq.heappop(self._events)
        self.done += 1
        call(time)
