"""The trace of a run folder, or a trace alone: found, and checked to be what it should."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.accounting.trace_file import TraceFile
from netsim.errors import BadInput
from netsim.replay.render import About
from netsim.studies.folder import load, read_part, told_partial, trace_name
from netsim.studies.study import title_of
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Found", "find_trace", "traced"]


@dataclass(frozen=True)
class Found:
    """A trace, and where it was.

    Attributes
    ----------
    log : TraceFile
        The trace.
    about : About
        What there is to say of the run besides.
    path : Path
        The run folder, or the trace file.
    suffix : str
        What a file made of the trace has behind its usual name: "-ALGORITHM" for one that was named.
    rounds, states : DataFrame or None
        Of a run folder, this algorithm's rows of those tables.
    """

    log: TraceFile
    about: About
    path: Path
    suffix: str = ""
    rounds: "pd.DataFrame | None" = None
    states: "pd.DataFrame | None" = None

    def target(self, out: str | Path | None, name: str, ending: str) -> Path:
        """Return where a file goes: ``out``, or into the run folder, or beside the trace file under its name.

        Raises BadInput if the trace itself would be overwritten.
        """
        if out is None:
            folder = self.path.is_dir()
            out = self.path / f"{name}{self.suffix}{ending}" if folder else self.path.with_suffix(ending)
        if Path(out).exists() and Path(out).samefile(self.log.path):
            raise check.refuse("out", str(out), "another file than the trace")
        return Path(out)


def find_trace(place: str | Path, algorithm: str | None = None, told: Callable[[int], None] | None = None) -> Found:
    """Find the trace of a run folder, or open a trace file.

    Parameters
    ----------
    place : str or Path
        A run folder that was made with ``--trace``, or a trace file.
    algorithm : str, optional
        Of a run folder with several: which; default: the last, which is the one that the study is about.
    told : callable, optional
        As `netsim.accounting.trace_file.TraceFile` has it.

    Raises
    ------
    BadInput
        If it is neither, was made without a trace, is cut short or changed, or an argument cannot be used.
    """
    path = Path(place)
    if path.is_dir():
        return _of_folder(path, algorithm, told)
    if algorithm is not None:
        raise check.refuse("algorithm", algorithm, "left out for a trace file, which is of one run")
    return Found(TraceFile(path, told), About(path.name), path)


def traced(folder: str | Path) -> list[str]:
    """Return the algorithms of which a run folder has traces, in the order in which they ran."""
    summary = load(folder, partial=True)["summary"]
    return [name for name in summary["algorithms"] if trace_name(name) in summary["bytes"]]


def _of_folder(folder: Path, algorithm: str | None, told: Callable[[int], None] | None) -> Found:
    found, names = load(folder, partial=True), traced(folder)
    if not names:
        raise BadInput(f"run folder = {str(folder)!r}: must hold a trace; run it again with --trace")
    name = names[-1] if algorithm is None else check.one_of("algorithm", algorithm, names)
    log = TraceFile(folder / trace_name(name), told)
    settings, summary = found["settings"], found["summary"]
    notes = [told_partial(found)] if summary["partial"] else []
    if len(names) > 1:
        others = ", ".join(each for each in names if each != name)
        notes.append(f"This is the run of {name}; the folder also has traces of {others}.")
    about = About(
        title_of(settings["scenario"], name),
        str(settings.get("command", "")),
        {key: str(settings[key]) for key in ("netsim", "core", "python") if key in settings},
        (*notes, *summary["notes"]),
    )
    suffix = "" if algorithm is None else f"-{trace_name(name)[6:-4]}"
    _check_ledger(folder, name, log)
    rounds = found["rounds"]
    rounds = rounds[rounds["algorithm"] == name]
    return Found(log, about, folder, suffix, rounds, _part(folder, "states", name))


def _part(folder: Path, table: str, algorithm: str) -> "pd.DataFrame | None":
    """Return the rows of one algorithm in a table of a folder, or None if there is no such table."""
    found = read_part(folder, table)
    return None if found is None else found[found["algorithm"] == algorithm]


def _check_ledger(folder: Path, algorithm: str, log: TraceFile) -> None:
    """Raise BadInput unless the ledger has as many frames as the trace: then the two are of one run."""
    ledger: Any = _part(folder, "ledger", algorithm)
    offered = 0 if ledger is None or ledger.empty else int(ledger["offered"].sum() + ledger["duplicated"].sum())
    there = log.count("exits") + log.count("in_flight")
    if offered != there:
        raise BadInput(
            f"run folder = {str(folder)!r}: must be of one run; its ledger has {offered:,} frames, its trace {there:,}"
        )
