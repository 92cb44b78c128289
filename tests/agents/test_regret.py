import math

import numpy as np
import pytest

from netsim import BadInput
from netsim.agents.measures.regret import DynamicRegret, StaticRegret
from netsim.util.typing import Array

Rounds = tuple[Array, Array, Array]


def rounds(seed: int, count: int, agents: int, size: int) -> Rounds:
    """Draw features (T, N, D), targets (T, N) and models (T, N, D) for T rounds, N agents and D features."""
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(count, agents, size)),
        rng.normal(size=(count, agents)),
        rng.normal(size=(count, agents, size)),
    )


def losses(x: Array, y: Array, thetas: Array, share: float) -> Array:
    """Return the loss L_i,t(θ_i,t) of each agent i in each round t, shape (T, N)."""
    result: Array = (np.einsum("tnd,tnd->tn", x, thetas) - y) ** 2 + share * np.sum(thetas**2, axis=2)
    return result


def least(x: Array, y: Array, share: float) -> tuple[float, Array]:
    """Return the least total loss over samples x (n, D), y (n,), and a model that attains it, by least squares."""
    count, size = x.shape
    # The total loss is ‖[x; √(n r) I] θ − [y; 0]‖², with r = share.
    rows = np.vstack([x, math.sqrt(count * share) * np.eye(size)])
    right = np.concatenate([y, np.zeros(size)])
    theta = np.linalg.lstsq(rows, right)[0]
    return float(np.sum((rows @ theta - right) ** 2)), theta


shapes = pytest.mark.parametrize(("agents", "size"), [(1, 6), (4, 6), (6, 6), (9, 6), (5, 1)])
shares = pytest.mark.parametrize("share", [0.0, 1e-9, 2e-5, 0.3])


@shapes
@shares
def test_static_regret_equals_brute_force_after_every_round(agents: int, size: int, share: float) -> None:
    x, y, thetas = rounds(agents, 12, agents, size)
    paid = losses(x, y, thetas, share)
    regret = StaticRegret(size, share)
    for t in range(12):
        regret.take(x[t], y[t], paid[t].sum())
        best, model = least(x[: t + 1].reshape(-1, size), y[: t + 1].ravel(), share)
        assert regret.loss == pytest.approx(paid[: t + 1].sum(), rel=1e-12)
        # If a model fits all samples, the best loss is only the rounding error of Σy², which depends on the machine.
        assert regret.best_loss == pytest.approx(best, rel=1e-9, abs=1e-6 * share**0.5 + 1e-11)
        assert regret.value == pytest.approx(paid[: t + 1].sum() - best, rel=1e-9)
        if share > 1e-6 or agents * (t + 1) > size + 2:
            np.testing.assert_allclose(regret.best(), model, rtol=0, atol=1e-6)
    assert regret.count == 12 * agents


@shapes
@shares
def test_dynamic_regret_equals_brute_force(agents: int, size: int, share: float) -> None:
    x, y, thetas = rounds(agents, 12, agents, size)
    paid = losses(x, y, thetas, share)
    regret = DynamicRegret(size, share)
    best = 0.0
    for t in range(12):
        regret.take(x[t], y[t], paid[t].sum())
        best += least(x[t], y[t], share)[0]
        assert regret.best_loss == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert regret.value == pytest.approx(paid[: t + 1].sum() - best, rel=1e-9)


def test_the_best_models_have_no_regret() -> None:
    x, y, _ = rounds(1, 10, 4, 6)
    _, model = least(x.reshape(-1, 6), y.ravel(), 0.01)
    static, dynamic = StaticRegret(6, 0.01), DynamicRegret(6, 0.01)
    for t in range(10):
        _, own = least(x[t], y[t], 0.01)
        for regret, theta in ((static, model), (dynamic, own)):
            regret.take(x[t], y[t], losses(x[t : t + 1], y[t : t + 1], np.tile(theta, (1, 4, 1)), 0.01).sum())
    assert abs(static.value) < 1e-9
    assert abs(dynamic.value) < 1e-9
    # The best model of each round has less loss than the best single model for all rounds.
    assert dynamic.best_loss < static.best_loss


def test_samples_that_repeat_have_their_repeated_residual() -> None:
    # The two agents have equal inputs and different targets, so that no model fits both, even unregularised.
    x, y = np.array([[3.0, 4.0], [3.0, 4.0]]), np.array([1.0, 2.0])
    for kind in (StaticRegret, DynamicRegret):
        regret = kind(2, 0.0)
        for _ in range(5):
            regret.take(x, y, float(y @ y))
        assert regret.loss == 25.0
        assert regret.best_loss == pytest.approx(5 * 0.5, rel=1e-12)


@pytest.mark.parametrize("kind", [StaticRegret, DynamicRegret])
def test_before_the_first_round_there_is_no_regret(kind: type[StaticRegret | DynamicRegret]) -> None:
    regret = kind(3, 0.1)
    assert (regret.loss, regret.value) == (0.0, 0.0)


@pytest.mark.parametrize("kind", [StaticRegret, DynamicRegret])
def test_models_that_grow_without_bound_have_endless_regret(kind: type[StaticRegret | DynamicRegret]) -> None:
    regret = kind(2, 0.1)
    regret.take(np.ones((2, 2)), np.ones(2), math.inf)
    assert regret.value == math.inf
    regret.take(np.ones((2, 2)), np.ones(2), math.nan)
    assert math.isnan(regret.value)


def test_memory_is_that_of_the_moments() -> None:
    regrets = StaticRegret(20, 0.1), DynamicRegret(20, 0.1)
    for regret in regrets:
        for x, y, _ in zip(*rounds(0, 50, 3, 20), strict=True):
            regret.take(x, y, 1.0)
    held = [sum(np.size(value) for value in vars(regret).values()) for regret in regrets]
    assert held[0] < 20 * 20 + 20 + 10
    assert held[1] < 10


@pytest.mark.parametrize("kind", [StaticRegret, DynamicRegret])
def test_bad_parameters_are_refused(kind: type[StaticRegret | DynamicRegret]) -> None:
    with pytest.raises(BadInput, match=r"^size = 0: must be a whole number >= 1$"):
        kind(0, 0.1)
    with pytest.raises(BadInput, match=r"^regularizer = -1.0: must be a number >= 0$"):
        kind(3, -1.0)
