"""Rounds: round k lasts from (k − 1)·period to k·period of simulated time, and closes whether or not all was heard.

At a boundary three things happen at one instant, in this order: what waits for round k to close goes on; when all of
that is done, the round's row is written (probes see every agent); then round k + 1 opens, if anybody waits for it.

Sums of latencies and periods are rounded, so a boundary is not a point but a few roundings wide: what comes within them
comes at the boundary, and what comes at the boundary comes too late for the round that closes there. Whatever is
compared with a round's end is compared with `RoundClock.deadline`.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable

from netsim.core import Gate
from netsim.transport.clock import Loop

__all__ = ["RoundClock"]


class RoundClock:
    """Opens and closes the rounds of one network, while somebody takes part.

    Parameters
    ----------
    period : float
        Length of a round in seconds.
    on_round_end : callable
        Called with the number of each round that ended.
    offset : float
        Seconds by which its rounds come late; negative: early, and the first one is shorter.
    reference : RoundClock, optional
        The network's own, which goes on as long as somebody takes part in rounds of this one.

    Attributes
    ----------
    closed : int
        The last round that closed.
    open_round : int
        The round that is open, or was the last to be; 0 before the first.
    open_deadline : float
        Its `deadline`.
    """

    __slots__ = (
        "_closing",
        "_ended",
        "_followers",
        "_loop",
        "_offset",
        "_on_round_end",
        "_opening",
        "_reference",
        "_timer",
        "closed",
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
        self._offset = offset
        self._reference = reference
        self._followers: list[RoundClock] = []
        if reference is not None:
            reference._followers.append(self)
        self._opening = Gate(loop)
        self._closing = Gate(loop)
        self.open_round = 0
        self.open_deadline = math.inf
        # The round that closed at this instant and whose row is not written yet; 0: none.
        self._ended = 0
        # Set while a round is open or is to open.
        self._timer: asyncio.TimerHandle | None = None
        self.period = period
        self.closed = 0

    def close_time(self, round_number: int) -> float:
        """Return when a round closes, in seconds."""
        return self._offset + round_number * self.period

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
        """Return the time (s) at which a round closes, if ``time`` is that but for rounding errors, else ``time``.

        ``widths`` is how many times as wide as a boundary is what counts as rounding.
        """
        boundary = self.close_time(round((time - self._offset) / self.period))
        return boundary if abs(boundary - time) <= widths * self._slack(time) else time

    def end_of(self, time: float) -> float:
        """Return the end (s) of the instant ``time``, which is as wide as a boundary."""
        return time + self._slack(time)

    def before(self, now: float) -> float:
        """Return the end (s) of what surely came before this instant: the deadline, if a round closes now."""
        number = round((now - self._offset) / self.period)
        return min(now, self.deadline(number)) if self.is_closing(number, now) else now

    def opening(self) -> Awaitable[int]:
        """Return what gives the number of the next round when that opens."""
        self._go()
        return self._opening.wait()

    def next_number(self) -> int:
        """Return the number of the round that opens next."""
        # Within a boundary, which is a few roundings wide, it may be open already.
        return max(self._passed(math.ceil), self.open_round) + 1

    def _go(self) -> None:
        """Open the next round when it is time, if none is open or to be opened."""
        if self._timer is None:
            boundary = max(self.close_time(self._passed(math.ceil)), 0.0)
            self._timer = self._loop.call_at(boundary, self._loop.instants.at_instant_end, self._open)
        if self._reference is not None:
            self._reference._go()

    def _passed(self, rounded: Callable[[float], int]) -> int:
        """Return how many rounds have closed by now; rounded up, how many will have when the next one opens."""
        now = self._loop.time()
        slack = -self._slack(now) if rounded is math.ceil else self._slack(now)
        number = rounded((now + slack - self._offset) / self.period)
        # By a clock that is early the first round has begun before the run.
        return 0 if now <= 0 else max(number, 0)

    @property
    def waiting(self) -> int:
        """How many wait for the next round to open."""
        return len(self._opening)

    @property
    def goes_on(self) -> bool:
        """Whether a round is open, or is to open."""
        return self._timer is not None

    def closing(self) -> Awaitable[int]:
        """Return what is done when the open round closes."""
        return self._closing.wait()

    def stop(self) -> None:
        """Open and close no more rounds."""
        if self._timer is not None:
            self._timer.cancel()
        self._opening.clear()
        self._ended = 0

    def _slack(self, now: float) -> float:
        """Return by how much sums of periods may miss a boundary, in seconds."""
        return 1e-9 * self.period + 4 * math.ulp(now)

    def _close(self) -> None:
        self.closed = self._ended = self.open_round
        self._closing.open(self.closed)
        self._loop.instants.at_instant_end(self._open)

    def _open(self) -> None:
        if self._ended:
            self._on_round_end(self._ended)
            self._ended = 0
        if not len(self._opening) and not any(clock._timer is not None for clock in self._followers):
            self._timer = None
            return
        # Rounds that passed while nobody took part are skipped.
        self.closed = max(self.closed, self._passed(math.floor))
        self.open_round = number = self.closed + 1
        end = self.close_time(number)
        self.open_deadline = end - self._slack(end)
        self._timer = self._loop.call_at(end, self._close)
        self._opening.open(number)
