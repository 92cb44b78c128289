"""The order of agents' steps at one instant, as set by `Network.run(order=…)`."""

import asyncio
from typing import Any

import numpy as np
import pytest

import netsim
from netsim import BadInput, Link, Network, topology
from netsim.clock.order import Choice, Deferral, Order, ordering, read
from netsim.testing import Listener, Talker, play
from netsim.util.draws import plain_name
from tests.fuzzers.orders import check_laws, of_network, of_programs, of_radio
from tests.fuzzers.programs import Slow
from tests.fuzzers.workers import of_events, of_rounds


def slow(order: int | Order | None = None, workers: int = 1, steps: int = 3) -> list[bool]:
    agents = {i: Slow(steps) for i in range(4)}
    Network(topology.ring(4), Link(latency=0.25), seed=1).run(agents, order=order, workers=workers)
    return [agent.ok for agent in agents.values()]


def test_laws_of_orders_on_random_networks_and_programs() -> None:
    assert check_laws(of_network, 4)
    assert check_laws(of_network, 16)
    check_laws(of_radio, 5)
    assert check_laws(of_programs, 0)


@pytest.mark.slow
@pytest.mark.parametrize("run", [of_network, of_radio, of_programs])
def test_laws_of_orders_on_many_random_networks_and_programs(run: Any) -> None:
    for seed in range(100, 235):
        assert run(seed, Order()) == run(seed, None), f"seed {seed}: Order() is another order than asyncio's"
    assert sum(check_laws(run, seed) for seed in range(370, 385)) > 0


@pytest.mark.parametrize(("make", "seed"), [(of_events, 2), (of_rounds, 29)])
def test_an_order_is_the_same_with_any_number_of_workers(make: Any, seed: int) -> None:
    one = of_network(seed, Order(seed), make)
    assert one == of_network(seed, Order(seed), make, workers=2) == of_network(seed, Order(seed), make, workers=3)
    assert one != of_network(seed, None, make)


def test_a_seed_takes_other_orders_which_repeat() -> None:
    assert slow() == slow(Order()) == [True] * 4
    some = [slow(seed) for seed in range(12)]
    assert some == [slow(seed) for seed in range(12)]
    assert not all(map(all, some))


def test_what_is_held_waits_until_nothing_else_of_its_agent_is_ready() -> None:
    order = Order(schedule=[Deferral(2, 0.0, "Task-2")])
    assert slow(order, steps=30) == [True, True, False, True]
    [hold] = order.deferrals
    assert (
        str(hold)
        == f"at 0 s agent 2: Slow.short (line {line_of(Slow.short)}, Task-2) waits until nothing else is ready"
    )
    assert slow(Order.parse(str(hold)), steps=30) == [True, True, False, True]


def line_of(function: Any) -> int:
    return int(function.__code__.co_firstlineno)


def test_a_choice_in_words_is_the_same_choice() -> None:
    order = Order(1, records=True)
    drawn = slow(order)
    told = str(order.again())
    assert told.splitlines()[0].startswith("# netsim ")
    assert f": Slow.long (line {line_of(Slow.long)}) comes before Slow.short (line {line_of(Slow.short)})" in told
    again = Order.parse(told)
    assert [each[:4] for each in again.schedule] == [each[:4] for each in order.choices if each.taken]
    assert slow(again) == drawn


@pytest.mark.parametrize("name", ["a: b", "it's, choice 2: x", (1, "a"), 2.5, np.int64(3), b"raw: '", None])
def test_words_have_any_name(name: Any) -> None:
    turn = f"agent {plain_name(name)!r}"
    for change, said in (
        (Choice(name, 0.1 + 0.2, 4, 2, 5), "Slow.long comes before Slow.short and 1 more"),
        (Choice(name, 0.5, 0, 1, 2, "agent"), f"{turn} comes before {turn}"),
        (Deferral(name, 1e-20, "Task-7"), "Slow.long (Task-7) waits"),
        (Deferral(name, 2.5, turn), f"{turn} waits"),
    ):
        where = str(Choice(name, change.time, getattr(change, "number", 0), 1)).rpartition(": ")[0]
        line = f"{where}: {said}" + ("" if isinstance(change, Choice) else " until nothing else is ready")
        [found] = Order.parse(line).schedule
        assert found[:3] == change[:3]
        for field in ("taken", "kind"):
            assert getattr(found, field, None) == getattr(change, field, None)


class Calls(netsim.Agent):
    async def run(self) -> None:
        self.log: list[Any] = []
        loop = asyncio.get_running_loop()
        for k in range(5):
            loop.call_soon(self.log.append, k)
        for name in "ab":
            loop.call_later(0.0, self.log.append, name)
        await asyncio.sleep(1)


def test_call_soon_keeps_its_order_and_timers_do_not() -> None:
    logs = []
    for seed in range(10):
        agents = {0: Calls(), 1: Calls()}
        Network(topology.path(2)).run(agents, order=seed)
        logs.append(agents[0].log)
    assert {tuple(each for each in log if each in range(5)) for log in logs} == {(0, 1, 2, 3, 4)}
    assert {tuple(each for each in log if each in ("a", "b")) for log in logs} == {("a", "b"), ("b", "a")}


def test_frames_of_one_time_come_in_any_order_but_those_of_a_link_in_theirs() -> None:
    heard = set()
    for seed in range(12):
        run = play(
            *[Listener(), *(Talker([(0, (i, k)) for k in range(2)], to=0) for i in (1, 2))],
            shape=topology.star,
            link=Link(latency=0.25),
            order=seed,
        )
        heard.add(tuple(map(tuple, run.agents[0].payloads)))
    assert len(heard) > 2
    for payloads in heard:
        assert [k for i, k in payloads if i == 1] == [k for i, k in payloads if i == 2] == [0, 1]


class Rounds(netsim.Agent):
    """Takes part in rounds, while a second task sleeps until the end of the first round."""

    async def run(self) -> None:
        self.log: list[str] = []
        asyncio.create_task(self.sleep())  # noqa: RUF006
        async for number in self.rounds(2):
            await self.broadcast("x", number)
            await self.collect()
            self.log.append(f"round {number}")

    async def sleep(self) -> None:
        await asyncio.sleep(1.0)
        self.log.append("awake")


def test_a_round_closes_in_its_place() -> None:
    """A round's end and timers due at the same time are handled in any order, but before the next round."""
    logs = set()
    for seed in range(10):
        agents = {0: Rounds(), 1: Rounds()}
        run = Network(topology.path(2), Link(latency=0.25)).run(agents, order=seed)
        assert run.rounds["time_s"].tolist() == [1.0, 2.0]
        logs |= {tuple(agent.log) for agent in agents.values()}
    assert logs == {("awake", "round 1", "round 2"), ("round 1", "awake", "round 2")}


def test_what_is_no_order_is_refused_in_one_line() -> None:
    def run(**settings: Any) -> None:
        Network(topology.path(2)).run({0: Slow(), 1: Slow()}, **settings)

    with pytest.raises(BadInput, match="order = True: must be a whole number >= 0"):
        run(order=True)
    with pytest.raises(BadInput, match="order = -1: must be a whole number >= 0"):
        run(order=-1)
    with pytest.raises(BadInput, match="order: must be left out with clock"):
        run(order=1, clock="wall")
    with pytest.raises(BadInput, match=r"order = 'netsim 0.0.1, .* must be a schedule of netsim"):
        run(order=Order(schedule=[Deferral(0, 0.0, "Task-2")], version="netsim 0.0.1, Python 3.11"))
    with pytest.raises(BadInput, match="method = 'fair': must be"):
        Order(1, method="fair")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="schedule: must be left out with a seed"):
        Order(1, schedule=[Choice(0, 0.0, 0, 1)])
    with pytest.raises(BadInput, match="order = 'tomorrow': must be a seed, a file, or words of a schedule"):
        Order.parse("tomorrow")


def test_runs_inside_a_context_take_its_order(tmp_path: Any) -> None:
    words = "at 0 s agent 2: Slow.short (Task-2) waits until nothing else is ready"
    (tmp_path / "order.txt").write_text(f"{Order.parse(words)}\n")
    for text in (words, str(tmp_path / "order.txt")):
        with ordering(read(text)):
            assert slow() == [True, True, False, True]
    with ordering("3"):
        assert slow() == slow(3)
        assert slow(Order()) == [True] * 4
    assert slow() == [True] * 4
