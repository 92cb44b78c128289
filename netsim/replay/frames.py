"""From a run's trace to columns with a row for each frame on each link: when it was offered, left and ended."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from netsim.accounting.scene import Scene
from netsim.core.records import ALL_CAUSES, CAUSES, LEFT, RADIO_CAUSES, key_shift
from netsim.errors import BadInput
from netsim.replay.thinning import Chosen, choose
from netsim.util import check

__all__ = ["MOST", "Columns", "Frames", "Log", "Messages", "Recorded", "fitting", "frames_of", "recorded"]

MOST = 500_000
"""Frames that are shown at most, unless another number is asked for."""

Columns = dict[str, NDArray[Any]]
Ints = NDArray[np.int64]

# What ends so was never sent, but for a frame whose sender crashed while it was on the air.
_NEVER_SENT = [CAUSES.index("refused"), CAUSES.index("queue_full"), CAUSES.index("link_down")]


class Log(Protocol):
    """A trace: `netsim.accounting.Trace`, or one read from its file piece by piece."""

    @property
    def agents(self) -> Any:
        """The agents' names."""

    @property
    def kinds(self) -> list[str]:
        """The kinds of message."""

    @property
    def scene(self) -> Scene | None:
        """Where and when the run took place."""

    @property
    def links(self) -> tuple[Ints, Ints]:
        """The numbers of the agents at each directed link's ends."""

    def count(self, stream: str) -> int:
        """Return how many records there are of a kind."""

    def chunks(self, stream: str) -> Iterator[NDArray[np.void]]:
        """Yield the records of a kind, some at a time."""


@dataclass(frozen=True)
class Frames:
    """The frames of a run.

    Attributes
    ----------
    columns : dict of arrays, shape (shown,)
        ``start``, ``depart``, ``end`` (s), ``sender``, ``receiver``, ``kind``, ``cause``, ``round``, ``bits``,
        ``reply``, ``number``, as docs/replay.md has them; in order of start, sender, number and receiver.
    causes : list of str
        How frames end, by number: ``delivered`` first, ``in_flight`` last.
    counts : dict
        How many frames of the whole run ended so, by cause.
    omitted : str
        In one sentence what is not shown; empty if all is.
    """

    columns: Columns
    causes: list[str]
    counts: dict[str, int]
    omitted: str


@dataclass
class Messages:
    """Every agent's transmissions by one number, the agents one after another; second copies stand for their first.

    Attributes
    ----------
    firsts : int array, shape (agents + 1,)
        The number of each agent's first; the last is how many there are.
    """

    log: Log
    shift: int
    senders: Ints
    firsts: Ints
    copies: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    originals: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.firsts[-1])

    def of(self, keys: Ints) -> Ints:
        """Return the numbers of link messages' transmissions."""
        numbers: Ints = self.firsts[self.senders[keys >> self.shift]] + (keys & ((1 << self.shift) - 1))
        if len(self.copies):
            place = np.minimum(np.searchsorted(self.copies, numbers), len(self.copies) - 1)
            found = self.copies[place] == numbers
            numbers[found] = self.originals[place[found]]
        return numbers

    def ends(self) -> Iterator[tuple[Ints, Ints | None]]:
        """Yield the transmissions of frames that ended, and how (None: under way)."""
        for exits in self.log.chunks("exits"):
            yield self.of(exits["key"]), exits["cause"].astype(np.int64)
        for under_way in self.log.chunks("in_flight"):
            yield self.of(under_way["key"]), None


@dataclass(frozen=True)
class Recorded:
    """What a trace holds, its messages numbered.

    Attributes
    ----------
    causes, counts
        As in `Frames`.
    """

    log: Log
    scene: Scene
    messages: Messages
    causes: list[str]
    counts: dict[str, int]

    @property
    def total(self) -> int:
        """How many frames there are."""
        return self.log.count("exits") + self.log.count("in_flight")

    def columns(self, chosen: Chosen) -> Columns:
        """Return the frames of the chosen messages, as `Frames` has them."""
        columns = _columns(self.log, self.scene, self.messages, chosen)
        columns["cause"][columns["cause"] < 0] = self.causes.index("in_flight")
        if not np.isin(columns["kind"], np.arange(len(self.log.kinds))).all() or (columns["bits"] < 0).any():
            raise ValueError("kinds or bits are none")
        return columns


def recorded(log: Log) -> Recorded:
    """Return what a trace holds; raises BadInput if it is of an earlier version, or not that of a run."""
    scene = log.scene
    if scene is None or log.count("details") != log.count("sent"):
        raise BadInput("trace: must be of this version of netsim; run it again with --trace, or trace=True")
    ends = np.zeros(len(ALL_CAUSES), dtype=np.int64)
    with fitting():
        messages = _numbered(log)
        for exits in log.chunks("exits"):
            ends += np.bincount(exits["cause"], minlength=len(ends))
    usual = CAUSES if scene.medium != "shared" else CAUSES + RADIO_CAUSES
    # Missing is only what crossed between processes.
    causes = list(usual if not ends[len(usual) :].any() else ALL_CAUSES)
    ends = ends[: len(causes)]
    counts = dict(zip(causes, ends.tolist(), strict=True))
    return Recorded(log, scene, messages, [*causes, "in_flight"], counts | {"in_flight": log.count("in_flight")})


@contextmanager
def fitting() -> Iterator[None]:
    """Raise BadInput where the events of a trace turn out not to fit together."""
    try:
        yield
    except (IndexError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"trace: must be that of a run; its events do not fit together ({error})") from None


def frames_of(log: Log, most: int = MOST) -> Frames:
    """Return the frames of a trace.

    Parameters
    ----------
    log : Log
        A trace of this version of netsim.
    most : int
        More frames are thinned (`netsim.replay.thinning`). Memory is needed for so many, and a few bytes for each
        transmission of the run.

    Raises
    ------
    BadInput
        If ``most`` is no whole number of at least 1, or the trace is of an earlier version, or not that of a run.
    """
    most = check.integer("most", most, low=1)
    found = recorded(log)
    with fitting():
        chosen = choose(found.messages.count, found.total, most, found.messages.ends)
        return Frames(found.columns(chosen), found.causes, found.counts, chosen.omitted)


def _numbered(log: Log) -> Messages:
    senders, _ = log.links
    shift = key_shift(len(senders))
    numbers = np.zeros(len(log.agents), dtype=np.int64)
    for sent in log.chunks("sent"):
        np.maximum.at(numbers, sent["sender"], sent["number"] + 1)
    copies: list[tuple[Ints, Ints, Ints]] = []
    for left in log.chunks("left"):
        who, number = senders[left["key"] >> shift], left["key"] & ((1 << shift) - 1)
        np.maximum.at(numbers, who, number + 1)
        copy = number != left["number"]
        copies += [(who[copy], number[copy], left["number"][copy])] if copy.any() else []
    # Agents number their messages and second copies one by one.
    if numbers.sum() > 2 * (log.count("sent") + log.count("left")) or (numbers < 0).any():
        raise ValueError("messages are missing")
    found = Messages(log, shift, senders, np.concatenate([[0], np.cumsum(numbers)]))
    if copies:
        who, number, original = (np.concatenate(column) for column in zip(*copies, strict=True))
        order = np.argsort(found.firsts[who] + number)
        found.copies, found.originals = (found.firsts[who] + number)[order], (found.firsts[who] + original)[order]
    return found


def _columns(log: Log, scene: Scene, messages: Messages, chosen: Chosen) -> Columns:
    said = _said(log, scene, messages, chosen)
    keys, kinds, causes, times = _ends(log, scene, messages, chosen)
    numbers = messages.of(keys)
    place = np.searchsorted(said["message"], numbers)
    if not np.array_equal(said["message"][np.minimum(place, len(said["message"]) - 1)], numbers):
        raise ValueError("what ended was never sent")
    senders, receivers = log.links
    link = keys >> messages.shift
    start = said["time"][place]
    depart, bits = _departures(log, messages, chosen, keys)
    gone = np.isfinite(depart)
    stayed = np.isin(causes, _NEVER_SENT) | (scene.medium == "shared")
    depart = np.where(gone, depart, np.where(stayed, times, start))
    found: Columns = {
        "start": start,
        "depart": depart,
        # What is lost is counted when it is offered, and ends where it leaves.
        "end": np.maximum(times, depart),
        "sender": senders[link].astype(np.int32),
        "receiver": receivers[link].astype(np.int32),
        "kind": kinds.astype(np.int16),
        "cause": causes.astype(np.int16),
        "round": np.minimum(said["round"][place], 2**31 - 1).astype(np.int32),
        "bits": np.where(gone, bits, np.where(stayed, 0, said["bits"][place])),
        "reply": said["reply"][place].astype(np.uint8),
        "number": numbers - messages.firsts[senders[link]],
    }
    order = np.lexsort([found[name] for name in ("end", "receiver", "number", "sender", "start")])
    return {name: column[order] for name, column in found.items()}


def _said(log: Log, scene: Scene, messages: Messages, chosen: Chosen) -> Columns:
    """Return the chosen transmissions in order of their numbers."""
    parts: list[tuple[Ints, ...]] = [(np.empty(0, np.int64),) * 5]
    for sent, detail in zip(log.chunks("sent"), log.chunks("details"), strict=True):
        number = messages.firsts[sent["sender"]] + sent["number"]
        some = chosen.which[number]
        each = sent["each"] if scene.medium == "wires" else sent["wire_bits"]
        parts.append((number[some], sent["time"][some], each[some], detail["round"][some], detail["reply"][some]))
    names = ("message", "time", "bits", "round", "reply")
    columns = dict(zip(names, map(np.concatenate, zip(*parts, strict=True)), strict=True))
    order = np.argsort(columns["message"])
    return {name: column[order] for name, column in columns.items()}


def _ends(log: Log, scene: Scene, messages: Messages, chosen: Chosen) -> tuple[Ints, Ints, Ints, NDArray[np.float64]]:
    """Return keys, kinds, causes (−1: under way) and times (s) of the ends of the chosen messages' frames."""
    parts: list[tuple[Any, ...]] = []
    for exits in log.chunks("exits"):
        some = exits[chosen.which[messages.of(exits["key"])]]
        parts.append((some["key"], some["kind"], some["cause"], some["time"]))
    for under_way in log.chunks("in_flight"):
        some = under_way[chosen.which[messages.of(under_way["key"])]]
        parts.append((some["key"], some["kind"], np.full(len(some), -1), np.full(len(some), scene.ended_at)))
    parts.append((np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)))
    keys, kinds, causes, times = (np.concatenate(column) for column in zip(*parts, strict=True))
    return keys, kinds.astype(np.int64), causes.astype(np.int64), times


def _departures(log: Log, messages: Messages, chosen: Chosen, keys: Ints) -> tuple[NDArray[np.float64], Ints]:
    """Return when frames left (s) and their bits, as far as that was kept; NaN and 0 where not."""
    parts = [np.empty(0, LEFT), *(left[chosen.which[messages.of(left["key"])]] for left in log.chunks("left"))]
    depart, bits = np.full(len(keys), np.nan), np.zeros(len(keys), dtype=np.int64)
    left = np.concatenate(parts)
    if len(left):
        left = left[np.argsort(left["key"], kind="stable")]
        place = np.minimum(np.searchsorted(left["key"], keys), len(left) - 1)
        found = left["key"][place] == keys
        depart[found], bits[found] = left["time"][place[found]], left["bits"][place[found]]
    return depart, bits
