"""Parameters of LEAD (Liu, Li, Wang, Tang and Yan 2021, theorem 1), checked against runs, not against the paper."""

from dataclasses import dataclass
from typing import Any

import networkx as nx

from netsim.agents.theory.inputs import Agents, Curvature, Mixing, weights_of
from netsim.agents.theory.theorem import (
    Range,
    Theorem,
    contractions_of,
    curvature_of,
    not_constant,
    not_curved,
    not_mixing,
    not_two_way,
    not_uncensored,
    value_of,
)

_SOURCE = "theorem 1 of LEAD, not re-read"


@dataclass(frozen=True)
class LeadTheorem:
    """Theorem 1 of LEAD: it converges linearly for η, γ and α in these ranges.

    With E‖Q(x) − x‖² ≤ C‖x‖² of an unbiased coder, β = ‖I − W‖, and x = mη(2 − mη):

        0 < η ≤ 2/(m + M);   0 < γ < min{2/((3C + 1)β), 2x/((2 − x)Cβ)};
        Cβγ/(2(1 + C)) ≤ α ≤ (Cβγ + 2)/(4(1 + C)) · min{(2 − βγ)/(4 − βγ), x}.

    Attributes
    ----------
    curvature : Curvature
        m > 0 and M.
    beta, variance : float
        The constants β and C.
    """

    curvature: Curvature
    beta: float
    variance: float

    @property
    def eta_end(self) -> float:
        """The largest η, 2/(m + M)."""
        return 2.0 / (self.curvature.m + self.curvature.M)

    def gamma_end(self, eta: float) -> float:
        """Return the upper end of the range of γ for a step η."""
        C, b, x = self.variance, self.beta, self._x(eta)
        end = 2.0 / ((3.0 * C + 1.0) * b)
        return min(end, 2.0 * x / ((2.0 - x) * C * b)) if C > 0.0 else end

    def alpha_ends(self, eta: float, gamma: float) -> tuple[float, float]:
        """Return both ends of the range of α for η and γ; the range is empty if the first exceeds the second."""
        C, b = self.variance, self.beta
        share = min((2.0 - b * gamma) / (4.0 - b * gamma), self._x(eta))
        return C * b * gamma / (2.0 * (1.0 + C)), (C * b * gamma + 2.0) / (4.0 * (1.0 + C)) * share

    def _x(self, eta: float) -> float:
        return self.curvature.m * eta * (2.0 - self.curvature.m * eta)


class LeadRange(Theorem):
    """The ranges of LEAD's η, γ and α: `LeadTheorem`.

    The theorem assumes strongly convex costs of bounded curvature, full gradients, constant parameters, no censor,
    symmetric, doubly stochastic weights, and an unbiased coder. The ranges are only sufficient: `QSGD` with 2 bits also
    converges outside. But a coder that sends 2 of 6 random elements on a complete graph diverges with α = ½, and
    converges with an α in the range.
    """

    name = "theorem 1 of LEAD"

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why the theorem does not apply."""
        return (
            not_two_way(agents, graph)
            or not_constant(agents, "eta", "gamma", "alpha")
            or not_uncensored(agents)
            or not_unbiased(agents)
            or not_curved(agents, strongly=True)
            or not_mixing(agents, graph)
        )

    def of(self, agents: Agents) -> LeadTheorem:
        """Return the theorem's constants for these agents; the coarsest coder determines the variance C."""
        variance = max(each.variance for each in contractions_of(agents) if each is not None)
        return LeadTheorem(curvature_of(agents), Mixing.of(weights_of(agents)).beta, variance)

    def ranges(self, agents: Agents, graph: "nx.Graph[Any]") -> list[Range]:
        """Return the ranges of η, γ and α.

        There is no range of α if the range of γ is empty, or if the coder is exact, so that α has no effect.
        """
        found = self.of(agents)
        eta, gamma, alpha = (value_of(agents, each) for each in ("eta", "gamma", "alpha"))
        ranges = [
            Range("eta", eta, 0.0, found.eta_end, _SOURCE, closed=True),
            Range("gamma", gamma, 0.0, found.gamma_end(eta), _SOURCE),
        ]
        low, high = found.alpha_ends(eta, gamma)
        if found.variance > 0.0 and low <= high:
            ranges.append(Range("alpha", alpha, low, high, _SOURCE, closed=True))
        return ranges

    def choice(self, agents: Agents, graph: "nx.Graph[Any]", by: str) -> dict[str, float]:
        """Return η = 2/(m + M), 0.9 of the end of γ, and the middle of α's range."""
        found = self.of(agents)
        eta = found.eta_end
        gamma = 0.9 * found.gamma_end(eta)
        low, high = found.alpha_ends(eta, gamma)
        return {"eta": eta, "gamma": gamma, "alpha": (low + high) / 2.0}


def not_unbiased(agents: Agents) -> str:
    """Return a reason unless all coders are unbiased and of known variance."""
    if any(each is None or not each.unbiased for each in contractions_of(agents)):
        return "not for coders that are not known to be unbiased"
    return ""
