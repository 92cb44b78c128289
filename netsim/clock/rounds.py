"""Rounds: round k lasts from (k − 1)·period to k·period of simulated time, and closes even if frames are missing.

If the network has compute times, a round lasts longer by the compute time of its slowest node.

At the boundary between rounds k and k + 1, three things happen in order, at the same simulated time. First, tasks that
wait for round k to close resume. Second, once no task is ready, the results of round k are recorded, so that probes see
the state of every agent after the round. Third, round k + 1 opens if a task waits for it.

Sums of latencies and periods are rounded, so all times that differ from a boundary by at most the largest error of such
a sum (`RoundClock._slack`) are treated as equal to the boundary. A frame that arrives at one of these times is too late
for the round that closes there. Use `RoundClock.deadline` to compare a time with the end of a round.
"""

import asyncio
import math
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field

from netsim.clock.clock import Loop
from netsim.clock.compute import ComputeTimes
from netsim.core import RoundBarrier
from netsim.core.round_barrier import RoundBarrier as StepwiseBarrier
from netsim.errors import NetsimError

__all__ = ["SHORTEST_ROUND", "RoundClock", "distinguishable"]

SHORTEST_ROUND = 1e-9
"""The minimum round period in seconds."""

_FAR = 1e6
"""With compute times, `RoundClock.snap` returns times later than this many periods unchanged.

To find the nearest boundary, `snap` would have to draw the compute times of all rounds until then.
"""


def distinguishable(period: float, time: float) -> bool:
    """Return whether rounds of ``period`` seconds greatly exceed the rounding errors of times at ``time`` (s)."""
    return 16 * math.ulp(time) < period


@dataclass(slots=True, eq=False, repr=False)
class RoundClock:
    """Opens and closes rounds as long as some agent participates.

    Parameters
    ----------
    period : float
        Length of a round in seconds.
    on_round_end : callable
        Called with the number of each round that ended.
    offset : float
        Shift of all rounds in seconds; with a negative shift, rounds begin earlier and the first round is shorter.
    reference : RoundClock, optional
        The network's round clock, for the clock of an agent with a skewed clock. The network's clock also opens rounds
        as long as an agent participates in rounds of this clock.

    Attributes
    ----------
    closed : int
        The number of the last closed round.
    open_round : int
        The number of the open round or, if none is open, of the last one; 0 before the first.
    open_deadline : float
        The `deadline` of the open round.
    compute : ComputeTimes or None
        The compute times that lengthen the rounds; None if every round lasts one period.
    """

    loop: Loop
    period: float
    on_round_end: Callable[[int], None]
    offset: float = 0.0
    reference: "RoundClock | None" = None
    closed: int = 0
    open_round: int = 0
    open_deadline: float = math.inf
    compute: ComputeTimes | None = None
    _followers: "list[RoundClock]" = field(default_factory=list)
    _opening: RoundBarrier = field(init=False)
    _closing: RoundBarrier = field(init=False)
    # The round that closed at this instant and for which `on_round_end` was not called yet; 0 if there is none.
    _unwritten: int = 0
    # The context of the timers; None: that of the agent that first waits for the round.
    _context: Context | None = None
    # The timer of the next boundary, while a round is open or about to open.
    _timer: asyncio.TimerHandle | None = None
    # When the next round opens (s): −∞ if a round is open, ∞ if no round is scheduled.
    _opens_at: float = math.inf

    def __post_init__(self) -> None:
        self._opening, self._closing = RoundBarrier(self.loop), RoundBarrier(self.loop)
        if self.reference is not None:
            self.reference._followers.append(self)

    def resume_by_steps(self, context: Context) -> None:
        """From now on, resume each waiting task by a separate callback, and set timers in a context without an agent.

        Called before the first round.
        """
        self._context = context
        self._opening, self._closing = StepwiseBarrier(self.loop), StepwiseBarrier(self.loop)

    def close_time(self, round_number: int) -> float:
        """Return the time (s) at which a round closes."""
        end = self.offset + round_number * self.period
        return end if self.compute is None or round_number <= 0 else end + self.compute.waited(round_number)

    def length(self, round_number: int) -> float:
        """Return the length (s) of a round."""
        if self.compute is None:
            return self.period
        return self.close_time(round_number) - self.close_time(round_number - 1)

    def number_at(self, time: float, rounding: Callable[[float], int]) -> int:
        """Return the number of the round that closes at ``time`` (s).

        If ``time`` lies between two closing times, ``rounding`` chooses one of the two rounds.
        """
        if self.compute is None:
            return rounding((time - self.offset) / self.period)
        # Find the last round that has closed by ``time``: first in steps of doubling length, then by bisection. Compute
        # times only lengthen rounds, so at most as many rounds have closed as would have without compute times.
        low = self.closed if self.close_time(self.closed) <= time else 0
        high, step = max(math.floor((time - self.offset) / self.period), 0) + 1, 1
        while low + step < high and self.close_time(low + step) <= time:
            low, step = low + step, 2 * step
        high = min(high, low + step)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.close_time(middle) <= time else (low, middle)
        begin, end = self.close_time(low), self.close_time(low + 1)
        return low + rounding((time - begin) / (end - begin)) if time > begin else low

    def deadline(self, round_number: int) -> float:
        """Return the time (s) before which a frame of a round must arrive; infinity for round 0, which is no round."""
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
        """Return ``time`` (s) or, if it differs from a round's closing time by rounding errors only, the closing time.

        The tolerance is ``widths`` times the largest rounding error of a sum of periods near ``time`` (`_slack`).
        """
        if self.compute is not None and time > _FAR * self.period:
            return time
        boundary = self.close_time(self.number_at(time, round))
        return boundary if abs(boundary - time) <= widths * self._slack(time) else time

    def instant_end(self, time: float) -> float:
        """Return the latest time (s) that is treated as equal to ``time`` (s), being later only by rounding errors."""
        return time + self._slack(time)

    def before(self, now: float) -> float:
        """Return the time (s) before which arrivals precede the instant ``now``.

        The result is ``now``, unless a round closes at ``now``. Then it is the round's deadline, because arrivals at or
        after the deadline are treated as arrivals at ``now``.
        """
        number = self.number_at(now, round)
        return min(now, self.deadline(number)) if self.is_closing(number, now) else now

    def opening(self) -> asyncio.Future[int]:
        """Return a future that yields the next round's number when that round opens.

        Raises NetsimError if the time is so large that its rounding error is as long as a round.
        """
        if self._opens_at > -math.inf:
            self._open_by(self.close_time(self._passed(math.ceil)))
        if self.reference is not None:
            self.reference._open_for_follower(self._opens_at)
        return self._opening.wait()

    def next_number(self) -> int:
        """Return the number of the round that opens next."""
        # If now is a boundary, up to rounding errors, the round that begins at the boundary may be open already.
        return max(self._passed(math.ceil), self.open_round) + 1

    def _open_by(self, boundary: float) -> None:
        """Schedule the next round to open at a boundary (s), unless a round is open or opens earlier."""
        boundary = max(boundary, 0.0)
        if boundary >= self._opens_at:
            return
        if not distinguishable(self.period, boundary):
            raise NetsimError(f"at {boundary:g} s rounds of {self.period:g} s cannot be told apart")
        if self._timer is not None:
            self._timer.cancel()
        self._opens_at = boundary
        opens = self.loop.clock.at_instant_end
        self._timer = self.loop.call_at_simulated(boundary, opens, self._open, context=self._context)

    def _open_for_follower(self, time: float) -> None:
        """Schedule the opening of the round that contains a time (s) or, if that round has begun, of the next round."""
        passed = math.floor((time + self._slack(time)) / self.period) if time > 0 else 0
        self._open_by(self.close_time(max(passed, self._passed(math.ceil))))

    def is_followed(self, number: int) -> bool:
        """Return whether a clock whose ``reference`` is this clock opens a round before round ``number`` closes."""
        end = self.deadline(number)
        return any(clock._opens_at < end for clock in self._followers)

    def _passed(self, rounding: Callable[[float], int]) -> int:
        """Return how many rounds have closed by now or, with ``math.ceil``, will have closed at the next opening."""
        now = self.loop.now()
        slack = -self._slack(now) if rounding is math.ceil else self._slack(now)
        number = self.number_at(now + slack, rounding)
        # At time 0 no round has closed, even if a negative offset makes ``number`` positive.
        return 0 if now <= 0 else max(number, 0)

    @property
    def waiting(self) -> int:
        """The number of tasks that wait for the next round to open."""
        return len(self._opening)

    def closing(self) -> asyncio.Future[int]:
        """Return a future that yields the open round's number when that round closes."""
        return self._closing.wait()

    def stop(self) -> None:
        """Stop opening and closing rounds, because the run is over."""
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
        self.loop.clock.at_instant_end(self._open)

    def _open(self) -> None:
        if self._unwritten:
            self.on_round_end(self._unwritten)
            self._unwritten = 0
        # Skip the rounds that passed while no agent participated.
        number = max(self.closed, self._passed(math.floor)) + 1
        if not len(self._opening) and not self.is_followed(number):
            self._timer, self._opens_at = None, math.inf
            later = min((clock._opens_at for clock in self._followers), default=math.inf)
            if later < math.inf:
                self._open_for_follower(later)
            return
        self._begin(number)
        self._opening.open(number)

    def _begin(self, number: int) -> None:
        """Open a round, and schedule its closing."""
        self.closed, self.open_round, self._opens_at = number - 1, number, -math.inf
        end = self.close_time(number)
        self.open_deadline = end - self._slack(end)
        self._timer = self.loop.call_at_simulated(end, self._close, context=self._context)
