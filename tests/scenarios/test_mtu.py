"""Bits against frames: sizes, shares and airtime computed by hand, and the effect of acknowledgements."""

import math
from typing import Any

import numpy as np
import pytest

from netsim import BadInput
from netsim.scenarios.mtu import boundaries
from netsim.studies import Study, catalogue
from tests.parts import every

SMALL = {"agents": 5, "edges": 7, "rounds": 25}
MOST, HEADER = 116, 17  # bytes of a fragment's payload and of its header


def run(**parameters: Any) -> Study:
    return catalogue.find_study("mtu").execute(**{**SMALL, **parameters})


@pytest.fixture(scope="module")
def study() -> Study:
    return run(widths="64,4,3", loss=0.1, rounds=60)


def test_frames_and_airtime_follow_from_bytes(study: Study) -> None:
    table = study.tables["by_bits"].set_index("bits")
    for bits, row in table.iterrows():
        assert row["payload_bytes"] == math.ceil(200 * int(str(bits)) / 8)
        # A message also contains kind, sender, round, shape and range.
        assert 10 < row["message_bytes"] - row["payload_bytes"] < 32
        assert row["frames"] == math.ceil(row["message_bytes"] / MOST)
        on_air = row["message_bytes"] + HEADER * row["frames"]
        assert row["airtime_ms"] == pytest.approx(8 * on_air / 250, rel=1e-6)
    assert table["frames"].to_dict() == {64: 14, 4: 2, 3: 1}


def test_a_message_arrives_if_all_its_frames_do(study: Study) -> None:
    for _, row in study.tables["by_bits"].iterrows():
        share = 0.9 ** row["frames"]
        assert row["expected_%"] == pytest.approx(100 * share)
        # There are 60 rounds and 14 links; losses are independent between links.
        band = 4 * math.sqrt(share * (1 - share) / (60 * 14))
        assert abs(row["arrived_%"] / 100 - share) < band


def test_nothing_but_loss_befalls_messages_without_a_remedy(study: Study) -> None:
    for name in ("DKLA 64-bit", "DKLA 3-bit"):
        ledger = study.runs[name].ledger
        counts = dict(zip(ledger.causes, ledger.exits, strict=True))
        assert {cause for cause, count in counts.items() if count} == {"delivered", "lost"}


def test_what_is_sent_again_brings_the_error_back_and_costs_energy(study: Study) -> None:
    ideal = run(widths="64", loss=0.0, rounds=60).tables["by_bits"].iloc[0]
    assert ideal["arrived_%"] == 100.0
    for _, row in study.tables["by_bits"].iterrows():
        assert row["train_mse"] > 1.5 * row["train_mse mended"]
        assert row["train_mse mended"] == pytest.approx(ideal["train_mse"], rel=0.1)
        assert row["mj mended"] > row["mj"]


def test_energy_is_power_times_time_on_the_air(study: Study) -> None:
    row = study.tables["by_bits"].set_index("bits").loc[3]
    run_of = study.runs["DKLA 3-bit"]
    degrees = np.mean([len(list(run_of.agents[node].neighbors)) for node in run_of.agents])
    # In each round a mote sends one message at 52.2 mW, and receives one from each neighbour at 56.4 mW.
    assert degrees == 2.8
    assert row["mj"] == pytest.approx(row["airtime_ms"] * 1e-3 * (52.2 + 2.8 * 56.4), rel=1e-6)


def test_boundaries_are_where_frames_are_full(study: Study) -> None:
    table = study.tables["by_bits"]
    ends = boundaries(table, 200)
    assert len(ends) == 13
    assert 3 < ends[0] < 4
    assert np.diff(ends) == pytest.approx(8 * MOST / 200)


def test_a_censor_and_nacks_are_to_be_had() -> None:
    study = run(algorithm="COKE", remedy="nack", widths="3", threshold=0.5, decay=0.9)
    assert list(study.runs) == ["COKE 3-bit", "COKE 3-bit, nack"]
    assert study.runs["COKE 3-bit"].ledger.transmissions < 5 * 25
    assert "mtu" in study.figures


@every(
    ("parameters", "says"),
    [
        ({"widths": "3,x"}, "widths = 'x': must be 64, 32, or a whole number from 1 to 16"),
        ({"widths": "17"}, "widths = '17'"),
        ({"widths": "0"}, "widths = '0'"),
        ({"remedy": "acks"}, "remedy = 'acks': must be one of ack, nack"),
        ({"algorithm": "CTA"}, "algorithm = 'CTA': must be one of DKLA, COKE"),
        ({"loss": 1.3}, "loss = 1.3: must be a probability"),
        ({"loss": float("nan")}, "loss = nan"),
        ({"period": 0.2}, "period = 0.2: must be at least"),
        ({"rounds": 0}, "rounds = 0"),
        ({"agents": 1, "edges": 0}, "agents = 1"),
    ],
)
def test_bad_input_is_refused_by_name(parameters: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        run(**parameters)
