"""Batched rounds give the same results as agents that wake individually for each round."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

import netsim
from netsim import AgentError, Frame, Link, Network, latency, topology
from netsim.engine import round_scheduler
from netsim.errors import NetsimError
from netsim.faults import Crash, Faults
from netsim.round_agent import HeardByAll
from netsim.transport.heard import Heard
from netsim.util.typing import Array
from tests.fuzzers.networks import a_network, digest, pick
from tests.parts import every, slow


class Noted(netsim.RoundAgent):
    """Sends a number in each round, and records frames and all of its state that is observable."""

    def __init__(self, count: int, value: float) -> None:
        self.count = count
        self.value = value
        self.notes: list[Any] = []

    def begin(self) -> None:
        self.log("begins")

    async def say(self, k: int) -> None:
        self.log("says")
        await self.broadcast("value", self.value + self.rng.random())

    def hear(self, frames: Sequence[Frame], k: int) -> None:
        self.log([(frame.sender, frame.round, frame.payload) for frame in frames])
        self.value = sum((frame.payload for frame in frames if frame.kind != "state"), self.value) / (1 + len(frames))

    def log(self, what: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.notes.append((self.now, self.round, task.get_name(), what))


class Waits(Noted):
    """Before it broadcasts, waits for a pass of the loop, for a while, or past the end of the round."""

    async def say(self, k: int) -> None:
        await asyncio.sleep(float(self.rng.choice([0.0, 0.25, 1.5])) * self._netsim.shared.rounds.period)
        await super().say(k)


class WaitsInTime(Noted):
    """Waits with a timeout for a frame that may never arrive."""

    async def say(self, k: int) -> None:
        try:
            async with asyncio.timeout(0.3 * self._netsim.shared.rounds.period):
                frame = await self.inbox.get()
            self.log((frame.sender, frame.payload))
        except TimeoutError:
            self.log("nothing")
        await super().say(k)


class Helped(Noted):
    """Has background tasks that also send."""

    def hear(self, frames: Sequence[Frame], k: int) -> None:
        super().hear(frames, k)
        task = asyncio.create_task(self.later(k))
        task.add_done_callback(lambda done: self.notes.append(done.cancelled()))

    async def later(self, k: int) -> None:
        await asyncio.sleep(0.2)
        await self.broadcast("later", k)


class Fails(Noted):
    """Raises in one of its rounds."""

    def hear(self, frames: Sequence[Frame], k: int) -> None:
        super().hear(frames, k)
        if k == 3:
            raise ValueError("no more")


class FailsToStep(netsim.StateAgent):
    """Raises an error in the `step` of one of its rounds."""

    count, value = 5, 0.0
    state = np.zeros(1)
    error: type[BaseException] = ValueError

    def __init__(self, fails: bool) -> None:
        self.fails = fails
        self.notes: list[Any] = []

    def step(self, state: Array, heard: Heard) -> Array:
        if self.fails and self.round == 3:
            raise self.error("no more")
        return state


class Alone(Noted):
    """Writes its own loop over rounds instead of using the base class's loop."""

    async def run(self) -> None:
        async for k in self.rounds(self.count):
            await self.say(k)
            if self.rng.random() < 0.2:
                await asyncio.sleep(1.3 * self._netsim.shared.rounds.period)
            self.hear(await self.collect(), k)


class Stepped(netsim.StateAgent):
    """Records frames and all observable state in each step."""

    def __init__(self, count: int, value: float) -> None:
        self.count = count
        self.state = np.array([value, -value])
        self.notes: list[Any] = []

    @property
    def value(self) -> float:
        return float(self.state[0])

    def step(self, state: Array, heard: Heard) -> Array:
        self.notes.append((self.now, self.round, [(frame.sender, frame.round, str(frame.payload)) for frame in heard]))
        return averaged(state, heard) + self.rng.random()


class SteppedAtOnce(Stepped):
    """Also defines `step_all`, so that its steps may be batched."""

    def step(self, state: Array, heard: Heard) -> Array:
        return averaged(state, heard)

    @classmethod
    def step_all(cls, states: Array, heard: HeardByAll) -> Array | None:
        return (states + heard.sum()) / (1 + heard.counts)


class OwnStep(SteppedAtOnce):
    """Overrides its parent's `step`, so its parent's `step_all` must not be used."""

    def step(self, state: Array, heard: Heard) -> Array:
        return 0.5 * super().step(state, heard)


class OwnSum(SteppedAtOnce):
    """Its `step_all` returns an array whose rows share memory, and returns None in every other round."""

    @classmethod
    def step_all(cls, states: Array, heard: HeardByAll) -> Array | None:
        if heard.agents[0].round % 2:
            return None
        return np.broadcast_to(states[0], states.shape)

    def step(self, state: Array, heard: Heard) -> Array:
        return averaged(state, heard) if self.round % 2 else state


class WithTask(Stepped):
    """Has background tasks that also send."""

    def step(self, state: Array, heard: Heard) -> Array:
        self.task = asyncio.create_task(self.later())
        return super().step(state, heard.of("state"))

    async def later(self) -> None:
        await asyncio.sleep(0.2)
        await self.broadcast("later", self.now)
        self.notes.append(self.now)


def averaged(state: Array, heard: Heard) -> Array:
    return np.asarray((state + heard.of("state").sum()) / (1 + len(heard)))


KINDS: list[type[Any]] = [Noted, Waits, WaitsInTime, Helped, Alone, Stepped, WithTask]


def outcome(network: Network, agents: dict[Any, Any], at_once: bool, **settings: Any) -> tuple[Any, ...]:
    """Run agents with or without batching; return everything observable of the run."""
    error = ""
    with mock.patch.object(round_scheduler, "ENABLED", at_once):
        try:
            run = network.run(agents, [lambda now: {"probe_sum": sum(a.value for a in now.values())}], **settings)
        except NetsimError as caught:
            error = str(caught)
            run = caught.run  # type: ignore[attr-defined]
    places = {name: agent._netsim for name, agent in agents.items()}
    # A task that is cancelled while waiting for a round to open may still be counted in the previous round.
    is_whole = not error and settings.get("until") is None
    ends = [(at.first_round, at.outbox.sent, *((at.round, at.left) if is_whole else ())) for at in places.values()]
    events = run.trace.table().to_csv() if settings.get("trace") else None
    return error, digest(run), run.ended_at, events, ends, [agent.notes for agent in agents.values()]


def some_agents(rng: np.random.Generator, names: Sequence[Any], kinds: Sequence[type[Any]]) -> dict[Any, Any]:
    return {name: kinds[int(rng.integers(len(kinds)))](int(rng.integers(7)), float(rng.random())) for name in names}


@pytest.mark.parametrize("seed", [*range(24), *map(slow, range(24, 60))])
def test_a_run_is_the_same_at_once_or_not(seed: int) -> None:
    def run(at_once: bool) -> tuple[Any, ...]:
        rng = np.random.default_rng(seed)
        network, kinds = a_network(rng), (KINDS, [SteppedAtOnce, OwnStep])[seed % 2]
        while seed % 2 and network.link.corrupt:
            # A corrupted payload may have another shape. The error of `step_all` then names the batch's first agent,
            # not the receiver.
            network = a_network(rng)
        until = pick(rng, None, None, 2.5 * network.round_period)
        sample = pick(rng, None, None, 0.3 * network.round_period)
        agents = some_agents(rng, list(network.graph), kinds)
        return outcome(network, agents, at_once, until=until, sample=sample, trace=True)

    found, woken = run(True), run(False)
    # Compared as text, because agents may record NaN, which does not equal itself.
    assert repr(found) == repr(woken)
    assert not found[0]


@pytest.mark.parametrize("seed", range(20))
def test_an_error_is_the_same_at_once_or_not(seed: int) -> None:
    def run(at_once: bool) -> tuple[Any, ...]:
        rng = np.random.default_rng(seed)
        graph = topology.ring(5)
        agents: dict[Any, Noted] = {name: (Fails if rng.random() < 0.3 else Noted)(5, 0.0) for name in graph}
        agents[2] = Fails(5, 0.0)
        return outcome(Network(graph, Link(loss=0.3), seed=seed), agents, at_once)

    found, woken = run(True), run(False)
    assert found == woken
    assert "raised ValueError in round 3 (test_round_scheduler.py, line " in found[0]


@every("seed", range(10))
def test_an_error_of_a_step_is_the_same_at_once_or_not(seed: int) -> None:
    def run(at_once: bool) -> tuple[Any, ...]:
        rng = np.random.default_rng(seed)
        graph = topology.ring(5)
        agents = {name: FailsToStep(bool(rng.random() < 0.3) or name == 2) for name in graph}
        return outcome(Network(graph, Link(loss=0.3), seed=seed), agents, at_once)

    found, woken = run(True), run(False)
    assert found == woken
    assert "raised ValueError in round 3 (test_round_scheduler.py, line " in found[0]


def refused_kind(k: int) -> Any:
    return 3 if k == 2 else "value"


class Refused(Noted):
    async def say(self, k: int) -> None:
        await self.broadcast(refused_kind(k), 1.0)


class NotAsync(Noted):
    def say(self, k: int) -> None:  # type: ignore[override]
        pass


class FailsAtFirst(Noted):
    def begin(self) -> None:
        raise KeyError("first")


class LeavesRound(Noted):
    async def say(self, k: int) -> None:
        await self.send("nobody", "value", 1.0)


class Quits(Noted):
    async def say(self, k: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)


class LeavesErrors(Noted):
    """Creates tasks that fail and are never awaited."""

    def hear(self, frames: Sequence[Frame], k: int) -> None:
        self.kept = asyncio.create_task(self.fail())  # type: ignore[var-annotated]

    async def fail(self) -> None:
        raise ValueError("in the background")


@every("kind", [Refused, NotAsync, FailsAtFirst, LeavesRound, Quits, LeavesErrors])
@every("place", [0, 1, 3])
def test_mistakes_are_the_same_at_once_or_not(kind: type[Noted], place: int) -> None:
    def run(at_once: bool) -> tuple[Any, ...]:
        graph = topology.complete(4)
        agents = {i: (kind if i == place else Noted)(4, 1.0) for i in graph}
        return outcome(Network(graph, seed=1), agents, at_once)

    found, woken = run(True), run(False)
    assert found == woken
    assert f"agent {place}" in found[0]


class Odd(BaseException):
    """An exception that is not derived from `Exception`."""


@every("error", [Odd, asyncio.CancelledError, GeneratorExit, StopIteration, StopAsyncIteration])
@every("method", ["say", "hear"])
def test_whatever_an_agent_raises_ends_the_run_with_its_name(error: type[BaseException], method: str) -> None:
    class Raises(Noted):
        async def say(self, k: int) -> None:
            await super().say(k)
            self.perhaps("say", k)

        def hear(self, frames: Sequence[Frame], k: int) -> None:
            super().hear(frames, k)
            self.perhaps("hear", k)

        def perhaps(self, where: str, k: int) -> None:
            if self.name == 2 and k == 3 and where == method:
                raise error("no more")

    def run(at_once: bool) -> tuple[Any, ...]:
        graph = topology.ring(5)
        return outcome(Network(graph, Link(loss=0.3), seed=1), {i: Raises(5, 1.0) for i in graph}, at_once)

    found, woken = run(True), run(False)
    assert found == woken
    assert found[0].startswith("agent 2 ")
    assert "in round 3" in found[0]


def test_a_standstill_names_what_an_agent_waits_for() -> None:
    class WaitsForEver(Noted):
        async def say(self, k: int) -> None:
            if k == 2 and self.name == 1:
                await self.never()
            await super().say(k)

        async def never(self) -> None:
            await asyncio.Event().wait()

    def run(at_once: bool) -> tuple[Any, ...]:
        return outcome(Network(GRAPH), {i: WaitsForEver(4, 1.0) for i in GRAPH}, at_once)

    found, woken = run(True), run(False)
    assert found == woken
    assert "agent 1 waits for Event.wait() (test_round_scheduler.py, line " in found[0]


def test_agents_without_rounds_or_neighbours_end_at_once() -> None:
    def run(at_once: bool) -> tuple[Any, ...]:
        graph = topology.path(1)
        return outcome(Network(graph), {0: Noted(0, 1.0)}, at_once)

    assert run(True) == run(False)


def count_at_once(network: Network, make: Callable[[], netsim.Agent] = lambda: Stepped(2, 1.0), **settings: Any) -> int:
    """Run agents; return how many of them were batched."""
    with mock.patch.object(
        round_scheduler.RoundScheduler, "run", autospec=True, side_effect=round_scheduler.RoundScheduler.run
    ) as run:
        network.run({name: make() for name in network.graph}, **settings)
    return run.call_count


GRAPH = topology.ring(4)


def test_states_of_all_that_share_memory_become_states_of_their_own() -> None:
    agents = {i: OwnSum(2, 1.0) for i in GRAPH}
    Network(GRAPH).run(agents)
    agents[0].state += 1.0
    assert agents[0].value != agents[1].value


def test_step_and_step_all_agree_if_states_are_unalike() -> None:
    def run(at_once: bool) -> tuple[Any, ...]:
        agents = {i: SteppedAtOnce(3, float(i)) for i in GRAPH}
        # At first, agent 1's state has another dtype; `step_all` is only used if all states are float64.
        agents[1].state = np.array([1, 2])
        return outcome(Network(GRAPH), agents, at_once)

    assert run(True) == run(False)


@pytest.mark.parametrize("returned", [np.zeros(2), np.zeros((3, 2)), 1.0])
def test_step_all_must_return_a_state_for_each_agent(returned: Any) -> None:
    class Wrong(SteppedAtOnce):
        @classmethod
        def step_all(cls, states: Array, heard: HeardByAll) -> Any:
            return returned

    with pytest.raises(AgentError, match=r"Wrong\.step_all\(\) returned shape .*, but must return .* \(4, 2\)"):
        Network(GRAPH).run({i: Wrong(2, 1.0) for i in GRAPH})


def test_what_all_heard_has_the_shape_of_the_states() -> None:
    heard = HeardByAll([Heard(), Heard()], [], (2, 3))
    assert heard.sum().shape == (2, 2, 3)
    assert heard.counts.shape == (2, 1, 1)

    class Long(Stepped):
        async def say(self, k: int) -> None:
            await self.broadcast("state", np.zeros(3))

    with pytest.raises(AgentError, match=r"agent 1 heard a sum of shape \(3,\): must have that of its state, \(2,\)"):
        Network(topology.path(2)).run({0: Long(1, 0.0), 1: SteppedAtOnce(1, 0.0)})


def test_a_method_of_its_own_takes_an_agent_out_of_the_batch() -> None:
    def run(at_once: bool) -> tuple[Any, ...]:
        agents = {i: SteppedAtOnce(6, float(i)) for i in GRAPH}
        network = Network(GRAPH)
        network.at(2.5, lambda: setattr(agents[1], "step", lambda state, heard: -state))
        network.at(3.5, lambda: setattr(agents[3], "hear", lambda frames, k: None))
        return outcome(network, agents, at_once)

    assert run(True) == run(False)


def test_agents_are_taken_at_once_where_nothing_is_special() -> None:
    assert count_at_once(Network(GRAPH)) == 4
    assert count_at_once(Network(GRAPH, Link(loss=0.1, latency=0.3, rate=1e6, mtu=64), medium="radio")) == 4


@pytest.mark.parametrize(
    "network",
    [
        Network(GRAPH, inbox_limit=2),
        Network(GRAPH, faults=Faults([Crash(1, at=0.5, until=1.5)])),
        Network(GRAPH, Link(reliability="ack", latency=latency.constant(0.1))),
        Network(GRAPH, Link(rate=1e6), medium=netsim.Radio()),
    ],
    ids=["inbox limit", "faults", "acknowledged", "radio"],
)
def test_where_something_is_special_each_agent_is_woken(network: Network) -> None:
    assert count_at_once(network) == 0


def test_who_is_observed_or_has_its_own_way_is_woken() -> None:
    watched = Network(GRAPH)
    watched.watch(["value"])
    assert count_at_once(watched) == 0
    assert count_at_once(Network(GRAPH), clock="wall", pace=100.0) == 0
    assert count_at_once(Network(GRAPH), lambda: Alone(2, 1.0)) == 0
    assert count_at_once(Network(GRAPH), lambda: Noted(2, 1.0)) == 0
    kinds = itertools.cycle([Stepped, Alone])
    assert count_at_once(Network(GRAPH), lambda: next(kinds)(2, 1.0)) == 2


def test_an_agent_that_must_say_or_hear_says_so() -> None:
    class Mute(netsim.RoundAgent):
        count = 1

    with pytest.raises(AgentError, match=r"must define: async def say\(self, k\)"):
        Network(GRAPH).run({i: Mute() for i in GRAPH})
