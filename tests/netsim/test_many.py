"""Many frames, kinds and messages: costs grow at most linearly, and counters do not overflow."""

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

from netsim import Agent, Link, Network, Radio, topology
from netsim.testing import Actor


class Flood(Agent):
    """Broadcasts ``count`` frames at one instant, while its neighbours do not read."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def run(self) -> None:
        await asyncio.sleep(1.0)
        for i in range(self.count):
            await self.broadcast("x", i)


class Blocked(Agent):
    """Waits for its first frame, and never reads another one."""

    async def run(self) -> None:
        self.first = (await self.inbox.get()).payload


def seconds_of(run: Callable[[], Any]) -> float:
    """Return the processor time (s) of the fastest of three runs."""
    times = []
    for _ in range(3):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def test_a_waiting_agent_costs_as_much_a_frame_with_many_as_with_few() -> None:
    def flood(count: int) -> None:
        blocked = Blocked()
        Network(topology.path(2), Link(latency=1.0)).run({0: Flood(count), 1: blocked})
        assert blocked.first == 0

    flood(100)
    # For five times as many frames, a linear cost grows 5 times and a quadratic one 25 times; the bound is far from
    # both.
    assert seconds_of(lambda: flood(10_000)) < 11 * seconds_of(lambda: flood(2000))


def test_what_many_transmissions_on_the_air_cost_grows_with_their_number() -> None:
    def flood(count: int) -> None:
        agents = {0: Flood(count), 1: Actor()}
        Network(topology.path(2), Link(latency=1.0, rate=1e3), medium=Radio(access="aloha")).run(agents)

    flood(100)
    assert seconds_of(lambda: flood(5000)) < 11 * seconds_of(lambda: flood(1000))


def test_many_kinds_on_many_links_cost_as_much_as_one() -> None:
    class Chatty(Agent):
        """Broadcasts a hundred frames in each round, cycling through ``kinds`` kinds."""

        def __init__(self, kinds: int) -> None:
            self.kinds = kinds

        async def run(self) -> None:
            async for k in self.rounds(30):
                for i in range(100):
                    await self.broadcast(f"kind {(100 * k + i) % self.kinds}", i)
                await self.collect()

    class Listener(Agent):
        async def run(self) -> None:
            async for _ in self.rounds(30):
                await self.collect()

    graph = topology.complete(75)
    assert 2 * graph.number_of_edges() == 5550

    def seconds_a_round(kinds: int) -> float:
        """Return the processor time (s) of a round once all kinds are known."""
        times: list[float] = []
        agents: dict[int, Agent] = {i: Listener() for i in graph} | {0: Chatty(kinds)}
        Network(graph).run(agents, progress=lambda k: times.append(time.process_time()))
        return statistics.median(later - earlier for earlier, later in itertools.pairwise(times[12:]))

    seconds_a_round(1)
    assert min(seconds_a_round(1000) for _ in range(3)) < 2.6 * min(seconds_a_round(1) for _ in range(3))


@pytest.mark.parametrize("before", [2**31, 2**32, 2**40])
@pytest.mark.parametrize("link", [Link(latency=0.1), Link(latency=0.1, rate=1e6, duplicate=1.0)])
def test_there_is_no_last_message(before: int, link: Link) -> None:
    """The message counter starts just below a power of two, as if ``before`` - 3 messages had been sent."""

    class Persistent(Agent):
        async def run(self) -> None:
            send_before(self, before - 3)
            for i in range(3):
                await self.broadcast("x", i)
                await self.send(self.neighbors[1], "y", i)
            await asyncio.sleep(1.0)

    run = Network(topology.star(4), link).run({0: Persistent(), 1: Actor(), 2: Actor(), 3: Actor()}, trace=True)
    copies = 1 + round(link.duplicate)
    table = run.ledger.table()
    assert table[["sender", "receiver", "kind", "offered", "delivered"]].values.tolist() == [
        [0, 1, "x", 3, 3 * copies],
        [0, 2, "x", 3, 3 * copies],
        [0, 2, "y", 3, 3 * copies],
        [0, 3, "x", 3, 3 * copies],
    ]
    assert run.trace is not None
    events = run.trace.table()
    delivered = events[events["event"] == "delivered"]
    assert delivered.groupby(["receiver", "kind"]).size().to_dict() == {
        (1, "x"): 3 * copies,
        (2, "x"): 3 * copies,
        (2, "y"): 3 * copies,
        (3, "x"): 3 * copies,
    }


def send_before(agent: Agent, count: int) -> None:
    """Set an agent's counter as if it had already sent ``count`` messages."""
    agent.outbox.skip_numbers(count)
