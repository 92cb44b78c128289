"""The feature map of a study: how deep it is, and with which bandwidth."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from netsim.agents.maps.bandwidth import cross_validated, median_distance, median_sigmas, misclassified, squared_error
from netsim.agents.maps.deep import MAPS, composed, fourier_layers
from netsim.agents.maps.features import FeatureMap, Form, RandomFourier
from netsim.errors import BadInput
from netsim.scenarios.tasks.settings import Bandwidth, Setting
from netsim.studies import Study
from netsim.util import check
from netsim.util.typing import Array

if TYPE_CHECKING:
    import pandas as pd

AnySetting = TypeVar("AnySetting", bound=Setting)

TIMES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)
"""The grid of bandwidths, in medians."""

_MOST_ROWS, _FOLDS = 2000, 5


def feature_map(
    study: Study, setting: AnySetting, inputs: Array, target: Array, *, form: Form = "cos", seed: int
) -> tuple[FeatureMap, AnySetting]:
    """Return the map that a study's setting asks for, and the setting with the bandwidth that was found.

    The first layer's bandwidth is that of `choose_sigma`; a second layer's is the median distance between the first
    layer's features.

    Parameters
    ----------
    study : Study
        Is shown what was tried.
    setting : Setting
        With nothing left open.
    inputs, target : ndarrays of shape (n, d) and (n,)
        Samples to learn from.
    form, seed
        As of `netsim.agents.maps.features.RandomFourier`.

    Raises
    ------
    BadInput
        For an unknown map, a setting left open, or too few samples to choose a bandwidth from.
    """
    kind = check.one_of("map", setting.map, MAPS)
    width = check.integer("features", setting.features, low=1)
    given = check.finite("sigma", setting.sigma, above=0.0)
    share = check.finite("regularizer", setting.regularizer, low=0.0) / check.integer("agents", setting.agents, low=1)
    widths = [width] * (1 if kind == "RF-KL" else 2)
    some = _some(inputs, seed)

    def built(first: float) -> FeatureMap:
        sigmas = median_sigmas(inputs[some], widths, first=first, form=form, seed=seed)
        return composed(kind, fourier_layers(inputs.shape[1], widths, sigmas=sigmas, form=form, seed=seed))

    regularizer = max(share, 1e-12)
    sigma = choose_sigma(study, given, setting, inputs, target, built=built, regularizer=regularizer, seed=seed)
    return built(sigma), dataclasses.replace(setting, sigma=sigma)


def choose_sigma(
    study: Study,
    given: float,
    bandwidth: Bandwidth,
    inputs: Array,
    target: Array,
    *,
    built: Callable[[float], FeatureMap] | None = None,
    regularizer: float = 1e-6,
    seed: int,
) -> float:
    """Return a study's bandwidth.

    It is as given; or with ``bandwidth.median`` the median distance between inputs; or with ``bandwidth.tune`` the best
    of a grid of multiples of that, by cross-validated ridge regression on at most 2000 samples: then the study shows a
    table of what was tried.

    Parameters
    ----------
    given : float
        The bandwidth where neither is asked for.
    inputs : ndarray of shape (n, d)
        Samples to learn from.
    target : ndarray of shape (n,) or (n, C)
        Numbers, judged by their squared error; or a column of ±1 for each class, judged by the share of mistakes.
    built : callable, optional
        The map of a bandwidth; default: 200 random frequencies.
    regularizer : float
        λ of the ridge regression.
    seed : int
        Seed of the samples drawn and of the frequencies.

    Raises
    ------
    BadInput
        For too few samples.
    """
    if not (bandwidth.median or bandwidth.tune):
        return given
    some = _some(inputs, seed)
    inputs, target = inputs[some], target[some]
    if len(inputs) < _FOLDS:
        raise BadInput(f"tune or median = True: must go with {_FOLDS} samples at least; there are {len(inputs)}")
    sigma = median_distance(inputs, seed=seed)
    if bandwidth.median:
        return sigma
    grid = [sigma * times for times in TIMES]
    maps = [built(each) if built else _usual(inputs.shape[1], each, seed) for each in grid]
    score = squared_error if target.ndim == 1 else misclassified
    with study.progress("tune sigma", len(grid)) as progress:
        found = cross_validated(maps, inputs, target, [regularizer], score=score, folds=_FOLDS, progress=progress)
    scores = found[:, 0]
    measured = "mse" if target.ndim == 1 else "share of mistakes"
    study.table(
        "bandwidths", f"Bandwidths tried: {measured} on samples held out in turn", _tried(grid, scores, measured)
    )
    return grid[int(np.argmin(scores))]


def _usual(width: int, sigma: float, seed: int) -> FeatureMap:
    return RandomFourier(width, 200, sigma=sigma, form="cos+sin", seed=seed)


def _some(inputs: Array, seed: int) -> NDArray[np.int64]:
    """Return the rows that stand for all."""
    return np.random.default_rng(seed).permutation(len(inputs))[:_MOST_ROWS]


def _tried(grid: list[float], scores: Array, measured: str) -> "pd.DataFrame":
    import pandas as pd

    chosen = np.arange(len(grid)) == np.argmin(scores)
    return pd.DataFrame({"sigma": grid, "in medians": TIMES, measured: scores, "chosen": chosen})
