"""Carriers, which are power without a frame: from nodes with transmit powers, and from agents in the background."""

import asyncio
from dataclasses import replace
from typing import Any

import networkx as nx
import pytest

import netsim
from netsim import Agent, AgentError, BadInput, Energy, Network, Run, presets
from netsim.errors import Stalled
from netsim.faults import Crash
from netsim.radio import DutyCycle

BITS = 8 * 17
LINK = presets.ieee802154().link


class Hears(Agent):
    """Records the frames that it receives."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def run(self) -> None:
        async for frame in self.inbox:
            self.heard.append(frame)


class Sends(Agent):
    """Sends node 1 a frame of about 2 ms at each of the given times."""

    def __init__(self, *times: float) -> None:
        self.times = times

    async def run(self) -> None:
        for number, time in enumerate(self.times):
            await asyncio.sleep(time - self.now)
            await self.send(1, "d", [number, bytes(40)])


class Emits(Agent):
    """Emits carriers, each given as (begin, duration) in seconds."""

    background = True

    def __init__(self, *spans: tuple[float, float]) -> None:
        self.spans, self.ended = spans, list[float]()

    async def run(self) -> None:
        for begin, seconds in self.spans:
            await asyncio.sleep(max(0.0, begin - self.now))
            await self.radio.carrier(seconds)
            self.ended.append(self.now)


def network(to_one: float = -50.0, **more: Any) -> Network:
    """Return a network of nodes 0 and 1, with an unlinked node "x" whose power at node 1 is given (dBm)."""
    graph = nx.Graph([(0, 1)])
    graph.add_node("x")
    faults = more.pop("faults", ())
    powers = {(0, 1): -60.0, (1, 0): -60.0, ("x", 1): to_one}
    given = {"access": "aloha", "acks": False, "powers": powers, **more}
    radio = replace(presets.ieee802154().radio, **given)
    return Network(graph, LINK, medium=radio, connected=False, faults=faults)


def arrived(run: Run) -> list[int]:
    """Return the numbers of the frames that node 1 received, from the frames' payloads."""
    return [frame.payload[0] for frame in run.agents[1].heard]


def test_what_a_carrier_overlaps_is_lost() -> None:
    times = 0.1, 0.199, 0.21, 0.249, 0.2501, 0.3
    run = network().run({0: Sends(*times), 1: Hears(), "x": Emits((0.2, 0.05))})
    # Each frame has 61 bytes on the air, which take 1.95 ms; frames 1 to 3 overlap the carrier from 0.2 to 0.25 s.
    assert arrived(run) == [0, 4, 5]
    assert run.ledger.table()["collided"].item() == 3


def test_nobody_locks_on_a_carrier() -> None:
    """The noise floor is about -99 dBm. If a receiver locked on the -75 dBm carrier, the frame would be lost."""
    run = network(to_one=-75.0).run({0: Sends(0.1), 1: Hears(), "x": Emits((0.05, 0.2))})
    assert arrived(run) == [0]


def test_a_carrier_on_another_channel_disturbs_nobody() -> None:
    class Elsewhere(Emits):
        async def run(self) -> None:
            self.radio.channel = 1
            await super().run()

    assert arrived(network().run({0: Sends(0.1), 1: Hears(), "x": Elsewhere((0.0, 1.0))})) == [0]


@pytest.mark.parametrize("has_phy", [True, False])
def test_a_carrier_is_sensed_from_its_begin_to_its_end(has_phy: bool) -> None:
    class Listens(Agent):
        async def run(self) -> None:
            self.busy = []
            for _ in range(9):
                await asyncio.sleep(0.01)
                self.busy.append(self.radio.busy())

    graph = nx.Graph([(0, 1)])
    radio = replace(presets.ieee802154().radio, access="csma")
    radio = radio if has_phy else replace(radio, phy=None)
    run = Network(graph, LINK, medium=radio).run({0: Listens(), 1: Emits((0.025, 0.03))})
    assert run.agents[0].busy == [False, False, True, True, True, False, False, False, False]


def test_a_carrier_waits_for_the_frame_that_the_radio_sends_and_frames_wait_for_it() -> None:
    class Both(Agent):
        async def run(self) -> None:
            await self.send(1, "d", [0, bytes(40)])
            await asyncio.sleep(0.5e-3)
            await self.radio.carrier(0.1)
            self.over = self.now
            await self.send(1, "d", [1, bytes(40)])
            await asyncio.sleep(0.5e-3)
            task = asyncio.create_task(self.radio.carrier(0.1))
            await asyncio.sleep(0.05)
            await self.send(1, "d", [2, bytes(40)])
            await task

    run = network().run({0: Both(), 1: Hears(), "x": Emits()}, trace=True)
    on_air = run.on_air
    assert run.agents[0].over == pytest.approx(on_air["end_s"][0] + 0.1, rel=1e-12)
    assert arrived(run) == [0, 1, 2]
    assert on_air["start_s"][2] == pytest.approx(on_air["end_s"][1] + 0.1, rel=1e-12)


def test_a_carrier_costs_the_energy_of_sending_at_the_nodes_own_power() -> None:
    power = Energy(transmit=2.0, receive=1.0, listen=0.5, sleep=0.0, transmit_at={0.0: 2.0, -10.0: 1.2})
    net = network(energy={0: power, 1: power}, power_dbm={0: -10.0})

    class Emitting(Emits):
        background = False

    run = net.run({0: Emitting((0.1, 0.25)), 1: Emitting((0.1, 0.5)), "x": Emits()})
    spent = run.energy.set_index("agent")
    assert spent["transmit_s"].tolist() == pytest.approx([0.25, 0.5])
    assert spent["transmit_j"].tolist() == pytest.approx([0.25 * 1.2, 0.5 * 2.0])
    assert run.airtime["frames"].sum() == 0
    assert run.ledger.table().sum(axis=None) == 0


def test_a_crash_ends_a_carrier_and_the_end_of_the_run_does() -> None:
    agents = {0: Sends(0.1, 0.3), 1: Hears(), "x": Emits((0.0, 10.0))}
    assert arrived(network(faults=[Crash("x", at=0.2)]).run(agents)) == [1]
    run = network().run({0: Sends(0.1, 0.3), 1: Hears(), "x": Emits((0.0, 10.0))}, until=0.2, trace=True)
    assert run.ended_at == 0.2
    assert arrived(run) == []


def test_a_radio_that_is_off_emits_none() -> None:
    class Off(Emits):
        async def run(self) -> None:
            self.radio.off()
            await super().run()

    with pytest.raises(AgentError, match="cannot emit a carrier: its radio is off"):
        network().run({0: Off((0.0, 1.0)), 1: Hears(), "x": Emits()})
    asleep = DutyCycle(period=1.0, awake=0.01)
    with pytest.raises(AgentError, match="cannot emit a carrier: its radio is off"):
        network(duty_cycle={0: asleep}).run({0: Emits((0.5, 1.0)), 1: Hears(), "x": Emits()})


# --- transmit powers --------------------------------------------------------------------------------------------------


def test_a_node_begins_with_its_own_power_for_which_received_powers_hold() -> None:
    class Louder(Sends):
        async def run(self) -> None:
            self.first = self.radio.power_dbm
            await super().run()
            self.radio.power_dbm = -3.0
            await self.send(1, "d", [9, bytes(40)])

    run = network(power_dbm={0: -10.0}, energy=None).run({0: Louder(0.1), 1: Hears(), "x": Emits()})
    assert run.agents[0].first == -10.0
    assert [frame.rssi_dbm for frame in run.agents[1].heard] == pytest.approx([-60.0, -53.0])


def test_a_node_that_returns_after_a_crash_has_its_own_power_again() -> None:
    class Louder(Agent):
        async def run(self) -> None:
            self.first = self.radio.power_dbm
            self.radio.power_dbm = 0.0
            await asyncio.sleep(1.0)

    faults = [Crash(0, at=0.5, until=0.6)]
    run = network(power_dbm={0: -10.0}, energy=None, faults=faults).run({0: Louder(), 1: Hears(), "x": Emits()})
    assert run.agents[0].first == -10.0


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"power_dbm": {7: 0.0}}, "power_dbm: node = 7: must be a node of the network's graph"),
        ({"power_dbm": {0: "x"}}, r"power_dbm\[0\] = 'x': must be a number"),
        ({"power_dbm": 3.0}, "power_dbm = 3.0: must be a mapping"),
        ({"power_dbm": {0: 0.0}, "phy": None}, "must be left out without a phy"),
    ],
)
def test_powers_that_cannot_be_are_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        network(**more)


# --- in the background ------------------------------------------------------------------------------------------------


class Ticks(Agent):
    """Runs until the end without ever finishing."""

    background = True

    async def run(self) -> None:
        self.ticks = 0
        while True:
            await asyncio.sleep(0.3)
            self.ticks += 1


class Waits(Agent):
    """Waits for a frame that never arrives."""

    async def run(self) -> None:
        await self.inbox.get()


def test_a_run_ends_without_the_background_and_its_results_leave_it_out() -> None:
    net = network()
    net.watch(["times"])
    ticks = Ticks()
    run = net.run({0: Sends(0.1, 2.05), 1: Emits((0.0, 1.0)), "x": ticks}, [lambda agents: len(agents)], sample=1.0)
    assert run.ended_at == 2.05
    assert ticks.ticks == 6
    assert set(run.agents) == {0}
    assert run.airtime["agent"].tolist() == [0]
    assert run.energy["agent"].tolist() == [0]
    assert set(run.states["agent"]) == {0}
    assert run.rounds["<lambda>"].tolist() == [1.0, 1.0, 1.0]


def test_who_waits_for_what_cannot_come_is_told_so_though_others_go_on_in_the_background() -> None:
    run = network().run({0: Sends(0.1), 1: Hears(), "x": Ticks()})
    assert arrived(run) == [0]
    assert run.ended_at == 1.0, "whole seconds are looked at"
    with pytest.raises(Stalled, match="agent 1"):
        network().run({0: Hears(), 1: Waits(), "x": Ticks()})


def test_a_background_alone_is_refused_and_so_are_several_processes() -> None:
    with pytest.raises(BadInput, match="must have one that is not in the background"):
        network().run({0: Ticks(), 1: Ticks(), "x": Ticks()})
    wires = Network(netsim.topology.path(2), round_period=1.0)
    with pytest.raises(BadInput, match="must not be in the background in a run over several processes"):
        wires.run({0: Ticks(), 1: Sends(0.1)}, workers=2)


def test_an_attribute_of_an_agent_may_be_called_background() -> None:
    class Painter(Sends):
        def __init__(self) -> None:
            super().__init__(0.1)
            self.background = "blue"

    assert set(network().run({0: Painter(), 1: Hears(), "x": Emits()}).agents) == {0, 1}
