"""Networks on the array API: their gradients, and the same numbers from every library."""

import numpy as np
import pytest

from netsim.agents import Layered, cnn, mlp, softmax_regression
from netsim.util.typing import Array

NETWORKS: dict[str, Layered] = {
    "softmax": softmax_regression(7, 3),
    "one hidden layer": mlp(7, (5,), 3),
    "two hidden layers": mlp(7, (6, 4), 2),
    "cnn": cnn(6, 3, filters=(3,), channels=2),
    "cnn of odd sides": cnn(7, 4, filters=(2, 3), kernel=5),
}


def samples(network: Layered, count: int = 9) -> tuple[Array, Array, Array]:
    """Return parameters, samples and labels."""
    rng = np.random.default_rng(5)
    hot = np.eye(network.classes)[rng.integers(0, network.classes, count)]
    return rng.standard_normal(network.size), rng.standard_normal((count, network.inputs)), hot


@pytest.mark.parametrize("name", NETWORKS)
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    network = NETWORKS[name]
    weights, inputs, labels = samples(network)
    slopes = network.gradient(np, weights, inputs, labels)
    assert slopes.shape == (network.size,)
    step = 1e-6
    for place in range(network.size):
        ahead, behind = weights.copy(), weights.copy()
        ahead[place] += step
        behind[place] -= step
        rise = network.loss(np, ahead, inputs, labels) - network.loss(np, behind, inputs, labels)
        assert slopes[place] == pytest.approx(rise / (2 * step), abs=2e-8)
