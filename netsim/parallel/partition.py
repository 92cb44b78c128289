"""Partition of a graph's agents into workers: parts of about equal size, with few links between them."""

from collections import deque
from collections.abc import Hashable
from typing import Any

import networkx as nx

__all__ = ["partition"]

# A worker may have at most _BALANCE times the mean number of agents per worker, plus one agent.
_BALANCE = 1.03


def partition(graph: "nx.Graph[Any]", workers: int) -> dict[Hashable, int]:
    """Assign each agent to a worker, by METIS if pymetis is installed, else by `grown`."""
    if graph.is_directed():
        graph = nx.Graph(graph)
    try:
        import pymetis
    except ImportError:
        return grown(graph, workers)
    numbers = {name: number for number, name in enumerate(graph)}
    adjacency = [[numbers[other] for other in graph[name] if other != name] for name in graph]
    _, parts = pymetis.part_graph(workers, adjacency=adjacency, options=pymetis.Options(seed=0))
    sizes = [parts.count(worker) for worker in range(workers)]
    # With few agents, METIS may leave a worker without agents, or make the parts too unequal.
    if min(sizes) == 0 or max(sizes) > _BALANCE * len(graph) / workers + 1:
        return grown(graph, workers)
    # Number the parts in the order of their first agents: if several workers fail at the same time, the run raises the
    # error of the worker with the lowest number.
    order = {part: worker for worker, part in enumerate(dict.fromkeys(parts))}
    return {name: order[part] for name, part in zip(numbers, parts, strict=True)}


def grown(graph: "nx.Graph[Any]", workers: int) -> dict[Hashable, int]:
    """Assign each agent to a worker: each part grows breadth-first, from a node next to the earlier parts."""
    place: dict[Hashable, int] = {}
    nodes, frontier = iter(graph), deque[Hashable]()
    for worker in range(workers):
        size = (len(graph) - len(place)) // (workers - worker)
        # Start at a single node of the frontier, so that the part is connected if the graph permits.
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
