"""LEAD: linear convergence with coded differences (Liu, Li, Wang, Tang and Yan 2021)."""

from dataclasses import KW_ONLY, dataclass

import netsim
from netsim.agents import papers
from netsim.agents.consensus.base import WithDual, asks
from netsim.agents.consensus.duals import Sending
from netsim.agents.consensus.gossip import Gossip
from netsim.agents.consensus.sharing import Sharing
from netsim.agents.costs.local import Problem
from netsim.agents.schedule import Scheduled
from netsim.agents.theory import lead
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Array, Vector


class DampedSharing(Sharing):
    """A `Sharing` that encodes θ_i − H_i. The slowly moving H follow θ̂: H ← (1 − α) H + α θ̂ after each round.

    Receivers decode the state θ̂_i = H_i + Q(θ_i − H_i). H is never sent: agent i computes its H_i from its θ̂_i, and
    the H_n of each neighbour n from the θ̂_n received. After the exchange, ``own`` is θ̂_i and ``copies`` has the θ̂_n.
    """

    def __init__(self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, alpha: float) -> None:
        super().__init__(agent, size, sending.censor, sending.coder, coded_start=sending.coded_start)
        self._alpha = alpha
        self._hidden, self._hidden_copies = self.own, self.copies.table.copy()

    async def say(self, state: Vector, round_number: int) -> None:
        """Update H_i and all H_n, and broadcast the encoded θ_i − H_i unless it is censored."""
        self.own = self._hidden = self._hidden + self._alpha * (self.own - self._hidden)
        self._hidden_copies += self._alpha * (self.copies.table - self._hidden_copies)
        self.copies.table[...] = self._hidden_copies
        await super().say(state, round_number)


@dataclass(eq=False, repr=False)
class LEAD(WithDual, Gossip):
    """LEAD: a primal-dual method whose coded differences vanish, so that coding costs no accuracy (algorithm 1).

    Y_i = θ_i − η ∇R_i(θ_i) − η D_i;  Ŷ_i = H_i + Q(Y_i − H_i);  H_i ← (1 − α) H_i + α Ŷ_i, both at i and in its
    neighbours' copies;  D_i ← D_i + γ/(2η) Σ_n w_in (Ŷ_i − Ŷ_n);  θ_i ← θ_i − η ∇R_i(θ_i) − η D_i with the new
    D_i and the same gradient. Initially H = D = 0 and θ_i = −η ∇R_i(0).

    Frames carry Q(Y − H). With Q exact and γ = 1, LEAD is NIDS. The paper uses α = ½, γ = 1 and any unbiased Q. A
    biased contraction (`Uniform`) of 2 bits or more works as well; `TopK` needs small γ and α. With constant η LEAD
    converges linearly to the optimum, however much the agents' data differ.

    A lost difference stays missing from a copy of H, and changes D at only one end of a link. With 1 % of the frames
    lost, the agents agree on a model far from the optimum. ``Link(reliability="ack")``, which acknowledges each
    difference on each link, keeps the limit exact. The D_i of all agents sum to zero while no frame is lost.

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i, with its gradient, which may be stochastic.
    eta : float or schedule
        Step size η > 0, at most about 2/L, where L is the largest curvature.
    alpha : float
        Step α of H towards Ŷ, in (0, 1].
    count, gamma, weights, censor, coder, unheard
        As in `Gossip`.

    Attributes
    ----------
    dual : ndarray
        D_i.
    """

    paper = papers.LEAD
    theorems = (lead.LeadRange(),)
    cost: Problem
    _: KW_ONLY
    eta: Scheduled = Scheduled(above=0.0)
    alpha: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.alpha = check.finite("alpha", self.alpha, above=0.0)
        if self.alpha > 1.0:
            raise BadInput(f"alpha = {self.alpha:g}: must be > 0 and <= 1")

    def new_sharing(self) -> Sharing:
        """Return a `DampedSharing`, because the method encodes differences from H_i, not from θ̂_i."""
        return DampedSharing(self, self.theta.shape, self._sending, self.alpha)

    def start(self) -> None:
        """Take the first gradient step, θ_i = −η ∇R_i(0), which needs no frames."""
        super().start()
        self.theta = self.theta - self.eta * self.cost.gradient(self.theta)

    @asks("gradient")
    def local_step(self) -> Array:
        """Return Y_i = θ_i − η ∇R_i(θ_i) − η D_i."""
        return self.theta - self.eta * self.cost.gradient(self.theta) - self.eta * self.dual

    def after_sharing(self) -> None:
        """Compute the new D_i, called D_i⁺, and set θ_i = Y_i − η (D_i⁺ − D_i)."""
        before, self.dual = self.dual, self.dual - self.gamma / (2.0 * self.eta) * self.pull()
        self.theta = self.theta - self.eta * (self.dual - before)
