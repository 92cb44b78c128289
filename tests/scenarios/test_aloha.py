"""The shared channel: closed forms, carrier sense, and rooms whose stations do not sense each other."""

import math
from typing import Any

import numpy as np
import pytest

from netsim.errors import BadInput
from netsim.studies import Study, catalogue

FRAME = 8 * 100 / 250e3


def shared(**settings: Any) -> Study:
    return catalogue.find_study("aloha").execute(**settings)


def carried(study: Study) -> dict[str, float]:
    table = study.tables["carried"]
    return dict(zip(table["access"], table["carried_%"] / 100, strict=True))


@pytest.mark.slow
def test_what_is_carried_is_the_closed_form() -> None:
    load, duration = 0.5, 20.0
    found = carried(shared(agents=41, load=load, duration=duration))
    # A station does not collide with itself, so of 40 stations only 39 interfere.
    for name, formula in (
        ("ALOHA", load * math.exp(-2 * load * 39 / 40)),
        ("slotted ALOHA", load * math.exp(-load * 39 / 40)),
    ):
        # Collisions come in groups, so their count deviates about 1.5 times as much as a Poisson count.
        deviation = 1.5 * math.sqrt(formula * duration / FRAME) * FRAME / duration
        assert abs(found[name] - formula) < 4 * deviation, name


def test_the_figure_has_throughput_against_load_beside_the_closed_forms() -> None:
    study = shared(agents=41, duration=2.0)
    (panel,) = study.figures["throughput"].axes
    lines = {str(line.get_label()): np.asarray(line.get_xydata(), dtype=float) for line in panel.lines}
    assert (panel.get_xlabel()[:12], panel.get_ylabel()[:10]) == ("offered load", "throughput")
    for name, formula in (
        ("slotted ALOHA", lambda load: load * np.exp(-load)),
        ("ALOHA", lambda load: load * np.exp(-2 * load)),
    ):
        measured = lines.pop(f"{name}, measured")
        (theory,) = (points for label, points in lines.items() if label.startswith(f"{name}, $"))
        assert theory[:, 1] == pytest.approx(formula(theory[:, 0]))
        assert theory[-1, 0] >= measured[-1, 0] > 1.8
        # Of 40 stations only 39 interfere; collisions come in groups, with 1.5 times a Poisson count's deviation.
        deviation = 1.5 * np.sqrt(formula(measured[:, 0]) * FRAME / 2.0)
        assert (np.abs(measured[:, 1] - formula(measured[:, 0])) < 4 * deviation + 0.01).all()
    assert (lines["CSMA, measured"][:, 1] > 0.05).all()
    table = study.tables["carried"].set_index("access")["carried_%"] / 100
    at_half = lines["CSMA, measured"][2]
    assert at_half[1] == pytest.approx(table["CSMA"], abs=1e-4), "the table's load is one of them"


@pytest.mark.slow
def test_carrier_sense_gains_and_hidden_rooms_take_it_back() -> None:
    runs = {rooms: carried(shared(load=0.5, rooms=rooms)) for rooms in (1, 2, 30)}
    assert runs[1]["CSMA"] > 1.2 * runs[1]["slotted ALOHA"] > 1.2 * runs[1]["ALOHA"]
    assert runs[1]["CSMA"] > 1.2 * runs[2]["CSMA"] > 1.2 * runs[30]["CSMA"]
    assert runs[30]["CSMA"] == pytest.approx(runs[30]["ALOHA"], rel=0.2)
    # ALOHA does not sense the carrier, so hidden stations make no difference.
    assert runs[1]["ALOHA"] == runs[2]["ALOHA"] == runs[30]["ALOHA"]


def test_every_frame_has_one_end() -> None:
    table = shared(load=1.0, duration=1.0, rooms=2).tables["carried"]
    assert (table["offered"] == table["delivered"] + table["collided"] + table["access_failed"]).all()
    assert (table["offered"] == table["offered"].iloc[0]).all(), "all three are asked for the same frames"


def test_no_channel_carries_more_than_a_frame_in_the_time_of_one() -> None:
    """Queued frames are sent after the stations stop, so the share refers to the time until the run's end."""
    study = shared(load=50.0, duration=0.05)
    assert max(carried(study).values()) < 1
    assert study.tables["throughput"]["delivered"].max() < 1


def test_what_is_watched_is_the_share_that_arrived() -> None:
    study = catalogue.find_study("aloha").execute(trace=True, duration=1.0)
    states = study.states
    assert states is not None
    last = states[states["algorithm"] == "ALOHA"].groupby("agent").tail(1)
    assert len(last) == 31
    links = study.ledger[study.ledger["algorithm"] == "ALOHA"].set_index("sender")
    for agent, arrived in zip(last["agent"], last["arrived"], strict=True):
        if agent == 0:
            assert math.isnan(arrived)
        else:
            assert arrived == links.loc[agent, "delivered"] / links.loc[agent, "offered"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"load": 0.0}, "load = 0.0: must be"), ({"rooms": 0}, "rooms = 0: must be"), ({"agents": 0}, "agents = 0")],
)
def test_bad_input(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        shared(**wrong)
