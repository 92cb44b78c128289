"""The packet loss study: its expected results, reuse of finished runs, and its refusals."""

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netsim import BadInput, Grid, Link, Links, topology
from netsim.agents import LocalProblem, Squared
from netsim.coders import TopK
from netsim.scenarios.packet_loss.remedies import REMEDIES
from netsim.scenarios.packet_loss.report import (
    ABOVE_LOSS_FREE,
    by_share,
    left_out,
    notes,
    pick,
    summarised,
    with_errors,
)
from netsim.scenarios.packet_loss.study import LossCompared, LossSize, experiment
from netsim.studies import Study, catalogue
from tests.command import call
from tests.netsim.studies.experiment.parts import tuned_file

SMALL = {"agents": 6, "edges": 9, "rounds": 115, "features": 10, "repeats": 4, "jobs": 1, "lost": "0.3"}

needs_data = pytest.mark.skipif(
    "NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set: real data are not at hand"
)


def run(folder: Path, **parameters: object) -> Study:
    return catalogue.find_study("packet_loss").execute(folder=str(folder), **parameters)


def above(study: Study, family: str, remedy: str, loss: float, burst: float = 1.0) -> float:
    rows = pick(study.tables["means"], ABOVE_LOSS_FREE, family=family, remedy=remedy, loss=loss, burst=burst)
    (value,) = rows["mean"]
    return float(value)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    folder = tmp_path_factory.mktemp("packet_loss") / "runs"
    return run(folder, **SMALL, remedies="running-sums"), folder


def test_plain_is_off_and_running_sums_are_not(swept: tuple[Study, Path]) -> None:
    study, _ = swept
    for burst in (1.0, 5.0):
        for family in ("DKLA", "COKE"):
            plain, mended = (above(study, family, remedy, 0.3, burst) for remedy in ("none", "running-sums"))
            assert plain > 10.0
            assert mended < plain / 3
    assert above(study, "DKLA", "running-sums", 0.3) < 5.0
    assert above(study, "COKE 8-bit", "none", 0.3) > above(study, "COKE", "none", 0.3)
    assert above(study, "CTA", "none", 0.3) < above(study, "DKLA", "none", 0.3)


def test_the_notes_name_what_shows_it(swept: tuple[Study, Path]) -> None:
    study, _ = swept
    (dkla,) = [note for note in study.notes if "DKLA without a remedy ends" in note]
    assert dkla.startswith("At 30 % loss DKLA")
    assert "max|Σγ|" in dkla
    assert any(
        note.startswith("DKLA with running sums: within 5 % of loss-free up to 30 % loss") for note in study.notes
    )


def test_what_is_done_is_not_done_again(swept: tuple[Study, Path]) -> None:
    study, folder = swept
    before = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/run.json")}
    # 4 families, and 2 of them with running sums; 4 seeds; losses 0, 0.3, and 0.3 in bursts.
    assert len(before) == (4 + 2) * 4 * 3
    # Delete one result, as if the run had been interrupted.
    gone = min(before)
    gone.unlink()
    again = run(folder, **SMALL, remedies="running-sums")
    after = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/run.json")}
    assert after.keys() == before.keys()
    assert [path for path in before if after[path] != before[path]] == [gone]
    pd.testing.assert_frame_equal(again.tables["runs"], study.tables["runs"])


@pytest.mark.slow
def test_its_folder_has_tables_and_figures(swept: tuple[Study, Path], tmp_path: Path) -> None:
    study, _ = swept
    names = {path.name for path in study.save(tmp_path / "out").iterdir()}
    figures = {"error.png", "bursts.png", "agreement.png", "price.png"}
    tables = {"runs.csv", "means.csv", "price.csv", "above_loss_free_none.csv", "above_loss_free_running_sums.csv"}
    assert names >= figures | tables


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"lost": "0.1,much"}, "lost = '0.1,much': must be numbers >= 0 and < 1"),
        ({"lost": "1.3"}, "lost = '1.3': must be numbers >= 0 and < 1"),
        ({"lost": "0"}, "lost = '0': must be one number above 0"),
        ({"remedies": "prayer"}, "remedies = 'prayer'"),
        ({"burst": 0.5}, "burst = 0.5"),
        ({"lost": "0.95"}, "burst"),
        ({"bits": 17}, "bits = 17"),
        ({"repeats": 1}, "repeats = 1"),
        ({"jobs": 0}, "jobs = 0"),
        ({"folder": ""}, "folder = ''"),
    ],
)
def test_bad_flags_end_in_one_line(flags: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        catalogue.find_study("packet_loss").execute(**{"folder": str(tmp_path / "runs"), **flags})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


TINY = {"agents": 5, "edges": 6, "rounds": 20, "features": 8, "sigma": 1.0, "regularizer": 1e-3}
FEW: dict[str, object] = {**TINY, "repeats": 2, "jobs": 1, "lost": "0.3", "burst": 1.0, "remedies": "none"}


def alone(family: str, loss: float, seed: int = 0, **given: Any) -> float:
    """Return the final error of a method run by the study coke."""
    study = catalogue.find_study("coke").execute(
        **{**TINY, "conventions": "text", "algorithms": family, "loss": loss, "seed": seed, **given}
    )
    return float(study.rounds["train_mse"].iloc[-1])


def ended(study: Study, family: str, loss: float, seed: int = 0, remedy: str = "none") -> float:
    """Return the final error of a run of the study packet_loss."""
    runs = study.tables["runs"].set_index(["family", "remedy", "loss", "seed"])
    return float(runs.loc[(family, remedy, loss, seed), "train_mse"])


def test_each_run_is_one_of_coke_with_the_values_that_are_set_for_it(tmp_path: Path) -> None:
    values = "DKLA.rho=0.07,COKE 8-bit.v=0.3,CTA.eta=0.25"
    given = FEW | {"remedies": "running-sums,renormalised,ack"}
    study = run(tmp_path / "runs", **given, methods="CTA,DKLA,coded", set=values)
    for remedy, flags in (("none", {}), ("running-sums", {"remedy": "running-sums"}), ("ack", {"reliability": "ack"})):
        assert ended(study, "DKLA", 0.3, 1, remedy) == alone("DKLA", 0.3, 1, rho=0.07, **flags)
    for remedy, unheard in (("none", "kept"), ("renormalised", "dropped")):
        assert ended(study, "CTA", 0.3, remedy=remedy) == alone("CTA", 0.3, eta=0.25, unheard=unheard)
    assert ended(study, "COKE 8-bit", 0.3) == alone("COKE 8-bit", 0.3, bits=8, threshold=0.3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("COKE.rho=1", "set: method = 'COKE'"),
        ("DKLA.much=1", "set: parameter of DKLA = 'much'"),
        ("DKLA.rho", "set = 'DKLA.rho': must be METHOD.PARAMETER=VALUE"),
        ("list", "set = 'list': must be METHOD.PARAMETER=VALUE, of these: DKLA (coded_start, rho"),
    ],
)
def test_values_that_nothing_takes_are_refused_before_anything_runs(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        run(tmp_path / "runs", **FEW, methods="DKLA,coded", set=text)
    assert words in str(caught.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_each_share_runs_with_what_was_tuned_for_it(tmp_path: Path) -> None:
    # The given step sizes are bad, so tuning must choose others.
    given = {**TINY, "algorithms": "CTA,DKLA", "eta": 1e-4, "rho": 100.0, "loss": "0,0.3", "conventions": "text"}
    flags = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    over = ("--over", "CTA.eta=0.1:1", "--over", "DKLA.rho=0.001:0.1:log", "--candidates", "3", "--validation", "none")
    assert call("tune", "coke", *flags, *over, "--out", "tuned", cwd=tmp_path).returncode == 0
    file = tmp_path / "tuned" / "tuned.json"
    best = {tuple(each["condition"]): each["values"] for each in json.loads(file.read_text())["best"]}
    study = run(tmp_path / "runs", **FEW, methods="CTA,DKLA", settings=str(file))
    assert not [note for note in study.notes if "chosen with" in note]
    assert ended(study, "CTA", 0.3) == alone("CTA", 0.3, **best["loss=0.3", "method=CTA"])
    assert ended(study, "DKLA", 0.3) == alone("DKLA", 0.3, **best["loss=0.3", "method=DKLA"])


def test_it_takes_what_it_was_tuned_for_by_itself(tmp_path: Path) -> None:
    few = FEW | {"remedies": "running-sums", "rounds": 3, "methods": "DKLA"}
    flags = [word for name, value in few.items() if name != "jobs" for word in (f"--{name}", str(value))]
    over = ("--over", "rho=0.01:1:log", "--candidates", "2", "--seeds", "100", "--validation", "none")
    assert call("tune", "packet_loss", *flags, *over, "--out", "tuned", cwd=tmp_path).returncode == 0
    file = tmp_path / "tuned" / "tuned.json"
    kept = json.loads(file.read_text())
    for number, each in enumerate(kept["best"], 1):
        each["values"] = {"rho": number / 10}
    file.write_text(json.dumps(kept))
    study = run(tmp_path / "runs", **few, settings=str(file))
    for each in kept["best"]:
        about = dict(part.split("=") for part in each["condition"])
        own = {"remedy": about["remedy"], "rounds": 3, **each["values"]}
        loss = float(about["loss"])
        assert ended(study, "DKLA", loss, remedy=about["remedy"]) == alone("DKLA", loss, **own)


def rows(errors: dict[tuple[str, float], list[float]], apart: float = 1e-9) -> pd.DataFrame:
    """Return runs of DKLA, with errors by remedy and loss for seeds 0, 1, …; the optimum's error is 1."""
    table = [
        {"family": "DKLA", "remedy": remedy, "burst": 1.0, "loss": loss, "seed": seed, "optimum": 1.0}
        | {"train_mse": error, "test_mse": error, "consensus_error": apart, "dual_residual": 0.1 * loss}
        | {"copy_error": 0.0, "transmissions": 1, "wire_bits": 100}
        for (remedy, loss), each in errors.items()
        for seed, error in enumerate(each)
    ]
    return pd.DataFrame(table)


def test_errors_are_compared_in_pairs() -> None:
    means = summarised(with_errors(rows({("none", 0.0): [1.0, 10.0], ("none", 0.1): [1.5, 15.0]})))
    (mean,) = pick(means, ABOVE_LOSS_FREE, loss=0.1)["mean"]
    assert mean == pytest.approx(50.0)


def test_notes_follow_from_the_numbers() -> None:
    errors = {("none", 0.0): [1.0, 1.0], ("none", 0.01): [1.04, 1.02], ("none", 0.1): [1.32, 1.32]}
    errors |= {("ack", 0.0): [1.0, 1.0], ("ack", 0.01): [1.01, 1.01], ("ack", 0.1): [1.2, 1.2]}
    plain, mended = notes(summarised(with_errors(rows(errors))), 1.0)
    assert plain == (
        "At 10 % loss DKLA without a remedy ends 32 % above loss-free [32, 32: 95 % interval of the mean (Student's t, "
        "n = 2)]; its consensus error is 1e-09, 1e-09 without loss: it does not show it; max|Σγ| is 0.01, 0 without "
        "loss."
    )
    assert mended == f"DKLA with {REMEDIES['ack'].title}: within 5 % of loss-free up to 1 % loss (independent)."


def test_the_interval_of_two_seeds_is_that_of_their_mean() -> None:
    """For errors of 23 and 27 % the 95 % interval is 12.7 times as wide as the difference between them."""
    means = summarised(with_errors(rows({("none", 0.0): [1.0, 1.0], ("none", 0.1): [1.23, 1.27]})))
    (row,) = pick(means, ABOVE_LOSS_FREE, loss=0.1).to_dict("records")
    assert (row["low"], row["high"]) == pytest.approx((25.0 - 12.706 * 2, 25.0 + 12.706 * 2), abs=1e-2)
    table = by_share(means, "none")
    assert table["10 %"].tolist() == ["25 [-0.41, 50]"]
    alone = summarised(with_errors(rows({("none", 0.0): [1.0], ("none", 0.1): [1.23]})))
    assert by_share(alone, "none")["10 %"].tolist() == ["23"], "of one seed there is none"


def test_what_two_seeds_leave_in_doubt_is_said_to_be() -> None:
    (note,) = notes(summarised(with_errors(rows({("none", 0.0): [1.0, 1.0], ("none", 0.1): [1.1, 1.6]}))), 1.0)
    assert note.startswith("At 10 % loss DKLA without a remedy ends 35 % above loss-free [-283, 353: 95 % interval")
    assert note.endswith("n = 2)], which leaves it in doubt at any loss: more --repeats tell.")


def test_a_remedy_is_near_where_its_whole_interval_is() -> None:
    errors = {("none", 0.0): [1.0] * 3, ("none", 0.01): [1.03, 1.04, 1.06], ("none", 0.1): [1.01, 1.02, 1.03]}
    errors |= {("ack", 0.01): [1.01, 1.02, 1.03], ("ack", 0.1): [1.03, 1.04, 1.06]}
    plain, mended = notes(summarised(with_errors(rows(errors))), 1.0)
    assert plain == (
        "DKLA without a remedy ends less than 5 % above loss-free up to 10 % loss, in the mean: its interval reaches "
        "8.1 %."
    )
    assert mended.endswith("within 5 % of loss-free up to 1 % loss (independent).")


def test_titles_and_figures_say_which_interval_and_of_how_many(swept: tuple[Study, Path]) -> None:
    study, _ = swept
    told = "95 % interval of the mean (Student's t, n = 4)"
    assert study.titles["above_loss_free_none"].endswith(f"mean [{told}]")
    for name in ("error", "bursts", "price"):
        assert told in study.figures[name].get_suptitle()


def test_runs_in_no_mean_are_counted_in_a_line() -> None:
    errors = {("none", 0.0): [1.0] * 20, ("none", 0.1): [math.inf] * 20, ("ack", 0.1): [math.inf] * 4}
    failed = [("keyframe", 5.0, f"loss=0.1,seed={seed}", "it stood still.") for seed in range(20)]
    unended, diverged = left_out(with_errors(rows(errors)), failed)
    assert unended == (
        "Did not end: 20 runs, 20 of key frames (bursts of 5); the first, loss=0.1,seed=0: it stood still."
    )
    assert diverged == (
        "Diverged, so that there is no mean where they are: 24 runs, 20 of DKLA with no remedy, "
        f"4 of DKLA with {REMEDIES['ack'].title} (which: runs.csv)."
    )


def tuned(path: Path, best: dict[tuple[float, str], dict[str, dict[str, float]]]) -> str:
    """Write a file of best settings by loss and remedy, in the format of `netsim tune coke`."""
    parts = [
        ({"loss": loss, "remedy": remedy, "method": method}, values)
        for (loss, remedy), each in best.items()
        for method, values in each.items()
    ]
    return tuned_file(path, parts)


@pytest.mark.slow
def test_each_family_runs_with_what_was_best_for_its_share_and_remedy(tmp_path: Path) -> None:
    given = FEW | {"methods": "CTA,DKLA", "remedies": "running-sums"}
    plain = {(loss, "none"): {"DKLA": {"rho": rho}, "CTA": {"eta": rho}} for loss, rho in ((0.0, 0.2), (0.3, 0.05))}
    sums = {(loss, "running-sums"): {"DKLA": {"rho": rho}} for loss, rho in ((0.0, 0.3), (0.3, 0.4))}
    files = [tuned(tmp_path / "plain.json", plain), tuned(tmp_path / "sums.json", sums)]
    study = run(tmp_path / "runs", settings=",".join(files), set="CTA.eta=0.1", **given)
    for (loss, remedy), best in (plain | sums).items():
        for seed in (0, 1):
            own = {"rho": best["DKLA"]["rho"], "remedy": remedy}
            assert ended(study, "DKLA", loss, seed, remedy) == alone("DKLA", loss, seed, **own)
            # Explicit settings override tuned ones.
            assert ended(study, "CTA", loss, seed) == alone("CTA", loss, seed, eta=0.1)
    told = f"Each family at the settings that were best for its share of lost frames: {','.join(files)}."
    assert told in study.notes
    assert not any(note.startswith("Not in") for note in study.notes)


def test_settings_that_do_not_fit_are_told_before_anything_runs(tmp_path: Path) -> None:
    small = {"agents": 4, "edges": 4, "rounds": 5, "features": 6, "repeats": 2, "jobs": 1, "burst": 1.0}
    given = small | {"lost": "0.3", "methods": "CTA,DKLA", "remedies": "none"}
    best = {(loss, "none"): {"DKLA": {"rho": 0.1}} for loss in (0.0, 0.3)}
    file = tuned(tmp_path / "tuned.json", best)
    study = run(tmp_path / "runs", settings=file, **given)
    (note,) = [each for each in study.notes if each.startswith("Not in")]
    assert note == f"Not in {file}, and so as they are: CTA."
    for changed, why in (
        ({"remedies": "running-sums"}, "remedy = running-sums, method = DKLA; it is for loss = 0.0"),
        ({"lost": "0.1"}, "must be tuned for loss = 0.1, remedy = none, method = DKLA; it is"),
        ({"seed": 99}, "seeds = [100]: must not be the seeds on which settings were tuned"),
        ({"settings": str(tmp_path / "none.json")}, r"must be a tuned.json that netsim tune wrote"),
    ):
        with pytest.raises(BadInput) as caught:
            run(tmp_path / "others", **{"settings": file, **given, **changed})
        assert why in str(caught.value)
        assert not (tmp_path / "others").exists()


def test_a_folder_of_sweeps_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "old" / "none").mkdir(parents=True)
    (tmp_path / "old" / "none" / "sweep.json").write_text("{}")
    with pytest.raises(BadInput, match=r"^folder = '.*old': must be a new or empty folder, or the folder of an exp"):
        run(tmp_path / "old", **FEW)


def bowls(seed: int, agents: int = 4) -> Any:
    """Return quadratic costs around points drawn from a seed, no graph, and the distance to their mean as measure."""
    points = np.random.default_rng(seed).normal(size=(agents, 2))
    costs = [LocalProblem(np.eye(2), each, loss=Squared(), regularizer=0.0) for each in points]
    return costs, None, lambda models: {"distance": float(np.abs(models - points.mean(axis=0)).max())}


@dataclasses.dataclass(frozen=True)
class EveryThird:
    """A loss model that loses every third frame over a link."""

    mean: float = 1 / 3

    def on_link(self, u: Any) -> Any:
        number = iter(range(10**9))
        return lambda u: next(number) % 3 == 2


def test_the_definition_takes_parts_of_ones_own() -> None:
    size = LossSize(rounds=5, agents=4, edges=4, features=6)
    made = experiment(compared=LossCompared(methods="CTA,DKLA,coded", remedies="ack", lost="0.3", repeats=2), size=size)
    assert {(cell.columns["network"], cell.columns["remedy"]) for cell in made.cells()} == {
        ("none", "none"),
        ("ack", "ack"),
    }
    own = made.with_values({"methods.COKE 8-bit.coder": TopK(2), "problem.regularizer": 0.1, "methods.CTA.eta": 0.1})
    ring = {"none": Links(link=Link(loss=EveryThird()), graph=topology.ring(4))}
    own = dataclasses.replace(own, problem=bowls, networks=ring, grid=Grid([{}]), names={}, only=None)
    results = own.run()
    assert len(results.cells) == 5 * 2
    assert results.metric == "distance"
    assert not set(results.runs["outcome"]) & {"failed"}


@needs_data
def test_on_air_quality_as_measured_by_others(tmp_path: Path) -> None:
    """Fewer rounds than the usual 1,500 must give the same kind of result."""
    given = {"data": "airquality", "sigma": 0.5, "rounds": 400, "lost": "0.001,0.01,0.3", "burst": 1.0}
    study = run(tmp_path / "runs", **given, remedies="running-sums", repeats=2)
    assert above(study, "DKLA", "none", 0.01) > 15.0
    assert above(study, "COKE", "none", 0.01) > 15.0
    assert above(study, "COKE 8-bit", "none", 0.001) > 100.0
    assert abs(above(study, "DKLA", "running-sums", 0.3)) < 8.0
