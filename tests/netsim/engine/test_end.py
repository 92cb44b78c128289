"""The end of a run: its time, the counts up to it, and agents that block simulated time or never end."""

import asyncio
import gc
import threading
import weakref
from contextlib import suppress
from typing import Any

import pytest

from netsim import Agent, AgentError, Link, Network, Run, RunOver, Stalled, topology
from netsim.faults import Crash
from netsim.testing import Actor, Rounder
from tests.netsim.engine.test_failures import beside, line_of
from tests.parts import message_of, on_loop, slow


class Goodbye(Agent):
    """Sends a goodbye as it ends, immediately or after a delay."""

    def __init__(self, after: float = 0.0) -> None:
        self.after = after
        self.refusal = ""

    async def run(self) -> None:
        try:
            await asyncio.sleep(100.0)
        finally:
            await asyncio.sleep(self.after)
            try:
                await self.broadcast("bye", 1)
            except RunOver as error:
                self.refusal = str(error)
                raise


@pytest.mark.parametrize("after", [0.0, 50.0])
def test_a_run_ends_at_its_time_however_long_agents_take_to_end(after: float) -> None:
    agent = Goodbye(after)
    run = Network(topology.path(3)).run(beside(agent), until=5.0)
    assert run.ended_at == 5.0
    assert agent.refusal == "agent 1 cannot send 'bye': the run is over and its counts are final"
    assert int(run.ledger.table([])["offered"].iloc[0]) == 10
    # The attempt to send after the end of the run is not counted.
    assert (
        run.trace_hash
        == Network(topology.path(3)).run(beside(Actor(lambda me: asyncio.sleep(100.0))), until=5.0).trace_hash
    )


class GoodbyeInParts(Agent):
    """Its tasks also send goodbyes: by send, request and reply, in a group and in the background."""

    async def run(self) -> None:
        self.task = asyncio.create_task(self.part())
        async with asyncio.TaskGroup() as group:
            group.create_task(self.part())
            group.create_task(self.ask())

    async def part(self) -> None:
        try:
            await asyncio.sleep(100.0)
        finally:
            await self.send(0, "bye", 1)

    async def ask(self) -> None:
        try:
            await asyncio.sleep(100.0)
        finally:
            await self.request(0, "really?", 1)


def test_a_goodbye_of_its_parts_is_forgiven_too() -> None:
    run = Network(topology.path(3)).run(beside(GoodbyeInParts()), until=5.0)
    assert int(run.ledger.table([])["offered"].iloc[0]) == 10


def test_an_error_beside_a_goodbye_is_one() -> None:
    class Mixed(GoodbyeInParts):
        async def ask(self) -> None:
            try:
                await asyncio.sleep(100.0)
            finally:
                raise ValueError("real")

    message = message_of(lambda: Network(topology.path(3)).run(beside(Mixed()), until=5.0))
    assert message.startswith("agent 1 raised ")
    assert "real" in message or "and 1 more" in message


def test_the_refusal_of_another_run_is_an_error() -> None:
    """An agent may raise RunOver without a report only after its run has ended; before, it is the agent's failure."""

    class Raises(Agent):
        async def run(self) -> None:
            await asyncio.sleep(1.0)
            raise RunOver("not now")

    message = message_of(lambda: Network(topology.path(3)).run(beside(Raises())))
    assert message == f"agent 1 raised RunOver at 1 s (test_end.py, line {line_of(Raises.run, 'RunOver(')}): not now"


class Chatter(Agent):
    """Leaves behind a task, a timer and a shielded task, which continue to send."""

    async def run(self) -> None:
        self.ended: list[str] = []
        self.refused: list[str] = []
        self.task = asyncio.create_task(self.chat("task"))
        self.shielded = asyncio.shield(asyncio.create_task(self.chat("shielded")))
        asyncio.get_running_loop().call_later(7.0, self.later)
        await asyncio.sleep(3.0)

    def later(self) -> None:
        self.made_later = asyncio.create_task(self.chat("made later"))
        try:
            self.outbox.broadcast("x", 1, 0, False)
        except AgentError as error:
            self.refused.append(str(error))

    async def chat(self, name: str) -> None:
        try:
            while True:
                await self.broadcast("x", 1)
                await asyncio.sleep(0.5)
        finally:
            self.ended.append(f"{name} at {self.now:g}")


def summary(run: Run) -> tuple[Any, ...]:
    return (run.trace_hash, run.ended_at, run.ledger.table(["kind"]).to_csv(), len(run.rounds), repr(run))


@pytest.mark.parametrize("until", [None, 2.25])
def test_on_a_shared_loop_nothing_changes_a_finished_run(until: float | None) -> None:
    agents = {i: Chatter() for i in range(3)}

    async def main() -> None:
        before = asyncio.all_tasks()
        run = await Network(topology.path(3), Link(latency=0.7)).run_async(agents, until=until)
        assert run.ended_at == (until or 3.0)
        assert asyncio.all_tasks() == before
        ended = summary(run)
        await asyncio.sleep(20.0)
        # Inspecting an inbox must not deliver further frames either.
        assert [len(agent.inbox) for agent in agents.values()] == [len(agent.inbox) for agent in agents.values()]
        assert summary(run) == ended

    on_loop(main)
    for agent in agents.values():
        assert agent.ended == [f"{name} at {until or 3.0:g}" for name in ("task", "shielded")]
        assert agent.refused == [f"agent {agent.name} cannot send 'x': the run is over and its counts are final"]
        assert agent.made_later.cancelled()


def test_what_arrives_at_the_end_is_counted_and_what_comes_later_is_under_way() -> None:
    class Once(Agent):
        async def run(self) -> None:
            await asyncio.sleep(1.0)
            await self.broadcast("in time", 1)
            await asyncio.sleep(0.5)
            await self.broadcast("too late", 1)
            await asyncio.sleep(9.0)

    run = Network(topology.path(2), Link(latency=1.0)).run({0: Once(), 1: Once()}, until=2.0)
    table = run.ledger.table(["kind"]).set_index("kind")
    assert table["delivered"].to_dict() == {"in time": 2, "too late": 0}
    assert table["in_flight"].to_dict() == {"in time": 0, "too late": 2}


def test_an_agent_that_takes_part_in_rounds_as_it_ends_writes_no_rows() -> None:
    class GoesOn(Agent):
        async def run(self) -> None:
            try:
                await asyncio.sleep(100.0)
            finally:
                async for k in self.rounds(3):
                    await self.broadcast("x", k)

    run = Network(topology.path(1)).run({0: GoesOn()}, until=2.5)
    assert len(run.rounds) == 0
    assert run.ended_at == 2.5


def test_background_tasks_end_after_their_agents() -> None:
    """An agent may need its background tasks in order to clean up."""

    class Flushes(Agent):
        async def run(self) -> None:
            self.seen: list[Any] = []
            self.queue: asyncio.Queue[int] = asyncio.Queue()
            self.worker = asyncio.create_task(self.work())
            try:
                await asyncio.sleep(100.0)
            finally:
                for i in range(3):
                    self.queue.put_nowait(i)
                await self.queue.join()

        async def work(self) -> None:
            while True:
                self.seen.append(await self.queue.get())
                await asyncio.sleep(0.1)
                self.queue.task_done()

    agent = Flushes()
    Network(topology.path(1)).run({0: agent}, until=2.0)
    assert agent.seen == [0, 1, 2]


def test_whoever_waits_for_the_end_may_be_cancelled_meanwhile() -> None:
    class Busy(Agent):
        async def run(self) -> None:
            self.task = asyncio.create_task(asyncio.sleep(1e6))
            await asyncio.sleep(100.0)

    async def main() -> None:
        before = asyncio.all_tasks()
        agents = {0: Busy(), 1: Goodbye(50.0), 2: Busy()}
        run = asyncio.create_task(Network(topology.path(3)).run_async(agents, until=2.0))
        await asyncio.sleep(20.0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await asyncio.sleep(0.0)
        assert asyncio.all_tasks() == before

    on_loop(main)


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netsim.clock.virtual_clock.PASSES_PER_INSTANT", 5000)
    monkeypatch.setattr("netsim.engine.tasks.MAX_STOP_PASSES", 2000)
    monkeypatch.setattr("netsim.engine.tasks.SECONDS_PER_STOP", 0.3)


# --- at one instant ---------------------------------------------------------------------------------------------------


async def poll(me: Actor) -> None:
    await asyncio.sleep(1.5)
    while True:
        await asyncio.sleep(0)


async def poll_in_the_background(me: Actor) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(poll(me))


async def poll_by_timers(me: Actor) -> None:
    """Poll with timers that are shorter than the clock's resolution."""
    await asyncio.sleep(1.5)
    while True:
        await asyncio.sleep(1e-20)


@pytest.mark.parametrize("script", [poll, poll_in_the_background, poll_by_timers])
def test_an_agent_that_polls(script: Any) -> None:
    line = line_of(poll_by_timers, "sleep(1e-20)") if script is poll_by_timers else line_of(poll, "sleep(0)")
    message = message_of(lambda: Network(topology.path(3)).run(beside(Actor(script))))
    start = f"agent 1 never lets time pass: at 1.5 s it waits for sleep() (test_end.py, line {line}) again and again"
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
    assert f"at 5 s it waits for a frame in its inbox (test_end.py, line {line}) again and again" in message


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


def test_something_else_on_the_loop_that_polls_is_no_agents_fault() -> None:
    async def main() -> None:
        run = asyncio.create_task(Network(topology.path(3)).run_async(beside(Rounder(5))))
        while not run.done():
            await asyncio.sleep(0)
        await run

    with pytest.raises(
        Stalled, match=r"time has not advanced: callbacks or tasks that belong to no agent keep running$"
    ):
        on_loop(main)


@pytest.mark.parametrize("first", [True, False])
def test_of_two_runs_on_a_loop_only_that_of_the_polling_agent_ends(first: bool) -> None:
    async def main() -> list[Any]:
        runs = [
            Network(topology.path(3)).run_async(beside(Actor(poll) if polls else Rounder(5)))
            for polls in (first, not first)
        ]
        return await asyncio.gather(*runs, return_exceptions=True)

    failed, fine = on_loop(main)[:: 1 if first else -1]
    assert isinstance(failed, AgentError)
    assert fine.ended_at == 5.0


def test_long_chains_at_one_instant_are_legal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token circulates among 300 agents in zero time, which takes many passes of the loop."""
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


async def swallow(me: Agent) -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1.0)


async def swallow_all(me: Agent) -> None:
    """Suppress every exception, including the GeneratorExit that closes the coroutine."""
    while True:
        with suppress(BaseException):
            await asyncio.sleep(1.0)


async def swallow_all_at_once(me: Agent) -> None:
    while True:
        with suppress(BaseException):
            await asyncio.sleep(10.0 if me.now < 2.0 else 0)


async def wait_for_ever(me: Agent) -> None:
    try:
        await asyncio.sleep(100.0)
    finally:
        await asyncio.Event().wait()


async def send_again(me: Agent) -> None:
    """Repeat a send for ever, although it is refused because the run is over."""
    while True:
        try:
            await me.broadcast("x", 1)
            await asyncio.sleep(1.0)
        except BaseException:
            pass


async def ask_again(me: Agent) -> None:
    while True:
        with suppress(BaseException):
            await me.request(0, "x", 1, timeout=1.0)


async def swallow_in_the_background(me: Agent) -> None:
    asyncio.create_task(swallow(me))  # noqa: RUF006
    await asyncio.sleep(100.0)


STUBBORN = [swallow, swallow_all, swallow_all_at_once, wait_for_ever, send_again, ask_again, swallow_in_the_background]


def stubborn(script: Any) -> Agent:
    """Return an agent whose `run` executes the given script."""
    return type("Stubborn", (Agent,), {"run": script})()


@pytest.mark.parametrize("settings", [{}, slow({"clock": "wall", "pace": 100.0})], ids=["virtual", "wall"])
@pytest.mark.parametrize("script", STUBBORN)
def test_an_agent_that_does_not_end(script: Any, settings: Any) -> None:
    network = Network(topology.path(3))
    message = message_of(lambda: network.run(beside(stubborn(script)), until=2.0, **settings))
    assert message.startswith("agent 1 does not end when it is cancelled: it waits for ")
    called = {wait_for_ever: "Event.wait()", send_again: "Agent.broadcast()", ask_again: "Agent.request()"}
    assert f"waits for {called.get(script, 'sleep()')} (" in message
    assert "(test_end.py, line " in message
    gc.collect()
    # After the failure, the process and the network remain usable.
    assert network.run(beside(Rounder(5))).ended_at == 5.0


@pytest.mark.parametrize("script", STUBBORN)
def test_an_agent_that_does_not_end_leaves_a_shared_loop_usable(script: Any) -> None:
    async def main() -> float:
        before = asyncio.all_tasks()
        with pytest.raises(AgentError, match="does not end when it is cancelled"):
            await Network(topology.path(3)).run_async(beside(stubborn(script)), until=2.0)
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

    agents = {0: stubborn(swallow), 1: Breaks(), 2: stubborn(wait_for_ever)}
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


# --- the garbage collector --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_frozen")
def test_runs_in_threads_leave_the_collector_as_it_was() -> None:
    """The two runs overlap in time, and neither is inside the other."""
    first_runs, second_runs, first_ended = threading.Event(), threading.Event(), threading.Event()

    class First(Agent):
        async def run(self) -> None:
            first_runs.set()
            assert second_runs.wait(20)

    class Second(Agent):
        async def run(self) -> None:
            second_runs.set()
            assert first_ended.wait(20)

    def first() -> None:
        Network(topology.path(1)).run({0: First()})
        first_ended.set()

    def second() -> None:
        assert first_runs.wait(20)
        Network(topology.path(1)).run({0: Second()})

    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == frozen


def test_what_was_frozen_before_stays_frozen() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    Network(topology.path(1)).run({0: Rounder(5)})
    assert gc.get_freeze_count() > before / 2


@pytest.mark.usefixtures("nothing_frozen")
def test_frozen_objects_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a program has frozen many objects, counting them repeatedly would take longer than a small run."""
    counted: list[str] = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counted.append("counted") or 1)
    for _ in range(3):
        Network(topology.path(1)).run({0: Rounder(5)})
    assert counted == ["counted"]


@pytest.mark.parametrize("loss", [0.0, 1.0])
def test_a_run_that_nobody_holds_is_freed_without_a_collection(loss: float) -> None:
    agents = {i: Rounder(3) for i in range(3)}
    faults = [Crash(0, 1.5, 2.5)]
    run = Network(topology.ring(3), Link(loss=loss), faults=faults, round_period=1.0).run(agents)
    left = [weakref.ref(each) for each in (*agents.values(), run.ledger)]
    gc.disable()
    try:
        del run, agents
        assert [each() for each in left] == [None] * 4
    finally:
        gc.enable()


def test_nothing_is_collected_while_a_large_network_is_wired() -> None:
    """Setting up a network creates only long-lived objects, so a garbage collection would free nothing."""

    class Noting(Agent):
        async def run(self) -> None:
            collections.append("begun")

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            collections.append("collected")

    agents: dict[int, Agent] = {number: Noting() for number in range(4000)}
    network = Network(topology.ring(4000))
    collections: list[str] = []
    gc.collect()
    gc.callbacks.append(note)
    try:
        network.run(agents)
    finally:
        gc.callbacks.remove(note)
    begun = collections.index("begun")
    # Agents are checked before the setup, while the user's collector settings still hold.
    assert collections[:begun].count("collected") <= 4000 // 700 + 1
