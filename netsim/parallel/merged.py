"""Add up the counts of a run's workers, so that the ledger equals that of a run in one process."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.accounting.captions import Captions
from netsim.accounting.hearings import Hearings
from netsim.accounting.ledger import Ledger
from netsim.accounting.run_metadata import RunMetadata, positions_of
from netsim.core.records import ALL_CAUSES, KEPT, ROUTING_CAUSES, SUMMED
from netsim.core.tally import Tally
from netsim.engine.build import Settings, ends_of_links
from netsim.run import Run
from netsim.util import draws

if TYPE_CHECKING:
    from netsim.engine.runtime import Runtime

__all__ = ["MergedTally", "counts_of", "empty_ledger", "merge"]

Counts = dict[str, Any]


def counts_of(run: "Runtime", first_uses: Mapping[str, tuple[float, int, int]]) -> Counts:
    """Return a worker's counts, and when it first used each kind of message, as values that can be pickled."""
    tally, ledger = run.shared.tally, run.ledger
    ended = [name for name, count in zip(ALL_CAUSES, tally.exits, strict=True) if count]
    if tally.duplicated:
        ended.append("duplicated")
    tables = {name: _sparse(tally.by_link(name)) for name in (*ended, "offered", "wire_bits")}
    tables |= {f"sender {name}": _sparse(tally.by_sender(name)) for name in SUMMED}
    tables |= {f"all {name}": _sparse(tally.to_all(name)) for name in ("offered", "wire_bits")}
    return {
        "kinds": list(tally.kinds),
        "first_uses": dict(first_uses),
        "exits": list(tally.exits),
        "totals": list(tally.totals),
        "messages": (tally.link_messages, tally.duplicated),
        "sums": np.array(tally.sums),
        "tables": tables,
        "records": tally.records() if ledger.keeps_trace else None,
        "in_flight": list(ledger.in_flight()),
        "marks": ledger.marks,
        "last_round": 0 if run.node is None else run.node.last_round(),
        "ended_at": run.result.ended_at,
        "captions": None if ledger.captions is None else ledger.captions.arranged(),
        "hearings": () if ledger.hearings is None else ledger.hearings.entries,
        "faults": run.injector.record.spans,
        "changes": None if run.result.watch is None else run.result.watch.packed(),
    }


def _sparse(table: Any) -> tuple[Any, Any, Any]:
    kinds, columns = np.nonzero(table)
    return kinds.astype(np.int32), columns.astype(np.int32), table[kinds, columns]


class MergedTally(Tally):
    """A tally that adds up the counts of workers."""

    def take_in(self, parts: Sequence[Counts]) -> None:
        """Add the counts of all workers.

        Workers number the kinds of message differently, so kinds are renumbered by their first use in the whole run.
        """
        first: dict[str, tuple[float, int, int]] = {}
        for part in parts:
            for name, use in part["first_uses"].items():
                first[name] = min(use, first.get(name, use))
        for name in sorted(first, key=first.__getitem__):
            self.kind(name)
        for part in parts:
            ids = np.array([self.kind(name) for name in part["kinds"]], dtype=np.int64)
            self.exits = [sum(each) for each in zip(self.exits, part["exits"], strict=True)]
            self._totals = {
                name: total + more for (name, total), more in zip(self._totals.items(), part["totals"], strict=True)
            }
            self.link_messages += part["messages"][0]
            self.duplicated += part["messages"][1]
            self._sums += part["sums"]
            for name, (kinds, columns, values) in part["tables"].items():
                if len(values):
                    np.add.at(self._table(name), (ids[kinds], columns), values)
            for name, records in (part["records"] or {}).items():
                if "kind" in (KEPT[name].names or ()):
                    records = records.copy()
                    records["kind"] = ids[records["kind"]] if len(records) else records["kind"]
                self._kept[name] += records.tobytes()


def empty_ledger(settings: Settings, names: Sequence[Hashable]) -> Ledger:
    """Return an empty ledger for the whole network."""
    senders, receivers, _ = ends_of_links({name: tuple(settings.graph[name]) for name in names})
    name_keys = np.array([draws.name_key(name) for name in names], dtype=np.uint64)
    tally = MergedTally(name_keys, draws.link_keys(name_keys[senders], name_keys[receivers]), settings.trace)
    causes = () if settings.routes is None else ROUTING_CAUSES
    return Ledger(names, senders, receivers, name_keys, tally, causes, on_wires=settings.medium == "wires")


def merge(settings: Settings, result: Run, parts: Sequence[Counts]) -> None:
    """Add the counts of all workers to a run's ledger, and merge the run's other results, such as watched values."""
    ledger = result.ledger
    tally = ledger.tally
    assert isinstance(tally, MergedTally)
    tally.take_in(parts)
    result.ended_at = max((part["ended_at"] for part in parts), default=0.0)
    ledger.in_flight = partial(iter, _in_flight(ledger, parts))
    ledger.marks = _marks(parts)
    if result.watch is not None:
        for part in parts:
            result.watch.learn(part["changes"], result.ended_at)
        result.watch.arrange()
    if settings.deliveries:
        ledger.hearings = Hearings()
        for part in parts:
            ledger.hearings.learn(part["hearings"], result.ended_at)
    if ledger.keeps_trace:
        medium, places = str(settings.medium), positions_of(settings.graph, result.agents)
        # With compute times, rounds may differ in length; `RunMetadata.rounds` is then 0 instead of the last round.
        last = max((part["last_round"] for part in parts), default=0) if settings.compute is None else 0
        # Each worker records the faults of all agents, but only until it ends: use the most complete record.
        found: list[list[dict[str, Any]]] = [part["faults"] for part in parts]
        faults = max(found, key=_known, default=[])
        drawn = {} if result.watch is None else result.watch.drawn_as
        ledger.scene = RunMetadata(
            settings.round_period, result.ended_at, medium, places, last, faults=faults, draw=drawn
        )
        ledger.captions = Captions()
        for part in parts:
            if part["captions"] is not None:
                ledger.captions.learn(part["captions"], result.ended_at)


def _known(faults: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return how many faults a worker has recorded, and how many of them have ended."""
    return len(faults), sum(each["end"] is not None for each in faults)


def _in_flight(ledger: Ledger, parts: Iterable[Counts]) -> list[tuple[int, int]]:
    """Return (key, kind) of each frame in flight in any worker, sorted by receiver."""
    found = []
    for part in parts:
        ids = [ledger.tally.kind(name) for name in part["kinds"]]
        found += [(key, ids[kind]) for key, kind in part["in_flight"]]
    return sorted(found, key=lambda each: int(ledger.receivers[each[0] >> ledger.tally.shift]))


def _marks(parts: Sequence[Counts]) -> list[tuple[int, Any, Any]]:
    """Sum the workers' `Ledger.marks` row by row; drop rows that a worker lacks because it ended early."""
    sums: dict[int, list[Any]] = {}
    for part in parts:
        for number, delivered, other in part["marks"]:
            sums.setdefault(number, []).append((delivered, other))
    return [
        (number, sum(each[0] for each in found), sum(each[1] for each in found))
        for number, found in sorted(sums.items())
        if len(found) == len(parts)
    ]
