"""The folder of an experiment: each cell is in ``runs/<key>/``, moved into place by one rename."""

import copyreg
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from netsim.errors import BadInput, one_line
from netsim.studies import reserve
from netsim.studies.experiment.cells import Cell, Measured
from netsim.studies.experiment.content import digest, is_users
from netsim.studies.experiment.paths import plain
from netsim.studies.folder import json_value
from netsim.studies.origin import source_of
from netsim.studies.outcome import FAILED
from netsim.studies.reserve import LOCK, clear_unfinished, refusals, running_in
from netsim.studies.sweeps.cluster import connected, map_there
from netsim.studies.sweeps.point import KILLED, Limits, reason_of, writing
from netsim.util.datafiles import path_of
from netsim.util.files import write_whole

RUNS, INPUTS, EXPERIMENT, TABLE = "runs", "inputs", "experiment.json", "runs.csv"
MOST_BYTES = 64 * 10**6
"""A file that a run read is copied into ``inputs/`` if it is no larger."""

_RUNNING = ".running-"
_OF_KEYS = 20  # number of characters in a key


def check_folder(folder: Path, name: str = "out") -> None:
    """Raise BadInput if a folder contains files that are not an experiment's; ``name`` is the argument's name."""
    others = {each.name for each in folder.iterdir()} - {LOCK} if folder.is_dir() else set()
    if (folder.exists() and not folder.is_dir()) or (others and not (folder / RUNS).is_dir()):
        raise BadInput(f"{name} = {str(folder)!r}: must be a new or empty folder, or the folder of an experiment")


@contextmanager
def held(folder: Path) -> Iterator[Path]:
    """Lock a folder for this process, remove the leftovers of killed runs, and yield the folder for running cells.

    Raises BadInput if the folder has other files, cannot be written or is in use by another experiment.
    """
    check_folder(folder)
    with reserve.held(folder, "run"):
        with refusals(folder):
            (folder / RUNS).mkdir(exist_ok=True)
            clear_unfinished(folder, folder / INPUTS)
        with running_in(folder, _RUNNING) as running:
            yield running


def keys_in(folder: Path) -> list[str]:
    """Return the keys of all cells that a folder holds."""
    return sorted(each.name for each in (folder / RUNS).glob("*") if len(each.name) == _OF_KEYS)


def read(folder: Path, key: str) -> Measured | None:
    """Return a cell's stored results; None if they are missing, or if their digest shows damage."""
    place = folder / RUNS / key
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads((place / "run.json").read_text(encoding="utf-8"))
        data = (place / "rounds.csv").read_bytes()
        if kept.pop("sha256") == _sum(key, kept, data):
            row = {name: float(v["number"]) if isinstance(v, dict) else v for name, v in kept["row"].items()}
            return Measured(place / "rounds.csv", row, kept["read"], kept["about"], kept["doubts"])
    return None


def _sum(key: str, kept: Mapping[str, Any], data: bytes) -> str:
    """Return the digest of a cell's results, which is bound to the cell's key."""
    return digest([key, kept, digest(data)])


def columns_of(folder: Path, key: str) -> tuple[dict[str, Any], Any]:
    """Return the columns and the content of a cell as it ran; no columns and None if its file is damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads((folder / RUNS / key / "run.json").read_text(encoding="utf-8"))
        return dict(kept["columns"]), kept["content"]
    return {}, None


def as_kept(value: Any) -> Any:
    """Return a value as JSON data; a float that JSON lacks (NaN, ∞) becomes {"number": text}."""
    number = plain(value)
    return {"number": repr(number)} if isinstance(number, float) and not math.isfinite(number) else json_value(number)


def keep_inputs(folder: Path, files: Iterable[Path], read_files: Mapping[str, str]) -> list[str]:
    """Copy the user's files and the data files into ``inputs/``; return a note on each file that is left out."""
    left_out: list[str] = []
    kept: dict[str, Path] = {}
    for path in filter(Path.is_file, dict.fromkeys(each.resolve() for each in [*files, *map(path_of, read_files)])):
        if kept.setdefault(path.name, path) != path:
            left_out.append(f"{path} is not among the inputs, where another file has its name.")
        elif path.stat().st_size > MOST_BYTES:
            left_out.append(f"{path.name} is larger than {MOST_BYTES // 10**6} MB, and is not among the inputs.")
        else:
            with refusals(folder):
                (folder / INPUTS).mkdir(exist_ok=True)
                with write_whole(folder / INPUTS / path.name) as file:
                    file.write(path.read_bytes())
    return left_out


def send_caches() -> None:
    """Pickle functions with a cache by value, because a worker cannot import a function of a script."""
    copyreg.pickle(type(cache(len)), _reduced)


def _reduced(function: Any) -> Any:
    if not is_users(function):
        return function.__qualname__
    return _cached, (function.__wrapped__, function.cache_parameters())


def _cached(function: Any, how: Mapping[str, Any]) -> Any:
    return lru_cache(**how)(function)


# --- what workers run -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CellRun:
    """The settings that all cells of an experiment share, as sent to a worker.

    Attributes
    ----------
    folder, running : Path
        The experiment's folder, and the folder of the cells that are running.
    limits : Limits
        The time and the memory that a cell may take.
    """

    folder: Path
    running: Path
    limits: Limits

    def run(self, cell: Cell) -> str | None:
        """Run a cell and write its results; return the reason of a failure, or None."""
        mark = self.running / f"{cell.key}~"
        with writing(self.folder, "run"):
            mark.touch()
        try:
            with self.limits.kept():
                found = cell.measured()
        except KeyboardInterrupt as error:
            reason = reason_of(error, self.limits)
            if not reason.startswith("took"):
                raise
            found = Measured.failed(reason)
        why = self.keep(cell, found)
        mark.unlink(missing_ok=True)
        return why

    def keep(self, cell: Cell, found: Measured) -> str | None:
        """Write a cell's results into ``running``, then rename that folder into place; return the reason of a failure.

        Raises Unsaved if writing or renaming fails.
        """
        with writing(self.folder, "run"):
            place = Path(tempfile.mkdtemp(dir=self.running))
            data = found.rounds.to_csv(index=False).encode()
            (place / "rounds.csv").write_bytes(data)
            kept: dict[str, Any] = {
                "columns": {name: as_kept(value) for name, value in cell.columns.items()},
                "row": {name: as_kept(value) for name, value in found.row.items()},
                "read": found.read,
                "about": found.about,
                "doubts": found.doubts,
                "content": cell.content,
            }
            kept["sha256"] = _sum(cell.key, kept, data)
            (place / "run.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")
            target = self.folder / RUNS / cell.key
            # An existing target is damaged, or another process ran the same cell meanwhile.
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target, ignore_errors=True)
            else:
                target.unlink(missing_ok=True)
            os.rename(place, target)
        return str(found.row["why"]) if found.row["outcome"] == FAILED else None

    def lose(self, name: str) -> str:
        """Return the message that a cell's process was killed each time.

        It is not stored, so the next command runs the cell again.
        """
        return KILLED

    def begun(self) -> set[str]:
        """Return the keys of the cells that have begun but not ended."""
        return {path.name.removesuffix("~") for path in self.running.glob("*~")}

    def forget(self, name: str) -> None:
        """Forget that a cell has started."""
        (self.running / f"{name}~").unlink(missing_ok=True)


def run_there(work: CellRun, cells: Sequence[Cell], address: str) -> Iterator[tuple[str, str | None]]:
    """Run cells on the workers of a scheduler, write their results here, and yield how each ended.

    Raises BadInput if the scheduler cannot be used, or a worker has another netsim.
    """
    with connected(address, work.limits) as client:
        _must_be_alike(client.run(source_of, "netsim", on_error="return"))
        by_key = {cell.key: cell for cell in cells}
        for key, found in map_there(client, Cell.measured, by_key):
            yield key, KILLED if found is None else work.keep(by_key[key], found)


def _must_be_alike(reports: dict[str, object]) -> None:
    for worker, report in sorted(reports.items()):
        if isinstance(report, BaseException):
            raise BadInput(f"dask: worker {worker} must have the netsim that is here ({one_line(report)})")
        if report != source_of("netsim"):
            raise BadInput(f"dask: worker {worker} must have the netsim that is here; its source differs")
