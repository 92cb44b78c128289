"""`Network.watch`: what a run keeps of each agent's state (docs/replay.md)."""

import asyncio
import math
import pickle
from typing import Any

import numpy as np
import pytest

from netsim import Agent, BadInput, Link, NetsimError, Network, Run, topology


class Counter(Agent):
    """Counts what it heard."""

    def __init__(self) -> None:
        self.heard: Any = 0
        self.none: Any = None

    async def run(self) -> None:
        async for k in self.rounds(4):
            if k % 2:
                await self.broadcast("m", k)
            self.heard = self.heard + len(await self.collect())


def played(watch: Any, **settings: Any) -> Run:
    graph = topology.path(3)
    network = Network(graph, Link(loss=0.3, latency=0.1), seed=1)
    network.watch(watch)
    return network.run({i: Counter() for i in graph}, **settings)


def test_it_keeps_a_row_for_each_round_and_agent() -> None:
    run = played(["heard", "none"])
    table = run.states
    assert list(table.columns) == ["round", "time_s", "agent", "heard", "none"]
    assert table["agent"].tolist() == [0, 1, 2] * 4
    assert table["round"].tolist() == [k for k in (1, 2, 3, 4) for _ in range(3)]
    assert table["none"].isna().all()
    last = table[table["round"] == 4]
    assert last["heard"].tolist() == [agent.heard for agent in run.agents.values()]
    assert table.groupby("round")["heard"].sum().tolist() == run.rounds["delivered"].tolist()


def test_what_is_watched_may_have_a_name_of_its_own_and_be_any_number() -> None:
    run = played({"a": lambda agent: np.float32(agent.heard), "b": lambda agent: np.array([agent.heard]), "c": "heard"})
    table = run.states
    assert (table["a"] == table["c"]).all()
    assert (table["b"] == table["c"]).all()
    assert played([lambda agent: True]).states["<lambda>"].tolist() == [1.0] * 12


def test_watching_changes_nothing() -> None:
    run, plain = played(["heard"], trace=True), played(None)
    assert run.trace_hash == plain.trace_hash
    assert run.rounds.equals(plain.rounds)
    with pytest.raises(BadInput, match=r"^watch = None: must be given to Network.watch for agents' states to be kept$"):
        _ = plain.states


def test_by_samples_and_from_a_coroutine() -> None:
    assert played(["heard"], sample=0.5).states["time_s"].unique().tolist() == [0.5 * k for k in range(1, 9)]
    graph = topology.path(3)

    async def main() -> Run:
        network = Network(graph)
        network.watch(["heard"])
        return await network.run_async({i: Counter() for i in graph})

    assert len(asyncio.run(main()).states) == 12


@pytest.mark.parametrize(
    ("watch", "message"),
    [
        ("heard", "watch = 'heard': must be names of attributes or functions of an agent: {column: what}, or a list"),
        ([], "watch = []: must be names of attributes or functions of an agent: {column: what}, or a list"),
        ({"round": "heard"}, "watch, column = 'round': must be another than those that are there already"),
        (["heard", "heard"], "watch, column = 'heard': must be another than those that are there already"),
        ({"a\nb": "heard"}, r"watch, column = 'a\nb': must be printable text"),
        ({"a": 3}, "watch['a'] = 3: must be the name of an attribute, or a function of an agent"),
        (["herd"], "watch, herd of agent 0 after round 1: 'Counter' object has no attribute 'herd'"),
        ({"a": lambda agent: "b"}, "watch, a of agent 0 = 'b': must be a number (None for none), after round 1"),
    ],
)
def test_what_cannot_be_watched_is_refused_in_one_line(watch: Any, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        played(watch)
    assert str(caught.value) == message


def test_a_function_that_raises_is_named() -> None:
    def error(agent: Agent) -> float:
        return 1 / 0

    with pytest.raises(NetsimError, match=r"^watch, error of agent 0 raised ZeroDivisionError after round 1: "):
        played([error])


def test_infinity_and_nan_are_kept_and_huge_numbers_are_infinite() -> None:
    table = played({"a": lambda agent: 10**400, "b": lambda agent: math.nan}).states
    assert np.isinf(table["a"]).all()
    assert table["b"].isna().all()


def test_states_travel_with_the_run() -> None:
    from netsim import core

    run = played({"a": lambda agent: agent.heard})
    if core.NAME == "python":
        assert pickle.loads(pickle.dumps(run)).states.equals(run.states)
