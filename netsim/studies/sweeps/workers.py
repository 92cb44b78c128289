"""Points of a sweep, or cells of an experiment, run by processes of this machine; they go on where one is killed."""

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

Ended = tuple[str, str | None]
"""The name of a job that ended, and why it failed, or None."""

_LOOKS_S = 0.5  # between two checks of a worker that its parent is there
_TRIES = 3  # of starting a point alone: at the last a worker finds the traces of the others, and reports them


class Job(Protocol):
    """What a worker runs."""

    @property
    def name(self) -> str:
        """Its name, a file's."""
        ...


class Work(Protocol):
    """What all jobs have in common, and how one is run."""

    def run(self, job: Any) -> str | None:
        """Run a job and keep its results; return why it failed, or None."""
        ...

    def lose(self, name: str) -> str:
        """Keep that a job's process was killed each time, and return that in a line."""
        ...

    def begun(self) -> set[str]:
        """Return the names of the jobs that have begun and not ended."""
        ...

    def forget(self, name: str) -> None:
        """Forget that a job had begun."""
        ...


def run_here(work: Work, points: Iterable[Job], jobs: int) -> Iterator[Ended]:
    """Run jobs on so many processes, and yield how each ended, as they end.

    A worker that is killed, by the system for its memory, say, takes those beside it with it: the jobs that ran then
    run again alone, and a job that has its worker killed alone, too, has failed.
    """
    import joblib

    left = {point.name: point for point in points}
    jobs = min(jobs, max(len(left), 2))  # with one, joblib would run it in this process
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

    Else it would end its point, and then wait for more, with its memory and its standard error.
    """
    threading.Thread(target=_end_with, args=(parent,), name="end with parent", daemon=True).start()


def _end_with(parent: int) -> None:
    if sys.platform == "win32":
        # There an orphan keeps its parent's id, but has a handle to wait for.
        if (other := multiprocessing.parent_process()) is not None:
            other.join()
            os._exit(1)
        return
    while os.getppid() == parent:
        time.sleep(_LOOKS_S)
    os._exit(1)


def _begin(parent: int, *where: str | None) -> None:
    """Begin a worker, which looks for files where its parent does: in this folder, with this folder of data.

    joblib keeps workers for the next call, unless these arguments differ. A Ctrl-C in a terminal comes to workers, too:
    their parent ends them, and they say nothing.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(parent)


def _backend() -> Any:
    """Return joblib's backend of processes, which end with this process and find files where it does."""
    from joblib._parallel_backends import LokyBackend

    class ProcessBackend(LokyBackend):  # type: ignore[misc]
        def configure(self, *words: Any, **more: Any) -> int:
            where = (os.getpid(), os.getcwd(), os.environ.get(FOLDER), os.environ.get(CACHE))
            return int(super().configure(*words, initializer=_begin, initargs=where, **more))

    return ProcessBackend()


def run_named(work: Work, job: Job) -> Ended:
    """Run a job, and return how it ended."""
    return job.name, work.run(job)


def run_parallel(work: Work, points: Iterable[Job], jobs: int) -> Iterator[Ended]:
    """Run jobs by joblib, with the backend that is chosen."""
    from joblib import Parallel, delayed

    # loky replaces a worker whose memory has grown, and warns of it; no point is lost by that.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    # Where something is refused in between, what workers have done since is kept, and does not count.
    warnings.filterwarnings("ignore", r"\d+ tasks (have|which)", UserWarning)
    tasks = (delayed(run_named)(work, point) for point in points)
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")(tasks)


def _run_alone(work: Work, point: Job) -> str | None:
    for _ in range(_TRIES):
        try:
            # With one job joblib would run it in this process.
            ((_, why),) = run_parallel(work, [point], 2)
        except _killed():
            continue
        return why
    return work.lose(point.name)


def _killed() -> type[BaseException]:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    killed: type[BaseException] = TerminatedWorkerError
    return killed
