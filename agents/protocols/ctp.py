"""CTP, the Collection Tree Protocol: routes of least expected transmissions, checked by the data that they carry."""

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
_TENTHS = 10  # costs travel in tenths of a transmission
_NO_ROUTE = 0xFFFF
_MOST_COST = 128.0  # transmissions: two for each hop that a packet may take
# In least intervals of beacons: for how long a node that lost its route takes none, so that all who route over it learn
# that; and the longest between two of its beacons that ask for others'.
_HOLD, _ASK = 32, 128


class CTP(Collector):
    """The Collection Tree Protocol: a node's cost is its parent's plus the ETX of the link to it; the sink's is 0.

    * *Link estimation*: `LinkEstimator`, from beacons and acknowledgements.
    * *Adaptive beacons*: by `Trickle` without suppression. It is reset by a neighbour that asks for beacons (the pull
      bit of a node without a route), by a cost that fell by ``switch`` or more since the last beacon, by a route that
      is lost, and by data that show a loop.
    * *Datapath validation*: a data frame carries its sender's cost, which must be larger than the receiver's. Otherwise
      the topology is inconsistent: the receiver resets its timer, and forwards the packet all the same. If the packet
      has been here before, it is in a loop: the receiver gives its route up.
    * *No route*: a node whose route is given up, whose parent has none any more, or whose cost is beyond 128
      transmissions, says so at once. For 32 ``imin`` it takes no other route, for what its neighbours offer may lead
      back to it. Its packets wait. Then it asks for beacons, more and more seldom down to once in 128 ``imin``; only
      nodes with a route answer.

    Congestion bits, and more than one sink, are left out.

    Parameters
    ----------
    is_sink : bool
        Whether this node is the root of the tree.
    imin : float
        Least interval of beacons in seconds.
    doublings : int
        How often it doubles.
    switch : float
        By how many transmissions another parent must be better.
    table : int
        Neighbours whose links are estimated.
    **forwarding
        As for `Collector`.

    Attributes
    ----------
    cost : float
        Expected transmissions to the sink; infinite without a route.
    beacons : int
        Beacons sent.

    Notes
    -----
    Sources: O. Gnawali, R. Fonseca, K. Jamieson, D. Moss and P. Levis, "Collection Tree Protocol", SenSys 2009; R.
    Fonseca et al., "The Collection Tree Protocol (CTP)", TinyOS Enhancement Proposal 123. The defaults are those of
    TinyOS 2.1: beacons every 0.128 to 512 s, 1.5 transmissions to switch, 30 transmissions of a packet. What a node
    does without a route is ours: there costs count up along a loop until packets reach the hop limit.
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
        """Begin without a route."""
        self.estimator = LinkEstimator(self.rng, size=self.table)
        self.trickle = Trickle(self._beacon, self.rng, imin=self.imin, doublings=self.doublings)
        # Of each neighbour's last beacon the cost, and what a route through it costs, in transmissions; who of them are
        # children. A field has far more beacons than changes of these.
        self._offered: dict[Hashable, float] = {}
        self._through: dict[Hashable, float] = {}
        self._children: set[Hashable] = set()
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
        """The pull bit: whether this node asks its neighbours for beacons."""
        return math.isinf(self.cost)

    def hear(self, frame: netsim.Frame | netsim.mote.Message) -> None:
        """Take a beacon: count it, note the route that it offers, and answer its pull bit."""
        sequence, pulls, parent, tenths = frame.payload
        cost = math.inf if tenths == _NO_ROUTE else tenths / _TENTHS
        sender = frame.sender
        # Few beacons offer less than any: the first comparison leaves out the rest.
        compare = cost < max(self._offered.values(), default=-math.inf) and any(
            cost < other for node, other in self._offered.items() if node != self.parent
        )
        evicted = self.estimator.heard(sender, sequence, compare=compare)
        if evicted is not None:
            self._offered.pop(evicted, None)
            self._through.pop(evicted, None)
        if sender in self.estimator:
            (self._children.add if parent == self.name else self._children.discard)(sender)
            self._offered[sender] = cost
            self._weigh(sender)
        if pulls and not self._pulls:
            self.trickle.reset()
        self.choose()

    def measure(self, neighbor: Hashable, outcome: Delivery) -> None:
        """Count it, and weigh the neighbour's route anew."""
        super().measure(neighbor, outcome)
        if neighbor in self._offered:
            self._weigh(neighbor)

    def choose(self) -> None:
        """Choose the neighbour of least cost as parent, if it is better by ``switch`` than the one there is."""
        if self.is_sink:
            return
        costs = self._through
        if self.parent is not None and math.isinf(costs.get(self.parent, math.inf)):
            self._lose_route()
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
        had_route, has_route = math.isfinite(self._advertised), math.isfinite(self.cost)
        if (had_route and not has_route) or (has_route and self.cost <= self._advertised - self.switch):
            self.trickle.reset()

    def _weigh(self, node: Hashable) -> None:
        """Note the cost of the route through a neighbour: infinite through a child, and beyond the largest one."""
        cost = math.inf if node in self._children else self._offered[node] + self.estimator.etx(node)
        self._through[node] = cost if cost <= _MOST_COST else math.inf

    def _lose_route(self) -> None:
        """Have no route, say so, and take none until all who route over this node have heard it."""
        self.parent, self.cost = None, math.inf
        self.estimator.pinned = set()
        # What neighbours offered before they heard it may lead over this node; who has a route answers.
        self._offered.clear()
        self._through.clear()
        self._children.clear()
        self._held_until = self.now + _HOLD * self.imin
        self.trickle.reset()

    def inspect(self, packet: Packet, sender: Hashable, gradient: int) -> bool:
        """Reset the timer if the sender's cost is not larger than this node's; forward the packet in any case.

        A packet that comes round shows that this node routes over itself. It then waits for another route.
        """
        if gradient <= self.gradient:
            self.trickle.reset()
            if self.parent is not None and self.has_come_round(packet):
                self._lose_route()
        return True
