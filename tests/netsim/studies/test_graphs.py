"""``--topology FILE`` replaces the graph that a study would draw, or is refused with a one-line error."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from netsim.studies import catalogue
from tests.command import call
from tests.parts import every

WHEEL = "hub a\nhub b\nhub c\nhub d\na b\nb c\nc d\nd a\n"
# Studies without this flag: convergecast takes its field of motes from --site, and bench_case has a fixed suite.
WITHOUT = {"convergecast", "bench_case"}

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with graph files."""
    (tmp_path / "wheel.txt").write_text(WHEEL)
    (tmp_path / "parts.txt").write_text("x y\nz w\nw v\n")
    (tmp_path / "motes.csv").write_text("name,x,y\n0,1,2\n")
    return tmp_path


@pytest.mark.slow  # it imports all studies
def test_every_study_that_draws_a_graph_takes_one_from_a_file() -> None:
    for name in catalogue.listed():
        flags = {each.name for each in catalogue.find_study(name).parameters}
        assert ("topology" in flags) == (("graph_seed" in flags and name not in WITHOUT) or name == "omkl"), name


def test_the_graph_is_that_of_the_file(folder: Path) -> None:
    done = call("run", "averaging", "--agents", "5", "--topology", "wheel.txt", "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    ledger = pd.read_csv(folder / "out" / "ledger.csv")
    pairs = {tuple(sorted(map(int, pair))) for pair in zip(ledger["sender"], ledger["receiver"], strict=True)}
    # Nodes hub, a, b, c, d become 0 to 4, in the order in which the file names them.
    assert pairs == {(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (3, 4), (1, 4)}
    read: dict[str, Any] = json.loads((folder / "out" / "settings.json").read_text())
    assert "wheel.txt" in json.dumps(read)
    assert call("verify", "out", cwd=folder).returncode == 0
    (folder / "wheel.txt").write_text(WHEEL.replace("d a\n", ""))
    assert call("verify", "out", cwd=folder).returncode != 0


def test_what_the_reader_left_out_is_told_in_a_line(folder: Path) -> None:
    (folder / "loop.txt").write_text(WHEEL + "a a\n")
    done = call("run", "averaging", "--agents", "4", "--topology", "loop.txt", cwd=folder)
    told, refused = done.stderr.strip().splitlines()
    assert told == "netsim: topology = 'loop.txt', a list of edges: left out 1 edge from a node to itself"
    assert refused.startswith("netsim: topology = 'loop.txt': must have 4 nodes")


@every(
    ("words", "message"),
    [
        ("averaging --topology wheel.txt", "topology = 'wheel.txt': must have 20 nodes, as agents = 20 says; it has 5"),
        (
            "coke --agents 4 --topology wheel.txt",
            "topology = 'wheel.txt': must have 4 nodes, as agents = 4 says; it has 5",
        ),
        (
            "coke --agents 5 --edges 9 --topology wheel.txt",
            "edges = 9: must be left out with topology = 'wheel.txt', whose graph has 8",
        ),
        (
            "flooding --agents 5 --radius 0.5 --topology wheel.txt",
            "radius = 0.5: must be left out with topology = 'wheel.txt', which has the graph",
        ),
        (
            "pushsum --agents 5 --topology parts.txt",
            "topology = 'parts.txt': must be connected; it has 2 parts, the smallest of 2 with node 'x'",
        ),
        ("averaging --topology motes.csv", "topology = 'motes.csv': must be a graph; it has positions of motes, which"),
        ("averaging --topology none.txt", "topology = 'none.txt': must be an existing file"),
        (
            "omkl --topologies ring --topology wheel.txt",
            "topologies = 'ring': must be left out with topology = 'wheel.txt'",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_one_line(words: str, message: str, folder: Path) -> None:
    done = call("run", *words.split(), cwd=folder)
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1].startswith(f"netsim: {message}")


@pytest.mark.slow
@every(
    "words",
    [
        *("coke --rounds 5", "dynamic --rounds 5", "online --rounds 5", "privacy --rounds 3", "mtu --rounds 10"),
        *("neural --rounds 2", "polk --samples 200", "omkl --rounds 10 --repeats 1", "lifetime --rounds 30"),
        *("frontier --rounds 5 --methods COKE", "deep_network --rounds 3", "flooding", "pushsum"),
    ],
)
def test_studies_run_on_it(words: str, folder: Path) -> None:
    done = call("run", *words.split(), "--agents", "5", "--topology", "wheel.txt", cwd=folder)
    assert done.returncode == 0, done.stderr
