"""One point of a sweep, run where a worker has it: its run folder, or why there is none."""

import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netsim import check
from netsim.errors import NetsimError, one_line
from netsim.files import write_whole
from netsim.studies import catalogue
from netsim.studies.claim import claim
from netsim.studies.folder import load


class _TooLong(KeyboardInterrupt):
    """A point that takes longer than it may: raised into it as Ctrl-C is, which a run knows how to end at."""


def run_point(scenario: str, name: str, settings: Mapping[str, Any], out: str, limits: "Limits") -> str | None:
    """Run a study with some settings into ``out/points/<name>``; return why it failed, or None.

    A failure is kept in ``out/failed/<name>.json``. While it runs there is a file ``out/running/<name>``, so that it is
    known which points ran when a worker was killed.
    """
    folder = Path(out)
    running = folder / "running" / name
    running.parent.mkdir(parents=True, exist_ok=True)
    running.write_text(str(os.getpid()))
    try:
        with limits.kept():
            _run(scenario, settings, folder / "points" / name)
    except (Exception, SystemExit, _TooLong) as error:
        return keep_failure(folder, name, _reason(error, limits))
    finally:
        running.unlink(missing_ok=True)
    return None


def _run(scenario: str, settings: Mapping[str, Any], folder: Path) -> None:
    found = catalogue.find(scenario)
    # What is there is not whole: somebody has changed it.
    shutil.rmtree(folder, ignore_errors=True)
    with claim(folder) as place:
        study = found.prepare(**settings)
        try:
            found.play(study)
        except NetsimError:
            raise
        except (Exception, SystemExit) as error:
            raise NetsimError(catalogue.raised(found, error)) from error
        study.save(place)


def _reason(error: BaseException, limits: "Limits") -> str:
    """Return in one line why a point failed: the limit that it went beyond, wherever it was noticed, or the error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, _TooLong):
            return f"took longer than {limits.seconds:g} s"
        if isinstance(cause, MemoryError):
            return (
                f"took more memory than {limits.megabytes} MB" if limits.megabytes else "took more memory than there is"
            )
        cause = cause.__cause__ or cause.__context__
    text = str(error) if isinstance(error, NetsimError) else f"{type(error).__name__}: {one_line(error)}"
    return " ".join(text.split())


def keep_failure(folder: Path, name: str, why: str) -> str:
    """Keep why a point failed, and return it."""
    (folder / "failed").mkdir(exist_ok=True)
    with write_whole(folder / "failed" / f"{name}.json") as file:
        file.write(json.dumps({"point": name, "error": why}).encode())
    return why


def is_done(folder: Path) -> bool:
    """Return whether a folder holds a whole run."""
    if not (folder / "summary.json").is_file():
        return False
    try:
        load(folder)
    except NetsimError:
        return False
    return True


class Limits:
    """How long a point may take, and how much memory beyond what its worker has; None: as much as there is.

    Parameters
    ----------
    seconds : float, optional
    megabytes : int, optional
    """

    def __init__(self, seconds: float | None = None, megabytes: int | None = None) -> None:
        self.seconds, self.megabytes = seconds, megabytes

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep to the limits meanwhile: _TooLong or MemoryError is raised beyond them."""
        with _seconds(self.seconds), _megabytes(self.megabytes):
            yield


@contextmanager
def _seconds(most: float | None) -> Iterator[None]:
    if most is None:
        yield
        return
    if not hasattr(signal, "SIGALRM"):
        raise check.refuse("timeout", most, "left out on this system, which has no such alarm")
    heeded = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, heeded)


@contextmanager
def _megabytes(most: int | None) -> Iterator[None]:
    if most is None:
        yield
        return
    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        raise check.refuse("memory", most, "left out on this system, which does not tell its use") from None
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + most * 2**20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _stop(*_: object) -> None:
    raise _TooLong
