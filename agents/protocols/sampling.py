"""Sampling by a common clock: all motes of a network read their sensors at the same time, and report later."""

import asyncio
from typing import Any, ClassVar

import netsim
from netsim.draw import Number
from netsim.util import check

__all__ = ["Sampler"]


class Sampler(netsim.Part):
    """Samples when the common time is a multiple of a period, and reports after a random delay.

    The `netsim.Mote` must also have a part ``time``, such as `netsim.agents.FTSP`, and a part ``routing``, such as
    `netsim.agents.CTP`: ``Mote(time=FTSP(), routing=CTP(), app=Sampler(30))``. A subclass defines `read`.

    Parameters
    ----------
    period : float
        Seconds between two samples, by the common time.
    spread : float, optional
        Maximum random delay (s) from a sample to its report; by default half of the period.

    Attributes
    ----------
    taken : dict
        {slot: time (s) of the sample on the mote's clock}. The slot is the common time divided by the period.
    """

    draw: ClassVar = {"readings": Number(lambda a: len(a.taken))}

    def __init__(self, period: float = 30.0, *, spread: float | None = None) -> None:
        self.period = check.finite("period", period, above=0)
        self.spread = self.period / 2 if spread is None else check.finite("spread", spread, low=0, high=period)
        self.taken: dict[int, float] = {}

    def read(self, slot: int) -> Any:
        """Return the value to report for a sample; the report also contains the slot. To be overridden."""
        return round(20.0 + float(self.rng.normal()), 2)

    async def run(self) -> None:
        """Sample and report in each slot, as soon as the mote knows the common time."""
        mote: Any = getattr(self, "mote", None)
        time: Any = getattr(mote, "time", None)
        routing: Any = getattr(mote, "routing", None)
        if time is None or routing is None:
            raise netsim.BadInput("Sampler: must be in a mote with the parts time and routing")
        while True:
            if not time.is_synchronised:
                await asyncio.sleep(min(1.0, self.period))
                continue
            slot = int(time.global_time() // self.period) + 1
            await time.until(slot * self.period)
            if slot in self.taken or not time.is_synchronised:
                # The common time has been set back or lost during the wait.
                await asyncio.sleep(self.period / 2)
                continue
            self.taken[slot] = self.now
            value = self.read(slot)
            await asyncio.sleep(self.rng.uniform(0, self.spread))
            routing.report([slot, value])
