"""Random networks whose links change, are held or are cut while frames are waiting or in flight."""

from dataclasses import replace

import numpy as np

from netsim import Faults, Network, latency, topology
from tests.fuzzers.laws import check_books, check_same
from tests.fuzzers.messages import check_messages
from tests.fuzzers.networks import Case, Rng, a_change, check_drawn, pick, whole_digest
from tests.fuzzers.workers import for_workers

HABITS = ("at_once", "heartbeat", "in_rounds", "twice_in_rounds")


def a_changing_network(rng: Rng) -> Network:
    """Return a network of slow links without budgets, with up to nine scheduled changes."""
    network = Case.network_of(rng)
    period = network.round_period
    rate = float(rng.choice([200, 800, 3000])) / period
    for_rate = {"rate": rate, "budget": None, "queue": None, "queue_bits": pick(rng, None, 5000)}
    network.link = replace(network.link, **for_rate)
    network.links = {ends: replace(link, **for_rate) for ends, link in network.links.items()}
    network.faults = Faults()
    for _ in range(rng.integers(2, 10)):
        ends = topology.links_of(network.graph)
        network.faults += [a_change(rng, network, ends)] if ends else []
    return network


class ChangingCase(Case):
    """A random network whose links change while many frames are waiting or in flight."""

    network_of = staticmethod(a_changing_network)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        rng = np.random.default_rng([seed, 2])
        for node, habits in self.habits.items():
            name = HABITS[rng.integers(len(HABITS))]
            self.habits[node] = replace(habits, name=name, count=int(rng.integers(3, 9)), pause=habits.pause / 4)


def check_seed(seed: int) -> None:
    """Check the laws on a case, and that probes do not change its run."""
    played = ChangingCase(seed).play(trace=True)
    check_books(played)
    check_messages(played)
    check_same(played, ChangingCase(seed).play(watched=True))


def check_one(rng: Rng) -> None:
    """Check a network with changing links drawn with ``rng``."""
    check_drawn(rng, check_seed)


def hashes(first: int, count: int) -> list[str]:
    """Return the digests of the runs of ``count`` cases, from seed ``first`` on."""
    return [whole_digest(ChangingCase(seed).play(trace=True)) for seed in range(first, first + count)]


def for_several_workers(seed: int) -> Case:
    """Return a case over links with latency and constant rates."""
    case, rng = ChangingCase(seed), np.random.default_rng([seed, 3])
    network, period = case.network, case.network.round_period
    low = float(period * rng.choice([0.05, 0.4, 1.3]) * (1 + rng.random() / 10))
    usual, longer = (latency.uniform(low, low + each * period) for each in (0.5, 3.0))
    network.link = replace(network.link, latency=usual)
    network.links = {ends: replace(link, latency=usual) for ends, link in network.links.items()}
    network.faults = Faults(for_workers(fault, longer) for fault in network.faults)
    return case
