"""Learning on a mote: runs a round-based method; the synchronised time of the motes determines the rounds."""

import asyncio
from typing import Any, ClassVar

import netsim
from netsim.agent import attach
from netsim.agents.consensus.base import SharingAgent
from netsim.agents.consensus.coded_sums import REPAIR
from netsim.agents.consensus.sharing import KEY
from netsim.draw import Number
from netsim.util import check

__all__ = ["Learner"]


class Learner(netsim.Part):
    """Runs a round-based method, such as `netsim.agents.COKE`, by the common time of motes.

    The `netsim.Mote` must also have a part ``time``, such as `netsim.agents.FTSP`: ``Mote(time=FTSP(), routing=CTP(),
    learn=Learner(COKE(problem, 100), period=20))``. Round k starts when the common time is ``begin`` +
    (k − 1)·``period``. The mote waits for a random delay, so that neighbours do not send at the same time. Then it
    takes its local step and broadcasts. When the next round starts, the mote processes the frames that have arrived. A
    mote that does not know the common time, or is down, skips the round, and continues with the next one.

    Parameters
    ----------
    method : SharingAgent
        The method, with its local cost; its ``count`` is the number of rounds.
    period : float
        Seconds from one round to the next, by the common time.
    begin : float
        The common time (s) at which round 1 starts, the same at all motes.
    spread : float, optional
        Maximum random delay (s) of a broadcast after the start of a round; by default half of the period.

    Attributes
    ----------
    steps : int
        Number of rounds in which the mote has taken a step.
    late : int
        Number of frames dropped because they arrived while no round was open at this mote.

    Raises
    ------
    BadInput
        If ``method`` is not a `SharingAgent`, has a server, or has no rounds, or if a number is outside its range.
    """

    kinds: ClassVar[tuple[str, ...]] = ("state", "change", "sum", "edge", KEY, REPAIR)
    draw: ClassVar = {"steps": Number(), "theta": Number(lambda a: float((a.theta**2).sum() ** 0.5))}

    def __init__(self, method: SharingAgent, *, period: float, begin: float = 0.0, spread: float | None = None) -> None:
        check.instance("method", method, SharingAgent, "a method in rounds, such as netsim.agents.COKE")
        if method.has_server or type(method).run is not SharingAgent.run:
            raise check.refuse("method", type(method).__name__, "a method that runs in rounds and has no server")
        self.method = method
        self.period = check.finite("period", period, above=0)
        self.begin = check.finite("begin", begin)
        self.spread = self.period / 2 if spread is None else check.finite("spread", spread, low=0, high=period)
        self.steps = self.late = 0
        # The frames received in the open round; None while no round is open.
        self._heard: list[Any] | None = None

    @property
    def theta(self) -> Any:
        """The method's state θ_i, with the shape of its cost's ``size``."""
        return self.method.theta

    async def run(self) -> None:
        """Run the method's rounds until the last one is over."""
        time = getattr(getattr(self, "mote", None), "time", None)
        if time is None:
            raise netsim.BadInput("Learner: must be in a mote with the part time")
        attach(self.method, self._netsim)
        self.method.begin()
        listening = asyncio.create_task(self._listen())
        try:
            await self._learn(time)
        finally:
            listening.cancel()

    async def _learn(self, time: Any) -> None:
        while True:
            k = max(int((time.global_time() - self.begin) // self.period) + 2, 1)
            if k > self.method.count:
                return
            await time.until(self.begin + (k - 1) * self.period)
            if not time.is_synchronised:
                await asyncio.sleep(min(1.0, self.period))
                continue
            while k <= self.method.count and time.is_synchronised:
                self._heard = []
                await asyncio.sleep(self.rng.uniform(0, self.spread))
                await self.method.say(k)
                await time.until(self.begin + k * self.period)
                heard, self._heard = self._heard, None
                self.method.hear(heard, k)
                self.steps += 1
                k += 1

    async def _listen(self) -> None:
        async for frame in self.inbox:
            if self._heard is None:
                self.late += 1
            else:
                self._heard.append(frame)
