"""What the motes read, minute by minute, and how well each mote's model predicts it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.agents.costs.stream import Samples
from netsim.agents.maps.features import FeatureMap
from netsim.errors import BadInput
from netsim.scenarios.data.choice import Columns
from netsim.scenarios.data.files import find_table
from netsim.scenarios.data.tables import load_table, unit
from netsim.scenarios.tasks.settings import names_in
from netsim.util import check
from netsim.util.typing import Array

TABLE = "ulb_library1_readings"
_HOUR_MS = 3.6e6


@dataclass(frozen=True)
class Readings:
    """T minutes of N motes. A missing reading is replaced by the mote's last one, or by its first one before that."""

    inputs: NDArray[np.float64]
    """In [0, 1], shape (T, N, d)."""
    celsius: NDArray[np.float64]
    """Temperatures in °C, shape (T, N)."""
    present: NDArray[np.bool_]
    """Whether there was a reading, shape (T, N)."""
    hours: NDArray[np.float64]
    """Hours since midnight (UTC) of the first day, shape (T,)."""

    @property
    def span(self) -> float:
        """The span of all temperatures, in °C: what is learned is scaled to [0, 1] by it."""
        return float(self.celsius.max() - self.celsius.min())

    @property
    def target(self) -> Array:
        """The target: temperatures scaled to [0, 1], shape (T, N)."""
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
    """Return the readings of the motes, in their order, with the input columns listed; "time" is the time of day.

    Raises
    ------
    BadInput
        If the table is missing or damaged, or has nothing of a mote; or for an unknown input.
    """
    find_table(TABLE)
    table = load_table(TABLE, Columns(target="temperature"))
    read = pd.DataFrame(table.inputs, columns=list(table.input_columns)).assign(temperature=table.target)
    for name in ("seq", "node", "timestamp_ms"):
        check.one_of(f"{TABLE}: a column", name, table.input_columns)
    known = [name for name in table.input_columns if name not in ("part", "seq", "node", "timestamp_ms")]
    wanted = [check.one_of("inputs", name, ["time", *known]) for name in dict.fromkeys(names_in(inputs))]
    read = read[read["node"].astype(int).isin(motes) & read["seq"].between(0, minutes, inclusive="left")]
    read = read.astype({"seq": int, "node": int})
    # The first of several in one minute counts.
    first: Any = read.drop_duplicates(["seq", "node"]).set_index(["seq", "node"]).unstack()

    def grid(name: str) -> Array:
        found: Array = first[name].reindex(index=range(minutes), columns=list(motes)).to_numpy(dtype=np.float64)
        return found

    celsius = grid("temperature")
    present = ~np.isnan(celsius)
    if not present.any(axis=0).all():
        missing = motes[int(np.argmin(present.any(axis=0)))]
        raise BadInput(f"{TABLE}: must have a reading of each mote that is linked; it has none of {missing}")
    hours = _hours(read, minutes)
    parts = [_held(grid(name)) for name in wanted if name != "time"]
    if "time" in wanted:
        angle = np.broadcast_to((hours * np.pi / 12)[:, None], celsius.shape)
        parts = [np.sin(angle), np.cos(angle), *parts]
    scaled = unit(np.stack(parts, axis=-1).reshape(-1, len(parts))).reshape(*celsius.shape, len(parts))
    return Readings(scaled, _held(celsius), present, hours)


def _hours(read: pd.DataFrame, minutes: int) -> Array:
    """Return the time of each minute in hours: the mean of its readings' times, interpolated where there is none."""
    minute, stamps = read["seq"].to_numpy(), read["timestamp_ms"].to_numpy()
    count = np.bincount(minute, minlength=minutes)
    start = float(stamps.min())
    total = np.bincount(minute, weights=stamps - start, minlength=minutes)
    there = np.flatnonzero(count)
    since = np.interp(np.arange(minutes), there, total[there] / count[there])
    hours: Array = (start % (24 * _HOUR_MS) + since) / _HOUR_MS
    return hours


def _held(grid: Array) -> Array:
    """Return a table of minutes and motes in which each value holds until the next one."""
    return np.asarray(pd.DataFrame(grid).ffill().bfill().to_numpy(), dtype=np.float64)


# --- predictions ------------------------------------------------------------------------------------------------------


class LibraryField:
    """A probe: each mote's model, as it was before the minute, predicts every mote's reading of the minute.

    Only readings that were made are judged. ``own`` and ``others`` hold, by minute and in °C, shape (N,), what each
    mote's own model and, on average, the others' predict of its reading.
    """

    may_skip = False

    def __init__(self, readings: Readings, features: Array) -> None:
        self._readings, self._features = readings, features
        self._models = np.zeros(features.shape[1:])
        self._low, self._target = float(readings.celsius.min()), readings.target
        self._squares, self._counts = np.zeros(2), np.zeros(2, dtype=int)
        self.own: list[Array] = []
        self.others: list[Array] = []

    def __call__(self, agents: Mapping[Any, Any]) -> dict[str, float]:
        """Return the errors of the minute and the running ones, root mean squares in °C (NaN without a reading)."""
        minute, span = len(self.own), self._readings.span
        predicted = self._models @ self._features[minute].T
        count = len(predicted)
        self.own.append(self._low + span * np.diag(predicted))
        elsewhere = (predicted.sum(axis=0) - np.diag(predicted)) / max(1, count - 1)
        self.others.append(self._low + span * elsewhere)
        there = self._readings.present[minute]
        squares = (span * (predicted - self._target[minute])) ** 2
        own = float(np.diag(squares)[there].sum())
        sums = np.array([own, float(squares[:, there].sum()) - own])
        counts = np.array([there.sum(), there.sum() * (count - 1)])
        self._squares += sums
        self._counts += counts
        self._models = np.stack([agent.theta for agent in agents.values()])
        now, running = _root(sums, counts), _root(self._squares, self._counts)
        return {
            "own_error_c": now[0],
            "field_error_c": now[1],
            "running_own_c": running[0],
            "running_field_c": running[1],
        }


def _root(sums: Array, counts: Array) -> tuple[float, float]:
    with np.errstate(invalid="ignore"):
        own, others = np.sqrt(sums / counts)
    return float(own), float(others)


def hindsight(readings: Readings, features: Array, minutes: int, regularizer: float) -> Array:
    """Return the predictions (°C), shape (T, N), of one ridge regression on all readings of the first minutes."""
    there = readings.present[:minutes]
    rows, target = features[:minutes][there], readings.target[:minutes][there]
    gram = rows.T @ rows / len(rows) + regularizer * np.eye(rows.shape[1])
    model = np.linalg.solve(gram, rows.T @ target / len(rows))
    predicted: Array = readings.celsius.min() + readings.span * (features[:minutes] @ model)
    return predicted


def error_of(readings: Readings, predicted: Array) -> float:
    """Return the root mean squared error (°C) of predictions of shape (T, N) over the readings that were made."""
    minutes = len(predicted)
    there = readings.present[:minutes]
    return float(np.sqrt(np.mean((predicted - readings.celsius[:minutes])[there] ** 2)))
