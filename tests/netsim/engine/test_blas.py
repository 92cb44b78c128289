"""While a network runs, BLAS uses one thread or the requested number; afterwards it uses as many as before."""

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from netsim import Agent, AgentError, BadInput, Network, topology
from netsim.testing import Actor
from tests.command import python
from tests.parts import on_loop

BLAS = [each["filepath"] for each in threadpool_info() if each["user_api"] == "blas"]

pytestmark = pytest.mark.skipif(not BLAS, reason="this numpy's matrix products have no threads that can be counted")


def threads() -> set[int]:
    return {int(each["num_threads"]) for each in threadpool_info() if each["user_api"] == "blas"}


class Looks(Agent):
    def __init__(self) -> None:
        self.seen: set[int] = set()

    async def run(self) -> None:
        await asyncio.sleep(1)
        np.ones((3, 3)) @ np.ones((3, 3))
        self.seen = threads()


def seen(**settings: Any) -> set[int]:
    agents = {node: Looks() for node in range(2)}
    Network(topology.path(2)).run(agents, **settings)
    return agents[1].seen


def test_one_thread_while_a_network_runs_and_as_before_afterwards() -> None:
    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        assert seen() == {1}
        assert threads() == before


@pytest.mark.parametrize("clock", ["virtual", "wall"])
def test_a_user_may_ask_for_more_or_leave_it_alone(clock: str) -> None:
    pace: dict[str, Any] = {"clock": clock} | ({"pace": 100.0} if clock == "wall" else {})
    with threadpool_limits(limits=3, user_api="blas"):
        before = threads()
        assert seen(blas_threads=None, **pace) == before
        assert seen(blas_threads=2, **pace) == {2}
        assert threads() == before


def test_a_run_that_fails_puts_it_back() -> None:
    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        with pytest.raises(AgentError):
            Network(topology.path(2)).run({i: Actor(lambda me: [].pop()) for i in range(2)})
        assert threads() == before


def test_runs_that_overlap_hold_the_fewest_until_the_last_has_left() -> None:
    found: list[set[int]] = []

    class Waits(Agent):
        def __init__(self, seconds: float) -> None:
            self.seconds = seconds

        async def run(self) -> None:
            await asyncio.sleep(self.seconds)
            found.append(threads())

    async def main() -> None:
        async def one(seconds: float, number: int) -> None:
            await Network(topology.path(2)).run_async({0: Waits(seconds), 1: Waits(seconds)}, blas_threads=number)

        async with asyncio.TaskGroup() as group:
            group.create_task(one(1.0, 1))
            group.create_task(one(2.0, 2))
            group.create_task(one(3.0, 3))

    with threadpool_limits(limits=4, user_api="blas"):
        before = threads()
        on_loop(main)
        assert found == [{1}, {1}, {2}, {2}, {3}, {3}]
        assert threads() == before


def test_a_run_inside_a_run_and_runs_in_threads() -> None:
    class Nests(Agent):
        async def run(self) -> None:
            assert seen() == {1}
            assert threads() == {1}

    def work() -> None:
        Network(topology.path(2)).run({0: Nests(), 1: Nests()})

    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        workers = [threading.Thread(target=work) for _ in range(4)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        assert threads() == before


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "two", float("nan")])
def test_what_is_no_number_of_threads_is_refused_by_name(number: Any) -> None:
    with pytest.raises(BadInput, match=r"blas_threads = .*: must be a whole number >= 1"):
        seen(blas_threads=number)


def test_a_library_that_is_loaded_after_the_first_run_is_limited_in_the_next() -> None:
    # scipy loads a second BLAS library after the first run, which therefore could not limit it.
    script = """
import asyncio, netsim, sys
from threadpoolctl import threadpool_info
class Looks(netsim.Agent):
    async def run(self):
        self.seen = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
def seen():
    agents = {0: Looks(), 1: Looks()}
    netsim.Network(netsim.topology.path(2)).run(agents)
    return agents[0].seen
print(set(seen()))
import scipy.linalg
print(set(seen()))
"""
    assert python(script).split() == ["{1}", "{1}"]
