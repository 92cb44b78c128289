"""Remedies for lost frames as flags of the studies, and the notes on them."""

from typing import Any

import pytest

from netsim import BadInput
from netsim.studies import Study, catalogue
from tests.parts import slow

pytestmark = pytest.mark.usefixtures("all_undrawn")

SMALL = {"agents": 6, "edges": 9, "rounds": 150, "features": 10}


def run(name: str, **parameters: Any) -> Study:
    return catalogue.find_study(name).execute(**{**SMALL, **parameters})


def ends(study: Study, column: str = "train_mse") -> dict[str, float]:
    found: dict[str, float] = study.rounds.groupby("algorithm")[column].last().to_dict()
    return found


@pytest.mark.parametrize("remedy", ["running-sums", "edge-duals"])
def test_a_remedy_on_ideal_links_is_the_same_method(remedy: str) -> None:
    plain, other = (run("coke", algorithms="DKLA", remedy=each) for each in ("none", remedy))
    assert ends(other)["DKLA"] == pytest.approx(ends(plain)["DKLA"], abs=1e-12)


@pytest.fixture(scope="module")
def without() -> tuple[float, float]:
    """Return the error of DKLA on ideal links, and with losses but no remedy."""
    ideal, plain = (ends(run("coke", algorithms="DKLA", rounds=400, loss=p))["DKLA"] for p in (0.0, 0.3))
    return ideal, plain


@pytest.mark.parametrize(
    "flags",
    [
        {"remedy": "running-sums"},
        slow({"remedy": "coded-sums"}),
        slow({"remedy": "edge-duals"}),
        slow({"reliability": "ack"}),
        {"reliability": "nack"},
    ],
)
def test_under_loss_a_remedy_brings_the_error_back(flags: dict[str, str], without: tuple[float, float]) -> None:
    ideal, plain = without
    mended = ends(run("coke", algorithms="DKLA", rounds=400, loss=0.3, **flags))["DKLA"]
    assert plain > ideal
    assert abs(mended - ideal) < 0.25 * (plain - ideal)


def test_what_cannot_have_it_is_named() -> None:
    study = run("coke", remedy="running-sums", bits=4)
    assert study.notes[0] == (
        "Run as published, without running-sums: CTA, COKE 4-bit (only ADMM methods that send states support it)."
    )
    with pytest.raises(BadInput, match="remedy = 'running-sums': must be combined with an ADMM method"):
        run("coke", algorithms="CTA", remedy="running-sums")
    with pytest.raises(BadInput, match="remedy"):
        run("coke", remedy="sums")
    with pytest.raises(BadInput, match="reliability"):
        run("coke", reliability="acks")


@pytest.mark.parametrize("name", ["online", "dynamic"])
def test_online_methods_have_them_too(name: str) -> None:
    study = run(name, rounds=60, algorithms="DDKL,DOKL", remedy="running-sums", loss=0.2, reliability="keyframe")
    assert set(study.runs) >= {"DDKL", "DOKL"}
    duals = {type(agent.duals).__name__ for agent in study.runs["DDKL"].agents.values()}  # type: ignore[attr-defined]
    assert duals == {"RunningSums"}


def test_no_copies_are_measured_where_there_are_none() -> None:
    study = run("coke", algorithms="DKLA", remedy="edge-duals", loss=0.1)
    assert "copy_error" not in study.rounds or study.rounds["copy_error"].isna().all()
    assert "dual_residual" in study.rounds


def test_what_was_missed_is_counted_and_its_effect_named() -> None:
    (plain,) = [
        note for note in run("coke", algorithms="DKLA", loss=0.2, rounds=60).notes if note.startswith("DKLA missed")
    ]
    assert "frames did not arrive in time (lost " in plain
    assert plain.endswith("so its optimum has moved.")
    for flags in ({"remedy": "running-sums"}, {"reliability": "nack"}):
        notes = run("coke", algorithms="DKLA", loss=0.2, rounds=60, **flags).notes
        (note,) = [each for each in notes if each.startswith("DKLA missed")]
        assert "optimum has moved" not in note
        assert "makes good what was lost" in note
    (averaged,) = [
        note for note in run("coke", algorithms="CTA", loss=0.2, rounds=60).notes if note.startswith("CTA missed")
    ]
    assert "duals" not in averaged


def test_a_channel_that_moves_on_with_time_loses_the_same_whoever_speaks_when() -> None:
    def lost(algorithm: str) -> tuple[set[Any], set[Any]]:
        flags = {"algorithms": algorithm, "loss": 0.3, "burst": 8.0, "slot": 1.0, "threshold": 1.0, "decay": 0.99}
        study = catalogue.find_study("coke").execute(trace=True, **SMALL, **flags)
        events = study.runs[algorithm].trace.table()
        seen = {
            event: {
                (row.sender, row.receiver, int(row.time_s)) for row in events[events["event"] == event].itertuples()
            }
            for event in ("delivered", "lost")
        }
        return seen["delivered"] | seen["lost"], seen["lost"]

    (sent, missed), (sent_by_few, missed_by_few) = lost("DKLA"), lost("COKE")
    assert len(sent_by_few) < 0.8 * len(sent)
    assert missed_by_few == missed & sent_by_few


def test_a_slot_without_bursts_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^slot = 2: must go with a burst above 1; independent losses have no channel$"):
        run("coke", loss=0.1, slot=2.0)


def test_links_too_slow_for_acks_are_refused_by_name() -> None:
    with pytest.raises(BadInput, match="reliability = 'ack': must have a latency below half the round period"):
        run("coke", reliability="ack", latency=0.6)
