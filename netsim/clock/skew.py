"""A node's own clock, which is off: what time it is there, and when it will be a time there."""

import math

__all__ = ["LocalClock"]


class LocalClock:
    """A clock that is ``offset`` seconds behind at time 0 and needs 1 + ``drift`` seconds for each of its own.

    Attributes
    ----------
    offset : float
        The time (s) at which it shows 0.
    rate : float
        How long (s) a second of its lasts.
    """

    __slots__ = ("offset", "rate")

    def __init__(self, offset: float, drift: float) -> None:
        self.offset = offset
        self.rate = 1.0 + drift

    def local(self, time: float) -> float:
        """Return what it shows at a time (s)."""
        return (time - self.offset) / self.rate

    def true(self, local: float) -> float:
        """Return when (s) it shows ``local`` or, as times are rounded, a little more.

        It never shows less: who sleeps until it shows a time finds that it does, and need not sleep again.
        """
        time = self.offset + local * self.rate
        step = math.ulp(max(abs(time), abs(self.offset)))
        while self.local(time) < local:
            time += step
        return time
