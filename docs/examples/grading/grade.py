"""Grade a class: ``python grade.py submissions marks.csv``; submissions/NAME/broadcast.py is the work of a student."""

import csv
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 120
"""Seconds that a submission may take in all, also if it sleeps."""


def grade(folder):
    """Grade a submission in a process of its own; return what is in its results.json."""
    file, results = folder / "broadcast.py", folder / "results.json"
    results.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "test_broadcast.py", "--submission", file, "--results", results]
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(command, cwd=HERE, capture_output=True, timeout=SECONDS)
    return json.loads(results.read_text())


def main(submissions, table):
    """Write a row for each submission, with a column for each test."""
    with Path(table).open("w", newline="") as file:
        writer = csv.writer(file)
        for number, folder in enumerate(sorted(Path(submissions).resolve().iterdir())):
            found = grade(folder)
            if number == 0:
                writer.writerow(["student", "marks", *(each["name"] for each in found["tests"]), "remark"])
            writer.writerow([folder.name, found["score"], *(each["score"] for each in found["tests"]), found["output"]])
            print(f"{folder.name}: {found['score']}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
