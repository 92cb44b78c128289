"""Random networks from `networks` and `radios`, with all kinds of faults together."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netsim import Faults, Link
from netsim.faults import ClockSkew
from netsim.links.latency import Delays, Latency, on_links
from netsim.links.loss import GilbertElliott
from tests.fuzzers.laws import Played, check_books, check_same
from tests.fuzzers.networks import Case
from tests.fuzzers.radios import RadioCase, check_air

COUNTS = {"crashes": 4, "joins": 2, "leaves": 1, "cuts": 3, "partitions": 1, "stragglers": 2, "skews": 2, "jitters": 2,
          "losses": 3}  # fmt: skip
"""The largest number of faults of each kind."""

_OF_EDGES = ("cuts", "partitions", "jitters", "losses")
_ONCE_EACH = ("joins", "leaves", "skews")


def faulty(case: Case, seed: int, counts: dict[str, int]) -> Case:
    """Return a case with given numbers of faults of each kind, drawn from a seed."""
    graph, period = case.network.graph, case.network.round_period
    most = dict.fromkeys(_ONCE_EACH, len(graph)) | dict.fromkeys(_OF_EDGES, 99 * graph.number_of_edges())
    fitting = {name: min(count, most.get(name, count)) for name, count in counts.items()}
    case.network.faults += Faults.draw(graph, until=6 * period, seed=seed, **fitting)
    return case


def check_faulty(seed: int, counts: dict[str, int], on_radio: bool = False) -> Played:
    """Check that the laws hold with faults, and that probes do not change the run."""
    kind = RadioCase if on_radio else Case
    case = faulty(kind(seed), seed, counts)
    played = case.play(trace=True)
    check_books(played)
    if isinstance(case, RadioCase):
        check_air(played, case.retunes)
    check_same(played, faulty(kind(seed), seed, counts).play(watched=True))
    return played


# --- clocks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Doubled:
    """A latency that doubles another latency."""

    half: Latency

    @property
    def fixed(self) -> float | None:
        """Return twice the other latency's constant delay; None if it varies."""
        return None if self.half.fixed is None else 2 * self.half.fixed

    def delays(self, u: Delays, first: int) -> Delays:
        """Return twice the other latency's delays."""
        return 2 * self.half.delays(u, first)

    def on_links(self, u: NDArray[np.float64]) -> "Doubled":
        """Return this latency with parameters for each link."""
        return Doubled(on_links(self.half, u))


def slowed(link: Link, times: float) -> Link:
    """Return a link with all times multiplied by ``times`` (1 or 2)."""
    latency = link.latency_model if times == 1 else Doubled(link.latency_model)
    budget = None if link.budget is None else link.budget_model
    if budget is not None and budget.per == "second":
        burst = budget.bits if budget.burst is None else budget.burst
        budget = replace(budget, bits=budget.bits / times, burst=burst)
    assert link.rate is None or isinstance(link.rate, float)
    # The queue's tolerance of 1 ns does not scale, so frames must take longer than that.
    rate = None if link.rate is None else min(link.rate, 1e9) / times
    loss = link.loss
    if isinstance(loss, GilbertElliott) and loss.slot is not None:
        loss = replace(loss, slot=times * loss.slot)
    return replace(link, latency=latency, rate=rate, budget=budget, loss=loss)


def world(seed: int, times: float) -> Case:
    """Return a case with all times multiplied by ``times``, and all clocks slowed by the same factor."""
    case = Case(seed)
    network = case.network
    network.link = slowed(network.link, times)
    network.links = {ends: slowed(link, times) for ends, link in network.links.items()}
    if (capacity := network.capacity) is not None:
        uplink, downlink = (
            {node: bits / times for node, bits in each.items()} for each in (capacity.uplink, capacity.downlink)
        )
        network.capacity = replace(capacity, uplink=uplink, downlink=downlink)
    network._scheduled = [(times * time, action) for time, action in network._scheduled]
    case.until = None if case.until is None else times * case.until
    # Even accurate nodes get a clock of their own: without one, a rounding error could make an agent miss its round.
    network.faults = Faults([ClockSkew(node, drift=times - 1.0) for node in network.graph])
    return case


def check_slow_clocks(seed: int) -> Played:
    """Check that agents do not notice a doubled time scale if their clocks are scaled, too."""
    plain, slow = world(seed, 1.0).play(), world(seed, 2.0).play(trace=True)
    check_books(slow)
    if not any(agent.habits.name == "listen" for agent in slow.agents.values()):
        # A listener ends with the network's own round, whose end is not scaled like the agents' times.
        assert slow.run.ended_at == 2 * plain.run.ended_at
        # Sorted, because the tables' order depends on the first sender at an instant.
        for mine, other in ((slow.links, plain.links), (slow.senders, plain.senders)):
            assert sorted(map(repr, mine)) == sorted(map(repr, other))
    for node, agent in slow.agents.items():
        for got in agent.notes.got:
            # This time is by the simulation's clock, which is not scaled.
            got.sent_at /= 2
        assert repr(agent.notes) == repr(plain.agents[node].notes), f"agent {node!r} noted something else"
    return slow
