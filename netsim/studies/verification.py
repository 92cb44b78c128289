"""A run folder repeated from its settings: whether the results are the same, and where they begin to differ."""

import csv
import json
import math
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim._former import SETTINGS, must_be_current
from netsim.accounting.trace import STREAMS, Trace
from netsim.core.records import key_shift
from netsim.errors import BadInput
from netsim.studies import catalogue
from netsim.studies.catalogue import Parameter, Scenario
from netsim.studies.folder import load, write
from netsim.studies.formats import Formats, read_table
from netsim.studies.origin import about, changed_files, changed_source, environment, is_recorded
from netsim.studies.terminal import Reporter
from netsim.util import check

TOLERANCE = 1e-9
"""Of numbers that are not whole: |a − b| ≤ 1e-9 · max(1, |a|, |b|)."""

# Columns of time measured on the machine.
_MEASURED_TIME = {"seconds", "step_seconds"}
# Parts of a summary that are no result, or are compared elsewhere.
_NOT_COMPARED = {"bytes", "failed", "partial"}
# A trace hash and a frame's checksum change with the last digit of any number that is sent.
_HASHES = ("trace_hash", "checksum")


@dataclass(frozen=True)
class Verdict:
    """The result of repeating a run folder.

    Attributes
    ----------
    folder : Path
        The run folder.
    state : str
        "identical": the trace hash and every value; "equal to 1e-9": every value within that, but not the last digits,
        and then mostly not the hash either, in which each frame's bytes count; or "differs".
    where : str
        Where it begins to differ by more than 1e-9, or if nowhere, the largest difference; empty if identical.
    others : tuple of str
        The other files that differ by more.
    elsewhere : tuple of str
        Versions, kernels and the like that are not those recorded: facts, which need not be the cause.
    """

    folder: Path
    state: str
    where: str = ""
    others: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.state != "differs"


@dataclass(frozen=True)
class _Difference:
    """A difference of two values at one place of a file, and its size; infinity where a size has no meaning."""

    file: str
    place: str
    size: float

    @property
    def is_hash(self) -> bool:
        """Whether it is one of hashes."""
        return self.place.partition(":")[0].endswith(_HASHES)

    def __str__(self) -> str:
        return f"{self.file}, {self.place}"


_Places = Iterator[tuple[str, float]]
"""Differences within a file: their places and sizes."""


def verify(folder: str | Path, *, reporter: Reporter | None = None) -> Verdict:
    """Repeat a run folder from its settings and compare the trace hash, the tables, the summary and the traces.

    Columns of time measured on the machine (``seconds``, ``step_seconds``) are left out; whole numbers and text must be
    the same.

    Parameters
    ----------
    folder : str or Path
        A whole run folder; a point of a sweep is one.
    reporter : Reporter, optional
        Where progress goes; default: nowhere.

    Raises
    ------
    BadInput
        If it is no whole run folder, a trace is damaged, or its study, the study's parameters, its file or the files
        that it read are not those recorded.
    """
    path = Path(folder)
    found = load(path)
    settings = found["settings"]
    if "deployment" in settings:
        raise BadInput(
            f"run folder = {str(path)!r}: must be of a simulation; what happened over sockets is not repeated"
        )
    names = sorted(name for name in found["summary"]["bytes"] if Path(name).suffix in (".csv", ".parquet"))
    traces = sorted(name for name in found["summary"]["bytes"] if re.fullmatch(r"trace-.*\.npz", name))
    what = f"run folder = {str(path)!r}: must be of a study as it is now"
    scenario = _as_it_was(what, settings)
    # A damaged trace is reported before all is repeated.
    recorded = {name: Trace.load(path / name) for name in traces}
    study = scenario.prepare(
        # States are kept with a trace only.
        trace=bool(traces) or "states" in {Path(name).stem for name in names},
        reporter=reporter,
        **parameters_of(what, scenario, settings["parameters"]),
    )
    scenario.play(study)
    kind = "parquet" if any(name.endswith(".parquet") for name in names) else "csv"
    study.formats, study.figures = Formats(tables=kind), {}
    with tempfile.TemporaryDirectory(prefix="netsim-verify-") as again:
        failed = write(study, Path(again))
        differences = list(_compared(path, Path(again), sorted(names, key=_order), recorded, failed))
    return _verdict(path, differences, (*_elsewhere(settings), *_source(settings, scenario)))


def _order(name: str) -> tuple[bool, bool, str]:
    stem = Path(name).stem
    return stem != "rounds", stem != "ledger", name


def _as_it_was(what: str, settings: Mapping[str, Any]) -> Scenario:
    """Return a folder's scenario; raises BadInput that begins with ``what`` if a file that it read has changed."""
    try:
        scenario = catalogue.find_study(settings["scenario"])
    except BadInput as error:
        raise BadInput(f"{what}; {error}") from None
    changed = changed_files(settings, scenario.made_of(), scenario.name)
    if changed:
        have = "has" if len(changed) == 1 else "have"
        raise BadInput(f"{what}; {', '.join(changed)} {have} changed since it ran")
    return scenario


def _source(settings: Mapping[str, Any], scenario: Scenario) -> Iterator[str]:
    """Yield a line on each change of the code that ran."""
    if not is_recorded(settings):
        yield "recorded without the SHA-256 of netsim's source and of the files read: whether they changed is not known"
    for each in changed_source(settings, scenario.made_of()):
        yield f"{each} has changed"


def parameters_of(what: str, scenario: Scenario, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded parameters as the study takes them; raises BadInput that begins with ``what`` for others."""
    known = {each.name: each for each in scenario.flags}
    try:
        for name, value in given.items():
            if name not in known and not (name in SETTINGS and value is False):
                must_be_current(name, value)
                raise BadInput(f"it has no parameter {name!r} any more")
        return {name: _value(known[name], value) for name, value in given.items() if name in known}
    except BadInput as error:
        raise BadInput(f"{what}; {error}") from None


def _value(parameter: Parameter, value: Any) -> Any:
    # JSON has no infinity, so it stands there as text.
    if parameter.kind is float and isinstance(value, str) and value in ("inf", "-inf", "nan"):
        return float(value)
    if value is None and parameter.optional:
        return None
    if parameter.kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if type(value) is not parameter.kind:
        raise check.refuse(parameter.name, value, f"of type {parameter.kind.__name__}")
    return value


# --- comparing --------------------------------------------------------------------------------------------------------


def _compared(
    path: Path, again: Path, tables: list[str], traces: Mapping[str, Trace], failed: Mapping[str, str]
) -> Iterator[_Difference]:
    """Yield the differences of a folder from what its study writes now, in the order of their places."""
    new = sorted(each.name for each in again.iterdir() if each.suffix in (".csv", ".parquet"))

    def of_file(name: str) -> _Places:
        if not (again / name).is_file():
            yield f"is not made now{': ' + failed[name] if name in failed else ''}", math.inf
        elif name in traces:
            yield from _of_trace(traces[name], Trace.load(again / name))
        elif name == "summary.json":
            yield from _of_values(
                "", *(json.loads((each / name).read_text(encoding="utf-8")) for each in (path, again))
            )
        elif name not in tables:
            yield "was not there", math.inf
        elif (path / name).read_bytes() != (again / name).read_bytes():
            before, now = _rows(path / name), _rows(again / name)
            if Path(name).stem == "states":
                before, now = _by_agent(before), _by_agent(now)
            yield from _of_tables(before, now)

    for name in dict.fromkeys([*tables, *new, "summary.json", *traces]):
        for place, size in of_file(name):
            yield _Difference(name, place, size)


def _by_agent(rows: list[list[Any]]) -> list[list[Any]]:
    """Return the rows of states in an order that does not depend on which agent acted first at an instant."""
    head, body = rows[:1], rows[1:]
    keys = [i for i, name in enumerate(head[0] if head else []) if name in ("algorithm", "time_s", "agent")]
    first: dict[Any, int] = {}
    for place, row in enumerate(body):
        # Algorithms and times stay as they are; agents of one time are sorted.
        first.setdefault(tuple(row[i] for i in keys[:-1]), place)
    return head + sorted(body, key=lambda row: (first[tuple(row[i] for i in keys[:-1])], str(row[keys[-1]])))


def _of_trace(old: Trace, new: Trace) -> _Places:
    yield from _of_values("trace_hash", old.hash, new.hash)
    yield from _of_values("agents", old.agents, new.agents)
    yield from _of_values("kinds", old.kinds, new.kinds)
    if any(not np.array_equal(a, b) for a, b in zip(old.links, new.links, strict=True)):
        yield "its links are others", math.inf
    if old.scene is not None and new.scene is not None:
        yield from _of_values("scene", old.scene.as_dict(), new.scene.as_dict())
    # Traces of earlier versions have no scene, and fewer records.
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
            # The transmissions themselves, and their details in the same order.
            found[name] = records[by_sender]
    return found


def _of_records(
    stream: str, old: NDArray[np.void], new: NDArray[np.void], trace: Trace, sent: NDArray[np.void]
) -> _Places:
    """Yield of each column the first difference that counts, or else the largest."""
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
    """Return the names of a record's message."""
    if "key" not in (record.dtype.names or ()):
        return f"sender {trace.agents[int(record['sender'])]}, message {record['number']}"
    shift, (senders, receivers) = key_shift(len(trace.links[0])), trace.links
    link, number = int(record["key"]) >> shift, int(record["key"]) & ((1 << shift) - 1)
    if not 0 <= link < len(senders):
        return f"key {record['key']}"
    return f"sender {trace.agents[senders[link]]}, receiver {trace.agents[receivers[link]]}, message {number}"


def _rows(path: Path) -> list[list[Any]]:
    """Return a table's rows, its line of names first; of csv as texts."""
    if path.suffix == ".parquet":
        table = read_table(path)
        return [list(table.columns), *table.astype(object).to_numpy().tolist()]
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


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
    """Yield the differences of two summaries."""
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
    """Return 0 for equal values, infinity for other whole numbers, texts and the like, else the relative difference."""
    if old == new or (old != old and new != new):
        return 0.0
    numbers = [_number(each) for each in (old, new)]
    if None in numbers or all(isinstance(each, int) for each in numbers):
        return math.inf
    a, b = float(numbers[0] or 0), float(numbers[1] or 0)
    if a == b:
        # Written otherwise only, as 1e-05 for 1e-5.
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


def _verdict(path: Path, differences: list[_Difference], elsewhere: tuple[str, ...]) -> Verdict:
    if not differences:
        return Verdict(path, "identical", elsewhere=elsewhere)
    # Where no value differs, a hash does.
    differences = [each for each in differences if not each.is_hash] or differences
    if beyond := [each for each in differences if each.size > TOLERANCE]:
        _, *others = dict.fromkeys(each.file for each in beyond)
        return Verdict(path, "differs", str(beyond[0]), tuple(others), elsewhere)
    largest = max(differences, key=lambda each: each.size)
    return Verdict(path, "equal to 1e-9", str(largest), elsewhere=elsewhere)


def _elsewhere(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line on each difference from the recorded versions, kernels and platform."""
    now = about() | environment()
    if "python" not in settings:
        yield f"recorded by netsim {settings.get('netsim', 'of unknown version')}, without versions and kernels"
    for name, value in now.items():
        before = settings.get(name, value)
        if isinstance(value, dict) and isinstance(before, dict):
            for each in sorted({*value, *before}):
                if value.get(each) != before.get(each):
                    yield f"{each}: {before.get(each, 'none')} recorded, {value.get(each, 'none')} here"
        elif before != value:
            yield f"{name}: {_listed(before)} recorded, {_listed(value)} here"


def _listed(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    return ", ".join(" ".join(map(str, each.values())) if isinstance(each, dict) else str(each) for each in value)
