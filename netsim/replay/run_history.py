"""A run in the form that films need: the visible ends of frames, and each agent's states, faults and notes."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.draw import resolved, values_of

__all__ = ["Cell", "Fault", "RunHistory", "cells_of"]

# The faults during which an agent is down.
_DOWN = ("Crash", "Leave", "Join", "Empty")


@dataclass(frozen=True)
class Fault:
    """A fault of the run: its class, text, times (s), agents and links; ``end`` is the run's end if it did not end."""

    what: str
    text: str
    begin: float
    end: float
    ends: bool
    agents: tuple[int, ...]
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Cell:
    """An entry of a strip (a state drawn as a list, such as a log): its term, its text, and whether it is committed."""

    term: str
    text: str
    fixed: bool


class RunHistory:
    """A run's frames, states, faults and notes; the arguments are those of `netsim.replay.html.html`."""

    def __init__(self, meta: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> None:
        self.meta, self.columns = meta, columns
        self.draw = meta["draw"] if "draw" in meta else resolved(meta["states"], meta["agents"], {})
        self.agents: list[str] = list(meta["agents"])
        self._numbers = {name: number for number, name in enumerate(self.agents)}
        self.kinds: list[str] = list(meta["kinds"])
        self.causes: list[str] = list(meta["causes"])
        self.labels: list[str] = list(meta.get("labels", ()))
        # If a frame ends after the recorded end of the run, the run ends with this frame.
        self.ended_at = max(float(meta["ended_at"]), *(float(columns["end"].max(initial=0.0)), 0.0))
        self.faults = [_fault(each, self.ended_at) for each in meta.get("faults", ())]
        self.second: str | None = next(iter(self.drawn_as("badge")), None)

    # --- frames -------------------------------------------------------------------------------------------------------

    @cached_property
    def until(self) -> NDArray[np.float64]:
        """The times (s) until which frames are drawn on the map.

        A frame without delay is drawn until the end of its round. Kinds of message with replies are excepted, because
        a reply would leave before its request arrives.
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
        """The last time (s) that is shown: the end of the run, of its last frame on the map, or of its curves."""
        curves = [each for each in self.meta.get("curves", {}).get("x", ()) if each is not None]
        return max(self.ended_at, float(self.until.max(initial=0.0)), *curves[-1:]) or 1.0

    # --- states -------------------------------------------------------------------------------------------------------

    def drawn_as(self, kind: str) -> list[str]:
        """Return the names of the states that are drawn as ``kind``, such as "edge" (see `netsim.draw`)."""
        return [name for name, each in self.draw.items() if each["as"] == kind]

    @cached_property
    def values(self) -> dict[str, list[Any]]:
        """{name of a state: its value after each change, a word, a number or None}."""
        return {name: values_of(column) for name, column in self.meta["states"]["values"].items()}

    def value(self, name: str, agent: int, time: float) -> Any:
        """Return an agent's state at a time: a word, a number, or None."""
        times, rows = self._of_agents
        place = bisect_right(times[agent], time) - 1
        return self.values[name][rows[agent][place]] if place >= 0 else None

    @cached_property
    def _of_agents(self) -> tuple[list[list[float]], list[list[int]]]:
        """For each agent, the times (s) of its state changes, and the indices of these changes among all changes."""
        rows: list[list[int]] = [[] for _ in self.agents]
        for place, agent in enumerate(self.meta["states"]["agents"]):
            rows[agent].append(place)
        times = self.meta["states"]["times"]
        return [[times[place] for place in listed] for listed in rows], rows

    def changes(self, name: str, first: bool = False) -> Iterator[tuple[float, int, Any, Any]]:
        """Yield (time, agent, value, previous value) of each change of a state; with ``first``, also initial values.

        If a state of an agent changes several times at one instant, only the last value counts.
        """
        states = self.meta["states"]
        last = {
            (time, agent): value
            for time, agent, value in zip(states["times"], states["agents"], self.values[name], strict=True)
        }
        before: dict[int, Any] = {}
        for (time, agent), value in last.items():
            if value != before.get(agent) and (first or agent in before):
                yield time, agent, value, before.get(agent)
            before[agent] = value

    def agent_named(self, agent: int, value: Any) -> int:
        """Return the number of the agent named ``value``, to which an edge of ``agent`` points; -1 if there is none."""
        found = self._numbers.get(f"{value:g}" if isinstance(value, float) else value, -1)
        return -1 if found == agent else found

    def tree_at(self, name: str, time: float) -> tuple[list[int], list[float]]:
        """Return each agent's parent at a time (-1: none), and its depth in the tree (NaN: no path to a root)."""
        count = len(self.agents)
        parents = [self.agent_named(agent, self.value(name, agent, time)) for agent in range(count)]
        flags = self.drawn_as("star")
        stars = [any(self.value(flag, agent, time) in ("True", 1.0) for flag in flags) for agent in range(count)]
        depths = [math.nan] * count
        for agent in range(count):
            way = [agent]
            while parents[way[-1]] >= 0 and not stars[way[-1]] and len(way) <= count + 1:
                way.append(parents[way[-1]])
            if len(way) > count + 1 or not (stars[way[-1]] if any(stars) else way[-1] in parents):
                continue
            depths[agent] = len(way) - 1.0
        return parents, depths

    def usual(self, name: str) -> str | None:
        """Return the usual value of a role: the declared one, or else the most frequent initial value, if any."""
        found = self.meta["states"]["values"][name]
        begin: dict[int, Any] = {}
        for _, agent, value, _ in self.changes(name, first=True):
            begin.setdefault(agent, value)
        counts = Counter(begin.values())
        most = max(counts, key=lambda word: (counts[word], -found["words"].index(word)), default=None)
        usual: str | None = self.draw[name].get("usual", most)
        return usual

    @cached_property
    def routine(self) -> str | None:
        """The kind of message with most frames, which is shown as routine; None if there is only one kind."""
        counts = np.bincount(self.columns["kind"], minlength=len(self.kinds))
        return self.kinds[int(counts.argmax())] if len(self.kinds) > 1 else None

    # --- faults and notes ---------------------------------------------------------------------------------------------

    def down_at(self, agent: int, time: float) -> Fault | None:
        """Return the fault that keeps an agent down at a time (s); None if the agent is up."""
        downs = (each for each in self.faults if each.what in _DOWN and agent in each.agents)
        return next((each for each in downs if each.begin <= time and (time < each.end or not each.ends)), None)

    def notes(self) -> Iterator[tuple[float, int, str]]:
        """Yield (time in s, agent's number, text) of each note."""
        marks = self.meta.get("marks") or {"times": (), "agents": (), "texts": ()}
        yield from zip(marks["times"], marks["agents"], marks["texts"], strict=True)


def cells_of(value: Any) -> tuple[int, list[Cell]]:
    """Parse the value of a strip: return the number of entries before the shown ones, and the shown entries."""
    words = value.split(" ") if isinstance(value, str) and value != "-" else []
    first = int(words.pop(0)[1:]) if words and words[0].startswith("+") else 0
    parts = [word.removeprefix("!").partition("|") for word in words]
    return first, [Cell(term, text, word[0] == "!") for (term, _, text), word in zip(parts, words, strict=True)]


def _fault(found: Mapping[str, Any], ended_at: float) -> Fault:
    begin, end = found["begin"], found["end"]
    if found["what"] == "Join":
        # An agent that joins is absent until then, so its fault lasts from 0 to the join.
        begin, end = 0.0, begin if end is None else end
    until, links = ended_at if end is None else float(end), tuple((one, other) for one, other in found["links"])
    return Fault(found["what"], found["text"], float(begin), until, end is not None, tuple(found["agents"]), links)
