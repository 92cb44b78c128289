import numpy as np
import pytest

from netsim.agents.costs.local import LocalProblem
from netsim.agents.costs.losses import Hinge, Logistic, LossFunction, Squared, SquaredHinge
from netsim.errors import BadInput

PREDICTIONS = np.linspace(-6.0, 6.05, 41)  # no prediction at a margin of 1, where hinge losses have no derivative
LOSSES: list[LossFunction] = [Squared(), SquaredHinge(), Logistic(), Hinge()]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_derivatives_match_finite_differences(loss: LossFunction, label: float) -> None:
    y, step = np.full_like(PREDICTIONS, label), 1e-5
    up, down = PREDICTIONS + step, PREDICTIONS - step
    first = (loss.value(up, y) - loss.value(down, y)) / (2 * step)
    second = (loss.derivative(up, y) - loss.derivative(down, y)) / (2 * step)
    assert loss.derivative(PREDICTIONS, y) == pytest.approx(first, abs=1e-8)
    assert loss.second_derivative(PREDICTIONS, y) == pytest.approx(second, abs=1e-8)


def test_values_are_their_formulas() -> None:
    f, y = np.array([0.5, -2.0]), np.array([1.0, -1.0])
    assert Squared().value(f, y) == pytest.approx([0.25, 1.0])
    assert Logistic().value(f, y) == pytest.approx(np.log1p(np.exp(-y * f)))
    margins = np.array([-1.0, 0.5, 1.0, 3.0])
    for label in (-1.0, 1.0):
        assert SquaredHinge().value(label * margins, np.full(4, label)).tolist() == [4.0, 0.25, 0.0, 0.0]


def test_logistic_is_stable_at_any_margin() -> None:
    f, y = np.array([1e4, -1e4, 1e4, -1e4]), np.array([1.0, 1.0, -1.0, -1.0])
    assert Logistic().value(f, y).tolist() == [0.0, 1e4, 1e4, 0.0]
    assert Logistic().derivative(f, y).tolist() == [0.0, -1.0, 1.0, 0.0]
    assert Logistic().second_derivative(f, y).tolist() == [0.0, 0.0, 0.0, 0.0]
    tiny = Logistic().value(np.array([40.0]), np.array([1.0]))
    assert tiny == pytest.approx(np.exp(-40.0), rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_arguments_broadcast(loss: LossFunction) -> None:
    f, y = PREDICTIONS[:, None], np.array([[-1.0, 1.0]])
    for method in (loss.value, loss.derivative, loss.second_derivative):
        assert method(f, y).shape == (41, 2)


def test_squared_hinge_rests_beyond_its_margin() -> None:
    f, y = np.array([1.0, 1.0 + 1e-12, 50.0, -1.0]), np.array([1.0, 1.0, 1.0, -1.0])
    loss = SquaredHinge()
    for method in (loss.value, loss.derivative, loss.second_derivative):
        assert np.abs(method(f, y)).max() == 0.0
    assert loss.second_derivative(np.array([0.999]), np.array([1.0])).tolist() == [2.0]


@pytest.mark.parametrize("label", [-1.0, 1.0])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_slope_over_no_distance_is_the_derivative(loss: LossFunction, label: float) -> None:
    for f in PREDICTIONS:
        assert loss.slope(f, 0.0, label) == pytest.approx(float(loss.derivative(f, label)), rel=1e-12)


@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic(), Hinge()], ids=lambda loss: loss.name)
def test_losses_of_labels_refuse_other_targets(loss: LossFunction) -> None:
    loss.check_targets(np.array([1.0, -1.0]))
    with pytest.raises(BadInput, match=rf"^targets\[2\] = 0.0: must be -1 or 1 for the {loss.name} loss$"):
        loss.check_targets(np.array([1.0, -1.0, 0.0]))


@pytest.mark.parametrize("label", [-1.0, 1.0])
@pytest.mark.parametrize("k", [0.01, 0.7, 5.0])
def test_slope_of_the_hinge_leads_to_the_minimum(label: float, k: float) -> None:
    hinge, grid = Hinge(), np.linspace(-12.0, 12.0, 240_001)
    for f in PREDICTIONS:
        best = grid[np.argmin(hinge.value(grid, np.array(label)) + (grid - f) ** 2 / (2.0 * k))]
        assert f - k * hinge.slope(f, k, label) == pytest.approx(best, abs=1e-4)


def test_the_hinge_rests_from_its_kink_on() -> None:
    f, y = np.array([0.999, 1.0, 2.0, -2.0]), np.array([1.0, 1.0, 1.0, -1.0])
    assert Hinge().derivative(f, y).tolist() == [-1.0, 0.0, 0.0, 0.0]
    assert Hinge().slope(1.0, 0.0, 1.0) == 0.0


def test_a_batch_problem_refuses_a_loss_with_kinks() -> None:
    assert [loss.smooth for loss in LOSSES] == [True, True, True, False]
    with pytest.raises(BadInput, match=r"^loss = 'hinge': must be a loss with a derivative everywhere, .*$"):
        LocalProblem(np.ones((2, 1)), np.array([1.0, -1.0]), loss=Hinge(), regularizer=0.1)
