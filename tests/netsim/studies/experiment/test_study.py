"""An experiment as a study: its flags, its runs, and its output."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest

import netsim
from netsim import BadInput, Grid, Link, Links, Method, topology
from netsim.agents import COKE, DKLA, DPSGD, Accumulated, FedAvg, Geometric, RunningSums
from netsim.coders import Uniform
from netsim.studies import Study, catalogue
from netsim.studies.experiment import Experiment, NamedValue, Problem, Seeds, Task
from netsim.studies.experiment.study import Played, play, study_of
from tests.netsim.studies.experiment.parts import counting, least_squares, small


@dataclass(frozen=True, kw_only=True)
class Size(Problem):
    """A problem that describes itself.

    Parameters
    ----------
    agents : int
        Number of agents.
    noise : float
        Of the targets.
    """

    agents: int = 4
    noise: float = 0.1

    def make(self, setup: Any) -> Task:
        costs, graph, measure = least_squares(setup.seeds.data, self.agents, self.noise)
        task = Task(costs, graph, measure)
        task.told = told = Study("", {})  # type: ignore[attr-defined]
        told.note(f"{self.agents} agents are at work.")
        told.record(noise=self.noise, unknown=1)
        return task


ONE = Seeds()


def told(study: Study, played: list[Played]) -> None:
    study.note(", ".join(f"{each.name}: {each.kind.__name__}" for each in played))


def experiment(
    *, censored: bool = False, size: Size = Size(), loss: float = 0.0, rounds: int = 5, seeds: Seeds = ONE
) -> Experiment:
    """What is compared.

    Parameters
    ----------
    censored : bool
        Whether COKE runs, too.
    loss : float
        Probability that a frame is lost.
    rounds : int
        Number of rounds.
    """
    methods = {"DKLA": Method(DKLA, rho=0.1), "D-PSGD": Method(DPSGD, eta=0.1)}
    if censored:
        methods["COKE"] = Method(COKE, rho=0.1, censor=Geometric(0.1, 0.9))
    return Experiment(
        problem=size,
        methods=methods,
        networks=Links(link=Link(loss=loss)),
        rounds=rounds,
        seeds=[seeds],
        names={"rho": "method.rho"},
        notes=["What a reader must know."],
        report=told,
    )


def run(**flags: Any) -> Study:
    definition = catalogue._describe("mine", study_of(experiment))
    return definition.execute(**flags)


def test_its_flags_are_arguments_fields_of_parts_and_short_names() -> None:
    definition = catalogue._describe("mine", study_of(experiment))
    assert definition.title == "What is compared."
    known = {each.name: each for each in definition.parameters}
    assert {"censored", "agents", "noise", "loss", "rounds", "rho", "set", "settings", "seed"} <= set(known)
    assert (known["rho"].kind, known["rho"].default) == (float, None)
    assert known["rho"].description.endswith("[default: 0.1]")
    assert known["noise"].description == "Of the targets."


def test_it_runs_each_method_and_tells_what_the_parts_tell() -> None:
    study = run(rho=0.2, noise=0.3)
    assert list(study.runs) == ["DKLA", "D-PSGD"]
    assert study.notes == ["What a reader must know.", "4 agents are at work.", "DKLA: DKLA, D-PSGD: DPSGD"]
    assert study.runs["DKLA"].agents[0].rho == 0.2
    assert study.origin["methods"]["DKLA"]["rho"] == 0.2
    assert study.settings["rho"] == 0.2
    assert "unknown" not in study.settings
    assert study.error == "gap"


def test_its_runs_are_those_of_the_experiment() -> None:
    study = run(seed=3, loss=0.2)
    results = experiment(loss=0.2, seeds=Seeds(seed=3)).run()
    ends = dict(zip(results.runs["method"], results.runs["gap"], strict=True))
    assert ends == study.rounds.groupby("algorithm")["gap"].last().to_dict()


def test_values_are_set_by_method_and_by_path() -> None:
    study = run(set="DKLA.rho=0.3,problem.agents=5,network.link.loss=0.1", censored=True)
    assert study.runs["DKLA"].agents[0].rho == 0.3
    assert study.runs["COKE"].agents[0].rho == 0.1
    assert len(study.runs["DKLA"].agents) == 5
    ledger = study.runs["DKLA"].ledger
    assert ledger.exits[list(ledger.causes).index("lost")] > 0
    censor = run(set="COKE.mu=0.5", censored=True).runs["COKE"].agents[0].censor
    assert censor == Geometric(0.1, 0.5)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"set": "DKLA.rho=-1"}, "rho = -1.0: must be a number > 0"),
        ({"set": "NONE.rho=1"}, "set: method = 'NONE': must be one of DKLA, D-PSGD"),
        ({"set": "problem.agent=3"}, r"path = 'problem.agent': must be a path .*\(did you mean 'problem.agents'\?\)"),
        ({"set": "network.link.loss=2"}, "loss = 2: must be a probability"),
        ({"rho": -1.0}, "rho = -1.0: must be a number > 0"),
        ({"set": "list"}, "must be METHOD.PARAMETER=VALUE, of these: DKLA"),
    ],
)
def test_what_a_part_cannot_take_is_refused_before_anything_runs(flags: dict[str, Any], message: str) -> None:
    definition = catalogue._describe("mine", study_of(experiment))
    study = definition.prepare(**flags)
    with pytest.raises(BadInput, match=message):
        definition.play(study)
    assert not study.runs


def test_settings_are_named_and_run_method_by_method() -> None:
    grid = Grid(
        {"network.link.loss": NamedValue(name, loss), "method.duals": NamedValue(name, duals)}
        for name, loss, duals in (("ideal", 0.0, Accumulated()), ("sums", 0.2, RunningSums()))
    )
    methods = {"DKLA": Method(DKLA, rho=0.1), "COKE": Method(COKE, rho=0.1, censor=Geometric(0.1, 0.9))}
    study = Study("mine", {})
    play(study, small(methods=methods, networks=Links(), grid=grid, seeds=[0], rounds=3))
    assert list(study.runs) == ["DKLA ideal", "DKLA sums", "COKE ideal", "COKE sums"]
    assert study.runs["COKE sums"].agents[0].duals == RunningSums()


def test_problems_and_networks_that_have_names_are_named() -> None:
    study = Study("mine", {})
    networks = {"ring": Links(graph=topology.ring(3)), "star": Links(graph=topology.star(4))}
    play(study, counting(networks=networks, methods={"one": counting().methods["Counts"], "two": Counting}))
    assert list(study.runs) == ["one ring", "one star", "two ring", "two star"]
    assert study.error is None


class Counting(netsim.Agent):
    """Counts the rounds in which it takes part."""

    total = 0

    async def run(self) -> None:
        async for _ in self.rounds(2):
            self.total += 1


def test_a_method_that_outgrows_its_coder_is_left_out_with_a_note() -> None:
    wild = Method(DPSGD, eta=1e30, coder=Uniform(8))
    study = Study("mine", {})
    play(study, small(methods={"wild": wild, "D-PSGD": Method(DPSGD, eta=0.1)}, seeds=[0], rounds=40))
    assert list(study.runs) == ["D-PSGD"]
    assert study.lost["wild"].state == "diverged"
    assert any(note.startswith("wild diverged, and is left out: agent") for note in study.notes)
    with pytest.raises(netsim.AgentError):
        play(Study("mine", {}), small(methods={"wild": wild}, seeds=[0], rounds=40))


def test_a_study_may_leave_out_a_run_that_another_error_ends() -> None:
    class Broken(Counting):
        async def run(self) -> None:
            raise ValueError("no more")

    def left_out(study: Study, played: Played, error: netsim.AgentError | None) -> None:
        study.note(f"{played.name}: {error}")

    made = counting(methods={"broken": Broken, "sound": Counting}, measure=[])
    with pytest.raises(netsim.AgentError, match="no more"):
        play(Study("mine", {}), made)
    study = Study("mine", {})
    play(study, made, ran=left_out)
    assert list(study.runs) == ["sound"]
    assert not study.lost
    assert "no more" in study.notes[0]


def test_it_ends_when_the_experiment_does() -> None:
    study = Study("mine", {})
    play(study, small(seeds=[0], rounds=40, until=3.0))
    assert {run.ended_at for run in study.runs.values()} == {3.0}


def test_a_server_runs_over_a_star_and_that_is_noted() -> None:
    study = Study("mine", {})
    play(study, small(methods={"FedAvg": Method(FedAvg, eta=0.1)}, seeds=[0], rounds=3))
    assert study.notes == ["FedAvg runs over a star of the same agents and links, with agent 0 as its server."]


def test_agents_that_take_part_in_no_round_are_refused() -> None:
    class Idle(netsim.Agent):
        async def run(self) -> None:
            return

    with pytest.raises(BadInput, match="Idle took part in no round"):
        play(Study("mine", {}), counting(methods=Idle, measure=[]))


def test_a_definition_may_change_in_any_part() -> None:
    made = dataclasses.replace(experiment(), networks=Links(link=lambda ends: Link(loss=0.1 * ends.sender)))
    study = Study("mine", {})
    play(study, made.with_values({"problem.agents": 6}))
    assert len(study.runs["DKLA"].agents) == 6
