"""A graph read from a file, and functions for errors and notes that all readers of graphs use."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import networkx as nx

from netsim.errors import BadInput
from netsim.util import check

__all__ = ["FORMS", "Graph", "ParsedGraph", "check_fits", "left_out", "parallel_edges", "refuse", "unequal_weights"]

FORMS = (
    "GraphML, GEXF, GML, node-link JSON, SNDlib, Rocketfuel, Pajek, LEDA, graph6, sparse6, a list of edges, an "
    "adjacency list or a matrix"
)

# Lower bound of the memory in bytes that a node needs in networkx; 500 were measured.
_NODE_BYTES = 300

Graph: TypeAlias = "nx.Graph[Any]"


@dataclass
class ParsedGraph:
    """A graph read from a file; ``notes`` list the parts of the file that are not in the graph."""

    form: str
    graph: "nx.Graph[Any]"
    notes: list[str] = field(default_factory=list)


def check_fits(where: str, nodes: int) -> None:
    """Raise BadInput if a graph with this many nodes, which even a small file can declare, would not fit in memory."""
    with check.naming(f"{where}: "):
        check.fits("nodes", nodes, nodes * _NODE_BYTES, "a graph of this size")


def refuse(where: str, allowed: str, line: int | None = None) -> BadInput:
    """Return a BadInput which reports that a file, or a line of it, must be ``allowed``."""
    return BadInput(f"{where}{'' if line is None else f', line {line}'}: must be {allowed}")


def unequal_weights(edges: Iterable[tuple[Any, Any, Any]]) -> list[str]:
    """Return a note on the number of edges whose weights differ between the two directions; [] if there are none.

    The note assumes that the caller keeps the last weight of such an edge.
    """
    first: dict[frozenset[Any], Any] = {}
    count = sum(first.setdefault(frozenset((a, b)), weight) != weight for a, b, weight in edges)
    return [f"left out the first of two weights of {count:,} edge{'' if count == 1 else 's'}"] if count else []


def left_out(count: int, what: str, which: str = "") -> list[str]:
    """Return a note that ``count`` parts of the file, each a ``what``, were left out; [] if there are none."""
    return [f"left out {count:,} {what}{'' if count == 1 else 's'}{which}"] if count else []


def parallel_edges(ends: Iterable[Hashable]) -> list[str]:
    """Return a note on the number of edges, given by their ends, that repeat another edge; [] if there are none."""
    several = list(ends)
    return left_out(len(several) - len(set(several)), "parallel edge")
