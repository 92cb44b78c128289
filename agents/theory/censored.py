"""Convergence of COKE and tracking by (QC-)DDKL, with the constants of lemma 6 of P. Xu's dissertation.

COKE's theorems 2 and 5 state linear convergence without constants; lemma 6 (eqs. 4.20-4.22) has constants, also for a
static problem. For all settings that were tried, the bounds exceed the error of the zero model.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from netsim.agents.consensus.censor import Geometric
from netsim.agents.theory.admm import ErrorCurve, start_energy
from netsim.agents.theory.inputs import Agents, Curvature, Graph
from netsim.agents.theory.online import copy_error_bound
from netsim.agents.theory.theorem import (
    curvature_of,
    not_accumulated,
    not_constant,
    not_curved,
    not_two_way,
    value_of,
)
from netsim.coders import Exact
from netsim.util.typing import Array, Vector


@dataclass(frozen=True)
class Constants:
    """The constants of lemma 6 for costs with curvature from m to M, a graph, ρ, and free η₁, η₂, η₃ > 0 and ν > 1.

    Attributes
    ----------
    delta : float
        δ of eq. 4.22e: min{(ν − 1)σ₋²/(2νσ₊²) − ρη₃/2, (m − ρη₁/4 − ρη₂σ₊²/8 − η₃νM²/σ₋²)/(ρσ₊²/4 + 2νM²/(ρσ₋²))}. The
        printed form lacks the ρ in the last denominator, without which the dimensions do not agree.
    psi : float
        ψ of eq. 4.22b: √((η₃/2 + δ/ρ)(ρ²/σ₋²)(σ₊⁴ + s₋⁴) + s), with s₋² = σ²max(S₋).
    s : float
        s of eq. 4.22c: ρs₋⁴/(4η₁) + ρσ₊²/(2η₂) + s₋²/(2η₃).
    strength : float
        The constant m − ρη₁/4.
    shares : tuple of float
        The constants η₂ and η₃.
    """

    delta: float
    psi: float
    s: float
    strength: float
    shares: tuple[float, float]

    @classmethod
    def of(
        cls,
        curvature: Curvature,
        graph: Graph,
        rho: float,
        etas: tuple[float, float, float],
        nu: float,
        *,
        printed: bool = False,
    ) -> "Constants":
        """Return the constants for given η₁, η₂, η₃ and ν; they give no bound unless ``delta`` > 0."""
        m, M, plus, minus, top = curvature.m, curvature.M, graph.plus, graph.minus, graph.minus_max
        one, two, three = etas
        bent = nu * M**2 / minus
        delta = min(
            (nu - 1.0) * minus / (2.0 * nu * plus) - rho * three / 2.0,
            (m - rho * one / 4.0 - rho * two * plus / 8.0 - three * bent)
            / (rho * plus / 4.0 + 2.0 * bent / (1.0 if printed else rho)),
        )
        s = rho * top**2 / (4.0 * one) + rho * plus / (2.0 * two) + top / (2.0 * three)
        psi = math.sqrt((three / 2.0 + max(delta, 0.0) / rho) * rho**2 / minus * (plus**2 + top**2) + s)
        return cls(delta, psi, s, m - rho * one / 4.0, (two, three))

    @classmethod
    def best(cls, curvature: Curvature, graph: Graph, rho: float, *, printed: bool = False) -> "Constants":
        """Return the constants with the least ψ/((1 − 1/√(1 + δ))√strength), the long-run factor of the error.

        The η are chosen as shares of the slack in the bound on ρ (eq. 4.20).
        """
        m, M, plus, minus = curvature.m, curvature.M, graph.plus, graph.minus
        shares = (0.02, 0.1, 0.3)
        found = []
        for nu, a, b, c in itertools.product((1.1, 1.5, 2.0, 4.0, 10.0), shares, shares, shares):
            three = c * min(m * minus / (nu * M**2), (nu - 1.0) * minus / (nu * plus * rho))
            etas = 4.0 * a * m / rho, 8.0 * b * m / (rho * plus), three
            each = cls.of(curvature, graph, rho, etas, nu, printed=printed)
            if each.delta > 0.0:
                found.append(each)
        return min(found, key=lambda each: each.psi / each.gap / math.sqrt(each.strength))

    @property
    def gap(self) -> float:
        """The contraction per round, 1 − 1/√(1 + δ)."""
        return 1.0 - 1.0 / math.sqrt(1.0 + self.delta)

    def errors(self, energy: float, copies: Vector) -> Array:
        """Return bounds on ‖Θ_k − Θ*‖ of a static problem, in each round, shape (rounds,).

        With u_k = √G_k, the root of `dkla_energy`, the bounds are u_k ≤ (u_{k−1} + ψz_k)/√(1 + δ) and
        ‖Θ_k − Θ*‖ ≤ (u_{k−1} + √s z_k)/√strength.

        Parameters
        ----------
        energy : float
            The initial energy G_0.
        copies : ndarray of shape (rounds,)
            The bounds z_k on ‖Θ − Θ̂‖ before and after round k.
        """
        u, found = math.sqrt(energy), []
        for z in copies:
            found.append((u + math.sqrt(self.s) * z) / math.sqrt(self.strength))
            u = (u + self.psi * z) / math.sqrt(1.0 + self.delta)
        return np.array(found)

    def tracking(self, graph: Graph, rho: float, model_drift: float, gradient_drift: float, copies: float) -> float:
        """Return the bound of lemma 6 on lim sup ‖Θ_t − Θ*_t‖ (eq. 4.21).

        Parameters
        ----------
        graph : Graph
        rho : float
        model_drift, gradient_drift : float
            ε₁ and ε₂, bounds on the change of Θ*_t and of ∇L_t(Θ*_t) in a round.
        copies : float
            ζ of lemma 5 (`netsim.agents.theory.online.copy_error_bound`).
        """
        g = math.sqrt(rho * graph.plus) * model_drift / 2.0 + gradient_drift / math.sqrt(rho * graph.minus)
        front = 1.0 + math.sqrt(max(self.shares[0], rho * self.shares[1]) / 2.0)
        total = (front * g + self.psi * copies) / self.gap + g + math.sqrt(self.s) * copies
        return total / math.sqrt(self.strength)


class CensoredConvergence(ErrorCurve):
    """COKE converges linearly for any ρ > 0 and a censor v·μᵏ, μ < 1 (COKE, theorems 2 and 5).

    The bound is `Constants.errors` with z_k = √N v μ^{k−1}. It assumes strongly convex costs of bounded curvature, a
    constant ρ, a `Geometric` censor, and no coder.
    """

    name = "theorem 5 of COKE"

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why the theorem does not apply."""
        each = list(agents.values())
        return (
            not_two_way(agents, graph)
            or not_constant(agents, "rho")
            or not_accumulated(agents)
            or ("" if all(isinstance(agent.coder, Exact) for agent in each) else "not for a coder")
            or ("" if all(isinstance(a.censor, Geometric) for a in each) else "not for censors other than Geometric")
            or ("" if len({agent.censor for agent in each}) == 1 else "not for agents of different censors")
            or not_curved(agents, strongly=True)
        )

    def errors(self, agents: Agents, graph: "nx.Graph[Any]", rounds: int) -> Array:
        """Return the bounds on ‖Θ_k − Θ*‖."""
        censor = next(iter(agents.values())).censor
        limits = [censor.threshold(k) for k in range(rounds)]
        copies = [copy_error_bound(len(agents), 1, 0.0, math.sqrt(v) if censor.squared else v) for v in limits]
        constants = Constants.best(curvature_of(agents), Graph.of(graph), value_of(agents, "rho"))
        return constants.errors(start_energy(agents, graph), np.array(copies))
