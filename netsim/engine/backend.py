"""Where networks are run: by simulation, unless a program has set a stage for its runs."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

from netsim.engine.build import Asked
from netsim.run import Probe, Progress, Run

__all__ = ["STAGE", "Stage", "Wanted"]


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a run besides its agents: arguments of `netsim.Network.run`."""

    probes: Sequence[Probe]
    progress: Progress | None
    asked: Asked


Stage: TypeAlias = Callable[[Any, Mapping[Any, Any], Wanted], Run]
"""Runs a network of agents in place of the simulation."""

STAGE: ContextVar[Stage | None] = ContextVar("STAGE", default=None)
"""The stage that runs networks here; None: the simulation."""
