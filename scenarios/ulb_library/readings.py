"""What the motes read, minute by minute: their inputs, their temperatures, and when a reading is missing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.agents.costs.stream import Samples
from netsim.agents.maps.features import FeatureMap
from netsim.errors import BadInput
from netsim.scenarios.data.choice import Columns
from netsim.scenarios.data.files import find_table
from netsim.scenarios.data.tables import Table, load_table, unit
from netsim.scenarios.tasks.settings import names_in
from netsim.util import check
from netsim.util.typing import Array

TABLE = "ulb_library1_readings"
_HOUR_MS = 3.6e6


@dataclass(frozen=True)
class Readings:
    """T minutes of N motes. Where a reading is missing the mote's last one stands, or before its first one that.

    Attributes
    ----------
    inputs : ndarray of shape (T, N, d)
        In [0, 1].
    celsius : ndarray of shape (T, N)
        Temperatures in °C.
    present : ndarray of bool, shape (T, N)
        Whether there was a reading.
    hours : ndarray of shape (T,)
        Hours since midnight (UTC) of the first day.
    """

    inputs: NDArray[np.float64]
    celsius: NDArray[np.float64]
    present: NDArray[np.bool_]
    hours: NDArray[np.float64]

    @property
    def span(self) -> float:
        """The span of all temperatures, in °C: what is learned is scaled to [0, 1] by it."""
        return float(self.celsius.max() - self.celsius.min())

    @property
    def target(self) -> Array:
        """What is learned: temperatures scaled to [0, 1], shape (T, N)."""
        scaled: Array = (self.celsius - self.celsius.min()) / self.span
        return scaled

    def features(self, phi: FeatureMap) -> Array:
        """Return the features of all inputs, shape (T, N, D)."""
        minutes, motes, width = self.inputs.shape
        return phi(self.inputs.reshape(-1, width)).reshape(minutes, motes, -1)

    def streams(self, features: Array, minutes: int) -> list[Samples]:
        """Return each mote's samples of the first minutes."""
        target = self.target
        return [
            iter([(features[minute, mote], float(target[minute, mote])) for minute in range(minutes)])
            for mote in range(features.shape[1])
        ]


def load(motes: Sequence[int], inputs: str, minutes: int) -> Readings:
    """Return the readings of the motes, in their order.

    Parameters
    ----------
    motes : sequence of int
        Their names in the table.
    inputs : str
        Which columns predict the temperature, with commas between; "time" stands for the time of day.
    minutes : int
        How many there are.

    Raises
    ------
    BadInput
        If the table is missing, is not as it should be, or has nothing of a mote; or for an unknown input.
    """
    find_table(TABLE)
    table = load_table(TABLE, Columns(target="temperature"))
    column = dict(zip(table.input_columns, table.inputs.T, strict=True))
    for name in ("seq", "node", "timestamp_ms"):
        check.one_of(f"{TABLE}: a column", name, column)
    place = {mote: row for row, mote in enumerate(motes)}
    known = [name for name in column if name not in ("part", "seq", "node", "timestamp_ms")]
    wanted = [check.one_of("inputs", name, ["time", *known]) for name in dict.fromkeys(names_in(inputs))]
    rows = [
        row
        for row, (mote, minute) in enumerate(zip(column["node"], column["seq"], strict=True))
        if int(mote) in place and 0 <= minute < minutes
    ]
    minute = column["seq"][rows].astype(int)
    mote = np.array([place[int(each)] for each in column["node"][rows]], dtype=int)
    # The first of several in one minute counts: it is written last.
    order = np.arange(len(rows))[::-1]
    where = minute[order], mote[order]

    def grid(values: Array) -> Array:
        found = np.full((minutes, len(motes)), np.nan)
        found[where] = values[rows][order]
        return found

    celsius = grid(table.target)
    present = ~np.isnan(celsius)
    if not present.any(axis=0).all():
        missing = motes[int(np.argmin(present.any(axis=0)))]
        raise BadInput(f"{TABLE}: must have a reading of each mote that is linked; it has none of {missing}")
    hours = _hours(table, minute, rows, minutes)
    parts = [_held(grid(column[name])) for name in wanted if name != "time"]
    if "time" in wanted:
        angle = np.broadcast_to((hours * np.pi / 12)[:, None], celsius.shape)
        parts = [np.sin(angle), np.cos(angle), *parts]
    scaled = unit(np.stack(parts, axis=-1).reshape(-1, len(parts))).reshape(*celsius.shape, len(parts))
    return Readings(scaled, _held(celsius), present, hours)


def _hours(table: Table, minute: NDArray[np.int64], rows: list[int], minutes: int) -> Array:
    """Return the time of each minute in hours: that of its readings, on the average; where there is none, between."""
    stamps = table.inputs[rows, table.input_columns.index("timestamp_ms")]
    count = np.bincount(minute, minlength=minutes)
    start = float(stamps.min())
    total = np.bincount(minute, weights=stamps - start, minlength=minutes)
    there = np.flatnonzero(count)
    since = np.interp(np.arange(minutes), there, total[there] / count[there])
    hours: Array = (start % (24 * _HOUR_MS) + since) / _HOUR_MS
    return hours


def _held(grid: Array) -> Array:
    """Return a table of minutes and motes in which the last value stands until the next comes."""
    import pandas as pd

    return np.asarray(pd.DataFrame(grid).ffill().bfill().to_numpy(), dtype=np.float64)
