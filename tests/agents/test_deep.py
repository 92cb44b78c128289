"""Deep feature maps, bandwidths, and the convergence of random features to their kernel."""

from typing import Any

import numpy as np
import pytest

from netsim.agents.maps.bandwidth import cross_validated, median_distance, median_sigmas, misclassified, squared_error
from netsim.agents.maps.deep import Deep, MultiPath, fourier_layers
from netsim.agents.maps.features import Kernel, RandomFourier, kernel_matrix
from netsim.errors import BadInput
from tests.parts import slow


def by_hand(x: np.ndarray[Any, np.dtype[np.float64]], layer: RandomFourier) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.sqrt(2 / len(layer.frequencies)) * np.cos(x @ layer.frequencies.T + layer.phases)


def test_a_deep_map_is_the_composition_by_hand() -> None:
    layers = fourier_layers(4, (7, 5, 3), sigmas=(1.0, 0.7, 0.5), kernels=("gaussian", "laplacian", "cauchy"), seed=3)
    x = np.random.default_rng(0).random((6, 4))
    first = by_hand(x, layers[0])
    second = by_hand(first, layers[1])
    third = by_hand(second, layers[2])
    deep, paths = Deep(layers), MultiPath(layers)
    assert np.allclose(deep(x), third, rtol=0, atol=1e-15)
    assert np.allclose(paths(x), np.hstack([third, second, first]), rtol=0, atol=1e-15)
    assert (deep.inputs, deep.size, paths.inputs, paths.size) == (4, 3, 4, 15)


def test_layers_come_from_one_seed_and_do_not_depend_on_those_after() -> None:
    two = fourier_layers(4, (7, 5), sigmas=(1, 1), seed=3)
    three = fourier_layers(4, (7, 5, 2), sigmas=(1, 1, 1), seed=3)
    for a, b in zip(two, three, strict=False):
        assert (a.frequencies == b.frequencies).all()
    assert (two[0].frequencies == RandomFourier(4, 7, seed=3).frequencies).all()
    other = fourier_layers(4, (7, 5), sigmas=(1, 1), seed=4)
    assert not np.allclose(two[1].frequencies, other[1].frequencies)
    # Layers have different frequencies even if their shapes are equal.
    square = fourier_layers(5, (5, 5, 5), sigmas=(1, 1, 1), seed=0)
    assert not np.allclose(square[1].frequencies, square[2].frequencies)


def test_bandwidths_scale_their_layers() -> None:
    one, half = (fourier_layers(3, (4, 4), sigmas=(1, sigma), seed=0) for sigma in (1.0, 0.5))
    assert np.allclose(2 * one[1].frequencies, half[1].frequencies)
    assert np.allclose(one[0].frequencies, half[0].frequencies)


def test_the_other_form_and_orthogonal_layers() -> None:
    layers = fourier_layers(3, (4, 6), sigmas=(1, 1), form="cos+sin", orthogonal=True, seed=0)
    assert [layer.size for layer in layers] == [8, 12]
    assert layers[1].inputs == 8
    block = layers[1].frequencies[:6]
    assert np.allclose(block @ block.T, np.diag(np.diag(block @ block.T)))
    # Only Gaussian frequencies can be orthogonal.
    mixed = fourier_layers(3, (4, 6), sigmas=(1, 1), kernels=("gaussian", "cauchy"), orthogonal=True, seed=0)
    assert MultiPath(mixed).size == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": ()}, "must be as many as there are layers; they are 0, 2, 0"),
        ({"sigmas": (1.0,)}, "must be as many as there are layers; they are 2, 1, 2"),
        ({"kernels": ("gaussian",)}, "they are 2, 2, 1"),
        ({"kernels": "gausian"}, "kernel = 'gausian': must be one of gaussian"),
        ({"sigmas": (1.0, 0.0)}, "sigma = 0.0: must be a number > 0"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_bad_layers(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        fourier_layers(**{"inputs": 3, "widths": (4, 4), "sigmas": (1.0, 1.0)} | options)
    assert message in str(caught.value)


def test_layers_that_do_not_fit() -> None:
    with pytest.raises(BadInput, match=r"layers\[1\].inputs = 3: must be 5, the size of layers\[0\]"):
        Deep([RandomFourier(2, 5), RandomFourier(3, 4)])
    with pytest.raises(BadInput, match="at least one feature map"):
        Deep([])
    with pytest.raises(BadInput, match=r"x\.shape"):
        Deep([RandomFourier(2, 5)])(np.zeros((3, 4)))


@pytest.mark.parametrize(
    ("kernel", "orthogonal"),
    [("gaussian", False), slow("gaussian", True), slow("laplacian", False), slow("cauchy", False)],
)
def test_the_kernel_error_falls_as_one_over_the_root_of_the_features(kernel: Kernel, orthogonal: bool) -> None:
    x = np.random.default_rng(0).random((40, 5))
    exact = kernel_matrix(kernel, x, x, 1.0)
    widths = np.array([50, 100, 200, 400, 800, 1600])

    def error(width: int, seed: int) -> float:
        features = RandomFourier(5, width, kernel=kernel, form="cos+sin", orthogonal=orthogonal, seed=seed)(x)
        return float(np.mean(np.square(features @ features.T - exact)))

    errors = [np.sqrt(np.mean([error(int(width), seed) for seed in range(60)])) for width in widths]
    slope = np.polyfit(np.log(widths), np.log(errors), 1)[0]
    assert -0.56 < slope < -0.44


def test_the_kernel_of_a_deep_map_approaches_the_composed_kernel() -> None:
    x = np.random.default_rng(0).random((30, 3))
    inner = kernel_matrix("gaussian", x, x, 1.0)
    # For features of length 1, ‖φ(x) − φ(x')‖² = 2 − 2κ(x, x').
    outer = np.exp(-(2 - 2 * inner) / (2 * 0.6**2))
    features = Deep(fourier_layers(3, (2000, 2000), sigmas=(1.0, 0.6), form="cos+sin", seed=1))(x)
    assert np.abs(features @ features.T - outer).max() < 0.1
    both = MultiPath(fourier_layers(3, (2000, 2000), sigmas=(1.0, 0.6), form="cos+sin", seed=1))(x)
    assert np.abs(both @ both.T - (outer + inner)).max() < 0.13


def test_median_distance() -> None:
    assert median_distance([[0.0], [1.0], [3.0]]) == 2.0
    # Most points are equal: the median is taken over the pairs that differ.
    assert median_distance([[0.0]] * 9 + [[5.0]]) == 5.0
    rare = np.zeros((5000, 1))
    rare[7] = 3.0
    assert median_distance(rare) == 3.0
    many = np.random.default_rng(0).random((3000, 2))
    assert median_distance(many, seed=1) == median_distance(many, seed=1) != median_distance(many, seed=2)
    assert abs(median_distance(many) - 0.512) < 0.03  # the median distance in a square of side 1
    for bad, message in (([[1.0], [1.0]], "two are different"), ([[1.0]], "n at least 2"), ([[np.nan], [1]], "finite")):
        with pytest.raises(BadInput, match=message):
            median_distance(bad)


def test_median_of_each_layer() -> None:
    x = np.random.default_rng(0).random((200, 4))
    sigmas = median_sigmas(x, (50, 50), seed=2)
    first = fourier_layers(4, (50,), sigmas=sigmas[:1], seed=2)[0](x)
    assert sigmas == [median_distance(x, seed=2), median_distance(first, seed=2)]


def test_cross_validation_finds_the_bandwidth_that_the_data_have() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((300, 2))
    centres = rng.random((20, 2))
    y = kernel_matrix("gaussian", x, centres, 0.3) @ rng.standard_normal(20) + 0.05 * rng.standard_normal(300)
    sigmas = (0.02, 0.3, 5.0)
    maps = [RandomFourier(2, 150, sigma=sigma, form="cos+sin", seed=1) for sigma in sigmas]
    done: list[int] = []
    scores = cross_validated(maps, x, y, (1e-9, 1e-5, 10.0), score=squared_error, progress=done.append)
    assert np.unravel_index(scores.argmin(), scores.shape)[0] == 1
    assert scores[1, 1] < 0.01 < scores[1, 2]
    assert done == [1, 2, 3]


def test_cross_validation_is_ridge_regression_on_the_other_folds() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.random((30, 2)), np.eye(3)[rng.integers(3, size=30)] * 2 - 1
    phi = RandomFourier(2, 8, seed=1)
    got = cross_validated([phi], x, y, (0.01,), score=squared_error, folds=3, seed=5)[0, 0]
    parts = np.array_split(np.random.default_rng(5).permutation(30), 3)
    expected = []
    for part in parts:
        rest = [i for i in range(30) if i not in part]
        a = phi(x[rest])
        theta = np.linalg.solve(a.T @ a + 0.01 * 20 * np.eye(8), a.T @ y[rest])
        expected.append(np.mean((phi(x[part]) @ theta - y[part]) ** 2))
    assert abs(got - np.mean(expected)) < 1e-12
    shares = cross_validated([phi], x, y, (0.01,), score=misclassified, folds=3, seed=5)[0, 0]
    assert 0 <= shares <= 1
    assert abs(shares * 30 - round(shares * 30)) < 1e-9


def test_cross_validation_refuses() -> None:
    phi = RandomFourier(2, 8, seed=1)
    x, y = np.zeros((4, 2)), np.zeros(4)
    with pytest.raises(BadInput, match="folds = 5: must be a whole number from 2 to 4"):
        cross_validated([phi], x, y, (1.0,), score=squared_error)
    with pytest.raises(BadInput, match=r"regularizers = 0\.0: must be a number > 0"):
        cross_validated([phi], x, y, (0.0,), score=squared_error, folds=2)
