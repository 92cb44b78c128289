"""The network's rounds in one of several workers: a round that opens in one worker opens in all.

A round opens only if some agent takes part in it, perhaps an agent of another worker. So if agents of other workers
took part in the last round, a worker opens the next round on trial. Before time passes, the workers report when their
agents want a round. If no agent wants the round on trial, the round is cancelled as if it had never opened.
"""

import asyncio
import math
from collections.abc import Callable

from netsim.clock.clock import Loop
from netsim.clock.rounds import RoundClock

__all__ = ["JointRounds"]


class JointRounds(RoundClock):
    """Round clock that opens and closes rounds while an agent of any worker takes part in them."""

    __slots__ = ("_before", "_elsewhere", "_own")

    def __init__(self, loop: Loop, period: float, on_round_end: Callable[[int], None]) -> None:
        super().__init__(loop, period, on_round_end)
        # `_elsewhere`: whether agents of other workers want rounds. `_own`: whether agents of this worker take part in
        # the open round.
        self._elsewhere = self._own = False
        # The values to restore if the open round is cancelled.
        self._before = self.closed, self.open_round, self.open_deadline

    @property
    def wanted(self) -> float:
        """The time (s) at which this worker's agents want a round to open.

        It is −∞ if they take part in the open round, and ∞ if they want no round.
        """
        if self._is_trial:
            return self.close_time(self.open_round) if len(self._opening) else math.inf
        if self._opens_at == -math.inf:
            return -math.inf
        return self._opens_at if len(self._opening) or self._followers else math.inf

    @property
    def last(self) -> int:
        """The number of the last round that opened, not counting a round on trial."""
        return self._before[1] if self._is_trial else self.open_round

    def closes_after(self, time: float) -> int:
        """Return the number of the first round that closes after ``time`` (s)."""
        number = max(self.number_at(time, math.floor) - 1, 1)
        while self.close_time(number) <= time:
            number += 1
        return number

    @property
    def trial(self) -> asyncio.TimerHandle | None:
        """The timer that ends the open round, if it is on trial and no agent here waits for a round; else None."""
        return self._timer if self._is_trial and not len(self._opening) else None

    @property
    def _is_trial(self) -> bool:
        """Whether a round is open on trial: no agent of this worker takes part in it."""
        return self._opens_at == -math.inf and not self._own

    def agree(self, elsewhere: float) -> None:
        """Cancel, join or schedule a round; ``elsewhere`` is the minimum of `wanted` (s) over all other workers."""
        self._elsewhere = elsewhere < math.inf
        is_open = self._opens_at == -math.inf
        if self._is_trial and elsewhere > -math.inf:
            # No agent of any worker takes part in the round on trial: cancel it.
            self._timer.cancel()  # type: ignore[union-attr]
            self._timer, self._opens_at = None, math.inf
            self.closed, self.open_round, self.open_deadline = self._before
            if len(self._opening):
                self._open_by(self.close_time(self._passed(math.ceil)))
        if elsewhere == -math.inf and not is_open:
            self._join()
        elif -math.inf < elsewhere < math.inf:
            self._open_by(elsewhere)

    def _join(self) -> None:
        """Open in this worker the round that is already open in another worker.

        Agents of this worker that wait for a round missed its opening, so they go on waiting for the next round.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._before = self.closed, self.open_round, self.open_deadline
        self._own = False
        self._begin(max(self.closed, self._passed(math.floor)) + 1)

    def is_followed(self, number: int) -> bool:
        """Return True if agents of other workers want rounds, else the result of `RoundClock.is_followed`."""
        return self._elsewhere or super().is_followed(number)

    def _open(self) -> None:
        waiting, before = len(self._opening) > 0, (self.closed, self.open_round, self.open_deadline)
        super()._open()
        if self._opens_at == -math.inf:
            self._before = before
            self._own = waiting or super().is_followed(self.open_round)
