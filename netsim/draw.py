"""How replays draw the watched states of agents, as declared by a class (`netsim.Agent.draw`) or for one network.

``draw = {"role": Role(usual="follower"), "log": Strip(committed="commit")}`` on an agent's class maps a state's name to
its drawing. The state is the agent's attribute of this name, or the result of a given function of the agent. States are
watched in runs that keep a trace or are shown live.
"""

import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from netsim.errors import BadInput
from netsim.util import check

__all__ = [
    *(
        "Arc",
        "Badge",
        "Dim",
        "Draw",
        "Drawn",
        "Edge",
        "Gauge",
        "Kind",
        "Number",
        "Role",
        "Stack",
        "Star",
        "Strip",
        "Token",
    ),
    *("Cells", "DeclaredState", "cells_text", "check_draw", "declared", "drawn_by_radio", "named_kinds", "resolved"),
    *("source_of", "values_of"),
]

State = str | Callable[[Any], Any] | None

# The text forms of a boolean state.
_FLAGS = {"True", "False"}


@dataclass(frozen=True)
class Drawn:
    """Base class of drawings: each subclass is one way to draw a state.

    Parameters
    ----------
    state : str or callable, optional
        The name of an attribute, or a function of an agent; by default the attribute with the name of the column.
    """

    state: State = None
    # The accepted classes of values; the least and the greatest number; the description of allowed values in errors.
    _classes: ClassVar[Any] = object
    _limits: ClassVar[tuple[float, float] | None] = None
    _allowed: ClassVar[str] = ""

    def check(self, value: Any) -> bool:
        """Return whether this drawing accepts a value."""
        if self._limits is None:
            return isinstance(value, self._classes)
        number = check.measured(value)
        return number is not None and self._limits[0] <= number <= self._limits[1]

    def as_dict(self) -> dict[str, Any]:
        """Return the form used by the replay page: the class's name in lower case as ``as``, and the settings."""
        read = ("state", "committed")
        more = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in read}
        return {"as": type(self).__name__.lower()} | {name: value for name, value in more.items() if value is not None}


@dataclass(frozen=True)
class Edge(Drawn):
    """An arrow to the agent that the state names; its width shows the size of the subtree, its colour the depth.

    Parameters
    ----------
    state : str or callable, optional
        See `Drawn`.
    colour : bool, optional
        Whether the depth along this edge colours the agents. At most one edge can do so; by default the first.
    """

    colour: bool | None = None
    _allowed = "the name of an agent, or None"


@dataclass(frozen=True)
class Star(Drawn):
    """A star in place of the agent's circle while a flag is set, for example for a sink or a source."""

    _classes = bool | np.bool_
    _allowed = "True or False"


@dataclass(frozen=True)
class Token(Star):
    """A coin beside the agent while a flag is set, for tokens that move between agents."""


@dataclass(frozen=True)
class Role(Drawn):
    """A text state as the shape and colour of the agent.

    Parameters
    ----------
    state : str or callable, optional
        See `Drawn`.
    usual : str, optional
        The text drawn in grey; by default the one that most agents have at the start.
    """

    usual: str | None = None


@dataclass(frozen=True)
class Badge(Drawn):
    """A text or number below the agent, after its role."""


@dataclass(frozen=True)
class Number(Drawn):
    """A number as the agent's colour; a short number is also written below the agent.

    Parameters
    ----------
    state : str or callable, optional
        See `Drawn`.
    middle : float, optional
        The number at the middle of the colour scale, which then has two colours.
    """

    middle: float | None = None
    _allowed = "a number"

    def check(self, value: Any) -> bool:
        """Return whether the value is a number."""
        return check.measured(value) is not None


@dataclass(frozen=True)
class Stack(Drawn):
    """A count as a pile to the right of the agent; counts of 7 or more are also written as a number."""

    _limits = 0.0, math.inf
    _allowed = "a count of at least 0"


@dataclass(frozen=True)
class Gauge(Drawn):
    """A value from 0 to 1 as a bar to the left of the agent, red below 0.2."""

    _limits = 0.0, 1.0
    _allowed = "a share from 0 to 1"


@dataclass(frozen=True)
class Dim(Star):
    """A pale agent while a flag is set, for example while it sleeps."""


@dataclass(frozen=True)
class Arc(Drawn):
    """The time (s) of a future event as a ring that shrinks until then; infinity means never."""

    _limits = -math.inf, math.inf
    _allowed = "a time (s)"


@dataclass(frozen=True)
class Strip(Drawn):
    """A list as a row of cells, aligned by index; an entry may be a pair of a term, shown as colour, and a value.

    The last 64 entries are shown, each with at most 12 characters.

    Parameters
    ----------
    state : str or callable, optional
        See `Drawn`.
    committed : str or callable, optional
        The number of committed entries, counted from the first: they are drawn solid, the others dashed.
    """

    committed: str | Callable[[Any], Any] | None = None
    _classes = (list, tuple)
    _allowed = "a list or tuple"


@dataclass(frozen=True)
class Kind(Drawn):
    """Not a state, but the displayed name of a kind of message, for kinds that are single letters.

    Parameters
    ----------
    state : str
        The displayed name.
    """

    def as_dict(self) -> dict[str, Any]:
        """Return the form used by the replay page, as `Drawn.as_dict` does."""
        return {"as": "kind", "word": self.state}


Draw = Mapping[str, Drawn | None]
"""The drawing of each state, by column; None: the state is not drawn."""

_SHOWN, _LONGEST = 64, 12


def check_draw(draw: Any) -> dict[str, Drawn | None]:
    """Validate declarations and return them; raise BadInput if one is invalid, or if two edges both set the colour."""
    if not isinstance(draw, Mapping) or not all(isinstance(each, Drawn | None) for each in draw.values()):
        raise check.refuse("draw", draw, "{state: how it is drawn}, as {'role': Role()}; None for not at all")
    colours = [name for name, each in draw.items() if isinstance(each, Edge) and each.colour]
    if len(colours) > 1:
        raise BadInput(f"draw: {colours[0]} and {colours[1]}: must be one Edge that gives the colour")
    return dict(draw)


def declared(agents: Iterable[Any]) -> dict[str, tuple[Drawn, Callable[[Any], Any]]]:
    """Return the drawing and the reading function of each state that the agents' classes declare.

    The state of a mote's part is named ``part.state``. The function returns None for an agent whose class does not
    declare the state.
    """
    found: dict[str, Drawn] = {}
    functions: dict[str, dict[type, Callable[[Any], Any]]] = {}
    seen = set()
    for agent in agents:
        for part, member in {"": agent, **agent._members()}.items():
            if (part, type(member)) in seen or not (drawn := getattr(type(member), "draw", None)):
                continue
            seen.add((part, type(member)))
            for name, each in check_draw(drawn).items():
                column = f"{part}.{name}" if part else name
                if each is not None:
                    found.setdefault(column, each)
                    functions.setdefault(column, {})[type(member)] = source_of(name, each)
    return {column: (each, DeclaredState(column, functions[column])) for column, each in found.items()}


class DeclaredState:
    """Reads a state that the class of an agent, or of a mote's part, declares; None for any other class.

    Parameters
    ----------
    column : str
        The state's column; for a mote's part, the part's name and a dot precede it.
    functions : mapping
        The function that reads the state, keyed by the class of the agent or part.
    """

    def __init__(self, column: str, functions: Mapping[type, Callable[[Any], Any]]) -> None:
        self._part, self._functions = column.rpartition(".")[0], functions

    def _member(self, agent: Any) -> Any:
        return agent._members().get(self._part) if self._part else agent

    def is_of(self, agent: Any) -> bool:
        """Return whether the agent's class declares the state."""
        return type(self._member(agent)) in self._functions

    def __call__(self, agent: Any) -> Any:
        """Return the state; raise AttributeError, with the agent as its ``obj``, if the agent has not set it yet."""
        member = self._member(agent)
        function = self._functions.get(type(member))
        try:
            return None if function is None else function(member)
        except AttributeError as error:
            if error.obj is not member:
                raise
            raise AttributeError(str(error), name=error.name, obj=agent) from None


def drawn_by_radio(medium: Any) -> dict[str, tuple[Drawn, Callable[[Any], Any]]]:
    """Return the default drawings and reading functions for nodes of a `netsim.Radio`: sleep, and battery charge.

    Both are read when an agent's code runs, because only that code switches its radio.
    """
    if isinstance(medium, str):
        return {}
    switched: set[Hashable] = set()

    def is_asleep(agent: Any) -> bool | None:
        # None until an agent has switched its radio off, so that runs in which no radio sleeps have no such state.
        context = agent._netsim
        is_off = context.radio is not None and context.radio.is_off
        if is_off:
            switched.add(context.name)
        return is_off if context.name in switched else None

    found: dict[str, tuple[Drawn, Callable[[Any], Any]]] = {"asleep": (Dim(), is_asleep)}
    if medium.energy is not None:
        found["battery"] = Gauge(), _battery
    return found


def _battery(agent: Any) -> float | None:
    """Return the share of energy left in a battery, in steps of 2 %; None on mains."""
    account = agent._netsim.energy
    whole = None if account is None else account.whole
    return None if whole is None else round(50 * account.left / whole) / 50


def source_of(name: str, drawn: Drawn) -> Callable[[Any], Any]:
    """Return the function that reads a state, as `Drawn` describes; ``name`` is its column."""
    state = name if drawn.state is None else drawn.state
    read = operator.attrgetter(state) if isinstance(state, str) else state
    if not isinstance(drawn, Strip):
        return read
    committed = operator.attrgetter(drawn.committed) if isinstance(drawn.committed, str) else drawn.committed
    return lambda agent: Cells(read(agent), None if committed is None else committed(agent))


@dataclass(frozen=True)
class Cells:
    """The entries of a `Strip` at one time, and the number of committed ones (None: unknown)."""

    entries: Any
    committed: Any = None


def cells_text(drawn: Strip, cells: Cells) -> str | None:
    """Return a strip's entries as text; None if they are not a list.

    Each entry is written as ``term|entry``, with ``!`` in front if it is committed. Spaces separate entries.

    Raises
    ------
    BadInput
        If the number of committed entries exceeds the number of entries.
    """
    entries, committed = cells.entries, check.measured(cells.committed)
    if not drawn.check(entries):
        return None
    if committed is not None and not 0 <= committed <= len(entries):
        raise check.refuse("committed", cells.committed, f"from 0 to the strip's length of {len(entries)}")
    first = max(len(entries) - _SHOWN, 0)
    words = [f"+{first}"] if first else []
    for place, entry in enumerate(entries[first:], first):
        term, said = entry if isinstance(entry, tuple) and len(entry) == 2 else ("", entry)
        text = str(said)[:_LONGEST].replace(" ", "\u00a0").replace("|", "\u00a6")
        fixed = "!" if committed is not None and place < committed else ""
        words.append(f"{fixed}{str(term)[:_LONGEST].replace(' ', '')}|{text}")
    # Return "-" for an empty list, because an empty text would mean that there is no state.
    return " ".join(words) or "-"


def named_kinds(kinds: Iterable[str], draw: Mapping[str, Any]) -> list[str]:
    """Return message kinds with declared names (`Kind`) replaced by these, unless another kind has the same name."""
    words = {name.rpartition(".")[2]: each["word"] for name, each in draw.items() if each and each["as"] == "kind"}
    named = {kind: words.get(kind, kind) for kind in kinds}
    return [word if [*named.values()].count(word) == 1 else kind for kind, word in named.items()]


def resolved(states: Mapping[str, Any], agents: Sequence[Hashable], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the drawing of each state of a page, keyed by column, as JSON data.

    Parameters
    ----------
    states : mapping
        The states in the page's form: ``agents``, and ``values`` by column, which are numbers, or ``words`` and
        ``codes``.
    agents : sequence
        The agents' names as text.
    given : mapping
        The declarations: ``as_dict`` of a `Drawn`, or None for states not to draw. States without a declaration get a
        drawing that fits their values.
    """
    names = set(agents)
    found = {}
    for column, values in states["values"].items():
        drawn = given[column] if column in given else _usual(values_of(values), states["agents"], names, len(agents))
        if drawn is not None:
            found[column] = dict(drawn)
    kinds = [each["as"] for each in found.values()]
    if "role" in kinds and "badge" not in kinds:
        role = [*found][kinds.index("role")]
        rest = (
            name
            for name, each in found.items()
            if name != role and name not in given and _is_short(each, values_of(states["values"][name]))
        )
        if (beside := next(rest, None)) is not None:
            found[beside] = {"as": "badge"}
    edges = [each for each in found.values() if each["as"] == "edge"]
    # The edge declared to set the colour, otherwise the first edge that does not declare whether it does.
    chosen = next((each for said in (True, None) for each in edges if each.get("colour") is said), None)
    for each in edges:
        each["colour"] = each is chosen
    return found


def values_of(column: Any) -> list[Any]:
    """Return a state's value at each change (text, number or None), given as numbers or as ``words`` and ``codes``."""
    if isinstance(column, Mapping):
        return [column["words"][code] if code >= 0 else None for code in column["codes"]]
    return [None if each is None or not math.isfinite(each) else float(each) for each in column]


def _usual(values: list[Any], changed: Sequence[int], names: set[Hashable], agents: int) -> dict[str, Any] | None:
    """Return the default drawing of an undeclared state; None if it has no value."""
    found = {each for each in values if each is not None}
    if not found:
        return None
    if not all(isinstance(each, str) for each in found):
        return {"as": "number"}
    if found <= _FLAGS:
        had: dict[int, set[str | None]] = {}
        holding: set[int] = set()
        at_once = 0
        for agent, value in zip(changed, values, strict=True):
            had.setdefault(agent, set()).add(value)
            (holding.add if value == "True" else holding.discard)(agent)
            at_once = max(at_once, len(holding))
        ever = [each for each in had.values() if "True" in each]
        if len(ever) == 1 and agents > 1 and ever[0] == {"True"}:
            return {"as": "star"}
        # A flag that at most one agent has at a time, and that moves between agents, is a token.
        return {"as": "token" if len(ever) > 1 and at_once == 1 else "role"}
    return {"as": "edge" if len(found) > 1 and found <= names else "role"}


def _is_short(drawn: Mapping[str, Any], values: list[Any]) -> bool:
    """Return whether a state's texts, or whole numbers, are short enough to be shown beside a role."""
    is_whole = (each is None or (each == int(each) and abs(each) < 1e4) for each in values)
    return drawn["as"] == "role" or (drawn["as"] == "number" and all(is_whole))
