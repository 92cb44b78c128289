"""Four remedies for lost frames, where losses are independent, and where all links into a place lose them together."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim import Experiment, Link, Links, Method, agents, loss, results, topology, vary

BURST, TARGET = 10, 5.0  # an outage lasts ten rounds on average; all agents must come within 5 %
MAP = agents.RandomFourier(2, 24, sigma=0.5, seed=1)


def field(seed, places=10):
    """Return the costs of agents that each see a field around their own place, and the measure of their models."""
    graph, rng = topology.random_geometric(places, 0.5, seed=seed), np.random.default_rng(seed)
    costs = []
    for node in graph:
        x = rng.normal(graph.nodes[node]["pos"], 0.1, (60, 2))
        y = np.sin(4 * x[:, 0]) * x[:, 1] + 0.1 * rng.normal(size=60)
        costs.append(agents.LocalProblem(MAP(x), y, loss=agents.Squared(), regularizer=1e-2 / places))
    best, root = agents.centralised(costs, 1e-2), np.linalg.cholesky(sum(cost.hessian for cost in costs))
    least = sum(cost.value(best) for cost in costs)

    def excess(models):  # how much more all samples cost with a model than with the best one, for the worst agent
        return {"excess_%": 50 * np.max(np.sum(((models - best) @ root) ** 2, axis=1)) / least}

    return costs, graph, excess


@dataclass(frozen=True)
class Remedy:
    """DKLA with duals that repair themselves, or over links that send lost frames again."""

    duals: Any = agents.Accumulated()
    reliability: str = "none"

    def __call__(self, setup):
        return Method(agents.DKLA, rho=0.02, duals=self.duals).agents(setup)


@dataclass(frozen=True)
class Losses:
    """Frames lost one by one, or in outages: rounds in which all links into a ninth of the field lose everything."""

    share: float = 0.1
    is_shared: bool = False

    def __call__(self, ends):
        losses, setup = self.share, ends.setup
        if self.is_shared:
            x, y = setup.positions[ends.receiver]
            draws = setup.rng("outage", int(3 * x), int(3 * y)).random(setup.rounds)
            out = [draws[0] < self.share]
            for each in draws[1:]:
                out.append(each < (1 - 1 / BURST if out[-1] else self.share / (1 - self.share) / BURST))
            losses = loss.varying(np.array(out, dtype=float), seconds=1.0)
        return Link(loss=losses, reliability=setup.method.reliability)


remedies = {"no remedy": Remedy(), "sent again at once": Remedy(reliability="ack")}
remedies |= {"asked for later": Remedy(reliability="nack"), "running sums": Remedy(agents.RunningSums())}
experiment = Experiment(
    problem=field,
    methods=remedies | {"edge duals": Remedy(agents.EdgeDuals())},
    networks={"independent": Links(link=Losses()), "by place and time": Links(link=Losses(is_shared=True))},
    names={"loss": "network.link.share"},
    grid=vary("loss", {f"{100 * share:g} %": share for share in (0.01, 0.03, 0.1, 0.3, 0.5)}),
    rounds=300,
    seeds=range(20),
)

if __name__ == "__main__":
    found = experiment.run("runs/shared_losses", jobs=2)
    table = found.tidy().assign(**{"share of runs": found.runs["excess_%"] <= TARGET})
    title = f"Runs in which all ten agents end within {TARGET:g} % of the least cost, after 300 rounds of DKLA"
    results.bands(table, "loss", "share of runs", facets="network", log=False, title=title).savefig("shared_losses.png")
    for measure in ("share of runs", "wire_bits"):
        print(measure, results.markdown(results.interval(table, measure, ["network", "loss", "algorithm"]), digits=3))
