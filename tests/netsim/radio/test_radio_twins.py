"""The compiled radio equals its Python twin: events, draws, records, energies."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim import Agent, Energy, Link, Network, Radio, Run, latency, loss
from netsim.clock import clock
from netsim.clock.virtual_clock import VirtualSelector
from netsim.errors import NetsimError
from netsim.faults import Crash, Jitter, LinkDown, Straggler
from netsim.links import Budget
from netsim.radio import DutyCycle, Phy, medium
from netsim.radio.energy import Meter, Schedule
from tests.fuzzers.networks import digest, whole_digest
from tests.fuzzers.radios import RadioCase
from tests.parts import slow

compiled_only = pytest.mark.skipif(medium.COMPILED is None, reason="there is no compiled twin")


def story(run: Run) -> list[Any]:
    """Return everything that a radio records in a run, to be compared exactly."""
    assert run.air is not None
    records = run.ledger.tally.records() or {}
    kept = {name: sorted(rows.tolist()) for name, rows in records.items()}
    return [digest(run), run.air.counts, run.air.log, run.air.spent, run.air.events, run.ended_at, kept]


def in_python(play: Callable[[], Any]) -> Any:
    """Run a function with the Python twins of the radio and of the clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(medium, "COMPILED", None)
        patch.setattr(clock, "COMPILED", None)
        return play()


@compiled_only
@pytest.mark.parametrize("more", [0, slow(1), slow(2)])
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**50), st.booleans())
def test_both_twins_give_the_same_run_on_random_radios(more: int, seed: int, trace: bool) -> None:
    seed += more
    fast = RadioCase(seed).play(trace=trace)
    slow = in_python(lambda: RadioCase(seed).play(trace=trace))
    assert story(fast.run) == story(slow.run)
    if trace:
        assert whole_digest(fast) == whole_digest(slow)


@pytest.mark.parametrize("more", [0, slow(1), slow(2)])
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**50))
def test_events_that_follow_each_other_are_those_of_a_clock_that_passes_one_by_one(more: int, seed: int) -> None:
    seed += more
    fast = RadioCase(seed).play(trace=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "COMPILED", None)
        patch.setattr(VirtualSelector, "skip_to", lambda self, time: False)
        patch.setattr(VirtualSelector, "is_alone", lambda self: False)
        slow = RadioCase(seed).play(trace=True)
    assert story(fast.run) == story(slow.run)


def random_schedule(rng: np.random.Generator) -> Schedule:
    """Return a random schedule of one to four windows, which may touch each other or fill the whole period."""
    period = float(rng.choice([1.0, 0.7, 3600.0, rng.uniform(1e-3, 1e3)]))
    edges = period * np.sort(
        rng.choice(np.linspace(0.0, 1.0, 21), 2 * rng.integers(1, 5), replace=bool(rng.integers(2)))
    )
    pairs = edges.reshape(-1, 2).tolist()
    windows = tuple((start, end - start) for start, end in pairs if end > start) or ((0.0, period),)
    return Schedule(period, windows, float(rng.choice([0.0, rng.uniform(0, period)])))


@compiled_only
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**50))
def test_both_schedules_give_the_same_times(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slow = random_schedule(rng)
    fast = medium.COMPILED.CompiledSchedule(slow.period, slow.windows, slow.offset)  # type: ignore[union-attr]
    edges = [slow.offset + start + more for start, seconds in slow.windows for more in (0.0, seconds)]
    for edge in edges:
        time = edge + slow.period * float(rng.integers(0, 10 ** int(rng.integers(1, 9))))
        time += float(rng.choice([0.0, -1e-9 * slow.period, 1e-9 * slow.period, rng.uniform(0, slow.period)]))
        for each in (math.nextafter(time, -math.inf), time, math.nextafter(time, math.inf)):
            assert fast.is_awake(each) is slow.is_awake(each)
            assert fast.next_awake(each) == slow.next_awake(each)
            assert fast.awake_seconds(edge, each) == slow.awake_seconds(edge, each)


@compiled_only
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**50))
def test_both_meters_count_the_same_joules(seed: int) -> None:
    """Both meters get the same random frames (received, sent, cut short), switches, states and readings."""
    rng = np.random.default_rng(seed)
    watts = dict(zip(("transmit", "receive", "listen", "sleep"), rng.uniform(0, 4, 4).tolist(), strict=True))
    bit, battery = float(rng.choice([0.0, 1e-3])), float(rng.choice([5.0, 1e3]))
    parts = {"mcu": {"sleep": 0.1, "active": 1.0}} if rng.integers(2) else {}
    energy = Energy(**watts, transmit_bit=1e-4, receive_bit=bit, battery=battery, states=parts)
    schedule = random_schedule(rng) if rng.integers(2) else None
    twins = medium.COMPILED
    assert twins is not None
    cycle = None if schedule is None else twins.CompiledSchedule(schedule.period, schedule.windows, schedule.offset)
    meters = Meter(energy, schedule), twins.CompiledMeter(energy, cycle)
    now, heard = 0.0, list[Any]()
    for _ in range(30):
        # Some events share an instant, some are within the tolerance of an instant, and some coincide with an earlier
        # end.
        now = float(
            rng.choice([now, now + 1e-9, now + 2e-9, max(now, meters[0].busy_until), now + rng.uniform(0, 0.5)])
        )
        end, bits, what = (
            now + float(rng.choice([0.0, 0.125, rng.uniform(0, 1)])),
            int(rng.integers(1, 999)),
            rng.integers(10),
        )
        if what < 4:
            heard.append([meter.receive(now, end, bits) for meter in meters])
        elif what < 6 and now >= meters[0].sends_until:
            assert len({meter.transmit(now, end, bits, 1.0, 2.0) for meter in meters}) == 1
        elif what == 6 and heard:
            for meter, reception in zip(meters, heard[rng.integers(len(heard))], strict=True):
                meter.hears_no_more(reception, now)
        else:
            on, state = bool(rng.integers(2)), ("sleep", "active")[rng.integers(2)]
            for meter in meters:
                if what == 7:
                    meter.switch(on, now)
                elif what == 8:
                    meter.listen(on, now)
                elif parts:
                    meter.enter("mcu", state, now)
                else:
                    meter.spend("adc", 1e-3, now)
        asked = now + float(rng.choice([0.0, rng.uniform(0, 2)]))
        slow, fast = (
            [
                *(meter.seconds(asked), meter.used(asked), meter.columns(asked), meter.committed, meter.busy_until),
                *(meter.empty_at(now), meter.idle_until(now, 0.1), meter.uncommitted(now)),
                [(each.start, each.end, each.watts) for each in meter._heard],
            ]
            for meter in meters
        )
        assert repr(fast) == repr(slow)


class Busy(Agent):
    """Broadcasts, sends and waits for acknowledgements at random, until the end of the run."""

    def __init__(self, seconds: float, mean: float) -> None:
        self.seconds, self.mean, self.heard = seconds, mean, 0

    async def run(self) -> None:
        while (pause := self.rng.exponential(self.mean)) + self.now < self.seconds:
            await asyncio.sleep(pause)
            to = self.neighbors[self.rng.integers(len(self.neighbors))]
            what = self.rng.integers(4)
            if what == 0:
                await self.send(to, "one", np.arange(self.rng.integers(1, 9)))
            elif what == 1 and self.outbox.acknowledges:
                self.heard += await self.deliver(to, "sure", [1, "two"])
            else:
                await self.broadcast("all", self.rng.normal(size=3))
            self.heard += len(self.inbox)
            while len(self.inbox):
                await self.inbox.get()


def busy_network(access: str, acks: bool, hearing: str, seed: int) -> Network:
    """Return a network with faults whose load is near the capacity of its channel."""
    graph = nx.random_regular_graph(5, 24, seed=seed)
    rng = np.random.default_rng(seed)
    powers = {(a, b): float(rng.uniform(-90, -50)) for a in graph for b in graph if a != b}
    energy = {node: Energy(transmit=0.05, receive=0.06, receive_bit=1e-7, battery=0.04) for node in range(6)}
    radio = Radio(
        access=access,  # type: ignore[arg-type]
        slot=2e-3 if access == "slotted_aloha" else None,
        acks=acks,
        min_be=2,
        sensing=nx.complete_graph(24) if hearing == "sensing" else None,
        interference=nx.complete_graph(24) if hearing != "plain" else None,
        powers=powers if hearing != "plain" else None,
        capture=3.0 if hearing == "capture" else None,
        transmit_share=0.2 if access == "aloha" else None,
        duty_cycle=DutyCycle(period=0.5, awake=0.3) if hearing == "sensing" else None,
        energy=energy if hearing != "plain" else None,
    )
    port: dict[str, Any] = {"rate": 5e4, "header_bits": 136, "mtu": 40, "queue": 6}
    if access == "csma":
        port["budget"] = Budget(4e4, per="second", over="wait")
    models: list[Any] = [loss.gilbert_elliott(0.3, 4), 0.0, 1.0, 0.2, loss.varying([0, 1], 0.7)]
    ways: list[Any] = [1e-4, 0.0, 0.0, 2e-4, latency.exponential(2e-4)]
    links = {
        (0, other): Link(loss=model, corrupt=0.2, crc=False, latency=way, **port)
        for other, model, way in zip(graph[0], models, ways, strict=True)
    }
    links |= {(1, other): Link(latency=latency.uniform(0, 1e-3), **port) for other in graph[1]}
    faults = [
        Crash(3, at=1.0, until=1.7),
        Crash(4, at=2.0, until=2.2),
        LinkDown(2, next(iter(graph[2])), at=0.5, until=1.5),
        Jitter(4e-3, at=1.2, until=2.2),
        Straggler(5, 2e-3, at=0.3, until=2.5),
    ]
    return Network(graph, Link(loss=0.1, **port), links=links, medium=radio, faults=faults, seed=seed)


@compiled_only
@pytest.mark.parametrize(
    ("access", "acks", "hearing"),
    # Half of the combinations, which include every pair of settings; the others are slow tests.
    [
        (slow if (one + acks + three) % 2 else pytest.param)(access, acks, hearing)
        for one, access in enumerate(["aloha", "slotted_aloha", "csma"])
        for acks in (False, True)
        for three, hearing in enumerate(["plain", "sensing", "capture"])
    ],
)
def test_both_twins_give_the_same_run_where_the_channel_is_full(access: str, acks: bool, hearing: str) -> None:
    def play() -> tuple[list[Any], list[int]]:
        agents = {node: Busy(1.5, 0.15) for node in range(24)}
        run = busy_network(access, acks, hearing, seed=3).run(agents, trace=True)
        return story(run), [agent.heard for agent in agents.values()]

    fast = play()
    assert fast == in_python(play)
    assert fast[0][4] > 500


class Chorus(Agent):
    """Sends the same message as all other agents, at about the same time."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def run(self) -> None:
        for verse in range(40):
            await asyncio.sleep(0.05 * verse + self.rng.uniform(0, 1e-6) - self.now)
            await self.broadcast("verse", verse % 3)
            while len(self.inbox):
                frame = await self.inbox.get()
                self.heard.append((frame.sender, frame.rssi_dbm, frame.snr_db))


@compiled_only
@pytest.mark.parametrize("mtu", [None, 4])
def test_both_twins_give_the_same_run_where_the_same_frames_add_up(mtu: int | None) -> None:
    rng = np.random.default_rng(1)
    powers = {(a, b): float(rng.uniform(-98, -85)) for a in range(12) for b in range(12) if a != b}
    energy = Energy(transmit=0.05, receive=0.06, receive_bit=1e-7, battery=0.1)

    def play(concurrent_s: float = 0.5e-6) -> tuple[list[Any], list[Any]]:
        radio = Radio(access="aloha", phy=Phy(concurrent_s=concurrent_s), powers=powers, energy={0: energy})
        network = Network(nx.complete_graph(range(12)), Link(rate=250e3, mtu=mtu), medium=radio, seed=1)
        silent = {node: Chorus() if node % 3 else Busy(2.0, 0.05) for node in range(12)}
        run = network.run(silent, trace=True)
        return story(run), [agent.heard for agent in silent.values()]

    fast = play()
    assert fast == in_python(play)
    assert fast != play(0.0)


class Fails:
    """A model of airtime that raises an error from its fourth call on."""

    def __init__(self) -> None:
        self.told = 0

    def seconds(self, bits: int) -> float:
        self.told += 1
        if self.told > 3:
            raise ValueError("how long?")
        return 1e-3


def test_an_error_in_an_event_ends_the_run_with_either_twin() -> None:
    def play() -> None:
        network = Network(nx.path_graph(3), Link(), medium=Radio(airtime=Fails()), seed=1)
        with pytest.raises(NetsimError, match=r"^a callback raised ValueError: how long\?$"):
            network.run({node: Busy(9.0, 0.1) for node in range(3)})

    play()
    in_python(play)


@compiled_only
def test_both_twins_have_the_same_success_of_oqpsk() -> None:
    """Results are equal bit for bit, far below to far above the sensitivity, for 1 bit up to the longest frame."""
    phy = Phy()
    receiver = medium.COMPILED.SinrReceiver(phy, Radio(phy=phy), 1, 2, "a")  # type: ignore[union-attr]
    for sinr in (0.0, 5e-324, 1e300):
        assert receiver.log_success(sinr) == phy.log_success(sinr)
    for sinr_db in (each / 20.0 for each in range(-600, 601)):
        fast = receiver.log_success(10.0 ** (sinr_db / 10.0))
        assert fast == phy.log_success(10.0 ** (sinr_db / 10.0))
        for bits in (1, 88, 1064):
            assert math.exp(bits * fast) == phy.success(sinr_db, bits)
    assert fast == 0.0
