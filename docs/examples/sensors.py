"""Thirty motes report to a sink for an hour: measured links, CSMA-CA, acknowledgements, sleep, batteries."""

import asyncio
from dataclasses import replace

import networkx as nx
import numpy as np

import netsim
from netsim.radio import DutyCycle, LogDistance

PRESET = netsim.presets.ieee802154()


class Mote(netsim.Agent):
    def __init__(self, parent):
        self.parent, self.heard = parent, []

    async def run(self):
        self.listening = asyncio.create_task(self.listen())
        await asyncio.sleep(60 * self.rng.random())
        while self.parent is not None:
            await self.deliver(self.parent, "reading", [self.name, self.now])
            await asyncio.sleep(60)

    async def listen(self):
        async for frame in self.inbox:
            self.heard.append(tuple(frame.payload))
            if self.parent is not None:
                await self.deliver(self.parent, "reading", frame.payload)


def synthetic():
    at = dict(enumerate(np.random.default_rng(1).uniform(0, 80, (60, 2)).tolist(), 1))
    return LogDistance(exponent=4, shadowing=4).network(at, link=PRESET.link, least=0.25, both=True, connected=False)


def an_hour(graph, links, sink=1):
    cost = {(a, b): 1 / (1 - links[a, b].loss.mean) / (1 - links[b, a].loss.mean) for a, b in links}
    paths = nx.single_source_dijkstra_path(graph, sink, weight=lambda a, b, _: cost[a, b])
    motes = list(paths)[:31]  # the sink, and the thirty that expect the fewest transmissions to it
    links = {ends: link for ends, link in links.items() if {*ends} <= {*motes}}
    joules = np.random.default_rng(1).uniform(10, 40, len(motes) - 1)
    batteries = {mote: replace(PRESET.energy, battery=held) for mote, held in zip(motes[1:], joules, strict=True)}
    radio = replace(PRESET.radio, duty_cycle=DutyCycle(period=1.0, awake=0.1), energy=batteries)
    faults = netsim.Faults([netsim.faults.Crash(motes[3], at=1200, until=1800)])  # a relay dies, and returns
    network = netsim.Network(graph.subgraph(motes), PRESET.link, links=links, medium=radio, seed=1, faults=faults)
    agents = {mote: Mote(paths[mote][-2] if mote != sink else None) for mote in network.graph}
    return network.run(agents, until=3600), agents[sink]


def report(run, sink):
    links = run.ledger.table(["sender", "receiver"])[["sender", "receiver", "offered", "delivered"]]
    print(links.assign(ratio=links["delivered"] / links["offered"]).nsmallest(4, "ratio").round(3))
    print(run.energy.nsmallest(3, "died_at_s")[["agent", "transmit_s", "used_j", "died_at_s"]].round(3))
    print(len(set(sink.heard)), "readings reached the sink")


if __name__ == "__main__":
    report(*an_hour(*netsim.links.intel_lab(link=PRESET.link)))
