"""Small problems, agents and methods that the tests use in experiments."""

import json

import numpy as np

import netsim
from netsim import Experiment, Links, Method, topology
from netsim.agents import DKLA, DPSGD, LocalProblem, Squared, centralised


def least_squares(seed, agents=4, noise=0.1):
    rng = np.random.default_rng(seed)
    truth, costs = rng.normal(size=3), []
    for _ in range(agents):
        x = rng.normal(size=(8, 3))
        costs.append(LocalProblem(x, x @ truth + noise * rng.normal(size=8), loss=Squared(), regularizer=1e-3))
    best = centralised(costs, 1e-3 * agents)
    return costs, topology.ring(agents), lambda models: {"gap": float(((models - best) ** 2).mean())}


def small(**more):
    methods = {"DKLA": Method(DKLA, rho=0.1), "D-PSGD": Method(DPSGD, eta=0.1)}
    return Experiment(**{"problem": least_squares, "methods": methods, "rounds": 20, "seeds": range(2), **more})


class Counts(netsim.Agent):
    """Counts its rounds until their number is reached."""

    def __init__(self, rounds, step=1):
        self.number, self.step, self.total = rounds, step, 0

    async def run(self):
        async for _ in self.rounds(self.number):
            self.total += self.step


def total(agents):
    return {"total": sum(agent.total for agent in agents.values())}


def counting(**more):
    given = {
        "methods": Counts,
        "networks": Links(graph=topology.ring(3)),
        "measure": [total],
        "rounds": 3,
        "seeds": [0],
    }
    return Experiment(**{**given, **more})


def tuned_file(path, best, spent=(100, 101), **given):
    """Write chosen values, given as (condition, values) pairs, in the format of `netsim tune`; return the name."""
    kept = [{"condition": [f"{name}={each}" for name, each in when.items()], "values": values} for when, values in best]
    methods = [*dict.fromkeys(when["method"] for when, _ in best)]
    over = {name: {"eta": "0.1:0.3"} for name in methods}
    how = {"methods": methods, "over": over, "metric": "error", "runs": 6, "candidates": 3, "finalists": 3}
    about = {"best": kept, "spent": spent, "seeds": spent, "validation": [], "given": given, "notes": [], **how}
    path.write_text(json.dumps(about))
    return str(path)
