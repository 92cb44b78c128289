"""Loss models, which decide which frames never arrive.

A parameter ``loss`` accepts a model, or the probability of independent losses.

A model decides whether a frame is lost by a uniform number u: a random number with the uniform distribution on [0, 1).
The losses of the memoryless model `Bernoulli` are drawn for many frames at once; other models keep a state for each
link.
"""

import bisect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from netsim.errors import BadInput
from netsim.util import check, draws
from netsim.util.typing import Vector

__all__ = [
    "Clocked",
    "Loss",
    "bernoulli",
    "correlated",
    "gemodel",
    "gilbert_elliott",
    "of",
    "states",
    "trace",
    "varying",
]

Decide = Callable[[float], bool]

# Rounding tolerance, in seconds or slots: a time that is less than this before an interval counts as within the
# interval.
_TOLERANCE = 1e-9
# _SLOTS_AHEAD: number of slots to compute ahead. _MAX_BLOCK: maximum number of uniform numbers drawn in one call.
# LAST_SLOT: limit of slot numbers.
_SLOTS_AHEAD, _MAX_BLOCK, LAST_SLOT = 32, 1 << 16, 1 << 62
SHORTEST_SLOT = 1e-9


@runtime_checkable
class Loss(Protocol):
    """Protocol of loss models: a mean loss, and a function for each link that decides which frames are lost."""

    @property
    def mean(self) -> float:
        """The share of frames lost in the long run."""
        ...

    def on_link(self, u: float) -> Decide:
        """Return a function for one link, which maps a frame's uniform number to whether the frame is lost.

        ``u`` is a uniform number of the link, which determines the function's initial state.
        """
        ...


@dataclass(frozen=True)
class Bernoulli:
    """Each frame is lost independently with the same probability."""

    mean: float

    def on_link(self, u: float) -> Decide:
        """Return a function that maps a uniform number u to u < ``mean``; it keeps no state."""
        return float(self.mean).__gt__


class Clocked:
    """Base class of functions from `Loss.on_link` that depend on time; the caller sets `time` before each call.

    Attributes
    ----------
    time : float
        The time at which the frame left, in seconds. It may be earlier than at the previous call: a change of the link
        may let a frame leave before one that was sent earlier.
    """

    __slots__ = ("time",)

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self, u: float) -> bool:
        """Return whether a frame with the uniform number ``u`` is lost."""
        raise NotImplementedError


@dataclass(frozen=True)
class GilbertElliott:
    """A chain with a good and a bad state: a frame is lost with probability ``bad`` in the bad state, else ``good``.

    A step leads from good to bad with probability p, and from bad to good with probability r. So the share of steps in
    the bad state is p/(p + r), the mean length of a run of bad steps is 1/r, and the lag-1 correlation of the states is
    1 − p − r. A link starts in the stationary distribution. The chain takes a step with each frame sent or, if ``slot``
    is given, every ``slot`` seconds, even if nothing is sent. By default all frames sent in the bad state are lost, and
    no others, as in Gilbert's simplest chain (1960).

    One uniform number u decides a step: the next state is bad if u is below a threshold, which is p in the good state
    and 1 − r in the bad state. With p = 1 − r the losses are independent, as in `Bernoulli`. Let two models A and B
    have the same r and use the same numbers u, with p_A ≤ p_B ≤ 1 − r. Then whenever A is in the bad state, B is, too:
    by induction over the steps, the threshold of A never exceeds the threshold of B.

    If u is below the threshold t, u/t is again uniform on [0, 1); else (u − t)/(1 − t) is. This number decides the
    loss, so that ``bad`` and ``good`` need no further draws.
    """

    p: float
    r: float
    slot: float | None = None
    bad: float = 1.0
    good: float = 0.0

    @property
    def share_bad(self) -> float:
        """The share of steps in the bad state, p/(p + r)."""
        return self.p / (self.p + self.r)

    @property
    def mean(self) -> float:
        """The mean loss (p·bad + r·good)/(p + r)."""
        return (self.p * self.bad + self.r * self.good) / (self.p + self.r)

    @property
    def is_certain(self) -> bool:
        """Whether the state determines the loss: ``bad`` is 1 and ``good`` is 0."""
        return self.bad == 1.0 and self.good == 0.0

    def on_link(self, u: float) -> Decide:
        """Return a function that decides which frames of one link are lost; it has a separate chain for the link."""
        if self.slot is not None:
            return _SlottedLosses(self, self.slot, u)
        is_bad, is_certain = u < self.share_bad, self.is_certain
        to_bad, stay_bad, bad, good = self.p, 1.0 - self.r, self.bad, self.good

        def lost(u: float) -> bool:
            nonlocal is_bad
            limit = stay_bad if is_bad else to_bad
            is_bad = u < limit
            if is_certain:
                return is_bad
            return u / limit < bad if is_bad else (u - limit) / (1.0 - limit) < good

        return lost


def slots_key(u: float) -> int:
    """Return the key of the random stream for the steps of a link's chain; ``u`` is the link's uniform number."""
    return int(draws.stream_keys(0, np.array([int(u * 2.0**53)], dtype=np.uint64), "slots")[0])


class _SlottedLosses(Clocked):
    """A chain that takes steps with time: the state in a slot depends only on the link and the slot's number.

    One uniform number per slot decides the step to the next slot (see `GilbertElliott`). Call a number decisive if it
    is below both thresholds, p and 1 − r, or above both: the next state is then bad or good, respectively, for any
    present state. So to find the state of a slot, go back to the last decisive number before the slot, and compute the
    states from there on. This takes 1/(1 − |1 − p − r|) numbers on average, even after a long pause between frames.
    """

    __slots__ = ("_bad", "_first", "_good", "_key", "_slot", "_start", "_states", "_stay_bad", "_to_bad")

    def __init__(self, model: GilbertElliott, slot: float, u: float) -> None:
        super().__init__()
        self._slot, self._to_bad, self._stay_bad = slot, model.p, 1.0 - model.r
        self._bad, self._good = model.bad, model.good
        self._key = np.array([slots_key(u)], dtype=np.uint64)
        # `_first` is the number of the first slot whose state is known; `_states` are the states from this slot on.
        self._start = u < model.share_bad
        self._first, self._states = 0, [self._start]

    def __call__(self, u: float) -> bool:
        number = int(min(self.time / self._slot + _TOLERANCE, LAST_SLOT))
        if number < self._first:
            # This frame left before an earlier one: the states of its time are computed again.
            self._first, self._states = 0, [self._start]
        if number - self._first >= len(self._states):
            self._move_to(number)
        return u < (self._bad if self._states[number - self._first] else self._good)

    def _move_to(self, number: int) -> None:
        bad = self._state_at(number)
        self._first, self._states = number, [bad]
        for u in draws.uniforms(self._key, number, _SLOTS_AHEAD)[:, 0].tolist():
            bad = u < (self._stay_bad if bad else self._to_bad)
            self._states.append(bad)

    def _state_at(self, number: int) -> bool:
        """Return the state of a slot later than the known slots; uniform number n leads from slot n to slot n + 1."""
        low, high = sorted((self._to_bad, self._stay_bad))
        known = self._first + len(self._states) - 1
        # All numbers after the last decisive number are between the thresholds. If p < 1 − r, such a number keeps the
        # state; if p > 1 − r, it flips the state. So only the count ``between`` of these numbers matters.
        between, after, count = 0, number, _SLOTS_AHEAD
        state = self._states[-1]
        while after > known:
            first = max(known, after - count)
            drawn = draws.uniforms(self._key, first, after - first)[:, 0]
            (decisive,) = np.nonzero((drawn < low) | (drawn >= high))
            if len(decisive):
                between += len(drawn) - 1 - int(decisive[-1])
                state = bool(drawn[decisive[-1]] < low)
                break
            between += len(drawn)
            after, count = first, min(2 * count, _MAX_BLOCK)
        return state ^ (between % 2 == 1 and self._to_bad > self._stay_bad)


# The states of `FourStates`: arrivals in a gap between bursts, single losses in a gap, losses in a burst, arrivals
# within a burst.
_GAP, _SINGLE, _BURST, _WITHIN = 1, 4, 3, 2


@dataclass(frozen=True)
class FourStates:
    """A chain of four states with a step for each frame: frames that lead to states 3 and 4 are lost.

    Frames arrive in state 1 (a gap between bursts) and in state 2 (within a burst). They are lost in state 3 (in a
    burst) and in state 4 (a single loss in a gap). The probability of a step from state i to j is ``pij``; state 4
    leads back to 1. A link starts in the stationary distribution. Source: Salsano, Ludovici, Ordine and Giannuzzi,
    "Definition of a general and intuitive loss model for packet networks and its implementation in the Netem module in
    the Linux kernel", University of Rome Tor Vergata, 2012.
    """

    p13: float
    p31: float
    p32: float
    p23: float
    p14: float

    @cached_property
    def shares(self) -> tuple[float, float, float, float]:
        """For each of the states 1 to 4: the share of steps that lead to it."""
        # In the long run, as many steps lead from 1 to 3 as from 3 to 1; the same holds for 3 and 2, and for 1 and 4.
        gap = 1.0
        burst = gap * self.p13 / self.p31 if self.p13 else 0.0
        within = burst * self.p32 / self.p23 if burst * self.p32 else 0.0
        single = gap * self.p14
        total = gap + within + burst + single
        return gap / total, within / total, burst / total, single / total

    @property
    def mean(self) -> float:
        """The mean loss: the share of steps that lead to the states 3 and 4."""
        return self.shares[2] + self.shares[3]

    def on_link(self, u: float) -> Decide:
        """Return a function that decides which frames of one link are lost; it has a separate chain for the link."""
        state = 1 + min(bisect.bisect_right(list(itertools.accumulate(self.shares)), u), 3)
        steps = {
            _GAP: (self.p14, _SINGLE, self.p14 + self.p13, _BURST, _GAP),
            _WITHIN: (self.p23, _BURST, self.p23, _BURST, _WITHIN),
            _BURST: (self.p32, _WITHIN, self.p32 + self.p31, _GAP, _BURST),
            _SINGLE: (1.0, _GAP, 1.0, _GAP, _GAP),
        }

        def lost(u: float) -> bool:
            nonlocal state
            low, first, high, second, third = steps[state]
            state = first if u < low else second if u < high else third
            return state >= _BURST

        return lost


@dataclass(frozen=True)
class Correlated:
    """A frame is lost if its number, which depends on the previous frame's number, is below ``probability``.

    Let u_n be the uniform number of frame n, and ρ the ``correlation``. The frame's number is x_n = (1 − ρ)·u_n +
    ρ·x_{n−1}, with x_{−1} uniform on [0, 1), as in netem. The x_n are correlated, but not uniform: they concentrate
    around ½, with the variance (1 − ρ)/(1 + ρ)/12. So for a probability p below ½, the share of lost frames is smaller
    than p, and far smaller if p is small.
    """

    probability: float
    correlation: float

    @cached_property
    def mean(self) -> float:
        """The share of frames lost in the long run: P(x < ``probability``), which differs from ``probability``.

        In the long run x − ½ is the sum of ρᵏ·(1 − ρ)·(u_k − ½) over k ≥ 0, so the characteristic function of x is a
        product of characteristic functions of uniform numbers. As x lies in [0, 1], its distribution function has a
        Fourier series, whose coefficients follow from the values of the characteristic function at 2πn.
        """
        numbers = np.arange(1.0, _MOST_TERMS)
        products = np.ones_like(numbers)
        part = 1.0 - self.correlation
        while len(numbers) and part * numbers[-1] > _NEARLY_ZERO:
            products *= np.sinc(numbers * part)
            # All further factors are at most 1, so products that are small now are negligible.
            kept = np.flatnonzero(np.abs(products) > _NEGLIGIBLE)
            numbers, products = numbers[kept], products[kept]
            part *= self.correlation
        # The logarithm of the remaining factors: ln sinc(x) = −(πx)²/6 − (πx)⁴/180 − …, where each term is summed over
        # all factors as a geometric series.
        square = (np.pi * numbers * part) ** 2
        rest = square / (1 - self.correlation**2) / 6 + square**2 / (1 - self.correlation**4) / 180
        waves = np.sin(2 * np.pi * numbers * (self.probability - 0.5)) / (np.pi * numbers)
        return float(min(max(self.probability + (products * np.exp(-rest) * waves).sum(), 0.0), 1.0))

    def on_link(self, u: float) -> Decide:
        """Return a function that decides which frames of one link are lost; ``u`` is the number x_{−1}."""
        fresh, kept, probability, last = 1.0 - self.correlation, self.correlation, self.probability, u

        def lost(u: float) -> bool:
            nonlocal last
            last = fresh * u + kept * last
            return last < probability

        return lost


# Constants of the Fourier series in `Correlated.mean`: the number of terms, the size of negligible products, and the
# largest argument for which two terms of the logarithm suffice.
_MOST_TERMS, _NEGLIGIBLE, _NEARLY_ZERO = 1 << 16, 1e-18, 0.02


@dataclass(frozen=True, eq=False)
class TracedLosses:
    """Recorded outcomes of frames (True: lost), replayed in order and cyclically.

    All links begin at index ``start`` of ``outcomes``; if ``start`` is None, each link begins at a random index.
    """

    outcomes: tuple[bool, ...]
    start: int | None = None

    @property
    def mean(self) -> float:
        """The share of losses in ``outcomes``."""
        return sum(self.outcomes) / len(self.outcomes)

    def on_link(self, u: float) -> Decide:
        """Return a function that returns one outcome per call, in order from the link's first index on."""
        numbers = itertools.count(int(u * len(self.outcomes)) if self.start is None else self.start)
        return lambda u: self.outcomes[next(numbers) % len(self.outcomes)]


class _IntervalLosses(Clocked):
    """Decides losses with a probability that depends on the time."""

    __slots__ = ("_losses", "_starts")

    def __init__(self, starts: Vector, losses: Vector) -> None:
        super().__init__()
        # The last element of ``starts`` is the end of the last interval, which is also the length of the period. The
        # elements of ``data``, an array's memoryview, are Python floats, which are faster than numpy scalars.
        self._starts, self._losses = starts.data, losses.data

    def __call__(self, u: float) -> bool:
        """Return whether ``u`` is below the loss probability at `time`."""
        within = self.time % self._starts[-1]
        place = bisect.bisect_right(self._starts, within + _TOLERANCE) - 1
        # Just before the end of a period, the tolerance makes ``place`` equal to the number of intervals. The remainder
        # is then 0, the index of the first interval.
        return u < self._losses[place % len(self._losses)]


@dataclass(frozen=True, eq=False)
class Varying:
    """A loss probability for each of several consecutive intervals, repeated cyclically."""

    starts: Vector
    losses: Vector

    @property
    def mean(self) -> float:
        """The mean loss probability over time."""
        return float(np.diff(self.starts) @ self.losses / self.starts[-1])

    def on_link(self, u: float) -> Clocked:
        """Return an object that decides which frames of one link are lost, by the time at which each frame leaves."""
        return _IntervalLosses(self.starts, self.losses)


def bernoulli(probability: float) -> Loss:
    """Lose each frame independently with this ``probability``."""
    return Bernoulli(check.probability("loss", probability))


def gilbert_elliott(
    mean: float, burst: float, *, slot: float | None = None, names: tuple[str, str] = ("mean", "burst")
) -> Loss:
    """Lose frames in bursts (see `GilbertElliott`).

    Draws are nested: on one link, with the same seed and the same ``burst``, each frame that is lost at one ``mean`` is
    also lost at every higher ``mean``. This requires that ``burst`` is at least 1/(1 − mean), the mean burst of
    independent losses, for both values of ``mean``.

    Parameters
    ----------
    mean : float
        The share of frames that are lost, in [0, 1).
    burst : float
        The mean number of frames lost in a row, or of bad slots in a row if ``slot`` is given; at least 1.
    slot : float, optional
        Length of a slot in seconds: the channel loses all frames sent in a bad slot, and none in a good slot. Set it to
        the round period to lose whole rounds. Default: the state changes with each frame or fragment sent, and does not
        change while the sender is silent.
    names : (str, str)
        The names that error messages use for ``mean`` and ``burst``.

    Raises
    ------
    BadInput
        If an argument is outside its range, or ``burst`` is less than mean/(1 − mean): the good state would then have
        to last for less than one frame or slot.
    """
    name, burst_name = names
    mean = check.probability(name, mean)
    burst = check.at_least(burst_name, burst, 1)
    slot = None if slot is None else check.finite("slot", slot, low=SHORTEST_SLOT)
    # Allow for rounding: the mean 0.8 and the burst 4 are consistent, although 0.8/(1 − 0.8) > 4 in floating point.
    if mean == 1 or mean > burst / (1 + burst) * (1 + check.ROUNDING):
        most = f"{burst_name}/(1 + {burst_name}) = {burst / (1 + burst):g} for {burst_name} = {burst:g}"
        raise BadInput(f"{name} = {mean:g}: must be at most {most}")
    r = 1 / burst
    return GilbertElliott(min(1.0, mean * r / (1 - mean)), r, slot)


def gemodel(
    p: float, r: float | None = None, bad: float = 1.0, good: float = 0.0, *, slot: float | None = None
) -> Loss:
    """Lose frames by a chain with a good and a bad state, each with a loss probability, as Linux's netem does.

    ``tc … netem loss gemodel P R 1-H 1-K`` has the same four numbers in this order, in percent. `gilbert_elliott`
    defines the chain with ``bad`` = 1 and ``good`` = 0 by its mean loss and mean burst.

    Parameters
    ----------
    p : float
        Probability of a step from the good to the bad state.
    r : float, optional
        Probability of a step from the bad to the good state; default: 1 − p, so that the states are independent.
    bad : float
        Probability of a loss in the bad state, which netem calls 1−h.
    good : float
        Probability of a loss in the good state, which netem calls 1−k.
    slot : float, optional
        Seconds from one step of the chain to the next, as in `gilbert_elliott`; default: a step with each frame or
        fragment.

    Raises
    ------
    BadInput
        If an argument is not a probability, or p and r are both 0, so that the state never changes.
    """
    p = check.probability("p", p)
    r = 1.0 - p if r is None else check.probability("r", r)
    if p + r == 0:
        raise BadInput("r = 0: must be above 0 for p = 0, or the state never changes")
    bad, good = check.probability("bad", bad), check.probability("good", good)
    return GilbertElliott(p, r, None if slot is None else check.finite("slot", slot, low=SHORTEST_SLOT), bad, good)


def states(p13: float, p31: float | None = None, p32: float = 0.0, p23: float = 1.0, p14: float = 0.0) -> Loss:
    """Lose single frames, and frames in bursts with some arrivals, as netem's ``loss state P13 P31 P32 P23 P14`` does.

    Parameters
    ----------
    p13 : float
        Probability that a burst begins, per frame.
    p31 : float, optional
        Probability that a burst ends, per frame; default: 1 − p13.
    p32, p23 : float
        Probabilities, per frame, that frames begin to arrive within a burst, and that they cease to arrive.
    p14 : float
        Probability of a single loss outside bursts.

    Raises
    ------
    BadInput
        If an argument is not a probability, the probabilities of two steps from the same state add up to more than 1,
        or a state can be reached but never left.
    """
    p13 = check.probability("p13", p13)
    p31 = 1.0 - p13 if p31 is None else check.probability("p31", p31)
    p32, p23, p14 = check.probability("p32", p32), check.probability("p23", p23), check.probability("p14", p14)
    for name, value, other, beside in (("p14", p14, "p13", p13), ("p32", p32, "p31", p31)):
        if value + beside > 1 + check.ROUNDING:
            raise BadInput(f"{name} = {value:g}: must be at most 1 − {other} = {1 - beside:g}")
    if p13 and not p31:
        raise BadInput("p31 = 0: must be above 0 for p13 above 0, or the first burst never ends")
    if p13 and p32 and not p23:
        raise BadInput("p23 = 0: must be above 0 for p32 above 0, or frames arrive forever within the first burst")
    return FourStates(p13, p31, p32, p23, p14)


def correlated(probability: float, correlation: float) -> Loss:
    """Lose frames as netem's ``loss random PROBABILITY CORRELATION`` does, which is **not** with this probability.

    The correlation changes the mean. With a probability of 10 %, the share of lost frames is 1.75 % for a correlation
    of 25 %, 0.11 % for 50 %, and one in two million for 75 %. The model's ``mean`` is the true share. For bursts with a
    given mean, use `gilbert_elliott`; this model exists to repeat netem's results.

    Parameters
    ----------
    probability : float
        The probability given to netem, in [0, 1].
    correlation : float
        The weight in [0, 1) of the previous frame's number in the number of a frame.
    """
    probability = check.probability("probability", probability)
    return Correlated(probability, check.below_one("correlation", correlation))


def trace(lost: ArrayLike, *, offsets: int | None = None) -> Loss:
    """Replay recorded losses in order and cyclically, one for each frame or fragment.

    Parameters
    ----------
    lost : array, shape (n,)
        True or 1 for each frame that was lost.
    offsets : int, optional
        Index, from 0 to n − 1, at which every link with this model begins, so that frames with equal numbers have equal
        outcomes on all links. Default: each link begins at a random index, which depends on the network's seed and the
        link's two ends.
    """
    allowed = "a sequence of at least one 0 (arrived) or 1 (lost)"
    try:
        values = check.vector("lost", lost, flags=True)
    except BadInput:
        raise check.refuse("lost", lost, allowed) from None
    if not len(values) or not np.isin(values, (0, 1)).all():
        raise check.refuse("lost", lost, allowed)
    start = None if offsets is None else check.integer("offsets", offsets, low=0, high=len(values) - 1)
    return TracedLosses(tuple(bool(v) for v in values), start)


def varying(losses: ArrayLike, seconds: ArrayLike) -> Loss:
    """Lose frames with a probability that depends on the time at which a frame is sent.

    With probabilities of 0 and 1, this model replays recorded outcomes by time, independently of the number of frames.

    Parameters
    ----------
    losses : array, shape (n,)
        Probability of an independent loss in each of n consecutive intervals, repeated cyclically.
    seconds : float or array of shape (n,)
        Length of each interval in seconds.
    """
    values = check.vector("losses", losses)
    if not len(values) or values.min() < 0 or values.max() > 1:
        raise check.refuse("losses", losses, "at least one probability, all in [0, 1]")
    lengths = check.vector("seconds", seconds, scalar=True)
    if len(lengths) not in (1, len(values)) or lengths.min() <= 0:
        raise check.refuse("seconds", seconds, f"one length > 0, or one for each of the {len(values)} losses")
    starts = np.concatenate([[0.0], np.cumsum(np.broadcast_to(lengths, len(values)))])
    return Varying(starts, values)


def of(value: "float | Loss") -> Loss:
    """Return a loss model; a number means the probability of an independent loss."""
    # Test for concrete classes first, because isinstance is slow for a protocol.
    if isinstance(value, Bernoulli | Loss):
        return value
    try:
        return bernoulli(value)
    except BadInput:
        if isinstance(value, str | float | int | np.number):
            raise
        raise check.refuse("loss", value, "a probability in [0, 1] or a loss model, with mean and on_link(u)") from None
