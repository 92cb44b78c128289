"""The ULB library study: on small tables in the same format, and on the real ones if available."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netsim import BadInput
from netsim.scenarios.ulb_library.readings import LibraryField, error_of, hindsight, load
from netsim.studies import Study, catalogue
from tests.parts import only_with

needs_data = pytest.mark.skipif("NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set: no real readings")
MOTES, MINUTES = (3, 4, 7), 40


def heard(minute: int, sender: int, receiver: int) -> bool:
    return sender != receiver and (minute + sender + 2 * receiver) % 4 != 0


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create data of three motes for 40 minutes; mote 4 is warmer, with no reading in minute 5 and two in minute 6."""
    links = [(t, r, s) for t in range(MINUTES) for s in MOTES for r in MOTES if heard(t, s, r)]
    pd.DataFrame(links, columns=["seq", "node", "src"]).to_csv(tmp_path / "ulb_library1_links.csv.gz", index=False)
    rows = []
    for minute in range(1, MINUTES):
        for mote in MOTES:
            humidity = 50 + 5 * (mote == 4) + 0.1 * minute
            temperature = 20 + 0.5 * (mote == 4) + np.sin(minute / 6)
            row = (1, 60_000 * minute, mote, minute, humidity, temperature)
            if (mote, minute) != (4, 5):
                rows.append(row)
            if (mote, minute) == (4, 6):
                rows.append((*row[:-1], 35.0))
    columns = ["part", "timestamp_ms", "node", "seq", "humidity", "temperature"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "ulb_library1_readings.csv.gz", index=False)
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    return tmp_path


def run(**parameters: Any) -> Study:
    given = {"rounds": MINUTES, "inputs": "time,humidity", "features": 8}
    return catalogue.find_study("ulb_library").execute(**{**given, **parameters})


def test_what_arrives_is_what_was_heard(library: Path) -> None:
    study = run(algorithms="RFF-DOKL,ODKLA")
    assert list(study.runs) == [
        "RFF-DOKL ideal",
        "RFF-DOKL heard",
        "ODKLA ideal",
        "ODKLA heard",
        "ODKLA running-sums",
        "ODKLA coded-sums",
        "alone",
    ]
    expected = {
        (a, b): sum(heard(t, MOTES[a], MOTES[b]) for t in range(MINUTES)) for a in range(3) for b in range(3) if a != b
    }
    for name in ("RFF-DOKL heard", "ODKLA heard", "ODKLA running-sums"):
        table = study.runs[name].ledger.table(["sender", "receiver"]).set_index(["sender", "receiver"])
        assert table["delivered"].to_dict() == expected
    assert study.runs["alone"].ledger.transmissions == 0
    assert {*study.figures} == {"errors", "predictions", "heard"}
    share = sum(expected.values()) / (6 * MINUTES)
    assert study.notes[0].startswith(f"3 motes, 40 minutes; {share:.1%} of the packets were heard")


def test_readings_are_held_and_known_to_be(library: Path) -> None:
    readings = load(MOTES, "time,humidity", MINUTES)
    assert readings.inputs.shape == (MINUTES, 3, 3)
    assert (readings.inputs.min(), readings.inputs.max()) == (0.0, 1.0)
    missing = {(int(t), MOTES[m]) for t, m in np.argwhere(~readings.present)}
    assert missing == {(0, 3), (0, 4), (0, 7), (5, 4)}
    assert readings.celsius[5, 1] == readings.celsius[4, 1]
    # The first of two readings in a minute is used, also for earlier minutes without a reading.
    assert readings.celsius[6, 1] == pytest.approx(20.5 + np.sin(1.0))
    assert readings.celsius[0, 0] == readings.celsius[1, 0]
    np.testing.assert_allclose(readings.hours, np.arange(MINUTES) / 60, atol=1 / 60)


class Mote:
    def __init__(self, theta: list[float]) -> None:
        self.theta = np.array(theta)


def test_the_field_is_judged_before_it_is_learned(library: Path) -> None:
    readings = load(MOTES, "humidity", MINUTES)
    features = np.ones((MINUTES, 3, 1))
    field = LibraryField(readings, features)
    agents = {mote: Mote([value]) for mote, value in enumerate((0.0, 0.5, 1.0))}
    assert np.isnan(field(agents)["own_error_c"])  # In minute 0 no mote has a reading yet.
    found = field(agents)
    low, high = readings.celsius.min(), readings.celsius.max()
    told = low + (high - low) * np.array([0.0, 0.5, 1.0])
    wrong = told[:, None] - readings.celsius[1]
    assert found["own_error_c"] == pytest.approx(np.sqrt(np.mean(np.diag(wrong) ** 2)))
    elsewhere = wrong[~np.eye(3, dtype=bool)]
    assert found["field_error_c"] == found["running_field_c"] == pytest.approx(np.sqrt(np.mean(elsewhere**2)))
    np.testing.assert_allclose(field.own[1], told)
    np.testing.assert_allclose(field.others[1], [told[[1, 2]].mean(), told[[0, 2]].mean(), told[[0, 1]].mean()])


@only_with("sklearn")
def test_the_fit_afterwards_is_ridge_regression(library: Path) -> None:
    from sklearn.linear_model import Ridge

    readings = load(MOTES, "humidity", MINUTES)
    features = np.concatenate([readings.inputs, np.ones((MINUTES, 3, 1))], axis=2)
    there = readings.present
    rows, target = features[there], readings.target[there]
    model = Ridge(alpha=1e-3 * len(rows), fit_intercept=False).fit(rows, target)
    expected = readings.celsius.min() + readings.span * (features @ model.coef_)
    found = hindsight(readings, features, MINUTES, 1e-3)
    np.testing.assert_allclose(found, expected, atol=1e-8)
    wrong = (expected - readings.celsius)[there]
    assert error_of(readings, found) == pytest.approx(np.sqrt(np.mean(wrong**2)))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"rounds": 41}, "rounds = 41: must be a whole number from 2 to 40"),
        ({"inputs": "position"}, "inputs = 'position'"),
        ({"algorithms": "QC-ODKLA"}, "algorithms = 'QC-ODKLA'"),
        ({"remedies": "prayer"}, "remedies = 'prayer'"),
        ({"step": 0.0}, "step = 0"),
        ({"sigma": -1.0}, "sigma = -1"),
    ],
)
def test_refusals(library: Path, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        run(**wrong)


def test_without_the_tables_one_line_says_what_is_missing(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (library / "ulb_library1_readings.csv.gz").unlink()
    with pytest.raises(BadInput, match=r"must be a folder that holds ulb_library1_readings.csv.gz"):
        run()
    monkeypatch.delenv("NETSIM_DATA")
    with pytest.raises(
        BadInput, match=r"NETSIM_DATA is not set: must be a folder that holds ulb_library1_links.csv.gz"
    ):
        run()


@needs_data
def test_the_real_library() -> None:
    study = catalogue.find_study("ulb_library").execute(algorithms="ODKLA", remedies="running-sums", rounds=300)
    assert study.notes[0].startswith("19 motes, 300 minutes;")
    table = study.tables["ends"].set_index("algorithm")["elsewhere_c"]
    assert table["ODKLA running-sums"] < table["ODKLA heard"]
    assert table["ODKLA ideal"] < table["alone"]
