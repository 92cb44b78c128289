"""`Theory()` as a measure of experiments, and the switch --theory of studies."""

import numpy as np
import pytest

from netsim import Experiment, Link, Method, Network
from netsim.agents import COKE, CTA, DKLA, ODKLA, Ensemble, Geometric, network_graph, projectors, theory
from netsim.agents.projections.estimate import distance, limit, state_of
from netsim.agents.theory.sweeps import Sweeps
from netsim.scenarios.tasks.online_task import OnlineRegression
from netsim.scenarios.tasks.problems import KernelRegression
from netsim.studies import catalogue

PROBLEM = KernelRegression(data="synthetic", features=8, agents=5)
METHODS = {
    "CTA": Method(CTA, eta=0.3),
    "DKLA": Method(DKLA, rho=0.3),
    "COKE": Method(COKE, rho=0.3, censor=Geometric(0.5, 0.9)),
}


def test_predictions_stand_beside_what_is_measured_to_the_digit() -> None:
    rounds = (
        Experiment(problem=PROBLEM, methods=METHODS, rounds=30, seeds=range(2), measure=[theory.Theory()]).run().rounds
    )
    for name in ("CTA", "DKLA"):
        part = rounds[rounds["method"] == name]
        np.testing.assert_allclose(part["predicted_error"], part["model_error"], rtol=1e-9)
    censored = rounds[rounds["method"] == "COKE"]
    assert censored["predicted_error"].isna().all()
    assert (censored["model_copy_error"] <= censored["bound_copy"]).all()
    assert (censored["model_copy_error"] > 0).any()


def test_without_it_and_on_links_that_lose_frames_there_is_no_column() -> None:
    for measure, link in (([], Link()), ([theory.Theory()], Link(loss=0.1))):
        found = Experiment(problem=PROBLEM, methods=METHODS, networks=link, rounds=3, seeds=[0], measure=measure).run()
        assert not [name for name in found.rounds if name.startswith(("bound_", "predicted_", "model_"))]
        assert found.notes == [
            f"{name}: theorems: not for links that lose frames; so in 1 of its 1 runs." for name in METHODS if measure
        ]


def test_the_regret_of_odkla_stays_below_its_bound() -> None:
    problem = OnlineRegression(data="synthetic")
    made = Experiment(
        problem=problem, methods=Method(ODKLA, rho=1.0, eta=8.0), rounds=60, seeds=[0], measure=[theory.Theory()]
    )
    rounds = made.run().rounds.dropna(subset=["static_regret"])
    assert (rounds["static_regret"] < rounds["bound_regret"]).all()


def test_a_study_has_the_switch_and_without_it_the_same_table_as_before() -> None:
    coke, given = catalogue.find_study("coke"), {"algorithms": "CTA,DKLA", "rounds": 5, "agents": 5, "features": 8}
    plain, more = coke.execute(**given), coke.execute(**given, theory=True)
    assert not [name for name in plain.rounds if name.startswith(("bound_", "predicted_"))]
    assert more.rounds[list(plain.rounds)].equals(plain.rounds)
    assert "theory" not in plain.figures
    assert [axes.get_ylabel() for axes in more.figures["theory"].axes] == ["‖Θ − Θ*‖ of all models"]


@pytest.mark.parametrize("study", ["coke", "online", "dynamic", "omkl", "projections", "polk", "bench_case"])
def test_studies_that_take_it(study: str) -> None:
    assert "theory" in {each.name for each in catalogue.find_study(study).flags}


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_projections_go_as_predicted_whatever_the_links_do(loss: float) -> None:
    given = {"agents": 6, "examples": 30, "radius": 0.5, "sweeps": 10, "orders": "token,coloured,random"}
    found = catalogue.find_study("projections").execute(**given, sigma=1.0, loss=loss, theory=True)
    rounds = found.rounds.set_index("algorithm")
    for order in ("token", "coloured"):
        part = rounds.loc[order]
        np.testing.assert_allclose(part["limit_distance"], part["predicted_distance"], rtol=1e-5)
    assert rounds.loc["random", "predicted_distance"].isna().all()
    assert "random: the rate a sweep: not for an order that is drawn." in found.notes
    assert [note for note in found.notes if note.startswith("token: the bound on a sweep: vacuous here")]
    assert "theory" in found.figures


def test_of_many_turns_the_bound_of_sweeps_says_something() -> None:
    of = Ensemble(np.eye(3)[:, :2], np.ones(3), [[0, 1], [1, 2], [0, 2]], regularizers=1.0, gram=lambda x, z: x @ z.T)
    agents = projectors(of, "coloured", 20)
    network = Network(network_graph(of, "coloured"))
    probe = Sweeps(of).of(agents, network, 20)
    assert probe is not None
    measured = network.run(agents, [probe, lambda those: {"far": distance(of, state_of(of, those), limit(of))}]).rounds
    assert (measured["far"] <= measured["bound_distance"] + 1e-12).all()
    assert measured["bound_distance"].iloc[-1] < 1.0
    assert not [line for line in Sweeps(of).lines(agents, network) if "vacuous" in line]


def test_bits_of_gossip_omkl_stand_beside_what_is_sent_and_its_range_is_told() -> None:
    given = {"rows": 60, "agents": 4, "features": 4, "repeats": 1, "eta": "0.1", "gamma": "0.5", "topologies": "path"}
    found = catalogue.find_study("omkl").execute(**given, theory=True)
    coded = found.rounds.dropna(subset=["predicted_payload_bits"])
    assert list(coded["algorithm"].unique()) == ["gossip path 3-bit, eta 0.1", "Koloskova path 3-bit, eta 0.1"]
    assert coded["predicted_payload_bits"].equals(coded["payload_bits"].astype(float))
    assert [note for note in found.notes if "path 3-bit, eta 0.1: theorem 1 of gossip OMKL: vacuous here" in note]
    # A γ outside its range is noted even without ``theory=True``.
    told = [note for note in catalogue.find_study("omkl").execute(**given).notes if "outside the range" in note]
    assert len(told) == 2
    assert set(told) <= set(found.notes)
    lossy = catalogue.find_study("omkl").execute(**given, loss=0.1, theory=True)
    assert not [name for name in lossy.rounds if name.startswith(("bound_", "predicted_"))]
    assert "gossip path, eta 0.1: theorems: not for links that lose frames." in lossy.notes


def test_what_koppel_et_al_promise_is_told_and_has_no_column() -> None:
    given = {"samples": 64, "agents": 3, "compare": False}
    found = catalogue.find_study("polk").execute(**given, theory=True)
    assert not [name for name in found.rounds if name.startswith(("bound_", "predicted_"))]
    # The radius is 2P√(Vη)/λ and the zero model's distance √(2V ln 5/λ), for V agents, step η and regulariser λ. P is
    # the constant of the pruning threshold ε = P·η^{3/2}.
    radius = "the radius is at least 8.5e+04 (zero model: at most 3.1e+03)"
    assert found.notes[0] == f"draw 0: theorem 1 of Koppel et al.: vacuous here, {radius}."
    assert found.notes[1].endswith(f"at most {0.01 * (6 * 3) ** 0.5:.2g}.")
    assert found.notes[2].endswith(f"at most {3 * np.log(5) / 0.01:.2g} (zero model: 0).")
    assert "not without a regularizer" in str(
        catalogue.find_study("polk").execute(**given, theory=True, regularizer=0.0).notes
    )
    squared = catalogue.find_study("polk").execute(**given, theory=True, criterion="squared")
    assert [note for note in squared.notes if "theorem 1" in note]
