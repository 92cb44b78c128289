"""Several trials of one setting: through the kernel, and through netsim with the sending times of the kernel's run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import binomtest

from benchmarks.kernel.mapping import Books, Setting
from benchmarks.kernel.namespaces import Ends
from benchmarks.kernel.wire import Crossing, Disagreement, exchange
from netsim import Run
from netsim.testing import Listener, Talker, play, sized
from netsim.util.typing import Vector

SIZES = (100, 400, 900, 1400)
"""The sizes (bytes) of datagrams, which are equally frequent."""

_BURST = 20
# Seconds before the first frame, because the kernel's timestamps start after a delay.
_BEGIN = 0.05
_NUMBER_BYTES = 4

Row = dict[str, float]


# --- what is offered --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Frames to send: ascending times (s from the start), and the bytes of each datagram; shapes (frames,)."""

    times: Vector
    sizes: Vector


def _sizes(frames: int, size: int | None, rng: np.random.Generator) -> Vector:
    return np.full(frames, float(size)) if size else rng.choice(np.array(SIZES, dtype=float), frames)


def bursts(frames: int, rate: float, load: float, size: int | None, rng: np.random.Generator) -> Plan:
    """Plan bursts of 20 frames, each at one instant, whose bytes without headers are ``load`` times ``rate`` bit/s."""
    sizes = _sizes(frames, size, rng)
    every = _BURST * 8 * sizes.mean() / (rate * load)
    return Plan(_BEGIN + every * (np.arange(frames) // _BURST), sizes)


def poisson(frames: int, rate: float, load: float, size: int | None, rng: np.random.Generator) -> Plan:
    """Plan frames as a Poisson process that offers ``load`` times ``rate`` bit/s on average."""
    sizes = _sizes(frames, size, rng)
    return Plan(_BEGIN + np.cumsum(rng.exponential(8 * float(sizes.mean()) / (rate * load), frames)), sizes)


def evenly(frames: int, every: float, size: int) -> Plan:
    """Plan frames of ``size`` bytes, one every ``every`` seconds."""
    return Plan(_BEGIN + every * np.arange(float(frames)), np.full(frames, float(size)))


# --- what becomes of it -----------------------------------------------------------------------------------------------


def through_kernel(ends: Ends, setting: Setting, plan: Plan) -> Crossing:
    """Send a plan's frames through the kernel; raises Unavailable, or Disagreement with the kernel's own counts."""
    setting.begin(ends)
    crossing = exchange(ends, plan.times, plan.sizes)
    check_books(setting.end_it(ends), setting, plan, crossing)
    return crossing


def check_books(books: Books, setting: Setting, plan: Plan, crossing: Crossing) -> None:
    """Raise Disagreement unless the received frames equal the kernel's counts."""
    came = list(crossing.order)
    size = int(plan.sizes[came].sum()) + len(came) * setting.header_bytes
    mine = Books(len(plan.times), len(came), size)
    if books != mine:
        raise Disagreement(f"the kernel counted {books}, and here are {mine}")


def simulate(setting: Setting, offered: Vector, sizes: Vector, seed: int) -> tuple[Crossing, Run]:
    """Return netsim's outcome for frames offered at these times (s, ascending), and the run.

    ``sizes`` are the frames' bytes, at least 12. The arrays have the shape (frames,).
    """
    frames = [
        number.to_bytes(_NUMBER_BYTES, "big") + sized(int(size))[_NUMBER_BYTES:] for number, size in enumerate(sizes)
    ]
    listener = Listener()
    run = play(Talker(zip(offered.tolist(), frames, strict=True)), listener, link=setting.link, seed=seed)
    came = {int.from_bytes(payload[:_NUMBER_BYTES], "big"): time for time, _, payload in listener.heard}
    departed = np.full(len(sizes), np.nan)
    departed[list(came)] = list(came.values())
    return Crossing(offered, departed - setting.service(sizes), tuple(came)), run


# --- how far two crossings differ -------------------------------------------------------------------------------------


def difference(one: Crossing, other: Crossing) -> Row:
    """Compare two crossings of the same frames.

    ``survived`` and ``other`` count the frames that passed in the first and in the second, ``differ`` those that passed
    in only one of them, ``swapped`` adjacent frames in the first's order that the second has reversed. ``p50_us``,
    ``p95_us`` and ``max_us`` are the percentiles of the microseconds by which times of departure differ, for frames
    that passed in both (NaN if none did).
    """
    came, came_there = ~np.isnan(one.departed), ~np.isnan(other.departed)
    apart = 1e6 * np.abs(one.departed - other.departed)[came & came_there]
    p50, p95, most = map(float, np.percentile(apart, (50, 95, 100)) if len(apart) else (np.nan,) * 3)
    place = {number: place for place, number in enumerate(other.order)}
    swapped = np.diff([place[number] for number in one.order if number in place]) < 0
    found = {"survived": came, "other": came_there, "differ": came != came_there, "swapped": swapped}
    return {name: int(each.sum()) for name, each in found.items()} | {"p50_us": p50, "p95_us": p95, "max_us": most}


def medians(rows: Sequence[Row]) -> Row:
    """Return the median of each column; of two middle values the lower one, so that counts stay whole numbers."""
    return {name: sorted(row[name] for row in rows)[(len(rows) - 1) // 2] for name in rows[0]}


def loss_rate(lost: int, frames: int) -> Row:
    """Return the number of lost frames, also in percent, and the 95 % interval of the loss (Clopper and Pearson)."""
    low, high = binomtest(lost, frames).proportion_ci(method="exact")
    return {"frames": frames, "lost": lost, "percent": 100 * lost / frames, "low": 100 * low, "high": 100 * high}


def times(ends: Ends, setting: Setting, plan: Plan, repeats: int, seed: int) -> dict[str, Row]:
    """Return the differences of netsim from the kernel, and of kernel runs: medians over the runs and their pairs.

    In both rows ``survived`` counts the frames that passed the kernel. All runs of the kernel have the same plan, but
    their actual sending times differ slightly. netsim gets the actual times of the run with which it is compared.
    """
    runs = [through_kernel(ends, setting, plan) for _ in range(repeats)]
    here = medians([difference(run, simulate(setting, run.offered, plan.sizes, seed)[0]) for run in runs])
    again = medians([difference(run, other) for run, other in combinations(runs, 2)])
    frames = {"frames": len(plan.times)}
    ratio = here["p95_us"] / again["p95_us"] if again["p95_us"] else math.nan
    return {"netsim": {**frames, **here, "p95_ratio": ratio}, "kernel": {**frames, **again}}


def losses(ends: Ends, setting: Setting, plan: Plan, repeats: int, seed: int) -> dict[str, Row]:
    """Return the loss rates of the kernel and of netsim, over all runs."""
    came = {"kernel": 0, "netsim": 0}
    for number in range(repeats):
        run = through_kernel(ends, setting, plan)
        came["kernel"] += len(run.order)
        came["netsim"] += len(simulate(setting, run.offered, plan.sizes, seed + number)[0].order)
    frames = repeats * len(plan.times)
    return {name: loss_rate(frames - count, frames) for name, count in came.items()}
