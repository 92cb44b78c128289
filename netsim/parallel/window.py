"""Virtual time in one of several workers: it passes only as far as no frame of another worker can arrive earlier.

Workers exchange their frames and the times of their next events before time passes. The earliest of these times over
all workers, plus the smallest latency of a link between two, bounds the window in which each may go on by itself.
"""

import heapq
import math
from typing import TYPE_CHECKING, Any

from netsim.clock.virtual_clock import Ready, Timer, VirtualSelector

if TYPE_CHECKING:
    from netsim.parallel.part import Part

__all__ = ["WindowSelector"]


class WindowSelector(VirtualSelector):
    """Virtual time that asks its worker's part of the run before it passes.

    Attributes
    ----------
    window : Part or None
        What it asks; None before and after the run.
    set_at : float or None
        The time (s) that counts as that at which timers are set; None: the present. Timers of the same time run in the
        order in which they were set, which for a frame of another worker is when it was sent.
    """

    def __init__(self) -> None:
        super().__init__()
        self.window: Part | None = None
        self.set_at: float | None = None

    def _place(self, first: bool) -> Any:
        set_at = -math.inf if first else self._now if self.set_at is None else self.set_at
        return set_at, next(self._order)

    def set_now(self, time: float) -> None:
        """Let time pass to that of the other workers (s), with the looks that are due."""
        while self._look_before(time):
            pass
        self._now = max(time, self._now)

    def _look_before(self, until: float) -> bool:
        """Let an onlooker look that is due before a time (s); return whether there is one."""
        first = min(self.onlookers, key=lambda each: each.until) if self.onlookers else None
        if first is None or first.until >= until:
            return False
        self._now = max(first.time, self._now)
        first.look()
        return True

    def next_but(self, handle: Timer) -> float:
        """Return the time (s) of the first timer other than this one; infinite if there is none."""
        others = (time for time, _, each, _ in self._timers if each is not handle and not each.cancelled())
        return min(others, default=math.inf)

    def wait(self, until: float) -> Ready:
        """Let time pass to ``until`` (s), or as far as the window allows."""
        return self._go_to(until)

    def _wait_for_onlookers(self, until: float) -> Ready:
        return self._go_to(until)

    def _stand_still(self) -> Ready:
        return super()._stand_still() if self.window is None else self._go_to(math.inf)

    def _go_to(self, until: float) -> Ready:
        """Let time pass to ``until`` (s), or as far as the window allows."""
        if self.window is not None and not self.window.allows(until):
            # The clock may be set by what the others report; what is to be seen at the present is seen now.
            if self._look_before(self._now):
                return []
            earliest = self.window.advance(until)
            while self._timers and self._timers[0][2].cancelled():
                heapq.heappop(self._timers)
            # A frame may have set a timer.
            until = self._timers[0][0] if self._timers else math.inf
            if self.window is None or not self.window.allows(until):
                until = earliest
            if not self._now < until < math.inf:
                return []
        return [] if self._look_before(until) else super().wait(until)
