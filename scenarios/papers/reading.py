"""Read claims from runs: columns by round, at the end, or relative to another algorithm; costs to reach levels."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from netsim.scenarios.papers.claim import Measure, Reader
from netsim.scenarios.papers.work import Runs
from netsim.util import check


def rows_of(runs: Runs, algorithm: str, *columns: str) -> pd.DataFrame:
    """Return seed, round and columns of an algorithm's rounds; raises BadInput for an unknown algorithm."""
    rounds = runs.columns(runs.rounds, "seed", "algorithm", "round", *columns)
    check.one_of("algorithm", algorithm, [str(each) for each in rounds["algorithm"].unique()])
    return rounds[rounds["algorithm"] == algorithm]


def at_end(runs: Runs, algorithm: str, column: str) -> "pd.Series[float]":
    """Return a column's last value by seed."""
    return rows_of(runs, algorithm, column).groupby("seed")[column].last()


def recent(runs: Runs, algorithm: str, column: str, share: float = 0.2) -> "pd.Series[float]":
    """Return the mean of a column over the last rounds, by seed."""
    rows = rows_of(runs, algorithm, column).dropna(subset=[column])
    return rows.groupby("seed")[column].apply(lambda part: float(np.mean(part.iloc[-max(1, int(share * len(part))) :])))


def by_round(algorithm: str, column: str) -> Reader:
    """Read a column in given rounds; the result's columns are called "k = 50"."""

    def read(runs: Runs) -> pd.DataFrame:
        table = rows_of(runs, algorithm, column).pivot(index="seed", columns="round", values=column)
        return table.rename(columns=lambda number: f"k = {number}")

    return read


def cost(algorithm: str, column: str, levels: Mapping[str, float], *, scale: Measure | None = None) -> Reader:
    """Read the transmissions until a column first reaches levels, given by label; NaN if it never does.

    The levels are multiplied by ``scale`` for each seed.
    """

    def read(runs: Runs) -> pd.DataFrame:
        rows = rows_of(runs, algorithm, column, "transmissions")
        if scale is not None:
            rows = rows.assign(**{column: rows[column] / rows["seed"].map(scale(runs))})
        found = {}
        for label, level in levels.items():
            reached = rows[rows[column] <= level].groupby("seed")["transmissions"].first()
            found[label] = reached.reindex(rows["seed"].unique()).astype(float)
        return pd.DataFrame(found)

    return read


def ratio(column: str, above: str, below: str, *, at: int | None = None) -> Measure:
    """Measure an algorithm's column at its end, or in a round, relative to another's."""

    def value(runs: Runs, algorithm: str) -> "pd.Series[float]":
        if at is None:
            return at_end(runs, algorithm, column)
        rows = rows_of(runs, algorithm, column)
        return rows[rows["round"] == at].set_index("seed")[column]

    return lambda runs: value(runs, above) / value(runs, below)


def spread(column: str, *algorithms: str) -> Measure:
    """Measure the largest of some algorithms' columns at the end over the smallest."""

    def measure(runs: Runs) -> "pd.Series[float]":
        ends = pd.DataFrame({name: at_end(runs, name, column) for name in algorithms})
        return ends.max(axis=1) / ends.min(axis=1)

    return measure


def over_centralised(algorithm: str, column: str) -> Measure:
    """Measure an algorithm's final column relative to the centralised reference."""
    return lambda runs: at_end(runs, algorithm, column) / runs.centralised(column)
