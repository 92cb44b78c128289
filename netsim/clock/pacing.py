"""The clock of a run in several processes: real time since a shared epoch, read once per simulated instant.

When a timer runs, this clock shows the time for which the timer was set, although the machine runs it slightly later.
So agents that are fast enough see exactly the times of a simulation in virtual time, send the same frames and draw the
same random numbers. If a process falls behind by more than the slack, its clock jumps to the real time, and its agents
skip the rounds that have passed.
"""

import time

from netsim.clock.virtual_clock import ClockSelector, Ready

__all__ = ["PacedSelector"]

_LONGEST_SLEEP = 3600.0
# Once a timer is due, sockets are read before the timer runs, for at most this long (real s) or a quarter of the slack,
# whichever is longer.
_READ_TIME = 0.02


class PacedSelector(ClockSelector):
    """Simulated time that passes ``pace`` times as fast as real time and is constant during an instant.

    The simulated time is 0 at ``epoch``, in seconds of `time.monotonic`. A timer that runs at most ``slack`` simulated
    seconds late still sees the time for which it was set.
    """

    def __init__(self, epoch: float, pace: float, slack: float) -> None:
        super().__init__()
        self.limit = float("inf")
        self.pace = pace
        # The number of times that the clock jumped to the real time, because a timer ran later than the slack allows.
        self.overruns = 0
        # The longest time (real s) by which a timer ran late.
        self.longest_lag = 0.0
        self._epoch = epoch
        self._slack = slack
        now = self.wall()
        # If the process starts late by at most the slack, its time still begins at 0.
        self._now = 0.0 if 0 < now <= slack else now
        # Sockets are read before a due timer runs. `_due`: the time (simulated s) of the last timer for which this was
        # done. `_read_until`: the real time (s) until which sockets may be read before that timer runs.
        self._due = float("-inf")
        self._read_until = 0.0

    def wall(self) -> float:
        """Return the real time since the epoch, in simulated seconds."""
        return (time.monotonic() - self._epoch) * self.pace

    def now(self) -> float:
        """Return the time of the current instant, in simulated seconds."""
        return self._now

    def wait(self, until: float) -> Ready:
        """Sleep until the time ``until`` (s) or until a socket is ready; sockets are read before timers run."""
        wall = self.wall()
        if wall < until:
            ready = self._sockets.select(min((until - wall) / self.pace, _LONGEST_SLEEP))
            wall = self.wall()
            if wall < until:
                self._now = max(self._now, wall)
                return ready
            if ready:
                return ready
        if ready := self._read_sockets(until):
            return ready
        lag = wall - until
        self.longest_lag = max(self.longest_lag, lag / self.pace)
        self.overruns += lag > self._slack
        self._now = wall if lag > self._slack else max(self._now, until)
        return []

    def _read_sockets(self, due: float) -> Ready:
        """Return ready sockets; none after a time limit, so that the timer runs even if a socket is always ready."""
        real = time.monotonic()
        if due != self._due:
            self._due = due
            self._read_until = real + max(_READ_TIME, 0.25 * self._slack / self.pace)
        return self._sockets.select(0) if real < self._read_until else []
