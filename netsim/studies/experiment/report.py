"""The report of an experiment: report.html, the page that a study's run folder has, too."""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim.core.records import ALL_CAUSES, totals_of
from netsim.errors import one_line
from netsim.studies.columns import label
from netsim.studies.experiment.results import METHOD, SEED, Results
from netsim.studies.formats import write_figure
from netsim.studies.methods_section import OfExperiment, methods_section
from netsim.studies.outcome import DEAD
from netsim.studies.page import page

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_MOST_PANELS = 9  # of a figure, so that it can be read at a page's width
_MOST_FIGURES = 12
_FAR = 5.0  # by what factor values differ of which a logarithmic axis shows more
_DECADES = 1e4
_COUNTED = {"round", "time_s", "outcome_round", "optimum", *totals_of(ALL_CAUSES)}


def report(results: Results, reference: str | None, title: str) -> str:
    """Return the page of an experiment's results; the arguments are those of `Results.report`."""
    about, said = results.about, OfExperiment(results.about, results.runs)
    versions = about["versions"]
    settings = {
        "question": title or about.get("title"),
        "parts": said.compared(),
        "parameters": about["paths"],
        **(versions[0] if len(versions) == 1 else {"versions": versions}),
    }
    settings |= {"command": about["command"]} if "command" in about else {}
    failed: dict[str, str] = {}
    summary = {"answer": " ".join(itertools.islice(said.outcomes(), 1)), "notes": list(results.notes), "failed": failed}
    summary["notes"] += [f"Tuning: {each}" for each in about["tuning"].get("notes", ())]
    captions: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        drawn = _figures(results)
        for number in itertools.count():
            name = f"figure {number + 1:02}"
            try:
                caption, figure = next(drawn, (None, None))
                if figure is None:
                    break
                write_figure(Path(folder, f"{name}.png"), figure)
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {one_line(error)}"
                break
            captions[name] = str(caption)
        texts = {"For the methods section of a paper": methods_section(results)}
        named = about.get("command") or about["file"] or "netsim.Experiment"
        return page(named, Path(folder), settings, summary, _tables(results, reference), texts, captions)


def _problems(results: Results) -> Iterator[tuple[str, Results]]:
    """Yield what results are of, and results with one error: of each problem, if problems have errors of their own."""
    errors = set(results.runs["judged_by"].dropna()) - {""} if results.is_judged else set()
    if len(errors) < 2:
        yield "", results
        return
    for name, _ in results.runs.groupby("problem", sort=False):
        yield f", {name}", results.only("problem", name)


def _tables(results: Results, reference: str | None) -> "Iterator[tuple[str, str, pd.DataFrame]]":
    for of, part in _problems(results):
        if part.is_judged:
            table = part.summary()
            shown = table.loc[:, (table != 0).any()]
            # A wide table is read from the left.
            shown.insert(len(part.by), "verdict", shown.pop("verdict"))
            yield "", f"{label(part.metric)}{of}: survivors, and the median of all runs", shown
            methods = part.runs[METHOD].unique()
            if len(methods) > 1:
                against = reference or str(methods[0])
                yield "", f"{label(part.metric)}{of}: seeds won and lost against {against}", part.versus(against)
        medians = part.medians()
        yield "", f"Medians over the seeds{of}", medians.loc[:, (medians != 0).any()]
    dead = results.runs["outcome"].isin(DEAD)
    if dead.any():
        shown = results.runs.loc[dead, [*results.keys, "outcome", "outcome_round", "why"]]
        yield "" if results.folder is None else "runs.csv", "Runs that diverged or failed", shown


def _figures(results: Results) -> "Iterator[tuple[str, Figure]]":
    """Yield captions and figures: of the error, or else of each measure, over the rounds and each setting."""
    drawn = (each for of, part in _problems(results) for each in _of_problem(part, of))
    yield from itertools.islice(drawn, _MOST_FIGURES)


def _of_problem(results: Results, of: str) -> "Iterator[tuple[str, Figure]]":
    numeric = set(results.runs.select_dtypes("number"))
    measures = [name for name in results.runs if name in numeric and name not in {*results.keys, *_COUNTED}]
    settings = [name for name in results.by if name in numeric]
    for y in [results.metric] if results.is_judged else measures:
        for x in ["round", *settings]:
            if x != "round" or y in results.rounds:
                yield from _split(results, y, x, of)


def _split(results: Results, y: str, x: str, of: str) -> "Iterator[tuple[str, Figure]]":
    """Yield a figure, or one for each value of a setting if it has too many panels."""
    settings = [name for name in results.by if name not in (METHOD, x)]
    if settings and results.runs.groupby(settings, dropna=False).ngroups > _MOST_PANELS:
        for value in results.runs[settings[0]].unique():
            yield from _split(results.only(settings[0], value), y, x, f"{of}, {settings[0]} = {value}")
    else:
        seeds = results.runs[SEED].nunique()
        many = f"the median of {seeds} seeds, with its interval" if seeds > 1 else "one seed"
        ends = " Lines end where half of the runs or more died." if results.runs["outcome"].isin(DEAD).any() else ""
        values = results.rounds[y] if x == "round" else results.runs[y]
        positive = values[(values > 0) & np.isfinite(values)]
        ratio = float(positive.max() / positive.min()) if len(positive) else 1.0
        figure = results.figure(y, x, log=ratio > _FAR)
        for panel in figure.axes if ratio > _DECADES else ():
            # They take half of the time of drawing, and nothing is read from them.
            panel.minorticks_off()
        yield f"{label(y)} against {label(x)}{of}: {many}.{ends}", figure
