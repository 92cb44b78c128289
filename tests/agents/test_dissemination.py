"""Deluge: every mote gets the newest image to the byte, whatever frames are lost, and then sends almost nothing."""

import asyncio
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim import BadInput, Link, Mote, Network, Radio, topology
from netsim.agents import Dissemination
from netsim.faults import Crash, LinkDown

LINK, CSMA = Link(rate=250e3, header_bits=136), Radio()
PAGE = 8 * 32
"""The bytes of a page with the settings below."""
SMALL: dict[str, Any] = {"packet": 32, "page": 8, "imin": 0.5, "doublings": 6}


def image_of(size: int, seed: int = 1) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def spread(
    graph: Any,
    image: bytes | None,
    until: float = 60,
    *,
    loss: float = 0.0,
    does: Any = (),
    extra: Any = (),
    **options: Any,
) -> tuple[Any, Any]:
    """Run Deluge on a graph whose node 0 has an image; ``does`` lists pairs (time, callback of the agents)."""
    link = LINK.with_loss(netsim.loss.bernoulli(loss)) if loss else LINK
    network = Network(graph, link, medium=CSMA, seed=2, **options)
    agents: dict[Any, Any] = {node: Dissemination(image if node == 0 else None, **SMALL) for node in graph}
    agents |= dict(extra)
    for at, call in does:
        network.at(at, lambda call=call: call(agents))
    run = network.run(agents, until=until)
    return agents, run


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 3 * PAGE + 33])
def test_an_image_of_any_size_reaches_all_to_the_byte(size: int) -> None:
    image = image_of(size)
    agents, _ = spread(nx.path_graph(4), image)
    for agent in agents.values():
        assert agent.image == image
        assert type(agent.image) is bytes
        assert (agent.version, agent.have) == (1, -(-size // PAGE))
    assert [agents[k].completed_at < agents[k + 1].completed_at for k in range(3)] == [True] * 3


@pytest.mark.parametrize("loss", [0.1, 0.4])
def test_lossy_links_delay_an_image_and_do_not_change_it(loss: float) -> None:
    image = image_of(5 * PAGE + 7)
    agents, _ = spread(topology.grid(3, 3), image, 200, loss=loss)
    assert {agent.image for agent in agents.values()} == {image}


def test_a_crash_without_state_begins_anew() -> None:
    image = image_of(6 * PAGE)
    seen = []
    agents, _ = spread(
        nx.path_graph(4),
        image,
        60,
        faults=[Crash(1, at=2.0, until=3.0), Crash(3, at=30, until=31)],
        does=[(29, lambda agents: seen.append(agents[3].image)), (30.5, lambda agents: seen.append(agents[3].image))],
    )
    assert seen[0] == image
    assert {agent.image for agent in agents.values()} == {image}
    assert agents[3].completed_at > 31


def test_a_newer_image_overtakes_an_older_one() -> None:
    old, new = image_of(12 * PAGE), image_of(5 * PAGE + 3, seed=2)
    before = []

    def publish(agents: Any) -> None:
        before.extend(agent.image for agent in agents.values())
        agents[0].publish(new)

    agents, _ = spread(topology.grid(3, 3), old, 90, does=[(3.0, publish)])
    assert before[0] == old
    assert before[-1] is None  # the older image was still being sent
    assert {(agent.version, agent.image) for agent in agents.values()} == {(2, new)}


def test_whoever_has_an_image_may_publish_the_next() -> None:
    images = [image_of(PAGE, seed) for seed in range(3)]
    agents, _ = spread(
        nx.path_graph(4),
        images[0],
        90,
        does=[(30, lambda agents: agents[3].publish(images[1])), (60, lambda agents: agents[1].publish(b""))],
    )
    assert {(agent.version, agent.image) for agent in agents.values()} == {(3, b"")}


@pytest.mark.parametrize("at", [1.2, 1.5, 1.8, 2.1])
def test_a_shorter_image_overtakes_a_longer_one_that_is_being_sent(at: float) -> None:
    image = image_of(12 * PAGE)
    agents, _ = spread(nx.path_graph(3), image, 30, does=[(at, lambda agents: agents[0].publish(b"new"))])
    assert agents[0].packets > 1
    assert {agent.image for agent in agents.values()} == {b"new"}


@pytest.mark.parametrize("name", ["packet", "page"])
def test_other_sizes_at_some_nodes_are_refused(name: str) -> None:
    agents = {node: Dissemination(**{name: 8 + node}) for node in range(2)}
    with pytest.raises(BadInput, match=rf"agents\[1\]: {name} = 9: must be 8, as agent 0 has it"):
        Network(nx.path_graph(2), LINK, medium=CSMA).run(agents, until=9)


def test_parts_of_a_network_that_were_apart_agree_on_the_newest() -> None:
    image, newer = image_of(PAGE), image_of(2 * PAGE, seed=5)
    network = Network(nx.path_graph(4), LINK, medium=CSMA, seed=2, faults=[LinkDown(1, 2, at=0, until=20)])
    agents = {node: Dissemination(**SMALL) for node in range(4)}
    agents[0] = Dissemination(image, **SMALL)
    agents[3] = Dissemination(newer, version=7, **SMALL)
    seen: list[Any] = []
    network.at(19, lambda: seen.extend(agent.version for agent in agents.values()))
    network.run(agents, until=80)
    assert seen == [1, 1, 7, 7]
    assert {(agent.version, agent.image) for agent in agents.values()} == {(7, newer)}


def test_those_who_agree_are_nearly_silent() -> None:
    counts = []

    def count(agents: Any) -> None:
        counts.append([(agent.adverts, agent.requests, agent.packets) for agent in agents.values()])

    spread(nx.complete_graph(6), image_of(2 * PAGE), 1100, does=[(100, count), (1099, count)])
    before, after = np.array(counts)
    more = after - before
    # With Trickle's k = 1 and intervals of 32 s, all six nodes together send about one advertisement per interval.
    assert more[:, 1:].sum() == 0
    assert 20 <= more[:, 0].sum() <= 2.5 * 1000 / 32


@pytest.mark.slow
def test_64_kb_reach_60_motes_within_an_hour() -> None:
    graph = topology.random_geometric(60, radius=0.22, seed=1)
    image = image_of(65536)
    link = LINK.with_loss(netsim.loss.bernoulli(0.1))
    agents: dict[Any, Any] = {node: Dissemination(image if node == 0 else None) for node in graph}
    Network(graph, link, medium=CSMA, seed=1, faults=[Crash(17, at=120, until=180)]).run(agents, until=3600)
    assert {agent.image for agent in agents.values()} == {image}


class Hostile(netsim.Agent):
    """Broadcasts a given payload repeatedly."""

    def __init__(self, says: list[tuple[str, Any]]) -> None:
        self.says = says

    async def run(self) -> None:
        while True:
            for kind, payload in self.says:
                await asyncio.sleep(self.rng.uniform(0.0, 0.2))
                await self.broadcast(kind, payload)


def test_garbage_of_its_kinds_stops_nobody() -> None:
    odd: list[Any] = [None, 5, 2.5, "x", b"x", {}, [], [1], [[1], [2]], np.zeros(2), [-1, 0, 0], [None] * 4, [1] * 9]
    odd += [[1, 1, bytes(3)], [1, 0, 0, bytes(3)], [1, 9999, 3, bytes(32)], [1, 10**6, 10**6], [True, 2, 2]]
    says = [(kind, value) for kind in Dissemination.kinds for value in odd]
    image = image_of(3 * PAGE)
    graph = nx.path_graph(3)
    graph.add_edges_from((9, node) for node in range(3))
    network = Network(graph, LINK, medium=CSMA, seed=2)
    agents: dict[Any, Any] = {node: Dissemination(image if node == 0 else None, **SMALL) for node in range(3)}
    network.run(agents | {9: Hostile(says)}, until=60)
    assert {agents[node].image for node in range(3)} == {image}
    assert all(agents[node].foreign for node in range(3))


def test_a_part_of_a_mote_does_the_same() -> None:
    image = image_of(2 * PAGE)
    motes = {node: Mote(update=Dissemination(image if node == 0 else None, **SMALL)) for node in range(3)}
    Network(nx.path_graph(3), LINK, medium=CSMA, seed=2).run(motes, until=60)
    assert {mote.update.image for mote in motes.values()} == {image}


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        ("image = 'abc': must be ", {"image": "abc"}),
        ("image = 3: must be ", {"image": 3}),
        ("version = 0: must be ", {"version": 0}),
        ("packet = 0: must be ", {"packet": 0}),
        ("page = 65: must be ", {"page": 65}),
        ("page = 2.5: must be ", {"page": 2.5}),
        ("pause = -1: must be ", {"pause": -1}),
        ("k = 0: must be ", {"k": 0}),
    ],
)
def test_wrong_settings_are_refused(message: str, settings: Any) -> None:
    with pytest.raises(BadInput, match=message) as found:
        Dissemination(**settings)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("medium", [replace(CSMA, acks=True), Radio(access="aloha"), "radio", "wires"])
def test_it_runs_on_any_medium(medium: Any) -> None:
    image = image_of(2 * PAGE)
    agents = {node: Dissemination(image if node == 0 else None, **SMALL) for node in range(3)}
    Network(nx.path_graph(3), LINK, medium=medium, seed=2).run(agents, until=90)
    assert {agent.image for agent in agents.values()} == {image}
