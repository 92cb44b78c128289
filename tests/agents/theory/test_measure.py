"""`Theory()` as a measure of experiments, and the switch --theory of studies."""

import numpy as np
import pytest

from netsim import Experiment, Link, Method
from netsim.agents import COKE, CTA, DKLA, ODKLA, Geometric, theory
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


@pytest.mark.parametrize("study", ["coke", "online", "dynamic", "bench_case"])
def test_studies_that_take_it(study: str) -> None:
    assert "theory" in {each.name for each in catalogue.find_study(study).flags}
