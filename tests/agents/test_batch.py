"""On ideal links CTA, DKLA, COKE and quantized COKE equal their matrix recursions at every round."""

from collections.abc import Callable, Mapping
from typing import Any

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from netsim import BadInput, Link, Network, latency, topology
from netsim.agents import COKE, CTA, DDKL, DKLA, ODKLA, Geometric, LocalProblem, Logistic, Squared, centralised
from netsim.agents.consensus.base import SharingAgent
from netsim.coders import QSGD, Coder, Exact, Float, Uniform
from tests.oracle import batch
from tests.parts import every, slow

FEATURES, ROUNDS, LAMBDA, RHO = 12, 40, 1e-3, 0.05
GRAPHS = {
    "random": lambda seed: topology.erdos_renyi(8, p=0.4, seed=seed),
    "ring": lambda seed: topology.ring(5),
    "star": lambda seed: topology.star(6),
    "path": lambda seed: topology.path(4),
    "two": lambda seed: topology.path(2),
    "one": lambda seed: topology.path(1),
}
MOST = [slow(name) if name in ("ring", "path") else name for name in GRAPHS]
"""The graphs for laws that hold on each graph; quick tests use only some of them."""


class Task:
    """A regression problem on a graph, and its stacked form for the oracle."""

    def __init__(self, graph: str, seed: int, even: bool = False) -> None:
        """Draw the problem; with ``even`` all features have one size, so that methods converge five times as fast."""
        self.graph = GRAPHS[graph](seed)
        rng = np.random.default_rng(seed)
        scale = 0.3 + rng.random(FEATURES)
        if even:
            scale = np.ones(FEATURES)
        self.data = [(rng.normal(size=(30, FEATURES)) * scale, rng.normal(size=30)) for _ in self.graph]
        self.share = LAMBDA / len(self.graph)
        self.problems = [LocalProblem(x, y, loss=Squared(), regularizer=self.share) for x, y in self.data]
        self.gram, self.cross = batch.stack(self.data)
        self.adjacency = nx.to_numpy_array(self.graph, weight=None)

    def run(
        self, make: Callable[[int], SharingAgent], link: Link | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the models after each round, shape (rounds, N, D), and which agents broadcast, shape (rounds, N)."""
        models: list[NDArray[np.float64]] = []
        spoken: list[list[int]] = []

        def watch(agents: Mapping[int, SharingAgent]) -> dict[str, float]:
            models.append(np.stack([agent.theta for agent in agents.values()]))
            spoken.append([agent.sharing.spoken for agent in agents.values()])
            return {}

        self.result = Network(self.graph, link, seed=3).run({i: make(i) for i in self.graph}, [watch])
        return np.array(models), np.diff(np.array(spoken), axis=0, prepend=0).astype(bool)


@every("graph", GRAPHS)
@every("seed", [0, 1])
def test_cta_equals_its_recursion(graph: str, seed: int) -> None:
    task = Task(graph, seed)
    weights = topology.metropolis_weights(task.graph)
    models, _ = task.run(lambda i: CTA(task.problems[i], ROUNDS, eta=0.3, weights=dict(enumerate(weights[i]))))
    expected, _ = batch.cta(task.gram, task.cross, weights, task.share, 0.3, ROUNDS)
    np.testing.assert_allclose(models, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("graph", GRAPHS)
def test_censored_cta_combines_what_is_known_of_who_never_spoke(graph: str) -> None:
    task = Task(graph, 0)
    weights = topology.metropolis_weights(task.graph)
    censor = Geometric(1.0, 0.97)
    models, sent = task.run(
        lambda i: CTA(task.problems[i], ROUNDS, eta=0.3, weights=dict(enumerate(weights[i])), censor=censor)
    )
    thresholds = 0.97 ** np.arange(1.0, ROUNDS + 1)
    expected, expected_sent = batch.cta(task.gram, task.cross, weights, task.share, 0.3, ROUNDS, thresholds)
    assert not sent[0].any()
    np.testing.assert_array_equal(sent, expected_sent)
    np.testing.assert_allclose(models, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("graph", MOST)
@pytest.mark.parametrize("seed", [0, slow(1)])
@pytest.mark.parametrize(
    ("v", "mu", "bits"), [(0.0, 1.0, None), (1.0, 0.95, None), (1.0, 0.95, 3), (0.0, 1.0, 1), (0.5, 0.9, 8)]
)
@pytest.mark.parametrize("squared", [False, True])
def test_coke_equals_its_recursion(graph: str, seed: int, v: float, mu: float, bits: int | None, squared: bool) -> None:
    task = Task(graph, seed)
    coder: Coder = Exact() if bits is None else Uniform(bits)
    quantize = None if bits is None else batch.uniform_quantizer(bits)
    censor = Geometric(v, mu, squared=squared)
    models, sent = task.run(lambda i: COKE(task.problems[i], ROUNDS, rho=RHO, censor=censor, coder=coder))
    expected, expected_sent = batch.coke(
        task.gram, task.cross, task.adjacency, task.share, RHO, ROUNDS, v, mu, quantize, squared=squared
    )
    np.testing.assert_array_equal(sent, expected_sent)
    np.testing.assert_allclose(models, expected, rtol=0, atol=1e-9)


def test_latency_within_a_round_changes_nothing() -> None:
    task = Task("random", 0)
    make = lambda i: COKE(task.problems[i], ROUNDS, rho=RHO, censor=Geometric(1.0, 0.95))  # noqa: E731
    ideal, _ = task.run(make)
    delayed, _ = task.run(make, Link(latency=latency.uniform(0.1, 0.9)))
    np.testing.assert_array_equal(ideal, delayed)


def test_dkla_is_coke_without_censoring_and_reaches_the_centralised_model() -> None:
    task = Task("random", 1)
    models, sent = task.run(lambda i: DKLA(task.problems[i], 2000, rho=0.3))
    assert sent.all()
    optimum = centralised(task.problems, LAMBDA)
    np.testing.assert_allclose(optimum, batch.optimum(task.gram, task.cross, LAMBDA), rtol=0, atol=1e-9)
    np.testing.assert_allclose(models[-1], np.tile(optimum, (8, 1)), rtol=0, atol=1e-6)


def test_logistic_dkla_reaches_the_centralised_model() -> None:
    graph = topology.ring(4)
    rng = np.random.default_rng(0)
    problems = []
    for _ in graph:
        x = rng.normal(size=(40, 5))
        y = np.where(x[:, 0] + 0.5 * rng.normal(size=40) > 0, 1.0, -1.0)
        problems.append(LocalProblem(x, y, loss=Logistic(), regularizer=1e-2 / 4))
    run = Network(graph).run({i: DKLA(problems[i], 300, rho=0.05) for i in graph})
    optimum = centralised(problems, 1e-2)
    for agent in run.agents.values():
        np.testing.assert_allclose(agent.theta, optimum, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "coder",
    [Exact(), Float(16), Float(32), Uniform(4), Uniform(6, -2, 2), QSGD(4)],
    ids=lambda coder: f"{type(coder).__name__}{getattr(coder, 'bits', '')}",
)
def test_copies_equal_the_truth_on_ideal_links(coder: Coder) -> None:
    task = Task("random", 2)
    task.run(lambda i: COKE(task.problems[i], 50, rho=RHO, censor=Geometric(1.0, 0.9), coder=coder))
    agents = task.result.agents
    for agent in agents.values():
        for name, copy in agent.sharing.copies.items():
            np.testing.assert_array_equal(copy, agents[name].sharing.own)
    assert abs(sum(agent.dual for agent in agents.values())).max() < 1e-12


def test_bits_of_each_coder_are_counted_as_they_travel() -> None:
    task = Task("ring", 0)
    task.run(lambda i: COKE(task.problems[i], 10, rho=RHO, coder=Uniform(3, -4, 4)))
    ledger = task.result.ledger
    assert ledger.payload_bits == ledger.transmissions * 3 * FEATURES
    task.run(lambda i: DKLA(task.problems[i], 10, rho=RHO))
    assert task.result.ledger.payload_bits == 5 * 10 * 64 * FEATURES


def test_a_lost_message_unbalances_the_duals() -> None:
    task = Task("random", 0)
    task.run(lambda i: DKLA(task.problems[i], 50, rho=RHO), Link(loss=0.2))
    assert abs(sum(agent.dual for agent in task.result.agents.values())).max() > 1e-3


def test_cta_leaves_out_neighbours_it_never_heard() -> None:
    task = Task("path", 0)
    weights = topology.metropolis_weights(task.graph)
    make = lambda i: CTA(task.problems[i], ROUNDS, eta=0.3, weights=dict(enumerate(weights[i])))  # noqa: E731
    models, _ = task.run(make, Link(loss=1.0))
    alone, _ = batch.cta(task.gram, task.cross, np.eye(4), task.share, 0.3, ROUNDS)
    np.testing.assert_allclose(models, alone, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda problem: COKE(problem, 10, rho=0.0), "rho = 0.0"),
        (lambda problem: COKE(problem, -1, rho=1.0), "count = -1"),
        (lambda problem: CTA(problem, 10, eta=-1.0, weights={}), "eta = -1.0"),
        (lambda problem: Geometric(-1.0, 0.5), "threshold = -1.0"),
        (lambda problem: Geometric(1.0, 1.5), "decay = 1.5"),
    ],
)
def test_bad_parameters_are_named(make: Callable[[LocalProblem], object], named: str) -> None:
    with pytest.raises(BadInput, match=f"^{named}: must be [^\n]+$"):
        make(Task("two", 0).problems[0])


class Bare:
    """A cost that has only a size and a gradient."""

    size = 3

    def gradient(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        return theta


@pytest.mark.parametrize(
    ("kind", "given", "asked", "missing"),
    [
        (DKLA, {"rho": 1.0}, "size and proximal", "proximal"),
        (COKE, {"rho": 1.0}, "size and proximal", "proximal"),
        (ODKLA, {"rho": 1.0, "eta": 1.0}, "size and draw and gradient", "draw"),
        (DDKL, {"rho": 1.0}, "size and draw and argmin", "draw and no argmin"),
    ],
)
def test_a_cost_without_what_a_method_asks_for_is_refused_when_the_agent_is_made(
    kind: Any, given: dict[str, float], asked: str, missing: str
) -> None:
    with pytest.raises(BadInput) as caught:
        kind(Bare(), 5, **given)
    allowed = f"must have {asked}, which {kind.__name__} asks for"
    assert str(caught.value) == f"cost = <Bare>: {allowed}; it has no {missing}"


def test_a_step_of_ones_own_asks_for_what_it_likes() -> None:
    class Mine(DKLA):
        def local_step(self) -> NDArray[np.float64]:
            return self.theta - self.cost.gradient(self.theta)

    assert Mine(Bare(), 5, rho=1.0).theta.shape == (3,)  # type: ignore[arg-type]
    assert CTA(Bare(), 5, eta=0.1, weights={0: 1.0}).theta.shape == (3,)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="it has no size"):
        CTA(object(), 5, eta=0.1, weights={0: 1.0})  # type: ignore[arg-type]
