"""The cost of a delivery: netsim compared with SimPy, plain asyncio and tvopt, and links with more stages.

Every tool does the same exchange: in each round each agent sends 100 float64 to its 10 neighbours, 5 % of the messages
are lost, the others take 10 to 50 ms, and the receiver sums the decoded vectors. tvopt neither serialises messages nor
models time. For links with more stages the compiled core is compared with the Python core. `benchmarks.scale` measures
networks of different sizes.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgpack
import networkx as nx
import numpy as np

import netsim
from benchmarks.report import apart, median_seconds, parser, show
from netsim import Link, Network, latency, loss
from netsim.links import Budget
from netsim.util.typing import Vector

ELEMENTS, DEGREE, LOSS, LOW, HIGH = 100, 10, 0.05, 0.01, 0.05
PLAIN = Link(latency=latency.uniform(LOW, HIGH), loss=LOSS)
BURSTS = loss.gilbert_elliott(LOSS, 3)
STAGES = {
    "loss and latency": PLAIN,
    "rate and queue": replace(PLAIN, rate=1e6, queue=20),
    "rate, queue and fragments": replace(PLAIN, rate=1e6, queue=20, mtu=300, header_bits=64),
    "bursts of losses": replace(PLAIN, loss=BURSTS),
    "all stages": Link(
        latency=latency.uniform(LOW, HIGH),
        loss=BURSTS,
        rate=1e6,
        queue=20,
        mtu=300,
        header_bits=64,
        budget=Budget(1e6, "second", "wait"),
        duplicate=0.01,
        corrupt=0.01,
        fifo=True,
    ),
}
"""Links with an increasing number of stages."""


def vector(agent: int) -> Vector:
    """Return what an agent sends, shape (100,)."""
    return np.random.default_rng(agent).random(ELEMENTS)


class Adder(netsim.Agent):
    """Sends its vector, and sums received ones."""

    def __init__(self, number: int, rounds: int) -> None:
        self.vector = vector(number)
        self.total = np.zeros(ELEMENTS)
        self.count = rounds

    async def run(self) -> None:
        """Take part in the rounds."""
        for_all, total = self.vector, self.total
        async for _ in self.rounds(self.count):
            await self.broadcast("state", for_all)
            for frame in await self.collect():
                total += frame.payload


class BulkAdder(Adder):
    """Sums all vectors of a round in one call."""

    async def run(self) -> None:
        """Take part in the rounds."""
        for_all, total = self.vector, self.total
        async for _ in self.rounds(self.count):
            await self.broadcast("state", for_all)
            total += (await self.collect()).sum()


def in_netsim(graph: "nx.Graph[int]", rounds: int, agent: type[Adder] = Adder, link: Link = PLAIN) -> netsim.Run:
    """Run the exchange in netsim."""
    network = Network(graph, link, round_period=0.1, seed=1)
    return network.run({node: agent(node, rounds) for node in graph})


def in_simpy(graph: "nx.Graph[int]", rounds: int) -> None:
    """Run the exchange in SimPy: a store for each agent, a process for each message in flight."""
    import simpy

    env = simpy.Environment()
    inboxes = {node: simpy.Store(env) for node in graph}
    rng = np.random.default_rng(1)

    def carry(inbox: "simpy.Store", delay: float, data: bytes):  # type: ignore[no-untyped-def]
        yield env.timeout(delay)
        yield inbox.put(data)

    def agent(node: int):  # type: ignore[no-untyped-def]
        mine, total, inbox = vector(node), np.zeros(ELEMENTS), inboxes[node]
        for number in range(rounds):
            data = msgpack.packb([node, number, mine.tobytes()])
            for other in graph[node]:
                if rng.random() >= LOSS:
                    env.process(carry(inboxes[other], rng.uniform(LOW, HIGH), data))
            yield env.timeout(0.1)
            while inbox.items:
                data = yield inbox.get()
                total += np.frombuffer(msgpack.unpackb(data)[2])

    for node in graph:
        env.process(agent(node))
    env.run()


def in_asyncio(graph: "nx.Graph[int]", rounds: int) -> None:
    """Run the exchange in plain asyncio: a queue for each agent, a timer for each message, netsim's virtual clock."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        inboxes: dict[int, asyncio.Queue[bytes]] = {node: asyncio.Queue() for node in graph}
        rng = np.random.default_rng(1)

        async def agent(node: int) -> None:
            mine, total, inbox = vector(node), np.zeros(ELEMENTS), inboxes[node]
            for number in range(rounds):
                data = msgpack.packb([node, number, mine.tobytes()])
                for other in graph[node]:
                    if rng.random() >= LOSS:
                        loop.call_later(rng.uniform(LOW, HIGH), inboxes[other].put_nowait, data)
                await asyncio.sleep(0.1)
                while not inbox.empty():
                    total += np.frombuffer(msgpack.unpackb(await inbox.get())[2])

        async with asyncio.TaskGroup() as tasks:
            for node in graph:
                tasks.create_task(agent(node))

    with asyncio.Runner(loop_factory=netsim.clock.new_loop) as runner:
        runner.run(main())


def in_tvopt(graph: "nx.Graph[int]", rounds: int) -> None:
    """Run the exchange in tvopt, which passes arrays without copying or delay."""
    from tvopt.networks import LossyNetwork

    network = LossyNetwork(nx.to_numpy_array(graph), LOSS)
    vectors = [vector(node) for node in graph]
    totals = [np.zeros(ELEMENTS) for _ in graph]
    for _ in range(rounds):
        for node in graph:
            network.broadcast(node, vectors[node])
        for node in graph:
            for other in network.neighbors[node]:
                totals[node] += network.receive(node, other)


def peers(agents: int, rounds: int, repeats: int) -> dict[str, object]:
    """Return deliveries a second of each tool (medians), and netsim's ratio to each."""
    graph = nx.random_regular_graph(DEGREE, agents, seed=1)
    expected = agents * DEGREE * rounds * (1 - LOSS)
    tools: dict[str, Callable[[nx.Graph[int], int], object]] = {
        "netsim": in_netsim,
        "netsim, added up at once": partial(in_netsim, agent=BulkAdder),
        "SimPy": in_simpy,
        "asyncio, a queue per agent": in_asyncio,
        "tvopt (no serialization)": in_tvopt,
    }
    seconds = median_seconds({name: partial(tool, graph, rounds) for name, tool in tools.items()}, repeats)
    return {
        name: {
            "deliveries_per_s": round(expected / time),
            "microseconds": time / expected * 1e6,
            "netsim_is_faster_by": time / seconds["netsim"],
        }
        for name, time in seconds.items()
    }


def costs_by_stages(agents: int, rounds: int, repeats: int) -> dict[str, float]:
    """Return the median CPU time (µs) of a link message for each link with stages."""
    graph = nx.random_regular_graph(DEGREE, agents, seed=1)
    runs = {name: partial(in_netsim, graph, rounds, link=link) for name, link in STAGES.items()}
    seconds = median_seconds(runs, repeats)
    return {name: each / (agents * DEGREE * rounds) * 1e6 for name, each in seconds.items()}


def stages(agents: int, rounds: int, repeats: int) -> dict[str, dict[str, float]]:
    """Return the costs of links with increasing numbers of stages, for both cores."""
    python = apart("delivery", f"delivery.costs_by_stages({agents}, {rounds}, 1)", {"NETSIM_CORE": "python"})
    return {
        f"links with {name}": {
            "microseconds": cost,
            "in_python": python[name],
            "python_is_slower_by": python[name] / cost,
        }
        for name, cost in costs_by_stages(agents, rounds, repeats).items()
    }


def main() -> None:
    """Run the benchmark."""
    chosen = parser(__doc__, agents=20, rounds=1000, repeats=5).parse_args()
    result = peers(chosen.agents, chosen.rounds, chosen.repeats)
    result |= stages(chosen.agents, chosen.rounds, chosen.repeats)
    show(
        result,
        chosen.json,
        f"{chosen.agents} agents × {DEGREE} neighbours × {ELEMENTS} float64 × {chosen.rounds} rounds",
    )


if __name__ == "__main__":
    main()
