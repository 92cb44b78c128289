"""Learning from labelled data on any feature map: the agents' costs, and the measures of their models."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim.agents import ClassProblem, FeatureMap, LocalProblem, Logistic, Squared, SquaredHinge, centralised_classes
from netsim.agents.costs.multiclass import MulticlassHinge, MulticlassLoss, OneVsRest, Softmax
from netsim.agents.measures.metrics import accuracy, balanced_accuracy, confusion_matrix
from netsim.errors import BadInput
from netsim.scenarios.data.tables import AgentData
from netsim.scenarios.tasks.method import Task
from netsim.scenarios.tasks.models import ModelProbe
from netsim.util import check
from netsim.util.typing import Array

CRITERIA = ("logistic", "hinge", "squared")


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """The learning criterion of a model.

    Parameters
    ----------
    criterion : str
        Loss for classes: "logistic" (default), "hinge" or "squared". For numeric targets it is the squared error.
    one_vs_rest : bool
        Whether each class has its own loss against the rest (logistic, squared hinge); always so for squares.
    temperature : float
        Smooths the hinge of several classes, which changes it by at most temperature x log(classes).
    regularizer : float
        The centre's regulariser lambda.
    """

    criterion: str | None = None
    one_vs_rest: bool = False
    temperature: float = 0.1
    regularizer: float = 1e-4

    def resolved(self, data: str, classes: int) -> Self:
        """Return the criterion; if its loss is open, set it to the usual loss for ``classes`` (0: regression).

        Raises
        ------
        BadInput
            If the loss does not fit the data, or a number is outside its range.
        """
        check.finite("regularizer", self.regularizer, above=0.0)
        if not classes and (self.criterion not in (None, "squared") or self.one_vs_rest):
            given = f"criterion = {self.criterion!r}, one_vs_rest = {self.one_vs_rest}"
            raise BadInput(f"{given}: must be squared and False for the numbers of {data}")
        usual = "logistic" if classes else "squared"
        return dataclasses.replace(self, criterion=usual if self.criterion is None else self.criterion)

    def loss(self, classes: int) -> MulticlassLoss:
        """Return the loss of C classes; raises BadInput for an unknown criterion or a temperature <= 0.

        "logistic" is `Softmax`, "hinge" `MulticlassHinge`, "squared" the squared loss of one class against the rest.
        With ``one_vs_rest`` the other names give the logistic loss and the squared hinge of one class against the rest.
        """
        name = check.one_of("criterion", self.criterion or "logistic", CRITERIA)
        check.finite("temperature", self.temperature, above=0.0)
        if name == "squared":
            return OneVsRest(Squared(), classes)
        if self.one_vs_rest:
            return OneVsRest(Logistic() if name == "logistic" else SquaredHinge(), classes)
        return Softmax(classes) if name == "logistic" else MulticlassHinge(classes, self.temperature)


def ridge_regularizer(loss: MulticlassLoss, regularizer: float) -> float:
    """Return the λ with which ridge regression on ±1 smooths as much as ``loss`` with ``regularizer``.

    The smaller the curvature of a loss, the more it is smoothed by λ; the curvature of squares is 2. Curvatures are
    compared at scores of zero, as means over classes. For the logistic loss of C classes λ grows by 2C²/(C − 1).
    """
    count = loss.classes
    if isinstance(loss, MulticlassHinge):
        # The smoothed hinge is curved only near margins of zero, about as much as the squared loss.
        return regularizer
    zeros, labels = np.zeros((count, count)), np.arange(count)
    bends = [loss.curvature(zeros, labels, np.tile(each, (count, 1))) @ each for each in np.eye(count)]
    return 2.0 * regularizer / float(np.mean(bends))


def signs(target: Array, classes: int) -> Array:
    """Return class numbers as a column of ±1 for each class, shape (n, C)."""
    return np.where(target[:, None] == np.arange(classes), 1.0, -1.0)


def largest_share(labels: Array | NDArray[np.int64]) -> float:
    """Return the share of the largest class, which is the accuracy of always predicting this class."""
    return float(np.unique(labels, return_counts=True)[1].max() / len(labels))


class ClassTask(Task):
    """The agents' costs for C classes, and the measures of their models, matrices of shape (D, C).

    Each agent has its own samples, whose targets are class numbers, and the share λ/N of the regulariser. ``cost``
    returns, for an agent's name, its cost R_i, with value, gradient and proximal step; ``problems`` are these costs.
    """

    def __init__(
        self,
        parts: Sequence[AgentData],
        phi: FeatureMap,
        *,
        loss: MulticlassLoss,
        regularizer: float,
        graph: "nx.Graph[int]",
    ) -> None:
        self.loss = loss
        self.regularizer = check.finite("regularizer", regularizer, above=0.0)
        self._train = _together(phi, [part.train_inputs for part in parts], [part.train_target for part in parts])
        self._test = _together(phi, [part.test_inputs for part in parts], [part.test_target for part in parts])
        # The features of each agent are a view of one array.
        ends = np.cumsum([len(part.train_target) for part in parts])
        share = regularizer / len(parts)
        self.problems = [
            ClassProblem(self._train[0][begin:end], self._train[1][begin:end], loss=loss, regularizer=share)
            for begin, end in zip([0, *ends[:-1]], ends, strict=True)
        ]
        super().__init__(self.problems.__getitem__, graph)

    def measures(self, models: Array) -> dict[str, float]:
        """Return train_loss, train_accuracy, test_accuracy and test_balanced_accuracy of models of shape (N, D, C).

        Each is a mean over the models, evaluated on the samples of all agents.
        """
        scores = _scores(self._train[0], models)
        labels = np.repeat(self._train[1], len(models))
        confusion = self.confusion(models)
        return {
            "train_loss": float(np.mean(self.loss.value(scores, labels))),
            "train_accuracy": float(np.mean(scores.argmax(axis=1) == labels)),
            "test_accuracy": accuracy(confusion),
            "test_balanced_accuracy": balanced_accuracy(confusion),
        }

    def confusion(self, models: Array) -> NDArray[np.int64]:
        """Return all models' confusion matrix on the test samples, shape (C, C)."""
        features, labels = self._test
        predicted = _scores(features, models).argmax(axis=1)
        return confusion_matrix(np.repeat(labels, len(models)), predicted, self.loss.classes)

    def probe(self, *, ideal: bool) -> ModelProbe:
        """Return a probe: residuals and `measures` in each round."""
        return ModelProbe(self._columns, self.graph, ideal)

    def best_model(self) -> Array:
        """Return the centralised model, shape (D, C)."""
        return centralised_classes(self.problems, self.regularizer)


MEASURES = ("train_loss", "train_accuracy", "test_accuracy", "test_balanced_accuracy")
"""The names of the columns that `ClassTask.measures` returns."""


class RegressionTask:
    """One agent's least-squares cost for a numeric target, and the errors of its model."""

    def __init__(self, part: AgentData, phi: FeatureMap, *, regularizer: float) -> None:
        train, self._test = phi(part.train_inputs), (phi(part.test_inputs), part.test_target)
        self.problems = [LocalProblem(train, part.train_target, loss=Squared(), regularizer=regularizer)]

    def measures(self, models: Array) -> dict[str, float]:
        """Return train_mse and test_mse of the model, shape (1, D)."""
        features, target = self._test
        return {
            "train_mse": self.problems[0].mean_squared_error(models[0]),
            "test_mse": float(np.mean(np.square(features @ models[0] - target))),
        }


def _together(phi: FeatureMap, inputs: Sequence[Array], targets: Sequence[Array]) -> tuple[Array, NDArray[np.int64]]:
    return phi(np.concatenate(inputs)), np.concatenate(targets).astype(np.int64)


def _scores(features: Array, models: Array) -> Array:
    """Return the scores of each sample by each model, shape (T·N, C); the rows of one sample are adjacent."""
    count, size, classes = models.shape
    side_by_side = models.transpose(1, 0, 2).reshape(size, count * classes)
    return (features @ side_by_side).reshape(-1, classes)
