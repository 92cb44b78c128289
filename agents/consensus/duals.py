"""Ways to compute the dual variables of ADMM methods: accumulated as in the papers, or robust against lost frames.

Every `Dual` method has the option ``duals``, for example ``DKLA(…, duals=RunningSums())``. The option determines the
content of frames, and how the dual variable is computed from them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import netsim
from netsim.agents.consensus.censor import Censor
from netsim.agents.consensus.sharing import Sharing
from netsim.coders import Coder
from netsim.errors import BadInput

Rho = Callable[[], float]
"""A function that returns the penalty ρ of the current round."""


@dataclass(frozen=True)
class Sending:
    """An agent's censor and coder, and whether θ̂ starts as Q(0) instead of 0 (see `Sharing`)."""

    censor: Censor
    coder: Coder
    coded_start: bool


class Duals(ABC):
    """Base class of the ways to compute dual variables.

    Subclasses are frozen dataclasses, so that several agents can share an object.
    """

    # needs_states: the coder must encode states, not changes, and the states must start as zeros.
    # needs_constant: the penalty ρ must not have a schedule.
    needs_states: ClassVar[bool] = True
    needs_constant: ClassVar[bool] = False

    def check(self, sending: Sending, *, is_scheduled: bool) -> None:
        """Raise BadInput if these duals do not support the coder, ``coded_start``, or a scheduled penalty."""
        name, coder = type(self).__name__, type(sending.coder).__name__
        if self.needs_states and not sending.coder.whole:
            allowed = f"must code states (Exact or Float) with duals = {name}, for changes add up"
            raise BadInput(f"coder = {coder}: {allowed}")
        if self.needs_states and sending.coded_start:
            raise BadInput(f"coded_start = True: must be False with duals = {name}, whose states begin as zeros")
        if self.needs_constant and is_scheduled:
            raise BadInput(f"rho = a schedule: must be a number with duals = {name}")

    @abstractmethod
    def sharing(self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho) -> Sharing:
        """Return one agent's `Sharing`, whose method `next_dual` computes the dual variable."""


@dataclass(frozen=True)
class Accumulated(Duals):
    """Dual variables as in the papers: γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n) with the states received.

    A lost frame changes γ at only one end of a link. From then on Σ_i γ_i ≠ 0, and the agents agree on a biased model.
    """

    needs_states: ClassVar[bool] = False

    def sharing(self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho) -> Sharing:
        """Return a plain `Sharing` for one agent."""
        return Sharing(agent, size, sending.censor, sending.coder, coded_start=sending.coded_start)
