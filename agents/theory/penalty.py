"""The greedy projected penalty method (Koppel, Paternain, Richard and Ribeiro 2018): its limit.

The stochastic gradient (eq. 14) leaves out the terms c(f_i(x_j) − f_j(x_j))κ(x_j, ·), in which f_i occurs at a
neighbour's sample. So, contrary to eq. 27, its mean is not the gradient of ψ_c. If all agents' inputs have one
distribution, it is the gradient of ψ_{c/2}; otherwise the method converges to another point. `penalty_radius` holds
around the point where the mean vanishes.
"""

import math
from typing import Any

import networkx as nx
import numpy as np

from netsim.agents.costs.losses import Squared
from netsim.agents.theory.inputs import Agents
from netsim.agents.theory.theorem import Theorem, not_constant, not_two_way, value_of


def projection_error_bound(epsilon: float, eta: float, agents: int, *, printed: bool = False) -> float:
    """Return √V ε/η, which bounds how far pruning moves the gradient, ‖∇̃ − ∇̂‖ (proposition 1).

    Each of the V agents' functions moves by at most ε. ``printed``: V ε/η (eq. 31); eq. 42 of the proof gives √V.
    """
    return epsilon / eta * (agents if printed else math.sqrt(agents))


def penalty_radius(
    eta: float, regularizer: float, parsimony: float, agents: int, second_moment: float, *, printed: bool = False
) -> float:
    """Return the radius around the limit: lim inf ‖f_t − f*‖ ≤ (√η/λ)(P√V + √(P²V + λσ²)) (theorem 1, eq. 55).

    f* is where the mean gradient vanishes, ε = P·η^{3/2}.

    Parameters
    ----------
    eta, regularizer, parsimony : float
        η, λ and P.
    agents : int
        V.
    second_moment : float
        σ², the mean of ‖∇̃‖² = ‖f_{t+1} − f_t‖²/η² over all agents together.
    printed : bool
        Take V for √V, as printed.
    """
    pruned = parsimony * (agents if printed else math.sqrt(agents))
    return math.sqrt(eta) / regularizer * (pruned + math.sqrt(pruned**2 + regularizer * second_moment))


def disagreement_bound(risk: float, c: float, penalised_risk: float = 0.0) -> float:
    """Return (R(f*) − R(f_c*))/c ≥ ½ Σ_i Σ_j E(f_i − f_j)² of the minimiser f_c* of ψ_c (proposition 2, eq. 35).

    ``risk`` is R of the best common f*, regularised; ``penalised_risk`` is R(f_c*), without the penalty. The algorithm
    ends elsewhere, and is only within ``risk``/c.
    """
    return (risk - penalised_risk) / c


def dictionary_separation(epsilon: float, eta: float, slope: float) -> float:
    """Return ε/(η·slope): a point κ(x, ·) is kept only at this distance from the span of the others (corollary 2).

    ``slope`` bounds |ℓ'(f_i(x), y) + c Σ_j (f_i(x) − f_j(x))|. The number of points is finite, because only so many fit
    into a bounded set of inputs; it exceeds 10⁴ for a run that keeps 12.
    """
    return epsilon / (eta * slope)


class PenaltyBounds(Theorem):
    """The bounds of Koppel et al. (propositions 1 and 2, theorem 1), as lines.

    R(f*) of proposition 2 is at most R(0), so that the distance ‖f*‖ of the zero model from the limit is at most
    √(2R(0)/λ). Theorem 1 is vacuous if its radius, even without noise, exceeds this distance.
    """

    name = "Koppel et al."

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why the bounds do not apply."""
        reason = not_two_way(agents, graph) or not_constant(agents, "eta", "regularizer", "parsimony")
        if not reason and value_of(agents, "regularizer") == 0.0:
            return "not without a regularizer"
        numbers = any(isinstance(agent.loss, Squared) for agent in agents.values())
        return reason or ("not for the squared loss of numbers" if numbers else "")

    def lines(self, agents: Agents, graph: "nx.Graph[Any]") -> list[str]:
        """Return the radius, how far pruning moves the gradient, and the largest disagreement of the minimum."""
        eta, regularizer, parsimony = (value_of(agents, name) for name in ("eta", "regularizer", "parsimony"))
        each = [(agent, len(graph.adj[name])) for name, agent in agents.items()]
        zero = sum(_zero_loss(agent.loss) for agent, _ in each)
        apart = math.sqrt(2.0 * zero / regularizer)
        radius = penalty_radius(eta, regularizer, parsimony, len(each), 0.0)
        vacuous = "vacuous here, " if radius >= apart else ""
        moved = projection_error_bound(parsimony * eta**1.5, eta, len(each))
        found = [
            f"theorem 1 of {self.name}: {vacuous}the radius is at least {radius:.2g} (zero model: at most {apart:.2g})",
            f"proposition 1 of {self.name}: pruning moves all gradients together by at most {moved:.2g}",
        ]
        c = min(agent.penalty.at(agent.samples, agent.eta, degree) for agent, degree in each)
        if c > 0.0:
            most = disagreement_bound(zero, c)
            found.append(
                f"proposition 2 of {self.name}: with c = {c:.3g} the minimum's ½ΣΣE|f_i − f_j|² is at most {most:.2g} "
                "(zero model: 0)"
            )
        return found


def _zero_loss(loss: Any) -> float:
    """Return the loss of the model 0 at any sample: of classes it is the same for each."""
    classes = getattr(loss, "classes", None)
    scores, target = (np.zeros(1), np.ones(1)) if classes is None else (np.zeros((1, classes)), np.zeros(1, dtype=int))
    return float(loss.value(scores, target)[0])
