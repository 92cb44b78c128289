"""Agents' background tasks: their errors are reported, running tasks are kept alive, and each task has an agent."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from netsim import Agent, AgentError, Frame, Link, NetsimError, Network, topology
from netsim.testing import Rounder
from tests.netsim.engine.test_failures import beside, line_of
from tests.parts import message_of, on_loop


def failure_of(agent: Agent, **settings: Any) -> str:
    return message_of(lambda: Network(topology.path(3)).run(beside(agent), **settings))


# --- agents that end cancelled ----------------------------------------------------------------------------------------


class CancelsAPart(Agent):
    async def run(self) -> None:
        part = asyncio.create_task(asyncio.sleep(9.0))
        await asyncio.sleep(1.5)
        part.cancel()
        await part


class CancelsItself(Agent):
    async def run(self) -> None:
        await asyncio.sleep(1.5)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1.0)


@pytest.mark.parametrize(("kind", "line"), [(CancelsAPart, "await part"), (CancelsItself, "asyncio.sleep(1.0)")])
def test_an_agent_that_ends_cancelled_is_not_finished(kind: Any, line: str) -> None:
    assert failure_of(kind()).startswith(
        f"agent 1 was cancelled at 1.5 s (test_background.py, line {line_of(kind.run, line)}) though the run goes on"
    )


def test_one_that_another_agent_cancels_is_named() -> None:
    class Victim(Agent):
        async def run(self) -> None:
            self.task = asyncio.current_task()
            await asyncio.sleep(9.0)

    class Culprit(Agent):
        def __init__(self, victim: Victim) -> None:
            self.victim = victim

        async def run(self) -> None:
            await asyncio.sleep(1.5)
            assert self.victim.task is not None
            self.victim.task.cancel()

    victim = Victim()
    message = message_of(lambda: Network(topology.path(2)).run({0: victim, 1: Culprit(victim)}))
    assert message.startswith("agent 0 was cancelled at 1.5 s (test_background.py, line ")


def test_cancelling_what_one_started_is_fine() -> None:
    class Cancels(Agent):
        async def run(self) -> None:
            part = asyncio.create_task(asyncio.sleep(9.0))
            await asyncio.sleep(1.5)
            part.cancel()
            with suppress(asyncio.CancelledError):
                await part
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await asyncio.sleep(9.0)

    assert Network(topology.path(1)).run({0: Cancels()}).ended_at == 2.5


# --- errors while cleaning up -----------------------------------------------------------------------------------------


class Breaks(Agent):
    """Raises an error while it cleans up, after a delay."""

    def __init__(self, error: BaseException, after: float = 0.0) -> None:
        self.error = error
        self.after = after

    async def run(self) -> None:
        try:
            await asyncio.sleep(100.0)
        finally:
            await asyncio.sleep(self.after)
            raise self.error


def test_an_error_while_cleaning_up_is_one() -> None:
    line = line_of(Breaks.run, "raise self.error")
    expected = f"agent 1 raised ValueError at 2 s (test_background.py, line {line}): in cleanup"
    assert failure_of(Breaks(ValueError("in cleanup")), until=2.0) == expected


def test_of_many_errors_while_cleaning_up_the_first_is_told() -> None:
    agents = {
        0: Breaks(ValueError("later"), 3.0),
        1: Breaks(ValueError("first"), 1.0),
        2: Breaks(ValueError("last"), 9),
    }
    message = message_of(lambda: Network(topology.path(3)).run(agents, until=2.0))
    assert message.startswith("agent 1 raised ValueError at 3 s")
    assert message.endswith(": first")


# --- background tasks that raise --------------------------------------------------------------------------------------


async def part(after: float = 1.5) -> None:
    await asyncio.sleep(after)
    raise ValueError("forgotten")


PART = f"(test_background.py, line {line_of(part, 'raise ValueError')})"


class Forgets(Agent):
    """Starts a failing task, and keeps no reference to it."""

    async def run(self) -> None:
        asyncio.create_task(part())  # noqa: RUF006  that is what this is about
        await asyncio.sleep(1.6)
        raise AssertionError("the run should have ended")


class Keeps(Agent):
    """Keeps a reference to its failing task, and never reads its result."""

    async def run(self) -> None:
        self.task = asyncio.create_task(part())
        await asyncio.sleep(5.0)


class KeepsInACycle(Agent):
    """References its failing task only from a reference cycle."""

    async def run(self) -> None:
        self.spawn()
        await asyncio.sleep(2.0)
        gc.collect()
        await asyncio.sleep(1.0)

    def spawn(self) -> None:
        cycle: list[Any] = [asyncio.create_task(part())]
        cycle.append(cycle)


class WaitsForItInVain(Agent):
    """Waits for something that its failed task should have provided: the report must name the error, not the wait."""

    async def run(self) -> None:
        self.task = asyncio.create_task(part())
        await asyncio.Event().wait()


class Leaves(Agent):
    """Ends before its task raises."""

    async def run(self) -> None:
        self.task = asyncio.create_task(part())


@pytest.mark.parametrize("kind", [Forgets, Keeps, KeepsInACycle, WaitsForItInVain, Leaves])
def test_a_background_task_that_raises_ends_the_run(kind: Any) -> None:
    expected = f"agent 1 raised ValueError in a task that is never awaited at 1.5 s {PART}: forgotten"
    assert failure_of(kind()).replace("in round 2", "at 1.5 s") == expected


def test_at_the_end_of_the_time_too() -> None:
    assert failure_of(Keeps(), until=2.0).endswith(": forgotten")


def test_one_that_raises_while_it_cleans_up() -> None:
    class Messy(Agent):
        async def run(self) -> None:
            self.task = asyncio.create_task(self.part())
            await asyncio.sleep(1.0)

        async def part(self) -> None:
            try:
                await asyncio.sleep(100.0)
            finally:
                raise ValueError("in cleanup")

    assert failure_of(Messy(), until=2.0).endswith(": in cleanup")


class Asks(Agent):
    """Retrieves the exception of its failed task a while later, by one of asyncio's means."""

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        self.ask = ask

    async def run(self) -> None:
        task = asyncio.create_task(part())
        await asyncio.sleep(3.0)
        await self.ask(task)


async def by_exception(task: "asyncio.Task[None]") -> None:
    assert isinstance(task.exception(), ValueError)


async def by_awaiting(task: "asyncio.Task[None]") -> None:
    with suppress(ValueError):
        await task


async def by_gathering(task: "asyncio.Task[None]") -> None:
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("ask", [by_exception, by_awaiting, by_gathering])
def test_an_exception_that_was_asked_for_is_none_of_netsims_business(ask: Any) -> None:
    assert Network(topology.path(1)).run({0: Asks(ask)}).ended_at == 3.0


def test_a_group_that_handles_its_childrens_errors() -> None:
    class Groups(Agent):
        async def run(self) -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(part(1.0))
                    group.create_task(part(1.0))
            except* ValueError:
                self.handled = True

    agent = Groups()
    Network(topology.path(1)).run({0: agent})
    assert agent.handled


def test_a_task_belongs_to_the_agent_that_made_it() -> None:
    """Tasks created in a callback, in another task, or while answering another agent's request."""

    class Asker(Agent):
        async def run(self) -> None:
            await asyncio.sleep(0.5)
            await self.request(1, "x", 1)
            await asyncio.sleep(9.0)

    class Maker(Agent):
        def __init__(self, how: str) -> None:
            self.how = how

        def answer(self, frame: Frame) -> int:
            if self.how == "answer":
                self.make()
            return 1

        def make(self) -> None:
            self.task = asyncio.create_task(part(0.5))

        async def run(self) -> None:
            if self.how == "callback":
                asyncio.get_running_loop().call_later(0.5, self.make)
            elif self.how == "task":
                await asyncio.create_task(self.deeper())
            await asyncio.sleep(9.0)

        async def deeper(self) -> None:
            await asyncio.sleep(0.5)
            self.make()

    for how in ("callback", "task", "answer"):
        message = message_of(lambda how=how: Network(topology.path(2)).run({0: Asker(), 1: Maker(how)}))  # type: ignore[misc]
        assert message.startswith("agent 1 raised ValueError in a task that is never awaited at 1 s"), how


def test_other_tasks_of_a_shared_loop_are_left_alone() -> None:
    async def main() -> list[str]:
        seen: list[str] = []

        async def other() -> None:
            try:
                await asyncio.sleep(50.0)
                seen.append("done")
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        task = asyncio.create_task(other())
        with pytest.raises(AgentError):
            await Network(topology.path(3)).run_async(beside(Keeps()), until=2.0)
        await task
        return seen

    assert on_loop(main) == ["done"]


def test_a_task_of_nobody_that_raises_still_ends_the_run() -> None:
    async def main() -> None:
        asyncio.create_task(part(1.5))  # noqa: RUF006
        await Network(topology.path(3)).run_async(beside(Rounder(5)))

    with pytest.raises(NetsimError, match=r"^a task that is never awaited raised ValueError: forgotten$"):
        on_loop(main)


def test_errors_go_to_the_run_whose_agent_they_are() -> None:
    """Two networks run on one loop: an agent's error ends only the run that contains the agent."""

    async def main() -> list[Any]:
        runs = [Network(topology.path(3)).run_async(beside(agent)) for agent in (Rounder(5), Forgets())]
        return await asyncio.gather(*runs, return_exceptions=True)

    fine, failed = on_loop(main)
    assert fine.ended_at == 5.0
    assert str(failed).endswith(f"{PART}: forgotten")


def test_a_background_task_is_not_garbage_while_it_runs() -> None:
    class Drops(Agent):
        async def run(self) -> None:
            self.woken = False
            asyncio.create_task(self.wait())  # noqa: RUF006  that is what this is about
            await asyncio.sleep(1.0)
            gc.collect()
            future = self.future()
            assert future is not None
            future.set_result(None)
            await asyncio.sleep(1.0)

        async def wait(self) -> None:
            future = asyncio.get_running_loop().create_future()
            self.future = weakref.ref(future)
            await future
            self.woken = True

    agent = Drops()
    Network(topology.path(1)).run({0: agent})
    assert agent.woken


def test_async_generators_are_closed_at_the_end_and_their_errors_told() -> None:
    seen: list[str] = []

    class Generates(Agent):
        def __init__(self, error: Exception | None) -> None:
            self.error = error

        async def numbers(self, name: str) -> Any:
            try:
                yield 1
            finally:
                await asyncio.sleep(0.5)
                seen.append(name)
                if self.error is not None:
                    raise self.error

        async def run(self) -> None:
            self.kept = [self.numbers(f"{self.name}{i}") for i in "abc"]
            for numbers in self.kept:
                await anext(numbers)
            await asyncio.sleep(3.0)

    Network(topology.path(2)).run({i: Generates(None) for i in range(2)}, until=1.0)
    assert seen == ["0a", "0b", "0c", "1a", "1b", "1c"]
    message = failure_of(Generates(ValueError("in a generator")), until=1.0)
    assert message.startswith(
        "agent 1 raised ValueError in a task that is never awaited at 1.5 s (test_background.py, line"
    )


def test_links_are_none_the_worse() -> None:
    """Frames sent by background tasks are counted like all other frames."""

    class Chats(Agent):
        async def run(self) -> None:
            async with asyncio.TaskGroup() as group:
                for i in range(3):
                    group.create_task(self.say(i))

        async def say(self, number: int) -> None:
            await asyncio.sleep(number)
            await self.broadcast("x", number)

    run = Network(topology.path(2), Link(latency=0.1)).run({0: Chats(), 1: Chats()})
    assert int(run.ledger.table([])["offered"].iloc[0]) == 6
