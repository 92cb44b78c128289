"""The example of docs/grading.md: each submission gets the marks that the page says, and none holds up the others."""

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command import ROOT, environment

FOLDER = ROOT / "docs" / "examples" / "grading"
PAGE = (ROOT / "docs" / "grading.md").read_text()
MARKS = {name: int(marks) for name, marks in re.findall(r"^\| `([\w/]+)` \| .* \| (\d+) \|$", PAGE, re.MULTILINE)}
SLOW = sorted(MARKS.keys() - {"reference"})
# On a system without that timer an endless loop is for grade.py alone to end.
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no timer of processor time")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy, as a teacher would make one, in which nothing takes long."""
    copy = Path(shutil.copytree(FOLDER, tmp_path / "grading"))
    conftest = (copy / "conftest.py").read_text()
    assert "SECONDS = 10\n" in conftest
    (copy / "conftest.py").write_text(conftest.replace("SECONDS = 10\n", "SECONDS = 3\n"))
    return copy


def graded(folder: Path, submission: str | Path) -> tuple[dict[str, Any], list[str]]:
    """Grade one; return what is in results.json, and the lines that were printed."""
    command = [sys.executable, "-m", "pytest", "test_broadcast.py", "--submission", str(submission)]
    variables = environment(PYTHONPATH=str(ROOT))
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    return json.loads((folder / "results.json").read_text()), done.stdout.splitlines()


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["reference", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_each_gets_the_marks_that_the_page_says(folder: Path, name: str) -> None:
    found, lines = graded(folder, f"{name}/broadcast.py")
    assert found["score"] == MARKS[name], lines
    assert sum(each["max_score"] for each in found["tests"]) == 10
    assert f"{MARKS[name]:2} of 10  in all" in lines
    for each in found["tests"]:
        assert each["score"] in (0, each["max_score"])
        assert bool(each["output"]) == (each["score"] == 0 and not found["output"])
    assert found["output"] == (
        "The file cannot be imported: ModuleNotFoundError: No module named 'reliable_links'"
        if name == "submissions/unfinished"
        else ""
    )


def test_the_page_has_every_submission() -> None:
    names = {path.parent.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("broadcast.py")}
    assert names == MARKS.keys()
    assert MARKS["reference"] == 10
    assert all(marks < 10 for name, marks in MARKS.items() if name != "reference")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("while True:\n    pass\n", "The file cannot be imported: TooLong: took more than 3 s of the processor"),
        ("import sys\nsys.exit(0)\n", "The file cannot be imported: SystemExit: 0"),
        ("def (:\n", "The file cannot be imported: SyntaxError: invalid syntax"),
        ("import os\nos._exit(0)\n", "The grading was cut off."),
    ],
)
def test_a_file_that_cannot_be_imported_gets_nothing_and_one_line(folder: Path, text: str, remark: str) -> None:
    found, _ = graded(folder, written(folder, text))
    assert found["score"] == 0
    assert found["output"].startswith(remark)
    assert [each["max_score"] for each in found["tests"]] == [2, 1, 1, 2, 1, 3]


@pytest.mark.slow
def test_what_ends_the_process_keeps_what_it_has(folder: Path) -> None:
    good = (folder / "reference" / "broadcast.py").read_text()
    # Only the last test lets a node begin for a second time.
    again = "        if self.delivered:\n            os._exit(0)\n"
    ending = good.replace("import asyncio\n", "import asyncio\nimport os\n", 1).replace(
        "    def begin(self):\n", f"    def begin(self):\n{again}"
    )
    found, _ = graded(folder, written(folder, ending))
    assert (found["output"], found["score"]) == ("The grading was cut off.", 7)


@pytest.mark.slow
def test_a_loop_that_catches_every_exception_is_ended(folder: Path) -> None:
    good = (folder / "reference" / "broadcast.py").read_text()
    lines = ["if self.text:", "    while True:", "        try:", "            self.name", "        except Exception:"]
    loop = "".join(f"        {line}\n" for line in [*lines, "            pass"])
    endless = good.replace("    async def run(self):\n", f"    async def run(self):\n{loop}")
    found, _ = graded(folder, written(folder, endless))
    assert found["score"] == 1
    assert found["tests"][0]["output"].startswith("took more than 3 s of the processor")


@pytest.mark.slow
def test_a_class_is_graded_into_a_table(folder: Path) -> None:
    shutil.rmtree(folder / "submissions" / "busy")
    done = subprocess.run(
        [sys.executable, "grade.py", "submissions", "marks.csv"],
        cwd=folder,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=True,
    )
    names = ["flooding", "forgetful", "unfinished"]
    assert done.stdout.splitlines() == [f"{name}: {MARKS[f'submissions/{name}']}" for name in names]
    with (folder / "marks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["student"] for row in rows] == names
    for row in rows:
        marks = [int(value) for name, value in row.items() if name not in ("student", "marks", "remark")]
        assert len(marks) == 6
        assert sum(marks) == int(row["marks"])
    assert rows[2]["remark"].startswith("The file cannot be imported")
    assert (folder / "submissions" / "flooding" / "results.json").is_file()


@pytest.mark.slow
def test_a_submission_that_sleeps_is_ended(folder: Path) -> None:
    grade = (folder / "grade.py").read_text()
    assert "SECONDS = 120\n" in grade
    (folder / "grade.py").write_text(grade.replace("SECONDS = 120\n", "SECONDS = 30\n"))
    (folder / "class" / "ann").mkdir(parents=True)
    (folder / "class" / "ann" / "broadcast.py").write_text("import time\ntime.sleep(1000)\n")
    subprocess.run(
        [sys.executable, "grade.py", "class", "marks.csv"],
        cwd=folder,
        env=environment(PYTHONPATH=str(ROOT)),
        check=True,
    )
    with (folder / "marks.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["student"], row["marks"], row["remark"]) == ("ann", "0", "The grading was cut off.")
