"""The compared feature maps, RF-KL, DKL and DKL-MLP, and the choice of their bandwidths."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pandas as pd

from netsim.agents.costs.multiclass import MulticlassLoss
from netsim.agents.maps.bandwidth import cross_validated, median_sigmas, misclassified, squared_error
from netsim.agents.maps.deep import composed, fourier_layers
from netsim.agents.maps.features import FeatureMap, Kernel
from netsim.errors import BadInput
from netsim.scenarios.tasks.classes import ridge_regularizer, signs
from netsim.scenarios.tasks.settings import names_in, numbers_in
from netsim.studies import Study
from netsim.util import check, draws
from netsim.util.typing import Array

FIRST = (1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0, 16.0)
LATER = (1 / 4, 1 / 2, 1.0, 2.0, 4.0)
"""Grids in multiples of the median distance: for the first layer's bandwidth, and for that of all later layers."""

_MOST_ROWS = 2000
_MOST_FEATURES = 1000
_FOLDS = 3
# With at most this many features results vary between draws of the frequencies, so three draws are averaged.
_FEW_FEATURES, _DRAWS = 100, 3


@dataclass(frozen=True)
class Shape:
    """A feature map: one of `netsim.agents.maps.deep.MAPS`, the random frequencies and the kernel of each layer."""

    method: str
    widths: tuple[int, ...]
    kernels: tuple[Kernel, ...]

    @property
    def name(self) -> str:
        """Return the map's name in tables."""
        return f"{self.method} {self.structure}"

    @property
    def structure(self) -> str:
        """Return the layer widths in the notation of the published tables."""
        return "+".join(str(width) for width in self.widths)

    @property
    def features(self) -> int:
        """Return the length of a feature vector."""
        return sum(self.widths) if self.method == "DKL-MLP" else self.widths[-1]

    def build(
        self, sample: Array, times: Sequence[float], seed: int, medians: dict[Any, float] | None = None
    ) -> FeatureMap:
        """Return the map for a sample of inputs of shape (n, d).

        A layer's bandwidth is a multiple of the median distance between samples of its inputs. ``medians`` caches these
        distances for further maps of the same sample.
        """
        sigmas = median_sigmas(sample, self.widths, times=times, kernels=self.kernels, seed=seed, medians=medians)
        layers = fourier_layers(sample.shape[1], self.widths, sigmas=sigmas, kernels=self.kernels, seed=seed)
        return composed(self.method, layers)


def draw_seed(seed: int, draw: int) -> int:
    """Return the seed of the frequencies of a draw, counted from 0; that of draw 0 is ``seed`` itself."""
    return draws.derived(seed, draw, "frequencies") if draw else seed


def shapes(widths: Sequence[int], layers: int, kernels: Sequence[Kernel]) -> list[Shape]:
    """Return the maps for each width, and additionally RF-KL with as many features as DKL-MLP."""
    flat = sorted({*widths, *(layers * width for width in widths)})
    found = [Shape("RF-KL", (width,), tuple(kernels[:1])) for width in flat]
    return found + [
        Shape(method, (width,) * layers, tuple(kernels)) for method in ("DKL", "DKL-MLP") for width in widths
    ]


def whole_numbers(name: str, text: str) -> list[int]:
    """Return the distinct positive integers listed in a parameter's text, in order."""
    found = numbers_in(name, text, "positive whole numbers with commas between", int)
    return sorted(check.integer(name, each, low=1) for each in set(found))


def kernels_in(text: str, layers: int) -> list[Kernel]:
    """Return the kernel of each layer: one name for all, or one for each layer."""
    given = [check.one_of("kernels", each, get_args(Kernel)) for each in names_in(text)]
    check.fits("layers", layers, 1_000 * layers, "their frequencies")
    if len(given) not in (1, layers):
        raise BadInput(f"kernels = {text!r}: must be one, or one for each of {layers} layers; there are {len(given)}")
    known: dict[str, Kernel] = {str(kernel): kernel for kernel in get_args(Kernel)}
    chosen = [known[name] for name in given]
    return chosen * layers if len(chosen) == 1 else chosen


def choose_times(
    study: Study,
    candidates: Sequence[Shape],
    inputs: Array,
    target: Array,
    *,
    loss: MulticlassLoss | None,
    regularizer: float,
    tune: bool,
    seed: int,
) -> dict[str, tuple[float, ...]]:
    """Return each map's bandwidths in multiples of the median distance, by layer: 1, or the best of a grid.

    The grid is searched with ridge regression, cross-validated on at most 2000 samples. The regression's target is the
    task's target or, for classes, a column of ±1 for each class, with an equivalent λ. All layers after the first share
    one multiple. A map with more than 1000 features uses the multiples chosen for the same method's largest map with at
    most 1000. All trials are stored in tuning.csv; the choices are printed as a table and recorded in the settings.
    """
    chosen: dict[str, tuple[float, ...]] = {shape.name: (1.0,) * len(shape.widths) for shape in candidates}
    if not tune:
        return chosen
    if loss is not None:
        target, regularizer = signs(target, loss.classes), ridge_regularizer(loss, regularizer)
    rows = np.random.default_rng(seed).permutation(len(inputs))[:_MOST_ROWS]
    parts, medians = [], dict[Any, float]()
    for method in dict.fromkeys(shape.method for shape in candidates):
        known = sorted((shape for shape in candidates if shape.method == method), key=lambda shape: shape.features)
        for number, shape in enumerate(known):
            if not number or shape.features <= _MOST_FEATURES:
                parts.append(_tried(study, shape, inputs[rows], target[rows], regularizer, seed, medians))
                best = parts[-1].iloc[int(np.argmin(parts[-1]["error"]))]
            chosen[shape.name] = (float(best["first"]), *[float(best["later"])] * (len(shape.widths) - 1))
    study.tables["tuning"] = pd.concat(parts, ignore_index=True)
    study.table("bandwidths", "Bandwidths chosen, in medians", _summary(study.tables["tuning"]))
    words = [f"{name}: {', '.join(f'{each:g}' for each in times)}" for name, times in chosen.items()]
    study.record(bandwidths="; ".join(words))
    return chosen


def _tried(
    study: Study,
    shape: Shape,
    inputs: Array,
    targets: Array,
    regularizer: float,
    seed: int,
    medians: dict[Any, float],
) -> pd.DataFrame:
    """Return the cross-validated error at each point of the grid."""
    grid = list(itertools.product(FIRST, LATER)) if len(shape.widths) > 1 else [(first, np.nan) for first in FIRST]
    score = squared_error if targets.ndim == 1 else misclassified
    folds = min(_FOLDS, len(inputs))
    count = _DRAWS if shape.features <= _FEW_FEATURES else 1
    errors = np.zeros(len(grid))
    with study.progress(f"tune {shape.name}", count) as progress:
        for draw in range(count):
            own = draw_seed(seed, draw)
            steps = [(first, *[later] * (len(shape.widths) - 1)) for first, later in grid]
            maps = [shape.build(inputs, each, own, medians) for each in steps]
            found = cross_validated(maps, inputs, targets, [regularizer], score=score, folds=folds, seed=own)
            errors += found[:, 0] / count
            progress(draw + 1)
    first, later = zip(*grid, strict=True)
    return pd.DataFrame(
        {"method": shape.method, "widths": shape.structure, "first": first, "later": later, "error": errors}
    )


def _summary(tried: pd.DataFrame) -> pd.DataFrame:
    """Return, for each map, the grid's best point and its error, beside the error with the median distances."""
    keys = ["method", "widths"]
    best = tried.loc[tried.groupby(keys, sort=False)["error"].idxmin()].reset_index(drop=True)
    medians = tried[(tried["first"] == 1.0) & (tried["later"].isna() | (tried["later"] == 1.0))]
    return best.merge(medians[[*keys, "error"]].rename(columns={"error": "error_of_medians"}), on=keys)
