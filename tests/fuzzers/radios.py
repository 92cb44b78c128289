"""Random networks with a `netsim.Radio`: every channel access, acknowledgements, sleep, batteries, capture.

The links, agents and events are those of `tests.fuzzers.networks`.
"""

import asyncio
import dataclasses
import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from operator import itemgetter
from typing import Any

import networkx as nx
import numpy as np

import netsim
from netsim import Energy, Link, Network, Radio, Run, latency, topology
from netsim.faults import ClockSkew, Crash, Join, Leave
from netsim.radio import DutyCycle, Phy, fsk, lora, oqpsk
from netsim.util.draws import generator, name_key, uniform
from tests.fuzzers.laws import Played, check_books, check_same, rows_of
from tests.fuzzers.messages import received_is_what_was_delivered, received_is_what_was_sent
from tests.fuzzers.networks import (
    PERIODS,
    Case,
    Rng,
    a_graph,
    at_the_sender,
    check_drawn,
    happen,
    in_numpy,
    on_the_way,
    one_way,
    pick,
)


def some_energy(rng: Rng, graph: "nx.Graph[Any]") -> Energy | Mapping[Any, Energy] | None:
    """Return the nodes' energy model: none, one for all nodes, or batteries that some nodes exhaust."""
    power = {"transmit": 0.05, "receive": 0.06, "listen": float(rng.choice([0, 0.06])), "sleep": 1e-6}
    if rng.random() < 0.3:
        return None
    if rng.random() < 0.5:
        power |= {"transmit_bit": 1e-6, "receive_bit": float(10 ** rng.uniform(-7, -4))}
    if rng.random() < 0.5:
        return Energy(**power)
    return {node: Energy(**power, battery=float(10 ** rng.uniform(-5, 0))) for node in graph if rng.random() < 0.5}


def some_sleep(rng: Rng, graph: "nx.Graph[Any]", period: float) -> DutyCycle | Mapping[Any, DutyCycle] | None:
    """Return duty cycles of radios: none, one for all nodes, or different ones for some nodes."""
    one = DutyCycle(period=period / 2, awake=period / 5)
    several = DutyCycle(period=period, windows=[(0.1 * period, 0.2 * period), (0.5 * period, 0.3 * period)])
    mixed = {node: pick(rng, one, several) for node in graph if rng.random() < 0.5}
    return pick(rng, None, None, None, None, one, several, mixed)


def a_radio(rng: Rng, graph: "nx.Graph[Any]", period: float, frame: float) -> Radio:
    """Return a radio medium; ``frame`` is the approximate duration of a frame (s)."""
    ways = "aloha", "slotted_aloha", "csma", "csma"
    mixed = {node: pick(rng, *ways) for node in graph if rng.random() < 0.7}
    access = mixed if rng.random() < 0.3 else pick(rng, *ways)
    slotted = "slotted_aloha" in ([*access.values()] if isinstance(access, dict) else [access])
    pairs = [(a, b) for a in graph for b in graph if a != b]
    others = nx.DiGraph([pairs[i] for i in rng.integers(0, len(pairs), 4)] if pairs else [])
    others.add_nodes_from(graph)
    levels = pick(rng, np.linspace(-90, -50, 100), [-80.0, -60.0], [-70.0])
    powers = {ends: float(rng.choice(levels)) for ends in pairs} if rng.random() < 0.4 else None
    phy = a_phy(rng) if rng.random() < 0.4 else None
    return Radio(
        access=access,
        slot=float(rng.choice([frame, 3 * frame, period / 8])) if slotted else None,
        min_be=int(rng.integers(0, 4)),
        max_csma_backoffs=int(rng.integers(0, 5)),
        unit_backoff=float(rng.choice([frame, frame / 3])),
        cca=max(1e-7, frame / 8),
        turnaround=pick(rng, 0.0, frame / 5),
        acks=bool(rng.random() < 0.5),
        max_frame_retries=int(rng.integers(0, 4)),
        sensing=pick(rng, None, None, nx.Graph(others), others),
        lifs=pick(rng, 0.0, frame / 3),
        max_sifs_bits=int(rng.choice([100, 192, 400])),
        interference=None if phy is not None and powers is not None else pick(rng, None, None, others),
        phy=phy,
        powers=powers,
        capture=None if powers is None or phy is not None else float(rng.choice([0, 3, 10])),
        transmit_share=pick(rng, None, None, 0.1),
        duty_cycle=some_sleep(rng, graph, period),
        energy=some_energy(rng, graph),
    )


_key = cache(name_key)


def share(*numbers: float) -> float:
    """Return a pseudorandom number on [0, 1) that depends only on the arguments; a generator is ten times slower."""
    return uniform(hash(numbers), 0)


class Flickers:
    """Fading or noise that is a function of its arguments only."""

    def gain_db(self, seed: int, link_key: int, time: float) -> float:
        """Return a gain from −10 to 10 dB."""
        return 20.0 * share(seed, link_key, time) - 10.0

    def noise_dbm(self, seed: int, node_key: int, time: float) -> float:
        """Return a noise power from −95 to −65 dBm."""
        return 30.0 * share(seed, node_key, time) - 95.0


class FlickersByName:
    """Fading or noise as in `Flickers`, but called with node names."""

    def gain_at(self, sender: Hashable, receiver: Hashable, time: float) -> float:
        """Return a gain from −10 to 10 dB, different for each direction of a link."""
        return 20.0 * share(_key(sender), _key(receiver), time) - 10.0

    def noise_at(self, node: Hashable, time: float) -> float:
        """Return a noise power from −95 to −65 dBm."""
        return 30.0 * share(_key(node), time) - 95.0


def a_phy(rng: Rng) -> Phy:
    """Return a physical layer whose thresholds lie among the received powers of `a_radio`."""
    return Phy(
        error_rate=[oqpsk, fsk, lora(7), one_in_a_thousand][rng.integers(4)],
        noise_figure=float(rng.uniform(15.5, 50.0)),
        lock_db=float(rng.choice([-10.0, -5.0, 3.0])),
        sense_dbm=float(rng.uniform(-95.0, -55.0)),
        cca=pick(rng, "any", "any", "ns3"),
        chunks=pick(rng, "any", "any", "ns3"),
        interference_db=float(rng.choice([0.0, 8.5])),
        concurrent_s=float(rng.choice([0.0, 0.5e-6, 1e-3, 1.0])),
        transmit_dbm=float(rng.choice([0.0, -20.0])),
        fading=pick(rng, None, None, Flickers(), FlickersByName()),
        noise=pick(rng, None, None, Flickers(), FlickersByName()),
    )


def one_in_a_thousand(sinr_db: float) -> float:
    """Return a bit error rate of 1/1000; 1 if the signal is too weak."""
    return 1e-3 if sinr_db > -20.0 else 1.0


def in_one_way(graph: "nx.Graph[Any]", radio: Radio) -> Radio:
    """Return the radio, without acknowledgements if the graph has one-way links."""
    return radio if topology.one_way_link(graph) is None else dataclasses.replace(radio, acks=False)


def a_network(rng: Rng) -> Network:
    """Return a network with a radio, per-link settings, and scheduled events."""
    period = float(rng.choice(PERIODS))
    graph = one_way(rng, a_graph(rng))
    port = at_the_sender(rng, period, True) | {"rate": float(rng.choice([5e3, 1e5, 1e6])) / period}
    ends = topology.links_of(graph)

    def a_link() -> Link:
        way = on_the_way(rng, period) | {"duplicate": 0.0, "loss_bits": pick(rng, None, None, 300)}
        way["latency"] = pick(rng, 0.0, 0.0, period / 50, way["latency"], lambda _: latency.uniform(0, period / 9))
        return Link(**in_numpy(rng, port | way))

    links = {ends[rng.integers(len(ends))]: a_link() for _ in range(rng.integers(0, 4) if ends else 0)}
    network = Network(
        graph,
        a_link(),
        links={pair: Link(**{**vars_of(link), **port}) for pair, link in links.items()},
        round_period=period,
        medium=in_one_way(graph, a_radio(rng, graph, period, 300 / port["rate"])),
        inbox_limit=pick(rng, None, None, None, 1, 4),
        seed=int(rng.integers(2**31)),
        connected=False,
    )
    port = {name: getattr(network.link, name) for name in port}
    for _ in range(rng.integers(0, 4)):
        happen(rng, network, ends)
    return network


def vars_of(link: Link) -> dict[str, Any]:
    """Return a link's settings as keyword arguments."""
    return {name: getattr(link, name) for name in Link.__dataclass_fields__}


class Interferes(netsim.Agent):
    """An agent that emits carriers in the background, with random powers and channels; some sense first."""

    background = True

    def __init__(self, pause: float) -> None:
        self.pause = pause

    async def run(self) -> None:
        """Emit carriers until the run ends."""
        radio = self.radio
        while True:
            await asyncio.sleep(self.pause * self.rng.exponential())
            what = self.rng.random()
            if radio.state == "sleep" or (what < 0.3 and radio.busy()):
                continue
            if what > 0.8:
                radio.channel = int(self.rng.integers(2))
            if what > 0.9:
                radio.power_dbm = float(self.rng.choice([-20.0, 0.0]))
            await radio.carrier(self.pause / 4 * self.rng.exponential())


def interfere(network: Network, rng: Rng) -> None:
    """Add one to three interferers to a network, with random received powers."""
    radio, graph, period = network.medium, network.graph, network.round_period
    assert isinstance(radio, Radio)
    names = [f"interferer {number}" for number in range(rng.integers(1, 4))]
    pairs = [(name, node) for name in names for node in graph] + [(node, name) for name in names[:1] for node in graph]
    graph.add_nodes_from(names)
    more: dict[str, Any] = {}
    if radio.powers is not None:
        more["powers"] = {**radio.powers, **{ends: float(rng.uniform(-90, -40)) for ends in pairs}}
    for name in ("sensing", "interference") if radio.phy is None or radio.powers is None else ("sensing",):
        if (given := getattr(radio, name)) is not None or name == "interference":
            wider = nx.DiGraph(given if given is not None else [])
            wider.add_nodes_from(graph)
            wider.add_edges_from(ends for ends in pairs if rng.random() < 0.5)
            more[name] = wider
    if radio.phy is not None:
        more["power_dbm"] = {node: float(rng.choice([-20.0, -5.0, 0.0])) for node in graph if rng.random() < 0.3}
    network.medium = replace(radio, **more)
    network.scenery = {name: partial(Interferes, period / 5) for name in names}


class RadioCase(Case):
    """A random case with a radio instead of separate links."""

    network_of = staticmethod(a_network)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        medium = self.network.medium
        if isinstance(medium, Radio) and medium.phy is not None and medium.phy.concurrent_s > 0.0:
            self.habits = {node: replace(habits, alike=True) for node, habits in self.habits.items()}
        if (rng := generator(seed, "interferers", "case")).random() < 0.3:
            interfere(self.network, rng)
        self._limit(generator(seed, "shares", "case"))
        self.retunes = generator(seed, "retunes", "case").random() < 0.3
        if self.retunes:
            self.habits = {node: replace(habits, retunes=True) for node, habits in self.habits.items()}
        elif generator(seed, "transmits", "case").random() < 0.4:
            self.habits = {node: replace(habits, transmits=True) for node, habits in self.habits.items()}

    def _limit(self, rng: Rng) -> None:
        """Sometimes limit transmit duty cycles: by node, by band, or by refusing frames."""
        medium = self.network.medium
        assert isinstance(medium, Radio)
        if medium.transmit_share is None or rng.random() < 0.4:
            return
        shares = {node: float(rng.choice([0.05, 0.3, 1.0])) for node in self.network.graph if rng.random() < 0.7}
        bands = pick(rng, [], [{0}], [{0, 2}, {1}])
        refuses = bool(rng.random() < 0.4)
        self.network.medium = replace(medium, transmit_share=shares, transmit_bands=bands, refuses_silent=refuses)


def check_seed(seed: int) -> Played:
    """Run the network of a seed twice, with and without probes, and check the laws."""
    case = RadioCase(seed)
    played = case.play(trace=True)
    check_books(played)
    wrong = [text for agent in played.agents.values() for text in agent.notes.wrong]
    assert not wrong, wrong
    received_is_what_was_sent(played)
    if not (played.run.air and any(spent and spent[3] < np.inf for spent in played.run.air.spent)):
        # Not checked with batteries: a node that dies may hold unread frames.
        received_is_what_was_delivered(played)
    check_air(played, case.retunes)
    stamps_are_those_of_the_air(played)
    check_same(played, RadioCase(seed).play(watched=True))
    return played


def check_air(played: Played, retunes: bool = False) -> None:
    """Check the laws of the frames on the air, and of the energy."""
    if retunes:
        what_was_on_the_air_was_asked_for(played)
    what_was_on_the_air_is_what_was_counted(played)
    what_was_on_the_air_was_paid_for(played)
    one_frame_at_a_time_is_received(played)
    what_a_cut_link_ends_was_sent(played)
    if not retunes:
        # If an agent changes its channel after a frame, the log of the air does not show it, so energy cannot be
        # checked.
        energy_is_power_times_time(played.run, played.network)


def what_was_on_the_air_was_asked_for(played: Played) -> None:
    """Check that each frame used the channel set at its call, even if the agent has since set another."""
    assert played.run.air is not None
    names, acks = list(played.run.agents), ack_kind(played.run)
    for _, _, sender, _, kind, message, _, _, _, channel, *_ in played.run.air.log or ():
        if kind != acks:
            assert channel == played.agents[names[sender]].channels[message][1], (names[sender], message)


def stamps_are_those_of_the_air(played: Played) -> None:
    """Check the time stamps of receptions against the log of the air, and a frame's event time at both ends.

    Clocks differ in offset and drift, so all times are converted to the simulation's clock.
    """
    clocks = {fault.agent: fault.clock for fault in played.network.faults if isinstance(fault, ClockSkew)}

    def true(node: Hashable, time: float) -> float:
        return clocks[node].true(time) if node in clocks else time

    log, events = rows_of(played.run.on_air), dict[Any, float | None]()
    begins: dict[Any, list[float]] = defaultdict(list)
    for row in log:
        begins[row["sender"]].append(row["start_s"])
    for node, agent in played.agents.items():
        for at, kind, event in agent.notes.events:
            events[node, kind, at] = event if (node, kind, at) not in events else math.nan
        for sent in agent.notes.sent:
            if sent.on_air:
                assert np.isclose(begins[node], true(node, sent.began), rtol=0, atol=1e-9).any(), sent
    if played.damages:
        # The sender, kind or time of a damaged frame may be another frame's.
        return
    for node, agent in played.agents.items():
        for sender, kind, sent_at, began, event in agent.notes.stamps:
            latest = played.link(sender, node).latency_model
            first = true(node, began) - latest.fixed if latest.fixed is not None else None
            if first is not None:
                assert np.isclose(begins[sender], first, rtol=0, atol=1e-8).any(), (node, sender, kind, began)
            # The sender recorded this time by its own clock.
            at = clocks[sender].local(sent_at) if sender in clocks else sent_at
            meant = events.get((sender, kind, at))
            if meant is None or math.isnan(meant):
                assert meant is not None or event is None, (node, sender, kind, event)
            elif first is not None:
                assert event is not None
                start = clocks[sender].local(first) if sender in clocks else first
                assert abs((began - event) - (start - meant)) < 1e-6, (node, sender, kind, event)


def what_was_on_the_air_is_what_was_counted(played: Played) -> None:
    """Check that the log of the air, the airtime, the wire bits and the sending times agree."""
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
        # A node has one transmitter, so no frame may start before the previous one has ended.
        starts, ends = mine["start_s"].to_numpy(), mine["end_s"].to_numpy()
        assert (starts[1:] >= ends[:-1] - 1e-8).all()


def what_was_on_the_air_was_paid_for(played: Played) -> None:
    """Check that a node's sending time agrees with its energy."""
    run = played.run
    if run.air is None or not any(run.air.spent):
        return
    airtime = run.airtime.set_index("agent")
    for row in rows_of(run.energy):
        counted = airtime.loc[[row["agent"]], ["airtime_s", "ack_airtime_s"]].to_numpy().sum()
        assert np.isclose(row["transmit_s"], counted, rtol=1e-9, atol=1e-12), row


def one_frame_at_a_time_is_received(played: Played) -> None:
    """Check that no two frames received by a node overlap, and that none overlaps a frame that it sent."""
    log = rows_of(played.run.on_air)
    whole = {(row["sender"], row["message"]): row["fragment"] for row in sorted(log, key=itemgetter("fragment"))}
    rows: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    own: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    for row in log:
        own[row["sender"]].append((row["start_s"], row["end_s"]))
        if row["kind"] != "(acknowledgement)" and whole[row["sender"], row["message"]] == 0:
            rows[row["sender"], row["message"]].append((row["start_s"], row["end_s"]))
    heard: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    for event in played.ended:
        late = played.link(event["sender"], event["receiver"]).latency_model.fixed
        if event["event"] == "delivered" and late is not None:
            # Delays by bursts of jitter or by ordering cannot be derived from the frames sent, so these are skipped.
            times = [(start + late, end + late) for start, end in rows[event["sender"], event["message"]]]
            heard[event["receiver"]] += [each for each in times if each[1] == event["time_s"]][:1]
    for node, spans in heard.items():
        for (_, end), (start, _) in pairwise(sorted(spans)):
            assert start >= end - 1e-8, f"{node!r} received two frames at once, at {start}"
        for start, end in spans:
            assert all(end <= s + 1e-8 or start >= e - 1e-8 for s, e in own[node]), f"{node!r} sent and received"


def what_a_cut_link_ends_was_sent(played: Played) -> None:
    """Check that frames lost to a cut link were on the air, unless the sender was off; senders detect no cut."""
    first = {(row["sender"], row["message"]): row["start_s"] for row in reversed(rows_of(played.run.on_air))}
    for event in played.ended:
        if event["event"] == "link_down" and not is_off(played.run, played.network, event["sender"], event["time_s"]):
            assert first[event["sender"], event["message"]] <= event["time_s"], event


# --- energy, worked out once more -------------------------------------------------------------------------------------


def off_times(run: Run, network: Network, node: Hashable) -> list[tuple[float, float]]:
    """Return the intervals (s) in which a node is off: down, absent, or with an empty battery."""
    spans = []
    for fault in network.faults:
        if isinstance(fault, Crash | Leave) and fault.agent == node:
            spans.append((fault.at, math.inf if fault.until is None else fault.until))
        if isinstance(fault, Join) and fault.agent == node:
            spans.append((0.0, fault.at))
    spent = dict(zip(run.ledger.agents, run.air.spent if run.air is not None else (), strict=True))[node]
    return [*spans, (spent[3], math.inf)] if spent is not None else spans


def is_off(run: Run, network: Network, node: Hashable, time: float) -> bool:
    """Return whether a node is off at a given time (s)."""
    return any(start <= time < end for start, end in off_times(run, network, node))


def joules(run: Run, network: Network, node: Hashable) -> float:
    """Return a node's energy (J), computed from the log of the air as a sum of power times duration.

    A node that is off uses no energy. Otherwise it sends, receives, listens or sleeps. It receives a neighbour's frame
    if at the frame's start the node was on, not sending, and awake or waiting for this acknowledgement. A node that
    begins to send less than 2 ns later counts as sending (see `Energy`). Energy per bit is spread evenly over the
    frame's duration.
    """
    radio = network.medium
    assert isinstance(radio, Radio)
    assert run.air is not None
    energy, cycle = radio.energy_of(node), cycle_of(network, node)
    assert energy is not None
    names, off = list(run.agents), off_times(run, network, node)
    # (time in s, change of the counts of off, sending and receiving states, change of the power for bits)
    changes = [(time, 0, sign, 0.0) for span in off for time, sign in zip(span, (1, -1), strict=True)]
    sends_until, log = -1.0, run.air.log or ()
    begins = [start for start, _, number, *_ in log if names[number] == node]
    for start, end, number, link, kind, _, _, _, bits, *_ in log:
        whole, sender = radio.seconds(bits, network.link), names[number]
        if sender == node:
            sends_until = end
            watts = energy.transmit_bit * bits / whole
            changes += [(start, 1, 1, watts), (end, 1, -1, -watts)]
        elif is_heard(network, sender, node):
            awaits = kind == ack_kind(run) and names[run.ledger.receivers[link]] == node
            awake = cycle is None or awaits or is_awake(cycle, node, start)
            sends = sends_until > start + 1e-9 or any(each - 2e-9 <= start <= each + 1e-9 for each in begins)
            if awake and not sends and not any(a <= start < b for a, b in off):
                watts = energy.receive_bit * bits / whole
                end = min([end, *(a for a, _ in off if a > start)])
                changes += [(start, 2, 1, watts), (end, 2, -1, -watts)]
    if cycle is not None:
        first, period = cycle.offsets.get(node, 0.0) % cycle.period, cycle.period
        periods = [first + k * period for k in range(-1, math.ceil(run.ended_at / period) + 1)]
        wakes = [(begin + start, seconds) for begin in periods for start, seconds in windows_of(cycle)]
        changes += [(max(0.0, time), 3, 0, 0.0) for start, seconds in wakes for time in (start, start + seconds)]
    spent, then, counts, watts_of = 0.0, 0.0, [0, 0, 0, 0], [0.0, 0.0, 0.0, 0.0]
    for time, what, sign, watts in sorted([*changes, (run.ended_at, 0, 0, 0.0)]):
        if time > then and then < run.ended_at:
            until = min(time, run.ended_at)
            awake = cycle is None or is_awake(cycle, node, (then + until) / 2)
            idle = energy.listen if awake else energy.sleep
            sends, hears = energy.transmit + watts_of[1], energy.receive + watts_of[2]
            power = 0.0 if counts[0] else sends if counts[1] else hears if counts[2] else idle
            spent += power * (until - then)
            then = until
        counts[what] += sign
        watts_of[what] += watts
    return spent


def is_heard(network: Network, sender: Hashable, node: Hashable) -> bool:
    """Return whether a node spends energy on a sender's frames: it is a neighbour, and the signal is not too weak."""
    radio = network.medium
    assert isinstance(radio, Radio)
    if not network.graph.has_edge(sender, node) or network.links.get((sender, node), network.link).loss.mean == 1:
        return False
    return radio.phy is None or radio.powers is None or radio.powers[sender, node] >= radio.phy.noise_dbm - 20.0


def cycle_of(network: Network, node: Hashable) -> DutyCycle | None:
    """Return a node's duty cycle, converted from its own clock to true time."""
    assert isinstance(network.medium, Radio)
    cycle = network.medium.cycle_of(node)
    for fault in network.faults:
        if cycle is not None and isinstance(fault, ClockSkew) and fault.agent == node:
            rate = 1.0 + fault.drift
            begins = fault.offset + cycle.offsets.get(node, 0.0) * rate
            windows = [(rate * start, rate * seconds) for start, seconds in windows_of(cycle)]
            cycle = DutyCycle(
                period=cycle.period * rate, windows=windows, offsets={node: begins % (cycle.period * rate)}
            )
    return cycle


def is_awake(cycle: DutyCycle, node: Hashable, time: float) -> bool:
    """Return whether a node's radio is on at a time (s) according to its duty cycle."""
    phase = (time - cycle.offsets.get(node, 0.0)) % cycle.period
    rounding = 1e-9 * cycle.period
    begins = phase - cycle.period if phase > cycle.period - rounding else phase
    return any(start - rounding <= begins < start + seconds - rounding for start, seconds in windows_of(cycle))


def windows_of(cycle: DutyCycle) -> Sequence[tuple[float, float]]:
    """Return the wake-up times within a period, and how long the radio stays on (both in s)."""
    return [(0.0, cycle.awake)] if cycle.awake is not None else cycle.windows or ()


def ack_kind(run: Run) -> int:
    """Return the number that stands for the kind of acknowledgements, or −1."""
    return run.ledger.tally.kinds.get("(acknowledgement)", -1)


def energy_is_power_times_time(run: Run, network: Network) -> None:
    """Check that each node's energy is the sum of power times time, and that a battery gives no more than it holds."""
    if run.air is None or not any(run.air.spent):
        return
    for row in rows_of(run.energy):
        node, used = row["agent"], row["used_j"]
        assert math.isclose(used, joules(run, network, node), rel_tol=1e-9, abs_tol=1e-12), (
            row,
            joules(run, network, node),
        )
        battery = network.medium.energy_of(node).battery or math.inf
        assert used <= battery * (1 + 1e-9), row
        if row["died_at_s"] < math.inf:
            assert math.isclose(used, battery, rel_tol=1e-9), row


def check_one(rng: Rng) -> None:
    """Check a random network with a radio."""
    check_drawn(rng, check_seed)
