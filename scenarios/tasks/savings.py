"""What a cheap method saves: the cost at which each method first reached a level."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def ladder(rounds: "pd.DataFrame", column: str, best: float, count: int = 8) -> set[float]:
    """Return levels of a column, of two digits each, evenly on a log scale from round 2's least value to the end's.

    Parameters
    ----------
    rounds : DataFrame
        Of a study.
    column : str
        What falls.
    best : float
        The lowest level of use, that of a centralised model, say.
    count : int
        Number of levels; the last value of all is left out.
    """
    first, last = rounds.loc[rounds["round"] == 2, column].min(), rounds[column].min()
    if not first > max(last, best) > 0:
        # It never fell, or to zero.
        return set()
    return {float(f"{level:.2g}") for level in np.geomspace(first, max(last, best), count + 1)[:-1]}


def cost_to_reach(
    rounds: "pd.DataFrame",
    column: str,
    levels: Iterable[float],
    *,
    cost: str = "transmissions",
    saves: Mapping[str, tuple[str, str]],
) -> "pd.DataFrame":
    """Return, level by level from the top, the cost at which each algorithm was first at or below it.

    Parameters
    ----------
    rounds : DataFrame
        Of a study; rounds in which the column was not measured are NaN.
    column : str
        What falls.
    levels : iterable of float
        Levels of it.
    cost : str
        Column of the cost.
    saves : mapping
        For each column of savings, in percent, by its name: the algorithm compared with, and the one that saves.

    Returns
    -------
    DataFrame
        A column for the level, each algorithm and each saving; NaN where a level was not reached.
    """
    import pandas as pd

    algorithms = [str(name) for name in rounds["algorithm"].unique()]
    rows = []
    for level in sorted(levels, reverse=True):
        row: dict[str, float] = {column: level}
        for name, part in rounds.groupby("algorithm", sort=False):
            reached = part.loc[part[column] <= level, cost]
            row[str(name)] = float(reached.iloc[0]) if len(reached) else math.nan
        for name, (plain, cheap) in saves.items():
            ours, theirs = row.get(cheap, math.nan), row.get(plain, math.nan)
            row[name] = 100 * (1 - ours / theirs) if theirs else math.nan
        rows.append(row)
    table = pd.DataFrame(rows, columns=[column, *algorithms, *saves])
    return table.dropna(how="all", subset=algorithms).reset_index(drop=True)
