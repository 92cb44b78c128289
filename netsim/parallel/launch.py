"""Running a network over several workers."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from netsim.engine.build import Settings
from netsim.engine.runtime import Action, Runtime
from netsim.parallel.collect import Collector, must_split
from netsim.parallel.local import LocalCrew
from netsim.parallel.partition import partition
from netsim.parallel.worker import Assignment
from netsim.run import Run

__all__ = ["run_in_workers"]


def run_in_workers(
    settings: Settings,
    result: Run,
    scheduled: Sequence[Action],
    active: Callable[[Runtime], AbstractContextManager[None]],
    workers: int,
) -> Run:
    """Run a network over several workers, and fill and return the run."""
    must_split(settings, result, workers)
    place = partition(settings.graph, workers)
    assignment = Assignment(settings, result.agents, place, result.probes, result.watch, scheduled, active)
    return Collector(settings, result, LocalCrew(assignment, workers), workers).collect()
