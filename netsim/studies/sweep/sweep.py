"""Running a sweep: what is missing, on so many processes; what failed; one table of all."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim import check
from netsim.errors import BadInput
from netsim.files import write_whole
from netsim.studies import catalogue
from netsim.studies.sweep.grid import Grid, Point, grid
from netsim.studies.sweep.point import Limits, is_done, keep_failure, run_point
from netsim.studies.terminal import Reporter

if TYPE_CHECKING:
    import pandas as pd

_TRIES = 2  # of a point alone with its worker, which dies


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
                rows.append({"point": name, **given, "algorithm": algorithm, **last})
        return pd.DataFrame(rows)


def sweep(
    scenario: str,
    *,
    out: str | Path,
    jobs: int = 1,
    timeout: float | None = None,
    memory: int | None = None,
    retry: bool = False,
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
    timeout : float, optional
        Seconds that a point may take.
    memory : int, optional
        Megabytes that a point may take beyond what its process has.
    retry : bool
        Run points that failed before once more.
    **parameters
        Values, or several in a list, tuple or range, by name.

    Raises
    ------
    BadInput
        For an unknown parameter or a value that it cannot take, or a folder that holds something else.
    """
    check.integer("jobs", jobs, low=1)
    limits = Limits(
        None if timeout is None else check.finite("timeout", timeout, above=0.0),
        None if memory is None else check.integer("memory", memory, low=1),
    )
    chosen = grid(catalogue.find(scenario), parameters)
    folder = _prepared(Path(out), chosen)
    for left in (*folder.glob(".*-*"), *(folder / "failed").glob(".*-*")):
        # Of a sweep that was killed while it wrote a file (`netsim.files.write_whole`).
        left.unlink(missing_ok=True)
    if retry:
        shutil.rmtree(folder / "failed", ignore_errors=True)
    show = reporter or Reporter(quiet=True)
    points = chosen.points()
    failed = _failures(folder)
    missing = [each for each in points if each.name not in failed and not is_done(folder / "points" / each.name)]
    with show.progress(Path(scenario).stem, len(points)) as progress:
        done = len(points) - len(missing)
        progress(done)
        for name, why in _run_all(chosen.scenario, missing, folder, jobs, limits):
            done += 1
            progress(done)
            if why is not None:
                show.line(f"{name} failed: {why}")
    shutil.rmtree(folder / "running", ignore_errors=True)
    found = Sweep(
        folder, chosen, {name: why for name, why in _failures(folder).items() if name in {p.name for p in points}}
    )
    with write_whole(folder / "points.csv") as file:
        file.write(found.table.to_csv(index=False).encode(errors="backslashreplace"))
    return found


def _run_all(
    scenario: str, points: Sequence[Point], folder: Path, jobs: int, limits: Limits
) -> Iterator[tuple[str, str | None]]:
    """Run points, and yield each one's name and why it failed, as they end.

    A worker that is killed, by the system for its memory, say, takes those beside it with it: whoever ran then is run
    again alone, and who kills its worker alone, too, has failed.
    """
    left = {point.name: point for point in points}
    while left:
        try:
            for name, why in _parallel(scenario, list(left.values()), folder, jobs, limits):
                del left[name]
                yield name, why
        except _killed():
            for name in _running(folder) & left.keys():
                yield name, _run_alone(scenario, left.pop(name), folder, limits)


def _parallel(
    scenario: str, points: Sequence[Point], folder: Path, jobs: int, limits: Limits
) -> Iterator[tuple[str, str | None]]:
    from joblib import Parallel, delayed

    tasks = (delayed(_named)(scenario, point, str(folder), limits) for point in points)
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")(tasks)


def _named(scenario: str, point: Point, folder: str, limits: Limits) -> tuple[str, str | None]:
    return point.name, run_point(scenario, point.name, point.settings, folder, limits)


def _run_alone(scenario: str, point: Point, folder: Path, limits: Limits) -> str | None:
    for _ in range(_TRIES):
        try:
            # With one job joblib would run it in this process.
            ((_, why),) = _parallel(scenario, [point], folder, 2, limits)
        except _killed():
            continue
        return why
    return keep_failure(folder, point.name, "its process was killed each time, by the system for its memory perhaps")


def _killed() -> type[BaseException]:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    killed: type[BaseException] = TerminatedWorkerError
    return killed


def _running(folder: Path) -> set[str]:
    """Return the names of the points that had begun and not ended, and forget them."""
    files = list((folder / "running").glob("*")) if (folder / "running").is_dir() else []
    for file in files:
        file.unlink(missing_ok=True)
    return {file.name for file in files}


def _failures(folder: Path) -> dict[str, str]:
    """Return why points failed, by name."""
    found = {}
    for path in sorted((folder / "failed").glob("*.json")):
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
    try:
        about = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
        chosen = Grid(about["scenario"], {name: tuple(values) for name, values in about["values"].items()})
        points = chosen.points()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise BadInput(f"folder = {str(folder)!r}: must be a sweep's; its sweep.json is missing or damaged") from None
    for point in points:
        place = folder / "points" / point.name
        if (place / "summary.json").is_file():
            yield point.name, dict(point.settings), place


def _prepared(folder: Path, chosen: Grid) -> Path:
    """Return the folder of a sweep, with its sweep.json; raises BadInput if it holds something else."""
    about = folder / "sweep.json"
    mine = json.loads(json.dumps({"scenario": chosen.scenario, "values": chosen.values}))
    if about.is_file():
        _must_be_same(folder, about, mine, chosen)
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"out = {str(folder)!r}: must be a new or empty folder, or a sweep's")
    try:
        (folder / "points").mkdir(parents=True, exist_ok=True)
        with write_whole(about) as file:
            file.write(json.dumps(mine, indent=2).encode())
    except OSError as error:
        raise BadInput(f"out = {str(folder)!r}: must be a folder that can be written ({error.strerror})") from None
    return folder


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
