"""The folder is prepared before the run, and each run has its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from netsim.studies import folder as folders
from tests.netsim.test_cli import call
from tests.netsim.test_files_reserve import disk, fill

__all__ = ["disk"]

MEETS = """\
import os, time
from pathlib import Path
from netsim import Agent, Network, topology
class Idle(Agent):
    async def run(self):
        async for _ in self.rounds(3):
            await self.collect()
def mine(study, *, others: int = 0) -> None:
    Path(f"began-{os.getpid()}").touch()
    graph = topology.path(2)
    study.run("idle", Network(graph), {i: Idle() for i in graph}, [len], 3)
    end = time.monotonic() + 20
    while len(list(Path().glob("began-*"))) <= others and time.monotonic() < end:
        time.sleep(0.01)
"""


@pytest.fixture
def room(tmp_path: Path) -> Path:
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "mine.py").write_text(MEETS)
    return folder


def test_runs_at_the_same_time_have_folders_of_their_own_by_default(room: Path) -> None:
    code = "from netsim.studies.cli import main; main()"
    words = [sys.executable, "-c", code, "run", "mine.py", "--others", "2"]
    at_once = [
        subprocess.Popen(words, cwd=room, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]
    said = [process.communicate(timeout=60)[1] for process in at_once]
    assert [process.returncode for process in at_once] == [0, 0, 0], said
    assert sorted(path.name for path in (room / "runs").iterdir()) == ["mine-1", "mine-2", "mine-3"]
    for number in (1, 2, 3):
        folders.load(room / "runs" / f"mine-{number}")


@pytest.mark.parametrize("what", ["full", "read-only", "below a file"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_run(what: str, room: Path, disk: Path) -> None:
    out = disk / "out"
    if what == "full":
        fill(disk)
    elif what == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    else:
        (disk / "other").mkdir()
        (disk / "other" / "file").touch()
        out = disk / "other" / "file" / "out"
    done = call("run", "mine.py", "--out", str(out), cwd=room)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"netsim: out = {str(out)!r}: must be ")
    assert not list(room.glob("began-*")), "it ran in vain"


def test_what_a_killed_run_left_beside_the_folder_is_swept_by_the_next(room: Path) -> None:
    """A run that is killed while it writes its folder."""
    code = (
        "import os, signal, pandas as pd; from netsim.studies.cli import main; "
        "pd.DataFrame.to_csv = lambda *a, **m: os.kill(os.getpid(), signal.SIGKILL); main()"
    )
    words = [sys.executable, "-c", code, "run", "mine.py", "--out", "results/out"]
    assert subprocess.run(words, cwd=room, capture_output=True).returncode == -signal.SIGKILL
    assert os.listdir(room / "results") != []
    assert call("run", "mine.py", "--out", "results/out", cwd=room).returncode == 0
    assert os.listdir(room / "results") == ["out"]
