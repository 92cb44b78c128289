"""Deployments: networks from positions; motes that move, are isolated, or have wrong clocks."""

import asyncio
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import Agent, BadInput, Deployment, Energy, Network, Run, mobility, topology
from netsim.faults import ClockSkew, Crash, Faults, Join, Move
from netsim.radio import DutyCycle, LogDistance, Phy, Radio, Walls, medium
from tests.parts import every, slow

# At 0 dBm and path-loss exponent 3, the power at 67 m is the sensitivity of −95 dBm; at 82 m one in ten frames of 50
# bytes is received.
NEAR, FAR = (20.0, 0.0), (200.0, 0.0)


class Says(Agent):
    """Broadcasts a message each second, and records the senders and times of received ones."""

    def __init__(self, seconds: float = 100.0, phase: float = 0.0) -> None:
        self.seconds, self.phase, self.heard = seconds, phase, list[tuple[Any, float]]()

    async def run(self) -> None:
        task = asyncio.create_task(self.listen())
        await asyncio.sleep(self.phase)
        while self.now < self.seconds:
            await self.broadcast("here", [1, 2])
            await asyncio.sleep(1.0)
        task.cancel()

    async def listen(self) -> None:
        async for frame in self.inbox:
            self.heard.append((frame.sender, self.now))


def says(network: Network, seconds: float = 100.0) -> dict[Any, Says]:
    """Return one agent for each node; each sends at a different time within a second."""
    return {node: Says(seconds, 0.03 * number) for number, node in enumerate(network.graph)}


def a_run(deployment: Deployment, seconds: float = 100.0, **options: Any) -> Run:
    network = deployment.network(**options)
    return network.run(says(network, seconds), trace=True)


def heard(run: Run, receiver: Any, sender: Any) -> list[int]:
    """Return the whole seconds in which ``receiver`` received a frame from ``sender``."""
    return sorted({int(time) for name, time in run.agents[receiver].heard if name == sender})


# --- positions --------------------------------------------------------------------------------------------------------


def test_positions_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "positions.csv"
    path.write_text("name, x, y, sink\n7, 0, 0, yes\nroof, 10, 20.5,\n007, 1, 2, 0\n")
    found = Deployment.read(path)
    assert found.positions == {7: (0.0, 0.0), "roof": (10.0, 20.5), "007": (1.0, 2.0)}
    assert found.sink == 7
    assert list(found.graph) == [7, "roof", "007"]
    assert found.graph.nodes["roof"]["pos"] == (10.0, 20.5)
    path.write_text("name,x,y,z\na,0,0,1\nb,0,0,3\n")
    assert Deployment.read(path).positions == {"a": (0.0, 0.0, 1.0), "b": (0.0, 0.0, 3.0)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,x\na,1\n", "positions.csv, line 1: must have a column 'y'; it has name, x"),
        ("name,x,y\na,1,2\nb,1,north\n", "positions.csv, line 3: y = 'north': must be a number"),
        ("name,x,y\na,1,2\nb,1,inf\n", "positions.csv, line 3: y = inf: must be finite"),
        ("name,x,y\na,1,2\na,1,3\n", "positions.csv, line 3: name = 'a': must be the only mote of that name"),
        ("name,x,y\n,1,2\n", "positions.csv, line 2: must have a name; it is empty"),
        ("name,x,y,sink\na,1,2,perhaps\n", "positions.csv, line 2: sink = 'perhaps': must be 1 or yes"),
        ("name,x,y,sinks\na,1,2,1\n", r"line 1: column = 'sinks': must be one of .* \(did you mean 'sink'\?\)"),
        ("name,x,y\n", "positions = {}: must be a mapping"),
    ],
)
def test_positions_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "positions.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        Deployment.read(path)


@every(
    ("make", "message"),
    [
        (lambda: Deployment({0: (0,)}), "must be a mapping"),
        (lambda: Deployment({0: (0, 0), 1: (0, 0, 1)}), r"positions\[1\] = \(0, 0, 1\): must be 2 numbers in metres"),
        (lambda: Deployment({0: (0, 0)}, sinks=[1]), "sinks: node = 1: must be one that has a position"),
        (lambda: Deployment({0: (0, 0)}, roaming=[1]), "roaming: node = 1: must be one that has a position"),
        (lambda: Deployment({0: (0, 0)}, least=1.0), r"least = 1.0: must be a probability in \(0, 1\)"),
        (lambda: Deployment({0: (0, 0)}, moves=[Crash(0, 1.0)]), r"moves = Crash.*: must be a list of netsim"),
        (lambda: Deployment({0: (0, 0)}, moves=["a"]), "moves = 'a': must be a list of netsim.faults.Move"),  # type: ignore[list-item]
        (lambda: Deployment({0: (0, 0)}, moves=Move(0, (0, 0), 1.0)), "moves = Move.*: must be a list"),  # type: ignore[arg-type]
        (lambda: Deployment({0: (0, 0)}, moves=[Move(1, (0, 0), 1.0)]), "Move: agent = 1: must be one that has a pos"),
        (lambda: Deployment({0: (0, 0)}, moves=[Move(0, (0, 0, 1), 1.0)]), r"position = .*: must be 2 numbers"),
        (lambda: Deployment({0: (0, 0)}, drift_ppm={1: 5}), "drift_ppm: node = 1: must be one that has a position"),
        (lambda: Deployment({0: (0, 0)}, drift_ppm=-5), "drift_ppm = -5: must be a number >= 0"),
        (lambda: Deployment({0: (0, 0)}, preset=netsim.presets.ethernet()), r"preset = .*: must be a Preset with"),
        (
            lambda: Deployment({0: (0, 0)}, path_loss=LogDistance(transmit_dbm=-5.0)),
            "path_loss: transmit_dbm = -5.0: must be left out, or the phy's, 0 dBm",
        ),
        (lambda: Deployment({0: (0, 0)}).sink, r"sinks = \(\): must be one mote"),
        (lambda: Deployment({0: (0, 0)}).network(graph=1), "graph: must be left out: it follows from the deployment"),
        (lambda: Deployment({0: (0, 0)}).network(radio=Radio(phy=Phy(lock_db=1.0))), "radio: phy: must be left out"),
    ],
)
def test_deployments_that_are_none(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make()


# --- who hears whom ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [0.01, 0.1, 0.9])
def test_neighbours_receive_the_reference_frame_often_enough(least: float) -> None:
    rng = np.random.default_rng(1)
    places = dict(enumerate(map(tuple, (300.0 * rng.random((40, 2))).tolist())))
    model, phy = LogDistance(shadowing=5.0, symmetric=False), Phy()
    found = Deployment(places, path_loss=model, phy=phy, least=least, seed=3, connected=False)
    powers = model.powers(places, seed=3)
    expected = set()
    for a, b in itertools.combinations(places, 2):
        best = max(powers[a, b], powers[b, a]) - phy.noise_dbm
        if best > phy.lock_db and phy.success(best, 8 * 50) >= least:
            expected.add((a, b))
    assert {tuple(sorted(edge)) for edge in found.graph.edges} == expected
    # Powers too weak to disturb a frame may be missing.
    for ends, power in powers.items():
        if power >= phy.noise_dbm - 10.0:
            assert found.powers[ends] == power
    assert all(found.powers[ends] == powers[ends] for ends in found.powers)


def test_a_network_receives_as_the_physical_layer_says() -> None:
    distance, phy = 77.0, Phy()
    model = LogDistance()
    found = Deployment({0: (0, 0), 1: (distance, 0)}, path_loss=model, phy=phy)
    radio = replace(found.preset.radio or Radio(), phy=phy, acks=False)
    run = a_run(found, 1500.0, radio=radio, seed=1)
    bits = run.on_air["bits"].iloc[0]
    expected = phy.success(-model.path_loss(distance) - phy.noise_dbm, bits)
    assert 0.1 < expected < 0.9
    table = run.ledger.table(["sender", "receiver"])
    received = table["delivered"] / (table["delivered"] + table["lost"])
    # The tolerance is four standard deviations of the share of 1500 frames.
    assert received.to_numpy() == pytest.approx(expected, abs=4 * math.sqrt(0.25 / 1500))


def test_powers_are_those_of_the_preset() -> None:
    loss = LogDistance().path_loss(20.0)
    for power in (0, -10):
        found = Deployment({0: (0, 0), 1: (20, 0)}, preset=netsim.presets.ieee802154(power))
        assert found.powers == {(0, 1): power - loss, (1, 0): power - loss}
        other = replace(found, preset=netsim.presets.ieee802154(-25))
        assert other.powers == pytest.approx({(0, 1): -25 - loss, (1, 0): -25 - loss})
    # LoRa has a much longer range.
    places = {0: (0, 0), 1: (500, 0)}
    assert Deployment(places, preset=netsim.presets.lora(12)).graph.number_of_edges() == 1
    assert Deployment(places).graph.number_of_edges() == 0


def test_walls_decide_who_is_a_neighbour() -> None:
    places, wall = {0: (0.0, 0.0), 1: (70.0, 0.0), 2: (0.0, 70.0)}, Walls([(35, -9, 35, 9, 6.9)])
    assert set(Deployment(places).graph.edges) == {(0, 1), (0, 2)}
    found = Deployment(places, path_loss=LogDistance(walls=wall), connected=False)
    assert set(found.graph.edges) == {(0, 2)}


def test_memory_and_links_grow_with_the_pairs_that_matter() -> None:
    rng = np.random.default_rng(1)
    places = dict(enumerate(map(tuple, (1400.0 * rng.random((1000, 2))).tolist())))
    walls = Walls([(*each, 6.9) for each in (1400.0 * rng.random((50, 4))).tolist()])
    found = Deployment(places, path_loss=LogDistance(shadowing=3.0, walls=walls), connected=False)
    assert 5 < 2 * found.graph.number_of_edges() / 1000 < 30
    assert len(found.powers) / 1000 < 100


# --- alone, and in parts ----------------------------------------------------------------------------------------------


def test_motes_without_a_path_are_named() -> None:
    places = {"a": (0, 0), "b": (20, 0), "c": (0, 100), "d": (500, 0), "e": (505, 0)}
    with pytest.raises(BadInput) as caught:
        Deployment(places).network()
    told = str(caught.value)
    assert "must be connected, or go with connected=False" in told
    assert "node 'c' hears nobody; the nearest is 'a', 100 m off" in told
    assert "nodes 'd', 'e' hear only one another; the nearest other is 'b', 480 m from 'd'" in told
    with pytest.raises(BadInput, match="node 'c' hears nobody; the nearest is 'a', 100 m off"):
        LogDistance(fading=0.0).network({"a": (0, 0), "b": (20, 0), "c": (0, 100)})
    graph, links = LogDistance(fading=0.0).network({"a": (0, 0), "b": (20, 0), "c": (0, 100)}, connected=False)
    assert list(graph) == ["a", "b", "c"]
    assert set(links) == {("a", "b"), ("b", "a")}


def test_a_mote_alone_sends_and_spends() -> None:
    run = a_run(Deployment({0: (0, 0), 1: (20, 0), 2: (900, 0)}, connected=False))
    assert not run.agents[2].heard
    assert heard(run, 0, 1)
    assert (run.airtime["frames"] == 100).all()
    assert run.energy["used_j"].iloc[2] > 0
    assert run.energy["transmit_s"].iloc[2] == pytest.approx(run.energy["transmit_s"].iloc[0])
    assert run.ledger.table(["sender"])["sender"].tolist() == [0, 1]


def test_graphs_in_parts_are_allowed_only_if_asked_for() -> None:
    graph = topology.path(2)
    graph.add_node("alone")
    with pytest.raises(BadInput, match="graph: must be connected; it has 2 parts"):
        Network(graph)
    network = Network(graph, connected=False)
    run = network.run(says(network, 3.0))
    assert heard(run, 0, 1)
    assert not run.agents["alone"].heard


def test_both_cores_let_a_mote_alone_send_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = Deployment({0: (0, 0), 1: (20, 0), 2: (900, 0)}, connected=False)
    fast = a_run(deployment)
    monkeypatch.setattr(medium, "COMPILED", None)
    assert a_run(deployment).ledger.trace_hash == fast.ledger.trace_hash


def test_a_mote_may_join_late() -> None:
    run = a_run(Deployment({0: (0, 0), 1: (20, 0)}), faults=[Join(1, at=50.0)])
    assert min(heard(run, 0, 1)) == 50


# --- motes that walk --------------------------------------------------------------------------------------------------


def there_and_back(**options: Any) -> Deployment:
    moves = [Move(1, FAR, at=10.0, until=40.0), Move(1, NEAR, at=60.0, until=90.0)]
    return Deployment({0: (0, 0), 1: NEAR}, moves=moves, **options)


def test_a_mote_that_walks_is_heard_where_it_is() -> None:
    run = a_run(there_and_back())
    # The mote leaves the range of 82 m for frames of 50 bytes after 20 s, and returns after 80 s; its shorter frames
    # reach farther.
    assert set(range(17)) <= set(heard(run, 0, 1))
    assert not set(range(25, 75)) & set(heard(run, 0, 1))
    assert set(range(84, 99)) <= set(heard(run, 0, 1))
    scene = run.trace.scene
    assert scene is not None
    assert scene.paths == {1: [(0, *NEAR), (10, *NEAR), (40, *FAR), (60, *FAR), (90, *NEAR)]}


def test_a_walk_is_the_same_on_both_cores_and_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {node: (float(20 * node), 0.0) for node in range(6)}
    walks = mobility.random_waypoint(places, area=(0, 0, 150, 150), speed=(2, 9), until=30, seed=3)
    deployment = Deployment(places, moves=walks, path_loss=LogDistance(shadowing=3.0), connected=False)
    first = a_run(deployment, 30.0, seed=2)
    assert a_run(deployment, 30.0, seed=2).ledger.trace_hash == first.ledger.trace_hash
    monkeypatch.setattr(medium, "COMPILED", None)
    assert a_run(deployment, 30.0, seed=2).ledger.trace_hash == first.ledger.trace_hash


def test_neighbours_are_those_of_all_times() -> None:
    rng = np.random.default_rng(5)
    places = dict(enumerate(map(tuple, (300.0 * rng.random((12, 2))).tolist())))
    walls = Walls([(150, 0, 150, 250, 8.0)])
    model = LogDistance(shadowing=4.0, symmetric=False, walls=walls)
    walks = mobility.random_waypoint(places, area=(0, 0, 300, 300), speed=(1, 10), until=60, pause=(0, 5), seed=1)
    found = Deployment(places, moves=walks, path_loss=model, connected=False, seed=9)
    expected, now = set(found.graph.edges), dict(found.positions)
    met = set()
    network = found.network()

    def look() -> None:
        now.update(network._runtime().whereabouts("").now)
        powers = model.powers(now, seed=9)
        met.update(tuple(sorted(ends)) for ends, power in powers.items() if power >= found.hears_dbm)

    for time in np.arange(0.0, 61.0, 0.25):
        network.at(float(time), look)
    network.run(says(network, 61.0))
    assert met <= {tuple(sorted(edge)) for edge in expected}
    # The search in time steps finds nearly all encounters.
    assert len(met) >= 0.95 * len(expected)
    assert len(met) > Deployment(places, path_loss=model, connected=False, seed=9).graph.number_of_edges()


def random_site(rng: np.random.Generator, seed: int) -> Deployment:
    """Return a site with few motes, some of which move or jump, in an area of under one to several radio ranges."""
    side = float(rng.choice([30, 100, 300]))
    places = {node: tuple((side * rng.random(2)).tolist()) for node in range(int(rng.integers(1, 12)))}
    walkers = {node: at for node, at in places.items() if rng.random() < 0.5}
    walks = mobility.random_waypoint(
        walkers,
        area=(0, 0, side, side),
        speed=(1, 30),
        until=12,
        pause=(0, 3),
        step=rng.choice([0.1, 1, 2.5]),
        seed=seed,
    )
    jumps = [
        Move(int(rng.integers(len(places))), (side * rng.random(2)).tolist(), at=float(rng.choice([0, 5, 5.5])))
        for _ in range(rng.integers(3))
    ]
    walls = Walls([(*(side * rng.random(4)).tolist(), 6.9) for _ in range(3)])
    return Deployment(
        places,
        path_loss=LogDistance(shadowing=rng.choice([0, 6]), symmetric=bool(rng.random() < 0.5), walls=walls),
        moves=[*walks, *jumps],
        roaming=[node for node in places if rng.random() < 0.1],
        drift_ppm=rng.choice([0, 50]),
        offset=rng.choice([0, 0.3]),
        least=rng.choice([0.01, 0.5]),
        weakest_db=rng.choice([0, 10, 20]),
        connected=False,
        seed=seed,
    )


class Busy(Agent):
    """Sends at random times, to one neighbour or to all."""

    async def run(self) -> None:
        while self.now < 12:
            await asyncio.sleep(self.rng.exponential(0.3))
            if self.neighbors and self.rng.random() < 0.5:
                to = self.neighbors[self.rng.integers(len(self.neighbors))]
                await (self.deliver if self.outbox.acknowledges else self.send)(to, "one", self.rng.normal(size=9))
            else:
                await self.broadcast("all", self.rng.normal(size=3))


@pytest.mark.parametrize("more", [0, slow(1)])
@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**40))
def test_both_cores_give_the_same_run_on_random_sites(more: int, seed: int) -> None:
    seed += more
    rng = np.random.default_rng(seed)
    site = random_site(rng, seed)
    spends = (
        Energy(transmit=0.05, receive=0.06, listen=0.06, battery=0.4) if rng.random() < 0.5 else Energy.first_order()
    )
    cycle = DutyCycle(period=0.5, awake=0.2) if rng.random() < 0.3 else None
    assert site.preset.radio is not None
    radio = replace(site.preset.radio, acks=bool(rng.random() < 0.5), energy=spends, duty_cycle=cycle)
    faults = [Crash(node, at=7.0, until=9.0) for node in site.positions if rng.random() < 0.2]
    faults += [Join(node, at=3.0) for node in site.positions if rng.random() < 0.1]

    def play() -> Any:
        network = site.network(radio=radio, faults=faults, seed=seed)
        for node in site.roaming:
            network.at(6.2, lambda node=node: network.move(node, (10.0 * node, 5.0)))
        run = network.run({node: Busy() for node in network.graph}, until=15, trace=True)
        offered = run.ledger.tally.link_messages + run.ledger.tally.duplicated
        assert offered == sum(run.ledger.exits) + len(list(run.ledger.in_flight()))
        assert run.air is not None
        return run.ledger.trace_hash, run.air.counts, run.air.log, run.air.spent, run.air.events, run.trace.scene

    fast = play()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(medium, "COMPILED", None)
        assert play() == fast


def test_an_agent_may_move_a_mote() -> None:
    network = there_and_back().network()

    class Cart(Agent):
        async def run(self) -> None:
            await asyncio.sleep(5.5)
            network.move(self.name, (25.0, 1.0))
            with pytest.raises(BadInput, match="position"):
                network.move(self.name, "there")
            await asyncio.sleep(1)

    run = network.run({0: Says(7.0), 1: Cart()}, trace=True)
    assert run.trace.scene is not None
    assert run.trace.scene.paths[1][-1] == (5.5, 25.0, 1.0)


def test_network_move_at_any_time() -> None:
    network = there_and_back().network()
    network.at(20.5, lambda: network.move(1, NEAR))
    run = network.run(says(network), trace=True)
    # The second move ends the first one at 20.5 s, and is itself a jump at that time.
    assert heard(run, 0, 1) == list(range(100))
    scene = run.trace.scene
    assert scene is not None
    path = scene.paths[1]
    assert [point for point in path if point[0] == 20.5] == [(20.5, 80.0, 0.0), (20.5, *NEAR)]


def test_a_roaming_mote_may_go_anywhere() -> None:
    """Mote 1 leaves the range of mote 0, enters that of mote 2, and returns; both are its neighbours throughout."""
    far = (400.0, 0.0)
    site = Deployment({0: (0, 0), 1: NEAR, 2: far}, roaming=[1])
    assert sorted(site.graph.edges) == [(0, 1), (1, 2)]
    network = site.network()
    for time, place in ((30.5, (380.0, 0.0)), (60.5, NEAR), (80.5, (5000.0, 0.0))):
        network.at(time, lambda place=place: network.move(1, place))
    run = network.run(says(network), trace=True)
    assert list(run.agents[1].neighbors) == [0, 2]
    for node, expected in ((0, [*range(31), *range(61, 81)]), (2, range(31, 61))):
        assert heard(run, node, 1) == heard(run, 1, node) == list(expected)
    assert not heard(run, 0, 2)


def test_roaming_motes_reach_and_sense_each_other() -> None:
    """Two motes that start apart meet: they exchange messages, and sense each other's carrier."""
    site = Deployment({0: (0, 0), 1: (400, 0), 2: (800, 0)}, roaming=[0, 2])
    network = site.network()
    network.at(10.5, lambda: network.move(0, (390.0, 0.0)))
    network.at(20.5, lambda: network.move(2, (410.0, 0.0)))
    run = network.run(says(network, 30.0), trace=True)
    assert heard(run, 1, 0) == list(range(11, 30))
    assert heard(run, 0, 2) == heard(run, 2, 0) == heard(run, 1, 2) == list(range(21, 30))


def test_a_roaming_mote_may_be_behind_any_number_of_walls() -> None:
    walls = Walls([(5 + k, -9, 5 + k, 9, 20.0) for k in range(15)])
    site = Deployment({0: (0, 0), 1: (30, 0)}, path_loss=LogDistance(walls=walls), roaming=[1])
    network = site.network()
    network.at(5.5, lambda: network.move(1, (0.0, 20.0)))
    run = network.run(says(network, 10.0), trace=True)
    assert heard(run, 0, 1) == [6, 7, 8, 9]


def test_moves_one_after_another_arrive_before_the_next_begins() -> None:
    moves = [Move(1, (30.0, 0.0), at=1.0, until=4.0), Move(1, (30.0, 30.0), at=4.0, until=6.5, step=2.0)]
    run = a_run(Deployment({0: (0, 0), 1: NEAR}, moves=moves), 10.0)
    assert run.trace.scene is not None
    assert run.trace.scene.paths[1] == [(0, *NEAR), (1, *NEAR), (4, 30, 0), (4, 30, 0), (6.5, 30, 30)]


def test_powers_follow_each_step() -> None:
    found = Deployment({0: (0, 0), 1: (10.0, 0.0)}, moves=[Move(1, (14.0, 0.0), at=0.0, until=4.0, step=2.0)])
    network, seen = found.network(), []

    def look() -> None:
        [link] = network._runtime().medium._macs[1].links  # type: ignore[union-attr]
        seen.append(link.power)

    patch = pytest.MonkeyPatch()
    patch.setattr(medium, "COMPILED", None)
    for time in (1.0, 3.0, 5.0):
        network.at(time, look)
    network.run({0: Says(6.0), 1: Says(6.0)})
    patch.undo()
    model = LogDistance()
    assert seen == pytest.approx([10 ** (-model.path_loss(each) / 10) for each in (10.0, 12.0, 14.0)])


def test_a_mote_keeps_its_height() -> None:
    run = a_run(Deployment({0: (0, 0, 3), 1: (5, 0, 2)}, moves=[Move(1, (9, 9), at=1.0)]), 3.0)
    assert run.trace.scene is not None
    assert run.trace.scene.paths[1][-1] == (1.0, 9.0, 9.0)


def test_a_neighbour_out_of_range_costs_no_reception() -> None:
    found = Deployment({0: (0, 0), 1: NEAR}, moves=[Move(1, (2000.0, 0.0), at=50.0)])
    run = a_run(found, 100.0)
    frame = (run.on_air["end_s"] - run.on_air["start_s"]).iloc[0]
    assert run.energy["receive_s"].to_numpy() == pytest.approx(50 * frame)


def test_what_costs_by_distance_costs_by_the_distance_now() -> None:
    found = Deployment({0: (0, 0), 1: (10, 0)}, moves=[Move(1, (20, 0), at=5.0)])
    assert found.preset.radio is not None
    radio = replace(found.preset.radio, energy=Energy.first_order(electronics=0.0))
    near = a_run(found, 5.0, radio=radio).energy["used_j"]
    both = a_run(found, 10.0, radio=radio).energy["used_j"]
    # Each mote sends five frames over 10 m, and five over 20 m, which cost four times as much.
    assert both.to_numpy() == pytest.approx(5 * near.to_numpy())


def test_moves_that_cannot_be() -> None:
    network = Deployment({0: (0, 0), 1: (20, 0), 2: (300, 0)}, connected=False).network()
    network.at(1.0, lambda: network.move(1, (290.0, 0.0)))
    with pytest.raises(netsim.NetsimError, match=r"1 and 2 come into range .* not neighbours: .* mote in its roaming"):
        network.run(says(network, 5.0))
    network = Network(topology.path(2))
    network.at(1.0, lambda: network.move(1, (290.0, 0.0)))
    with pytest.raises(netsim.NetsimError, match=r"Network.move: must go with a network of a netsim.Deployment"):
        network.run(says(network, 5.0))
    with pytest.raises(BadInput, match=r"Move: must go with a network of a netsim.Deployment"):
        Network(topology.path(2), faults=[Move(0, (1, 1), at=1.0)]).run({0: Says(), 1: Says()})
    network = there_and_back().network()
    network.at(1.0, lambda: network.move(1, (1.0,)))
    with pytest.raises(netsim.NetsimError, match=r"position = \(1.0,\): must be 2 numbers in metres"):
        network.run(says(network, 5.0))
    with pytest.raises(netsim.NetsimError, match="the network is not running"):
        network.move(1, (1.0, 1.0))


# --- clocks -----------------------------------------------------------------------------------------------------------


def test_clocks_are_wrong_by_as_much_as_is_said() -> None:
    places = {node: (float(node), 0.0) for node in range(200)}
    found = Deployment(places, drift_ppm=40.0, offset=2.0, seed=1).clocks
    drifts, offsets = np.array([1e6 * each.drift for each in found]), np.array([each.offset for each in found])
    assert np.abs(drifts).max() <= 40.0
    assert np.abs(drifts).mean() == pytest.approx(20.0, abs=4 * 40 / math.sqrt(12 * 200))
    assert offsets.min() >= 0.0
    assert offsets.mean() == pytest.approx(1.0, abs=4 * 2 / math.sqrt(12 * 200))
    assert Deployment(places, drift_ppm=40.0, offset=2.0, seed=1).clocks == found
    assert Deployment(places, drift_ppm=40.0, offset=2.0, seed=2).clocks != found
    assert Deployment(places, drift_ppm={3: -50.0}, offset={4: 0.5}).clocks == [
        ClockSkew(3, 0.0, -5e-5),
        ClockSkew(4, 0.5, 0.0),
    ]


def test_a_guard_time_too_short_for_the_drift_loses_frames() -> None:
    """Two motes wake for 10 ms each second. With a drift of 100 ppm, their wake-ups are 10 ms apart after 100 s."""
    cycle = DutyCycle(period=1.0, awake=0.01)
    for drift, lost in ((0.0, False), (100.0, True)):
        found = Deployment({0: (0, 0), 1: (5, 0)}, drift_ppm={1: drift})
        assert found.preset.radio is not None
        run = a_run(found, 400.0, radio=replace(found.preset.radio, duty_cycle=cycle))
        table = run.ledger.table(["sender"])
        assert bool(table["asleep"].sum() > 100) is lost


def test_moves_and_clocks_are_faults_of_the_network() -> None:
    network = there_and_back(offset={0: 1.0}).network(faults=Faults([Crash(0, at=50.0)]))
    assert [type(fault).__name__ for fault in network.faults] == ["ClockSkew", "Move", "Crash", "Move"]


def test_a_mote_is_where_its_moves_took_it() -> None:
    moves = [Move("walks", (10, 0), at=5.0, until=15.0), Move("walks", (0, 7), at=20.0)]
    site = Deployment({"walks": (0, 0), "stays": (3, 4)}, moves=moves, connected=False)
    places = [site.place_of("walks", time) for time in (0, 5, 10, 15, 19, 20, 99)]
    assert places == [(0, 0), (0, 0), (5, 0), (10, 0), (10, 0), (0, 7), (0, 7)]
    assert site.place_of("stays", 99) == (3, 4)
    with pytest.raises(BadInput, match="node = 'gone': must be one that has a position"):
        site.place_of("gone", 0)
