"""Tuning: the known best step, halving, ties, budget, notes, resumption; values of methods' parameters by hand."""

import json
import math
import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from netsim import BadInput
from netsim.studies import find_study, sweep, tune, verify
from netsim.studies.tuning import Range
from tests.command import ROOT, call
from tests.netsim.studies.test_sweep_whole import posix, started
from tests.parts import slow

QUADRATIC = str(ROOT / "docs" / "examples" / "quadratic.py")
SMALL: dict[str, Any] = {"seeds": range(100, 104), "metric": "error", "rounds": 20}
TRIALS: dict[str, Any] = {**SMALL, "validation": ()}


def files(folder: Path) -> dict[str, bytes]:
    """Return the results of a tuning, and its runs' tables."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".csv", ".json") and path.name != "settings.json"
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuning of both methods at two scales of the start."""
    folder = tmp_path_factory.mktemp("tune") / "whole"
    tune(QUADRATIC, over=["eta=0.1:0.3"], out=folder, per=["method", "scale"], scale=[1.0, 2.0], budget=42, **SMALL)
    return folder


def best(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "tuned.json").read_text())["best"]
    return found


SMALL_COKE: dict[str, Any] = {"seeds": [100], "validation": [], "agents": 4, "features": 5, "rounds": 5}


def test_a_value_that_a_method_does_not_take_is_refused_and_no_method_dies_of_it(tmp_path: Path) -> None:
    how = {**SMALL_COKE, "algorithms": "CTA,DKLA", "budget": 4}
    with pytest.raises(BadInput) as caught:
        tune("coke", over=["CTA.eta=0.1:0.2", "DKLA.rho=-1:1"], out=tmp_path / "tuned", **how)
    says = "over = DKLA.rho=-1:1: must have values it takes; rho = -1.0: must be a number > 0"
    assert str(caught.value) == says


def test_runs_that_fail_are_told_apart_from_those_that_diverge(tmp_path: Path) -> None:
    text = (
        Path(QUADRATIC)
        .read_text()
        .replace("    async def run(self):", "    async def run(self):\n        assert self.eta < 0.25, 'a mistake'")
    )
    (tmp_path / "mine.py").write_text(text)
    found = tune(str(tmp_path / "mine.py"), over=["descent.eta=0.1:0.3"], out=tmp_path / "tuned", budget=11, **TRIALS)
    (note,) = (each for each in found.notes if "failed" in each)
    assert re.match(r"\d runs? failed, and counts? as diverged for all methods; the first: .*a mistake", note), note


def test_one_range_for_a_parameter(tmp_path: Path) -> None:
    says = "over = 'eta=0.2:0.4': must be the only range of eta; another is 0.1:0.3"
    with pytest.raises(BadInput, match=f"^{re.escape(says)}$"):
        tune(QUADRATIC, over=["eta=0.1:0.3", "eta=0.2:0.4"], out=tmp_path / "tuned", budget=11, **SMALL)


def test_the_best_step_of_descent_on_a_quadratic_is_two_by_the_sum_of_its_curvatures(whole: Path) -> None:
    for part in best(whole):
        assert part["methods"]["descent"]["eta"] == pytest.approx(2 / (1 + 9), abs=1e-12)


def test_momentum_gets_a_best_step_of_its_own(whole: Path) -> None:
    """The largest root of z² − (1 + β − ηλ) z + β over λ = 1, 9 is least where the larger curvature is still damped."""

    def factor(eta: float, beta: float = 0.25) -> float:
        sums = [1 + beta - eta * curvature for curvature in (1.0, 9.0)]
        return max(abs((s + (s * s - 4 * beta + 0j) ** 0.5) / 2) for s in sums + [-s for s in sums])

    levels = Range.of("eta=0.1:0.3").levels(9, whole=False)
    for part in best(whole):
        assert part["methods"]["momentum"]["eta"] == min(levels, key=factor)


def test_each_rung_has_the_better_half_and_new_seeds_and_all_runs_are_within_the_budget(whole: Path) -> None:
    table = pd.read_csv(whole / "tuning.csv")
    runs = [path for path in whole.rglob("summary.json") if "-validation-" not in str(path)]
    assert len(runs) == 42
    assert set(table[table["rung"] > 2]["seed"]) == {104, 105, 106, 107, 108}, "validation has seeds of its own"
    table = table[table["rung"] <= 2]
    for _, part in table.groupby(["scale", "method"]):
        counts = part.groupby("rung")["candidate"].nunique().tolist()
        assert counts == [10, 5, 3]
        assert part.groupby("rung")["seed"].unique().map(list).tolist() == [[100], [101], [102, 103]]
        first, second = (part[part["rung"] == rung] for rung in (0, 1))
        assert set(second["candidate"]) == set(first.nsmallest(5, "error")["candidate"])


@pytest.mark.parametrize("budget", [11, slow(23)])
def test_the_budget_is_the_most_runs_and_too_small_a_one_names_the_least(tmp_path: Path, budget: int) -> None:
    how: dict[str, Any] = {"over": ["eta=0.04:0.36"], "per": ["method", "scale"], "scale": [1.0, 2.0], **TRIALS}
    tune(QUADRATIC, out=tmp_path / "tuned", budget=budget, **how)
    runs = [path for path in (tmp_path / "tuned").rglob("summary.json") if "-validation-" not in str(path)]
    assert budget / 2 < len(runs) <= budget
    with pytest.raises(BadInput, match="budget = 9: must be at least 10 runs"):
        tune(QUADRATIC, out=tmp_path / "less", budget=9, **how)


def test_of_equal_candidates_the_first_stays(tmp_path: Path) -> None:
    """A start of size 0 is the minimum: no step changes the error."""
    found = tune(QUADRATIC, over=["eta=0.04:0.36"], out=tmp_path / "tuned", scale=0.0, budget=20, **TRIALS)
    assert found.best == [{"when": {}, "methods": {"descent": {}, "momentum": {}}}]
    assert set(found.table[found.table["rung"] == 1]["candidate"]) == set(range(5))


def test_a_killed_tuning_goes_on_to_the_same_files(whole: Path, tmp_path: Path) -> None:
    """What it leaves: some runs done, one half written, no results."""
    again = tmp_path / "again"
    shutil.copytree(whole, again)
    for name in ("tuning.csv", "tuned.json"):
        (again / name).unlink()
    shutil.rmtree(again / "runs" / "condition-1-rung-2")
    rung = again / "runs" / "condition-1-rung-1"
    (rung / "points.csv").unlink()
    for place in sorted((rung / "points").iterdir())[::3]:
        (place / "summary.json").unlink()
    untouched = next((again / "runs" / "condition-0-rung-0" / "points").iterdir()) / "rounds.csv"
    before = untouched.stat().st_mtime_ns
    tune(QUADRATIC, over=["eta=0.1:0.3"], out=again, per=["method", "scale"], scale=[1.0, 2.0], budget=42, **SMALL)
    assert files(again) == files(whole)
    assert untouched.stat().st_mtime_ns == before


@pytest.mark.slow
@posix
def test_killed_by_the_system_it_goes_on_to_the_same_files(tmp_path: Path) -> None:
    words = ["tune", QUADRATIC, "--over", "eta=0.1:0.3", "--metric", "error", "--budget", "30", "--jobs", "2"]
    assert call(*words, "--out", "whole", cwd=tmp_path).returncode == 0
    process = started([*words, "--out", "killed"], tmp_path)
    while not (tmp_path / "killed" / "runs" / "condition-0-rung-1" / "points").is_dir():
        assert process.poll() is None
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "killed" / "tuned.json").exists(), "there was to be something left"
    assert call(*words, "--out", "killed", cwd=tmp_path).returncode == 0
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


@pytest.mark.slow
def test_two_processes_find_the_same(tmp_path: Path) -> None:
    one, two = (tmp_path / name for name in ("one", "two"))
    for folder, jobs in ((one, 1), (two, 2)):
        tune(QUADRATIC, over=["eta=0.04:0.36"], out=folder, budget=12, jobs=jobs, **SMALL)
    assert files(one) == files(two)


def test_a_folder_of_another_tuning_is_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds another tuning"):
        tune(QUADRATIC, over=["eta=0.04:0.5"], out=whole, budget=80, **SMALL)
    (tmp_path / "mine.txt").touch()
    with pytest.raises(BadInput, match="must be a new or empty folder"):
        tune(QUADRATIC, over=["eta=0.04:0.5"], out=tmp_path, budget=80, **SMALL)


def test_best_values_at_an_end_and_methods_that_always_diverge_are_named(tmp_path: Path) -> None:
    upper = tune(QUADRATIC, over=["eta=0.06:0.15"], out=tmp_path / "upper", budget=12, **TRIALS)
    assert "descent: the best eta, 0.15, is the upper end of its range 0.06:0.15; the best may lie outside." in (
        upper.notes
    )
    inside = tune(QUADRATIC, over=["eta=0.1:0.3"], out=tmp_path / "inside", budget=21, **TRIALS)
    assert not [note for note in inside.notes if note.startswith("descent")]
    large: dict[str, Any] = {"over": ["eta=3:4"], "budget": 8, "set": "descent.beta=5"}
    wild = tune(QUADRATIC, out=tmp_path / "wild", **large, **TRIALS)
    assert "descent: all trials diverged; there is no best setting." in wild.notes
    assert wild.table[wild.table["method"] == "descent"]["error"].isna().all()
    assert "descent" not in wild.best[0]["methods"]
    assert "momentum: the study's own eta, 0.05, is best, and not inside of 3:4." in wild.notes


def test_a_range_of_one_method_is_its_own_and_others_are_left_as_they_are(tmp_path: Path) -> None:
    found = tune(QUADRATIC, over=["descent.eta=0.1:0.3"], out=tmp_path / "tuned", budget=8, **TRIALS)
    assert set(found.best[0]["methods"]) == {"descent"}
    assert "Not tuned, as they have none of these parameters: momentum." in found.notes


def test_several_parameters_take_each_of_their_levels_once(tmp_path: Path) -> None:
    ranges = ["eta=0.01:0.1:log", "beta=0:0.4"]
    table = tune(QUADRATIC, over=ranges, out=tmp_path / "tuned", budget=12, **TRIALS).table
    first = table[(table["rung"] == 0) & (table["method"] == "descent") & (table["candidate"] > 0)]
    assert sorted(first["eta"]) == Range.of(ranges[0]).levels(len(first), whole=False)
    assert sorted(first["beta"]) == Range.of(ranges[1]).levels(len(first), whole=False)
    assert list(first["beta"]) != sorted(first["beta"])


def test_levels_are_even_in_the_logarithm_or_in_the_value_with_both_ends() -> None:
    assert Range.of("eta=0.01:1:log").levels(5, whole=False) == [0.01, 0.0316228, 0.1, 0.316228, 1.0]
    assert Range.of("mine.eta=1:2").levels(3, whole=False) == [1.0, 1.5, 2.0]
    assert Range.of("bits=1:8").levels(4, whole=True) == [1, 3, 6, 8]
    assert Range.of("eta=0.01:1:log").levels(1, whole=False) == [0.1]
    assert math.prod(Range.of("a b.eta=0.5:2:log").levels(7, whole=False)) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"over": ["eta=1:0.1"]}, "LOW < HIGH"),
        ({"over": ["eta=0:1:log"]}, "with log LOW > 0"),
        ({"over": ["eta=0.1:1:lin"]}, "LOW:HIGH:log"),
        ({"over": ["gamma=0.1:1"]}, "over: parameter"),
        ({"over": ["newton.eta=0.1:1"]}, "over: method"),
        ({"over": []}, "one range at least"),
        ({"per": ["scale"]}, "method, perhaps with"),
        ({"per": ["method", "size"]}, "per = 'size'"),
        ({"per": ["method", "seed"]}, "per = 'seed'"),
        ({"set": ["descent.beta=0.1", "momentum.beta=0.1"]}, "given once, several values with commas"),
        ({"scale": [1.0, 2.0]}, "--per method,scale"),
        ({"seeds": range(3)}, "other seeds than the study's own, 0"),
        ({"seed": 7}, "--seeds has those of the trials"),
        ({"settings": "tuned.json"}, "left out"),
        ({"metric": "train_mse"}, "metric = 'train_mse'"),
        ({"set": "descent.eta=0.1"}, "left out, as --over searches it"),
    ],
)
def test_bad_input_ends_in_one_line(how: dict[str, Any], why: str, tmp_path: Path) -> None:
    usual: dict[str, Any] = {"over": ["eta=0.04:0.36"], "out": tmp_path / "tuned", "budget": 8, **SMALL}
    with pytest.raises(BadInput) as error:
        tune(QUADRATIC, **{**usual, **how})
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_a_study_without_methods_to_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="must take --set"):
        tune("averaging", over=["eta=0.1:1"], out=tmp_path / "tuned")


# --- validation -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def curved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the quadratic, steeper on seeds from 104 on: there a step above 0.125 diverges."""
    source = Path(QUADRATIC).read_text()
    own = "self.eta * (CURVATURES if self.rounds_ % 2 else 16.0) * self.x"
    source = source.replace("self.eta * CURVATURES * self.x", own)
    # The seed reaches the agents by the parity of their rounds.
    source = source.replace(
        "Task(lambda node: start, graph), [error], rounds)",
        "Task(lambda node: start, graph), [error], rounds + (seed < 104))",
    )
    file = tmp_path_factory.mktemp("curved") / "curved.py"
    file.write_text(source)
    return str(file)


def test_a_winner_that_dies_on_further_seeds_gives_way_to_the_runner_up_that_survives(
    curved: str, tmp_path: Path
) -> None:
    """On the seeds of the trials 0.2 is best; only the fourth, 0.1, survives on those of the validation."""
    how: dict[str, Any] = {"algorithms": "descent", "over": ["eta=0.1:0.3"], "budget": 16, **SMALL}
    found = tune(curved, out=tmp_path / "tuned", **how)
    (methods,) = (each["methods"] for each in found.best)
    chosen = found.checked[0]["descent"]
    assert methods["descent"]["eta"] == 0.1
    assert (chosen["survived"], chosen["runs"]) == (5, 5)
    assert {"eta": 0.2} in chosen["passed_over"]
    (note,) = [each for each in found.notes if "validation" in each]
    assert "eta = 0.2 (0/5)" in note
    assert note.endswith("did not survive all runs; the runner-up is taken.")
    later = tune(curved, out=tmp_path / "without", validation=(), **how)
    assert later.best[0]["methods"]["descent"]["eta"] == 0.2
    kept = json.loads((tmp_path / "tuned" / "tuned.json").read_text())
    assert kept["validation"] == [104, 105, 106, 107, 108]
    with pytest.raises(BadInput, match=r"seed = 106: must be none on which .* were validated \(104 to 108\)"):
        find_study(curved).execute(settings=str(tmp_path / "tuned" / "tuned.json"), seed=106)


def test_the_nearest_candidate_that_diverged_is_told_with_its_distance(tmp_path: Path) -> None:
    """Of 0.1, 0.125, … 0.3 those from 0.25 on grow tenfold: (|1 − 9 · 0.25|)^20 > 10; 0.05 of 0.2 is a quarter."""
    found = tune(QUADRATIC, over=["eta=0.1:0.3"], out=tmp_path / "tuned", budget=21, **SMALL)
    near = found.checked[0]["descent"]["nearest_diverged"]
    assert near["values"] == {"eta": 0.25}
    assert near["distance"] == pytest.approx(0.25)


def test_validation_seeds_are_kept_apart(tmp_path: Path) -> None:
    how: dict[str, Any] = {"over": ["eta=0.1:0.3"], "out": tmp_path / "tuned", "budget": 8, **SMALL}
    for wrong, why in ((range(103, 106), "which have 103, too"), ([0], "other seeds than the study's own, 0")):
        with pytest.raises(BadInput, match=why):
            tune(QUADRATIC, validation=wrong, **how)


def test_a_run_with_tuned_settings_records_how_they_were_found(whole: Path, tmp_path: Path) -> None:
    """The file may be gone when somebody asks; `netsim show --methods-section` tells it, and no value that none had."""
    from netsim.studies.methods_section import methods_section

    settings = str(whole / "tuned.json")
    sweep(QUADRATIC, out=tmp_path / "sweep", settings=settings, scale=[1.0, 2.0], rounds=20, seed=[1, 2])
    text = methods_section(tmp_path / "sweep")
    assert (
        "by successive halving for the least `error` in 42 runs at most, for each `scale` apart".replace("`", "")
        in text
    )
    assert (
        "over eta of descent and momentum in 0.1:0.3, on the seeds 100 to 103 and validated on the seeds 104 to 108"
        in text
    )


# --- --set and --settings ---------------------------------------------------------------------------------------------


def used(folder: Path, method: str) -> dict[str, Any]:
    """Return the parameters that a method ran with, as settings.json has them."""
    found: dict[str, Any] = json.loads((folder / "settings.json").read_text())["methods"][method]
    return found


def test_values_are_set_recorded_and_repeated(tmp_path: Path) -> None:
    done = call("run", QUADRATIC, "--set", "descent.eta=0.2,momentum.beta=0.5", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert used(tmp_path / "run", "descent") == {"class": "Descent", "eta": 0.2, "beta": 0.0}
    assert used(tmp_path / "run", "momentum") == {"class": "Descent", "eta": 0.05, "beta": 0.5}
    rounds = pd.read_csv(tmp_path / "run" / "rounds.csv")
    last = rounds[rounds["algorithm"] == "descent"]["error"].iloc[-1]
    assert last == pytest.approx(0.8**20, rel=1e-9), "both elements shrink by |1 − 0.2| = |1 − 1.8| = 0.8"
    assert verify(tmp_path / "run").state == "identical"


def test_a_run_takes_one_flag_of_values_and_a_sweep_a_point_for_each(tmp_path: Path) -> None:
    flags = ("--set", "descent.eta=0.1", "--set", "descent.eta=0.2", "--out", "out")
    refused = call("run", QUADRATIC, *flags, cwd=tmp_path)
    assert refused.returncode == 2
    assert "set: must be given once" in refused.stderr
    assert call("sweep", QUADRATIC, *flags, cwd=tmp_path).returncode == 0
    assert sorted(used(path, "descent")["eta"] for path in (tmp_path / "out" / "points").iterdir()) == [0.1, 0.2]


def test_tuned_settings_are_those_of_the_condition_and_set_goes_before_them(whole: Path, tmp_path: Path) -> None:
    settings = str(whole / "tuned.json")
    study = find_study(QUADRATIC).execute(settings=settings, scale=2.0, set="momentum.eta=0.1", rounds=20)
    assert study.origin["methods"]["descent"]["eta"] == 0.2
    assert study.origin["methods"]["momentum"]["eta"] == 0.1
    assert not [note for note in study.notes if "chosen with" in note]
    other = find_study(QUADRATIC).execute(settings=settings, scale=2.0, rounds=10)
    assert any("were chosen with rounds = 20 (here 10)" in note for note in other.notes)
    done = sweep(QUADRATIC, out=tmp_path / "sweep", settings=settings, scale=[1.0, 2.0], rounds=20)
    assert not done.failed
    assert {used(path, "descent")["eta"] for path in (tmp_path / "sweep" / "points").iterdir()} == {0.2}


def test_a_changed_file_of_settings_is_noticed(whole: Path, tmp_path: Path) -> None:
    shutil.copy(whole / "tuned.json", tmp_path / "tuned.json")
    call("run", QUADRATIC, "--settings", "tuned.json", "--out", "run", cwd=tmp_path)
    (tmp_path / "tuned.json").write_text((tmp_path / "tuned.json").read_text().replace("0.2,", "0.1,") + " ")
    done = call("verify", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert "tuned.json has changed" in done.stderr


def test_seeds_of_the_tuning_and_conditions_that_were_not_tuned_are_refused(whole: Path) -> None:
    study, settings = find_study(QUADRATIC), str(whole / "tuned.json")
    with pytest.raises(BadInput, match=r"seed = 102: must be none on which .* \(100 to 103\)"):
        study.execute(settings=settings, seed=102)
    with pytest.raises(BadInput, match=r"must be tuned for scale = 3.0; it is for scale = 1.0; scale = 2.0"):
        study.execute(settings=settings, scale=3.0)
    for file in (QUADRATIC, "missing.json"):
        with pytest.raises(BadInput, match=r"must be a tuned\.json that netsim tune wrote"):
            study.execute(settings=file)


def test_of_several_files_a_run_takes_the_first_that_was_tuned_for_its_condition(tmp_path: Path) -> None:
    """Files of different conditions side by side; a change in the second is noticed, and a seed of either refused."""
    for name, scale, seeds in (("one", 1.0, [100, 101]), ("two", 2.0, [200, 201])):
        how: dict[str, Any] = {"over": ["eta=0.1:0.3"], "per": ["method", "scale"], "budget": 16, **TRIALS}
        tune(QUADRATIC, out=tmp_path / name, scale=scale, **{**how, "seeds": seeds})
    changed = tmp_path / "two" / "tuned.json"
    changed.write_text(changed.read_text().replace('"eta": 0.2\n', '"eta": 0.15\n'))
    files = "one/tuned.json,two/tuned.json"
    for scale, eta in ((1.0, 0.2), (2.0, 0.15)):
        done = call("run", QUADRATIC, "--scale", str(scale), "--settings", files, "--out", f"run{scale}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert used(tmp_path / f"run{scale}", "descent")["eta"] == eta
    wrong = ((("--seed", "201"), "two/tuned.json were chosen (200, 201)"), (("--scale", "3"), "for scale = 3.0"))
    for flags, why in wrong:
        refused = call("run", QUADRATIC, *flags, "--settings", files, "--out", "no", cwd=tmp_path)
        assert refused.returncode == 2
        assert why in refused.stderr
    changed.write_text(changed.read_text() + " ")
    assert "two/tuned.json has changed" in call("verify", "run2.0", cwd=tmp_path).stderr


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
COKE: dict[str, Any] = {"agents": 5, "features": 8, "rounds": 10, "eta": 0.1}


def test_a_class_of_a_method_file_is_set_and_tuned_too(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    file = str(tmp_path / "mine.py")
    study = find_study("coke").execute(method=file, set="mine.gamma=0.3,mine.fast=true,COKE.v=0.25", **COKE)
    assert study.origin["methods"]["mine"]["gamma"] == 0.3
    assert study.origin["methods"]["mine"]["fast"] is True
    assert "v=0.25" in study.origin["methods"]["COKE"]["censor"]
    ranges = ["mine.gamma=0.1:1:log", "rho=0.001:0.1:log"]
    found = tune(
        "coke", over=ranges, out=tmp_path / "tuned", method=file, budget=6, seeds=[100, 101], validation=(), **COKE
    )
    assert set(found.best[0]["methods"]) == {"mine", "DKLA", "COKE"}
    assert "Not tuned, as they have none of these parameters: CTA." in found.notes


CODED: dict[str, Any] = {"agents": 4, "features": 8, "rounds": 10, "algorithms": "CHOCO,COKE"}
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
    over = ["coder.bits=2:8", "CHOCO.eta=0.1:0.3"]
    found = tune("coke", over=over, out=tmp_path / "tuned", budget=6, seeds=[100, 101], validation=(), **CODED)
    assert sorted(found.table["coder.bits"].dropna().unique()) == [2, 5, 8]
    assert "Not tuned, as they have none of these parameters: COKE." in found.notes
    best = found.best[0]["methods"]["CHOCO"]
    ran = find_study("coke").execute(settings=str(tmp_path / "tuned" / "tuned.json"), **CODED).origin["methods"]
    assert ran["CHOCO"]["coder"] == f"Uniform(bits={best.get('coder.bits', 4)})"


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
    # Each line is what --set takes.
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
    small: dict[str, Any] = {"agents": 5, "features": 8, "rounds": 10}
    chosen: dict[str, Any] = {"methods": "DKLA", "coders": "float64,4", "censors": "none"}
    study = find_study("frontier").execute(set="DKLA 4-bit.rho=0.3", **chosen, **small)
    assert study.origin["methods"]["DKLA 4-bit"]["rho"] == 0.3
    assert study.origin["methods"]["DKLA float64"]["rho"] != 0.3
    online = find_study("online").execute(algorithms="ODKLA", set="ODKLA.eta=20", agents=5, features=8, rounds=10)
    assert online.origin["methods"]["ODKLA"]["eta"] == 20.0
    with pytest.raises(BadInput, match="must go without --set"):
        find_study("online").execute(algorithms="ODKLA", set="ODKLA.eta=20", tune=True, **small)


def test_the_command_tunes_and_says_what_is_best(tmp_path: Path) -> None:
    words = ("--over", "eta=0.1:0.3", "--metric", "error", "--seeds", "100:102", "--budget", "15")
    done = call("tune", QUADRATIC, *words, "--rounds", "20", "--out", "tuned", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "eta = 0.2" in done.stdout
    assert "tuning.csv (40 trials), tuned.json" in done.stdout
    assert "nearest diverged" in done.stdout
    again = call("run", QUADRATIC, "--settings", "tuned/tuned.json", "--out", "run", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert used(tmp_path / "run", "descent")["eta"] == 0.2
