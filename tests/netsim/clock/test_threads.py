"""Jobs in threads take no virtual time; in real time, waiting for a thread does not count as a stall."""

import asyncio
import concurrent.futures
import contextvars
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from netsim import Agent, Network, Stalled, topology
from netsim.testing import Actor
from tests.parts import on_loop

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="unset")


# --- virtual time -----------------------------------------------------------------------------------------------------


class Works(Agent):
    """Computes its payloads in threads that need different times."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for i in range(4):
                group.create_task(self.part(i))

    async def part(self, number: int) -> None:
        await asyncio.sleep(number // 2)
        result = await asyncio.to_thread(self.work, number)
        await self.broadcast("result", [self.now, result])

    def work(self, number: int) -> int:
        time.sleep(0.002 * (4 - number))
        return number**2


def test_threads_give_the_same_run_each_time() -> None:
    runs = [Network(topology.path(3)).run({i: Works() for i in range(3)}, trace=True) for _ in range(4)]
    assert len({run.trace_hash for run in runs}) == 1
    assert runs[0].ended_at == 1.0


def test_a_job_takes_no_virtual_time() -> None:
    async def main() -> list[Any]:
        seen: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.call_soon(seen.append, "ready before")
        job = loop.run_in_executor(None, lambda: seen.append("job"))
        loop.call_soon(seen.append, "ready after")
        await job
        return [*seen, loop.time()]

    assert on_loop(main) == ["job", "ready before", "ready after", 0.0]


@pytest.mark.parametrize("pool", [None, concurrent.futures.ThreadPoolExecutor], ids=["default", "own"])
def test_what_a_job_raises_is_raised_where_it_is_awaited(pool: Any) -> None:
    def raises(error: BaseException) -> None:
        raise error

    async def main() -> None:
        loop = asyncio.get_running_loop()
        executor = None if pool is None else pool(1)
        for error in (ValueError("no"), KeyError("k")):
            with pytest.raises(type(error)) as caught:
                await loop.run_in_executor(executor, raises, error)
            assert caught.value is error
        with pytest.raises(RuntimeError, match="StopIteration interacts badly") as stopped:
            await loop.run_in_executor(executor, raises, StopIteration(3))
        assert isinstance(stopped.value.__cause__, StopIteration)
        with pytest.raises(asyncio.CancelledError):
            await loop.run_in_executor(executor, raises, concurrent.futures.CancelledError())
        if executor is not None:
            executor.shutdown()
            with pytest.raises(RuntimeError, match="after shutdown"):
                loop.run_in_executor(executor, print)

    on_loop(main)


def test_a_cancelled_job_is_cancelled() -> None:
    async def main() -> None:
        job = asyncio.get_running_loop().run_in_executor(None, lambda: 3)
        assert not job.done()
        assert job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        task = asyncio.create_task(asyncio.to_thread(lambda: 3))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    on_loop(main)


def test_a_job_has_the_context_and_the_surroundings_that_a_thread_gives_it() -> None:
    def look() -> tuple[str, bool]:
        name = NAME.get()
        NAME.set("set by the job")
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        return name, asyncio.run(asyncio.sleep(0, True))

    async def main() -> None:
        NAME.set("the caller's")
        assert await asyncio.to_thread(look) == ("the caller's", True)
        assert await asyncio.get_running_loop().run_in_executor(None, look) == ("unset", True)
        assert NAME.get() == "the caller's"
        assert asyncio.get_running_loop().time() == 0.0

    on_loop(main)


def test_a_job_may_run_a_network() -> None:
    async def main() -> float:
        agents = {i: Actor(lambda me: asyncio.sleep(3.0)) for i in range(2)}
        return (await asyncio.to_thread(Network(topology.path(2)).run, agents)).ended_at

    assert on_loop(main) == 3.0


def test_an_executor_of_ones_own_is_used() -> None:
    async def main() -> str:
        with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="own") as pool:
            return await asyncio.get_running_loop().run_in_executor(pool, lambda: threading.current_thread().name)

    assert on_loop(main) == "own_0"


# --- the wall clock ---------------------------------------------------------------------------------------------------


class Sleeps(Agent):
    """Waits for a thread while no timer is set."""

    async def run(self) -> None:
        self.result = await asyncio.to_thread(self.work)

    def work(self) -> str:
        time.sleep(0.4)
        return "done"


def test_a_pending_job_is_no_standstill() -> None:
    agents = {0: Sleeps(), 1: Sleeps()}
    Network(topology.path(2)).run(agents, clock="wall", pace=1000.0)
    assert [agent.result for agent in agents.values()] == ["done", "done"]


def test_after_the_last_job_a_standstill_is_one() -> None:
    class Hangs(Sleeps):
        async def run(self) -> None:
            await super().run()
            await asyncio.Event().wait()

    with pytest.raises(Stalled, match=r"agent 0 waits for Event.wait\(\)"):
        Network(topology.path(1)).run({0: Hangs()}, clock="wall", pace=1000.0)


@contextmanager
def busy_pool(seconds: float) -> Iterator[Callable[[], None]]:
    """Yield a function that keeps a thread busy for much longer than the loop waits for wake-ups."""
    began = threading.Event()

    def work() -> None:
        began.set()
        time.sleep(seconds)

    yield work
    assert began.is_set()


@pytest.mark.parametrize("clock", ["virtual", "wall"])
def test_a_busy_pool_does_not_cost_the_result(clock: Any) -> None:
    class Leaves(Agent):
        """Ends while its job in a thread is still running."""

        def __init__(self, work: Callable[[], None]) -> None:
            self.work = work

        async def run(self) -> None:
            task = asyncio.create_task(asyncio.to_thread(self.work))
            await asyncio.sleep(0.01)
            task.cancel()

    with busy_pool(1.0) as work, warnings.catch_warnings():
        warnings.simplefilter("error")
        run = Network(topology.path(1)).run({0: Leaves(work)}, clock=clock)
    assert run.ended_at >= 0.01


def test_a_pool_that_the_loop_was_given_may_be_busy_at_its_end() -> None:
    with busy_pool(0.7) as work:

        async def main() -> str:
            pool = concurrent.futures.ThreadPoolExecutor(1)
            asyncio.get_running_loop().set_default_executor(pool)
            pool.submit(work)
            await asyncio.sleep(1.0)
            return "result"

        assert on_loop(main) == "result"
