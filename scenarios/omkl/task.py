"""The parts of the study of online multi-kernel learning: a two-class problem, methods, and measures."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import networkx as nx
import numpy as np

from netsim import topology
from netsim.agents.consensus.multikernel import CompleteOMKL, GossipOMKL
from netsim.agents.costs.kernels import MultiKernelCost
from netsim.agents.maps.features import RandomFourier
from netsim.agents.maps.side_by_side import SideBySide
from netsim.agents.measures.metrics import consensus_error
from netsim.coders import QSGD, Coder, Exact
from netsim.errors import BadInput
from netsim.scenarios.data.choice import ClassChoice
from netsim.scenarios.data.classes import load_labelled
from netsim.scenarios.data.partitions import EVENLY, Partition
from netsim.scenarios.data.streams import Rows, again_and_again, owners, shuffled
from netsim.scenarios.data.tables import Table, unit
from netsim.scenarios.tasks.method import Task, agents_of
from netsim.scenarios.tasks.models import AgentProbe, Readings
from netsim.scenarios.tasks.settings import Divided, chosen_names, numbers_in
from netsim.studies.experiment import Method
from netsim.studies.graphs import OwnTopology
from netsim.studies.seeds import DataSeed
from netsim.util import check
from netsim.util.typing import Array

GRAPHS = {"path": topology.path, "ring": topology.ring, "star": topology.star, "complete": topology.complete}
GOSSIP, SINGLE, COMPLETE = "gossip", "Koloskova", "OMKL"
KINDS = (GOSSIP, SINGLE, COMPLETE)
SCALINGS = ("unit", "variance", "none")

SYNTHETIC = "synthetic"
"""Name of the generated data set: two crescents in the plane."""

# Defaults by data set: number of rows, positive class, scaling. For other data sets all rows are used, scaled to [0,
# 1].
_ROWS = {SYNTHETIC: 4000, "mnist": 10_000}
_POSITIVE = {"mnist": "8"}
_SCALING = {SYNTHETIC: "none", "banana": "none"}

Streams = Sequence[Sequence[tuple[Array, float]]]
MultiKernelAgent = GossipOMKL | CompleteOMKL


# --- data -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TwoClasses(Divided, ClassChoice):
    """The two classes, the scaling of the inputs, and the division of samples among agents.

    Parameters
    ----------
    partition : str
        How the samples are divided among the agents, by the two classes. "iid": at random, evenly. "shards:S": sorted
        by class, in S shards an agent (McMahan 2017). "dirichlet:ALPHA": evenly, with shares of the classes ~ Dir(ALPHA
        p) (Hsu 2019). "size:BETA": at random, the r-th largest share ~ r^-BETA. The number of rounds is that of "iid";
        an agent with fewer samples reuses them.
    rows : int
        Number of samples, chosen at random from the table, or generated for "synthetic".
    positive : str
        Name of the class with target +1; all others have -1. It may be omitted if there are two classes.
    scaling : str
        Scaling of each input. "unit": to [0, 1]; "variance": to mean 0 and variance 1; "none": unchanged.
    """

    rows: int | None = None
    positive: str | None = None
    scaling: str | None = None

    @classmethod
    def by_data(cls) -> dict[str, dict[str, Any]]:
        """Return the defaults that depend on the data set."""
        return {"rows": {**_ROWS, "other": "all"}, "positive": _POSITIVE, "scaling": {**_SCALING, "other": "unit"}}

    def resolved(self, data: str) -> Self:
        """Return the problem with unset values filled in for its data set; raises BadInput for impossible ones.

        The data sets banana and synthetic already have zero mean and unit variance, for which the paper's bandwidths
        are meant. All others are scaled to [0, 1]. Of MNIST 10,000 images are used, with 8 as the positive class.
        """
        if data == SYNTHETIC:
            if self.positive is not None:
                raise check.refuse("positive", self.positive, "left out for synthetic data")
            self.check_left_out(data)
        self.divided()
        scaling = _SCALING.get(data, "unit") if self.scaling is None else self.scaling
        return dataclasses.replace(
            self,
            rows=_ROWS.get(data) if self.rows is None else self.rows,
            positive=_POSITIVE.get(data) if self.positive is None else self.positive,
            scaling=check.one_of("scaling", scaling, SCALINGS),
        )

    def table(self, data: str, seed: int) -> Table:
        """Return the table of samples with target ±1; requires a resolved problem.

        Raises BadInput for an unknown table, a target without classes, or an unknown positive class.
        """
        notes: tuple[str, ...] = ()
        if data == SYNTHETIC:
            inputs, target = two_bananas(check.integer("rows", self.rows, low=2), seed)
        else:
            labelled = load_labelled(data, self, rows=self.rows, seed=seed)
            inputs, target, notes = labelled.inputs, labelled.signs(self.positive), labelled.notes
        if self.scaling == "unit":
            inputs = unit(inputs)
        elif self.scaling == "variance":
            spread = inputs.std(axis=0)
            inputs = (inputs - inputs.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
        return Table(data, inputs, target, tuple(f"x{i}" for i in range(inputs.shape[1])), "class", notes)


def two_bananas(rows: int, seed: int) -> tuple[Array, Array]:
    """Generate samples from two interlocking crescents in the plane, one per class.

    Both classes are equally likely. With a ~ U[0, π], class −1 has the points (cos a, sin a), and class +1 has the
    points (1 − cos a, ½ − sin a). Noise of standard deviation 0.25 is added to both coordinates. Finally each column is
    centred and divided by its standard deviation.
    """
    check.fits("rows", rows, 8 * 3 * rows, "that many")
    rng = np.random.default_rng(check.integer("seed", seed, low=0))
    target = rng.choice([-1.0, 1.0], rows)
    angle = rng.uniform(0.0, math.pi, rows)
    first = np.column_stack([np.cos(angle), np.sin(angle)])
    inputs = np.where(target[:, None] < 0.0, first, (1.0, 0.5) - first) + rng.normal(0.0, 0.25, (rows, 2))
    return (inputs - inputs.mean(axis=0)) / inputs.std(axis=0), target


@dataclass(frozen=True, kw_only=True)
class ModelSetting:
    """The size of the network and of its models.

    Parameters
    ----------
    agents : int
        Number of agents.
    features : int
        Number D of random frequencies per kernel; a kernel's model has 2D elements.
    sigmas : str
        Bandwidths of the Gaussian kernels, separated by commas; Koloskova uses only the first.
    regularizer : float
        The regulariser lambda; each agent uses it undivided.
    """

    agents: int = 20
    features: int = 20
    sigmas: str = "1,3,5"
    regularizer: float = 1e-3

    @property
    def bandwidths(self) -> list[float]:
        """Return the bandwidths; raises BadInput for values that are not positive numbers."""
        return _numbers("sigmas", self.sigmas)

    def check(self) -> None:
        """Raise BadInput for a value outside its range."""
        check.integer("agents", self.agents, low=1)
        check.integer("features", self.features, low=1)
        check.finite("regularizer", self.regularizer, low=0.0)
        _ = self.bandwidths

    def owners(self, table: Table, partition: Partition, seeds: DataSeed) -> list[Rows]:
        """Return each agent's rows, drawn by the data seed; raises BadInput if the partition is impossible."""
        return owners(table.target, self.agents, partition, _order_seed(seeds))

    def streams(self, table: Table, rounds: int, seeds: DataSeed, partition: Partition = EVENLY) -> Streams:
        """Return each agent's stream of samples (z, y) for a number of rounds, in an order given by the data seed."""
        sigmas, order = self.bandwidths, _order_seed(seeds)
        _, *numbers = np.random.SeedSequence(seeds.seed).generate_state(1 + len(sigmas)).tolist()
        maps = [
            RandomFourier(table.inputs.shape[1], self.features, sigma=sigma, form="cos+sin", seed=number)
            for sigma, number in zip(sigmas, numbers, strict=True)
        ]
        phi = SideBySide(maps)
        if partition == EVENLY:
            every = shuffled(table, self.agents, phi, order)
        else:
            every = again_and_again(table, self.owners(table, partition, seeds), phi, in_order=False, seed=order)
        return [list(itertools.islice(each, rounds)) for each in every]

    def cost(self, samples: Sequence[tuple[Array, float]], kernels: int) -> MultiKernelCost:
        """Return an agent's cost at the start of its stream, with the first ``kernels`` kernels."""
        size = 2 * self.features
        own = ((z[: kernels * size], y) for z, y in samples)
        return MultiKernelCost(own, kernels, size, regularizer=self.regularizer)


def _order_seed(seeds: DataSeed) -> int:
    """Return the seed for the division and the order of the samples."""
    return int(np.random.SeedSequence(seeds.data).generate_state(1)[0])


# --- methods ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnGraph:
    """A method in `KINDS` on a graph; ``bits`` is the quantizer's bits per level, or None without quantizer."""

    kind: str
    topology: str
    bits: int | None

    @property
    def name(self) -> str:
        """Return the run's name in tables."""
        return f"{self.kind} {Path(self.topology).stem}" + ("" if self.bits is None else f" {self.bits}-bit")

    @property
    def element_bits(self) -> int:
        """Return the bits per transmitted element of a model: 64 for a float64, else a sign and a quantized level."""
        return 64 if self.bits is None else 1 + self.bits

    def graph(self, agents: int) -> "nx.Graph[int]":
        """Return the method's graph, one of `GRAPHS` or one from a file."""
        if self.topology in GRAPHS:
            return GRAPHS[self.topology](agents)
        return OwnTopology(topology=self.topology).graph_of(agents, nx.Graph)

    def agents(
        self, model: ModelSetting, streams: Streams, rounds: int, eta: float, gamma: float
    ) -> dict[int, MultiKernelAgent]:
        """Return new agents at the start of their streams, with learning step ``eta`` and gossip step ``gamma``."""
        coder: Coder = Exact() if self.bits is None else QSGD(self.bits, by_row=True)
        if self.kind == COMPLETE:
            method = Method(CompleteOMKL, agents=model.agents, eta=eta, coder=coder)
        else:
            method = Method(GossipOMKL, eta=eta, gamma=gamma, coder=coder)
        kernels = 1 if self.kind == SINGLE else len(model.bandwidths)
        task = Task(lambda i: model.cost(streams[i], kernels), self.graph(model.agents))
        return agents_of(method, task, rounds)


@dataclass(frozen=True, kw_only=True)
class MethodSetting(OwnTopology):
    """The methods, their step sizes, and their graphs.

    Parameters
    ----------
    eta : str
        Step size of learning; several values are separated by commas.
    gamma : str
        Step size of gossip, one for each eta.
    bits : int
        Bits per level of the random quantizer (1-16), which also sends a sign bit. Gossip also runs without quantizer.
    topologies : str
        Graphs of gossip, separated by commas: path, ring, star, complete. Koloskova uses only the first.
    algorithms : str
        Methods to run, separated by commas: gossip, Koloskova, OMKL.
    """

    eta: str = "0.01,0.1"
    gamma: str = "0.009,0.09"
    bits: int = 3
    topologies: str = "path,ring,complete"
    algorithms: str = "gossip,Koloskova,OMKL"

    def steps(self) -> list[tuple[float, float]]:
        """Return pairs of learning step and gossip step; raises BadInput if they do not form pairs."""
        etas, gammas = _numbers("eta", self.eta), _numbers("gamma", self.gamma)
        if len(etas) != len(gammas) or len(set(etas)) != len(etas):
            raise BadInput(f"eta = {etas}, gamma = {gammas}: must be a gamma for each eta, and no eta twice; give both")
        return list(zip(etas, gammas, strict=True))

    def methods(self) -> list[OnGraph]:
        """Return gossip on every graph with and without a quantizer, and the quantized benchmarks.

        Koloskova, with one kernel, runs on the first graph; OMKL always runs on the complete graph. Raises BadInput for
        an unknown method or graph.
        """
        bits = check.integer("bits", self.bits, low=1, high=16)
        kinds = chosen_names("algorithms", self.algorithms, KINDS)
        topologies = chosen_names("topologies", self.topologies, GRAPHS)
        if self.topology is not None:
            usual = MethodSetting.topologies
            if self.topologies != usual:
                raise check.refuse("topologies", self.topologies, f"left out with topology = {self.topology!r}")
            topologies = [self.topology]
        found = [OnGraph(GOSSIP, graph, each) for graph in topologies for each in (None, bits) if GOSSIP in kinds]
        if SINGLE in kinds:
            found.append(OnGraph(SINGLE, topologies[0], bits))
        if COMPLETE in kinds:
            found.append(OnGraph(COMPLETE, "complete", bits))
        return found


def _numbers(name: str, text: str) -> list[float]:
    """Return the positive numbers listed in a parameter's text."""
    # A number that is not positive raises BadInput, which is a ValueError, so the error shows the whole list.
    allowed = "positive numbers with commas between"
    return numbers_in(name, text, allowed, lambda each: check.finite(name, float(each), above=0.0))


# --- measures ---------------------------------------------------------------------------------------------------------


class KernelMeasure(AgentProbe):
    """A probe of the losses of the agents' predictions, averaged over the agents.

    ``loss`` is the loss of the combined prediction in this round, and ``running_loss`` its mean over the rounds so far.
    ``weighted_loss`` is the weighted mean of the single kernels' losses in this round. ``running_accuracy`` is the
    share of the combined predictions so far that had the correct sign.
    """

    def __init__(self, names: Iterable[Any]) -> None:
        super().__init__(names)
        self._before = np.zeros(2)

    def read(self, agents: Mapping[Any, MultiKernelAgent]) -> Readings:
        """Return the agents' models, and the sums and counts kept by their costs."""
        costs = [agent.cost for agent in agents.values()]
        return {
            "loss": [cost.combined.loss_sum for cost in costs],
            "weighted": [cost.weighted_sum for cost in costs],
            "count": [cost.combined.count for cost in costs],
            "right": [cost.combined.right for cost in costs],
            "model": [agent.model.ravel() for agent in agents.values()],
        }

    def measure(self, readings: Readings) -> dict[str, float]:
        """Return loss, running_loss, weighted_loss, consensus_error and running_accuracy."""
        sums = np.array([sum(readings["loss"]), sum(readings["weighted"])])
        loss, weighted = ((sums - self._before) / len(readings["loss"])).tolist()
        self._before = sums
        count = sum(readings["count"])
        return {
            "loss": loss,
            "running_loss": float(sums[0]) / count,
            "weighted_loss": weighted,
            "consensus_error": consensus_error(np.stack(readings["model"])),
            "running_accuracy": sum(readings["right"]) / count,
        }
