"""What the scenario `polk` runs: a problem of classes, agents that learn it online, and what is measured of them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim import check, draws, topology
from netsim.agents.costs import multiclass
from netsim.agents.greedy.dictionary import Dictionary
from netsim.agents.greedy.penalty import GreedyPenalty, Penalty
from netsim.run import Run
from netsim.scenarios.data.mixtures import draw_mixtures
from netsim.scenarios.data.textures import TEXTURES, centralised_accuracy, cut_patches, load_textures
from netsim.scenarios.tasks.settings import Channel
from netsim.studies import Study

Array = NDArray[np.float64]

_TESTED = 2500
_SETTLED = 0.8  # share of the rounds after which the disagreement is averaged


@dataclass(frozen=True)
class Problem:
    """A classification problem, its reference, and the graph of those who solve it.

    Attributes
    ----------
    best : float
        Accuracy of the reference on the same test samples.
    reference : str
        What it is.
    """

    inputs: Array
    labels: NDArray[np.int64]
    test_inputs: Array
    test_labels: NDArray[np.int64]
    classes: int
    best: float
    reference: str
    graph: "nx.Graph[int]"
    seed: int


def draw_problem(data: str, chosen: Mapping[str, Any], seed: int) -> Problem:
    """Draw the samples and the graph.

    Parameters
    ----------
    data : str
        "mixtures" or "brodatz".
    chosen : mapping
        The study's parameters agents, density, samples and sigma.
    """
    graph = topology.erdos_renyi(chosen["agents"], p=chosen["density"], seed=seed)
    count = check.integer("samples", chosen["samples"], low=1)
    if data == "mixtures":
        rng = np.random.default_rng(check.integer("seed", seed, low=0))
        mixtures = draw_mixtures(rng)
        train, test = mixtures.draw(count, rng), mixtures.draw(_TESTED, rng)
        best = float(np.mean(mixtures.bayes(test[0]) == test[1]))
        return Problem(*train, *test, mixtures.classes, best, "Bayes", graph, seed)
    patches = cut_patches(load_textures(), count, _TESTED, seed=seed)
    train, test = (patches.train_inputs, patches.train_labels), (patches.test_inputs, patches.test_labels)
    best = centralised_accuracy(patches, check.finite("sigma", chosen["sigma"], above=0.0))
    return Problem(*train, *test, len(TEXTURES), best, "central SVM", graph, seed)


def batches(problem: Problem, agent: int, epochs: int, count: int) -> Iterator[tuple[Array, NDArray[Any]]]:
    """Yield the training set in an order of the agent's own, another in each epoch, in so many parts of one size."""
    rng = draws.generator(problem.seed, agent, "samples")
    for _ in range(epochs):
        for rows in np.array_split(rng.permutation(len(problem.labels)), count):
            yield problem.inputs[rows], problem.labels[rows]


class Trial:
    """Runs the method on a problem, once for each penalty that is asked for."""

    def __init__(self, study: Study, problem: Problem, channel: Channel) -> None:
        self.study = study
        self.problem = problem
        self.channel = channel
        # A remainder goes to the other batches: a batch of its own would be noisy.
        self._parts = max(len(problem.labels) // study.settings["batch"], 1)
        self.rounds = study.settings["epochs"] * self._parts

    def run(self, name: str, penalty: Penalty) -> Run:
        """Run it under a name of its own."""
        problem, chosen = self.problem, self.study.settings
        learners = {
            i: GreedyPenalty(
                Dictionary(problem.inputs.shape[1], problem.classes, sigma=chosen["sigma"]),
                batches(problem, i, chosen["epochs"], self._parts),
                self.rounds,
                loss=multiclass.by_name(chosen["loss_function"], problem.classes),
                eta=chosen["eta"],
                regularizer=chosen["regularizer"],
                parsimony=chosen["parsimony"],
                penalty=penalty,
            )
            for i in problem.graph
        }
        measure = Measure(problem, self.rounds, chosen["checks"])
        network = self.channel.network(problem.graph, problem.seed)
        return self.study.run(name, network, learners, [measure], self.rounds)

    def row(self, run: Run) -> dict[str, Any]:
        """Return what a run came to."""
        last = run.rounds.iloc[-1]
        settled = run.rounds[run.rounds["round"] > _SETTLED * self.rounds]
        return {
            "seed": self.problem.seed,
            self.problem.reference: self.problem.best,
            "accuracy": last["accuracy"],
            "worst agent": last["accuracy_worst"],
            "points below": 100 * (self.problem.best - last["accuracy"]),
            "model order": last["model_order"],
            "largest": last["model_order_max"],
            "disagreement": settled["disagreement"].mean(),
            "missing": last["missing"],
            "payload_bits": last["payload_bits"],
            "raw_data_bits": last["raw_data_bits"],
        }


class Measure:
    """The columns of a round (a probe). Objective and disagreement are of the mini-batches, before learning."""

    def __init__(self, problem: Problem, rounds: int, checks: int) -> None:
        self._problem = problem
        self._round = 0
        # Every agent predicts every test sample: not in every round.
        self._checked = {*np.linspace(0, rounds, min(checks, rounds) + 1).round().astype(int).tolist(), 1, rounds}

    def __call__(self, agents: Mapping[Any, GreedyPenalty]) -> dict[str, float]:
        """Return samples, objective, disagreement, model orders, missing replies and, at times, accuracies."""
        self._round += 1
        learners = list(agents.values())
        orders = [len(learner.model) for learner in learners]
        heard = [each.disagreement for each in learners if not math.isnan(each.disagreement)]
        costs = [each.risk + 0.5 * each.regularizer * each.model.squared_norm for each in learners]
        right = [math.nan]
        if self._round in self._checked:
            x, y = self._problem.test_inputs, self._problem.test_labels
            right = [float(np.mean(learner.model(x).argmax(axis=1) == y)) for learner in learners]
        return {
            "samples": learners[0].samples,
            "objective": float(np.mean(costs)),
            "disagreement": len(learners) * float(np.mean(heard)) if heard else math.nan,
            "model_order": float(np.mean(orders)),
            "model_order_max": max(orders),
            "missing": sum(learner.missing for learner in learners),
            "accuracy": float(np.mean(right)),
            "accuracy_worst": min(right),
        }
