"""Bandwidths: the median heuristic, and a grid that is cross-validated."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.spatial.distance import pdist

from netsim.agents.maps.deep import Deep, fourier_layers
from netsim.agents.maps.features import FeatureMap, Form, Kernel
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Vector

Score = Callable[[Vector, Vector], float]
"""A function of predictions and targets, shapes (n,) or (n, C) each, of which smaller values are better."""

_MOST_POINTS = 1000


def median_distance(x: ArrayLike, *, seed: int = 0) -> float:
    """Return the median distance between points, a usual first choice of a Gaussian kernel's bandwidth.

    For more than 1000 points, 1000 drawn at random are used.

    Parameters
    ----------
    x : array of shape (n, d)
        Points, one a row, at least two of them different.
    seed : int
        Seed of the draw.

    Raises
    ------
    BadInput
        If the shape is another one, a number is NaN or infinite, or all points are equal.
    """
    points = check.finite_array("x", x)
    if points.ndim != 2 or len(points) < 2:
        raise BadInput(f"x.shape = {points.shape}: must be (n, d) with n at least 2")
    rng = np.random.default_rng(seed)
    median = float(np.median(pdist(rng.permutation(points)[:_MOST_POINTS])))
    if median:
        return median
    # If most points are equal, the distinct ones determine the scale.
    different = np.unique(points, axis=0)
    if len(different) == 1:
        raise check.refuse("x", different[0], "points of which two are different")
    return float(np.median(pdist(rng.permutation(different)[:_MOST_POINTS])))


def median_sigmas(
    x: ArrayLike,
    widths: Sequence[int],
    *,
    first: float | None = None,
    times: Sequence[float] | None = None,
    kernels: Sequence[Kernel] | Kernel = "gaussian",
    form: Form = "cos",
    seed: int = 0,
    medians: dict[Any, float] | None = None,
) -> list[float]:
    """Return a bandwidth for each layer of a deep map: the median distance of the layer's inputs.

    Parameters
    ----------
    x : array of shape (n, d)
        Inputs.
    first : float, optional
        The first layer's bandwidth, if it is known.
    times : sequence of float, optional
        Multiples of the medians, one for each layer; 1 by default.
    widths, kernels, form, seed
        The arguments with which `netsim.agents.maps.deep.fourier_layers` will be called.
    medians : dict, optional
        Stores the median distances, for further calls with the same inputs and equal lower layers.
    """
    points = check.finite_array("x", x)
    chosen = [kernels] * len(widths) if isinstance(kernels, str) else kernels
    factors = [1.0] * len(widths) if times is None else times
    known = {} if medians is None else medians
    sigmas = [] if first is None else [first]
    while len(sigmas) < len(widths):
        count = len(sigmas)
        kinds, key = chosen[:count], (*widths[:count], *sigmas, *chosen[:count], form, seed)
        if key not in known:
            shape = points.shape[1], widths[:count]
            layers = fourier_layers(*shape, sigmas=sigmas, kernels=kinds, form=form, seed=seed) if count else []
            known[key] = median_distance(Deep(layers)(points) if layers else points, seed=seed)
        sigmas.append(factors[count] * known[key])
    return sigmas


def cross_validated(
    maps: Sequence[FeatureMap],
    x: ArrayLike,
    y: ArrayLike,
    regularizers: Sequence[float],
    *,
    score: Score,
    folds: int = 5,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Vector:
    """Return the score of ridge regression for each feature map and regulariser, on held-out samples in turn.

    For each fold, θ solves (Φᵀ Φ/T + λI) θ = Φᵀy/T on the other folds; one eigendecomposition serves all λ.

    Parameters
    ----------
    maps : sequence of FeatureMap
        The candidates, such as maps of different bandwidths.
    x, y : arrays of shape (n, d) and (n,) or (n, C)
        The samples; for classes, y has a column of ±1 for each class.
    regularizers : sequence of float
        The λ > 0 to choose from.
    score : callable
        A function of predictions and targets; smaller is better.
    folds : int
        Number of parts, each of which is held out once.
    seed : int
        Seed of the shuffle.
    progress : callable, optional
        Called with the number of maps that are done.

    Returns
    -------
    ndarray of shape (maps, regularizers)
        The mean score over the folds.

    Raises
    ------
    BadInput
        If an argument is outside its range, or there are fewer samples than folds.
    """
    inputs, targets = check.finite_array("x", x), check.finite_array("y", y)
    count = len(inputs)
    check.integer("folds", folds, low=2, high=max(count, 2))
    lambdas = np.array([check.finite("regularizers", value, above=0.0) for value in regularizers])
    parts = np.array_split(np.random.default_rng(check.integer("seed", seed, low=0)).permutation(count), folds)
    scores = np.zeros((len(maps), len(lambdas)))
    for number, feature_map in enumerate(maps):
        features = feature_map(inputs)
        for part in parts:
            rest = np.setdiff1d(np.arange(count), part)
            kept = features[rest]
            # Do not write kept.T @ kept, for which numpy calls another routine that rounds differently.
            values, vectors = eigh(kept.T @ features[rest] / len(rest), driver="evd")
            cross = vectors.T @ (kept.T @ targets[rest]) / len(rest)
            held = features[part] @ vectors
            for column, regularizer in enumerate(lambdas):
                shrunk = cross / (np.maximum(values, 0.0) + regularizer).reshape(-1, *[1] * (cross.ndim - 1))
                scores[number, column] += score(held @ shrunk, targets[part]) / folds
        if progress is not None:
            progress(number + 1)
    return scores


def squared_error(predicted: Vector, y: Vector) -> float:
    """Return the mean squared error."""
    return float(np.mean(np.square(predicted - y)))


def misclassified(predicted: Vector, y: Vector) -> float:
    """Return the share of samples (rows) whose largest prediction is not that of their class."""
    return float(np.mean(predicted.argmax(axis=1) != y.argmax(axis=1)))
