"""Time between processes: the wall clock, from an epoch that all share, read once for each instant.

A timer that is due at a time runs at that time by this clock, although the machine gets to it a little later. So agents
that keep up see the very times of a simulation, and send and draw the same. An agent that falls behind by more than the
slack sees the wall's time instead: its clock jumps, and it leaves out the rounds that have passed meanwhile.
"""

import time

from netsim.clock.virtual_clock import ClockSelector, Ready

__all__ = ["PacedSelector"]

_LONGEST_SLEEP = 3600.0
# Real seconds for which sockets are read before a timer that is due runs.
_TAKING_IN = 0.02


class PacedSelector(ClockSelector):
    """Simulated time that passes ``speed`` times as fast as on the wall, in instants.

    It is 0 at ``epoch``, in seconds of `time.monotonic`. An instant may come ``slack`` simulated seconds late and still
    have the time that it was to have.
    """

    def __init__(self, epoch: float, speed: float, slack: float) -> None:
        super().__init__()
        self.limit = float("inf")
        self.speed = speed
        # How often the clock jumped, and how late (real s) an instant came at most.
        self.overruns = 0
        self.longest_lag = 0.0
        self._epoch = epoch
        self._slack = slack
        now = self.wall()
        # The first instant, too, may come a little late.
        self._now = 0.0 if 0 < now <= slack else now
        # The time that was due when sockets were last asked, and until when (real) they may be.
        self._due = float("-inf")
        self._take_until = 0.0

    def wall(self) -> float:
        """Return the wall's time, in simulated seconds since the epoch."""
        return (time.monotonic() - self._epoch) * self.speed

    def now(self) -> float:
        """Return the time of the present instant, in simulated seconds."""
        return self._now

    def wait(self, until: float) -> Ready:
        """Sleep until a time (s) or until a socket is ready; what has come is read before timers run."""
        wall = self.wall()
        if wall < until:
            ready = self._sockets.select(min((until - wall) / self.speed, _LONGEST_SLEEP))
            wall = self.wall()
            if wall < until:
                self._now = max(self._now, wall)
                return ready
            if ready:
                return ready
        if ready := self._taken_in(until):
            return ready
        lag = wall - until
        self.longest_lag = max(self.longest_lag, lag / self.speed)
        self.overruns += lag > self._slack
        self._now = wall if lag > self._slack else max(self._now, until)
        return []

    def _taken_in(self, due: float) -> Ready:
        """Return sockets that are ready, for a limited time: other processes could keep one ready for ever."""
        real = time.monotonic()
        if due != self._due:
            self._due = due
            self._take_until = real + max(_TAKING_IN, 0.25 * self._slack / self.speed)
        return self._sockets.select(0) if real < self._take_until else []
