"""A sweep's points run by processes of this machine; the sweep goes on where one is killed."""

import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from netsim.studies.sweeps.grid import Point
from netsim.studies.sweeps.point import KILLED, SweepRun, keep_failure, run_point

Ended = tuple[str, str | None]
"""The name of a point that ended, and why it failed, or None."""

_LOOKS_S = 0.5  # between two checks of a worker that its parent is there
_TRIES = 3  # of starting a point alone: at the last a worker finds the traces of the others, and reports them


def run_here(work: SweepRun, points: Iterable[Point], jobs: int) -> Iterator[Ended]:
    """Run points on ``jobs`` processes, and yield how each ended, as they end.

    A worker that is killed, by the system for its memory, say, takes those beside it with it: the points that ran then
    run again alone, and a point that has its worker killed alone, too, has failed.
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


def _backend() -> Any:
    """Return joblib's backend of processes, whose workers end with this process."""
    from joblib._parallel_backends import LokyBackend

    class ProcessBackend(LokyBackend):  # type: ignore[misc]
        def configure(self, *words: Any, **more: Any) -> int:
            return int(super().configure(*words, initializer=end_with, initargs=(os.getpid(),), **more))

    return ProcessBackend()


def run_named(work: SweepRun, point: Point) -> Ended:
    """Run a point, and return how it ended."""
    return point.name, run_point(work, point)


def run_parallel(
    work: SweepRun, points: Iterable[Point], jobs: int, run: Callable[[SweepRun, Point], Ended] = run_named
) -> Iterator[Ended]:
    """Run points by joblib, with the backend that is chosen."""
    from joblib import Parallel, delayed

    # loky replaces a worker whose memory has grown, and warns of it; no point is lost by that.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    tasks = (delayed(run)(work, point) for point in points)
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")(tasks)


def _run_alone(work: SweepRun, point: Point) -> str | None:
    for _ in range(_TRIES):
        try:
            # With one job joblib would run it in this process.
            ((_, why),) = run_parallel(work, [point], 2)
        except _killed():
            continue
        return why
    return keep_failure(work, point.name, KILLED)


def _killed() -> type[BaseException]:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    killed: type[BaseException] = TerminatedWorkerError
    return killed
