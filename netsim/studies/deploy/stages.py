"""What a study's runs are in a deployment: counted beforehand, played for real in each process, and put together."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from netsim.distributed.job import Missed
from netsim.distributed.merge import Gathered, gathered
from netsim.engine.backend import STAGE, Stage, Wanted
from netsim.errors import BadInput
from netsim.radio.settings import Radio
from netsim.run import Run
from netsim.studies.deploy.apart import apart
from netsim.studies.deploy.plan import Host, Plan

__all__ = ["Ended", "Playback", "Rehearsal", "Share", "on"]

Agents = Mapping[Any, Any]


class Ended(Exception):  # noqa: N818  it is no error
    """A process has played all runs of the study: the rest of it is for whoever gathers them."""


@contextmanager
def on(stage: Stage | None) -> Iterator[None]:
    """Have a stage run networks meanwhile; None: the simulation."""
    token = STAGE.set(stage)
    try:
        yield
    finally:
        STAGE.reset(token)


def _simulated(network: Any, agents: Agents, wanted: Wanted) -> Run:
    """Run in the simulation after all."""
    asked = wanted.asked
    with on(None):
        run: Run = network.run(
            agents,
            wanted.probes,
            until=asked.until,
            sample=asked.sample,
            trace=asked.trace,
            progress=wanted.progress,
            blas_threads=asked.blas_threads,
        )
    return run


class Rehearsal:
    """The simulation, which counts the runs of a study.

    Parameters
    ----------
    plan : Plan
        What is to be done with them.

    Attributes
    ----------
    runs : list of Run
        What came of them.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.runs: list[Run] = []

    def run(self, network: Any, agents: Agents, wanted: Wanted) -> Run:
        """Simulate a run; raises BadInput if it cannot be deployed."""
        if isinstance(network.medium, Radio):
            raise BadInput(
                f"scenario = {self._plan.scenario!r}: must have wires, or a radio without collisions, to be deployed; "
                "what agents share on the air is in one process"
            )
        self._plan.places(network.graph)
        run = _simulated(network, agents, wanted)
        self.runs.append(run)
        return run


class Share:
    """A process's share of each run, and then the simulation, by whose results the study goes on.

    Parameters
    ----------
    plan : Plan
    host : Host
        Which process this is.
    folder : Path
        Where its journals go.
    told : callable
        Called with the number of a run, from 0, and of each row.
    """

    def __init__(self, plan: Plan, host: Host, folder: Path, told: Callable[[int, int], None]) -> None:
        self._plan, self._host, self._folder, self._told = plan, host, folder, told
        self._count = 0

    def run(self, network: Any, agents: Agents, wanted: Wanted) -> Run:
        """Play a share of a run; raises Ended after the last."""
        number, self._count = self._count, self._count + 1
        asked = wanted.asked

        def play(agents: Agents) -> None:
            transport = self._plan.transport(self._host, network.graph, network.round_period, self._folder)
            transport.first_run = number
            with on(None), suppress(Missed):  # it began again, and the others are further
                network.run(
                    agents,
                    wanted.probes,
                    until=asked.until,
                    sample=asked.sample,
                    progress=lambda row: self._told(number, row),
                    blas_threads=asked.blas_threads,
                    transport=transport,
                )

        # The agents here are those that are simulated below.
        apart(play, agents)
        if self._count == self._plan.runs:
            raise Ended
        return _simulated(network, agents, replace(wanted, asked=replace(asked, trace=False)))


class Playback:
    """The runs that processes have played, put together.

    Parameters
    ----------
    folder : Path
        Where their journals are.

    Attributes
    ----------
    found : list of Gathered
        What came of them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.found: list[Gathered] = []

    def run(self, network: Any, agents: Agents, wanted: Wanted) -> Run:
        """Put the next run together."""
        result = network.result_of(agents, wanted.probes, wanted.progress)
        made = gathered(network.settings, result, self._folder, len(self.found), wanted.asked.trace)
        self.found.append(made)
        return made.run
