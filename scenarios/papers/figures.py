"""The figures of the papers' study: all printed numbers at a glance, and COKE's curves beside the printed points."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from netsim.scenarios.papers.claim import AGREES, Judged, Paper, printed
from netsim.scenarios.papers.reading import rows_of
from netsim.scenarios.papers.report import spread
from netsim.scenarios.papers.work import Runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {"CTA": "C2", "DKLA": "C0", "COKE": "C3"}
_SHOWN = (
    ("coke-tomshardware", "tomshardware", "Tom's hardware"),
    ("coke-energy", "energy", "Energy"),
    ("coke-airquality", "airquality", "Air quality"),
)


def draw(papers: Mapping[Paper, Sequence[Judged]], runs: Mapping[str, Runs]) -> "dict[str, tuple[Figure, str]]":
    """Return the figures that there is something to show in, each with its caption, by name."""
    found = {}
    numbers = [each for claims in papers.values() for each in claims if spread(each.found)[1] > 0]
    if numbers:
        found["reproduction_ratios"] = (
            _ratios(numbers),
            "Ours over theirs: median and range of each row of the printed tables; filled where all numbers agree, "
            "grey where our model does not learn",
        )
    shown = [each for each in _SHOWN if each[0] in runs and not runs[each[0]].missing]
    if shown:
        caption = "COKE's tables: lines ours, mean and range of the seeds; marks as printed"
        found["reproduction_coke"] = (_coke(shown, runs), caption)
    return found


def _ratios(claims: Sequence[Judged]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 1.0 + 0.16 * len(claims)), layout="constrained")
    panel = figure.subplots()
    for row, each in enumerate(claims):
        low, middle, high = spread(each.found)
        agrees = each.verdict == AGREES
        colour = "C0" if agrees else "0.6" if each.void else "C3"
        panel.plot([max(low, 1e-3), high], [row, row], color=colour, linewidth=1.5)
        panel.plot(middle, row, "o", color=colour, markerfacecolor=colour if agrees else "white", markersize=5)
    panel.axvline(1.0, color="0.3", linewidth=0.8, zorder=0)
    panel.set_xscale("log")
    panel.set_yticks(range(len(claims)), [f"{_short(each)}" for each in claims], fontsize=6)
    panel.set_ylim(len(claims) - 0.4, -0.6)
    panel.set_xlabel("ours / theirs")
    panel.grid(axis="x", alpha=0.3)
    return figure


def _short(each: Judged) -> str:
    what = each.claim.what
    return f"{each.claim.where}: {what if len(what) < 70 else what[:67] + '…'}"


def _coke(shown: Sequence[tuple[str, str, str]], runs: Mapping[str, Runs]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 2.1 * len(shown) + 0.4), layout="constrained")
    panels = figure.subplots(len(shown), 2, squeeze=False)
    for (left, right), (name, data, title) in zip(panels, shown, strict=True):
        for algorithm, colour in _COLOURS.items():
            _lines(left, right, runs[name], algorithm, data, colour)
        left.set_title(title, fontsize=10)
        left.set_xlabel("round")
        left.set_ylabel("training MSE")
        right.set_xlabel("transmissions")
        for panel in (left, right):
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.grid(alpha=0.3)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _lines(left: "Axes", right: "Axes", runs: Runs, algorithm: str, data: str, colour: str) -> None:
    """Draw one algorithm's mean and range against rounds, and against mean transmissions, with the printed points."""
    groups = rows_of(runs, algorithm, "train_mse", "transmissions").groupby("round")
    errors, sent = groups["train_mse"], groups["transmissions"].mean().clip(lower=1.0)
    mean = errors.mean()
    left.plot(mean.index, mean, color=colour, label=algorithm)
    left.fill_between(mean.index, errors.min(), errors.max(), color=colour, alpha=0.2, linewidth=0)
    right.plot(sent, mean, color=colour)
    points = printed("coke_by_round", "train_mse", dataset=data, algorithm=algorithm)
    left.plot(points["round"], points["train_mse"], "x", color=colour, label=f"{algorithm}, printed")
    right.plot(points["transmissions"].clip(lower=1), points["train_mse"], "x", color=colour)
