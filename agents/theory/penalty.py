"""The limit of the greedy projected penalty method (Koppel, Paternain, Richard and Ribeiro 2018).

The stochastic gradient (eq. 14) omits the terms c(f_i(x_j) − f_j(x_j))κ(x_j, ·), in which f_i is evaluated at a
neighbour's sample. So, contrary to eq. 27, its mean is not the gradient of ψ_c. If the inputs of all agents have one
distribution, the mean is the gradient of ψ_{c/2}; otherwise the method converges to another point. `penalty_radius`
bounds the distance from the point at which the mean vanishes.
"""

import math
from typing import Any

import networkx as nx
import numpy as np

from netsim.agents.costs.losses import Squared
from netsim.agents.theory.inputs import Agents
from netsim.agents.theory.theorem import Theorem, not_constant, not_two_way, value_of


def projection_error_bound(epsilon: float, eta: float, agents: int, *, printed: bool = False) -> float:
    """Return √V ε/η, a bound on the change ‖∇̃ − ∇̂‖ of the gradient by pruning (proposition 1).

    Pruning changes the function of each of the V agents by at most ε. With ``printed``, return V ε/η as in eq. 31; but
    eq. 42 of the proof gives √V.
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
        The number V of agents.
    second_moment : float
        σ², the mean of ‖∇̃‖² = ‖f_{t+1} − f_t‖²/η² over all agents together.
    printed : bool
        Use V in place of √V, as the paper prints.
    """
    pruned = parsimony * (agents if printed else math.sqrt(agents))
    return math.sqrt(eta) / regularizer * (pruned + math.sqrt(pruned**2 + regularizer * second_moment))


def disagreement_bound(risk: float, c: float, penalised_risk: float = 0.0) -> float:
    """Return (R(f*) − R(f_c*))/c ≥ ½ Σ_i Σ_j E(f_i − f_j)² of the minimiser f_c* of ψ_c (proposition 2, eq. 35).

    ``risk`` is the regularised risk R(f*) of the best common function, and ``penalised_risk`` is R(f_c*) without the
    penalty. The algorithm does not end in f_c*, so for its result only the bound ``risk``/c holds.
    """
    return (risk - penalised_risk) / c


def dictionary_separation(epsilon: float, eta: float, slope: float) -> float:
    """Return ε/(η·slope), the least distance of a kept point κ(x, ·) from the span of the others (corollary 2).

    ``slope`` bounds |ℓ'(f_i(x), y) + c Σ_j (f_i(x) − f_j(x))|. A bounded set of inputs has room for only finitely many
    points at this distance, which bounds their number; the bound exceeds 10⁴ for a run that keeps 12 points.
    """
    return epsilon / (eta * slope)


class PenaltyBounds(Theorem):
    """The bounds of Koppel et al. (propositions 1 and 2, theorem 1), as lines.

    R(f*) of proposition 2 is at most R(0), so the distance ‖f*‖ between the zero model and the limit is at most
    √(2R(0)/λ). Theorem 1 is vacuous if its radius exceeds this distance even without noise.
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
        """Return the radius, the bound on the change by pruning, and the largest disagreement of the minimum."""
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
    """Return the loss of the zero model at any sample; for a loss of classes it is the same at each sample."""
    classes = getattr(loss, "classes", None)
    scores, target = (np.zeros(1), np.ones(1)) if classes is None else (np.zeros((1, classes)), np.zeros(1, dtype=int))
    return float(loss.value(scores, target)[0])
