"""Paired differences against scipy, Holm's correction against its definition, and output of the command."""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp, ttest_rel, wilcoxon

import netsim
from netsim import BadInput, results
from netsim.studies.paired import pseudomedian, signed_rank_interval
from tests.command import call

pytestmark = pytest.mark.usefixtures("all_undrawn")


def frame(seeds: int = 8, losses: tuple[float, ...] = (0.0, 0.1), methods: str = "ABC") -> pd.DataFrame:
    """Return results in which each seed shifts all algorithms by the same amount."""
    rng = np.random.default_rng(1)
    rows = [
        {"point": f"{loss},{seed}", "loss": loss, "seed": seed, "algorithm": name, "error": shift + own}
        for loss in losses
        for seed, shift in enumerate(10 * rng.random(seeds))
        for name, own in zip(methods, rng.normal([0.0, 0.6, 0.0], 0.2)[: len(methods)], strict=True)
    ]
    return pd.DataFrame(rows)


def columns(found: pd.DataFrame, loss: float) -> pd.DataFrame:
    return found[found["loss"] == loss].pivot(index="seed", columns="algorithm", values="error")


def test_a_t_interval_and_its_p_are_those_of_scipys_paired_test() -> None:
    found = frame()
    table = results.paired(found, "error", "A")
    assert list(table.columns) == [
        "loss", "algorithm", "count", "missing", "survived", "difference", "low", "high", "p", "p_holm",
    ]  # fmt: skip
    assert list(zip(table["loss"], table["algorithm"], strict=True)) == [(0.0, "B"), (0.0, "C"), (0.1, "B"), (0.1, "C")]
    for row in table.itertuples():
        values = columns(found, row.loss)
        test = ttest_rel(values[row.algorithm], values["A"])
        interval = test.confidence_interval(0.95)
        assert row.count == 8
        assert row.p == pytest.approx(test.pvalue, rel=1e-9)
        assert (row.low, row.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
        assert row.difference == pytest.approx((values[row.algorithm] - values["A"]).mean(), rel=1e-9)


def test_pairs_find_what_the_spread_of_the_seeds_hides() -> None:
    found = frame(losses=(0.0,))
    apart = results.interval(found, "error", ["algorithm"]).set_index("algorithm")
    assert apart.loc["A", "low"] < apart.loc["B", "mean"] < apart.loc["A", "high"]
    assert results.paired(found, "error", "A").set_index("algorithm").loc["B", "p_holm"] < 0.05


@pytest.mark.parametrize("count", [6, 7, 12])
def test_a_signed_rank_interval_has_the_shifts_that_scipys_test_does_not_refuse(count: int) -> None:
    rng = np.random.default_rng(count)
    apart = rng.normal(0.4, 1.0, count)
    low, high = signed_rank_interval(apart)
    width = 1e-6 * (high - low)
    for end, inside in ((low, 1), (high, -1)):
        assert wilcoxon(apart - (end + inside * width)).pvalue > 0.05
        assert wilcoxon(apart - (end - inside * width)).pvalue <= 0.05
    means = [(a + b) / 2 for a, b in itertools.combinations_with_replacement(apart, 2)]
    assert pseudomedian(apart) == pytest.approx(np.median(means))


@pytest.mark.parametrize("count", [6, 9])
def test_a_signed_rank_interval_holds_the_middle_in_95_percent_or_more(count: int) -> None:
    drawn = np.random.default_rng(2).standard_cauchy((2000, count))
    held = np.mean([low <= 0.0 <= high for low, high in map(signed_rank_interval, drawn)])
    assert held > 0.95 - 3 * math.sqrt(0.05 * 0.95 / 2000)


def test_few_pairs_have_no_signed_rank_interval() -> None:
    table = results.paired(frame(seeds=5), "error", "A", test="wilcoxon")
    assert table[["low", "high"]].isna().all().all()
    assert (table["p"] >= 2 * 0.5**5).all()
    assert "no 95 % interval of the pseudomedian difference, which takes 6 pairs (n = 5)" in table.attrs["interval"]


def holm_by_definition(p: list[float]) -> list[float]:
    """Return p values after Holm's correction, by definition: max over q ≤ p of q times the hypotheses left at q."""
    ordered = sorted(p)
    return [min(1.0, max((len(p) - i) * q for i, q in enumerate(ordered) if q <= each)) for each in p]


def test_the_correction_is_holms() -> None:
    p = [0.01, 0.04, 0.03, 0.005, 0.9]
    assert list(results.holm(p)) == pytest.approx(holm_by_definition(p))
    assert list(results.holm(p)) == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.9])
    found = results.holm([0.02, math.nan, 0.03])
    assert found[[0, 2]] == pytest.approx([0.04, 0.04])
    assert math.isnan(found[1])


def test_the_correction_bounds_the_risk_of_one_false_finding() -> None:
    rng = np.random.default_rng(3)
    found = ttest_1samp(rng.standard_normal((6, 2000, 5)), 0.0).pvalue
    false = [min(results.holm(each)) <= 0.05 for each in found]
    assert np.mean(false) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.parametrize(
    ("apart", "t", "ranks"),
    [
        ([], math.nan, math.nan),
        ([1.0], math.nan, 1.0),
        ([0.0] * 6, 1.0, 1.0),
        ([1.0] * 6, 0.03125, 0.03125),
        ([math.inf, 1.0, 2.0, 3.0, 4.0, 5.0], math.nan, 0.03125),
        ([5e300, 1e300, -1e300, 2.0, 3.0, 4.0], 1.0, 0.25),
    ],
)
def test_few_equal_and_endless_differences(apart: list[float], t: float, ranks: float) -> None:
    assert results.p_value(apart) == pytest.approx(t, nan_ok=True)
    assert results.p_value(apart, test="wilcoxon") == pytest.approx(ranks, nan_ok=True)


@pytest.mark.parametrize("test", ["t", "wilcoxon"])
def test_what_is_always_the_same_does_not_differ(test: str) -> None:
    found = frame(methods="A")
    twice = pd.concat([found, found.assign(algorithm="copy")])
    table = results.paired(twice, "error", "A", test=test)
    assert (table["p"] == 1.0).all()
    assert (table["difference"] == 0.0).all()


def test_a_seed_without_a_value_is_no_pair_and_is_counted() -> None:
    found = frame()
    found.loc[(found["algorithm"] == "B") & (found["seed"] == 2), "error"] = np.nan
    table = results.paired(found, "error", "A").set_index("algorithm")
    assert list(table.loc["B", "count"]) == [7, 7]
    assert list(table.loc["B", "missing"]) == [1, 1]
    assert list(table.loc["C", "count"]) == [8, 8]
    assert "n = 7 to 8" in results.paired(found, "error", "A").attrs["interval"]


def test_the_two_of_a_pair_may_differ_in_a_setting() -> None:
    found = frame()
    table = results.paired(found, "error", 0.0, within="loss")
    values = found.pivot(index="seed", columns=["algorithm", "loss"], values="error")
    assert list(table["algorithm"]) == ["A", "B", "C"]
    for row in table.itertuples():
        assert row.difference == pytest.approx((values[row.algorithm, 0.1] - values[row.algorithm, 0.0]).mean())
    assert table.attrs["interval"].startswith("difference from loss = 0, seed by seed; 95 % interval of the mean")
    assert table.attrs["interval"].endswith("p_holm corrected for 3 comparisons (Holm)")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"reference": "D"}, "reference = 'D': must be one of A, B, C, the values of algorithm"),
        ({"test": "z"}, "test = 'z': must be one of t, wilcoxon"),
        ({"by": []}, "by = algorithm: must have loss, too"),
        ({"over": "loss_seed"}, "over = 'loss_seed': must be a seed that has several values"),
        ({"value": "mse"}, "column = 'mse'"),
    ],
)
def test_what_cannot_be_paired_is_refused_in_a_line(change: dict[str, object], says: str) -> None:
    given = {"value": "error", "reference": "A"} | change
    with pytest.raises(BadInput) as caught:
        results.paired(frame(), **given)  # type: ignore[arg-type]
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


STUDY = """
from netsim import Agent, Network, topology

class Quiet(Agent):
    async def run(self):
        async for _ in self.rounds(1):
            pass

def mine(study, *, loss: float = 0.0, seed: int = 0, data_seed: int | None = None, loss_seed: int | None = None):
    own = seed if data_seed is None else data_seed
    for name, more in (("plain", 0.0), ("better", -0.25)):
        value = own * own + more + loss * (1 + own) + (loss_seed or 0) / 8
        network = Network(topology.ring(3))
        study.run(name, network, {i: Quiet() for i in range(3)}, [lambda agents: {"error": value}], 1)
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paired")
    (folder / "mine.py").write_text(STUDY)
    netsim.studies.sweep(str(folder / "mine.py"), out=folder / "out", loss=[0.0, 0.5], seed=range(3))
    netsim.studies.sweep(str(folder / "mine.py"), out=folder / "own", data_seed=7, loss_seed=range(3), seed=[0, 1])
    return folder


def test_the_command_says_what_was_paired_over_how_many(swept: Path) -> None:
    done = call("compare", "out", "--metric", "error", "--paired", "plain", cwd=swept)
    assert done.returncode == 0, done.stderr
    title = "error: difference from plain, seed by seed; 95 % interval of the mean difference (Student's t, n = 3)"
    assert f"{title}; p two-sided, p_holm corrected for 2 comparisons (Holm)" in done.stdout
    rows = [line.split() for line in done.stdout.partition(title)[2].splitlines() if "better" in line]
    assert [row[:4] for row in rows] == [["0", "better", "3", "0"], ["0.5", "better", "3", "0"]]
    assert {row[4] for row in rows} == {"-0.25"}
    done = call("compare", "out", "--metric", "error", "--paired", "loss=0", cwd=swept)
    assert "difference from loss = 0" in done.stdout
    assert [line.split()[4] for line in done.stdout.splitlines() if " 0.5 " in line and "folder" not in line][-1] == "1"
    refused = call("compare", "out", "--metric", "error", "--paired", "best", cwd=swept)
    assert refused.returncode == 2
    assert refused.stderr.startswith("netsim: paired = 'best': must be one of plain, better, or NAME=VALUE of")


def test_only_the_seeds_that_are_meant_are_put_together(swept: Path) -> None:
    found = results.load(swept / "own")
    with pytest.raises(BadInput, match=r"must have seed, too.*over = 'seed' puts these together instead"):
        results.interval(found, "error", ["algorithm"], over="loss_seed")
    table = results.interval(found, "error", ["algorithm", "seed"], over="loss_seed")
    assert list(table["count"]) == [3] * 4
    assert table.attrs["interval"] == "95 % interval of the mean (Student's t, n = 3), over the loss seeds"
    shown = call("compare", "own", "--metric", "error", "--over", "loss_seed", cwd=swept).stdout
    assert "over the loss seeds" in shown
    assert "All runs have the data seed 7; intervals over other seeds hold for that one." in shown


def test_a_seed_left_open_does_not_keep_seeds_apart(swept: Path) -> None:
    """An open data seed differs from run to run, so settings.json does not record it, and it must not separate runs."""
    for seed in (1, 2):
        folder = swept / f"run{seed}"
        if not folder.exists():
            netsim.studies.find_study(str(swept / "mine.py")).execute(seed=seed).save(folder)
    found = results.compare(swept / "run1", swept / "run2")
    assert "data_seed" not in found.columns
    assert list(results.interval(found.drop(columns="folder"), "error", ["algorithm"])["count"]) == [2, 2]


@pytest.mark.parametrize(("reference", "sign"), [(None, 1.0), (1.0, -1.0)])
def test_a_setting_that_was_left_open_is_a_value_like_others(reference: float | None, sign: float) -> None:
    frame = pd.DataFrame(
        {
            "slot": [None, None, None, 1.0, 1.0, 1.0],
            "seed": [0, 1, 2] * 2,
            "algorithm": ["a"] * 6,
            "error": [1.0, 2.0, 3.0, 1.5, 2.75, 3.25],
        }
    )
    for table in (frame, frame.assign(slot=pd.Series([None] * 3 + [1.0] * 3, dtype=object))):
        wanted = table["slot"].unique().tolist()[0] if reference is None else reference
        (row,) = results.paired(table, "error", wanted, within="slot", by=["algorithm"]).to_dict("records")
        assert row["count"] == 3
        assert row["difference"] == pytest.approx(sign * 0.5, rel=1e-12)
