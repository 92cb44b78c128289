"""COKE on the network against its matrix recursion without messages.

Both solve the same problem, the paper's synthetic set (20 agents, 95 edges, 100 features). The row ``rounds`` measures
only the rounds: local steps and real frames, against a few products of stacked matrices. ``with errors`` adds the
training and test error of every round to both, and ``whole job`` also the data, the features and the factorisations,
as in `netsim run coke`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import compared, parser, show
from netsim import Network, topology
from netsim.agents import COKE, Geometric, LocalProblem, RandomFourier, Squared
from netsim.agents.measures.metrics import MeanSquaredError
from netsim.scenarios.data.tables import synthetic
from tests.oracle import batch

AGENTS, EDGES, FEATURES, LAMBDA, RHO, V, MU = 20, 95, 100, 5e-5, 1e-2, 1.0, 0.95
Pairs = list[tuple[NDArray[np.float64], NDArray[np.float64]]]


def data(seed: int) -> tuple[Pairs, Pairs]:
    """Return each agent's training data and test data, as pairs of features and targets."""
    phi = RandomFourier(5, FEATURES, seed=seed)
    parts = synthetic(AGENTS, seed=seed)
    train = [(phi(part.train_inputs), part.train_target) for part in parts]
    return train, [(phi(part.test_inputs), part.test_target) for part in parts]


class Task:
    """The data that the network and the recursion need before the first round."""

    def __init__(self) -> None:
        self.graph = topology.erdos_renyi(AGENTS, edges=EDGES, seed=0)
        self.train, self.test = data(0)
        self.errors = [MeanSquaredError(self.train), MeanSquaredError(self.test)]

    @cached_property
    def problems(self) -> list[LocalProblem]:
        """The agents' costs."""
        return [LocalProblem(x, y, loss=Squared(), regularizer=LAMBDA / AGENTS) for x, y in self.train]

    @cached_property
    def matrices(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """The recursion's stacked matrices."""
        return *batch.stack(self.train), topology.adjacency(self.graph)


def emulated(task: Task, rounds: int, errors: Sequence[MeanSquaredError] = ()) -> None:
    """Run COKE on the network."""

    def measure(agents: Mapping[int, COKE]) -> dict[str, float]:
        models = np.stack([agent.theta for agent in agents.values()])
        return {f"error_{i}": error(models) for i, error in enumerate(errors)}

    agents = {i: COKE(task.problems[i], rounds, rho=RHO, censor=Geometric(V, MU)) for i in task.graph}
    Network(task.graph, seed=0).run(agents, [measure] if errors else [])


def recursion(task: Task, rounds: int, errors: Sequence[MeanSquaredError] = ()) -> None:
    """Run COKE as a recursion of matrices."""
    gram, cross, adjacency = task.matrices
    models, _ = batch.coke(gram, cross, adjacency, LAMBDA / AGENTS, RHO, rounds, V, MU)
    for error in errors:
        for row in models:
            error(row)


def compare(rounds: int, repeats: int) -> dict[str, dict[str, float]]:
    """Return medians in seconds and the ratio of the emulation to the recursion."""
    task = Task()
    task.problems, task.matrices  # noqa: B018 (made before the clock starts)

    def fresh(run: Callable[[Task, int, Sequence[MeanSquaredError]], None]) -> None:
        new = Task()
        run(new, rounds, new.errors)

    pairs = {
        "rounds": (partial(emulated, task, rounds), partial(recursion, task, rounds)),
        "with errors": (partial(emulated, task, rounds, task.errors), partial(recursion, task, rounds, task.errors)),
        "whole job": (partial(fresh, emulated), partial(fresh, recursion)),
    }
    return compared(pairs, repeats)


def main() -> None:
    """Run the benchmark."""
    chosen = parser(__doc__, rounds=2000, repeats=5).parse_args()
    show(
        compare(chosen.rounds, chosen.repeats),
        chosen.json,
        f"COKE, synthetic set, {AGENTS} agents, {chosen.rounds} rounds",
    )


if __name__ == "__main__":
    main()
