"""Rounds: round k lasts from (k − 1)·period to k·period of simulated time, and closes whether or not all was heard.

At a boundary three things happen at one instant, in this order: what waits for round k to close goes on; when all of
that is done, the round's row is written (probes see every agent); then round k + 1 opens, if anybody waits for it.
"""

import asyncio
import math
from collections.abc import Callable

from netsim.transport.clock import Loop


class RoundClock:
    """Opens and closes the rounds of one network, while somebody takes part.

    Parameters
    ----------
    period : float
        Length of a round in seconds.
    on_round_end : callable
        Called with the number of each round that ended.

    Attributes
    ----------
    closed : int
        The last round that closed.
    """

    __slots__ = (
        "_closing",
        "_ended",
        "_loop",
        "_on_round_end",
        "_open_round",
        "_opening",
        "_timer",
        "closed",
        "period",
    )

    def __init__(self, loop: Loop, period: float, on_round_end: Callable[[int], None]) -> None:
        self._loop = loop
        self._on_round_end = on_round_end
        self._opening: list[asyncio.Future[int]] = []
        self._closing: list[asyncio.Future[int]] = []
        self._open_round = 0
        # The round that closed at this instant and whose row is not written yet; 0: none.
        self._ended = 0
        # Set while a round is open or is to open.
        self._timer: asyncio.TimerHandle | None = None
        self.period = period
        self.closed = 0

    def close_time(self, round_number: int) -> float:
        """Return when a round closes, in seconds."""
        return round_number * self.period

    def snap(self, time: float) -> float:
        """Return the time (s) at which a round closes, if ``time`` is that but for rounding errors, else ``time``."""
        boundary = self.close_time(round(time / self.period))
        return boundary if abs(boundary - time) <= self._slack(time) else time

    def opening(self) -> asyncio.Future[int]:
        """Return a future of the number of the next round, done when that opens."""
        if self._timer is None:
            now = self._loop.time()
            boundary = self.close_time(math.ceil((now - self._slack(now)) / self.period))
            self._timer = self._loop.call_at(boundary, self._loop.instants.at_instant_end, self._open)
        return self._wait(self._opening)

    def closing(self) -> asyncio.Future[int]:
        """Return a future that is done when the open round closes."""
        return self._wait(self._closing)

    def stop(self) -> None:
        """Open and close no more rounds."""
        if self._timer is not None:
            self._timer.cancel()
        self._opening.clear()
        self._ended = 0

    def _slack(self, now: float) -> float:
        """Return by how much sums of periods may miss a boundary, in seconds."""
        return 1e-9 * self.period + 4 * math.ulp(now)

    def _wait(self, queue: list[asyncio.Future[int]]) -> asyncio.Future[int]:
        # A future for each waiting task: one that all shared would be cancelled for all by a timeout in one of them.
        # (asyncio's own, which is faster to await than the loop's, and which no set will hold.)
        future: asyncio.Future[int] = asyncio.Future(loop=self._loop)
        queue.append(future)
        return future

    def _close(self) -> None:
        self.closed = self._ended = self._open_round
        _wake(self._closing, self.closed)
        self._loop.instants.at_instant_end(self._open)

    def _open(self) -> None:
        if self._ended:
            self._on_round_end(self._ended)
            self._ended = 0
        if not self._opening:
            self._timer = None
            return
        # Rounds that passed while nobody took part are skipped.
        now = self._loop.time()
        self.closed = max(self.closed, math.floor((now + self._slack(now)) / self.period))
        self._open_round = self.closed + 1
        self._timer = self._loop.call_at(self.close_time(self._open_round), self._close)
        _wake(self._opening, self._open_round)


def _wake(queue: list[asyncio.Future[int]], number: int) -> None:
    for future in queue:
        if not future.done():
            future.set_result(number)
    queue.clear()
