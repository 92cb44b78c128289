"""Exact rates: on least squares, a method without censor and coder is a linear recursion x ← Mx + c.

The spectral radius of M is the factor by which the error of a long run shrinks in a round. The agents' dual variables
sum to zero. So they are written as (B ⊗ I) r, where the N − 1 columns of B are orthonormal and each sums to zero.
Otherwise M would have eigenvalues 1 for directions in which no run moves.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from scipy.linalg import block_diag, null_space

from netsim import topology
from netsim.agents.theory.inputs import Agents, weights_of
from netsim.agents.theory.theorem import (
    Theorem,
    not_accumulated,
    not_constant,
    not_mixing,
    not_plain,
    not_quadratic,
    not_two_way,
    value_of,
)
from netsim.util.typing import Array, Matrix, Vector

LARGEST = 2000
"""The largest N·D for which a rate is computed: the time for the eigenvalues grows as (N·D)³."""


@dataclass(frozen=True)
class Recursion:
    """A linear recursion e ← M e of the error e = x − x*, from x_0 = 0.

    Attributes
    ----------
    matrix : ndarray of shape (n, n)
        The matrix M.
    start : ndarray of shape (n,)
        The initial error e_0, whose first N·D numbers are Θ_0 − Θ_fixed.
    offset : ndarray of shape (N·D,)
        Θ_fixed − Θ*: the difference between the fixed point and the optimum of Σ R_i.
    """

    matrix: Matrix
    start: Vector
    offset: Vector

    @property
    def rate(self) -> float:
        """The spectral radius of M, the factor of a long run's error per round; the method diverges from 1 on."""
        return float(np.abs(np.linalg.eigvals(self.matrix)).max())

    def errors(self, rounds: int) -> Array:
        """Return ‖Θ_k − Θ*‖ after rounds k = 1, 2, …, shape (rounds,); infinite once it overflows."""
        error, found = self.start, []
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(rounds):
                error = self.matrix @ error
                found.append(float(np.linalg.norm(error[: len(self.offset)] + self.offset)))
        return np.nan_to_num(found, nan=np.inf, posinf=np.inf)


@dataclass(frozen=True)
class Quadratics:
    """The stacked costs R_i(θ) = ½ θᵀH_iθ − b_iᵀθ of all agents: H, shape (N·D, N·D), and b and Θ*, shape (N·D,)."""

    H: Matrix
    b: Vector
    optimum: Vector
    agents: int

    @classmethod
    def of(cls, agents: Agents) -> "Quadratics":
        """Return the stacked costs of agents with least squares."""
        costs = [agent.cost for agent in agents.values()]
        hessians, linear = [cost.hessian for cost in costs], np.stack([cost.linear for cost in costs])
        theta = np.linalg.solve(np.sum(hessians, axis=0), linear.sum(axis=0))
        return cls(block_diag(*hessians), linear.ravel(), np.tile(theta, len(costs)), len(costs))

    def each(self, matrix: Matrix) -> Matrix:
        """Return matrix ⊗ I, which applies the matrix to the agents' stacked models."""
        return np.asarray(np.kron(matrix, np.eye(len(self.b) // self.agents)), dtype=np.float64)

    @property
    def identity(self) -> Matrix:
        """The identity matrix, shape (N·D, N·D)."""
        return np.eye(len(self.b))

    def balanced(self) -> Matrix:
        """Return B ⊗ I, the basis of dual variables that sum to zero."""
        return self.each(null_space(np.ones((1, self.agents))))


def diffusion(step: Matrix, pull: Vector, optimum: Vector) -> Recursion:
    """Return the recursion Θ ← step·Θ + pull."""
    fixed = np.asarray(np.linalg.solve(np.eye(len(step)) - step, pull), dtype=np.float64)
    return Recursion(step, -fixed, fixed - optimum)


def cta(agents: Agents, graph: "nx.Graph[Any]", eta: float) -> Recursion:
    """Return the recursion of `CTA`: Θ ← (I − ηH) W Θ + ηb."""
    costs, W = Quadratics.of(agents), weights_of(agents)
    return diffusion((costs.identity - eta * costs.H) @ costs.each(W), eta * costs.b, costs.optimum)


def dpsgd(agents: Agents, graph: "nx.Graph[Any]", eta: float) -> Recursion:
    """Return the recursion of `DPSGD` with full gradients: Θ ← (W − ηH) Θ + ηb."""
    costs, W = Quadratics.of(agents), weights_of(agents)
    return diffusion(costs.each(W) - eta * costs.H, eta * costs.b, costs.optimum)


def extra(agents: Agents, graph: "nx.Graph[Any]", eta: float) -> Recursion:
    """Return the recursion of `EXTRA`: Θ ← (W − ηH) Θ + ηb − Br; r ← r + ½ Bᵀ(I − W) Θ with the old Θ."""
    costs = Quadratics.of(agents)
    W, B, H, b = costs.each(weights_of(agents)), costs.balanced(), costs.H, costs.b
    matrix = np.block([[W - eta * H, -B], [0.5 * B.T @ (costs.identity - W), np.eye(B.shape[1])]])
    fixed = np.concatenate([costs.optimum, B.T @ (eta * (b - H @ costs.optimum))])
    return Recursion(matrix, -fixed, np.zeros(len(b)))


def diging(agents: Agents, graph: "nx.Graph[Any]", eta: float) -> Recursion:
    """Return the recursion of `DIGing`: Θ ← WΘ − ηY; Y ← WY + H(Θ⁺ − Θ), with Y = HΘ − b + Br."""
    costs = Quadratics.of(agents)
    W, B, H, b = costs.each(weights_of(agents)), costs.balanced(), costs.H, costs.b
    # r⁺ = Bᵀ(Y⁺ − HΘ⁺ + b) = Bᵀ(WY − HΘ + b) = BᵀW(HΘ − b + Br) − Bᵀ(HΘ − b).
    matrix = np.block([[W - eta * H, -eta * B], [B.T @ (W - costs.identity) @ H, B.T @ W @ B]])
    fixed = np.concatenate([costs.optimum, B.T @ (b - H @ costs.optimum)])
    return Recursion(matrix, -fixed, np.zeros(len(b)))


def dkla(agents: Agents, graph: "nx.Graph[Any]", rho: float) -> Recursion:
    """Return the recursion of `DKLA`, with K = (H + 2ρD)⁻¹ and Γ = Br.

    Θ ← K[b + ρ(D + A)Θ − Br];  r ← r + ρ Bᵀ(D − A) Θ⁺.
    """
    costs = Quadratics.of(agents)
    adjacent = topology.adjacency(graph)
    degrees = np.diag(adjacent.sum(axis=1))
    B, H, b = costs.balanced(), costs.H, costs.b
    K = np.linalg.inv(H + 2.0 * rho * costs.each(degrees))
    laplacian = costs.each(degrees - adjacent)
    top = np.hstack([rho * K @ costs.each(degrees + adjacent), -K @ B])
    bottom = np.hstack([np.zeros((B.shape[1], len(b))), np.eye(B.shape[1])]) + rho * B.T @ laplacian @ top
    fixed = np.concatenate([costs.optimum, B.T @ (b - H @ costs.optimum)])
    return Recursion(np.vstack([top, bottom]), -fixed, np.zeros(len(b)))


@dataclass(frozen=True)
class ExactRate(Theorem):
    """The rate of a method on least squares: the spectral radius of its recursion (derived, not from a paper).

    This assumes constant parameters, no censor, no coder and no lost frame. The recursion also gives the
    ``predicted_error`` ‖Θ_k − Θ*‖ of each round.

    Parameters
    ----------
    recursion : callable
        Returns the `Recursion` for agents, a graph and the parameter's value.
    parameter : str
        The method's step or penalty.
    """

    recursion: Callable[[Agents, "nx.Graph[Any]", float], Recursion]
    parameter: str
    name: str = "the exact rate"

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why there is no exact rate."""
        reason = (
            not_two_way(agents, graph)
            or not_constant(agents, self.parameter)
            or not_plain(agents)
            or not_quadratic(agents)
            or (not_mixing(agents, graph) if self.parameter == "eta" else not_accumulated(agents))
        )
        size = 0 if reason else sum(agent.cost.size for agent in agents.values())
        return reason or (f"not for more than {LARGEST} numbers in all models ({size})" if size > LARGEST else "")

    def of(self, agents: Agents, graph: "nx.Graph[Any]", value: float | None = None) -> Recursion:
        """Return the recursion for the agents' parameter, or for another value."""
        return self.recursion(agents, graph, value_of(agents, self.parameter) if value is None else value)

    def bounds(self, agents: Agents, graph: "nx.Graph[Any]", rounds: int) -> dict[str, Array]:
        """Return ``predicted_error``."""
        return {"predicted_error": self.of(agents, graph).errors(rounds)}
