"""The study neural: its measures and figures, its flags, and its refusals."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim import BadInput, Link, Network, Setup
from netsim.coders import Uniform
from netsim.scenarios.neural import experiment, gradient_methods
from netsim.scenarios.tasks.baselines import BASELINES
from netsim.scenarios.tasks.method import agents_of
from netsim.scenarios.tasks.neural import NetworkModel, NeuralLearning, NeuralSamples, NeuralTask
from netsim.scenarios.tasks.settings import NetworkSize
from netsim.studies import Study, catalogue
from netsim.studies.seeds import Seeds
from tests.command import call, call_apart
from tests.parts import only_with

pytestmark = pytest.mark.usefixtures("all_undrawn")

SMALL: dict[str, Any] = {"data": "digits", "rows": 300, "hidden": "8", "agents": 5, "rounds": 20, "evaluated": 50}
MEASURES = ["train_loss", "test_error", "test_accuracy", "mean_model_train_loss", "mean_model_test_error"]

needs_data = pytest.mark.skipif("NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set: MNIST is not at hand")


def run(**parameters: Any) -> Study:
    return catalogue.find_study("neural").execute(**{**SMALL, **parameters})


def made(agents: int = 10, seed: int = 0, rounds: int = 1, **given: Any) -> NeuralTask:
    """Return a task of the digits; ``given`` may have fields of the samples and the model, and ``evaluated``."""
    samples = {name: given.pop(name) for name in ("rows", "partition") if name in given}
    measured = {"evaluated": given.pop("evaluated")} if "evaluated" in given else {}
    parts: dict[str, Any] = {"samples": NeuralSamples(**samples), "model": NetworkModel(**given), **measured}
    problem = NeuralLearning(data="digits", size=NetworkSize(agents=agents), **parts)
    return problem.make(Setup(Seeds(seed=seed), rounds))


def test_the_measures_are_those_of_the_models() -> None:
    task = made(rows=300, agents=4, hidden="8", evaluated=1000, seed=2)
    rng = np.random.default_rng(1)
    thetas = 0.3 * rng.standard_normal((4, task.size))
    found = task.measures(thetas)
    parts = [(cost.model.scores(np, cost.start + thetas[0], cost._inputs), cost._labels) for cost in task.costs]
    labels = np.concatenate([each for _, each in parts])
    assert len(labels) == 240, "four fifths train"
    losses = [
        np.average([cost.value(theta) for cost in task.costs], weights=[cost.samples for cost in task.costs])
        for theta in [*thetas, thetas.mean(axis=0)]
    ]
    assert found["train_loss"] == pytest.approx(np.mean(losses[:4]), rel=1e-12)
    assert found["mean_model_train_loss"] == pytest.approx(losses[4], rel=1e-12)
    assert found["test_accuracy"] == pytest.approx(1 - found["test_error"])
    inputs, numbers = task._test
    wrong = [
        np.mean(task.network.scores(np, task.costs[0].start + t, inputs).argmax(axis=1) != numbers) for t in thetas
    ]
    assert found["test_error"] == pytest.approx(np.mean(wrong), rel=1e-12)


def test_models_that_grew_without_bound_are_wrong_everywhere() -> None:
    task = made(rows=100, agents=2, hidden="4", seed=1)
    found = task.measures(np.full((2, task.size), np.inf))
    assert found["test_error"] == found["mean_model_test_error"] == 1.0
    assert not np.isfinite(found["train_loss"])


def test_a_start_that_prefers_no_class_is_not_always_right() -> None:
    task = made(agents=2, model="softmax", seed=1)
    found = task.measures(np.zeros((2, task.size)))
    assert found["train_loss"] == pytest.approx(np.log(10))
    assert 0.85 < found["test_error"] < 0.95


def test_models_are_measured_in_some_rounds_and_in_the_first_and_the_last() -> None:
    rounds = run(every=8, rounds=20).rounds
    measured = rounds.loc[rounds["train_loss"].notna(), "round"].tolist()
    assert measured == [1, 8, 16, 20]
    assert rounds["consensus_error"].notna().all()
    assert (rounds[MEASURES].notna().sum(axis=1) == np.where(rounds["round"].isin(measured), 5, 0)).all()


def test_d_psgd_learns_the_digits() -> None:
    study = run(rows=None, hidden="32", agents=6, rounds=150, eta=0.3, evaluated=1000)
    last = study.rounds.iloc[-1]
    assert last["train_loss"] < 0.5
    assert last["test_error"] < 0.12
    assert last["payload_bits"] == 6 * 150 * 64 * 2410
    assert {"error", "loss"} <= set(study.figures)
    assert "partition" not in study.figures


def test_labels_that_differ_cost_accuracy_and_are_shown() -> None:
    given: dict[str, Any] = {"rows": None, "rounds": 60, "hidden": "16", "agents": 10}
    even = run(**given)
    uneven = run(**given, partition="dirichlet:0.1")
    last, worse = even.rounds.iloc[-1], uneven.rounds.iloc[-1]
    assert worse["test_error"] > last["test_error"] + 0.1
    assert worse["consensus_error"] > 3 * last["consensus_error"]
    assert "partition" in uneven.figures
    assert len(uneven.tables["partition"]) == 10
    assert any(note.startswith("Partition dirichlet:0.1") for note in uneven.notes)


def test_every_baseline_of_gradients_runs() -> None:
    names = list(gradient_methods())
    assert set(BASELINES) - set(names) == {"R-ADMM"}
    study = run(algorithms=",".join(names), rounds=8, every=8)
    ends = study.tables["ends"]
    assert ends["algorithm"].tolist() == names
    assert np.isfinite(ends["train_loss"]).all()
    assert (ends["train_loss"] < 2.6).all()
    notes = " ".join(study.notes)
    for name in ("EF21", "EF21-P", "FedAvg", "SCAFFOLD", "SCAFFOLD-states"):
        assert f"{name} runs over a star" in notes


def test_the_step_is_that_of_eta_and_of_set() -> None:
    study = run(algorithms="D-PSGD,EXTRA", eta=0.07, set="EXTRA.eta=0.03", rounds=2)
    used = study.origin["methods"]
    assert (used["D-PSGD"]["eta"], used["EXTRA"]["eta"]) == (0.07, 0.03)
    usual = run(algorithms="D-PSGD,SGP", rounds=2).origin["methods"]
    assert [usual[name]["eta"] for name in ("D-PSGD", "SGP")] == [
        BASELINES[name].given["eta"] for name in ("D-PSGD", "SGP")
    ]


def test_float32_is_computed_and_sent() -> None:
    double, single = run(), run(dtype="float32")
    assert 2 * single.rounds["payload_bits"].iloc[-1] == double.rounds["payload_bits"].iloc[-1]
    ours, theirs = single.rounds["train_loss"].iloc[-1], double.rounds["train_loss"].iloc[-1]
    assert ours != theirs
    assert ours == pytest.approx(theirs, rel=1e-3)
    coded = run(dtype="float32", algorithms="CHOCO,AD-PSGD", rounds=2)
    assert coded.origin["methods"]["CHOCO"]["coder"] == "Uniform(bits=4)"


def test_the_seeds_are_of_their_own() -> None:
    def first(**seeds: int) -> tuple[Any, ...]:
        study = run(rounds=3, every=1, loss=0.4, **seeds)
        agents = next(iter(study.runs.values())).agents
        row = study.rounds.iloc[-1]
        return row["delivered"], agents[0].cost._inputs.tolist(), row["train_loss"]

    usual = first(seed=1)
    assert first(seed=1) == usual
    assert first(seed=1, loss_seed=5)[1] == usual[1]
    assert first(seed=1, loss_seed=5)[0] != usual[0]
    assert first(seed=1, data_seed=5)[1] != usual[1]
    assert first(seed=2, data_seed=1)[1] == usual[1]


@pytest.mark.parametrize(("model", "size"), [("softmax", 650), ("mlp", 64 * 6 + 6 + 6 * 5 + 5 + 5 * 10 + 10)])
def test_the_models_have_their_layers(model: str, size: int) -> None:
    study = run(model=model, hidden={"softmax": None, "mlp": "6,5"}[model], rounds=1)
    assert any(note.startswith(f"Each model has {size:,} parameters") for note in study.notes)


def test_a_convolutional_network_learns() -> None:
    study = run(model="cnn", hidden="4", rows=500, rounds=60, agents=3, eta=0.3, evaluated=100)
    losses = study.rounds["train_loss"].dropna()
    assert losses.iloc[-1] < 0.6 * losses.iloc[0]
    assert any("0.weight 3 x 3 x 1 x 4" in note for note in study.notes)


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    inputs = rng.standard_normal((200, 3))
    kinds = np.array(["cat", "dog"])[(inputs @ [2.0, -1.0, 0.5] > 0).astype(int)]
    lines = [f"{kind},{a:.4f},{b:.4f},{c:.4f}" for kind, (a, b, c) in zip(kinds, inputs, strict=True)]
    (tmp_path / "own.csv").write_text("\n".join(["kind,a,b,c", *lines]))
    own: dict[str, Any] = {"data": str(tmp_path / "own.csv"), "target": "kind", "rows": None, "hidden": None}
    study = run(**own, model="softmax", rounds=200, eta=1.0)
    assert study.rounds["test_error"].iloc[-1] < 0.15
    assert any("Each model has 8 parameters" in note for note in study.notes)
    with pytest.raises(BadInput, match=r"^model = 'cnn': must be with square images of 4 x 4 pixels at least; .* 3"):
        run(**own, model="cnn")


def test_what_cannot_be_is_refused() -> None:
    for given, message in (
        ({"model": "tree"}, r"^model = 'tree': must be one of "),
        ({"model": "softmax", "hidden": "8"}, r"^hidden = '8': must be left out for the model 'softmax'"),
        ({"hidden": "8,x"}, r"^hidden = '8,x': must be whole numbers >= 1, with commas between$"),
        ({"hidden": "0"}, r"^hidden = '0': must be whole numbers"),
        ({"batch": -1}, r"^batch = -1: must be "),
        ({"eta": 0.0}, r"^eta = 0"),
        ({"every": 0}, r"^every = 0"),
        ({"evaluated": 0}, r"^evaluated = 0"),
        ({"dtype": "half"}, r"^dtype = 'half': must be one of "),
        ({"backend": "cupy"}, r"^backend = 'cupy': must be one of "),
        ({"partition": "even"}, r"^partition = 'even': must be "),
        ({"algorithms": "R-ADMM"}, r"^algorithms = 'R-ADMM': must be one of "),
        ({"agents": 200}, r"^agents = 200: must be at most 150"),
    ):
        with pytest.raises(BadInput, match=message):
            run(**given)


def test_without_real_data_the_digits_are_learned(tmp_path: Path) -> None:
    words = ("--rounds", "2", "--hidden", "4", "--out", "made")
    done = call("run", "neural", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Data: digits; netsim data get mnist fetches mnist." in done.stdout
    assert '"data": "digits"' in (tmp_path / "made" / "settings.json").read_text()
    assert (tmp_path / "made" / "error.png").exists()


@pytest.mark.slow
def test_workers_give_the_same_rounds(tmp_path: Path) -> None:
    words = ("run", "neural", "--data", "digits", "--rows", "200", "--rounds", "5", "--hidden", "4")
    for name, more in (("one", ()), ("two", ("--workers", "2"))):
        done = call(*words, *more, "--out", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "one" / "rounds.csv").read_bytes() == (tmp_path / "two" / "rounds.csv").read_bytes()


@only_with("jax")
def test_jax_repeats_to_the_byte_over_workers_and_agrees_with_numpy(tmp_path: Path) -> None:
    words = ("run", "neural", "--data", "digits", "--rows", "300", "--rounds", "20", "--hidden", "8")
    words += ("--partition", "dirichlet:0.1", "--batch", "16")
    for name, more in {"once": (), "spread": ("--workers", "2")}.items():
        done = call_apart(*words, "--backend", "jax", *more, "--out", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    first = (tmp_path / "once" / "rounds.csv").read_bytes()
    assert (tmp_path / "spread" / "rounds.csv").read_bytes() == first
    assert '"libraries"' in (tmp_path / "once" / "settings.json").read_text()
    assert call(*words, "--out", "numpy", cwd=tmp_path).returncode == 0
    ours, theirs = (
        np.genfromtxt(tmp_path / name / "rounds.csv", delimiter=",", names=True) for name in ("numpy", "once")
    )
    np.testing.assert_allclose(theirs["consensus_error"], ours["consensus_error"], rtol=0, atol=1e-10)
    np.testing.assert_allclose(theirs["train_loss"], ours["train_loss"], rtol=0, atol=1e-10)


@needs_data
def test_mnist_is_learned() -> None:
    study = catalogue.find_study("neural").execute(partition="dirichlet:0.1", rounds=100)
    last = study.rounds.iloc[-1]
    assert study.settings["data"] == "mnist"
    assert last["test_error"] < 0.5
    assert last["mean_model_test_error"] < 0.3


def test_a_task_for_a_script() -> None:
    task = made(rows=200, agents=4, hidden="8", rounds=5, partition="shards:2", seed=3)
    agents = agents_of(BASELINES["D-PSGD"], task, 5)
    rounds = Network(task.graph, seed=3).run(agents, [task.measure]).rounds
    assert rounds["train_loss"].notna().tolist() == [True, False, False, False, True]
    again = agents_of(BASELINES["D-PSGD"], task, 5)
    Network(task.graph, seed=3).run(again, [task.measure])
    np.testing.assert_array_equal(agents[2].theta, again[2].theta)
    with pytest.raises(BadInput, match=r"^hidden = "):
        made(hidden="-1")


def test_compute_times_stand_beside_rounds_and_bits() -> None:
    plain, timed = run(rounds=5), run(rounds=5, compute="0.5", round_period=0.1)
    assert timed.rounds["time_s"].tolist() == pytest.approx([0.6 * k for k in range(1, 6)])
    assert timed.rounds["train_loss"].iloc[-1] == plain.rounds["train_loss"].iloc[-1]
    assert [panel.get_xlabel() for panel in timed.figures["error"].axes] == [
        "round",
        "simulated time (s)",
        "bits on the wire",
    ]


def test_the_definition_composes() -> None:
    class Jam:
        mean = 0.5

        def on_link(self, u: float) -> Any:
            return lambda drawn: drawn < u

    small = experiment(data="digits", samples=NeuralSamples(rows=100), size=NetworkSize(agents=3, rounds=2))
    own = small.with_values({"problem.model.hidden": "4", "eta": 0.05, "methods.D-PSGD.coder": Uniform(4)})
    lossy = dataclasses.replace(own, networks={"ideal": own.networks[""], "jammed": Link(loss=Jam())})
    runs = lossy.run().runs
    assert runs["network"].tolist() == ["ideal", "jammed"]
    assert runs["payload_bits"].tolist() == [3 * 2 * (4 * 310 + 32)] * 2
    assert runs["delivered"].iloc[1] < runs["delivered"].iloc[0]
