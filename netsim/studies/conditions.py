"""Repeat a run in a new process, under conditions that must not change results: hash seed, core, workers."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from netsim import core
from netsim.errors import BadInput, NetsimError, one_line
from netsim.util.hashing import VARIABLE, hash_seed, setting

_REFUSED = "refused"
_CHILD = "from netsim.studies.conditions import main; main()"


@dataclass(frozen=True)
class Job:
    """A run to repeat: a study by name or file with parameters, or a pickled function ``make(seed=…)``."""

    study: str
    parameters: Mapping[str, Any]
    make: bytes | None = None
    path: list[str] = field(default_factory=lambda: list(sys.path))
    """Where the function's module is found."""
    trace: bool = False
    tables: str = "csv"


@dataclass(frozen=True)
class Condition:
    """The conditions of a run that must not change its results."""

    hash_seed: int | None
    core: str
    workers: int = 1

    @classmethod
    def here(cls) -> "Condition":
        """Return the condition of a run in this process."""
        return cls(hash_seed(), core.NAME)

    @classmethod
    def recorded(cls, settings: Mapping[str, Any]) -> "Condition | None":
        """Return the condition recorded in a run folder; None if a part is missing, or the hash seed was not fixed."""
        seed, name, workers = settings.get("hash_seed"), settings.get("core"), settings.get("workers", 1)
        known = isinstance(seed, int) and name in ("python", "compiled") and isinstance(workers, int)
        return cls(seed, str(name), workers) if known else None

    def others(self) -> Iterator[tuple[str, "Condition"]]:
        """Yield (name, condition) to compare with: this condition again, and those that differ in one part."""
        yield "again", self
        for seed in [each for each in (0, 1, 2) if each != self.hash_seed][:2]:
            yield f"{VARIABLE}={seed}", replace(self, hash_seed=seed)
        other = "compiled" if self.core == "python" else "python"
        yield f"core {other}", replace(self, core=other)
        workers = 2 if self.workers == 1 else 1
        yield f"{workers} worker{'s' if workers > 1 else ''}", replace(self, workers=workers)

    def run(self, job: Job, folder: Path) -> str:
        """Run a job into a new folder in a new process; return the reason of a failure in one line, else "".

        Raises BadInput if the run is refused.
        """
        folder.mkdir()
        environment = {**os.environ, "NETSIM_CORE": self.core, VARIABLE: setting(self.hash_seed)}
        done = subprocess.run(
            [sys.executable, "-c", _CHILD],
            input=pickle.dumps((job, self.workers, folder)),
            env=environment,
            capture_output=True,
            check=False,
        )
        if not done.returncode:
            return ""
        why = (done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"])[-1]
        refused, _, reason = why.partition(": ")
        # netsim refuses a core that is not built when it is imported, so the class name has its module.
        if refused in (_REFUSED, f"{BadInput.__module__}.{BadInput.__qualname__}"):
            raise BadInput(reason)
        return why


def main() -> None:
    """Run the job read from standard input, in a new process."""
    job, workers, folder = pickle.load(sys.stdin.buffer)
    sys.path[:] = job.path
    try:
        _run(job, workers, folder)
    except BadInput as error:
        sys.exit(f"{_REFUSED}: {one_line(error)}")
    except NetsimError as error:
        sys.exit(one_line(error))
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {one_line(error)}")


def _run(job: Job, workers: int, folder: Path) -> None:
    from netsim.network import spread
    from netsim.studies.folder import write
    from netsim.studies.formats import Formats

    with spread(workers):
        study = _study_of(job)
    # Omit figures, which take long and are not compared.
    study.formats = Formats(figures=(), tables=job.tables)
    if failed := write(study, folder):
        name, why = next(iter(failed.items()))
        raise NetsimError(f"{name} could not be made ({why})")


def _study_of(job: Job) -> Any:
    """Run a job and return its study."""
    from netsim.studies import catalogue
    from netsim.studies.plain import run_made
    from netsim.studies.study import Study

    if job.make is None:
        return catalogue.find_study(job.study).execute(job.trace, **job.parameters)
    study = Study(job.study, job.parameters, trace=job.trace)
    with study.capture():
        run_made(job.study, "make", pickle.loads(job.make)(**job.parameters))
    return study
