"""Experiments in files, on the command line: run, sweep, tune, show, pack and verify."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from netsim import BadInput, Experiment
from netsim.studies import cli
from netsim.studies.experiment.command import experiment_in
from netsim.studies.experiment.repeat import pack, repeat
from netsim.studies.experiment.tuning import range_of
from netsim.studies.sweeps.grid import numbers
from netsim.studies.sweeps.point import Limits
from tests.parts import every

pytestmark = pytest.mark.usefixtures("all_undrawn")

FILE = '''
"""Counting on a ring."""
import netsim
from netsim import Experiment, Links, Link, Method, vary, topology


class Counts(netsim.Agent):
    """Counts.

    Parameters
    ----------
    step : int
        How much a round counts.
    """

    def __init__(self, rounds, step=1):
        self.number, self.step, self.total = rounds, step, 0

    async def run(self):
        async for _ in self.rounds(self.number):
            self.total += self.step
            await self.broadcast("total", self.total)


def total(agents):
    return {"total": sum(agent.total for agent in agents.values())}

'''
PLAIN = (
    FILE
    + """
experiment = Experiment(
    methods={"counts": Method(Counts)}, networks=Links(link=Link(), graph=topology.ring(3)), measure=[total],
    names={"step": "methods.counts.step", "loss": "network.link.loss"}, grid=vary("loss", [0.0, 0.5]), seeds=[0],
    rounds=2,
)
"""
)
MADE = (
    FILE
    + '''
def made(*, nodes: int = 3) -> Experiment:
    """Count on a ring of some size.

    Parameters
    ----------
    nodes : int
        How many count.
    """
    return Experiment(
        methods={"counts": Counts}, networks=Links(graph=topology.ring(nodes)), measure=[total],
        names={"step": "method.step"}, seeds=[0], rounds=2,
    )
'''
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.py").write_text(PLAIN)
    (tmp_path / "made.py").write_text(MADE)
    return tmp_path


def netsim(*words: str, status: int = 0) -> None:
    """Run the command in this process."""
    assert (cli.app([*words], standalone_mode=False, prog_name="netsim") or 0) == status


def runs(folder: str) -> pd.DataFrame:
    return pd.read_csv(Path(folder) / "runs.csv")


def test_a_file_with_an_experiment_runs(folder: Path) -> None:
    netsim("run", "plain.py", "--step", "2")
    table = runs("runs/plain")
    assert list(table["total"]) == [12, 12]
    assert list(table["loss"]) == [0.0, 0.5]


def test_a_file_with_a_function_has_its_arguments_as_flags() -> None:
    netsim("run", "made.py", "--nodes", "5", "--step", "1,3", "--seeds", "0:2", "--out", "there")
    assert list(runs("there")["total"]) == [10, 10, 30, 30]


def test_a_switch_of_a_function_needs_no_value(folder: Path) -> None:
    (folder / "made.py").write_text(
        MADE.replace("nodes: int = 3)", "nodes: int = 3, more: bool = False)").replace(
            "topology.ring(nodes)", "topology.ring(nodes + more)"
        )
    )
    netsim("sweep", "made.py", "--more", "--nodes=4", "--out", "there")
    netsim("run", "made.py", "--more", "--out", "same")
    netsim("run", "made.py", "--more", "false", "--out", "other")
    netsim("sweep", "made.py", "--more", "false", "--out", "last")
    assert [list(runs(name)["total"]) for name in ("there", "same", "other", "last")] == [[10], [8], [6], [6]]


def test_values_of_a_flag_replace_those_that_the_file_tries() -> None:
    netsim("run", "plain.py", "--loss", "0.25")
    assert "loss" not in runs("runs/plain")
    netsim("sweep", "plain.py", "--loss", "0.1,0.2,0.3", "--out", "swept")
    assert list(runs("swept")["loss"]) == [0.1, 0.2, 0.3]


def test_a_path_that_is_set_replaces_what_the_file_tries_by_its_short_name() -> None:
    netsim("run", "plain.py", "--set", "network.link.loss=0.25")
    assert len(list(Path("runs/plain/runs").iterdir())) == 1
    paths = json.loads(Path("runs/plain/experiment.json").read_text())["paths"]
    assert paths["networks.link.loss"] == "Bernoulli(mean=0.25)"


def test_any_path_may_be_set() -> None:
    netsim("run", "plain.py", "--set", "methods.counts.step=7", "--set", "network.round_period=2", "--loss", "0")
    assert list(runs("runs/plain")["total"]) == [42]
    assert list(runs("runs/plain")["time_s"]) == [4.0]


def test_the_help_is_that_of_the_parts(capsys: pytest.CaptureFixture[str]) -> None:
    netsim("run", "plain.py", "--help")
    text = " ".join(capsys.readouterr().out.split())
    assert "Counting on a ring." in text
    assert "--step INTEGER How much a round counts. [default: 1]" in text
    netsim("run", "made.py", "--help")
    assert "--nodes INTEGER How many count. [default: 3]" in " ".join(capsys.readouterr().out.split())


@every(
    ("words", "message"),
    [
        (["run", "plain.py", "--loss", "1.5"], "loss = .*probability"),
        (["run", "plain.py", "--step", "a"], "step = 'a': must be whole numbers"),
        (["run", "plain.py", "--set", "methods.counts.stp=1"], "did you mean 'methods.counts.step'"),
        (["run", "plain.py", "--set", "nothing"], "set = 'nothing': must be PATH=VALUE"),
        (["run", "plain.py", "--seeds", "x"], "seeds = 'x': must be whole numbers"),
        (["run", "plain.py", "--metric", "totl"], "did you mean 'total'"),
        (["sweep", "plain.py", "--redo", "--out", "a"], "redo = True: must be left out for an experiment"),
        (["sweep", "plain.py", "--stp", "1", "--out", "a"], "flag = '--stp': .*did you mean '--step'"),
        (["tune", "plain.py", "--over", "method.step", "--out", "a"], "=LOW:HIGH or LOW:HIGH:log"),
        (["tune", "plain.py", "--over", "method.stp=1:2", "--out", "a"], "^path = 'method.stp': .*'method.step'"),
        (
            ["tune", "plain.py", "--out", "a"],
            "^over: must be given, .* or beside the experiment, as `over`, in plain.py",
        ),
        (
            ["tune", "plain.py", "--over", "method.step=1:2", "--candidates", "1", "--out", "a"],
            "candidates = 1: must be",
        ),
        (["tune", "coke", "--over", "eta=1:2", "--finalists", "0", "--out", "a"], "finalists = 0: must be"),
        (["sweep", "plain.py", "--timeout", "0", "--out", "a"], "timeout = 0.0: must be"),
        (["sweep", "plain.py", "--memory", "0", "--out", "a"], "memory = 0: must be"),
        (["sweep", "plain.py", "--tables", "parquet", "--out", "a"], "tables = parquet: must be left out"),
        (["run", "made.py", "--nodes", "3,4"], "nodes = '3,4': must be one value"),
        (["run", "plain.py", "--rounds", "3", "--rounds", "4"], "rounds = '3,4': must be one value"),
        (["verify", "plain.zip"], "plain.zip: must be a file that netsim pack wrote"),
        (["pack", ".", "--out", "a.zip"], "must be the folder of an experiment"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message) as error:
        netsim(*words)
    assert "\n" not in str(error.value)


def test_an_argument_without_a_type_is_refused(folder: Path) -> None:
    (folder / "made.py").write_text(MADE.replace("nodes: int", "nodes"))
    with pytest.raises(BadInput, match="must give its parameter 'nodes' the type int, float, str or bool"):
        netsim("run", "made.py")


def test_a_sweep_limits_the_time_and_memory_of_each_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    run = Experiment.run_cells
    monkeypatch.setattr(Experiment, "run_cells", lambda *words, **how: given.update(how) or run(*words, **how))
    netsim("sweep", "plain.py", "--timeout", "90", "--memory", "4000", "--out", "there")
    assert given["limits"] == Limits(90.0, 4000)
    assert list(runs("there")["total"]) == [6, 6]


def test_tuning_takes_what_the_file_has_as_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    over = "over = {'method.step': netsim.OneOf([3, 1, 2])}\n"
    (folder / "plain.py").write_text(PLAIN + over)
    words = ["--seeds", "10", "--validation", "20", "--metric", "total", "--loss", "0"]
    netsim("tune", "plain.py", *words, "--candidates", "3", "--finalists", "1", "--out", "tuned")
    kept = json.loads(Path("tuned/tuned.json").read_text())
    assert [each["values"] for each in kept["best"]] == [{}], "of 1, 3 and 1 the first is the method as it is"
    assert len(list(Path("tuned/runs").iterdir())) == 3 + 1
    netsim("tune", "plain.py", *words, "--over", "method.step=-5:-1", "--candidates", "3", "--out", "other")
    kept = json.loads(Path("other/tuned.json").read_text())
    assert [each["values"] for each in kept["best"]] == [{"step": -5}]
    (folder / "plain.py").write_text(PLAIN + "over = [1]\n")
    with pytest.raises(BadInput, match=r"over = \[1\]: must be a mapping"):
        netsim("tune", "plain.py", "--out", "third")


def test_an_unknown_metric_is_refused_after_the_first_run() -> None:
    for words in (["run", "plain.py"], ["tune", "plain.py", "--over", "method.step=1:2"]):
        with pytest.raises(BadInput, match=r"metric = 'totl': must be one of .*did you mean 'total'\?\)$"):
            netsim(*words, "--seeds", "100:103", "--metric", "totl", "--out", words[0])
        assert len(list(Path(words[0], "runs").iterdir())) == 1
    # The existing results contain the names of all metrics, so the error precedes any run.
    with pytest.raises(BadInput, match="metric = 'totl'"):
        netsim("run", "plain.py", "--seeds", "100:103", "--metric", "totl", "--out", "run")
    assert len(list(Path("run/runs").iterdir())) == 1


def test_two_experiments_in_a_file_are_refused(folder: Path) -> None:
    (folder / "two.py").write_text(MADE + "\ndef other() -> Experiment:\n    return made()\n")
    with pytest.raises(BadInput, match="one function -> Experiment, not 2"):
        experiment_in("two.py")


def test_a_file_without_an_experiment_is_none(folder: Path) -> None:
    (folder / "none.py").write_text("print('once')\n")
    assert experiment_in("none.py") is None
    assert experiment_in("missing.py") is None


def test_show_lists_the_paths(capsys: pytest.CaptureFixture[str]) -> None:
    netsim("show", "plain.py")
    text = capsys.readouterr().out
    assert "methods.counts.step" in text
    assert "networks.link.loss" in text


def test_tuning_writes_what_it_chose(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--over", "method.step=1:9", "--seeds", "10:12", "--validation", "20:22", "--metric", "total"]
    netsim("tune", "plain.py", *words, "--out", "tuned")
    kept = json.loads(Path("tuned/tuned.json").read_text())
    assert kept["spent"] == [10, 11, 20, 21]
    assert {each["condition"][0] for each in kept["best"]} == {"loss=0.0", "loss=0.5"}
    assert "method=counts" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "found"), [("0:3", [0, 1, 2]), ("4,7:9", [4, 7, 8]), ("0:10:5", [0, 5])])
def test_numbers_are_lists_and_ranges(text: str, found: list[int]) -> None:
    assert numbers("seeds", text) == found


def test_ranges_are_whole_where_both_ends_are() -> None:
    found = dict(range_of(each) for each in ("a.b=1:8", "c=0.01:1:log"))
    assert found["a.b"].levels(8) == list(range(1, 9))
    assert found["c"].levels(3) == [0.01, 0.1, 1.0]


# --- packed experiments -----------------------------------------------------------------------------------------------


def test_a_packed_experiment_is_repeated_from_the_file_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    netsim("run", "plain.py", "--step", "2", "--out", "made")
    netsim("pack", "made", "--out", "made.zip")
    (folder / "plain.py").unlink()
    netsim("verify", "made.zip", "--trust")
    assert "2 cells are the same, 0 differ, 0 cannot be repeated" in capsys.readouterr().out


def test_code_of_others_is_not_run_unless_trusted() -> None:
    netsim("run", "plain.py", "--out", "made")
    with pytest.raises(BadInput, match=r"holds files that run code .inputs/plain\.py.; read them, then"):
        repeat("made")


def test_data_of_the_folder_are_used(folder: Path) -> None:
    (folder / "graph.csv").write_text("a,b\n0,1\n1,2\n")
    text = (
        FILE
        + """
import networkx as nx
import pandas as pd

def network(setup):
    graph = nx.from_pandas_edgelist(pd.read_csv("graph.csv"), "a", "b")
    return netsim.Network(graph, seed=setup.seeds.network)

experiment = Experiment(methods={"counts": Counts}, networks=network, measure=[total], seeds=[0], rounds=2)
"""
    )
    (folder / "own.py").write_text(text)
    netsim("run", "own.py", "--out", "made")
    assert sorted(each.name for each in Path("made/inputs").iterdir()) == ["graph.csv", "own.py"]
    pack("made", "made.zip")
    (folder / "graph.csv").unlink()
    assert repeat("made.zip", trust=True)


def test_a_changed_result_is_found() -> None:
    netsim("run", "plain.py", "--loss", "0", "--out", "made")
    (place,) = (path for path in Path("made/runs").iterdir())
    kept = json.loads((place / "run.json").read_text())
    kept["row"]["outcome"] = "diverged"
    (place / "run.json").write_text(json.dumps(kept))
    netsim("verify", "made", "--trust", status=1)
    (place / "rounds.csv").write_text("round,total\n1,2\n")
    found = repeat("made", trust=True)
    assert found.different == ["method = counts, seed = 0: its files are damaged"]


def test_what_was_changed_in_a_folder_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    netsim("run", "plain.py", "--out", "made")
    table, input_ = Path("made/runs.csv"), Path("made/inputs/plain.py")
    whole, code = table.read_text(), input_.read_text()
    table.write_text(whole.replace("0.5,counts", "0.7,counts"))
    input_.write_text(f"{code}# read\n")
    found = repeat("made", trust=True)
    assert (len(found.same), found.different, bool(found)) == (2, [], False)
    assert found.tables == ["runs.csv has 1 rows that are no cell's, and lacks those of 1 cells"]
    assert found.notes == ["inputs/plain.py is not the file that the runs read: its SHA-256 is another"]
    table.write_text(whole)
    input_.write_text(code.replace("self.total += self.step", "self.total -= self.step"))
    found = repeat("made", trust=True)
    (why,) = found.unknown
    assert (why, len(found.unknown[why])) == ("because of another method (the code of Counts has changed)", 2)
    input_.write_text(code.replace("topology.ring(3)", "topology.path(3)").replace("rounds=2", "rounds=3"))
    assert [*repeat("made", trust=True).unknown] == ["because of another network and rounds (2 became 3)"]
    input_.write_text(code.replace("rounds=2", "rounds=3"))
    netsim("verify", "made", "--trust", status=1)
    assert "cannot be repeated, because of another rounds (2 became 3): loss = " in capsys.readouterr().out


def test_cells_that_were_removed_are_missed() -> None:
    import shutil

    netsim("run", "plain.py", "--loss", "0", "--out", "made")
    assert repeat("made", trust=True)
    (place,) = Path("made/runs").iterdir()
    shutil.rmtree(place)
    found = repeat("made", trust=True)
    assert (found.same, found.different) == ([], ["method = counts, seed = 0: its files are missing"])


def test_data_given_by_a_path_are_the_same_in_another_folder(folder: Path) -> None:
    rows = "\n".join(f"{number / 40},{number % 7}" for number in range(40))
    (folder / "own.csv").write_text(f"x,y\n{rows}\n")
    (folder / "own.py").write_text("""
from pathlib import Path
from netsim import Experiment, Method
from netsim.agents import CTA
from netsim.scenarios.tasks.problems import KernelRegression

here = Path(__file__).resolve().parent
problem = KernelRegression(data=here / "own.csv", agents=4, features=5)
experiment = Experiment(problem=problem, methods=Method(CTA, eta=0.1), rounds=2, seeds=[0])
""")
    netsim("run", "own.py", "--out", "made")
    pack("made", "made.zip")
    (folder / "own.csv").unlink()
    assert len(repeat("made.zip", trust=True).same) == 1


def test_a_file_read_as_the_script_starts_is_packed(folder: Path) -> None:
    (folder / "ring.csv").write_text("source,target\n0,1\n1,2\n2,0\n")
    (folder / "own.py").write_text(PLAIN.replace("topology.ring(3)", 'topology.read("ring.csv")'))
    netsim("run", "own.py", "--loss", "0", "--out", "made")
    assert Path("made/inputs/ring.csv").is_file()
    pack("made", "made.zip")
    (folder / "ring.csv").unlink()
    assert len(repeat("made.zip", trust=True).same) == 1


def test_the_folder_of_an_experiment_is_no_runs_folder() -> None:
    netsim("run", "plain.py", "--loss", "0", "--out", "made")
    with pytest.raises(BadInput, match="must be of a study; it is of an experiment, whose runs are in its"):
        netsim("compare", "made", "--metric", "total")


def test_files_outside_are_refused(folder: Path) -> None:
    import zipfile

    with zipfile.ZipFile("bad.zip", "w") as packed:
        packed.writestr("inputs/../../evil.py", "1")
    with pytest.raises(BadInput, match="no files outside"):
        repeat("bad.zip", trust=True)
    assert not (folder.parent / "evil.py").exists()


def test_a_helper_beside_the_file_is_found_and_packed(folder: Path) -> None:
    (folder / "sizes.py").write_text("NODES = 4\n\ndef nodes():\n    return NODES\n")
    text = PLAIN.replace("topology.ring(3)", "topology.ring(sizes.nodes())").replace(
        "import netsim\n", "import netsim, sizes\n"
    )
    (folder / "plain.py").write_text(text)
    netsim("run", "plain.py", "--loss", "0", "--out", "made")
    assert list(runs("made")["total"]) == [8]
    pack("made", "made.zip")


def test_a_folder_of_the_file_is_no_part_of_a_cell(folder: Path) -> None:
    (folder / "graph.csv").write_text("a,b\n0,1\n1,2\n")
    text = (
        FILE
        + """
from pathlib import Path
import networkx as nx
import pandas as pd

HERE = Path(__file__).parent

def network(setup, file=HERE / "graph.csv"):
    return netsim.Network(nx.from_pandas_edgelist(pd.read_csv(file), "a", "b"), seed=setup.seeds.network)

def ring(setup):
    return netsim.Network(topology.ring(3), seed=setup.seeds.network)

experiment = Experiment(
    methods={"counts": Counts}, networks={"file": network, "ring": ring}, measure=[total], seeds=[0], rounds=2
)
"""
    )
    (folder / "own.py").write_text(text)
    netsim("run", "own.py", "--out", "made")
    assert repeat("made", trust=True)
    (folder / "graph.csv").write_text("a,b\n0,1\n1,2\n2,3\n")
    netsim("run", "own.py", "--out", "made")
    table = runs("made").set_index("network")
    assert (table.loc["file", "total"], table.loc["ring", "total"]) == (8, 6)
    read = [json.loads(path.read_text()) for path in Path("made/runs").glob("*/run.json")]
    assert {each["columns"]["network"]: len(each["read"]) for each in read} == {"file": 1, "ring": 0}


def test_show_says_how_the_runs_of_a_folder_ended(capsys: pytest.CaptureFixture[str]) -> None:
    netsim("run", "plain.py", "--out", "made")
    capsys.readouterr()
    netsim("show", "made")
    assert "2 runs of plain.py, by outcome" in capsys.readouterr().out


def test_problems_with_errors_of_their_own_have_tables_of_their_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
from netsim import Experiment, Method
from netsim.agents import DPSGD
from tests.netsim.studies.experiment.parts import least_squares


def other(seed):
    costs, graph, measure = least_squares(seed)
    return costs, graph, lambda models: {"far": 2 * measure(models)["gap"]}


experiment = Experiment(
    methods={"D-PSGD": Method(DPSGD, eta=0.1)}, problem={"one": least_squares, "two": other}, seeds=[0], rounds=3
)
"""
    (folder / "two.py").write_text(text)
    netsim("run", "two.py", "--out", "made")
    printed = capsys.readouterr().out
    assert "gap over the seeds, one: survivors, median of all runs" in printed
    assert "far over the seeds, two: survivors, median of all runs" in printed
    assert (folder / "made" / "report.html").is_file()
