"""What a run keeps of each agent's state, row by row, as `netsim.Network.watch` is told."""

import operator
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netsim import check
from netsim.agent import Agent
from netsim.count.records import as_column
from netsim.errors import BadInput, NetsimError, one_line

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Watch", "Watched"]

Watched = Mapping[str, str | Callable[[Any], Any]] | Sequence[str | Callable[[Any], Any]]
"""Names of attributes and functions of an agent, with the names of their columns or without."""

_TAKEN = ("round", "time_s", "agent", "algorithm")


class Watch:
    """The states that one run keeps.

    Parameters
    ----------
    watched : mapping or sequence
        {column: what}, or whats alone: the name of an agent's attribute, or a function of an agent. Without a mapping
        its column is the attribute's or the function's name. Each gives a number; None is NaN.

    Raises
    ------
    BadInput
        If it is neither, a column's name is taken, twice there, or no printable text.
    """

    def __init__(self, watched: Watched) -> None:
        if isinstance(watched, str) or not isinstance(watched, Mapping | Sequence) or not len(watched):
            raise check.refuse(
                "watch", watched, "names of attributes or functions of an agent: {column: what}, or a list"
            )
        pairs = list(watched.items()) if isinstance(watched, Mapping) else [(_column(each), each) for each in watched]
        self._functions: dict[str, Callable[[Any], Any]] = {}
        for column, what in pairs:
            if not isinstance(column, str) or not column.isprintable() or not column.strip():
                raise check.refuse("watch, column", column, "printable text")
            if column in _TAKEN or column in self._functions:
                raise check.refuse("watch, column", column, "another than those that are there already")
            if not callable(what) and not (isinstance(what, str) and what.isidentifier()):
                raise check.refuse(f"watch[{column!r}]", what, "the name of an attribute, or a function of an agent")
            self._functions[column] = what if callable(what) else operator.attrgetter(what)
        self._columns = list(self._functions)
        self._rows: list[tuple[int, float]] = []
        self._values = array("d")

    def add_row(self, number: int, time: float, agents: Mapping[Any, Agent]) -> None:
        """Keep the states of all agents at the row of this number and time (s).

        Raises
        ------
        BadInput
            If an agent has no such attribute, or what is watched is no number.
        NetsimError
            If a function raises.
        """
        after = f"after round {number}"
        for column, function in self._functions.items():
            for name, agent in agents.items():
                try:
                    value = function(agent)
                except AttributeError as error:
                    raise BadInput(f"watch, {column} of agent {name!r} {after}: {one_line(error)}") from error
                except Exception as error:
                    kind = type(error).__name__
                    raise NetsimError(
                        f"watch, {column} of agent {name!r} raised {kind} {after}: {one_line(error)}"
                    ) from error
                found = float("nan") if value is None else check.measured(value)
                if found is None:
                    raise check.refuse(
                        f"watch, {column} of agent {name!r}", value, f"a number (None for none), {after}"
                    )
                self._values.append(found)
        self._rows.append((number, time))

    @property
    def columns(self) -> list[str]:
        """The names of the states."""
        return list(self._columns)

    def table(self, agents: Sequence[Hashable], which: slice = slice(None)) -> "pd.DataFrame":
        """Return a row for each row of the run and each agent: round, time_s, agent, and a column for each state.

        ``which`` chooses among the rows of the run.
        """
        import numpy as np
        import pandas as pd

        first, stop, step = which.indices(len(self._rows))
        chosen, many = self._rows[which], len(agents)
        rows = len(chosen)
        numbers, times = zip(*chosen, strict=True) if rows else ((), ())
        # Of a row that failed half-way there may be more.
        size, stop = len(self._columns) * many, max(first, stop)
        part = np.array(self._values[first * size : stop * size])
        values = part.reshape(stop - first, len(self._columns), many)[::step]
        columns: dict[str, Any] = {
            "round": np.repeat(np.array(numbers, dtype=np.int64), many),
            "time_s": np.repeat(np.array(times, dtype=np.float64), many),
            "agent": np.tile(as_column(agents), rows),
        }
        return pd.DataFrame(columns | {name: values[:, i].ravel() for i, name in enumerate(self._columns)})

    def __getstate__(self) -> dict[str, Any]:
        # What was seen is kept; what looked may be anything.
        return vars(self) | {"_functions": {}}


def _column(what: Any) -> Any:
    return what if isinstance(what, str) else getattr(what, "__name__", type(what).__name__)
