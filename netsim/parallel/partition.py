"""Partition of a graph's agents into workers: parts of about equal size, with few links between them."""

from collections import deque
from collections.abc import Hashable
from typing import Any

import networkx as nx

__all__ = ["partition"]

# A worker's part may have at most this many times the mean number of agents, plus one agent.
_BALANCE = 1.03


def partition(graph: "nx.Graph[Any]", workers: int) -> dict[Hashable, int]:
    """Return the worker of each agent, computed by METIS if pymetis is installed, else by `grown`."""
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
    # With few agents, METIS may give a worker no agents, or make the parts unequal.
    if min(sizes) == 0 or max(sizes) > _BALANCE * len(graph) / workers + 1:
        return grown(graph, workers)
    # Order the workers by their first agents: if several workers fail at the same time, the run raises the error of the
    # first worker.
    order = {part: worker for worker, part in enumerate(dict.fromkeys(parts))}
    return {name: order[part] for name, part in zip(numbers, parts, strict=True)}


def grown(graph: "nx.Graph[Any]", workers: int) -> dict[Hashable, int]:
    """Return the worker of each agent. Each worker's part grows breadth-first, from a node beside the earlier parts."""
    place: dict[Hashable, int] = {}
    nodes, frontier = iter(graph), deque[Hashable]()
    for worker in range(workers):
        size = (len(graph) - len(place)) // (workers - worker)
        # Start at one node of the frontier only, so that the part is connected where the graph permits.
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
