"""Small problems of the greedy projected penalty method, whose limit is the solution of a linear system."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import networkx as nx
import numpy as np

from netsim import Network
from netsim.agents import ConstantPenalty, Dictionary, GreedyPenalty, Squared
from netsim.util.typing import Array

POOL, SIGMA, LAMBDA, C, ETA = 3, 0.7, 0.5, 2.0, 0.1


def kernel(x: Array, z: Array) -> Array:
    """Return the Gaussian kernel of all pairs of rows."""
    result: Array = np.exp(-np.sum((x[:, None] - z[None]) ** 2, axis=-1) / (2 * SIGMA**2))
    return result


class Pools:
    """Three samples at each agent of a graph; a mini-batch has all three, so that gradients are exact.

    Functions are represented by their values at all samples, shape (N, 3N). If ``alike``, all agents have the same
    inputs; if ``drawn``, a mini-batch is one of the samples, drawn at random.
    """

    def __init__(self, graph: "nx.Graph[int]", seed: int, *, alike: bool = False, drawn: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.graph, self.seed, self.drawn, count = graph, seed, drawn, len(graph)
        self.x = rng.uniform(-1, 1, (count, POOL, 2))
        if alike:
            self.x[:] = self.x[0]
        self.y = np.sin(2 * self.x.sum(axis=2)) + rng.normal(size=(count, 1))
        self.all = self.x.reshape(-1, 2)
        self.gram = kernel(self.all, self.all)

    def zero(self, c: float, *, both: bool) -> Array:
        """Return the functions at which the mean gradient is zero.

        With ``both`` it is the gradient of ψ_c, else that of eq. 14, which lacks the terms at the neighbours' samples.
        """
        n = len(self.all)
        system, right = np.zeros((len(self.x) * n,) * 2), np.zeros(len(self.x) * n)
        # For each agent i, the mean of f(x)κ(x, ·) over the agent's samples, in coordinates of κ at all inputs.
        mean = [np.diag(np.repeat(np.arange(len(self.x)) == i, POOL) / POOL) @ self.gram for i in self.graph]
        for i in self.graph:
            at = slice(i * n, (i + 1) * n)
            system[at, at] += LAMBDA * np.eye(n) + 2 * mean[i]
            right[at][i * POOL : (i + 1) * POOL] = 2 * self.y[i] / POOL
            for j in self.graph.adj[i]:
                pull = c * (mean[i] + mean[j]) if both else c * mean[i]
                system[at, at] += pull
                system[at, slice(j * n, (j + 1) * n)] -= pull
        return np.linalg.solve(system, right).reshape(-1, n) @ self.gram

    def norm(self, values: Array) -> float:
        """Return the norm of functions in the kernel's space."""
        return float(np.sqrt(np.sum(values * np.linalg.lstsq(self.gram, values.T, rcond=1e-12)[0].T)))

    def risk(self, values: Array) -> float:
        """Return the risk R, the sum of the agents' regularised risks."""
        own = values.reshape(len(self.x), -1, POOL)[(range(len(self.x)),) * 2]
        return float(np.sum(np.mean((own - self.y) ** 2, axis=1))) + LAMBDA / 2 * self.norm(values) ** 2

    def disagreement(self, values: Array) -> float:
        """Return ½ Σ_i Σ_j E(f_i − f_j)², over the neighbours j of i at the samples of i."""
        apart = values.reshape(len(self.x), -1, POOL)
        return 0.5 * sum(
            float(np.mean((apart[i, i] - apart[j, i]) ** 2)) for i in self.graph for j in self.graph.adj[i]
        )

    def common(self) -> Array:
        """Return the best common function of all agents, computed with a very large penalty."""
        return np.tile(self.zero(1e6, both=True).mean(axis=0), (len(self.x), 1))

    def _batches(self, i: int) -> Iterator[tuple[Array, Array]]:
        rng = np.random.default_rng((self.seed, i))
        while True:
            rows = rng.integers(POOL, size=1) if self.drawn else np.arange(POOL)
            yield self.x[i][rows], self.y[i][rows]

    def run(self, parsimony: float, rounds: int = 150) -> list[Array]:
        """Return the functions after each round."""
        agents = {
            i: GreedyPenalty(
                Dictionary(2, sigma=SIGMA),
                self._batches(i),
                rounds,
                loss=Squared(),
                eta=ETA,
                regularizer=LAMBDA,
                parsimony=parsimony,
                penalty=ConstantPenalty(C),
            )
            for i in self.graph
        }
        found: list[Array] = []

        def watch(those: Mapping[int, GreedyPenalty]) -> dict[str, float]:
            found.append(np.stack([agent.model(self.all) for agent in those.values()]))
            return {}

        Network(self.graph, seed=1).run(agents, [watch])
        return found

    def nearest(self, late: list[Array], point: Array) -> float:
        """Return the least distance of the functions of some rounds from a point."""
        return min(self.norm(each - point) for each in late)

    def second_moment(self, late: list[Array]) -> float:
        """Return the mean of ‖f_{t+1} − f_t‖²/η² over some rounds."""
        return float(np.mean([self.norm(b - a) ** 2 for a, b in pairwise(late)])) / ETA**2
