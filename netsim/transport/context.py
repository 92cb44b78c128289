"""What an agent holds of its network: its place there, its inbox and outbox, and the rounds it takes part in.

agent → outbox → link → inbox → agent: you are at both ends.
"""

import asyncio
import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from netsim.errors import AgentError
from netsim.links.reliability import Reliability
from netsim.transport.inbox import Inbox
from netsim.transport.outbox import Outbox
from netsim.transport.shared import Shared

if TYPE_CHECKING:
    from netsim.radio.energy import EnergyAccount

__all__ = ["Context", "Rounds"]


class Context:
    """What the network gives one agent for one run."""

    __slots__ = (
        "_passed",
        "collected",
        "delay",
        "down",
        "energy",
        "first_round",
        "inbox",
        "left",
        "name",
        "neighbors",
        "outbox",
        "reliability",
        "requests",
        "rng",
        "round",
        "seed",
        "shared",
    )

    def __init__(
        self, shared: Shared, name: Hashable, neighbors: tuple[Hashable, ...], inbox: Inbox, outbox: Outbox, seed: int
    ) -> None:
        self.shared = shared
        self.name = name
        self.neighbors = neighbors
        self.inbox = inbox
        self.outbox = outbox
        self.seed = seed
        # What its radio spends, where that is kept.
        self.energy: EnergyAccount | None = None
        self.rng: np.random.Generator | None = None
        self.reliability = Reliability()
        self.round = 0
        # The last round that it left, and when.
        self.left = (0, 0.0)
        self.collected = 0
        self.requests = 0
        # Seconds that a straggler needs before each message.
        self.delay = 0.0
        # Whether its node is down.
        self.down = False
        # The first round that it took part in.
        self.first_round = 0
        # Rounds that had passed when it began again, and that it leaves out; None: to be found out.
        self._passed: int | None = 0

    def begins_anew(self) -> None:
        """Take note that the agent's code begins anew, or late."""
        self._passed = None

    async def get_round_to_it(self) -> None:
        """Let a straggler take its time, unless nothing leaves it any more: it is down, or the run is over."""
        if not (self.down or self.shared.over):
            await self.shared.loop.pause(self.delay)

    async def send(
        self,
        to: Hashable,
        kind: str,
        payload: Any,
        raw_data: bool,
        *,
        request: int | None = None,
        is_reply: bool = False,
        outcome: asyncio.Future[bool] | None = None,
    ) -> bool:
        """Send to a neighbour, as soon as a straggler has got round to it; return whether the link took the frame."""
        if self.delay:
            await self.get_round_to_it()
        try:
            return self.outbox.send(to, kind, payload, self.round, raw_data, request, is_reply, outcome)
        except AgentError:
            await asyncio.sleep(0)  # or one that tries again and again would never let the loop go on
            raise

    def without_passed(self, count: int) -> int:
        """Return how many of so many rounds are left to an agent that began anew; all of them, usually."""
        if self._passed is None:
            self._passed = self.shared.rounds.next_number() - max(self.first_round, 1)
        passed = min(self._passed, count)
        self._passed -= passed
        return count - passed


class Rounds:
    """What `Agent.rounds` returns: iterate over it with ``async for``."""

    __slots__ = ("_context", "_inside", "_keep_late", "_left", "_started")

    def __init__(self, context: Context, count: int, keep_late: bool) -> None:
        self._context = context
        self._left = count
        self._keep_late = keep_late
        self._inside = self._started = False

    def __aiter__(self) -> "Rounds":
        return self

    def __iter__(self) -> NoReturn:
        raise AgentError("self.rounds(…): must be read by `async for`, since time passes between rounds, not by `for`")

    async def __anext__(self) -> int:
        context = self._context
        rounds = context.shared.rounds
        if not self._started:
            self._started = True
            self._left = context.without_passed(self._left)
        if self._left == 0:
            if context.round > rounds.closed:
                await rounds.closing()
            self._leave()
            raise StopAsyncIteration
        self._left -= 1
        number = await rounds.opening()
        context.round = number
        context.first_round = context.first_round or number
        context.inbox.be_strict(0 if self._keep_late else math.inf)
        self._inside = True
        return number

    def __del__(self) -> None:
        # The loop was left by a break, a return or an exception.
        if self._inside:
            self._leave()

    def _leave(self) -> None:
        """From here on what it sends belongs to no round; what comes late of its rounds is dropped as before."""
        self._inside = False
        context = self._context
        context.inbox.be_strict(0 if self._keep_late else context.round)
        context.left = context.round, context.shared.loop.now()
        context.round = 0
