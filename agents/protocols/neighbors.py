"""A table of neighbours, with their signal strengths and the reception rates in both directions."""

import asyncio
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import netsim
from netsim.agents.protocols.kinds import Form, Speaker, fields, is_name, whole
from netsim.draw import Kind, Number
from netsim.util import check

__all__ = ["Neighbor", "Neighbors"]

HELLO = "h"

_NUMBERS = 2**16
_SHARES = 100  # frames carry reception rates in whole percent
_MOST = 64  # the most neighbours listed in a frame
_TOLD = fields(is_name, whole(0, _SHARES))


@dataclass
class Neighbor:
    """The state of one neighbour.

    Attributes
    ----------
    rssi_dbm : float or None
        Moving average of the received power of the neighbour's frames; None if the medium does not model power.
    arrives : float
        Moving average of the share of the neighbour's frames that arrived at this node.
    is_heard : float or None
        The share of this node's frames that the neighbour reports as received; None without a report.
    last : float
        The time (s), on this node's clock, at which the neighbour's last frame arrived.
    """

    number: int
    rssi_dbm: float | None
    last: float
    arrives: float = 1.0
    is_heard: float | None = None


class Neighbors(Speaker):
    """Maintains a table of neighbours, from hellos that each node broadcasts once a period.

    A hello lists the sender's neighbours with their reception rates, so that each node knows the rates of both
    directions.

    Parameters
    ----------
    period : float
        Mean seconds between two hellos.
    size : int
        The capacity of the neighbour table, at most 64. If the table is full, a new neighbour is added only if it can
        replace one that has been silent for ``patience`` periods.
    patience : int
        Number of periods after which a silent neighbour is removed from the table.
    weight : float
        The weight of the past in the moving averages, in [0, 1).

    Attributes
    ----------
    table : dict
        {name: `Neighbor`}.
    foreign : Counter
        The number of received frames that were ignored, by kind.
    """

    draw: ClassVar = {"neighbors": Number(lambda a: len(a.table)), HELLO: Kind("hello")}

    kinds: ClassVar[Mapping[str, Form]] = {
        HELLO: fields(whole(0, _NUMBERS - 1), lambda told: type(told) is list and all(map(_TOLD, told)))
    }

    def __init__(self, period: float = 10.0, *, size: int = 16, patience: int = 5, weight: float = 0.8) -> None:
        super().__init__()
        self.period = check.finite("period", period, above=0)
        self.size = check.integer("size", size, low=1, high=_MOST)
        self.patience = check.integer("patience", patience, low=1)
        self.weight = check.number("weight", weight, low=0, high=math.nextafter(1, 0))
        self.table: dict[Hashable, Neighbor] = {}

    async def run(self) -> None:
        """Send hellos, and update the table with the hellos received."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            number = 0
            while True:
                await asyncio.sleep(self.period * self.rng.uniform(0.5, 1.5))
                self._forget()
                told = [[name, round(_SHARES * each.arrives)] for name, each in self.table.items()]
                await self.broadcast(HELLO, [number, told])
                number = (number + 1) % _NUMBERS

    def _forget(self) -> None:
        oldest = self.now - self.patience * self.period
        self.table = {name: each for name, each in self.table.items() if each.last >= oldest}

    async def _listen(self) -> None:
        async for frame in self.inbox:
            if self.is_own(frame):
                self._hear(frame)

    def _hear(self, frame: netsim.Frame) -> None:
        number, told = frame.payload
        # A message that arrived through a MAC layer of the mote has no attribute rssi_dbm.
        rssi = getattr(frame, "rssi_dbm", None)
        known = self.table.get(frame.sender)
        if known is None:
            if len(self.table) >= self.size:
                self._forget()
            if len(self.table) >= self.size:
                return
            known = self.table[frame.sender] = Neighbor(number, rssi, self.now)
        else:
            # Missed hellos lower the moving average. If ``patience`` or more are missing, none is counted, because the
            # neighbour was silent or has restarted.
            missed = (number - known.number - 1) % _NUMBERS
            for arrived in [*[0.0] * (missed if missed < self.patience else 0), 1.0]:
                known.arrives = self._average(known.arrives, arrived)
            if rssi is not None:
                known.rssi_dbm = rssi if known.rssi_dbm is None else self._average(known.rssi_dbm, rssi)
            known.number, known.last = number, self.now
        share = dict(told).get(self.name)
        known.is_heard = None if share is None else share / _SHARES

    def _average(self, before: float, new: float) -> float:
        return self.weight * before + (1 - self.weight) * new
