"""Graphs for networks. Each is connected and has nodes 0 … n − 1. Random graphs depend only on ``seed``.

A directed graph has a link only along each edge; to be connected, each agent must reach every other one.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim.errors import BadInput
from netsim.files.content import FileContent
from netsim.files.file_kinds import kind_of, wrong_kind
from netsim.files.graph_reader import read_graph
from netsim.files.measured import is_k7
from netsim.files.places import place_nodes
from netsim.util import check

_MAX_DRAWS = 1_000
# Up to this number of agents, comparing all pairs is faster than importing a search tree.
_FEW = 500

# Lower bounds on the memory (bytes) of a node and of an edge in networkx; measured: 500, and 140 to 250.
_NODE, _EDGE = 300, 130


def check_graph(graph: "nx.Graph[Any]") -> None:
    """Raise BadInput unless ``graph`` is a non-empty networkx Graph or DiGraph without loops."""
    if not isinstance(graph, nx.Graph) or graph.is_multigraph():
        raise check.refuse("graph", graph, "a networkx.Graph or a networkx.DiGraph")
    if not len(graph):
        raise BadInput("graph: must have at least one node; it is empty")
    loop = next(nx.selfloop_edges(graph), None)
    if loop is not None:
        raise BadInput(f"graph: must have no edge from a node to itself; node {loop[0]!r} has one")


def check_connected(graph: "nx.Graph[Any]") -> None:
    """Raise BadInput unless `check_graph` accepts ``graph`` and it is (if directed, strongly) connected."""
    check_graph(graph)
    if graph.is_directed():
        _check_strongly_connected(graph)
    elif not nx.is_connected(graph):
        parts = sorted(nx.connected_components(graph), key=len)
        smallest = f"the smallest of {len(parts[0])} with node {min(parts[0], key=repr)!r}"
        raise BadInput(f"graph: must be connected; it has {len(parts)} parts, {smallest}")


def _check_strongly_connected(graph: "nx.Graph[Any]") -> None:
    """Raise BadInput unless each node of a directed graph reaches every other one along its edges."""
    start = next(iter(graph))
    for nodes, what in ((nx.descendants(graph, start), "reach"), (nx.ancestors(graph, start), "be reached from")):
        if len(nodes) < len(graph) - 1:
            other = next(node for node in graph if node != start and node not in nodes)
            raise BadInput(
                f"graph: must be strongly connected, or connected=False; node {start!r} cannot {what} node {other!r}"
            )


def links_of(graph: "nx.Graph[Any]") -> list[tuple[Any, Any]]:
    """Return a graph's links (sender, receiver): both directions of an undirected edge, one of a directed edge."""
    if graph.is_directed():
        return list(graph.edges)
    return [pair for a, b in graph.edges for pair in ((a, b), (b, a))]


def senders_to(graph: "nx.Graph[Any]", node: Hashable) -> tuple[Any, ...]:
    """Return the nodes from which a graph has a link to a node, in the graph's order."""
    return tuple(graph.pred[node] if isinstance(graph, nx.DiGraph) else graph[node])


def one_way_link(graph: "nx.Graph[Any]") -> tuple[Any, Any] | None:
    """Return a link (sender, receiver) of a graph without a link back; None if there is none."""
    if not graph.is_directed():
        return None
    return next(((a, b) for a, b in graph.edges if not graph.has_edge(b, a)), None)


def _until_connected(draw: "Callable[[np.random.Generator], nx.Graph[int]]", seed: int, what: str) -> "nx.Graph[int]":
    rng = np.random.default_rng(check.integer("seed", seed, low=0))
    for _ in range(_MAX_DRAWS):
        graph = draw(rng)
        if nx.is_strongly_connected(graph) if isinstance(graph, nx.DiGraph) else nx.is_connected(graph):
            return graph
    raise BadInput(f"{what}: must make a connected graph likely; none of {_MAX_DRAWS} draws was connected")


def _checked_count(count: int, low: int = 1) -> int:
    agents = check.integer("agents", count, low=low)
    check.fits("agents", agents, agents * _NODE, "a graph of this size")
    return agents


def _check_memory(name: str, value: float, edges: float) -> None:
    """Raise BadInput, with the argument's name and value, if the resulting number of edges does not fit into memory."""
    check.fits(name, value, edges * _EDGE, f"a graph of {edges:,.0f} edges")


def erdos_renyi(agents: int, *, p: float | None = None, edges: int | None = None, seed: int = 0) -> "nx.Graph[int]":
    """Link each pair with probability ``p``, or ``edges`` random pairs; redrawn until the graph is connected."""
    agents = _checked_count(agents)
    if (p is None) == (edges is None):
        raise BadInput(f"p = {p}, edges = {edges}: must be one of the two")
    if p is not None:
        share = check.probability("p", p)
        # A lower bound: half the expected number of edges, exceeded with near certainty by large graphs.
        _check_memory("p", share, share * agents * (agents - 1) / 4)
        return _until_connected(lambda rng: nx.gnp_random_graph(agents, share, seed=rng), seed, f"p = {p}")
    count = check.integer("edges", edges, low=agents - 1, high=agents * (agents - 1) // 2)
    _check_memory("edges", count, count)
    return _until_connected(lambda rng: nx.gnm_random_graph(agents, count, seed=rng), seed, f"edges = {edges}")


def ring(agents: int) -> "nx.Graph[int]":
    """Return a cycle: each agent has two neighbours."""
    graph: nx.Graph[int] = nx.cycle_graph(_checked_count(agents, low=3))
    return graph


def path(agents: int) -> "nx.Graph[int]":
    """Return a line: each agent is linked to the previous and the next one."""
    graph: nx.Graph[int] = nx.path_graph(_checked_count(agents))
    return graph


def complete(agents: int) -> "nx.Graph[int]":
    """Return the graph in which all agents are neighbours."""
    agents = _checked_count(agents)
    _check_memory("agents", agents, agents * (agents - 1) / 2)
    graph: nx.Graph[int] = nx.complete_graph(agents)
    return graph


def star(agents: int) -> "nx.Graph[int]":
    """Return a star: agent 0 is the only neighbour of all others."""
    graph: nx.Graph[int] = nx.star_graph(_checked_count(agents) - 1)
    return graph


def grid(rows: int, columns: int) -> "nx.Graph[int]":
    """Return a rectangular grid, numbered row by row; nodes have the position ``pos`` = (column, row)."""
    rows, columns = check.integer("rows", rows, low=1), check.integer("columns", columns, low=1)
    check.fits("rows, columns", (rows, columns), rows * columns * _NODE, "a grid of this size")
    cells = nx.grid_2d_graph(rows, columns)
    graph = nx.convert_node_labels_to_integers(cells, ordering="sorted", label_attribute="cell")
    for _, data in graph.nodes(data=True):
        row, column = data.pop("cell")
        data["pos"] = (column, row)
    return graph


def directed_ring(agents: int, hops: Sequence[int] = (1,)) -> "nx.DiGraph[int]":
    """Return a directed ring: agent i sends to i + h modulo n, for each h of ``hops``.

    With hops 1, 2, 4, … below n the result is the directed exponential graph (Assran, Loizou, Ballas and Rabbat 2019).

    Raises
    ------
    BadInput
        If a hop is not from 1 to n − 1, two hops are equal, or an agent cannot reach another.
    """
    count = _checked_count(agents, low=2)
    steps = [check.integer("hops", hop, low=1, high=count - 1) for hop in hops]
    if len(set(steps)) < len(steps):
        raise check.refuse("hops", hops, "numbers that differ")
    _check_memory("hops", count, count * len(steps))
    graph = _ring(count, steps)
    if not steps or np.gcd.reduce([count, *steps]) != 1:
        raise check.refuse("hops", hops, f"such that each of the {count} agents reaches every other one")
    return graph


def _ring(count: int, hops: Sequence[int]) -> "nx.DiGraph[int]":
    graph: nx.DiGraph[int] = nx.empty_graph(count, create_using=nx.DiGraph)
    graph.add_edges_from((i, (i + hop) % count) for i in range(count) for hop in hops)
    return graph


def directed_random(agents: int, p: float, *, seed: int = 0) -> "nx.DiGraph[int]":
    """Link each ordered pair with probability ``p``; repeat the draw until each agent reaches every other one."""
    agents, share = _checked_count(agents), check.probability("p", p)
    _check_memory("p", share, share * agents * (agents - 1) / 2)
    drawn = _until_connected(lambda rng: nx.gnp_random_graph(agents, share, seed=rng, directed=True), seed, f"p = {p}")
    return nx.DiGraph(drawn)


def one_peer_exponential(agents: int) -> "list[nx.DiGraph[int]]":
    """Return the graphs of successive rounds in which agent i sends only to i + 1, then i + 2, i + 4, … modulo n.

    Use them in a `netsim.faults.Rewire`, on a network whose graph is their `union` (Assran, Loizou, Ballas and Rabbat
    2019, §4). If n is a power of 2, push-sum averages exactly in log₂ n rounds.
    """
    count = _checked_count(agents, low=2)
    return [_ring(count, [2**power]) for power in range((count - 1).bit_length())]


def union(graphs: "Iterable[nx.Graph[Any]]") -> "nx.DiGraph[Any]":
    """Return the directed graph with every node and every link of some graphs; undirected edges become two links."""
    check.instance("graphs", graphs, Iterable, "networkx graphs")
    found: nx.DiGraph[Any] = nx.DiGraph()
    for graph in graphs:
        check_graph(graph)
        found.add_nodes_from(graph.nodes(data=True))
        found.add_edges_from(links_of(graph))
    check_graph(found)
    return found


def random_geometric(agents: int, radius: float, *, seed: int = 0) -> "nx.Graph[int]":
    """Place agents at random in the unit square and link those within ``radius``; repeat until connected."""
    agents = _checked_count(agents)
    reach = check.finite("radius", radius, above=0)
    # A lower bound: every agent gets the expected number of neighbours of an agent in a corner, halved as above.
    _check_memory("radius", reach, np.pi * min(reach, 1.0) ** 2 / 4 * agents * (agents - 1) / 4)
    what = f"radius = {radius:g}"
    return _until_connected(lambda rng: _geometric(rng.random((agents, 2)), reach), seed, what)


def _geometric(places: NDArray[np.float64], reach: float) -> "nx.Graph[int]":
    """Link positions, shape (n, 2), within ``reach``, as networkx does; small graphs need no search tree."""
    pos = dict(enumerate(places.tolist()))
    if len(places) <= _FEW:
        squares = ((places[:, None] - places) ** 2).sum(axis=2)
        # If a pair is at exactly this distance, use the search tree, so that its rounding decides in all graphs.
        if not np.isclose(squares, reach**2, rtol=1e-9, atol=0.0).any():
            graph: nx.Graph[int] = nx.empty_graph(len(places))
            nx.set_node_attributes(graph, pos, "pos")
            ends = np.nonzero(np.triu(squares <= reach**2, 1))
            graph.add_edges_from(zip(*(each.tolist() for each in ends), strict=True))
            return graph
    return nx.random_geometric_graph(len(places), reach, pos=pos)


def read(path: str | Path, *, connected: bool = True) -> "nx.Graph[Any]":
    """Read a graph from a file in any of these formats, recognised by content (docs/files.md).

    * GraphML and GEXF; GML, such as that of the Internet Topology Zoo (nodes are named by id if labels repeat); Pajek,
      LEDA, graph6 and sparse6
    * SNDlib's networks, native or in XML; Rocketfuel's maps (``.cch``), latencies and weights (``.intra``)
    * JSON: node-link as networkx, D3 or TopoHub write it, with ``edges`` or ``links``; adjacency or Cytoscape's
    * a list of edges: on each line two names, separated by commas, semicolons, tabs or blanks, then numbers, the first
      of which is the ``weight``; or a table with a header line, in which the columns ``source`` and ``target`` (or
      names used by other programs) identify the edge, and any other columns are its attributes
    * networkx's adjacency lists, recognised by the comment lines at their start or by the suffix ``.adjlist``
    * a square matrix of 0 and 1, or of weights: as text, ``.npy``, ``.npz`` of numpy or scipy.sparse, or in Matrix
      Market's format; nodes are 0 … n − 1, or the names if the text has names

    Each may be compressed by gzip or bzip2. Lines that begin with # or % are comments. Pickles, and XML with entities,
    are rejected.

    Directed and parallel edges between two nodes become one undirected edge; edges from a node to itself are omitted.
    Nodes get ``pos`` in metres: from their ``pos``, from their numbers ``x`` and ``y`` (and ``z``), or, if no node has
    these, from their longitude and latitude, projected. `netsim.links.from_graph` turns attributes of edges into
    settings of links. A RuntimeWarning reports omitted data and the projection.

    Parameters
    ----------
    path : path
        The file.
    connected : bool
        True: if the graph is not connected, keep only its largest component, the first of several equally large ones.
        False: keep all components, for ``Network(graph, connected=False)``.

    Raises
    ------
    BadInput
        If the file is missing or unreadable, contains no graph, or contains several nodes without any edge. The message
        gives the reason and, where possible, the line.
    """
    source = FileContent.read("topology", path)
    if kind_of(source) in ("motes", "ways", "packets") or is_k7(source):
        raise wrong_kind(source, "graph")
    found = read_graph(source)
    graph, notes = found.graph, found.notes
    with check.naming(f"topology = {str(path)!r}: "):
        check_graph(graph)
    if check.flag("connected", connected) and not nx.is_connected(graph):
        if not graph.number_of_edges():
            raise BadInput(f"topology = {str(path)!r}: must have an edge; it has {len(graph)} nodes without any")
        parts = sorted(nx.connected_components(graph), key=len, reverse=True)
        notes.append(
            f"took the largest of {len(parts)} parts, {len(parts[0])} of {len(graph)} nodes (connected=False takes all)"
        )
        # Copy, because the view of a subgraph iterates over its nodes in another order.
        graph = nx.Graph(graph.subgraph(parts[0]))
    notes += place_nodes(data for _, data in graph.nodes(data=True))
    if notes:
        check.doubt(f"topology = {str(path)!r}, {found.form}: {'; '.join(notes)}")
    return graph


def metropolis_weights(graph: "nx.Graph[Any]") -> NDArray[np.float64]:
    """Return the symmetric, doubly stochastic matrix of weights 1/(1 + max(d_i, d_j)), shape (n, n); d_i are degrees.

    Raises
    ------
    BadInput
        If the graph has a link without a link back.
    """
    linked = _two_way(graph)
    degree = linked.sum(axis=1)
    return _with_own_weights(linked / (1 + np.maximum.outer(degree, degree)))


def max_degree_weights(graph: "nx.Graph[Any]") -> NDArray[np.float64]:
    """Return the symmetric, doubly stochastic matrix of weights 1/(1 + d_max), shape (n, n); d_max is the top degree.

    Raises
    ------
    BadInput
        If the graph has a link without a link back.
    """
    linked = _two_way(graph)
    return _with_own_weights(linked / (1 + linked.sum(axis=1).max(initial=0)))


def column_stochastic_weights(graph: "nx.Graph[Any]") -> NDArray[np.float64]:
    """Return push-sum weights, shape (n, n): row i holds the weights that agent i gives to all agents' states.

    In column j, the weight is 1/(1 + out-degree of j) for agent j and for each agent that it sends to, so each column
    sums to 1. Rows and columns are in the graph's order of nodes.
    """
    received = adjacency(graph).T + np.eye(len(graph))
    found: NDArray[np.float64] = received / received.sum(axis=0)
    return found


def row_stochastic_weights(graph: "nx.Graph[Any]") -> NDArray[np.float64]:
    """Return the weights of a plain mean, shape (n, n): row i holds the weights that agent i gives to all states.

    In row i, the weight is 1/(1 + in-degree of i) for agent i and for each agent that has a link to it, so each row
    sums to 1. Rows and columns are in the graph's order of nodes.
    """
    received = adjacency(graph).T + np.eye(len(graph))
    found: NDArray[np.float64] = received / received.sum(axis=1, keepdims=True)
    return found


def _two_way(graph: "nx.Graph[Any]") -> NDArray[np.float64]:
    """Return the `adjacency`; raise BadInput if a link has no reverse link, which symmetric weights need."""
    matrix = adjacency(graph)
    if (link := one_way_link(graph)) is not None:
        allowed = f"with links in both directions (link {link!r} has none back), or column_stochastic_weights"
        raise BadInput(f"graph: must be a graph {allowed}")
    return matrix


def adjacency(graph: "nx.Graph[Any]") -> NDArray[np.float64]:
    """Return the adjacency matrix of 0 and 1, shape (n, n), in the order of the nodes; edge weights are ignored.

    For a directed graph, element (i, j) is 1 if there is a link from the i-th node to the j-th.
    """
    check_graph(graph)
    matrix: NDArray[np.float64] = nx.to_scipy_sparse_array(graph, weight=None).toarray().astype(np.float64)
    return matrix


def _with_own_weights(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    np.fill_diagonal(weights, 1 - weights.sum(axis=1))
    return weights
