"""Which stack suits an orchard where a pump disturbs one channel: CTP or RPL, over CSMA, X-MAC or TSCH?"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import netsim
from netsim import Experiment, results, vary
from netsim.agents import CTP, RPL, TSCH, XMac

SITE, WARM_UP, EVERY, READINGS = Path(__file__).with_name("orchard.toml"), 120.0, 60.0, 4
BATTERY = 3.0 * 2.5 * 3600  # two AA cells: 3 V, 2500 mAh, in joules


class Reports(netsim.Part):
    """Reports readings after the warm-up, and notes what the radio had used until then (J)."""

    async def run(self):
        await asyncio.sleep(WARM_UP - self.now)
        self.used_before = self.energy.used
        await asyncio.sleep(EVERY * self.rng.random())
        for _ in range(0 if self.mote.routing.is_sink else READINGS):
            self.mote.routing.report(round(20 + self.rng.normal(), 2))
            await asyncio.sleep(EVERY)


@dataclass(frozen=True)
class Stack:
    """Makes the motes of a run: routing over the radio's own CSMA, or over a MAC layer."""

    routing: type
    mac: Callable | None = None

    def __call__(self, setup):
        sink = setup.network.deployment.sink
        return {node: self.mote(node == sink) for node in setup.network.deployment.positions}

    def mote(self, is_sink):
        return netsim.Mote(mac=self.mac and self.mac(is_sink), routing=self.routing(is_sink), app=Reports())


def orchard(setup, duty=0.5):
    """Return the orchard of a run's seed, where the pump sparks for a share of the time."""
    access = "aloha" if getattr(setup.method, "mac", None) else "csma"  # a MAC layer senses the channel itself
    changes = {"seed": setup.seeds.graph, "radio.access": access, "radio.max_frame_retries": 0}
    site = netsim.Deployment.read(SITE, changes | {"interferers.pump.duty": duty})
    return site.network(seed=setup.seeds.network)


def delivered(run):
    motes, used = list(run.agents.values()), run.energy.set_index("agent")["used_j"]
    (sink,) = (each.routing for each in motes if each.routing.is_sink)
    spent = max(used[each.name] - each.app.used_before for each in motes if each.routing is not sink)
    days = BATTERY / spent * (run.ended_at - WARM_UP) / 86400  # until the first battery is empty
    return {"delivered_%": 100 * len(sink.heard) / sum(each.routing.taken for each in motes), "lifetime_days": days}


macs = {"CSMA": None, "X-MAC": lambda _: XMac(period=0.125)}
macs["TSCH"] = lambda is_root: TSCH(is_root, slotframe=11, hopping=(0, 5, 10, 15), beacons=5)
experiment = Experiment(
    methods={f"{kind.__name__}, {mac}": Stack(kind, macs[mac]) for mac in macs for kind in (CTP, RPL)},
    networks=orchard,
    names={"duty": "network.duty"},
    grid=vary("duty", [0.5, 0.8, 0.9]),
    after=[delivered],
    goals=["delivered_%", "lifetime_days"],
    until=WARM_UP + EVERY * (READINGS + 0.7),
    seeds=range(1, 9),
)

if __name__ == "__main__":
    found = experiment.run("runs/stacks", jobs=2)
    found.report(title="Which stack suits the orchard?")
    title = "12 motes, 48 readings; a pump disturbs one channel for a share (duty) of the time"
    drawn = {"facets": "duty", "of": "median", "log": True, "title": title}
    results.tradeoff(found.tidy(), "lifetime_days", "delivered_%", **drawn).savefig("stacks.png")
