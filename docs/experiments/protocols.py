"""Three stacks collect readings in a house with a jammer: delivery and the time for which radios are on."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import netsim
from netsim import Experiment, results
from netsim.agents import CTP, RPL, TSCH

HOUSE = Path(__file__).parent.parent / "examples" / "house.toml"


class Reports(netsim.Part):
    """Reports some readings, one a minute, from a time on (s)."""

    def __init__(self, since, readings=3):
        self.since, self.readings = since, readings

    async def run(self):
        await asyncio.sleep(self.since + 60 * self.rng.random() - self.now)
        for _ in range(0 if self.mote.routing.is_sink else self.readings):
            self.mote.routing.report(round(20 + self.rng.normal(), 2))
            await asyncio.sleep(60)


@dataclass(frozen=True)
class Stack:
    """Makes the motes of a run: routing over the radio's own CSMA, or over a MAC layer."""

    routing: type
    mac: Callable | None = None

    def __call__(self, setup):
        site = setup.network.deployment
        return {node: self.mote(node == site.sink, site.warm_up) for node in site.positions}

    def mote(self, is_sink, warm_up):
        mac = self.mac and self.mac(is_sink)
        return netsim.Mote(mac=mac, routing=self.routing(is_sink), app=Reports(warm_up))


def tsch(is_root):
    return TSCH(is_root, slotframe=25, hopping=(0, 5, 10, 15))


def house(setup, jammer=40.0, warm_up=180.0, gateway=0.0):
    """Return the house of a run's seed; the jammer's seconds and the gateway's power (dBm) are parameters."""
    seed, access = setup.seeds.graph, "aloha" if getattr(setup.method, "mac", None) else "csma"
    changes = {"seed": seed, "warm_up": warm_up, "radio.access": access, "radio.max_frame_retries": 0}
    begins = warm_up + 60
    changes |= {"motes.gateway.power_dbm": gateway}
    changes |= {"interferers.jammer.at": begins, "interferers.jammer.until": begins + max(jammer, 1e-3)}
    site = netsim.Deployment.read(HOUSE, changes)
    return replace(site, interferers={"jammer": site.interferers["jammer"]}).network(seed=setup.seeds.network)


def delivered(run):
    sink = next(each.routing for each in run.agents.values() if each.routing.is_sink)
    taken = sum(each.routing.taken for each in run.agents.values())
    on = run.energy[["transmit_s", "receive_s", "listen_s"]].sum(axis=1) / run.ended_at
    return {"delivered_%": 100 * len(sink.heard) / taken, "radio_on_%": 100 * on.mean()}


experiment = Experiment(
    methods={"CTP, CSMA": Stack(CTP), "RPL, CSMA": Stack(RPL), "RPL, TSCH": Stack(RPL, tsch)},
    networks=house,
    names={"jammer": "network.jammer", "gateway": "network.gateway"},
    after=[delivered],
    until=400.0,
    seeds=range(1, 6),
)

if __name__ == "__main__":
    found = experiment.run("runs/protocols", jobs=2)
    for measure in ("delivered_%", "radio_on_%"):
        print(measure, results.markdown(results.interval(found.tidy(), measure, ["algorithm"]), digits=3), sep="\n")
