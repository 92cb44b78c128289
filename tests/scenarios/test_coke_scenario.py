"""The coke scenario against what is known of it: the paper's shape, and figures measured before on the real data."""

import os

import numpy as np
import pandas as pd
import pytest

from netsim.studies import Study, catalogue

needs_data = pytest.mark.skipif(
    "NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set: real data are not at hand"
)


def run(**parameters: object) -> Study:
    return catalogue.find("coke").execute(**parameters)


def transmissions_to_reach(rounds: pd.DataFrame, algorithm: str, level: float) -> float:
    reached = rounds[(rounds["algorithm"] == algorithm) & (rounds["train_mse"] <= level)]["transmissions"]
    return float(reached.iloc[0]) if len(reached) else float("nan")


def saving(rounds: pd.DataFrame, level: float) -> float:
    return 1 - transmissions_to_reach(rounds, "COKE", level) / transmissions_to_reach(rounds, "DKLA", level)


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
    study = run(data="tomshardware", rounds=500)
    best = study.centralised["train_mse"]
    assert best == pytest.approx(1.12e-3, rel=0.08)
    last = study.rounds.groupby("algorithm").last()
    assert last.loc["DKLA", "train_mse"] == pytest.approx(best, rel=0.01)
    levels = np.array([1.8, 1.7, 1.6, 1.5, 1.4, 1.3, 1.2]) * 1e-3
    assert sum(saving(study.rounds, level) >= 0.4 for level in levels) >= 3


@needs_data
def test_airquality_agrees_with_what_was_measured_before() -> None:
    study = run(data="airquality", sigma=0.5, rounds=300)
    assert study.centralised["train_mse"] == pytest.approx(1.25e-3, rel=0.08)
    assert sum(saving(study.rounds, level) >= 0.4 for level in (5e-3, 4e-3, 3e-3, 2.5e-3)) >= 3
    spoken = study.rounds[study.rounds["algorithm"] == "COKE"].set_index("round")["transmissions"]
    np.testing.assert_allclose(spoken[[50, 100, 200]], [73, 178, 788], rtol=0.1)


@needs_data
def test_a_bandwidth_that_does_not_learn_is_said_so() -> None:
    study = run(data="airquality", rounds=5, algorithms="DKLA", features=50)
    assert any(note.startswith("Does not learn") for note in study.notes)


def test_a_step_size_that_diverges_is_said_so() -> None:
    study = run(agents=3, rounds=200, features=20, sigma=10.0, eta=1.5, algorithms="CTA")
    assert any(note.startswith("CTA diverged") for note in study.notes)


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
