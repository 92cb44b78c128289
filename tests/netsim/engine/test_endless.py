"""Agents that never let time pass, and agents that never end: the run ends all the same, and names them."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import netsim
from netsim import Agent, AgentError, Network, Stalled, topology
from netsim.testing import Actor, Rounder
from tests.netsim.engine.test_failures import beside, line_of, message_of
from tests.parts import slow


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netsim.clock.virtual_clock.PASSES_PER_INSTANT", 5000)
    monkeypatch.setattr("netsim.engine.tasks.PASSES_PER_STOP", 2000)
    monkeypatch.setattr("netsim.engine.tasks.SECONDS_PER_STOP", 0.3)


# --- at one instant ---------------------------------------------------------------------------------------------------


class Polls(Agent):
    async def run(self) -> None:
        await asyncio.sleep(1.5)
        while True:
            await asyncio.sleep(0)


class PollsInTheBackground(Agent):
    async def run(self) -> None:
        await asyncio.sleep(1.5)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.part())

    async def part(self) -> None:
        while True:
            await asyncio.sleep(0)


class PollsByTimers(Agent):
    """By timers so short that the clock has no digit for them."""

    async def run(self) -> None:
        await asyncio.sleep(1.5)
        while True:
            await asyncio.sleep(1e-20)


@pytest.mark.parametrize("kind", [Polls, PollsInTheBackground, PollsByTimers])
def test_an_agent_that_polls(kind: Any) -> None:
    polls = kind.part if kind is PollsInTheBackground else kind.run
    line = line_of(polls, "sleep(1e-20)" if kind is PollsByTimers else "sleep(0)")
    message = message_of(lambda: Network(topology.path(3)).run(beside(kind())))
    start = (
        f"agent 1 never lets time pass: at 1.5 s it waits for sleep() (test_endless.py, line {line}) again and again"
    )
    assert message.startswith(start)
    assert message.endswith("passes of the event loop time has not moved")


def test_an_agent_that_iterates_an_ended_inbox() -> None:
    class Greedy(Agent):
        async def run(self) -> None:
            while True:
                async for _ in self.inbox:
                    pass

    message = message_of(lambda: Network(topology.path(3)).run(beside(Greedy())))
    line = line_of(Greedy.run, "self.inbox")
    assert f"at 5 s it waits for a frame in its inbox (test_endless.py, line {line}) again and again" in message


def test_callbacks_that_set_each_other_off() -> None:
    class Ticks(Agent):
        async def run(self) -> None:
            self.tick()
            await asyncio.sleep(1.0)

        def tick(self) -> None:
            asyncio.get_running_loop().call_soon(self.tick)

    message = message_of(lambda: Network(topology.path(3)).run(beside(Ticks())))
    assert message.startswith("agent 1 never lets time pass: at 0 s its callbacks set each other off again and again")


def test_a_loop_without_a_network_says_so() -> None:
    async def main() -> None:
        await asyncio.sleep(2.0)
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Stalled, match=r"^at 2 s time did not advance in 5,000 passes of the event loop: [^\n]+$"):
        on_loop(main)


def on_loop(main: Callable[[], Any]) -> Any:
    with asyncio.Runner(loop_factory=netsim.clock.new_loop) as runner:
        return runner.run(main())


def test_something_else_on_the_loop_that_polls_is_no_agents_fault() -> None:
    async def main() -> None:
        run = asyncio.create_task(Network(topology.path(3)).run_async(beside(Rounder(5))))
        while not run.done():
            await asyncio.sleep(0)
        await run

    with pytest.raises(Stalled, match=r"time has not moved: callbacks or tasks of no agent run again and again$"):
        on_loop(main)


@pytest.mark.parametrize("first", [True, False])
def test_of_two_runs_on_a_loop_only_that_of_the_polling_agent_ends(first: bool) -> None:
    async def main() -> list[Any]:
        runs = [
            Network(topology.path(3)).run_async(beside(Polls() if polls else Rounder(5)))
            for polls in (first, not first)
        ]
        return await asyncio.gather(*runs, return_exceptions=True)

    failed, fine = on_loop(main)[:: 1 if first else -1]
    assert isinstance(failed, AgentError)
    assert fine.ended_at == 5.0


def test_long_chains_at_one_instant_are_legal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token goes round 300 agents in no time. It takes as many passes of the loop, and more agents may take more."""
    monkeypatch.setattr("netsim.clock.virtual_clock.PASSES_PER_INSTANT", 100)

    class Relay(Agent):
        async def run(self) -> None:
            if self.name == 0:
                await self.send(1, "token", 1)
            token = (await self.inbox.get()).payload
            if self.name != 0:
                await self.send((self.name + 1) % 300, "token", token + 1)  # type: ignore[operator]
            else:
                assert token == 300

    assert Network(topology.ring(300)).run({i: Relay() for i in range(300)}).ended_at == 0.0


def test_passes_are_counted_anew_at_each_instant() -> None:
    class Busy(Agent):
        async def run(self) -> None:
            for _ in range(10):
                for _ in range(1000):
                    await asyncio.sleep(0)
                await asyncio.sleep(0.001)

    assert Network(topology.path(1)).run({0: Busy()}).ended_at == pytest.approx(0.01)


# --- agents that do not end -------------------------------------------------------------------------------------------


class Swallows(Agent):
    async def run(self) -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1.0)


class SwallowsAll(Agent):
    """Does not even end when its coroutine is closed."""

    async def run(self) -> None:
        while True:
            with suppress(BaseException):
                await asyncio.sleep(1.0)


class SwallowsAllAtOnce(Agent):
    async def run(self) -> None:
        while True:
            with suppress(BaseException):
                await asyncio.sleep(10.0 if self.now < 2.0 else 0)


class WaitsForEver(Agent):
    async def run(self) -> None:
        try:
            await asyncio.sleep(100.0)
        finally:
            await asyncio.Event().wait()


class TriesAgain(Agent):
    """Sends again and again what is refused, for the run is over."""

    async def run(self) -> None:
        while True:
            try:
                await self.broadcast("x", 1)
                await asyncio.sleep(1.0)
            except BaseException:
                pass


class AsksAgain(Agent):
    """Asks again and again."""

    async def run(self) -> None:
        while True:
            with suppress(BaseException):
                await self.request(0, "x", 1, timeout=1.0)


class BackgroundSwallows(Swallows):
    async def run(self) -> None:
        asyncio.create_task(super().run())  # noqa: RUF006
        await asyncio.sleep(100.0)


STUBBORN = [Swallows, SwallowsAll, SwallowsAllAtOnce, WaitsForEver, TriesAgain, AsksAgain, BackgroundSwallows]


@pytest.mark.parametrize("settings", [{}, slow({"clock": "wall", "speed": 100.0})], ids=["virtual", "wall"])
@pytest.mark.parametrize("kind", STUBBORN)
def test_an_agent_that_does_not_end(kind: Any, settings: Any) -> None:
    network = Network(topology.path(3))
    message = message_of(lambda: network.run(beside(kind()), until=2.0, **settings))
    assert message.startswith("agent 1 does not end when it is cancelled: it waits for ")
    assert "Event.wait() (" if kind is WaitsForEver else "sleep() (" in message
    assert "(test_endless.py, line " in message
    gc.collect()
    # The process goes on, and so does the network.
    assert network.run(beside(Rounder(5))).ended_at == 5.0


@pytest.mark.parametrize("kind", STUBBORN)
def test_an_agent_that_does_not_end_leaves_a_shared_loop_usable(kind: Any) -> None:
    async def main() -> float:
        before = asyncio.all_tasks()
        with pytest.raises(AgentError, match="does not end when it is cancelled"):
            await Network(topology.path(3)).run_async(beside(kind()), until=2.0)
        assert asyncio.all_tasks() == before
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(50.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(50.0):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time() - now

    assert on_loop(main) == 100.0


def test_the_first_error_is_the_one_that_is_told() -> None:
    class Breaks(Agent):
        async def run(self) -> None:
            await asyncio.sleep(1.0)
            raise ValueError("first")

    agents = {0: Swallows(), 1: Breaks(), 2: WaitsForEver()}
    message = message_of(lambda: Network(topology.path(3)).run(agents))
    assert message.startswith("agent 1 raised ValueError at 1 s")


def test_agents_have_time_to_clean_up() -> None:
    class Tidy(Agent):
        async def run(self) -> None:
            try:
                await asyncio.sleep(100.0)
            finally:
                for _ in range(500):
                    await asyncio.sleep(3600.0)
                self.tidied = True

    agent = Tidy()
    run = Network(topology.path(3)).run(beside(agent), until=2.0)
    assert agent.tidied
    assert run.ended_at == 2.0


def test_an_idle_network_is_left_at_once() -> None:
    assert Network(topology.path(2)).run({0: Actor(), 1: Actor()}).ended_at == 0.0
