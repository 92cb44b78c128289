"""At which loss do COKE's savings end? The problem of learning_on_motes.py over links that lose frames one by one."""

import runpy
from pathlib import Path

import numpy as np

from netsim import Experiment, Link, Links, Method, agents, coders, results, topology, vary

MOTES = runpy.run_path(str(Path(__file__).with_name("learning_on_motes.py")))
features, warmth, cost, places = (MOTES[name] for name in ("MAP", "warmth", "cost", "EVERYWHERE"))


def field(seed):
    """Return the costs of the 25 motes, their grid, and the error over the whole field."""
    known, truth = features(places), warmth(places)
    costs = [cost(node, seed) for node in range(25)]
    return costs, topology.grid(5, 5), lambda models: {"test_mse": np.mean((models @ known.T - truth) ** 2)}


censor = agents.Geometric(1.0, 0.95)
experiment = Experiment(
    problem=field,
    methods={
        "DKLA": Method(agents.DKLA, rho=5e-3),
        "COKE": Method(agents.COKE, rho=5e-3, censor=censor),
        "COKE, 4 bits": Method(agents.COKE, rho=5e-3, censor=censor, coder=coders.Uniform(4)),
        "coded sums": Method(agents.COKE, rho=5e-3, censor=censor, duals=agents.CodedSums()),
    },
    networks=Links(link=Link(loss=0.0), medium="radio"),
    names={"loss": "network.link.loss"},
    grid=vary("loss", [0.0, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1]),
    rounds=100,
    seeds=range(1, 11),
)

if __name__ == "__main__":
    found = experiment.run("runs/claims", jobs=2)
    for measure in ("test_mse", "transmissions", "payload_bits"):
        ratios = results.paired(found.tidy(), measure, "DKLA", test="ratio")
        print(measure, results.markdown(ratios, digits=3), sep="\n")
