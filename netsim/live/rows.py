"""The rows of a run so far, and the changes of its agents' states, few enough for a page."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.replay import render
from netsim.replay.render import MOST_ROWS, curves_of, few_changes, thinned
from netsim.run import Run
from netsim.watch import Watch

__all__ = ["Changes", "Rows"]

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

    def __init__(self) -> None:
        self.stride = 1
        self.times: Floats = np.empty(0)
        self.curves: dict[str, Floats] = {}

    @property
    def count(self) -> int:
        """How many rows are shown."""
        return len(self.times)

    def look(self, run: Run) -> None:
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
        self.times = np.concatenate([self.times[:first], new])

    def columns(self, first: int) -> dict[str, Any]:
        """Return the columns of a page's curves from a row on, by the names that it has for them."""
        found = {"curves x": self.times[first:]}
        return found | {f"curve {index}": column[first:] for index, column in enumerate(self.curves.values())}

    @property
    def notes(self) -> list[str]:
        """What a reader should know."""
        return [f"Curves show one row of {self.stride:,}."] if self.stride > 1 else []


class Changes:
    """What is shown of the changes of agents' states: all of few; of many fewer and fewer, the older they are.

    Parameters
    ----------
    agents : int
        How many agents there are.
    states : int
        How many states of each are kept; 0: none.

    Attributes
    ----------
    edition : int
        How often some were left out that had been shown.
    """

    def __init__(self, agents: int, states: int) -> None:
        self.edition = 0
        self._agents, self._seen = agents, 0
        kinds = (np.float64, np.int32, np.int64, (np.float64, states))
        self._parts: list[NDArray[Any]] = [np.empty(0, kind) for kind in kinds] if states else []

    @property
    def count(self) -> int:
        """How many are shown."""
        return len(self._parts[0]) if self._parts else 0

    def look(self, watch: Watch | None) -> None:
        """Take up the changes since the last look."""
        if watch is None:
            return
        new = watch.changes(self._seen)
        self._seen += len(new[0])
        self._parts = [np.concatenate(pair) for pair in zip(self._parts, new, strict=True)]
        # After a long pause there may be many times as many.
        while self.count > max(render.MOST_CHANGES, 4 * self._agents):
            some = few_changes(self._parts[1], self._agents, self.count // 2)
            self._parts = [part[some] for part in self._parts]
            self.edition += 1

    def columns(self, first: int) -> dict[str, Any]:
        """Return the columns of a page's states from a change on, by the names that it has for them."""
        if not self._parts:
            return {}
        *parts, values = (part[first:] for part in self._parts)
        found = {f"state {name}": part for name, part in zip(("times", "agents", "sent"), parts, strict=True)}
        return found | {f"state {index}": column for index, column in enumerate(values.T)}

    @property
    def notes(self) -> list[str]:
        """What a reader should know."""
        return [thinned(self.count, self._seen)] if self.edition else []


def _floats(values: list[Any]) -> Floats:
    return np.array(values, dtype=np.float64)
