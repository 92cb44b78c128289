"""Measures of a convergecast: each reading's path, reasons of loss, and sums by mote, by number of hops and by run."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from netsim import Energy, Run
from netsim.agents import Collector
from netsim.scenarios.convergecast.field import Layout
from netsim.scenarios.convergecast.mote import NO_ROUTE
from netsim.scenarios.tasks.motes import milliampere_hours

QUANTILES = {"latency_p50_s": 0.5, "latency_p90_s": 0.9, "latency_p99_s": 0.99}
NEVER, UNDER_WAY = "never taken", "under way at the end"
_ONLY_ACKS = "not acknowledged (delivered)"
_DAY = 86_400.0


def by_reading(run: Run, layout: Layout) -> pd.DataFrame:
    """Return a row for each due reading: the times (s) when taken, first sent and received, and the reason if lost.

    Without acknowledgements motes do not detect lost frames, so ``reason`` is empty; `losses` counts them.
    """
    arrived, reasons = dict(_arrivals(run, layout)), dict(_reasons(run))
    rows = []
    for mote in layout.parents:
        agent: Any = run.agents[mote]
        hops = len(layout.path(mote)) or math.nan
        times, numbers = agent.app.taken_at, getattr(agent.routing, "numbers", ())
        for number in range(1, agent.app.readings + 1):
            taken = times[number - 1] if number <= len(times) else math.nan
            sent = agent.routing.sent_at.get(numbers[number - 1] if number <= len(numbers) else number, math.nan)
            at = arrived.get((mote, number), math.nan)
            reason = "" if at == at else NEVER if math.isnan(taken) else reasons.get((mote, number), "")
            rows.append((mote, hops, number, taken, sent, at, at - taken, reason))
    names = ["mote", "hops", "reading", "taken_s", "sent_s", "arrived_s", "latency_s", "reason"]
    return pd.DataFrame(rows, columns=names)


def _arrivals(run: Run, layout: Layout) -> Iterator[tuple[tuple[Any, int], float]]:
    """Yield (mote, index of the reading) and the arrival time of each reading that arrived."""
    sink = _routing(run)[layout.sink]
    if isinstance(sink, Collector):
        places = _places(run)
        yield from ((places.get(reading, reading), each.time) for reading, each in sink.heard.items())
        return
    numbers = _numbers(run)
    yield from ((numbers[each.mote, each.taken], each.arrived) for each in sink.heard)


def _reasons(run: Run) -> Iterator[tuple[tuple[Any, int], str]]:
    """Yield (mote, index) and reason of each reading that was given up; of several pairs the last one counts."""
    numbers, places = _numbers(run), _places(run)
    for each in _routing(run).values():
        for key, reason in each.lost.items():
            if reason != _ONLY_ACKS:
                yield (places.get(key, key) if isinstance(each, Collector) else numbers[key]), reason
        if isinstance(each, Collector) and each.parent is None and not each.is_sink:
            yield from ((places.get(packet.reading, packet.reading), NO_ROUTE) for packet in each.waiting)


def _places(run: Run) -> dict[tuple[Any, int], tuple[Any, int]]:
    """Return {(mote, the routing layer's packet number): (mote, index of the reading)}."""
    numbers = {name: getattr(each, "numbers", ()) for name, each in _routing(run).items()}
    return {(name, number): (name, place) for name, each in numbers.items() for place, number in enumerate(each, 1)}


def _routing(run: Run) -> dict[Any, Any]:
    """Return each mote's routing layer."""
    return {name: agent.routing for name, agent in run.agents.items()}  # type: ignore[attr-defined]


def _numbers(run: Run) -> dict[tuple[Any, float], tuple[Any, int]]:
    """Return {(mote, sampling time): (mote, index of the reading)}."""
    times = {name: agent.app.taken_at for name, agent in run.agents.items()}  # type: ignore[attr-defined]
    return {(name, time): (name, number) for name, taken in times.items() for number, time in enumerate(taken, 1)}


def losses(readings: pd.DataFrame, run: Run) -> pd.DataFrame:
    """Return the number of lost readings by reason, and their share of the due readings; the counts add up exactly.

    Without acknowledgements each reading is one frame per hop, so the outcomes are those of frames in the ledger.
    """
    missing = readings[readings["arrived_s"].isna()]
    counts = Counter(missing["reason"][missing["reason"] != ""])
    if len(missing) > counts.total():
        ends = run.ledger.table(["kind"]).set_index("kind")
        causes = [cause for cause in run.ledger.causes if cause in ends and cause != "delivered"]
        if not all(getattr(agent, "acks", True) for agent in run.agents.values()) and "reading" in ends.index:
            counts.update({f"sent once ({cause})": int(ends[cause]["reading"]) for cause in causes})
        counts[UNDER_WAY] += len(missing) - counts.total()
    found = [(reason, count, 100 * count / len(readings)) for reason, count in counts.most_common() if count]
    return pd.DataFrame(found, columns=["reason", "readings", "share_%"])


def by_mote(run: Run, readings: pd.DataFrame, layout: Layout, energy: Energy, tries: int | None) -> pd.DataFrame:
    """Return a row for each mote except the sink: hops; readings due, taken, sent and arrived; frames; energy.

    ``expected_%`` is the share of readings that would arrive over the tree without collisions, with ``tries`` tries per
    hop. ``latency_s`` is the mean over the readings that arrived. ``frames_j`` is the energy for sending and receiving
    frames.
    """
    motes = list(layout.parents)
    groups = readings.groupby("mote", sort=False)
    air, spent = run.airtime.set_index("agent").loc[motes], run.energy.set_index("agent").loc[motes]
    table = pd.DataFrame({"mote": motes, "hops": groups["hops"].first().loc[motes]}, index=motes)
    table["readings"] = groups.size()
    table[["taken", "sent", "arrived"]] = groups[["taken_s", "sent_s", "arrived_s"]].count()
    table["expected_%"] = [math.nan if tries is None else 100 * layout.expected(mote, tries) for mote in motes]
    table["latency_s"] = groups["latency_s"].mean()
    table[["frames", "retries"]] = air[["frames", "retries"]]
    table["frames_j"] = energy.transmit * spent["transmit_s"] + energy.receive * spent["receive_s"]
    table["listen_j"] = energy.listen * spent["listen_s"]
    table["used_j"] = spent["used_j"]
    table["used_mah"] = milliampere_hours(spent["used_j"])
    table["delivered_%"] = 100 * table["arrived"] / table["readings"]
    return table


def sums(motes: pd.DataFrame, readings: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the rows aggregated by group: delivery and latency over all readings, other columns as means per mote."""
    due = motes["expected_%"] * motes["readings"]
    groups = motes.assign(due=due).groupby(by, sort=False)
    totals, means = groups.sum(numeric_only=True), groups.mean(numeric_only=True)
    latency = readings.groupby(by, sort=False)["latency_s"]
    found = {
        "motes": groups.size(),
        **totals[["readings", "taken", "sent", "arrived"]],
        "delivered_%": 100 * totals["arrived"] / totals["readings"],
        "expected_%": groups["due"].sum(min_count=1) / totals["readings"],
        "latency_s": latency.mean(),
        **{name: latency.quantile(share) for name, share in QUANTILES.items()},
        **means[["frames", "retries"]],
        "frames_mj": 1e3 * means["frames_j"],
        "used_mj": 1e3 * means["used_j"],
        "used_mah": means["used_mah"],
    }
    return pd.DataFrame(found).reset_index()


def lasting(motes: pd.DataFrame, battery: float, seconds: Mapping[str, float]) -> pd.DataFrame:
    """Return, for each run, the days until the first and the median mote's battery of a given capacity (mAh) is empty.

    ``seconds`` is each run's length.
    """
    rows = []
    for name, part in motes.groupby("algorithm", sort=False):
        days = np.sort(battery / part["used_mah"].to_numpy()) * seconds[str(name)] / _DAY
        median = days[(len(days) - 1) // 2]
        rows.append({"algorithm": name, "first_death_days": days[0], "median_death_days": median})
    return pd.DataFrame(rows)
