"""Trickle: a timer that fires rarely while neighbours agree, and soon after an inconsistency."""

import asyncio
import math
from collections.abc import Awaitable, Callable

import numpy as np

from netsim.util import check

__all__ = ["Trickle", "checked"]


def checked(imin: float, doublings: int, k: int | None = None) -> tuple[float, int, int | None]:
    """Return the validated parameters of a `Trickle` timer; raise BadInput if one is out of range."""
    imin = check.finite("imin", imin, above=0)
    doublings = check.integer("doublings", doublings, low=0, high=60)
    return imin, doublings, None if k is None else check.integer("k", k, low=1)


class Trickle:
    """The Trickle timer of RFC 6206.

    Time is divided into intervals. Their length I is initially ``imin`` seconds, and doubles up to
    ``imin`` · 2^``doublings``. In each interval the timer transmits once, at a random moment t in [I/2, I), unless at
    least ``k`` consistent messages have been received before t in this interval.

    Parameters
    ----------
    transmit : callable
        ``await transmit()`` sends the message.
    rng : Generator
        The agent's generator, from which t is drawn.
    imin : float
        Imin, in seconds.
    doublings : int
        Imax, as in the RFC: the largest number of doublings of I.
    k : int, optional
        The redundancy constant; by default no transmission is suppressed.

    Attributes
    ----------
    interval : float
        The current interval I, in seconds.
    counter : int
        The number of consistent messages received in this interval: c in the RFC.

    Notes
    -----
    Source: P. Levis, T. Clausen, J. Hui, O. Gnawali and J. Ko, "The Trickle Algorithm", RFC 6206, 2011.
    """

    def __init__(
        self,
        transmit: Callable[[], Awaitable[object]],
        rng: np.random.Generator,
        *,
        imin: float,
        doublings: int,
        k: int | None = None,
    ) -> None:
        self.imin, doublings, k = checked(imin, doublings, k)
        self.imax = self.imin * 2.0**doublings
        self.k = math.inf if k is None else k
        self.interval, self.counter = self.imin, 0
        self._transmit, self._rng = transmit, rng
        self._was_reset = asyncio.Event()

    async def run(self) -> None:
        """Run the timer without end (section 4.2 of the RFC)."""
        while True:
            self.counter = 0
            self._was_reset.clear()
            t = self.interval * (1 + self._rng.random()) / 2
            if await self._passed(t):
                if self.counter < self.k:
                    await self._transmit()
                if await self._passed(self.interval - t):
                    self.interval = min(2 * self.interval, self.imax)
                    continue
            self.interval = self.imin

    def consistent(self) -> None:
        """Count a message that agrees with this node's state."""
        self.counter += 1

    def reset(self) -> None:
        """Begin a new interval of ``imin`` after an inconsistency, unless the current interval is already ``imin``."""
        if self.interval > self.imin:
            self._was_reset.set()

    async def _passed(self, seconds: float) -> bool:
        """Wait for ``seconds``; return False immediately if the timer is reset meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self._was_reset.wait()
        except TimeoutError:
            return True
        return False
