"""The records kept for a frame: a `Transmission` when it is sent and one outcome per link message.

These records are written along the path agent → outbox → link → inbox → agent. A link message is a message on one link:
a broadcast consists of one link message for each link of its sender. A link message is identified by its key, which is
link·2ˢ + number. Here ``link`` is the index of the link, ``number`` counts the sender's transmissions from 0, and s is
63 minus the bits needed for the number of links (`key_shift`). No record depends on what other agents do, so a
network's records do not depend on the order in which its agents act.

The outcome of a link message is one of the causes below, such as ``delivered`` or ``lost``. The Python core and the
compiled one, the ledger, the trace and the tables take the list of counted columns from here.

* To add a cause, add one line at the end of its group below. This shifts the numbers of later groups and therefore
  changes the trace hash, which includes each cause's number.
* To add a column that is summed over transmissions, add one field at the end of `Transmission`, with default 0. The
  field becomes part of the trace hash and of the trace file.

Document either addition in docs/counting.md.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_groups: dict[str, list[str]] = {"everywhere": [], "radio": [], "sockets": [], "routing": []}


def _cause(name: str, where: str = "everywhere") -> int:
    """Register a cause (the name of an outcome) and return its number."""
    _groups[where].append(name)
    return sum(map(len, _groups.values())) - 1


# Outcomes of a link message that are possible on any medium.
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
# Outcomes that are possible only on a `netsim.Radio`.
ACCESS_FAILED = _cause("access_failed", "radio")
HALF_DUPLEX = _cause("half_duplex", "radio")
ASLEEP = _cause("asleep", "radio")
# Outcome possible only between processes (`netsim.distributed`): the message was offered to a link, but no process
# recorded an outcome.
MISSING = _cause("missing", "sockets")
# Outcome possible only with ``Network(routing=...)``: the message has reached the limit of hops.
HOP_LIMIT = _cause("hop_limit", "routing")

CAUSES, RADIO_CAUSES, SOCKET_CAUSES, ROUTING_CAUSES = (tuple(names) for names in _groups.values())
"""Names of the causes in the order of their numbers: on any medium, on a `netsim.Radio` only, between processes only,
with routing only.
"""

ALL_CAUSES = CAUSES + RADIO_CAUSES + SOCKET_CAUSES + ROUTING_CAUSES
"""All causes, indexed by number."""

BY_LINK = (*ALL_CAUSES, "offered", "duplicated", "wire_bits")
"""The columns counted per link and kind of message."""

TO_ALL = -1
"""Value of ``link`` that means all links of the sender."""


class Transmission(NamedTuple):
    """The record of one transmission.

    Attributes
    ----------
    time : float
        Time of sending, in seconds.
    number : int
        Index of this transmission among the agent's transmissions, from 0.
    kind, sender : int
        Ids of the kind of message and of the agent.
    link : int
        Index of the link, or `TO_ALL`.
    taken : int
        1 if at least one link accepted the message, else 0. If 0, the message is not counted as a transmission and its
        bits are not counted.
    payload_bits, raw_data_bits, wire_bits, saturated : int
        Defined in docs/counting.md.
    each : int
        Wire bits per link if they are equal on all links; 0 if they are counted separately for each link.
    checksum : int
        CRC-32 of the encoded frame.
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
"""Columns summed over transmissions, each mapped to the index of the `Transmission` field that it sums."""


def totals_of(causes: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the columns of a round's counts, including these causes (docs/counting.md)."""
    first, *others = SUMMED
    return (first, "link_messages", "duplicated", *causes, *others)


TOTALS = totals_of(CAUSES)
"""The names of the columns of a round's counts, including the causes that are possible on any medium."""


def as_column(names: Iterable[Any]) -> NDArray[np.object_]:
    """Return names as an object array for a table column; lone surrogates in texts are backslash-escaped."""
    listed = [each.encode(errors="backslashreplace").decode() if isinstance(each, str) else each for each in names]
    column = np.empty(len(listed), dtype=object)
    column[:] = listed
    return column


SENT = np.dtype([(name, "<f8" if kind is float else "<i8") for name, kind in Transmission.__annotations__.items()])
"""The dtype of a `Transmission` record."""

OUTCOME = np.dtype([("time", "<f8"), ("key", "<i8"), ("kind", "<i4"), ("cause", "<i4")])
"""The dtype of the record of a link message's outcome."""

# The records below are kept only with a trace, for `netsim.replay`; no hash includes them.

DETAIL = np.dtype([("round", "<i8"), ("reply", "<i8")])
"""The dtype of a transmission's details: its round (0: outside rounds), and whether it is a reply (1).

Record i describes the transmission of the i-th record of `SENT`.
"""

LEFT = np.dtype([("time", "<f8"), ("key", "<i8"), ("number", "<i8"), ("bits", "<i8")])
"""The dtype of a link message's departure: the time (s) at which its first bit left the sender, its key, the number of
its transmission, and its wire bits. The number is stored because the key of a duplicate holds another number. If an
accepted link message has no such record, it left at the time of its transmission, and `SENT` gives its wire bits.
"""

KEPT = {"sent": SENT, "exits": OUTCOME, "details": DETAIL, "left": LEFT}
"""The dtypes of the records that a tally keeps for a trace, by their names in the trace file."""

IN_FLIGHT = np.dtype([("key", "<i8"), ("kind", "<i4")])
"""The dtype of the link messages in flight when the run ended."""

ON_AIR = np.dtype(
    [
        ("start", "<f8"),
        ("end", "<f8"),
        ("sender", "<i8"),
        ("link", "<i8"),
        ("kind", "<i8"),
        ("message", "<i8"),
        ("fragment", "<i8"),
        ("retry", "<i8"),
        ("bits", "<i8"),
        ("channel", "<i8"),
        ("dbm", "<f8"),
        ("size", "<i8"),
        ("whole", "<i8"),
    ]
)
"""The dtype of the record of a frame, or an acknowledgement, on the air of a `netsim.Radio`.

The frame is on the air from ``start`` to ``end`` (s). ``sender``, ``link`` (or `TO_ALL`), ``kind``, ``message`` and
``fragment`` are indices; ``retry`` is how often the fragment was sent before. ``dbm`` is the power at the receiver
(NaN: unknown), ``size`` the number of bytes of the message that the frame carries, and ``whole`` whether the frame was
sent to its end. An acknowledgement has the message, fragment and retry of the frame that it acknowledges.
"""


def key_shift(links: int) -> int:
    """Return s, the number of bits of a key that hold the transmission's number: 53 for a thousand links."""
    return 63 - max(links, 1).bit_length()
