"""A method of one's own, where rain falls on whole parts of a field: tuned, compared in pairs, tabulated, drawn."""

from dataclasses import dataclass
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd

from netsim import Between, Ending, Experiment, Link, Links, Method, loss, results
from netsim.agents import CTA, DKLA, Diffusion, LocalProblem, Squared, centralised

FIELD = Path(__file__).with_name("field.csv")


def temperature(seed, file=FIELD, reach=0.4):
    """Return the stations' costs, their graph, and a measure; the seed draws which readings are kept for the test."""
    table = pd.read_csv(file)
    x, y, hour = 2 * table["x"] - 1, 2 * table["y"] - 1, 2 * np.pi * table["hour"] / 24
    features = np.column_stack([np.ones(len(table)), x, y, x * y, x**2, y**2, np.sin(hour), np.cos(hour)])
    target, station = table["temperature"].to_numpy(), table["station"].to_numpy()
    test = np.random.default_rng(seed).random(len(table)) < 0.2
    own = [(station == each) & ~test for each in np.unique(station)]
    costs = [LocalProblem(features[rows], target[rows], loss=Squared(), regularizer=1e-3) for rows in own]
    best = centralised(costs, 1e-3 * len(costs))

    def measure(models):
        errors = models @ features[test].T - target[test]
        return {"gap": float(((models - best) ** 2).mean()), "test_mse": float((errors**2).mean())}

    places = dict(enumerate(table.groupby("station")[["x", "y"]].mean().itertuples(index=False, name=None)))
    return costs, nx.random_geometric_graph(len(costs), reach, pos=places), measure


@dataclass(eq=False, repr=False, kw_only=True)
class HeavyBall(Diffusion):
    """CTA that keeps a share of its last step."""

    momentum: float = 0.5
    step = 0.0

    def local_step(self):
        mean = self.combined()
        self.step = self.momentum * self.step - self.eta * self.cost.gradient(mean)
        return mean + self.step


@dataclass(frozen=True)
class Rain:
    """The link of two ends: while it rains on the half of the field where the receiver is, every frame is lost."""

    loss: float = 0.3

    def __call__(self, ends):
        is_east = bool(ends.setup.positions[ends.receiver][0] > 0.5)
        wet = ends.setup.rng("rain", is_east).random(ends.setup.rounds) < self.loss
        return Link(loss=loss.varying(wet.astype(float), seconds=1.0))


experiment = Experiment(
    problem=temperature,
    methods={"CTA": Method(CTA, eta=0.1), "mine": Method(HeavyBall, eta=0.1), "DKLA": Method(DKLA, rho=0.1)},
    networks={"independent": Links(link=Link(loss=0.3)), "rain": Links(link=Rain())},
    names={"loss": ["networks.independent.link.loss", "networks.rain.link.loss"]},
    ending=Ending(target=0.02),
    seeds=range(8),
)
over = {"method.eta": Between(0.01, 0.5, log=True), "method.rho": Between(0.001, 0.1, log=True)}

if __name__ == "__main__":
    tuned = experiment.tune(over, out="runs/paper-tuning", seeds=range(100, 102), candidates=6, finalists=2)
    found = tuned.experiment.run("runs/paper")
    pairs = results.paired(found.tidy(), "gap", "CTA", test="ratio")
    for table in (tuned.chosen, found.summary(), found.versus("CTA"), pairs):
        print(results.markdown(table, digits=3))
    Path("runs/table.tex").write_text(results.latex(pairs, cells="ratio", columns="network"))
    with results.style("paper"):
        found.figure("gap").savefig("runs/figure.pdf")
