"""The study `polk`: its problems compared with computed properties, and small runs."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netsim import BadInput
from netsim.scenarios.data.choice import ClassChoice
from netsim.scenarios.data.mixtures import Mixtures, draw_mixtures
from netsim.scenarios.data.textures import (
    FILE,
    TEXTURES,
    Patches,
    cut_patches,
    load_textures,
    nearest_texton,
    neighborhoods,
)
from netsim.scenarios.polk.problems import centralised_accuracy, source_of
from netsim.scenarios.polk.task import Learning, ProblemSetting, batches, draw_problem
from netsim.studies import Study, catalogue
from netsim.studies.seeds import Seeds
from tests.parts import every, only_with

needs_data = pytest.mark.skipif(
    "NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set: real data are not at hand"
)


def run(**parameters: object) -> Study:
    return catalogue.find_study("polk").execute(**parameters)


SMALL = {"agents": 4, "density": 0.6, "samples": 330, "checks": 3}


# --- mixtures ---------------------------------------------------------------------------------------------------------


def test_bayes_is_the_most_probable_class() -> None:
    mixtures = draw_mixtures(np.random.default_rng(1))
    x, _ = mixtures.draw(200, np.random.default_rng(2))
    for point, chosen in zip(x, mixtures.bayes(x), strict=True):
        probable = [
            sum(np.exp(-((point - mean) @ (point - mean)) / (2 * 0.2**2)) / (2 * np.pi * 0.2**2) for mean in modes) / 3
            for modes in mixtures.means
        ]
        assert chosen == int(np.argmax(probable))


def test_bayes_accuracy_of_two_gaussians_is_known() -> None:
    # For two modes at a distance of 2 s the best classifier is right with probability Φ(1).
    mixtures = Mixtures(np.array([[[0.0, 0.0]], [[0.4, 0.0]]]), 0.2)
    x, y = mixtures.draw(200_000, np.random.default_rng(3))
    assert np.mean(mixtures.bayes(x) == y) == pytest.approx(0.841345, abs=0.003)
    far = np.array([[1e3, 1e3], [-1e3, 0.0]])
    assert mixtures.bayes(far).tolist() == [1, 0]


def test_mixtures_are_drawn_as_described() -> None:
    mixtures = draw_mixtures(np.random.default_rng(4), classes=4, modes=2000, spread=0.5)
    assert mixtures.means.mean(axis=1) == pytest.approx(np.array([[1, 0], [0, 1], [-1, 0], [0, -1]]), abs=0.1)
    assert mixtures.means.std(axis=1) == pytest.approx(1.0, abs=0.1)
    x, y = Mixtures(np.zeros((4, 3, 2)), 0.5).draw(40_000, np.random.default_rng(5))
    assert x.std(axis=0) == pytest.approx(0.5, abs=0.01)
    assert np.bincount(y) == pytest.approx(10_000, abs=400)
    with pytest.raises(BadInput, match=r"^classes = 1: "):
        draw_mixtures(np.random.default_rng(0), classes=1)


def test_every_agent_sees_the_whole_training_set_in_an_order_of_its_own() -> None:
    setting = ProblemSetting(agents=3, density=0.9, samples=100, sigma=1.0)
    problem = draw_problem(source_of("mixtures", ClassChoice()), setting, Seeds(seed=0))
    parts = list(batches(problem, 0, 2, 6))
    assert [len(y) for _, y in parts] == [17, 17, 17, 17, 16, 16] * 2
    first, second = (np.concatenate([x for x, _ in half]) for half in (parts[:6], parts[6:]))
    other = np.concatenate([x for x, _ in batches(problem, 1, 1, 6)])
    for seen in (first, second, other):
        assert np.array_equal(np.sort(seen, axis=0), np.sort(problem.split.inputs, axis=0))
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, other)


# --- the study --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["logistic", "hinge", "squared"])
def test_a_small_study_learns(criterion: str) -> None:
    study = run(criterion=criterion, repeats=2, compare=False, **SMALL)
    table = study.tables["draws"]
    assert table["seed"].tolist() == [0, 1]
    assert (table["points below"] < 12).all()
    assert (table["worst agent"] <= table["accuracy"]).all()
    assert (table["largest"] < 60).all()
    assert (table["missing"] == 0).all()
    rounds = study.rounds[study.rounds["algorithm"] == "draw 0"]
    assert rounds["samples"].iloc[-1] == 330
    # Accuracy is measured in rounds 1, 3, 7 and 10; a request sends 2 numbers per sample, and the reply 5.
    assert rounds["accuracy"].notna().sum() == 4
    assert (7 * table["raw_data_bits"] == 2 * table["payload_bits"]).all()
    assert set(study.figures) == {"progress", "surface"}


@pytest.mark.slow
def test_doubling_the_penalty_lowers_the_disagreement() -> None:
    study = run(samples=1200, agents=6, density=0.5, checks=1)
    table = study.tables["penalties"]
    assert table["c"].iloc[1:].to_numpy() * 2 ** np.arange(2, -1, -1) == pytest.approx(table["c"].iloc[3])
    assert (np.diff(table["disagreement"]) < 0).all()
    assert "penalties" in study.figures


def test_what_does_not_come_in_time_is_counted() -> None:
    study = run(latency=0.6, compare=False, **SMALL)
    last = study.rounds.iloc[-1]
    assert last["missing"] == last["link_messages"] / 2 > 0
    lossy = run(loss=0.2, compare=False, **SMALL)
    assert lossy.rounds["missing"].iloc[-1] == lossy.rounds["lost"].iloc[-1] > 0


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = (run(compare=False, seed=5, **SMALL) for _ in range(2))
    assert first.trace_hash == second.trace_hash != run(compare=False, seed=6, **SMALL).trace_hash
    assert first.rounds.equals(second.rounds)


@every(
    ("parameters", "message"),
    [
        ({"data": "brodats"}, r"^data = 'brodats': .*did you mean 'brodatz'"),
        ({"criterion": "hing"}, r"^criterion = 'hing': .*did you mean 'hinge'"),
        ({"repeats": 0}, r"^repeats = 0: "),
        ({"checks": 0}, r"^checks = 0: "),
        ({"agents": 0}, r"^agents = 0: "),
        ({"target": "x"}, r"^target = 'x': must be left out for the data 'mixtures'"),
        ({"batch": 0}, r"^batch = 0: "),
        ({"samples": 0}, r"^samples = 0: "),
        ({"doubling": -1}, r"^doubling = -1: "),
        ({"limit": 2.0}, r"^limit = 2.0: "),
        ({"sigma": 0.0}, r"^sigma = 0.0: "),
        ({"eta": -1.0}, r"^eta = -1.0: "),
        ({"seed": -1}, r"^seed = -1: "),
    ],
)
def test_bad_parameters_are_refused_in_one_line(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        run(**({"samples": 50, "agents": 3, "density": 0.9, "compare": False} | parameters))


def test_what_is_left_open_is_what_works_for_the_data() -> None:
    source = source_of("mixtures", ClassChoice())
    found = ProblemSetting().resolved("mixtures", source)
    assert (found.agents, found.samples, found.sigma, found.density) == (20, 5000, 0.5, 0.2)
    assert ProblemSetting(agents=3, sigma=0.1).resolved("mixtures", source).agents == 3
    rule = Learning(criterion="hinge", eta=2.0).resolved("brodatz")
    assert (rule.eta, rule.parsimony, rule.penalty, rule.doubling) == (2.0, 0.05, 0.02, 0)
    assert Learning.by_data()["eta"]["mixtures"] == "6 / 3 / 0.5"


@only_with("sklearn")
def test_a_table_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    x = np.random.default_rng(0).random((400, 2))
    kinds = np.where(x[:, 0] > 0.5, "right", np.where(x[:, 1] > 0.5, "above", "below"))
    frame = pd.DataFrame({"a": x[:, 0], "b": 50 * x[:, 1], "kind": kinds, "price": np.arange(400)})
    frame.drop(columns="price").to_csv(tmp_path / "own.csv", index=False)
    frame.to_csv(tmp_path / "priced.csv", index=False)
    small = {"agents": 3, "density": 1.0, "checks": 1, "compare": False, "batch": 8}
    study = run(data="own", **small)
    assert study.notes[0] == "target 'kind': 3 different texts in 400 rows, taken as classes"
    assert study.settings["samples"] == 280
    assert 0.1 < study.settings["sigma"] < 0.5
    assert study.tables["draws"]["accuracy"].iloc[0] > 0.85
    assert study.tables["draws"]["central SVM"].iloc[0] > 0.9
    assert study.tables["by_class"]["class"].tolist() == ["above", "below", "right"]
    assert set(study.figures) == {"progress", "surface"}
    again = run(data="own", repeats=2, **small)
    assert again.runs["draw 0"].trace_hash == study.runs["draw 0"].trace_hash != again.runs["draw 1"].trace_hash
    wide = run(data="priced", target="kind", tune=True, **small)
    assert "surface" not in wide.figures, "three inputs"
    with pytest.raises(BadInput, match="must have classes to tell apart; target 'price': 400 different whole numbers"):
        run(data="priced")
    with pytest.raises(BadInput, match="samples = 400: must be a whole number from 1 to 399"):
        run(data="own", samples=400)


# --- textures ---------------------------------------------------------------------------------------------------------


def stripes(classes: int = 3, size: int = 96) -> np.ndarray:
    """Draw noisy stripes with a different period and direction for each class."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:size, :size]
    waves = [np.sin(rows * 2 / (1 + c) + columns * c) for c in range(classes)]
    return np.stack([np.clip(128 + 80 * wave + 20 * rng.standard_normal(wave.shape), 0, 255) for wave in waves]).astype(
        np.uint8
    )


def of_patches(patches: Patches) -> Any:
    return (patches.train_inputs, patches.train_labels), (patches.test_inputs, patches.test_labels)


@only_with("sklearn")
def test_patches_are_histograms_and_tell_synthetic_textures_apart() -> None:
    patches = cut_patches(stripes(), 90, 60, textons=20, seed=1)
    assert patches.train_inputs.shape == (90, 20)
    assert np.sum(patches.test_inputs**2, axis=1) == pytest.approx(1.0)
    # Inputs are square roots of frequencies among 24 × 24 positions.
    counts = patches.train_inputs**2 * 576
    assert counts == pytest.approx(np.round(counts), abs=1e-9)
    assert np.bincount(patches.train_labels).tolist() == [30, 30, 30]
    assert centralised_accuracy(*of_patches(patches), 0.6) > 0.95
    again = cut_patches(stripes(), 90, 60, textons=20, seed=1)
    assert np.array_equal(patches.test_inputs, again.test_inputs)


@only_with("sklearn")
def test_what_is_tested_on_was_never_trained_on() -> None:
    # Training uses the left 60 of 100 columns, so changes to the right of these must not affect training.
    images = stripes(size=100)
    changed = images.copy()
    changed[:, :, 60:] = 255 - changed[:, :, 60:]
    first, second = (cut_patches(each, 30, 30, textons=10, seed=2) for each in (images, changed))
    assert np.array_equal(first.train_inputs, second.train_inputs)
    assert not np.array_equal(first.test_inputs, second.test_inputs)


def test_neighborhoods_and_the_nearest_texton() -> None:
    image = np.arange(48, dtype=np.uint8).reshape(6, 8)
    around = neighborhoods(image)
    assert around.shape == (2, 4, 25)
    window = image[1:6, 2:7] / 255.0
    assert around[1, 2] == pytest.approx((window - window.mean()).ravel())
    rng = np.random.default_rng(0)
    region, centres = rng.standard_normal((4, 5, 25)), rng.standard_normal((6, 25))
    distances = np.linalg.norm(region[:, :, None] - centres, axis=3)
    assert np.array_equal(nearest_texton(region, centres), distances.argmin(axis=2))


@only_with("sklearn")
def test_pictures_that_are_too_small_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^images.shape = \(3, 60, 60\): each part must be 28 x 28 pixels or more$"):
        cut_patches(stripes(size=60), 10, 10)
    with pytest.raises(BadInput, match=r"^textons = 20000: must be at most "):
        cut_patches(stripes(), 10, 10, textons=20000)


def save(folder: Path, **arrays: np.ndarray) -> None:
    np.savez(folder / f"{FILE}.npz", **arrays)


def test_pictures_are_read_by_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    with pytest.raises(BadInput, match=rf"^NETSIM_DATA = .* holds {FILE}.npz"):
        load_textures()
    images = stripes()
    save(tmp_path, x=images)
    with pytest.raises(BadInput, match=r"has no array 'ids': must hold x, ids$"):
        load_textures([1])
    save(tmp_path, x=images, ids=np.array([7, 5]))
    with pytest.raises(BadInput, match=r"ids.shape = \(2,\): must be \(3,\), a number for each image of x$"):
        load_textures([5])
    save(tmp_path, x=images.astype(float), ids=np.array([7, 5, 9]))
    with pytest.raises(
        BadInput, match=r"x is float64 \(3, 96, 96\): must be uint8 of shape \(images, height, width\)$"
    ):
        load_textures([5])
    save(tmp_path, x=images, ids=np.array([7, 5, 9]))
    with pytest.raises(BadInput, match=r"ids has no picture 8: must hold 9, 8$"):
        load_textures([9, 8])
    assert np.array_equal(load_textures([9, 7]), images[[2, 0]])


@only_with("sklearn")
def test_textures_need_their_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NETSIM_DATA", raising=False)
    with pytest.raises(BadInput, match=rf"^NETSIM_DATA is not set: must be a folder that holds {FILE}.npz"):
        run(data="brodatz", agents=3, density=0.9)


@only_with("sklearn")
def test_a_small_study_of_textures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    save(tmp_path, x=stripes(len(TEXTURES)), ids=np.array(list(TEXTURES.values())))
    study = run(data="brodatz", agents=3, density=0.9, samples=200, batch=20, checks=1, compare=False)
    table = study.tables["textures"]
    assert table["texture"].tolist() == list(TEXTURES)
    # Test patches are assigned to the classes in turn, so the mean over classes equals the total up to one patch.
    assert table["accuracy"].mean() == pytest.approx(study.tables["draws"]["accuracy"].iloc[0], abs=0.01)
    assert study.tables["draws"]["central SVM"].iloc[0] > 0.3
    assert "surface" not in study.figures


@needs_data
def test_the_real_pictures_are_there() -> None:
    assert load_textures().shape == (13, 256, 256)
