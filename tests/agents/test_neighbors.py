"""The neighbour table agrees with the medium: signal powers, and reception rates in both directions."""

from typing import Any

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim import BadInput, Link, Mote, Network, Radio, presets
from netsim.agents import Neighbors
from netsim.faults import Crash
from tests.agents.test_dissemination import Hostile

LINK, CSMA = Link(rate=250e3, header_bits=136), Radio()


def test_it_has_those_who_say_hello() -> None:
    graph = nx.path_graph(3)
    agents = {node: Neighbors() for node in graph}
    Network(graph, LINK, medium=CSMA, seed=1).run(agents, until=60)
    assert [set(agents[node].table) for node in graph] == [{1}, {0, 2}, {1}]
    for agent in agents.values():
        for each in agent.table.values():
            assert (each.rssi_dbm, each.arrives, each.is_heard) == (None, 1.0, 1.0)
            assert 40 < each.last <= 60


def test_signal_strengths_are_those_of_the_medium() -> None:
    preset = presets.ieee802154()
    places = {0: (0, 0), 1: (10, 0), 2: (0, 30), "far": (25, 20)}
    site = netsim.Deployment(places, preset=preset, seed=1)
    told: dict[Any, set[float]] = {}

    class Listens(netsim.Agent):
        async def run(self) -> None:
            async for frame in self.inbox:
                told.setdefault((frame.sender, self.name), set()).add(frame.rssi_dbm)

    network = site.network(seed=1)
    agents: dict[Any, Any] = {node: Neighbors() for node in places}
    network.run(agents, until=120)
    again = site.network(seed=1)
    again.run({node: Neighbors() if node else Listens() for node in places}, until=120)
    for node, each in agents[0].table.items():
        [power] = told[node, 0]
        assert each.rssi_dbm == pytest.approx(power, abs=1e-9)
    strengths = {node: each.rssi_dbm for node, each in agents[0].table.items()}
    assert strengths[1] > strengths[2]


def test_shares_are_those_of_the_links_both_ways() -> None:
    """Both ends estimate the reception rates 0.9 and 0.6; the tolerance is 4 standard errors of a moving average."""
    weight, pairs = 0.9, 20
    graph, links = nx.Graph(), {}
    for k in range(pairs):
        graph.add_edge((k, "a"), (k, "b"))
        links[(k, "a"), (k, "b")] = LINK.with_loss(netsim.loss.bernoulli(0.1))
        links[(k, "b"), (k, "a")] = LINK.with_loss(netsim.loss.bernoulli(0.4))
    agents = {node: Neighbors(1.0, weight=weight, patience=50) for node in graph}
    Network(graph, LINK, links=links, medium=CSMA, seed=3, connected=False).run(agents, until=70)
    tables = {node: next(iter(agent.table.values())) for node, agent in agents.items()}
    for share, sender, receiver in ((0.9, "a", "b"), (0.6, "b", "a")):
        error = np.sqrt(share * (1 - share) * (1 - weight) / (1 + weight) / pairs)
        arrives = [tables[k, receiver].arrives for k in range(pairs)]
        is_heard = [tables[k, sender].is_heard for k in range(pairs)]
        assert np.mean(arrives) == pytest.approx(share, abs=4 * error)
        assert np.mean(is_heard) == pytest.approx(share, abs=4 * error + 0.01)
        # `is_heard` is the neighbour's estimate as it was a few hellos ago, so the two correlate but differ.
        assert np.corrcoef(arrives, is_heard)[0, 1] > 0.7


def test_a_silent_neighbour_leaves_and_comes_back() -> None:
    seen = []
    network = Network(nx.path_graph(2), LINK, medium=CSMA, seed=1, faults=[Crash(1, at=100, until=200)])
    agents = {node: Neighbors(5.0, patience=4) for node in range(2)}
    for at in (99, 112, 130, 199, 215):
        network.at(at, lambda: seen.append(list(agents[0].table)))
    network.run(agents, until=220)
    assert seen == [[1], [1], [], [], [1]]
    assert agents[0].table[1].arrives == 1.0


def test_a_full_table_keeps_newcomers_out() -> None:
    graph = nx.star_graph(5)
    agents = {node: Neighbors(5.0, size=3) for node in graph}
    seen: list[Any] = []
    network = Network(graph, LINK, medium=CSMA, seed=1)
    network.at(50, lambda: seen.append(set(agents[0].table)))
    network.run(agents, until=200)
    assert len(seen[0]) == 3
    assert set(agents[0].table) == seen[0]
    gone, *others = sorted(seen[0])
    agents = {node: Neighbors(5.0, size=3) for node in graph}
    Network(graph, LINK, medium=CSMA, seed=1, faults=[Crash(gone, at=60)]).run(agents, until=200)
    assert len(agents[0].table) == 3
    assert gone not in agents[0].table
    assert set(others) <= set(agents[0].table)


def test_garbage_of_its_kinds_stops_nobody() -> None:
    odd: list[Any] = [
        None,
        5,
        2.5,
        "x",
        b"x",
        {},
        [],
        [1],
        [[1], [2]],
        np.zeros(2),
        [-1, []],
        [1, [[1]]],
        [1, [[2, 3.5]]],
    ]
    odd += [[0, [["x", "y"]]], [0, [[0, 255], [0, -1]]], [0, {0: 1}], [float("nan"), []], [1, [[{}, 1]]]]
    says = [(kind, value) for kind in Neighbors.kinds for value in odd]
    network = Network(nx.complete_graph(3), LINK, medium=CSMA, seed=4)
    agents: dict[Any, Any] = {node: Neighbors(2.0) for node in range(2)}
    network.run(agents | {2: Hostile(says)}, until=60)
    assert agents[0].table[1].arrives > 0.8
    assert agents[0].foreign


def test_a_part_beside_another_counts_the_same() -> None:
    motes = {node: Mote(table=Neighbors(), other=netsim.agents.Dissemination()) for node in range(3)}
    Network(nx.complete_graph(3), LINK, medium=CSMA, seed=1).run(motes, until=100)
    assert [len(mote.table.table) for mote in motes.values()] == [2, 2, 2]


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        ("period = 0: must be ", {"period": 0}),
        ("size = 65: must be ", {"size": 65}),
        ("patience = 0: must be ", {"patience": 0}),
        ("weight = 1: must be ", {"weight": 1}),
        ("weight = -0.1: must be ", {"weight": -0.1}),
    ],
)
def test_wrong_settings_are_refused(message: str, settings: Any) -> None:
    with pytest.raises(BadInput, match=message):
        Neighbors(**settings)


def test_names_may_be_tuples_and_strings() -> None:
    names = [(0, 0), (0, 1), "gate"]
    graph = nx.complete_graph(names)
    agents = {node: Neighbors() for node in names}
    Network(graph, LINK, medium=CSMA, seed=1).run(agents, until=60)
    for name, agent in agents.items():
        assert set(agent.table) == set(names) - {name}
        assert all(each.is_heard == 1.0 for each in agent.table.values())
