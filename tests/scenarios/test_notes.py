"""The notes of studies on a run: they name the true cause, or there is no note."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netsim import Agent, BadInput, Link, Network, Radio, Run, topology
from netsim.agents import (
    COKE,
    Accumulated,
    Always,
    CodedSums,
    Duals,
    EdgeDuals,
    LocalProblem,
    RunningSums,
    Squared,
)
from netsim.faults import LinkDown
from netsim.radio import DutyCycle
from netsim.scenarios.tasks.diagnosis import diverged, missed, on_radio, silent, unheard
from netsim.scenarios.tasks.online_task import recent_error
from netsim.studies import Study, catalogue

SMALL = {"agents": 5, "rounds": 40, "features": 10}


def run(name: str, **parameters: object) -> Study:
    return catalogue.find_study(name).execute(**{**SMALL, **parameters})


def said(study: Study, start: str) -> list[str]:
    return [note for note in study.notes if note.startswith(start)]


# --- divergence -------------------------------------------------------------------------------------------------------


def test_a_step_that_is_too_long_is_named_for_a_method_that_has_one() -> None:
    study = run("coke", algorithms="CTA", eta=50.0)
    assert said(study, "CTA diverged") == ["CTA diverged: try a smaller step size (--eta)."]


def test_models_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    text = "from netsim.agents import Diffusion\n\n\nclass Nothing(Diffusion):\n"
    (tmp_path / "none.py").write_text(text + "    def local_step(self):\n        return self.theta + float('nan')\n")
    study = run("coke", algorithms="DKLA", method=str(tmp_path / "none.py"))
    assert said(study, "none") == ["none has no train mse: its models hold values that are no numbers (NaN)."]


def test_frames_that_did_not_arrive_are_named_and_no_step_is() -> None:
    study = run("coke", algorithms="COKE", rounds=300, bits=3, loss=0.5, threshold=0.0)
    (note,) = said(study, "COKE 3-bit diverged")
    exits = study.runs["COKE 3-bit"].ledger.table([]).iloc[0]
    total = int(exits["offered"] - exits["delivered"])
    assert note == (
        f"COKE 3-bit diverged: {total:,} of {int(exits['offered']):,} frames did not arrive in time (lost {total:,})."
    )
    assert not [note for note in study.notes if "step size" in note]


def test_frames_that_come_too_late_are_named() -> None:
    study = run("coke", algorithms="DKLA", latency=1.5)
    frames = missed(study.runs["DKLA"])
    assert frames.endswith(")")
    assert "frames did not arrive in time (late " in frames
    assert said(study, "DKLA missed frames")


def test_of_a_run_that_went_well_nothing_is_said() -> None:
    study = run("coke", eta=0.1)
    for name, each in study.runs.items():
        assert missed(each) == ""
        assert diverged(name, each, "train_mse", "--eta") is None
        assert silent(name, each) is None
    assert not [note for note in study.notes if "diverged" in note or "missed" in note or "sent nothing" in note]


def test_frames_and_a_step_are_both_named_where_either_may_be_to_blame() -> None:
    study = run("coke", algorithms="CTA", eta=50.0, loss=0.2)
    frames = missed(study.runs["CTA"])
    assert said(study, "CTA diverged") == [f"CTA diverged: {frames}; or its step size is too large (--eta)."]


def test_frames_that_are_still_under_way_did_not_arrive() -> None:
    study = run("coke", algorithms="DKLA", rate=1.0)
    assert missed(
        study.runs["DKLA"]
    ) == "{0:,} of {0:,} frames did not arrive in time (under way at the end {0:,})".format(
        study.runs["DKLA"].ledger.link_messages
    )


def test_duals_that_sum_to_zero_are_not_said_to_do_otherwise() -> None:
    study = run("coke", algorithms="DKLA", budget=8.0)
    assert not said(study, "DKLA missed frames")


# --- silence ----------------------------------------------------------------------------------------------------------


def test_a_censor_that_lets_nobody_speak_is_named() -> None:
    study = run("coke", algorithms="COKE", threshold=1e6, decay=1.0)
    assert said(study, "COKE sent") == ["COKE sent nothing: its censor let no agent speak, and each learned alone."]


def test_no_censor_is_named_for_agents_without_one(tmp_path: Path) -> None:
    file = tmp_path / "alone.py"
    file.write_text(
        "import netsim\nimport numpy as np\n\n\nclass Alone(netsim.Agent):\n"
        "    def __init__(self, cost, rounds):\n        self.count, self.theta = rounds, np.zeros(cost.size)\n\n"
        "    async def run(self):\n        async for _ in self.rounds(self.count):\n            pass\n"
    )
    study = run("coke", algorithms="DKLA", method=str(file))
    assert said(study, "alone sent") == ["alone sent nothing: each agent learned alone."]


def test_a_budget_that_refuses_everything_is_named() -> None:
    study = run("coke", algorithms="DKLA", budget=8.0)
    (note,) = said(study, "DKLA sent")
    assert note.startswith("DKLA sent nothing: the budget refused ")


def test_one_agent_has_nobody_to_speak_to() -> None:
    assert not [note for note in run("coke", agents=1).notes if "sent nothing" in note]


# --- learning ---------------------------------------------------------------------------------------------------------


def test_the_last_quarter_is_judged_and_not_the_running_mean() -> None:
    rounds = pd.DataFrame({"round": range(1, 9), "running_mse": [8.0, 4.0, 8 / 3, 2.0, 1.6, 8 / 6, 9 / 7, 10 / 8]})
    # The mean of the last two of the errors 8, 0, 0, 0, 0, 0, 1, 1.
    assert recent_error(rounds) == pytest.approx(1.0)
    assert recent_error(rounds.iloc[:1]) == 8.0


def test_a_short_stream_that_is_learned_is_not_said_not_to_be() -> None:
    study = run("online", rounds=60, algorithms="ODKLA", seed=1)
    running = study.rounds["running_mse"]
    assert running.iloc[-1] < running.iloc[0]
    assert not [note for note in study.notes if "does not learn" in note]


# --- what tables and titles claim -------------------------------------------------------------------------------------


def test_published_is_said_only_where_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    own = run("coke")
    assert ("published_train_mse" in own.tables["by_round"]) == ("published_test_mse" in own.tables["by_round"])
    assert "published" not in run("online", rounds=20).tables["running_time"]


@pytest.mark.parametrize("only", ["CTA", "DKLA", "CTA,COKE"])
def test_nothing_is_said_to_save_that_did_not_run_or_had_nothing_to_save(only: str) -> None:
    tables = run("coke", algorithms=only).tables
    names = [name for table in tables.values() for name in table.columns]
    assert "by_round" in tables
    assert not [name for name in names if "saves" in name]


def test_a_saving_that_is_none_does_not_shrink() -> None:
    study = run("coke", threshold=0.0)
    assert (study.tables["cost_to_reach"]["COKE saves %"].dropna() == 0).all()
    assert not said(study, "The saving shrinks")


def test_under_loss_the_reference_is_not_called_the_optimum() -> None:
    options = {"methods": "DKLA", "coders": "float64", "censors": "none"}
    assert said(run("frontier", **options, loss=0.2), "The reference is not the optimum that it is without loss: ")
    assert not said(run("frontier", **options), "The reference is not")


# --- refused before the work ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["coke", "frontier", "online", "dynamic"])
def test_too_many_agents_are_refused_before_a_graph_is_built(name: str, tmp_path: object) -> None:
    path = f"{tmp_path}/small.csv"
    pd.DataFrame({"x": range(50), "y": range(50)}).to_csv(path, index=False)
    with pytest.raises(BadInput, match=r"agents = 300000: must be at most (25|50), for [12] samples? each of 50"):
        catalogue.find_study(name).execute(data=path, agents=300_000)


def test_an_online_method_that_grows_beyond_all_bounds_does_not_stop_the_rest() -> None:
    study = run("online", rounds=60, step=50.0, algorithms="RFF-DOKL,ODKLA")
    assert list(study.runs) == ["ODKLA"]
    (note,) = said(study, "RFF-DOKL diverged")
    assert note.startswith("RFF-DOKL diverged with eta = 50, and is left out: ")
    with pytest.raises(BadInput, match="algorithms: must be such that one at least does not diverge"):
        run("online", rounds=60, step=50.0, algorithms="RFF-DOKL")


@pytest.mark.parametrize("name", ["online", "dynamic"])
def test_online_studies_name_frames_that_did_not_arrive_and_who_sent_nothing(name: str) -> None:
    study = run(name, loss=0.3, algorithms="DDKL,CoDDKL", threshold=1e9, decay=0.0 if name == "dynamic" else 1.0)
    assert [
        note for note in study.notes if note.startswith("DDKL: ") and "frames did not arrive in time (lost " in note
    ]
    assert said(study, "CoDDKL sent nothing")


# --- dead links -------------------------------------------------------------------------------------------------------

DEAD, HARDLY = Link(loss=1.0), Link(loss=0.99)
GRAPH = topology.complete(4)


def dkla(links: dict[tuple[int, int], Link], rounds: int = 200, duals: Duals | None = None, **options: Any) -> str:
    """Return the notes on DKLA with four agents, without the usual note that all frames arrived."""
    rng = np.random.default_rng(0)
    problems = {i: LocalProblem(rng.random((20, 3)), rng.random(20), loss=Squared(), regularizer=1e-3) for i in GRAPH}
    censor = options.pop("censor", Always())
    agents = {i: COKE(problems[i], rounds, rho=0.05, duals=duals or Accumulated(), censor=censor) for i in GRAPH}

    def measure(agents: Any) -> dict[str, float]:
        return {"dual_residual": float(np.abs(sum(agent.dual for agent in agents.values())).max())}

    network = Network(GRAPH, options.pop("link", Link()), links=links, seed=1, **options)
    said = unheard("it", network.run(agents, [measure]))
    assert said is not None
    return said


WAYS = [RunningSums(), CodedSums(), Accumulated()]


@pytest.mark.parametrize("duals", WAYS, ids=lambda way: type(way).__name__)
def test_links_over_which_nothing_was_ever_heard_are_named(duals: Duals) -> None:
    told = dkla({(3, 0): DEAD, (1, 2): DEAD}, duals=duals)
    assert ". Nothing was heard over 1 → 2, 3 → 0 in 200 rounds. Its duals " in told
    assert "makes good what was lost" not in told
    if not isinstance(duals, Accumulated):
        assert told.endswith(": what is lost there is made good late or never.")


def test_of_many_dead_links_some_are_named_and_all_are_counted() -> None:
    told = dkla({(a, b): DEAD for a in GRAPH for b in GRAPH if a != b and b < 2})
    assert "Nothing was heard over 0 → 1, 1 → 0, 2 → 0 and 3 links more in 200 rounds." in told


def test_links_over_which_next_to_nothing_was_heard_are_named() -> None:
    told = dkla({(3, 0): HARDLY}, rounds=400, duals=RunningSums())
    assert "Next to nothing (at most one frame in 50) over 3 → 0." in told
    assert told.endswith("is made good late or never.")


def test_links_that_fell_silent_are_named_with_the_round_and_those_that_healed_are_not() -> None:
    lossy = {"link": Link(loss=0.3), "duals": RunningSums()}
    fell = dkla({}, faults=[LinkDown(0, 1, at=50, one_way=True), LinkDown(2, 3, at=50, until=150)], **lossy)
    # Links are checked in rounds 32, 64, 128, …; only some of these are in the first half of the run.
    assert "Nothing since round 64 over 0 → 1. " in fell
    assert fell.endswith("is made good late or never.")
    healed = dkla({}, faults=[LinkDown(2, 3, at=50, until=150)], **lossy)
    assert "Nothing" not in healed
    assert healed.endswith(" for now: what is heard next makes good what was lost.")


def test_who_says_nothing_has_no_dead_link() -> None:
    """Frames are lost in the first rounds; afterwards a censor silences all agents, so no link is reported as dead."""

    class First(Always):
        def speaks(self, change: Any, state: Any, round_number: int, rng: Any) -> bool:
            return round_number <= 6

    told = dkla({(3, 0): DEAD}, link=Link(loss=0.2), censor=First(), duals=RunningSums())
    assert "Nothing" not in told
    assert "ext to nothing" not in told


def test_what_a_budget_refuses_is_no_evidence_of_a_dead_link() -> None:
    told = dkla({}, link=Link(loss=0.2, budget=8.0))
    assert "refused" in told
    assert "Nothing" not in told


def test_edge_duals_bear_links_that_are_dead_one_way() -> None:
    one_way = dkla({(3, 0): DEAD, (1, 2): DEAD}, link=Link(loss=0.3), duals=EdgeDuals())
    assert "Nothing was heard over 1 → 2, 3 → 0 in 200 rounds." in one_way
    assert one_way.endswith("bear links that are dead one way, for those alive both ways connect all agents.")
    both_ways = dkla({(3, 0): DEAD, (0, 3): DEAD}, duals=EdgeDuals())
    assert both_ways.endswith(": edge duals bear a link that is dead one way, but not both ways (0 – 3).")
    apart = dkla({(3, i): DEAD for i in range(3)}, duals=EdgeDuals())
    assert apart.endswith("only if those alive both ways connect all agents.")


# --- causes that there are on a Radio only ----------------------------------------------------------------------------


def on_the_air(radio: Radio) -> Run:
    """Run four agents that all send at the same time in each of ten rounds."""

    class Talks(Agent):
        async def run(self) -> None:
            async for k in self.rounds(10):
                await self.broadcast("state", k)
                await self.collect()

    graph = topology.complete(4)
    return Network(graph, Link(rate=250e3), medium=radio, seed=1).run({node: Talks() for node in graph})


def test_who_sends_while_others_do_hears_nothing_and_that_is_named() -> None:
    run = on_the_air(Radio(access="aloha"))
    # All four agents send at the same time, so every frame finds its receiver sending.
    assert unheard("Talks", run) == (
        "Talks missed frames: 120 of 120 frames did not arrive in time (half duplex 120). "
        "Half duplex: their receivers were sending at the time."
    )


def test_frames_that_find_no_access_are_named() -> None:
    # With one assessment and no back-off only the first node sends, and the others give up.
    run = on_the_air(Radio(max_csma_backoffs=0, min_be=3, unit_backoff=100e-6))
    failed = dict(zip(run.ledger.causes, run.ledger.exits, strict=True))["access_failed"]
    assert 0 < failed < 120
    said = unheard("Talks", run)
    assert said is not None
    assert f"access failed {failed}" in said
    assert "Access failed: their senders found the channel busy each time that they listened, and gave up." in said


def test_frames_for_who_is_asleep_are_named() -> None:
    # The first two nodes are awake at the beginning of a round, the others half a round later.
    cycle = DutyCycle(period=1.0, awake=0.4, offsets={2: 0.5, 3: 0.5})
    said = unheard("Talks", on_the_air(Radio(duty_cycle=cycle)))
    assert said is not None
    assert "asleep 80" in said
    assert said.endswith("Asleep: their receivers' radios were off as they began.")


def test_of_other_media_no_cause_of_radios_is_told() -> None:
    assert on_radio(run("coke", algorithms="DKLA", loss=0.2).runs["DKLA"]) == ""
