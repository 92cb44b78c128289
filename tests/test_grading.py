"""The example of docs/grading.md: each submission gets the stated marks, and no submission delays the others."""

import asyncio
import copy
import csv
import importlib.util
import json
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import netsim
from netsim.testing import KnowsUnheard
from tests.command import ROOT, environment, forked

FOLDER = ROOT / "docs" / "examples" / "grading"
PAGE = (ROOT / "docs" / "grading.md").read_text()
MARKS = {name: int(marks) for name, marks in re.findall(r"^\| `([\w/]+)` \| .* \| (\d+) \|$", PAGE, re.MULTILINE)}
SLOW = sorted(MARKS.keys() - {"reference"})
# Without this timer, only the time limit in grade.py would end an endless loop.
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no timer of processor time")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the teacher's folder, shortened so that nothing takes long."""
    copy = Path(shutil.copytree(FOLDER, tmp_path / "grading"))
    conftest = (copy / "conftest.py").read_text()
    assert "SECONDS = 10\n" in conftest
    (copy / "conftest.py").write_text(conftest.replace("SECONDS = 10\n", "SECONDS = 0.5\n"))
    return copy


def graded(folder: Path, submission: str | Path) -> tuple[dict[str, Any], list[str]]:
    """Grade one submission; return the content of results.json, and the printed lines."""
    words = ["test_broadcast.py", "--submission", str(submission)]
    code = f"import os, sys, pytest; os.chdir({str(folder)!r}); sys.exit(int(pytest.main({words!r})))"
    _, printed = forked(code)
    return json.loads((folder / "results.json").read_text()), printed.splitlines()


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
        ("while True:\n    pass\n", "The file cannot be imported: TooLong: took more than 0.5 s of the processor"),
        ("import sys\nsys.exit(0)\n", "The file cannot be imported: SystemExit: 0"),
        ("def (:\n", "The file cannot be imported: SyntaxError: invalid syntax"),
        ("import os\nos._exit(0)\n", "The grading was cut off."),
    ],
)
def test_a_file_that_cannot_be_imported_gets_nothing_and_one_line(folder: Path, text: str, remark: str) -> None:
    found, _ = graded(folder, written(folder, text))
    assert found["score"] == 0
    assert found["output"].startswith(remark)
    assert [each["max_score"] for each in found["tests"]] == [2, 1, 1, 1, 2, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "method"), [("list", "__eq__"), ("list", "__len__"), ("str", "__eq__")], ids=["equal", "short", "text"]
)
def test_a_class_of_its_own_that_equals_any_other_gets_nothing(folder: Path, base: str, method: str) -> None:
    answer = "0" if method == "__len__" else "True"
    text = f"""
import netsim

class Any({base}):
    def {method}(self, *other):
        return {answer}

    __hash__ = {base}.__hash__

class Broadcast(netsim.Agent):
    def __init__(self, text=None):
        self.delivered = {"Any()" if base == "list" else "[Any('')]"}

    async def run(self):
        pass
"""
    found, _ = graded(folder, written(folder, text))
    assert found["score"] == 0


@pytest.mark.slow
def test_what_ends_the_process_keeps_what_it_has(folder: Path) -> None:
    good = (folder / "reference" / "broadcast.py").read_text()
    # Only the last test restarts a node, so the process ends there, after the other marks were given.
    again = "        if self.delivered:\n            os._exit(0)\n"
    ending = good.replace("import asyncio\n", "import asyncio\nimport os\n", 1).replace(
        "    def begin(self):\n", f"    def begin(self):\n{again}"
    )
    found, _ = graded(folder, written(folder, ending))
    assert (found["output"], found["score"]) == ("The grading was cut off.", 8)


@pytest.mark.slow
def test_a_loop_that_catches_every_exception_is_ended(folder: Path) -> None:
    good = (folder / "reference" / "broadcast.py").read_text()
    lines = ["if self.text:", "    while True:", "        try:", "            self.name", "        except Exception:"]
    loop = "".join(f"        {line}\n" for line in [*lines, "            pass"])
    endless = good.replace("    async def run(self):\n", f"    async def run(self):\n{loop}")
    found, _ = graded(folder, written(folder, endless))
    assert found["score"] == 1
    assert found["tests"][0]["output"].startswith("took more than 0.5 s of the processor")


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
    names = ["flooding", "forgetful", "together", "unfinished"]
    assert done.stdout.splitlines() == [f"{name}: {MARKS[f'submissions/{name}']}" for name in names]
    with (folder / "marks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["student"] for row in rows] == names
    for row in rows:
        marks = [int(value) for name, value in row.items() if name not in ("student", "marks", "remark")]
        assert len(marks) == 7
        assert sum(marks) == int(row["marks"])
    assert rows[3]["remark"].startswith("The file cannot be imported")
    assert (folder / "submissions" / "flooding" / "results.json").is_file()


def test_grading_without_pytest_names_it(folder: Path) -> None:
    """Without this error, each student would get 0 marks."""
    command = [sys.executable, "-S", "grade.py", "submissions", "marks.csv"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "grade.py: pytest is not installed: pip install pytest\n")


@pytest.mark.slow
def test_a_submission_that_sleeps_is_ended(folder: Path) -> None:
    grade = (folder / "grade.py").read_text()
    assert "SECONDS = 120\n" in grade
    (folder / "class" / "ann").mkdir(parents=True)
    (folder / "class" / "ann" / "broadcast.py").write_text("import time\ntime.sleep(1000)\n")
    # Longer limits are tried if the machine is too slow for the first one.
    for seconds in (5, 15, 60):
        (folder / "grade.py").write_text(grade.replace("SECONDS = 120\n", f"SECONDS = {seconds}\n"))
        command = [sys.executable, "grade.py", "class", "marks.csv"]
        subprocess.run(command, cwd=folder, env=environment(PYTHONPATH=str(ROOT)), check=True)
        with (folder / "marks.csv").open() as file:
            (row,) = csv.DictReader(file)
        if not row["remark"].startswith("There is no result."):
            break
    remark = f"The grading was cut off. It took more than {seconds} s."
    assert (row["student"], row["marks"], row["remark"]) == ("ann", "0", remark)


# --- submissions whose agents share more than frames ------------------------------------------------------------------

CHEAT = """
import asyncio
import netsim
{top}

class Broadcast(netsim.Agent):
    {attribute}

    def __init__(self, text=None):
        self.text = text
        self.delivered = []

    async def run(self):
        if self.text is not None:
            {tell}
        while not self.delivered:
            text = self.text or ({learn})
            if text is not None:
                self.delivered.append(text)
            await asyncio.sleep(0.5)
        for neighbor in self.neighbors:
            await self.send(neighbor, "text", self.delivered[0])
        async for frame in self.inbox:
            await self.send(frame.sender, "ack")
"""
BOX = "box().append(self.text)", "box()[0] if box() else None"
# Ways of sharing state that isolation prevents: each isolated agent gets its own copy of the module's state.
ISOLATED = {
    "a variable of the module": ("BOX = []", "pass", "BOX.append(self.text)", "BOX[0] if BOX else None"),
    "an attribute of the class": ("", "box = []", "self.box.append(self.text)", "self.box[0] if self.box else None"),
    "a default argument": ("def box(found=[]): return found", "pass", *BOX),
    "a closure": ("def made():\n    found = []\n    return lambda: found\nbox = made()", "pass", *BOX),
    "a cached function": ("import functools\n@functools.cache\ndef box(): return []", "pass", *BOX),
}
# A run freezes the objects that existed before it, which hides them from `gc.get_objects`.
HOLDER = "gc.unfreeze() or next((o.text for o in gc.get_objects() if type(o).__name__ == 'Broadcast' and o.text), None)"
# Ways of sharing that isolation does not prevent; agents that use them to learn values are detected.
SHARED = {
    "a module of Python's": ("", "pass", "asyncio.news = self.text", "getattr(asyncio, 'news', None)"),
    "the class Agent": ("", "pass", "netsim.Agent.news = self.text", "getattr(netsim.Agent, 'news', None)"),
    "sys.modules": ("import sys", "pass", "sys.modules['news'] = self.text", "sys.modules.get('news')"),
    "the garbage collector": ("import gc", "pass", "pass", HOLDER),
    "the emulator": (
        "",
        "pass",
        "self._netsim.shared.loop.news = self.text",
        "getattr(self._netsim.shared.loop, 'news', None)",
    ),
    "the environment": ("import os", "pass", "os.environ['NEWS'] = self.text", "os.environ.get('NEWS')"),
    "a file": (
        "from pathlib import Path",
        "pass",
        "Path('news').write_text(self.text)",
        "Path('news').read_text() if Path('news').exists() else None",
    ),
    "the hidden tests": ("import sys", "pass", "pass", "sys.modules['test_broadcast'].NEWS"),
}
CHEATS = ISOLATED | SHARED


def cheat(way: str) -> str:
    top, attribute, tell, learn = CHEATS[way]
    return CHEAT.format(top=top, attribute=attribute, tell=tell, learn=learn)


@pytest.fixture
def marks(request: pytest.FixtureRequest) -> None:
    """Register the mark ``marks`` of the hidden tests in this process, as the example's conftest.py does."""
    request.config.addinivalue_line("markers", "marks(count): what a test is worth")


def imported(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a file of the example under its own name, for the duration of one test."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def submitted(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the classes of a submission, for the duration of one test."""
    conftest = imported("conftest", monkeypatch)
    monkeypatch.setitem(sys.modules, "submission", None)  # type: ignore[arg-type]
    return conftest.Submission(written(tmp_path, text))


@pytest.mark.usefixtures("marks")
@pytest.mark.parametrize("way", CHEATS)
def test_who_cannot_have_heard_cannot_know(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (asyncio, netsim.Agent):
        monkeypatch.setattr(place, "news", None, raising=False)
    monkeypatch.setitem(sys.modules, "news", None)  # type: ignore[arg-type]
    # Setting and deleting it makes monkeypatch restore it, so that the cheat's change is undone.
    monkeypatch.setenv("NEWS", "")
    monkeypatch.delenv("NEWS")
    submission = submitted(cheat(way), tmp_path, monkeypatch)
    tests = imported("test_broadcast", monkeypatch)
    with pytest.raises(AssertionError) as caught:
        tests.test_knowledge(submission["Broadcast"])
    if way in SHARED:
        assert isinstance(caught.value, KnowsUnheard)
        assert str(caught.value).startswith("agent 1 knows at 0 s what agent 0 began with, and could not have heard it")
    else:
        assert not isinstance(caught.value, KnowsUnheard)
        assert "delivered = [['the lecture is cancelled'], [], [], [], []]" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["the emulator", "an attribute of the class"])
def test_who_shares_more_than_frames_gets_next_to_nothing(way: str, folder: Path) -> None:
    found, lines = graded(folder, written(folder, cheat(way)))
    if way in SHARED:
        assert found["score"] == 0
        assert found["output"].startswith("No marks, for the agents share more than frames: agent 1 knows at 0 s")
        assert " 0 of 10  in all" in lines
    else:
        assert found["score"] <= 2
        assert found["output"] == ""


def test_each_agent_has_a_module_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import dataclasses\nimport netsim\n@dataclasses.dataclass\nclass Mine(netsim.Agent):\n    value: 'int' = 1\n"
    )
    submission = submitted(text, tmp_path, monkeypatch)
    one, other = submission["Mine"](), submission["Mine"](value=2)
    assert (one.value, other.value) == (1, 2)
    assert type(one) is not type(other)
    assert copy.deepcopy(other).value == 2
    assert pickle.loads(pickle.dumps(other)).value == 2
    # No files are left beside the student's file.
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


# --- another assignment -----------------------------------------------------------------------------------------------

COUNTING = """
import pytest
from netsim.testing import play

@pytest.mark.marks(1)
@pytest.mark.parametrize("count", [1, 2])
def test_counts(submission, count):
    \"\"\"Counts itself.\"\"\"
    run = play(*(submission["Counter"]() for _ in range(count)), until=1)
    assert [agent.count for agent in run.agents.values()] == [1] * count

@pytest.mark.marks(3)
def test_without_a_docstring(submission):
    assert submission["Counter"]().count == 1
"""


@pytest.mark.slow
def test_any_assignment_is_graded(tmp_path: Path, folder: Path) -> None:
    tests = tmp_path / "other" / "test_counting.py"
    tests.parent.mkdir()
    tests.write_text(COUNTING)
    for name in ("conftest.py", "pytest.ini"):
        shutil.copy(folder / name, tests.parent)
    good = "import netsim\n\nclass Counter(netsim.Agent):\n    count = 1\n    async def run(self):\n        pass\n"
    for student, text in {"ann": good, "bob": good.replace("count = 1", "count = 2"), "eve": None}.items():
        (tmp_path / "class" / student).mkdir(parents=True)
        if text:
            (tmp_path / "class" / student / "counting.py").write_text(text)
    (tmp_path / "class" / "notes.txt").write_text("")
    command = [sys.executable, str(folder / "grade.py"), "class", "marks.csv", str(tests)]
    subprocess.run(command, cwd=tmp_path, env=environment(PYTHONPATH=str(ROOT)), check=True)
    with (tmp_path / "marks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["student"], row["marks"]) for row in rows] == [("ann", "5"), ("bob", "0"), ("eve", "0")]
    assert (rows[0]["Counts itself."], rows[0]["test_without_a_docstring"]) == ("2", "3")
    assert rows[2]["remark"].startswith("The file cannot be imported: FileNotFoundError")


def test_tests_that_are_not_there_are_named(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "grade.py"), "class", "marks.csv", str(tmp_path / "tests.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("grade.py: must have one file test_NAME.py")
