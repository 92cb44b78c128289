"""Small problems on which theorems are checked: ridge regression, a stream of samples, and a stream for kernels."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import networkx as nx
import numpy as np

from netsim import Network, topology
from netsim.agents import LocalProblem, Logistic, MultiKernelCost, OnlineCost, Squared, centralised
from netsim.util.typing import Array

GRAPHS: Mapping[str, Callable[[], "nx.Graph[int]"]] = {
    "path": lambda: topology.path(4),
    "ring": lambda: topology.ring(5),
    "complete": lambda: topology.complete(4),
}
KERNELS = 3


class Problem:
    """The costs of a graph's agents, drawn from one seed.

    Parameters
    ----------
    kind : {"ridge", "stream", "kernels"}
        "ridge": ridge regression with 20 samples per agent. "stream": squared losses of a linear model, with one sample
        per round. "kernels": logistic losses of three kernels, with one sample per round.
    graph : networkx Graph
    seed, rounds : int
    scale : float
        Factor of all targets of ridge regression.
    whole : float
        The whole regulariser λ of ridge regression.
    share : float
        Factor of all costs of ridge regression.
    """

    def __init__(
        self,
        kind: str,
        graph: "nx.Graph[int]",
        seed: int,
        rounds: int,
        *,
        scale: float = 1.0,
        whole: float = 2.0,
        share: float = 1.0,
    ) -> None:
        self.kind, self.graph, self.seed, self.rounds = kind, graph, seed, rounds
        self.rows = [dict(enumerate(row)) for row in topology.metropolis_weights(graph)]
        self._scale, self._share, self._whole = scale, share**0.5, whole * share
        self.size = {"ridge": 3, "stream": 6, "kernels": 8}[kind]
        rng = np.random.default_rng(seed)
        self._frequencies = rng.normal(size=(2, self.size))
        self._truth, self._phases = rng.normal(size=self.size), rng.uniform(0.0, 2.0 * np.pi, self.size)
        self._centres = rng.normal(size=(len(graph), 2))

    def cost(self, i: int) -> Any:
        """Return an agent's cost, which a run uses up if it is a stream."""
        if self.kind == "ridge":
            rng = np.random.default_rng((self.seed, i))
            x = 0.7 * rng.normal(size=(20, 2)) + self._centres[i]
            features = np.cos(x @ self._frequencies + self._phases) / np.sqrt(self.size)
            targets = self._scale * (np.sin(x.sum(axis=1)) + 0.1 * rng.normal(size=20))
            regularizer = self._whole / len(self.graph)
            return LocalProblem(self._share * features, self._share * targets, loss=Squared(), regularizer=regularizer)
        if self.kind == "stream":
            return OnlineCost(self._samples(i), self.size, loss=Squared(), regularizer=1e-3 / len(self.graph))
        return MultiKernelCost(self._labels(i), KERNELS, self.size, loss=Logistic(), regularizer=1e-3)

    def optimum(self) -> Array:
        """Return the minimum of the sum of the costs of ridge regression."""
        return centralised([self.cost(i) for i in self.graph], self._whole)

    def agents(self, make: Any, **parameters: Any) -> dict[int, Any]:
        """Return agents of a class, with Metropolis weights if the class takes weights."""
        own = "weights" in make.__dataclass_fields__
        more = [{"weights": row} if own else {} for row in self.rows]
        return {i: make(self.cost(i), self.rounds, **parameters, **more[i]) for i in self.graph}

    def run(self, agents: Mapping[int, Any], *probes: Callable[[Any], dict[str, float]]) -> Any:
        """Run agents, and return the table of rounds."""
        return Network(self.graph, seed=self.seed).run(dict(agents), list(probes)).rounds

    def kept(self, agents: Mapping[int, Any], what: Callable[[Any], Array]) -> Array:
        """Run agents, and return an array of each agent after each round, shape (rounds, N, …)."""
        found: list[Array] = []

        def watch(those: Mapping[int, Any]) -> dict[str, float]:
            found.append(np.stack([what(each) for each in those.values()]))
            return {}

        self.run(agents, watch)
        return np.array(found)

    def _samples(self, i: int) -> Iterator[tuple[Array, float]]:
        rng = np.random.default_rng((self.seed, i))
        for _ in range(self.rounds):
            x = np.cos((rng.normal(size=2) + 0.5 * self._centres[i]) @ self._frequencies) / np.sqrt(self.size)
            yield x, float(x @ self._truth + 0.1 * rng.normal())

    def _labels(self, i: int) -> Iterator[tuple[Array, float]]:
        rng = np.random.default_rng((self.seed, i))
        for _ in range(self.rounds):
            x = rng.normal(size=2)
            angles = [x @ self._frequencies[:, : self.size // 2] / sigma for sigma in (0.5, 1.0, 3.0)]
            z = np.concatenate([np.sin(angles), np.cos(angles)], axis=1) / np.sqrt(self.size // 2)
            yield z.ravel(), 1.0 if x[0] * x[1] > 0.0 else -1.0
