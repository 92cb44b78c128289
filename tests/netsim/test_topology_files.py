"""Graph files are recognized by their content, whatever their names, or refused with a line and a reason."""

import gzip
import json
import os
import pickle
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim import Network, topology
from netsim.errors import BadInput
from tests.fuzzers import files
from tests.parts import slow

# Written for this test in the format of the Internet Topology Zoo, with a defect that occurs in its files.
REPEATED = """Creator "somebody"
graph [
  Network "Ours"
  node [ id 0 label "Oslo" Longitude 10.75 Latitude 59.91 ]
  node [ id 1 label "None" hyperedge 1 ]
  node [ id 2 label "None" hyperedge 1 ]
  node [ id 3 label "Bergen" Longitude 5.32 Latitude 60.39 ]
  edge [ source 0 target 1 LinkLabel "10G" ]
  edge [ source 1 target 2 ]
  edge [ source 2 target 3 ]
]
"""
PARALLEL = """graph [
  directed 0
  node [ id 7 label "Oslo" ]
  node [ id 8 label "Bergen" ]
  edge [ source 7 target 8 LinkSpeed "1" ]
  edge [ source 7 target 8 LinkSpeed "10" ]
  edge [ source 8 target 7 ]
  edge [ source 8 target 8 ]
]
"""
PARTS = """graph [
  node [ id 0 label "Nowhere" ]
  node [ id 1 label "Oslo" ]
  node [ id 2 label "Bergen" ]
  node [ id 3 label "Rome" ]
  node [ id 4 label "Pisa" ]
  node [ id 5 label "Siena" ]
  edge [ source 1 target 2 ]
  edge [ source 3 target 4 ]
  edge [ source 4 target 5 ]
]
"""


def written(tmp_path: Path, name: str, content: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def edges_of(graph: Any) -> list[tuple[Any, Any]]:
    return sorted((min(a, b, key=str), max(a, b, key=str)) for a, b in graph.edges)


def refused(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        topology.read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"topology = {str(path)!r}")
    return message.removeprefix(f"topology = {str(path)!r}")


# --- the Topology Zoo -------------------------------------------------------------------------------------------------


def test_nodes_are_named_by_id_where_labels_repeat(tmp_path: Path) -> None:
    path = written(tmp_path, "repeated.gml", REPEATED)
    with pytest.warns(RuntimeWarning, match=r"GML: labels repeat or are missing: nodes are named by their ids; lon"):
        graph = topology.read(path)
    assert edges_of(graph) == [(0, 1), (1, 2), (2, 3)]
    assert "pos" in graph.nodes[3]
    assert "pos" not in graph.nodes[2]
    assert graph.nodes[2]["label"] == "None"


def test_parallel_edges_of_gml_become_one(tmp_path: Path) -> None:
    path = written(tmp_path, "parallel.gml", PARALLEL)
    with pytest.warns(RuntimeWarning, match=r"left out 2 parallel edges; left out 1 edge from a node to itself$"):
        graph = topology.read(path)
    assert edges_of(graph) == [("Bergen", "Oslo")]


def test_the_largest_part_of_a_graph_is_taken_unless_all_are_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, "parts.gml", PARTS)
    with pytest.warns(
        RuntimeWarning, match=r"took the largest of 3 parts, 3 of 6 nodes \(connected=False takes all\)$"
    ):
        assert list(topology.read(path)) == ["Rome", "Pisa", "Siena"]
    whole = topology.read(path, connected=False)
    assert list(whole) == ["Nowhere", "Oslo", "Bergen", "Rome", "Pisa", "Siena"]
    Network(whole, connected=False)
    with pytest.raises(BadInput, match="connected = 1: must be True or False"):
        topology.read(path, connected=1)  # type: ignore[arg-type]


# --- what is written is read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", files.FORMATS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_a_program_writes_in_a_format_is_read_back(form: str, seed: int) -> None:
    files.check_whole(np.random.default_rng(seed), form)


@pytest.mark.parametrize("first", [0, slow(200), slow(400)])
def test_hostile_files_are_read_or_refused_in_one_line(first: int) -> None:
    for seed in range(first, first + (200 if first else 60)):
        files.check_one(np.random.default_rng(seed))


@pytest.mark.parametrize(
    "content",
    [
        "0, 1\n1, 2\n",
        "0,1\n1,2\n",
        "0;1\n1;2\n",
        "0\t1\n1\t2\n",
        "0   1\n1 2\n",
        " 0 1 \n\n# a comment\n1 2 # and another\n",
        "source,target,weight\n0,1,0.5\n1,2,2\n",
        "weight;From;To;kind\n0,5;0;1;fiber\n2;1;2;radio, too\n",
        "\ufeff# exported\r\n0,1\r\n1,2\r\n",
        '"0","1"\n"1","2"\n',
        "0 1 {}\n1 2 {'weight': 2}\n",
        "# GMT\n0,1,3.5,7\n1,2,1.0,9\n",
    ],
)
def test_a_list_of_edges_in_many_ways(content: str, tmp_path: Path) -> None:
    assert edges_of(topology.read(written(tmp_path, "edges.csv", content))) == [("0", "1"), ("1", "2")]


def test_a_list_of_edges_keeps_weights(tmp_path: Path) -> None:
    path = written(tmp_path, "edges", "source;target;weight\na;b;0,5\nb;c;2\n")
    assert dict(topology.read(path).edges) == {("a", "b"): {"weight": 0.5}, ("b", "c"): {"weight": 2.0}}


@pytest.mark.parametrize(
    ("content", "nodes"),
    [
        ("0 1 0\n1 0 1\n0 1 0\n", [0, 1, 2]),
        ("0,1,0\n1,0,1\n0,1,0\n", [0, 1, 2]),
        (",a,b,c\na,0,1,0\nb,1,0,1\nc,0,1,0\n", ["a", "b", "c"]),
        ("a b c\na 0 1 0\nb 1 0 1\nc 0 1 0\n", ["a", "b", "c"]),
        ("a,b,c\n0,1,0\n1,0,1\n0,1,0\n", ["a", "b", "c"]),
        ("attic,hall,yard\n0,0.5,0\n0.5,0,2\n0,2,0\n", ["attic", "hall", "yard"]),
        ("0,1,2\n0,1,0\n1,0,1\n0,1,0\n", [0, 1, 2]),
        ("0 1 0\n0 0 1\n0 0 0\n", [0, 1, 2]),
        ("0 2.5 0\n2.5 0 1\n0 1 0\n", [0, 1, 2]),
    ],
)
def test_a_matrix_is_a_graph_of_its_rows(content: str, nodes: list[Any], tmp_path: Path) -> None:
    graph = topology.read(written(tmp_path, "matrix.txt", content))
    assert list(graph) == nodes
    assert edges_of(graph) == [(nodes[0], nodes[1]), (nodes[1], nodes[2])]


def test_three_weighted_edges_are_no_matrix(tmp_path: Path) -> None:
    path = written(tmp_path, "edges", "0 1 0.5\n1 2 0.5\n2 0 0.25\n")
    assert edges_of(topology.read(path)) == [("0", "1"), ("0", "2"), ("1", "2")]


def test_weights_that_differ_between_two_directions_are_told(tmp_path: Path) -> None:
    path = written(tmp_path, "matrix.csv", "0,0.5,0.2\n0.1,0,0.3\n0.2,0.4,0\n")
    with pytest.warns(RuntimeWarning, match="left out the first of two weights of 2 edges"):
        graph = topology.read(path)
    assert graph.edges[0, 1]["weight"] == 0.1
    directed = nx.DiGraph()
    directed.add_weighted_edges_from([("a", "b", 1.0), ("b", "a", 2.0), ("b", "c", 3.0), ("c", "b", 3.0)])
    nx.write_graphml_xml(directed, tmp_path / "g.graphml")
    with pytest.warns(RuntimeWarning, match="left out the first of two weights of 1 edge$"):
        topology.read(tmp_path / "g.graphml")


def test_edges_under_names_are_no_matrix(tmp_path: Path) -> None:
    for content in (
        "source,target,weight\n0,1,0\n1,2,0\n0,2,0\n",
        "u,v,weight\n0,1,5\n1,2,6\n2,0,7\n",
        "0,1,2\n0,2,5\n1,2,6\n2,3,7\n",
    ):
        assert "0" in topology.read(written(tmp_path, "edges.csv", content))


# --- what is no graph -------------------------------------------------------------------------------------------------

LOG = """2026-03-01 12:00:01 gw-1 node7 -80
2026-03-01 12:00:02 gw-1 node9 -91
"""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (LOG, ", line 1: must be two names, the ends of an edge; '2026-03-01' is a date or a time"),
        (
            "# log\nMar 1 12:00:01 gw-1 joined\n",
            ", line 2: must be two names and then numbers; '12:00:01' is no number",
        ),
        ("gw-1 joined node7\n", ", line 1: must be two names and then numbers; 'node7' is no number"),
        ("temperature,humidity\n20,61\n21,60\n", ", line 1: must be an edge, or name the columns of its ends source"),
        ("20.5,61\n21.5,60\n", ", line 1: must be two names, the ends of an edge; '20.5' is a measured value"),
        ("1 -80\n2 -91\n", ", line 1: must be two names, the ends of an edge; '-80' is a negative number"),
        ("0,1\n1 2\n", ", line 1: must be a list of edges with one mark between its columns"),
        ("source,target\n0,1\n1\n", ": must be a list of edges"),
        ("source,target\n0,1\n1,2,3\n", ", line 3: must be 2 cells, as the first line has; there are 3"),
        ("source,target\n0,1\n,2\n", ", line 3: must be an edge: two names; one is empty"),
        ("0 1\n\n1\n", ", line 3: must be two names, the ends of an edge; there is '1' only"),
        ("0 1 {'weight': open}\n", ", line 1: must be an edge, with a dict of its attributes at its end"),
        ("0 -1 0\n-1 0 1\n0 1 0\n", ": must be a matrix of finite numbers >= 0; (0, 1) is -1.0"),
        ("source;target;weight\na;b;1,5\nb;c;1.234,5\n", ", line 3: must be an edge whose weight is a finite number"),
        ("source,target,weight\na,b,1\nb,c,nan\n", ", line 3: must be an edge whose weight is a finite number; it is"),
        ("Id,Label\na,Oslo\nb,Bergen\n", ", line 1: must be GraphML, GEXF, GML"),
        ("c roads\np sp 3 2\na 1 2 5\na 2 3 6\n", ", line 2: must be GraphML, GEXF, GML"),
        ("(0, 1)\n(1, 2)\n(2, 0)\n", ", line 1: must be two names, the ends of an edge; '(0' has an unmatched bracket"),
        (
            "%%MatrixMarket matrix array real symmetric\n3 3\n0\n1\n1\n0\n1\n",
            ": must have 6 numbers for 3 rows of a symmetric matrix; it has 5",
        ),
        # scipy's compiled reader ended Python at such texts.
        ("%%MatrixMarket matrix array real general\n2 2\n0\n1\n1\n0-", ", line 6: must be numbers"),
        ("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 5x\n2 3 1\n", ", line 3: must be numbers"),
        ("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n1 2\n", ": must have 2 entries; it has 1"),
        ("%%MatrixMarket matrix array real general\n% empty\n", ": must be a matrix: a line of its sizes, and its"),
        ("0 5\n5 0\n", ": must be more than two lines of two numbers: a matrix or a list of edges"),
        ("0 0 0\n0 0 0\n0 0 0\n", ": must have an edge; it has 3 nodes without any"),
        ("graph { a -- b }\n", "it is in Graphviz's language"),
        ("*Vertices 2\n1 x\n2 x\n*Edges\n1 2\n", ": must have 2 vertices with labels that differ; there are 1"),
        (">>sparse6<<:~~~~~~~~~~", ": nodes = 68719476735: must be smaller"),
        (">>graph6<<Bg\nBg\n", ": must hold one graph; it holds 2"),
        (b"a b\n\0c d\n", ", line 2: must be"),
        (b"a b\n" + b"\xff", ", line 2: must be text in UTF-8"),
        (pickle.dumps(nx.path_graph(2)), ": must not be a pickle: to read one may run any code"),
        (gzip.compress(b"0 1\n1 2\n" * 99, mtime=0)[:-20], ": must be a whole gzip file; it is cut short"),
        ('{"time": 3}\n{"time": 4}\n', ", line 2: must be JSON (Extra data)"),
    ],
)
def test_what_is_no_graph_is_refused_with_its_line(content: str | bytes, says: str, tmp_path: Path) -> None:
    assert says in refused(written(tmp_path, "file", content))


def test_arrays_that_are_no_graph(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.eye(3), y=np.eye(3))
    assert refused(path) == ": must hold one matrix; it holds x, y"
    np.savez(path, np.zeros((2, 3)))
    assert refused(path) == ": must be a square matrix; its shape is (2, 3)"
    np.save(path.with_suffix(".npy"), np.array([[None, 1], [1, None]]))
    assert "allow_pickle=False" in refused(path.with_suffix(".npy"))
    path.write_bytes(path.read_bytes()[:-30])
    assert "must be" in refused(path)


def test_a_matrix_may_end_with_a_blank(tmp_path: Path) -> None:
    for end in ("", " ", "\t", "\r\n", "\n\n"):
        market = f"%%MatrixMarket matrix coordinate pattern symmetric\n% a path\n3 3 2\n2 1\n3 2{end}"
        assert sorted(topology.read(written(tmp_path, "g.mtx", market)).edges) == [(0, 1), (1, 2)]


def test_sizes_that_no_machine_has_are_refused_at_once(tmp_path: Path) -> None:
    assert "must be smaller" in refused(written(tmp_path, "g.s6", ":~~" + "~" * 6 + "A"))
    market = "%%MatrixMarket matrix coordinate real general\n1000000000000 1000000000000 1\n1 2 1.0\n"
    assert "must be smaller" in refused(written(tmp_path, "g.mtx", market))


def test_folders_pipes_and_missing_files(tmp_path: Path) -> None:
    assert refused(tmp_path) == ": must be a regular file; it is a folder"
    assert refused(tmp_path / "none") == ": must be an existing file"
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe") == ": must be a regular file; it is a device or pipe"


def test_the_ends_of_edges_may_be_called_as_a_header_is(tmp_path: Path) -> None:
    path = written(tmp_path, "edges", "a b\nb c\n")
    assert edges_of(topology.read(path)) == [("a", "b"), ("b", "c")]


def test_json_is_json_whatever_it_is_called(tmp_path: Path) -> None:
    content = json.dumps(nx.node_link_data(nx.path_graph(3), edges="edges"))
    assert list(topology.read(written(tmp_path, "g.txt", content))) == [0, 1, 2]
