from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from netsim.agents.costs.local import LocalProblem, centralised
from netsim.agents.costs.losses import Logistic, LossFunction, Squared
from netsim.agents.measures.metrics import MeanSquaredError, consensus_error
from netsim.errors import BadInput, NetsimError

LOSSES = ["squared", "logistic"]


def problem(
    loss: str = "squared", *, samples: int = 60, size: int = 8, regularizer: float = 1e-3, seed: int = 0
) -> LocalProblem:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((samples, size))
    targets = features @ rng.standard_normal(size) + 0.5 * rng.standard_normal(samples)
    made: LossFunction = Squared()
    if loss == "logistic":
        targets, made = np.sign(targets), Logistic()
    return LocalProblem(features, targets, loss=made, regularizer=regularizer)


def direct_value(p: LocalProblem, theta: NDArray[np.float64]) -> float:
    return float(np.mean(p.loss.value(p.features @ theta, p.targets)) + p.regularizer * theta @ theta)


@pytest.mark.parametrize("loss", LOSSES)
def test_value_and_gradient(loss: str) -> None:
    p = problem(loss)
    theta, step = np.random.default_rng(1).standard_normal(8), 1e-6
    assert p.value(theta) == pytest.approx(direct_value(p, theta), rel=1e-13)
    rises = [direct_value(p, theta + step * e) - direct_value(p, theta - step * e) for e in np.eye(8)]
    assert p.gradient(theta) == pytest.approx(np.array(rises) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("quadratic", [0.0, 0.03, 10.0])
def test_proximal_minimises(loss: str, quadratic: float) -> None:
    p = problem(loss)
    linear = np.random.default_rng(2).standard_normal(8) * 0.1

    def cost(theta: NDArray[np.float64]) -> float:
        return float(direct_value(p, theta) + quadratic * theta @ theta + linear @ theta)

    def gradient(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        return p.gradient(theta) + 2 * quadratic * theta + linear

    theta = p.proximal(quadratic)(linear)
    other = minimize(cost, np.zeros(8), jac=gradient, method="BFGS", options={"gtol": 1e-9})
    assert theta == pytest.approx(other.x, abs=1e-6)
    assert cost(theta) <= other.fun + 1e-14
    assert np.linalg.norm(gradient(theta)) < 1e-11


@pytest.mark.parametrize("loss", LOSSES)
def test_proximal_answers_each_call_afresh(loss: str) -> None:
    p = problem(loss)
    solve = p.proximal(0.1)
    first = solve(np.ones(8))
    kept = first.copy()
    far = solve(-50.0 * np.ones(8))
    assert not np.allclose(far, kept)
    assert np.array_equal(first, kept)
    again = solve(np.ones(8))
    assert again == pytest.approx(kept, rel=1e-10)
    again[:] = 0.0
    assert solve(np.ones(8)) == pytest.approx(kept, rel=1e-10)
    assert not np.shares_memory(solve(np.ones(8)), solve(np.ones(8)))
    assert p.proximal(0.1)(np.ones(8)) == pytest.approx(kept, rel=1e-10)


def test_proximal_takes_integers_and_strided_vectors() -> None:
    solve = problem().proximal(0.1)
    strided = np.repeat(np.arange(8.0), 2)[::2]
    assert np.array_equal(solve(strided), solve(np.arange(8.0)))
    assert np.array_equal(solve(np.arange(8)), solve(np.arange(8.0)))  # type: ignore[arg-type]


def test_newton_reaches_the_minimum_from_saturated_margins() -> None:
    # Far from 0 the logistic loss is flat, so an undamped Newton step diverges.
    rng = np.random.default_rng(3)
    features = 30.0 * rng.standard_normal((40, 3))
    p = LocalProblem(features, np.sign(features[:, 0] + 10.0), loss=Logistic(), regularizer=1e-6)
    solve = p.proximal(1e-6)
    solve(1e-2 * np.ones(3))
    theta = solve(np.zeros(3))
    assert np.linalg.norm(p.gradient(theta) + 2e-6 * theta) < 1e-10


def test_newton_reports_what_it_cannot_solve() -> None:
    with pytest.raises(NetsimError, match="Newton's method stopped at a gradient of norm nan"):
        problem("logistic").proximal(0.1)(np.full(8, np.nan))


def test_mean_squared_error_of_both_losses() -> None:
    theta = np.random.default_rng(4).standard_normal(8)
    for loss in LOSSES:
        p = problem(loss)
        direct = np.mean((p.features @ theta - p.targets) ** 2)
        assert p.mean_squared_error(theta) == pytest.approx(direct, rel=1e-12)


def test_mean_squared_error_of_a_perfect_fit_is_not_negative() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, theta = rng.standard_normal((30, 8)), rng.standard_normal(8)
        p = LocalProblem(x, x @ theta, loss=Squared(), regularizer=0.1)
        assert 0.0 <= p.mean_squared_error(theta) < 1e-13
        assert 0.0 <= MeanSquaredError([(x, x @ theta)])(theta[None]) < 1e-13


def test_squared_cost_does_not_look_at_the_samples_again() -> None:
    p, theta = problem(), np.ones(8)
    before = p.value(theta), p.mean_squared_error(theta), p.gradient(theta)
    p.features[:] = 0.0
    after = p.value(theta), p.mean_squared_error(theta), p.gradient(theta)
    assert before[:2] == after[:2]
    assert np.array_equal(before[2], after[2])


def test_centralised_is_weighted_least_squares() -> None:
    problems = [problem(samples=20 + 15 * i, seed=i, regularizer=5.0) for i in range(4)]
    lam = 0.02
    rows = [p.features / np.sqrt(len(p.targets)) for p in problems] + [np.sqrt(lam) * np.eye(8)]
    values = [p.targets / np.sqrt(len(p.targets)) for p in problems] + [np.zeros(8)]
    expected = np.linalg.lstsq(np.concatenate(rows), np.concatenate(values))[0]
    assert centralised(problems, lam) == pytest.approx(expected, rel=1e-12)


def test_centralised_without_regulariser_is_least_squares() -> None:
    p = problem()
    expected = np.linalg.lstsq(p.features, p.targets)[0]
    assert centralised([p], 0.0) == pytest.approx(expected, rel=1e-11)


def test_centralised_logistic_has_no_gradient() -> None:
    problems = [problem("logistic", samples=20 + 15 * i, seed=i, regularizer=0.005) for i in range(4)]
    theta = centralised(problems, 0.02)
    assert np.linalg.norm(theta) > 0.1
    assert np.linalg.norm(sum(p.gradient(theta) for p in problems)) < 1e-11


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros(3)}, "features.shape = (3,): must be (T, D) with T and D at least 1"),
        ({"features": np.zeros((0, 2))}, "features.shape = (0, 2): must be (T, D)"),
        ({"targets": np.zeros(4)}, "targets.shape = (4,): must be (3,), one a row of features"),
        ({"features": np.array([[1, 2], [3, np.nan], [5, 6]])}, "features[1, 1] = nan: must be finite"),
        ({"targets": np.array([1.0, -np.inf, 1.0])}, "targets[1] = -inf: must be finite"),
        ({"regularizer": -1e-3}, "regularizer = -0.001: must be a number >= 0"),
        ({"loss": Logistic(), "targets": np.zeros(3)}, "targets[0] = 0.0: must be -1 or 1"),
    ],
)
def test_bad_problems(change: dict[str, Any], message: str) -> None:
    loss: LossFunction = Squared()
    arguments: dict[str, Any] = {
        "features": np.ones((3, 2)),
        "targets": np.ones(3),
        "loss": loss,
        "regularizer": 0.1,
        **change,
    }
    with pytest.raises(BadInput) as caught:
        LocalProblem(arguments.pop("features"), arguments.pop("targets"), **arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("loss", LOSSES)
def test_vectors_of_another_shape_are_refused(loss: str) -> None:
    p = problem(loss)
    for call in (p.value, p.gradient, p.mean_squared_error):
        with pytest.raises(BadInput, match=r"theta.shape = \(7,\): must be \(8,\)"):
            call(np.zeros(7))
    with pytest.raises(BadInput, match=r"linear.shape = \(8, 1\): must be \(8,\)"):
        p.proximal(0.1)(np.zeros((8, 1)))


def test_minima_that_are_not_determined_are_refused() -> None:
    flat = LocalProblem(np.ones((3, 2)), np.ones(3), loss=Squared(), regularizer=0.0)
    with pytest.raises(BadInput, match=r"quadratic = 0.0: must be greater: the matrix to invert is singular"):
        flat.proximal(0.0)
    with pytest.raises(BadInput, match=r"regularizer = 0.0: must be greater"):
        centralised([flat], 0.0)
    separable = LocalProblem(np.eye(2), np.ones(2), loss=Logistic(), regularizer=0.0)
    with pytest.raises(BadInput, match=r"quadratic = 0.0: must be > 0 where regularizer = 0"):
        separable.proximal(0.0)
    with pytest.raises(BadInput, match=r"regularizer = 0.0: must be > 0 for the logistic loss"):
        centralised([separable], 0.0)
    with pytest.raises(BadInput, match=r"quadratic = -1: must be a number >= 0"):
        flat.proximal(-1)


def test_centralised_refuses_problems_that_do_not_fit_together() -> None:
    with pytest.raises(BadInput, match=r"problems = \[\]: must be at least one problem"):
        centralised([], 0.1)
    with pytest.raises(BadInput, match=r"problems\[1\] has 5 features and the squared loss: must be 8"):
        centralised([problem(), problem(size=5)], 0.1)
    with pytest.raises(BadInput, match=r"problems\[1\] has 8 features and the logistic loss: must be 8"):
        centralised([problem(), problem("logistic")], 0.1)


def data(agents: int = 5, size: int = 6) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    rng = np.random.default_rng(7)
    counts = [3 + 4 * i for i in range(agents)]
    return [(rng.standard_normal((n, size)), rng.standard_normal(n)) for n in counts]


def test_network_error_averages_over_all_samples() -> None:
    pairs = data()
    thetas = np.random.default_rng(8).standard_normal((5, 6))
    errors = np.concatenate([(x @ t - y) ** 2 for (x, y), t in zip(pairs, thetas, strict=True)])
    measure = MeanSquaredError(pairs)
    assert measure(thetas) == pytest.approx(np.mean(errors), rel=1e-12)
    assert (measure.agents, measure.size, measure.samples) == (5, 6, len(errors))


def test_diverged_models_have_no_finite_error() -> None:
    thetas = np.full((5, 6), 1e200)
    assert not np.isfinite(MeanSquaredError(data())(thetas))
    thetas[0] = -1e200
    assert not np.isfinite(consensus_error(thetas))
    assert np.isnan(MeanSquaredError(data())(np.full((5, 6), np.nan)))


def test_network_error_refuses_what_does_not_fit() -> None:
    with pytest.raises(BadInput, match=r"data = \[\]: must be at least one pair"):
        MeanSquaredError([])
    with pytest.raises(BadInput, match=r"data\[1\]\[0\].shape = \(3, 4\): must be \(T, 6\)"):
        MeanSquaredError([data()[0], (np.ones((3, 4)), np.ones(3))])
    with pytest.raises(BadInput, match=r"data\[0\]\[1\]\[1\] = nan: must be finite"):
        MeanSquaredError([(np.ones((2, 4)), np.array([1.0, np.nan]))])
    with pytest.raises(BadInput, match=r"thetas.shape = \(6, 5\): must be \(5, 6\)"):
        MeanSquaredError(data())(np.ones((6, 5)))


def test_consensus_error() -> None:
    assert consensus_error(np.ones((4, 3))) == 0.0
    assert consensus_error(np.array([[0.0, 0.0], [2.0, 4.0]])) == pytest.approx(1.0 + 4.0)
    thetas = np.random.default_rng(9).standard_normal((5, 6))
    pairs = np.mean([[np.sum((a - b) ** 2) for a in thetas] for b in thetas])
    assert consensus_error(thetas) == pytest.approx(pairs / 2)
    with pytest.raises(BadInput, match=r"thetas.shape = \(3,\): must be \(N, D\)"):
        consensus_error(np.ones(3))
    with pytest.raises(BadInput, match=r"thetas.shape = \(0, 3\): must be \(N, D\)"):
        consensus_error(np.ones((0, 3)))
