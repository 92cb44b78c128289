"""Run a sweep's points, or an experiment's cells, in processes of this machine, even if one is killed."""

import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from netsim.util.datafiles import CACHE, FOLDER
from netsim.util.hashing import VARIABLE, hash_seed, setting

Ended = tuple[str, str | None]
"""The name of a job that ended, and why it failed, or None."""

_LOOKS_S = 0.5  # between two checks of a worker for its parent
_TRIES = 3  # starts of a point alone: in the last one a worker finds the traces of the others, and reports them


class Job(Protocol):
    """A job that a worker runs."""

    @property
    def name(self) -> str:
        """Its name, also a file name."""
        ...


class Work(Protocol):
    """The common settings of all jobs, and a function that runs one."""

    def run(self, job: Any) -> str | None:
        """Run a job and store its results; return the reason of a failure, or None."""
        ...

    def lose(self, name: str) -> str:
        """Keep that a job's process was killed each time, and return that in a line."""
        ...

    def begun(self) -> set[str]:
        """Return the names of the jobs that have begun and not ended."""
        ...

    def forget(self, name: str) -> None:
        """Forget that a job has started."""
        ...


def run_here(work: Work, points: Iterable[Job], jobs: int) -> Iterator[Ended]:
    """Run jobs on ``jobs`` processes, and yield each one's outcome as it ends.

    If a worker is killed, for instance for its memory, the whole pool ends: the interrupted jobs run again one by one,
    and a job whose worker is killed even alone has failed.
    """
    import joblib

    left = {point.name: point for point in points}
    jobs = min(jobs, max(len(left), 2))  # with one job, joblib would run it in this process
    with joblib.parallel_config(backend=_backend()):
        while left:
            try:
                for name, why in run_parallel(work, list(left.values()), jobs):
                    del left[name]
                    yield name, why
            except _killed():
                for name in sorted(work.begun() & left.keys()):
                    work.forget(name)
                    yield name, _run_alone(work, left.pop(name))


def end_with(parent: int) -> None:
    """End this process as soon as its parent, whose id is given, has ended, even by SIGKILL.

    Otherwise it would finish its point and wait for more, occupying memory and standard error.
    """
    threading.Thread(target=_end_with, args=(parent,), name="end with parent", daemon=True).start()


def _end_with(parent: int) -> None:
    if sys.platform == "win32":
        # On Windows an orphan keeps its parent's id, but has a handle to wait for.
        if (other := multiprocessing.parent_process()) is not None:
            other.join()
            os._exit(1)
        return
    while os.getppid() == parent:
        time.sleep(_LOOKS_S)
    os._exit(1)


def _begin(parent: int, *where: str | None) -> None:
    """Start a worker, which looks for files where its parent does: in this folder, with this data folder.

    joblib keeps workers for the next call, unless these arguments differ. A Ctrl-C in a terminal also reaches workers:
    their parent ends them, and they print nothing.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(parent)


def _backend() -> Any:
    """Return joblib's backend of processes, which end with this process and look for files where it does.

    They have its hash seed, too, even if the environment has another one by now: Dask, for instance, sets one there.
    """
    from joblib._parallel_backends import LokyBackend

    class ProcessBackend(LokyBackend):  # type: ignore[misc]
        def configure(self, *words: Any, **more: Any) -> int:
            where = (os.getpid(), os.getcwd(), os.environ.get(FOLDER), os.environ.get(CACHE))
            return int(super().configure(*words, initializer=_begin, initargs=where, **more))

        def _prepare_worker_env(self, n_jobs: int) -> dict[str, str]:
            return {**super()._prepare_worker_env(n_jobs), VARIABLE: setting(hash_seed())}

    return ProcessBackend()


def run_named(work: Work, job: Job) -> Ended:
    """Run a job, and return its outcome."""
    return job.name, work.run(job)


def run_parallel(work: Work, points: Iterable[Job], jobs: int) -> Iterator[Ended]:
    """Run jobs by joblib, with the backend that is chosen."""
    from joblib import Parallel, delayed

    # loky warns when it replaces a worker whose memory has grown, although no point is lost.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    # After a refusal, results that workers produced meanwhile are kept, but not counted.
    warnings.filterwarnings("ignore", r"\d+ tasks (have|which)", UserWarning)
    tasks = (delayed(run_named)(work, point) for point in points)
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")(tasks)


def _run_alone(work: Work, point: Job) -> str | None:
    for _ in range(_TRIES):
        try:
            # With one job, joblib would run the point in this process.
            ((_, why),) = run_parallel(work, [point], 2)
        except _killed():
            continue
        return why
    return work.lose(point.name)


def _killed() -> type[BaseException]:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    killed: type[BaseException] = TerminatedWorkerError
    return killed
