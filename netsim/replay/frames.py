"""Convert a trace to columns with a row for each frame on each link, for all frames, a selection, or part by part."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.accounting.trace import STREAMS, Trace, TraceFile
from netsim.core.records import ALL_CAUSES, CAUSES, DELIVERED, RADIO_CAUSES, key_shift
from netsim.errors import BadInput
from netsim.util import check, draws

__all__ = ["MOST", "Columns", "Log", "Reader", "frames_of"]

MOST = 500_000
"""By default, at most this many frames are shown."""

Columns = dict[str, NDArray[Any]]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

# Frames with these causes were never sent, unless the sender crashed while its frame was on the air.
_NEVER_SENT = [CAUSES.index("refused"), CAUSES.index("queue_full"), CAUSES.index("link_down")]

# Messages with a lost frame are preferred as long as they need at most this share of the limit of frames. If they need
# more, all messages have the same chance to be selected.
_ROOM_FOR_LOSSES = 0.8

_BY_START = ("end", "cause", "receiver", "number", "sender", "start")
_BY_DEPARTURE = ("cause", "receiver", "number", "sender", "start", "depart")


Log = Trace | TraceFile
"""A trace in memory, or a trace that is read from its file piece by piece."""


def frames_of(log: Log, most: int = MOST) -> "Reader":
    """Return a `Reader` of at most ``most`` frames of a trace; raises the same BadInput as `Reader`."""
    return Reader(log, check.integer("most", most, low=1))


class Reader:
    """Reads the frames of a trace, together or in parts, any number of times.

    If there are more than ``most`` frames, whole messages are omitted with all their frames. Messages with a lost frame
    are kept if they leave enough room. Of the other messages, a fixed hash of their numbers selects as many as fit.

    Parameters
    ----------
    log : Log
        A trace of this version of netsim.
    most : int, optional
        The largest number of frames to read, by default all. The reader needs memory for these frames, and a few bytes
        for each transmission of the run.

    Attributes
    ----------
    causes : list of str
        The ways in which frames end, indexed by the numbers in the column ``cause``: ``delivered`` first, ``in_flight``
        last.
    counts : dict
        The number of frames of the whole run with each cause.
    omitted : str
        A sentence about the frames that are not shown; empty if all frames are shown.
    scene : RunMetadata
        The trace's metadata of the run.
    shown : int
        The number of frames that are read.

    Raises
    ------
    BadInput
        If ``most`` is not a whole number of at least 1, or the trace is of an earlier version, or not that of a run.
    """

    def __init__(self, log: Log, most: int | None = None) -> None:
        if most is not None:
            check.integer("most", most, low=1)
        if log.scene is None or log.count("details") != log.count("sent"):
            raise BadInput("trace: must be of this version of netsim; run it again with --trace, or trace=True")
        self.scene = log.scene
        self._log = log
        self._senders, self._receivers = log.links
        self._shift = key_shift(len(self._senders))
        with _fitting():
            self._number_messages()
            self.counts = self._count_ends()
            self.causes = list(self.counts)
            self._choose(most)

    @cached_property
    def columns(self) -> Columns:
        """All frames, in order of start, sender, number, receiver and cause; arrays of shape (shown,).

        ``start``
            When the frame was offered, in seconds.
        ``depart``
            When the frame's first bit left: after waiting for budget, queue, back-off and waking. For a frame that
            never left, this is the same as ``end``.
        ``end``
            When the frame arrived, or ended otherwise. A frame lost on a link is counted when it is offered, but its
            ``end`` is its departure. A frame ``in_flight`` ends with the run.
        ``sender``, ``receiver``
            Numbers of the agents, in the order of the graph.
        ``kind``, ``cause``
            Numbers of the kind of message and of the cause. Cause 0 is ``delivered``, the last one is ``in_flight``.
        ``round``
            The round in which the frame was sent; 0: outside rounds.
        ``bits``
            Bits on the wire, including the headers of all fragments; 0 if the frame never left. On a `netsim.Radio`,
            retransmissions do not count.
        ``reply``
            1 if the frame answers a request.
        ``number``
            How many messages the sender had sent before this one. All frames of a broadcast have the same number, and
            so has the second copy of a duplicated frame.
        ``label``
            Index of the frame's label in the trace's ``texts``; -1 for none.
        """
        with _fitting():
            return _sorted(self._columns(self._chosen), _BY_START)

    def parts(self, size: int = MOST) -> Iterator[Columns]:
        """Yield the frames in order of ``depart``, then ``start``, part by part, to save memory for long runs.

        About ``size`` frames are in memory at a time, plus frames that wait for their departure, and a few bytes for
        each transmission of the run.
        """
        check.integer("size", size, low=1)
        with _fitting():
            starts, (frames, _) = self._starts(), self._weights()
        order = np.argsort(starts, kind="stable")[: int(np.isfinite(starts).sum())]
        reached, starts = np.cumsum(frames[order]), starts[order]
        cuts = np.searchsorted(reached, np.arange(size, self.shown, size), side="left") + 1
        cuts = np.unique(np.concatenate([[0], cuts, [len(order)]]))
        waiting: Columns = {}
        for first, last in itertools.pairwise(cuts.tolist()):
            which = np.zeros(len(frames), dtype=np.bool_)
            which[order[first:last]] = True
            with _fitting():
                new = self._columns(which)
            both = {name: np.concatenate([waiting[name], new[name]]) if waiting else new[name] for name in new}
            both = _sorted(both, _BY_DEPARTURE)
            # A frame of a later part cannot leave before it is offered, so all departures before that are complete.
            later = starts[last] if last < len(starts) else np.inf
            ready = int(np.searchsorted(both["depart"], later, side="left"))
            yield {name: column[:ready] for name, column in both.items()}
            waiting = {name: column[ready:] for name, column in both.items()}
        if waiting and len(waiting["depart"]):
            yield waiting

    # --- messages: each agent's transmissions by one number, the agents one after another -----------------------------

    def _number_messages(self) -> None:
        """Number the messages of all agents: find each agent's first number, and the original of each duplicate."""
        log, numbers = self._log, np.zeros(len(self._log.agents), dtype=np.int64)
        for sent in log.chunks("sent"):
            np.maximum.at(numbers, sent["sender"], sent["number"] + 1)
        none = np.empty(0, np.int64)
        copies: list[tuple[Ints, Ints, Ints]] = [(none, none, none)]
        for left in log.chunks("left"):
            sender, number = self._senders[left["key"] >> self._shift], left["key"] & ((1 << self._shift) - 1)
            np.maximum.at(numbers, sender, number + 1)
            copy = number != left["number"]
            copies.append((sender[copy], number[copy], left["number"][copy]))
        # Agents number their messages and duplicates consecutively, so a gap shows that records are missing.
        if numbers.sum() > 2 * (log.count("sent") + log.count("left")) or (numbers < 0).any():
            raise ValueError("messages are missing")
        self._firsts = np.concatenate([[0], np.cumsum(numbers)])
        sender, number, original = (np.concatenate(column) for column in zip(*copies, strict=True))
        order = np.argsort(self._firsts[sender] + number)
        self._copies = (self._firsts[sender] + number)[order]
        self._originals = (self._firsts[sender] + original)[order]

    def _messages(self, keys: Ints) -> Ints:
        """Return the number of the message of each frame, given by its ledger key; a duplicate gets its original's."""
        numbers: Ints = self._firsts[self._senders[keys >> self._shift]] + (keys & ((1 << self._shift) - 1))
        if len(self._copies):
            place = np.minimum(np.searchsorted(self._copies, numbers), len(self._copies) - 1)
            found = self._copies[place] == numbers
            numbers[found] = self._originals[place[found]]
        return numbers

    def _weights(self) -> tuple[NDArray[np.int32], Bools]:
        """Return the number of frames of each message, and whether any of these frames did not arrive."""
        count = int(self._firsts[-1])
        frames, failed = np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.bool_)
        for exits in self._log.chunks("exits"):
            messages = self._messages(exits["key"])
            np.add.at(frames, messages, 1)
            failed[messages[exits["cause"] != DELIVERED]] = True
        for under_way in self._log.chunks("in_flight"):
            np.add.at(frames, self._messages(under_way["key"]), 1)
        return frames, failed

    def _starts(self) -> NDArray[np.float64]:
        """Return when each selected message was offered (s); infinity for all other messages."""
        starts = np.full(int(self._firsts[-1]), np.inf)
        for sent in self._log.chunks("sent"):
            starts[self._firsts[sent["sender"]] + sent["number"]] = sent["time"]
        starts[~self._chosen] = np.inf
        return starts

    def _count_ends(self) -> dict[str, int]:
        ends = np.zeros(len(ALL_CAUSES), dtype=np.int64)
        for exits in self._log.chunks("exits"):
            ends += np.bincount(exits["cause"], minlength=len(ends))
        usual = CAUSES if self.scene.medium != "shared" else CAUSES + RADIO_CAUSES
        # All other causes occur only in runs over several processes.
        causes = usual if not ends[len(usual) :].any() else ALL_CAUSES
        counts = dict(zip(causes, ends[: len(causes)].tolist(), strict=True))
        return counts | {"in_flight": self._log.count("in_flight")}

    def _choose(self, most: int | None) -> None:
        """Select the messages to show, and describe the selection in `omitted`."""
        total = sum(self.counts.values())
        self._chosen, self.shown, self.omitted = np.ones(int(self._firsts[-1]), dtype=np.bool_), total, ""
        if most is None or total <= most:
            return
        frames, failed = self._weights()
        losses = int(frames[failed].sum())
        if losses > _ROOM_FOR_LOSSES * most:
            self._chosen = _drawn(self._chosen, frames, most)
            what = "whole messages, each with all its frames, chosen by a fixed hash"
        else:
            self._chosen = failed | _drawn(~failed, frames, most - losses)
            share = frames[self._chosen & ~failed].sum() / max(frames[~failed].sum(), 1)
            what = (
                "all of messages of which some frame did not arrive, and of the others "
                f"{100 * share:.3g} %, whole messages chosen by a fixed hash"
            )
        self.shown = int(frames[self._chosen].sum())
        self.omitted = f"{self.shown:,} of {total:,} frames are shown: {what}; all counts are of the whole run."

    # --- columns ------------------------------------------------------------------------------------------------------

    def _columns(self, which: Bools) -> Columns:
        """Return the frames of the messages ``which`` in order of their ends, as columns (see `columns`)."""
        sent = self._sent(which)
        keys, kinds, causes, times = self._ends(which)
        messages = self._messages(keys)
        place = np.searchsorted(sent["message"], messages)
        if not np.array_equal(sent["message"][np.minimum(place, len(sent["message"]) - 1)], messages):
            raise ValueError("what ended was never sent")
        link = keys >> self._shift
        start = sent["time"][place]
        depart, bits = self._departures(which, keys)
        gone = np.isfinite(depart)
        stayed = np.isin(causes, _NEVER_SENT) | (self.scene.medium == "shared")
        depart = np.where(gone, depart, np.where(stayed, times, start))
        bits = np.where(gone, bits, np.where(stayed, 0, sent["bits"][place]))
        if not np.isin(kinds, np.arange(len(self._log.kinds))).all() or (bits < 0).any():
            raise ValueError("kinds or bits are none")
        return {
            "start": start,
            "depart": depart,
            # A lost frame is counted when it is offered, but is shown until it departs.
            "end": np.maximum(times, depart),
            "sender": self._senders[link].astype(np.int32),
            "receiver": self._receivers[link].astype(np.int32),
            "kind": kinds.astype(np.int16),
            "cause": causes.astype(np.int16),
            "round": np.minimum(sent["round"][place], 2**31 - 1).astype(np.int32),
            "bits": bits,
            "reply": sent["reply"][place].astype(np.uint8),
            "number": messages - self._firsts[self._senders[link]],
            "label": self._labels(messages),
        }

    def _labels(self, messages: Ints) -> NDArray[np.int32]:
        """Return the index of each message's label in the trace's ``texts``; -1 for none."""
        found = np.full(len(messages), -1, dtype=np.int32)
        for labels in self._log.chunks("labels"):
            labelled = self._firsts[labels["sender"]] + labels["number"]
            order = np.argsort(labelled, kind="stable")
            place = order[np.minimum(np.searchsorted(labelled, messages, sorter=order), len(order) - 1)]
            there = labelled[place] == messages
            found[there] = labels["text"][place[there]]
        return found

    def _sent(self, which: Bools) -> Columns:
        """Return the messages ``which`` in order of their numbers."""
        parts: list[tuple[Ints, ...]] = [(np.empty(0, np.int64),) * 5]
        for sent, detail in zip(self._log.chunks("sent"), self._log.chunks("details"), strict=True):
            message = self._firsts[sent["sender"]] + sent["number"]
            some = which[message]
            bits = sent["each"] if self.scene.medium == "wires" else sent["wire_bits"]
            columns = message, sent["time"], bits, detail["round"], detail["reply"]
            parts.append(tuple(column[some] for column in columns))
        names = ("message", "time", "bits", "round", "reply")
        return _sorted(dict(zip(names, map(np.concatenate, zip(*parts, strict=True)), strict=True)), ["message"])

    def _ends(self, which: Bools) -> tuple[Ints, Ints, Ints, NDArray[np.float64]]:
        """Return the key, kind, cause and end time (s) of each frame of the messages ``which``."""
        exits, under_way = self._records("exits", which), self._records("in_flight", which)
        keys, kinds = (np.concatenate([exits[name], under_way[name]]).astype(np.int64) for name in ("key", "kind"))
        causes = np.append(exits["cause"].astype(np.int64), np.full(len(under_way), self.causes.index("in_flight")))
        return keys, kinds, causes, np.append(exits["time"], np.full(len(under_way), self.scene.ended_at))

    def _records(self, stream: str, which: Bools) -> NDArray[np.void]:
        """Return the records of a stream of the trace that belong to the messages ``which``."""
        parts = (part[which[self._messages(part["key"])]] for part in self._log.chunks(stream))
        return np.concatenate([np.empty(0, STREAMS[stream]), *parts])

    def _departures(self, which: Bools, keys: Ints) -> tuple[NDArray[np.float64], Ints]:
        """Return when frames left (s) and their numbers of bits; NaN and 0 for frames without a record of that."""
        depart, bits = np.full(len(keys), np.nan), np.zeros(len(keys), dtype=np.int64)
        left = self._records("left", which)
        if len(left):
            left = left[np.argsort(left["key"], kind="stable")]
            # Use a frame's last record: while the frame waits, its departure changes with the link's rate.
            place = np.maximum(np.searchsorted(left["key"], keys, side="right") - 1, 0)
            found = left["key"][place] == keys
            depart[found], bits[found] = left["time"][place[found]], left["bits"][place[found]]
        return depart, bits


@contextmanager
def _fitting() -> Iterator[None]:
    """Convert errors caused by inconsistent events of a trace to BadInput."""
    try:
        yield
    except (IndexError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"trace: must be that of a run; its events do not fit together ({error})") from None


def _sorted(columns: Columns, by: Any) -> Columns:
    """Sort the rows of columns by the columns named in ``by``, the last of which is the primary key."""
    order = np.lexsort([columns[name] for name in by])
    return {name: column[order] for name, column in columns.items()}


def _drawn(among: Bools, frames: NDArray[np.int32], room: int) -> Bools:
    """Select messages of ``among`` with the smallest hashes, such that they have at most ``room`` frames together."""
    hashes = draws.mix_words(np.arange(len(among), dtype=np.uint64))
    share = room / max(int(frames[among].sum()), 1)
    while True:
        found: Bools = among & (hashes < np.uint64(min(share, 1.0 - 2.0**-53) * 2.0**64))
        there = int(frames[found].sum())
        if there <= room:
            return found
        share *= min(room / there, 0.999)
