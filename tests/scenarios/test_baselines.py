"""The baselines in the studies coke, frontier and packet_loss: selected by name, and affected by losses."""

from pathlib import Path

import pytest

from netsim import BadInput
from netsim.agents import DIGing
from netsim.coders import Uniform
from netsim.scenarios.frontier.combinations import METHODS, censor_of, coder_of, combinations
from netsim.scenarios.packet_loss import remedies
from netsim.scenarios.packet_loss.study import LossCompared, experiment
from netsim.scenarios.tasks.baselines import BASELINES, CODED
from netsim.scenarios.tasks.method import with_remedy
from netsim.studies import Study, catalogue
from tests.parts import slow

pytestmark = pytest.mark.usefixtures("all_undrawn")

SMALL = {"agents": 5, "rounds": 60, "features": 12}
NAMES = ",".join(BASELINES)
FEDERATED = ("FedAvg", "SCAFFOLD", "SCAFFOLD-states")
WITHOUT_COPIES = ("SGP", "Push-DIGing", "R-ADMM", "LT-ADMM", "AD-PSGD", *FEDERATED)


@pytest.fixture(scope="module")
def lossy() -> Study:
    return catalogue.find_study("coke").execute(**SMALL, algorithms=f"CTA,{NAMES}", loss=0.1, seed=1)


def last(study: Study, name: str, column: str) -> float:
    return float(study.runs[name].rounds[column].iloc[-1])


def test_coke_runs_them_by_name_and_their_columns_are_in_its_rounds(lossy: Study) -> None:
    assert set(lossy.runs) == {"CTA", *BASELINES}
    has = {name: set(run.rounds.columns) for name, run in lossy.runs.items()}
    assert {name for name in has if "tracking_residual" in has[name]} == {"DIGing", "BEER", "Push-DIGing"}
    assert {name for name in has if "least_weight" in has[name]} == {"SGP", "Push-DIGing"}
    assert {name for name in has if "dual_residual" in has[name]} == {"EXTRA", "LEAD", "SCAFFOLD", "SCAFFOLD-states"}
    assert {name for name in has if "copy_error" not in has[name]} == set(WITHOUT_COPIES)
    for name in ("DIGing", "BEER", "Push-DIGing", "EXTRA", "LEAD"):
        column = "dual_residual" if name in ("EXTRA", "LEAD") else "tracking_residual"
        assert last(lossy, name, column) > 1e-6
        assert any(note.startswith(f"{name} ") and "no longer sum to zero" in note for note in lossy.notes)
    assert not any("D-PSGD" in note and "no longer" in note for note in lossy.notes)


def test_methods_of_a_server_run_over_a_star_of_the_same_agents(lossy: Study) -> None:
    for name in ("EF21", "EF21-P"):
        assert f"{name} runs over a star of the same agents and links, with agent 0 as its server." in lossy.notes
        assert len(lossy.runs[name].ledger.senders) == 2 * (SMALL["agents"] - 1)


def test_without_loss_everything_adds_up() -> None:
    study = catalogue.find_study("coke").execute(**SMALL, algorithms=NAMES)
    for name in ("DIGing", "BEER", "Push-DIGing"):
        assert last(study, name, "tracking_residual") < 1e-12
    for name in ("EXTRA", "LEAD"):
        assert last(study, name, "dual_residual") < 1e-12


@pytest.mark.parametrize("seed", [0, slow(1)])
@pytest.mark.parametrize("name", BASELINES)
def test_their_steps_do_not_diverge(name: str, seed: int) -> None:
    study = catalogue.find_study("coke").execute(**SMALL | {"agents": 8}, algorithms=name, seed=seed)
    errors = study.runs[name].rounds["train_mse"].to_numpy()
    assert errors[-1] <= errors[0] * 1.001
    assert errors[-1] < errors[len(errors) // 2] * 1.001


def test_running_sums_are_a_remedy_of_gradient_tracking() -> None:
    study = catalogue.find_study("coke").execute(
        **SMALL | {"rounds": 300}, algorithms="DKLA,DIGing,EXTRA", remedy="running-sums", loss=0.2
    )
    assert all(agent.running_sums for agent in study.runs["DIGing"].agents.values())
    plain = catalogue.find_study("coke").execute(**SMALL | {"rounds": 300}, algorithms="DIGing", loss=0.2)
    # With running sums only frames in flight are missing at the end; without them lost frames stay missing.
    assert last(study, "DIGing", "tracking_residual") < 0.1 * last(plain, "DIGing", "tracking_residual")
    assert last(study, "DIGing", "train_mse") < last(plain, "DIGing", "train_mse")
    assert any("without running-sums: EXTRA" in note for note in study.notes)
    only, _ = with_remedy({"DIGing": BASELINES["DIGing"]}, "running-sums")
    assert only["DIGing"].given["running_sums"] is True
    with pytest.raises(BadInput, match="remedy = 'edge-duals'"):
        with_remedy({"DIGing": BASELINES["DIGing"]}, "edge-duals")


def test_settings_tell_what_ran(lossy: Study) -> None:
    methods = lossy.origin["methods"]
    assert methods["LEAD"]["class"] == "LEAD"
    assert methods["LEAD"]["coder"] == "Uniform(bits=4)"
    assert methods["DIGing"]["running_sums"] is False
    assert all(method.kind is not DIGing or "coder" not in method.given for method in BASELINES.values())


@pytest.mark.slow
def test_what_is_lost_is_no_harm_to_relaxed_admm_nor_to_states_that_are_sent_again() -> None:
    given = SMALL | {"rounds": 400}
    names = "R-ADMM,LT-ADMM,SCAFFOLD,SCAFFOLD-states"
    ideal, lossy = (
        catalogue.find_study("coke").execute(**given, algorithms=names, loss=loss, seed=2) for loss in (0.0, 0.2)
    )
    for name in ("R-ADMM", "LT-ADMM", "SCAFFOLD-states"):
        assert last(lossy, name, "train_mse") == pytest.approx(last(ideal, name, "train_mse"), rel=0.02)
    assert last(lossy, "SCAFFOLD", "dual_residual") > 100 * last(lossy, "SCAFFOLD-states", "dual_residual")
    assert any(note.startswith("SCAFFOLD missed") and "its optimum has moved" in note for note in lossy.notes)
    assert not any(note.startswith("SCAFFOLD-states") and "has moved" in note for note in lossy.notes)


# --- frontier ---------------------------------------------------------------------------------------------------------


def test_frontier_takes_them_with_every_coder() -> None:
    assert set(BASELINES) < set(METHODS)
    coders, quiet = dict(map(coder_of, ("4", "2"))), dict([censor_of("none", 1.0, 0.9)])
    found = combinations(BASELINES, coders, quiet)
    plain = ("SGP", "Push-DIGing", "FedAvg", "SCAFFOLD", "SCAFFOLD-states", "AD-PSGD")
    assert [each for each in found if each not in plain] == [
        f"{name} {bits}-bit" for name in BASELINES for bits in (4, 2) if name not in plain
    ]
    assert [each for each in found if each in plain] == list(plain)
    study = catalogue.find_study("frontier").execute(**SMALL, methods="LEAD,EF21,SGP", coders="3", censors="none")
    table = study.tables["combinations"].set_index("method")
    assert table.loc["LEAD", "payload_bits"] == 60 * 5 * (3 * 12 + 32)
    assert table.loc["EF21", "transmissions"] == 2 * 60 * 5 - 60 * 5
    assert study.figures["frontier"].axes


# --- packet_loss ------------------------------------------------------------------------------------------------------


def test_packet_loss_runs_what_fits_coded_methods_last() -> None:
    compared = LossCompared(methods="DIGing,EXTRA,LEAD,EF21", remedies="ack", lost="0.1", burst=1.0)
    ran = [(cell.columns["family"], cell.columns["remedy"]) for cell in experiment(compared=compared).cells([0])]
    families = ["EXTRA", "DIGing", "LEAD", "EF21"]
    assert list(dict.fromkeys(ran)) == [(family, remedy) for remedy in ("none", "ack") for family in families]
    assert list(LossCompared().families("synthetic")) == ["CTA", "DKLA", "COKE", "coded"]
    assert set(CODED) < set(remedies.METHODS)
    assert isinstance(BASELINES["BEER"].given["coder"], Uniform)


@pytest.mark.slow
def test_packet_loss_shows_what_ruins_lead_and_what_does_not_diging(tmp_path: Path) -> None:
    study = catalogue.find_study("packet_loss").execute(
        **SMALL | {"features": 8, "rounds": 120},
        edges=7,
        lost="0.1",
        burst=1.0,
        repeats=2,
        jobs=1,
        methods="D-PSGD,DIGing,LEAD",
        remedies="running-sums,ack",
        folder=str(tmp_path / "sweeps"),
    )
    means = study.tables["means"]
    rows = means[(means["measure"] == "above_loss_free_%") & (means["loss"] == 0.1)]
    found = rows.set_index(["family", "remedy"])["mean"]
    assert found["LEAD", "none"] > 10 * max(found["D-PSGD", "none"], 1.0)
    assert found["DIGing", "running-sums"] < 2.0 < found["LEAD", "none"]
    assert abs(found["LEAD", "ack"]) < 1e-6
    assert (means["measure"] == "tracking_residual").any()
