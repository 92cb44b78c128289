"""FTSP: all nodes adopt one root's time, although their clocks are skewed and the root may fail."""

from dataclasses import replace
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import BadInput, Deployment, Network, presets
from netsim.agents import FTSP
from netsim.faults import ClockSkew, Crash

PRESET = presets.ieee802154(acks=False)
RADIO = replace(PRESET.medium, access="aloha")
NODES = 8


def errors(until: float, ask: list[float], faults: Any = (), nodes: int = NODES, **kwargs: Any) -> Any:
    """Return each node's global time minus node 0's clock at the times `ask` (s); None for unsynchronised nodes."""
    rng = np.random.default_rng(3)
    clocks = [ClockSkew(k, offset=rng.uniform(-5, 5), drift=rng.uniform(-50e-6, 50e-6)) for k in range(nodes)]
    agents = {node: FTSP(**kwargs) for node in range(nodes)}
    network = Network(nx.path_graph(nodes), PRESET.link, medium=RADIO, faults=[*clocks, *faults], seed=4)
    found: dict[float, list[float | None]] = {}

    def look(time: float) -> None:
        root = clocks[0].clock.local(time)
        found[time] = [agent.global_time() - root if agent.is_synchronised else None for agent in agents.values()]

    for time in ask:
        network.at(time, partial(look, time))
    network.run(agents, until=until)
    return [found[time] for time in ask], agents, clocks


def test_all_nodes_of_a_line_know_the_roots_time() -> None:
    """A hop receives one beacon per period: it forwards the time after three, and its regression needs eight."""
    period = 10.0
    late = (5 + 7 * 4 + 40) * period
    [early, end], agents, clocks = errors(late + 1, [1.0, late], period=period)
    assert early.count(None) >= NODES - 1
    assert None not in end
    assert {agent.root for agent in agents.values()} == {0}
    # The clocks themselves differ by seconds.
    assert max(abs(each) for each in end) < 1e-6
    apart = [each.clock.local(late) - clocks[0].clock.local(late) for each in clocks]
    assert max(map(abs, apart)) > 1


def test_a_failed_root_is_replaced_and_time_goes_on() -> None:
    period = 10.0
    crash = Crash(0, at=800.0)
    [before, after], agents, _ = errors(1400.0, [790.0, 1390.0], [crash], period=period)
    assert max(abs(each) for each in before) < 1e-6
    assert {agent.root for node, agent in agents.items() if node} == {1}
    # Node 1 continues from its estimate of node 0's time and drift.
    assert max(abs(each) for each in after[1:]) < 1e-4


def test_drift_is_estimated_not_only_offset() -> None:
    """Over the 300 s between two beacons, a drift of 50 ppm would accumulate to 15 ms."""
    [end], _, clocks = errors(300.0 * 20 + 299, [300.0 * 20 + 290], nodes=2, period=300.0)
    assert abs(clocks[1].drift - clocks[0].drift) > 1e-6
    assert end[1] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"table": 10**30}, r"^table = 10+: must be a whole number from 3 to 1000000$"),
        ({"table": 2}, r"^table = 2: must be a whole number from 3 to 1000000$"),
        ({"least": 1}, r"^least = 1: must be a whole number from 2 to 1000000$"),
    ],
)
def test_a_table_has_a_size(settings: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        FTSP(**settings)


def sparse(seed: int, motes: int = 25) -> Deployment:
    """Return motes at random positions, in a network at least seven hops wide, with clock errors of 40 ppm and 2 s."""
    rng = np.random.default_rng(seed)
    while True:
        places = {node: tuple(rng.uniform(0.0, 100.0, 2).tolist()) for node in range(motes)}
        preset = presets.ieee802154(acks=False, power_dbm=-10)
        site = Deployment(places, preset=preset, drift_ppm=40, offset=2.0, connected=False, seed=seed)
        if nx.is_connected(site.graph) and nx.diameter(site.graph) >= 7:
            return site


def play(site: Deployment, until: float, faults: Any = (), **kwargs: Any) -> Any:
    """Run FTSP, and return the synchronised nodes' global times, recorded every 10 s, and the agents."""
    agents = {node: FTSP(**kwargs) for node in site.positions}
    radio = replace(site.preset.radio, access="aloha")  # type: ignore[type-var]
    network = site.network(radio=radio, faults=faults, seed=1)
    said: list[dict[Any, float]] = []

    def look() -> None:
        said.append({node: agent.global_time() for node, agent in agents.items() if agent.is_synchronised})

    for k in range(int(until // 10)):
        network.at(10.0 * k + 9.999, look)
    network.run(agents, until=until)
    return said, agents


@pytest.mark.parametrize("seed", [1, 2])
def test_a_sparse_site_starts_cold_and_claims_nothing_that_is_wrong(seed: int) -> None:
    """All nodes that consider themselves synchronised agree on the time, at every moment of the run."""
    said, agents = play(sparse(seed), 720.0)
    assert {agent.root for agent in agents.values()} == {0}
    assert max(max(times.values()) - min(times.values()) for times in said if times) < 2e-6
    all_from = next(k for k, times in enumerate(said) if len(times) == 25)
    assert 10 * all_from <= 600
    assert all(len(times) == 25 for times in said[all_from:])


def test_time_goes_on_without_a_jump_when_a_root_is_gone() -> None:
    """The new root continues the time of the failed root; no node keeps following the failed root."""
    site = sparse(1)
    said, agents = play(site, 1500.0, [Crash(0, at=700.0)])
    alive = [{node: time for node, time in times.items() if node} for times in said[72:]]
    assert max(max(times.values()) - min(times.values()) for times in alive) < 1e-5
    assert min(len(times) for times in alive) >= 20
    assert len(alive[-1]) == 24
    left = site.graph.subgraph(range(1, 25))
    for part in nx.connected_components(left):
        assert {agents[node].root for node in part} == {min(part)}


def test_stamps_of_another_time_leave_the_regression() -> None:
    agent = FTSP(least=2)
    agent._netsim = type("Context", (), {"name": 5})()  # type: ignore[assignment]
    for k in range(8):
        agent._hear(3, k + 1, 100.0 + 30 * k, 30.0 * k)
    agent._settled = 9
    assert agent.is_synchronised
    assert agent.global_time(300.0) == pytest.approx(400.0)
    # Root 1 has a lower identifier and another clock; its sequence numbers are independent of the old root's.
    agent._hear(1, 4, 7000.0, 240.0)
    assert not agent.is_synchronised
    assert agent.root == 1
    agent._hear(1, 5, 7030.0, 270.0)
    assert agent.global_time(300.0) == pytest.approx(7060.0)
    agent._hear(3, 9, 370.0, 270.0)
    assert agent.root == 1


def test_a_root_that_has_gone_is_not_followed_by_its_name() -> None:
    agent = FTSP(least=2)
    agent._netsim = type("Context", (), {"name": 5})()  # type: ignore[assignment]
    agent._hear(1, 4, None, 0.0)
    agent._hear(1, 4, 10.0, 1.0)
    agent.root = 5
    agent._hear(1, 4, 40.0, 31.0)
    assert agent.root == 5
    agent._hear(1, 5, None, 40.0)
    assert agent.root == 1


@pytest.mark.parametrize("names", [[3, "a", (1, 2)], ["b", 2.5], [(1, "x"), (1, 2), 7]])
def test_names_of_all_kinds_have_an_order(names: list[Any]) -> None:
    graph = nx.complete_graph(len(names))
    network = Network(nx.relabel_nodes(graph, dict(enumerate(names))), PRESET.link, medium=RADIO, seed=1)
    agents = {name: FTSP(period=2.0) for name in names}
    network.run(agents, until=60.0)
    assert len({agent.root for agent in agents.values()}) == 1
    assert all(agent.is_synchronised for agent in agents.values())
