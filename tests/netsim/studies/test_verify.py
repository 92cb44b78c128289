"""``netsim verify`` repeats the runs of a folder, and compares them with the stored results."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import netsim
from netsim import BadInput
from netsim.studies.catalogue import find_study
from netsim.studies.origin import about, environment
from tests.command import call, call_apart
from tests.netsim.studies.test_files import seal
from tests.parts import only_with

pytestmark = pytest.mark.usefixtures("all_undrawn")

STUDY = """
import math
import pandas as pd
from netsim import Agent, Link, Network, topology

class Averages(Agent):
    def __init__(self, value):
        self.value = value
    async def run(self):
        async for _ in self.rounds(6):
            await self.broadcast("x", self.value)
            heard = [frame.payload for frame in await self.collect()]
            self.value = sum(heard, self.value) / (1 + len(heard))

def spread(agents):
    values = [agent.value for agent in agents.values()]
    return max(values) - min(values)

def mine(study, *, agents: int = 4, loss: float = 0.2, most: float = math.inf, only: str = "", seed: int = 0) -> None:
    graph = topology.ring(agents)
    network = Network(graph, Link(loss=loss), seed=seed)
    study.run("mine", network, {i: Averages(i + 0.1) for i in graph}, [spread], 6)
    study.table("other", "Other", pd.DataFrame({"name": ["a", "b"], "seconds": [1.0, 2.0]}))
    study.note("a note")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(STUDY)
    return find_study(str(tmp_path / "mine.py")).execute(seed=3).save(tmp_path / "out")


def edit(folder: Path, name: str, change: Callable[[str], str]) -> None:
    text = (folder / name).read_text()
    assert change(text) != text
    (folder / name).write_text(change(text))
    seal(folder)


def test_the_same_comes_out(folder: Path) -> None:
    found = netsim.studies.verify(folder)
    assert (found.state, found.where, found.others, found.elsewhere) == ("identical", "", (), ())
    assert found


@only_with("pyarrow")
def test_parquet_too(folder: Path, tmp_path: Path) -> None:
    study = find_study(str(tmp_path / "mine.py")).execute(seed=3)
    place = study.save(tmp_path / "columns", tables="parquet")
    assert not list(place.glob("*.csv"))
    assert netsim.studies.verify(place).state == "identical"


def cell(folder: Path, row: int, column: str, value: Any) -> Callable[[str], str]:
    names = (folder / "rounds.csv").read_text().splitlines()[0].split(",")

    def change(text: str) -> str:
        lines = [line.split(",") for line in text.splitlines()]
        lines[row][names.index(column)] = str(value(lines[row][names.index(column)]))
        return "\n".join(map(",".join, lines)) + "\n"

    return change


def test_last_digits(folder: Path) -> None:
    edit(folder, "rounds.csv", cell(folder, 2, "spread", lambda old: float(old) * (1 + 1e-12)))
    found = netsim.studies.verify(folder)
    assert found.state == "equal to 1e-9"
    assert found.where.startswith("rounds.csv, algorithm mine, round 2, column spread: ")
    # The hash depends on all bits, and the tables have only nine digits, so the hash may differ alone.
    edit(folder, "summary.json", lambda text: text.replace(json.loads(text)["trace_hash"], "0" * 32))
    assert netsim.studies.verify(folder).state == "equal to 1e-9"
    assert found


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [(4, "spread", lambda old: float(old) + 1e-6), (4, "transmissions", lambda old: int(old) + 1)],
)
def test_where_it_begins(row: int, column: str, value: Any, folder: Path) -> None:
    old = (folder / "rounds.csv").read_text()
    edit(folder, "rounds.csv", cell(folder, row, column, value))
    edit(folder, "rounds.csv", cell(folder, row + 1, column, value))
    edit(folder, "other.csv", lambda text: text.replace("b,", "c,"))
    found = netsim.studies.verify(folder)
    assert not found
    assert found.state == "differs"
    names = old.splitlines()[0].split(",")
    before = old.splitlines()[row].split(",")[names.index(column)]
    output = f"rounds.csv, algorithm mine, round {row}, column {column}: {value(before)} recorded, {before} now"
    assert found.where == output
    assert found.others == ("other.csv",)


def test_a_hash_alone(folder: Path) -> None:
    edit(folder, "summary.json", lambda text: text.replace(json.loads(text)["trace_hash"], "0" * 32))
    found = netsim.studies.verify(folder)
    assert found.state == "differs"
    assert found.where.startswith(f"summary.json, trace_hash: {'0' * 32} recorded, ")


def test_measured_seconds_do_not_count(folder: Path) -> None:
    edit(folder, "other.csv", lambda text: text.replace("1.0", "7.5"))
    assert netsim.studies.verify(folder).state == "identical"


def test_other_versions_are_named_as_facts(folder: Path) -> None:
    def older(text: str) -> str:
        settings = json.loads(text)
        settings["packages"]["numpy"] = "1.0"
        settings["blas"] = [{"library": "openblas", "version": "0.1", "kernel": "Prescott", "threading": "pthreads"}]
        return json.dumps(settings)

    edit(folder, "settings.json", older)
    found = netsim.studies.verify(folder)
    assert found.state == "identical"
    now = environment()["packages"]["numpy"]
    assert f"numpy: 1.0 recorded, {now} here" in found.elsewhere
    assert any(line.startswith("blas: openblas 0.1 Prescott pthreads recorded, ") for line in found.elsewhere)


def test_what_is_recorded_is_true(folder: Path, tmp_path: Path) -> None:
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["python"] == ".".join(map(str, sys.version_info[:3]))
    import numpy as np

    assert settings["packages"]["numpy"] == np.__version__
    kernels = {each.get("architecture") for each in threadpool_info() if each["user_api"] == "blas"}
    assert {each["kernel"] for each in settings["blas"]} <= kernels
    assert settings | about() == settings
    assert "command" not in settings
    done = call("run", "mine.py", "--out", "a folder", cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads((tmp_path / "a folder" / "settings.json").read_text())["command"] == (
        "netsim run mine.py --out 'a folder'"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (STUDY + "\n", "has changed since it ran"),
        ("def mine(study) -> None:\n    pass\n", "has changed since it ran"),
        (None, "must be an existing Python file"),
    ],
)
def test_a_file_that_changed_or_went_is_reported(text: str | None, expected: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").unlink()
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(BadInput, match=rf"^run folder = [^\n]*{expected}[^\n]*$"):
        netsim.studies.verify(folder)


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("settings.json", lambda text: text.replace('"seed"', '"sed"'), "it has no parameter 'sed' any more"),
        ("settings.json", lambda text: text.replace('"seed": 3', '"seed": "3"'), "seed = '3': must be of type int"),
        ("summary.json", lambda text: text[:100], "it cannot be read"),
        ("settings.json", lambda text: text.replace('"partial": false', '"partial": true'), "it is partial"),
    ],
)
def test_what_cannot_be_repeated_is_refused_in_one_line(name: str, change: Any, expected: str, folder: Path) -> None:
    edit(folder, name, change)
    with pytest.raises(BadInput, match=rf"^run folder = [^\n]*{expected}[^\n]*$"):
        netsim.studies.verify(folder)


def test_the_command_its_words_and_its_status(folder: Path, tmp_path: Path) -> None:
    same = call("verify", "out", cwd=tmp_path)
    assert (same.returncode, same.stdout) == (0, "out: identical\n")
    edit(folder, "rounds.csv", cell(folder, 3, "spread", lambda old: 7))
    other = call("verify", "out", cwd=tmp_path)
    assert other.returncode == 1
    assert other.stdout.startswith(
        "out: differs; it begins in rounds.csv, algorithm mine, round 3, column spread: 7 rec"
    )
    shutil.rmtree(folder)
    none = call("verify", "out", cwd=tmp_path)
    assert none.returncode == 2
    assert none.stderr == "netsim: run folder = 'out': must be what `netsim run` wrote; there is no such folder\n"


def test_each_point_of_a_sweep(folder: Path, tmp_path: Path) -> None:
    netsim.studies.sweep(str(tmp_path / "mine.py"), out=tmp_path / "sweep", seed=range(2))
    point = tmp_path / "sweep" / "points" / "seed=1"
    edit(point, "rounds.csv", cell(point, 3, "spread", lambda old: 7))
    done = call("verify", "sweep", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "sweep/points/seed=0: identical"
    assert done.stdout.splitlines()[1].startswith("sweep/points/seed=1: differs; it begins in rounds.csv")


# --- what it came of --------------------------------------------------------------------------------------------------


def test_a_changed_method_or_table_is_named_as_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method, table = tmp_path / "own.py", tmp_path / "rows.csv"
    method.write_text("from netsim.agents import DKLA\n\nclass Mine(DKLA):\n    '''As it is.'''\n")
    table.write_text("x,y\n" + "".join(f"{i},{i}\n" for i in range(60)))
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    small: dict[str, Any] = {"agents": 5, "features": 6, "rounds": 4, "algorithms": "DKLA"}
    place = find_study("coke").execute(**small, data="rows", method=str(method)).save(tmp_path / "out")
    assert netsim.studies.verify(place).state == "identical"
    texts = {path: path.read_text() for path in (method, table)}
    for path, name in ((method, str(method)), (table, "$NETSIM_DATA/rows.csv")):
        path.write_text(texts[path].replace("As", "Was").replace("7", "8"))
        with pytest.raises(BadInput, match=r"must be of a study as it is now; [^;]* changed since it ran$") as caught:
            netsim.studies.verify(place)
        assert f"; {name} has changed since it ran" in str(caught.value)
        path.write_text(texts[path])
    assert netsim.studies.verify(place).state == "identical"


def test_another_source_of_netsim_is_a_fact_and_one_that_was_not_recorded_is_reported(folder: Path) -> None:
    def other(text: str) -> str:
        settings = json.loads(text)
        settings["source_sha256"]["netsim"] = "0" * 64
        return json.dumps(settings)

    edit(folder, "settings.json", other)
    assert netsim.studies.verify(folder).elsewhere == ("the source of netsim has changed",)
    edit(folder, "settings.json", lambda text: text.replace("source_sha256", "unknown"))
    (output,) = netsim.studies.verify(folder).elsewhere
    assert output.startswith("recorded without the SHA-256 of netsim's source and of the files read")


# --- traces -----------------------------------------------------------------------------------------------------------

NAME = "trace-mine.npz"
SLOWER = STUDY.replace("Link(loss=loss)", "Link(loss=loss, latency=0.01, rate=1e4)")


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(SLOWER)
    return find_study(str(tmp_path / "mine.py")).execute(trace=True, seed=3).save(tmp_path / "traced")


def change_trace(folder: Path, **changes: Callable[[Any], None]) -> None:
    """Change parts of the trace, and rewrite it with valid checksums."""
    with np.load(folder / NAME) as file:
        parts = {name: file[name].copy() for name in file.files}
    for name, change in changes.items():
        change(parts[name])
    np.savez_compressed(folder / NAME, **parts)
    seal(folder)


def test_a_trace_is_repeated_and_compared(traced: Path) -> None:
    assert netsim.studies.verify(traced).state == "identical"


def test_a_trace_of_another_run_is_reported(traced: Path, tmp_path: Path) -> None:
    other = find_study(str(tmp_path / "mine.py")).execute(trace=True, seed=4).save(tmp_path / "other")
    shutil.copy(other / NAME, traced / NAME)
    seal(traced)
    found = netsim.studies.verify(traced)
    assert found.state == "differs"
    assert found.where.startswith(f"{NAME}, ")


@pytest.mark.parametrize(
    ("stream", "column", "by", "expected"),
    [
        ("details", "round", 1, ", column round: 2 recorded, 1 now"),
        ("left", "bits", 8, ", column bits: "),
        ("left", "time", 1e-3, ", column time: "),
    ],
)
def test_what_no_hash_covers_is_compared(stream: str, column: str, by: float, expected: str, traced: Path) -> None:
    """The trace hash does not cover data that is stored only for replays."""

    def change(records: Any) -> None:
        records[column][0] += by

    change_trace(traced, **{stream: change})
    found = netsim.studies.verify(traced)
    assert found.state == "differs"
    assert found.where.startswith(f"{NAME}, {stream}, sender ")
    assert expected in found.where


def test_last_digits_of_a_trace(traced: Path) -> None:
    def change(records: Any) -> None:
        records["time"] *= 1 + 1e-13

    change_trace(traced, left=change)
    found = netsim.studies.verify(traced)
    assert found.state == "equal to 1e-9"
    assert found.where.startswith(f"{NAME}, left, ")


def test_a_damaged_trace_is_reported(traced: Path, tmp_path: Path) -> None:
    data = bytearray((traced / NAME).read_bytes())
    middle = len(data) // 2
    data[middle : middle + 200] = bytes(200)
    (traced / NAME).write_bytes(data)
    done = call("verify", "traced", cwd=tmp_path)
    assert done.returncode == 2
    why = f"{NAME} has changed since it was written: its SHA-256 is not that in SHA256SUMS"
    assert done.stderr == f"netsim: run folder = 'traced': must be what `netsim run` wrote; {why}\n"
    seal(traced)
    done = call("verify", "traced", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"netsim: trace = 'traced/{NAME}': must be ")
    assert len(done.stderr.splitlines()) == 1


def test_a_changed_trace_is_reported(traced: Path) -> None:
    def change(records: Any) -> None:
        records["wire_bits"][0] += 8

    change_trace(traced, sent=change)
    with pytest.raises(
        BadInput, match=r"^trace = .*: must be unchanged; its events do not have the hash that it record"
    ):
        netsim.studies.verify(traced)


@pytest.mark.slow
def test_a_trace_is_the_same_on_either_core(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SLOWER)
    for core, name in (("", "compiled"), ("python", "python")):
        done = call_apart("run", "mine.py", "--trace", "--out", name, cwd=tmp_path, NETSIM_CORE=core)
        assert done.returncode == 0, done.stderr
    for core, name in (("python", "compiled"), ("", "python")):
        assert call_apart("verify", name, cwd=tmp_path, NETSIM_CORE=core).stdout.startswith(f"{name}: identical\n")
