"""Run a network over several workers: processes of this machine, or workers of a Dask cluster."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from netsim.engine.build import Settings
from netsim.engine.runtime import Action, Runtime
from netsim.parallel.collect import Collector, Crew, must_split
from netsim.parallel.local import LocalCrew
from netsim.parallel.partition import partition
from netsim.parallel.worker import Assignment
from netsim.run import Run, is_split

__all__ = ["run_in_workers"]


def run_in_workers(
    settings: Settings,
    result: Run,
    scheduled: Sequence[Action],
    active: Callable[[Runtime], AbstractContextManager[None]],
    workers: int,
    dask: str | None = None,
) -> Run:
    """Run a network over several workers, fill ``result`` with the results, and return it.

    The workers run on the cluster of the Dask scheduler at the address ``dask``. If ``dask`` is None, they are
    processes of this machine.
    """
    must_split(settings, result, workers)
    place = partition(settings.graph, workers)
    probes = [probe if is_split(probe) else None for probe in result.probes]
    assignment = Assignment(settings, result.agents, place, probes, result.watch, scheduled, active)
    crew: Crew
    if dask is None:
        crew = LocalCrew(assignment, workers)
    else:
        from netsim.parallel.cluster import ClusterCrew

        crew = ClusterCrew(assignment, workers, dask)
    return Collector(settings, result, crew, workers).collect()
