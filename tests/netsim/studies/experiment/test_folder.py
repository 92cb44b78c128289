"""An experiment's folder is always complete and up to date, whatever interrupts or changes it."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import BadInput, Experiment, Link, Links, Method, topology
from netsim.agents import DKLA, DPSGD, LocalProblem, Squared
from netsim.studies.experiment.folder import keys_in
from netsim.studies.folder import Unsaved
from netsim.studies.reserve import LOCK
from tests.command import ROOT, call
from tests.netsim.studies.experiment.parts import Counts, counting, least_squares, small

pytestmark = pytest.mark.usefixtures("all_undrawn")

posix = pytest.mark.skipif(sys.platform == "win32", reason="no process groups or limits of this kind there")


def tables(folder: Path) -> dict[str, bytes]:
    """Return a folder's tables: the rounds of each cell, and the table of all runs."""
    cells = {f"{path.parent.name}/rounds.csv": path.read_bytes() for path in folder.glob("runs/*/rounds.csv")}
    return cells | {"runs.csv": (folder / "runs.csv").read_bytes()}


def entries(folder: Path) -> set[str]:
    """Return the names in a folder, among which there must be no temporary files."""
    return {path.name for path in folder.iterdir()}


WHOLE = {"experiment.json", "inputs", "runs", "runs.csv"}


# --- growth -----------------------------------------------------------------------------------------------------------


def test_only_what_is_new_runs(tmp_path: Path) -> None:
    one = Method(DPSGD, eta=0.1)
    assert small(methods={"one": one}).run(tmp_path).ran == 2
    assert small(methods={"one": one}).run(tmp_path).ran == 0
    assert small(methods={"one": one}, seeds=range(3)).run(tmp_path).ran == 1
    two = small(methods={"one": one, "two": Method(DKLA, rho=0.1)}, seeds=range(3))
    assert two.run(tmp_path).ran == 3
    grid = netsim.vary("method.eta", [0.1, 0.2])
    # Only one of the two methods has the parameter, and its results for 0.1 already exist.
    assert small(methods=two.methods, seeds=range(3), grid=grid).run(tmp_path).ran == 3
    assert small(methods=two.methods, seeds=range(3), grid=grid, names={"eta": "method.eta"}).run(tmp_path).ran == 0
    assert small(methods=two.methods, seeds=range(3), rounds=21).run(tmp_path).ran == 6
    assert entries(tmp_path) == WHOLE


def test_a_network_that_is_added_runs_alone(tmp_path: Path) -> None:
    lossy = {"ideal": Links(), "lossy": Links(link=Link(loss=0.1))}
    assert small(networks={"ideal": Links()}).run(tmp_path).ran == 4
    assert small(networks=lossy).run(tmp_path).ran == 4


def test_results_read_are_those_that_ran(tmp_path: Path) -> None:
    def odd(agents: Any) -> dict[str, Any]:
        return {"third": 1 / 3, "tiny": 5e-324, "huge": 1e308, "none": np.nan, "endless": -np.inf}

    experiment = small(measure=[odd], after=[lambda run: {"text": "a,b\n", "flag": True, "np": np.float32(0.1)}])
    ran, read, memory = experiment.run(tmp_path), experiment.run(tmp_path), experiment.run()
    assert (ran.ran, read.ran) == (4, 0)
    for other in (read, memory):
        pd.testing.assert_frame_equal(ran.runs, other.runs, check_exact=True)
        pd.testing.assert_frame_equal(ran.rounds, other.rounds, check_exact=True)
        assert ran.runs.to_csv() == other.runs.to_csv()


def test_an_edited_method_reruns_alone_and_the_former_is_listed_until_it_is_removed(tmp_path: Path) -> None:
    def edited(step: int) -> Any:
        class Mine(DPSGD):
            def local_step(self) -> Any:
                return step * super().local_step()

        return small(methods={"mine": Method(Mine, eta=0.01), "other": Method(DPSGD, eta=0.1)})

    first = edited(1).run(tmp_path)
    assert edited(2).run(tmp_path).ran == 2
    old = edited(2).old(tmp_path)
    assert sorted(old["key"]) == sorted(cell.key for cell, _ in first.cells if cell.columns["method"] == "mine")
    assert set(old["method"]) == {"mine"}
    assert edited(1).run(tmp_path).ran == 0
    assert edited(2).remove_old(tmp_path) == 2
    assert edited(2).old(tmp_path).empty
    assert edited(2).remove_old(tmp_path) == 0
    assert edited(2).run(tmp_path).ran == 0
    assert edited(1).run(tmp_path).ran == 2
    assert entries(tmp_path) == WHOLE


def test_nothing_is_old_where_nothing_is(tmp_path: Path) -> None:
    assert small().old(tmp_path).empty
    assert small().old(tmp_path / "none").empty
    assert not (tmp_path / "none").exists()


# --- data -------------------------------------------------------------------------------------------------------------


def costs_of(values: Any) -> Any:
    x = np.asarray(values, dtype=np.float64).reshape(4, 2, 3)
    costs = [LocalProblem(each, np.ones(2), loss=Squared(), regularizer=1e-3) for each in x]
    return costs, topology.ring(4), lambda models: {"gap": float((models**2).mean())}


def by_open(name: str) -> list[float]:
    with open(name) as file:
        return [float(line) for line in file.read().split()[1:]]


def by_os(name: str) -> list[int]:
    number = os.open(name, os.O_RDONLY)
    try:
        return list(os.read(number, 26)[2:26])
    finally:
        os.close(number)


READERS: dict[str, Any] = {
    "open": by_open,
    "Path": lambda file: [float(line) for line in Path(file).read_text().split()[1:]],
    "pandas": lambda file: pd.read_csv(file)["a"],
    "numpy": lambda file: np.loadtxt(file, skiprows=1),
    "genfromtxt": lambda file: np.genfromtxt(file, skip_header=1),
    "fromfile": lambda file: np.fromfile(file, np.uint8)[2:26],
    "os.open": by_os,
}


def write_csv(file: Path, start: float) -> None:
    file.write_text("a\n" + "".join(f"{(start + number) % 7 + 0.5}\n" for number in range(24)))


@pytest.mark.parametrize("reader", READERS)
def test_a_csv_that_a_problem_reads_and_that_changes_makes_all_its_cells_run_again(reader: str, tmp_path: Path) -> None:
    file = str(tmp_path / "data.csv")
    read = READERS[reader]

    def problem(seed: int) -> Any:
        return costs_of(read(file))

    write_csv(Path(file), 0.0)
    experiment = small(problem=problem, rounds=3, seeds=[0])
    before = experiment.run(tmp_path / "out")
    assert experiment.run(tmp_path / "out").ran == 0
    write_csv(Path(file), 3.0)
    after = experiment.run(tmp_path / "out")
    assert after.ran == 2
    assert any("data.csv changed" in note for note in after.notes)
    alone = experiment.run()
    assert after.runs["gap"].tolist() == alone.runs["gap"].tolist() != before.runs["gap"].tolist()
    assert experiment.run(tmp_path / "out").ran == 0
    assert (tmp_path / "out" / "inputs" / "data.csv").read_bytes() == Path(file).read_bytes()


def test_what_a_cache_holds_of_a_file_is_never_taken_for_its_new_content(tmp_path: Path) -> None:
    file = str(tmp_path / "data.csv")

    @cache
    def load(name: str) -> Any:
        return np.loadtxt(name, skiprows=1)

    def problem(seed: int) -> Any:
        return costs_of(load(file))

    write_csv(Path(file), 0.0)
    experiment = small(problem=problem, rounds=3)
    experiment.run(tmp_path / "out")
    write_csv(Path(file), 3.0)
    results = experiment.run(tmp_path / "out")
    assert results.ran == 4
    assert any("run again, in a new process" in note for note in results.notes)
    load.cache_clear()
    results = experiment.run(tmp_path / "out")
    assert results.ran == 4
    assert not any("new process" in note for note in results.notes)
    assert experiment.run(tmp_path / "out").ran == 0


@pytest.mark.slow
def test_workers_that_are_used_again_have_no_former_data(tmp_path: Path) -> None:
    file = str(tmp_path / "data.csv")

    def problem(seed: int) -> Any:
        return costs_of(np.loadtxt(file, skiprows=1))

    experiment = small(problem=problem, rounds=3)
    for start in (0.0, 3.0):
        write_csv(Path(file), start)
        results = experiment.run(tmp_path / "out", jobs=2)
        assert results.ran == 4
        assert all(found.read for _, found in results.cells)
        assert results.runs["gap"].tolist() == experiment.run().runs["gap"].tolist()


def test_two_data_sets_are_told_apart(tmp_path: Path) -> None:
    def first(seed: int) -> Any:
        return costs_of(np.loadtxt(str(tmp_path / "one.csv"), skiprows=1))

    def second(seed: int) -> Any:
        return costs_of(np.loadtxt(str(tmp_path / "two.csv"), skiprows=1))

    for name in ("one.csv", "two.csv"):
        write_csv(tmp_path / name, 0.0)
    experiment = small(problem={"first": first, "second": second})
    experiment.run(tmp_path / "out")
    write_csv(tmp_path / "two.csv", 1.0)
    assert experiment.run(tmp_path / "out").ran == 4


def test_what_a_method_writes_is_not_what_it_read(tmp_path: Path) -> None:
    class Logs(Counts):
        async def run(self) -> None:
            with open(tmp_path / "log.txt", "a") as file:
                file.write("begun\n")
            number = os.open(tmp_path / "raw.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(number, b"begun\n")
            os.close(number)
            await super().run()

    experiment = counting(methods=Logs)
    experiment.run(tmp_path / "out")
    assert experiment.run(tmp_path / "out").ran == 0


# --- damaged ----------------------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def edit(path: Path) -> None:
    text = path.read_text()
    at = max(text.rfind(digit) for digit in "12345678")
    path.write_text(f"{text[:at]}9{text[at + 1 :]}")


def edit_row(path: Path) -> None:
    kept = json.loads(path.read_text())
    kept["row"]["gap"] = 0.0
    path.write_text(json.dumps(kept, indent=1))


def of_another_kind(path: Path) -> None:
    path.unlink()
    path.mkdir()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


def another_json(path: Path) -> None:
    path.write_text("[1, 2]")


DAMAGE = [
    ("rounds.csv", cut),
    ("rounds.csv", edit),
    ("rounds.csv", of_another_kind),
    ("rounds.csv", emptied),
    ("rounds.csv", no_text),
    ("rounds.csv", Path.unlink),
    ("run.json", cut),
    ("run.json", edit_row),
    ("run.json", of_another_kind),
    ("run.json", emptied),
    ("run.json", no_text),
    ("run.json", another_json),
    ("run.json", Path.unlink),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGE, ids=lambda each: getattr(each, "__name__", each))
def test_a_damaged_cell_runs_again(name: str, damage: Any, tmp_path: Path) -> None:
    experiment = small(seeds=[0])
    experiment.run(tmp_path)
    before = tables(tmp_path)
    damage(tmp_path / "runs" / keys_in(tmp_path)[0] / name)
    experiment.old(tmp_path)
    assert experiment.run(tmp_path).ran == 1
    assert tables(tmp_path) == before
    assert entries(tmp_path) == WHOLE


def test_cells_that_are_swapped_run_again(tmp_path: Path) -> None:
    experiment = small(seeds=[0])
    experiment.run(tmp_path)
    before, (one, two) = tables(tmp_path), (tmp_path / "runs" / key for key in keys_in(tmp_path))
    one.rename(tmp_path / "x")
    two.rename(one)
    (tmp_path / "x").rename(two)
    assert experiment.run(tmp_path).ran == 2
    assert tables(tmp_path) == before


def test_a_cell_that_is_a_file_or_a_link_to_nothing_runs_again(tmp_path: Path) -> None:
    experiment = small(seeds=[0])
    experiment.run(tmp_path)
    before, (one, two) = tables(tmp_path), (tmp_path / "runs" / key for key in keys_in(tmp_path))
    for each in (one, two):
        shutil.rmtree(each)
    one.write_text("no folder")
    two.symlink_to(tmp_path / "nowhere")
    assert experiment.run(tmp_path).ran == 2
    assert tables(tmp_path) == before


def test_what_else_lies_among_the_runs_is_left_alone(tmp_path: Path) -> None:
    experiment = small(seeds=[0])
    experiment.run(tmp_path)
    (tmp_path / "runs" / "notes.txt").write_text("mine")
    (tmp_path / "runs" / "folder").mkdir()
    assert experiment.run(tmp_path).ran == 0
    assert experiment.old(tmp_path).empty
    assert experiment.remove_old(tmp_path) == 0
    assert (tmp_path / "runs" / "notes.txt").read_text() == "mine"


# --- folders that cannot be used --------------------------------------------------------------------------------------


def test_a_folder_that_holds_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(BadInput, match=r"out = .*: must be a new or empty folder, or the folder of an experiment"):
        small().run(tmp_path)
    assert entries(tmp_path) == {"thesis.tex"}
    with pytest.raises(BadInput, match=r"must be a new or empty folder"):
        small().run(tmp_path / "thesis.tex")
    with pytest.raises(BadInput, match=r"must be a folder that can be written \(Not a directory\)"):
        small().run(tmp_path / "thesis.tex" / "out")


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):
        pytest.skip("this user may write everywhere")
    for out in (closed, closed / "out"):
        with pytest.raises(BadInput, match=r"must be a folder that can be written \(Permission denied\)"):
            small().run(out)


FULL = (
    "netsim.studies.experiment.folder.tempfile.mkdtemp",
    "netsim.studies.experiment.folder.os.rename",
    "netsim.studies.experiment.folder.Path.write_bytes",
    "netsim.studies.experiment.folder.Path.write_text",
    "netsim.studies.experiment.folder.Path.touch",
    "netsim.studies.experiment.folder.write_whole",
    "netsim.studies.experiment.experiment.write_whole",
)


@pytest.mark.parametrize("what", FULL)
def test_a_full_disk_is_told_in_one_line_and_nothing_is_lost(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    small(seeds=[0]).run(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(what, full)
        with pytest.raises((Unsaved, BadInput)) as caught:
            small(seeds=[0, 1]).run(tmp_path / "out")
    assert str(caught.value).startswith(f"out = {str(tmp_path / 'out')!r}: ")
    assert "No space left on device" in str(caught.value)
    small(seeds=[0, 1]).run(tmp_path / "out")
    small(seeds=[0, 1]).run(tmp_path / "whole")
    assert tables(tmp_path / "out") == tables(tmp_path / "whole")
    assert entries(tmp_path / "out") == WHOLE


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    def problem(seed: int) -> Any:
        if seed == 0:
            with pytest.raises(BadInput) as caught:
                small(seeds=[1]).run(tmp_path / "out")
            refused.append(str(caught.value))
        return least_squares(seed)

    refused: list[str] = []
    small(problem=problem).run(tmp_path / "out")
    assert set(refused) == {
        f"out = {str(tmp_path / 'out')!r}: must not be in use by another run; if none is running, one was killed: "
        f"remove {str(tmp_path / 'out' / LOCK)!r}"
    }


# --- killed -----------------------------------------------------------------------------------------------------------

SCRIPT = """
import os, sys, threading
sys.path.insert(0, {root!r})
from netsim import Link, Links
from tests.netsim.studies.experiment.parts import small, least_squares

def slow(agents):
    sum(range(100_000))
    while os.path.exists("wait"):
        threading.Event().wait(0.01)
    return {{"models": float(len(agents))}}

def make():
    networks = {{"ideal": Links(), "lossy": Links(link=Link(loss=0.2))}}
    return small(networks=networks, seeds=range(8), measure=[slow], rounds=10)

if __name__ == "__main__":
    make().run(sys.argv[1], jobs=int(sys.argv[2]))
"""


def started(folder: Path, jobs: int) -> "subprocess.Popen[bytes]":
    script = folder / "mine.py"
    if not script.exists():
        script.write_text(SCRIPT.format(root=str(ROOT)))
    words = [sys.executable, str(script), "out", str(jobs)]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, cwd=folder, start_new_session=True, **pipes)


def ended(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Return the exit status of a process, and the last line of its stderr."""
    _, error = process.communicate(timeout=120)
    return process.returncode, (error.decode().splitlines() or [""])[-1]


@pytest.mark.slow
@posix
def test_killed_at_random_moments_and_resumed_it_is_the_same_to_the_byte(tmp_path: Path) -> None:
    """This test kills runs with workers; the next one, without workers, covers all moments of change in the folder."""
    (tmp_path / "whole").mkdir()
    assert ended(started(tmp_path / "whole", 1)) == (0, "")
    whole = tables(tmp_path / "whole" / "out")
    assert len(whole) == 33
    rng, killed, out = np.random.default_rng(5), 0, tmp_path / "out"
    for _ in range(3):
        before = len(keys_in(out)) if out.is_dir() else 0
        process = started(tmp_path, 2)
        due = time.monotonic() + 60.0
        while time.monotonic() < due and process.poll() is None:
            if out.is_dir() and (len(keys_in(out)) > before or (before == 0 and any(out.glob(".running-*")))):
                break
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.1))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate()
    assert killed > 1
    assert ended(started(tmp_path, 1)) == (0, "")
    assert tables(out) == whole
    assert entries(out) == WHOLE


DIES = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.dying import die_at_each_call
from tests.netsim.studies.experiment.parts import small
from tests.netsim.studies.experiment.test_folder import WHOLE, entries, tables

def checked(out):
    assert entries(out) == WHOLE, entries(out)

work = small(seeds=[0], rounds=5).run
print("died", die_at_each_call(Path(sys.argv[1]), work, tables, checked))
"""


@pytest.mark.slow
@posix
def test_dead_before_or_after_each_call_that_changes_the_folder_and_resumed_it_is_the_same(tmp_path: Path) -> None:
    words = [sys.executable, "-c", DIES, str(tmp_path), str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 20


@pytest.mark.slow
@posix
def test_of_two_runs_into_one_folder_the_second_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "wait").touch()
    first = started(tmp_path, 1)
    try:
        while not list((tmp_path / "out").glob(".running-*")):
            assert first.poll() is None
            time.sleep(0.005)
        status, line = ended(started(tmp_path, 1))
    finally:
        (tmp_path / "wait").unlink()
    assert status == 1
    assert "must not be in use by another run; if none is running, one was killed: remove" in line
    assert ended(first) == (0, "")
    assert len(keys_in(tmp_path / "out")) == 32
    assert entries(tmp_path / "out") == WHOLE


@pytest.mark.slow
@posix
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_system_that_refuses_to_write_is_told_in_one_line(jobs: int, tmp_path: Path) -> None:
    # Writing bytecode is disabled, because the size limit would truncate it, and other processes would read it.
    unwritten = "import os, resource, sys; os.environ['PYTHONDONTWRITEBYTECODE'] = '1'; sys.dont_write_bytecode = True"
    script = f"{unwritten}; resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))\n" + SCRIPT.format(root=str(ROOT))
    (tmp_path / "limited.py").write_text(script)
    words = [sys.executable, "limited.py", "out", str(jobs)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    # joblib's process may later warn about files that it could not remove, so this may not be the last line.
    line = "could not be written (File too large); what is done is whole, and the same run goes on"
    assert any(each.endswith(line) for each in done.stderr.splitlines())
    assert ended(started(tmp_path, 1)) == (0, "")
    assert len(keys_in(tmp_path / "out")) == 32


@pytest.mark.slow
def test_two_processes_give_the_tables_of_one(tmp_path: Path) -> None:
    assert isinstance(small(), Experiment)
    small(seeds=[0]).run(tmp_path / "one")
    small(seeds=[0]).run(tmp_path / "two", jobs=2)
    assert tables(tmp_path / "one") == tables(tmp_path / "two")


OWN = """
import sys
from dataclasses import KW_ONLY, dataclass
sys.path.insert(0, {root!r})
from netsim import Experiment, Method
from netsim.agents import DPSGD, Scheduled
from tests.netsim.studies.experiment.parts import least_squares

@dataclass(eq=False, repr=False)
class Mine(DPSGD):
    _: KW_ONLY
    factor: float = Scheduled(default=0.5, low=0.0)

    def local_step(self):
        return self.factor * super().local_step()

def count(agents):
    return {{"models": float(len(agents))}}

def make():
    methods = {{"a": Method(Mine, eta=0.1), "b": Method(Mine, eta=lambda setup, node: 0.1 + node / 100)}}
    return Experiment(problem=least_squares, methods=methods, seeds=range(2), rounds=5, measure=[count])

if __name__ == "__main__":
    print(make().run(sys.argv[1], jobs=int(sys.argv[2])))
else:
    experiment = make()
"""


@pytest.mark.slow
def test_a_scripts_own_class_with_scheduled_fields_runs_in_workers(tmp_path: Path) -> None:
    """A script finds existing results however it runs: directly, with or without workers, and by the command."""

    def printed(jobs: int) -> str:
        words = [sys.executable, "mine.py", "out", str(jobs)]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    text = OWN.format(root=str(ROOT))
    (tmp_path / "mine.py").write_text(text)
    assert "4 runs, 4 of them new: 4 unfinished" in printed(2)
    command = ("run", "mine.py", "--jobs", "2", "--out")
    assert "4 runs, 0 of them new" in call(*command, "out", cwd=tmp_path).stdout
    assert "4 runs, 4 of them new: 4 unfinished" in call(*command, "two", cwd=tmp_path).stdout
    assert tables(tmp_path / "two") == tables(tmp_path / "out")
    (tmp_path / "mine.py").write_text(text.replace("default=0.5", "default=0.6"))
    assert "4 runs, 4 of them new: 4 unfinished" in printed(1)
