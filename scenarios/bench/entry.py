"""Check an entry: a run folder of `netsim bench` sent by another user, with the method's file."""

import hashlib
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netsim.errors import BadInput
from netsim.scenarios.bench.case import unreachable, unsuited
from netsim.scenarios.bench.methods import METHODS, NONE, chosen_methods
from netsim.scenarios.bench.problems import PROBLEMS
from netsim.scenarios.bench.report import KEYS, OWN, summarised
from netsim.scenarios.bench.suite import NETWORKS, SEEDS, VERSION
from netsim.studies import Study, catalogue
from netsim.studies.folder import load
from netsim.studies.formats import find_table, read_table
from netsim.util.datafiles import digest_of

NEAR = 1e-6
"""Relative tolerance between a repeated result and the entry's, because rounding differs between processors."""

_REPEATED = ("error", "reached_bits", "reached_s", "sent_bits")
_TEXTS = [*KEYS, "settings"]
_VALUES = re.compile(r"\w+ = [-+.\de]+(, \w+ = [-+.\de]+)*")


def digest(runs: pd.DataFrame) -> str:
    """Return the SHA-256 of a table of runs; settings.json records it."""
    return hashlib.sha256(runs.to_csv(index=False).encode()).hexdigest()


def check_entry(study: Study, folder: str) -> None:
    """Check an entry by repeating one run of each of its cases, and add a table and notes to the study.

    The repeated seed is derived from the digest of the entry's results, so that the author cannot choose it.

    Raises
    ------
    BadInput
        If the folder is not an entry of this version of the suite, or a file, a table or a repeated run differs from
        the entry.
    """
    place = Path(folder)
    settings = load(place)["settings"]
    about = settings.get("bench")
    if settings["study"] != "bench" or not isinstance(about, dict):
        raise _refused(folder, f"a run folder of netsim bench, not of {settings['study']}")
    if about.get("version") != VERSION:
        raise _refused(folder, f"of version {VERSION} of the suite, not {about.get('version')}")
    runs, table = (_read(place, name) for name in ("bench_runs", "bench"))
    _must_have(folder, "bench_runs", runs, ["seed", *_REPEATED])
    if digest(runs) != about.get("runs_sha256"):
        raise _refused(folder, "as netsim bench wrote it; bench_runs has changed since")
    _check_table(folder, runs, table)
    rows = [_repeated(folder, settings, part) for _, part in runs.groupby(KEYS, sort=False)]
    checked = pd.DataFrame(rows)
    study.table("checked", f"One run of each case of {folder}, repeated", checked)
    apart = int((checked["difference"] > 0.0).sum())
    study.note(
        f"{folder}: {len(checked)} cases of version {VERSION} of the suite. One run of each was repeated: "
        + (f"{apart} differ by up to {checked['difference'].max():.1g} of it" if apart else "equal to the digit")
        + ". The search of the settings was not repeated."
    )
    study.note(*(f"{folder} is no whole entry: {text}." for text in _missing(folder, runs)))


def _refused(folder: str, allowed: str) -> BadInput:
    return BadInput(f"check = {folder!r}: must be {allowed}")


def _read(place: Path, name: str) -> pd.DataFrame:
    file = find_table(place, name)
    if file is None:
        raise _refused(str(place), f"a run folder of netsim bench; it has no {name}.csv")
    return read_table(file, text=_TEXTS)


def _must_have(folder: str, name: str, table: pd.DataFrame, numbers: Sequence[str]) -> None:
    """Raise BadInput unless a table has rows, only problems and networks of the suite, and the required numbers."""
    if table.empty:
        raise _refused(folder, f"an entry with results; its {name} has no row")
    for column in [*_TEXTS, *numbers]:
        if column not in table:
            raise _refused(folder, f"as netsim bench wrote it; its {name} has no column {column!r}")
        if column in numbers and not pd.api.types.is_numeric_dtype(table[column]):
            raise _refused(folder, f"as netsim bench wrote it; the column {column!r} of its {name} must hold numbers")
    known = {"problem": PROBLEMS, "network": NETWORKS}
    for column, names in known.items():
        for other in sorted(set(table[column]) - set(names)):
            raise _refused(folder, f"of the suite's {column}s, {', '.join(names)}; its {name} has {other!r}")


def _check_table(folder: str, runs: pd.DataFrame, table: pd.DataFrame) -> None:
    """Raise BadInput unless the table of cases equals the summary of the runs."""
    again = summarised(runs, [])
    numbers = [name for name in again.columns if name not in (*_TEXTS, "why")]
    _must_have(folder, "bench", table, numbers)
    given = table[table["seeds"].notna()]
    same = again[_TEXTS].to_numpy().tolist() == given[_TEXTS].to_numpy().tolist()
    before, after = (each[numbers].to_numpy(float, na_value=np.nan) for each in (given, again))
    if not same or not np.allclose(after, before, rtol=NEAR, atol=0.0, equal_nan=True):
        raise _refused(folder, "an entry whose bench.csv is that of the runs in bench_runs.csv")


def _repeated(folder: str, settings: dict[str, Any], part: pd.DataFrame) -> dict[str, Any]:
    """Repeat one run of a case and return its deviation; raises BadInput if that exceeds the tolerance."""
    method, problem, network = (str(part[key].iloc[0]) for key in KEYS)
    seed = int(settings["bench"]["runs_sha256"], 16) % len(SEEDS)
    row = part[part["seed"] == seed]
    case = f"{method} on {problem}, {network}"
    if sorted(part["seed"]) != list(SEEDS):
        raise _refused(folder, f"an entry with the seeds {SEEDS[0]} to {SEEDS[-1]} of {case}")
    given: dict[str, Any] = {"problem": problem, "network": network, "seed": seed, "algorithms": method}
    if method not in METHODS:
        given |= {"algorithms": NONE, "method": _file(folder, settings, method)}
    values = str(row["settings"].iloc[0])
    if part["settings"].nunique() > 1 or not (values == OWN or _VALUES.fullmatch(values)):
        raise _refused(folder, f"an entry with one text of settings, NAME = VALUE, …, of {case}")
    if values != OWN:
        given["set"] = ",".join(f"{method}.{each.replace(' ', '')}" for each in values.split(", "))
    rounds = catalogue.find_study("bench_case").execute(**given).rounds
    last = rounds.iloc[-1]
    found = last[[PROBLEMS[problem].error, "reached_bits", "reached_s", "wire_bits"]]
    before, after = row[list(_REPEATED)].to_numpy(float)[0], found.to_numpy(float)
    if not np.allclose(after, before, rtol=NEAR, atol=0.0, equal_nan=True):
        numbers = ", ".join(
            f"{name} {b:.6g} (here {a:.6g})" for name, b, a in zip(_REPEATED, before, after, strict=True)
        )
        raise _refused(folder, f"an entry whose runs can be repeated; {case}, seed {seed}: {numbers}")
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.nanmax(np.where(after == before, 0.0, np.abs(after - before) / np.abs(before)))
    return {"method": method, "problem": problem, "network": network, "seed": seed, "difference": float(apart)}


def _file(folder: str, settings: dict[str, Any], method: str) -> str:
    """Return the path of a method's file in the folder; raises BadInput if its digest differs from the recorded one."""
    path = Path(folder) / f"{method}.py"
    known = {Path(name).name: each for name, each in (settings.get("files_sha256") or {}).items()}
    if digest_of(str(path)) != known.get(path.name, ""):
        raise _refused(folder, f"a folder with the file {path.name} that was run")
    return str(path)


def _missing(folder: str, runs: pd.DataFrame) -> list[str]:
    """Return, for each method, the suite's cases that it can run but the entry lacks."""
    there = {tuple(row) for row in runs[KEYS].drop_duplicates().to_numpy()}
    found = []
    for name in dict.fromkeys(runs["method"]):
        file = None if name in METHODS else str(Path(folder) / f"{name}.py")
        (method,) = chosen_methods(name if file is None else NONE, file).values()
        problems = [problem for problem in PROBLEMS if not unsuited(method, PROBLEMS[problem])]
        networks = [network for network in NETWORKS if not unreachable(name, method, NETWORKS[network])]
        cases = itertools.product(problems, networks)
        lacks = [f"{problem}, {network}" for problem, network in cases if (name, problem, network) not in there]
        if lacks:
            found.append(f"{name} lacks {'; '.join(lacks)}")
    return found
