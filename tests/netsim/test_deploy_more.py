"""netsim deploy that is ended from outside (docs/sockets.md): nothing stays behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.netsim.test_deploy import STUDY


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


def _commands() -> str:
    return "\n".join(_read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended meanwhile
        return ""
