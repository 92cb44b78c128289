"""Regret of ODKLA and QC-ODKLA, and the error of copies (P. Xu's dissertation, theorem 9 and lemma 5)."""

import math
from collections.abc import Mapping
from typing import Any

import networkx as nx
import numpy as np

from netsim import topology
from netsim.agents.consensus.censor import Always, Geometric, PowerLaw
from netsim.agents.costs.losses import Squared
from netsim.agents.costs.stream import OnlineCost
from netsim.agents.measures.regret import StaticRegret
from netsim.agents.theory.inputs import Agents, Graph, contraction
from netsim.agents.theory.theorem import Probe, Theorem, not_accumulated, not_constant, not_two_way, value_of
from netsim.util.typing import Array


def copy_error_bound(agents: int, size: int, interval: float, threshold: float = 0.0) -> float:
    """Return ζ of lemma 5 (eq. 3.25), a bound on ‖E_t‖_F, where E_t is the difference of all models and their copies θ̂.

    ζ = √N max{ϱμᵗ, √n Δ/2}. The copy of an agent that sends is wrong by at most Δ/2 in each element, and the copy of a
    censored agent by less than the round's threshold in norm. The lemma prints ‖E_t‖² ≤ ζ, which fails for ζ > 1: if θ̂
    starts as Q(0) = Δ/2, then N = 8 agents with n = 8 elements and Δ = ½ begin with ‖E_1‖² = 4, but ζ = 2.

    Parameters
    ----------
    agents, size : int
        N, and the length n of a model (2L in the dissertation).
    interval : float
        Length Δ of the quantizer's interval; 0 without quantizer. No element may saturate.
    threshold : float
        The censor's threshold ϱμᵗ for ‖h‖; 0 without censor.
    """
    return math.sqrt(agents) * max(threshold, math.sqrt(size) * interval / 2.0)


def odkla_regret_bound(theta_norm: float, gradients: float, eta: float, rho: float, graph: Graph) -> float:
    """Return a bound on ODKLA's static regret against a model θ*, for any constants η > 0 and ρ > 0.

    Reg_T ≤ ½ (Nη + 4ρ|E|)‖θ*‖² + Σ_t ‖∂L_t(Θ_t)‖²/(2η). This follows from the proof of theorem 9 if its constants are
    kept. The update is ∂L_t(Θ_t) = P(Θ_t − Θ_{t+1}) − Γ_{t+1} with P = ηI + ρ(D + A), and the dual variables are
    Γ_{t+1} = ρ(D − A) Σ_{s≤t+1} Θ_s. Convexity gives Reg_T ≤ Σ_t ⟨∂L_t(Θ_t), Θ_t − Θ*⟩, a sum that telescopes in the
    norm ‖·‖_P.

    The theorem prints steps η = ρ = 1/O(√T). But the step is proportional to 1/η, so η must grow as √T: with the
    printed steps the models diverge.

    Parameters
    ----------
    theta_norm : float
        ‖θ*‖.
    gradients : float
        Σ_t ‖∂L_t(Θ_t)‖²_F over all agents and rounds.
    eta, rho : float
        The agents' η and ρ.
    graph : Graph
        N and |E|.
    """
    return 0.5 * (graph.agents * eta + 4.0 * rho * graph.edges) * theta_norm**2 + gradients / (2.0 * eta)


def odkla_best_eta(theta_norm: float, gradient_norm: float, rounds: int) -> float:
    """Return η = G√T/C, which minimizes the bound if each agent's gradients have norm G and ‖θ*‖ = C."""
    return gradient_norm * math.sqrt(rounds) / theta_norm


class CopyError(Theorem):
    """The copies of models differ from the models by at most ζ (dissertation, lemma 5), the column ``bound_copy``.

    The column contains `copy_error_bound` for each round. The lemma assumes a `Geometric` or `PowerLaw` censor, and
    the exact state or a coder with a fixed interval in which no element saturates.
    """

    name = "lemma 5 of the dissertation"

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why the lemma does not apply."""
        for agent in agents.values():
            if not isinstance(agent.censor, Always | Geometric | PowerLaw):
                return f"not for the censor {type(agent.censor).__name__}"
            found = contraction(agent.coder, agent.theta.shape)
            if found is None or math.isinf(found.interval):
                return f"not for the coder {type(agent.coder).__name__} without a fixed interval"
        return not_two_way(agents, graph) or not_accumulated(agents)

    def bounds(self, agents: Agents, graph: "nx.Graph[Any]", rounds: int) -> dict[str, Array]:
        """Return ``bound_copy``."""
        squares = []
        for agent in agents.values():
            coded = contraction(agent.coder, agent.theta.shape)
            assert coded is not None
            limits = [_threshold(agent.censor, k) for k in range(1, rounds + 1)]
            squares.append([copy_error_bound(1, agent.theta.size, coded.interval, each) ** 2 for each in limits])
        return {"bound_copy": np.sqrt(np.sum(squares, axis=0))}

    def lines(self, agents: Agents, graph: "nx.Graph[Any]") -> list[str]:
        """Return a line with the range outside which the coder clips elements, if it has one."""
        ends = {agent.coder.fixed for agent in agents.values() if getattr(agent.coder, "saturate", False)}
        return [f"{self.name}: while no element lies outside [{low:g}, {high:g})" for low, high in sorted(ends)]


def _threshold(censor: Any, k: int) -> float:
    """Return the censor's threshold of round k for ‖h‖."""
    if isinstance(censor, Always):
        return 0.0
    limit = float(censor.threshold(k))
    return math.sqrt(limit) if censor.squared else limit


class Regret(Theorem):
    """ODKLA's regret is O(√T) for η and ρ that grow as √T (dissertation, theorem 9): the column ``bound_regret``.

    The bound is `odkla_regret_bound` with the gradients of the run. A censor and a coder (QC-ODKLA) add the term

        Σ_t ρ⟨(D − A)(E_t − E_{t+1}), Θ_{t+1}⟩ − ⟨Γ_{t+1}, E_{t+1}⟩,

    in which the proof (eq. 3.40) wrongly replaces ⟨Ax, y⟩ by σmax(A)⟨x, y⟩; here the term is computed exactly. The
    theorem assumes constant η and ρ. The regret is that of squared losses, against the best model of all rounds so far.
    """

    name = "theorem 9 of the dissertation"

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why the theorem does not apply."""
        for agent in agents.values():
            if not isinstance(agent.cost, OnlineCost) or not isinstance(agent.cost.loss, Squared):
                return "not for losses other than the squared loss"
        if len({agent.cost.regularizer for agent in agents.values()}) > 1:
            return "not for agents of different regularizer"
        return not_two_way(agents, graph) or not_constant(agents, "eta", "rho") or not_accumulated(agents)

    def probe(self, agents: Agents, graph: "nx.Graph[Any]") -> Probe:
        """Return a `RegretProbe`."""
        return RegretProbe(agents, graph)


class RegretProbe:
    """A probe that computes ``bound_regret`` after each round.

    Attributes
    ----------
    regret : StaticRegret
        The regret so far.
    """

    def __init__(self, agents: Agents, graph: "nx.Graph[Any]") -> None:
        self._eta, self._rho = value_of(agents, "eta"), value_of(agents, "rho")
        self._graph = Graph.of(graph)
        adjacent = topology.adjacency(graph)
        self._laplacian = np.diag(adjacent.sum(axis=1)) - adjacent
        cost = next(iter(agents.values())).cost
        self.regret = StaticRegret(cost.size, cost.regularizer)
        self._theta = np.zeros((len(agents), cost.size))
        # E_1 need not be 0, because θ̂ may start as Q(0). But then all agents have the same E_1, which D − A cancels.
        self._error = np.zeros_like(self._theta)
        self._loss = self._gradients = self._remainder = self._bound = 0.0

    def __call__(self, agents: Mapping[Any, Any]) -> dict[str, float]:
        """Return ``bound_regret`` after a round."""
        each = list(agents.values())
        if sum(agent.cost.count for agent in each) == self.regret.count:
            # The agents have ended their rounds, so the bound does not change.
            return {"bound_regret": self._bound}
        features = np.stack([agent.cost.features for agent in each])
        targets = np.array([agent.cost.target for agent in each], dtype=np.float64)
        loss = sum(agent.cost.loss_sum for agent in each)
        self.regret.take(features, targets, loss - self._loss)
        self._loss = loss
        self._gradients += sum(
            float(np.sum(np.square(agent.cost.gradient(theta)))) for agent, theta in zip(each, self._theta, strict=True)
        )
        self._theta = np.stack([agent.theta for agent in each])
        error = self._theta - np.stack([agent.sharing.own for agent in each])
        drift = self._laplacian @ (self._error - error)
        self._remainder += self._rho * float(np.sum(drift * self._theta))
        self._remainder -= float(np.sum(np.stack([agent.dual for agent in each]) * error))
        self._error = error
        norm = float(np.linalg.norm(self.regret.best()))
        plain = odkla_regret_bound(norm, self._gradients, self._eta, self._rho, self._graph)
        self._bound = plain + self._remainder
        return {"bound_regret": self._bound}
