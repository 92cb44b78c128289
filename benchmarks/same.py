"""Do two installs give the same results? Runs the studies in both and compares all csv files and the trace hashes.

    python -m benchmarks.same OTHER            every study as it is by default, and with README's flags
    python -m benchmarks.same OTHER --short    the same, a few rounds each
    python -m benchmarks.same OTHER --only "coke --loss 0.1" --only averaging

OTHER is the command netsim of an environment with some earlier commit: old/.venv/bin/netsim. A change of structure
changes no byte. Whole, it takes as long as all studies do, twice; with NETSIM_DATA set both read the same tables.
"""

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FULL = (
    *(
        "averaging",
        "coke",
        "coke --loss 0.1 --bits 4",
        "coke --loss 0.05 --latency 0.01 --rate 1e7",
        "online",
        "dynamic",
    ),
    *("frontier --agents 10", "omkl", "polk", "projections", "privacy", "privacy --loss 0.2", "deep", "deep_network"),
)
SHORT = (
    "averaging",
    "coke --rounds 60 --bits 4",
    "coke --rounds 60 --loss 0.1 --bits 4",
    "coke --rounds 60 --loss 0.05 --latency 0.01 --rate 1e7",
    "online --rounds 200",
    "online --rounds 60 --tune --features 10 --algorithms RFF-DOKL,QC-ODKLA",
    "dynamic --rounds 200",
    "dynamic --data switch --rounds 120 --loss 0.05",
    "frontier --agents 5 --rounds 80 --methods DKLA,COKE,CTA,RFF-DOKL,DOKL,ODKLA,DDKL --coders float64,3,qsgd-2",
    "omkl --rows 600",
    "polk --samples 500",
    "projections --sweeps 4",
    "privacy --rounds 40",
    "deep --rows 300",
    "deep_network --rows 400 --rounds 60",
    "aloha --agents 8 --duration 20",
    "convergecast --agents 12 --readings 10",
    "lifetime --rounds 100",
    "mtu --rounds 60",
    "pushsum",
    "election",
    "flooding",
    "generals --wars 50",
    "packet_loss --rounds 60 --agents 5 --edges 6 --lost 0.1 --repeats 2 --jobs 1",
)
WITH_DATA = ("intel_lab --rounds 60", "ulb_library --rounds 40")
"""Those of `SHORT` that need NETSIM_DATA."""


def ran(command: Path, words: str, folder: Path) -> str:
    """Run a study with an install's command; return what went wrong, empty if nothing did."""
    settings = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    line = [str(command), "run", *shlex.split(words), "--out", str(folder)]
    done = subprocess.run(line, capture_output=True, text=True, env=settings, check=False, cwd=folder.parent)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def rows_of(path: Path) -> list[list[str]]:
    """Return the rows of a table without measured running times."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    kept = [index for index, name in enumerate(rows[0]) if "seconds" not in name and path.name != "running_time.csv"]
    return [[row[index] for index in kept] for row in rows]


def compared(words: str, commands: tuple[Path, Path]) -> str:
    """Run a study in both; return what differs, "same" if nothing does."""
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / name / "run" for name in ("here", "there")]
        for command, folder in zip(commands, folders, strict=True):
            # Each side has its own working folder, where studies put their sweeps.
            folder.parent.mkdir()
            wrong = ran(command, words, folder)
            if wrong:
                return f"{folder.parent.name}: {wrong}"
        tables = [{path.name: rows_of(path) for path in folder.glob("*.csv")} for folder in folders]
        hashes = [json.loads((folder / "summary.json").read_text()).get("trace_hash") for folder in folders]
    differ = sorted(name for name in {*tables[0], *tables[1]} if tables[0].get(name) != tables[1].get(name))
    differ += ["trace hash"] * (hashes[0] != hashes[1])
    return f"differ: {', '.join(differ)}" if differ else "same"


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
    short = SHORT + (WITH_DATA if os.environ.get("NETSIM_DATA") else ())
    studies = chosen.only or (short if chosen.short else FULL)
    alike = True
    with ThreadPoolExecutor(chosen.jobs) as pool:
        commands = here, chosen.other.absolute()
        for words, found in zip(studies, pool.map(lambda words: compared(words, commands), studies), strict=True):
            print(f"{words}: {found}", flush=True)
            alike = alike and found == "same"
    sys.exit(not alike)


if __name__ == "__main__":
    main()
