"""CHOCO-SGD and Push-DIGing equal their recursions, and reach the centralised optimum."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from netsim import BadInput, Link, Network, topology
from netsim.agents import CHOCO, PushDIGing, centralised, schedule
from netsim.agents.papers import Cited
from netsim.coders import Float, Uniform
from tests.agents.test_batch import GRAPHS, LAMBDA, Task
from tests.oracle import batch
from tests.parts import slow

ROUNDS = 40


def models_of(network: Network, agents: Mapping[int, CHOCO | PushDIGing]) -> NDArray[np.float64]:
    """Return the models after each round, shape (rounds, N, D)."""
    models: list[NDArray[np.float64]] = []

    def watch(playing: Mapping[int, CHOCO | PushDIGing]) -> dict[str, float]:
        models.append(np.stack([agent.theta for agent in playing.values()]))
        return {}

    network.run(agents, [watch])
    return np.array(models)


def weights_of(task: Task) -> tuple[NDArray[np.float64], list[dict[int, float]]]:
    weights = topology.metropolis_weights(task.graph)
    return weights, [dict(enumerate(row)) for row in weights]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("bits", [None, 3])
def test_choco_equals_its_recursion(graph: str, bits: int | None) -> None:
    task = Task(graph, 0)
    matrix, rows = weights_of(task)
    steps = schedule.power(0.3)
    agents = {
        i: CHOCO(
            task.problems[i],
            ROUNDS,
            eta=steps,
            gamma=0.4,
            weights=rows[i],
            coder=Float(64) if bits is None else Uniform(bits),
        )
        for i in task.graph
    }
    etas = 0.3 / np.sqrt(np.arange(1.0, ROUNDS + 1))
    compress: Callable[..., NDArray[np.float64]] = (
        (lambda change: change) if bits is None else batch.uniform_quantizer(bits)
    )
    expected = batch.choco(task.gram, task.cross, matrix, task.share, etas, 0.4, compress)
    np.testing.assert_allclose(models_of(Network(task.graph), agents), expected, rtol=0, atol=1e-9)


def test_without_steps_choco_keeps_the_mean_and_finds_it() -> None:
    task = Task("random", 0)
    _, rows = weights_of(task)
    agents = {
        i: CHOCO(task.problems[i], 300, eta=0.0, gamma=0.5, weights=rows[i], coder=Uniform(4)) for i in task.graph
    }
    start = np.random.default_rng(1).normal(size=(len(agents), task.problems[0].size))
    for i, agent in agents.items():
        agent.theta = start[i]
    models = models_of(Network(task.graph), agents)
    for found in models[:: ROUNDS // 8]:
        np.testing.assert_allclose(found.mean(axis=0), start.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(models[-1], np.tile(start.mean(axis=0), (len(agents), 1)), atol=1e-6)


@pytest.mark.parametrize("graph", GRAPHS)
def test_push_diging_equals_its_recursion(graph: str) -> None:
    task = Task(graph, 1)
    steps = schedule.geometric(0.05, 0.999)
    agents = {i: PushDIGing(task.problems[i], ROUNDS, eta=steps) for i in task.graph}
    etas = np.array([steps(k) for k in range(1, ROUNDS + 1)])
    expected = batch.push_diging(task.gram, task.cross, task.adjacency, task.share, etas)
    np.testing.assert_allclose(models_of(Network(task.graph), agents), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("graph", [slow("star"), "path"])
def test_push_diging_reaches_the_optimum_without_weights_that_both_ends_agree_on(graph: str) -> None:
    task = Task(graph, 1)
    models = models_of(Network(task.graph), {i: PushDIGing(task.problems[i], 6000, eta=0.02) for i in task.graph})
    optimum = centralised(task.problems, LAMBDA)
    np.testing.assert_allclose(models[-1], np.tile(optimum, (len(task.graph), 1)), atol=1e-8)


def test_on_links_that_lose_push_diging_settles_elsewhere() -> None:
    task = Task("ring", 0)
    agents = {i: PushDIGing(task.problems[i], 100, eta=0.01) for i in task.graph}
    models = models_of(Network(task.graph, Link(loss=0.1), seed=1), agents)
    ideal = models_of(Network(task.graph), {i: PushDIGing(task.problems[i], 100, eta=0.01) for i in task.graph})
    optimum = centralised(task.problems, LAMBDA)
    assert np.abs(models[-1] - optimum).max() > 2 * np.abs(ideal[-1] - optimum).max()


def test_frames_that_come_twice_count_once() -> None:
    task = Task("ring", 0)
    once = models_of(Network(task.graph), {i: PushDIGing(task.problems[i], 20, eta=0.02) for i in task.graph})
    twice = models_of(
        Network(task.graph, Link(duplicate=1.0)), {i: PushDIGing(task.problems[i], 20, eta=0.02) for i in task.graph}
    )
    np.testing.assert_array_equal(once, twice)


def test_wrong_arguments_are_refused() -> None:
    problem = Task("one", 0).problems[0]
    with pytest.raises(BadInput, match="count = -1"):
        PushDIGing(problem, -1, eta=0.1)
    with pytest.raises(BadInput, match=r"eta = 0\.0"):
        PushDIGing(problem, 1, eta=0.0)
    with pytest.raises(BadInput, match="gamma = inf"):
        CHOCO(problem, 1, eta=0.1, gamma=math.inf, weights={0: 1.0})


def test_every_algorithm_says_what_to_cite() -> None:
    from netsim import agents

    algorithms = [each for name in agents.__all__ if isinstance(each := getattr(agents, name), type)]
    cited = {each.__name__: each.citation() for each in algorithms if issubclass(each, Cited)}
    # Base classes implement no published algorithm, so they cite nothing.
    bases = {"SharingAgent", "Dual", "Diffusion", "Push", "Tracking", "Collector", "Neighbors"}
    assert {"COKE", "CTA", "DKLA", "ODKLA", "GossipOMKL", "CHOCO", "PushDIGing", "GreedyPenalty"} <= set(cited)
    for name, reference in cited.items():
        assert (name in bases) == (reference == ""), name
