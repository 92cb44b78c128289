"""Endless hostile inputs, random programs and random networks, and the memory of a hundred million deliveries.

The tests run the same fuzzers for seconds; this runs them for hours, on two cores. A failure is reported in one line,
with the command to repeat it: ``python -m benchmarks.soak --repeat networks 1 52`` runs that one input again. An input
that takes minutes counts as a failure; one that ends its process ends the soak, which names the job. Deliveries are
made by successive plain runs in a separate process, whose peak memory must not grow with their number.
"""

import gc
import importlib
import itertools
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import networkx as nx
import numpy as np

import netsim
from benchmarks.report import parser, resident, show
from netsim import Link, Network, latency

AGENTS, DEGREE, ROUNDS = 20, 10, 5000
# {part: (module in tests/fuzzers, number of inputs in a worker's job, default number of inputs)}.
FUZZERS = {
    "inputs": ("wire", 2000, 10_000_000),
    "programs": ("programs", 50, 200_000),
    "networks": ("networks", 10, 20_000),
    "journals": ("journals", 50, 200_000),
    "files": ("files", 50, 200_000),
    "radios": ("radios", 10, 20_000),
    "changes": ("changes", 10, 20_000),
    "orders": ("orders", 10, 20_000),
}
MINUTES = 5
Task = tuple[str, int, int, int]


# --- fuzzers ----------------------------------------------------------------------------------------------------------


def fuzzer(part: str) -> Callable[[Any], object] | None:
    """Return a part's ``check_one``, or None if the part has no fuzzer."""
    name = f"tests.fuzzers.{FUZZERS[part][0]}"
    try:
        check: Callable[[Any], object] = importlib.import_module(name).check_one
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
    return check


def random_of(part: str, seed: int, number: int) -> np.random.Generator | random.Random:
    """Return the random generator of one input: Python's for the wire, which draws many single numbers."""
    rng = np.random.default_rng([seed, list(FUZZERS).index(part), number])
    return random.Random(int(rng.integers(2**63))) if part == "inputs" else rng


def give_up(*_: object) -> None:
    """End an input that hangs."""
    raise TimeoutError(f"not done after {MINUTES} minutes")


def check_many(task: Task, deadline: float) -> tuple[str, int, list[str]]:
    """Check a job's inputs until the deadline; return the part, the number checked, and a line for each failure."""
    part, seed, first, count = task
    check, failures, done = fuzzer(part), [], 0
    assert check is not None
    signal.signal(signal.SIGALRM, give_up)
    # Random programs overrun their rounds on purpose; each would print a warning of its own.
    warnings.simplefilter("ignore", RuntimeWarning)
    for number in range(first, first + count):
        if time.monotonic() > deadline:
            break
        done += 1
        signal.alarm(60 * MINUTES)
        try:
            check(random_of(part, seed, number))
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = " ".join(f"{where.name}, line {where.lineno}: {type(error).__name__} {error}".split())[:200]
            failures.append(f"--repeat {part} {seed} {number}: {text}")
    signal.alarm(0)
    return part, done, failures


def tasks_of(part: str, seed: int, count: int) -> Iterator[Task]:
    """Yield the jobs of one part."""
    size = FUZZERS[part][1]
    for first in range(0, count, size):
        yield part, seed, first, min(size, count - first)


# --- deliveries -------------------------------------------------------------------------------------------------------


class Plain(netsim.Agent):
    """Broadcasts a vector in each round, and counts received ones."""

    def __init__(self) -> None:
        self.heard = 0

    async def run(self) -> None:
        """Take part in the rounds."""
        mine = np.zeros(100)
        async for _ in self.rounds(ROUNDS):
            await self.broadcast("state", mine)
            self.heard += len(await self.collect())


def deliver(seed: int, deadline: float) -> tuple[int, int, int]:
    """Run about a million deliveries; return their number, and the peak memory after a tenth and at the end."""
    if time.monotonic() > deadline:
        return 0, 0, 0
    peaks: list[int] = []
    # The reference cycles of a run stay until a collection; only objects that remain after it are a leak.
    gc.collect()

    def note(round_number: int) -> None:
        if round_number in (ROUNDS // 10, ROUNDS):
            peaks.append(resident())

    graph = nx.random_regular_graph(DEGREE, AGENTS, seed=1)
    link = Link(latency=latency.uniform(0.01, 0.05), loss=0.05)
    agents = {node: Plain() for node in graph}
    run = Network(graph, link, round_period=0.1, seed=seed).run(agents, progress=note)
    delivered = int(run.rounds["delivered"].iloc[-1])
    assert delivered == sum(agent.heard for agent in agents.values())
    return delivered, peaks[0], peaks[1]


def memory(done: list[tuple[int, int, int]]) -> dict[str, float]:
    """Return the memory growth of delivery runs: within the first run, due to its rows, and from run to run."""
    if not done:
        return {"count": 0}
    (first, early, peak), later = done[0], sum(row[0] for row in done[2:])
    return {
        "count": sum(row[0] for row in done),
        "peak_MB": done[-1][2] / 1024,
        "kB_per_million_in_a_run": (peak - early) / (0.9 * first / 1e6),
        # The growth is counted from the second run on, because the first run's table loads pandas.
        "kB_per_million": (done[-1][2] - done[1][2]) / (later / 1e6) if later else 0.0,
    }


# --- the command ------------------------------------------------------------------------------------------------------


class Tally:
    """Counts the workers' finished jobs, and reports results as they arrive."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, int]] = {}
        self.runs: list[tuple[int, int, int]] = []

    def add(self, job: Future[tuple[str, int, list[str]]]) -> None:
        """Count one job of a fuzzer."""
        if job.exception() is None:
            part, count, failures = job.result()
            row = self.found.setdefault(part, {"count": 0, "failures": 0})
            row["count"] += count
            row["failures"] += len(failures)
            for line in failures:
                print(f"FAILED {line}", file=sys.stderr, flush=True)
            self.show()

    def add_run(self, run: Future[tuple[int, int, int]]) -> None:
        """Count one run of deliveries."""
        if run.exception() is None and run.result()[0]:
            self.runs.append(run.result())
        self.show()

    def show(self) -> None:
        """Show the progress on a terminal."""
        if sys.stderr.isatty():
            parts = [f"{part} {row['count']:,} ({row['failures']} failed)" for part, row in self.found.items()]
            text = ", ".join([*parts, f"deliveries {sum(run[0] for run in self.runs):,}"])
            print(f"\r{text:100}", end="", file=sys.stderr, flush=True)


def soak(counts: dict[str, int], deliveries: int, seed: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Run every part in turns, so that an interrupted soak has covered some of each."""
    deadline, tally = time.monotonic() + seconds, Tally()
    context = multiprocessing.get_context("spawn")
    # A third process runs the deliveries, so that its memory is only theirs.
    with ProcessPoolExecutor(2, context) as pool, ProcessPoolExecutor(1, context) as deliverer:
        runs = range(-(-deliveries // (AGENTS * DEGREE * ROUNDS * 95 // 100)))
        delivered = [deliverer.submit(deliver, seed + number, deadline) for number in runs]
        for run in delivered:
            run.add_done_callback(tally.add_run)
        lists = [tasks_of(part, seed, count) for part, count in counts.items()]
        tasks = [task for task in itertools.chain.from_iterable(itertools.zip_longest(*lists)) if task is not None]
        jobs = [pool.submit(check_many, task, deadline) for task in tasks]
        for job in jobs:
            job.add_done_callback(tally.add)
    lost = [task for task, job in zip(tasks, jobs, strict=True) if isinstance(job.exception(), BrokenProcessPool)]
    if lost:
        begun = ", ".join(f"{part} {seed} {first} to {first + count - 1}" for part, seed, first, count in lost[:2])
        raise SystemExit(f"an input ended its process; it is one of --repeat {begun}")
    for job in jobs:
        job.result()
    for run in delivered:
        run.result()
    return tally.found | ({"deliveries": memory(tally.runs)} if deliveries else {})


def main() -> None:
    """Run the soak; exit with 1 if anything failed."""
    sizes = {part: count for part, (_, _, count) in FUZZERS.items()}
    command = parser(__doc__, **sizes, deliveries=100_000_000, seed=1)
    command.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing new after so long")
    command.add_argument("--repeat", nargs=3, metavar=("PART", "SEED", "NUMBER"), help="run one input again")
    chosen = command.parse_args()
    if chosen.repeat:
        part, seed, number = chosen.repeat
        check = fuzzer(part)
        assert check is not None, f"there is no fuzzer of {part}"
        check(random_of(part, int(seed), int(number)))
        print("passed")
        return
    # Workers inherit this setting, because matrices here are small.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    counts = {}
    for part, (name, *_) in FUZZERS.items():
        if fuzzer(part) is None:
            print(f"{part}: left out, there is no tests/fuzzers/{name}.py", file=sys.stderr)
        else:
            counts[part] = getattr(chosen, part)
    result = soak(counts, chosen.deliveries, chosen.seed, chosen.seconds)
    show(result, chosen.json, f"seed {chosen.seed}")
    sys.exit(any(row.get("failures") for row in result.values()))


if __name__ == "__main__":
    main()
