"""Partitions compared with results of their definitions: shares, their variance, and frequencies over seeds."""

import dataclasses
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from netsim.errors import BadInput
from netsim.scenarios.data.choice import ClassChoice
from netsim.scenarios.data.partitions import Partition, labels_of
from netsim.scenarios.data.streams import again_and_again, owners
from netsim.scenarios.data.tables import Table, deal
from netsim.scenarios.polk.problems import MIXTURES, source_of
from netsim.scenarios.polk.task import ProblemSetting, batches, draw_problem
from netsim.scenarios.tasks import batch, online
from netsim.studies import Study, catalogue
from netsim.studies.seeds import Seeds
from netsim.util.draws import generator
from tests.parts import every

Labels = np.ndarray[Any, np.dtype[np.float64]]


def balanced(classes: int, each: int) -> Labels:
    """Return class numbers in random order, the same number of each class."""
    return np.random.default_rng(0).permutation(np.repeat(np.arange(float(classes)), each))


def counts(text: str, labels: Labels, agents: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return how many samples of each class each agent has, shape (agents, classes)."""
    classes = int(labels.max()) + 1
    parts = Partition.parse(text).divide(labels, agents, seed=seed, classes=classes)
    return np.stack([np.bincount(labels[part].astype(int), minlength=classes) for part in parts])


@every("text", ["iid", "shards:1", "shards:3", "dirichlet:0.001", "dirichlet:0.1", "dirichlet:100", "size:0", "size:4"])
@every(("agents", "samples"), [(1, 2), (7, 23), (30, 60), (13, 1000)])
def test_every_sample_has_one_owner_and_every_agent_two_samples(text: str, agents: int, samples: int) -> None:
    rng = np.random.default_rng(samples)
    for target, classes in ((rng.integers(5, size=samples).astype(float), 5), (rng.standard_normal(samples), 0)):
        if text == "shards:3" and samples < 3 * agents:
            with pytest.raises(BadInput, match=f"^partition = 'shards:3': must be at most shards:2, for {samples}"):
                Partition.parse(text).divide(target, agents, seed=1, classes=classes)
            continue
        if not np.ptp(target):
            continue
        parts = Partition.parse(text).divide(target, agents, seed=1, classes=classes)
        assert sorted(np.concatenate(parts)) == list(range(samples))
        assert len(parts) == agents
        assert min(map(len, parts)) >= 2


def test_iid_is_what_deal_does_without_a_partition() -> None:
    table = Table("t", np.arange(50.0)[:, None], np.arange(50.0), ("x",), "y")
    before = np.random.default_rng(3).permutation(50)
    for dealt in (deal(table, 4, seed=3), deal(table, 4, seed=3, partition=Partition.parse("iid"))):
        own = [np.concatenate([part.train_target, part.test_target]) for part in dealt]
        assert all(np.array_equal(a, b) for a, b in zip(own, np.array_split(before, 4), strict=True))


@pytest.mark.parametrize("text", ["shards:2", "dirichlet:0.5", "size:1"])
def test_the_seed_alone_decides(text: str) -> None:
    labels = balanced(10, 40)
    first, again, other = (Partition.parse(text).divide(labels, 8, seed=seed, classes=10) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


# --- shards -----------------------------------------------------------------------------------------------------------


def test_one_shard_of_one_class_each_is_any_class_with_the_same_chance() -> None:
    labels = balanced(10, 12)
    found = [counts("shards:1", labels, 10, seed)[0] for seed in range(600)]
    assert all(sorted(each) == [0] * 9 + [12] for each in found)
    assert stats.chisquare(np.sum(found, axis=0) / 12).pvalue > 1e-3


def test_two_shards_are_of_one_class_as_often_as_two_cards_are() -> None:
    """With 20 shards, two per class, an agent's second shard has the class of its first with probability 1/19."""
    labels = balanced(10, 12)
    single = [np.mean((counts("shards:2", labels, 10, seed) > 0).sum(axis=1) == 1) for seed in range(600)]
    assert abs(np.mean(single) - 1 / 19) < 4 * stats.sem(single)


def test_shards_of_numbers_are_intervals() -> None:
    target = np.random.default_rng(0).standard_normal(90)
    ranks = stats.rankdata(target).astype(int) - 1
    for part in Partition.parse("shards:1").divide(target, 9, seed=0):
        assert np.ptp(ranks[part]) == 9


# --- Dirichlet --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_dirichlet_shares_have_the_mean_variance_and_law_of_their_distribution(alpha: float) -> None:
    """The share of a class with overall share p is Beta(αp, α(1 - p)): mean p, variance p(1 - p)/(α + 1)."""
    # Classes that run out reduce the variance: by 7 % with 400 agents, but only by 2 % with this many.
    sizes, agents, each = np.array([100_000, 60_000, 40_000]), 4000, 50
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(3.0), sizes))
    found = np.concatenate([counts(f"dirichlet:{alpha}", labels, agents, seed) for seed in range(3)])
    assert (found.sum(axis=1) == each).all()
    shares, p = found / each, sizes / sizes.sum()
    np.testing.assert_allclose(shares.mean(axis=0), p, rtol=1e-12)
    # An agent's samples are drawn from its shares q, which adds p(1 - p)/n (1 - 1/(α + 1)) to the variance.
    expected = p * (1 - p) * (1 / (alpha + 1) + alpha / (alpha + 1) / each)
    np.testing.assert_allclose(shares.var(axis=0), expected, rtol=0.05)
    for number in range(3):
        law = stats.betabinom(each, alpha * p[number], alpha * (1 - p[number]))
        grid = np.arange(each + 1)
        realised = (found[:, number, None] <= grid).mean(axis=0)
        # The Wasserstein distance; it does not vanish, as many agents lack one or two samples of an exhausted class.
        assert np.abs(realised - law.cdf(grid)).sum() / each < 0.015


def test_agents_are_alike_under_dirichlet_also_where_classes_run_out() -> None:
    """With ten agents and alpha 0.1 classes run out; yet the last agent's expected share equals the first's."""
    labels = balanced(5, 40)
    found = np.stack([counts("dirichlet:0.1", labels, 10, seed) for seed in range(500)])
    assert (found.sum(axis=2) == 20).all()
    mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(500)
    assert (np.abs(mean - 4.0) / error).max() < 4.2
    concentrated = (found.max(axis=2) / 20).mean(axis=0)
    assert concentrated.max() - concentrated.min() < 0.06
    assert concentrated.min() > 0.7


def test_a_large_alpha_is_iid_and_a_small_one_gives_one_class() -> None:
    labels = balanced(4, 500)
    even, single = counts("dirichlet:1e6", labels, 4), counts("dirichlet:0.001", labels, 4, seed=2)
    assert stats.chisquare(even.ravel()).pvalue > 1e-3
    assert (single > 0).sum() <= 8


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.0, 0.7, 1.2, 3.0])
def test_sizes_follow_the_power_law(beta: float) -> None:
    agents, samples = 12, 5000
    sizes = sorted(len(p) for p in Partition.parse(f"size:{beta}").divide(np.zeros(samples), agents, seed=0))[::-1]
    ranks = np.arange(1.0, agents + 1)
    expected = 2 + (samples - 2 * agents) * ranks**-beta / np.sum(ranks**-beta)
    assert np.abs(np.array(sizes) - expected).max() < 1.0


def test_any_agent_may_be_the_largest() -> None:
    rule = Partition.parse("size:1.5")
    first = [int(np.argmax([len(p) for p in rule.divide(np.zeros(100), 6, seed=seed)])) for seed in range(600)]
    assert stats.chisquare(np.bincount(first, minlength=6)).pvalue > 1e-3


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("noniid", "must be iid, shards:S, dirichlet:ALPHA or size:BETA"),
        ("iid:1", "must be iid, shards:S, dirichlet:ALPHA or size:BETA"),
        ("dirichlet", "must be iid, shards:S, dirichlet:ALPHA or size:BETA"),
        ("dirichlet:nan", "must be iid, shards:S, dirichlet:ALPHA or size:BETA"),
        ("dirichlet:0", "must be dirichlet:ALPHA > 0"),
        ("shards:0", "must be shards:S with a whole number S >= 1"),
        ("shards:1.5", "must be shards:S with a whole number S >= 1"),
        ("size:-1", "must be size:BETA >= 0"),
    ],
)
def test_other_texts_are_refused_in_one_line(text: str, allowed: str) -> None:
    with pytest.raises(BadInput) as caught:
        Partition.parse(text)
    assert str(caught.value) == f"partition = {text!r}: {allowed}"


def test_what_the_samples_do_not_allow_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^agents = 6: must be at most 5, for 2 of 10 samples$"):
        Partition.parse("size:1").divide(np.zeros(10), 6, seed=0)
    with pytest.raises(BadInput, match=r"^partition = 'dirichlet:1': must be iid or size:BETA for data with one label"):
        Partition.parse("dirichlet:1").divide(np.zeros(10), 2, seed=0)


def test_numbers_have_ten_bins_of_as_many_samples() -> None:
    target = np.random.default_rng(0).exponential(size=1000)
    labels = labels_of(target)
    assert np.bincount(labels).tolist() == [100] * 10
    assert all(target[labels == b].max() < target[labels == b + 1].min() for b in range(9))
    assert labels_of(np.array([0.0, 1.0, 0.0, 0.0, 1.0])).tolist() == [0, 1, 0, 0, 1]


# --- in studies -------------------------------------------------------------------------------------------------------

SMALL = {"agents": 4, "rounds": 3, "features": 8}


def run(name: str, **parameters: Any) -> Study:
    return catalogue.find_study(name).execute(**parameters)


@pytest.fixture
def houses(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    path = tmp_path / "houses.csv"
    pd.DataFrame({"a": rng.random(200), "b": rng.random(200), "price": rng.random(200)}).to_csv(path, index=False)
    return str(path)


@pytest.mark.parametrize("name", ["coke", "frontier"])
def test_a_study_tells_who_has_what(name: str, houses: str) -> None:
    own = {"algorithms": "DKLA"} if name == "coke" else {"methods": "DKLA", "coders": "float64", "censors": "none"}
    study = run(name, data=houses, partition="size:1.5", **SMALL, **own)
    table = study.tables["partition"]
    assert sorted(table["samples"], reverse=True) == pytest.approx(
        [2 + 192 * r**-1.5 / 1.6712 for r in (1, 2, 3, 4)], abs=1
    )
    bins = table.drop(columns=["agent", "samples", "training"])
    assert bins.to_numpy().sum(axis=0).tolist() == [20] * 10
    assert (bins.sum(axis=1) == table["samples"]).all()
    axes = study.figures["partition"].axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("agent", "samples")
    heights = np.zeros(4)
    for bar in axes.patches:
        heights[round(bar.get_x() + bar.get_width() / 2)] += bar.get_height()
    assert heights.tolist() == table["samples"].tolist()
    assert any(note.startswith("Partition size:1.5: each of 4 agents has ") for note in study.notes)
    assert study.settings["partition"] == "size:1.5"


def test_a_study_of_classes_divides_by_its_classes() -> None:
    study = run("deep_network", partition="shards:1", agents=10, rounds=1, width=4, tune=False)
    table = study.tables["partition"]
    assert [each for each in table if each.startswith("class ")] == [f"class {digit}" for digit in range(10)]
    # A class of digits has at least 174 of 1797 samples and a shard at most 180, so a shard spans two or three classes.
    assert (table.filter(like="class ") > 0).sum(axis=1).max() <= 3
    assert all(axis.get_title() == "" for axis in study.figures["partition"].axes)


def test_iid_leaves_nothing_behind(houses: str) -> None:
    study = run("coke", data=houses, algorithms="DKLA", **SMALL)
    assert "partition" not in study.tables
    assert "partition" not in study.figures


def test_the_synthetic_samples_of_all_agents_are_divided_anew() -> None:
    iid, sorted_ = batch(agents=4, features=8), batch(agents=4, features=8, partition="shards:1")
    before, after = ([np.concatenate([p.targets]) for p in task.problems] for task in (iid, sorted_))
    assert max(np.std(each) for each in after) < 0.9 * np.std(np.concatenate(after))
    assert max(np.ptp([np.mean(each) for each in before]), 0) < 0.1 * np.ptp([np.mean(each) for each in after])


def test_another_partition_is_refused_before_the_data_are_read() -> None:
    studies = ["coke", "frontier", "packet_loss", "deep_network", "intel_lab", "mtu", "lifetime"]
    for name in [*studies, "online", "privacy", "omkl", "polk"]:
        with pytest.raises(BadInput, match=r"^partition = 'odd': must be iid, shards:S"):
            run(name, partition="odd")


# --- streams ----------------------------------------------------------------------------------------------------------


def numbered(count: int) -> Table:
    """Return a table whose only input, and whose target, is the row's index."""
    index = np.arange(float(count))
    return Table("numbered", index[:, None], index, ("number",), "y")


class Same:
    """A feature map that returns its inputs unchanged."""

    inputs = size = 1

    def __call__(self, x: Labels, /) -> Labels:
        return x


@pytest.mark.parametrize("text", ["iid", "shards:2", "dirichlet:0.3", "size:1.3"])
def test_streams_have_the_owners_that_deal_has(text: str) -> None:
    table, partition = numbered(60), Partition.parse(text)
    dealt = deal(table, 4, seed=5, partition=partition)
    both = [sorted({*part.train_target, *part.test_target}) for part in dealt]
    assert [own.tolist() for own in owners(table.target, 4, partition, 5)] == both


@pytest.mark.parametrize("in_order", [True, False])
def test_a_stream_passes_over_its_rows_again_and_again(in_order: bool) -> None:
    parts = owners(np.arange(60.0), 4, Partition.parse("size:1"), 3)
    streams = again_and_again(numbered(60), parts, Same(), in_order=in_order, seed=3)
    for own, stream in zip(parts, streams, strict=True):
        drawn = [[int(y) for _, y in islice(stream, len(own))] for _ in range(3)]
        assert all(sorted(each) == own.tolist() for each in drawn)
        if in_order:
            assert drawn == [own.tolist()] * 3
        elif len(own) > 6:
            assert len({tuple(each) for each in [*drawn, own.tolist()]}) == 4


def test_reading_another_stream_first_changes_nothing() -> None:
    parts = owners(np.arange(40.0), 2, Partition.parse("shards:2"), 0)
    first, second = again_and_again(numbered(40), parts, Same(), in_order=False, seed=1)
    before = [y for _, y in islice(second, 30)]
    again_first, again_second = again_and_again(numbered(40), parts, Same(), in_order=False, seed=1)
    list(islice(again_first, 7))
    assert [y for _, y in islice(again_second, 30)] == before
    assert {y for _, y in islice(first, 20)}.isdisjoint(before)


def test_online_agents_see_their_shard_only_and_see_it_again(houses: str) -> None:
    target = np.sort(pd.read_csv(houses)["price"].to_numpy())
    target = (target - target[0]) / (target[-1] - target[0])
    task = online(houses, agents=4, features=8, partition="shards:1")
    assert task.rounds == 50
    seen = []
    for cost in task.costs:
        drawn = []
        for _ in range(60):
            cost.draw(np.zeros(task.size))
            drawn.append(cost.target)
        assert sorted({*drawn}) == sorted(drawn[:50])
        seen.append(sorted(drawn[:50]))
    # Each agent has one shard, which is a quarter of the sorted targets.
    assert np.concatenate(sorted(seen)) == pytest.approx(target)


def test_online_tells_who_has_what_and_who_sees_it_again(houses: str) -> None:
    study = run("online", data=houses, partition="size:1.5", agents=4, features=8, algorithms="ODKLA")
    table = study.tables["partition"]
    assert table["samples"].sum() == 200
    assert table["passes"].to_numpy() == pytest.approx(50 / table["samples"].to_numpy())
    assert study.rounds["round"].max() == 50
    few = (table["samples"] < 50).sum()
    (note,) = [each for each in study.notes if each.startswith("Each agent draws 50 samples")]
    assert f": {few} of 4 agents have fewer, and draw theirs again, up to {table['passes'].max():.1f} times" in note
    assert "partition size:1.5" in study.figures["mse"].get_suptitle()
    assert "partition" in study.figures
    why = r"^partition = 'shards:1': must be iid with order = 'target', which divides the samples$"
    with pytest.raises(BadInput, match=why):
        run("online", data=houses, partition="shards:1", order="target", agents=4)


def test_tuning_divides_the_rows_that_are_held_back_too(houses: str) -> None:
    study = run("online", data=houses, partition="shards:1", agents=4, features=8, algorithms="RFF-DOKL", tune=True)
    assert study.tables["partition"]["samples"].tolist() == [45] * 4


def test_omkl_divides_by_the_two_classes() -> None:
    study = run("omkl", partition="shards:1", rows=160, agents=4, features=4, repeats=1, algorithms="gossip")
    table = study.tables["partition"]
    assert list(table)[3:] == ["class -1", "class +1"]
    assert table["samples"].tolist() == [40] * 4
    # Only the shard at the boundary between two classes contains both.
    assert ((table[["class -1", "class +1"]] > 0).sum(axis=1) == 2).sum() <= 1
    totals = table[["class -1", "class +1"]].sum()
    assert totals.max() / totals.sum() == pytest.approx(study.constant["running_accuracy"])
    assert "partition shards:1" in study.figures["losses"].get_suptitle()


def test_privacy_trains_each_agent_on_its_own_share() -> None:
    study = run("privacy", partition="size:1", agents=4, samples=20, rounds=2, features=4)
    table = study.tables["partition"]
    assert sorted(table["samples"], reverse=True) == pytest.approx(
        [2 + 152 / (r * (1 + 1 / 2 + 1 / 3 + 1 / 4)) for r in (1, 2, 3, 4)], abs=1
    )
    assert (table["training"] - table["samples"] / 2).abs().max() <= 0.5
    bits = f"{table['training'].sum() * 3 * 64:,} raw-data bits"
    assert any(bits in note for note in study.notes)
    assert "partition size:1" in study.figures["given_away"].get_suptitle()


def test_polk_draws_from_the_own_samples_as_many_as_the_training_set_has() -> None:
    seeds = Seeds(seed=2)
    source = source_of(MIXTURES, ClassChoice())
    for text in ("shared", "iid", "shards:1"):
        setting = ProblemSetting(agents=5, samples=100, partition=text).resolved(MIXTURES, source)
        problem = draw_problem(source, setting, seeds)
        for agent in range(5):
            drawn = list(batches(problem, agent, 2, 3))
            assert [len(labels) for _, labels in drawn] == [34, 33, 33] * 2
            inputs = np.concatenate([each for each, _ in drawn])
            own = problem.split.inputs if problem.owners is None else problem.split.inputs[problem.owners[agent]]
            assert len(own) == (100 if text == "shared" else 20)
            times = [(inputs == row).all(axis=1).sum() for row in own]
            assert times == [200 // len(own)] * len(own)
    rng = generator(2, 0, "samples")
    shared = dataclasses.replace(problem, owners=None)
    expected = [rows for _ in range(2) for rows in np.array_split(rng.permutation(100), 3)]
    for (inputs, labels), rows in zip(batches(shared, 0, 2, 3), expected, strict=True):
        assert (inputs == problem.split.inputs[rows]).all()
        assert (labels == problem.split.labels[rows]).all()


def test_polk_tells_who_has_what_unless_all_is_shared() -> None:
    given = {"samples": 96, "agents": 3, "compare": False, "batch": 32}
    study = run("polk", partition="shards:1", **given)
    table = study.tables["partition"]
    assert table["samples"].tolist() == [32] * 3
    assert table["passes"].tolist() == [3.0] * 3
    assert [each for each in table if each.startswith("class ")] == [f"class {number}" for number in range(5)]
    assert study.rounds["round"].max() == 3
    assert "partition shards:1" in study.figures["progress"].get_suptitle()
    assert "partition" not in run("polk", **given).tables
    with pytest.raises(BadInput, match=r"^partition = 'odd': must be iid, shards:S, .* or size:BETA, or shared$"):
        run("polk", partition="odd")
