"""Find the first event in which two event logs differ."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.accounting.trace import Trace
from netsim.core.records import TO_ALL

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EventDifference", "first_difference"]

# The columns by which events are sorted and compared. The columns up to ``receiver`` identify an event; the others
# describe what happened.
_COMPARED = ["time_s", "sender", "message", "is_outcome", "receiver", "event"]
_COMPARED += ["kind", "payload_bits", "wire_bits", "checksum"]


@dataclass(frozen=True)
class EventDifference:
    """The first event, by time, in which two runs differ.

    Attributes
    ----------
    time : float
        The event's simulated time in seconds.
    agent : str
        The sender, if the event is a transmission; the receiver, if it is the outcome of a message.
    old, new : str
        The event in the old and in the new run, as text; "nothing" for a run that lacks the event.
    """

    time: float
    agent: str
    old: str
    new: str

    def words(self, old: str, new: str) -> str:
        """Return the difference as one line of text, in which ``old`` and ``new`` are the names of the runs."""
        return f"at {self.time:g} s, agent {self.agent}: {self.old} ({old}); {self.new} ({new})"


def first_difference(old: Trace, new: Trace) -> EventDifference | None:
    """Return the first event in which two event logs differ; None if they have the same events.

    Events are sorted by time and, at one instant, by their senders' names, because the order in which events were
    recorded depends on when inboxes were read and on the number of workers.
    """
    before, now = _events(old), _events(new)
    count = min(len(before), len(now))
    differ = (before[:count] != now[:count]).any(axis=1)
    place = int(differ.argmax()) if differ.any() else count
    rows = [list(events[place]) if place < len(events) else None for events in (before, now)]
    there = [row for row in rows if row is not None]
    if not there:
        return None
    first = min(there)
    # If the two rows describe different events, one run lacks the earlier event: replace that run's row by None.
    old_row, new_row = (row if row is not None and _subject(row) == _subject(first) else None for row in rows)
    _, sender, _, is_outcome, receiver, *_ = first
    return EventDifference(float(first[0]), str(receiver if is_outcome else sender), *_row_texts(old_row, new_row))


def _events(trace: Trace) -> Any:
    """Return an event log as rows with the columns `_COMPARED`, sorted by all of these columns."""
    table = trace.table()
    table["sender"], table["receiver"] = table["sender"].map(str), table["receiver"].map(_name)
    table["is_outcome"], table["checksum"] = table["event"] != "sent", _checksums(trace, table)
    filled = table[_COMPARED].fillna({"payload_bits": -1, "wire_bits": -1})
    return filled.sort_values(_COMPARED, kind="stable").to_numpy(dtype=object)


def _name(receiver: Any) -> str:
    return "" if receiver is None or receiver != receiver else str(receiver)


def _checksums(trace: Trace, table: "pd.DataFrame") -> Any:
    """Return the checksum of each row's frame if the row is a transmission, else -1."""
    found: dict[tuple[str, int, str], int] = {}
    names, ends = [str(each) for each in trace.agents], trace.links[1]
    for sent in trace.chunks("sent"):
        receivers = ["" if link == TO_ALL else names[ends[link]] for link in sent["link"].tolist()]
        keys = zip((names[each] for each in sent["sender"].tolist()), sent["number"].tolist(), receivers, strict=True)
        found.update(zip(keys, sent["checksum"].tolist(), strict=True))
    rows = zip(table["event"], table["sender"], table["message"], table["receiver"], strict=True)
    return np.array([found[sender, n, to] if event == "sent" else -1 for event, sender, n, to in rows], dtype=np.int64)


def _subject(row: list[Any]) -> list[Any]:
    """Return the fields that identify a row's event: time, sender, message, is_outcome; for an outcome, receiver."""
    return row[:5] if row[3] else row[:4]


def _row_texts(old: list[Any] | None, new: list[Any] | None) -> tuple[str, str]:
    """Return a text for each of two rows that differ; the texts differ even if only the payloads do."""
    texts = ["nothing" if row is None else _row_text(row) for row in (old, new)]
    if texts[0] == texts[1]:
        texts[1] += ", with another payload"
    return texts[0], texts[1]


def _row_text(row: list[Any]) -> str:
    _, sender, message, _, receiver, event, kind, payload, wire, _ = row
    if event == "sent":
        return f"message {message} ({kind}) sent to {receiver or 'all'}, {payload} payload bits, {wire} wire bits"
    return f"message {message} ({kind}) of agent {sender} {event}"
