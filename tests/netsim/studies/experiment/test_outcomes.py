"""Every cell has a row with an outcome, however its run ended."""

import asyncio
import math
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netsim
from netsim import BadInput, Links, Method, topology
from netsim.agents import DPSGD
from netsim.errors import NetsimError
from netsim.studies.experiment.experiment import RESERVED
from netsim.studies.experiment.folder import keys_in
from netsim.studies.intervals import interval
from netsim.studies.seeds import Seeds
from tests.netsim.studies.experiment.parts import Counts, counting, least_squares, small
from tests.parts import every

pytestmark = pytest.mark.usefixtures("all_undrawn")

GOOD = Method(DPSGD, eta=0.1)


class Fails(DPSGD):
    """Raises an error in its third round."""

    def local_step(self) -> Any:
        self.taken = getattr(self, "taken", 0) + 1
        if self.taken == 3:
            raise ArithmeticError("no step")
        return super().local_step()


class Sleeps(DPSGD):
    """Runs longer than the time limit."""

    def local_step(self) -> Any:
        while True:
            self.taken = 0


class Hogs(DPSGD):
    """Allocates more memory than is available."""

    def local_step(self) -> Any:
        self.hoard = np.ones(2**28)
        return super().local_step()


class Dies(DPSGD):
    """Is killed by the operating system."""

    def local_step(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


def row_of(results: Any, method: str = "bad", seed: int = 0) -> dict[str, Any]:
    table = results.runs
    (row,) = table[(table["method"] == method) & (table["seed"] == seed)].to_dict("records")
    return dict(row)


def fails_for(*seeds: int) -> Any:
    """Return a problem whose creation fails for some seeds."""

    def problem(seed: int) -> Any:
        if seed in seeds:
            raise ValueError("nothing to learn")
        return least_squares(seed)

    return problem


# --- kinds of ends ----------------------------------------------------------------------------------------------------


def test_all_ends_of_a_run_have_a_row() -> None:
    methods = {
        "good": GOOD,
        "diverges": Method(DPSGD, eta=50.0),
        "fails": Method(Fails, eta=0.1),
        "stalls": Method(DPSGD, eta=1e-9),
    }
    results = small(methods=methods, rounds=30).run()
    found = {(row["method"], row["seed"]): row["outcome"] for row in results.runs.to_dict("records")}
    assert len(found) == 8
    assert {found["diverges", seed] for seed in range(2)} == {"diverged"}
    assert {found["fails", seed] for seed in range(2)} == {"failed"}
    assert {found["stalls", seed] for seed in range(2)} == {"stalled"}
    assert found["good", 0] in ("unfinished", "stalled", "converged")
    table = results.summary()
    assert list(table["survived"]) == ["2/2", "0/2", "0/2", "2/2"]
    assert list(table["median_gap"] == math.inf) == [False, True, True, False]
    assert "diverged" in repr(results)


def test_the_round_of_divergence_is_the_first_from_which_it_lasts() -> None:
    def jumping(seed: int) -> Any:
        costs, graph, _ = least_squares(seed)
        errors = iter([1.0, 50.0, 1.0, 30.0, math.nan])
        return costs, graph, lambda models: {"gap": next(errors)}

    results = small(problem=jumping, methods={"bad": GOOD}, rounds=5, seeds=[0]).run()
    assert row_of(results)["outcome"] == "diverged"
    assert row_of(results)["outcome_round"] == results.rounds["round"].iloc[3]


def test_a_run_that_fails_keeps_its_rounds_and_its_line() -> None:
    results = small(methods={"bad": Method(Fails, eta=0.1), "good": GOOD}).run()
    assert row_of(results)["outcome"] == "failed"
    assert "no step" in row_of(results)["why"]
    assert "\n" not in row_of(results)["why"]
    assert 0 < (results.rounds["method"] == "bad").sum() < (results.rounds["method"] == "good").sum()


@pytest.mark.parametrize("bad", [0, 1])
def test_a_seed_that_cannot_be_set_up_is_a_row(bad: int) -> None:
    results = small(problem=fails_for(bad), methods={"bad": GOOD}).run()
    assert row_of(results, seed=bad)["outcome"] == "failed"
    assert row_of(results, seed=bad)["why"] == "ValueError: nothing to learn"
    assert row_of(results, seed=1 - bad)["outcome"] != "failed"
    assert results.summary()["survived"].tolist() == ["1/2"]


def test_a_seed_added_that_cannot_be_set_up_is_a_row(tmp_path: Path) -> None:
    problem = fails_for(2)
    small(problem=problem, methods={"bad": GOOD}).run(tmp_path)
    for _ in range(2):
        results = small(problem=problem, methods={"bad": GOOD}, seeds=range(3)).run(tmp_path)
        assert results.ran == 1
        assert row_of(results, seed=2)["why"] == "ValueError: nothing to learn"


def test_an_error_in_a_probe_or_a_measure_of_the_run_is_a_row() -> None:
    def probe(agents: Any) -> dict[str, float]:
        if len(calls) == 0 and calls.append(1) is None:
            raise KeyError("probe")
        return {"x": 1.0}

    def of_run(run: netsim.Run) -> dict[str, float]:
        if run.rounds["gap"].iloc[0] == least:
            raise KeyError("after")
        return {"y": 1.0}

    calls: list[int] = []
    results = small(methods={"bad": GOOD}, measure=[probe]).run()
    assert results.runs["outcome"].tolist().count("failed") == 1
    assert "probe" in results.runs.loc[results.runs["outcome"] == "failed", "why"].item()
    least = results.rounds.groupby("seed")["gap"].first().loc[1]
    results = small(methods={"bad": GOOD}, after=[of_run]).run()
    assert row_of(results, seed=1)["why"].startswith("KeyError")
    assert row_of(results, seed=1)["outcome"] == "failed"
    assert row_of(results, seed=0)["y"] == 1.0


def test_a_measure_that_returns_no_numbers_by_name_is_a_row() -> None:
    results = counting(after=[lambda run: 3.0], seeds=[0], methods={"bad": Counts, "worse": Method(Counts, step=2)})
    with pytest.raises(NetsimError, match=r"all 2 runs failed; the first: "):
        results.run()


@pytest.mark.slow
def test_a_cell_that_takes_too_long_is_a_row_and_runs_again(tmp_path: Path) -> None:
    methods = {"good": GOOD, "bad": Method(Sleeps, eta=0.1)}
    results = small(methods=methods, seeds=[0]).run(tmp_path, timeout=2.0)
    assert row_of(results)["why"] == "took longer than 2 s"
    assert row_of(results, "good")["outcome"] != "failed"
    assert small(methods=methods, seeds=[0]).run(tmp_path, timeout=2.0).ran == 1


@pytest.mark.slow
def test_too_long_is_no_property_of_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Waits(DPSGD):
        def local_step(self) -> Any:
            while (tmp_path / "slow").exists():
                pass
            return super().local_step()

    methods = {"good": GOOD, "bad": Method(Waits, eta=0.1)}
    (tmp_path / "slow").touch()
    results = small(methods=methods, seeds=[0]).run(tmp_path / "out", timeout=4.0)
    assert row_of(results)["why"] == "took longer than 4 s"
    (tmp_path / "slow").unlink()
    results = small(methods=methods, seeds=[0]).run(tmp_path / "out")
    assert row_of(results)["outcome"] != "failed"
    assert results.ran == 1


@pytest.mark.slow
def test_a_cell_that_takes_too_much_memory_is_a_row(tmp_path: Path) -> None:
    methods = {"good": GOOD, "bad": Method(Hogs, eta=0.1)}
    results = small(methods=methods, seeds=[0]).run(tmp_path, memory=500)
    assert row_of(results, "good")["outcome"] != "failed"
    assert "memory" in row_of(results)["why"].lower()


@pytest.mark.slow
def test_a_cell_whose_process_is_killed_is_a_row_and_is_not_kept(tmp_path: Path) -> None:
    results = small(methods={"good": GOOD, "bad": Method(Dies, eta=0.1)}, seeds=[0]).run(tmp_path, jobs=2)
    assert row_of(results)["outcome"] == "failed"
    assert "killed" in row_of(results)["why"]
    assert row_of(results, "good")["outcome"] != "failed"
    assert keys_in(tmp_path) == [results.cells[0][0].key]


def test_if_all_runs_fail_that_is_an_error_and_the_folder_has_them(tmp_path: Path) -> None:
    experiment = small(methods={"bad": Method(Fails, eta=0.1)})
    for _ in range(2):
        with pytest.raises(NetsimError, match=r"^all 2 runs failed; the first: .*no step"):
            experiment.run(tmp_path)
    assert (tmp_path / "runs.csv").read_text().count("no step") == 2


def test_what_failed_for_want_of_a_file_runs_once_it_is_there(tmp_path: Path) -> None:
    def problem(seed: int) -> Any:
        if seed:
            (tmp_path / "data.txt").read_text()
        return least_squares(seed)

    experiment = small(problem=problem, methods={"bad": GOOD})
    assert "FileNotFoundError" in row_of(experiment.run(tmp_path / "out"), seed=1)["why"]
    (tmp_path / "data.txt").write_text("1")
    results = experiment.run(tmp_path / "out")
    assert row_of(results, seed=1)["outcome"] != "failed"
    assert results.ran == 1


def test_no_measure_number_is_a_row_that_says_so() -> None:
    """If a measure is NaN but the error is a number, the run counts as usual; a NaN error means that it diverged."""
    results = small(methods={"good": GOOD}, measure=[lambda agents: {"nothing": math.nan, "endless": math.inf}]).run()
    assert set(results.runs["outcome"]) <= {"unfinished", "stalled", "converged"}
    assert results.runs["nothing"].isna().all()
    assert (results.runs["endless"] == math.inf).all()

    def nothing(seed: int) -> Any:
        return *least_squares(seed)[:2], lambda models: {"gap": math.nan}

    results = small(problem=nothing, methods={"good": GOOD}).run()
    assert results.runs["outcome"].tolist() == ["diverged"] * 2
    assert results.summary()["survived"].tolist() == ["0/2"]
    assert results.summary()["median_gap"].tolist() == [math.inf]


# --- refused ----------------------------------------------------------------------------------------------------------


def test_agents_without_a_model_are_refused_or_failed_by_name() -> None:
    with pytest.raises(NetsimError, match=r"must have agents whose model is their attribute theta"):
        small(methods={"bad": lambda setup: {node: Counts(3) for node in setup.graph}}).run()
    results = small(methods={"good": GOOD, "bad": lambda setup: {n: Counts(3) for n in setup.graph}}).run()
    assert "theta" in row_of(results)["why"]
    assert row_of(results, "good")["outcome"] != "failed"


@every("name", sorted(RESERVED))
def test_a_reserved_name_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match=name):
        small(names={name: "method.eta"})
    if name != "method":
        with pytest.raises(BadInput, match=name):
            small(methods={"a": Method(DPSGD, eta=0.1, label={name: "x"})})


@pytest.mark.parametrize("where", ["measure", "after"])
@pytest.mark.parametrize("name", sorted(RESERVED - {"round", "time_s"}))
def test_a_measure_with_a_reserved_name_is_refused(name: str, where: str) -> None:
    with pytest.raises(NetsimError, match=rf"{name}.*another name"):
        counting(**{where: [lambda each: {name: 7.0}]}).run()


def test_a_seed_that_is_there_twice_is_refused() -> None:
    for seeds in ([0, 0], [0, np.int64(0)], [Seeds(seed=0), 0], [Seeds(seed=1), Seeds(seed=1, data_seed=2)]):
        with pytest.raises(BadInput, match="seeds"):
            small(seeds=seeds)


def test_a_spent_seed_is_refused() -> None:
    for seeds in ([5], range(4, 7), [Seeds(seed=5)]):
        with pytest.raises(BadInput, match="must not be the seeds on which settings were tuned"):
            small(seeds=seeds, spent=frozenset([5]))


@pytest.mark.parametrize("seeds", [[], [-1], [0.5], ["a"], [True]])
def test_what_is_no_seed_is_refused(seeds: Any) -> None:
    with pytest.raises(BadInput, match="seed"):
        small(seeds=seeds)


# --- columns ----------------------------------------------------------------------------------------------------------


def test_a_setting_and_a_measure_of_one_name_are_two_columns_also_where_a_run_failed() -> None:
    """A failed run has no measures, so its setting must not fill the column of a measure with the same name."""
    results = small(
        problem=fails_for(1),
        methods={"bad": GOOD},
        names={"gap": "method.eta"},
        grid=netsim.vary("gap", [0.1, 0.2]),
    ).run()
    assert results.runs["given_gap"].tolist() == [0.1, 0.1, 0.2, 0.2]
    assert results.runs["gap"].isna().tolist() == [False, True, False, True]
    assert results.summary()["survived"].tolist() == ["1/2", "1/2"]
    assert set(results.rounds["given_gap"]) == {0.1, 0.2}


def test_two_methods_of_one_content_have_a_row_each() -> None:
    results = small(methods={"a": GOOD, "b": Method(DPSGD, eta=0.1)}).run()
    assert len(results.runs) == 4
    assert results.runs.groupby("seed")["gap"].nunique().eq(1).all()


class Draws:
    """A cost whose gradient uses random numbers."""

    size = 3

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def gradient(self, theta: Any) -> Any:
        return theta - 1 + self.rng.normal(size=3)


def drawing(seed: int) -> Any:
    costs = [Draws(seed + number) for number in range(3)]
    return costs, topology.ring(3), lambda models: {"gap": float((models**2).mean())}


def test_a_cell_does_not_depend_on_the_methods_that_run_before_it() -> None:
    alone = small(problem=drawing, methods={"b": GOOD}).run().runs
    after = small(problem=drawing, methods={"a": Method(DPSGD, eta=0.2), "b": GOOD}).run().runs
    assert after.loc[after["method"] == "b", "gap"].tolist() == alone["gap"].tolist()


def test_an_agent_that_never_ends_is_bounded_by_the_time_of_the_run() -> None:
    class Waits(netsim.Agent):
        async def run(self) -> None:
            while True:
                await asyncio.sleep(1.0)

    results = counting(methods={"waits": Waits}, measure=[], until=3.0).run()
    assert results.runs["outcome"].tolist() == ["ended"]
    assert isinstance(results.cells[0][0].network, Links)


def test_a_figure_over_rounds_counts_the_dead_as_the_summary_does() -> None:
    class Often(Fails):
        def local_step(self) -> Any:
            self.taken = getattr(self, "taken", 0) + 10 * (self.name > 0 or self.rng.random() < 0.1)
            return super().local_step()

    results = small(methods={"bad": Method(Often, eta=0.1), "good": GOOD}, seeds=range(5), rounds=6).run()
    died = int((results.runs["outcome"] == "failed").sum())
    assert died >= 3
    table = results.tidy(rounds=True)
    bad = table[table["algorithm"] == "bad"]
    assert (bad.groupby("round")["seed"].nunique() == 5).all()
    assert (bad[bad["round"] == 6]["outcome"] == "failed").sum() == died
    assert not (bad[bad["round"] == 1]["outcome"] == "failed").any()
    last = interval(table[table["round"] == 6], "gap", ["algorithm"], of="median").set_index("algorithm")
    assert last.loc["bad", "median"] == np.inf
    assert last.loc["bad", "survived"] == 5 - died
    summary = results.summary().set_index("method")
    assert (summary.loc["bad", "failed"], summary.loc["bad", "verdict"]) == (died, "")


def test_an_error_that_no_problem_measures_fails_with_the_nearest() -> None:
    with pytest.raises(NetsimError, match=r"all 4 runs failed; the first: error = 'gapp': .*did you mean 'gap'\?\)$"):
        small(error="gapp").run()


def test_a_metric_that_only_one_of_several_problems_measures_is_known(tmp_path: Path) -> None:
    def other(seed: int) -> Any:
        costs, graph, _ = least_squares(seed)
        return costs, graph, lambda models: {"spread": float(models.std())}

    both = small(problem={"first": least_squares, "other": other}, seeds=[0], rounds=2)
    found = both.run_cells(list(both.cells()), tmp_path / "a", metric="spread")
    assert found.runs["spread"].notna().tolist() == [False, False, True, True]
    with pytest.raises(BadInput, match=r"metric = 'sprad': .*did you mean 'spread'"):
        both.run_cells(list(both.cells()), tmp_path / "b", metric="sprad")
    assert len(keys_in(tmp_path / "b")) == 3, "as soon as a run of each has ended"
