"""The runs of the study `privacy`: every algorithm of the project on one task."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

import netsim
from netsim import topology
from netsim.agents import Geometric, PowerLaw, RandomFourier, Squared, centralised
from netsim.agents.consensus.multikernel import CompleteOMKL, GossipOMKL
from netsim.agents.costs.kernels import MultiKernelCost
from netsim.agents.greedy.dictionary import Dictionary
from netsim.agents.greedy.penalty import ConstantPenalty, GreedyPenalty
from netsim.agents.maps.features import kernel_values
from netsim.agents.maps.side_by_side import SideBySide
from netsim.agents.projections.estimate import Ensemble, state_of
from netsim.agents.projections.orders import network_graph, projectors
from netsim.agents.projections.projector import sure_timeout
from netsim.coders import QSGD, Float, Uniform
from netsim.scenarios.data.choice import Columns
from netsim.scenarios.data.files import check_data
from netsim.scenarios.data.streams import passes
from netsim.scenarios.data.tables import AgentData, Table, deal, enough, load_table, scale_unit, training
from netsim.scenarios.projections.ensembles import field
from netsim.scenarios.tasks.batch_task import BatchSteps, BatchTask
from netsim.scenarios.tasks.method import Method
from netsim.scenarios.tasks.method import Task as Shared
from netsim.scenarios.tasks.online_task import OnlineSteps, OnlineTask, methods
from netsim.scenarios.tasks.settings import Bandwidth, Channel, Divided
from netsim.studies.seeds import Seeds
from netsim.util import check, draws
from netsim.util.typing import Vector

_BATCH, _ONLINE = BatchSteps(rho=0.01, eta=0.5, threshold=0.5, decay=0.98), OnlineSteps(rho=0.3, eta=2.0, step=0.3)
_BITS = 4
FIELD = "field"
"""A function of two inputs with noise, which needs no file."""


@dataclass(frozen=True, kw_only=True)
class PrivacySize(Divided, Bandwidth):
    """How many learn from how much, and their models.

    Parameters
    ----------
    agents : int
        Number of agents.
    samples : int
        Samples of each agent to train on; as many again are for the test. In the mean where --partition is size.
    public : int
        Samples that all agents read, for successive projections only: this many of the training samples in all.
    features : int
        Number of random frequencies, of a sine and a cosine each.
    sigma : float
        Bandwidth of the Gaussian kernel; inputs are scaled to [0, 1]. Multi-kernel methods have half and twice that,
        too.
    regularizer : float
        The centre's regulariser lambda.
    """

    agents: int = 10
    samples: int = 100
    public: int = 20
    features: int = 50
    sigma: float = 0.25
    regularizer: float = 1e-3

    def check(self) -> None:
        """Raise BadInput for what is outside its range."""
        check.integer("agents", self.agents, low=2)
        check.integer("samples", self.samples, low=2)
        check.integer("features", self.features, low=1)
        check.integer("public", self.public, low=1, high=self.agents * self.samples)
        check.finite("sigma", self.sigma, above=0.0)
        check.finite("regularizer", self.regularizer, above=0.0)
        self.divided()

    def draw(self, data: str, columns: Columns, seed: int) -> tuple[list[AgentData], tuple[str, ...]]:
        """Return each agent's samples, half of them for the test, and lines for the study's notes.

        Raises
        ------
        BadInput
            If there is no such table, or it has too few rows.
        """
        check_data(data, (FIELD,))
        count = 2 * self.agents * self.samples
        if data == FIELD:
            columns.check_left_out(data)
            given = self.agents, self.samples
            check.fits("agents, samples", given, 8 * 3 * count, f"{count:,} samples to train and to test on")
            rng = np.random.default_rng(seed)
            inputs = rng.random((count, 2))
            target = field(inputs) + 0.1 * rng.standard_normal(count)
            table = Table(FIELD, inputs, target, ("x", "y"), FIELD)
            return deal(table, self.agents, train_share=0.5, seed=seed, partition=self.divided()), ()
        table = scale_unit(load_table(data, columns))
        enough(len(table.target), self.agents, 4)
        check.integer("samples", self.samples, low=2, high=len(table.target) // (2 * self.agents))
        parts = deal(table, self.agents, train_share=0.5, seed=seed, rows=count, partition=self.divided())
        return parts, table.notes


def _kernel_seeds(seed: int, count: int) -> list[int]:
    """Return a seed for each kernel's frequencies; the first is that of all other methods."""
    return [seed, *(draws.derived(seed, number, "kernel") for number in range(1, count))]


class PrivacyEntry(NamedTuple):
    """An algorithm on its network."""

    name: str
    sends: str
    network: netsim.Network
    agents: dict[int, Any]
    predict: Callable[[Mapping[int, Any]], Vector]
    """Returns each agent's predictions at the test inputs, shape (agents, n)."""
    read_by_others: int = 0
    """Samples that other agents read beforehand."""


class PrivacyTask:
    """The samples, and every algorithm set up to learn from them."""

    def __init__(self, parts: list[AgentData], size: PrivacySize, rounds: int, channel: Channel, seeds: Seeds) -> None:
        self.parts, self.rounds, self.public, self.channel, self.seeds = parts, rounds, size.public, channel, seeds
        self.sigma, self.regularizer = size.sigma, size.regularizer
        self.count, self.width = len(parts), parts[0].train_inputs.shape[1]
        self.test = np.concatenate([part.test_inputs for part in parts])
        self.truth = np.concatenate([part.test_target for part in parts])
        self.variance = float(np.var(self.truth))
        maps = [
            RandomFourier(self.width, size.features, sigma=times * size.sigma, form="cos+sin", seed=own)
            for times, own in zip((1.0, 0.5, 2.0), _kernel_seeds(seeds.seed, 3), strict=True)
        ]
        self.phi, self.kernels = maps[0], SideBySide(maps)
        edges = min(max(self.count - 1, 3 * self.count // 2), self.count * (self.count - 1) // 2)
        self.graph = topology.erdos_renyi(self.count, edges=edges, seed=seeds.graph)
        self.share = self.regularizer / self.count
        self.batch = BatchTask(parts, self.phi, self.graph, regularizer=self.regularizer)
        self.entry_by_name: dict[str, PrivacyEntry] = {}

    def entries(self) -> Iterator[PrivacyEntry]:
        """Yield every algorithm, with new agents."""
        for make in (self._batch, self._online, self._multikernel, self._greedy, self._projections):
            for entry in make():
                self.entry_by_name[entry.name] = entry
                yield entry

    def measure(self, entry: PrivacyEntry) -> Callable[[Mapping[int, Any]], dict[str, float]]:
        """Return a probe of the mean over the agents of their errors on all test samples."""
        # All predictions of all agents cost more than a round, so they are not made in every one.
        every = max(self.rounds // 25, 1)
        done = 0

        def test_error(agents: Mapping[int, Any]) -> dict[str, float]:
            nonlocal done
            done += 1
            if done % every and done != self.rounds:
                return {"test_mse": np.nan}
            return {"test_mse": float(np.mean(np.square(entry.predict(agents) - self.truth)))}

        test_error.may_skip = False  # type: ignore[attr-defined]
        return test_error

    def best(self) -> float:
        """Return the test error of the model that a centre would learn."""
        theta = centralised(self.batch.problems, self.regularizer)
        return float(np.mean(np.square(self.phi(self.test) @ theta - self.truth)))

    # --- the algorithms -----------------------------------------------------------------------------------------------

    def _network(self, graph: "nx.Graph[int]") -> netsim.Network:
        return self.channel.over(graph, self.seeds.network)

    def _linear(self, name: str, sends: str, agents: dict[int, Any]) -> PrivacyEntry:
        seen = self.phi(self.test)

        def predict(agents: Mapping[int, Any]) -> Vector:
            return np.stack([seen @ agent.theta for agent in agents.values()])

        return PrivacyEntry(name, sends, self._network(self.graph), agents, predict)

    def _batch(self) -> Iterator[PrivacyEntry]:
        # The online methods' papers count float32, and so here all methods do.
        found = [replace(method, coder=Float(32)) for method in _BATCH.methods().values()]
        found.append(replace(found[-1], name=f"COKE {_BITS}-bit", coder=Uniform(_BITS)))
        for method in found:
            sends = "change of the model" if isinstance(method.coder, Uniform) else "model"
            yield self._linear(method.name, sends, method.agents(self.batch, self.rounds))

    def _online(self) -> Iterator[PrivacyEntry]:
        coder = Uniform(_BITS)
        known = methods(Geometric(0.5, 0.98), coder)
        dynamic = methods(PowerLaw(1.0, 0.5), coder)
        known |= {name: dynamic[name] for name in ("CoDDKL", "QC-DDKL")}
        for name in ("RFF-DOKL", "DOKL", "ODKLA", "QC-ODKLA", "DDKL", "CoDDKL", "QDDKL", "QC-DDKL"):
            samples = [self._stream(i, self.phi) for i in self.batch.nodes]
            streams = OnlineTask(
                samples, self.phi.size, self.regularizer, self.graph, rounds=self.rounds, ideal=self.channel.ideal
            )
            agents = _ONLINE.of(known[name]).agents(streams, self.rounds)
            yield self._linear(name, "change of the model" if name.startswith("Q") else "model", agents)

    def _multikernel(self) -> Iterator[PrivacyEntry]:
        size = self.phi.size
        coder = QSGD(_BITS, by_row=True)
        seen = self.kernels(self.test).reshape(len(self.test), -1, size)

        def cost(i: int, kernels: int) -> MultiKernelCost:
            stream = ((z[: kernels * size], y) for z, y in self._stream(i, self.kernels))
            return MultiKernelCost(stream, kernels, size, loss=Squared(), regularizer=self.share)

        def predict(agents: Mapping[int, Any]) -> Vector:
            return np.stack(
                [
                    np.einsum("npk,pk,p->n", seen[:, : len(each.model)], each.model, each.kernel_weights.values)
                    for each in agents.values()
                ]
            )

        gossip = Method("gossip", GossipOMKL, {"eta": 0.3, "gamma": 0.2}, coder=coder)
        whole = Method("OMKL", CompleteOMKL, {"eta": 0.3, "agents": self.count}, coder=coder)
        complete = topology.complete(self.count)
        for name, sends, method, kernels, graph in (
            ("gossip OMKL", "changes of the models", gossip, 3, self.graph),
            ("Koloskova", "changes of the models", gossip, 1, self.graph),
            ("OMKL (complete graph)", "steps of the models, losses", whole, 3, complete),
        ):
            agents = method.agents(Shared(partial(cost, kernels=kernels), graph), self.rounds)
            yield PrivacyEntry(f"{name} {_BITS}-bit", sends, self._network(graph), agents, predict)

    def _greedy(self) -> Iterator[PrivacyEntry]:
        def batches(i: int) -> Iterator[tuple[Vector, Vector]]:
            for row in self._rows(i):
                yield self.parts[i].train_inputs[[row]], self.parts[i].train_target[[row]]

        agents = {
            i: GreedyPenalty(
                Dictionary(self.width, sigma=self.sigma),
                batches(i),
                self.rounds,
                loss=Squared(),
                eta=0.2,
                regularizer=1e-6,
                parsimony=0.05,
                penalty=ConstantPenalty(0.2),
            )
            for i in range(self.count)
        }

        def predict(agents: Mapping[int, Any]) -> Vector:
            return np.stack([agent.model(self.test) for agent in agents.values()])

        yield PrivacyEntry("greedy penalty", "inputs; estimates there", self._network(self.graph), agents, predict)

    def _projections(self) -> Iterator[PrivacyEntry]:
        inputs, targets = training(self.parts)
        each = np.split(np.arange(len(targets)), np.cumsum([len(part.train_target) for part in self.parts])[:-1])
        shown = np.linspace(0, len(targets) - 1, self.public).astype(int)
        access = [np.union1d(own, shown).tolist() for own in each]
        gram = partial(kernel_values, "gaussian", sigma=self.sigma)
        # The centre's cost here is a sum over the samples, not a mean over each agent's.
        weight = self.regularizer * len(targets) / self.count
        ensemble = Ensemble(inputs, targets, access, regularizers=weight / self.count, gram=gram)
        sweeps, channel, radio = max(self.rounds // self.count, 1), self.channel, self.channel.medium == "radio"
        period = channel.round_period
        timeout = sure_timeout(ensemble, latency=channel.latency, rate=channel.rate, round_period=period, radio=radio)
        reliable = not channel.ideal
        agents: dict[int, Any] = dict(
            projectors(ensemble, "token", sweeps, duration=period, radio=radio, reliable=reliable, timeout=timeout)
        )
        seen = [gram(self.test, ensemble.inputs[own]) for own in ensemble.access]

        def predict(agents: Mapping[int, Any]) -> Vector:
            found = state_of(ensemble, agents).coefficients
            return np.stack([each @ coefficients for each, coefficients in zip(seen, found, strict=True)])

        network = self._network(network_graph(ensemble, "token"))
        yield PrivacyEntry("projections (token)", "estimates at public inputs", network, agents, predict, self.public)

    def _rows(self, agent: int) -> Iterator[int]:
        return passes(len(self.parts[agent].train_target), agent, self.seeds.data)

    def _stream(self, agent: int, phi: RandomFourier | SideBySide) -> Iterator[tuple[Vector, float]]:
        part = self.parts[agent]
        features = phi(part.train_inputs)
        for row in self._rows(agent):
            yield features[row], float(part.train_target[row])
