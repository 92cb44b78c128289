"""Metrics of the agents' models: squared error, disagreement, and for classes the confusion matrix and accuracy."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netsim.agents.costs.local import moments, samples
from netsim.errors import BadInput
from netsim.util import check


class MeanSquaredError:
    """The mean squared error over all samples of all agents; an agent's samples are predicted by the agent's own model.

    MSE(θ_1 … θ_N) = (1/Σ_i T_i) Σ_i Σ_t (θ_iᵀφ_it − y_it)², as in §5 of Xu, Wang, Chen and Tian, "COKE", 2021. A call
    uses Gram matrices computed once, so its time does not depend on the number of samples. The result is a difference
    of large terms; its rounding error is about 1e-15 of these terms.

    Parameters
    ----------
    data : sequence of (features, targets)
        One pair for each agent, of shapes (T_i, D) and (T_i,).

    Attributes
    ----------
    agents : int
        Number N of agents.
    size : int
        Length D of a model.
    samples : int
        Number Σ_i T_i of samples.

    Raises
    ------
    BadInput
        If there is no agent, shapes are inconsistent, or a number is NaN or infinite.
    """

    def __init__(self, data: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
        if not data:
            raise check.refuse("data", data, "at least one pair (features, targets)")
        pairs = [samples(f"data[{i}][0]", x, f"data[{i}][1]", y) for i, (x, y) in enumerate(data)]
        self.agents, self.size = len(pairs), pairs[0][0].shape[1]
        for i, (x, _) in enumerate(pairs):
            if x.shape[1] != self.size:
                raise BadInput(f"data[{i}][0].shape = {x.shape}: must be (T, {self.size}), as in data[0]")
        self.samples = sum(len(y) for _, y in pairs)
        weights = np.array([len(y) for _, y in pairs]) / self.samples
        grams, crosses, energies = zip(*(moments(x, y) for x, y in pairs), strict=True)
        self._grams = weights[:, None, None] * np.stack(grams)
        self._crosses = 2.0 * weights[:, None] * np.stack(crosses)
        self._energy = float(weights @ np.array(energies))

    def __call__(self, thetas: NDArray[np.float64]) -> float:
        """Return the error of the models ``thetas``, of shape (N, D), in squared units of the target.

        Diverged models give inf or nan.

        Raises
        ------
        BadInput
            If ``thetas`` has another shape.
        """
        if np.shape(thetas) != (self.agents, self.size):
            raise BadInput(f"thetas.shape = {np.shape(thetas)}: must be {(self.agents, self.size)}")
        with np.errstate(over="ignore", invalid="ignore"):
            predicted = np.matmul(self._grams, thetas[:, :, None])[:, :, 0]
            error = np.vdot(predicted - self._crosses, thetas) + self._energy
        # Rounding may make the error of a perfect fit negative; numpy's maximum keeps nan.
        return float(np.maximum(error, 0.0))


def consensus_error(thetas: NDArray[np.float64]) -> float:
    """Return the disagreement of the agents' models: (1/N) Σ_i ‖θ_i − θ̄‖², with the mean θ̄ = (1/N) Σ_i θ_i.

    Parameters
    ----------
    thetas : ndarray of shape (N, D), or (N, D, C)
        The models. Diverged models give inf or nan.

    Returns
    -------
    float
        The disagreement, in squared units of θ; zero if all models are equal.

    Raises
    ------
    BadInput
        If ``thetas`` has fewer than two dimensions or no row.
    """
    if np.ndim(thetas) < 2 or not len(thetas):
        raise BadInput(f"thetas.shape = {np.shape(thetas)}: must be (N, D) or (N, D, C) with N at least 1")
    with np.errstate(over="ignore", invalid="ignore"):
        apart = thetas - np.add.reduce(thetas) / len(thetas)
        return float(np.vdot(apart, apart) / len(thetas))


def confusion_matrix(labels: NDArray[np.integer], predicted: NDArray[np.integer], classes: int) -> NDArray[np.int64]:
    """Return the counts of samples of each true class (row) predicted as each class (column), shape (C, C).

    Parameters
    ----------
    labels, predicted : int arrays of shape (n,)
        The true and the predicted classes, 0 … C − 1.
    classes : int
        Number C of classes.

    Raises
    ------
    BadInput
        If the lengths differ, or a number is not a class.
    """
    truth, guess = np.asarray(labels), np.asarray(predicted)
    if truth.shape != guess.shape:
        raise BadInput(f"predicted.shape = {guess.shape}: must be {truth.shape}, as labels")
    for name, numbers in (("labels", truth), ("predicted", guess)):
        outside = numbers[(numbers < 0) | (numbers >= classes)]
        if len(outside):
            raise check.refuse(name, int(outside[0]), f"from 0 to {classes - 1}")
    return np.bincount(truth * classes + guess, minlength=classes * classes).reshape(classes, classes)


def accuracy(confusion: NDArray[np.int64]) -> float:
    """Return the share of samples predicted correctly, from a confusion matrix; nan without samples."""
    total = int(confusion.sum())
    return float(np.trace(confusion) / total) if total else float("nan")


def balanced_accuracy(confusion: NDArray[np.int64]) -> float:
    """Return the mean, over classes that have samples, of the share of a class's samples predicted correctly.

    Unlike `accuracy`, it gives no advantage to a model that favours the largest class.
    """
    counts = confusion.sum(axis=1)
    there = counts > 0
    return float(np.mean(np.diag(confusion)[there] / counts[there])) if there.any() else float("nan")
