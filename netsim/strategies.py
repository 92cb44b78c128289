"""Hypothesis strategies for networks and faults; they shrink to small graphs, ideal links and no faults.

>>> from functools import partial
>>> from hypothesis import given
>>> from netsim.strategies import faults, networks
>>> @given(network=networks(faults=partial(faults, until=5.0)))
... def test_all_hear(network):
...     ...

The strategies need the package hypothesis, which is only imported when one of them is called.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import networkx as nx

from netsim.faults import Crash, Fault, Faults, LinkDown, Lose, Partition, Straggler
from netsim.links.link import Link
from netsim.network import Network
from netsim.util import check

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

__all__ = ["faults", "networks"]

_LATENCIES = (0.0, 0.001, 0.01, 0.1, 0.5)
_LOSSES = (0.0, 0.05, 0.2, 0.5)


def networks(
    *,
    most_nodes: int = 6,
    faults: "Callable[[nx.Graph[Any]], SearchStrategy[Faults]] | None" = None,
    **settings: Any,
) -> "SearchStrategy[Network]":
    """Return a strategy for networks: a connected graph of 2 to ``most_nodes`` nodes 0, 1, …, equal links, a seed.

    A link has a latency of 0 to 0.5 s, loses up to half of its frames, and may duplicate and reorder them.

    Parameters
    ----------
    most_nodes : int
        The largest number of nodes, at least 2.
    faults : callable, optional
        Maps a graph to a strategy for its faults, such as ``partial(faults, until=5.0)``; by default there are no
        faults.
    settings : object
        Further arguments of `netsim.Network`; given settings, such as ``link``, are not drawn.

    Raises
    ------
    BadInput
        If an argument cannot be used, or hypothesis is not installed.
    """
    check.installed("netsim.strategies", "hypothesis", "test")
    from hypothesis import strategies as st

    most_nodes = check.integer("most_nodes", most_nodes, low=2)

    @st.composite
    def drawn(draw: "DrawFn") -> Network:
        graph = nx.path_graph(draw(st.integers(2, most_nodes)))
        pairs = list(nx.non_edges(graph))
        graph.add_edges_from(draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else [])
        own: dict[str, Any] = {}
        if "link" not in settings:
            latency, loss = draw(st.sampled_from(_LATENCIES)), draw(st.sampled_from(_LOSSES))
            duplicate, fifo = draw(st.sampled_from((0.0, 0.1))), draw(st.booleans())
            own["link"] = Link(latency=latency, loss=loss, duplicate=duplicate, fifo=fifo)
        if "seed" not in settings:
            own["seed"] = draw(st.integers(0, 2**32 - 1))
        if faults is not None:
            own["faults"] = draw(faults(graph))
        return Network(graph, **own, **settings)

    return drawn()


def faults(graph: "nx.Graph[Any]", *, until: float, most: int = 3) -> "SearchStrategy[Faults]":
    """Return a strategy for scripts of up to ``most`` faults: crashes, cut links, lost frames, partitions, stragglers.

    Parameters
    ----------
    graph : networkx Graph
        The network's graph, of at least two nodes.
    until : float
        The simulated time (s) before which all faults begin and end, at multiples of 0.1 s.
    most : int
        The largest number of faults.

    Raises
    ------
    BadInput
        If an argument cannot be used, or hypothesis is not installed.
    """
    check.installed("netsim.strategies", "hypothesis", "test")
    from hypothesis import strategies as st

    until, most = check.finite("until", until, above=0.2), check.integer("most", most, low=0)
    nodes, links = list(graph), list(graph.edges)
    if len(nodes) < 2 or not links:
        raise check.refuse("graph", graph, "a graph with a link")
    last = max(int(10 * until) - 1, 1)
    node, link = st.sampled_from(nodes), st.sampled_from(links)

    @st.composite
    def fault(draw: "DrawFn") -> Fault:
        begin = draw(st.integers(0, last - 1))
        # None comes first, and simple faults before complex ones, because hypothesis shrinks towards the first.
        end = draw(st.none() | st.integers(begin + 1, last))
        at, to = begin / 10, None if end is None else end / 10
        kind = draw(st.sampled_from((Lose, LinkDown, Crash, Straggler, Partition)))
        if kind in (Lose, LinkDown):
            sender, receiver = draw(link)
            return Lose(sender, receiver, at) if kind is Lose else LinkDown(sender, receiver, at, to)
        if kind is Crash:
            return Crash(draw(node), at, to, keeps_state=to is not None and draw(st.booleans()))
        if kind is Straggler:
            return Straggler(draw(node), draw(st.sampled_from((0.1, 0.5, 1.0))), at, to)
        sides = st.lists(node, min_size=1, max_size=len(nodes) - 1, unique=True)
        return Partition(tuple(draw(sides)), at, to)

    return st.lists(fault(), max_size=most).map(Faults)
