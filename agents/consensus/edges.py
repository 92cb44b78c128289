"""Dual variables computed from edge variables: relaxed ADMM, which converges at any frame loss rate below 1.

Bastianello, Todescato, Carli and Schenato, "Distributed optimization over lossy networks via relaxed Peaceman-Rachford
splitting: a robust ADMM approach", 2018 (arXiv 1809.09887).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import netsim
from netsim import Frame
from netsim.agents.consensus.censor import may_silence
from netsim.agents.consensus.duals import Duals, Rho, Sending
from netsim.agents.consensus.sharing import Sharing
from netsim.core.copies import as_state
from netsim.util import check
from netsim.util.typing import Vector


@dataclass(frozen=True)
class EdgeDuals(Duals):
    """Dual variables from one variable per edge: z_in ← (1 − α) z_in + α (4ρ θ_n − z_ni).

    Neighbour n sends 4ρ θ_n − z_ni to agent i, which has d_i neighbours and the dual variable
    γ_i = 2ρ d_i θ_i − Σ_n z_in. A lost frame leaves z_in unchanged at one end of one edge. This does no lasting harm,
    because the method does not rely on a sum over all agents. With α = ½ and ideal links the γ_i equal those of
    `Accumulated` in every round. Each neighbour needs a different frame, so agent i transmits d_i frames per round
    instead of one.

    Parameters
    ----------
    relaxation : float
        α, in (0, 1).
    """

    needs_constant: ClassVar[bool] = True
    relaxation: float = 0.5

    def __post_init__(self) -> None:
        check.put(self, relaxation=checked_relaxation(self.relaxation))

    def sharing(self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho) -> Sharing:
        """Return one agent's `Sharing`, which sends a separate frame to each neighbour."""
        return EdgeSharing(agent, size, sending, rho, self.relaxation)


def checked_relaxation(alpha: float) -> float:
    """Return the relaxation ``alpha`` as a float; raise BadInput unless it is in (0, 1)."""
    if not check.finite("relaxation", alpha, above=0.0) < 1.0:
        raise check.refuse("relaxation", alpha, "> 0 and < 1")
    return float(alpha)


class EdgeSharing(Sharing):
    """A `Sharing` that sends 4ρ θ_i − z_in to each neighbour n.

    ``own`` is θ_i, and ``edges`` maps each neighbour n to z_in.
    """

    def __init__(
        self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho, alpha: float
    ) -> None:
        super().__init__(agent, size, sending.censor, sending.coder)
        self._rho, self._alpha = rho, alpha
        self._sent = self._start
        # No copies of the neighbours' states are kept, because frames do not carry states.
        self.copies = netsim.core.Copies((), self.own.shape)
        self.edges = dict.fromkeys(agent.neighbors, self._start)
        self._ever: set[object] = set()
        # The number of rounds in which the agent has sent.
        self._number = 0

    async def say(self, state: Vector, round_number: int) -> None:
        """Send 4ρ θ_i − z_in to each neighbour n, unless censored."""
        change = state - self._sent
        self.own = state.copy()
        if self._censor.speaks(change.ravel(), state.ravel(), round_number, self._rng):
            self._number += 1
            away = 4.0 * self._rho() * state
            taken = [await self._send(name, away - z) for name, z in self.edges.items()]
            if any(taken) or not taken:
                self._sent = self.own
                self.spoken += 1
        self._may_be_censored = self._may_be_censored and may_silence(self._censor, round_number)

    async def _send(self, name: Hashable, message: Vector) -> bool:
        """Send a message to a neighbour; return whether the link accepted it."""
        return await self._agent.send(name, "edge", self._coder.encode(message, self._rng))

    def hear(self, frames: Sequence[Frame], round_number: int) -> None:
        """Update z_in for each neighbour n from which frames arrived; only the last frame from n is used."""
        for name, frame in {frame.sender: frame for frame in frames}.items():
            heard = np.asarray(as_state(frame, self.own.shape), dtype=np.float64)
            self.edges[name] = (1.0 - self._alpha) * self.edges[name] + self._alpha * heard
            self._ever.add(name)

    def heard(self, neighbor: object) -> bool:
        """Return whether any frame from this neighbour was ever received."""
        return neighbor in self._ever

    def sum_of_copies(self) -> Vector:
        """Return d_i θ_i in place of Σ_n θ_n.

        The linear term γ_i − ρ Σ_n (θ_i + θ_n) of an ADMM step then becomes −Σ_n z_in, which is the linear term of
        relaxed ADMM.
        """
        return len(self.edges) * self.own

    def edges_sum(self) -> Vector:
        """Return Σ_n z_in."""
        return sum(self.edges.values(), np.zeros(self.own.shape))

    def next_dual(self, dual: Vector, rho: float, own: Vector, others: Vector) -> Vector:
        """Return γ_i = 2ρ d_i θ_i − Σ_n z_in."""
        return 2.0 * rho * own - self.edges_sum()
