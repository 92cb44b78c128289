"""The frontier study: names, Pareto fronts, winners, and expected results on the real data."""

import dataclasses
import itertools
import json
import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from netsim import BadInput, Link
from netsim.agents import Always, AtRandom, Geometric, Periodic, PowerLaw, Relative
from netsim.coders import QSGD, ErrorFeedback, Float, TopK, Uniform
from netsim.scenarios.frontier.combinations import ONLINE, censor_of, coder_of
from netsim.scenarios.frontier.study import MethodGrid, cheapest, experiment
from netsim.scenarios.tasks.settings import Setting
from netsim.studies import Study, catalogue
from netsim.studies.results import pareto_front
from tests.command import call
from tests.parts import every

needs_data = pytest.mark.skipif(
    "NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set: real data are not at hand"
)

SMALL = {"agents": 5, "rounds": 60, "features": 12}


def run(**parameters: object) -> Study:
    return catalogue.find_study("frontier").execute(**parameters)


@pytest.fixture(scope="module")
def small() -> Study:
    return run(**SMALL, methods="DKLA,COKE,CTA", coders="float64,4,2", censors="none,geometric,every-2")


# --- names ------------------------------------------------------------------------------------------------------------


def test_coders_by_name() -> None:
    for bits in (16, 32, 64):
        name, coder = coder_of(f"float{bits}")
        assert name == f"float{bits}"
        assert isinstance(coder, Float)
        assert coder.bits == bits
    name, coder = coder_of("3")
    assert name == "3-bit"
    assert isinstance(coder, Uniform)
    assert (coder.bits, coder.fixed) == (3, None)
    name, coder = coder_of("5@0.10")
    assert name == "5-bit@0.1"
    assert isinstance(coder, Uniform)
    assert (coder.bits, coder.fixed) == (5, (-0.1, 0.1))
    name, coder = coder_of("qsgd-4")
    assert name == "qsgd-4"
    assert isinstance(coder, QSGD)
    assert coder.bits == 4


def test_censors_by_name() -> None:
    def named(text: str) -> object:
        return censor_of(text, 0.9, 0.97)

    assert named("none") == ("none", Always())
    assert named("geometric") == ("geometric", Geometric(0.9, 0.97))
    assert named("geometric-0.995") == ("geometric-0.995", Geometric(0.9, 0.995))
    assert named("power") == ("power", PowerLaw(0.9, 1.0))
    assert named("power-0.5") == ("power-0.5", PowerLaw(0.9, 0.5))
    assert named("every-3") == ("every-3", Periodic(3))
    assert named("random-0.25") == ("random-0.25", AtRandom(0.25))
    assert named("relative-1e-3") == ("relative-0.001", Relative(1e-3))


@every(
    ("parameters", "says"),
    [
        ({"methods": "DKLA,COK"}, r"methods = 'COK': must be one of DKLA, .*\(did you mean 'COKE'\?\)"),
        ({"coders": "flaot32"}, r"coders = 'flaot32': must be one of .*\(did you mean 'float32'\?\)"),
        ({"coders": "qsdg-3"}, r"coders = 'qsdg-3': must be .*\(did you mean 'qsgd-B'\?\)"),
        ({"coders": "4,B"}, r"coders = 'B': must be one of float64, .*B: bits"),
        ({"coders": ""}, r"coders = '': must be one of"),
        ({"coders": "17"}, r"coders = 17: must be a whole number from 1 to 16"),
        ({"coders": "qsgd-0"}, r"coders = 0: must be a whole number from 1 to 16"),
        ({"coders": "-3"}, r"coders = '-3': must be"),
        ({"coders": "3@x"}, r"coders = '3@x': must be"),
        ({"coders": "3@-1"}, r"coders = -1.0: must be a number > 0"),
        ({"coders": "3@inf"}, r"coders = inf: must be finite"),
        ({"coders": "qsgd-3@1"}, r"coders = 'qsgd-3@1': must be"),
        ({"censors": "geometrc"}, r"censors = 'geometrc': must be one of none, .*\(did you mean 'geometric'\?\)"),
        ({"censors": "evry-5"}, r"censors = 'evry-5': must be .*\(did you mean 'every-M'\?\)"),
        ({"censors": "every"}, r"censors = 'every': must be .*\(did you mean 'every-M'\?\)"),
        ({"censors": "every-M"}, r"censors = 'every-M': must be .*the capital letter: a number"),
        ({"censors": "every-2.5"}, r"censors = 2.5: must be a whole number >= 1"),
        ({"censors": "random-2"}, r"rate = 2.0: must be a probability"),
        ({"censors": "relative-nan"}, r"share = nan: must be"),
        ({"censors": "none-3"}, r"censors = 'none-3': must be .*\(did you mean 'none'\?\)"),
        ({"censors": "none"}, r"censors = 'none': must name a censor for COKE"),
        ({"agents": 1}, r"agents = 1: must be a whole number >= 2"),
        ({"rounds": 0}, r"rounds = 0: must be"),
        ({"online_eta": 0.0}, r"online_eta = 0.0: must be"),
    ],
)
def test_a_mistake_is_told_in_one_line_before_anything_runs(parameters: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says) as caught:
        run(**parameters)
    assert "\n" not in str(caught.value)


def test_each_combination_once_and_the_reference_first() -> None:
    given = {"coders": "2,float64,2", "censors": "geometric,none"}
    assert list(experiment(grid=MethodGrid(methods="COKE,DKLA,CTA", **given)).methods) == [
        "DKLA float64",
        "COKE 2-bit geometric",
        "COKE float64 geometric",
        "DKLA 2-bit",
        "CTA 2-bit geometric",
        "CTA 2-bit",
        "CTA float64 geometric",
        "CTA float64",
    ]
    few = experiment(grid=MethodGrid(methods="CTA", coders="2", censors="geometric"))
    assert list(few.methods) == ["DKLA float64", "CTA 2-bit geometric"]


def test_an_own_coder_censor_and_network_go_into_it() -> None:
    made = experiment(
        rounds=4, grid=MethodGrid(methods="COKE", coders="4", censors="every-2"), setting=Setting(agents=4)
    )
    own = made.with_values(
        {
            "methods.COKE 4-bit every-2.coder": ErrorFeedback(TopK(3)),
            "methods.COKE 4-bit every-2.censor": AtRandom(1.0),
            "problem.features": 8,
        }
    )
    found = dataclasses.replace(own, networks=Link(loss=0.2)).run()
    (row,) = found.runs[found.runs["coder"] == "4-bit"].to_dict("records")
    assert row["transmissions"] == 16
    assert row["payload_bits"] < 16 * 8 * 64
    assert found.rounds.groupby(["method", "coder"]).size().to_dict() == {("DKLA", "float64"): 4, ("COKE", "4-bit"): 4}
    run = own.play("COKE 4-bit every-2")
    assert run.agents[0].coder.arguments["coder"].arguments["k"] == 3


FAR = """
import numpy as np

class Cost:
    size = 1

    def proximal(self, *given, **more):
        return lambda *now: np.full(1, 1e200)

def task(seed):
    return [Cost() for _ in range(3)], None, lambda models: {"cost": float((models**2).mean())}
"""


def test_a_reference_that_diverges_ends_it_before_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "far.py").write_text(FAR, encoding="utf-8")
    given = {"methods": "DKLA", "coders": "float32", "censors": "none", "rho": 0.5, "rounds": 3}
    study = catalogue.find_study("frontier").prepare(task=str(tmp_path / "far.py"), **given)
    with pytest.raises(
        BadInput, match=r"^rho = 0\.5: must be such that DKLA float64, the reference, does not diverge$"
    ):
        catalogue.find_study("frontier").play(study)
    assert set(study.runs) == {"DKLA float64"}


# --- fronts and winners -----------------------------------------------------------------------------------------------


def test_the_front_is_what_no_other_point_beats() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        # Only few distinct values, so that ties are common.
        points = rng.integers(0, 6, size=(rng.integers(1, 15), 2)).astype(float)
        points[rng.random(points.shape) < 0.05] = math.nan
        points[rng.random(points.shape) < 0.05] = math.inf
        beaten = [
            not np.isfinite(own).all() or any((other <= own).all() and (other < own).any() for other in points)
            for own in points
        ]
        np.testing.assert_array_equal(pareto_front(points[:, 0], points[:, 1]), np.logical_not(beaten))
    assert pareto_front([], []).tolist() == []


def test_the_cheapest_is_within_one_percent_and_ties_go_to_the_smaller_error() -> None:
    table = pd.DataFrame(
        {
            "above_%": [0.0, 0.9, 0.5, 1.1, math.nan],
            "train_mse": [1.0, 1.009, 1.005, 1.011, math.nan],
            "payload_bits": [100.0, 10.0, 10.0, 1.0, math.nan],
        },
        index=list("abcde"),
    )
    assert cheapest(table, "payload_bits") == "c"
    assert cheapest(table.loc[["d", "e"]], "payload_bits") is None


# --- the study -----------------------------------------------------------------------------------------------------


def test_runs_tables_and_figures(small: Study) -> None:
    assert next(iter(small.runs)) == "DKLA float64"
    expected = {f"DKLA {coder}" for coder in ("float64", "4-bit", "2-bit")}
    for coder, censor in itertools.product(("float64", "4-bit", "2-bit"), ("geometric", "every-2")):
        expected |= {f"COKE {coder} {censor}", f"CTA {coder} {censor}", f"CTA {coder}"}
    table = small.tables["combinations"]
    names = (table["method"] + " " + table["coder"] + " " + table["censor"]).str.removesuffix(" none")
    assert set(names) == expected
    assert set(small.runs) <= expected
    assert set(small.figures) == {"frontier", "there"}
    assert {"front", "cheapest", "combinations"} == set(small.tables)
    columns = ["method", "coder", "censor", "train_mse", "test_mse", "transmissions", "payload_bits", "wire_bits"]
    assert list(small.tables["front"].columns) == columns


def test_the_table_agrees_with_the_rounds(small: Study) -> None:
    rounds = small.rounds.set_index(["algorithm", "round"])
    table = small.tables["combinations"]
    table.index = pd.Index((table["method"] + " " + table["coder"] + " " + table["censor"]).str.removesuffix(" none"))
    best = rounds.loc[("DKLA float64", 60), "train_mse"]
    for name in small.runs:
        for column in ("train_mse", "test_mse", "transmissions", "payload_bits", "wire_bits"):
            assert table.loc[name, column] == rounds.loc[(name, 60), column]
        course = rounds.loc[name]
        there = table.loc[name, "round_there"]
        if math.isnan(there):
            assert course["train_mse"].iloc[-1] > 1.01 * best
        else:
            assert (course.loc[there:, "train_mse"] <= 1.01 * best).all()
            assert there == 1 or course.loc[there - 1, "train_mse"] > 1.01 * best
            assert table.loc[name, "payload_bits_there"] == course.loc[there, "payload_bits"]
    assert table.loc["DKLA float64", "payload_bits"] == 5 * 60 * 12 * 64
    assert table.loc["DKLA 2-bit", "payload_bits"] == 5 * 60 * (12 * 2 + 32)
    assert table.loc["CTA 4-bit every-2", "transmissions"] == 5 * 30


def test_the_front_and_the_winner_by_brute_force(small: Study) -> None:
    table = small.tables["combinations"].dropna(subset=["train_mse"])
    pairs = table[["payload_bits", "train_mse"]].to_numpy()
    kept = [not any((other <= own).all() and (other < own).any() for other in pairs) for own in pairs]
    assert sorted(map(tuple, pairs[kept])) == list(
        small.tables["front"][["payload_bits", "train_mse"]].itertuples(index=False, name=None)
    )
    within = table[table["train_mse"] <= 1.01 * table["train_mse"].iloc[0]]
    fewest = within["payload_bits"].min()
    (line,) = [note for note in small.notes if note.startswith("Cheapest so far by bits in all")]
    assert f"{fewest:,.0f} of payload, 1/{table['payload_bits'].iloc[0] / fewest:.1f} of DKLA float64's" in line


def test_nothing_wins_before_the_reference_has_come_to_rest(small: Study) -> None:
    """After 60 rounds the reference's error is still falling, so the combination with the fewest bits is no winner."""
    errors = small.runs["DKLA float64"].rounds["train_mse"]
    best = small.centralised["train_mse"]
    assert errors.iloc[-1] > 1.1 * best
    (said,) = [note for note in small.notes if note.startswith("Unfinished: ")]
    fell, above = (100 * (1 - errors.iloc[-1] / errors.iloc[30]), 100 * (errors.iloc[-1] / best - 1))
    assert f"fell by {fell:,.1f} %, and it ended {above:,.1f} % above the centralised optimum" in said
    assert not any(note.startswith("Winner") for note in small.notes)


@pytest.mark.parametrize(("features", "loss"), [(4, 0.0), (12, 0.3)])
def test_it_wins_once_the_reference_rests_where_frames_are_lost_too(features: int, loss: float) -> None:
    rounds = 150
    study = run(agents=5, features=features, rounds=rounds, loss=loss, methods="DKLA", coders="4", censors="none")
    errors = study.runs["DKLA float64"].rounds["train_mse"]
    assert errors.iloc[rounds // 2] == pytest.approx(errors.iloc[-1], rel=0.01)
    assert (errors.iloc[-1] > 1.01 * study.centralised["train_mse"]) == bool(loss)
    assert any(note.startswith("Winner by bits in all") for note in study.notes)
    assert not any(note.startswith(("Unfinished", "Cheapest so far")) for note in study.notes)


def test_the_reference_is_the_dkla_of_the_coke_scenario(small: Study) -> None:
    same = catalogue.find_study("coke").execute(**SMALL, algorithms="DKLA").rounds
    ours = small.rounds[small.rounds["algorithm"] == "DKLA float64"]
    np.testing.assert_array_equal(ours["train_mse"], same["train_mse"])
    np.testing.assert_array_equal(ours["payload_bits"], same["payload_bits"])


@pytest.mark.slow
def test_online_methods_pass_once_over_their_samples_and_learn() -> None:
    online = list(ONLINE)
    study = run(agents=4, rounds=300, features=20, methods=",".join(online), coders="float32,4", censors="none,every-2")
    assert len(study.runs) == 1 + 4 * 4
    table = study.tables["combinations"]
    start = study.rounds.loc[study.rounds["round"] == 1, "train_mse"].max()
    assert (table["train_mse"] < 0.5 * start).all()
    assert (table.loc[table["censor"] == "every-2", "transmissions"] == 4 * 150).all()


def test_online_methods_end_with_the_samples(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.random(60), "z": rng.random(60)})
    frame.assign(y=np.sin(3 * frame["x"])).to_csv(f"{tmp_path}/waves.csv.gz", index=False)
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    study = run(data="waves", agents=3, rounds=40, features=8, methods="ODKLA", coders="3", censors="none")
    assert study.rounds.groupby("algorithm")["round"].max().to_dict() == {"DKLA float64": 40, "ODKLA 3-bit": 14}


def test_what_diverges_is_said_so_and_the_rest_goes_on() -> None:
    study = run(**SMALL | {"rounds": 400}, methods="DKLA", coders="qsgd-1,4", censors="none")
    (line,) = [note for note in study.notes if note.startswith("Diverged")]
    assert line.endswith(": DKLA qsgd-1.")
    assert math.isfinite(study.tables["combinations"].set_index("coder").loc["4-bit", "train_mse"])


def test_names_of_the_front_do_not_cover_one_another(small: Study) -> None:
    figure = small.figures["frontier"]
    figure.draw_without_rendering()
    for panel in figure.axes:
        # The method of Text excludes the leader line, which an annotation's extent would include.
        boxes = [Text.get_window_extent(text) for text in panel.texts]
        for one, other in itertools.combinations(boxes, 2):
            assert not one.overlaps(other)
        for box in boxes:
            assert panel.bbox.contains(box.x0, box.y0)
            assert panel.bbox.contains(box.x1, box.y1)


def test_its_combinations_are_tuned_for_the_bits_to_a_target_and_run_with_what_was_best(tmp_path: Path) -> None:
    """Variants of a method share its name in tables but are tuned separately; explicit settings take precedence."""
    chosen = {"methods": "DKLA,COKE", "coders": "float64,4", "censors": "none,geometric", **SMALL}
    flags = [word for name, value in chosen.items() for word in (f"--{name}", str(value))]
    over = ("--over", "DKLA 4-bit.rho=0.001:0.1:log", "--over", "v=0.1:3:log", "--candidates", "3", "--seeds", "100")
    how = ("--validation", "none", "--metric", "wire_bits@test_mse=+50%", "--out", "tuned")
    done = call("tune", "frontier", *flags, *over, *how, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "tuned" / "tuning.csv")
    file = tmp_path / "tuned" / "tuned.json"
    kept = json.loads(file.read_text())
    assert kept["methods"] == ["DKLA 4-bit", "COKE float64 geometric", "COKE 4-bit geometric"]
    for each, (_, trials) in zip(kept["best"], table.groupby(["method", "coder"], sort=False), strict=True):
        least = trials.loc[trials["wire_bits@test_mse=+50%"].idxmin()]
        assert list(each["values"].values()) == least[["rho", "censor.v"]].dropna().tolist()
        each["values"] = {name: 0.07 for name in ("rho", "censor.v") if not trials[name].isna().all()}
    file.write_text(json.dumps(kept))
    used = run(settings=str(file), set="COKE 4-bit geometric.v=0.3", **chosen).origin["methods"]
    assert used["DKLA 4-bit"]["rho"] == 0.07 != used["DKLA float64"]["rho"]
    assert "v=0.07" in used["COKE float64 geometric"]["censor"]
    assert "v=0.3" in used["COKE 4-bit geometric"]["censor"]


def test_links_that_carry_nothing_have_no_winner() -> None:
    study = run(agents=3, rounds=5, features=8, methods="DKLA", coders="4", censors="none", budget=1.0)
    assert "No winner: nothing was sent." in study.notes
    assert "there" not in study.figures


@needs_data
def test_airquality_in_two_bits_costs_less_than_a_twenty_fifth() -> None:
    study = run(data="airquality", sigma=0.5, methods="COKE", coders="2", censors="geometric")
    table = study.tables["combinations"].set_index("method")
    assert table.loc["COKE", "above_%"] <= 1.0
    assert table.loc["COKE", "payload_bits"] <= table.loc["DKLA", "payload_bits"] / 25
    assert table.loc["DKLA", "train_mse"] == pytest.approx(1.414e-3, rel=0.01)
