"""Random networks on a `netsim.Radio`: every way of access, acknowledgements, sleep, batteries, capture.

The links, agents and events are those of `tests.fuzzers.networks`.
"""

from collections.abc import Mapping
from typing import Any

import networkx as nx
import numpy as np

from netsim import Energy, Link, Network, Radio, latency
from netsim.radio import DutyCycle
from tests.fuzzers.laws import Played, check_books, check_same
from tests.fuzzers.messages import received_is_what_was_delivered, received_is_what_was_sent
from tests.fuzzers.networks import PERIODS, Case, Rng, a_graph, at_the_sender, happen, in_numpy, on_the_way, pick


def some_energy(rng: Rng, graph: "nx.Graph[Any]") -> Energy | Mapping[Any, Energy] | None:
    """Return what nodes spend: nothing, the same for all, or batteries that some run empty."""
    power = {"transmit": 0.05, "receive": 0.06, "listen": float(rng.choice([0, 0.06])), "sleep": 1e-6}
    if rng.random() < 0.3:
        return None
    if rng.random() < 0.5:
        return Energy(**power)
    return {node: Energy(**power, battery=float(10 ** rng.uniform(-5, 0))) for node in graph if rng.random() < 0.5}


def a_radio(rng: Rng, graph: "nx.Graph[Any]", period: float, frame: float) -> Radio:
    """Return a medium; ``frame`` is about the time of a frame on the air, in seconds."""
    access = pick(rng, "aloha", "slotted_aloha", "csma", "csma")
    pairs = [(a, b) for a in graph for b in graph if a != b]
    others = nx.DiGraph([pairs[i] for i in rng.integers(0, len(pairs), 4)] if pairs else [])
    powers = {ends: float(rng.uniform(-90, -50)) for ends in pairs} if rng.random() < 0.3 else None
    return Radio(
        access=access,
        slot=float(rng.choice([frame, 3 * frame, period / 8])) if access == "slotted_aloha" else None,
        min_be=int(rng.integers(0, 4)),
        max_csma_backoffs=int(rng.integers(0, 5)),
        unit_backoff=float(rng.choice([frame, frame / 3])),
        cca=max(1e-7, frame / 8),
        turnaround=pick(rng, 0.0, frame / 5),
        acks=bool(rng.random() < 0.5),
        max_frame_retries=int(rng.integers(0, 4)),
        sensing=pick(rng, None, None, nx.Graph(others), others),
        interference=pick(rng, None, None, others),
        powers=powers,
        capture=None if powers is None else float(rng.choice([0, 3, 10])),
        transmit_share=pick(rng, None, None, 0.1),
        duty_cycle=pick(rng, None, None, DutyCycle(period=period / 2, awake=period / 5)),
        energy=some_energy(rng, graph),
    )


def a_network(rng: Rng) -> Network:
    """Return a network on a radio, with links of their own and things that happen at set times."""
    period = float(rng.choice(PERIODS))
    graph = a_graph(rng)
    port = at_the_sender(rng, period, True) | {"rate": float(rng.choice([5e3, 1e5, 1e6])) / period}
    ends = [pair for a, b in graph.edges for pair in ((a, b), (b, a))]

    def a_link() -> Link:
        way = on_the_way(rng, period) | {"duplicate": 0.0}
        way["latency"] = pick(rng, 0.0, 0.0, period / 50, way["latency"], lambda _: latency.uniform(0, period / 9))
        return Link(**in_numpy(rng, port | way))

    links = {ends[rng.integers(len(ends))]: a_link() for _ in range(rng.integers(0, 4) if ends else 0)}
    network = Network(
        graph,
        a_link(),
        links={pair: Link(**{**vars_of(link), **port}) for pair, link in links.items()},
        round_period=period,
        medium=a_radio(rng, graph, period, 300 / port["rate"]),
        inbox_limit=pick(rng, None, None, None, 1, 4),
        seed=int(rng.integers(2**31)),
    )
    port = {name: getattr(network.link, name) for name in port}
    for _ in range(rng.integers(0, 4)):
        happen(rng, network, ends)
    return network


def vars_of(link: Link) -> dict[str, Any]:
    """Return a link's settings."""
    return {name: getattr(link, name) for name in Link.__dataclass_fields__}


class RadioCase(Case):
    """A case on a radio."""

    network_of = staticmethod(a_network)


def check_seed(seed: int) -> Played:
    """Run the network of a seed in two ways and check that the laws hold."""
    case = RadioCase(seed)
    played = case.play(trace=True)
    check_books(played)
    wrong = [text for agent in played.agents.values() for text in agent.notes.wrong]
    assert not wrong, wrong
    received_is_what_was_sent(played)
    if not (played.run.air and any(spent and spent[3] < np.inf for spent in played.run.air.spent)):
        # A node that dies may hold frames that nobody has read.
        received_is_what_was_delivered(played)
    what_was_on_the_air_is_what_was_counted(played)
    check_same(played, RadioCase(seed).play(watched=True))
    return played


def what_was_on_the_air_is_what_was_counted(played: Played) -> None:
    """The log of the air, the airtime, the wire bits and the seconds of sending are one story."""
    log, airtime = played.run.on_air, played.run.airtime.set_index("agent")
    acks = log["kind"] == "(acknowledgement)"
    assert airtime["frames"].sum() == (~acks).sum()
    assert airtime["acks"].sum() == acks.sum()
    assert log["bits"].sum() == played.totals["wire_bits"]
    seconds = (log["end_s"] - log["start_s"]).groupby(log["sender"], sort=False).sum()
    for node, total in seconds.items():
        counted = airtime.loc[[node], ["airtime_s", "ack_airtime_s"]].to_numpy().sum()
        assert np.isclose(total, counted, rtol=1e-9, atol=1e-12)
    for _, mine in log.groupby("sender", sort=False):
        # One transmitter: nothing starts before what came before it has ended.
        starts, ends = mine["start_s"].to_numpy(), mine["end_s"].to_numpy()
        assert (starts[1:] >= ends[:-1] - 1e-8).all()
