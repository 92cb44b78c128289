"""The ledger: tables of all frames offered to links, their outcomes and their bits."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.accounting.captions import Captions
from netsim.accounting.hearings import Hearings
from netsim.accounting.run_metadata import RunMetadata
from netsim.accounting.trace import STREAMS, Trace
from netsim.core.records import ALL_CAUSES, CAUSES, IN_FLIGHT, SUMMED, as_column
from netsim.core.tally import Tally, trace_hash
from netsim.util import check
from netsim.util.draws import Keys

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Ledger"]

Counts = NDArray[np.int64]

_NOT_SENT = frozenset({"refused", "queue_full", "access_failed"})
"""Outcomes of frames that were never sent, and are therefore not counted in the quality of a link."""


@dataclass(eq=False, repr=False)
class Ledger:
    """Counts of one run's frames, by sender, link, kind of message and cause (the outcome, such as "delivered").

    Parameters
    ----------
    agents : sequence
        The agents' names.
    senders, receivers : int arrays, shape (links,)
        The indices of the agents at the ends of each directed link; links are sorted by sender.
    agent_keys : uint64 array, shape (agents,)
        The 64-bit hash of each agent's name.
    tally : Tally
        Counts the frames; the ledger makes its tables from these counts.
    more : sequence of str
        The causes of `netsim.core.records.ALL_CAUSES` that are possible in this run, but not in `CAUSES`.
    on_wires : bool
        Whether wire bits are counted per link. On a radio they are not, because one transmission serves all links.

    Attributes
    ----------
    causes : tuple of str
        The causes that are possible in this run, in the order of ``exits``.
    marks : list of (int, array, array)
        Snapshots of the frames delivered and lost per link. `mark` adds one when row 32, 64, 128, … of the run's
        results is written, and keeps the latest two. A snapshot holds the round's number and the two arrays of `heard`.
    """

    agents: Sequence[Hashable]
    senders: Counts
    receivers: Counts
    _agent_keys: Keys
    tally: Tally
    more: InitVar[Sequence[str]] = ()
    on_wires: bool = field(default=True, kw_only=True)
    marks: list[tuple[int, Counts, Counts]] = field(default_factory=list, init=False)
    scene: RunMetadata | None = field(default=None, init=False)
    """The run's round period, end time, medium and node positions; set by the runtime."""
    captions: Captions | None = field(default=None, init=False)
    """The agents' labels and notes, if the run has a trace or a live view; set by the runtime."""
    hearings: Hearings | None = field(default=None, init=False)
    """The frames that the agents received, if the run keeps them; set by the runtime."""
    in_flight: Callable[[], Iterable[tuple[int, int]]] = field(default=tuple, init=False)
    """Yields the key (link and transmission number) and the kind id of each link message in flight."""

    def __post_init__(self, more: Sequence[str]) -> None:
        self.causes = (*CAUSES, *more)
        self.keeps_trace = self.tally.keeps
        """Whether the event log is kept for `trace`; False if it only feeds a live view."""

    @property
    def exits(self) -> list[int]:
        """The number of link messages so far with each outcome, in the order of ``causes``."""
        exits = self.tally.exits
        return [*exits[: len(CAUSES)], *(exits[ALL_CAUSES.index(each)] for each in self.causes[len(CAUSES) :])]

    @property
    def transmissions(self) -> int:
        """The number of transmissions so far."""
        return self._total("transmissions")

    @property
    def link_messages(self) -> int:
        """The number of offered link messages so far."""
        return self.tally.link_messages

    @property
    def duplicated(self) -> int:
        """The number of duplicates that links have made so far."""
        return self.tally.duplicated

    @property
    def payload_bits(self) -> int:
        """The number of payload bits sent so far (docs/counting.md)."""
        return self._total("payload_bits")

    @property
    def raw_data_bits(self) -> int:
        """The number of raw-data bits sent so far (docs/counting.md)."""
        return self._total("raw_data_bits")

    @property
    def wire_bits(self) -> int:
        """The number of wire bits sent so far (docs/counting.md)."""
        return self._total("wire_bits")

    @property
    def saturated(self) -> int:
        """The number of array elements clipped to a quantizer's fixed range so far."""
        return self._total("saturated")

    def _total(self, column: str) -> int:
        return dict(zip(SUMMED, self.tally.totals, strict=True))[column]

    def totals(self) -> tuple[int, ...]:
        """Return the running totals in the order of ``netsim.core.records.totals_of(self.causes)``."""
        first, *others = self.tally.totals
        return (first, self.tally.link_messages, self.tally.duplicated, *self.exits, *others)

    @property
    def trace_hash(self) -> str:
        """A hash of all events so far, also available without a trace; runs with equal seeds have equal hashes."""
        return trace_hash(self._agent_keys, self.senders, self.receivers, self.tally.sums)

    def trace(self, on_air: Mapping[str, Any] | None = None) -> Trace | None:
        """Return the event log, with the records ``on_air`` of a `netsim.Radio`; None if the log was not kept."""
        records = self.tally.records() if self.keeps_trace else None
        if records is None:
            return None
        records["in_flight"] = np.array(list(self.in_flight()), dtype=IN_FLIGHT)
        records |= on_air or {}
        texts: list[str] = []
        if self.captions is not None:
            texts, *said = self.captions.arranged()
            records |= {name: each for name, each in zip(("labels", "notes"), said, strict=True) if len(each)}
        return self.excerpt(records, self.scene, texts)

    def excerpt(self, records: Mapping[str, Any], scene: RunMetadata | None, texts: Sequence[str] = ()) -> Trace:
        """Return records as an event log; missing types of records are empty."""
        records = {name: np.empty(0, dtype) for name, dtype in STREAMS.items()} | dict(records)
        ends, kinds = (self.senders, self.receivers), list(self.tally.kinds)
        return Trace(records, self.agents, kinds, self._agent_keys, *ends, scene, texts)

    def heard(self) -> tuple[Counts, Counts]:
        """Return the numbers of frames delivered and of frames sent but not delivered, shape (links,) each."""
        ended = dict(zip(self.causes, self.exits, strict=True))
        none = np.zeros(len(self.senders), dtype=np.int64)
        # `by_link` allocates a table, so it is not called for causes that never occurred.
        counts = {name: self.tally.by_link(name).sum(axis=0) for name, count in ended.items() if count}
        delivered = counts.pop("delivered", none)
        return delivered, sum((each for name, each in counts.items() if name not in _NOT_SENT), none)

    def mark(self, row: int, number: int) -> None:
        """If ``row`` is 32, 64, 128, …, append the result of `heard` to ``marks``, with the round's ``number``."""
        if row >= 32 and row.bit_count() == 1:
            self.marks = [*self.marks[-1:], (number, *self.heard())]

    def table(self, by: str | Sequence[str] = ("sender", "receiver", "kind")) -> "pd.DataFrame":
        """Return the counts of link messages, one row for each combination of values in the columns ``by``.

        Parameters
        ----------
        by : sequence of {"sender", "receiver", "kind"}
            The columns that identify a row; counts are summed over the others.

        Returns
        -------
        DataFrame
            The columns named in ``by``, then ``offered``, ``duplicated``, each cause, ``in_flight`` and, on wires,
            ``wire_bits``. In every row, offered + duplicated equals the sum of the causes plus in_flight, exactly. Rows
            are sorted by the first column of ``by``, then by the next: agents in the order of the graph, kinds by their
            text. On a radio one transmission serves many links, so links have no ``wire_bits``: see `senders_table`.
        """
        import pandas as pd

        names_by = [by] if isinstance(by, str) else by
        by = [check.one_of("by", name, ("sender", "receiver", "kind")) for name in names_by]
        counts = self._by_link()
        kind, link = np.nonzero(counts["offered"])
        names = as_column(self.agents)
        ends = {"sender": self.senders[link], "receiver": self.receivers[link], "kind": self._kind_ranks()[kind]}
        if by:
            order = np.lexsort([ends[name] for name in reversed(by)])
            kind, link = kind[order], link[order]
        columns: dict[str, Any] = {
            "sender": names[self.senders[link]],
            "receiver": names[self.receivers[link]],
            "kind": as_column(self.tally.kinds)[kind],
        }
        frame = pd.DataFrame(columns | {name: table[kind, link] for name, table in counts.items()})
        if not by:
            return frame[list(counts)].sum().to_frame().T
        if len({*by}) == 3:
            # With all three columns, each row has its own combination, so there is nothing to sum.
            return frame[[*by, *counts]].infer_objects()
        return frame.groupby(by, sort=False, as_index=False)[list(counts)].sum()

    def senders_table(self) -> "pd.DataFrame":
        """Return the transmissions and bits of each agent.

        Columns: agent, kind, transmissions, payload_bits, raw_data_bits, wire_bits, saturated. Rows are sorted by
        agent, as in the graph, and then by the text of the kind.
        """
        import pandas as pd

        counts = {name: self.tally.by_sender(name) for name in SUMMED}
        # Acknowledgements on a shared medium have wire bits, but are not transmissions.
        kind, agent = np.nonzero(counts["transmissions"] + counts["wire_bits"])
        order = np.lexsort((self._kind_ranks()[kind], agent))
        kind, agent = kind[order], agent[order]
        columns: dict[str, Any] = {
            "agent": as_column(self.agents)[agent].tolist(),
            "kind": as_column(self.tally.kinds)[kind].tolist(),
        }
        return pd.DataFrame(columns | {name: table[kind, agent] for name, table in counts.items()})

    def _kind_ranks(self) -> Counts:
        """Return each kind's rank by its text, shape (kinds,).

        Tables are sorted by these ranks, because the ids of kinds depend on the number of workers.
        """
        return np.unique(np.array(list(self.tally.kinds), dtype=object), return_inverse=True)[1]

    def _by_link(self) -> dict[str, Counts]:
        """Return all count columns of `table` as arrays of shape (kinds, links)."""
        tally = self.tally
        counts = {name: tally.by_link(name) for name in ("offered", "duplicated", *self.causes)}
        counts["offered"] = counts["offered"] + tally.to_all("offered")[:, self.senders]
        in_flight = np.zeros_like(counts["offered"])
        for key, kind in self.in_flight():
            in_flight[kind, key >> tally.shift] += 1
        counts["in_flight"] = in_flight
        if self.on_wires:
            counts["wire_bits"] = tally.by_link("wire_bits") + tally.to_all("wire_bits")[:, self.senders]
        return counts
