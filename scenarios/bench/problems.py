"""The problems of the suite: each agent's cost, and the distance of models from the common optimum."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pandas as pd

from netsim import Run, topology
from netsim.agents import LocalProblem, Squared, centralised
from netsim.scenarios.bench.suite import AGENTS, EDGES
from netsim.scenarios.tasks.method import Task
from netsim.scenarios.tasks.neural import NetworkModel, NeuralLearning, NeuralSamples, NeuralTask
from netsim.studies.experiment import Problem, Seeds, Setup
from netsim.studies.reach import settling
from netsim.util.draws import generator
from netsim.util.typing import Array

_LENGTH, _SAMPLES, _NOISE, _SHARE = 20, 40, 0.3, 1e-3


class RegressionTask(Task):
    """Well-conditioned linear regressions: each agent's true vector is a common vector plus one of its own.

    R_i(θ) = (1/T) Σ_t (θᵀx_t − y_t)² + λ ‖θ‖² with T = 40, θ of 20 elements and λ = 0.001. The curvature of the mean of
    all R_i lies between about 0.08 and 1. Agents that do not cooperate end at different vectors.

    Parameters
    ----------
    graph : networkx.Graph
        The agents' graph, with nodes 0, 1, ….
    seed : int
        The seed of the data.

    Attributes
    ----------
    problems : list of LocalProblem
        The agents' costs.
    best : ndarray, shape (20,)
        The vector that minimises the sum of the agents' costs.
    error : str
        Name of the column that holds the error.
    """

    error: ClassVar[str] = "suboptimality"

    def __init__(self, graph: "nx.Graph[int]", seed: int) -> None:
        rng = generator(seed, "regression", "bench")
        scale = np.geomspace(0.7, 0.2, _LENGTH)
        common = rng.normal(size=_LENGTH)
        self.problems = []
        for _ in graph:
            x = rng.normal(size=(_SAMPLES, _LENGTH)) * scale
            y = x @ (common + rng.normal(size=_LENGTH)) + _NOISE * rng.normal(size=_SAMPLES)
            self.problems.append(LocalProblem(x, y, loss=Squared(), regularizer=_SHARE))
        super().__init__(self.problems.__getitem__, graph)
        self.best = centralised(self.problems, _SHARE * len(self.problems))
        data = [each.features for each in self.problems]
        self._curvature = sum(x.T @ x for x in data) / _SAMPLES + _SHARE * len(data) * np.eye(_LENGTH)
        self._whole = self.best @ self._curvature @ self.best

    def measures(self, models: Array) -> dict[str, float]:
        """Return (1/N) Σ_i [F(θ_i) − F*] / [F(0) − F*], where F is the sum of all costs and F* its minimum."""
        apart = models - self.best
        with np.errstate(over="ignore", invalid="ignore"):
            above = np.einsum("ij,jk,ik->i", apart, self._curvature, apart).mean()
            return {"suboptimality": float(above / self._whole)}


def _digits(graph: "nx.Graph[int]", seed: int) -> NeuralTask:
    """Return the task of training a 64-32-10 network on handwritten digits, divided unevenly among the agents."""
    samples, model = NeuralSamples(partition="dirichlet:0.5"), NetworkModel(hidden="32")
    problem = NeuralLearning(data="digits", samples=samples, model=model, every=5, evaluated=200)
    return problem.make(Setup(Seeds(seed=seed), DIGITS_ROUNDS, graph))


@dataclass(frozen=True)
class Suited(Problem):
    """A problem of the suite, on the network's own graph or else on a random graph of `AGENTS` agents.

    Attributes
    ----------
    about : str
        A description.
    task : callable
        Makes the task from a graph and a seed.
    error : str
        Name of the column that holds the error.
    error_text : str
        A description of the error.
    target : float
        The error to reach.
    rounds : int
        The number of rounds.
    """

    about: str
    task: Callable[["nx.Graph[int]", int], RegressionTask | NeuralTask]
    error: str
    error_text: str
    target: float
    rounds: int

    def make(self, setup: Setup) -> RegressionTask | NeuralTask:
        """Return the task of a run."""
        graph = setup.graph
        if graph is None:
            graph = topology.erdos_renyi(AGENTS, edges=EDGES, seed=setup.seeds.graph)
        made: Any = self.task(graph, setup.seeds.data)
        made.rounds, made.after = self.rounds, [self.costs]
        return made  # type: ignore[no-any-return]

    def columns(self, rounds: pd.DataFrame, agents: int) -> dict[str, Array]:
        """Return, for each row, the cost so far of reaching the target, and the score that tuning minimises."""
        bits, seconds = (reached(rounds, self.error, self.target, cost) for cost in ("wire_bits", "time_s"))
        scores = score(rounds, self.error, self.target, agents)
        return {"reached_bits": bits / agents, "reached_s": seconds, "score": scores}

    def costs(self, run: Run) -> dict[str, float]:
        """Return a complete run's cost of reaching the target, and its score."""
        return {name: values[-1] for name, values in self.columns(run.rounds, len(run.agents)).items()}


REGRESSION_ROUNDS, DIGITS_ROUNDS = 200, 120

PROBLEMS: Mapping[str, Suited] = {
    "regression": Suited(
        "linear regressions, 20 parameters, with a true vector for each agent",
        RegressionTask,
        "suboptimality",
        "mean suboptimality of the agents' models (1: the zero model's)",
        1e-2,
        REGRESSION_ROUNDS,
    ),
    "digits": Suited(
        "a network of 64, 32 and 10 units for the 1,797 digits that come with netsim, divided by Dirichlet(0.5)",
        _digits,
        "test_error",
        "mean test error of the agents' models",
        0.25,
        DIGITS_ROUNDS,
    ),
}
"""The problems by name."""


def reached(rounds: pd.DataFrame, error: str, target: float, cost: str) -> Array:
    """Return, for each row of a run, the cost up to the round from which the error stays at or below the target.

    The cost is NaN in rounds before that. The error is taken as constant between the rounds in which it was measured.
    """
    costs = rounds[cost].to_numpy(float)
    since = settling(rounds[error].ffill(), target)
    return np.where(since > np.arange(len(costs)), math.nan, costs[np.minimum(since, len(costs) - 1)])


def score(rounds: pd.DataFrame, error: str, target: float, agents: int) -> Array:
    """Return the score minimised by tuning: log10 of the bits that an agent sends until it reaches the target.

    While the error is above the target, the score is 10 + log10(error / target). Any run that reaches the target
    therefore scores better than any run that does not.
    """
    errors = rounds[error].ffill().fillna(math.inf).to_numpy(float)
    bits = reached(rounds, error, target, "wire_bits") / agents
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(errors <= target, np.log10(np.maximum(bits, 1.0)), 10.0 + np.log10(errors / target))
