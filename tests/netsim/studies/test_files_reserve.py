"""A run folder's name: reserved before the run, protected from other runs, freed after a killed run."""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from netsim import BadInput
from netsim.studies.folder import load
from netsim.studies.reserve import LOCK, PARTS, reserve, reserve_next
from netsim.studies.study import Study

ROOT = os.name == "posix" and os.geteuid() == 0


def empty_study() -> Study:
    return Study("nothing", {})


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system with 64 KiB of space."""
    point = tmp_path / "disk"
    point.mkdir()
    if not ROOT or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", point], check=False).returncode:
        pytest.skip("needs the right to mount")
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", point], check=True)


def fill(disk: Path) -> None:
    with (disk / "big").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- what is reserved -------------------------------------------------------------------------------------------------


def test_a_new_folder_appears_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    with reserve(out) as place:
        assert not out.exists()
        (place.parts / "x").write_text("x")
        place.publish()
    assert left(tmp_path / "a") == ["b"]
    assert left(out) == ["x"]


def test_what_is_not_published_leaves_nothing_not_even_the_folders_above(tmp_path: Path) -> None:
    with reserve(tmp_path / "a" / "b" / "c") as place:
        (place.parts / "x").write_text("x")
    assert left(tmp_path) == []


def test_an_empty_folder_is_filled_and_stays_the_one_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir(mode=0o750)
    before = out.stat()
    assert empty_study().save(out) == out
    assert (out.stat().st_ino, out.stat().st_mode) == (before.st_ino, before.st_mode)
    assert left(out) == ["SHA256SUMS", "ledger.csv", "report.html", "rounds.csv", "settings.json", "summary.json"]
    load(out)


def test_a_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    empty_study().save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    load(tmp_path / "real")


def test_a_mount_point_is_filled(disk: Path) -> None:
    empty_study().save(disk)
    load(disk)


def test_the_current_folder_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    empty_study().save(".")
    load(tmp_path)
    load(".")


@pytest.mark.parametrize("folder", ["empty", "new"])
def test_an_umask_counts(folder: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    before = os.umask(0o027)
    try:
        empty_study().save(tmp_path / folder)
    finally:
        os.umask(before)
    assert (tmp_path / folder / "rounds.csv").stat().st_mode & 0o777 == 0o640
    if folder == "new":
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o750


# --- what is refused --------------------------------------------------------------------------------------------------


def refusal(out: str | Path) -> str:
    with pytest.raises(BadInput) as caught:
        reserve(out)
    message = str(caught.value)
    assert message.startswith(f"out = {str(out)!r}: must be ")
    assert "\n" not in message
    return message


def test_what_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("mine")
    (tmp_path / "nowhere").symlink_to("missing")
    (tmp_path / "round").symlink_to("round")
    for name in ("file", "full"):
        assert refusal(tmp_path / name).endswith("a new or an empty folder")
    for name in ("nowhere", "round"):
        assert "a link that leads nowhere" in refusal(tmp_path / name)
    assert "written" in refusal(tmp_path / "file" / "below")
    assert "written" in refusal(tmp_path / ("x" * 300))
    assert "written" in refusal("a\0b")
    assert "folder's name" in refusal("")
    assert left(tmp_path) == ["file", "full", "nowhere", "round"]
    assert left(tmp_path / "full") == ["x"]


def test_what_cannot_be_written_is_refused_before_the_run(disk: Path) -> None:
    (disk / "empty").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for out in (disk / "new", disk / "empty"):
        assert "Read-only file system" in refusal(out)


def test_a_full_disk_is_refused_before_the_run(disk: Path) -> None:
    fill(disk)
    assert "No space left on device" in refusal(disk / "new")
    assert left(disk) == ["big"]


@pytest.mark.skipif(not ROOT, reason="needs the right to become another user")
@pytest.mark.parametrize("umask", [0o022, 0o777])
def test_missing_rights_are_refused_before_the_run(umask: int, tmp_path: Path) -> None:
    for folder in (*reversed(tmp_path.parents), tmp_path):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    os.chown(tmp_path / "ours", 65534, 65534)
    before = os.umask(umask)
    os.seteuid(65534)
    try:
        assert "Permission denied" in refusal(tmp_path / "theirs" / "new")
        assert "Permission denied" in refusal(tmp_path / "theirs")
        if umask == 0o777:
            assert "Permission denied" in refusal(tmp_path / "ours" / "new")
    finally:
        os.seteuid(0)
        os.umask(before)
    assert left(tmp_path / "ours") == []


def test_a_folder_that_has_gone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "written" in refusal("out")
    with pytest.raises(BadInput, match=r"^out = 'runs/x-1': must be a folder that can be written"):
        reserve_next("x")
    with reserve(tmp_path / "out"):
        pass


def test_a_fresh_disk_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    empty_study().save(tmp_path)
    load(tmp_path)


# --- others -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["empty", "new"])
def test_a_reserved_folder_is_refused_to_others(folder: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with reserve(tmp_path / folder) as place:
        assert "no other run writes" in refusal(tmp_path / folder)
        (place.parts / "x").write_text("x")
        place.publish()
    assert "a new or an empty folder" in refusal(tmp_path / folder)


def test_default_names_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with reserve_next("x") as first, reserve_next("x") as second, reserve_next("y") as third:
        assert [each.shown for each in (first, second, third)] == ["runs/x-1", "runs/x-2", "runs/y-1"]
        second.publish()
    with reserve_next("x") as again:
        assert again.shown == "runs/x-1"
    assert left(tmp_path / "runs") == ["x-2"]


def _reserve_some(folder: str, count: int) -> None:
    os.chdir(folder)
    for _ in range(count):
        with reserve_next("x") as place:
            (place.parts / "who").write_text(str(os.getpid()))
            place.publish()


@pytest.mark.slow
def test_processes_that_start_at_once_get_folders_of_their_own(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_reserve_some, args=(str(tmp_path), 20)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sorted(left(tmp_path / "runs")) == sorted(f"x-{number}" for number in range(1, 81))
    written = [path.read_text() for path in (tmp_path / "runs").glob("x-*/who")]
    assert sorted(written.count(pid) for pid in set(written)) == [20] * 4


def test_a_folder_that_came_meanwhile_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        with reserve(tmp_path / name) as place:
            (place.parts / "x").write_text("ours")
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "x").write_text("theirs")
            with pytest.raises(OSError):
                place.publish()
        assert left(tmp_path / name) == ["x"]
        assert (tmp_path / name / "x").read_text() == "theirs"


# --- killed runs ------------------------------------------------------------------------------------------------------

_HOLD = """
import sys
from netsim.studies.reserve import reserve
with reserve(sys.argv[1]) as place:
    (place.parts / "x").write_text("x")
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(out: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize("inside", [False, True])
def test_a_killed_run_is_swept_by_the_next_and_a_living_one_is_not(inside: bool, tmp_path: Path) -> None:
    living = hold(tmp_path / "living")
    if inside:
        (tmp_path / "killed").mkdir()
    killed = hold(tmp_path / "killed")
    killed.kill()
    killed.communicate()
    room, stem = (tmp_path / "killed", "") if inside else (tmp_path, ".killed")
    assert {stem + LOCK, stem + PARTS} <= set(left(room))
    with reserve(tmp_path / "killed") if inside else reserve(tmp_path / "another"):
        assert (tmp_path / f".living{PARTS}" / "x").is_file()
        if not inside:
            assert not (room / (stem + LOCK)).exists()
            assert not (room / (stem + PARTS)).exists()
    living.communicate()
    assert left(tmp_path) == (["killed"] if inside else [])
    assert not inside or left(room) == []


def test_what_looks_abandoned_but_is_of_another_host_stays(tmp_path: Path) -> None:
    (tmp_path / f".x{LOCK}").write_text("another-host")
    (tmp_path / f".x{PARTS}").mkdir()
    with reserve(tmp_path / "y"):
        pass
    assert f".x{LOCK}" in refusal(tmp_path / "x")
    assert left(tmp_path) == [f".x{LOCK}", f".x{PARTS}"]


def test_a_lock_that_is_none_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("mine")
    os.mkfifo(tmp_path / f".a{LOCK}")
    (tmp_path / f".b{LOCK}").symlink_to("mine")
    (tmp_path / f".c{LOCK}").mkdir()
    (tmp_path / f".d{LOCK}").write_text("")
    (tmp_path / f".d{PARTS}").symlink_to("mine")
    with reserve(tmp_path / "out") as place:
        place.publish()
    assert (tmp_path / "mine" / "x").read_text() == "mine"
    assert not (tmp_path / f".d{LOCK}").exists()


@pytest.mark.slow
def test_a_run_killed_while_it_moves_its_files_is_swept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    killed = hold(out)
    empty_study().save(tmp_path / "model")
    for name in left(tmp_path / "model"):
        # All files except SHA256SUMS, the last one, have been moved.
        os.replace(tmp_path / "model" / name, (out / PARTS if name == "SHA256SUMS" else out) / name)
    killed.kill()
    killed.communicate()
    with pytest.raises(BadInput):
        load(out)
    empty_study().save(out)
    load(out)
    assert left(out) == ["SHA256SUMS", "ledger.csv", "report.html", "rounds.csv", "settings.json", "summary.json"]


_SAVE_AND_KILL = """
import json, os, random, signal, sys, time
from pathlib import Path
from netsim import BadInput
from netsim.studies.reserve import reserve
from netsim.studies.folder import load
from netsim.studies.study import Study

def study():
    made = Study("x", {})
    made.notes = ["y" * 50_000] * 3
    return made

def is_whole(folder):
    try:
        return len(load(folder)["summary"]["notes"]) == 3
    except BadInput:
        return False

room, inside, draw = Path(sys.argv[1]), sys.argv[2] == "True", random.Random(1)
study().save(room / "warm")
found = {"whole": 0, "swept": 0}
for number in range(60):
    here = room / str(number)
    out = here / "out"
    (out if inside else here).mkdir(parents=True)
    child = os.fork()
    if not child:
        study().save(out)
        os._exit(0)
    time.sleep(draw.uniform(0, 0.04))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found["swept"] += any(here.rglob("*.netsim-*"))
    if is_whole(out):
        found["whole"] += 1
        study().save(here / "another")
        if inside:
            try:
                reserve(out)
            except BadInput:
                pass
    else:
        assert inside or not out.exists(), "half a folder"
        # It is as good as empty.
        study().save(out)
    assert is_whole(out)
    assert not any(here.rglob("*.netsim-*")), "not swept"
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("inside", [False, True])
def test_at_any_moment_of_a_kill_a_folder_is_whole_or_no_run_folder(inside: bool, tmp_path: Path) -> None:
    words = [sys.executable, "-W", "ignore", "-c", _SAVE_AND_KILL, str(tmp_path), str(inside)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["swept"], "some were killed while they saved"
