"""FTSP, the Flooding Time Synchronization Protocol: every node knows the time of one root's clock."""

import asyncio
from collections import deque
from collections.abc import Hashable, Mapping
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from netsim.agents.papers import FTSP as PAPER
from netsim.agents.protocols.kinds import Form, Speaker, fields, is_name, maybe, number, whole
from netsim.draw import Kind, Role, Star
from netsim.util import check

__all__ = ["FTSP"]

# More stamps than any mote holds.
_MOST_STAMPS = 10**6

BEACON = "t"
# Upper bounds for beacons' numbers and for times (s).
_MOST, _LATEST = 2**62, 1e12
# A received time that differs from the estimate by more than this (s) must come from another clock. Time stamps are
# exact, so after a root has failed, a line through three of them has an error of only microseconds.
_JUMP = 1e-4
# `FTSP.until` may end this many seconds early, so that rounding errors cause no further tiny waits.
_NEAR = 1e-7


class FTSP(Speaker):
    """FTSP: the root floods its time; each node estimates offset and drift by a linear regression over time stamps.

    * A beacon carries the root's name, a number that only the root increases, and the sender's estimate of the root's
      time. If the number is new, a receiver stores this time, together with the time of its clock, as a stamp. Once a
      period it broadcasts a beacon with its estimate.
    * The root is the node with the smallest name. If a node receives no new beacon of a root with a smaller name for
      ``patience`` periods, it becomes the root. It continues with its estimate of the time, so the time does not jump.
    * A node that knows the name of a better root, but not yet this root's time, sends beacons with None instead of the
      time. So a root's name advances one hop per period, whereas the time needs ``least`` periods per hop. No node
      becomes the root while the time is still spreading.
    * If stamps contradict earlier stamps, because of another root or a jump of the time, the earlier ones are
      discarded.

    A beacon also carries the age of its time at the moment of transmission
    (`netsim.radio.handle.RadioHandle.transmit`), so delays of the channel access do no harm. Stamps are exact to a
    microsecond here, without the jitter of interrupts.

    Parameters
    ----------
    period : float
        Seconds between two beacons of a node.
    table : int
        Maximum number of stamps in the regression.
    least : int
        Number of stamps that a node needs before it sends times.
    patience : int
        Number of periods without a new beacon after which a node becomes the root. Nodes that follow a new root with a
        different time count as synchronised only after this number of periods.

    Attributes
    ----------
    root : Hashable or None
        The name of the root that the node follows; None before the first.
    foreign : Counter
        The number of received frames that were ignored, by kind.

    Notes
    -----
    Source: M. Maróti, B. Kusy, G. Simon and Á. Lédeczi, "The flooding time synchronization protocol", SenSys 2004; the
    defaults are the paper's. Outliers are not removed. Beacons without a time, and the number that distinguishes a dead
    root from a live one, are not in the paper.
    """

    draw: ClassVar = {
        "is_synchronised": Role(usual="False"),
        "is_root": Star(lambda a: a.root == a.name),
        BEACON: Kind("time"),
    }

    paper: ClassVar[str] = PAPER
    uses_radio: ClassVar[bool] = True
    kinds: ClassVar[Mapping[str, Form]] = {
        BEACON: fields(is_name, whole(0, _MOST), maybe(number(-_LATEST, _LATEST))),
    }

    def __init__(self, period: float = 30.0, *, table: int = 8, least: int = 3, patience: int = 5) -> None:
        super().__init__()
        self.period = check.finite("period", period, above=0)
        self.least = check.integer("least", least, low=2, high=_MOST_STAMPS)
        self.patience = check.integer("patience", patience, low=1)
        # A stamp is (local time of a beacon, the root's clock minus the local clock at this time), in seconds.
        stamps = check.integer("table", table, low=self.least, high=_MOST_STAMPS)
        self._stamps: deque[tuple[float, float]] = deque(maxlen=stamps)
        self.root: Any = None
        # _number: the number of the last stamp. _heard: for each root, the highest number received. Only a live root
        # exceeds it; the beacons of a dead root are only repeated by other nodes.
        self._number = 0
        self._heard: dict[Hashable, int] = {}
        # _silent: the number of periods without a new beacon of a root with a smaller name. _settled: the number of
        # periods with the same root's time.
        self._silent = self._settled = 0

    async def work(self) -> None:
        """Run the application. To be overridden; the protocol continues after this method returns."""

    def global_time(self, local: float | None = None) -> float:
        """Return the estimated root's time (s) at the time ``local`` of the node's clock, by default now."""
        local = self.now if local is None else local
        ahead, drift, middle = self._line()
        return local + ahead + drift * (local - middle)

    async def until(self, time: float) -> None:
        """Sleep until the root's clock shows ``time`` (s), according to the node's latest estimate."""
        while (left := time - self.global_time()) > _NEAR:
            # Divide by the ratio of the clock rates. Wake at least once a period, because the estimate may change.
            await asyncio.sleep(min(left / (1 + self._line()[1]), self.period))

    def _line(self) -> tuple[float, float, float]:
        """Return (root's clock − local clock (s), drift of this difference, local time to which it refers)."""
        if not self._stamps:
            return 0.0, 0.0, 0.0
        times, ahead = np.array(self._stamps).T
        middle, spread = times.mean(), times - times.mean()
        squares = float(spread @ spread)
        drift = float(spread @ (ahead - ahead.mean())) / squares if squares else 0.0
        return float(ahead.mean()), drift, float(middle)

    @property
    def is_synchronised(self) -> bool:
        """Whether this node probably knows the time of the final root.

        The node must be the root or have enough stamps of the root. In addition, no other root's time may have arrived
        for ``patience`` periods; within this time, a better root at most ``patience`` hops away would have appeared.
        """
        return self._knows_time and self._settled >= self.patience

    @property
    def _knows_time(self) -> bool:
        return self.root == self.name or len(self._stamps) >= self.least

    async def run(self) -> None:
        """Send and handle beacons, and run the application."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.work())
            group.create_task(self._listen())
            await asyncio.sleep(self.period * self.rng.random())
            while True:
                await self._beacon()
                await asyncio.sleep(self.period)

    async def _beacon(self) -> None:
        """Send a beacon, unless the node has no information."""
        self._silent += 1
        self._settled += 1
        if self.root != self.name and self._silent > self.patience:
            if not self._knows_time:
                self._begin_anew()
            self.root = self.name
        if self.root is None:
            return
        if self.root == self.name:
            # A crash resets the number. The next one must exceed the earlier ones, so it is at least now // period.
            self._number = max(self._number + 1, int(self.now // self.period))
            self._heard[self.root] = self._number
        now = self.now
        said = [self._number, self.global_time(now)] if self._knows_time else [self._heard[self.root], None]
        await self.radio.transmit(BEACON, [self.root, *said], event=now)

    async def _listen(self) -> None:
        async for frame in self.inbox:
            if self.is_own(frame) and frame.event is not None:
                root, number, time = frame.payload
                self._hear(root, number, time, frame.event)

    def _hear(self, root: Any, number: int, time: float | None, began: float) -> None:
        """Handle a beacon whose time refers to the local time ``began`` (s); ignore beacons of worse roots."""
        if root == self.name or (self.root is not None and _rank(root) > _rank(self.root)):
            return
        is_news = number > self._heard.get(root, -1)
        if root != self.root:
            if not is_news:
                # This root is dead: other nodes only repeat its last beacon.
                return
            if time is None or not self._knows_time or self._contradicts(time, began):
                self._begin_anew()
            self.root, self._number = root, -1
        if is_news:
            self._heard[root] = number
            if _rank(root) < _rank(self.name):
                self._silent = 0
        if time is None or number <= self._number:
            return
        if len(self._stamps) >= self.least and self._contradicts(time, began):
            self._begin_anew()
        self._number = number
        self._stamps.append((began, time - began))

    def _contradicts(self, time: float, began: float) -> bool:
        """Return whether a received time (s), valid at the local time ``began``, differs from the estimate."""
        return abs(time - self.global_time(began)) > _JUMP

    def _begin_anew(self) -> None:
        """Discard the stamps, because they belong to another time."""
        self._stamps.clear()
        self._settled = 0


def _rank(name: Any) -> tuple[int, Any]:
    """Return a key that sorts node names of mixed types: numbers, then strings, then tuples of these."""
    if isinstance(name, Real):
        return 0, name
    if isinstance(name, str):
        return 1, name
    if isinstance(name, tuple | list):
        return 2, tuple(map(_rank, name))
    return 3, repr(name)
