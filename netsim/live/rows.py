"""The rows of a run so far, few enough for a page: curves and agents' states, evenly chosen."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.replay.render import MOST_ROWS, curves_of, states_of
from netsim.run import Run

__all__ = ["Rows"]

Floats = NDArray[np.float64]


class Rows:
    """What is shown of a run's rows: all of few, every second, every fourth … of many.

    Attributes
    ----------
    stride : int
        Of so many rows one is shown.
    curves : dict of arrays, shape (count,)
        By the names of the columns; NaN where there is none.
    """

    def __init__(self, agents: int, states: list[str]) -> None:
        self.stride = 1
        self.times: Floats = np.empty(0)
        self.curves: dict[str, Floats] = {}
        self._states: dict[str, Floats] = {name: np.empty((0, agents)) for name in states}

    @property
    def count(self) -> int:
        """How many rows are shown."""
        return len(self.times)

    def look(self, run: Run, agents: list[str]) -> None:
        """Take up the rows that were written since the last look."""
        first = self.count
        while -(-run.rows // self.stride) > MOST_ROWS:
            self.stride, first = 2 * self.stride, 0
        which = slice(first * self.stride, run.rows, self.stride)
        found = curves_of(run.rounds_of(which))
        new = _floats(found["x"])
        if not len(new):
            return
        for name in found["columns"]:
            self.curves.setdefault(name, np.full(first, np.nan))
        for name, column in self.curves.items():
            more = _floats(found["columns"].get(name, [None] * len(new)))
            self.curves[name] = np.concatenate([column[:first], more])
        states = states_of(run.states_of(which), agents) if self._states else {}
        for name, state in states.items():
            self._states[name] = np.concatenate([self._states[name][:first], _floats(state["values"])])
        self.times = np.concatenate([self.times[:first], new])

    def columns(self, first: int) -> dict[str, Any]:
        """Return the columns of a page's curves and states from a row on, by the names that it has for them."""
        found = {"curves x": self.times[first:]}
        found |= {f"curve {index}": column[first:] for index, column in enumerate(self.curves.values())}
        for index, state in enumerate(self._states.values()):
            found |= {f"state {index} times": self.times[first:], f"state {index} values": state[first:].ravel()}
        return found


def _floats(values: list[Any]) -> Floats:
    return np.array(values, dtype=np.float64)
