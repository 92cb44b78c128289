"""One network over several processes: the CPU time per process against one process, and Dask against pipes.

COKE with 1,000 agents of 10 neighbours (100 features, 120 samples), stepped one by one and batched, and the bare
exchange of `benchmarks.delivery`. The CPU seconds are those of the busiest process during the run, without its start
and end: the run's duration with a core per process, apart from mutual waiting. All give the same trace hash.
"""

import gc
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest import mock

import networkx as nx
import numpy as np

from benchmarks import delivery
from benchmarks.report import apart, parser, show
from netsim import Agent, Link, Network, Run, latency
from netsim.agents import COKE, Geometric, LocalProblem, Squared
from netsim.engine.runtime import Runtime

FEATURES, SAMPLES = 100, 120
Agents = dict[int, Any]


def network(agents: int) -> Network:
    """Return the network of `benchmarks.delivery`."""
    graph = nx.random_regular_graph(delivery.DEGREE, agents, seed=1)
    link = Link(latency=latency.uniform(delivery.LOW, delivery.HIGH), loss=delivery.LOSS)
    return Network(graph, link, round_period=0.1, seed=1)


class Alone(COKE):
    """COKE whose agents are stepped one by one."""

    async def run(self) -> None:
        """Take part in the rounds."""
        await super().run()


def coke(agents: int, rounds: int, kind: type[COKE] = COKE) -> Agents:
    """Return agents that learn a linear model."""
    rng = np.random.default_rng(0)
    model = rng.standard_normal(FEATURES)
    found: Agents = {}
    for node in range(agents):
        inputs = rng.standard_normal((SAMPLES, FEATURES)) / 10
        targets = inputs @ model + 0.1 * rng.standard_normal(SAMPLES)
        problem = LocalProblem(inputs, targets, loss=Squared(), regularizer=1e-5)
        found[node] = kind(problem, rounds, rho=1e-2, censor=Geometric(1.0, 0.95))
    return found


def adders(agents: int, rounds: int) -> Agents:
    """Return agents that sum received vectors."""
    return {node: delivery.BulkAdder(node, rounds) for node in range(agents)}


@contextmanager
def cpu_of_runs() -> Iterator[list[float]]:
    """Measure the CPU seconds of runs in this process, without their start and end."""
    found: list[float] = []
    start, close = Runtime._start, Runtime._close

    def starting(run: Runtime) -> None:
        found.append(time.process_time())
        start(run)

    def closing(run: Runtime) -> None:
        found[-1] = time.process_time() - found[-1]
        close(run)

    with mock.patch.object(Runtime, "_start", starting), mock.patch.object(Runtime, "_close", closing):
        yield found


def measured(make: Callable[[int, int], Agents], agents: int, rounds: int, workers: int, dask: str | None) -> Run:
    """Run agents over workers; the run's costs are those of the processes."""
    gc.collect()
    with cpu_of_runs() as seconds:
        run = network(agents).run(make(agents, rounds), workers=workers, dask=dask)
    if workers == 1 and dask is None:
        run.costs = [{"cpu_seconds": seconds[0]}]
    return run


def compare(
    make: Callable[[int, int], Agents], agents: int, rounds: int, repeats: int, dask: str | None
) -> dict[str, dict[str, float]]:
    """Return the median CPU seconds by number of workers, in alternating runs."""
    kinds: dict[str, tuple[int, str | None]] = {"1 process": (1, None), "2 workers": (2, None), "4 workers": (4, None)}
    if dask is not None:
        kinds["2 workers, Dask"] = (2, dask)
    costs: dict[str, list[dict[str, float]]] = {name: [] for name in kinds}
    hashes = set()
    for _ in range(repeats):
        for name, (workers, where) in kinds.items():
            run = measured(make, agents, rounds, workers, where)
            hashes.add(run.trace_hash)
            busiest = max(run.costs, key=lambda cost: cost["cpu_seconds"])
            costs[name].append({**busiest, "bytes": sum(cost.get("bytes", 0) for cost in run.costs)})
    assert len(hashes) == 1, "workers must give the hash of one process"
    alone = statistics.median(cost["cpu_seconds"] for cost in costs["1 process"])
    found = {}
    for name, all_costs in costs.items():
        cpu = statistics.median(cost["cpu_seconds"] for cost in all_costs)
        found[name] = {"cpu_seconds": cpu, "speedup": alone / cpu}
        if windows := all_costs[0].get("windows"):
            found[name] |= {"windows": int(windows), "kB_a_window": all_costs[0]["bytes"] / windows / 1e3}
    return found


def rows(agents: int, rounds: int, repeats: int, dask: str | None = None) -> dict[str, Any]:
    """Return the rows of COKE, stepped one by one and batched, and of the bare exchange."""
    result: dict[str, Any] = {}
    kinds = (("COKE one by one", partial(coke, kind=Alone)), ("COKE at once", coke), ("delivery", adders))
    for title, make in kinds:
        found = compare(make, agents, rounds, repeats, dask)
        result |= {f"{title}, {name}": row for name, row in found.items()}
    return result


class Averager(Agent):
    """Averages a number with its neighbours, the least work that an agent can do."""

    def __init__(self, value: float, rounds: int) -> None:
        self.value, self.count = np.array([value]), rounds

    async def run(self) -> None:
        """Take part in the rounds."""
        async for _ in self.rounds(self.count):
            await self.broadcast("state", self.value)
            heard = await self.collect()
            if heard:
                self.value = (self.value + heard.sum()) / (1 + len(heard))


def large(agents: int, workers: int, rounds: int = 3) -> dict[str, Any]:
    """Return the hash, seconds and memory (GB, of all processes) of averaging on a ring of many agents."""
    ring: nx.Graph[int] = nx.Graph()
    ring.add_nodes_from(range(agents))
    ring.add_edges_from((i, (i + hop) % agents) for i in range(agents) for hop in (1, 2))
    link = Link(latency=latency.uniform(delivery.LOW, delivery.HIGH), loss=delivery.LOSS)
    begun = time.perf_counter()
    many = {node: Averager(float(node), rounds) for node in ring}
    run = Network(ring, link, round_period=0.1, seed=1).run(many, workers=workers)
    own, others = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "trace_hash": run.trace_hash,
        "seconds": time.perf_counter() - begun,
        "GB_caller": own / 1e6,
        "GB_largest_worker": others / 1e6 if workers > 1 else 0.0,
    }


def large_sizes(agents: int) -> dict[str, dict[str, Any]]:
    """Return `large` over 1 and 4 workers, each in a separate process."""
    found = {f"{agents:,} agents, {n} workers": apart("workers", f"workers.large({agents}, {n})") for n in (1, 4)}
    assert len({row["trace_hash"] for row in found.values()}) == 1
    return found


def main() -> None:
    """Run the benchmark."""
    command = parser(__doc__, agents=1000, rounds=60, repeats=3, large=0)
    command.add_argument("--dask", action="store_true", help="also on a Dask cluster of this machine")
    chosen = command.parse_args()
    if chosen.dask:
        from distributed import LocalCluster

        cluster: Any = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    else:
        cluster = nullcontext()
    with cluster:
        dask = cluster.scheduler_address if chosen.dask else None
        result: dict[str, Any] = rows(chosen.agents, chosen.rounds, chosen.repeats, dask)
    if chosen.large:
        result |= large_sizes(chosen.large)
    show(result, chosen.json, f"{chosen.agents} agents × {delivery.DEGREE} neighbours × {chosen.rounds} rounds")


if __name__ == "__main__":
    main()
