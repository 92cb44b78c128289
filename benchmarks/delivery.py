"""What a delivery costs: netsim beside SimPy, plain asyncio and tvopt, and by size of the network.

Every tool does the same exchange: in each round each agent sends 100 float64 to its 10 neighbours, 5 % of the messages
are lost, the others take 10 to 50 ms, and the receiver adds up what it decodes. tvopt neither serialises nor has a
time. Sizes are run in processes of their own, so that peak memory is that of one size.
"""

import asyncio
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import msgpack
import networkx as nx
import numpy as np

import netsim
from benchmarks.report import median_seconds, parser, show
from netsim import Link, Network, latency
from netsim.core.records import DELIVERED
from netsim.util.typing import Vector

ELEMENTS, DEGREE, LOSS, LOW, HIGH = 100, 10, 0.05, 0.01, 0.05


def vector(agent: int) -> Vector:
    """Return what an agent sends, shape (100,)."""
    return np.random.default_rng(agent).random(ELEMENTS)


class Adder(netsim.Agent):
    """Sends its vector, adds up what it hears."""

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
    """Adds up what it hears at once."""

    async def run(self) -> None:
        """Take part in the rounds."""
        for_all, total = self.vector, self.total
        async for _ in self.rounds(self.count):
            await self.broadcast("state", for_all)
            total += (await self.collect()).sum()


def in_netsim(graph: "nx.Graph[int]", rounds: int, agent: type[Adder] = Adder) -> netsim.Run:
    """Run the exchange in netsim."""
    network = Network(graph, Link(latency=latency.uniform(LOW, HIGH), loss=LOSS), round_period=0.1, seed=1)
    return network.run({node: agent(node, rounds) for node in graph})


def in_simpy(graph: "nx.Graph[int]", rounds: int) -> None:
    """Run the exchange in SimPy: a store for each agent, a process for each message under way."""
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
    """Run the exchange in tvopt: arrays handed over as they are, in no time."""
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


def one_size(agents: int, rounds: int, repeats: int) -> dict[str, float]:
    """Return cost per delivery (µs, median) and peak memory (kB an agent, above what was there before) of a network."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    graph = nx.random_regular_graph(DEGREE, agents, seed=1)
    run = in_netsim(graph, rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    delivered = run.ledger.exits[DELIVERED]
    del run
    seconds = median_seconds({"run": partial(in_netsim, graph, rounds)}, repeats)["run"]
    return {"microseconds": seconds / delivered * 1e6, "kB_per_agent": (peak - before) / agents}


def sizes(rounds: int = 10) -> dict[str, dict[str, float]]:
    """Return cost and memory of 1k, 10k and 100k agents for the same rounds, each in a process of its own."""
    found = {}
    for agents, repeats in ((1_000, 9), (10_000, 3), (100_000, 1)):
        call = f"one_size({agents}, {rounds}, {repeats})"
        code = f"import json; from benchmarks.delivery import one_size; print(json.dumps({call}))"
        output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        found[f"{agents:,} agents, {rounds} rounds"] = json.loads(output)
    first = next(iter(found.values()))["microseconds"]
    for row in found.values():
        row["times_1k"] = row["microseconds"] / first
    return found


def main() -> None:
    """Run the benchmark."""
    command = parser(__doc__, agents=20, rounds=1000, repeats=5)
    command.add_argument("--sizes", action="store_true", help="also run 1k, 10k and 100k agents (minutes)")
    chosen = command.parse_args()
    result = peers(chosen.agents, chosen.rounds, chosen.repeats)
    if chosen.sizes:
        result |= sizes()
    show(
        result,
        chosen.json,
        f"{chosen.agents} agents × {DEGREE} neighbours × {ELEMENTS} float64 × {chosen.rounds} rounds",
    )


if __name__ == "__main__":
    main()
