"""Lifetimes: compared with power × time by hand, with and without sleep; refusals, and the run folder's files."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim import BadInput
from netsim.studies import Study, catalogue

SMALL = {"agents": 4, "edges": 5, "features": 20, "rounds": 120, "battery": 2.0}
LISTEN = 18.8e-3 * 3.0  # W of listening; receiving needs the same power


def run(**parameters: Any) -> Study:
    return catalogue.find_study("lifetime").execute(**{**SMALL, **parameters})


@pytest.fixture(scope="module")
def study() -> Study:
    return run(algorithms="DKLA,COKE 3-bit", spread=0.0)


def rows(study: Study) -> dict[tuple[str, str], dict[str, float]]:
    table = study.tables["lifetime"].set_index(["algorithm", "radio"])
    return {(str(method), str(radio)): row for (method, radio), row in table.to_dict("index").items()}


def test_a_radio_that_always_listens_lasts_as_long_whatever_is_said(study: Study) -> None:
    found = rows(study)
    for method in ("DKLA", "COKE 3-bit"):
        # Sending needs slightly less power than listening, but takes only a few percent of the time.
        expected = 2.0 / LISTEN
        assert found[method, "listens always"]["first_death_rounds"] == pytest.approx(expected, abs=2)
        assert found[method, "listens always"]["median_death_rounds"] == pytest.approx(expected, abs=2)
        assert found[method, "listens always"]["sleep_mj"] == 0.0


def test_a_round_costs_power_times_time(study: Study) -> None:
    for (_, radio), row in rows(study).items():
        mj = sum(row[f"{state}_mj"] for state in ("transmit", "receive", "listen", "sleep"))
        awake = row["awake_%"] / 100
        # Awake radios need 56.4 mW, less what sending at 52.2 mW saves; asleep 60 uW. A round lasts 1 s.
        saved = row["transmit_mj"] * (56.4 / 52.2 - 1)
        assert mj == pytest.approx(56.4 * awake + 0.06 * (1 - awake) - saved, rel=0.02), radio


def test_days_and_charge_are_those_of_rounds_and_joules(study: Study) -> None:
    for row in rows(study).values():
        assert row["battery_mah"] == pytest.approx(2.0 / 3.0 / 3.6)
        joules = 1e-3 * sum(row[f"{state}_mj"] for state in ("transmit", "receive", "listen", "sleep"))
        assert row["mah_a_day"] == pytest.approx(joules * 86_400 / 3.0 / 3.6)
        if math.isfinite(row["first_death_rounds"]):
            assert row["first_death_days"] == row["first_death_rounds"] / 86_400
    # A receiver of 18.8 mA uses 451 mAh per day.
    assert rows(study)["DKLA", "listens always"]["mah_a_day"] == pytest.approx(18.8 * 24, rel=0.01)


def test_who_sleeps_lives_longer_and_who_says_less_sleeps_more(study: Study) -> None:
    found = rows(study)
    assert found["DKLA", "sleeps"]["awake_%"] > found["COKE 3-bit", "sleeps"]["awake_%"]
    first = found["DKLA", "sleeps"]["first_death_rounds"]
    assert math.isnan(first) or first > found["DKLA", "listens always"]["first_death_rounds"]
    assert found["COKE 3-bit", "sleeps"]["transmit_mj"] < found["DKLA", "sleeps"]["transmit_mj"]


def test_sleep_loses_no_message_while_all_live(study: Study) -> None:
    for name in ("DKLA, sleeps", "COKE 3-bit, sleeps"):
        before = study.runs[name].rounds
        first = rows(study)[tuple(name.split(", "))]["first_death_rounds"]  # type: ignore[index]
        row = before[before["round"] < (first if math.isfinite(first) else np.inf)].iloc[-1]
        assert row["asleep"] == row["late"] == row["lost"] == row["collided"] == row["half_duplex"] == 0


def test_the_error_is_that_of_the_last_round_in_which_all_lived(study: Study) -> None:
    row = rows(study)["DKLA", "listens always"]
    rounds = study.runs["DKLA, listens always"].rounds.set_index("round")
    assert row["train_mse"] == rounds.loc[int(row["first_death_rounds"]) - 1, "train_mse"]


def test_batteries_differ_by_their_spread() -> None:
    study = run(algorithms="CTA", spread=0.5, sleep=False)
    (row,) = rows(study).values()
    held = np.sort(np.random.default_rng(0).uniform(0.5, 1.5, 4)) * 2.0 / LISTEN
    assert row["first_death_rounds"] == pytest.approx(held[0], abs=2)
    # The second of four batteries is the median.
    assert row["median_death_rounds"] == pytest.approx(held[1], abs=2)


def test_batteries_that_last_are_said_to() -> None:
    study = run(algorithms="COKE 3-bit", rounds=20, battery=50.0, sleep=True)
    (row,) = rows(study).values()
    assert math.isnan(row["first_death_rounds"])
    assert math.isnan(row["median_death_rounds"])
    assert "Half of the batteries or more outlast the 20 rounds: COKE 3-bit (sleeps)." in study.notes


def test_the_run_folder_has_table_and_figure(study: Study, tmp_path: Path) -> None:
    study.save(tmp_path / "run")
    assert {"alive.png", "lifetime.csv"} <= {file.name for file in (tmp_path / "run").iterdir()}


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"battery": 0.0}, "battery = 0"),
        ({"battery": float("nan")}, "battery = nan"),
        ({"spread": 1.0}, r"spread = 1.0: must be a number in \[0, 1\)"),
        ({"spread": -0.1}, "spread = -0.1"),
        ({"period": 0.01}, "period = 0.01: must be at least"),
        ({"algorithms": "DKLA,COKES"}, "algorithms = 'COKES': must be one of CTA, DKLA"),
        ({"rounds": 0}, "rounds = 0"),
    ],
)
def test_bad_input_is_refused_by_name(parameters: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        run(**parameters)


# --- a site -----------------------------------------------------------------------------------------------------------

SITE = """
radio = {power_dbm = -10}
motes = {a = {position = [0, 0]}, b = {position = [10, 0], power_dbm = 0}, roof = {position = [10, 10]}}
interferers = {ap = {kind = "wifi", position = [14, 3]}}
"""


@pytest.fixture
def on_site(tmp_path: Path) -> Callable[..., Study]:
    (tmp_path / "mine.toml").write_text(SITE)
    of_site = {"agents": 10, "edges": None, "site": str(tmp_path / "mine.toml")}
    return lambda **parameters: run(**{"algorithms": "DKLA", "rounds": 15, "battery": 0.5, **of_site, **parameters})


def test_motes_of_a_site_learn_and_spend_with_powers_of_their_own(on_site: Callable[..., Study]) -> None:
    study = on_site(spread=0.0, sleep=False)
    (row,), made = rows(study).values(), study.runs["DKLA, listens always"]
    assert list(made.agents) == ["a", "b", "roof"]
    assert row["first_death_rounds"] == pytest.approx(0.5 / LISTEN, abs=1)
    sent = made.energy.set_index("agent")["transmit_s"]
    # CC2420 at 3 V: 11.2 mA at -10 dBm, 17.4 mA at 0 dBm.
    joules = 3.0 * (11.2e-3 * (sent["a"] + sent["roof"]) + 17.4e-3 * sent["b"])
    lived = np.minimum(made.energy["died_at_s"], made.ended_at).sum()
    assert row["transmit_mj"] == pytest.approx(1e3 * joules / lived)
    ends = dict(zip(made.ledger.causes, made.ledger.exits, strict=True))
    assert ends["delivered"] > ends["collided"] > 0, "some meet the access point's frames"


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"agents": 4}, "agents = 4: must be left out with site"),
        ({"edges": 4}, "edges = 4: must be left out with site"),
        ({"set": "site.start=2"}, "site: start = 2.0: must be 0: all motes learn from the first round"),
        ({"set": "site.warm_up=2"}, "site: warm_up = 2.0: must be 0: batteries are used from the beginning"),
        ({"set": "site.connected=false,site.path_loss.exponent=9"}, "connected = False: must have paths between all"),
        ({"set": "DKLA.rho=2"}, "set = 'DKLA.rho': must be site.PATH=VALUE"),
        ({"site": None, "set": "site.start=2"}, "set = 'site.start=2': must come with site"),
    ],
)
def test_what_a_site_cannot_have_is_refused(
    on_site: Callable[..., Study], parameters: dict[str, object], says: str
) -> None:
    with pytest.raises(BadInput, match=says):
        on_site(**parameters)
