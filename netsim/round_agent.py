"""Agents that do the same in each round: say something as it opens, and hear the others as it closes."""

from collections.abc import Sequence

from netsim.agent import Agent
from netsim.core import Frame

__all__ = ["RoundAgent"]


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
            self.hear(await self.collect(), k)

    def begin(self) -> None:
        """Prepare for the first round; does nothing by default."""

    async def say(self, k: int) -> None:
        """Send what is to be sent in round k; called as the round opens."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: async def say(self, k)")

    def hear(self, frames: Sequence[Frame], k: int) -> None:
        """Process the frames (a `Heard`) that arrived in round k; called as the round closes."""
        raise NotImplementedError(f"{type(self).__qualname__} must define: def hear(self, frames, k)")
