"""Checks before a run that concern all nodes of a protocol together."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import networkx as nx

from netsim import BadInput
from netsim.util import check

__all__ = ["must_agree", "roots_of"]


def roots_of(agents: Mapping[Any, Any], graph: "nx.Graph[Any]", flag: str, why: str) -> list[Sequence[Hashable]]:
    """Return the roots of each connected component with several roots; raise BadInput if no agent is a root.

    ``flag`` is the name of the argument that makes an agent a root. ``why`` is the part of the error text that
    describes the consequence of having no root.
    """
    roots = [name for name, agent in agents.items() if getattr(agent, flag)]
    if not roots:
        raise BadInput(f"{flag} = False: must be True for one agent; without one {why}")
    if len(roots) == 1:
        return []
    parts = nx.connected_components(graph.to_undirected(as_view=True))
    several = [[name for name in roots if name in part] for part in parts]
    return [each for each in several if len(each) > 1]


def must_agree(agents: Mapping[Any, Any], *names: str) -> None:
    """Raise BadInput unless each of the named attributes is equal at all agents."""
    first, one = next(iter(agents.items()))
    for name, agent in agents.items():
        for each in names:
            value, usual = getattr(agent, each), getattr(one, each)
            if value != usual:
                raise check.refuse(f"agents[{name!r}]: {each}", value, f"{usual!r}, as agent {first!r} has it")
