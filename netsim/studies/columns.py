"""The columns of results: their labels in figures, their possible values, and whether they count costs."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netsim.core.records import ALL_CAUSES, totals_of

if TYPE_CHECKING:
    import pandas as pd

LABELS: Mapping[str, str] = {
    "round": "round",
    "time_s": "simulated time (s)",
    "transmissions": "transmissions (broadcasts)",
    "payload_bits": "payload (bits)",
    "wire_bits": "bits on the wire",
    "train_mse": "training MSE",
    "test_mse": "test MSE",
    "running_mse": "running MSE",
    "train_loss": "training loss",
    "test_loss": "test loss",
    "dual_residual": "max |Σγ|",
    "model_error": "‖Θ − Θ*‖ of all models",
    "model_copy_error": "‖Θ − its copies‖",
    "limit_distance": "distance to the limit",
}
"""Axis labels by column; other columns are called by their names in words (`label`)."""

ERRORS = ("train_mse", "train_loss", "test_mse", "test_loss", "error", "mse", "gap", "excess")
"""The errors of which the first judges a run, if its study names none (``error`` of `netsim.studies.study.Study`).

Regret, bits and transmissions grow by nature, and agents that start alike have no consensus error at first: by those no
run is judged.
"""

_UNITS = {"%": "%", "s": "s", "ms": "ms", "j": "J", "mj": "mJ", "bits": "bits", "bytes": "bytes", "m": "m", "c": "°C"}
_UNITS |= {"days": "days"}
_COUNTS = {"round", "offered", "readings", "sent", "taken", "arrived", "bits", *totals_of(ALL_CAUSES)}
_GREATEST = re.compile(r"(^|_)(accuracy|share|delivered|received|arrived)(_%)?$|(^|_)(lifetime|death)_days$")
_SHARES = re.compile(r"(^|_)(accuracy|share|delivered|received|arrived|expected)_%$|(^|_)accuracy$|(^|_)share$")
_ERRORS_OF_SHARES = re.compile(r"^(train|test)_error$")
_NONNEGATIVE = re.compile(
    r"(^|_)(mse|error|loss|residual|latency|transmissions|hops|order)(_|$)|_(s|ms|j|mj|bits|bytes|days)$|^spread$"
)
_SIGNED = re.compile(r"(^|_)(above|saves?|saved|difference|log|offset|skew|drift)(_|$)")


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value that a column can have."""

    low: float = -math.inf
    high: float = math.inf

    def clip(self, low: float, high: float) -> tuple[float, float]:
        """Return an interval clipped to these bounds; NaN stays NaN."""
        return (self.low if low < self.low else low), (self.high if high > self.high else high)


def bounds(column: str) -> Bounds:
    """Return the bounds of a column: shares in per cent are 0 to 100, errors, times and counts 0 or more.

    The bounds follow from the name: ``…_%`` are shares (``delivered_%``); ``accuracy``, ``…_mse``, ``…_error``,
    ``…_latency_s`` and ``…_bits`` are known. Columns that may be negative (``above_loss_free_%``, ``clock_offset_s``)
    and unknown ones have no bounds.
    """
    name = column.lower()
    if _SIGNED.search(name):
        return Bounds()
    if _SHARES.search(name) or _ERRORS_OF_SHARES.search(name):
        return Bounds(0.0, 100.0 if name.endswith("%") else 1.0)
    return Bounds(0.0) if name in {*ERRORS, *_COUNTS} or _NONNEGATIVE.search(name) else Bounds()


def counts(column: str) -> bool:
    """Return whether a column counts costs, which a run also incurs if it diverges."""
    name = column.lower()
    return name in _COUNTS or name.endswith(("_bits", "_bytes", "time_s", "_j", "_mj"))


def worst(column: str) -> float:
    """Return the worst value of a column, used for a dead run: −∞ if more is better, else ∞."""
    return -math.inf if _GREATEST.search(column.lower()) else math.inf


def label(column: str) -> str:
    """Return a column's label, with its unit in brackets: "training MSE", "mean latency (s)"."""
    if column in LABELS:
        return LABELS[column]
    name, _, unit = column.rpartition("_")
    if name and unit.lower() in _UNITS:
        return f"{name.replace('_', ' ').strip()} ({_UNITS[unit.lower()]})"
    return column.replace("_", " ").strip() or column


def groups_of(frame: "pd.DataFrame", by: Sequence[str]) -> "list[tuple[tuple[Any, ...], pd.DataFrame]]":
    """Return (values, rows) for each group of rows that agree in some columns; without columns, one group."""
    return list(frame.groupby(list(by), sort=False, dropna=False)) if by else [((), frame)]
