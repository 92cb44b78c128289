"""The report of an experiment: report.html, in the form of the page of a study's run folder."""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.core.records import ALL_CAUSES, totals_of
from netsim.errors import one_line
from netsim.studies.answer import filled
from netsim.studies.columns import label, worst
from netsim.studies.experiment.cells import METHOD, SEED
from netsim.studies.figures import fit_to_page
from netsim.studies.formats import write_figure
from netsim.studies.intervals import interval_text
from netsim.studies.methods_section import OfExperiment, methods_section
from netsim.studies.outcome import BEST, DEAD, TIED
from netsim.studies.page import page
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from netsim.studies.experiment.results import Results

_MOST_PANELS = 9  # the most panels in a figure that is readable at a page's width
_MOST_FIGURES = 12
_MOST_CELLS = 2000  # the most cells whose rounds are read within seconds
_FAR = 5.0  # ratio of values above which an axis is logarithmic
_DECADES = 1e4
_FACTORS = 50.0  # ratio of settings that were probably chosen by factors
_COUNTED = {"round", "time_s", "outcome_round", "optimum", *totals_of(ALL_CAUSES)}


def report(results: "Results", reference: str | None, title: str) -> str:
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
    notes = [*results.notes, *(f"Tuning: {each}" for each in about["tuning"].get("notes", ()))]
    answer, condition = _answer(results, next(said.outcomes()))
    summary = {"answer": answer, "condition": condition, "notes": notes, "failed": failed}
    if len(results.cells) > _MOST_CELLS:
        notes.append(f"{len(results.cells):,} runs: no figure over the rounds is here; Results.figure draws it.")
    captions: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        several, drawn = _figures(results), {}
        for number, (caption, draw) in enumerate(itertools.islice(several, _MOST_FIGURES), 1):
            name = f"figure {number}"
            try:
                drawn[name], captions[name] = draw(), caption
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {one_line(error)}"
        fit_to_page(list(drawn.values()))
        for name, figure in drawn.items():
            write_figure(Path(folder, f"{name}.png"), figure)
        if next(several, None) is not None:
            notes.append("There are more figures than fit here; Results.figure draws them.")
        texts = {"For the methods section of a paper": methods_section(results)}
        named = about.get("command") or about["file"] or "netsim.Experiment"
        tables = list(_tables(results, reference))
        for *_, table in tables:
            table.attrs["given"] = results.keys
        return page(named, Path(folder), settings, summary, tables, texts, captions)


def _answer(results: "Results", outcomes: str) -> list[str]:
    """Return which method is best by each goal, or else by the error, and the intervals over the seeds.

    ``outcomes`` is added to the intervals; it is the whole answer if there is nothing to compare or no method survives.
    """
    goals = list(results.about.get("goals", []))
    if not goals and results.is_judged and len(list(results.with_one_error())) == 1:
        goals = [results.metric]
    for goal in goals:
        check.one_of("goals", goal, [str(each) for each in results.runs])
    found = [(goal, _best(results, goal)) for goal in goals]
    said = {goal: best for goal, best in found if best is not None}
    if not said:
        return [outcomes, ""]
    kind = interval_text(results.runs.groupby(results.by, sort=False, dropna=False).size(), of="median")
    known = [f"{label(goal)} " * (len(said) > 1) + each[1] for goal, each in said.items() if each[1]]
    over = f"{'; '.join(known)}{': ' * bool(known)}{kind} over the seeds."
    note = results.summary(goals[0]).attrs["note"]
    return [" ".join(each[0] for each in said.values()), " ".join(filter(None, (over, note, outcomes)))]


def _best(results: "Results", metric: str) -> tuple[str, str] | None:
    """Return a sentence on the method that is best under most conditions, and its interval; None if all died."""
    table = results.summary(metric)
    won = table[table["verdict"] == BEST]
    if won.empty:
        return None
    name = str(won[METHOD].value_counts().index[0])
    own, several = won[won[METHOD] == name], len(won) > 1
    medians, ends = own[f"median_{metric}"], own[["median_low", "median_high"]]
    fields: dict[str, Any] = {"name": name, "medians": (medians.min(), medians.max())}
    fields |= {"won": len(own), "count": len(won)} if several else {}
    text = f"{{name}} has the {'least' if worst(metric) > 0 else 'greatest'} median {label(metric)}"
    text += " under {won} of {count} conditions" * several + ", {medians:.3g}"
    if tied := [] if table.attrs["note"] else _tied_with(table, own, results.by):
        text, fields = f"{text}; the sign test cannot tell {{tied}} from it", fields | {"tied": " and ".join(tied)}
    interval = ""
    if np.isfinite(ends.to_numpy()).all():
        fields["ends"] = ends["median_low"].min(), ends["median_high"].max()
        interval = f"{{ends:.3g}}{' in all' * several}"
    shown = filled(f"{text}.", fields, interval)
    return shown[0], shown[1]


def _tied_with(table: "pd.DataFrame", own: "pd.DataFrame", by: list[str]) -> list[str]:
    """Return the methods that are tied with the best one under every condition that it won."""
    settings = [name for name in by if name != METHOD]
    here = table.merge(own[settings].drop_duplicates(), on=settings) if settings else table
    counts = here.loc[here["verdict"] == TIED, METHOD].value_counts()
    return [str(name) for name in counts.index if counts[name] == len(own)]


def _tables(results: "Results", reference: str | None) -> "Iterator[tuple[str, str, pd.DataFrame]]":
    for of, part in results.with_one_error():
        if part.is_judged:
            table = part.summary()
            shown = table.loc[:, (table != 0).any()]
            # Put the verdict first: a wide table is read from the left.
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


def _figures(results: "Results") -> "Iterator[tuple[str, Callable[[], Figure]]]":
    """Yield (caption, function that draws) for the error, or else each measure, over each setting and the rounds."""
    over = []
    if len(results.cells) <= _MOST_CELLS:
        # Read the rounds of all runs once, because each figure needs them.
        read = [(cell, replace(found, table=found.rounds)) for cell, found in results.cells]
        results, over = replace(results, cells=read), ["round"]
    numeric = set(results.runs.select_dtypes("number"))
    for of, part in results.with_one_error():
        measures = [name for name in map(str, part.runs) if name in numeric and name not in {*part.keys, *_COUNTED}]
        for y in [part.metric] if part.is_judged else measures:
            for x in [*(name for name in part.by if name in numeric), *over]:
                if x != "round" or any(y in found.rounds for _, found in part.cells):
                    yield from _split(part, y, x, of)


def _split(results: "Results", y: str, x: str, of: str) -> "Iterator[tuple[str, Callable[[], Figure]]]":
    """Yield a figure, or one figure per value of a setting if there would be too many panels."""
    settings = [name for name in results.by if name not in (METHOD, x)]
    if settings and results.runs.groupby(settings, dropna=False).ngroups > _MOST_PANELS:
        for value in results.runs[settings[0]].unique():
            yield from _split(results.only(settings[0], value), y, x, f"{of}, {settings[0]} = {value}")
        return
    seeds = results.runs[SEED].nunique()
    many = f"the median of {seeds} seeds" if seeds > 1 else "one seed"
    ends = " Lines end where half of the runs or more died." if results.runs["outcome"].isin(DEAD).any() else ""
    yield f"{label(y)} against {label(x)}{of}: {many}.{ends}", partial(_drawn, results, y, x)


def _drawn(results: "Results", y: str, x: str) -> "Figure":
    """Return a figure; an axis is logarithmic if its values are far apart."""
    tables = [found.rounds for _, found in results.cells] if x == "round" else [results.runs]
    values = np.concatenate([table[y].to_numpy(dtype=np.float64) for table in tables if y in table])
    positive = values[(values > 0) & np.isfinite(values)]
    ratio = float(positive.max() / positive.min()) if len(positive) else 1.0
    figure = results.figure(y, x, log=ratio > _FAR)
    settings = results.runs[x].dropna().unique() if x != "round" else np.ones(1)
    for panel in figure.axes:
        if ratio > _DECADES:
            # Minor ticks take half of the drawing time, and tell nothing on so long an axis.
            panel.minorticks_off()
        if settings.min() > 0 and settings.max() > _FACTORS * settings.min():
            panel.set_xscale("log")
        elif x != "round":
            panel.locator_params(axis="x", nbins=5)
    return figure
