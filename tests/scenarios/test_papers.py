"""The papers' study: verdicts on claims from known tables, and reuse of finished runs."""

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from netsim import BadInput
from netsim.scenarios.data.tables import synthetic
from netsim.scenarios.papers import figures, online, report
from netsim.scenarios.papers.claim import (
    AGREES,
    DIFFERS,
    NO_DATA,
    OPEN,
    OUTCOMES,
    VOID,
    Cell,
    Claim,
    Judged,
    Paper,
    Try,
    attempt,
    judge,
    judged,
    printed,
    why,
)
from netsim.scenarios.papers.reading import by_round, cost, ratio
from netsim.scenarios.papers.study import PAPERS
from netsim.scenarios.papers.work import Runs, Work, do
from netsim.studies import Study, catalogue
from netsim.studies.terminal import Reporter

SMALL: dict[str, Any] = {"agents": 4, "features": 5, "rounds": 6, "algorithms": "DKLA,COKE"}
SMALL_CLASSES = {"agents": 3, "features": 4, "rows": 60, "eta": "0.1", "gamma": "0.09", "topologies": "path"}
BASE, OTHER = Work("base", "coke", SMALL), Work("other", "coke", {**SMALL, "rho": 0.1})
QUIET = Reporter(quiet=True)


class Known(Runs):
    """Runs with given rounds, and with the error of a constant predictor for each column."""

    def __init__(self, work: Work, rounds: pd.DataFrame, **constant: float) -> None:
        super().__init__(work, Path("known"))
        seeds = rounds["seed"].unique().tolist()
        self.__dict__ |= {"rounds": rounds, "constants": dict.fromkeys(seeds, constant)}


def known(values: dict[int, list[float]], work: Work = BASE, **constant: float) -> Known:
    """Return runs of an algorithm A with given values by seed and round, counted from 1; ten messages per round."""
    rows = [
        {"seed": seed, "algorithm": "A", "round": number, "train_mse": value, "transmissions": 10 * number}
        for seed, column in values.items()
        for number, value in enumerate(column, 1)
    ]
    return Known(work, pd.DataFrame(rows), **constant)


def claim(*cells: Cell, **more: object) -> Claim:
    settings: dict[str, object] = {"read": by_round("A", "train_mse"), "where": "table 9", "what": "A: error"}
    return Claim(work="base", cells=cells, **(settings | more))  # type: ignore[arg-type]


# --- judging ----------------------------------------------------------------------------------------------------------


def test_a_printed_number_agrees_where_95_percent_of_further_runs_lie() -> None:
    rng = np.random.default_rng(1)
    drawn = rng.normal(5.0, 1.0, (4000, 6))
    inside = [judge(Cell("x", float(row[5])), row[:5]).verdict != DIFFERS for row in drawn]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.012)


def test_the_interval_is_students() -> None:
    values = [1.0, 1.1, 0.9, 1.05, 0.95]
    found = judge(Cell("x", 1.0), values)
    # The usual prediction interval for one more value, as statsmodels computes it.
    half = stats.t.ppf(0.975, 4) * np.std(values, ddof=1) * math.sqrt(1 + 1 / 5)
    assert (found.low, found.high) == pytest.approx((1.0 - half, 1.0 + half))
    assert found.verdict == AGREES
    assert judge(Cell("x", 1.0 + 1.01 * half), values).verdict == DIFFERS


def test_rounding_of_the_print_is_forgiven() -> None:
    assert judge(Cell("x", 0.12, digit=0.005), [0.1249, 0.1249, 0.1249]).verdict == AGREES
    assert judge(Cell("x", 0.12, digit=0.005), [0.1251, 0.1251, 0.1251]).verdict == DIFFERS


def test_an_interval_as_wide_as_the_number_decides_nothing() -> None:
    assert judge(Cell("x", 10.0), [2.0, 10.0, 20.0]).verdict == OPEN


def test_a_run_without_the_value_differs() -> None:
    found = judge(Cell("x", 10.0), [9.0, math.nan, 11.0])
    assert found.verdict == DIFFERS
    assert math.isnan(found.mean)


@pytest.mark.parametrize(
    ("values", "verdict"),
    # Three values 0.1 apart: the interval is 0.248 to either side of the mean. Two values: 12.7 times half their
    # distance.
    [([0.65, 0.75, 0.85], AGREES), ([1.15, 1.35, 1.25], DIFFERS), ([0.7, 0.8, 0.9], OPEN), ([0.98, 0.99], OPEN)],
)
def test_a_statement_holds_where_the_interval_of_the_mean_does(values: list[float], verdict: str) -> None:
    found = judge(Cell("x", high=1.0), values)
    assert found.verdict == verdict
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_a_statement_that_is_just_true_is_denied_by_one_in_forty() -> None:
    drawn = np.random.default_rng(2).normal(1.0, 0.3, (4000, 6))
    verdicts = [judge(Cell("x", high=1.0), row).verdict for row in drawn]
    assert verdicts.count(DIFFERS) / 4000 == pytest.approx(0.025, abs=0.01)


# --- what does not learn ----------------------------------------------------------------------------------------------

HOLLOW = {0: [3.0, 1.0], 1: [3.1, 1.1], 2: [2.9, 0.9]}
"""Errors by seed and round; the mean over the seeds of the final error is 1."""


@pytest.mark.parametrize(("constant", "void"), [(0.5, True), (1.0, True), (1.1, True), (1.2, False), (20.0, False)])
def test_a_claim_about_a_model_that_does_not_learn_is_void(constant: float, void: bool) -> None:
    """A model counts as learning if its error is at least a tenth below that of the best constant."""
    for cell, verdict in (
        (Cell("k = 2", 1.0), AGREES),
        (Cell("k = 2", 9.0), DIFFERS),
        (Cell("k = 2", low=0.0), AGREES),
    ):
        found = judged(claim(cell), {"base": known(HOLLOW, train_mse=constant)})
        assert found.verdict == (VOID if void else verdict)
        assert found.agreeing == (not void and verdict == AGREES)
        assert ("does not learn" in why(found)) == void


def test_what_learning_does_not_change_is_never_void() -> None:
    runs = {"base": known(HOLLOW, train_mse=0.5)}
    assert judged(claim(Cell("k = 2", 1.0), learning=False), runs).verdict == AGREES
    assert judged(claim(Cell("k = 2", 1.0)), {"base": known(HOLLOW)}).verdict == AGREES, "nothing to hold it against"


def test_the_best_algorithm_that_a_claim_is_about_must_learn() -> None:
    rounds = known(HOLLOW).rounds
    both = Known(BASE, pd.concat([rounds, rounds.assign(algorithm="B", train_mse=0.1)]), train_mse=0.5)
    assert judged(claim(Cell("k = 2", 1.0)), {"base": both}).verdict == AGREES
    assert judged(claim(Cell("k = 2", 1.0), of=("A",)), {"base": both}).verdict == VOID
    with pytest.raises(BadInput, match="algorithm = 'C'"):
        judged(claim(Cell("k = 2", 1.0), of=("A", "C")), {"base": both})


@pytest.mark.parametrize(("largest", "void"), [(0.8, True), (0.75, False)])
def test_of_classes_it_is_the_share_of_wrong_answers(largest: float, void: bool) -> None:
    """With 81 % correct answers and a largest class of 80 %, the error is 0.95 of that of always naming this class."""
    rounds = known(HOLLOW).rounds.assign(test_accuracy=0.81)
    found = judged(claim(Cell("k = 2", 1.0)), {"base": Known(BASE, rounds, test_accuracy=largest)})
    assert found.void == void


@pytest.mark.parametrize(("constant", "void"), [(1.0, True), (1.2, False)])
def test_of_a_running_mean_it_is_that_of_the_last_fifth_of_the_rounds(constant: float, void: bool) -> None:
    """For the errors 9, 9, 9, 9, 1 the mean over all rounds is 7.4, but over the last fifth it is 1."""
    errors = [9.0, 9.0, 9.0, 9.0, 1.0]
    rounds = known({seed: (np.cumsum(errors) / np.arange(1, 6)).tolist() for seed in range(3)}).rounds
    runs = Known(BASE, rounds.rename(columns={"train_mse": "running_mse"}), running_mse=constant)
    assert runs.over_constant() == pytest.approx(1.0 / constant)
    found = judged(claim(Cell("k = 5", 7.4), read=by_round("A", "running_mse")), {"base": runs})
    assert found.void == void


def test_a_setting_that_does_not_learn_shows_no_cause() -> None:
    base = known({0: [3.0], 1: [3.1], 2: [2.9]})
    other = known({0: [1.0], 1: [1.1], 2: [0.9]}, OTHER, train_mse=1.0)
    found = judged(claim(Cell("k = 1", 1.0), tries=(Try("rho 0.1", "other"),)), {"base": base, "other": other})
    assert found.causes == []
    assert why(found) == "Inconclusive, because nothing is learned: rho 0.1."
    assert attempt(found.tried["rho 0.1"]) == "does not learn"


def test_a_cause_is_shown_of_what_is_void_too() -> None:
    base = known({0: [3.0], 1: [3.1], 2: [2.9]}, train_mse=1.0)
    other = known({0: [1.0], 1: [1.1], 2: [0.9]}, OTHER, train_mse=9.0)
    found = judged(claim(Cell("k = 1", 1.0), tries=(Try("rho 0.1", "other"),)), {"base": base, "other": other})
    assert (found.verdict, found.causes) == (VOID, ["rho 0.1"])
    assert why(found).startswith("Ours does not learn: its error is 3 times a constant answer's. Cause shown:")


def test_studies_say_what_a_constant_answer_gets(tmp_path: Path) -> None:
    """A constant's error is the target's variance over the samples used; its accuracy, the largest class's share."""
    runs = do([BASE, Work("classes", "omkl", {**SMALL_CLASSES, "repeats": 1})], tmp_path, range(2), 1, QUIET)
    for seed, constant in runs["base"].constants.items():
        targets = np.concatenate([part.train_target for part in synthetic(SMALL["agents"], seed=seed)])
        assert constant == pytest.approx({"train_mse": np.var(targets)})
    for constant in runs["classes"].constants.values():
        assert 0.5 <= constant["running_accuracy"] < 0.7
    assert runs["base"].over_constant() < 1.0


def test_how_far_off_is_relative_to_theirs() -> None:
    assert judge(Cell("x", 2.0), [2.5, 2.5]).off == pytest.approx(0.25)


# --- reading ----------------------------------------------------------------------------------------------------------


def test_columns_are_read_by_round_and_seed() -> None:
    table = by_round("A", "train_mse")(known({0: [3.0, 2.0], 1: [5.0, 4.0]}))
    assert table["k = 2"].to_dict() == {0: 2.0, 1: 4.0}


def test_the_cost_is_that_of_the_first_round_at_the_level_or_none() -> None:
    table = cost("A", "train_mse", {"low": 1.0, "mid": 2.5})(known({0: [3.0, 2.0, 1.0], 1: [3.0, 2.5, 2.0]}))
    assert table["mid"].to_dict() == {0: 20.0, 1: 20.0}
    assert table.loc[0, "low"] == 30.0
    assert math.isnan(table.loc[1, "low"])


def test_what_is_not_there_is_named_in_one_line() -> None:
    runs = known({0: [1.0], 1: [1.0]})
    with pytest.raises(BadInput, match="column 'test_mse'"):
        by_round("A", "test_mse")(runs)
    with pytest.raises(BadInput, match="algorithm = 'B'"):
        by_round("B", "train_mse")(runs)
    with pytest.raises(BadInput, match="'k = 7' of table 9"):
        judged(claim(Cell("k = 7", 1.0)), {"base": runs})
    with pytest.raises(BadInput, match=r"no_such\.csv") as caught:
        printed("no_such", "value")
    assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match="column = 'price'"):
        printed("dkl", "price")
    with pytest.raises(BadInput, match=r"running_time\.csv"):
        missing_table()


def missing_table() -> None:
    """Request a table that the study of the existing runs does not have."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        runs = do([BASE], Path(folder), range(2), 1, QUIET)
        runs["base"].table("running_time")


def test_printed_numbers_are_the_papers() -> None:
    rows = printed("coke_by_round", "train_mse", dataset="tomshardware", algorithm="DKLA", round=2000)
    assert rows["train_mse"].tolist() == [9.9e-4]


# --- why --------------------------------------------------------------------------------------------------------------

FAR, NEAR = known({0: [3.0], 1: [3.1], 2: [2.9]}), known({0: [1.0], 1: [1.1], 2: [0.9]}, OTHER)


def told(*tries: Try, **runs: Runs) -> str:
    return why(judged(claim(Cell("k = 1", 1.0), tries=tries), {"base": FAR, **runs}))


def test_nothing_is_called_a_cause_that_was_not_measured() -> None:
    assert told() == "No other setting was run."
    unchanged = told(Try("rho 0.2", "other"), other=Known(OTHER, FAR.rounds))
    assert unchanged == "Excluded: rho 0.2."


def test_a_setting_with_which_it_agrees_is_named() -> None:
    assert told(Try("rho 0.1", "other"), other=NEAR).startswith("Cause shown: it agrees with rho 0.1.")


def test_a_claim_may_be_read_otherwise_to_show_the_cause() -> None:
    runs = known({0: [3.0, 1.0], 1: [3.1, 1.1], 2: [2.9, 0.9]})
    later = Try(
        "a round later", "base", lambda each: by_round("A", "train_mse")(each)[["k = 2"]].set_axis(["k = 1"], axis=1)
    )
    found = judged(claim(Cell("k = 1", 1.0), tries=(later,)), {"base": runs})
    assert found.verdict == DIFFERS
    assert found.causes == ["a round later"]
    assert why(found).startswith("Cause shown: it agrees with a round later.")


def test_a_claim_may_be_about_other_algorithms_in_another_setting() -> None:
    other = Known(OTHER, NEAR.rounds.assign(algorithm="B"), train_mse=9.0)
    read = by_round("B", "train_mse")
    runs: dict[str, Runs] = {"base": FAR, "other": other}
    found = judged(claim(Cell("k = 1", 1.0), of=("A",), tries=(Try("B", "other", read, ("B",)),)), runs)
    assert found.causes == ["B"]
    with pytest.raises(BadInput, match="algorithm = 'A'"):
        judged(claim(Cell("k = 1", 1.0), of=("A",), tries=(Try("B", "other", read),)), runs)


def test_every_claim_has_one_outcome() -> None:
    """Full agreement in another setting takes precedence over partial agreement in the stated setting."""
    runs: dict[str, Runs] = {"base": known({0: [3.0, 2.0], 1: [3.1, 2.1], 2: [2.9, 1.9]}), "other": NEAR}
    found = {
        "agrees": claim(Cell("k = 1", 3.0)),
        "agrees in part": claim(Cell("k = 1", 3.0), Cell("k = 2", 9.0)),
        "differs, cause shown": claim(Cell("k = 1", 1.0), tries=(Try("rho 0.1", "other"),)),
        "differs, causes excluded": claim(Cell("k = 1", 2.0), tries=(Try("rho 0.1", "other"),)),
    }
    for outcome, each in found.items():
        assert judged(each, runs).outcome == outcome
    wide: dict[str, Runs] = {"base": known({0: [2.0], 1: [10.0], 2: [20.0]})}
    assert judged(claim(Cell("k = 1", 10.0)), wide).outcome == OPEN
    assert set(found) | {OPEN, VOID, NO_DATA} == set(OUTCOMES)


@pytest.mark.parametrize(
    ("values", "near"), [([90.0, 90.0, 500.0], True), ([89.0, 89.0, 100.0], False), ([110.0], True), ([], False)]
)
def test_a_number_is_near_if_it_is_within_10_percent_of_the_median(values: list[float], near: bool) -> None:
    assert judge(Cell("x", 100.0), values).near is near
    assert not judge(Cell("x", low=0.0), values).near, "a statement has no number"


def test_what_agrees_has_no_reason() -> None:
    fine = judged(claim(Cell("k = 1", 3.0)), {"base": FAR})
    assert fine.verdict == AGREES
    assert why(fine) == ""


# --- doing ------------------------------------------------------------------------------------------------------------


def test_what_is_done_is_not_done_again_and_what_is_missing_is(tmp_path: Path) -> None:
    do([BASE], tmp_path, range(2), 1, QUIET)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("base/points/*/rounds.csv")}
    assert len(files) == 2
    runs = do([BASE, OTHER], tmp_path, range(3), 1, QUIET)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert runs["base"].rounds["seed"].unique().tolist() == [0, 1, 2]
    assert runs["other"].rounds["seed"].unique().tolist() == [0, 1, 2]


def test_missing_data_are_named_and_end_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    work = Work("absent", "coke", {**SMALL, "data": "twitter"})
    runs = do([work], tmp_path / "sweeps", range(2), 1, QUIET)
    found = judged(
        Claim(where="t", what="w", work="absent", read=by_round("COKE", "train_mse"), cells=(Cell("k = 1", 1.0),)), runs
    )
    assert found.verdict == NO_DATA
    assert "'twitter'" in found.missing
    # The report is published, so it must not contain local paths.
    assert str(tmp_path) not in found.missing


def test_runs_that_fail_are_told(tmp_path: Path) -> None:
    runs = do([Work("bad", "coke", {**SMALL, "rho": -1.0})], tmp_path, range(2), 1, QUIET)
    assert "rho = -1" in runs["bad"].missing


def test_seeds_without_a_run_are_told(tmp_path: Path) -> None:
    """With so few sensors some ensembles are disconnected, which the study refuses."""
    few = Work("few", "projections", {"agents": 5, "examples": 12, "sweeps": 1})
    runs = do([few], tmp_path, range(2), 1, QUIET)
    assert not runs["few"].missing
    assert list(runs["few"].failed) == ["seed=1"]
    paper = Paper(name="p", title="t", works=(few,), claims=())
    assert "seeds without a run: 1 (radius = 0.2" in report.write({paper: []}, runs, 2, {})


def test_static_regret_is_read_a_round_at_the_end_over_the_first_quarter() -> None:
    """The regret is √t for ODKLA and t^0.9 for QC-ODKLA, measured every second round; infinite after divergence."""
    rows = [
        {"seed": seed, "algorithm": name, "round": t, "static_regret": (t**power if t % 2 == 0 else math.nan)}
        for seed in range(3)
        for name, power in (("ODKLA", 0.5), ("QC-ODKLA", 0.9))
        for t in range(1, 65)
    ]
    runs = Known(BASE, pd.DataFrame(rows))
    assert online._a_round(runs, "ODKLA").tolist() == [8.0 / 64] * 3
    assert online._a_round(runs, "ODKLA", 0.25).tolist() == [4.0 / 16] * 3
    assert online._over_quarter(runs).tolist() == pytest.approx([4**-0.1] * 3)
    gone = pd.DataFrame({"seed": [0], "algorithm": "ODKLA", "round": [math.nan], "static_regret": [math.inf]})
    assert online._a_round(Known(BASE, gone), "ODKLA").tolist() == [math.inf]


# --- the report -------------------------------------------------------------------------------------------------------


def small_paper(tmp_path: Path) -> tuple[Paper, dict[str, Runs], list[Judged]]:
    claims = (
        Claim(
            where="table 1",
            what="COKE: error",
            work="base",
            read=by_round("COKE", "train_mse"),
            cells=(Cell("k = 2", 0.02), Cell("k = 6", 9.0)),
        ),
        Claim(
            where="figure 1",
            what="COKE sends less",
            work="base",
            read=ratio("transmissions", "COKE", "DKLA"),
            cells=(Cell("ratio", high=1.0),),
            criterion="Below 1.",
        ),
        Claim(
            where="table 2",
            what="unheard of",
            work="absent",
            read=by_round("COKE", "train_mse"),
            cells=(Cell("k = 1", 1.0),),
        ),
    )
    paper = Paper(name="small", title="A. Author, A Title", works=(BASE,), claims=claims, left_out=("The rest.",))
    runs = do([BASE], tmp_path, range(3), 1, QUIET)
    runs["absent"] = Runs(OTHER, tmp_path / "absent", "the table 'x' is not in the folder NETSIM_DATA")
    return paper, runs, [judged(each, runs) for each in claims]


def test_the_report_tells_every_claim(tmp_path: Path) -> None:
    paper, runs, claims = small_paper(tmp_path)
    study = Study("papers", {})
    captions = figures.draw(study, {paper: claims}, runs)
    assert list(captions) == ["reproduction_ratios.png"]
    assert study.figures["reproduction_ratios"].axes[0].get_xlabel() == "ours / theirs"
    text = report.write({paper: claims}, runs, 3, captions)
    assert "3 seeds each" in text
    assert "A. Author, A Title." in text
    assert "unheard of" in text
    assert "the table 'x' is not in the folder" in text
    assert "`netsim run coke --agents 4 --features 5 --rounds 6 --algorithms DKLA,COKE`" in text
    assert "No other setting was run." in text
    assert text.index("reproduction_ratios.png") < text.index("## In short"), "the figure comes first"
    assert text.index("`netsim run coke") > text.index("## Appendix"), "the reader is not to wade through commands"
    assert re.search(r"\*\*[\d.]+ ± [\d.e-]+\*\* \(9\)", text)
    assert "ours: mean [95 % interval of the mean (Student's t, n = 3)]" in text
    assert "the interval of a further run (Student's t, n = 3 seeds)" in text
    assert set(re.findall(r"\]\((\w+\.png)\)", text)) == set(captions)
    table = pd.DataFrame(report.table({paper: claims}))
    assert table["verdict"].tolist()[-1] == NO_DATA
    assert len(table) == 4


def test_of_a_claim_in_part_some_cells_agree() -> None:
    """A claim is confirmed in part if at least one cell agrees."""
    far = {0: [3.0, 2.0], 1: [3.1, 10.0], 2: [2.9, 20.0]}
    none, some = claim(Cell("k = 1", 1.0), Cell("k = 2", 10.0)), claim(Cell("k = 1", 3.0), Cell("k = 2", 10.0))
    open_ones = claim(Cell("k = 2", 10.0), Cell("k = 2", 11.0))
    runs: dict[str, Runs] = {"base": known(far)}
    claims = [judged(each, runs) for each in (none, some, open_ones)]
    assert [[one.verdict for one in each.found] for each in claims] == [[DIFFERS, OPEN], [AGREES, OPEN], [OPEN, OPEN]]
    assert [each.verdict for each in claims] == [DIFFERS, "1 of 2 agree", OPEN]
    (row,) = report.overview({Paper(name="p", title="t", works=(BASE,), claims=(none, some, open_ones)): claims})
    assert [row[name] for name in OUTCOMES] == [0, 1, 0, 1, 1, 0, 0]
    assert row["printed numbers that agree"] == "1 of 6"


def test_what_is_void_counts_as_nothing_else() -> None:
    runs: dict[str, Runs] = {"base": known(HOLLOW, train_mse=0.5)}
    each = claim(Cell("k = 1", 3.0), Cell("k = 2", 1.0))
    paper = Paper(name="p", title="t", works=(BASE,), claims=(each,))
    found = {paper: [judged(each, runs)]}
    (row,) = report.overview(found)
    assert [row[name] for name in OUTCOMES] == [0, 0, 0, 0, 0, 1, 0]
    assert row["printed numbers that agree"] == "0 of 2"
    assert [line["verdict"] for line in report.table(found)] == [VOID, VOID]
    text = report.write(found, runs, 3, {})
    assert "| void |" in text
    assert "2 times a constant answer's" in text


def test_every_paper_can_be_judged_by_the_works_that_it_names() -> None:
    for paper in PAPERS.values():
        names = [work.name for work in paper.works]
        assert len(set(names)) == len(names)
        for each in paper.claims:
            assert {each.work, *(one.work for one in each.tries)} <= set(names)
            assert each.cells
            if each.cells[0].published is None:
                assert each.criterion
            assert len({one.label for one in each.tries}) == len(each.tries)
        for work in paper.works:
            known_names = {one.name for one in catalogue.find_study(work.study).parameters}
            assert set(work.settings) <= known_names


def test_the_study_leaves_report_claims_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the projections are run, since they need no data; the amount of work is reduced."""
    paper = PAPERS["projections"]
    few = {"agents": 6, "examples": 40, "sweeps": 8}
    works = tuple(Work(work.name, work.study, {**work.settings, **few}) for work in paper.works)
    monkeypatch.setitem(PAPERS, "projections", dataclasses.replace(paper, works=works))
    study = catalogue.find_study("papers").execute(
        only="projections", repeats=2, jobs=1, folder=str(tmp_path / "sweeps")
    )
    folder = study.save(tmp_path / "run")
    text = (folder / "reproduction.md").read_text(encoding="utf-8")
    assert "theorem 5" in text
    assert {f"{name}.png" for name in study.figures} == set(re.findall(r"\]\((\w+\.png)\)", text))
    claims = pd.read_csv(folder / "claims.csv")
    assert set(claims["paper"]) == {"projections"}
    # By theorem 2 no step increases the distance to the limit.
    assert claims.loc[claims["where"] == "theorem 2", "verdict"].tolist() == [AGREES]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"only": "cooke"}, "only"),
        ({"repeats": 1}, "repeats"),
        ({"jobs": 0}, "jobs"),
        ({"folder": ""}, "folder"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_flags_end_in_one_line(given: dict[str, object], named: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"^{named} = ") as caught:
        catalogue.find_study("papers").execute(**({"only": "projections", "folder": str(tmp_path / "s")} | given))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "s").exists()
