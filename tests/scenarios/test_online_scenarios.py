"""The online and dynamic studies: their known results, and the files of their run folders."""

import dataclasses
import math
import os
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from netsim import BadInput, Link, Links, topology
from netsim.agents import RandomFourier
from netsim.coders import Uniform
from netsim.scenarios import online as definition
from netsim.scenarios.data.streams import MovingTruth
from netsim.scenarios.dynamic import DynamicSetting, MovingRegression
from netsim.scenarios.tasks.online_task import OnlineSetting
from netsim.studies import Study, catalogue
from tests.oracle import batch
from tests.oracle import online as oracle

needs_data = pytest.mark.skipif(
    "NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set: real data are not at hand"
)


def run(name: str, **parameters: object) -> Study:
    return catalogue.find_study(name).execute(**parameters)


def ends(study: Study) -> pd.DataFrame:
    return study.rounds.groupby("algorithm", sort=False).last()


@pytest.fixture(scope="module", name="online")
def online_study() -> Study:
    return run("online", rounds=300, features=15)


def test_online_measures_what_it_should(online: Study) -> None:
    last = ends(online)
    assert list(last.index) == ["RFF-DOKL", "DOKL", "ODKLA", "QC-ODKLA"]
    assert (last["running_mse"] < 0.1).all()
    assert (last["static_regret"] > 0).all()
    assert last.loc["ODKLA", "payload_bits"] == 5 * 300 * 30 * 32, "float32, as the dissertation counts"
    assert last.loc["QC-ODKLA", "payload_bits"] == last.loc["QC-ODKLA", "transmissions"] * (3 * 30 + 32)
    assert set(online.figures) == {"mse", "regret"}
    assert {"ends", "running_time"} <= set(online.tables)


def test_running_time_is_no_part_of_the_result(online: Study) -> None:
    again = run("online", rounds=300, features=15)
    assert again.trace_hash == online.trace_hash
    pd.testing.assert_frame_equal(again.rounds, online.rounds)


@pytest.mark.slow
def test_tuning_is_kept_and_its_rows_are_left_out(tmp_path: Path) -> None:
    study = run("online", tune=True, rounds=30, features=8, algorithms="RFF-DOKL,ODKLA")
    folder = study.save(tmp_path / "out")
    tried = pd.read_csv(folder / "tuning.csv")
    chosen = pd.read_csv(folder / "steps.csv").set_index("algorithm")
    for name, rows in tried.groupby("algorithm"):
        assert chosen.loc[name, "running_mse"] == rows["running_mse"].min()
    assert len(tried) == 6 + 30
    default = run("online", rounds=30, features=8, algorithms="ODKLA", tune=False)
    assert default.rounds["running_mse"].iloc[0] != study.rounds["running_mse"].iloc[0]


def test_a_fixed_range_that_is_too_small_is_reported() -> None:
    study = run("online", rounds=50, features=8, algorithms="QC-ODKLA", range=1e-3, threshold=0.0)
    assert ends(study)["saturated"].iloc[0] > 0
    assert any("outside the quantizer's range" in note for note in study.notes)


@pytest.mark.parametrize("order", ["time", "target"])
def test_other_orders_of_the_rows(order: str) -> None:
    study = run("online", rounds=30, features=8, algorithms="ODKLA", order=order)
    assert np.isfinite(study.rounds["running_mse"]).all()


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        ("online", {"order": "shufled"}, "order = 'shufled': must be one of shuffled, time, target"),
        ("online", {"algorithms": "ODKLE"}, "algorithms = 'ODKLE': must be one of"),
        ("online", {"rounds": 10**6}, "rounds = 1000000: must be"),
        ("online", {"bits": 17}, "bits = 17: must be"),
        ("online", {"mixing": 2.0}, "mixing = 2.0: must be"),
        ("dynamic", {"compare_bits": "2,x"}, "compare_bits = '2,x': must be"),
        ("dynamic", {"speed": 0.0}, "speed = 0.0: must be"),
        ("dynamic", {"order": "target"}, "order = 'target': must be one of"),
    ],
)
def test_bad_parameters(name: str, parameters: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        run(name, **parameters)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", ["drift", "switch", "rotate"])
def test_dynamic_tracks_a_known_truth(data: str) -> None:
    study = run("dynamic", data=data, rounds=200, features=15, algorithms="DDKL,QC-DDKL", compare_bits="2")
    last = ends(study)
    assert list(last.index) == ["DDKL", "QC-DDKL", "QC-DDKL 2-bit"]
    errors = study.rounds[study.rounds["algorithm"] == "DDKL"]["tracking_error"]
    assert errors.iloc[-20:].mean() < 0.3 * errors.iloc[0]
    assert (last["dynamic_regret"] > 0).all()
    assert last.loc["QC-DDKL 2-bit", "payload_bits"] < 0.1 * last.loc["DDKL", "payload_bits"]
    assert {"mse", "apart", "bits", "bits_apart", "regret", "tracking"} == set(study.figures)


@needs_data
def test_quantized_and_censored_ends_near_the_plain_method_with_a_tenth_of_its_bits() -> None:
    for name, data, plain, cheap, parameters in (
        ("online", "tomshardware", "ODKLA", "QC-ODKLA", {"conventions": "text"}),
        ("online", "energy", "ODKLA", "QC-ODKLA", {"decay": 0.999}),
        ("dynamic", "tomshardware", "DDKL", "QC-DDKL", {"bits": 2, "compare_bits": ""}),
    ):
        study = run(name, data=data, algorithms=f"{plain},{cheap}", **parameters)
        last = ends(study)
        assert last.loc[cheap, "running_mse"] <= 1.05 * last.loc[plain, "running_mse"], data
        assert last.loc[cheap, "payload_bits"] <= 0.1 * last.loc[plain, "payload_bits"], data


@needs_data
def test_what_the_censor_kept_back_at_first_is_made_good_in_the_end() -> None:
    """Prepared as for the printed tables. The running error contains early losses; the last tenth does not."""
    study = run("online", data="tomshardware", algorithms="ODKLA,QC-ODKLA")
    errors = study.rounds.pivot(index="round", columns="algorithm", values="running_mse")
    count = len(errors)
    sums = errors.mul(errors.index, axis=0)
    late = (sums.iloc[-1] - sums.iloc[count * 9 // 10 - 1]) / (count - count * 9 // 10)
    assert late["QC-ODKLA"] <= 1.05 * late["ODKLA"]
    assert errors["QC-ODKLA"].iloc[-1] <= 1.15 * errors["ODKLA"].iloc[-1]


def test_a_bandwidth_that_does_not_learn_is_said_so() -> None:
    study = run("online", rounds=40, features=10, sigma=0.005, algorithms="ODKLA")
    assert any("does not learn" in note for note in study.notes)
    assert not any("does not learn" in note for note in run("online", rounds=400, algorithms="ODKLA").notes)


@pytest.mark.parametrize("reach", [4.0, 0.02])
def test_dynamic_methods_with_a_fixed_range_equal_their_recursion(reach: float) -> None:
    """With the wider range no value is clipped; with the narrow one many are."""
    agents, rounds, rho, regularizer = 4, 80, 0.5, 1e-2
    model: dict[str, Any] = {"agents": agents, "features": 6, "sigma": 0.5, "regularizer": regularizer}
    coding: dict[str, Any] = {"bits": 5, "range": reach, "threshold": 0.3, "decay": 0.5, "compare_bits": "3,6"}
    study = run("dynamic", algorithms="QDDKL", rounds=rounds, rho=rho, **model, **coding)
    phi = RandomFourier(2, 6, sigma=0.5, form="cos+sin", seed=0)
    streams = [list(each) for each in MovingTruth("drift", agents, phi, rounds, seed=0).streams()]
    features = np.array([[phi for phi, _ in each] for each in streams]).swapaxes(0, 1)
    targets = np.array([[y for _, y in each] for each in streams]).T
    graph = topology.erdos_renyi(agents, edges=study.settings["edges"], seed=0)
    adjacency = nx.to_numpy_array(graph, nodelist=range(agents), weight=None)
    for name, bits, censored in (("QDDKL", 5, False), ("QC-DDKL 3-bit", 3, True), ("QC-DDKL 6-bit", 6, True)):
        quantize = batch.uniform_quantizer(bits, low=-reach, high=reach)
        v, mu = (0.3, 0.5) if censored else (0.0, 0.0)
        _, sent, errors = oracle.ddkl(features, targets, adjacency, regularizer / agents, rho, v, mu, quantize)
        rows = study.rounds[study.rounds["algorithm"] == name]
        running = np.cumsum((errors**2).mean(axis=1)) / np.arange(1, rounds + 1)
        np.testing.assert_allclose(rows["running_mse"], running, rtol=1e-9)
        assert rows["transmissions"].to_list() == sent.sum(axis=1).cumsum().tolist()
    clipped = [run.rounds["saturated"].iloc[-1] for run in study.runs.values()]
    assert all(clipped) if reach < 0.1 else not any(clipped)


@pytest.mark.parametrize("name", ["online", "dynamic"])
@pytest.mark.parametrize("reach", [0.0, -0.1, math.nan])
def test_a_range_that_is_none_is_refused_by_its_name(name: str, reach: float) -> None:
    with pytest.raises(BadInput, match=f"^range = {reach}: must be"):
        run(name, rounds=5, range=reach)


def test_compared_bits_take_the_step_sizes_given() -> None:
    ends_with = [
        ends(run("dynamic", rounds=60, features=10, algorithms="DDKL", compare_bits="4", rho=rho)).loc["QC-DDKL 4-bit"]
        for rho in (0.3, 3.0)
    ]
    assert ends_with[0]["running_mse"] != ends_with[1]["running_mse"]


def test_dokl_by_a_dense_solve_is_dokl_and_takes_longer_steps() -> None:
    """The ratio of times in table 3.1 is that of a dense solve."""
    study = run("online", rounds=60, features=60, algorithms="DOKL,DOKL dense")
    by = study.rounds.pivot(index="round", columns="algorithm", values="running_mse")
    np.testing.assert_allclose(by["DOKL dense"], by["DOKL"], rtol=1e-9)
    times = study.tables["running_time"].set_index("algorithm")
    assert (times["step_seconds"] > 0).all()
    assert times.loc["DOKL dense", "step_seconds"] > times.loc["DOKL", "step_seconds"]


@pytest.mark.parametrize("name", ["online", "dynamic"])
def test_a_fixed_range_that_does_not_saturate_is_counted_with_its_bits(name: str) -> None:
    coded = {"online": "QC-ODKLA", "dynamic": "QDDKL"}[name]
    settings = {"rounds": 30, "features": 8, "algorithms": coded, "threshold": 0.0, "bits": 3, "range": 1e-3}
    if name == "dynamic":
        settings["compare_bits"] = ""
    free, clipped = (run(name, **settings, saturate=saturate).rounds.iloc[-1] for saturate in (False, True))
    assert free["saturated"] == 0 < clipped["saturated"]
    assert free["payload_bits"] > clipped["payload_bits"]
    with pytest.raises(BadInput, match=r"^saturate = False: must go with a range[^\n]+$"):
        run(name, **{**settings, "range": None}, saturate=False)


def test_the_definitions_compose() -> None:
    small = definition.experiment(data="synthetic", setting=OnlineSetting(features=4, agents=3, edges=2)).with_values(
        {"rounds": 5, "methods.ODKLA.coder": Uniform(2), "network": Links(link=Link(loss=0.5), medium="radio")}
    )
    table = small.run().runs.set_index("method")
    assert table.loc["ODKLA", "payload_bits"] == 3 * 5 * (2 * 8 + 32)
    assert table.loc["DOKL", "payload_bits"] == 3 * 5 * 32 * 8
    assert (table["delivered"] < 20).all()
    moving = MovingRegression(data="rotate", setting=DynamicSetting(features=4, agents=3, edges=2))
    whole = dataclasses.replace(small, problem=moving, rounds=None).with_values({"problem.stream.rounds": 7})
    assert {each.rounds["tracking_error"].notna().sum() for _, each in whole.run().cells} == {7}
