"""Watched attributes of agents (`netsim.Network.watch`): a run records each change and its time."""

import math
import operator
from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.agent import Agent
from netsim.core.records import as_column
from netsim.draw import Cells, DeclaredState, Drawn, Edge, Strip, cells_text
from netsim.errors import BadInput, NetsimError, one_line
from netsim.util import check
from netsim.util.short_text import cut, short_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LONGEST_WORD", "MOST_WORDS", "STRIPS", "Watch", "Watched", "sources_of"]

Watched = Mapping[str, str | Callable[[Any], Any]] | Sequence[str | Callable[[Any], Any]]
"""States to watch: names of an agent's attributes, or functions of an agent; a mapping gives the columns' names."""

MOST_WORDS = 1000
"""The maximum number of different texts in a column of a run."""

STRIPS = 20 * MOST_WORDS
"""The maximum number of different states in a column of lists (`netsim.draw.Strip`)."""

OTHERS = "…"
"""The text that replaces further states of a drawn column that has reached its maximum number of states."""

LONGEST_WORD = 40
"""The maximum number of characters of a text."""

_RESERVED = ("time_s", "agent", "sent", "algorithm")


class _Column:
    """A watched state: a column of numbers or, from its first text value on, of texts that are stored as codes."""

    def __init__(self, name: str, function: Callable[[Any], Any], drawn: Drawn | None = None) -> None:
        self.name, self.function, self.drawn = name, function, drawn
        # The limit for logs is higher, because a log has a new state for each number of entries.
        self.most = STRIPS if isinstance(drawn, Strip | Edge) else MOST_WORDS
        self.words: dict[str, int] | None = None
        # Whether all texts of the column came from True and False.
        self.are_flags = True
        # As long as no agent has the state: the name of the first agent that lacked it, and the text of the error to
        # raise.
        self.lack: list[str] | None = None
        self.is_found = False
        # What error messages name as the origin of the state: a user's ``watch``, or the ``draw`` of a class.
        self.source = "draw" if isinstance(function, DeclaredState) else "watch"

    def find(self, agent: Agent) -> None:
        """Record that an agent has the state; for a declared state only if the agent's class declares it."""
        self.is_found = not isinstance(self.function, DeclaredState) or self.function.is_of(agent)

    def code(self, word: str, is_flag: bool = False) -> int:
        """Return the code of a state's text, assigning one to a new text; raise BadInput if there are too many texts.

        If the state is drawn, texts beyond the limit are replaced by `OTHERS` instead.
        """
        assert self.words is not None
        if len(self.words) >= self.most and word not in self.words and self.drawn is not None:
            # A run must not fail because a drawing has too many states.
            word = OTHERS
        number = self.words.setdefault(word, len(self.words))
        if number >= self.most + (self.drawn is not None):
            raise BadInput(
                f"watch, {self.name}: must be a number, or a state with at most {self.most:,} different words in a "
                f"run; the next one is {word!r}"
            )
        self.are_flags = self.are_flags and is_flag
        return number

    def check(self, name: Hashable, value: Any, time: float, agents: Mapping[Hashable, int]) -> Any:
        """Return an agent's state in the form its drawing needs; raise BadInput if the drawing does not accept it."""
        drawn = self.drawn
        if value is None or drawn is None:
            return value
        if isinstance(drawn, Strip):
            value = value if isinstance(value, Cells) else Cells(value)
            if value.entries is None:
                return None
            try:
                text = cells_text(drawn, value)
            except BadInput as error:
                raise BadInput(f"draw, {self.name} of agent {name!r} at {time:g} s: {error}") from None
            value = value.entries if text is None else text
            fits = text is not None
        else:
            fits = drawn.check(value) and not (isinstance(drawn, Edge) and not _is_in(value, agents))
        if not fits:
            raise check.refuse(f"draw, {self.name} of agent {name!r}", value, f"{drawn._allowed}, at {time:g} s")
        return str(value) if isinstance(drawn, Edge) and check.measured(value) is None else value

    def __getstate__(self) -> dict[str, Any]:
        # Drop functions, because some cannot be pickled.
        return vars(self) | {"function": None, "drawn": None}


class Watch:
    """The watched attributes of one run.

    Parameters
    ----------
    watched : mapping or sequence
        {column: source}, or sources only. A source is the name of an agent's attribute or a function of an agent. Its
        value is a number, True or False, text, a member of an enum, or a set, list, tuple or dict of these; None means
        no value. In a sequence, the column is named after the attribute or function.
    agents : iterable
        The names of all agents.
    draw : mapping, optional
        How states are drawn, by column; None for a state that is not drawn. Agents may lack a watched state.
    asked : collection of str, optional
        The columns that the user watches, as opposed to those that are only drawn; by default all.

    Attributes
    ----------
    draw : dict
        The drawings passed to the constructor.
    recoded : int
        How often a column of numbers became a column of texts, which replaces the column's earlier values.

    Raises
    ------
    BadInput
        If ``watched`` is neither a mapping nor a sequence, or a column's name is reserved, repeated, or not printable
        text.
    """

    def __init__(
        self,
        watched: Watched,
        agents: Iterable[Hashable] = (),
        draw: Mapping[str, Drawn | None] | None = None,
        asked: Collection[str] = (),
    ) -> None:
        self.draw, self._asked = dict(draw or {}), frozenset(asked)
        self._columns = [_Column(name, function, self.draw.get(name)) for name, function in sources_of(watched).items()]
        self._numbers = {name: number for number, name in enumerate(agents)}
        # One element per change; in `_values`, one element per change and column, row by row.
        self._times, self._agents, self._sent, self._values = array("d"), array("i"), array("q"), array("d")
        self._last: dict[Hashable, tuple[float, ...]] = {}
        self.recoded = 0

    def look(self, name: Hashable, agent: Agent, time: float, sent: int, early: bool = False) -> None:
        """Record an agent's states at a time (s), after it had sent ``sent`` messages, if one of them has changed.

        An attribute that an agent lacks counts as None, because agents of one network may be of several classes. With
        ``early``, an attribute that another object, such as a part of the agent, lacks counts as None, too.

        Raises
        ------
        BadInput
            If an object other than the agent lacks an attribute, a value is not a valid state, or a column has too many
            texts.
        NetsimError
            If a function raises.
        """
        found = []
        for place, column in enumerate(self._columns):
            try:
                value = column.check(name, column.function(agent), time, self._numbers)
                if not column.is_found:
                    column.find(agent)
            except AttributeError as error:
                if not early and error.obj is not None and error.obj is not agent:
                    # A function or property accessed a missing attribute of another object, which is a mistake in its
                    # code.
                    raise BadInput(
                        f"{column.source}, {column.name} of agent {name!r} at {time:g} s: {one_line(error)}"
                    ) from error
                value = None
                column.lack = column.lack or [repr(name), one_line(error)]
            except BadInput:
                raise
            except Exception as error:
                raise NetsimError(
                    f"{column.source}, {column.name} of agent {name!r} raised {type(error).__name__} at {time:g} s: "
                    f"{one_line(error)}"
                ) from error
            number = math.nan if value is None else self._number(place, value)
            if number is None:
                allowed = "a number, True or False, text, or a set, list, tuple or dict of such (None for none)"
                raise check.refuse(f"watch, {column.name} of agent {name!r}", value, f"{allowed}, at {time:g} s")
            # Use the same NaN object each time, so that equal states compare equal even with NaN (list comparison tests
            # identity).
            found.append(float(number) if number == number else math.nan)
        state = tuple(found)
        if self._last.get(name) != state:
            self._last[name] = state
            self._times.append(time)
            self._agents.append(self._numbers[name])
            self._sent.append(sent)
            self._values.extend(state)

    def check_found(self, time: float, whole: bool) -> None:
        """Raise BadInput for an attribute that no agent had up to a time (s), because its name may be misspelled.

        States declared by classes are only checked at the end of the run (``whole``), because agents may set them late.
        """
        for column in self._columns:
            if column.lack and not column.is_found and (whole or column.source == "watch"):
                who, why = column.lack
                raise BadInput(f"{column.source}, {column.name} of agent {who} at {time:g} s: {why}")

    def _number(self, place: int, value: Any) -> float | None:
        """Return a value in its column's form, a number or a text's code; None if it is not a valid state."""
        column, is_flag = self._columns[place], isinstance(value, bool | np.bool_)
        number = None if is_flag or isinstance(value, Enum) else check.measured(value)
        if number is not None and (column.words is None or number != number):
            return number
        if isinstance(column.drawn, Strip):
            column.words = {} if column.words is None else column.words
            return column.code(value)
        word = _word_of(number) if number is not None else short_text(value, LONGEST_WORD)
        if not word:
            return None if word is None else math.nan
        if column.words is None:
            self._recode(place)
        return column.code(cut(word, LONGEST_WORD), is_flag)

    def _recode(self, place: int) -> None:
        """Turn a column of numbers into a column of texts, and replace each number so far by the code of its text."""
        column, width = self._columns[place], len(self._columns)
        column.words = {}
        numbers = self._values[place::width]
        codes = {number: column.code(_word_of(number)) for number in dict.fromkeys(numbers) if number == number}
        self._values[place::width] = array("d", [codes.get(number, math.nan) for number in numbers])
        for name, state in self._last.items():
            code = codes.get(state[place], math.nan)
            self._last[name] = (*state[:place], code, *state[place + 1 :])
        self.recoded += bool(codes)

    @property
    def agents(self) -> int:
        """The number of agents of the network."""
        return len(self._numbers)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self._columns]

    @property
    def drawn_as(self) -> dict[str, Any]:
        """The declared drawing of each state, by column, as JSON data."""
        return {name: None if each is None else each.as_dict() for name, each in self.draw.items()}

    @property
    def words(self) -> list[list[str] | None]:
        """The texts of each column, indexed by their codes; None for a column of numbers."""
        return [None if column.words is None else list(column.words) for column in self._columns]

    @property
    def is_empty(self) -> bool:
        """Whether the user watches no state, and no agent had any of the states declared by classes or the medium."""
        return all(column.drawn is not None for column in self._columns) and bool(np.isnan(self._values).all())

    def __len__(self) -> int:
        """Return the number of changes."""
        return len(self._times)

    def changes(self, first: int = 0) -> list[NDArray[Any]]:
        """Return the changes from index ``first`` on: times (s), indices of agents, messages sent before, values.

        The value in a column of texts is the text's code.
        """
        return self._arrays(self.packed(first)[:4])

    def packed(self, first: int = 0) -> list[Any]:
        """Return the changes from index ``first`` on, as `learn` reads them in another process."""
        width = len(self._columns)
        parts = self._times[first:], self._agents[first:], self._sent[first:], self._values[first * width :]
        flags = [column.are_flags for column in self._columns]
        # None means that no agent of this process shows whether the state exists.
        lacks = [[] if column.is_found else column.lack for column in self._columns]
        return [*(part.tobytes() for part in parts), self.words, flags, lacks]

    def learn(self, changes: Sequence[Any], until: float) -> None:
        """Add the changes until a time (s) from another process; raises NetsimError if they cannot be read."""
        try:
            found = self._arrays(changes[:4])
            kept = found[0] <= until
            # Files of earlier versions contain only numbers.
            for place, (words, are_flags) in enumerate(zip(*changes[4:6], strict=True) if len(changes) > 4 else ()):
                self._learn_column(place, found[3], words, are_flags)
            for watched, lack in zip(self._columns, changes[6] if len(changes) > 6 else (), strict=False):
                watched.is_found = watched.is_found or lack == []
                watched.lack = watched.lack or lack or None
        except (IndexError, TypeError, ValueError) as error:
            raise NetsimError(f"agents' states cannot be read ({one_line(error)})") from None
        columns: tuple[array[Any], ...] = self._times, self._agents, self._sent, self._values
        for column, part in zip(columns, found, strict=True):
            column.frombytes(part[kept].tobytes())

    def _learn_column(self, place: int, values: NDArray[Any], words: list[str] | None, are_flags: bool) -> None:
        """Convert a column of values from another process to this process's codes, in place."""
        column = self._columns[place]
        if words is None and column.words is None:
            return
        if column.words is None:
            self._recode(place)
        codes = {}
        for number in dict.fromkeys(each for each in values[:, place].tolist() if each == each):
            word = _word_of(number) if words is None else words[int(number)]
            codes[number] = column.code(word, words is not None and are_flags)
        values[:, place] = [codes.get(number, math.nan) for number in values[:, place].tolist()]

    def arrange(self) -> None:
        """Sort the changes of several workers by time and, at equal times, by agent."""
        times, agents, sent, values = self.changes()
        order = np.lexsort((agents, times))
        columns: tuple[array[Any], ...] = self._times, self._agents, self._sent, self._values
        for column, part in zip(columns, (times, agents, sent, values), strict=True):
            del column[:]
            column.frombytes(part[order].tobytes())

    def table(self, whole: bool = True) -> "pd.DataFrame":
        """Return a row for each change: time_s, agent, sent, and the watched columns.

        Without ``whole``, only the columns that the user watches, if any, and only rows in which one of these changes.
        """
        import pandas as pd

        times, agents, sent, values = self.changes()
        # Sort, because the changes of several processes are stored one process after the other.
        order = np.argsort(times, kind="stable")
        asked = [whole or not self._asked or column.name in self._asked for column in self._columns]
        if not all(asked):
            mine = values[order][:, asked]
            by_agent = np.argsort(agents[order], kind="stable")
            before, after = mine[by_agent][:-1], mine[by_agent][1:]
            same = ((before == after) | (np.isnan(before) & np.isnan(after))).all(axis=1)
            kept = np.ones(len(order), dtype=np.bool_)
            kept[by_agent[1:]] = ~(same & (np.diff(agents[order][by_agent]) == 0))
            order = order[kept]
        columns: dict[str, Any] = {
            "time_s": times[order],
            "agent": as_column(self._numbers)[agents[order]],
            "sent": sent[order],
        }
        for place, column in enumerate(self._columns):
            # Omit a column that is only drawn (by a class or the medium) if no agent of this run had the state.
            if asked[place] and (column.drawn is None or not len(values) or not np.isnan(values[:, place]).all()):
                columns[column.name] = _decoded(column, values[order, place])
        return pd.DataFrame(columns)

    def _arrays(self, changes: Sequence[bytes]) -> list[NDArray[Any]]:
        """Return changes from their bytes; raise ValueError if they refer to agents that do not exist."""
        kinds = np.float64, np.int32, np.int64, np.float64
        times, agents, sent, values = (np.frombuffer(raw, kind) for raw, kind in zip(changes, kinds, strict=True))
        if len({len(times), len(agents), len(sent)}) > 1 or not np.isin(agents, range(len(self._numbers))).all():
            raise ValueError("states are not of these agents")
        return [times, agents, sent, values.reshape(len(times), len(self._columns)).copy()]


def sources_of(watched: Watched) -> dict[str, Callable[[Any], Any]]:
    """Return the function that reads each column; raise BadInput as `Watch` does."""
    if isinstance(watched, str) or not isinstance(watched, Mapping | Sequence) or not len(watched):
        raise check.refuse(
            "watch", watched, "names of attributes or functions of an agent: {column: source}, or a list"
        )
    pairs = list(watched.items()) if isinstance(watched, Mapping) else [(_name_of(each), each) for each in watched]
    functions: dict[str, Callable[[Any], Any]] = {}
    for column, source in pairs:
        if not isinstance(column, str) or not column.isprintable() or not column.strip():
            raise check.refuse("watch, column", column, "printable text")
        if column in _RESERVED or column in functions:
            raise check.refuse("watch, column", column, "a name that is not in use")
        if not callable(source) and not (isinstance(source, str) and all(map(str.isidentifier, source.split(".")))):
            raise check.refuse(f"watch[{column!r}]", source, "the name of an attribute, or a function of an agent")
        functions[column] = source if callable(source) else operator.attrgetter(source)
    return functions


def _is_in(value: Any, agents: Mapping[Hashable, int]) -> bool:
    return isinstance(value, Hashable) and value in agents


def _name_of(source: Any) -> Any:
    return source if isinstance(source, str) else getattr(source, "__name__", type(source).__name__)


def _word_of(number: float) -> str:
    """Return a number as text, for a column that also holds texts."""
    return f"{number:.15g}"


def _decoded(column: _Column, values: NDArray[np.float64]) -> Any:
    """Return a column's values, with codes decoded to texts or booleans; None for a missing value."""
    if column.words is None:
        return values
    known = np.isfinite(values)
    words = [word == "True" for word in column.words] if column.are_flags else list(column.words)
    if column.are_flags and known.all() and words:
        return np.array(words)[values.astype(np.int64)]
    spoken = np.full(len(values), None, dtype=object)
    spoken[known] = [words[int(number)] for number in values[known].tolist()]
    return spoken
