"""Random networks obey the laws: a few networks in each test run, and many more in `benchmarks.soak`."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import Agent, Energy, Frame, Link, Network, Radio, latency, loss, topology
from netsim.core.records import CAUSES
from netsim.faults import ClockSkew, Crash, Fault, Jitter, Straggler
from netsim.links import Budget, Reliability
from netsim.radio import DutyCycle
from tests.command import on_the_other_core
from tests.fuzzers.laws import Played, check_books
from tests.fuzzers.messages import check_messages
from tests.fuzzers.networks import Case, check_one, hashes
from tests.parts import slow


@pytest.mark.parametrize("seed", [0, slow(2), slow(3)])
def test_laws_hold_on_random_networks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(16):
        check_one(rng)


def test_the_networks_are_hard_enough() -> None:
    """Every way in which a frame can end occurs; a law about one that never occurs would always hold."""
    met: Counter[str] = Counter()
    # Collisions occur only on a Radio, which has its own fuzz tests.
    ends = [name for name in (*CAUSES, "duplicated", "in_flight") if name != "collided"]
    for seed in range(60):
        for row in Case(seed).play().links:
            met.update({name: row[name] for name in ends})
    assert all(met[name] > 5 for name in ends), met


# --- one seed, one run ------------------------------------------------------------------------------------------------


def test_every_process_and_both_cores_run_the_same() -> None:
    """The Python core defines the compiled one: both give the same events and the same tables, to the byte."""
    code = "from tests.fuzzers.networks import hashes; print(*hashes(3, 8), sep='\\n')"
    here = hashes(3, 8)
    assert len(set(here)) == 8
    assert on_the_other_core(code).splitlines() == here


# --- the checks see what they should ----------------------------------------------------------------------------------


def forget_a_frame(played: Played) -> None:
    # Choose an agent in rounds, because such agents read every frame.
    readers = (agent for agent in played.agents.values() if agent.habits.name == "in_rounds")
    del next(agent for agent in readers if agent.notes.got).notes.got[0]


def read_too_early(played: Played) -> None:
    got = next(agent for agent in played.agents.values() if agent.notes.got).notes.got
    got[0] = replace(got[0], now=got[0].sent_at - 1)


def another_payload(played: Played) -> None:
    got = next(agent for agent in played.agents.values() if agent.notes.got).notes.got
    got[0] = replace(got[0], payload=["not what was sent"])


def a_call_too_many(played: Played) -> None:
    calls = next(agent for agent in played.agents.values() if agent.notes.calls).notes.calls
    calls.append(calls[0])


def lose_from_the_table(played: Played) -> None:
    next(row for row in played.links if row["delivered"])["delivered"] -= 1


def a_bit_too_many(played: Played) -> None:
    next(row for row in played.links if row["wire_bits"])["wire_bits"] += 1


def a_bit_less_of_a_sender(played: Played) -> None:
    next(row for row in played.senders if row["payload_bits"])["payload_bits"] -= 1


def forget_an_event(played: Played) -> None:
    played.ended.remove(next(row for row in played.ended if row["event"] == "delivered"))


def arrive_before_the_latency(played: Played) -> None:
    next(row for row in played.ended if row["event"] == "delivered")["time_s"] = -1.0


def close_late(played: Played) -> None:
    played.rounds[0]["time_s"] += 1e-9


def count_ahead(played: Played) -> None:
    played.rounds[0]["delivered"] += 1


TAMPERINGS = [
    forget_a_frame,
    read_too_early,
    another_payload,
    a_call_too_many,
    lose_from_the_table,
    a_bit_too_many,
    a_bit_less_of_a_sender,
    forget_an_event,
    arrive_before_the_latency,
    close_late,
    count_ahead,
]


@cache
def plain_seed() -> int:
    """Return a seed whose frames arrive and whose rounds close; no frame ends at the time of the first row."""
    return next(
        seed
        for seed, played in ((seed, Case(seed).play(trace=True)) for seed in range(100))
        if played.rounds and played.rounds[0]["delivered"] and not played.damages and played.network.medium == "wires"
        if all(event["time_s"] != played.rounds[0]["time_s"] for event in played.ended)
    )


def plain() -> Played:
    return Case(plain_seed()).play(trace=True)


def check(played: Played) -> None:
    check_books(played)
    check_messages(played)


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__)
def test_the_checks_notice(tamper: Callable[[Played], None]) -> None:
    played = plain()
    check(played)
    tamper(played)
    with pytest.raises(AssertionError):
        check(played)


# --- what random networks found ---------------------------------------------------------------------------------------


class Talk(Agent):
    """Broadcasts and collects in each round."""

    async def run(self) -> None:
        async for k in self.rounds(100):
            await self.broadcast("x", k)
            await self.collect()


class Asker(Agent):
    """Sends a request to at most one neighbour, and answers all requests."""

    def __init__(self, to: int | None, timeout: float | None = None) -> None:
        self.to, self.patience = to, timeout

    def answer(self, frame: Frame) -> int:
        return 1

    async def run(self) -> None:
        if self.to is not None:
            with suppress(TimeoutError):
                await self.request(self.to, "ask", 0, timeout=self.patience)
            await asyncio.sleep(1)


@pytest.mark.parametrize("agents", [{0: (1, 0.5), 1: (None,)}, {0: (1,), 1: (None,), 2: (None,), 3: (2,)}])
@pytest.mark.parametrize("time", [0.25, 0.5])
def test_looking_as_frames_arrive_changes_nothing(agents: dict[int, Any], time: float) -> None:
    def hash_of(looks: bool) -> str:
        network = Network(topology.path(len(agents)), Link(latency=0.25))
        askers = {node: Asker(*of) for node, of in agents.items()}
        if looks:
            network.at(time, lambda: [len(asker.inbox) for asker in reversed(askers.values())].clear())
        return network.run(askers).trace_hash

    assert hash_of(looks=True) == hash_of(looks=False)


def on_a_radio(radio: dict[str, Any], **link: Any) -> Network:
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {i: (3.0 * i, 4.0) for i in graph}, "pos")
    return Network(graph, Link(**{"rate": 250e3} | link), medium=Radio(**radio))


def on_wires(faults: Iterable[Fault] = (), round_period: float = 1.0, **link: Any) -> Network:
    return Network(topology.path(3), Link(**link), faults=faults, round_period=round_period)


# Parameters that accept non-integers; for each, a function that makes a network, and two whole values.
WHOLE: dict[str, tuple[Callable[[Any], Network], tuple[int, int]]] = {
    "rate": (lambda x: on_wires(rate=x), (7, 10**25)),
    "budget": (lambda x: on_wires(budget=x), (50, 10**25)),
    "budget per second": (lambda x: on_wires(budget=Budget(x, "second", "wait", burst=x)), (50, 10**25)),
    "latency": (lambda x: on_wires(latency=x), (3, 10**25)),
    "latencies": (lambda x: on_wires(latency=latency.uniform(x // 2, x)), (3, 10**25)),
    "loss": (lambda x: on_wires(loss=x), (0, 1)),
    "burst": (lambda x: on_wires(loss=loss.gilbert_elliott(0.5, x)), (3, 10**25)),
    "timeout": (lambda x: on_wires(loss=0.3, reliability=Reliability("ack", timeout=x)), (3, 10**7)),
    "round_period": (lambda x: on_wires(latency=1.5, round_period=x), (3, 10**7)),
    "radio's rate": (lambda x: on_a_radio({}, rate=x), (7777, 10**25)),
    "slot": (lambda x: on_a_radio({"access": "slotted_aloha", "slot": x}), (3, 10**7)),
    "ack_wait": (lambda x: on_a_radio({"acks": True, "ack_wait": x}, loss=0.3), (3, 10**7)),
    "unit_backoff": (lambda x: on_a_radio({"unit_backoff": x}), (1, 3)),
    "duty_cycle": (lambda x: on_a_radio({"duty_cycle": DutyCycle(period=x, awake=x - 1)}), (3, 10**7)),
    "energy": (lambda x: on_a_radio({"energy": Energy(transmit=x, listen=1, battery=7 * x)}), (1, 3)),
    "crash": (lambda x: on_wires([Crash(1, at=x, until=2 * x)]), (3, 10**7)),
    "straggler": (lambda x: on_wires([Straggler(1, x, at=x)]), (3, 10**7)),
    "skew": (lambda x: on_wires([ClockSkew(1, offset=x, drift=x)]), (1, 3)),
    "jitter": (lambda x: on_wires([Jitter(x)]), (3, 10**25)),
}


class TalkToOne(Talk):
    """Sends frames of many sizes to one neighbour at time 0, where floating-point times have the finest resolution."""

    async def run(self) -> None:
        for size in range(9):
            await self.send(self.neighbors[0], "y", bytes(size))
        await super().run()


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_number_is_the_same_in_every_form(name: str) -> None:
    make, values = WHOLE[name]
    hashes = []
    for value in values:
        forms = [value, float(value), np.float64(value), *([np.int64(value)] if value < 2**62 else [])]
        found = {make(form).run({i: TalkToOne() for i in range(3)}, until=200.0).trace_hash for form in forms}
        assert len(found) == 1, value
        hashes += found
    # The two values must have different effects, or the test would show nothing.
    assert len(set(hashes)) == len(values)


def test_a_pause_of_another_precision_leaves_the_clock_alone() -> None:
    class Asker(Agent):
        def answer(self, frame: Frame) -> int:
            return 1

        async def run(self) -> None:
            await asyncio.sleep(np.float32(0.1))
            await self.request(self.neighbors[0], "ask", 1)
            self.ended = self.now

    run = Network(topology.path(2)).run({0: Asker(), 1: Asker()})
    assert type(run.agents[0].ended) is float
