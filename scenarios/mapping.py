"""The feature map of a study: how deep it is, and with which bandwidth."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agents.bandwidth import cross_validated, median_sigmas, squared_error
from agents.deep import Deep, MultiPath, fourier_layers
from agents.features import FeatureMap, Form
from netsim import check
from netsim.errors import BadInput
from netsim.study import Study

if TYPE_CHECKING:
    import pandas as pd

MAPS = ("RF-KL", "DKL", "DKL-MLP")
"""Random Fourier features, two layers of them, and both layers side by side."""

TIMES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)
"""The grid of bandwidths, in medians."""

_MOST_ROWS = 2000


def feature_map(
    study: Study,
    chosen: Mapping[str, Any],
    inputs: NDArray[np.float64],
    target: NDArray[np.float64],
    *,
    form: Form = "cos",
    seed: int,
) -> FeatureMap:
    """Return the map that a study's `Setting` asks for; its bandwidth is put into the study's settings.

    A first layer's bandwidth is as given (or published); with ``median`` the median distance between inputs; with
    ``tune`` the best of a grid of multiples of it, by cross-validated ridge regression on at most 2000 samples. That
    of a second layer is the median distance between the first layer's features.

    Parameters
    ----------
    chosen : mapping
        What `scenarios.common.complete` returned.
    inputs, target : ndarrays of shape (n, d) and (n,)
        Samples to learn from.
    form, seed
        As of `agents.features.RandomFourier`.

    Raises
    ------
    BadInput
        For an unknown map, or more than one way to choose the bandwidth.
    """
    settings = study.settings
    kind = check.one_of("map", settings["map"], MAPS)
    widths = [int(chosen["features"])] * (1 if kind == "RF-KL" else 2)
    if settings["median"] and settings["tune"]:
        raise BadInput("median = True, tune = True: must be one of the two")
    rows = np.random.default_rng(seed).permutation(len(inputs))[:_MOST_ROWS]
    inputs, target = inputs[rows], target[rows]

    def built(first: float) -> FeatureMap:
        layers = fourier_layers(inputs.shape[1], widths[:1], sigmas=[first], form=form, seed=seed)
        if kind == "RF-KL":
            return layers[0]
        below = median_sigmas(layers[0](inputs), widths[1:], seed=seed)
        layers = fourier_layers(inputs.shape[1], widths, sigmas=[first, *below], form=form, seed=seed)
        return Deep(layers) if kind == "DKL" else MultiPath(layers)

    sigma = float(chosen["sigma"])
    if settings["median"] or settings["tune"]:
        sigma = median_sigmas(inputs, widths[:1], seed=seed)[0]
    if settings["tune"]:
        grid = [sigma * times for times in TIMES]
        regularizer = max(float(chosen["regularizer"]) / int(chosen["agents"]), 1e-12)
        with study.progress("tune sigma", len(grid)) as progress:
            scores = cross_validated(
                [built(each) for each in grid], inputs, target, [regularizer], score=squared_error, progress=progress
            )[:, 0]
        sigma = grid[int(np.argmin(scores))]
        study.table("bandwidths", "Bandwidths tried: squared error on held-out samples", _tried(grid, scores))
    study.settings["sigma"] = sigma
    return built(sigma)


def _tried(grid: list[float], scores: NDArray[np.float64]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame({"sigma": grid, "in medians": TIMES, "mse": scores, "chosen": scores == scores.min()})
