"""Trickle behaves as in RFC 6206: when a node sends, doubling intervals, suppression, and resets."""

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import pytest

import netsim
from netsim import BadInput, Network, topology
from netsim.agents import Trickle


class Gossip(netsim.Agent):
    """Broadcasts its version by Trickle: an equal version received is consistent, another one resets the timer."""

    def __init__(self, start: float = 0.0, **timer: Any) -> None:
        self.start, self.timer, self.version = start, timer, 0
        self.said: list[float] = []

    async def run(self) -> None:
        await asyncio.sleep(self.start)
        self.trickle = Trickle(self.say, self.rng, **self.timer)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.trickle.run())
            group.create_task(self.listen())

    async def say(self) -> None:
        self.said.append(self.now)
        await self.broadcast("v", self.version)

    async def listen(self) -> None:
        async for frame in self.inbox:
            if frame.payload == self.version:
                self.trickle.consistent()
            else:
                self.version = max(self.version, frame.payload)
                self.trickle.reset()


def cell(count: int, until: float, apart: float = 0.0, actions: Any = None, **timer: Any) -> list[Gossip]:
    """Run nodes that all receive from each other, with starts spread over ``apart`` seconds, and return them."""
    graph = topology.complete(count) if count > 1 else topology.path(1)
    network = Network(graph, medium="radio", seed=4)
    nodes = {node: Gossip(apart * node / count, **timer) for node in graph}
    for time, action in actions or []:
        network.at(time, partial(action, nodes))
    network.run(nodes, until=until)
    return list(nodes.values())


def test_a_node_alone_speaks_once_in_the_second_half_of_each_doubled_interval() -> None:
    (node,) = cell(1, until=1 + 2 + 4 + 8 + 8 + 8, imin=1.0, doublings=3, k=1)
    begins, spans = [0, 1, 3, 7, 15, 23], [1, 2, 4, 8, 8, 8]
    assert len(node.said) == 6
    for time, begin, span in zip(node.said, begins, spans, strict=True):
        assert begin + span / 2 <= time < begin + span


@pytest.mark.parametrize("k", [1, 3])
def test_of_nodes_in_step_k_speak_in_an_interval_however_many_there_are(k: int) -> None:
    for count in (5, 40):
        nodes = cell(count, until=7 + 20 * 8, imin=1.0, doublings=3, k=k)
        per_interval = Counter(int((time - 7) // 8) for node in nodes for time in node.said if time >= 7)
        assert set(per_interval) == set(range(20))
        assert set(per_interval.values()) == {k}


def test_of_nodes_out_of_step_few_speak() -> None:
    """RFC 6206, section 4.1: the listen-only first half of an interval keeps the number of transmissions O(k)."""
    rates = []
    for count in (10, 80):
        nodes = cell(count, until=800.0, apart=7.9, imin=8.0, doublings=0, k=2)
        rates.append(sum(time >= 80 for node in nodes for time in node.said) / 90)
    assert max(rates) <= 2 * 2
    assert rates[1] < 1.5 * rates[0]


def test_without_k_all_speak() -> None:
    nodes = cell(20, until=15.0, imin=1.0, doublings=3)
    assert {len(node.said) for node in nodes} == {4}


def test_what_is_inconsistent_spreads_within_imin() -> None:
    def update(nodes: dict[int, Gossip]) -> None:
        nodes[3].version = 1
        nodes[3].trickle.reset()

    nodes = cell(10, until=501.0, actions=[(500.0, update)], imin=0.1, doublings=12, k=2)
    first = min(time for node in nodes for time in node.said if time >= 500)
    assert 500.05 <= first < 500.1
    assert {node.version for node in nodes} == {1}
    # Each node that received the new version restarted with the interval Imin = 0.1 s.
    assert all(node.trickle.interval <= 0.8 for node in nodes)


def test_a_reset_at_imin_changes_nothing() -> None:
    def reset(nodes: dict[int, Gossip]) -> None:
        nodes[0].trickle.reset()

    calm = cell(1, until=60.0, imin=1.0, doublings=4)
    reset_at_once = cell(1, until=60.0, actions=[(0.3, reset)], imin=1.0, doublings=4)
    assert calm[0].said == reset_at_once[0].said


@pytest.mark.parametrize(
    ("timer", "says"), [({"imin": 0.0}, "imin = 0"), ({"k": 0}, "k = 0"), ({"doublings": -1}, "doub")]
)
def test_bad_input_is_refused_by_name(timer: dict[str, Any], says: str) -> None:
    import numpy as np

    async def nothing() -> None: ...

    with pytest.raises(BadInput, match=says):
        Trickle(nothing, np.random.default_rng(0), **({"imin": 1.0, "doublings": 3} | timer))
