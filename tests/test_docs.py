"""The README and the docs: every Python block prints the block that follows it; links and lists are valid."""

import importlib
import importlib.util
import inspect
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import netsim
from netsim import agents
from tests.command import ROOT
from tests.parts import every, only_with, pseudo_terminal

TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES = [*TOP, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*/*.md"))]
REPORTS = sorted((ROOT / "benchmarks" / "reports").glob("*.md"))
# Pages whose examples are long runs, or studies with many seeds.
SLOW = (
    "algorithms.md",
    "choosing.md",
    "compute.md",
    "experiments.md",
    "grading.md",
    "lines_of_script.md",
    "loss.md",
    "paper.md",
    "protocols.md",
    "sensor_networks.md",
    "sites.md",
    "sweeps.md",
)
# The page runs two processes in real time, which equal the simulation only if neither is late by over a round.
_TRIES = {"sockets.md": 3}
# Pages whose examples write files into the current folder.
WRITES = ("first.md", "faults.md")
# The page opens a pseudo-terminal, which a bare chroot does not provide.
NEEDS_TERMINAL = ("devices.md",)
# These modules can only be imported where anywidget is installed.
OF_NOTEBOOKS = ("netsim.replay.notebook", "netsim.studies.laboratory.widget")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page.name in SLOW)) for page in PAGES],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_examples_run_and_print_what_is_shown(
    page: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.name in WRITES:
        monkeypatch.chdir(tmp_path)
    if page.name in NEEDS_TERMINAL:
        for end in pseudo_terminal():
            os.close(end)
    for left in reversed(range(_TRIES.get(page.name, 1))):
        try:
            run_examples(page, capsys)
        except AssertionError:
            if not left:
                raise
        else:
            break


def run_examples(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the blocks of a page, and compare each one's output with the text that follows it."""
    namespace: dict[str, object] = {"__name__": page.stem}
    printed = ""
    for language, text in BLOCK.findall(page.read_text()):
        if language == "python":
            exec(compile(text, f"{page.name}", "exec"), namespace)
            printed = capsys.readouterr().out
        elif language == "text":
            assert printed == text


@pytest.mark.parametrize("coder", ["TopK(10)", "Float(32)", "Exact()"])
def test_the_page_of_coders_adds_up_what_arrives_of_any_coder(coder: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Some coders deliver a plain array, which has no attribute `values`; the page must work with these, too."""
    page = (ROOT / "docs" / "coders.md").read_text()
    blocks = [text for language, text in BLOCK.findall(page) if language == "python"]
    (given,) = (text for text in blocks if "given = ErrorFeedback(TopK(10))" in text)
    namespace: dict[str, object] = {}
    exec("from netsim.coders import Exact\n" + blocks[0], namespace)
    capsys.readouterr()
    exec(given.replace("ErrorFeedback(TopK(10))", f"ErrorFeedback({coder})"), namespace)
    assert float(capsys.readouterr().out.split()[0]) < 1e-12, "nothing is missing"


@every("page", [*PAGES, *REPORTS])
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^):]+))?\)", text):
        other = page.parent / target if target else page
        assert other.exists(), target
        if anchor:
            assert anchor in {anchor_of(title) for title in re.findall(r"^#+ (.*)$", other.read_text(), re.MULTILINE)}


def anchor_of(title: str) -> str:
    """Return the anchor that GitHub and similar sites give to a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@every("page", PAGES)
def test_generated_lists_are_as_the_code_has_them(page: Path, lists: dict[str, Any]) -> None:
    assert lists["rewritten"](page.read_text()) == page.read_text(), "run: python docs/_lists.py"


def test_the_page_of_names_has_every_public_class_and_function(lists: dict[str, Any]) -> None:
    page = lists["PAGES"]["reference/names.md"]()
    shown = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    for stub in (ROOT / "netsim").rglob("__init__.pyi"):
        room = importlib.import_module(".".join(stub.parent.relative_to(ROOT).parts))
        missing = {name for name in room.__all__ if callable(getattr(room, name)) and name not in shown}
        assert not missing, room.__name__


def test_links_to_pages_that_the_build_makes_are_of_such_pages(lists: dict[str, Any]) -> None:
    made = {"reference/index.html", *(page.replace(".md", ".html") for page in lists["PAGES"])}
    text = "\n".join(page.read_text() for page in PAGES)
    assert made == set(re.findall(r'<a href="(reference/[\w/]+\.html)">', text))


@pytest.fixture(scope="module")
def lists() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "_lists.py"))


def test_every_page_is_on_the_site() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r"[\w/]+\.md", nav)
    assert sorted(named) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page not in TOP)


@pytest.mark.parametrize("of_notebooks", [False, pytest.param(True, marks=only_with("anywidget"))])
def test_a_name_of_netsims_in_a_docstring_or_a_page_is_one(of_notebooks: bool) -> None:
    """Every `netsim.a.b` in single backticks names something that exists."""
    files = [path for folder in ("netsim", "agents", "scenarios", "docs") for path in (ROOT / folder).rglob("*.py")]
    for path in [*files, *PAGES]:
        for name in re.findall(r"(?<!`)`(netsim(?:\.\w+)+)`(?!`)", path.read_text()):
            assert name.startswith(OF_NOTEBOOKS) != of_notebooks or exists(name), f"{path.relative_to(ROOT)}: {name}"


def exists(name: str) -> bool:
    """Return whether a name exists: as attributes of attributes, or as a module that is not exported."""
    found: Any = netsim
    for part in name.split(".")[1:]:
        inner = f"{getattr(found, '__name__', '')}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            if not (inner.startswith("netsim.") and importlib.util.find_spec(inner)):
                return False
            found = importlib.import_module(inner)
    return True


def test_every_agent_that_ships_is_on_a_page_of_its_kind() -> None:
    pages = [ROOT / "docs" / name for name in ("algorithms.md", "protocols.md", "motes.md")]
    named = {name for page in pages for name in re.findall(r"`(?:netsim\.agents\.)?(\w+)[`(]", page.read_text())}
    shipped = {name: getattr(agents, name) for name in agents.__all__}
    assert {name for name, kind in shipped.items() if inspect.isclass(kind) and issubclass(kind, netsim.Agent)} <= named


def test_the_workflow_of_a_forge_covers_what_is_promised() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    matrix = workflow["jobs"]["tests"]["strategy"]["matrix"]
    metadata = (ROOT / "pyproject.toml").read_text()
    assert matrix["python"] == re.findall(r"Python :: (3\.\d+)", metadata)
    assert {system.partition("-")[0] for system in matrix["system"]} == {"ubuntu", "macos", "windows"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"]
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)


def test_ci_runs_the_steps_of_check() -> None:
    steps = re.search(r"steps=\((.*)\)", (ROOT / "check").read_text().partition("if [ ${#steps")[2])
    assert steps
    (called,) = re.findall(r"^begin check \./check (.*)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    # "tests" is added because CI runs the tests by the command in the README.
    assert {*called.split(), "tests"} == {*steps[1].split(), "site"}


README_OF_A_TRIAL = """
# A trial

```sh
echo not this
```

## Run it

```sh
{run}
```

```sh
echo nor this
```

## Test it

```sh
{test}
```
"""
# This script replaces python3; it creates an environment that only records calls of pip and python.
PYTHON = """#!/bin/sh
mkdir -p .venv/bin
for name in pip python; do
    printf '#!/bin/sh\\necho "'$name' $* in $PWD" >> "$LOG"\\nexit ${'$name':-0}\\n' > .venv/bin/$name
    chmod +x .venv/bin/$name
done
"""


@pytest.fixture
def trial(tmp_path: Path) -> Callable[..., tuple[int, list[str], str]]:
    """Return a function that runs .ci/run in a new repository and returns status, recorded calls and errors.

    The function's further arguments are the exit statuses of the steps.
    """
    if sys.platform == "win32" or not shutil.which("git"):
        pytest.skip("needs git and a POSIX shell")
    room, tools, log = tmp_path / "room", tmp_path / "tools", tmp_path / "log"
    (room / ".ci").mkdir(parents=True)
    tools.mkdir()
    (room / "tests").mkdir()
    for script in ("run", "commands"):
        shutil.copy(ROOT / ".ci" / script, room / ".ci" / script)
    stubs = {
        room / "tests" / "pythons": '#!/bin/sh\necho "pythons $* in $PWD" >> "$LOG"\nexit ${PYTHONS:-0}\n',
        room / "check": '#!/bin/sh\necho "check $* in $PWD" >> "$LOG"\necho what it says\nexit ${CHECK:-0}\n',
        tools / "python3": PYTHON,
        # If these programs exist, the script does not install them.
        tools / "mosquitto": "",
        tools / "tshark": "",
        tools / "npm": "",
    }
    for path, text in stubs.items():
        path.write_text(text)
        path.chmod(0o755)
    (room / ".gitignore").write_text(".venv/\n")
    # .ci/run finds an existing installation.
    (room / ".venv").mkdir()
    subprocess.run(["git", "init", "-q", room], check=True)

    def run(run: str, test: str, **statuses: str) -> tuple[int, list[str], str]:
        (room / "README.md").write_text(README_OF_A_TRIAL.format(run=run, test=test))
        words: Any = {"cwd": room, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "check": False}
        path = os.pathsep.join([str(tools), os.environ["PATH"]])
        done = subprocess.run(["bash", ".ci/run"], env=os.environ | {"LOG": str(log), "PATH": path} | statuses, **words)
        # The output of parallel steps must be printed at the end, even if a step fails.
        noted = log.read_text().splitlines()
        assert ("what it says\n" in done.stdout) == any(line.startswith("check ") for line in noted)
        return done.returncode, noted, done.stderr

    return run


def test_ci_runs_the_readmes_commands_each_in_a_fresh_copy_before_anything_else(
    trial: Callable[..., tuple[int, list[str], str]], tmp_path: Path
) -> None:
    note = 'echo "{0} in $PWD: $(ls -A | tr "\\n" " ")" >> "$LOG" && mkdir .venv && touch left-by-{0}'
    status, noted, errors = trial(note.format("run"), note.format("test"))
    assert (status, errors) == (0, "")
    names = ("pythons", "pip", "check", "run", "test", "python ")
    pythons, install, check, run, test, slow = (next(each for each in noted if each.startswith(name)) for name in names)
    assert len(noted) == len(names)
    # The slow tests run beside the README's commands, and the steps of ./check after them.
    assert noted.index(run) < noted.index(install) < min(noted.index(check), noted.index(slow))
    assert noted.index(run) < noted.index(test) < noted.index(check)
    fresh = [re.fullmatch(r"(run|test) in (\S+): (.*)", line) for line in (run, test)]
    assert [each and each[1] for each in fresh] == ["run", "test"]
    # The copies contain only files that git tracks.
    assert [each and each[3] for each in fresh] == [".ci .gitignore README.md check tests "] * 2
    assert not any(each and str(tmp_path / "room") in each[2] for each in fresh)
    assert pythons == f"pythons --short in {tmp_path / 'room'}"
    assert install == f"pip install -q -e .[dev] in {tmp_path / 'room'}"
    assert check.startswith("check format lint")
    assert slow.startswith("python -m pytest ")
    assert slow.endswith(f" -m slow in {tmp_path / 'room'}")
    assert not any(each and Path(each[2]).exists() for each in fresh)


def test_ci_gives_what_the_first_installation_compiled_to_the_next_ones(
    trial: Callable[..., tuple[int, list[str], str]], tmp_path: Path
) -> None:
    compiled = "mkdir -p build/core-x netsim/core && touch build/core-x/stamp build/other netsim/core/_core.so"
    found = 'echo "found $(echo $(find build netsim -type f | sort))" >> "$LOG"'
    status, noted, errors = trial(f"{compiled} && touch netsim/core/other.py", found)
    assert (status, errors) == (0, "")
    assert "found build/core-x/stamp netsim/core/_core.so" in noted
    room = tmp_path / "room"
    assert (room / "netsim" / "core" / "_core.so").is_file()
    assert not (room / "build" / "other").exists()


@pytest.mark.parametrize("fails", ["run", "test"])
def test_ci_fails_where_a_command_of_the_readme_does(
    trial: Callable[..., tuple[int, list[str], str]], fails: str
) -> None:
    status, noted, _ = trial(**{"run": "true", "test": "true"} | {fails: "echo it >> $LOG; exit 7"})
    assert status == 7
    assert "it" in noted
    # If the code cannot be run, it is not checked further; after a failing test, the other steps still report.
    assert any(line.startswith("check ") for line in noted) == (fails == "test")


@pytest.mark.parametrize(
    ("fails", "named"), [("CHECK", "check"), ("PYTHONS", "pythons"), ("pip", "slow"), ("python", "slow")]
)
def test_ci_fails_where_a_step_does(trial: Callable[..., tuple[int, list[str], str]], fails: str, named: str) -> None:
    status, _, errors = trial("true", "true", **{fails: "7"})
    assert status == 7
    assert errors == f".ci/run: {named} failed (status 7)\n"


def test_ci_fails_where_the_readme_has_no_command(trial: Callable[..., tuple[int, list[str], str]]) -> None:
    status, _, errors = trial("echo it >> $LOG", "")
    assert status == 1
    assert errors == ".ci/run: README.md has no commands under '## Test it'\n"


@pytest.fixture
def pythons(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Return a function that runs tests/pythons in a new repository, and returns the status and the output."""
    if sys.platform == "win32":
        pytest.skip("needs a POSIX shell")
    tools = tmp_path / "tools"
    for folder in (tools, tmp_path / ".ci", tmp_path / "tests"):
        folder.mkdir()
    for script in (".ci/commands", "tests/pythons"):
        shutil.copy(ROOT / script, tmp_path / script)

    def run(*words: str, user: int, readme: str = README_OF_A_TRIAL.format(run="", test="true")) -> Any:
        (tmp_path / "README.md").write_text(readme)
        for name, text in {"id": f"echo {user}", "unshare": "exit 0", "apt-get": "exit 1"}.items():
            (tools / name).write_text(f"#!/bin/sh\n{text}\n")
            (tools / name).chmod(0o755)
        path = os.pathsep.join([str(tools), "/usr/bin", "/bin"])
        settings: Any = {"capture_output": True, "text": True, "check": False, "env": os.environ | {"PATH": path}}
        done = subprocess.run(["bash", "tests/pythons", *words], cwd=tmp_path, **settings)
        return done.returncode, done.stdout + done.stderr

    return run


def test_other_pythons_say_why_they_were_not_run(pythons: Callable[..., tuple[int, str]]) -> None:
    why = "only root may make and enter a system"
    assert pythons("--short", user=1000) == (0, f"tests/pythons: sid: not run: {why}\n")
    assert pythons("--short", "trixie", user=1000) == (0, f"tests/pythons: trixie: not run: {why}\n")
    assert pythons(user=1000) == (1, f"tests/pythons: trixie sid: not run: {why}\n")
    assert pythons("sid", user=1000) == (1, f"tests/pythons: sid: not run: {why}\n")


def test_other_pythons_run_the_readmes_command(pythons: Callable[..., tuple[int, str]]) -> None:
    assert pythons("sid", user=0) == (0, "== sid: true\n")
    status, printed = pythons(user=0, readme="# None\n")
    assert (status, printed) == (1, "tests/pythons: README.md has no commands under '## Test it'\n")


def test_what_is_run_on_other_pythons_exists() -> None:
    text = (ROOT / "tests" / "pythons").read_text()
    (files,) = re.findall(r'^SHORT_TESTS="(.*?)"', text, re.MULTILINE | re.DOTALL)
    assert all((ROOT / path).exists() for path in files.split())


def test_the_readme_has_both_commands() -> None:
    parts = dict(
        re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    )
    ends = {"Run it": ".venv/bin/netsim run coke", "Test it": ".venv/bin/python -m pytest -q -n auto --dist loadfile"}
    for title, end in ends.items():
        language, command = BLOCK.findall(parts[title])[0]
        assert language == "sh"
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q ")
        assert command.endswith(f" && {end}\n")


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("links.md", "A `bytearray` or a `memoryview` of bytes arrives as bytes."),
        ("links.md", "nested more than 32 deep"),
        ("algorithms.md", "Here θ̂ starts from 0; `coded_start=True` starts as in the dissertation."),
        ("algorithms.md", "Its θ̂_i stays unchanged, the copies stay equal, and the duals sum to zero."),
        (
            "algorithms.md",
            "With a threshold, `AtRandom` or a censor of your own, a receiver cannot distinguish the two",
        ),
    ],
)
def test_what_is_decided_is_on_its_page(page: str, text: str) -> None:
    assert text in re.sub(r"\s+", " ", (ROOT / "docs" / page).read_text())
