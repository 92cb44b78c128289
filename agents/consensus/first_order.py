"""Gradient methods that average with a symmetric, doubly stochastic matrix W: D-PSGD, EXTRA and PG-EXTRA.

Each step computes one gradient, which may be stochastic. With constant η, D-PSGD only approaches the optimum. EXTRA and
PG-EXTRA converge to the optimum, because each agent has a dual variable that cancels the agent's local gradient there.
"""

from dataclasses import KW_ONLY, dataclass

from netsim.agents import papers
from netsim.agents.consensus.base import Diffusion, WithDual, asks
from netsim.agents.costs.local import Problem
from netsim.agents.costs.nonsmooth import Nonsmooth
from netsim.agents.theory import gradient, recursions
from netsim.errors import BadInput
from netsim.util.typing import Array


@dataclass(eq=False, repr=False)
class DPSGD(Diffusion):
    """Decentralized parallel SGD: θ_i ← Σ_n w_in θ_n − η ∇R_i(θ_i) (Lian et al. 2017, algorithm 1).

    With full gradients D-PSGD is decentralized gradient descent (Nedić and Ozdaglar 2009). D-PSGD computes the gradient
    at θ_i, whereas `CTA` computes it at the mean ψ_i. If the agents' costs differ, the distance of the limit from the
    optimum grows with η. Frames carry θ. Losses have no lasting effect: with 30 % of the frames lost, the distance of
    the limit from the optimum is the same.

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i, with its gradient, which may be stochastic.
    count, eta, weights, unheard, censor, coder
        As in `Diffusion`.
    """

    paper = papers.LIAN
    theorems = (gradient.DPSGDStep(), gradient.Disagreement(), recursions.ExactRate(recursions.dpsgd, "eta"))
    cost: Problem

    @asks("gradient")
    def local_step(self) -> Array:
        """Return ψ_i − η ∇R_i(θ_i)."""
        return self.combined() - self.eta * self.cost.gradient(self.theta)


@dataclass(eq=False, repr=False)
class EXTRA(WithDual, Diffusion):
    """EXTRA: θ_i ← Σ_n w_in θ_n − η ∇R_i(θ_i) − q_i; q_i ← q_i + ½(θ_i − Σ_n w_in θ_n) (Shi et al. 2015, algorithm 1).

    Both right-hand sides use the θ of the previous round; q_i starts at 0. This is the paper's recursion, with
    W̃ = (I + W)/2, summed over the rounds. With constant η < 2 λ_min(W̃)/L, where L is the largest curvature, EXTRA
    converges to the optimum of Σ R_i. The q_i of all agents sum to zero while no frame is lost.

    Frames carry θ. A lost frame permanently changes q_i at one end of a link only, so the agents agree on a biased
    model, whether 1 % or 30 % of the frames are lost. ``Link(reliability="ack")`` keeps the limit exact. The limit is
    also exact with a coder that encodes changes, because q_i is a sum of the states θ̂ that both ends know.

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i, with its gradient.
    count, eta, weights, unheard, censor, coder
        As in `Diffusion`.

    Attributes
    ----------
    dual : ndarray
        q_i.
    """

    paper = papers.EXTRA
    theorems = (gradient.EXTRAStep(), recursions.ExactRate(recursions.extra, "eta"))
    cost: Problem

    @asks("gradient")
    def local_step(self) -> Array:
        """Return θ_i + p_i − η ∇R_i(θ_i) − q_i with p_i = Σ_n w_in (θ_n − θ_i), and set q_i ← q_i − ½p_i."""
        pull, dual = self.pull(), self.dual
        self.dual = dual - 0.5 * pull
        return self.theta + pull - self.eta * self.cost.gradient(self.theta) - dual


@dataclass(eq=False, repr=False)
class PGEXTRA(EXTRA):
    """EXTRA for R_i = s_i + r_i with nonsmooth r_i: θ_i ← prox_ηr(z_i), where z_i is EXTRA's θ_i for s_i.

    Shi, Ling, Wu and Yin 2015, "A proximal gradient algorithm for decentralized composite optimization", algorithm 1,
    with W̃ = (I + W)/2. Without r_i the method is EXTRA. Frames, weights and the effect of losses are as in `EXTRA`.

    Parameters
    ----------
    nonsmooth : Nonsmooth
        The term r_i, given by its proximal step prox_ηr(z) = argmin r(θ) + ‖θ − z‖²/(2η), for example `L1`.
    cost : Problem
        The smooth part s_i of R_i, with its gradient.
    count, eta, weights, unheard, censor, coder
        As in `Diffusion`.
    """

    paper = papers.PG_EXTRA
    _: KW_ONLY
    nonsmooth: Nonsmooth

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(getattr(self.nonsmooth, "prox", None)):
            kind = type(self.nonsmooth).__name__
            raise BadInput(f"nonsmooth = <{kind}>: must have a method prox(z, eta), as netsim.agents.L1 has")

    @asks("gradient")
    def local_step(self) -> Array:
        """Return prox_ηr(z_i)."""
        return self.nonsmooth.prox(super().local_step(), self.eta)
