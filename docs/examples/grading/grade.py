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
    if not results.exists():
        return {"score": 0, "output": "There is no result.", "tests": []}
    return json.loads(results.read_text())


def main(submissions, table):
    """Write a row for each submission, with a column for each test."""
    rows, columns = [], {"student": None, "marks": None, "remark": None}
    for folder in sorted(Path(submissions).resolve().iterdir()):
        found = grade(folder)
        marks = {each["name"]: each["score"] for each in found["tests"]}
        rows.append({"student": folder.name, "marks": found["score"], "remark": found["output"], **marks})
        columns |= rows[-1]
        print(f"{folder.name}: {found['score']}", flush=True)
    with Path(table).open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
