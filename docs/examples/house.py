"""The motes of a house keep a common time, sample together, report to the gateway and take new firmware."""

from dataclasses import replace
from pathlib import Path

import numpy as np

import netsim
from netsim.agents import CTP, FTSP, Dissemination, Sampler

HERE, FIRMWARE = Path(__file__).parent, bytes(range(256)) * 16


def read(*interferers):
    """Return the house with some of its interferers; CTP sends frames again itself, so the radio does not."""
    site = netsim.Deployment.read(HERE / "house.toml", {"radio.max_frame_retries": 0})
    return replace(site, interferers={name: site.interferers[name] for name in interferers})


def mote(is_sink):
    return netsim.Mote(
        time=FTSP(period=10),
        routing=CTP(is_sink),
        update=Dissemination(FIRMWARE if is_sink else None),
        app=Sampler(period=20, spread=10),
    )


def play(site, until=300, seed=1):
    motes = {name: mote(name == site.sink) for name in site.positions}
    return site.network(seed=seed).run(motes, until=until)


def spreads(site, motes):
    """Return for each sample that all motes took how far apart (s) they took it, by the simulation's clock."""
    true = {clock.agent: clock.clock.true for clock in site.clocks}
    slots = set.intersection(*(set(each.app.taken) for each in motes.values()))
    return [np.ptp([true[name](each.app.taken[slot]) for name, each in motes.items()]) for slot in sorted(slots)]


def report(site, motes):
    apart = spreads(site, motes)
    heard, taken = motes[site.sink].routing.heard, sum(each.routing.taken for each in motes.values())
    print(f"{len(heard)} of {taken} readings are at the gateway, over up to {max(h.hops for h in heard.values())} hops")
    print(f"{len(apart)} samples of all motes, each within {1e6 * max(apart):.1f} µs")
    have = [each.update.completed_at for each in motes.values() if each.update.image == FIRMWARE]
    print(f"{len(have)} of {len(motes)} motes have the firmware, the last after {max(have):.0f} s by its clock")


if __name__ == "__main__":
    house = read("ap")
    report(house, play(house).agents)
