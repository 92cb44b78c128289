"""Convergence of DKLA (COKE, theorems 1 and 4; P. Xu's dissertation, theorems 1 and 4) and of COKE (theorems 2 and 5).

The proof for DKLA is that of Shi, Ling, Yuan, Wu and Yin 2014, which the papers cite.
"""

import math
from typing import Any

import networkx as nx
import numpy as np

from netsim import topology
from netsim.agents.costs.local import centralised
from netsim.agents.theory.inputs import Agents, Curvature, Graph
from netsim.agents.theory.theorem import (
    Theorem,
    curvature_of,
    not_accumulated,
    not_constant,
    not_curved,
    not_plain,
    not_two_way,
    value_of,
)
from netsim.util.typing import Array, Matrix, Vector


def dkla_delta(
    curvature: Curvature, graph: Graph, rho: float, nu: float | None = None, *, printed: bool = False
) -> float:
    """Return δ_d of COKE's theorem 4 (dissertation, eq. 2.30), for which G_k ≤ G_{k−1}/(1 + δ_d).

    δ_d = min{(ν − 1)σ₋²/(νσ₊²), m/(ρσ₊²/4 + νM²/(ρσ₋²))}, ν > 1, for costs of strong convexity m and smoothness M.

    Parameters
    ----------
    curvature : Curvature
        Contains m > 0 and M.
    graph : Graph
        Contains σ₊² and σ₋².
    rho : float
        The penalty ρ > 0.
    nu : float, optional
        The free constant ν > 1. By default the ν that makes δ_d largest: the two terms are then equal, and ν solves
        acν² + (ab − ac − m)ν − ab = 0 with a = σ₋²/σ₊², b = ρσ₊²/4, and c the factor of ν in the second denominator.
    printed : bool
        Return the printed form instead, whose second term multiplies by σ₋² where it must divide, because
        ‖β − β*‖² ≤ ‖S₋(β − β*)‖²/σ₋². For σ₋² < 1 the printed form gives too fast a rate.
    """
    m, a, b = curvature.m, graph.minus / graph.plus, rho * graph.plus / 4.0
    c = curvature.M**2 / rho * (graph.minus if printed else 1.0 / graph.minus)
    if nu is None:
        half = (a * b - a * c - m) / 2.0
        nu = (math.sqrt(half**2 + a**2 * b * c) - half) / (a * c)
    return min((nu - 1.0) / nu * a, m / (b + nu * c))


def dkla_best_rho(curvature: Curvature, graph: Graph) -> float:
    """Return the ρ > 0 that makes δ_d of `dkla_delta` largest: ρ = 2M√ν/(σ₊σ₋) with (ν − 1)/√ν = (σ₊/σ₋)(m/M).

    The ρ with the best bound is not the best ρ for the method: on least squares, `netsim.agents.theory.choose` finds a
    better one.
    """
    ratio = math.sqrt(graph.plus / graph.minus) * curvature.m / curvature.M
    root_nu = (ratio + math.sqrt(ratio**2 + 4.0)) / 2.0
    return 2.0 * curvature.M * root_nu / math.sqrt(graph.plus * graph.minus)


def dkla_energy(
    theta: Matrix, dual: Matrix, optimum: Vector, optimal_dual: Matrix, rho: float, graph: "nx.Graph[Any]"
) -> float:
    """Return the energy G = ρ‖Z − Z*‖² + ‖β − β*‖²/ρ of eq. 2.30, with Z = ½S₊ᵀΘ and Γ = S₋β.

    Parameters
    ----------
    theta, dual, optimal_dual : ndarray of shape (N, D)
        Θ, Γ and Γ* = −∇R(Θ*), in the order of the graph's nodes; the rows of Γ sum to zero.
    optimum : ndarray of shape (D,)
        θ*.
    rho : float
        ρ > 0.
    graph : networkx Graph
    """
    adjacent = topology.adjacency(graph)
    degrees = np.diag(adjacent.sum(axis=1))
    models, duals = theta - optimum, dual - optimal_dual
    copies = np.sum(models * ((degrees + adjacent) @ models)) / 2.0
    return float(rho * copies + np.sum(duals * (np.linalg.pinv(degrees - adjacent) @ duals)) / 2.0 / rho)


def coke_penalty(curvature: Curvature, graph: Graph, eta1: float, eta2: float, eta3: float, nu: float) -> float:
    """Return the upper end of ρ in COKE's theorem 5 (eq. 2.32 of the dissertation; 4.20 is the same).

    It is min{4m/η₁, (ν − 1)σ₋²/(νη₃σ₊²), (m − η₃νM²/σ₋²)/(η₁/4 + η₂σ₊²/8)}, for any η₁, η₂, η₃ > 0 and ν > 1. The η are
    free, and the upper end grows without limit as they shrink. So every ρ > 0 is allowed, and the "range" restricts
    nothing.
    """
    m, M = curvature.m, curvature.M
    return min(
        4.0 * m / eta1,
        (nu - 1.0) * graph.minus / (nu * eta3 * graph.plus),
        (m - eta3 * nu * M**2 / graph.minus) / (eta1 / 4.0 + eta2 * graph.plus / 8.0),
    )


class ErrorCurve(Theorem):
    """Base class of bounds on ‖Θ_k − Θ*‖, which give the column ``bound_error`` or, if vacuous, only a line.

    A bound is vacuous if it is never below ‖Θ*‖, the error of θ = 0.
    """

    def errors(self, agents: Agents, graph: "nx.Graph[Any]", rounds: int) -> Array:
        """Return the bounds of rounds k = 1, 2, …, shape (rounds,)."""
        raise NotImplementedError

    def bounds(self, agents: Agents, graph: "nx.Graph[Any]", rounds: int) -> dict[str, Array]:
        """Return ``bound_error``, unless it is vacuous."""
        found = self.errors(agents, graph, rounds)
        return {"bound_error": found} if found.min() < zero_error(agents) else {}

    def lines(self, agents: Agents, graph: "nx.Graph[Any]") -> list[str]:
        """Return the bound after the agents' last round, if it is vacuous."""
        rounds = max(min(agent.count for agent in agents.values()), 1)
        found, zero = self.errors(agents, graph, rounds), zero_error(agents)
        if found.min() < zero:
            return []
        end = f"the error after {rounds} rounds is at most {found[-1]:.3g} (zero model: {zero:.3g})"
        return [f"{self.name}: vacuous here, {end}"]


def optimum_of(agents: Agents) -> Vector:
    """Return θ*, the minimum of Σ R_i."""
    costs = [agent.cost for agent in agents.values()]
    return centralised(costs, sum(cost.regularizer for cost in costs))


def zero_error(agents: Agents) -> float:
    """Return ‖Θ*‖, the error of the model θ = 0 at all agents."""
    return math.sqrt(len(agents)) * float(np.linalg.norm(optimum_of(agents)))


def start_energy(agents: Agents, graph: "nx.Graph[Any]") -> float:
    """Return G_0 of `dkla_energy`, for models and dual variables that start at 0."""
    optimum = optimum_of(agents)
    dual = -np.stack([agent.cost.gradient(optimum) for agent in agents.values()])
    zeros = np.zeros_like(dual)
    return dkla_energy(zeros, zeros, optimum, dual, value_of(agents, "rho"), graph)


class LinearConvergence(ErrorCurve):
    """DKLA converges linearly: ‖Θ_k − Θ*‖² ≤ G_{k−1}/m, and G_k ≤ G_{k−1}/(1 + δ_d) (COKE, theorem 4; eqs. 2.29, 2.30).

    G is `dkla_energy`, and δ_d is `dkla_delta` at its best ν. The column ``bound_error`` is
    √(G_0/m) (1 + δ_d)^(−(k−1)/2). COKE's eq. 34 prints the bound on the norm without the root. The theorem assumes
    strongly convex costs of bounded curvature, a constant ρ, no censor and no coder.
    """

    name = "theorem 4 of COKE"

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why the theorem does not apply."""
        return (
            not_two_way(agents, graph)
            or not_constant(agents, "rho")
            or not_accumulated(agents)
            or not_plain(agents)
            or not_curved(agents, strongly=True)
        )

    def errors(self, agents: Agents, graph: "nx.Graph[Any]", rounds: int) -> Array:
        """Return the bounds on ‖Θ_k − Θ*‖."""
        curvature = curvature_of(agents)
        delta = dkla_delta(curvature, Graph.of(graph), value_of(agents, "rho"))
        start = math.sqrt(start_energy(agents, graph) / curvature.m)
        return start * (1.0 + delta) ** (-np.arange(rounds) / 2.0)

    def choice(self, agents: Agents, graph: "nx.Graph[Any]", by: str) -> dict[str, float]:
        """Return the ρ of the largest δ_d."""
        return {"rho": dkla_best_rho(curvature_of(agents), Graph.of(graph))}
