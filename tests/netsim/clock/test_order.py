"""Results do not depend on the order of agents at one instant, on observers, or on unrelated agents in rounds."""

import asyncio
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import Agent, Link, Network, Run, latency, loss, topology
from netsim.links import Budget

LINKS = [
    Link(),
    Link(latency=0.05, loss=0.2),
    Link(latency=latency.uniform(0.0, 0.2), loss=loss.gilbert_elliott(0.2, 3)),
    Link(latency=0.01, rate=2e4, queue=3, duplicate=0.2, corrupt=0.1),
    Link(latency=0.02, budget=Budget(2000, per="round"), mtu=40, header_bits=32),
]


class Late(Agent):
    """In each round, lets a given number of loop passes go by before it sends."""

    def __init__(self, waits: list[int]) -> None:
        self.waits = waits
        self.total = np.zeros(3)
        self.heard: list[Any] = []

    async def run(self) -> None:
        async for k in self.rounds(len(self.waits)):
            for _ in range(self.waits[k - 1]):
                await asyncio.sleep(0)
            await self.broadcast("a" if k % 2 else "b", self.rng.normal(size=3))
            await self.send(self.neighbors[int(self.rng.integers(len(self.neighbors)))], "one", k)
            self.heard += [(f.sender, f.kind, f.round) for f in await self.collect()]


def played(graph: "nx.Graph[int]", waits: np.ndarray[Any, Any], link: Link, **settings: Any) -> tuple[Run, list[Any]]:
    agents = {i: Late(waits[i].tolist()) for i in graph}
    run = Network(graph, link, round_period=0.1, seed=4, **settings).run(agents, trace=True)
    return run, [agent.heard for agent in agents.values()]


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("settings", [{}, {"inbox_limit": 4}, {"medium": "radio"}])
def test_agents_of_an_instant_in_another_order_give_the_same_run(link: Link, settings: dict[str, Any]) -> None:
    graph = topology.erdos_renyi(8, p=0.5, seed=1)
    rng = np.random.default_rng(0)
    run, heard = played(graph, np.zeros((8, 12), dtype=int), link, **settings)
    table = run.ledger.table().sort_values(["kind", "sender", "receiver"], ignore_index=True)
    for _ in range(3):
        other, also = played(graph, rng.integers(0, 9, (8, 12)), link, **settings)
        assert other.trace_hash == run.trace_hash
        assert also == heard
        assert other.rounds.equals(run.rounds)
        assert other.ledger.table().sort_values(["kind", "sender", "receiver"], ignore_index=True).equals(table)
        assert other.trace.table().equals(run.trace.table())


def test_the_hash_tells_agents_kinds_and_links_apart() -> None:
    class Once(Agent):
        def __init__(self, kind: str) -> None:
            self.kind = kind

        async def run(self) -> None:
            if self.name in ("a", 0):
                await self.send(self.neighbors[0], self.kind, 1)

    def hashed(names: list[Any], kind: str = "x", edges: tuple[tuple[int, int], ...] = ((0, 1), (1, 2))) -> str:
        graph = nx.Graph()
        graph.add_nodes_from(names)
        graph.add_edges_from((names[i], names[j]) for i, j in edges)
        return Network(graph).run({name: Once(kind) for name in graph}).trace_hash

    assert hashed(["a", "b", "c"]) == hashed(["a", "b", "c"])
    different = [
        hashed(["a", "b", "c"]),
        hashed([0, 1, 2]),
        hashed(["a", "b", "d"]),
        hashed(["a", "b", "c"], "y"),
        hashed(["a", "b", "c"], edges=((0, 2), (2, 1))),
        hashed(["a", "b", "c"], edges=((0, 1), (0, 2))),
    ]
    assert len(set(different)) == len(different)


def test_what_is_heard_together_is_in_the_order_of_its_senders() -> None:
    class Listener(Agent):
        async def run(self) -> None:
            self.order = []
            async for _ in self.rounds(3):
                # Agents with larger names act first, so the order of sending differs from the order of names.
                for _ in range(20 - int(str(self.name))):
                    await asyncio.sleep(0)
                await self.broadcast("x", 1)
                await self.broadcast("x", 2)
                self.order.append([(f.sender, f.payload) for f in await self.collect()])

    agents = {i: Listener() for i in range(12)}
    Network(topology.complete(12), Link(latency=0.1), round_period=1.0).run(agents)
    for me, agent in agents.items():
        assert agent.order == [[(other, n) for other in range(12) if other != me for n in (1, 2)]] * 3


def test_a_look_as_a_round_closes_brings_nothing_into_it() -> None:
    """A frame that arrives at a round's end up to rounding is late, even if a probe reads the inbox just before."""

    def heard(looks: bool) -> list[Any]:
        class Listener(Agent):
            async def run(self) -> None:
                self.heard = []
                async for k in self.rounds(3, keep_late=True):
                    await self.broadcast("x", k)
                    self.heard.append([f.payload for f in await self.collect()])

        agents = {i: Listener() for i in range(3)}
        # In floating point, 0.1 + 0.2 exceeds 0.3 by a rounding error, and 0.3 − 1e-17 falls short of it by one.
        network = Network(topology.complete(3), Link(latency=0.1 - 1e-17), round_period=0.1)
        for time in (0.1, 0.2, 0.3) if looks else ():
            network.at(time, lambda: [len(agent.inbox) for agent in agents.values()].clear())
        network.run(agents)
        return [agent.heard for agent in agents.values()]

    assert heard(True) == heard(False) == [[[], [1, 1], [2, 2]]] * 3


class Speaks(Agent):
    """Sends one neighbour a frame in the first round."""

    async def run(self) -> None:
        async for k in self.rounds(1):
            await self.send(1, "x", k)
        await asyncio.sleep(5.0)


class Joins(Agent):
    """Begins its rounds later than the other agents."""

    async def run(self) -> None:
        self.heard: list[int] = []
        await asyncio.sleep(1.7)
        async for _ in self.rounds(1):
            self.heard += [frame.payload for frame in await self.collect()]


class Stays(Agent):
    """Stays in the rounds and receives no frames."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def run(self) -> None:
        async for _ in self.rounds(self.count):
            await self.collect()


def look(agents: Any) -> float:
    return float(len(agents[1].inbox))


@pytest.mark.parametrize("latency", [1.5, 2.0])
def test_whether_a_frame_is_late_depends_neither_on_looks_nor_on_others(latency: float) -> None:
    found = []
    for count, probes in ((0, []), (5, []), (5, [look])):
        agents: dict[int, Any] = {0: Speaks(), 1: Joins(), 2: Stays(count)}
        run = Network(nx.Graph([(0, 1), (0, 2)]), Link(latency=latency)).run(agents, probes)
        ends = run.ledger.table([]).iloc[0]
        found.append((agents[1].heard, int(ends["delivered"]), int(ends["late"]), run.trace_hash))
    assert found[0] == found[1] == found[2]
