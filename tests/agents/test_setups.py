"""Impossible setups, such as a missing sink or two roots, raise an error before the run or are noted once."""

import warnings
from dataclasses import replace
from typing import Any

import networkx as nx
import pytest

import netsim
from netsim import BadInput, Deployment, Mote, Network, Radio
from netsim.agents import CTP, LPL, RPL, TSCH, ContikiMAC, Glossy, XMac
from netsim.radio import LogDistance, Phy
from netsim.testing import Actor
from tests.agents.test_routing import LINK, RADIO

AT_ONCE = replace(RADIO, access="aloha")
LINE = nx.path_graph(3)


def run(agents: Any, medium: Radio = AT_ONCE, until: float = 1.0, graph: Any = LINE) -> Any:
    return Network(graph, LINK, medium=medium, seed=1).run(agents, until=until)


@pytest.mark.parametrize("mac", [LPL, XMac, ContikiMAC, lambda: TSCH(True)])
@pytest.mark.parametrize("routing", [CTP, RPL])
def test_one_mac_layer_for_all_is_refused(routing: Any, mac: Any) -> None:
    shared = mac()
    kind = type(shared).__name__
    with pytest.raises(
        BadInput, match=rf"^agents\[1\]\.mac: must be an object of its own; it is the same {kind} as agents\[0\]\.mac$"
    ):
        run({node: Mote(mac=shared, it=routing(is_sink=node == 0)) for node in LINE})


def test_any_agent_that_works_for_two_is_refused_and_a_friend_is_not() -> None:
    class Uses(Actor):
        def __init__(self, helper: Any) -> None:
            super().__init__()
            self.helper = helper

    shared = Actor()
    with pytest.raises(BadInput, match=r"^agents\[2\]\.helper: must be an object of its own"):
        run({0: Uses(None), 1: Uses(shared), 2: Uses(shared)})
    friend = Actor()
    run({0: friend, 1: Uses(friend), 2: Uses(friend)})


@pytest.mark.parametrize("routing", [CTP, RPL])
def test_a_tree_without_a_sink_is_refused(routing: Any) -> None:
    kind = routing.__name__
    with pytest.raises(
        BadInput, match=rf"^is_sink = False: must be True for one agent; without one the readings of {kind}"
    ):
        run({node: routing() for node in LINE}, RADIO)


def test_two_sinks_are_told_of_and_two_islands_are_not() -> None:
    with pytest.warns(RuntimeWarning, match="is_sink: agents 0, 2 are sinks of one CTP, made for one"):
        run({node: CTP(is_sink=node != 1) for node in LINE}, RADIO)
    islands = nx.Graph([(0, 1), (2, 3)])
    network = Network(islands, LINK, medium=RADIO, seed=1, connected=False)
    network.run({node: CTP(is_sink=node in (0, 2)) for node in islands}, until=1.0)


def test_tsch_begins_once() -> None:
    with pytest.raises(
        BadInput, match=r"^is_root = False: must be True for one agent; without one no node of TSCH ever"
    ):
        run({node: TSCH() for node in LINE})
    with pytest.raises(BadInput, match=r"^is_root: must be True for one agent only, .* \[0, 2\] are connected"):
        run({node: TSCH(node != 1) for node in LINE})
    with pytest.raises(BadInput, match="no node of TSCH ever joins"):
        run({node: Mote(mac=TSCH(), it=CTP(node == 0)) for node in LINE})


def test_floods_begin_somewhere() -> None:
    with pytest.raises(BadInput, match="is_initiator = False: must be True for one agent; without one nobody begins"):
        run({node: Glossy() for node in LINE})
    with pytest.warns(RuntimeWarning, match="is_initiator: agents 0, 1 begin floods"):
        run({node: Glossy(node < 2) for node in LINE}, replace(AT_ONCE, acks=False))


def test_what_must_be_the_same_at_all_nodes_is() -> None:
    with pytest.raises(BadInput, match=r"^agents\[1\]: period = 0\.25: must be 0\.5, as agent 0 has it$"):
        run({node: Mote(mac=LPL(0.25 if node else 0.5), it=CTP(node == 0)) for node in LINE})
    with pytest.raises(BadInput, match=r"^agents\[1\]: slotframe = 7: must be 101, as agent 0 has it$"):
        run({node: TSCH(node == 0, slotframe=7 if node else 101) for node in LINE})


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Radio(phy=Phy(), powers={(0, 1): -90.0, (1, 0): 91.0}), r"powers\[\(1, 0\)\] = 91 dBm"),
        (lambda: Radio(powers={(0, 1): 91.0, (1, 0): -91.0}, capture=3.0), r"powers\[\(0, 1\)\] = 91 dBm"),
        (lambda: Phy(transmit_dbm=91.0), "transmit_dbm = 91 dBm"),
        (lambda: LogDistance(transmit_dbm=91.0), "transmit_dbm = 91 dBm"),
    ],
)
def test_a_power_of_megawatts_is_told_of(make: Any, name: str) -> None:
    with pytest.warns(RuntimeWarning, match=f"{name}: is 1.3e\\+06 W; was -91 dBm meant"):
        make()


def test_a_power_of_megawatts_in_the_hand_is_told_of() -> None:
    async def loud(me: Any) -> None:
        me.radio.power_dbm = 91.0

    with pytest.warns(RuntimeWarning, match="power_dbm = 91 dBm: is 1.3e"):
        run({0: Actor(loud), 1: Actor(), 2: Actor()})


def test_degrees_are_told_of() -> None:
    degrees = {k: (5.71 + 0.001 * (k % 5), 45.19 + 0.001 * (k // 5)) for k in range(25)}
    with pytest.warns(
        RuntimeWarning, match=r"^positions: 25 motes on 0\.004 m x 0\.004 m around \(5\.712, 45\.192\): must be in"
    ):
        Deployment(degrees)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for places in (
            {k: (0.1 * k, 0.0) for k in range(5)},
            {k: (1000.0 + 5 * k, 2000.0) for k in range(5)},
            {0: (5.0, 45.0)},
            dict.fromkeys(range(3), (5.0, 45.0)),
        ):
            Deployment(places, connected=False)


def test_a_place_that_is_none_is_refused() -> None:
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(netsim.BadInput, match=r"^positions\[1\]"):
            Deployment({0: (0.0, 0.0), 1: (wrong, 1.0)})
