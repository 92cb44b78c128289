"""Baselines for random features: fully or partly trained networks, and kernel methods."""

import itertools
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.agents import ModelCost, fourier_layers, semi_random
from netsim.agents.maps.bandwidth import median_distance, median_sigmas
from netsim.agents.maps.features import Kernel
from netsim.agents.measures.metrics import accuracy, balanced_accuracy, confusion_matrix
from netsim.scenarios.data.tables import AgentData
from netsim.util.typing import Array

_MOST_PASSES = 200
_EARLY_STOPPING_ROWS = 10_000
_LARGEST_BATCH = 200
_TUNING_ROWS = 1500
_SEEDS = 2**32
_MOST_SHOWN = 2_000_000
_STEP = 0.01
# Adam's decay rates of the mean gradient and mean squared gradient, and the constant added to the root of the latter.
_FIRST, _SECOND, _SMALL = 0.9, 0.999, 1e-8

Grid = tuple[Sequence[float], Sequence[float]]
Factory = Callable[[float, float, int], Any]


@dataclass(frozen=True)
class Baseline:
    """The result of a baseline method."""

    method: str
    widths: str
    parameters: float
    """Number of trainable parameters; NaN for a kernel method, where it grows with the data."""
    per_output: float
    """Number of trainable parameters of the same model with a single output."""
    measures: dict[str, float]
    """test_mse, or test_accuracy and test_balanced_accuracy, and the same measures of the training samples."""
    seconds: float
    """Training time, without the choice of the settings."""
    remark: str = ""


def deep_network(part: AgentData, widths: Sequence[int], classes: int, *, regularizer: float, seed: int) -> Baseline:
    """Return a network of ReLU layers, trained by scikit-learn with Adam in at most 200 passes (``DNN``).

    With more than 10,000 samples it stops early, when the prediction of a held-out tenth no longer improves.

    The target of a regression (0 classes) is scaled to variance 1 for the training. ``regularizer`` is λ of the
    dissertation's cost (5.3), the mean loss + λ‖W‖² (see `penalty_of`).
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    kind = MLPClassifier if classes else MLPRegressor
    early = len(part.train_target) > _EARLY_STOPPING_ROWS
    # scikit-learn holds out a tenth of the samples for early stopping, and does not learn from it.
    count = len(part.train_target) - (math.ceil(len(part.train_target) / 10) if early else 0)
    alpha, batch = penalty_of(regularizer, count, classes)
    network = kind(
        hidden_layer_sizes=tuple(widths),
        alpha=alpha,
        batch_size=batch,
        max_iter=_MOST_PASSES,
        early_stopping=early,
        random_state=seed % _SEEDS,
    )
    spread = 1.0 if classes else float(part.train_target.std()) or 1.0
    centre = 0.0 if classes else float(part.train_target.mean())
    begin = time.perf_counter()
    with warnings.catch_warnings():
        # The baseline's remark reports that training stopped at the limit.
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(part.train_inputs, (part.train_target - centre) / spread)
    seconds = time.perf_counter() - begin
    total = sum(each.size for each in [*network.coefs_, *network.intercepts_])
    single = total - (network.n_outputs_ - 1) * (widths[-1] + 1)
    limit = network.n_iter_ >= _MOST_PASSES
    return Baseline(
        "DNN",
        "+".join(str(width) for width in widths),
        total,
        single,
        _measures(lambda x: spread * network.predict(x) + centre, part, classes),
        seconds,
        f"The DNN stopped at the limit of {_MOST_PASSES} passes, before it converged." if limit else "",
    )


def semi_random_network(
    part: AgentData, widths: Sequence[int], kernels: Sequence[Kernel], classes: int, *, regularizer: float, seed: int
) -> Baseline:
    """Return a deep semi-random network (`semi_random`), trained with Adam (``Deep-semi``).

    Its cost is (5.3), the mean loss + λ‖W‖², with the target of a regression (0 classes) scaled to variance 1. It takes
    passes over two million samples in total, but at most 200. The dissertation does not state the method's initial
    values, step sizes, number of passes and bandwidths. The bandwidths here are the median distances.
    """
    inputs, target = part.train_inputs, part.train_target
    count = len(target)
    spread = 1.0 if classes else float(target.std()) or 1.0
    centre = 0.0 if classes else float(target.mean())
    begin = time.perf_counter()
    sigmas = median_sigmas(inputs, widths, times=[1.0] * len(widths), kernels=kernels, seed=seed)
    layers = fourier_layers(inputs.shape[1], widths, sigmas=sigmas, kernels=kernels, seed=seed)
    model = semi_random(layers, classes or 1, squared=not classes)
    batch = _batch(count)
    labels = target.astype(np.int64) if classes else (target - centre) / spread
    # Single precision takes a third of the time and reaches the same errors.
    cost = ModelCost(model, inputs, labels, batch=batch, regularizer=regularizer, seed=seed, dtype="float32")
    passes = max(1, min(_MOST_PASSES, _MOST_SHOWN // count))
    weights = cost.start + _adam(cost, passes * (count // batch))
    seconds = time.perf_counter() - begin

    def predict(x: Array) -> Array:
        scores: Array = model.scores(np, weights, x)
        return scores.argmax(axis=1).astype(np.float64) if classes else spread * scores[:, 0] + centre

    return Baseline(
        "Deep-semi",
        "+".join(str(width) for width in widths),
        model.size,
        model.size - (model.classes - 1) * widths[-1],
        _measures(predict, part, classes),
        seconds,
        f"Deep-semi: {passes} passes of Adam in batches of {batch}, steps of {_STEP:g} that fall to 0 as a cosine, "
        "from standard normal weights; bandwidths are the median distances. The dissertation states none of this.",
    )


def _adam(cost: ModelCost, steps: int) -> Array:
    """Return the parameters θ after Adam (Kingma and Ba 2015) from 0, with cosine decay of the step size to 0."""
    theta, mean, square = np.zeros(cost.size), np.zeros(cost.size), np.zeros(cost.size)
    for k in range(1, steps + 1):
        gradient = cost.gradient(theta)
        mean = _FIRST * mean + (1.0 - _FIRST) * gradient
        square = _SECOND * square + (1.0 - _SECOND) * gradient**2
        length = 0.5 * _STEP * (1.0 + math.cos(math.pi * (k - 1) / steps))
        root = np.sqrt(square / (1.0 - _SECOND**k)) + _SMALL
        theta = theta - length / (1.0 - _FIRST**k) * mean / root
    return theta


def _batch(count: int) -> int:
    """Return a batch size of at most 200 that divides a pass evenly; the last batch may lack a few samples."""
    return math.ceil(count / math.ceil(count / _LARGEST_BATCH))


def penalty_of(regularizer: float, count: int, classes: int) -> tuple[float, int]:
    """Return the ``alpha`` and the ``batch_size`` with which scikit-learn's networks minimise (5.3).

    The dissertation's cost is (1/T) Σ_t ℓ(f(x_t), y_t) + λ‖W‖². For a batch of B samples the library minimises the mean
    of ℓ, or of half the squared error in a regression, plus (α/2B)‖W‖². Hence α = 2λB, or λB in a regression. The
    library's W excludes biases, which (5.3) also penalises. The squared error is that of the target as passed to the
    library.

    B is at most 200 of the T = ``count`` samples. All batches of a pass are equally large except the last, which lacks
    a few samples, because a much smaller batch would be penalised much more.
    """
    batch = _batch(count)
    return (2 if classes else 1) * regularizer * batch, batch


def ceiling(part: AgentData, classes: int, *, most_rows: int, seed: int) -> Baseline:
    """Return a Gaussian kernel method of scikit-learn with exact kernels: an SVM, or kernel ridge regression.

    It trains on at most ``most_rows`` samples, taken at random. Its bandwidth and regulariser are the best of a grid,
    cross-validated on at most 1500 samples.
    """
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.svm import SVC

    rows = np.random.default_rng(seed).permutation(len(part.train_target))[:most_rows]
    inputs, target = part.train_inputs[rows], part.train_target[rows]
    median = median_distance(inputs, seed=seed)

    def made(times: float, strength: float, count: int) -> Any:
        gamma = 0.5 / (times * median) ** 2
        if classes:
            return SVC(C=strength, gamma=gamma)
        return KernelRidge(alpha=count / strength, kernel="rbf", gamma=gamma)

    grid: Grid = (0.25, 0.5, 1.0, 2.0), (1.0, 10.0, 100.0)
    if not classes:
        grid = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0), (1e4, 1e6, 1e8)
    times, strength = _best(grid, made, inputs[:_TUNING_ROWS], target[:_TUNING_ROWS])
    begin = time.perf_counter()
    model = made(times, strength, len(target)).fit(inputs, target)
    seconds = time.perf_counter() - begin
    name = "SVM" if classes else "kernel ridge"
    few = len(rows) < len(part.train_target)
    return Baseline(
        f"{name}, {len(rows):,} of {len(part.train_target):,} rows" if few else name,
        "",
        float("nan"),
        float("nan"),
        _measures(model.predict, part, classes),
        seconds,
    )


def _best(grid: Grid, made: Factory, inputs: Array, target: Array) -> tuple[float, float]:
    """Return the grid point with the best mean score over three folds."""
    folds = np.array_split(np.arange(len(target)), 3)

    def score(point: tuple[float, float]) -> float:
        total = 0.0
        for held in folds:
            rest = np.setdiff1d(np.arange(len(target)), held)
            # A fold with a single class cannot train a classifier.
            if len(np.unique(target[rest])) > 1:
                total += made(*point, len(rest)).fit(inputs[rest], target[rest]).score(inputs[held], target[held])
        return total

    times, strength = max(itertools.product(*grid), key=score)
    return times, strength


def _measures(predict: Callable[[Array], Array], part: AgentData, classes: int) -> dict[str, float]:
    found = {}
    samples = {"train": (part.train_inputs, part.train_target), "test": (part.test_inputs, part.test_target)}
    for name, (inputs, target) in samples.items():
        predicted = predict(inputs)
        if not classes:
            found[f"{name}_mse"] = float(np.mean(np.square(predicted - target)))
            continue
        confusion = confusion_matrix(target.astype(np.int64), predicted.astype(np.int64), classes)
        found[f"{name}_accuracy"] = accuracy(confusion)
        found[f"{name}_balanced_accuracy"] = balanced_accuracy(confusion)
    return found
