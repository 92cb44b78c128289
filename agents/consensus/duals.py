"""How an ADMM method keeps its duals: as its paper adds them up, or so that they survive lost frames.

An option of every `Dual` method, not a method of its own: ``DKLA(…, duals=RunningSums())``. What it chooses is what
neighbours tell one another, and how the dual follows from it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import netsim
from netsim.agents.consensus.censor import Censor
from netsim.agents.consensus.sharing import Sharing
from netsim.coders import Coder
from netsim.errors import BadInput

Rho = Callable[[], float]
"""The penalty of the present round."""


@dataclass(frozen=True)
class Sending:
    """When and in how many bits an agent speaks: its censor, its coder, and whether θ̂ begins as Q(0)."""

    censor: Censor
    coder: Coder
    coded_start: bool


class Duals(ABC):
    """A way to keep the duals; frozen, so that all agents may be given one object."""

    @abstractmethod
    def check(self, sending: Sending, *, is_scheduled: bool) -> None:
        """Raise BadInput for a coder, or a penalty (is it a schedule?), that this way cannot have."""

    @abstractmethod
    def sharing(self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho) -> Sharing:
        """Return one agent's end of the sharing, which also knows the next dual."""


@dataclass(frozen=True)
class Accumulated(Duals):
    """As the papers have it: γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n) with what was heard.

    A frame that is lost is charged to one end only, and Σ_i γ_i ≠ 0 from then on: the agents agree on another model.
    """

    def check(self, sending: Sending, *, is_scheduled: bool) -> None:
        """Refuse nothing."""

    def sharing(self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho) -> Sharing:
        """Return the plain sharing."""
        return Sharing(agent, size, sending.censor, sending.coder, coded_start=sending.coded_start)


def needs_states(way: Duals, sending: Sending) -> None:
    """Raise BadInput unless the coder codes states as they are."""
    name = type(way).__name__
    if not sending.coder.whole:
        coder = type(sending.coder).__name__
        raise BadInput(f"coder = {coder}: must code states (Exact or Float) with duals = {name}, for changes add up")
    if sending.coded_start:
        raise BadInput(f"coded_start = True: must be False with duals = {name}, whose states begin as zeros")


def needs_constant(way: Duals, is_scheduled: bool) -> None:
    """Raise BadInput for a penalty that changes with the round."""
    if is_scheduled:
        raise BadInput(f"rho = a schedule: must be a number with duals = {type(way).__name__}")
