"""The compiled core and its twin in Python: the same runs, draw by draw and bit by bit."""

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from netsim import Agent, Link, Network, core, latency, loss, topology
from netsim.coders import QSGD, Uniform
from netsim.core import records
from netsim.replay.frames import frames_of
from tests.command import ROOT, python

# The random networks and radios of tests/fuzzers run on both cores, too: these see what a run draws and how it fails.
BY_TWIN = ["tests/test_laws.py", "tests/netsim/accounting/test_trace.py", "tests/netsim/engine/test_failures.py"]


class Talker(Agent):
    """Sends payloads of every kind, of sizes around those at which the wire's form changes."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.heard: list[tuple[Any, ...]] = []

    async def run(self) -> None:
        async for k in self.rounds(len(self.sizes), keep_late=bool(self.sizes[0] % 2)):
            vector = self.rng.normal(size=self.sizes[k - 1])
            payloads = [vector, vector.astype(np.float32), vector[::2], vector.reshape(-1, 1), [vector, k], k, None]
            payloads += [Uniform(3).encode(vector), QSGD(2).encode(vector, self.rng)] if len(vector) else []
            for payload in payloads:
                await self.broadcast(f"kind {self.rng.integers(3)}", payload, raw_data=bool(k % 2))
            await self.send(self.neighbors[0], "one", vector)
            for frame in await self.collect():
                value = np.asarray(frame.payload[0] if isinstance(frame.payload, list) else frame.payload)
                content = value.dtype.str, value.shape, value.tobytes() if value.dtype != object else repr(value)
                self.heard.append((frame.kind, frame.sender, frame.round, frame.sent_at, *content))


def networks() -> "list[tuple[Network, dict[int, Agent]]]":
    """Return networks of many kinds."""
    found: list[tuple[Network, dict[int, Agent]]] = []
    rng = np.random.default_rng(5)
    delays = [0.0, 0.03, 0.1, latency.uniform(0, 0.25), latency.exponential(0.06), latency.trace([0.02, 0.1, 0.3])]
    losses = [
        0.0,
        0.2,
        1.0,
        loss.gilbert_elliott(0.3, 3),
        loss.gilbert_elliott(0.3, 3, slot=0.04),
        loss.trace([0, 1, 0]),
    ]
    for seed in range(24):
        link = Link(
            latency=delays[rng.integers(len(delays))],
            loss=losses[rng.integers(len(losses))],
            header_bits=int(rng.integers(3)) * 16,
            duplicate=0.2 * (seed % 5 == 0),
            rate=1e5 if seed % 7 == 0 else None,
        )
        graph = topology.erdos_renyi(6, p=0.6, seed=seed)
        links = {(0, next(iter(graph[0]))): Link(latency=0.01)} if seed % 6 == 1 else None
        medium: Any = "radio" if seed % 3 == 0 and not links else "wires"
        sizes = rng.choice([0, 1, 2, 15, 16, 29, 30, 31, 32, 127, 128, 8190, 8193], size=4).tolist()
        network = Network(graph, link, links=links, round_period=0.1, medium=medium, seed=seed)
        found.append((network, {i: Talker(sizes) for i in graph}))
    return found


def results() -> list[list[str]]:
    """Return the hash, the tables and what was heard, of each network."""
    found = []
    for number, (network, agents) in enumerate(networks()):
        if number % 4 == 0:
            network.at(0.15, lambda network=network: network.set_link(0, next(iter(network.graph[0])), up=False))
        run = network.run(agents, trace=number % 2 == 0)
        tables = [run.rounds, run.ledger.table(), run.ledger.senders_table()]
        tables += [run.trace.table(), pd.DataFrame(frames_of(run.trace).columns)] if number % 2 == 0 else []
        heard = [repr(agent.heard) for agent in agents.values() if isinstance(agent, Talker)]
        heard += [repr(counts.tolist()) for counts in run.ledger.heard()]
        found.append([run.trace_hash, *(table.to_csv() for table in tables), *heard])
    return found


@pytest.mark.skipif(core.NAME != "compiled", reason="the compiled core was not built")
def test_the_compiled_core_does_what_its_twin_does() -> None:
    code = "import json; from tests.netsim.core.test_core import results; print(json.dumps(results()))"
    theirs = json.loads(python(code, NETSIM_CORE="python"))
    for number, (mine, twins) in enumerate(zip(results(), theirs, strict=True)):
        assert mine == twins, f"network {number}"
    assert len({found[0] for found in theirs}) == len(theirs)


@pytest.mark.slow
@pytest.mark.skipif(core.NAME != "compiled", reason="the twin runs all tests already")
def test_the_twin_passes_tests_of_its_own() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", *BY_TWIN]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"NETSIM_CORE": "python"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


def test_each_cause_has_the_number_of_its_place() -> None:
    assert [getattr(records, name.upper()) for name in records.ALL_CAUSES] == list(range(len(records.ALL_CAUSES)))


def test_an_unknown_core_is_refused_in_one_line() -> None:
    with pytest.raises(AssertionError, match=r"NETSIM_CORE = 'rust': must be python, compiled or empty\n"):
        python("from netsim import Network", NETSIM_CORE="rust")
