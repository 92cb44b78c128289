"""The study projections: the ensembles that it draws, and the contents of its run folder."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from netsim import BadInput
from netsim.agents.projections.estimate import State, distance, limit
from netsim.scenarios.data.choice import Columns
from netsim.scenarios.projections.ensembles import Drawn, Plane, field, ground_of
from netsim.studies import Study, catalogue
from netsim.studies.terminal import Reporter
from tests.parts import slow

pytestmark = pytest.mark.usefixtures("all_undrawn")

SMALL: Mapping[str, object] = {"agents": 8, "examples": 40, "radius": 0.4, "sweeps": 15}


def run(**parameters: object) -> Study:
    return catalogue.find_study("projections").execute(**SMALL | parameters)


def drawn(seed: int, **parameters: Any) -> Drawn:
    ground = ground_of("field", Columns(), seed)
    return Plane(**parameters).resolved(ground).draw(ground, seed)


def ends(study: Study) -> pd.DataFrame:
    return study.rounds.groupby("algorithm", sort=False).last()


@pytest.fixture(scope="module")
def small() -> Study:
    return run()


def test_it_compares_the_orders(small: Study) -> None:
    last = ends(small)
    assert list(last.index) == ["token", "coloured", "random", "contention"]
    assert (last["turns"] == 8 * 15).all()
    # On an ideal radio a turn costs one broadcast; passing the token costs one more, except after the last turn.
    assert last.loc["coloured", "transmissions"] == 120
    assert last.loc["token", "transmissions"] == 239
    assert last.loc["contention", "transmissions"] > 5 * 120
    assert last.loc["coloured", "time_s"] <= last.loc["token", "time_s"]
    assert (last["raw_data_bits"] == 0).all()
    assert set(small.figures) == {"distance", "errors", "field"}
    assert {"ends", "cost_to_reach"} <= set(small.tables)


def test_the_distance_to_the_limit_never_grows(small: Study) -> None:
    ensemble = drawn(seed=0, agents=8, examples=40, radius=0.4).ensemble
    untrained = State(ensemble.targets, [np.zeros(len(own)) for own in ensemble.access])
    start = distance(ensemble, untrained, limit(ensemble))
    for _, rows in small.rounds.groupby("algorithm"):
        assert (np.diff(rows["limit_distance"], prepend=start) <= 1e-12).all()
        assert rows["limit_distance"].iloc[-1] < 0.3 * start
    assert not [note for note in small.notes if "grew" in note]


def test_costs_are_those_of_the_first_row_that_is_near_enough(small: Study) -> None:
    costs = small.tables["cost_to_reach"]
    assert (costs.groupby("algorithm")["transmissions"].diff().dropna() >= 0).all()
    row = costs[(costs["algorithm"] == "token") & (costs["share"] == 0.5)].iloc[0]
    rounds = small.rounds[small.rounds["algorithm"] == "token"].set_index("time_s")
    assert rounds.loc[row["time_s"], "transmissions"] == row["transmissions"]


def test_the_curve_is_the_same_whatever_the_links_do() -> None:
    lossy = run(loss=0.2, latency=0.01, orders="token,coloured", sweeps=30)
    ideal = run(orders="token,coloured", sweeps=30)
    far = [dict(zip(rows["turns"], rows["limit_distance"], strict=True)) for rows in map(token_rows, (lossy, ideal))]
    same = far[0].keys() & far[1].keys()
    assert len(same) > 5
    np.testing.assert_allclose([far[0][k] for k in same], [far[1][k] for k in same], rtol=0, atol=1e-12)
    assert (ends(lossy)["lost"] > 0).all()
    np.testing.assert_allclose(ends(lossy)["limit_distance"], ends(ideal)["limit_distance"], rtol=0, atol=1e-12)


def token_rows(study: Study) -> pd.DataFrame:
    return study.rounds[study.rounds["algorithm"] == "token"]


@pytest.mark.parametrize("medium", ["wires", "radio"])
def test_one_agent_alone_is_the_centralised_solution(medium: str) -> None:
    study = run(ensemble="centralised", agents=1, sweeps=2, medium=medium)
    last = ends(study)
    assert (last["transmissions"] == 0).all()
    np.testing.assert_allclose(last["test_mse"], study.centralised["test_mse"], rtol=1e-9)


def test_agents_that_all_read_everything_learn_the_centralised_solution() -> None:
    study = run(ensemble="centralised", agents=3, examples=6, sigma=0.1, sweeps=60, orders="token,coloured")
    last = ends(study)
    np.testing.assert_allclose(last["plane_mse"], study.centralised["test_mse"], rtol=1e-6)


def test_the_folder_is_whole(small: Study, tmp_path: Path) -> None:
    folder = small.save(tmp_path / "out")
    assert {"distance.png", "errors.png", "field.png", "cost_to_reach.csv", "ends.csv"} <= {
        each.name for each in folder.iterdir()
    }
    assert run(orders="random", sweeps=3).trace_hash == run(orders="random", sweeps=3).trace_hash


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ensemble": "sensor"}, r"ensemble = 'sensor': must be one of centralised, public, sensors"),
        ({"orders": "token,colored"}, r"orders = 'colored': must be one of"),
        ({"radius": 0.01}, r"radius = 0.01, agents = 8, examples = 40: must make it likely"),
        ({"ensemble": "public", "public": 50}, r"public = 50: must be a whole number from 1 to 40"),
        ({"agents": 0}, r"agents = 0: must be a whole number >= 1"),
        ({"sweeps": 0}, r"sweeps = 0: must be a whole number >= 1"),
        ({"noise": -1.0}, r"noise = -1.0: must be a number >= 0"),
        ({"regularizer": 0.0}, r"regularizer = 0.0: must be a number > 0"),
        ({"pause": 0.0}, r"pause = 0.0: must be a number > 0"),
        ({"pause": float("nan")}, r"pause = nan: must be a number > 0"),
        ({"orders": "token,token"}, r"orders = 'token,token': must be different ones"),
        ({"radius": 0.0}, r"radius = 0.0: must be a number > 0"),
        ({"public": 0}, r"public = 0: must be a whole number >= 1"),
        ({"budget": 500.0}, r"budget = 500: must be at least \d+ bits, the largest message's values"),
        ({"budget": -1.0}, r"budget = -1.0: must be a number > 0"),
        ({"duration": 0.0}, r"duration = 0.0: must be a number > 0"),
        ({"data": "feild"}, r"data = 'feild': must be field or a table \(did you mean 'field'\?\)"),
        ({"target": "x"}, r"target = 'x': must be left out for the data 'field', which are no table"),
        ({"examples": 0}, r"examples = 0: must be a whole number >= 1"),
    ],
)
def test_what_makes_no_sense_is_refused(
    parameters: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Study, "run", None)  # The refusal must happen before any run.
    with pytest.raises(BadInput, match=message):
        run(**parameters)


@pytest.mark.parametrize(
    "links",
    [slow({}), {"latency": 0.01, "rate": 1e5}, slow({"loss": 0.2}), {"loss": 0.2, "medium": "wires", "rate": 5e4}],
    ids=["ideal", "rate", "lossy", "wires"],
)
def test_no_run_is_longer_than_its_progress_tells(links: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    told = {}

    def progress(self: Reporter, label: str, total: int, unit: str = "") -> Any:
        told[label] = total
        return nullcontext(lambda number: None)

    monkeypatch.setattr(Reporter, "progress", progress)
    for name, rows in run(**links).rounds.groupby("algorithm"):
        assert told[name] / 8 <= len(rows) <= told[name], name


# --- a table of one's own ---------------------------------------------------------------------------------------------


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    x = np.random.default_rng(0).random((300, 3))
    places = pd.DataFrame({"east": 9 * x[:, 0], "north": 5 * x[:, 1], "heat": 20 + 3 * field(x[:, :2])})
    places.to_csv(tmp_path / "places.csv", index=False)
    places.assign(day="2011-01-01", depth=x[:, 2]).to_csv(tmp_path / "deep.csv", index=False)
    return tmp_path


def test_sensors_learn_the_places_of_a_table(tables: Path) -> None:
    study = run(data="places", agents=6, examples=100, radius=0.5, orders="token,coloured", sweeps=60)
    assert study.notes[0] == "target 'heat': numbers with fractions in 300 rows, taken as numbers"
    assert study.settings["sigma"] == 0.25
    assert study.settings["noise"] == 0.0
    assert "field" in study.figures
    # Joint learning also predicts rows that no agent reads, better than their mean.
    variance = float(np.var(ground_of("places", Columns(), 0).truth))
    assert (ends(study)["test_mse"] < 0.3 * variance).all()
    assert study.centralised["test_mse"] < 0.2 * variance


def test_a_database_has_any_number_of_inputs(tables: Path) -> None:
    options: dict[str, object] = {"data": "deep", "target": "heat", "drop": "day", "agents": 4, "examples": 60}
    study = run(ensemble="public", public=20, orders="token", sweeps=20, **options)
    assert "field" not in study.figures, "three inputs"
    assert study.settings["sigma"] > 0.3, "the median distance"
    assert (ends(study)["test_mse"] > 0).all()
    with pytest.raises(BadInput, match=r"ensemble = 'sensors': must be public or centralised for 3 inputs"):
        run(**options)


def test_rows_for_the_test_are_never_read(tables: Path) -> None:
    ground = ground_of("places", Columns(), 3)
    assert len(ground.truth) == 90
    inputs, targets = ground.examples(210, np.random.default_rng(0))
    assert len(np.unique(inputs, axis=0)) == len(targets) == 210
    assert not {tuple(each) for each in ground.points} & {tuple(each) for each in inputs}
    stands = ground.stands(5, np.random.default_rng(0))
    assert {tuple(each) for each in stands} <= {tuple(each) for each in inputs}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"data": "places", "noise": 0.1}, r"noise = 0.1: must be left out for a table"),
        ({"data": "places", "examples": 211}, r"examples = 211: must be a whole number from 1 to 210"),
        ({"data": "deep"}, r"column 'day' of .* holds dates such as '2011-01-01': leave it out with --drop day"),
        ({"data": "places", "drop": "heat"}, r"drop = 'heat': must not be the target"),
    ],
)
def test_what_a_table_cannot_be(
    tables: Path, parameters: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Study, "run", None)
    with pytest.raises(BadInput, match=message):
        run(**parameters)


# --- ensembles --------------------------------------------------------------------------------------------------------


def test_sensors_read_what_is_near() -> None:
    found = drawn(seed=4, agents=12, examples=80, radius=0.3)
    ensemble, places = found.ensemble, found.places
    assert places is not None
    assert nx.is_connected(ensemble.sharers)
    for own, place in zip(ensemble.access, places, strict=True):
        away = np.linalg.norm(ensemble.inputs - place, axis=1)
        assert own.tolist() == [j for j in range(80) if away[j] <= 0.3]
    assert ensemble.regularizers.sum() == pytest.approx(1.0)
    residuals = ensemble.targets - field(ensemble.inputs)
    assert residuals.std() == pytest.approx(0.3, rel=0.25)


def test_a_public_database_is_read_by_all_and_the_rest_by_one() -> None:
    ensemble = drawn(seed=0, ensemble="public", agents=7, examples=40, public=6).ensemble
    readers = np.bincount(np.concatenate(ensemble.access), minlength=40)
    assert readers.tolist() == [7] * 6 + [1] * 34
    assert ensemble.sharers.number_of_edges() == 21


def test_in_the_limit_agents_that_share_agree_on_what_they_share() -> None:
    ensemble = drawn(seed=1, agents=6, examples=30, radius=0.45, sigma=0.1).ensemble
    goal = limit(ensemble)
    for gram, own, coefficients in zip(ensemble.grams, ensemble.access, goal.coefficients, strict=True):
        np.testing.assert_allclose(gram @ coefficients, goal.z[own], rtol=0, atol=1e-9)
