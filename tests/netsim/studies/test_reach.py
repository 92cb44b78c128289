"""The cost of reaching a target, in rounds and bits: in tables, comparisons and tuning."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netsim import BadInput, results
from netsim.studies import compare, sweep
from netsim.studies.reach import Target, settled
from tests.command import ROOT, call

QUADRATIC = str(ROOT / "docs" / "examples" / "quadratic.py")
FIRST = math.ceil(math.log(0.1) / math.log(0.8))
"""The first round with an error of at most 0.1: with the step 0.2, descent multiplies the error by 0.8 each round."""


def test_settled_is_the_first_round_of_staying_below() -> None:
    assert settled([5.0, 1.0, 3.0, 1.0, 0.5], 1.0) == 3
    assert settled([1.0, 1.0], 1.0) == 0
    assert settled([1.0, math.nan, 1.0], 1.0) == 2
    assert settled([1.0, 2.0], 1.0) is None
    assert settled([1.0, math.nan], 1.0) is None
    errors = np.random.default_rng(1).random(50) + np.linspace(1, 0, 50)
    first = next((k for k in range(50) if (errors[k:] <= 0.9).all()), None)
    assert settled(errors, 0.9) == first


def test_a_target_is_a_value_or_per_cent_above() -> None:
    assert Target.of("error=0.1") == Target("error", 0.1)
    assert Target.of("error = +10") == Target("error", 10.0), "a number may have its sign"
    assert Target.of("error=+10%") == Target("error", 10.0, percent=True)


@pytest.mark.parametrize("text", ["error", "error=", "=0.1", "error=low", "error=10%", "error=nan", "error=+x%"])
def test_a_target_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"reach = .*: must be COLUMN=VALUE, or COLUMN=\+P%"):
        Target.of(text)


STUDY = """

def descent(study, *, set: str | None = None, seed: int = 0):
    played = dataclasses.replace(experiment, methods={"descent": Method(Descent)}, seeds=[seed])
    netsim.studies.experiment.study.play(study, played)
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reach")
    imports = "import dataclasses\nimport netsim.studies.experiment.study\n"
    (folder / "descent.py").write_text(imports + Path(QUADRATIC).read_text() + STUDY)
    steps = ["descent.eta=0.2", "descent.eta=0.001"]
    sweep(str(folder / "descent.py"), out=folder / "sweep", set=steps, seed=[0, 1])
    return folder / "sweep"


def test_the_row_is_the_first_from_which_on_the_error_stays_there(swept: Path) -> None:
    frame = results.load(swept, reach="error=0.1")
    assert list(frame.columns) == list(results.load(swept).columns)
    fast, slow = (frame[frame["set"] == f"descent.eta={step}"] for step in (0.2, 0.001))
    assert fast["round"].tolist() == [FIRST] * 2
    assert fast["error"].to_numpy() == pytest.approx(0.8**FIRST, rel=1e-9)
    assert slow["round"].isna().all()
    assert slow["seed"].tolist() == [0, 1], "a run that never gets there has a row"
    with pytest.raises(BadInput, match=r"reach = 'error=0\.1': must be left out with rounds"):
        results.load(swept, rounds=True, reach="error=0.1")
    with pytest.raises(BadInput, match="reach: column = 'eror': must be one of"):
        results.load(swept, reach="eror=0.1")
    with pytest.raises(BadInput, match="reach: column = 'error': must have a centralised value"):
        results.load(swept, reach="error=+10%")


def test_per_cent_are_above_the_centralised_error_of_the_same_run(tmp_path: Path) -> None:
    small: dict[str, Any] = {"agents": 5, "features": 8, "rounds": 60, "algorithms": "DKLA"}
    sweep("coke", out=tmp_path / "sweep", seed=[0, 1], **small)
    frame, every = (results.load(tmp_path / "sweep", **how) for how in ({"reach": "train_mse=+20%"}, {"rounds": True}))
    for seed, there in zip(frame["seed"], frame["round"], strict=True):
        summary = json.loads((tmp_path / "sweep" / "points" / f"seed={seed}" / "summary.json").read_text())
        errors = every[every["seed"] == seed].set_index("round")["train_mse"]
        below = errors <= 1.2 * summary["centralised"]["train_mse"]
        assert below.loc[there:].all()
        assert not below.loc[there - 1]


def test_compare_shows_what_was_reached_and_over_how_many_seeds(swept: Path) -> None:
    done = call("compare", str(swept), "--metric", "round@error=0.1", cwd=swept.parent)
    assert done.returncode == 0, done.stderr
    assert "Where error stays at 0.1 or below, values of round@error=0.1 over the seeds" in done.stdout
    assert "set=descent.eta=0.001, descent: not there in 2 of 2 runs" in done.stdout
    assert "set=descent.eta=0.2, descent: not" not in done.stdout
    found = compare.table([str(swept)], ["round@error=0.1"])
    together = compare.over_seeds(found, ["round@error=0.1"], "mean")
    assert together is not None
    assert set(together["seeds"]) == {2}, "a run that never gets there is one"
    cells = dict(zip(together["set"], together["mean"], strict=True))
    assert cells["descent.eta=0.001"] == "inf (0/2)"
    assert float(cells["descent.eta=0.2"]) > 0


def test_all_metrics_are_read_in_one_round(swept: Path) -> None:
    found = compare.table([str(swept)], ["round@error=0.1", "error@error=0.1"])
    assert compare.measures_of(found) == ["round@error=0.1", "error@error=0.1"]
    assert set(found[found["round@error=0.1"].isna()]["outcome"]) == {"not reached"}
    for metrics in (["round@error=0.1", "error"], ["round@error=0.1", "error@error=0.2"]):
        with pytest.raises(BadInput, match="must be all in the last round, or all at one target"):
            compare.table([str(swept)], metrics)
    with pytest.raises(BadInput, match=r"metric = 'rond@error=0\.1'"):
        compare.table([str(swept)], ["rond@error=0.1"])


def test_the_step_that_reaches_the_target_first_is_best(tmp_path: Path) -> None:
    words = ("tune", QUADRATIC, "--over", "descent.eta=0.1:0.3", "--seeds", "100", "--validation", "101")
    target = (*words, "--candidates", "10", "--metric", "round@error=0.1", "--out", "tuned")
    done = call(*target, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"descent +5 +0.2 +{FIRST} +{FIRST} +1/1", done.stdout)
    table = pd.read_csv(tmp_path / "tuned" / "tuning.csv")
    assert set(table.loc[table["eta"] == 0.2, "round@error=0.1"]) == {FIRST}
    assert table.loc[table["eta"] == 0.3, "round@error=0.1"].isna().all()
    # The folder already contains the runs that this command needs.
    never = call(*words, "--candidates", "3", "--metric", "round@error=1e-9", "--out", "tuned", cwd=tmp_path)
    assert "method=descent: no candidate survives all 1 validation seeds; the chosen one survives 0" in never.stdout
    for metric, why in (("round@error", "reach = 'error'"), ("round@error=+9%", "must have a centralised value")):
        refused = call(*words, "--candidates", "3", "--metric", metric, "--out", "tuned", cwd=tmp_path)
        assert (refused.returncode, refused.stderr.count("netsim: ")) == (2, 1)
        assert why in refused.stderr
