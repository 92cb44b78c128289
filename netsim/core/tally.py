"""The tally of one run: totals, counts by agent, link, kind and cause, and the hash of all that happened.

What comes in is kept as it comes and folded in by whole blocks. The hash is a sum over what was recorded, each record
mixed with the names that it concerns, so it is the same in whatever order the records come: who looked into which
inbox when, or which of two agents acted first at one instant, does not matter.
"""

import hashlib
import struct
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.core.records import (
    ALL_CAUSES,
    DELIVERED,
    DETAIL,
    EXIT,
    LEFT,
    SENT,
    TO_ALL,
    Transmission,
    key_shift,
)
from netsim.util import draws
from netsim.util.draws import Keys

__all__ = ["Tally", "mix_exits", "mix_sent", "sums_of", "trace_hash"]

Counts = NDArray[np.int64]

_PACK = struct.Struct(
    "<" + "".join("d" if kind is float else "q" for kind in Transmission.__annotations__.values())
).pack
_PACK_DETAIL, _PACK_LEFT = struct.Struct("<qq").pack, struct.Struct("<dqqq").pack
_SENDERS = ("transmissions", "payload_bits", "raw_data_bits", "wire_bits", "saturated")


class Tally:
    """Counts and hash of one run.

    Parameters
    ----------
    agent_keys : uint64 array, shape (agents,)
        A key of each agent's name.
    link_keys : uint64 array, shape (links,)
        A key of each directed link's ends.
    keep : bool
        Whether to keep the records.

    Attributes
    ----------
    shift : int
        See `netsim.core.records.key_shift`.
    keeps : bool
        Whether the records are kept.
    kinds : dict
        Numbers of the kinds of message by their names, in the order of their first use.
    exits : list of int
        How many link messages have ended so far, by cause.
    transmissions, link_messages, duplicated, payload_bits, raw_data_bits, wire_bits, saturated : int
        Running totals.
    """

    def __init__(self, agent_keys: Keys, link_keys: Keys, keep: bool) -> None:
        self.shift = key_shift(len(link_keys))
        self.kinds: dict[str, int] = {}
        self.exits = [0] * len(ALL_CAUSES)
        self.transmissions = self.link_messages = self.duplicated = 0
        self.payload_bits = self.raw_data_bits = self.wire_bits = self.saturated = 0
        self._agent_keys = agent_keys
        self._link_keys = link_keys
        self._kind_keys = np.zeros(0, dtype=np.uint64)
        self._sums = np.zeros(2, dtype=np.uint64)
        self.keeps = keep
        self._kept: dict[str, list[NDArray[np.void]]] | None = {"sent": [], "exits": []} if keep else None
        self._details, self._left = bytearray(), bytearray()
        # How many of those lists and bytes `news` has told.
        self._told = {"sent": 0, "exits": 0, "details": 0, "left": 0}
        # Records not folded in yet: transmissions; times, keys and kinds of deliveries; other ends.
        self._sent = bytearray()
        self._times: list[float] = []
        self._keys: list[int] = []
        self._delivered_kinds: list[int] = []
        self._ended: list[tuple[float, int, int, int]] = []
        # Large networks are folded in large blocks, for each costs a pass over all links.
        self._block = max(1 << 13, len(link_keys) // 4)
        self._tables: dict[str, Counts] = {}

    # --- as things happen ---------------------------------------------------------------------------------------------

    def kind(self, name: str) -> int:
        """Return the number of a kind of message, new or known."""
        number = self.kinds.get(name)
        if number is None:
            number = self.kinds[name] = len(self.kinds)
            self._kind_keys = np.append(self._kind_keys, np.uint64(draws.name_key(name)))
        return number

    def sent(self, record: Transmission, links: int, round_number: int, reply: bool) -> None:
        """Count a transmission over so many links; its round, and whether it answers a request, are only kept."""
        self.link_messages += links
        if record.taken:
            self.transmissions += 1
            self.payload_bits += record.payload_bits
            self.raw_data_bits += record.raw_data_bits
            self.wire_bits += record.wire_bits
            self.saturated += record.saturated
        self._sent += _PACK(*record)
        if self.keeps:
            self._details += _PACK_DETAIL(round_number, reply)
        if len(self._sent) >= self._block * SENT.itemsize:
            self._fold_sent()

    def link_bits(self, link: int, kind: int, bits: int) -> None:
        """Count the bits that crossed one link."""
        self._table("wire_bits", len(self._link_keys))[kind, link] += bits

    def left(self, time: float, key: int, number: int, bits: int) -> None:
        """Keep when (s) a link message of this transmission left, and its bits; to be called if ``keeps``."""
        self._left += _PACK_LEFT(time, key, number, bits)

    def aired(self, sender: int, kind: int, bits: int) -> None:
        """Count bits that a shared medium carried for a sender, some time after `sent`."""
        self.wire_bits += bits
        self._table("sender wire_bits", len(self._agent_keys))[kind, sender] += bits

    def duplicate(self, link: int, kind: int) -> None:
        """Count a second copy."""
        self.duplicated += 1
        self._table("duplicated", len(self._link_keys))[kind, link] += 1

    def delivered(self, times: Sequence[float], keys: Sequence[int], kinds: Sequence[int]) -> None:
        """Count link messages that reached an inbox: arrival times (s), keys, kinds."""
        self.exits[DELIVERED] += len(times)
        self._times += times
        self._keys += keys
        self._delivered_kinds += kinds
        if len(self._times) >= self._block:
            self._fold_delivered()

    def ended(self, time: float, key: int, kind: int, cause: int) -> None:
        """Count a link message that ended at ``time`` (s) for a cause."""
        self.exits[cause] += 1
        self._ended.append((time, key, kind, cause))
        if len(self._ended) >= self._block:
            self._fold_ended()

    # --- for the ledger -----------------------------------------------------------------------------------------------

    def by_link(self, name: str) -> Counts:
        """Return ``offered``, ``duplicated``, ``wire_bits`` or a cause's counts, shape (kinds, links).

        What went to all links of a sender is not in the first and the third: see `to_all`.
        """
        self._fold()
        return self._table(name, len(self._link_keys))[: len(self.kinds)]

    def by_sender(self, name: str) -> Counts:
        """Return ``transmissions``, a kind of bits or ``saturated``, shape (kinds, agents)."""
        self._fold()
        return self._table("sender " + name, len(self._agent_keys))[: len(self.kinds)]

    def to_all(self, name: str) -> Counts:
        """Return what each agent sent over all its links, ``offered`` or ``wire_bits`` a link, (kinds, agents)."""
        self._fold()
        return self._table("all " + name, len(self._agent_keys))[: len(self.kinds)]

    @property
    def sums(self) -> Keys:
        """The two sums over all that was recorded so far that the trace hash is made of."""
        self._fold()
        return self._sums

    def records(self) -> dict[str, NDArray[np.void]] | None:
        """Return what was kept: ``sent``, ``exits``, ``details`` and ``left``; None if nothing was to be kept.

        Their dtypes are `SENT`, `EXIT`, `DETAIL` and `LEFT`.
        """
        self._fold()
        if self._kept is None:
            return None
        none = {"sent": np.empty(0, SENT), "exits": np.empty(0, EXIT)}
        kept = {name: np.concatenate([none[name], *parts]) for name, parts in self._kept.items()}
        more = {"details": (self._details, DETAIL), "left": (self._left, LEFT)}
        return kept | {name: np.frombuffer(bytes(packed), dtype) for name, (packed, dtype) in more.items()}

    def news(self, forget: bool) -> dict[str, NDArray[np.void]]:
        """Return what was kept since this was last called, in the form of `records`; to be called if ``keeps``.

        With ``forget`` it is kept no longer.
        """
        self._fold()
        assert self._kept is not None
        kept: dict[str, Any] = {**self._kept, "details": self._details, "left": self._left}
        found = {}
        for name, dtype in (("sent", SENT), ("exits", EXIT), ("details", DETAIL), ("left", LEFT)):
            fresh = kept[name][self._told[name] :]
            whole = isinstance(fresh, list)
            found[name] = np.concatenate([np.empty(0, dtype), *fresh]) if whole else np.frombuffer(bytes(fresh), dtype)
            if forget:
                kept[name].clear()
            self._told[name] = len(kept[name])
        return found

    # --- folding ------------------------------------------------------------------------------------------------------

    def _fold(self) -> None:
        self._fold_sent()
        self._fold_delivered()
        self._fold_ended()

    def _table(self, name: str, width: int) -> Counts:
        """Return the counts under a name: a row for each kind, and rows to spare."""
        counts = self._tables.get(name)
        if counts is None or len(counts) < len(self.kinds):
            grown = np.zeros((max(1, 2 * len(self.kinds) - 1), width), dtype=np.int64)
            if counts is not None:
                grown[: len(counts)] = counts
            counts = self._tables[name] = grown
        return counts

    def _add(self, name: str, width: int, kinds: Counts, places: Counts, values: Counts | int = 1) -> None:
        np.add.at(self._table(name, width), (kinds, places), values)

    def _fold_sent(self) -> None:
        if not self._sent:
            return
        records = np.frombuffer(bytes(self._sent), dtype=SENT)
        self._sent.clear()
        self._keep("sent", records)
        self._mix(mix_sent(records, self._agent_keys, self._link_keys, self._kind_keys))
        agents, links = len(self._agent_keys), len(self._link_keys)
        kinds, who = records["kind"], records["sender"]
        self._add("sender transmissions", agents, kinds, who, records["taken"])
        for name in _SENDERS[1:]:
            self._add("sender " + name, agents, kinds, who, records[name])
        for to_all in (True, False):
            some = records[(records["link"] == TO_ALL) == to_all]
            places, width, prefix = (some["sender"], agents, "all ") if to_all else (some["link"], links, "")
            if len(some):
                self._add(prefix + "offered", width, some["kind"], places)
                self._add(prefix + "wire_bits", width, some["kind"], places, some["each"])

    def _fold_delivered(self) -> None:
        if self._times:
            # By way of arrays, which take a list of numbers faster than numpy does.
            time, key = np.array(array("d", self._times)), np.array(array("q", self._keys))
            kind = np.array(array("q", self._delivered_kinds))
            for column in (self._times, self._keys, self._delivered_kinds):
                column.clear()
            self._count_exits(time, key, kind, np.full(len(time), DELIVERED, dtype=np.int64))

    def _fold_ended(self) -> None:
        if self._ended:
            time, *others = zip(*self._ended, strict=True)
            self._ended.clear()
            key, kind, cause = (np.array(column, dtype=np.int64) for column in others)
            self._count_exits(np.array(time, dtype=np.float64), key, kind, cause)

    def _count_exits(self, time: NDArray[np.float64], key: Counts, kind: Counts, cause: Counts) -> None:
        if self._kept is not None:
            records = np.empty(len(time), dtype=EXIT)
            records["time"], records["key"], records["kind"], records["cause"] = time, key, kind, cause
            self._keep("exits", records)
        self._mix(mix_exits(time, key, kind, cause, self.shift, self._link_keys, self._kind_keys))
        links = len(self._link_keys)
        slots = kind * links + (key >> self.shift)
        for number in np.unique(cause).tolist():
            table = self._table(ALL_CAUSES[number], links).reshape(-1)
            np.add.at(table, slots[cause == number], 1)

    def _keep(self, stream: str, records: NDArray[np.void]) -> None:
        if self._kept is not None:
            self._kept[stream].append(records)

    def _mix(self, mixed: Keys) -> None:
        self._sums += sums_of(mixed)


def trace_hash(agent_keys: Keys, senders: Counts, receivers: Counts, *mixed: Keys, sums: Keys | None = None) -> str:
    """Return the hash of a run: who is there, who is linked to whom, and all that happened (the records mixed)."""
    total = sum(map(sums_of, mixed), np.zeros(2, dtype=np.uint64)) if sums is None else sums
    words = [agent_keys, np.asarray(senders, dtype="<i8"), np.asarray(receivers, dtype="<i8"), total]
    return hashlib.sha256(b"".join(word.tobytes() for word in words)).hexdigest()[:32]


def sums_of(mixed: Keys) -> Keys:
    """Return two sums over mixed records, shape (2,): equal for equal records in whatever order."""
    return np.array([mixed.sum(), draws.mix_words(mixed).sum()], dtype=np.uint64)


def mix_sent(records: NDArray[np.void], agent_keys: Keys, link_keys: Keys, kind_keys: Keys) -> Keys:
    """Return a 64-bit mixture of each transmission, with names in place of numbers."""
    to_all = records["link"] == TO_ALL
    links = np.zeros(len(records), dtype=np.uint64)
    links[~to_all] = link_keys[records["link"][~to_all]]
    return draws.mix_words(
        agent_keys[records["sender"]],
        kind_keys[records["kind"]],
        links,
        records["time"].copy().view(np.uint64),
        *(records[name] for name in Transmission._fields if name not in ("sender", "kind", "link", "time")),
    )


def mix_exits(
    time: NDArray[np.float64],
    key: Counts,
    kind: Counts,
    cause: Counts,
    shift: int,
    link_keys: Keys,
    kind_keys: Keys,
) -> Keys:
    """Return a 64-bit mixture of each link message's end, with names in place of numbers."""
    number = (key & ((1 << shift) - 1)).view(np.uint64)
    message = link_keys[key >> shift] + number * draws.GAMMA
    return draws.mix_words(message, time.view(np.uint64), kind_keys[kind] + cause.view(np.uint64))
