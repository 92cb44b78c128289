"""Read values from runs: columns by round, at the end, or relative to another algorithm; costs to reach levels."""

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
    """Read the transmissions until a column first reaches given levels, {label: level}; NaN if it never does.

    If ``scale`` is given, its value for a seed multiplies the levels.
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
    """Measure an algorithm's column at the end, or in round ``at``, divided by another algorithm's."""

    def value(runs: Runs, algorithm: str) -> "pd.Series[float]":
        if at is None:
            return at_end(runs, algorithm, column)
        rows = rows_of(runs, algorithm, column)
        return rows[rows["round"] == at].set_index("seed")[column]

    return lambda runs: value(runs, above) / value(runs, below)


def spread(column: str, *algorithms: str) -> Measure:
    """Measure the ratio of the largest to the smallest final value of a column among some algorithms."""

    def measure(runs: Runs) -> "pd.Series[float]":
        ends = pd.DataFrame({name: at_end(runs, name, column) for name in algorithms})
        return ends.max(axis=1) / ends.min(axis=1)

    return measure


def over_centralised(algorithm: str, column: str) -> Measure:
    """Measure the final value of an algorithm's column, divided by the centralised reference's."""
    return lambda runs: at_end(runs, algorithm, column) / runs.centralised(column)
