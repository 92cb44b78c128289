"""The feature map of a study: its depth and its bandwidth."""

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.agents.maps.bandwidth import cross_validated, median_distance, median_sigmas, misclassified, squared_error
from netsim.agents.maps.deep import MAPS, composed, fourier_layers
from netsim.agents.maps.features import FeatureMap, Form, RandomFourier
from netsim.errors import BadInput
from netsim.scenarios.tasks.settings import Bandwidth, Setting
from netsim.studies import Study
from netsim.util import check
from netsim.util.typing import Array

AnySetting = TypeVar("AnySetting", bound=Setting)

TIMES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)
"""The grid of bandwidths, as multiples of the median distance."""

_MOST_ROWS, _FOLDS = 2000, 5


def feature_map(
    study: Study, setting: AnySetting, inputs: Array, target: Array, *, form: Form = "cos", seed: int
) -> tuple[FeatureMap, AnySetting]:
    """Return the map of a study's setting, and the setting with the chosen bandwidth.

    The bandwidth of the first layer comes from `choose_sigma`; that of a second layer is the median distance between
    the first layer's features. Inputs have shape (n, d), targets (n,). Raises BadInput for an unknown map, for a
    setting that is open, or for too few samples to choose a bandwidth.
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
    """Return the given bandwidth, the median distance between inputs, or the best multiple of it on a grid.

    The grid is evaluated by cross-validated ridge regression with λ = ``regularizer`` on at most 2000 samples, with
    maps from ``built`` (default: 200 random frequencies); the study shows its table. Targets are numbers, shape (n,),
    scored by squared error, or columns of ±1 for each class, shape (n, C), scored by the error rate. Raises BadInput
    for too few samples.
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
    built = built or (lambda sigma: RandomFourier(inputs.shape[1], 200, sigma=sigma, form="cos+sin", seed=seed))
    maps = [built(each) for each in grid]
    score = squared_error if target.ndim == 1 else misclassified
    with study.progress("tune sigma", len(grid)) as progress:
        found = cross_validated(maps, inputs, target, [regularizer], score=score, folds=_FOLDS, progress=progress)
    scores, best = found[:, 0], int(np.argmin(found[:, 0]))
    measured = "mse" if target.ndim == 1 else "share of mistakes"
    tried = {"sigma": grid, "in medians": TIMES, measured: scores, "chosen": np.arange(len(grid)) == best}
    study.table("bandwidths", f"Bandwidths tried: {measured} on samples held out in turn", pd.DataFrame(tried))
    return grid[best]


def _some(inputs: Array, seed: int) -> NDArray[np.int64]:
    """Return the indices of at most 2000 rows, drawn at random."""
    return np.random.default_rng(seed).permutation(len(inputs))[:_MOST_ROWS]
