"""Grade a class: ``python grade.py submissions marks.csv``; submissions/NAME/broadcast.py is the work of a student.

The hidden tests are the one file test_*.py beside this one, or a third argument. Those in test_broadcast.py are of
students' files broadcast.py.
"""

import csv
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 120
"""Seconds that a submission may take in all, also if it sleeps."""


def hidden_tests(path=None):
    """Return the file of the hidden tests; it must be called test_NAME.py."""
    found = sorted(HERE.glob("test_*.py")) if path is None else [Path(path).resolve()]
    if len(found) != 1 or not found[0].name.startswith("test_") or not found[0].is_file():
        names = ", ".join(each.name for each in found) or "none"
        sys.exit(f"grade.py: must have one file test_NAME.py, here or as a third argument; there is {names}")
    return found[0]


def grade(folder, tests):
    """Grade a submission in a process of its own; return what is in its results.json."""
    file, results = folder / tests.name.removeprefix("test_"), folder / "results.json"
    results.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", tests.name, "--submission", file, "--results", results]
    limit = ""
    try:
        subprocess.run(command, cwd=tests.parent, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        limit = f" It took more than {SECONDS} s."
    if not results.exists():
        return {"score": 0, "output": f"There is no result.{limit}", "tests": []}
    found = json.loads(results.read_text())
    return found | {"output": found["output"] + limit}


def main(submissions, table, tests=None):
    """Write a row for each submission, with a column for each test."""
    if importlib.util.find_spec("pytest") is None:
        sys.exit("grade.py: pytest is not installed: pip install pytest")
    rows, columns, tests = [], {"student": None, "marks": None, "remark": None}, hidden_tests(tests)
    for folder in sorted(each for each in Path(submissions).resolve().iterdir() if each.is_dir()):
        found, marks = grade(folder, tests), {}
        for each in found["tests"]:
            # A test with several parameters is one column.
            marks[each["name"]] = marks.get(each["name"], 0) + each["score"]
        rows.append({"student": folder.name, "marks": found["score"], "remark": found["output"], **marks})
        columns |= rows[-1]
        print(f"{folder.name}: {found['score']}", flush=True)
    with Path(table).open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
