"""Merge the journals of a run's processes into one `Run` with a common ledger, trace and table of rows.

A frame is counted as *missing* if no journal records its outcome: it never arrived at the receiver's process, or that
process was killed.
"""

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from netsim.accounting.run_metadata import RunMetadata, positions_of
from netsim.agent import Agent
from netsim.clock.clock import Loop, new_loop
from netsim.core.records import CAUSES, CORRUPTED, MISSING, SENT, TO_ALL, Transmission
from netsim.distributed import journal
from netsim.distributed.node import mark_of
from netsim.distributed.states import StateReader
from netsim.engine.build import Settings, build
from netsim.engine.runtime import Runtime
from netsim.errors import BadInput, NetsimError, one_line
from netsim.run import Probe, Run
from netsim.util import check

__all__ = ["MergedRun", "RunPart", "merge_parts", "merge_run"]


# The largest allowed difference, in real seconds, between the start times recorded by a process and by its replacement.
_START_TOLERANCE = 1.0
# Upper limit of an event's bits and of a transmission number. Journals with larger values are refused as forged.
_MAX_AMOUNT = 1 << 53


@dataclass
class RunPart:
    """The journal of one process of a run.

    Attributes
    ----------
    path : Path
        The file of the journal.
    begin, end : dict
        The contents of the entries BEGIN and END; ``end`` is empty if the process was killed.
    kinds : list of str
        The kinds of message; the index is the id that the process gave to the kind.
    pieces : deque of (float, list)
        For each row: the row's number, and the entries since the previous row. Entries after the last row have the
        number of the row that would have followed.
    rows : list of (int, float, bool)
        For each row: its number, its time (s), and whether an agent of the process took part.
    """

    path: Path
    begin: dict[str, Any] = field(default_factory=dict)
    end: dict[str, Any] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)
    pieces: deque[tuple[float, list[tuple[int, Any]]]] = field(default_factory=deque)
    rows: list[tuple[int, float, bool]] = field(default_factory=list)

    @property
    def host(self) -> str:
        """The name of the process."""
        return str(self.begin["host"])


@dataclass(frozen=True)
class MergedRun:
    """The result of a merge: a run in the form of a simulated run, and the journals from which it was merged."""

    run: Run
    parts: list[RunPart]

    @property
    def killed(self) -> list[str]:
        """The processes that were killed: a journal without an END entry is the evidence."""
        return sorted({part.host for part in self.parts if not part.end})

    @property
    def failed(self) -> dict[str, str]:
        """{process: error text} for the processes that ended with an error."""
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
    """Merge the journals that the processes of a run wrote into their transports' ``folder``.

    Parameters
    ----------
    network : Network
        The network of the run, created in the same way as in every process.
    agents : mapping
        {node: Agent}, created in the same way as in every process. Restoring an agent's recorded state replaces all
        objects that the agent holds. So a probe must look up objects in ``agents`` at each call, and keep no reference
        to an agent's object.
    folder : str or Path
        The folder with the journals of all processes.
    probes : sequence of callables
        As in `netsim.Network.run`. The journals record the states at each row only if the processes had probes, too.
    run : int
        The number of the run, from 0, because the same processes may run several.
    trace : bool
        Whether to keep the event log.

    Returns
    -------
    Run
        A run in the form of a simulated run, but with the column ``missing`` in its ledger.

    Raises
    ------
    BadInput
        If journals are missing, or belong to another network.
    NetsimError
        If a journal cannot be read.
    """
    number = check.integer("run", run, low=0)
    result = network.result_of(agents, probes, None)
    return merge_run(replace(network.settings, trace=trace), result, Path(folder), number).run


def merge_run(settings: Settings, result: Run, folder: Path, run: int) -> MergedRun:
    """Merge the journals of a run with these settings; see `merge_parts`."""
    try:
        return _merged(settings, result, folder, run)
    except NetsimError:
        raise
    except Exception as error:
        # A forged journal can raise exceptions of many types; any of them means that the journals are invalid.
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise NetsimError(f"folder = {str(folder)!r}: must hold the journals of a run ({reason})") from error


def _merged(settings: Settings, result: Run, folder: Path, run: int) -> MergedRun:
    journals = [_read(path) for path in sorted((folder / f"run-{run}").glob("*.journal"))]
    parts = [part for part in journals if "joined" in part.begin]
    if not parts:
        raise BadInput(f"folder = {str(folder)!r}: must hold the journals of run {run}; there are none")
    hosts: list[str] = parts[0].begin["hosts"]
    for part in parts:
        processes = dict(zip(result.agents, part.begin["places"], strict=False))
        if len(processes) < len(result.agents) or part.begin["mark"] != mark_of(settings, result.agents, processes):
            raise BadInput(f"file = {str(part.path)!r}: must be of this network and these agents; it is of others")
    if absent := [host for host in hosts if host not in {part.host for part in parts}]:
        raise BadInput(
            f"folder = {str(folder)!r}: must hold the journals of all processes of run {run}; {absent[0]!r} has none"
        )
    _check_met(folder, journals)
    for host in hosts:
        # A process and its replacement should record the same start time; clock errors make small differences.
        started = [part.begin["epoch"] for part in parts if part.host == host]
        if max(started) - min(started) > _START_TOLERANCE:
            raise BadInput(
                f"folder = {str(folder)!r}: must hold the journals of one run {run}; those of {host!r} are of two, "
                "which started at different times: give each deployment its own folder"
            )
    return _Merger(settings, result, parts).merge()


def _check_met(folder: Path, journals: Sequence[RunPart]) -> None:
    """Raise BadInput if there are two copies of a journal, or if a process met another one whose journal is missing."""
    paths: dict[tuple[str, int], Path] = {}
    for part in (part for part in journals if part.begin):
        process = part.host, part.begin["incarnation"]
        if process in paths:
            raise BadInput(f"file = {str(part.path)!r}: must be there once; {paths[process].name} is the same journal")
        paths[process] = part.path
    for part in journals:
        for other in part.begin.get("met", {}).items():
            if other not in paths:
                raise BadInput(
                    f"folder = {str(folder)!r}: must hold the journals of one run; {part.host!r} ran with another "
                    f"process {other[0]!r} than the one whose journal is there"
                )


def _read(path: Path) -> RunPart:
    part, piece = RunPart(path), list[tuple[int, Any]]()
    for entry_type, content in journal.entries(path):
        if entry_type == journal.BEGIN:
            part.begin |= content
        elif entry_type == journal.END:
            part.end = content
        elif entry_type == journal.KINDS:
            part.kinds += content
        elif entry_type == journal.ROW:
            number, time, took_part = content
            part.rows.append((number, time, took_part))
            part.pieces.append((number, piece))
            piece = []
        else:
            piece.append((entry_type, content))
    # File entries after the last row under the next row: another process may have written that row.
    part.pieces.append((part.rows[-1][0] + 1 if part.rows else -math.inf, piece))
    return part


class _Merger:
    """Merges the journals of a run's processes row by row."""

    def __init__(self, settings: Settings, result: Run, parts: list[RunPart]) -> None:
        self._settings, self._result, self._parts = settings, result, parts
        self._loop: Loop = new_loop()
        self._runtime = Runtime(replace(settings, viewer=None), result)
        build(self._runtime, self._loop, merged=True)
        self._ledger = self._runtime.ledger
        self._tally = self._ledger.tally
        self._names = list(result.agents)
        self._links_from = [np.flatnonzero(self._ledger.senders == i).tolist() for i in range(len(self._names))]
        self._states = StateReader(result.agents)
        ends = [part.end["end"] for part in parts if part.end and not part.end["why"]]
        # If all processes were killed, no journal has an END entry: the run then ends at the last row.
        times = [time for part in parts for _, time, _ in part.rows]
        self._end = max(ends or [part.end["end"] for part in parts if part.end] or [0.0, *times])
        self._in_flight: list[tuple[int, int]] = []
        # `_with_outcome`: the keys of link messages with a known outcome. `_sent_late`: (sender, number) of each
        # transmission after the end of the run; these transmissions are not counted.
        self._with_outcome: set[int] = set()
        self._sent_late: set[tuple[int, int]] = set()
        self._numbers = (1 << self._tally.shift) - 1

    def merge(self) -> MergedRun:
        """Apply all journals in the order of rows, and return the merged run."""
        self._result.sampled = any(part.begin["sampled"] for part in self._parts)
        try:
            for part, records in self._records():
                self._check(part, records)
            self._order_kinds()
            self._find_outcomes()
            latest = math.nextafter(self._end, math.inf)
            took = (row[:2] for part in self._parts for row in part.rows if row[2] and row[1] <= latest)
            rows = sorted(set(took))
            last_round = self._last_round([number for number, _ in rows])
            for number, time in rows:
                self._apply_up_to(number)
                self._write_row(number, time)
            self._apply_up_to(math.inf)
            last = max((time for _, time in rows), default=-math.inf)
            if self._end > last and self._result.sampled:
                # The run ended between two samples: add a row for the end.
                self._write_row(len(rows) + 1, self._end)
        finally:
            self._loop.close()
        for shared in self._runtime.all_shared:
            shared.begun = True
        self._ledger.in_flight = partial(iter, self._in_flight)
        self._result.ended_at = self._end
        if self._ledger.keeps_trace:
            positions = positions_of(self._settings.graph, self._names)
            medium = str(self._settings.medium)
            self._ledger.scene = RunMetadata(self._settings.round_period, self._end, medium, positions, last_round)
        return MergedRun(self._result, self._parts)

    def _write_row(self, number: int, time: float) -> None:
        self._loop.clock.wait(time)
        totals = self._ledger.totals()
        try:
            self._result.add_row(number, time, totals)
        except NetsimError:
            if all(part.end and not part.end["why"] for part in self._parts):
                raise
            # Agents of a killed process keep their last recorded states, with which probes may raise errors: add the
            # row without measurements.
            self._result.add_row(number, time, totals, measure=False)

    def _records(self) -> Iterator[tuple[RunPart, journal.Records]]:
        for part in self._parts:
            for _, piece in part.pieces:
                for entry_type, content in piece:
                    if entry_type == journal.RECORDS:
                        yield part, journal.records_of(content)

    def _last_round(self, rows: list[int]) -> int:
        """Return the highest round number in the rows and transmissions; 0 if there are none."""
        sent: list[int] = [records["details"]["round"].max(initial=0).item() for _, records in self._records()]
        last: int = max([0, *sent, *(rows if not self._result.sampled else ())])
        return last

    def _check(self, part: RunPart, records: journal.Records) -> None:
        """Raise NetsimError if a number in an event is out of range: the tally would use it as an array index."""
        sent, exits, details, left = (records[name] for name in ("sent", "exits", "details", "left"))
        flight = np.array([each[:2] for each in part.end.get("in_flight", ())], dtype=np.int64).reshape(-1, 2)
        keys, kinds = (np.concatenate([exits[name], flight[:, i]]) for i, name in enumerate(("key", "kind")))
        links, agents, count = len(self._ledger.senders), len(self._names), len(part.kinds)
        amounts = [sent[name] for name in SENT.names or () if name not in ("time", "kind", "sender", "link", "taken")]
        within: list[tuple[Any, int, int]] = [
            *((each, 0, _MAX_AMOUNT) for each in (*amounts, left["bits"], left["number"])),
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
            raise NetsimError(f"file = {str(part.path)!r}: must have events of this network's agents and links only")

    def _order_kinds(self) -> None:
        """Assign ids to the kinds of message in the order of first use in any process, as a simulation does."""
        first: dict[str, float] = {}
        for part, records in self._records():
            for kind, time in zip(records["sent"]["kind"].tolist(), records["sent"]["time"].tolist(), strict=True):
                name = part.kinds[kind]
                first[name] = min(time, first.get(name, math.inf))
        for name in sorted(first, key=first.__getitem__):
            self._tally.kind(name)

    def _find_outcomes(self) -> None:
        """Fill `_with_outcome` and `_sent_late`, and find the link messages that were in flight at the end."""
        sent: set[tuple[int, int]] = set()
        for _, records in self._records():
            self._with_outcome.update(records["exits"]["key"].tolist())
            for time, sender, number in records["sent"][["time", "sender", "number"]].tolist():
                sent.add((sender, number))
                if time > self._end:
                    self._sent_late.add((sender, number))
            for _, key, number, _ in records["left"].tolist():
                copy = self._sender(key), key & self._numbers
                sent.add(copy)
                if (copy[0], number) in self._sent_late:
                    self._sent_late.add(copy)
        for part in self._parts:
            for key, kind in part.end.get("in_flight", ()):
                self._with_outcome.add(key)
                if not self._is_late(key):
                    self._in_flight.append((key, self._tally.kind(part.kinds[kind])))
        for key in self._with_outcome:
            if (self._sender(key), key & self._numbers) not in sent:
                self._refuse_truncated(self._names[self._sender(key)])

    def _is_late(self, key: int) -> bool:
        """Return whether the link message with this key was sent after the end of the run."""
        return (self._sender(key), key & self._numbers) in self._sent_late

    def _sender(self, key: int) -> int:
        return int(self._ledger.senders[key >> self._tally.shift])

    def _refuse_truncated(self, agent: Any) -> NoReturn:
        """Raise BadInput: the journal of ``agent``'s process does not record a frame that another journal records."""
        process = self._parts[0].begin["places"][self._names.index(agent)]
        [part, *_] = [part for part in self._parts if part.host == part.begin["hosts"][process]]
        raise BadInput(f"file = {str(part.path)!r}: must be whole; others have frames of {agent!r} that are not in it")

    def _apply_up_to(self, number: float) -> None:
        """Apply the entries of all journals up to the row ``number``, and discard them to free their memory."""
        for part in self._parts:
            while part.pieces and part.pieces[0][0] <= number:
                for entry_type, content in part.pieces.popleft()[1]:
                    self._apply(part, entry_type, content)

    def _apply(self, part: RunPart, entry_type: int, content: Any) -> None:
        if entry_type == journal.RECORDS:
            self._count(part, journal.records_of(content))
        elif entry_type == journal.ARRAY:
            self._states.learn(*content)
        elif entry_type == journal.CHANGES and self._result.watch is not None:
            self._result.watch.learn(content, self._end)
        elif entry_type == journal.STATE:
            agent, state, in_round = content
            name = self._names[agent]
            self._states.restore(name, state)
            self._runtime.contexts[name].round = in_round

    # --- counting -----------------------------------------------------------------------------------------------------

    def _count(self, part: RunPart, records: journal.Records) -> None:
        kinds = [self._tally.kind(name) for name in part.kinds]
        counted = self._count_sent(records, kinds)
        for left in records["left"]:
            self._count_left(left, counted)
        for outcome in records["exits"]:
            time, key, kind, cause = outcome.item()
            if self._is_late(key):
                continue
            # A corrupted frame is counted even if it would arrive after the end of the run, because a simulation counts
            # it when it is sent.
            if time <= self._end or cause == CORRUPTED:
                self._tally.ended(time, key, kinds[kind], cause)
            else:
                # The frame's outcome is later than the end of the run, so the frame was in flight at the end.
                self._in_flight.append((key, kinds[kind]))

    def _count_sent(self, records: journal.Records, kinds: Sequence[int]) -> dict[tuple[int, int], tuple[int, bool]]:
        """Count transmissions; return {(link, transmission number): (kind, by_link)}.

        ``by_link`` is True if the wire bits differ between the links of the transmission; `_count_left` then counts the
        bits of each link.
        """
        counted = {}
        duplicates = _duplicates(records, self._tally.shift)
        for sent, (round_number, reply) in zip(records["sent"], records["details"].tolist(), strict=True):
            record = Transmission(*sent.item())._replace(kind=kinds[sent["kind"]])
            if record.time > self._end:
                continue
            links = self._links_from[record.sender] if record.link == TO_ALL else [record.link]
            self._tally.sent(record, len(links), round_number, bool(reply))
            for link in links:
                by_link = record.link == TO_ALL and record.each == 0 and self._settings.medium == "wires"
                counted[link, record.number] = record.kind, by_link
                keys = [(link << self._tally.shift) + record.number, *duplicates.get((link, record.number), ())]
                for key in keys:
                    if key not in self._with_outcome:
                        self._with_outcome.add(key)
                        self._tally.ended(record.time, key, record.kind, MISSING)
        return counted

    def _count_left(self, left: Any, counted: Mapping[tuple[int, int], tuple[int, bool]]) -> None:
        time, key, number, bits = left.item()
        if self._is_late(key):
            return
        link = key >> self._tally.shift
        kind, by_link = counted[link, number]
        if key != (link << self._tally.shift) + number:
            self._tally.duplicate(link, kind)
        elif by_link:
            self._tally.link_bits(link, kind, bits)
        if self._tally.keeps:
            self._tally.left(time, key, number, bits)


def _duplicates(records: journal.Records, shift: int) -> dict[tuple[int, int], list[int]]:
    """Return the keys of duplicates, by the link and transmission number of the original."""
    found: dict[tuple[int, int], list[int]] = {}
    for _, key, number, _ in records["left"].tolist():
        link = key >> shift
        if key != (link << shift) + number:
            found.setdefault((link, number), []).append(key)
    return found
