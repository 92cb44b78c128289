"""Run a sweep's points on a Dask cluster, after checking that its workers have everything they need."""

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import BadInput, NetsimError, one_line
from netsim.studies import catalogue
from netsim.studies.origin import about, source_of
from netsim.studies.sweeps.grid import Point
from netsim.studies.sweeps.point import Limits, SweepRun
from netsim.studies.sweeps.workers import Ended, run_named
from netsim.util import check

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_TIMEOUT_S = 10.0
_WORKERS_S = 30.0  # seconds to wait for the first worker, which imports much when it starts
_ROUNDS = 3  # times that a point is submitted if its worker is killed each time


@contextmanager
def connected(address: str, limits: Limits) -> Iterator["Client"]:
    """Connect to a scheduler at ``tcp://host:8786``, yield the client, and close it at the end.

    Raises BadInput without Dask, a scheduler or workers, if a worker has several threads, and for limits, which Dask
    workers cannot enforce.
    """
    if limits.seconds is not None:
        raise check.refuse("timeout", limits.seconds, "left out with dask: its workers' threads have no alarm")
    if limits.megabytes is not None:
        wanted = "left out with dask: its workers have a limit of their own (dask worker --memory-limit)"
        raise check.refuse("memory", limits.megabytes, wanted)
    check.installed(f"dask = {address!r}", "distributed", "dask")
    from distributed import Client
    from distributed.comm.addressing import get_address_host_port

    try:
        get_address_host_port(address, strict=True)
    except (ValueError, TypeError, AttributeError):
        raise check.refuse("dask", address, "a scheduler's address, such as tcp://127.0.0.1:8786") from None
    try:
        asyncio.run(_connect(address))
        client = Client(address, timeout=_CONNECT_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError, TypeError):
        wanted = f"the address of a Dask scheduler; none answered there within {_CONNECT_TIMEOUT_S:g} s"
        raise check.refuse("dask", address, wanted) from None
    with client:
        _must_have_workers(client, address)
        yield client


async def _connect(address: str) -> None:
    """Try one plain connection, because a Dask client that cannot connect leaves a traceback behind."""
    from distributed.comm import connect
    from distributed.security import Security

    comm = await connect(address, timeout=_CONNECT_TIMEOUT_S, **Security().get_connection_args("client"))
    await comm.close()


def _must_have_workers(client: "Client", address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_WORKERS_S)
    except TimeoutError:
        wanted = f"a scheduler with workers (dask worker {address} --nthreads 1); it has none after {_WORKERS_S:g} s"
        raise check.refuse("dask", address, wanted) from None
    for worker, threads in sorted(client.nthreads().items()):
        if threads != 1:
            # A run sets the number of BLAS threads for its whole process, so threads cannot share one.
            wanted = "a scheduler whose workers have one thread each (dask worker --nthreads 1 --nworkers N)"
            raise BadInput(f"dask = {address!r}: must be {wanted}; {worker} has {threads}")


# --- what workers need ------------------------------------------------------------------------------------------------


def must_be_able(client: "Client", work: SweepRun) -> None:
    """Raise BadInput, naming a worker and what it lacks, unless all workers meet the points' requirements.

    A worker needs the sweep's folder, the same netsim and numpy, and the study's file and data folder, if any.
    """
    token = work.running / "token"
    token.write_text(work.running.name)
    wanted = _equipment(work)
    reports = client.run(partial(examine, work), on_error="return")
    token.unlink()
    for worker, report in sorted(reports.items()):
        if not isinstance(report, Mapping):
            raise BadInput(
                f"dask: worker {worker} must have the netsim that is here, {about()['netsim']} "
                f"({type(report).__name__}: {one_line(report)})"
            )
        for what, there in report.items():
            if there != wanted[what]:
                raise BadInput(f"{what}: worker {worker} must have {wanted[what]}, as here; it has {there}")


def examine(work: SweepRun) -> dict[str, str]:
    """Return a worker's properties, keyed by the names that messages use."""
    return _equipment(work) | {f"out = {str(work.folder)!r}": _folder(work)}


def _equipment(work: SweepRun) -> dict[str, str]:
    import numpy as np

    data = os.environ.get("NETSIM_DATA")
    return {
        "dask: netsim": f"{about()['netsim']} ({about()['core']}, source {source_of('netsim')['netsim'][:12]})",
        "dask: numpy": np.__version__,
        f"study = {work.study!r}": _study(work.file),
        "NETSIM_DATA": "no folder of data" if not data or not Path(data).is_dir() else "a folder of data",
        f"out = {str(work.folder)!r}": "that folder, to write into",
    }


def _study(file: str) -> str:
    if not file.endswith(".py"):
        return "that study" if file in catalogue.listed() else "none"
    try:
        return f"the file with hash {hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]}"
    except OSError:
        return "none"


def _folder(work: SweepRun) -> str:
    """Return a text for messages: whether a worker sees the same sweep folder and can write into it."""
    try:
        if (work.running / "token").read_text() != work.running.name:
            return "another one of that name"
        trial = work.running / f"trial-{os.getpid()}"
        trial.write_text(work.running.name)
        trial.unlink()
    except FileNotFoundError:
        return "none of that name, or another one"
    except OSError as error:
        return f"one that cannot be written ({error.strerror})"
    return "that folder, to write into"


# --- running ----------------------------------------------------------------------------------------------------------


def run_there(work: SweepRun, points: Iterable[Point], client: "Client") -> Iterator[Ended]:
    """Run points on a cluster's workers, and yield each one's outcome as it ends (`map_there`)."""
    for name, ended in map_there(client, partial(run_named, work), {point.name: point for point in points}):
        yield name, work.lose(name) if ended is None else ended[1]


def map_there(client: "Client", function: Callable[[Any], Any], jobs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Call a function with each job on a cluster's workers; yield the jobs' names and results as they end.

    Dask repeats the jobs of a killed worker. If Dask gives up on a job, it is submitted again, up to `_ROUNDS` times in
    all; a job that never ended has the result None. Losing the scheduler raises a one-line error.
    """
    from concurrent.futures import CancelledError as Cancelled

    from distributed import KilledWorker, as_completed

    left, lost = dict(jobs), dict.fromkeys(jobs, 0)
    while left:
        futures = client.map(partial(_undivided, function), list(left.values()), pure=False)
        names = {future.key: name for future, name in zip(futures, left, strict=True)}
        for future in as_completed(futures, loop=client.loop):
            name, found = names[future.key], None
            try:
                found = future.result()
            except KilledWorker:
                lost[name] += 1
                if lost[name] < _ROUNDS:
                    continue
            except (Cancelled, asyncio.CancelledError):
                gone = "dask: its scheduler has gone; what is done is whole, and the same command goes on"
                raise NetsimError(gone) from None
            del left[name]
            yield name, found


def _undivided(function: Callable[[Any], Any], job: Any) -> Any:
    """Run a job entirely on its worker: Dask would otherwise send nested joblib work to the cluster."""
    from joblib import parallel_config

    with parallel_config(backend="sequential"):
        return function(job)
