"""The lessons: each has its parts, and executed anew prints what is committed."""

import base64
import re
import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.command import ROOT

nbformat = pytest.importorskip("nbformat", reason="the lessons take nbclient and ipykernel: pip install -e '.[test]'")
pytest.importorskip("nbclient", reason="the lessons take nbclient and ipykernel: pip install -e '.[test]'")
pytest.importorskip("ipykernel", reason="the lessons take nbclient and ipykernel: pip install -e '.[test]'")

LESSONS = sorted((ROOT / "docs" / "lessons").glob("*.ipynb"))
PARTS = ("question", "guess", "run", "look", "fix", "exercises")
LARGEST = 60_000  # bytes of a figure

by_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "lessons" / "_execute.py"))


def prose(notebook: Any) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def test_there_are_lessons() -> None:
    assert LESSONS


@pytest.mark.slow
@by_lesson
def test_a_lesson_prints_what_is_committed(path: Path, tool: dict[str, Any]) -> None:
    committed = tool["texts"](tool["normalised"](nbformat.read(path, as_version=4)))
    with warnings.catch_warnings():
        # Theirs, of the notebooks' own machinery; what a lesson warns of is in its outputs.
        warnings.simplefilter("ignore")
        printed = tool["texts"](tool["executed"](path))
    for number, (cell, before) in enumerate(zip(printed, committed, strict=True)):
        assert cell == before, f"code cell {number}"


@by_lesson
def test_a_lesson_is_committed_executed_without_errors_and_warnings(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    figures = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert figures
    for figure in figures:
        assert len(base64.b64decode(figure)) <= LARGEST


@by_lesson
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
    exercises = re.split(r"^#+ .*xercises.*$", prose(notebook), flags=re.MULTILINE)[-1]
    assert 3 <= len(re.findall(r"^(?:\d+\.|[-*]) ", exercises, re.MULTILINE)) <= 5


@by_lesson
def test_links_of_a_lesson_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^):]+)?\)", prose(nbformat.read(path, as_version=4))):
        assert (path.parent / target).exists(), target
