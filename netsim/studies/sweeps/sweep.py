"""Sweeps: run the missing points, record failures and write one table of all points."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import BadInput, NetsimError
from netsim.studies import catalogue
from netsim.studies.folder import is_whole
from netsim.studies.formats import Formats
from netsim.studies.origin import changed_files, changed_source
from netsim.studies.reserve import LOCK, clear_unfinished, held, refusals, running_in
from netsim.studies.sweeps.cluster import connected, must_be_able, run_there
from netsim.studies.sweeps.grid import Grid, Point, grid
from netsim.studies.sweeps.point import Limits, SweepRun, writing
from netsim.studies.sweeps.workers import Ended, run_here
from netsim.studies.terminal import Reporter
from netsim.util import check
from netsim.util.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

_RUNNING_PREFIX = "running-"
_SHARED = ("seed", "data_seed", "graph_seed")  # parameters that determine a problem


@dataclass(frozen=True)
class Sweep:
    """A sweep and its results so far.

    Attributes
    ----------
    folder : Path
        The folder, which contains ``points/`` with one run folder per point, and ``points.csv``, the table of all
        points.
    grid : Grid
        The parameters and their values.
    failed : dict
        The reason for each failure, by the point's name.
    """

    folder: Path
    grid: Grid
    failed: dict[str, str]

    @property
    def table(self) -> "pd.DataFrame":
        """One row per point and algorithm: the point's name, its settings and the last value of each column."""
        import pandas as pd

        rows = []
        for name, given, place in read_points(self.folder):
            summary = json.loads((place / "summary.json").read_text(encoding="utf-8"))
            for algorithm, last in summary["algorithms"].items():
                rows.append({"point": name, **free(given, {*last, "algorithm"}), "algorithm": algorithm, **last})
        return pd.DataFrame(rows)


def sweep(
    study: str,
    *,
    out: str | Path,
    jobs: int = 1,
    dask: str | None = None,
    timeout: float | None = None,
    memory: int | None = None,
    retry: bool = False,
    redo: bool = False,
    tables: str | None = None,
    reporter: Reporter | None = None,
    **parameters: Any,
) -> Sweep:
    """Run a study at every combination of its parameters' values.

    Points already finished in ``out`` are skipped, so an interrupted or killed sweep resumes. Points share no state;
    points with the same seed draw the same random numbers. All points must use the same code and data: each point
    records the SHA-256 of the study's file, of the files it read and of netsim's source.

    Parameters
    ----------
    study : str
        The study's name, or the path of its file.
    out : str or Path
        Folder of the sweep: a new or empty one, or that of the same sweep.
    jobs : int
        Number of processes.
    dask : str, optional
        Address of a Dask scheduler, such as ``tcp://host:8786``, whose workers run the points; each needs one thread,
        the same netsim, and access to the data folder and ``out``. Cannot be combined with ``jobs``, ``timeout`` and
        ``memory``.
    timeout : float, optional
        Seconds that a point may take.
    memory : int, optional
        Megabytes that a point may use in addition to what its process already uses.
    retry : bool
        Rerun points that failed before.
    redo : bool
        Rerun points whose code or data have changed since they ran.
    tables : str, optional
        The format of the points' tables: "csv" (the default) or "parquet"; `netsim.studies.results.load` reads both.
    **parameters
        The study's parameters by name: one value each, or several in a list, tuple or range.

    Raises
    ------
    BadInput
        For an unknown parameter or format, an invalid value, a folder that holds other files, points of other code or
        data, or is in use by another sweep, or a cluster that is unreachable or lacks a requirement.
    NetsimError
        If code or data changed during the sweep, so that points of several versions exist.
    Unsaved
        If the folder cannot be written, as on a full disk; finished points are complete.
    """
    check.integer("jobs", jobs, low=1)
    if dask is not None and jobs != 1:
        raise check.refuse("jobs", jobs, "left out with dask, which uses all workers of the cluster")
    limits = Limits(timeout, memory)
    # Save no figures: drawing them may take longer than the point, and a thousand points have too many to view.
    formats = dataclasses.replace(Formats.chosen(tables=tables), figures=())
    definition = catalogue.find_study(study)
    chosen, source_hashes = grid(definition, parameters), definition.source_hashes()
    show = reporter or Reporter(quiet=True)

    def examine(folder: Path) -> None:
        if retry:
            shutil.rmtree(folder / "failed", ignore_errors=True)
        _check_versions(source_hashes, folder, chosen, redo)

    with (
        nullcontext() if dask is None else connected(dask, limits) as client,
        _acquired(Path(out), chosen, examine) as running,
    ):
        folder = running.parent
        file = study if client is None or not study.endswith(".py") else str(Path(study).absolute())
        work = SweepRun(study, file, folder.absolute(), running.absolute(), limits, formats, source_hashes)
        if client is not None:
            must_be_able(client, work)

        def run(missing: list[Point]) -> Iterator[Ended]:
            return run_here(work, missing, jobs) if client is None else run_there(work, missing, client)

        _run_missing(work, chosen, show, run)
        _check_one_version(source_hashes, folder, chosen)
        found = read_sweep(folder)
        with writing(folder), write_whole(folder / "points.csv") as csv:
            csv.write(found.table.to_csv(index=False).encode(errors="backslashreplace"))
    return found


def _run_missing(work: SweepRun, chosen: Grid, show: Reporter, run: Callable[[list[Point]], Iterator[Ended]]) -> None:
    """Run the points that have neither finished nor failed."""
    points = chosen.points()
    failures = _kept_failures(work.folder)
    missing = [
        each for each in points if each.name not in failures and not is_whole(work.folder / "points" / each.name)
    ]
    failed = sum(each.name in failures for each in points)
    done = len(points) - len(missing) - failed
    # Run points with equal seeds in succession, because they may share a problem (`netsim.studies.tasks`).
    order: dict[Any, int] = {}
    missing.sort(key=lambda each: order.setdefault(tuple(map(each.settings.get, _SHARED)), len(order)))
    with show.tally(Path(chosen.study).stem, len(points)) as tally:
        tally(done, failed)
        for name, why in run(missing):
            done, failed = done + (why is None), failed + (why is not None)
            if why is not None:
                show.line(f"{name} failed: {why}")
            tally(done, failed)


def _kept_failures(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Return the failure record of each failed point, by the point's name."""
    found = {}
    for path in sorted((folder / "failed").glob("*.json")):
        with suppress(ValueError, KeyError, TypeError):
            # Ignore a damaged file, so that its point runs again.
            kept = json.loads(path.read_text(encoding="utf-8"))
            found[str(kept["point"])] = kept | {"error": str(kept["error"])}
    return found


def read_points(folder: Path) -> Iterator[tuple[str, dict[str, Any], Path]]:
    """Yield the name, settings and run folder of each finished point of a sweep.

    Raises BadInput if the folder holds no sweep, its sweep.json is damaged or a point's folder holds another point's
    run.
    """
    for point in read_sweep(folder).grid.points():
        place = folder / "points" / point.name
        if (place / "summary.json").is_file():
            if (ran := _settings_of(place).get("point", point.name)) != point.name:
                raise BadInput(f"folder = {str(place)!r}: must hold the run of {point.name}, but holds that of {ran}")
            yield point.name, dict(point.settings), place


def read_failures(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and settings of each point of a sweep that failed; raises BadInput as `read_points` does."""
    found = read_sweep(folder)
    for point in found.grid.points():
        if point.name in found.failed and not (folder / "points" / point.name / "summary.json").is_file():
            yield point.name, dict(point.settings)


def _settings_of(place: Path) -> Mapping[str, Any]:
    """Return the content of a run folder's settings.json; an empty mapping if it is missing or damaged."""
    with suppress(OSError, ValueError):
        settings = json.loads((place / "settings.json").read_text(encoding="utf-8"))
        if isinstance(settings, dict):
            return settings
    return {}


def read_sweep(folder: Path) -> Sweep:
    """Read a finished or unfinished sweep from its folder; raises BadInput as `read_points` does."""
    chosen, failures = _read_grid(folder), _kept_failures(folder)
    names = {point.name for point in chosen.points()}
    return Sweep(folder, chosen, {name: str(kept["error"]) for name, kept in failures.items() if name in names})


def _read_grid(folder: Path) -> Grid:
    """Read the grid of a sweep from its folder; raises BadInput if sweep.json is missing or damaged."""
    try:
        about = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
        values = {name: tuple(several) for name, several in about["values"].items()}
        idle = {name: (str(at), of) for name, (at, of) in about.get("idle", {}).items()}
        return Grid(about["study"], values, idle)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise BadInput(
            f"folder = {str(folder)!r}: must be the folder of a sweep, but its sweep.json is missing or damaged"
        ) from None


def free(settings: Mapping[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """Prefix with ``given_`` the settings whose names are also columns, such as ``loss`` if a study measures a loss."""
    return {f"given_{name}" if name in columns else name: value for name, value in settings.items()}


def unfinished(folder: Path) -> str:
    """Return one line on a sweep's missing points; empty if none are missing or the folder holds no sweep.

    Raises BadInput as `read_points` does.
    """
    if not (folder / "sweep.json").is_file():
        return ""
    whole, done = read_sweep(folder), {name for name, _, _ in read_points(folder)}
    points = whole.grid.points()
    missing = {point.name for point in points} - done
    if not missing:
        return ""
    failed = len(missing & whole.failed.keys())
    why = f" ({failed:,} of them failed)" if failed else ""
    return f"{folder} is unfinished: {len(missing):,} of {len(points):,} points are missing{why}"


def runs_of(folder: Path) -> list[Path]:
    """Return the run folders of a sweep's finished points, or the folder itself if it is not a sweep's.

    Raises BadInput as `read_points` does.
    """
    return [place for _, _, place in read_points(folder)] if (folder / "sweep.json").is_file() else [folder]


# --- checks that all points use the same code and data ----------------------------------------------------------------


def _changes(source_hashes: Mapping[str, Any], folder: Path, chosen: Grid) -> dict[str, list[str]]:
    """Return which code and data changed since each point finished or failed."""
    found, failures = {}, _kept_failures(folder)
    for point in chosen.points():
        place = folder / "points" / point.name
        if is_whole(place) or point.name in failures:
            kept = _settings_of(place) if is_whole(place) else failures[point.name]
            changed = changed_files(kept, source_hashes, chosen.study) + changed_source(kept, source_hashes)
            found[point.name] = changed
    return found


def _check_versions(source_hashes: Mapping[str, Any], folder: Path, chosen: Grid, redo: bool) -> None:
    """Raise BadInput if a point ran with code or data that have changed; with ``redo``, delete such points."""
    recorded = _changes(source_hashes, folder, chosen)
    changed = {name: what for name, what in recorded.items() if what}
    if not changed:
        return
    if not redo:
        raise BadInput(
            f"out = {str(folder)!r}: must hold points that ran with the current code and data; {_names(changed)} "
            f"changed since {len(changed)} of its {len(recorded)} points ran (--redo reruns them; choose a new folder "
            "to keep them)"
        )
    (folder / "points.csv").unlink(missing_ok=True)
    for name in changed:
        shutil.rmtree(folder / "points" / name, ignore_errors=True)
        (folder / "failed" / f"{name}.json").unlink(missing_ok=True)


def _names(changed: Mapping[str, list[str]]) -> str:
    """Return what changed for any point."""
    return ", ".join(dict.fromkeys(name for several in changed.values() for name in several))


def _check_one_version(source_hashes: Mapping[str, Any], folder: Path, chosen: Grid) -> None:
    """Raise NetsimError and delete points.csv if code or data changed since the sweep began."""
    if mixed := _names(_changes(source_hashes, folder, chosen)):
        (folder / "points.csv").unlink(missing_ok=True)
        raise NetsimError(
            f"out = {str(folder)!r}: must hold points of one version; {mixed} changed while the sweep ran "
            "(--redo reruns the points of other versions)"
        )


@contextmanager
def _acquired(folder: Path, chosen: Grid, examine: Callable[[Path], None]) -> Iterator[Path]:
    """Lock a folder for this process, write its sweep.json and yield the directory in which its points run.

    Temporary files are removed first; then ``examine`` may reject the points of an existing sweep, before sweep.json is
    written. Raises BadInput if the folder holds other files, cannot be written or is locked by another process.
    """
    about = folder / "sweep.json"
    # Accept the files left by a sweep that was killed before it wrote its sweep.json.
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else [folder.name]
    others = [name for name in names if not name.startswith((LOCK, ".sweep.json."))]
    if folder.exists() and not about.is_file() and others:
        raise BadInput(f"out = {str(folder)!r}: must be a new or empty folder, or the folder of a sweep")
    with held(folder, "sweep"):
        clear_unfinished(folder, folder / "failed")
        if about.is_file():
            _check_same_sweep(folder, chosen)
            examine(folder)
        with refusals(folder):
            with write_whole(about) as file:
                settings = {name: value for name, value in vars(chosen).items() if value or name != "idle"}
                file.write(json.dumps(settings, indent=2).encode())
            (folder / "points").mkdir(exist_ok=True)
        with running_in(folder, _RUNNING_PREFIX) as running:
            yield running


def _check_same_sweep(folder: Path, chosen: Grid) -> None:
    """Raise BadInput unless the folder holds this sweep: same study, fixed values and swept parameters."""
    try:
        there = _read_grid(folder)
    except BadInput:
        raise BadInput(f"out = {str(folder)!r}: must be a new folder; its sweep.json is damaged") from None
    held = f"out = {str(folder)!r}: must be a new folder; it holds a sweep"
    if there.study != chosen.study or there.swept != chosen.swept:
        raise BadInput(f"{held} of {there.study} over {', '.join(there.swept) or 'nothing'}")
    if there.fixed != chosen.fixed:
        given = ", ".join(f"{name} = {value}" for name, value in there.fixed.items())
        raise BadInput(f"{held} with {given or 'no other parameters'}")
