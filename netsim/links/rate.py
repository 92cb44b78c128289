"""Time-varying rates, which decide when the last bit of a fragment leaves the sender.

A parameter ``rate`` accepts a model, or a number of bits per second.

Several links may share a model, because a model has no state. The state of one link's sender is in the function that
`Rate.on_port` returns.
"""

import bisect
import gzip
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from netsim.errors import BadInput, one_line
from netsim.util import check
from netsim.util.datafiles import used
from netsim.util.typing import Vector

__all__ = ["Rate", "opportunities"]

Leave = Callable[[float, float], float]
"""Function that maps a start time (s) and a number of bits to the time (s) at which the last bit leaves."""


@runtime_checkable
class Rate(Protocol):
    """Protocol of time-varying rates: a mean rate, and a function for each sender that computes when bits leave."""

    @property
    def mean(self) -> float:
        """The mean rate in bits per second."""
        ...

    def on_port(self) -> Leave:
        """Return a function that computes when a sender's bits leave; its calls must be in order of time."""
        ...


@dataclass(frozen=True, eq=False)
class Opportunities:
    """Opportunities to send: up to ``bits`` bits may leave at each of ``times`` (s), which repeat cyclically."""

    times: Vector
    bits: float

    @property
    def mean(self) -> float:
        """The mean rate in bits per second."""
        return float(len(self.times) * self.bits / self.times[-1])

    @cached_property
    def _numbers(self) -> list[float]:
        # Indexing a list is faster than indexing an array. The list is cached, so that all links share it.
        return [float(each) for each in self.times]

    def on_port(self) -> Leave:
        """Return a function that computes when a sender's bits leave, and keeps an opportunity's unused bits."""
        times, bits, last = self._numbers, self.bits, float(self.times[-1])
        number, left = -1, 0.0

        def time_of(number: int) -> float:
            turn, place = divmod(number, len(times))
            return turn * last + times[place]

        def leave(start: float, size: float) -> float:
            nonlocal number, left
            if number < 0 or time_of(number) < start - _TOLERANCE:
                # Unused opportunities are lost: skip to the first opportunity at or after ``start``.
                turn = math.floor(start / last)
                place = bisect.bisect_left(times, start - turn * last - _TOLERANCE)
                number, left = max(number + 1, turn * len(times) + place), bits
            while size > left:
                size -= left
                number, left = number + 1, bits
            left -= size
            return max(start, time_of(number))

        return leave


# Maximum number of digits of a time in milliseconds; a simulation's time has fewer digits.
_MOST_DIGITS = 15

# Rounding tolerance (s): a frame that starts less than this after an opportunity may still use the opportunity.
_TOLERANCE = 1e-9


def opportunities(seconds: ArrayLike | str | Path, *, bits: int = 12_000) -> Rate:
    """Send up to ``bits`` bits at each of the times ``seconds``, shape (n,), which repeat with the last time as period.

    Mahimahi replays cellular links in this way. If no frame waits, an opportunity to send 1500 bytes is lost. If a
    frame needs only some of the bits, the next frame may use the rest if it already waits. Source: Netravali et al.,
    "Mahimahi: accurate record-and-replay for HTTP", USENIX ATC 2015.

    Parameters
    ----------
    seconds : array or path
        The times in seconds, in ascending order; or a Mahimahi file, possibly compressed (``.gz``), with the time of
        one opportunity in whole milliseconds on each line.
    bits : int
        Maximum number of bits that may leave at each time.

    Raises
    ------
    BadInput
        If there are no times, a time is negative or out of order, the last is 0, or a line of the file is not a whole
        number; the message names the line.
    """
    times = _read(Path(seconds)) if isinstance(seconds, str | Path) else check.vector("seconds", seconds)
    if not len(times) or times[0] < 0 or times[-1] <= 0 or (np.diff(times) < 0).any():
        shown = str(seconds) if isinstance(seconds, Path) else seconds
        raise check.refuse("seconds", shown, "at least one time, in order, none negative and the last > 0")
    return Opportunities(times, check.integer("bits", bits, low=1))


def _read(path: Path) -> Vector:
    """Return the times (s) in a Mahimahi file."""
    place = used(path)
    try:
        with gzip.open(place, "rt") if place.suffix == ".gz" else place.open() as file:
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise BadInput(f"seconds = {str(path)!r}: must be a file that can be read ({one_line(error)})") from None
    if lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, 1):
        if not (text := line.strip()).isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
            raise BadInput(f"seconds = {str(path)!r}: line {number} must be whole milliseconds, not {line[:40]!r}")
    return np.array(lines, dtype=np.float64) / 1000.0
