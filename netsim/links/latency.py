"""Models of delays: of a frame's propagation time (without its transmission time, see `rate`), or of compute times.

A uniform number, here called u, is a random number with the uniform distribution on [0, 1). A random model turns each
uniform number into a delay, by the inverse of the distribution function of the delay. Several frames can be in
flight on a link at the same time: a frame's latency never makes the next frame wait.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import BadInput
from netsim.util import check

__all__ = ["Latency", "constant", "exponential", "lognormal", "normal", "of", "pareto", "trace", "uniform"]

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
    """Return the model for some links, given uniform numbers ``u``, shape (links,); only `TracedDelays` uses ``u``."""
    place: Callable[[NDArray[np.float64]], Latency] | None = getattr(model, "on_links", None)
    return model if place is None else place(u)


def of(value: "float | Latency") -> Latency:
    """Return a latency model; a number means a constant delay in seconds."""
    return value if isinstance(value, Latency) else constant(value)
