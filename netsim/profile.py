"""Profiles of devices: computing, sending and receiving speeds, and online times, from a csv file."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from netsim.faults import Crash
from netsim.links import latency
from netsim.util import check, tables

__all__ = ["Profile"]

# Columns named as in FedScale, whose units are kbit/s for both capacities and milliseconds for computation.
_CAPACITIES = ("uplink", "downlink", "communication")
_COLUMNS = (*_CAPACITIES, "seconds", "computation", "active", "inactive")

Times = list[tuple[float, float]]


@dataclass(frozen=True)
class Profile:
    """Speeds and online times of devices, keyed by node; the key None means all nodes.

    Attributes
    ----------
    uplink, downlink : mapping
        Bits per second.
    seconds : mapping
        The compute times of a node's steps (s), in their order.
    online : mapping
        The intervals (begin, end) in seconds during which a node is online, in order. A missing node is always online.
    """

    uplink: Mapping[Hashable, float]
    downlink: Mapping[Hashable, float]
    seconds: Mapping[Hashable, list[float]]
    online: Mapping[Hashable, Times]

    @classmethod
    def read(cls, path: str | Path) -> "Profile":
        """Read a csv file with the columns listed in docs/compute.md.

        Raises
        ------
        BadInput
            If the file is missing, has only the column ``node``, an unknown column, or two columns of the same meaning;
            or if a cell is invalid, or two rows contradict each other on a node's capacities.
        """
        found: tuple[dict[Hashable, Any], ...] = ({}, {}, {}, {})
        uplink, downlink, seconds, online = found
        for where, row in tables.rows(path, [], ["node", *_COLUMNS]):
            _must_say_something(where, row)
            node = tables.name(where, row, "node") if "node" in row else None
            cells = {name: tables.number(where, row, name) for name in _COLUMNS if row.get(name)}
            for name, value in cells.items():
                bounds = {"above" if name in _CAPACITIES else "low": 0.0}
                check.finite(f"{where}: {name}", value, **bounds)
            for limits, name in ((uplink, "uplink"), (downlink, "downlink")):
                if name in cells or "communication" in cells:
                    limit = cells[name] if name in cells else 1e3 * cells["communication"]
                    if limits.setdefault(node, limit) != limit:
                        of = "of all nodes" if node is None else f"of {node!r}"
                        raise BadInput(f"{where}: {name} {of} must be {limits[node]:g}, as before; it is {limit:g}")
            if "seconds" in cells or "computation" in cells:
                each = cells["seconds"] if "seconds" in cells else cells["computation"] / 1e3
                seconds.setdefault(node, []).append(each)
            if "active" in cells or "inactive" in cells:
                times = online.setdefault(node, [])
                times.append(_span(where, cells, times))
        if not any(found):
            raise BadInput(f"{Path(path).name}: must have a row that describes a device; it has none")
        return cls(*found)

    def of(self, graph: Iterable[Hashable]) -> dict[str, Any]:
        """Return the profile as arguments of `netsim.Network`: ``uplink``, ``downlink``, ``compute`` and ``faults``.

        A node without compute times computes in zero time. An offline node is down (`netsim.faults.Crash`), and keeps
        its state.
        """
        found: dict[str, Any] = {}
        for name, limits in (("uplink", self.uplink), ("downlink", self.downlink)):
            if limits:
                found[name] = limits.get(None, limits)
        if self.seconds:
            models = {node: latency.trace(each) for node, each in self.seconds.items()}
            zero = dict.fromkeys(graph, 0.0)
            found["compute"] = models.get(None, zero | models)
        if self.online:
            found["faults"] = [Crash(*each, keeps_state=True) for each in self._offline(graph)]
        return found

    def _offline(self, graph: Iterable[Hashable]) -> Iterator[tuple[Hashable, float, float | None]]:
        for node in graph if None in self.online else self.online:
            times = self.online.get(None, self.online.get(node, []))
            if times[0][0] > 0:
                yield node, 0.0, times[0][0]
            yield from ((node, one[1], other[0]) for one, other in pairwise(times) if one[1] < other[0])
            yield node, times[-1][1], None


def _must_say_something(where: str, row: Mapping[str, str]) -> None:
    for one, other in (("uplink", "communication"), ("downlink", "communication"), ("seconds", "computation")):
        if one in row and other in row:
            raise BadInput(
                f"{where}: must have one of the columns {one} and {other}, which give the same quantity; it has both"
            )


def _span(where: str, cells: Mapping[str, float], before: Times) -> tuple[float, float]:
    low = before[-1][1] if before else 0.0
    for name in ("active", "inactive"):
        if name not in cells:
            raise BadInput(f"{where}: must have a time in {name}, too; it is empty")
        low = check.finite(f"{where}: {name}", cells[name], **({"low": low} if name == "active" else {"above": low}))
    return cells["active"], cells["inactive"]
