"""How well each mote knows the temperature: at its own place, and at all others'."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.scenarios.ulb_library.readings import Readings
from netsim.util.typing import Array


class Field:
    """A probe: each mote's model, as it was before the minute, predicts every mote's reading of the minute.

    Parameters
    ----------
    readings : Readings
        Only readings that were made are judged.
    features : ndarray of shape (T, N, D)
        Of the inputs.

    Attributes
    ----------
    own, others : list of ndarray of shape (N,)
        By minute, in °C: what each mote's own model predicts of its reading, and what the others' do on the average.
    """

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
    """Return what the one model that fits all readings of the first minutes best says of them, in °C, shape (T, N).

    It is ridge regression with λ on the mean of all squared errors, as of somebody who has all data.
    """
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
