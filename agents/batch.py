"""Batch methods: CTA, DKLA and COKE (Xu, Wang, Chen and Tian, "COKE: communication-censored decentralized kernel
learning", 2021; the first author's dissertation, ch. 2).

Each agent has samples of its own, which never leave it, and the feature map in common; what neighbours share is θ.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import netsim
from agents.censor import Censor, Geometric
from agents.local import LocalProblem
from agents.sharing import Sharing
from netsim import check
from netsim.quantize import Coder

Vector = NDArray[np.float64]


class BatchAgent(netsim.Agent):
    """Base of the batch methods: in each round a local step, then the state is shared.

    Parameters
    ----------
    problem : LocalProblem
        The agent's cost R_i.
    count : int
        Number of rounds.
    censor : Censor, optional
        Default: none.
    coder : netsim.quantize.Coder, optional
        Default: none.

    Attributes
    ----------
    theta : ndarray of shape (D,)
        θ_i, zeros at first.
    sharing : Sharing
        θ̂_i and the copies of the neighbours'; available once it runs.
    """

    def __init__(
        self, problem: LocalProblem, count: int, *, censor: Censor | None = None, coder: Coder | None = None
    ) -> None:
        self.problem = problem
        self.count = check.integer("count", count, low=0)
        self.censor = censor
        self.coder = coder
        self.theta: Vector = np.zeros(problem.size)
        self.sharing: Sharing

    async def run(self) -> None:
        """Take part in the rounds."""
        self.sharing = Sharing(self, self.problem.size, self.censor, self.coder)
        self.start()
        async for k in self.rounds(self.count):
            self.theta = self.local_step()
            await self.sharing.share(self.theta, k)
            self.after_sharing()

    def start(self) -> None:
        """Prepare for the first round, the neighbours being known."""

    def local_step(self) -> Vector:
        """Return the new θ_i, shape (D,)."""
        raise NotImplementedError

    def after_sharing(self) -> None:
        """Use what was heard."""


class CTA(BatchAgent):
    """Combine, then adapt: ψ_i = Σ_n w_in θ_n, θ_i = ψ_i − η ∇R_i(ψ_i) (COKE, §5).

    A neighbour that was never heard is left out and the other weights grow to sum to 1.

    Parameters
    ----------
    eta : float
        Step size η > 0.
    weights : mapping
        w_in of the agent itself and of each neighbour, by name: a row of a doubly stochastic matrix.
    """

    def __init__(
        self, problem: LocalProblem, count: int, *, eta: float, weights: Mapping[Any, float], censor: Censor | None = None,
        coder: Coder | None = None,
    ) -> None:
        super().__init__(problem, count, censor=censor, coder=coder)
        self.eta = check.finite("eta", eta, above=0.0)
        self.weights = weights

    def start(self) -> None:
        """Look up the agent's own weight."""
        self._own_weight = self.weights[self.name]

    def local_step(self) -> Vector:
        """Return ψ_i − η ∇R_i(ψ_i)."""
        psi = self._own_weight * self.theta
        total = self._own_weight
        for neighbor in self.neighbors:
            if neighbor in self.sharing.heard:
                psi += self.weights[neighbor] * self.sharing.copies[neighbor]
                total += self.weights[neighbor]
        psi /= total
        return psi - self.eta * self.problem.gradient(psi)


class COKE(BatchAgent):
    """Censored decentralized ADMM (COKE, eqs. 20, 21): with h = θ_i − θ̂_i, broadcast only if ‖h‖ ≥ v·μᵏ.

    θ_i = argmin R_i(θ) + ρ d_i‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)];  γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n).

    Parameters
    ----------
    rho : float
        Penalty ρ > 0.

    Attributes
    ----------
    dual : ndarray of shape (D,)
        γ_i. Over all agents the duals sum to zero as long as no frame is lost.
    """

    def __init__(
        self, problem: LocalProblem, count: int, *, rho: float, censor: Censor | None = None, coder: Coder | None = None
    ) -> None:
        super().__init__(problem, count, censor=censor, coder=coder)
        self.rho = check.finite("rho", rho, above=0.0)
        self.dual: Vector = np.zeros(problem.size)

    def start(self) -> None:
        """Factor the local step's matrix, once."""
        self.degree = len(self.neighbors)
        self._argmin = self.problem.proximal(self.rho * self.degree)
        self._others: Vector = np.zeros(self.problem.size)

    def local_step(self) -> Vector:
        """Return argmin R_i(θ) + ρ d_i‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)]."""
        return self._argmin(self.dual - self.rho * (self.degree * self.sharing.own + self._others))

    def after_sharing(self) -> None:
        """Move the dual: γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n)."""
        self._others = self.sharing.sum_of_copies()
        self.dual = self.dual + self.rho * (self.degree * self.sharing.own - self._others)


class DKLA(COKE):
    """Decentralized kernel learning by ADMM (COKE, eq. 18): COKE with a threshold of zero."""

    def __init__(self, problem: LocalProblem, count: int, *, rho: float, coder: Coder | None = None) -> None:
        super().__init__(problem, count, rho=rho, censor=Geometric(0.0, 1.0), coder=coder)
