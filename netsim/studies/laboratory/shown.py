"""The data of a study's runs for a page: packed frames, and a last value."""

import math
from collections.abc import Mapping
from typing import Any

from netsim.core.records import TOTALS
from netsim.replay.html import as_json, packed_parts
from netsim.replay.render import About, parts_of
from netsim.run import Run
from netsim.studies.study import COLUMNS, title_of

__all__ = ["shown"]

MOST = 200_000
"""Frames of a run that the page shows at most."""

# Columns of rounds.csv that every run has
_USUAL = {*COLUMNS, *TOTALS}
# Most agents that `_together` lists by name.
_MOST_NAMED = 3


def shown(study: str, runs: Mapping[str, Run], command: str, question: str = "") -> list[dict[str, Any]]:
    """Return each run's ``name``, ``hash``, ``last`` value, and ``data``: its page's metadata and columns as JSON."""
    found = []
    for name, run in runs.items():
        about = About(title_of(study, name), command, question=question)
        whole, packed = packed_parts(*parts_of(run, about=about, most=MOST))
        data = as_json({"meta": whole, "packed": packed})
        found.append({"name": name, "hash": run.trace_hash, "last": _last(run), "data": data})
    return found


def _last(run: Run) -> dict[str, str] | None:
    """Return ``name`` and ``text`` of a run's last value: the first watched state, or else the study's first column."""
    if run.watch is not None and len(states := run.states):
        name = next((str(each) for each in states.columns if each not in ("algorithm", "time_s", "agent", "sent")), "")
        if name:
            last = states.groupby("agent", sort=False)[name].last().dropna()
            return {"name": name, "text": _together(last.to_dict()) if len(last) else "–"}
    rows = run.rounds
    for name in rows.columns:
        if name in _USUAL or name in run.ledger.causes:
            continue
        if rows[name].dtype.kind in "if" or rows[name].isna().all():
            value = rows[name].iloc[-1:].dropna()
            return {"name": str(name), "text": f"{float(value.iloc[0]):.4g}" if len(value) else "–"}
    return None


def _together(values: Mapping[Any, Any]) -> str:
    """Return the agents' last values in brief: the common value, the range, or the rarest text with its agents."""
    numbers = [value for value in values.values() if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) == len(values):
        low, high = min(numbers), max(numbers)
        return f"{low:.4g} to {high:.4g}" if math.isfinite(high - low) and low != high else f"{low:.4g}"
    by_word: dict[str, list[str]] = {}
    for agent, word in values.items():
        by_word.setdefault(str(word), []).append(str(agent))
    word, agents = min(by_word.items(), key=lambda item: len(item[1]))
    if len(by_word) == 1:
        return f"{word}: all"
    return f"{word}: {', '.join(agents) if len(agents) <= _MOST_NAMED else len(agents)}"
