"""``netsim verify``: what comes of a run folder when it is repeated."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_info

import netsim
from netsim import BadInput
from netsim.studies._about import about, environment
from netsim.studies.catalogue import find
from tests.netsim.test_cli import call
from tests.netsim.test_files_show import seal

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
    return find(str(tmp_path / "mine.py")).execute(seed=3).save(tmp_path / "out")


def edit(folder: Path, name: str, change: Callable[[str], str]) -> None:
    text = (folder / name).read_text()
    assert change(text) != text
    (folder / name).write_text(change(text))
    seal(folder)


def test_the_same_comes_out(folder: Path) -> None:
    found = netsim.verify(folder)
    assert (found.state, found.where, found.others, found.elsewhere) == ("identical", "", (), ())
    assert found


def test_parquet_too(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    study = find(str(tmp_path / "mine.py")).execute(seed=3)
    place = study.save(tmp_path / "columns", tables="parquet")
    assert not list(place.glob("*.csv"))
    assert netsim.verify(place).state == "identical"


def cell(folder: Path, row: int, column: str, value: Any) -> Callable[[str], str]:
    names = (folder / "rounds.csv").read_text().splitlines()[0].split(",")

    def change(text: str) -> str:
        lines = [line.split(",") for line in text.splitlines()]
        lines[row][names.index(column)] = str(value(lines[row][names.index(column)]))
        return "\n".join(map(",".join, lines)) + "\n"

    return change


def test_last_digits(folder: Path) -> None:
    edit(folder, "rounds.csv", cell(folder, 2, "spread", lambda old: float(old) * (1 + 1e-12)))
    found = netsim.verify(folder)
    assert found.state == "equal to 1e-9"
    assert found.where.startswith("rounds.csv, algorithm mine, round 2, column spread: ")
    # The hash tells of bits that no number of the tables shows to nine digits.
    edit(folder, "summary.json", lambda text: text.replace(json.loads(text)["trace_hash"], "0" * 32))
    assert netsim.verify(folder).state == "equal to 1e-9"
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
    found = netsim.verify(folder)
    assert not found
    assert found.state == "differs"
    names = old.splitlines()[0].split(",")
    before = old.splitlines()[row].split(",")[names.index(column)]
    said = f"rounds.csv, algorithm mine, round {row}, column {column}: {value(before)} recorded, {before} now"
    assert found.where == said
    assert found.others == ("other.csv",)


def test_a_hash_alone(folder: Path) -> None:
    edit(folder, "summary.json", lambda text: text.replace(json.loads(text)["trace_hash"], "0" * 32))
    found = netsim.verify(folder)
    assert found.state == "differs"
    assert found.where.startswith(f"summary.json, trace_hash: {'0' * 32} recorded, ")


def test_measured_seconds_do_not_count(folder: Path) -> None:
    edit(folder, "other.csv", lambda text: text.replace("1.0", "7.5"))
    assert netsim.verify(folder).state == "identical"


def test_other_versions_are_named_as_facts(folder: Path) -> None:
    def older(text: str) -> str:
        settings = json.loads(text)
        settings["packages"]["numpy"] = "1.0"
        settings["blas"] = [{"library": "openblas", "version": "0.1", "kernel": "Prescott", "threading": "pthreads"}]
        return json.dumps(settings)

    edit(folder, "settings.json", older)
    found = netsim.verify(folder)
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
    ("text", "says"),
    [
        (STUDY + "\n", "has changed since it ran"),
        ("def mine(study) -> None:\n    pass\n", "has changed since it ran"),
        (None, "must be an existing Python file"),
    ],
)
def test_a_file_that_changed_or_went_is_told(text: str | None, says: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").unlink()
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(BadInput, match=rf"^run folder = [^\n]*{says}[^\n]*$"):
        netsim.verify(folder)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("settings.json", lambda text: text.replace('"seed"', '"sed"'), "it has no parameter 'sed' any more"),
        ("settings.json", lambda text: text.replace('"seed": 3', '"seed": "3"'), "seed = '3': must be of type int"),
        ("summary.json", lambda text: text[:100], "it cannot be read"),
        ("settings.json", lambda text: text.replace('"partial": false', '"partial": true'), "it is partial"),
    ],
)
def test_what_cannot_be_repeated_is_refused_in_one_line(name: str, change: Any, says: str, folder: Path) -> None:
    edit(folder, name, change)
    with pytest.raises(BadInput, match=rf"^run folder = [^\n]*{says}[^\n]*$"):
        netsim.verify(folder)


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
    netsim.sweep(str(tmp_path / "mine.py"), out=tmp_path / "sweep", seed=range(2))
    point = tmp_path / "sweep" / "points" / "seed=1"
    edit(point, "rounds.csv", cell(point, 3, "spread", lambda old: 7))
    done = call("verify", "sweep", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "sweep/points/seed=0: identical"
    assert done.stdout.splitlines()[1].startswith("sweep/points/seed=1: differs; it begins in rounds.csv")
