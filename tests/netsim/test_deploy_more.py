"""netsim deploy that is ended from outside (docs/sockets.md): nothing stays behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

from tests.netsim.test_deploy import STUDY, rows_in


@contextmanager
def deploying(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """Yield a deployment whose processes have begun, and its folder for temporary files."""
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    (home / "averages.py").write_text(STUDY)
    command = [sys.executable, "-m", "netsim", "deploy", "averages.py", "--processes", "2", "--round-time", "0.3"]
    with subprocess.Popen(
        command, cwd=home, env=os.environ | {"TMPDIR": str(temporary)}, stderr=subprocess.PIPE, text=True
    ) as running:
        deadline = time.monotonic() + 60
        while len(journals := list(temporary.glob("*/parts/run-0/*.journal"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(journals) == 2
        yield running, temporary


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_who_ends_a_deployment_finds_nothing_left(number: int, status: int, tmp_path: Path) -> None:
    with deploying(tmp_path) as (running, temporary):
        running.send_signal(number)
        _, said = running.communicate(timeout=30)
    assert running.returncode == status
    assert "interrupted; no run folder was written" in said
    assert list(temporary.iterdir()) == []
    assert [path.name for path in (tmp_path / "home").rglob("*") if path.is_file()] == ["averages.py"]
    if sys.platform == "linux":
        assert str(temporary) not in _commands()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_a_deployment_that_is_killed_takes_its_processes_with_it(tmp_path: Path) -> None:
    with deploying(tmp_path) as (running, temporary):
        assert str(temporary) in _commands()
        running.kill()
        running.communicate(timeout=30)
    deadline = time.monotonic() + 5
    while str(temporary) in _commands() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert str(temporary) not in _commands()


ODD = '''
"""Runs a network that it does not name, and ends in one of several ways."""
import sys
import netsim
from netsim import Network, topology
from netsim.testing import Rounder

def odd(study, *, ends: bool = False, seed: int = 0):
    """Be odd.

    Parameters
    ----------
    ends : bool
        Whether it ends Python.
    seed : int
        Seed.
    """
    network = Network(topology.ring(4), round_period=0.1, seed=seed)
    network.run({name: Rounder(3) for name in network.graph})
    study.run("named", network, {name: Rounder(4) for name in network.graph}, [], 4)
    if ends:
        sys.exit(0)
'''


@pytest.mark.slow
def test_a_study_may_run_networks_that_it_does_not_name(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(ODD)
    command = [sys.executable, "-m", "netsim", "deploy", "odd.py", "--processes", "2", "--round-time", "0.3"]
    done = subprocess.run([*command, "--out", "out"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "trace hash of 2 runs" in done.stdout or "not as in the simulation" in done.stdout
    table = pd.read_csv(tmp_path / "out" / "processes.csv")
    assert table["algorithm"].tolist() == ["run 1", "run 1", "named", "named"]
    done = subprocess.run([*command, "--ends"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.endswith("odd.py' raised SystemExit (odd.py, line 22): 0\n")


@pytest.mark.slow
def test_rounds_that_pass_before_anybody_takes_part_are_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "netsim", "deploy", "averaging", "--processes", "2"]
    done = subprocess.run([*command, "--round-time", "1e-6"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    says = "netsim: round_time = 1e-06: must be longer: all rounds had passed before the processes took part\n"
    assert done.stderr.endswith(says)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_who_is_stopped_is_killed_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "averages.py").write_text(STUDY)
    (tmp_path / "temporary").mkdir()
    command = [sys.executable, "-m", "netsim", "deploy", "averages.py", "--processes", "2", "--round-time", "0.1"]
    command += ["--silence", "1", "--patience", "3", "--rounds", "20", "--out", "out"]
    folder = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
    with subprocess.Popen(command, cwd=tmp_path, env=folder, stdout=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 60
        journals: list[Path] = []
        while not journals and time.monotonic() < deadline:
            journals = [path for path in (tmp_path / "temporary").glob("*/parts/run-0/*.journal") if rows_in(path) > 3]
            time.sleep(0.02)
        running_there = [path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in _read(path)]
        # A run has a process of its own.
        seconds = [int(path.name) for path in running_there if "p2" in _read(path / "cmdline").split("\0")]
        for second in sorted(seconds):
            os.kill(second, signal.SIGSTOP)
        said, _ = running.communicate(timeout=60)
    assert running.returncode == 1
    assert str(tmp_path) not in _commands()
    assert " was killed, or its part was cut off: what it took with it is missing." in said


def _commands() -> str:
    return "\n".join(_read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended meanwhile
        return ""
