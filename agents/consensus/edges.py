"""One dual variable per edge: relaxed ADMM, which converges whatever share of its frames is lost.

Bastianello, Todescato, Carli and Schenato, "Distributed optimization over lossy networks via relaxed Peaceman-Rachford
splitting: a robust ADMM approach", 2018 (arXiv 1809.09887).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import netsim
from netsim import Frame
from netsim.agents.consensus.censor import may_silence
from netsim.agents.consensus.duals import Duals, Rho, Sending, needs_constant, needs_states
from netsim.agents.consensus.sharing import Sharing
from netsim.core.copies import as_state
from netsim.util import check
from netsim.util.typing import Vector


@dataclass(frozen=True)
class EdgeDuals(Duals):
    """Duals per edge: z_in ← (1 − α) z_in + α (4ρ θ_n − z_ni), where n sends 4ρ θ_n − z_ni to i.

    The dual is γ_i = 2ρ d_i θ_i − Σ_n z_in. A lost frame leaves z_in unchanged at one end of one edge; no sum over the
    agents must be kept, so a loss does no lasting harm. With α = ½ and ideal links it equals `Accumulated` in every
    round. Each neighbour gets its own frame: d_i transmissions a round instead of one.

    Parameters
    ----------
    relaxation : float
        α, in (0, 1).
    """

    relaxation: float = 0.5

    def __post_init__(self) -> None:
        alpha = check.finite("relaxation", self.relaxation, above=0.0)
        if alpha >= 1.0:
            raise check.refuse("relaxation", self.relaxation, "> 0 and < 1")
        check.put(self, relaxation=alpha)

    def check(self, sending: Sending, *, is_scheduled: bool) -> None:
        """Raise BadInput for a coder of changes, a coded start, or a scheduled penalty."""
        needs_states(self, sending)
        needs_constant(self, is_scheduled)

    def sharing(self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho) -> Sharing:
        """Return one agent's sharing, which sends each neighbour its own frame."""
        return EdgeSharing(agent, size, sending, rho, self.relaxation)


class EdgeSharing(Sharing):
    """A sharing that sends 4ρ θ_i − z_in to each neighbour n; ``own`` is θ_i, ``edges`` z_in by neighbour."""

    def __init__(
        self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho, alpha: float
    ) -> None:
        super().__init__(agent, size, sending.censor, sending.coder)
        self._rho, self._alpha = rho, alpha
        self._sent = self._start
        # No copies of the neighbours' states, because frames carry edge variables.
        self.copies = netsim.core.Copies((), self.own.shape)
        self.edges = dict.fromkeys(agent.neighbors, self._start)
        self._ever: set[object] = set()

    async def say(self, state: Vector, round_number: int) -> None:
        """Send 4ρ θ_i − z_in to each neighbour n, unless censored."""
        change = state - self._sent
        self.own = state.copy()
        if self._censor.speaks(change.ravel(), state.ravel(), round_number, self._rng):
            away = 4.0 * self._rho() * state
            taken = [
                await self._agent.send(name, "edge", self._coder.encode(away - z, self._rng))
                for name, z in self.edges.items()
            ]
            if any(taken) or not taken:
                self._sent = self.own
                self.spoken += 1
        self._may_be_censored = self._may_be_censored and may_silence(self._censor, round_number)

    def hear(self, frames: Sequence[Frame], round_number: int) -> None:
        """Update z_in from each neighbour's last frame."""
        for name, frame in {frame.sender: frame for frame in frames}.items():
            heard = np.asarray(as_state(frame, self.own.shape), dtype=np.float64)
            self.edges[name] = (1.0 - self._alpha) * self.edges[name] + self._alpha * heard
            self._ever.add(name)

    def heard(self, neighbor: object) -> bool:
        """Return whether any frame of a neighbour was ever received."""
        return neighbor in self._ever

    def sum_of_copies(self) -> Vector:
        """Return d_i θ_i in place of Σ_n θ_n: the dual holds the neighbours' states through z_in."""
        return len(self.edges) * self.own

    def next_dual(self, dual: Vector, rho: float, own: Vector, others: Vector) -> Vector:
        """Return γ_i = 2ρ d_i θ_i − Σ_n z_in."""
        total = np.zeros(self.own.shape)
        for z in self.edges.values():
            total += z
        return 2.0 * rho * own - total
