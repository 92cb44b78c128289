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
# Numbers of beacons and times (s) of clocks are below.
_MOST, _LATEST = 2**62, 1e12
# A time that differs by more (s) from the estimate is another clock's: stamps are exact, and a line through three of
# them is off by microseconds after the silence in which a root is replaced.
_JUMP = 1e-4
# Within so many seconds of a time, waiting for it is over.
_NEAR = 1e-7


class FTSP(Speaker):
    """FTSP: the root floods its time, each node estimates offset and drift by a linear regression over stamps.

    * A beacon carries the root's name, a number that only the root increases, and the sender's estimate of the root's
      time as the frame leaves. A receiver stamps it by its own clock, takes it if the number is new, and sends its own
      estimate once a period.
    * The root is the node of the least name. A node that has heard nothing new of a root of a lesser name than its own
      for ``patience`` periods makes itself the root. It goes on from its estimate, so that time does not jump.
    * A node that knows of a better root, but not yet its time, says so: its beacon carries None in place of the time.
      So names of roots spread by a hop in a period, where times take ``least`` periods, and nobody elects itself while
      time is on its way.
    * Stamps that contradict another root's, or a root whose time has jumped, leave the regression.

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
        Periods without a new beacon after which a node becomes the root; and for which a root that comes with a time of
        its own must stay before the nodes that follow it call themselves synchronised.

    Attributes
    ----------
    root : Hashable or None
        The root's name, as far as the node knows.
    foreign : Counter
        By kind, the frames that it heard and ignored.

    Notes
    -----
    Source: M. Maróti, B. Kusy, G. Simon and Á. Lédeczi, "The flooding time synchronization protocol", SenSys 2004; the
    defaults are the paper's. Outliers are not removed. Beacons without a time, and the number by which a root that has
    gone is told from one that lives, are not the paper's.
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
        # Own times (s) of stamps, and by how much the root's clock is ahead then.
        stamps = check.integer("table", table, low=self.least, high=_MOST_STAMPS)
        self._stamps: deque[tuple[float, float]] = deque(maxlen=stamps)
        self.root: Any = None
        # The number of the last stamp; and by root the last number that was heard of it at all, by which a beacon of
        # one that lives differs from what others still repeat of one that has gone.
        self._number = 0
        self._heard: dict[Hashable, int] = {}
        # For how many periods nothing new was heard of a root of a lesser name, and the time has been one root's.
        self._silent = self._settled = 0

    async def work(self) -> None:
        """Do what the application does; the agent goes on once this is over. To be overridden."""

    def global_time(self, local: float | None = None) -> float:
        """Return the root's time (s) at a time of the own clock, by default now."""
        local = self.now if local is None else local
        ahead, drift, middle = self._line()
        return local + ahead + drift * (local - middle)

    async def until(self, time: float) -> None:
        """Sleep until the root's clock shows a time (s), by the estimate at waking up."""
        while (left := time - self.global_time()) > _NEAR:
            # The estimate may change meanwhile, and the clocks run at different rates.
            await asyncio.sleep(min(left / (1 + self._line()[1]), self.period))

    def _line(self) -> tuple[float, float, float]:
        """Return by how much (s) the root's clock is ahead at an own time, the growth of that, and the own time (s)."""
        if not self._stamps:
            return 0.0, 0.0, 0.0
        times, ahead = np.array(self._stamps).T
        middle, spread = times.mean(), times - times.mean()
        squares = float(spread @ spread)
        drift = float(spread @ (ahead - ahead.mean())) / squares if squares else 0.0
        return float(ahead.mean()), drift, float(middle)

    @property
    def is_synchronised(self) -> bool:
        """Whether this node knows the time of a root that has no better one to give way to, as far as can be known.

        It has enough stamps of that root, or is it; and for ``patience`` periods no other root's time has come up,
        which a better root's does within as many hops.
        """
        return self._knows_time and self._settled >= self.patience

    @property
    def _knows_time(self) -> bool:
        return self.root == self.name or len(self._stamps) >= self.least

    async def run(self) -> None:
        """Send beacons, take beacons, and do the application's work."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.work())
            group.create_task(self._listen())
            await asyncio.sleep(self.period * self.rng.random())
            while True:
                await self._beacon()
                await asyncio.sleep(self.period)

    async def _beacon(self) -> None:
        """Send a beacon, if the node has something to say."""
        self._silent += 1
        self._settled += 1
        if self.root != self.name and self._silent > self.patience:
            if not self._knows_time:
                self._begin_anew()
            self.root = self.name
        if self.root is None:
            return
        if self.root == self.name:
            # A root that has lost its state goes on above the numbers from before.
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
        """Take a beacon that began at a time (s) of the own clock, if it is new and its root is not worse."""
        if root == self.name or (self.root is not None and _rank(root) > _rank(self.root)):
            return
        is_news = number > self._heard.get(root, -1)
        if root != self.root:
            if not is_news:
                # It has gone: this is what others repeat.
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
        """Return whether a root's time (s) at a time of the own clock is another than the estimate."""
        return abs(time - self.global_time(began)) > _JUMP

    def _begin_anew(self) -> None:
        """Forget a time: another has come up, or none was known."""
        self._stamps.clear()
        self._settled = 0


def _rank(name: Any) -> tuple[int, Any]:
    """Return by what names are compared, which may be numbers, texts and tuples of them side by side."""
    if isinstance(name, Real):
        return 0, name
    if isinstance(name, str):
        return 1, name
    if isinstance(name, tuple | list):
        return 2, tuple(map(_rank, name))
    return 3, repr(name)
