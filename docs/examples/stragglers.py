"""A slow agent costs D-PSGD, whose rounds wait for it, more seconds than AD-PSGD (docs/compute.md)."""

import numpy as np
from scipy import stats

from netsim import Link, Network, latency, topology
from netsim.agents import ADPSGD, DPSGD, LocalProblem, Logistic, centralised

ring = topology.ring(10)
weights = topology.metropolis_weights(ring)


def seconds(method, slow, seed):
    """Return when the worst agent's risk comes to stay within 5 % of the optimum, in seconds."""
    rng = np.random.default_rng(seed)
    truth, costs = rng.standard_normal(5), []
    for _ in ring:
        x = rng.standard_normal((50, 5))
        y = np.where(x @ truth + rng.standard_normal(50) > 0, 1.0, -1.0)
        costs.append(LocalProblem(x, y, loss=Logistic(), regularizer=0.05))

    def risk(theta):
        return sum(cost.value(theta) for cost in costs)

    best, first = risk(centralised(costs, 0.5)), risk(np.zeros(5))

    def gap(agents):
        return max(risk(agent.theta) - best for agent in agents.values()) / (first - best)

    if method is DPSGD:
        agents = {i: DPSGD(costs[i], 40, eta=0.2, weights=weights[i]) for i in ring}
    else:
        agents = {i: ADPSGD(costs[i], 40, eta=0.2) for i in ring}
    times = {i: latency.lognormal(0.1 * slow if i == 0 else 0.1, 0.3) for i in ring}
    network = Network(ring, Link(latency=0.001), round_period=0.01, compute=times, seed=seed)
    rows = network.run(agents, [gap], sample=0.25).rounds
    return rows["time_s"][(rows["gap"] > 0.05)[::-1].idxmax() + 1]


def shown(values):
    return f"{values.mean():.1f} ± {stats.t.ppf(0.975, len(values) - 1) * stats.sem(values):.1f} s"


if __name__ == "__main__":
    for slow in (1, 10):
        taken = {method: np.array([seconds(method, slow, seed) for seed in range(5)]) for method in (DPSGD, ADPSGD)}
        synchronous, pairs = taken.values()
        print(f"agent 0 {slow} times slower: D-PSGD {shown(synchronous)}, AD-PSGD {shown(pairs)}", end=", ")
        print(f"difference {shown(synchronous - pairs)}")
