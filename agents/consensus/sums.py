"""Running sums: duals that a lost frame moves for a while only.

With S_i = Σ_k ρ θ̂_i over the rounds, the dual of every ADMM method here is γ_i = Σ_n (S_i − S_n). Where frames carry S
beside θ̂ the next one that arrives makes good whatever was lost before it. Until then i takes it that n's θ̂ has not
changed, and goes on adding it: exact where n was silent, and a guess where a frame was lost.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import netsim
from netsim import Frame
from netsim.agents.consensus.censor import may_silence
from netsim.agents.consensus.duals import Duals, Rho, Sending, needs_states
from netsim.agents.consensus.sharing import Sharing
from netsim.core.copies import as_state
from netsim.errors import AgentError
from netsim.util.typing import Vector

PATIENCE = 20
"""Rounds that an agent which begins late listens for, at most, before it speaks for itself."""


@dataclass(frozen=True)
class RunningSums(Duals):
    """Frames carry θ̂_i and S_i = Σ_k ρ θ̂_i; γ_i = Σ_n (S_i − S_n). Twice the size, no acknowledgement.

    On ideal links equal to `Accumulated`. Whatever is lost, the two ends of a link agree on S_i − S_n again with the
    next frame that arrives, so Σ_i γ_i returns to zero, and the agents to the optimum of all.

    An agent that begins late, or anew, listens until it hears a neighbour, and begins with the mean of what its
    neighbours sent: any S_i of its own is as good as another for Σ_i γ_i = 0, and that one moves their duals least.
    """

    def check(self, sending: Sending, *, is_scheduled: bool) -> None:
        """Raise BadInput for a coder of changes."""
        needs_states(self, sending)

    def sharing(self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho) -> Sharing:
        """Return a sharing whose frames carry sums."""
        return SummedSharing(agent, size, sending, rho)


class SummedSharing(Sharing):
    """A sharing whose frames carry θ̂ and S, one after the other along the first axis.

    ``total`` is S_i; ``totals``, shape (neighbors, *shape), what is assumed of S_n: what n's last frame had, and θ̂_n
    for each round since.
    """

    def __init__(self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho) -> None:
        super().__init__(agent, size, sending.censor, sending.coder)
        self._rho = rho
        self._places = {name: place for place, name in enumerate(agent.neighbors)}
        # The round of the last frame of each neighbour that was taken in; 0: none.
        self._last = [0] * len(self._places)
        self._began = 0
        self._listens = True
        # Whether it must speak, whatever its censor says.
        self._asked = False
        self.total: NDArray[Any] = np.zeros(self.own.shape)
        self.totals: NDArray[Any] = np.zeros(self.copies.table.shape)

    async def say(self, state: Vector, round_number: int) -> None:
        """As `Sharing.say`; an agent that begins late is silent until it has heard a neighbour."""
        rho = self._rho()
        await self._begin_round(round_number)
        listens = self._listens_in(round_number)
        change = state - self.own
        speaks = self._censor.speaks(change.ravel(), state.ravel(), round_number, self._rng)
        speaks = speaks or self._asked or self._is_key(round_number)
        if listens or not speaks or not await self._say(state, rho):
            self._stay(rho)
        self._may_be_censored = self._may_be_censored and may_silence(self._censor, round_number)
        self._guess(rho)

    def hear(self, frames: Sequence[Frame], round_number: int) -> None:
        """Take in what was heard; an agent that begins late then begins to speak."""
        rho = self._rho()
        heard = [self._take_newer(frame, round_number, rho) for frame in frames]
        places = sorted({place for place in heard if place is not None})
        if places and self._listens:
            self._listens = False
            self._join(places)

    def next_dual(self, dual: Vector, rho: float, own: Vector, others: Vector) -> Vector:
        """Return γ_i = Σ_n (S_i − S_n)."""
        return np.asarray(len(self._places) * self.total - self.totals.sum(axis=0))

    def heard(self, neighbor: Hashable) -> bool:
        """Return whether a neighbour was ever heard."""
        return self._last[self._places[neighbor]] > 0

    async def _begin_round(self, round_number: int) -> None:
        """Prepare for a round."""

    def _listens_in(self, round_number: int) -> bool:
        """Return whether it began late and has heard no neighbour yet; not for ever, for all may have begun late."""
        self._began = self._began or round_number
        begins_late = 1 < self._began > round_number - PATIENCE and len(self._places) > 0
        self._listens = self._listens and begins_late
        return self._listens

    async def _say(self, state: Vector, rho: float) -> bool:
        """Broadcast, and take θ̂_i and S_i as a receiver knows them; return whether some link took it."""
        # In one array, so that on ideal links the sums are those of Accumulated to rounding.
        coded = self._coder.encode(np.concatenate([state, self.total + rho * state]), self._rng)
        if not await self._agent.broadcast("sum", coded) and self._places:
            return False
        self.spoken += 1
        known = np.array(self._coder.decode(coded))
        self.own, self.total = known[: len(state)], known[len(state) :]
        return True

    def _stay(self, rho: float) -> None:
        """Send nothing: θ̂_i stays as it was."""
        self.total = self.total + rho * self.own

    def _guess(self, rho: float) -> None:
        """Assume that no neighbour's θ̂ has changed."""
        self.totals += rho * self.copies.table

    def _take_newer(self, frame: Frame, round_number: int, rho: float) -> int | None:
        """Take in a frame that tells something new; return its sender's place, or None if it does not."""
        place = self._places.get(frame.sender)
        if place is None:
            raise AgentError(f"{frame!r}: its sender must be one of the neighbours whose states are kept")
        number = frame.round or round_number
        if number <= self._last[place] or not self._take(frame, place, round_number - number, rho):
            return None
        self._last[place] = number
        return place

    def _take(self, frame: Frame, place: int, age: int, rho: float) -> bool:
        """Take in what a neighbour sent ``age`` rounds ago, and what it has added since; return whether it could."""
        rows = len(self.own)
        state = np.asarray(as_state(frame, (2 * rows, *self.own.shape[1:])), dtype=np.float64)
        self.copies.table[place] = state[:rows]
        self.totals[place] = state[rows:] + age * rho * state[:rows]
        return True

    def _join(self, places: list[int]) -> None:
        """Begin with the mean of what the neighbours sent that were heard, and assume it of those that were not."""
        self.own, self.total = self.copies.table[places].mean(axis=0), self.totals[places].mean(axis=0)
        for place in set(self._places.values()) - set(places):
            self.copies.table[place], self.totals[place] = self.own, self.total
