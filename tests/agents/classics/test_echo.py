"""Tests of the echo algorithm against networkx, on every connected graph of up to six agents and on larger ones."""

from typing import Any

import networkx as nx
import pytest

from netsim import BadInput, Link, Network, Stalled, latency, topology
from netsim.agents.classics import Echo
from tests.parts import slow

LATE = latency.uniform(0.01, 0.3)
SMALL = [graph for graph in nx.graph_atlas_g() if len(graph) in range(2, 7) and nx.is_connected(graph)]


def wave(graph: Any, first: Any, seed: int = 0, *, link: Link | None = None, **settings: Any) -> Any:
    network = Network(graph, link or Link(latency=LATE), seed=seed)
    network.watch(["status"])
    values = settings.pop("values", {})
    agents = {i: Echo(i == first, **settings, **({"value": values[i]} if values else {})) for i in graph}
    return network.run(agents, trace=True)


def check_tree(run: Any, graph: Any, first: Any) -> None:
    tree: nx.Graph[Any] = nx.Graph([(i, agent.parent) for i, agent in run.agents.items() if i != first])
    tree.add_node(first)
    assert nx.is_tree(tree)
    assert set(tree) == set(graph)
    assert all(graph.has_edge(*edge) for edge in tree.edges)
    assert run.agents[first].parent is None
    for i, agent in run.agents.items():
        assert sorted(agent.children) == sorted(j for j, other in run.agents.items() if other.parent == i)
    below = nx.bfs_tree(tree, first)
    for i, agent in run.agents.items():
        assert agent.result == 1 + len(nx.descendants(below, i))


def test_every_small_graph() -> None:
    assert len(SMALL) == 142
    for seed, graph in enumerate(SMALL):
        first = seed % len(graph)
        run = wave(graph, first, seed)
        assert run.agents[first].result == len(graph)
        assert run.ledger.transmissions == 2 * graph.number_of_edges()
        assert all(agent.status == "done" for agent in run.agents.values())
        check_tree(run, graph, first)


@pytest.mark.parametrize("seed", [*range(8), *map(slow, range(8, 20))])
def test_larger_graphs(seed: int) -> None:
    graph = topology.random_geometric(30, 0.35, seed=seed)
    run = wave(graph, seed % 30, seed)
    assert run.agents[seed % 30].result == 30
    check_tree(run, graph, seed % 30)
    # An agent finishes after all its children, so the initiator finishes last.
    done = run.states[run.states["status"] == "done"].set_index("agent")["time_s"]
    for i, agent in run.agents.items():
        assert all(done[child] < done[i] for child in agent.children)
    assert done.idxmax() == seed % 30
    assert run.ended_at == done.max()


def test_other_aggregates() -> None:
    graph = topology.random_geometric(15, 0.5, seed=3)
    values = {i: (7 * i) % 15 - 4 for i in graph}
    assert wave(graph, 2, values=values).agents[2].result == sum(values.values())
    assert wave(graph, 2, values=values, combine=max).agents[2].result == max(values.values())
    assert wave(graph, 2, values=values, combine=min).agents[2].result == min(values.values())
    lists = {i: [i] for i in graph}
    assert sorted(wave(graph, 2, values=lists).agents[2].result) == sorted(graph)


def test_a_constant_latency_gives_shortest_ways() -> None:
    graph = topology.random_geometric(20, 0.4, seed=5)
    run = wave(graph, 0, link=Link(latency=0.1))
    depth = nx.single_source_shortest_path_length(graph, 0)
    assert all(depth[i] == 1 + depth[agent.parent] for i, agent in run.agents.items() if i)


def test_losses_stall_it_and_acknowledgements_help() -> None:
    graph = topology.grid(3, 4)
    with pytest.raises(Stalled):
        wave(graph, 0, link=Link(latency=LATE, loss=0.3))
    run = wave(graph, 0, link=Link(latency=LATE, loss=0.3, reliability="ack"))
    assert run.agents[0].result == 12


def test_bad_arguments() -> None:
    with pytest.raises(BadInput, match="combine = 3: must be a function of two values"):
        Echo(combine=3)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="first = 1"):
        Echo(1)  # type: ignore[arg-type]
