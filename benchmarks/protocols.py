"""Routing protocols and MAC layers on the measured links of FIT IoT-LAB Grenoble: delivery, latency, duty cycle.

The 50 nodes of `netsim.links.grenoble` on one channel report to the node of the lowest number.
All links lose frames independently, at the rate measured over 48 hours. Every node takes a reading a
minute for an hour; routing protocols have ten minutes before, in which they find their routes. Each entry is the median
over the seeds, and in brackets the least and the largest.

"tree" is the tree of least expected transmissions, known from the start. With CSMA all radios are on for the same share
of each second. With LPL, X-MAC and ContikiMAC they wake every 125 ms, each when it likes; with TSCH for a shared cell
every 70 ms, all on the same of 16 channels, which the same losses hold for. These run with five readings a node
and fewer seeds, for wake-ups are many events. All takes some five minutes on one core.
"""

import asyncio
import statistics
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np

from benchmarks.report import parser, show_table
from netsim import Network, Run, links, presets
from netsim.agents import CTP, RPL, Collector
from netsim.agents.protocols.collector import Packet
from netsim.agents.protocols.estimator import LinkEstimator
from netsim.radio import DutyCycle
from netsim.scenarios.convergecast.mote import MACS

CHANNEL, PERIOD, READINGS, SETTLE = 20, 60.0, 60, 600.0
WOKEN_READINGS = 5
CYCLES = {"LPL": 0.125, "X-MAC": 0.125, "ContikiMAC": 0.125, "TSCH": 0.07}
WOKEN = [
    ("tree", "LPL"),
    ("tree", "X-MAC"),
    ("tree", "ContikiMAC"),
    ("tree", "TSCH"),
    ("RPL", "TSCH"),
]
PRESET = presets.ieee802154()


class Tree(Collector):
    """A node that knows its parent from the start: no protocol, and no control traffic."""

    parents: dict[Any, Any]

    @property
    def gradient(self) -> int:
        """Nothing is validated."""
        return 0

    def control(self) -> list[Any]:
        """Take the parent that is known."""
        self.estimator = LinkEstimator(self.rng)
        self.parent = self.parents.get(self.name)
        return []

    def choose(self) -> None:
        """Keep the parent."""

    def inspect(self, packet: Packet, sender: Any, gradient: int) -> bool:
        """Forward everything."""
        return True


def reporting(protocol: Any) -> Any:
    """Return a protocol's node that takes readings, whose value is the time at which they were taken (s)."""

    class Node(protocol):  # type: ignore[misc]
        def __init__(self, is_sink: bool, settle: float, readings: int, mac: Any) -> None:
            super().__init__(is_sink, mac=mac)
            self.settle, self.readings = settle, readings
            self.taken_at: list[float] = []

        async def work(self) -> None:
            for minute in range(0 if self.is_sink else self.readings):
                await asyncio.sleep(self.settle + PERIOD * (minute + self.rng.random()) - self.now)
                self.taken_at.append(self.now)
                self.report(self.now)

    return Node


@dataclass
class Site:
    """The measured links, and their tree of least expected transmissions."""

    graph: Any
    models: Any
    sink: Any
    paths: Any

    @classmethod
    def grenoble(cls) -> "Site":
        """Return Grenoble's on one channel."""
        graph, models = links.grenoble(channel=CHANNEL, link=PRESET.link, least=0.1)
        cost = {
            ends: 1 / (1 - each.loss_model.mean) / (1 - models[ends[::-1]].loss_model.mean)
            for ends, each in models.items()
        }
        paths = nx.single_source_dijkstra_path(graph, min(graph), weight=lambda a, b, _: cost[a, b])
        assert len(paths) == len(graph), "all nodes must have a path to the sink"
        return cls(graph, models, min(graph), paths)

    @property
    def parents(self) -> dict[Any, Any]:
        """Each node's next hop."""
        return {node: path[-2] for node, path in self.paths.items() if node != self.sink}

    def always(self, protocol: Any, awake: float, seed: int) -> dict[str, float]:
        """Run a routing protocol over CSMA and return what was measured."""
        assert PRESET.radio is not None
        duty = None if awake == 1 else DutyCycle(period=1.0, awake=awake)
        radio = replace(PRESET.radio, max_frame_retries=0, duty_cycle=duty)
        return self._run(protocol, radio, SETTLE, READINGS, lambda is_sink: None, seed)

    def woken(self, protocol: Any, mac: str, seed: int) -> dict[str, float]:
        """Run a routing protocol over a MAC layer that switches the radio, and return what was measured."""
        assert PRESET.radio is not None
        radio = replace(PRESET.radio, access="aloha", max_frame_retries=0)
        make, cycle = MACS[mac.lower().replace("-", "")], CYCLES[mac]
        # Over a tree that is given, without a network to be joined, there is nothing to settle.
        settle = 0.0 if protocol is Tree and mac != "TSCH" else SETTLE
        return self._run(protocol, radio, settle, WOKEN_READINGS, lambda is_sink: make(cycle, is_sink), seed)

    def _run(self, protocol: Any, radio: Any, settle: float, readings: int, mac: Any, seed: int) -> dict[str, float]:
        Tree.parents = self.parents
        kind = reporting(protocol)
        network = Network(self.graph, PRESET.link, links=self.models, medium=radio, seed=seed)
        agents = {node: kind(node == self.sink, settle, readings, mac(node == self.sink)) for node in self.graph}
        run = network.run(agents, until=settle + PERIOD * (readings + 2))
        heard = agents[self.sink].heard.values()
        found = self._measured(run, [(each.value, each.time) for each in heard])
        names = "beacons", "dios", "dises"
        control = sum(getattr(agent, name, 0) for agent in agents.values() for name in names)
        return found | {
            "hops": statistics.fmean(each.hops for each in heard),
            "control/h": control / len(agents) / run.ended_at * 3600,
        }

    def _measured(self, run: Run, heard: list[tuple[float, float]]) -> dict[str, float]:
        agents: Any = run.agents
        latency = np.array([arrived - taken for taken, arrived in heard])
        energy = run.energy[run.energy["agent"] != self.sink]
        on = energy[["transmit_s", "receive_s", "listen_s"]].sum(axis=1) / run.ended_at
        return {
            "delivered %": 100 * len(heard) / sum(len(agent.taken_at) for agent in agents.values()),
            "median s": float(np.median(latency)),
            "99 % s": float(np.quantile(latency, 0.99)),
            "radio on %": 100 * float(on.mean()),
            "frames/reading": float(run.airtime["frames"].sum()) / len(heard),
        }


def over(found: list[dict[str, float]]) -> dict[str, str]:
    """Return the median of each measure over the seeds, with the least and the largest."""
    values = {name: [each[name] for each in found] for name in found[0]}
    return {name: f"{statistics.median(each):.4g} [{min(each):.4g}-{max(each):.4g}]" for name, each in values.items()}


def main() -> None:
    """Run the benchmark."""
    given = parser(__doc__, seeds=5, few=2).parse_args()
    site, seeds = Site.grenoble(), range(1, given.seeds + 1)
    few = range(1, given.few + 1)
    protocols = {"tree": Tree, "CTP": CTP, "RPL": RPL}
    rows = {
        f"{name}, awake {awake:g}": over([site.always(protocol, awake, seed) for seed in seeds])
        for name, protocol in protocols.items()
        for awake in (1.0, 0.1)
    }
    for name, mac in WOKEN:
        began = time.process_time()
        rows[f"{name}, {mac}"] = over([site.woken(protocols[name], mac, seed) for seed in few])
        print(f"{name}, {mac}: {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
    minutes = f"{READINGS} minutes and {given.seeds} seeds, of MAC layers other than CSMA {WOKEN_READINGS} minutes"
    title = f"FIT IoT-LAB Grenoble, channel {CHANNEL}, a reading a minute and node; {minutes} and {given.few} seeds"
    show_table(rows, given.json, title)


if __name__ == "__main__":
    main()
