"""Sweeps on a Dask cluster with real workers: the same files as locally, and missing packages are reported."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pytest

from netsim import NetsimError
from netsim.studies.formats import Formats
from netsim.studies.sweeps import sweep
from netsim.studies.sweeps.grid import Point
from netsim.studies.sweeps.point import Limits, SweepRun
from tests.command import ROOT, call
from tests.netsim.studies.experiment.parts import small
from tests.netsim.studies.test_sweep import STUDY
from tests.netsim.studies.test_sweep import files as all_files
from tests.parts import forked_workers

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install '.[dask]'")
distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install '.[dask]'")

pytestmark = [
    pytest.mark.slow,
    # Dask warns about workers that start and stop, which they do in these tests.
    pytest.mark.filterwarnings("ignore::UserWarning:distributed", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with local(2) as found:
        yield found


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """Set a long timeout, because a LocalCluster would otherwise drop a dead worker for good while it restarts."""
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}), forked_workers():
        yield


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """Restore the environment after each test, because a restarted worker sets the hash seed in it."""
    with mock.patch.dict(os.environ):
        yield


@contextmanager
def local(workers: int, **settings: Any) -> Iterator[Any]:
    """Start a cluster, and remove the hash seed that Dask sets in the environment."""
    wanted = {"threads_per_worker": 1, "processes": True, "dashboard_address": None} | settings
    with mock.patch.dict(os.environ):
        cluster = distributed.LocalCluster(n_workers=workers, silence_logs=50, **wanted)
    with cluster:
        yield cluster


@pytest.fixture
def study(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(STUDY)
    return str(tmp_path / "mine.py")


@pytest.fixture
def everywhere(cluster: Any) -> Iterator[Callable[..., Any]]:
    """Return a function that runs another function on all workers."""
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        yield client.run


def refusal(*words: Any, **given: Any) -> str:
    with pytest.raises(NetsimError) as caught:
        sweep(*words, **given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- the same results -------------------------------------------------------------------------------------------------


def files(folder: Path) -> dict[str, bytes]:
    """Return a sweep's files without the lines that contain Python's hash seed, which Dask sets for its workers."""
    found, other = all_files(folder), (b'"hash_seed"', b" settings.json")
    for name in found:
        if name.endswith(("settings.json", "SHA256SUMS")):
            lines = found[name].splitlines(keepends=True)
            found[name] = b"".join(line for line in lines if not any(each in line for each in other))
    return found


def test_a_cluster_gives_the_same_files_as_one_process_and_two(study: str, tmp_path: Path, cluster: Any) -> None:
    grid: dict[str, Any] = {"loss": [0.0, 0.3], "seed": range(3)}
    there = sweep(study, out=tmp_path / "there", dask=cluster.scheduler_address, **grid)
    one = sweep(study, out=tmp_path / "one", **grid)
    sweep(study, out=tmp_path / "two", jobs=2, **grid)
    assert files(tmp_path / "there") == files(tmp_path / "one") == files(tmp_path / "two")
    assert len(files(tmp_path / "one")) == 6 * 5 + 2
    pd.testing.assert_frame_equal(there.table, one.table)
    assert there.table["trace_hash"].nunique() == 4, "without loss all seeds are one run, with loss each is its own"


def test_a_study_that_learns_is_the_same_there(tmp_path: Path, cluster: Any) -> None:
    small: dict[str, Any] = {"agents": 5, "features": 10, "rounds": 15, "loss": [0.0, 0.1], "seed": range(2)}
    sweep("coke", out=tmp_path / "there", dask=cluster.scheduler_address, **small)
    sweep("coke", out=tmp_path / "two", jobs=2, **small)
    assert files(tmp_path / "there") == files(tmp_path / "two")


def test_the_command_takes_a_relative_study_and_folder(study: str, tmp_path: Path, cluster: Any) -> None:
    flags = ["mine.py", "--seed", "0:3", "--fail", "1"]
    as_workers = {"NETSIM_DATA": os.environ.get("NETSIM_DATA", "")}
    done = call("sweep", *flags, "--dask", cluster.scheduler_address, "--out", "there", cwd=tmp_path, **as_workers)
    assert done.returncode == 1, done.stderr  # one point fails on purpose
    assert done.stdout.splitlines()[-1] == "there: 2 of 3 points, 1 failed; points.csv"
    assert call("sweep", *flags, "--out", "here", cwd=tmp_path).returncode == 1
    assert files(tmp_path / "there") == files(tmp_path / "here")


def test_a_sweep_begun_here_is_ended_there(study: str, tmp_path: Path, cluster: Any) -> None:
    log = str(tmp_path / "log")
    sweep(study, out=tmp_path / "out", seed=[0, 1], log=log)
    sweep(study, out=tmp_path / "out", seed=[0, 1, 2], log=log, dask=cluster.scheduler_address)
    assert Path(log).read_text().splitlines() == ["0.0 0", "0.0 1", "0.0 2"]


def test_an_experiment_is_the_same_there(tmp_path: Path, cluster: Any) -> None:
    there = small().run(tmp_path / "there", dask=cluster.scheduler_address)
    pd.testing.assert_frame_equal(there.rounds, small().run(tmp_path / "here").rounds)


@pytest.mark.skipif(sys.platform == "win32", reason="the page's commands are a shell's")
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "sweeps.md").read_text()
    (commands,) = [block for block in re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S) if "dask scheduler" in block]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    (tmp_path / "commands").write_text("trap 'kill $(jobs -p)' EXIT\n" + commands.replace("8786", port))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with (tmp_path / "output").open("w") as output:
        words: dict[str, Any] = {
            "cwd": tmp_path,
            "env": os.environ | {"PATH": path},
            "stdout": output,
            "stderr": output,
        }
        subprocess.run(["bash", "-e", "commands"], check=False, timeout=120, **words)
    assert "sweeps/there: 8 of 8 points, 0 failed; points.csv" in (tmp_path / "output").read_text()


# --- workers that die -------------------------------------------------------------------------------------------------


def test_a_point_that_kills_its_worker_is_named_and_the_rest_is_done(study: str, tmp_path: Path) -> None:
    with local(2) as cluster:
        result = sweep(study, out=tmp_path / "out", seed=range(6), kill=2, dask=cluster.scheduler_address)
    assert list(result.failed) == ["seed=2"]
    assert "its process was killed each time" in result.failed["seed=2"]
    assert list(result.table["seed"]) == [0, 1, 3, 4, 5]
    sweep(study, out=tmp_path / "here", seed=range(6), kill=2, jobs=2)
    assert files(tmp_path / "out") == files(tmp_path / "here")


def test_one_worker_runs_the_points_and_not_the_parent(study: str, tmp_path: Path) -> None:
    with local(1) as cluster:
        result = sweep(study, out=tmp_path / "out", seed=range(3), kill=1, dask=cluster.scheduler_address)
    assert list(result.failed) == ["seed=1"]
    assert list(result.table["seed"]) == [0, 2]


def test_what_a_worker_killed_from_outside_ran_is_begun_again(study: str, tmp_path: Path) -> None:
    def kill_one() -> None:
        # Wait until both workers run a point; a point lasts much longer than this check.
        while not log.exists() or len(log.read_text().splitlines()) < 2:
            time.sleep(0.02)
        os.kill(worker, signal.SIGKILL)

    log = tmp_path / "log"
    words: dict[str, Any] = {"seed": range(4), "slow": 1.5, "log": str(log)}
    with local(2) as cluster:
        with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
            worker = next(iter(client.run(os.getpid).values()))
        killer = threading.Thread(target=kill_one)
        killer.start()
        result = sweep(study, out=tmp_path / "out", dask=cluster.scheduler_address, **words)
        killer.join()
    assert not result.failed
    assert len(log.read_text().splitlines()) > 4, "somebody was to be killed while running"
    sweep(study, out=tmp_path / "here", **words)
    assert files(tmp_path / "out") == files(tmp_path / "here")


def test_points_that_wait_behind_many_that_kill_are_done(study: str, tmp_path: Path) -> None:
    """Dask gives up on a task after four of its workers have died, even if none of them had begun the task."""
    killers = "if seed % 3 == 0 and seed < 12:\n        os.kill(os.getpid(), signal.SIGKILL)\n    time.sleep(slow)"
    Path(study).write_text(STUDY.replace("time.sleep(slow)", killers))
    with local(1) as cluster:
        result = sweep(study, out=tmp_path / "out", seed=range(13), dask=cluster.scheduler_address)
    assert sorted(result.failed) == ["seed=0", "seed=3", "seed=6", "seed=9"]
    assert list(result.table["seed"]) == [1, 2, 4, 5, 7, 8, 10, 11, 12]


def test_a_scheduler_that_goes_ends_the_sweep_in_one_line(study: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    words: dict[str, Any] = {"seed": range(4), "slow": 1.0, "log": str(log)}
    with local(2) as cluster:

        def close() -> None:
            while not log.exists():
                time.sleep(0.05)
            cluster.close()

        closer = threading.Thread(target=close)
        closer.start()
        expected = refusal(study, out=tmp_path / "out", dask=cluster.scheduler_address, **words)
        closer.join()
    assert expected == "dask: its scheduler has gone; what is done is whole, and the same command goes on"
    sweep(study, out=tmp_path / "out", jobs=2, **words)
    sweep(study, out=tmp_path / "here", jobs=2, **words)
    assert files(tmp_path / "out") == files(tmp_path / "here")


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"dask": "hello"}, "dask = 'hello': must be a scheduler's address, such as tcp://127.0.0.1:8786"),
        ({"dask": "http://localhost:8786"}, "must be a scheduler's address"),
        ({"dask": "tcp://localhost"}, "must be a scheduler's address"),
        ({"dask": ""}, "dask = '': must be a scheduler's address"),
        ({"dask": "tcp://127.0.0.1:1", "timeout": 2.0}, "timeout = 2.0: must be left out with dask: its workers"),
        ({"dask": "tcp://127.0.0.1:1", "memory": 50}, "memory = 50: must be left out with dask: its workers have"),
        ({"dask": "tcp://127.0.0.1:1", "jobs": 2}, "jobs = 2: must be left out with dask"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    study: str, tmp_path: Path, given: dict[str, Any], expected: str
) -> None:
    assert expected in refusal(study, out=tmp_path / "out", seed=range(2), **given)
    assert not (tmp_path / "out").exists()


def test_a_scheduler_that_does_not_answer_is_reported_in_one_line_within_a_time(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = call("sweep", "mine.py", "--dask", "tcp://127.0.0.1:1", "--out", "out", cwd=tmp_path)
    wanted = "must be the address of a Dask scheduler; none answered there within 10 s"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"netsim: dask = 'tcp://127.0.0.1:1': {wanted}\n"
    monkeypatch.setattr("netsim.studies.sweeps.cluster._WORKERS_S", 1.0)
    with local(0) as empty:
        expected = refusal(study, out=tmp_path / "out", dask=empty.scheduler_address)
    assert "it has none after 1 s" in expected


def test_workers_with_several_threads_are_refused(study: str, tmp_path: Path) -> None:
    with local(1, threads_per_worker=2) as cluster:
        expected = refusal(study, out=tmp_path / "out", dask=cluster.scheduler_address)
    assert "must be a scheduler whose workers have one thread each" in expected
    assert expected.endswith("has 2")


def no_bytes(most: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits there")
def test_a_worker_that_cannot_write_is_named(
    study: str, tmp_path: Path, cluster: Any, everywhere: Callable[..., Any]
) -> None:
    workers = everywhere(no_bytes, 0)
    try:
        expected = refusal(study, out=tmp_path / "out", dask=cluster.scheduler_address)
    finally:
        everywhere(no_bytes, -1)
    assert expected.startswith(f"out = {str(tmp_path / 'out')!r}: worker {min(workers)} must have that folder")
    assert expected.endswith("one that cannot be written (File too large)")
    assert sweep(study, out=tmp_path / "out", dask=cluster.scheduler_address).failed == {}


def test_a_folder_that_is_not_shared_is_reported(study: str, tmp_path: Path) -> None:
    """A worker reports it if it lacks the folder, or if its folder of that name is a different one."""
    from netsim.studies.sweeps.cluster import examine

    work = SweepRun(study, study, tmp_path, tmp_path / "running-x", Limits(), Formats())
    key = f"out = {str(tmp_path)!r}"
    assert examine(work)[key] == "none of that name, or another one"
    work.running.mkdir()
    (work.running / "token").write_text("running-y")
    assert examine(work)[key] == "another one of that name"
    (work.running / "token").write_text("running-x")
    assert examine(work)[key] == "that folder, to write into"


def set_version(version: str) -> str:
    import netsim.studies.origin as module

    before: str = module.__version__
    module.__version__ = version
    return before


def test_a_worker_with_another_netsim_is_named(
    study: str, tmp_path: Path, cluster: Any, everywhere: Callable[..., Any]
) -> None:
    (here, *_) = everywhere(set_version, "0.0.9").values()
    try:
        expected = refusal(study, out=tmp_path / "out", dask=cluster.scheduler_address)
    finally:
        everywhere(set_version, here)
    assert expected.startswith("dask: netsim: worker tcp://127.0.0.1:")
    assert f"must have {here} (" in expected
    assert "it has 0.0.9 (" in expected


def test_a_worker_without_this_netsim_is_named(study: str, tmp_path: Path) -> None:
    """The worker imports a different package under the name netsim."""
    (tmp_path / "netsim").mkdir()
    (tmp_path / "netsim" / "__init__.py").touch()
    with local(0) as cluster:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--nthreads", "1"]
        worker = subprocess.Popen([*command, "--no-dashboard"], cwd=tmp_path, stderr=subprocess.DEVNULL)
        try:
            cluster.wait_for_workers(1, timeout=120)
            expected = refusal(study, out=tmp_path / "out", dask=cluster.scheduler_address)
        finally:
            worker.terminate()
            worker.wait()
    assert expected.startswith("dask: worker tcp://127.0.0.1:")
    assert "must have the netsim that is here" in expected


def test_a_worker_without_the_data_or_the_study_is_named(
    study: str, tmp_path: Path, cluster: Any, everywhere: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path / "data"))
    everywhere(unset)
    expected = refusal(study, out=tmp_path / "out", dask=cluster.scheduler_address)
    assert expected.startswith("NETSIM_DATA: worker tcp://127.0.0.1:")
    assert expected.endswith("must have a folder of data, as here; it has no folder of data")
    monkeypatch.delenv("NETSIM_DATA")
    mine = str(shutil.copy(study, tmp_path / "other.py"))
    everywhere(hide_files)
    try:
        expected = refusal(mine, out=tmp_path / "other", dask=cluster.scheduler_address)
    finally:
        everywhere(show_files)
    assert expected.startswith(f"study = {mine!r}: worker tcp://127.0.0.1:")
    assert expected.endswith("as here; it has none")


def hide_files() -> None:
    def none(path: Path) -> bytes:
        raise FileNotFoundError(path)

    Path.whole, Path.read_bytes = Path.read_bytes, none  # type: ignore[attr-defined, method-assign, assignment]


def show_files() -> None:
    Path.read_bytes = Path.whole  # type: ignore[attr-defined, method-assign]


def unset() -> None:
    os.environ.pop("NETSIM_DATA", None)


def test_without_dask_it_names_what_to_install(study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    expected = refusal(study, out=tmp_path / "out", dask="tcp://127.0.0.1:8786")
    assert expected.endswith(
        "must go with distributed, which is not installed: in netsim's clone, pip install '.[dask]'"
    )


def test_what_is_sent_is_small() -> None:
    import pickle

    work = SweepRun("coke", "coke", Path("out"), Path("out/running-x"), Limits(), Formats())
    assert len(pickle.dumps((work, Point("seed=1", {"seed": 1})))) < 1000
