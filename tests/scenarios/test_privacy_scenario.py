"""The study of the information that algorithms reveal."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netsim import BadInput, Link, Links, Method, latency, topology
from netsim.agents import DKLA
from netsim.scenarios.privacy.study import experiment
from netsim.scenarios.privacy.task import SharedSamples
from netsim.scenarios.tasks.settings import Channel
from netsim.studies import Study, catalogue

real_data = pytest.mark.skipif("NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set")


def run(**options: Any) -> Study:
    small = {"agents": 4, "samples": 12, "public": 4, "rounds": 8, "features": 6}
    return catalogue.find_study("privacy").execute(**small | options)


@pytest.fixture(scope="module")
def study() -> Study:
    return run()


def test_all_algorithms_are_there_and_only_one_sends_raw_data(study: Study) -> None:
    table = study.tables["given_away"].set_index("algorithm")
    assert len(table) == 17
    raw = table["raw_data_bits"]
    # There are 4 agents and 6 edges: 12 requests per round, each with one input of 2 numbers, for 8 rounds.
    edges = study.runs["greedy penalty"].ledger.table(by=["sender", "receiver"])
    assert raw["greedy penalty"] == len(edges) * 8 * 2 * 64
    assert (raw.drop("greedy penalty") == 0).all()
    assert table["samples others read"].to_dict() == dict.fromkeys(table.index, 0) | {"projections (token)": 4}
    assert np.isfinite(table["test_mse"]).all()


def test_bits_are_those_of_the_papers(study: Study) -> None:
    table = study.tables["given_away"].set_index("algorithm")
    bits = table["model_bits"] / table["transmissions"]
    assert bits["DKLA"] == bits["COKE"] == bits["CTA"] == 12 * 32
    assert bits["COKE 4-bit"] == bits["QC-ODKLA"] == bits["QDDKL"] == 12 * 4 + 32
    assert bits["DOKL"] == 12 * 32
    assert bits["gossip OMKL 4-bit"] == 3 * bits["Koloskova 4-bit"] == 3 * (12 * 5 + 32)
    assert bits["OMKL (complete graph) 4-bit"] == 3 * (12 * 5 + 32) + 3 * 32
    # Requests contain no model, and replies one number.
    assert bits["greedy penalty"] == 32


def test_everything_learns() -> None:
    study = run(agents=5, samples=40, public=15, rounds=110, features=30)
    table = study.tables["given_away"].set_index("algorithm")
    assert (table["test_mse"] < 0.5 * np.var([0.45, -0.45])).all()
    assert table["test_mse"]["DKLA"] == pytest.approx(study.centralised["test_mse"], rel=0.05)
    assert study.centralised["test_mse"] < 0.03
    assert list(study.figures) == ["given_away"]


def test_lossy_links_and_wires() -> None:
    lossy = run(loss=0.2, medium="wires")
    assert len(lossy.tables["given_away"]) == 17
    assert all(each.ledger.table(by=[])["lost"][0] > 0 for each in lossy.runs.values())


def test_what_cannot_get_through_leaves_the_others_results() -> None:
    # A budget of 400 bits per round is less than most messages need, but enough for coded messages and single inputs.
    study = run(budget=400.0, rounds=4)
    table = study.tables["given_away"]
    assert len(table) == 16
    assert "projections (token)" not in set(table["algorithm"])
    assert any(note.startswith("projections (token) did not finish: ") for note in study.notes)
    assert np.isfinite(table["test_mse"]).all()


def test_its_experiment_takes_methods_networks_and_samples_of_ones_own() -> None:
    class Mine(DKLA):
        pass

    made = experiment(problem=SharedSamples(agents=4, samples=6, public=4, features=3), rounds=3)
    kinds = ("DKLA", "ODKLA", "OMKL (complete graph) 4-bit", "greedy penalty", "projections (token)")
    methods = {name: made.methods[name] for name in kinds}
    methods |= {"mine": Method(Mine, **methods["DKLA"].given), "shy": methods["ODKLA"].with_parameter("eta", 50.0)}
    networks = {"flags": Channel(loss=0.1), "own": Link(latency=0.1, rate=1e6)}
    found = dataclasses.replace(made, methods=methods, networks=networks).run().runs
    assert len(found) == 2 * 7
    assert not found["test_mse"].isna().any()
    ends = found.pivot_table(index="network", columns="method", values="test_mse")
    assert (ends["mine"] == ends["DKLA"]).all()
    assert (ends["shy"] > ends["ODKLA"]).all()
    alike = made.with_values({"problem.agents": 5, "methods.Koloskova 4-bit.cost.kernels": 3})
    runs = [alike.play(name) for name in ("gossip OMKL 4-bit", "Koloskova 4-bit")]
    assert runs[0].rounds.equals(runs[1].rounds)
    assert len(runs[0].agents) == 5


def test_a_network_with_a_graph_is_for_methods_without_one_of_their_own() -> None:
    made = experiment(problem=SharedSamples(samples=6, public=4, features=3), rounds=3)
    ring = Links(graph=topology.ring(5))
    for network in (ring, Links(link=lambda ends: Link(loss=0.1 * (ends.sender > 1)))):
        with pytest.raises(BadInput, match=r"methods: OMKL \(complete graph\) 4-bit runs over a graph of its own"):
            dataclasses.replace(made, networks=network).play("OMKL (complete graph) 4-bit")
    for name in ("COKE", "QC-DDKL", "gossip OMKL 4-bit", "greedy penalty"):
        run = dataclasses.replace(made, networks=ring).play(name)
        assert len(run.agents) == 5
        assert np.isfinite(run.rounds["test_mse"]).all()
    with pytest.raises(BadInput, match="must have links of one latency and rate"):
        dataclasses.replace(made, networks=Link(latency=latency.uniform(0.0, 0.1))).play("projections (token)")
    with pytest.raises(BadInput, match="kernels = 4: must be a whole number from 1 to 3"):
        made.with_values({"methods.Koloskova 4-bit.cost.kernels": 4}).play("Koloskova 4-bit")


def test_what_is_refused() -> None:
    for options, message in (
        ({"public": 49}, "public = 49: must be a whole number from 1 to 48"),
        ({"agents": 1}, "agents = 1: must be a whole number >= 2"),
        ({"agents": -5}, "agents = -5: must be a whole number >= 2"),
        ({"regularizer": 0.0}, "regularizer = 0.0: must be a number > 0"),
        ({"regularizer": -1.0}, "regularizer = -1.0: must be"),
        ({"seed": -1}, "seed = -1: must be"),
        ({"rounds": 0}, "rounds = 0"),
        ({"data": "nowhere"}, "nowhere"),
        ({"data": "fild"}, "data = 'fild': must be field or a table (did you mean 'field'?)"),
        ({"target": "x"}, "target = 'x': must be left out for the data 'field', which are no table"),
        ({"median": True, "tune": True}, "median = True, tune = True: must be one of the two"),
    ):
        with pytest.raises(BadInput) as caught:
            run(**options)
        assert message in str(caught.value)


def test_a_table_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    x = np.random.default_rng(0).random((200, 2))
    frame = pd.DataFrame({"y": x[:, 0] + x[:, 1], "a": x[:, 0], "when": "18:30", "b": x[:, 1]})
    frame.to_csv(tmp_path / "own.csv", index=False)
    study = run(data="own", target="y", drop="when")
    assert study.notes[:2] == [
        "target 'y': numbers with fractions in 200 rows, taken as numbers",
        "columns left out: when",
    ]
    assert len(study.tables["given_away"]) == 17
    with pytest.raises(BadInput, match="agents = 100000: must be at most 50, for 4 samples each of 200"):
        run(data="own", target="y", drop="when", agents=100_000)
    with pytest.raises(BadInput, match=r"column 'when' of .* holds dates such as '18:30'"):
        run(data="own", target="y")


@real_data
def test_a_table() -> None:
    study = run(data="airquality", sigma=0.5)
    # A sample has 13 inputs, and only the greedy method sends inputs.
    raw = study.tables["given_away"].set_index("algorithm")["raw_data_bits"]
    assert raw["greedy penalty"] % (13 * 64) == 0
    assert raw.sum() == raw["greedy penalty"] > 0
    with pytest.raises(BadInput, match="samples = 2000: must be a whole number from 2 to 1169"):
        run(data="airquality", samples=2000)
