"""Compute times: a synchronous round lasts as long as its slowest agent; AD-PSGD waits only for its own steps."""

from typing import Any

import numpy as np
import pytest

from netsim import Agent, AgentError, Link, Network, latency, topology
from netsim.agents import ADPSGD, DPSGD, LocalProblem, Squared
from netsim.scenarios.tasks.baselines import BASELINES
from netsim.scenarios.tasks.method import Task, agents_of, over_star

AGENTS, FEATURES = 6, 4
_rng = np.random.default_rng(4)
_truth = _rng.standard_normal(FEATURES)
INPUTS = [_rng.standard_normal((12, FEATURES)) for _ in range(AGENTS)]
PROBLEMS = [
    LocalProblem(x, x @ _truth + 0.3 * _rng.standard_normal(12), loss=Squared(), regularizer=0.1) for x in INPUTS
]
RING = topology.ring(AGENTS)
SLOW = {i: latency.lognormal(1.0 if i == 2 else 0.1, 0.3) for i in range(AGENTS)}
SYNCHRONOUS = [name for name in BASELINES if name != "AD-PSGD"]


def learned(name: str, compute: Any, rounds: int = 25) -> tuple[list[np.ndarray], Any]:
    method = BASELINES[name]
    graph = topology.star(AGENTS) if over_star(method) else RING
    agents = agents_of(method, Task(PROBLEMS.__getitem__, graph), rounds)
    link = Link(latency=0.001, loss=0.1)
    run = Network(graph, link, round_period=0.1, compute=compute, seed=3).run(agents)
    return [agent.theta for agent in agents.values()], run


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_stragglers_cost_a_synchronous_method_seconds_and_nothing_else(name: str) -> None:
    (plain, quick), (timed, slow) = learned(name, None), learned(name, SLOW)
    # Shares are summed in order of arrival, which changes their rounding.
    np.testing.assert_allclose(timed, plain, rtol=0, atol=1e-12 if "weight" in vars(quick.agents[0]) else 0)
    for column in ("delivered", "wire_bits", "transmissions"):
        assert slow.rounds[column].tolist() == quick.rounds[column].tolist()
    np.testing.assert_allclose(quick.rounds["time_s"], 0.1 * np.arange(1, 26))
    lengths = np.diff(slow.rounds["time_s"], prepend=0.0)
    # Agent 2 takes 1 s in the median, and is the slowest.
    assert np.median(lengths) == pytest.approx(1.1, rel=0.3)
    assert (lengths > 0.1).all()


def paired(compute: Any, **given: Any) -> Any:
    agents = {i: ADPSGD(PROBLEMS[i], 20, eta=0.02, **given) for i in RING}
    return Network(RING, Link(latency=0.001), round_period=0.1, compute=compute, seed=3).run(agents)


def test_ad_psgd_takes_the_networks_times_in_place_of_its_own() -> None:
    times = {i: 2.0 if i == 2 else 0.25 for i in RING}
    run = paired(times, seconds=1e-3, spread=2.0)
    # There are 20 rounds of 2.1 s each.
    assert run.rounds["time_s"].iloc[-1] == pytest.approx(42.0)
    assert run.agents[2].steps == 20
    assert {run.agents[i].steps for i in RING if i != 2} == {int(42 / 0.252)}


def test_rows_of_ad_psgd_and_of_a_synchronous_method_stand_at_the_same_seconds() -> None:
    weights = topology.metropolis_weights(RING)
    agents = {i: DPSGD(PROBLEMS[i], 20, eta=0.02, weights=weights[i]) for i in RING}
    network = Network(RING, Link(latency=0.001), round_period=0.1, compute=SLOW, seed=3)
    assert network.run(agents).rounds["time_s"].tolist() == paired(SLOW).rounds["time_s"].tolist()


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = paired(SLOW), paired(SLOW)
    assert first.trace_hash == second.trace_hash
    for i in RING:
        np.testing.assert_array_equal(first.agents[i].theta, second.agents[i].theta)


def test_without_compute_times_ad_psgd_has_its_own() -> None:
    run = paired(None, seconds=0.05, spread=0.0)
    assert {agent.steps for agent in run.agents.values()} == {int(2.0 / 0.052)}


def test_an_agent_knows_whether_the_network_has_compute_times() -> None:
    class Asks(Agent):
        async def run(self) -> None:
            self.found = self.has_compute_times

    for compute, expected in ((None, False), (0.0, True)):
        run = Network(topology.path(1), compute=compute).run({0: Asks()})
        assert run.agents[0].found is expected
    with pytest.raises(AgentError, match="has not joined a network yet"):
        _ = Asks().has_compute_times
