"""Kernel expansions against direct new fits (tests/oracle/dictionary.py), and against properties of projections."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.agents.costs.multiclass import Softmax
from netsim.agents.greedy.dictionary import SPAN, Dictionary
from netsim.agents.maps.features import kernel_matrix
from netsim.errors import BadInput
from tests.oracle.dictionary import fitted, gaussian, pruned

SIGMA = 0.8


def column(weights: np.ndarray) -> np.ndarray:
    return weights[:, None] if weights.ndim == 1 else weights


def distance(first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]) -> float:
    """Return ‖f − g‖ of two expansions, computed from all inner products."""
    points = np.concatenate([first[0], second[0]])
    weights = np.concatenate([column(first[1]), -column(second[1])])
    return float(np.sqrt(max(np.vdot(weights, gaussian(points, points, SIGMA) @ weights), 0.0)))


def some(rng: np.random.Generator, count: int, classes: int | None) -> tuple[np.ndarray, np.ndarray]:
    return rng.uniform(-2, 2, (count, 2)), rng.standard_normal((count,) if classes is None else (count, classes))


@pytest.mark.parametrize("classes", [None, 1, 3])
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0])
def test_pruning_equals_direct_refits(classes: int | None, epsilon: float) -> None:
    removed = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        model = Dictionary(2, classes, sigma=SIGMA)
        for count in (6, 5, 4):
            x, v = some(rng, count, classes)
            points = np.concatenate([model.points, x])
            weights = column(np.concatenate([model.weights, v]))
            kept, expected, error = pruned(points, weights, epsilon, SIGMA)
            lost = model.prune(epsilon, model.add(x, v))
            removed += len(points) - len(model)
            # Compare sets, because the dictionary's order differs from the order of arrival within a batch.
            assert {tuple(point) for point in model.points} == {tuple(point) for point in points[kept]}
            order = [next(n for n in range(len(kept)) if (points[kept[n]] == point).all()) for point in model.points]
            assert column(model.weights) == pytest.approx(expected[order], abs=1e-7)
            assert np.sqrt(lost) == pytest.approx(error, abs=1e-8)
            assert model.gram == pytest.approx(gaussian(model.points, model.points, SIGMA), abs=1e-12)
    assert removed


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "cauchy"])
def test_values_and_norm_are_the_expansions(kernel: str) -> None:
    rng = np.random.default_rng(1)
    x, v = some(rng, 7, 3)
    model = Dictionary(2, 3, kernel=kernel, sigma=SIGMA)
    assert model.add(x, v) == 0.0
    z = rng.uniform(-2, 2, (5, 2))
    assert model(z) == pytest.approx(kernel_matrix(kernel, z, x, SIGMA) @ v, abs=1e-12)
    assert model.squared_norm == pytest.approx(np.trace(v.T @ kernel_matrix(kernel, x, x, SIGMA) @ v))
    model.scale(-0.5)
    assert model(z) == pytest.approx(-0.5 * kernel_matrix(kernel, z, x, SIGMA) @ v, abs=1e-12)


def test_an_empty_function_is_zero() -> None:
    assert Dictionary(2)(np.ones((3, 2))).tolist() == [0.0, 0.0, 0.0]
    assert Dictionary(2, 4)(np.ones((3, 2))).shape == (3, 4)
    assert Dictionary(2).squared_norm == 0.0
    assert Dictionary(2).prune(1.0) == 0.0


@given(st.integers(0, 10_000), st.floats(0.01, 3.0), st.sampled_from([None, 2]))
@settings(max_examples=40, deadline=None)
def test_the_function_never_moves_further_than_epsilon(seed: int, epsilon: float, classes: int | None) -> None:
    rng = np.random.default_rng(seed)
    model = Dictionary(2, classes, sigma=SIGMA)
    for _ in range(4):
        x, v = some(rng, 8, classes)
        # Some points are in the dictionary already, and some almost are.
        x[1] = x[0]
        x[2] = x[0] + 1e-6
        if len(model):
            x[3] = model.points[-1]
        full = np.concatenate([model.points, x]), np.concatenate([model.weights, v])
        lost = model.prune(epsilon, model.add(x, v))
        moved = distance(full, (model.points, model.weights))
        assert np.sqrt(lost) <= epsilon
        assert moved <= epsilon + 1e-6
        assert np.sqrt(lost) == pytest.approx(moved, abs=1e-6)


def test_a_duplicate_is_not_added_and_nothing_is_lost() -> None:
    rng = np.random.default_rng(2)
    x, v = some(rng, 5, 2)
    model = Dictionary(2, 2, sigma=SIGMA)
    model.add(x, v)
    more = np.concatenate([x[:2], x[:1], [[5.0, 5.0], [5.0, 5.0]]])
    w = rng.standard_normal((5, 2))
    lost = model.add(more, w)
    assert len(model) == 6
    assert lost == pytest.approx(0.0, abs=1e-12)
    z = rng.uniform(-2, 6, (20, 2))
    assert model(z) == pytest.approx(gaussian(z, x, SIGMA) @ v + gaussian(z, more, SIGMA) @ w, abs=1e-10)


def test_a_point_nearly_in_the_span_goes_to_the_others_and_its_rest_is_counted() -> None:
    rng = np.random.default_rng(3)
    x, v = some(rng, 6, None)
    model = Dictionary(2, sigma=SIGMA)
    model.add(x, v)
    near, w = x[:1] + 4e-4, np.array([2.0])
    lost = model.add(near, w)
    assert len(model) == 6
    assert 0 < lost <= SPAN * 4.0
    points = np.concatenate([x, near])
    best, error = fitted(points, np.concatenate([v, w])[:, None], range(6), SIGMA)
    order = [next(n for n in range(6) if (x[n] == point).all()) for point in model.points]
    assert model.weights == pytest.approx(best[order, 0], abs=1e-6)
    assert np.sqrt(lost) == pytest.approx(error, rel=1e-4)


def test_epsilon_zero_keeps_what_is_independent_and_a_great_one_removes_all() -> None:
    rng = np.random.default_rng(4)
    x, v = some(rng, 9, 2)
    model = Dictionary(2, 2, sigma=SIGMA)
    model.add(x, v)
    norm = model.squared_norm
    assert model.prune(0.0) == 0.0
    assert len(model) == 9
    assert model.prune(1e6) == pytest.approx(norm)
    assert len(model) == 0


@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.05])
def test_rounding_errors_do_not_add_up(epsilon: float) -> None:
    rng = np.random.default_rng(5)
    model = Dictionary(2, 2, sigma=SIGMA)
    worst = 0.0
    for _ in range(40):
        model.scale(0.999)
        x, v = rng.standard_normal((16, 2)), 0.1 * rng.standard_normal((16, 2))
        full = np.concatenate([model.points, x]), np.concatenate([model.weights, v])
        lost = model.prune(epsilon, model.add(x, v))
        worst = max(worst, abs(distance(full, (model.points, model.weights)) - np.sqrt(lost)))
    # The distance is a root, so its error is the root of a rounding error.
    assert worst < 2e-6
    if epsilon == 0.05:
        assert model.gram @ model.inverse == pytest.approx(np.eye(len(model)), abs=1e-6)


def test_what_is_not_added_is_carried_by_the_others_even_where_the_kernel_matrix_is_nearly_singular() -> None:
    rng = np.random.default_rng(0)
    model = Dictionary(2, sigma=1.0)
    for _ in range(60):
        model.add(rng.uniform(-2, 2, (16, 2)), np.zeros(16))
    assert np.linalg.cond(model.gram) > 1e10
    x, v = some(rng, 16, None)
    known = model.points.copy()
    model.add(x, v)
    assert len(model) < len(known) + 16
    # A projection onto the span of these points keeps the function's values at the points.
    assert model(known) == pytest.approx(gaussian(known, x, 1.0) @ v, abs=1e-9)


def test_an_inverse_that_has_drifted_is_computed_afresh() -> None:
    rng = np.random.default_rng(7)
    model = Dictionary(2, sigma=SIGMA)
    model.add(*some(rng, 8, None))
    drift = 1e-4 * rng.standard_normal((8, 8))
    model.inverse = model.inverse + drift + drift.T
    x, v = some(rng, 3, None)
    full = np.concatenate([model.points, x]), np.concatenate([model.weights, v])
    lost = model.add(x, v)
    assert model.gram @ model.inverse == pytest.approx(np.eye(len(model)), abs=1e-9)
    assert distance(full, (model.points, model.weights)) == pytest.approx(np.sqrt(lost), abs=1e-7)


@pytest.mark.slow
def test_the_model_order_levels_off_over_50000_samples() -> None:
    rng = np.random.default_rng(6)
    loss, model = Softmax(3), Dictionary(2, 3, sigma=0.6)
    centres = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])
    orders = []
    for _ in range(1563):
        y = rng.integers(3, size=32)
        x = centres[y] + 0.5 * rng.standard_normal((32, 2))
        slope = loss.derivative(model(x), y)
        model.prune(0.05, model.add(x, -2.0 / 32 * slope))
        orders.append(len(model))
    tenths = [max(part) for part in np.array_split(orders, 10)]
    # With a constant step, apart from chance, no later tenth of the stream needs more elements than the second.
    assert max(tenths[2:]) <= 1.1 * tenths[1]
    assert tenths[-1] <= 1.1 * tenths[4]
    assert max(orders) < 60
    assert min(orders[20:]) > 5


def test_arguments_are_checked() -> None:
    for arguments in ({"inputs": 0}, {"inputs": 1, "classes": 0}, {"inputs": 1, "sigma": 0.0}):
        with pytest.raises(BadInput, match=rf"^{list(arguments)[-1]} = "):
            Dictionary(**arguments)
    with pytest.raises(BadInput, match=r"^kernel = 'gausian': .*did you mean 'gaussian'"):
        Dictionary(1, kernel="gausian")
