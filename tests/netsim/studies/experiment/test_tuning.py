"""Tuning: trials, survivors before others, validation on separate seeds, and notes on the choice."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim import BadInput, Between, Experiment, Links, Method, OneOf, topology, vary
from netsim.agents import DKLA
from netsim.coders import Exact, Float
from netsim.studies.experiment.command import ranges_of
from netsim.studies.experiment.tuning import rungs
from tests.netsim.studies.experiment.parts import Counts, small

pytestmark = pytest.mark.usefixtures("all_undrawn")

SHORT: dict[str, Any] = {"seeds": [100], "validation": [200, 201]}


def scored(value: Any) -> Any:
    """Return an experiment with one method and its parameter ``step``; the error is ``value(step, seed)``."""

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
    tuned = scored(lambda step, seed: abs(step - 4.0) / 10 + seed / 1e4).tune(over, candidates=6, **SHORT)
    assert list(tuned.chosen["step"]) == ["4"]
    assert tuned.chosen["survived"][0] == "2/2"
    assert tuned.experiment.values("methods.m.step") == [0.0]  # the tuned value applies to its condition only
    assert tuned.experiment.run().runs["error"].max() < 0.01


def test_candidate_zero_is_the_method_as_it_is() -> None:
    tuned = scored(lambda step, seed: step / 10).tune({"method.step": Between(1.0, 8.0)}, candidates=4, **SHORT)
    assert tuned.chosen["candidate"][0] == 0
    assert tuned.chosen["step"][0] == "0"


def test_each_rung_has_half_of_the_candidates_and_new_seeds() -> None:
    assert [(each.count, each.seeds) for each in rungs(10, range(4))] == [(10, (0,)), (5, (1,)), (3, (2, 3))]


def test_of_equal_candidates_the_first_stays_and_every_seed_is_spent(tmp_path: Path) -> None:
    how: dict[str, Any] = {"seeds": np.arange(100, 102), "validation": np.arange(200, 202)}
    tuned = scored(lambda step, seed: 1.0).tune({"method.step": Between(1.0, 2.0)}, candidates=5, finalists=2, **how)
    assert tuned.chosen["candidate"][0] == 0
    for seed, left in ((100, {0, 1, 2, 3, 4}), (101, {0, 1, 2}), (200, {0, 1}), (201, {0, 1})):
        assert set(tuned.table.loc[tuned.table["seed"] == seed, "candidate"]) == left
    tuned.save(tmp_path / "tuned.json")
    assert json.loads((tmp_path / "tuned.json").read_text())["spent"] == [100, 101, 200, 201]
    with pytest.raises(BadInput, match=r"seeds = \[101\]: must not be the seeds on which settings were tuned"):
        Experiment(**{**vars(tuned.experiment), "seeds": [1, 101]})


@pytest.mark.parametrize(("of", "step"), [("median", "1"), ("mean", "2")])
def test_seeds_are_compared_by_their_median_or_mean(of: str, step: str) -> None:
    made = scored(lambda step, seed: {0.0: 5.0, 1.0: 9.0 if seed == 202 else 0.5, 2.0: 1.0}[step])
    how: dict[str, Any] = {"seeds": [100], "validation": range(200, 203), "candidates": 3, "of": of}
    assert made.tune({"method.step": OneOf([1.0, 2.0])}, **how).chosen["step"][0] == step


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"seeds": [0, 7]}, r"seeds = \[0\]: must be seeds on which nothing else runs"),
        ({"seeds": [7], "validation": [7, 8]}, r"validation = \[7\]: must be seeds"),
        ({"seeds": []}, "seeds = .*one seed at least"),
        ({"seeds": 50}, "seeds = 50: must be whole numbers, such as range"),
        ({"validation": None}, "validation = None: must be whole numbers"),
        ({"candidates": 1}, "candidates = 1: must be a whole number >= 2"),
        ({"metric": "eror"}, "did you mean 'error'"),
        ({"metric": "total@error"}, "reach = 'error': must be COLUMN=VALUE"),
        ({"of": "least"}, "of = 'least': must be one of mean, median"),
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
        ({"method.step": [1, 2]}, "must be a Between or a OneOf"),
        ({}, r"over = \{\}: must be one range at least"),
        (1, "over = 1: must be"),
    ],
)
def test_what_is_no_range_is_refused(over: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        scored(lambda step, seed: 1.0).tune(over)


@pytest.mark.parametrize(("low", "high", "log"), [(2, 1, False), (0, 1, True), (float("nan"), 1, False), (1, 1, False)])
def test_a_range_has_a_low_and_a_high_end(low: float, high: float, log: bool) -> None:
    with pytest.raises(BadInput):
        Between(low, high, log)


def test_levels_are_even_in_the_logarithm_or_in_the_value_with_both_ends() -> None:
    assert Between(0.01, 1, log=True).levels(5) == [0.01, 0.0316228, 0.1, 0.316228, 1.0]
    assert Between(1.0, 2).levels(3) == [1.0, 1.5, 2.0]
    assert Between(1, 8).levels(4) == Between(np.int64(1), np.int64(8)).levels(4) == [1, 3, 6, 8]
    assert Between(0.01, 1, log=True).levels(1) == [0.1]
    assert math.prod(Between(0.5, 2, log=True).levels(7)) == pytest.approx(1.0, rel=1e-4)
    assert OneOf("ab").levels(3) == ["a", "b", "a"]
    assert str(OneOf(np.arange(2, 4))) == "{2, 3}"


def test_survivors_come_before_a_small_error() -> None:
    # The larger step has the smaller error, but some of its runs die on the validation seeds.
    def value(step: float, seed: int) -> float:
        dies = step > 5 and seed in (200, 201)
        return 1e9 if dies else 1.0 - step / 10

    tuned = scored(value).tune({"method.step": OneOf([2.0, 8.0])}, candidates=3, **SHORT)
    assert tuned.chosen["survived"][0] == "2/2"
    assert tuned.chosen["step"][0] == "2"


def test_a_note_tells_of_a_best_that_died_in_validation() -> None:
    def value(step: float, seed: int) -> float:
        return float("inf") if step > 5 and seed >= 200 else 1.0 - step / 10

    tuned = scored(value).tune({"method.step": OneOf([2.0, 8.0])}, candidates=3, **SHORT)
    assert tuned.chosen["step"][0] == "2"
    assert any("the best of the search survives 0 of 2 validation seeds" in note for note in tuned.notes)


def test_of_finalists_that_all_die_the_one_with_most_survivors_is_chosen() -> None:
    made = scored(lambda step, seed: math.inf if seed >= 201 - (step < 5) and seed >= 200 else 1.0 - step / 10)
    tuned = made.tune({"method.step": OneOf([2.0, 8.0])}, candidates=3, **SHORT)
    assert list(tuned.chosen[["step", "survived"]].iloc[0]) == ["8", "1/2"]
    assert tuned.notes[0].startswith(
        "method=m: no candidate survives all 2 validation seeds; the chosen one survives 1"
    )


@pytest.mark.parametrize(
    ("value", "low", "note"),
    [
        (lambda step, seed: 1.0 - step / 10, 0.0, "step = 8 is an end of its range."),
        (lambda step, seed: step / 10, 1.0, "step = 0 is the method's own, outside of 1:8."),
        (
            lambda step, seed: math.inf,
            0.0,
            "no candidate survives all 2 search seeds; the chosen one survives 0 (95 % interval of the share: 0% to "
            "84%).",
        ),
    ],
)
def test_notes_tell_of_ends_and_of_methods_that_always_diverge(value: Any, low: float, note: str) -> None:
    tuned = scored(value).tune({"method.step": Between(low, 8.0)}, candidates=3, seeds=[100, 101], validation=())
    assert tuned.notes[0] == f"method=m: {note}"


def test_runs_that_fail_are_told_apart_from_those_that_diverge() -> None:
    made = scored(lambda step, seed: "a word" if step > 5 else 1.0 - step / 10)
    tuned = made.tune({"method.step": OneOf([2.0, 8.0])}, candidates=3, seeds=[100], validation=())
    (note,) = tuned.notes
    assert note.startswith("1 runs failed, and count as diverged; the first: ")
    assert "'str'" in note


def test_coders_are_chosen_as_numbers_are() -> None:
    found = small(methods={"DKLA": Method(DKLA, rho=0.1), "none": Method(DKLA, rho=0.2)}, seeds=[0], rounds=3)
    over = {"methods.DKLA.coder": OneOf([Exact(), Float(16)])}
    tuned = found.tune(over, candidates=2, seeds=[10], validation=[20])
    assert list(tuned.chosen["method"]) == ["DKLA"]
    assert tuned.notes[0] == "Not tuned, for it has none of these parameters: none."
    assert set(tuned.table["coder"].dropna()) <= {"Exact()", "Float(16)"}


def test_names_of_methods_may_hold_spaces_and_full_stops() -> None:
    made = small(methods={"DKLA 8-bit": Method(DKLA, rho=0.1), "mine.v2": Method(DKLA, rho=0.2)}, seeds=[0], rounds=2)
    ranges = ranges_of(made, ["rho=0.1:1", "mine.v2.rho=0.2:0.4:log"])
    assert {path: str(each) for path, each in ranges.items()} == {
        "methods.DKLA 8-bit.rho": "0.1:1",
        "methods.mine.v2.rho": "0.2:0.4:log",
    }
    tuned = made.tune(ranges, candidates=2, seeds=[10], validation=())
    assert list(tuned.table["rho"].dropna()) == ["0.55", "0.282843"]
    assert tuned.experiment.settings.keys() == {("method=DKLA 8-bit",), ("method=mine.v2",)}


def test_a_condition_that_was_not_tuned_is_refused() -> None:
    tuned = scored(lambda step, seed: 1.0).tune({"method.step": Between(1.0, 2.0)}, candidates=2, **SHORT).experiment
    other = Experiment(**{**vars(tuned), "grid": vary("network.link.loss", [0.1])})
    with pytest.raises(BadInput, match=r"must have been tuned for network.link.loss=0.1, method=m, too"):
        other.run()
