"""Who speaks when on a medium that all share."""

import networkx as nx

from netsim.faults import Straggler


def in_turn(graph: "nx.Graph[int]", slot: float) -> list[Straggler]:
    """Return faults by which agents speak one after the other in each round: ``slot`` seconds for each, by place."""
    return [Straggler(node, delay=place * slot) for place, node in enumerate(graph) if place]
