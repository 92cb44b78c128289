"""Film time: the pace at which a run is shown, where the film pauses, and its captions.

`film_of` computes a table once for each run. GIF, MP4, pages and live messages all read this table, ``meta["film"]``:

``time``, ``film`` : list of float
    The run's time (s) and the film time (s) of each knot, at least two, both non-decreasing. Between two knots the
    run's time advances linearly. The film begins at 0 and ends at ``film[-1]``. Between two knots with equal ``time``
    the film pauses. A time is converted to film time by interpolation: a time at which the film pauses gives the start
    of the pause, and times beyond the ends are clipped.
``moments`` : list of dict, in order of time, at most 22
    ``time`` (s), ``film`` (its film time, s), ``stands`` (length of the pause, s), ``text`` (the caption), ``kind``
    (see `KINDS`), ``agents`` (numbers of the agents concerned), ``weight`` (importance, 2 to 9). Moments at the same
    time share one pause.
``held`` : float
    How long (s of film) a moment's text stays the caption, unless another moment follows sooner. After that, the
    caption names the frames in flight.
``most_film`` : float or None
    The length to which the film was shortened: only flights near moments, or followed flights, keep their full second.
    None: the film was not shortened, and every flight takes at least half a second.
``routine`` : list of int
    Numbers of the kinds of message whose flights take only half a second.
``follow`` : dict or None
    ``thing`` (the text to follow) and ``rows`` (the frames that carry it, in order of departure), see `followed`.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.replay.run_history import Cell, RunHistory, cells_of
from netsim.util import check

__all__ = ["KINDS", "MOST_FILM", "Film", "film_of", "followed", "listed"]

KINDS = ("fault", "note", "role", "token", "tree", "parent", "commit", "drop", "loss", "arrival")
"""The kinds of moments, in the order in which moments at the same time are listed."""

MOST_FILM = 240.0
"""A film that would be longer than this (s) is shortened at flights far from any moment."""

# In seconds of film: the durations of a flight and of a routine flight, and the grain to which a table with more than
# _MOST_KNOTS knots is thinned. Thinning shifts each end of a flight by at most _GRAIN, so half a second is left.
_FLIGHT, _ROUTINE, _GRAIN, _MOST_KNOTS = 1.0, 0.55, 0.02, 4000

# A viewer can follow _AT_ONCE simultaneous flights. With n flights, each takes √(n / _AT_ONCE) times as long. Beyond
# _CROWD flights, the film gets no slower, because a viewer cannot follow them anyway.
_AT_ONCE, _CROWD = 5, 80

# In seconds: the film's pause at a moment, its pause at a moment of little weight, and the time for which a moment's
# text stays the caption.
_STANDS, _STANDS_BRIEFLY, _HELD = 1.6, 0.8, 4.2

# _MOMENTS: the largest number of moments. _BEFORE, _AFTER: how many flights before and after a moment keep their full
# second in a shortened film. _BESIDE: the largest factor of the length of other flights if one thing is followed.
_MOMENTS, _BEFORE, _AFTER, _BESIDE = 22, 2, 6, 0.15

# For a film of selected moments: how many seconds are shown before a moment, and how many after its pause.
_LEAD, _TAIL = 1.2, 1.8

# _WITHOUT_FRAMES: the film's length (s) for a run without frames. _TREES: how many states of a tree are examined to
# find when half of the agents, or all, are in it.
_WITHOUT_FRAMES, _TREES = 30.0, 200

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Stretch = tuple[float, float]


@dataclass(frozen=True)
class _Moment:
    time: float
    kind: str
    text: str
    weight: float
    agents: tuple[int, ...] = ()


def film_of(run: RunHistory, follow: str | None = None, pace: float | None = None) -> dict[str, Any]:
    """Return the table of a run's film as JSON data; the module's docstring defines it.

    Parameters
    ----------
    run : RunHistory
        The run.
    follow : str, optional
        The text whose frames are followed (see `followed`): their flights take a second of film, others are shortened.
    pace : float, optional
        If given, the film has a constant pace of this many simulated seconds per second of film, without pauses.

    Raises
    ------
    BadInput
        If no frame carries the text ``follow``.
    """
    moments = _moments(run)
    path = None if follow is None else followed(run, follow)
    stops: dict[float, float] = {}
    for each in moments:
        stands = 0.0 if pace is not None else _STANDS if each.weight > 4 else _STANDS_BRIEFLY
        stops[each.time] = max(stops.get(each.time, 0.0), stands)
    if pace is not None:
        time, film, shortened = np.array([0.0, run.last]), np.array([0.0, run.last / pace]), False
    else:
        time, film, shortened = _pace(run, stops, path)
    table = {
        "time": time.tolist(),
        "film": np.round(film, 5).tolist(),
        "moments": [],
        "held": _HELD,
        "most_film": MOST_FILM if shortened else None,
        "routine": [] if run.routine is None else [run.kinds.index(run.routine)],
        "follow": None if path is None else {"thing": follow, "rows": path.tolist()},
    }
    at = Film(table).at
    table["moments"] = [
        asdict(each) | {"agents": list(each.agents), "film": float(at(each.time)), "stands": stops[each.time]}
        for each in moments
    ]
    return table


class Film:
    """Converts film time to a run's time and back, by the table of `film_of`.

    ``length`` is the film's length (s), ``moments`` are the table's moments, and ``path`` lists the rows of the
    followed frames.
    """

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._time, self._film = (np.asarray(table[name], dtype=np.float64) for name in ("time", "film"))
        self.length, self.moments = float(self._film[-1]), table["moments"]
        self.path: list[int] = (table["follow"] or {"rows": []})["rows"]

    def at(self, time: Any) -> Any:
        """Convert times of the run (s) to film times (s); a pause gives its start."""
        first = np.minimum(np.searchsorted(self._time, time, side="left"), len(self._time) - 1)
        return np.where(self._time[first] == time, self._film[first], np.interp(time, self._time, self._film))

    def leaves(self, time: Any) -> Any:
        """Convert times of the run (s) to film times (s); a pause gives its end, unlike `at`."""
        last = np.maximum(np.searchsorted(self._time, time, side="right") - 1, 0)
        return np.where(self._time[last] == time, self._film[last], np.interp(time, self._time, self._film))

    def time(self, film: Any) -> Any:
        """Convert film times (s) to times of the run (s)."""
        return np.interp(film, self._film, self._time)

    def rate(self, film: float) -> float:
        """Return the pace at a film time (s), in seconds of the run per second of film; 0 in a pause."""
        place = min(max(int(np.searchsorted(self._film, film, side="right")), 1), len(self._film) - 1)
        wide = self._film[place] - self._film[place - 1]
        return float((self._time[place] - self._time[place - 1]) / wide) if wide > 0 else 0.0

    def chosen(
        self, begin: float, end: float, most: float, flights: Iterable[tuple[float, float]] = ()
    ) -> list[Stretch]:
        """Select stretches of the film between two film times (s), with a total length of at most ``most`` (s).

        If all of it fits, return one stretch. Otherwise select the followed flights or, without them, the most
        important moments, and extend each stretch at its end until the limit is reached.
        """
        if end - begin <= most:
            return [(begin, end)]
        wanted = [(one - _LEAD, other + _TAIL) for one, other in flights]
        moments = sorted(self.moments, key=lambda each: (-each["weight"], each["time"]))
        wanted = wanted or [(each["film"] - _LEAD, each["film"] + each["stands"] + _TAIL) for each in moments]
        found: list[Stretch] = []
        for one, other in wanted:
            if begin <= one + _LEAD <= end:
                more = _together([*found, (max(one, begin), min(other, end))])
                found = more if _long(more) <= most else found

        def longer(by: float) -> list[Stretch]:
            return _together([(first, min(last + by, end)) for first, last in found or [(begin, begin)]])

        # Extend all stretches by the same length, as far as the limit permits.
        return longer(_greatest_that(lambda by: _long(longer(by)) <= most, end - begin))


def _greatest_that(fits: Callable[[float], bool], most: float) -> float:
    """Return the greatest number up to ``most`` for which ``fits`` is true; it must be true for all smaller numbers."""
    low, high = 0.0, most
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return most if fits(most) else low


def _long(spans: Sequence[Stretch]) -> float:
    return sum(last - first for first, last in spans)


def _together(spans: Sequence[Stretch]) -> list[Stretch]:
    """Sort spans by their starts, and merge overlapping spans."""
    found: list[Stretch] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def followed(run: RunHistory, thing: str) -> Ints:
    """Return the rows of the frames that carry ``thing``, in order of departure; raises BadInput if there are none.

    A frame carries the thing if its label equals the text ``thing`` or contains it as a word (words are separated by
    spaces, commas, brackets and quotes). If no label does, the frames whose kind is ``thing`` carry it.
    """
    separators = str.maketrans(dict.fromkeys(",()[]{}'\"", " "))
    carried = [text == thing or thing in text.translate(separators).split() for text in run.labels]
    found = np.zeros(len(run.columns["start"]), dtype=np.bool_)
    if any(carried) and "label" in run.columns:
        found = np.append(carried, False)[run.columns["label"]]
    if not found.any() and thing in run.kinds:
        found = run.columns["kind"] == run.kinds.index(thing)
    if not found.any():
        raise check.refuse("follow", thing, f"a word of a frame's label, or a kind: {', '.join(run.kinds) or 'none'}")
    rows = np.flatnonzero(found)
    return rows[np.argsort(run.columns["depart"][rows], kind="stable")]


# --- pace -------------------------------------------------------------------------------------------------------------


def _pace(run: RunHistory, stops: dict[float, float], path: Ints | None) -> tuple[Floats, Floats, bool]:
    """Return the knots of a film, and whether flights far from moments were shortened."""
    begin, end, need, rows = _flights(run)
    bends = [np.array(way, dtype=np.float64)[:, 0] for way in run.meta["paths"].values()]
    inner = np.concatenate([begin, end, list(stops), *bends])
    knots = np.unique(np.concatenate([[0.0, run.last], inner[(inner > 0) & (inner < run.last)]]))
    wide = np.diff(knots)
    busy = _needed(knots, begin, end, need)
    # The film time of an idle stretch grows with the logarithm of the stretch's length. It is longer in runs with
    # drawn timers or moving agents, because something changes even while no frame is in flight.
    is_patient = bool(run.drawn_as("arc") or run.meta["paths"])
    longest, factor = (1.6, 0.8) if is_patient else (0.7, 0.3)
    usual = float(np.median(end - begin)) if len(begin) else run.last / 20
    idle = np.minimum(longest, factor * np.log10(1 + wide / usual))
    if not len(begin):
        idle = _WITHOUT_FRAMES * wide / run.last
    film = np.where(busy > 0, busy, idle)
    shortened = path is not None or film.sum() + sum(stops.values()) > MOST_FILM
    if shortened:
        near = np.isin(rows, path) if path is not None else _near(begin, list(stops))
        kept = _needed(knots, begin[near], end[near], need[near])
        room, most = MOST_FILM - sum(stops.values()), 1.0 if path is None else _BESIDE
        share = _greatest_that(lambda share: float(np.maximum(kept, share * film).sum()) <= room, most)
        film = np.maximum(kept, share * film)
    reached = np.concatenate([[0.0], np.cumsum(film)])
    stands = np.zeros(len(knots))
    stands[np.searchsorted(knots, list(stops))] = list(stops.values())
    if len(knots) > _MOST_KNOTS:
        cell = np.floor(reached / _GRAIN)
        new = cell[1:] > cell[:-1]
        some = np.append(True, new) | np.append(new, True) | (stands > 0)
        knots, reached, stands = knots[some], reached[some], stands[some]
    # A pause needs a second knot with the same time.
    came, stopped = reached + np.cumsum(stands) - stands, np.flatnonzero(stands)
    film = np.insert(came, stopped + 1, came[stopped] + stands[stopped])
    return np.insert(knots, stopped + 1, knots[stopped]), film, shortened


def _flights(run: RunHistory) -> tuple[Floats, Floats, Floats, Ints]:
    """Return the start and end (s) of each flight, the film time (s) that it needs, and its row.

    On a shared medium, the frames of a broadcast form one flight, because they are drawn as one growing ring.
    """
    begin, end = run.columns["depart"], np.minimum(run.until, run.last)
    rows = np.flatnonzero(end > begin)
    if run.meta.get("medium") == "shared" and len(rows):
        sender, number = run.columns["sender"][rows].astype(np.int64), run.columns["number"][rows]
        order = np.lexsort([-end[rows], number, sender])
        new = (np.diff(sender[order], prepend=-1) != 0) | (np.diff(number[order], prepend=-1) != 0)
        rows = np.sort(rows[order[new]])
    is_routine = run.columns["kind"][rows] == (-1 if run.routine is None else run.kinds.index(run.routine))
    return begin[rows], end[rows], np.where(is_routine, _ROUTINE, _FLIGHT), rows


def _needed(knots: Floats, begin: Floats, end: Floats, need: Floats) -> Floats:
    """Return the film time (s) that flights need between successive knots.

    The flight that needs most film per second of the run decides; many simultaneous flights need more.
    """
    first, last = np.searchsorted(knots, begin), np.searchsorted(knots, end)
    count = len(knots)
    many = np.cumsum(np.bincount(first, minlength=count) - np.bincount(last, minlength=count))[:-1]
    rate = _greatest(first, last, need / (end - begin), count - 1)
    return rate * np.diff(knots) * np.sqrt(np.clip(many, _AT_ONCE, _CROWD) / _AT_ONCE)


def _greatest(first: Ints, last: Ints, value: Floats, count: int) -> Floats:
    """For each index below ``count``, return the greatest value of all ranges that contain the index.

    A range goes from ``first`` to before ``last``. It is covered by two overlapping blocks whose size is a power of
    two. Blocks are halved until they contain a single index each.
    """
    level = np.frexp((last - first).astype(np.float64))[1] - 1
    found = np.zeros(count)
    for power in range(int(level.max(initial=0)), -1, -1):
        some = level == power
        np.maximum.at(found, first[some], value[some])
        np.maximum.at(found, last[some] - (1 << power), value[some])
        if power:
            half = 1 << (power - 1)
            found = np.append(np.maximum(found[:half], 0.0), np.maximum(found[half:], found[:-half]))
    return found


def _near(begin: Floats, stops: list[float]) -> NDArray[np.bool_]:
    """Return whether each flight is among the `_BEFORE` flights before a pause or the `_AFTER` flights after it."""
    order = np.argsort(begin, kind="stable")
    at = np.searchsorted(begin[order], stops)
    places = (at[:, None] + np.arange(-_BEFORE, _AFTER)).ravel()
    found = np.zeros(len(begin), dtype=np.bool_)
    found[order[places[(places >= 0) & (places < len(begin))]]] = True
    return found


# --- moments ----------------------------------------------------------------------------------------------------------


def listed(names: Sequence[str]) -> str:
    """Join names for a sentence, such as ``2, 3 and 4``; more than six are replaced by their number."""
    if len(names) > 6:
        return f"{len(names)} agents"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""


def _moments(run: RunHistory) -> list[_Moment]:
    """Return the `_MOMENTS` moments of a run with the largest weights, in order of time.

    Repeated moments of one kind and weight lose weight. Functions that find moments of equal weight may therefore stop
    after the first `_MOMENTS`.
    """
    kinds: list[Callable[[RunHistory], Iterator[_Moment]]] = [_faults, _notes]
    # If only some state changes are kept, the first occurrence of an event is unknown.
    kinds += [] if run.meta["states"].get("thinned") else [_roles, _tokens, _trees, _parents, _strips]
    kinds += [] if run.meta.get("omitted") else [_frames]
    by_time: dict[tuple[float, str], list[_Moment]] = defaultdict(list)
    for each in (each for find in kinds for each in find(run)):
        if 0 <= each.time <= run.last:
            by_time[each.time, each.kind].append(each)
    found = []
    seen: dict[tuple[str, float], int] = defaultdict(int)
    for (time, kind), some in sorted(by_time.items(), key=lambda item: (item[0][0], KINDS.index(item[0][1]))):
        texts = list(dict.fromkeys(each.text for each in some))
        text = " · ".join(texts if len(texts) < 3 else [texts[0], f"and {len(texts) - 1} more"])
        weight = max(each.weight for each in some)
        seen[kind, weight] += 1
        weight -= min((seen[kind, weight] - 1) / 4, 3.0)
        found.append(_Moment(time, kind, text, weight, tuple(sorted({a for each in some for a in each.agents}))))
    found.sort(key=lambda each: (-each.weight, each.time))
    return sorted(found[:_MOMENTS], key=lambda each: (each.time, KINDS.index(each.kind)))


def _faults(run: RunHistory) -> Iterator[_Moment]:
    for fault in run.faults:
        agents = fault.agents or tuple(sorted({each for link in fault.links for each in link}))
        if fault.what != "Join":
            yield _Moment(fault.begin, "fault", fault.text, 9.0, agents)
        if fault.ends:
            over = "" if fault.what == "Join" else "Over: "
            yield _Moment(fault.end, "fault", over + fault.text, 8.0, agents)


def _notes(run: RunHistory) -> Iterator[_Moment]:
    by_text: dict[tuple[float, str], list[int]] = defaultdict(list)
    for time, agent, text in run.notes():
        by_text[time, text].append(agent)
    for (time, text), agents in itertools.islice(by_text.items(), _MOMENTS):
        yield _Moment(time, "note", f"{_names(run, agents)}: {text}", 8.0, tuple(agents))


def _roles(run: RunHistory) -> Iterator[_Moment]:
    noted = {(time, agent) for time, agent, _ in run.notes()}
    for name in run.drawn_as("role"):
        usual = run.usual(name)
        by_word: dict[tuple[float, str], list[int]] = defaultdict(list)
        for time, agent, value, _ in run.changes(name):
            if value is not None and value != usual and (time, agent) not in noted:
                by_word[time, value].append(agent)
        for (time, word), agents in itertools.islice(by_word.items(), _MOMENTS):
            said = f"{name} {word}" if word in ("True", "False") else word
            beside = {} if run.second is None else {run.value(run.second, agent, time) for agent in agents}
            more = next(iter(beside)) if len(beside) == 1 else None
            term = "" if more is None else f", {run.second} {more:g}" if isinstance(more, float) else f", {more}"
            verb = "are" if len(agents) > 1 else "is"
            yield _Moment(time, "role", f"{_names(run, agents)} {verb} now {said}{term}", 6.0, tuple(agents))


def _tokens(run: RunHistory) -> Iterator[_Moment]:
    for name in run.drawn_as("token"):
        taken = (change for change in run.changes(name) if change[2] in ("True", 1.0))
        for time, agent, *_ in itertools.islice(taken, _MOMENTS):
            yield _Moment(time, "token", f"{run.agents[agent]} has the {_plain(name)}", 5.0, (agent,))


def _trees(run: RunHistory) -> Iterator[_Moment]:
    """Yield the moments at which half of the agents, and all agents, first have a path to a root of a tree."""
    count = len(run.agents)
    for name in run.drawn_as("edge"):
        goals, looked, joined = [(0.5, 4.0), (1.0, 8.0)], 0, 0
        for time, some in itertools.groupby(run.changes(name, first=True), key=lambda change: change[0]):
            for _, agent, value, before in some:
                joined += (run.agent_named(agent, value) >= 0) - (run.agent_named(agent, before) >= 0)
            if not goals or looked > _TREES:
                break
            # Computing the tree is slow, so skip times when too few agents have an edge. A root has none, but at least
            # one child: so the agents in a tree are at most twice those with an edge.
            if 2 * joined < goals[0][0] * count:
                continue
            looked += 1
            down = {agent for agent in range(count) if run.down_at(agent, time)}
            ways = zip(range(count), *run.tree_at(name, time), strict=True)
            depths = [depth for *ends, depth in ways if down.isdisjoint(ends) and not math.isnan(depth)]
            reached = None
            while goals and len(depths) >= goals[0][0] * count:
                reached = goals.pop(0)
            if reached is not None:
                share, weight = reached
                who = f"All {count} agents" if share == 1.0 else f"{len(depths)} of {count} agents"
                # Edges of a state with another name need not form a tree.
                what = "are in the tree" if _plain(name) == "parent" else f"have a way to a root by {name}"
                deep = f", at most {max(depths):g} hops deep" if share == 1.0 else ""
                yield _Moment(time, "tree", f"{who} {what}{deep}", weight)


def _parents(run: RunHistory) -> Iterator[_Moment]:
    """Yield a moment for the changes of parents in each second or, in a short run, in each twentieth of the run."""
    wide = min(1.0, run.last / 20)
    for name in run.drawn_as("edge"):
        # Keys: the index of the second, and the old parent if it is down (else −1).
        bins: dict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
        for time, agent, value, before in run.changes(name):
            old, new = run.agent_named(agent, before), run.agent_named(agent, value)
            if old >= 0 and new >= 0 and old != new:
                is_down = run.down_at(old, time) is not None
                bins[math.floor(time / wide), old if is_down else -1].append((time, agent))
        for (_, down), some in bins.items():
            agents = list(dict.fromkeys(agent for _, agent in some))
            within = some[-1][0] - some[0][0]
            several = len(agents) > 1
            if _plain(name) == "parent":
                text = f"{_names(run, agents)} {'choose other parents' if several else 'chooses another parent'}"
            else:
                text = f"{_names(run, agents)} {'have' if several else 'has'} another {name}"
            text += f" within {within:.2g} s" if within > 0 else ""
            text += f" ({run.agents[down]} is down)" if down >= 0 else ""
            weight = 8.0 if down >= 0 else 5.0 if len(agents) > 6 else 2.0
            yield _Moment(some[0][0], "parent", text, weight, tuple(agents))


def _strips(run: RunHistory) -> Iterator[_Moment]:
    """Yield a moment for the first commit of each entry of a strip, and for each drop of entries."""
    for name in run.drawn_as("strip"):
        placed: dict[Any, dict[int, Cell]] = {None: {}}
        for value in dict.fromkeys(run.values[name]):
            first, cells = cells_of(value)
            placed[value] = dict(enumerate(cells, first))
        changes = [(time, agent, placed[now], placed[old]) for time, agent, now, old in run.changes(name, first=True)]
        fixed = {(place, cell) for *_, now, _ in changes for place, cell in now.items() if cell.fixed}
        most = 0
        for time, agent, now, before in changes:
            new = [place for place, cell in now.items() if cell.fixed and place >= most]
            if new:
                text = f"{run.agents[agent]} commits {listed([f'“{now[place].text}”' for place in new])}"
                yield _Moment(time, "commit", text, 5.0, (agent,))
                most = max(new) + 1
            old = [(place, replace(cell, fixed=True)) for place, cell in before.items() if place >= min(now, default=0)]
            gone = [each for each in old if each[0] not in now or replace(now[each[0]], fixed=True) != each[1]]
            if gone:
                words = listed([f"“{cell.text}”" for _, cell in gone])
                was = "never committed" if fixed.isdisjoint(gone) else "although committed"
                yield _Moment(time, "drop", f"{run.agents[agent]} drops {words}, {was}", 8.0, (agent,))


def _frames(run: RunHistory) -> Iterator[_Moment]:
    """Yield the first loss and the first arrival; with a single star, the first non-routine arrival at the star."""
    columns, in_flight = run.columns, run.causes.index("in_flight") if "in_flight" in run.causes else -1
    lost = np.flatnonzero((columns["cause"] > 0) & (columns["cause"] != in_flight))
    arrived = np.flatnonzero(columns["cause"] == 0)
    stars = {
        agent for name in run.drawn_as("star") for _, agent, value, _ in run.changes(name, True) if value == "True"
    }
    routine = -1 if run.routine is None else run.kinds.index(run.routine)
    at = arrived[np.isin(columns["receiver"][arrived], list(stars)) & (columns["kind"][arrived] != routine)]
    is_one = len(stars) == 1 and len(at) > 0
    if is_one:
        # The star may be a source that receives answers. Then the first frame of the kind comes from the star itself.
        is_one = int(columns["sender"][np.argmax(columns["kind"] == columns["kind"][at[0]])]) not in stars
    found = [(lost, "loss", 5.0, "The first frame does not arrive: {} from {} to {}, {}")]
    if is_one:
        found += [(at, "arrival", 6.0, "The first {0} arrives at {2}")]
    else:
        found += [(arrived, "arrival", 3.0, "The first frame arrives: {} from {} to {}")]
    for rows, kind, weight, text in found:
        if len(rows):
            row = int(rows[np.argmin(columns["end"][rows])])
            ends = int(columns["sender"][row]), int(columns["receiver"][row])
            what, names = run.kinds[columns["kind"][row]], [run.agents[each] for each in ends]
            cause = run.causes[columns["cause"][row]].replace("_", " ")
            yield _Moment(float(columns["end"][row]), kind, text.format(what, *names, cause), weight, ends)


def _plain(name: str) -> str:
    """Return a state's name in words: "token" for ``has_token``."""
    return name.rpartition(".")[2].removeprefix("is_").removeprefix("has_").replace("_", " ")


def _names(run: RunHistory, agents: Iterable[int]) -> str:
    return listed([run.agents[agent] for agent in agents])
