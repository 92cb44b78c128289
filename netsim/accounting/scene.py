"""Where and when a run took place: what a trace needs besides its events."""

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

__all__ = ["Scene", "place_of", "positions_of"]

Places = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Scene:
    """A trace's description of its run as a whole.

    Attributes
    ----------
    round_period, ended_at : float
        In seconds.
    medium : str
        "wires", "radio", or "shared" for a `netsim.Radio`.
    positions : tuple of (x, y), or None
        Of the agents in turn, in the units of the graph's ``pos``; None if it had none.
    rounds : int
        The last round that opened; 0 if none did.
    """

    round_period: float
    ended_at: float
    medium: str
    positions: Places | None
    rounds: int

    def as_dict(self) -> dict[str, Any]:
        """Return the scene as JSON objects."""
        places = None if self.positions is None else [list(place) for place in self.positions]
        times = {"round_period": self.round_period, "rounds": self.rounds, "ended_at": self.ended_at}
        return {**times, "medium": self.medium, "positions": places}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], agents: int) -> "Scene":
        """Return the scene of an `as_dict`; raises ValueError for anything else, or another number of positions."""
        period, ended, medium, rounds = (content[name] for name in ("round_period", "ended_at", "medium", "rounds"))
        if type(rounds) is not int or rounds < 0:
            raise ValueError("its rounds are none")
        if not (_is_finite(period) and _is_finite(ended) and period > 0 and ended >= 0):
            raise ValueError("its times are none")
        if medium not in ("wires", "radio", "shared"):
            raise ValueError("its medium is none")
        listed = content["positions"]
        places = None if listed is None else _pairs(listed)
        if listed is not None and (places is None or len(places) != agents):
            raise ValueError("its positions are none")
        return cls(float(period), float(ended), medium, places, rounds)


def positions_of(graph: Any, agents: Iterable[Hashable]) -> Places | None:
    """Return the first two coordinates of each agent's ``pos`` in a networkx graph; None unless all have them."""
    return _pairs([graph.nodes[name].get("pos") for name in agents])


def place_of(value: Any) -> tuple[float, float] | None:
    """Return the first two of several coordinates, or None if they are no finite numbers."""
    try:
        x, y, *_ = value
    except (TypeError, ValueError):
        return None
    return (float(x), float(y)) if _is_finite(x) and _is_finite(y) else None


def _pairs(listed: Iterable[Any]) -> Places | None:
    found = [place_of(each) for each in listed]
    places = tuple(each for each in found if each is not None)
    return places if len(places) == len(found) else None


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
