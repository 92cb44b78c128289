"""Batch methods: CTA, DKLA and COKE (Xu, Wang, Chen and Tian, "COKE: communication-censored decentralized kernel
learning", 2021; the first author's dissertation, ch. 2).

All agents use the same feature map. Neighbours exchange their models θ, never samples.
"""

from dataclasses import dataclass
from typing import ClassVar

from netsim.agents import papers
from netsim.agents.consensus.base import Diffusion, Dual, Proximal, asks
from netsim.agents.consensus.shared_rounds import compiled_steps
from netsim.agents.costs.local import Problem
from netsim.agents.theory import Theorem, admm, censored, gradient, online, recursions
from netsim.util.typing import Array


@dataclass(eq=False, repr=False)
class CTA(Diffusion):
    """Combine, then adapt: ψ_i = Σ_n w_in θ_n, θ_i = ψ_i − η ∇R_i(ψ_i) (COKE, §5).

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i.
    count, eta, weights, censor, coder
        As in `Diffusion`.
    """

    paper = papers.COKE
    theorems = (gradient.CTAStep(), recursions.ExactRate(recursions.cta, "eta"))
    cost: Problem

    @asks("gradient")
    def local_step(self) -> Array:
        """Return ψ_i − η ∇R_i(ψ_i)."""
        psi = self.combined()
        return psi - self.eta * self.cost.gradient(psi)

    # The new θ_i of all agents, if all have least-squares costs.
    local_steps = compiled_steps("gradient_steps")


@dataclass(eq=False, repr=False)
class DKLA(Proximal, Dual):
    """Decentralized kernel learning by ADMM (COKE, eqs. 18, 20, 21).

    θ_i = argmin R_i(θ) + ρ d_i‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)];  γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n).

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i.
    count, rho, censor, coder, coded_start
        As in `Dual`. Whenever ρ changes, the matrix of the local step is factored again.
    """

    paper = papers.COKE
    theorems: ClassVar[tuple[Theorem, ...]] = (
        admm.LinearConvergence(),
        online.CopyError(),
        recursions.ExactRate(recursions.dkla, "rho"),
    )
    cost: Problem

    @asks("proximal")
    def local_step(self) -> Array:
        """Return argmin R_i(θ) + ρ d_i‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)]."""
        return self.minimum(self.rho * self.degree, self.pull_to_sum())

    # The new θ_i of all agents, if all have least-squares costs.
    local_steps = compiled_steps("quadratic_steps")


@dataclass(eq=False, repr=False)
class COKE(DKLA):
    """DKLA with a censor (COKE, Algorithm 2): with h = θ_i − θ̂_i, broadcast only if ‖h‖ ≥ v·μᵏ (`Geometric`).

    The parameters are those of `DKLA`. Without a censor the two methods are the same.
    """

    theorems = (*DKLA.theorems, censored.CensoredConvergence())
