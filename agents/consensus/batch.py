"""Batch methods: CTA, DKLA and COKE (Xu, Wang, Chen and Tian, "COKE: communication-censored decentralized kernel
learning", 2021; the first author's dissertation, ch. 2).

Each agent has samples of its own, which never leave it, and the feature map in common; what neighbours share is θ.
"""

from collections.abc import Mapping
from typing import Any

from netsim.agents.consensus.base import Diffusion, Dual, Vector
from netsim.agents.consensus.censor import Censor
from netsim.agents.costs.local import Problem
from netsim.quantize import Coder


class CTA(Diffusion):
    """Combine, then adapt: ψ_i = Σ_n w_in θ_n, θ_i = ψ_i − η ∇R_i(ψ_i) (COKE, §5).

    Parameters
    ----------
    problem : Problem
        The agent's cost R_i.
    count, eta, weights, censor, coder
        As in `Diffusion`.
    """

    def __init__(
        self,
        problem: Problem,
        count: int,
        *,
        eta: float,
        weights: Mapping[Any, float],
        censor: Censor | None = None,
        coder: Coder | None = None,
    ) -> None:
        super().__init__(problem.size, count, eta=eta, weights=weights, censor=censor, coder=coder)
        self.problem = problem

    def local_step(self) -> Vector:
        """Return ψ_i − η ∇R_i(ψ_i)."""
        psi = self.combined()
        return psi - self.eta * self.problem.gradient(psi)


class COKE(Dual):
    """Censored decentralized ADMM (COKE, eqs. 20, 21): with h = θ_i − θ̂_i, broadcast only if ‖h‖ ≥ v·μᵏ.

    θ_i = argmin R_i(θ) + ρ d_i‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)];  γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n).

    Parameters
    ----------
    problem : Problem
        The agent's cost R_i.
    count, rho, censor, coder
        As in `Dual`.
    """

    def __init__(
        self, problem: Problem, count: int, *, rho: float, censor: Censor | None = None, coder: Coder | None = None
    ) -> None:
        super().__init__(problem.size, count, rho=rho, censor=censor, coder=coder)
        self.problem = problem

    def start(self) -> None:
        """Factor the local step's matrix, once."""
        super().start()
        self._argmin = self.problem.proximal(self.rho * self.degree)

    def local_step(self) -> Vector:
        """Return argmin R_i(θ) + ρ d_i‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)]."""
        return self._argmin(self.pull_to_sum())


class DKLA(COKE):
    """Decentralized kernel learning by ADMM (COKE, eq. 18): COKE that is never censored."""

    def __init__(self, problem: Problem, count: int, *, rho: float, coder: Coder | None = None) -> None:
        super().__init__(problem, count, rho=rho, coder=coder)
