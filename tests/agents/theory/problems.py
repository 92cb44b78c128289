"""Small problems for the theorems, and runs of netsim's agents that keep every round's arrays."""

from collections.abc import Callable, Mapping
from typing import Any

import networkx as nx
import numpy as np

from netsim import Network, topology
from netsim.agents import LocalProblem, OnlineCost, Squared, centralised
from netsim.util.typing import Array
from tests.parts import slow

GRAPHS: dict[str, Callable[[], "nx.Graph[int]"]] = {
    "path": lambda: topology.path(4),
    "ring": lambda: topology.ring(5),
    "complete": lambda: topology.complete(4),
}
CASES = [
    (graph, seed) if list(GRAPHS).index(graph) == seed else slow(graph, seed) for graph in GRAPHS for seed in range(3)
]
"""All combinations of three graphs and three seeds; the quick tests run three, with each graph and seed once."""


class Ridge:
    """Regularised least squares with ``size`` features; each agent of the graph has its own input distribution."""

    def __init__(
        self, graph: "str | nx.Graph[int]", seed: int, *, size: int = 3, regularizer: float = 2.0, scale: float = 1.0
    ) -> None:
        self.graph = GRAPHS[graph]() if isinstance(graph, str) else graph
        rng = np.random.default_rng(seed)
        frequencies, phases = rng.normal(size=(2, size)), rng.uniform(0.0, 2.0 * np.pi, size)
        self.costs = []
        for _ in self.graph:
            x = 0.7 * rng.normal(size=(20, 2)) + rng.normal(size=2)
            features = np.cos(x @ frequencies + phases) / np.sqrt(size)
            targets = np.sin(x.sum(axis=1)) + 0.1 * rng.normal(size=20)
            share = regularizer / len(self.graph)
            self.costs.append(LocalProblem(features, scale * targets, loss=Squared(), regularizer=share))
        self.optimum = centralised(self.costs, regularizer)
        self.weights = topology.metropolis_weights(self.graph)
        self.rows = [dict(enumerate(row)) for row in self.weights]

    def agents(self, make: Callable[..., Any], rounds: int, **parameters: Any) -> dict[int, Any]:
        """Return one agent of the class ``make`` per node, with mixing weights if the class has that parameter."""
        if "weights" in make.__dataclass_fields__:  # type: ignore[attr-defined]
            return {i: make(self.costs[i], rounds, weights=self.rows[i], **parameters) for i in self.graph}
        return {i: make(self.costs[i], rounds, **parameters) for i in self.graph}

    def errors(self, agents: Mapping[int, Any], seed: int = 1) -> Array:
        """Run agents; return ‖Θ_k − Θ*‖, the distance of all models from the optimum, after each round k."""
        models = kept(self.graph, agents, lambda agent: agent.theta, seed=seed)
        result: Array = np.linalg.norm(models - self.optimum, axis=(1, 2))
        return result


def kept(graph: "nx.Graph[int]", agents: Mapping[int, Any], what: Callable[[Any], Array], seed: int = 1) -> Array:
    """Run agents, and return ``what(agent)`` of each agent after each round, shape (rounds, N, …)."""
    found: list[Array] = []

    def watch(those: Mapping[int, Any]) -> dict[str, float]:
        found.append(np.stack([what(agent) for agent in those.values()]))
        return {}

    Network(graph, seed=seed).run(dict(agents), [watch])
    return np.array(found)


class Stream:
    """Streams of samples at the agents of a graph: a noisy linear model of ``size`` features of norm at most 1."""

    def __init__(self, graph: str, seed: int, rounds: int, size: int = 6) -> None:
        self.graph, self.rounds, self.size = GRAPHS[graph](), rounds, size
        rng = np.random.default_rng(seed)
        truth, frequencies = rng.normal(size=size), rng.normal(size=(2, size))
        x = rng.normal(size=(len(self.graph), rounds, 2)) + 0.5 * rng.normal(size=(len(self.graph), 1, 2))
        self.features = np.cos(x @ frequencies) / np.sqrt(size)
        self.targets = self.features @ truth + 0.1 * rng.normal(size=x.shape[:2])
        self.share = 1e-3 / len(self.graph)

    def agents(self, make: Callable[..., Any], **parameters: Any) -> dict[int, Any]:
        """Return one agent of the class ``make`` per node, each with its own stream of samples."""
        return {i: make(self.cost(i), self.rounds, **parameters) for i in self.graph}

    def cost(self, i: int) -> OnlineCost:
        samples = zip(self.features[i], self.targets[i].tolist(), strict=True)
        return OnlineCost(samples, self.size, loss=Squared(), regularizer=self.share)
