"""Neural networks on the array API: gradients, layers compared with other libraries, and portability."""

from itertools import product

import array_api_strict
import numpy as np
import pytest
import scipy

from netsim import BadInput
from netsim.agents import Layered, cnn, fourier_layers, mlp, semi_random, softmax_regression
from netsim.agents.models.layers import Convolution, Dense, MeanPool, ReLU, SemiRandom
from netsim.util.typing import Array
from tests.oracle import semi_random as oracle
from tests.parts import only_with

NETWORKS: dict[str, Layered] = {
    "softmax": softmax_regression(7, 3),
    "one hidden layer": mlp(7, (5,), 3),
    "two hidden layers": mlp(7, (6, 4), 2),
    "cnn": cnn(6, 3, filters=(3,), channels=2),
    "cnn of odd sides": cnn(5, 4, filters=(2, 3)),
    "semi-random": semi_random(fourier_layers(7, (5, 6), sigmas=(1.0, 0.7), seed=3), 3),
    "two semi-random layers, squared": semi_random(fourier_layers(4, (5, 6), sigmas=(1.5, 0.8)), 1, squared=True),
    "semi-random layers above a dense one": Layered(
        (
            Dense(3, 7),
            *semi_random(fourier_layers(7, (5, 4), sigmas=(2.0, 0.7), seed=4), 2, squared=True).layers,
        ),
        squared=True,
    ),
}


def drawn(network: Layered, count: int = 9) -> tuple[Array, Array, Array]:
    """Draw parameters of a network, and samples and labels for it."""
    rng = np.random.default_rng(5)
    hot = np.eye(network.classes)[rng.integers(0, network.classes, count)]
    return 0.5 * rng.standard_normal(network.size), rng.standard_normal((count, network.inputs)), hot


@pytest.mark.parametrize("name", NETWORKS)
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    network = NETWORKS[name]
    weights, inputs, labels = drawn(network)
    slopes = network.gradient(np, weights, inputs, labels)
    assert slopes.shape == (network.size,)
    step = 1e-6
    for place in range(network.size):
        ahead, behind = weights.copy(), weights.copy()
        ahead[place] += step
        behind[place] -= step
        rise = network.loss(np, ahead, inputs, labels) - network.loss(np, behind, inputs, labels)
        assert slopes[place] == pytest.approx(rise / (2 * step), abs=1e-8)


@pytest.mark.parametrize("name", NETWORKS)
def test_only_functions_of_the_standard_are_used(name: str) -> None:
    network, strict = NETWORKS[name], array_api_strict
    given = drawn(network)
    there = [strict.asarray(each) for each in given]
    assert float(network.loss(strict, *there)) == pytest.approx(network.loss(np, *given), rel=1e-13)
    slopes = np.asarray(network.gradient(strict, *there))
    np.testing.assert_allclose(slopes, network.gradient(np, *given), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_side_by_side_are_those_one_by_one(name: str) -> None:
    network = NETWORKS[name]
    weights, inputs, labels = drawn(network)
    several = np.stack([weights, -weights, 2 * weights])
    scores = network.scores(np, several, inputs)
    assert scores.shape == (3, 9, network.classes)
    losses = network.loss(np, several, inputs, labels)
    for each, own, loss in zip(several, scores, losses, strict=True):
        np.testing.assert_allclose(own, network.scores(np, each, inputs), rtol=1e-12, atol=1e-12)
        assert loss == pytest.approx(network.loss(np, each, inputs, labels), rel=1e-12)


@only_with("sklearn")
def test_the_loss_is_the_cross_entropy_of_sklearn() -> None:
    from sklearn.metrics import log_loss

    network = NETWORKS["softmax"]
    weights, inputs, labels = drawn(network)
    powers = np.exp(inputs @ weights[:21].reshape(7, 3) + weights[21:])
    expected = log_loss(labels.argmax(axis=1), powers / powers.sum(axis=1, keepdims=True), labels=range(3))
    assert network.loss(np, weights, inputs, labels) == pytest.approx(expected, rel=1e-12)


def test_the_loss_of_large_scores_is_finite() -> None:
    network = softmax_regression(1, 2)
    weights = np.array([1e4, -1e4, 0.0, 0.0])
    loss = network.loss(np, weights, np.ones((1, 1)), np.array([[0.0, 1.0]]))
    assert loss == 2e4


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_a_convolution_is_that_of_scipy(kernel: int) -> None:
    layer = Convolution(6, channels=2, filters=3, kernel=kernel)
    rng = np.random.default_rng(1)
    images, weight = rng.standard_normal((4, 6, 6, 2)), rng.standard_normal((kernel, kernel, 2, 3))
    bias = rng.standard_normal(3)
    found, _ = layer.forward(np, {"weight": weight, "bias": bias}, images.reshape(4, -1))
    for image, chosen in product(range(4), range(3)):
        parts = [
            scipy.signal.correlate2d(images[image, :, :, c], weight[:, :, c, chosen], mode="same") for c in range(2)
        ]
        expected = np.sum(parts, axis=0) + bias[chosen]
        np.testing.assert_allclose(found.reshape(4, 6, 6, 3)[image, :, :, chosen], expected, atol=1e-12)


@pytest.mark.parametrize("name", ["semi-random", "two semi-random layers, squared"])
def test_a_semi_random_network_is_its_recursion(name: str) -> None:
    network = NETWORKS[name]
    weights, inputs, labels = drawn(network)
    labels = labels + 0.3 if network.squared else labels
    random = [layer for layer in network.layers if isinstance(layer, SemiRandom)]
    fixed = [(layer.features.frequencies, layer.features.phases) for layer in random]
    learned = list(network.tensors(weights).values())
    assert [each.shape for each in learned] == [(network.inputs, 5), (5, 6), (6, network.classes)]
    expected = oracle.predictions(fixed, learned, inputs)
    np.testing.assert_allclose(network.scores(np, weights, inputs), expected, rtol=0, atol=1e-13)
    slopes = oracle.gradient(fixed, learned, inputs, labels, squared=network.squared)
    found = network.gradient(np, weights, inputs, labels)
    np.testing.assert_allclose(found, np.concatenate([each.ravel() for each in slopes]), rtol=0, atol=1e-13)


def test_a_semi_random_layer_starts_with_values_as_long_as_its_inputs() -> None:
    network = semi_random(fourier_layers(50, (400, 400), sigmas=(3.0, 1.0)), 2)
    first, second, _ = network.layers
    x = np.random.default_rng(0).random((200, 50))
    tensors = network.tensors(network.start(0))
    middle, _ = first.forward(np, {"weight": tensors["0.weight"]}, x)
    last, _ = second.forward(np, {"weight": tensors["1.weight"]}, middle)
    for values in (middle[:, 400:], last):
        assert np.mean(values**2) * 400 == pytest.approx(np.mean(x**2) * 50, rel=0.2)


def test_parameters_of_semi_random_networks_are_counted_as_published() -> None:
    """The counts are from tables 5.3, 5.4 (20 + 20), 5.5, 5.6 and the text on figure 5.3: one output, no biases."""
    for inputs, width, count in (
        (96, 100, 19_700),
        (48, 20, 1_380),
        (103, 100, 20_400),
        (30, 10, 410),
        (77, 50, 6_400),
    ):
        layers = fourier_layers(inputs, (width, width), sigmas=(1.0, 1.0))
        assert semi_random(layers, 1, squared=True).size == count


def test_a_pool_takes_means_of_four_pixels_and_leaves_out_an_odd_edge() -> None:
    image = np.arange(25.0)
    found, _ = MeanPool(5, 1).forward(np, {}, image[None])
    assert found.tolist() == [[3.0, 5.0, 13.0, 15.0]]


def test_tensors_have_names_shapes_and_places() -> None:
    network = mlp(4, (3,), 2)
    assert network.shapes == {"0.weight": (4, 3), "0.bias": (3,), "2.weight": (3, 2), "2.bias": (2,)}
    assert network.size == 12 + 3 + 6 + 2
    tensors = network.tensors(np.arange(23.0))
    assert tensors["0.weight"][1, 0] == 3.0
    assert tensors["2.bias"].tolist() == [21.0, 22.0]
    assert {name: tensor.shape for name, tensor in tensors.items()} == network.shapes


def test_the_start_is_drawn_by_the_seed_and_names_no_class() -> None:
    network = mlp(400, (300,), 10)
    start = network.start(3)
    assert np.array_equal(start, network.start(3))
    assert not np.array_equal(start, network.start(4))
    tensors = network.tensors(start)
    assert tensors["0.weight"].std() == pytest.approx(np.sqrt(2 / 400), rel=0.02)
    assert not tensors["0.bias"].any()
    assert network.loss(np, start, np.ones((2, 400)), np.eye(10)[:2]) == pytest.approx(np.log(10))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^layers\[1\].inputs = 4: must be 3, as it gets$"):
        Layered((Dense(2, 3), ReLU(4)))
    with pytest.raises(BadInput, match=r"^layers = .*: must be one layer at least$"):
        Layered(())
    with pytest.raises(BadInput, match=r"^hidden\[1\] = 0: must be "):
        mlp(4, (3, 0), 2)
    with pytest.raises(BadInput, match=r"^classes = 1: must be "):
        softmax_regression(4, 1)
    with pytest.raises(BadInput, match=r"^side = 3: must be "):
        cnn(3, 2)
    with pytest.raises(BadInput, match=r"^kernel = 4: must be odd$"):
        cnn(8, 2, kernel=4)
    layers = fourier_layers(4, (5, 6), sigmas=(1.0, 1.0))
    with pytest.raises(BadInput, match=r"^outputs = 1: must be "):
        semi_random(layers, 1)
    with pytest.raises(BadInput, match=r"^features = \[\]: must be at least one layer$"):
        semi_random([], 2)
    with pytest.raises(BadInput, match=r"^layers\[1\].inputs = 10: must be 12, as it gets$"):
        semi_random(layers[1:] + layers[:1], 2)
    with pytest.raises(BadInput, match=r"^features.form = 'cos\+sin': must be cos$"):
        semi_random(fourier_layers(4, (5,), sigmas=(1.0,), form="cos+sin"), 2)
