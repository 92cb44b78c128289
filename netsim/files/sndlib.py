"""Read networks of SNDlib, in its native format and in XML: nodes, links, and the capacities of links.

Source: S. Orlowski, R. Wessäly, M. Pióro, A. Tomaszewski, "SNDlib 1.0: Survivable Network Design Library", Networks
2010, and the descriptions of both formats at sndlib.zib.de.
"""

import re
from typing import Any
from xml.etree import ElementTree

import networkx as nx

from netsim.files.content import FileContent
from netsim.files.parsed_graph import ParsedGraph, left_out

__all__ = ["is_native", "of_native", "of_xml"]

_SECTION = re.compile(r"([A-Z_]+)\s*\($")
_WORD = r"([^\s()]+)"
_NODE = re.compile(rf"{_WORD}(?:\s*\(\s*{_WORD}\s+{_WORD}\s*\))?$")
_LINK = re.compile(rf"{_WORD}\s*\(\s*{_WORD}\s+{_WORD}\s*\)((?:\s+[^\s()]+)*)(?:\s*\(([^()]*)\))?$")


def is_native(text: str) -> bool:
    """Return whether a text is in SNDlib's native format, recognised by its header or its first sections."""
    return text.lstrip().startswith("?SNDlib") or (
        re.search(r"^NODES \($", text, re.MULTILINE) is not None
        and re.search(r"^LINKS \($", text, re.MULTILINE) is not None
    )


def of_native(source: FileContent) -> ParsedGraph:
    """Return the graph of a network in the native format.

    Nodes have ``Longitude`` and ``Latitude``. The ``capacity`` of an edge is the pre-installed capacity or, if that is
    0, the capacity of the smallest module. The format does not define its unit. The ``weight`` of an edge is the
    routing cost; it is left out if it is 0.
    """
    graph: nx.MultiGraph[Any] = nx.MultiGraph()
    section, demands = "", 0
    for line, text in source.lines():
        if begins := _SECTION.match(text):
            section = begins[1]
        elif text == ")":
            section = ""
        elif section == "NODES":
            _add_node(source, graph, line, text)
        elif section == "LINKS":
            _add_link(source, graph, line, text)
        demands += section == "DEMANDS" and not begins
    return ParsedGraph("SNDlib", graph, left_out(demands, "demand"))


def _add_node(source: FileContent, graph: "nx.MultiGraph[Any]", line: int, text: str) -> None:
    found = _NODE.match(text)
    if found is None or found[1] in graph:
        raise source.refuse("a node of its own name: NAME ( LONGITUDE LATITUDE )", line)
    degrees = {} if found[2] is None else {"Longitude": found[2], "Latitude": found[3]}
    graph.add_node(found[1], **{name: source.number(each, name.lower(), line) for name, each in degrees.items()})


def _add_link(source: FileContent, graph: "nx.MultiGraph[Any]", line: int, text: str) -> None:
    found = _LINK.match(text)
    if found is None or not {found[2], found[3]} <= set(graph):
        raise source.refuse(
            "a link between nodes: NAME ( SOURCE TARGET ) CAPACITY COST ROUTING SETUP ( MODULES )", line
        )
    numbers = [source.number(each, "number of a link", line) for each in found[4].split()]
    modules = [source.number(each, "module", line) for each in (found[5] or "").split()]
    capacity, weight = (numbers + [0.0] * 4)[0:3:2]
    _add(graph, found[2], found[3], capacity, weight, modules[::2])


def _add(
    graph: "nx.MultiGraph[Any]", source: str, target: str, capacity: float, weight: float, modules: list[float]
) -> None:
    more = {"capacity": capacity or min(modules, default=0.0), "weight": weight}
    graph.add_edge(source, target, **{name: value for name, value in more.items() if value})


def of_xml(source: FileContent) -> ParsedGraph:
    """Return the graph of a network in XML, with the same attributes as in `of_native`.

    Coordinates of the type ``geographical`` are degrees. Coordinates of the type ``pixel`` are positions in a drawing,
    and are ignored.
    """
    graph: nx.MultiGraph[Any] = nx.MultiGraph()
    root = source.xml()
    nodes = root.find("networkStructure/nodes")
    links = root.find("networkStructure/links")
    if nodes is None or links is None:
        raise source.refuse("a network of SNDlib, with nodes and links")
    is_geographical = nodes.get("coordinatesType", "geographical") == "geographical"
    drawn = 0
    for node in nodes.findall("node"):
        name = node.get("id")
        if name is None or name in graph:
            raise source.refuse(f"a network whose nodes have ids that differ; one is {name!r}")
        x, y = node.findtext("coordinates/x"), node.findtext("coordinates/y")
        graph.add_node(name)
        if x is not None and y is not None and is_geographical:
            graph.nodes[name].update(Longitude=source.number(x, "x"), Latitude=source.number(y, "y"))
        drawn += x is not None and not is_geographical
    for link in links.findall("link"):
        _add_xml_link(source, graph, link)
    notes = left_out(len(root.findall("demands/demand")), "demand") + left_out(drawn, "place", " in a drawing")
    return ParsedGraph("SNDlib's XML", graph, notes)


def _add_xml_link(source: FileContent, graph: "nx.MultiGraph[Any]", link: ElementTree.Element) -> None:
    ends = link.findtext("source", "").strip(), link.findtext("target", "").strip()
    for end in ends:
        if end not in graph:
            raise source.refuse(f"a network whose links are between its nodes; {end[:40]!r} is none")
    capacity = source.number(link.findtext("preInstalledModule/capacity", "0"), "capacity")
    weight = source.number(link.findtext("routingCost", "0"), "routingCost")
    modules = [source.number(each.text, "capacity") for each in link.findall("additionalModules/addModule/capacity")]
    _add(graph, *ends, capacity, weight, modules)
