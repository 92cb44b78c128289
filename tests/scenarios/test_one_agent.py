"""A single agent: every study works, sends nothing, and raises no warning (warnings fail a test)."""

from typing import Any

import numpy as np
import pytest

from netsim.errors import BadInput
from netsim.studies import catalogue
from netsim.studies.folder import load
from tests.parts import slow

ALONE: dict[str, dict[str, Any]] = {
    "aloha": {"duration": 1.0},
    "averaging": {},
    "flooding": {},
    "pushsum": {"rounds": 5},
    "coke": {"rounds": 5, "features": 8},
    "online": {"rounds": 20, "features": 8},
    "dynamic": {"rounds": 20, "features": 8, "compare_bits": ""},
    "omkl": {"rounds": 5, "repeats": 1, "topologies": "path", "rows": 20},
    "polk": {"samples": 100, "compare": False},
    "projections": {"sweeps": 3, "examples": 20, "radius": 1.0},
    "neural": {"data": "digits", "rounds": 20},
    "deep_network": {"rounds": 10, "width": 8, "tune": False, "rows": 300},
}
# These studies compare messages, and a single agent sends none.
OF_MESSAGES = {"online", "dynamic", "omkl", "deep_network"}
BETWEEN_AGENTS = {"election": 3, "frontier": 2, "privacy": 2}
OF_ONE_AGENT = {"deep"}
# The study needs two generals.
OF_TWO_AGENTS = {"generals"}
# Their data set fixes the motes, or they run other studies, or they measure frames on the air.
OF_MOTES_AND_SWEEPS = {"convergecast", "intel_lab", "lifetime", "mtu", "packet_loss", "papers", "ulb_library"}
# Their suite fixes the number of agents.
OF_A_SUITE = {"bench", "bench_case", "theory"}


def test_every_study_is_here() -> None:
    assert {*ALONE, *BETWEEN_AGENTS, *OF_ONE_AGENT, *OF_TWO_AGENTS, *OF_MOTES_AND_SWEEPS, *OF_A_SUITE} == set(
        catalogue.listed()
    )


@pytest.mark.parametrize("name", [slow(name) if name in ("dynamic", "projections") else name for name in ALONE])
def test_one_agent_alone(name: str, tmp_path: Any) -> None:
    study = catalogue.find_study(name).execute(agents=1, **ALONE[name])
    assert study.runs
    for run in study.runs.values():
        assert run.ledger.link_messages == run.ledger.wire_bits == 0
    assert study.question.endswith("?")
    assert bool(study.answered) == (name not in OF_MESSAGES), "what was not measured is not answered"
    assert study.hero in study.figures
    folder = study.save(tmp_path / "out")
    # No figure failed to be drawn.
    assert load(folder)["summary"]["failed"] == {}
    assert not [note for note in study.notes if ".png: " in note]
    numbers = study.rounds.drop(columns="algorithm").to_numpy(dtype=float)
    assert not np.isinf(numbers).any()


@pytest.mark.parametrize(("name", "fewest"), BETWEEN_AGENTS.items())
def test_a_study_of_what_is_sent_takes_several(name: str, fewest: int) -> None:
    with pytest.raises(BadInput, match=f"agents = 1: must be a whole number >= {fewest}"):
        catalogue.find_study(name).execute(agents=1)
