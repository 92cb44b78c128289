"""Log-distance path loss with shadowing: received powers and reception probabilities from nodes' positions.

The received power is P = P_t − PL(d) − W − X, with PL(d) = PL(d_0) + 10·n·log10(d/d_0). W is the loss of the walls
between the nodes, and X is the shadowing, a normal number drawn once per link. A frame is received if P plus the
frame's fading, a normal number of standard deviation σ, reaches the sensitivity θ: with probability Φ((P − θ)/σ).
Source: Rappaport, "Wireless Communications", 2nd ed. 2002, section 4.9; for walls, `netsim.radio.walls`.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim.errors import BadInput
from netsim.links.link import Link
from netsim.links.measured import LinkedGraph, from_reception
from netsim.radio.phy import doubt_power
from netsim.radio.powers import Powers
from netsim.radio.walls import Walls
from netsim.util import check, draws
from netsim.util.typing import Array

__all__ = ["LogDistance", "within"]

# The largest permitted path loss exponent, far above any real one.
_MOST_EXPONENT = 100.0

# `_normals` cannot return a number above this bound.
_MOST_SHADOW = 8.5
# Squares of numbers above _FAR, and powers of ten with exponents above _MOST_DECADES, may overflow.
_FAR, _MOST_DECADES = 1e150, 300.0
# `_near` compares this many pairs of points at a time, to limit its memory.
_BLOCK = 2**20

_Numbers = NDArray[np.int64]
_Places = dict[Any, tuple[float, ...]]

Positions = Mapping[Any, Any]
"""The positions of nodes in metres, {node: (x, y)}."""


@check.named
@dataclass(frozen=True, kw_only=True)
class LogDistance:
    """A model of log-distance path loss with shadowing, fading and walls.

    Parameters
    ----------
    exponent : float
        n: 2 in free space, 2.7 to 3.5 outdoors in a town, 1.6 to 6 in buildings; 100 at most.
    reference_loss : float
        PL(d_0) in dB; 40.2 is free space at 2.44 GHz and 1 m.
    reference_distance : float
        d_0 in metres; shorter distances count as d_0.
    shadowing : float
        Standard deviation of X in dB. X models obstacles on a link, and stays constant for the whole run.
    symmetric : bool
        Whether X is the same in both directions.
    fading : float
        σ in dB: the standard deviation of the power from frame to frame. 0: a link receives all frames or none.
    transmit_dbm : float
        P_t, the transmit power in dBm.
    sensitivity : float
        θ, the receivers' sensitivity in dBm; −95 is typical of the CC2420.
    walls : Walls, optional
        The floor plan, in the coordinates of the positions; `path_loss` ignores it.

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
    transmit_dbm: float = 0.0
    sensitivity: float = -95.0
    walls: Walls | None = None

    def __post_init__(self) -> None:
        check.fields(self, check.number, "exponent", above=0, high=_MOST_EXPONENT)
        check.fields(self, check.finite, "reference_distance", above=0)
        check.fields(self, check.finite, "shadowing", "fading", low=0)
        check.fields(self, check.finite, "reference_loss", "transmit_dbm", "sensitivity")
        doubt_power("transmit_dbm", self.transmit_dbm)
        check.fields(self, check.flag, "symmetric")
        check.instance("walls", self.walls, Walls, "a netsim.radio.Walls, such as Walls.from_csv(path)", optional=True)

    def path_loss(self, distance: float) -> float:
        """Return PL(d) in dB, without shadowing, for a distance in metres."""
        ratio = max(distance / self.reference_distance, 1.0)
        return self.reference_loss + 10.0 * self.exponent * math.log10(ratio)

    def powers(self, positions: "Positions | nx.Graph[Any]", *, seed: int = 0) -> Mapping[tuple[Any, Any], float]:
        """Return the received power of each ordered pair of nodes: {(sender, receiver): dBm}.

        Shadowing depends only on the seed and the names of the two nodes. The mapping is read-only (`Powers`).
        """
        return self._powers(_places(positions), check.integer("seed", seed, low=0))

    def powers_above(
        self, positions: "Positions | nx.Graph[Any]", level: float, *, seed: int = 0
    ) -> dict[tuple[Any, Any], float]:
        """Return both received powers of each pair of nodes that reaches ``level`` dBm in at least one direction.

        Time and memory grow with the number of these pairs. A pair that misses the level only by a rounding error may
        be included.
        """
        level, seed = check.finite("level", level), check.integer("seed", seed, low=0)
        return dict(self._powers(_places(positions), seed, level).items())

    def powers_between(
        self, pairs: Iterable[tuple[Any, Any]], positions: "Positions | nx.Graph[Any]", *, seed: int = 0
    ) -> dict[tuple[Any, Any], float]:
        """Return the received power (dBm) of each given pair (sender, receiver)."""
        pairs, places = list(pairs), _places(positions)
        number = {name: index for index, name in enumerate(places)}
        i, j = (np.array([number[ends[way]] for ends in pairs], dtype=np.int64) for way in (0, 1))
        keys = name_keys(places)
        shadows = self._shadows(keys[i], keys[j], check.integer("seed", seed, low=0))
        at = list(places.values())
        return dict(zip(pairs, self._exactly(at, np.array(at), i, j, shadows)[0].tolist(), strict=True))

    def powers_of(self, node: int, places: Sequence[tuple[float, ...]], keys: draws.Keys, *, seed: int) -> Array:
        """Return the received powers (dBm) from one node to all nodes, itself included, and back: shape (2, nodes).

        ``node`` is the index of this node. ``places`` are the positions (m) of all nodes, and ``keys`` are the
        `name_keys` of all nodes.
        """
        points, j = np.array(places), np.arange(len(places))
        i = np.full(len(places), node)
        return self._exactly(places, points, i, j, self._shadows(keys[i], keys[j], seed))

    def can_reach(
        self, node: int, others: "_Numbers", points: Array, keys: draws.Keys, level: float, *, seed: int
    ) -> "_Numbers":
        """Return those of ``others`` for which the received power from or to ``node`` is at least ``level`` dBm.

        Because of rounding errors, the result may include nodes with slightly lower powers.

        ``node`` and ``others`` are indices of nodes. ``points`` are the positions (m) of all nodes, shape
        (nodes, 2 or 3), and ``keys`` are the `name_keys` of all nodes.
        """
        here, level = np.full(len(others), node), level - self._slack(level)
        distances = np.sqrt(((points[others] - points[node]) ** 2).sum(axis=1))
        if type(self).path_loss is LogDistance.path_loss:
            near = distances <= self._reach(level) * (1.0 + 1e-9)
            others, here, distances = others[near], here[near], distances[near]
        shadows = self._shadows(keys[here], keys[others], seed)
        powers = self.transmit_dbm - self._path_losses(distances.tolist()) - shadows
        left = (powers >= level).any(axis=0)
        if self.walls is not None:
            others, here, powers = others[left], here[left], powers[:, left]
            left = (powers - self._behind_walls(points[here], points[others]) >= level).any(axis=0)
        return others[left]

    def reception(self, positions: "Positions | nx.Graph[Any]", *, seed: int = 0) -> dict[tuple[Any, Any], float]:
        """Return the reception probability of each ordered pair of nodes: {(sender, receiver): probability}."""
        return self._received(self.powers(positions, seed=seed))

    def network(
        self,
        positions: "Positions | nx.Graph[Any]",
        *,
        link: Link | None = None,
        least: float = 0.01,
        both: bool = False,
        seed: int = 0,
        connected: bool = True,
        coherence: float | None = None,
    ) -> LinkedGraph:
        """Return the graph of nodes that hear each other, and the settings of its links.

        ``positions`` are {node: (x, y)} in metres, or a graph whose nodes have ``pos``; the edges of this graph are
        ignored. For ``link``, ``least``, ``both`` and ``coherence`` see `netsim.links.from_table`. With ``connected``,
        a graph that is not connected raises BadInput, and the error names the nodes that are cut off.
        """
        places, least = _places(positions), check.probability("least", least)
        check.integer("seed", seed, low=0)
        if type(self).reception is LogDistance.reception:
            received = self._received(self._powers(places, seed, self._weakest(least)))
        else:
            received = self.reception(places, seed=seed)
        best = _best(received, both)
        if check.flag("connected", connected) and (best < least or not best):
            raise self._too_weak(places, least, both, seed)
        found = from_reception(
            received, link=link, least=least, both=both, positions=places, nodes=places, coherence=coherence
        )
        if connected:
            must_be_connected(found.graph, places)
        return found

    def audible(self, positions: "Positions | nx.Graph[Any]", threshold: float, *, seed: int = 0) -> "nx.DiGraph[Any]":
        """Return a graph with an edge (sender, receiver) for each received power of at least ``threshold`` dBm.

        The graph is suitable as `Radio.sensing`.
        """
        level = check.finite("threshold", threshold)
        places = _places(positions)
        graph: nx.DiGraph[Any] = nx.DiGraph()
        graph.add_nodes_from(places)
        powers = self._powers(places, check.integer("seed", seed, low=0), level)
        graph.add_edges_from(ends for ends, power in powers.items() if power >= level)
        return graph

    # --- pairs that matter --------------------------------------------------------------------------------------------

    def _powers(self, places: "_Places", seed: int, level: float = -math.inf) -> Mapping[tuple[Any, Any], float]:
        """Return both powers of each pair that reaches ``level`` dBm in either direction, in the order of nodes."""
        if level > -math.inf and type(self).powers is not LogDistance.powers:
            return self.powers(places, seed=seed)
        names, at = list(places), list(places.values())
        points = np.array(at)
        keys = name_keys(names)
        # Compute all pairs if distances cannot be bounded: `_reach` does not know the path loss of a subclass, and
        # squares of very large coordinates overflow.
        if type(self).path_loss is not LogDistance.path_loss or np.abs(points).max() > _FAR:
            level = -math.inf
        slack = self._slack(level)
        ends, powers = [], []
        for i, j, distances in _near(points, self._reach(level - slack)):
            shadows = self._shadows(keys[i], keys[j], seed)
            if level > -math.inf:
                # Preselect pairs with numpy's log10, which is fast but rounds differently from math.log10. `_exactly`
                # then uses math.log10 for the selected pairs.
                decades = np.log10(np.maximum(distances / self.reference_distance, 1.0))
                roughly = self.transmit_dbm - (self.reference_loss + 10.0 * self.exponent * decades) - shadows
                for walls in (False, True) if self.walls is not None else (False,):
                    behind = self._behind_walls(points[i], points[j]) if walls else 0.0
                    left = (roughly - behind >= level - slack).any(axis=0)
                    i, j, shadows, roughly = i[left], j[left], shadows[:, left], roughly[:, left]
            ends += [(i, j), (j, i)]
            powers += list(self._exactly(at, points, i, j, shadows))
        senders, receivers = (np.concatenate([part[end] for part in ends]) for end in (0, 1))
        order = np.lexsort((receivers, senders))
        return Powers(names, senders[order], receivers[order], np.concatenate(powers)[order])

    def _slack(self, level: float) -> float:
        """Bound the difference (dB) between a power near ``level`` by math.log10 and the same power by np.log10."""
        return 1e-9 * (1.0 + abs(self.transmit_dbm) + abs(self.reference_loss) + abs(level) + self.exponent)

    def _exactly(self, at: Sequence[Any], points: Array, i: _Numbers, j: _Numbers, shadows: Array) -> Array:
        """Return the powers (dBm) of pairs in both directions, shape (2, pairs), with the same rounding as `powers`.

        ``i`` and ``j`` hold the indices of each pair's nodes; ``at`` and ``points`` are the nodes' positions (m).
        """
        distances = map(math.dist, map(at.__getitem__, i.tolist()), map(at.__getitem__, j.tolist()))
        powers = self.transmit_dbm - self._path_losses(list(distances)) - shadows
        return powers if self.walls is None else powers - self._behind_walls(points[i], points[j])

    def _behind_walls(self, first: Array, second: Array) -> Array:
        """Return the loss (dB) of the walls between pairs of places, shape (pairs,)."""
        assert self.walls is not None
        if first.shape[1] < 2:
            raise BadInput("walls: must go with positions of two or three coordinates, not of one")
        return self.walls.loss_between(first, second)

    def _path_losses(self, distances: list[float]) -> Array:
        """Return PL(d) in dB for distances in metres, by math.log10, because numpy's log10 rounds differently."""
        if type(self).path_loss is not LogDistance.path_loss:
            return np.array(list(map(self.path_loss, distances)), dtype=float)
        ratios = np.maximum(np.array(distances) / self.reference_distance, 1.0)
        return self.reference_loss + 10.0 * self.exponent * np.array(list(map(math.log10, ratios.tolist())))

    def _shadows(self, a: draws.Keys, b: draws.Keys, seed: int) -> Array:
        """Return the shadowing X (dB) of links in both directions, shape (2, links), from the keys of their ends."""
        if not self.shadowing:
            return np.zeros((2, len(a)))
        ways = [(np.minimum(a, b), np.maximum(a, b))] if self.symmetric else [(a, b), (b, a)]
        return np.broadcast_to([self.shadowing * _normals(seed, *way) for way in ways], (2, len(a)))

    def _reach(self, level: float) -> float:
        """Return the distance in metres beyond which no shadowing lets a signal reach ``level`` dBm."""
        if level == -math.inf:
            return math.inf
        most = self.transmit_dbm + _MOST_SHADOW * self.shadowing
        decades = (most - self.reference_loss - level) / (10.0 * self.exponent)
        return self.reference_distance * 10.0 ** max(decades, 0.0) if decades < _MOST_DECADES else math.inf

    def _received(self, powers: Mapping[tuple[Any, Any], float]) -> dict[tuple[Any, Any], float]:
        """Return the reception probability of each pair from its received power (dBm)."""
        power = np.array([each for _, each in powers.items()])
        if self.fading:
            from scipy.special import ndtr

            received = ndtr((power - self.sensitivity) / self.fading)
        else:
            received = (power >= self.sensitivity).astype(float)
        return dict(zip(powers, received.tolist(), strict=True))

    def _weakest(self, least: float) -> float:
        """Return a power (dBm) below which the reception probability is 0 or less than ``least``."""
        if not self.fading:
            return self.sensitivity
        from scipy.special import ndtri

        # The normal quantile is infinite for 0 and 1, so limit it to −39 … 8: in float64, the distribution function is
        # 0 below −39 and almost 1 above 8. Subtract 0.01 as a margin for rounding errors.
        return self.sensitivity + self.fading * (min(max(float(ndtri(least)), -39.0), 8.0) - 0.01)

    def _too_weak(self, places: "_Places", least: float, both: bool, seed: int) -> BadInput:
        """Return the error for positions at which no pair reaches the reception probability ``least``."""
        level = self.sensitivity
        while True:
            powers = self._powers(places, seed, level)
            if powers and _best(powers, both) >= level:
                break
            level = level - 100.0 if level > -_FAR else -math.inf
        as_here = type(self).reception is LogDistance.reception
        best = _best(self._received(powers) if as_here else self.reception(places, seed=seed), both)
        power = max(powers.values())
        return BadInput(
            f"positions: must be nearer to one another, or transmit_dbm larger; the best pair receives {best:.2g}"
            f"{' each way' if both else ''} (least = {least:g}), the strongest signal is {power:.4g} dBm "
            f"(sensitivity = {self.sensitivity:g})"
        )


def within(positions: "Positions | nx.Graph[Any]", distance: float) -> "nx.Graph[Any]":
    """Return a graph with an edge between nodes at most ``distance`` apart, for example for `Radio.sensing`.

    ``distance`` is in the unit of the positions.
    """
    places, reach = _places(positions), check.finite("distance", distance, above=0)
    graph: nx.Graph[Any] = nx.Graph()
    graph.add_nodes_from(places)
    names, at = list(places), list(places.values())
    found = [zip(i.tolist(), j.tolist(), strict=True) for i, j, _ in _near(np.array(at), reach)]
    pairs = sorted((a, b) for part in found for a, b in part if math.dist(at[a], at[b]) <= reach)
    graph.add_edges_from((names[a], names[b]) for a, b in pairs)
    return graph


def must_be_connected(graph: "nx.Graph[Any]", places: Mapping[Any, tuple[float, ...]]) -> None:
    """Raise BadInput unless a graph is connected; the error names nodes cut off and their distance (m) to others."""
    if nx.is_connected(graph):
        return
    parts = sorted(nx.connected_components(graph), key=len, reverse=True)
    told = [_cut_off(part, places) for part in parts[1:4]]
    more = [f"and {len(parts) - 4} more such groups"] if len(parts) > 4 else []
    raise BadInput(f"positions: must be connected, or go with connected=False; {'; '.join([*told, *more])}")


def _cut_off(part: Collection[Any], places: Mapping[Any, tuple[float, ...]]) -> str:
    """Return the text of an error about one component: its nodes, and how far away the nearest other node is."""
    inside = [name for name in places if name in part]
    outside = [name for name in places if name not in part]
    squares = [((np.array(list(map(places.__getitem__, outside))) - places[name]) ** 2).sum(axis=1) for name in inside]
    first = int(np.argmin([each.min() for each in squares]))
    second = int(squares[first].argmin())
    far = f"{math.sqrt(squares[first][second]):.3g} m"
    if len(inside) == 1:
        return f"node {inside[0]!r} hears nobody; the nearest is {outside[second]!r}, {far} off"
    names = ", ".join(map(repr, inside[:3])) + (f" and {len(inside) - 3} more" if len(inside) > 3 else "")
    return (
        f"nodes {names} hear only one another; the nearest other is {outside[second]!r}, {far} from {inside[first]!r}"
    )


def _near(points: Array, reach: float) -> Iterator[tuple[_Numbers, _Numbers, Array]]:
    """Yield, in blocks, the indices i < j and distances of points at most ``reach`` apart (plus a rounding margin)."""
    with np.errstate(over="ignore"):
        axis = int(np.ptp(points, axis=0).argmax())
    order = np.argsort(points[:, axis], kind="stable")
    points = points[order]
    reach = reach * (1.0 + 1e-9) if reach < _FAR else math.inf
    # The points are sorted along one axis, so the candidates within reach of a point form a contiguous range.
    ends = np.searchsorted(points[:, axis], points[:, axis] + reach, side="right")
    start = 0
    while start < len(points):
        # A block is a matrix of distances. Its rows are consecutive points; its columns are all points that may be
        # within reach of any of them. The first row needs ``near`` columns, and each further row may add columns. The
        # number of rows is chosen so that a block with up to 2 · ``near`` columns has at most `_BLOCK` elements.
        near = int(ends[start] - start)
        stop = min(start + max(1, min(near + 64, _BLOCK // (2 * near))), len(points))
        here, there = points[start:stop], points[start : ends[stop - 1]]
        with np.errstate(over="ignore"):
            squares = sum((a[:, None] - b[None, :]) ** 2 for a, b in zip(here.T, there.T, strict=True))
        distances = np.sqrt(squares)
        rows, columns = np.nonzero(np.triu(distances <= reach, 1))
        a, b = order[start + rows], order[start + columns]
        yield np.minimum(a, b), np.maximum(a, b), distances[rows, columns]
        start = stop


def _best(values: Mapping[tuple[Any, Any], float], both: bool) -> float:
    """Return the largest value; with ``both``, the largest value that some pair reaches in both directions."""
    return max((min(value, values[ends[::-1]]) if both else value for ends, value in values.items()), default=0.0)


def name_keys(names: Iterable[Any]) -> draws.Keys:
    """Return the keys that identify nodes in random draws, shape (nodes,), from their names."""
    return np.array([draws.name_key(name) for name in names], dtype=np.uint64)


def _places(positions: "Positions | nx.Graph[Any]") -> _Places:
    if isinstance(positions, nx.Graph):
        for node, data in positions.nodes(data=True):
            if "pos" not in data:
                raise BadInput(f"positions: must be a graph whose nodes have pos; node {node!r} has none")
        positions = dict(positions.nodes(data="pos"))
    if not isinstance(positions, Mapping) or len(positions) < 2:
        raise check.refuse("positions", positions, "a mapping {node: (x, y)} of two nodes at least")
    places = {node: tuple(check.finite_array(f"positions[{node!r}]", at).tolist()) for node, at in positions.items()}
    size = len(next(iter(places.values())))
    if not size:
        raise check.refuse(f"positions[{next(iter(places))!r}]", (), "a number at least")
    for node, place in places.items():
        if len(place) != size:
            raise check.refuse(f"positions[{node!r}]", place, f"{size} numbers, as the others are")
    return places


def _normals(seed: int, first: draws.Keys, second: draws.Keys) -> Array:
    """Return one normal random number per link, shape (links,), determined by the keys of the link's ends."""
    from scipy.special import ndtri

    keys = draws.stream_keys(seed, draws.link_keys(first, second), "shadowing")
    normals: Array = ndtri(np.maximum(draws.uniforms(keys, 0, 1)[0], 2.0**-54))
    return normals
