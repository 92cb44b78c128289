"""Axes of measures in figures, and a cheaper method's savings up to a level."""

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd

from netsim.studies.figures import LABELS, Axis, Figure, drawing, legend_below, line_style, unless_set, unmark_unseen

_COSTS = ("transmissions", "wire_bits")
_SAME = 1.0  # a difference in percentage points that is too small to see
FINE = 200
"""The number of levels at which a saving is drawn; rounding to two digits may merge some of them."""


def called(error: Axis) -> str:
    """Return an error's name at the start of titles."""
    return "Training error" if error.column == "train_mse" else error.text


def ladder(rounds: pd.DataFrame, column: str, best: float, count: int = 8) -> set[float]:
    """Return ``count`` levels of two digits, evenly spaced on a log scale.

    They range from the least value in round 2 to the last value or to ``best``.
    """
    first, last = rounds.loc[rounds["round"] == 2, column].min(), rounds[column].min()
    if not first > max(last, best) > 0:
        # There are no levels if the error never fell, or fell to zero.
        return set()
    return {float(f"{level:.2g}") for level in np.geomspace(first, max(last, best), count + 1)[:-1]}


def cost_to_reach(
    rounds: pd.DataFrame,
    column: str,
    levels: Iterable[float],
    *,
    cost: str = "transmissions",
    saves: Mapping[str, tuple[str, str]],
) -> pd.DataFrame:
    """Return the cost at which each algorithm first reached each level (NaN: never), and savings in %.

    ``saves`` is {column of savings: (algorithm to compare with, algorithm that saves)}.
    """
    descending = sorted(levels, reverse=True)
    table = pd.DataFrame({column: descending})
    for name, part in rounds.groupby("algorithm", sort=False):
        values, costs = part[column].to_numpy(float), part[cost].to_numpy(float)
        reached = [costs[values <= level] for level in descending]
        table[str(name)] = [each[0] if len(each) else math.nan for each in reached]
    algorithms = list(table.columns[1:])
    for name, (plain, cheap) in saves.items():
        if {plain, cheap} <= {*algorithms}:
            table[name] = 100 * (1 - table[cheap] / table[plain].where(table[plain] != 0))
    return table.dropna(how="all", subset=algorithms).reset_index(drop=True)


def saved_on_the_way(rounds: pd.DataFrame, column: str, plain: str, cheap: str, at: Iterable[int]) -> dict[int, float]:
    """Return the share of ``plain``'s transmissions that ``cheap`` saves until it reaches the same values.

    A round is left out if ``plain`` lacks it or had sent nothing by then, or if ``cheap`` never reaches its value.
    """
    named = {name: rounds[rounds["algorithm"] == name] for name in (plain, cheap)}
    found = {}
    for number in at:
        there = named[plain][named[plain]["round"] == number]
        if len(there) and there["transmissions"].iloc[0] > 0:
            reached = named[cheap].loc[named[cheap][column] <= there[column].iloc[0], "transmissions"]
            if len(reached):
                found[number] = 1.0 - float(reached.iloc[0]) / float(there["transmissions"].iloc[0])
    return found


def draw_savings(
    rounds: pd.DataFrame, column: str, best: float, against: str, *, label: str, title: str
) -> Callable[[], Figure] | None:
    """Return a function that draws each algorithm's savings relative to another, in transmissions and in wire bits.

    One panel shows both savings if they are equal. The result is None if the other algorithm did not run, or if no
    algorithm costs at most twice as much at two levels or more.
    """
    names = [str(name) for name in rounds["algorithm"].unique()]
    if against not in names or len(names) < 2:
        return None
    saves = {f"saved {name}": (against, name) for name in names if name != against}
    levels = ladder(rounds, column, best, FINE)
    tables = {cost: cost_to_reach(rounds, column, levels, cost=cost, saves=saves) for cost in _COSTS}
    # Leave out algorithms that cost more than twice as much, which would compress the axis, or that have one level.
    shown = [name for name in saves if any((table[name] > -100).sum() > 1 for table in tables.values())]
    if not shown:
        return None
    sent, bits = (tables[cost][shown].clip(lower=-100) for cost in _COSTS)
    titles = {cost: LABELS[cost] for cost in _COSTS}
    if np.allclose(sent, bits, rtol=0.0, atol=_SAME, equal_nan=True):
        titles = {_COSTS[0]: " and ".join(titles.values())}

    def draw() -> Figure:
        from matplotlib.ticker import MaxNLocator

        figure, panels = drawing(6.5 if len(titles) == 1 else 9, 4.2, len(titles), title=title, sharey=True)
        for panel, (cost, text) in zip(panels, titles.items(), strict=True):
            table = tables[cost]
            for number, name in enumerate(shown):
                style = line_style(number, len(shown))
                panel.plot(table[column], table[name].where(table[name] > -100), label=saves[name][1], **style)
            panel.axhline(0.0, color="0.4", linewidth=1, label=against)
            panel.set_xscale("log")
            panel.invert_xaxis()
            if unless_set("figure.figsize", None) is not None:
                # In a narrow panel the labels of matplotlib's default ticks overlap.
                panel.xaxis.set_minor_locator(MaxNLocator(4))
            panel.set_title(text, fontsize=unless_set("axes.titlesize", 10))
            panel.set_xlabel(f"{label} reached")
        unmark_unseen(figure)
        panels[0].set_ylabel(f"saved on the way there, against {against} (%)")
        legend_below(figure)
        return figure

    return draw
