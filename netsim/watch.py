"""Watched attributes of agents (`netsim.Network.watch`): a run records each change and its time."""

import math
import operator
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.agent import Agent
from netsim.core.records import as_column
from netsim.errors import BadInput, NetsimError, one_line
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Watch", "Watched"]

Watched = Mapping[str, str | Callable[[Any], Any]] | Sequence[str | Callable[[Any], Any]]
"""Names of attributes, and functions, of an agent; in a mapping by the names of their columns."""

_RESERVED = ("time_s", "agent", "sent", "algorithm")


class Watch:
    """The watched attributes of one run.

    Parameters
    ----------
    watched : mapping or sequence
        {column: source}, or sources only. A source is the name of an agent's attribute or a function of an agent, and
        gives a number (None is NaN). In a sequence the column has the name of the attribute or function.
    agents : iterable
        The names of all agents.

    Raises
    ------
    BadInput
        If ``watched`` is neither, or the name of a column is reserved, repeated, or not printable text.
    """

    def __init__(self, watched: Watched, agents: Iterable[Hashable] = ()) -> None:
        if isinstance(watched, str) or not isinstance(watched, Mapping | Sequence) or not len(watched):
            raise check.refuse(
                "watch", watched, "names of attributes or functions of an agent: {column: source}, or a list"
            )
        pairs = list(watched.items()) if isinstance(watched, Mapping) else [(_column(each), each) for each in watched]
        self._functions: dict[str, Callable[[Any], Any]] = {}
        for column, source in pairs:
            if not isinstance(column, str) or not column.isprintable() or not column.strip():
                raise check.refuse("watch, column", column, "printable text")
            if column in _RESERVED or column in self._functions:
                raise check.refuse("watch, column", column, "a name that is not in use")
            if not callable(source) and not (isinstance(source, str) and source.isidentifier()):
                raise check.refuse(f"watch[{column!r}]", source, "the name of an attribute, or a function of an agent")
            self._functions[column] = source if callable(source) else operator.attrgetter(source)
        self._columns = list(self._functions)
        self._numbers = {name: number for number, name in enumerate(agents)}
        # One row for each change; the values row by row.
        self._times, self._agents, self._sent, self._values = array("d"), array("i"), array("q"), array("d")
        self._last: dict[Hashable, tuple[float, ...]] = {}

    def look(self, name: Hashable, agent: Agent, time: float, sent: int, early: bool = False) -> None:
        """Record an agent's state at a time (s), before which it had sent ``sent`` messages, if the state has changed.

        With ``early`` a missing attribute counts as None.

        Raises
        ------
        BadInput
            If an agent lacks an attribute, or a value is not a number.
        NetsimError
            If a function raises.
        """
        found = []
        for column, function in self._functions.items():
            try:
                value = function(agent)
            except AttributeError as error:
                if not early:
                    raise BadInput(f"watch, {column} of agent {name!r} at {time:g} s: {one_line(error)}") from error
                value = None
            except Exception as error:
                raise NetsimError(
                    f"watch, {column} of agent {name!r} raised {type(error).__name__} at {time:g} s: {one_line(error)}"
                ) from error
            number = math.nan if value is None else check.measured(value)
            if number is None:
                raise check.refuse(
                    f"watch, {column} of agent {name!r}", value, f"a number (None for none), at {time:g} s"
                )
            # The same NaN object each time, so that two states with NaN compare equal.
            found.append(float(number) if number == number else math.nan)
        state = tuple(found)
        if self._last.get(name) != state:
            self._last[name] = state
            self._times.append(time)
            self._agents.append(self._numbers[name])
            self._sent.append(sent)
            self._values.extend(state)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    def __len__(self) -> int:
        """Return the number of changes."""
        return len(self._times)

    def changes(self, first: int = 0) -> list[NDArray[Any]]:
        """Return the changes from index ``first`` on: times (s), indices of agents, messages sent before, values."""
        width = len(self._columns)
        parts = self._times[first:], self._agents[first:], self._sent[first:], self._values[first * width :]
        return self._arrays([part.tobytes() for part in parts])

    def learn(self, changes: Sequence[bytes], until: float) -> None:
        """Add the changes until a time (s) from another process; raises NetsimError if they cannot be read."""
        try:
            found = self._arrays(changes)
        except (TypeError, ValueError) as error:
            raise NetsimError(f"agents' states cannot be read ({one_line(error)})") from None
        kept = found[0] <= until
        columns: tuple[array[Any], ...] = self._times, self._agents, self._sent, self._values
        for column, part in zip(columns, found, strict=True):
            column.frombytes(part[kept].tobytes())

    def arrange(self) -> None:
        """Put the changes of several workers in order: by time, and at one instant by agent."""
        times, agents, sent, values = self.changes()
        order = np.lexsort((agents, times))
        columns: tuple[array[Any], ...] = self._times, self._agents, self._sent, self._values
        for column, part in zip(columns, (times, agents, sent, values), strict=True):
            del column[:]
            column.frombytes(part[order].tobytes())

    def table(self) -> "pd.DataFrame":
        """Return a row for each change: time_s, agent, sent, and the watched columns."""
        import pandas as pd

        times, agents, sent, values = self.changes()
        # Changes of several processes are stored one process after the other.
        order = np.argsort(times, kind="stable")
        columns: dict[str, Any] = {
            "time_s": times[order],
            "agent": as_column(self._numbers)[agents[order]],
            "sent": sent[order],
        }
        return pd.DataFrame(columns | {name: values[order, i] for i, name in enumerate(self._columns)})

    def _arrays(self, changes: Sequence[bytes]) -> list[NDArray[Any]]:
        """Return changes from their bytes; raises ValueError unless they are of these agents."""
        kinds = np.float64, np.int32, np.int64, np.float64
        times, agents, sent, values = (np.frombuffer(raw, kind) for raw, kind in zip(changes, kinds, strict=True))
        if len({len(times), len(agents), len(sent)}) > 1 or not np.isin(agents, range(len(self._numbers))).all():
            raise ValueError("states are not of these agents")
        return [times, agents, sent, values.reshape(len(times), len(self._columns))]

    def __getstate__(self) -> dict[str, Any]:
        # Functions may be impossible to pickle.
        return vars(self) | {"_functions": {}}


def _column(source: Any) -> Any:
    return source if isinstance(source, str) else getattr(source, "__name__", type(source).__name__)
