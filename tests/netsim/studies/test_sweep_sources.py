"""Points of a sweep must share code and data: changes are named and refused, or points run again with ``redo``."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import BadInput, NetsimError
from netsim.scenarios.papers.work import Work, do
from netsim.studies.catalogue import find_study
from netsim.studies.sweeps import sweep
from netsim.studies.terminal import Reporter
from tests.command import call
from tests.netsim.studies.test_files import seal
from tests.netsim.studies.test_sweep import files
from tests.parts import only_with, slow

pytestmark = pytest.mark.usefixtures("all_undrawn")

STUDY = """
import csv
from netsim import Agent, Network, topology
from netsim.scenarios.data.tables import load_table

class Holds(Agent):
    def __init__(self, value):
        self.value = value
    async def run(self):
        async for _ in self.rounds(2):
            await self.broadcast("x", self.value)

def mine(study, *, data: str = "", table: str = "", noted: str = "", log: str = "", fail: bool = False,
         seed: int = 0) -> None:
    total = 0.0
    if data:
        total += float(load_table(data).target.sum())
    for path in filter(None, (table, noted and study.reads(noted))):
        with open(path) as file:
            total += sum(float(row["y"]) for row in csv.DictReader(file))
    if log:
        with open(log, "a") as file:
            file.write("x")
    if fail:
        raise ValueError("out of order")
    graph = topology.ring(3)
    study.run("held", Network(graph, seed=seed), {i: Holds(total) for i in graph}, [lambda agents: {"total": total}], 2)
"""
METHOD = """
from netsim.agents import DKLA

class Mine(DKLA):
    '''As it is.'''
"""
SMALL: dict[str, Any] = {"agents": 5, "features": 6, "rounds": 4, "algorithms": "DKLA"}


@pytest.fixture
def study(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(STUDY)
    return str(tmp_path / "mine.py")


def text_table(path: Path, last: float) -> Path:
    path.write_text("x,y\n" + "".join(f"{i},{i * last}\n" for i in range(60)))
    return path


def written_table(path: Path, last: float) -> Path:
    """Write a table in the format that the file's extension selects."""
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.arange(60.0) * last})
    if path.suffix == ".npz":
        np.savez(path, **{name: frame[name].to_numpy() for name in frame})
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path


def refusal(*words: Any, **given: Any) -> str:
    with pytest.raises(NetsimError) as caught:
        sweep(*words, **given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def recorded(point: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((point / "settings.json").read_text())
    return found


# --- what is recorded -------------------------------------------------------------------------------------------------


def test_every_point_records_what_it_came_of(study: str, tmp_path: Path) -> None:
    data, table = text_table(tmp_path / "data.csv", 1.0), text_table(tmp_path / "table.csv", 2.0)
    noted = text_table(tmp_path / "noted.csv", 3.0)
    given = {"data": str(data), "table": str(table), "noted": str(noted)}
    assert not sweep(study, out=tmp_path / "out", seed=[0, 1], jobs=2, **given).failed
    for seed in (0, 1):
        settings = recorded(tmp_path / "out" / "points" / f"seed={seed}")
        assert settings["file_sha256"] == sha256(STUDY.encode()).hexdigest()
        assert settings["files_sha256"] == {
            str(path): sha256(path.read_bytes()).hexdigest() for path in (data, noted, table)
        }
        assert len(settings["source_sha256"]["netsim"]) == 64
        assert settings["netsim"] == netsim.__version__


def test_a_single_run_records_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.py").write_text(METHOD)
    text_table(tmp_path / "houses.csv", 1.0)
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    found = find_study("coke").execute(**SMALL, data="houses", method=str(tmp_path / "own.py"))
    settings = recorded(found.save(tmp_path / "out"))
    assert settings["files_sha256"] == {
        "$NETSIM_DATA/houses.csv": sha256((tmp_path / "houses.csv").read_bytes()).hexdigest(),
        str(tmp_path / "own.py"): sha256(METHOD.encode()).hexdigest(),
    }


def test_what_a_study_writes_is_nothing_that_it_read(study: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("begun\n")
    sweep(study, out=tmp_path / "out", seed=range(3), log=str(log))
    assert recorded(tmp_path / "out" / "points" / "seed=2")["files_sha256"] == {}
    sweep(study, out=tmp_path / "out", seed=range(4), log=str(log))
    assert log.read_text() == "begun\nxxxx"


# --- what has changed -------------------------------------------------------------------------------------------------


def changed_file(study: str, folder: Path) -> tuple[str, dict[str, Any], Path, Callable[[], object]]:
    return study, {}, Path(study), lambda: Path(study).write_text(STUDY.replace("0.0", "1.0"))


def changed_method(study: str, folder: Path) -> tuple[str, dict[str, Any], Path, Callable[[], object]]:
    path = folder / "own.py"
    path.write_text(METHOD)
    return "coke", SMALL | {"method": str(path)}, path, lambda: path.write_text(METHOD.replace("is", "was"))


def changed_table(name: str) -> Callable[[str, Path], tuple[str, dict[str, Any], Path, Callable[[], object]]]:
    def change(study: str, folder: Path) -> tuple[str, dict[str, Any], Path, Callable[[], object]]:
        path = written_table(folder / name, 1.0)
        return "coke", SMALL | {"data": str(path)}, path, lambda: written_table(path, 2.0)

    change.__name__ = name
    return change


def changed_parameter(study: str, folder: Path) -> tuple[str, dict[str, Any], Path, Callable[[], object]]:
    path = text_table(folder / "table.csv", 1.0)
    return study, {"table": str(path)}, path, lambda: text_table(path, 2.0)


def changed_noted(study: str, folder: Path) -> tuple[str, dict[str, Any], Path, Callable[[], object]]:
    path = text_table(folder / "table.csv", 1.0)
    return study, {"noted": str(path)}, path, lambda: text_table(path, 2.0)


CHANGES = [
    changed_file,
    changed_method,
    *map(changed_table, ("rows.csv", "rows.csv.gz", "rows.npz")),
    changed_parameter,
    changed_noted,
]


@pytest.mark.parametrize(
    ("change", "jobs"),
    # Workers record files in the same way whatever changes, so one process is enough for most cases.
    [
        *((each, 1) for each in CHANGES),
        pytest.param(changed_table("rows.parquet"), 1, marks=only_with("pyarrow")),
        slow(changed_file, 2),
        slow(changed_noted, 2),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_a_changed_file_is_named_and_its_points_run_anew_on_request(
    change: Callable[..., Any], jobs: int, study: str, tmp_path: Path
) -> None:
    study, given, path, edit = change(study, tmp_path)
    out = tmp_path / "out"
    sweep(study, out=out, seed=[0, 1], jobs=jobs, **given)
    before = files(out)
    edit()
    for seeds in ([0, 1, 2], [0, 1]):
        expected = refusal(study, out=out, seed=seeds, jobs=jobs, **given)
        assert expected.startswith(
            f"out = {str(out)!r}: must hold points that ran with the current code and data; {path} "
        )
        assert "changed since 2 of its 2 points ran" in expected
        assert "--redo" in expected
    assert files(out) == before, "what is refused changes nothing"
    sweep(study, out=out, seed=[0, 1, 2], jobs=jobs, redo=True, **given)
    sweep(study, out=tmp_path / "whole", seed=[0, 1, 2], jobs=jobs, **given)
    assert files(out) == files(tmp_path / "whole")
    # All points now have the same version, so the sweep can be extended.
    sweep(study, out=out, seed=[0, 1, 2, 3], jobs=jobs, **given)


def test_a_file_that_is_the_same_though_touched_moved_or_linked_is_no_change(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    path = text_table(tmp_path / "data" / "rows.csv", 1.0)
    monkeypatch.setenv("NETSIM_DATA", str(path.parent))
    log, given = tmp_path / "log", {"data": "rows", "log": str(tmp_path / "log")}
    sweep(study, out=tmp_path / "out", seed=[0, 1], **given)
    os.utime(path, (0, 0))
    Path(study).touch()
    sweep(study, out=tmp_path / "out", seed=[0, 1], **given)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "rows.csv").symlink_to(shutil.move(path, tmp_path / "moved.csv"))
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path / "elsewhere"))
    sweep(study, out=tmp_path / "out", seed=[0, 1], **given)
    assert log.read_text() == "xx", "nothing ran again"


def test_only_points_of_what_changed_run_anew(study: str, tmp_path: Path) -> None:
    one, two = (str(text_table(tmp_path / name, 1.0)) for name in ("one.csv", "two.csv"))
    log = tmp_path / "log"
    given = {"data": [one, two], "seed": [0, 1], "log": str(log)}
    sweep(study, out=tmp_path / "out", **given)
    text_table(tmp_path / "two.csv", 5.0)
    assert f"{two} changed since 2 of its 4 points ran" in refusal(study, out=tmp_path / "out", **given)
    log.unlink()
    found = sweep(study, out=tmp_path / "out", redo=True, **given)
    assert log.read_text() == "xx"
    totals = found.table.groupby("data")["total"].first()
    assert totals[two] == 5 * totals[one]


def test_a_file_that_went_is_named(study: str, tmp_path: Path) -> None:
    path = text_table(tmp_path / "table.csv", 1.0)
    sweep(study, out=tmp_path / "out", seed=[0, 1], table=str(path))
    path.unlink()
    assert f"{path} changed since 2 of its 2" in refusal(study, out=tmp_path / "out", seed=[0, 1], table=str(path))


@pytest.mark.slow
def test_points_of_a_netsim_with_other_source_are_refused(tmp_path: Path) -> None:
    """The points come from a copy of the package in which one line was changed."""
    shutil.copytree(Path(netsim.__file__).parent, tmp_path / "netsim", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "mine.py").write_text(STUDY)

    def command(*flags: str) -> "subprocess.CompletedProcess[str]":
        words = [sys.executable, "-m", "netsim", "sweep", "mine.py", "--out", "out", *flags]
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert command("--seed", "0:2").returncode == 0
    with (tmp_path / "netsim" / "scenarios" / "coke.py").open("a") as file:
        file.write("# another version\n")
    done = command("--seed", "0:3")
    assert done.returncode == 2
    assert "must hold points that ran with the current code and data; the source of netsim changed since" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert command("--seed", "0:3", "--redo").returncode == 0
    assert len({recorded(each)["source_sha256"]["netsim"] for each in (tmp_path / "out" / "points").iterdir()}) == 1


def test_failures_are_of_a_version_too(study: str, tmp_path: Path) -> None:
    out, words = tmp_path / "out", {"seed": [0, 1], "fail": True}
    assert len(sweep(study, out=out, **words).failed) == 2
    Path(study).write_text(STUDY.replace("if fail:", "if fail and seed:"))
    assert f"{study} changed since 2 of its 2 points ran" in refusal(study, out=out, **words)
    assert list(sweep(study, out=out, retry=True, **words).failed) == ["seed=1"]
    Path(study).write_text(STUDY.replace("if fail:", "if False:"))
    assert "changed since 2 of its 2" in refusal(study, out=out, retry=False, **words)
    assert not sweep(study, out=out, redo=True, **words).failed


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_change_while_it_runs_is_reported_at_the_end(jobs: int, study: str, tmp_path: Path) -> None:
    edits = (
        "from pathlib import Path\nif seed == 1:\n        Path(__file__).write_text(Path(__file__).read_text() + '#')\n"
    )
    Path(study).write_text(STUDY.replace("total = 0.0\n", "total = 0.0\n    " + edits.replace("\nif", "\n    if"), 1))
    with pytest.raises(NetsimError) as caught:
        raise AssertionError(sweep(study, out=tmp_path / "out", seed=range(8), jobs=jobs).failed)
    expected = str(caught.value)
    assert f"must hold points of one version; {study} changed while the sweep ran (--redo" in expected
    assert not (tmp_path / "out" / "points.csv").exists()


def test_the_command_reports_it_in_one_line(study: str, tmp_path: Path) -> None:
    assert call("sweep", "mine.py", "--seed", "0:2", "--out", "out", cwd=tmp_path).returncode == 0
    Path(study).write_text(STUDY + "\n")
    done = call("sweep", "mine.py", "--seed", "0:3", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "netsim: out = 'out': must hold points that ran with the current code and data; mine.py changed since 2 of its "
        "2 points ran (--redo reruns them; choose a new folder to keep them)\n"
    )
    assert call("sweep", "mine.py", "--seed", "0:3", "--out", "out", "--redo", cwd=tmp_path).returncode == 0


def test_a_study_of_sweeps_refuses_and_redoes(tmp_path: Path) -> None:
    path = text_table(tmp_path / "rows.csv", 1.0)
    quiet, work = Reporter(quiet=True), Work("one", "coke", {**SMALL, "data": str(path)})
    do([work], tmp_path / "sweeps", range(2), 1, quiet)
    text_table(path, 3.0)
    with pytest.raises(BadInput, match=rf"{path} changed since 2 of its 2 points ran \(--redo"):
        do([work], tmp_path / "sweeps", range(2), 1, quiet)
    do([work], tmp_path / "sweeps", range(2), 1, quiet, redo=True)
    do([work], tmp_path / "sweeps", range(3), 1, quiet)


# --- unfinished -------------------------------------------------------------------------------------------------------


def test_an_unfinished_sweep_is_called_so(study: str, tmp_path: Path) -> None:
    sweep(study, out=tmp_path / "out", seed=range(4))
    for command in ("compare", "verify"):
        assert "unfinished" not in call(command, "out", cwd=tmp_path).stdout
    shutil.rmtree(tmp_path / "out" / "points" / "seed=2")
    shutil.rmtree(tmp_path / "out" / "points" / "seed=3")
    for command in ("compare", "verify"):
        done = call(command, "out", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "out is unfinished: 2 of 4 points are missing" in done.stdout.splitlines()
    for seed in (0, 1):
        shutil.rmtree(tmp_path / "out" / "points" / f"seed={seed}")
    for command in ("compare", "verify"):
        done = call(command, "out", cwd=tmp_path)
        assert done.returncode == 2
        assert "out is unfinished: 4 of 4 points are missing" in done.stdout + done.stderr


def test_what_failed_is_missing_too(study: str, tmp_path: Path) -> None:
    sweep(study, out=tmp_path / "out", seed=[0, 1], fail=[False, True])
    done = call("compare", "out", cwd=tmp_path)
    assert "out is unfinished: 2 of 4 points are missing (2 of them failed)" in done.stdout.splitlines()


@pytest.mark.parametrize("digest", [[1], {"a": 1}, None, 7])
def test_a_digest_that_was_edited_is_no_traceback(digest: Any, tmp_path: Path) -> None:
    netsim.studies.sweep("coke", out=tmp_path / "out", seed=[1, 2], **SMALL)
    place = tmp_path / "out" / "points" / "seed=1"
    settings = json.loads((place / "settings.json").read_text())
    settings["source_sha256"]["a package that has gone"] = digest
    (place / "settings.json").write_text(json.dumps(settings))
    seal(place)
    done = netsim.studies.sweep("coke", out=tmp_path / "out", seed=[1, 2], **SMALL)
    assert not done.failed
    settings["files_sha256"]["a file that has gone"] = digest
    (place / "settings.json").write_text(json.dumps(settings))
    seal(place)
    with pytest.raises(BadInput, match="a file that has gone changed since 1 of its 2 points ran"):
        netsim.studies.sweep("coke", out=tmp_path / "out", seed=[1, 2], **SMALL)


@pytest.mark.parametrize("read", ["load", "verify", "show", "compare"])
def test_a_folder_that_holds_another_points_run_is_refused(tmp_path: Path, read: str) -> None:
    """Without this check, exchanging the folders of two points would give each seed the results of the other."""
    folder = tmp_path / "sweep"
    sweep("averaging", out=folder, agents=5, seed=[0, 1], jobs=1, reporter=Reporter(quiet=True))
    points = folder / "points"
    (points / "seed=0").rename(tmp_path / "kept")
    (points / "seed=1").rename(points / "seed=0")
    (tmp_path / "kept").rename(points / "seed=1")
    output = r"seed=0'?: must hold the run of seed=0, but holds that of seed=1"
    if read == "load":
        with pytest.raises(BadInput, match=output):
            netsim.results.load(folder)
        return
    done = call(read, str(folder), *(("--metric", "delivered") if read == "compare" else ()), cwd=tmp_path)
    assert done.returncode == 2
    assert re.search(output, done.stderr)
