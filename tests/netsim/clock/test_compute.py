"""Compute times: how long an agent computes, and how long a round waits for its slowest agent."""

import asyncio
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy import stats

from netsim import (
    Agent,
    AgentError,
    BadInput,
    Faults,
    Link,
    Network,
    RoundAgent,
    Run,
    Stalled,
    latency,
    presets,
    topology,
)
from netsim.clock.compute import ComputeTimes
from netsim.faults import ClockSkew, Crash
from netsim.links import Budget
from netsim.testing import Rounder, counts, play
from tests.command import on_the_other_core

EACH = {0: latency.trace([0.3, 0.1]), 1: latency.trace([0.2, 0.25, 0.05]), 2: latency.constant(0.125)}


def slowest(count: int) -> np.ndarray:
    """Compute, independently of netsim, the longest compute time of EACH in every round."""
    first, second = np.resize([0.3, 0.1], count), np.resize([0.2, 0.25, 0.05], count)
    return np.maximum(np.maximum(first, second), 0.125)


class Average(RoundAgent):
    """Averages the received values, and records when it sends."""

    def __init__(self, value: float, count: int) -> None:
        self.value, self.count, self.spoke = value, count, list[float]()

    async def say(self, k: int) -> None:
        self.spoke.append(self.now)
        await self.broadcast("x", self.value)

    def hear(self, frames: Any, k: int) -> None:
        # fsum is exact, so the result does not depend on the order of frames.
        self.value = math.fsum([self.value, *(frame.payload for frame in frames)]) / (1 + len(frames))


def averaged(compute: Any, count: int = 12, seed: int = 3, **settings: Any) -> Run:
    graph, link = topology.ring(5), Link(latency=0.01, loss=0.2)
    agents = {i: Average(float(i * i), count) for i in graph}
    in_run = {name: settings.pop(name) for name in ("workers", "until") if name in settings}
    network = Network(graph, link, seed=seed, compute=compute, **settings)
    return network.run(agents, [lambda agents: {"value": agents[0].value}], **in_run)


# --- the times --------------------------------------------------------------------------------------------------------


def test_a_time_is_a_function_of_the_seed_the_node_and_the_step() -> None:
    model = latency.lognormal(0.01, 0.5)
    few, more = ComputeTimes({"a": model, "b": model}, 7), ComputeTimes(dict.fromkeys("cbda", model), 7)
    forwards = [few.seconds("a", step) for step in range(200)]
    assert [more.seconds("a", step) for step in reversed(range(200))] == forwards[::-1]
    assert [few.seconds("b", step) for step in range(200)] != forwards
    assert ComputeTimes({"a": model}, 8).seconds("a", 0) != forwards[0]


def test_the_times_of_a_node_have_the_distribution_of_its_model() -> None:
    times = ComputeTimes({0: latency.lognormal(0.02, 0.7), 1: latency.constant(3.0)}, 1)
    drawn = [times.seconds(0, step) for step in range(5000)]
    assert stats.kstest(drawn, stats.lognorm(0.7, scale=0.02).cdf).pvalue > 1e-3
    assert {times.seconds(1, step) for step in range(100)} == {3.0}


def test_a_trace_begins_again_after_its_last_time() -> None:
    times = ComputeTimes(EACH, 0)
    assert [times.seconds(1, step) for step in range(100)] == np.resize([0.2, 0.25, 0.05], 100).tolist()
    np.testing.assert_allclose([times.waited(k) for k in range(101)], [0, *np.cumsum(slowest(100))], rtol=1e-12)


def test_a_model_that_draws_no_time_is_refused() -> None:
    class Backwards:
        fixed = None

        def delays(self, u: np.ndarray, first: int) -> np.ndarray:
            return -u

    with pytest.raises(BadInput, match=r"compute\['a'\] = .*Backwards.*: must draw finite seconds >= 0"):
        ComputeTimes({"a": Backwards()}, 1).waited(1)


# --- rounds -----------------------------------------------------------------------------------------------------------


def test_a_round_lasts_its_period_longer_than_its_slowest_agent_computes() -> None:
    agents = [Rounder(20) for _ in range(3)]
    run = play(*agents, shape=topology.complete, round_period=0.5, compute=EACH)
    closes = np.cumsum(0.5 + slowest(20))
    np.testing.assert_allclose(run.rounds["time_s"], closes, rtol=1e-12)
    for i, agent in enumerate(agents):
        own = [[0.3, 0.1], [0.2, 0.25, 0.05], [0.125]][i]
        np.testing.assert_allclose(agent.closed, closes, rtol=1e-12)
        begun = np.array([time for _, time in agent.opened])
        np.testing.assert_allclose(begun - [0, *closes[:-1]], np.resize(own, 20), rtol=1e-9)
        # Frames of fast agents wait in the inboxes of slow ones, and are collected in the right round.
        assert sorted(agent.heard) == [(k, other, k) for k in range(1, 21) for other in range(3) if other != i]


@pytest.mark.parametrize("compute", [0, 0.0, dict.fromkeys(range(5), 0.0)])
def test_no_time_is_as_no_compute_times(compute: Any) -> None:
    none, zero = averaged(None), averaged(compute)
    assert zero.rounds.equals(none.rounds)
    assert zero.trace_hash == none.trace_hash


@pytest.mark.parametrize("compute", [0.25, latency.lognormal(0.1, 1.0), latency.exponential(1e-12), 1e9])
def test_times_delay_the_rounds_of_a_synchronous_method_and_change_nothing_else(compute: Any) -> None:
    none, timed = averaged(None), averaged(compute)
    columns = [name for name in none.rounds if name != "time_s"]
    assert timed.rounds[columns].equals(none.rounds[columns])
    assert (timed.rounds["time_s"] >= none.rounds["time_s"]).all()
    assert averaged(compute).trace_hash == timed.trace_hash


def test_equal_times_make_longer_rounds_in_which_all_speak_at_once() -> None:
    run = averaged(0.25)
    assert run.rounds["time_s"].tolist() == [1.25 * k for k in range(1, 13)]
    assert all(agent.spoke == [1.25 * k + 0.25 for k in range(12)] for agent in run.agents.values())


def test_both_cores_give_the_same_rows_and_hash() -> None:
    code = (
        "from tests.netsim.clock.test_compute import *\n"
        "run = averaged(latency.lognormal(0.1, 1.0))\n"
        "print(run.trace_hash, run.rounds.to_csv())"
    )
    run = averaged(latency.lognormal(0.1, 1.0))
    assert on_the_other_core(code) == f"{run.trace_hash} {run.rounds.to_csv()}\n"


@pytest.mark.slow
def test_workers_wait_for_the_slowest_agent_of_all() -> None:
    model = latency.lognormal(0.1, 1.5)
    one, two = averaged(model), averaged(model, workers=2)
    assert two.rounds.equals(one.rounds)
    assert two.trace_hash == one.trace_hash


def test_a_run_ends_with_the_round_that_closes_at_its_end() -> None:
    times = averaged(EACH | {3: 0.0, 4: 0.0})
    end = times.rounds["time_s"][4]
    run = averaged(EACH | {3: 0.0, 4: 0.0}, until=end)
    assert run.rounds.equals(times.rounds[:5])
    assert averaged(0.5, until=1e12).rounds.equals(averaged(0.5).rounds)


def test_rows_of_samples_show_the_time_of_samples() -> None:
    agents = [Rounder(4) for _ in range(2)]
    run = play(*agents, round_period=0.5, compute=0.25, sample=0.75)
    assert run.rounds["time_s"].tolist() == [0.75, 1.5, 2.25, 3.0]
    assert run.rounds["delivered"].tolist() == [2, 4, 6, 8]


def test_agents_that_compute_at_different_times_collide_less_often() -> None:
    preset = presets.ieee802154()
    collided = []
    for compute in (None, 0.0, latency.uniform(0.0, 0.5)):
        agents = {i: Average(float(i), 6) for i in range(5)}
        network = Network(topology.complete(5), preset.link, medium=preset.medium, seed=1, compute=compute)
        collided.append(int(network.run(agents).rounds["collided"].iloc[-1]))
    assert collided[0] == collided[1] > 10 > collided[2]


def test_an_agent_that_starts_again_takes_part_in_the_round_that_opens_next() -> None:
    faults = Faults([Crash(0, at=1.0, until=3.3, keeps_state=True)])
    run = averaged(0.5, count=4, faults=faults)
    # Rounds open at 0, 1.5, 3.0 and 4.5 s; computing takes 0.5 s.
    assert run.agents[0].spoke == [0.5, 5.0]
    assert run.rounds["time_s"].tolist() == [1.5, 3.0, 4.5, 6.0]


def test_a_trace_has_no_rounds_of_one_length() -> None:
    agents = [Rounder(4) for _ in range(2)]
    scene = play(*agents, compute=0.25, trace=True).ledger.scene
    assert scene is not None
    assert scene.rounds == 0


def test_time_that_is_too_long_for_a_run_is_a_standstill() -> None:
    with pytest.raises(Stalled, match=r"later than 1e\+12 s never comes"):
        averaged(1e12)


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (-0.1, "compute = -0.1: must be a number >= 0"),
        (math.nan, "compute = nan: must be a number"),
        (math.inf, "compute = inf: must be finite"),
        (1e13, r"compute = 10000000000000.0: must be at most 1e\+12"),
        ("fast", "compute = 'fast': must be a number"),
        ({0: 0.1}, "compute: must have the nodes of the graph as keys; 1 is in one of them only"),
        (dict.fromkeys(range(6), 0.1), "compute: must have the nodes of the graph as keys; 5 is in one of them only"),
        ({0: -1.0, 1: 0, 2: 0, 3: 0, 4: 0}, r"compute\[0\] = -1.0: must be a number >= 0"),
    ],
)
def test_what_is_no_time_is_refused(compute: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        averaged(compute)


def test_what_counts_on_equal_rounds_is_refused() -> None:
    with pytest.raises(BadInput, match=r"compute = 0.1: must be left out with a ClockSkew"):
        averaged(0.1, faults=[ClockSkew(0, drift=1e-4)])
    graph = topology.ring(5)
    with pytest.raises(BadInput, match=r"budget = 100\.0: must be a Budget per second with compute times"):
        Network(graph, Link(budget=100), compute=0.1)
    Network(graph, Link(budget=Budget(100, per="second")), compute=0.1)


# --- an agent that computes -------------------------------------------------------------------------------------------


class Busy(Agent):
    """Computes for given times; records the end of each computation and the frames received by then."""

    def __init__(self, times: list[float | None]) -> None:
        self.times, self.ends, self.waiting = times, list[float](), list[int]()

    async def run(self) -> None:
        for seconds in self.times:
            await self.compute(seconds)
            self.ends.append(self.now)
            self.waiting.append(len(self.inbox))
            await self.broadcast("x", len(self.ends))


def test_time_passes_for_the_agent_that_computes_and_frames_wait_for_it() -> None:
    run = play(Busy([0.25, 0.25, 0.25]), Busy([2.0, 0.5]), link=Link(latency=0.125))
    fast, slow = run.agents.values()
    assert fast.ends == [0.25, 0.5, 0.75]
    assert slow.ends == [2.0, 2.5]
    assert slow.waiting == [3, 3]


def test_the_networks_times_are_taken_one_after_the_other() -> None:
    run = play(Busy([None] * 5), Busy([None, 1.0, None]), compute={0: EACH[0], 1: EACH[1]})
    np.testing.assert_allclose(run.agents[0].ends, np.cumsum([0.3, 0.1, 0.3, 0.1, 0.3]))
    np.testing.assert_allclose(run.agents[1].ends, np.cumsum([0.2, 1.0, 0.25]))


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (-1e-9, "seconds = -1e-09: must be a number >= 0"),
        (math.nan, "seconds = nan: must be a number"),
        (math.inf, "seconds = inf: must be finite"),
        ("1", "seconds = '1': must be a number"),
        (None, r"compute\(\) must have the seconds, or a network with compute times"),
    ],
)
def test_an_agent_cannot_compute_for_what_is_no_time(seconds: Any, message: str) -> None:
    with pytest.raises(AgentError, match=message):
        play(Busy([seconds]), Busy([]))


def test_zero_and_tiny_times_are_times() -> None:
    run = play(Busy([0, 0.0, 1e-300, 1e-12]), Busy([1e12]), until=1.0)
    assert run.agents[0].ends == [0.0, 0.0, 1e-300, 1e-12]
    assert run.agents[1].ends == []


@pytest.mark.slow
def test_agents_that_compute_for_no_time_for_ever_are_named() -> None:
    class Idle(Agent):
        async def run(self) -> None:
            while True:
                await self.compute(0)

    with pytest.raises(AgentError, match="agent 1 never lets time pass"):
        play(Busy([]), Idle())


def test_who_computes_within_a_round_is_late_for_it() -> None:
    class Slow(Rounder):
        async def step(self, k: int) -> None:
            if self.name == 0:
                await self.compute(1.5)
            await super().step(k)

    with pytest.warns(RuntimeWarning, match="agent 0 overran round 1 .* longer than its 1 s"):
        run = play(Slow(4), Slow(8))
    assert [number for number, _ in run.agents[0].opened] == [1, 3, 5, 7]
    assert counts(run, sender=0) == {"late": 4}


def test_time_passes_for_one_task_only() -> None:
    class Both(Busy):
        async def run(self) -> None:
            working = asyncio.create_task(super().run())
            self.frame = await self.inbox.get()
            self.heard_at = self.now
            await working

    run = play(Both([2.0]), Busy([0.5]))
    both: Mapping[Any, Any] = run.agents
    assert both[0].heard_at == 0.5
    assert both[0].ends == [2.0]
