"""RPL's downward routes: each command of the root reaches its mote once over the tree."""

import asyncio
from collections import Counter
from typing import Any

import networkx as nx
import pytest

import netsim
from netsim import BadInput, Link, Mote, Network, Radio, topology
from netsim.agents import RPL
from netsim.faults import ClockSkew, Crash, LinkDown
from tests.agents.test_dissemination import Hostile

MODES = pytest.mark.parametrize("mode", ["storing", "non-storing"])
LINK, RADIO = Link(rate=250e3, header_bits=136), Radio(acks=True, max_frame_retries=0)


class Node(RPL):
    """A node that stores the commands it receives."""

    def __init__(self, mode: str, is_sink: bool, **settings: Any) -> None:
        super().__init__(is_sink, downward=mode, imin=0.5, refresh=60.0, **settings)
        self.commands = list[Any]()

    def take_command(self, value: Any) -> None:
        self.commands.append(value)


def play(graph: Any, mode: str, until: float, *does: Any, loss: float = 0.0, **options: Any) -> Any:
    """Run RPL with root 0; ``does`` lists pairs (time, callback). Return the agents, and the callbacks' results."""
    link = LINK.with_loss(netsim.loss.bernoulli(loss)) if loss else LINK
    network = Network(graph, link, medium=RADIO, seed=3, **options)
    agents = {node: Node(mode, node == 0) for node in graph}
    given: list[Any] = []
    for at, call in does:
        network.at(at, lambda call=call: given.append(call(agents)))
    network.run(agents, until=until)
    return agents, given


def to_all(agents: Any) -> Any:
    """Send a distinct value to each mote, until the queue is full."""
    return {node: agents[0].down.send(node, ["do", node]) for node in agents if node}


def depth(agents: Any, node: Any) -> int:
    return 0 if agents[node].parent is None else 1 + depth(agents, agents[node].parent)


@MODES
def test_commands_reach_all_motes_of_a_grid_over_the_tree(mode: str) -> None:
    agents, [depths, given, more] = play(
        topology.grid(3, 3),
        mode,
        60,
        (30, lambda agents: {node: depth(agents, node) for node in agents}),
        (30, to_all),
        (40, to_all),
    )
    assert set(given.values()) == set(more.values()) == {True}
    for node, agent in agents.items():
        assert agent.commands == ([["do", node]] * 2 if node else [])
        assert [each.value for each in agent.down.received.values()] == agent.commands
        assert {each.hops for each in agent.down.received.values()} <= {depths[node]}
        assert not agent.down.lost


@MODES
def test_lossy_links_double_nothing(mode: str) -> None:
    agents, given = play(topology.grid(3, 3), mode, 200, *((60 + 5 * k, to_all) for k in range(20)), loss=0.3)
    counts = Counter(node for each in given for node, was in each.items() if was)
    arrived = {node: len(agent.commands) for node, agent in agents.items() if node}
    lost = sum(len(agent.down.lost) for agent in agents.values())
    assert all(arrived[node] <= counts[node] for node in arrived)
    # A hop of eight attempts, each with probability 0.49, fails once in 200.
    assert sum(arrived.values()) >= counts.total() - lost
    assert sum(arrived.values()) >= 0.9 * counts.total() > 100


@MODES
def test_a_mote_with_another_parent_is_reached_after_its_next_advertisement(mode: str) -> None:
    """On the ring 0-1-2-3-4-0, mote 2 has the parent 1 until their link is cut."""
    agents, [before, parent, after, now] = play(
        nx.cycle_graph(5),
        mode,
        250,
        (30, lambda agents: agents[0].down.send(2, "first")),
        (39, lambda agents: agents[2].parent),
        (230, lambda agents: agents[0].down.send(2, "second")),
        (249, lambda agents: agents[2].parent),
        faults=[LinkDown(1, 2, at=40)],
    )
    assert (before, after, parent, now) == (True, True, 1, 3)
    assert agents[2].commands == ["first", "second"]
    assert [each.hops for each in agents[2].down.received.values()] == [2, 3]


@MODES
def test_a_subtree_moves_with_its_mote(mode: str) -> None:
    """The motes 2 and 3 are below mote 1 and, after that link is cut, below mote 5."""
    graph = nx.Graph([(0, 1), (1, 2), (2, 3), (0, 4), (4, 5), (5, 2)])
    agents, given = play(
        graph,
        mode,
        200,
        (30, lambda agents: agents[0].down.send(3, "first")),
        (180, lambda agents: agents[0].down.send(3, "second")),
        faults=[LinkDown(1, 2, at=40)],
    )
    assert given == [True, True]
    assert agents[3].commands == ["first", "second"]
    assert [each.hops for each in agents[3].down.received.values()] == [3, 4]


@MODES
def test_a_mote_that_crashed_is_reached_again(mode: str) -> None:
    agents, given = play(
        nx.path_graph(4),
        mode,
        200,
        (30, lambda agents: agents[0].down.send(3, "first")),
        (190, lambda agents: agents[0].down.send(3, "second")),
        faults=[Crash(2, at=40, until=50)],
    )
    assert given == [True, True]
    assert agents[3].commands == ["first", "second"]


@MODES
def test_a_target_that_nobody_advertised_is_refused(mode: str) -> None:
    agents, given = play(
        nx.path_graph(3),
        mode,
        60,
        (0.1, lambda agents: agents[0].down.send(2, "early")),
        (40, lambda agents: agents[0].down.send(9, "nobody")),
        (40, lambda agents: agents[0].down.send(None, "nobody")),
        (40, lambda agents: agents[0].down.send(0, "itself")),
    )
    assert given == [False] * 4
    assert not any(agent.commands for agent in agents.values())


@MODES
def test_a_full_queue_refuses(mode: str) -> None:
    agents, [given] = play(
        nx.path_graph(2), mode, 60, (40, lambda agents: [agents[0].down.send(1, k) for k in range(20)])
    )
    assert given == [True] * 12 + [False] * 8
    assert agents[1].commands == [*range(12)]


@MODES
def test_clocks_that_are_behind_change_nothing(mode: str) -> None:
    """Sequence numbers start from the clock, which may be negative."""
    faults = [ClockSkew(node, offset=1000.0) for node in range(3)]
    agents, given = play(nx.path_graph(3), mode, 60, (40, lambda agents: agents[0].down.send(2, "x")), faults=faults)
    assert given == [True]
    assert agents[2].commands == ["x"]


@MODES
def test_garbage_of_its_kinds_stops_nobody(mode: str) -> None:
    odd: list[Any] = [None, 5, "x", {}, [], [1], [[1], [2]], [1] * 9, [[], None, 0], [1, 1, -1], [1, 1, 1, [[]], 0]]
    odd += [[2, 10**9, 0, "ab", 1], [7, None, 3], [7, 7, 3], [{}, 1, 1, None, 1], [9, 10**9, 0, [9, 9], 1]]
    graph = nx.path_graph(3)
    graph.add_edges_from((9, node) for node in range(3))
    agents: dict[Any, Any] = {node: Node(mode, node == 0) for node in range(3)}
    network = Network(graph, LINK, medium=RADIO, seed=3)
    given: list[Any] = []
    network.at(40, lambda: given.append(agents[0].down.send(2, "x")))
    network.run(agents | {9: Hostile([(kind, value) for kind in ("dao", "dn") for value in odd])}, until=60)
    assert given == [True]
    assert agents[2].commands == ["x"]
    assert all(agent.foreign["dao"] and agent.foreign["dn"] for agent in agents.values())


def test_upward_only_there_is_no_way_down() -> None:
    agents = {node: RPL(is_sink=node == 0) for node in range(2)}
    Network(nx.path_graph(2), LINK, medium=RADIO).run(agents, until=20)
    assert agents[0].down is None


@MODES
def test_a_part_of_a_mote_does_the_same(mode: str) -> None:
    class App(netsim.Part):
        async def run(self) -> None:
            await asyncio.sleep(30)
            if self.mote.routing.is_sink:
                self.sent = self.mote.routing.down.send(2, 7)

    motes = {node: Mote(routing=Node(mode, node == 0), app=App()) for node in range(3)}
    Network(nx.path_graph(3), LINK, medium=RADIO, seed=1).run(motes, until=60)
    assert motes[0].app.sent
    assert motes[2].routing.commands == [7]


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        ("downward = 'both': must be ", {"downward": "both"}),
        ("downward = True: must be ", {"downward": True}),
        ("refresh = 0: must be ", {"refresh": 0}),
    ],
)
def test_wrong_settings_are_refused(message: str, settings: Any) -> None:
    with pytest.raises(BadInput, match=message):
        RPL(**settings)


def test_modes_that_differ_are_refused_before_the_run() -> None:
    agents = {node: RPL(is_sink=node == 0, downward=mode) for node, mode in enumerate(["storing", "non-storing"])}
    with pytest.raises(BadInput, match=r"agents\[1\]: downward = 'non-storing': must be 'storing'"):
        Network(nx.path_graph(2), LINK, medium=RADIO).run(agents, until=20)
