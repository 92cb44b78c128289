"""Searches with random orders: they find races within an instant, which no seed shows in asyncio's order."""

import asyncio
import re
import runpy
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from netsim import Agent, BadInput, Link, Network, Radio, topology
from netsim.studies import catalogue
from netsim.testing import Deferral, Explored, Finding, Order, explore, search
from tests.fuzzers.programs import Slow


class Ready(Agent):
    """Task b is right only because task a was created first, and so runs first."""

    async def run(self) -> None:
        self.ready, self.ok = False, True
        async with asyncio.TaskGroup() as group:
            group.create_task(self.a())
            group.create_task(self.b())

    async def a(self) -> None:
        await asyncio.sleep(1)
        self.ready = True

    async def b(self) -> None:
        await asyncio.sleep(1)
        self.ok = self.ready


class Store(Agent):
    """Lost update: an update takes 1 ms and frames are 1 ms apart, so in asyncio's order each is just in time."""

    def __init__(self) -> None:
        self.count = self.acked = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            async for _ in self.inbox:
                group.create_task(self.add())

    async def add(self) -> None:
        count = self.count
        await asyncio.sleep(0.001)
        self.count = count + 1
        self.acked += 1


class Client(Agent):
    def __init__(self, at: float) -> None:
        self.at = at

    async def run(self) -> None:
        await asyncio.sleep(self.at)
        await self.send(0, "add")


class Pool(Agent):
    """Check-then-act: the last ticket is sold twice if a buyer checks at the instant at which the other's sale ends."""

    def __init__(self) -> None:
        self.tickets = 1

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.buy(0.25))
            group.create_task(self.buy(0.375, 0.125))

    async def buy(self, *times: float) -> None:
        for seconds in times:
            await asyncio.sleep(seconds)
        if self.tickets:
            await asyncio.sleep(0.25)
            self.tickets -= 1


class Register(Agent):
    """The last writer wins, so replicas may differ only if the frames of two writers arrive at the same instant."""

    def __init__(self, writes: str | None = None) -> None:
        self.writes, self.value = writes, ""

    async def run(self) -> None:
        if self.writes is not None:
            await self.broadcast("set", self.writes)
        async for frame in self.inbox:
            self.value = frame.payload


def network(agents: Callable[[], Sequence[Agent]], shape: Callable[[int], Any] = topology.complete) -> Any:
    def make(*, seed: int = 1) -> Any:
        made = agents()
        return Network(shape(len(made)), Link(latency=0.25), seed=seed), dict(enumerate(made)), {"until": 3.0}

    return make


def all_ok(agents: Mapping[Any, Any]) -> bool:
    return all(getattr(agent, "ok", True) for agent in agents.values())


def no_ticket_twice(agents: Mapping[Any, Any]) -> bool:
    return all(agent.tickets >= 0 for agent in agents.values())


class NoLostUpdate:
    def __call__(self, agents: Mapping[Any, Any]) -> None:
        pass

    def at_end(self, agents: Mapping[Any, Any]) -> None:
        store = agents[0]
        assert store.count == store.acked, f"{store.acked} acknowledged, {store.count} counted"


class Agree:
    def __call__(self, agents: Mapping[Any, Any]) -> None:
        pass

    def at_end(self, agents: Mapping[Any, Any]) -> None:
        values = [agent.value for agent in agents.values() if agent.writes is None]
        assert len(set(values)) == 1, f"replicas end with {values}"


STORE = network(lambda: [Store(), Client(0.001), Client(0.002)], topology.star)
CASES: dict[str, tuple[Any, Any, dict[str, float]]] = {
    "ready": (network(lambda: [Ready(), Ready()]), all_ok, {"random": 3, "priorities": 3}),
    "lost update": (STORE, NoLostUpdate, {"random": 4.5, "priorities": 5}),
    "check, then act": (network(lambda: [Pool(), Pool()]), no_ticket_twice, {"random": 3, "priorities": 3}),
    "replicas": (
        network(lambda: [Register("a"), Register("b"), Register(), Register()]),
        Agree,
        {"random": 4, "priorities": 4},
    ),
    "overtaken by 6 steps": (network(lambda: [Slow(6), Slow(6)]), all_ok, {"priorities": 3}),
    "overtaken by 12 steps": (network(lambda: [Slow(12), Slow(12)]), all_ok, {"priorities": 3}),
}
"""For each program: how to make it, its invariant, and the largest allowed median of seeds that a search needs."""


def holds(invariant: Any, agents: Mapping[Any, Any]) -> bool:
    try:
        return bool(invariant(agents)) if invariant in (all_ok, no_ticket_twice) else invariant().at_end(agents) is None
    except AssertionError:
        return False


def found_in(case: str, order: Any, first: int = 0) -> Finding:
    make, invariant, _ = CASES[case]
    found = search(make, invariant, seeds=range(first, first + 100), order=order)
    assert found is not None
    return found


@pytest.mark.parametrize("case", CASES)
def test_no_seed_shows_a_race_and_a_drawn_order_does(case: str) -> None:
    make, invariant, _ = CASES[case]
    assert search(make, invariant, seeds=range(10)) is None
    found = found_in(case, "priorities")
    # Shrinking leaves only the change of order that causes the violation.
    assert len(found.order) == 1
    net, agents, settings = make(seed=found.seed)
    assert holds(invariant, net.run(agents, **settings).agents)
    net, agents, settings = make(seed=found.seed)
    again = net.run(agents, **settings, order=Order.parse(str(found.schedule)))
    assert not holds(invariant, again.agents)
    net, agents, settings = make(seed=found.seed)
    assert net.run(agents, **settings, order=found.schedule).trace_hash == again.trace_hash


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_few_seeds_show_a_race(case: str) -> None:
    for method, most in CASES[case][2].items():
        assert median(found_in(case, method, 100 * k).tried for k in range(20)) <= most


def test_the_order_is_told_in_words() -> None:
    found = found_in("check, then act", True)
    line, last = (Pool.buy.__code__.co_firstlineno + k for k in (2, 4))
    assert str(found).splitlines()[1:] == [
        "seed 0, at 0.75 s (1 seed tried; 1 of 4 changes of order needed; 4 runs to shrink)",
        f"  at 0.5 s agent 0, choice 3: Pool.buy (line {line}) comes before Pool.buy (line {last})",
        f'again: make(seed=0) --order "{found.order[0]}"',
    ]


def test_the_run_that_is_found_has_a_note_of_the_change() -> None:
    for case in ("check, then act", "replicas", "overtaken by 12 steps"):
        found = found_in(case, "priorities")
        [change] = found.order
        [note] = found.run.notes.to_dict("records")
        assert f"at {note['time_s']:g} s agent {note['agent']}" == re.split(", |: ", str(change))[0]
        assert str(change).endswith(f": {note['note']}")


def test_what_is_overtaken_by_many_steps_is_one_hold() -> None:
    [hold] = found_in("overtaken by 12 steps", "priorities").order
    assert isinstance(hold, Deferral)
    assert "Slow.short" in str(hold)
    assert found_in("overtaken by 12 steps", "priorities").drawn_order > 12


def test_faults_and_order_are_shrunk_apart() -> None:
    """Shrinking removes all faults if only the order matters, and all changes of order if only faults matter."""

    class Fragile(Agent):
        async def run(self) -> None:
            self.log: list[str] = []
            async with asyncio.TaskGroup() as group:
                for name in "ab":
                    group.create_task(self.say(name))
            await asyncio.sleep(9)

        async def say(self, name: str) -> None:
            await asyncio.sleep(1)
            self.log.append(name)

    make = network(lambda: [Fragile(), Fragile()])

    def in_order(agents: Mapping[Any, Any]) -> bool:
        return all(agent.log != ["b", "a"] for agent in agents.values())

    crashes = {"until": 2.5, "crashes": 2, "mean_duration": 0.1}
    found = search(make, in_order, faults=crashes, order="random")
    assert found is not None
    assert (len(found.faults), len(found.order)) == (0, 1)

    class NoRestart:
        def __call__(self, agents: Mapping[Any, Any]) -> bool:
            return all(agent.now < 1.0 or agent.log for agent in agents.values())

    found = search(make, NoRestart, faults={"until": 2.5, "crashes": 2}, seeds=range(50), order="random")
    assert found is not None
    assert len(found.faults) == 1
    assert not found.order
    assert found.schedule.schedule == ()


def test_a_right_program_stands_all_drawn_orders() -> None:
    class Locked(Store):
        async def run(self) -> None:
            self.lock = asyncio.Lock()
            await super().run()

        async def add(self) -> None:
            async with self.lock:
                await super().add()

    make = network(lambda: [Locked(), Client(0.001), Client(0.002)], topology.star)
    assert search(make, NoLostUpdate, seeds=range(30), order=True) is None


class Right(Agent):
    """Three tasks add to a list under a lock, so any order is right."""

    def __init__(self) -> None:
        self.log: list[int] = []

    async def run(self) -> None:
        self.lock = asyncio.Lock()
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(self.add(number))

    async def add(self, number: int) -> None:
        async with self.lock:
            count = len(self.log)
            await asyncio.sleep(0.5)
            assert len(self.log) == count
            self.log.append(number)


def test_all_orders_of_a_right_program() -> None:
    """Each of the two agents can run its three tasks in six orders."""
    seen = set()

    class Seen:
        def __call__(self, agents: Mapping[Any, Any]) -> None:
            pass

        def at_end(self, agents: Mapping[Any, Any]) -> None:
            seen.add(tuple(tuple(agent.log) for agent in agents.values()))

    make = network(lambda: [Right(), Right()])
    done = explore(make, Seen)
    assert str(done) == "holds in all orders: 42 runs"
    assert len(seen) == 36
    seen.clear()
    assert str(explore(make, Seen, deviations=1)) == "holds in all orders with up to 1 change: 13 runs"
    # With one change, an agent's three tasks have the order 102, 201, 021 or, if one task is held back, 120.
    assert len(seen) == 9
    assert str(explore(make, Seen, limit=20)) == "holds in the orders that were tried: 20 runs"
    assert str(explore(make, Seen, deviations=0)) == "holds in all orders with up to 0 changes: 1 run"


@pytest.mark.parametrize("case", CASES)
def test_a_race_is_found_by_holding_each_thing_alone(case: str) -> None:
    make, invariant, _ = CASES[case]
    found = explore(make, invariant)
    assert isinstance(found, Finding)
    assert [type(each) for each in found.order] == [Deferral]
    assert found.runs == 2


def test_exploring_goes_by_the_number_of_changes() -> None:
    """The order c, b, a needs two changes."""

    class Three(Agent):
        async def run(self) -> None:
            self.log = ""
            async with asyncio.TaskGroup() as group:
                for name in "abc":
                    group.create_task(self.say(name))

        async def say(self, name: str) -> None:
            self.log += name

    make = network(lambda: [Three(), Three()])

    def forward(agents: Mapping[Any, Any]) -> bool:
        return agents[1].log != "cba"

    assert isinstance(explore(make, forward, deviations=1), Explored)
    found = explore(make, forward, deviations=2)
    assert isinstance(found, Finding)
    assert [each.agent for each in found.order] == [1, 1]
    with pytest.raises(BadInput, match="deviations = -1: must be a whole number >= 0"):
        explore(make, forward, deviations=-1)


class Handover(Agent):
    """At 1 s, agents 0 and 2 send a frame without latency, and agents 1 and 3 check whether it has arrived."""

    ok = True

    async def run(self) -> None:
        await asyncio.sleep(1)
        if self.name % 2 == 0:
            await self.send(self.name + 1, "key")
        else:
            self.ok = len(self.inbox) > 0


def handing(link: Link, medium: Any = "wires") -> Callable[..., Any]:
    def make(*, seed: int = 1) -> Any:
        graph = topology.path(4)
        return Network(graph, link, seed=seed, medium=medium), {i: Handover() for i in graph}, {"until": 3.0}

    return make


@pytest.mark.parametrize("method", ["random", "priorities"])
def test_over_links_without_latency_agents_come_in_any_order(method: Any) -> None:
    make = handing(Link())
    assert search(make, all_ok, seeds=range(10)) is None
    found = search(make, all_ok, order=method)
    assert found is not None
    [change] = found.order
    first = next(name for name, agent in found.run.agents.items() if not agent.ok)
    # The order of two agents at 1 s may also be changed at 0 s, where they set their timers.
    assert change.time in (0.0, 1.0)
    assert str(change) == f"at {change.time:g} s agent {first - 1}: agent {first} comes before agent {first - 1}"
    [note] = found.run.notes.to_dict("records")
    assert (note["agent"], note["note"]) == (first - 1, f"agent {first} comes before agent {first - 1}")
    net, agents, settings = make(seed=found.seed)
    again = net.run(agents, **settings, order=Order.parse(str(found.schedule)))
    assert again.trace_hash == found.run.trace_hash
    assert not all_ok(again.agents)


def test_an_agent_waits_for_all_others() -> None:
    found = explore(handing(Link()), all_ok)
    assert isinstance(found, Finding)
    assert str(found.order[0]) == "at 0 s agent 0: agent 0 waits until nothing else is ready"
    assert Order.parse(str(found.order[0])).schedule[0][:3] == Deferral(0, 0.0, "agent 0")[:3]


def test_agents_that_cannot_meet_within_an_instant_have_no_choices() -> None:
    def kinds(link: Link, medium: Any = "wires") -> set[str]:
        network, agents, settings = handing(link, medium)()
        network.run(agents, **settings, order=(order := Order(1, records=True)))
        return {each.kind for each in order.choices}

    assert kinds(Link(latency=0.25)) == set()
    assert kinds(Link()) == {"agent"}
    assert kinds(Link(latency=0.25, rate=1e6), Radio()) == {"agent"}


def test_an_unknown_way_to_draw_is_refused() -> None:
    with pytest.raises(BadInput, match="order = 'fair': must be one of True, False, random, priorities"):
        search(STORE, NoLostUpdate, order="fair")  # type: ignore[arg-type]


SHOP = """
import asyncio
import netsim
from netsim import Link, Network, topology

class Pool(netsim.Agent):
    def __init__(self):
        self.tickets = 1

    async def run(self):
        async with asyncio.TaskGroup() as group:
            for times in [(0.25,), (0.375, 0.125)]:
                group.create_task(self.buy(*times))

    async def buy(self, *times):
        for seconds in times:
            await asyncio.sleep(seconds)
        if self.tickets:
            await asyncio.sleep(0.25)
            self.tickets -= 1
            await self.broadcast("sold", self.tickets)

def make(*, seed: int = 1):
    return Network(topology.path(2), Link(latency=0.1), seed=seed), {0: Pool(), 1: Pool()}, {"until": 3.0}
"""


def test_a_study_runs_in_the_order_of_its_flag(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(SHOP)
    make = runpy.run_path(str(file))["make"]
    found = search(make, no_ticket_twice, order=True)
    assert found is not None
    command = str(found).splitlines()[-1].removeprefix("again: ")
    [name, path, *flags] = shlex.split(command)[1:]
    assert (name, path) == ("run", str(file))
    _, seed, flag, words = flags
    assert (flag, words) == ("--order", str(found.order[0]))
    (tmp_path / "order.txt").write_text(f"{found.schedule}\n")
    usual = catalogue.find_study(path).execute(seed=int(seed))
    for order in (words, str(tmp_path / "order.txt")):
        study = catalogue.find_study(path).execute(seed=int(seed), order=order)
        assert study.settings["order"] == words
        [run] = study.runs.values()
        assert [agent.tickets for agent in run.agents.values()].count(-1) == 1
        assert study.trace_hash != usual.trace_hash
    with pytest.raises(BadInput, match="order = 'twice': must be a seed, a file, or words"):
        catalogue.find_study(path).execute(order="twice")
