"""netsim deploy that is ended from outside (docs/sockets.md): nothing stays behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.netsim.test_deploy import STUDY


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_who_ends_a_deployment_finds_nothing_left(number: int, status: int, tmp_path: Path) -> None:
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
        running.send_signal(number)
        _, said = running.communicate(timeout=30)
    assert running.returncode == status
    assert "interrupted; no run folder was written" in said
    assert list(temporary.iterdir()) == []
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["averages.py"]
    if sys.platform == "linux":
        assert str(temporary) not in _commands()


def _commands() -> str:
    return "\n".join(_read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended meanwhile
        return ""
