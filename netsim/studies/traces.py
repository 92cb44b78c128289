"""The trace of a run folder, or a trace file: find it, check it, and write a page or a file for another program."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim import export as formats
from netsim.accounting.trace import TraceFile
from netsim.errors import BadInput
from netsim.replay.comparison import write_compared
from netsim.replay.frames import MOST, Columns
from netsim.replay.render import About, parts, write
from netsim.run import Progress
from netsim.studies.folder import check_unchanged, load, partial_text, read_part, trace_name
from netsim.studies.study import title_of
from netsim.studies.terminal import Reporter
from netsim.util import check

if TYPE_CHECKING:
    import pandas as pd

    from netsim.replay.picture import Wanted


def replay(
    place: str | Path,
    out: str | Path | None = None,
    *,
    algorithm: str | None = None,
    most: int = MOST,
    follow: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write one HTML file that shows a run and ``most`` of its frames, and return its path.

    ``place`` is a run folder made with ``--trace``, or a trace file. Without ``out`` the page is ``replay.html`` in the
    run folder (``replay-ALGORITHM.html`` for a named algorithm), or beside the trace file under its name. Of several
    algorithms the last is shown, which is usually the subject of the study. ``follow`` is as for `netsim.Run.replay`.
    ``progress`` is called with the number of trace records read; each record is read several times.

    Raises BadInput if the place is neither of these, has no trace, is truncated or changed, or if an argument is
    invalid; NetsimError if the file cannot be written.
    """
    from netsim.replay.picture import FORMATS

    check.integer("most", most, low=1)
    if out is not None and (format := Path(out).suffix[1:].lower()) in FORMATS:
        raise check.refuse("out", str(out), f"a name of a page, such as replay.html; --{format} makes a picture")
    found = find_trace(place, algorithm, progress)
    out = found.target(out, "replay", ".html")
    return write(out, *found.parts(most, follow))


def picture(
    place: str | Path,
    format: str,
    out: str | Path | None = None,
    *,
    algorithm: str | None = None,
    most: int = MOST,
    follow: str | None = None,
    wanted: "Wanted",
    reporter: Reporter | None = None,
) -> Path:
    """Draw a run as "gif", "mp4", "svg" or "png", and return the path of the file.

    Without ``out`` the file is ``replay.FORMAT``, beside the page of `replay`. The other arguments and the errors are
    those of `replay`. ``wanted`` describes the content of the picture.
    """
    from netsim.replay.picture import format_of, write_picture

    reporter = reporter or Reporter(quiet=True)
    # Refuse a wrong format or name before reading a long trace.
    format_of(f"replay.{format}")
    if out is not None and Path(out).suffix[1:].lower() != format:
        raise check.refuse("out", str(out), f"a name that ends in .{format}")
    check.integer("most", most, low=1)
    with reporter.counter("replay", "events read") as progress:
        found = find_trace(place, algorithm, progress)
        path = found.target(out, "replay", f".{format}")
        run = found.parts(most, follow)
    return write_picture(*run, path, wanted, reporter.progress)


def replay_side_by_side(places: Sequence[str | Path], out: str | Path) -> Path:
    """Write one HTML file that shows the runs of two or three run folders side by side, and return its path.

    The errors are those of `replay`, and BadInput unless there are two or three places.
    """
    if len(places) not in (2, 3):
        raise check.refuse("run folders", len(places), "two or three with --replay")
    found = [find_trace(place, None, None) for place in places]
    titles = [each.about.title for each in found]
    names = titles if len(set(titles)) == len(titles) else [str(each) for each in places]
    return write_compared(out, [each.parts(MOST) for each in found], names)


def export(
    place: str | Path,
    format: str,
    out: str | Path | None = None,
    *,
    algorithm: str | None = None,
    most: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write a run as "pcapng" (at most ``most`` frames), "graphml" or "json" (its topology), and return the path.

    Without ``out`` the file is ``run.pcapng``, ``topology.graphml`` or ``topology.json`` in the run folder. For a named
    algorithm, or a trace file, it is named like the page of `replay`, whose other arguments and errors it shares.
    """
    formats.check_format(format, most)
    found = find_trace(place, algorithm, progress)
    path = found.target(out, "run" if format == "pcapng" else "topology", f".{format}")
    return formats.export(found.log, path, format, about=found.about, most=most)


def traced(folder: str | Path) -> list[str]:
    """Return the algorithms with traces in a run folder, in the order of their runs."""
    return _traced(load(folder, partial=True, every=False))


def _traced(found: Mapping[str, Any]) -> list[str]:
    return [name for name in found["summary"]["algorithms"] if trace_name(name) in found["files"]]


@dataclass(frozen=True)
class TracedRun:
    """A trace with its run folder or file and its run's metadata; ``suffix`` ends the names of files made from it."""

    log: TraceFile
    about: About
    path: Path
    suffix: str = ""
    rounds: "pd.DataFrame | None" = None
    states: "pd.DataFrame | None" = None

    def parts(self, most: int, follow: str | None = None) -> tuple[dict[str, Any], Columns]:
        """Return the page's parts (`netsim.replay.render.parts`)."""
        return parts(self.log, about=self.about, most=most, follow=follow, rounds=self.rounds, states=self.states)

    def target(self, out: str | Path | None, name: str, ending: str) -> Path:
        """Return the path for a file: ``out``, or in the run folder, or beside the trace file under its name."""
        if out is None:
            folder = self.path.is_dir()
            out = self.path / f"{name}{self.suffix}{ending}" if folder else self.path.with_suffix(ending)
        if Path(out).exists() and Path(out).samefile(self.log.path):
            raise check.refuse("out", str(out), "another file than the trace")
        return Path(out)


def find_trace(place: str | Path, algorithm: str | None, progress: Progress | None) -> TracedRun:
    """Find the trace of a run folder, or open a trace file."""
    path = Path(place)
    if path.is_dir():
        return _of_folder(path, algorithm, progress)
    if algorithm is not None:
        raise check.refuse("algorithm", algorithm, "left out for a trace file, which is of one run")
    if not path.exists():
        raise check.refuse("run", str(place), "an existing run folder or trace file")
    return TracedRun(TraceFile(path, progress), About(path.name), path)


def _of_folder(folder: Path, algorithm: str | None, progress: Progress | None) -> TracedRun:
    found = load(folder, partial=True, every=False)
    settings, summary, rounds = found["settings"], found["summary"], found["rounds"]
    names = _traced(found)
    if not names:
        raise BadInput(f"run folder = {str(folder)!r}: must hold a trace; run it again with --trace")
    name = names[-1] if algorithm is None else check.one_of("algorithm", algorithm, names)
    check_unchanged(folder, trace_name(name))
    log = TraceFile(folder / trace_name(name), progress)
    notes = [partial_text(found)] if summary["partial"] else []
    if len(names) > 1:
        others = ", ".join(each for each in names if each != name)
        notes.append(f"This is the run of {name}; the folder also has traces of {others}.")
    about = About(
        title_of(settings["study"], name),
        str(settings.get("command", "")),
        {key: str(settings[key]) for key in ("netsim", "core", "python") if key in settings},
        (*notes, *summary["notes"]),
        str(settings.get("question", "")),
    )
    suffix = "" if algorithm is None else f"-{trace_name(name)[6:-4]}"
    _check_ledger(folder, name, log)
    return TracedRun(log, about, folder, suffix, rounds[rounds["algorithm"] == name], read_part(folder, "states", name))


def _check_ledger(folder: Path, algorithm: str, log: TraceFile) -> None:
    """Raise BadInput unless ledger and trace have the same number of frames: otherwise they are of different runs."""
    ledger: Any = read_part(folder, "ledger", algorithm)
    offered = 0 if ledger is None or ledger.empty else int(ledger["offered"].sum() + ledger["duplicated"].sum())
    there = log.count("exits") + log.count("in_flight")
    if offered != there:
        raise BadInput(
            f"run folder = {str(folder)!r}: must be of one run; its ledger has {offered:,} frames, its trace {there:,}"
        )
