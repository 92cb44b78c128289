"""RF-KL, DKL and DKL-MLP beside a network trained in all its layers: what a few trainable parameters are worth."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import networkx as nx
import numpy as np

from netsim import Network
from netsim.agents import DKLA
from netsim.scenarios.data.samples import DIGITS, Samples
from netsim.scenarios.data.tables import AgentData, deal
from netsim.scenarios.deep.baselines import Baseline, ceiling, deep_network
from netsim.scenarios.deep.maps import Shape, choose_times, in_words, kernels_in, shapes, whole_numbers
from netsim.scenarios.deep.report import Learned, report
from netsim.scenarios.tasks.classes import (
    ClassTask,
    Criterion,
    RegressionTask,
    largest_share,
    ridge_regularizer,
    signs,
)
from netsim.studies import Study
from netsim.util import check

Task = ClassTask | RegressionTask

_WIDTHS = {
    "tomshardware": "100,200",
    "sensorless_subset": "200,400",
    "adult": "100,500",
    "wisdm_har": "10,20",
    "letter": "200",
}
_USUAL_WIDTHS = "50,100"
_DNN_WIDTHS = {"tomshardware": 25, "adult": 100, "wisdm_har": 10}
_ROWS = {"tomshardware": 11_000}
_TRAIN_SHARE = 0.75
_FEWEST = 10  # rows from which a ceiling can be learned


@dataclass(frozen=True, kw_only=True)
class PaperSamples(Samples):
    """Which samples are learned from, and as what; of some data sets as many as published."""

    @classmethod
    def by_data(cls) -> dict[str, dict[str, Any]]:
        """Return the defaults that depend on the data set."""
        return {"rows": {**_ROWS, "other": "all"}}

    def resolved(self, data: str) -> Self:
        """Return it with the published number of rows, if there is one and it was left open."""
        return dataclasses.replace(self, rows=_ROWS.get(data)) if self.rows is None else self


@dataclass(frozen=True, kw_only=True)
class MapSetting:
    """The feature maps to compare.

    Parameters
    ----------
    widths : str
        Random frequencies of a layer; several with commas between.
    layers : int
        Number of layers of DKL and DKL-MLP.
    kernels : str
        "gaussian", "laplacian" or "cauchy" for all layers, or one for each with commas between.
    tune : bool
        Choose the bandwidths by cross-validated ridge regression; else they are the median distances.
    """

    widths: str | None = None
    layers: int = 2
    kernels: str = "gaussian"
    tune: bool = True

    @classmethod
    def by_data(cls) -> dict[str, dict[str, Any]]:
        """Return the defaults that depend on the data set."""
        return {"widths": {**_WIDTHS, "other": _USUAL_WIDTHS}}

    def resolved(self, data: str) -> Self:
        """Return it with the published widths for the data set, or the usual ones, if they were left open."""
        return dataclasses.replace(self, widths=_WIDTHS.get(data, _USUAL_WIDTHS)) if self.widths is None else self

    def shapes(self) -> list[Shape]:
        """Return the maps; raises BadInput for a width, kernel or number of layers that cannot be."""
        check.integer("layers", self.layers, low=2)
        widths = whole_numbers("widths", _USUAL_WIDTHS if self.widths is None else self.widths)
        return shapes(widths, self.layers, kernels_in(self.kernels, self.layers))


def deep(
    study: Study,
    *,
    data: str = DIGITS,
    samples: PaperSamples = PaperSamples(),
    maps: MapSetting = MapSetting(),
    learning: Criterion = Criterion(),  # noqa: B008 (frozen)
    repeats: int = 3,
    ceiling_rows: int = 4000,
    seed: int = 0,
) -> None:
    """Deep kernel learning: RF-KL, DKL, DKL-MLP against a DNN (P. Xu's dissertation, ch. 5).

    One agent learns alone, so every model is the exact optimum on its features. Widths left open are as published.

    Parameters
    ----------
    data : str
        "digits" (comes with scikit-learn), or letter, tomshardware, sensorless_subset, adult, wisdm_har, or the name
        of another table in the folder NETSIM_DATA, or its path (.csv.gz, .csv, .npz, .parquet).
    samples : PaperSamples
        Which samples are learned from, and as what.
    maps : MapSetting
        The feature maps to compare.
    learning : Criterion
        What they are learned by.
    repeats : int
        Draws of the random frequencies.
    ceiling_rows : int
        The most rows from which the SVM or kernel ridge regression learns; 0 leaves it out.
    seed : int
        Seed of everything random.
    """
    published = samples.rows is None and set(kernels_in(maps.kernels, maps.layers)) == {"gaussian"}
    samples, maps = samples.resolved(data), maps.resolved(data)
    candidates = maps.shapes()
    check.integer("repeats", repeats, low=1)
    if check.integer("ceiling_rows", ceiling_rows, low=0) in range(1, _FEWEST):
        raise check.refuse("ceiling_rows", ceiling_rows, f"0 or a whole number >= {_FEWEST}")
    check.finite("regularizer", learning.regularizer, above=0.0)
    table, classes = samples.load(data, seed)
    learning = learning.resolved(data, len(classes))
    (part,) = deal(table, 1, train_share=_TRAIN_SHARE, seed=seed)
    make = _Tasks(part, len(classes), learning, seed)
    for text in table.said:
        study.note(text)
    study.record(samples, maps, learning)
    target = part.test_target
    study.constant = {"test_accuracy": largest_share(target)} if classes else {"test_mse": float(np.var(target))}
    make.choose_bandwidths(study, candidates, tune=maps.tune)
    learned = [_learn(study, shape, draw, make, seed) for shape in candidates for draw in range(repeats)]
    units = [_DNN_WIDTHS.get(data, candidates[0].widths[0])] * maps.layers
    others = _those_that_learn(study, make.baselines(units, ceiling_rows))
    if data in _WIDTHS and not published:
        study.note("Published values are of Gaussian kernels and of all the rows that the dissertation used.")
    report(study, data, learned, others, part, classes, len(table.target))


class _Tasks:
    """What is to be learned, on whichever map.

    Parameters
    ----------
    part : AgentData
        The samples.
    count : int
        Number of classes; 0 for a regression.
    learning : Criterion
        With nothing left open.
    seed : int
        Seed of the frequencies; a draw has the next ones.
    """

    def __init__(self, part: AgentData, count: int, learning: Criterion, seed: int) -> None:
        self._part, self._count, self._seed = part, count, seed
        self._regularizer = learning.regularizer
        self._loss = learning.loss(count) if count else None
        self._times: dict[str, tuple[float, ...]] = {}

    def choose_bandwidths(self, study: Study, candidates: Sequence[Shape], *, tune: bool) -> None:
        """Choose each map's bandwidths; what was tuned is in the study's tables and settings."""
        part, loss = self._part, self._loss
        self._times = choose_times(
            study,
            candidates,
            part.train_inputs,
            signs(part.train_target, self._count) if self._count else part.train_target,
            regularizer=self._regularizer if loss is None else ridge_regularizer(loss, self._regularizer),
            tune=tune,
            seed=self._seed,
        )
        if tune:
            study.record(bandwidths=in_words(self._times))

    def task(self, shape: Shape, draw: int) -> Task:
        """Return the task on a draw of a map."""
        phi = shape.build(self._part.train_inputs, self._times[shape.name], self._seed + draw)
        if self._loss is None:
            return RegressionTask(self._part, phi, regularizer=self._regularizer)
        return ClassTask([self._part], phi, loss=self._loss, regularizer=self._regularizer)

    def baselines(self, units: Sequence[int], ceiling_rows: int) -> dict[str, Callable[[], Baseline]]:
        """Return what is compared with, each to be made by a call."""
        part, count, seed = self._part, self._count, self._seed
        found: dict[str, Callable[[], Baseline]] = {
            "DNN": lambda: deep_network(part, units, count, regularizer=self._regularizer, seed=seed)
        }
        if ceiling_rows:
            found["ceiling"] = lambda: ceiling(part, count, most_rows=ceiling_rows, seed=seed)
        return found


def _those_that_learn(study: Study, baselines: Mapping[str, Callable[[], Baseline]]) -> list[Baseline]:
    """Return what the baselines achieved; a note says which a library refused."""
    found = []
    for name, baseline in baselines.items():
        try:
            found.append(baseline())
        except ValueError as error:
            # Of some samples, such as those of one class only, our maps do learn.
            study.note(f"{name} left out: {' '.join(str(error).split())}")
    return found


def _learn(study: Study, shape: Shape, draw: int, make: _Tasks, seed: int) -> Learned:
    """Learn with one draw of a map: without neighbours one step of DKLA is the exact optimum."""
    begin = time.perf_counter()
    made = make.task(shape, draw)
    agent = DKLA(made.problems[0], 1, rho=1.0)
    measured: dict[str, float] = {}

    def probe(agents: object) -> dict[str, float]:
        measured.update(made.measures(agent.theta[None]))
        return measured

    name = shape.name if not draw else f"{shape.name}, draw {draw + 1}"
    study.run(name, Network(nx.empty_graph(1), seed=seed), {0: agent}, [probe], 1)
    seconds = time.perf_counter() - begin
    confusion = made.confusion(agent.theta[None]) if isinstance(made, ClassTask) else None
    return Learned(shape, draw, int(np.size(agent.theta)), measured, seconds, confusion)
