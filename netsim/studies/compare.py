"""Several run folders or sweeps side by side: in which settings they differ, what each came to, and its curves."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim import check, results
from netsim.errors import BadInput
from netsim.studies.formats import FIGURES, write_figure

if TYPE_CHECKING:
    import pandas as pd

ROUND = "round"
_USUAL = ("transmissions", "payload_bits", "train_mse", "test_mse", "consensus_error", "test_accuracy")


def table(places: Sequence[str], metrics: Sequence[str]) -> "pd.DataFrame":
    """Return one row for each folder and algorithm, of a sweep for each point: what differs, and the last values.

    Parameters
    ----------
    places : sequence of str
        Run folders and sweeps.
    metrics : sequence of str
        Columns; none: the usual ones that are there.

    Raises
    ------
    BadInput
        For a folder that is neither or not whole, or a metric that none has.
    """
    last = results.compare(*places)
    chosen = list(metrics) or [name for name in _USUAL if name in last and last[name].notna().any()]
    for name in chosen:
        check.one_of("metric", name, [str(each) for each in last.columns])
    points = ["point"] if "point" in last else []
    found = last[["folder", *points, "algorithm", *chosen]].copy()
    settings = [
        _settings(Path(folder), point)
        for folder, point in zip(last["folder"], last["point"] if points else [None] * len(last), strict=True)
    ]
    names = dict.fromkeys(name for each in settings for name in each)
    for place, name in enumerate(name for name in names if len({repr(each.get(name)) for each in settings}) > 1):
        if name not in found:
            found.insert(1 + len(points) + place, name, [each.get(name) for each in settings])
    return found.drop(columns=points)


def _settings(folder: Path, point: Any) -> dict[str, Any]:
    place = folder / "points" / point if isinstance(point, str) else folder
    settings = json.loads((place / "settings.json").read_text(encoding="utf-8"))
    return {"scenario": settings["scenario"], **settings["parameters"]}


def draw(places: Sequence[str], metric: str, out: str, against: str = ROUND) -> None:
    """Write a figure of a metric over the rounds, or its last value against a setting: lines with their bands.

    Parameters
    ----------
    places : sequence of str
        Run folders and sweeps; a line for each algorithm in each.
    metric : str
        The column.
    out : str
        The file: .png, .svg or .pdf.
    against : str
        "round", or a setting in which they differ.

    Raises
    ------
    BadInput
        For another ending, a folder that is not there, or a setting that is the same everywhere.
    """
    import pandas as pd

    path = Path(out)
    check.one_of("out: its ending", path.suffix.removeprefix("."), FIGURES)
    if not path.parent.is_dir():
        raise BadInput(f"out = {out!r}: must be in a folder that exists")
    if against == ROUND:
        rows = pd.concat([results.load(place, rounds=True).assign(folder=place) for place in places], ignore_index=True)
    else:
        rows = table(places, [metric])
        settings = rows.columns[list(rows.columns).index("folder") + 1 : list(rows.columns).index("algorithm")]
        check.one_of("against", against, [ROUND, *map(str, settings)])
    several = len(set(places)) > 1
    names = zip(rows["folder"], rows["algorithm"], strict=True)
    rows = rows.assign(line=[f"{place}: {name}" if several else name for place, name in names])
    write_figure(path, results.bands(rows, x=against, y=metric, by="line"))
