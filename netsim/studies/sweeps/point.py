"""One point of a sweep, run by a worker, which writes the run folder or the reason of failure."""

import dataclasses
import errno
import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from netsim.errors import NetsimError, chain, one_line
from netsim.studies import catalogue, tasks
from netsim.studies.folder import Unsaved, is_whole, write
from netsim.studies.formats import Formats
from netsim.studies.sweeps.grid import Point
from netsim.util import check
from netsim.util.files import write_whole

KILLED = "its process was killed each time, by the system for its memory perhaps"
_MAX_MEGABYTES = 2**40  # a limit above the memory of any system
_TRIES = 2  # how often a point may start if its process is killed each time
_THERE = (errno.EEXIST, errno.ENOTEMPTY)


class _TooLong(KeyboardInterrupt):
    """A point exceeded its time limit; a KeyboardInterrupt, because Ctrl-C ends a run in order."""


@dataclass(frozen=True)
class Limits:
    """The limits of a point's time (s), and of its memory (MB) beyond what the worker already uses; None: no limit.

    Raises BadInput for invalid values.
    """

    seconds: float | None = None
    megabytes: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            check.finite("timeout", self.seconds, above=0.0)
        if self.megabytes is not None:
            check.integer("memory", self.megabytes, low=1, high=_MAX_MEGABYTES)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Raise _TooLong or MemoryError if the block exceeds the limits."""
        with _seconds(self.seconds), _megabytes(self.megabytes):
            yield


@dataclass(frozen=True)
class SweepRun:
    """The settings that all points of a sweep share."""

    study: str
    """The study's name, or the path of its file, as it was given."""
    file: str
    """The same as a worker finds it."""
    folder: Path
    """The sweep's, as a worker finds it."""
    running: Path
    """Where running points are written: a folder of this execution, gone for a process that outlived an earlier one."""
    limits: Limits
    formats: Formats
    """Of the points' tables."""
    source_hashes: Mapping[str, Any] = field(default_factory=dict)
    """What `netsim.studies.catalogue.StudyDefinition.source_hashes` returned as the sweep began."""

    def run(self, point: Point) -> str | None:
        """Run a point's study and write its folder ``points/<name>``; return the reason of a failure, or None.

        A failure is recorded in ``failed/<name>.json``. During the run a folder ``<name>~<number>`` exists in
        ``running``. If it remains, a worker was killed while it ran the point; ``number`` counts from 0. Raises Unsaved
        if the sweep's folder cannot be written, which is no failure of the point.
        """
        if is_whole(self.folder / "points" / point.name):
            # A worker finished the point, but was killed before it could report.
            return None
        with writing(self.folder):
            place = self._begin(point.name)
        if place is None:
            return self.lose(point.name)
        origin: dict[str, Any] = {}
        try:
            with self.limits.kept():
                self._play(point, place, origin)
        except Unsaved:
            raise
        except (Exception, SystemExit, _TooLong) as error:
            why = reason_of(error, self.limits)
            # Without ``running`` the sweep was restarted, and this process outlived it: record no failure.
            return self._keep(point.name, why, origin) if self.running.is_dir() else why
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return None

    def lose(self, name: str) -> str:
        """Record that a point's process was killed each time, and return that reason."""
        return self._keep(name, KILLED, {})

    def begun(self) -> set[str]:
        """Return the names of the points that have begun but not ended."""
        return {path.name.rpartition("~")[0] for path in self.running.iterdir()}

    def forget(self, name: str) -> None:
        """Remove the traces of a point's starts."""
        for path in self.running.glob(f"{name}~*"):
            shutil.rmtree(path, ignore_errors=True)

    def _begin(self, name: str) -> Path | None:
        """Create and return a new folder to write into; None if the point has already been killed `_TRIES` times."""
        for place in [self.running / f"{name}~{number}" for number in range(_TRIES)]:
            with suppress(FileExistsError):
                place.mkdir()
                return place
        return None

    def _play(self, point: Point, place: Path, origin: dict[str, Any]) -> None:
        """Run a point, and rename its complete folder into place; ``origin`` is filled even if the point fails."""
        found = dataclasses.replace(catalogue.find_study(self.file), name=self.study)
        study = found.prepare(**point.settings)
        study.formats = self.formats
        study.origin["point"] = point.name
        if self.limits.megabytes is not None:
            # The memory limit is relative to the worker's use: a shared task would count for the first point only.
            tasks.forget()
        try:
            found.play(study)
        except NetsimError:
            raise
        except (Exception, SystemExit) as error:
            raise NetsimError(catalogue.raised(found, error)) from error
        finally:
            origin |= study.origin
        with writing(self.folder):
            failed = write(study, place)
            _rename(place, self.folder / "points" / point.name)
        if failed:
            reasons = "; ".join(f"{name} could not be made ({why})" for name, why in failed.items())
            raise NetsimError(f"{reasons}; the rest is in points/{point.name}")

    def _keep(self, name: str, why: str, origin: Mapping[str, Any]) -> str:
        """Record the reason of a point's failure, with its origin, and return the reason."""
        about = {"files_sha256": {}, **self.source_hashes, **origin}
        kept = {"point": name, "error": why} | {key: each for key, each in about.items() if key.endswith("_sha256")}
        with writing(self.folder):
            (self.folder / "failed").mkdir(exist_ok=True)
            with write_whole(self.folder / "failed" / f"{name}.json") as file:
                file.write(json.dumps(kept).encode())
        return why


@contextmanager
def writing(folder: Path, again: str = "command") -> Iterator[None]:
    """Raise Unsaved for an OSError in the block, which writes into a sweep's folder; ``again`` continues the sweep."""
    try:
        yield
    except OSError as error:
        raise Unsaved(
            f"out = {str(folder)!r}: could not be written ({error.strerror or one_line(error)}); "
            f"what is done is whole, and the same {again} goes on"
        ) from None


def _rename(place: Path, folder: Path) -> None:
    """Rename a complete run folder into place, unless another worker, presumed dead, has done so."""
    try:
        os.rename(place, folder)
    except OSError as error:
        if error.errno not in _THERE:
            raise
        if not is_whole(folder):
            # The existing folder is damaged, so this one replaces it.
            shutil.rmtree(folder)
            _rename(place, folder)


def reason_of(error: BaseException, limits: Limits) -> str:
    """Return a point's failure in one line: the exceeded limit, found anywhere in the error's chain, or the error."""
    for cause in chain(error):
        if isinstance(cause, _TooLong):
            return f"took longer than {limits.seconds:g} s"
        if isinstance(cause, MemoryError):
            most = f"{limits.megabytes} MB" if limits.megabytes else "there is"
            return f"took more memory than {most}"
    text = str(error) if isinstance(error, NetsimError) else f"{type(error).__name__}: {one_line(error)}"
    return " ".join(text.split())


@contextmanager
def _seconds(most: float | None) -> Iterator[None]:
    if most is None:
        yield
        return
    if not hasattr(signal, "SIGALRM"):
        raise check.refuse("timeout", most, "left out on this system, which has no such alarm")
    before = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _megabytes(most: int | None) -> Iterator[None]:
    if most is None:
        yield
        return
    _load_libraries()
    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        raise check.refuse("memory", most, "left out on this system, which does not report its use") from None
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + most * 2**20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@cache
def _load_libraries() -> None:
    """Load the libraries of studies before the memory limit applies, because OpenBLAS loops forever without buffers."""
    import networkx
    import numpy as np
    import pandas as pd
    import scipy.linalg
    from matplotlib.figure import Figure

    square = np.eye(256)
    scipy.linalg.cho_solve(scipy.linalg.cho_factor(square @ square), square)
    networkx.path_graph(2)
    pd.DataFrame({"a": [1.0]}).to_csv()
    Figure(layout="constrained").subplots().plot([0.0, 1.0], label="a")


def _stop(*_: object) -> None:
    raise _TooLong
