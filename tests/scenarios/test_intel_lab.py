"""The Intel lab study: on a small matrix in the same format, and on the real data if available."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netsim import BadInput
from netsim.studies import Study, catalogue

needs_data = pytest.mark.skipif("NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set: no real matrix")
MOTES = 8
RECEPTION = 0.6
SMALL = {"rounds": 150, "features": 20, "rho": 0.05}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create data of motes 1 to 8 in a ring, with reception 0.6 from two on either side, and an isolated ninth."""
    rows = [
        (a, b, RECEPTION if (a - b) % MOTES in (1, 2, MOTES - 1, MOTES - 2) else 0.05)
        for a in range(1, MOTES + 1)
        for b in range(1, MOTES + 1)
        if a != b
    ]
    rows += [(9, 1, 0.9), (1, 9, 0.1)]
    pd.DataFrame(rows, columns=["sender", "receiver", "prob"]).to_csv(
        tmp_path / "intel_connectivity.csv.gz", index=False
    )
    angles = np.arange(1, MOTES + 2)
    places = {"mote": angles, "x_m": 10 * np.cos(angles), "y_m": 10 * np.sin(angles)}
    pd.DataFrame(places).to_csv(tmp_path / "intel_mote_locs.csv.gz", index=False)
    rng = np.random.default_rng(0)
    inputs = rng.uniform(0, 1, (240, 2))
    target = np.sin(4 * inputs[:, 0]) + inputs[:, 1] + 0.05 * rng.standard_normal(240)
    pd.DataFrame({"a": inputs[:, 0], "b": inputs[:, 1], "y": target}).to_csv(tmp_path / "field.csv.gz", index=False)
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    return tmp_path


def run(**parameters: Any) -> Study:
    return catalogue.find_study("intel_lab").execute(**{"data": "field", **SMALL, **parameters})


def ends(study: Study) -> pd.DataFrame:
    return study.tables["comparison"].set_index("algorithm")


def test_a_trace_has_the_places_of_the_motes(lab: Path) -> None:
    study = catalogue.find_study("intel_lab").execute(
        trace=True, data="field", algorithms="DKLA", remedies="none", rounds=2, features=5
    )
    # On the lab's plan the y axis points down.
    places = [(10 * np.cos(mote), -10 * np.sin(mote)) for mote in range(1, MOTES + 1)]
    for run in study.runs.values():
        scene = run.trace.scene
        assert scene is not None
        assert scene.positions is not None
        assert np.allclose(scene.positions, places)
        # One state before the first round, and one after each of the two rounds.
        assert (run.states.groupby("agent").size() == 3).all()


def test_real_links_bias_and_remedies_bring_it_back(lab: Path) -> None:
    study = run()
    ways = ("ideal", "real", "running-sums", "coded-sums", "edge-duals")
    assert list(study.runs) == [f"{name} {way}" for name in ("DKLA", "COKE") for way in ways]
    table = ends(study)
    for name in ("DKLA", "COKE"):
        apart = {way: abs(table.loc[f"{name} {way}", "MSE / ideal"] - 1.0) for way in ways}
        assert apart["ideal"] == 0.0
        assert apart["real"] > 0.2
        assert max(apart[way] for way in ("running-sums", "coded-sums", "edge-duals")) < apart["real"] / 2
    assert table.loc["DKLA coded-sums", "bits / DKLA ideal"] < 1 / 3
    assert {*study.figures} == {"mse", "floor_plan"}
    dots = [panel.collections[1] for panel in study.figures["floor_plan"].axes[:2]]
    assert dots[0].get_clim() == dots[1].get_clim(), "a colour is the same energy on both plans"
    assert study.notes[0].startswith("8 motes, 16 links, mean reception 0.60.")


def test_energy_is_power_times_time(lab: Path) -> None:
    """Computed by hand: four neighbours; messages of 20 doubles and overhead; CC2420 at 0 dBm and 3 V."""
    study = run(algorithms="DKLA", remedies="edge-duals", rounds=40, round_period=2.0)
    energy = study.tables["energy"].set_index(["algorithm", "mote"])
    for name, heard in (("DKLA real", 4), ("DKLA edge-duals", 1)):
        ledger = study.runs[name].ledger
        per_mote = ledger.wire_bits / MOTES
        for mote in range(1, MOTES + 1):
            sent = per_mote / 250e3
            received = heard * sent
            joules = 3.0 * (17.4e-3 * sent + 18.8e-3 * received + 0.02e-3 * (80.0 - sent - received))
            assert energy.loc[(name, mote), "used_j"] == pytest.approx(joules, rel=1e-2)
    assert not (study.tables["energy"]["mote"] == 9).any()


def test_a_frame_of_eight_fragments_needs_all_of_them(lab: Path) -> None:
    study = run(algorithms="DKLA", remedies="coded-sums", features=100, rounds=60, medium="fragments", round_period=5.0)
    heard = ends(study)["heard"]
    assert heard["DKLA real"] == pytest.approx(RECEPTION**8, abs=0.012)
    assert heard["DKLA coded-sums"] > RECEPTION**2
    whole = ends(run(algorithms="DKLA", remedies="none", features=100, rounds=60))["heard"]
    assert whole["DKLA real"] == pytest.approx(RECEPTION, abs=0.05)


def test_on_one_medium_they_collide_and_listen(lab: Path) -> None:
    study = run(algorithms="DKLA", remedies="coded-sums", medium="csma", rounds=30, round_period=2.0)
    ledger = study.runs["DKLA real"].ledger
    assert dict(zip(ledger.causes, ledger.exits, strict=True))["collided"] > 0
    energy = study.tables["energy"].query("algorithm == 'DKLA real'")
    seconds = energy[["transmit_s", "receive_s", "listen_s", "sleep_s"]].sum(axis=1)
    np.testing.assert_allclose(seconds, study.runs["DKLA real"].ended_at)
    assert (energy["listen_j"] > 0.5 * energy["used_j"]).all()
    assert any("listening to an idle channel" in note for note in study.notes)


def test_what_one_seed_shows_is_said_to_be_one_seeds(lab: Path) -> None:
    study = run(algorithms="DKLA", remedies="edge-duals", rounds=40, seed=3)
    assert any(note.startswith("All this is seed 3: one draw ") for note in study.notes)
    shares = [note for note in study.notes if "times the training MSE of ideal links" in note]
    assert len(shares) == 2
    assert all(note.endswith(", with seed 3.") for note in shares)
    assert study.titles["comparison"].endswith("seed 3)")


def test_a_link_over_which_nothing_is_heard_is_named(lab: Path) -> None:
    table = pd.read_csv(lab / "intel_connectivity.csv.gz")
    # The study numbers motes from 0, in the order of their names.
    dead = (table["sender"] == 4) & (table["receiver"] == 2)
    table.loc[dead, "prob"] = 1e-9
    table.to_csv(lab / "intel_connectivity.csv.gz", index=False)
    study = run(algorithms="DKLA", remedies="running-sums,edge-duals", least=1e-12)
    (sums,) = [note for note in study.notes if note.startswith("DKLA running-sums missed")]
    assert "Nothing was heard over 3 → 1 in 150 rounds." in sums
    assert "makes good what was lost" not in sums
    (edges,) = [note for note in study.notes if note.startswith("DKLA edge-duals missed")]
    assert "for those alive both ways connect all agents" in edges


def test_links_may_be_made_reliable(lab: Path) -> None:
    study = run(algorithms="DKLA", remedies="ack", rounds=60)
    assert ends(study).loc["DKLA ack", "MSE / ideal"] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"medium": "air"}, "medium = 'air'"),
        ({"remedies": "prayer"}, "remedies = 'prayer'"),
        ({"algorithms": "CTA"}, "algorithms = 'CTA'"),
        ({"least": 1.5}, "least = 1.5"),
        ({"power_dbm": 3}, "power_dbm = 3"),
        ({"relaxation": 1.0}, "relaxation = 1"),
        ({"set": "site.start=0"}, "set: method = 'site': must be one of DKLA, COKE"),
        ({"rounds": 0}, "rounds = 0"),
        ({"sigma": 0.0}, "sigma = 0"),
    ],
)
def test_refusals(lab: Path, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        run(**wrong)


def test_without_the_matrix_one_line_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NETSIM_DATA", raising=False)
    with pytest.raises(BadInput, match=r"holds intel_connectivity.csv.gz \(.*db.csail.mit.edu/labdata\)"):
        run()


@needs_data
def test_the_real_matrix() -> None:
    study = catalogue.find_study("intel_lab").execute(algorithms="DKLA", remedies="coded-sums,edge-duals", rounds=600)
    assert any(note.startswith("53 motes, 202 links, mean reception 0.50.") for note in study.notes)
    table = ends(study)
    assert table.loc["DKLA real", "MSE / ideal"] > 5
    assert table.loc["DKLA edge-duals", "MSE / ideal"] < 1.05
    assert table.loc["DKLA coded-sums", "MSE / ideal"] < 1.25
    assert table.loc["DKLA coded-sums", "bits / DKLA ideal"] < 1 / 8


def test_synthetic_links_run_without_data_and_are_called_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NETSIM_DATA", raising=False)
    study = run(data="synthetic", links="synthetic", algorithms="DKLA", remedies="none", rounds=3, features=5)
    assert list(study.runs) == ["DKLA ideal", "DKLA synthetic"]
    assert study.titles["comparison"].endswith("(synthetic data, 53 motes, synthetic links, seed 0)")
    assert study.notes[0].startswith("53 motes, 200 links, mean reception 0.56.")
    assert study.notes[1].startswith("Synthetic links: netsim made the motes and their links; nothing was measured")
    assert study.settings["links"] == "synthetic"
    assert study.question.startswith("What do synthetic links, made much like a building's, cost in error")
    with pytest.raises(BadInput, match="links = 'made'"):
        run(links="made")
