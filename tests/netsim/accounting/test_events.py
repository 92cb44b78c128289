"""The comparison of two event logs: the first event in which they differ."""

from typing import Any

import networkx as nx
import pytest

from netsim import Agent, Link, Network, Radio, topology
from netsim.accounting import Trace
from netsim.accounting.events import EventDifference, first_difference


class Says(Agent):
    def __init__(self, said: list[Any]) -> None:
        self.said = said

    async def run(self) -> None:
        async for number in self.rounds(3):
            await self.broadcast("x", self.said[number - 1])
            await self.collect()


def traced(said: list[Any], nodes: Any = range(3), **settings: Any) -> Trace:
    """Return the trace of a line of agents whose second agent sends the given values."""
    graph: nx.Graph[Any] = topology.path(3)
    graph = nx.relabel_nodes(graph, dict(enumerate(nodes)))
    agents = {name: Says(said if number == 1 else [0, 0, 0]) for number, name in enumerate(graph)}
    settings = {"link": Link(latency=0.01)} | settings
    return Network(graph, seed=1, **settings).run(agents, trace=True).trace


def difference(*said: list[Any], **settings: Any) -> EventDifference:
    found = first_difference(*(traced(each, **settings) for each in said))
    assert found is not None
    return found


@pytest.mark.parametrize("settings", [{}, {"link": Link()}, {"link": Link(rate=250e3), "medium": Radio()}])
def test_equal_runs_have_no_such_event(settings: Any) -> None:
    assert first_difference(traced([1, 2, 3], **settings), traced([1, 2, 3], **settings)) is None


def test_another_payload_of_the_same_size() -> None:
    found = difference([1, 2, 3], [1, 5, 3])
    assert (found.time, found.agent) == (1.0, "1")
    assert found.words("here", "there").startswith("at 1 s, agent 1: message 1 (x) sent to all, 8 payload bits, ")
    assert found.words("here", "there").endswith(", with another payload (there)")


def test_another_size() -> None:
    found = difference([1, 2, 3], [1, 2, "three"])
    assert (found.time, found.agent) == (2.0, "1")
    assert "8 payload bits" in found.old
    assert "48 payload bits" in found.new


def test_an_outcome_is_its_receivers() -> None:
    one, other = traced([1, 2, 3]), traced([1, 2, 3], link=Link(latency=0.02))
    found = first_difference(one, other)
    assert found is not None
    assert (found.time, found.agent) == (0.01, "1")
    assert (found.old, found.new) == ("message 0 (x) of agent 0 delivered", "nothing")
    back = first_difference(other, one)
    assert back is not None
    assert (back.old, back.new) == ("nothing", "message 0 (x) of agent 0 delivered")


def test_a_log_that_ends_before_the_other() -> None:
    whole = traced([1, 2, 3])
    graph = topology.path(3)
    agents = {i: Says([0, 0, 0] if i != 1 else [1, 2, 3]) for i in graph}
    cut = Network(graph, Link(latency=0.01), seed=1).run(agents, until=1.5, trace=True).trace
    found = first_difference(whole, cut)
    assert found is not None
    assert (found.time, found.agent, found.new) == (2.0, "0", "nothing")
