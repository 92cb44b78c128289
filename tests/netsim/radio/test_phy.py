"""Reception by SINR: error curves against numeric integration, frames against the curves, and hand-made timings."""

import asyncio
import math
from collections.abc import Callable, Hashable
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ive

from netsim import Agent, BadInput, Link, Network, Radio, Run, loss, presets, topology
from netsim.links import from_table
from netsim.radio import Phy, fsk, lora, oqpsk
from netsim.radio.medium import Medium
from netsim.testing import Actor, Listener, Talker, counts, sized
from tests.netsim.radio.test_radio_delivery import twin  # noqa: F401  the fixture

NS3 = Phy(noise_figure=-106.98 + 174.0 - 10 * math.log10(2e6), sense_dbm=-96.58, cca="ns3")
"""A PHY with the noise floor and energy detection of ns-3's lr-wpan."""
CONCURRENT = Phy(concurrent_s=0.5e-6)
"""A PHY in which the signals of equal O-QPSK frames add up if they begin within one chip (0.5 us)."""
RATE = 250e3


def symbol_errors(ratio: float, symbols: int) -> float:
    """Return the error rate of noncoherent detection among M orthogonal symbols at Es/N0.

    1 − ∫ (1 − e^−x)^(M−1) e^−(x+γ) I_0(2√(xγ)) dx: the energy of the sent symbol is Rician, that of the others
    exponential.
    """

    def wrong(x: float) -> float:
        root = 2 * math.sqrt(x * ratio)
        others = -math.expm1((symbols - 1) * math.log1p(-math.exp(-x))) if x > 1e-12 else 1.0
        return others * ive(0, root) * math.exp(root - x - ratio)

    most = ratio + 40 * math.sqrt(ratio + 1)
    return float(quad(wrong, 1e-300, most, points=[ratio, math.log(symbols)], limit=500, epsabs=0, epsrel=1e-9)[0])


@pytest.mark.parametrize("sinr_db", [-6.0, -3.0, -1.0, 0.0, 1.0, 2.0])
def test_oqpsk_is_that_of_sixteen_orthogonal_symbols(sinr_db: float) -> None:
    ratio = 20 * 10 ** (sinr_db / 10)
    assert oqpsk(sinr_db) == pytest.approx(8 / 15 * symbol_errors(ratio, 16), rel=1e-6)


@pytest.mark.parametrize("sinr_db", [-3.0, 3.0, 10.0])
def test_fsk_is_that_of_two_orthogonal_symbols(sinr_db: float) -> None:
    assert fsk(sinr_db) == pytest.approx(symbol_errors(10 ** (sinr_db / 10), 2), rel=1e-6)


@pytest.mark.parametrize("factor", [7, 9, 12])
@pytest.mark.parametrize("rate", [1e-2, 1e-4])
def test_lora_needs_the_snr_of_orthogonal_chirps_within_a_third_of_a_decibel(factor: int, rate: float) -> None:
    size = 2**factor

    def exactly(sinr_db: float) -> float:
        return size / 2 / (size - 1) * symbol_errors(size * 10 ** (sinr_db / 10), size)

    def snr(curve: Callable[[float], float], low: float, high: float) -> float:
        return float(brentq(lambda each: math.log(max(curve(each), 1e-300) / rate), low, high, xtol=1e-4))

    approximate = snr(lora(factor), -26.0, -3.0)
    assert approximate == pytest.approx(snr(exactly, approximate - 1.0, approximate + 1.0), abs=0.3)


@pytest.mark.parametrize("curve", [oqpsk, fsk, lora(7), lora(12)])
def test_a_curve_falls_from_a_half_to_nothing(curve: Callable[[float], float]) -> None:
    rates = [curve(each) for each in np.linspace(-200, 40, 481)]
    assert rates[0] == pytest.approx(0.5, abs=0.01)
    assert rates[-1] < 1e-30
    assert (np.diff(rates) <= 1e-12).all()


# Measured with ns-3 3.37 for PSDUs of 20, 60 and 127 bytes, each after 6 bytes of preamble and length.
MEASURED = {-2: (0.661, 0.939, 0.996), -1: (0.219, 0.452, 0.700), 0: (0.033, 0.082, 0.164), 1: (0.003, 0.005, 0.010)}


@pytest.mark.parametrize("sinr_db", MEASURED)
def test_frames_are_lost_as_often_as_in_ns3(sinr_db: int) -> None:
    lost = [1 - Phy().success(sinr_db, 8 * (size + 6)) for size in (20, 60, 127)]
    assert lost == pytest.approx(MEASURED[sinr_db], abs=0.01)


def test_a_short_frame_comes_through_where_a_long_one_does_not() -> None:
    assert Phy().success(-1, 8 * 11) == pytest.approx(0.90, abs=0.005)
    assert Phy().success(-1, 8 * 133) == pytest.approx(0.29, abs=0.005)


def test_sensitivity_is_the_standards() -> None:
    """At −95 dBm, one of a hundred frames with a PSDU of 20 bytes is lost."""
    phy = presets.ieee802154().radio.phy  # type: ignore[union-attr]
    assert phy is not None
    assert 1 - phy.success(-95 - phy.noise_dbm, 8 * 26) == pytest.approx(0.01, rel=0.05)


def test_bluetooth_has_its_sensitivity() -> None:
    """At −96 dBm, one of a thousand bits is wrong."""
    phy = presets.bluetooth_low_energy().radio.phy  # type: ignore[union-attr]
    assert phy is not None
    assert phy.error_rate(-96 - phy.noise_dbm) == pytest.approx(1e-3, rel=0.1)


# --- frames -----------------------------------------------------------------------------------------------------------


class Says(Talker):
    """Sends frames, and runs until all frames on the air have arrived."""

    async def run(self) -> None:
        await super().run()
        await asyncio.sleep(0.5)


def levels(floor: Phy = NS3, **snr: float) -> dict[tuple[int, int], float]:
    """Return received powers for the given SNRs (dB) at node 0; ``a1=3`` means 3 dB for frames from node 1."""
    return {(int(name[1:]), 0): floor.noise_dbm + value for name, value in snr.items()}


def hears(
    powers: dict[tuple[int, int], float],
    says: dict[int, list[tuple[float, int]]],
    seed: int = 0,
    latency: float = 0.0,
    **settings: Any,
) -> Run:
    """Let nodes send frames, given as (time in s, bytes), by pure ALOHA; node 0 receives, and may also send."""
    radio = Radio(**{"access": "aloha", "phy": NS3, **settings}, powers={**both_ways(powers)})
    graph = topology.star(1 + max(a for pair in powers for a in pair))
    network = Network(graph, Link(rate=RATE, latency=latency), medium=radio, seed=seed)
    agents: dict[int, Agent] = {node: Listener() for node in graph}
    agents |= {node: Says([(time, sized(size)) for time, size in each]) for node, each in says.items()}
    return network.run(agents, trace=True)


def both_ways(powers: dict[tuple[int, int], float]) -> dict[tuple[int, int], float]:
    """Return powers in which each link has the same power in both directions."""
    return {(b, a): level for (a, b), level in powers.items()} | powers


def test_a_link_loses_frames_by_its_snr() -> None:
    for size, share in ((11, 0.90), (133, 0.29)):
        run = hears(levels(a1=-1.0), {1: [(0.1 * k, size) for k in range(2000)]})
        got = counts(run, receiver=0)
        assert got["delivered"] / 2000 == pytest.approx(share, abs=0.035)
        assert got["delivered"] + got["lost"] == 2000


def test_only_the_overlap_is_disturbed() -> None:
    """Only the last 25 of 100 bytes see an interferer, 0.5 dB stronger; that second frame is never received."""
    n, seconds = 2000, 8 * 100 / RATE
    at = [0.1 * k for k in range(n)]
    powers = levels(a1=20.0, a2=20.5)
    late = {1: [(t, 100) for t in at], 2: [(t + 0.75 * seconds, 100) for t in at]}
    run = hears(powers, late)
    sinr = -10 * math.log10(10**0.05 + 10**-2.0)
    expected = NS3.success(20.0, 600) * NS3.success(sinr, 200)
    table = run.ledger.table(["sender"]).set_index("sender")
    assert 0.5 < expected < 0.97
    assert table.loc[1, "delivered"] / n == pytest.approx(expected, abs=0.035)
    assert table.loc[1, "delivered"] + table.loc[1, "collided"] == n
    assert table.loc[2, "collided"] == n


def test_two_interferers_add_up() -> None:
    """Most first frames survive one interferer of equal power, and almost none survive two."""
    at = [0.1 * k for k in range(300)]
    powers = levels(a1=30.0, a2=30.0, a3=30.0)
    for others, most, least in (((2,), 0.95, 0.75), ((2, 3), 0.02, 0.0)):
        says = {1: [(t, 117) for t in at]} | {each: [(t + 1e-4, 117) for t in at] for each in others}
        got = hears(powers, says).ledger.table(["sender"]).set_index("sender")
        assert least <= got.loc[1, "delivered"] / 300 <= most


def test_the_first_frame_is_locked_on_and_never_replaced() -> None:
    powers = levels(a1=10.0, a2=40.0)
    got = hears(powers, {1: [(0.0, 100)], 2: [(1e-3, 100)]}).ledger.table(["sender"]).set_index("sender")
    assert got.loc[1, "collided"] == 1
    assert got.loc[2, "collided"] == 1
    # If the stronger frame comes first, it is received and the other one is not.
    got = hears(powers, {1: [(1e-3, 100)], 2: [(0.0, 100)]}).ledger.table(["sender"]).set_index("sender")
    assert got.loc[1, "collided"] == 1
    assert got.loc[2, "delivered"] == 1


def test_what_is_too_weak_to_lock_on_leaves_the_receiver_free() -> None:
    powers = levels(a1=-6.0, a2=20.0)
    got = hears(powers, {1: [(0.0, 100)], 2: [(1e-3, 100)]}).ledger.table(["sender"]).set_index("sender")
    assert got.loc[1, "lost"] == 1
    assert got.loc[2, "delivered"] == 1


def test_a_frame_may_follow_at_the_end_of_another() -> None:
    """The first frame of 100 bytes takes 3.2 ms; the second begins exactly then, or 1 us earlier."""
    powers = levels(a1=20.0, a2=20.0)
    for gap, second in ((0.0, "delivered"), (-1e-6, "collided")):
        says = {1: [(0.0, 100)], 2: [(3.2e-3 + gap, 100)]}
        got = hears(powers, says).ledger.table(["sender"]).set_index("sender")
        assert (got.loc[1, "delivered"], got.loc[2, second]) == (1, 1)


def test_starts_count_in_the_order_in_which_they_arrive() -> None:
    """Node 2 sends later than node 1, but over a shorter distance, so its signal arrives first."""
    graph, powers = topology.star(3), both_ways(levels(a1=20.0, a2=20.0))
    radio = Radio(access="aloha", phy=NS3, powers=powers)
    links = {(1, 0): Link(rate=RATE, latency=2e-3)}
    network = Network(graph, Link(rate=RATE), links=links, medium=radio, seed=0)
    run = network.run({0: Listener(), 1: Says([(0.0, sized(20))]), 2: Says([(1.9e-3, sized(20))])})
    got = run.ledger.table(["sender"]).set_index("sender")
    assert got.loc[1, "collided"] == 1
    # An equally strong signal overlaps the last 540 of its 640 us.
    assert got.loc[2, "delivered"] + got.loc[2, "collided"] == 1


def test_a_radio_that_turns_around_receives_nothing() -> None:
    """Node 0 sends for 3.2 ms, and can receive again 192 us later."""
    for begin, end in ((3.2e-3 + 191e-6, "half_duplex"), (3.2e-3 + 192e-6, "delivered")):
        run = hears(levels(a1=20.0), {0: [(0.0, 100)], 1: [(begin, 20)]})
        assert counts(run, receiver=0) == {end: 1}


def test_link_loss_is_on_top() -> None:
    graph = topology.path(2)
    radio = Radio(access="aloha", phy=Phy())
    run = Network(graph, Link(rate=RATE, loss=0.3), medium=radio, seed=1).run(
        {0: Listener(), 1: Says([(0.1 * k, sized(100)) for k in range(1000)])}
    )
    assert counts(run, receiver=0)["lost"] / 1000 == pytest.approx(0.3, abs=0.05)


def test_chirps_of_one_kind_disturb_each_other_more_than_noise() -> None:
    """If the other LoRa frame counted only as noise, one of equal power would be far too weak to disturb."""
    phy = presets.lora(9).radio.phy  # type: ignore[union-attr]
    assert phy is not None
    at = [0.1 * k for k in range(200)]
    for stronger, least, most in ((0.0, 0.0, 0.05), (4.0, 0.95, 1.0)):
        powers = levels(phy, a1=20.0 + stronger, a2=20.0)
        says = {1: [(t, 50) for t in at], 2: [(t + 1e-5, 50) for t in at]}
        got = hears(powers, says, phy=phy).ledger.table(["sender"]).set_index("sender")
        assert least <= got.loc[1, "delivered"] / 200 <= most


# --- carrier sense ----------------------------------------------------------------------------------------------------

AT_ONCE: dict[str, Any] = {"access": "csma", "min_be": 0, "max_be": 0, "max_csma_backoffs": 0}
"""Settings with which a node assesses the channel once, without a back-off."""


def assess(others: list[tuple[float, int]], snr: float, **settings: Any) -> dict[str, int]:
    """Return the outcome of node 1's frame, offered at 10 ms, while nodes 2, 3, … send frames of given sizes (bytes).

    Node 1 receives each of them at the same SNR. Each begins 320 us after the time given.
    """
    phy = settings.pop("phy", NS3)
    nodes = range(2, 2 + len(others))
    powers = {(1, 0): -20.0, (0, 1): -20.0} | {(node, 1): phy.noise_dbm + snr for node in nodes}
    graph = nx.Graph([(0, 1), *((node, 0) for node in nodes)])
    powers |= {(node, 0): -150.0 for node in nodes} | {(0, node): -150.0 for node in nodes}
    radio = Radio(phy=phy, powers=powers, **AT_ONCE, **settings)
    agents: dict[int, Agent] = {0: Listener(), 1: Says([(0.01, sized(20))])}
    agents |= {node: Says([(time, sized(size))]) for node, (time, size) in zip(nodes, others, strict=True)}
    run = Network(graph, Link(rate=RATE), medium=radio).run(agents)
    row = run.ledger.table(["sender"]).set_index("sender").loc[1]
    return {name: int(row[name]) for name in ("delivered", "access_failed") if row[name]}


DEAF: dict[str, Any] = {"sense_dbm": -100.0, "lock_db": 50.0}
"""A receiver that senses energy, but needs a signal far too strong to lock on."""


def ending(after: float) -> tuple[float, int]:
    """Return (time, size) of a 20-byte frame (640 us) that ends ``after`` s after the assessment's start at 10 ms."""
    return 0.01 + after - 640e-6 - 320e-6, 20


@pytest.mark.parametrize("cca", ["any", "ns3"])
@pytest.mark.parametrize("after", [-1e-6, 64e-6, 128e-6, 200e-6])
def test_an_assessment_sees_what_ends_within_it_but_not_as_ns3_does(after: float, cca: Any) -> None:
    """An assessment takes 128 us. ns-3 ignores a frame that ends before the assessment does; netsim counts it."""
    is_clear = after < 0 or (cca == "ns3" and after < 128e-6)
    got = assess([ending(after)], 10.0, phy=Phy(cca=cca, **DEAF))
    assert got == {"delivered" if is_clear else "access_failed": 1}


@pytest.mark.parametrize("cca", ["any", "ns3"])
@pytest.mark.parametrize(("after", "is_clear"), [(640e-6 + 64e-6, False), (640e-6 + 128e-6, True)])
def test_an_assessment_sees_what_begins_within_it_and_not_at_its_end(after: float, cca: Any, is_clear: bool) -> None:
    got = assess([ending(after)], 10.0, phy=Phy(cca=cca, **DEAF))
    assert got == {"delivered" if is_clear else "access_failed": 1}


def test_powers_add_up_for_energy_detection() -> None:
    phy = Phy(sense_dbm=Phy().noise_dbm + 12.0, lock_db=50.0)
    assert assess([ending(300e-6)], 10.0, phy=phy) == {"delivered": 1}
    assert assess([ending(300e-6)] * 2, 10.0, phy=phy) == {"access_failed": 1}


@pytest.mark.parametrize("cca", ["any", "ns3"])
def test_noise_is_energy_as_the_assessment_ends(cca: Any) -> None:
    """At the end of the assessment (10.128 ms), noise counts as energy: alone, and added to a signal."""
    for level, end in ((-76.0, "access_failed"), (-78.0, "delivered")):
        noise = Counted(level)
        assert assess([], 0.0, phy=Phy(cca=cca, noise=noise)) == {end: 1}
        assert [round(time, 9) for *_, time in noise.asked][:1] == [0.010128]
    # A signal of −78 dBm and noise of −80 dBm add up to −75.9 dBm.
    signal = -78.0 - Phy().noise_dbm
    for level, end in ((-80.0, "access_failed"), (-95.0, "delivered")):
        phy = Phy(cca=cca, noise=Counted(level), lock_db=50.0)
        assert assess([ending(300e-6)], signal, phy=phy) == {end: 1}


def test_a_locked_receiver_is_busy_however_weak_the_frame() -> None:
    phy = Phy(sense_dbm=-50.0)
    assert assess([ending(300e-6)], 3.0, phy=phy) == {"access_failed": 1}
    assert assess([ending(64e-6)], 3.0, phy=phy) == {"delivered": 1}
    assert assess([ending(300e-6)], -6.0, phy=phy) == {"delivered": 1}


def test_a_graph_of_carrier_sense_takes_the_place_of_power() -> None:
    sensing, other = nx.DiGraph([(2, 1)]), nx.DiGraph([(1, 2)])
    for graph in (sensing, other):
        graph.add_nodes_from(range(3))
    phy = Phy(sense_dbm=-50.0, lock_db=50.0)
    assert assess([ending(300e-6)], 10.0, phy=phy, sensing=sensing) == {"access_failed": 1}
    phy = Phy(**DEAF)
    assert assess([ending(300e-6)], 10.0, phy=phy, sensing=other) == {"delivered": 1}


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "space"), [(24, 192e-6), (25, 640e-6)])
@pytest.mark.parametrize("acks", [False, True])
def test_a_node_leaves_a_space_after_a_frame(size: int, space: float, acks: bool) -> None:
    """The next frame follows the acknowledgement (after 192 us), the spacing, an assessment and a turnaround."""

    class Twice(Agent):
        async def run(self) -> None:
            for _ in range(2):
                await self.send(0, "m", sized(size))

    radio = Radio(min_be=0, max_be=0, acks=acks, phy=Phy())
    run = Network(topology.path(2), Link(rate=RATE), medium=radio).run({0: Listener(), 1: Twice()}, until=1, trace=True)
    log = run.on_air
    first, second = log[log["sender"] == 1]["start_s"]
    answer = 192e-6 + 88 / RATE if acks else 0.0
    assert second - first == pytest.approx(8 * size / RATE + answer + space + 128e-6 + 192e-6, abs=1e-9)


class Saturated(Agent):
    """Sends node 0 frames of 100 bytes without a pause, each after the previous one has ended."""

    async def run(self) -> None:
        while True:
            await self.deliver(0, "m", sized(100))


def ring(nodes: int, seconds: float, seed: int) -> float:
    """Return the throughput (kbit/s) at node 0 of saturated nodes 5 m away; the path loss is 46.7 + 30·log10(d) dB."""
    graph = topology.star(nodes + 1)
    where = {0: (0.0, 0.0)}
    for i in range(1, nodes + 1):
        where[i] = (5 * math.cos(2 * math.pi * i / nodes), 5 * math.sin(2 * math.pi * i / nodes))
    powers = {(a, b): -46.7 - 30 * math.log10(math.dist(where[a], where[b])) for a in graph for b in graph if a != b}
    radio = Radio(phy=NS3, powers=powers, acks=True)
    agents: dict[int, Agent] = {0: Listener()} | {i: Saturated() for i in range(1, nodes + 1)}
    network = Network(graph, Link(rate=RATE, header_bits=8 * 17), medium=radio, seed=seed)
    run = network.run(agents, until=seconds)
    return len(run.agents[0].heard) * 0.8 / seconds


def test_one_node_reaches_the_rate_that_the_standards_times_allow() -> None:
    """The rate is 800 bits per 3.5·320 + 128 + 192 + 3744 + 192 + 352 + 640 us."""
    assert ring(1, 20.0, seed=1) == pytest.approx(800 / 6.368, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "kbit"), [(2, 131.3), (5, 132.7), (10, 120.6), (20, 99.3), (50, 48.4)])
def test_saturated_nodes_are_those_of_ns3(nodes: int, kbit: float) -> None:
    """The expected rates are medians of seven runs of ns-3 3.37."""
    got = [ring(nodes, 10.0, seed) for seed in range(3)]
    assert np.median(got) == pytest.approx(kbit, rel=0.03)


# --- what changes in a run --------------------------------------------------------------------------------------------


class Counted:
    """A fading or noise model that records the arguments of its calls."""

    def __init__(self, value: float) -> None:
        self.value, self.asked = value, list[tuple[int, int, float]]()

    def gain_db(self, seed: int, link_key: int, time: float) -> float:
        self.asked.append((seed, link_key, time))
        return self.value

    def noise_dbm(self, seed: int, node_key: int, time: float) -> float:
        self.asked.append((seed, node_key, time))
        return self.value


def test_fading_is_asked_once_a_signal() -> None:
    for gain, end in ((0.0, "delivered"), (-30.0, "lost")):
        fading = Counted(gain)
        phy = Phy(noise_figure=NS3.noise_figure, fading=fading)
        run = hears(levels(a1=20.0, a2=-15.0), {1: [(0.0, 100), (1.0, 100)]}, seed=5, phy=phy)
        assert counts(run, receiver=0) == {end: 2}
        assert [(seed, time) for seed, _, time in fading.asked] == [(5, 0.0), (5, 1.0)]
        assert len({key for _, key, _ in fading.asked}) == 1


def test_a_link_has_a_fading_of_its_own_on_each_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fading is the same in both directions of a link; a return to channel 0 restores that channel's value."""

    def both_tune(channel: int) -> Callable[[Medium, float], None]:
        def tune(medium: Medium, now: float) -> None:
            for mac in medium._macs.values():
                mac.tune(channel, now)

        return tune

    fading = Counted(0.0)
    for channel, at in ((11, 0.45), (12, 1.45), (0, 2.45)):
        with_medium(monkeypatch, both_tune(channel), at=at)
    phy = Phy(fading=fading)
    hears({(1, 0): -60.0}, {1: [(float(k), 100) for k in range(4)], 0: [(k + 0.2, 100) for k in range(4)]}, phy=phy)
    keys = [key for _, key, _ in fading.asked]
    assert keys[0::2] == keys[1::2]
    assert keys[0] == keys[6]
    assert len(set(keys)) == 3


def test_noise_takes_the_place_of_the_floor() -> None:
    for level, end in ((-110.0, "delivered"), (-80.0, "lost")):
        noise = Counted(level)
        run = hears({(1, 0): -95.0}, {1: [(0.5, 100)]}, phy=Phy(noise=noise))
        assert counts(run, receiver=0) == {end: 1}
        assert [time for *_, time in noise.asked] == [0.5]


def with_medium(monkeypatch: pytest.MonkeyPatch, acts: Callable[[Medium, float], None], at: float) -> None:
    """Call a function on the medium of the next run at time ``at`` (s)."""
    start = Medium.start

    def starts(medium: Medium) -> None:
        start(medium)
        loop = asyncio.get_running_loop()
        loop.call_at(at, lambda: acts(medium, at))

    monkeypatch.setattr(Medium, "start", starts)


def test_powers_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 2 is first out of range of node 0, then near enough to disturb it, and then gone."""
    says = {1: [(0.1 * k, 100) for k in range(30)], 2: [(0.1 * k - 1e-3, 100) for k in range(1, 30)]}
    powers = {(1, 0): -80.0, (0, 1): -80.0, (2, 1): -130.0, (1, 2): -130.0}

    def run() -> Run:
        graph = nx.Graph([(0, 1), (1, 2)])
        agents: dict[int, Agent] = {0: Listener()}
        agents |= {node: Says([(time, sized(size)) for time, size in each]) for node, each in says.items()}
        radio = Radio(access="aloha", phy=Phy(), powers=powers)
        return Network(graph, Link(rate=RATE), medium=radio).run(agents)

    def ends(run: Run) -> tuple[int, int]:
        row = run.ledger.table(["sender", "receiver"]).set_index(["sender", "receiver"]).loc[(1, 0)]
        return int(row["delivered"]), int(row["collided"])

    assert ends(run()) == (30, 0)
    with_medium(monkeypatch, lambda medium, now: medium.set_powers({(2, 0): -75.0}, now), at=1.05)
    assert ends(run()) == (11, 19)
    with_medium(monkeypatch, lambda medium, now: medium.set_powers({(2, 0): -140.0}, now), at=2.05)
    # The change at 2.05 s is added to the change at 1.05 s, which still happens.
    assert ends(run()) == (20, 10)


def test_another_channel_is_neither_heard_nor_disturbs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 2's frames collide with node 1's at node 0 until node 2 changes its channel."""
    at = [0.1 * k for k in range(20)]
    says = {1: [(t, 100) for t in at], 2: [(t + 1e-5, 100) for t in at]}
    for phy in (NS3, None):
        settings: dict[str, Any] = {"phy": phy, "capture": None}
        with pytest.MonkeyPatch.context() as patch:
            with_medium(patch, lambda medium, now: medium._macs[2].tune(3, now), at=1.05)
            run = hears({(1, 0): -60.0, (2, 0): -55.0}, says, **settings)
        got = run.ledger.table(["sender"]).set_index("sender")
        assert (got.loc[1, "delivered"], got.loc[1, "collided"]) == (9, 11)
        assert (got.loc[2, "asleep"], got.loc[2, "collided"]) == (9, 11)


def test_a_receiver_that_its_agent_switched_off_hears_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    says = {1: [(0.1 * k, 100) for k in range(10)]}
    with_medium(monkeypatch, lambda medium, now: medium._macs[0].listen(False, now), at=0.501)
    got = counts(hears({(1, 0): -60.0}, says), receiver=0)
    # The five lost frames include the one that was being received at the switch.
    assert got == {"delivered": 5, "asleep": 5}


def test_a_sender_may_be_weaker(monkeypatch: pytest.MonkeyPatch) -> None:
    def whisper(medium: Medium, now: float) -> None:
        medium._macs[1].gain = 10.0**-4

    with_medium(monkeypatch, whisper, at=0.55)
    got = counts(hears(levels(a1=30.0), {1: [(0.1 * k, 100) for k in range(10)]}), receiver=0)
    assert got == {"delivered": 6, "lost": 4}


# --- measured links ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [0.5, loss.varying([0.5, 0.5], 1e3)])
def test_a_measured_loss_is_scaled_to_a_frames_length(model: Any) -> None:
    """The loss of 0.5 was measured with 800 bits: the success is 0.5^(1/4) for 200 bits, and 0.5² for 1600 bits."""
    graph, n = topology.path(2), 2000
    for size, share in ((25, 0.5**0.25), (100, 0.5), (200, 0.25)):
        link = Link(rate=RATE, loss=model, loss_bits=800)
        run = Network(graph, link, medium=Radio(access="aloha"), seed=2).run(
            {0: Listener(), 1: Says([(0.1 * k, sized(size)) for k in range(n)])}
        )
        assert counts(run, receiver=0).get("delivered", 0) / n == pytest.approx(share, abs=0.035)


def test_a_table_says_for_which_length_it_holds() -> None:
    table = pd.DataFrame({"sender": [0, 1], "receiver": [1, 0], "reception": [0.9, 0.8]})
    _, links = from_table(table, bits=1064)
    assert {link.loss_bits for link in links.values()} == {1064}
    _, links = from_table(table)
    assert {link.loss_bits for link in links.values()} == {None}


def test_wires_know_no_length_on_the_air() -> None:
    with pytest.raises(BadInput, match=r"^loss_bits = 800: must be left out unless medium is a netsim\.Radio$"):
        Network(topology.path(2), Link(loss=0.1, loss_bits=800))


# --- the same frame of several senders --------------------------------------------------------------------------------


def together(late: float, snr: dict[str, float], count: int = 300, other: int = 100, **settings: Any) -> list[int]:
    """Let node 1 send 100 bytes, the others ``other`` bytes ``late`` s later; return each sender's count at node 0."""
    at = [0.1 * k for k in range(count)]
    powers = levels(CONCURRENT, **snr)
    says = {1: [(t, 100) for t in at]} | {k + 1: [(t + late, other) for t in at] for k in range(1, len(snr))}
    run = hears(powers, says, **{"phy": CONCURRENT} | settings)
    got = run.ledger.table(["sender"]).set_index("sender")
    assert got["delivered"].sum() + got["collided"].sum() + got["lost"].sum() == len(snr) * count
    return [int(got.loc[node, "delivered"]) for node in says]


@pytest.mark.parametrize(("late", "received"), [(0.0, 300), (0.4e-6, 300), (0.6e-6, 0)])
def test_the_same_frame_of_several_senders_is_received_once(late: float, received: int) -> None:
    """The three signals are equally strong, so the frame is attributed to the sender that began first."""
    assert together(late, {"a1": 20.0, "a2": 20.0, "a3": 20.0}) == [received, 0, 0]


def test_the_frame_comes_from_the_strongest_neighbour() -> None:
    assert together(0.4e-6, {"a1": 20.0, "a2": 26.0, "a3": 23.0}) == [0, 300, 0]


def test_a_frame_comes_from_a_neighbour_though_another_is_stronger() -> None:
    powers = both_ways(levels(CONCURRENT, a1=10.0, a2=30.0))
    network = Network(
        nx.Graph([(0, 1), (1, 2)]),
        Link(rate=RATE),
        medium=Radio(access="aloha", phy=CONCURRENT, powers=powers | both_ways({(1, 2): -120.0})),
        seed=0,
    )
    run = network.run({0: Listener(), 1: Says([(0.1, "x")]), 2: Says([(0.1, "x")])})
    assert [sender for _, sender, _ in run.agents[0].heard] == [1]


def test_without_the_rule_the_same_frames_disturb_each_other() -> None:
    assert together(0.0, {"a1": 20.0, "a2": 20.0, "a3": 20.0}, phy=NS3) == [0, 0, 0]


def test_other_frames_that_begin_together_disturb_each_other() -> None:
    assert together(0.0, {"a1": 20.0, "a2": 20.0, "a3": 20.0}, other=101) == [0, 0, 0]


def test_the_powers_of_the_same_frame_add_up() -> None:
    """Two equal signals act like one signal that is 3 dB stronger."""
    n, bits = 2000, 800
    alone, two = (CONCURRENT.success(-1.0 + gain, bits) for gain in (0.0, 10 * math.log10(2.0)))
    assert alone < 0.5 < 0.95 < two
    assert together(0.0, {"a1": -1.0}, n)[0] / n == pytest.approx(alone, abs=0.035)
    assert together(0.0, {"a1": -1.0, "a2": -1.0}, n)[0] / n == pytest.approx(two, abs=0.02)


def test_a_receiver_locks_on_the_sum() -> None:
    """At −6 dB a receiver cannot lock on one signal but on the sum of two; the third then adds to the sum."""
    n = 2000
    first, second, third = together(0.0, {"a1": -6.0, "a2": -6.0, "a3": -6.0}, n)
    assert (first, third) == (0, 0)
    expected = CONCURRENT.success(-6.0 + 10 * math.log10(3.0), 800)
    assert 0.1 < expected < 0.9
    assert second / n == pytest.approx(expected, abs=0.035)


def test_a_third_frame_disturbs_the_sum() -> None:
    """An interferer overlaps the last 2.2 of 3.2 ms: one equally strong frame is often lost, the sum of two is not."""
    n = 1000
    at = [0.1 * k for k in range(n)]
    for senders in ((1,), (1, 2)):
        powers = levels(CONCURRENT, a1=10.0, a2=10.0, a3=10.0)
        says = {each: [(t, 100) for t in at] for each in senders} | {3: [(t + 1e-3, 133) for t in at]}
        got = hears(powers, says, phy=CONCURRENT).ledger.table(["sender"]).set_index("sender")
        sinr = 10 * math.log10(len(senders) * 10.0 / (10.0 + 1.0))
        expected = CONCURRENT.success(sinr, 550)
        assert got.loc[1, "delivered"] / n == pytest.approx(expected, abs=0.05)
        assert (expected > 0.99) == (len(senders) == 2)
        assert got.loc[3, "delivered"] == 0


def test_a_frames_power_is_that_of_all_its_senders() -> None:
    heard: list[tuple[Any, float | None, float | None]] = []

    async def listens(me: Actor) -> None:
        heard.extend([(frame.sender, frame.rssi_dbm, frame.snr_db) async for frame in me.inbox])

    powers = both_ways({(1, 0): -60.0, (2, 0): -60.0})
    radio = Radio(access="aloha", phy=CONCURRENT, powers=powers)
    network = Network(topology.star(3), Link(rate=RATE), medium=radio, seed=0)
    network.run({0: Actor(listens), 1: Says([(0.1, "x")]), 2: Says([(0.1, "x")])})
    [(sender, rssi, snr)] = heard
    assert sender == 1
    assert rssi == pytest.approx(-60.0 + 10 * math.log10(2.0))
    assert snr == pytest.approx(-60.0 + 10 * math.log10(2.0) - CONCURRENT.noise_dbm)


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"error_rate": 0.1},
            r"^error_rate = 0\.1: must be a function of the SINR in dB: oqpsk, fsk, lora\(7\), \.\.\.$",
        ),
        ({"error_rate": lora}, "^error_rate = .*: must be a function of the SINR"),
        ({"bandwidth": 0}, "^bandwidth = 0: must be a number >= 1$"),
        ({"cca": "all"}, "^cca = 'all': must be"),
        ({"concurrent_s": -1e-6}, "^concurrent_s = -1e-06: must be a number >= 0$"),
        ({"fading": 3.0}, r"^fading = 3\.0: must be an object with gain_db\(.* or gain_at\(.*, or None$"),
        ({"noise": Counted}, r"^noise = Counted: must be called: Counted\(\.\.\.\)$"),
    ],
)
def test_a_phy_refuses(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Phy(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"phy": Phy}, r"^phy = Phy: must be called: Phy\(\.\.\.\)$"),
        ({"phy": 1}, r"^phy = 1: must be a netsim\.radio\.Phy, or None$"),
        ({"capture": 3.0, "powers": {}}, "^capture = 3.0: must be left out with a phy, where powers decide it$"),
        ({"interference": nx.Graph(), "powers": {}}, "^interference: must be left out with a phy and powers"),
        ({"lifs": -1.0}, "^lifs = -1.0: must be"),
    ],
)
def test_a_radio_refuses(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Radio(**{"phy": Phy(), **settings})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_frame_retries": 2**31}, "^max_frame_retries = 2147483648: must be a whole number from 0 to 2147483647$"),
        ({"max_csma_backoffs": 10**400}, "^max_csma_backoffs = 1000.*: must be a whole number from 0 to 2147483647$"),
        ({"max_sifs_bits": 2**63}, "^max_sifs_bits = .*: must be a whole number from 0 to 2147483647$"),
        ({"ack_bits": 2**63}, "^ack_bits = .*: must be a whole number from 1 to 2147483647$"),
    ],
)
def test_counts_are_numbers_that_both_twins_have(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Radio(**settings)


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("value", [math.nan, math.inf, 401.0, None, "3", np.array([1.0])])
@pytest.mark.parametrize("name", ["fading", "noise"])
def test_fading_and_noise_must_be_numbers(name: str, value: Any) -> None:
    asked = {"fading": "gain_db", "noise": "noise_dbm"}[name]
    network = Network(
        topology.path(2), Link(rate=RATE), medium=Radio(access="aloha", phy=Phy(**{name: Counted(value)}))
    )
    with pytest.raises(BadInput, match=rf"^{name}\.{asked} at 0\.5 s = .*: must be a number.* <= 400$"):
        network.run({0: Talker([(0.5, 1)]), 1: Listener()}, until=1)


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("value", [None, "0.1", math.nan, 1.5])
def test_a_bit_error_rate_must_be_one(value: Any) -> None:
    radio = Radio(access="aloha", phy=Phy(error_rate=lambda sinr_db: value))
    with pytest.raises(BadInput, match=r"^error_rate\(35\.4897\) = .*: must be a bit error rate in \[0, 1\]$"):
        Network(topology.path(2), Link(rate=RATE), medium=radio).run({0: Talker([(0.5, 1)]), 1: Listener()}, until=1)


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("kind", [float, np.float32, np.float64, int])
def test_fading_of_any_kind_of_number_is_the_same(kind: Any) -> None:
    radio = Radio(access="aloha", phy=Phy(fading=Counted(kind(3)), noise=Counted(kind(-90))))
    run = Network(topology.path(2), Link(rate=RATE), medium=radio).run({0: Talker([(0.5, 1)]), 1: Listener()}, until=1)
    (frame,) = run.agents[1].frames
    assert frame.rssi_dbm == pytest.approx(-57.0, abs=1e-12)
    assert frame.snr_db == pytest.approx(33.0, abs=1e-12)


@pytest.mark.usefixtures("twin")
def test_a_frame_shorter_than_the_rounding_of_times_meets_the_noise_floor() -> None:
    for power, heard in ((-60.0, 1), (-110.0, 0)):
        radio = Radio(access="aloha", phy=Phy(), powers={(0, 1): power, (1, 0): power})
        network = Network(topology.path(2), Link(rate=1e300), medium=radio)
        assert len(network.run({0: Talker([(0.5, 1)]), 1: Listener()}, until=1).agents[1].frames) == heard


def test_a_network_refuses_powers_of_unknown_nodes_and_missing_ones() -> None:
    graph = topology.path(2)
    for powers, message in (
        (
            {(0, 1): -60.0, (1, 0): -60.0, (0, 7): -60.0},
            r"^powers: pair = \(0, 7\): must be two nodes of the network's",
        ),
        ({(0, 1): -60.0}, "^powers: must have one for each pair that hears each other; there is none for 1 → 0$"),
    ):
        with pytest.raises(BadInput, match=message):
            Network(graph, Link(rate=RATE), medium=Radio(phy=Phy(), powers=powers)).run({0: Listener(), 1: Listener()})


def test_a_curve_must_give_rates() -> None:
    with pytest.raises(BadInput, match=r"^error_rate\(50\) = 2\.0: must be a bit error rate in \[0, 1\]$"):
        Phy(error_rate=lambda sinr_db: 2.0).success(50.0, 8)


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize(("payload", "shared"), [(np.arange(3.0), True), ([1.0, 2.0], False)])
def test_copies_of_a_frame_with_powers_of_their_own_share_a_payload_that_cannot_change(
    payload: Any, shared: bool
) -> None:
    async def talk(me: Any) -> None:
        await me.broadcast("x", payload)

    powers = {(0, 1): -50.0, (1, 0): -50.0, (0, 2): -60.0, (2, 0): -60.0}
    radio = Radio(access="aloha", phy=Phy(), powers=powers)
    network = Network(topology.star(3), Link(rate=RATE), medium=radio)
    agents = network.run({0: Actor(talk), 1: Listener(), 2: Listener()}, until=1).agents
    (one,), (other,) = agents[1].frames, agents[2].frames
    assert [one.rssi_dbm, other.rssi_dbm] == pytest.approx([-50.0, -60.0])
    assert (one.payload is other.payload) is shared
    assert np.array_equal(one.payload, other.payload)
    assert np.array_equal(one.payload, payload)


class Recorded:
    """A noise and gain model with separate values for named nodes."""

    def __init__(self) -> None:
        self.asked = list[Any]()

    def noise_at(self, node: Hashable, time: float) -> float:
        """Return the noise (dBm), which is loud at one mote from 5 s on."""
        return -50.0 if node == ("loud", 1) and time >= 5 else -100.0

    def gain_at(self, sender: Hashable, receiver: Hashable, time: float) -> float:
        """Return the gain (dB): a deep fade in one direction of one link."""
        self.asked.append((sender, receiver, time))
        return -100.0 if (sender, receiver) == ("base", "far") else 0.0


@pytest.mark.usefixtures("twin")
def test_models_of_noise_and_fading_may_know_nodes_by_name() -> None:
    class Says(Agent):
        async def run(self) -> None:
            for _ in range(10):
                await asyncio.sleep(1)
                if self.name == "base":
                    await self.broadcast("k")

    model, names = Recorded(), ["base", ("loud", 1), "far", "near"]
    listeners: dict[Any, Any] = {name: Listener() for name in names[1:]}
    radio = Radio(access="aloha", phy=Phy(noise=model, fading=model))
    graph = nx.star_graph(names)
    Network(graph, Link(rate=250e3, header_bits=136), medium=radio).run({"base": Says(), **listeners}, until=12)
    assert [len(each.frames) for each in listeners.values()] == [4, 0, 10]
    assert set(model.asked) == {("base", name, float(k)) for name in names[1:] for k in range(1, 11)}


@pytest.mark.parametrize("name", ["noise", "fading"])
def test_a_model_without_its_method_is_refused(name: str) -> None:
    with pytest.raises(
        BadInput, match=rf"^{name} = .*: must be an object with .*_d.*\(seed, .*\) or .*_at\(.*\), or None$"
    ):
        Phy(**{name: object()})
