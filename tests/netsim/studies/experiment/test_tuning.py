"""Tuning: trials, survivors first, validation on seeds of its own, and what is said of the choice."""

from typing import Any

import pytest

from netsim import BadInput, Between, Choice, Experiment, Links, Method, topology
from netsim.agents import DKLA
from netsim.coders import Exact, Float
from tests.netsim.studies.experiment.parts import Counts, small


def scored(value: Any) -> Any:
    """Return an experiment of one method with a parameter ``step``, whose error is ``value(step, seed)``."""

    class Scores(Counts):
        seed = 0

    def made(setup: Any, step: float = 0.0) -> dict[Any, Any]:
        agents = {node: Scores(setup.rounds) for node in setup.graph}
        for agent in agents.values():
            agent.score = value(step, setup.seed)
        return agents

    def error(agents: Any) -> dict[str, float]:
        agent = agents[0]
        return {"error": agent.score if agent.total > 1 else min(agent.score, 1.0)}

    return Experiment(
        methods={"m": made},
        networks=Links(graph=topology.path(2)),
        measure=[error],
        error="error",
        rounds=2,
        seeds=range(3),
    )


def test_the_least_median_is_chosen_and_the_experiment_has_it() -> None:
    over = {"method.step": Between(0.0, 8.0)}
    tuned = scored(lambda step, seed: abs(step - 4.0) / 10 + seed / 1e4).tune(over, candidates=6)
    assert list(tuned.chosen["step"]) == ["4"]
    assert tuned.chosen["survived"][0] == "6/6"
    assert tuned.experiment.values("methods.m.step") == [0.0]  # by condition, not everywhere
    assert tuned.experiment.run().runs["error"].max() < 0.01


def test_candidate_zero_is_the_method_as_it_is() -> None:
    tuned = scored(lambda step, seed: step / 10).tune({"method.step": Between(1.0, 8.0)}, candidates=4)
    assert tuned.chosen["candidate"][0] == 0
    assert tuned.chosen["step"][0] == "0"


def test_every_seed_of_tuning_is_spent() -> None:
    tuned = scored(lambda step, seed: 1.0).tune({"method.step": Between(1.0, 2.0)}, candidates=2)
    assert tuned.experiment.spent == {100, 101, 102, 200, 201, 202, 203, 204, 205}
    with pytest.raises(BadInput, match=r"seeds = \[101\]: must be others; settings were chosen on them"):
        Experiment(**{**vars(tuned.experiment), "seeds": [1, 101]})


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"seeds": [0, 7]}, r"seeds = \[0\]: must be seeds on which nothing else runs"),
        ({"seeds": [7], "validation": [7, 8]}, r"validation = \[7\]: must be seeds"),
        ({"seeds": []}, "seeds = .*one seed at least"),
        ({"candidates": 1}, "candidates = 1: must be a whole number >= 2"),
        ({"metric": "eror"}, "did you mean 'error'"),
    ],
)
def test_what_cannot_be_tuned_is_refused(how: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        scored(lambda step, seed: 1.0).tune({"method.step": Between(1.0, 2.0)}, **how)


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"method.stp": Between(1, 2)}, "path = "),
        ({"network.link.loss": Between(0.1, 0.2)}, "must be a path of methods"),
        ({"method.step": [1, 2]}, "must be a Between or a Choice"),
    ],
)
def test_what_is_no_range_is_refused(over: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        scored(lambda step, seed: 1.0).tune(over)


@pytest.mark.parametrize(("low", "high", "log"), [(2, 1, False), (0, 1, True), (float("nan"), 1, False), (1, 1, False)])
def test_a_range_has_a_low_and_a_high_end(low: float, high: float, log: bool) -> None:
    with pytest.raises(BadInput):
        Between(low, high, log)


def test_survivors_come_before_a_small_error() -> None:
    # The larger step is better where it survives, and dies on some seeds that the search has not seen.
    def value(step: float, seed: int) -> float:
        dies = step > 5 and seed in (200, 201)
        return 1e9 if dies else 1.0 - step / 10

    tuned = scored(value).tune({"method.step": Choice([2.0, 8.0])}, candidates=3)
    assert tuned.chosen["survived"][0] == "6/6"
    assert tuned.chosen["step"][0] == "2"


def test_a_note_tells_of_a_best_that_died_in_validation() -> None:
    def value(step: float, seed: int) -> float:
        return float("inf") if step > 5 and seed >= 200 else 1.0 - step / 10

    tuned = scored(value).tune({"method.step": Choice([2.0, 8.0])}, candidates=3)
    assert tuned.chosen["step"][0] == "2"
    assert any("the best of the search survives 0 of 6 validation seeds" in note for note in tuned.notes)


def test_notes_tell_of_an_end_and_of_what_was_not_tuned() -> None:
    made = scored(lambda step, seed: 1.0 - step / 10)
    both = Experiment(**{**vars(made), "methods": {**made.methods, "other": Method(DKLA, rho=0.1)}})
    assert both.methods.keys() == {"m", "other"}
    tuned = made.tune({"method.step": Between(0.0, 8.0)}, candidates=4)
    assert tuned.notes == ["method=m: step = 8 is an end of its range."]


def test_coders_are_chosen_as_numbers_are() -> None:
    found = small(methods={"DKLA": Method(DKLA, rho=0.1), "none": Method(DKLA, rho=0.2)}, seeds=[0], rounds=3)
    over = {"methods.DKLA.coder": Choice([Exact(), Float(16)])}
    tuned = found.tune(over, candidates=2, seeds=[10], validation=[20])
    assert list(tuned.chosen["method"]) == ["DKLA"]
    assert tuned.notes[0] == "Not tuned, for it has none of these parameters: none."
    assert set(tuned.table["coder"].dropna()) <= {"Exact()", "Float(16)"}
