"""Summaries and comparisons count every run, and keep their stated error rates even if runs die."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, lognorm

from netsim import BadInput
from netsim.studies.experiment.cells import Measured
from netsim.studies.experiment.results import Results
from netsim.studies.intervals import confidence, proportion

DIED = ("diverged", "failed")


def results(rows: dict[str, list[Any]], metric: str = "gap", **columns: Any) -> Results:
    """Return results of methods; each list has, for each seed, a value or the outcome of a run that died."""
    cells = []
    for method, values in rows.items():
        for seed, value in enumerate(values):
            dead = isinstance(value, str)
            outcome = value if dead else "unfinished"
            row = {"outcome": outcome, "outcome_round": math.nan, "why": "", "judged_by": metric, "optimum": math.nan}
            row |= {} if outcome == "failed" else {metric: math.nan if dead else value}
            cell = _Cell({**columns, "method": method, "seed": seed})
            cells.append((cell, Measured(pd.DataFrame(), row, {}, {})))
    return Results(cells)  # type: ignore[arg-type]


class _Cell:
    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = columns


def row(table: pd.DataFrame, method: str) -> dict[str, Any]:
    (found,) = table[table["method"] == method].to_dict("records")
    return dict(found)


# --- by hand ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alive", "count", "low", "high"),
    [
        # Clopper–Pearson intervals from quantiles of beta distributions; for 0 and n of n, the formula is 1 -
        # 0.025^(1/n).
        (0, 5, 0.0, 1 - 0.025 ** (1 / 5)),
        (5, 5, 0.025 ** (1 / 5), 1.0),
        (1, 2, 1 - 0.975**0.5, 0.975**0.5),
        (5, 6, 0.3588, 0.9958),
        (8, 10, 0.4439, 0.9748),
        (0, 1, 0.0, 0.975),
    ],
)
def test_the_interval_of_survival_is_clopper_and_pearsons(alive: int, count: int, low: float, high: float) -> None:
    assert proportion(alive, count) == pytest.approx((low, high), abs=5e-5)


def test_a_summary_by_hand() -> None:
    table = results(
        {
            "whole": [3.0, 1.0, 2.0, 5.0, 4.0, 6.0],
            "dying": [1.0, "diverged", 0.5, 0.1, 0.2, "failed"],
            "half": ["diverged", "diverged", "failed", 0.1, 0.1, 0.1],
            "dead": ["diverged"] * 3 + ["failed"] * 3,
        }
    ).summary()
    whole, dying, half, dead = (row(table, name) for name in ("whole", "dying", "half", "dead"))
    assert [each["survived"] for each in (whole, dying, half, dead)] == ["6/6", "4/6", "3/6", "0/6"]
    assert (whole["median_gap"], whole["median_low"], whole["median_high"]) == (3.5, 1.0, 6.0)
    assert (whole["worst_gap"], whole["mean_gap"]) == (6.0, 3.5)
    # Dead runs count as infinite: 0.1, 0.2, 0.5, 1, inf, inf.
    assert (dying["median_gap"], dying["median_low"], dying["median_high"]) == (0.75, 0.1, math.inf)
    assert dying["worst_gap"] == math.inf
    assert math.isnan(dying["mean_gap"])
    assert half["median_gap"] == math.inf
    assert (dead["median_gap"], dead["median_low"]) == (math.inf, math.inf)
    assert (dead["survival_low"], dead["survival_high"]) == pytest.approx((0.0, 0.4593), abs=5e-5)
    # Only methods with the most surviving runs can be best, whatever the medians of the others.
    assert whole["verdict"] == "best"
    # A method with fewer surviving runs never ties with one that has more, even if the sign test finds no difference.
    assert [each["verdict"] for each in (dying, half, dead)] == [""] * 3


def test_fewer_than_six_runs_have_no_interval_of_the_median() -> None:
    table = results({"a": [1.0, 2.0, 3.0, 4.0, 5.0]}).summary()
    assert table["median_gap"].tolist() == [3.0]
    assert table[["median_low", "median_high"]].isna().to_numpy().all()


def test_what_the_sign_test_cannot_tell_from_the_best_is_tied() -> None:
    n = 10
    best = [1.0] * n
    rows = {"best": best, "worse": [2.0] * n, "near": [2.0] * 8 + [0.5] * 2}
    table = results(rows).summary()
    # "worse" is better in 0 of 10 seeds, so p = 2/1024, and 0.004 after Holm's correction; "near" is in 2, so p =
    # 0.109.
    assert [row(table, name)["verdict"] for name in rows] == ["best", "", "tied"]
    few = results({"a": [1.0] * 4, "b": [2.0] * 4}).summary()
    assert few["verdict"].tolist() == ["best", "tied"]
    assert few.attrs["note"] == (
        "With 4 seeds and 2 methods the sign test can tell none from the best: its least p after Holm is 0.125."
    )
    assert results({"a": [1.0] * 6, "b": [2.0] * 6}).summary().attrs["note"] == ""
    assert results({"a": [1.0] * 6, "b": [2.0] * 6, "c": [2.0] * 6}).summary().attrs["note"] != ""


def test_where_all_die_none_is_the_best() -> None:
    table = results({"a": ["diverged"] * 3, "b": ["failed"] * 3}).summary()
    assert table["verdict"].tolist() == ["", ""]


def test_a_comparison_by_hand() -> None:
    rows = {
        "ref": [1.0, 1.0, 1.0, 1.0, "diverged", "failed", 1.0, 1.0],
        "a": [0.5, 0.5, 2.0, 1.0, 0.5, "diverged", "failed", 0.5],
        "b": [0.5] * 8,
    }
    table = results(rows).versus("ref")
    a, b = row(table, "a"), row(table, "b")
    # Method a is better in seeds 0, 1, 4, 7, worse in 2 and 6, equal in 3, and in 5, where both runs died.
    assert (a["better"], a["worse"], a["equal"]) == (4, 2, 2)
    assert a["p"] == pytest.approx(2 * binom.cdf(2, 6, 0.5))
    assert (b["better"], b["worse"], b["equal"]) == (8, 0, 0)
    assert b["p"] == pytest.approx(2 / 2**8)
    assert (a["p_holm"], b["p_holm"]) == pytest.approx((a["p"], 2 * b["p"]))


def test_a_comparison_of_equals_has_p_one() -> None:
    table = results({"ref": [1.0, "failed"], "a": [1.0, "diverged"]}).versus("ref")
    assert table[["better", "worse", "equal", "p", "p_holm"]].to_numpy().tolist() == [[0, 0, 2, 1.0, 1.0]]


def test_an_accuracy_is_better_where_it_is_higher() -> None:
    rows = {"ref": [0.5] * 6, "a": [0.9] * 6, "dying": [0.9] * 5 + ["diverged"]}
    found = results(rows, "accuracy")
    assert row(found.versus("ref"), "a")["better"] == 6
    assert row(found.versus("ref"), "dying")["worse"] == 1
    table = found.summary()
    assert row(table, "a")["verdict"] == "best"
    assert row(table, "dying")["worst_accuracy"] < 0.5


def test_unknown_names_are_refused() -> None:
    found = results({"a": [1.0], "b": [2.0]})
    with pytest.raises(BadInput, match=r"reference = 'c': must be .*a"):
        found.versus("c")
    with pytest.raises(BadInput, match="metric"):
        found.summary("none")
    with pytest.raises(BadInput, match="by"):
        found.summary(by=["none"])


def test_conditions_are_not_mixed() -> None:
    cells = results({"ref": [1.0] * 6, "a": [0.5] * 6}, loss=0.0).cells
    cells += results({"ref": [1.0] * 6, "a": [2.0] * 6}, loss=0.1).cells
    found = Results(cells)
    assert found.by == ["loss", "method"]
    summary = found.summary()
    assert summary.loc[summary["verdict"] == "best", "method"].tolist() == ["a", "ref"]
    table = found.versus("ref")
    assert table["better"].tolist() == [6, 0]
    assert table["worse"].tolist() == [0, 6]


# --- as often as they say ---------------------------------------------------------------------------------------------


def test_the_interval_of_a_median_covers_it_as_often_as_it_says_and_is_the_narrowest() -> None:
    for count in range(6, 60):
        low, high = confidence(np.arange(1.0, count + 1.0), of="median")
        # The number of values below the median is binomial; each end of the interval may equal the median.
        below = binom(count, 0.5)
        assert below.cdf(high - 1) - below.cdf(low - 1) >= 0.95, count
        assert below.cdf(high - 2) - below.cdf(low) < 0.95, count


@pytest.mark.parametrize("count", [1, 5, 6, 10, 30])
def test_the_interval_of_survival_covers_it_as_often_as_it_says(count: int) -> None:
    low, high = np.transpose([proportion(alive, count) for alive in range(count + 1)])
    for share in np.linspace(0.01, 0.99, 99):
        alive = binom(count, share).pmf(np.arange(count + 1))
        assert alive[(low <= share) & (share <= high)].sum() >= 0.95, share


@pytest.mark.parametrize("count", [6, 10])
def test_a_comparison_errs_as_seldom_as_it_says(count: int) -> None:
    """If two methods do not differ, at most a share x of studies has p ≤ x; Holm's correction can only raise p."""
    splits = [(better, worse) for better in range(count + 1) for worse in range(count + 1 - better)]
    rows = {f"{a}-{b}": [0.5] * a + [2.0] * b + [1.0] * (count - a - b) for a, b in splits}
    table = results({"ref": [1.0] * count} | rows).versus("ref").set_index("method")
    for differ in range(count + 1):
        p = table.loc[[f"{better}-{differ - better}" for better in range(differ + 1)], "p"].to_numpy()
        chance = binom(differ, 0.5).pmf(np.arange(differ + 1))
        for least in p:
            assert chance[p <= least + 1e-12].sum() <= least + 1e-12


# --- by simulation ----------------------------------------------------------------------------------------------------


def drawn(rng: np.random.Generator, shape: tuple[int, int], dying: float) -> Any:
    """Return lognormal, i.e. skewed, errors of runs, with a share of dead runs at infinity."""
    values = rng.lognormal(size=shape)
    return np.where(rng.random(shape) < dying, math.inf, values)


def as_rows(values: Any) -> list[Any]:
    return [each if math.isfinite(each) else "diverged" for each in values.tolist()]


@pytest.mark.slow
def test_the_summary_covers_what_its_parts_do() -> None:
    """The intervals in `Results.summary` must cover the true values although some runs diverge."""
    # With 35 % of dead runs at infinity, this is the median of all runs.
    true = float(lognorm.ppf(0.5 / (1 - 0.35), 1.0))
    rng, n = np.random.default_rng(5), 400
    found = results({str(number): as_rows(each) for number, each in enumerate(drawn(rng, (n, 12), 0.35))}).summary()
    held = (found["median_low"].le(true) & found["median_high"].ge(true)).sum()
    shares = (found["survival_low"].le(0.65) & found["survival_high"].ge(0.65)).sum()
    error = 3 * math.sqrt(0.93 * 0.07 / n)
    assert min(held, shares) / n >= 0.93 - error


@pytest.mark.slow
def test_a_real_difference_is_found() -> None:
    """The tests above would also accept a comparison that never finds a difference."""
    rng, found = np.random.default_rng(6), 0
    for _ in range(100):
        one, two = drawn(rng, (1, 12), 0.1)[0], 20 * drawn(rng, (1, 12), 0.1)[0]
        found += bool((results({"a": as_rows(one), "b": as_rows(two)}).versus("a")["p_holm"] < 0.05).any())
    assert found > 80
