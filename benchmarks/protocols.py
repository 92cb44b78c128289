"""Routing protocols and MAC layers on the measured links of FIT IoT-LAB Grenoble: delivery, latency, duty cycle.

The 50 nodes of `netsim.links.grenoble` on one channel report to the node of the lowest number. All links lose frames
independently, at the rate measured over 48 hours. Every node takes a reading a minute for an hour, after ten minutes in
which routing protocols find their routes. Entries are medians over the seeds, with the least and the largest in
brackets.

"tree" is the tree of least expected transmissions, which nodes know from the start. With CSMA all radios are on for the
same share of each second. With LPL, X-MAC and ContikiMAC they wake every 125 ms, at independent times. With TSCH they
wake for a shared cell every 70 ms, all on the same one of 16 channels, with the same losses on each. MAC layers other
than CSMA run with five readings per node and fewer seeds, because wake-ups cause many events. The benchmark takes about
five minutes on one core.
"""

import statistics
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np

from benchmarks.report import parser, show_table
from netsim import Mote, Network, Run, links, presets
from netsim.agents import CTP, RPL
from netsim.radio import DutyCycle
from netsim.scenarios.convergecast.mote import MACS, Reports, Tree

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


@dataclass
class Site:
    """The measured links, and their tree of least expected transmissions."""

    graph: Any
    models: Any
    sink: Any
    paths: Any

    @classmethod
    def grenoble(cls) -> "Site":
        """Return the Grenoble network on one channel."""
        graph, models = links.grenoble(channel=CHANNEL, link=PRESET.link, least=0.1)
        cost = {
            ends: 1 / (1 - each.loss_model.mean) / (1 - models[ends[::-1]].loss_model.mean)
            for ends, each in models.items()
        }
        paths = nx.single_source_dijkstra_path(graph, min(graph), weight=lambda a, b, _: cost[a, b])
        assert len(paths) == len(graph), "all nodes must have a path to the sink"
        return cls(graph, models, min(graph), paths)

    def routing(self, protocol: str, node: Any) -> Any:
        """Return a node's routing: a protocol of this name, or the best tree."""
        is_sink = node == self.sink
        if protocol == "tree":
            return Tree(is_sink, None if is_sink else self.paths[node][-2], attempts=30)
        return {"CTP": CTP, "RPL": RPL}[protocol](is_sink)

    def always(self, protocol: str, awake: float, seed: int) -> dict[str, float]:
        """Run a routing protocol over CSMA and return the measurements."""
        assert PRESET.radio is not None
        duty = None if awake == 1 else DutyCycle(period=1.0, awake=awake)
        radio = replace(PRESET.radio, max_frame_retries=0, duty_cycle=duty)
        return self._run(protocol, radio, SETTLE, READINGS, lambda is_sink: None, seed)

    def woken(self, protocol: str, mac: str, seed: int) -> dict[str, float]:
        """Run a routing protocol over a MAC layer that switches the radio, and return the measurements."""
        assert PRESET.radio is not None
        radio = replace(PRESET.radio, access="aloha", max_frame_retries=0)
        make, cycle = MACS[mac.lower().replace("-", "")], CYCLES[mac]
        # With a given tree, and no network to join, no time is needed to settle.
        settle = 0.0 if protocol == "tree" and mac != "TSCH" else SETTLE
        return self._run(protocol, radio, settle, WOKEN_READINGS, lambda is_sink: make(cycle, is_sink), seed)

    def _run(self, protocol: str, radio: Any, settle: float, readings: int, mac: Any, seed: int) -> dict[str, float]:
        network = Network(self.graph, PRESET.link, links=self.models, medium=radio, seed=seed)
        motes = {
            node: Mote(
                mac=mac(node == self.sink), routing=self.routing(protocol, node), app=Reports(PERIOD, readings, settle)
            )
            for node in self.graph
        }
        run = network.run(motes, until=settle + PERIOD * (readings + 2))
        agents: Any = {node: mote.parts["routing"] for node, mote in motes.items()}
        heard = agents[self.sink].heard.values()
        taken = sum(agent.taken for agent in agents.values())
        found = self._measured(run, taken, [(each.value, each.time) for each in heard])
        names = "beacons", "dios", "dises"
        control = sum(getattr(agent, name, 0) for agent in agents.values() for name in names)
        return found | {
            "hops": statistics.fmean(each.hops for each in heard),
            "control/h": control / len(agents) / run.ended_at * 3600,
        }

    def _measured(self, run: Run, taken: int, heard: list[tuple[float, float]]) -> dict[str, float]:
        latency = np.array([arrived - begun for begun, arrived in heard])
        energy = run.energy[run.energy["agent"] != self.sink]
        on = energy[["transmit_s", "receive_s", "listen_s"]].sum(axis=1) / run.ended_at
        return {
            "delivered %": 100 * len(heard) / taken,
            "median s": float(np.median(latency)),
            "99 % s": float(np.quantile(latency, 0.99)),
            "radio on %": 100 * float(on.mean()),
            "frames/reading": float(run.airtime["frames"].sum()) / len(heard),
        }


def over(found: list[dict[str, float]]) -> dict[str, str]:
    """Return each measure as text: the median over the seeds, and the least and largest in brackets."""
    values = {name: [each[name] for each in found] for name in found[0]}
    return {name: f"{statistics.median(each):.4g} [{min(each):.4g}-{max(each):.4g}]" for name, each in values.items()}


def main() -> None:
    """Run the benchmark."""
    given = parser(__doc__, seeds=5, few=2).parse_args()
    site, seeds = Site.grenoble(), range(1, given.seeds + 1)
    few = range(1, given.few + 1)
    rows = {
        f"{name}, awake {awake:g}": over([site.always(name, awake, seed) for seed in seeds])
        for name in ("tree", "CTP", "RPL")
        for awake in (1.0, 0.1)
    }
    for name, mac in WOKEN:
        began = time.process_time()
        rows[f"{name}, {mac}"] = over([site.woken(name, mac, seed) for seed in few])
        print(f"{name}, {mac}: {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
    minutes = f"{READINGS} minutes and {given.seeds} seeds, of MAC layers other than CSMA {WOKEN_READINGS} minutes"
    title = f"FIT IoT-LAB Grenoble, channel {CHANNEL}, a reading a minute and node; {minutes} and {given.few} seeds"
    show_table(rows, given.json, title)


if __name__ == "__main__":
    main()
