"""The outcomes of runs; runs that died stay in every summary: tables, intervals, pairs and figures."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import BadInput, results
from netsim.studies import columns, compare
from netsim.studies.outcome import CONVERGED, DIVERGED, ENDED, STALLED, UNFINISHED, Ending, Outcome, worst_of_dead
from tests.parts import every

pytestmark = pytest.mark.usefixtures("all_undrawn")

NAN, INF = math.nan, math.inf


@every(
    ("errors", "state", "at"),
    [
        ([1.0, 0.5, 20.0, 30.0], DIVERGED, 3),
        ([1.0, 20.0, 0.5, 0.4], UNFINISHED, None),
        ([1.0, 2.0, INF, NAN, NAN], DIVERGED, 3),
        ([NAN, NAN, NAN], DIVERGED, 1),
        ([1.0, NAN, NAN, 0.5, NAN, NAN, 0.4, NAN], STALLED, None),
        ([1.0, NAN, 40.0, NAN, 0.5, NAN], UNFINISHED, None),
        ([0.0, 1e-9, 5.0], UNFINISHED, None),
        ([0.0, 1.0, INF], DIVERGED, 3),
        ([1.0, 0.5, 0.5, 0.4999], STALLED, None),
        ([], ENDED, None),
    ],
)
def test_a_run_diverged_if_its_last_error_is_no_number_or_ten_times_its_first(
    errors: list[float], state: str, at: int | None
) -> None:
    found = Ending().judge(errors)
    if state in (UNFINISHED, STALLED):
        assert found.state in (UNFINISHED, STALLED)
    else:
        assert (found.state, found.round) == (state, at)


def test_it_converged_where_it_stays_within_a_share_of_the_gap_to_the_optimum_or_at_a_target() -> None:
    errors = [2.0, 1.005, 1.5, 1.009, 1.001]
    assert Ending().judge(errors, optimum=1.0) == Outcome(CONVERGED, 4)
    assert Ending(target=1.6).judge(errors, [10, 20, 30, 40, 50]) == Outcome(CONVERGED, 20)
    assert Ending(factor=1.2).judge([1.0, 1.3]).state == DIVERGED
    with pytest.raises(BadInput, match=r"^factor = 1\.0"):
        Ending(factor=1.0)


def frame(**more: object) -> pd.DataFrame:
    """Return six runs of each of two methods; two runs of method A survive."""
    rows = [
        {"seed": seed, "algorithm": name, "train_mse": NAN if name == "A" and seed > 1 else 1.0 + seed / 8}
        | {"wire_bits": 100.0 + seed, "outcome": DIVERGED if name == "A" and seed > 1 else UNFINISHED}
        for name in "AB"
        for seed in range(6)
    ]
    return pd.DataFrame(rows).assign(**more)


def test_the_dead_count_with_the_worst_value_and_what_they_spent_counts_as_spent() -> None:
    table = results.interval(frame(), "train_mse", ["algorithm"]).set_index("algorithm")
    assert table.loc["A", ["count", "survived", "mean", "median"]].tolist() == [6, 2, INF, INF]
    assert table.loc["A", ["low", "high"]].isna().all()
    assert table.loc["B", ["count", "survived"]].tolist() == [6, 6]
    bits = results.interval(frame(), "wire_bits", ["algorithm"])
    assert bits["mean"].tolist() == [102.5, 102.5]
    counted, survived = worst_of_dead(frame(), "wire_bits")
    assert (len(counted), survived.sum()) == (12, 8)
    accuracy = frame().rename(columns={"train_mse": "test_accuracy"})
    assert results.interval(accuracy, "test_accuracy", ["algorithm"])["median"].iloc[0] == -INF


def test_a_median_stays_finite_while_more_than_half_survive() -> None:
    given = frame()
    given.loc[(given["algorithm"] == "A") & (given["seed"] < 4), ["train_mse", "outcome"]] = [1.0, UNFINISHED]
    table = results.interval(given, "train_mse", ["algorithm"], of="median")
    assert table.loc[0, ["survived", "mean", "median", "low", "high"]].tolist() == [4, INF, 1.0, 1.0, INF]


def test_what_a_survivor_did_not_measure_is_left_out() -> None:
    given = frame(outcome=UNFINISHED)
    assert results.interval(given, "train_mse", ["algorithm"])[["count", "survived"]].values.tolist() == [
        [2, 2],
        [6, 6],
    ]


def test_tables_show_how_many_survived_and_what_is_partial_is_never_bold() -> None:
    given = frame()
    given.loc[given["algorithm"] == "A", "train_mse"] /= 100
    table = results.interval(given, "train_mse", ["algorithm"], of="median")
    text = results.latex(table.assign(low=0.0, high=9.0, median=[0.1, 0.9]), cells="median", best="least")
    (a, b) = (line for line in text.splitlines() if line.startswith(("A &", "B &")))
    assert "(2/6)" in a
    assert "mathbf" not in a
    assert "mathbf" in b
    shown = results.markdown(table)
    assert "| A | 6 | inf (2/6) | inf (2/6) | 0.01 | inf |" in shown
    assert "survived" not in shown
    assert "inf (2/6)" in results.latex(table)


def test_signed_ranks_take_a_dead_run_for_the_worst_and_two_dead_runs_for_a_tie() -> None:
    ranks = results.paired(frame(), "train_mse", "B", test="wilcoxon").iloc[0]
    assert ranks[["count", "missing", "survived"]].tolist() == [6, 0, 2]
    assert ranks["difference"] == INF
    both = frame(outcome=[UNFINISHED, UNFINISHED, *[DIVERGED] * 4] * 2)
    tied = results.paired(both, "train_mse", "B", test="wilcoxon").iloc[0]
    assert tied[["difference", "p"]].tolist() == [0.0, 1.0]
    mean = results.paired(frame(), "train_mse", "B")
    assert math.isnan(mean["p"].iloc[0])
    assert mean["difference"].iloc[0] == INF
    assert "--test wilcoxon ranks it worst" in mean.attrs["interval"]
    one = frame(outcome=UNFINISHED, train_mse=[INF, 1.0, 2.0, 3.0, 4.0, 5.0, INF, 0.5, 1.0, 2.0, 3.0, 4.5])
    found = results.paired(one, "train_mse", "B").iloc[0]
    assert math.isnan(found["difference"]), "not the mean of the other five"


def test_it_is_said_when_no_difference_can_be_significant() -> None:
    rng = np.random.default_rng(1)
    rows = [
        {"loss": loss, "seed": seed, "algorithm": name, "train_mse": rng.random() + 1.0}
        for loss in (0.0, 0.1)
        for name in "ABC"
        for seed in range(6)
    ]
    text = results.paired(pd.DataFrame(rows), "train_mse", "A", test="wilcoxon").attrs["interval"]
    assert "with n = 6 no p_holm can be under 0.05: the least is 0.125" in text
    assert "can be under" not in results.paired(pd.DataFrame(rows), "train_mse", "A").attrs["interval"]


def test_a_ratio_is_the_geometric_mean_with_the_interval_of_the_logarithms() -> None:
    rng = np.random.default_rng(2)
    ours, theirs = rng.lognormal(0.0, 1.0, 8), rng.lognormal(1.0, 1.0, 8)
    rows = [
        {"seed": seed, "algorithm": name, "train_mse": value}
        for name, values in (("A", ours), ("B", theirs))
        for seed, value in enumerate(values)
    ]
    found = results.paired(pd.DataFrame(rows), "train_mse", "B", test="ratio").iloc[0]
    logs = np.log(ours / theirs)
    assert found["ratio"] == pytest.approx(np.exp(logs.mean()))
    assert [found["low"], found["high"]] == pytest.approx(np.exp(results.confidence(logs)))
    with pytest.raises(BadInput, match=r"^test = 'ratio': must be t or wilcoxon where a value is not above 0"):
        results.paired(pd.DataFrame(rows).assign(train_mse=0.0), "train_mse", "B", test="ratio")


def test_differences_that_are_all_the_same_have_the_p_of_their_signs_and_no_interval() -> None:
    given = frame(outcome=UNFINISHED)
    given["train_mse"] = [1.25 + seed for seed in range(6)] + [1.0 + seed for seed in range(6)]
    found = results.paired(given, "train_mse", "B").iloc[0]
    assert (found["difference"], found["p"]) == (0.25, 2.0**-5)
    assert math.isnan(found["low"])


def test_comparisons_of_the_same_runs_are_corrected_for_once() -> None:
    given = pd.concat([frame(outcome=UNFINISHED).assign(eta=eta) for eta in (0.1, 0.2, 0.3)])
    given["train_mse"] = np.tile(np.random.default_rng(3).random(12), 3)
    given = given[["eta", "seed", "algorithm", "train_mse", "outcome"]]
    found = results.paired(given, "train_mse", "B")
    assert found["p_holm"].tolist() == found["p"].tolist()
    assert "corrected for 1 comparison (Holm)" in found.attrs["interval"]


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        ("delivered_%", 0.0, 100.0),
        ("latency_p90_s", 0.0, INF),
        ("train_mse", 0.0, INF),
        ("test_accuracy", 0.0, 1.0),
        ("lost", 0.0, INF),
        ("link_messages", 0.0, INF),
        ("spread", 0.0, INF),
        ("above_loss_free_%", -INF, INF),
        ("static_regret", -INF, INF),
    ],
)
def test_intervals_of_bounded_quantities_stay_inside(column: str, low: float, high: float) -> None:
    assert columns.bounds(column) == columns.Bounds(low, high)
    given = pd.DataFrame({"seed": range(3), "algorithm": "A", column: [0.01, 0.99, 99.0 if high == 100.0 else 0.9]})
    found = results.interval(given, column, ["algorithm"]).iloc[0]
    assert low <= found["low"] <= found["high"] <= high


# --- in run folders and sweeps ----------------------------------------------------------------------------------------

SMALL = {"agents": 5, "features": 10, "rounds": 60, "algorithms": "CTA,DKLA"}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outcome") / "sweep"
    netsim.studies.sweep("coke", out=folder, eta=[0.5, 1.2], seed=range(4), **SMALL)
    return folder


def test_each_run_has_an_outcome_in_its_summary_and_in_tables(swept: Path) -> None:
    last = json.loads((swept / "points" / "eta=1.2,seed=0" / "summary.json").read_text())["algorithms"]
    assert last["CTA"]["outcome"] == DIVERGED
    assert last["CTA"]["outcome_round"] == 3
    assert last["DKLA"]["outcome"] in (CONVERGED, UNFINISHED, STALLED)
    loaded = results.load(swept).set_index(["eta", "seed", "algorithm"])["outcome"]
    assert loaded[1.2, 0, "CTA"] == DIVERGED
    rounds = results.load(swept / "points" / "eta=1.2,seed=0", rounds=True)
    states = rounds[rounds["algorithm"] == "CTA"].set_index("round")["outcome"]
    assert (states[1], states[2], set(states.loc[3:])) == (UNFINISHED, UNFINISHED, {DIVERGED})
    shown = compare.titled(compare.table([str(swept)], ["train_mse"]), ["train_mse"], "mean", False)[1]
    cells = {(row["eta"], row["algorithm"]): row["mean"] for row in shown.to_dict("records")}
    survived = 4 - (loaded.xs("CTA", level="algorithm")[1.2] == DIVERGED).sum()
    assert cells[1.2, "CTA"] == f"inf ({survived}/4)"
    assert cells[0.5, "CTA"] < 1.0


def test_the_dead_neither_set_the_axis_nor_leave_the_figure(swept: Path) -> None:
    rounds = results.load(swept, rounds=True)
    panel = results.bands(rounds, "round", "train_mse", by=["eta", "algorithm"]).axes[0]
    assert panel.get_ylim()[1] < 10
    assert [line.get_label() for line in panel.lines if "/4)" in str(line.get_label())]
    assert panel.get_ylabel() == "training MSE"


@pytest.mark.parametrize("x", ["loss", "round"])
def test_a_median_that_is_finite_is_in_the_figure_with_its_open_band(x: str) -> None:
    rows = [
        {"algorithm": name, x: at, "seed": seed, "train_mse": 0.01 * (seed + 1), "outcome": UNFINISHED}
        for name in ("A", "B")
        for at in (1, 2)
        for seed in range(6)
    ]
    given = pd.DataFrame(rows)
    given.loc[given["algorithm"] == "A", "train_mse"] *= 100.0
    given.loc[(given["algorithm"] == "A") & (given["seed"] == 5), ["train_mse", "outcome"]] = [1e17, DIVERGED]
    panel = results.bands(given, x, "train_mse", of="median").axes[0]
    (line,) = (each for each in panel.lines if each.get_label() == "A (5/6)")
    bottom, top = panel.get_ylim()
    assert list(line.get_ydata()) == [3.5, 3.5]
    assert bottom < 3.5 < top < 100.0
    bands = [each.get_paths()[0].vertices[:, 1] for each in panel.collections]
    ends = sorted((band.min(), band.max()) for band in bands)
    assert ends == [pytest.approx((0.01, 0.06)), (1.0, 3.5), (3.5, top)]
    assert bottom <= 0.01


def test_a_model_that_outgrew_its_coder_has_a_row(tmp_path: Path) -> None:
    study = netsim.studies.find_study("coke").execute(**SMALL)
    study.lost["CTA 2-bit"] = Outcome(DIVERGED, 7, "vector: too large")
    study.save(tmp_path / "run")
    found = results.load(tmp_path / "run").set_index("algorithm")
    assert found.loc["CTA 2-bit", "outcome"] == DIVERGED
    assert found["train_mse"].isna().sum() == 1


def test_points_that_failed_count_where_others_of_their_condition_ended(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import netsim\nfrom netsim import Network, topology\nfrom netsim.testing import Talker\n\n"
        "def mine(study, *, seed: int = 0):\n"
        "    if seed == 2:\n        raise RuntimeError('no')\n"
        "    network = Network(topology.path(2))\n"
        "    agents = {i: Talker([]) for i in range(2)}\n"
        "    study.run('A', network, agents, [lambda agents: {'error': 1.0}], 1, sample=1.0)\n"
    )
    netsim.studies.sweep(str(tmp_path / "mine.py"), out=tmp_path / "out", seed=range(4))
    loaded = results.load(tmp_path / "out")
    assert loaded.set_index("seed")["outcome"].to_dict()[2] == "failed"
    table = results.interval(loaded, "error", ["algorithm"])
    assert table[["count", "survived"]].values.tolist() == [[4, 3]]


def test_settings_that_change_nothing_are_run_once_and_shown_for_each_value(tmp_path: Path) -> None:
    small = {"agents": 4, "features": 6, "rounds": 4, "algorithms": "DKLA,COKE"}
    done = netsim.studies.sweep("coke", out=tmp_path / "out", loss=[0.0, 0.1], burst=[1.0, 4.0], seed=[1, 2], **small)
    assert len(done.grid.points()) == len([*(tmp_path / "out" / "points").iterdir()]) == 6
    loaded = results.load(tmp_path / "out")
    assert len(loaded) == 16, "two losses, two bursts, two seeds, two methods"
    text = results.paired(loaded, "train_mse", "DKLA").attrs["interval"]
    assert "corrected for 3 comparisons (Holm)" in text


def test_only_some_algorithms_and_settings_are_compared(swept: Path) -> None:
    found = compare.table([str(swept)], ["train_mse"])
    part = compare.filtered(found, "DKLA", ["eta=1.2"])
    assert set(zip(part["eta"], part["algorithm"], strict=True)) == {(1.2, "DKLA")}
    wrong = ((None, ["eta"], "SETTING=VALUE"), ("DKL", [], "only = 'DKL'"), (None, ["eta=3"], "where = '3'"))
    for only, where, says in wrong:
        with pytest.raises(BadInput, match=says):
            compare.filtered(found, only, where)


def test_the_line_on_divergence_gives_a_reason_or_none_but_no_empty_one(swept: Path, tmp_path: Path) -> None:
    (line,) = compare.diverged([str(swept)])
    assert line.endswith("first: try a smaller step size (--eta).")
    place = tmp_path / "run"
    study = netsim.studies.find_study("coke").execute(**{**SMALL, "eta": 60.0})
    study.notes[:] = ["CTA diverged."]
    study.save(place)
    assert compare.diverged([str(place)]) == ["CTA diverged in 1 of 1 runs, run first."]


def test_lines_beyond_a_panel_s_room_are_spread_over_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"folder": "f", "eta": eta, "burst_len": burst, "loss": loss, "seed": 0, "algorithm": name, "train_mse": 1.0}
        for eta in (1, 2, 3)
        for burst in (1, 4)
        for loss in (0.0, 0.1)
        for name in "AB"
    ]
    drawn = []
    monkeypatch.setattr(compare, "write_figure", lambda path, figure: drawn.append(figure))
    compare.draw(pd.DataFrame(rows), "train_mse", "x.png", against="loss")
    (figure,) = drawn
    assert len(figure.axes) == 3
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["burst len 1, A", "burst len 1, B", "burst len 4, A", "burst len 4, B"]
