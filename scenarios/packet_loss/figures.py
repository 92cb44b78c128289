"""The figures of the study of packet loss: grids of small panels, each of which shows one quantity."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from netsim.scenarios.packet_loss.remedies import NONE, REMEDIES
from netsim.studies.figures import Axes, Axis, Figure, drawing

_FAMILIES = (("C2", "o"), ("C0", "s"), ("C1", "^"), ("C3", "D"), ("C4", "v"), ("C5", "P"), ("C6", "X"), ("C7", "p"))
_REMEDY = ("black", "C2", "C0", "C1", "C4", "C3", "C5", "C6")
_MARKS = ("o", "P", "s", "D", "^", "v", "<", "X")

_HIGHEST = 1e5  # per cent; larger errors are drawn at this level
_LOWEST = 1e-16  # lower limit, for values that are zero up to rounding

ABOVE_OPTIMUM, ABOVE_LOSS_FREE = "above_optimum_%", "above_loss_free_%"
ABOVE = {
    ABOVE_OPTIMUM: ("the optimum", "the centralised optimum"),
    ABOVE_LOSS_FREE: ("loss-free", "loss-free, in the same family"),
}
"""The reference of errors, briefly and in full: the optimum if it is known, else the loss-free run."""

MEASURES = {
    "consensus_error": "consensus error:\nmean ‖θ − mean θ‖²",
    "dual_residual": "max |Σγ|",
    "tracking_residual": "max |Σy − Σ∇R|",
    "copy_error": "desynchronisation:\ncopy − state, largest norm",
}
"""Panel labels of `draw_agreement`, by column."""


def draw_errors(means: pd.DataFrame, level: str, error: Axis, title: str, burst: float = 1.0) -> Figure:
    """Draw the excess error against the share of lost frames: a panel per remedy, a line and band per family.

    With ``burst`` above 1, results with bursty losses are added as dashed lines.
    """
    rows = means[means["measure"] == level]
    remedies, families = list(dict.fromkeys(rows["remedy"])), list(dict.fromkeys(rows["family"]))
    columns = min(len(remedies), 4)
    lines = math.ceil(len(remedies) / columns)
    size = max(7.0, 2.9 * columns + 0.6), 2.7 * lines + 1.3
    figure, panels = drawing(*size, columns, lines, grid="y", sharex=True, sharey=True)
    panels = panels.ravel()
    place = _places(rows)
    low, high = _limits(rows)
    for panel, remedy in zip(panels, remedies, strict=False):
        part = rows[rows["remedy"] == remedy]
        for family in dict.fromkeys(part["family"]):
            style = _style(families, family)
            one = part[part["family"] == family]
            loss_free = rows[(rows["family"] == family) & (rows["remedy"] == NONE) & (rows["loss"] == 0.0)]
            for mean in loss_free["mean"]:
                panel.axhline(_within(mean, low, high), color=style["color"], linestyle=(0, (1, 2)), linewidth=1)
            for each in (1.0, burst) if burst > 1.0 else (1.0,):
                bursty = {"linestyle": "--", "markerfacecolor": "white"} if each > 1.0 else {"linestyle": "-"}
                _line(panel, one[one["burst"] == each].sort_values("loss"), place, style | bursty, (low, high))
        panel.set_title(REMEDIES[remedy].title, fontsize=10)
        _share_axis(panel, place)
        panel.tick_params(labelbottom=True)
        panel.set_xlabel("frames lost (%)", fontsize=9)
    for panel in panels[len(remedies) :]:
        panel.set_visible(False)
    for panel in panels[::columns]:
        panel.set_ylabel(f"{error.text} above\n{ABOVE[level][0]} (%)", fontsize=9)
    panels[0].set(yscale="log", ylim=(low / 1.3, high * 1.3))
    entries: dict[str, Any] = {family: {"markersize": 5, **_style(families, family)} for family in families}
    entries["loss-free, same family"] = {"color": "0.4", "linestyle": (0, (1, 2)), "linewidth": 1}
    if burst > 1.0:
        entries["independent losses"] = {"color": "0.4"}
        entries[f"same mean, bursts of {burst:g}"] = {"color": "0.4", "linestyle": "--"}
    subject = "Lost frames, and what each remedy makes of them" if burst == 1.0 else "Bursts beside independent losses"
    beyond = f" (above {_HIGHEST:.0e} %: drawn there)" if float(rows["mean"].max()) > _HIGHEST else ""
    return _finished(figure, entries, f"{subject}{beyond}\n{title}; bands: 95 % intervals of the mean")


def _style(families: Sequence[str], family: str) -> dict[str, Any]:
    colour, mark = _FAMILIES[families.index(family) % len(_FAMILIES)]
    return {"color": colour, "marker": mark}


def _finished(figure: Figure, entries: Mapping[str, Mapping[str, Any]], title: str) -> Figure:
    """Return the figure with its title and a legend of line styles by label."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=label, **style) for label, style in entries.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11)
    return figure


def _line(panel: Axes, rows: pd.DataFrame, place: dict[float, int], style: Any, limits: tuple[float, float]) -> None:
    """Draw a line with its band; values beyond the limits are drawn at the limits."""
    x = [place[each] for each in rows["loss"]]
    mean, low, high = ([_within(value, *limits) for value in rows[name]] for name in ("mean", "low", "high"))
    _apart(panel, x, mean, {"markersize": 4, "linewidth": 1.3, **style})
    colour = style["color"]
    first = 1 if 0 in x else 0
    # A band over a single point would be invisible.
    first = len(x) if len(x) - first == 1 else first
    panel.fill_between(x[first:], low[first:], high[first:], color=colour, alpha=0.2, linewidth=0)
    panel.vlines(x[:first], low[:first], high[:first], color=colour, alpha=0.4, linewidth=3)


def _apart(panel: Axes, x: Sequence[int], y: Sequence[float], style: "dict[str, Any]") -> None:
    """Draw a line over the positive shares of lost frames, and a separate point at the share 0."""
    first = 1 if 0 in x else 0
    panel.plot(x[:first], y[:first], **style | {"linestyle": ""})
    panel.plot(x[first:], y[first:], **style)


def _within(value: float, low: float, high: float) -> float:
    """Return a value clipped to the range of a log axis; a negative excess error becomes ``low``."""
    return min(max(value, low), high) if value == value else value


def _limits(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the range of errors to draw."""
    positive = rows["mean"][rows["mean"] > 0.0]
    if positive.empty:
        return 0.1, 10.0
    low = min(max(float(positive.min()) / 2.0, 1e-3), _HIGHEST)
    highs = rows["high"].where(np.isfinite(rows["high"]), rows["mean"])
    return low, max(min(float(highs.max()), _HIGHEST), 2.0 * low)


def _places(rows: pd.DataFrame) -> dict[float, int]:
    """Return the x coordinate of each share: equally spaced, because no axis scale shows 0, 0.1 % and 50 % well."""
    return {share: number for number, share in enumerate(sorted(set(rows["loss"])))}


def _share_axis(panel: Axes, place: dict[float, int]) -> None:
    panel.set_xticks(list(place.values()), [f"{100 * share:g}" for share in place], fontsize=8)
    panel.set_xlim(-0.4, len(place) - 0.6)
    panel.axvline(0.5, color="0.8", linewidth=0.8)
    panel.tick_params(axis="y", labelsize=8)


def draw_agreement(means: pd.DataFrame, title: str) -> Figure:
    """Draw consensus error, sum of duals and error of copies by family, to show which of them reveal losses."""
    rows = means[(means["burst"] == 1.0) & means["measure"].isin(MEASURES)]
    families = list(dict.fromkeys(rows["family"]))
    remedies = list(dict.fromkeys(means["remedy"]))
    shown = [name for name in MEASURES if (rows["measure"] == name).any()]
    width, height = max(7.0, 2.9 * len(families) + 0.8), 2.3 * len(shown) + 1.5
    figure, panels = drawing(width, height, len(families), len(shown), grid="y", sharex=True, sharey="row")
    place = _places(means)
    for line, measure in zip(panels, shown, strict=True):
        for panel, family in zip(line, families, strict=True):
            part = rows[(rows["measure"] == measure) & (rows["family"] == family)]
            _remedies(panel, part, remedies, place)
            if part.empty:
                panel.text(0.5, 0.5, "has none", transform=panel.transAxes, ha="center", color="0.5", fontsize=9)
        line[0].set_yscale("log")
        line[0].set_ylabel(MEASURES[measure], fontsize=9)
    for panel, family in zip(panels[0], families, strict=True):
        panel.set_title(family, fontsize=10)
    for panel in panels[-1]:
        panel.set_xlabel("frames lost (%), independent", fontsize=9)
    subject = "What agreement shows of a loss, and what it does not (below 1e-16: drawn there)"
    return _finished(figure, _entries(remedies), f"{subject}\n{title}")


def _remedies(panel: Axes, part: pd.DataFrame, remedies: Sequence[str], place: dict[float, int]) -> None:
    """Draw a line for each remedy; values that are zero up to rounding are drawn at 1e-16."""
    for number, remedy in enumerate(remedies):
        one = part[part["remedy"] == remedy].sort_values("loss")
        x = [place[each] for each in one["loss"]]
        width = 2.4 if remedy == NONE else 1.2
        mean = [max(value, _LOWEST) for value in one["mean"]]
        style: Any = {"marker": _MARKS[number % 8], "color": _REMEDY[number % 8], "markersize": 4}
        _apart(panel, x, mean, style | {"linewidth": width})
    _share_axis(panel, place)


def _entries(remedies: Sequence[str], **fixed: Any) -> dict[str, dict[str, Any]]:
    """Return the legend's styles of remedies, keyed by their titles."""
    return {
        REMEDIES[name].title: {"markersize": 5, "color": _REMEDY[i % 8], "marker": _MARKS[i % 8], **fixed}
        for i, name in enumerate(remedies)
    }


def draw_price(means: pd.DataFrame, level: str, error: Axis, title: str) -> Figure:
    """Draw the excess error against the bits on the wire, for several shares of lost frames; a mark per remedy."""
    rows = means[means["burst"] == 1.0]
    families, remedies = list(dict.fromkeys(rows["family"])), list(dict.fromkeys(rows["remedy"]))
    shares = sorted({nearest(rows, share) for share in (0.01, 0.1, 0.3)})
    figure, panels = drawing(max(7.0, 3.6 * len(shares) + 0.6), 5.2, len(shares), sharex=True, sharey=True)
    low, high = _limits(rows[rows["measure"] == level])
    for panel, share in zip(panels, shares, strict=True):
        there = rows[rows["loss"] == share]
        spent = there[there["measure"] == "wire_bits"].set_index(["family", "remedy"])["mean"]
        for _, row in there[there["measure"] == level].iterrows():
            family, remedy = row["family"], row["remedy"]
            colour = _style(families, family)["color"]
            y = _within(row["mean"], low, high)
            ends = (row["low"], row["high"]) if np.isfinite(row["low"]) else (row["mean"], row["mean"])
            reach = [[y - _within(ends[0], low, high)], [_within(ends[1], low, high) - y]]
            mark = _MARKS[remedies.index(remedy) % 8]
            panel.errorbar(spent[family, remedy], y, yerr=reach, color=colour, marker=mark, markersize=7, alpha=0.85)
        panel.set_title(f"{100 * share:g} % of the frames lost", fontsize=10)
        panel.set_xlabel("bits on the wire")
    panels[0].set(
        xscale="log", yscale="log", ylim=(low / 1.3, high * 1.3), ylabel=f"{error.text} above {ABOVE[level][1]} (%)"
    )
    entries: dict[str, Any] = {f: {"color": _style(families, f)["color"], "linewidth": 5} for f in families}
    entries |= _entries(remedies, color="0.3", linestyle="")
    subject = "What a remedy costs, and what it buys; down and to the left is better"
    return _finished(figure, entries, f"{subject}\n{title}; bars: 95 % intervals of the mean")


def nearest(means: pd.DataFrame, share: float) -> float:
    """Return the share of lost frames above 0 that is nearest to ``share`` on a log axis."""
    shares = sorted(each for each in set(means["loss"]) if each > 0.0)
    return float(min(shares, key=lambda each: abs(math.log(each / share))))
