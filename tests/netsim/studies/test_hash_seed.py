"""Python's hash seed: fixed by commands that run agents, recorded, and mentioned if a result differs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import netsim.studies
from netsim import __main__ as command
from netsim.studies import cli
from netsim.studies.catalogue import find_study
from netsim.studies.laboratory import process
from netsim.studies.sums import write_sums
from netsim.testing import Listener, Talker, play
from netsim.util.hashing import hash_seed
from tests.command import environment, python
from tests.parts import every

pytestmark = pytest.mark.usefixtures("all_undrawn")

NAMES = '''
"""Agents that greet in the order of a set of names."""
import sys
import networkx as nx
import netsim
from netsim import Link, Network

print("read:", sys.stdin.readline().strip())

class Greets(netsim.Agent):
    async def run(self):
        async for _ in self.rounds(2):
            for other in set(self.neighbors):
                await self.send(other, "hello", len(other))
            await self.collect()

def make(*, seed: int = 1):
    graph = nx.complete_graph(["attic", "garage", "hall", "cellar", "yard"])
    return Network(graph, Link(latency=0.01), seed=seed), {name: Greets() for name in graph}
'''


def by_module(*words: str, cwd: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as a shell does, without a hash seed in the environment."""
    usual = {name: value for name, value in environment().items() if name != "PYTHONHASHSEED"}
    call = [sys.executable, "-m", "netsim", *words]
    return subprocess.run(call, cwd=cwd, env=usual | env, input="a line\n", capture_output=True, text=True, check=False)


def recorded(folder: Path) -> Any:
    return json.loads((folder / "settings.json").read_text())["hash_seed"]


@pytest.mark.slow
def test_a_command_fixes_the_hash_seed_and_keeps_its_input(tmp_path: Path) -> None:
    (tmp_path / "names.py").write_text(NAMES)
    done = by_module("run", "names.py", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "read: a line\n" in done.stdout
    assert recorded(tmp_path / "out") == 0


@pytest.mark.slow  # needs four processes
@pytest.mark.parametrize(("given", "expected"), [("7", 7), ("0", 0), ("random", None), ("", 0)])
def test_a_hash_seed_of_the_users_is_kept(given: str, expected: int | None, tmp_path: Path) -> None:
    (tmp_path / "names.py").write_text(NAMES)
    done = by_module("run", "names.py", "--out", "out", cwd=tmp_path, PYTHONHASHSEED=given)
    assert done.returncode == 0, done.stderr
    assert recorded(tmp_path / "out") == expected


@pytest.mark.slow  # needs two processes, and one for each job
def test_points_of_a_sweep_have_the_same_hash_seed_in_all_processes(tmp_path: Path) -> None:
    (tmp_path / "names.py").write_text(NAMES.replace("print(", "0 and print("))
    done = by_module("sweep", "names.py", "--seed", "0:3", "--jobs", "2", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {recorded(each) for each in (tmp_path / "out" / "points").iterdir()} == {0}


@pytest.mark.slow  # needs one process, and two for each sweep
def test_a_seed_that_a_program_sets_later_does_not_reach_its_workers(tmp_path: Path) -> None:
    """A program may set a hash seed later, as Dask does in a process that starts a cluster."""
    (tmp_path / "names.py").write_text(NAMES.replace("print(", "0 and print("))
    code = """
        import os, sys
        from netsim.studies.sweeps import sweep
        os.chdir(sys.argv[1])
        for later in ("7", "random"):
            os.environ["PYTHONHASHSEED"] = later
            sweep("names.py", seed=range(2), jobs=2, out=later)
    """
    python(code, str(tmp_path), PYTHONHASHSEED="0")
    assert [recorded(each) for each in tmp_path.glob("*/points/*")] == [0] * 4


@pytest.mark.slow  # needs a process for each command
def test_status_and_interrupt_are_those_of_the_command(tmp_path: Path) -> None:
    done = by_module("run", "nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("netsim: study = 'nothing': must be one of ")
    (tmp_path / "slow.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)\n")
    usual = {name: value for name, value in environment().items() if name != "PYTHONHASHSEED"}
    words = [sys.executable, "-m", "netsim", "run", "slow.py"]
    with subprocess.Popen(words, cwd=tmp_path, env=usual, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"begun\n"
        # The signal must reach the process that runs the study, which is the one started here.
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130


def test_every_command_either_runs_agents_or_does_not() -> None:
    others = {"list", "show", "data", "replay", "convert", "export", "compare", "pack"}
    assert {*cli.app.commands} == command._RUNNING | others


@every(
    ("words", "runs"),
    [
        ("run coke", True),
        ("sweep coke --seed 0:2 --out x", True),
        ("verify x", True),
        ("bench --check x", True),
        ("run coke --help", False),
        ("run -h", False),
        ("list", False),
        ("--version", False),
        ("show x", False),
        ("", False),
    ],
)
def test_what_runs_no_agents_does_not_start_python_twice(words: str, runs: bool) -> None:
    assert command.runs_agents(words.split()) is runs


def test_a_program_that_calls_the_command_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("this process was replaced")

    monkeypatch.setattr(os, "execve", refuse)
    monkeypatch.setattr(sys, "argv", ["netsim", "run", "nothing"])
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    with pytest.raises(SystemExit) as stopped:
        command.main()
    assert stopped.value.code == 2


def test_where_exec_returns_to_the_shell_at_once_a_child_runs_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, the parent waits for a child process, and ends with the child's status."""
    kept = signal.getsignal(signal.SIGINT)
    code = "import os, sys; sys.exit(int(os.environ['PYTHONHASHSEED']) + 3)"
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", code])
    monkeypatch.setattr(command, "_wait_for", waits := [])
    monkeypatch.setattr(command, "_wait_for", lambda *words: waits.append(words) or sys.exit(0))
    with pytest.raises(SystemExit):
        command._start_again({**os.environ, "PYTHONHASHSEED": "4"})
    monkeypatch.undo()
    try:
        with pytest.raises(SystemExit) as stopped:
            command._wait_for(*waits[0])
    finally:
        signal.signal(signal.SIGINT, kept)
    assert stopped.value.code == 7


def test_a_seed_set_by_the_program_itself_is_too_late() -> None:
    code = """
        import os, sys
        os.environ["PYTHONHASHSEED"] = "5"
        from netsim.util.hashing import hash_seed
        print(hash_seed())
    """
    expected = "None\n" if Path("/proc/self/environ").exists() else "5\n"
    assert python(code) == expected
    assert python(code, PYTHONHASHSEED="3") in ("3\n", "5\n")
    assert python(code, PYTHONHASHSEED="0") == "0\n"


def test_a_library_run_records_whether_the_seed_was_fixed(tmp_path: Path) -> None:
    run = play(Talker([(0.0, "x")]), Listener())
    assert run.hash_seed == hash_seed()
    study = find_study("averaging").execute(agents=5, radius=0.9)
    assert recorded(study.save(tmp_path / "one")) == hash_seed()
    # Pretend that the run came from a cluster worker with another hash seed.
    next(iter(study.runs.values())).hash_seed = 6640
    assert recorded(study.save(tmp_path / "two")) is None


def test_verify_names_another_seed_only_where_a_result_differs(tmp_path: Path) -> None:
    folder = find_study("averaging").execute(agents=5, radius=0.9).save(tmp_path / "out")
    settings = json.loads((folder / "settings.json").read_text())

    def found(text: str, **changed: Any) -> list[str]:
        (folder / "settings.json").write_text(json.dumps(settings | changed))
        (folder / "rounds.csv").write_text(text)
        write_sums(folder)
        return [each for each in netsim.studies.verify(folder).elsewhere if each.startswith("hash seed")]

    rows = (folder / "rounds.csv").read_text()
    other = rows.replace("\naveraging,1,", "\naveraging,7,")
    assert other != rows
    assert found(rows, hash_seed=12345) == []
    (line,) = found(other, hash_seed=None)
    assert line.startswith("hash seed: drawn by Python recorded, ")
    assert "the likely cause, if an agent goes through a set of texts, as set(self.neighbors)" in line


def test_branches_of_the_lab_have_a_fixed_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    class Started:
        def __init__(self, *_: Any, **more: Any) -> None:
            given.update(more)

    monkeypatch.setattr(process.subprocess, "Popen", Started)
    for seed, expected in ((None, "0"), ("5", "5")):
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
        if seed is not None:
            monkeypatch.setenv("PYTHONHASHSEED", seed)
        process.Worker()._started()
        assert given["env"]["PYTHONHASHSEED"] == expected
