"""Turns by contention: when its timer fires, an agent claims its neighbourhood, and acts if all agree."""

import asyncio
from functools import partial
from typing import Any

from netsim.agents.projections.estimate import Part
from netsim.agents.projections.projector import Projector, longer
from netsim.core import Frame
from netsim.util import check
from netsim.util.typing import Vector


class Contention(Projector):
    """An agent with an exponential timer; when it fires it requests grants of all sharers, and acts if all agree.

    A sharer agrees at once unless it is claiming itself or has granted another claim; it takes no turn until the grant
    ends, with the new values or a release. So of agents that share an example never two act at a time, whatever the
    links do. While an agent holds back others it waits only for the delivery of its own messages, each repeated until
    it is answered, so there is no deadlock. After each refusal an agent pauses twice as long on average, up to 8-fold.

    A claim has a number, and is decided once: a late duplicate gets the same decision. ``pause`` is the mean of the
    timer in seconds: about the duration of the turns of all agents that share an example with this one. ``refused``
    counts the failed claims. Other parameters are those of `Projector`; it is always reliable.
    """

    def __init__(self, part: Part, sweeps: int, *, pause: float = 1.0, **settings: Any) -> None:
        super().__init__(part, sweeps, **settings | {"reliable": True})
        self.pause = check.finite("pause", pause, above=0.0)
        self.refused = 0
        self._claiming = False
        # The granted claim: its agent, and its number.
        self._granted: tuple[int, int] | None = None
        self._free = asyncio.Event()
        self._free.set()
        # For each sharer, its last claim that is decided and ended.
        self._settled = dict.fromkeys(part.sharers, 0)

    async def turns(self) -> None:
        """Take a turn for each sweep, each after a claim."""
        with self.at_work():
            await self._contend()

    async def _contend(self) -> None:
        mean, number = self.pause, 0
        while self.taken < self.sweeps:
            # After its grant ends the agent draws again; an exponential timer has no memory.
            await self._free.wait()
            await asyncio.sleep(self.rng.exponential(mean))
            if self._granted is not None:
                continue
            number += 1
            self._claiming = True
            granted = await self._claim(number)
            if len(granted) == len(self.part.sharers):
                await self.turn()
                mean = self.pause
            self._claiming = False
            if len(granted) < len(self.part.sharers):
                self.refused += 1
                mean = longer(mean, self.pause)
                await self.each(granted, partial(self.tell, kind="release", payload=number))

    async def _claim(self, number: int) -> list[int]:
        """Return the sharers that agree; on a radio no further one is requested after the first refusal."""
        granted: list[int] = []
        refused = False

        async def ask(sharer: int) -> None:
            nonlocal refused
            if self.on_radio and refused:
                return
            if await self.tell(sharer, "claim", number):
                granted.append(sharer)
            else:
                refused = True

        await self.each(self.part.sharers, ask)
        return granted

    def receive(self, frame: Frame) -> Any:
        """Decide a claim, or end it."""
        if frame.kind == "claim":
            return self._decide(frame)
        if frame.kind == "release" and self._granted == (frame.sender, frame.payload):
            self._settle()
        return super().receive(frame)

    def _decide(self, frame: Frame) -> bool:
        claim = sender, number = frame.sender, frame.payload
        if self._granted == claim:
            return True
        if number <= self._settled[sender]:  # type: ignore[index]
            return False
        if self._claiming or self._granted is not None:
            self._settled[sender] = number  # type: ignore[index]
            return False
        self._granted = claim  # type: ignore[assignment]
        self._free.clear()
        return True

    def take(self, sender: int, version: int, values: Vector) -> None:
        """Apply new values, with which the sender's claim ends."""
        if version > self.latest[sender] and self._granted is not None and self._granted[0] == sender:
            self._settle()
        super().take(sender, version, values)

    def _settle(self) -> None:
        """End the claim that was granted."""
        assert self._granted is not None
        sender, number = self._granted
        self._settled[sender], self._granted = number, None
        self._free.set()
