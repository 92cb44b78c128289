"""Where agents are drawn that have no positions: the same places each time."""

from collections.abc import Iterable, Sequence

import networkx as nx
import numpy as np

__all__ = ["drawn"]

# Above these numbers of agents a finer layout takes too long.
_BY_DISTANCE, _BY_SPRINGS = 150, 1000


def drawn(agents: int, links: Iterable[Sequence[int]]) -> list[list[float]]:
    """Return a place (x, y) for each agent, by the distances in the graph of few, on a circle for very many."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(agents))
    graph.add_edges_from((one, other) for one, other in links)
    if agents <= _BY_DISTANCE:
        places = nx.kamada_kawai_layout(graph) if agents > 1 else {0: (0.0, 0.0)}
    elif agents <= _BY_SPRINGS:
        places = nx.spring_layout(graph, seed=0)
    else:
        places = nx.circular_layout(graph)
    # The last digits of a layout are those of this machine; nobody sees them.
    return [np.round(np.asarray(places[number], dtype=np.float64), 6).tolist() for number in range(agents)]
