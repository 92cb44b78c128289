"""Which worker runs which agents: parts of equal size with few links between them."""

from collections import deque
from collections.abc import Hashable
from typing import Any

import networkx as nx

__all__ = ["partition"]


def partition(graph: "nx.Graph[Any]", workers: int) -> dict[Hashable, int]:
    """Return the worker of each agent; each part grows by breadth from the edge of those before it."""
    place: dict[Hashable, int] = {}
    nodes, frontier = iter(graph), deque[Hashable]()
    for worker in range(workers):
        size = (len(graph) - len(place)) // (workers - worker)
        # A part begins at one node beside the others.
        start = next((name for name in frontier if name not in place), None)
        outside, frontier = frontier, deque([] if start is None else [start])
        while size:
            name = frontier.popleft() if frontier else outside.popleft() if outside else next(nodes)
            if name not in place:
                place[name] = worker
                frontier.extend(other for other in graph[name] if other not in place)
                size -= 1
        frontier.extend(outside)
    return {name: place[name] for name in graph}
