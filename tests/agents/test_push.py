"""Push-sum methods on directed and time-varying graphs equal their recursions, with and without lost frames."""

from collections.abc import Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

import netsim
from netsim import BadInput, Link, Network, topology
from netsim.agents import SGP, LocalProblem, PushDIGing, Squared, centralised, schedule
from netsim.faults import Rewire
from tests.agents.test_batch import FEATURES, LAMBDA
from tests.oracle import push
from tests.parts import every, slow

Vector = NDArray[np.float64]

UNEVEN = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (3, 0), (1, 4)])
GRAPHS = {
    "uneven": UNEVEN,
    "ring": topology.directed_ring(4),
    "exponential": topology.directed_ring(8, hops=(1, 2, 4)),
    "random": topology.directed_random(7, 0.3, seed=2),
    "two": nx.DiGraph([(0, 1), (1, 0)]),
}


class Task:
    """A regression problem for the agents of a graph."""

    def __init__(self, graph: "nx.Graph[Any]", seed: int = 0) -> None:
        self.graph, rng = graph, np.random.default_rng(seed)
        data = [(rng.normal(size=(30, FEATURES)), rng.normal(size=30)) for _ in graph]
        share = LAMBDA / len(graph)
        self.problems = {
            i: LocalProblem(x, y, loss=Squared(), regularizer=share) for i, (x, y) in zip(graph, data, strict=True)
        }
        self.hessians = np.stack([2 * x.T @ x / 30 + 2 * share * np.eye(FEATURES) for x, _ in data])
        self.linear = np.stack([2 * x.T @ y / 30 for x, y in data])
        self.optimum = centralised(list(self.problems.values()), LAMBDA)

    def gradient(self, models: Vector) -> Vector:
        found: Vector = np.einsum("nij,nj->ni", self.hessians, models) - self.linear
        return found


def adjacency(graph: "nx.Graph[Any]") -> Vector:
    """Return the matrix A with A[i, j] = 1 if i sends to j, and 0 otherwise."""
    nodes = list(graph)
    return np.array([[float(graph.has_edge(a, b)) for b in nodes] for a in nodes])


def follow(network: Network, agents: Mapping[int, Any]) -> tuple[Vector, Vector, netsim.Run]:
    """Return the models, shape (rounds, N, D), and weights, shape (rounds, N), after each round, and the run."""
    models: list[Vector] = []
    weights: list[list[float]] = []

    def watch(playing: Mapping[int, Any]) -> dict[str, float]:
        models.append(np.stack([agent.theta for agent in playing.values()]))
        weights.append([agent.weight for agent in playing.values()])
        return {}

    run = network.run(agents, [watch])
    return np.array(models), np.array(weights), run


@every("graph", GRAPHS)
@every("running_sums", [False, True])
def test_sgp_equals_its_recursion(graph: str, running_sums: bool) -> None:
    task, steps = Task(GRAPHS[graph]), schedule.geometric(0.05, 0.99)
    agents = {i: SGP(task.problems[i], 60, eta=steps, running_sums=running_sums) for i in task.graph}
    models, weights, _ = follow(Network(task.graph), agents)
    start = np.zeros((len(task.graph), FEATURES))
    etas = [steps(k) for k in range(1, 61)]
    expected = push.sgp(task.gradient, [adjacency(task.graph)] * 60, start, etas)
    np.testing.assert_allclose(models, expected[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(weights, expected[1], rtol=0, atol=1e-12)


@every("graph", GRAPHS)
@every("running_sums", [False, True])
def test_push_diging_equals_its_recursion(graph: str, running_sums: bool) -> None:
    task = Task(GRAPHS[graph], 1)
    agents = {i: PushDIGing(task.problems[i], 80, eta=0.04, running_sums=running_sums) for i in task.graph}
    models, _, _ = follow(Network(task.graph), agents)
    expected = push.push_diging(task.gradient, [adjacency(task.graph)] * 80, [0.04] * 80, FEATURES)
    np.testing.assert_allclose(models, expected, rtol=0, atol=1e-9)


def changing(graphs: Sequence["nx.DiGraph[int]"], rounds: int) -> tuple[Network, list[Vector]]:
    """Return a network whose graph changes each round, and the adjacency matrix of each round."""
    network = Network(topology.union(graphs), faults=[Rewire(graphs, period=1.0, repeat=rounds)])
    return network, [adjacency(graphs[k % len(graphs)]) for k in range(rounds)]


SCHEDULES = {
    "one peer": topology.one_peer_exponential(8),
    # No single graph is connected, but the union of any three is.
    "in turn": [nx.DiGraph(), nx.DiGraph(), nx.DiGraph()],
}
for _place, _graph in enumerate(SCHEDULES["in turn"]):
    _graph.add_nodes_from(range(6))
    _graph.add_edges_from((i, (i + 1) % 6) for i in range(6) if i % 3 == _place)


@pytest.mark.parametrize("name", SCHEDULES)
def test_on_graphs_that_change_both_equal_their_recursions(name: str) -> None:
    network, graphs = changing(SCHEDULES[name], 60)
    task = Task(network.graph)
    start = np.zeros((len(task.graph), FEATURES))
    models, weights, _ = follow(network, {i: SGP(task.problems[i], 60, eta=0.03) for i in task.graph})
    expected = push.sgp(task.gradient, graphs, start, [0.03] * 60)
    np.testing.assert_allclose(models, expected[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(weights, expected[1], rtol=0, atol=1e-12)
    models, _, _ = follow(network, {i: PushDIGing(task.problems[i], 60, eta=0.02) for i in task.graph})
    np.testing.assert_allclose(
        models, push.push_diging(task.gradient, graphs, [0.02] * 60, FEATURES), rtol=0, atol=1e-9
    )


def test_without_steps_sgp_is_push_sum() -> None:
    agents = {i: SGP(Task(UNEVEN).problems[i], 200, eta=0.0) for i in UNEVEN}
    start = np.random.default_rng(1).normal(size=(5, FEATURES))
    for i, agent in agents.items():
        agent.theta = start[i]
    models, weights, _ = follow(Network(UNEVEN), agents)
    np.testing.assert_allclose(models[-1], np.tile(start.mean(axis=0), (5, 1)), atol=1e-12)
    # Push-sum keeps the sum of the weights at the number of agents, here 5; on an uneven graph the weights differ.
    np.testing.assert_allclose(weights.sum(axis=1), 5.0, atol=1e-12)
    assert np.ptp(weights[-1]) > 0.5


@pytest.mark.parametrize("rounds", [350, slow(2500)])
def test_push_diging_reaches_the_optimum_and_sgp_a_bias(rounds: int) -> None:
    network = Network(UNEVEN) if rounds == 350 else changing(SCHEDULES["in turn"], rounds)[0]
    task = Task(network.graph)
    models, _, _ = follow(network, {i: PushDIGing(task.problems[i], rounds, eta=0.05) for i in task.graph})
    np.testing.assert_allclose(models[-1], np.tile(task.optimum, (len(task.graph), 1)), atol=1e-8)
    models, _, _ = follow(network, {i: SGP(task.problems[i], rounds, eta=0.05) for i in task.graph})
    assert 1e-3 < np.abs(models[-1] - task.optimum).max() < 0.5


# --- lost frames ------------------------------------------------------------------------------------------------------


def arrivals(run: netsim.Run, nodes: list[int], rounds: int) -> NDArray[np.bool_]:
    """Return from a run's trace whether the frame from i to j in round k arrived, shape (rounds, N, N)."""
    table = run.trace.table()
    got = table[table["event"] == "delivered"]
    found = np.zeros((rounds, len(nodes), len(nodes)), dtype=bool)
    for row in got.itertuples():
        found[round(row.time_s), nodes.index(row.sender), nodes.index(row.receiver)] = True
    return found


@pytest.mark.parametrize("running_sums", [False, True])
def test_over_links_that_lose_sgp_equals_its_recursion(running_sums: bool) -> None:
    task, rounds = Task(UNEVEN), 20
    agents = {i: SGP(task.problems[i], rounds, eta=0.01, running_sums=running_sums) for i in UNEVEN}
    models: list[Vector] = []
    network = Network(UNEVEN, Link(loss=0.3), seed=4)

    def watch(playing: Mapping[int, Any]) -> dict[str, float]:
        models.append(np.stack([agent.theta for agent in playing.values()]))
        return {"least_weight": min(agent.weight for agent in playing.values())}

    run = network.run(agents, [watch], trace=True)
    arrived = arrivals(run, list(UNEVEN), rounds)
    assert 0.5 < arrived.sum() / (rounds * UNEVEN.number_of_edges()) < 0.9
    start = np.zeros((5, FEATURES))
    expected = push.lossy_sgp(task.gradient, adjacency(UNEVEN), arrived, start, 0.01, running=running_sums)
    np.testing.assert_allclose(np.array(models), expected[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(run.rounds["least_weight"], expected[1].min(axis=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [SGP, PushDIGing])
def test_lost_mass_makes_the_weights_vanish_and_running_sums_keep_them(kind: Any) -> None:
    task = Task(UNEVEN)
    found = {}
    for running_sums in (False, True):
        agents = {i: kind(task.problems[i], 700, eta=0.002, running_sums=running_sums) for i in UNEVEN}
        with np.errstate(all="ignore"):
            _, weights, _ = follow(Network(UNEVEN, Link(loss=0.2), seed=2), agents)
        found[running_sums] = weights
    assert found[False][-1].max() < 1e-20
    assert found[True][200:].min() > 0.001
    # The mass of a lost frame is missing from the sum until the next frame on that link arrives.
    assert found[True].sum(axis=1).max() <= 5.0 + 1e-9


@pytest.mark.parametrize("share", [slow(0.01), slow(0.1), 0.3])
def test_with_running_sums_push_diging_reaches_the_optimum(share: float) -> None:
    task = Task(UNEVEN)
    agents = {i: PushDIGing(task.problems[i], 450, eta=0.05, running_sums=True) for i in UNEVEN}
    models, _, _ = follow(Network(UNEVEN, Link(loss=share), seed=1), agents)
    np.testing.assert_allclose(models[-1], np.tile(task.optimum, (5, 1)), atol=1e-7)


def test_frames_that_come_twice_count_once() -> None:
    task = Task(UNEVEN)
    for running_sums in (False, True):
        once, twice = (
            follow(
                Network(UNEVEN, Link(duplicate=share)),
                {i: PushDIGing(task.problems[i], 20, eta=0.02, running_sums=running_sums) for i in UNEVEN},
            )[0]
            for share in (0.0, 1.0)
        )
        np.testing.assert_array_equal(once, twice)


def test_what_no_link_takes_is_not_given_away() -> None:
    """No frame fits the links' budget, so each agent keeps its mass and follows its own gradient only."""
    task = Task(UNEVEN)
    agents = {i: SGP(task.problems[i], 30, eta=0.05) for i in UNEVEN}
    models, weights, run = follow(Network(UNEVEN, Link(budget=1.0)), agents)
    assert run.ledger.table([])["delivered"].item() == 0
    np.testing.assert_array_equal(weights, np.ones((30, 5)))
    alone = np.zeros((5, FEATURES))
    for k in range(30):
        alone = alone - 0.05 * task.gradient(alone)
        np.testing.assert_allclose(models[k], alone, rtol=0, atol=1e-12)


def test_running_sums_are_refused_where_receivers_change() -> None:
    network, _ = changing(topology.one_peer_exponential(4), 5)
    task = Task(network.graph)
    agents = {i: SGP(task.problems[i], 5, eta=0.1, running_sums=True) for i in task.graph}
    with pytest.raises(netsim.AgentError, match="running_sums = True: must be False where the receivers change"):
        network.run(agents)


def test_wrong_arguments_are_refused() -> None:
    problem = Task(UNEVEN).problems[0]
    with pytest.raises(BadInput, match="eta = -1"):
        SGP(problem, 1, eta=-1.0)
    with pytest.raises(BadInput, match=r"eta = 0\.0"):
        PushDIGing(problem, 1, eta=0.0)
    with pytest.raises(BadInput, match="running_sums = 1"):
        SGP(problem, 1, eta=0.1, running_sums=1)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="cost = <object>: must have size and gradient, which SGP asks for"):
        SGP(object(), 1, eta=0.1)  # type: ignore[arg-type]
