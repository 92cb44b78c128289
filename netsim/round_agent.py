"""Agents that do the same in each round: say something as it opens, and hear the others as it closes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from netsim.agent import Agent
from netsim.core import Frame

__all__ = ["Failed", "RoundAgent", "Together"]

Failed = Callable[[int, Exception], None]
"""Called with the place of an agent among its fellows, and what its part of the work raised."""


class Together(ABC):
    """Does for several agents at once what the `say` and the `hear` of each would do, with the same results.

    Both methods may return False before they have changed anything. Then each agent does its own this time.
    """

    @abstractmethod
    def say(self, k: int, failed: Failed) -> bool:
        """Say what the agents say as round k opens, in their order."""

    @abstractmethod
    def hear(self, k: int, until: float, failed: Failed) -> bool:
        """Let the agents hear, in their order, the frames of round k, which arrived before ``until`` (s)."""


class RoundAgent(Agent):
    """Base of agents that do the same in each of ``count`` rounds: subclass it and write `say` and `hear`.

    It is an agent with the `run` below, only faster: the network takes all such agents through a round together,
    without waking a task for each. A subclass that overrides `run` is woken as any other agent.

    Attributes
    ----------
    count : int
        The number of rounds.
    """

    count: int

    async def run(self) -> None:
        """Run all rounds: `begin`; then in each round `say`, collect and `hear`."""
        self.begin()
        async for k in self.rounds(self.count):
            await self.say(k)
            frames = await self.collect()
            self.hear(frames, k)

    def begin(self) -> None:
        """Prepare for the first round; does nothing by default."""

    async def say(self, k: int) -> None:
        """Send what is to be sent in round k; called as the round opens."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: async def say(self, k)")

    def hear(self, frames: Sequence[Frame], k: int) -> None:
        """Process the frames (a `Heard`) that arrived in round k; called as the round closes."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: def hear(self, frames, k)")

    @classmethod
    def together(cls, agents: Sequence[Any]) -> Together | None:
        """Return what speaks and hears for agents of this very class; None, as by default: each does its own."""
        return None
