"""Experiments in TOML: the same cells as in Python, and errors that name the place in the file."""

import json
from pathlib import Path

import pandas as pd
import pytest

from netsim import BadInput, Experiment
from netsim.studies import cli
from netsim.studies.experiment.command import ExperimentFile, experiment_in
from netsim.studies.experiment.repeat import repeat
from tests.command import ROOT, call
from tests.parts import every
from tests.test_docs import BLOCK

pytestmark = pytest.mark.usefixtures("all_undrawn")

OWN = '''
"""Parts, and an experiment of them."""
from dataclasses import dataclass

import netsim
from netsim import Ending, Experiment, Link, Links, Method, vary, topology
from netsim.agents import DKLA, LocalProblem, Squared
from netsim.coders import Exact, Uniform
from netsim.faults import Crash
import numpy as np


def problem(seed, agents=4, noise=0.1):
    rng = np.random.default_rng(seed)
    inputs = [rng.normal(size=(8, 3)) for _ in range(agents)]
    costs = [LocalProblem(x, x.sum(1) + noise * rng.normal(size=8), loss=Squared(), regularizer=1e-3) for x in inputs]
    return costs, None, lambda models: {"gap": float(((models - 1) ** 2).mean())}


def made(setup, rho=0.1):
    return {node: DKLA(setup.task.cost(node), setup.rounds, rho=rho) for node in setup.graph}


def fading(ends, mean=0.1):
    return Link(loss=mean)


@dataclass(frozen=True)
class Slow:
    seconds: float = 0.1

    def __call__(self, ends):
        return Link(latency=self.seconds)


def norm(agents):
    return {"norm": sum(float(abs(agent.theta).sum()) for agent in agents.values())}


def moved(run):
    return {"moved": run.rounds["norm"].iloc[-1]}


experiment = Experiment(
    problem=problem,
    methods={
        "plain": DKLA,
        "coded": Method(DKLA, rho=0.2, coder=Uniform(4), label={}),
        "made": made,
    },
    networks={
        "ring": Links(graph=topology.ring(4), link=Link(loss=0.2), round_period=2.0, faults=[Crash(0, at=6.0)]),
        "drawn": Links(graph=lambda seed: topology.random_geometric(4, 2.0, seed=seed), link=Slow(0.2)),
        "lost": Links(link=fading),
    },
    names={"coder": "methods.coded.coder", "noise": "problem.noise"},
    grid=vary("coder", {"4-bit": Uniform(4), "float64": Exact()}) * vary("noise", [0.0, 0.2]),
    measure=[norm],
    after=[moved],
    ending=Ending(target=0.1),
    seeds=[0, 3],
    rounds=4,
)
'''
TOML = """
# The same in TOML.
seeds = [0, 3]
rounds = 4
names = { coder = "methods.coded.coder", noise = "problem.noise" }
measure = ["own.norm"]
after = ["own.moved"]
ending = { target = 0.1 }
problem = { kind = "own.problem" }

[methods]
plain = { kind = "netsim.agents.DKLA" }
made = { kind = "own.made" }
coded = { kind = "netsim.agents.DKLA", rho = 0.2, coder = { kind = "netsim.coders.Uniform", bits = 4 } }

[networks.ring]
graph = { kind = "netsim.topology.ring", agents = 4 }
link = { loss = 0.2 }
round_period = 2.0
faults = [{ kind = "netsim.faults.Crash", agent = 0, at = 6.0 }]

[networks.drawn]
graph = { kind = "netsim.topology.random_geometric", agents = 4, radius = 2.0 }
link = { kind = "own.Slow", seconds = 0.2 }

[networks.lost]
link = { kind = "own.fading" }

[grid]
noise = [0.0, 0.2]

[grid.coder]
4-bit = { kind = "netsim.coders.Uniform", bits = 4 }
float64 = { kind = "netsim.coders.Exact" }

[over]
"method.rho" = { low = 0.1, high = 1.0, log = true }
"methods.coded.coder" = [{ kind = "netsim.coders.Uniform", bits = 8 }, { kind = "netsim.coders.Exact" }]
"""
SMALL = """
# A small one.
rounds = 2
seeds = "0:2"
problem = { kind = "own.problem", agents = 3 }
names = { bits = "methods.coded.coder.bits" }
methods.coded = { kind = "netsim.agents.DKLA", rho = 0.1, coder = { kind = "netsim.coders.Uniform", bits = 4 } }
over."methods.coded.coder" = [{ kind = "netsim.coders.Exact" }]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "own.toml").write_text(TOML)
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path


def netsim(*words: str) -> None:
    assert not cli.app([*words], standalone_mode=False, prog_name="netsim")


def found_in(name: str) -> ExperimentFile:
    found = experiment_in(name)
    assert found is not None
    return found


def keys(found: ExperimentFile, made: Experiment | None = None) -> dict[tuple[str, ...], str]:
    with found.known():
        return {(*cell.condition, str(cell.seeds.seed)): cell.key for cell in (made or found.make()).cells()}


def test_cells_are_those_of_the_same_experiment_in_python() -> None:
    # In Python the graph is a lambda, so its key differs from that of ``random_geometric`` in TOML.
    python, toml = keys(found_in("own.py")), keys(found_in("own.toml"))
    assert {*map(frozenset, python)} == {*map(frozenset, toml)}
    ours = {frozenset(name): key for name, key in python.items() if "network=drawn" not in name}
    theirs = {frozenset(name): key for name, key in toml.items() if "network=drawn" not in name}
    assert len(ours) == 2 * 2 * 2 * 3 * 2
    assert ours == theirs


def test_values_are_those_that_python_gives_to_functions() -> None:
    values = {"problem.noise": 0.3, "methods.made.rho": 0.7, "networks.lost.link.mean": 0.4}
    python = found_in("own.py")
    text = TOML.replace('"own.problem" }', '"own.problem", noise = 0.3 }').replace(
        'own.made" }', 'own.made", rho = 0.7 }'
    )
    Path("own.toml").write_text(
        text.replace('"own.fading" }', '"own.fading", mean = 0.4 }').replace("noise = [0.0, 0.2]", "")
    )
    toml = found_in("own.toml")
    with python.known():
        changed = python.with_flags({"noise": ["0.3"]}).with_values(values)
    ours, theirs = (
        {name: key for name, key in each.items() if "network=lost" in name}
        for each in (keys(python, changed), keys(toml))
    )
    assert len(ours) == 12
    assert {frozenset(name): key for name, key in ours.items()} == {
        frozenset(name): key for name, key in theirs.items()
    }


def test_a_drawn_graph_follows_the_seed() -> None:
    toml = found_in("own.toml")
    with toml.known():
        mine = [cell for cell in toml.make().cells() if cell.columns["network"] == "drawn"]
        places = {cell.seeds.seed: str(cell.setup().positions) for cell in mine[:4]}
        assert places[0] != places[3]


def test_flags_set_values_of_a_toml_file(capsys: pytest.CaptureFixture[str]) -> None:
    netsim("run", "small.toml", "--bits", "4,6", "--set", "problem.agents=4", "--out", "there")
    table = pd.read_csv("there/runs.csv")
    assert list(table["bits"]) == [4, 4, 6, 6]
    assert list(table["transmissions"]) == [4 * 2] * 4
    netsim("run", "small.toml", "--help")
    assert "A small one." in capsys.readouterr().out
    netsim("show", "small.toml")
    assert "methods.coded.coder.bits" in capsys.readouterr().out


def test_tuning_takes_the_table_over() -> None:
    netsim("tune", "small.toml", "--seeds", "10", "--validation", "20", "--candidates", "2", "--out", "tuned")
    (best,) = json.loads(Path("tuned/tuned.json").read_text())["best"]
    assert best["values"]["coder"]["object"] == "Exact()"
    assert (over := found_in("own.toml").over) is not None
    assert (over["method.rho"].levels(3), [each.bits for each in over["methods.coded.coder"].values[:1]]) == (
        [0.1, 0.316228, 1.0],
        [8],
    )
    netsim("run", "small.toml", "--settings", "tuned/tuned.json", "--out", "there")
    kept = json.loads(Path("there/experiment.json").read_text())
    assert kept["settings"] == {"method=coded": {"coder": "Exact()"}}
    assert len(repeat("there", trust=True).same) == 2
    Path("small.toml").write_text(SMALL.replace("coders.Exact", "agents.RunningSums"))
    with pytest.raises(BadInput, match="must have objects that the choices of `over` have; coder was tuned as Exact"):
        netsim("run", "small.toml", "--settings", "tuned/tuned.json", "--out", "there")
    Path("small.toml").write_text(SMALL.partition("over.")[0])
    with pytest.raises(BadInput, match=r"^over: must be given, as .* in the table \[over\] in small\.toml$"):
        netsim("tune", "small.toml", "--out", "other")


def test_a_toml_file_is_repeated_from_its_folder_alone(folder: Path) -> None:
    netsim("sweep", "small.toml", "--bits", "5", "--out", "made")
    assert sorted(each.name for each in Path("made/inputs").iterdir()) == ["own.py", "small.toml"]
    netsim("pack", "made", "--out", "made.zip")
    for name in ("own.py", "small.toml"):
        (folder / name).unlink()
    with pytest.raises(BadInput, match=r"holds files that run code .inputs/small\.toml."):
        repeat("made.zip")
    assert len(repeat("made.zip", trust=True).same) == 2


def test_an_edited_file_beside_it_gives_other_cells(folder: Path) -> None:
    before = keys(found_in("small.toml"))
    (folder / "own.py").write_text(OWN.replace("x.sum(1)", "x.sum(1) + 1"))
    after = keys(found_in("small.toml"))
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())


@pytest.mark.slow
def test_workers_give_the_same(folder: Path) -> None:
    for jobs, out in (("1", "here"), ("2", "there")):
        done = call("run", "small.toml", "--jobs", jobs, "--out", out, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert Path("here/runs.csv").read_bytes() == Path("there/runs.csv").read_bytes()


@pytest.fixture
def lines() -> dict[str, str]:
    return {
        "problem": 'problem = { kind = "own.problem" }',
        "methods": 'methods.a = { kind = "netsim.agents.DKLA", rho = 0.1 }',
    }


@every(
    ("line", "words"),
    [
        ("method = 1", "key = 'method': must be one of .*did you mean 'methods'"),
        ("rounds = 'a'", "rounds = 'a': must be a whole number"),
        ("rounds = true", "rounds = True: must be a whole number"),
        ("rounds = 0", "rounds = 0: must be"),
        ("seeds = '0:x'", "seeds: seeds = '0:x': must be whole numbers"),
        ("seeds = ['a']", "seed = 'a': must be"),
        ("until = 'a'", "until = 'a': must be a number"),
        ("names = { a = 3 }", "names.a = 3: must be a path"),
        ("names = { a = 'method.rhoo' }", "path = 'method.rhoo': .*did you mean 'method.rho'"),
        ("files = [1]", "files = .*: must be a list of paths"),
        ("methods = 3", "methods = 3: must be a table"),
        ("methods.a = 3", r"methods\.a = 3: must be a table with a kind"),
        ("methods.a = { rho = 1 }", r"methods\.a = .*: must be a table with a kind"),
        ("methods.a = { kind = 3 }", r"methods\.a\.kind = 3: must be the full name of a class or function"),
        ("methods.a = { kind = 'DKLA' }", r"methods\.a\.kind = 'DKLA': must be the full name"),
        ("methods.a = { kind = 'netsim.agentz.DKLA' }", r"methods\.a\.kind = .*No module named 'netsim\.agentz'"),
        ("methods.a = { kind = 'own.DKLB' }", r"methods\.a\.kind = 'own\.DKLB': .*has no attribute 'DKLB'"),
        (
            "methods.a = { kind = 'netsim.agents.DKLA', rhoo = 1 }",
            r"methods\.a: parameter of DKLA = 'rhoo': .*mean 'rho'",
        ),
        (
            "methods.a = { kind = 'netsim.agents.DKLA', coder = { kind = 'netsim.coders.Unifrm' } }",
            r"methods\.a\.coder\.kind = 'netsim\.coders\.Unifrm': must be the full name",
        ),
        (
            "methods.a = { kind = 'netsim.agents.DKLA', coder = { kind = 'netsim.coders.Uniform', bits = 'x' } }",
            r"methods\.a\.coder: bits = 'x': must be",
        ),
        ("networks.b = { link = { loss = 2 } }", r"networks\.b\.link: loss = 2: must be a probability"),
        ("networks.b = { link = { los = 2 } }", r"networks\.b\.link: argument of Link = 'los': .*did you mean 'loss'"),
        ("networks.b = { link = 'x' }", r"networks\.b: link = 'x': must be a netsim.Link"),
        ("networks.b = { faults = [{ kind = 'netsim.faults.Crash', at = -1 }] }", r"networks\.b\.faults\[0\]: "),
        ("measure = ['own.norn']", r"measure\[0\] = 'own\.norn': must be the full name"),
        ("measure = [3]", r"measure\[0\] = 3: must be the full name of a function"),
        ("ending = { targt = 1 }", "ending: argument of Ending = 'targt': .*did you mean 'target'"),
        ("grid = { 'method.rho' = 1 }", r"grid\.method\.rho = 1: must be a list of values"),
        ("grid = { 'method.rho' = [] }", r"grid\.method\.rho = \[\]: must be a list of values"),
        ("grid = { method.rho = [1, 2] }", r'grid\.method = .*a path is one name, in quotes: "method\.eta" = '),
        ("over = { 'method.rho' = { low = 1 } }", r"over\.method\.rho = .*must be a table of low, high and log"),
        ("over = { method.rho = { low = 1, high = 2 } }", r"over\.method = .*a path is one name, in quotes"),
        ("over = { 'method.rho' = { low = 2, high = 1 } }", r"over\.method\.rho: high = 1: must be"),
        ("rounds = ", r"must be a TOML file \(Invalid value"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_with_its_place(line: str, words: str, lines: dict[str, str]) -> None:
    rest = [each for name, each in lines.items() if not line.startswith(name)]
    Path("bad.toml").write_text("\n".join([*rest, line]))
    with pytest.raises(BadInput, match=rf"^bad\.toml: {words}") as error:
        netsim("run", "bad.toml")
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_or_does_not_run_is_refused(folder: Path) -> None:
    with pytest.raises(BadInput, match=r"^none\.toml: must be a TOML file \(No such file"):
        netsim("run", "none.toml")
    (folder / "own.py").write_text("1 / 0\n")
    with pytest.raises(BadInput, match=r"^small\.toml: problem\.kind = .*ZeroDivisionError \(own\.py, line 1\)"):
        netsim("run", "small.toml")


def test_the_file_of_the_docs_runs_and_stands_there_whole(tmp_path: Path) -> None:
    source = ROOT / "docs" / "experiments" / "coded.toml"
    blocks = [text for language, text in BLOCK.findall((ROOT / "docs" / "experiments.md").read_text())]
    assert source.read_text() in blocks
    netsim("run", str(source), "--seeds", "0", "--rounds", "3", "--bits", "6", "--out", "out")
    table = pd.read_csv("out/runs.csv")
    assert sorted(set(table["method"])) == ["DKLA", "coded", "mine"]
    assert len(table) == 2 * 2 * 3
    assert "failed" not in set(table["outcome"])
