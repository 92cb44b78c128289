"""Time models: how long a frame is under way, apart from being sent (that is `rate`), or how long a node computes.

Each turns uniform numbers into delays by the inverse of its distribution, for whole arrays at a time. Frames in flight
overlap: a latency never makes the next frame wait.
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
    """A latency model."""

    @property
    def fixed(self) -> float | None:
        """The delay in seconds if it is always the same, else None."""
        ...

    def delays(self, u: Delays, first: int) -> Delays:
        """Return delays (s) for uniform numbers ``u``, shape (count, links), of frames ``first``, ``first`` + 1, …"""
        ...


class _Random:
    fixed: float | None = None


@dataclass(frozen=True)
class Constant:
    """Always the same delay."""

    fixed: float

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the one delay for each number."""
        return np.full_like(u, self.fixed)


@dataclass(frozen=True)
class Uniform(_Random):
    """Uniform on [low, high)."""

    low: float
    high: float

    def delays(self, u: Delays, first: int) -> Delays:
        """Return low + (high − low)·u."""
        return self.low + (self.high - self.low) * u


@dataclass(frozen=True)
class Normal(_Random):
    """Normal; the few draws below zero become zero."""

    mean: float
    deviation: float

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the inverse normal distribution of u."""
        # Imported here: scipy doubles the time in which a process begins, and few networks draw normal numbers.
        from scipy.special import ndtri

        return np.maximum(0.0, self.mean + self.deviation * ndtri(np.maximum(u, 2.0**-54)))


@dataclass(frozen=True)
class Exponential(_Random):
    """A minimum and an exponential part."""

    mean: float
    minimum: float

    def delays(self, u: Delays, first: int) -> Delays:
        """Return minimum − (mean − minimum)·ln(1 − u)."""
        return self.minimum - (self.mean - self.minimum) * np.log1p(-u)


@dataclass(frozen=True)
class Pareto(_Random):
    """Pareto: P(delay > t) = (minimum/t)^shape."""

    minimum: float
    shape: float

    def delays(self, u: Delays, first: int) -> Delays:
        """Return minimum·(1 − u)^(−1/shape)."""
        return self.minimum * (1.0 - u) ** (-1.0 / self.shape)


@dataclass(frozen=True)
class LogNormal(_Random):
    """Log-normal: the logarithm is normal."""

    median: float
    sigma: float

    def delays(self, u: Delays, first: int) -> Delays:
        """Return median·exp(sigma·Φ⁻¹(u))."""
        from scipy.special import ndtri

        return self.median * np.exp(self.sigma * ndtri(np.maximum(u, 2.0**-54)))


@dataclass(frozen=True, eq=False)
class TracedDelays(_Random):
    """Measured delays, in their order, from the start again after the last.

    Each link begins at ``start``, or, if that is None, at a place of its own (`on_links`). ``starts``, shape (links,),
    are the places of some links; without them, as for compute times, all begin at ``start`` or the first delay.
    """

    values: Delays
    start: int | None = None
    starts: NDArray[np.int64] | None = None

    def on_links(self, u: NDArray[np.float64]) -> "TracedDelays":
        """Return the model on some links; ``u``, shape (links,), are uniform numbers that set where each begins."""
        if self.start is not None:
            return self
        return TracedDelays(self.values, starts=(u * len(self.values)).astype(np.int64))

    def delays(self, u: Delays, first: int) -> Delays:
        """Return the delays of frames ``first`` … on each link."""
        begin = (self.start or 0) if self.starts is None else self.starts
        numbers = np.arange(first, first + len(u))[:, None] + np.broadcast_to(begin, u.shape[1])
        found: Delays = self.values[numbers % len(self.values)]
        return found


def _bounded(model: Latency, name: str, value: float) -> Latency:
    """Return the model, unless its largest draw would be infinite."""
    with np.errstate(over="ignore"):
        most = model.delays(np.full((1, 1), 1 - 2.0**-53), 0)
    if not np.isfinite(most).all():
        raise check.refuse(name, value, "so small that every delay is finite")
    return model


def constant(seconds: float) -> Latency:
    """Every frame takes ``seconds``."""
    return Constant(check.finite("latency", seconds, low=0))


def uniform(low: float, high: float) -> Latency:
    """Uniform between ``low`` and ``high`` seconds."""
    low = check.finite("low", low, low=0)
    return Uniform(low, check.at_least("high", high, low))


def normal(mean: float, deviation: float) -> Latency:
    """Normal with ``mean`` and standard ``deviation`` in seconds.

    The mean must be at least 3 deviations, so that cutting off negative delays leaves the mean as configured.
    """
    mean, deviation = check.finite("mean", mean, low=0), check.finite("deviation", deviation, low=0)
    if mean < 3 * deviation * (1 - check.ROUNDING):
        allowed = f"at most a third of mean = {mean:g}, or delays would be negative"
        raise BadInput(f"deviation = {deviation:g}: must be {allowed}")
    return _bounded(Normal(mean, deviation), "mean", mean)


def exponential(mean: float, minimum: float = 0.0) -> Latency:
    """``minimum`` seconds and an exponential part, ``mean`` seconds in all."""
    minimum = check.finite("minimum", minimum, low=0)
    mean = check.at_least("mean", mean, minimum)
    return _bounded(Exponential(mean, minimum), "mean", mean)


def lognormal(median: float, sigma: float) -> Latency:
    """Log-normal: ``median`` seconds, and ``sigma``, the logarithm's deviation σ; the mean is median·e^(σ²/2)."""
    median = check.finite("median", median, low=0)
    return _bounded(LogNormal(median, check.finite("sigma", sigma, low=0)), "sigma", sigma)


def pareto(minimum: float, shape: float) -> Latency:
    """Heavy tail: at least ``minimum`` seconds, tail exponent ``shape`` > 1; the mean is minimum·shape/(shape − 1)."""
    minimum = check.finite("minimum", minimum, above=0)
    return _bounded(Pareto(minimum, check.finite("shape", shape, above=1)), "minimum", minimum)


def trace(seconds: ArrayLike, *, offsets: int | None = None) -> Latency:
    """Measured delays, used in their order, one a frame (or fragment), and again from the start.

    Parameters
    ----------
    seconds : array, shape (n,)
        The delays in seconds.
    offsets : int, optional
        Where in the record, from 0 to n − 1, every link that has this model begins: they are slow in step. Default:
        each link begins at a place of its own, drawn from the network's seed and the link's two ends. As compute times
        (`netsim.Network`, ``compute``), where each node may have its own record, the default is the first.

    Raises
    ------
    BadInput
        If there is no delay, one is negative or not finite, or ``offsets`` is no place in the record.
    """
    # A copy: what the caller does to the array afterwards is not the link's business.
    values = check.vector("seconds", seconds)
    if not len(values) or values.min() < 0:
        raise check.refuse("seconds", seconds, "at least one delay, none of them negative")
    return TracedDelays(
        values, None if offsets is None else check.integer("offsets", offsets, high=len(values) - 1, low=0)
    )


def on_links(model: Latency, u: NDArray[np.float64]) -> Latency:
    """Return a model on some links, where it depends on the link; ``u``, shape (links,), is a number of each."""
    place: Callable[[NDArray[np.float64]], Latency] | None = getattr(model, "on_links", None)
    return model if place is None else place(u)


def of(value: "float | Latency") -> Latency:
    """Return a model: a number means that many seconds, always."""
    return value if isinstance(value, Latency) else constant(value)
