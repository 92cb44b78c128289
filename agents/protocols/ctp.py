"""CTP, the Collection Tree Protocol: routes of least expected transmissions, validated by data packets."""

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
_MOST_COST = 128.0  # transmissions: two for each of a packet's possible hops
_PERFECT = 1.0  # ETX, at best
_FALL = 2.0  # transmissions: a cost that falls by more at once resets the timer
# In multiples of the shortest beacon interval: how long a node without a route takes none, so that all nodes routing
# over it notice; and the longest interval of its beacons that request others' beacons.
_HOLD, _ASK = 32, 128


class CTP(Collector):
    """The Collection Tree Protocol: a node's cost is its parent's plus the ETX of the link to it; the sink's is 0.

    * *Link estimation*: `LinkEstimator`, from beacons and acknowledgements. In a full table a new neighbour replaces
    the one with the costliest route, if a route through the new one may cost less by ``switch``. * *Adaptive beacons*:
    by `Trickle` without suppression. It is reset by a neighbour that requests beacons (the pull
      bit of a node without a route), by a first route, by a cost that falls by more than two transmissions at once, by
      a route that is lost, and by data that show a loop.
    * *Datapath validation*: a data frame carries its sender's cost, which must be larger than the receiver's. Otherwise
    the topology is inconsistent: the receiver resets its timer, but still forwards the packet. A packet that returns is
    in a loop: the receiver leaves its parent. * *No route*: a node that leaves its parent, or whose parent lost its
    route, chooses the best neighbour that offers less than the node's own last beacon did, because such a neighbour
    hardly routes over the node. If there is none, or the cost exceeds 128 transmissions, it announces at once that it
    has no route. For 32 ``imin`` it takes no route, because its neighbours' routes may lead back to it. Its packets
    wait. Then it requests beacons, at intervals that grow up to 128 ``imin``; only nodes with a route answer.

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
    TinyOS 2.1: beacons every 0.128 to 512 s, 1.5 transmissions to switch, 30 transmissions of a packet. Two rules
    differ from TinyOS. In TinyOS a node keeps its parent in a loop, and costs count up until packets reach the hop
    limit. There also a neighbour whose link is measured and not very bad keeps its place in the table, so that in a
    dense field routes use the ten neighbours heard first. Replacing a random neighbour, as in the estimator's paper,
    makes a hundred neighbours replace each other before three beacons of any are counted.
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
        self.estimator = LinkEstimator(size=self.table)
        self.trickle = Trickle(self._beacon, self.rng, imin=self.imin, doublings=self.doublings)
        # For each neighbour in the table, in transmissions: the cost in its last beacon, the cost of a route through
        # it, and that cost if an unmeasured link is perfect. They are cached, because beacons are far more frequent
        # than changes.
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
        """Handle a beacon: count it, store the offered route, and answer its pull bit."""
        sequence, pulls, parent, tenths = frame.payload
        if pulls and self.cost < math.inf:
            self.trickle.reset()
        sender = frame.sender
        # A child offers no route.
        cost = math.inf if tenths == _NO_ROUTE or parent == self.name else tenths / _TENTHS
        if sender not in self.estimator and len(self.estimator) >= self.table:
            # In a dense field most beacons are ignored here.
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
        """Count the outcome, and update the neighbour's route."""
        super().measure(neighbor, outcome)
        if neighbor in self._offered:
            self._weigh(neighbor)

    def choose(self) -> None:
        """Choose the neighbour of least cost as parent, if it is better than the present one by ``switch``."""
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
        """Update the cost of the route through a neighbour: infinite through a child, and above the largest cost."""
        etx = self.estimator.etx(node)
        cost = self._offered[node] + etx
        self._guessed[node] = self._offered[node] + (etx if math.isfinite(etx) else _PERFECT)
        self._through[node] = cost if cost <= _MOST_COST else math.inf

    def _leave(self) -> None:
        """Leave the parent for a neighbour that offers less than this node's last beacon, and hardly routes over it.

        Without such a neighbour the route is lost.
        """
        nearer = min(self.cost, self._advertised)
        others = [node for node, cost in self._offered.items() if cost < nearer and node != self.parent]
        self.parent = min(others, key=self._through.__getitem__, default=None)
        if self.parent is None or math.isinf(self._through[self.parent]):
            self._lose_route()

    def _lose_route(self) -> None:
        """Drop the route, announce this, and take no route until all nodes that route over this one know."""
        self.parent, self.cost = None, math.inf
        self.estimator.pinned = set()
        # Neighbours' earlier offers may lead over this node, so forget them; neighbours with a route answer.
        self._offered = dict.fromkeys(self._offered, math.inf)
        self._through, self._guessed = dict(self._offered), dict(self._offered)
        self._held_until = self.now + _HOLD * self.imin
        self.trickle.reset()

    def inspect(self, packet: Packet, sender: Hashable, gradient: int) -> bool:
        """Reset the timer if the sender's cost is not larger than this node's; forward the packet in any case.

        A returning packet shows that this node routes over itself, so it leaves its parent.
        """
        if gradient <= self.gradient:
            self.trickle.reset()
            if self.parent is not None and self.has_come_round(packet):
                self._leave()
        return True
