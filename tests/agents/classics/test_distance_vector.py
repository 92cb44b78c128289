"""Tests of distance-vector routing: the final routes against networkx, and the behaviour after a link is cut."""

from collections.abc import Hashable
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import BadInput, Link, Network, latency, topology
from netsim.agents.classics import DistanceVector
from netsim.faults import Crash, LinkDown

RULES = ["off", "simple", "poisoned"]


def route(
    graph: Any, link: Link, seed: int = 0, until: float = 30, faults: Any = (), watched: Hashable = None, **rule: Any
) -> Any:
    settings = {"infinity": 500, "period": 1.0, "timeout": 10.0} | rule
    agents = {
        each: DistanceVector({other: edge.get("weight", 1) for other, edge in graph[each].items()}, **settings)
        for each in graph
    }
    network = Network(graph, link, seed=seed, faults=faults)
    network.watch({"far": lambda agent: agent.distance.get(watched, -1)})
    return network.run(agents, until=until)


def check_routes(run: Any, graph: Any) -> None:
    """Check that distances equal Dijkstra's, and that the next hops lead to each destination over this distance."""
    for start, agent in run.agents.items():
        true = nx.single_source_dijkstra_path_length(graph, start)
        known = {to: far for to, far in agent.distance.items() if far < agent.infinity}
        assert known == true
        for to in true:
            here, walked = start, 0.0
            while here != to:
                onward = run.agents[here].hop[to]
                walked += graph[here][onward].get("weight", 1)
                here = onward
            assert walked == true[to]


def weighted(seed: int, count: int = 8) -> Any:
    graph, rng = topology.random_geometric(count, 0.5, seed=seed), np.random.default_rng(seed)
    for a, b in graph.edges:
        graph[a][b]["weight"] = int(rng.integers(1, 10))
    return graph


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("triggered", [True, False])
def test_the_routes_are_the_shortest(rule: str, triggered: bool) -> None:
    """Random weighted graphs, on links that lose, duplicate and reorder frames."""
    link = Link(latency=latency.uniform(0.01, 0.2), loss=0.2, duplicate=0.1)
    for seed in range(2):
        graph = weighted(seed)
        check_routes(route(graph, link, seed, split_horizon=rule, triggered=triggered, timeout=20.0), graph)


def test_the_routes_are_the_shortest_in_hops_too() -> None:
    for seed in range(3):
        graph = topology.random_geometric(10, 0.45, seed=seed)
        check_routes(route(graph, Link(latency=0.1), seed, until=20), graph)


@pytest.mark.parametrize("rule", RULES)
def test_after_a_cut_the_routes_are_those_that_are_left(rule: str) -> None:
    for seed in range(2):
        graph = weighted(seed)
        left = graph.copy()
        cuts = [edge for number, edge in enumerate(graph.edges) if number % 3 == 0]
        left.remove_edges_from(cuts)
        faults = [LinkDown(a, b, at=15.0) for a, b in cuts]
        run = route(graph, Link(latency=0.05, loss=0.1), seed, until=70, faults=faults, infinity=64, split_horizon=rule)
        check_routes(run, left)


def test_a_router_that_restarts_learns_all_again() -> None:
    graph = weighted(3)
    check_routes(route(graph, Link(latency=0.05), faults=[Crash(2, at=10.0, until=25.0)], until=60), graph)


def counted(run: Any, agent: Hashable, after: float) -> list[float]:
    states = run.states
    return list(states[(states["agent"] == agent) & (states["time_s"] > after)]["far"])


def two_node_loop(seed: int, **rule: Any) -> list[float]:
    """Cut link 1–2 of the path 0–1–2, and return the successive distances from node 1 to node 2."""
    graph = topology.path(3)
    settings = {"infinity": 16, "timeout": 3.0, **rule}
    run = route(graph, Link(latency=0.01), seed, 60, [LinkDown(1, 2, at=10.0)], 2, **settings)
    assert [run.agents[i].route(2) for i in range(2)] == ["unreachable"] * 2
    return counted(run, 1, 10.0)


def test_two_nodes_count_to_infinity() -> None:
    """If node 0 advertises its old route first, node 1 counts 3, 5, … to infinity; otherwise it stays at infinity."""
    ways = {tuple(two_node_loop(seed, split_horizon="off", triggered=False)) for seed in range(12)}
    assert ways == {(16,), (16, 3, 5, 7, 9, 11, 13, 15, 16)}


@pytest.mark.parametrize("rule", ["simple", "poisoned"])
def test_split_horizon_prevents_loops_of_two(rule: str) -> None:
    for seed in range(12):
        assert two_node_loop(seed, split_horizon=rule, triggered=False) == [16]


@pytest.mark.parametrize("rule", ["simple", "poisoned"])
def test_split_horizon_does_not_prevent_loops_of_three(rule: str) -> None:
    """C's message that D is unreachable reaches A but not B; B's old route then spreads to A, C, and back to B."""
    graph = nx.Graph([("A", "B"), ("B", "C"), ("C", "A"), ("C", "D")])
    settings: dict[str, Any] = {"infinity": 16, "timeout": 4.0, "watched": "D", "split_horizon": rule}
    ways = set()
    for seed in range(10):
        run = route(graph, Link(latency=0.01, loss=0.2), seed, 60, [LinkDown("C", "D", at=10.0)], **settings)
        assert [run.agents[each].route("D") for each in "ABC"] == ["unreachable"] * 3
        ways.add(tuple(counted(run, "C", 10.0)))
    assert (16,) in ways
    assert (16, 4, 7, 10, 13, 16) in ways


def test_a_route_in_words() -> None:
    graph = topology.path(3)
    run = route(graph, Link(latency=0.1), faults=[LinkDown(1, 2, at=10.0)])
    words = [run.agents[0].route(to) for to in (0, 1, 2, 3)]
    assert words == ["here", "1 via 1", "unreachable", "unknown"]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"split_horizon": "on"}, "split_horizon = 'on': must be"),
        ({"infinity": 0}, "infinity = 0: must be"),
        ({"period": 0}, "period = 0: must be"),
        ({"timeout": -1}, "timeout = -1: must be"),
        ({"costs": {1: 0}}, "costs = 0: must be"),
        ({"costs": [1]}, "costs = [1]: must be a mapping"),
        ({"triggered": 1}, "triggered = 1: must be"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(bad: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput) as error:
        DistanceVector(**bad)
    assert str(error.value).startswith(told)
    assert "\n" not in str(error.value)
