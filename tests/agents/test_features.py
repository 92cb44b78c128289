from typing import Any, get_args

import numpy as np
import pytest

from netsim.agents.maps.features import FeatureMap, Form, Kernel, RandomFourier, kernel_matrix
from netsim.errors import BadInput

POINTS = np.random.default_rng(1).uniform(size=(40, 4))


def mean_error(features: int, seeds: int = 24, **options: Any) -> float:
    """Return the root mean square error of the approximate kernel over pairs of points and seeds."""
    exact = kernel_matrix(options.get("kernel", "gaussian"), POINTS, POINTS, options.get("sigma", 1.0))
    squares = []
    for seed in range(seeds):
        phi = RandomFourier(4, features, seed=seed, **options)(POINTS)
        squares.append(np.mean((phi @ phi.T - exact) ** 2))
    return float(np.sqrt(np.mean(squares)))


def test_kernels_are_their_formulas() -> None:
    x, z, sigma = np.array([[0.0, 1.0]]), np.array([[3.0, 5.0]]), 2.0
    assert kernel_matrix("gaussian", x, z, sigma)[0, 0] == pytest.approx(np.exp(-25 / 8))
    assert kernel_matrix("laplacian", x, z, sigma)[0, 0] == pytest.approx(np.exp(-7 / 2))
    assert kernel_matrix("cauchy", x, z, sigma)[0, 0] == pytest.approx(1 / (1 + 9 / 4) / (1 + 16 / 4))


def test_kernel_matrix_has_a_row_for_each_x_and_a_column_for_each_z() -> None:
    for kernel in get_args(Kernel):
        matrix = kernel_matrix(kernel, POINTS[:3], POINTS[:5], 0.7)
        assert matrix.shape == (3, 5)
        assert matrix[2, 4] == pytest.approx(kernel_matrix(kernel, POINTS[2:3], POINTS[4:5], 0.7)[0, 0])


@pytest.mark.parametrize("kernel", get_args(Kernel))
@pytest.mark.parametrize("form", get_args(Form))
def test_error_falls_as_one_over_the_root_of_the_features(kernel: str, form: str) -> None:
    sizes = np.array([32, 128, 512, 2048])
    errors = [mean_error(int(size), kernel=kernel, form=form, sigma=0.8) for size in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.08)
    assert errors[-1] < 0.03


def test_orthogonal_features_have_a_smaller_error() -> None:
    plain = mean_error(64, seeds=60, form="cos+sin")
    assert mean_error(64, seeds=60, form="cos+sin", orthogonal=True) < 0.8 * plain


def test_orthogonal_blocks_are_orthogonal_and_of_chi_length() -> None:
    omega = RandomFourier(4, 4002, sigma=0.5, orthogonal=True, seed=3).frequencies
    assert omega.shape == (4002, 4)
    gram = omega[4:8] @ omega[4:8].T
    assert np.allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    lengths = np.sum((0.5 * omega) ** 2, axis=1)
    assert np.mean(lengths) == pytest.approx(4.0, rel=0.05)
    assert np.var(lengths) == pytest.approx(8.0, rel=0.15)
    assert np.cov(0.5 * omega.T) == pytest.approx(np.eye(4), abs=0.1)


def test_orthogonal_blocks_are_uniform_over_all_rotations_and_reflections() -> None:
    blocks = RandomFourier(3, 3 * 4000, orthogonal=True, seed=4).frequencies.reshape(4000, 3, 3)
    # Rows at each position of the blocks are standard normal, too; half of the blocks are reflections.
    assert np.abs(blocks.mean(axis=0)).max() < 5 / np.sqrt(4000)
    assert np.abs((blocks**2).mean(axis=0) - 1.0).max() < 5 * np.sqrt(2 / 4000)
    reflections = np.mean(np.linalg.det(blocks) < 0.0)
    assert abs(reflections - 0.5) < 5 * 0.5 / np.sqrt(4000)


@pytest.mark.parametrize(("form", "size"), [("cos", 30), ("cos+sin", 60)])
def test_size_and_shape(form: Any, size: int) -> None:
    feature_map: FeatureMap = RandomFourier(4, 30, form=form)
    assert (feature_map.inputs, feature_map.size) == (4, size)
    assert feature_map(POINTS).shape == (40, size)
    assert feature_map(POINTS[:0]).shape == (0, size)


def test_features_are_their_formulas() -> None:
    phi = RandomFourier(4, 30, seed=2)
    expected = [np.sqrt(2 / 30) * np.cos(w @ POINTS[0] + b) for w, b in zip(phi.frequencies, phi.phases, strict=True)]
    assert phi(POINTS[:1])[0] == pytest.approx(expected, abs=1e-14)
    both = RandomFourier(4, 30, form="cos+sin", seed=2)
    angles = both.frequencies @ POINTS[0]
    expected = [*np.cos(angles) / np.sqrt(30), *np.sin(angles) / np.sqrt(30)]
    assert both(POINTS[:1])[0] == pytest.approx(expected, abs=1e-14)


def test_each_row_is_mapped_alone() -> None:
    feature_map = RandomFourier(4, 30)
    assert feature_map(POINTS)[7] == pytest.approx(feature_map(POINTS[7:8])[0], abs=1e-14)


def test_cos_and_sin_features_have_unit_norm() -> None:
    assert np.sum(RandomFourier(4, 30, form="cos+sin")(POINTS) ** 2, axis=1) == pytest.approx(np.ones(40))


def test_phases_fill_the_circle() -> None:
    phases = RandomFourier(4, 4000).phases
    assert 0.0 <= phases.min() < 0.02
    assert 2 * np.pi - 0.02 < phases.max() < 2 * np.pi


def test_the_seed_alone_fixes_the_map() -> None:
    np.random.seed(0)  # noqa: NPY002
    first = RandomFourier(4, 30, seed=5)
    np.random.seed(1)  # noqa: NPY002
    assert np.array_equal(first(POINTS), RandomFourier(4, 30, seed=5)(POINTS))
    assert not np.allclose(first(POINTS), RandomFourier(4, 30, seed=6)(POINTS))
    assert np.array_equal(first.frequencies, RandomFourier(4, 30, seed=5, form="cos+sin").frequencies)


def test_bandwidth_scales_the_frequencies() -> None:
    for kernel in get_args(Kernel):
        wide = RandomFourier(4, 30, sigma=4.0, kernel=kernel).frequencies
        assert RandomFourier(4, 30, kernel=kernel).frequencies == pytest.approx(4.0 * wide)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": 0}, "inputs = 0: must be a whole number >= 1"),
        ({"features": 2.5}, "features = 2.5: must be a whole number >= 1"),
        ({"sigma": 0.0}, "sigma = 0.0: must be a number > 0"),
        ({"sigma": float("inf")}, "sigma = inf: must be finite"),
        ({"seed": -1}, "seed = -1: must be a whole number >= 0"),
        ({"kernel": "gausian"}, "(did you mean 'gaussian'?)"),
        ({"form": "sin"}, "form = 'sin': must be one of cos, cos+sin"),
        ({"kernel": "cauchy", "orthogonal": True}, "orthogonal = True: must be False for kernel = 'cauchy'"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        RandomFourier(**{"inputs": 4, "features": 30, **options})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((3, 5)), "x.shape = (3, 5): must be (n, 4)"),
        (np.zeros(4), "x.shape = (4,): must be (n, 4)"),
        (np.array([[0.0, 0.0, np.nan, 0.0]]), "x[0, 2] = nan: must be finite"),
        ("text", "x = 'text': must be an array of real numbers"),
    ],
)
def test_bad_points(x: Any, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        RandomFourier(4, 30)(x)
    assert message in str(caught.value)


def test_bad_kernel_arguments() -> None:
    with pytest.raises(BadInput, match=r"kernel = 'linear': must be one of gaussian, laplacian, cauchy"):
        kernel_matrix("linear", POINTS, POINTS, 1.0)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"sigma = -1: must be"):
        kernel_matrix("gaussian", POINTS, POINTS, -1)
    with pytest.raises(BadInput, match=r"z.shape = \(40, 3\): must be \(n, 4\)"):
        kernel_matrix("gaussian", POINTS, POINTS[:, :3], 1.0)
