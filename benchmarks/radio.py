"""The cost of a shared medium: 200 nodes with CSMA-CA and Poisson traffic for 100 simulated seconds.

The rows have different numbers of neighbours. An event is a timer of the medium: the end of a back-off, or the start or
end of a frame. A hearing is one frame at one neighbour. The time per hearing falls towards a constant as the number of
neighbours grows, because a frame costs a fixed time and a time per neighbour. With ten neighbours, half of a frame's
time is spent at its sender: sleeping, drawing and encoding. The ratio compares with the medium that is written in
Python.

More rows measure reception by SINR (`netsim.radio.Phy`) at scale: 1,000 motes with 84 neighbours and one broadcast per
mote in 10 s, once with powers between neighbours only and once between all motes; and 10,000 motes with 14 neighbours.
"""

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from statistics import median

import networkx as nx

from benchmarks.report import median_seconds, parser, resident, show
from netsim import Agent, Link, Network, Radio, Run
from netsim.radio import LogDistance, Phy, medium
from netsim.util import draws


class Sender(Agent):
    """Broadcasts at the times of a Poisson process."""

    def __init__(self, per_second: float, seconds: float) -> None:
        self.mean, self.seconds = 1 / per_second, seconds

    async def run(self) -> None:
        """Send until the time is over."""
        while (pause := self.rng.exponential(self.mean)) + self.now < self.seconds:
            await asyncio.sleep(pause)
            await self.broadcast("reading", 20.5)


def traffic(nodes: int, degree: int, per_second: float, seconds: float) -> Run:
    """Run the network; each node has ``degree`` neighbours."""
    graph = nx.random_regular_graph(degree, nodes, seed=1)
    network = Network(graph, Link(rate=250e3, header_bits=136, loss=0.1), medium=Radio(), seed=1)
    return network.run({node: Sender(per_second, seconds) for node in graph})


class Beacon(Agent):
    """Broadcasts every 10 s, from a random time on."""

    async def run(self) -> None:
        """Send for ever."""
        await asyncio.sleep(10.0 * self.rng.random())
        while True:
            await self.broadcast("beacon", 20.5)
            await asyncio.sleep(10.0)


def motes_network(nodes: int, degree: float, to_all: bool) -> Network:
    """Return a network of motes on a square, which receive by SINR; neighbours are within 30 m."""
    side = math.sqrt(nodes * math.pi * 30.0**2 / degree)
    places = draws.generator(1, nodes, "places").uniform(0.0, side, (nodes, 2)).tolist()
    model = LogDistance(exponent=3.0)
    positions = dict(enumerate(map(tuple, places)))
    near = model.audible(positions, -model.path_loss(30.0))
    powers = model.powers(positions) if to_all else model.powers_between(near.edges, positions)
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(near.edges)
    return Network(graph, Link(rate=250e3, header_bits=136), medium=Radio(phy=Phy(), powers=powers), seed=1)


def motes(nodes: int, degree: float, seconds: float, to_all: bool, repeats: int = 1) -> dict[str, float]:
    """Return the speed of motes relative to real time, and their costs.

    Times are CPU time, each the median of some runs.
    """
    begin = time.process_time()
    network = motes_network(nodes, degree, to_all)
    built = time.process_time() - begin

    def cpu(until: float) -> float:
        begin = time.process_time()
        network.run({node: Beacon() for node in network.graph}, until=until)
        return time.process_time() - begin

    start, whole = (median(cpu(until) for _ in range(repeats)) for until in (1e-3, seconds))
    assert isinstance(network.medium, Radio)
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        kilobytes = fresh.submit(memory, nodes, degree, seconds, to_all).result()
    return {
        "neighbours": 2 * network.graph.number_of_edges() / nodes,
        "hearers": len(network.medium.powers or ()) / nodes,
        "build_s": built,
        "start_s": start,
        "times_real_time": seconds / (whole - start),
        "kilobytes_a_mote": kilobytes / nodes,
    }


def memory(nodes: int, degree: float, seconds: float, to_all: bool) -> int:
    """Return the growth (kB) of this process's peak memory while motes are created and run; on Linux only."""
    before = resident()
    network = motes_network(nodes, degree, to_all)
    network.run({node: Beacon() for node in network.graph}, until=seconds)
    return resident() - before


def in_python(task: Callable[[], Run]) -> Run:
    """Run a task on the medium that is written in Python."""
    compiled, medium.COMPILED = medium.COMPILED, None
    try:
        return task()
    finally:
        medium.COMPILED = compiled


def main() -> None:
    """Run the benchmark."""
    chosen = parser(__doc__, nodes=200, seconds=100, repeats=3).parse_args()
    result: dict[str, object] = {}
    for degree in (5, 10, 20, 40):
        task = partial(traffic, chosen.nodes, degree, 1.0, float(chosen.seconds))
        run = task()
        times = median_seconds({"run": task, "twin": partial(in_python, task)}, chosen.repeats)
        seconds = times["run"]
        assert run.air is not None
        frames = int(run.airtime["frames"].sum())
        result[f"{degree} hearers"] = {
            "frames": frames,
            "events": run.air.events,
            "seconds": seconds,
            "events_per_s": round(run.air.events / seconds),
            "events_per_s_in_python": round(run.air.events / times["twin"]),
            "times_as_fast": times["twin"] / seconds,
            "microseconds_a_frame": 1e6 * seconds / frames,
            "microseconds_a_hearing": 1e6 * seconds / (frames * degree),
        }
    result["1,000 motes by SINR"] = motes(1000, 99.0, 60.0, False, chosen.repeats)
    result["1,000 motes by SINR, powers of all pairs"] = motes(1000, 99.0, 60.0, True, chosen.repeats)
    result["10,000 motes by SINR"] = motes(10_000, 14.3, 20.0, False, chosen.repeats)
    show(result, chosen.json, f"{chosen.nodes} nodes, CSMA-CA, {chosen.seconds} s of traffic, a frame a second each")


if __name__ == "__main__":
    main()
