"""Inputs of the theorems: spectra of the graph and the weights, the curvature of the costs, and the coder's error."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import networkx as nx
import numpy as np

from netsim import topology
from netsim.agents.costs.local import LeastSquares, LocalProblem
from netsim.coders import QSGD, Exact, Natural, RandomK, Sign, Ternary, TopK, Uniform
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Array, Matrix

Agents = Mapping[Any, Any]
"""The agents of a network by name, as they are given to `netsim.Network.run`."""

# sup ℓ'' of the losses with bounded second derivative.
_LARGEST_CURVATURE = {"squared": 2.0, "squared_hinge": 2.0, "logistic": 0.25}


@dataclass(frozen=True)
class Graph:
    """The spectrum of a connected graph, for the theorems on ADMM.

    S₊ and S₋ are the unsigned and the signed incidence matrix. Each edge counts as two arcs, so that
    S₊S₊ᵀ = 2 (D + A) and S₋S₋ᵀ = 2 (D − A) (P. Xu's dissertation, eq. 3.31).

    Attributes
    ----------
    agents, edges : int
        Number N of agents, and number |E| of undirected edges.
    plus : float
        σ²max(S₊) = 2 λmax(D + A).
    minus : float
        σ̃²min(S₋) = 2 λ₂(D − A), the smallest squared singular value above 0.
    minus_max : float
        σ²max(S₋) = 2 λmax(D − A).
    """

    agents: int
    edges: int
    plus: float
    minus: float
    minus_max: float

    @classmethod
    def of(cls, graph: "nx.Graph[Any]") -> Self:
        """Return the spectrum of an undirected, connected graph of two or more nodes; raises BadInput for another."""
        if graph.is_directed():
            raise BadInput("graph: must be undirected")
        topology.check_connected(graph)
        if len(graph) < 2:
            raise check.refuse("nodes of graph", len(graph), "2 or more")
        adjacent = topology.adjacency(graph)
        degrees = np.diag(adjacent.sum(axis=1))
        difference = np.linalg.eigvalsh(degrees - adjacent)
        largest = float(np.linalg.eigvalsh(degrees + adjacent)[-1])
        edges = graph.number_of_edges()
        return cls(len(graph), edges, 2.0 * largest, 2.0 * float(difference[1]), 2.0 * float(difference[-1]))


@dataclass(frozen=True)
class Mixing:
    """The spectrum of a symmetric, doubly stochastic matrix W with the eigenvalues 1 = λ₁ > λ₂ ≥ … ≥ λ_N.

    Attributes
    ----------
    second, last : float
        λ₂ and λ_N.
    sigma : float
        max(|λ₂|, |λ_N|).
    gap : float
        1 − λ₂.
    beta : float
        ‖I − W‖ = 1 − λ_N.
    """

    second: float
    last: float
    sigma: float
    gap: float
    beta: float

    @classmethod
    def of(cls, weights: Matrix) -> Self:
        """Return the spectrum of W, shape (N, N); raises BadInput if W is not symmetric and doubly stochastic."""
        w = check.finite_array("weights", weights)
        if w.ndim != 2 or w.shape[0] != w.shape[1] or len(w) < 2:
            raise BadInput(f"weights.shape = {w.shape}: must be (N, N) with N at least 2")
        if not np.allclose(w, w.T, atol=1e-9) or not np.allclose(w.sum(axis=1), 1.0, atol=1e-9):
            raise BadInput("weights: must be a symmetric matrix whose rows sum to 1")
        values = np.linalg.eigvalsh(w)
        second, last = float(values[-2]), float(values[0])
        return cls(second, last, max(abs(second), abs(last)), 1.0 - second, 1.0 - last)


@dataclass(frozen=True)
class Curvature:
    """Curvature of the agents' costs R_i.

    Attributes
    ----------
    m, M : float
        Smallest and largest curvature of any R_i: m ≤ λ(∇²R_i(θ)) ≤ M for all θ. For ridge regression, the eigenvalues
        of (2/T_i) Φ_iᵀΦ_i + 2 (λ/N) I. Remark 3 of COKE prints their squares, and 1/T in place of 2/T.
    hessians : ndarray of shape (N, D, D) or None
        ∇²R_i, if all costs are quadratic.
    """

    m: float
    M: float
    hessians: Array | None = None

    @classmethod
    def of(cls, costs: Iterable[Any]) -> "Curvature | None":
        """Return the curvature of costs R_i, or None if the curvature of a cost is unknown.

        Raises BadInput if all costs are quadratic, but their features differ in number.
        """
        each = list(costs)
        if not each or not all(isinstance(cost, LocalProblem) for cost in each):
            return None
        if all(isinstance(cost, LeastSquares) for cost in each):
            for number, cost in enumerate(each):
                if (size := cost.features.shape[1]) != (first := each[0].features.shape[1]):
                    raise check.refuse(f"features.shape[1] of costs[{number}]", size, f"{first}, as in costs[0]")
            hessians = np.stack([cost.hessian for cost in each])
            values = np.stack([cost.curvatures for cost in each])
            return cls(float(values.min()), float(values.max()), hessians)
        if any(cost.loss.name not in _LARGEST_CURVATURE for cost in each):
            return None
        # Where the loss is flat, the curvature of the cost is that of the regulariser alone.
        ridges = [2.0 * cost.regularizer for cost in each]
        tops = [
            ridge + _LARGEST_CURVATURE[cost.loss.name] / len(cost.targets) * np.linalg.norm(cost.features, 2) ** 2
            for cost, ridge in zip(each, ridges, strict=True)
        ]
        return cls(min(ridges), float(max(tops)))


@dataclass(frozen=True)
class Contraction:
    """Bounds on the error of a coder Q for a vector x of n elements.

    Attributes
    ----------
    delta : float
        δ with E‖Q(x) − x‖² ≤ (1 − δ)‖x‖²; at most 0 if the coder is not known to contract.
    variance : float
        C with E‖Q(x) − x‖² ≤ C‖x‖²; infinite if no such bound is known.
    unbiased : bool
        Whether E Q(x) = x.
    interval : float
        Δ with |Q(x)_j − x_j| ≤ Δ/2, for x inside a fixed range; infinite if the error depends on x.
    """

    delta: float
    variance: float
    unbiased: bool
    interval: float


def contraction(coder: Any, size: int | tuple[int, ...]) -> Contraction | None:
    """Return a coder's `Contraction` for arrays of this size or shape, or None if it is not known.

    The sources are: for `QSGD`, eq. 12 of Ortega and Jafarkhani 2023 (Alistarh et al. 2017, lemma 3.1); for the others,
    the error stated in each coder's docstring. `Ternary` has the largest error, (√n − 1)/2 ‖x‖², where one element is
    √n + 1 times as large as each of the others. With a message's own range ±max|x|, `Uniform` has ‖Q(x) − x‖² ≤ n/4ᵇ
    ‖x‖².
    """
    shape = size if isinstance(size, tuple) else (size,)
    n = shape[-1] if getattr(coder, "by_row", False) else math.prod(shape)
    match coder:
        case Exact():
            return Contraction(1.0, 0.0, True, 0.0)
        case QSGD(bits=bits):
            levels = 2**bits - 1
            return _unbiased(min(n / levels**2, math.sqrt(n) / levels))
        case Natural():
            return _unbiased(1.0 / 8.0)
        case Ternary():
            return _unbiased((math.sqrt(n) - 1.0) / 2.0)
        case RandomK(k=k, unbiased=True) if isinstance(coder.coder, Exact):
            return _unbiased(n / min(k, n) - 1.0)
        case TopK(k=k) | RandomK(k=k) if isinstance(coder.coder, Exact):
            return _biased(1.0 - min(k, n) / n)
        case Sign():
            return _biased(1.0 - 1.0 / n)
        case Uniform(fixed=None, bits=bits):
            return _biased(n / 4.0**bits)
        case Uniform(low=float(low), high=float(high), bits=bits):
            return Contraction(0.0, math.inf, False, (high - low) / 2**bits)
    return None


def _unbiased(variance: float) -> Contraction:
    return Contraction(1.0 - variance, variance, True, math.inf)


def _biased(error: float) -> Contraction:
    return Contraction(1.0 - error, error, False, math.inf)


def weights_of(agents: Agents) -> Matrix:
    """Return the matrix W of the agents' weights, shape (N, N), in the order of the agents.

    If a method has no weight for the agent itself, this weight is 1 minus the sum of its neighbours' weights.
    """
    names = list(agents)
    w = np.array([[float(agents[a].weights[b]) if b in agents[a].weights else 0.0 for b in names] for a in names])
    for i, name in enumerate(names):
        if not agents[name].weighs_itself:
            w[i, i] = 1.0 - (w[i].sum() - w[i, i])
    return w
