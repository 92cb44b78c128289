"""Glossy: slots, relay counters, reliability and timing of its floods, and its requirements on the medium."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import AgentError, BadInput, Deployment, Link, Network, Radio, Run, loss, presets
from netsim.agents import Glossy
from netsim.faults import ClockSkew, Crash, Fault
from netsim.radio.phy import Phy

PRESET = presets.ieee802154(acks=False)
CHIP = 0.5e-6
SLOT = 1.5e-3
# 9 bytes of payload and 17 bytes of headers at 250 kbit/s (s).
AIRTIME = 26 * 8 / 250e3


def phy(concurrent_s: float) -> Phy:
    """Return the preset's PHY, in which the powers of equal frames that begin within ``concurrent_s`` add up."""
    assert PRESET.radio is not None
    assert PRESET.radio.phy is not None
    return replace(PRESET.radio.phy, concurrent_s=concurrent_s)


def radio(concurrent_s: float = CHIP) -> Radio:
    """Return a radio that sends without sensing the channel, as Glossy requires."""
    assert PRESET.radio is not None
    return replace(PRESET.radio, access="aloha", phy=phy(concurrent_s))


class Flooded(Glossy):
    """Records each flood: its number, value, hops, reference, and time of arrival by the node's own clock (s)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.got: list[tuple[int, Any, int, float, float]] = []
        self.begun: list[float] = []

    def value(self, number: int) -> int:
        self.begun.append(self.now)
        return 100 - number

    def take(self, number: int, value: Any) -> None:
        assert self.hops is not None
        assert self.reference is not None
        self.got.append((number, value, self.hops, self.reference, self.now))


def flood(
    graph: "nx.Graph[Any]",
    floods: int = 10,
    concurrent_s: float = CHIP,
    link: Link = PRESET.link,
    faults: "list[Any] | tuple[Fault, ...]" = (),
    seed: int = 1,
    **kwargs: Any,
) -> tuple[Run, dict[Any, Flooded]]:
    """Run floods from node 0 over identical links, and return the run and the agents."""
    network = Network(graph, link, medium=radio(concurrent_s), faults=faults, seed=seed)
    agents = {node: Flooded(node == 0, **kwargs) for node in graph}
    return network.run(agents, until=floods - 0.5), agents


def share(agents: Mapping[Any, Flooded], floods: int) -> float:
    """Return the share of floods received, averaged over all nodes but the initiator."""
    return sum(len(agent.got) for agent in agents.values()) / (len(agents) - 1) / floods


def kings(width: int, height: int) -> "nx.Graph[int]":
    """Return a king's graph: a grid in which each inner node has eight neighbours."""
    return nx.convert_node_labels_to_integers(nx.strong_product(nx.path_graph(width), nx.path_graph(height)))


def field(spacing: float, concurrent_s: float = CHIP, **kwargs: Any) -> Deployment:
    """Return 40 motes on an 8 × 5 grid with ``spacing`` in metres; each coordinate deviates by up to 5 m."""
    rng = np.random.default_rng(2)
    places = {i: np.array((i % 8, i // 8)) * spacing + rng.uniform(-5, 5, 2) for i in range(40)}
    return Deployment({i: tuple(place) for i, place in places.items()}, phy=phy(concurrent_s), **kwargs)


def flood_field(deployment: Deployment, floods: int = 10, **kwargs: Any) -> dict[Any, Flooded]:
    """Run floods from mote 0, in a corner of the field, and return the agents."""
    agents = {node: Flooded(node == 0, **kwargs) for node in deployment.positions}
    plain = replace(radio(), phy=None)
    deployment.network(radio=plain, link=PRESET.link, seed=1).run(agents, until=floods - 0.5)
    return agents


# --- slots and relays -------------------------------------------------------------------------------------------------


def test_relay_counters_are_distances_in_the_graph_over_links_without_loss() -> None:
    graph = kings(6, 4)
    run, agents = flood(graph)
    far = nx.single_source_shortest_path_length(graph, 0)
    for node, agent in agents.items():
        assert [(number, value, hops) for number, value, hops, *_ in agent.got] == (
            [(k, 100 - k, far[node]) for k in range(1, 11)] if node else []
        )
        for number, _, hops, reference, now in agent.got:
            assert reference == pytest.approx(number - 1, abs=1e-9)
            assert now == pytest.approx(number - 1 + (hops - 1) * SLOT + AIRTIME, abs=1e-9)
    assert (run.airtime["frames"] == 3 * 10).all()


def test_frames_of_one_slot_are_the_same_and_slots_alternate() -> None:
    """The initiator sends in slots 0, 2, 4; a node n hops away sends in slots n, n + 2, n + 4."""
    graph = kings(3, 3)
    network = Network(graph, PRESET.link, medium=radio(), seed=1)
    run = network.run({node: Flooded(node == 0) for node in graph}, until=0.5, trace=True)
    far = nx.single_source_shortest_path_length(graph, 0)
    for node in graph:
        begins = run.on_air.loc[run.on_air["sender"] == node, "start_s"].to_numpy()
        assert begins == pytest.approx([(far[node] + 2 * k) * SLOT for k in range(3)], abs=1e-9)


def test_a_flood_reaches_a_field_in_as_many_slots_as_its_good_links_need() -> None:
    deployment = field(30.0, drift_ppm=20.0, offset=3.0)
    agents = flood_field(deployment)
    good = nx.Graph([ends for ends, rate in deployment.reception().items() if rate > 0.9999])
    far = nx.single_source_shortest_path_length(good, 0)
    assert len(far) == 40
    assert max(far.values()) >= 3
    assert share(agents, 10) == 1.0
    for node, agent in agents.items():
        for _, _, hops, reference, now in agent.got:
            assert hops <= far[node]
            assert now - reference == pytest.approx((hops - 1) * SLOT + AIRTIME, abs=1e-6)


def test_radios_are_off_between_floods() -> None:
    """A node n hops away listens for the guard time and n slots, then receives three times and sends three times."""
    run, _ = flood(nx.path_graph(4), floods=21)
    table = run.energy.set_index("agent")
    on = (table["transmit_s"] + table["receive_s"] + table["listen_s"]) / 21
    for node in range(1, 4):
        # An upper limit: a node also receives the first frames of neighbours further from the initiator.
        most = 1e-3 + (node + 5) * SLOT + AIRTIME
        assert on[node] <= most + 1e-5
        assert on[node] == pytest.approx(most, rel=0.35)


# --- what the medium must do ------------------------------------------------------------------------------------------


def test_without_the_rule_frames_of_a_slot_collide() -> None:
    assert share(flood_field(field(20.0)), 10) == 1.0
    assert share(flood_field(field(20.0, 0.0)), 10) < 0.7


def test_relays_later_than_a_chip_collide() -> None:
    shares = [share(flood_field(field(20.0), jitter=jitter), 10) for jitter in (0.2e-6, 20e-6)]
    assert shares[0] == 1.0
    assert shares[1] < 0.7


def test_crystals_are_good_enough_and_oscillators_of_processors_are_not() -> None:
    """A relay times 0.7 ms by its clock, with an error of 0.03 us at 50 ppm (crystal) and of 13 us at 2 %."""
    shares = [share(flood_field(field(20.0, drift_ppm=ppm), guard=25e-3), 10) for ppm in (50.0, 20_000.0)]
    assert shares[0] == 1.0
    assert shares[1] < 0.8


def test_a_network_of_more_than_128_nodes_floods_though_their_numbers_differ_in_length() -> None:
    graph = nx.circulant_graph(150, range(1, 21))
    _, agents = flood(graph, floods=2, n_tx=1)
    assert share(agents, 2) == 1.0


# --- reliability ------------------------------------------------------------------------------------------------------


def test_reliability_rises_with_the_number_of_transmissions() -> None:
    lossy = PRESET.link.with_loss(loss.bernoulli(0.4))
    shares = [share(flood(kings(2, 5), 40, link=lossy, n_tx=n)[1], 40) for n in (1, 2, 3, 6)]
    assert shares[0] < shares[1] < shares[2] < shares[3]
    assert shares[0] < 0.9
    assert shares[3] > 0.998


def test_one_link_is_crossed_as_often_as_the_initiator_sends() -> None:
    """The initiator always sends n times; each frame is lost with probability p, so a flood fails with p^n."""
    p, floods = 0.5, 600
    for n in (1, 2, 3):
        _, agents = flood(nx.path_graph(2), floods, link=PRESET.link.with_loss(loss.bernoulli(p)), n_tx=n, patience=20)
        assert share(agents, floods) == pytest.approx(1 - p**n, abs=0.06)


# --- time -------------------------------------------------------------------------------------------------------------


def errors(jitter: float, drift: float) -> list[float]:
    """Return the errors (s) of the nodes of a line in estimating when each flood began, one per node and flood."""
    rng = np.random.default_rng(5)
    clocks = [ClockSkew(k, offset=rng.uniform(0, 5), drift=rng.uniform(-drift, drift)) for k in range(8)]
    _, agents = flood(nx.path_graph(8), 20, faults=clocks, jitter=jitter)
    found = []
    for node, agent in agents.items():
        for number, _, _, reference, _ in agent.got:
            true = (agents[0].begun[number - 1] - clocks[0].clock.local(0.0)) * (1 + clocks[0].drift)
            found.append(clocks[node].clock.local(true) - reference)
    assert len(found) == 7 * 20
    return found


def test_all_nodes_know_when_a_flood_began() -> None:
    """Each hop adds the clock's error over the 0.7 ms between two frames, and a jitter, which is never negative."""
    assert max(map(abs, errors(0.0, 50e-6))) < 7 * 0.7e-3 * 2 * 50e-6
    late = errors(0.4e-6, 0.0)
    assert min(late) >= -7 * 0.4e-6
    assert max(late) <= 1e-9
    # Each relay on the line adds half of the maximum jitter on average; the initiator adds none.
    assert np.mean(late) == pytest.approx(-np.mean(range(7)) * 0.2e-6, rel=0.1)


def test_a_node_that_was_away_finds_the_floods_again() -> None:
    _, agents = flood(nx.path_graph(3), 20, faults=[Crash(2, at=3.5, until=9.7)])
    assert [number for number, *_ in agents[2].got] == list(range(11, 21))


def test_a_node_listens_after_more_missed_floods_than_its_patience() -> None:
    """The initiator restarts with floods shifted by 0.3 s: nodes find them only by listening all the time."""
    _, agents = flood(nx.path_graph(3), 20, faults=[Crash(0, at=3.5, until=9.3)], patience=2)
    for node in (1, 2):
        assert [reference for *_, reference, _ in agents[node].got] == pytest.approx(
            [0, 1, 2, 3, *(9.3 + k for k in range(11))], abs=1e-9
        )


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("period", "guard", "n_tx"), [(0.04, 0.01, 6), (0.04, 0.01, 10), (0.1, 0.08, 3)])
def test_a_node_takes_a_flood_once_though_others_still_send_it(period: float, guard: float, n_tx: int) -> None:
    """A node already listens for the next flood while distant nodes still relay the last flood."""
    _, agents = flood(nx.path_graph(12), 1, period=period, guard=guard, n_tx=n_tx)
    for node in range(1, 12):
        numbers = [number for number, *_ in agents[node].got]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= 5
        assert {hops for _, _, hops, *_ in agents[node].got} == {node}


def test_floods_must_not_meet() -> None:
    message = r"^period = 1\.0: must be at least 2 · n_tx · slot and guard, 1\.201 s$"
    with pytest.raises(BadInput, match=message):
        Glossy(n_tx=400)


def test_a_slot_must_hold_a_frame_and_a_turnaround() -> None:
    message = r"slot = 0\.001: must be a frame's time on the air \(0\.000832 s\) and 192 us more$"
    with pytest.raises(AgentError, match=message):
        flood(nx.path_graph(2), slot=1e-3)
    for wrong in ({"n_tx": 0}, {"slot": 0.0}, {"jitter": -1.0}, {"period": 0.0}, {"duration": 2.0}):
        with pytest.raises(BadInput, match=f"^{next(iter(wrong))} = "):
            Glossy(**wrong)  # type: ignore[arg-type]
