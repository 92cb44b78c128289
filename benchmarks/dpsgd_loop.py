"""D-PSGD as a bare numpy loop, the baseline of `benchmarks.dpsgd`; it imports nothing of netsim."""

import time

import networkx as nx
import numpy as np
from numpy.typing import NDArray

AGENTS, PARAMETERS = 64, 1_000_000
ETA = np.float32(0.1)

Model = NDArray[np.float32]


def graph_of(name: str) -> "nx.Graph[int]":
    """Return the ring, or a random graph in which each agent has six neighbours."""
    graph: nx.Graph[int] = nx.cycle_graph(AGENTS) if name == "ring" else nx.random_regular_graph(6, AGENTS, seed=1)
    return graph


def targets() -> list[Model]:
    """Return the minimum c_i of each agent's cost ½‖θ − c_i‖²."""
    return [np.random.default_rng(node).random(PARAMETERS, dtype=np.float32) for node in range(AGENTS)]


def weight_of(graph: "nx.Graph[int]", node: int) -> np.float32:
    """Return the weight that an agent gives to its state, and to each neighbour's, in a regular graph."""
    return np.float32(1.0 / (graph.degree[node] + 1))


def train(name: str, rounds: int) -> tuple[float, float]:
    """Return the CPU seconds of θ_i ← Σ_n w θ_n − η (θ_i − c_i) for all agents, and the sum of all their parameters."""
    graph, minima = graph_of(name), targets()
    models = [np.zeros(PARAMETERS, dtype=np.float32) for _ in graph]
    following = [np.zeros(PARAMETERS, dtype=np.float32) for _ in graph]
    weights = [weight_of(graph, node) for node in graph]
    start = time.process_time()
    for _ in range(rounds):
        for node in graph:
            model, weight = following[node], weights[node]
            np.multiply(models[node], weight, out=model)
            for other in graph[node]:
                model += weight * models[other]
            model -= ETA * (models[node] - minima[node])
        models, following = following, models
    seconds = time.process_time() - start
    return seconds, float(sum(model.sum(dtype=np.float64) for model in models))
