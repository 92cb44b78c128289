"""The lessons, their answers, and the example of an experiment: executed anew they print what is committed."""

import base64
import os
import re
import runpy
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.command import ROOT
from tests.kernels import forked_kernels
from tests.parts import every, only_with

nbformat = pytest.importorskip("nbformat", reason="no nbformat: pip install -e '.[dev]'")
pytestmark = only_with("nbclient", "ipykernel")

LESSONS = sorted((ROOT / "docs" / "lessons").glob("*.ipynb"))
PARTS = ("question", "guess", "run", "look", "fix", "exercises")
LARGEST = 60_000  # bytes of a figure
EXAMPLES = [ROOT / "docs" / "experiments" / "notebook.ipynb"]
ANSWERS = sorted((ROOT / "docs" / "lessons" / "answers").glob("*.ipynb"))
ABOUT = re.compile(
    r"^\*Level: (introductory|intermediate|advanced)\. Time: (\d+) minutes\. First: (.+)\.\*$", re.MULTILINE
)

by_lesson = every("path", LESSONS)
by_notebook = every("path", LESSONS + EXAMPLES + ANSWERS)


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "lessons" / "_execute.py"))


def prose(notebook: Any) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def test_there_are_lessons() -> None:
    assert LESSONS


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start kernels in less time where processes are forked."""
    if sys.platform != "linux":
        yield
        return
    with forked_kernels(tmp_path_factory.mktemp("kernels")) as path, mock.patch.dict(os.environ, JUPYTER_PATH=path):
        yield


@pytest.mark.parametrize("path", LESSONS + EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.usefixtures("kernels")
def test_a_lesson_prints_what_is_committed(path: Path, tool: dict[str, Any]) -> None:
    files = tool["notebooks"](path)
    committed = [tool["texts"](tool["normalised"](nbformat.read(file, as_version=4))) for file in files]
    with warnings.catch_warnings():
        # Theirs, of the notebooks' own machinery; what a lesson warns of is in its outputs.
        warnings.simplefilter("ignore")
        printed = [tool["texts"](notebook) for notebook in tool["executed"](path)]
    for file, cells, before in zip(files, printed, committed, strict=True):
        for number, (cell, committed_cell) in enumerate(zip(cells, before, strict=True)):
            assert cell == committed_cell, f"{file.parent.name}/{file.name}, code cell {number}"


@by_notebook
def test_a_lesson_is_committed_executed_without_errors_and_warnings(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    figures = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert figures or path in ANSWERS
    for figure in figures:
        assert len(base64.b64decode(figure)) <= LARGEST


@by_notebook
def test_a_lesson_is_committed_without_noise(path: Path, tool: dict[str, Any]) -> None:
    text = path.read_text(encoding="utf-8")
    again = nbformat.writes(tool["normalised"](nbformat.reads(text, as_version=4)), version=4) + "\n"
    assert again == text, f"run: python docs/lessons/_execute.py {path.stem}"


@by_lesson
def test_a_lesson_has_its_parts_in_their_order(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert 10 <= len(notebook.cells) <= 24
    title, *headings = re.findall(r"^#+ (.*)$", prose(notebook), re.MULTILINE)
    assert title
    left = iter(heading.lower() for heading in headings)
    for part in PARTS:
        assert any(re.search(rf"\b{part}", heading) for heading in left), f"{part}, after the parts before it"
    assert 3 <= exercises_of(path) <= 5


def exercises_of(path: Path) -> int:
    """Return how many exercises a lesson has."""
    text = prose(nbformat.read(path, as_version=4))
    return len(re.findall(r"^\d+\. ", re.split(r"^#+ .*xercises.*$", text, flags=re.MULTILINE)[-1], re.MULTILINE))


@by_lesson
def test_a_lesson_tells_its_level_and_time_and_what_comes_first(path: Path) -> None:
    (found,) = ABOUT.findall(prose(nbformat.read(path, as_version=4)))
    assert 20 <= int(found[1]) <= 120
    for number in re.findall(r"\d+", found[2]):
        assert int(number) < int(path.stem[:2])


def test_the_plan_of_the_term_has_each_lesson_once_after_those_that_come_first() -> None:
    plan = re.findall(
        r"\(lessons/(\d+)_\w+\.ipynb\)", (ROOT / "docs" / "course.md").read_text().split("## The algorithms")[0]
    )
    taught = [int(number) for number in plan]
    assert sorted(taught) == [int(path.stem[:2]) for path in LESSONS]
    for path in LESSONS:
        ((_, _, first),) = ABOUT.findall(prose(nbformat.read(path, as_version=4)))
        for number in re.findall(r"\d+", first):
            assert taught.index(int(number)) < taught.index(int(path.stem[:2])), path.stem


@by_lesson
def test_each_exercise_has_an_answer(path: Path) -> None:
    answers = path.parent / "answers" / path.name
    headings = re.findall(r"^## Exercise (\d+)", prose(nbformat.read(answers, as_version=4)), re.MULTILINE)
    assert [int(number) for number in headings] == list(range(1, 1 + exercises_of(path)))


def test_no_page_of_a_student_links_to_the_answers() -> None:
    for page in [*LESSONS, ROOT / "docs" / "lessons" / "index.md"]:
        assert "answers" not in re.findall(r"\]\(([^)]*)\)", page.read_text(encoding="utf-8")), page.name


@by_notebook
def test_links_of_a_lesson_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^):]+)?\)", prose(nbformat.read(path, as_version=4))):
        assert (path.parent / target).exists(), target


@pytest.mark.usefixtures("kernels")
def test_figures_of_a_lesson_are_written_for_slides(tmp_path: Path) -> None:
    tool = str(ROOT / "docs" / "lessons" / "_figures.py")
    subprocess.run([sys.executable, tool, str(tmp_path / 'a "b"'), "01_flooding"], check=True, capture_output=True)
    written = sorted((tmp_path / 'a "b"').iterdir())
    assert written[0].name == "01_flooding-1.svg"
    assert all(path.read_text().rstrip().endswith("</svg>") for path in written)


def test_figures_of_a_lesson_that_is_none_are_refused(tmp_path: Path) -> None:
    tool = str(ROOT / "docs" / "lessons" / "_figures.py")
    done = subprocess.run([sys.executable, tool, str(tmp_path), "99_none"], capture_output=True, text=True)
    assert done.returncode
    assert done.stderr.startswith("99_none: must be one of 01_flooding")
