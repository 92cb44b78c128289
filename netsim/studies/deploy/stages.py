"""What a study's runs are in a deployment: counted beforehand, played for real in each process, and put together."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netsim._stage import STAGE, Stage, Wanted
from netsim.errors import BadInput
from netsim.radio.settings import Radio
from netsim.run import Run
from netsim.sockets.job import Missed
from netsim.sockets.merge import Gathered, gathered
from netsim.sockets.transport import Transport
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
        if isinstance(network.medium, Radio) or network.collisions:
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
        self._session: Any = None

    def run(self, network: Any, agents: Agents, wanted: Wanted) -> Run:
        """Play a share of a run; raises Ended after the last."""
        number, self._count = self._count, self._count + 1
        transport = self._transport(network)
        asked = wanted.asked
        try:
            with on(None):
                network.run(
                    # Those that the study made are simulated below.
                    copy.deepcopy(dict(agents)),
                    wanted.probes,
                    until=asked.until,
                    sample=asked.sample,
                    progress=lambda row: self._told(number, row),
                    blas_threads=asked.blas_threads,
                    transport=transport,
                )
        except Missed:
            # It began again, and the others are further.
            pass
        self._session = transport.session
        if self._count == self._plan.runs:
            raise Ended
        return _simulated(network, agents, wanted)

    def _transport(self, network: Any) -> Transport:
        made = self._plan.transport(self._host, network.graph, network.round_period, self._folder)
        if self._session is not None:
            # It is the same process in another run, with another pace.
            self._session.transport, made.session = made, self._session
        return made


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
