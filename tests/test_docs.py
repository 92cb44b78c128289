"""Every Python block of the README and the docs runs, and prints what the block after it shows."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run_and_print_what_is_shown(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, object] = {"__name__": page.stem}
    printed = ""
    for language, text in BLOCK.findall(page.read_text()):
        if language == "python":
            exec(compile(text, f"{page.name}", "exec"), namespace)
            printed = capsys.readouterr().out
        elif language == "text":
            assert printed == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_ci_runs_the_very_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    command = re.search(r"^python3 -m venv .*pytest.*$", readme, re.MULTILINE)
    assert command
    assert command.group() in (ROOT / ".ci" / "run").read_text().splitlines()


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("links.md", "A `bytearray` or a `memoryview` of bytes arrives as bytes."),
        ("links.md", "nested more than 32 deep"),
        ("algorithms.md", "Here θ̂ begins as 0; `coded_start=True` begins as the dissertation does."),
        ("algorithms.md", "its θ̂_i stays as it was, the copies stay equal, and the duals sum to zero."),
        ("algorithms.md", "Under a threshold, or `AtRandom`, a receiver cannot tell"),
    ],
)
def test_what_is_decided_is_said(page: str, says: str) -> None:
    text = re.sub(r"\s+", " ", (ROOT / "docs" / page).read_text())
    assert says in text
