"""One setting, tried several times: through the kernel, and through netsim at the times that the kernel measured."""

import math
from itertools import combinations

from benchmarks.kernel.compare import difference, loss_rate, medians
from benchmarks.kernel.mapping import Books, Setting
from benchmarks.kernel.namespaces import Ends
from benchmarks.kernel.simulated import simulate
from benchmarks.kernel.traffic import Plan
from benchmarks.kernel.wire import Crossing, Disagreement, exchange

__all__ = ["check_books", "losses", "times"]


def through_kernel(ends: Ends, setting: Setting, plan: Plan) -> Crossing:
    """Send a plan's frames through the kernel, and hold what came against the kernel's own books.

    Raises
    ------
    Unavailable
        If the kernel does not have the setting.
    Disagreement
        If the books differ: something else crossed, or something was lost where nothing was to be.
    """
    setting.begin(ends)
    crossing = exchange(ends, plan.times, plan.sizes)
    check_books(setting.end_it(ends), setting, plan, crossing)
    return crossing


def check_books(books: Books, setting: Setting, plan: Plan, crossing: Crossing) -> None:
    """Hold what came against what the kernel counted; raises Disagreement."""
    came = list(crossing.order)
    size = int(plan.sizes[came].sum()) + len(came) * setting.header_bytes
    mine = Books(len(plan.times), len(came), size)
    if books != mine:
        raise Disagreement(f"the kernel counted {books}, and here are {mine}")


def times(ends: Ends, setting: Setting, plan: Plan, repeats: int, seed: int) -> dict[str, dict[str, float]]:
    """Return how netsim differs from the kernel, and how the kernel from itself: medians over the runs and their pairs.

    In both rows ``survived`` is the kernel. Its own runs are given the same plan; the times at which it really sends
    differ a little from run to run, while netsim is given those of the run that it is compared with.
    """
    runs = [through_kernel(ends, setting, plan) for _ in range(repeats)]
    mine = [simulate(setting, run.offered, plan.sizes, seed)[0] for run in runs]
    here = medians([difference(run, other) for run, other in zip(runs, mine, strict=True)])
    again = medians([difference(run, other) for run, other in combinations(runs, 2)])
    frames = {"frames": len(plan.times)}
    ratio = here["p95_us"] / again["p95_us"] if again["p95_us"] else math.nan
    return {"netsim": {**frames, **here, "p95_ratio": ratio}, "kernel": {**frames, **again}}


def losses(ends: Ends, setting: Setting, plan: Plan, repeats: int, seed: int) -> dict[str, dict[str, float]]:
    """Return the rates at which the kernel and netsim lose frames, over all runs."""
    lost = {"kernel": 0, "netsim": 0}
    for number in range(repeats):
        run = through_kernel(ends, setting, plan)
        lost["kernel"] += len(plan.times) - len(run.order)
        lost["netsim"] += len(plan.times) - len(simulate(setting, run.offered, plan.sizes, seed + number)[0].order)
    return {name: loss_rate(count, repeats * len(plan.times)) for name, count in lost.items()}
