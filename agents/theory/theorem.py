"""The parts of a theorem: where it applies, the parameter ranges that it requires, its bounds and its predictions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from netsim import topology
from netsim.agents.consensus.censor import Always, Geometric, PowerLaw
from netsim.agents.consensus.duals import Accumulated
from netsim.agents.costs.local import LeastSquares
from netsim.agents.schedule import schedules_of
from netsim.agents.theory.inputs import Agents, Contraction, Curvature, Mixing, contraction, weights_of
from netsim.coders import Exact
from netsim.errors import BadInput
from netsim.util.typing import Vector

MOST_AGENTS = 500
"""The largest number of agents for which spectra are computed: the time grows with its cube, and notes must be fast."""


@dataclass(frozen=True)
class Range:
    """The range of a parameter for which a theorem holds.

    Attributes
    ----------
    parameter : str
        The parameter's name, as in the algorithm's class.
    value : float
        The agents' value.
    low, high : float
        Ends of the range; the ends themselves belong to it if ``closed``.
    theorem : str
        The theorem that guarantees convergence within the range, and a note if it was not checked against its source.
    exact : bool
        Whether the range is exact on these costs, so that the method diverges outside. Other ranges are sufficient: the
        theorem guarantees convergence inside, and makes no statement on values outside.
    closed : bool
        Whether the ends belong to the range.
    """

    parameter: str
    value: float
    low: float
    high: float
    theorem: str
    exact: bool = False
    closed: bool = False

    @property
    def contains(self) -> bool:
        """Whether the value lies in the range."""
        return self.low <= self.value <= self.high if self.closed else self.low < self.value < self.high

    @property
    def interval(self) -> str:
        """The range, as text."""
        ends = "[]" if self.closed else "()"
        return f"{ends[0]}{self.low:.3g}, {self.high:.3g}{ends[1]}"

    def promise(self, guaranteed: "Range | None" = None) -> str:
        """Return in words what holds within the range.

        Parameters
        ----------
        guaranteed : Range, optional
            For an exact range: the range that holds for all costs of the same curvature.
        """
        if not self.exact:
            promised = "that allows convergence" if self.low > self.high else "for which convergence is guaranteed"
            return f"the range {promised} {self.interval} ({self.theorem})"
        also = "" if guaranteed is None else f"; {guaranteed.interval} is guaranteed"
        return f"the range in which {self.theorem} converges on these costs {self.interval} (exact{also})"

    def line(self, guaranteed: "Range | None" = None) -> str:
        """Return the range as a line of a run's notes; ``guaranteed`` is as of `promise`."""
        where = "within" if self.contains else "outside"
        return f"{self.parameter} = {self.value:g}: {where} {self.promise(guaranteed)}"


Probe = Callable[[Agents], dict[str, float]]
"""A probe of `netsim.Network.run`, which computes a theorem's columns from the agents after each round."""


class Theorem:
    """Base class of the theorems. An algorithm names its theorems in the class variable ``theorems``.

    ``name`` gives the theorem's number and source. The other methods may be called only if `why_not` returns an empty
    string.
    """

    name: str

    def why_not(self, agents: Agents, graph: "nx.Graph[Any]") -> str:
        """Return why the theorem does not apply to these agents on this graph, as "not for …", or an empty string."""
        raise NotImplementedError

    def ranges(self, agents: Agents, graph: "nx.Graph[Any]") -> list[Range]:
        """Return the parameter ranges that the theorem requires."""
        return []

    def bounds(self, agents: Agents, graph: "nx.Graph[Any]", rounds: int) -> dict[str, Vector]:
        """Return bounds and predictions that are known before a run: {column: a value per round, shape (rounds,)}."""
        return {}

    def probe(self, agents: Agents, graph: "nx.Graph[Any]") -> Probe | None:
        """Return a probe for bounds that need the run, or None. The agents must not have begun to run."""
        return None

    def lines(self, agents: Agents, graph: "nx.Graph[Any]") -> list[str]:
        """Return the theorem's statements about these agents that no column shows, as lines."""
        return []

    def choice(self, agents: Agents, graph: "nx.Graph[Any]", by: str) -> dict[str, float]:
        """Return parameters for which the theorem holds; with ``by`` = "best", those with the best known rate."""
        return {}


def not_two_way(agents: Agents, graph: "nx.Graph[Any]") -> str:
    """Return a reason unless the graph is one undirected, connected graph of these two or more agents."""
    if not isinstance(graph, nx.Graph):
        return "not for graphs that change"
    if graph.is_directed():
        return "not for links in one direction only"
    if list(graph) != list(agents):
        return "not for agents whose names or order differ from the graph's"
    if len(graph) < 2:
        return "not for a single agent"
    if len(graph) > MOST_AGENTS:
        return f"not for more than {MOST_AGENTS} agents ({len(graph)})"
    try:
        topology.check_connected(graph)
    except BadInput:
        return "not for a graph in several parts"
    return ""


def not_constant(agents: Agents, *parameters: str) -> str:
    """Return a reason unless each parameter is the same constant number at all agents."""
    for parameter in parameters:
        if any(parameter in schedules_of(agent) for agent in agents.values()):
            return f"not for a schedule of {parameter}"
        if len({getattr(agent, parameter) for agent in agents.values()}) > 1:
            return f"not for agents of different {parameter}"
    return ""


def is_open(censor: object) -> bool:
    """Return whether a censor never silences an agent."""
    return isinstance(censor, Always) or (isinstance(censor, Geometric | PowerLaw) and censor.v == 0.0)


def not_uncensored(agents: Agents) -> str:
    """Return a reason unless agents broadcast in every round."""
    return "" if all(is_open(agent.censor) for agent in agents.values()) else "not for a censor"


def not_plain(agents: Agents) -> str:
    """Return a reason unless agents broadcast their exact states in every round."""
    if reason := not_uncensored(agents):
        return reason
    if not all(isinstance(agent.coder, Exact) for agent in agents.values()):
        return "not for a coder"
    return ""


def not_accumulated(agents: Agents) -> str:
    """Return a reason unless the dual variables are updated as in the papers."""
    if not all(isinstance(agent.duals, Accumulated) for agent in agents.values()):
        return "not for duals other than Accumulated"
    return ""


def not_quadratic(agents: Agents) -> str:
    """Return a reason unless all costs are least squares."""
    if not all(isinstance(agent.cost, LeastSquares) for agent in agents.values()):
        return "not for costs other than least squares"
    return ""


def not_curved(agents: Agents, strongly: bool = False) -> str:
    """Return a reason unless the curvature of the costs is known and, with ``strongly``, above 0."""
    curvature = Curvature.of(agent.cost for agent in agents.values())
    if curvature is None:
        return "not for costs of unknown curvature"
    return "not for costs without strong convexity" if strongly and curvature.m <= 0.0 else ""


def not_mixing(agents: Agents, graph: "nx.Graph[Any]") -> str:
    """Return a reason unless the agents' weights are a symmetric, doubly stochastic matrix of the connected graph."""
    weights = weights_of(agents)
    try:
        gap = Mixing.of(weights).gap
    except BadInput:
        return "not for weights that are not symmetric and doubly stochastic"
    # The method ignores weights of pairs without a link, so its matrix would be another one.
    if np.any(weights[(topology.adjacency(graph) == 0.0) & ~np.eye(len(weights), dtype=bool)]):
        return "not for weights of agents that are not neighbours"
    return "" if gap > 1e-12 else "not for weights that leave the agents in several parts"


def contractions_of(agents: Agents) -> list[Contraction | None]:
    """Return the `Contraction` of each agent's coder for the agent's models, None where it is not known."""
    return [contraction(agent.coder, agent.theta.shape) for agent in agents.values()]


def curvature_of(agents: Agents) -> Curvature:
    """Return the curvature of the agents' costs, which `not_curved` has found to be known."""
    found = Curvature.of(agent.cost for agent in agents.values())
    assert found is not None
    return found


def value_of(agents: Agents, parameter: str) -> float:
    """Return the parameter that all agents share."""
    return float(getattr(next(iter(agents.values())), parameter))
