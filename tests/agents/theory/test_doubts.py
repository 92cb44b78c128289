"""Studies and experiments note parameters outside the ranges of theorems, and only those."""

from pathlib import Path

import pytest

from netsim import Experiment, Link, Method
from netsim.agents import CHOCO, CTA, DKLA, EXTRA
from netsim.coders import Uniform
from netsim.scenarios.tasks.problems import KernelRegression
from netsim.studies import catalogue

PROBLEM = KernelRegression(data="synthetic", features=10, agents=5)
METHODS = {"CTA": Method(CTA, eta=5.0), "EXTRA": Method(EXTRA, eta=0.05), "DKLA": Method(DKLA, rho=0.1)}


def test_an_experiment_tells_it_once_for_all_runs_of_a_method_also_from_its_folder(tmp_path: Path) -> None:
    made = Experiment(problem=PROBLEM, methods=METHODS, rounds=3, seeds=range(2))
    (note,) = made.run(tmp_path).notes
    assert note.startswith("CTA: eta = 5: outside the range in which CTA converges on these costs (0, ")
    assert note.endswith("; so in 2 of its 2 runs.")
    again = made.run(tmp_path)
    assert again.ran == 0
    assert again.notes == [note]


def test_a_guarantee_is_told_from_an_exact_range() -> None:
    methods = {"CHOCO": Method(CHOCO, eta=0.1, gamma=1.0, coder=Uniform(3))}
    (note,) = Experiment(problem=PROBLEM, methods=methods, rounds=2, seeds=[0]).run().notes
    assert note.startswith("CHOCO: gamma = 1: outside the range for which convergence is guaranteed (0, ")


@pytest.mark.parametrize("link", [Link(loss=0.1), Link(latency=2.0)])
def test_on_links_of_which_no_theorem_speaks_nothing_is_told(link: Link) -> None:
    made = Experiment(problem=PROBLEM, methods=METHODS, networks=link, rounds=2, seeds=[0])
    assert made.run().notes == []


def test_a_study_tells_it_where_links_lose_nothing() -> None:
    coke, given = catalogue.find_study("coke"), {"algorithms": "CTA,DKLA", "eta": 9.0, "rounds": 3, "agents": 5}
    told = [each for each in coke.execute(**given, features=10).notes if "outside the range" in each]
    assert [each.partition(" (")[0] for each in told] == [
        "CTA: eta = 9: outside the range in which CTA converges on these costs"
    ]
    lossy = coke.execute(**given, features=10, loss=0.1).notes
    assert not any("outside the range" in each for each in lossy)
