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
