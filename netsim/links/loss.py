"""Loss models: which frames never arrive.

A model without memory (`Bernoulli`) is drawn for many frames at once; one with memory keeps a state for each link.
"""

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from netsim.errors import BadInput
from netsim.util import check, draws
from netsim.util.typing import Vector

__all__ = ["Clocked", "Loss", "bernoulli", "gilbert_elliott", "of", "trace", "varying"]

Decide = Callable[[float], bool]

# In seconds: what comes so little before a stretch of time is within it.
_INSTANT = 1e-9
# Slots: how many are rolled forward at a time, how many numbers are looked at in one go, and the last one.
_ROLLED, _MOST_AT_ONCE, LAST_SLOT = 32, 1 << 16, 1 << 62
SHORTEST_SLOT = 1e-9


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


class Clocked:
    """A link's decision that depends on the time: callers set `time` first.

    Attributes
    ----------
    time : float
        When the frame left, in seconds; never before that of the last one.
    """

    __slots__ = ("time",)

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self, u: float) -> bool:
        """Return whether the frame is lost; ``u`` is a uniform number of its own."""
        raise NotImplementedError


@dataclass(frozen=True)
class GilbertElliott:
    """A good and a bad state (Gilbert 1960): frames sent in the bad one are lost.

    At each step from good to bad with probability p, back with probability r: mean loss p/(p + r), mean burst 1/r,
    lag-1 correlation 1 − p − r. A link starts in its stationary state. A step is a frame that is sent, or ``slot``
    seconds, whether anything is sent or not.

    One uniform number moves both states: below 1 − r a bad one stays bad, below p a good one turns bad. So of two
    models with one r the one that loses less is bad only where the other is, if its 1 − p − r is not negative (by
    induction: where only the other is bad, p < 1 − r keeps it so). With p = 1 − r the losses are independent, and those
    of `Bernoulli`.
    """

    p: float
    r: float
    slot: float | None = None

    @property
    def mean(self) -> float:
        """The mean loss p/(p + r)."""
        return self.p / (self.p + self.r)

    def on_link(self, u: float) -> Decide:
        """Return the decision of a chain of the link's own."""
        if self.slot is not None:
            return _Slots(self, self.slot, u)
        bad = u < self.mean
        comes, stays = self.p, 1.0 - self.r

        def lost(u: float) -> bool:
            nonlocal bad
            bad = u < (stays if bad else comes)
            return bad

        return lost


def slots_key(u: float) -> int:
    """Return the key of the numbers that move a chain from slot to slot, for a link's initial number ``u``."""
    return int(draws.stream_keys(0, np.array([int(u * 2.0**53)], dtype=np.uint64), "slots")[0])


class _Slots(Clocked):
    """A chain that moves on with time: the state of a slot is a function of the link and the slot's number alone.

    A number below both thresholds makes the state bad whatever it was, one above both makes it good. So the state of a
    slot follows from the numbers since the last such one, one in 1/(1 − |1 − p − r|) on average, however long nothing
    was sent.
    """

    __slots__ = ("_comes", "_first", "_key", "_slot", "_states", "_stays")

    def __init__(self, model: GilbertElliott, slot: float, u: float) -> None:
        super().__init__()
        self._slot, self._comes, self._stays = slot, model.p, 1.0 - model.r
        self._key = np.array([slots_key(u)], dtype=np.uint64)
        # The states of some slots in a row, from which on.
        self._first, self._states = 0, [u < model.mean]

    def __call__(self, u: float) -> bool:
        number = int(min(self.time / self._slot + _INSTANT, LAST_SLOT))
        if number - self._first >= len(self._states):
            self._move_to(number)
        return self._states[number - self._first]

    def _move_to(self, number: int) -> None:
        bad = self._state_at(number)
        self._first, self._states = number, [bad]
        for u in draws.uniforms(self._key, number, _ROLLED)[:, 0].tolist():
            bad = u < (self._stays if bad else self._comes)
            self._states.append(bad)

    def _state_at(self, number: int) -> bool:
        """Return the state of a slot after those that are known; number n decides how slot n becomes slot n + 1."""
        low, high = sorted((self._comes, self._stays))
        known = self._first + len(self._states) - 1
        # A number between the thresholds keeps the state, or turns it where the bad one rather turns good.
        between, after, count = 0, number, _ROLLED
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
            after, count = first, min(2 * count, _MOST_AT_ONCE)
        return state ^ (between % 2 == 1 and self._comes > self._stays)


@dataclass(frozen=True, eq=False)
class TracedLosses:
    """Recorded outcomes, in their order, from the start again after the last.

    A link begins at ``start``, or, if that is None, at a place of its own.
    """

    outcomes: tuple[bool, ...]
    start: int | None = None

    @property
    def mean(self) -> float:
        """The share of losses in the record."""
        return sum(self.outcomes) / len(self.outcomes)

    def on_link(self, u: float) -> Decide:
        """Return the decision that reads the record from the link's place on."""
        count = int(u * len(self.outcomes)) if self.start is None else self.start

        def lost(u: float) -> bool:
            nonlocal count
            outcome = self.outcomes[count % len(self.outcomes)]
            count += 1
            return outcome

        return lost


class _Stretches(Clocked):
    """A probability of loss that depends on the time."""

    __slots__ = ("_losses", "_starts")

    def __init__(self, starts: Vector, losses: Vector) -> None:
        super().__init__()
        # The last start is where it begins again.
        self._starts, self._losses = starts, losses

    def __call__(self, u: float) -> bool:
        """Return whether u is below the probability of the time."""
        within = self.time % float(self._starts[-1])
        place = bisect.bisect_right(self._starts, within + _INSTANT) - 1
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
        return _Stretches(self.starts, self.losses)


def bernoulli(probability: float) -> Loss:
    """Lose each frame independently with this ``probability``."""
    return Bernoulli(check.probability("loss", probability))


def gilbert_elliott(
    mean: float, burst: float, *, slot: float | None = None, names: tuple[str, str] = ("mean", "burst")
) -> Loss:
    """Lose frames in bursts: ``mean`` loss in [0, 1) and ``burst`` ≥ 1 frames, or slots, in a row on average.

    Draws are nested: on one link, with one seed and one ``burst`` of at least 1/(1 − mean), that of independent losses,
    what is lost at a mean loss is lost at each higher one.

    Parameters
    ----------
    mean : float
        The share of frames that are lost.
    burst : float
        The mean number of frames lost in a row; with ``slot`` the mean number of slots in which all are lost.
    slot : float, optional
        Seconds after which the channel moves on, whether anything is sent or not: a slot loses all that is sent in it,
        or nothing. A round's length makes rounds of them. Default: the channel moves on with each frame (or
        fragment) that is sent, and waits while its sender is silent.
    names : (str, str)
        What the user calls the first two, for the error's message.

    Raises
    ------
    BadInput
        If one is outside its range, or the two cannot go together: ``burst`` must be at least mean/(1 − mean), or the
        good state would last less than a frame and the mean would be lower than asked.
    """
    name, burst_name = names
    mean = check.probability(name, mean)
    burst = check.at_least(burst_name, burst, 1)
    slot = None if slot is None else check.finite("slot", slot, low=SHORTEST_SLOT)
    # Up to rounding: 0.8 and 4 go together, though 0.8/(1 − 0.8) is a little more than 4 in floating point.
    if mean == 1 or mean > burst / (1 + burst) * (1 + check.ROUNDING):
        most = f"{burst_name}/(1 + {burst_name}) = {burst / (1 + burst):g} for {burst_name} = {burst:g}"
        raise BadInput(f"{name} = {mean:g}: must be at most {most}")
    r = 1 / burst
    return GilbertElliott(min(1.0, mean * r / (1 - mean)), r, slot)


def trace(lost: ArrayLike, *, offsets: int | None = None) -> Loss:
    """Lose what was lost in a record: its outcomes in order, one a frame (or fragment), and from the start again.

    Parameters
    ----------
    lost : array, shape (n,)
        True or 1 for each frame that was lost.
    offsets : int, optional
        Where in the record, from 0 to n − 1, every link that has this model begins: they lose in step. Default: each
        link begins at a place of its own, drawn from the network's seed and the link's two ends.
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
    """Lose frames with a probability that depends on when they are sent.

    With probabilities of 0 and 1 that is a replay: what was heard is heard, and nothing else, however often is sent.

    Parameters
    ----------
    losses : array, shape (n,)
        Probability of an independent loss in each of n stretches of time; after the last the first comes again.
    seconds : float or array of shape (n,)
        How long each lasts.
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
    """Return a model: a number is the probability of an independent loss."""
    return value if isinstance(value, Loss) else bernoulli(value)
