"""The coke study against known results: the order of the paper's curves, and values measured on the real data."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import AgentError, BadInput, Link
from netsim.agents import DKLA
from netsim.scenarios.coke import CokeMethods, CokeRows, experiment
from netsim.scenarios.data.tables import load_prepared
from netsim.scenarios.tasks import problems
from netsim.scenarios.tasks.settings import PacedChannel, Rows
from netsim.studies import Study, catalogue, sweep
from netsim.studies.formats import Formats
from tests.netsim.studies.test_sweep import files

needs_data = pytest.mark.skipif(
    "NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set: real data are not at hand"
)


def run(**parameters: object) -> Study:
    return catalogue.find_study("coke").execute(**parameters)


def transmissions_to_reach(rounds: pd.DataFrame, algorithm: str, level: float) -> float:
    reached = rounds[(rounds["algorithm"] == algorithm) & (rounds["train_mse"] <= level)]["transmissions"]
    return float(reached.iloc[0]) if len(reached) else float("nan")


def saving(rounds: pd.DataFrame, level: float) -> float:
    return 1 - transmissions_to_reach(rounds, "COKE", level) / transmissions_to_reach(rounds, "DKLA", level)


def test_a_method_whose_models_outgrow_their_coder_is_left_out_and_the_others_go_on() -> None:
    small = {"agents": 4, "features": 6, "rounds": 100, "set": "LEAD.eta=40"}
    study = run(algorithms="LEAD,DKLA", **small)
    assert list(study.runs) == ["DKLA"]
    (note,) = [each for each in study.notes if each.startswith("LEAD")]
    assert note.startswith("LEAD diverged, and is left out: agent ")
    assert "must be at most 3.40282e+38" in note
    alone = run(algorithms="DKLA", **{name: value for name, value in small.items() if name != "set"})
    pd.testing.assert_frame_equal(study.rounds, alone.rounds)
    with pytest.raises(AgentError, match=r"3\.40282e\+38"):
        run(algorithms="LEAD", **small)


def test_the_synthetic_study_has_the_papers_shape() -> None:
    study = run(rounds=200)
    last = study.rounds.groupby("algorithm").last()
    assert last.loc["DKLA", "transmissions"] == 20 * 200
    assert last.loc["COKE", "transmissions"] < 0.7 * 20 * 200
    assert last.loc["COKE", "train_mse"] < 1.3 * last.loc["DKLA", "train_mse"]
    assert last.loc["CTA", "train_mse"] > last.loc["COKE", "train_mse"]
    assert (last["train_mse"] > study.centralised["train_mse"]).all()
    assert last.loc["DKLA", "payload_bits"] == 20 * 200 * 64 * 100


@needs_data
def test_tomshardware_agrees_with_what_was_measured_before() -> None:
    study = run(data="tomshardware", rounds=500, conventions="text")
    best = study.centralised["train_mse"]
    assert best == pytest.approx(1.12e-3, rel=0.08)
    last = study.rounds.groupby("algorithm").last()
    assert last.loc["DKLA", "train_mse"] == pytest.approx(best, rel=0.01)
    levels = np.array([1.8, 1.7, 1.6, 1.5, 1.4, 1.3, 1.2]) * 1e-3
    assert sum(saving(study.rounds, level) >= 0.4 for level in levels) >= 3


@needs_data
def test_airquality_agrees_with_what_was_measured_before() -> None:
    study = run(data="airquality", sigma=0.5, rounds=300, conventions="text")
    assert study.centralised["train_mse"] == pytest.approx(1.25e-3, rel=0.08)
    assert sum(saving(study.rounds, level) >= 0.4 for level in (5e-3, 4e-3, 3e-3, 2.5e-3)) >= 3
    spoken = study.rounds[study.rounds["algorithm"] == "COKE"].set_index("round")["transmissions"]
    np.testing.assert_allclose(spoken[[50, 100, 200]], [73, 178, 788], rtol=0.1)


@needs_data
def test_a_bandwidth_that_does_not_learn_is_said_so() -> None:
    study = run(data="airquality", rounds=5, algorithms="DKLA", features=50, conventions="text")
    assert any(note.startswith("Does not learn") for note in study.notes)


@needs_data
@pytest.mark.parametrize(
    ("data", "rows", "columns", "variance"),
    [("energy", 18_604, 25, 28.3e-3), ("airquality", 7_322, 13, 15.3e-3), ("tomshardware", 11_000, 96, 3.04e-3)],
)
def test_tables_are_prepared_as_the_printed_tables_were(data: str, rows: int, columns: int, variance: float) -> None:
    table = load_prepared(data, CokeRows().resolved(data, "tables"))
    assert table.inputs.shape == (rows, columns)
    assert table.target.var() == pytest.approx(variance, rel=5e-3)
    assert (table.inputs.min(), table.inputs.max(), table.target.min(), table.target.max()) == (0.0, 1.0, 0.0, 1.0)


@needs_data
def test_energys_printed_numbers_come_out() -> None:
    study = run(data="energy", rounds=500, algorithms="DKLA,COKE")
    table = study.tables["by_round"].set_index(["algorithm", "round"])
    assert table.loc[("DKLA", 500), "train_mse"] == pytest.approx(21.55e-3, rel=0.05)
    sent, printed = table["transmissions"]["COKE"], table["published_transmissions"]["COKE"]
    assert sent[50] == printed[50] == 0
    assert [sent[100], sent[200], sent[500]] == pytest.approx([57, 254, 987], rel=0.2)
    # A message is 2L elements of 64 bits.
    assert table.loc[("DKLA", 500), "payload_bits"] == 10 * 500 * 2 * 100 * 64
    (note,) = [each for each in study.notes if each.startswith("Settings chosen so that")]
    assert "2L elements" in note
    assert "‖h‖²" in note
    assert "14 links" in note


@needs_data
def test_what_differs_from_the_text_is_what_the_note_names() -> None:
    study = run(data="energy", rounds=1, algorithms="DKLA", conventions="text")
    assert any(each.startswith("Settings follow the paper's text") for each in study.notes)
    study = run(data="energy", rounds=1, algorithms="DKLA,COKE", conventions="text", squared=True)
    (note,) = [each for each in study.notes if each.startswith("Settings chosen so that")]
    assert "‖h‖²" in note
    assert "links" not in note


def test_cta_with_half_the_gradient_is_cta_with_half_the_step() -> None:
    settings = {"agents": 4, "rounds": 20, "features": 10, "algorithms": "CTA"}
    half, plain = run(**settings, gradient=1.0, eta=0.5), run(**settings, eta=0.25)
    assert half.trace_hash == plain.trace_hash


def test_pairs_are_twice_as_long() -> None:
    settings = {"agents": 4, "rounds": 3, "features": 10, "algorithms": "DKLA"}
    cosine, pairs = run(**settings), run(**settings, form="pairs")
    assert pairs.rounds["payload_bits"].tolist() == (2 * cosine.rounds["payload_bits"]).tolist()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"conventions": "print"}, "conventions = 'print': must be"),
        ({"form": "sine"}, "form = 'sine': must be"),
        ({"gradient": 0.0}, "gradient = 0.0: must be"),
        ({"first": 5}, "first = 5: must be left out for the data 'synthetic'"),
        ({"scaling": "whole"}, "scaling = 'whole': must be left out for the data 'synthetic'"),
    ],
)
def test_conventions_outside_their_ranges_are_refused(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        run(agents=4, rounds=3, **parameters)


def test_rows_are_chosen_before_they_are_scaled(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("a,b,y\n0,10,1\n2,20,2\n4,30,3\n8,50,100\n1000,1000,2\n")
    table = load_prepared(str(path), Rows(first=4, within=1.5, scaling="whole"))
    np.testing.assert_allclose(table.inputs, np.array([[0, 10], [2, 20], [4, 30]]) / 30)
    np.testing.assert_allclose(table.target, [0, 0.5, 1])
    by_column = load_prepared(str(path), Rows(first=3))
    np.testing.assert_allclose(by_column.inputs, [[0, 0], [0.5, 0.5], [1, 1]])


def test_one_agent_alone_needs_no_messages() -> None:
    study = run(agents=1, rounds=300, features=10)
    last = study.rounds.groupby("algorithm").last()
    assert (last["transmissions"] == 0).all()
    assert last.loc["DKLA", "train_mse"] == pytest.approx(study.centralised["train_mse"], rel=1e-9)


def test_lossy_links_show_in_the_residuals() -> None:
    study = run(agents=6, rounds=60, features=20, loss=0.2, bits=4, algorithms="DKLA,COKE")
    last = study.rounds.groupby("algorithm").last()
    assert (last["lost"] > 0).all()
    assert (last["dual_residual"] > 1e-6).all()
    assert last.loc["COKE 4-bit", "copy_error"] > 0


def test_a_budget_refuses_what_does_not_fit() -> None:
    study = run(agents=5, rounds=10, features=20, algorithms="DKLA", budget=1000.0)
    last = study.rounds.iloc[-1]
    assert last["transmissions"] == 0
    assert last["refused"] == last["link_messages"] > 0


# --- compute times ----------------------------------------------------------------------------------------------------

SMALL = {"rounds": 12, "agents": 5, "features": 10, "algorithms": "D-PSGD,AD-PSGD", "round_period": 0.5}


def test_compute_times_show_in_seconds_and_only_where_they_are_given(tmp_path: Path) -> None:
    times = tmp_path / "times.csv"
    times.write_text("node,seconds\n# the second is slow\n0,0.25\n1,2.5\n2,0.25\n3,0.25\n4,0.25\n1,1.5\n")
    plain, timed = run(**SMALL), run(**SMALL, profile=str(times))
    both = [study.rounds[study.rounds["algorithm"] == "D-PSGD"] for study in (plain, timed)]
    assert both[0]["train_mse"].tolist() == both[1]["train_mse"].tolist()
    assert both[0]["time_s"].tolist() == [0.5 * k for k in range(1, 13)]
    assert both[1]["time_s"].tolist() == np.cumsum([3.0, 2.0] * 6).tolist()
    # An asynchronous method is given the same number of seconds.
    assert timed.rounds["time_s"].tolist() == 2 * both[1]["time_s"].tolist()
    labels = [[axes.get_xlabel() for axes in study.figures["mse"].axes] for study in (plain, timed)]
    assert "simulated time (s)" not in labels[0]
    assert labels[1] == [labels[0][0], "simulated time (s)", *labels[0][1:]]
    assert "time_s" not in plain.tables["by_round"]
    assert "time_s" in timed.tables["by_round"]


def test_frames_are_late_where_a_profiles_uplinks_are_slow(tmp_path: Path) -> None:
    file, given = tmp_path / "devices.csv", {**SMALL, "algorithms": "D-PSGD", "rounds": 5, "medium": "wires"}
    # Messages have ten numbers of 64 bits and a few more bytes, to two or three neighbours in half a second.
    file.write_text("\n".join(["node,uplink", *(f"{node},{2000 if node else 1e6}" for node in range(5))]))
    every, some = (run(**given, **more).rounds.iloc[-1] for more in ({}, {"profile": str(file)}))
    assert every["late"] == 0 < some["late"]
    assert 0 < some["delivered"] < every["delivered"]


def test_drawn_compute_times_are_the_same_for_all_methods() -> None:
    study = run(**SMALL, compute="lognormal:0.1:1")
    first, second = (part["time_s"].tolist() for _, part in study.rounds.groupby("algorithm"))
    assert first == second
    assert np.diff(first).std() > 0.05
    assert run(**SMALL, compute="lognormal:0.1:1").rounds["train_mse"].equals(study.rounds["train_mse"])


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        ("fast", "compute = 'fast': must be seconds or lognormal:MEDIAN:SIGMA"),
        ("lognormal:0.1", "compute = 'lognormal:0.1': must be seconds"),
        ("lognormal:0.1:-1", "sigma = -1.0: must be a number >= 0"),
        ("-0.1", "compute = -0.1: must be a number >= 0"),
        ("nan", "compute = nan: must be a number"),
        ("trace:times.csv", "compute = 'trace:times.csv': must be seconds or lognormal:MEDIAN:SIGMA"),
    ],
)
def test_a_text_that_names_no_compute_times_is_refused(compute: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        run(**SMALL, compute=compute)


def test_a_file_of_other_nodes_is_refused(tmp_path: Path) -> None:
    times = tmp_path / "times.csv"
    for text, message in (
        ("node,seconds\n9,1\n", "compute: must have the nodes of the graph as keys; 9 is in one of them only"),
        ("node,seconds\n", "times.csv: must have a row that describes a device; it has none"),
        ("time\n1\n", "times.csv, line 1: column = 'time': must be one of node, uplink"),
        ("seconds\nsoon\n", "seconds = 'soon': must be a number"),
        ("seconds\n-1\n", "times.csv, line 2: seconds = -1.0: must be a number >= 0"),
        ("node,uplink\n0,1e6\n", "uplink: must be left out unless medium = 'wires'"),
    ):
        times.write_text(text)
        with pytest.raises(BadInput, match=message):
            run(**SMALL, profile=str(times))


# --- sweeps -----------------------------------------------------------------------------------------------------------


def test_a_point_that_reuses_a_problem_is_the_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    original = problems.feature_map

    def counted(*words: Any, **more: Any) -> Any:
        drawn.append(more["seed"])
        return original(*words, **more)

    monkeypatch.setattr(problems, "feature_map", counted)
    numbers = np.random.default_rng(0).normal(size=(80, 3))
    pd.DataFrame(numbers, columns=["a", "b", "c"]).to_csv(tmp_path / "table.csv", index=False)
    fixed = {"data": str(tmp_path / "table.csv"), "agents": 3, "rounds": 4, "algorithms": "DKLA", "tune": True}
    sweep("coke", out=tmp_path / "sweep", **fixed, features=5, loss=[0.0, 0.3], seed=[2, 1])
    assert drawn == [2, 1]
    sweep("coke", out=tmp_path / "sizes", **fixed, features=[5, 6], rows=[60, 70])
    assert len(drawn) == 2 + 4, "another number of features or rows is another problem"
    coke = catalogue.find_study("coke")
    alone = coke.prepare(**fixed, features=5, loss=0.3, seed=1)
    alone.origin["point"], alone.formats = "loss=0.3,seed=1", Formats(figures=())
    coke.play(alone)
    alone.save(tmp_path / "alone")
    reused, made = files(tmp_path / "sweep/points/loss=0.3,seed=1"), files(tmp_path / "alone")
    assert "bandwidths.csv" in reused
    settings = [json.loads(each["settings.json"]) for each in (reused, made)]
    assert settings[0]["files_sha256"] == settings[1]["files_sha256"]
    assert settings[0]["parameters"] == settings[1]["parameters"]
    # settings.json names the loaded libraries, and a sweep writes no report, so these files may differ.
    other = {"settings.json", "SHA256SUMS", "report.html"}
    assert {name: reused[name] for name in reused.keys() - other} == {name: made[name] for name in made.keys() - other}
    method = tmp_path / "own.py"
    method.write_text("from netsim.agents import CTA\n\n\nclass Own(CTA):\n    pass\n")
    own = sweep("coke", out=tmp_path / "own", **fixed, features=5, loss=[0.0, 0.3], method=str(method))
    assert not own.failed
    assert len(drawn) == 2 + 4 + 1 + 2, "a method of the user's own may change its costs"


# --- a definition of an experiment ------------------------------------------------------------------------------------


def test_any_path_of_the_experiment_may_be_set_and_titles_say_what_ran() -> None:
    small = {"agents": 4, "rounds": 5}
    flags = run(**small, features=7, loss=0.2)
    places = run(**small, set="problem.features=7,network.loss=0.2,DKLA.rho=0.01")
    assert places.trace_hash == flags.trace_hash
    assert places.figures["mse"].get_suptitle() == flags.figures["mse"].get_suptitle()
    assert "loss 0.2" in places.figures["mse"].get_suptitle()
    with pytest.raises(BadInput, match=r"'problem.feature': must be a path .*mean 'problem.features'"):
        run(**small, set="problem.feature=7")


def test_its_experiment_takes_links_and_methods_of_ones_own() -> None:
    class Mine(DKLA):
        pass

    made = experiment(compared=CokeMethods(algorithms="DKLA"), rounds=5).with_values({"problem.agents": 4})
    links = netsim.Links(link=lambda ends: Link(loss=0.1 * (ends.sender > 1)))
    own = dataclasses.replace(
        made,
        methods={**made.methods, "mine": netsim.Method(Mine, rho=0.01)},
        networks={"flags": PacedChannel(loss=0.1), "own": links},
        seeds=range(2),
    )
    results = own.run()
    assert len(results.runs) == 2 * 2 * 2
    assert not results.runs["train_mse"].isna().any()
    rows = results.runs.pivot_table(index=["network", "seed"], columns="method", values="train_mse")
    assert (rows["DKLA"] == rows["mine"]).all()
    study = run(agents=4, rounds=5, algorithms="DKLA")
    assert made.run().runs["train_mse"].iloc[0] == study.rounds["train_mse"].iloc[-1]
