"""Sets of tasks iterate in a fixed order, so plain asyncio code is reproducible whatever the memory addresses."""

import asyncio
import sys
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from contextvars import Context
from typing import Any

import pytest

import netsim
from netsim import Agent, AgentError, BadInput, NetsimError, Network, topology
from netsim.clock.task import Task
from tests.command import python
from tests.fuzzers.workers import check_alone
from tests.parts import message_of, on_loop, slow

KEPT: list[Any] = []


def disturb(number: int) -> None:
    """Allocate memory, so that later objects get other addresses."""
    loop = asyncio.new_event_loop()
    things = [asyncio.Future(loop=loop) if i % 3 else bytearray(i % 700) for i in range(150 + 331 * number)]
    KEPT.append(things[:: number + 2])
    loop.close()


# --- agents whose sends follow the order of a set ---------------------------------------------------------------------


class Aborted(Agent):
    """Runs a task group that a timeout aborts; its child tasks send as they end."""

    async def run(self) -> None:
        try:
            async with asyncio.timeout(1.0), asyncio.TaskGroup() as group:
                for i in range(9):
                    group.create_task(self.part(i))
        except TimeoutError:
            await self.broadcast("over", -1)
        await asyncio.sleep(1.0)

    async def part(self, number: int) -> None:
        try:
            await asyncio.sleep(5.0 + number)
        finally:
            await self.broadcast("aborted", number)


class Waiting(Agent):
    """Sends in the iteration order of the sets of done and pending tasks that `asyncio.wait` returns."""

    async def run(self) -> None:
        tasks = [asyncio.create_task(asyncio.sleep(1.0 + i % 2, i)) for i in range(9)]
        done, pending = await asyncio.wait(tasks, timeout=1.5)
        for task in done:
            await self.broadcast("done", task.result())
        for task in pending:
            await self.broadcast("pending", await task)


class Futures(Agent):
    """Sends in the iteration order of sets of futures, of shields, and of task names."""

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        number = {loop.create_future(): i for i in range(9)}
        for future in set(number):
            await self.broadcast("future", number[future])
        shields = {asyncio.shield(asyncio.create_task(asyncio.sleep(0.1, i))) for i in range(5)}
        for shield in (await asyncio.wait(shields))[0]:
            await self.broadcast("shield", shield.result())
        for name in sorted(asyncio.create_task(asyncio.sleep(0)).get_name() for _ in range(12)):
            await self.broadcast("name", name)


class AtOnce(Agent):
    """Cancels a gather and, together with it, all its tasks on the loop."""

    async def run(self) -> None:
        everything = asyncio.gather(*(self.part(i) for i in range(7)))
        await asyncio.sleep(0.5)
        everything.cancel()
        with suppress(asyncio.CancelledError):
            await everything
        mine = {asyncio.create_task(self.part(i), name=f"part {i}") for i in range(7)}
        await asyncio.sleep(0.5)
        for task in asyncio.all_tasks() & mine:
            task.cancel()
        await asyncio.wait(mine)

    async def part(self, number: int) -> None:
        try:
            await asyncio.sleep(9.0)
        finally:
            await self.broadcast("cancelled", number)


class Completed(Agent):
    """Receives results by `asyncio.as_completed`, and broadcasts them in that order."""

    async def run(self) -> None:
        for next_one in asyncio.as_completed({asyncio.create_task(asyncio.sleep(i // 3, i)) for i in range(9)}):
            await self.broadcast("completed", await next_one)


class Gathered(Agent):
    """Waits for several gathers: by `asyncio.wait`, by `asyncio.as_completed`, and in a set."""

    async def run(self) -> None:
        def gathers() -> "list[asyncio.Future[list[int]]]":
            return [asyncio.gather(asyncio.sleep(1.0, i), asyncio.sleep(0.5, i)) for i in range(9)]

        for done in (await asyncio.wait(gathers()))[0]:
            await self.broadcast("waited", done.result()[0])
        for next_one in asyncio.as_completed(gathers()):
            await self.broadcast("completed", (await next_one)[0])
        for gathered in set(gathers()):
            await self.broadcast("of a set", (await gathered)[0])


class Conditions(Agent):
    """Notifies some waiters of a condition; each waits inside a shield and a timeout, and all are in one set."""

    async def run(self) -> None:
        self.condition = asyncio.Condition()
        parts = {asyncio.shield(asyncio.wait_for(self.part(i), 9.0)) for i in range(9)}
        await asyncio.sleep(1.0)
        async with self.condition:
            self.condition.notify(5)
        done, pending = await asyncio.wait(parts, timeout=1.0)
        for each in done:
            await self.broadcast("notified", each.result())
        loop = asyncio.get_running_loop()
        threads = {asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(1, i), loop)) for i in range(9)}
        for each in (await asyncio.wait(threads))[0]:
            await self.broadcast("from a thread", each.result())
        async with self.condition:
            self.condition.notify_all()
        for each in pending:
            await self.broadcast("notified late", await each)

    async def part(self, number: int) -> int:
        async with self.condition:
            await self.condition.wait()
        return number


KINDS = [Aborted, Waiting, Futures, AtOnce, Completed, Gathered, Conditions]


def hash_of(kind: type[Agent]) -> str:
    return Network(topology.ring(4)).run({i: kind() for i in range(4)}).trace_hash


@pytest.mark.parametrize("kind", KINDS)
def test_same_hash_wherever_things_lie_in_memory(kind: type[Agent]) -> None:
    hashes = set()
    for number in range(8):
        disturb(number)
        hashes.add(hash_of(kind))
    assert len(hashes) == 1


@pytest.mark.slow
def test_same_hashes_in_every_process() -> None:
    """String hashes and object addresses differ between processes; the trace hashes must not."""
    script = f"import sys; from {__name__} import *; disturb(int(sys.argv[1])); print(*map(hash_of, KINDS))"
    found = {" ".join(hash_of(kind) for kind in KINDS)}
    for number in range(3):
        found.add(python(script, str(number), PYTHONHASHSEED=str(number)).strip())
    assert len(found) == 1


# --- the end of a loop ------------------------------------------------------------------------------------------------


def test_what_is_left_over_ends_in_one_order() -> None:
    """At the end, tasks are cancelled in a fixed order, and async generators are closed in the order of their start."""

    async def main(seen: list[Any]) -> None:
        async def part(number: int) -> None:
            try:
                await asyncio.sleep(1e6)
            finally:
                seen.append(number)

        async def generate(number: int) -> AsyncIterator[int]:
            try:
                yield number
            finally:
                seen.append(f"generator {number}")

        KEPT.append([generate(i) for i in range(9)])
        for generator in KEPT[-1]:
            await anext(generator)
        KEPT.append([asyncio.create_task(part(i)) for i in range(9)])
        await asyncio.sleep(1.0)

    orders = set()
    for number in range(8):
        disturb(number)
        seen: list[Any] = []
        on_loop(lambda seen=seen: main(seen))  # type: ignore[misc]
        assert sorted(seen[:9]) == list(range(9))
        assert seen[9:] == [f"generator {i}" for i in range(9)]
        orders.add(tuple(seen))
    assert len(orders) == 1


# --- what an agent does depends on that agent alone -------------------------------------------------------------------


class Alone(Agent):
    """Waits for tasks, and sends their results and names in the order in which asyncio returns them."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def run(self) -> None:
        tasks = [asyncio.create_task(asyncio.sleep(0.1, k)) for k in range(9)]
        self.seen = sorted(task.get_name() for task in asyncio.all_tasks())
        done, _ = await asyncio.wait(tasks)
        self.seen += [task.result() for task in done]
        for task in done:
            await self.broadcast("done", task.result())


class Busy(Agent):
    """Puts many tasks and futures into sets, at the same times as `Alone` does."""

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(3):
            await asyncio.wait(
                {asyncio.create_task(asyncio.sleep(0.01)) for _ in range(5)} | {loop.create_task(noop())}
            )


async def noop() -> None:
    """Do nothing."""


def put_tasks_into_sets(agents: Any) -> float:
    """Create futures in a set, as a probe that uses asyncio might."""
    return float(bool({asyncio.get_running_loop().create_future() for _ in range(7)}))


def alone(others: int = 0, first: bool = False, **settings: Any) -> tuple[Any, Any]:
    """Run a ring of `Alone` agents beside unconnected `Busy` agents; return the trace hash and the ring's records."""
    agents: dict[Any, Agent] = {i: Alone() for i in range(6)}
    busy: dict[Any, Agent] = {f"other {i}": Busy() for i in range(others)}
    graph = topology.ring(6)
    graph.add_nodes_from(busy)
    order = [*busy, *agents] if first else [*agents, *busy]
    network = Network(graph, netsim.Link(latency=0.05), round_period=0.04, connected=False)
    run = network.run({name: (agents | busy)[name] for name in order}, **settings)
    return run.trace_hash, {name: agents[name].seen for name in range(6)}


@pytest.mark.parametrize(
    "settings",
    [{"workers": 2}, {"workers": 3}, {"trace": True}, {"sample": 0.03, "probes": [put_tasks_into_sets]}],
    ids=", ".join,
)
def test_neither_workers_nor_a_trace_nor_a_probe_change_an_agents_order(settings: dict[str, Any]) -> None:
    assert alone(**settings) == alone()


@pytest.mark.parametrize("first", [False, True])
def test_other_agents_change_no_agents_order(first: bool) -> None:
    assert alone(3, first)[1] == alone()[1]


@pytest.mark.parametrize("seed", [0, *map(slow, range(1, 6))])
def test_random_programs_depend_on_their_agent_alone(seed: int) -> None:
    check_alone(seed)


def test_an_agents_tasks_are_named_from_1_and_are_all_that_it_sees() -> None:
    _, seen = alone(2)
    assert all(each[:10] == sorted(f"Task-{i}" for i in range(1, 11)) for each in seen.values())


def test_a_task_in_an_empty_context_is_its_makers() -> None:
    class Emptied(Alone):
        async def run(self) -> None:
            await asyncio.create_task(super().run(), context=Context())

    agents = {i: Emptied() for i in range(3)}
    Network(topology.ring(3)).run(agents)
    assert all(agent.seen[:11] == sorted(f"Task-{i}" for i in range(1, 12)) for agent in agents.values())


def test_a_task_factory_is_its_agents() -> None:
    class Factory(Agent):
        def __init__(self, own: bool) -> None:
            self.own = own

        async def run(self) -> None:
            if self.own:
                asyncio.get_running_loop().set_task_factory(lambda loop, coro, **more: OwnTask(coro, loop=loop, **more))
            await asyncio.sleep(1)
            task = asyncio.create_task(asyncio.sleep(0))
            await task
            self.kind = type(task).__name__

    agents = {i: Factory(own=i == 1) for i in range(3)}
    Network(topology.ring(3)).run(agents)
    assert [agent.kind for agent in agents.values()] == ["Task", "OwnTask", "Task"]


# --- what a task is ---------------------------------------------------------------------------------------------------


def test_tasks_are_named_from_1_on_each_loop() -> None:
    async def main() -> list[str]:
        tasks = [asyncio.create_task(asyncio.sleep(0), name=name) for name in (None, "mine", None)]
        await asyncio.gather(*tasks)
        return [asyncio.current_task().get_name(), *(task.get_name() for task in tasks)]  # type: ignore[union-attr]

    assert on_loop(main) == on_loop(main) == ["Task-1", "Task-2", "mine", "Task-4"]


def test_tasks_and_futures_are_keys_like_any_others() -> None:
    async def main() -> None:
        tasks = [asyncio.create_task(asyncio.sleep(0, i)) for i in range(50)]
        futures = [asyncio.get_running_loop().create_future() for _ in range(50)]
        table: dict[Any, int] = {key: i for i, key in enumerate([*tasks, *futures])}
        seen = weakref.WeakSet(tasks)
        await asyncio.gather(*tasks)
        assert [table[key] for key in (*tasks, *futures)] == list(range(100))
        assert all(hash(key) == hash(key) for key in table)
        assert len({hash(key) for key in table}) == 100
        assert tasks[0] == tasks[0] != tasks[1]
        assert set(seen) == set(tasks)

    on_loop(main)


class OwnTask(Task[Any]):
    """A task class with an additional attribute."""


def test_a_task_factory_makes_numbered_tasks_or_is_refused() -> None:
    async def main(kind: type[Any]) -> type:
        asyncio.get_running_loop().set_task_factory(lambda loop, coro, **settings: kind(coro, loop=loop, **settings))
        task = asyncio.create_task(asyncio.sleep(0))
        await task
        return type(task)

    assert on_loop(lambda: main(OwnTask)) is OwnTask
    with pytest.raises(
        NetsimError, match=r"^task factory: must return a " r"netsim.clock.task.Task, .*; got _asyncio.Task"
    ):
        on_loop(lambda: main(asyncio.Task))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_eager_tasks_are_numbered_too() -> None:
    class Eager(Aborted):
        async def run(self) -> None:
            asyncio.get_running_loop().set_task_factory(vars(asyncio)["eager_task_factory"])
            task = asyncio.create_task(asyncio.sleep(0))
            assert isinstance(task, Task)
            await super().run()

    hashes = set()
    for number in range(8):
        disturb(number)
        hashes.add(hash_of(Eager))
    assert len(hashes) == 1


# --- what cannot be numbered ------------------------------------------------------------------------------------------


class Direct(Agent):
    """Creates futures and tasks with the constructors of asyncio's own types."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make

    async def run(self) -> None:
        part = asyncio.sleep(1.0)
        try:
            await asyncio.wait([self.make(part)])
        finally:
            part.close()


class OwnFuture(asyncio.Future[Any]):
    """A future class with its own constructor."""

    def __init__(self) -> None:
        super().__init__()


@pytest.mark.parametrize(
    "make", [lambda part: asyncio.Future(), lambda part: asyncio.Task(part), lambda part: OwnFuture()]
)
def test_futures_and_tasks_made_directly_are_refused_at_once(make: Callable[[Any], Any]) -> None:
    with pytest.raises(AgentError) as caught:
        Network(topology.path(1)).run({0: Direct(make)})
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("agent 0 raised BadInput at 0 s (test_task_order.py, line ")
    assert message.endswith(
        "asyncio.Future(…), asyncio.Task(…): must be created by get_running_loop().create_future() and "
        "asyncio.create_task(…), or sets of them have another order in each run"
    )


def test_asyncio_on_other_loops_makes_what_it_likes() -> None:
    async def main() -> int:
        asyncio.get_running_loop().set_debug(asyncio.get_running_loop().get_debug())
        future: asyncio.Future[int] = asyncio.Future()
        both = asyncio.gather(future, asyncio.Task(asyncio.sleep(0, 2)))
        future.set_result(1)
        assert {both: 3}[both] == 3
        return sum(await both)

    assert asyncio.run(main()) == 3
    # The constructors must also work on a real-time loop, which libraries for devices and sockets need.
    with asyncio.Runner(loop_factory=lambda: netsim.clock.new_loop("wall", pace=1000.0)) as runner:
        assert runner.run(main()) == 3


def test_a_loop_says_whether_it_is_in_debug_mode() -> None:
    async def main() -> list[bool]:
        loop = asyncio.get_running_loop()
        before = loop.get_debug()
        loop.set_debug(True)
        await asyncio.gather(asyncio.sleep(0.1), asyncio.create_task(asyncio.sleep(0.1)))
        return [before, loop.get_debug()]

    assert on_loop(main) == [False, True]


# --- as_completed over bare coroutines --------------------------------------------------------------------------------


def test_as_completed_refuses_bare_coroutines() -> None:
    """It would make tasks from a set of coroutines, whose order depends on their memory addresses."""

    async def main() -> None:
        coroutines = [asyncio.sleep(1.0, i) for i in range(3)]
        try:
            for next_one in asyncio.as_completed(coroutines):
                await next_one
        finally:
            for coroutine in coroutines:
                coroutine.close()

    assert message_of(lambda: on_loop(main), BadInput) == (
        "asyncio.as_completed: must be given tasks, as of asyncio.create_task; got coroutine 'sleep'"
    )


def test_everything_else_makes_tasks_of_coroutines() -> None:
    async def main() -> tuple[int, ...]:
        async def as_completed() -> int:
            return await asyncio.ensure_future(asyncio.sleep(0.5, 1))

        return await asyncio.gather(
            as_completed(),
            asyncio.wait_for(asyncio.sleep(0.5, 2), 9.0),
            asyncio.shield(asyncio.sleep(0.5, 3)),
            asyncio.ensure_future(asyncio.sleep(0.5, 4)),
        )

    assert list(on_loop(main)) == [1, 2, 3, 4]


def test_an_agent_that_takes_coroutines_as_completed_is_named() -> None:
    class Hasty(Agent):
        async def run(self) -> None:
            coroutine = asyncio.sleep(1.0)
            for next_one in asyncio.as_completed([coroutine]):
                await next_one

    with pytest.raises(
        AgentError, match=r"^agent 0 raised BadInput at 0 s \(test_task_order.py, line \d+\): asyncio.as_comp"
    ):
        Network(topology.path(1)).run({0: Hasty()})


def test_a_closed_loop_makes_no_tasks() -> None:
    loop = netsim.clock.new_loop()
    loop.close()
    coroutine = asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="closed"):
        loop.create_task(coroutine)
    coroutine.close()
