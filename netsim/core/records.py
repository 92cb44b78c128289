"""What is recorded of a frame: a `Transmission` when it is sent, and the outcome of each of its link messages.

agent → outbox → link → inbox → agent: this is what is written down on the way. A link message is known by its key,
link·2ˢ + number, where ``number`` counts its sender's transmissions from 0, and s leaves all of 63 bits that the
number of links does not need (`key_shift`). Nothing here depends on what other agents do, so the records of a network
are the same in whatever order its agents act.

Both cores, the ledger, the trace and the tables take what is counted from this module.

* A new cause is one line at the end of its group below. The numbers of later groups move with it, and a cause's number
  is in the trace hash.
* A new column that sums something over transmissions is one field at the end of `Transmission`, with the default 0. It
  is in the trace hash and in the trace file.

Either needs its line in docs/counting.md.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ACCESS_FAILED",
    "ALL_CAUSES",
    "ASLEEP",
    "BY_LINK",
    "CAUSES",
    "COLLIDED",
    "CORRUPTED",
    "DELIVERED",
    "DETAIL",
    "HALF_DUPLEX",
    "INBOX_FULL",
    "IN_FLIGHT",
    "KEPT",
    "LATE",
    "LEFT",
    "LINK_DOWN",
    "LOST",
    "MISSING",
    "OUTCOME",
    "QUEUE_FULL",
    "RADIO_CAUSES",
    "RECEIVER_DOWN",
    "REFUSED",
    "SENT",
    "SOCKET_CAUSES",
    "SUMMED",
    "TOTALS",
    "TO_ALL",
    "Transmission",
    "key_shift",
    "totals_of",
]

_groups: dict[str, list[str]] = {"everywhere": [], "radio": [], "sockets": []}


def _cause(name: str, where: str = "everywhere") -> int:
    """Enter a cause and return its number."""
    _groups[where].append(name)
    return sum(map(len, _groups.values())) - 1


# How a link message can end on any medium,
DELIVERED = _cause("delivered")
LATE = _cause("late")
LOST = _cause("lost")
COLLIDED = _cause("collided")
CORRUPTED = _cause("corrupted")
REFUSED = _cause("refused")
QUEUE_FULL = _cause("queue_full")
LINK_DOWN = _cause("link_down")
RECEIVER_DOWN = _cause("receiver_down")
INBOX_FULL = _cause("inbox_full")
# only on a medium that is a `netsim.Radio`,
ACCESS_FAILED = _cause("access_failed", "radio")
HALF_DUPLEX = _cause("half_duplex", "radio")
ASLEEP = _cause("asleep", "radio")
# and only between processes (`netsim.distributed`): it was offered, and never seen again.
MISSING = _cause("missing", "sockets")

CAUSES, RADIO_CAUSES, SOCKET_CAUSES = (tuple(names) for names in _groups.values())
"""The causes by number: those of every medium; those that tables have on a `netsim.Radio` only; between processes only.
"""

ALL_CAUSES = CAUSES + RADIO_CAUSES + SOCKET_CAUSES
"""All of them, by number."""

BY_LINK = (*ALL_CAUSES, "offered", "duplicated", "wire_bits")
"""What is counted by link and kind of message."""

TO_ALL = -1
"""Instead of a link's index: all links of the sender."""


class Transmission(NamedTuple):
    """What is recorded when an agent sends.

    Attributes
    ----------
    time : float
        When, in seconds.
    number : int
        How many transmissions of this agent came before.
    kind, sender : int
        Ids of the kind of message and of the agent.
    link : int
        Index of the link, or `TO_ALL`.
    taken : int
        1 if any link took it. If none did it is no transmission, and none of its bits count.
    payload_bits, raw_data_bits, wire_bits, saturated : int
        As in docs/counting.md.
    each : int
        Wire bits on each link, where they are the same on all; 0 where they are counted link by link.
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


SUMMED = {
    {"taken": "transmissions"}.get(field, field): index
    for index, field in enumerate(Transmission._fields)
    if field not in ("time", "number", "kind", "sender", "link", "each", "checksum")
}
"""Columns that are sums over transmissions, and which field of a `Transmission` each adds up."""


def totals_of(causes: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of a round's row where frames can end so; what each means is in docs/counting.md."""
    first, *others = SUMMED
    return (first, "link_messages", "duplicated", *causes, *others)


TOTALS = totals_of(CAUSES)
"""The columns of a round's row."""


def as_column(names: Iterable[Any]) -> NDArray[np.object_]:
    """Return names for a column of a table; of text without an encoding (lone surrogates) the escapes."""
    listed = [each.encode(errors="backslashreplace").decode() if isinstance(each, str) else each for each in names]
    column = np.empty(len(listed), dtype=object)
    column[:] = listed
    return column


SENT = np.dtype([(name, "<f8" if kind is float else "<i8") for name, kind in Transmission.__annotations__.items()])
"""Transmissions as an array."""

OUTCOME = np.dtype([("time", "<f8"), ("key", "<i8"), ("kind", "<i4"), ("cause", "<i4")])
"""How link messages ended."""

# What follows is kept with a trace only, for those who look at the run (`netsim.replay`); it is in no hash.

DETAIL = np.dtype([("round", "<i8"), ("reply", "<i8")])
"""Of each transmission, in the order of `SENT`: its round (0: outside rounds), and 1 if it answers a request."""

LEFT = np.dtype([("time", "<f8"), ("key", "<i8"), ("number", "<i8"), ("bits", "<i8")])
"""Of link messages: when the first bit left (s), the transmission's number (a second copy has another in its key), and
the bits on the wire. A link message without such a record left as it was offered, if at all, with the bits in `SENT`.
"""

KEPT = {"sent": SENT, "exits": OUTCOME, "details": DETAIL, "left": LEFT}
"""The records that a tally keeps for a trace, by the names that they have in its file."""

IN_FLIGHT = np.dtype([("key", "<i8"), ("kind", "<i4")])
"""Link messages that were under way at the end."""


def key_shift(links: int) -> int:
    """Return s, the number of bits that a key keeps for a sender's transmissions: 53 for a thousand links."""
    return 63 - max(links, 1).bit_length()
