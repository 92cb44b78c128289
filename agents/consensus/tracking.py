"""Gradient tracking with push-sum: no weights that both ends of a link agree on.

Nedić, Olshevsky and Shi, "Achieving geometric convergence for distributed optimization over time-varying graphs", 2017,
algorithm Push-DIGing.
"""

from dataclasses import KW_ONLY, dataclass, field

import numpy as np

import netsim
from netsim.agents import papers
from netsim.agents.costs.local import Problem
from netsim.agents.papers import Cited
from netsim.agents.schedule import Scheduled, advance
from netsim.util import check
from netsim.util.typing import Array, Vector


@dataclass(eq=False, repr=False)
class PushDIGing(Cited, netsim.Agent):
    """Gradient tracking: every agent's y_i follows the mean gradient, and steps of one size lead to the exact optimum.

    u ← C(u − η y), v ← C v, θ_i = u_i/v_i, y ← C y + ∇R(θ⁺) − ∇R(θ), with C_ji = 1/(1 + d_i) from agent i to itself and
    to those that hear it: only the sender's number of links is needed, no weights that both ends agree on. At first
    u = 0, v = 1, y = ∇R(0). What an agent gives away is mass of u, v and y, which never changes in sum: a frame that
    is lost, or late, is lost mass, and the models then settle elsewhere, or grow without bound.

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i.
    count : int
        Number of rounds.
    eta : float or schedule
        Step size η > 0.

    Attributes
    ----------
    theta : ndarray
        θ_i, zeros at first. Replaced, never changed in place.
    """

    paper = papers.DIGING
    cost: Problem
    count: int
    _: KW_ONLY
    eta: Scheduled = Scheduled(above=0.0)
    theta: Array = field(init=False)

    def __post_init__(self) -> None:
        self.count = check.integer("count", self.count, low=0)
        self.theta = np.zeros(self.cost.size)

    async def run(self) -> None:
        """Take part in the rounds."""
        u, v = self.theta.ravel(), np.ones(1)
        gradient = y = self._gradient()
        async for k in self.rounds(self.count):
            advance(self, k)
            share = np.concatenate([u - self.eta * y, y, v]) / (1 + len(self.neighbors))
            await self.broadcast("mass", share)
            # Of a frame that comes twice one counts.
            heard = {frame.sender: frame.payload for frame in await self.collect()}
            u, y, v = np.split(sum(heard.values(), share), [u.size, 2 * u.size])
            self.theta = (u / v).reshape(self.theta.shape)
            before, gradient = gradient, self._gradient()
            y = y + gradient - before

    def _gradient(self) -> Vector:
        return self.cost.gradient(self.theta).ravel()
