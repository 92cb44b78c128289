"""The cost function of a neural network: its samples and minibatches, and its use by gradient methods."""

import pickle
from typing import Any

import numpy as np
import pytest

from netsim import BadInput, Network, topology
from netsim.agents import (
    DKLA,
    DPSGD,
    SGP,
    DIGing,
    LocalProblem,
    Logistic,
    ModelCost,
    fourier_layers,
    mlp,
    semi_random,
    softmax_regression,
)
from netsim.util.typing import Array
from tests.oracle import first_order
from tests.oracle import semi_random as semi_random_oracle

NETWORK = mlp(4, (3,), 3)
THETA = 0.3 * np.random.default_rng(2).standard_normal(NETWORK.size)


def samples(count: int = 10, seed: int = 1) -> tuple[Array, Any]:
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((count, 4))
    return inputs, (inputs @ np.random.default_rng(0).standard_normal((4, 3))).argmax(axis=1)


def cost(count: int = 10, **more: Any) -> ModelCost:
    return ModelCost(NETWORK, *samples(count), **more)


def test_two_classes_are_a_logistic_regression() -> None:
    inputs, _ = samples(30)
    labels = (inputs[:, 0] > 0).astype(int)
    made = ModelCost(softmax_regression(4, 2), inputs, labels, regularizer=0.0)
    slope = np.array([0.5, -1.0, 2.0, 0.1])
    theta = np.concatenate([np.stack([-slope / 2, slope / 2], axis=1).ravel(), np.zeros(2)])
    logistic = LocalProblem(inputs, 2.0 * labels - 1, loss=Logistic(), regularizer=0.0)
    assert not made.start.any()
    assert made.value(theta) == pytest.approx(logistic.value(slope), rel=1e-12)
    np.testing.assert_allclose(
        made.tensors(made.gradient(theta))["0.weight"][:, 1], logistic.gradient(slope), atol=1e-14
    )


def test_the_regularizer_is_that_of_all_parameters() -> None:
    plain, held = cost(), cost(regularizer=0.2)
    weights = plain.start + THETA
    assert held.value(THETA) - plain.value(THETA) == pytest.approx(0.2 * weights @ weights)
    np.testing.assert_allclose(held.gradient(THETA) - plain.gradient(THETA), 0.4 * weights, atol=1e-14)


def test_a_pass_takes_each_sample_once_and_the_next_in_another_order() -> None:
    made = cost(12, batch=4)
    passes = [np.concatenate([made.draw() for _ in range(3)]) for _ in range(2)]
    assert [sorted(each) for each in passes] == [list(range(12))] * 2
    assert not np.array_equal(*passes)
    assert made.calls == 6


def test_what_fills_no_minibatch_is_left_out_of_a_pass() -> None:
    made = cost(10, batch=4)
    drawn = [made.draw() for _ in range(200)]
    assert {len(rows) for rows in drawn} == {4}
    assert all(len({*drawn[n], *drawn[n + 1]}) == 8 for n in range(0, 200, 2))
    assert np.bincount(np.concatenate(drawn)).min() > 60
    assert cost(3, batch=32).batch == 3


def test_the_minibatches_are_those_of_the_seed_and_the_name() -> None:
    def rows(**which: Any) -> list[list[int]]:
        made = cost(batch=3, **which)
        return [made.draw().tolist() for _ in range(5)]

    assert rows(seed=1, name=2) == rows(seed=1, name=2)
    assert rows(seed=1, name=2) != rows(seed=1, name=3)
    assert rows(seed=1, name=2) != rows(seed=2, name=2)


def test_each_call_of_the_gradient_has_the_next_minibatch() -> None:
    made, beside = cost(batch=3), cost(batch=3)
    for _ in range(5):
        np.testing.assert_array_equal(made.gradient(THETA), made.gradient(THETA, beside.draw()))
    assert made.calls == beside.calls == 5
    made.value(THETA)
    assert made.calls == 5, "a value is of all samples"
    fresh = made.fresh()
    assert fresh.calls == 0
    np.testing.assert_array_equal(fresh.gradient(THETA), cost(batch=3).gradient(THETA))
    assert made.calls == 5


def test_the_mean_over_a_pass_is_the_gradient() -> None:
    made = cost(12, batch=4, regularizer=0.1)
    mean = np.mean([made.gradient(THETA) for _ in range(3)], axis=0)
    np.testing.assert_allclose(mean, cost(12, regularizer=0.1).gradient(THETA), atol=1e-14)


def test_a_pickled_cost_goes_on_where_it_was() -> None:
    made = cost(batch=3)
    made.gradient(THETA)
    copied = pickle.loads(pickle.dumps(made))
    for _ in range(5):
        np.testing.assert_array_equal(copied.gradient(THETA), made.gradient(THETA))


def agents(kind: Any, count: int, **more: Any) -> dict[int, Any]:
    weights = topology.metropolis_weights(topology.ring(5))
    found = {}
    for i in range(5):
        own = {"weights": dict(enumerate(weights[i]))} if kind is DIGing else {}
        found[i] = kind(ModelCost(NETWORK, *samples(20, i), name=i, **more), count, eta=0.2, **own)
    return found


@pytest.mark.parametrize("kind", [DIGing, SGP])
def test_methods_start_from_the_same_parameters_and_learn(kind: Any) -> None:
    learning = agents(kind, 150, batch=5)
    before = np.mean([agent.cost.value(np.zeros(NETWORK.size)) for agent in learning.values()])
    Network(topology.ring(5), seed=1).run(learning)
    mean = np.mean([agent.theta for agent in learning.values()], axis=0)
    assert np.mean([agent.cost.value(mean) for agent in learning.values()]) < 0.5 * before
    assert all(np.array_equal(agent.cost.start, learning[0].cost.start) for agent in learning.values())


@pytest.mark.parametrize("squared", [False, True])
def test_d_psgd_on_semi_random_networks_is_its_recursion(squared: bool) -> None:
    layers = fourier_layers(4, (5, 6), sigmas=(1.5, 0.8))
    network = semi_random(layers, 1 if squared else 3, squared=squared)
    fixed = [(layer.frequencies, layer.phases) for layer in layers]
    shapes, lam = list(network.shapes.values()), 0.01
    ends = np.cumsum([a * b for a, b in shapes])[:-1]
    given = [samples(12, i) for i in range(5)]
    wanted = [inputs[:, :1] ** 2 if squared else np.eye(3)[labels] for inputs, labels in given]
    start = network.start(7)

    def gradient(x: Array) -> Array:
        found = []
        for row, (inputs, _), targets in zip(x, given, wanted, strict=True):
            learned = [part.reshape(shape) for part, shape in zip(np.split(start + row, ends), shapes, strict=True)]
            slopes = semi_random_oracle.gradient(fixed, learned, inputs, targets, squared=squared)
            found.append(np.concatenate([each.ravel() for each in slopes]) + 2 * lam * (start + row))
        return np.array(found)

    weights = topology.metropolis_weights(topology.ring(5))
    expected = first_order.dpsgd(gradient, weights, (5, network.size), np.full(30, 0.2))
    learning, models = {}, []
    for i, (inputs, labels) in enumerate(given):
        cost = ModelCost(network, inputs, wanted[i] if squared else labels, regularizer=lam, seed=7)
        learning[i] = DPSGD(cost, 30, eta=0.2, weights=dict(enumerate(weights[i])))

    def watch(at: Any) -> dict[str, float]:
        models.append(np.stack([at[i].theta for i in range(5)]))
        return {}

    Network(topology.ring(5), seed=1).run(learning, [watch])
    np.testing.assert_allclose(np.array(models), expected, rtol=0, atol=1e-9)
    values = [np.mean([learning[i].cost.value(x[i]) for i in range(5)]) for x in models]
    assert values[-1] < values[0]


def test_trackers_follow_gradients_at_minibatches() -> None:
    learning = agents(DIGing, 20, batch=5)
    Network(topology.ring(5), seed=1).run(learning)
    assert np.abs(np.sum([agent.imbalance()["tracking_residual"] for agent in learning.values()], axis=0)).max() < 1e-12
    assert {agent.cost.calls for agent in learning.values()} == {21}, "one at the start, and one a round"


def test_a_method_that_asks_for_more_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^cost = <ModelCost>: must have size and proximal, which DKLA asks for"):
        DKLA(cost(), 1, rho=1.0)


def test_bad_arguments_are_refused() -> None:
    inputs, labels = samples()
    for given, message in (
        ((inputs[:, :3], labels), r"^inputs.shape = \(10, 3\): must be \(T, 4\) with T at least 1$"),
        ((inputs[:0], labels[:0]), r"^inputs"),
        ((inputs, labels[:4]), r"^labels.shape = \(4,\): must be \(10,\), as inputs$"),
        ((inputs, labels + 1), "^labels = 3: must be whole numbers from 0 to 2$"),
        ((inputs, labels + 0.5), "^labels = .*5: must be whole numbers from 0 to 2$"),
        ((inputs * np.nan, labels), "^inputs"),
    ):
        with pytest.raises(BadInput, match=message):
            ModelCost(NETWORK, *given)
    numbers = semi_random(fourier_layers(4, (5,), sigmas=(1.0,)), 2, squared=True)
    with pytest.raises(BadInput, match=r"^labels.shape = \(10,\): must be \(10, 2\), as inputs and outputs$"):
        ModelCost(numbers, inputs, labels)
    for more, message in (
        ({"batch": 0}, "^batch = 0"),
        ({"regularizer": -1.0}, "^regularizer = -1"),
        ({"dtype": "float16"}, "^dtype = 'float16': must be one of "),
        ({"library": "cupy"}, "^backend = 'cupy'"),
        ({"seed": -1}, "^seed = -1"),
    ):
        with pytest.raises(BadInput, match=message):
            cost(**more)
    with pytest.raises(BadInput, match=r"^theta.shape = \(3,\): must be \(27,\)$"):
        cost().gradient(np.zeros(3))
