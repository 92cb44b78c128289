"""Bursts of losses: block fading, noise that resembles a measured trace, and a measure of burstiness.

Real losses occur in bursts: a frame that is retransmitted within milliseconds meets the same channel that lost it. The
results of both models depend only on the seed, the link or node, and the time, so times may be queried in any order.
`PatternNoise` stores each node's last sample only to save time.
"""

import math
from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.util import check, draws

__all__ = ["BlockFading", "PatternNoise", "beta_factor"]

# _MOST_K is the largest K-factor: above it, fading is below 0.01 dB. _LEAST_POWER (−200 dB) replaces smaller power
# gains, because a gain of 0 has no logarithm.
_MOST_K, _LEAST_POWER = 1e6, 1e-20
# Replaces a draw of 0, which has no logarithm: half of the step 2^−53 between draws.
_LEAST_DRAW = 2.0**-54
# _SHORTEST is the minimum length (s) of a block or sample. _INSTANT is a rounding tolerance in units of a sample: a
# time that precedes a sample by less than _INSTANT counts as within the sample.
_SHORTEST, _INSTANT = 1e-9, 1e-9
# For up to _FEW random numbers, drawing one at a time is faster than a numpy call.
_FEW = 8


@check.named
@dataclass(frozen=True, kw_only=True)
class BlockFading:
    """Rayleigh or Rician fading that is constant for a coherence time: ``Phy(fading=BlockFading(coherence=0.1))``.

    The channel consists of a direct path and of many scattered paths, which add up to a complex normal number. The
    power gain has mean 1, so fading does not change the mean received power. Without a direct path (K = 0, Rayleigh),
    the gain is exponentially distributed. Each link draws a new gain every ``coherence`` seconds, independent of the
    last gain. Both directions of a link have the same gain; different links fade independently, and their blocks begin
    at different times.
    Source: Rappaport, "Wireless Communications", 2nd ed. 2002, sections 5.4 and 5.6.

    Parameters
    ----------
    coherence : float
        Seconds for which a link's gain stays constant. For a node that moves with speed v, at frequency f, this is
        about 0.42·c/(f·v): 52 ms at 1 m/s and 2.44 GHz.
    k_factor : float
        K, the ratio (not in dB) of the direct path's power to the total power of the scattered paths. 0: Rayleigh.

    Raises
    ------
    BadInput
        If a value is outside its range.
    """

    coherence: float
    k_factor: float = 0.0

    def __post_init__(self) -> None:
        check.fields(self, check.finite, "coherence", low=_SHORTEST)
        check.fields(self, check.finite, "k_factor", low=0, high=_MOST_K)

    def gain_db(self, seed: int, link_key: int, time: float) -> float:
        """Return the power gain (dB) of the link with this key at ``time`` (s)."""
        key = draws.stream_key(seed, link_key, "fading")
        block = int(time / self.coherence + draws.uniform(key, 0))
        scattered = -math.log(max(draws.uniform(key, 2 * block + 1), _LEAST_DRAW))
        k = self.k_factor
        if k > 0.0:
            angle = 2.0 * math.pi * draws.uniform(key, 2 * block + 2)
            scattered = (k + scattered + 2.0 * math.sqrt(k * scattered) * math.cos(angle)) / (1.0 + k)
        return 10.0 * math.log10(max(scattered, _LEAST_POWER))


class PatternNoise:
    """Noise in which samples follow one another as in a measured trace: ``Phy(noise=PatternNoise(trace))``.

    The model is closest-fit pattern matching (CPM): the last ``history`` samples form a pattern, and the next sample is
    drawn from all samples of the trace that follow the same pattern. Samples are compared after rounding to
    ``resolution``. This is a Markov chain whose state is an index of the trace. The trace is treated as a ring, so each
    pattern has a successor. The uniform distribution over indices is stationary, so each sample has exactly the trace's
    distribution, and so have up to ``history`` + 1 successive samples jointly.

    Time is divided into stretches of ``restart`` seconds. Each stretch begins at an index drawn from (seed, node,
    number of the stretch). So a query at any time takes at most restart/interval steps of the chain, and only each
    node's last index is stored. The price is a smaller correlation: for two samples that are τ seconds apart, the
    chain's correlation is multiplied by 1 − τ/restart. All nodes have independent noise, even neighbours.

    Source: Lee, Cerpa, Levis, "Improving wireless simulation through noise modeling", IPSN 2007, with patterns of 20
    samples of 1 ms. The paper replaces a pattern that is not in the trace by the most common one; here every pattern is
    in the trace.

    Parameters
    ----------
    trace : array, shape (n,)
        The measured noise in dBm, one sample per ``interval``.
    interval : float
        Seconds between samples.
    history : int
        The number of samples in a pattern. 0: all samples are independent; the larger the value, the longer the pieces
        of the trace that repeat.
    resolution : float
        Samples count as equal if they are equal after rounding to multiples of this many dB.
    restart : float
        Length of a stretch in seconds, rounded to a multiple of ``interval``.

    Raises
    ------
    BadInput
        If a value is outside its range.
    """

    def __init__(
        self,
        trace: ArrayLike,
        *,
        interval: float = 1e-3,
        history: int = 20,
        resolution: float = 1.0,
        restart: float = 1.0,
    ) -> None:
        samples = check.finite_array("trace", trace)
        if samples.ndim != 1 or not 2 <= len(samples) < 2**31:
            raise check.refuse("trace", trace, "a sequence of two samples at least, in dBm")
        self._interval = check.finite("interval", interval, low=_SHORTEST)
        history = check.integer("history", history, low=0, high=len(samples))
        resolution = check.finite("resolution", resolution, above=0)
        self._steps = max(round(check.at_least("restart", restart, self._interval) / self._interval), 1)
        patterns = _patterns(np.round(samples / resolution), history)
        # ``order`` holds the trace's indices, sorted by the pattern before each index. After index i the chain may move
        # to any index with the same pattern before it as index i + 1. These indices are adjacent in ``order``: they are
        # the `_counts`[i] elements from position `_firsts`[i] on.
        order = np.argsort(patterns, kind="stable")
        counts = np.bincount(patterns)
        firsts = np.cumsum(counts) - counts
        ends = np.roll(patterns, -1)
        self._samples, self._order = array("d", samples.tolist()), array("i", order.tolist())
        self._firsts, self._counts = array("i", firsts[ends].tolist()), array("i", counts[ends].tolist())
        self._seed = -1
        # {node's key: (n, the trace index of sample n)}, where sample n was the last one queried. A query with another
        # seed clears the dict.
        self._last: dict[int, tuple[int, int]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<{len(self._samples)} samples>, interval={self._interval:g})"

    def noise_dbm(self, seed: int, node_key: int, time: float) -> float:
        """Return the noise (dBm) at the node with this key at ``time`` (s)."""
        number = int(time / self._interval + _INSTANT)
        if seed != self._seed:
            self._seed, self._last = seed, {}
        begin = number - number % self._steps
        at, place = self._last.get(node_key, (-1, 0))
        if at != number:
            key = draws.stream_key(seed, node_key, "noise")
            if not begin <= at < number:
                at, place = begin, int(draws.uniform(key, begin) * len(self._samples))
            place = self._walk(key, at, place, number)
            self._last[node_key] = number, place
        return float(self._samples[place])

    def _walk(self, key: int, at: int, place: int, number: int) -> int:
        """Step from sample ``at``, whose trace index is ``place``, to sample ``number``; return its trace index."""
        if number - at <= _FEW:
            drawn = [draws.uniform(key, each) for each in range(at + 1, number + 1)]
        else:
            drawn = draws.uniforms(np.array([key], dtype=np.uint64), at + 1, number - at)[:, 0].tolist()
        order, firsts, counts = self._order, self._firsts, self._counts
        for u in drawn:
            place = order[firsts[place] + int(u * counts[place])]
        return place


def _patterns(values: NDArray[np.float64], length: int) -> NDArray[np.int64]:
    """For each index of a ring, return an id of the ``length`` values before it; equal sequences have equal ids."""
    if not length:
        return np.zeros(len(values), dtype=np.int64)
    # ``found``[i] identifies the sequence of ``known`` values from index i on: equal sequences have equal ids. Each
    # step of the loop doubles ``known``, up to ``length``.
    _, found = np.unique(values, return_inverse=True)
    known = 1
    while known < length:
        step = min(known, length - known)
        _, found = np.unique(found * np.int64(len(values)) + np.roll(found, -step), return_inverse=True)
        known += step
    return np.roll(found, length).astype(np.int64)


def beta_factor(received: ArrayLike, *, least: int = 10) -> float:
    """Return β of a link, the burstiness of its losses: 0 if losses are independent, 1 if the link is ideally bursty.

    The conditional delivery function f of a link has two values for each n: the share of frames that are received after
    n received frames in a row, and the share after n lost frames in a row. On an ideally bursty link, f is 1 after
    received frames and 0 after lost frames. Let d be the mean distance of the given link's f from this ideal f. Let d₀
    be the mean distance from the ideal f on a link with the same share of received frames, but independent losses. Then
    β = 1 − d/d₀, which is negative if a loss makes a reception more likely. With few frames β is slightly too low:
    compare only sequences of equal length.
    Source: Srinivasan, Kazandjieva, Agarwal, Levis, "The β-factor: measuring wireless link burstiness", SenSys 2008.

    Parameters
    ----------
    received : array, shape (n,)
        For each frame, whether it was received, in the order of sending. Frames are sent at equal intervals.
    least : int
        A value of f is ignored if it is a share of fewer than this many frames.

    Returns
    -------
    float
        β; NaN if all values of f are ignored, if all frames were received, or if all were lost.
    """
    values = np.asarray(received)
    if values.ndim != 1 or not len(values) or not np.isin(values, (0, 1)).all():
        raise check.refuse("received", received, "a sequence of at least one 0 (lost) or 1 (received)")
    least = check.integer("least", least, low=1)
    good = values.astype(bool)
    mean = float(good.mean())
    # A run is a maximal sequence of equal outcomes. ``ended`` below omits the last run, because no frame follows it.
    starts = np.flatnonzero(np.diff(good, prepend=~good[:1]))
    lengths = np.diff(starts, append=len(good))
    distance = independent = 0.0
    for state in (True, False):
        runs = lengths[good[starts] == state]
        # Element n − 1 of both arrays counts the frames that come directly after n frames of outcome ``state``:
        # ``alike`` counts those with outcome ``state`` again, ``ended`` those with the other outcome.
        alike = np.cumsum(np.cumsum(np.bincount(runs)[::-1]))[::-1][2:] if len(runs) else runs
        ended = np.cumsum(np.bincount(lengths[:-1][good[starts[:-1]] == state])[::-1])[::-1][1:]
        alike, ended = (np.pad(each, (0, len(good) - len(each))) for each in (alike, ended))
        counted = alike + ended >= least
        stays = alike[counted] / (alike + ended)[counted]
        distance += float((1.0 - stays).sum())
        independent += len(stays) * (1.0 - mean if state else mean)
    return 1.0 - distance / independent if 0.0 < mean < 1.0 and independent else math.nan
