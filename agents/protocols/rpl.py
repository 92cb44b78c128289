"""RPL: routing along a DODAG rooted at the sink; Trickle timers advertise ranks that are computed from ETX."""

import asyncio
import math
from collections.abc import Coroutine, Hashable, Mapping
from typing import Any, ClassVar

import netsim
from netsim.agents.papers import RPL as PAPER
from netsim.agents.protocols.collector import Collector, Packet
from netsim.agents.protocols.downward import DATAGRAM, IS_DATAGRAM, MODES, Downward, is_datagram
from netsim.agents.protocols.estimator import LinkEstimator
from netsim.agents.protocols.kinds import Form, fields, nothing, whole
from netsim.agents.protocols.packets import RplPackets
from netsim.agents.protocols.trickle import Trickle, checked
from netsim.core.delivery import Delivery
from netsim.util import check

__all__ = ["RPL"]

DIO, DIS = "dio", "dis"
INFINITE_RANK = 0xFFFF
_RANK_ERROR = 1  # the flag R of a data packet
_UNIT = 128  # metric of a link with ETX = 1: RFC 6551, 4.3.2
_MAX_PATH_COST = 32768  # RFC 6719, section 5
_UNKNOWN_ETX = 2.0  # ETX that is assumed before the first sample
_URGENT = 0.05  # factor by which a node without a rank shortens the time between probes
_MANY = 1 << 16  # size of a neighbour table that is never full
_MOST_VERSION = 2**31 - 1


class RPL(Collector):
    """RPL: each node has a preferred parent and a rank, which grows with each hop from the root.

    * *Advertisements*: a `Trickle` timer sends DIOs, which carry the sender's rank. A node without a rank requests DIOs
      by a DIS, which resets its neighbours' timers.
    * *Rank* (MRHOF with ETX): the rank is the parent's rank plus 128 · ETX of the link, but at least the next multiple
      of ``min_hop_increase``. A node changes its parent only if the new one is better by ``switch``. Ranks are compared
      in whole multiples of ``min_hop_increase``: a neighbour is a candidate only if its rank is below both this node's
      rank and the rank that this node advertised last.
    * *Loops*: a node whose rank has grown by more than ``max_increase`` advertises an infinite rank (poison), forgets
      its neighbours, and requests DIOs. Until the root begins a new version of the DODAG (`repair`), it joins again
      only with a rank at most ``max_increase`` above its lowest one. A data packet carries its sender's rank. If the
      packet moves down, its receiver marks it, and sends its own rank to the packet's sender, as in Contiki-NG. If a
      marked packet moves down again, it is dropped, and the receiver's timer is reset.
    * *Link metrics* come from acknowledgements. An unmeasured link counts as ETX = 2. Every ``probing`` seconds on
      average, and more often without a rank, a DIO is sent to the candidate with the oldest measurement, to measure its
      link.
    * *Downward routes* come from DAOs (`netsim.agents.protocols.downward.Downward`). Either each node stores them, or
      only the root, which then writes the whole route into each message.
    * *Datagrams* go up to the root, which sends them down, even if a node on the way up has a route to the target.

    Shorter routes between two motes, DAO-ACKs and no-path DAOs, several DODAGs and instances, and metric containers are
    not implemented.

    Parameters
    ----------
    is_sink : bool
        Whether this node is the root.
    imin : float
        DIOIntervalMin in seconds.
    doublings : int
        DIOIntervalDoublings.
    k : int
        DIORedundancyConstant.
    min_hop_increase, max_increase, switch : int
        MinHopRankIncrease, DAGMaxRankIncrease and PARENT_SWITCH_THRESHOLD, in units of rank.
    probing, solicit : float
        Mean seconds between probes, and mean seconds between a node's DISs while it has no rank.
    downward : {"storing", "non-storing"}, optional
        The mode of operation for downward routes, the same at all nodes. By default there are no downward routes.
    refresh : float
        Mean seconds after which a node repeats its DAO.
    **forwarding
        As for `Collector`.

    Attributes
    ----------
    rank : int
        The node's rank; 65535 means infinite.
    version : int
        The version of the DODAG.
    dios, dises : int
        Numbers of DIOs (including probes) and of DISs sent.
    down : Downward or None
        The downward routes while the node runs: ``down.send(target, value)`` at the root, ``down.received`` at a mote.

    Notes
    -----
    Sources: T. Winter et al., "RPL: IPv6 Routing Protocol for Low-Power and Lossy Networks", RFC 6550, 2012; O. Gnawali
    and P. Levis, "The Minimum Rank with Hysteresis Objective Function", RFC 6719, 2012. The defaults of the timers,
    ``max_increase``, ``probing`` and ``attempts`` are those of Contiki-NG, and so is the change of rank that resets the
    timer. The timers of RFC 6550 (8 ms, 20 doublings) are too fast for IEEE 802.15.4.
    """

    paper: ClassVar[str] = PAPER
    kinds: ClassVar[Mapping[str, Form]] = {
        **Collector.kinds,
        DIO: fields(whole(0, _MOST_VERSION), whole(0, INFINITE_RANK)),
        DIS: nothing,
        **Downward.kinds,
    }
    on_ipv6 = RplPackets
    _agreed = ("downward",)

    def __init__(  # noqa: PLR0913  an editor shows every parameter
        self,
        is_sink: bool = False,
        *,
        imin: float = 4.096,
        doublings: int = 8,
        k: int = 10,
        min_hop_increase: int = 256,
        max_increase: int = 7 * 256,
        switch: int = 192,
        probing: float = 90.0,
        solicit: float = 30.0,
        downward: str | None = None,
        refresh: float = 300.0,
        attempts: int = 8,
        **forwarding: Any,
    ) -> None:
        super().__init__(is_sink, attempts=attempts, **forwarding)
        self.imin, self.doublings, self.k = checked(imin, doublings, k)
        self.min_hop_increase = check.integer("min_hop_increase", min_hop_increase, low=1, high=INFINITE_RANK - 1)
        self.max_increase = check.integer("max_increase", max_increase, low=0)
        self.switch = check.integer("switch", switch, low=0)
        self.probing = check.finite("probing", probing, above=0)
        self.solicit = check.finite("solicit", solicit, above=0)
        self.downward = None if downward is None else check.one_of("downward", downward, MODES)
        self.refresh = check.finite("refresh", refresh, above=0)
        self.down: Downward | None = None
        self.rank = self.min_hop_increase if self.is_sink else INFINITE_RANK
        self.version = self.dios = self.dises = 0

    @property
    def gradient(self) -> int:
        """The rank, which data packets carry."""
        return self.rank

    def control(self) -> list[Coroutine[Any, Any, None]]:
        """Discard the rank and all measurements, and return the protocol's background coroutines."""
        self.estimator = LinkEstimator(size=_MANY)
        self.trickle = Trickle(self._advertise, self.rng, imin=self.imin, doublings=self.doublings, k=self.k)
        self._ranks: dict[Hashable, int] = {}
        self._measured: dict[Hashable, float] = {}
        self.parent, self.rank = None, self.min_hop_increase if self.is_sink else INFINITE_RANK
        self._lowest = self._advertised = self.rank
        self._answers: asyncio.Queue[Hashable] = asyncio.Queue()
        always = [self.trickle.run(), self._answer()]
        if self.downward is not None:
            self.down = Downward(self, self.downward, self.refresh)
            always += self.down.control()
        return always if self.is_sink else [*always, self._solicit(), self._probe()]

    def take_command(self, value: Any) -> None:
        """Handle a command that the root sent to this node. To be overridden."""

    def datagram(self, to: Hashable, payload: Any, kind: str = DATAGRAM) -> bool:
        """Send a message to any node via the root; return False if it certainly failed.

        This needs ``downward``. The message may be lost, or arrive twice. At the target, the part that owns the kind
        receives it as a `netsim.mote.Message`; without a kind, `take_datagram` is called.

        Raises
        ------
        BadInput
            If the kind is reserved for RPL.
        """
        if kind != DATAGRAM and kind in self.kinds:
            raise check.refuse("kind", kind, "a kind of another part")
        self._number += 1
        packet = Packet(self.name, self._number, [to, kind, payload], flags=IS_DATAGRAM)
        if self.is_sink:
            return self.down is not None and self.down.turn(packet)
        return self._enqueue(packet)

    def take_datagram(self, sender: Hashable, payload: Any) -> None:
        """Handle a message that another node sent with `datagram` without a kind. To be overridden."""

    def hand_out(self, sender: Hashable, kind: str, payload: Any) -> None:
        """Pass a datagram that has reached its target to the part that owns its kind."""
        if kind == DATAGRAM:
            self.take_datagram(sender, payload)
        elif kind in self.kinds or not hasattr(self, "mote"):
            self.foreign[kind] += 1
        else:
            self.mote.hand_out(netsim.mote.Message(sender, kind, payload))

    def _arrive(self, packet: Packet) -> None:
        if not packet.flags & IS_DATAGRAM:
            super()._arrive(packet)
        elif is_datagram(packet.value):
            to, kind, payload = packet.value
            if to == self.name:
                self.hand_out(packet.origin, kind, payload)
            elif self.down is not None:
                self.down.turn(packet)

    def repair(self) -> None:
        """Begin a new version of the DODAG, which all nodes join (global repair). To be called at the root."""
        self.version += 1
        self.trickle.reset()

    # --- messages -----------------------------------------------------------------------------------------------------

    async def _advertise(self) -> None:
        if self.rank == INFINITE_RANK == self._advertised:
            return
        self.dios += 1
        self._advertised = self.rank
        await self.broadcast(DIO, [self.version, self.rank])
        if self.rank == INFINITE_RANK:
            self.dises += 1
            await self.broadcast(DIS)

    async def _solicit(self) -> None:
        while True:
            await asyncio.sleep(self.solicit * self.rng.uniform(0.5, 1.5))
            if self.rank == INFINITE_RANK:
                self.dises += 1
                await self.broadcast(DIS)

    async def _probe(self) -> None:
        while True:
            urgent = _URGENT if self.rank == INFINITE_RANK else 1.0
            await asyncio.sleep(urgent * self.probing * self.rng.uniform(0.5, 1.5))
            if candidates := [node for node in self._ranks if self._is_above(node)]:
                node = min(candidates, key=lambda each: self._measured.get(each, -1.0))
                await self._tell(node)

    async def _answer(self) -> None:
        while True:
            await self._tell(await self._answers.get())

    async def _tell(self, node: Hashable) -> None:
        """Send a DIO to one neighbour; its acknowledgement also measures the link."""
        self.dios += 1
        self.measure(node, await self.deliver(node, DIO, [self.version, self.rank]))
        self.choose()

    def hear(self, frame: netsim.Frame | netsim.mote.Message) -> None:
        """Handle a DIO, a DIS, or a message of the downward routes."""
        if frame.kind in Downward.kinds:
            if self.down is not None:
                self.down.hear(frame)
            return
        if frame.kind == DIS:
            self.trickle.reset()
            return
        sender, (version, rank), before = frame.sender, frame.payload, (self.parent, self.rank)
        if self.is_sink or version < self.version:
            return
        if version > self.version:
            self._join(version)
        if rank == INFINITE_RANK:
            self._ranks.pop(sender, None)
        else:
            self._ranks[sender] = rank
        self.choose()
        if rank < self.rank and before == (self.parent, self.rank):
            self.trickle.consistent()

    def measure(self, neighbor: Hashable, outcome: Delivery) -> None:
        """Update the link estimate with the outcome of a frame; the older the estimate, the lower is its weight."""
        now = self.now
        age = (now - self._measured.get(neighbor, now)) / self.probing
        self._measured[neighbor] = now
        self.estimator.sent(neighbor, outcome.attempts, bool(outcome), age=age)

    # --- parent and rank ----------------------------------------------------------------------------------------------

    def choose(self) -> None:
        """Choose the preferred parent, and derive the rank from it (RFC 6719, 3.2 and 3.3)."""
        if self.is_sink:
            return
        costs = {node: self._path_cost(node) for node in self._ranks if node == self.parent or self._is_above(node)}
        costs = {node: cost for node, cost in costs.items() if cost <= _MAX_PATH_COST}
        best = min(costs, key=costs.__getitem__, default=None)
        if best is not None and costs[best] + self.switch < costs.get(self.parent, 2 * _MAX_PATH_COST):
            self.parent = best
        if self.parent not in costs:
            self._poison()
            return
        above = self._ranks[self.parent]
        rank = max(costs[self.parent], (above // self.min_hop_increase + 1) * self.min_hop_increase)
        if self._lowest != INFINITE_RANK and rank > self._lowest + self.max_increase:
            self._poison()
            return
        self.rank, self._lowest = rank, min(self._lowest, rank)
        self.wake()
        if abs(self.rank - self._advertised) > 4 * self.min_hop_increase:
            self.trickle.reset()

    def _join(self, version: int) -> None:
        """Join a new version of the DODAG: forget the parent, the rank and the neighbours' ranks."""
        self.version, self.parent, self.rank = version, None, INFINITE_RANK
        self._lowest = self._advertised = INFINITE_RANK
        self._ranks.clear()
        self.trickle.reset()

    def _poison(self) -> None:
        self.parent = None
        if self.rank == INFINITE_RANK:
            return
        # _lowest is kept: it limits the rank at which the node may join again. Without this limit, nodes without a path
        # to the root would join each other again and again.
        self.rank = INFINITE_RANK
        self._ranks.clear()
        self.trickle.reset()

    def _is_above(self, node: Hashable) -> bool:
        """Return whether a neighbour has a lower DAGRank, that is, its rank in whole multiples of ``min_hop_increase``.

        It is compared with the lower of this node's rank and its last advertised rank, on which its children rely.
        """
        return self._ranks[node] // self.min_hop_increase < min(self.rank, self._advertised) // self.min_hop_increase

    def _path_cost(self, node: Hashable) -> int:
        """Return the cost of the path through a neighbour.

        RFC 6719 also limits the metric of a link. This is not done, because a node with only bad links would get no
        route.
        """
        etx = self.estimator.etx(node)
        return self._ranks[node] + round(_UNIT * (etx if math.isfinite(etx) else _UNKNOWN_ETX))

    def inspect(self, packet: Packet, sender: Hashable, gradient: int) -> bool:
        """Mark a packet that moved down; return False, to drop it, if it was marked before (RFC 6550, 11.2.2.2).

        The sender's rank in the packet, which may be newer than that in its last DIO, is stored. If the packet moved
        down, this node also sends its rank to the sender.
        """
        if self._ranks.get(sender, gradient) != gradient:
            self._ranks[sender] = gradient
            self.choose()
        if gradient > self.rank:
            return True
        self._answers.put_nowait(sender)
        if packet.flags & _RANK_ERROR:
            self.trickle.reset()
            return False
        packet.flags |= _RANK_ERROR
        return True
