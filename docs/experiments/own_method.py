"""A method of one's own under losses that neighbouring links share, tuned and compared with DKLA and D-PSGD."""

from dataclasses import KW_ONLY, dataclass
from functools import cache

import numpy as np

from netsim import Between, Experiment, Link, Links, Method, OneOf, topology, vary
from netsim.agents import DKLA, DPSGD, LocalProblem, RunningSums, Squared, centralised
from netsim.coders import ErrorFeedback, TopK, Uniform
from netsim.links.loss import Clocked
from netsim.util.draws import generator


# What is learned: a function of the seed.
def regressions(seed, agents=12, noise=0.3):
    rng = np.random.default_rng(seed)
    truth, costs = rng.normal(size=10), []
    for _ in range(agents):
        x = rng.normal(size=(30, 10)) * np.linspace(1, 0.3, 10)
        y = x @ (truth + 0.5 * rng.normal(size=10)) + noise * rng.normal(size=30)
        costs.append(LocalProblem(x, y, loss=Squared(), regularizer=1e-3))
    best = centralised(costs, 1e-3 * agents)
    graph = topology.random_geometric(agents, 0.6, seed=seed)
    return costs, graph, lambda models: {"gap": float(((models - best) ** 2).mean())}


# A loss model: a fade darkens a region of the field, and with it all links that end there.
@dataclass(frozen=True)
class SharedFade:
    """Links into one region lose the same time slots, each slot with probability ``mean``."""

    mean: float
    region: tuple
    seed: int
    slot: float = 5.0

    def on_link(self, u):
        return _Fade(self)


class _Fade(Clocked):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def __call__(self, u):
        return depth(self.model.seed, (*self.model.region, int(self.time / self.model.slot))) < self.model.mean


@cache
def depth(seed, where):
    return generator(seed, where, "fade").random()


@dataclass(frozen=True)
class Fading:
    """The link of two ends: its region is that of the receiver."""

    loss: float = 0.1

    def __call__(self, ends):
        x, y = ends.setup.positions[ends.receiver]
        return Link(loss=SharedFade(self.loss, (int(3 * x), int(3 * y)), ends.setup.seeds.network[1]))


# A method: D-PSGD that keeps some of its last step.
@dataclass(eq=False, repr=False)
class HeavyBall(DPSGD):
    _: KW_ONLY
    momentum: float = 0.5

    def _forget(self):
        super()._forget()
        self.before = self.theta.copy()

    def local_step(self):
        step, self.before = self.momentum * (self.theta - self.before), self.theta.copy()
        return super().local_step() + step


experiment = Experiment(
    problem=regressions,
    methods={
        "DKLA": Method(DKLA, rho=0.1),
        "DKLA-sums": Method(DKLA, rho=0.1, duals=RunningSums()),
        "D-PSGD": Method(DPSGD, eta=0.2),
        "mine": Method(HeavyBall, eta=0.2, momentum=0.6),
        "DKLA-4bit": Method(DKLA, rho=0.1, coder=Uniform(4)),
    },
    networks={"independent": Links(link=Link(loss=0.0)), "shared": Links(link=Fading())},
    names={"loss": ["networks.independent.link.loss", "networks.shared.link.loss"]},
    grid=vary("loss", [0.0, 0.2]),
    rounds=100,
    seeds=range(4),
)

over = {
    "method.rho": Between(0.01, 3.0, log=True),
    "method.eta": Between(0.01, 1.0, log=True),
    "methods.mine.momentum": Between(0.0, 0.9),
    "methods.DKLA-4bit.coder": OneOf([Uniform(2), Uniform(4), Uniform(8), ErrorFeedback(TopK(3))]),
}

if __name__ == "__main__":
    tuned = experiment.tune(
        over, out="runs/own-tuning", candidates=3, seeds=range(100, 102), validation=range(200, 204)
    )
    print(tuned.chosen.to_string(index=False), *tuned.notes, sep="\n")
    results = tuned.experiment.run("runs/own")
    print(
        results, results.summary().to_string(index=False), results.versus("DKLA-sums").to_string(index=False), sep="\n"
    )
