"""Neural networks that agents learn together: each agent's cost on samples of its own, and what the models achieve."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from netsim import topology
from netsim.agents.costs.model import DTYPES, ModelCost
from netsim.agents.models.backends import BACKENDS, backend
from netsim.agents.models.layered import Layered, cnn, mlp, softmax_regression
from netsim.scenarios.data.partitions import Partition
from netsim.scenarios.data.samples import ClassSamples
from netsim.scenarios.data.tables import AgentData, Table, deal
from netsim.scenarios.tasks.method import Task
from netsim.scenarios.tasks.models import ModelProbe, Readings, residuals
from netsim.scenarios.tasks.settings import names_in
from netsim.util import check, draws
from netsim.util.typing import Array

MODELS = ("softmax", "mlp", "cnn")
TRAIN_SHARE = 0.8

_ELEMENTS = 2**20
"""Values of a layer, of all models, that are in memory at once where models are measured."""


@dataclass(frozen=True, kw_only=True)
class NetworkModel:
    """The model, and how its gradients are taken.

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
        """Return it with the usual layers, if they were left open."""
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
        if self.model == "softmax":
            return softmax_regression(inputs, classes)
        if self.model == "mlp":
            return mlp(inputs, widths, classes)
        side = round(inputs**0.5)
        if side * side != inputs or side < 2 ** len(widths):
            least = 2 ** len(widths)
            allowed = f"with square images of {least} x {least} pixels at least; a sample has {inputs} inputs"
            raise check.refuse("model", self.model, allowed)
        return cnn(side, classes, filters=widths)


class NeuralTask(Task):
    """A network that agents learn together; each has its own samples, and all start from the same parameters.

    Parameters
    ----------
    parts : sequence of AgentData
        Each agent's samples, with class numbers as targets.
    network : Layered
        The network.
    graph : networkx.Graph
        With a node 0, 1, … for each agent.
    how : NetworkModel
        How gradients are taken.
    seed : int
        Seed of the start, of the minibatches and of the samples that models are measured on.
    evaluated : int
        At most so many test samples, and as many training samples, of all agents are what models are measured on.
    every : int
        Models are measured in each ``every``-th round, and in the first and the last.
    rounds : int
        Number of the last round.
    ideal : bool
        Whether the links lose and delay nothing, so that all copies of a state are the same.

    Attributes
    ----------
    size : int
        Length of a model.
    parts, network, ideal
        As given.
    costs : list of ModelCost
        The agents' costs; ``cost`` takes an agent's name to a fresh copy of its one.
    error, columns
        The column of the error that reports are about, and those of all measures.
    """

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
        super().__init__(self._fresh, graph)
        self._train = _some([(part.train_inputs, part.train_target) for part in parts], evaluated, seed, "train")
        self._test = _some([(part.test_inputs, part.test_target) for part in parts], evaluated, seed, "test")

    @property
    def measure(self) -> ModelProbe:
        """A new probe of the columns of one run: the errors of the agents' models ``theta``, and how far they differ.

        In rounds in which models are not measured the errors are NaN.
        """
        return _NeuralProbe(self)

    def _fresh(self, node: int) -> ModelCost:
        return self.costs[node].fresh()

    def is_due(self, number: int) -> bool:
        """Return whether models are measured in a round."""
        return number in (1, self._rounds) or number % self._every == 0

    def measures(self, thetas: Array) -> dict[str, float]:
        """Return the columns for the models of all agents, shape (N, D).

        train_loss, test_error and test_accuracy are means over the agents' models, each judged on samples of all
        agents. Those that begin with mean_model are of the mean of the models.
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
        """Return each network's mean cross-entropy, and its share of samples that are taken for another class."""
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
                # Where a network grew without bound, its scores are no numbers, and no class is right.
                right = (scores.argmax(axis=-1) == labels[part]) & (own == 0.0)
                wrong += (~right).sum(axis=-1)
        return losses / len(samples), wrong / len(samples)

    @property
    def watch(self) -> Mapping[str, Callable[[Any], float]]:
        """What a replay shows of each agent: ``own_loss``, its model's loss on its own samples."""
        return {"own_loss": lambda agent: self.costs[agent.name].value(agent.theta)}


class _NeuralProbe(ModelProbe):
    """A probe of one run, which counts its rounds."""

    may_skip = False

    def __init__(self, task: NeuralTask) -> None:
        super().__init__(self._columns, task.graph, task.ideal)
        self._task, self._number = task, 0

    def __getstate__(self) -> dict[str, Any]:
        """Return what workers need, which only read the models."""
        return vars(self) | {"_task": None, "_measure": None}

    def _columns(self, models: Readings) -> dict[str, float]:
        self._number += 1
        task = self._task
        due = task.is_due(self._number)
        measured = task.measures(np.array(models["theta"])) if due else dict.fromkeys(task.columns, np.nan)
        return measured | residuals(models)


def _some(pairs: Sequence[tuple[Array, Array]], most: int, seed: int, which: str) -> tuple[Array, Array]:
    """Return at most so many samples of all agents, drawn at random, in order."""
    ends = np.cumsum([len(labels) for _, labels in pairs])
    count = int(ends[-1])
    drawn = draws.generator(seed, which, "evaluated").permutation(count)[:most] if count > most else np.arange(count)
    inputs, labels = (np.concatenate(each) for each in zip(*pairs, strict=True))
    return inputs[np.sort(drawn)], labels[np.sort(drawn)]


def shared_task(
    table: Table,
    classes: Sequence[str],
    graph: "nx.Graph[int]",
    *,
    partition: Partition,
    how: NetworkModel,
    seed: int,
    data_seed: int | None = None,
    **measured: Any,
) -> NeuralTask:
    """Return a task of samples that are divided among the agents of a graph.

    Parameters
    ----------
    table, classes
        The samples, and the names of their classes.
    graph : networkx.Graph
        With a node 0, 1, … for each agent.
    partition : Partition
        How the samples are divided.
    how : NetworkModel
        The model.
    seed, data_seed : int
        Seed of the start and the minibatches, and of the division (default: the same).
    **measured
        As of `NeuralTask`: every, rounds, evaluated, ideal.

    Raises
    ------
    BadInput
        If the samples are no square images for a "cnn", or too few.
    """
    network = how.build(table.inputs.shape[1], len(classes))
    division: dict[str, Any] = {"partition": partition, "classes": len(classes)}
    division["seed"] = seed if data_seed is None else data_seed
    parts = deal(table, len(graph), train_share=TRAIN_SHARE, **division)
    return NeuralTask(parts, network, graph, how=how, seed=seed, **measured)


def neural_task(
    data: str = "digits",
    graph: "nx.Graph[int] | None" = None,
    *,
    agents: int = 10,
    edges: int | None = None,
    rows: int | None = None,
    partition: str = "iid",
    seed: int = 0,
    rounds: int = 0,
    **more: Any,
) -> NeuralTask:
    """Return a task of a neural network on a data set of classes, for `Method.agents` and a script.

    Parameters
    ----------
    data : str
        "digits", or the name or path of a table of classes.
    graph : networkx.Graph, optional
        With a node 0, 1, … for each agent; by default a random one.
    agents, edges : int
        Size of the random graph; by default two edges for each agent.
    rows : int, optional
        Use only this many rows of the data, taken at random.
    partition : str
        How the samples are divided, such as "dirichlet:0.1".
    seed : int
        Seed of the data, the graph, the start and the minibatches.
    rounds : int
        As of `NeuralTask`.
    **more
        Those of `NeuralTask`: every, evaluated, ideal; and fields of `NetworkModel`: model, hidden, batch, regularizer,
        dtype, backend.

    Raises
    ------
    BadInput
        For an unknown or damaged table, or an argument outside its range.
    """
    fields = {field.name for field in dataclasses.fields(NetworkModel)}
    how = NetworkModel(**{name: value for name, value in more.items() if name in fields})
    how.checked()
    table, classes = ClassSamples(rows=rows).load(data, seed)
    if graph is None:
        usual = min(agents * (agents - 1) // 2, max(agents - 1, 2 * agents))
        graph = topology.erdos_renyi(agents, edges=usual if edges is None else edges, seed=seed)
    measured = {name: value for name, value in more.items() if name not in fields}
    division = Partition.parse(partition)
    return shared_task(table, classes, graph, partition=division, how=how, seed=seed, rounds=rounds, **measured)
