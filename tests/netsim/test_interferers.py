"""Interferers: when they emit, how strongly motes receive them, and that they do not count as motes."""

import asyncio
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netsim
from netsim import Agent, BadInput, Deployment, Energy, topology
from netsim.faults import Join, Move
from netsim.interferers import BusyPeriods, Interference, Interferer, Jammer, NearbyNetwork, ReactiveJammer, WiFi
from netsim.radio import DutyCycle, LogDistance, Phy
from netsim.studies.experiment import Experiment, Setup

HERE = (0.0, 0.0)


class Noted(Interference):
    """Records the starts and lengths of its emissions."""

    def __init__(self, source: Interferer) -> None:
        super().__init__(source)
        self.spans: list[tuple[float, float]] = []

    async def emit(self, seconds: float) -> None:
        if self.now < self.source.until:
            self.spans.append((self.now, seconds))
            await asyncio.sleep(seconds)


class Lives(Agent):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def run(self) -> None:
        await asyncio.sleep(self.seconds)


def spans(source: Interferer, seconds: float) -> Any:
    """Return the starts and lengths of an interferer's emissions, shape (bursts, 2)."""
    noted = Noted(source)
    netsim.Network(topology.path(2), seed=1).run({0: noted, 1: Lives(seconds)})
    return np.array(noted.spans)


def test_beacons_come_each_100_time_units() -> None:
    found = spans(WiFi(position=HERE), 10.24)
    assert len(found) == 100
    assert np.diff(found[:, 0]) == pytest.approx(0.1024)
    assert found[:, 1] == pytest.approx(192e-6 + 1600e-6)


@pytest.mark.parametrize(
    ("traffic", "least", "most", "p", "sigma", "kappa"),
    [("5 %", 128, 1536, 0.2, 6.5, 0.0), ("voip", 128, 384, 0.1, 11.5, -0.45), ("25 %", 128, 1536, 0.45, 1.4, 0.0)],
)
def test_traffic_has_the_means_of_its_distributions(
    traffic: str, least: int, most: int, p: float, sigma: float, kappa: float
) -> None:
    """A generalized Pareto variable has the mean sigma/(1 - kappa); DIFS is 50 us, the mean window 67.5 us."""
    found = spans(WiFi(position=HERE, traffic=traffic), 30.0)
    lengths = (8 * (least + most) / 2 + 160 + 135) / 54e6 + 37.5e-6
    assert found[:, 1].mean() == pytest.approx(lengths, rel=0.02)
    silences = found[1:, 0] - found[:-1].sum(axis=1)
    assert silences.mean() == pytest.approx(117.5e-6 + (1 - p) * sigma * 1e-3 / (1 - kappa), rel=0.06)
    assert silences.min() >= 50e-6 - 1e-9


def test_a_network_is_never_silent_for_longer_than_200_ms() -> None:
    found = spans(WiFi(position=HERE, traffic="download"), 3.0)
    assert (found[1:, 0] - found[:-1].sum(axis=1)).max() <= 0.2 + 1e-9


def test_a_jammer_emits_for_its_share_of_each_period_from_begin_to_end() -> None:
    found = spans(Jammer(position=HERE, duty=0.25, period=0.2, at=1.0, until=1.9), 5.0)
    assert found[:, 0] == pytest.approx([1.0, 1.2, 1.4, 1.6, 1.8])
    assert found[:, 1] == pytest.approx(0.05)


def test_frames_of_a_nearby_network_are_a_poisson_process() -> None:
    found = spans(NearbyNetwork(position=HERE, frames_per_s=50.0), 60.0)
    silences = found[1:, 0] - found[:-1].sum(axis=1)
    assert silences.mean() == pytest.approx(1 / 50, rel=0.06)
    assert silences.std() == pytest.approx(1 / 50, rel=0.08)
    assert found[:, 1] == pytest.approx(133 * 8 / 250e3)


def test_busy_periods_are_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "busy.csv"
    file.write_text("begin,end\n0.1,0.15\n# a pause\n0.3,0.5\n")
    once = spans(BusyPeriods(position=HERE, file=file, at=2.0), 9.0)
    assert once == pytest.approx(np.array([[2.1, 0.05], [2.3, 0.2]]))
    again = spans(BusyPeriods(position=HERE, file=file, period=1.0), 2.05)
    assert again[:, 0] == pytest.approx([0.1, 0.3, 1.1, 1.3])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("begin,end\n0.2,0.1\n", r"busy\.csv, line 2: begin = 0\.2, end = 0\.1: must be in order"),
        ("begin,end\n0,2\n1,3\n", r"busy\.csv, line 3: begin = 1, end = 3"),
        ("begin,end\n0,x\n", r"busy\.csv, line 2: end = 'x': must be a number"),
    ],
)
def test_files_of_no_busy_periods_are_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "busy.csv").write_text(text)
    with pytest.raises(BadInput, match=says):
        BusyPeriods(position=HERE, file=tmp_path / "busy.csv")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: WiFi(position=(1.0,)), "position = "),
        (lambda: WiFi(position=HERE, traffic="mail"), "traffic = 'mail': must be one of beacons"),
        (lambda: WiFi(position=HERE, beacon=0.2), "beacon = 0.2: must be below"),
        (lambda: Jammer(position=HERE, duty=0.0), "duty = 0.0"),
        (lambda: Jammer(position=HERE, at=5.0, until=4.0), "until = 4.0: must be a number > 5"),
        (lambda: NearbyNetwork(position=HERE, channels_off=-1), "channels_off = -1"),
        (lambda: Jammer(position=HERE, bandwidth=0.0), "bandwidth = 0.0"),
    ],
)
def test_interferers_that_cannot_be_are_refused(make: Any, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        make()


# --- on a site --------------------------------------------------------------------------------------------------------


class Sends(Agent):
    """Sends a frame to the sink every 50 ms."""

    def __init__(self, count: int = 100) -> None:
        self.count = count

    async def run(self) -> None:
        for number in range(self.count):
            await asyncio.sleep(0.05)
            await self.send("sink", "d", [number, bytes(40)])


class Sink(Agent):
    async def run(self) -> None:
        self.heard = 0
        async for _ in self.inbox:
            self.heard += 1


def a_site(**more: Any) -> Deployment:
    return Deployment({"sink": (0.0, 0.0), "mote": (20.0, 0.0)}, **more)


def share(site: Deployment, count: int = 100, **options: Any) -> float:
    """Return the share of frames that arrive."""
    run = site.network(seed=1, **options).run({"sink": Sink(), "mote": Sends(count)})
    return run.agents["sink"].heard / count


def test_only_the_share_of_power_in_the_motes_band_counts() -> None:
    assert WiFi(position=HERE, power_dbm=20.0).in_band_dbm(Phy()) == pytest.approx(10.0)
    assert Jammer(position=HERE, power_dbm=3.0, bandwidth=1e5).in_band_dbm(Phy()) == 3.0
    off = [NearbyNetwork(position=HERE, channels_off=number).in_band_dbm(Phy()) for number in range(5)]
    assert off == [0.0, -32.0, -48.0, -54.0, -54.0]
    ap = WiFi(position=(30.0, 40.0), power_dbm=20.0)
    loss = LogDistance(exponent=2.0)
    powers = a_site(interferers={"ap": ap}, path_loss=loss).powers
    assert powers["ap", "sink"] == pytest.approx(10.0 - loss.path_loss(50.0))
    assert powers["sink", "ap"] == pytest.approx(0.0 - loss.path_loss(50.0)), "what it hears, as the jammer that reacts"


def test_interferers_are_no_motes() -> None:
    site = a_site(
        interferers={"ap": WiFi(position=(1.0, 0.0)), "jam": Jammer(position=(2.0, 0.0), at=1e6)}, sinks=["sink"]
    )
    energy = Energy(transmit=0.05, receive=0.06, listen=0.06, sleep=0.0, battery=9.0)
    radio = replace(site.preset.radio, energy=energy, duty_cycle=DutyCycle(period=1.0, awake=0.9))
    network = site.network(radio=radio)
    assert list(site.graph) == ["sink", "mote"]
    assert not network.graph["ap"]
    run = network.run({"sink": Sink(), "mote": Sends()}, trace=True)
    assert list(run.agents) == run.airtime["agent"].tolist() == run.energy["agent"].tolist() == ["sink", "mote"]
    assert set(run.ledger.table(["sender"])["sender"]) == {"mote"}
    assert set(run.ledger.senders_table()["agent"]) <= {"sink", "mote"}


def test_a_jammer_loses_its_share_of_frames_and_an_end_ends_it() -> None:
    radio = replace(a_site().preset.radio, acks=False, access="aloha")

    def arrive(**more: Any) -> float:
        return share(a_site(interferers={"jam": Jammer(position=(1.0, 0.0), **more)}), 400, radio=radio)

    assert share(a_site(), radio=radio) == 1.0
    assert arrive() == 0.0
    # A frame of 1.95 ms overlaps the 30 ms bursts, one every 101 ms, with probability 31.95 / 101 = 0.316.
    assert arrive(duty=30 / 101, period=0.101) == pytest.approx(1 - 31.95 / 101, abs=0.04)
    assert arrive(at=5.0, until=15.0) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("ends", [math.inf, 5.0])
@pytest.mark.parametrize("kind", [ValueError, TimeoutError])
def test_an_error_of_an_interferer_ends_the_run(kind: type[Exception], ends: float) -> None:
    class Odd(Interferer):
        async def act(self, agent: Interference) -> None:
            await agent.emit(0.1)
            raise kind("odd")

    site = Deployment({0: HERE, 1: (5.0, 0.0)}, interferers={"x": Odd(position=(1.0, 1.0), until=ends)})
    with pytest.raises(netsim.AgentError, match=rf"^agent 'x' raised {kind.__name__} at 0\.1 s .*: odd"):
        site.network(seed=1).run({0: Lives(2.0), 1: Lives(2.0)}, until=3.0)


def test_a_reactive_jammer_lets_no_frame_through_and_is_silent_otherwise() -> None:
    radio = replace(a_site().preset.radio, acks=False, access="aloha")
    site = a_site(interferers={"jam": ReactiveJammer(position=(10.0, 5.0))})
    assert share(site, radio=radio) < 0.02
    far = a_site(interferers={"jam": ReactiveJammer(position=(5000.0, 0.0))})
    assert share(far, radio=radio) == 1.0
    quiet = Noted(ReactiveJammer(position=HERE))
    network = site.network()
    network.scenery["jam"] = lambda: quiet
    network.run({"sink": Lives(1.0), "mote": Lives(1.0)})
    assert not quiet.spans


def test_motes_defer_to_what_they_sense() -> None:
    site = a_site(interferers={"ap": WiFi(position=(5.0, 0.0), traffic="download")})
    run = site.network(radio=replace(site.preset.radio, acks=False)).run({"sink": Sink(), "mote": Sends()})
    assert run.ledger.table()["access_failed"].item() > 80


def test_who_walks_to_an_interferer_is_disturbed_more() -> None:
    """The jammer is weak at first, being far away; then the sink moves towards it."""
    radio = replace(a_site().preset.radio, acks=False, access="aloha")
    jam = {"jam": Jammer(position=(0.0, 300.0))}
    places = {"sink": (0.0, 0.0), "mote": (0.0, 10.0)}
    stays = Deployment(places, interferers=jam)
    assert share(stays, radio=radio) == 1.0
    moves = [Move(node, (x, 299.0), at=2.5) for node, x in (("sink", 0.0), ("mote", 10.0))]
    goes = Deployment(places, interferers=jam, moves=moves)
    assert share(goes, radio=radio) == pytest.approx(0.5, abs=0.03)
    assert goes.place_of("jam", 9.0) == (0.0, 300.0)


def test_sites_with_interferers_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadInput, match=r"interferers\['sink'\]: must have another name; a mote has this one"):
        a_site(interferers={"sink": WiFi(position=HERE)})
    with pytest.raises(BadInput, match=r"interferers\['ap'\]: position = .*must be 2 numbers"):
        a_site(interferers={"ap": WiFi(position=(1.0, 2.0, 3.0))})
    with pytest.raises(BadInput, match=r"interferers\['ap'\] = 3: must be a netsim.interferers.Interferer"):
        a_site(interferers={"ap": 3})


def motes_of(setup: Setup) -> dict[Any, Agent]:
    """Return one agent for each mote of the setup."""
    assert setup.graph is not None
    assert "ap" not in setup.graph
    return {node: Sink() if node == "sink" else Sends(20) for node in setup.graph}


def test_an_experiment_on_a_site_has_agents_for_its_motes_only(tmp_path: Path) -> None:
    site = a_site(interferers={"ap": WiFi(position=(5.0, 0.0))})
    found = Experiment(
        methods={"all": motes_of},
        networks=site,
        seeds=[0],
        until=3.0,
        sample=1.0,
        measure=[lambda agents: {"agents": len(agents)}],
    ).run(tmp_path / "out")
    assert found.runs["agents"].tolist() == [2]


# --- powers and times of single motes ---------------------------------------------------------------------------------


def test_a_mote_with_more_power_is_heard_from_farther_away() -> None:
    """At 0 dBm and exponent 3 one frame in ten is received at 82 m; 9 dB more double this distance."""
    places = {0: (0.0, 0.0), 1: (120.0, 0.0)}
    assert not Deployment(places, connected=False).graph.edges
    louder = Deployment(places, power_dbm={0: 9.0})
    assert list(louder.graph.edges) == [(0, 1)]
    assert louder.powers[0, 1] - louder.powers[1, 0] == pytest.approx(9.0)
    walks = Deployment({0: (0.0, 0.0), 1: (500.0, 0.0)}, power_dbm={0: 9.0}, moves=[Move(1, (120.0, 0.0), at=1.0)])
    assert list(walks.graph.edges) == [(0, 1)]
    same = Deployment({0: (0.0, 0.0), 1: (500.0, 0.0), 2: (0.0, 10.0)}, power_dbm={2: 9.0}, connected=False)
    met = replace(same, moves=[Move(1, (120.0, 0.0), at=1.0)])
    assert sorted(map(sorted, met.graph.edges)) == [[0, 2], [1, 2]], "0, which is no louder, is not met"
    with pytest.raises(BadInput, match="power_dbm: node = 7: must be one that has a position"):
        Deployment(places, power_dbm={7: 0.0})


def test_motes_join_when_they_are_switched_on() -> None:
    site = Deployment({node: (10.0 * node, 0.0) for node in range(20)}, start=30.0, seed=1)
    times = [join.at for join in site.joins]
    assert len(times) == 20
    assert 0.0 < min(times) < 8.0 < 22.0 < max(times) <= 30.0
    assert all(join in site.network().faults for join in site.joins)
    assert Deployment({0: HERE, 1: (5.0, 0.0)}, start={1: 2.5}).joins == [Join(1, 2.5)]
    with pytest.raises(BadInput, match="start"):
        Deployment({0: HERE}, start=-1.0)
    assert math.isfinite(site.warm_up)
