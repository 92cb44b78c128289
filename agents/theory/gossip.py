"""Gossip of coded differences: CHOCO, and gossip OMKL (Ortega and Jafarkhani 2023; Koloskova, Stich and Jaggi 2019)."""

import math
from typing import Any

import networkx as nx
import numpy as np

from netsim.agents.costs.losses import Logistic
from netsim.agents.theory.inputs import Agents, Contraction, Mixing, weights_of
from netsim.agents.theory.theorem import (
    Range,
    Theorem,
    contractions_of,
    not_constant,
    not_mixing,
    not_two_way,
    not_uncensored,
    value_of,
)
from netsim.coders import QSGD
from netsim.util.typing import Array, Matrix


def choco_gamma(mixing: Mixing, delta: float) -> float:
    """Return γ = g²δ/(16g + g² + 4β² + 2gβ² − 8gδ) with the gap g = 1 − λ₂ (Ortega and Jafarkhani, lemma 1).

    The lemma quotes Koloskova et al. 2019, theorem 4.1. That paper calls the gap ρ ∈ (0, 1], but it may be up to 2.
    """
    g, b = mixing.gap, mixing.beta
    return g**2 * delta / (16.0 * g + g**2 + 4.0 * b**2 + 2.0 * g * b**2 - 8.0 * g * delta)


def choco_rate(mixing: Mixing, delta: float) -> float:
    """Return c = g²δ/82: with `choco_gamma`, E e_t ≤ (1 − c)ᵗ e_0 (Koloskova et al. 2019, theorem 2; not re-read).

    Here e_t = Σ_i ‖θ_i − θ̄‖² + ‖θ_i − θ̂_i‖² is the error of gossip without gradient steps.
    """
    return mixing.gap**2 * delta / 82.0


def choco_contraction(mixing: Mixing, delta: float, gamma: float) -> Matrix:
    """Return the matrix of shape (2, 2) by which a round of CHOCO gossip bounds its two errors.

    Let A = √(E Σ‖θ_i − θ̄‖²) and B = √(E Σ‖θ_i − θ̂_i‖²) be the errors before a round, and q = √(1 − δ). The coder
    leaves an error of at most qB, and the step Θ ← Θ + γ(W − I)Θ̂ changes Θ by γ(W − I)Θ + γ(W − I)(Θ̂ − Θ). So
    Minkowski's inequality gives

        A⁺ ≤ r A + γβq B,   B⁺ ≤ γβ A + (1 + γβ) q B,   r = max(1 − γg, γβ − 1),

    and gossip converges if the spectral radius of the matrix is below 1.
    """
    q, pull = math.sqrt(max(1.0 - delta, 0.0)), gamma * mixing.beta
    stay = max(1.0 - gamma * mixing.gap, pull - 1.0)
    return np.array([[stay, pull * q], [pull, (1.0 + pull) * q]])


def choco_edge(mixing: Mixing, delta: float) -> float:
    """Return the γ below which `choco_contraction` contracts: min{2/(g + β), g(1 − q)/(qβ(g + β))}, q = √(1 − δ).

    For γ ≤ 2/(g + β), where r = 1 − γg, the spectral radius is below 1 if (1 − r)(1 − (1 + γβ)q) > γ²β²q. This limit
    is derived here. It is greater than `choco_gamma`, because it is proportional to g and not to g².
    """
    q, g, b = math.sqrt(1.0 - delta), mixing.gap, mixing.beta
    turn = 2.0 / (g + b)
    return turn if q == 0.0 else min(turn, g * (1.0 - q) / (q * b * (g + b)))


def omkl_consensus_bound(agents: int, eta: float, lipschitz: float, rate: float) -> float:
    """Return 12Jη²L²/c², which bounds E Σ_j ‖θ_j − θ̄‖² of a kernel (Ortega and Jafarkhani, eq. 23).

    J is the number of agents, L a bound on the norm of gradients, and c the `choco_rate`.
    """
    return 12.0 * agents * (eta * lipschitz / rate) ** 2


def omkl_regret_bound(
    agents: int,
    rounds: int,
    kernels: int,
    *,
    eta: float,
    lipschitz: float,
    rate: float,
    theta_norm: float,
    printed: bool = False,
) -> float:
    """Return the bound of theorem 1 of Ortega and Jafarkhani (eq. 15) on the regret of gossip OMKL.

    It is J‖θ*‖²/(2η) + ηJTL²/2 + ηJTL²√12/c + J ln P/η + ηJT for J agents, T rounds, P kernels, gradients of norm at
    most L, and c of `choco_rate`. With ``printed``, the third term has L in place of L², as eqs. 15 and 16 print; this
    contradicts eqs. 22 and 24, from which they follow. The last two terms hold for losses of at most √2, which the
    paper does not state.
    """
    consensus = (lipschitz if printed else lipschitz**2) * math.sqrt(12.0) / rate
    steps = eta * agents * rounds * (lipschitz**2 / 2.0 + consensus + 1.0)
    return agents * (theta_norm**2 / 2.0 + math.log(kernels)) / eta + steps


def hedge_bound(kernels: int, eta: float, squares: float) -> float:
    """Return ln P/η + ½ η Σ_t Σ_p w̄_p L_p², which bounds Σ_t Σ_p w̄_p L_p − min_p Σ_t L_p of an agent's kernel weights.

    It holds for all losses L_p ≥ 0, because exp(−x) ≤ 1 − x + x²/2. Lemma 2 of Ortega and Jafarkhani has ηT as the
    second term, which requires losses of at most √2.

    Parameters
    ----------
    kernels : int
        The number P of kernels.
    eta : float
        η in w_p ← w_p exp(−η L_p).
    squares : float
        Σ_t Σ_p w̄_p L_p², with the weights from before each update.
    """
    return math.log(kernels) / eta + 0.5 * eta * squares


def qsgd_bits(kernels: int, size: int, bits: int, *, norms: int | None = None, sign: bool = True) -> int:
    """Return the payload bits of a broadcast of gossip OMKL.

    A norm has 32 bits, and each of the n·P elements b bits and a sign.

    Parameters
    ----------
    kernels, size, bits : int
        The numbers P, n and b.
    norms : int, optional
        Number of norms in a message; default: one per kernel.
    sign : bool
        Whether elements have a sign bit, which the paper's "b bits" omit.
    """
    return 32 * (kernels if norms is None else norms) + kernels * size * (bits + sign)


class ChocoStep(Theorem):
    """The range of the gossip step γ for which CHOCO's gossip of coded differences converges: γ below `choco_edge`.

    This assumes symmetric, doubly stochastic weights, no censor, and a coder with E‖Q(x) − x‖² ≤ (1 − δ)‖x‖², δ > 0.
    With gradient steps of size η the models stay within a distance of each other that decreases with η.
    """

    name = "CHOCO"

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why no range of γ is known."""
        return (
            not_two_way(agents, graph)
            or not_constant(agents, "gamma")
            or not_uncensored(agents)
            or not_mixing(agents, graph)
            or not_contracting(agents)
        )

    def ranges(self, agents: Agents, graph: "nx.Graph[Any]") -> list[Range]:
        """Return the range of γ."""
        edge = choco_edge(Mixing.of(weights_of(agents)), _least(agents).delta)
        return [Range("gamma", value_of(agents, "gamma"), 0.0, edge, "gossip with this coder")]

    def choice(self, agents: Agents, graph: "nx.Graph[Any]", by: str) -> dict[str, float]:
        """Return γ of lemma 1, or with ``by`` = "best" the γ of the least spectral radius of `choco_contraction`."""
        mixing, delta = Mixing.of(weights_of(agents)), _least(agents).delta
        if by != "best":
            return {"gamma": choco_gamma(mixing, delta)}
        edge = choco_edge(mixing, delta)
        tried = edge * np.linspace(0.01, 1.0, 100)
        radii = [np.abs(np.linalg.eigvals(choco_contraction(mixing, delta, gamma))).max() for gamma in tried]
        return {"gamma": float(tried[int(np.argmin(radii))])}


class OMKLRegret(Theorem):
    """The regret of gossip OMKL is bounded by `omkl_regret_bound` (Ortega and Jafarkhani, theorem 1): a line.

    Unless gradients are very small, the consensus term ηL²√12/c per sample exceeds ln 2, the logistic loss of the zero
    model, so that the bound is vacuous.
    """

    name = "theorem 1 of gossip OMKL"

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why the theorem does not apply."""
        logistic = all(isinstance(agent.cost.combined.loss, Logistic) for agent in agents.values())
        return (
            ChocoStep().why_not(agents, graph)
            or not_constant(agents, "eta")
            or ("" if logistic else "not for losses other than the logistic loss")
        )

    def lines(self, agents: Agents, graph: "nx.Graph[Any]") -> list[str]:
        """Return a line with the size of gradients up to which the bound is less than the zero model's loss."""
        rate = choco_rate(Mixing.of(weights_of(agents)), _least(agents).delta)
        eta = value_of(agents, "eta")
        # Solve ηL²√12/c + η = ln 2 for L.
        longest = math.sqrt(max(math.log(2.0) - eta, 0.0) * rate / (eta * math.sqrt(12.0)))
        return [f"{self.name}: vacuous here, unless all gradients are shorter than {longest:.2g}"]


class QSGDBits(Theorem):
    """The total payload bits of gossip OMKL after each round: ``predicted_payload_bits`` (`qsgd_bits`).

    The number is exact if all frames are sent. It requires that there is no censor, and that the coder is `QSGD`.
    """

    name = "bits of gossip OMKL"

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why the bits are not predicted."""
        coded = all(isinstance(agent.coder, QSGD) for agent in agents.values())
        return not_uncensored(agents) or ("" if coded else "not for coders other than QSGD")

    def bounds(self, agents: Agents, graph: "nx.Graph[Any]", rounds: int) -> dict[str, Array]:
        """Return ``predicted_payload_bits``."""
        total = 0
        for agent in agents.values():
            kernels, size = agent.cost.size
            norms = None if agent.coder.by_row else 1
            total += qsgd_bits(kernels, size, agent.coder.bits, norms=norms)
        return {"predicted_payload_bits": total * np.arange(1.0, rounds + 1.0)}


def not_contracting(agents: Agents) -> str:
    """Return a reason unless all coders are known to contract."""
    found = contractions_of(agents)
    if any(each is None for each in found):
        return "not for coders of unknown error"
    if min(each.delta for each in found if each is not None) <= 0.0:
        return "not for coders that are not known to contract"
    return ""


def _least(agents: Agents) -> Contraction:
    """Return the contraction of the coarsest coder, after `not_contracting` has found that all contract."""
    return min((each for each in contractions_of(agents) if each is not None), key=lambda each: each.delta)
