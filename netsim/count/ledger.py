"""Counting: every frame that was offered to a link, how it ended, and every bit.

Running totals are plain integers (a row of them closes each round). The counts by agent, link and kind, and the trace,
come from records that the network appends as things happen and that are folded in by whole blocks.
"""

import struct
from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim import check
from netsim.count.trace import EXIT, SENT, Recorder

if TYPE_CHECKING:
    import pandas as pd

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

TOTALS = (
    "transmissions",
    "link_messages",
    "duplicated",
    *CAUSES,
    "payload_bits",
    "raw_data_bits",
    "wire_bits",
    "saturated",
)
"""The columns of a round's row; what each means is in docs/counting.md."""

Counts = NDArray[np.int64]

STEP = (1 << 32) + 1
"""From one link message's key to the next one's of a broadcast: key = number·2³² + slot, slot = kind × links + link."""

_SLOT = (1 << 32) - 1
_BLOCK = 1 << 11
_PACK = struct.Struct("<dqiiiqqqqqI").pack


class Ledger:
    """Counts of one run, by sender, link, kind of message and cause.

    Parameters
    ----------
    agents : sequence
        The agents' names.
    senders, receivers : int arrays, shape (links,)
        The numbers of the agents at each directed link's ends.
    """

    def __init__(self, agents: Sequence[Hashable], senders: Counts, receivers: Counts, keep_trace: bool) -> None:
        self.agents = agents
        self.senders = senders
        self.receivers = receivers
        self.kinds: dict[str, int] = {}
        self.recorder = Recorder(keep_trace)
        self.transmissions = self.link_messages = self.duplicated = self.saturated = 0
        self.payload_bits = self.raw_data_bits = self.wire_bits = 0
        self.exits = [0] * len(CAUSES)
        # Records not folded in yet: transmissions; times and keys of deliveries; other exits (time, key, cause).
        self._sent = bytearray()
        self._times: list[float] = []
        self._keys: list[int] = []
        self._dropped: list[tuple[float, int, int]] = []
        self._by_sender: dict[str, Counts] = {}
        self._by_slot: dict[str, Counts] = {}
        self.in_flight: Callable[[], Iterable[int]] = lambda: ()
        """Yields the key of each frame that is under way: the network puts it here."""

    # --- what the network calls ---------------------------------------------------------------------------------------

    def kind(self, name: str) -> int:
        """Return the number of a kind of message, new or known."""
        number = self.kinds.get(name)
        if number is None:
            number = self.kinds[name] = len(self.kinds)
        return number

    def sent(
        self,
        now: float,
        key: int,
        sender: int,
        links: int,
        taken: int,
        payload: int,
        raw: int,
        wire: int,
        each: int,
        saturated: int,
        checksum: int,
    ) -> None:
        """Count a broadcast over all ``links`` of the sender, or (``links`` = 0) a frame sent over one link.

        ``key`` is that of its first link message. ``taken``: whether any link took it; if not, no transmission and none
        of its bits are counted. ``wire``: the bits that crossed in all; ``each``: those that crossed each of the links,
        0 where `link_bits` counts them apart.
        """
        self.link_messages += links or 1
        if taken:
            self.transmissions += 1
            self.payload_bits += payload
            self.raw_data_bits += raw
            self.wire_bits += wire
            self.saturated += saturated
            self._sent += _PACK(now, key, sender, links, 1, payload, raw, wire, each, saturated, checksum)
        else:
            self._sent += _PACK(now, key, sender, links, 0, 0, 0, 0, 0, 0, checksum)
        if len(self._sent) >= _BLOCK * SENT.itemsize:
            self._fold_sent()

    def link_bits(self, key: int, bits: int) -> None:
        """Count the bits that crossed one link."""
        self._slots("wire_bits")[key & _SLOT] += bits

    def delivered(self, times: Sequence[float], keys: Sequence[int]) -> None:
        """Count frames that reached an inbox: arrival times (s) and keys."""
        self.exits[DELIVERED] += len(times)
        self._times += times
        self._keys += keys
        if len(self._times) >= _BLOCK:
            self._fold_delivered()

    def dropped(self, time: float, key: int, cause: int) -> None:
        """Count a frame that ended otherwise."""
        self.exits[cause] += 1
        self._dropped.append((time, key, cause))
        if len(self._dropped) >= _BLOCK:
            self._fold_dropped()

    def duplicate(self, key: int) -> None:
        """Count a second copy."""
        self.duplicated += 1
        self._slots("duplicated")[key & _SLOT] += 1

    def totals(self) -> tuple[int, ...]:
        """Return the running totals, in the order of `TOTALS`."""
        return (
            self.transmissions,
            self.link_messages,
            self.duplicated,
            *self.exits,
            self.payload_bits,
            self.raw_data_bits,
            self.wire_bits,
            self.saturated,
        )

    def fold(self) -> None:
        """Bring the counts by sender, link and kind up to date."""
        self._fold_sent()
        self._fold_delivered()
        self._fold_dropped()

    # --- what its users call ------------------------------------------------------------------------------------------

    @property
    def trace_hash(self) -> str:
        """A hash of everything that happened so far, in order: the same for the same seed, with or without a trace."""
        self.fold()
        return self.recorder.hexdigest()

    def table(self, by: str | Sequence[str] = ("sender", "receiver", "kind")) -> "pd.DataFrame":
        """Return the counts of link messages, one row for each combination of ``by``.

        Parameters
        ----------
        by : sequence of {"sender", "receiver", "kind"}
            What to tell apart; the rest is summed.

        Returns
        -------
        DataFrame
            Columns ``by``, then ``offered``, ``duplicated``, each cause, ``in_flight`` and ``wire_bits``. offered +
            duplicated = the causes + in_flight, exactly. On a radio one transmission's wire bits belong to no link, so
            ``wire_bits`` is 0 here; see `senders_table`.
        """
        import pandas as pd

        names_by = [by] if isinstance(by, str) else by
        by = [check.one_of("by", name, ("sender", "receiver", "kind")) for name in names_by]
        self.fold()
        links = len(self.senders)
        link, kind = np.tile(np.arange(links), len(self.kinds)), np.repeat(np.arange(len(self.kinds)), links)
        names = np.empty(len(self.agents), dtype=object)
        names[:] = self.agents
        columns: dict[str, Any] = {
            "sender": names[self.senders[link]],
            "receiver": names[self.receivers[link]],
            "kind": np.array(list(self.kinds), dtype=object)[kind] if self.kinds else [],
        }
        counts = {name: self._slots(name) for name in ("offered", "duplicated", *CAUSES)}
        under_way = np.fromiter(self.in_flight(), np.int64) & _SLOT
        counts["in_flight"] = np.bincount(under_way, minlength=links * len(self.kinds))
        counts["wire_bits"] = self._slots("wire_bits")
        columns |= counts
        frame = pd.DataFrame(columns)
        frame = frame[frame["offered"] > 0]
        if not by:
            return frame[list(counts)].sum().to_frame().T
        return frame.groupby(by, sort=False, as_index=False)[list(counts)].sum()

    def senders_table(self) -> "pd.DataFrame":
        """Return what each agent sent.

        Columns: agent, kind, transmissions, payload_bits, raw_data_bits, wire_bits, saturated.
        """
        import pandas as pd

        self.fold()
        names = ("transmissions", "payload_bits", "raw_data_bits", "wire_bits", "saturated")
        agents = len(self.agents)
        columns: dict[str, Any] = {
            "agent": [self.agents[i % agents] for i in range(agents * len(self.kinds))],
            "kind": [kind for kind in self.kinds for _ in range(agents)],
        }
        frame = pd.DataFrame(columns | {name: self._senders(name) for name in names})
        return frame[frame["transmissions"] > 0].reset_index(drop=True)

    # --- folding ------------------------------------------------------------------------------------------------------

    def _grown(self, table: dict[str, Counts], name: str, width: int) -> Counts:
        size = width * len(self.kinds)
        counts = table.get(name)
        if counts is None:
            counts = table[name] = np.zeros(size, dtype=np.int64)
        elif len(counts) < size:
            counts = table[name] = np.concatenate([counts, np.zeros(size - len(counts), dtype=np.int64)])
        return counts

    def _slots(self, name: str) -> Counts:
        return self._grown(self._by_slot, name, len(self.senders))

    def _senders(self, name: str) -> Counts:
        return self._grown(self._by_sender, name, len(self.agents))

    def _fold_sent(self) -> None:
        if not self._sent:
            return
        records = np.frombuffer(bytes(self._sent), dtype=SENT)
        self._sent.clear()
        self.recorder.add("sent", records)
        links, agents = len(self.senders), len(self.agents)
        slots = records["key"] & _SLOT
        kinds = slots // links
        who = kinds * agents + records["sender"]
        for name, column in (
            ("transmissions", "taken"),
            *((n, n) for n in ("payload_bits", "raw_data_bits", "wire_bits", "saturated")),
        ):
            np.add.at(self._senders(name), who, records[column])
        to_one = records["links"] == 0
        for name, values in (("offered", np.ones(len(records), dtype=np.int64)), ("wire_bits", records["each"])):
            counts = self._slots(name)
            np.add.at(counts, slots[to_one], values[to_one])
            by_sender = np.zeros(agents * len(self.kinds), dtype=np.int64)
            np.add.at(by_sender, who[~to_one], values[~to_one])
            for kind in np.unique(kinds[~to_one]):
                counts[kind * links : (kind + 1) * links] += by_sender[kind * agents :][self.senders]

    def _fold_delivered(self) -> None:
        if not self._times:
            return
        records = np.empty(len(self._times), dtype=EXIT)
        # By way of arrays, which take a list of numbers faster than numpy does.
        records["time"], records["key"], records["cause"] = array("d", self._times), array("q", self._keys), DELIVERED
        self._times.clear()
        self._keys.clear()
        self.recorder.add("delivered", records)
        self._count(records["key"] & _SLOT, "delivered")

    def _fold_dropped(self) -> None:
        if not self._dropped:
            return
        records = np.array(self._dropped, dtype=EXIT)
        self._dropped.clear()
        self.recorder.add("dropped", records)
        for cause in np.unique(records["cause"]):
            self._count(records["key"][records["cause"] == cause] & _SLOT, CAUSES[cause])

    def _count(self, slots: Counts, name: str) -> None:
        counts = self._slots(name)
        found = np.bincount(slots)
        counts[: len(found)] += found
