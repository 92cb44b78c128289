"""Programs for test_conditions, in a file of their own so that its processes need not import pytest."""

from typing import Any

import networkx as nx

from netsim import Agent, Link, Network, topology


class Greets(Agent):
    async def run(self) -> None:
        async for _ in self.rounds(2):
            for other in set(self.neighbors):
                await self.send(other, "hello", len(other))
            await self.collect()


class Talks(Agent):
    async def run(self) -> None:
        async for number in self.rounds(2):
            await self.broadcast("x", number)
            await self.collect()


class Counts(Agent):
    count = 0

    async def run(self) -> None:
        async for _ in self.rounds(2):
            Counts.count += 1
            await self.broadcast("x", Counts.count)
            await self.collect()


def greeting(*, seed: int) -> Any:
    graph = nx.complete_graph(["attic", "garage", "hall", "cellar", "yard"])
    return Network(graph, Link(latency=0.01), seed=seed), {name: Greets() for name in graph}


def talking(*, seed: int) -> Any:
    graph = topology.path(4)
    return Network(graph, Link(latency=0.01), seed=seed), {i: Talks() for i in graph}
