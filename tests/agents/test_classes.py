"""Multiclass learning: the matrix-valued costs, their solvers, and every method on them."""

from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from netsim import Link, Network, topology
from netsim.agents import COKE, CTA, DDKL, DKLA, DOKL, ODKLA, RFFDOKL, Geometric, Logistic, Squared, SquaredHinge
from netsim.agents.costs.classes import ClassProblem, OnlineClasses, centralised_classes
from netsim.agents.costs.multiclass import MulticlassHinge, MulticlassLoss, OneVsRest, Softmax
from netsim.agents.measures.metrics import accuracy, balanced_accuracy, confusion_matrix
from netsim.coders import Uniform
from netsim.errors import BadInput, NetsimError
from netsim.util.typing import Matrix
from tests.parts import every, slow

C, D = 3, 6

SMOOTH: list[MulticlassLoss] = [
    Softmax(C),
    MulticlassHinge(C, 0.2),
    OneVsRest(Squared(), C),
    OneVsRest(Logistic(), C),
    OneVsRest(SquaredHinge(), C),
]
IDS = ["softmax", "smooth hinge", "squares", "logistic", "squared hinge"]
each_loss = pytest.mark.parametrize("loss", SMOOTH, ids=IDS)


def samples(seed: int, count: int = 40) -> tuple[Matrix, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((count, D)) / np.sqrt(D)
    truth = 3 * np.random.default_rng(99).standard_normal((D, C))
    scores = features @ truth + 0.3 * rng.standard_normal((count, C))
    return features, scores.argmax(axis=1)


def problem(loss: MulticlassLoss, seed: int = 0, regularizer: float = 1e-2, count: int = 40) -> ClassProblem:
    return ClassProblem(*samples(seed, count), loss=loss, regularizer=regularizer)


def reference(cost: Callable[[Matrix], float], start: Matrix) -> Matrix:
    """Return the minimum that scipy finds with numerical gradients."""
    found = minimize(lambda v: cost(v.reshape(start.shape)), start.ravel(), method="BFGS", options={"gtol": 1e-7})
    return found.x.reshape(start.shape)


@each_loss
def test_gradients_are_the_slopes_of_the_values(loss: MulticlassLoss) -> None:
    p = problem(loss)
    rng = np.random.default_rng(1)
    theta, direction = rng.standard_normal((2, D, C))
    step = 1e-6
    numeric = (p.value(theta + step * direction) - p.value(theta - step * direction)) / (2 * step)
    assert numeric == pytest.approx(np.vdot(p.gradient(theta), direction), rel=1e-7)


def test_the_value_is_the_mean_loss_and_the_regulariser() -> None:
    p = problem(Softmax(C), regularizer=0.5)
    theta = np.random.default_rng(1).standard_normal((D, C))
    scores = p.features @ theta
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    by_hand = -np.mean(np.log(chances[np.arange(40), p.labels])) + 0.5 * np.sum(theta**2)
    assert p.value(theta) == pytest.approx(by_hand, rel=1e-12)


@each_loss
def test_the_local_step_is_the_minimum(loss: MulticlassLoss) -> None:
    p = problem(loss)
    solve = p.proximal(0.3)
    for seed in range(3):
        linear = np.random.default_rng(seed).standard_normal((D, C))
        theta = solve(linear)
        slope = p.gradient(theta) + 0.6 * theta + linear
        assert np.abs(slope).max() < 1e-7

        def cost(v: Matrix, linear: Matrix = linear) -> float:
            return p.value(v) + 0.3 * np.vdot(v, v) + np.vdot(linear, v)

        assert np.allclose(theta, reference(cost, np.zeros((D, C))), atol=1e-5)


def test_a_solver_keeps_what_it_returned() -> None:
    solve = problem(Softmax(C)).proximal(0.3)
    linear = np.ones((D, C))
    first = solve(linear)
    kept = first.copy()
    first += 1
    assert np.allclose(solve(linear), kept, atol=1e-8)


@each_loss
def test_the_centralised_model_is_the_minimum(loss: MulticlassLoss) -> None:
    problems = [problem(loss, seed, regularizer=7.0, count=20 + 9 * seed) for seed in range(3)]
    theta = centralised_classes(problems, 0.02)

    def cost(v: Matrix) -> float:
        own = sum(p.value(v) - 7.0 * np.vdot(v, v) for p in problems)
        return float(own + 0.02 * np.vdot(v, v))

    assert np.allclose(theta, reference(cost, np.zeros((D, C))), atol=1e-4)
    assert cost(theta) <= cost(reference(cost, np.zeros((D, C)))) + 1e-10


@pytest.mark.parametrize(
    "loss",
    [loss if name in ("softmax", "smooth hinge") else slow(loss) for loss, name in zip(SMOOTH, IDS, strict=True)],
    ids=IDS,
)
def test_admm_reaches_the_centralised_model(loss: MulticlassLoss) -> None:
    graph = topology.erdos_renyi(5, edges=7, seed=2)
    problems = [problem(loss, seed, 0.02 / 5) for seed in range(5)]
    agents = {i: DKLA(p, 90, rho=0.03) for i, p in enumerate(problems)}
    run = Network(graph).run(agents)
    best = centralised_classes(problems, 0.02)
    assert max(np.linalg.norm(agent.theta - best) for agent in agents.values()) < 1e-4 * np.linalg.norm(best)
    # A matrix is sent as an array, without further encoding.
    assert run.ledger.payload_bits == run.ledger.transmissions * D * C * 64


@pytest.mark.slow
def test_coke_sends_less_and_a_coded_matrix_is_counted_as_one() -> None:
    graph = topology.ring(5)
    problems = [problem(Softmax(C), seed, 0.02 / 5) for seed in range(5)]
    best = centralised_classes(problems, 0.02)
    agents = {i: COKE(p, 120, rho=0.03, censor=Geometric(1, 0.95), coder=Uniform(6)) for i, p in enumerate(problems)}
    run = Network(graph).run(agents)
    assert max(np.linalg.norm(agent.theta - best) for agent in agents.values()) < 1e-3 * np.linalg.norm(best)
    assert run.ledger.transmissions < 0.9 * 5 * 120
    assert run.ledger.payload_bits == run.ledger.transmissions * (D * C * 6 + 32)


@pytest.mark.parametrize("loss", [*SMOOTH, MulticlassHinge(C)], ids=[*IDS, "hinge"])
def test_diffusion_is_its_recursion(loss: MulticlassLoss) -> None:
    graph = topology.ring(4)
    problems = [problem(loss, seed) for seed in range(4)]
    weights = topology.metropolis_weights(graph)
    agents = {i: CTA(p, 30, eta=0.2, weights=dict(enumerate(weights[i]))) for i, p in enumerate(problems)}
    Network(graph).run(agents)
    theta = np.zeros((4, D, C))
    for _ in range(30):
        psi = np.einsum("in,ndc->idc", weights, theta)
        theta = np.stack([psi[i] - 0.2 * p.gradient(psi[i]) for i, p in enumerate(problems)])
    assert np.allclose([agent.theta for agent in agents.values()], theta, rtol=0, atol=1e-12)


def test_two_classes_by_softmax_are_the_logistic_model() -> None:
    """With θ_1 = −θ_0 = w/2 the softmax of two classes is the logistic function of w."""
    features, labels = samples(0)
    two = (labels == 1).astype(int)
    matrix = centralised_classes([ClassProblem(features, two, loss=Softmax(2), regularizer=0.0)], 0.02)
    assert np.allclose(matrix[:, 0], -matrix[:, 1], atol=1e-7)
    from netsim.agents import LocalProblem, centralised

    binary = LocalProblem(features, 2.0 * two - 1, loss=Logistic(), regularizer=0.0)
    # The regularizers differ by a factor of 2, because ‖θ‖² = ‖w‖²/2.
    assert np.allclose(matrix[:, 1] - matrix[:, 0], centralised([binary], 0.01), atol=1e-6)


# --- online -----------------------------------------------------------------------------------------------------------


def stream(seed: int) -> Iterator[tuple[Matrix, int]]:
    features, labels = samples(seed, 400)
    return iter(zip(features, labels.tolist(), strict=True))


def cost(loss: MulticlassLoss, seed: int = 0) -> OnlineClasses:
    return OnlineClasses(stream(seed), D, loss=loss, regularizer=1e-3)


@each_loss
def test_an_online_cost_is_a_batch_cost_of_one_sample(loss: MulticlassLoss) -> None:
    online = cost(loss)
    theta = np.random.default_rng(0).standard_normal((D, C))
    features, labels = samples(0, 400)
    mistakes = lost = 0.0
    for t in range(5):
        online.draw(theta)
        batch = ClassProblem(features[t : t + 1], labels[t : t + 1], loss=loss, regularizer=1e-3)
        assert np.allclose(online.gradient(theta), batch.gradient(theta), rtol=0, atol=1e-14)
        mistakes += (features[t] @ theta).argmax() != labels[t]
        lost += batch.value(theta)
        linear = np.random.default_rng(t).standard_normal((D, C))
        for quadratic in (0.01, 1.0, 30.0):
            exact = online.argmin(quadratic, linear)
            slope = batch.gradient(exact) + 2 * quadratic * exact + linear
            assert np.abs(slope).max() < 1e-9 * max(1, np.abs(linear).max())
    assert (online.count, online.mistakes) == (5, mistakes)
    assert online.loss_sum == pytest.approx(lost, rel=1e-12)


def test_the_exact_hinge_step_is_at_its_edge() -> None:
    """The step of the exact hinge is the limit of the smooth hinge's steps."""
    linear = np.random.default_rng(3).standard_normal((D, C))
    steps = []
    for temperature in (0.0, 1e-4):
        online = cost(MulticlassHinge(C, temperature))
        online.draw(np.zeros((D, C)))
        steps.append([online.argmin(quadratic, linear) for quadratic in (0.01, 0.3, 3.0)])
    assert np.allclose(steps[0], steps[1], atol=1e-2)
    online = cost(MulticlassHinge(C))
    online.draw(np.zeros((D, C)))
    found = online.argmin(0.3, linear)
    value = MulticlassHinge(C)

    def whole(theta: Matrix) -> float:
        loss = value.value((online.features @ theta)[None], np.array([online.target]))[0]
        return float(loss + 0.301 * np.vdot(theta, theta) + np.vdot(linear, theta))

    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-3, 1e-5):
        assert all(whole(found + size * rng.standard_normal((D, C))) > whole(found) for _ in range(200))


@pytest.mark.parametrize("loss", [Softmax(C), slow(MulticlassHinge(C))], ids=["softmax", "hinge"])
@pytest.mark.parametrize("method", ["RFF-DOKL", "ODKLA", "DOKL", "DDKL"])
def test_online_methods_learn_classes(loss: MulticlassLoss, method: str) -> None:
    graph = topology.ring(4)
    weights = topology.metropolis_weights(graph)

    def agent(i: int) -> Any:
        if method == "RFF-DOKL":
            return RFFDOKL(cost(loss, i), 400, eta=1.0, weights=dict(enumerate(weights[i])))
        if method == "DDKL":
            return DDKL(cost(loss, i), 400, rho=0.3)
        kind = ODKLA if method == "ODKLA" else DOKL
        return kind(cost(loss, i), 400, rho=0.3, eta=1.0, censor=Geometric(0.3, 0.97), coder=Uniform(8))

    agents = {i: agent(i) for i in graph}
    Network(graph).run(agents)
    features, labels = samples(77, 500)
    for each in agents.values():
        assert each.theta.shape == (D, C)
        assert np.mean((features @ each.theta).argmax(axis=1) == labels) > 0.8
        assert each.cost.mistakes < 160


def test_one_agent_alone_and_a_lossy_link() -> None:
    alone = nx.empty_graph(1)
    p = problem(Softmax(C), regularizer=0.02)
    agent = DKLA(p, 3, rho=0.1)
    run = Network(alone).run({0: agent})
    assert np.allclose(agent.theta, centralised_classes([p], 0.02), atol=1e-6)
    assert run.ledger.wire_bits == run.ledger.link_messages == 0
    graph = topology.ring(4)
    agents = {i: COKE(problem(Softmax(C), i), 50, rho=0.05, censor=Geometric(1, 0.9)) for i in graph}
    lossy = Network(graph, Link(loss=0.3), seed=1).run(agents)
    assert lossy.ledger.table(by=[])["lost"][0] > 0
    assert all(np.isfinite(each.theta).all() for each in agents.values())


# --- what is refused --------------------------------------------------------------------------------------------------


@every(
    ("call", "message"),
    [
        (lambda x, y: ClassProblem(x, y + 2, loss=Softmax(C), regularizer=0), "must be a class, a whole number from 0"),
        (lambda x, y: ClassProblem(x, y[:-1], loss=Softmax(C), regularizer=0), "labels.shape = (39,): must be (40,)"),
        (lambda x, y: ClassProblem(x[0], y, loss=Softmax(C), regularizer=0), "features.shape = (6,)"),
        (lambda x, y: ClassProblem(x, y, loss=Softmax(C), regularizer=-1.0), "regularizer = -1.0"),
        (lambda x, y: ClassProblem(x, y, loss=Softmax(C), regularizer=0).proximal(0.0), "quadratic = 0.0: must be > 0"),
        (
            lambda x, y: ClassProblem(x, y, loss=MulticlassHinge(C), regularizer=1).proximal(0.0),
            "loss = 'hinge': must be smooth for an exact step: give the hinge a temperature > 0",
        ),
        (lambda x, y: ClassProblem(x, y, loss=Softmax(C), regularizer=1).value(np.zeros(6)), "theta.shape = (6,)"),
        (lambda x, y: centralised_classes([], 1.0), "at least one problem"),
        (lambda x, y: centralised_classes([problem(Softmax(C))], 0.0), "regularizer = 0.0"),
        (
            lambda x, y: centralised_classes([problem(Softmax(C)), problem(OneVsRest(Squared(), C))], 1.0),
            "problems[1] has the shape (6, 3) and the loss OneVsRest squared: must be (6, 3) and Softmax logistic",
        ),
        (
            lambda x, y: centralised_classes([problem(MulticlassHinge(C, t)) for t in (0.1, 0.2)], 1.0),
            "the loss MulticlassHinge hinge at temperature 0.2: must be (6, 3) and MulticlassHinge hinge at temp",
        ),
    ],
)
def test_bad_problems(call: Callable[[Matrix, NDArray[np.int64]], object], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        call(*samples(0))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("loss", [*SMOOTH, MulticlassHinge(C)], ids=[*IDS, "hinge"])
def test_of_a_sample_without_features_nothing_is_learned(loss: MulticlassLoss) -> None:
    online = OnlineClasses(iter([(np.zeros(D), 1)]), D, loss=loss, regularizer=0.1)
    online.draw(np.zeros((D, C)))
    assert np.allclose(online.argmin(0.4, np.ones((D, C))), -1.0)


def test_a_label_that_is_no_class_ends_a_stream() -> None:
    online = OnlineClasses(iter([(np.ones(D), 3)]), D, loss=Softmax(C), regularizer=0.0)
    with pytest.raises(BadInput, match="must be a class"):
        online.draw(np.zeros((D, C)))


def test_a_step_that_cannot_be_solved_says_so() -> None:
    with pytest.raises(NetsimError, match="not finite"):
        problem(Softmax(C)).proximal(1.0)(np.full((D, C), np.nan))


# --- measures ---------------------------------------------------------------------------------------------------------


def test_confusion_and_accuracies() -> None:
    confusion = confusion_matrix(np.array([0, 0, 0, 0, 1, 2]), np.array([0, 0, 1, 0, 1, 0]), 4)
    assert confusion.tolist() == [[3, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert accuracy(confusion) == pytest.approx(4 / 6)
    assert balanced_accuracy(confusion) == pytest.approx((3 / 4 + 1 + 0) / 3)
    empty = confusion_matrix(np.array([], dtype=int), np.array([], dtype=int), 2)
    assert np.isnan([accuracy(empty), balanced_accuracy(empty)]).all()
    with pytest.raises(BadInput, match="predicted = 4: must be from 0 to 3"):
        confusion_matrix(np.array([0]), np.array([4]), 4)
    with pytest.raises(BadInput, match=r"predicted\.shape"):
        confusion_matrix(np.array([0]), np.array([1, 2]), 4)
