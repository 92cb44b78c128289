"""Read movements of nodes from traces of ns-2, BonnMotion and SUMO, and from csv files.

Sources: "The ns Manual", ch. 16.1 (``setdest``, and lines that set X_, Y_ and Z_); N. Aschenbruck et al., "BonnMotion:
a mobility scenario generation and analysis tool", SIMUTools 2010, and its manual on the native format; SUMO's
documentation of floating-car data, sumo.dlr.de/docs/Simulation/Output/FCDOutput.html.
"""

import itertools
import math
import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from netsim.errors import BadInput
from netsim.files.content import FileContent
from netsim.files.places import project
from netsim.util import tables

__all__ = ["Leg", "Ways", "is_ns2", "legs_of", "read_ways"]

Place = tuple[float, ...]

_NUMBER = r"([-+]?[\d.]+(?:[eE][-+]?\d+)?)"
_NODE = r"\$node_\((\d{1,15})\)"
_START = re.compile(rf"{_NODE} set ([XYZ])_ {_NUMBER}$")
_AT = re.compile(rf'\$ns_? at {_NUMBER} "{_NODE} (?:setdest {_NUMBER} {_NUMBER} {_NUMBER}|set ([XYZ])_ {_NUMBER})"$')
# SUMO writes its options into a comment at the beginning of the file.
_GEOGRAPHIC = re.compile(rb"fcd-output\.geo\s+value=\"(?:true|1|yes|on)\"", re.IGNORECASE)


class Leg(NamedTuple):
    """A node's straight movement to a position (m) between two times (s); a jump if ``until`` is None."""

    node: Hashable
    to: Place
    at: float
    until: float | None = None


@dataclass
class Ways:
    """The movements in a file, each node's in order of time, with ``notes`` for the user, such as on projections."""

    form: str
    legs: list[Leg]
    notes: list[str] = field(default_factory=list)


def read_ways(source: FileContent) -> Ways:
    """Return the movements of nodes in a file.

    Raises
    ------
    BadInput
        If the file has no movements; the message names the file, the reason and, if known, the line.
    """
    if source.is_xml:
        if source.xml_root != "fcd-export":
            raise source.refuse(f"a trace of ns-2, BonnMotion or SUMO, or csv; it is XML of <{source.xml_root[:40]}>")
        return _of_fcd(source)
    if is_ns2(source):
        return _of_ns2(source)
    first = next(source.lines(), (0, ""))[1]
    if source.suffix == ".movements" or (" " in first and all(_is_number(each) for each in first.split())):
        return _of_bonnmotion(source)
    return _of_csv(source)


def _is_number(text: str) -> bool:
    return re.fullmatch(_NUMBER, text) is not None


def legs_of(node: Hashable, points: Iterable[tuple[float, Place]]) -> list[Leg]:
    """Return a node's legs: it appears at the first point (time, position), moves along the points, and then stays."""
    listed = list(points)
    found = [Leg(node, listed[0][1], listed[0][0])]
    return found + [Leg(node, to, at, until) for (at, _), (until, to) in itertools.pairwise(listed)]


# --- csv --------------------------------------------------------------------------------------------------------------


def _of_csv(source: FileContent) -> Ways:
    """Read csv with the columns time, name, x and y (or longitude and latitude), and perhaps z."""
    first = next(source.lines(), (0, ""))[1].lower()
    is_geographic = "longitude" in first and "latitude" in first
    pair = ("longitude", "latitude") if is_geographic else ("x", "y")
    points: list[tuple[Hashable, float, Place]] = []
    last: dict[Hashable, float] = {}
    for where, row in tables.rows(source.path, ("time", "name", *pair), ("z",)):
        node, time = tables.name(where, row, "name"), tables.number(where, row, "time")
        place = tuple(tables.number(where, row, column) for column in (*pair, "z") if column in row)
        if time < 0 or time <= last.get(node, -1.0):
            after = f"above {last[node]:g}, the node's time before" if node in last else "0 or more"
            raise BadInput(f"{where}: time = {time:g}: must be {after}")
        last[node] = time
        points.append((node, time, place))
    places, notes = _projected(source, [place for *_, place in points]) if is_geographic else ([], [])
    legs: list[Leg] = []
    at: dict[Hashable, float] = {}
    # Legs may be in the order of the rows, because a run sorts moves by time later.
    for index, (node, time, place) in enumerate(points):
        to = places[index] if is_geographic else place
        legs.append(Leg(node, to, at[node], time) if node in at else Leg(node, to, time))
        at[node] = time
    return Ways("csv", legs, notes)


def _projected(source: FileContent, degrees: list[Place]) -> tuple[list[Place], list[str]]:
    for place in degrees:
        if abs(place[0]) > 360 or abs(place[1]) > 90:
            raise source.refuse(f"a trace with degrees of longitude and latitude; it has {place[:2]}")
    if not degrees:
        return [], []
    found, note = project(dict(enumerate(degrees)))
    return list(found.values()), [note]


# --- ns-2 -------------------------------------------------------------------------------------------------------------


def is_ns2(source: FileContent) -> bool:
    """Return whether a file is a script of ns-2 that moves nodes."""
    return source.start[:1] not in (b"<", b"{", b"[") and b"$node_(" in source.data


class _Walker:
    """The state of a node of ns-2 while commands are read: its initial position, and its legs so far."""

    def __init__(self, node: int) -> None:
        self.node, self.place, self.legs = node, dict[str, float](), list[Leg]()

    def here(self, time: float) -> Place:
        """Return the position at a time, and end a leg that is not complete at that time."""
        last = self.legs[-1]
        if last.until is None or last.until <= time:
            return last.to
        before = self.legs[-2].to
        if time == last.at:
            # Two commands have the same time: the later command replaces the earlier one.
            self.legs.pop()
            return before
        share = (time - last.at) / (last.until - last.at)
        place = tuple(a + share * (b - a) for a, b in zip(before, last.to, strict=True))
        self.legs[-1] = last._replace(to=place, until=time)
        return place

    def start(self, is_flat: bool) -> None:
        """Begin the legs at the position that X_, Y_ and Z_ have set."""
        axes = ("X", "Y") if is_flat else ("X", "Y", "Z")
        self.legs = [Leg(self.node, tuple(self.place.get(axis, 0.0) for axis in axes), 0.0)]

    def go(self, time: float, x: float, y: float, speed: float) -> None:
        """Add a straight leg to a position at a speed (m/s); at speed 0, the node stays."""
        place = self.here(time)
        to = (x, y, *place[2:])
        distance = math.dist(place, to)
        if speed > 0 and distance > 0 and math.isfinite(distance / speed):
            self.legs.append(Leg(self.node, to, time, time + distance / speed))

    def jump(self, time: float, axis: str, value: float) -> None:
        """Add a jump that sets one coordinate of the position."""
        place = list(self.here(time))
        if "XYZ".index(axis) < len(place):
            place["XYZ".index(axis)] = value
            if self.legs[-1].at == time and self.legs[-1].until is None:
                self.legs.pop()
            self.legs.append(Leg(self.node, tuple(place), time))


def _of_ns2(source: FileContent) -> Ways:
    """Read a script of ns-2, as setdest, BonnMotion and SUMO write it.

    A node starts at the position set by X_, Y_ and Z_. It follows each ``setdest`` from the command's time on, starting
    from its position at that time.
    """
    walkers: dict[int, _Walker] = {}
    commands: list[tuple[float, int, re.Match[str], int]] = []
    for line, text in source.lines():
        if found := _START.match(text):
            node = int(found[1])
            value = source.number(found[3], "place", line)
            walkers.setdefault(node, _Walker(node)).place[found[2]] = value
        elif found := _AT.match(text):
            commands.append((source.number(found[1], "time", line), line, found, int(found[2])))
        elif "setdest" in text:
            raise source.refuse('$ns_ at TIME "$node_(NUMBER) setdest X Y SPEED", with numbers', line)
    is_flat = not any(walker.place.get("Z") for walker in walkers.values())
    for walker in walkers.values():
        if not {"X", "Y"} <= set(walker.place):
            raise source.refuse(f"a trace with X_ and Y_ of each node; node {walker.node} lacks one")
        walker.start(is_flat)
    for time, line, found, node in sorted(commands, key=lambda command: command[:2]):
        if node not in walkers:
            raise source.refuse(f"a trace with X_ and Y_ of each node; node {node} has none", line)
        if time < 0:
            raise source.refuse(f"a time of 0 or more; it is {time:g}", line)
        if found[6]:
            walkers[node].jump(time, found[6], source.number(found[7], "place", line))
        else:
            x, y, speed = (source.number(each, "number of setdest", line) for each in found.group(3, 4, 5))
            walkers[node].go(time, x, y, speed)
    if not walkers:
        raise source.refuse("a trace of ns-2 with positions of nodes; it has none")
    return Ways("ns-2", [leg for _, walker in sorted(walkers.items()) for leg in walker.legs])


# --- BonnMotion -------------------------------------------------------------------------------------------------------


def _of_bonnmotion(source: FileContent) -> Ways:
    """Read BonnMotion's native format: each node has a line with groups of numbers, ``t x y`` or ``t x y z``.

    Lines are read as three-dimensional only if some line does not fit two dimensions.
    """
    rows = [(line, [source.number(each, "number", line) for each in text.split()]) for line, text in source.lines()]
    if not rows:
        raise source.refuse("a line of times and positions for each node; it is empty")
    size = next((size for size in (3, 4) if all(_fits(row, size) for _, row in rows)), None)
    if size is None:
        line = next(line for line, row in rows if not _fits(row, 3))
        raise source.refuse("times from 0 that grow, each with x and y, or with x, y and z", line)
    legs: list[Leg] = []
    for node, (line, row) in enumerate(rows):
        points = [(row[at], tuple(row[at + 1 : at + size])) for at in range(0, len(row), size)]
        kept = [points[0]]
        for time, place in points[1:]:
            if time > kept[-1][0]:
                kept.append((time, place))
            elif place != kept[-1][1]:
                raise source.refuse(f"a node at one place at {time:g} s; it is at two", line)
        legs += legs_of(node, kept)
    return Ways("BonnMotion", legs)


def _fits(row: list[float], size: int) -> bool:
    """Return whether a node's numbers form groups of ``size`` numbers: a time and a position, with ascending times."""
    times = row[::size]
    return len(row) % size == 0 and times[0] >= 0 and all(a <= b for a, b in itertools.pairwise(times))


# --- SUMO -------------------------------------------------------------------------------------------------------------


def _of_fcd(source: FileContent) -> Ways:
    """Read SUMO's floating-car data: the positions of vehicles, persons and containers at each time step.

    A node that leaves the simulation before the end stays at its last position.
    """
    points: list[tuple[str, float, Place]] = []
    last: dict[str, float] = {}
    time = -1.0
    for step in source.xml().iter("timestep"):
        before, time = time, source.number(step.get("time"), "time")
        if time <= before or time < 0:
            raise source.refuse(f"a trace whose time steps grow from 0; {time:g} s is after {before:g} s")
        for each in step:
            if each.tag in ("vehicle", "person", "container"):
                name, (x, y) = each.get("id", ""), (source.number(each.get(axis), axis) for axis in ("x", "y"))
                if last.get(name) == time:
                    raise source.refuse(f"a trace with each name once in a time step; {name[:40]!r} is there twice")
                last[name] = time
                points.append((name, time, (x, y)))
    if not points:
        raise source.refuse("a trace of SUMO with a vehicle, person or container")
    notes: list[str] = []
    places = [place for *_, place in points]
    if _GEOGRAPHIC.search(source.data):
        places, notes = _projected(source, places)
    ways: dict[str, list[tuple[float, Place]]] = {}
    for (name, at, _), place in zip(points, places, strict=True):
        ways.setdefault(name, []).append((at, place))
    left = sum(way[-1][0] < time for way in ways.values())
    if left:
        notes.append(f"{left:,} of {len(ways):,} leave before the end, and stay where they were last")
    legs = [leg for name, way in ways.items() for leg in legs_of(name, way)]
    # Leave out the legs of a waiting vehicle, whose position does not change.
    kept = [leg for before, leg in itertools.pairwise(legs) if (leg.node, leg.to) != (before.node, before.to)]
    return Ways("SUMO", legs[:1] + kept, notes)
