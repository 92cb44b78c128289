"""D-PSGD with momentum, a method with a bound of its own, between eight nodes of unequal capacities."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from netsim import Between, Experiment, Link, Links, Method, Profile, results, topology
from netsim.agents import DPSGD, EXTRA, LocalProblem, Squared, centralised, theory
from netsim.agents.theory import recursions, theorem
from netsim.agents.theory.inputs import weights_of

GRAPH = topology.read(Path(__file__).with_name("valley_links.csv"))
DEVICES = Profile.read(Path(__file__).with_name("valley_nodes.csv")).of(GRAPH)


class Momentum(theorem.Theorem):
    """‖Θ_k − Θ_∞‖ ≤ max |p_k(a)| ‖Θ_0 − Θ_∞‖ over the eigenvalues a of the symmetric matrix A = I − W + ηH."""

    name = "heavy-ball D-PSGD"

    def why_not(self, agents, graph):
        of = theorem.not_two_way(agents, graph) or theorem.not_constant(agents, "eta", "beta")
        return of or theorem.not_plain(agents) or theorem.not_quadratic(agents) or theorem.not_mixing(agents, graph)

    def bounds(self, agents, graph, rounds):
        first, costs, largest = next(iter(agents.values())), recursions.Quadratics.of(agents), []
        A = costs.identity - costs.each(weights_of(agents)) + first.eta * costs.H
        limit, a = np.linalg.solve(A, first.eta * costs.b), np.linalg.eigvalsh(A)
        p = before = np.ones_like(a)
        for _ in range(rounds):
            p, before = (1 + first.beta - a) * p - first.beta * before, p
            largest.append(np.abs(p).max())
        return {"bound_error": np.linalg.norm(limit - costs.optimum) + np.linalg.norm(limit) * np.array(largest)}


@dataclass(eq=False, repr=False)
class HeavyBall(DPSGD):
    """θ_i ← Σ_n w_in θ_n − η ∇R_i(θ_i) + β (θ_i − its last value)."""

    beta: float = 0.5
    theorems = (Momentum(),)
    before = 0.0

    def local_step(self):
        step, self.before = self.beta * (self.theta - self.before), self.theta
        return super().local_step() + step


def regression(seed, graph, size=20):
    rng = np.random.default_rng(seed)
    truth, costs = rng.normal(size=size), []
    for _ in graph:
        x = rng.normal(size=(40, size)) * np.linspace(1, 0.3, size)
        costs.append(LocalProblem(x, x @ (truth + 0.3 * rng.normal(size=size)), loss=Squared(), regularizer=1e-2))
    best = centralised(costs, 1e-2 * len(graph))
    return costs, None, lambda models: {"error": np.linalg.norm(models - best)}


methods = {"D-PSGD": Method(DPSGD, eta=0.1), "EXTRA": Method(EXTRA, eta=0.1), "mine": Method(HeavyBall, eta=0.02)}
slow = Links(link=Link(latency=0.02), graph=GRAPH, round_period=0.5, **DEVICES)
networks = {"0.5 s, no limits": replace(slow, uplink=None), "0.5 s": slow, "0.25 s": replace(slow, round_period=0.25)}
parts = {"problem": regression, "methods": methods, "networks": networks, "measure": [theory.Theory()]}
experiment = Experiment(**parts, rounds=100, seeds=range(10))
over = {"method.eta": Between(0.005, 0.4, log=True), "methods.mine.beta": Between(0.5, 0.98)}

if __name__ == "__main__":
    tuned = experiment.tune(over, seeds=range(100, 103), validation=range(200, 206), candidates=16)
    found = tuned.experiment.run()
    print(tuned.chosen.to_string(), *found.notes, found.runs.groupby("network")["late"].mean(), sep="\n")
    table = results.interval(found.tidy(), "error", ["algorithm", "network"])
    print(results.latex(table, cells="mean", columns="network", best="least"))
    figure = results.bands(found.tidy(rounds=True), "time_s", "error", facets="network")
    bound = found.rounds.dropna(subset="bound_error").groupby("time_s")["bound_error"].mean()
    figure.axes[0].plot(bound.index, bound, "k:", label="bound of mine")
    figure.axes[0].legend(handles=figure.axes[0].lines[-1:])
    figure.axes[0].set_ylabel("error: ‖Θ − Θ*‖ of all models")
    figure.suptitle("Rounds of 0.5 and 0.25 s; means of 10 seeds, 95 % intervals (Student's t)")
    figure.set_size_inches(8, 3.4)
    figure.savefig("heavy_ball.png")
