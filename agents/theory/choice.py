"""Apply the theorems to a network's agents: ranges, bounds, predictions, and parameters to choose."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import networkx as nx
import numpy as np

from netsim.agents.theory.inputs import Agents
from netsim.agents.theory.recursions import ExactRate, Recursion
from netsim.agents.theory.theorem import Probe, Range, Theorem
from netsim.errors import BadInput
from netsim.round_agent import overrides
from netsim.util import check
from netsim.util.typing import Array

BY = "guaranteed", "best"
"""The ways in which `choose` chooses."""

LARGEST_SEARCHED = 400
"""The largest N·D for which `choose` searches for the least exact rate; a search computes about 30 rates."""


def theorems_of(agents: Agents) -> tuple[Theorem, ...]:
    """Return the theorems of the agents' algorithm; none if the agents differ, or a subclass changes the algorithm."""
    kinds = {type(agent) for agent in agents.values()}
    if len(kinds) != 1:
        return ()
    kind = kinds.pop()
    owner = next((each for each in kind.__mro__ if "theorems" in vars(each)), None)
    if owner is None or overrides(kind, owner):
        return ()
    found: tuple[Theorem, ...] = vars(owner)["theorems"]
    return found


def _applying(agents: Agents, graph: "nx.Graph[Any]", method: str) -> list[Theorem]:
    """Return the applicable theorems that override a method; the others are not checked, which saves time."""
    able = [each for each in theorems_of(agents) if getattr(type(each), method) is not getattr(Theorem, method)]
    return [each for each in able if not each.why_not(agents, graph)]


def ranges(agents: Agents, graph: "nx.Graph[Any]") -> list[Range]:
    """Return the ranges of parameters that the theorems of the agents' algorithm require.

    Parameters
    ----------
    agents : mapping
        All agents of a network by name, as for `netsim.Network.run`, before or after it.
    graph : networkx Graph
        The network's graph. The theorems hold on links that lose no frames.
    """
    return [found for theorem in _applying(agents, graph, "ranges") for found in theorem.ranges(agents, graph)]


def _by_parameter(found: Iterable[Range]) -> dict[str, Range]:
    """Return the exact range of each parameter, or else the guaranteed one."""
    return {each.parameter: each for each in sorted(found, key=lambda each: each.exact)}


def warnings(agents: Agents, graph: "nx.Graph[Any]") -> list[str]:
    """Return a line for each parameter outside its range; an exact range takes precedence."""
    found = ranges(agents, graph)
    guaranteed = {each.parameter: each for each in found if not each.exact}
    return [each.line(guaranteed.get(name)) for name, each in _by_parameter(found).items() if not each.contains]


def lines(agents: Agents, graph: "nx.Graph[Any]") -> list[str]:
    """Return lines with the reasons why theorems do not apply, and the other theorems' statements without a column."""
    found = []
    for theorem in theorems_of(agents):
        reason = theorem.why_not(agents, graph)
        found += [f"{theorem.name}: {reason}"] if reason else theorem.lines(agents, graph)
    return found


def bounds(agents: Agents, graph: "nx.Graph[Any]", rounds: int) -> dict[str, Array]:
    """Return the bounds and predictions that are known before a run.

    Returns
    -------
    dict of ndarray
        {column: values after rounds 1 … rounds, shape (rounds,)}; columns are named ``bound_…`` or ``predicted_…``.
    """
    check.integer("rounds", rounds, low=1)
    return {
        column: values
        for theorem in _applying(agents, graph, "bounds")
        for column, values in theorem.bounds(agents, graph, rounds).items()
    }


def probe(agents: Agents, graph: "nx.Graph[Any]") -> Probe | None:
    """Return a probe for `netsim.Network.run` that computes the bounds which depend on the run; None if there are none.

    The agents must not have begun to run.
    """
    able = _applying(agents, graph, "probe")
    probes = [found for theorem in able if (found := theorem.probe(agents, graph)) is not None]
    return (lambda those: {k: v for each in probes for k, v in each(those).items()}) if probes else None


def exact(agents: Agents, graph: "nx.Graph[Any]") -> ExactRate | None:
    """Return the exact rate of the agents' algorithm, if it is known and their costs are least squares."""
    return next((each for each in _applying(agents, graph, "bounds") if isinstance(each, ExactRate)), None)


def exact_rate(agents: Agents, graph: "nx.Graph[Any]") -> float | None:
    """Return the factor by which a long run's error shrinks per round (`ExactRate`), or None if unknown.

    If the factor is above 1, the method diverges. The time grows as (N·D)³; above N·D = 2,000 the result is None.
    """
    found = exact(agents, graph)
    return None if found is None else found.of(agents, graph).rate


def choose(agents: Agents, graph: "nx.Graph[Any]", by: str = "guaranteed") -> dict[str, float]:
    """Return chosen parameters of the agents' algorithm: {name: value for all agents}.

    Parameters
    ----------
    agents : mapping
        All agents of the network. Their costs, weights and coders determine the choice; their current values of the
        chosen parameters do not matter.
    graph : networkx Graph
        The network's graph.
    by : {"guaranteed", "best"}
        "guaranteed": parameters for which a theorem guarantees convergence. "best": those of the least `exact_rate`, if
        that can be computed, because the parameters with a theorem's best bound are not the best for the method.

    Raises
    ------
    BadInput
        If no theorem chooses parameters of these agents; the message states the reason. With "best", also if an exact
        rate exists and N·D exceeds 400, because the search would take too long.
    """
    check.one_of("by", by, BY)
    chosen: dict[str, float] = {}
    for theorem in _applying(agents, graph, "choice"):
        chosen = theorem.choice(agents, graph, by) | chosen
    if by == "best" and (rate := exact(agents, graph)) is not None:
        size = sum(agent.cost.size for agent in agents.values())
        if size > LARGEST_SEARCHED:
            raise check.refuse(
                "by", by, f"'guaranteed' for more than {LARGEST_SEARCHED} numbers in all models ({size})"
            )
        chosen |= {rate.parameter: _best(rate, agents, graph, chosen.get(rate.parameter, 1.0))}
    if not chosen:
        why = "; ".join(lines(agents, graph)) or "no theorem of this algorithm is known"
        raise BadInput(f"agents: must be ones whose parameters a theorem chooses ({why})")
    return chosen


def admissible(
    agents: Agents, graph: "nx.Graph[Any]", parameters: Iterable[str]
) -> dict[str, tuple[Range, float | None]]:
    """Return ranges in which parameters may be searched, with the values of `choose` inside them, if any.

    A range is the exact one on these costs, if known, or else the guaranteed one. Because the range of a parameter may
    depend on other parameters, the agents get the chosen values of all parameters.

    Raises
    ------
    BadInput
        If no theorem has a range of a parameter; the message states the reason.
    """
    chosen: dict[str, float] = {}
    with suppress(BadInput):
        chosen = choose(agents, graph)
    for agent in agents.values():
        for name in chosen.keys() & set(parameters):
            setattr(agent, name, chosen[name])
    found = _by_parameter(ranges(agents, graph))
    for name in parameters:
        if name not in found or found[name].low > found[name].high:
            why = "; ".join(lines(agents, graph)) or "no theorem has one"
            raise BadInput(f"{name}: must be a parameter for which a theorem gives a range ({why})")
    return {name: (found[name], chosen.get(name)) for name in parameters}


def _best(rate: ExactRate, agents: Agents, graph: "nx.Graph[Any]", start: float) -> float:
    """Return the parameter of the least spectral radius, from 1/100 to 100 times ``start``."""

    from scipy.optimize import minimize_scalar

    def radius(logarithm: float) -> float:
        found: Recursion = rate.of(agents, graph, float(np.exp(logarithm)))
        return found.rate

    # The radius may have several minima: search near the best point of a coarse grid.
    grid = np.log(start) + np.log(10.0) * np.linspace(-2.0, 2.0, 17)
    at = int(np.argmin([radius(each) for each in grid]))
    ends = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    found = minimize_scalar(radius, bounds=ends, method="bounded", options={"xatol": 1e-3})
    return float(np.exp(found.x))
