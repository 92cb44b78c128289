"""What the study of deep kernel learning shows: its tables, figures and notes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.scenarios.data.tables import AgentData
from netsim.scenarios.deep.baselines import Baseline
from netsim.scenarios.deep.figures import confusion_figure, parameters_figure
from netsim.scenarios.deep.maps import Shape
from netsim.scenarios.published import published
from netsim.studies import Study

if TYPE_CHECKING:
    import pandas as pd

_PUBLISHED_AS = {"sensorless_subset": "sensor", "wisdm_har": "activity"}
_BALANCED = 1.5
"""Classes are called balanced if the largest is at most so many times as large as all are on average."""


@dataclass(frozen=True)
class Learned:
    """What one draw of a map achieved.

    Attributes
    ----------
    shape : Shape
        The map.
    draw : int
        Number of the draw, from 0.
    parameters : int
        Trainable parameters.
    measures : dict
        As a task's ``measures`` returns them.
    seconds : float
        Time to map all samples, to learn and to measure.
    confusion : ndarray of shape (C, C), optional
        Of the test samples; None for a regression.
    """

    shape: Shape
    draw: int
    parameters: int
    measures: dict[str, float]
    seconds: float
    confusion: NDArray[np.int64] | None


def report(
    study: Study,
    data: str,
    learned: Sequence[Learned],
    others: Sequence[Baseline],
    part: AgentData,
    classes: Sequence[str],
    rows: int,
) -> None:
    """Leave the study's table, notes and figures.

    Parameters
    ----------
    data : str
        Name of the data set.
    learned, others
        The draws of all maps, and the baselines.
    part : AgentData
        The samples.
    classes : sequence of str
        Names of the classes; none for a regression.
    rows : int
        Number of samples.
    """
    metric = "test_accuracy" if classes else "test_mse"
    theirs = published("dkl")
    theirs = theirs[theirs["dataset"] == _PUBLISHED_AS.get(data, data)]
    table = comparison(learned, others, theirs, metric)
    study.table("comparison", _title(data, part, metric), table)
    for text in [*_verdicts(learned, metric), *_differences(data, rows, part, classes, theirs), *_remarks(others)]:
        study.note(text)
    study.figure(
        "parameters",
        parameters_figure(table, theirs, metric, f"{data}: {rows:,} rows"),
        f"The {metric.replace('_', ' ').replace('mse', 'MSE')} by the parameters that were trained, ours filled, the "
        "published ones hollow.",
    )
    if classes:
        best = max(learned, key=lambda each: _mean(learned, each.shape, metric) - each.draw)
        assert best.confusion is not None
        study.figure(
            "confusion",
            confusion_figure(best.confusion, classes, f"{data}, {best.shape.name}"),
            f"For which class the best map, {best.shape.name}, takes the test samples of each class.",
        )
        study.tables["confusion"] = _named(best.confusion, classes)


def comparison(
    learned: Sequence[Learned], others: Sequence[Baseline], theirs: "pd.DataFrame", metric: str
) -> "pd.DataFrame":
    """Return a row for each method and structure, with the published value of the metric beside ours.

    ``parameters`` are all that were trained, ``per_output`` those of a model with one output, which is what the
    dissertation counts.
    """
    import pandas as pd

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


def _title(data: str, part: AgentData, metric: str) -> str:
    counts = f"{len(part.train_target):,} training and {len(part.test_target):,} test rows"
    return f"{data}: {counts}; ± is the standard deviation over draws of the random frequencies"


def _mean(learned: Sequence[Learned], shape: Shape, metric: str) -> float:
    return float(np.mean([each.measures[metric] for each in learned if each.shape == shape]))


def _verdicts(learned: Sequence[Learned], metric: str) -> list[str]:
    """Return where DKL-MLP was better than the others, at the same width and at the same number of parameters."""
    found = []
    known = list(dict.fromkeys(each.shape for each in learned))
    falls = metric == "test_mse"
    for shape in known:
        if shape.method != "DKL-MLP":
            continue
        said = []
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
                said.append(f"{verdict} than {other.name} ({change}; {better} of {len(ours)} draws)")
        found.append(f"{shape.name}, {metric.replace('_', ' ')}: {'; '.join(said)}.")
    return found


def _draws(learned: Sequence[Learned], shape: Shape, metric: str) -> NDArray[np.float64]:
    return np.array([each.measures[metric] for each in learned if each.shape == shape])


def _differences(data: str, rows: int, part: AgentData, classes: Sequence[str], theirs: "pd.DataFrame") -> list[str]:
    """Return why the published values may not be comparable, and what accuracy costs nothing."""
    said = []
    if classes:
        shares = np.bincount(part.test_target.astype(np.int64), minlength=len(classes)) / len(part.test_target)
        largest = float(shares.max())
        if largest * len(classes) > _BALANCED:
            name = classes[int(shares.argmax())]
            said.append(f"Always saying {name!r} has a test accuracy of {largest:.1%}: see the balanced accuracy.")
            if len(theirs):
                near = theirs.loc[(theirs["value"] - largest).abs() < 0.02, ["method", "widths"]]
                if len(near):
                    names = ", ".join(f"{method} {widths}" for method, widths in near.itertuples(index=False))
                    said.append(f"Published accuracies within 2 points of that: {names}.")
    if data == "sensorless_subset":
        said.append(f"Published: all 58,509 rows of Sensor. Here: {rows:,} rows of a subset of 200 rows a class.")
    elif data == "wisdm_har":
        said.append(
            f"Published: UCI HAR, 7,352 rows of 30 inputs. Here: WISDM, {rows:,} rows of {part.train_inputs.shape[1]} "
            "inputs, another data set of the same kind: the values are not comparable."
        )
    elif data == "tomshardware":
        said.append(
            f"Published: 11,000 rows, which ones and how scaled is not said. Here: {rows:,} rows at random, inputs and "
            "target scaled to [0, 1]."
        )
    elif data == "letter":
        said.append("Published for Letter: a figure only (width 200), no table.")
    if len(theirs):
        said.append(
            "Published: trained by gradient descent, one run, parameters counted for one output (per_output here). "
            "Ours are exact optima; seconds are of other machines."
        )
    return said


def _remarks(others: Sequence[Baseline]) -> list[str]:
    return [other.remark for other in others if other.remark]


def _named(confusion: NDArray[np.int64], classes: Sequence[str]) -> "pd.DataFrame":
    """Return a confusion matrix with a column of the true classes."""
    import pandas as pd

    table = pd.DataFrame(confusion, columns=list(classes))
    table.insert(0, "true class", list(classes))
    return table
