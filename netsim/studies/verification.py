"""Repeat a run folder from its settings, and find whether and where the results differ."""

import csv
import dataclasses
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim import core
from netsim.accounting.events import first_difference
from netsim.accounting.trace import STREAMS, Trace
from netsim.core.records import key_shift
from netsim.errors import BadInput, NetsimError, one_line
from netsim.network import BACKEND
from netsim.studies import catalogue
from netsim.studies.catalogue import Parameter, StudyDefinition
from netsim.studies.conditions import Condition, Job
from netsim.studies.folder import load, trace_name, write
from netsim.studies.formats import Formats, read_table
from netsim.studies.origin import about, changed_files, changed_source, environment, is_recorded
from netsim.studies.terminal import Reporter
from netsim.util import check
from netsim.util.hashing import hash_seed
from netsim.util.hashing import shown as shown_seed

TOLERANCE = 1e-9
"""Of numbers that are not whole: |a − b| ≤ 1e-9 · max(1, |a|, |b|)."""

# Columns of real time, measured on the machine.
_MEASURED_TIME = {"seconds", "step_seconds"}
# Parts of a summary that are not results, or that are compared elsewhere.
_NOT_COMPARED = {"failed", "partial"}
# These change with the last digit of any number sent.
_HASHES = ("trace_hash", "checksum")


@dataclass(frozen=True)
class Verdict:
    """The result of repeating a run folder.

    Attributes
    ----------
    folder : Path
        The run folder.
    state : str
        "identical": the trace hash and every value are equal; "equal to 1e-9": every value is equal to within 1e-9, but
        last digits differ, and then usually the hash as well, because it covers each frame's bytes; or "differs".
    where : str
        The place of the first difference above 1e-9; without one, the largest difference; empty if identical.
    others : tuple of str
        The other files that differ by more than 1e-9.
    elsewhere : tuple of str
        Versions, kernels and other conditions that differ from the recorded ones; they need not be the cause.
    event : str
        The first event that differs, and its agent, if traces of both runs exist or could be made; else empty.
    name : str
        The condition of the repetition; empty for the recorded condition. Otherwise the state may be "not checked",
        with the reason in ``where``.
    """

    folder: Path
    state: str
    where: str = ""
    others: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    event: str = ""
    name: str = ""

    def __bool__(self) -> bool:
        return self.state != "differs"

    def lines(self) -> list[str]:
        """Return the verdict as lines, beginning with what was repeated; ``elsewhere`` is omitted."""
        what = self.name or self.folder
        if self.state == "not checked":
            return [f"{what}: not checked ({self.where})"]
        where = {"identical": "", "differs": "; it begins in "}.get(self.state, "; the largest difference is in ")
        others = [f"  also in {', '.join(self.others)}"] if self.others else []
        event = [f"  first event: {self.event}"] if self.event else []
        return [f"{what}: {self.state}{where}{self.where}", *others, *event]


_Places = Iterator[tuple[str, float]]
"""Differences within a file: their places and sizes; infinity where a size has no meaning."""


def verify(folder: str | Path, *, reporter: Reporter | None = None) -> Verdict:
    """Repeat a run folder from its settings and compare the trace hash, the tables, the summary and the traces.

    Columns of measured real time (``seconds``, ``step_seconds``) are not compared; integers and text must be equal.

    Parameters
    ----------
    folder : str or Path
        A complete run folder, such as that of a point of a sweep.
    reporter : Reporter, optional
        The receiver of progress; default: none.

    Raises
    ------
    BadInput
        If the folder is no complete run folder, a trace is damaged, or the study, its parameters, its file or the files
        that it read differ from those recorded.
    """
    path = Path(folder)
    found = load(path)
    settings = found["settings"]
    if "deployment" in settings:
        raise BadInput(
            f"run folder = {str(path)!r}: must be of a simulation; what happened over sockets is not repeated"
        )
    recorded = Recorded.of(path, found)
    what = f"run folder = {str(path)!r}: must be of a study as it is now"
    definition = _as_it_was(what, settings)
    parameters = parameters_of(what, definition, settings["parameters"])
    with tempfile.TemporaryDirectory(prefix="netsim-verify-") as again:
        failed = _repeat(definition, parameters, recorded, Path(again), reporter=reporter)
        verdict = compare_folders(recorded, Path(again), failed, names=("recorded", "now"))
    elsewhere = (*_elsewhere(settings, verdict), *_source(settings, definition))
    if not verdict and not verdict.event:
        verdict = dataclasses.replace(verdict, event=_event_made_again(definition, parameters, recorded))
    return dataclasses.replace(verdict, elsewhere=elsewhere)


@dataclass(frozen=True)
class Recorded:
    """A run folder that is compared with its repetition."""

    path: Path
    settings: Mapping[str, Any]
    summary: Mapping[str, Any]
    tables: list[str]
    traces: Mapping[str, Trace]

    @classmethod
    def of(cls, path: Path, found: Mapping[str, Any] | None = None) -> "Recorded":
        """Read a complete run folder with its traces, so that a damaged trace is reported before the repetition."""
        found = load(path) if found is None else found
        tables = [name for name in found["files"] if Path(name).suffix in (".csv", ".parquet")]
        tables.sort(key=lambda name: (Path(name).stem != "rounds", Path(name).stem != "ledger", name))
        # Keep the order of the algorithms' runs.
        names = [trace_name(name) for name in found["summary"]["algorithms"]]
        traces = {name: Trace.load(path / name) for name in names if name in found["files"]}
        return cls(path, found["settings"], found["summary"], tables, traces)

    @property
    def format(self) -> str:
        """The format of the folder's tables."""
        return "parquet" if any(name.endswith(".parquet") for name in self.tables) else "csv"

    @property
    def keeps_trace(self) -> bool:
        """Whether the run had a trace: the folder has traces, or states, which are stored only with a trace."""
        return bool(self.traces) or "states" in {Path(name).stem for name in self.tables}


def _repeat(
    definition: StudyDefinition,
    parameters: Mapping[str, Any],
    recorded: Recorded,
    folder: Path,
    *,
    trace: bool = False,
    reporter: Reporter | None = None,
) -> dict[str, str]:
    """Run a study into a folder, without figures; return, by file, the reasons why files could not be made."""
    study = definition.prepare(trace=trace or recorded.keeps_trace, reporter=reporter, **parameters)
    definition.play(study)
    study.formats = Formats(figures=(), tables=recorded.format)
    return write(study, folder)


def compare_folders(
    recorded: Recorded, again: Path, failed: Mapping[str, str] | None = None, *, names: tuple[str, str]
) -> Verdict:
    """Compare a run folder with another of the same study; ``names`` denote both runs in the event's text.

    ``failed`` maps files that could not be made again to the reasons.
    """
    verdict = _verdict(recorded.path, list(_compared(recorded, again, failed or {})))
    return verdict if verdict else dataclasses.replace(verdict, event=first_event(recorded.traces, again, names))


def first_event(traces: Mapping[str, Trace], again: Path, names: tuple[str, str]) -> str:
    """Return the first event in which the traces of two runs differ, as text; "" if there is none."""
    for name, trace in traces.items():
        if (again / name).is_file() and (found := first_difference(trace, Trace.load(again / name))) is not None:
            algorithm = f"{name.removeprefix('trace-').removesuffix('.npz')}, " if len(traces) > 1 else ""
            return algorithm + found.words(*names)
    return ""


def _event_made_again(definition: StudyDefinition, parameters: Mapping[str, Any], recorded: Recorded) -> str:
    """Return the first event that differs from the recorded run, made again with its hash seed, core and workers.

    Return "" if these are unknown or equal this process's, or if the recorded run still cannot be reproduced.
    """
    before = Condition.recorded(recorded.settings)
    if before is None or (before == Condition.here() and BACKEND.get() is None):
        return ""
    with tempfile.TemporaryDirectory(prefix="netsim-verify-") as room:
        then, now = Path(room, "then"), Path(room, "now")
        job = Job(definition.name, dict(parameters), trace=True)
        if before.run(job, then) or load(then)["summary"]["trace_hash"] != recorded.summary["trace_hash"]:
            return ""
        now.mkdir()
        _repeat(definition, parameters, recorded, now, trace=True)
        return first_event(Recorded.of(then).traces, now, ("recorded", "now"))


def _as_it_was(what: str, settings: Mapping[str, Any]) -> StudyDefinition:
    """Return a run folder's study; raises BadInput, beginning with ``what``, if a file that it read has changed."""
    with check.naming(f"{what}; "):
        definition = catalogue.find_study(settings["study"])
    changed = changed_files(settings, definition.source_hashes(), definition.name)
    if changed:
        have = "has" if len(changed) == 1 else "have"
        raise BadInput(f"{what}; {', '.join(changed)} {have} changed since it ran")
    return definition


def _source(settings: Mapping[str, Any], definition: StudyDefinition) -> Iterator[str]:
    """Yield a line on each change of the source since the run."""
    if not is_recorded(settings):
        yield "recorded without the SHA-256 of netsim's source and of the files read: whether they changed is not known"
    for each in changed_source(settings, definition.source_hashes()):
        yield f"{each} has changed"


def parameters_of(what: str, definition: StudyDefinition, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded parameters in the study's types; raises BadInput, beginning with ``what``, for others."""
    known = {each.name: each for each in definition.flags}
    with check.naming(f"{what}; "):
        for name in given:
            if name not in known:
                raise BadInput(f"it has no parameter {name!r} any more")
        return {name: _value(known[name], value) for name, value in given.items()}


def _value(parameter: Parameter, value: Any) -> Any:
    # JSON has no infinity and NaN, so the file has them as text.
    if parameter.kind is float and (type(value) in (int, float) or value in ("inf", "-inf", "nan")):
        return float(value)
    if value is None and parameter.optional:
        return None
    if type(value) is not parameter.kind:
        raise check.refuse(parameter.name, value, f"of type {parameter.kind.__name__}")
    return value


# --- running again under other conditions -----------------------------------------------------------------------------


def check_conditions(job: Job, folder: Path, base: Condition) -> Iterator[Verdict]:
    """Repeat a job with other hash seeds, the other core and another number of workers, and compare the results.

    ``folder`` contains the job's run under ``base``. If a run differs, both runs are repeated with a trace, to find the
    first event that differs and its agent.
    """
    recorded = Recorded.of(folder)
    job = dataclasses.replace(job, trace=recorded.keeps_trace, tables=recorded.format)
    for name, condition in base.others():
        with tempfile.TemporaryDirectory(prefix="netsim-check-") as room:
            again = Path(room, "again")
            try:
                why = condition.run(job, again)
            except BadInput as error:
                # Refused conditions: a radio cannot be split over workers, and a core may not be built.
                yield Verdict(folder, "not checked", str(error), name=name)
                continue
            if why:
                verdict = Verdict(folder, "differs", f"its end: {why}")
            else:
                verdict = compare_folders(recorded, again, names=("before", name))
            if not verdict and not why and not recorded.traces:
                event = _event_between(dataclasses.replace(job, trace=True), (base, condition), Path(room), name)
                verdict = dataclasses.replace(verdict, event=event)
            yield dataclasses.replace(verdict, name=name)
            if condition == base and not verdict:
                # A run that does not repeat under its own condition differs under all others for the same reason.
                return


def check_made(make: Callable[..., Any], seed: int, workers: int) -> list[Verdict]:
    """Run the result of ``make(seed=…)``, repeat it under other conditions, and return the verdicts.

    This is `netsim.testing.check_same`. Raises BadInput if the function cannot be used or its run is refused,
    NetsimError if the run fails.
    """
    job = Job("make", {"seed": seed}, make=_pickled(make))
    # Hash seed 0, which the netsim command also sets.
    base = Condition(0, core.NAME, workers)
    with tempfile.TemporaryDirectory(prefix="netsim-check-") as room:
        folder = Path(room, "first")
        if why := base.run(job, folder):
            raise NetsimError(f"make: its run must end well; {why}")
        return list(check_conditions(job, folder, base))


def _pickled(make: Callable[..., Any]) -> bytes:
    # This is cloudpickle, which some versions of joblib bundle and others require.
    from joblib.externals.loky.cloudpickle_wrapper import dumps

    if isinstance(make, type) or not callable(make):
        raise check.refuse("make", make, "a function that returns (network, agents)")
    try:
        found: bytes = dumps(make)
    except Exception as error:
        # A function's closure may hold objects that cannot be pickled.
        raise check.refuse("make", make, f"picklable ({one_line(error)})") from None
    return found


def _event_between(job: Job, conditions: tuple[Condition, Condition], room: Path, name: str) -> str:
    """Return the first event in which runs under two conditions differ; "" if no event differs, or if a run fails."""
    folders = room / "old", room / "new"
    if any(condition.run(job, folder) for condition, folder in zip(conditions, folders, strict=True)):
        return ""
    return first_event(Recorded.of(folders[0]).traces, folders[1], ("before", name))


# --- comparing --------------------------------------------------------------------------------------------------------


def _compared(recorded: Recorded, again: Path, failed: Mapping[str, str]) -> Iterator[tuple[str, str, float]]:
    """Yield (file, place, size) for each difference between a folder and its repetition, in order."""
    path, tables, traces = recorded.path, recorded.tables, recorded.traces
    new = sorted(each.name for each in again.iterdir() if each.suffix in (".csv", ".parquet"))

    def of_file(name: str) -> _Places:
        if not (again / name).is_file():
            yield f"is not made now{': ' + failed[name] if name in failed else ''}", math.inf
        elif name in traces:
            yield from _of_trace(traces[name], Trace.load(again / name))
        elif name == "summary.json":
            old, now = (json.loads((each / name).read_text(encoding="utf-8")) for each in (path, again))
            yield from _of_values("", old, now)
        elif name not in tables:
            yield "was not there", math.inf
        elif (path / name).read_bytes() != (again / name).read_bytes():
            yield from _of_tables(*(_rows(each / name) for each in (path, again)))

    for name in dict.fromkeys([*tables, *new, "summary.json", *traces]):
        for place, size in of_file(name):
            yield name, place, size


def _by_agent(rows: list[list[Any]]) -> list[list[Any]]:
    """Return the rows of states in an order that does not depend on which agent acted first at an instant."""
    head, body = rows[:1], rows[1:]
    *keys, agent = (i for i, name in enumerate(head[0]) if name in ("algorithm", "time_s", "agent"))
    # Keep the order of algorithms and times, and sort the agents within a time.
    first = {tuple(row[i] for i in keys): place for place, row in reversed([*enumerate(body)])}
    return head + sorted(body, key=lambda row: (first[tuple(row[i] for i in keys)], str(row[agent])))


def _of_trace(old: Trace, new: Trace) -> _Places:
    facts = [{"trace_hash": each.hash, "agents": each.agents, "kinds": each.kinds} for each in (old, new)]
    yield from _of_values("", *facts)
    if any(not np.array_equal(a, b) for a, b in zip(old.links, new.links, strict=True)):
        yield "its links are others", math.inf
    if old.scene is not None and new.scene is not None:
        yield from _of_values("scene", old.scene.as_dict(), new.scene.as_dict())
    # Traces of earlier versions have no scene and fewer records.
    streams = STREAMS if old.scene is not None else ("sent", "exits")
    before, now = _ordered(old), _ordered(new)
    for stream in streams:
        yield from _of_records(stream, before[stream], now[stream], old, before["sent"])


def _ordered(trace: Trace) -> dict[str, NDArray[np.void]]:
    """Return a trace's records in an order that does not depend on when they were recorded."""
    found = {name: np.concatenate([np.empty(0, dtype), *trace.chunks(name)]) for name, dtype in STREAMS.items()}
    sent = found["sent"]
    by_sender = np.lexsort((sent["link"], sent["number"], sent["sender"]))
    for name, records in found.items():
        names = list(records.dtype.names or ())
        if "key" in names:
            found[name] = records[np.lexsort([records[each] for each in ("time", "cause", "key") if each in names])]
        elif len(records) == len(sent):
            # The transmissions and their details are sorted in the same order.
            found[name] = records[by_sender]
    return found


def _of_records(
    stream: str, old: NDArray[np.void], new: NDArray[np.void], trace: Trace, sent: NDArray[np.void]
) -> _Places:
    """For each column, yield the first difference above `TOLERANCE`, or else the largest difference."""
    if len(old) != len(new):
        yield f"{stream}: {len(old):,} records recorded, {len(new):,} now", math.inf
        return
    for column in old.dtype.names or ():
        a, b = old[column], new[column]
        places = np.flatnonzero(a != b)
        if not len(places):
            continue
        sizes = np.full(len(places), math.inf)
        if a.dtype.kind == "f":
            sizes = np.abs(a - b)[places] / np.maximum(1.0, np.maximum(np.abs(a), np.abs(b)))[places]
        beyond = np.flatnonzero(~(sizes <= TOLERANCE))
        first = int(beyond[0]) if len(beyond) else int(sizes.argmax())
        place, size = int(places[first]), float(sizes[first])
        where = _message_of(old[place] if "key" in (old.dtype.names or ()) else sent[place], trace)
        text = f"{stream}, {where}, column {column}: {a[place]} recorded, {b[place]} now"
        yield text, size if math.isfinite(size) else math.inf


def _message_of(record: np.void, trace: Trace) -> str:
    """Return the sender, receiver and number of a record's message as text."""
    if "key" not in (record.dtype.names or ()):
        return f"sender {trace.agents[int(record['sender'])]}, message {record['number']}"
    shift, (senders, receivers) = key_shift(len(trace.links[0])), trace.links
    link, number = int(record["key"]) >> shift, int(record["key"]) & ((1 << shift) - 1)
    if not 0 <= link < len(senders):
        return f"key {record['key']}"
    return f"sender {trace.agents[senders[link]]}, receiver {trace.agents[receivers[link]]}, message {number}"


def _rows(path: Path) -> list[list[Any]]:
    """Return a table's rows, beginning with the column names; values of a csv file are texts."""
    if path.suffix == ".parquet":
        table = read_table(path)
        rows = [list(table.columns), *table.astype(object).to_numpy().tolist()]
    else:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
    return _by_agent(rows) if path.stem == "states" and rows else rows


def _of_tables(old: list[list[Any]], new: list[list[Any]]) -> _Places:
    columns = old[0] if old else []
    if not new or columns != new[0]:
        yield f"columns: {_shown(columns)} recorded, {_shown(new[:1])} now", math.inf
        return
    labels = [i for i, name in enumerate(columns) if name in ("algorithm", "round", "sender", "receiver", "kind")]
    for number, (before, now) in enumerate(zip(old[1:], new[1:], strict=False), start=1):
        for i, column in enumerate(columns):
            size = 0.0 if column in _MEASURED_TIME else _distance(before[i], now[i])
            if size:
                row = ", ".join(f"{columns[each]} {before[each]}" for each in labels) or f"row {number}"
                yield f"{row}, column {column}: {_shown(before[i])} recorded, {_shown(now[i])} now", size
    if len(old) != len(new):
        yield f"{len(old) - 1} rows recorded, {len(new) - 1} now", math.inf


def _of_values(place: str, old: Any, new: Any) -> _Places:
    """Yield the differences between two summaries, or between values in them."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            if not (place == "" and key in _NOT_COMPARED):
                yield from _of_values(f"{place}, {key}" if place else str(key), old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, now) in enumerate(zip(old, new, strict=True), start=1):
            yield from _of_values(f"{place} {number}", before, now)
    elif size := _distance(old, new):
        yield f"{place}: {_shown(old)} recorded, {_shown(new)} now", size


def _distance(old: Any, new: Any) -> float:
    """Return 0 for equal values, the relative difference of floats, or infinity for other values that differ."""
    if old == new or (old != old and new != new):
        return 0.0
    a, b = _number(old), _number(new)
    if a is None or b is None or (isinstance(a, int) and isinstance(b, int)):
        return math.inf
    if float(a) == float(b):
        # Equal numbers in different notation, such as 1e-05 and 1e-5: the least positive difference.
        return math.ulp(0.0)
    found = abs(a - b) / max(1.0, abs(a), abs(b))
    return found if math.isfinite(found) else math.inf


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        try:
            return int(value) if re.fullmatch(r"-?\d+", value) else float(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) else None


def _shown(value: Any) -> str:
    text = " ".join(str(value).split()) if value is not None and value != "" else "nothing"
    return text if len(text) <= 80 else text[:77] + "..."


def _verdict(path: Path, differences: list[tuple[str, str, float]]) -> Verdict:
    if not differences:
        return Verdict(path, "identical")
    # Hashes differ whenever a value does: report a hash only if no value differs.
    differences = [each for each in differences if not each[1].partition(":")[0].endswith(_HASHES)] or differences
    if beyond := [each for each in differences if each[2] > TOLERANCE]:
        (file, place, _), others = beyond[0], dict.fromkeys(file for file, *_ in beyond)
        return Verdict(path, "differs", f"{file}, {place}", tuple(name for name in others if name != file))
    file, place, _ = max(differences, key=lambda each: each[2])
    return Verdict(path, "equal to 1e-9", f"{file}, {place}")


def _elsewhere(settings: Mapping[str, Any], verdict: Verdict) -> Iterator[str]:
    """Yield a line on each difference from the recorded hash seed, versions, kernels and platform."""
    if not verdict and (doubt := _hash_seed(settings)):
        yield doubt
    now = about() | environment()
    for name, value in now.items():
        before = settings.get(name, value)
        if isinstance(value, dict) and isinstance(before, dict):
            for each in sorted({*value, *before}):
                if value.get(each) != before.get(each):
                    yield f"{each}: {before.get(each, 'none')} recorded, {value.get(each, 'none')} here"
        elif before != value:
            yield f"{name}: {_listed(before)} recorded, {_listed(value)} here"


def _hash_seed(settings: Mapping[str, Any]) -> str:
    """Return a line on the hash seed if it may be the cause of a difference; "" if it is fixed and equal."""
    before, here = settings.get("hash_seed"), hash_seed()
    if before is not None and before == here:
        return ""
    return (
        f"hash seed: {shown_seed(before)} recorded, {shown_seed(here)} here: the likely cause, if an agent goes "
        "through a set of texts, as set(self.neighbors); sorted(...) has one order"
    )


def _listed(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    return ", ".join(" ".join(map(str, each.values())) if isinstance(each, dict) else str(each) for each in value)
