"""Step sizes for which D-PSGD with full gradients, CTA, EXTRA and DIGing converge.

Each has a guaranteed limit, which follows from the curvature of the costs, and an exact limit on least squares. All
exact limits are derived here. They follow from λmax(S H S), where the symmetric matrix S acts on the agents, so they
cost a few products with the Hessians.
"""

from typing import Any, ClassVar

import networkx as nx
import numpy as np

from netsim.agents.costs.local import LocalProblem
from netsim.agents.theory.inputs import Agents, Curvature, Mixing, weights_of
from netsim.agents.theory.recursions import cta
from netsim.agents.theory.theorem import (
    Probe,
    Range,
    Theorem,
    curvature_of,
    not_constant,
    not_curved,
    not_mixing,
    not_plain,
    not_quadratic,
    not_two_way,
    value_of,
)
from netsim.util.typing import Array, Matrix, Vector

# CTA's exact limit has no closed form. It is searched by the spectral radius, for N·D of at most this number.
_MOST_SEARCHED = 120


def dpsgd_edge(mixing: Mixing, curvature: Curvature) -> float:
    """Return the largest step (1 + λ_N)/M of D-PSGD with full gradients, for any convex costs.

    D-PSGD is gradient descent with step η on Σ R_i(θ_i) + ⟨Θ, (I − W)Θ⟩/(2η), whose gradient has the Lipschitz constant
    M + (1 − λ_N)/η; descent needs η (M + (1 − λ_N)/η) < 2 (Yuan, Ling and Yin 2016).
    """
    return (1.0 + mixing.last) / curvature.M


def dpsgd_exact_edge(weights: Matrix, hessians: Array) -> float:
    """Return η = 1/λmax((I + W)⁻¹H), where W − ηH has an eigenvalue −1: above it D-PSGD diverges on least squares."""
    return 1.0 / _largest(np.eye(len(weights)) + weights, hessians)


def cta_edge(curvature: Curvature) -> float:
    """Return the largest step 2/M of CTA, for any W: below it a gradient step contracts, and W does not expand."""
    return 2.0 / curvature.M


def extra_edge(mixing: Mixing, curvature: Curvature) -> float:
    """Return the largest step 2λmin(W̃)/M of EXTRA with W̃ = (I + W)/2, for any convex costs.

    That is (1 + λ_N)/M (Shi, Ling, Wu and Yin 2015, theorem 3.3, as restated in other papers).
    """
    return (1.0 + mixing.last) / curvature.M


def extra_exact_edge(weights: Matrix, hessians: Array) -> float:
    """Return the η above which EXTRA diverges on least squares, 1/(4 λmax((5I + 3W)⁻¹H)); at least (5 + 3λ_N)/(4M).

    A mode Θ_k = λᵏv of Θ_{k+2} − (I + W − ηH)Θ_{k+1} + (½(I + W) − ηH)Θ_k = 0 has λ² − (2w − h)λ + (w − h) = 0, where
    w and h are the Rayleigh quotients of ½(I + W) and ηH at v. Both roots are within the unit circle if 2h < 1 + 3w for
    all v, that is, 2ηH < (5I + 3W)/2. (If v is equal at all agents, the roots are 1 − h and 1, but no run moves along
    the latter.) At the limit λ = −1 is an eigenvalue, and above it an eigenvalue is below −1.
    """
    return 1.0 / (4.0 * _largest(5.0 * np.eye(len(weights)) + 3.0 * weights, hessians))


def diging_edge(mixing: Mixing, curvature: Curvature) -> float:
    """Return the step (1 + λ_N)²/(2M), which is at most `diging_exact_edge` for all least squares of curvature M."""
    return (1.0 + mixing.last) ** 2 / (2.0 * curvature.M)


def diging_exact_edge(weights: Matrix, hessians: Array) -> float:
    """Return the η above which DIGing diverges on least squares, 1/(2 λmax((I + W)⁻²H)).

    A mode Θ_k = λᵏv of Θ_{k+2} − (2W − ηH)Θ_{k+1} + (W² − ηH)Θ_k = 0 has λ² − (2w − h)λ + (u − h) = 0, where w, u and h
    are the Rayleigh quotients of W, W² and ηH at v. Both roots are within the unit circle if 2h < 1 + 2w + u for all v,
    that is, 2ηH < (I + W)², with the same exception as for EXTRA. At the limit λ = −1 is an eigenvalue.
    """
    whole = np.eye(len(weights)) + weights
    return 1.0 / (2.0 * _largest(whole @ whole, hessians))


def _largest(mixed: Matrix, hessians: Array) -> float:
    """Return λmax of (mixed ⊗ I)⁻¹ diag(H_i), for a positive semi-definite matrix; infinite if it is singular."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    values, vectors = np.linalg.eigh(mixed)
    if values[0] < 1e-12:
        return float("inf")
    root = vectors / np.sqrt(values) @ vectors.T
    shape = hessians.shape[:2]

    def product(x: Vector) -> Vector:
        return np.ravel(root @ np.einsum("nij,nj->ni", hessians, root @ x.reshape(shape)))

    n = shape[0] * shape[1]
    if n < 10:
        return float(np.linalg.eigvalsh(np.stack([product(x) for x in np.eye(n)]))[-1])
    # Use a fixed start vector, because eigsh's default is random.
    start = np.random.default_rng(0).standard_normal(n)
    operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
    return float(eigsh(operator, k=1, which="LA", v0=start, return_eigenvectors=False)[0])


def cta_exact_edge(agents: Agents, graph: "nx.Graph[Any]", eta: float) -> float:
    """Return the step above which CTA diverges on least squares, found by bisection of its spectral radius.

    The radius is below 1 up to `cta_edge`. The step ``eta`` is tried as well, so that the result is on its right side.
    """
    low = cta_edge(curvature_of(agents))
    high = max(2.0 * low, eta)
    while cta(agents, graph, high).rate < 1.0:
        low, high = high, 2.0 * high
    middle = eta if low < eta < high else (low + high) / 2.0
    for _ in range(20):
        low, high = (middle, high) if cta(agents, graph, middle).rate < 1.0 else (low, middle)
        middle = (low + high) / 2.0
    return low


class StepRange(Theorem):
    """Base class of ranges of the step η: guaranteed by the curvature of the costs, and exact on quadratic costs.

    The ranges assume a constant η, no censor, no coder, full gradients, and symmetric, doubly stochastic weights.
    """

    parameter: ClassVar[str] = "eta"
    method: ClassVar[str]
    source: ClassVar[str]

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why no range of the step is known."""
        return (
            not_two_way(agents, graph)
            or not_constant(agents, "eta")
            or not_plain(agents)
            or not_curved(agents)
            or not_mixing(agents, graph)
        )

    def ranges(self, agents: Agents, graph: "nx.Graph[Any]") -> list[Range]:
        """Return the guaranteed range and, on least squares, the exact one."""
        eta, curvature = value_of(agents, "eta"), curvature_of(agents)
        found = [Range("eta", eta, 0.0, self.edge(agents, curvature), self.source)]
        if curvature.hessians is not None and (edge := self.exact_edge(agents, graph, curvature.hessians)) is not None:
            found.append(Range("eta", eta, 0.0, edge, self.method, exact=True))
        return found

    def edge(self, agents: Agents, curvature: Curvature) -> float:
        """Return the end of the guaranteed range."""
        raise NotImplementedError

    def exact_edge(self, agents: Agents, graph: "nx.Graph[Any]", hessians: Array) -> float | None:
        """Return the end of the exact range; None if it is not computed."""
        raise NotImplementedError

    def choice(self, agents: Agents, graph: "nx.Graph[Any]", by: str) -> dict[str, float]:
        """Return half of the guaranteed range's end."""
        return {"eta": 0.5 * self.edge(agents, curvature_of(agents))}


class DPSGDStep(StepRange):
    """D-PSGD's step: η < (1 + λ_N)/M for all convex costs (`dpsgd_edge`), and `dpsgd_exact_edge` on least squares."""

    name = method = "D-PSGD"
    source = "D-PSGD for curvatures up to M"

    def edge(self, agents: Agents, curvature: Curvature) -> float:
        """Return (1 + λ_N)/M."""
        return dpsgd_edge(Mixing.of(weights_of(agents)), curvature)

    def exact_edge(self, agents: Agents, graph: "nx.Graph[Any]", hessians: Array) -> float:
        """Return 1/λmax((I + W)⁻¹H)."""
        return dpsgd_exact_edge(weights_of(agents), hessians)


class EXTRAStep(StepRange):
    """EXTRA's step: η < (1 + λ_N)/M (`extra_edge`), and `extra_exact_edge` on least squares."""

    name = method = "EXTRA"
    source = "theorem 3.3 of EXTRA for curvatures up to M"

    def edge(self, agents: Agents, curvature: Curvature) -> float:
        """Return (1 + λ_N)/M."""
        return extra_edge(Mixing.of(weights_of(agents)), curvature)

    def exact_edge(self, agents: Agents, graph: "nx.Graph[Any]", hessians: Array) -> float:
        """Return 1/(4 λmax((5I + 3W)⁻¹H))."""
        return extra_exact_edge(weights_of(agents), hessians)


class DIGingStep(StepRange):
    """DIGing's step on least squares: η < (1 + λ_N)²/(2M) (`diging_edge`); the exact limit is `diging_exact_edge`."""

    name = method = "DIGing"
    source = "DIGing on least squares of curvatures up to M"

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why no range of the step is known."""
        return super().why_not(agents, graph) or not_quadratic(agents)

    def edge(self, agents: Agents, curvature: Curvature) -> float:
        """Return (1 + λ_N)²/(2M)."""
        return diging_edge(Mixing.of(weights_of(agents)), curvature)

    def exact_edge(self, agents: Agents, graph: "nx.Graph[Any]", hessians: Array) -> float:
        """Return 1/(2 λmax((I + W)⁻²H))."""
        return diging_exact_edge(weights_of(agents), hessians)


class CTAStep(StepRange):
    """CTA's step: η < 2/M, whatever W (`cta_edge`), and `cta_exact_edge` on small least squares."""

    name = method = "CTA"
    source = "CTA for curvatures up to M"

    def edge(self, agents: Agents, curvature: Curvature) -> float:
        """Return 2/M."""
        return cta_edge(curvature)

    def exact_edge(self, agents: Agents, graph: "nx.Graph[Any]", hessians: Array) -> float | None:
        """Return where the spectral radius exceeds 1."""
        small = hessians.shape[0] * hessians.shape[1] <= _MOST_SEARCHED
        return cta_exact_edge(agents, graph, value_of(agents, "eta")) if small else None

    def choice(self, agents: Agents, graph: "nx.Graph[Any]", by: str) -> dict[str, float]:
        """Return η = 2/(m + M), the step of the best contraction."""
        curvature = curvature_of(agents)
        return {"eta": 2.0 / (curvature.m + curvature.M)}


class Disagreement(Theorem):
    """A bound on the disagreement of D-PSGD's models (after Nedić and Ozdaglar 2009; derived here).

    With J the matrix of elements 1/N, the deviations D_k = (I − J)Θ_k from the mean follow D_{k+1} = W D_k −
    η(I − J)∇R(Θ_k), so that ‖D_{k+1}‖ ≤ σ‖D_k‖ + η‖(I − J)∇R(Θ_k)‖ with σ = max(|λ₂|, |λ_N|). The column
    ``bound_consensus_error`` is ‖D_k‖²/N by this recursion, with the gradients of the run; the measured value is
    `netsim.agents.measures.metrics.consensus_error`. This assumes no censor, no coder and full gradients; the step may
    be a schedule.
    """

    name = "disagreement of D-PSGD"

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why the bound does not hold."""
        full = all(isinstance(agent.cost, LocalProblem) for agent in agents.values())
        return (
            not_two_way(agents, graph)
            or not_plain(agents)
            or ("" if full else "not for costs whose gradients may be stochastic")
            or not_mixing(agents, graph)
        )

    def probe(self, agents: Agents, graph: "nx.Graph[Any]") -> Probe:
        """Return a probe that computes ``bound_consensus_error`` after each round."""
        sigma = Mixing.of(weights_of(agents)).sigma
        theta = np.stack([agent.theta for agent in agents.values()])
        bound = 0.0

        def measure(those: Agents) -> dict[str, float]:
            nonlocal theta, bound
            steps = np.stack(
                [agent.eta * agent.cost.gradient(row) for agent, row in zip(those.values(), theta, strict=True)]
            )
            bound = sigma * bound + float(np.linalg.norm(steps - steps.mean(axis=0)))
            theta = np.stack([agent.theta for agent in those.values()])
            return {"bound_consensus_error": bound**2 / len(theta)}

        return measure
