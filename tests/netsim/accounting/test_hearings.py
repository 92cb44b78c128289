"""The table `netsim.Run.deliveries` equals what the agents recorded themselves."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from netsim import Agent, BadInput, Link, Network, Run, StateAgent, latency, topology
from netsim.faults import Crash, Straggler
from netsim.testing import Actor, Listener, Replier, Rounder, Talker, losing, play
from tests.parts import message_of

GRAPH = topology.random_geometric(7, radius=0.6, seed=1)


class Mean(StateAgent):
    """An agent whose rounds may be batched."""

    def __init__(self, value: float) -> None:
        self.state, self.count = np.array([value, -value]), 9

    def step(self, state: Any, heard: Any) -> Any:
        return (state + sum(frame.payload for frame in heard)) / (1 + len(heard))


def means(workers: int = 1, **settings: Any) -> Run:
    link = Link(latency=latency.uniform(0.1, 1.2), loss=0.2, duplicate=0.1)
    faults = [Crash(2, at=3.2, until=5.5, keeps_state=False), Straggler(1, 0.4, at=2.0)]
    network = Network(GRAPH, link, seed=3, faults=faults)
    return network.run({i: Mean(float(i)) for i in GRAPH}, workers=workers, **settings)


def test_what_was_heard_is_the_same_with_any_number_of_workers() -> None:
    runs = [means(workers, deliveries=True, trace=True) for workers in (1, 2, 3)]
    table = runs[0].deliveries()
    for run in runs[1:]:
        pd.testing.assert_frame_equal(run.deliveries(), table)
    plain = means()
    assert {run.trace_hash for run in runs} == {plain.trace_hash}
    assert [agent.state.tolist() for agent in plain.agents.values()] == [
        agent.state.tolist() for agent in runs[0].agents.values()
    ]
    # The trace contains every arrival; node 2 lost its unread frames in its crash.
    events = runs[0].trace.table()
    arrived = events[(events["event"] == "delivered") & ~((events["receiver"] == 2) & (events["time_s"] < 5.5))]
    heard = table[~((table["receiver"] == 2) & (table["time_s"] < 5.5))]
    ends = ["sender", "receiver"]
    assert heard.groupby(ends).size().to_dict() == arrived.groupby(ends).size().to_dict()
    # Each round lasts 1 s, so its number equals its closing time. Node 2 also collects frames that arrived after its
    # restart.
    assert (table["time_s"] == table["round"])[table["receiver"] != 2].all()
    assert not table.query("receiver == 2 and time_s > 3.2 and time_s < 6").size


@pytest.mark.parametrize("every", [True, False])
def test_a_batch_hears_what_its_agents_hear_each(every: bool) -> None:
    class Own(Mean):
        log: list[Any] = []  # noqa: RUF012  of all agents

        def step(self, state: Any, heard: Any) -> Any:
            self.log.extend((self.now, self.name, frame.sender, frame.payload.tolist()) for frame in heard)
            return super().step(state, heard)

    Own.log.clear()
    network = Network(GRAPH, Link(latency=0.1, loss=0.3), seed=5)
    if not every:
        network.watch(["count"])
    table = network.run({i: Own(float(i)) for i in GRAPH}, deliveries=True).deliveries()
    rows = zip(table["time_s"], table["receiver"], table["sender"], table["payload"], strict=True)
    assert sorted((time, receiver, sender, payload.tolist()) for time, receiver, sender, payload in rows) == sorted(
        Own.log
    )


async def asks(me: Actor) -> None:
    reply = await me.request(1, "double", [1, 2], timeout=1.0)
    me.log.append(reply.payload)
    reply.payload.append("changed")


def test_all_ways_to_hear_are_noted() -> None:
    run = play(Actor(asks), Replier(), link=Link(latency=0.25), deliveries=True)
    table = run.deliveries()
    columns = ["time_s", "receiver", "sender", "kind", "round", "payload", "sent_s"]
    assert table.columns.tolist() == columns
    assert table.to_numpy().tolist() == [
        [0.25, 1, 0, "double", 0, [1, 2], 0.0],
        [0.5, 0, 1, "double", 0, [1, 2], 0.25],
    ]
    run = play(Talker([(0.5, "a"), (0.1, None)]), Listener(), link=Link(loss=losing(1)), deliveries=True)
    assert run.deliveries()[["time_s", "payload"]].to_numpy().tolist() == [[0.1, None]]

    class GetsOne(Agent):
        async def run(self) -> None:
            await self.inbox.get()

    run = play(Talker([(0.5, "a"), (0.7, "unread")]), GetsOne(), deliveries=True)
    assert run.deliveries()["payload"].tolist() == ["a"]
    late = play(Rounder(3), Rounder(3, keep_late=True), link=Link(latency=1.5), deliveries=True).deliveries()
    assert late[["time_s", "receiver", "round", "payload"]].to_numpy().tolist() == [[2.0, 1, 1, 1], [3.0, 1, 2, 2]]


def test_without_a_frame_the_table_has_its_columns() -> None:
    table = play(Actor(), Actor(), deliveries=True).deliveries()
    assert len(table) == 0
    assert table["time_s"].dtype == float
    assert table["round"].dtype == int


def test_it_must_be_asked_for() -> None:
    run = play(Actor(), Actor())
    assert message_of(run.deliveries, BadInput).startswith("deliveries = False: must be True in Network.run")
    assert message_of(lambda: play(Actor(), Actor(), deliveries=1), BadInput).startswith("deliveries = 1: must be")
