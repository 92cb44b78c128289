"""Tables, intervals, figures and text about many runs."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, binomtest, ttest_1samp

import netsim
from netsim import BadInput, results
from tests.netsim.studies.test_sweep import STUDY
from tests.parts import slow


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("swept")
    (folder / "mine.py").write_text(STUDY)
    netsim.studies.sweep(
        str(folder / "mine.py"), out=folder / "out", loss=[0.0, 0.2, 0.5], agents=[3, 5], seed=range(4)
    )
    return folder / "out"


def test_one_table_of_all_points(swept: Path) -> None:
    frame = results.load(swept)
    assert len(frame) == 24
    assert list(frame.columns[:5]) == ["point", "loss", "agents", "seed", "algorithm"]
    assert (frame["round"] == 5).all()
    assert (frame.loc[frame["loss"] == 0.0, "heard"] == 5 * 2 * frame.loc[frame["loss"] == 0.0, "agents"]).all()
    every = results.load(swept, rounds=True)
    assert len(every) == 24 * 5
    assert list(every["round"][:5]) == [1, 2, 3, 4, 5]


def test_a_run_folder_is_a_table_too(swept: Path) -> None:
    place = swept / "points" / "loss=0.2,agents=3,seed=1"
    frame = results.load(place)
    whole = results.load(swept)
    row = whole[whole["point"] == place.name].iloc[0]
    assert frame["heard"].iloc[0] == row["heard"]
    assert len(results.load(place, rounds=True)) == 5
    both = results.compare(place, swept)
    assert len(both) == 25
    assert set(both["folder"]) == {str(place), str(swept)}


@pytest.mark.parametrize("what", ["nothing", "text", "empty"])
def test_what_is_neither_is_refused(what: str, tmp_path: Path) -> None:
    if what != "nothing":
        (tmp_path / "sweep.json").write_text("[" if what == "text" else "{}")
    with pytest.raises(BadInput) as caught:
        results.load(tmp_path)
    assert "\n" not in str(caught.value)


# --- intervals --------------------------------------------------------------------------------------------------------


REPEATED = 2000


def covered(drawn: np.ndarray, truth: float, of: str = "mean") -> float:
    """Return the share of rows whose interval contains the true value."""
    frame = pd.DataFrame({"row": np.repeat(np.arange(len(drawn)), drawn.shape[1]), "v": drawn.ravel()})
    found = results.interval(frame, "v", ["row"], of=of)
    return float(((found["low"] <= truth) & (truth <= found["high"])).mean())


@pytest.mark.parametrize("count", [slow(2), 6, slow(10)])
def test_an_interval_of_95_percent_holds_the_mean_in_95_percent(count: int) -> None:
    """The tolerance is four standard errors for 2,000 rows; a bootstrap of ten normal values is off by 4 %."""
    drawn = np.random.default_rng(count).normal(3.0, 2.0, (REPEATED, count))
    assert covered(drawn, 3.0) == pytest.approx(0.95, abs=0.0195)


@pytest.mark.parametrize("count", [3, slow(6), 10, slow(20), slow(40)])
def test_of_skewed_values_it_holds_the_mean_oftener_than_a_bootstrap(count: int) -> None:
    """As the docs state, the coverage for skewed values is still below 95 %."""
    rng = np.random.default_rng(count)
    drawn = rng.exponential(size=(1000, count))
    means = np.array([row[rng.integers(0, count, (500, count))].mean(axis=1) for row in drawn])
    low, high = np.quantile(means, [0.025, 0.975], axis=1)
    assert np.mean((low <= 1.0) & (high >= 1.0)) < covered(drawn, 1.0) < 0.95


@pytest.mark.parametrize("count", [6, slow(13)])
def test_an_interval_of_a_median_holds_it_whatever_the_distribution(count: int) -> None:
    drawn = np.random.default_rng(count).lognormal(size=(REPEATED, count))
    # The interval's ends are order statistics: the smallest and largest of six values cover the median with 1 - 2/64.
    outside = [2 * binom.cdf(k, count, 0.5) for k in range(count)]
    expected = 1.0 - max(each for each in outside if each <= 0.05)
    assert covered(drawn, 1.0, "median") == pytest.approx(
        expected, abs=4 * math.sqrt(expected * (1.0 - expected) / REPEATED)
    )


def test_the_interval_is_scipys() -> None:
    values = np.random.default_rng(0).exponential(size=12)
    frame = pd.DataFrame({"algorithm": "A", "error": values})
    found = results.interval(frame, "error", ["algorithm"], share=0.9).iloc[0]
    assert found["count"] == 12
    assert found["mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert found["median"] == pytest.approx(np.median(values), rel=1e-12)
    theirs = ttest_1samp(values, 0.0).confidence_interval(0.9)
    assert (found["low"], found["high"]) == pytest.approx((theirs.low, theirs.high), rel=1e-12)
    # The ends are the third values from either end, as in textbook tables for 12 values.
    middle = results.interval(frame, "error", ["algorithm"], of="median").iloc[0]
    assert (middle["low"], middle["high"]) == (np.sort(values)[2], np.sort(values)[9])


@pytest.mark.parametrize(("of", "most"), [("mean", 1), ("median", 5)])
def test_too_few_values_have_no_interval(of: str, most: int) -> None:
    values = np.arange(10.0)
    assert np.isnan(results.confidence(values[:most], of=of)).all()
    low, high = results.confidence(values[: most + 1], of=of)
    assert low < np.mean(values[: most + 1]) < high


@pytest.mark.parametrize(
    ("counts", "of", "shown"),
    [
        ([12, 12], "mean", "95 % interval of the mean (Student's t, n = 12)"),
        ([12, 3, 5], "mean", "95 % interval of the mean (Student's t, n = 3 to 12)"),
        ([1, 3], "mean", "95 % interval of the mean (Student's t, n = 1 to 3; none where n < 2)"),
        ([1], "mean", "no 95 % interval of the mean, which takes 2 (n = 1)"),
        ([8], "median", "95 % interval of the median (order statistics, n = 8)"),
        ([4], "median", "no 95 % interval of the median, which takes 6 (n = 4)"),
    ],
)
def test_the_text_names_the_interval_and_how_many_values(counts: list[int], of: str, shown: str) -> None:
    assert results.interval_text(counts, of=of) == shown


def test_groups_and_what_is_empty() -> None:
    frame = pd.DataFrame({"a": [1, 1, 2, 2], "b": ["x", "x", "y", "z"], "v": [1.0, 3.0, np.nan, 5.0]})
    found = results.interval(frame, "v", ["a", "b"])
    assert found[["a", "b", "count", "mean"]].values.tolist() == [[1, "x", 2, 2.0], [2, "z", 1, 5.0]]
    assert found[["low", "high"]].iloc[1].isna().all(), "of one there is none"
    with pytest.raises(BadInput, match="column = 'c': must be one of"):
        results.interval(frame, "v", ["c"])
    with pytest.raises(BadInput, match=r"share = 1\.0"):
        results.interval(frame, "v", ["a"], share=1.0)


def test_the_mean_of_truth_values_is_a_share_with_an_exact_interval() -> None:
    outcomes = ["diverged", *["unfinished"] * 11]
    for hits in (0, 4, 12):
        frame = pd.DataFrame({"algorithm": "a", "seed": range(12), "outcome": outcomes, "right": np.arange(12) < hits})
        table = results.interval(frame, "right", ["algorithm"])
        exact = binomtest(hits, 12).proportion_ci(method="exact")
        assert table.loc[0, ["mean", "low", "high"]].tolist() == pytest.approx([hits / 12, exact.low, exact.high])
        assert table.attrs["interval"] == "95 % interval of the share (Clopper and Pearson, n = 12)"
        # A dead run counts with its value, not as infinity. A single value has an interval, too.
        assert (table.loc[0, "count"], table.loc[0, "survived"]) == (12, 11)
        assert results.confidence([True]) == pytest.approx((0.025, 1.0))
        with pytest.raises(BadInput, match=r"share = 1\.3"):
            results.confidence([True], share=1.3)


@pytest.mark.parametrize(
    ("rounds", "by", "named"),
    [
        (False, ["loss", "algorithm"], "agents"),
        (False, ["agents", "algorithm"], "loss"),
        (False, ["algorithm"], "loss"),
        (True, ["loss", "agents", "algorithm"], "round"),
    ],
)
def test_only_seeds_are_put_together(rounds: bool, by: list[str], named: str, swept: Path) -> None:
    frame = results.load(swept, rounds=rounds)
    with pytest.raises(
        BadInput, match=rf"^by = .*: must have {named}, too.*: only seeds may be put together$"
    ) as caught:
        results.interval(frame, "heard", by)
    assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match=f"must have {named}, too"):
        results.bands(frame, by[0], "heard", by=by[1:] or by)
    found = results.interval(frame, "heard", [*by, *{"loss", "agents", "algorithm", named} - {*by}])
    assert set(found["count"]) == {4}, "as many as there are seeds"


def test_a_column_of_text_has_no_interval(swept: Path) -> None:
    frame = results.load(swept)
    with pytest.raises(BadInput, match=r"^column = 'outcome': must be a column of numbers$"):
        results.interval(frame, "outcome", ["algorithm"])
    with pytest.raises(BadInput, match=r"^column = 'outcome': must be a column of numbers$"):
        results.paired(frame, "outcome", 0.0, within="loss")


def test_a_seed_is_not_counted_twice(swept: Path) -> None:
    frame = results.load(swept)
    with pytest.raises(BadInput, match=r"^seed = 0: must be there once for loss = 0\.0, agents = 3; ") as caught:
        results.interval(pd.concat([frame, frame]), "heard", ["loss", "agents"])
    assert "\n" not in str(caught.value)
    both = results.compare(swept, swept.parent / "out", swept / "points" / "loss=0.0,agents=3,seed=0")
    with pytest.raises(BadInput, match="must have folder, too"):
        results.interval(both, "heard", ["loss", "agents", "algorithm"])


def test_a_setting_that_a_study_measures_too_is_kept(tmp_path: Path) -> None:
    measured = "return sum(agent.heard for agent in agents.values())"
    assert measured in STUDY
    (tmp_path / "mine.py").write_text(STUDY.replace(measured, 'return {"loss": 0.0, "heard": 1}'))
    done = netsim.studies.sweep(str(tmp_path / "mine.py"), out=tmp_path / "out", loss=[0.0, 0.5], seed=[1, 2])
    assert list(done.table["given_loss"]) == [0.0, 0.0, 0.5, 0.5]
    assert list(done.table["loss"]) == [0.0] * 4
    for frame in (results.load(tmp_path / "out"), results.compare(tmp_path / "out")):
        assert list(frame["given_loss"]) == [0.0, 0.0, 0.5, 0.5]
        with pytest.raises(BadInput, match="must have given_loss, too"):
            results.interval(frame, "heard", ["algorithm"])


# --- figures and text -------------------------------------------------------------------------------------------------


def test_bands_and_maps_are_drawn_from_the_means(swept: Path, tmp_path: Path) -> None:
    frame = results.load(swept)
    figure = results.bands(frame, "loss", "heard", by="agents", log=False, title="Heard")
    panel = figure.axes[0]
    assert [line.get_label() for line in panel.lines] == ["agents 3", "agents 5"]
    mean = frame[(frame["agents"] == 3) & (frame["loss"] == 0.5)]["heard"].mean()
    assert panel.lines[0].get_ydata()[2] == pytest.approx(mean)
    assert panel.get_ylabel() == "heard"
    assert panel.get_title() == "mean; band: 95 % interval of the mean (Student's t, n = 4)"
    figure.savefig(tmp_path / "bands.pdf")
    figure.savefig(tmp_path / "bands.svg")
    cells = results.heat_map(frame, "loss", "agents", "heard").axes[0].texts
    assert len(cells) == 6
    assert cells[0].get_text() == "30"


def test_two_measures_against_one_another_have_intervals_both_ways() -> None:
    days, share = [5.0, 6.0, 8.0, 9.0], [90.0, 91.0, 93.0, 94.0]
    frame = pd.DataFrame({"algorithm": ["a"] * 4 + ["b"] * 4, "seed": [*range(4)] * 2, "lifetime_days": days * 2})
    frame = frame.assign(**{"delivered_%": share + [np.inf] * 4})
    (panel,) = results.tradeoff(frame, "lifetime_days", "delivered_%").axes
    (drawn,) = panel.containers
    point, _, (across, up) = drawn.lines
    assert point.get_xydata().tolist() == [[7.0, 92.0]], "a point whose mean is infinite has no place"
    for bar, values, column in ((across, days, 0), (up, share, 1)):
        assert sorted(bar.get_segments()[0][:, column]) == pytest.approx(results.confidence(values))
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("lifetime (days)", "delivered (%)")
    figure = results.tradeoff(frame.assign(right=True), "lifetime_days", "right")
    (title,) = [each.get_text() for each in figure.texts if "bars" in each.get_text()]
    assert all(kind in title for kind in ("Student's t", "Clopper and Pearson")), title


@pytest.mark.parametrize(("losses", "methods"), [(1, 4), (4, 1), (4, 3), (12, 3)])
def test_no_two_lines_look_alike(losses: int, methods: int) -> None:
    rows = [
        {"loss": loss, "rate": rate, "algorithm": f"A{number}", "v": 1.0 + loss}
        for loss in range(losses)
        for number in range(methods)
        for rate in (1, 2)
    ]
    panel = results.bands(pd.DataFrame(rows), "rate", "v", by=["loss", "algorithm"]).axes[0]
    assert (
        len({(line.get_color(), line.get_marker(), line.get_linestyle()) for line in panel.lines}) == losses * methods
    )
    assert len({line.get_label() for line in panel.lines}) == losses * methods


def test_text_for_papers() -> None:
    frame = pd.DataFrame({"name": ["a_b|c", None], "error": [1.23456e-7, np.nan], "count": [3, 40_000]})
    assert (
        results.markdown(frame)
        == "| name | error | count |\n|---|---|---|\n| a_b\\|c | 1.235e-07 | 3 |\n|  |  | 40000 |\n"
    )
    text = results.latex(frame)
    assert r"a\_b|c & $1.235 \cdot 10^{-7}$ & 3 \\" in text
    assert text.startswith("\\begin{tabular}{lrr}\n\\toprule\n")
    assert results.latex(pd.DataFrame({"100 %": ["{x}~^\\"]})).splitlines()[2] == r"100 \% \\"


def test_a_statistic_is_of_the_values_that_there_are() -> None:
    nan, inf = math.nan, math.inf
    assert results.statistic([1.0, nan, 4.0]) == 2.5
    assert results.statistic([nan, 3.0, 1.0, 2.0], of="median") == 2.0
    assert results.statistic([1e308, 1.5e308], of="median") == pytest.approx(1.25e308)
    assert results.statistic([inf, 1.0]) == inf
    assert math.isnan(results.statistic([nan]))
    with pytest.raises(BadInput, match=r"^of = 'mode'"):
        results.statistic([1.0], of="mode")


@pytest.mark.parametrize(
    ("x", "y", "drawn"),
    [
        ("round", "transmissions", "steps-post"),
        ("round", "v", "default"),
        ("rate", "transmissions", "default"),
    ],
)
def test_counts_over_rounds_are_stairs(x: str, y: str, drawn: str) -> None:
    rows = [{"algorithm": "A", "seed": seed, x: at, y: 10.0 * at + seed} for at in (1, 2, 3) for seed in range(3)]
    panel = results.bands(pd.DataFrame(rows), x, y).axes[0]
    assert [line.get_drawstyle() for line in panel.get_lines()] == [drawn]
