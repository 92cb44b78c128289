"""Time: an asyncio event loop whose clock a selector drives, virtual or paced by the wall clock.

A loop asks its selector to wait until the next timer. The virtual selector does not wait, it moves the clock there,
so a simulated hour costs what its events cost. The wall selector waits the real time divided by a speed factor.
Both tell when an instant is over: that is when nothing more is ready to run and time is about to move.
"""

import asyncio
import selectors
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from netsim.check import finite, one_of
from netsim.errors import Stalled

ClockName = Literal["virtual", "wall"]


class InstantSelector(selectors.BaseSelector):
    """A selector that runs callbacks at the end of an instant and reports a standstill.

    Subclasses say how time passes (`wait`) and what time it is (`now`, in seconds).
    """

    def __init__(self) -> None:
        self._sockets = selectors.DefaultSelector()
        self._instant_ends: list[Callable[[], None]] = []
        self.on_standstill: Callable[[], None] | None = None

    def now(self) -> float:
        """Return the time in simulated seconds."""
        raise NotImplementedError

    def wait(self, seconds: float) -> list[tuple[selectors.SelectorKey, int]]:
        """Let simulated time pass; return sockets that became ready meanwhile."""
        raise NotImplementedError

    def at_instant_end(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when nothing more is ready at the present time."""
        self._instant_ends.append(callback)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for the next timer (selectors.BaseSelector); None means that there is none."""
        if timeout is not None and timeout <= 0:
            return []
        if self._instant_ends:
            callbacks, self._instant_ends = self._instant_ends, []
            for callback in callbacks:
                callback()
            return []
        if timeout is not None:
            return self.wait(timeout)
        if self.on_standstill is None:
            raise Stalled("the event loop waits for what can never come: no timer is set and no task can run")
        self.on_standstill()
        return []

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
        self._sockets.close()


class VirtualSelector(InstantSelector):
    """Time moves to the next timer at once; it starts at 0."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def now(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def wait(self, seconds: float) -> list[tuple[selectors.SelectorKey, int]]:
        """Move the clock."""
        self._now += seconds
        return []


class WallSelector(InstantSelector):
    """Time passes ``speed`` times as fast as on the wall; it starts at 0."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed
        self._start = time.monotonic()

    def now(self) -> float:
        """Return the simulated time in seconds."""
        return (time.monotonic() - self._start) * self._speed

    def wait(self, seconds: float) -> list[tuple[selectors.SelectorKey, int]]:
        """Sleep for the real time that ``seconds`` of simulated time take."""
        return self._sockets.select(seconds / self._speed)


class Loop(asyncio.SelectorEventLoop):
    """An asyncio event loop on simulated time. Timers of the same time run in the order in which they were set."""

    def __init__(self, selector: InstantSelector) -> None:
        self.instants = selector
        super().__init__(selector)

    def time(self) -> float:
        """Return the simulated time in seconds."""
        return self.instants.now()


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
