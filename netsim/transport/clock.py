"""Time: an asyncio event loop whose clock a selector drives, virtual or paced by the wall clock.

A loop asks its selector to wait until something is to be done. The virtual selector does not wait, it moves the clock
to the next timer, so a simulated hour costs what its events cost. The wall selector waits the real time divided by a
speed factor. The selector keeps the timers itself: asyncio's own heap scrambles timers of equal times, only hears of
the time that is left (a rounding away from the time that was asked for), and takes a nanosecond for the clock's
resolution, which a clock beyond half a year no longer has.
"""

import asyncio
import heapq
import itertools
import math
import selectors
import time
from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Literal, TypeVarTuple

from netsim.check import finite, one_of
from netsim.errors import Stalled

ClockName = Literal["virtual", "wall"]
Ready = list[tuple[selectors.SelectorKey, int]]
_Args = TypeVarTuple("_Args")

# In real seconds.
_LONGEST_SLEEP = 3600.0
_GRACE = 0.25


class InstantSelector(selectors.BaseSelector):
    """A selector that keeps timers, runs callbacks at the end of an instant and reports a standstill.

    Subclasses say how time passes (`wait`) and what time it is (`now`, in seconds).

    Attributes
    ----------
    on_standstill : list of callables
        Called when nothing is ready and no timer is set; without any, a standstill raises `Stalled`.
    """

    def __init__(self) -> None:
        self._sockets = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Callable[[], object]]] = []
        self._order = itertools.count()
        self._room = 1000
        self._instant_ends: list[Callable[[], None]] = []
        self.on_standstill: list[Callable[[], None]] = []

    def now(self) -> float:
        """Return the time in simulated seconds."""
        raise NotImplementedError

    def wait(self, until: float) -> Ready:
        """Let simulated time pass, to ``until`` seconds at most; return sockets that became ready meanwhile."""
        raise NotImplementedError

    def at_instant_end(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when nothing more is ready at the present time."""
        self._instant_ends.append(callback)

    def set_timer(self, handle: asyncio.TimerHandle, start: Callable[[], object]) -> None:
        """Call ``start`` when the time of ``handle`` has come, unless that is cancelled; infinity never comes."""
        if handle.when() == math.inf:
            return
        if len(self._timers) >= self._room:
            self._timers = [timer for timer in self._timers if not timer[2].cancelled()]
            heapq.heapify(self._timers)
            self._room = max(1000, 2 * len(self._timers))
        heapq.heappush(self._timers, (handle.when(), next(self._order), handle, start))

    def select(self, timeout: float | None = None) -> Ready:
        """Start what is due; if ``timeout`` is None (nothing is ready), let time pass to what is next."""
        timers, ready = self._timers, []
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if timeout is None and not (timers and timers[0][0] <= self.now()):
            if self._instant_ends:
                callbacks, self._instant_ends = self._instant_ends, []
                for callback in callbacks:
                    callback()
                return []
            if not timers:
                return self._stand_still()
            ready = self.wait(timers[0][0])
        if timers:
            now = self.now()
            while timers and timers[0][0] <= now:
                heapq.heappop(timers)[3]()
        return ready

    def _stand_still(self) -> Ready:
        if self.on_standstill:
            for callback in list(self.on_standstill):
                callback()
            return []
        # A thread may be about to wake the loop: asyncio ends its executor in one.
        ready = self._sockets.select(_GRACE)
        if not ready:
            raise Stalled("the event loop waits for what can never come: no timer is set and no task can run")
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Register a socket (the loop's own wake-up pipe, usually the only one)."""
        return self._sockets.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Forget a socket."""
        return self._sockets.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return the registered sockets."""
        return self._sockets.get_map()

    def close(self) -> None:
        """Release the operating system's selector."""
        self._timers.clear()
        self._sockets.close()


class VirtualSelector(InstantSelector):
    """Time moves to the next timer at once; it starts at 0."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def now(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def wait(self, until: float) -> Ready:
        """Move the clock."""
        self._now = until
        return []


class WallSelector(InstantSelector):
    """Time passes ``speed`` times as fast as on the wall; it is 0 until the loop first waits."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed
        self._start: float | None = None

    def now(self) -> float:
        """Return the simulated time in seconds."""
        return 0.0 if self._start is None else (time.monotonic() - self._start) * self._speed

    def wait(self, until: float) -> Ready:
        """Sleep for the real time that is left until ``until`` seconds of simulated time."""
        if self._start is None:
            self._start = time.monotonic()
        return self._sockets.select(min((until - self.now()) / self._speed, _LONGEST_SLEEP))


class Loop(asyncio.SelectorEventLoop):
    """An asyncio event loop on simulated time. Timers of the same time run in the order in which they were set."""

    def __init__(self, selector: InstantSelector) -> None:
        self.instants = selector
        super().__init__(selector)

    def time(self) -> float:
        """Return the simulated time in seconds."""
        return self.instants.now()

    def call_at(
        self, when: float, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call ``callback`` at a time (s); at once if that has passed, never if it is infinite."""
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        if math.isnan(when):
            raise ValueError("a timer's time must be a number; it is NaN")
        context = copy_context() if context is None else context
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self.instants.set_timer(timer, partial(self.call_soon, _run, timer, callback, args, context=context))
        return timer


def _run(timer: asyncio.TimerHandle, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
    # Something that ran at the same instant may have cancelled it.
    if not timer.cancelled():
        callback(*args)


def new_loop(clock: ClockName = "virtual", speed: float = 1.0) -> Loop:
    """Return an event loop on virtual time, or on wall-clock time run ``speed`` times as fast.

    Raises
    ------
    BadInput
        If ``clock`` is unknown or ``speed`` is not positive.
    """
    one_of("clock", clock, ("virtual", "wall"))
    speed = finite("speed", speed, above=0)
    return Loop(VirtualSelector() if clock == "virtual" else WallSelector(speed))
