"""Models of delays: the propagation times of frames (without the transmission time, see `rate`), or compute times.

A parameter ``latency`` or ``compute`` accepts a model, or a constant delay in seconds.

A uniform number, here called u, is a random number with the uniform distribution on [0, 1). A random model converts
each uniform number to a delay, with the inverse of the delay's distribution function. Several frames can be in flight
on a link at the same time: a frame's latency never makes the next frame wait.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import BadInput, one_line
from netsim.util import check
from netsim.util.datafiles import used

__all__ = [
    "Correlated",
    "Latency",
    "constant",
    "correlated",
    "empirical",
    "exponential",
    "lognormal",
    "normal",
    "of",
    "pareto",
    "trace",
    "uniform",
]

Delays = NDArray[np.float64]


@runtime_checkable
class Latency(Protocol):
    """Protocol of latency models, which convert uniform numbers to delays."""

    @property
    def fixed(self) -> float | None:
        """The delay in seconds if it is constant, else None."""
        ...

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the delays (s) of frames ``first``, ``first`` + 1, … on several links, shape (frames, links).

        ``u``, of the same shape, holds a uniform number for each delay.
        """
        ...


class _Random:
    fixed: float | None = None


@dataclass(frozen=True)
class Constant:
    """A constant delay."""

    fixed: float

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the constant delay for each element of ``u``."""
        return np.full_like(u, self.fixed)


@dataclass(frozen=True)
class Uniform(_Random):
    """A delay that is uniform on [low, high)."""

    low: float
    high: float

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the inverse distribution function at ``u``: low + (high − low)·u."""
        return self.low + (self.high - self.low) * u


@dataclass(frozen=True)
class Normal(_Random):
    """A normal delay; negative draws become zero."""

    mean: float
    deviation: float

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the inverse distribution function at ``u``: max(0, mean + deviation·Φ⁻¹(u))."""
        # Import scipy only if it is needed: it doubles the startup time of a process, and few networks draw normal
        # numbers.
        from scipy.special import ndtri

        return np.maximum(0.0, self.mean + self.deviation * ndtri(np.maximum(u, 2.0**-54)))


@dataclass(frozen=True)
class Exponential(_Random):
    """A delay that is the sum of a minimum and an exponentially distributed number."""

    mean: float
    minimum: float

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the inverse distribution function at ``u``: minimum − (mean − minimum)·ln(1 − u)."""
        return self.minimum - (self.mean - self.minimum) * np.log1p(-u)


@dataclass(frozen=True)
class Pareto(_Random):
    """A delay with a Pareto distribution: P(delay > t) = (minimum/t)^shape."""

    minimum: float
    shape: float

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the inverse distribution function at ``u``: minimum·(1 − u)^(−1/shape)."""
        return self.minimum * (1.0 - u) ** (-1.0 / self.shape)


@dataclass(frozen=True)
class LogNormal(_Random):
    """A log-normal delay: its logarithm is normal."""

    median: float
    sigma: float

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the inverse distribution function at ``u``: median·exp(sigma·Φ⁻¹(u))."""
        from scipy.special import ndtri

        return self.median * np.exp(self.sigma * ndtri(np.maximum(u, 2.0**-54)))


@dataclass(frozen=True, eq=False)
class Empirical(_Random):
    """A delay drawn from the sorted array ``values`` (s), each value with the same probability."""

    values: Delays

    @property
    def minimum(self) -> float:
        """The least delay (s)."""
        return float(self.values[0])

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the inverse distribution function at ``u``: the value with the index ⌊u·(number of values)⌋."""
        return self.values[(u * len(self.values)).astype(np.int64)]


@dataclass(frozen=True)
class Correlated(_Random):
    """Delays that ``model`` computes from correlated numbers: each depends on the number of the link's previous frame.

    Let u_n be the uniform number of frame n, and ρ the ``correlation``. The correlated number of the frame is x_n = (1
    − ρ)·u_n + ρ·x_{n−1}, with x_0 = u_0. The frame's delay is the model's inverse distribution function at x_n. netem
    draws delays in the same way; `correlated` describes the effect.
    """

    model: Latency
    correlation: float

    @property
    def minimum(self) -> float:
        """The least delay (s), which is that of ``model``, because the correlated numbers also lie in [0, 1)."""
        return float(self.model.delays(np.zeros((1, 1)), 0)[0, 0])

    def on_links(self, u: NDArray[np.float64]) -> "_CorrelatedOnLinks":
        """Return the model for links whose first frames have the uniform numbers ``u``, shape (links,)."""
        return _CorrelatedOnLinks(self, u)

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the delays of the first frames on links, computed from uniform numbers ``u``."""
        return self.on_links(u[0]).delays(u, first)


class _CorrelatedOnLinks(_Random):
    """`Correlated` for some links: it keeps each link's last number, so frames must be drawn in order."""

    def __init__(self, settings: Correlated, first: NDArray[np.float64]) -> None:
        self._settings, self._last = settings, first

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the delays of the next frames, shape (frames, links)."""
        kept, mixed = self._settings.correlation, np.empty_like(u)
        for row, fresh in enumerate(u):
            # If rounding gave 1, the delay could be infinite.
            self._last = mixed[row] = np.minimum((1.0 - kept) * fresh + kept * self._last, 1.0 - 2.0**-53)
        return self._settings.model.delays(mixed, first)


@dataclass(frozen=True, eq=False)
class TracedDelays(_Random):
    """Measured delays, replayed in order and cyclically.

    All links begin at index ``start`` of the recorded delays. If ``start`` is None, the links begin at the indices
    ``starts``, shape (links,), which `on_links` sets. If both are None, as for compute times, all begin at index 0.
    """

    values: Delays
    start: int | None = None
    starts: NDArray[np.int64] | None = None

    def on_links(self, u: NDArray[np.float64]) -> "TracedDelays":
        """Return the model for links; uniform numbers ``u``, shape (links,), determine their first indices."""
        if self.start is not None:
            return self
        return TracedDelays(self.values, starts=(u * len(self.values)).astype(np.int64))

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the recorded delays of frames ``first``, ``first`` + 1, … on each link, in the shape of ``u``."""
        begin = (self.start or 0) if self.starts is None else self.starts
        numbers = np.arange(first, first + len(u))[:, None] + np.broadcast_to(begin, u.shape[1])
        found: Delays = self.values[numbers % len(self.values)]
        return found


def _bounded(model: Latency, name: str, value: float) -> Latency:
    """Return ``model`` if its largest possible delay is finite; else raise BadInput."""
    with np.errstate(over="ignore"):
        most = model.delays(np.full((1, 1), 1 - 2.0**-53), 0)
    if not np.isfinite(most).all():
        raise check.refuse(name, value, "so small that every delay is finite")
    return model


def constant(seconds: float) -> Latency:
    """Delay each frame by ``seconds``."""
    return Constant(check.finite("latency", seconds, low=0))


def uniform(low: float, high: float) -> Latency:
    """Draw delays uniformly between ``low`` and ``high`` seconds."""
    low = check.finite("low", low, low=0)
    return Uniform(low, check.at_least("high", high, low))


def normal(mean: float, deviation: float) -> Latency:
    """Draw normal delays with this ``mean`` and standard ``deviation`` in seconds; negative draws become zero.

    The mean must be at least 3 deviations: then few draws are negative, and zeroing them hardly changes the mean.
    """
    mean, deviation = check.finite("mean", mean, low=0), check.finite("deviation", deviation, low=0)
    if mean < 3 * deviation * (1 - check.ROUNDING):
        allowed = f"at most a third of mean = {mean:g}, or delays would be negative"
        raise BadInput(f"deviation = {deviation:g}: must be {allowed}")
    return _bounded(Normal(mean, deviation), "mean", mean)


def exponential(mean: float, minimum: float = 0.0) -> Latency:
    """Draw delays of ``minimum`` seconds plus an exponentially distributed number, with the mean delay ``mean`` (s)."""
    minimum = check.finite("minimum", minimum, low=0)
    mean = check.at_least("mean", mean, minimum)
    return _bounded(Exponential(mean, minimum), "mean", mean)


def lognormal(median: float, sigma: float) -> Latency:
    """Draw log-normal delays with a ``median`` in seconds; the logarithm of a delay has the deviation ``sigma``.

    The mean delay is median·e^(sigma²/2).
    """
    median = check.finite("median", median, low=0)
    return _bounded(LogNormal(median, check.finite("sigma", sigma, low=0)), "sigma", sigma)


def pareto(minimum: float, shape: float) -> Latency:
    """Draw Pareto delays of at least ``minimum`` s, with exponent ``shape`` > 1 and mean minimum·shape/(shape − 1)."""
    minimum = check.finite("minimum", minimum, above=0)
    return _bounded(Pareto(minimum, check.finite("shape", shape, above=1)), "minimum", minimum)


def empirical(table: str | Path | ArrayLike, mean: float = 0.0, jitter: float = 1.0) -> Latency:
    """Draw delays ``mean`` + ``jitter``·value in seconds, where each value of a table has the same probability.

    For an array of measured delays in seconds, leave out mean and jitter. (`trace` replays such an array in order.) A
    file is a table of iproute2 for netem, such as ``/usr/lib/tc/pareto.dist``: text with whole numbers in units of
    1/8192 jitter, and comment lines that begin with #. ``tc … netem delay MEAN JITTER distribution pareto`` draws the
    same delays.

    The delays have the given mean, and the jitter as their deviation, only if the table has the mean 0 and the
    deviation 1. Of iproute2's tables, which end at ±4 jitters, only ``normal`` does. ``pareto`` has the mean −0.03 and
    the deviation 0.82, ``paretonormal`` −0.03 and 0.83, and ``experimental`` −0.01 and 0.88.

    Parameters
    ----------
    table : path or array of shape (n,)
        The values in any order, or the path of the file.
    mean : float
        Seconds to add to each delay.
    jitter : float
        The seconds by which each value is multiplied; required for a file.

    Raises
    ------
    BadInput
        If there are no values, a value is not finite (in a file: not a 16-bit integer), or a delay would be negative.
    """
    mean, jitter = check.finite("mean", mean, low=0), check.finite("jitter", jitter, low=0)
    values = _read_distribution(Path(table)) if isinstance(table, str | Path) else check.vector("table", table)
    if not len(values):
        raise check.refuse("table", table, "at least one number")
    with np.errstate(over="ignore"):
        delays = mean + jitter * np.sort(values)
    if not np.isfinite(delays).all():
        raise check.refuse("jitter", jitter, "so small that every delay is finite")
    if delays[0] < 0:
        least = -jitter * float(values.min())
        allowed = f"so large that mean + jitter·value is never negative, as with mean >= {least:g}"
        raise check.refuse("table", str(table) if isinstance(table, Path) else table, allowed)
    return Empirical(delays)


# In a table of iproute2: the integer that stands for one jitter (NETEM_DIST_SCALE in Linux's pkt_sched.h), and the
# maximum count of numbers that tc accepts.
_DISTRIBUTION_UNIT, _MOST_DISTRIBUTION = 8192.0, 16 * 1024


def _read_distribution(path: Path) -> Delays:
    """Return the values in a table of iproute2, in units of the jitter."""
    allowed = f"a table of 1 to {_MOST_DISTRIBUTION:,} whole numbers from -32768 to 32767, and lines that begin with #"
    try:
        text = used(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadInput(f"table = {str(path)!r}: must be a file that can be read ({one_line(error)})") from None
    words = [word for line in text.splitlines() if not line.startswith("#") for word in line.split()]
    try:
        values = np.array([int(word) for word in words], dtype=np.int16)
    except (ValueError, OverflowError):
        raise check.refuse("table", str(path), allowed) from None
    if not 0 < len(values) <= _MOST_DISTRIBUTION:
        raise check.refuse("table", str(path), allowed)
    return values / _DISTRIBUTION_UNIT


def correlated(model: Latency, correlation: float) -> Latency:
    """Draw delays that depend on the previous delay of the same link, as netem's ``delay … CORRELATION`` does.

    A correlation ρ changes the distribution of the delays. The numbers from which delays are computed concentrate
    around ½: their variance is (1 − ρ)/(1 + ρ) of that of uniform numbers. So long and short delays become rare. The
    deviation of `uniform` delays is multiplied by √((1 − ρ)/(1 + ρ)), which is 0.77 for 25 %, and their mean does not
    change. For a skewed model the mean changes, too. The correlation of `uniform` delays is ρ.

    Linux draws the same numbers, but then uses their remainder modulo the length of the table, or modulo twice the
    jitter in nanoseconds. This removes the change of the distribution, but also the correlation: for a table, or a
    jitter of milliseconds, no correlation is left. Here the model's inverse distribution function preserves the
    correlation.

    Parameters
    ----------
    model : Latency
        `uniform`, `normal`, `empirical` or another random model.
    correlation : float
        The weight ρ in [0, 1) of the previous frame's number in the number of a frame.

    Raises
    ------
    BadInput
        If the model is constant, a `trace` or already correlated, or the correlation is not in [0, 1).
    """
    allowed = "a random model, as latency.uniform(1e-3, 3e-3)"
    if not isinstance(model, Latency) or model.fixed is not None or hasattr(model, "on_links"):
        raise check.refuse("model", model, allowed)
    return Correlated(model, check.below_one("correlation", correlation))


def trace(seconds: ArrayLike, *, offsets: int | None = None) -> Latency:
    """Replay measured delays in order and cyclically, one for each frame or fragment.

    Parameters
    ----------
    seconds : array, shape (n,)
        The delays in seconds.
    offsets : int, optional
        Index, from 0 to n − 1, at which every link with this model begins, so that frames with equal numbers have equal
        delays on all links. Default: each link begins at a random index, which depends on the network's seed and the
        link's two ends. Compute times (``compute`` of `netsim.Network`) begin at index 0 by default.

    Raises
    ------
    BadInput
        If there is no delay, a delay is negative or not finite, or ``offsets`` is not an index of ``seconds``.
    """
    # `vector` returns a copy, so that later changes to the caller's array do not change the link.
    values = check.vector("seconds", seconds)
    if not len(values) or values.min() < 0:
        raise check.refuse("seconds", seconds, "at least one delay, none of them negative")
    return TracedDelays(
        values, None if offsets is None else check.integer("offsets", offsets, high=len(values) - 1, low=0)
    )


def on_links(model: Latency, u: NDArray[np.float64]) -> Latency:
    """Return the model for some links, whose first frames have the uniform numbers ``u``, shape (links,).

    Only `TracedDelays` and `Correlated` need these numbers, for their initial states; other models have no state.
    """
    place: Callable[[NDArray[np.float64]], Latency] | None = getattr(model, "on_links", None)
    return model if place is None else place(u)


def of(value: "float | Latency") -> Latency:
    """Return a latency model; a number means a constant delay in seconds."""
    return value if isinstance(value, Latency) else constant(value)
