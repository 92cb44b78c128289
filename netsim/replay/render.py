"""The page of a run: what is on it besides the frames, and its file, written whole or not at all."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim import core
from netsim._version import __version__
from netsim.count.records import as_column
from netsim.count.scene import Scene
from netsim.errors import BadInput
from netsim.files import write_pieces
from netsim.radio.medium import ACK
from netsim.replay.frames import MOST, Columns, Frames, Log, frames_of
from netsim.replay.html import html
from netsim.replay.layout import drawn

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MOST_ROWS", "About", "curves_of", "describe", "parts", "remarks", "render", "states_of", "texts", "write"]

MOST_ROWS = 2000
"""Rows of the curves and of the states that a page holds at most."""


@dataclass(frozen=True)
class About:
    """What a page says of the run besides its trace: a title, the command that made it, versions, notes."""

    title: str = ""
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=lambda: {"netsim": __version__, "core": core.NAME})
    notes: tuple[str, ...] = ()


def render(
    log: Log,
    path: str | Path,
    *,
    about: About | None = None,
    title: str = "",
    most: int = MOST,
    rounds: "pd.DataFrame | None" = None,
    states: "pd.DataFrame | None" = None,
) -> Path:
    """Write the page of a trace and return its path; see `netsim.run.Run.replay`.

    Parameters
    ----------
    log : Log
        The trace.
    path : str or Path
        The file.
    about : About, optional
        What stands on the page besides.
    title : str
        In place of that of ``about``.
    most : int
        Frames that are shown at most.
    rounds, states : DataFrame, optional
        As `Run.rounds` and `Run.states` have them.
    """
    return write(path, *parts(log, about=about, title=title, most=most, rounds=rounds, states=states))


def parts(
    log: Log,
    *,
    about: About | None = None,
    title: str = "",
    most: int = MOST,
    rounds: "pd.DataFrame | None" = None,
    states: "pd.DataFrame | None" = None,
) -> tuple[dict[str, Any], Columns]:
    """Return what `netsim.replay.html.html` makes the page of a trace of; the arguments are those of `render`."""
    found = frames_of(log, most)
    said = about or About()
    told = About(title or said.title or "A run of netsim", said.command, said.versions, said.notes)
    return describe(log, found, told, rounds, states), found.columns


def describe(
    log: Log,
    found: Frames,
    about: About,
    rounds: "pd.DataFrame | None" = None,
    states: "pd.DataFrame | None" = None,
) -> dict[str, Any]:
    """Return what a page says of a run, as JSON has it: no NaN, no infinity, names as text."""
    scene = log.scene
    assert scene is not None
    notes = [*about.notes, *remarks(log.kinds)]
    rows = 0 if rounds is None else len(rounds)
    if rows > MOST_ROWS:
        notes.append(f"Curves and states show {MOST_ROWS:,} of {rows:,} rows, evenly.")
    agents = texts(log.agents)
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
        "links": links,
        "round_period": scene.round_period,
        "ended_at": scene.ended_at,
        "kinds": texts(log.kinds),
        "causes": found.causes,
        "counts": found.counts,
        "total": sum(found.counts.values()),
        "shown": len(found.columns["start"]),
        "omitted": found.omitted,
        "states": {} if states is None else states_of(states, agents),
        "curves": {"x": [], "columns": {}} if rounds is None else curves_of(rounds),
        "notes": notes,
    }


def write(path: str | Path, meta: dict[str, Any], columns: Mapping[str, Any]) -> Path:
    """Write a page to a file, whole or not at all, and return its path; raises NetsimError where that fails."""
    return write_pieces(path, [html(meta, columns).encode("utf-8", "backslashreplace")])


def remarks(kinds: Iterable[str]) -> list[str]:
    """Return what is to be said of some kinds of message."""
    if ACK not in kinds:
        return []
    return ["The radio's acknowledgements are counted in bits only: they are no frames of agents, nor drawn."]


def texts(names: Iterable[Any]) -> list[str]:
    """Return names as text that has an encoding."""
    return [str(name).encode(errors="backslashreplace").decode() for name in as_column(names)]


def _places(scene: Scene, agents: int, links: list[list[int]]) -> list[list[float]]:
    if scene.positions is not None:
        return [list(place) for place in scene.positions]
    return drawn(agents, links)


def _numbers(values: Iterable[float]) -> list[float | None]:
    """Return numbers as JSON has them: none for what is not finite."""
    return [float(value) if math.isfinite(value) else None for value in values]


def _some(rows: int) -> Any:
    """Return which rows are kept of so many: all, or some evenly, the last among them."""
    return np.arange(rows) if rows <= MOST_ROWS else np.linspace(0, rows - 1, MOST_ROWS).round().astype(np.int64)


def curves_of(rounds: "pd.DataFrame") -> dict[str, Any]:
    """Return the columns of rounds.csv that can be drawn, against their times: ``x`` (s) and ``columns``."""
    table = rounds.drop(columns=["round", "algorithm"], errors="ignore").select_dtypes("number")
    table = table.dropna(axis=1, how="all").iloc[_some(len(rounds))]
    columns = {str(name): _numbers(table[name]) for name in table.columns if name != "time_s"}
    return {"x": _numbers(table.get("time_s", [])), "columns": columns}


def states_of(states: "pd.DataFrame", agents: list[str]) -> dict[str, Any]:
    """Return each state's times and its values, a row for each time; raises BadInput unless all agents are there."""
    rows, rest = divmod(len(states), len(agents))
    if rest or texts(states["agent"]) != agents * rows:
        raise BadInput("states: must have a row for each agent in turn at each time, as netsim writes them")
    some = _some(rows)
    times = _numbers(states["time_s"].to_numpy(dtype=np.float64).reshape(rows, -1)[some, 0])
    found = {}
    for name in states.columns:
        if name not in ("algorithm", "round", "time_s", "agent"):
            values = states[name].to_numpy(dtype=np.float64).reshape(rows, -1)[some]
            found[str(name)] = {"times": times, "values": [_numbers(row) for row in values]}
    return found
