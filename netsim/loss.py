"""Loss models: which frames never arrive.

A model without memory (`Bernoulli`) is drawn for many frames at once; one with memory keeps a state for each link.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim import check
from netsim.errors import BadInput
from netsim.typing import Vector

__all__ = ["Clocked", "Loss", "bernoulli", "gilbert_elliott", "of", "trace", "varying"]

Decide = Callable[[float], bool]

# In seconds: what comes so little before a stretch of time is within it.
_INSTANT = 1e-9


@runtime_checkable
class Loss(Protocol):
    """A loss model."""

    @property
    def mean(self) -> float:
        """The share of frames that it loses in the long run."""
        ...

    def on_link(self, u: float) -> Decide:
        """Return the decision for one link's frames in turn: a uniform number in, lost or not out.

        ``u`` is a uniform number of the link that sets its initial state.
        """
        ...


@dataclass(frozen=True)
class Bernoulli:
    """Each frame is lost independently with the same probability."""

    mean: float

    def on_link(self, u: float) -> Decide:
        """Return the memoryless decision u < p."""
        return float(self.mean).__gt__


@dataclass(frozen=True)
class GilbertElliott:
    """A good and a bad state (Gilbert 1960): frames sent in the bad one are lost.

    From good to bad with probability p at each frame, back with probability r: mean loss p/(p + r), mean burst 1/r,
    lag-1 correlation 1 − p − r. A link starts in its stationary state.
    """

    p: float
    r: float

    @property
    def mean(self) -> float:
        """The mean loss p/(p + r)."""
        return self.p / (self.p + self.r)

    def on_link(self, u: float) -> Decide:
        """Return the decision of a chain of the link's own."""
        bad = u < self.mean
        p, r = self.p, self.r

        def lost(u: float) -> bool:
            nonlocal bad
            now = bad
            bad = u >= r if bad else u < p
            return now

        return lost


@dataclass(frozen=True, eq=False)
class Trace:
    """Recorded outcomes, in their order, from the start again after the last."""

    outcomes: tuple[bool, ...]

    @property
    def mean(self) -> float:
        """The share of losses in the record."""
        return sum(self.outcomes) / len(self.outcomes)

    def on_link(self, u: float) -> Decide:
        """Return the decision that reads the record from its start."""
        count = -1

        def lost(u: float) -> bool:
            nonlocal count
            count += 1
            return self.outcomes[count % len(self.outcomes)]

        return lost


class Clocked:
    """A link's decision that depends on the time: whoever asks it sets `time` first.

    Attributes
    ----------
    time : float
        When the frame left, in seconds.
    """

    __slots__ = ("_losses", "_starts", "time")

    def __init__(self, starts: Vector, losses: Vector) -> None:
        # The last start is where it begins again.
        self._starts, self._losses = starts, losses
        self.time = 0.0

    def __call__(self, u: float) -> bool:
        """Return whether u is below the probability of the time."""
        within = self.time % float(self._starts[-1])
        place = int(np.searchsorted(self._starts, within + _INSTANT, side="right")) - 1
        # A time that is the end but for a rounding error is the beginning.
        return bool(u < self._losses[place % len(self._losses)])


@dataclass(frozen=True, eq=False)
class Varying:
    """A probability of loss for each of a row of times, and from the start again after the last."""

    starts: Vector
    losses: Vector

    @property
    def mean(self) -> float:
        """The mean over the time."""
        return float(np.diff(self.starts) @ self.losses / self.starts[-1])

    def on_link(self, u: float) -> Clocked:
        """Return the decision that looks at the clock."""
        return Clocked(self.starts, self.losses)


def bernoulli(probability: float) -> Loss:
    """Lose each frame independently with this ``probability``."""
    return Bernoulli(check.probability("loss", probability))


def gilbert_elliott(mean: float, burst: float, *, names: tuple[str, str] = ("mean", "burst")) -> Loss:
    """Lose frames in bursts: ``mean`` loss in [0, 1) and ``burst`` ≥ 1 frames in a row on average.

    Parameters
    ----------
    mean : float
        The share of frames that are lost.
    burst : float
        The mean number of frames lost in a row.
    names : (str, str)
        What the user calls the two, for the error's message.

    Raises
    ------
    BadInput
        If one is outside its range, or the two cannot go together: ``burst`` must be at least mean/(1 − mean), or the
        good state would last less than a frame and the mean would be lower than asked.
    """
    name, burst_name = names
    mean = check.probability(name, mean)
    burst = check.at_least(burst_name, burst, 1)
    # Up to rounding: 0.8 and 4 go together, though 0.8/(1 − 0.8) is a little more than 4 in floating point.
    if mean == 1 or mean > burst / (1 + burst) * (1 + check.ROUNDING):
        most = f"{burst_name}/(1 + {burst_name}) = {burst / (1 + burst):g} for {burst_name} = {burst:g}"
        raise BadInput(f"{name} = {mean:g}: must be at most {most}")
    r = 1 / burst
    return GilbertElliott(min(1.0, mean * r / (1 - mean)), r)


def trace(lost: ArrayLike) -> Loss:
    """Recorded outcomes (true or 1: ``lost``), shape (n,), read in order on each link and again from the start."""
    values: NDArray[np.generic] = np.asarray(lost)
    if values.ndim != 1 or not len(values) or not np.isin(values, (0, 1)).all():
        raise check.refuse("lost", lost, "a sequence of at least one 0 (arrived) or 1 (lost)")
    return Trace(tuple(bool(v) for v in values))


def varying(losses: ArrayLike, seconds: ArrayLike) -> Loss:
    """Lose frames with a probability that depends on when they are sent.

    With probabilities of 0 and 1 that is a replay: what was heard is heard, and nothing else, however often is sent.

    Parameters
    ----------
    losses : array, shape (n,)
        Probability of an independent loss in each of n stretches of time; after the last the first comes again.
    seconds : float or array of shape (n,)
        How long each lasts.
    """
    values = check.finite_array("losses", losses).flatten()
    if not len(values) or values.min() < 0 or values.max() > 1:
        raise check.refuse("losses", losses, "at least one probability, all in [0, 1]")
    lengths = check.finite_array("seconds", seconds).flatten()
    if len(lengths) not in (1, len(values)) or lengths.min() <= 0:
        raise check.refuse("seconds", seconds, f"one length > 0, or one for each of the {len(values)} losses")
    starts = np.concatenate([[0.0], np.cumsum(np.broadcast_to(lengths, len(values)))])
    return Varying(starts, values)


def of(value: "float | Loss") -> Loss:
    """Return a model: a number is the probability of an independent loss."""
    return value if isinstance(value, Loss) else bernoulli(value)
