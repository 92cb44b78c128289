"""Where one agent's frames go: what an outbox is given of its network.

agent → outbox → link → inbox → agent: you are between outbox and links.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from netsim.core import ArrivalQueue
from netsim.links.link import Link
from netsim.util.draws import Keys

__all__ = ["Neighbor", "Wiring"]


class Neighbor(Protocol):
    """What stands in a neighbour's place: its inbox, or what takes the frames for one that runs elsewhere."""

    @property
    def arrivals(self) -> ArrivalQueue:
        """Where links put (arrival time, key, kind, frame)."""

    watchers: list[Any]
    """Where its senders note that it wants to be told of arrivals, and as which of their places, in turn."""

    def watch(self) -> None:
        """Something is on its way to it."""


@dataclass(frozen=True)
class Wiring:
    """Where one agent's frames go: its outgoing links in order.

    Attributes
    ----------
    inboxes : sequence of Neighbor
        What takes the frames.
    receivers : sequence of int
        The neighbours' numbers.
    first : int
        Number of the first of its links; the others follow.
    keys : uint64 array, shape (links,)
        The links' keys.
    block : int
        Broadcasts whose outcomes are drawn at a time.
    seed : int
        The network's.
    radio : Link or None
        On a radio, the settings of the agent's one transmitter.
    """

    links: Sequence[Link]
    neighbors: Sequence[Hashable]
    inboxes: Sequence[Neighbor]
    receivers: Sequence[int]
    first: int
    keys: Keys
    block: int
    seed: int
    radio: Link | None
