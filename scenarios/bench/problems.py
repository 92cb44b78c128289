"""The problems of the suite: what each agent's cost is, and how far the models are from what all of them should be."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from netsim import Run
from netsim.agents import LocalProblem, Squared, centralised
from netsim.scenarios.tasks.method import Task
from netsim.scenarios.tasks.models import ModelProbe, Readings, residuals
from netsim.util.draws import generator
from netsim.util.typing import Array

_LENGTH, _SAMPLES, _NOISE, _SHARE = 20, 40, 0.3, 1e-3


class Regression(Task):
    """Linear regressions, well conditioned, with a true vector for each agent: half of it is common to all.

    R_i(θ) = (1/T) Σ_t (θᵀx_t − y_t)² + λ ‖θ‖² with T = 40, θ of 20 elements and λ = 0.001. The curvature of the mean of
    all R_i lies between about 0.1 and 1. Agents that do not agree end at vectors of their own, far from the common one.

    Parameters
    ----------
    graph : networkx.Graph
        With a node 0, 1, … for each agent.
    seed : int
        Of the data.

    Attributes
    ----------
    problems : list of LocalProblem
        The agents' costs.
    best : ndarray, shape (20,)
        The vector with the least sum of costs.
    """

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

    def error(self, models: Sequence[Array]) -> float:
        """Return (1/N) Σ_i [F(θ_i) − F*] / [F(0) − F*], where F is the sum of all costs and F* its minimum."""
        apart = np.stack(models) - self.best
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.einsum("ij,jk,ik->i", apart, self._curvature, apart).mean() / self._whole)


@dataclass(frozen=True)
class Problem:
    """A problem of the suite.

    Attributes
    ----------
    about : str
        What it is, in words.
    task : callable
        Makes the task from a graph and a seed: a `Task` with a method ``error`` of the agents' models.
    error : str
        What the error is, in words.
    target : float
        The error that is to be reached.
    rounds : int
        The number of rounds.
    """

    about: str
    task: Callable[["nx.Graph[int]", int], Regression]
    error: str
    target: float
    rounds: int


PROBLEMS: Mapping[str, Problem] = {
    "regression": Problem(
        "linear regressions whose true vectors differ by agent",
        Regression,
        "mean suboptimality of the agents' models, relative to zero's",
        1e-2,
        200,
    ),
}
"""The problems by name."""


def probe(task: Regression) -> ModelProbe:
    """Return what measures a round: the error, and how far models and copies of them differ."""

    def columns(models: Readings) -> dict[str, float]:
        return {"error": task.error(models["theta"])} | residuals(models)

    return ModelProbe(columns, task.graph, ideal=False)


def reached_bits(run: Run, target: float) -> Array:
    """Return, for each round, the bits that an agent had sent when the error came to the target to stay until now.

    NaN while the error is above the target.
    """
    rounds = run.rounds
    above = ~(rounds["error"].to_numpy(float) <= target)
    bits = np.maximum(rounds["wire_bits"].to_numpy(float) / len(run.agents), 1.0)
    since = np.maximum.accumulate(np.where(above, np.arange(1, len(bits) + 1), 0))
    return np.where(above, math.nan, bits[np.minimum(since, len(bits) - 1)])


def score(run: Run, target: float) -> Array:
    """Return what tuning makes small: log10 of `reached_bits`.

    While the error is above the target it is 1 plus log10 of the bits that an agent has sent, plus the decades by which
    the error is above. So a run that reaches the target is better than any that spends as much and does not.
    """
    rounds = run.rounds
    error, bits = rounds["error"].to_numpy(float), rounds["wire_bits"].to_numpy(float) / len(run.agents)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.log10(np.where(np.isnan(error), math.inf, error) / target)
    reached = reached_bits(run, target)
    return np.where(np.isnan(reached), 1.0 + np.log10(np.maximum(bits, 1.0)) + far, np.log10(reached))
