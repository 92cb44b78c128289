"""RF-KL, DKL and DKL-MLP against networks with more trainable layers: how much few trainable parameters can achieve."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim import Network
from netsim.agents import DKLA
from netsim.scenarios.data.samples import DIGITS, SomeRows
from netsim.scenarios.data.tables import AgentData, deal
from netsim.scenarios.deep.baselines import Baseline, ceiling, deep_network, semi_random_network
from netsim.scenarios.deep.figures import confusion_figure, parameters_figure
from netsim.scenarios.deep.maps import Shape, choose_times, draw_seed, kernels_in, shapes, whole_numbers
from netsim.scenarios.published import published
from netsim.scenarios.tasks.answers import answer
from netsim.scenarios.tasks.classes import ClassTask, Criterion, RegressionTask, largest_share
from netsim.scenarios.tasks.settings import Published
from netsim.studies import Study
from netsim.studies.columns import bounds, label
from netsim.studies.intervals import confidence, interval_text
from netsim.studies.seeds import DataSeed
from netsim.util import check

_WIDTHS = {
    "tomshardware": "100,200",
    "sensorless_subset": "200,400",
    "adult": "100,500",
    "wisdm_har": "10,20",
    "letter": "200",
}
_USUAL_WIDTHS = "50,100"
_DNN_WIDTHS = {"tomshardware": 25, "adult": 100, "wisdm_har": 10}
_SEMI_WIDTHS = {
    "tomshardware": (100,),
    "sensorless_subset": (20, 200),
    "adult": (100,),
    "wisdm_har": (10,),
    "letter": (200,),
    "twitter": (50,),
}
_TRAIN_SHARE = 0.75
_FEWEST = 10  # least number of rows to train a kernel baseline
_PUBLISHED_AS = {"sensorless_subset": "sensor", "wisdm_har": "activity"}
_OTHER_ROWS = {
    "sensorless_subset": "Published: all 58,509 rows of Sensor. Here: {rows:,} rows of a subset of 200 rows a class.",
    "wisdm_har": "Published: UCI HAR, 7,352 rows of 30 inputs. Here: WISDM, {rows:,} rows of {inputs} inputs, another "
    "data set of the same kind: the values are not comparable.",
    "tomshardware": "Published: 11,000 rows, which ones and how scaled is not said. Here: {rows:,} rows at random, "
    "inputs and target scaled to [0, 1].",
    "letter": "Published for Letter: a figure only (width 200), no table.",
}
_BALANCED = 1.5
"""Classes count as balanced if the largest has at most this many times the mean number of samples."""


@dataclass(frozen=True, kw_only=True)
class PaperSamples(SomeRows):
    """The samples to learn from, and how they are read; for some data sets as many as were published."""

    USUAL_ROWS: ClassVar[Mapping[str, int]] = {"tomshardware": 11_000}


@dataclass(frozen=True, kw_only=True)
class MapSetting(Published):
    """The feature maps to compare; unset widths are those published for the data set.

    Parameters
    ----------
    widths : str
        Random frequencies per layer; several values are separated by commas.
    layers : int
        Number of layers of DKL and DKL-MLP.
    kernels : str
        "gaussian", "laplacian" or "cauchy" for all layers, or one kernel per layer, separated by commas.
    tune : bool
        Choose the bandwidths by cross-validated ridge regression; else they are the median distances.
    """

    USUAL: ClassVar[Mapping[str, Mapping[str, str]]] = {"widths": {**_WIDTHS, "other": _USUAL_WIDTHS}}

    widths: str | None = None
    layers: int = 2
    kernels: str = "gaussian"
    tune: bool = True

    def shapes(self) -> list[Shape]:
        """Return the maps' shapes; raises BadInput for an impossible width, kernel or number of layers."""
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
    seeds: DataSeed = DataSeed(),
) -> None:
    """Deep kernel learning: RF-KL, DKL, DKL-MLP against Deep-semi and a DNN (P. Xu's dissertation, ch. 5).

    A single agent learns, so every kernel model is the exact optimum for its features. Unset widths are the published
    ones. Deep-semi and the DNN, whose costs are not convex, are trained with Adam.

    Parameters
    ----------
    data : str
        "digits" (comes with netsim), or letter, tomshardware, sensorless_subset, adult, wisdm_har, or the name
        of another table in NETSIM_DATA or the cache, or its path (.csv.gz, .csv, .npz, .parquet).
    repeats : int
        Number of independent draws of the random frequencies.
    ceiling_rows : int
        Maximum number of training rows of the SVM or kernel ridge regression; 0 leaves this baseline out.
    """
    published_maps = samples.rows is None and set(kernels_in(maps.kernels, maps.layers)) == {"gaussian"}
    samples, maps = samples.resolved(data), maps.resolved(data)
    candidates = maps.shapes()
    check.integer("repeats", repeats, low=1)
    check.installed("deep", "sklearn", "learn")
    if check.integer("ceiling_rows", ceiling_rows, low=0) in range(1, _FEWEST):
        raise check.refuse("ceiling_rows", ceiling_rows, f"0 or a whole number >= {_FEWEST}")
    check.finite("regularizer", learning.regularizer, above=0.0)
    table, classes = samples.load(data, seeds.data)
    learning = learning.resolved(data, len(classes))
    (part,) = deal(table, 1, train_share=_TRAIN_SHARE, seed=seeds.data)
    loss, regularizer = learning.loss(len(classes)) if classes else None, learning.regularizer
    study.note(*table.notes)
    study.record(samples, maps, learning)
    target = part.test_target
    study.constant = {"test_accuracy": largest_share(target)} if classes else {"test_mse": float(np.var(target))}
    bandwidths: dict[str, Any] = {"loss": loss, "regularizer": regularizer, "tune": maps.tune, "seed": seeds.seed}
    times = choose_times(study, candidates, part.train_inputs, part.train_target, **bandwidths)

    def task(shape: Shape, draw: int) -> ClassTask | RegressionTask:
        phi = shape.build(part.train_inputs, times[shape.name], draw_seed(seeds.seed, draw))
        if loss is None:
            return RegressionTask(part, phi, regularizer=regularizer)
        return ClassTask([part], phi, loss=loss, regularizer=regularizer, graph=nx.empty_graph(1))

    learned = [_learn(study, shape, draw, task, seeds.seed) for shape in candidates for draw in range(repeats)]
    kernels = kernels_in(maps.kernels, maps.layers)
    trained: dict[str, Any] = {"regularizer": regularizer, "seed": seeds.seed}
    baselines: dict[str, Callable[[], Baseline]] = {}
    for width in _SEMI_WIDTHS.get(data, candidates[0].widths[:1]):
        semi = partial(semi_random_network, part, [width] * maps.layers, kernels, len(classes), **trained)
        baselines[f"Deep-semi of width {width}"] = semi
    units = [_DNN_WIDTHS.get(data, candidates[0].widths[0])] * maps.layers
    baselines["DNN"] = partial(deep_network, part, units, len(classes), **trained)
    if ceiling_rows:
        baselines["ceiling"] = partial(ceiling, part, len(classes), most_rows=ceiling_rows, seed=seeds.seed)
    others = []
    for name, baseline in baselines.items():
        try:
            others.append(baseline())
        except ValueError as error:
            # The libraries refuse some samples, such as those of a single class, that the feature maps can learn from.
            study.note(f"{name} left out: {' '.join(str(error).split())}")
    if data in _WIDTHS and not published_maps:
        study.note("Published values are of Gaussian kernels and of all the rows that the dissertation used.")
    _report(study, data, learned, others, part, classes, len(table.target))


@dataclass(frozen=True)
class Learned:
    """The result of one draw of a map; draws are counted from 0."""

    shape: Shape
    draw: int
    parameters: int
    """Number of trainable parameters."""
    measures: dict[str, float]
    """The result of the task's ``measures``."""
    seconds: float
    """Time to map all samples, learn, and evaluate."""
    confusion: NDArray[np.int64] | None
    """Confusion matrix of the test samples, shape (C, C) for C classes; None for a regression."""


def _learn(
    study: Study, shape: Shape, draw: int, task: Callable[[Shape, int], ClassTask | RegressionTask], seed: int
) -> Learned:
    """Learn with one draw of a map; without neighbours, one step of DKLA gives the exact optimum."""
    begin = time.perf_counter()
    made = task(shape, draw)
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


def _report(
    study: Study,
    data: str,
    learned: Sequence[Learned],
    others: Sequence[Baseline],
    part: AgentData,
    classes: Sequence[str],
    rows: int,
) -> None:
    """Add the study's table, notes and figures; ``classes`` is empty for a regression."""
    metric = "test_accuracy" if classes else "test_mse"
    theirs = published("dkl")
    theirs = theirs[theirs["dataset"] == _PUBLISHED_AS.get(data, data)]
    table = _comparison(learned, others, theirs, metric)
    counts = f"{len(part.train_target):,} training and {len(part.test_target):,} test rows"
    title = f"{data}: {counts}; ± is the standard deviation over draws of the random frequencies"
    _answer(study, learned, metric)
    study.table("comparison", title, table)
    remarks = dict.fromkeys(other.remark for other in others if other.remark)
    told = *_differences(data, rows, part, classes, theirs), *_counts(table, theirs)
    study.note(*_verdicts(learned, metric), *told, *remarks)
    study.figure(
        "parameters",
        partial(parameters_figure, table, theirs, metric, f"{data}: {rows:,} rows"),
        f"The {metric.replace('_', ' ').replace('mse', 'MSE')} by the parameters that were trained, ours filled, the "
        "published ones hollow.",
        hero=True,
    )
    if classes:
        best = max(learned, key=lambda each: float(np.mean(_draws(learned, each.shape, metric))) - each.draw)
        assert best.confusion is not None
        study.figure(
            "confusion",
            partial(confusion_figure, best.confusion, classes, f"{data}, {best.shape.name}"),
            f"For which class the best map, {best.shape.name}, takes the test samples of each class.",
        )
        study.tables["confusion"] = pd.DataFrame(best.confusion, columns=list(classes))
        study.tables["confusion"].insert(0, "true class", list(classes))


def _answer(study: Study, learned: Sequence[Learned], metric: str) -> None:
    """State the accuracy and trained parameters of the best deep map and of the best flat one."""
    study.ask("Does a map of several layers predict better than a flat one, at as many parameters?")
    sign = -1.0 if metric == "test_mse" else 1.0
    fields: dict[str, Any] = {"label": label(metric), "count": len({each.draw for each in learned})}
    for kind, flat in (("deep", False), ("flat", True)):
        several = dict.fromkeys(each.shape for each in learned if (each.shape.method == "RF-KL") == flat)
        if not several:
            return
        best = max(several, key=lambda shape: sign * float(_draws(learned, shape, metric).mean()))
        values = _draws(learned, best, metric)
        fields |= {kind: best.name, f"{kind}_value": float(values.mean()), f"{kind}_size": _size(learned, best)}
        if len(values) > 1:
            fields[f"{kind}_ends"] = bounds(metric).clip(*confidence(values))
    condition = "{count} draw of the random frequencies, so no interval; one split of the rows."
    if fields["count"] > 1:
        condition = "Means over {count} draws of the random frequencies, best by them, with {deep_ends:.3g} and "
        condition += f"{{flat_ends:.3g}}: {interval_text([fields['count']])}; one split of the rows."
    answer(
        study,
        "The best map of several layers, {deep}, has a {label} of {deep_value:.3g} with {deep_size:,} parameters, the "
        "best flat one, {flat}, {flat_value:.3g} with {flat_size:,}.",
        condition,
        **fields,
    )


def _size(learned: Sequence[Learned], shape: Shape) -> int:
    return next(each.parameters for each in learned if each.shape == shape)


def _comparison(
    learned: Sequence[Learned], others: Sequence[Baseline], theirs: pd.DataFrame, metric: str
) -> pd.DataFrame:
    """Return a row for each method and structure, with the measured and the published value of the metric.

    The column ``per_output`` counts the parameters of a model with one output, as the dissertation does.
    """
    rows: list[dict[str, Any]] = []
    for shape in dict.fromkeys(each.shape for each in learned):
        draws = [each for each in learned if each.shape == shape]
        means = {name: float(np.mean([each.measures[name] for each in draws])) for name in draws[0].measures}
        spread = float(np.std([each.measures[metric] for each in draws], ddof=1)) if len(draws) > 1 else np.nan
        seconds = float(np.mean([each.seconds for each in draws]))
        kinds = {"method": shape.method, "widths": shape.structure, "parameters": draws[0].parameters}
        kinds |= {"per_output": shape.features, "draws": len(draws)}
        rows.append(kinds | {metric: means.pop(metric), f"± {metric}": spread} | means | {"seconds": seconds})
    for other in others:
        kinds = {"method": other.method, "widths": other.widths, "parameters": other.parameters}
        rows.append(kinds | {"per_output": other.per_output, "draws": 1, "seconds": other.seconds} | other.measures)
    table = pd.DataFrame(rows)
    table = table[[name for name in table.columns if name in rows[0]]]
    named = theirs.rename(columns={"value": f"published {metric.removeprefix('test_')}"})
    return table.merge(named[["method", "widths", named.columns[-2]]], on=["method", "widths"], how="left")


def _verdicts(learned: Sequence[Learned], metric: str) -> Iterator[str]:
    """Yield the cases in which DKL-MLP was better than the others, at equal width and at equal number of parameters."""
    known = list(dict.fromkeys(each.shape for each in learned))
    falls = metric == "test_mse"
    for shape in known:
        if shape.method != "DKL-MLP":
            continue
        compared = []
        ours = _draws(learned, shape, metric)
        for other in known:
            same_width = other.method != "DKL-MLP" and other.widths[0] == shape.widths[0]
            same_size = other.method == "RF-KL" and other.features == shape.features
            if same_width or same_size:
                theirs = _draws(learned, other, metric)
                better = int(np.sum(ours < theirs if falls else ours > theirs))
                gain = float(np.mean(ours - theirs))
                verdict = "better" if (gain < 0) == falls and gain else "not better"
                change = f"{gain:+.3g}" if falls else f"{100 * gain:+.2f} points"
                compared.append(f"{verdict} than {other.name} ({change}; {better} of {len(ours)} draws)")
        yield f"{shape.name}, {metric.replace('_', ' ')}: {'; '.join(compared)}."


def _draws(learned: Sequence[Learned], shape: Shape, metric: str) -> NDArray[np.float64]:
    return np.array([each.measures[metric] for each in learned if each.shape == shape])


def _differences(data: str, rows: int, part: AgentData, classes: Sequence[str], theirs: pd.DataFrame) -> Iterator[str]:
    """Yield reasons why published values may not be comparable, and the accuracy of predicting one class only."""
    if classes:
        shares = np.bincount(part.test_target.astype(np.int64), minlength=len(classes)) / len(part.test_target)
        largest = float(shares.max())
        if largest * len(classes) > _BALANCED:
            name = classes[int(shares.argmax())]
            yield f"Always saying {name!r} has a test accuracy of {largest:.1%}: see the balanced accuracy."
            if len(theirs):
                near = theirs.loc[(theirs["value"] - largest).abs() < 0.02, ["method", "widths"]]
                if len(near):
                    names = ", ".join(f"{method} {widths}" for method, widths in near.itertuples(index=False))
                    yield f"Published accuracies within 2 points of that: {names}."
    if data in _OTHER_ROWS:
        yield _OTHER_ROWS[data].format(rows=rows, inputs=part.train_inputs.shape[1])
    if len(theirs):
        yield (
            "Published: trained by gradient descent, one run, parameters counted for one output (per_output here). "
            "Ours are exact optima, but for Deep-semi and the DNN; seconds are of other machines."
        )


def _counts(table: pd.DataFrame, theirs: pd.DataFrame) -> Iterator[str]:
    """Yield the models whose published number of trainable parameters, for one output, differs from the number here."""
    named = theirs.rename(columns={"parameters": "printed"})[["method", "widths", "printed"]]
    both = table.merge(named, on=["method", "widths"])
    if len(both):
        others = both[both["per_output"] != both["printed"]]
        rows = (
            f"{row.method} {row.widths}: {row.per_output:,.0f}, published {row.printed:,.0f}"
            for row in others.itertuples()
        )
        here = f" Here {'; '.join(rows)}." if len(others) else ""
        equal = len(both) - len(others)
        yield f"Trainable parameters for one output: as published in {equal} of {len(both)} rows.{here}"
