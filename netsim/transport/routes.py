"""Routes: the neighbour to which a node forwards messages for a distant node.

On the path agent → outbox → link → inbox → agent, routes determine the link that a message takes next.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import networkx as nx

from netsim.errors import BadInput
from netsim.topology import one_way_link
from netsim.util import check

__all__ = ["Routes", "Routing"]

# Each message carries its number of remaining hops in a field of 32 bits.
_MOST_HOPS = 2**32 - 1

Routing = str | Mapping[Any, Mapping[Any, Any]]


class Routes:
    """The next hop from every node to every other node; computed on first use and then constant.

    Parameters
    ----------
    graph : networkx Graph or DiGraph
        The network.
    routing : str or mapping
        "shortest" minimises the number of links, and the name of an edge attribute minimises the sum of this attribute.
        A mapping holds routing tables, {node: {destination: neighbour}}.
    hop_limit : int
        The number of links that a message may cross.
    """

    def __init__(self, graph: "nx.Graph[Any]", routing: Routing, hop_limit: int) -> None:
        self._graph, self._routing, self.hop_limit = graph, routing, hop_limit
        # {destination: {node: next hop}}. The user's tables are nested the other way: {node: {destination: next hop}}.
        self._next: dict[Hashable, dict[Hashable, Hashable]] = {}
        self._trees: dict[Hashable, dict[Hashable, list[Hashable]]] = {}

    @classmethod
    def of(cls, graph: "nx.Graph[Any]", routing: Routing | None, hop_limit: int | None) -> "Routes | None":
        """Return the routes for the arguments of a network, or None without routing; raises BadInput."""
        if routing is None:
            if hop_limit is not None:
                raise check.refuse("hop_limit", hop_limit, "left out without routing")
            return None
        # A route without a cycle has fewer links than the graph has nodes.
        limit = (
            max(len(graph) - 1, 1)
            if hop_limit is None
            else check.integer("hop_limit", hop_limit, low=1, high=_MOST_HOPS)
        )
        if isinstance(routing, Mapping):
            routing = _checked_tables(graph, routing)
        elif not isinstance(routing, str):
            raise check.refuse("routing", routing, "'shortest', the name of an edge attribute, or a mapping of tables")
        elif routing != "shortest":
            _check_weights(graph, routing)
        return cls(graph, routing, limit)

    def next_hop(self, node: Hashable, to: Hashable) -> Hashable | None:
        """Return the neighbour to which ``node`` forwards messages for ``to``; None if there is no route."""
        if isinstance(self._routing, Mapping):
            found = self._routing.get(node, {}).get(to)
            return to if found is None and self._graph.has_edge(node, to) else found
        if to not in self._next:
            self._next[to] = self._towards(to)
        return self._next[to].get(node)

    def route(self, sender: Hashable, receiver: Hashable) -> list[Any]:
        """Return the nodes on a message's route, including ``sender`` and ``receiver``; [] if it would not arrive.

        A message does not arrive if its route has more links than the hop limit, or if routing tables form a cycle.
        """
        if sender == receiver:
            return [sender]
        # A message to a neighbour takes the direct link, even if a route over other nodes has a smaller weight.
        first = receiver if self._graph.has_edge(sender, receiver) else self.next_hop(sender, receiver)
        route = [sender]
        while first is not None and len(route) <= self.hop_limit:
            route.append(first)
            if first == receiver:
                return route
            first = self.next_hop(first, receiver)
        return []

    def tree(self, root: Hashable) -> dict[Hashable, list[Hashable]]:
        """Return each node's children in the tree of all routes to ``root``, along which ``root`` broadcasts.

        Only nodes with a route to the root are in the tree.
        """
        if root not in self._trees:
            tree: dict[Hashable, list[Hashable]] = {root: []}
            queue = [root]
            for node in queue:
                for child in self._graph[node]:
                    if child not in tree and self.next_hop(child, root) == node:
                        tree[node].append(child)
                        tree[child] = []
                        queue.append(child)
            self._trees[root] = tree
        return self._trees[root]

    def refuse_one_way(self) -> None:
        """Raise BadInput if a link has no reverse link: broadcasts use the links of routes in reverse direction."""
        if (link := one_way_link(self._graph)) is not None:
            raise BadInput(
                f"everyone = True: must go with a graph with links in both directions; link {link!r} has none back"
            )

    def _towards(self, to: Hashable) -> dict[Hashable, Hashable]:
        """Return each node's next hop to ``to``; of equally good hops, the one that is first in the graph's order."""
        graph = self._graph.reverse(copy=False) if isinstance(self._graph, nx.DiGraph) else self._graph
        weight = self._routing if isinstance(self._routing, str) and self._routing != "shortest" else lambda *_: 1
        before, distances = nx.dijkstra_predecessor_and_distance(graph, to, weight=weight)
        # ``distances`` lists the nodes in the order in which Dijkstra's algorithm settled them. Require that a next hop
        # was settled before its node: otherwise weights that are zero, or vanish in rounding, could create a cycle.
        settled = {node: number for number, node in enumerate(distances)}
        order = {node: number for number, node in enumerate(self._graph)}
        found = {}
        for node, hops in before.items():
            earlier = [hop for hop in hops if settled[hop] < settled[node]]
            if earlier:
                found[node] = min(earlier, key=order.__getitem__)
        return found


def _check_weights(graph: "nx.Graph[Any]", name: str) -> None:
    for sender, receiver, data in graph.edges(data=True):
        what = f"{name!r} of edge {(sender, receiver)!r}"
        if name not in data:
            raise BadInput(f"routing = {name!r}: must be 'shortest' or an attribute of all edges; {what} is missing")
        check.finite(what, data[name], low=0)


def _checked_tables(graph: "nx.Graph[Any]", tables: Mapping[Any, Any]) -> dict[Hashable, dict[Hashable, Hashable]]:
    """Return a copy of the tables; raises BadInput if a next hop is not a neighbour, or has no next hop itself."""
    for node, table in tables.items():
        if node not in graph:
            raise BadInput(f"routing: must have nodes of the graph as keys; {node!r} is none")
        check.instance(f"routing[{node!r}]", table, Mapping, "a mapping {destination: neighbour}")
        for to, hop in table.items():
            if to not in graph or to == node:
                raise check.refuse(f"routing[{node!r}]", to, "keyed by other nodes of the graph")
            if not graph.has_edge(node, hop):
                raise check.refuse(f"routing[{node!r}][{to!r}]", hop, "a node to which that one has a link")
            if hop != to and to not in tables.get(hop, ()) and not graph.has_edge(hop, to):
                raise BadInput(f"routing[{node!r}][{to!r}] = {hop!r}: must know the way on, but has none to {to!r}")
    return {node: dict(table) for node, table in tables.items()}
