"""How far two crossings of the same frames differ: who came through, in which order, and when."""

from collections.abc import Sequence

import numpy as np
from scipy.special import betaincinv

from benchmarks.kernel.wire import Crossing

__all__ = ["difference", "loss_rate", "medians"]


def difference(one: Crossing, other: Crossing) -> dict[str, float]:
    """Compare two crossings of the same frames.

    Returns
    -------
    dict
        ``survived`` and ``other``: how many frames came through in the one and in the other; ``differ``: of how many
        that is not the same; ``swapped``: of how many neighbours in the one's order the other has it the other way
        round; ``p50_us``, ``p95_us``, ``max_us``: by how many microseconds the times of departure differ, of the
        frames that came through in both (NaN if none did).
    """
    came, came_there = ~np.isnan(one.departed), ~np.isnan(other.departed)
    both = came & came_there
    apart = 1e6 * np.abs(one.departed - other.departed)[both]
    p50, p95, most = np.percentile(apart, (50, 95, 100)) if len(apart) else (np.nan,) * 3
    place = {number: place for place, number in enumerate(other.order)}
    places = [place[number] for number in one.order if number in place]
    return {
        "survived": int(came.sum()),
        "other": int(came_there.sum()),
        "differ": int((came != came_there).sum()),
        "swapped": int((np.diff(places) < 0).sum()),
        "p50_us": float(p50),
        "p95_us": float(p95),
        "max_us": float(most),
    }


def medians(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each column; counts stay whole (of an even number of them the lower of the middle two)."""
    found: dict[str, float] = {}
    for name in rows[0]:
        values = sorted(row[name] for row in rows)
        found[name] = values[(len(values) - 1) // 2]
    return found


def loss_rate(lost: int, frames: int) -> dict[str, float]:
    """Return how many were lost, also in percent, and the interval of 95 % for the true rate (Clopper and Pearson)."""
    low = betaincinv(lost, frames - lost + 1, 0.025) if lost else 0.0
    high = betaincinv(lost + 1, frames - lost, 0.975) if lost < frames else 1.0
    return {
        "frames": frames,
        "lost": lost,
        "percent": 100 * lost / frames,
        "low": 100 * float(low),
        "high": 100 * float(high),
    }
