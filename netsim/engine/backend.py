"""Where networks are run: by simulation, unless somebody has set a stage for the runs of a program."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from netsim.engine.build import Asked
from netsim.run import Probe, Progress, Run

__all__ = ["STAGE", "Stage", "Wanted"]


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a run besides its agents: arguments of `netsim.Network.run`."""

    probes: Sequence[Probe]
    progress: Progress | None
    asked: Asked


class Stage(Protocol):
    """Who runs networks in place of the simulation."""

    def run(self, network: Any, agents: Mapping[Any, Any], wanted: Wanted) -> Run:
        """Run a network of agents."""


STAGE: ContextVar[Stage | None] = ContextVar("STAGE", default=None)
"""Who runs networks here; None: the simulation."""
