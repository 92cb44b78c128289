"""Rows at a fixed interval, for agents that do not live in rounds: `Network.run(…, sample=seconds)`.

A row is written as time is about to pass its time, so all that was due then has happened. That needs no timer and no
task, so nothing here keeps a run going, wakes an agent or comes between two things that agents do.
"""

import math
from collections.abc import Callable

from netsim.clock.clock import Loop
from netsim.clock.rounds import RoundClock
from netsim.errors import BadInput

__all__ = ["MOST_ROWS", "Sampler"]

MOST_ROWS = 1_000_000
"""How many rows a run may have by sampling."""

Write = Callable[[int, float, float], None]


class Sampler:
    """When rows are due.

    Parameters
    ----------
    loop : Loop
        The run's loop.
    rounds : RoundClock
        The run's rounds: where one closes at a row's time, the row is the round's.
    sample : float
        Seconds from row to row.
    write : callable
        Called with a row's number, its time (s), and the time (s) before which arrivals count.
    fail : callable
        Called with the error, if there are too many.

    Attributes
    ----------
    time : float
        When the next row is due, in seconds.
    until : float
        The end (s) of that instant. Sums of pauses are rounded, so it is as wide as a round's boundary: what is a
        rounding error after a row's time is at it.
    """

    def __init__(
        self, loop: Loop, rounds: RoundClock, sample: float, write: Write, fail: Callable[[BadInput], None]
    ) -> None:
        self._loop = loop
        self._rounds = rounds
        self._sample = sample
        self._write = write
        self._fail = fail
        self._written = 0
        self._last = -math.inf
        self._wait_for(1)

    def start(self) -> None:
        """Look at the run from now on."""
        self._loop.instants.onlookers.append(self)

    def stop(self) -> None:
        """Look no more."""
        if self in self._loop.instants.onlookers:
            self._loop.instants.onlookers.remove(self)

    def look(self) -> None:
        """Write the row that is due."""
        # What arrives at this very instant has arrived: nothing more can happen in it.
        self._row(self.time, math.nextafter(self.until, math.inf))

    def round_ended(self, number: int) -> None:
        """Write the row that is due as a round closes, if one is: the same that the round would have had."""
        close = self._rounds.close_time(number)
        if close == self.time:
            self._row(close, self._rounds.deadline(number))

    def run_ended(self) -> None:
        """Write what is left: the run ends between two rows, or by the wall's clock, which may be late."""
        now = self._loop.now()
        while self.until < now:
            self.look()
        if self._last < now:
            self._row(now, math.nextafter(now, math.inf))

    def _wait_for(self, number: int) -> None:
        # What is meant to be a round's end is to be it, and else to be over when what comes at that end begins.
        self.time = self._rounds.snap(number * self._sample, widths=2)
        self.until = self._rounds.end_of(self.time)

    def _row(self, time: float, until: float) -> None:
        if self._written == MOST_ROWS:
            self.time = self.until = math.inf
            allowed = f"larger: there were {MOST_ROWS:,} rows by {self._last:g} s"
            self._fail(BadInput(f"sample = {self._sample:g}: must be {allowed}"))
            return
        self._written += 1
        self._last = time
        self._wait_for(self._written + 1)
        self._write(self._written, time, until)
