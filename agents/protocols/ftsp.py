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
# Limits of beacons' numbers and of clocks' times (s).
_MOST, _LATEST = 2**62, 1e12
# A time that differs from the estimate by more (s) is taken as another clock's. Stamps are exact: after a root has
# failed, a line through three of them is off by only microseconds.
_JUMP = 1e-4
# Waiting for a time ends this many seconds before it.
_NEAR = 1e-7


class FTSP(Speaker):
    """FTSP: the root floods its time, each node estimates offset and drift by a linear regression over stamps.

    * A beacon carries the root's name, a number that only the root increases, and the sender's estimate of the root's
      time as the frame leaves. A receiver stamps it by its own clock, uses it if the number is new, and sends its own
      estimate once a period. * The root is the node with the smallest name. A node that has heard no new beacon of a
      root with a smaller name than its own for ``patience`` periods becomes the root. It continues its estimate, so
      that time does not jump. * A node that knows a better root, but not its time so far, sends beacons with None in
      place of the time. So names of roots advance one hop per period, while times take ``least`` periods, and no node
      becomes root while the time is spreading. * If stamps contradict earlier ones, because of another root or a jump
      of time, the earlier ones leave the regression.

    A beacon carries the age of its time as it leaves (`netsim.radio.handle.RadioHandle.transmit`), so any access to the
    channel will do. Stamps are exact to a microsecond here, without the jitter of interrupts.

    Parameters
    ----------
    period : float
        Seconds between two beacons of a node.
    table : int
        Stamps in the regression.
    least : int
        Stamps that a node must have before it sends times.
    patience : int
        Periods without a new beacon after which a node becomes the root. Nodes that follow a new root with a different
        time count as synchronised only after this number of periods.

    Attributes
    ----------
    root : Hashable or None
        The root's name, as far as the node knows.
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
        # Stamps' local times (s), and the root's clock minus the local clock then.
        stamps = check.integer("table", table, low=self.least, high=_MOST_STAMPS)
        self._stamps: deque[tuple[float, float]] = deque(maxlen=stamps)
        self.root: Any = None
        # The number of the last stamp; and for each root the last number heard at all, which a live root exceeds, while
        # a dead one is only repeated.
        self._number = 0
        self._heard: dict[Hashable, int] = {}
        # The periods without new beacons of a root with a smaller name, and the periods with one root's time.
        self._silent = self._settled = 0

    async def work(self) -> None:
        """Do the application's work; the agent continues after this returns. To be overridden."""

    def global_time(self, local: float | None = None) -> float:
        """Return the root's time (s) at a time of the node's own clock, by default now."""
        local = self.now if local is None else local
        ahead, drift, middle = self._line()
        return local + ahead + drift * (local - middle)

    async def until(self, time: float) -> None:
        """Sleep until the root's clock shows a time (s), by the estimate at waking up."""
        while (left := time - self.global_time()) > _NEAR:
            # The estimate may change meanwhile, and the clocks run at different rates.
            await asyncio.sleep(min(left / (1 + self._line()[1]), self.period))

    def _line(self) -> tuple[float, float, float]:
        """Return the root's clock minus the local clock (s) at a local time (s), its rate of change, and that time."""
        if not self._stamps:
            return 0.0, 0.0, 0.0
        times, ahead = np.array(self._stamps).T
        middle, spread = times.mean(), times - times.mean()
        squares = float(spread @ spread)
        drift = float(spread @ (ahead - ahead.mean())) / squares if squares else 0.0
        return float(ahead.mean()), drift, float(middle)

    @property
    def is_synchronised(self) -> bool:
        """Whether this node knows the time of the final root, as far as it can tell.

        It has enough stamps of that root, or is the root; and for ``patience`` periods no other root's time has
        appeared, which a better root's would within as many hops.
        """
        return self._knows_time and self._settled >= self.patience

    @property
    def _knows_time(self) -> bool:
        return self.root == self.name or len(self._stamps) >= self.least

    async def run(self) -> None:
        """Send and handle beacons, and do the application's work."""
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
            # A root that has lost its state continues above its earlier numbers.
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
        """Handle a beacon that began at a local time (s), if it is new and its root is not worse."""
        if root == self.name or (self.root is not None and _rank(root) > _rank(self.root)):
            return
        is_news = number > self._heard.get(root, -1)
        if root != self.root:
            if not is_news:
                # This root is dead: other nodes only repeat it.
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
        """Return whether a root's time (s) at a local time differs from the estimate."""
        return abs(time - self.global_time(began)) > _JUMP

    def _begin_anew(self) -> None:
        """Discard the stamps, because another time has appeared, or none was known."""
        self._stamps.clear()
        self._settled = 0


def _rank(name: Any) -> tuple[int, Any]:
    """Return a sort key of a name, which may be a number, a text or a tuple of these."""
    if isinstance(name, Real):
        return 0, name
    if isinstance(name, str):
        return 1, name
    if isinstance(name, tuple | list):
        return 2, tuple(map(_rank, name))
    return 3, repr(name)
