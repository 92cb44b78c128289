"""The figures of the papers' study: all printed numbers in one figure, and COKE's curves with the printed points."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from netsim.scenarios.papers.claim import AGREES, DIFFERS, NEAR, OPEN, VOID, Found, Judged, Paper, printed
from netsim.scenarios.papers.reading import rows_of
from netsim.scenarios.papers.work import Runs
from netsim.studies import Study
from netsim.studies.figures import Figure, drawing, legend_below

_VERDICTS = {
    AGREES: ("C0", "agrees"),
    DIFFERS: ("C3", "differs"),
    OPEN: ("C1", "undecided: our seeds lie too far apart"),
    VOID: ("0.6", "void: ours does not learn"),
}
"""{verdict on a number: (colour, text in the legend)}."""

_COLOURS = {"CTA": "C2", "DKLA": "C0", "COKE": "C3"}
_SHOWN = (
    ("coke-tomshardware", "tomshardware", "Tom's hardware"),
    ("coke-energy", "energy", "Energy"),
    ("coke-airquality", "airquality", "Air quality"),
)


def draw(study: Study, papers: Mapping[Paper, Sequence[Judged]], runs: Mapping[str, Runs]) -> dict[str, str]:
    """Add the figures that have content to a study; return their captions by file name."""
    found: dict[str, str] = {}

    def add(name: str, figure: Callable[[], Figure], caption: str) -> None:
        study.figure(name, figure, f"{caption}.")
        found[f"{name}.png"] = caption

    if tables := _tables(papers):
        seeds = len(next(iter(tables.values()))[0][0].values)
        add(
            "reproduction_ratios",
            partial(_ratios, tables),
            f"Ours over theirs for every number of every table: the median of our {seeds} seeds divided by the printed "
            "number. Grey band: within 10 %. Printed zeros, and runs without a value, have no ratio",
        )
    if shown := [each for each in _SHOWN if each[0] in runs and not runs[each[0]].missing]:
        add(
            "reproduction_coke",
            partial(_coke, shown, runs),
            "COKE's tables: lines ours, mean and range of the seeds; crosses as printed. Right: against the mean "
            "number of transmissions so far; zero transmissions are drawn at 1",
        )
    return found


def _tables(papers: Mapping[Paper, Sequence[Judged]]) -> dict[str, list[tuple[Found, str]]]:
    """Return the printed numbers that have a ratio, with their verdicts, keyed by paper, table and data set."""
    found: dict[str, list[tuple[Found, str]]] = {}
    for paper, claims in papers.items():
        for each in claims:
            name = f"{paper.name}, {each.claim.where}: {each.claim.what.partition(',')[0].partition(':')[0]}"
            cells = [(one, VOID if each.void else one.verdict) for one in each.found if one.cell.published]
            if cells:
                found.setdefault(name, []).extend((one, verdict) for one, verdict in cells if one.median > 0.0)
    return {name: cells for name, cells in found.items() if cells}


def _ratios(tables: Mapping[str, Sequence[tuple[Found, str]]]) -> Figure:
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, panel = drawing(8.0, 1.3 + 0.34 * len(tables), grid="x")
    panel.axvspan(1.0 - NEAR, 1.0 + NEAR, color="0.9", zorder=0)
    panel.axvline(1.0, color="0.3", linewidth=0.8, zorder=1)
    drawn = {}
    for row, cells in enumerate(tables.values()):
        offsets = np.linspace(-0.28, 0.28, len(cells)) if len(cells) > 1 else [0.0]
        for (one, verdict), offset in zip(cells, offsets, strict=True):
            colour, label = _VERDICTS[verdict]
            assert one.cell.published is not None
            ratio = one.median / one.cell.published
            (drawn[label],) = panel.plot(ratio, row + offset, "o", color=colour, markersize=3.5, alpha=0.8)
        near = sum(one.near for one, _ in cells)
        panel.annotate(
            f"{near} of {len(cells)}", (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=8
        )
    panel.annotate("within 10 %", (1.01, -0.9), xycoords=("axes fraction", "data"), va="center", fontsize=8)
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_yticks(range(len(tables)), list(tables), fontsize=8)
    panel.set(ylim=(len(tables) - 0.5, -0.6), xlabel="ours / theirs")
    labels = [label for _, label in _VERDICTS.values() if label in drawn]
    handles = [drawn[label] for label in labels]
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _coke(shown: Sequence[tuple[str, str, str]], runs: Mapping[str, Runs]) -> Figure:
    """Draw means and ranges against rounds, and against mean transmissions, with the printed points."""
    figure, panels = drawing(7.5, 2.1 * len(shown) + 0.4, 2, len(shown), sharey="row")
    for (left, right), (name, data, title) in zip(panels, shown, strict=True):
        for algorithm, colour in _COLOURS.items():
            groups = rows_of(runs[name], algorithm, "train_mse", "transmissions").groupby("round")
            errors, sent = groups["train_mse"], groups["transmissions"].mean().clip(lower=1.0)
            mean = errors.mean()
            left.plot(mean.index, mean, color=colour, label=algorithm)
            left.fill_between(mean.index, errors.min(), errors.max(), color=colour, alpha=0.2, linewidth=0)
            right.plot(sent, mean, color=colour, drawstyle="steps-post")
            points = printed("coke_by_round", "train_mse", dataset=data, algorithm=algorithm)
            left.plot(points["round"], points["train_mse"], "x", color=colour, label=f"{algorithm}, printed")
            right.plot(points["transmissions"].clip(lower=1), points["train_mse"], "x", color=colour)
        left.set_title(title, fontsize=10)
        left.set(xlabel="round", ylabel="training MSE")
        right.set_xlabel("transmissions")
        for panel in (left, right):
            panel.set(xscale="log", yscale="log")
    legend_below(figure, 3)
    return figure
