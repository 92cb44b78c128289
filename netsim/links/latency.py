"""Models of delays: of a frame's propagation time (without its transmission time, see `rate`), or of compute times.

A parameter ``latency`` or ``compute`` takes one of them, or seconds.

A uniform number, here called u, is a random number with the uniform distribution on [0, 1). A random model turns each
uniform number into a delay, by the inverse of the distribution function of the delay. Several frames can be in
flight on a link at the same time: a frame's latency never makes the next frame wait.
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
    """Protocol of latency models, which turn uniform numbers into delays."""

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
        # Import scipy only here: it doubles the startup time of a process, and few networks draw normal numbers.
        from scipy.special import ndtri

        return np.maximum(0.0, self.mean + self.deviation * ndtri(np.maximum(u, 2.0**-54)))


@dataclass(frozen=True)
class Exponential(_Random):
    """A delay that is the sum of a minimum and an exponential number."""

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
    """A delay drawn from a table: each of the ``values`` (s), which are in order, with the same probability."""

    values: Delays

    @property
    def minimum(self) -> float:
        """The least delay (s)."""
        return float(self.values[0])

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the inverse distribution function at ``u``: the value at the place u·(number of values)."""
        found: Delays = self.values[(u * len(self.values)).astype(np.int64)]
        return found


@dataclass(frozen=True)
class Correlated(_Random):
    """Delays of ``model`` from correlated numbers: each depends on the number of the link's previous frame.

    The number of frame n is x_n = (1 − ρ)·u_n + ρ·x_{n−1}, with ρ the ``correlation`` and x_0 = u_0, and the delay is
    the model's inverse distribution function at x_n. netem draws delays in the same way; `correlated` describes the
    effect.
    """

    model: Latency
    correlation: float

    @property
    def minimum(self) -> float:
        """The least delay (s): as the numbers of netem lie in [0, 1) too, that of the model."""
        return float(self.model.delays(np.zeros((1, 1)), 0)[0, 0])

    def on_links(self, u: NDArray[np.float64]) -> "_CorrelatedOnLinks":
        """Return the model for links with first numbers ``u``, shape (links,)."""
        return _CorrelatedOnLinks(self, u)

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the delays of the first frames of links with numbers ``u``."""
        return self.on_links(u[0]).delays(u, first)


class _CorrelatedOnLinks(_Random):
    """`Correlated` on some links: it remembers each link's last number, so frames must come in order."""

    def __init__(self, settings: Correlated, first: NDArray[np.float64]) -> None:
        self._settings, self._last = settings, first

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the delays of the next frames, shape (frames, links)."""
        kept, mixed = self._settings.correlation, np.empty_like(u)
        for row, fresh in enumerate(u):
            # A number rounded up to 1 would have an infinite delay.
            self._last = mixed[row] = np.minimum((1.0 - kept) * fresh + kept * self._last, 1.0 - 2.0**-53)
        return self._settings.model.delays(mixed, first)


@dataclass(frozen=True, eq=False)
class TracedDelays(_Random):
    """Measured delays, replayed in order and cyclically.

    All links begin at index ``start`` of the recorded delays. If ``start`` is None, each link begins at its own index
    in ``starts``, shape (links,), as set by `on_links`. If both are None, as for compute times, replay begins at index
    0.
    """

    values: Delays
    start: int | None = None
    starts: NDArray[np.int64] | None = None

    def on_links(self, u: NDArray[np.float64]) -> "TracedDelays":
        """Return the model for links whose first indices are set by uniform numbers ``u``, shape (links,)."""
        if self.start is not None:
            return self
        return TracedDelays(self.values, starts=(u * len(self.values)).astype(np.int64))

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the recorded delays of frames ``first``, ``first`` + 1, … on each link; ``u`` sets only the shape."""
        begin = (self.start or 0) if self.starts is None else self.starts
        numbers = np.arange(first, first + len(u))[:, None] + np.broadcast_to(begin, u.shape[1])
        found: Delays = self.values[numbers % len(self.values)]
        return found


def _bounded(model: Latency, name: str, value: float) -> Latency:
    """Return the model; raises BadInput if its largest possible draw is infinite."""
    with np.errstate(over="ignore"):
        most = model.delays(np.full((1, 1), 1 - 2.0**-53), 0)
    if not np.isfinite(most).all():
        raise check.refuse(name, value, "so small that every delay is finite")
    return model


def constant(seconds: float) -> Latency:
    """Delay every frame by ``seconds``."""
    return Constant(check.finite("latency", seconds, low=0))


def uniform(low: float, high: float) -> Latency:
    """Draw delays uniformly between ``low`` and ``high`` seconds."""
    low = check.finite("low", low, low=0)
    return Uniform(low, check.at_least("high", high, low))


def normal(mean: float, deviation: float) -> Latency:
    """Draw normal delays, with ``mean`` and standard ``deviation`` in seconds; negative draws become zero.

    The mean must be at least 3 deviations, so that zeroing the negative draws hardly changes it.
    """
    mean, deviation = check.finite("mean", mean, low=0), check.finite("deviation", deviation, low=0)
    if mean < 3 * deviation * (1 - check.ROUNDING):
        allowed = f"at most a third of mean = {mean:g}, or delays would be negative"
        raise BadInput(f"deviation = {deviation:g}: must be {allowed}")
    return _bounded(Normal(mean, deviation), "mean", mean)


def exponential(mean: float, minimum: float = 0.0) -> Latency:
    """Draw delays of ``minimum`` seconds plus an exponential number; the mean of the delays is ``mean`` seconds."""
    minimum = check.finite("minimum", minimum, low=0)
    mean = check.at_least("mean", mean, minimum)
    return _bounded(Exponential(mean, minimum), "mean", mean)


def lognormal(median: float, sigma: float) -> Latency:
    """Draw log-normal delays with a ``median`` in seconds and a deviation ``sigma`` of the log.

    Their mean is median·e^(sigma²/2).
    """
    median = check.finite("median", median, low=0)
    return _bounded(LogNormal(median, check.finite("sigma", sigma, low=0)), "sigma", sigma)


def pareto(minimum: float, shape: float) -> Latency:
    """Draw Pareto delays of at least ``minimum`` s, with exponent ``shape`` > 1 and mean minimum·shape/(shape − 1)."""
    minimum = check.finite("minimum", minimum, above=0)
    return _bounded(Pareto(minimum, check.finite("shape", shape, above=1)), "minimum", minimum)


def empirical(table: str | Path | ArrayLike, mean: float = 0.0, jitter: float = 1.0) -> Latency:
    """Draw delays from a table, each of its values with the same probability: ``mean`` + ``jitter``·value seconds.

    With an array of measured seconds, mean and jitter are left out. (`trace` replays them in order.) A file
    is a table of iproute2 for netem, such as ``/usr/lib/tc/pareto.dist``: text with whole numbers of 1/8192 jitter and
    comments after #. ``tc … netem delay MEAN JITTER distribution pareto`` draws the same delays.

    netem's mean and jitter are those of the delays only if its table has the mean 0 and the deviation 1. iproute2's
    tables end at ±4 jitters: ``normal`` has them, but ``pareto`` has −0.03 and 0.82, ``paretonormal`` −0.03 and 0.83,
    ``experimental`` −0.01 and 0.88.

    Parameters
    ----------
    table : path or array of shape (n,)
        The values, in any order; or the file that has them.
    mean : float
        Seconds that are added to each value's.
    jitter : float
        Seconds by which each value is multiplied; with a file it must be given.

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


# The unit of the numbers in a table of iproute2, as a part of the jitter (NETEM_DIST_SCALE in Linux's pkt_sched.h), and
# the most numbers that tc takes.
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

    The correlation changes the delays' distribution. The numbers from which they are drawn crowd around ½, with (1 −
    ρ)/(1 + ρ) of the variance of uniform ones, so long and short delays become rare. The deviation of `uniform` delays
    is multiplied by √((1 − ρ)/(1 + ρ)), 0.77 for 25 %, and their mean stays; in a skewed model the mean changes, too.
    The correlation of `uniform` delays is ρ.

    Linux draws the same numbers but then takes their remainder modulo the length of the table, or modulo twice the
    jitter in nanoseconds. This removes the change of distribution, and also the correlation: for a table, and for a
    jitter of milliseconds, none is left. Here the model's inverse distribution function keeps it.

    Parameters
    ----------
    model : Latency
        `uniform`, `normal`, `empirical` or another that draws at random.
    correlation : float
        How much of each frame's number is that of the frame before, in [0, 1).

    Raises
    ------
    BadInput
        If the model is constant, a `trace`, or correlated already, or the correlation is not in [0, 1).
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
        delays on all links. Default: each link begins at its own index, drawn from the network's seed and the link's
        two ends. Compute times (``compute`` of `netsim.Network`), where each node may have its own model, begin at
        index 0 by default.

    Raises
    ------
    BadInput
        If there is no delay, a delay is negative or not finite, or ``offsets`` is not an index of ``seconds``.
    """
    # `vector` copies, so that later changes to the caller's array do not change the link.
    values = check.vector("seconds", seconds)
    if not len(values) or values.min() < 0:
        raise check.refuse("seconds", seconds, "at least one delay, none of them negative")
    return TracedDelays(
        values, None if offsets is None else check.integer("offsets", offsets, high=len(values) - 1, low=0)
    )


def on_links(model: Latency, u: NDArray[np.float64]) -> Latency:
    """Return the model for some links, given the links' first uniform numbers ``u``, shape (links,).

    `TracedDelays` and `Correlated` begin with them; other models have nothing to remember.
    """
    place: Callable[[NDArray[np.float64]], Latency] | None = getattr(model, "on_links", None)
    return model if place is None else place(u)


def of(value: "float | Latency") -> Latency:
    """Return a latency model; a number means a constant delay in seconds."""
    return value if isinstance(value, Latency) else constant(value)
