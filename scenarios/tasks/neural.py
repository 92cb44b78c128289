"""Neural networks learned jointly by agents: each agent's cost on its own samples, and the models' errors."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from netsim.agents.costs.model import DTYPES, ModelCost
from netsim.agents.models.backends import BACKENDS, backend
from netsim.agents.models.layered import Layered, cnn, mlp
from netsim.errors import BadInput
from netsim.scenarios.data.files import find_table
from netsim.scenarios.data.samples import DIGITS, ClassSamples, SomeRows
from netsim.scenarios.data.tables import AgentData, deal, enough
from netsim.scenarios.tasks.classes import largest_share
from netsim.scenarios.tasks.division import tell_division
from netsim.scenarios.tasks.method import Task
from netsim.scenarios.tasks.models import ModelProbe, Readings, residuals
from netsim.scenarios.tasks.settings import Divided, NetworkSize, names_in
from netsim.studies import Study
from netsim.studies.experiment import Problem, Setup
from netsim.util import check, draws
from netsim.util.typing import Array

MNIST = "mnist"
MODELS = ("softmax", "mlp", "cnn")
TRAIN_SHARE = 0.8

_ELEMENTS = 2**20
"""The largest number of values of a layer, for all models together, that a measurement holds in memory."""


@dataclass(frozen=True, kw_only=True)
class NetworkModel:
    """The model, and the computation of its gradients.

    Parameters
    ----------
    model : str
        "softmax": regression, without hidden layers. "mlp": fully connected layers. "cnn": convolutions of 3 x 3 pixels
        with means of 2 x 2, for inputs that are square images.
    hidden : str
        Widths of the hidden layers of "mlp", or numbers of filters of the convolutions of "cnn", with commas between;
        by default 64, and 8,16.
    batch : int
        Samples of a minibatch; 0: all of an agent's, every time.
    regularizer : float
        The centre's regulariser lambda, of all parameters of the network.
    dtype : str
        "float64" or "float32": what gradients are computed in, and what is sent in float32 where a method sends states.
    backend : str
        What computes gradients: "numpy", "torch" or "jax" (extras of the same names).
    """

    model: str = "mlp"
    hidden: str | None = None
    batch: int = 32
    regularizer: float = 0.0
    dtype: str = "float64"
    backend: str = "numpy"

    def checked(self) -> None:
        """Raise BadInput for a value that cannot be used, whatever the data, or a library that is not installed."""
        check.one_of("model", self.model, MODELS)
        check.integer("batch", self.batch, low=0)
        check.finite("regularizer", self.regularizer, low=0.0)
        check.one_of("dtype", self.dtype, DTYPES)
        check.one_of("backend", self.backend, BACKENDS)
        self._widths()
        backend(self.backend)

    def resolved(self) -> "NetworkModel":
        """Return the model with the usual layers, if left open."""
        usual = {"softmax": None, "mlp": "64", "cnn": "8,16"}[self.model]
        return dataclasses.replace(self, hidden=usual) if self.hidden is None else self

    def _widths(self) -> list[int]:
        if self.model == "softmax":
            if self.hidden is not None:
                raise check.refuse("hidden", self.hidden, "left out for the model 'softmax', which has no hidden layer")
            return []
        widths = []
        for part in names_in(self.resolved().hidden or ""):
            if not part.isdecimal() or int(part) < 1:
                raise check.refuse("hidden", self.hidden, "whole numbers >= 1, with commas between")
            widths.append(int(part))
        return widths

    def build(self, inputs: int, classes: int) -> Layered:
        """Return the network for samples of a length; raises BadInput if "cnn" is not for square images."""
        widths = self._widths()
        if self.model != "cnn":
            return mlp(inputs, widths, classes)
        side = round(inputs**0.5)
        if side * side != inputs or side < 2 ** len(widths):
            least = 2 ** len(widths)
            allowed = f"with square images of {least} x {least} pixels at least; a sample has {inputs} inputs"
            raise check.refuse("model", self.model, allowed)
        return cnn(side, classes, filters=widths)


class NeuralTask(Task):
    """A network learned jointly by agents with their own samples, from a common start.

    Parameters
    ----------
    parts : sequence of AgentData
        Each agent's samples, with class numbers as targets.
    network : Layered
        The network.
    graph : networkx.Graph
        The network's graph, with a node 0, 1, … for each agent.
    how : NetworkModel
        How gradients are computed.
    seed : int
        Seed of the initial parameters, of the minibatches, and of the samples on which models are measured.
    evaluated : int
        Models are measured on at most this many test samples and training samples, drawn from those of all agents.
    every : int
        Models are measured in every ``every``-th round, and in the first and the last.
    rounds : int
        Number of the last round.
    ideal : bool
        Whether the links lose and delay no frame, so that all copies of a state are equal.

    Attributes
    ----------
    size : int
        Length of a model.
    parts, network, ideal
        As given.
    costs : list of ModelCost
        The agents' costs; ``cost`` returns, for an agent's name, a new copy of the agent's cost.
    constant : dict
        The test error of always predicting the most frequent class.
    told : Study or None
        Notes, tables, figures and settings from the creation of the task.
    error, columns
        The column of the error that reports compare, and the columns of all measures.
    """

    told: Study | None = None

    error: ClassVar[str] = "test_error"
    columns: ClassVar[tuple[str, ...]] = (
        "train_loss",
        "test_error",
        "test_accuracy",
        "mean_model_train_loss",
        "mean_model_test_error",
    )

    def __init__(
        self,
        parts: Sequence[AgentData],
        network: Layered,
        graph: "nx.Graph[int]",
        *,
        how: NetworkModel = NetworkModel(),
        seed: int = 0,
        evaluated: int = 2000,
        every: int = 1,
        rounds: int = 0,
        ideal: bool = False,
    ) -> None:
        check.integer("evaluated", evaluated, low=1)
        self._every, self._rounds = check.integer("every", every, low=1), rounds
        self.parts, self.network, self.size, self.ideal = parts, network, network.size, ideal
        given: dict[str, Any] = {"batch": how.batch or None, "regularizer": how.regularizer / len(parts)}
        given |= {"dtype": how.dtype, "library": how.backend, "seed": seed}
        self.costs = [
            ModelCost(network, part.train_inputs, part.train_target, name=name, **given)
            for name, part in enumerate(parts)
        ]
        super().__init__(lambda node: self.costs[node].fresh(), graph)
        self.constant = {self.error: 1.0 - largest_share(np.concatenate([part.test_target for part in parts]))}
        self._train = _some([(part.train_inputs, part.train_target) for part in parts], evaluated, seed, "train")
        self._test = _some([(part.test_inputs, part.test_target) for part in parts], evaluated, seed, "test")

    @property
    def measure(self) -> ModelProbe:
        """A new probe for one run: it computes the errors of the agents' models ``theta``, and their disagreement.

        The errors are NaN in rounds in which models are not measured.
        """
        return _NeuralProbe(self)

    def is_due(self, number: int) -> bool:
        """Return whether models are measured in a round."""
        return number in (1, self._rounds) or number % self._every == 0

    def measures(self, thetas: Array) -> dict[str, float]:
        """Return the columns for the models of all agents, shape (N, D).

        train_loss, test_error and test_accuracy are means over the agents' models, evaluated on samples of all agents.
        Columns that begin with mean_model refer to the mean of the models.
        """
        weights = self.costs[0].start + np.concatenate([thetas, thetas.mean(axis=0)[None]])
        losses, _ = self._judged(weights, *self._train)
        _, errors = self._judged(weights, *self._test)
        return {
            "train_loss": float(losses[:-1].mean()),
            "test_error": float(errors[:-1].mean()),
            "test_accuracy": float(1.0 - errors[:-1].mean()),
            "mean_model_train_loss": float(losses[-1]),
            "mean_model_test_error": float(errors[-1]),
        }

    def _judged(self, weights: Array, samples: Array, labels: Array) -> tuple[Array, Array]:
        """Return each network's mean cross-entropy, and its share of misclassified samples."""
        network, hot = self.network, labels[:, None] == np.arange(self.network.classes)
        step = max(1, _ELEMENTS // (len(weights) * network.widest))
        losses, wrong = np.zeros(len(weights)), np.zeros(len(weights))
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, len(samples), step):
                part = slice(first, first + step)
                scores = network.scores(np, weights, samples[part])
                scores = scores - scores.max(axis=-1, keepdims=True)
                own = scores[..., hot[part]]
                losses += (np.log(np.exp(scores).sum(axis=-1)) - own).sum(axis=-1)
                # If a network grew without bound, its scores are NaN, and no prediction counts as right.
                right = (scores.argmax(axis=-1) == labels[part]) & (own == 0.0)
                wrong += (~right).sum(axis=-1)
        return losses / len(samples), wrong / len(samples)

    @property
    def watch(self) -> Mapping[str, Callable[[Any], float]]:
        """The state of each agent shown in replays: ``own_loss``, its model's loss on its own samples."""
        return {"own_loss": lambda agent: self.costs[agent.name].value(agent.theta)}


class _NeuralProbe(ModelProbe):
    """A probe of one run, which counts its rounds."""

    may_skip = False

    def __init__(self, task: NeuralTask) -> None:
        super().__init__(self._columns, task.graph, task.ideal)
        self._task, self._number = task, 0

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle for workers, which only read the models."""
        return vars(self) | {"_task": None, "_measure": None}

    def _columns(self, models: Readings) -> dict[str, float]:
        self._number += 1
        task = self._task
        due = task.is_due(self._number)
        measured = task.measures(np.array(models["theta"])) if due else dict.fromkeys(task.columns, np.nan)
        return measured | residuals(models)


def _some(pairs: Sequence[tuple[Array, Array]], most: int, seed: int, which: str) -> tuple[Array, Array]:
    """Return at most ``most`` samples of all agents, drawn at random, in their original order."""
    ends = np.cumsum([len(labels) for _, labels in pairs])
    count = int(ends[-1])
    drawn = draws.generator(seed, which, "evaluated").permutation(count)[:most] if count > most else np.arange(count)
    inputs, labels = (np.concatenate(each) for each in zip(*pairs, strict=True))
    return inputs[np.sort(drawn)], labels[np.sort(drawn)]


@dataclass(frozen=True, kw_only=True)
class NeuralSamples(Divided, SomeRows, ClassSamples):
    """The samples to learn from, and their division among agents; some data sets are limited by default."""

    USUAL_ROWS: ClassVar[Mapping[str, int]] = {MNIST: 10_000}


@dataclass(frozen=True, kw_only=True)
class NeuralLearning(Problem):
    """A network learned jointly by agents from samples of classes, divided among them.

    Parameters
    ----------
    data : str, optional
        "mnist", "digits" (comes with netsim), or another table of classes: its name in NETSIM_DATA or the cache, or
        its path. By default mnist if it is there, else digits.
    samples : NeuralSamples
        Which samples, and which agent gets which.
    model : NetworkModel
        The model.
    size : NetworkSize
        The size of a random graph, if the network has none.
    every : int
        Rounds from one measurement of losses and errors to the next; the first and the last round have one, too.
    evaluated : int
        At most so many test samples, and as many training samples, are what models are measured on.

    Raises
    ------
    BadInput
        When a run is made: for an unknown or damaged table, too few samples, a value outside its range, or samples that
        are no square images for a "cnn".
    """

    data: str | None = None
    samples: NeuralSamples = NeuralSamples()
    model: NetworkModel = NetworkModel()
    size: NetworkSize = NetworkSize()
    every: int = 10
    evaluated: int = 2000

    def whole(self) -> "NeuralLearning":
        """Return the problem with values for all parameters that were left open."""
        data = _usual() if self.data is None else self.data
        samples, model, size = self.samples.resolved(data), self.model.resolved(), self.size.resolved()
        return dataclasses.replace(self, data=data, samples=samples, model=model, size=size)

    def make(self, setup: Setup) -> NeuralTask:
        """Return the task of a run."""
        self.model.checked()
        measured = {name: check.integer(name, getattr(self, name), low=1) for name in ("every", "evaluated")}
        partition, whole, told = self.samples.divided(), self.whole(), Study("", {})
        data, samples, model = str(whole.data), whole.samples, whole.model
        if self.data is None:
            told.note("Data: mnist." if data == MNIST else "Data: digits; netsim data get mnist fetches mnist.")
        graph = whole.size.graph(setup.seeds.graph) if setup.graph is None else setup.graph
        table, classes = samples.load(data, setup.seeds.data)
        enough(len(table.target), len(graph), 2)
        network = model.build(table.inputs.shape[1], len(classes))
        division: dict[str, Any] = {"partition": partition, "classes": len(classes), "seed": setup.seeds.data}
        parts = deal(table, len(graph), train_share=TRAIN_SHARE, **division)
        given: dict[str, Any] = {"rounds": setup.rounds, "ideal": setup.ideal, "seed": setup.seed, **measured}
        task = NeuralTask(parts, network, graph, how=model, **given)
        told.record(samples, model, whole.size, data=data)
        shapes = ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in network.shapes.items())
        told.note(*table.notes, f"Each model has {task.size:,} parameters: {shapes}.")
        tell_division(told, parts, samples, classes)
        task.told = told
        return task


def _usual() -> str:
    """Return mnist if its table exists, else digits."""
    try:
        find_table(MNIST)
    except BadInput:
        return DIGITS
    return MNIST
