"""The scripts of docs/experiments, shortened: they run from the command line and print what the docs show."""

import json
import re
import runpy
import shutil
from pathlib import Path

import pandas as pd
import pytest

from netsim import Experiment
from tests.command import ROOT, Done, call
from tests.netsim.studies.experiment.parts import tuned_file
from tests.test_docs import BLOCK

pytestmark = pytest.mark.usefixtures("all_undrawn")

SCRIPTS = ROOT / "docs" / "experiments"
TUTORIAL = ROOT / "docs" / "tutorials" / "paper.md"
SMALL = """
from netsim import Experiment
from tests.netsim.studies.experiment.parts import least_squares, small


def problem(seed, noise=0.1):
    return least_squares(seed, noise=noise)


experiment: Experiment = small(problem=problem, names={"noise": "problem.noise"}, rounds=5)
"""


def run(script: Path, *flags: str, out: Path) -> Done:
    done = call("run", str(script), *flags, "--out", str(out), cwd=out.parent)
    assert done.returncode == 0, done.stderr
    return done


def keys(folder: Path) -> set[str]:
    return {path.name for path in (folder / "runs").iterdir()}


@pytest.mark.parametrize(
    ("name", "flags", "runs", "columns"),
    [
        ("averaging", ["--seeds", "0", "--rounds", "3"], 9, ["network", "loss", "spread", "mean"]),
        ("own_method", ["--seeds", "0", "--rounds", "5", "--loss", "0.2"], 10, ["network", "median_gap", "verdict"]),
        ("paper", ["--seeds", "0", "--rounds", "5", "--loss", "0.1"], 6, ["network", "median_gap", "verdict"]),
    ],
)
def test_script_runs_by_its_name_and_prints_a_table(
    name: str, flags: list[str], runs: int, columns: list[str], tmp_path: Path
) -> None:
    done = run(SCRIPTS / f"{name}.py", *flags, out=tmp_path / "out")
    (header,) = (words for line in done.stdout.splitlines() if "method" in (words := line.split()))
    assert [each for each in columns if each not in header] == []
    assert f"Results({runs} runs, {runs} of them new: " in done.stdout
    table = pd.read_csv(tmp_path / "out" / "runs.csv")
    assert len(table) == runs
    assert "failed" not in set(table["outcome"])


@pytest.mark.slow
def test_averages_agree_in_the_end(tmp_path: Path) -> None:
    run(SCRIPTS / "averaging.py", "--seeds", "0", "--loss", "0", out=tmp_path / "out")
    table = pd.read_csv(tmp_path / "out" / "runs.csv").set_index("network")
    assert table["mean"].round(6).loc[["ring", "grid"]].between(5.4, 5.6).all()
    assert table["spread"].loc["random"] < table["spread"].loc["grid"] < table["spread"].loc["ring"] < 1.0


def test_show_lists_every_path_of_a_script(tmp_path: Path) -> None:
    done = call("show", str(SCRIPTS / "paper.py"), cwd=tmp_path)
    assert done.returncode == 0
    for path in ("methods.mine.momentum", "problem.reach", "rounds"):
        assert re.search(rf"^ *{path} ", done.stdout, re.MULTILINE)
    assert re.search(r"^loss +networks.rain.link.loss +0.3$", done.stdout, re.MULTILINE)


def test_paper_script_tunes_compares_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (SCRIPTS / "paper.py").read_text()
    assert len(source.splitlines()) <= 80
    for usual, smaller in (
        ("seeds=range(8),", "seeds=range(2), rounds=5,"),
        ("candidates=6, finalists=2", "candidates=2, finalists=1, validation=[200]"),
    ):
        assert source.count(usual) == 1
        source = source.replace(usual, smaller)
    (tmp_path / "paper.py").write_text(source)
    shutil.copy(SCRIPTS / "field.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("paper.py", run_name="__main__")
    printed = capsys.readouterr().out
    heads = [line for line in printed.splitlines() if line.startswith("| network |")]
    for column, head in zip(("candidate", "verdict", "better", "ratio"), heads, strict=True):
        assert f"| {column} |" in head
    assert len(keys(tmp_path / "runs" / "paper")) == 12
    assert (tmp_path / "runs" / "table.tex").read_text().count("mine & $") == 1
    assert (tmp_path / "runs" / "figure.pdf").read_bytes().startswith(b"%PDF")


def test_blocks_of_the_tutorial_stand_in_its_script() -> None:
    source = (SCRIPTS / "paper.py").read_text()
    blocks = [text for language, text in BLOCK.findall(TUTORIAL.read_text()) if language == "python"]
    definitions = [
        part for text in blocks for part in re.split(r"\n\n\n", text) if re.match(r"def|@|experiment =", part)
    ]
    assert len(definitions) == 4
    for part in definitions:
        assert part.rstrip() in source


@pytest.mark.slow
def test_inputs_of_a_folder_repeat_its_cells(tmp_path: Path) -> None:
    flags = ["--seeds", "0", "--rounds", "3"]
    run(SCRIPTS / "paper.py", *flags, out=tmp_path / "first")
    shutil.copytree(tmp_path / "first" / "inputs", tmp_path / "elsewhere")
    run(tmp_path / "elsewhere" / "paper.py", *flags, out=tmp_path / "second")
    assert keys(tmp_path / "first") == keys(tmp_path / "second")
    # With changed data, the keys of all runs change.
    table = tmp_path / "elsewhere" / "field.csv"
    table.write_text(table.read_text().replace("\n0,", "\n0,0", 1))
    run(tmp_path / "elsewhere" / "paper.py", *flags, out=tmp_path / "third")
    assert not keys(tmp_path / "first") & keys(tmp_path / "third")


@pytest.mark.slow
def test_workers_get_the_same_from_a_dataclass_of_the_file(tmp_path: Path) -> None:
    flags = ["--seeds", "0", "--rounds", "5"]
    run(SCRIPTS / "paper.py", *flags, out=tmp_path / "here")
    run(SCRIPTS / "paper.py", *flags, "--jobs", "2", out=tmp_path / "there")
    here, there = (tmp_path / name / "runs.csv" for name in ("here", "there"))
    assert here.read_bytes() == there.read_bytes()


@pytest.mark.slow
def test_run_takes_the_values_that_tune_wrote(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(SMALL)
    over = ["--over", "method.eta=0.05:0.4:log", "--seeds", "100", "--validation", "200"]
    done = call("tune", "small.py", *over, "--out", "tuned", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kept = json.loads((tmp_path / "tuned" / "tuned.json").read_text())
    (best,) = kept["best"]
    settings = ["--settings", "tuned/tuned.json"]
    run(tmp_path / "small.py", *settings, out=tmp_path / "with")
    run(tmp_path / "small.py", "--set", f"methods.D-PSGD.eta={best['values']['eta']}", out=tmp_path / "same")
    run(tmp_path / "small.py", out=tmp_path / "without")
    assert keys(tmp_path / "with") == keys(tmp_path / "same") != keys(tmp_path / "without")
    about = json.loads((tmp_path / "with" / "experiment.json").read_text())
    assert about["settings"] == {"method=D-PSGD": {"eta": f"{best['values']['eta']:g}"}}
    assert about["spent"] == [100, 200]
    repeated = call("verify", "with", "--trust", cwd=tmp_path)
    assert "4 cells are the same, 0 differ, 0 cannot be repeated" in repeated.stdout
    other = run(tmp_path / "small.py", *settings, "--noise", "0.1,0.2", out=tmp_path / "other")
    assert "The settings of tuned.json were chosen with noise = 0.1 (here 0.2)." in other.stdout
    refused = call("run", "small.py", *settings, "--seeds", "200", cwd=tmp_path)
    assert refused.returncode == 2
    assert "seeds = [200]: must not be the seeds on which settings were tuned" in refused.stderr


def test_settings_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(SMALL)
    tuned_file(tmp_path / "object.json", [({"method": "DKLA"}, {"coder": {"object": "Exact()"}})])
    (tmp_path / "other.json").write_text("{}")
    for name, why in (
        ("object.json", "must have objects that the choices of `over` have; coder was tuned as Exact()"),
        ("other.json", "must be a tuned.json that netsim tune wrote"),
    ):
        refused = call("run", "small.py", "--settings", name, cwd=tmp_path)
        assert refused.returncode == 2
        assert refused.stderr == f"netsim: settings = {name!r}: {why}\n"


def test_an_interrupted_command_says_that_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "small.py").write_text(SMALL)
    monkeypatch.setattr(Experiment, "run_cells", interrupted)
    over = ["--over", "method.eta=0.1:0.2"]
    for words in (["run", "small.py"], ["sweep", "small.py"], ["tune", "small.py", *over]):
        done = call(*words, "--out", "there", cwd=tmp_path)
        assert done.returncode == 130
        assert (
            done.stderr.lstrip()
            == "netsim: interrupted; what is done in there is whole, and the same command goes on\n"
        )
