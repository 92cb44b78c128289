"""A run for pictures: the frames in an interval of time, and each agent's states, faults and notes."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.draw import resolved

__all__ = ["DOWN", "Cell", "Fault", "RunHistory", "Span", "Tree", "cells_of", "few", "seconds"]

DOWN = ("Crash", "Leave", "Join", "Empty")
"""The faults during which an agent is down."""

# The links that a fault of these cuts are down.
_CUTS = ("LinkDown", "Partition", "SetLink")


@dataclass(frozen=True)
class Span:
    """A state of an agent from a time to another (s): its ``word`` (None: it has none), or ``number`` (NaN), and more.

    ``rest`` is the text of the second watched state, as ``t2`` of a term.
    """

    begin: float
    end: float
    word: str | None
    number: float
    rest: str = ""

    @property
    def text(self) -> str:
        """Return the word and the rest."""
        return f"{self.word} {self.rest}".strip() if self.word is not None else self.rest


@dataclass(frozen=True)
class Fault:
    """A fault that happened: its class, text, times (s; the end of the run if it did not end), agents, links, sides."""

    what: str
    text: str
    begin: float
    end: float
    ends: bool
    agents: tuple[int, ...]
    links: tuple[tuple[int, int], ...]
    sides: tuple[tuple[int, ...], ...]

    def separates(self, one: int, other: int) -> bool:
        """Return whether a partition has two agents on different sides."""
        where = [next((i for i, side in enumerate(self.sides) if each in side), -1) for each in (one, other)]
        return bool(self.sides) and where[0] != where[1]


@dataclass(frozen=True)
class Tree:
    """Edges at a time: each agent's parent (-1: none), depth (NaN: no way to a root), and how many hang on it."""

    parents: list[int]
    depths: list[float]
    sizes: list[int]


@dataclass(frozen=True)
class Cell:
    """An entry of a strip, its term, and whether it stands for ever."""

    term: str
    text: str
    fixed: bool


class RunHistory:
    """A run's frames, states, faults and notes; the arguments are those of `netsim.replay.html.html`."""

    def __init__(self, meta: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> None:
        self.meta, self.columns = meta, columns
        self.draw = meta["draw"] if "draw" in meta else resolved(meta["states"], meta["agents"], {})
        self._values: dict[str, list[Any]] = {}
        self.title, self.command = str(meta["title"]), str(meta["command"])
        self.agents: list[str] = list(meta["agents"])
        self.kinds: list[str] = list(meta["kinds"])
        self.causes: list[str] = list(meta["causes"])
        self.labels: list[str] = list(meta.get("labels", ()))
        # What ended as a run ended was there until then.
        self.ended_at = max(float(meta["ended_at"]), *(float(columns["end"].max(initial=0.0)), 0.0))
        self.faults = [_fault(each, self.ended_at) for each in meta.get("faults", ())]
        self.state, self.tree, self.second = self._chosen()

    # --- frames -------------------------------------------------------------------------------------------------------

    def rows(self, begin: float, end: float) -> NDArray[np.int64]:
        """Return the frames that are under way at some time of a stretch, or end in it."""
        inside = (self.columns["depart"] <= end) & (self.until >= begin)
        return np.flatnonzero(inside)

    @cached_property
    def until(self) -> NDArray[np.float64]:
        """Until when frames are drawn on the map: one that takes no time, in a round, is seen until the round's end.

        Not where agents answer: an answer would leave before its question came.
        """
        columns, period = self.columns, float(self.meta["round_period"])
        end: NDArray[np.float64] = columns["end"]
        if not self.meta["rounds"] or period <= 0:
            return end
        answered = np.unique(columns["kind"][columns["reply"] == 1])
        some = (columns["cause"] == 0) & (end <= columns["start"]) & (columns["round"] > 0)
        some &= ~np.isin(columns["kind"], answered)
        closes = (np.floor(columns["start"] / period + 1e-9) + 1) * period
        return np.where(some, np.maximum(closes, columns["start"]), end)

    @cached_property
    def last(self) -> float:
        """The last time that is shown (s): the run's end, that of its last frame on the map, or of its curves."""
        curves = [each for each in self.meta.get("curves", {}).get("x", ()) if each is not None]
        return max(self.ended_at, float(self.until.max(initial=0.0)), *curves[-1:]) or 1.0

    @cached_property
    def flight(self) -> float:
        """How long frames fly (s): the median of those that arrived; 0 if that is unknown."""
        arrived = (self.columns["cause"] == 0) & (self.columns["end"] > self.columns["depart"])
        flights = (self.columns["end"] - self.columns["depart"])[arrived]
        return float(np.median(flights)) if len(flights) else 0.0

    @cached_property
    def overtook(self) -> NDArray[np.bool_]:
        """Whether frames overtook another of their link: they left later, and arrived earlier."""
        columns = self.columns
        arrived = np.flatnonzero(columns["cause"] == 0)
        order = arrived[np.lexsort([columns[name][arrived] for name in ("depart", "receiver", "sender")])]
        found = np.zeros(len(columns["start"]), dtype=np.bool_)
        links = columns["sender"][order].astype(np.int64) * len(self.agents) + columns["receiver"][order]
        for rows in np.split(order, np.flatnonzero(np.diff(links)) + 1):
            ends = columns["end"][rows]
            found[rows[1:]] = ends[1:] < np.maximum.accumulate(ends)[:-1]
        return found

    def label(self, row: int) -> str:
        """Return the label of a frame, or nothing."""
        number = int(self.columns["label"][row]) if "label" in self.columns else -1
        return self.labels[number] if number >= 0 else ""

    # --- states -------------------------------------------------------------------------------------------------------

    def drawn_as(self, kind: str) -> list[str]:
        """Return the states that are drawn as something (`netsim.draw`)."""
        return [name for name, each in self.draw.items() if each["as"] == kind]

    def values(self, name: str) -> list[Any]:
        """Return the values of a state, one for each change: words, numbers, or None."""
        if name not in self._values:
            self._values[name] = _values(self.meta["states"]["values"][name])
        return self._values[name]

    def value(self, name: str, agent: int, time: float) -> Any:
        """Return an agent's state at a time: a word, a number, or None."""
        times, rows = self._of_agents
        place = bisect_right(times[agent], time) - 1
        return self.values(name)[rows[agent][place]] if place >= 0 else None

    def since(self, name: str, agent: int, time: float) -> tuple[Any, float, Any]:
        """Return a state, since when (s) it is that, and what it was before."""
        values, times, rows = self.values(name), self._of_agents[0][agent], self._of_agents[1][agent]
        place = bisect_right(times, time) - 1
        if place < 0:
            return None, 0.0, None
        value = values[rows[place]]
        while place > 0 and values[rows[place - 1]] == value:
            place -= 1
        return value, times[place], values[rows[place - 1]] if place else None

    @cached_property
    def _of_agents(self) -> tuple[list[list[float]], list[list[int]]]:
        """The times of each agent's changes, and their places among all changes."""
        rows: list[list[int]] = [[] for _ in self.agents]
        for place, agent in enumerate(self.meta["states"]["agents"]):
            rows[agent].append(place)
        times = self.meta["states"]["times"]
        return [[times[place] for place in listed] for listed in rows], rows

    def changes(self, name: str, first: bool = False) -> Iterator[tuple[float, int, Any, Any]]:
        """Yield time, agent, value and value before of a state's changes; with ``first``, also what each begins with.

        Of several of an agent at one instant the last counts.
        """
        states = self.meta["states"]
        last = {
            (time, agent): value
            for time, agent, value in zip(states["times"], states["agents"], self.values(name), strict=True)
        }
        before: dict[int, Any] = {}
        for (time, agent), value in last.items():
            if value != before.get(agent) and (first or agent in before):
                yield time, agent, value, before.get(agent)
            before[agent] = value

    def has(self, kind: str, agent: int, time: float) -> bool:
        """Return whether an agent has a flag at a time."""
        return any(self.value(name, agent, time) in ("True", 1.0) for name in self.drawn_as(kind))

    def agent_named(self, agent: int, value: Any) -> int:
        """Return the agent to which an edge of an agent leads; -1 for none."""
        found = self._numbers.get(f"{value:g}" if isinstance(value, float) else value, -1)
        return -1 if found == agent else found

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.agents)}

    def tree_at(self, name: str, time: float) -> Tree:
        """Return the edges of a state at a time."""
        count = len(self.agents)
        parents = [self.agent_named(agent, self.value(name, agent, time)) for agent in range(count)]
        stars = [self.has("star", agent, time) for agent in range(count)]
        depths, sizes = [math.nan] * count, [0] * count
        for agent in range(count):
            way = [agent]
            while parents[way[-1]] >= 0 and not stars[way[-1]] and len(way) <= count + 1:
                way.append(parents[way[-1]])
            if len(way) > count + 1 or not (stars[way[-1]] if any(stars) else way[-1] in parents):
                continue
            depths[agent] = len(way) - 1.0
            for each in way:
                sizes[each] += 1
        return Tree(parents, depths, sizes)

    def _chosen(self) -> tuple[str | None, str | None, str | None]:
        """Return the names of the state that colours agents, or of the tree whose depths do, and of the one beside."""
        roles, numbers = self.drawn_as("role"), self.drawn_as("number")
        trees = [name for name in self.drawn_as("edge") if self.draw[name].get("colour")]
        beside = next(iter(self.drawn_as("badge")), None)
        if roles or not trees:
            return next(iter(roles or numbers), None), None, beside
        return None, trees[0], beside

    def usual(self, name: str) -> str | None:
        """Return a role's usual word: as declared, or that in which most agents begin; None without words."""
        found = self.meta["states"]["values"][name]
        begin: dict[int, Any] = {}
        for _, agent, value, _ in self.changes(name, first=True):
            begin.setdefault(agent, value)
        counts = Counter(begin.values())
        most = max(counts, key=lambda word: (counts[word], -found["words"].index(word)), default=None)
        usual: str | None = self.draw[name].get("usual", most)
        return usual

    @property
    def has_words(self) -> bool:
        """Return whether the state that is shown is a category."""
        return self.state is not None and isinstance(self.meta["states"]["values"][self.state], Mapping)

    @cached_property
    def words(self) -> list[str]:
        """Return the words of the state that is shown: that in which most agents begin, then those that follow."""
        if not self.has_words:
            return []
        found = self.meta["states"]["values"][self.state]
        usual = self.usual(str(self.state))
        first = [] if usual is None else [usual]
        return list(dict.fromkeys(first + [found["words"][code] for code in found["codes"] if code >= 0]))

    @cached_property
    def routine(self) -> str | None:
        """Return the kind of most frames, where there are several kinds: it is routine."""
        counts = np.bincount(self.columns["kind"], minlength=len(self.kinds))
        return self.kinds[int(counts.argmax())] if len(self.kinds) > 1 else None

    @cached_property
    def extent(self) -> tuple[float, float]:
        """Return the least and the greatest number of the state that is shown; NaN if there is none."""
        numbers = [each.number for spans in self.spans for each in spans if math.isfinite(each.number)]
        low, high = (min(numbers), max(numbers)) if numbers else (math.nan, math.nan)
        if self.middle is None:
            return low, high
        far = max(high - self.middle, self.middle - low)
        return self.middle - far, self.middle + far

    @cached_property
    def middle(self) -> float | None:
        """The number in the middle of a scale of two colours; None for a scale from few to many."""
        return None if self.state is None else self.draw[self.state].get("middle")

    @cached_property
    def spans(self) -> list[list[Span]]:
        """Return the states of each agent, in order of time."""
        changes: list[list[tuple[float, Any, str]]] = [[] for _ in self.agents]
        states = self.meta["states"]
        values = self.values(self.state) if self.state is not None else []
        seconds = self.values(self.second) if self.second is not None else []
        initial = self.second[0] if self.second else ""
        for place, (time, agent) in enumerate(zip(states["times"], states["agents"], strict=True)):
            if not values:
                break
            more = seconds[place] if seconds else None
            rest = "" if more is None else f"{initial}{more:g}" if isinstance(more, float) else str(more)
            changes[agent].append((time, values[place], rest))
        return [list(_spans(listed, self.ended_at)) for listed in changes]

    def span_at(self, agent: int, time: float) -> Span | None:
        """Return an agent's state at a time, if it has one."""
        place = bisect_right(self._begins[agent], time) - 1
        return self.spans[agent][place] if place >= 0 else None

    @cached_property
    def _begins(self) -> list[list[float]]:
        return [[each.begin for each in spans] for spans in self.spans]

    # --- faults and notes ---------------------------------------------------------------------------------------------

    def down(self, agent: int) -> list[Fault]:
        """Return the faults for which an agent was down, in order of time."""
        return [each for each in self.faults if each.what in DOWN and agent in each.agents]

    def down_at(self, agent: int, time: float) -> Fault | None:
        """Return the fault for which an agent is down at a time."""
        return next((each for each in self.down(agent) if _holds(each, time)), None)

    def going_on(self, time: float) -> list[Fault]:
        """Return the faults that go on at a time."""
        return [each for each in self.faults if _holds(each, time)]

    def cut_at(self, time: float) -> set[tuple[int, int]]:
        """Return the directed links that are cut at a time."""
        return {link for each in self.going_on(time) if each.what in _CUTS for link in each.links}

    def partition(self, time: float, one: int, other: int) -> Fault | None:
        """Return the partition that separates two agents at a time."""
        return next((each for each in self.going_on(time) if each.separates(one, other)), None)

    def partitions(self, begin: float, end: float) -> list[Fault]:
        """Return the partitions in a stretch of time."""
        return [each for each in self.faults if each.sides and each.begin <= end and each.end >= begin]

    def notes(self) -> Iterator[tuple[float, int, str]]:
        """Yield the agents' notes: times (s), agents, texts."""
        marks = self.meta.get("marks") or {"times": (), "agents": (), "texts": ()}
        yield from zip(marks["times"], marks["agents"], marks["texts"], strict=True)

    # --- places -------------------------------------------------------------------------------------------------------

    def places(self, time: float) -> NDArray[np.float64]:
        """Return where agents are at a time, shape (agents, 2)."""
        places = np.array(self.meta["positions"], dtype=np.float64).reshape(-1, 2)
        for agent, path in self.meta["paths"].items():
            points = np.array(path, dtype=np.float64)
            places[int(agent)] = [np.interp(time, points[:, 0], points[:, axis]) for axis in (1, 2)]
        return places

    @property
    def everywhere(self) -> NDArray[np.float64]:
        """Return all places where agents are at some time, shape (places, 2)."""
        paths = [np.array(path, dtype=np.float64)[:, 1:] for path in self.meta["paths"].values()]
        return np.concatenate([self.places(0.0), *paths])


def cells_of(value: Any) -> tuple[int, list[Cell]]:
    """Return how many entries of a strip come before those that are shown, and these."""
    words = value.split(" ") if isinstance(value, str) and value != "-" else []
    first = int(words.pop(0)[1:]) if words and words[0].startswith("+") else 0
    parts = [word.removeprefix("!").partition("|") for word in words]
    return first, [Cell(term, text, word[0] == "!") for (term, _, text), word in zip(parts, words, strict=True)]


def few(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return some rows, or ``most`` of them, evenly."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).round().astype(np.int64)]


def seconds(time: float, span: float, step: float | None = None) -> str:
    """Return a time as text, in ms in a stretch of less than 2 s, with the digits that steps of it need."""
    step = span / 100 if step is None else step
    if span < 2.0:
        return f"{time * 1e3:,.{_digits(step * 1e3)}f} ms"
    return f"{time:,.{_digits(step)}f} s"


def _digits(step: float) -> int:
    return max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 3


def _holds(fault: Fault, time: float) -> bool:
    return fault.begin <= time and (time < fault.end or not fault.ends)


def _fault(found: Mapping[str, Any], ended_at: float) -> Fault:
    begin, end = found["begin"], found["end"]
    if found["what"] == "Join":
        # Before it joined an agent was not there.
        begin, end = 0.0, begin if end is None else end
    ends = end is not None
    return Fault(
        str(found["what"]),
        str(found["text"]),
        float(begin),
        float(end) if ends else ended_at,
        ends,
        tuple(found["agents"]),
        tuple((one, other) for one, other in found["links"]),
        tuple(tuple(side) for side in found.get("sides") or ()),
    )


def _values(column: Any) -> list[Any]:
    """Return a state's values: words, numbers, or None."""
    if isinstance(column, Mapping):
        return [column["words"][code] if code >= 0 else None for code in column["codes"]]
    return [None if each is None or not math.isfinite(each) else float(each) for each in column]


def _spans(changes: Sequence[tuple[float, Any, str]], ended_at: float) -> Iterator[Span]:
    """Yield the spans between changes; of several at one instant the last counts."""
    ends = [time for time, *_ in changes[1:]] + [max(ended_at, changes[-1][0])] if changes else []
    last = len(changes) - 1
    for place, ((begin, value, rest), end) in enumerate(zip(changes, ends, strict=True)):
        if end > begin or place == last:
            number = value if isinstance(value, float) else math.nan
            yield Span(begin, end, value if isinstance(value, str) else None, number, rest)
