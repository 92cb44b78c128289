"""What an agent can learn of the energy that its radio spends.

agent → outbox → link → inbox → agent: you are at the agent's end.
"""

from typing import Protocol

__all__ = ["Account"]


class Account(Protocol):
    """A node's energy, as `netsim.Agent.energy` gives it. Energies are in joules."""

    @property
    def used(self) -> float:
        """What was spent until now."""
        ...

    @property
    def left(self) -> float:
        """What the battery still holds; infinite on mains."""
        ...

    @property
    def last_frame(self) -> float:
        """What the last frame cost that was sent, or given up, all its repetitions included; 0 before the first."""
        ...
