"""Read graphs from tables in text files: edge lists, matrices, and networkx's adjacency lists."""

import ast
import csv
import re
import warnings
from typing import Any

import networkx as nx
import numpy as np

from netsim.errors import BadInput, one_line
from netsim.files.matrices import of_matrix
from netsim.files.parsed_graph import FORMS, Graph, ParsedGraph, parallel_edges, refuse

__all__ = ["of_adjacency", "of_table"]

# Pairs of column names that programs use for the two ends of an edge.
_END_COLUMNS = (
    ("source", "target"), ("from", "to"), ("src", "dst"), ("src", "dest"), ("sender", "receiver"), ("u", "v"),
    ("node1", "node2"), ("node_1", "node_2"), ("i", "j"), ("start", "end"), ("tail", "head"), ("tx", "rx"), ("a", "b"),
    ("id1", "id2"), ("from_node", "to_node"), ("fromnodeid", "tonodeid"), ("source_id", "target_id"),
)  # fmt: skip

# Further columns that become edge attributes, which `netsim.links.from_graph` reads as settings of links.
_LINK_COLUMNS = {name.lower(): name for name in ("latency", "rate", "loss", "dist", "LinkSpeedRaw", "capacity")}

# The pattern is unambiguous: with backtracking, a cell of a million digits would take hours.
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?|[-+]?(inf|nan)", re.IGNORECASE)
_WHOLE = re.compile(r"[-+]?\d+")
_TIME = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d{2}(:\d{2}.*)?")

Row = tuple[int, list[str]]


def of_table(where: str, text: str) -> ParsedGraph:
    """Read a table as a matrix if it may be a matrix, else as a list of edges."""
    rows, delimiter, attributes = _rows_of(where, text)
    if not rows:
        raise BadInput(f"{where}: must be {FORMS}; it is empty")
    matrix = _matrix_of(where, rows, delimiter) if not attributes else None
    if matrix is not None:
        return matrix
    return _of_edges(where, rows, delimiter, attributes)


def _rows_of(where: str, text: str) -> tuple[list[Row], str, dict[int, dict[str, Any]]]:
    """Return the cells of each line, the delimiter, and {line number: edge attributes} for lines that end with a dict.

    The delimiter is a tab, semicolon or comma that all lines contain, else a blank. Comment lines, which begin with #
    or (in files of KONECT, konect.cc) with %, are left out.
    """
    lines: list[tuple[int, str]] = []
    attributes: dict[int, dict[str, Any]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        kept = line.strip(" \t") if not line.lstrip().startswith(("#", "%")) else ""
        brace = kept.find("{")
        if kept.endswith("}") and brace > 0:
            attributes[number] = _literal(where, number, kept[brace:])
            kept = kept[:brace].rstrip(" \t,;")
        if kept:
            # Remove blanks at both ends of the line, but not tabs, which delimit empty cells.
            lines.append((number, kept if brace > 0 else line.strip(" \r\n")))
    delimiter = next((delimiter for delimiter in "\t;," if all(delimiter in line for _, line in lines)), " ")
    if delimiter == "\t" and all(line.partition("\t")[0].rstrip().endswith(",") for _, line in lines):
        delimiter = ","
    if delimiter == " ":
        odd = next(((n, line) for n, line in lines if any(each in line for each in ",;")), None)
        if odd is not None:
            raise refuse(
                where, "a list of edges with one mark between its columns, a comma, semicolon, tab or blank", odd[0]
            )
        return [(n, re.split(r"\s#", line)[0].split()) for n, line in lines], delimiter, attributes
    try:
        cells = csv.reader((line for _, line in lines), delimiter=delimiter, skipinitialspace=True, strict=True)
        return [(n, [c.strip() for c in row]) for (n, _), row in zip(lines, cells, strict=True)], delimiter, attributes
    except (csv.Error, ValueError) as error:
        raise BadInput(f"{where}: must be a list of edges, or a matrix ({one_line(error)})") from None


def _literal(where: str, line: int, text: str) -> dict[str, Any]:
    """Parse the attributes of an edge, written by networkx as a Python dict."""
    try:
        with warnings.catch_warnings():
            # Python would warn of invalid escape sequences in the file's text.
            warnings.simplefilter("ignore")
            found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found):
        raise refuse(where, "an edge, with a dict of its attributes at its end", line)
    return found


def _number(text: str, delimiter: str) -> float | None:
    """Convert a cell to a number, or None; decimal commas are allowed between semicolons or tabs."""
    if delimiter in ";\t":
        text = text.replace(",", ".")
    return float(text) if _NUMBER.fullmatch(text) else None


def _matrix_of(where: str, rows: list[Row], delimiter: str) -> ParsedGraph | None:
    """Return the graph of a square matrix, or None if the table cannot be one."""
    labels = None
    body = [cells for _, cells in rows]
    # A matrix with node names has the names in the first line and at the beginning of each other line.
    first, others = body[0], body[1:]
    names = first[1:] if len(first) == len(others) + 1 else first
    # If a cell precedes the names, it must not be a number: otherwise a row of matrix elements could be taken for
    # names.
    corner = len(names) == len(first) or _number(first[0], delimiter) is None
    named = corner and len(names) == len(others) > 1 and len(set(names)) == len(names)
    if named and all(len(cells) == len(names) + 1 for cells in others) and [cells[0] for cells in others] == names:
        labels, body = names, [cells[1:] for cells in others]
    above = labels is None and _only_named(first, others, delimiter)
    if above:
        # Only the first line has names, as in a matrix that pandas writes without the index.
        labels, body = first, others
    count = len(body)
    if any(len(cells) != count for cells in body) or count < 2:
        return None
    numbers = [[_number(cell, delimiter) for cell in cells] for cells in body]
    if any(cell is None for cells in numbers for cell in cells):
        return None
    array = np.array(numbers, dtype=np.float64)
    if labels is None or above:
        hollow, mirrored = not array.diagonal().any(), bool((array == array.T).all())
        flags = bool(np.isin(array, (0, 1)).all())
        whole = all(_WHOLE.fullmatch(cell) for cells in body for cell in cells[:2])
        if count == 2 and whole and hollow and mirrored and not flags:
            raise BadInput(f"{where}: must be more than two lines of two numbers: a matrix or a list of edges")
        # A matrix of averaging weights has a nonzero diagonal, but the sums of its rows, or of its columns, are equal.
        even = any(bool(np.ptp(array.sum(axis=axis)) < 1e-6) for axis in (0, 1))
        likely = (mirrored and hollow) or flags or (hollow and count > 3)
        likely = likely or (not whole and (hollow or (count > 2 and (mirrored or even))))
        if count == 2 and whole:
            likely = mirrored and hollow
        if above and labels == _places(count):
            # The first line "0 1 2 ..." may also be an edge. So take the table for a matrix only if it is symmetric
            # with a zero diagonal, or all elements are 0 or 1.
            likely, labels = (mirrored and hollow) or flags, None
        if not likely:
            return None
    return of_matrix(where, array, labels)


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


def _of_edges(where: str, rows: list[Row], delimiter: str, attributes: dict[int, dict[str, Any]]) -> ParsedGraph:
    header = [cell.lower() for cell in rows[0][1]]
    ends = next((pair for pair in _END_COLUMNS if set(pair) <= set(header)), None)
    source, target, weight = 0, 1, 2
    named: list[tuple[str, int]] = []
    # A first line "a b" or "u v" need not name columns: it may be an edge between nodes with these names.
    if ends is not None and not (len(ends[0]) == 1 and _is_edge_too(ends, rows)):
        source, target = (header.index(end) for end in ends)
        weight = header.index("weight") if "weight" in header else -1
        if not rows[1:]:
            raise BadInput(f"{where}: must have an edge after its first line")
        named = [(name, header.index(lower)) for lower, name in _LINK_COLUMNS.items() if lower in header]
        rows, columns = rows[1:], len(header)
        for line, cells in rows:
            if len(cells) != columns:
                raise refuse(where, f"{columns} cells, as the first line has; there are {len(cells)}", line)
    else:
        _check_plain(where, rows, delimiter)
    graph: Graph = nx.Graph()
    for name, at in [("weight", weight), *named]:
        _check_numbers(where, rows, name, at, delimiter)
    for line, cells in rows:
        a, b = cells[source], cells[target]
        if not a or not b:
            raise refuse(where, "an edge: two names; one is empty", line)
        more = dict(attributes.get(line, {}))
        more |= {name: value for name, at in named if (value := _number(cells[at], delimiter)) is not None}
        if "weight" not in more and 0 <= weight < len(cells):
            value = _number(cells[weight], delimiter)
            more |= {} if value is None else {"weight": value}
        if not graph.has_edge(a, b):
            graph.add_edge(a, b, **more)
    return ParsedGraph("a list of edges", graph, parallel_edges((cells[source], cells[target]) for _, cells in rows))


def _check_numbers(where: str, rows: list[Row], name: str, at: int, delimiter: str) -> None:
    """Raise BadInput if only some cells of a column are finite numbers.

    A column without any number is accepted, because it contains other data. Empty cells are accepted, too: their edges
    have no value.
    """
    found = [(line, cells[at]) for line, cells in rows if 0 <= at < len(cells) and cells[at]]
    numbers = [(line, cell, _number(cell, delimiter)) for line, cell in found]
    if any(value is not None for _, _, value in numbers):
        for line, cell, value in numbers:
            if value is None or not np.isfinite(value):
                raise refuse(where, f"an edge whose {name} is a finite number; it is {cell[:40]!r}", line)


def _is_edge_too(ends: tuple[str, str], rows: list[Row]) -> bool:
    """Return whether the first line may be an edge: one of the names ``ends`` occurs as a node in a later line."""
    return any(end in (cell.lower() for cell in cells[:2]) for _, cells in rows[1:] for end in ends)


def _check_plain(where: str, rows: list[Row], delimiter: str) -> None:
    """Raise BadInput unless each line consists of two node names, followed only by numbers."""
    if [cell.lower() for cell in rows[0][1][:2]] == ["id", "label"]:
        raise refuse(where, f"{FORMS}; it is a table of nodes", rows[0][0])
    for line, cells in rows:
        if cells[:2] in (["p", "edge"], ["p", "col"], ["p", "sp"], ["p", "max"]) and len(cells) == 4:
            raise refuse(where, f"{FORMS}; it is in a format of DIMACS", line)
        for cell in cells[:2]:
            if cell.count("(") != cell.count(")") or cell.count("[") != cell.count("]"):
                raise refuse(where, f"two names, the ends of an edge; {cell[:40]!r} has an unmatched bracket", line)
        if len(cells) < 2:
            raise refuse(where, f"two names, the ends of an edge; there is {cells[0][:40]!r} only", line)
        for cell in cells[:2]:
            if _TIME.fullmatch(cell):
                raise refuse(where, f"two names, the ends of an edge; {cell[:40]!r} is a date or a time", line)
            if _NUMBER.fullmatch(cell) and not _WHOLE.fullmatch(cell):
                raise refuse(where, f"two names, the ends of an edge; {cell[:40]!r} is a measured value", line)
            if _WHOLE.fullmatch(cell) and int(cell) < 0:
                raise refuse(where, f"two names, the ends of an edge; {cell[:40]!r} is a negative number", line)
        for cell in cells[2:]:
            if cell and _number(cell, delimiter) is None:
                known = "a first line with source and target lets others hold text"
                raise refuse(where, f"two names and then numbers; {cell[:40]!r} is no number ({known})", line)
    if len(rows) > 1 and all(_WHOLE.fullmatch(cell) for _, cells in rows[1:] for cell in cells[:2]):
        line, cells = rows[0]
        if not any(_WHOLE.fullmatch(cell) for cell in cells[:2]):
            some = ", ".join(cells)[:60]
            raise refuse(where, f"an edge, or name the columns of its ends source and target; it has {some}", line)


def of_adjacency(where: str, text: str) -> ParsedGraph:
    """Read an adjacency list of networkx: each node and its neighbours are on one line, or on several lines."""
    lines = [(n, line.strip()) for n, line in enumerate(text.split("\n"), 1)]
    lines = [(n, line) for n, line in lines if line and not line.startswith("#")]
    graph: Graph = nx.MultiGraph()
    several = _several_lines(where, lines)
    if several is not None:
        return several
    edges: list[tuple[str, str]] = []
    for line, content in lines:
        node, *neighbors = content.split()
        if "{" in content or "," in content:
            raise refuse(where, "a node and its neighbours, with blanks between them", line)
        graph.add_node(node)
        own = [(node, other) for other in neighbors]
        graph.add_edges_from(own)
        edges += own
    return ParsedGraph("an adjacency list", nx.Graph(graph), parallel_edges(edges))


def _several_lines(where: str, lines: list[tuple[int, str]]) -> ParsedGraph | None:
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
    return ParsedGraph("an adjacency list", graph)
