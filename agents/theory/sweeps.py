"""The rate of successive orthogonal projections (Predd, Kulkarni and Poor 2006, theorems 2 and 3).

The theorems state that the distance to the limit never grows, and that convergence is "linear", without a rate. On a
finite ensemble the rate is the spectral radius of a sweep. States are written as (z, √λ_i f_i), with f_i in an
orthonormal basis of the span of agent i's examples, so that their norm equals the distance that
`netsim.agents.projections.estimate.distance` computes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from netsim.agents.projections.divergences import HalfSquare
from netsim.agents.projections.estimate import Ensemble
from netsim.agents.projections.orders import InOrder
from netsim.agents.theory.inputs import Agents
from netsim.agents.theory.theorem import Probe
from netsim.errors import BadInput
from netsim.util.typing import Array, Matrix, Vector

if TYPE_CHECKING:
    from netsim import Network

LARGEST = 2000
"""The largest length of a state for which a rate is computed."""

# Eigenvalues of a Gram matrix below this share of the largest are rounding errors.
_NULL = 1e-12


@dataclass(frozen=True)
class Sweep:
    """One turn of each agent, in order: v ← P_m … P_1 v.

    Attributes
    ----------
    matrix : ndarray of shape (n, n)
        P_m … P_1 − P, where P is the projection onto all constraints, so that P_m … P_1 v − Pv = matrix · (v − Pv).
    start : ndarray of shape (n,)
        (y, 0, …, 0) − P(y, 0, …, 0): the first state minus the limit.
    """

    matrix: Matrix
    start: Vector

    @classmethod
    def of(cls, ensemble: Ensemble, order: Sequence[int] | None = None) -> "Sweep":
        """Return the sweep of an ensemble, whose agents take turns in ``order``; default: 0, 1, …, m − 1.

        Raises
        ------
        BadInput
            If a state has more than 2,000 numbers, or the loss is not the square.
        """
        if not isinstance(ensemble.divergence, HalfSquare):
            raise BadInput(f"ensemble: must have squares as its loss for a rate, not {ensemble.divergence!r}")
        constraints = _constraints(ensemble)
        size = constraints[0].shape[1]
        if size > LARGEST:
            raise BadInput(f"ensemble: must have states of at most {LARGEST} numbers for a rate; they have {size}")
        product = np.eye(size)
        for agent in range(len(ensemble)) if order is None else order:
            product = _onto_null(constraints[agent]) @ product
        limit = _onto_null(np.vstack(constraints))
        first = np.concatenate([ensemble.targets, np.zeros(size - len(ensemble.targets))])
        return cls(product - limit, first - limit @ first)

    @property
    def rate(self) -> float:
        """The factor by which the distance shrinks in a late sweep: the spectral radius of ``matrix``."""
        return float(np.abs(np.linalg.eigvals(self.matrix)).max())

    @property
    def norm(self) -> float:
        """‖matrix‖₂ ≤ 1: each sweep multiplies the distance by at most this factor."""
        return float(np.linalg.norm(self.matrix, 2))

    def bound(self, sweeps: int) -> Array:
        """Return norm^k · distance_0, which bounds the distance after sweeps k = 1, 2, …, shape (sweeps,)."""
        return float(np.linalg.norm(self.start)) * self.norm ** np.arange(1.0, sweeps + 1.0)

    def distances(self, sweeps: int) -> Array:
        """Return the distance to the limit after sweeps k = 1, 2, …, shape (sweeps,)."""
        state, found = self.start, []
        for _ in range(sweeps):
            state = self.matrix @ state
            found.append(float(np.linalg.norm(state)))
        return np.array(found)


def _constraints(ensemble: Ensemble) -> list[Matrix]:
    """Return for each agent the matrix C_i with C_i v = (z_j − f_i(x_j)) for its examples j."""
    bases = []
    for gram, weight in zip(ensemble.grams, ensemble.regularizers, strict=True):
        values, vectors = np.linalg.eigh(gram)
        kept = values > _NULL * values[-1]
        # f_i(x) = basis · (√λ_i f_i), as gram = (basis √λ_i)(basis √λ_i)ᵀ.
        bases.append(vectors[:, kept] * np.sqrt(values[kept] / weight))
    at = len(ensemble.targets)
    size = at + sum(basis.shape[1] for basis in bases)
    found = []
    for own, basis in zip(ensemble.access, bases, strict=True):
        constraint = np.zeros((len(own), size))
        constraint[np.arange(len(own)), own] = 1.0
        constraint[:, at : at + basis.shape[1]] = -basis
        at += basis.shape[1]
        found.append(constraint)
    return found


def _onto_null(constraint: Matrix) -> Matrix:
    """Return the orthogonal projection onto the v with constraint · v = 0."""
    basis = null_space(constraint)
    return basis @ basis.T


def is_connected(ensemble: Ensemble, tolerance: float = 1e-9) -> bool:
    """Return whether an ensemble is connected (Predd et al., definition 1), so that all agents end with one function.

    Two agents are joined if the examples that they share span the same space as the examples of each of them, that is,
    if the ranks of the Gram matrices are equal. By theorem 5 all agents then reach the centralised solution with λ =
    Σ λ_i. For a Gaussian kernel this requires equal sets of examples. For a polynomial kernel (xᵀx')ᵖ, C(d + p − 1, p)
    common examples suffice, and for (1 + xᵀx')ᵖ, C(d + p, p). The paper's example 1 states dᵖ for the latter; for
    d = p = 2 that is 4, but 6 are required.
    """

    def rank(examples: NDArray[np.intp]) -> int:
        inputs = ensemble.inputs[examples]
        return int(np.linalg.matrix_rank(ensemble.gram(inputs, inputs), tol=tolerance)) if len(inputs) else 0

    ranks = [rank(own) for own in ensemble.access]
    joined = nx.subgraph_view(
        ensemble.sharers, filter_edge=lambda a, b: rank(ensemble.shared(a, b)) == ranks[a] == ranks[b]
    )
    return nx.is_connected(joined)


@dataclass(frozen=True)
class Sweeps:
    """A measure of successive projections on an ensemble; for other algorithms see `netsim.agents.theory.Theory`.

    For a fixed order of turns the column ``predicted_distance`` is the distance to the limit after the turns so far,
    and ``bound_distance`` is `Sweep.bound` of the sweeps that all agents have completed. The links do not matter:
    before its turn an agent waits for the turns of the agents with which it shares examples; other turns commute.
    """

    ensemble: Ensemble

    def of(self, agents: Agents, network: "Network", rounds: int) -> Probe | None:
        """Return the probe of a run, or None if the order of turns is random."""
        if not _fixed(agents):
            return None
        sweep, constraints = self._sweep(agents), _constraints(self.ensemble)
        error, taken = sweep.start, dict.fromkeys(agents, 0)
        bound = None if _vacuous(sweep, agents) else [np.linalg.norm(sweep.start), *sweep.bound(agents[0].sweeps)]

        def columns(agents: Agents) -> dict[str, float]:
            nonlocal error
            turns = [(k, agent.rank, i) for i, agent in agents.items() for k in range(taken[i], agent.taken)]
            for _, _, i in sorted(turns):
                own = constraints[i]
                error = error - own.T @ np.linalg.solve(own @ own.T, own @ error)
                taken[i] += 1
            found = {} if bound is None else {"bound_distance": float(bound[min(taken.values())])}
            return {**found, "predicted_distance": float(np.linalg.norm(error))}

        return columns

    def lines(self, agents: Agents, network: "Network") -> list[str]:
        """Return lines with the rate per sweep, and statements that have no column."""
        connected = is_connected(self.ensemble)
        end = "all agents reach the centralised solution" if connected else "not for an ensemble that is not connected"
        found = [f"theorem 5 of Predd et al.: {end}"]
        if not _fixed(agents):
            return ["the rate a sweep: not for an order that is drawn", *found]
        sweep = self._sweep(agents)
        if _vacuous(sweep, agents):
            lost = 1.0 - sweep.norm ** agents[0].sweeps
            found.append(f"the bound on a sweep: vacuous here, by the end the distance shrinks by {lost:.2g} of itself")
        return [f"the rate a sweep: 1 − {max(1.0 - sweep.rate, 0.0):.2g} (exact)", *found]

    def _sweep(self, agents: Agents) -> Sweep:
        return Sweep.of(self.ensemble, sorted(agents, key=lambda agent: agents[agent].rank))


def _fixed(agents: Agents) -> bool:
    return all(isinstance(agent, InOrder) for agent in agents.values())


def _vacuous(sweep: Sweep, agents: Agents) -> bool:
    """Return whether the bound after the last sweep is hardly smaller than the initial distance."""
    return bool(sweep.norm ** agents[0].sweeps > 0.99)
