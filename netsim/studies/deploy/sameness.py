"""Compare a deployment's results with the simulation's, and find where they begin to differ."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.distributed.merge import MergedRun, RunPart
from netsim.run import Run

if TYPE_CHECKING:
    import pandas as pd

_ENDS = ("late", "missing")


def same(simulated: Run, deployed: Run) -> bool:
    """Return whether two runs are equal bit for bit: every event at its time, every row, every probe."""
    return simulated.trace_hash == deployed.trace_hash and not where(simulated, deployed)


def where(simulated: Run, deployed: Run) -> str:
    """Return the first difference between two runs' rows, such as "round 31 (train_mse)"; "" if there is none."""
    old, new = simulated.rounds, deployed.rounds
    columns = [name for name in old.columns if name in new.columns]
    count = min(len(old), len(new))
    was, now = old[columns][:count], new[columns][:count]
    # NaN counts as equal to NaN.
    differs = (was.to_numpy(dtype=object) != now.to_numpy(dtype=object)) & ~(was.isna() & now.isna()).to_numpy()
    rows, places = np.nonzero(differs)
    if len(rows):
        return f"{simulated.unit} {old['round'].iloc[rows[0]]} ({columns[places[0]]})"
    if len(old) != len(new):
        return f"{len(new)} rows, not {len(old)}"
    return ""


def losses(run: Run) -> Counter[str]:
    """Return the numbers of link messages that came late, and of those missing between processes."""
    counts = dict(zip(run.ledger.causes, run.ledger.exits, strict=True))
    return Counter({name: counts.get(name, 0) for name in _ENDS})


def notes(names: Sequence[str], simulated: Sequence[Run], found: Sequence[MergedRun]) -> list[str]:
    """Return notes on a deployment's runs: that they equal the simulation, or where they differ, with known causes."""
    lines = []
    for name, expected, made in zip(names, simulated, found, strict=True):
        if same(expected, made.run):
            continue
        more = losses(made.run) - losses(expected)
        first = where(expected, made.run)
        place = f"from {first} on" if first else "in when frames were sent or came, not in any row"
        counted = (
            f"; link messages {' and '.join(f'{cause}: {count:,}' for cause, count in more.items())}" if more else ""
        )
        lines.append(f"{name}: not as in the simulation {place}{counted}.")
    killed = dict.fromkeys(host for made in found for host in made.killed)
    lines += [
        f"Process {host} was killed, or its part was cut off: what it took with it is missing." for host in killed
    ]
    failed = {host: why for made in found for host, why in made.failed.items()}
    lines += [f"Process {host} ended in an error: {why}" for host, why in failed.items()]
    jumps = sum(part.end.get("overruns", 0) for made in found for part in made.parts)
    if lines and jumps:
        lines.append(
            f"Clocks jumped {jumps} times: a process came to an instant more than half a round late. "
            "A longer --round-time gives it more."
        )
    if not lines:
        events = sum(run.ledger.link_messages for run in simulated)
        lines.append(
            f"The same as in the simulation, to the last bit: all rows and the trace hash of {_runs(len(simulated))}, "
            f"{events:,} link messages."
        )
    return lines


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def processes(names: Sequence[str], found: Sequence[MergedRun]) -> "pd.DataFrame":
    """Return a row for each run and part, as written at its end; docs/sockets.md lists the columns."""
    import pandas as pd

    return pd.DataFrame([_row(name, part) for name, made in zip(names, found, strict=True) for part in made.parts])


def _row(name: str, part: RunPart) -> dict[str, Any]:
    end = part.end
    offset, trip = _clock(part)
    sent, sent_bytes, received, _ = end.get("datagrams", [np.nan] * 4)
    return {
        "algorithm": name,
        "process": part.host,
        "ended": "killed" if not end else "error" if end["why"] else "well",
        "joined_s": part.begin["joined"],
        "clock_offset_s": offset,
        "round_trip_s": trip,
        "datagrams_sent": sent,
        "bytes_sent": sent_bytes,
        "datagrams_received": received,
        "dropped": ", ".join(f"{why} {count}" for why, count in sorted(end.get("dropped", {}).items())),
        "overruns": end.get("overruns", np.nan),
        "longest_lag_s": end.get("longest_lag", np.nan),
    }


def _clock(part: RunPart) -> tuple[float, float]:
    """Return the first process's clock minus this part's (s), and the round trip (s) of that measurement."""
    first = part.begin["hosts"][0]
    if part.host == first:
        return 0.0, 0.0
    found = part.end.get("clocks", {}).get(first)
    return (found[0], found[1]) if found else (np.nan, np.nan)
