"""Graphs, and the weights of their edges."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import BadInput, Network, topology
from netsim.testing import Rounder
from tests.parts import every

Graph = Any


def edges_of(graph: Graph) -> list[tuple[Any, Any]]:
    return sorted(tuple(sorted(edge)) for edge in graph.edges)


@every(
    ("graph", "nodes", "edges"),
    [
        (topology.ring(3), 3, 3),
        (topology.ring(10), 10, 10),
        (topology.path(1), 1, 0),
        (topology.path(5), 5, 4),
        (topology.complete(1), 1, 0),
        (topology.complete(6), 6, 15),
        (topology.star(1), 1, 0),
        (topology.star(7), 7, 6),
        (topology.grid(1, 1), 1, 0),
        (topology.grid(3, 4), 12, 17),
        (topology.erdos_renyi(1, p=0.0), 1, 0),
        (topology.erdos_renyi(1, edges=0), 1, 0),
        (topology.erdos_renyi(20, edges=45, seed=4), 20, 45),
        (topology.erdos_renyi(12, edges=11, seed=4), 12, 11),
        (topology.erdos_renyi(9, p=1.0), 9, 36),
        (topology.random_geometric(1, radius=0.1), 1, 0),
        (topology.random_geometric(8, radius=2.0), 8, 28),
    ],
)
def test_builders(graph: Graph, nodes: int, edges: int) -> None:
    assert sorted(graph) == list(range(nodes))
    assert graph.number_of_edges() == edges
    topology.check_connected(graph)


def test_shapes() -> None:
    assert [degree for _, degree in topology.ring(5).degree] == [2] * 5
    assert edges_of(topology.path(4)) == [(0, 1), (1, 2), (2, 3)]
    assert edges_of(topology.star(4)) == [(0, 1), (0, 2), (0, 3)]
    grid = topology.grid(2, 3)
    assert edges_of(grid) == [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5)]
    assert nx.get_node_attributes(grid, "pos") == {0: (0, 0), 1: (1, 0), 2: (2, 0), 3: (0, 1), 4: (1, 1), 5: (2, 1)}


def test_neighbours_in_a_plane_are_those_within_the_radius() -> None:
    graph = topology.random_geometric(25, radius=0.35, seed=3)
    at = np.array([graph.nodes[i]["pos"] for i in range(25)])
    assert ((at >= 0) & (at <= 1)).all()
    distance = np.linalg.norm(at[:, None] - at[None], axis=2)
    assert edges_of(graph) == [(i, j) for i in range(25) for j in range(i + 1, 25) if distance[i, j] <= 0.35]


@pytest.mark.parametrize(
    "build",
    [
        lambda seed: topology.erdos_renyi(15, p=0.25, seed=seed),
        lambda seed: topology.erdos_renyi(15, edges=25, seed=seed),
        lambda seed: topology.random_geometric(15, radius=0.4, seed=seed),
    ],
)
def test_random_graphs_come_from_the_seed_alone(build: Callable[[int], Graph]) -> None:
    np.random.seed(1)  # noqa: NPY002  global state that must not matter
    first = build(3)
    np.random.seed(2)  # noqa: NPY002
    again = build(3)
    assert edges_of(first) == edges_of(again)
    # The order of edges must also be equal, because it determines the order of neighbours.
    assert list(first.edges) == list(again.edges)
    assert len({tuple(edges_of(build(seed))) for seed in range(6)}) == 6
    assert all(nx.is_connected(build(seed)) for seed in range(20))


def test_numpys_numbers_are_taken_as_they_are_meant() -> None:
    count = np.uint8(200)
    assert topology.erdos_renyi(count, edges=np.uint16(500), seed=np.uint8(1)).number_of_edges() == 500
    assert edges_of(topology.erdos_renyi(count, p=np.float32(0.5))) == edges_of(topology.erdos_renyi(200, p=0.5))
    assert len(topology.grid(np.uint8(20), np.uint8(20))) == 400
    graphs = [topology.random_geometric(np.uint8(20), np.float64(0.5)), topology.grid(np.uint8(2), np.uint8(3))]
    graphs += [topology.ring(count), topology.path(count), topology.star(count), topology.complete(np.uint8(9))]
    graphs.append(topology.erdos_renyi(count, edges=500))
    assert {type(node) for graph in graphs for node in graph} == {int}


def test_the_share_of_pairs_is_p() -> None:
    graphs = [topology.erdos_renyi(40, p=0.3, seed=seed) for seed in range(10)]
    assert np.mean([nx.density(graph) for graph in graphs]) == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: topology.ring(2), "agents = 2: must be a whole number >= 3"),
        (lambda: topology.path(0), "agents = 0: must be a whole number >= 1"),
        (lambda: topology.complete(2.0), "agents = 2.0: must be a whole number >= 1"),
        (lambda: topology.star(-1), "agents = -1: must be a whole number >= 1"),
        (lambda: topology.grid(0, 3), "rows = 0: must be a whole number >= 1"),
        (lambda: topology.grid(3, 0), "columns = 0: must be a whole number >= 1"),
        (lambda: topology.erdos_renyi(5), "p = None, edges = None: must be one of the two"),
        (lambda: topology.erdos_renyi(5, p=0.5, edges=5), "p = 0.5, edges = 5: must be one of the two"),
        (lambda: topology.erdos_renyi(5, p=1.5), "p = 1.5: must be a probability in [0, 1]"),
        (lambda: topology.erdos_renyi(5, edges=3), "edges = 3: must be a whole number from 4 to 10"),
        (lambda: topology.erdos_renyi(5, edges=11), "edges = 11: must be a whole number from 4 to 10"),
        (lambda: topology.erdos_renyi(5, p=0.5, seed=-1), "seed = -1: must be a whole number >= 0"),
        (lambda: topology.erdos_renyi(5, p=0.0), "p = 0.0: must make a connected graph likely; none of"),
        (lambda: topology.random_geometric(9, radius=0.0), "radius = 0.0: must be a number > 0"),
        (lambda: topology.random_geometric(9, radius=1e-4), "radius = 0.0001: must make a connected graph likely"),
    ],
)
def test_what_cannot_be(make: Callable[[], Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "_MAX_DRAWS", 100)
    with pytest.raises(BadInput) as caught:
        make()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


# --- from files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".txt", ".edges", "", ".graphml", ".GraphML", ".gml"])
def test_a_graph_from_a_file(tmp_path: Path, ending: str) -> None:
    graph = nx.relabel_nodes(topology.grid(2, 3), str)
    for _, data in graph.nodes(data=True):
        del data["pos"]
    file = tmp_path / f"graph{ending}"
    write = {".graphml": nx.write_graphml, ".gml": nx.write_gml}.get(ending.lower(), nx.write_edgelist)
    write(graph, file)
    assert edges_of(topology.read(file)) == edges_of(graph)
    assert edges_of(topology.read(str(file))) == edges_of(graph)


def test_a_list_of_edges_may_have_comments_and_more_columns(tmp_path: Path) -> None:
    file = tmp_path / "edges"
    file.write_text("# sensors\na b 3.5 7\n\nb c 1.0\na b\n")
    with pytest.warns(RuntimeWarning, match=r"edges', a list of edges: left out 1 parallel edge$"):
        assert edges_of(topology.read(file)) == [("a", "b"), ("b", "c")]


def test_a_directed_graph_in_a_file_is_taken_as_undirected(tmp_path: Path) -> None:
    nx.write_graphml(nx.DiGraph([("a", "b"), ("b", "a"), ("b", "c")]), tmp_path / "g.graphml")
    assert edges_of(topology.read(tmp_path / "g.graphml")) == [("a", "b"), ("b", "c")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("edges", "a b\nb\n", ", line 2: must be two names, the ends of an edge; there is 'b' only"),
        ("edges", "", ": must be GraphML, GEXF, GML, node-link JSON, SNDlib, Rocketfuel, Pajek"),
        ("edges", b"\xff\xfe\x00\x81", ": must be text in UTF-8; it is in UTF-16"),
        ("edges", b"a b\nb \xe9\n", ", line 2: must be text in UTF-8"),
        ("g.graphml", "a b\n", "its name ends in .graphml, but it does not begin as such a file"),
        ("g.graphml", "<graphml>\n<graph", ", line 2: must be XML (unclosed token"),
        ("g.xml", "<html><body/></html>", "it is XML that begins with <html>"),
        ("g.gml", "a b\n", "its name ends in .gml, but it does not begin as such a file"),
        ("g.gml", "", "it is empty"),
        ("g.json", "", "it is empty"),
        ("g.json", "[" * 100_000, "must be JSON (maximum recursion depth"),
        ("g.json", "[1, 2]", "must be node-link JSON, an object with nodes and edges; it is a list"),
        ("g.json", '{"edges": []}', "must be node-link JSON, with nodes and edges or links; it has edges"),
        ("g.json", '{"nodes": [{"id": null}], "edges": []}', "(None cannot be a node)"),
        ("g.json", '{"nodes": [{"id": {}}], "links": []}', "(unhashable type"),
        (
            "g.json",
            '{"nodes": [{"id": 1}, {"id": 1}], "links": []}',
            "must have distinct node ids; 1 of 2 are distinct",
        ),
        ("g.json", '{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 2}]}', "node 2 is not listed"),
        ("g.json", '{"nodes": [{"id": 1}, {"id": 2}], "links": []}', "must have an edge; it has 2 nodes without any"),
        ("g.json", b"\xff\xfe\x00\x81", "must be text in UTF-8; it is in UTF-16"),
        ("g.json", '{"nodes": [],\n "edges": [', ", line 2: must be JSON"),
    ],
)
def test_a_file_that_is_no_network(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(BadInput) as caught:
        topology.read(file)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^topology = '.*missing\.gml': must be an existing file$"):
        topology.read(tmp_path / "missing.gml")


# --- weights ----------------------------------------------------------------------------------------------------------


@every("weights", [topology.metropolis_weights, topology.max_degree_weights])
@every(
    "graph",
    [
        topology.path(2),
        topology.star(9),
        topology.ring(6),
        topology.complete(5),
        topology.erdos_renyi(20, p=0.2, seed=1),
    ],
)
def test_weights_mix_to_the_mean(weights: Callable[[Graph], np.ndarray[Any, Any]], graph: Graph) -> None:
    matrix = weights(graph)
    n = len(graph)
    assert matrix.shape == (n, n)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(matrix.sum(axis=0), 1.0, rtol=1e-15)
    assert (matrix >= 0).all()
    linked = nx.to_numpy_array(graph, weight=None) > 0
    assert ((matrix > 0) == linked)[~np.eye(n, dtype=bool)].all()
    largest = np.sort(np.abs(np.linalg.eigvalsh(matrix)))[::-1]
    assert largest[0] == pytest.approx(1.0)
    assert largest[1] < 1 - 1e-3


@pytest.mark.parametrize("weights", [topology.metropolis_weights, topology.max_degree_weights])
def test_weights_of_one_agent(weights: Callable[[Graph], np.ndarray[Any, Any]]) -> None:
    assert weights(topology.path(1)).tolist() == [[1.0]]


def test_weights_of_a_star() -> None:
    third, half = 1 / 3, 1 / 2
    graph = topology.star(3)
    graph.add_edge(0, 1, weight=100.0)  # The weights in the graph are ignored.
    np.testing.assert_allclose(
        topology.metropolis_weights(graph), [[third, third, third], [third, 2 * third, 0], [third, 0, 2 * third]]
    )
    np.testing.assert_allclose(topology.max_degree_weights(topology.path(2)), [[half, half], [half, half]])


def test_weights_are_in_the_order_of_the_nodes() -> None:
    graph = nx.Graph([("hub", "a"), ("hub", "b"), ("hub", "c")])
    assert topology.metropolis_weights(graph)[0].tolist() == [0.25] * 4
    assert topology.max_degree_weights(nx.path_graph(["a", "hub", "b"]))[1].tolist() == pytest.approx([1 / 3] * 3)


def test_a_file_may_give_positions(tmp_path: Path) -> None:
    graph = nx.path_graph(3)
    for node in (0, 1):
        graph.nodes[node].update(x=1.5 * node, y=2)
    nx.write_graphml(graph, tmp_path / "g.graphml")
    assert dict(topology.read(tmp_path / "g.graphml").nodes(data="pos")) == {
        "0": (0.0, 2),
        "1": (1.5, 2),
        "2": None,
    }


@pytest.mark.parametrize(
    ("given", "pos"),
    [
        ({"pos": [1, 2.5], "x": 9, "y": 9}, (1, 2.5)),
        ({"pos": [1, 2, 3]}, (1, 2, 3)),
        ({"pos": "here", "x": 3, "y": 4}, (3, 4)),
        ({"x": 3, "y": 4, "Longitude": -0.1, "Latitude": 51.5}, (3, 4)),
        ({"x": math.nan, "y": 1, "Longitude": 2, "Latitude": math.inf}, None),
        ({"x": True, "y": True}, None),
        ({"Longitude": 7.4}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("edges", ["edges", "links"])
def test_places_in_a_json_file(given: dict[str, Any], pos: Any, edges: str, tmp_path: Path) -> None:
    content = {"nodes": [{"id": [1, "a"], **given}, {"id": 2}], edges: [{"source": [1, "a"], "target": 2}]}
    (tmp_path / "g.json").write_text(json.dumps(content))
    graph = topology.read(tmp_path / "g.json")
    assert list(graph.edges) == [((1, "a"), 2)]
    assert graph.nodes[1, "a"].get("pos", None if pos is None else "missing") == (
        given.get("pos") if pos is None else pos
    )


@pytest.mark.parametrize("ending", ["graphml", "gml"])
def test_places_of_the_topology_zoo(ending: str, tmp_path: Path) -> None:
    graph = nx.MultiGraph([("0", "1"), ("0", "1"), ("1", "2")])
    for node, (longitude, latitude) in {
        "0": (-0.12574, 51.50853),
        "1": (2.3488, 48.85341),
        "2": (13.41, 52.52),
    }.items():
        graph.nodes[node].update(Longitude=longitude, Latitude=latitude, Country="x")
    {"graphml": nx.write_graphml, "gml": nx.write_gml}[ending](graph, tmp_path / f"zoo.{ending}")
    told = r"left out 1 parallel edge; longitude and latitude projected to metres around \(6.6421, 50.6867\)$"
    with pytest.warns(RuntimeWarning, match=told):
        read = topology.read(tmp_path / f"zoo.{ending}")
    # On a sphere, London and Paris are 344 km apart, and Paris and Berlin 878 km.
    places = {name: read.nodes[name]["pos"] for name in read}
    assert math.dist(places["0"], places["1"]) == pytest.approx(343.6e3, rel=2e-3)
    assert math.dist(places["1"], places["2"]) == pytest.approx(877.5e3, rel=2e-3)
    assert (read.nodes["1"]["Longitude"], read.nodes["1"]["Latitude"]) == (2.3488, 48.85341)
    assert edges_of(read) == [("0", "1"), ("1", "2")]
    run = Network(read).run({name: Rounder(1) for name in read}, trace=True)
    assert run.trace.scene
    assert run.trace.scene.positions == tuple(places.values())


# --- places -----------------------------------------------------------------------------------------------------------


def in_order(graph: "nx.Graph[int]") -> tuple[object, object, object]:
    return list(graph.nodes(data=True)), [(a, list(others)) for a, others in graph.adjacency()], graph.graph


@every("seed", range(4))
@every(("agents", "radius"), [(1, 0.5), (20, 0.4), (150, 0.15), (600, 0.09), (30, 2.0)])
def test_a_random_geometric_graph_is_that_of_networkx(agents: int, radius: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    expected = nx.random_geometric_graph(agents, radius, seed=rng)
    while not nx.is_connected(expected):
        expected = nx.random_geometric_graph(agents, radius, seed=rng)
    assert in_order(topology.random_geometric(agents, radius, seed=seed)) == in_order(expected)


@pytest.mark.parametrize("reach", [0.1, 0.2, 0.1 * math.sqrt(2), 0.3])
def test_places_exactly_at_the_radius_are_linked_as_networkx_does(reach: float) -> None:
    places = np.array([(0.1 * x, 0.1 * y) for x in range(8) for y in range(8)])
    expected = nx.random_geometric_graph(64, reach, pos=dict(enumerate(places.tolist())))
    assert in_order(topology._geometric(places, reach)) == in_order(expected)


# --- directed graphs --------------------------------------------------------------------------------------------------


def test_directed_rings_reach_all() -> None:
    ring = topology.directed_ring(6)
    assert list(ring.edges) == [(i, (i + 1) % 6) for i in range(6)]
    exponential = topology.directed_ring(8, hops=(1, 2, 4))
    assert {tuple(sorted(exponential[i])) for i in [0]} == {(1, 2, 4)}
    assert exponential.number_of_edges() == 24
    topology.check_connected(exponential)


def test_random_directed_graphs_come_from_the_seed_alone_and_are_strongly_connected() -> None:
    for seed in range(10):
        graph = topology.directed_random(9, 0.25, seed=seed)
        assert list(graph.edges) == list(topology.directed_random(9, 0.25, seed=seed).edges)
        assert nx.is_strongly_connected(graph)
    sizes = [topology.directed_random(30, 0.3, seed=seed).number_of_edges() for seed in range(10)]
    assert np.mean(sizes) / (30 * 29) == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("agents", [2, 4, 8, 16])
def test_push_sum_averages_exactly_over_the_one_peer_graphs_of_a_power_of_two(agents: int) -> None:
    graphs = topology.one_peer_exponential(agents)
    assert len(graphs) == math.log2(agents)
    product = np.eye(agents)
    for graph in graphs:
        product = topology.column_stochastic_weights(graph) @ product
    np.testing.assert_allclose(product, np.full((agents, agents), 1 / agents), atol=1e-15)


def test_column_and_row_stochastic_weights() -> None:
    graph = nx.DiGraph([(0, 1), (0, 2), (1, 2), (2, 0)])
    columns, rows = topology.column_stochastic_weights(graph), topology.row_stochastic_weights(graph)
    # Agent 0 gives a third to itself, to 1 and to 2; agent 2 takes a third from itself, from 0 and from 1.
    np.testing.assert_allclose(columns, [[1 / 3, 0, 1 / 2], [1 / 3, 1 / 2, 0], [1 / 3, 1 / 2, 1 / 2]])
    np.testing.assert_allclose(rows, [[1 / 2, 0, 1 / 2], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]])
    regular = topology.directed_ring(7, hops=(1, 3))
    np.testing.assert_allclose(topology.column_stochastic_weights(regular), topology.row_stochastic_weights(regular))
    for make in (topology.metropolis_weights, topology.max_degree_weights):
        with pytest.raises(BadInput, match=r"graph: must be a graph with links in both directions \(link \(0, 1\)"):
            make(graph)


def test_the_union_of_graphs_has_the_links_of_each() -> None:
    graphs = [topology.path(3), nx.DiGraph([(2, 0)]), nx.Graph([(3, 0)])]
    found = topology.union(graphs)
    assert set(found.edges) == {(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 3), (3, 0)}
    with pytest.raises(BadInput, match="must have at least one node"):
        topology.union([])


def test_strong_connection_is_asked_of_directed_graphs() -> None:
    with pytest.raises(BadInput, match=r"node 0 cannot reach node 2"):
        topology.check_connected(nx.DiGraph([(0, 1), (1, 0), (2, 1)]))
    with pytest.raises(BadInput, match=r"node 0 cannot be reached from node 2"):
        topology.check_connected(nx.DiGraph([(0, 1), (1, 0), (1, 2)]))
    topology.check_connected(nx.DiGraph([(0, 1), (1, 2), (2, 0)]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: topology.directed_ring(6, hops=(2, 4)),
            "hops = (2, 4): must be such that each of the 6 agents",
        ),
        (lambda: topology.directed_ring(6, hops=()), "hops = (): must be such that each"),
        (lambda: topology.directed_ring(6, hops=(6,)), "hops = 6: must be a whole number from 1 to 5"),
        (lambda: topology.directed_ring(6, hops=(1, 1)), "hops = (1, 1): must be numbers that differ"),
        (lambda: topology.directed_random(20, 0.01), "p = 0.01: must make a connected graph likely"),
        (lambda: topology.one_peer_exponential(1), "agents = 1: must be a whole number >= 2"),
    ],
)
def test_wrong_directed_graphs_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(BadInput) as error:
        make()
    assert message in str(error.value)
