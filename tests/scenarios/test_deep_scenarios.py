"""The studies of deep kernel learning, on one machine and over a network."""

import gzip
import importlib.util
import json
import math
import os
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.optimize

from netsim.agents.costs.losses import Logistic, Squared, SquaredHinge
from netsim.agents.costs.multiclass import MulticlassHinge, OneVsRest, Softmax
from netsim.core.records import DELIVERED
from netsim.errors import BadInput
from netsim.scenarios.data.samples import Samples
from netsim.scenarios.data.tables import AgentData, deal, unit
from netsim.scenarios.deep.baselines import deep_network, penalty_of, semi_random_network
from netsim.scenarios.deep.maps import Shape, shapes
from netsim.scenarios.deep.network import Case
from netsim.scenarios.deep.study import MapSetting, PaperSamples, _counts
from netsim.scenarios.published import published
from netsim.scenarios.tasks.classes import ClassTask, Criterion, ridge_regularizer
from netsim.scenarios.tasks.savings import cost_to_reach, ladder
from netsim.scenarios.tasks.settings import Channel
from netsim.studies import Study, catalogue
from tests.parts import every, only_with

needs_data = pytest.mark.skipif("NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set")

SMALL = {"rows": 300, "widths": "10,20", "repeats": 2, "ceiling_rows": 100}
NETWORK = {"rows": 300, "agents": 4, "rounds": 40, "width": 10, "tune": False}


def run(name: str, **parameters: object) -> Study:
    return catalogue.find_study(name).execute(**parameters)


@pytest.fixture(scope="module")
def study() -> Study:
    return run("deep", **SMALL)


@pytest.fixture(scope="module")
def network() -> Study:
    return run("deep_network", **NETWORK)


# --- deep ---------------------------------------------------------------------------------------------------------


@only_with("sklearn")
def test_every_method_has_a_row_and_the_columns_are_known(study: Study) -> None:
    table = study.tables["comparison"]
    ours = table[table["method"].isin(["RF-KL", "DKL", "DKL-MLP"])]
    assert list(zip(ours["method"], ours["widths"], strict=True)) == [
        *[("RF-KL", width) for width in ("10", "20", "40")],
        *[(method, width) for method in ("DKL", "DKL-MLP") for width in ("10+10", "20+20")],
    ]
    assert ours["per_output"].tolist() == [10, 20, 40, 10, 20, 20, 40]
    assert (ours["parameters"] == 10 * ours["per_output"]).all()
    assert (ours["draws"] == 2).all()
    assert table["method"].tolist()[-3:] == ["Deep-semi", "DNN", "SVM, 100 of 225 rows"]
    semi = table[table["method"] == "Deep-semi"].iloc[0]
    assert semi[["widths", "parameters", "per_output"]].tolist() == ["10+10", 64 * 10 + 10 * 10 + 10 * 10, 640 + 110]
    assert sum(text.startswith("Deep-semi: 200 passes of Adam in batches of 113") for text in study.notes) == 1
    dnn = table[table["method"] == "DNN"].iloc[0]
    assert dnn["parameters"] == 64 * 10 + 10 + 10 * 10 + 10 + 10 * 10 + 10
    assert dnn["per_output"] == 64 * 10 + 10 + 10 * 10 + 10 + 10 + 1
    wanted = {"test_accuracy", "± test_accuracy", "test_balanced_accuracy", "seconds", "published accuracy"}
    assert wanted <= set(table.columns)
    assert table["published accuracy"].isna().all()


@only_with("sklearn")
def test_the_table_is_the_mean_over_draws_of_what_the_rounds_hold(study: Study) -> None:
    rounds = study.rounds.set_index("algorithm")
    for row in study.tables["comparison"].dropna(subset=["± test_accuracy"]).itertuples():
        name = f"{row.method} {row.widths}"
        draws = rounds.loc[[name, f"{name}, draw 2"], "test_accuracy"]
        assert row.test_accuracy == pytest.approx(draws.mean(), rel=1e-12)
    losses = [part["train_loss"] for name, part in study.rounds.groupby("algorithm") if name.startswith("DKL 10+10")]
    assert losses[0].item() != losses[1].item(), "another draw is another map"
    assert (study.rounds["link_messages"] == 0).all()


@only_with("sklearn")
def test_the_notes_agree_with_the_table(study: Study) -> None:
    table = study.tables["comparison"].set_index(["method", "widths"])["test_accuracy"]
    note = next(text for text in study.notes if text.startswith("DKL-MLP 20+20"))
    for method, widths in (("RF-KL", "20"), ("DKL", "20+20"), ("RF-KL", "40")):
        gain = table["DKL-MLP", "20+20"] - table[method, widths]
        assert f"{'better' if gain > 0 else 'not better'} than {method} {widths} ({100 * gain:+.2f} points" in note


@only_with("sklearn")
def test_the_confusion_matrix_is_that_of_the_best_map(study: Study) -> None:
    confusion = study.tables["confusion"]
    counts = confusion.drop(columns="true class").to_numpy()
    assert counts.shape == (10, 10)
    assert counts.sum() == 75
    accuracies = study.rounds.set_index("algorithm")["test_accuracy"]
    means = study.tables["comparison"].dropna(subset=["± test_accuracy"])
    best = means.loc[means["test_accuracy"].idxmax()]
    assert np.trace(counts) / 75 == pytest.approx(accuracies[f"{best['method']} {best['widths']}"])
    assert set(study.figures) == {"parameters", "confusion"}


@only_with("sklearn")
def test_what_was_tuned_is_the_best_of_its_grid_and_in_the_settings(study: Study, tmp_path: Path) -> None:
    folder = study.save(tmp_path / "out")
    tried = pd.read_csv(folder / "tuning.csv")
    chosen = pd.read_csv(folder / "bandwidths.csv").set_index(["method", "widths"])
    for key, part in tried.groupby(["method", "widths"]):
        assert chosen.loc[key, "error"] == part["error"].min() <= chosen.loc[key, "error_of_medians"]
    first = chosen.loc[("DKL", "10+10")]
    settings = json.loads((folder / "settings.json").read_text())["parameters"]
    assert f"DKL 10+10: {first['first']:g}, {first['later']:g}" in settings["bandwidths"]


@only_with("sklearn")
def test_one_seed_gives_one_result(study: Study) -> None:
    again = run("deep", **SMALL)
    pd.testing.assert_frame_equal(again.rounds, study.rounds)
    left, right = (each.tables["comparison"].drop(columns="seconds") for each in (again, study))
    pd.testing.assert_frame_equal(left, right)


@only_with("sklearn")
@pytest.mark.parametrize(
    "parameters",
    [
        {"criterion": "hinge"},
        {"criterion": "squared"},
        {"criterion": "logistic", "one_vs_rest": True},
        {"layers": 3, "kernels": "gaussian,laplacian,cauchy"},
    ],
)
def test_other_losses_and_layers(parameters: dict[str, object]) -> None:
    small = {"rows": 200, "widths": "15", "repeats": 1, "ceiling_rows": 0, "tune": False}
    table = run("deep", **small | parameters).tables["comparison"]
    assert (table["test_accuracy"] > 0.2).all(), "chance: 0.1"
    assert not table["method"].str.startswith("SVM").any()
    assert table["± test_accuracy"].isna().all()


@only_with("sklearn")
@every(
    ("name", "parameters", "says"),
    [
        ("deep", {"widths": "10,x"}, "widths = '10,x': must be positive whole numbers with commas between"),
        ("deep", {"widths": "0"}, "widths = 0: must be a whole number >= 1"),
        ("deep", {"layers": 1}, "layers = 1: must be"),
        ("deep", {"kernels": "gausian"}, "kernels = 'gausian': must be one of gaussian"),
        ("deep", {"kernels": "gaussian,cauchy,cauchy"}, "kernels = 'gaussian,cauchy,cauchy': must be one, or one for"),
        ("deep", {"criterion": "softmax"}, "criterion = 'softmax': must be one of logistic, hinge, squared"),
        ("deep", {"temperature": 0.0}, "temperature = 0.0: must be"),
        ("deep", {"regularizer": 0.0}, "regularizer = 0.0: must be"),
        ("deep", {"repeats": 0}, "repeats = 0: must be"),
        ("deep", {"rows": 10**6}, "rows = 1000000: must be"),
        ("deep", {"target": "x"}, "target = 'x': must be left out for the data 'digits', which are no table"),
        ("deep_network", {"loss": 2.0}, "loss = 2.0: must be a probability in [0, 1]"),
        ("deep_network", {"classes": False}, "classes = False: must be left out for the data 'digits'"),
        ("deep_network", {"agents": 100_000}, "agents = 100000: must be at most 898, for 2 samples each of 1797"),
        ("deep_network", {"rounds": 0}, "rounds = 0: must be"),
        ("deep_network", {"criterion": "hing"}, "criterion = 'hing': must be one of logistic, hinge, squared"),
        ("deep_network", {"agents": 0}, "agents = 0: must be"),
        ("deep", {"ceiling_rows": 2}, "ceiling_rows = 2: must be 0 or a whole number >= 10"),
        ("deep_network", {"rho": 0.0}, "rho = 0.0: must be"),
        ("deep_network", {"eta": 0.0}, "eta = 0.0: must be"),
        ("deep_network", {"bits": 17}, "bits = 17: must be"),
        ("deep_network", {"width": 0}, "width = 0: must be"),
    ],
)
def test_bad_parameters(name: str, parameters: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        run(name, **parameters)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_the_published_table_is_whole() -> None:
    table = published("dkl")
    assert len(table) == 32
    assert set(table["dataset"]) == {"tomshardware", "sensor", "adult", "activity"}
    flat = table[table["method"] == "RF-KL"]
    assert (flat["widths"].astype(int) == flat["parameters"]).all()


def test_deep_semi_learns_numbers_and_classes_better_than_a_constant_and_the_same_again() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.random((400, 5))
    target = np.sin(4 * inputs[:, 0]) * inputs[:, 1] + 3.0
    for count, wanted in ((0, target), (2, (target > np.median(target)).astype(float))):
        part = AgentData(inputs[:300], wanted[:300], inputs[300:], wanted[300:])
        given: dict[str, Any] = {"regularizer": 1e-4, "seed": 1}
        found, again = (semi_random_network(part, (20, 20), ("gaussian",) * 2, count, **given) for _ in range(2))
        assert found.measures == again.measures
        assert (found.method, found.widths) == ("Deep-semi", "20+20")
        assert found.per_output == 5 * 20 + 20 * 20 + 20
        assert found.parameters == found.per_output + (20 if count else 0)
        if count:
            assert found.measures["test_accuracy"] > 0.8
        else:
            assert found.measures["test_mse"] < 0.2 * np.var(wanted)


def test_counts_of_parameters_are_compared_with_the_published_ones() -> None:
    theirs = published("dkl")
    ours = pd.DataFrame({"method": ["DKL", "Deep-semi"], "widths": ["200+200"] * 2, "per_output": [200, 49_800]})
    (said,) = _counts(ours, theirs[theirs["dataset"] == "sensor"])
    assert said == (
        "Trainable parameters for one output: as published in 1 of 2 rows. Here Deep-semi 200+200: 49,800, published "
        "15,400."
    )
    assert not list(_counts(ours, theirs[theirs["dataset"] == "none"]))


# --- what both are made of --------------------------------------------------------------------------------------------


def test_shapes_count_their_features_and_match_their_sizes() -> None:
    found = {shape.name: shape.features for shape in shapes([5, 7], 3, ["gaussian"] * 3)}
    assert found == {
        "RF-KL 5": 5, "RF-KL 7": 7, "RF-KL 15": 15, "RF-KL 21": 21, "DKL 5+5+5": 5, "DKL 7+7+7": 7,
        "DKL-MLP 5+5+5": 15, "DKL-MLP 7+7+7": 21,
    }  # fmt: skip
    x = np.random.default_rng(0).random((30, 4))
    for shape in shapes([5], 2, ["gaussian", "cauchy"]):
        times = (0.5, 2.0)[: len(shape.widths)]
        plain, doubled = (shape.build(x, [k * each for each in times], 3) for k in (1, 2))
        assert plain(x).shape == (30, shape.features)
        first, wider = (getattr(each, "layers", [each])[0].frequencies for each in (plain, doubled))
        assert np.array_equal(first, 2 * wider)


def test_a_loss_bends_as_the_ridge_that_stands_for_it() -> None:
    assert ridge_regularizer(OneVsRest(Squared(), 4), 0.3) == pytest.approx(0.3)
    assert ridge_regularizer(Softmax(10), 1e-4) == pytest.approx(1e-4 * 2 * 100 / 9)
    assert ridge_regularizer(OneVsRest(Logistic(), 3), 1.0) == pytest.approx(8.0)


def test_losses_by_their_names() -> None:
    def named(name: str, one_vs_rest: bool) -> object:
        return Criterion(criterion=name, one_vs_rest=one_vs_rest).loss(3)

    assert isinstance(named("logistic", False), Softmax)
    hinge = named("hinge", False)
    assert isinstance(hinge, MulticlassHinge)
    assert hinge.temperature == 0.1
    for name, kind in (("logistic", Logistic), ("hinge", SquaredHinge), ("squared", Squared)):
        loss = named(name, True)
        assert isinstance(loss, OneVsRest)
        assert isinstance(loss.loss, kind)


def test_measures_are_means_over_agents_of_all_samples() -> None:
    table, classes = Samples(rows=120).load("digits", 1)
    parts = deal(table, 3, train_share=0.75, seed=0)
    phi = Shape("RF-KL", (6,), ("gaussian",)).build(table.inputs, (1.0,), 0)
    loss = Softmax(len(classes))
    task = ClassTask(parts, phi, loss=loss, regularizer=0.3, graph=nx.empty_graph(3))
    models = np.random.default_rng(0).standard_normal((3, 6, 10))
    found = task.measures(models)
    x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("train_inputs", "train_target"))
    labels = y.astype(int)
    values = [loss.value(phi(x) @ model, labels).mean() for model in models]
    right = [((phi(x) @ model).argmax(axis=1) == labels).mean() for model in models]
    assert found["train_loss"] == pytest.approx(np.mean(values), rel=1e-12)
    assert found["train_accuracy"] == pytest.approx(np.mean(right), rel=1e-12)
    assert [len(problem.labels) for problem in task.problems] == [30, 30, 30]
    assert all(problem.regularizer == pytest.approx(0.1) for problem in task.problems)
    # No other model can have a lower cost than the optimum.
    best = task.best_model()

    def cost(model: np.ndarray) -> float:  # type: ignore[type-arg]
        return sum(problem.value(model) for problem in task.problems)

    assert all(cost(best) < cost(best + 1e-3 * change) for change in models)


def test_where_rounding_ends_the_search_newton_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    table, classes = Samples(rows=150).load("digits", 0)
    (part,) = deal(table, 1, train_share=0.75, seed=0)
    phi = Shape("RF-KL", (12,), ("gaussian",)).build(table.inputs, (1.0,), 0)
    task = ClassTask([part], phi, loss=Softmax(len(classes)), regularizer=1e-3, graph=nx.empty_graph(1))
    best = task.best_model()

    minimize = scipy.optimize.minimize

    def cut_short(*arguments: object, options: dict[str, object], **others: object) -> object:
        return minimize(*arguments, options=options | {"maxiter": 8}, **others)

    monkeypatch.setattr("scipy.optimize.minimize", cut_short)
    np.testing.assert_allclose(task.best_model(), best, atol=1e-5)


def test_costs_to_reach_a_level() -> None:
    rounds = pd.DataFrame(
        {
            "algorithm": ["A"] * 3 + ["B"] * 3,
            "round": [1, 2, 3] * 2,
            "error": [8.0, 4.0, 2.0, 8.0, np.nan, 1.0],
            "transmissions": [10, 20, 30, 1, 2, 3],
        }
    )
    table = cost_to_reach(rounds, "error", [1.5, 4.0, 0.1], saves={"saved": ("A", "B")})
    assert table["error"].tolist() == [4.0, 1.5], "what nobody reached is left out"
    assert table["A"].tolist()[0] == 20
    assert np.isnan(table["A"].tolist()[1])
    assert table["B"].tolist() == [3, 3]
    assert table["saved"].tolist()[0] == pytest.approx(85.0)
    assert ladder(rounds, "error", 1.0, count=2) == {4.0, 2.0}


# --- over a network ---------------------------------------------------------------------------------------------------


def test_one_run_for_each_map_method_and_loss(network: Study) -> None:
    assert list(network.runs) == [
        f"{kind} {each}"
        for kind in ("DKL-MLP", "RF-KL")
        for each in ("DKLA", "COKE", "QC-ODKLA", "DKLA, loss 0.1", "COKE, loss 0.1")
    ]
    last = network.rounds.groupby("algorithm").last()
    assert (last.loc[["DKL-MLP DKLA", "RF-KL DKLA"], "payload_bits"] == 4 * 40 * 64 * 20 * 10).all()
    assert last.loc["DKL-MLP COKE", "transmissions"] < 4 * 40
    coded = last.loc["DKL-MLP QC-ODKLA"]
    assert coded["payload_bits"] == coded["transmissions"] * (4 * 20 * 10 + 32)


def test_lost_frames_show_in_the_duals_and_the_notes_say_so(network: Study) -> None:
    last = network.rounds.groupby("algorithm").last()
    lossy = last.index.str.endswith("loss 0.1")
    assert (last.loc[lossy, "dual_residual"] > 1e-6).all()
    assert (last.loc[~lossy, "dual_residual"] < 1e-9).all()
    said = [text for text in network.notes if "missed frames" in text]
    assert [text.split(" missed")[0] for text in said] == [name for name in network.runs if name.endswith("loss 0.1")]
    for name, text in zip([name for name in network.runs if name.endswith("loss 0.1")], said, strict=True):
        assert f"by {last.loc[name, 'dual_residual']:.3g}" in text


def test_tables_of_the_network(network: Study) -> None:
    ends = network.tables["ends"]
    assert len(ends) == 10 + 2
    centre = ends[ends["method"] == "centralised"].set_index("map")
    assert centre.loc["RF-KL 20", "test_accuracy"] == network.centralised["RF-KL 20 test_accuracy"]
    table = network.tables["cost_to_reach"]
    best = network.centralised["DKL-MLP 10+10 train_loss"]
    rounds = network.rounds
    row = table[table["map"] == "DKL-MLP 10+10"].dropna(subset=["DKLA"]).iloc[-1]
    mine = rounds[(rounds["algorithm"] == "DKL-MLP DKLA") & (rounds["train_loss"] <= row["times"] * best)]
    assert row["DKLA"] == mine["transmissions"].iloc[0]
    assert set(network.figures) == {"train_loss_dkl_mlp", "train_loss_rf_kl", "test_error"}


@pytest.mark.slow
def test_coke_saves_on_a_matrix_without_losses_and_with() -> None:
    study = run("deep_network", agents=6, rounds=100, width=30, tune=False)
    table = study.tables["cost_to_reach"]
    for column in ("COKE saves %", "COKE saves %, loss 0.1"):
        assert table.groupby("map")[column].max().min() > 20, column
    ends = study.tables["ends"].set_index(["map", "method", "loss"])["test_accuracy"]
    for name in ("DKL-MLP 30+30", "RF-KL 60"):
        assert ends[name, "COKE", 0.0] == pytest.approx(ends[name, "DKLA", 0.0], abs=0.01)
        assert ends[name, "DKLA", 0.1] < ends[name, "DKLA", 0.0]


def test_a_run_that_never_speaks_is_named() -> None:
    study = run("deep_network", **NETWORK | {"loss": 0.0, "threshold": 1e6, "rounds": 3})
    (said,) = [text for text in study.notes if "nothing was ever sent" in text]
    assert said.startswith("DKL-MLP COKE, DKL-MLP QC-ODKLA, RF-KL COKE")
    assert " DKLA" not in said


def own_table(folder: Path, name: str, labels: Any) -> None:
    x = np.random.default_rng(0).random((len(labels), 2))
    rows = "\n".join(f"{a},{b},{c}" for (a, b), c in zip(x, labels, strict=True))
    (folder / f"{name}.csv.gz").write_bytes(gzip.compress(f"a,b,y\n{rows}\n".encode()))


QUICK: dict[str, Any] = {"widths": "5", "repeats": 1, "tune": False}


@only_with("sklearn")
@pytest.mark.usefixtures("undrawn")
def test_odd_tables_end_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    # The training part has almost only one class: the library refuses it, while the feature maps can learn.
    own_table(tmp_path, "rare", ["x"] * 39 + ["y"])
    study = run("deep", data="rare", **QUICK | {"seed": 1})
    assert len(study.tables["comparison"]) >= 4
    # Integers that are not class labels.
    own_table(tmp_path, "counts", np.random.default_rng(1).integers(1000, size=120))
    assert "test_mse" in run("deep", data="counts", **QUICK).tables["comparison"]
    # Class names that matplotlib would parse as formulas.
    own_table(tmp_path, "money", ["$5k-$10k", "$\\foo$"] * 30)
    study = run("deep", data="money", **QUICK)
    study.save(tmp_path / "out")
    assert (tmp_path / "out" / "confusion.png").is_file()
    # A constant target.
    own_table(tmp_path, "flat", np.full(60, 0.5))
    assert len(run("coke", data="flat", agents=3, rounds=5, features=5).runs) == 3


def test_a_smooth_hinge_is_tuned_like_squares() -> None:
    for temperature in (1e-6, 0.1, 1.0):
        assert ridge_regularizer(MulticlassHinge(2, temperature), 1e-4) == 1e-4


def test_links_that_are_ideal_run_once_and_others_beside_them() -> None:
    quick = NETWORK | {"rounds": 3, "agents": 3}
    assert not any("," in name for name in run("deep_network", **quick | {"loss": 0.0}).runs)
    late = run("deep_network", **quick | {"loss": 0.0, "latency": 1.5})
    assert [name for name in late.runs if name.startswith("RF-KL DKLA")] == ["RF-KL DKLA", "RF-KL DKLA, latency 1.5"]
    assert late.runs["RF-KL DKLA"].ledger.exits[DELIVERED] > 0
    assert late.runs["RF-KL DKLA, latency 1.5"].ledger.exits[DELIVERED] == 0
    assert late.tables["ends"]["links"].dropna().unique().tolist() == ["ideal", "latency 1.5"]
    channel = Channel(loss=0.1, burst=3.0, slot=2.0, rate=1e4, budget=5e5)
    label = Case(Shape("RF-KL", (6,), ("gaussian",)), "DKLA", channel, {}).links
    assert label == "loss 0.1, burst 3, slot 2, rate 10000, budget 500000"


def test_one_agent_alone_sends_nothing() -> None:
    study = run("deep_network", **NETWORK | {"agents": 1, "rounds": 3, "rows": 100})
    assert (study.rounds["link_messages"] == 0).all()
    assert not any("missed frames" in text for text in study.notes)
    last = study.rounds.groupby("algorithm").last()
    for kind, shape in (("DKL-MLP", "DKL-MLP 10+10"), ("RF-KL", "RF-KL 20")):
        best = study.centralised[f"{shape} train_loss"]
        assert last.loc[f"{kind} DKLA", "train_loss"] == pytest.approx(best, rel=1e-6)


# --- the network that is trained in all its layers --------------------------------------------------------------------


@only_with("sklearn")
@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("count", [60, 400, 1001])
def test_the_library_minimises_the_cost_of_the_dissertation(classes: int, count: int) -> None:
    """The cost (5.3) is the mean loss + λ‖W‖², for any number of samples."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    rng = np.random.default_rng(0)
    x = rng.standard_normal((count, 4))
    y = rng.integers(0, classes, count) if classes else rng.standard_normal(count)
    lam = 0.7
    alpha, batch = penalty_of(lam, count, classes)
    assert batch <= 200
    assert 0 <= -count % batch <= 0.05 * batch, "batches are about equal"
    # With step sizes too small to change the weights, the library reports the cost of its initial weights.
    kind = MLPClassifier if classes else MLPRegressor
    network = kind(
        hidden_layer_sizes=(5, 3), alpha=alpha, batch_size=batch, max_iter=1, learning_rate_init=1e-12, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(x, y)
    if classes:
        loss = -np.mean(np.log(network.predict_proba(x)[np.arange(count), y]))
    else:
        loss = np.mean((network.predict(x) - y) ** 2)
    weights = sum(float(np.sum(each**2)) for each in network.coefs_)
    assert lam * weights > loss
    found = network.loss_ * (1 if classes else 2)
    # The mean over batches weights each batch by its size, so it is exact if all sizes are equal.
    assert found == pytest.approx(loss + lam * weights * math.ceil(count / batch) * batch / count, rel=1e-9)


@only_with("sklearn")
@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("count", [120, 10_050])
def test_the_network_is_given_that_cost(classes: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    made: list[Any] = []
    kind = MLPClassifier if classes else MLPRegressor
    fit = kind.fit
    monkeypatch.setattr(kind, "fit", lambda self, *args: made.append(self.set_params(max_iter=1)) or fit(self, *args))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((count, 4))
    y = rng.integers(0, classes, count).astype(float) if classes else rng.standard_normal(count)
    deep_network(AgentData(x, y, x[:20], y[:20]), [5], classes, regularizer=1e-2, seed=0)
    (network,) = made
    # Samples held out for early stopping are not trained on.
    learned = count if count < 10_000 else count - count // 10
    assert (network.alpha, network.batch_size) == penalty_of(1e-2, learned, classes)


# --- real data --------------------------------------------------------------------------------------------------------


@needs_data
def test_a_regression_stands_beside_the_published_table() -> None:
    study = run("deep", data="tomshardware", rows=1500, repeats=1, ceiling_rows=300, tune=False)
    table = study.tables["comparison"].set_index(["method", "widths"])
    assert table.loc[("RF-KL", "100"), "published mse"] == 1.94e-4
    assert table.loc[("DKL-MLP", "200+200"), "published mse"] == 1.54e-4
    assert table.loc[("DNN", "25+25"), ["parameters", "published mse"]].tolist() == [3101, 0.8e-4]
    assert np.isnan(table.loc[("RF-KL", "400"), "published mse"])
    assert (table["test_mse"] < 1e-2).all()
    assert set(study.figures) == {"parameters"}
    with pytest.raises(BadInput, match="criterion = 'hinge', one_vs_rest = False: must be squared"):
        run("deep", data="tomshardware", criterion="hinge")


@needs_data
def test_what_differs_from_the_published_data_is_said() -> None:
    small = {"rows": 500, "repeats": 1, "ceiling_rows": 0, "tune": False}
    adult = run("deep", data="adult", widths="100", **small)
    majority = next(text for text in adult.notes if text.startswith("Always saying '<=50K'"))
    assert 0.65 < float(majority.split(" of ")[1].split("%")[0]) / 100 < 0.85
    assert adult.tables["comparison"]["published accuracy"].notna().sum() == 5
    sensor = run("deep", data="sensorless_subset", **small)
    assert any("58,509 rows of Sensor. Here: 500 rows" in text for text in sensor.notes)
    assert not any("Always saying" in text for text in sensor.notes)


@only_with("sklearn")
def test_a_table_of_ones_own_is_a_regression_where_its_target_has_fractions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    x = np.random.default_rng(0).random((60, 2))
    for name, target in (("numbers", x[:, 0] * x[:, 1]), ("kinds", (x[:, 0] > 0.5).astype(int))):
        rows = "\n".join(f"{a},{b},{c}" for (a, b), c in zip(x, target, strict=True))
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress(f"a,b,y\n{rows}\n".encode()))
    options: dict[str, Any] = {"widths": "5", "repeats": 1, "tune": False, "ceiling_rows": 0}
    tables = [
        catalogue.find_study("deep").execute(data=name, **options).tables["comparison"].columns
        for name in ("numbers", "kinds")
    ]
    assert "test_mse" in tables[0]
    assert "test_accuracy" in tables[1]


@only_with("sklearn")
def test_house_prices_are_numbers_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    own_table(tmp_path, "houses", np.arange(200) % 40 * 1000)
    options = QUICK | {"ceiling_rows": 0}
    numbers = run("deep", data="houses", **options)
    assert numbers.notes[0] == (
        "target 'y': 40 different whole numbers in 200 rows, taken as numbers; --classes takes them as classes"
    )
    assert "test_mse" in numbers.tables["comparison"]
    classes = run("deep", data="houses", classes=True, **options)
    assert "test_accuracy" in classes.tables["comparison"]
    assert (numbers.settings["criterion"], classes.settings["criterion"]) == ("squared", "logistic")
    with pytest.raises(BadInput, match="data = 'houses': must have classes to tell apart; target 'y': 40 different"):
        run("deep_network", data="houses")
    assert run("deep_network", data="houses", classes=True, **NETWORK | {"rows": 100, "rounds": 2, "agents": 2}).runs


def test_what_was_left_open_is_in_the_settings_once_resolved() -> None:
    study = run("deep_network", **NETWORK | {"rounds": 2})
    assert study.settings["edges"] == 6, "all pairs of 4"
    assert study.settings["criterion"] == "squared"
    assert PaperSamples().resolved("tomshardware").rows == 11_000
    assert PaperSamples(rows=5).resolved("tomshardware").rows == 5
    assert MapSetting().resolved("adult").widths == MapSetting.by_data()["widths"]["adult"] == "100,500"
    assert MapSetting(widths="7").resolved("adult").widths == "7"


def test_the_defaults_of_a_study_are_those_of_its_flags() -> None:
    found = {each.name: each.default for each in catalogue.find_study("deep_network").parameters}
    assert (found["loss"], found["criterion"]) == (0.1, "squared")
    assert {each.name: each.default for each in catalogue.find_study("deep").parameters}["criterion"] is None


@pytest.mark.parametrize(("name", "settings"), [("deep", {}), ("polk", {"data": "brodatz"})])
def test_what_compares_with_scikit_learn_names_the_extra(
    name: str, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(BadInput, match=r"must go with sklearn, which is not installed: .* pip install '\.\[learn\]'"):
        run(name, **settings)


@only_with("sklearn")
def test_the_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    table, classes = Samples().load("digits", seed=0)
    inputs, numbers = load_digits(return_X_y=True)
    # The prepared data set has its rows in another order.
    ours, theirs = np.c_[table.inputs, table.target], np.c_[unit(inputs), numbers]
    assert sorted(map(bytes, ours)) == sorted(map(bytes, theirs))
    assert classes == tuple("0123456789")
