"""Running a sweep: what is missing, on so many processes; what failed; one table of all."""

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim import check
from netsim.errors import BadInput
from netsim.files import write_whole
from netsim.studies import catalogue
from netsim.studies.claim import LOCK, locked
from netsim.studies.folder import is_whole
from netsim.studies.formats import Formats
from netsim.studies.sweep.cluster import connected, must_be_able, run_there
from netsim.studies.sweep.grid import Grid, Point, grid
from netsim.studies.sweep.point import Limits, Work, unwritten
from netsim.studies.sweep.workers import Ended, run_here
from netsim.studies.terminal import Reporter

if TYPE_CHECKING:
    import pandas as pd

_RUNNING = "running-"


@dataclass(frozen=True)
class Sweep:
    """What a sweep has come to.

    Attributes
    ----------
    folder : Path
        ``points/`` has a run folder for each point, ``points.csv`` one table of all.
    grid : Grid
        The parameters and their values.
    failed : dict
        Why, by the name of the point, for those that failed.
    """

    folder: Path
    grid: Grid
    failed: dict[str, str]

    @property
    def table(self) -> "pd.DataFrame":
        """One row for each point and algorithm: the point, what was given, and the last value of each column."""
        import pandas as pd

        rows = []
        for name, given, place in read_points(self.folder):
            summary = json.loads((place / "summary.json").read_text(encoding="utf-8"))
            for algorithm, last in summary["algorithms"].items():
                rows.append({"point": name, **free(given, {*last, "algorithm"}), "algorithm": algorithm, **last})
        return pd.DataFrame(rows)


def sweep(
    scenario: str,
    *,
    out: str | Path,
    jobs: int = 1,
    dask: str | None = None,
    timeout: float | None = None,
    memory: int | None = None,
    retry: bool = False,
    tables: str | None = None,
    reporter: Reporter | None = None,
    **parameters: Any,
) -> Sweep:
    """Run a study at every combination of its parameters' values.

    What is done already in ``out`` is not done again: a sweep that was interrupted, or killed, goes on. Points share no
    state; settings that name the same seed draw the same numbers.

    Parameters
    ----------
    scenario : str
        Its name, or the path of its file.
    out : str or Path
        The folder of the sweep, new or its own.
    jobs : int
        Number of processes.
    dask : str, optional
        The address of a Dask scheduler, as ``tcp://host:8786``, whose workers run the points instead: of one thread
        each, with the same netsim, folder of data and ``out``. Then without ``jobs``, ``timeout`` and ``memory``.
    timeout : float, optional
        Seconds that a point may take.
    memory : int, optional
        Megabytes that a point may take beyond what its process has.
    retry : bool
        Run points that failed before once more.
    tables : str, optional
        The format of the points' tables: "csv" (the default) or "parquet"; `netsim.results.load` reads both.
    **parameters
        Values, or several in a list, tuple or range, by name.

    Raises
    ------
    BadInput
        For an unknown parameter or format, or a value that it cannot take, a folder that holds something else or that
        another sweep writes, or a cluster that cannot be reached or lacks something.
    Unsaved
        If the folder cannot be written, as on a full disk; what is done is whole.
    """
    check.integer("jobs", jobs, low=1)
    if dask is not None and jobs != 1:
        raise check.refuse("jobs", jobs, "left out with dask, whose workers are as many as there are")
    limits = Limits(
        None if timeout is None else check.finite("timeout", timeout, above=0.0),
        None if memory is None else check.integer("memory", memory, low=1),
    )
    # To draw the figures of a point takes longer than many a point, and nobody looks at those of a thousand.
    formats = dataclasses.replace(Formats.chosen(tables=tables), figures=())
    chosen = grid(catalogue.find(scenario), parameters)
    show = reporter or Reporter(quiet=True)
    with nullcontext() if dask is None else connected(dask, limits) as client, _opened(Path(out), chosen) as running:
        folder = running.parent
        if retry:
            shutil.rmtree(folder / "failed", ignore_errors=True)
        file = scenario if client is None or not scenario.endswith(".py") else str(Path(scenario).absolute())
        work = Work(scenario, file, folder.absolute(), running.absolute(), limits, formats)
        if client is not None:
            must_be_able(client, work)
        _run_missing(
            work,
            chosen,
            show,
            lambda missing: run_here(work, missing, jobs) if client is None else run_there(work, missing, client),
        )
        found = read_sweep(folder)
        try:
            with write_whole(folder / "points.csv") as csv:
                csv.write(found.table.to_csv(index=False).encode(errors="backslashreplace"))
        except OSError as error:
            raise unwritten(folder, error) from None
    return found


def _run_missing(work: Work, chosen: Grid, show: Reporter, run: Callable[[list[Point]], Iterator[Ended]]) -> None:
    """Run the points that are neither done nor have failed."""
    points = chosen.points()
    failures = _failures(work.folder)
    missing = [
        each for each in points if each.name not in failures and not is_whole(work.folder / "points" / each.name)
    ]
    failed = sum(each.name in failures for each in points)
    done = len(points) - len(missing) - failed
    with show.tally(Path(chosen.scenario).stem, len(points)) as tally:
        tally(done, failed)
        for name, why in run(missing):
            done, failed = done + (why is None), failed + (why is not None)
            if why is not None:
                show.line(f"{name} failed: {why}")
            tally(done, failed)


def _failures(folder: Path) -> dict[str, str]:
    """Return why points failed, by name."""
    found = {}
    for path in sorted((folder / "failed").glob("*.json")):
        with suppress(ValueError, KeyError, TypeError):
            # One that somebody has changed is none: its point is run again.
            kept = json.loads(path.read_text(encoding="utf-8"))
            found[str(kept["point"])] = str(kept["error"])
    return found


def read_points(folder: Path) -> Iterator[tuple[str, dict[str, Any], Path]]:
    """Yield each point of a sweep that is done: its name, what was given, its run folder.

    Raises
    ------
    BadInput
        If there is no sweep, or its sweep.json is damaged.
    """
    for point in read_sweep(folder).grid.points():
        place = folder / "points" / point.name
        if (place / "summary.json").is_file():
            yield point.name, dict(point.settings), place


def read_sweep(folder: Path) -> Sweep:
    """Return a sweep by its folder, however far it came; raises BadInput as `read_points` does."""
    try:
        about = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
        chosen = Grid(about["scenario"], {name: tuple(values) for name, values in about["values"].items()})
        names = {point.name for point in chosen.points()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise BadInput(f"folder = {str(folder)!r}: must be a sweep's; its sweep.json is missing or damaged") from None
    return Sweep(folder, chosen, {name: why for name, why in _failures(folder).items() if name in names})


def free(settings: Mapping[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """Return settings by names that no column has: ``given_loss`` where a study measures a loss, too."""
    return {f"given_{name}" if name in columns else name: value for name, value in settings.items()}


def runs_of(folder: Path) -> list[Path]:
    """Return the run folders of a sweep's points that are done, or of what is no sweep the folder itself.

    Raises
    ------
    BadInput
        If it is a sweep whose sweep.json is damaged.
    """
    return [place for _, _, place in read_points(folder)] if (folder / "sweep.json").is_file() else [folder]


@contextmanager
def _opened(folder: Path, chosen: Grid) -> Iterator[Path]:
    """Make a folder that of a sweep, with its sweep.json, for this process only; yield where its points are to run.

    Raises
    ------
    BadInput
        If it holds something else, cannot be written, or another process has it.
    """
    about = folder / "sweep.json"
    begun = [folder] if not folder.is_dir() else [each for each in folder.iterdir() if not _is_begun(each.name)]
    if folder.exists() and not about.is_file() and begun:
        raise BadInput(f"out = {str(folder)!r}: must be a new or empty folder, or a sweep's")
    with _refusals(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder) as mine:
        if not mine:
            raise BadInput(
                f"out = {str(folder)!r}: must be a folder that no other sweep writes; "
                f"if none does, one was killed: then remove {str(folder / LOCK)!r}"
            )
        for left in (
            *folder.glob(".sweep.json.*"),
            *folder.glob(".points.csv.*"),
            *(folder / "failed").glob(".*.json.*"),
        ):
            # Of a sweep that was killed while it wrote a file (`netsim.files.write_whole`).
            left.unlink(missing_ok=True)
        for left in folder.glob(f"{_RUNNING}*"):
            shutil.rmtree(left, ignore_errors=True)
        settings = json.loads(json.dumps({"scenario": chosen.scenario, "values": chosen.values}))
        if about.is_file():
            _must_be_same(folder, about, settings, chosen)
        with _refusals(folder):
            with write_whole(about) as file:
                file.write(json.dumps(settings, indent=2).encode())
            (folder / "points").mkdir(exist_ok=True)
            running = Path(tempfile.mkdtemp(prefix=_RUNNING, dir=folder))
        try:
            yield running
        finally:
            shutil.rmtree(running, ignore_errors=True)


def _is_begun(name: str) -> bool:
    """Return whether a file is of a sweep that was killed before it had written its sweep.json."""
    return name == LOCK or name.startswith(".sweep.json.")


@contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(f"out = {str(folder)!r}: must be a folder that can be written ({error.strerror})") from None


def _must_be_same(folder: Path, about: Path, mine: dict[str, Any], chosen: Grid) -> None:
    """Raise BadInput unless a folder's sweep is this one, with more or fewer values of what is swept."""
    try:
        there = json.loads(about.read_text(encoding="utf-8"))
        fixed = {name: values for name, values in there["values"].items() if len(values) == 1}
        swept = [name for name, values in there["values"].items() if len(values) > 1]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadInput(f"out = {str(folder)!r}: must be a new folder; its sweep.json is damaged") from None
    held = f"out = {str(folder)!r}: must be a new folder; it holds a sweep"
    if there["scenario"] != chosen.scenario or swept != chosen.swept:
        raise BadInput(f"{held} of {there['scenario']} over {', '.join(swept) or 'nothing'}")
    if fixed != {name: values for name, values in mine["values"].items() if len(values) == 1}:
        told = ", ".join(f"{name} = {values[0]}" for name, values in fixed.items())
        raise BadInput(f"{held} with {told or 'nothing else given'}")
