"""The compiled core against its Python twin. The fuzz tests are in tests/netsim/test_network_fuzz.py."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import Agent, Link, Network, core, topology
from netsim.core import arrival_queue, frame, records, tally
from tests.command import ROOT, on_the_other_core, python

# The fuzz tests run random networks on both cores; these tests add random draws and failures.
BY_TWIN = ["tests/test_laws.py", "tests/netsim/accounting/test_trace.py", "tests/netsim/engine/test_failures.py"]
# These tests compare a link's stages with closed forms.
BY_TWIN += ["tests/netsim/transport/test_transmitter.py", "tests/netsim/links/test_links.py"]
# Skipped or reduced here: Ctrl-C does not depend on the core, and one of the reordering tests is enough.
ONCE = "control_c or as_their_delays_say and not 0.3"


@pytest.mark.slow
@pytest.mark.skipif(core.NAME != "compiled", reason="the twin runs all tests already")
def test_the_twin_passes_tests_of_its_own() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-k", f"not ({ONCE})", "-p", "no:cacheprovider", *BY_TWIN]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"NETSIM_CORE": "python"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize(
    "queue", dict.fromkeys([arrival_queue.ArrivalQueue, core.ArrivalQueue]), ids=lambda kind: kind.__module__
)
def test_a_frame_that_may_be_late_is_settled_on_its_own(queue: type[arrival_queue.ArrivalQueue]) -> None:
    keys = np.zeros(1, dtype=np.uint64)
    for time, plain, careful in [(0.9, True, False), (1.0, True, True), (1.1, True, True), (0.9, False, True)]:
        arrivals = queue((core.Tally if queue is core.ArrivalQueue else tally.Tally)(keys, keys, False))
        arrivals.push(time, 0, 0, core.Frame("x", 0, 1, 0.5, b"", plain), 1.0)
        assert arrivals.careful is careful
        assert len(arrivals.due(2.0)) == 1
        assert not arrivals.careful


def test_each_cause_has_the_number_of_its_place() -> None:
    assert [getattr(records, name.upper()) for name in records.ALL_CAUSES] == list(range(len(records.ALL_CAUSES)))


def test_an_unknown_core_is_refused_in_one_line() -> None:
    with pytest.raises(AssertionError, match=r"NETSIM_CORE = 'rust': must be python, compiled or empty\n"):
        python("from netsim import Network", NETSIM_CORE="rust")


# --- sets of frames ---------------------------------------------------------------------------------------------------


class Relay(Agent):
    """Sends messages each round, and records the iteration order of the set of received messages."""

    def __init__(self) -> None:
        self.order: list[Any] = []

    async def run(self) -> None:
        async for number in self.rounds(3):
            for kind in ("a", "b"):
                await self.broadcast(kind, [number])
            self.order += [(frame.sender, frame.kind) for frame in set(await self.collect())]


def orders(*, first: Sequence[str] = (), **settings: Any) -> list[list[Any]]:
    """Return the orders recorded by 8 agents in a network whose first nodes are ``first``."""
    graph: nx.Graph[Any] = nx.Graph()
    graph.add_nodes_from(first)
    graph.add_edges_from(nx.relabel_nodes(topology.complete(8), {i: f"agent {i}" for i in range(8)}).edges)
    agents = {name: Relay() for name in graph}
    Network(graph, Link(latency=0.05), connected=False).run(agents, **settings)
    return [agents[f"agent {i}"].order for i in range(8)]


def test_a_set_of_frames_has_one_order_whoever_else_is_there() -> None:
    expected = orders()
    assert expected[0] != sorted(expected[0])
    assert orders(first=["other"]) == orders(workers=2) == orders(trace=True) == expected


def test_a_set_of_frames_has_one_order_in_every_process_on_either_core() -> None:
    code = "from tests.netsim.core.test_core import orders; print(orders())"
    assert on_the_other_core(code).strip() == python(code, PYTHONHASHSEED="3").strip() == repr(orders())


@pytest.mark.parametrize("kind", [core.Frame, frame.Frame])
def test_a_frame_equals_only_itself(kind: Any) -> None:
    one, other = (kind("x", "a", 3, 0.5, b"bytes", False, 7, True, 2) for _ in range(2))
    assert one == one != other
    assert hash(one) == hash(other) == hash(one.copy()) == hash(frame.Frame("x", "a", 3, 0.5, b"?", False, 7, True, 2))
    assert len({one, other, one}) == 2
