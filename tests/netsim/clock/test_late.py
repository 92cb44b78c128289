"""Whether a frame is late depends neither on who looks nor on who else lives in rounds."""

import asyncio
from typing import Any

import networkx as nx
import pytest

from netsim import Agent, Link, Network


class Speaks(Agent):
    """Sends one of its neighbours a frame in the first round."""

    async def run(self) -> None:
        async for k in self.rounds(1):
            await self.send(1, "x", k)
        await asyncio.sleep(5.0)


class Joins(Agent):
    """Takes part in a later round."""

    async def run(self) -> None:
        self.heard: list[int] = []
        await asyncio.sleep(1.7)
        async for _ in self.rounds(1):
            self.heard += [frame.payload for frame in await self.collect()]


class Stays(Agent):
    """Takes part in so many rounds; nobody sends it anything."""

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
