"""Export a run's topology, with counts of the frames on each link, as a networkx graph, GraphML or JSON."""

import io
import json
import math
import re
import reprlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim._version import __version__
from netsim.core.records import key_shift
from netsim.errors import BadInput
from netsim.replay.frames import Log, Reader
from netsim.replay.render import About
from netsim.util.files import write_pieces

__all__ = ["graph_of", "write_graphml", "write_json"]

Graph: TypeAlias = "nx.DiGraph[Any]"

# Characters that XML 1.0 does not allow.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def graph_of(log: Log, *, about: About | None = None) -> Graph:
    """Return the topology of a run, with the counts of frames on each link.

    Parameters
    ----------
    log : Log
        The trace.
    about : About, optional
        Its title and command become attributes of the graph.

    Returns
    -------
    DiGraph
        It has a node for each agent, in the run's order. If the run had positions, nodes have the attributes ``x``,
        ``y`` and ``pos`` = (x, y). It has an edge for each directed link. The edge's attributes are the ledger's counts
        ``offered``, ``duplicated``, each cause and ``in_flight``, and ``wire_bits`` if the medium is wires. The
        attributes of the graph are ``title``, ``command``, ``netsim``, ``medium``, ``round_period`` and ``ended_at``
        (s).

    Raises
    ------
    BadInput
        If the trace was written by an incompatible version, or the names of two agents have the same text, such as 1
        and "1".
    """
    reader, names, about = Reader(log), list(log.agents), about or About()
    scene = reader.scene
    graph: Graph = nx.DiGraph()
    texts = {"title": about.title, "command": about.command, "netsim": __version__, "medium": scene.medium}
    graph.graph |= {key: text for key, text in texts.items() if text}
    graph.graph |= {"round_period": scene.round_period, "ended_at": scene.ended_at}
    _check_differ(names, "as names of nodes")
    graph.add_nodes_from(names)
    for name, place in zip(names, scene.positions or (), strict=False):
        graph.nodes[name].update(x=place[0], y=place[1], pos=place)
    counts = _counts(log, reader)
    rows = zip(*(column.tolist() for column in counts.values()), strict=True)
    for sender, receiver, row in zip(*(end.tolist() for end in log.links), rows, strict=True):
        graph.add_edge(names[sender], names[receiver], **dict(zip(counts, row, strict=True)))
    return graph


def write_graphml(log: Log, path: str | Path, *, about: About | None = None) -> Path:
    """Write the topology of a run as GraphML and return the file's path.

    The graph is that of `graph_of`, with three differences: nodes have no ``pos``, names are text, and characters that
    XML does not allow are escaped.

    Raises
    ------
    BadInput
        As `graph_of` does, or if the names of two agents are the same text.
    NetsimError
        If the file cannot be written.
    """
    graph = _renamed(graph_of(log, about=about), lambda name: _for_xml(str(name)))
    graph.graph = {key: _for_xml(value) if isinstance(value, str) else value for key, value in graph.graph.items()}
    for data in graph.nodes.values():
        data.pop("pos", None)
    made = io.BytesIO()
    nx.write_graphml_xml(graph, made, named_key_ids=True)
    return write_pieces(path, [made.getvalue()])


def write_json(log: Log, path: str | Path, *, about: About | None = None) -> Path:
    """Write the topology of a run as networkx's node-link JSON and return the file's path.

    The graph is that of `graph_of`. Names remain text or numbers, tuples become lists, and other names, such as bytes,
    become text.

    Raises
    ------
    BadInput
        As `graph_of` does, or if two agents get the same name.
    NetsimError
        If the file cannot be written.
    """
    graph = _renamed(graph_of(log, about=about), _for_json)
    made = json.dumps(nx.node_link_data(graph, edges="edges"), allow_nan=False, indent=1)
    return write_pieces(path, [made.encode(), b"\n"])


def _counts(log: Log, reader: Reader) -> dict[str, NDArray[np.int64]]:
    """Return {name of a count: array of shape (links,)}, the counts of the frames on each link."""
    agents = len(log.agents)
    senders, receivers = log.links
    order = np.lexsort([receivers, senders])
    pairs = (senders * agents + receivers)[order]
    ends = np.zeros((len(order), len(reader.causes)), dtype=np.int64)
    bits, copies = np.zeros(len(order), dtype=np.int64), np.zeros(len(order), dtype=np.int64)
    for part in reader.parts():
        link = order[np.searchsorted(pairs, part["sender"].astype(np.int64) * agents + part["receiver"])]
        np.add.at(ends, (link, part["cause"]), 1)
        np.add.at(bits, link, part["bits"])
    shift = key_shift(len(order))
    several = [left[left["number"] != left["key"] & ((1 << shift) - 1)] for left in log.chunks("left")]
    if several:
        # A duplicate has its own number in its key. The link made it, so its bits were not sent a second time: subtract
        # them. A duplicate has several records if the link's rate changed while the frame waited; use only the first.
        second = np.concatenate(several)
        second = second[np.unique(second["key"], return_index=True)[1]]
        np.add.at(copies, second["key"] >> shift, 1)
        np.subtract.at(bits, second["key"] >> shift, second["bits"])
    counts = {"offered": ends.sum(axis=1) - copies, "duplicated": copies}
    counts |= dict(zip(reader.causes, ends.T, strict=True))
    return counts | ({"wire_bits": bits} if reader.scene.medium == "wires" else {})


def _renamed(graph: Graph, rename: Callable[[Any], Any]) -> Graph:
    names = {name: rename(name) for name in graph}
    _check_differ(list(names.values()), "in such a file")
    renamed: Graph = nx.relabel_nodes(graph, names)
    return renamed


def _check_differ(names: list[Any], where: str) -> None:
    [(name, count)] = Counter(names).most_common(1)
    if count > 1:
        raise BadInput(f"agents: must have names that differ {where}; {count} are {reprlib.repr(name)}")


def _for_xml(text: str) -> str:
    return _NOT_IN_XML.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _for_json(name: Any) -> Any:
    if isinstance(name, tuple):
        return tuple(map(_for_json, name))
    if isinstance(name, np.generic):
        name = name.item()
    is_number = isinstance(name, int) or (isinstance(name, float) and math.isfinite(name))
    return name if is_number or isinstance(name, str) else str(name)
