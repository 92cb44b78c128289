"""The feature map of a study: how deep it is, and with which bandwidth."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim import check
from netsim.agents.maps.bandwidth import cross_validated, median_distance, median_sigmas, misclassified, squared_error
from netsim.agents.maps.deep import MAPS, composed, fourier_layers
from netsim.agents.maps.features import FeatureMap, Form, RandomFourier
from netsim.errors import BadInput
from netsim.studies import Study

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

TIMES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)
"""The grid of bandwidths, in medians."""

_MOST_ROWS, _FOLDS = 2000, 5


def feature_map(
    study: Study,
    chosen: Mapping[str, Any],
    inputs: Array,
    target: Array,
    *,
    form: Form = "cos",
    seed: int,
) -> FeatureMap:
    """Return the map that a study's `Setting` asks for; its bandwidth is put into the study's settings.

    The first layer's bandwidth is that of `choose_sigma`; a second layer's is the median distance between the first
    layer's features.

    Parameters
    ----------
    chosen : mapping
        What `netsim.scenarios.tasks.settings.complete` returned.
    inputs, target : ndarrays of shape (n, d) and (n,)
        Samples to learn from.
    form, seed
        As of `netsim.agents.maps.features.RandomFourier`.

    Raises
    ------
    BadInput
        For an unknown map, or too few samples to choose a bandwidth from.
    """
    kind = check.one_of("map", study.settings["map"], MAPS)
    widths = [int(chosen["features"])] * (1 if kind == "RF-KL" else 2)
    some = _some(inputs, seed)

    def built(first: float) -> FeatureMap:
        sigmas = median_sigmas(inputs[some], widths, first=first, form=form, seed=seed)
        return composed(kind, fourier_layers(inputs.shape[1], widths, sigmas=sigmas, form=form, seed=seed))

    regularizer = max(float(chosen["regularizer"]) / int(chosen["agents"]), 1e-12)
    given = float(chosen["sigma"])
    return built(choose_sigma(study, given, inputs, target, built=built, regularizer=regularizer, seed=seed))


def choose_sigma(
    study: Study,
    given: float,
    inputs: Array,
    target: Array,
    *,
    built: Callable[[float], FeatureMap] | None = None,
    regularizer: float = 1e-6,
    seed: int,
) -> float:
    """Return a study's bandwidth, and put it into its settings.

    It is as given; or, where the settings say ``median``, the median distance between inputs; or, where they say
    ``tune``, the best of a grid of multiples of that, by cross-validated ridge regression on at most 2000 samples.

    Parameters
    ----------
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
    settings = study.settings
    if not (settings["median"] or settings["tune"]):
        settings["sigma"] = given
        return given
    some = _some(inputs, seed)
    inputs, target = inputs[some], target[some]
    if len(inputs) < _FOLDS:
        raise BadInput(f"tune or median = True: must go with {_FOLDS} samples at least; there are {len(inputs)}")
    sigma = median_distance(inputs, seed=seed)
    if settings["tune"]:
        grid = [sigma * times for times in TIMES]
        if built is None:
            maps: list[FeatureMap] = [
                RandomFourier(inputs.shape[1], 200, sigma=each, form="cos+sin", seed=seed) for each in grid
            ]
        else:
            maps = [built(each) for each in grid]
        score = squared_error if target.ndim == 1 else misclassified
        with study.progress("tune sigma", len(grid)) as progress:
            found = cross_validated(maps, inputs, target, [regularizer], score=score, folds=_FOLDS, progress=progress)
        scores = found[:, 0]
        sigma = grid[int(np.argmin(scores))]
        measured = "mse" if target.ndim == 1 else "share of mistakes"
        study.table(
            "bandwidths", f"Bandwidths tried: {measured} on samples held out in turn", _tried(grid, scores, measured)
        )
    settings["sigma"] = sigma
    return sigma


def _some(inputs: Array, seed: int) -> NDArray[np.int64]:
    """Return the rows that stand for all."""
    return np.random.default_rng(seed).permutation(len(inputs))[:_MOST_ROWS]


def _tried(grid: list[float], scores: Array, measured: str) -> "pd.DataFrame":
    import pandas as pd

    chosen = np.arange(len(grid)) == np.argmin(scores)
    return pd.DataFrame({"sigma": grid, "in medians": TIMES, measured: scores, "chosen": chosen})
