"""The invariants that netsim provides, in searches; and the history that agents record."""

import asyncio
import math
import warnings
from typing import Any

import pytest

import netsim
from netsim import BadInput, Link, Network, topology
from netsim.checkers import (
    agreement,
    all_of,
    at_most_one,
    eventually,
    invoke,
    linearizable,
    no_lost_update,
    one_leader_a_term,
    operations,
    serializable,
    transactions,
)
from netsim.faults import Crash
from netsim.testing import search


class Store(netsim.Agent):
    """Node 0 stores a number; the other nodes read it and write it back incremented."""

    def __init__(self, pause: float = 0.0) -> None:
        self.total, self.pause = 0, pause

    def answer(self, frame: netsim.Frame) -> Any:
        if frame.kind == "set":
            self.total = frame.payload
        return self.total

    async def run(self) -> None:
        if self.name == 0:
            return
        await asyncio.sleep(self.pause * self.rng.random())
        with invoke(self, "add", 1, key="total") as operation:
            seen = await self.request(0, "get", timeout=1.0)
            await self.request(0, "set", seen.payload + 1, timeout=1.0)
            operation.ok()
        with invoke(self, "read", key="total") as operation:
            operation.ok((await self.request(0, "get", timeout=1.0)).payload)


def make(pause: float = 0.0, clients: int = 2) -> Any:
    def made(*, seed: int = 1) -> Any:
        graph = topology.star(clients + 1)
        return Network(graph, Link(latency=0.1), seed=seed), {i: Store(pause) for i in graph}, {"until": 20.0}

    return made


def test_a_lost_update_is_found_by_the_history_and_by_the_sum() -> None:
    found = search(make(), linearizable(initial=0), seeds=range(1))
    assert found is not None
    assert found.message.startswith(
        "no order explains add total 1 by 1 (0–0.4 s); add total 1 by 2 (0–0.4 s); read total → 1"
    )
    found = search(make(), no_lost_update(lambda agents: agents[0].total), seeds=range(1))
    assert found is not None
    assert found.message == "1 in place of 2: add total 1 by 1 (0–0.4 s); add total 1 by 2 (0–0.4 s)"
    one = all_of(linearizable(initial=0), no_lost_update(lambda agents: agents[0].total))
    assert search(make(clients=1), one, seeds=range(1)) is None


@pytest.mark.parametrize("workers", [1, 2])
def test_the_history_is_a_table_of_the_run_and_notes_of_the_replay(workers: int) -> None:
    network, agents, settings = make(clients=1)()
    run = network.run(agents, **settings, workers=workers, trace=True)
    assert run.history.to_dict("records") == [
        {
            "agent": 1,
            "operation": "add",
            "key": "total",
            "value": 1,
            "result": None,
            "outcome": "ok",
            "began_s": 0.0,
            "ended_s": 0.4,
        },
        {
            "agent": 1,
            "operation": "read",
            "key": "total",
            "value": None,
            "result": 1,
            "outcome": "ok",
            "began_s": 0.4,
            "ended_s": pytest.approx(0.6),
        },
    ]
    assert run.notes[["time_s", "note"]].values.tolist() == [
        [0.4, "add total 1"],
        [pytest.approx(0.6), "read total → 1"],
    ]


def test_a_crash_takes_the_state_but_not_the_record() -> None:
    network, agents, settings = make(clients=1)()
    faults = [Crash(1, at=0.3, until=5.0, keeps_state=False)]
    run = Network(network.graph, Link(latency=0.1), faults=faults).run(agents, **settings)
    assert [(each.name, each.outcome, each.end) for each in operations(run.agents)] == [
        ("add", "unknown", math.inf),
        ("add", "ok", pytest.approx(5.4)),
        ("read", "ok", pytest.approx(5.6)),
    ]


def test_an_outcome_is_told_once() -> None:
    class Twice(netsim.Agent):
        async def run(self) -> None:
            with invoke(self, "write", 1) as operation:
                operation.ok()
                operation.failed()

    with pytest.raises(netsim.AgentError, match="outcome = 'failed': must be recorded once; it was already 'ok'"):
        Network(topology.path(2)).run({0: Twice(), 1: Store()})


class State:
    """An agent's state in the form that invariants receive."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


def broken(invariant: Any, *instants: dict[Any, State]) -> str:
    """Return the text of the violation found in successive states, or "" if the invariant holds."""
    each = invariant()
    try:
        for agents in instants:
            each(agents)
        each.at_end(instants[-1])
    except AssertionError as error:
        return str(error)
    return ""


def test_at_most_one() -> None:
    invariant = at_most_one(lambda agent: agent.leads, "lead")
    assert broken(invariant, {0: State(leads=True), 1: State(leads=False)}) == ""
    assert broken(invariant, {0: State(leads=True), 1: State(leads=True)}) == "[0, 1] lead"


def test_a_term_has_one_leader_for_ever() -> None:
    first = {0: State(role="leader", term=1), 1: State(role="follower", term=1)}
    later = {0: State(role="follower", term=2), 1: State(role="leader", term=2)}
    wrong = {0: State(role="follower", term=1), 1: State(role="leader", term=1)}
    assert broken(one_leader_a_term(), first, later) == ""
    assert broken(one_leader_a_term(), first, wrong) == "term 1 has two leaders, 0 and 1"


def test_agreement_is_kept_and_may_have_to_come() -> None:
    none, one, two = ({0: State(value=v), 1: State(value=w)} for v, w in ((None, None), (1, None), (1, 2)))
    invariant = agreement(lambda agent: agent.value)
    assert broken(invariant, none, one) == ""
    assert broken(invariant, one, two) == "0 decided 1, 1 2"
    assert broken(invariant, one, none) == "0 decided 1, then None"
    assert broken(agreement(lambda agent: agent.value, all_decide=True), one) == "[1] did not decide"


def test_eventually_all_who_are_alive_have_the_same() -> None:
    states = {0: State(log=[1], up=True), 1: State(log=[], up=False), 2: State(log=[1], up=True)}
    assert broken(eventually(lambda agent: agent.log), states) == "0 ends with [1], 1 with []"
    assert broken(eventually(lambda agent: agent.log, alive=lambda agent: agent.up), states) == ""


def test_all_of_takes_functions_and_classes() -> None:
    def positive(agents: Any) -> bool:
        return all(agent.value > 0 for agent in agents.values())

    invariant = all_of(positive, at_most_one(lambda agent: agent.value > 5, "are large"))
    assert broken(invariant, {0: State(value=1), 1: State(value=9)}) == ""
    assert broken(invariant, {0: State(value=0)}) == "positive does not hold"
    assert broken(invariant, {0: State(value=8), 1: State(value=9)}) == "[0, 1] are large"


def test_an_undecided_run_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netsim.checkers.explain._MOST_STEPS", 1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert search(make(), linearizable(initial=0), seeds=range(1)) is None
    assert any("undecided" in str(each.message) for each in told)


def test_bad_arguments_end_in_one_line() -> None:
    with pytest.raises(BadInput, match=r"model = 'register': must be a netsim\.checkers\.Model"):
        linearizable("register")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="initial = 3: must be a mapping"):
        serializable(3)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="holds = 1: must be a function"):
        at_most_one(1)  # type: ignore[arg-type]
    assert linearizable(transactions)
