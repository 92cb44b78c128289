"""What neighbours know of one another: written once, for every algorithm that shares a state.

θ̂_i is the state that agent i last broadcast. Agent i keeps its own θ̂_i, and a copy of θ̂_n for each neighbour n. A
censored round leaves θ̂_i as it is; a broadcast carries either the state itself, or, through a coder, the coded change
Q(h) of h = θ_i − θ̂_i, and both ends add what was decoded. On a link that loses frames the copies fall behind.
"""

import numpy as np
from numpy.typing import NDArray

import netsim
from agents.censor import Always, Censor
from netsim.quantize import Coder

Vector = NDArray[np.float64]


class Sharing:
    """One agent's end of the sharing.

    Parameters
    ----------
    agent : netsim.Agent
        Whose state it is; must be running.
    size : int
        Length D of the state.
    censor : Censor, optional
        Decides whether a change is broadcast; default: always.
    coder : netsim.quantize.Coder, optional
        Codes changes; default: the state travels as it is (float64).

    Attributes
    ----------
    own : ndarray of shape (D,)
        θ̂_i, all zeros at first. Replaced by a new array whenever it changes.
    copies : ndarray of shape (d_i, D)
        The copies of θ̂_n, in the order of the agent's neighbours, all zeros at first.
    heard : ndarray of shape (d_i,)
        Whether a neighbour was ever heard.
    spoken : int
        How often the agent broadcast.
    """

    def __init__(
        self, agent: netsim.Agent, size: int, censor: Censor | None = None, coder: Coder | None = None
    ) -> None:
        self._agent = agent
        self._censor = censor or Always()
        self._coder = coder
        self._places = {neighbor: place for place, neighbor in enumerate(agent.neighbors)}
        self.own = np.zeros(size)
        self.copies = np.zeros((len(agent.neighbors), size))
        self.heard = np.zeros(len(agent.neighbors), dtype=bool)
        self.spoken = 0

    async def share(self, state: Vector, round_number: int) -> None:
        """Broadcast ``state``, shape (D,), unless it is censored; wait for the round to close; take in what was heard."""
        change = state - self.own
        if self._censor.speaks(change, round_number):
            self.spoken += 1
            if self._coder is None:
                await self._agent.broadcast("state", state)
                self.own = state.copy()
            else:
                coded = self._coder.encode(change, self._agent.rng)
                await self._agent.broadcast("change", coded)
                self.own = self.own + coded.values
        for frame in await self._agent.collect():
            place = self._places[frame.sender]
            self.heard[place] = True
            if self._coder is None:
                self.copies[place] = frame.payload
            else:
                self.copies[place] += frame.payload.values
