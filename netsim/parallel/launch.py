"""Run a network over several workers: processes of this machine, or workers of a Dask cluster."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from netsim.engine.build import Settings
from netsim.engine.launch import BACKEND
from netsim.engine.runtime import Action, Runtime
from netsim.parallel.collect import Collector, Crew, must_split
from netsim.parallel.local import LocalCrew
from netsim.parallel.partition import partition
from netsim.parallel.worker import Assignment
from netsim.run import Run, is_split

if TYPE_CHECKING:
    from netsim.network import Network

__all__ = ["run_in_workers", "spread"]


def run_in_workers(
    settings: Settings,
    result: Run,
    scheduled: Sequence[Action],
    active: Callable[[Runtime], AbstractContextManager[None]],
    workers: int,
    dask: str | None = None,
) -> Run:
    """Run a network over several workers, and fill and return the run.

    Workers are those of the Dask scheduler at the address ``dask`` or, without it, processes of this machine.
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


@contextmanager
def spread(workers: int, dask: str | None = None) -> Iterator[None]:
    """Spread all runs inside the context over several workers; one worker without Dask changes nothing."""
    if workers == 1 and dask is None:
        yield
        return

    def play(network: "Network", settings: Settings, result: Run) -> Run:
        return network.play_in_workers(settings, result, workers, dask)

    token = BACKEND.set(play)
    try:
        yield
    finally:
        BACKEND.reset(token)
