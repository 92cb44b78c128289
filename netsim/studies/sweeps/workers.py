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

_LOOKS_S = 0.5  # seconds between two checks of a worker whether its parent lives
_TRIES = 3  # starts of a point alone: in the last one a worker finds the traces of earlier starts, and reports them


class Job(Protocol):
    """A job that a worker runs."""

    @property
    def name(self) -> str:
        """The job's name, also used as a file name."""
        ...


class Work(Protocol):
    """The settings that all jobs share, and a function that runs a job."""

    def run(self, job: Any) -> str | None:
        """Run a job and store its results; return the reason of a failure, or None."""
        ...

    def lose(self, name: str) -> str:
        """Record that a job's process was killed each time, and return that reason."""
        ...

    def begun(self) -> set[str]:
        """Return the names of the jobs that have begun but not ended."""
        ...

    def forget(self, name: str) -> None:
        """Remove the traces of a job's starts."""
        ...


def run_here(work: Work, points: Iterable[Job], jobs: int) -> Iterator[Ended]:
    """Run jobs on ``jobs`` processes, and yield each one's outcome as it ends.

    If a worker is killed, for instance for its memory, the whole pool ends. The interrupted jobs then run again one by
    one; a job whose worker is killed each time it runs alone has failed.
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
    """End this process as soon as the process ``parent`` (its id) has ended, even by SIGKILL.

    Without this, an orphaned worker would finish its point and wait for more, occupying memory and standard error.
    """
    threading.Thread(target=_end_with, args=(parent,), name="end with parent", daemon=True).start()


def _end_with(parent: int) -> None:
    if sys.platform == "win32":
        # On Windows an orphan keeps its parent's id, so wait for the parent's handle.
        if (other := multiprocessing.parent_process()) is not None:
            other.join()
            os._exit(1)
        return
    while os.getppid() == parent:
        time.sleep(_LOOKS_S)
    os._exit(1)


def _begin(parent: int, *where: str | None) -> None:
    """Initialize a worker; it inherits the parent's working folder and data folder.

    The arguments ``where`` are those folders: joblib reuses workers for the next call only if all arguments are equal.
    A Ctrl-C in a terminal also reaches workers. They ignore it and print nothing, because their parent ends them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(parent)


def _backend() -> Any:
    """Return joblib's backend of processes, which end with this process and use its working and data folders.

    The workers get this process's hash seed, even if the environment has another value by now: Dask, for instance, sets
    one.
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
    """Run a job, and return (name, outcome)."""
    return job.name, work.run(job)


def run_parallel(work: Work, points: Iterable[Job], jobs: int) -> Iterator[Ended]:
    """Run jobs by joblib with the active backend, and yield each outcome as the job ends."""
    from joblib import Parallel, delayed

    # loky warns when it replaces a worker whose memory has grown, although no point is lost.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    # After a refusal joblib warns of results produced meanwhile, which are stored but not counted.
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
