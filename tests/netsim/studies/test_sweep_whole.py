"""A sweep's folder is always consistent: after a kill, with a full disk, with two sweeps, after Ctrl-C."""

import errno
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim import BadInput
from netsim.studies.folder import Unsaved
from netsim.studies.reserve import LOCK
from netsim.studies.sweeps import sweep
from tests.command import ROOT, call
from tests.netsim.studies.test_sweep import STUDY, files

MAIN = "from netsim.studies.cli import main; main()"

posix = pytest.mark.skipif(sys.platform == "win32", reason="no process groups, limits or locks of this kind there")


@pytest.fixture
def study(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(STUDY)
    return str(tmp_path / "mine.py")


def started(flags: list[str], folder: Path, **settings: Any) -> "subprocess.Popen[str]":
    """Start the command in a process group of its own."""
    words = {"start_new_session": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | settings
    return subprocess.Popen([sys.executable, "-c", MAIN, *flags], cwd=folder, **words)


def entries(folder: Path) -> list[str]:
    """Return the subfolders of a folder, among which there must be no temporary ones."""
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


# --- killed -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@posix
def test_killed_at_random_moments_and_resumed_it_is_the_same_to_the_byte(study: str, tmp_path: Path) -> None:
    words: dict[str, Any] = {"loss": [0.0, 0.2], "seed": range(12), "slow": 0.05, "fail": 7}
    sweep(study, out=tmp_path / "whole", **words)
    flags = ["sweep", study, "--loss", "0,0.2", "--seed", "0:12", "--slow", "0.05", "--fail", "7", "--jobs", "2"]
    rng, out = np.random.default_rng(11), tmp_path / "out"
    for number in range(3):
        before = len(entries(out / "points"))
        process = started([*flags, "--out", "out"], tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Kill the sweep after its first file or after a point, so that it is surely in the middle of its work.
        due = time.monotonic() + 60.0
        while time.monotonic() < due and process.poll() is None:
            ended = len(entries(out / "points")) > before
            if ended or (number % 3 == 0 and any(name.startswith("running-") for name in entries(out))):
                break
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.15))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert len(entries(out / "points")) < 22, "there was to be something left"
    # The rest runs in one process. Another test below covers workers whose parent was killed.
    done = call(*flags, "--jobs", "1", "--out", "out", cwd=tmp_path)
    assert done.returncode == 1, done.stderr  # one point fails on purpose
    assert files(out) == files(tmp_path / "whole")
    assert entries(out) == ["failed", "points", "points.csv", "sweep.json"]


DIES = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from netsim.studies.sweeps import sweep
from tests.dying import die_at_each_call
from tests.netsim.studies.test_sweep import files

folder = Path(sys.argv[1])

def work(out):
    sweep(str(folder / "mine.py"), out=out, seed=range(3), fail=1)

def checked(out):
    assert sorted(path.name for path in out.iterdir()) == ["failed", "points", "points.csv", "sweep.json"], out

print("died", die_at_each_call(folder, work, files, checked))
"""


@pytest.mark.slow
@posix
def test_dead_before_or_after_each_call_that_changes_the_folder_and_resumed_it_is_the_same(
    study: str, tmp_path: Path
) -> None:
    words = [sys.executable, "-c", DIES, str(tmp_path), str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 20, "as many calls there are, before and after"


def test_only_files_that_are_not_in_their_place_yet_are_written(study: str, tmp_path: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from netsim.studies.sweeps import sweep
seen = []
def hook(event, words):
    if event == "open" and isinstance(words[0], str) and isinstance(words[2], int) and words[2] & 3:
        seen.append(words[0])
sys.addaudithook(hook)
sweep({study!r}, out={str(tmp_path / "out")!r}, seed=range(3), fail=1)
folder = Path({str(tmp_path / "out")!r})
print(*[Path(each).relative_to(folder) for each in seen if Path(each).is_relative_to(folder)], sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    written = [Path(line) for line in done.stdout.split()]
    assert {path.name for path in written} >= {"rounds.csv", "ledger.csv", "summary.json", "settings.json", LOCK}
    for path in written:
        assert path.parts[0].startswith("running-") or path.name.startswith("."), path


@pytest.mark.slow
@posix
def test_workers_that_outlive_a_killed_parent_spoil_nothing(study: str, tmp_path: Path) -> None:
    words: dict[str, Any] = {"seed": range(6), "slow": 1.0}
    flags = ["sweep", study, "--seed", "0:6", "--slow", "1.0", "--jobs", "2", "--out", "out"]
    process = started(flags, tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list((tmp_path / "out").glob("running-*/*~0")):
        time.sleep(0.02)
    process.kill()
    process.wait()
    result = sweep(study, out=tmp_path / "out", jobs=2, **words)
    assert not result.failed
    sweep(study, out=tmp_path / "whole", **words)
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert entries(tmp_path / "out") == ["points", "points.csv", "sweep.json"]


@pytest.mark.slow
@posix
def test_workers_end_with_a_killed_parent_and_hold_nothing(study: str, tmp_path: Path) -> None:
    flags = ["sweep", study, "--seed", "0:2", "--slow", "3600", "--jobs", "4", "--out", "out"]
    process = started(flags, tmp_path)
    try:
        while len(list((tmp_path / "out").glob("running-*/*~0"))) < 2:
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
        # The output reaches its end only when all workers, busy or idle, have closed it.
        process.communicate(timeout=120)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
@posix
def test_interrupted_it_prints_how_to_go_on(study: str, tmp_path: Path) -> None:
    flags = ["sweep", study, "--seed", "0:6", "--slow", "0.3", "--jobs", "2", "--out", "out"]
    process = started(flags, tmp_path)
    while not entries(tmp_path / "out" / "points"):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, output = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output.splitlines()[-1] == (
        "netsim: interrupted; what is done in out is whole, and the same command goes on"
    )
    assert "Traceback" not in output
    assert entries(tmp_path / "out") == ["points", "sweep.json"]
    assert call(*flags, "--jobs", "1", cwd=tmp_path).returncode == 0
    sweep(study, out=tmp_path / "whole", seed=range(6), slow=0.3)
    assert files(tmp_path / "out") == files(tmp_path / "whole")


# --- what cannot be written -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["write", "os.rename"])
def test_a_full_disk_ends_the_sweep_and_not_the_points(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sweep(study, out=tmp_path / "out", seed=[0, 1])
    with monkeypatch.context() as patch:
        patch.setattr(f"netsim.studies.sweeps.point.{what}", full)
        with pytest.raises(Unsaved) as caught:
            sweep(study, out=tmp_path / "out", seed=[0, 1, 2])
    assert str(caught.value) == (
        f"out = {str(tmp_path / 'out')!r}: could not be written (No space left on device); "
        "what is done is whole, and the same command goes on"
    )
    sweep(study, out=tmp_path / "out", seed=[0, 1, 2])
    sweep(study, out=tmp_path / "whole", seed=[0, 1, 2])
    assert files(tmp_path / "out") == files(tmp_path / "whole")


@pytest.mark.slow
@posix
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_system_that_refuses_to_write_is_reported_in_one_line(study: str, tmp_path: Path, jobs: str) -> None:
    # Writing bytecode is disabled, because the size limit would truncate it, and other processes would read it.
    unwritten = "import os, resource, sys; os.environ['PYTHONDONTWRITEBYTECODE'] = '1'; sys.dont_write_bytecode = True"
    limited = f"{unwritten}; resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200)); {MAIN}"
    words = ["sweep", study, "--seed", "0:4", "--jobs", jobs, "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-c", limited, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    # joblib's process may later warn about files that it could not remove, so this may not be the last line.
    line = "could not be written (File too large); what is done is whole, and the same command goes on"
    assert [each.endswith(line) for each in done.stderr.splitlines()].count(True) == 1
    assert "Traceback" not in done.stderr
    assert entries(tmp_path / "out") == ["points", "sweep.json"]
    assert call(*words, "--jobs", "1", cwd=tmp_path).returncode == 0


def test_a_folder_that_cannot_be_written_is_refused(study: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"out = .*: must be a folder that can be written \(Not a directory\)"):
        sweep(study, out=tmp_path / "file" / "out", seed=range(2))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):
        pytest.skip("this user may write everywhere")
    for out in (closed, closed / "out"):
        with pytest.raises(BadInput, match=r"must be a folder that can be written \(Permission denied\)"):
            sweep(study, out=out, seed=range(2))


# --- two at once ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@posix
def test_of_two_sweeps_into_one_folder_the_second_is_refused(study: str, tmp_path: Path) -> None:
    flags = ["sweep", study, "--seed", "0:4", "--slow", "0.8", "--out", "out"]
    first = started(flags, tmp_path)
    while not list((tmp_path / "out").glob("running-*/*")):
        time.sleep(0.02)
    second = call(*flags, cwd=tmp_path)
    assert second.returncode == 2
    assert second.stderr == (
        "netsim: out = 'out': must not be in use by another sweep; if none is running, one was killed: "
        f"remove {str(Path('out', LOCK))!r}\n"
    )
    output, _ = first.communicate(timeout=60)
    assert first.returncode == 0
    assert output.splitlines()[-1] == "out: 4 of 4 points, 0 failed; points.csv"
    assert entries(tmp_path / "out") == ["points", "points.csv", "sweep.json"]
