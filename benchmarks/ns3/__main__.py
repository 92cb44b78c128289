"""Compare the radio with ns-3's lr-wpan and an independent model: saturated senders, Poisson loads, frame errors.

    python -m benchmarks.ns3                          netsim, beside the figures of ns-3 that are stored
    python -m benchmarks.ns3 --who ns3,model,netsim   all three, run now
    python -m benchmarks.ns3 --only ring,hidden       cases whose names begin so
    python -m benchmarks.ns3 --who rules --only ring  the model with one rule changed at a time

Figures are medians over seeds, with the least and the largest; docs/ns3.md explains them. ns-3 needs Debian's
libns3-dev (3.37) and g++; if they are missing, it is left out with a note.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import netsim
from benchmarks.ns3.cases import Case, Figure, Run, cases, store, stored
from benchmarks.ns3.runners import RULES, compiled, in_model, in_netsim, in_ns3, ns3_version
from benchmarks.report import columns, parser

_OURS: dict[str, Callable[[Case, int], Run]] = {
    "netsim": in_netsim,
    "netsim as it is by default": partial(in_netsim, like="any"),
    **{name: partial(in_model, rules=rules) for name, rules in RULES.items()},
}
_RULES = [name for name in _OURS if name not in ("model", "netsim")]
_ABSENT = "ns-3 is left out: there is no libns3-dev (apt-get install libns3-dev), g++ or pkg-config"


def main() -> None:
    """Run the benchmark."""
    command = parser(__doc__, seeds=7, jobs=os.cpu_count() or 1)
    command.add_argument("--who", default="netsim", help="of ns3, model, netsim, rules, with commas; default netsim")
    command.add_argument("--only", default="", help="beginnings of names of cases, with commas; default all")
    command.add_argument("--store", action="store_true", help="store the figures in figures.csv")
    chosen = command.parse_args()
    who = _who(chosen.who.split(","))
    names = [name for name in cases() if name.startswith(tuple(chosen.only.split(",")))]
    results = _results(who, names, chosen.seeds, chosen.jobs)
    if chosen.store:
        sources = {one: f"ns-3 {ns3_version()}" if one == "ns3" else f"netsim {netsim.__version__}" for one in results}
        store(results, sources, chosen.seeds)
    theirs = stored().get("ns3", {}) | results.get("ns3", {})
    rows = {
        f"{name} {quantity}": _row(cases()[name], quantity, theirs, results, chosen.json)
        for name in names
        for quantity in next(iter(results.values()), {}).get(name, {})
    }
    if chosen.json:
        print(json.dumps({title: {key: _plain(value) for key, value in row.items()} for title, row in rows.items()}))
        return
    print(f"medians of {chosen.seeds} seeds [least–most]; differences from ns-3, run now or stored (! beyond)")
    print(columns(rows))


def _who(asked: list[str]) -> list[str]:
    """Return the simulators that run the cases, without ns-3 if it is missing."""
    who = [name for one in asked for name in (_RULES if one == "rules" else [one])]
    for one in who:
        if one != "ns3" and one not in _OURS:
            raise SystemExit(f"--who {one}: must be any of ns3, {', '.join(_OURS)}, or rules")
    if "ns3" in who and ns3_version() is None:
        print(_ABSENT, file=sys.stderr)
        who.remove("ns3")
    return who


def _results(who: list[str], names: list[str], seeds: int, jobs: int) -> dict[str, dict[str, dict[str, Figure]]]:
    """Run the cases; return {who: {case: {quantity: figure}}}."""
    by_name = cases()
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(jobs) as pool:
        runs = dict(_OURS)
        if "ns3" in who:
            runs["ns3"] = partial(in_ns3, program=compiled(Path(folder)))
        waiting = {
            (one, name): [pool.submit(runs[one], by_name[name], 1 + turn) for turn in range(seeds)]
            for name in names
            for one in who
        }
        results: dict[str, dict[str, dict[str, Figure]]] = {one: {} for one in who}
        for (one, name), futures in waiting.items():
            results[one][name] = by_name[name].figures([future.result() for future in futures])
    return results


def _row(
    case: Case,
    quantity: str,
    theirs: dict[str, dict[str, Figure]],
    results: dict[str, dict[str, dict[str, Figure]]],
    as_json: bool,
) -> dict[str, object]:
    """Return a line of the table: each figure, and its difference from ns-3's."""
    row: dict[str, object] = {}
    figure = theirs.get(case.name, {}).get(quantity)
    if figure is not None:
        row["ns3"] = figure
    for one, by_case in results.items():
        if one == "ns3":
            continue
        row[one] = ours = by_case[case.name][quantity]
        if figure is not None:
            difference = case.difference(quantity, ours.median, figure.median)
            row[f"{one} − ns3"] = difference if as_json else _text(case, quantity, difference)
    return row


def _text(case: Case, quantity: str, difference: float) -> str:
    """Return a difference with its unit, marked if it exceeds the bound."""
    unit = "points" if quantity.endswith("%") else "%"
    return f"{difference:+.2f} {unit}" + " !" * (abs(difference) > case.bound(quantity))


def _plain(value: object) -> object:
    return [value.median, value.least, value.most] if isinstance(value, Figure) else value


if __name__ == "__main__":
    main()
