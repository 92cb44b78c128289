"""Networks on directed graphs, whose links are one-way, and on graphs that change over time."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import netsim
from netsim import AgentError, BadInput, Link, Network, topology
from netsim.export import graph_of
from netsim.faults import Crash, Faults, Jitter, LinkDown, Partition, Rewire
from tests.parts import PERIOD, deployed, must_be_the_same

Heard = dict[int, list[int]]

RING = topology.directed_ring(5, hops=(1, 2))
"""Agent i sends to i + 1 and i + 2, and receives from i − 1 and i − 2."""


class Hearing(netsim.Agent):
    """Broadcasts its name each round; records the senders of received frames, and its neighbours."""

    def __init__(self, rounds: int = 3) -> None:
        self.count = rounds
        self.heard: Heard = {}
        self.seen: dict[int, tuple[Any, Any]] = {}

    async def run(self) -> None:
        async for k in self.rounds(self.count):
            self.seen[k] = self.out_neighbors, self.in_neighbors
            await self.broadcast("name", self.name)
            self.heard[k] = sorted(frame.payload for frame in await self.collect())


def hear(network: Network, rounds: int = 3, **settings: Any) -> tuple[Mapping[int, Any], netsim.Run]:
    agents = {i: Hearing(rounds) for i in network.graph}
    return agents, network.run(agents, **settings)


# --- who hears whom ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("medium", ["wires", "radio"])
def test_a_link_is_there_only_along_its_edge(medium: Any) -> None:
    agents, run = hear(Network(RING, medium=medium))
    for i, agent in agents.items():
        assert agent.heard == dict.fromkeys((1, 2, 3), sorted([(i - 1) % 5, (i - 2) % 5]))
        assert sorted(agent.neighbors) == sorted(agent.out_neighbors) == sorted([(i + 1) % 5, (i + 2) % 5])
        assert sorted(agent.in_neighbors) == sorted([(i - 1) % 5, (i - 2) % 5])
    assert run.ledger.transmissions == 15
    assert run.ledger.table([])["delivered"].item() == 30
    table = run.ledger.table(["sender", "receiver"])
    assert set(table[["sender", "receiver"]].itertuples(index=False, name=None)) == set(RING.edges)


def test_on_a_radio_with_a_channel_only_who_has_a_link_understands() -> None:
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 0)])
    radio = netsim.Radio(access="csma")
    agents, run = hear(Network(graph, Link(rate=250e3), medium=radio, round_period=1.0, seed=3))
    for i, agent in agents.items():
        assert all(set(names) <= {(i - 1) % 3} for names in agent.heard.values())
    assert run.ledger.table([])["delivered"].item() > 0


def test_in_an_undirected_graph_all_three_are_one() -> None:
    agents, _ = hear(Network(topology.ring(4)))
    for agent in agents.values():
        assert agent.neighbors is agent.out_neighbors
        assert agent.neighbors is agent.in_neighbors


def test_edges_both_ways_are_an_undirected_edge() -> None:
    # Frames, counts and hash must be the same as on the undirected graph.
    both, run = hear(Network(nx.DiGraph(topology.erdos_renyi(7, p=0.5, seed=2)), Link(loss=0.2), seed=5))
    agents, other = hear(Network(topology.erdos_renyi(7, p=0.5, seed=2), Link(loss=0.2), seed=5))
    assert run.trace_hash == other.trace_hash
    assert {i: agent.heard for i, agent in both.items()} == {i: agent.heard for i, agent in agents.items()}


def test_a_link_draws_what_it_would_draw_in_an_undirected_graph() -> None:
    directed, _ = hear(Network(RING, Link(loss=0.5), seed=4), 40)
    whole, _ = hear(Network(nx.Graph(RING), Link(loss=0.5), seed=4), 40)
    for i, agent in directed.items():
        for k, names in agent.heard.items():
            assert names == [name for name in whole[i].heard[k] if name in agent.in_neighbors]


def test_what_has_no_way_back_is_refused_in_one_line() -> None:
    class Asking(netsim.Agent):
        async def run(self) -> None:
            if self.name == 0:
                await self.request(1, "question", None, timeout=0.5)

    three = nx.DiGraph([(0, 1), (1, 2), (2, 0)])
    with pytest.raises(AgentError, match=r"agent 0 cannot request from 1: that has no link back"):
        Network(three).run({i: Asking() for i in three})
    with pytest.raises(AgentError, match=r"agent 1 cannot send to 0: its neighbours are 2"):
        Network(three).run({0: Hearing(), 1: Sender(0), 2: Hearing()})
    for way in ("ack", "nack"):
        with pytest.raises(BadInput, match=rf"reliability = '{way}': .* link \(0, 1\) has none back"):
            Network(three, Link(reliability=way))
    with pytest.raises(BadInput, match=r"acks = True: .* link \(0, 1\) has none back"):
        Network(three, Link(rate=250e3), medium=netsim.Radio(access="csma", acks=True))
    with pytest.raises(BadInput, match=r"links = \(1, 0\): must be keyed by"):
        Network(three, links={(1, 0): Link()})


class Sender(netsim.Agent):
    def __init__(self, to: int) -> None:
        self.to = to

    async def run(self) -> None:
        await self.send(self.to, "hello", None)


def test_a_request_is_answered_where_there_are_links_both_ways() -> None:
    class Asking(netsim.Agent):
        async def run(self) -> None:
            if self.name == 0:
                self.reply_was = (await self.request(1, "question", 20, timeout=0.5)).payload

        def answer(self, frame: netsim.Frame) -> Any:
            return frame.payload + 1

    graph = nx.DiGraph([(0, 1), (1, 0), (1, 2), (2, 0)])
    agents = {i: Asking() for i in graph}
    Network(graph, Link(latency=0.01)).run(agents)
    assert agents[0].reply_was == 21


def test_methods_that_need_links_both_ways_say_so() -> None:
    from netsim.agents import DKLA, GreedyPenalty

    class Cost:
        size = 2

        def proximal(self, quadratic: float) -> Any:
            return lambda linear: linear

    agents = {i: DKLA(Cost(), 3, rho=0.1) for i in RING}
    with pytest.raises(BadInput, match=r"agents\[0\]: DKLA needs links in both directions; link \(0, 1\) has none"):
        Network(RING).run(agents)
    assert GreedyPenalty.needs_links_both_ways
    assert not netsim.Agent.needs_links_both_ways


def test_not_connected_graphs() -> None:
    line = nx.DiGraph([(0, 1), (1, 2)])
    with pytest.raises(BadInput, match="strongly connected, or connected=False; node 0 cannot be reached"):
        Network(line)
    agents, _ = hear(Network(line, connected=False))
    assert agents[0].heard[1] == []
    assert agents[0].in_neighbors == ()
    assert agents[2].heard[1] == [1]
    assert agents[2].out_neighbors == ()


# --- faults -----------------------------------------------------------------------------------------------------------


def test_faults_take_the_links_that_are_there() -> None:
    faults = [LinkDown(0, 1, at=1.0, until=2.0), Partition([0, 1], at=2.0, until=3.0), Jitter(0.1, at=0.0)]
    agents, run = hear(Network(RING, faults=faults), 4)
    assert [agents[1].heard[k] for k in (1, 2, 3, 4)] == [[0, 4], [4], [0], [0, 4]]
    assert agents[2].heard == {1: [0, 1], 2: [0, 1], 3: [], 4: [0, 1]}
    assert run.ledger.table([])["link_down"].item() == 1 + 2 * 3
    with pytest.raises(BadInput, match=r"LinkDown: link = \(1, 0\): must be an edge of the graph"):
        Network(RING, faults=[LinkDown(1, 0, at=1.0)])


def test_a_crash_cuts_what_the_agent_would_send_and_hear() -> None:
    agents, _ = hear(Network(RING, faults=[Crash(0, at=1.0, until=2.0, keeps_state=True)]), 3)
    assert agents[1].heard == {1: [0, 4], 2: [4], 3: [0, 4]}


def test_drawn_faults_name_links_that_are_there() -> None:
    faults = Faults.draw(RING, until=30.0, cuts=20, jitters=3, crashes=3, partitions=2, seed=1)
    agents, _ = hear(Network(RING, faults=faults, seed=1), 45)
    assert agents[0].heard[45] == [3, 4]


def test_set_link_takes_the_one_that_is_there() -> None:
    network = Network(RING)
    network.at(1.0, lambda: network.set_link(0, 1, up=False))
    agents, _ = hear(network)
    assert [agents[1].heard[k] for k in (1, 2, 3)] == [[0, 4], [4], [4]]
    network.at(0.0, lambda: network.set_link(1, 0, up=False))
    with pytest.raises(netsim.NetsimError, match=r"must be an edge of the graph"):
        hear(network)


# --- everything around ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_workers_give_the_same_run() -> None:
    graph = topology.directed_random(12, 0.3, seed=3)
    link = Link(loss=0.2, latency=0.05)
    agents, run = hear(Network(graph, link, seed=2), 6)
    others, split = hear(Network(graph, link, seed=2), 6, workers=2)
    assert split.trace_hash == run.trace_hash
    assert {i: each.heard for i, each in others.items()} == {i: each.heard for i, each in agents.items()}
    assert {i: set(each.in_neighbors) for i, each in others.items()} == {i: set(graph.predecessors(i)) for i in graph}


def test_export_and_replay_have_the_links_that_are_there(tmp_path: Path) -> None:
    _, run = hear(Network(RING), trace=True)
    assert set(graph_of(run.trace).edges) == set(RING.edges)
    page = run.replay(tmp_path / "page.html")
    assert page.stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("changes", [False, True])
def test_several_processes_give_the_same_run(tmp_path: Path, changes: bool) -> None:
    graphs = topology.one_peer_exponential(8)
    faults = [Rewire(graphs, period=PERIOD, repeat=2)] if changes else []

    def make() -> tuple[Network, dict[int, Any]]:
        link = Link(loss=0.2, latency=0.02)
        network = Network(topology.union(graphs), link, round_period=PERIOD, seed=4, faults=faults)
        return network, {i: Hearing(5) for i in range(8)}

    network, agents = make()
    simulated = network.run(agents, trace=True)
    run, found = deployed(make, tmp_path)
    must_be_the_same(simulated, run)
    assert {i: agent.heard for i, agent in found.items()} == {i: agent.heard for i, agent in agents.items()}


# --- graphs that change -----------------------------------------------------------------------------------------------


def test_a_graph_for_each_round() -> None:
    graphs = topology.one_peer_exponential(8)
    network = Network(topology.union(graphs), faults=[Rewire(graphs, period=1.0, repeat=2)])
    agents, run = hear(network, 7)
    for i, agent in agents.items():
        hops = [1, 2, 4, 1, 2, 4, 4]
        assert agent.heard == {k: [(i - hop) % 8] for k, hop in enumerate(hops, 1)}
        assert agent.seen == {k: (((i + hop) % 8,), ((i - hop) % 8,)) for k, hop in enumerate(hops, 1)}
        assert len(agent.neighbors) == 3
    table = run.ledger.table([])
    assert table["delivered"].item() == 8 * 7
    assert table["link_down"].item() == 8 * 7 * 2


def test_frames_on_links_that_are_not_there_cost_no_bits() -> None:
    graphs = topology.one_peer_exponential(8)
    _, run = hear(Network(topology.union(graphs), faults=[Rewire(graphs, period=1.0)]), 3)
    _, ring = hear(Network(topology.directed_ring(8)), 3)
    assert run.ledger.wire_bits == ring.ledger.wire_bits


def test_links_may_be_listed_and_undirected_graphs_given() -> None:
    whole = topology.ring(4)
    faults = Faults([Rewire([[(0, 1), (1, 0)], topology.path(4), []], period=1.0, at=1.0)])
    agents, _ = hear(Network(whole, faults=faults), 5)
    assert agents[0].heard == {1: [1, 3], 2: [1], 3: [1], 4: [], 5: []}
    assert agents[1].heard == {1: [0, 2], 2: [0], 3: [0, 2], 4: [], 5: []}
    assert str(faults) == "3 graphs follow one another, each 1 s, from 1 s"


def test_a_rewiring_is_saved_and_read(tmp_path: Path) -> None:
    faults = Faults([Rewire(topology.one_peer_exponential(4), period=0.5, repeat=3)])
    faults.save(tmp_path / "faults.json")
    assert Faults.load(tmp_path / "faults.json") == faults


def test_a_later_rewiring_ends_an_earlier_one_and_cuts_add_up() -> None:
    first, second = [[(0, 1)], [(1, 2)], [(2, 0)]], [[(1, 2), (2, 0)]]
    ring = topology.directed_ring(3)
    faults = [Rewire(first, period=1.0), Rewire(second, period=1.0, at=1.0), LinkDown(1, 2, at=2.0, until=3.0)]
    agents, _ = hear(Network(ring, faults=faults), 4)
    assert agents[1].heard == {1: [0], 2: [], 3: [], 4: []}
    assert agents[2].heard == {1: [], 2: [1], 3: [], 4: [1]}
    assert agents[0].heard == {1: [], 2: [2], 3: [2], 4: [2]}


def test_a_run_that_stands_still_ends_all_the_same() -> None:
    class Waiting(netsim.Agent):
        async def run(self) -> None:
            await asyncio.get_running_loop().create_future()

    network = Network(RING, faults=[Rewire([RING], period=1.0, repeat=5)])
    with pytest.raises(netsim.Stalled):
        network.run({i: Waiting() for i in RING})


@pytest.mark.slow
def test_workers_follow_a_graph_that_changes() -> None:
    graphs = topology.one_peer_exponential(8)
    network = Network(topology.union(graphs), Link(latency=0.1), faults=[Rewire(graphs, period=1.0, repeat=2)])
    agents, run = hear(network, 6)
    others, split = hear(network, 6, workers=2)
    assert split.trace_hash == run.trace_hash
    assert {i: each.seen for i, each in others.items()} == {i: each.seen for i, each in agents.items()}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rewire([], period=1.0), "graphs = .*: must be at least one graph"),
        (lambda: Rewire(RING, period=1.0), "must be a sequence of networkx graphs, or of lists of links"),
        (lambda: Rewire([[1, 2]], period=1.0), r"graphs = 1: must be networkx graphs, or pairs \(sender, receiver\)"),
        (lambda: Rewire([RING], period=0.0), r"period = 0\.0: must be a number >= 1e-09"),
        (lambda: Rewire([RING], period=1.0, repeat=0), "repeat = 0: must be a whole number >= 1"),
        (
            lambda: Network(RING, faults=[Rewire([[(1, 0)]], period=1.0)]),
            r"Rewire: link = \(1, 0\): must be an edge of the graph",
        ),
    ],
)
def test_wrong_rewirings_are_refused(make: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make()
