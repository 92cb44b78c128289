"""Write the page of a run atomically: frames, title, curves, states and notes."""

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim import core
from netsim._version import __version__
from netsim.accounting.captions import NOTED
from netsim.accounting.run_metadata import RunMetadata
from netsim.core.records import ALL_CAUSES, as_column, totals_of
from netsim.draw import Draw, check_draw, named_kinds, resolved
from netsim.errors import BadInput
from netsim.radio.medium import ACK
from netsim.replay.film import film_of
from netsim.replay.frames import MOST, Columns, Log, Reader, frames_of
from netsim.replay.html import html
from netsim.replay.run_history import RunHistory
from netsim.util import check
from netsim.util.files import write_pieces
from netsim.util.short_text import cut
from netsim.watch import LONGEST_WORD, STRIPS

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 2000
"""The largest number of rows of curves in a page."""

MOST_CHANGES = 200_000
"""The largest number of state changes in a page, which always has the first and the last change of each agent."""

# The columns of rounds.csv that every run has.
_EVERY_RUN = frozenset(totals_of(ALL_CAUSES))

# The largest numbers of agents for the two slow layouts, by distances and by springs. Larger graphs become a circle.
_BY_DISTANCE, _BY_SPRINGS = 150, 1000


@dataclass(frozen=True)
class About:
    """Information for a page that the run's trace does not contain.

    It consists of a title, the command that made the run, versions, notes, and the study's question in one sentence.
    """

    title: str = ""
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=lambda: {"netsim": __version__, "core": core.NAME})
    notes: tuple[str, ...] = ()
    question: str = ""


def parts_of(run: Any, **how: Any) -> tuple[dict[str, Any], Columns]:
    """Return the `parts` of a `netsim.Run`, with its rounds and states; raises BadInput if it kept no trace."""
    return parts(run.trace, rounds=run.rounds, states=None if run.watch is None else run.watch.table(), **how)


def parts(
    log: Log,
    *,
    about: About | None = None,
    title: str = "",
    most: int = MOST,
    rounds: "pd.DataFrame | None" = None,
    states: "pd.DataFrame | None" = None,
    draw: Draw | None = None,
    follow: str | None = None,
) -> tuple[dict[str, Any], Columns]:
    """Return the arguments of `netsim.replay.html.html` for a trace, with at most ``most`` frames.

    ``title`` replaces the title in ``about``. ``rounds`` and ``states`` are tables as in `Run.rounds` and `Run.states`.
    ``draw`` declares how states are drawn, and overrides the run's declarations. ``follow`` is the text that the film
    follows (`netsim.replay.film.followed`).
    """
    found = frames_of(log, most)
    about = about or About()
    about = dataclasses.replace(about, title=title or about.title or "A run of netsim")
    meta = describe(log, found, about, rounds, states, draw)
    return meta | {"film": film_of(RunHistory(meta, found.columns), follow)}, found.columns


def describe(
    log: Log,
    found: Reader,
    about: About,
    rounds: "pd.DataFrame | None" = None,
    states: "pd.DataFrame | None" = None,
    draw: Draw | None = None,
) -> dict[str, Any]:
    """Return a page's metadata (text, positions, curves) as JSON data: without NaN and infinity, and names as text."""
    scene = log.scene
    assert scene is not None
    notes = [*about.notes, *remarks(log.kinds, scene)]
    rows = 0 if rounds is None else len(rounds)
    if rows > MOST_ROWS:
        notes.append(f"Curves show {MOST_ROWS:,} of {rows:,} rows, evenly.")
    agents = texts(log.agents)
    given = dict(scene.draw) | {
        name: None if each is None else each.as_dict() for name, each in check_draw(draw or {}).items()
    }
    strips = {name for name, each in given.items() if each and each["as"] == "strip"}
    changes = no_changes() if states is None else states_of(states, log.agents, strips)
    if unknown := [name for name in draw or {} if name not in changes["values"]]:
        raise check.refuse(
            "draw", unknown[0], f"a state that the run watched: {', '.join(changes['values']) or 'none'}"
        )
    if states is not None and len(changes["times"]) < len(states):
        notes.append(thinned(len(changes["times"]), len(states)))
    senders, receivers = log.links
    pairs = np.unique(np.sort(np.stack([senders, receivers], axis=1), axis=1), axis=0)
    links: list[list[int]] = pairs.tolist()
    return {
        "title": about.title,
        "command": about.command,
        "versions": {str(name): str(text) for name, text in about.versions.items()},
        "agents": agents,
        "positions": _places(scene, len(agents), links),
        "has_positions": scene.positions is not None,
        "paths": paths_of(scene),
        "links": links,
        "round_period": scene.round_period,
        "rounds": scene.rounds,
        "ended_at": scene.ended_at,
        "kinds": texts(named_kinds(log.kinds, scene.draw)),
        "labels": texts(log.texts),
        "marks": marks_of(log),
        "faults": [dict(fault) for fault in scene.faults],
        "question": about.question,
        "causes": found.causes,
        "counts": found.counts,
        "total": sum(found.counts.values()),
        "shown": len(found.columns["start"]),
        "omitted": found.omitted,
        "medium": scene.medium,
        "states": changes,
        "draw": resolved(changes, agents, given),
        "curves": {"x": [], "columns": {}} if rounds is None else curves_of(rounds),
        "notes": notes,
    }


def write(path: str | Path, meta: dict[str, Any], columns: Mapping[str, Any]) -> Path:
    """Write a page to a file atomically, and return its path; raises NetsimError if writing fails."""
    return write_pieces(path, [html(meta, columns).encode("utf-8", "backslashreplace")])


def remarks(kinds: Iterable[str], scene: RunMetadata) -> list[str]:
    """Return notes on some kinds of message, and on agents that move."""
    notes = []
    if ACK in kinds:
        notes.append("The radio's acknowledgements are counted in bits only: they are no frames of agents, nor drawn.")
    if scene.paths:
        notes.append("Agents move: the map joins all pairs that may come into range at some time of the run.")
    return notes


def paths_of(scene: RunMetadata) -> dict[str, list[list[float]]]:
    """Return the paths of moving agents as JSON data, keyed by number."""
    return {str(agent): [list(point) for point in path] for agent, path in scene.paths.items()}


def texts(names: Iterable[Any]) -> list[str]:
    """Convert names to text that can be encoded in UTF-8."""
    return [str(name).encode(errors="backslashreplace").decode() for name in as_column(names)]


def _places(scene: RunMetadata, agents: int, links: list[list[int]]) -> list[list[float]]:
    """Return the position (x, y) of each agent; if the trace has none, compute a reproducible layout."""
    if scene.positions is not None:
        return [list(place) for place in scene.positions]
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(agents))
    graph.add_edges_from((one, other) for one, other in links)
    if agents <= _BY_DISTANCE:
        places = nx.kamada_kawai_layout(graph) if agents > 1 else {0: (0.0, 0.0)}
    elif agents <= _BY_SPRINGS:
        places = nx.spring_layout(graph, seed=0)
    else:
        places = nx.circular_layout(graph)
    # Round the layout, because its last digits depend on the machine.
    return [np.round(np.asarray(places[number], dtype=np.float64), 6).tolist() for number in range(agents)]


def _numbers(values: Iterable[float]) -> list[float | None]:
    """Convert numbers to JSON data, with None for NaN and infinity."""
    return [float(value) if math.isfinite(value) else None for value in values]


def curves_of(rounds: "pd.DataFrame") -> dict[str, Any]:
    """Return the columns of rounds.csv that can be drawn, against their times: ``x`` (s) and ``columns``."""
    table = rounds.drop(columns=["round", "algorithm"], errors="ignore").select_dtypes("number")
    # Select all rows or, if there are too many, evenly spaced rows including the last.
    some = np.linspace(0, len(rounds) - 1, min(len(rounds), MOST_ROWS)).round().astype(np.int64)
    table = table.dropna(axis=1, how="all").iloc[some]
    # Put the study's own columns first, before those of every run.
    names = sorted((name for name in table.columns if name != "time_s"), key=lambda name: name in _EVERY_RUN)
    columns = {str(name): _numbers(table[name]) for name in names}
    return {"x": _numbers(table.get("time_s", [])), "columns": columns}


def no_changes(names: Iterable[str] = ()) -> dict[str, Any]:
    """Return the data of `states_of` for states with these names but without any change."""
    return {"times": [], "agents": [], "sent": [], "values": {name: [] for name in names}}


def states_of(states: "pd.DataFrame", names: Sequence[Any], strips: Collection[str] = ()) -> dict[str, Any]:
    """Return the state changes that a page shows, as JSON data: times, numbers of agents, sent, and values.

    ``strips`` are the names of states that are lists. Raises BadInput if an agent of the table is not in ``names``.
    """
    import pandas as pd

    codes, unique = pd.factorize(states["agent"])
    numbers, found = {name: i for i, name in enumerate(names)}, list(unique)
    if not numbers.keys() >= set(found):
        # In a table read from a file, names are text or parsed numbers, so compare them as text.
        numbers, found = {text: i for i, text in enumerate(texts(names))}, texts(found)
    if len(numbers) < len(names) or not numbers.keys() >= set(found):
        raise BadInput("states: must be of the agents of the trace, each with a name of its own, as netsim writes them")
    agents = np.array([numbers[name] for name in found], dtype=np.int64)[codes]
    some = few_changes(agents, len(names), MOST_CHANGES)
    columns = [name for name in states.columns if name not in ("algorithm", "time_s", "agent", "sent")]
    return {
        "times": _numbers(states["time_s"].iloc[some]),
        "agents": agents[some].tolist(),
        "sent": states["sent"].iloc[some].tolist(),
        "values": {str(name): _values(states[name].iloc[some], name in strips) for name in columns},
        "thinned": len(some) < len(agents),
    }


def _values(column: "pd.Series[Any]", is_strip: bool = False) -> Any:
    """Return a state's values as JSON data: a list of numbers, or ``words`` and the index of each value in them."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return _numbers(column.astype(np.float64))
    codes, words = pd.factorize(column)
    if is_strip:
        return {"words": texts(words), "codes": codes.tolist()}
    if len(words) > STRIPS:
        raise BadInput(f"states, column {str(column.name)!r}: must have at most {STRIPS:,} different words")
    return {"words": texts(cut(str(word), LONGEST_WORD) for word in words), "codes": codes.tolist()}


def marks_of(log: Log) -> dict[str, Any]:
    """Return the agents' notes as JSON data, in order of time."""
    notes = np.concatenate([np.empty(0, NOTED), *log.chunks("notes")])
    times, agents, sent, said = (notes[name].tolist() for name in ("time", "agent", "sent", "text"))
    shown = texts(log.texts)
    return {"times": times, "agents": agents, "sent": sent, "texts": [shown[index] for index in said]}


def few_changes(agents: NDArray[np.integer[Any]], count: int, room: int) -> NDArray[np.int64]:
    """Select at most ``room`` state changes to show, including the first and the last change of each agent.

    ``agents`` has the agent of each change, and ``count`` is the number of agents. If an agent has many changes, evenly
    spaced changes are selected.
    """
    if len(agents) <= room:
        return np.arange(len(agents))
    each = np.bincount(agents, minlength=count)
    # Give each agent an equal share of the room; agents with fewer changes leave the rest of their share to others.
    most = 2
    for left, many in zip(range(count, 0, -1), np.sort(each).tolist(), strict=True):
        if many * left > room:
            most = max(room // left, most)
            break
        room -= many
    order = np.argsort(agents, kind="stable")
    place = np.arange(len(agents)) - np.repeat(np.cumsum(each) - each, each)
    steps = np.maximum(np.repeat(each, each) - 1, 1)
    kept = np.minimum(np.repeat(each, each), most) - 1
    # Of n changes, keep change i if i · kept / (n − 1) has passed a whole number since change i − 1.
    chosen = (place * kept) // steps > ((place - 1) * kept) // steps
    return np.sort(order[chosen | (place == 0)])


def thinned(shown: int, total: int) -> str:
    """Return a note that not all state changes are shown."""
    return f"States show {shown:,} of {total:,} changes: of agents that changed often some, evenly, and the last."
