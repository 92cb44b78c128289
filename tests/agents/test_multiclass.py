import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.agents.costs.losses import Hinge, Logistic, Squared, SquaredHinge
from netsim.agents.costs.multiclass import MulticlassHinge, MulticlassLoss, OneVsRest, Softmax, by_name
from netsim.errors import BadInput

CLASSES = 4
SMOOTH: list[MulticlassLoss] = [
    Softmax(CLASSES),
    MulticlassHinge(CLASSES, 0.7),
    MulticlassHinge(CLASSES, 0.05),
    OneVsRest(Logistic(), CLASSES),
    OneVsRest(Squared(), CLASSES),
    OneVsRest(SquaredHinge(), CLASSES),
]
LOSSES: list[MulticlassLoss] = [*SMOOTH, MulticlassHinge(CLASSES), OneVsRest(Hinge(), CLASSES)]


def scores(seed: int, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return 2.0 * rng.standard_normal((count, CLASSES)), rng.integers(CLASSES, size=count)


def name_of(loss: MulticlassLoss) -> str:
    return f"{type(loss).__name__}-{loss.name}-{getattr(loss, 'temperature', '')}"


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
def test_derivatives_match_finite_differences(loss: MulticlassLoss) -> None:
    f, y = scores(1)
    gradient = loss.derivative(f, y)
    step = 1e-6
    for j in range(CLASSES):
        shift = step * np.eye(CLASSES)[j]
        slope = (loss.value(f + shift, y) - loss.value(f - shift, y)) / (2 * step)
        assert gradient[:, j] == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
def test_curvature_matches_finite_differences(loss: MulticlassLoss) -> None:
    f, y = scores(2)
    v = np.random.default_rng(3).standard_normal(f.shape)
    step = 1e-6
    along = (loss.derivative(f + step * v, y) - loss.derivative(f - step * v, y)) / (2 * step)
    assert loss.curvature(f, y, v) == pytest.approx(along, abs=2e-7)
    if not loss.smooth:
        assert not loss.curvature(f, y, v).any()


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
def test_losses_are_convex_and_above_their_tangents(loss: MulticlassLoss) -> None:
    f, y = scores(4, 400)
    g, _ = scores(5, 400)
    tangent = loss.value(f, y) + np.sum(loss.derivative(f, y) * (g - f), axis=1)
    assert (loss.value(g, y) >= tangent - 1e-12).all()
    between = loss.value(0.3 * f + 0.7 * g, y)
    assert (between <= 0.3 * loss.value(f, y) + 0.7 * loss.value(g, y) + 1e-12).all()
    assert (np.sum(g * loss.curvature(f, y, g), axis=1) >= -1e-12).all()


def test_values_are_their_formulas() -> None:
    f, y = np.array([[1.0, 3.0, -1.0, 0.5], [2.0, 0.0, 0.5, 0.25]]), np.array([0, 0])
    assert MulticlassHinge(4).value(f, y) == pytest.approx([3.0, 0.0])
    assert MulticlassHinge(4).derivative(f, y).tolist() == [[-1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    chances = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    assert Softmax(4).value(f, y) == pytest.approx(-np.log(chances[:, 0]))
    signs = np.array([1.0, -1.0, -1.0, -1.0])
    assert OneVsRest(Squared(), 4).value(f, y) == pytest.approx(((f - signs) ** 2).sum(axis=1))


def test_at_the_kink_the_hinge_rests() -> None:
    f = np.array([[1.0, 0.0, -3.0, -3.0]])
    assert MulticlassHinge(4).derivative(f, np.array([0])).tolist() == [[0.0, 0.0, 0.0, 0.0]]


@given(st.integers(0, 10_000), st.floats(1e-3, 3.0))
@settings(max_examples=60, deadline=None)
def test_a_temperature_raises_the_hinge_by_at_most_tau_log_c(seed: int, tau: float) -> None:
    f, y = scores(seed, 20)
    above = MulticlassHinge(CLASSES, tau).value(f, y) - MulticlassHinge(CLASSES).value(f, y)
    assert above.min() >= -1e-12
    assert above.max() <= tau * np.log(CLASSES) + 1e-12


def test_two_classes_are_the_losses_of_two() -> None:
    rng = np.random.default_rng(6)
    margin, y = rng.standard_normal(50), rng.integers(2, size=50)
    f = np.stack([np.zeros(50), margin], axis=1)
    signs = 2.0 * y - 1.0
    assert Softmax(2).value(f, y) == pytest.approx(Logistic().value(margin, signs))
    assert MulticlassHinge(2).value(f, y) == pytest.approx(Hinge().value(margin, signs))


def test_scores_of_any_size_are_stable() -> None:
    f = np.array([[1e4, -1e4, 0.0, 0.0], [-1e4, 1e4, 0.0, 0.0]])
    y = np.array([0, 0])
    assert Softmax(4).value(f, y).tolist() == [0.0, 2e4]
    assert Softmax(4).derivative(f, y).tolist() == [[0.0, 0.0, 0.0, 0.0], [-1.0, 1.0, 0.0, 0.0]]
    assert MulticlassHinge(4, 1e-3).value(f, y) == pytest.approx([0.0, 20001.0])


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
def test_labels_may_come_as_floats_and_arguments_are_not_changed(loss: MulticlassLoss) -> None:
    f, y = scores(7)
    kept = f.copy()
    for method in (loss.value, loss.derivative):
        assert (method(f, y.astype(float)) == method(f, y)).all()
    assert (f == kept).all()


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
def test_targets_that_are_no_class_are_refused(loss: MulticlassLoss) -> None:
    loss.check_targets(np.array([0, 3, 1]))
    loss.check_targets(np.array([0.0, 3.0]))
    for wrong in (4, -1, 0.5, np.nan):
        with pytest.raises(BadInput, match=r"^targets\[1\] = .*: must be a class, a whole number from 0 to 3$"):
            loss.check_targets(np.array([0.0, wrong]))
    with pytest.raises(BadInput, match=r"^targets.shape = \(1, 2\): must be \(n,\)"):
        loss.check_targets(np.array([[0, 1]]))


def test_by_name() -> None:
    assert isinstance(by_name("logistic", 3), Softmax)
    hinge = by_name("hinge", 3)
    assert isinstance(hinge, MulticlassHinge)
    assert not hinge.smooth
    assert isinstance(by_name("squared", 3), OneVsRest)
    assert by_name("squared_hinge", 3).name == "squared_hinge"
    with pytest.raises(BadInput, match=r"^loss = 'hing': .*did you mean 'hinge'"):
        by_name("hing", 3)
    with pytest.raises(BadInput, match=r"^classes = 1: must be a whole number >= 2$"):
        by_name("hinge", 1)
