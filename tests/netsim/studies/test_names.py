"""Algorithms, agents and settings keep names such as NA, None, null, nan or 1."""

import shutil
from pathlib import Path

import pytest

import netsim
from netsim import results
from netsim.studies import compare
from netsim.studies.catalogue import find_study
from netsim.studies.formats import read_table, write_table
from netsim.studies.verification import verify
from tests.command import call
from tests.netsim.studies.test_files import seal
from tests.parts import only_with

pytestmark = pytest.mark.usefixtures("all_undrawn")

NAMES = ["NA", "None", "null", "nan", "NaN", "N/A", "1", "1.0", "inf", "True"]

NAMED = f"""
from netsim import Agent, Link, Network, topology
import networkx as nx

NAMES = {NAMES!r}

class Talks(Agent):
    async def run(self):
        async for _ in self.rounds(2):
            await self.broadcast("null", 1.0)
            await self.collect()

def named(study, *, word: str = "", seed: int = 0) -> None:
    for name in NAMES:
        graph = nx.relabel_nodes(topology.ring(4), dict(enumerate(["NA", "", "null", "1"])))
        network = Network(graph, Link(latency=0.01), seed=seed)
        study.run(name, network, {{node: Talks() for node in graph}}, [some], 2)

def some(agents):
    return {{"held": 1.0, "open": float("nan")}}
"""


@pytest.fixture(scope="module", params=["csv", pytest.param("parquet", marks=only_with("pyarrow"))])
def room(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    (folder / "named.py").write_text(NAMED)
    find_study(str(folder / "named.py")).execute(trace=True).save(folder / "out", tables=request.param)
    netsim.studies.sweep(str(folder / "named.py"), out=folder / "sweep", word=["NA", "null", ""], tables=request.param)
    return folder


def test_names_come_back_as_they_were(room: Path) -> None:
    found = results.load(room / "out")
    assert found["algorithm"].tolist() == NAMES
    assert found["held"].tolist() == [1.0] * len(NAMES)
    assert len(results.load(room / "out", rounds=True)) == 2 * len(NAMES)
    assert compare.table([str(room / "out")], ["held"])["algorithm"].tolist() == NAMES


def test_settings_come_back_as_they_were(room: Path) -> None:
    found = results.load(room / "sweep")
    assert found["word"].drop_duplicates().tolist() == ["NA", "null", ""]
    assert compare.table([str(room / "sweep")], ["held"])["word"].drop_duplicates().tolist() == ["NA", "null", ""]


def test_the_same_names_are_identical(room: Path) -> None:
    verdict = verify(room / "out")
    assert (verdict.state, verdict.where) == ("identical", "")


def test_what_differs_is_reported_by_its_name(room: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(room / "out", again)
    (path,) = again.glob("rounds.*")
    rounds = read_table(path, text=["algorithm"])
    rounds.loc[rounds["algorithm"] == "null", "held"] += 1.0
    write_table(path, rounds)
    seal(again)
    assert verify(again).where.startswith(f"{path.name}, algorithm null, round 1, column held: ")


def test_the_commands_show_them(room: Path) -> None:
    shown = call("show", "out", cwd=room)
    assert shown.returncode == 0
    assert {line.split()[0] for line in shown.stdout.splitlines() if line.split()[1:2] == ["2"]} == {*NAMES}
    for name in ("NA", "null"):
        done = call("replay", "out", "--algorithm", name, "--out", f"{name}.html", cwd=room)
        assert done.returncode == 0, done.stderr
        done = call("export", "out", "--format", "graphml", "--algorithm", name, "--out", f"{name}.graphml", cwd=room)
        assert done.returncode == 0, done.stderr
    done = call("compare", "out", "--metric", "held", "--out", "held.png", cwd=room)
    assert done.returncode == 0, done.stderr
