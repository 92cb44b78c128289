"""The study of online multi-kernel learning: its known results, and the contents of the run folder."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from netsim import BadInput, topology
from netsim.scenarios.omkl.study import COLUMNS, _losses
from netsim.scenarios.omkl.task import ModelSetting, TwoClasses, two_bananas
from netsim.studies import Study, catalogue
from netsim.studies.seeds import DataSeed
from tests.oracle import multikernel
from tests.parts import every

pytestmark = pytest.mark.usefixtures("all_undrawn")

needs_data = pytest.mark.skipif(
    "NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set: real data are not at hand"
)

AGENTS, FEATURES, ROUNDS, BITS = 5, 6, 30, 3


def run(**parameters: object) -> Study:
    return catalogue.find_study("omkl").execute(**parameters)


@pytest.fixture(scope="module")
def study() -> Study:
    return run(agents=AGENTS, features=FEATURES, rounds=ROUNDS, rows=400, repeats=2)


def test_everything_runs_and_is_kept(study: Study, tmp_path: Path) -> None:
    ends = study.tables["ends"]
    assert list(ends["method"].unique()) == [
        "gossip path",
        "gossip path 3-bit",
        "gossip ring",
        "gossip ring 3-bit",
        "gossip complete",
        "gossip complete 3-bit",
        "Koloskova path 3-bit",
        "OMKL complete 3-bit",
    ]
    assert len(ends) == 16, "two steps"
    assert len(study.tables["losses"]) == 16 * ROUNDS
    assert len(study.runs) == 16, "the first repetition"
    folder = study.save(tmp_path / "out")
    names = {path.name for path in folder.iterdir()}
    assert {"ends.csv", "differences.csv", "losses.csv", "losses.png", "rounds.csv"} <= names


def test_links_and_bits_side_by_side(study: Study) -> None:
    ends = study.tables["ends"].set_index(["eta", "method"]).loc[0.1]
    model = 2 * FEATURES
    assert ends.loc["gossip path", "links"] == 4
    assert ends.loc["gossip ring", "links"] == 5
    assert ends.loc["gossip complete", "links"] == 10
    assert (ends["transmissions"] == AGENTS * ROUNDS).all(), "one broadcast an agent and round"
    assert ends.loc["gossip path", "link_messages"] == 2 * 4 * ROUNDS
    for name, payload in (
        ("gossip path", 3 * model * 64),
        ("gossip ring 3-bit", 3 * (model * (BITS + 1) + 32)),
        ("Koloskova path 3-bit", model * (BITS + 1) + 32),
        ("OMKL complete 3-bit", 3 * (model * (BITS + 1) + 32) + 3 * 32),
    ):
        assert ends.loc[name, "payload_bits"] == AGENTS * ROUNDS * payload, name
    assert study.rounds["raw_data_bits"].max() == 0


def test_losses_are_those_of_the_recursion(study: Study) -> None:
    # Recompute the first repetition from its streams, without a network.
    table = TwoClasses(rows=400).resolved("synthetic").table("synthetic", 0)
    number = int(np.random.SeedSequence(0).generate_state(2)[0])
    streams = ModelSetting(agents=AGENTS, features=FEATURES).streams(table, ROUNDS, DataSeed(seed=number))
    features = np.array([[z.reshape(3, -1) for z, _ in each] for each in streams]).swapaxes(0, 1)
    targets = np.array([[y for _, y in each] for each in streams]).T
    for graph in ("path", "ring", "complete"):
        weights = topology.metropolis_weights(getattr(topology, graph)(AGENTS))
        expected = multikernel.gossip(features, targets, weights, 1e-3, 0.1, 0.09).combined.mean(axis=1)
        rounds = study.runs[f"gossip {graph}, eta 0.1"].rounds
        np.testing.assert_allclose(rounds["loss"], expected, rtol=0, atol=1e-9)
        running = np.cumsum(expected) / np.arange(1, ROUNDS + 1)
        np.testing.assert_allclose(rounds["running_loss"], running, rtol=0, atol=1e-9)


def test_means_bands_and_tails(study: Study) -> None:
    losses = study.tables["losses"]
    part = losses[(losses["eta"] == 0.01) & (losses["method"] == "gossip path 3-bit")]
    row = study.tables["ends"].set_index(["eta", "method"]).loc[(0.01, "gossip path 3-bit")]
    assert row["running_loss"] == pytest.approx(part["running_loss"].iloc[-1])
    assert row["running_loss"] == pytest.approx(part["loss"].mean())
    assert row["tail_loss"] == pytest.approx(part["loss"].iloc[-3:].mean()), "a tenth of 30 rounds"
    assert (part["running_loss_band"].iloc[1:] > 0).all()
    assert part["loss"].iloc[0] == pytest.approx(np.log(2.0)), "no model yet"
    differences = study.tables["differences"].set_index(["eta", "method", "against"])
    ends = study.tables["ends"].set_index(["eta", "method"])["running_loss"]
    apart = differences.loc[(0.1, "gossip path", "gossip complete"), "running_loss"]
    assert apart == pytest.approx(ends[0.1, "gossip path"] - ends[0.1, "gossip complete"])


def test_what_lies_between_repetitions_is_students_interval(study: Study) -> None:
    """For two repetitions the half-width is 12.7 / 2 times their distance; two standard errors would be once."""
    assert study.titles["differences"].endswith("±: 95 % interval of the mean (Student's t, n = 2)")
    assert "bands: 95 % interval of the mean (Student's t, n = 2)" in study.figures["losses"].get_suptitle()
    rng = np.random.default_rng(3)
    rows = [
        {"eta": eta, "method": "m", "repetition": number, "round": 1, **dict.fromkeys(COLUMNS[1:], value)}
        for eta in range(2000)
        for number, value in enumerate(rng.normal(0.5, 0.1, 3))
    ]
    losses = _losses(pd.DataFrame(rows))
    assert ((losses["running_loss"] - 0.5).abs() <= losses["running_loss_band"]).mean() == pytest.approx(0.95, abs=0.02)


def test_what_is_shown_holds(study: Study) -> None:
    differences = study.tables["differences"]
    by_what = differences.groupby("about")
    assert by_what.get_group("links")[["running_loss %", "tail_loss %"]].abs().max().max() < 1.0
    assert by_what.get_group("bits")[["running_loss", "tail_loss"]].abs().max().max() < 1e-3
    said = [note for note in study.notes if note.startswith("eta = 0.1: gossip on path (4 links)")]
    assert len(said) == 1
    bound = float(said[0].split("within ")[1].split(" %")[0])
    links = by_what.get_group("links")
    worst = links.loc[links["eta"] == 0.1, "running_loss %"].abs().max()
    assert worst <= bound <= 1.2 * worst


def test_the_same_again() -> None:
    first, again = (run(agents=3, features=4, rounds=10, rows=60, eta="0.1", gamma="0.09", repeats=2) for _ in range(2))
    assert again.trace_hash == first.trace_hash
    assert again.tables.keys() == first.tables.keys()
    for name, table in first.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table)


def test_repetitions_differ_and_the_first_does_not_depend_on_how_many() -> None:
    small = {"agents": 4, "features": 4, "rounds": 10, "rows": 100, "topologies": "path", "algorithms": "gossip"}
    one, two = run(repeats=1, **small), run(repeats=2, **small)
    pd.testing.assert_frame_equal(one.rounds, two.rounds)
    assert one.tables["losses"]["running_loss_band"].isna().all()
    last = [each.tables["ends"]["running_loss"].iloc[0] for each in (one, two)]
    assert last[0] != last[1]
    assert "losses" in one.figures


def test_one_agent_and_lossy_wires() -> None:
    alone = run(agents=1, features=4, rounds=10, rows=20, topologies="path,complete", repeats=1)
    assert (alone.tables["ends"]["payload_bits"] == 0).all()
    lossy = run(agents=5, features=4, rounds=20, rows=100, loss=0.2, medium="wires", repeats=1)
    ends = lossy.tables["ends"].set_index(["eta", "method"]).loc[0.1]
    assert ends.loc["gossip complete 3-bit", "wire_bits"] > 2 * ends.loc["gossip path 3-bit", "wire_bits"]
    assert np.isfinite(ends["running_loss"]).all()


def test_the_synthetic_problem() -> None:
    inputs, target = two_bananas(2000, seed=3)
    assert set(target) == {-1.0, 1.0}
    np.testing.assert_allclose(inputs.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(inputs.std(axis=0), 1.0)
    nearest = np.linalg.norm(inputs[:1000, None] - inputs[None, 1000:], axis=2).argmin(axis=1)
    assert np.mean(target[1000:][nearest] == target[:1000]) > 0.9, "crescents can be told apart"
    line = inputs @ np.linalg.lstsq(inputs, target, rcond=None)[0]
    assert np.mean(np.sign(line) == target) < 0.9, "but not by a line as well"
    np.testing.assert_array_equal(two_bananas(2000, seed=3)[0], inputs)


def test_scaling() -> None:
    for scaling in ("unit", "variance", "none"):
        inputs = TwoClasses(rows=50, scaling=scaling).resolved("synthetic").table("synthetic", 0).inputs
        if scaling == "unit":
            assert inputs.min() == 0.0
            assert inputs.max() == 1.0
        else:
            np.testing.assert_allclose(inputs.std(axis=0), 1.0)


@every(
    ("parameters", "says"),
    [
        ({"topologies": "path,rong"}, "topologies = 'rong': must be one of path, ring, star, complete"),
        ({"algorithms": "gosip"}, "algorithms = 'gosip': must be one of gossip, Koloskova, OMKL"),
        ({"sigmas": "1,x"}, "sigmas = '1,x': must be positive numbers with commas between"),
        ({"sigmas": "1,0"}, "sigmas = '1,0': must be positive"),
        ({"eta": "0.1"}, "eta = [0.1], gamma = [0.009, 0.09]: must be a gamma for each eta"),
        ({"eta": "0.1,0.1"}, "eta = [0.1, 0.1], gamma = [0.009, 0.09]: must be a gamma for each eta"),
        ({"bits": 17}, "bits = 17: must be"),
        ({"repeats": 0}, "repeats = 0: must be"),
        ({"agents": 0}, "agents = 0: must be"),
        ({"agents": 2}, "agents = 2: must be a whole number >= 3"),
        ({"rounds": 10**6}, "rounds = 1000000: must be"),
        ({"scaling": "log"}, "scaling = 'log': must be one of"),
        ({"positive": "1"}, "positive = '1': must be left out"),
        ({"target": "x"}, "target = 'x': must be left out for the data 'synthetic', which are no table"),
        ({"agents": 100_000}, "agents = 100000: must be at most 4000"),
        ({"medium": "air"}, "medium = 'air': must be one of"),
        ({"regularizer": -1.0}, "regularizer = -1.0: must be"),
    ],
)
def test_bad_parameters(parameters: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        run(**parameters)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_what_is_left_open_is_as_the_data_ask_for() -> None:
    for data, rows, positive, scaling in (
        ("synthetic", 4000, None, "none"),
        ("mnist", 10_000, "8", "unit"),
        ("banana", None, None, "none"),
        ("houses", None, None, "unit"),
    ):
        found = TwoClasses().resolved(data)
        assert (found.rows, found.positive, found.scaling) == (rows, positive, scaling)
    given = TwoClasses(rows=7, positive="3", scaling="none").resolved("mnist")
    assert (given.rows, given.positive, given.scaling) == (7, "3", "none")


def test_a_table_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    x = np.random.default_rng(0).random((90, 2))
    frame = pd.DataFrame({"kind": np.arange(90) % 3, "a": x[:, 0], "when": "2011-01-01", "price": np.arange(90)})
    frame.to_csv(tmp_path / "own.csv", index=False)
    quick = {"algorithms": "gossip", "topologies": "path", "rounds": 5, "agents": 3, "repeats": 1, "features": 4}
    study = run(data="own", target="kind", drop="when,price", positive="1", **quick)
    assert study.notes[0] == "target 'kind': 3 different whole numbers in 90 rows, taken as classes"
    assert study.settings["scaling"] == "unit"
    assert study.settings["rounds"] == 5
    with pytest.raises(BadInput, match=r"column 'when' of .* holds dates"):
        run(data="own")
    with pytest.raises(BadInput, match="must have classes to tell apart; target 'price': 90 different whole numbers"):
        run(data="own", drop="when")
    with pytest.raises(BadInput, match="agents = 1000: must be at most 90, the rows"):
        run(data="own", target="kind", drop="when", positive="1", agents=1000)


@needs_data
@pytest.mark.parametrize(("data", "rows"), [("banana", 1000), ("credit_default", 1000), ("mnist", 600)])
def test_real_data_need_few_links_and_few_bits(data: str, rows: int) -> None:
    study = run(data=data, rows=rows, topologies="path,complete", algorithms="gossip", repeats=1)
    differences = study.tables["differences"].groupby("about")
    assert differences.get_group("links")[["running_loss %", "tail_loss %"]].abs().max().max() < 1.0
    assert differences.get_group("bits")[["running_loss", "tail_loss"]].abs().max().max() < 1e-3
    assert (study.tables["ends"]["tail_loss"] < np.log(2.0)).all(), "it learns"
