"""Rounds: round k lasts from (k − 1)·period to k·period of simulated time, and closes whether or not all was heard.

At a boundary three things happen at one instant, in this order: what waits for round k to close goes on; when all of that
is done, the round's row is written (probes see every agent); then round k + 1 opens.
"""

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from netsim.clock import Loop

if TYPE_CHECKING:
    from netsim.agent import Context

# Timers may run this much early (asyncio's clock resolution).
_EARLY = 1e-9


class RoundClock:
    """Opens and closes the rounds of one network, while somebody waits for it.

    Parameters
    ----------
    period : float
        Length of a round in seconds.
    on_round_end : callable
        Called with the number of each round that ended.
    """

    __slots__ = ("_closing", "_ended", "_loop", "_on_round_end", "_opening", "_scheduled", "closed", "current", "period")

    def __init__(self, loop: Loop, period: float, on_round_end: Callable[[int], None]) -> None:
        self._loop = loop
        self._on_round_end = on_round_end
        self._opening: list[asyncio.Future[int]] = []
        self._closing: list[asyncio.Future[int]] = []
        self._scheduled = False
        self._ended = 0
        self.period = period
        # The last round that opened and the last that closed; equal between the two halves of a boundary.
        self.current = 0
        self.closed = 0

    def close_time(self, round_number: int) -> float:
        """Return when a round closes, in seconds."""
        return round_number * self.period

    def opening(self) -> asyncio.Future[int]:
        """Return a future of the number of the next round, done when that opens."""
        return self._wait(self._opening)

    def closing(self) -> asyncio.Future[int]:
        """Return a future that is done when the open round closes."""
        return self._wait(self._closing)

    def _wait(self, queue: list[asyncio.Future[int]]) -> asyncio.Future[int]:
        # A future for each waiting task: one that all shared would be cancelled for all by a timeout in one of them.
        future: asyncio.Future[int] = self._loop.create_future()
        queue.append(future)
        if not self._scheduled:
            self._schedule()
        return future

    def _schedule(self) -> None:
        """Set the timer of the next boundary."""
        self._scheduled = True
        now = self._loop.time()
        boundary = math.ceil((now - _EARLY) / self.period)
        if boundary > self.current:
            # Rounds that passed while nobody waited for a boundary are skipped.
            self.closed = self.current = boundary
        if self.closed == self.current and self.close_time(self.current) <= now + _EARLY:
            self._loop.instants.at_instant_end(self._open)
        else:
            self._loop.call_at(self.close_time(self.current), self._close)

    def _close(self) -> None:
        self._ended = self.current if self.closed < self.current else 0
        self.closed = self.current
        _wake(self._closing, self.closed)
        self._loop.instants.at_instant_end(self._open)

    def _open(self) -> None:
        if self._ended:
            self._on_round_end(self._ended)
            self._ended = 0
        self.current += 1
        self._scheduled = False
        _wake(self._opening, self.current)


def _wake(queue: list[asyncio.Future[int]], number: int) -> None:
    for future in queue:
        if not future.done():
            future.set_result(number)
    queue.clear()


class Rounds:
    """What `Agent.rounds` returns: iterate over it with ``async for``."""

    __slots__ = ("_context", "_keep_late", "_left")

    def __init__(self, context: "Context", count: int, keep_late: bool) -> None:
        self._context = context
        self._left = count
        self._keep_late = keep_late

    def __aiter__(self) -> "Rounds":
        return self

    async def __anext__(self) -> int:
        context = self._context
        rounds = context.exchange.rounds
        if self._left == 0:
            if context.round > rounds.closed:
                await rounds.closing()
            context.round = context.inbox.round_now = 0
            raise StopAsyncIteration
        self._left -= 1
        number = context.round = await rounds.opening()
        context.inbox.round_now = 0 if self._keep_late else number
        return number
