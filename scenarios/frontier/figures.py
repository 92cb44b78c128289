"""The figures of the frontier study."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netsim.scenarios.frontier.combinations import METHODS, REFERENCE, WITHIN
from netsim.studies.figures import LABELS, Axes, Axis, Figure, drawing

# Marker and colour of each built-in method, then those for methods from files.
_COLOURS = [*(f"C{i}" for i in (0, 3, 2, 4, 1, 5, 6)), "navy", "olive", "teal", "maroon", "indigo", "deeppink", "peru"]
_COLOURS += ["gray", "gold", "lime", "tan", "crimson", "black"]
_STYLES = dict(zip(METHODS, zip(itertools.cycle("os^DvPXpd8H"), itertools.cycle(_COLOURS), strict=False), strict=False))
_OWN = (("*", "C8"), ("<", "C9"), (">", "C7"), ("h", "0.3"))
_LEADER = {"relpos": (1, 0.5), "arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
_SMALL = 7.5  # points, font size of names in the figure
_NEAR = 12.0  # %
_ROWS = 24
"""Maximum number of rows: combinations that reached the reference, then the nearest others."""
_LEAST = 0.01  # %


def draw_frontier(table: pd.DataFrame, error: Axis, poor: pd.Index, title: str) -> Figure:
    """Draw final errors by payload and wire bits with the named Pareto front, and enlarged near the reference."""
    from matplotlib.figure import Figure

    drawn = table[(table["payload_bits"] > 0) & ~table.index.isin(poor)]
    near = drawn["above_%"] <= _NEAR
    styles = _styles(table)
    figure = Figure(figsize=(13, 10.5))
    figure.subplots_adjust(left=0.075, right=0.99, bottom=0.11, top=0.95, wspace=0.15, hspace=0.14)
    panels = figure.subplots(2, 2)
    # The lower panels show only combinations near the reference. Each entry: rows, errors, a level, and points to name.
    rows = (
        (drawn, error.column, (1.0 + WITHIN) * table[error.column].iloc[0], ~near),
        (drawn[near], "above_%", 100 * WITHIN, near[near]),
    )
    for row, (part, y, level, named) in zip(panels, rows, strict=True):
        for panel, bits in zip(row, ("payload_bits", "wire_bits"), strict=True):
            for (method, censored), points in part.groupby(["method", part["censor"] != "none"], sort=False):
                marker, colour = styles[str(method)]
                face = colour if censored else "none"
                panel.scatter(points[bits], points[y], 36, marker=marker, facecolors=face, edgecolors=colour)
            panel.set(xscale="log", yscale="linear" if y == "above_%" else "log")
            front = part[part[bits.replace("bits", "front")]].sort_values(bits)
            panel.step(front[bits], front[y], "-", where="post", color="0.2", linewidth=1, zorder=0)
            panel.axhline(level, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
            panel.tick_params(which="both", labelsize=9)
            panel.tick_params(axis="y", which="minor", labelsize=_SMALL)
            panel.grid(alpha=0.25)
            front = front[named.reindex(front.index)]
            _name_points(panel, front[bits], front[y], [str(name) for name in front.index])
    for panel, bits in zip(panels[1], ("payload_bits", "wire_bits"), strict=True):
        panel.set_xlabel(LABELS[bits])
    panels[0, 0].set_ylabel(f"final {error.text}")
    panels[1, 0].set_ylabel(f"% above {REFERENCE}")
    figure.suptitle(f"Error against bits, {title}; below, what ends within {_NEAR:g} % of {REFERENCE}")
    _legend(figure, {str(name): styles[name] for name in drawn["method"].unique()})
    return figure


def _styles(table: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Return marker and colour of each method of the table."""
    own = [name for name in table["method"].unique() if name not in _STYLES]
    return _STYLES | dict(zip(own, itertools.cycle(_OWN), strict=False))


def _legend(figure: Figure, styles: Mapping[str, tuple[str, str]]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker=marker, color=colour, linestyle="none", label=method)
        for method, (marker, colour) in styles.items()
    ]
    filled = "filled: censored" if styles.keys() <= _STYLES.keys() else "filled: censored, or from a file"
    common = [
        Line2D([], [], marker="o", color="0.4", markerfacecolor="none", linestyle="none", label="hollow: uncensored"),
        Line2D([], [], marker="o", color="0.4", linestyle="none", label=filled),
        Line2D([], [], color="0.2", linewidth=1, label="Pareto front"),
        Line2D([], [], color="0.6", linewidth=0.8, linestyle="--", label=f"1 % above {REFERENCE}"),
    ]
    for row, shown in enumerate((common, handles)):
        figure.legend(
            handles=shown, loc="lower center", ncols=len(shown), frameon=False, bbox_to_anchor=(0.5, 0.025 * row)
        )


def _name_points(panel: Axes, x: ArrayLike, y: ArrayLike, names: Sequence[str]) -> None:
    """Write the names of a front's points below and left of them, where no other point can lie; widen axes as needed.

    Each name is at least one text line below the previous one, so that no name covers another or a leader line.
    """
    points = np.column_stack([x, y])
    if not len(points):
        return
    line, gap = 1.35 * _SMALL, 8.0
    widths = np.array([0.56 * _SMALL * len(name) for name in names])

    def in_points() -> NDArray[np.float64]:
        corner = panel.transAxes.transform((0.0, 0.0))
        result: NDArray[np.float64] = (panel.transData.transform(points) - corner) * (72 / panel.figure.dpi)
        return result

    while True:
        at = in_points()
        heights = at[:, 1] - 1.6 * line
        for i in range(1, len(heights)):
            heights[i] = min(heights[i], heights[i - 1] - line)
        left, low = (at[:, 0] - gap - widths).min() - 4, heights.min() - line
        if left >= 0 and low >= 0:
            break
        corner = np.asarray(panel.transData.inverted().transform(panel.transAxes.transform((-0.03, -0.03))))
        if left < 0:
            panel.set_xlim(left=float(corner[0]))
        if low < 0:
            panel.set_ylim(bottom=float(corner[1]))
    for name, (px, py), height in zip(names, at, heights, strict=True):
        panel.annotate(
            name,
            xy=(px, py),
            xytext=(px - gap, height),
            xycoords="axes points",
            textcoords="axes points",
            ha="right",
            va="center",
            fontsize=_SMALL,
            arrowprops=_LEADER,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8},
        )


def draw_there(table: pd.DataFrame, error: Axis) -> Figure:
    """Draw each combination's bits until it reached the reference, its total bits, and its final excess error.

    Of the combinations that never reached the reference, only the nearest are drawn.
    """

    arrived = table["payload_bits_there"] > 0
    nearest = table[~arrived & (table["payload_bits"] > 0)].nsmallest(max(_ROWS - int(arrived.sum()), 0), "above_%")
    first = table[arrived].sort_values("payload_bits_there")
    names = [*first.index, *nearest.index]
    styles = _styles(table)
    figure, (panel, ends) = drawing(9.5, 2.0 + 0.24 * len(names), 2, sharey=True, width_ratios=(3, 2))
    for place, (_, row) in enumerate(table.loc[names].iterrows()):
        marker, colour = styles[row["method"]]
        spent, total = row["payload_bits_there"], row["payload_bits"]
        panel.plot([spent, total], [place, place], color=colour, linewidth=1, alpha=0.5)
        panel.plot(total, place, marker, color=colour, markerfacecolor="none", markersize=8)
        panel.plot(spent, place, marker, color=colour, markersize=4)
        ends.plot(max(row["above_%"], _LEAST), place, marker, color=colour, markersize=5)
    panel.set_yticks(range(len(names)), [str(name) for name in names], fontsize=8)
    panel.set_ylim(len(names) - 0.3, -0.7)
    panel.set_xlabel(f"{LABELS['payload_bits']}; hollow: in all,\nfilled: until within 1 % for good")
    ends.axvline(100 * WITHIN, color="0.6", linewidth=1, linestyle="--")
    ends.set_xlabel(f"ends above {REFERENCE} (%);\n{_LEAST:g}: that or less")
    for each in (panel, ends):
        each.set_xscale("log")
        each.grid(alpha=0.25)
    figure.suptitle(f"Bits to stay within 1 % of {REFERENCE}'s final {error.text}, and the nearest others")
    return figure
