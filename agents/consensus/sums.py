"""Running sums: dual variables in which the next frame that arrives corrects the error of earlier lost frames.

θ̂_i is the state that agent i last broadcast, and S_i = Σ_k ρ θ̂_i is the sum of ρ θ̂_i over the rounds k. The dual
variable of every ADMM method here is γ_i = Σ_n (S_i − S_n) over the neighbours n. Frames carry both θ̂_i and S_i, so
the next frame that arrives corrects the error of all frames lost before it. In a round without a frame from neighbour
n, agent i adds ρ times the last known θ̂_n to its estimate of S_n. The estimate is exact if the broadcast of n was
censored, and approximate if the frame was lost.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import netsim
from netsim import Frame
from netsim.agents.consensus.censor import may_silence
from netsim.agents.consensus.duals import Duals, Rho, Sending
from netsim.agents.consensus.sharing import Sharing
from netsim.core.copies import as_state
from netsim.errors import AgentError
from netsim.util.typing import Vector

PATIENCE = 20
"""An agent that begins after the first round sends nothing until a frame arrives, for at most this many rounds."""


@dataclass(frozen=True)
class RunningSums(Duals):
    """Dual variables γ_i = Σ_n (S_i − S_n) from running sums S_i = Σ_k ρ θ̂_i, which frames carry beside θ̂_i.

    Frames are twice as large as with `Accumulated`, and need no acknowledgements. On ideal links both give the same
    duals up to rounding. After a loss, the next frame that arrives makes the two ends of the link agree on S_i − S_n
    again, so Σ_i γ_i returns to zero, and the models converge to the optimum.

    An agent that restarts or begins after the first round sends nothing until it receives a frame. It then starts from
    the means of the θ̂_n and S_n received. Any initial S_i would keep Σ_i γ_i = 0; the mean of the S_n changes the
    neighbours' duals least.
    """

    def sharing(self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho) -> Sharing:
        """Return one agent's `Sharing`, whose frames carry θ̂ and S."""
        return SummedSharing(agent, size, sending, rho)


class SummedSharing(Sharing):
    """A `Sharing` whose frames carry θ̂_i and S_i, concatenated along the first axis.

    ``total`` is S_i. ``totals``, of shape (neighbors, *shape), contains the estimates of S_n: the sum in the last frame
    of n, plus ρ θ̂_n for each round since then.
    """

    def __init__(self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho) -> None:
        super().__init__(agent, size, sending.censor, sending.coder)
        self._rho = rho
        self._places = {name: place for place, name in enumerate(agent.neighbors)}
        # For each neighbour, the round of the last frame applied; 0 before the first frame.
        self._last = [0] * len(self._places)
        self._began = 0
        self._listens = True
        # Whether to broadcast in the next round even if the censor would suppress the broadcast.
        self._asked = False
        self.total: NDArray[Any] = np.zeros(self.own.shape)
        self.totals: NDArray[Any] = np.zeros(self.copies.table.shape)

    async def say(self, state: Vector, round_number: int) -> None:
        """Broadcast θ̂_i and S_i, unless they are censored, or the agent began late and has received no frame yet."""
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
        """Apply the frames received; an agent that began late takes its initial values from the first frames."""
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
        """Return whether any frame from this neighbour was ever applied."""
        return self._last[self._places[neighbor]] > 0

    async def _begin_round(self, round_number: int) -> None:
        """Prepare for a round; by default, do nothing."""

    def _listens_in(self, round_number: int) -> bool:
        """Return whether this agent, which began late, must still wait for a frame before it sends.

        After `PATIENCE` rounds it may send in any case. Otherwise, if all agents began late, none would ever send.
        """
        self._began = self._began or round_number
        begins_late = 1 < self._began > round_number - PATIENCE and len(self._places) > 0
        self._listens = self._listens and begins_late
        return self._listens

    async def _say(self, state: Vector, rho: float) -> bool:
        """Broadcast; set θ̂_i and S_i to the values that receivers decode. Return whether a link accepted the frame."""
        # θ̂ and S are encoded as one array, so that the coder treats both in the same way. On ideal links the duals
        # then equal those of `Accumulated` up to rounding.
        coded = self._coder.encode(np.concatenate([state, self.total + rho * state]), self._rng)
        if not await self._agent.broadcast("sum", coded) and self._places:
            return False
        self.spoken += 1
        known = np.array(self._coder.decode(coded))
        self.own, self.total = known[: len(state)], known[len(state) :]
        return True

    def _stay(self, rho: float) -> None:
        """Add ρ θ̂_i to S_i in a round in which agent i does not broadcast, so that θ̂_i stays unchanged."""
        self.total = self.total + rho * self.own

    def _guess(self, rho: float) -> None:
        """Add ρ θ̂_n to each estimate of S_n, as if no θ̂_n changed in this round."""
        self.totals += rho * self.copies.table

    def _take_newer(self, frame: Frame, round_number: int, rho: float) -> int | None:
        """Apply a frame if it is newer than the last frame that was applied from the same sender.

        Return the sender's row in ``totals``, or None if the frame was not applied.
        """
        place = self._places.get(frame.sender)
        if place is None:
            raise AgentError(f"{frame!r}: its sender must be one of the neighbours whose states are kept")
        number = frame.round or round_number
        if number <= self._last[place] or not self._take(frame, place, round_number - number, rho):
            return None
        self._last[place] = number
        return place

    def _take(self, frame: Frame, place: int, age: int, rho: float) -> bool:
        """Apply a frame that neighbour n sent ``age`` rounds ago; return whether the frame could be decoded.

        The estimate of S_n becomes the frame's S_n plus ρ θ̂_n for each of the ``age`` rounds.
        """
        rows = len(self.own)
        state = np.asarray(as_state(frame, (2 * rows, *self.own.shape[1:])), dtype=np.float64)
        self.copies.table[place] = state[:rows]
        self.totals[place] = state[rows:] + age * rho * state[:rows]
        return True

    def _join(self, places: list[int]) -> None:
        """Set θ̂_i and S_i to the means of the received θ̂_n and S_n.

        The θ̂_n and S_n of each neighbour from which no frame arrived are set to the same means.
        """
        self.own, self.total = self.copies.table[places].mean(axis=0), self.totals[places].mean(axis=0)
        for place in set(self._places.values()) - set(places):
            self.copies.table[place], self.totals[place] = self.own, self.total
