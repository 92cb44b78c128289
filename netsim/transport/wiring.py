"""Where one agent's frames go: what an outbox is given of its network.

agent → outbox → link → inbox → agent: you are between outbox and links.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from netsim.draws import Keys
from netsim.link import Link
from netsim.transport.air import Air
from netsim.transport.inbox import Inbox

__all__ = ["Wiring"]


@dataclass(frozen=True)
class Wiring:
    """Where one agent's frames go: its outgoing links in order.

    Attributes
    ----------
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
    air : Air or None
        On a radio where transmissions collide, who is heard where.
    """

    links: Sequence[Link]
    neighbors: Sequence[Hashable]
    inboxes: Sequence[Inbox]
    receivers: Sequence[int]
    first: int
    keys: Keys
    block: int
    seed: int
    radio: Link | None
    air: Air | None
