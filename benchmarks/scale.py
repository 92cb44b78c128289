"""Costs that grow with the network (wiring, deliveries, links from positions, workers), and the cost of a start.

Times are CPU seconds. Each row is measured in a separate process, which imports its own modules and starts with an
empty heap, so that peak memory is that row's.
"""

import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import netsim
from benchmarks import workers
from benchmarks.delivery import DEGREE, BulkAdder
from benchmarks.report import apart, parser, show
from netsim.core.records import DELIVERED

# With this density a mote receives about twenty others, but only few of them reliably.
_MOTES_PER_KM2 = 350


class Idle(netsim.Agent):
    """Does nothing."""

    async def run(self) -> None:
        """End at once."""


def _memory() -> int:
    """Return the peak memory of this process so far, in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def wiring(agents: int) -> dict[str, float]:
    """Return CPU seconds, and kB per agent, of a run without events: wiring, start and end."""
    network = workers.network(agents)
    idle = {node: Idle() for node in network.graph}
    before, start = _memory(), time.process_time()
    network.run(idle)
    return {"seconds": time.process_time() - start, "kB_per_agent": (_memory() - before) / agents}


def bulk(agents: int, rounds: int, repeats: int) -> dict[str, float]:
    """Return CPU µs per delivery (the least of some runs, wiring included), and kB per agent."""
    network, found, peaks = workers.network(agents), [], [_memory()]
    for _ in range(repeats):
        start = time.process_time()
        run = network.run({node: BulkAdder(node, rounds) for node in network.graph})
        found.append((time.process_time() - start) / run.ledger.exits[DELIVERED] * 1e6)
        peaks.append(_memory())
    return {"microseconds": min(found), "kB_per_agent": (peaks[1] - peaks[0]) / agents}


def positions(motes: int) -> dict[str, float]:
    """Return the CPU seconds to compute links from positions, and the number of links per mote."""
    from netsim.radio import LogDistance

    places = np.random.default_rng(1).random((motes, 2)) * 1000.0 * (motes / _MOTES_PER_KM2) ** 0.5
    model, named = LogDistance(shadowing=4.0), dict(enumerate(map(tuple, places.tolist())))
    before, start = _memory(), time.process_time()
    links = model.network(named, connected=False).links
    seconds = time.process_time() - start
    return {
        "seconds": seconds,
        "links_per_mote": len(links) / motes,
        "kB_per_link": (_memory() - before) / len(links),
    }


def first_second(words: str, repeats: int = 5) -> dict[str, float]:
    """Return the least CPU seconds of Python with these arguments, including its children."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *words.split()], check=True, capture_output=True, cwd=folder)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"seconds": min(found)}


def table_of_averaging(repeats: int = 5) -> dict[str, float]:
    """Return the least CPU seconds until ``netsim run averaging`` has printed its table, before drawing."""
    code = (
        "import os, sys, time; from netsim.studies.terminal import Reporter; table = Reporter.table\n"
        "def timed(*given): table(*given); print(time.process_time(), file=sys.stderr, flush=True); os._exit(0)\n"
        "Reporter.table = timed; sys.argv = ['netsim', 'run', 'averaging']; from netsim.__main__ import main; main()"
    )
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=folder)
            found.append(float(done.stderr.split()[-1]))
    return {"seconds": min(found)}


def rows(largest: int) -> dict[str, Any]:
    """Return all rows, of networks up to ``largest`` agents."""
    sizes = [agents for agents in (10_000, 100_000) if agents <= largest]
    found: dict[str, Any] = {
        f"wiring, {agents:,} agents": apart("scale", f"scale.wiring({agents})") for agents in sizes
    }
    small = found["bulk, 20 agents, 1,000 rounds"] = apart("scale", "scale.bulk(20, 1000, 9)")
    for agents in sizes:
        row = apart("scale", f"scale.bulk({agents}, 10, {3 if agents <= 10_000 else 1})")
        found[f"bulk, {agents:,} agents, 10 rounds"] = row | {"times_20": row["microseconds"] / small["microseconds"]}
    found |= {f"positions, {motes:,} motes": apart("scale", f"scale.positions({motes})") for motes in (1_000, 10_000)}
    for words in ("-c pass", "-m netsim --version", "-m netsim list", "-m netsim run averaging"):
        found[f"python {words}"] = apart("scale", f"scale.first_second({words!r})")
    found["its table"] = apart("scale", "scale.table_of_averaging()")
    return found | workers.rows(1000, 60, 3)


def main() -> None:
    """Run the benchmark."""
    chosen = parser(__doc__, largest=100_000).parse_args()
    show(rows(chosen.largest), chosen.json, f"CPU time by size: {DEGREE} neighbours, 100 float64 a broadcast")


if __name__ == "__main__":
    main()
