"""What is recorded of a frame: one `Transmission` when it is sent, and the end of each of its link messages.

agent → outbox → link → inbox → agent: this is what is written down on the way. A link message is known by its key,
link·2ˢ + number, where ``number`` counts its sender's transmissions from 0, and s leaves all of 63 bits that the
number of links does not need (`key_shift`). Nothing here depends on what other agents do, so the records of a network
are the same in whatever order its agents act.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ACCESS_FAILED",
    "ALL_CAUSES",
    "ASLEEP",
    "CAUSES",
    "COLLIDED",
    "CORRUPTED",
    "DELIVERED",
    "DETAIL",
    "EXIT",
    "HALF_DUPLEX",
    "INBOX_FULL",
    "IN_FLIGHT",
    "LATE",
    "LEFT",
    "LINK_DOWN",
    "LOST",
    "MISSING",
    "QUEUE_FULL",
    "RADIO_CAUSES",
    "RECEIVER_DOWN",
    "REFUSED",
    "SENT",
    "SOCKET_CAUSES",
    "TOTALS",
    "TO_ALL",
    "Transmission",
    "key_shift",
    "totals_of",
]

CAUSES = (
    "delivered",
    "late",
    "lost",
    "collided",
    "corrupted",
    "refused",
    "queue_full",
    "link_down",
    "receiver_down",
    "inbox_full",
)
"""How a frame on a link can end. `DELIVERED` … are their numbers."""
DELIVERED, LATE, LOST, COLLIDED, CORRUPTED, REFUSED, QUEUE_FULL, LINK_DOWN, RECEIVER_DOWN, INBOX_FULL = range(10)

RADIO_CAUSES = ("access_failed", "half_duplex", "asleep")
"""How else it can end on a medium that is a `netsim.Radio`; on any other there are no such columns."""
ACCESS_FAILED, HALF_DUPLEX, ASLEEP = range(10, 13)

SOCKET_CAUSES = ("missing",)
"""How else it can end between processes (`netsim.distributed`): it was offered, and nobody ever saw it."""
MISSING = 13

ALL_CAUSES = CAUSES + RADIO_CAUSES + SOCKET_CAUSES
"""All of them, by number."""


def totals_of(causes: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of a round's row where frames can end so; what each means is in docs/counting.md."""
    before, after = ("transmissions", "link_messages", "duplicated"), ("payload_bits", "raw_data_bits", "wire_bits")
    return (*before, *causes, *after, "saturated")


TOTALS = totals_of(CAUSES)
"""The columns of a round's row."""

TO_ALL = -1
"""In place of a link: all links of the sender."""


def as_column(names: Iterable[Any]) -> NDArray[np.object_]:
    """Return names for a column of a table; of text without an encoding (lone surrogates) the escapes."""
    listed = [each.encode(errors="backslashreplace").decode() if isinstance(each, str) else each for each in names]
    column = np.empty(len(listed), dtype=object)
    column[:] = listed
    return column


class Transmission(NamedTuple):
    """What is recorded when an agent sends.

    Attributes
    ----------
    time : float
        When, in seconds.
    number : int
        How many transmissions of this agent came before.
    kind, sender : int
        Numbers of the kind of message and of the agent.
    link : int
        Number of the link, or `TO_ALL`.
    taken : int
        1 if any link took it. If none did it is no transmission, and none of its bits count.
    payload_bits, raw_data_bits, wire_bits, saturated : int
        As in docs/counting.md.
    each : int
        Wire bits on each link, where they are the same on all; 0 where the ledger is told apart.
    checksum : int
        The CRC-32 of its bytes.
    """

    time: float
    number: int
    kind: int
    sender: int
    link: int
    taken: int
    payload_bits: int
    raw_data_bits: int
    wire_bits: int
    saturated: int
    each: int
    checksum: int


SENT = np.dtype([(name, "<f8" if kind is float else "<i8") for name, kind in Transmission.__annotations__.items()])
"""Transmissions as an array."""

EXIT = np.dtype([("time", "<f8"), ("key", "<i8"), ("kind", "<i4"), ("cause", "<i4")])
"""Ends of link messages."""

# What follows is kept with a trace only, for whoever looks at the run (`netsim.replay`); it is in no hash.

DETAIL = np.dtype([("round", "<i8"), ("reply", "<i8")])
"""Of each transmission, in the order of `SENT`: its round (0: outside rounds), and 1 if it answers a request."""

LEFT = np.dtype([("time", "<f8"), ("key", "<i8"), ("number", "<i8"), ("bits", "<i8")])
"""Of link messages: when the first bit left (s), the transmission's number (a second copy has another in its key), and
the bits on the wire. Who is not here left as it was offered, if at all, with the bits that `SENT` tells."""

IN_FLIGHT = np.dtype([("key", "<i8"), ("kind", "<i4")])
"""Link messages that were under way at the end."""


def key_shift(links: int) -> int:
    """Return s, the number of bits that a key keeps for a sender's transmissions: 53 for a thousand links."""
    return 63 - max(links, 1).bit_length()
