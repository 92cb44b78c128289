"""The round in which an error reached a target, so that runs are compared by the cost of reaching it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import BadInput
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd


def settling(errors: ArrayLike, level: float) -> NDArray[np.int64]:
    """Return, for each position, the first one from which on no error up to that position exceeds ``level``.

    If the error at the position itself exceeds it, this is the next position.
    """
    above = ~(np.asarray(errors, dtype=np.float64) <= level)
    return np.maximum.accumulate(np.where(above, np.arange(1, len(above) + 1), 0))


def settled(errors: ArrayLike, level: float) -> int | None:
    """Return the first position from which on no error exceeds ``level``; None if the last error does."""
    firsts = settling(errors, level)
    return int(firsts[-1]) if len(firsts) and firsts[-1] < len(firsts) else None


@dataclass(frozen=True)
class Target:
    """A column and the value at or below which it must stay: absolute, or in per cent above the centralised value."""

    column: str
    value: float
    percent: bool = False

    @classmethod
    def of(cls, text: str) -> "Target":
        """Return the target of a text ``COLUMN=VALUE`` or ``COLUMN=+P%``; raises BadInput for any other text."""
        column, _, value = (part.strip() for part in text.partition("="))
        percent = value.startswith("+") and value.endswith("%")
        try:
            number = float(value[1:-1] if percent else value)
        except ValueError:
            number = math.nan
        if not column or not math.isfinite(number) or value.endswith("%") != percent:
            raise check.refuse("reach", text, "COLUMN=VALUE, or COLUMN=+P%: P per cent above the centralised one")
        return cls(column, number, percent)

    def __str__(self) -> str:
        above = f"{self.value:g} % above the centralised one" if self.percent else f"{self.value:g}"
        return f"{self.column} stays at {above} or below"

    def rows(self, rounds: "pd.DataFrame", place: Path, best: Mapping[str, float | None]) -> "pd.DataFrame":
        """Return for each algorithm the row from which on it stays at the target; empty values if there is none.

        ``best`` maps columns to the folder's centralised values.

        Raises
        ------
        BadInput
            For a column that is missing or not numeric, or that needs a centralised value and has none.
        """
        check.one_of("reach: column", self.column, list(rounds.select_dtypes("number").columns))
        least = best.get(self.column)
        level, reached = self.level(math.nan if least is None else least, f"; {place} has none"), []
        for _, part in rounds.groupby("algorithm", sort=False):
            first = settled(part[self.column], level)
            reached += [] if first is None else [part.index[first]]
        found = rounds.loc[reached].set_index("algorithm").reindex(rounds["algorithm"].unique()).reset_index()
        return found[list(rounds.columns)]

    def level(self, least: float, why: str = "") -> float:
        """Return the value at or below which the column must stay, given the centralised value ``least``.

        Raises BadInput, which ends in ``why``, if ``least`` is needed but NaN.
        """
        if not self.percent:
            return self.value
        if math.isnan(least):
            raise BadInput(f"reach: column = {self.column!r}: must have a centralised value{why}")
        return least * (1.0 + self.value / 100.0)
