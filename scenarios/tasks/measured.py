"""Measured networks for tasks of learning, whose agents are numbered."""

import networkx as nx

from netsim.links.measured import Measured
from netsim.links.reliability import WAYS
from netsim.scenarios.tasks.method import REMEDIES
from netsim.scenarios.tasks.settings import chosen_names


def numbered(measured: Measured) -> Measured:
    """Return the network with nodes 0, 1, … in its own order; each keeps its name as ``mote``, and its position."""
    number = {node: place for place, node in enumerate(measured.graph)}
    graph = nx.relabel_nodes(measured.graph, number)
    nx.set_node_attributes(graph, {place: node for node, place in number.items()}, "mote")
    links = {(number[sender], number[receiver]): link for (sender, receiver), link in measured.links.items()}
    return Measured(graph, links)


def reception(measured: Measured) -> float:
    """Return the mean share of frames that a link delivers, over both directions of all links."""
    return 1.0 - sum(link.loss_model.mean for link in measured.links.values()) / len(measured.links)


def ways_in(remedies: str) -> list[str]:
    """Return what is to be done about lost frames, as a parameter lists it: a way to keep the duals, or reliability.

    Raises
    ------
    BadInput
        For an unknown one.
    """
    found = chosen_names("remedies", remedies, dict.fromkeys([*REMEDIES, *WAYS]))
    return [way for way in found if way != "none"]


def reliability_of(way: str) -> str:
    """Return what links do about lost frames under a remedy: "none" if it is one of the agents' own."""
    return way if way in WAYS else "none"
