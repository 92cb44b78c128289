"""The parts of a run, from the processes that ran them, put together: one ledger, one trace, the rows that it has.

What was sent to another process and never seen there is *missing*; what a killed process took with it, too.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from netsim.accounting.scene import Scene, positions_of
from netsim.agent import Agent
from netsim.clock.clock import Loop, new_loop
from netsim.core.records import CAUSES, CORRUPTED, MISSING, TO_ALL, Transmission
from netsim.distributed.journal import (
    ARRAY,
    BEGIN,
    CHANGES,
    END,
    KINDS,
    RECORDS,
    ROW,
    STATE,
    Records,
    entries,
    records_of,
)
from netsim.distributed.node import mark_of
from netsim.distributed.states import StateReader
from netsim.engine.build import Settings, build
from netsim.engine.runtime import Runtime
from netsim.errors import BadInput, NetsimError, one_line
from netsim.run import Probe, Run
from netsim.util import check

__all__ = ["MergedRun", "Part", "merge_parts", "merge_run"]


# Real seconds by which a process may differ from an earlier one about when a run began.
_AT_ONCE = 1.0
# Bits and numbers of one event.
_MOST = 1 << 53


@dataclass
class Part:
    """What one process wrote of a run."""

    path: Path
    # What it wrote of itself at the beginning and at the end; no end: it was killed.
    begin: dict[str, Any] = field(default_factory=dict)
    end: dict[str, Any] = field(default_factory=dict)
    # Kinds of message by its numbers.
    kinds: list[str] = field(default_factory=list)
    # The entries up to each row, and the row's number: infinite for what came after the last.
    pieces: list[tuple[float, list[tuple[int, Any]]]] = field(default_factory=list)
    # Number, time (s), whether agents there took part.
    rows: list[tuple[int, float, bool]] = field(default_factory=list)

    @property
    def host(self) -> str:
        """The name of the process."""
        return str(self.begin["host"])


@dataclass(frozen=True)
class MergedRun:
    """A run as a simulation would leave it, and the parts of which it was put together."""

    run: Run
    parts: list[Part]

    @property
    def killed(self) -> list[str]:
        """The processes a part of which has no end."""
        return sorted({part.host for part in self.parts if not part.end})

    @property
    def failed(self) -> dict[str, str]:
        """Why processes ended in an error, by their names."""
        return {part.host: part.end["why"] for part in self.parts if part.end.get("why")}


def merge_parts(
    network: Any,
    agents: Mapping[Any, Agent],
    folder: str | Path,
    probes: Sequence[Probe] = (),
    *,
    run: int = 0,
    trace: bool = False,
) -> Run:
    """Put together what the processes of a run wrote into their transports' ``folder``.

    Parameters
    ----------
    network : Network
        As it was in every process; what it is to watch was watched there.
    agents : mapping
        {node: Agent}, made as they were made there. Each is given the state that it came to: all that it holds is
        another object then, so probes, and what reads the run, may read only the agents.
    folder : str or Path
        Where the journals of all processes are.
    probes : sequence of callables
        As in `netsim.Network.run`; the processes must have been given some, too, for states to be there for each row.
    run : int
        Which of the processes' runs, from 0.
    trace : bool
        Whether to keep the event log.

    Returns
    -------
    Run
        As a simulation would leave it; the ledger has one column more, ``missing``.

    Raises
    ------
    BadInput
        If there are no such journals, or they are of another network.
    NetsimError
        If a journal cannot be read.
    """
    number = check.integer("run", run, low=0)
    result = network.result_of(agents, probes, None)
    return merge_run(replace(network.settings, trace=trace), result, Path(folder), number).run


def merge_run(settings: Settings, result: Run, folder: Path, run: int) -> MergedRun:
    """Put a run together; see `merge_parts`."""
    try:
        return _merged(settings, result, folder, run)
    except NetsimError:
        raise
    except Exception as error:
        # A file that somebody has written by hand can make much fail; what it means here is one.
        why = f"{type(error).__name__}: {one_line(error)}"
        raise NetsimError(f"folder = {str(folder)!r}: must hold what the processes of a run wrote ({why})") from error


def _merged(settings: Settings, result: Run, folder: Path, run: int) -> MergedRun:
    written = [_read(path) for path in sorted((folder / f"run-{run}").glob("*.journal"))]
    parts = [part for part in written if "joined" in part.begin]
    if not parts:
        raise BadInput(f"folder = {str(folder)!r}: must hold what processes wrote of run {run}; there is none")
    hosts: list[str] = parts[0].begin["hosts"]
    for part in parts:
        places = dict(zip(result.agents, part.begin["places"], strict=False))
        if len(places) < len(result.agents) or part.begin["mark"] != mark_of(settings, result.agents, places):
            raise BadInput(f"file = {str(part.path)!r}: must be of this network and these agents; it is of others")
    if absent := [host for host in hosts if host not in {part.host for part in parts}]:
        raise BadInput(
            f"folder = {str(folder)!r}: must hold what all processes wrote of run {run}; not {absent[0]!r}'s"
        )
    _must_have_met(folder, written)
    for host in hosts:
        # By its own clock a process that begins again finds the others' run to have begun when it did.
        begun = [part.begin["epoch"] for part in parts if part.host == host]
        if max(begun) - min(begun) > _AT_ONCE:
            raise BadInput(
                f"folder = {str(folder)!r}: must hold what was written of one run {run}; {host!r} has written of two, "
                "which began at different times: give each deployment a folder of its own"
            )
    return _Merger(settings, result, parts).merge()


def _must_have_met(folder: Path, written: Sequence[Part]) -> None:
    """Raise BadInput unless each part is there once, with those of the processes that it was run with."""
    there: dict[tuple[str, int], Path] = {}
    for part in (part for part in written if part.begin):
        who = part.host, part.begin["incarnation"]
        if who in there:
            raise BadInput(f"file = {str(part.path)!r}: must be there once; {there[who].name} is the same part")
        there[who] = part.path
    for part in written:
        for other in part.begin.get("met", {}).items():
            if other not in there:
                raise BadInput(
                    f"folder = {str(folder)!r}: must hold what was written of one run; {part.host!r} ran with another "
                    f"process {other[0]!r} than the one that wrote what is there"
                )


def _read(path: Path) -> Part:
    """Read a journal."""
    part, piece = Part(path), list[tuple[int, Any]]()
    for what, content in entries(path):
        if what == BEGIN:
            part.begin |= content
        elif what == END:
            part.end = content
        elif what == KINDS:
            part.kinds += content
        elif what == ROW:
            number, time, took_part = content
            part.rows.append((number, time, took_part))
            part.pieces.append((number, piece))
            piece = []
        else:
            piece.append((what, content))
    # What came after its last row is of the next one, if the others had one more.
    part.pieces.append((part.rows[-1][0] + 1 if part.rows else -math.inf, piece))
    return part


class _Merger:
    """Puts parts together, row by row."""

    def __init__(self, settings: Settings, result: Run, parts: list[Part]) -> None:
        self._settings, self._result, self._parts = settings, result, parts
        self._loop: Loop = new_loop()
        self._built = Runtime(replace(settings, viewer=None), result)
        build(self._built, self._loop, merged=True)
        self._ledger = self._built.ledger
        self._tally = self._ledger.tally
        self._names = list(result.agents)
        self._links_of = [np.flatnonzero(self._ledger.senders == i).tolist() for i in range(len(self._names))]
        self._states = StateReader(result.agents)
        self._read = {id(part): 0 for part in parts}
        ends = [part.end["end"] for part in parts if part.end and not part.end["why"]]
        self._end = max(ends or [part.end["end"] for part in parts if part.end] or [_last_time(parts)])
        self._in_flight: list[tuple[int, int]] = []
        # Ends that are known, by key; and transmissions after the end, by sender and number, which count for nothing.
        self._known: set[int] = set()
        self._after: set[tuple[int, int]] = set()
        self._numbers = (1 << self._tally.shift) - 1

    def merge(self) -> MergedRun:
        """Return the run."""
        self._result.sampled = any(part.begin["sampled"] for part in self._parts)
        try:
            for part, records in self._records():
                self._check(part, records)
            self._number_kinds()
            self._find_ends()
            rows = list(self._rows())
            for number, time in rows:
                self._apply_all(number)
                self._write_row(number, time)
            self._apply_all(math.inf)
            last = max((time for _, time in rows), default=-math.inf)
            if self._end > last and self._result.sampled:
                # The run's end comes between two samples.
                self._write_row(len(rows) + 1, self._end)
        finally:
            self._loop.close()
        for shared in self._built.all_shared:
            shared.begun = True
        self._ledger.in_flight = partial(iter, self._in_flight)
        self._result.ended_at = self._end
        if self._ledger.keeps_trace:
            places = positions_of(self._settings.graph, self._names)
            medium, last_round = str(self._settings.medium), self._last_round([number for number, _ in rows])
            self._ledger.scene = Scene(self._settings.round_period, self._end, medium, places, last_round)
        return MergedRun(self._result, self._parts)

    def _apply_all(self, number: float) -> None:
        for part in self._parts:
            self._apply(part, number)

    def _write_row(self, number: int, time: float) -> None:
        self._loop.clock.wait(time)
        totals = self._ledger.totals()
        try:
            self._result.add_row(number, time, totals)
        except NetsimError:
            if all(part.end and not part.end["why"] for part in self._parts):
                raise
            # A probe cannot do with agents that a process has taken with it before they came to anything.
            self._result.add_row(number, time, totals, measure=False)

    def _rows(self) -> Iterator[tuple[int, float]]:
        """Yield the rows in which agents anywhere took part."""
        rows = {(number, time) for part in self._parts for number, time, took_part in part.rows if took_part}
        yield from sorted(row for row in rows if row[1] <= math.nextafter(self._end, math.inf))

    def _records(self) -> Iterator[tuple[Part, Records]]:
        for part in self._parts:
            for _, piece in part.pieces:
                for what, content in piece:
                    if what == RECORDS:
                        yield part, records_of(content)

    def _last_round(self, rows: list[int]) -> int:
        """Return the last round in which agents took part, as far as rows or what they sent tell; 0: none."""
        sent: list[int] = [records["details"]["round"].max(initial=0).item() for _, records in self._records()]
        last: int = max([0, *sent, *(rows if not self._result.sampled else ())])
        return last

    def _check(self, part: Part, records: Records) -> None:
        """Raise NetsimError unless events are of this network: what counts them takes every number as a place."""
        sent, exits, details, left = (records[name] for name in ("sent", "exits", "details", "left"))
        flight = np.array([each[:2] for each in part.end.get("in_flight", ())], dtype=np.int64).reshape(-1, 2)
        keys, kinds = (np.concatenate([exits[name], flight[:, i]]) for i, name in enumerate(("key", "kind")))
        links, agents, count = len(self._ledger.senders), len(self._names), len(part.kinds)
        amounts = [sent[name] for name in ("number", "payload_bits", "raw_data_bits", "wire_bits", "saturated", "each")]
        within: list[tuple[Any, int, int]] = [
            *((each, 0, _MOST) for each in (*amounts, left["bits"], left["number"], sent["checksum"])),
            *((each >> self._tally.shift, 0, links) for each in (keys, left["key"])),
            *((each, 0, count) for each in (kinds, sent["kind"])),
            (sent["sender"], 0, agents),
            (sent["link"], TO_ALL, links),
            (sent["taken"], 0, 2),
            (exits["cause"], 0, len(CAUSES)),
        ]
        times = (sent["time"], exits["time"], left["time"])
        if (
            len(sent) != len(details)
            or any(((each < low) | (each >= high)).any() for each, low, high in within)
            or not all(np.isfinite(each).all() for each in times)
        ):
            raise NetsimError(f"file = {str(part.path)!r}: must tell of this network's agents and links; it does not")

    def _number_kinds(self) -> None:
        """Number kinds of message in the order of their first use, as a simulation does, in whichever process."""
        first: dict[str, float] = {}
        for part, records in self._records():
            for kind, time in zip(records["sent"]["kind"].tolist(), records["sent"]["time"].tolist(), strict=True):
                name = part.kinds[kind]
                first[name] = min(time, first.get(name, math.inf))
        for name in sorted(first, key=first.__getitem__):
            self._tally.kind(name)

    def _find_ends(self) -> None:
        """Find out which link messages came to an end that somebody saw before the run's own."""
        sent: set[tuple[int, int]] = set()
        for _, records in self._records():
            self._known.update(records["exits"]["key"].tolist())
            for time, sender, number in records["sent"][["time", "sender", "number"]].tolist():
                sent.add((sender, number))
                if time > self._end:
                    self._after.add((sender, number))
            for _, key, number, _ in records["left"].tolist():
                copy = self._sender(key), key & self._numbers
                sent.add(copy)
                if (copy[0], number) in self._after:
                    self._after.add(copy)
        for part in self._parts:
            for key, kind in part.end.get("in_flight", ()):
                self._known.add(key)
                if not self._is_after(key):
                    self._in_flight.append((key, self._tally.kind(part.kinds[kind])))
        for key in self._known:
            if (self._sender(key), key & self._numbers) not in sent:
                self._refuse_cut(self._names[self._sender(key)])

    def _is_after(self, key: int) -> bool:
        """Return whether a link message was offered when the books had closed."""
        return (self._sender(key), key & self._numbers) in self._after

    def _sender(self, key: int) -> int:
        return int(self._ledger.senders[key >> self._tally.shift])

    def _refuse_cut(self, agent: Any) -> NoReturn:
        """Raise BadInput: a frame came that its sender's process, which writes before it sends, does not tell of."""
        place = self._parts[0].begin["places"][self._names.index(agent)]
        [part, *_] = [part for part in self._parts if part.host == part.begin["hosts"][place]]
        raise BadInput(f"file = {str(part.path)!r}: must be whole; others have frames of {agent!r} that are not in it")

    def _apply(self, part: Part, number: float) -> None:
        """Take in what a part wrote up to a row."""
        while (place := self._read[id(part)]) < len(part.pieces) and part.pieces[place][0] <= number:
            self._read[id(part)] = place + 1
            for what, content in part.pieces[place][1]:
                if what == RECORDS:
                    self._count(part, records_of(content))
                elif what == ARRAY:
                    self._states.learn(*content)
                elif what == CHANGES and self._result.watch is not None:
                    self._result.watch.learn(content, self._end)
                elif what == STATE:
                    which, state, in_round = content
                    name = self._names[which]
                    self._states.restore(name, state)
                    self._built.contexts[name].round = in_round

    # --- counting -----------------------------------------------------------------------------------------------------

    def _count(self, part: Part, records: Records) -> None:
        kinds = [self._tally.kind(name) for name in part.kinds]
        shared = self._count_sent(records, kinds)
        for left in records["left"]:
            self._count_left(left, shared)
        for exit_ in records["exits"]:
            time, key, kind, cause = exit_.item()
            if self._is_after(key):
                continue
            # Of what arrives damaged the sender knows at once.
            if time <= self._end or cause == CORRUPTED:
                self._tally.ended(time, key, kinds[kind], cause)
            else:
                # The books closed before.
                self._in_flight.append((key, kinds[kind]))

    def _count_sent(self, records: Records, kinds: Sequence[int]) -> dict[tuple[int, int], tuple[int, bool]]:
        """Count transmissions; return the kind of each by its link and number, and whether links tell its bits."""
        shared = {}
        copies = _copies(records, self._tally.shift)
        for sent, (round_number, reply) in zip(records["sent"], records["details"].tolist(), strict=True):
            record = Transmission(*sent.item())._replace(kind=kinds[sent["kind"]])
            if record.time > self._end:
                continue
            links = self._links_of[record.sender] if record.link == TO_ALL else [record.link]
            self._tally.sent(record, len(links), round_number, bool(reply))
            for link in links:
                apart = record.link == TO_ALL and record.each == 0 and self._settings.medium == "wires"
                shared[link, record.number] = record.kind, apart
                keys = [(link << self._tally.shift) + record.number, *copies.get((link, record.number), ())]
                for key in keys:
                    if key not in self._known:
                        self._known.add(key)
                        self._tally.ended(record.time, key, record.kind, MISSING)
        return shared

    def _count_left(self, left: Any, shared: Mapping[tuple[int, int], tuple[int, bool]]) -> None:
        time, key, number, bits = left.item()
        if self._is_after(key):
            return
        link = key >> self._tally.shift
        kind, apart = shared[link, number]
        if key != (link << self._tally.shift) + number:
            self._tally.duplicate(link, kind)
        elif apart:
            self._tally.link_bits(link, kind, bits)
        if self._tally.keeps:
            self._tally.left(time, key, number, bits)


def _copies(records: Records, shift: int) -> dict[tuple[int, int], list[int]]:
    """Return the keys of second copies by link and the transmission's number."""
    found: dict[tuple[int, int], list[int]] = {}
    for _, key, number, _ in records["left"].tolist():
        link = key >> shift
        if key != (link << shift) + number:
            found.setdefault((link, number), []).append(key)
    return found


def _last_time(parts: Sequence[Part]) -> float:
    """Return the time (s) of the last row of parts that were all killed."""
    return max((time for part in parts for _, time, _ in part.rows), default=0.0)
