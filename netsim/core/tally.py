"""The tally of one run: totals, counts by agent, link, kind and cause, and the trace hash.

Records are buffered in the order in which they are made, and added to the counts and the hash in blocks. The hash is a
sum over all records, each hashed together with the names of its agents, link and kind. The hash therefore does not
depend on the order of the records, for example on which of two agents acted first at one instant.
"""

import hashlib
import struct
from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netsim.core.records import ALL_CAUSES, DELIVERED, KEPT, OUTCOME, SENT, SUMMED, TO_ALL, Transmission, key_shift
from netsim.util import draws
from netsim.util.draws import Keys

__all__ = ["Tally", "mix_outcomes", "mix_sent", "sums_of", "trace_hash"]

Counts = NDArray[np.int64]

_PACK = struct.Struct(
    "<" + "".join("d" if kind is float else "q" for kind in Transmission.__annotations__.values())
).pack
_PACK_DETAIL, _PACK_LEFT = struct.Struct("<qq").pack, struct.Struct("<dqqq").pack


class Tally:
    """Counts and hash of one run.

    Parameters
    ----------
    agent_keys : uint64 array, shape (agents,)
        The 64-bit hash of each agent's name.
    link_keys : uint64 array, shape (links,)
        The 64-bit hash of each directed link's two ends.
    keep : bool
        Whether to keep the records, as a trace needs them.

    Attributes
    ----------
    shift : int
        The number of bits of a key that hold the transmission's number (`netsim.core.records.key_shift`).
    keeps : bool
        Whether the records are kept.
    kinds : dict
        The id of each kind of message by name, in the order of first use.
    exits : list of int
        The number of link messages that have ended so far, by cause.
    link_messages, duplicated : int
        The numbers of link messages offered and of duplicates made so far.
    """

    def __init__(self, agent_keys: Keys, link_keys: Keys, keep: bool) -> None:
        self.shift = key_shift(len(link_keys))
        self.kinds: dict[str, int] = {}
        self.exits = [0] * len(ALL_CAUSES)
        self.link_messages = self.duplicated = 0
        self._totals = dict.fromkeys(SUMMED, 0)
        self._agent_keys = agent_keys
        self._link_keys = link_keys
        self._kind_keys = np.zeros(0, dtype=np.uint64)
        self._sums = np.zeros(2, dtype=np.uint64)
        self.keeps = keep
        self._kept = {name: bytearray() for name in KEPT}
        # The number of bytes of each record type that `news` has already returned.
        self._returned = dict.fromkeys(KEPT, 0)
        # Buffered records. `_sent`: transmissions. `_times`, `_keys`, `_delivered_kinds`: deliveries. `_ended`: other
        # outcomes.
        self._sent = bytearray()
        self._times: list[float] = []
        self._keys: list[int] = []
        self._delivered_kinds: list[int] = []
        self._ended: list[tuple[float, int, int, int]] = []
        # The block length grows with the network, because counting a block takes one pass over all links.
        self._block = max(1 << 13, len(link_keys) // 4)
        self._tables: dict[str, Counts] = {}

    # --- recording events ---------------------------------------------------------------------------------------------

    def kind(self, name: str) -> int:
        """Return the id of a kind of message, assigning one if the kind is new."""
        number = self.kinds.get(name)
        if number is None:
            number = self.kinds[name] = len(self.kinds)
            self._kind_keys = np.append(self._kind_keys, np.uint64(draws.name_key(name)))
        return number

    def sent(self, record: Transmission, links: int, round_number: int, reply: bool) -> None:
        """Count a transmission over ``links`` links; ``round_number`` and ``reply`` are only stored for the trace."""
        self.link_messages += links
        if record.taken:
            for column, field in SUMMED.items():
                self._totals[column] += int(record[field])
        self._sent += _PACK(*record)
        if self.keeps:
            self._kept["details"] += _PACK_DETAIL(round_number, reply)
        if len(self._sent) >= self._block * SENT.itemsize:
            self._fold_sent()

    def link_bits(self, link: int, kind: int, bits: int) -> None:
        """Count the wire bits that a message took on one link."""
        self._table("wire_bits")[kind, link] += bits

    def left(self, time: float, key: int, number: int, bits: int) -> None:
        """Store the time (s) at which a link message left, and its wire bits; call this only if ``keeps`` is true."""
        self._kept["left"] += _PACK_LEFT(time, key, number, bits)

    def aired(self, sender: int, kind: int, bits: int) -> None:
        """Count wire bits that a node sent on a shared medium, where they are unknown when `sent` is called."""
        self._totals["wire_bits"] += bits
        self._table("sender wire_bits")[kind, sender] += bits

    def duplicate(self, link: int, kind: int) -> None:
        """Count a second copy of a message, made by a link that duplicates."""
        self.duplicated += 1
        self._table("duplicated")[kind, link] += 1

    def delivered(self, times: Sequence[float], keys: Sequence[int], kinds: Sequence[int]) -> None:
        """Count link messages that reached an inbox, given their arrival times (s), keys and kinds."""
        self.exits[DELIVERED] += len(times)
        self._times += times
        self._keys += keys
        self._delivered_kinds += kinds
        if len(self._times) >= self._block:
            self._fold_delivered()

    def ended(self, time: float, key: int, kind: int, cause: int) -> None:
        """Count a link message that was not delivered, with its cause and the time (s) of its end."""
        self.exits[cause] += 1
        self._ended.append((time, key, kind, cause))
        if len(self._ended) >= self._block:
            self._fold_ended()

    # --- for the ledger -----------------------------------------------------------------------------------------------

    @property
    def totals(self) -> list[int]:
        """The running totals of the columns in `netsim.core.records.SUMMED`, in that order."""
        return list(self._totals.values())

    def by_link(self, name: str) -> Counts:
        """Return a column of `netsim.core.records.BY_LINK`, shape (kinds, links).

        Broadcasts are not included in ``offered`` and ``wire_bits``: see `to_all`.
        """
        return self._counts(name)

    def by_sender(self, name: str) -> Counts:
        """Return a column of `netsim.core.records.SUMMED`, shape (kinds, agents)."""
        return self._counts("sender " + name)

    def to_all(self, name: str) -> Counts:
        """Return the broadcasts' part of the column ``offered`` or ``wire_bits``, shape (kinds, agents).

        A broadcast adds the same number to every link of its sender, so this number is stored once, for the sender.
        """
        return self._counts("all " + name)

    @property
    def sums(self) -> Keys:
        """The two sums, over all records so far, from which the trace hash is computed."""
        self._fold()
        return self._sums

    def records(self) -> dict[str, NDArray[np.void]] | None:
        """Return the stored records as arrays with the names and dtypes of `KEPT`; None if ``keeps`` is false."""
        self._fold()
        if not self.keeps:
            return None
        return {name: np.frombuffer(bytes(self._kept[name]), dtype) for name, dtype in KEPT.items()}

    def news(self, forget: bool) -> dict[str, NDArray[np.void]]:
        """Return the records stored since the last call, in the form of `records`; call it only if ``keeps`` is true.

        With ``forget`` all stored records are discarded afterwards.
        """
        self._fold()
        found = {}
        for name, dtype in KEPT.items():
            found[name] = np.frombuffer(bytes(self._kept[name][self._returned[name] :]), dtype)
            if forget:
                self._kept[name].clear()
            self._returned[name] = len(self._kept[name])
        return found

    # --- folding ------------------------------------------------------------------------------------------------------

    def _fold(self) -> None:
        self._fold_sent()
        self._fold_delivered()
        self._fold_ended()

    def _table(self, name: str) -> Counts:
        """Return the table with this name, with a row for each kind and spare rows for new kinds."""
        counts = self._tables.get(name)
        if counts is None or len(counts) < len(self.kinds):
            width = len(self._agent_keys) if name.startswith(("sender ", "all ")) else len(self._link_keys)
            grown = np.zeros((max(1, 2 * len(self.kinds) - 1), width), dtype=np.int64)
            if counts is not None:
                grown[: len(counts)] = counts
            counts = self._tables[name] = grown
        return counts

    def _counts(self, name: str) -> Counts:
        """Count all buffered records, and return the table with this name, shape (kinds, links or agents)."""
        self._fold()
        return self._table(name)[: len(self.kinds)]

    def _add(self, name: str, kinds: Counts, indices: Counts, values: Counts | int = 1) -> None:
        table = self._table(name)
        np.add.at(table.reshape(-1), kinds * table.shape[1] + indices, values)

    def _fold_sent(self) -> None:
        if not self._sent:
            return
        packed = bytes(self._sent)
        self._sent.clear()
        if self.keeps:
            self._kept["sent"] += packed
        records = np.frombuffer(packed, dtype=SENT)
        self._mix(mix_sent(records, self._agent_keys, self._link_keys, self._kind_keys))
        for column, field in SUMMED.items():
            self._add("sender " + column, records["kind"], records["sender"], records[Transmission._fields[field]])
        for to_all, end, prefix in ((True, "sender", "all "), (False, "link", "")):
            some = records[(records["link"] == TO_ALL) == to_all]
            if len(some):
                self._add(prefix + "offered", some["kind"], some[end])
                self._add(prefix + "wire_bits", some["kind"], some[end], some["each"])

    def _fold_delivered(self) -> None:
        if self._times:
            # array.array converts a list of numbers faster than numpy does.
            time, key = np.array(array("d", self._times)), np.array(array("q", self._keys))
            kind = np.array(array("q", self._delivered_kinds))
            for column in (self._times, self._keys, self._delivered_kinds):
                column.clear()
            self._count_outcomes(time, key, kind, np.full(len(time), DELIVERED, dtype=np.int64))

    def _fold_ended(self) -> None:
        if self._ended:
            time, *others = zip(*self._ended, strict=True)
            self._ended.clear()
            key, kind, cause = (np.array(column, dtype=np.int64) for column in others)
            self._count_outcomes(np.array(time, dtype=np.float64), key, kind, cause)

    def _count_outcomes(self, time: NDArray[np.float64], key: Counts, kind: Counts, cause: Counts) -> None:
        records = np.empty(len(time), dtype=OUTCOME)
        records["time"], records["key"], records["kind"], records["cause"] = time, key, kind, cause
        if self.keeps:
            self._kept["exits"] += records.tobytes()
        self._mix(mix_outcomes(records, self.shift, self._link_keys, self._kind_keys))
        for number in np.unique(cause).tolist():
            some = cause == number
            self._add(ALL_CAUSES[number], kind[some], key[some] >> self.shift)

    def _mix(self, mixed: Keys) -> None:
        self._sums += sums_of(mixed)


def trace_hash(agent_keys: Keys, senders: Counts, receivers: Counts, sums: Keys) -> str:
    """Return the hash of a run from the keys of its agents, its links, and the sums over all records (`sums_of`)."""
    words = [agent_keys, np.asarray(senders, dtype="<i8"), np.asarray(receivers, dtype="<i8"), sums]
    return hashlib.sha256(b"".join(word.tobytes() for word in words)).hexdigest()[:32]


def sums_of(mixed: Keys) -> Keys:
    """Return two sums over hashed records, shape (2,), which do not depend on the records' order."""
    return np.array([mixed.sum(), draws.mix_words(mixed).sum()], dtype=np.uint64)


def mix_sent(records: NDArray[np.void], agent_keys: Keys, link_keys: Keys, kind_keys: Keys) -> Keys:
    """Return a 64-bit hash of each transmission, computed from names instead of indices."""
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


def mix_outcomes(records: NDArray[np.void], shift: int, link_keys: Keys, kind_keys: Keys) -> Keys:
    """Return a 64-bit hash of each link message's outcome, computed from names instead of indices."""
    key, cause = records["key"].astype(np.int64), records["cause"].astype(np.uint64)
    number = (key & ((1 << shift) - 1)).view(np.uint64)
    message = link_keys[key >> shift] + number * draws.GAMMA
    time = np.ascontiguousarray(records["time"]).view(np.uint64)
    return draws.mix_words(message, time, kind_keys[records["kind"]] + cause)
