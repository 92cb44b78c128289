"""Places: of nodes of a graph, of motes, and degrees of longitude and latitude as metres on a plane."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

__all__ = ["EARTH_RADIUS_M", "degrees_of", "metres_of", "place_nodes", "project"]

EARTH_RADIUS_M = 6_371_008.8
"""The mean radius of the earth in metres (IUGG, as in H. Moritz, "Geodetic Reference System 1980")."""

# Names of pairs of coordinates, in lower case; the first pair is that of the Internet Topology Zoo.
_DEGREES = (("longitude", "latitude"), ("lon", "lat"), ("lng", "lat"), ("long", "lat"))

_Name = TypeVar("_Name")


def project(degrees: Mapping[_Name, tuple[float, ...]]) -> tuple[dict[_Name, tuple[float, ...]], str]:
    """Return positions in metres from degrees (longitude, latitude) and optional heights, and a note on this.

    The projection is azimuthal equidistant around the centre of all positions, on the sphere; x points east, y north.
    Distances and directions from the centre are exact; across them, at a distance r, lengths grow by a share of
    (r/R)²/6: 0.1 % at 500 km, 1 % at 1,500 km. Longitudes count from the middle of the narrowest arc that contains all,
    so a field across 180° stays in one piece. Source: J. P. Snyder, "Map Projections: A Working Manual", USGS 1987, ch.
    25, equations 25-2, 22-4, 22-5 and 5-3.
    """
    turns, latitudes = np.array([each[:2] for each in degrees.values()]).T
    middle, parallel = _middle_of(turns), float(latitudes.min() + latitudes.max()) / 2
    east, north, centre = np.radians((turns - middle + 180) % 360 - 180), np.radians(latitudes), math.radians(parallel)
    cosine = math.sin(centre) * np.sin(north) + math.cos(centre) * np.cos(north) * np.cos(east)
    # At the centre's antipode, which maps to a whole circle, the sine is 0: replace it by a small number.
    growth = 1 / np.maximum(np.sinc(np.arccos(np.clip(cosine, -1.0, 1.0)) / np.pi), 1e-9)
    x = EARTH_RADIUS_M * growth * np.cos(north) * np.sin(east)
    y = EARTH_RADIUS_M * growth
    y *= math.cos(centre) * np.sin(north) - math.sin(centre) * np.cos(north) * np.cos(east)
    places = zip(degrees.items(), x.tolist(), y.tolist(), strict=True)
    note = f"longitude and latitude projected to metres around ({middle:.4f}, {parallel:.4f})"
    return {name: (a, b, *each[2:]) for (name, each), a, b in places}, note


def _middle_of(longitudes: Any) -> float:
    """Return the middle of the narrowest arc that holds some longitudes, from −180 to 180."""
    turned = np.unique(longitudes % 360)
    gaps = np.diff(turned, append=turned[0] + 360)
    widest = int(gaps.argmax())
    # The arc begins after the widest gap, and covers the rest of 360 degrees.
    middle = turned[(widest + 1) % len(turned)] + (360 - gaps[widest]) / 2
    return float((middle + 180) % 360 - 180)


def degrees_of(known: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return (longitude, latitude) from a node's attributes, or None if it has no valid ones."""
    lower = {str(name).lower(): value for name, value in known.items()}
    for names in _DEGREES:
        longitude, latitude = (_number(lower.get(name)) for name in names)
        if longitude is not None and latitude is not None and abs(longitude) <= 360 and abs(latitude) <= 90:
            return longitude, latitude
    return None


def metres_of(known: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return a position from a node's attributes: a sequence ``pos`` or numbers ``x``, ``y`` and perhaps ``z``."""
    pos = known.get("pos")
    if isinstance(pos, list | tuple) and len(pos) >= 2 and all(_number(each) is not None for each in pos[:2]):
        return tuple(pos)
    found = [known[name] for name in ("x", "y", "z") if _number(known.get(name)) is not None]
    has_both = _number(known.get("x")) is not None and _number(known.get("y")) is not None
    return tuple(found) if has_both else None


def place_nodes(nodes: Iterable[dict[str, Any]]) -> list[str]:
    """Add ``pos`` in metres to nodes, given as dicts of attributes; return a note if degrees were projected.

    If some nodes have metres, degrees are ignored, because no point is known in both.
    """
    listed = list(nodes)
    found: dict[int, tuple[Any, ...]] = {
        index: place for index, data in enumerate(listed) if (place := metres_of(data)) is not None
    }
    notes: list[str] = []
    if not found:
        degrees = {index: pair for index, data in enumerate(listed) if (pair := degrees_of(data)) is not None}
        if degrees:
            found, note = project(degrees)
            notes = [note]
    for index, place in found.items():
        listed[index]["pos"] = place
    return notes


def _number(value: Any) -> float | None:
    """Return a finite number as float; None for anything else."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None
