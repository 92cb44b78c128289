"""Partitions: which agent gets which samples of a data set, evenly or unevenly by label or by number."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from netsim.errors import BadInput
from netsim.util import check, draws
from netsim.util.typing import Array

IID = "iid"
BINS = 10
"""Bins of a target that is a number; as many samples in each, as far as equal targets allow."""
LEAST = 2
"""Samples that every agent has: one trains and one tests."""

_ALLOWED = "iid, shards:S, dirichlet:ALPHA or size:BETA"
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Partition:
    """A rule for dividing samples among agents: each sample goes to one agent, each agent gets at least two.

    * ``iid``: at random, evenly.
    * ``shards``: samples in the order of their labels are cut into ``value`` shards of one size for each agent, and
      dealt at random [1]_.
    * ``dirichlet``: as many samples for each agent, labels in shares q ~ Dir(α p) of its own [2]_: α is ``value``, p
      the labels' shares in the data, which sum to one. Where agents ask for more samples of a label than are left,
      chance decides who gets them, and the others draw again among the labels that are left, by the same shares. So
      an agent's share of a label is p in the mean. Its variance is p (1 - p) / (α + 1) where nothing runs out; of that
      4000 agents have 98 %, 400 have 93 %, ten about 70 %.
    * ``size``: at random; of n samples the r-th largest of N agents has 2 + (n - 2N) r^-β / Σ_s s^-β, rounded: β is
      ``value``.

    Attributes
    ----------
    kind : {"iid", "shards", "dirichlet", "size"}
        The rule.
    value : float
        Its number; 0 for iid.

    References
    ----------
    .. [1] H. B. McMahan, E. Moore, D. Ramage, S. Hampson and B. Agüera y Arcas. Communication-efficient learning of
       deep networks from decentralized data. AISTATS, 2017.
    .. [2] T.-M. H. Hsu, H. Qi and M. Brown. Measuring the effects of non-identical data distribution for federated
       visual classification. arXiv:1909.06335, 2019.
    """

    kind: str = IID
    value: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the partition named by a text such as "dirichlet:0.1"; raises BadInput for another text."""
        kind, colon, number = text.partition(":") if isinstance(text, str) else ("", "", "")
        if kind == IID and not colon:
            return cls()
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if kind not in _RULES or not math.isfinite(value):
            raise check.refuse("partition", text, _ALLOWED)
        if kind == "shards" and not (value >= 1 and value.is_integer()):
            raise check.refuse("partition", text, "shards:S with a whole number S >= 1")
        if value < 0 or (kind == "dirichlet" and value == 0):
            above = "ALPHA > 0" if kind == "dirichlet" else "BETA >= 0"
            raise check.refuse("partition", text, f"{kind}:{above}")
        return cls(kind, value)

    def divide(self, target: Array, agents: int, *, seed: int, classes: int = 0) -> list[Indices]:
        """Return the samples of each agent, in ascending order.

        Parameters
        ----------
        target : array, shape (n,)
            Class numbers, or numbers if ``classes`` is 0, of samples in random order.
        agents : int
            Number of agents.
        seed : int
            The seed of the division.
        classes : int
            Number of classes; 0 if the target is a number, which is then binned (`labels_of`). Shards are cut from the
            sorted numbers themselves.

        Raises
        ------
        BadInput
            If there are fewer than two samples per agent, more shards than samples, or only one label.
        """
        if len(target) < LEAST * agents:
            raise BadInput(f"agents = {agents}: must be at most {len(target) // LEAST}, for 2 of {len(target)} samples")
        if self.kind == IID:
            return np.array_split(np.arange(len(target)), agents)
        if self.kind in ("shards", "dirichlet") and not np.ptp(target):
            raise check.refuse("partition", str(self), "iid or size:BETA for data with one label only")
        labels: NDArray[Any] = target if self.kind == "shards" else labels_of(target, classes)
        rng = draws.generator(check.integer("seed", seed, low=0), "samples", "partition")
        return [np.sort(each) for each in _RULES[self.kind](labels, agents, self.value, rng)]

    def __str__(self) -> str:
        return self.kind if self.kind == IID else f"{self.kind}:{self.value:g}"


EVENLY = Partition()
"""The partition that divides samples at random into equal parts."""


def labels_of(target: Array, classes: int = 0) -> Indices:
    """Return class numbers unchanged, and for ``classes`` 0 the bins of numbers in increasing order, shape (n,).

    The boundaries of bins are the quantiles 0.1, 0.2, ..., 0.9 of the target; bins without samples are left out.
    """
    if classes:
        return target.astype(np.int64)
    ends = np.unique(np.quantile(target, np.arange(1, BINS) / BINS))
    bins: Indices = np.unique(np.searchsorted(ends, target, side="right"), return_inverse=True)[1].astype(np.int64)
    return bins


def _shards(labels: NDArray[Any], agents: int, value: float, rng: np.random.Generator) -> list[Indices]:
    each = int(value)
    if each * agents > len(labels):
        most = len(labels) // agents
        raise BadInput(f"partition = 'shards:{each}': must be at most shards:{most}, for {len(labels)} samples")
    shards = np.array_split(np.argsort(labels, kind="stable"), each * agents)
    dealt = rng.permutation(len(shards)).reshape(agents, each)
    return [np.concatenate([shards[number] for number in own]) for own in dealt]


def _dirichlet(labels: NDArray[Any], agents: int, value: float, rng: np.random.Generator) -> list[Indices]:
    left = np.bincount(labels)
    present = np.flatnonzero(left)
    shares = np.zeros((agents, len(left)))
    shares[:, present] = rng.dirichlet(value * left[present] / len(labels), size=agents)
    counts = np.zeros((agents, len(left)), dtype=np.int64)
    sizes = np.array([len(part) for part in np.array_split(labels, agents)])
    while (wanted := sizes - counts.sum(axis=1)).any():
        open_shares = np.where(left > 0, shares, 0.0)
        # If an agent's labels have all run out, the agent draws from all remaining samples.
        open_shares[~(open_shares.sum(axis=1) > 0)] = left
        asked = rng.multinomial(wanted, open_shares / open_shares.sum(axis=1, keepdims=True))
        for label in np.flatnonzero(asked.sum(axis=0) > left):
            asked[:, label] = rng.multivariate_hypergeometric(asked[:, label], left[label], method="marginals")
        counts += asked
        left = left - asked.sum(axis=0)
    parts: list[list[Indices]] = [[] for _ in range(agents)]
    for label in present:
        for own, part in zip(
            parts, np.split(np.flatnonzero(labels == label), np.cumsum(counts[:-1, label])), strict=True
        ):
            own.append(part)
    return [np.concatenate(own) for own in parts]


def _sizes(labels: NDArray[Any], agents: int, value: float, rng: np.random.Generator) -> list[Indices]:
    weights = np.arange(1.0, agents + 1.0) ** -value
    spare = len(labels) - LEAST * agents
    exact = spare * weights / weights.sum()
    sizes = np.floor(exact).astype(np.int64)
    # The samples that remain after rounding go to the agents with the largest fractional parts.
    sizes[np.argsort(sizes - exact, kind="stable")[: spare - sizes.sum()]] += 1
    return np.split(np.arange(len(labels)), np.cumsum(rng.permutation(sizes + LEAST))[:-1])


_Rule = Callable[[NDArray[Any], int, float, np.random.Generator], list[Indices]]
_RULES: Mapping[str, _Rule] = {"shards": _shards, "dirichlet": _dirichlet, "size": _sizes}
