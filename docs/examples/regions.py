"""Regression in eight regions: each agent sees samples of its own part of the world, so none can do without the others.

`excess` is how much more all samples cost with the agents' models than with the one that a centre would find, in per
cent: the mean over the agents. It is zero only if all agents have that model.
"""

import numpy as np

from netsim import topology
from netsim.agents import LocalProblem, RandomFourier, Squared, centralised

AGENTS, FEATURES, REGULARIZER = 8, 20, 1e-2


def task(seed):
    """Return each agent's cost, the graph, and what is measured of the models."""
    graph = topology.erdos_renyi(AGENTS, edges=14, seed=seed)
    phi = RandomFourier(2, FEATURES, sigma=0.7, seed=seed)
    rng = np.random.default_rng(seed)
    costs = []
    for i in graph:
        x = rng.random((100, 2)) * [0.3 + 0.1 * i, 1.0]
        y = np.sin(4 * x[:, 0]) * x[:, 1] + 0.1 * rng.standard_normal(100)
        costs.append(LocalProblem(phi(x), y, loss=Squared(), regularizer=REGULARIZER / AGENTS))
    # F(θ) = Σ R_i(θ) is quadratic: F(θ) − F(θ*) = (θ − θ*)ᵀ H (θ − θ*) / 2 = ‖Lᵀ(θ − θ*)‖² / 2 with H = LLᵀ.
    best, root = centralised(costs, REGULARIZER), np.linalg.cholesky(sum(cost.hessian for cost in costs))
    least = sum(cost.value(best) for cost in costs)

    def measure(models):
        with np.errstate(over="ignore"):  # of a method that diverges
            return {"excess": 100 * np.mean(np.sum(((models - best) @ root) ** 2, axis=1)) / 2 / least}

    return costs, graph, measure
