"""Learning from labelled data on any feature map: the agents' costs, and the measures of their models."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim import check
from netsim.agents import LocalProblem, Logistic, Squared, SquaredHinge
from netsim.agents.consensus.base import SharingAgent
from netsim.agents.costs.classes import ClassProblem, centralised_classes
from netsim.agents.costs.multiclass import MulticlassHinge, MulticlassLoss, OneVsRest, Softmax
from netsim.agents.maps.features import FeatureMap
from netsim.agents.measures.metrics import accuracy, balanced_accuracy, confusion_matrix
from netsim.scenarios.data.classes import IMAGES, load_labelled
from netsim.scenarios.data.tables import AgentData, Table, load_table, read_columns, unit
from netsim.scenarios.tasks.settings import residuals

CRITERIA = ("logistic", "hinge", "squared")
REGRESSIONS = ("tomshardware", "twitter", "airquality", "energy", "conductivity", "blood")
"""Known tables whose target is a number, not a class; others are told by their target."""

_MOST_CLASSES = 20  # of whole numbers in few rows

DIGITS = "digits"
"""The images that come with scikit-learn, 8 × 8 pixels of ten digits: no file is needed."""

Array = NDArray[np.float64]
Probe = Callable[[Mapping[Any, SharingAgent]], dict[str, float]]


def load(data: str, *, rows: int | None = None, seed: int = 0) -> tuple[Table, tuple[str, ...]]:
    """Return samples with inputs in [0, 1], and the names of their classes; no names for a regression.

    Parameters
    ----------
    data : str
        "digits", or the name of a table or of images in the folder NETSIM_DATA.
    rows : int, optional
        Number of samples to draw at random; all by default.
    seed : int
        Seed of the draw.

    Returns
    -------
    table : Table
        The target is the number of the class, or a number in [0, 1].
    classes : tuple of str

    Raises
    ------
    BadInput
        For an unknown or damaged table, or more rows than there are.
    """
    classes: tuple[str, ...] = ()
    if data in REGRESSIONS or (data not in (DIGITS, *IMAGES) and _is_number(data)):
        table = load_table(data)
        inputs, target = table.inputs, unit(table.target)
    elif data == DIGITS:
        from sklearn.datasets import load_digits

        inputs, numbers = load_digits(return_X_y=True)
        target, classes = numbers.astype(np.float64), tuple(str(digit) for digit in range(10))
    else:
        labelled = load_labelled(data)
        inputs, target, classes = labelled.inputs, labelled.labels.astype(np.float64), labelled.classes
    if rows is not None:
        check.integer("rows", rows, low=2, high=len(target))
        drawn = np.random.default_rng(check.integer("seed", seed, low=0)).permutation(len(target))[:rows]
        inputs, target = inputs[drawn], target[drawn]
    return Table(data, unit(inputs), target, tuple(f"x{i}" for i in range(inputs.shape[1])), "target"), classes


def _is_number(name: str) -> bool:
    """Return whether a table's target holds fractions, or hardly a number twice: no classes, then."""
    import pandas as pd

    _, frame, target = read_columns(name, None)
    column = frame[target]
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return False
    return bool((column.dropna() % 1 != 0).any()) or column.nunique() > max(_MOST_CLASSES, len(column) / 5)


def loss_of(name: str, classes: int, *, one_vs_rest: bool, temperature: float) -> MulticlassLoss:
    """Return the loss of C classes that a study calls by its name.

    Parameters
    ----------
    name : str
        "logistic": `Softmax`; "hinge": `MulticlassHinge` of that temperature; "squared": squares, one class against
        the rest.
    one_vs_rest : bool
        One class against the rest with the others, too: the logistic loss, or the squared hinge.

    Raises
    ------
    BadInput
        For another name, or a temperature that is not positive.
    """
    check.one_of("criterion", name, CRITERIA)
    check.finite("temperature", temperature, above=0.0)
    if name == "squared":
        return OneVsRest(Squared(), classes)
    if one_vs_rest:
        return OneVsRest(Logistic() if name == "logistic" else SquaredHinge(), classes)
    return Softmax(classes) if name == "logistic" else MulticlassHinge(classes, temperature)


def ridge_regularizer(loss: MulticlassLoss, regularizer: float) -> float:
    """Return the λ with which ridge regression on ±1 smooths as much as ``loss`` does with ``regularizer``.

    The loss weighs less against λ where it bends less than the squares, whose second derivative is 2: it is compared at
    scores of zero, in the mean over classes. For the logistic loss of C classes λ grows by 2C²/(C − 1).
    """
    count = loss.classes
    if isinstance(loss, MulticlassHinge):
        # It bends at margins of zero only, where its second derivative is about that of the squares.
        return regularizer
    zeros, labels = np.zeros((count, count)), np.arange(count)
    bends = [loss.curvature(zeros, labels, np.tile(each, (count, 1))) @ each for each in np.eye(count)]
    return 2.0 * regularizer / float(np.mean(bends))


def signs(target: Array, classes: int) -> Array:
    """Return class numbers as a column of ±1 for each class, shape (n, C)."""
    return np.where(target[:, None] == np.arange(classes), 1.0, -1.0)


class ClassTask:
    """The agents' costs for C classes, and the measures of their models, matrices of shape (D, C).

    Parameters
    ----------
    parts : sequence of AgentData
        Each agent's samples; targets are numbers of classes.
    phi : FeatureMap
        The map that all share.
    loss : MulticlassLoss
        What is learned with.
    regularizer : float
        The centre's λ; each agent's is λ/N.

    Attributes
    ----------
    problems : list of ClassProblem
        One an agent.
    regularizer : float
        λ.
    """

    def __init__(
        self, parts: Sequence[AgentData], phi: FeatureMap, *, loss: MulticlassLoss, regularizer: float
    ) -> None:
        self.loss = loss
        self.regularizer = check.finite("regularizer", regularizer, above=0.0)
        self._train = _together(phi, [part.train_inputs for part in parts], [part.train_target for part in parts])
        self._test = _together(phi, [part.test_inputs for part in parts], [part.test_target for part in parts])
        # Each agent's features are a part of all, which are in memory once.
        ends = np.cumsum([len(part.train_target) for part in parts])
        share = regularizer / len(parts)
        self.problems = [
            ClassProblem(self._train[0][begin:end], self._train[1][begin:end], loss=loss, regularizer=share)
            for begin, end in zip([0, *ends[:-1]], ends, strict=True)
        ]

    def measures(self, models: Array) -> dict[str, float]:
        """Return train_loss, train_accuracy, test_accuracy and test_balanced_accuracy of models of shape (N, D, C).

        Each is a mean over the models, each of which is judged on the samples of all agents.
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
        """Return how often each class was taken for each on the test samples, by all models, shape (C, C)."""
        features, labels = self._test
        predicted = _scores(features, models).argmax(axis=1)
        return confusion_matrix(np.repeat(labels, len(models)), predicted, self.loss.classes)

    def probe(self, *, ideal: bool) -> Probe:
        """Return a probe: residuals and `measures` in each round."""

        def measure(agents: Mapping[Any, SharingAgent]) -> dict[str, float]:
            models = np.stack([agent.theta for agent in agents.values()])
            return self.measures(models) | residuals(agents, ideal)

        return measure

    def optimum(self) -> Array:
        """Return the model that a centre would learn, shape (D, C)."""
        return centralised_classes(self.problems, self.regularizer)


MEASURES = ("train_loss", "train_accuracy", "test_accuracy", "test_balanced_accuracy")
"""What `ClassTask.measures` returns."""


class RegressionTask:
    """One agent's cost for a target that is a number, with squares, and the errors of its model.

    Parameters
    ----------
    part : AgentData
        Its samples.
    phi, regularizer
        As of `ClassTask`.
    """

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
    """Return each model's scores of each sample, shape (T·N, C), the models of a sample next to one another."""
    count, size, classes = models.shape
    side_by_side = models.transpose(1, 0, 2).reshape(size, count * classes)
    return (features @ side_by_side).reshape(-1, classes)
