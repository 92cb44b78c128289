"""Capacities of nodes: outgoing frames share a node's uplink, and incoming frames share its downlink.

A frame on its way over a link is a *transfer*. The speed of a transfer changes only when a transfer begins or ends, so
all times are computed without time steps. On each link, only one transfer is active at a time; later ones wait.
"""

import itertools
import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim.errors import BadInput
from netsim.links.link import Link
from netsim.util import check
from netsim.util.typing import Vector

__all__ = ["Capacity", "Fluid", "Transfer", "fair", "in_order"]

Indices = NDArray[np.int64]
Limits = NDArray[np.float64]


@dataclass(frozen=True)
class Capacity:
    """The capacities of a network's nodes in bits per second; a node without an entry has no limit."""

    uplink: Mapping[Hashable, float]
    downlink: Mapping[Hashable, float]
    sharing: str

    @classmethod
    def of(cls, graph: "nx.Graph[Any]", uplink: Any, downlink: Any, sharing: str) -> "Capacity | None":
        """Validate a network's capacities; return None if there are none. Raises BadInput if one is invalid."""
        check.one_of("sharing", sharing, _FILL)
        if uplink is None and downlink is None:
            if sharing != "fair":
                raise check.refuse("sharing", sharing, "left out without an uplink or a downlink")
            return None
        return cls(_by_node("uplink", uplink, graph), _by_node("downlink", downlink, graph), sharing)

    def limits(self, nodes: Iterable[Hashable]) -> Limits:
        """Return the uplink and downlink capacities of nodes, shape (2, nodes); infinity means no limit."""
        return np.array([[each.get(node, math.inf) for node in nodes] for each in (self.uplink, self.downlink)])


def _by_node(name: str, value: Any, graph: "nx.Graph[Any]") -> dict[Hashable, float]:
    if not isinstance(value, Mapping):
        return {} if value is None else dict.fromkeys(graph, check.finite(name, value, above=0))
    for node in value:
        if node not in graph:
            raise BadInput(f"{name}: must have nodes of the graph as keys; {node!r} is none")
    return {node: check.finite(f"{name}[{node!r}]", each, above=0) for node, each in value.items()}


@dataclass(slots=True, eq=False)
class Transfer:
    """A frame on its way over a link between nodes with capacities.

    Attributes
    ----------
    link : int
        The link's index.
    fragments : list of int
        The bits of each fragment.
    start : float
        The time (s) at which the first bit leaves; before that is known, the earliest possible time.
    offered : float
        The time (s) at which the frame was offered to the link.
    number, key, kind : int
        The number of the sender's transmission, the key of the link message, and the index of the kind of message.
    leave : callable
        Called with this transfer and the list of times (s) at which the last bit of each fragment left.
    """

    link: int
    fragments: list[int]
    start: float
    offered: float
    number: int
    key: int
    kind: int
    leave: "Callable[[Transfer, list[float]], None]"
    # `_times`: the times (s) at which the speed changed. `_sent`: the number of bits sent by each of these times.
    _times: list[float] = field(default_factory=list)
    _sent: list[float] = field(default_factory=list)

    @property
    def bits(self) -> int:
        """The bits of all fragments."""
        return sum(self.fragments)

    @property
    def has_begun(self) -> bool:
        """Whether the first bit has been sent."""
        return bool(self._times)

    def note(self, time: float, left: float) -> None:
        """Record that ``left`` bits remain at ``time`` (s), when the speed changes."""
        if left == self.bits:
            self.start = time
        self._times.append(time)
        self._sent.append(self.bits - left)

    def ends(self, time: float) -> list[float]:
        """Return the times (s) at which the fragments' last bits left, where the last of all left at ``time``."""
        ends = []
        times, sent = [*self._times, time], [*self._sent, self.bits]
        for bits in itertools.accumulate(self.fragments[:-1]):
            place = bisect_left(sent, bits)
            share = (bits - sent[place - 1]) / (sent[place] - sent[place - 1])
            ends.append(times[place - 1] + share * (times[place] - times[place - 1]))
        return [*ends, time]


class Fluid:
    """All transfers of a network: computes their speeds and the time of the next event.

    Parameters
    ----------
    senders, receivers : int arrays, shape (links,)
        The ends of each link.
    limits : float array, shape (2, nodes)
        The uplink and downlink capacities of nodes in bits per second; infinity means no limit.
    settings : sequence of Link
        The settings of each link, whose rates are constant.
    sharing : {"fair", "fifo"}
        How transfers share a capacity: by `fair` or by `in_order`.

    Attributes
    ----------
    limited : bool array, shape (links,)
        Whether a node at an end of the link has a limit.
    """

    def __init__(
        self, senders: Indices, receivers: Indices, limits: Limits, settings: Sequence[Link], sharing: str
    ) -> None:
        links = len(settings)
        self._ends = np.stack([senders, receivers + limits.shape[1]])
        self._limits, self._fill = limits.ravel(), _FILL[sharing]
        self._most = np.array([math.inf if link.rate is None else link.rate for link in settings], dtype=np.float64)
        self.limited = np.isfinite(self._limits[self._ends]).any(axis=0)
        self._queues: dict[int, deque[Transfer]] = {}
        # For the first transfer on each link: `_moves`: whether it is active. `_offered`, `_number`: as in `Transfer`.
        # `_speed`: its speed since the time `_since`, when `_left` bits remained. `_next`: the time of its next event.
        self._moves = np.zeros(links, dtype=bool)
        self._offered, self._number = np.zeros(links), np.zeros(links)
        self._speed, self._since, self._left = np.zeros(links), np.zeros(links), np.zeros(links)
        self._next = np.full(links, math.inf)
        # `_stale`: whether a transfer began or ended at the time `_now` (s), so that speeds must be recomputed.
        self._stale, self._now = False, 0.0

    def held(self, link: int, until: float) -> Iterator[Transfer]:
        """Yield the transfers on a link that will not have ended by ``until`` (s) if speeds stay constant."""
        first = 1 if self._moves[link] and self._next[link] <= until else 0
        return itertools.islice(self._queues.get(link, ()), first, None)

    def under_way(self) -> Iterator[Transfer]:
        """Yield all transfers, active or waiting."""
        return itertools.chain(*self._queues.values())

    def offer(self, transfer: Transfer) -> None:
        """Add a transfer at the time at which it is offered; call `advance` for that time first."""
        queue = self._queues.setdefault(transfer.link, deque())
        queue.append(transfer)
        if len(queue) == 1:
            self._begin(transfer, transfer.offered)

    def set_rate(self, link: int, settings: Link, now: float) -> None:
        """Change the constant rate of a link from ``now`` (s) on; call `advance` for that time first."""
        assert settings.rate is None or isinstance(settings.rate, float | int)
        self._most[link] = math.inf if settings.rate is None else settings.rate
        self._stale, self._now = True, now

    def drop(self, link: int, now: float) -> list[Transfer]:
        """Remove and return the transfers of a link at ``now`` (s); call `advance` for that time first."""
        dropped = list(self._queues.pop(link, ()))
        self._moves[link], self._next[link] = False, math.inf
        self._stale, self._now = True, now
        return dropped

    def next(self) -> float:
        """Return the time (s) of the next event; infinity if there is none."""
        if self._stale:
            self._share()
        return float(self._next.min())

    def advance(self, now: float) -> list[tuple[Transfer, float]]:
        """Advance the time to ``now`` (s); return the transfers that have ended, with their ends (s)."""
        ended = []
        while not (self._stale and self._now == now) and (time := self.next()) <= now:
            for link in np.flatnonzero(self._next == time).tolist():
                queue = self._queues[link]
                self._next[link] = math.inf
                if self._moves[link]:
                    self._moves[link], self._stale, self._now = False, True, time
                    ended.append((queue.popleft(), time))
                if queue:
                    self._begin(queue[0], time)
        return ended

    def _begin(self, transfer: Transfer, now: float) -> None:
        link = transfer.link
        if transfer.start > now:  # A budget delays the transfer.
            self._next[link] = transfer.start
            return
        transfer.start = now
        self._moves[link], self._speed[link], self._since[link] = True, 0.0, now
        self._left[link], self._offered[link], self._number[link] = transfer.bits, transfer.offered, transfer.number
        self._stale, self._now = True, now

    def _share(self) -> None:
        """Recompute the speeds at the last change; a transfer with an unchanged speed gains no rounding errors."""
        now, live = self._now, np.flatnonzero(self._moves)
        speed = self._fill(
            self._ends[:, live], self._limits, self._most[live], (self._number[live], self._offered[live])
        )
        changed = speed != self._speed[live]
        links, speed = live[changed], speed[changed]
        left = np.maximum(self._left[links] - self._speed[links] * (now - self._since[links]), 0.0)
        self._left[links], self._speed[links], self._since[links] = left, speed, now
        # A transfer without any capacity left waits until other transfers end.
        self._next[links] = np.where(speed > 0, now + left / np.where(speed > 0, speed, 1.0), math.inf)
        for link, bits in zip(links.tolist(), left.tolist(), strict=True):
            self._queues[link][0].note(now, bits)
        self._stale = False


def fair(ends: Indices, limits: Vector, most: Vector, order: tuple[Vector, Vector]) -> Vector:
    """Return max-min fair speeds by progressive filling: to raise a speed would lower an equal or lower one.

    A capacity is called full if none of its transfers is limited elsewhere; its transfers then get equal shares. Each
    step fixes the speeds of all transfers at full capacities, and of all that have reached their links' rates.
    """
    speed, left, rest = np.empty(len(most)), limits.copy(), np.arange(len(most))
    while len(rest):
        up, down = ends[:, rest]
        count = np.bincount(up, minlength=len(left)) + np.bincount(down, minlength=len(left))
        level = left / np.maximum(count, 1)
        share = np.minimum(np.minimum(level[up], level[down]), most[rest])
        least = level.copy()
        np.minimum.at(least, up, share)
        np.minimum.at(least, down, share)
        full = least == level
        settled = share == most[rest]
        for end in (up, down):
            settled |= full[end] & (share == level[end])
        for end in (up, down):
            left -= np.bincount(end[settled], share[settled], minlength=len(left))
        speed[rest[settled]] = share[settled]
        rest = rest[~settled]
    return speed


def in_order(ends: Indices, limits: Vector, most: Vector, order: tuple[Vector, Vector]) -> Vector:
    """Return the speeds if each transfer, in the order of offering, takes all capacity that earlier ones leave."""
    speed, left = np.empty(len(most)), limits.tolist()
    pairs, rates = ends.T.tolist(), most.tolist()
    for place in np.lexsort(order).tolist():
        up, down = pairs[place]
        speed[place] = each = max(min(left[up], left[down], rates[place]), 0.0)
        left[up] -= each
        left[down] -= each
    return speed


_FILL: dict[str, Callable[[Indices, Vector, Vector, tuple[Vector, Vector]], Vector]] = {"fair": fair, "fifo": in_order}
