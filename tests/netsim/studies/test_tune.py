"""Tuning on the command line: known best steps, halving, conditions, resuming, and parameters set by hand."""

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from netsim import BadInput, Between
from netsim.studies import find_study, verify
from netsim.studies.methods_section import methods_section
from tests.command import ROOT, call
from tests.netsim.studies.experiment.parts import tuned_file
from tests.netsim.studies.test_sweep_whole import posix, started

pytestmark = pytest.mark.usefixtures("all_undrawn")

QUADRATIC = str(ROOT / "docs" / "examples" / "quadratic.py")
TUNE = ("tune", QUADRATIC, "--over", "eta=0.1:0.3")
WHOLE = (*TUNE, "--set", "problem.scale=1,2", "--candidates", "10", "--seeds", "100:104", "--validation", "200:202")
COKE: dict[str, Any] = {"agents": 4, "features": 6, "rounds": 5}
COKE_FLAGS = ("--agents", "4", "--features", "6", "--rounds", "5")
FAST = ("--candidates", "3", "--seeds", "100", "--validation", "none")


def good(*words: str, cwd: Path) -> str:
    """Return the output of a command, which must succeed."""
    done = call(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*words: str, cwd: Path) -> str:
    """Return the one-line error of a command, which must fail."""
    done = call(*words, cwd=cwd)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    return done.stderr


def files(folder: Path) -> dict[str, bytes]:
    """Return the result files of a tuning, and the tables of its runs."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.name in ("tuning.csv", "tuned.json", "rounds.csv")
    }


def best(folder: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the chosen values of each condition."""
    kept = json.loads((folder / "tuned.json").read_text())
    return {tuple(each["condition"]): each["values"] for each in kept["best"]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a tuning of both methods at two scales of the start."""
    folder = tmp_path_factory.mktemp("tune")
    said = good(*WHOLE, "--out", "whole", cwd=folder)
    assert "whole: tuning.csv (108 trials), tuned.json, runs/" in said
    (line,) = (line for line in said.splitlines() if re.match(r" *1.0 +descent", line))
    # With a step from 0.25 on, the error grows more than tenfold, as |1 − 9 · 0.25|^20 > 10. These steps are the upper
    # quarter of the range from 0.1 to 0.3.
    assert line.endswith("eta = 0.25, at 0.25")
    return folder / "whole"


def test_the_best_step_of_descent_on_a_quadratic_is_two_by_the_sum_of_its_curvatures(whole: Path) -> None:
    for scale in (1.0, 2.0):
        assert best(whole)[f"problem.scale={scale}", "method=descent"] == {"eta": 2 / (1 + 9)}


def test_momentum_gets_a_best_step_of_its_own(whole: Path) -> None:
    """The best step minimizes the largest root of z² − (1 + β − ηλ) z + β over the curvatures λ = 1 and 9."""

    def factor(eta: float, beta: float = 0.25) -> float:
        sums = [1 + beta - eta * curvature for curvature in (1.0, 9.0)]
        return max(abs((s + (s * s - 4 * beta + 0j) ** 0.5) / 2) for s in sums + [-s for s in sums])

    least = min(Between(0.1, 0.3).levels(9), key=factor)
    for scale in (1.0, 2.0):
        assert best(whole)[f"problem.scale={scale}", "method=momentum"] == {"eta": least}


def test_each_rung_has_the_better_half_and_new_seeds(whole: Path) -> None:
    table = pd.read_csv(whole / "tuning.csv")
    for _, part in table.groupby(["problem.scale", "method"]):
        left = {seed: set(each["candidate"]) for seed, each in part.groupby("seed")}
        assert [len(left[seed]) for seed in sorted(left)] == [10, 5, 3, 3, 3, 3]
        assert left[101] == set(part[part["seed"] == 100].nsmallest(5, "error")["candidate"])
        assert left[200] == left[201] == left[103]
        assert set(part.loc[part["stage"] == "validation", "seed"]) == {200, 201}


def test_a_killed_tuning_goes_on_to_the_same_files(whole: Path, tmp_path: Path) -> None:
    """A killed tuning leaves some complete runs and no result files; it is resumed, and repeats no complete run."""
    shutil.copytree(whole, tmp_path / "again")
    for name in ("tuning.csv", "tuned.json"):
        (tmp_path / "again" / name).unlink()
    untouched, *others = sorted((tmp_path / "again" / "runs").iterdir())
    for each in others[::9]:
        shutil.rmtree(each)
    before = (untouched / "rounds.csv").stat().st_mtime_ns
    good(*WHOLE, "--out", "again", cwd=tmp_path)
    assert files(tmp_path / "again") == files(whole)
    assert (untouched / "rounds.csv").stat().st_mtime_ns == before


@pytest.mark.slow
@posix
def test_killed_by_the_system_it_goes_on_to_the_same_files(whole: Path, tmp_path: Path) -> None:
    """The tuning is started with two processes, killed, and resumed with one."""
    words = [*WHOLE, "--jobs", "2", "--out", "killed"]
    process = started(words, tmp_path)
    while len([*(tmp_path / "killed" / "runs").glob("*/run.json")]) < 10:
        assert process.poll() is None
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "killed" / "tuned.json").exists(), "there was to be something left"
    good(*words, "--jobs", "1", cwd=tmp_path)
    assert files(tmp_path / "killed") == files(whole)


def test_several_parameters_take_each_of_their_levels_once_under_all_conditions_alike(tmp_path: Path) -> None:
    words = ("--over", "descent.beta=0:0.4", "--set", "problem.scale=1,2", *FAST, "--candidates", "6")
    good(*TUNE, *words, "--out", "tuned", cwd=tmp_path)
    table = pd.read_csv(tmp_path / "tuned" / "tuning.csv")
    tried = table[table["candidate"] > 0].set_index(["problem.scale", "method"])[["eta", "beta"]]
    one, two, other = (tried.loc[key].to_numpy() for key in ((1, "descent"), (2, "descent"), (1, "momentum")))
    assert (one == two).all()
    assert list(one[:, 0]) == list(other[:, 0]) == Between(0.1, 0.3).levels(5)
    assert sorted(one[:, 1]) == Between(0.0, 0.4).levels(5) != list(one[:, 1])
    assert pd.isna(other[:, 1]).all(), "a range of one method is its own"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["--over", "eta=1:0.1"],
            "over = 'eta=1:0.1': must be [METHOD.]PARAMETER=LOW:HIGH or LOW:HIGH:log, LOW < HIGH",
        ),
        (["--over", "eta=0:1:log"], "with log LOW > 0"),
        (["--over", "eta=0.1:1:lin"], "LOW:HIGH:log"),
        (["--over", "gamma=0.1:1"], "over: parameter = 'gamma': must be one of beta, eta"),
        (["--over", "newton.eta=0.1:1"], "over: method = 'newton': must be one of descent, momentum"),
        (["--over", "eta=0.1:1", "--over", "eta=0.2:0.4"], "must be the only range of eta; another is 0.1:1"),
        (["--over", "problem.scale=1:2"], "must be a path of methods"),
        ([], "over: must be given, as --over method.eta=0.01:1:log"),
        (["--over", "eta=0.1:1", "--seeds", "0:3"], "seeds = [0]: must be seeds on which nothing else runs"),
        (["--over", "eta=0.1:1", "--validation", "102:104"], "validation = [102]: must be seeds"),
        (["--over", "eta=0.1:1", "--settings", "tuned.json"], "settings = 'tuned.json': must be left out"),
        (["--over", "eta=0.1:1", "--per", "method,scale"], "flag = '--per'"),
    ],
)
def test_bad_input_ends_in_one_line(words: list[str], why: str, tmp_path: Path) -> None:
    assert why in refused("tune", QUADRATIC, *words, "--out", "tuned", cwd=tmp_path)
    assert not any(tmp_path.iterdir())


def test_what_cannot_be_tuned_ends_in_one_line(tmp_path: Path) -> None:
    for study in ("aloha", "averaging", "bench"):
        line = refused("tune", study, "--over", "eta=0.1:1", "--out", "tuned", cwd=tmp_path)
        assert line.startswith(f"netsim: study = '{study}': must be a file with an experiment, or a study that is one")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    assert "must be a new or empty folder" in refused(*TUNE, "--out", "full", cwd=tmp_path)
    for given in (("--eta", "0.1,0.2", "--over", "eta=1:2"), ("--rho", "0.1,0.2", "--over", "rho=1:2")):
        line = refused("tune", "coke", *COKE_FLAGS, *given, *FAST, "--out", "no", cwd=tmp_path)
        assert f"over = '{given[0][2:]}': must be searched, or given several values, not both" in line
    for over, why in (("DKLA.rho=-1:1", "methods: DKLA: rho = -1: must be"), ("unheard=1:2", "unlike 'kept'")):
        assert why in refused("tune", "coke", *COKE_FLAGS, "--over", over, *FAST, "--out", "no", cwd=tmp_path)


# --- --set and --settings ---------------------------------------------------------------------------------------------


def used(folder: Path, method: str) -> dict[str, Any]:
    """Return the parameters that a method used, from settings.json."""
    found: dict[str, Any] = json.loads((folder / "settings.json").read_text())["methods"][method]
    return found


def test_values_are_set_recorded_and_repeated(tmp_path: Path) -> None:
    good("run", "coke", *COKE_FLAGS, "--set", "DKLA.rho=0.2,COKE.v=0.25", "--out", "run", cwd=tmp_path)
    assert used(tmp_path / "run", "DKLA")["rho"] == 0.2
    assert "v=0.25" in used(tmp_path / "run", "COKE")["censor"]
    assert verify(tmp_path / "run").state == "identical"


def test_a_run_takes_one_flag_of_values_and_a_sweep_a_point_for_each(tmp_path: Path) -> None:
    flags = (*COKE_FLAGS, "--set", "DKLA.rho=0.1", "--set", "DKLA.rho=0.2", "--out", "out")
    assert "set: must be given once" in refused("run", "coke", *flags, cwd=tmp_path)
    good("sweep", "coke", *flags, cwd=tmp_path)
    assert sorted(used(path, "DKLA")["rho"] for path in (tmp_path / "out" / "points").iterdir()) == [0.1, 0.2]


def test_values_that_flags_have_are_tuned_apart_and_each_point_of_a_sweep_takes_its_own(tmp_path: Path) -> None:
    """Conditions are distinguished by short names such as loss, and by arguments such as remedy."""
    conditions = ("--loss", "0,0.3", "--remedy", "none", "--remedy", "running-sums", "--algorithms", "DKLA")
    over = ("--over", "rho=0.001:0.1:log")
    said = good("tune", "coke", *COKE_FLAGS, *conditions, *over, *FAST, "--out", "tuned", cwd=tmp_path)
    assert "tuned: tuning.csv (12 trials)" in said
    chosen = best(tmp_path / "tuned")
    assert set(chosen) == {
        (f"loss={loss}", f"remedy={remedy}", "method=DKLA")
        for remedy in ("none", "running-sums")
        for loss in (0.0, 0.3)
    }
    # Change the file so that each condition has a different best value.
    kept = json.loads((tmp_path / "tuned" / "tuned.json").read_text())
    for number, each in enumerate(kept["best"]):
        each["values"] = {"rho": (number + 1) / 100}
    (tmp_path / "tuned" / "tuned.json").write_text(json.dumps(kept))
    flags = (*conditions[:-1], "DKLA,CTA", "--settings", "tuned/tuned.json")
    good("sweep", "coke", *COKE_FLAGS, *flags, "--out", "swept", cwd=tmp_path)
    for place in (tmp_path / "swept" / "points").iterdir():
        settings = json.loads((place / "settings.json").read_text())
        given = settings["parameters"]
        (values,) = (
            each["values"]
            for each in kept["best"]
            if {f"remedy={given['remedy']}", f"loss={given['loss']}"} < {*each["condition"]}
        )
        assert settings["methods"]["DKLA"]["rho"] == values["rho"]
        assert settings["tuning"]["seeds"] == [100]
        notes = json.loads((place / "summary.json").read_text())["notes"]
        assert "Not in tuned/tuned.json, and so as they are: CTA." in notes
        assert not [note for note in notes if "chosen with" in note]
    text = methods_section(tmp_path / "swept")
    assert "by successive halving for the least median train_mse among 3 candidates of each, in 12 runs" in text
    assert "over rho of DKLA in 0.001:0.1:log, on the seed 100" in text


def test_a_run_takes_what_was_tuned_for_its_condition_and_set_goes_before_it(whole: Path, tmp_path: Path) -> None:
    words = ("run", QUADRATIC, "--settings", str(whole / "tuned.json"), "--set", "problem.scale=1,2", "--rounds", "10")
    said = good(*words, "--set", "momentum.eta=0.1", "--out", "run", cwd=tmp_path)
    runs = pd.read_csv(tmp_path / "run" / "runs.csv").set_index(["problem.scale", "method"])
    # For curvatures 1 and 9, descent multiplies both elements by |1 − 0.2| = |1 − 1.8| = 0.8.
    assert runs.loc[(2.0, "descent"), "error"] == pytest.approx(2 * 0.8**10, rel=1e-9)
    good("run", QUADRATIC, "--set", "momentum.eta=0.1", "--rounds", "10", "--out", "plain", cwd=tmp_path)
    plain = pd.read_csv(tmp_path / "plain" / "runs.csv").set_index("method")
    assert runs.loc[(1.0, "momentum"), "error"] == plain.loc["momentum", "error"]
    assert "The settings of tuned.json were chosen with rounds = 20 (here 10)." in said


def test_spent_seeds_and_conditions_that_were_not_tuned_are_refused(whole: Path, tmp_path: Path) -> None:
    words = ("run", QUADRATIC, "--settings", str(whole / "tuned.json"))
    assert "seeds = [102]: must not be the seeds on which settings were tuned" in refused(
        *words, "--seeds", "7,102", cwd=tmp_path
    )
    line = refused(*words, "--set", "problem.scale=3", cwd=tmp_path)
    assert "must be tuned for problem.scale = 3.0, method = descent; it is for problem.scale = 1.0, method = " in line


def test_a_changed_file_of_settings_is_noticed(tmp_path: Path) -> None:
    tuned_file(tmp_path / "tuned.json", [({"method": "DKLA"}, {"rho": 0.2})])
    good("run", "coke", *COKE_FLAGS, "--settings", "tuned.json", "--out", "run", cwd=tmp_path)
    assert used(tmp_path / "run", "DKLA")["rho"] == 0.2
    (tmp_path / "tuned.json").write_text((tmp_path / "tuned.json").read_text() + " ")
    assert "tuned.json has changed" in refused("verify", "run", cwd=tmp_path)


def test_of_several_files_a_run_takes_the_first_that_was_tuned_for_its_condition(tmp_path: Path) -> None:
    """The files cover different conditions; a run may use no seed on which either file was tuned."""
    conditions = ({"loss": 0.0, "method": "DKLA"}, {"loss": 0.3, "method": "DKLA"})
    one = tuned_file(tmp_path / "one.json", [(conditions[0], {"rho": 0.2})], rounds=9, eta=3.0)
    two = tuned_file(tmp_path / "two.json", [(each, {"rho": 0.1}) for each in conditions], (200, 201), seed=7)
    settings = f"{one}, {two}"
    for loss, rho, doubts in (
        (0.0, 0.2, ["The settings of one.json were chosen with rounds = 9 (here 5)."]),
        (0.3, 0.1, []),
    ):
        study = find_study("coke").execute(loss=loss, settings=settings, algorithms="DKLA", seed=3, **COKE)
        assert study.origin["methods"]["DKLA"]["rho"] == rho
        assert [note for note in study.notes if "chosen with" in note] == doubts
    for given, why in (
        ({"seed": 201}, r"seeds = \[201\]: must not be the seeds on which settings were tuned"),
        ({"loss": 0.1}, "for loss = 0.1, method = D"),
    ):
        with pytest.raises(BadInput, match=why):
            find_study("coke").execute(settings=settings, **COKE, **given)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"best": [], "spent": []}',
        '{"best": 3, "spent": []}',
        '{"best": [{"when": {}, "methods": {"DKLA": {"rho": 0.1}}}], "seeds": [1], "per": [], "study": "coke"}',
    ],
)
def test_a_file_that_tuning_did_not_write_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "tuned.json").write_text(text)
    for file in ("tuned.json", "missing.json"):
        with pytest.raises(BadInput, match=rf"{file}': must be a tuned\.json that netsim tune wrote$"):
            find_study("coke").execute(settings=str(tmp_path / file), **COKE)


MINE = """
from dataclasses import dataclass
from netsim.agents import Diffusion

@dataclass(eq=False, repr=False)
class Mine(Diffusion):
    gamma: float = 1
    fast: bool = False

    def local_step(self):
        psi = self.combined()
        return psi - self.gamma * self.eta * self.cost.gradient(psi)
"""


def test_a_class_of_a_method_file_is_set_and_tuned_too(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    given = {"method": str(tmp_path / "mine.py"), "eta": 0.1}
    study = find_study("coke").execute(set="mine.gamma=0.3,mine.fast=true,COKE.v=0.25", **given, **COKE)
    assert study.origin["methods"]["mine"]["gamma"] == 0.3
    assert study.origin["methods"]["mine"]["fast"] is True
    assert "v=0.25" in study.origin["methods"]["COKE"]["censor"]
    over = ("--over", "mine.gamma=0.1:1:log", "--over", "rho=0.001:0.1:log", "--method", "mine.py", *COKE_FLAGS)
    said = good("tune", "coke", *over, *FAST, "--out", "tuned", cwd=tmp_path)
    assert set(best(tmp_path / "tuned")) == {("method=mine",), ("method=DKLA",), ("method=COKE",)}
    assert "Not tuned, for it has none of these parameters: CTA." in said


CODED: dict[str, Any] = {"agents": 4, "features": 6, "rounds": 5, "algorithms": "CHOCO,COKE"}
TOP = """
from netsim.agents import CHOCO
from netsim.coders import TopK, Uniform

class Top(CHOCO):
    def __init__(self, cost, count, *, weights, coder=TopK(3, Uniform(4, -1.0, 1.0)), eta=0.2, gamma=0.3):
        super().__init__(cost, count, weights=weights, coder=coder, eta=eta, gamma=gamma)
"""


def test_parameters_of_coders_are_set_and_tuned(tmp_path: Path) -> None:
    file = tmp_path / "top.v2.py"
    file.write_text(TOP)
    given = "CHOCO.coder.bits=2,CHOCO.gamma=0.25,top.v2.coder.k=5,top.v2.coder.coder.bits=6"
    ran = find_study("coke").execute(method=str(file), set=given, **CODED).origin["methods"]
    assert ran["CHOCO"]["coder"] == "Uniform(bits=2)"
    assert ran["CHOCO"]["gamma"] == 0.25
    assert ran["top.v2"]["coder"] == "TopK(k=5, coder=Uniform(bits=6, fixed=(-1.0, 1.0)))"
    over = ("--over", "coder.bits=2:8", "--over", "CHOCO.eta=0.1:0.3", "--algorithms", "CHOCO,COKE", *COKE_FLAGS)
    good("tune", "coke", *over, *FAST, "--candidates", "4", "--out", "tuned", cwd=tmp_path)
    assert sorted(pd.read_csv(tmp_path / "tuned" / "tuning.csv")["coder.bits"].dropna()) == [2, 5, 8]
    chosen = best(tmp_path / "tuned")["method=CHOCO",]
    ran = find_study("coke").execute(settings=str(tmp_path / "tuned" / "tuned.json"), **CODED).origin["methods"]
    assert ran["CHOCO"]["coder"] == f"Uniform(bits={chosen.get('coder.bits', 4)})"


def test_a_name_that_tells_the_bits_cannot_be_made_wrong() -> None:
    with pytest.raises(BadInput, match=r"set: parameter of COKE 8-bit = 'coder.bits': must be one of coded_start, rho"):
        find_study("coke").execute(bits=8, set="COKE 8-bit.coder.bits=3", **COKE)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "coke"],
        ["sweep", "coke", "--seed", "0:2", "--out", "no"],
        ["tune", "coke", "--over", "eta=0.1:1", "--out", "no"],
    ],
)
def test_a_list_is_an_answer(words: list[str], tmp_path: Path) -> None:
    done = call(*words, "--set", "list", "--algorithms", "CHOCO,DKLA", "--agents", "4", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["CHOCO.coded_start=false", "CHOCO.gamma=0.5"]
    assert "CHOCO.coder.bits=4" in lines
    assert "DKLA.rho=0.01" in lines
    assert not any(tmp_path.iterdir())
    # Each line must be a valid value of --set.
    find_study("coke").execute(set=",".join(lines), algorithms="CHOCO,DKLA", agents=4, rounds=2, features=4)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("CHOCO.coder.bits=99", "bits = 99: must be a whole number from 1 to 16"),
        ("CHOCO.coder.bit=3", "set: parameter of CHOCO = 'coder.bit': must be one of"),
        ("coder.bits=3", "METHOD.PARAMETER=VALUE"),
    ],
)
def test_what_a_coder_does_not_take_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadInput) as error:
        find_study("coke").execute(set=text, **CODED)
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("DKL.rho=1", "set: method = 'DKL': must be one of CTA, DKLA, COKE"),
        ("DKLA.eta=1", "set: parameter of DKLA = 'eta': must be one of"),
        ("DKLA.rho", "METHOD.PARAMETER=VALUE"),
        ("rho=1", "METHOD.PARAMETER=VALUE"),
        ("DKLA.rho=fast", "set DKLA.rho = 'fast': must be a number"),
        ("COKE.squared=1", "must be true or false"),
        ("DKLA.rho=1,DKLA.rho=2", "must have one value"),
        ("DKLA.rho=-1", "rho = -1.0: must be"),
        ("list", "CTA (coded_start, eta, unheard), DKLA (coded_start, rho), COKE ("),
    ],
)
def test_an_unknown_method_parameter_or_value_ends_in_a_line_that_names_what_there_is(text: str, why: str) -> None:
    with pytest.raises(BadInput) as error:
        find_study("coke").execute(set=text, **COKE)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_combinations_of_the_frontier_and_online_methods_are_set_by_their_names() -> None:
    chosen: dict[str, Any] = {"methods": "DKLA", "coders": "float64,4", "censors": "none"}
    study = find_study("frontier").execute(set="DKLA 4-bit.rho=0.3", **chosen, **COKE)
    assert study.origin["methods"]["DKLA 4-bit"]["rho"] == 0.3
    assert study.origin["methods"]["DKLA float64"]["rho"] != 0.3
    online = find_study("online").execute(algorithms="ODKLA", set="ODKLA.eta=20", **COKE)
    assert online.origin["methods"]["ODKLA"]["eta"] == 20.0
    with pytest.raises(BadInput, match="must go without --set"):
        find_study("online").execute(algorithms="ODKLA", set="ODKLA.eta=20", tune=True, **COKE)
