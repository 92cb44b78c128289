"""Energy of radios: exactly Σ power × time, batteries that become empty, and the cost of a frame."""

import asyncio
import dataclasses
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim import Agent, AgentError, BadInput, Energy, Link, Network, Radio, topology
from netsim.faults import Crash
from netsim.radio import DutyCycle
from netsim.radio.energy import Meter
from netsim.testing import Actor, Listener, Talker, counts, sized
from tests.fuzzers.radios import energy_is_power_times_time
from tests.parts import every

LINK = Link(rate=8000.0)
SECOND = sized(1000)
POWERS = Energy(transmit=4.0, receive=3.0, listen=2.0, sleep=0.5)


async def forever(me: Actor) -> None:
    await asyncio.sleep(1e6)


def states(run: Any) -> list[list[float]]:
    return run.energy[["transmit_s", "receive_s", "listen_s", "sleep_s", "used_j"]].to_numpy().tolist()


def test_energy_is_power_times_time() -> None:
    """Node 0 sends from 1 to 2 s and from 5 to 6 s; node 1 receives it, and node 2 does not; the run ends at 10 s."""
    network = Network(topology.path(3), LINK, medium=Radio(access="aloha", energy=POWERS))
    run = network.run({0: Talker([(1.0, SECOND), (5.0, SECOND)]), 1: Actor(forever), 2: Actor(forever)}, until=10.0)
    assert states(run) == [[2, 0, 8, 0, 24], [0, 2, 8, 0, 22], [0, 0, 10, 0, 20]]


def test_a_radio_that_is_off_spends_little() -> None:
    """The nodes are awake for 2 of every 5 s; a frame from 1.5 to 2.5 s keeps its receiver awake longer."""
    radio = Radio(access="aloha", energy=POWERS, duty_cycle=DutyCycle(period=5.0, awake=2.0))
    network = Network(topology.path(2), LINK, medium=radio)
    run = network.run({0: Talker([(1.5, SECOND)]), 1: Actor(forever)}, until=10.0)
    assert states(run) == [[1, 0, 3.5, 5.5, 4 + 7 + 2.75], [0, 1, 3.5, 5.5, 3 + 7 + 2.75]]


def test_frames_that_overlap_are_one_time_of_receiving() -> None:
    network = Network(topology.star(3), LINK, medium=Radio(access="aloha", energy=POWERS))
    talkers = {1: Talker([(1.0, SECOND)]), 2: Talker([(1.25, SECOND)])}
    run = network.run({0: Actor(forever), **talkers}, until=4.0)
    assert states(run)[0] == [0, 1.25, 2.75, 0, 3.75 + 5.5]


def test_who_sends_does_not_receive() -> None:
    network = Network(topology.path(2), LINK, medium=Radio(access="aloha", energy=POWERS))
    run = network.run({0: Talker([(0.0, sized(4000)), (5.0, 0)]), 1: Talker([(1.0, SECOND)])}, until=5.0)
    # Node 1 receives from 0 to 1 s and from 2 to 4 s. Node 0 sends when node 1 begins, so it receives nothing.
    assert states(run) == [[4, 0, 1, 0, 18], [1, 3, 1, 0, 15]]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_of_two_that_begin_at_one_instant_neither_hears_the_other(order: tuple[int, ...]) -> None:
    """Node 0 sends from 1 to 2 s, node 1 from 1 to 4 s; node 2 hears only node 1, in any order of the agents."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(order)
    graph.add_edges_from([(0, 1), (1, 2)])
    energy = dataclasses.replace(POWERS, transmit_bit=1e-3, receive_bit=1e-3)
    agents = {0: Talker([(1.0, SECOND)]), 1: Talker([(1.0, sized(3000))]), 2: Actor(forever)}
    network = Network(graph, LINK, medium=Radio(access="aloha", energy=energy))
    run = network.run({node: agents[node] for node in order}, until=5.0)
    spent = dict(zip(run.agents, states(run), strict=True))
    assert spent[0] == pytest.approx([1, 0, 4, 0, 4 + 8 + 8])
    assert spent[1] == pytest.approx([3, 0, 2, 0, 12 + 24 + 4])
    assert spent[2] == pytest.approx([0, 3, 2, 0, 9 + 24 + 4])


def test_only_who_waits_for_an_acknowledgement_hears_it_asleep() -> None:
    """Node 0 sends from 1 to 2 s and would sleep from 1.5 s on; node 1 acknowledges until 3 s; node 2 sleeps."""
    cycle = DutyCycle(period=10.0, awake=1.5, offsets={2: 5.0})
    radio = Radio(access="aloha", acks=True, ack_bits=8000, turnaround=0.0, energy=POWERS, duty_cycle=cycle)
    agents = {0: Talker([(1.0, SECOND)], to=1), 1: Listener(), 2: Listener()}
    run = Network(topology.path(3), LINK, medium=radio).run(agents, until=4.0)
    assert states(run) == [[1, 1, 1, 1, 4 + 3 + 2 + 0.5], [1, 1, 1, 1, 4 + 3 + 2 + 0.5], [0, 0, 0, 4, 2]]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9), st.booleans()), max_size=12),
    st.sampled_from([None, (7.0, 3.0), (4.0, 4.0), (11.0, 1.0)]),
    st.integers(0, 60),
)
def test_a_meter_counts_each_moment_once(frames: list[tuple[int, int, bool]], cycle: Any, asked: int) -> None:
    """The meter equals a simulation of every moment, in which sending precedes receiving, listening and sleeping."""
    schedule = None if cycle is None else DutyCycle(period=cycle[0], awake=cycle[1]).of("a")
    meter = Meter(POWERS, schedule)
    doing = ["idle"] * 100
    hears: list[tuple[int, int]] = []
    now = 0
    for gap, length, sends in frames:
        now = now + gap % 8
        if meter.sends_until > now:
            now = int(meter.sends_until)
        if now >= asked:
            break
        if sends:
            meter.transmit(now, now + length, 1, 0.0, POWERS.transmit)
        else:
            meter.receive(now, now + length, 1)
        if sends:
            # A node does not receive a frame that begins at the instant at which it starts to send.
            hears = [(begin, end) for begin, end in hears if begin < now]
            doing[now:] = ["idle"] * (100 - now)
            for moment in range(now, max([now, *(end for _, end in hears)])):
                doing[moment] = "hears"
        else:
            hears.append((now, now + length))
        for moment in range(now, now + length):
            if sends or doing[moment] == "idle":
                doing[moment] = "sends" if sends else "hears"
    awake = [schedule is None or schedule.is_awake(moment) for moment in range(asked)]
    idle = [on for on, what in zip(awake, doing, strict=False) if what == "idle"]
    expected = [doing[:asked].count("sends"), doing[:asked].count("hears"), sum(idle), len(idle) - sum(idle)]
    assert meter.seconds(asked) == pytest.approx(expected)
    assert meter.used(asked) == pytest.approx(np.dot(expected, [4.0, 3.0, 2.0, 0.5]))


def test_the_first_order_model() -> None:
    """Sending k bits over d metres costs E_elec·k + ε_amp·k·d², receiving E_elec·k. Broadcasts use the largest d."""
    graph = topology.path(3)
    for node, place in enumerate([(0, 0), (3, 4), (3, 24)]):
        graph.nodes[node]["pos"] = place
    energy = Energy.first_order(electronics=50e-9, amplifier=100e-12, exponent=2)
    network = Network(graph, LINK, medium=Radio(access="aloha", energy=energy))
    run = network.run({0: Listener(), 1: Talker([(0.0, SECOND)]), 2: Talker([(2.0, SECOND)], to=1)})
    bits = 8000
    expected = [50e-9 * bits, (100e-9 + 100e-12 * 20**2) * bits, (50e-9 + 50e-9 + 100e-12 * 20**2) * bits]
    assert run.energy["used_j"].tolist() == pytest.approx(expected)


# --- batteries --------------------------------------------------------------------------------------------------------


class Alive(Agent):
    """Records the time every second, and sends."""

    def __init__(self, says: bool = True) -> None:
        self.says = says
        self.times: list[float] = []

    async def run(self) -> None:
        for _ in range(50):
            await asyncio.sleep(1.0)
            self.times.append(self.now)
            if self.says:
                await self.broadcast("m", 1)


def test_an_empty_battery_ends_a_node_and_not_the_run() -> None:
    energy = {0: Energy(receive=2.0, listen=2.0, battery=21.0)}
    network = Network(topology.path(2), Link(rate=1e6), medium=Radio(access="aloha", energy=energy))
    run = network.run({0: Alive(says=False), 1: Alive()})
    [row] = run.energy.to_dict("records")
    assert row["died_at_s"] == pytest.approx(10.5, rel=1e-9)
    assert row["used_j"] == pytest.approx(21.0)
    assert row["left_j"] == pytest.approx(0.0, abs=1e-8)
    assert run.agents[0].times == [float(k) for k in range(1, 11)]
    assert run.agents[1].times[-1] == 50.0
    assert counts(run) == {"delivered": 10, "receiver_down": 39, "in_flight": 1}


def test_sending_empties_it_sooner() -> None:
    """A second of sending costs 4 J instead of 2 J, so ten of them shorten the battery's life by 10 s."""
    network = Network(
        topology.path(2), LINK, medium=Radio(access="aloha", energy={0: Energy(transmit=4, listen=2, battery=100)})
    )
    run = network.run({0: Talker([(2.0 * k, SECOND) for k in range(10)]), 1: Actor(forever)}, until=80.0)
    assert run.energy["died_at_s"][0] == pytest.approx(40.0)


def test_a_frame_for_which_the_battery_does_not_suffice_is_cut_short() -> None:
    """Node 1 receives the second frame until node 0's battery is empty."""
    energy = {0: Energy(transmit=4.0, battery=6.0), 1: Energy(receive=3.0, listen=1.0)}
    network = Network(topology.path(2), LINK, medium=Radio(access="aloha", energy=energy))
    run = network.run({0: Talker([(0.0, SECOND)] * 3), 1: Actor(forever)}, until=10.0, trace=True)
    assert counts(run) == {"delivered": 1, "lost": 1, "refused": 1}
    assert run.on_air[["start_s", "end_s"]].to_numpy().tolist() == [[0.0, 1.0], [1.0, 1.5]]
    assert run.energy[["used_j", "died_at_s"]].to_numpy().tolist() == [[6.0, 1.5], [13.0, math.inf]]


def test_a_frame_that_ends_as_the_battery_does_is_sent() -> None:
    energy = {0: Energy(transmit=4.0, battery=8.0)}
    network = Network(topology.path(2), LINK, medium=Radio(access="aloha", energy=energy))
    run = network.run({0: Talker([(0.0, SECOND)] * 3), 1: Actor(forever)}, until=80.0)
    assert counts(run) == {"delivered": 2, "refused": 1}
    assert run.energy["died_at_s"][0] == 2.0


def test_who_hears_lives_until_its_battery_is_empty() -> None:
    """A frame of 20 s begins at 1 s. Receiving costs 1 W like listening, so a battery of 8 J lasts for 8 s."""
    energy = {1: Energy(receive=1.0, listen=1.0, battery=8.0)}
    network = Network(topology.path(2), LINK, medium=Radio(access="aloha", energy=energy))
    run = network.run({0: Talker([(1.0, sized(20_000))]), 1: Actor(forever)}, until=30.0)
    assert run.energy[["used_j", "died_at_s"]].to_numpy().tolist() == [[8.0, 8.0]]


def test_bits_are_paid_for_as_they_come() -> None:
    """A frame of 8000 bits costs 0.8 J over one second, more than the battery's 0.5 J."""
    energy = {1: Energy(receive_bit=1e-4, battery=0.5)}
    network = Network(topology.path(3), LINK, medium=Radio(access="aloha", energy=energy))
    run = network.run({0: Talker([(1.0, SECOND)]), 1: Actor(forever), 2: Actor(forever)}, until=3.0)
    [row] = run.energy.to_dict("records")
    assert row["used_j"] == pytest.approx(0.5, abs=1e-12)
    assert row["died_at_s"] == pytest.approx(1.625, abs=1e-12)
    assert counts(run) == {"receiver_down": 1}


def test_bits_that_come_while_it_sends_are_not_heard() -> None:
    """Node 0 receives node 1's frame of 4 s, sends from 1 to 2 s itself, and receives the rest."""
    energy = dict.fromkeys((0, 1), Energy(transmit_bit=1e-3, receive_bit=1e-4))
    network = Network(topology.path(3), LINK, medium=Radio(access="aloha", energy=energy))
    agents = {0: Talker([(1.0, SECOND)]), 1: Talker([(0.0, sized(4000))]), 2: Actor(forever)}
    run = network.run(agents, until=10.0)
    assert run.energy["used_j"].tolist() == pytest.approx([8.0 + 3 * 0.8, 32.0])


def test_a_radio_that_spends_nothing_asleep_dies_awake() -> None:
    """Each waking period costs 2 J, so a battery of 20 J is empty at the end of the tenth, at 91 s."""
    radio = Radio(access="aloha", energy=Energy(listen=2.0, battery=20.0), duty_cycle=DutyCycle(period=10.0, awake=1.0))
    run = Network(topology.path(2), LINK, medium=radio).run({0: Actor(forever), 1: Actor(forever)}, until=200.0)
    assert run.energy["died_at_s"].tolist() == [91.0, 91.0]


@pytest.mark.parametrize("cycle", [None, DutyCycle(period=0.4, awake=0.3)], ids=["awake", "sleeps"])
def test_deaths_are_where_power_times_time_is_the_battery(cycle: DutyCycle | None) -> None:
    """The expected times of death come from integrating each node's power over the log of frames on the air."""
    names, rng = range(12), np.random.default_rng(1)
    spends = Energy(transmit=0.05, receive=0.07, listen=0.03, sleep=1e-4, transmit_bit=2e-6, receive_bit=1e-6)
    batteries = {node: dataclasses.replace(spends, battery=float(rng.uniform(0.2, 1.0))) for node in names}
    radio = Radio(duty_cycle=cycle, energy=batteries)
    network = Network(topology.erdos_renyi(12, p=0.4, seed=2), Link(rate=2e4), medium=radio, seed=3)
    agents = {node: Talker([(float(time), sized(60)) for time in np.sort(rng.uniform(0, 40, 200))]) for node in names}
    run = network.run(agents, until=40.0, trace=True)
    energy_is_power_times_time(run, network)
    died = dict(zip(names, run.energy["died_at_s"], strict=True))
    assert sum(time < math.inf for time in died.values()) == 12
    log = run.on_air
    cut = [node for node in names if (log.query(f"sender == {node}")["end_s"] == died[node]).any()]
    hearing = [node for node in names if ((log["start_s"] < died[node]) & (log["end_s"] > died[node])).any()]
    assert len(cut) >= 1
    assert len(hearing) >= 1


def test_with_a_duty_cycle_it_lasts_longer() -> None:
    """2 W for 1 s of every 10 s and 0.1 W for the rest is 2.9 J in 10 s."""
    radio = Radio(
        access="aloha",
        energy=Energy(listen=2.0, sleep=0.1, battery=29.0),
        duty_cycle=DutyCycle(period=10.0, awake=1.0),
    )
    run = Network(topology.path(2), LINK, medium=radio).run({0: Actor(forever), 1: Actor(forever)}, until=500.0)
    assert run.energy["died_at_s"].tolist() == pytest.approx([100.0, 100.0])


@every("battery", [0.0123, 2.2345, 10.811, 14.01])
@every(("period", "awake"), [(1.0, 0.1), (0.3, 0.1), (7.0, 7.0)])
def test_a_death_is_when_the_battery_is_spent(battery: float, period: float, awake: float) -> None:
    cycle = DutyCycle(period=period, awake=awake)
    radio = Radio(access="aloha", energy=Energy(listen=0.0564, sleep=6e-5, battery=battery), duty_cycle=cycle)
    run = Network(topology.path(2), LINK, medium=radio).run({0: Actor(forever), 1: Actor(forever)})
    assert run.energy["used_j"].tolist() == pytest.approx([battery] * 2, abs=1e-9)


def test_all_dead_is_the_end() -> None:
    radio = Radio(access="aloha", energy=Energy(listen=1.0, battery=5.0))
    run = Network(topology.path(2), LINK, medium=radio).run({0: Actor(forever), 1: Actor(forever)})
    assert run.ended_at == pytest.approx(5.0)


def test_an_agent_that_cleans_up_as_it_dies_is_no_error() -> None:
    class Says(Agent):
        async def run(self) -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await self.broadcast("m", "goodbye")

    radio = Radio(access="aloha", energy={0: Energy(listen=1.0, battery=5.0)})
    run = Network(topology.path(2), LINK, medium=radio).run({0: Says(), 1: Actor(forever)}, until=20.0)
    assert counts(run, sender=0) == {"link_down": 1}


# --- what an agent knows ----------------------------------------------------------------------------------------------


def test_an_agent_knows_its_energy_and_what_a_frame_cost() -> None:
    async def look(me: Actor) -> None:
        me.log += [me.energy.used, me.energy.left, me.energy.last_frame]
        await me.broadcast("m", SECOND)
        await asyncio.sleep(3.0)
        me.log += [me.energy.used, me.energy.left, me.energy.last_frame]

    radio = Radio(access="aloha", energy={0: Energy(transmit=4.0, listen=2.0, battery=100.0)})
    run = Network(topology.path(2), LINK, medium=radio).run({0: Actor(look), 1: Actor(forever)}, until=9.0)
    assert run.agents[0].log == pytest.approx([0.0, 100.0, 0.0, 8.0, 92.0, 4.0])


def test_without_energy_there_is_none_to_know() -> None:
    async def look(me: Actor) -> None:
        me.log.append(me.energy.used)

    for medium in ("wires", Radio()):
        with pytest.raises(
            AgentError, match=r"agent 0 has no energy account: the medium must be a netsim\.Radio\(energy=...\)"
        ):
            Network(topology.path(2), LINK, medium=medium).run({0: Actor(look), 1: Listener()})  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [{"transmit": -1.0}, {"battery": 0.0}, {"listen": math.nan}, {"exponent": math.inf}])
def test_bad_energies_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(BadInput, match=next(iter(values))):
        Energy(**values)


# --- other parts of the node, and energy spent in one amount ----------------------------------------------------------

MCU = {"mcu": {"sleep": 0.25, "active": 1.0}, "led": {"off": 0.0, "on": 2.0}}


def spends(*steps: tuple[float, Any]) -> Actor:
    """Return an agent that calls methods of its ``energy`` at set times (s)."""

    async def script(me: Actor) -> None:
        for time, step in steps:
            await asyncio.sleep(time - me.now)
            step(me)
        await asyncio.sleep(1e6)

    return Actor(script)


def test_parts_spend_by_their_states_and_the_table_shows_each() -> None:
    """The mcu is active from 1 to 4 s, and the led is on from 2 s to the end at 10 s."""
    agent = spends(
        (1.0, lambda me: me.energy.enter("mcu", "active")),
        (2.0, lambda me: me.energy.enter("led", "on")),
        (3.0, lambda me: me.spend("adc", 0.5)),
        (4.0, lambda me: me.energy.enter("mcu", "sleep")),
        (5.0, lambda me: me.spend("adc", 0.25)),
    )
    energy = {0: Energy(listen=2.0, states=MCU), 1: Energy(listen=1.0)}
    run = Network(topology.path(2), LINK, medium=Radio(energy=energy)).run({0: agent, 1: Actor(forever)}, until=10.0)
    row = run.energy.iloc[0]
    assert row[["mcu_sleep_s", "mcu_active_s", "led_off_s", "led_on_s"]].tolist() == [7, 3, 2, 8]
    assert row[["listen_j", "mcu_sleep_j", "mcu_active_j", "led_on_j", "adc_j"]].tolist() == [20, 1.75, 3, 16, 0.75]
    assert row["used_j"] == 20 + 1.75 + 3 + 16 + 0.75
    assert run.energy.iloc[1][["mcu_active_s", "adc_j", "used_j"]].tolist() == [0, 0, 10]


def test_parts_and_what_is_spent_at_once_empty_a_battery_at_the_exact_time() -> None:
    """Node 0 uses 0.5 W, 4 J at 5 s, then 1 W; node 1 spends all it has left at 3 s; node 2 uses 0.5 W of 20 J."""
    agents = {
        0: spends((5.0, lambda me: (me.spend("flash", 4.0), me.energy.enter("mcu", "active")))),
        1: spends((3.0, lambda me: me.spend("flash", 400.0))),
        2: Actor(forever),
    }
    states = {"mcu": {"sleep": 0.5, "active": 1.0}}
    energy = {0: Energy(battery=10.0, states=states), 1: Energy(battery=10.0, states=states)}
    energy[2] = Energy(battery=20.0, states=states)
    run = Network(topology.path(3), LINK, medium=Radio(energy=energy)).run(agents, until=100.0)
    assert run.energy["died_at_s"].tolist() == [8.5, 3.0, 40.0]
    assert run.energy["used_j"].tolist() == pytest.approx([10.0, 10.0, 20.0])
    assert run.energy["flash_j"].tolist() == [4.0, 8.5, 0.0]


def test_a_node_that_is_down_spends_nothing_and_begins_in_the_first_states() -> None:
    """The mcu is active from 1 s, the node is down from 3 to 5 s, and the mcu then sleeps until the end at 5.5 s."""
    agent = spends((1.0, lambda me: me.now < 5.0 and me.energy.enter("mcu", "active")))
    energy = Energy(states={"mcu": {"sleep": 0.25, "active": 1.0}})
    network = Network(topology.path(2), LINK, medium=Radio(energy=energy), faults=[Crash(0, at=3.0, until=5.0)])
    row = network.run({0: agent, 1: Actor(forever)}, until=5.5).energy.iloc[0]
    assert row[["mcu_sleep_s", "mcu_active_s"]].tolist() == [1.5, 2.0]
    assert row["used_j"] == 2 + 1.5 * 0.25


class AtRandom(Agent):
    """Sends, changes its components' states, and spends energy at random times; adds up what it spends explicitly."""

    def __init__(self) -> None:
        self.adc = 0.0
        self.active: list[tuple[float, str]] = [(0.0, "sleep")]

    async def run(self) -> None:
        for _ in range(30):
            await asyncio.sleep(self.rng.exponential(0.2))
            what = self.rng.integers(3)
            if what == 0:
                await self.broadcast("m", self.rng.normal(size=int(self.rng.integers(1, 40))))
            elif what == 1:
                joules = float(self.rng.uniform(0, 0.1))
                self.spend("adc", joules)
                self.adc += joules
            else:
                state = ("sleep", "active")[self.rng.integers(2)]
                self.energy.enter("mcu", state)
                self.active.append((self.now, state))
        await asyncio.sleep(100)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**30), st.booleans(), st.booleans())
def test_the_books_of_random_programs_balance(seed: int, cycled: bool, dies: bool) -> None:
    battery = 8.0 if dies else None
    energy = Energy(
        transmit=4.0,
        receive=3.0,
        listen=2.0,
        sleep=0.5,
        transmit_bit=1e-3,
        receive_bit=1e-4,
        battery=battery,
        states=MCU,
    )
    cycle = DutyCycle(period=0.7, windows=[(0.1, 0.2), (0.4, 0.25)]) if cycled else None
    radio = Radio(energy=energy, duty_cycle=cycle)
    agents = {node: AtRandom() for node in range(4)}
    run = Network(topology.path(4), LINK, medium=radio, seed=seed).run(agents, until=20.0)
    table = run.energy.set_index("agent")
    joules = [column for column in table if column.endswith("_j") and column not in ("used_j", "left_j")]
    assert table[joules].sum(axis=1).tolist() == pytest.approx(table["used_j"].tolist(), rel=1e-12)
    for node, agent in agents.items():
        row = table.loc[node]
        lived = min(20.0, row["died_at_s"])
        for part in (["transmit", "receive", "listen", "sleep"], ["mcu_sleep", "mcu_active"], ["led_off", "led_on"]):
            assert row[[f"{state}_s" for state in part]].sum() == pytest.approx(lived, rel=1e-9)
        ends = [*(time for time, _ in agent.active[1:]), lived]
        spans = [end - start for (start, state), end in zip(agent.active, ends, strict=True) if state == "active"]
        assert row["mcu_active_s"] == pytest.approx(sum(spans), abs=1e-9)
        if dies:
            assert row["used_j"] == pytest.approx(8.0, rel=1e-9)
            assert row["left_j"] == pytest.approx(0.0, abs=1e-9)
        else:
            assert row["adc_j"] == pytest.approx(agent.adc)


def test_currents_of_a_data_sheet() -> None:
    energy = Energy.of_currents(
        3.0, transmit=17.4e-3, listen=18.8e-3, battery_mah=2000, states={"mcu": {"sleep": 5e-6, "active": 1.8e-3}}
    )
    assert energy.transmit == pytest.approx(52.2e-3)
    assert energy.listen == pytest.approx(56.4e-3)
    assert energy.battery == pytest.approx(2.0 * 3600 * 3.0)
    assert energy.states["mcu"] == pytest.approx({"sleep": 15e-6, "active": 5.4e-3})


def test_watts_by_transmit_power_are_those_of_the_table_and_linear_between() -> None:
    energy = Energy.of_currents(3.0, transmit=17.4e-3, transmit_at={0: 17.4e-3, -10: 11.2e-3, -25: 8.5e-3})
    for dbm, amperes in ((0, 17.4e-3), (-10, 11.2e-3), (-25, 8.5e-3), (-5, 14.3e-3), (-19, 9.58e-3)):
        assert energy.sends_with(dbm) == pytest.approx(3.0 * amperes, rel=1e-12)
    with pytest.raises(BadInput, match=r"power_dbm = 3: must be from -25 to 0 dBm, for which Energy.transmit_at has"):
        energy.sends_with(3)
    assert Energy(transmit=0.05).sends_with(30) == 0.05


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([17.4e-3], r"transmit_at = \[0.0174\]: must be a mapping {dBm: watts}"),
        ({"high": 1.0}, "transmit_at: dBm = 'high': must be a number >= -200 and <= 200"),
        ({0: -1.0}, r"transmit_at\[0\] = -1.0: must be a number >= 0"),
    ],
)
def test_watts_by_transmit_power_that_are_none(levels: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Energy(transmit=0.05, transmit_at=levels)
    with pytest.raises(BadInput, match="transmit: must be given with transmit_at"):
        Energy(transmit_at={0: 0.05})
    with pytest.raises(BadInput, match=r"transmit_at\[0\] \(A\) = 17.4: must be a number >= 0 and <= 1"):
        Energy.of_currents(3.0, transmit=17.4e-3, transmit_at={0: 17.4})
    with pytest.warns(UserWarning, match=r"transmit_at\[0\] = 17.4 W: that is much for a radio"):
        Energy(transmit=0.05, transmit_at={0: 17.4})


def test_milliamperes_are_not_taken_for_watts_or_amperes() -> None:
    with pytest.warns(UserWarning, match=r"receive = 18\.8 W: .*Energy\.of_currents\(volts, receive=18\.8e-3\)"):
        Energy(receive=18.8)
    with pytest.raises(BadInput, match=r"receive \(A\) = 18\.8: must be a number >= 0 and <= 1"):
        Energy.of_currents(3.0, receive=18.8)


def test_what_is_refused_has_the_name_of_the_argument() -> None:
    with pytest.raises(BadInput, match=r"^states\['mcu'\] = 1: must be {part: {state: amperes}}, each part with a"):
        Energy.of_currents(3.0, states={"mcu": 1})  # type: ignore[dict-item]
    with pytest.raises(BadInput, match=r"^electronics = -1: must be a number >= 0"):
        Energy.first_order(electronics=-1)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"mcu": 1.0}, "states['mcu'] = 1.0: must be {part: {state: watts}}, each part with a state or more"),
        ({"mcu": {}}, "states['mcu'] = {}: must be {part: {state: watts}}, each part with a state or more"),
        ({"mcu": {"on": -1}}, "states['mcu']['on'] = -1: must be a number >= 0"),
        (
            {"a": {"b_c": 1}, "a_b": {"c": 1}},
            "states = 'a_b_c': must be a part and a state whose column, a_b_c_j, no other has",
        ),
        (
            {"died": {"at": 1}},
            "states = 'died_at': must be a part and a state whose column, died_at_s, no other has",
        ),
    ],
)
def test_states_that_are_none(states: Any, message: str) -> None:
    with pytest.raises(BadInput) as error:
        Energy(states=states)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda me: me.energy.enter("cpu", "on"), "part = 'cpu': must be one of mcu, led (did you mean 'mcu'?)"),
        (lambda me: me.energy.enter("mcu", "on"), "state = 'on': must be one of sleep, active"),
        (lambda me: me.spend("adc", -1.0), "joules = -1.0: must be a number >= 0"),
        (
            lambda me: me.spend("listen", 1.0),
            "what = 'listen': must be a name that no state and no column of Run.energy has",
        ),
        (
            lambda me: me.spend("mcu_active", 1.0),
            "what = 'mcu_active': must be a name that no state and no column of Run.energy has",
        ),
    ],
)
def test_what_cannot_be_spent(step: Any, message: str) -> None:
    network = Network(topology.path(2), LINK, medium=Radio(energy=Energy(states=MCU)))
    with pytest.raises(AgentError) as error:
        network.run({0: spends((1.0, step)), 1: Listener()})
    assert str(error.value).endswith(message)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda me: me.energy.enter("mcu", "on"), "part = 'mcu': must be one of Energy(states=...), which has none"),
        (lambda me: me.spend("", 1.0), "what = '': must be a name that no state and no column of Run.energy has"),
    ],
)
def test_of_a_node_without_parts_none_can_be_named(step: Any, message: str) -> None:
    network = Network(topology.path(2), LINK, medium=Radio(energy=Energy(listen=1.0)))
    with pytest.raises(AgentError) as error:
        network.run({0: spends((1.0, step)), 1: Listener()})
    assert str(error.value).endswith(message)


def test_without_an_account_nothing_can_be_spent() -> None:
    with pytest.raises(AgentError, match="agent 0 has no energy account"):
        Network(topology.path(2), LINK).run({0: spends((1.0, lambda me: me.spend("adc", 1.0))), 1: Listener()})


# --- windows ----------------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=2, max_size=8, unique=True),
    st.integers(0, 60),
    st.integers(0, 200),
    st.integers(0, 200),
)
def test_windows_are_a_look_at_every_moment(edges: list[int], offset: int, one: int, other: int) -> None:
    """The windows equal a check of every quarter second of a period of 40 s."""
    edges = sorted(edges)[: len(edges) // 2 * 2]
    windows = [(float(a), float(b - a)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    schedule = DutyCycle(period=40.0, windows=windows, offsets={"a": float(offset % 40)}).of("a")
    on = [
        any(a <= (k / 4 - offset) % 40 < b for a, b in zip(edges[::2], edges[1::2], strict=True)) for k in range(1400)
    ]
    assert [schedule.is_awake(k / 4) for k in range(1400)] == on
    begin, end = min(one, other), max(one, other)
    assert schedule.awake_seconds(begin, end) == pytest.approx(sum(on[4 * begin : 4 * end]) / 4)
    assert schedule.next_awake(begin) == next(k / 4 for k in range(4 * begin, 1400) if on[k])
    power = [3.0 if each else 0.5 for each in on]
    energy = sum(power[4 * begin : 4 * end]) / 4
    spent = schedule.when_spent(begin, energy, 3.0, 0.5)
    assert spent == pytest.approx(end)


def test_each_node_sleeps_as_it_is_told() -> None:
    cycles = {
        0: DutyCycle(period=10.0, windows=[(1.0, 1.0), (4.0, 2.0)]),
        1: DutyCycle(period=5.0, awake=1.0),
    }
    radio = Radio(access="aloha", energy=Energy(listen=2.0, sleep=0.5), duty_cycle=cycles)
    run = Network(topology.path(3), LINK, medium=radio).run({k: Actor(forever) for k in range(3)}, until=20.0)
    assert states(run) == [[0, 0, 6, 14, 19], [0, 0, 4, 16, 16], [0, 0, 20, 0, 40]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "awake = None: must be given unless windows are, and not with them"),
        ({"awake": 1.0, "windows": [(0, 1)]}, "awake = 1.0: must be given unless windows are, and not with them"),
        ({"windows": []}, "windows = []: must be a sequence of (start, seconds)"),
        ({"windows": [(0, 2), (1, 2)]}, "windows = (1.0, 2.0): must be within the period, 5 s, without overlap"),
        ({"windows": [(4, 2)]}, "windows = (4.0, 2.0): must be within the period, 5 s, without overlap"),
    ],
)
def test_windows_that_are_none(given: Any, message: str) -> None:
    with pytest.raises(BadInput) as error:
        DutyCycle(period=5.0, **given)
    assert str(error.value) == message


def test_cycles_of_nodes_that_there_are() -> None:
    with pytest.raises(BadInput, match="duty_cycle: node = 7: must be a node of the network's graph"):
        Network(topology.path(2), LINK, medium=Radio(duty_cycle={7: DutyCycle(period=5.0, awake=1.0)}))
