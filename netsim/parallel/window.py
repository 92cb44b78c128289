"""Virtual time in one of several workers: it never passes the time at which a frame of another worker could arrive.

Before time passes, workers exchange their frames and the times of their next events. Each worker may then advance
without an exchange until the earliest of these times plus the smallest latency of a link between two workers.
"""

import heapq
import math
from typing import TYPE_CHECKING, Any

from netsim.clock.virtual_clock import Ready, Timer, VirtualSelector

if TYPE_CHECKING:
    from netsim.parallel.part import Part

__all__ = ["WindowSelector"]


class WindowSelector(VirtualSelector):
    """Selector whose virtual time passes only with the permission of the worker's `Part`.

    Attributes
    ----------
    window : Part or None
        The `Part` that permits time to pass; None before and after the run.
    set_at : float or None
        The time (s) at which new timers count as set, or None for the current time. Timers due at the same time run in
        the order in which they were set. A timer for another worker's frame counts as set when the frame was sent.
    """

    def __init__(self) -> None:
        super().__init__()
        self.window: Part | None = None
        self.set_at: float | None = None

    def _place(self, first: bool) -> Any:
        set_at = -math.inf if first else self._now if self.set_at is None else self.set_at
        return set_at, next(self._order)

    def set_now(self, time: float) -> None:
        """Advance to ``time`` (s), which another worker has reached, but first call the `onlookers` due before it."""
        while self._look_before(time):
            pass
        self._now = max(time, self._now)

    def _look_before(self, until: float) -> bool:
        """Call the earliest of the `onlookers` if it is due before ``until`` (s); return whether it was called."""
        first = min(self.onlookers, key=lambda each: each.until) if self.onlookers else None
        if first is None or first.until >= until:
            return False
        self._now = max(first.time, self._now)
        first.look()
        return True

    def next_but(self, handle: Timer) -> float:
        """Return the time (s) of the first timer other than ``handle``; infinity if there is none."""
        others = (time for time, _, each, _ in self._timers if each is not handle and not each.cancelled())
        return min(others, default=math.inf)

    def _stand_still(self) -> Ready:
        return super()._stand_still() if self.window is None else self.wait(math.inf)

    def wait(self, until: float) -> Ready:
        """Advance to ``until`` (s), or as far as the `Part` allows."""
        if self.window is not None and not self.window.allows(until):
            # The exchange may advance the clock, so first call any onlooker that is already due.
            if self._look_before(self._now):
                return []
            earliest = self.window.advance(until)
            while self._timers and self._timers[0][2].cancelled():
                heapq.heappop(self._timers)
            # A frame that arrived in the exchange may have set an earlier timer.
            until = self._timers[0][0] if self._timers else math.inf
            if self.window is None or not self.window.allows(until):
                until = earliest
            if not self._now < until < math.inf:
                return []
        return [] if self._look_before(until) else super().wait(until)

    _wait_for_onlookers = wait
