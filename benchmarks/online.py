"""Each online method on the network against its vectorised recursion, on Tom's hardware data: 5 agents, one pass.

Needs NETSIM_DATA. Both ways read the same features, which are computed beforehand. The published seconds (P. Xu's
dissertation, table 3.1: Matlab on a desktop, without messages) are shown for reference, not for comparison.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import compared, parser, show
from netsim import Network, topology
from netsim.agents import Geometric, PowerLaw, RandomFourier
from netsim.coders import Uniform
from netsim.scenarios.data.tables import load_table, scale_unit
from netsim.scenarios.published import published
from netsim.scenarios.tasks.method import agents_of
from netsim.scenarios.tasks.online_task import OnlineSteps, OnlineTask, methods
from netsim.studies.experiment import Method
from tests.oracle import batch, online

AGENTS, FREQUENCIES, LAMBDA, BITS = 5, 50, 1e-4, 3
RHO, ETA, STEP = 1.0, 8.0, 0.1
STEPS = OnlineSteps(rho=RHO, eta=ETA, step=STEP)


class Task:
    """The stream of samples, as arrays."""

    def __init__(self, rounds: int) -> None:
        table = scale_unit(load_table("tomshardware"))
        order = np.random.default_rng(0).permutation(len(table.target))[: rounds * AGENTS]
        phi = RandomFourier(table.inputs.shape[1], FREQUENCIES, sigma=0.5, form="cos+sin", seed=0)
        self.rounds = len(order) // AGENTS
        rows = order[: self.rounds * AGENTS].reshape(self.rounds, AGENTS)
        self.features = phi(table.inputs[rows.ravel()]).reshape(self.rounds, AGENTS, -1)
        self.targets = table.target[rows]
        self.graph = topology.erdos_renyi(AGENTS, edges=7, seed=0)
        self.weights = topology.metropolis_weights(self.graph)
        self.adjacency = topology.adjacency(self.graph)

    def emulated(self, method: Method) -> None:
        """Run a method on the network."""
        samples = [zip(self.features[:, i], self.targets[:, i].tolist(), strict=True) for i in self.graph]
        size = self.features.shape[2]
        streams = OnlineTask(samples, size, LAMBDA, self.graph, rounds=self.rounds, ideal=True)
        Network(self.graph, seed=0).run(agents_of(STEPS.of(method), streams, self.rounds))


def recursions(task: Task) -> dict[str, Callable[[], Any]]:
    """Return the vectorised recursion of each method."""
    data: tuple[NDArray[np.float64], NDArray[np.float64]] = (task.features, task.targets)
    share, A = LAMBDA / AGENTS, task.adjacency
    quantize = batch.uniform_quantizer(BITS)
    return {
        "RFF-DOKL": partial(online.rff_dokl, *data, task.weights, share, STEP),
        "DOKL": partial(online.dokl, *data, A, share, RHO, ETA),
        "ODKLA": partial(online.odkla, *data, A, share, RHO, ETA),
        "QC-ODKLA": partial(online.odkla, *data, A, share, RHO, ETA, v=4.0, mu=0.99, quantize=quantize),
        "DDKL": partial(online.ddkl, *data, A, share, RHO),
        "CoDDKL": partial(online.ddkl, *data, A, share, RHO, v=0.1, mu=0.95),
        "QDDKL": partial(online.ddkl, *data, A, share, RHO, quantize=quantize),
        "QC-DDKL": partial(online.ddkl, *data, A, share, RHO, v=0.1, mu=0.95, quantize=quantize),
    }


def compare(rounds: int, repeats: int) -> dict[str, object]:
    """Return medians in seconds, their ratio, and the published seconds."""
    task = Task(rounds)
    coder = Uniform(BITS)
    known = methods(Geometric(4.0, 0.99), coder) | {
        name: method for name, method in methods(PowerLaw(0.1, 0.95), coder).items() if "DDKL" in name
    }
    pairs = {name: (partial(task.emulated, known[name]), recursion) for name, recursion in recursions(task).items()}
    rows = compared(pairs, repeats)
    table = published("online_running_time")
    theirs = table[table["dataset"] == "tomshardware"].set_index("algorithm")["seconds"].to_dict()
    return {name: row | ({"published_s": float(theirs[name])} if name in theirs else {}) for name, row in rows.items()}


def main() -> None:
    """Run the benchmark."""
    chosen = parser(__doc__, rounds=5635, repeats=3).parse_args()
    title = f"Tom's hardware, {AGENTS} agents, {2 * FREQUENCIES} features, {chosen.rounds} rounds, one pass"
    show(compare(chosen.rounds, chosen.repeats), chosen.json, title)


if __name__ == "__main__":
    main()
