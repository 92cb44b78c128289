"""What the benchmarks share: timing by medians, and a table or one JSON object as the result."""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any


def median_seconds(
    tasks: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the median time of each task, in seconds; they take turns, so that a slow moment hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(repeats):
        for name, task in tasks.items():
            if sys.stderr.isatty():
                print(f"\r{turn + 1}/{repeats} {name:30}", end="", file=sys.stderr)
            start = clock()
            task()
            times[name].append(clock() - start)
    if sys.stderr.isatty():
        print("\r" + " " * 50, end="\r", file=sys.stderr)
    return {name: statistics.median(values) for name, values in times.items()}


def parser(description: str | None, **defaults: int) -> argparse.ArgumentParser:
    """Return a command line with ``--json`` and a whole-number flag for each default."""
    command = argparse.ArgumentParser(description=description)
    command.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    for name, value in defaults.items():
        command.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    return command


def show(result: Mapping[str, Any], as_json: bool, title: str) -> None:
    """Print ``result``: nested mappings are rows of a table, the rest single lines."""
    if as_json:
        print(json.dumps(result))
        return
    print(title)
    for name, value in result.items():
        if isinstance(value, Mapping):
            print(f"  {name:42}" + "  ".join(f"{key} {_text(item)}" for key, item in value.items()))
        else:
            print(f"  {name:42}{_text(value)}")


def columns(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table: a line for each row, a column for each name that any row has, blank where a row lacks it."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    lines = [["", *names]]
    lines += [
        [title, *(_text(row[name]).strip() if name in row else "" for name in names)] for title, row in rows.items()
    ]
    widths = [max(len(line[place]) for line in lines) for place in range(len(names) + 1)]
    padded = ([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in padded)


def _text(value: object) -> str:
    return f"{value:>12,.3f}" if isinstance(value, float) else f"{value:>12,}" if isinstance(value, int) else str(value)
