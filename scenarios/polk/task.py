"""The study `polk`: a classification problem, agents that learn it online, and the probe that measures them."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim import topology
from netsim.agents.costs import multiclass
from netsim.agents.greedy.dictionary import Dictionary
from netsim.agents.greedy.penalty import ConstantPenalty, DoublingPenalty, GreedyPenalty, Penalty
from netsim.errors import BadInput
from netsim.run import Run
from netsim.scenarios.data.partitions import EVENLY, Partition
from netsim.scenarios.data.streams import Rows, owners
from netsim.scenarios.polk.problems import BRODATZ, MIXTURES, Source, Split
from netsim.scenarios.tasks.classes import CRITERIA
from netsim.scenarios.tasks.models import AgentProbe, Readings
from netsim.scenarios.tasks.settings import Bandwidth, Channel, Divided
from netsim.scenarios.tasks.theory import Promises
from netsim.studies import Study
from netsim.studies.graphs import OwnTopology
from netsim.studies.seeds import Seeds
from netsim.util import check, draws

SHARED = "shared"
"""The partition of the paper: all agents learn from one training set."""

_SETTLED = 0.8  # share of the rounds after which the disagreement is averaged

# Values that come near the reference's accuracy with a small dictionary. "other" means tables.
_AGENTS = {MIXTURES: 20, BRODATZ: 5, "other": 5}
_SIGMA = {MIXTURES: 0.5, BRODATZ: 0.6, "other": "half the median distance between inputs"}
_SAMPLES = {MIXTURES: 5000, BRODATZ: 5000, "other": "7 of 10 rows, 5000 at most"}
_PENALTY = {MIXTURES: 0.01, BRODATZ: 0.02, "other": 0.02}
_DOUBLING = {MIXTURES: 200, BRODATZ: 0, "other": 0}
_STEPS = {
    (MIXTURES, "logistic"): {"eta": 6.0, "parsimony": 0.01},
    (MIXTURES, "hinge"): {"eta": 3.0, "parsimony": 0.02},
    (MIXTURES, "squared"): {"eta": 0.5, "parsimony": 0.12},
    (BRODATZ, "logistic"): {"eta": 10.0, "parsimony": 0.03},
    (BRODATZ, "hinge"): {"eta": 6.0, "parsimony": 0.05},
    (BRODATZ, "squared"): {"eta": 0.4, "parsimony": 0.5},
    ("other", "logistic"): {"eta": 10.0, "parsimony": 0.01},
    ("other", "hinge"): {"eta": 6.0, "parsimony": 0.01},
    ("other", "squared"): {"eta": 0.4, "parsimony": 0.1},
}


def _known(data: str) -> str:
    return data if data in (MIXTURES, BRODATZ) else "other"


@dataclass(frozen=True, kw_only=True)
class ProblemSetting(OwnTopology, Divided, Bandwidth):
    """The agents, the size of their training set, and the kernel.

    Parameters
    ----------
    partition : str
        The division of the samples among agents. "shared": all agents learn from the whole training set, as in the
        paper. Otherwise each agent learns only from its own samples. "iid": at random, evenly. "shards:S": sorted by
        class, in S shards an agent (McMahan 2017). "dirichlet:ALPHA": evenly, with shares of classes ~ Dir(ALPHA p)
        (Hsu 2019). "size:BETA": at random, the r-th largest share ~ r^-BETA. The number of rounds is that of "shared":
        each agent repeats its own samples, in a new order each time.
    agents : int
        Number of agents.
    density : float
        Probability that two agents are linked; graphs are drawn until one is connected.
    samples : int
        Size of the training set.
    sigma : float
        Bandwidth of the Gaussian kernel.
    """

    partition: str = SHARED
    agents: int | None = None
    density: float = 0.2
    samples: int | None = None
    sigma: float | None = None

    def divided(self) -> Partition:
        """Return the partition; an even one if all samples are shared. Raises BadInput for an invalid text."""
        if self.partition == SHARED:
            return EVENLY
        try:
            return super().divided()
        except BadInput as error:
            raise BadInput(f"{error}, or {SHARED}") from None

    @property
    def partition_title(self) -> str:
        """Return the text about the partition for a figure's title; "" if samples are shared."""
        return "" if self.partition == SHARED else f", partition {self.divided()}"

    @classmethod
    def by_data(cls) -> dict[str, dict[str, Any]]:
        """Return the defaults that depend on the data set."""
        return {"agents": _AGENTS, "samples": _SAMPLES, "sigma": _SIGMA}

    def resolved(self, data: str, source: Source) -> Self:
        """Return the setting with unset values replaced by tested ones; raises BadInput for invalid ones."""
        check.probability("density", self.density)
        self.divided()
        if self.sigma is not None and (self.median or self.tune):
            raise BadInput(f"sigma = {self.sigma:g}: must be left out where median or tune = True")
        samples = source.usual_samples if self.samples is None else self.samples
        agents = _AGENTS[_known(data)] if self.agents is None else self.agents
        sigma = source.usual_sigma if self.sigma is None else check.finite("sigma", self.sigma, above=0.0)
        check.integer("samples", samples, low=1, high=source.most_samples)
        check.fits("samples", samples, 8 * 3 * samples, "that many")
        return dataclasses.replace(self, agents=check.integer("agents", agents, low=1), samples=samples, sigma=sigma)


@dataclass(frozen=True, kw_only=True)
class Learning:
    """How the agents learn.

    Parameters
    ----------
    criterion : str
        Loss: "logistic", "hinge" or "squared".
    epochs : int
        Number of passes of each agent over the training set.
    batch : int
        Samples per agent and round; slightly more if the size of the training set is not a multiple of it.
    eta : float
        Step size; the default depends on the loss: logistic / hinge / squared.
    parsimony : float
        The projection may change a model by parsimony * eta^1.5; the default depends on the loss: logistic / hinge /
        squared.
    regularizer : float
        Regulariser lambda.
    penalty : float
        Initial penalty c on disagreement.
    doubling : int
        Number of samples after which the penalty doubles; 0: never.
    limit : float
        The penalty stops doubling when eta * c * neighbours reaches this value (0-1).
    """

    criterion: str = "logistic"
    epochs: int = 1
    batch: int = 32
    eta: float | None = None
    parsimony: float | None = None
    regularizer: float = 1e-6
    penalty: float | None = None
    doubling: int | None = None
    limit: float = 0.5

    @classmethod
    def by_data(cls) -> dict[str, dict[str, Any]]:
        """Return the defaults by data set; those of step size and parsimony also depend on the criterion."""
        kinds = (MIXTURES, BRODATZ, "other")
        steps = {
            name: {kind: " / ".join(f"{_STEPS[kind, each][name]:g}" for each in CRITERIA) for kind in kinds}
            for name in ("eta", "parsimony")
        }
        return {**steps, "penalty": _PENALTY, "doubling": _DOUBLING}

    def resolved(self, data: str) -> "Rule":
        """Return the rule with unset values replaced by tested ones; raises BadInput for invalid ones."""
        check.one_of("criterion", self.criterion, CRITERIA)
        check.integer("epochs", self.epochs, low=1)
        check.integer("batch", self.batch, low=1)
        check.number("limit", self.limit, high=1.0, above=0.0)
        check.finite("regularizer", self.regularizer, low=0.0)
        kind = _known(data)
        usual = {**_STEPS[kind, self.criterion], "penalty": _PENALTY[kind], "doubling": _DOUBLING[kind]}
        chosen = {name: value if getattr(self, name) is None else getattr(self, name) for name, value in usual.items()}
        check.finite("eta", chosen["eta"], above=0.0)
        for name in ("parsimony", "penalty"):
            check.finite(name, chosen[name], low=0.0)
        check.integer("doubling", chosen["doubling"], low=0)
        return Rule(**(vars(self) | chosen))


@dataclass(frozen=True, kw_only=True)
class Rule(Learning):
    """A `Learning` with all values set."""

    eta: float
    parsimony: float
    penalty: float
    doubling: int

    def schedule(self) -> Penalty:
        """Return the penalty of the main run."""
        if self.doubling:
            return DoublingPenalty(self.penalty, self.doubling, self.limit)
        return ConstantPenalty(self.penalty)


@dataclass(frozen=True)
class ClassProblem:
    """A classification problem with a kernel bandwidth, and the graph of its agents."""

    split: Split
    sigma: float
    best: float
    """Accuracy of the reference method on the test samples."""
    graph: "nx.Graph[int]"
    seeds: Seeds
    owners: Sequence[Rows] | None = None
    """The rows of each agent's samples; None if all agents share all samples."""


def draw_problem(source: Source, setting: ProblemSetting, seeds: Seeds) -> ClassProblem:
    """Draw the samples and the graph for a resolved setting."""
    sigma = check.finite("sigma", setting.sigma, above=0.0)
    agents = check.integer("agents", setting.agents, low=1)
    draw = partial(topology.erdos_renyi, agents, p=setting.density, seed=seeds.graph)
    graph = setting.graph_of(agents, draw, density=(setting.density, ProblemSetting.density))
    split = source.draw(check.integer("samples", setting.samples, low=1), seeds.data)
    dealt = None
    if setting.partition != SHARED:
        labels, partition = split.labels.astype(np.float64), setting.divided()
        dealt = owners(labels, len(graph), partition, seeds.data, classes=len(split.classes))
    return ClassProblem(split, sigma, split.reference(sigma), graph, seeds, dealt)


def batches(
    problem: ClassProblem, agent: int, epochs: int, count: int
) -> Iterator[tuple[NDArray[np.float64], NDArray[Any]]]:
    """Yield an agent's samples in ``count`` equal batches per epoch, in a new order for each pass.

    An epoch has as many samples as the training set; an agent with fewer samples repeats them.
    """
    rng = draws.generator(problem.seeds.data, agent, "samples")
    split = problem.split
    everything = np.arange(len(split.labels))
    own = everything if problem.owners is None else problem.owners[agent]
    left = own[:0]
    for _ in range(epochs):
        for part in np.array_split(everything, count):
            while len(left) < len(part):
                left = np.concatenate([left, rng.permutation(own)])
            rows, left = left[: len(part)], left[len(part) :]
            yield split.inputs[rows], split.labels[rows]


class Trial:
    """Runs the method on a problem once per penalty, and measures accuracy ``checks`` times per run."""

    def __init__(
        self, study: Study, problem: ClassProblem, rule: Rule, channel: Channel, checks: int, promises: Promises
    ) -> None:
        self.study, self.problem, self.rule = study, problem, rule
        self._channel, self._checks, self._promises = channel, checks, promises
        # Remaining samples are spread over all batches, because a small extra batch would be noisy.
        self._parts = max(len(problem.split.labels) // rule.batch, 1)
        self.rounds = rule.epochs * self._parts

    def run(self, name: str, penalty: Penalty) -> Run:
        """Run the method with a penalty; the study stores the run under ``name``."""
        problem, rule = self.problem, self.rule
        width, classes = problem.split.inputs.shape[1], len(problem.split.classes)
        learners = {
            i: GreedyPenalty(
                Dictionary(width, classes, sigma=problem.sigma),
                batches(problem, i, rule.epochs, self._parts),
                self.rounds,
                loss=multiclass.by_name(rule.criterion, classes),
                eta=rule.eta,
                regularizer=rule.regularizer,
                parsimony=rule.parsimony,
                penalty=penalty,
            )
            for i in problem.graph
        }
        measure = DictionaryMeasure(problem.graph, problem.split, self.rounds, self._checks)
        network = self._channel.over(problem.graph, problem.seeds.network)
        promised = self._promises.probes(self.study, name, learners, network, self.rounds)
        return self.study.run(name, network, learners, [measure, *promised], self.rounds)

    def row(self, run: Run) -> dict[str, Any]:
        """Return a run's row in the table of draws."""
        last = run.rounds.iloc[-1]
        settled = run.rounds[run.rounds["round"] > _SETTLED * self.rounds]
        return {
            "seed": self.problem.seeds.seed,
            self.problem.split.reference_name: self.problem.best,
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


class DictionaryMeasure(AgentProbe):
    """A probe of the columns of a round; objective and disagreement are those on the mini-batches, before learning."""

    def __init__(self, names: Iterable[Any], split: Split, rounds: int, checks: int) -> None:
        super().__init__(names)
        self._split = split
        self._round = 0
        # Testing costs agents × test samples predictions, so accuracy is measured only in some rounds.
        self._checked = {*np.linspace(0, rounds, min(checks, rounds) + 1).round().astype(int).tolist(), 1, rounds}

    def read(self, agents: Mapping[Any, GreedyPenalty]) -> Readings:
        """Return the agents' counts and, in some rounds, their models' accuracies."""
        self._round += 1
        learners = list(agents.values())
        right = [math.nan] * len(learners)
        if self._round in self._checked:
            x, y = self._split.test_inputs, self._split.test_labels
            right = [float(np.mean(learner.model(x).argmax(axis=1) == y)) for learner in learners]
        return {
            "samples": [learner.samples for learner in learners],
            "order": [len(learner.model) for learner in learners],
            "disagreement": [learner.disagreement for learner in learners],
            "cost": [each.risk + 0.5 * each.regularizer * each.model.squared_norm for each in learners],
            "missing": [learner.missing for learner in learners],
            "right": right,
        }

    def measure(self, readings: Readings) -> dict[str, float]:
        """Return samples, objective, disagreement, model orders, missing replies and, in some rounds, accuracies."""
        orders, right = readings["order"], readings["right"]
        heard = [each for each in readings["disagreement"] if not math.isnan(each)]
        return {
            "samples": readings["samples"][0],
            "objective": float(np.mean(readings["cost"])),
            "disagreement": len(orders) * float(np.mean(heard)) if heard else math.nan,
            "model_order": float(np.mean(orders)),
            "model_order_max": max(orders),
            "missing": sum(readings["missing"]),
            "accuracy": float(np.mean(right)),
            "accuracy_worst": min(right),
        }
