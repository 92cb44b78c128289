"""Three ways to collect readings at a sink, on sites that differ by their seed: delivery and energy."""

import asyncio
from dataclasses import replace

import networkx as nx
import numpy as np

import netsim
from netsim import Deployment, Experiment, presets, sweep
from netsim.agents import CTP, RPL
from netsim.radio import LogDistance


def with_work(base):
    """Return a protocol's class whose motes report a reading every 20 s or so."""

    class Mote(base):
        async def work(self):
            while not self.is_sink:
                await asyncio.sleep(20 * self.rng.uniform(0.9, 1.1))
                self.report(round(20 + self.rng.normal(), 2))

    return Mote


def collect(setup, protocol=CTP):
    """Return the motes of CTP or RPL, with node 0 as the sink."""
    kind = with_work(protocol)
    return {node: kind(is_sink=node == 0) for node in setup.graph}


class Naive(netsim.Agent):
    """Sends each reading up a tree of fewest hops that is known beforehand, once."""

    def __init__(self, parent):
        self.parent, self.taken, self.heard = parent, 0, []

    async def run(self):
        self.relay = asyncio.create_task(self.listen())
        while self.parent is not None:
            await asyncio.sleep(20 * self.rng.uniform(0.9, 1.1))
            self.taken += 1
            await self.send(self.parent, "reading", [self.name, self.taken])

    async def listen(self):
        async for frame in self.inbox:
            if self.parent is None:
                self.heard.append(tuple(frame.payload))
            else:
                await self.send(self.parent, "reading", frame.payload)


def naive(setup):
    paths = nx.shortest_path(setup.graph, target=0)
    return {node: Naive(None if node == 0 else paths[node][1]) for node in setup.graph}


def office(setup, motes=16, side=40.0):
    """Return the network of a site of the run's seed; the side (m) of the field is a parameter."""
    places = np.random.default_rng(setup.seeds.graph).uniform(0, side, (motes, 2))
    site = Deployment(
        {node: tuple(place) for node, place in enumerate(places.tolist())},
        sinks=[0],
        path_loss=LogDistance(exponent=3.0, shadowing=3),
        preset=presets.ieee802154(power_dbm=-15),
        seed=setup.seeds.graph,
    )
    return site.network(radio=replace(site.preset.radio, max_frame_retries=0), seed=setup.seeds.network)


def delivered(run):
    taken = sum(mote.taken for mote in run.agents.values())
    heard = {tuple(each)[:2] if isinstance(each, tuple) else each for each in run.agents[0].heard}
    joules = run.energy.set_index("agent")["transmit_j"].drop(0)
    return {"taken": taken, "delivery": len(heard) / taken, "worst_transmit_mj": 1e3 * joules.max()}


experiment = Experiment(
    methods={"naive": naive, "CTP": collect, "RPL": lambda setup: collect(setup, RPL)},
    networks=office,
    names={"side": "network.side"},
    grid=sweep("side", [30.0, 40.0]),
    after=[delivered],
    until=200.0,
    seeds=range(3),
)

if __name__ == "__main__":
    results = experiment.run("runs/protocols", jobs=2)
    print(results)
    table = results.runs.groupby(["side", "method"], sort=False)[["delivery", "worst_transmit_mj"]]
    print(table.agg(["median", "min", "max"]).round(3))
