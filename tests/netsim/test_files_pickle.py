"""Agents and runs can be pickled and copied, as sweeps and notebooks do."""

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netsim import Agent, AgentError, NetsimError, Network, Run, topology


class Listener(Agent):
    def __init__(self, value: float) -> None:
        self.value = np.array([value])
        self.heard: list[Any] = []

    async def run(self) -> None:
        async for _ in self.rounds(3):
            await self.broadcast("x", self.value)
            self.heard += await self.collect()


class Slim(Agent):
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 3

    async def run(self) -> None:
        async for _ in self.rounds(1):
            await self.collect()


def play(make: Callable[[int], Agent], *probes: Any) -> Run:
    graph = topology.ring(3)
    return Network(graph, seed=1).run({node: make(node) for node in graph}, probes)


COPIES = [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]


@pytest.mark.parametrize("duplicate", COPIES)
def test_a_finished_agent_can_be_copied_and_is_then_in_no_network(duplicate: Callable[[Any], Any]) -> None:
    agent = play(Listener).agents[0]
    again = duplicate(agent)
    assert type(again) is Listener
    assert again.value == agent.value
    assert [frame.payload for frame in again.heard] == [frame.payload for frame in agent.heard]
    assert len(again.heard) == 6
    assert agent.name == 0, "the original is as it was"
    with pytest.raises(AgentError, match="is in no network yet"):
        _ = again.name
    with pytest.raises(AttributeError):
        _ = again.nothing


@pytest.mark.parametrize("duplicate", COPIES)
def test_agents_with_slots_and_agents_that_never_ran_can_be_copied(duplicate: Callable[[Any], Any]) -> None:
    agent: Any = play(lambda node: Slim()).agents[0]
    assert duplicate(agent).value == 3
    assert duplicate(Slim()).value == 3
    assert vars(duplicate(Listener(2.0)))["value"] == 2.0


def test_a_copy_can_take_part_in_another_run() -> None:
    first = play(Listener)
    again = play(lambda node: pickle.loads(pickle.dumps(first.agents[node])))
    assert [len(agent.heard) for agent in again.agents.values()] == [12] * 3


def test_an_agent_can_be_copied_while_it_runs() -> None:
    taken = []

    def snapshot(agents: Any) -> float:
        taken.append(copy.deepcopy(agents[0]))
        return 0.0

    play(Listener, snapshot)
    assert [len(agent.heard) for agent in taken] == [2, 4, 6]


@pytest.mark.parametrize("duplicate", COPIES[1:])
def test_a_run_can_be_pickled_or_says_why_not(duplicate: Callable[[Any], Any]) -> None:
    run = play(Listener, lambda agents: 1.0)
    try:
        again = duplicate(run)
    except NetsimError as error:
        assert str(error).startswith("a Run cannot be pickled or copied, as its ledger cannot (")  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert again.rounds.equals(run.rounds)
        assert again.ledger.table().equals(run.ledger.table())
        assert again.trace_hash == run.trace_hash


PICKLES = """
import copy, pickle
from netsim import Link, Network, Radio, topology
from netsim.testing import Listener, Talker, sized

for medium in ("wires", Radio(access="aloha")):
    says = Talker([(0.0, sized(100)), (0.5, sized(1000))])
    network = Network(topology.path(2), Link(rate=8000.0), medium=medium)
    run = network.run({0: says, 1: Listener()}, until=1.0, trace=True)
    for again in (pickle.loads(pickle.dumps(run)), copy.deepcopy(run)):
        assert again.ledger.table().equals(run.ledger.table())
        assert list(again.ledger.in_flight()) == list(run.ledger.in_flight())
        assert again.trace.table().equals(run.trace.table())
        print(again)
"""


def test_a_run_of_the_core_in_python_can_be_pickled_with_what_is_in_flight() -> None:
    command = [sys.executable, "-c", PICKLES]
    done = subprocess.run(command, env=os.environ | {"NETSIM_CORE": "python"}, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.count("1 in flight as the run ended") == 4
