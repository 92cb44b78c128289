"""Sweeps compared with the same runs without a sweep: gain of a second process, cost of a point, memory of the parent.

Short runs of a study in one file, each into its own folder, in three alternating ways:

* bare: a loop that only calls the study's function and saves its run folder (`Study.save`)
* joblib: the same as jobs of ``joblib.Parallel``, one by one and on two processes
* sweep: `netsim.studies.sweep`, with one job and with two, into a new folder

joblib's processes are started beforehand. Overhead is the additional time per point of a one-job sweep over the bare
loop, including everything around the points: checks, folders, the final table. It is measured on alternating blocks of
25 points, in real time and in CPU time, which other work on the machine affects less. Efficiency is the share of
joblib's gain by a second process that the sweep achieves, (sweep 1 / sweep 2) / (joblib 1 / joblib 2), in real time.
Medians over the turns are shown.

Memory: a sweep of ``points`` runs of a study without messages, with two jobs and in a separate process after its
imports; the parent's resident memory (VmRSS) after a tenth of the points and after all, and its peak (VmHWM) after the
final table. Linux only; ``--points 0`` leaves it out.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

import netsim
from benchmarks.report import apart, parser, resident, show
from netsim.studies.terminal import Reporter

STUDY = """
from netsim import Agent, Link, Network, topology

class Average(Agent):
    def __init__(self, value, rounds):
        self.value, self.count = value, rounds

    async def run(self):
        async for _ in self.rounds(self.count):
            await self.broadcast("state", self.value)
            heard = [frame.payload for frame in await self.collect()]
            self.value = sum(heard, self.value) / (1 + len(heard))

def averages(study, *, agents: int = 10, rounds: int = 40, loss: float = 0.1, seed: int = 0) -> None:
    graph = topology.ring(agents)
    agents = {i: Average(float(i), rounds) for i in graph}
    study.run("averages", Network(graph, Link(loss=loss), seed=seed), agents, [spread], rounds)

def spread(agents):
    values = [agent.value for agent in agents.values()]
    return max(values) - min(values)
"""
BLOCK = 25  # points
TRIVIAL = """
from netsim import Agent, Network, topology

class Idle(Agent):
    async def run(self):
        pass

def idle(study, *, seed: int = 0) -> None:
    study.run("idle", Network(topology.path(2)), {0: Idle(), 1: Idle()}, [], 1)
"""


def run_bare(study: str, seed: int, folder: str) -> None:
    """Run and save one point, as a user's own loop would."""
    netsim.studies.find_study(study).execute(seed=seed).save(folder)


def loop(study: str, stem: str, seeds: Iterable[int]) -> None:
    """Run and save several points, one after another."""
    for seed in seeds:
        run_bare(study, seed, f"{stem}-{seed}")


def in_turn(study: str, room: Path, tasks: int) -> dict[str, float]:
    """Return the seconds that each way takes, each measured once."""

    def tasked(jobs: int) -> None:
        Parallel(n_jobs=jobs, batch_size=1)(
            delayed(run_bare)(study, seed, f"{room}/{jobs}-{seed}") for seed in range(tasks)
        )

    ways: dict[str, Callable[[], object]] = {
        "bare": partial(loop, study, f"{room}/bare", range(tasks)),
        "joblib 1": lambda: tasked(1),
        "sweep 1": lambda: netsim.studies.sweep(study, out=room / "one", seed=range(tasks)),
        "joblib 2": lambda: tasked(2),
        "sweep 2": lambda: netsim.studies.sweep(study, out=room / "two", seed=range(tasks), jobs=2),
    }
    return {name: spent(way)[0] for name, way in ways.items()}


def spent(way: Callable[[], object]) -> tuple[float, float]:
    """Return the real seconds and the CPU seconds of a call."""
    start, used = time.perf_counter(), time.process_time()
    way()
    return time.perf_counter() - start, time.process_time() - used


def overheads(study: str, room: Path, blocks: int) -> list[tuple[float, float]]:
    """Return a point's additional milliseconds in a sweep over the bare loop, for each block."""
    found = []
    for number in range(blocks):
        seeds = range(number * BLOCK, (number + 1) * BLOCK)
        bare = spent(partial(loop, study, f"{room}/block", seeds))
        swept = spent(partial(netsim.studies.sweep, study, out=room / f"swept-{number}", seed=seeds))
        found.append(((swept[0] - bare[0]) / BLOCK * 1e3, (swept[1] - bare[1]) / BLOCK * 1e3))
    return found


def compare(tasks: int, repeats: int) -> dict[str, Any]:
    """Return medians of seconds, of the overhead in milliseconds and of ratios, over turns."""
    turns: list[dict[str, float]] = []
    longer: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "averages.py"
        study.write_text(STUDY)
        Parallel(n_jobs=2)(delayed(netsim.studies.find_study)("averaging") for _ in range(2))
        for number in range(repeats):
            room = Path(folder) / f"turn-{number}"
            room.mkdir()
            turns.append(in_turn(str(study), room, tasks))
            longer += overheads(str(study), room, max(tasks // BLOCK // 2, 1))
    middle = statistics.median
    result: dict[str, Any] = {f"{name} (s)": middle(turn[name] for turn in turns) for name in turns[0]}
    gains = {way: middle(turn[f"{way} 1"] / turn[f"{way} 2"] for turn in turns) for way in ("joblib", "sweep")}
    result |= {f"gain of a second process, {way}": gain for way, gain in gains.items()}
    shares = [(turn["sweep 1"] / turn["sweep 2"]) / (turn["joblib 1"] / turn["joblib 2"]) for turn in turns]
    result["efficiency (share of joblib's gain)"] = middle(shares)
    for title, values in zip(("by the clock", "of the processor"), zip(*longer, strict=True), strict=True):
        result[f"overhead of a point, {title} (ms)"] = middle(values)
    return result


# --- memory -----------------------------------------------------------------------------------------------------------


class Watch(Reporter):
    """Records resident memory when given numbers of points have ended."""

    def __init__(self, at: tuple[int, ...]) -> None:
        super().__init__(quiet=True)
        self.at = at
        self.found: dict[int, float] = {}

    def tally(self, label: str, total: int) -> Any:
        """Return a context in which the sweep reports its progress, for which memory is recorded."""

        def note(done: int, failed: int) -> None:
            if done + failed in self.at:
                self.found[done + failed] = resident("VmRSS") / 1024

        return nullcontext(note)


def held(points: int) -> dict[str, float]:
    """Return the memory (MB) of this process after a tenth of the points, after all points, and at the end."""
    import pandas  # noqa: F401  that the table needs it is not growth

    watch = Watch((points // 10, points))
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "idle.py"
        study.write_text(TRIVIAL)
        start = time.perf_counter()
        netsim.studies.sweep(str(study), out=Path(folder) / "out", seed=range(points), jobs=2, reporter=watch)
        seconds = time.perf_counter() - start
        middle = resident() / 1024
        start = time.perf_counter()
        netsim.studies.sweep(str(study), out=Path(folder) / "out", seed=range(points), jobs=2)
        again = time.perf_counter() - start
    first, last = (watch.found[each] for each in watch.at)
    return {
        f"parent after {points // 10} points (MB)": first,
        f"parent after {points} points (MB)": last,
        "growth (MB)": last - first,
        "highest, with the table of all (MB)": middle,
        "milliseconds a point": seconds / points * 1e3,
        "milliseconds a point that is done": again / points * 1e3,
    }


def main() -> None:
    """Run the benchmark."""
    chosen = parser(__doc__, tasks=200, repeats=5, points=10_000).parse_args()
    result = compare(chosen.tasks, chosen.repeats)
    if chosen.points:
        result |= apart("sweep", f"sweep.held({chosen.points})")
    show(result, chosen.json, f"{chosen.tasks} short runs, and {chosen.points} trivial ones")


if __name__ == "__main__":
    main()
