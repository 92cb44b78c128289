"""Convert files of other programs to formats that netsim documents."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from netsim.errors import BadInput
from netsim.files.captures import read_packets
from netsim.files.content import FileContent
from netsim.files.file_kinds import FileKind, kind_of, read_motes
from netsim.files.graph_reader import read_graph
from netsim.files.measured import is_k7, k7_table, rssi_powers
from netsim.files.motes import NUMBERS
from netsim.files.parsed_graph import left_out
from netsim.files.places import place_nodes
from netsim.files.traces import Leg, read_ways
from netsim.util.files import write_pieces

__all__ = ["Converted", "convert"]

_SCALARS = (bool, int, float, str)


class Converted(NamedTuple):
    """The result of `convert`: the new file's path, a text that describes its content, and notes on parts left out."""

    path: Path
    what: str
    notes: list[str]


def convert(path: str | Path, out: str | Path) -> Converted:
    """Read a file of any format that netsim reads, and write its content in the format of the suffix of ``out``.

    * a graph: ``.graphml``, ``.json`` (networkx's node-link format), or ``.csv`` with a row for each edge and its
      attributes; all components are kept, and positions are in metres
    * motes: ``.csv`` for `netsim.Deployment.read`
    * movements of nodes: ``.csv`` for `netsim.mobility.read`
    * measured links: ``.csv`` with sender, receiver, and reception (from K7) or rssi
    * captured packets: ``.csv`` with time (s) and size (bytes)

    `netsim.topology.read`, `netsim.links.from_table` and `netsim.radio.from_rssi` read the files of graphs and links.

    Raises
    ------
    BadInput
        If the file cannot be read, or violates the format.
    NetsimError
        If the file cannot be written.
    """
    source, target = FileContent.read("file", path), Path(out)
    kind = kind_of(source)
    writers: dict[str, Callable[[FileContent], tuple[str, bytes, list[str]]]] = _WRITERS[kind]
    if target.suffix not in writers:
        allowed = " or ".join(writers)
        raise BadInput(f"out = {str(out)!r}: must end in {allowed}: {source.path.name} holds {_NAMES[kind]}")
    what, content, notes = writers[target.suffix](source)
    return Converted(write_pieces(target, [content]), what, notes)


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """Return csv; its numbers are written so that reading restores them exactly."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(each) for each in row] for row in rows)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


# --- graphs -----------------------------------------------------------------------------------------------------------


def _graph(source: FileContent) -> "tuple[nx.Graph[Any], str, list[str]]":
    """Return a file's graph, a description and notes; attributes are scalars, positions are ``x``, ``y`` and ``z``."""
    found = read_graph(source)
    notes = [*found.notes, *place_nodes(data for _, data in found.graph.nodes(data=True))]
    graph, dropped = found.graph, 0
    for _, data in graph.nodes(data=True):
        if "pos" in data:
            data.update(zip("xyz", map(float, data.pop("pos")), strict=False))
    # Remove the settings of the file format that networkx stores in this dict.
    graph.graph.clear()
    for data in (*dict(graph.nodes(data=True)).values(), *(data for _, _, data in graph.edges(data=True))):
        for name in [name for name, value in data.items() if not isinstance(value, _SCALARS)]:
            dropped += data.pop(name) is not None
    notes += left_out(dropped, "attribute", " that are neither numbers nor texts")
    what = f"a graph of {len(graph):,} nodes and {graph.number_of_edges():,} edges ({found.form})"
    return graph, what, notes


def _to_graphml(source: FileContent) -> tuple[str, bytes, list[str]]:
    graph, what, notes = _graph(source)
    content = io.BytesIO()
    nx.write_graphml_xml(graph, content, named_key_ids=True)
    return what, content.getvalue(), notes


def _to_json(source: FileContent) -> tuple[str, bytes, list[str]]:
    graph, what, notes = _graph(source)
    return what, json.dumps(nx.node_link_data(graph, edges="edges"), indent=1).encode() + b"\n", notes


def _to_edges(source: FileContent) -> tuple[str, bytes, list[str]]:
    graph, what, notes = _graph(source)
    names = list(
        dict.fromkeys(
            name for _, _, data in graph.edges(data=True) for name in data if name not in ("source", "target")
        )
    )
    notes += left_out(sum(not graph.degree(node) for node in graph), "node", " without an edge")
    if any(data for _, data in graph.nodes(data=True)):
        notes.append("left out what is known of nodes: .graphml and .json keep it")
    rows = ([a, b, *(data.get(name, "") for name in names)] for a, b, data in graph.edges(data=True))
    return what, _table(["source", "target", *names], rows), notes


# --- motes, ways, links and packets -----------------------------------------------------------------------------------


def _to_motes(source: FileContent) -> tuple[str, bytes, list[str]]:
    found = read_motes(source)
    heights = any(len(mote["position"]) > 2 for mote in found.motes.values())
    known = [
        name for name in ("sink", "role", "roaming", *NUMBERS) if any(mote.get(name) for mote in found.motes.values())
    ]
    rows = ([name, *mote["position"], *(mote.get(each, "") for each in known)] for name, mote in found.motes.items())
    content = _table(["name", "x", "y", *(["z"] if heights else []), *known], rows)
    return f"{len(found.motes):,} motes ({found.form})", content, found.notes


def _to_ways(source: FileContent) -> tuple[str, bytes, list[str]]:
    found = read_ways(source)
    nodes: dict[Any, list[Leg]] = {}
    for leg in found.legs:
        nodes.setdefault(leg.node, []).append(leg)
    rows = sorted((row for legs in nodes.values() for row in _rows_of(source, legs)), key=lambda row: row[0])
    heights = any(len(leg.to) > 2 for leg in found.legs)
    content = _table(["time", "name", "x", "y", *(["z"] if heights else [])], rows)
    return f"ways of {len(nodes):,} nodes ({found.form})", content, found.notes


def _rows_of(source: FileContent, legs: Sequence[Leg]) -> list[list[Any]]:
    """Return a row (time, name, position) for the start and the end of each of a node's legs."""
    first = legs[0]
    rows: list[list[Any]] = [[first.at, first.node, *first.to]]
    for leg in legs[1:]:
        if leg.until is None:
            raise source.refuse(f"a trace without jumps, to be written as csv; node {leg.node!r} jumps at {leg.at:g} s")
        if leg.at > rows[-1][0]:
            rows.append([leg.at, *rows[-1][1:]])
        rows.append([leg.until, leg.node, *leg.to])
    return rows


def _to_links(source: FileContent) -> tuple[str, bytes, list[str]]:
    if is_k7(source):
        means = k7_table(source).groupby(["src", "dst"], sort=False)["pdr"].mean()
        rows = [[*pair, float(value)] for pair, value in means.items()]  # type: ignore[misc]
        notes = ["receptions are means over all channels and times"]
        return f"{len(rows):,} links (K7)", _table(["sender", "receiver", "reception"], rows), notes
    powers, notes = rssi_powers(source)
    content = _table(["sender", "receiver", "rssi"], ([*pair, power] for pair, power in powers.items()))
    return f"{len(powers):,} links (csv)", content, notes


def _to_packets(source: FileContent) -> tuple[str, bytes, list[str]]:
    packets = read_packets(source.path)
    return f"{len(packets):,} packets", _table(["time", "size"], packets), []


_WRITERS: dict[FileKind, dict[str, Callable[[FileContent], tuple[str, bytes, list[str]]]]] = {
    "graph": {".graphml": _to_graphml, ".json": _to_json, ".csv": _to_edges},
    "motes": {".csv": _to_motes},
    "ways": {".csv": _to_ways},
    "links": {".csv": _to_links},
    "packets": {".csv": _to_packets},
}
_NAMES: dict[FileKind, str] = {
    "graph": "a graph",
    "motes": "motes",
    "ways": "ways of nodes",
    "links": "measured links",
    "packets": "captured packets",
}
