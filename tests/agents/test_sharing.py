"""Copies of the neighbours' states, under all link faults."""

import asyncio
import pickle
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import netsim
from netsim import AgentError, Link, Network, Run, latency, topology
from netsim.agents import (
    COKE,
    CTA,
    CompleteOMKL,
    Diffusion,
    Geometric,
    GossipOMKL,
    LocalProblem,
    MultiKernelCost,
    Sharing,
    Squared,
    centralised,
)
from netsim.coders import QSGD, Coder, Exact, Float, Uniform
from netsim.core.records import DELIVERED, REFUSED
from netsim.links import Budget
from netsim.util.typing import Array

SIZE, ROUNDS = 6, 60

CODERS = [Exact(), Float(32), Uniform(5), QSGD(4)]
coders = pytest.mark.parametrize("coder", CODERS, ids=["none", "float32", "uniform", "qsgd"])


def problems(count: int) -> list[LocalProblem]:
    rng = np.random.default_rng(0)
    return [
        LocalProblem(rng.normal(size=(20, SIZE)), rng.normal(size=20), loss=Squared(), regularizer=1e-3 / count)
        for _ in range(count)
    ]


def coke(graph: Any, **settings: Any) -> dict[int, COKE]:
    local = problems(len(graph))
    return {i: COKE(local[i], ROUNDS, rho=0.1, **settings) for i in graph}


def models_by_round(agents: Mapping[int, Any], graph: Any, link: Link | None, name: str = "theta") -> tuple[Array, Run]:
    """Run agents; return an attribute of all agents after each round, shape (rounds, N, …), and the run."""
    models: list[Array] = []

    def watch(running: Mapping[int, Any]) -> dict[str, float]:
        models.append(np.stack([getattr(agent, name) for agent in running.values()]))
        return {}

    run = Network(graph, link, seed=3).run(agents, [watch])
    return np.array(models), run


# --- frames that come twice -------------------------------------------------------------------------------------------


@coders
def test_a_frame_that_comes_twice_counts_once(coder: Coder) -> None:
    graph = topology.ring(5)
    make = lambda: coke(graph, censor=Geometric(0.3, 0.9), coder=coder)  # noqa: E731
    expected, _ = models_by_round(make(), graph, None)
    models, run = models_by_round(make(), graph, Link(duplicate=0.2))
    assert run.ledger.exits[DELIVERED] > run.ledger.link_messages
    np.testing.assert_array_equal(models, expected)


def test_a_second_copy_that_an_agent_finds_a_round_later_does_not_count_either() -> None:
    class Share(netsim.Agent):
        async def run(self) -> None:
            self.sharing = Sharing(self, 2, coder=Uniform(5))
            async for k in self.rounds(4):
                if (self.name, k) == (1, 1):
                    # Sleep into the second round, so that the two copies of a frame are collected in different rounds.
                    await asyncio.sleep(1.5)
                await self.sharing.say(np.array([k, -1.0]), k)
                self.sharing.hear(await self.collect(), k)

    agents = {0: Share(), 1: Share()}
    link = Link(duplicate=1.0, latency=latency.trace([0.3, 0.8]))
    Network(topology.path(2), link).run(agents)
    np.testing.assert_array_equal(agents[1].sharing.copies[0], agents[0].sharing.own)


def test_averages_over_everybody_count_a_frame_that_comes_twice_once() -> None:
    graph = topology.complete(4)
    weights = topology.metropolis_weights(graph)

    def cost(i: int) -> MultiKernelCost:
        rng = np.random.default_rng(i)
        samples = ((rng.normal(size=2 * SIZE), float(rng.choice([-1.0, 1.0]))) for _ in range(ROUNDS))
        return MultiKernelCost(samples, 2, SIZE, regularizer=1e-2)

    def gossip(i: int) -> GossipOMKL:
        row = dict(enumerate(weights[i]))
        return GossipOMKL(cost(i), ROUNDS, eta=0.1, gamma=0.3, weights=row, coder=QSGD(3, by_row=True))

    def complete(i: int) -> CompleteOMKL:
        return CompleteOMKL(cost(i), ROUNDS, agents=4, eta=0.1, coder=QSGD(3, by_row=True))

    makers: list[Callable[[int], netsim.Agent]] = [gossip, complete]
    for make in makers:
        expected, _ = models_by_round({i: make(i) for i in graph}, graph, None, "model")
        models, run = models_by_round({i: make(i) for i in graph}, graph, Link(duplicate=0.2), "model")
        assert run.ledger.exits[DELIVERED] > run.ledger.link_messages
        np.testing.assert_array_equal(models, expected)


# --- broadcasts that no link takes ------------------------------------------------------------------------------------


def assert_copies_are_the_truth(running: Mapping[int, Any]) -> dict[str, float]:
    for agent in running.values():
        for name, copy in agent.sharing.copies.items():
            np.testing.assert_array_equal(copy, running[name].sharing.own)
    return {}


@coders
def test_a_refused_broadcast_changes_what_nobody_knows(coder: Coder) -> None:
    graph, rounds = topology.ring(5), 600
    local = problems(5)
    agents = {i: COKE(local[i], rounds, rho=0.1, coder=coder) for i in graph}
    # A frame has about 190 to 550 bits, so a budget of 125 bits per second refuses a third of the frames or more.
    link = Link(budget=Budget(125, per="second", burst=900))
    run = Network(graph, link).run(agents, [assert_copies_are_the_truth])
    assert run.ledger.exits[REFUSED] > 0.3 * run.ledger.link_messages
    assert sum(agent.sharing.spoken for agent in agents.values()) == run.ledger.transmissions < 0.7 * 5 * rounds
    assert abs(sum(agent.dual for agent in agents.values())).max() < 1e-12
    best = centralised(local, 1e-3)
    for agent in agents.values():
        np.testing.assert_allclose(agent.theta, best, rtol=0, atol=1e-7)


def test_an_agent_whose_own_links_are_cut_is_to_itself_what_it_is_to_others() -> None:
    graph = topology.ring(4)
    network = Network(graph)
    agents = coke(graph, coder=Uniform(5))
    for time, up in ((10.0, False), (30.0, True)):
        for other in graph[0]:
            network.at(time, partial(network.set_link, 0, other, up=up, one_way=True))
    before: list[int] = []

    def watch(running: Mapping[int, Any]) -> dict[str, float]:
        before.append(running[0].sharing.spoken)
        return assert_copies_are_the_truth(running)

    network.run(agents, [watch])
    assert before[9] == before[29] == 10
    assert before[-1] == ROUNDS - 20


def test_where_some_links_take_a_broadcast_it_counts() -> None:
    graph = topology.star(3)
    network = Network(graph)
    agents = coke(graph)
    network.at(0.0, lambda: network.set_link(0, 1, up=False, one_way=True))
    network.run(agents)
    assert agents[0].sharing.spoken == ROUNDS
    np.testing.assert_array_equal(agents[2].sharing.copies[0], agents[0].theta)
    np.testing.assert_array_equal(agents[1].sharing.copies[0], np.zeros(SIZE))


def test_an_agent_without_neighbours_knows_what_it_said() -> None:
    for coder in CODERS:
        agents = coke(topology.path(1), coder=coder)
        Network(topology.path(1), Link(budget=8)).run(agents)
        assert agents[0].sharing.spoken == ROUNDS
        np.testing.assert_allclose(agents[0].sharing.own, agents[0].theta, rtol=1e-6)


# --- local steps of others --------------------------------------------------------------------------------------------


class Descent(Diffusion):
    """A method whose step is ``way(agent, step)``, which may update the model in place or return another array type."""

    way: Callable[[Any, Array], Any]

    def local_step(self) -> Array:
        result: Array = type(self).way(self, self.eta * self.cost.gradient(self.theta))
        return result


def descents(way: Callable[[Any, Array], Any]) -> dict[int, Any]:
    kind = type("Mine", (Descent,), {"way": staticmethod(way)})
    rows = topology.metropolis_weights(topology.ring(4))
    local = problems(4)
    censor = Geometric(1e-9, 0.5)
    return {i: kind(local[i], 8, eta=0.1, weights=dict(enumerate(rows[i])), censor=censor) for i in range(4)}


def in_place(agent: Any, step: Array) -> Array:
    agent.theta -= step
    result: Array = agent.theta
    return result


def test_a_state_that_is_changed_in_place_is_sent_as_any_other() -> None:
    ring = topology.ring(4)
    changed, run = models_by_round(descents(in_place), ring, None)
    replaced, other = models_by_round(descents(lambda agent, step: agent.theta - step), ring, None)
    np.testing.assert_array_equal(changed, replaced)
    assert run.trace_hash == other.trace_hash
    assert run.ledger.transmissions == 4 * 8


@pytest.mark.parametrize(
    ("way", "said"),
    [(lambda *_: None, "NoneType"), (lambda _, step: step[:2], r"\(2,\)"), (lambda _, step: list(step), "list")],
)
def test_a_local_step_that_returns_no_state_is_named(way: Callable[[Any, Array], Any], said: str) -> None:
    with pytest.raises(
        AgentError, match=rf"Mine\.local_step\(\) returned {said}, but must return an array of shape \(6,\)"
    ):
        Network(topology.ring(4)).run(descents(way))


def test_a_method_without_a_local_step_is_named() -> None:
    local = problems(1)[0]
    with pytest.raises(AgentError, match=r"Diffusion must define local_step\(self\)"):
        Network(topology.complete(2)).run({i: Diffusion(local, 1, eta=0.1, weights={0: 0.5, 1: 0.5}) for i in (0, 1)})


def test_a_plain_dataclass_of_parameters_can_be_printed_before_it_runs() -> None:
    @dataclass
    class Boosted(Diffusion):
        boost: float = 2.0

    shown = repr(Boosted(problems(1)[0], 5, eta=0.1, weights={0: 1.0}))
    assert "eta=0.1" in shown
    assert "boost=2.0" in shown


# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (None, "weights: must have a number for 0, as for the agent and each neighbour"),
        ({0: 0.5}, "weights: must have a number for 1, as for"),
        ({0: 0.5, 1: "a"}, r"weights\[1\] = 'a': must be a number"),
        ([0.5, np.nan], r"weights\[1\] = "),
    ],
)
def test_weights_that_are_none_are_refused_as_a_run_begins(weights: Any, says: str) -> None:
    with pytest.raises(AgentError, match=f"agent 0 raised BadInput at 0 s: {says}"):
        Network(topology.complete(2)).run({i: CTA(problems(1)[0], 1, eta=0.1, weights=weights) for i in (0, 1)})


def test_whoever_has_no_weight_of_its_own_stays_where_it_is_until_it_hears_somebody() -> None:
    # The weights are doubly stochastic, but an agent's weight for itself is 0.
    agents = {i: CTA(each, 5, eta=0.1, weights={i: 0.0, 1 - i: 1.0}) for i, each in enumerate(problems(2))}
    models, _ = models_by_round(agents, topology.complete(2), Link(loss=1.0))
    assert np.isfinite(models).all()
    cost = problems(2)[0]
    np.testing.assert_allclose(models[1, 0], models[0, 0] - 0.1 * cost.gradient(models[0, 0]), rtol=1e-12)


def test_finished_agents_can_be_pickled_and_run_again() -> None:
    ring = topology.ring(4)
    first = coke(ring, censor=Geometric(0.1, 0.9))
    Network(ring, seed=3).run(first)
    second = pickle.loads(pickle.dumps(first))
    for i in ring:
        np.testing.assert_array_equal(second[i].theta, first[i].theta)
    third = deepcopy(first)
    assert Network(ring, seed=3).run(second).trace_hash == Network(ring, seed=3).run(third).trace_hash


# --- the first round --------------------------------------------------------------------------------------------------


class Momentum(Diffusion):
    """Shares the model and its momentum, which `start` sets up."""

    def start(self) -> None:
        self.momentum = np.ones_like(self.theta)
        super().start()

    def outgoing(self) -> Array:
        return np.concatenate([self.theta, self.momentum])

    def local_step(self) -> Array:
        return self.theta + self.momentum


def test_what_outgoing_needs_may_be_set_up_in_start() -> None:
    agents = {i: Momentum(each, 3, eta=0.1, weights={0: 0.5, 1: 0.5}) for i, each in enumerate(problems(2))}
    Network(topology.path(2)).run(agents)
    assert agents[0].sharing.copies[1].tolist() == [3.0] * SIZE + [1.0] * SIZE


def test_to_look_for_a_sharing_makes_none() -> None:
    agent = CTA(problems(1)[0], 2, eta=0.1, weights={0: 1.0})
    assert not hasattr(agent, "sharing")
    Network(topology.path(1)).run({0: agent})
    assert agent.sharing.is_of_this_run()
    agent.restart()
    with pytest.raises(AttributeError, match="'CTA' object has no attribute 'sharing' before its first round"):
        agent.sharing  # noqa: B018
