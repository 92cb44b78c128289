"""Beginners' mistakes: each is reported in one line that names the mistake and its place in the code."""

import asyncio
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from netsim import Agent, AgentError, Link, Network, Run, topology
from tests.command import ROOT
from tests.parts import only_with


class Does(Agent):
    """An agent that runs a given function."""

    def __init__(self, what: Callable[[Agent], Awaitable[None]]) -> None:
        self.what = what

    async def run(self) -> None:
        await self.what(self)


def run(what: Callable[[Agent], Awaitable[None]], latency: float = 0.5) -> Run:
    network = Network(topology.ring(4), Link(latency=latency), round_period=1.0)
    return network.run({node: Does(what) for node in range(4)})


def test_what_is_in_flight_as_all_agents_have_ended_is_printed() -> None:
    async def say(agent: Agent) -> None:
        await agent.broadcast("x", 1)

    assert "0 of 8 link messages delivered, 8 in flight when the run ended" in repr(run(say))


def test_what_comes_after_its_round_is_printed() -> None:
    async def say(agent: Agent) -> None:
        async for _ in agent.rounds(3):
            await agent.broadcast("x", 1)
            await agent.collect()

    assert "8 late (they arrived after their round), 16 in flight" in repr(run(say, latency=2.5))
    assert "late" not in repr(run(say))


def test_rounds_without_async_is_refused() -> None:
    async def loop(agent: Agent) -> None:
        for _ in agent.rounds(3):  # type: ignore[attr-defined]
            pass

    with pytest.raises(AgentError, match="must be read by `async for`"):
        run(loop)


@pytest.mark.parametrize("number", [2**64, 2**80, -(2**63) - 1])
def test_a_number_that_is_too_large_is_refused_with_the_range_allowed(number: int) -> None:
    async def say(agent: Agent) -> None:
        await agent.broadcast("x", [number])

    with pytest.raises(AgentError, match=r"bits: it must be from -2\*\*63 to 2\*\*64 - 1"):
        run(say)


def test_time_sleep_is_warned_of_once_and_put_back() -> None:
    async def nap(agent: Agent) -> None:
        for _ in range(3):
            time.sleep(0.001)

    before = time.sleep
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        run(nap)
    assert [each.category for each in found] == [RuntimeWarning]
    assert "await asyncio.sleep" in str(found[0].message)
    assert found[0].filename == __file__
    assert time.sleep is before


@pytest.mark.parametrize("draw", [random.random, lambda: np.random.rand(1)], ids=["random", "numpy"])  # noqa: NPY002
def test_global_random_numbers_are_warned_of(draw: Callable[[], object]) -> None:
    async def guess(agent: Agent) -> None:
        draw()

    with pytest.warns(RuntimeWarning, match="draw from self.rng") as found:
        run(guess)
    assert found[0].filename == __file__


def test_what_other_threads_draw_is_not_blamed_on_agents() -> None:
    """The thread of a Dask cluster's loop draws in this way, through functions that were imported earlier."""
    drawn = threading.Event()
    functions = [random.random, random.randint, random.choice]

    def draw() -> None:
        random.shuffle([1, 2, 3])
        functions[1](0, 10)
        np.random.rand(1)  # noqa: NPY002
        np.random.seed(3)  # noqa: NPY002
        drawn.set()

    async def wait(agent: Agent) -> None:
        await asyncio.sleep(1.0)
        if agent.name == 0:
            threading.Thread(target=draw).start()
            assert drawn.wait(60)

    before = vars(random).copy(), vars(np.random).copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(wait)
    assert (vars(random), vars(np.random)) == before


def test_an_agent_that_draws_beside_other_threads_is_warned_of() -> None:
    async def guess(agent: Agent) -> None:
        thread = threading.Thread(target=random.random)
        thread.start()
        thread.join()
        random.choice([1, 2])

    with pytest.warns(RuntimeWarning, match=r"draw from self\.rng"):
        run(guess)


def test_what_a_task_beside_the_run_draws_is_not_blamed_on_agents() -> None:
    begun, drawn = threading.Event(), threading.Event()

    async def wait(agent: Agent) -> None:
        begun.set()
        assert drawn.wait(60)

    async def draw() -> None:
        while not begun.is_set():
            await asyncio.sleep(0.001)
        random.random()
        drawn.set()

    async def main() -> None:
        agents = {node: Does(wait) for node in range(4)}
        await asyncio.gather(draw(), Network(topology.ring(4), round_period=1.0).run_async(agents))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())


@only_with("distributed")
def test_what_a_dask_cluster_draws_is_not_blamed_on_agents() -> None:
    import distributed

    waits = {node: Does(lambda agent: asyncio.sleep(3.0)) for node in range(4)}
    settings = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with (
        distributed.LocalCluster(silence_logs=50, **settings) as cluster,
        distributed.Client(cluster),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        Network(topology.ring(4), round_period=1.0).run(waits, clock="wall")


def test_an_agents_own_random_numbers_are_not_warned_of() -> None:
    async def guess(agent: Agent) -> None:
        agent.rng.random()
        await asyncio.sleep(1.0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(guess)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_one_interrupt_ends_a_loop_without_await() -> None:
    script = """
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from netsim import Agent, Network, topology

        class Stuck(Agent):
            async def run(self):
                print("stuck", flush=True)
                while True:
                    pass

        Network(topology.path(2)).run({0: Stuck(), 1: Stuck()})
    """
    words = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stuck\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode != 0
