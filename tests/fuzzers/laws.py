"""Laws that every run's tables obey; `tests.fuzzers.messages` compares them with the agents' records."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pandas as pd

from netsim import Link, Network, Radio, Run
from netsim.core.records import totals_of
from netsim.faults import LinkChange
from tests.fuzzers.agents import Noting

NEVER_SENT = ["refused", "queue_full", "link_down"]
TINY = 1e-9
Row = dict[str, Any]


def rows_of(table: pd.DataFrame) -> list[Row]:
    """Return the rows of a table as dictionaries."""
    columns = [table[name].tolist() for name in table]
    return [dict(zip(table.columns, row, strict=True)) for row in zip(*columns, strict=True)]


@dataclass
class Played:
    """A finished run of a network, with its agents, and with its tables as rows."""

    network: Network
    agents: Mapping[Any, Noting]
    run: Run
    until: float | None
    has_trace: bool

    def __post_init__(self) -> None:
        self.links = rows_of(self.run.ledger.table())
        self.senders = rows_of(self.run.ledger.senders_table())
        self.rounds = rows_of(self.run.rounds)
        self.causes = self.run.ledger.causes
        self.ends = [*self.causes, "in_flight"]
        self.totals = dict(zip(totals_of(self.causes), self.run.ledger.totals(), strict=True))
        self.trace = rows_of(self.run.trace.table()) if self.has_trace else []
        self.sent = [row for row in self.trace if row["event"] == "sent"]
        self.ended = [row for row in self.trace if row["event"] != "sent"]

    @property
    def damages(self) -> bool:
        """Return whether faults or links may change the content of delivered frames."""
        links = (self.network.link, *self.network.links.values())
        changed = any(isinstance(fault, LinkChange) and (fault.corrupt or fault.crc is False) for fault in self.changes)
        return changed or any(link.corrupt and not link.crc for link in links)

    @property
    def changes(self) -> list[LinkChange]:
        """Return the scheduled changes of links during the run."""
        return [fault for fault in self.network.faults if isinstance(fault, LinkChange)]

    def link_ever(self, sender: Hashable, receiver: Hashable) -> list[Link]:
        """Return a link's settings initially and after each of its changes."""
        first = self.link(sender, receiver)
        changes = [fault for fault in self.changes if (sender, receiver) in fault.links_in(self.network.graph)]
        return [first, *(replace(first, **fault.settings) for fault in changes)]

    def link(self, sender: Hashable, receiver: Hashable) -> Link:
        """Return a link's initial settings."""
        return self.network.links.get((sender, receiver), self.network.link)


@contextmanager
def looking_at_each_row() -> Iterator[None]:
    """Read all counts and the trace hash whenever a round's row is written."""
    add_row = Run.add_row

    def look(run: Run, *row: Any) -> None:
        assert len(run.trace_hash) == len(run.ledger.trace_hash)
        run.ledger.table()
        add_row(run, *row)
        assert (
            run.ledger.table(["kind"])["offered"].sum()
            == run.ledger.totals()[totals_of(run.ledger.causes).index("link_messages")]
        )
        assert run.trace_hash == run.ledger.trace_hash

    with mock.patch.object(Run, "add_row", look):
        yield


def check_books(played: Played) -> None:
    """Check the tables of one run with a trace."""
    assert played.until is None or played.run.ended_at <= played.until
    frames_are_conserved(played)
    totals_are_sums(played)
    trace_tells_the_same(played)
    rounds_close_on_time(played)


def check_same(one: Played, other: Played) -> None:
    """Check that two runs are equal, even if their probes differ."""
    assert one.run.trace_hash == other.run.trace_hash
    assert one.links == other.links
    assert one.senders == other.senders

    def measured(played: Played) -> list[Row]:
        return [{k: v for k, v in row.items() if not k.startswith("probe_")} for row in played.rounds]

    assert measured(one) == measured(other)
    for node, agent in one.agents.items():
        assert repr(agent.notes) == repr(other.agents[node].notes), f"agent {node!r} noted something else"


def frames_are_conserved(played: Played) -> None:
    """Law 3, conservation of frames: check it for every link and kind."""
    for row in played.links:
        assert all(count >= 0 for name, count in row.items() if name not in ("sender", "receiver", "kind")), row
        assert row["offered"] + row["duplicated"] == sum(row[end] for end in played.ends), row


def totals_are_sums(played: Played) -> None:
    """Check that the running totals are the sums of every table."""
    totals, ledger = played.totals, played.run.ledger
    sums: Counter[str] = Counter()
    for row in played.links:
        for name in ("offered", "duplicated", *played.ends):
            sums[name] += row[name]
        # On a radio, links have no wire bits of their own.
        sums["wire_bits"] += row.get("wire_bits", 0)
    assert {name: totals[name] for name in (*played.causes, "duplicated")} == {
        n: sums[n] for n in (*played.causes, "duplicated")
    }
    assert totals["link_messages"] == sums["offered"]
    for name in ("transmissions", "payload_bits", "raw_data_bits", "wire_bits", "saturated"):
        assert totals[name] == sum(row[name] for row in played.senders), name
    assert sums["wire_bits"] == (0 if played.network.medium != "wires" else totals["wire_bits"])
    for by in (["kind"], "receiver", []):
        table = ledger.table(by)
        assert table[["offered", *played.ends]].sum().tolist() == [sums[name] for name in ("offered", *played.ends)], by


def trace_tells_the_same(played: Played) -> None:
    """Check that the trace is ordered, and that its events are those that the ledger counts."""
    times = [row["time_s"] for row in played.trace]
    assert times == sorted(times)
    assert played.run.trace.hash == played.run.trace_hash
    found = Counter((row["sender"], row["receiver"], row["kind"], row["event"]) for row in played.ended)
    assert found == {
        (r["sender"], r["receiver"], r["kind"], c): r[c] for r in played.links for c in played.causes if r[c]
    }
    bits: Counter[Any] = Counter()
    for row in played.sent:
        for name in ("payload_bits", "wire_bits"):
            bits[row["sender"], row["kind"], name] += row[name]
    # A shared medium counts wire bits while frames are on the air, not per link.
    names = ["payload_bits", "wire_bits"][: 1 if isinstance(played.network.medium, Radio) else 2]
    for row in played.senders:
        for name in names:
            assert bits[row["agent"], row["kind"], name] == row[name], row


def rounds_close_on_time(played: Played) -> None:
    """Check that row k closes at time k × period, and counts everything until then."""
    period = played.network.round_period
    for row, following in zip(played.rounds, [*played.rounds[1:], played.totals], strict=False):
        assert row["time_s"] == row["round"] * period
        assert "round" not in following or following["round"] > row["round"]
        assert all(row[name] <= following[name] for name in totals_of(played.causes)), (row, following)
        before = Counter(e["event"] for e in played.trace if e["time_s"] < row["time_s"] * (1 - TINY))
        until = Counter(e["event"] for e in played.trace if e["time_s"] <= row["time_s"] * (1 + TINY))
        assert all(before[cause] <= row[cause] for cause in played.causes), (row, before)
        # A loss may be counted before the frame would have arrived; an arrival may not be counted early.
        assert all(row[cause] <= until[cause] for cause in ("delivered", "late")), (row, until)
