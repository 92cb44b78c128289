"""Rates that vary in time: when a sender's bits have left, where that is not their number over a constant.

A model is asked when a fragment that begins at some time has left. Each sender's side has a state of its own.
"""

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from netsim.util import check
from netsim.util.typing import Vector

__all__ = ["Rate", "opportunities"]

Leave = Callable[[float, float], float]
"""From a time (s) and a number of bits, when the last of them has left (s)."""


@runtime_checkable
class Rate(Protocol):
    """A rate that varies."""

    @property
    def mean(self) -> float:
        """The mean rate in bits per second."""
        ...

    def on_port(self) -> Leave:
        """Return what one sender's side asks: calls are in order of time."""
        ...


@dataclass(frozen=True, eq=False)
class Opportunities:
    """Moments at which ``bits`` may leave, and from the start again after the last."""

    times: Vector
    bits: float

    @property
    def mean(self) -> float:
        """The mean rate in bits per second."""
        return float(len(self.times) * self.bits / self.times[-1])

    @cached_property
    def _numbers(self) -> list[float]:
        # A list, since a single number of an array takes longer to read; one for all links.
        return [float(each) for each in self.times]

    def on_port(self) -> Leave:
        """Return what knows how much of the present opportunity is left."""
        times, bits, last = self._numbers, self.bits, float(self.times[-1])
        number, left = -1, 0.0

        def time_of(number: int) -> float:
            turn, place = divmod(number, len(times))
            return turn * last + times[place]

        def leave(start: float, size: float) -> float:
            nonlocal number, left
            if number < 0 or time_of(number) < start - _INSTANT:
                # An opportunity that was not used is gone.
                turn = math.floor(start / last)
                place = bisect.bisect_left(times, start - turn * last - _INSTANT)
                number, left = max(number + 1, turn * len(times) + place), bits
            while size > left:
                size -= left
                number, left = number + 1, bits
            left -= size
            return max(start, time_of(number))

        return leave


# In seconds: what is so little before an opportunity is not after it.
_INSTANT = 1e-9


def opportunities(seconds: ArrayLike, *, bits: int = 12_000) -> Rate:
    """Send ``bits`` at each of the times ``seconds``, shape (n,), in order; the last is where it begins again.

    That is how Mahimahi replays cellular links: an opportunity to send 1500 bytes that finds nothing to send is lost;
    what a frame leaves of one, the next may use if it waits already. Source: Netravali et al., "Mahimahi: accurate
    record-and-replay for HTTP", USENIX ATC 2015.
    """
    times = check.vector("seconds", seconds)
    if not len(times) or times[0] < 0 or times[-1] <= 0 or (np.diff(times) < 0).any():
        raise check.refuse("seconds", seconds, "at least one time, in order, none negative and the last > 0")
    return Opportunities(times, check.integer("bits", bits, low=1))
