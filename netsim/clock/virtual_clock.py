"""The simulation's clock: a selector, used by an event loop, that advances virtual time or follows the wall clock.

A loop asks its selector to wait for the next event. The virtual selector does not wait: it sets the clock to the next
timer, so the cost of a simulated hour is that of its events. The wall selector sleeps for the simulated time divided by
a pace factor.

The selector, not asyncio's heap, keeps the timers, for three reasons. First, the heap does not preserve the order of
timers of equal time. Second, asyncio passes only the remaining time to its selector, from which the timer's exact time
cannot be recovered because of rounding. Third, asyncio assumes a clock resolution of a nanosecond, which floating-point
times beyond half a year do not have.
"""

import asyncio
import heapq
import itertools
import math
import selectors
import threading
import time
from collections.abc import Callable, Mapping, Sized
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from netsim.errors import Stalled

__all__ = ["LATEST", "ClockSelector", "FirstTimer", "Onlooker", "Ready", "Timer", "VirtualSelector", "WallSelector"]

Ready = list[tuple[selectors.SelectorKey, int]]

LATEST = 1e12
"""The last time (s), 32,000 years: a timer set to a later time never runs."""

PASSES_PER_INSTANT = 1_000_000
"""If virtual time does not advance within this number of passes of an event loop, the run is considered endless."""

PATIENCE = 60.0
"""A loop on the wall clock is considered stalled if it has no timer and receives no data for this long (real s)."""

# The longest single sleep (real s), because epoll refuses timeouts of more than 24 days.
_LONGEST_SLEEP = 3600.0
# How long (real s) a loop at a standstill waits for a thread that may be about to wake it.
_WAKE_UP_TIME = 0.25

# Added to the sort key (`_place`) of timers that run before all others of the same time.
_FIRST = -(2**62)


@dataclass(slots=True, eq=False)
class FirstTimer:
    """A timer that runs before all others due at the same time.

    It costs less than `asyncio.TimerHandle`, which matters to callers that set very many timers.
    """

    when: float
    _context: Context
    _cancelled: bool = False

    def cancel(self) -> None:
        """Prevent the timer from running."""
        self._cancelled = True

    def cancelled(self) -> bool:
        """Return whether the timer was cancelled."""
        return self._cancelled


Timer = asyncio.TimerHandle | FirstTimer


class Onlooker(Protocol):
    """An observer called at certain times, which does not keep a run alive: a probe, watcher, view or battery."""

    @property
    def time(self) -> float:
        """The time (s) of the next call of `look`; each call must be later than the last."""
        ...

    @property
    def until(self) -> float:
        """The end (s) of the instant that begins at ``time``: `look` is called after all events due by this end."""
        ...

    def look(self) -> None:
        """Observe the run; called when all events due by `until` have happened."""
        ...


class ClockSelector(selectors.BaseSelector):
    """A selector that keeps timers, runs callbacks at the end of an instant and detects a standstill.

    The operating system's selector is only used once a socket is registered; until then, `wake` ends a wait.
    Subclasses define how time advances (`wait`) and the current time (`now`, in seconds).

    Attributes
    ----------
    on_standstill : list of callables
        Called when nothing is ready and no timer is set; if the list is empty, a standstill raises `Stalled`.
    on_pass : list of callables
        Called at each pass of the loop.
    on_endless : list of callables
        Called at each pass beyond ``limit``; if the list is empty, such a pass raises `Stalled`.
    onlookers : list of Onlooker
        The observers; each is called before time advances beyond its ``until``. Time advances only if a timer is set.
    passes : int
        Passes of the loop since virtual time last advanced.
    limit : float
        The number of ``passes`` beyond which the loop is considered endless.
    beyond : bool
        Whether a timer was set to a time later than `LATEST`.
    jobs : int
        The number of jobs running in other threads. The loop waits for them without limit; each wakes the loop at its
        end.
    ready : sized
        The loop's callbacks that are ready to run.
    pace : float
        Simulated seconds per real second.
    """

    pace = math.inf

    def __init__(self) -> None:
        # `wake` ends a wait by releasing this lock. `threading.Event` would not be safe: in a signal handler its
        # internal lock could deadlock.
        self._sleep = threading.Lock()
        self._sleep.acquire()
        self._timers: list[tuple[float, Any, Timer, Callable[[], object]]] = []
        self._order = itertools.count()
        self._purge_size = 1000
        self._instant_ends: list[Callable[[], None]] = []
        self.on_standstill: list[Callable[[], None]] = []
        self.on_pass: list[Callable[[], None]] = []
        self.on_endless: list[Callable[[], None]] = []
        self.onlookers: list[Onlooker] = []
        self.passes = 0
        self.limit: float = PASSES_PER_INSTANT
        self.beyond = False
        self.jobs = 0
        # A `Loop` replaces this by its queue of ready callbacks. For other loops this default is never empty, so that
        # `select` returns after one pass.
        self.ready: Sized = (None,)

    @cached_property
    def _sockets(self) -> selectors.BaseSelector:
        """The operating system's selector, created when it is first needed."""
        return selectors.DefaultSelector()

    def now(self) -> float:
        """Return the simulated time in seconds."""
        raise NotImplementedError

    def wait(self, until: float) -> Ready:
        """Let simulated time advance to ``until`` (s) at most; return the sockets that became ready meanwhile."""
        raise NotImplementedError

    def is_alone(self) -> bool:
        """Return whether the running timer is the only event at this time: no callback is ready, no other timer due."""
        return not (self.passes or self.ready or (self._timers and self._timers[0][0] <= self.now()))

    def skip_to(self, time: float) -> bool:
        """Advance virtual time to ``time`` (s) if nothing else can happen before; return whether it was advanced."""
        return False

    def at_instant_end(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when no other callback is ready and no timer is due at the current time."""
        self._instant_ends.append(callback)

    def set_timer(self, time: float, handle: Timer, start: Callable[[], object], first: bool = False) -> None:
        """Call ``start`` at a time (s), unless ``handle`` is cancelled; never if the time is later than `LATEST`.

        Timers with ``first`` run before all others of the same time.
        """
        if time > LATEST:
            self.beyond = self.beyond or time < math.inf
            return
        if len(self._timers) >= self._purge_size:
            # Change the list in place, because `_pass` may be iterating over it.
            self._timers[:] = [timer for timer in self._timers if not timer[2].cancelled()]
            heapq.heapify(self._timers)
            self._purge_size = max(1000, 2 * len(self._timers))
        heapq.heappush(self._timers, (time, self._place(first), handle, start))

    def _place(self, first: bool) -> Any:
        """Return the sort key of a timer among timers of the same time."""
        return next(self._order) + (_FIRST if first else 0)

    def pending(self) -> list[Timer]:
        """Return the timers that are set, in any order."""
        return [handle for _, _, handle, _ in self._timers if not handle.cancelled()]

    def select(self, timeout: float | None = None) -> Ready:
        """Run due timers; if ``timeout`` is None, let time advance until a callback or a socket is ready."""
        ready = self._pass(timeout)
        while timeout is None and not (ready or self.ready):
            ready = self._pass(timeout)
        return ready

    def _pass(self, timeout: float | None) -> Ready:
        """Run due timers; if ``timeout`` is None (no callback is ready), first let time pass to the next timer."""
        self.passes += 1
        if self.passes > self.limit:
            self._too_many_passes()
        for callback in list(self.on_pass) if self.on_pass else ():
            callback()
        timers = self._timers
        # In virtual time, read sockets only if no callback is ready. In real time always read them: otherwise callbacks
        # that keep each other ready would keep sockets from being read.
        ready = [] if timeout is None or self.pace == math.inf else self._sockets.select(0)
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        now = self.now()
        if timeout is None and not (timers and timers[0][0] <= now):
            if self._instant_ends:
                callbacks, self._instant_ends = self._instant_ends, []
                for callback in callbacks:
                    callback()
                return []
            if not timers:
                return self._stand_still()
            ready = self._wait_for_onlookers(timers[0][0]) if self.onlookers else self.wait(timers[0][0])
            now = self.now()
        while timers and timers[0][0] <= now:
            heapq.heappop(timers)[3]()
        return ready

    def _wait_for_onlookers(self, until: float) -> Ready:
        """Let time pass to ``until`` (s) or, if an onlooker is due earlier, to that onlooker's ``time``."""
        first = min(self.onlookers, key=lambda onlooker: onlooker.until)
        if first.until >= until:
            return self.wait(until)
        ready = self.wait(first.time) if self.now() < first.time else []
        # Compare the time, because on the wall clock a socket may have ended the wait early.
        if self.now() >= first.time:
            first.look()
        return ready

    def _too_many_passes(self) -> None:
        for callback in list(self.on_endless):
            callback()
        if not self.on_endless:
            count, self.passes = self.passes - 1, 0
            cause = "a task runs again and again without waiting for time to pass, as with asyncio.sleep(0)"
            raise Stalled(f"at {self.now():g} s time did not advance in {count:,} passes of the event loop: {cause}")

    def _stand_still(self) -> Ready:
        if self.jobs:
            return self._rest()
        if self.on_standstill:
            for callback in list(self.on_standstill):
                callback()
            return []
        # Wait briefly, because a thread may be about to wake the loop: asyncio shuts its executor down in a thread.
        return self._rest(_WAKE_UP_TIME)

    def _rest(self, seconds: float | None = None) -> Ready:
        """Wait until a thread or a socket wakes the loop; raise Stalled if none does so in ``seconds`` (real)."""
        if self.get_map():
            ready = self._sockets.select(seconds)
            woken = bool(ready)
        else:
            ready, woken = [], self._sleep.acquire(timeout=-1 if seconds is None else seconds)
        if not woken and seconds is not None:
            raise Stalled("the event loop waits for what can never come: no timer is set and no task can run")
        return ready

    def wake(self) -> None:
        """End the current or the next wait in `_rest`; called by other threads if the loop has no wake-up pipe."""
        with suppress(RuntimeError):  # The lock was already released, so the next wait ends immediately.
            self._sleep.release()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Register a socket (on the wall clock usually only the loop's own wake-up pipe)."""
        return self._sockets.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Unregister a socket."""
        return self._sockets.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return the registered sockets."""
        return self._sockets.get_map() if "_sockets" in vars(self) else {}

    def close(self) -> None:
        """Remove all timers, and close the operating system's selector if it was made."""
        self._timers.clear()
        if "_sockets" in vars(self):
            self._sockets.close()


class VirtualSelector(ClockSelector):
    """Virtual time, which starts at 0 and jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def now(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def wait(self, until: float) -> Ready:
        """Set the clock to ``until`` (s)."""
        self._now = until
        self.passes = 0
        return []

    def skip_to(self, time: float) -> bool:
        """See `ClockSelector.skip_to`."""
        timers = self._timers
        while timers and timers[0][0] <= time and timers[0][2].cancelled():
            heapq.heappop(timers)
        if self.ready or self._instant_ends or self.on_pass or time > LATEST or (timers and timers[0][0] <= time):
            return False
        for onlooker in self.onlookers:
            if onlooker.until < time:
                return False
        self.wait(time)
        return True


class WallSelector(ClockSelector):
    """Simulated time that runs ``pace`` times as fast as real time; it stays at 0 until the loop first waits.

    Without a timer, data may still arrive from open sockets; the loop counts as stalled after ``patience`` real seconds
    without data.
    """

    def __init__(self, pace: float, patience: float = PATIENCE) -> None:
        super().__init__()
        self._patience = patience
        # Real time advances by itself, so the number of passes is not limited.
        self.limit = math.inf
        self.pace = pace
        self._start: float | None = None

    def now(self) -> float:
        """Return the simulated time in seconds."""
        return 0.0 if self._start is None else (time.monotonic() - self._start) * self.pace

    def wait(self, until: float) -> Ready:
        """Sleep in real time until simulated time ``until`` (s) or until a socket is ready."""
        if self._start is None:
            self._start = time.monotonic()
        return self._sockets.select(min((until - self.now()) / self.pace, _LONGEST_SLEEP))

    def _stand_still(self) -> Ready:
        # The loop's own wake-up pipe is always registered, so a socket is open only if there is more than one entry.
        if len(self._sockets.get_map()) > 1 and (ready := self._sockets.select(self._patience)):
            return ready
        return super()._stand_still()
