"""Sweeps: each point runs once, the table does not depend on how it was computed, failed points, killed sweeps."""

import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from netsim import BadInput, results
from netsim.studies.catalogue import Parameter, find_study
from netsim.studies.cli import _listed
from netsim.studies.sweeps import sweep
from netsim.studies.sweeps.grid import flags_of, grid, values_of
from tests.command import call
from tests.parts import only_with

STUDY = """
import os, signal, time
from netsim import Agent, Link, Network, topology

class Counts(Agent):
    async def run(self):
        self.heard = 0
        async for _ in self.rounds(5):
            await self.broadcast("x", 1)
            self.heard += len(await self.collect())

def mine(study, *, agents: int = 3, loss: float = 0.0, medium: str = "wires", deaf: bool = False, seed: int = 0,
         slow: float = 0.0, fail: int = -1, hog: int = -1, kill: int = -1, log: str = "") -> None:
    if log:
        with open(log, "a") as file:
            file.write(f"{loss} {seed}\\n")
    if seed == fail:
        raise ValueError("seed of\\ntrouble")
    if seed == hog:
        bytearray(2**31)
    if seed == kill:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(slow)
    graph = topology.ring(agents)
    network = Network(graph, Link(loss=loss), medium=medium, seed=seed)
    study.run("counts", network, {i: Counts() for i in graph}, [heard], 5)

def heard(agents):
    return sum(agent.heard for agent in agents.values())
"""


@pytest.fixture
def study(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(STUDY)
    return str(tmp_path / "mine.py")


def files(folder: Path) -> dict[str, bytes]:
    """Return the files in a sweep's folder, keyed by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# --- grids ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        ({"seed": range(5), "loss": [0.0, 0.25]}, "--seed 0:5 --loss 0.0,0.25"),
        ({"seed": [3, 4, 5, 9, 1, 2]}, "--seed 3:6,9,1,2"),
        ({"deaf": [True, False], "medium": ["a b", "c,d"]}, "--deaf --no-deaf --medium 'a b' --medium c,d"),
    ],
)
def test_values_are_shown_as_the_flags_that_list_them(values: dict[str, Any], flags: str, study: str) -> None:
    chosen = grid(find_study(study), values)
    assert flags_of(chosen.values) == flags
    assert grid(find_study(study), _listed(find_study(study), tuple(shlex.split(flags)))) == chosen


def test_what_is_left_open_is_shown_as_none() -> None:
    chosen = grid(find_study("coke"), {"bits": [None, 3], "sigma": None})
    assert flags_of(chosen.values) == "--bits none,3"


@pytest.mark.parametrize(
    ("kind", "optional", "texts", "values"),
    [
        (int, False, ["0:4"], [0, 1, 2, 3]),
        (int, False, ["0:10:5", "7"], [0, 5, 7]),
        (int, True, ["none,4"], [None, 4]),
        (float, False, ["0,0.1, 1e-3"], [0.0, 0.1, 1e-3]),
        (bool, False, ["true", "false"], [True, False]),
        (str, False, ["CTA,DKLA", "COKE"], ["CTA,DKLA", "COKE"]),
    ],
)
def test_what_flags_list(kind: type, optional: bool, texts: list[str], values: list[Any]) -> None:
    assert values_of(Parameter("x", kind, optional, None, ""), texts) == values


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (int, "0:", "x = '0:': must be whole numbers, or a range such as 0:20, with commas between"),
        (int, "1.5", "must be whole numbers"),
        (int, "none", "must be whole numbers"),
        (float, "a", "x = 'a': must be numbers, with commas between"),
        (float, "", "must be numbers"),
        (bool, "maybe", "must be true or false"),
    ],
)
def test_what_flags_cannot_list(kind: type, text: str, expected: str) -> None:
    with pytest.raises(BadInput) as caught:
        values_of(Parameter("x", kind, False, None, ""), [text])
    assert expected in str(caught.value)


def test_points_are_all_combinations_each_once(study: str) -> None:
    found = grid(find_study(study), {"loss": [0.1, 0.0, 0.1], "agents": 4, "seed": range(2)})
    assert [point.name for point in found.points()] == [
        "loss=0.1,seed=0",
        "loss=0.1,seed=1",
        "loss=0.0,seed=0",
        "loss=0.0,seed=1",
    ]
    assert found.points()[1].settings == {"loss": 0.1, "agents": 4, "seed": 1}


def test_names_are_names_of_folders(study: str) -> None:
    found = grid(find_study(study), {"medium": ["a/../b", "a/../c", "x" * 300, "x" * 301, "ä"]})
    names = [point.name for point in found.points()]
    assert len({name.lower() for name in names}) == 5
    assert all("/" not in name and len(name) < 130 and name.isascii() for name in names)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"lss": 0.1}, "parameter = 'lss': must be one of"),
        ({"loss": []}, "loss = []: must be a value, or several"),
        ({"loss": ["a"]}, "loss = 'a': must be a number"),
        ({"agents": [2.5]}, "agents = 2.5: must be a whole number"),
        ({"jobs": 0}, "jobs = 0: must be a whole number >= 1"),
        ({"timeout": -1.0}, "timeout = -1.0: must be"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_runs(
    study: str, given: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput) as caught:
        sweep(study, out=tmp_path / "out", **given)
    assert expected in str(caught.value)
    assert not (tmp_path / "out").exists()


# --- sweeps -----------------------------------------------------------------------------------------------------------


def test_one_job_and_two_give_the_same_files(study: str, tmp_path: Path) -> None:
    one = sweep(study, out=tmp_path / "one", loss=[0.0, 0.3], seed=range(3))
    two = sweep(study, out=tmp_path / "two", loss=[0.0, 0.3], seed=range(3), jobs=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    pd.testing.assert_frame_equal(one.table, two.table)
    assert list(one.table["heard"][:3]) == [30, 30, 30]
    assert (one.table["heard"][3:] < 30).all()
    alone = find_study(study).execute(loss=0.3, seed=2)
    assert one.table["trace_hash"].iloc[-1] == alone.runs["counts"].trace_hash


def test_what_is_done_is_not_done_again_and_more_may_be_asked_for(study: str, tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    sweep(study, out=tmp_path / "out", loss=[0.0, 0.3], seed=range(2), log=log)
    before = Path(log).read_text()
    sweep(study, out=tmp_path / "out", loss=[0.0, 0.3], seed=range(2), log=log)
    assert Path(log).read_text() == before
    more = sweep(study, out=tmp_path / "out", loss=[0.0, 0.3], seed=range(3), log=log)
    assert Path(log).read_text().splitlines()[4:] == ["0.0 2", "0.3 2"]
    assert len(more.table) == 6


def test_a_folder_cut_short_is_done_again(study: str, tmp_path: Path) -> None:
    sweep(study, out=tmp_path / "out", seed=range(2))
    whole = files(tmp_path / "out")
    (tmp_path / "out" / "points" / "seed=1" / "rounds.csv").write_text("algorithm")
    sweep(study, out=tmp_path / "out", seed=range(2))
    assert files(tmp_path / "out") == whole


def test_a_point_that_fails_keeps_its_error_and_does_not_stop_the_rest(study: str, tmp_path: Path) -> None:
    result = sweep(study, out=tmp_path / "out", seed=range(3), fail=1, jobs=2)
    assert list(result.failed) == ["seed=1"]
    assert "raised ValueError (mine.py, line " in result.failed["seed=1"]
    assert "\n" not in result.failed["seed=1"]
    assert list(result.table["seed"]) == [0, 2]
    log = tmp_path / "again"
    again = sweep(study, out=tmp_path / "out", seed=range(3), fail=1)
    assert again.failed == result.failed
    assert not log.exists()


@pytest.mark.slow
def test_a_point_over_its_time_or_memory_has_failed(study: str, tmp_path: Path) -> None:
    slow = sweep(study, out=tmp_path / "slow", slow=[0.0, 30.0], timeout=4.0)
    assert slow.failed == {"slow=30.0": "took longer than 4 s"}
    assert len(slow.table) == 1
    hog = sweep(study, out=tmp_path / "hog", seed=range(2), hog=1, memory=500)
    assert hog.failed == {"seed=1": "took more memory than 500 MB"}


@pytest.mark.slow
def test_a_point_that_kills_its_worker_is_named_and_the_rest_is_done(study: str, tmp_path: Path) -> None:
    result = sweep(study, out=tmp_path / "out", seed=range(5), kill=2, jobs=2)
    assert list(result.failed) == ["seed=2"]
    assert "its process was killed each time" in result.failed["seed=2"]
    assert list(result.table["seed"]) == [0, 1, 3, 4]


def test_what_a_killed_sweep_was_writing_is_cleared_away(study: str, tmp_path: Path) -> None:
    sweep(study, out=tmp_path / "out", seed=range(2), fail=1)
    whole = files(tmp_path / "out")
    for name in (".points.csv.123-0", "failed/.seed=1.json.123-1", ".sweep.json.7-2"):
        (tmp_path / "out" / name).touch()
    sweep(study, out=tmp_path / "out", seed=range(2), fail=1)
    assert files(tmp_path / "out") == whole


def test_the_command_prints_the_result(study: str, tmp_path: Path) -> None:
    done = call("sweep", study, "--seed", "0:3", "--fail", "1", "--no-deaf", "--out", "out", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "seed=1 failed: study" in done.stdout
    assert done.stdout.splitlines()[-1] == "out: 2 of 3 points, 1 failed; points.csv"
    assert list(pd.read_csv(tmp_path / "out" / "points.csv")["seed"]) == [0, 2]
    wrong = call("sweep", study, "--sed", "0:3", "--out", "other", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "did you mean '--seed'?" in wrong.stderr


def test_a_folder_with_something_else_is_refused(study: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(BadInput, match="must be a new or empty folder, or the folder of a sweep"):
        sweep(study, out=tmp_path / "other", seed=range(2))
    sweep(study, out=tmp_path / "out", seed=range(2), loss=0.1)
    with pytest.raises(BadInput, match=r"it holds a sweep with loss = 0\.1"):
        sweep(study, out=tmp_path / "out", seed=range(2), loss=0.2)
    with pytest.raises(BadInput, match=r"it holds a sweep of .* over seed"):
        sweep(study, out=tmp_path / "out", loss=[0.1, 0.2], seed=0)


@only_with("pyarrow")
def test_points_may_have_their_tables_in_parquet(tmp_path: Path) -> None:
    small: dict[str, Any] = {"agents": 5, "radius": 0.9}
    plain = sweep("averaging", out=tmp_path / "csv", seed=[0, 1], **small)
    packed = sweep("averaging", out=tmp_path / "parquet", seed=[0, 1], tables="parquet", **small)
    assert sorted(path.name for path in (packed.folder / "points" / "seed=0").glob("rounds.*")) == ["rounds.parquet"]
    pd.testing.assert_frame_equal(results.load(plain.folder, rounds=True), results.load(packed.folder, rounds=True))
    assert plain.table.equals(packed.table)
    with pytest.raises(BadInput, match="tables = 'xls'"):
        sweep("averaging", out=tmp_path / "xls", tables="xls", **small)
    assert not (tmp_path / "xls").exists()


@pytest.mark.parametrize("megabytes", [50, 100])
def test_libraries_are_not_counted_as_the_memory_of_a_point(megabytes: int, tmp_path: Path) -> None:
    """The command runs in a new process, because BLAS loops endlessly if it cannot allocate its buffers."""
    flags = ["--agents", "5", "--seed", "0:2", "--memory", str(megabytes), "--out", "q"]
    done = call("sweep", "averaging", *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 points, 0 failed" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("flags", "output"),
    [
        (["--seed", "3:0"], "seed = '3:0': must be a range from"),
        (
            ["--seed", "0", "--memory", "9999999999999999"],
            "memory = 9999999999999999: must be a whole number from 1 to",
        ),
    ],
)
def test_what_no_sweep_can_have_is_refused_by_what_was_typed(flags: list[str], output: str, tmp_path: Path) -> None:
    done = call("sweep", "averaging", *flags, "--out", "q", cwd=tmp_path)
    assert done.returncode == 2
    assert output in done.stderr
