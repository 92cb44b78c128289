"""What an agent holds of its network: its place there, its inbox and outbox, and the rounds it takes part in.

agent → outbox → link → inbox → agent: you are at both ends.
"""

import math
from collections.abc import Hashable

import numpy as np

from netsim.transport.inbox import Inbox
from netsim.transport.outbox import Outbox
from netsim.transport.shared import Shared

__all__ = ["Context", "Rounds"]


class Context:
    """What the network gives one agent for one run."""

    __slots__ = (
        "collected",
        "inbox",
        "left",
        "name",
        "neighbors",
        "outbox",
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
        self.rng: np.random.Generator | None = None
        self.round = 0
        # The last round that it left, and when.
        self.left = (0, 0.0)
        self.collected = 0
        self.requests = 0


class Rounds:
    """What `Agent.rounds` returns: iterate over it with ``async for``."""

    __slots__ = ("_context", "_inside", "_keep_late", "_left")

    def __init__(self, context: Context, count: int, keep_late: bool) -> None:
        self._context = context
        self._left = count
        self._keep_late = keep_late
        self._inside = False

    def __aiter__(self) -> "Rounds":
        return self

    async def __anext__(self) -> int:
        context = self._context
        rounds = context.shared.rounds
        if self._left == 0:
            if context.round > rounds.closed:
                await rounds.closing()
            self._leave()
            raise StopAsyncIteration
        self._left -= 1
        number = context.round = await rounds.opening()
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
        context.left = context.round, context.shared.loop.time()
        context.round = 0
