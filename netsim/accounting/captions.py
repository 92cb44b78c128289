"""Labels of messages and notes of agents, shown in replays.

A label describes a transmission, which is identified by its sender and by its index among the sender's transmissions. A
note describes an agent at a simulated time. Labels and notes are not sent, not counted, and not part of the trace hash.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.util import check
from netsim.util.short_text import short_text

__all__ = ["LABELLED", "LONGEST_LABEL", "LONGEST_NOTE", "NOTED", "Captions", "check_label", "check_note"]

LABELLED = np.dtype([("sender", "<i8"), ("number", "<i8"), ("text", "<i8")])
"""The dtype of a label: the indices of the sender, of its transmission, and of the text in `Captions.texts`."""

NOTED = np.dtype([("time", "<f8"), ("agent", "<i8"), ("sent", "<i8"), ("text", "<i8")])
"""The dtype of a note: its time (s), the agent's index, the number of messages that the agent had sent by then, and
the text's index in `Captions.texts`."""

LONGEST_LABEL, LONGEST_NOTE = 40, 200
"""The maximum lengths of a label and of a note, in characters."""

# If the sender gives no label, the payload as text is the label, provided that it has at most this many characters.
_DIGEST = 16

Records = NDArray[np.void]


def check_label(label: object) -> None:
    """Raise BadInput unless ``label`` is printable text that is short enough for a label."""
    if not isinstance(label, str) or len(label) > LONGEST_LABEL or not label.isprintable():
        raise check.refuse("label", label, f"printable text of at most {LONGEST_LABEL} characters")


def check_note(text: object) -> None:
    """Raise BadInput unless ``text`` is printable, not blank, and short enough for a note."""
    if not isinstance(text, str) or len(text) > LONGEST_NOTE or not (text.strip() and text.isprintable()):
        raise check.refuse("note", text, f"printable text of 1 to {LONGEST_NOTE} characters")


class Captions:
    """The labels and notes of one run, in the order in which agents create them."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._senders, self._numbers, self._labels = array("q"), array("q"), array("q")
        self._times, self._agents, self._sent, self._notes = array("d"), array("q"), array("q"), array("q")

    def label(self, sender: int, number: int, label: str | None, payload: Any) -> None:
        """Label an agent's transmission.

        If ``label`` is None, the text of a small payload serves as the label; an empty text adds no label.
        """
        if label is None and payload is not None and not isinstance(payload, np.ndarray):
            label = short_text(payload, _DIGEST)
            if label is not None and len(label) > _DIGEST:
                return
        if label:
            self._senders.append(sender)
            self._numbers.append(number)
            self._labels.append(self._index.setdefault(label, len(self._index)))

    def note(self, time: float, agent: int, sent: int, text: str) -> None:
        """Store a note that an agent made at ``time`` (s), after it had sent ``sent`` messages."""
        self._times.append(time)
        self._agents.append(agent)
        self._sent.append(sent)
        self._notes.append(self._index.setdefault(text, len(self._index)))

    @property
    def texts(self) -> list[str]:
        """The texts to which labels and notes refer by index."""
        return list(self._index)

    def labels(self, first: int = 0) -> Records:
        """Return the labels from index ``first`` on."""
        return _records(LABELLED, (self._senders, self._numbers, self._labels), first)

    def notes(self, first: int = 0) -> Records:
        """Return the notes from index ``first`` on."""
        return _records(NOTED, (self._times, self._agents, self._sent, self._notes), first)

    def forget_labels(self) -> None:
        """Delete the labels to save memory, after a live view has copied them."""
        for column in (self._senders, self._numbers, self._labels):
            del column[:]

    def learn(self, said: tuple[list[str], Records, Records], until: float) -> None:
        """Add captions from another process (the result of `arranged`), except notes made after ``until`` (s)."""
        texts, labels, notes = said
        index = np.array([self._index.setdefault(text, len(self._index)) for text in texts], dtype=np.int64)
        notes = notes[notes["time"] <= until]
        _extend((self._senders, self._numbers, self._labels), labels, index)
        _extend((self._times, self._agents, self._sent, self._notes), notes, index)

    def arranged(self) -> tuple[list[str], Records, Records]:
        """Return the texts, labels and notes, sorted so that their order does not depend on which agent acted first.

        Labels are sorted by sender and transmission number. Notes are sorted by time and agent; notes that one agent
        made at the same time keep their order. Texts are sorted alphabetically.
        """
        labels, notes = self.labels(), self.notes()
        labels = labels[np.lexsort((labels["number"], labels["sender"]))]
        notes = notes[np.lexsort((notes["agent"], notes["time"]))]
        used = np.unique(np.concatenate([labels["text"], notes["text"]]))
        texts = self.texts
        order = sorted(used.tolist(), key=texts.__getitem__)
        place = np.zeros(len(texts), dtype=np.int64)
        place[order] = np.arange(len(order))
        labels["text"], notes["text"] = place[labels["text"]], place[notes["text"]]
        return [texts[index] for index in order], labels, notes


def _records(dtype: "np.dtype[np.void]", columns: Iterable["array[Any]"], first: int) -> Records:
    parts = [column[first:] for column in columns]
    records = np.empty(len(parts[0]), dtype)
    for name, part in zip(dtype.names or (), parts, strict=True):
        records[name] = part
    return records


def _extend(columns: Sequence["array[Any]"], records: Records, index: NDArray[np.int64]) -> None:
    """Append each field of the records to its column; ``index`` holds the new index of each of the records' texts."""
    names = records.dtype.names or ()
    for name, column in zip(names, columns, strict=True):
        values = index[records[name]] if name == "text" else records[name]
        column.frombytes(np.ascontiguousarray(values).tobytes())
