"""Read Rocketfuel's maps of internet providers: routers with links, and links with latencies or weights.

Sources: N. Spring, R. Mahajan, D. Wetherall, T. Anderson, "Measuring ISP Topologies with Rocketfuel", IEEE/ACM ToN
2004; R. Mahajan, N. Spring, D. Wetherall, T. Anderson, "Inferring Link Weights using End-to-End Measurements", IMW
2002; and the descriptions of the files at research.cs.washington.edu/networking/rocketfuel.
"""

import re
from typing import Any

import networkx as nx

from netsim.files.content import FileContent
from netsim.files.parsed_graph import ParsedGraph, left_out, parallel_edges

__all__ = ["is_map", "is_weights", "of_map", "of_weights"]

# A router's line: uid @loc [+] [bb] (num_neigh) [&ext] -> <nuid-1> <nuid-2> ... {-euid} ... =name[!] rn
_ROUTER = re.compile(
    r"(\d{1,15}) @(\S*)(?: \+)?( bb)? ?\s*\(\d+\)(?: &\d+)? ->((?: <\d{1,15}>)*)((?: \{-\d+\})*)(?: =(\S*))?.*"
)
_OUTSIDE = re.compile(r"-\d+ =")
_ROUTER_NAME = r"[^\s,]+,\+?[^\s,]*\d"
_WEIGHTS = re.compile(rf"{_ROUTER_NAME} {_ROUTER_NAME} [-+.\deE]+")


def is_map(source: FileContent) -> bool:
    """Return whether a file is a map of routers, by its file name or because its first line describes a router."""
    first = next(source.lines(), None)
    return source.suffix == ".cch" or (first is not None and _ROUTER.fullmatch(first[1]) is not None)


def of_map(source: FileContent) -> ParsedGraph:
    """Return the graph of a map (``.cch``); routers have the attributes ``location``, ``address`` and ``backbone``.

    Links to routers of other providers are left out.
    """
    graph: nx.Graph[Any] = nx.Graph()
    outside, ends = 0, list[tuple[int, int]]()
    for line, text in source.lines():
        if _OUTSIDE.match(text):
            continue
        found = _ROUTER.fullmatch(text)
        if found is None:
            raise source.refuse("a router of Rocketfuel: UID @LOCATION (COUNT) -> <UID> ... =NAME rN", line)
        router = int(found[1])
        # In the file, "?" means an unknown and "T" an uncertain location, and blanks are written as +.
        location = found[2].removesuffix(",").replace("+", " ").strip()
        graph.add_node(router, location=location, backbone=found[3] is not None, address=found[6] or "")
        ends += [(router, int(other)) for other in re.findall(r"\d+", found[4])]
        outside += found[5].count("{")
    # A router that has no line in the file is outside the map, so leave out links to it.
    graph.add_edges_from((a, b) for a, b in ends if b in graph)
    outside += sum(b not in graph for _, b in ends)
    return ParsedGraph("Rocketfuel's map", graph, left_out(outside, "link", " out of the map"))


def is_weights(source: FileContent) -> bool:
    """Return whether a file lists links with latencies or weights, by its file name or the form of its lines."""
    lines = [text for _, text in source.lines()]
    return source.suffix == ".intra" or (bool(lines) and all(_WEIGHTS.fullmatch(text) for text in lines))


def of_weights(source: FileContent) -> ParsedGraph:
    """Return the graph of a list of links; the file name determines what the numbers of the links mean.

    In ``latencies.intra`` the numbers are milliseconds, and are stored as ``latency`` in seconds. In any other file
    they are stored as ``weight``.
    """
    is_latency = "latenc" in source.path.name.lower()
    graph: nx.Graph[Any] = nx.Graph()
    ends: list[tuple[str, str]] = []
    for line, text in source.lines():
        cells = text.split()
        if len(cells) != 3:
            raise source.refuse("two routers and a number", line)
        a, b, value = cells[0], cells[1], source.number(cells[2], "third column", line)
        if value < 0:
            raise source.refuse(f"two routers and a number >= 0; it is {cells[2]}", line)
        ends.append((a, b))
        if not graph.has_edge(a, b):
            graph.add_edge(a, b, **({"latency": value / 1000} if is_latency else {"weight": value}))
    notes = ["latencies are milliseconds"] if is_latency else ["numbers are weights: the name says no latencies"]
    return ParsedGraph("Rocketfuel", graph, notes + parallel_edges(ends))
