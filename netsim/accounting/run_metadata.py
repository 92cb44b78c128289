"""The metadata that a trace stores in addition to a run's events: times, medium, positions, faults."""

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Real
from typing import Any

__all__ = ["RunMetadata", "place_of", "positions_of"]

Positions = tuple[tuple[float, float], ...]
Path = Sequence[tuple[float, float, float]]


@dataclass(frozen=True)
class RunMetadata:
    """The properties of a run as a whole that a trace stores.

    Attributes
    ----------
    round_period : float
        The length of a round, in seconds.
    ended_at : float
        The simulated time at which the run ended, in seconds.
    medium : str
        "wires", "radio" (without collisions), or "shared" (a `netsim.Radio`).
    positions : tuple of (x, y), or None
        Positions of the agents, in the units of the graph's ``pos``; None if the graph has none.
    rounds : int
        The number of the last round that opened; 0 if no round opened, or if compute times made rounds unequally long.
    paths : dict
        The way-points (s, x, y) of each agent that moved, keyed by the agent's index. The agent moves along straight
        lines between them; where two way-points have the same time, it jumps from the first to the second. Other agents
        stay at their ``positions``.
    faults : sequence of dict
        The faults in order of time, each as a dict with the following keys. Agents are given by their indices.

        * ``what``: the class of the `netsim.faults.Fault`, also for a link that `netsim.Network.set_link` holds or
          changes; "SetLink" for one that it cuts, or "Empty" for an empty battery.
        * ``text``: a description of the fault.
        * ``begin``, ``end``: the times (s) at which the fault began and ended; ``end`` is None if it did not end.
        * ``agents``: the list of the agents that the fault affects.
        * ``links``: the list of the links that the fault affects, as pairs (sender, receiver).
        * ``sides`` (of a partition only): the lists of the agents on each of the two sides.
    stack : dict
        For a network with a `netsim.SixLowpan`: the ``prefix`` of its addresses, and its ``ports`` by kind; otherwise
        empty.
    draw : dict
        For each watched state, its declared drawing (`netsim.draw.Drawn.as_dict`); None if it is not drawn.
    """

    round_period: float
    ended_at: float
    medium: str
    positions: Positions | None
    rounds: int
    paths: Mapping[int, Path] = field(default_factory=dict)
    faults: Sequence[Mapping[str, Any]] = field(default_factory=list)
    stack: Mapping[str, Any] = field(default_factory=dict)
    draw: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the metadata as a dict for JSON."""
        positions = None if self.positions is None else [list(position) for position in self.positions]
        times = {"round_period": self.round_period, "rounds": self.rounds, "ended_at": self.ended_at}
        paths = {str(agent): [list(point) for point in path] for agent, path in self.paths.items()}
        found: dict[str, Any] = {**times, "medium": self.medium, "positions": positions}
        faults = [dict(each) for each in self.faults]
        optional = {"paths": paths, "faults": faults, "stack": dict(self.stack), "draw": dict(self.draw)}
        return found | {name: value for name, value in optional.items() if value}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], agents: int) -> "RunMetadata":
        """Return the metadata that `as_dict` wrote; raises ValueError if they are invalid for ``agents`` agents."""
        period, ended, medium, rounds = (content[name] for name in ("round_period", "ended_at", "medium", "rounds"))
        if type(rounds) is not int or rounds < 0:
            raise ValueError("its rounds are invalid")
        if not (_is_finite(period) and _is_finite(ended) and period > 0 and ended >= 0):
            raise ValueError("its times are invalid")
        if medium not in ("wires", "radio", "shared"):
            raise ValueError("its medium is invalid")
        listed = content["positions"]
        positions = None if listed is None else _pairs(listed)
        if listed is not None and (positions is None or len(positions) != agents):
            raise ValueError("its positions are invalid")
        paths = _paths(content.get("paths", {}), agents)
        if paths is None or (paths and positions is None):
            raise ValueError("its paths are invalid")
        faults = content.get("faults", [])
        if not (isinstance(faults, list) and all(_is_fault(each, agents) for each in faults)):
            raise ValueError("its faults are invalid")
        stack, draw = content.get("stack", {}), content.get("draw", {})
        if not (isinstance(stack, dict) and (not stack or _is_stack(stack))):
            raise ValueError("its stack is invalid")
        if not (isinstance(draw, Mapping) and all(each is None or "as" in each for each in draw.values())):
            raise ValueError("how its states are drawn is invalid")
        return cls(float(period), float(ended), medium, positions, rounds, paths, faults, stack, draw)


def positions_of(graph: Any, agents: Iterable[Hashable]) -> Positions | None:
    """Return the first two coordinates of each agent's ``pos`` in a networkx graph; None if an agent has none."""
    return _pairs([graph.nodes[name].get("pos") for name in agents])


def place_of(value: Any) -> tuple[float, float] | None:
    """Return the first two coordinates of a position, or None if they are not finite numbers."""
    try:
        x, y, *_ = value
    except (TypeError, ValueError):
        return None
    return (float(x), float(y)) if _is_finite(x) and _is_finite(y) else None


def _pairs(listed: Iterable[Any]) -> Positions | None:
    found = [place_of(each) for each in listed]
    positions = tuple(each for each in found if each is not None)
    return positions if len(positions) == len(found) else None


def _paths(content: Any, agents: int) -> dict[int, Path] | None:
    """Return the paths in a dict from JSON; None if they are invalid for ``agents`` agents."""
    if not isinstance(content, Mapping):
        return None
    found: dict[int, Path] = {}
    for agent, listed in content.items():
        points = listed if isinstance(listed, list) else []
        if not (str(agent).isdecimal() and int(agent) < agents and points):
            return None
        if not all(isinstance(each, list) and len(each) == 3 and all(map(_is_finite, each)) for each in points):
            return None
        if any(later[0] < earlier[0] for earlier, later in pairwise(points)):
            return None
        found[int(agent)] = [(float(time), float(x), float(y)) for time, x, y in points]
    return found


def _is_fault(content: Any, agents: int) -> bool:
    """Return whether a dict from JSON is a valid fault in a network of ``agents`` agents."""
    if not (isinstance(content, dict) and all(isinstance(content.get(name), str) for name in ("what", "text"))):
        return False
    begin, end = content.get("begin"), content.get("end")
    if not (_is_finite(begin) and (end is None or (_is_finite(end) and end >= begin))):
        return False
    sides = content.get("sides", [])
    lists = [content.get("agents"), *(content.get("links") or []), *(sides if isinstance(sides, list) else [None])]
    return isinstance(content.get("links"), list) and all(
        isinstance(each, list) and all(type(number) is int and 0 <= number < agents for number in each)
        for each in lists
    )


def _is_stack(content: Mapping[str, Any]) -> bool:
    """Return whether a dict from JSON has the prefix of addresses, in hexadecimal, and the ports of kinds."""
    ports = content.get("ports")
    return (
        isinstance(ports, dict)
        and all(type(port) is int for port in ports.values())
        and re.fullmatch("[0-9a-f]{16}", str(content.get("prefix"))) is not None
    )


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
