"""The assignment of agents to workers: groups of about equal size, with few links between them."""

import sys
from collections import Counter

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim import topology
from netsim.parallel.partition import grown, partition
from tests.netsim.parallel.test_workers import averaged, mean
from tests.parts import only_with

GRAPHS = {
    "random": nx.gnm_random_graph(400, 2000, seed=1),
    "geometric": nx.random_geometric_graph(400, 0.1, seed=1),
    "grid": nx.grid_2d_graph(20, 20),
    "ring": nx.cycle_graph(400),
    "small world": nx.watts_strogatz_graph(400, 4, 0.1, seed=1),
    "star": nx.star_graph(399),
}


def crossing(graph: "nx.Graph[object]", place: dict[object, int]) -> int:
    return sum(place[one] != place[other] for one, other in graph.edges)


@pytest.mark.parametrize("way", [partition, grown])
@given(count=st.integers(1, 40), density=st.floats(0.0, 0.5), seed=st.integers(0, 99), data=st.data())
def test_every_worker_has_its_share(way: object, count: int, density: float, seed: int, data: st.DataObject) -> None:
    graph = nx.gnp_random_graph(count, density, seed=seed)
    workers = data.draw(st.integers(1, count))
    place = way(graph, workers)  # type: ignore[operator]
    assert place == way(graph, workers)  # type: ignore[operator]
    assert list(place) == list(graph)
    sizes = Counter(place.values())
    assert set(sizes) == set(range(workers))
    assert max(sizes.values()) <= 1.03 * count / workers + 1


@only_with("pymetis")
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_metis_cuts_no_more_links(name: str, workers: int) -> None:
    graph = GRAPHS[name]
    place = partition(graph, workers)
    assert max(Counter(place.values()).values()) <= 1.03 * len(graph) / workers + 1
    assert crossing(graph, place) <= crossing(graph, grown(graph, workers))


def test_without_pymetis_parts_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    for graph in GRAPHS.values():
        assert partition(graph, 3) == grown(graph, 3)


@only_with("pymetis")
def test_the_partition_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = topology.ring(12)
    with_metis = averaged(3, probes=[mean])
    chosen = partition(ring, 3)
    monkeypatch.setitem(sys.modules, "pymetis", None)
    assert chosen != partition(ring, 3)
    without = averaged(3, probes=[mean])
    assert with_metis.trace_hash == without.trace_hash
    assert with_metis.rounds.equals(without.rounds)
    assert with_metis.ledger.table().equals(without.ledger.table())
