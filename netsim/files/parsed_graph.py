"""A graph read from a file, and the errors and notes that readers of graphs share."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import networkx as nx

from netsim.errors import BadInput
from netsim.util import check

__all__ = ["FORMS", "Graph", "ParsedGraph", "check_fits", "left_out", "refuse", "unequal_weights"]

FORMS = (
    "GraphML, GEXF, GML, node-link JSON, SNDlib, Rocketfuel, Pajek, LEDA, graph6, sparse6, a list of edges, an "
    "adjacency list or a matrix"
)

# Lower bound of the bytes that a node takes in networkx; a measurement gave 500.
_NODE_BYTES = 300

Graph: TypeAlias = "nx.Graph[Any]"


@dataclass
class ParsedGraph:
    """A graph that was read; ``notes`` list the parts of the file that were left out of the graph."""

    form: str
    graph: "nx.Graph[Any]"
    notes: list[str] = field(default_factory=list)


def check_fits(where: str, nodes: int) -> None:
    """Raise BadInput if a graph of ``nodes`` nodes, which even a small file can declare, would not fit in memory."""
    with check.naming(f"{where}: "):
        check.fits("nodes", nodes, nodes * _NODE_BYTES, "a graph of this size")


def refuse(where: str, allowed: str, line: int | None = None) -> BadInput:
    """Return the error for a file, or a line of it, that is not as allowed."""
    return BadInput(f"{where}{'' if line is None else f', line {line}'}: must be {allowed}")


def unequal_weights(edges: Iterable[tuple[Any, Any, Any]]) -> list[str]:
    """Return a note on the number of edges with different weights in the two directions, if there are any.

    The caller keeps the last weight of such an edge.
    """
    first: dict[frozenset[Any], Any] = {}
    count = sum(first.setdefault(frozenset((a, b)), weight) != weight for a, b, weight in edges)
    return [f"left out the first of two weights of {count:,} edge{'' if count == 1 else 's'}"] if count else []


def left_out(count: int, what: str) -> str:
    """Return a note on parts of the file that the graph does not contain."""
    return f"left out {count:,} {what}{'' if count == 1 else 's'}"
