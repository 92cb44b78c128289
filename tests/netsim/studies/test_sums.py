"""SHA256SUMS: readers of a run folder refuse changed files; summary.json is the same with either core."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netsim import BadInput, results
from netsim.studies.catalogue import find_study
from netsim.studies.folder import is_whole, load, read_part
from netsim.studies.sums import NAME, digest_of, read_sums, write_sums
from netsim.studies.sweeps import sweep
from netsim.util.compiled import is_built
from tests.command import call, on_the_other_core

pytestmark = pytest.mark.usefixtures("all_undrawn")

SMALL: dict[str, Any] = {"agents": 5, "radius": 0.9}
FLAGS = ["--agents", "5", "--radius", "0.9"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find_study("averaging").execute(**SMALL).save(tmp_path_factory.mktemp("whole") / "out")


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "out")
    return tmp_path / "out"


def change_digit(path: Path) -> None:
    """Change one digit of a file, which keeps its length and stays readable."""
    data = path.read_bytes()
    place = max(data.rfind(digit) for digit in (b"1", b"2", b"3", b"4"))
    path.write_bytes(data[:place] + bytes([data[place] + 1]) + data[place + 1 :])


def test_each_file_has_a_line_and_the_summary_no_sizes(folder: Path) -> None:
    lines = (folder / NAME).read_text().splitlines()
    names = sorted(each.name for each in folder.iterdir() if each.name != NAME)
    assert lines == [f"{digest_of(folder / name)}  {name}" for name in names]
    assert {"settings.json", "rounds.csv", "ledger.csv", "summary.json", "report.html"} <= {*names}
    assert "bytes" not in json.loads((folder / "summary.json").read_text())


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="takes sha256sum")
def test_sha256sum_reads_it(folder: Path) -> None:
    words = ["sha256sum", "--strict", "-c", NAME]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "summary.json: OK\n" in done.stdout


@pytest.mark.parametrize("name", ["rounds.csv", "settings.json", "summary.json", "ledger.csv"])
def test_a_changed_digit_is_refused_by_all_that_reads_the_file(name: str, folder: Path, tmp_path: Path) -> None:
    change_digit(folder / name)
    readers: list[Callable[[], Any]] = [
        lambda: load(folder),
        lambda: results.load(folder),
        lambda: results.load(folder, rounds=True),
        lambda: results.compare(folder),
    ]
    for read in readers:
        with pytest.raises(BadInput, match=rf"^[^\n]*{name} has changed since it was written[^\n]*$"):
            read()
    for words in (("show", "out"), ("compare", "out"), ("verify", "out"), ("show", "out", "--methods-section")):
        done = call(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert f"{name} has changed since it was written" in done.stderr
    assert not is_whole(folder)


def test_a_figure_counts_for_what_shows_all_and_not_for_what_reads_numbers(folder: Path) -> None:
    change_digit(folder / "spread.png")
    assert len(results.load(folder)) == 1
    with pytest.raises(BadInput, match=r"spread\.png has changed since it was written"):
        load(folder)
    (folder / "spread.png").unlink()
    with pytest.raises(BadInput, match=r"it has no spread\.png"):
        results.load(folder)


def test_a_table_of_links_is_checked_when_it_is_read(folder: Path) -> None:
    change_digit(folder / "ledger.csv")
    with pytest.raises(BadInput, match=r"must be as it was written; ledger\.csv has changed"):
        read_part(folder, "ledger", "averaging")


def test_a_changed_trace_is_refused_before_a_replay(tmp_path: Path) -> None:
    folder = find_study("averaging").execute(**SMALL, trace=True).save(tmp_path / "out")
    (name,) = (each.name for each in folder.glob("trace-*.npz"))
    # A zip archive may end with a comment, so numpy could still read the changed file.
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    assert len(results.load(folder)) == 1
    for words in (("replay", "out"), ("export", "out", "--format", "json"), ("verify", "out")):
        done = call(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert f"{name} has changed since it was written" in done.stderr
        assert done.stderr.count("\n") == 1


def test_files_that_are_added_are_ignored(folder: Path, tmp_path: Path) -> None:
    (folder / "thoughts.txt").write_text("mine")
    (folder / "more").mkdir()
    load(folder)
    assert call("show", "out", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x\n", "SHA256SUMS, line 1: must be a SHA-256, two blanks and a file's name"),
        (f"{'0' * 64}  ../summary.json\n", "SHA256SUMS, line 1: must be a SHA-256"),
        ("", "SHA256SUMS must have a line for settings.json"),
        (None, "it has no SHA256SUMS"),
    ],
)
def test_sums_that_are_none_are_refused(text: str | None, wanted: str, folder: Path) -> None:
    if text is None:
        (folder / NAME).unlink()
    else:
        (folder / NAME).write_text(text)
    with pytest.raises(BadInput, match=wanted):
        load(folder)


def test_half_a_folder_is_never_whole(folder: Path, tmp_path: Path) -> None:
    """Files are added in the order in which a run moves them into the folder."""
    names = sorted(each.name for each in folder.iterdir())
    names = [*(name for name in names if name != NAME), NAME]
    (tmp_path / "half").mkdir()
    for name in names[:-1]:
        shutil.copy(folder / name, tmp_path / "half" / name)
        with pytest.raises(BadInput):
            load(tmp_path / "half")
    shutil.copy(folder / NAME, tmp_path / "half" / NAME)
    load(tmp_path / "half")


def test_a_damaged_point_of_a_sweep_runs_again(tmp_path: Path) -> None:
    sweep("averaging", out=tmp_path / "sweep", seed=range(2), **{name: [value] for name, value in SMALL.items()})
    point = next((tmp_path / "sweep" / "points").iterdir())
    before = (point / "rounds.csv").read_bytes()
    change_digit(point / "rounds.csv")
    assert not is_whole(point)
    sweep("averaging", out=tmp_path / "sweep", seed=range(2), **{name: [value] for name, value in SMALL.items()})
    assert is_whole(point)
    assert (point / "rounds.csv").read_bytes() == before


def test_a_summary_is_the_same_to_the_byte_on_either_core(folder: Path, tmp_path: Path) -> None:
    if not is_built("core._core"):
        pytest.skip("the compiled core is not built")
    on_the_other_core(
        f"""
        import os, sys
        os.chdir({str(tmp_path)!r})
        sys.argv = {["netsim", "run", "averaging", *FLAGS, "--out", "there"]}
        from netsim.studies.cli import main
        main()
        """
    )
    here = call("run", "averaging", *FLAGS, "--out", "here", cwd=tmp_path)
    assert here.returncode == 0
    cores = [json.loads((tmp_path / each / "settings.json").read_text())["core"] for each in ("here", "there")]
    assert {*cores} == {"python", "compiled"}
    for name in ("summary.json", "rounds.csv", "ledger.csv"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes(), name


def test_sums_of_a_folder_are_read_as_they_were_written(tmp_path: Path) -> None:
    for name in ("a b.csv", "ü.png", " x", "*y"):
        (tmp_path / name).write_text(name)
    write_sums(tmp_path)
    assert read_sums(tmp_path) == {name: digest_of(tmp_path / name) for name in (" x", "*y", "a b.csv", "ü.png")}
