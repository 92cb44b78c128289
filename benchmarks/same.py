"""Compare two installs: run every study and a sweep in both and compare all files that they leave.

    python -m benchmarks.same OTHER            every study as it is by default, those of README with its flags, a sweep
    python -m benchmarks.same OTHER --short    the same, a few rounds each
    python -m benchmarks.same OTHER --only "coke --loss 0.1" --only "sweep averaging --seed 0:3"

OTHER is the command netsim of an environment with some earlier commit: old/.venv/bin/netsim. A refactoring must change
no byte. The comparison covers every csv file (tables, ledger, rounds), every text of a study, and every summary.json
with its last values, notes, answers and trace hashes, also in the sweeps that a study makes. It omits measured running
times, figures, the page, and settings.json, which contains versions and paths. Each file that differs is listed with
the first differing value, and the first key or column that only one install has. The short comparison takes some
minutes on two cores; the full one takes twice the time of all studies, mostly for `bench` and `papers`. With
NETSIM_DATA set, both installs read the same tables; without it, studies of real data are omitted.
"""

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any

from netsim.studies import catalogue

FLAGGED = (
    "coke --loss 0.1 --bits 4",
    "coke --loss 0.05 --latency 0.01 --rate 1e7",
    "frontier --agents 10",
    "privacy --loss 0.2",
    "sweep coke --loss 0,0.05 --seed 0:3",
)
"""The commands of the full list besides those that run every study with its defaults."""

SHORT = (
    "aloha --agents 8 --duration 20",
    "averaging",
    "bench --algorithms D-PSGD --problems regression --networks ideal --jobs 1",
    "bench_case --algorithms D-PSGD,DKLA --network bursts",
    "coke --rounds 60 --bits 4",
    "coke --rounds 60 --loss 0.1 --bits 4",
    "coke --rounds 60 --loss 0.05 --latency 0.01 --rate 1e7",
    "convergecast --agents 12 --readings 10",
    "deep --rows 300",
    "deep_network --rows 400 --rounds 60",
    "dynamic --rounds 200",
    "dynamic --data switch --rounds 120 --loss 0.05",
    "election",
    "flooding",
    "frontier --agents 5 --rounds 80 --methods DKLA,COKE,CTA,RFF-DOKL,DOKL,ODKLA,DDKL --coders float64,3,qsgd-2",
    "generals --wars 50",
    "lifetime --rounds 100",
    "mtu --rounds 60",
    "neural --data digits --rounds 20",
    "omkl --rows 600",
    "online --rounds 200",
    "online --rounds 60 --tune --features 10 --algorithms RFF-DOKL,QC-ODKLA",
    "packet_loss --rounds 60 --agents 5 --edges 6 --lost 0.1 --repeats 2 --jobs 1",
    "papers --only projections --repeats 2 --jobs 1",
    "polk --samples 500",
    "privacy --rounds 40",
    "projections --sweeps 4",
    "pushsum",
    "theory --repeats 1 --rounds 40",
    "intel_lab --rounds 60",
    "ulb_library --rounds 40",
    "sweep averaging --loss 0,0.1 --seed 0:2",
)

OF_REAL_DATA = {"intel_lab", "ulb_library"}
"""Studies that need NETSIM_DATA."""

LISTED = 12
"""The files that differ are listed up to this number for each command; a sweep has hundreds."""

# Keys of a summary that are not compared: file sizes, and the study's name, which earlier versions call `scenario`.
_NO_RESULT = ("bytes", "scenario", "study")
# Claims about running times are measurements, so they and the two files that contain all claims are not compared.
_TIMED_CLAIM, _OF_CLAIMS = "table 3.1", ("reproduction.md", "verdicts.csv")


def full() -> tuple[str, ...]:
    """Return the commands of the full list: every study of netsim with its defaults, then `FLAGGED`."""
    # A user's package is not part of netsim, and the other install may lack it.
    own = next(each for each in catalogue.registries() if each.studies.keys() >= {"coke", "averaging"})
    return (*own.studies, *FLAGGED)


def study_of(words: str) -> str:
    """Return the name of the study that a command runs."""
    return words.removeprefix("sweep ").split()[0]


def ran(command: Path, words: str, folder: Path) -> str:
    """Run a study or a sweep with an install's command; return the error, or ""."""
    settings = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    first = [] if words.startswith("sweep ") else ["run"]
    line = [str(command), *first, *shlex.split(words), "--out", str(folder)]
    done = subprocess.run(line, capture_output=True, text=True, env=settings, check=False, cwd=folder.parent)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    """Yield each row of a table as a mapping from column to text, without measured running times."""
    # The benchmark's column of that name is simulated time.
    timed = () if path.name == "bench.csv" else ("seconds", "step_seconds")
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, restkey="more"):
            if path.name != "claims.csv" or row.get("where") != _TIMED_CLAIM:
                yield {name: value for name, value in row.items() if name not in timed}


def places(here: Any, there: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the differences of two values read from JSON: kind ("keys" or "values"), and the place with both values."""
    if isinstance(here, dict) and isinstance(there, dict):
        for key in dict.fromkeys([*here, *there]):
            inner = f"{place}.{key}" if place else str(key)
            if key in here and key in there:
                yield from places(here[key], there[key], inner)
            else:
                yield "keys", f"{inner}: only {'here' if key in here else 'there'}"
        if list(here) != list(there) and here.keys() == there.keys():
            yield "keys", f"{place or 'keys'}: in another order"
    elif isinstance(here, list) and isinstance(there, list):
        for index, (one, other) in enumerate(zip(here, there, strict=False)):
            yield from places(one, other, f"{place}[{index}]")
        if len(here) != len(there):
            yield "values", f"{place}: {len(here)} here, {len(there)} there"
    else:
        # Compared as text, because NaN does not equal itself, and 1 equals 1.0 and true.
        one, other = json.dumps(here), json.dumps(there)
        if one != other:
            yield "values", f"{place}: {one} here, {other} there"


def result(path: Path) -> Any:
    """Return the content of a summary or a text, without parts of a summary that are not results."""
    text = path.read_text(encoding="utf-8")
    if path.name != "summary.json":
        return text.splitlines()
    return {key: value for key, value in json.loads(text).items() if key not in _NO_RESULT}


def header(path: Path) -> str:
    """Return the first line of a table."""
    return path.read_text(encoding="utf-8").partition("\n")[0]


def all_places(here: Path, there: Path) -> Iterator[tuple[str, str]]:
    """Yield where two files differ, as `places` does."""
    if here.suffix != ".csv":
        yield from places(result(here), result(there), "" if here.name == "summary.json" else "line")
        return
    for number, (one, other) in enumerate(zip_longest(rows_of(here), rows_of(there)), start=1):
        if one is None or other is None:
            yield "values", f"row {number}: only {'here' if other is None else 'there'}"
        else:
            for kind, place in places(one, other):
                yield kind, f"row {number}, {place}"
    # Compare the columns of tables without rows, too.
    for _, place in places(header(here), header(there), "header"):
        yield "keys", place


def difference(here: Path, there: Path) -> str:
    """Return the first place where two files differ, or "".

    Differences of common values and missing keys or columns are reported separately, because a new key in every file
    would hide changed values.
    """
    found: dict[str, str] = {}
    for kind, place in all_places(here, there):
        found.setdefault(kind, place)
        if len(found) == 2:
            break
    return "; ".join(found[kind] for kind in ("values", "keys") if kind in found)


def results_of(folder: Path) -> dict[str, Path]:
    """Return the result files of a folder, by their paths within it."""
    return {
        str(path.relative_to(folder)): path
        for path in sorted(folder.rglob("*"))
        if (path.suffix in (".csv", ".md") or path.name == "summary.json") and path.name not in _OF_CLAIMS
    }


def differences(here: Path, there: Path) -> list[str]:
    """Return the path and the first difference of each result file that differs between two folders."""
    files = results_of(here), results_of(there)
    found = []
    for name in sorted({*files[0], *files[1]}):
        if name not in files[0] or name not in files[1]:
            found.append(f"{name}: only {'here' if name in files[0] else 'there'}")
        elif place := difference(files[0][name], files[1][name]):
            found.append(f"{name}: {place}")
    return found


def compared(words: str, commands: tuple[Path, Path]) -> list[str]:
    """Run a command with both installs; return differences or errors, nothing if all agree."""
    with tempfile.TemporaryDirectory() as place:
        sides = [Path(place) / name for name in ("here", "there")]
        for command, side in zip(commands, sides, strict=True):
            # Each side has a separate working folder, where studies put their sweeps.
            side.mkdir()
            if wrong := ran(command, words, side / "run"):
                return [f"failed {side.name}: {wrong}"]
            if not results_of(side):
                return [f"failed {side.name}: left no results"]
        return differences(*sides)


def main() -> None:
    """Compare this environment's netsim with another."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("other", type=Path, help="the other install's command netsim")
    command.add_argument("--short", action="store_true", help="a few rounds of each")
    command.add_argument("--only", action="append", help="this study with these flags; may be given again")
    command.add_argument("--jobs", type=int, default=2)
    chosen = command.parse_args()
    here = Path(sys.executable).with_name("netsim")
    for each in (here, chosen.other):
        if not each.is_file():
            command.error(f"{each} is no file: must be the command netsim of an environment")
    studies = list(chosen.only or (SHORT if chosen.short else full()))
    if not os.environ.get("NETSIM_DATA"):
        left = [words for words in studies if study_of(words) in OF_REAL_DATA]
        studies = [words for words in studies if words not in left]
        print(*(f"{words}: left out, as NETSIM_DATA is not set" for words in left), sep="\n", flush=True)
    differ = []
    with ThreadPoolExecutor(chosen.jobs) as pool:
        commands = here, chosen.other.absolute()
        for words, found in zip(studies, pool.map(lambda words: compared(words, commands), studies), strict=True):
            print(f"{words}: {'differs' if found else 'same'}", *found[:LISTED], sep="\n    ")
            if len(found) > LISTED:
                print(f"    and {len(found) - LISTED} more files")
            sys.stdout.flush()
            differ += [words] * bool(found)
    print(f"{len(studies)} commands, {len(studies) - len(differ)} the same", *differ, sep="\n    differs: ")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
