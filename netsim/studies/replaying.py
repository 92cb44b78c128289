"""The page of a run folder, or of a trace alone: found, checked and written."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim import check
from netsim.count.trace_file import TraceFile
from netsim.errors import BadInput
from netsim.replay.frames import MOST
from netsim.replay.render import About, render
from netsim.studies.folder import load, read_part, told_partial, trace_name
from netsim.studies.study import title_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["replay", "traced"]


def replay(place: str | Path, out: str | Path | None = None, *, algorithm: str | None = None, most: int = MOST) -> Path:
    """Write one HTML file that shows a run, and return its path.

    Parameters
    ----------
    place : str or Path
        A run folder that was made with ``--trace``, or a trace file.
    out : str or Path, optional
        The file; default: ``replay.html`` in the run folder (``replay-ALGORITHM.html`` for an algorithm that was
        named), or beside the trace file under its name.
    algorithm : str, optional
        Of a run folder with several: which; default: the last, which is the one that the study is about.
    most : int
        Frames that it shows at most.

    Raises
    ------
    BadInput
        If it is neither, was made without a trace, is cut short or changed, or an argument cannot be used.
    NetsimError
        If the file cannot be written.
    """
    check.integer("most", most, low=1)
    path = Path(place)
    if path.is_dir():
        return _of_folder(path, out, algorithm, most)
    if algorithm is not None:
        raise check.refuse("algorithm", algorithm, "left out for a trace file, which is of one run")
    log = TraceFile(path)
    return render(log, path.with_suffix(".html") if out is None else out, about=About(path.name), most=most)


def traced(folder: str | Path) -> list[str]:
    """Return the algorithms of which a run folder has traces, in the order in which they ran."""
    summary = load(folder, partial=True)["summary"]
    return [name for name in summary["algorithms"] if trace_name(name) in summary["bytes"]]


def _of_folder(folder: Path, out: str | Path | None, algorithm: str | None, most: int) -> Path:
    found, names = load(folder, partial=True), traced(folder)
    if not names:
        raise BadInput(f"run folder = {str(folder)!r}: must hold a trace; run it again with --trace")
    name = names[-1] if algorithm is None else check.one_of("algorithm", algorithm, names)
    log = TraceFile(folder / trace_name(name))
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
    usual = "replay.html" if algorithm is None else f"replay-{trace_name(name)[6:-4]}.html"
    _check_ledger(folder, name, log)
    rounds = found["rounds"]
    rounds = rounds[rounds["algorithm"] == name]
    states = _part(folder, "states", name)
    return render(log, folder / usual if out is None else out, about=about, most=most, rounds=rounds, states=states)


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
