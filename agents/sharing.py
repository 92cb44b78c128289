"""What neighbours know of one another: written once, for every algorithm that shares a state.

θ̂_i is the state that agent i last broadcast. Agent i keeps its own θ̂_i, and a copy of θ̂_n for each neighbour n. A
censored round leaves θ̂_i as it is; a broadcast carries either the state itself, or, through a coder, the coded change
Q(h) of h = θ_i − θ̂_i, and both ends add what was decoded. On a link that loses frames the copies fall behind. On one
that delivers some twice they do not: one frame of a neighbour and round counts.
"""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

import netsim
from agents.censor import Always, Censor
from netsim.quantize import Coder, decoded

Vector = NDArray[np.float64]


class Sharing:
    """One agent's end of the sharing.

    Parameters
    ----------
    agent : netsim.Agent
        Whose state it is; must be running.
    size : int or tuple of int
        Length D of the state, or the shape of a state that is a matrix.
    censor : Censor, optional
        Decides whether a change is broadcast; default: always.
    coder : netsim.quantize.Coder, optional
        Codes changes; default: the state travels as it is (float64).

    Attributes
    ----------
    own : ndarray of that shape
        θ̂_i, all zeros at first. Replaced by a new array whenever it changes.
    copies : dict
        The copies of θ̂_n by neighbour; all zeros at first. Replaced, never changed in place.
    spoken : int
        How often the agent broadcast.
    """

    def __init__(
        self, agent: netsim.Agent, size: int | tuple[int, ...], censor: Censor | None = None, coder: Coder | None = None
    ) -> None:
        self._agent = agent
        self._censor = censor or Always()
        self._coder = coder
        self._rng = agent.rng
        self._nothing = np.zeros(size)
        self.own = self._nothing
        self.copies: dict[Hashable, Vector] = dict.fromkeys(agent.neighbors, self._nothing)
        self.spoken = 0
        # The round of the last frame that was taken in, by neighbour: a link may deliver a frame twice, and a change
        # that is added twice would stay in the copy for good.
        self._taken: dict[Hashable, int] = {}

    async def share(self, state: Vector, round_number: int) -> None:
        """Broadcast ``state`` unless it is censored; wait for the round to close; take in what was heard.

        ``state`` must not be changed in place afterwards.
        """
        change = state - self.own
        if self._censor.speaks(change.ravel(), state.ravel(), round_number, self._rng):
            self.spoken += 1
            if self._coder is None:
                await self._agent.broadcast("state", state)
                self.own = state
            elif self._coder.whole:
                coded = self._coder.encode(state, self._rng)
                await self._agent.broadcast("state", coded)
                self.own = decoded(coded)
            else:
                coded = self._coder.encode(change, self._rng)
                await self._agent.broadcast("change", coded)
                self.own = self.own + decoded(coded)
        copies, taken = self.copies, self._taken
        for frame in await self._agent.collect():
            sender = frame.sender
            if taken.get(sender) == frame.round:
                continue
            taken[sender] = frame.round
            if self._coder is None:
                copies[sender] = frame.payload
            elif self._coder.whole:
                copies[sender] = decoded(frame.payload)
            else:
                copies[sender] = copies[sender] + decoded(frame.payload)

    def heard(self, neighbor: Hashable) -> bool:
        """Return whether a neighbour was ever heard."""
        return self.copies[neighbor] is not self._nothing

    def sum_of_copies(self) -> Vector:
        """Return Σ_n θ̂_n as known here."""
        copies = iter(self.copies.values())
        total = next(copies, self._nothing).copy()
        for copy in copies:
            total += copy
        return total
