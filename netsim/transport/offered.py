"""What an outbox hands to a shared medium, and what takes it there.

agent → outbox → link → inbox → agent: you are where a frame leaves the outbox for an agent's `netsim.Radio`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from netsim.core import Frame

__all__ = ["Offered", "Taker"]


@dataclass(frozen=True, slots=True)
class Offered:
    """A frame to send.

    Attributes
    ----------
    number, kind : int
        As in `netsim.core.records.Transmission`.
    places : sequence of int
        For which of the sender's links it is.
    to_one : bool
        Whether it is for one neighbour only, who may acknowledge it.
    outcome : Future or None
        Where to put whether it was acknowledged.
    """

    number: int
    kind: int
    frame: Frame
    places: Sequence[int]
    to_one: bool
    outcome: asyncio.Future[bool] | None = None


class Taker(Protocol):
    """An agent's side of a shared medium."""

    @property
    def acknowledges(self) -> bool:
        """Whether frames for one neighbour are acknowledged."""
        ...

    def take(self, offered: Offered, now: float) -> int:
        """Take a frame at a time (s): return 0, or the cause for which it is not taken."""
        ...
