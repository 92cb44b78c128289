"""Each protocol handles frames of the kinds it declares, and counts and ignores all other frames."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import Agent, Network, presets
from netsim.agents import CTP, FTSP, LPL, RPL, TSCH, Collector, ContikiMAC, Glossy, XMac
from netsim.agents.protocols.kinds import Speaker
from tests.agents.test_routing import LINK, RADIO, reporting
from tests.parts import slow

AT_ONCE = replace(RADIO, access="aloha")
PRESET = presets.ieee802154(acks=False)
PROTOCOLS: Mapping[str, Callable[[bool], Speaker]] = {
    "CTP": lambda first: CTP(is_sink=first),
    "RPL": lambda first: RPL(is_sink=first),
    "FTSP": lambda _: FTSP(period=5.0),
    "Glossy": lambda first: Glossy(is_initiator=first),
    "TSCH": lambda first: TSCH(is_root=first, slotframe=7, hopping=range(2), beacons=2.0),
    "LPL": lambda _: LPL(),
    "XMac": lambda _: XMac(),
    "ContikiMAC": lambda _: ContikiMAC(),
}
OWN = sorted({kind for make in PROTOCOLS.values() for kind in make(False).kinds})


class Logger(Agent):
    """Broadcasts its latest reading repeatedly, as a bare number of a given kind."""

    def __init__(self, kind: str = "log", every: float = 1.0, values: Any = (20.5,)) -> None:
        self.kind, self.every, self.values = kind, every, values

    async def run(self) -> None:
        while True:
            for value in self.values:
                await asyncio.sleep(self.every * self.rng.uniform(0.5, 1.0))
                await self.broadcast(self.kind, value)


@pytest.mark.parametrize("protocol", [CTP, RPL])
def test_a_logger_beside_a_tree_is_no_parent(protocol: type[Collector]) -> None:
    """The logger is a neighbour of all motes of a line; no mote may take it as its parent at cost 0."""
    graph = nx.path_graph(4)
    graph.add_edges_from((9, node) for node in range(4))
    kind = reporting(protocol, 5.0, since=30.0)
    agents: dict[Any, Any] = {node: kind(is_sink=node == 0) for node in range(4)}
    run = Network(graph, LINK, medium=RADIO, seed=2).run(agents | {9: Logger()}, until=150.0)
    assert {node: agents[node].parent for node in range(4)} == {0: None, 1: 0, 2: 1, 3: 2}
    assert all(agent.foreign["log"] > 50 for agent in agents.values())
    assert len(agents[0].heard) >= sum(agent.taken for agent in agents.values()) - 2
    assert run.agents[9] is not None


def test_trees_of_two_protocols_stand_side_by_side() -> None:
    """Even nodes run CTP and odd nodes RPL, each with its own sink, on one medium."""
    graph = nx.circulant_graph(8, [1, 2])
    kinds = [reporting(CTP, 10.0, since=60.0), reporting(RPL, 10.0, since=60.0)]
    agents: dict[Any, Any] = {node: kinds[node % 2](is_sink=node < 2) for node in graph}
    Network(graph, LINK, medium=RADIO, seed=3).run(agents, until=200.0)
    for node, agent in agents.items():
        assert (agent.parent is None) == (node < 2)
        assert node < 2 or agent.parent % 2 == node % 2
        assert agent.foreign
    for sink in (0, 1):
        origins = {origin for origin, _ in agents[sink].heard}
        assert origins == set(range(sink, 8, 2)) - {sink}


def test_kinds_of_mac_layers_and_of_routing_differ() -> None:
    """A mote may combine a MAC, routing, FTSP and Glossy, so their frame kinds must not overlap."""
    routing, macs = set(CTP.kinds) | set(RPL.kinds), set(LPL.kinds) | set(TSCH.kinds)
    apart = [routing, macs, set(FTSP.kinds), set(Glossy.kinds)]
    assert sum(map(len, apart)) == len(set().union(*apart))


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.sampled_from([np.zeros(3), np.array(1.5), np.array([[1, 2], [3, 4]]), np.float64(2), 0xFFFF, 255, -1]),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
        | st.tuples(inner, inner, inner, inner, inner, inner).map(list)
    ),
    max_leaves=8,
)
# Nearly valid payloads: lists of values that occur in valid payloads, in any order.
NEARLY = st.lists(
    st.sampled_from(
        [0, 1, 255, 256, 2**16, -1, True, None, 0.5, float("nan"), float("inf"), 1e300, "a", [], {}, (1, 2)]
    ),
    max_size=6,
)


@pytest.mark.parametrize("name", [slow(name) if k % 2 else name for k, name in enumerate(PROTOCOLS)])
@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([*OWN, "log", ""]), ANYTHING | NEARLY), min_size=1, max_size=12))
def test_no_payload_stops_a_protocol(name: str, says: list[tuple[str, Any]]) -> None:
    class Hostile(Agent):
        async def run(self) -> None:
            for kind, payload in says * 2:
                await asyncio.sleep(self.rng.uniform(0.0, 1.0))
                await self.broadcast(kind, payload)

    agents: dict[Any, Any] = {0: PROTOCOLS[name](True), 1: PROTOCOLS[name](False), 2: Hostile()}
    medium = RADIO if name in ("CTP", "RPL") else AT_ONCE if name not in ("Glossy", "FTSP") else None
    medium = medium or replace(PRESET.medium, access="aloha")
    Network(nx.complete_graph(3), LINK, medium=medium, seed=1).run(agents, until=30.0)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_protocol_takes_another_payload_for_its_own(name: str) -> None:
    """Each frame kind has one payload format; a payload in any other format is counted as foreign."""
    speaker = PROTOCOLS[name](False)
    odd: list[Any] = [5, 2.5, "x", b"x", {}, {"a": 1}, [], [1], [[1], [2]], (), np.zeros(2), np.array(3), [1] * 9, True]
    for kind in speaker.kinds:
        for payload in odd:
            if kind == "s" and type(payload) in (int, float):
                continue  # a strobe's payload is a number of seconds
            assert not speaker.is_own(_Heard(kind, payload)), (kind, payload)
    assert speaker.foreign == Counter({kind: len(odd) - 2 * (kind == "s") for kind in speaker.kinds})


class _Heard:
    """A stand-in for a frame, with the two attributes that `is_own` reads."""

    def __init__(self, kind: str, payload: Any) -> None:
        self.kind, self.payload = kind, payload


def test_a_routing_protocol_that_hears_declares_its_kinds() -> None:
    with pytest.raises(netsim.BadInput, match=r"^Chatty: kinds: must be declared, for hear gets frames of these only"):

        class Chatty(Collector):
            def hear(self, frame: Any) -> None:
                """Ignore the frame."""


@pytest.mark.parametrize("routing", [CTP, RPL])
def test_messages_over_a_mac_layer_are_sorted_too(routing: type[Collector]) -> None:
    class Odd(LPL):
        async def work(self) -> None:
            for value in (5, None, [1, 2], ["d", 7], ["x", 1, 2], np.zeros(2), {"a": 1}, ["x", None]):
                await self.post(0, value)

    mote = netsim.Mote(mac=LPL(0.1), it=routing(is_sink=True))
    Network(nx.path_graph(2), LINK, medium=AT_ONCE, seed=1).run({0: mote, 1: Odd(0.1)}, until=5.0)
    assert mote.foreign == {"(message)": 6, "x": 1}
    assert mote.it.foreign == {"d": 1}
