"""From positions to reception: log-distance path loss with shadowing.

P = P_t − PL(d) − X, with PL(d) = PL(d_0) + 10·n·log10(d/d_0) and X normal, drawn once for each link. A frame is
received if P and what it fades by reach the sensitivity θ: with probability Φ((P − θ)/σ). Source: Rappaport, "Wireless
Communications", 2nd ed. 2002, section 4.9.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import networkx as nx
import numpy as np

from netsim.errors import BadInput
from netsim.links.link import Link
from netsim.links.measured import Measured, from_reception
from netsim.util import check, draws

__all__ = ["LogDistance", "within"]

# Nowhere is a path loss near so steep.
_MOST_EXPONENT = 100.0

Positions = Mapping[Any, Any]
"""{node: (x, y)} in metres."""


@dataclass(frozen=True, kw_only=True)
class LogDistance:
    """Log-distance path loss.

    Parameters
    ----------
    exponent : float
        n: 2 in free space, 2.7 to 3.5 outdoors in a town, 1.6 to 6 in buildings; 100 at most.
    reference_loss : float
        PL(d_0) in dB; 40.2 is free space at 2.44 GHz and 1 m.
    reference_distance : float
        d_0 in metres; what is nearer counts as so far.
    shadowing : float
        Standard deviation of X in dB: what walls do to a link, for the whole run.
    symmetric : bool
        Whether X is the same in both directions.
    fading : float
        σ in dB: by how much the power differs from frame to frame. 0: a link receives all or nothing.
    transmit_power : float
        P_t in dBm.
    sensitivity : float
        θ in dBm; −95 is the CC2420's, typically.

    Raises
    ------
    BadInput
        If a value is outside its range.
    """

    exponent: float = 3.0
    reference_loss: float = 40.2
    reference_distance: float = 1.0
    shadowing: float = 0.0
    symmetric: bool = True
    fading: float = 4.0
    transmit_power: float = 0.0
    sensitivity: float = -95.0

    def __post_init__(self) -> None:
        check.fields(self, check.number, "exponent", above=0, high=_MOST_EXPONENT)
        check.fields(self, check.finite, "reference_distance", above=0)
        check.fields(self, check.finite, "shadowing", "fading", low=0)
        check.fields(self, check.finite, "reference_loss", "transmit_power", "sensitivity")
        check.fields(self, check.flag, "symmetric")

    def path_loss(self, distance: float) -> float:
        """Return PL(d) in dB, without shadowing, for a distance in metres."""
        ratio = max(distance / self.reference_distance, 1.0)
        return self.reference_loss + 10.0 * self.exponent * math.log10(ratio)

    def powers(self, positions: "Positions | nx.Graph[Any]", *, seed: int = 0) -> dict[tuple[Any, Any], float]:
        """Return the power (dBm) with which each is received by each other: {(sender, receiver): dBm}.

        Shadowing is a function of the seed and the names of the two ends.
        """
        places = _places(positions)
        check.integer("seed", seed, low=0)
        found = {}
        for (a, here), (b, there) in permutations(places.items(), 2):
            shadow = self.shadowing * _normal(seed, a, b, self.symmetric) if self.shadowing else 0.0
            found[a, b] = self.transmit_power - self.path_loss(math.dist(here, there)) - shadow
        return found

    def reception(self, positions: "Positions | nx.Graph[Any]", *, seed: int = 0) -> dict[tuple[Any, Any], float]:
        """Return the probability with which a frame of each reaches each other: {(sender, receiver): probability}."""
        return {ends: self._received(power) for ends, power in self.powers(positions, seed=seed).items()}

    def network(
        self,
        positions: "Positions | nx.Graph[Any]",
        *,
        link: Link | None = None,
        least: float = 0.01,
        both: bool = False,
        seed: int = 0,
    ) -> Measured:
        """Return the graph of nodes that hear each other, and its links, as `netsim.links.from_table` does.

        ``positions`` are {node: (x, y)} in metres, or a graph whose nodes have ``pos``; its edges do not matter.
        """
        places, least = _places(positions), check.probability("least", least)
        received = self.reception(places, seed=seed)
        best = max(min(p, received[ends[::-1]]) if both else p for ends, p in received.items())
        if best < least or not best:
            power = max(self.powers(places, seed=seed).values())
            raise BadInput(
                f"positions: must be nearer to one another, or transmit_power larger; the best pair receives {best:.2g}"
                f"{' each way' if both else ''} (least = {least:g}), the strongest signal is {power:.4g} dBm "
                f"(sensitivity = {self.sensitivity:g})"
            )
        return from_reception(received, link=link, least=least, both=both, positions=places)

    def audible(self, positions: "Positions | nx.Graph[Any]", threshold: float, *, seed: int = 0) -> "nx.DiGraph[Any]":
        """Return an edge for each pair received with at least ``threshold`` dBm: for `netsim.Radio`'s sensing, say."""
        level = check.finite("threshold", threshold)
        graph: nx.DiGraph[Any] = nx.DiGraph()
        graph.add_nodes_from(_places(positions))
        graph.add_edges_from(ends for ends, power in self.powers(positions, seed=seed).items() if power >= level)
        return graph

    def _received(self, power: float) -> float:
        if not self.fading:
            return float(power >= self.sensitivity)
        from scipy.special import ndtr

        return float(ndtr((power - self.sensitivity) / self.fading))


def within(positions: "Positions | nx.Graph[Any]", distance: float) -> "nx.Graph[Any]":
    """Return an edge for each pair within ``distance``, in the positions' unit: for `netsim.Radio`'s sensing, say."""
    places, reach = _places(positions), check.finite("distance", distance, above=0)
    graph: nx.Graph[Any] = nx.Graph()
    graph.add_nodes_from(places)
    pairs = combinations(places, 2)
    graph.add_edges_from((a, b) for a, b in pairs if math.dist(places[a], places[b]) <= reach)
    return graph


def _places(positions: "Positions | nx.Graph[Any]") -> dict[Any, tuple[float, ...]]:
    if isinstance(positions, nx.Graph):
        for node, data in positions.nodes(data=True):
            if "pos" not in data:
                raise BadInput(f"positions: must be a graph whose nodes have pos; node {node!r} has none")
        positions = dict(positions.nodes(data="pos"))
    if not isinstance(positions, Mapping) or len(positions) < 2:
        raise check.refuse("positions", positions, "a mapping {node: (x, y)} of two nodes at least")
    places = {node: tuple(check.finite_array(f"positions[{node!r}]", at).tolist()) for node, at in positions.items()}
    size = len(next(iter(places.values())))
    for node, place in places.items():
        if len(place) != size:
            raise check.refuse(f"positions[{node!r}]", place, f"{size} numbers, as the others are")
    return places


def _normal(seed: int, a: Hashable, b: Hashable, symmetric: bool) -> float:
    """Return a link's own normal number."""
    from scipy.special import ndtri

    ends = [draws.name_key(a), draws.name_key(b)]
    first, second = (np.array([key], dtype=np.uint64) for key in (sorted(ends) if symmetric else ends))
    key = draws.stream_keys(seed, draws.link_keys(first, second), "shadowing")
    return float(ndtri(np.maximum(draws.uniforms(key, 0, 1)[0, 0], 2.0**-54)))
