"""Rounds: round k lasts from (k − 1)·period to k·period of simulated time, and closes even if frames are missing.

At a boundary three things happen at one instant, in this order: tasks that wait for round k to close go on; when they
are done, the round's row is written (probes see every agent); then round k + 1 opens, if a task waits for it.

Sums of latencies and periods are rounded, so a boundary is an interval of a few rounding errors. A frame that arrives
within it is too late for the round that closes there. Compare times with a round's end by `RoundClock.deadline`.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable

from netsim.clock.clock import Loop
from netsim.core import RoundBarrier
from netsim.errors import NetsimError

__all__ = ["SHORTEST_ROUND", "RoundClock", "distinguishable"]

SHORTEST_ROUND = 1e-9
"""The least period in seconds."""


def distinguishable(period: float, time: float) -> bool:
    """Return whether rounds of ``period`` seconds are much longer than the rounding errors of times at ``time`` (s)."""
    return 16 * math.ulp(time) < period


class RoundClock:
    """Opens and closes rounds while an agent takes part in them.

    Parameters
    ----------
    period : float
        Length of a round in seconds.
    on_round_end : callable
        Called with the number of each round that ended.
    offset : float
        Delay of all rounds in seconds. If it is negative, rounds are early and the first one is shorter.
    reference : RoundClock, optional
        The network's round clock, whose rounds go on while an agent takes part in rounds of this one.

    Attributes
    ----------
    closed : int
        The last closed round.
    open_round : int
        The open round, or else the last one; 0 before the first.
    open_deadline : float
        Its `deadline`.
    """

    __slots__ = (
        "_closing",
        "_followers",
        "_loop",
        "_on_round_end",
        "_opening",
        "_opens_at",
        "_reference",
        "_timer",
        "_unwritten",
        "closed",
        "offset",
        "open_deadline",
        "open_round",
        "period",
    )

    def __init__(
        self,
        loop: Loop,
        period: float,
        on_round_end: Callable[[int], None],
        offset: float = 0.0,
        reference: "RoundClock | None" = None,
    ) -> None:
        self._loop = loop
        self._on_round_end = on_round_end
        self.offset = offset
        self._reference = reference
        self._followers: list[RoundClock] = []
        if reference is not None:
            reference._followers.append(self)
        self._opening = RoundBarrier(loop)
        self._closing = RoundBarrier(loop)
        self.open_round = 0
        self.open_deadline = math.inf
        # The round that closed at this instant and has no row yet; 0: none.
        self._unwritten = 0
        # The timer of the next boundary, while a round is open or about to open.
        self._timer: asyncio.TimerHandle | None = None
        # When the next round opens (s): −∞ if one is open, ∞ if none will.
        self._opens_at = math.inf
        self.period = period
        self.closed = 0

    def close_time(self, round_number: int) -> float:
        """Return the time (s) at which a round closes."""
        return self.offset + round_number * self.period

    def deadline(self, round_number: int) -> float:
        """Return the time (s) before which a frame of a round must arrive; round 0, outside rounds, never closes."""
        if round_number == self.open_round:
            return self.open_deadline
        if round_number == 0:
            return math.inf
        end = self.close_time(round_number)
        return end - self._slack(end)

    def is_closing(self, round_number: int, now: float) -> bool:
        """Return whether ``now`` (s) is the instant at which a round closes."""
        return abs(now - self.close_time(round_number)) <= self._slack(now)

    def snap(self, time: float, widths: int = 1) -> float:
        """Return the closing time (s) of a round if ``time`` differs from it by rounding errors only, else ``time``.

        These errors may be ``widths`` times as wide as a boundary.
        """
        boundary = self.close_time(round((time - self.offset) / self.period))
        return boundary if abs(boundary - time) <= widths * self._slack(time) else time

    def end_of(self, time: float) -> float:
        """Return the end (s) of the instant ``time``, which is as wide as a boundary."""
        return time + self._slack(time)

    def before(self, now: float) -> float:
        """Return the time (s) before which an arrival is before this instant: the deadline if a round closes now."""
        number = round((now - self.offset) / self.period)
        return min(now, self.deadline(number)) if self.is_closing(number, now) else now

    def opening(self) -> Awaitable[int]:
        """Return an awaitable of the next round's number, done when that round opens.

        Raises NetsimError if the time is so large that its rounding error is as long as a round.
        """
        if self._opens_at > -math.inf:
            self._open_by(self.close_time(self._passed(math.ceil)))
        if self._reference is not None:
            self._reference._open_for_follower(self._opens_at)
        return self._opening.wait()

    def next_number(self) -> int:
        """Return the number of the round that opens next."""
        # Within the rounding errors of a boundary, the round may be open already.
        return max(self._passed(math.ceil), self.open_round) + 1

    def _open_by(self, boundary: float) -> None:
        """Open the next round at a boundary (s), unless a round is open or opens earlier."""
        boundary = max(boundary, 0.0)
        if boundary >= self._opens_at:
            return
        if not distinguishable(self.period, boundary):
            raise NetsimError(f"at {boundary:g} s rounds of {self.period:g} s cannot be told apart")
        if self._timer is not None:
            self._timer.cancel()
        self._opens_at = boundary
        self._timer = self._loop.call_at_true(boundary, self._loop.clock.at_instant_end, self._open)

    def _open_for_follower(self, time: float) -> None:
        """Open the round that contains a time (s) or, if its beginning has passed, the next one."""
        passed = math.floor((time + self._slack(time)) / self.period) if time > 0 else 0
        self._open_by(self.close_time(max(passed, self._passed(math.ceil))))

    def is_followed(self, number: int) -> bool:
        """Return whether a follower has, or will have, an open round before round ``number`` of this clock closes."""
        end = self.deadline(number)
        return any(clock._opens_at < end for clock in self._followers)

    def _passed(self, rounding: Callable[[float], int]) -> int:
        """Return the number of rounds closed by now; with ``math.ceil``, by the opening of the next one."""
        now = self._loop.now()
        slack = -self._slack(now) if rounding is math.ceil else self._slack(now)
        number = rounding((now + slack - self.offset) / self.period)
        # If the clock is early, its first round began before the run.
        return 0 if now <= 0 else max(number, 0)

    @property
    def waiting(self) -> int:
        """The number of tasks that wait for the next round to open."""
        return len(self._opening)

    def closing(self) -> Awaitable[int]:
        """Return an awaitable that is done when the open round closes."""
        return self._closing.wait()

    def stop(self) -> None:
        """Stop opening and closing rounds."""
        if self._timer is not None:
            self._timer.cancel()
        self._opening.clear()
        self._unwritten = 0

    def _slack(self, now: float) -> float:
        """Return the largest rounding error (s) of a sum of periods near a time (s)."""
        return 1e-9 * self.period + 4 * math.ulp(now)

    def _close(self) -> None:
        self.closed = self._unwritten = self.open_round
        self._closing.open(self.closed)
        self._loop.clock.at_instant_end(self._open)

    def _open(self) -> None:
        if self._unwritten:
            self._on_round_end(self._unwritten)
            self._unwritten = 0
        # Skip the rounds that passed while no agent took part.
        closed = max(self.closed, self._passed(math.floor))
        number = closed + 1
        if not len(self._opening) and not self.is_followed(number):
            self._timer, self._opens_at = None, math.inf
            later = min((clock._opens_at for clock in self._followers), default=math.inf)
            if later < math.inf:
                self._open_for_follower(later)
            return
        self.closed, self.open_round, self._opens_at = closed, number, -math.inf
        end = self.close_time(number)
        self.open_deadline = end - self._slack(end)
        self._timer = self._loop.call_at_true(end, self._close)
        self._opening.open(number)
