"""COKE as a part of 25 motes, beside time, routing and sampling: error against time, lost frames and joules."""

from dataclasses import replace
from functools import partial

import numpy as np

import netsim
from netsim import Experiment, agents, coders, interferers, results, vary

ROUNDS, PERIOD, BEGIN = 100, 20.0, 300.0  # FTSP has all motes on one time before the first round
MAP = agents.RandomFourier(2, 48, sigma=1.0, seed=1)
EVERYWHERE = np.stack(np.meshgrid(*2 * [np.linspace(0, 4, 19)]), -1).reshape(-1, 2)


def warmth(x):  # of variance 1, at places x in steps of the grid
    return np.sin(1.3 * x[:, 0]) + np.cos(x[:, 1])


def cost(node, seed):
    """Return the least squares of a mote over forty noisy readings around it, which never leave it."""
    rng = np.random.default_rng([seed, node])
    x = rng.normal((node % 5, node // 5), 0.5, (40, 2))
    return agents.LeastSquares(MAP(x), warmth(x) + 0.1 * rng.normal(size=40), loss=agents.Squared(), regularizer=4e-4)


def motes(setup, **settings):
    def mote(node):
        method = agents.COKE(cost(node, setup.seeds.data), ROUNDS, rho=5e-3, **settings)
        learner = agents.Learner(method, period=PERIOD, begin=BEGIN, spread=15)
        return netsim.Mote(time=agents.FTSP(10), routing=agents.CTP(node == 0), app=agents.Sampler(30), learn=learner)

    return {node: mote(node) for node in setup.graph}


def site(setup, jammed=60.0):
    """Return a grid with 18 m a step; a jammer in the middle begins after 15 minutes, for so many seconds."""
    preset = netsim.presets.ieee802154(power_dbm=-10)
    places = {node: (18 * (node % 5), 18 * (node // 5)) for node in range(25)}
    jammer = interferers.Jammer(position=(36, 36), at=900.0, until=900.0 + jammed)
    clocks = {"drift_ppm": 40, "offset": 2, "seed": setup.seeds.graph}
    grid = netsim.Deployment(places, preset=preset, least=0.97, interferers={"jammer": jammer}, **clocks)
    radio = replace(preset.radio, max_frame_retries=0, energy=preset.energy)  # CTP sends again itself
    return grid.network(radio=radio, seed=setup.seeds.network)


def error(motes):
    errors = [(MAP(EVERYWHERE) @ each.learn.theta - warmth(EVERYWHERE)) ** 2 for each in motes.values()]
    return {"test_mse": np.mean(errors)}


def spent(run):
    frames = run.ledger.table(["kind"]).set_index("kind").reindex(["state", "change", "sum", "repair"]).sum()
    lost = 100 * (1 - frames["delivered"] / frames["offered"])
    return {"lost_%": lost, "sending_mj": 1e3 * run.energy["transmit_j"].mean(), "radio_j": run.energy["used_j"].mean()}


censor = agents.Geometric(1.0, 0.95)
settings = {"DKLA": {}, "COKE": {"censor": censor}, "COKE, 4 bits": {"censor": censor, "coder": coders.Uniform(4)}}
settings |= {"running sums": {"duals": agents.RunningSums()}, "coded sums": {"duals": agents.CodedSums()}}
experiment = Experiment(
    methods={name: partial(motes, **given) for name, given in settings.items()},
    networks=site,
    grid=vary("network.jammed", [60.0, 300.0, 900.0]),
    measure=[error],
    after=[spent],
    until=BEGIN + PERIOD * (ROUNDS + 1),
    sample=PERIOD,
    seeds=range(1, 11),
)

if __name__ == "__main__":
    found = experiment.run("runs/learning_on_motes", jobs=2)
    found.only("network.jammed", 60.0).figure("test_mse", "time_s").savefig("learning_on_motes.png")
    for measure in ("test_mse", "lost_%", "sending_mj", "radio_j"):
        table = results.interval(found.tidy(), measure, ["algorithm", "network.jammed"])
        print(measure, results.markdown(table, digits=3), sep="\n")
