"""Mobility models: moves of nodes for `netsim.Deployment`, drawn at random or read from a trace."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from netsim.faults import Move
from netsim.files.content import FileContent
from netsim.files.file_kinds import kind_of, wrong_kind
from netsim.files.traces import read_ways
from netsim.util import check, draws

__all__ = ["random_waypoint", "read"]


def random_waypoint(
    positions: Mapping[Any, Iterable[float]],
    *,
    area: tuple[float, float, float, float],
    speed: tuple[float, float],
    until: float,
    pause: tuple[float, float] = (0.0, 0.0),
    step: float = 1.0,
    seed: int = 0,
) -> list[Move]:
    """Return the moves of the random waypoint model.

    A node moves in a straight line to a position drawn uniformly from the area, at a speed drawn uniformly from
    ``speed``. It pauses there for a time drawn uniformly from ``pause``, and continues with the next position. Slow
    legs last longer, so that without pauses the long-run mean speed is (high − low)/ln(high/low), which is below the
    middle of the bounds. Sources: Johnson, Maltz, "Dynamic Source Routing in Ad Hoc Wireless Networks", 1996; Yoon,
    Liu, Noble, "Random Waypoint Considered Harmful", INFOCOM 2003, for the mean speed, and for why the lower bound must
    be above 0.

    Parameters
    ----------
    positions : mapping
        {node: (x, y)}: the start position, in metres, of each node that walks.
    area : tuple
        (least x, least y, largest x, largest y) in metres. One of the extents may be 0, but not both.
    speed : tuple
        (low, high) in metres a second, above 0.
    until : float
        The time (s) from which nodes no longer move.
    pause : tuple
        (low, high) in seconds.
    step : float
        As in `netsim.faults.Move`.
    seed : int
        Each node's path is a function of the seed and the node's name.

    Raises
    ------
    BadInput
        If a value is outside its range.
    """
    left, bottom, right, top = _ordered("area", area, 4)
    slow, fast = _ordered("speed", speed, 2)
    short, long = _ordered("pause", pause, 2)
    if (left, bottom) == (right, top):
        raise check.refuse("area", area, "wider or higher than a point")
    check.instance("positions", positions, Mapping, "a mapping {node: (x, y)} in metres")
    check.finite("speed: low", slow, above=0)
    check.finite("pause: low", short, low=0)
    until, seed = check.finite("until", until, above=0), check.integer("seed", seed, low=0)
    moves = []
    for node, position in positions.items():
        rng, time = draws.generator(seed, node, "random waypoint"), 0.0
        at = check.position(f"positions[{node!r}]", position)[:2]
        while time < until:
            to = float(rng.uniform(left, right)), float(rng.uniform(bottom, top))
            seconds = math.dist(at, to) / float(rng.uniform(slow, fast))
            share = min(1.0, (until - time) / seconds) if seconds else 0.0
            if share:
                end = tuple(a + share * (b - a) for a, b in zip(at, to, strict=True))
                moves.append(Move(node, end, time, min(time + seconds, until), step))
            at, time = to, time + seconds + float(rng.uniform(short, long))
    return moves


def read(path: str | Path, *, step: float = 1.0) -> list[Move]:
    """Read the moves of a trace, whose format is recognised by its content (docs/files.md).

    * csv: the columns time (s), name, x and y (m) and, if heights change, z; or longitude and latitude, which are
      projected. The rows of a node are in order of time. A name that is a whole number is read as an int
    * ns-2: ``$ns_ at TIME "$node_(I) setdest X Y SPEED"``, as setdest, BonnMotion and SUMO write it
    * BonnMotion (``.movements``): for each node a line of times and positions, in two or three dimensions
    * SUMO's floating-car data: XML with ``fcd-export``; positions in degrees are projected

    Each may be compressed by gzip or bzip2. Between two points of the trace a node moves in a straight line. It jumps
    to its first point at that point's time, and stays at its last point. `netsim.Deployment.read` of such a file
    returns the nodes with these moves. A RuntimeWarning reports omitted data and the projection of positions.

    Parameters
    ----------
    path : path
        The file.
    step : float
        As `netsim.faults.Move`.

    Raises
    ------
    BadInput
        If the file is missing or contains no trace; the error names the line where possible.
    """
    source = FileContent.read("file", path)
    if kind_of(source) in ("motes", "links", "packets"):
        raise wrong_kind(source, "ways")
    ways = read_ways(source)
    if ways.notes:
        check.doubt(f"{source.where}, {ways.form}: {'; '.join(ways.notes)}")
    return [
        Move(leg.node, leg.to, leg.at) if leg.until is None else Move(leg.node, leg.to, leg.at, leg.until, step)
        for leg in ways.legs
    ]


def _ordered(name: str, values: Any, count: int) -> list[float]:
    """Return ``count`` checked numbers, lower bounds then upper bounds; raise BadInput if a lower one is larger."""
    found: list[float] = np.atleast_1d(check.finite_array(name, values)).tolist()
    if len(found) != count or any(
        low > high for low, high in zip(found[: count // 2], found[count // 2 :], strict=True)
    ):
        raise check.refuse(name, values, f"{count} numbers, the lower bounds first")
    return found
