"""Files of graphs and tables as other programs write them, intact or cut short, mixed or renamed.

A reader must return the file's graph or table, or refuse the file with a `BadInput` of one line. To repeat a seed, call
``check_one(np.random.default_rng(seed))``.
"""

import bz2
import gzip
import io
import json
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
import scipy.io
import scipy.sparse as sparse

from netsim import Deployment, topology
from netsim.errors import BadInput
from netsim.links import from_table
from netsim.scenarios.data.choice import Columns, TableChoice, choose
from netsim.scenarios.data.tables import load_table

Rng = np.random.Generator
Graph: TypeAlias = "nx.Graph[Any]"

NAMES = ("a", "b", "c", "sink", "gw-1", "Zürich", "n.1", "x_y")


def a_graph(rng: Rng, words: bool) -> Graph:
    """Return a connected graph, weighted in half of all cases, whose nodes are words or 0, 1, …."""
    count = int(rng.integers(3, len(NAMES) + 1))
    tree = [(i, int(rng.integers(i))) for i in range(1, count)]
    more = [tuple(rng.choice(count, 2, replace=False).tolist()) for _ in range(rng.integers(4))]
    graph: Graph = nx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from([*tree, *more])
    if rng.random() < 0.5:
        for _, _, data in graph.edges(data=True):
            data["weight"] = float(rng.integers(1, 9)) / 4
    return nx.relabel_nodes(graph, dict(enumerate(rng.permutation(NAMES).tolist()))) if words else graph


def _written(write: Callable[[Graph, Any], None]) -> Callable[[Graph], bytes]:
    def content(graph: Graph) -> bytes:
        file = io.BytesIO()
        write(graph, file)
        return file.getvalue()

    return content


def _lines(graph: Graph, mark: str, header: str = "") -> bytes:
    rows = [mark.join([a, b, *(str(v) for v in data.values())]) for a, b, data in graph.edges(data=True)]
    return (header + "\n".join(rows) + "\n").encode()


def _matrix(graph: Graph) -> Any:
    return nx.to_numpy_array(graph)


def _npz(graph: Graph) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, matrix=_matrix(graph))
    return file.getvalue()


def _frame(graph: Graph) -> bytes:
    text: str = nx.to_pandas_adjacency(graph).to_csv()
    return text.encode()


def _edges(graph: Graph) -> bytes:
    text: str = nx.to_pandas_edgelist(graph).to_csv(index=False)
    return text.encode()


# By format: extension, whether node names are kept, whether weights are kept, and the writer.
FORMATS: dict[str, tuple[bool, bool, Callable[[Graph], bytes]]] = {
    "graphml": (True, True, _written(nx.write_graphml)),
    "gexf": (True, True, _written(nx.write_gexf)),
    "gml": (True, True, _written(nx.write_gml)),
    "edges in json": (True, True, lambda g: json.dumps(nx.node_link_data(g, edges="edges")).encode()),
    "links in json": (True, True, lambda g: json.dumps(nx.node_link_data(g, edges="links")).encode()),
    "adjacency in json": (True, True, lambda g: json.dumps(nx.adjacency_data(g)).encode()),
    "cytoscape": (True, True, lambda g: json.dumps(nx.cytoscape_data(g)).encode()),
    "edgelist": (True, True, _written(nx.write_edgelist)),
    "edgelist with commas": (True, True, _written(lambda g, f: nx.write_edgelist(g, f, delimiter=","))),
    "edgelist without data": (True, False, _written(lambda g, f: nx.write_edgelist(g, f, data=False))),
    "weighted edgelist": (True, True, _written(nx.write_weighted_edgelist)),
    "adjlist": (True, False, _written(nx.write_adjlist)),
    "multiline adjlist": (True, True, _written(nx.write_multiline_adjlist)),
    "pajek": (True, False, _written(nx.write_pajek)),
    "graph6": (False, False, _written(nx.write_graph6)),
    "sparse6": (False, False, _written(nx.write_sparse6)),
    "a frame of edges": (True, True, _edges),
    "a frame of a matrix": (True, True, _frame),
    "commas": (True, True, lambda g: _lines(g, ",")),
    "commas and blanks": (True, True, lambda g: _lines(g, ", ")),
    "semicolons": (True, True, lambda g: _lines(g, ";").replace(b".25", b",25")),
    "tabs": (True, True, lambda g: _lines(g, "\t")),
    "header": (True, False, lambda g: _lines(_bare(g), ",", "source,target\n")),
    "matrix": (False, True, _written(lambda g, f: np.savetxt(f, _matrix(g)))),
    "matrix in csv": (False, True, _written(lambda g, f: np.savetxt(f, _matrix(g), delimiter=",", fmt="%g"))),
    "npy": (False, True, _written(lambda g, f: np.save(f, _matrix(g)))),
    "npz": (False, True, _npz),
    "sparse npz": (False, True, _written(lambda g, f: sparse.save_npz(f, nx.to_scipy_sparse_array(g)))),
    "matrix market": (False, True, _written(lambda g, f: scipy.io.mmwrite(f, nx.to_scipy_sparse_array(g)))),
}


def _bare(graph: Graph) -> Graph:
    """Return the graph without weights."""
    bare: Graph = nx.Graph(list(graph.edges))
    return bare


PACKED: tuple[Callable[[bytes], bytes], ...] = (lambda data: data, partial(gzip.compress, mtime=0), bz2.compress)


def weights_of(graph: Graph) -> dict[frozenset[str], float]:
    """Return the weight of each edge, keyed by the set of its end nodes' texts."""
    return {frozenset((str(a), str(b))): float(data.get("weight", 1.0)) for a, b, data in graph.edges(data=True)}


def read(data: bytes, name: str) -> "nx.Graph[Any] | str":
    """Return the graph read from a file of this content and name, or the message of the refusal."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        path = Path(folder, name)
        path.write_bytes(data)
        try:
            graph = topology.read(path)
        except BadInput as error:
            line = str(error)
            assert "\n" not in line, line
            assert name in line, line
            return line
    assert nx.is_connected(graph)
    assert not graph.is_directed()
    assert not graph.is_multigraph()
    assert not list(nx.selfloop_edges(graph))
    return graph


def mutated(rng: Rng, data: bytes) -> bytes:
    """Return the content after random damage: cut short, a bit flipped, two files joined, …"""
    at = int(rng.integers(len(data) + 1))
    end = int(rng.integers(at, len(data) + 1))
    noise = rng.integers(0, 256, rng.integers(1, 9), dtype=np.uint8).tobytes()
    other = FORMATS[str(rng.choice(list(FORMATS)))]
    ways: list[Callable[[], bytes]] = [
        lambda: data[:at],
        lambda: data[at:],
        lambda: data[:at] + data[end:],
        lambda: data[:at] + data[at:end] * int(rng.integers(2, 5)) + data[end:],
        lambda: data[:at] + noise + data[end:],
        lambda: bytes(each ^ (1 << int(rng.integers(8))) if i == at else each for i, each in enumerate(data)),
        lambda: data + other[2](a_graph(rng, other[0])),
        lambda: data.replace(b"\n", b"\r\n"),
        lambda: b"\xef\xbb\xbf" + data,
        lambda: data.decode("latin-1").encode("utf-16"),
        lambda: data.replace(b"1", b"9" * int(rng.integers(1, 400))),
        lambda: data.replace(b" ", b","),
        lambda: data.replace(b",", b" "),
        lambda: data[:at] + bytes(rng.choice(list(b'{}[]<>"\\,;\t\n:#%*-+.eE0'), 3).tolist()) + data[at:],
    ]
    return ways[int(rng.integers(len(ways)))]()


def check_whole(rng: Rng, form: str) -> None:
    """Check that an intact file is read back as its graph, whatever its name."""
    words, weighted, write = FORMATS[form]
    graph = a_graph(rng, words)
    data = PACKED[int(rng.integers(len(PACKED)))](write(graph))
    if rng.random() < 0.3 and words and not data.startswith((b"\x1f\x8b", b"BZh")):
        data = data.replace(b"\n", b"\r\n")
    found = read(data, str(rng.choice(["g", "g.txt", "g.csv", "g.dat"])))
    assert not isinstance(found, str), (form, found)
    assert {str(each) for each in found} == {str(each) for each in graph}, form
    expected = weights_of(graph if weighted else _bare(graph))
    assert (weights_of(found) if weighted else dict.fromkeys(weights_of(_bare(found)), 1.0)) == expected, form


def a_table(rng: Rng) -> bytes:
    """Return a csv file of numbers and text, with a random delimiter."""
    mark = str(rng.choice([",", ", ", ";", "\t"]))
    rows = [["a", "kind", "b"]]
    rows += [
        [str(rng.integers(99) / 4), str(rng.choice(NAMES)), str(rng.integers(9))] for _ in range(rng.integers(2, 9))
    ]
    return "\n".join([*(["# of ours"] if rng.random() < 0.3 else []), *map(mark.join, rows), ""]).encode()


def check_table(rng: Rng) -> None:
    """Check that a damaged table is read, or refused in one line that names the file."""
    data = a_table(rng)
    for _ in range(rng.integers(3)):
        data = mutated(rng, data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv" + str(rng.choice(["", ".gz"])))
        path.write_bytes(gzip.compress(data, mtime=0) if rng.random() < 0.5 else data)
        missing = str(rng.choice(["refuse", "drop", "mean"]))
        for read_table in (
            lambda: choose(str(path), TableChoice(missing=missing)).frame,
            lambda: load_table(str(path), Columns(drop="kind", missing=missing)).inputs,
            lambda: Deployment.read(path),
            lambda: from_table(path),
        ):
            try:
                read_table()
            except BadInput as error:
                line = str(error)
                assert "\n" not in line, line
                assert "table.csv" in line or "missing = " in line or "drop = " in line, line


def check_one(rng: Rng) -> None:
    """Check an intact file, a damaged one, and a table."""
    check_table(rng)
    form = str(rng.choice(list(FORMATS)))
    check_whole(rng, form)
    words, _, write = FORMATS[form]
    data = write(a_graph(rng, words))
    for _ in range(rng.integers(1, 4)):
        data = mutated(rng, data)
    name = "g" + str(rng.choice(["", ".txt", ".csv", ".gml", ".graphml", ".json", ".npz", ".net", ".adjlist", ".g6"]))
    read(PACKED[int(rng.integers(len(PACKED)))](data), name)
