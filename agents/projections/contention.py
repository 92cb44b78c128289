"""Turns by contention: when its timer fires, an agent sends a claim to its neighbours, and acts if all agree."""

import asyncio
from functools import partial
from typing import Any

from netsim.agents.projections.estimate import Part
from netsim.agents.projections.projector import Projector, longer
from netsim.core import Frame
from netsim.util import check
from netsim.util.typing import Vector


class Contention(Projector):
    """An agent with an exponential timer: when it fires, the agent sends a claim to all sharers, and acts if all agree.

    A sharer agrees unless it has a claim itself or has granted another claim. It then takes no turn until the grant
    ends, with the new values or a release. So two agents that share an example never act at the same time, whatever the
    links do. While an agent has a claim, it waits only for the delivery of its messages, each of which is repeated
    until it is answered; so there is no deadlock. Each refusal doubles the agent's mean pause, up to 8 times ``pause``.

    A claim has a number, and is decided only once: a late duplicate gets the same decision. ``pause`` is the mean of
    the timer in seconds; a good value is the duration of the turns of all sharers. ``refused`` counts the refused
    claims. Other parameters are those of `Projector`; messages are always repeated until they are acknowledged.
    """

    def __init__(self, part: Part, sweeps: int, *, pause: float = 1.0, **settings: Any) -> None:
        super().__init__(part, sweeps, **settings | {"reliable": True})
        self.pause = check.finite("pause", pause, above=0.0)
        self.refused = 0
        self._claiming = False
        # The claim that this agent has granted: the claiming agent, and the claim's number.
        self._granted: tuple[int, int] | None = None
        self._free = asyncio.Event()
        self._free.set()
        # {sharer: the number of its last claim that has ended}.
        self._settled = dict.fromkeys(part.sharers, 0)

    async def turns(self) -> None:
        """Take a turn for each sweep, each after a claim."""
        with self.at_work():
            await self._contend()

    async def _contend(self) -> None:
        mean, number = self.pause, 0
        while self.taken < self.sweeps:
            # After the grant ends, draw a new time: this is correct, because an exponential timer has no memory.
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
        """Send a claim, and return the sharers that agree; on a radio, stop after the first refusal."""
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
        """Process a message: decide a claim, or end it."""
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
        """Apply a sender's new values, which also end its claim."""
        if version > self.latest[sender] and self._granted is not None and self._granted[0] == sender:
            self._settle()
        super().take(sender, version, values)

    def _settle(self) -> None:
        """End the claim that this agent has granted."""
        assert self._granted is not None
        sender, number = self._granted
        self._settled[sender], self._granted = number, None
        self._free.set()
