"""Push-sum methods for directed and time-varying graphs: agents send out shares of their mass, a vector with a weight.

A sender needs to know how many receivers it has, but needs no frames from the receivers, so links may be one-way. The
total mass of all agents and of all frames in transit is constant. The mass in a lost frame is lost, unless frames carry
running sums (Vaidya, Hadjicostis and Dominguez-Garcia 2011). Then the next frame that arrives delivers the mass of
earlier lost frames, too.
"""

from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

import netsim
from netsim import Frame
from netsim.agents import papers
from netsim.agents.consensus.base import check_cost
from netsim.agents.costs.local import Problem
from netsim.agents.papers import Cited
from netsim.agents.schedule import Scheduled, advance
from netsim.core.copies import as_state
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Array, Vector


@dataclass(eq=False, repr=False)
class Push(Cited, netsim.RoundAgent):
    """Base class of the push-sum methods: mass ← C mass, with C_ji = 1/(1 + d_i) if j is i or one of i's d_i receivers.

    An agent's mass is a vector whose last element is the weight v_i, initially 1. A subclass defines three methods:
    `first_mass` returns the initial value of the other elements, `step` changes the mass before it is shared, and
    `settle` updates the model from the mass collected. d_i is the current number of `out_neighbors`, which
    `netsim.faults.Rewire` may change.

    If no link accepts a broadcast, the agent keeps all its mass. A duplicated frame counts once.

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i, with its gradient.
    count : int
        Number of rounds.
    eta : float or schedule
        Step size η.
    running_sums : bool
        Whether frames carry the sum of all shares so far, instead of one share. A receiver subtracts the last sum that
        it received. On ideal links the results are the same up to rounding. With running sums, the receivers of an
        agent must not change during a run.

    Attributes
    ----------
    theta : ndarray
        The model θ_i, initially zeros. Replaced by a new array, never modified in place.
    weight : float
        v_i. Without running sums, v_i falls towards 0 on lossy links, because the mass in lost frames is lost.
    """

    cost: Problem
    count: int
    _: KW_ONLY
    eta: Scheduled = Scheduled(low=0.0)
    running_sums: bool = False
    theta: Array = field(init=False)
    weight: float = field(init=False, default=1.0)

    def __post_init__(self) -> None:
        self.count = check.integer("count", self.count, low=0)
        self.running_sums = check.flag("running_sums", self.running_sums)
        check_cost(type(self), self.cost, "size", "gradient")
        self.theta = np.zeros(self.cost.size)
        self._mass: Vector | None = None
        # With running sums: the sum of all shares sent so far; otherwise 0.
        self._given: Vector | float = 0.0
        # With running sums: the receivers, which must not change; None before the first broadcast.
        self._receivers: tuple[Hashable, ...] | None = None
        # With running sums: the last sum received from each sender.
        self._last: dict[Hashable, Vector] = {}

    def first_mass(self) -> Vector:
        """Return the initial mass without its last element, which is the weight."""
        raise NotImplementedError

    def step(self, mass: Vector) -> Vector:
        """Take the method's step; return the mass to share, of the same shape as ``mass``."""
        raise NotImplementedError

    def settle(self, mass: Vector) -> Vector:
        """Set `theta` from the mass collected; return the mass for the next round, of the same shape as ``mass``."""
        raise NotImplementedError

    def imbalance(self) -> dict[str, Array]:
        """Return arrays whose sum over all agents is zero while no mass is lost or in transit; by default none.

        Studies record the norm of each sum in a column named after the array's key, such as "tracking_residual".
        """
        return {}

    def begin(self) -> None:
        """Set the initial mass, unless it is already set."""
        if self._mass is None:
            self._mass = np.append(self.first_mass(), 1.0)

    async def say(self, k: int) -> None:
        """Take the step, and give equal shares of the mass to all receivers and to the agent itself."""
        advance(self, k)
        self.begin()
        assert self._mass is not None
        mass, receivers = self.step(self._mass), self.out_neighbors
        share = mass / (1 + len(receivers))
        if self.running_sums:
            self._must_stay(receivers)
        given = self._given + share if self.running_sums else share
        taken = await self.broadcast("mass", given)
        self._mass = share if taken or not receivers else mass
        if self.running_sums and taken:
            self._given = given

    def hear(self, frames: Sequence[Frame], k: int) -> None:
        """Add the shares received to the agent's mass, and update the model."""
        assert self._mass is not None
        shape = self._mass.shape
        heard = {frame.sender: np.asarray(as_state(frame, shape), dtype=np.float64) for frame in frames}
        if self.running_sums:
            before, self._last = self._last, self._last | heard
            heard = {sender: total - before[sender] if sender in before else total for sender, total in heard.items()}
        mass = self.settle(sum(heard.values(), self._mass))
        self._mass, self.weight = mass, float(mass[-1])

    def _must_stay(self, receivers: tuple[Hashable, ...]) -> None:
        """Raise BadInput if the receivers have changed: a new receiver would use the whole running sum as one share."""
        if self._receivers not in (None, receivers):
            raise BadInput(
                "running_sums = True: must be False where the receivers change, as with netsim.faults.Rewire"
            )
        self._receivers = receivers


@dataclass(eq=False, repr=False)
class SGP(Push):
    """Stochastic gradient push (Assran, Loizou, Ballas and Rabbat 2019, algorithm 1); with η = 0 it is push-sum.

    (x, v) ← C (x − η ∇R(θ), v); θ_i = x_i/v_i. With full gradients this is subgradient-push (Nedić and Olshevsky 2015),
    except that θ_i is read at another point of the round. Push-sum (Kempe, Dobra and Gehrke 2003) computes the mean of
    the initial θ_i.

    The method needs a cost with a gradient and strongly connected graphs, but no weights. If the costs differ, constant
    η leaves a bias. Without running sums, lost frames reduce the mass: the weights v_i fall, and the effective steps
    η/v_i grow without bound. A coder is not supported, because coding would change the total mass.
    """

    paper = papers.SGP

    def first_mass(self) -> Vector:
        """Return x = θ."""
        return self.theta.ravel()

    def step(self, mass: Vector) -> Vector:
        """Return (x − η ∇R(θ), v)."""
        if self.eta == 0.0:
            return mass
        return mass - self.eta * np.append(self.cost.gradient(self.theta).ravel(), 0.0)

    def settle(self, mass: Vector) -> Vector:
        """Set θ = x/v, and return the mass unchanged."""
        self.theta = (mass[:-1] / mass[-1]).reshape(self.theta.shape)
        return mass


@dataclass(eq=False, repr=False)
class PushDIGing(Push):
    """Gradient tracking with push-sum (Nedić, Olshevsky and Shi 2017, algorithm Push-DIGing).

    (u, y, v) ← C (u − η y, y, v); θ_i = u_i/v_i; y ← y + ∇R(θ⁺) − ∇R(θ), where θ⁺ is the new θ. Initially u = 0 and
    y = ∇R(0). Each y_i tracks the mean gradient, so constant η leads to the exact optimum, on directed and time-varying
    graphs.

    The method needs a cost with a gradient and strongly connected graphs, but no weights. Frames carry u, y and v.
    Without running sums, lost frames reduce the mass, and the models converge to another point or diverge. With running
    sums, the limit is exact if losses are independent. In long bursts of losses, an agent's weight v_i may become so
    small that the effective step η/v_i is too long. A coder is not supported, because coding would change the total
    mass.
    """

    paper = papers.DIGING
    _: KW_ONLY
    eta: Scheduled = Scheduled(above=0.0)

    def first_mass(self) -> Vector:
        """Return u = θ and y = ∇R(θ)."""
        self._gradient = self.cost.gradient(self.theta).ravel()
        return np.concatenate([self.theta.ravel(), self._gradient])

    def step(self, mass: Vector) -> Vector:
        """Return (u − η y, y, v)."""
        size = self.theta.size
        return np.concatenate([mass[:size] - self.eta * mass[size:-1], mass[size:]])

    def settle(self, mass: Vector) -> Vector:
        """Set θ = u/v, and return the mass with the change of the gradient added to y."""
        size = self.theta.size
        self.theta = (mass[:size] / mass[-1]).reshape(self.theta.shape)
        before, self._gradient = self._gradient, self.cost.gradient(self.theta).ravel()
        return np.concatenate([mass[:size], mass[size:-1] + self._gradient - before, mass[-1:]])

    def imbalance(self) -> dict[str, Array]:
        """Return y_i − ∇R_i(θ_i), whose sum over all agents is zero while no mass is lost or in transit."""
        if self._mass is None:
            return {}
        return {"tracking_residual": self._mass[self.theta.size : -1] - self._gradient}
