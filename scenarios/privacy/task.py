"""The task of the study `privacy`: samples in the form that each algorithm needs, and the algorithms."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from netsim import Agent, BadInput, Method, Problem, Setup, topology
from netsim.agents import Dictionary, Geometric, LocalProblem, OnlineCost, PowerLaw, RandomFourier, Squared, centralised
from netsim.agents.consensus.multikernel import CompleteOMKL, GossipOMKL
from netsim.agents.costs.kernels import MultiKernelCost
from netsim.agents.greedy.penalty import Batches, ConstantPenalty, GreedyPenalty
from netsim.agents.maps.features import kernel_values
from netsim.agents.maps.side_by_side import SideBySide
from netsim.agents.projections.estimate import Ensemble, state_of
from netsim.agents.projections.orders import projectors
from netsim.agents.projections.projector import Projector, sure_timeout
from netsim.coders import QSGD, Float, Uniform
from netsim.scenarios.data.choice import Columns
from netsim.scenarios.data.files import check_data
from netsim.scenarios.data.streams import passes
from netsim.scenarios.data.tables import AgentData, Table, deal, enough, load_table, scale_unit, training
from netsim.scenarios.projections.ensembles import field
from netsim.scenarios.tasks.batch_task import BatchSteps
from netsim.scenarios.tasks.division import tell_division
from netsim.scenarios.tasks.mapping import choose_sigma
from netsim.scenarios.tasks.method import Task
from netsim.scenarios.tasks.online_task import OnlineSteps, methods
from netsim.scenarios.tasks.settings import Bandwidth, Divided
from netsim.studies import Study
from netsim.studies.experiment.paths import Given
from netsim.studies.graphs import OwnTopology
from netsim.util import check, draws
from netsim.util.typing import Array, Vector

_BATCH, _ONLINE = BatchSteps(rho=0.01, eta=0.5, threshold=0.5, decay=0.98), OnlineSteps(rho=0.3, eta=2.0, step=0.3)
_BITS = 4
_KERNELS = (1.0, 0.5, 2.0)
"""Bandwidths of the kernels, as multiples of the first one."""
FIELD = "field"
"""Name of the generated data set: a function of two inputs, with noise."""


@dataclass(frozen=True, kw_only=True)
class SharedSamples(OwnTopology, Columns, Divided, Bandwidth, Problem):
    """The samples of each agent, with a cost for each kind of method, and the sizes of models.

    On a network with its own graph the number of agents is that of its nodes.

    Parameters
    ----------
    data : str
        "field" (a function of two inputs, with noise), or a table of numbers: its name in NETSIM_DATA or the cache, or
        its path (.csv.gz, .csv, .npz, .parquet).
    agents : int
        Number of agents.
    samples : int
        Number of training samples of each agent, and of its test samples; the mean number if --partition is size.
    public : int
        Number of training samples that all agents share; only for successive projections.
    features : int
        Number of random frequencies; each gives a sine and a cosine.
    sigma : float
        Bandwidth of the Gaussian kernel; inputs are scaled to [0, 1]. Multi-kernel methods also use half and twice this
        bandwidth.
    regularizer : float
        The centre's regulariser lambda.

    Raises
    ------
    BadInput
        Raised when a run is made, for an unknown or damaged table, too few rows, or a value outside its range.
    """

    data: str = FIELD
    agents: int = 10
    samples: int = 100
    public: int = 20
    features: int = 50
    sigma: float = 0.25
    regularizer: float = 1e-3

    def make(self, setup: Setup) -> "PrivacyTask":
        """Return the task of a run."""
        graph, seeds, told = setup.graph, setup.seeds, Study("", {})
        whole = self if graph is None else replace(self, agents=len(graph))
        count = check.integer("agents", whole.agents, low=2)
        check.integer("samples", self.samples, low=2)
        check.integer("features", self.features, low=1)
        check.integer("public", self.public, low=1, high=count * self.samples)
        check.finite("sigma", self.sigma, above=0.0)
        check.finite("regularizer", self.regularizer, above=0.0)
        table = whole.table(seeds.data)
        rows, partition = 2 * count * self.samples, self.divided()
        parts = deal(table, count, train_share=0.5, seed=seeds.data, rows=rows, partition=partition)
        whole = replace(whole, sigma=choose_sigma(told, self.sigma, self, *training(parts), seed=seeds.seed))
        told.note(*table.notes)
        told.record(whole)
        tell_division(told, parts, whole)
        if graph is None:
            edges = min(max(count - 1, 3 * count // 2), count * (count - 1) // 2)
            draw = partial(topology.erdos_renyi, count, edges=edges, seed=seeds.graph)
            graph = self.graph_of(count, draw)
        return PrivacyTask(parts, whole, graph, setup, told)

    def table(self, seed: int) -> Table:
        """Return the training and test samples of all agents, with inputs in [0, 1]."""
        check_data(self.data, (FIELD,))
        self.divided()
        count = 2 * self.agents * self.samples
        if self.data != FIELD:
            table = scale_unit(load_table(self.data, self))
            enough(len(table.target), self.agents, 4)
            check.integer("samples", self.samples, low=2, high=len(table.target) // (2 * self.agents))
            return table
        self.check_left_out(self.data)
        given = self.agents, self.samples
        check.fits("agents, samples", given, 8 * 3 * count, f"{count:,} samples to train and to test on")
        rng = np.random.default_rng(seed)
        inputs = rng.random((count, 2))
        target = field(inputs) + 0.1 * rng.standard_normal(count)
        return Table(FIELD, inputs, target, ("x", "y"), FIELD)


class PrivacyTask(Task):
    """The samples as each kind of method needs them, and the error of each kind of model on all test samples.

    Attributes
    ----------
    parts : list of AgentData
        Each agent's samples.
    size : SharedSamples
        The problem, with all values set.
    variance : float
        Variance of the targets of all test samples.
    told : Study
        A study that collects the notes, tables and settings that result from making the task.
    """

    error: ClassVar[str] = "test_mse"

    def __init__(
        self, parts: list[AgentData], size: SharedSamples, graph: "nx.Graph[int]", setup: Setup, told: Study
    ) -> None:
        self.parts, self.size, self.told = parts, size, told
        self._rounds, self._seed = setup.rounds, setup.seeds.data
        self._test = np.concatenate([part.test_inputs for part in parts])
        self._truth = np.concatenate([part.test_target for part in parts])
        self.variance = float(np.var(self._truth))
        width, seed = parts[0].train_inputs.shape[1], setup.seed
        # The first kernel has the seed itself, so that its frequencies are the same for all methods.
        seeds = [seed, *(draws.derived(seed, number, "kernel") for number in range(1, len(_KERNELS)))]
        maps = [
            RandomFourier(width, size.features, sigma=times * size.sigma, form="cos+sin", seed=own)
            for times, own in zip(_KERNELS, seeds, strict=True)
        ]
        self.phi, self._kernels = maps[0], SideBySide(maps)
        self.share, loss = size.regularizer / len(parts), Squared()
        self._costs = [
            LocalProblem(self.phi(part.train_inputs), part.train_target, loss=loss, regularizer=self.share)
            for part in parts
        ]
        super().__init__(self._costs.__getitem__, graph)

    def optimum(self) -> dict[str, float]:
        """Return the test error of the centralised model."""
        theta = centralised(self._costs, self.size.regularizer)
        return {self.error: float(np.mean(np.square(self._features @ theta - self._truth)))}

    @property
    def measure(self) -> Callable[[Mapping[Any, Any]], dict[str, float]]:
        """Return a probe of the agents' mean error on all test samples."""
        # Predicting all test samples costs more than a round, so it is not done in every round.
        every = max(self._rounds // 25, 1)
        done = 0

        def test_error(agents: Mapping[Any, Any]) -> dict[str, float]:
            nonlocal done
            done += 1
            return {self.error: np.nan if done % every and done != self._rounds else self.error_of(agents)}

        test_error.may_skip = False  # type: ignore[attr-defined]
        return test_error

    def error_of(self, agents: Mapping[Any, Any]) -> float:
        """Return the agents' mean error on all test samples."""
        return float(np.mean(np.square(self._predictions(agents) - self._truth)))

    def _predictions(self, agents: Mapping[Any, Any]) -> Array:
        """Return each agent's predictions at the test inputs, shape (agents, n)."""
        if isinstance(next(iter(agents.values())), Projector):
            found = state_of(self.ensemble, agents).coefficients
            return np.stack([each @ coefficients for each, coefficients in zip(self._near, found, strict=True)])
        return np.stack([self._predicted(agent) for agent in agents.values()])

    def _predicted(self, agent: Any) -> Vector:
        if isinstance(agent, GreedyPenalty):
            return agent.model(self._test)
        if isinstance(agent, GossipOMKL | CompleteOMKL):
            weights = agent.kernel_weights.values
            return np.asarray(np.einsum("npk,pk,p->n", self._seen[:, : len(weights)], agent.model, weights))
        return np.asarray(self._features @ agent.theta)

    @cached_property
    def _features(self) -> Array:
        return self.phi(self._test)

    @cached_property
    def _seen(self) -> Array:
        return self._kernels(self._test).reshape(len(self._test), -1, self.phi.size)

    @cached_property
    def _near(self) -> list[Array]:
        return [self.ensemble.gram(self._test, self.ensemble.inputs[own]) for own in self.ensemble.access]

    @cached_property
    def ensemble(self) -> Ensemble:
        """Return all training samples as an ensemble; each agent reads its own samples and the public ones."""
        inputs, targets = training(self.parts)
        each = np.split(np.arange(len(targets)), np.cumsum([len(part.train_target) for part in self.parts])[:-1])
        shown = np.linspace(0, len(targets) - 1, self.size.public).astype(int)
        access = [np.union1d(own, shown).tolist() for own in each]
        gram = partial(kernel_values, "gaussian", sigma=self.size.sigma)
        # The centralised cost of an ensemble sums over samples, not over the agents' means, so the weight is rescaled.
        weight = self.size.regularizer * len(targets) / len(self.parts)
        return Ensemble(inputs, targets, access, regularizers=weight / len(self.parts), gram=gram)

    def stream(self, agent: int, kernels: int = 1) -> Iterator[tuple[Vector, float]]:
        """Yield an agent's training samples (φ, y) in endless passes; φ has the features of several kernels."""
        features = SideBySide(self._kernels.maps[:kernels])(self.parts[agent].train_inputs)
        for row, target in self._drawn(agent):
            yield features[row], float(target)

    def batches(self, agent: int) -> Batches:
        """Yield an agent's training samples as batches of one input each."""
        for row, target in self._drawn(agent):
            yield self.parts[agent].train_inputs[[row]], np.array([target])

    def _drawn(self, agent: int) -> Iterator[tuple[int, Any]]:
        target = self.parts[agent].train_target
        return ((row, target[row]) for row in passes(len(target), agent, self._seed))


def _stream_cost(setup: Any, node: int) -> OnlineCost:
    task: PrivacyTask = setup.task
    return OnlineCost(task.stream(node), task.phi.size, loss=Squared(), regularizer=task.share)


def _kernel_cost(setup: Any, node: int, kernels: int = len(_KERNELS)) -> MultiKernelCost:
    task: PrivacyTask = setup.task
    check.integer("kernels", kernels, low=1, high=len(_KERNELS))
    return MultiKernelCost(task.stream(node, kernels), kernels, task.phi.size, loss=Squared(), regularizer=task.share)


def _dictionary(setup: Any, node: int) -> Dictionary:
    return Dictionary(setup.task.parts[node].train_inputs.shape[1], sigma=setup.task.size.sigma)


@dataclass(frozen=True)
class Projections:
    """Successive projections with a token; all agents share the public samples, so the graph of sharers is complete."""

    label: ClassVar[Mapping[str, str]] = {"sends": "estimates at public inputs"}
    graph_of = staticmethod(CompleteOMKL.graph_of)

    def agents(self, setup: Setup) -> Mapping[Any, Agent]:
        """Return the agents of a run; raises BadInput for links with a varying latency or rate."""
        task, network = setup.task, setup.network
        assert isinstance(task, PrivacyTask)
        assert network is not None
        link, period, radio = network.link, network.round_period, network.medium != "wires"
        latency, rate, sweeps = link.latency_model.fixed, link.rate, max(setup.rounds // len(task.parts), 1)
        if latency is None or not isinstance(rate, float | None):
            raise BadInput("networks: must have links of one latency and rate for projections, which wait for answers")
        timeout = sure_timeout(task.ensemble, latency=latency, rate=rate, round_period=period, radio=radio)
        how: dict[str, Any] = {"duration": period, "radio": radio, "reliable": not setup.ideal, "timeout": timeout}
        return projectors(task.ensemble, "token", sweeps, **how)


def compared() -> dict[str, Method | Projections]:
    """Return all algorithms to compare, by name."""
    coder = Uniform(_BITS)
    # The online methods' papers count float32 elements, so all methods do here.
    batch = {name: each.with_given(coder=Float(32)) for name, each in _BATCH.methods().items()}
    batch[f"COKE {_BITS}-bit"] = batch["COKE"].with_given(coder=coder)
    known, dynamic = (methods(censor, coder) for censor in (Geometric(0.5, 0.98), PowerLaw(1.0, 0.5)))
    known |= {name: dynamic[name] for name in ("CoDDKL", "QC-DDKL")}
    names = ("RFF-DOKL", "DOKL", "ODKLA", "QC-ODKLA", "DDKL", "CoDDKL", "QDDKL", "QC-DDKL")
    online = {name: _ONLINE.of(known[name]) for name in names}
    found: dict[str, Method | Projections] = {}
    for name, each in (batch | online).items():
        sends = "change of the model" if isinstance(each.given["coder"], Uniform) else "model"
        cost = {"cost": _stream_cost} if name in online else {}
        found[name] = each.with_given(**cost).with_label(sends=sends)
    by_kernel: dict[str, Any] = {"cost": _kernel_cost, "eta": 0.3, "coder": QSGD(_BITS, by_row=True)}
    gossip = Method(GossipOMKL, label={"sends": "changes of the models"}, gamma=0.2, **by_kernel)
    found[f"gossip OMKL {_BITS}-bit"] = gossip
    found[f"Koloskova {_BITS}-bit"] = gossip.with_parameter("cost", Given(_kernel_cost, kernels=1))
    by_kernel["agents"] = lambda setup, node: len(setup.graph)
    label = {"sends": "steps of the models, losses"}
    found[f"OMKL (complete graph) {_BITS}-bit"] = Method(CompleteOMKL, label=label, **by_kernel)
    greedy: dict[str, Any] = {
        "model": _dictionary,
        "batches": lambda setup, node: setup.task.batches(node),
        "count": lambda setup, node: setup.rounds,
        "penalty": ConstantPenalty(0.2),
    }
    greedy |= {"loss": Squared(), "eta": 0.2, "regularizer": 1e-6, "parsimony": 0.05}
    found["greedy penalty"] = Method(GreedyPenalty, label={"sends": "inputs; estimates there"}, **greedy)
    found["projections (token)"] = Projections()
    return found
