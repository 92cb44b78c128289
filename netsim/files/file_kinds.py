"""Recognise the kind of a file: a graph, motes, movements, measured links, or captured packets."""

from typing import Any, Literal

from netsim.errors import BadInput
from netsim.files.captures import is_capture
from netsim.files.content import FileContent
from netsim.files.graph_reader import read_graph
from netsim.files.measured import is_k7, is_rssi
from netsim.files.motes import Motes, is_iotlab, of_cooja, of_iotlab, read_table
from netsim.files.places import place_nodes
from netsim.files.traces import is_ns2, read_ways

__all__ = ["FileKind", "kind_of", "read_motes", "wrong_kind"]

FileKind = Literal["graph", "motes", "ways", "links", "packets"]

_READERS = {
    "graph": ("a graph", "netsim.topology.read"),
    "motes": ("positions of motes", "netsim.Deployment.read"),
    "ways": ("ways of nodes", "netsim.mobility.read"),
    "links": ("measured links", "netsim.links.from_table, or netsim.radio.from_rssi"),
    "packets": ("captured packets", "netsim.agents.Replayed"),
}
_ROOTS: dict[str, FileKind] = {"simconf": "motes", "fcd-export": "ways"}


def kind_of(source: FileContent) -> FileKind:
    """Return the kind of a file, recognised by content; "graph" if it is no other kind, even if it is no graph."""
    if is_capture(source.data):
        return "packets"
    if source.is_xml:
        return _ROOTS.get(source.xml_root, "graph")
    if is_k7(source):
        return "links"
    if source.start[:1] in (b"{", b"["):
        return "motes" if is_iotlab(source.json()) else "graph"
    if source.suffix == ".movements" or is_ns2(source):
        return "ways"
    return _kind_of_table(source)


def _kind_of_table(source: FileContent) -> FileKind:
    """Return the kind of a csv file, recognised by the column names in its first line."""
    head = source.data[:4096].decode("utf-8", errors="replace").splitlines()
    first = next((line for line in head if line.strip() and not line.lstrip().startswith("#")), "").lower()
    cells = {cell.strip().strip('"') for cell in first.replace(";", ",").replace("\t", ",").split(",")}
    has_places = {"x", "y"} <= cells or {"longitude", "latitude"} <= cells
    if "name" in cells and has_places:
        return "ways" if "time" in cells else "motes"
    if "network_address" in cells:
        return "motes"
    return "links" if is_rssi(cells) else "graph"


def wrong_kind(source: FileContent, wanted: FileKind) -> BadInput:
    """Return the error for a file of a wrong kind; it names the function that reads the file."""
    what, reader = _READERS[kind_of(source)]
    return source.refuse(f"{_READERS[wanted][0]}; it has {what}, which {reader} reads")


def read_motes(source: FileContent) -> Motes:
    """Return the motes in a file of any format that contains positions of nodes; ``position`` is in metres.

    The motes of a graph are the nodes with a position. The motes of a file of movements are all nodes at their first
    positions; ``start`` is the time of a node's appearance if it is not 0.

    Raises
    ------
    BadInput
        If the file has no positions; the message names the file, the reason and, if known, the line.
    """
    # Treat a csv file of unknown kind as a file of motes, so that the error names the missing columns.
    kind = "motes" if source.suffix == ".csv" and kind_of(source) == "graph" else kind_of(source)
    if kind == "motes":
        return of_cooja(source) if source.is_xml else of_iotlab(source) if _is_json(source) else read_table(source)
    if kind == "graph":
        return _motes_of_graph(source)
    if kind == "ways":
        return _motes_of_ways(source)
    raise wrong_kind(source, "motes")


def _is_json(source: FileContent) -> bool:
    return source.start[:1] in (b"{", b"[")


def _motes_of_graph(source: FileContent) -> Motes:
    found = read_graph(source)
    notes = place_nodes(data for _, data in found.graph.nodes(data=True))
    places = {node: data["pos"] for node, data in found.graph.nodes(data=True) if "pos" in data}
    if not places:
        raise source.refuse("a file with positions of motes: x and y, or longitude and latitude; its nodes have none")
    if len(places) < len(found.graph):
        notes.append(f"left out {len(found.graph) - len(places):,} of {len(found.graph):,} nodes, without a place")
    size = min(len(place) for place in places.values())
    motes: dict[Any, dict[str, Any]] = {
        node: {"position": tuple(map(float, at[: min(size, 3)]))} for node, at in places.items()
    }
    return Motes(found.form, motes, [*notes, "left out its edges: path loss decides who hears whom"])


def _motes_of_ways(source: FileContent) -> Motes:
    found = read_ways(source)
    motes: dict[Any, dict[str, Any]] = {}
    for leg in found.legs:
        if leg.node not in motes:
            motes[leg.node] = {"position": leg.to} | ({"start": leg.at} if leg.at > 0 else {})
    return Motes(found.form, motes, found.notes)
