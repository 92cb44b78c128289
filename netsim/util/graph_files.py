"""Read graphs from files, with the format recognised by content.

File name endings are ambiguous: ``.txt`` may be a list of edges or a matrix, ``.xml`` GraphML or GEXF. Most formats
have characteristic first bytes or lines; any other file is read as a table of text, and accepted as a list of edges or
a matrix only if all of its lines fit. Pickles are refused, since reading one may run any code.
"""

import ast
import bz2
import csv
import gzip
import io
import json
import re
import stat
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree

import networkx as nx
import numpy as np

from netsim.errors import BadInput, one_line
from netsim.util import check
from netsim.util.files import text_of

__all__ = ["GraphFile", "read_graph"]

FORMS = (
    "GraphML, GEXF, GML, node-link JSON, Pajek, LEDA, graph6, sparse6, a list of edges, an adjacency list or a matrix"
)

# Limit of a file's uncompressed size in bytes: a larger file would hold a graph that is too large to emulate.
_MOST_BYTES = 2**30
# Lower bound of the bytes that a node takes in networkx; a measurement gave 500.
_NODE_BYTES = 300

# Column names that programs use for the two ends of an edge.
_END_COLUMNS = (
    ("source", "target"), ("from", "to"), ("src", "dst"), ("src", "dest"), ("sender", "receiver"), ("u", "v"),
    ("node1", "node2"), ("node_1", "node_2"), ("i", "j"), ("start", "end"), ("tail", "head"), ("tx", "rx"), ("a", "b"),
    ("id1", "id2"), ("from_node", "to_node"), ("fromnodeid", "tonodeid"), ("source_id", "target_id"),
)  # fmt: skip

# File name endings of formats that are recognised by their content: a file with such an ending but other content is
# refused.
_RECOGNISED = (".graphml", ".xml", ".gexf", ".gml", ".json", ".npy", ".npz", ".net", ".gw", ".lgr", ".mtx")

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(inf|nan)", re.IGNORECASE)
_WHOLE = re.compile(r"[-+]?\d+")
_TIME = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d{2}(:\d{2}.*)?")
_GML = re.compile(r"^[ \t]*graph\s*\[", re.MULTILINE)
_GML_BEFORE = re.compile(r'\s*(#.*|[A-Za-z]\w*[ \t]+("[^"]*"|[-+.\w]+)[ \t]*)?')
_DOT = re.compile(r"(strict\s+)?(di)?graph(\s+(\w+|\"[^\"]*\"))?\s*\{", re.IGNORECASE)
# networkx begins an adjacency list with three comment lines: the command, the time, the graph's name.
_ADJACENCY = re.compile(r"\A#[^\n]*\n# GMT [^\n]*\n")

Graph: TypeAlias = "nx.Graph[Any]"
Row = tuple[int, list[str]]


@dataclass
class GraphFile:
    """A graph that was read; ``notes`` list the parts of the file that were left out of the graph."""

    form: str
    graph: "nx.Graph[Any]"
    notes: list[str] = field(default_factory=list)


def read_graph(path: Path) -> GraphFile:
    """Read an undirected graph from a file, without parallel edges and loops, and with nodes in the file's order.

    Raises
    ------
    BadInput
        If the file is missing, no regular file, too large, or holds no graph; the message names the file, the reason
        and, if known, the line.
    """
    data = _bytes_of(path)
    where = f"topology = {str(path)!r}"
    try:
        found = _graph_of(where, path, data)
    except BadInput:
        raise
    except Exception as error:
        reason = one_line(error) or type(error).__name__
        raise BadInput(f"{where}: must be {FORMS} ({reason[:200]})") from None
    if len(found.graph) and any(node is None or node != node for node in found.graph):
        raise BadInput(f"{where}: must have nodes with names; one is None or NaN")
    return _simple(found)


def _check_fits(where: str, nodes: int) -> None:
    """Raise BadInput if a graph of ``nodes`` nodes, which even a small file can declare, would not fit in memory."""
    try:
        check.fits("nodes", nodes, nodes * _NODE_BYTES, "a graph of this size")
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None


def _refuse(where: str, allowed: str, line: int | None = None) -> BadInput:
    return BadInput(f"{where}{'' if line is None else f', line {line}'}: must be {allowed}")


# --- bytes ------------------------------------------------------------------------------------------------------------


def _bytes_of(path: Path) -> bytes:
    where = f"topology = {str(path)!r}"
    try:
        kind = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise BadInput(f"{where}: must be an existing file") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{where}: must be a file that can be read ({one_line(error)})") from None
    if not stat.S_ISREG(kind.st_mode):
        # Reading a pipe would block until another process writes to it.
        raise BadInput(
            f"{where}: must be a regular file; it is {'a folder' if stat.S_ISDIR(kind.st_mode) else 'a device or pipe'}"
        )
    if kind.st_size > _MOST_BYTES:
        raise BadInput(f"{where}: must be at most {_MOST_BYTES:,} bytes; it has {kind.st_size:,}")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{where}: must be a file that can be read ({one_line(error)})") from None
    return _uncompressed(where, data)


def _uncompressed(where: str, data: bytes) -> bytes:
    """Decompress gzip or bzip2; return other data unchanged."""
    module: Any
    if data[:2] == b"\x1f\x8b":
        name, module = "gzip", gzip
    elif data[:3] == b"BZh":
        name, module = "bzip2", bz2
    else:
        return data
    try:
        with module.open(io.BytesIO(data)) as file:
            found: bytes = file.read(_MOST_BYTES + 1)
    except EOFError:
        raise BadInput(f"{where}: must be a whole {name} file; it is cut short") from None
    except (zlib.error, OSError, ValueError) as error:
        raise BadInput(f"{where}: must be a whole {name} file ({one_line(error)})") from None
    if len(found) > _MOST_BYTES:
        raise BadInput(f"{where}: must be at most {_MOST_BYTES:,} bytes, uncompressed")
    return found


# --- which format -----------------------------------------------------------------------------------------------------


def _graph_of(where: str, path: Path, data: bytes) -> GraphFile:
    if data[:6] == b"\x93NUMPY":
        return _of_matrix("a matrix", where, np.load(io.BytesIO(data), allow_pickle=False))
    if data[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _of_npz(where, data)
    if data[:1] == b"\x80" and data[1:2] in b"\x02\x03\x04\x05":
        raise BadInput(f"{where}: must not be a pickle: to read one may run any code; write GraphML or JSON")
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:16]
    if start[:1] == b"<":
        # The XML reader gets bytes instead of text, because XML may declare its own encoding.
        return _of_xml(where, data.lstrip())
    ends = [each.lower() for each in path.suffixes if each.lower() not in (".gz", ".bz2")]
    text = text_of(data, where, f"text in UTF-8, or {FORMS}").replace("\r\n", "\n").replace("\r", "\n")
    body = text.lstrip()
    if not body:
        raise BadInput(f"{where}: must be {FORMS}; it is empty")
    for known, read in _BY_START:
        if body.startswith(known):
            return read(where, text)
    if body.startswith(">>digraph6<<"):
        raise BadInput(f"{where}: must be {FORMS}; it is digraph6")
    if ends[-1:] in ([".g6"], [".graph6"], [".s6"], [".sparse6"]):
        return _of_graph6(where, text)
    if _DOT.match(body):
        raise BadInput(f"{where}: must be {FORMS}; it is in Graphviz's language, which networkx converts with pydot")
    before = re.compile(r"(\s*%[^\n]*\n)*\s*\*(vertices|network)\b", re.IGNORECASE)
    if before.match(body):
        return _of_pajek(where, text)
    gml = _GML.search(text)
    if gml and all(_GML_BEFORE.fullmatch(line) for line in text[: gml.start()].split("\n")):
        return _of_gml(where, text, gml.end())
    if set(ends) & set(_RECOGNISED):
        raise BadInput(f"{where}: must be {FORMS}; its name ends in {ends[-1]}, but it does not begin as such a file")
    if _ADJACENCY.match(text) or set(ends) & {".adjlist", ".multiline_adjlist"}:
        return _of_adjacency(where, text)
    return _of_table(where, text)


# --- formats recognised by their first bytes --------------------------------------------------------------------------


def _of_xml(where: str, data: bytes) -> GraphFile:
    try:
        root = next(ElementTree.iterparse(io.BytesIO(data), events=("start",)))[1].tag
    except ElementTree.ParseError as error:
        raise BadInput(f"{where}, line {error.position[0]}: must be XML ({one_line(error)})") from None
    name = str(root).rpartition("}")[2]
    readers: dict[str, tuple[str, Callable[..., Any]]] = {
        "graphml": ("GraphML", nx.read_graphml),
        "gexf": ("GEXF", nx.read_gexf),
    }
    if name not in readers:
        raise BadInput(f"{where}: must be {FORMS}; it is XML that begins with <{name[:40]}>")
    form, read = readers[name]
    try:
        return GraphFile(form, read(io.BytesIO(data)))
    except ElementTree.ParseError as error:
        raise BadInput(f"{where}, line {error.position[0]}: must be {form} ({one_line(error)})") from None


def _of_json(where: str, text: str) -> GraphFile:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{where}, line {error.lineno}: must be JSON ({error.msg})") from None
    if not isinstance(content, dict):
        raise BadInput(f"{where}: must be node-link JSON, an object with nodes and edges; it is a list")
    if isinstance(content.get("adjacency"), list):
        return GraphFile("JSON", nx.adjacency_graph(content))
    if isinstance(content.get("elements"), dict):
        return GraphFile("JSON", nx.cytoscape_graph(content))
    name = next((each for each in ("edges", "links") if isinstance(content.get(each), list)), None)
    if name is None or not isinstance(content.get("nodes"), list):
        keys = ", ".join(map(str, list(content)[:6])) or "nothing"
        raise BadInput(f"{where}: must be node-link JSON, with nodes and edges or links; it has {keys[:80]}")
    graph = nx.node_link_graph(content, edges=name)
    if len(graph) < len(content["nodes"]):
        raise BadInput(f"{where}: must have distinct node ids; {len(graph)} of {len(content['nodes'])} are distinct")
    if len(graph) > len(content["nodes"]):
        raise BadInput(f"{where}: must have edges between its nodes; node {list(graph)[-1]!r} is not listed")
    return GraphFile("JSON", graph)


def _of_gml(where: str, text: str, start: int) -> GraphFile:
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
        return GraphFile("GML", nx.relabel_nodes(graph, labels))
    return GraphFile("GML", graph, ["labels repeat or are missing: nodes are named by their ids"])


def _of_pajek(where: str, text: str) -> GraphFile:
    lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("%")]
    graph: Any = nx.parse_pajek(iter(lines))
    declared = next(int(line.split()[1]) for line in lines if line.lower().startswith("*vertices"))
    if len(graph) != declared:
        raise BadInput(f"{where}: must have {declared} vertices with labels that differ; there are {len(graph)}")
    if all((data.get("x"), data.get("y")) == (0.0, 0.0) for _, data in graph.nodes(data=True)):
        # networkx writes (0, 0) for nodes without a position. So if all nodes are at (0, 0), none has a position.
        for _, data in graph.nodes(data=True):
            del data["x"], data["y"]
    return GraphFile("Pajek", graph)


def _of_graph6(where: str, text: str) -> GraphFile:
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
    _check_fits(where, count)
    read: Any = nx.from_sparse6_bytes if sparse else nx.from_graph6_bytes
    return GraphFile("sparse6" if sparse else "graph6", read(line.encode("ascii")))


def _of_matrix_market(where: str, text: str) -> GraphFile:
    from scipy.io import mmread

    rows, columns = next(line.split()[:2] for line in text.split("\n") if line.strip() and not line.startswith("%"))
    _check_shape(where, (int(rows), int(columns)))
    kind = text.split("\n", 1)[0].lower().split()
    if "array" in kind and "symmetric" in kind:
        # scipy would silently fill missing numbers with zeros.
        given = sum(len(line.split()) for line in text.split("\n") if line.strip() and not line.startswith("%")) - 2
        if given != (needed := int(rows) * (int(rows) + 1) // 2):
            raise BadInput(f"{where}: must have {needed} numbers for {rows} rows of a symmetric matrix; it has {given}")
    with warnings.catch_warnings():
        # Newer versions of scipy warn that the returned class will change; only its entries are read here.
        warnings.simplefilter("ignore")
        return _of_sparse(where, mmread(io.BytesIO(text.encode())))


_BY_START: tuple[tuple[str, Callable[[str, str], GraphFile]], ...] = (
    ("{", _of_json), ("[", _of_json), ("%%MatrixMarket", _of_matrix_market),
    ("LEDA.GRAPH", lambda where, text: GraphFile("LEDA", nx.parse_leda(text))),
    (">>graph6<<", _of_graph6), (">>sparse6<<", _of_graph6),
)  # fmt: skip


# --- matrices ---------------------------------------------------------------------------------------------------------


def _of_npz(where: str, data: bytes) -> GraphFile:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(each.file_size for each in archive.infolist())
    if size > _MOST_BYTES:
        raise BadInput(f"{where}: must be at most {_MOST_BYTES:,} bytes, uncompressed")
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        names = list(file.files)
        if {"format", "shape", "data"} <= set(names):
            from scipy.sparse import load_npz

            _check_shape(where, file["shape"].tolist())
            return _of_sparse(where, load_npz(io.BytesIO(data)))
        if len(names) != 1:
            raise BadInput(f"{where}: must hold one matrix; it holds {', '.join(names[:6]) or 'nothing'}")
        return _of_matrix("a matrix", where, file[names[0]])


def _check_shape(where: str, shape: Sequence[int]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise BadInput(f"{where}: must be a square matrix; its shape is {tuple(shape)}")
    _check_fits(where, shape[0])


def _of_sparse(where: str, matrix: Any) -> GraphFile:
    from scipy.sparse import coo_array

    if not hasattr(matrix, "tocoo"):
        return _of_matrix("a matrix", where, matrix)
    found = coo_array(matrix)
    found.sum_duplicates()
    return _of_entries(where, int(found.shape[0]), found.row, found.col, found.data)


def _of_matrix(form: str, where: str, matrix: Any, labels: Sequence[str] | None = None) -> GraphFile:
    array = np.asarray(matrix)
    _check_shape(where, array.shape)
    rows, columns = np.nonzero(array)
    return _of_entries(where, len(array), rows, columns, array[rows, columns], labels)


def _of_entries(
    where: str, count: int, rows: Any, columns: Any, values: Any, labels: Sequence[str] | None = None
) -> GraphFile:
    if values.dtype.kind not in "biuf":
        raise BadInput(f"{where}: must be a matrix of numbers; it is of {values.dtype}")
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        at = int(rows[bad[0]]), int(columns[bad[0]])
        raise BadInput(f"{where}: must be a matrix of finite numbers >= 0; {at} is {values[bad[0]]}")
    graph: Graph = nx.Graph()
    graph.add_nodes_from(range(count) if labels is None else labels)
    names = list(graph)
    plain = bool((values == 1).all())
    entries = [each for each in zip(rows.tolist(), columns.tolist(), values.tolist(), strict=True) if each[2]]
    for row, column, value in entries:
        graph.add_edge(names[row], names[column], **({} if plain else {"weight": float(value)}))
    return GraphFile("a matrix", graph, _unequal_weights(entries))


# --- tables of text ---------------------------------------------------------------------------------------------------


def _of_table(where: str, text: str) -> GraphFile:
    """Read a table as a matrix if it can be one, else as a list of edges."""
    rows, delimiter, attributes = _rows_of(where, text)
    if not rows:
        raise BadInput(f"{where}: must be {FORMS}; it is empty")
    matrix = _matrix_of(where, rows, delimiter) if not attributes else None
    if matrix is not None:
        return matrix
    return _of_edges(where, rows, delimiter, attributes)


def _rows_of(where: str, text: str) -> tuple[list[Row], str, dict[int, dict[str, Any]]]:
    """Return the cells of each line, the delimiter, and {line number: edge attributes} for lines that end with a dict.

    The delimiter is a tab, semicolon or comma that all lines contain, else a blank. Comments are left out.
    """
    lines: list[tuple[int, str]] = []
    attributes: dict[int, dict[str, Any]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        kept = line.strip(" \t") if not line.lstrip().startswith("#") else ""
        brace = kept.find("{")
        if kept.endswith("}") and brace > 0:
            attributes[number] = _literal(where, number, kept[brace:])
            kept = kept[:brace].rstrip(" \t,;")
        if kept:
            # Tabs at a line's ends are kept, because they delimit empty cells.
            lines.append((number, kept if brace > 0 else line.strip(" \r\n")))
    delimiter = next((delimiter for delimiter in "\t;," if all(delimiter in line for _, line in lines)), " ")
    if delimiter == "\t" and all(line.partition("\t")[0].rstrip().endswith(",") for _, line in lines):
        delimiter = ","
    if delimiter == " ":
        odd = next(((n, line) for n, line in lines if any(each in line for each in ",;")), None)
        if odd is not None:
            raise _refuse(
                where, "a list of edges with one mark between its columns, a comma, semicolon, tab or blank", odd[0]
            )
        return [(n, re.split(r"\s+#", line)[0].split()) for n, line in lines], delimiter, attributes
    try:
        cells = csv.reader((line for _, line in lines), delimiter=delimiter, skipinitialspace=True, strict=True)
        return [(n, [c.strip() for c in row]) for (n, _), row in zip(lines, cells, strict=True)], delimiter, attributes
    except (csv.Error, ValueError) as error:
        raise BadInput(f"{where}: must be a list of edges, or a matrix ({one_line(error)})") from None


def _literal(where: str, line: int, text: str) -> dict[str, Any]:
    """Parse the attributes of an edge, which networkx writes as a Python dict."""
    try:
        with warnings.catch_warnings():
            # Python warns of invalid escape sequences and the like in the file's text.
            warnings.simplefilter("ignore")
            found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found):
        raise _refuse(where, "an edge, with a dict of its attributes at its end", line)
    return found


def _number(text: str, delimiter: str) -> float | None:
    """Return a cell as a number, or None; with semicolons or tabs between columns, a comma may be the decimal mark."""
    if delimiter in ";\t":
        text = text.replace(",", ".")
    return float(text) if _NUMBER.fullmatch(text) else None


def _matrix_of(where: str, rows: list[Row], delimiter: str) -> GraphFile | None:
    """Return the graph of a square matrix, or None if the table cannot be one."""
    labels = None
    body = [cells for _, cells in rows]
    # A matrix with names has them in the first line and at the beginning of each other line.
    first, others = body[0], body[1:]
    names = first[1:] if len(first) == len(others) + 1 else first
    # If a cell precedes the names, it must not be a number: a row of matrix elements could otherwise pass for names.
    corner = len(names) == len(first) or _number(first[0], delimiter) is None
    named = corner and len(names) == len(others) > 1 and len(set(names)) == len(names)
    if named and all(len(cells) == len(names) + 1 for cells in others) and [cells[0] for cells in others] == names:
        labels, body = names, [cells[1:] for cells in others]
    above = labels is None and _only_named(first, others, delimiter)
    if above:
        # Only the first line has names: pandas writes a matrix in this form if the index is left out.
        labels, body = first, others
    count = len(body)
    if any(len(cells) != count for cells in body) or count < 2:
        return None
    numbers = [[_number(cell, delimiter) for cell in cells] for cells in body]
    if any(cell is None for cells in numbers for cell in cells):
        return None
    array = np.array(numbers, dtype=np.float64)
    form = "a matrix"
    if labels is None or above:
        hollow, mirrored = not array.diagonal().any(), bool((array == array.T).all())
        flags = bool(np.isin(array, (0, 1)).all())
        whole = all(_WHOLE.fullmatch(cell) for cells in body for cell in cells[:2])
        if count == 2 and whole and hollow and mirrored and not flags:
            raise BadInput(f"{where}: must be more than two lines of two numbers: a matrix or a list of edges")
        # `even` recognises a matrix of averaging weights: its diagonal is not zero, but its rows or columns have equal
        # sums.
        even = any(bool(np.ptp(array.sum(axis=axis)) < 1e-6) for axis in (0, 1))
        likely = (mirrored and hollow) or flags or (hollow and count > 3)
        likely = likely or (not whole and (hollow or (count > 2 and (mirrored or even))))
        if count == 2 and whole:
            likely = mirrored and hollow
        if above and labels == _places(count):
            # The first line "0 1 2 ..." may also be an edge. So the table is a matrix only if it is symmetric with a
            # zero diagonal, or has no other elements than 0 and 1.
            likely, labels = (mirrored and hollow) or flags, None
        if not likely:
            return None
    return _of_matrix(form, where, array, labels)


def _only_named(first: list[str], others: list[list[str]], delimiter: str) -> bool:
    """Return whether the first line may be the column names of the square matrix in the other lines."""
    if len(others) < 2 or len(set(first)) < len(first) or any(len(cells) != len(others) for cells in [first, *others]):
        return False
    if any(_number(cell, delimiter) is None for cells in others for cell in cells):
        return False
    lower = {cell.lower() for cell in first}
    if "weight" in lower or any({a, b} <= lower for a, b in _END_COLUMNS if len(a) > 1):
        return False
    return not any(_NUMBER.fullmatch(cell) for cell in first) or (len(first) > 2 and first == _places(len(first)))


def _places(count: int) -> list[str]:
    return [str(place) for place in range(count)]


def _of_edges(where: str, rows: list[Row], delimiter: str, attributes: dict[int, dict[str, Any]]) -> GraphFile:
    header = [cell.lower() for cell in rows[0][1]]
    ends = next((pair for pair in _END_COLUMNS if set(pair) <= set(header)), None)
    source, target, weight = 0, 1, 2
    # In a list without column names, a first line "a b" or "u v" may be an edge between nodes of these names.
    if ends is not None and not (len(ends[0]) == 1 and _is_edge_too(ends, rows)):
        source, target = (header.index(end) for end in ends)
        weight = header.index("weight") if "weight" in header else -1
        if not rows[1:]:
            raise BadInput(f"{where}: must have an edge after its first line")
        rows, columns = rows[1:], len(header)
        for line, cells in rows:
            if len(cells) != columns:
                raise _refuse(where, f"{columns} cells, as the first line has; there are {len(cells)}", line)
    else:
        _check_plain(where, rows, delimiter)
    graph: Graph = nx.Graph()
    seen: set[tuple[str, str]] = set()
    parallel = 0
    _check_weights(where, rows, weight, delimiter)
    for line, cells in rows:
        a, b = cells[source], cells[target]
        if not a or not b:
            raise _refuse(where, "an edge: two names; one is empty", line)
        more = dict(attributes.get(line, {}))
        if not more and 0 <= weight < len(cells) and (value := _number(cells[weight], delimiter)) is not None:
            more = {"weight": value}
        parallel += (a, b) in seen
        seen.add((a, b))
        if not graph.has_edge(a, b):
            graph.add_edge(a, b, **more)
    return GraphFile("a list of edges", graph, [_left_out(parallel, "parallel edge")] if parallel else [])


def _check_weights(where: str, rows: list[Row], weight: int, delimiter: str) -> None:
    """Raise BadInput if only some weights are finite numbers.

    If no cell of the column is a number, the column does not hold weights. An edge with an empty cell has no weight.
    """
    found = [(line, cells[weight]) for line, cells in rows if 0 <= weight < len(cells) and cells[weight]]
    numbers = [(line, cell, _number(cell, delimiter)) for line, cell in found]
    if any(value is not None for _, _, value in numbers):
        for line, cell, value in numbers:
            if value is None or not np.isfinite(value):
                raise _refuse(where, f"an edge whose weight is a finite number; it is {cell[:40]!r}", line)


def _is_edge_too(ends: tuple[str, str], rows: list[Row]) -> bool:
    """Return whether the first line may be an edge: one of its two names occurs as a node in a later line."""
    return any(end in (cell.lower() for cell in cells[:2]) for _, cells in rows[1:] for end in ends)


def _check_plain(where: str, rows: list[Row], delimiter: str) -> None:
    """Raise BadInput unless each line has two names, followed by numbers only."""
    if [cell.lower() for cell in rows[0][1][:2]] == ["id", "label"]:
        raise _refuse(where, f"{FORMS}; it is a table of nodes", rows[0][0])
    for line, cells in rows:
        if cells[:2] in (["p", "edge"], ["p", "col"], ["p", "sp"], ["p", "max"]) and len(cells) == 4:
            raise _refuse(where, f"{FORMS}; it is in a format of DIMACS", line)
        for cell in cells[:2]:
            if cell.count("(") != cell.count(")") or cell.count("[") != cell.count("]"):
                raise _refuse(where, f"two names, the ends of an edge; {cell[:40]!r} has an unmatched bracket", line)
        if len(cells) < 2:
            raise _refuse(where, f"two names, the ends of an edge; there is {cells[0][:40]!r} only", line)
        for cell in cells[:2]:
            if _TIME.fullmatch(cell):
                raise _refuse(where, f"two names, the ends of an edge; {cell[:40]!r} is a date or a time", line)
            if _NUMBER.fullmatch(cell) and not _WHOLE.fullmatch(cell):
                raise _refuse(where, f"two names, the ends of an edge; {cell[:40]!r} is a measured value", line)
            if _WHOLE.fullmatch(cell) and int(cell) < 0:
                raise _refuse(where, f"two names, the ends of an edge; {cell[:40]!r} is a negative number", line)
        for cell in cells[2:]:
            if cell and _number(cell, delimiter) is None:
                known = "a first line with source and target lets others hold text"
                raise _refuse(where, f"two names and then numbers; {cell[:40]!r} is no number ({known})", line)
    if len(rows) > 1 and all(_WHOLE.fullmatch(cell) for _, cells in rows[1:] for cell in cells[:2]):
        line, cells = rows[0]
        if not any(_WHOLE.fullmatch(cell) for cell in cells[:2]):
            some = ", ".join(cells)[:60]
            raise _refuse(where, f"an edge, or name the columns of its ends source and target; it has {some}", line)


def _of_adjacency(where: str, text: str) -> GraphFile:
    """Read an adjacency list as networkx writes it, with a node and its neighbours in a line, or in several lines."""
    lines = [(n, line.strip()) for n, line in enumerate(text.split("\n"), 1)]
    lines = [(n, line) for n, line in lines if line and not line.startswith("#")]
    graph: Graph = nx.MultiGraph()
    several = _several_lines(where, lines)
    if several is not None:
        return several
    seen: set[tuple[str, str]] = set()
    parallel = 0
    for line, content in lines:
        node, *neighbors = content.split()
        if "{" in content or "," in content:
            raise _refuse(where, "a node and its neighbours, with blanks between them", line)
        graph.add_node(node)
        for other in neighbors:
            parallel += (node, other) in seen
            seen.add((node, other))
            graph.add_edge(node, other)
    return GraphFile("an adjacency list", nx.Graph(graph), [_left_out(parallel, "parallel edge")] if parallel else [])


def _several_lines(where: str, lines: list[tuple[int, str]]) -> GraphFile | None:
    """Read networkx's multiline adjacency list, or return None if the lines are not in this format.

    In this format, a line with a node's name and a count n is followed by n lines, each with one edge of the node.
    """
    graph: Graph = nx.MultiDiGraph()
    place = 0
    while place < len(lines):
        node, _, count = lines[place][1].rpartition(" ")
        if not node or not count.isdecimal() or len(count) > 9:
            return None
        following = lines[place + 1 : place + 1 + int(count)]
        if len(following) < int(count):
            return None
        graph.add_node(node)
        for line, content in following:
            name, brace, rest = content.partition(" {")
            if not brace:
                return None
            graph.add_edge(node, name, **_literal(where, line, "{" + rest))
        place += 1 + int(count)
    return GraphFile("an adjacency list", graph)


# --- simple graphs ----------------------------------------------------------------------------------------------------


def _simple(found: GraphFile) -> GraphFile:
    """Make the graph undirected, without parallel edges and loops, and add notes on the edges left out."""
    graph = found.graph
    if graph.is_multigraph():
        ends: Iterable[Any] = graph.edges()
        pairs = [(a, b) if graph.is_directed() else frozenset((a, b)) for a, b in ends]
        parallel = len(pairs) - len(set(pairs))
        found.notes += [_left_out(parallel, "parallel edge")] if parallel else []
    elif graph.is_directed():
        edges: Any = graph.edges(data="weight")
        found.notes += _unequal_weights([(a, b, weight) for a, b, weight in edges if a != b])
    simple: Graph = nx.Graph(graph)
    loops = list(nx.selfloop_edges(simple))
    simple.remove_edges_from(loops)
    found.notes += [_left_out(len(loops), "edge") + " from a node to itself"] if loops else []
    found.graph = simple
    return found


def _unequal_weights(edges: Iterable[tuple[Any, Any, Any]]) -> list[str]:
    """Return a note on the number of edges with different weights in the two directions, if there are any.

    The caller keeps the last weight of such an edge.
    """
    first: dict[frozenset[Any], Any] = {}
    count = sum(first.setdefault(frozenset((a, b)), weight) != weight for a, b, weight in edges)
    return [f"left out the first of two weights of {count:,} edge{'' if count == 1 else 's'}"] if count else []


def _left_out(count: int, what: str) -> str:
    return f"left out {count:,} {what}{'' if count == 1 else 's'}"
