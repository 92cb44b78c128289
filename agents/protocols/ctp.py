"""CTP, the Collection Tree Protocol: routes with the fewest expected transmissions, validated by data packets."""

import math
from collections.abc import Coroutine, Hashable, Mapping
from typing import Any, ClassVar

import netsim
from netsim.agents.papers import CTP as PAPER
from netsim.agents.protocols.collector import Collector, Packet
from netsim.agents.protocols.estimator import LinkEstimator
from netsim.agents.protocols.kinds import Form, fields, flag, is_name, maybe, whole
from netsim.agents.protocols.trickle import Trickle, checked
from netsim.core.delivery import Delivery
from netsim.draw import Kind
from netsim.util import check

__all__ = ["CTP"]

BEACON = "b"
_TENTHS = 10  # frames carry costs in tenths of a transmission
_NO_ROUTE = 0xFFFF
_MOST_COST = 128.0  # highest cost of a route: two transmissions for each of the 64 possible hops
_PERFECT = 1.0  # ETX of a perfect link
_FALL = 2.0  # a cost that falls by more than this number of transmissions resets the timer
# In multiples of ``imin``. _HOLD: how long a node that lost its route accepts no new one, so that all nodes that route
# over it notice the loss. _ASK: then, the longest interval of the beacons that request the neighbours' beacons.
_HOLD, _ASK = 32, 128


class CTP(Collector):
    """The Collection Tree Protocol. A node's cost is the parent's cost plus the ETX of the link; the sink's cost is 0.

    * *Link estimation*: `LinkEstimator` uses beacons and acknowledgements. In a full table, a new neighbour replaces
      the neighbour with the costliest route, if a route through the new one may cost less by ``switch``.
    * *Adaptive beacons*: a `Trickle` timer without suppression sends beacons. Five events reset the timer: a neighbour
      requests beacons (the pull bit of a node without a route), the node gets its first route, the node's cost falls by
      more than two transmissions, the route is lost, or a data frame shows a loop.
    * *Datapath validation*: a data frame carries its sender's cost, which must be larger than the receiver's cost.
      Otherwise the topology is inconsistent: the receiver resets its timer, but still forwards the packet. If a packet
      returns to a node, it is in a loop, and the node leaves its parent.
    * *No route*: a node that leaves its parent, or whose parent lost its route, considers only neighbours with a lower
      cost than in the node's last beacon, because such a neighbour hardly routes over the node. If there is none, or
      the cost exceeds 128 transmissions, the node immediately announces that it has no route. Its packets wait. For 32
      ``imin`` it accepts no route, because its neighbours' routes may lead back to it. Then it requests beacons, at
      intervals that grow up to 128 ``imin``. Only nodes with a route answer.

    Congestion bits and several sinks are not implemented.

    Parameters
    ----------
    is_sink : bool
        Whether this node is the root of the tree.
    imin : float
        Shortest interval of beacons, in seconds.
    doublings : int
        Maximum number of doublings of this interval.
    switch : float
        The number of transmissions by which another parent must be better to replace the current one.
    table : int
        Maximum number of neighbours whose links are estimated.
    **forwarding
        As for `Collector`.

    Attributes
    ----------
    cost : float
        Expected transmissions to the sink; infinite without a route.
    beacons : int
        Number of beacons sent.

    Notes
    -----
    Sources: O. Gnawali, R. Fonseca, K. Jamieson, D. Moss and P. Levis, "Collection Tree Protocol", SenSys 2009; R.
    Fonseca et al., "The Collection Tree Protocol (CTP)", TinyOS Enhancement Proposal 123. The defaults are those of
    TinyOS 2.1: beacons every 0.128 to 512 s, 1.5 transmissions to switch, 30 transmissions of a packet. Two rules
    differ from TinyOS. First, a node in a loop keeps its parent in TinyOS, and costs count up until packets reach the
    hop limit. Second, in TinyOS a neighbour whose link is measured and not very bad is never removed from the table. In
    a dense field, routes then use the ten neighbours whose beacons arrived first. If a random neighbour were replaced,
    as in the estimator's paper, a hundred neighbours would replace each other before three beacons from any of them are
    counted.
    """

    paper: ClassVar[str] = PAPER
    draw: ClassVar = {**Collector.draw, BEACON: Kind("beacon")}
    kinds: ClassVar[Mapping[str, Form]] = {
        **Collector.kinds,
        BEACON: fields(whole(0, 255), flag, maybe(is_name), whole(0, _NO_ROUTE)),
    }

    def __init__(
        self,
        is_sink: bool = False,
        *,
        imin: float = 0.128,
        doublings: int = 12,
        switch: float = 1.5,
        table: int = 10,
        **forwarding: Any,
    ) -> None:
        super().__init__(is_sink, **forwarding)
        self.imin, self.doublings, _ = checked(imin, doublings)
        self.switch = check.finite("switch", switch, low=0)
        self.table = check.integer("table", table, low=1)
        self.cost = 0.0 if self.is_sink else math.inf
        self.beacons = 0

    @property
    def gradient(self) -> int:
        """The cost in tenths of a transmission."""
        return round(_TENTHS * self.cost) if math.isfinite(self.cost) else _NO_ROUTE

    def control(self) -> list[Coroutine[Any, Any, None]]:
        """Discard the routes and estimates, and return the coroutine of the beacons' timer."""
        self.estimator = LinkEstimator(size=self.table)
        self.trickle = Trickle(self._beacon, self.rng, imin=self.imin, doublings=self.doublings)
        # For each neighbour in the table, in transmissions. _offered: the cost in its last beacon. _through: the cost
        # of a route through it. _guessed: the cost of this route if an unmeasured link is perfect. The costs are
        # cached, because beacons are far more frequent than changes.
        self._offered: dict[Hashable, float] = {}
        self._through: dict[Hashable, float] = {}
        self._guessed: dict[Hashable, float] = {}
        self.parent, self.cost = None, 0.0 if self.is_sink else math.inf
        self._advertised = math.inf
        self._held_until = -math.inf
        self._calm = self.trickle.imax
        return [self.trickle.run()]

    async def _beacon(self) -> None:
        self.beacons += 1
        self.trickle.imax = min(self._calm, _ASK * self.imin) if self._pulls else self._calm
        self._advertised = self.cost
        await self.broadcast(BEACON, [self.beacons % 256, self._pulls, self.parent, self.gradient])

    @property
    def _pulls(self) -> bool:
        """The pull bit: whether this node requests its neighbours' beacons."""
        return math.isinf(self.cost) and self.now >= self._held_until

    def hear(self, frame: netsim.Frame | netsim.mote.Message) -> None:
        """Handle a beacon: update the link estimate and the offered route, and answer its pull bit by a beacon."""
        sequence, pulls, parent, tenths = frame.payload
        if pulls and self.cost < math.inf:
            self.trickle.reset()
        sender = frame.sender
        # A sender whose parent is this node is a child, and offers no route.
        cost = math.inf if tenths == _NO_ROUTE or parent == self.name else tenths / _TENTHS
        if sender not in self.estimator and len(self.estimator) >= self.table:
            # This test comes first, because in a dense field it discards most beacons.
            least = cost + _PERFECT + self.switch
            if least >= max(self._guessed.values()):
                return
            worst = max(self._guessed, key=lambda node: (node != self.parent, self._guessed[node]))
            if worst == self.parent or least >= self._guessed[worst]:
                return
            self.estimator.heard(sender, sequence, compare=worst)
            del self._offered[worst], self._through[worst], self._guessed[worst]
        else:
            self.estimator.heard(sender, sequence)
        self._offered[sender] = cost
        self._weigh(sender)
        self.choose()

    def measure(self, neighbor: Hashable, outcome: Delivery) -> None:
        """Update the link estimate with the outcome of a frame, and then the cost of the route over this link."""
        super().measure(neighbor, outcome)
        if neighbor in self._offered:
            self._weigh(neighbor)

    def choose(self) -> None:
        """Choose the neighbour with the lowest cost as parent if it is better than the current parent by ``switch``."""
        if self.is_sink:
            return
        costs, before = self._through, self.cost
        if self.parent is not None and math.isinf(costs.get(self.parent, math.inf)):
            self._leave()
        if self.now < self._held_until:
            return
        best = min(costs, key=costs.__getitem__, default=None)
        if best is not None and costs[best] + self.switch < costs.get(self.parent, math.inf):
            self.parent = best
        self.cost = costs.get(self.parent, math.inf)
        if math.isinf(self.cost):
            self.parent = None
        self.estimator.pinned = {self.parent}
        if self.parent is not None:
            self.wake()
        if self.cost + _FALL < before:
            self.trickle.reset()

    def _weigh(self, node: Hashable) -> None:
        """Update the cost of the route through a neighbour; it is infinite through a child, or above the maximum."""
        etx = self.estimator.etx(node)
        cost = self._offered[node] + etx
        self._guessed[node] = self._offered[node] + (etx if math.isfinite(etx) else _PERFECT)
        self._through[node] = cost if cost <= _MOST_COST else math.inf

    def _leave(self) -> None:
        """Change to the best neighbour with a lower cost than in this node's last beacon.

        Such a neighbour hardly routes over this node. If there is none, the route is lost.
        """
        nearer = min(self.cost, self._advertised)
        others = [node for node, cost in self._offered.items() if cost < nearer and node != self.parent]
        self.parent = min(others, key=self._through.__getitem__, default=None)
        if self.parent is None or math.isinf(self._through[self.parent]):
            self._lose_route()

    def _lose_route(self) -> None:
        """Drop the route and announce its loss. Accept no new route until all nodes that route over this one know."""
        self.parent, self.cost = None, math.inf
        self.estimator.pinned = set()
        # Earlier routes of the neighbours may lead over this node, so discard them. Neighbours with another route will
        # answer the pull bit.
        self._offered = dict.fromkeys(self._offered, math.inf)
        self._through, self._guessed = dict(self._offered), dict(self._offered)
        self._held_until = self.now + _HOLD * self.imin
        self.trickle.reset()

    def inspect(self, packet: Packet, sender: Hashable, gradient: int) -> bool:
        """Reset the timer if the sender's cost is not larger than this node's; forward the packet in any case.

        A packet that returns shows that the route leads back to this node, so the node leaves its parent.
        """
        if gradient <= self.gradient:
            self.trickle.reset()
            if self.parent is not None and self.has_come_round(packet):
                self._leave()
        return True
