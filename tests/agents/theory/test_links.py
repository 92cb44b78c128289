"""Networks that satisfy the theorems' assumptions."""

from typing import Any

import pytest

from netsim import Link, Network, Radio, latency, loss, topology
from netsim.agents import theory
from netsim.faults import Crash

IDEAL: list[dict[str, Any]] = [
    {},
    {"link": Link(latency=latency.uniform(0.01, 0.05)), "round_period": 0.1},
    {"medium": "radio", "compute": 0.5},
]
OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"link": Link(loss=0.1, reliability="ack")}, "not for links that lose frames"),
    ({"links": {(0, 1): Link(loss=loss.gilbert_elliott(0.1, 3))}}, "not for links that lose frames"),
    ({"link": Link(corrupt=0.1)}, "not for links that lose frames"),
    ({"link": Link(duplicate=0.1)}, "not for links that duplicate frames"),
    ({"link": Link(rate=1e6)}, "not for links of limited rate or budget"),
    ({"link": Link(budget=1e6)}, "not for links of limited rate or budget"),
    ({"link": Link(latency=1.0)}, "not for latencies that may reach a round"),
    ({"link": Link(latency=latency.exponential(0.2))}, "not for latencies that may reach a round"),
    ({"uplink": 1e6}, "not for nodes of limited capacity"),
    ({"downlink": {0: 1e6}}, "not for nodes of limited capacity"),
    ({"inbox_limit": 3}, "not for a limited inbox"),
    ({"link": Link(rate=250e3), "medium": Radio()}, "not for a radio"),
    ({"faults": [Crash(0, at=1.0)]}, "not for faults"),
]


@pytest.mark.parametrize("settings", IDEAL)
def test_ideal_networks(settings: dict[str, Any]) -> None:
    assert theory.not_ideal(Network(topology.ring(4), **settings)) == ""


@pytest.mark.parametrize(("settings", "reason"), OTHERS)
def test_other_networks(settings: dict[str, Any], reason: str) -> None:
    assert theory.not_ideal(Network(topology.ring(4), **settings)) == reason
