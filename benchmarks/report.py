"""Shared parts of benchmarks: timing by medians, and a table or one JSON object as the result."""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

SPAWN = multiprocessing.get_context("spawn")
Task = Callable[[], object]


def median_seconds(tasks: Mapping[str, Task], repeats: int) -> dict[str, float]:
    """Return the median CPU time of each task, in seconds, with one BLAS thread.

    Tasks alternate, so that a slow moment affects all of them equally.
    """
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(repeats):
        for name, task in tasks.items():
            if sys.stderr.isatty():
                print(f"\r{turn + 1}/{repeats} {name:30}", end="", file=sys.stderr)
            with threadpool_limits(1):
                start = time.process_time()
                task()
                times[name].append(time.process_time() - start)
    if sys.stderr.isatty():
        print("\r" + " " * 50, end="\r", file=sys.stderr)
    return {name: statistics.median(values) for name, values in times.items()}


def compared(
    pairs: Mapping[str, tuple[Task, Task]], repeats: int, columns: tuple[str, str] = ("emulated_s", "recursion_s")
) -> dict[str, dict[str, float]]:
    """Return for each pair of tasks the median seconds of both and their ratio; all tasks alternate."""
    tasks = {
        f"{name} {column}": task for name, pair in pairs.items() for column, task in zip(columns, pair, strict=True)
    }
    seconds = median_seconds(tasks, repeats)
    rows = {name: {column: seconds[f"{name} {column}"] for column in columns} for name in pairs}
    return {name: row | {"ratio": row[columns[0]] / row[columns[1]]} for name, row in rows.items()}


def apart(module: str, call: str, environment: Mapping[str, str] | None = None) -> Any:
    """Return the result of a call, such as ``"scale.wiring(10)"``, in a new process that imports only its module."""
    code = f"import json, resource; from benchmarks import {module}; print(json.dumps({call}))"
    # With several BLAS threads, CPU seconds would include their waiting.
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **(environment or {})}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=alone)
    return json.loads(done.stdout)


def in_processes(*parts: tuple[Callable[..., None], tuple[Any, ...]]) -> list[Any]:
    """Call functions in separate processes, each with a pipe as last argument; return what each sends over it."""
    pipes = [SPAWN.Pipe(duplex=False) for _ in parts]
    processes = [
        SPAWN.Process(target=work, args=(*given, sending), daemon=True)
        for (work, given), (_, sending) in zip(parts, pipes, strict=True)
    ]
    for process in processes:
        process.start()
    for _, sending in pipes:
        sending.close()
    try:
        found = [receiving.recv() for receiving, _ in pipes]
    except EOFError:
        raise SystemExit("a process ended in an error") from None
    for process in processes:
        process.join()
    return found


def resident(what: str = "VmHWM") -> int:
    """Return the memory (kB) of this process, at its peak or now (VmRSS); on Linux.

    getrusage would include the peak of its parent before the fork.
    """
    return int(Path("/proc/self/status").read_text().partition(f"{what}:")[2].split()[0])


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


def show_table(rows: Mapping[str, Mapping[str, Any]], as_json: bool, title: str) -> None:
    """Print rows as one JSON object, or a title and a table with columns."""
    print(json.dumps(rows) if as_json else f"{title}\n{columns(rows)}")


def columns(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table with a line per row and a column for each name in any row; cells of missing names are blank."""
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
