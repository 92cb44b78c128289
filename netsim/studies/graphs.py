"""A user's graph file for studies that use a random graph: ``--topology FILE``."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import networkx as nx

from netsim import topology
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.datafiles import digest_of, used

__all__ = ["OwnTopology"]


@dataclass(frozen=True, kw_only=True)
class OwnTopology:
    """A graph from a file in place of the study's.

    Parameters
    ----------
    topology : str
        A file with the graph, in place of the random one (docs/files.md has the formats): the graph must be connected,
        with one node for each agent. Nodes are numbered in the order of the file.
    """

    topology: str | None = None

    def graph_of(
        self, agents: int, draw: "Callable[[], nx.Graph[int]]", **left_out: tuple[Any, Any]
    ) -> "nx.Graph[int]":
        """Return the file's graph, with nodes 0 … agents − 1, or the result of ``draw`` if there is no file.

        ``left_out`` are (value, default) of the parameters that only a drawn graph uses.

        Raises
        ------
        BadInput
            If the file holds no connected graph with ``agents`` nodes, or a parameter in ``left_out`` has another value
            than its default.
        """
        if self.topology is None:
            return draw()
        for name, (value, usual) in left_out.items():
            if value != usual:
                raise check.refuse(name, value, f"left out with topology = {self.topology!r}, which has the graph")
        found = _read(str(used(Path(self.topology))), digest_of(self.topology))
        count = check.integer("agents", agents, low=1)
        if len(found) != count:
            where = f"topology = {self.topology!r}"
            raise BadInput(f"{where}: must have {count:,} nodes, as agents = {count} says; it has {len(found):,}")
        return found.copy()

    def edges_of(self, agents: int, given: int | None) -> int:
        """Return the number of edges of the file's graph; raises BadInput if another number is given."""
        count = self.graph_of(agents, nx.Graph).number_of_edges()
        if given not in (None, count):
            allowed = f"left out with topology = {self.topology!r}, whose graph has {count}"
            raise check.refuse("edges", given, allowed)
        return count


# Cached, because a study's tasks and a sweep's points read one file repeatedly, and should warn once.
@lru_cache(maxsize=8)
def _read(path: str, _: str) -> "nx.Graph[int]":
    """Return the connected graph in a file with this digest; nodes are numbered, with their names as ``name``."""
    graph = topology.read(path, connected=False)
    try:
        topology.check_connected(graph)
    except BadInput as error:
        raise BadInput(f"topology = {path!r}: {str(error).removeprefix('graph: ')}") from None
    numbered: nx.Graph[int] = nx.convert_node_labels_to_integers(graph, label_attribute="name")
    return numbered
