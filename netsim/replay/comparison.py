"""Two or three runs side by side on one film time: what differs between them, when, and by how much."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from netsim.replay.film import Film, merged
from netsim.replay.frames import Columns
from netsim.replay.html import packed_parts, page_of
from netsim.replay.render import parts_of
from netsim.replay.run_history import DOWN, RunHistory
from netsim.util import check
from netsim.util.files import write_pieces

__all__ = ["compare", "compared", "write_compared"]

# What runs on by itself: a timer, a radio's sleep. It differs all the time once anything does.
_RUNS_ON = ("arc", "dim")

_Parts = tuple[dict[str, Any], Columns]


def compare(
    runs: Sequence[Any], path: str | Path = "compare.html", *, names: Sequence[str] | None = None, title: str = ""
) -> Path:
    """Write one HTML file that shows two or three runs side by side, on one film time; return its path.

    Parameters
    ----------
    runs : sequence of netsim.Run
        Each with its trace (``trace=True`` in `Network.run`).
    path : str or Path
        The file; an existing one is replaced once the new one is complete.
    names : sequence of str, optional
        What each run is called, as ``["with the cut", "without"]``; by default run 1, run 2.
    title : str
        The title of the page.

    Raises
    ------
    BadInput
        If there are not two or three runs, one has no trace, or names are not as many.
    NetsimError
        If the file cannot be written.
    """
    if not isinstance(runs, Sequence) or len(runs) not in (2, 3):
        raise check.refuse("runs", len(runs) if isinstance(runs, Sequence) else runs, "two or three runs")
    found = [parts_of(run) for run in runs]
    return write_compared(path, found, names or [f"run {number + 1}" for number in range(len(runs))], title)


def write_compared(path: str | Path, found: Sequence[_Parts], names: Sequence[str], title: str = "") -> Path:
    """Write the page of some runs, as `netsim.replay.render.parts` returns them; errors are those of `compare`."""
    if len(names) != len(found) or len(set(names)) < len(names):
        raise check.refuse("names", list(names), f"{len(found)} different names, one of each run")
    meta = compared(found) | {"title": title or " | ".join(names), "names": list(names)}
    packed = [packed_parts(*each) for each in found]
    page = page_of(meta | {"runs": [each for each, _ in packed]}, [each for _, each in packed])
    return write_pieces(path, [page.encode("utf-8", "backslashreplace")])


def compared(found: Sequence[_Parts]) -> dict[str, Any]:
    """Return what a page shows of some runs together, as JSON has it.

    ``film`` is that of all: the slowest decides, and each moment has the numbers of its runs, ``in``. ``differ`` has
    the ``agents`` of all runs by name, ``spans`` (number of the agent, begin, end) in which a drawn state of theirs
    differs, or whether they are down, and how many (``counts``) differ from which ``times`` (s) on. ``table`` has
    rows of ``what``, the runs' ``values``, and ``less``: the first less the second.
    """
    runs = [RunHistory(*each) for each in found]
    return {
        "film": _film([meta["film"] for meta, _ in found]),
        "differ": _differences(runs),
        "table": list(_rows(found)),
    }


def _film(tables: Sequence[dict[str, Any]]) -> dict[str, Any]:
    time, film = merged(tables)
    table = {**tables[0], "time": time.tolist(), "film": film.tolist(), "follow": None}
    clock = Film(table)
    moments: dict[tuple[float, str], dict[str, Any]] = {}
    for number, each in enumerate(tables):
        for moment in each["moments"]:
            moments.setdefault((moment["time"], moment["text"]), moment | {"in": []})["in"].append(number)
    for moment in moments.values():
        moment["film"] = float(clock.at(moment["time"]))
        moment["stands"] = float(clock.leaves(moment["time"])) - moment["film"]
    shortened = [each["most_film"] for each in tables if each["most_film"]]
    listed = sorted(moments.values(), key=lambda each: each["time"])
    return table | {"moments": listed, "most_film": max(shortened, default=None)}


def _differences(runs: Sequence[RunHistory]) -> dict[str, Any]:
    """Return which agents differ when, see `compared`."""
    agents = [name for name in runs[0].agents if all(name in run.agents for run in runs)]
    states = [
        name
        for name, each in runs[0].draw.items()
        if each["as"] not in _RUNS_ON and all(name in run.draw for run in runs)
    ]
    changes: dict[str, list[tuple[float, int, str, Any]]] = {name: [] for name in agents}
    for number, run in enumerate(runs):
        listed = [(time, agent, name, value) for name in states for time, agent, value, _ in run.changes(name, True)]
        for fault in run.faults:
            for agent in fault.agents if fault.what in DOWN else ():
                listed.append((fault.begin, agent, "down", True))
                listed += [(fault.end, agent, "down", None)] if fault.ends else []
        for time, agent, name, value in listed:
            if (who := run.agents[agent]) in changes:
                changes[who].append((time, number, name, value))
    last = max(run.last for run in runs)
    spans = [(agent, *span) for agent, name in enumerate(agents) for span in _spans(changes[name], len(runs), last)]
    steps = sorted([(begin, 1) for _, begin, _ in spans] + [(end, -1) for _, _, end in spans if end < last])
    counts = dict(
        zip([0.0, *(time for time, _ in steps)], itertools.accumulate([0, *(by for _, by in steps)]), strict=True)
    )
    ordered = sorted(spans, key=lambda each: (each[1], each[0]))
    return {"agents": agents, "spans": ordered, "times": list(counts), "counts": list(counts.values())}


def _spans(changes: list[tuple[float, int, str, Any]], runs: int, last: float) -> list[tuple[float, float]]:
    """Return from when until when (s) some state is not the same in all runs, of changes of an agent's states."""
    now: dict[str, list[Any]] = {}
    differing: set[str] = set()
    found: list[tuple[float, float]] = []
    begin: float | None = None
    for time, some in itertools.groupby(sorted(changes, key=lambda each: each[0]), key=lambda each: each[0]):
        for _, number, name, value in some:
            values = now.setdefault(name, [None] * runs)
            values[number] = value
            (differing.add if len(set(values)) > 1 else differing.discard)(name)
        if differing and begin is None:
            begin = time
        elif not differing and begin is not None:
            found.append((begin, time))
            begin = None
    return found if begin is None else [*found, (begin, last)]


def _rows(found: Sequence[_Parts]) -> Any:
    """Yield the rows of the table: frames by their ends, the last rows of curves, and when each run ended."""
    metas = [meta for meta, _ in found]
    values: dict[str, list[Any]] = {"frames": [meta["total"] for meta in metas]}
    for name in dict.fromkeys(name for meta in metas for name in meta["counts"]):
        values[name.replace("_", " ")] = [meta["counts"].get(name) for meta in metas]
    for name in dict.fromkeys(name for meta in metas for name in meta["curves"]["columns"]):
        columns = [meta["curves"]["columns"].get(name) for meta in metas]
        values.setdefault(name, [column[-1] if column else None for column in columns])
    values["ended at (s)"] = [meta["ended_at"] for meta in metas]
    for what, each in values.items():
        if any(each):
            one, other = each[:2]
            yield {"what": what, "values": each, "less": None if one is None or other is None else one - other}
