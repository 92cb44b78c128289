"""Read graphs from files; the format is recognised by content.

File name endings are ambiguous: ``.txt`` may be a list of edges or a matrix, ``.xml`` GraphML or GEXF. Most formats
have characteristic first bytes or lines; any other file is read as a table of text, and is accepted only if all of its
lines fit a list of edges or a matrix. Pickles are refused, because reading a pickle may run any code.

Sources: graphml.graphdrawing.org; gexf.net; M. Himsolt, "GML: A portable Graph File Format", 1997; Knight et al., "The
Internet Topology Zoo", IEEE JSAC 2011; TopoHub's JSON, topohub.org; networkx's documentation of its readers.
"""

import io
import re
from collections.abc import Callable, Iterable
from typing import Any
from xml.etree import ElementTree

import networkx as nx

from netsim.errors import BadInput, one_line
from netsim.files import rocketfuel, sndlib
from netsim.files.content import FileContent
from netsim.files.edges import of_adjacency, of_table
from netsim.files.matrices import of_matrix_market, of_npy, of_npz
from netsim.files.parsed_graph import FORMS, Graph, ParsedGraph, check_fits, left_out, parallel_edges, unequal_weights

__all__ = ["read_graph"]

# File name endings of formats that are recognised by content. A file with such an ending is refused if the format was
# not recognised.
_RECOGNISED = (".graphml", ".xml", ".gexf", ".gml", ".json", ".npy", ".npz", ".net", ".gw", ".lgr", ".mtx")

_GEXF = re.compile(rb'xmlns="https?://(?:www\.)?gexf\.net/[^"]*"')
_GML = re.compile(r"^[ \t]*graph\s*\[", re.MULTILINE)
_GML_BEFORE = re.compile(r'\s*(#.*|[A-Za-z]\w*[ \t]+("[^"]*"|[-+.\w]+)[ \t]*)?')
_DOT = re.compile(r"(strict\s+)?(di)?graph(\s+(\w+|\"[^\"]*\"))?\s*\{", re.IGNORECASE)
_PAJEK = re.compile(r"(\s*%[^\n]*\n)*\s*\*(vertices|network)\b", re.IGNORECASE)
# networkx begins an adjacency list with three comment lines: the command, the time and the graph's name.
_ADJACENCY = re.compile(r"\A#[^\n]*\n# GMT [^\n]*\n")


def read_graph(source: FileContent) -> ParsedGraph:
    """Return a file's graph, made undirected, without parallel edges and loops; nodes are in the file's order.

    Raises
    ------
    BadInput
        If the file contains no graph; the message names the file, the reason and, if known, the line.
    """
    try:
        found = _graph_of(source)
    except BadInput:
        raise
    except Exception as error:
        # networkx's readers raise exceptions of many types for incomplete files.
        reason = one_line(error) or type(error).__name__
        raise source.refuse(f"{FORMS} ({reason[:200]})") from None
    if len(found.graph) and any(node is None or node != node for node in found.graph):
        raise BadInput(f"{source.where}: must have nodes with names; one is None or NaN")
    return _simple(found)


# --- which format -----------------------------------------------------------------------------------------------------


def _graph_of(source: FileContent) -> ParsedGraph:
    where, data = source.where, source.data
    if data[:6] == b"\x93NUMPY":
        return of_npy(where, data)
    if data[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return of_npz(where, data)
    if data[:1] == b"\x80" and data[1:2] in b"\x02\x03\x04\x05":
        raise BadInput(f"{where}: must not be a pickle: to read one may run any code; write GraphML or JSON")
    if source.is_xml:
        # An XML file declares its encoding, so the reader needs bytes, not text.
        return _of_xml(source)
    text = source.text
    body = text.lstrip()
    if not body:
        raise source.refuse(f"{FORMS}; it is empty")
    if body.startswith(("{", "[")):
        return _of_json(source)
    for known, read in _BY_START:
        if body.startswith(known):
            return read(where, text)
    if body.startswith(">>digraph6<<"):
        raise source.refuse(f"{FORMS}; it is digraph6")
    if source.suffix in (".g6", ".graph6", ".s6", ".sparse6"):
        return _of_graph6(where, text)
    if _DOT.match(body):
        raise source.refuse(f"{FORMS}; it is in Graphviz's language, which networkx converts with pydot")
    if _PAJEK.match(body):
        return _of_pajek(where, text)
    if sndlib.is_native(text):
        return sndlib.of_native(source)
    if rocketfuel.is_map(source):
        return rocketfuel.of_map(source)
    if rocketfuel.is_weights(source):
        return rocketfuel.of_weights(source)
    gml = _GML.search(text)
    if gml and all(_GML_BEFORE.fullmatch(line) for line in text[: gml.start()].split("\n")):
        return _of_gml(where, text, gml.end())
    if source.suffix in _RECOGNISED:
        raise source.refuse(f"{FORMS}; its name ends in {source.suffix}, but it does not begin as such a file")
    if _ADJACENCY.match(text) or source.suffix in (".adjlist", ".multiline_adjlist"):
        return of_adjacency(where, text)
    return of_table(where, text)


# --- formats recognised by their first bytes --------------------------------------------------------------------------


def _of_xml(source: FileContent) -> ParsedGraph:
    if source.xml_root == "network":
        return sndlib.of_xml(source)
    readers: dict[str, tuple[str, Callable[..., Any]]] = {
        "graphml": ("GraphML", nx.read_graphml),
        "gexf": ("GEXF", nx.read_gexf),
    }
    if source.xml_root not in readers:
        raise source.refuse(f"{FORMS}; it is XML that begins with <{source.xml_root[:40]}>")
    form, read = readers[source.xml_root]
    try:
        # networkx accepts only the namespace of one version of GEXF, although the elements that it reads are the same
        # in all versions.
        data = _GEXF.sub(b'xmlns="http://www.gexf.net/1.2draft"', source.data.lstrip(), count=1)
        return ParsedGraph(form, read(io.BytesIO(data)))
    except ElementTree.ParseError as error:
        raise source.refuse(f"{form} ({one_line(error)})", error.position[0]) from None


def _of_json(source: FileContent) -> ParsedGraph:
    content = source.json()
    if not isinstance(content, dict):
        raise source.refuse("node-link JSON, an object with nodes and edges; it is a list")
    if isinstance(content.get("adjacency"), list):
        return ParsedGraph("JSON", nx.adjacency_graph(content))
    if isinstance(content.get("elements"), dict):
        return ParsedGraph("JSON", nx.cytoscape_graph(content))
    name = next((each for each in ("edges", "links") if isinstance(content.get(each), list)), None)
    if name is None or not isinstance(content.get("nodes"), list):
        keys = ", ".join(map(str, list(content)[:6])) or "nothing"
        raise source.refuse(f"node-link JSON, with nodes and edges or links; it has {keys[:80]}")
    # If nodes have no ids, networkx reads the ends of a link as indices of the list of nodes, as in D3's older layouts.
    graph = nx.node_link_graph(content, edges=name)
    if len(graph) < len(content["nodes"]):
        nodes = len(content["nodes"])
        raise BadInput(f"{source.where}: must have distinct node ids; {len(graph)} of {nodes} are distinct")
    if len(graph) > len(content["nodes"]):
        raise BadInput(
            f"{source.where}: must have edges between its nodes; node {repr(list(graph)[-1])[:80]} is not listed"
        )
    if any("ecmp_fwd" in data for _, _, data in graph.edges(data=True)):
        return ParsedGraph("TopoHub's JSON", _of_topohub(graph))
    return ParsedGraph("JSON", graph)


def _of_topohub(graph: Graph) -> Graph:
    """Convert the positions in TopoHub's graph, which are in degrees, to attributes ``Longitude`` and ``Latitude``."""
    for _, data in graph.nodes(data=True):
        if isinstance(data.get("pos"), list) and len(data["pos"]) == 2:
            data["Longitude"], data["Latitude"] = data.pop("pos")
    return graph


def _of_gml(where: str, text: str, start: int) -> ParsedGraph:
    """Read GML; nodes are named by their labels or, if labels repeat or are missing, by their ids.

    Parallel edges are accepted even if the file does not declare a multigraph.
    """
    said = re.compile(r"^[ \t]*multigraph[ \t]+[01][ \t]*$", re.MULTILINE)
    text = f"{text[:start]} multigraph 1 {said.sub('', text[start:])}"
    parse: Any = nx.parse_gml
    graph = parse(text, label=None)
    labels = {node: data.get("label") for node, data in graph.nodes(data=True)}
    try:
        different = len(set(labels.values())) == len(labels) and None not in labels.values()
    except TypeError:
        different = False
    if different:
        for _, data in graph.nodes(data=True):
            del data["label"]
        return ParsedGraph("GML", nx.relabel_nodes(graph, labels))
    return ParsedGraph("GML", graph, ["labels repeat or are missing: nodes are named by their ids"])


def _of_pajek(where: str, text: str) -> ParsedGraph:
    lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("%")]
    graph: Any = nx.parse_pajek(iter(lines))
    declared = next(int(line.split()[1]) for line in lines if line.lower().startswith("*vertices"))
    if len(graph) != declared:
        raise BadInput(f"{where}: must have {declared} vertices with labels that differ; there are {len(graph)}")
    if all((data.get("x"), data.get("y")) == (0.0, 0.0) for _, data in graph.nodes(data=True)):
        # networkx writes the position (0, 0) for nodes without a position. So if all nodes are at (0, 0), remove the
        # positions.
        for _, data in graph.nodes(data=True):
            del data["x"], data["y"]
    return ParsedGraph("Pajek", graph)


def _of_graph6(where: str, text: str) -> ParsedGraph:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) != 1:
        raise BadInput(f"{where}: must hold one graph; it holds {len(lines)}")
    line = lines[0]
    sparse = line.startswith((">>sparse6<<", ":"))
    body = line.removeprefix(">>sparse6<<").removeprefix(">>graph6<<").removeprefix(":").encode("ascii")
    values = [each - 63 for each in body]
    if not values or min(values) < 0 or max(values) > 63:
        raise BadInput(f"{where}: must be graph6 or sparse6: characters from ? to ~")
    count, _ = nx.readwrite.graph6.data_to_n(values)  # type: ignore[no-untyped-call]
    check_fits(where, count)
    read: Any = nx.from_sparse6_bytes if sparse else nx.from_graph6_bytes
    return ParsedGraph("sparse6" if sparse else "graph6", read(line.encode("ascii")))


_BY_START: tuple[tuple[str, Callable[[str, str], ParsedGraph]], ...] = (
    ("%%MatrixMarket", of_matrix_market), (">>graph6<<", _of_graph6), (">>sparse6<<", _of_graph6),
    ("LEDA.GRAPH", lambda where, text: ParsedGraph("LEDA", nx.parse_leda(text))),
)  # fmt: skip

# --- simple graphs ----------------------------------------------------------------------------------------------------


def _simple(found: ParsedGraph) -> ParsedGraph:
    """Make the graph undirected, remove parallel edges and loops, and add notes on the removed edges."""
    graph = found.graph
    if graph.is_multigraph():
        ends: Iterable[Any] = graph.edges()
        found.notes += parallel_edges((a, b) if graph.is_directed() else frozenset((a, b)) for a, b in ends)
    elif graph.is_directed():
        edges: Any = graph.edges(data="weight")
        found.notes += unequal_weights([(a, b, weight) for a, b, weight in edges if a != b])
    simple: Graph = nx.Graph(graph)
    loops = list(nx.selfloop_edges(simple))
    simple.remove_edges_from(loops)
    found.notes += left_out(len(loops), "edge", " from a node to itself")
    found.graph = simple
    return found
