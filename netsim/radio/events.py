"""Event queue of a shared medium: ends of back-offs, starts and ends of transmissions, time-outs."""

import heapq
import itertools
from collections.abc import Callable
from contextvars import copy_context
from functools import partial

from netsim.clock.clock import Loop
from netsim.clock.virtual_clock import FirstTimer

__all__ = ["EventQueue"]


class EventQueue:
    """The medium's events in order of time, driven by a single timer of the event loop.

    Events run before the agents act at the same instant, so an agent sees everything that ended at that instant. The
    timer exists only while events are pending, so it neither hides a deadlock of the agents nor outlives the run. As
    long as no agent acts, events run one after another without a return to the event loop.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop, self._clock = loop, loop.clock
        # Events run in the context of the whole run, not in the context of the agent that caused them.
        self._context = copy_context()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = itertools.count()
        self._timer: FirstTimer | None = None
        # The number of events processed.
        self.done = 0

    def at(self, time: float, call: Callable[[float], None]) -> None:
        """Schedule ``call(time)`` at ``time`` (s); calls at equal times run in the order they were scheduled."""
        heapq.heappush(self._events, (time, next(self._order), call))
        if self._timer is None or time < self._timer.when:
            self._set_timer()

    def catch_up(self, now: float) -> None:
        """Run the events that are due before ``now`` (s).

        Such events exist if the run has a wall clock, because time then passes while agents act.
        """
        events = self._events
        while events and events[0][0] < now:
            self._next()

    def stop(self) -> None:
        """Discard all events and cancel the timer."""
        self._events.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        time = self._events[0][0]
        timer = self._timer = FirstTimer(time, self._context)
        self._clock.set_timer(time, timer, partial(self._start, timer), first=True)

    def _start(self, timer: FirstTimer) -> None:
        """Run the due events, immediately if the loop has nothing else to run at this instant.

        Otherwise the loop first runs the other callbacks that are ready.
        """
        if timer is not self._timer:
            return
        if not self._clock.is_alone():
            self._loop.call_soon(self._due, timer, context=self._context)
            return
        try:
            self._context.run(self._due, timer)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            context = {"message": "Exception in an event of the medium", "exception": error, "handle": timer}
            self._loop.call_exception_handler(context)

    def _due(self, timer: FirstTimer) -> None:
        if timer is not self._timer:
            return
        # While events run, `_timer` remains the timer that has fired. No new event is due before that timer's time, so
        # `at` sets no timer for new events. This method sets a timer for the remaining events when it ends.
        events, now = self._events, self._clock.now()
        try:
            while True:
                while events and events[0][0] <= now:
                    self._next()
                if not events or not self._clock.skip_to(events[0][0]):
                    break
                now = events[0][0]
        finally:
            self._timer = None
            if events:
                self._set_timer()

    def _next(self) -> None:
        time, _, call = heapq.heappop(self._events)
        self.done += 1
        call(time)
