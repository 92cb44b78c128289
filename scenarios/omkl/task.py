"""What the study of online multi-kernel learning runs: two classes to tell apart, its methods, its measures."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim import topology
from netsim.agents.consensus.multikernel import CompleteOMKL, GossipOMKL
from netsim.agents.costs.kernels import MultiKernelCost
from netsim.agents.maps.features import RandomFourier
from netsim.agents.maps.side_by_side import SideBySide
from netsim.agents.measures.metrics import consensus_error
from netsim.coders import QSGD, Coder, Exact
from netsim.scenarios.data.choice import ClassChoice
from netsim.scenarios.data.classes import load_labelled
from netsim.scenarios.data.streams import shuffled
from netsim.scenarios.data.tables import Table, unit
from netsim.scenarios.tasks.method import Method, averaging_weights
from netsim.util import check

GRAPHS = {"path": topology.path, "ring": topology.ring, "star": topology.star, "complete": topology.complete}
GOSSIP, SINGLE, COMPLETE = "gossip", "Koloskova", "OMKL"
KINDS = (GOSSIP, SINGLE, COMPLETE)
SCALINGS = ("unit", "variance", "none")

SYNTHETIC = "synthetic"
"""Two crescents in the plane: no file is needed."""

# What is used of a data set where it is left open; of others all rows, scaled to [0, 1].
_ROWS = {SYNTHETIC: 4000, "mnist": 10_000}
_POSITIVE = {"mnist": "8"}
_SCALING = {SYNTHETIC: "none", "banana": "none"}

Streams = Sequence[Sequence[tuple[NDArray[np.float64], float]]]
MultiKernelAgent = GossipOMKL | CompleteOMKL


# --- data -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TwoClasses(ClassChoice):
    """Which two classes are to be told apart, and how the inputs are scaled.

    Parameters
    ----------
    rows : int
        Use only so many samples, taken at random; synthetic: draw so many.
    positive : str
        Name of the class that is +1, all others being -1; may be left out if there are two.
    scaling : str
        "unit": each input scaled to [0, 1]; "variance": to mean 0 and variance 1; "none".
    """

    rows: int | None = None
    positive: str | None = None
    scaling: str | None = None

    @classmethod
    def by_data(cls) -> dict[str, dict[str, Any]]:
        """Return the defaults that depend on the data set."""
        return {"rows": {**_ROWS, "other": "all"}, "positive": _POSITIVE, "scaling": {**_SCALING, "other": "unit"}}

    def resolved(self, data: str) -> Self:
        """Return it with what the data set asks for where it was left open.

        Banana and the synthetic set are centred and of unit variance as they are, in the units of the paper's
        bandwidths; all others are scaled to [0, 1]. Of MNIST's images 10,000 are used, and 8 is the class to tell.

        Raises
        ------
        BadInput
            For an unknown scaling, or a class to tell or a column of the synthetic set.
        """
        if data == SYNTHETIC:
            if self.positive is not None:
                raise check.refuse("positive", self.positive, "left out for synthetic data")
            self.check_left_out(data)
        scaling = _SCALING.get(data, "unit") if self.scaling is None else self.scaling
        return dataclasses.replace(
            self,
            rows=_ROWS.get(data) if self.rows is None else self.rows,
            positive=_POSITIVE.get(data) if self.positive is None else self.positive,
            scaling=check.one_of("scaling", scaling, SCALINGS),
        )

    def table(self, data: str, seed: int) -> Table:
        """Return the problem, its target ±1; nothing that `resolved` fills in may be left open.

        Raises
        ------
        BadInput
            If there is no such table, its target is not classes, or the class to tell is none of them.
        """
        said: tuple[str, ...] = ()
        if data == SYNTHETIC:
            inputs, target = two_bananas(check.integer("rows", self.rows, low=2), seed)
        else:
            labelled = load_labelled(data, self, rows=self.rows, seed=seed)
            inputs, target, said = labelled.inputs, labelled.signs(self.positive), labelled.said
        if self.scaling == "unit":
            inputs = unit(inputs)
        elif self.scaling == "variance":
            spread = inputs.std(axis=0)
            inputs = (inputs - inputs.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
        return Table(data, inputs, target, tuple(f"x{i}" for i in range(inputs.shape[1])), "class", said)


def two_bananas(rows: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw two crescents that reach into each other, in the plane, a class each.

    With a ~ U[0, π] the classes −1 and +1, equally likely, are (cos a, sin a) and (1 − cos a, ½ − sin a), and noise of
    standard deviation 0.25 in both directions. Then each column is centred and divided by its standard deviation.

    Returns
    -------
    inputs : ndarray of shape (rows, 2)
    target : ndarray of shape (rows,)
        −1 or +1.
    """
    check.fits("rows", rows, 8 * 3 * rows, "so many")
    rng = np.random.default_rng(check.integer("seed", seed, low=0))
    target = rng.choice([-1.0, 1.0], rows)
    angle = rng.uniform(0.0, math.pi, rows)
    first = np.column_stack([np.cos(angle), np.sin(angle)])
    inputs = np.where(target[:, None] < 0.0, first, (1.0, 0.5) - first) + rng.normal(0.0, 0.25, (rows, 2))
    return (inputs - inputs.mean(axis=0)) / inputs.std(axis=0), target


@dataclass(frozen=True)
class Models:
    """The agents' models.

    Attributes
    ----------
    agents : int
        Number of agents.
    sigmas : tuple of float
        Bandwidths of the Gaussian kernels.
    features : int
        Number D of random frequencies of a kernel, each a sine and a cosine.
    regularizer : float
        λ.
    """

    agents: int
    sigmas: tuple[float, ...]
    features: int
    regularizer: float

    def streams(self, table: Table, rounds: int, seed: int) -> Streams:
        """Return each agent's samples (z, y) of so many rounds: random features and order of the rows from ``seed``."""
        numbers = np.random.SeedSequence(seed).generate_state(1 + len(self.sigmas)).tolist()
        maps = [
            RandomFourier(table.inputs.shape[1], self.features, sigma=sigma, form="cos+sin", seed=number)
            for sigma, number in zip(self.sigmas, numbers[1:], strict=True)
        ]
        every = shuffled(table, self.agents, SideBySide(maps), numbers[0])
        return [list(itertools.islice(each, rounds)) for each in every]

    def cost(self, samples: Sequence[tuple[NDArray[np.float64], float]], kernels: int) -> MultiKernelCost:
        """Return an agent's cost with the first so many kernels, at the start of its stream."""
        size = 2 * self.features
        own = ((z[: kernels * size], y) for z, y in samples)
        return MultiKernelCost(own, kernels, size, regularizer=self.regularizer)


# --- methods ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnGraph:
    """A method on a graph.

    Attributes
    ----------
    kind : str
        "gossip": gossip OMKL with all kernels; "Koloskova": with the first alone; "OMKL": on the complete graph.
    topology : str
        Name of the graph.
    bits : int, optional
        Bits of a level of the random quantizer; None: no quantizer.
    """

    kind: str
    topology: str
    bits: int | None

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return f"{self.kind} {self.topology}" + ("" if self.bits is None else f" {self.bits}-bit")

    @property
    def element_bits(self) -> int:
        """Bits of an element of a model on its way: 64 for a float64, else a sign and a level."""
        return 64 if self.bits is None else 1 + self.bits

    def graph(self, agents: int) -> "nx.Graph[int]":
        """Return its graph of so many agents."""
        return GRAPHS[self.topology](agents)

    def method(self, agents: int, eta: float, gamma: float) -> Method:
        """Return it as a method, with steps of learning and of gossip."""
        coder: Coder = Exact() if self.bits is None else QSGD(self.bits, by_row=True)
        if self.kind == COMPLETE:
            return Method(self.name, CompleteOMKL, {"agents": agents, "eta": eta}, coder=coder)
        return Method(self.name, GossipOMKL, {"eta": eta, "gamma": gamma}, coder=coder)

    def agents(
        self, models: Models, streams: Streams, rounds: int, eta: float, gamma: float
    ) -> dict[int, MultiKernelAgent]:
        """Return new agents, at the start of their streams."""
        task = _Task(self, models, streams)
        return self.method(len(streams), eta, gamma).agents(task, rounds)


class _Task:
    """One reading of every agent's stream, with the kernels that a method has."""

    def __init__(self, method: OnGraph, models: Models, streams: Streams) -> None:
        self.nodes = range(len(streams))
        self._streams, self._models = streams, models
        self._kernels = 1 if method.kind == SINGLE else len(models.sigmas)
        self._weights = averaging_weights(method.graph(len(streams)))

    def cost(self, node: int) -> MultiKernelCost:
        return self._models.cost(self._streams[node], self._kernels)

    def weights(self, node: int) -> dict[int, float]:
        return self._weights[node]


def methods(kinds: Sequence[str], topologies: Sequence[str], bits: int) -> list[OnGraph]:
    """Return the methods: gossip on every graph with and without a quantizer, and the benchmarks, quantized.

    That of one kernel runs on the first graph; OMKL on the complete one, whatever the others are.
    """
    found = [OnGraph(GOSSIP, graph, each) for graph in topologies for each in (None, bits) if GOSSIP in kinds]
    if SINGLE in kinds:
        found.append(OnGraph(SINGLE, topologies[0], bits))
    if COMPLETE in kinds:
        found.append(OnGraph(COMPLETE, "complete", bits))
    return found


# --- measures ---------------------------------------------------------------------------------------------------------


class Measure:
    """The columns of a round (a probe): means over the agents of the costs of the predictions they made.

    ``loss`` is that of the combined prediction in this round, ``running_loss`` its mean over the rounds so far,
    ``weighted_loss`` the kernels' own costs by their weights, in this round; ``running_accuracy`` is the share of the
    combined predictions so far that had the right sign.
    """

    def __init__(self) -> None:
        self._before = np.zeros(2)

    def __call__(self, agents: Mapping[Any, MultiKernelAgent]) -> dict[str, float]:
        """Return loss, running_loss, weighted_loss, consensus_error and running_accuracy."""
        costs = [agent.cost for agent in agents.values()]
        sums = np.array([sum(cost.combined.loss_sum for cost in costs), sum(cost.weighted_sum for cost in costs)])
        loss, weighted = ((sums - self._before) / len(costs)).tolist()
        self._before = sums
        count = sum(cost.combined.count for cost in costs)
        return {
            "loss": loss,
            "running_loss": float(sums[0]) / count,
            "weighted_loss": weighted,
            "consensus_error": consensus_error(np.stack([agent.model.ravel() for agent in agents.values()])),
            "running_accuracy": sum(cost.combined.right for cost in costs) / count,
        }
