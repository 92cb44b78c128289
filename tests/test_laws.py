"""Laws that hold for every algorithm: equal seeds give equal runs; each link and agent has its own random numbers."""

from collections.abc import Hashable, Mapping
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import Agent, AgentError, Link, Network, Run, core, latency, loss, topology
from netsim.links import Budget
from netsim.testing import Actor
from netsim.util import draws

Outcomes = dict[tuple[Hashable, Hashable], list[tuple[float, str]]]


class Gossip(Agent):
    """Broadcasts, sends requests to a random neighbour, and records its own random numbers."""

    def __init__(self, rounds: int = 8) -> None:
        self.count = rounds
        self.drawn: list[float] = []

    def answer(self, frame: Any) -> float:
        return float(self.rng.random())

    async def run(self) -> None:
        async for k in self.rounds(self.count):
            self.drawn.append(float(self.rng.random()))
            await self.broadcast("state", np.full(4, self.drawn[-1]))
            other = self.neighbors[int(self.rng.integers(len(self.neighbors)))]
            await self.send(other, "one", k)
            await self.collect()


class Plain(Gossip):
    """Only broadcasts, so that its messages do not depend on the number of its neighbours."""

    async def run(self) -> None:
        async for k in self.rounds(self.count):
            self.drawn.append(float(self.rng.random()))
            await self.broadcast("state", k)
            await self.collect()


HARD = Link(
    latency=latency.uniform(0.0, 0.15),
    loss=loss.bernoulli(0.2),
    rate=1e5,
    queue=4,
    budget=Budget(2000),
    mtu=64,
    header_bits=32,
    duplicate=0.1,
    corrupt=0.1,
)
EASY = Link(latency=latency.exponential(0.02), loss=0.2)


def named(size: int = 8) -> "nx.Graph[str]":
    graph = topology.erdos_renyi(size, p=0.5, seed=3)
    return nx.relabel_nodes(graph, {i: f"agent {i}" for i in graph})


def gossip(seed: int = 5, link: Link = HARD, **settings: Any) -> Run:
    graph = named()
    return Network(graph, link, round_period=0.1, seed=seed).run({node: Gossip() for node in graph}, **settings)


# --- law 1: same seed, same run ---------------------------------------------------------------------------------------


def spread(agents: Mapping[Any, Any]) -> dict[str, float]:
    drawn = [agent.drawn[-1] for agent in agents.values()]
    return {"spread": float(np.ptp(drawn)), "now": next(iter(agents.values())).now}


@pytest.mark.parametrize("link", [HARD, EASY, Link()], ids=["hard", "easy", "ideal"])
def test_same_seed_same_run_whatever_is_watched(link: Link) -> None:
    hashes = [
        gossip(link=link, **settings).trace_hash
        for settings in ({}, {}, {"trace": True}, {"probes": [spread]}, {"progress": lambda k: None, "trace": True})
    ]
    assert len(set(hashes)) == 1


def test_another_seed_is_another_run() -> None:
    assert len({gossip(seed).trace_hash for seed in range(5)}) == 5


def test_the_hash_tells_what_was_sent() -> None:
    def run_of(payload: Any) -> str:
        agents = {i: Actor(lambda me: me.broadcast("x", payload)) for i in range(2)}
        return Network(topology.path(2)).run(agents).trace_hash

    assert len({run_of(1.0), run_of(2.0), run_of([1.0]), run_of("1.0")}) == 4


# --- law 2: nothing random is shared ----------------------------------------------------------------------------------


def outcomes(
    graph: "nx.Graph[Any]", link: Link = EASY, **settings: Any
) -> tuple[Outcomes, dict[Hashable, list[float]]]:
    """Return when and how the messages on each link ended, and the numbers that each agent drew."""
    probes = settings.pop("probes", ())
    agents = {node: Plain() for node in graph}
    run = Network(graph, link, round_period=0.1, seed=1, **settings).run(agents, probes, trace=True)
    table = run.trace.table()
    ends = table[table["event"] != "sent"].groupby(["sender", "receiver"])
    by_link = {ends_of: list(zip(part["time_s"], part["event"], strict=True)) for ends_of, part in ends}
    return by_link, {node: agent.drawn for node, agent in agents.items()}  # type: ignore[return-value]


def differing(first: Outcomes, second: Outcomes) -> set[tuple[Hashable, Hashable]]:
    return {ends for ends in first if first[ends] != second[ends]}


def test_another_agent_changes_no_other_link_and_no_other_agent() -> None:
    graph = topology.ring(6)
    larger = nx.Graph([(3, "new"), ("new", 4), *graph.edges])
    (links, drawn), (new_links, new_drawn) = outcomes(graph), outcomes(larger)
    assert len(links) == 12
    assert not differing(links, new_links)
    assert all(new_drawn[node] == drawn[node] for node in graph)


def test_the_order_of_nodes_and_edges_changes_no_link() -> None:
    graph = topology.ring(6)
    turned = nx.Graph()
    turned.add_nodes_from(reversed(list(graph)))
    turned.add_edges_from((b, a) for a, b in reversed(list(graph.edges)))
    assert not differing(outcomes(graph)[0], outcomes(turned)[0])


@pytest.mark.parametrize(
    "override",
    [Link(latency=latency.exponential(0.02), loss=loss.gilbert_elliott(0.6, burst=3)), HARD, Link()],
    ids=["another loss model", "everything", "ideal"],
)
def test_other_settings_of_one_link_change_that_link_only(override: Link) -> None:
    graph = topology.ring(6)
    assert differing(outcomes(graph)[0], outcomes(graph, links={(2, 3): override})[0]) == {(2, 3)}


def test_links_differ_from_each_other() -> None:
    links, _ = outcomes(topology.complete(5))
    assert len({tuple(ends) for ends in links.values()}) == 20


# --- law 9: what is off costs nothing ---------------------------------------------------------------------------------


class Sends(Agent):
    async def run(self) -> None:
        async for k in self.rounds(3):
            await self.broadcast("x", k)
            await self.send(self.neighbors[0], "y", k)
            await self.collect()


@pytest.mark.skipif(core.NAME == "compiled", reason="the compiled core draws unseen; its twin is tested by test_core")
@pytest.mark.parametrize(
    ("link", "is_ideal"),
    [
        (Link(), True),
        (Link(latency=0.01), True),
        (Link(rate=1e6, queue=9, mtu=100, header_bits=8, fifo=True), True),
        (Link(loss=0.1), False),
        (Link(latency=latency.uniform(0, 1)), False),
        (Link(corrupt=0.1), False),
    ],
)
def test_an_ideal_link_draws_no_random_number(link: Link, is_ideal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("a random number was drawn")

    monkeypatch.setattr("netsim.core.link_draws.uniforms", refuse)
    monkeypatch.setattr(draws, "uniforms", refuse)
    network = Network(topology.ring(4), link)
    if is_ideal:
        assert network.run({i: Sends() for i in range(4)}).ledger.table([])["delivered"].tolist() == [3 * 4 * 3]
    else:
        with pytest.raises(AgentError, match="a random number was drawn"):
            network.run({i: Sends() for i in range(4)})
