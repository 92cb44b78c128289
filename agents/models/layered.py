"""Networks of layers: softmax regression, multilayer perceptrons, convolutional and semi-random networks.

The parameters are named tensors, and also one flat vector, which the agents exchange.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from netsim.agents.maps.features import RandomFourier
from netsim.agents.models.layers import Convolution, Dense, Layer, MeanPool, ReLU, SemiRandom, Tensor
from netsim.errors import BadInput
from netsim.util import check, draws
from netsim.util.typing import Array


@dataclass(frozen=True)
class Layered:
    """A network: a sequence of layers, whose last values are the scores of the classes, or predictions.

    Its functions take arrays of any library with the array API, and the library's namespace ``xp``. The parameters are
    a vector. An array of shape (..., D) holds the parameters of several networks; scores then have the same leading
    shape.

    Parameters
    ----------
    layers : tuple of Layer
        The layers; the input of each layer is the output of the one before.
    squared : bool
        Whether the network predicts numbers, with the squared loss, instead of classes, with the cross-entropy.

    Attributes
    ----------
    inputs, classes : int
        Length of a sample, and number of classes (if ``squared``, of predicted numbers).
    shapes : dict
        {name: shape} of the tensors, in the order of their values in the vector. "0.weight" is the weight of the first
        layer, as in a ``state_dict`` of PyTorch's ``Sequential`` (whose matrices are transposed).
    size : int
        Length D of the vector.
    widest : int
        The largest number of values that a layer computes from one sample.

    Raises
    ------
    BadInput
        If the input of a layer has another length than the output of the one before.
    """

    layers: tuple[Layer, ...]
    squared: bool = False

    def __post_init__(self) -> None:
        if not self.layers:
            raise check.refuse("layers", self.layers, "one layer at least")
        for number, (below, above) in enumerate(pairwise(self.layers), start=1):
            if below.outputs != above.inputs:
                raise BadInput(f"layers[{number}].inputs = {above.inputs}: must be {below.outputs}, as it gets")

    @property
    def inputs(self) -> int:
        """Length of a sample."""
        return self.layers[0].inputs

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.layers[-1].outputs

    @property
    def widest(self) -> int:
        """The largest number of values of a layer for one sample."""
        return max(max(layer.inputs, layer.outputs) for layer in self.layers)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """{name: shape} of the tensors, in the order of their values in the vector."""
        return {f"{n}.{name}": shape for n, layer in enumerate(self.layers) for name, shape in layer.shapes.items()}

    @cached_property
    def _places(self) -> list[list[tuple[str, int, int, tuple[int, ...]]]]:
        """For each layer, its parameters as (name, first index in the vector, end, shape)."""
        found, first = [], 0
        for layer in self.layers:
            own = []
            for name, shape in layer.shapes.items():
                own.append((name, first, first + math.prod(shape), shape))
                first += math.prod(shape)
            found.append(own)
        return found

    @cached_property
    def size(self) -> int:
        """Length D of the vector."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def start(self, seed: int) -> Array:
        """Return initial parameters, shape (D,), drawn from a random stream of the seed.

        Each layer initialises its parameters. Those of the last layer are zero, so that all classes are equally likely.
        """
        rng = draws.generator(check.integer("seed", seed, low=0), "model", "start")
        parts = [layer.start(rng) for layer in self.layers]
        parts[-1] = {name: np.zeros_like(tensor) for name, tensor in parts[-1].items()}
        return np.concatenate([tensor.ravel() for own in parts for tensor in own.values()])

    def tensors(self, vector: Array) -> dict[str, Array]:
        """Return a vector, shape (..., D), as named tensors, which are views of the vector."""
        parts = self._split(np, vector)
        return {f"{number}.{name}": tensor for number, own in enumerate(parts) for name, tensor in own.items()}

    def scores(self, xp: Any, vector: Tensor, samples: Tensor) -> Tensor:
        """Return each class's score of each sample, shape (..., n, classes)."""
        for layer, parameters in zip(self.layers, self._split(xp, vector), strict=True):
            samples, _ = layer.forward(xp, parameters, samples)
        return samples

    def loss(self, xp: Any, vector: Tensor, samples: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross-entropy of the classes' probabilities, the softmax of the scores, shape (...).

        If ``squared``, it is the mean over the samples of ‖scores − labels‖².

        Parameters
        ----------
        samples : array, shape (n, inputs)
            The samples.
        labels : array, shape (n, classes)
            For each sample, 1 for its class and 0 for the others; if ``squared``, its target numbers.
        """
        scores = self.scores(xp, vector, samples)
        if self.squared:
            return xp.mean(xp.sum((scores - labels) ** 2, axis=-1), axis=-1)
        scores = scores - xp.max(scores, axis=-1, keepdims=True)
        losses = xp.log(xp.sum(xp.exp(scores), axis=-1)) - xp.sum(scores * labels, axis=-1)
        return xp.mean(losses, axis=-1)

    def gradient(self, xp: Any, vector: Tensor, samples: Tensor, labels: Tensor) -> Tensor:
        """Return the gradient of `loss` by the vector, shape (D,), by backpropagation."""
        parameters, kept = self._split(xp, vector), []
        for layer, own in zip(self.layers, parameters, strict=True):
            samples, other = layer.forward(xp, own, samples)
            kept.append(other)
        if self.squared:
            above = 2.0 * (samples - labels) / labels.shape[0]
        else:
            powers = xp.exp(samples - xp.max(samples, axis=-1, keepdims=True))
            above = (powers / xp.sum(powers, axis=-1, keepdims=True) - labels) / labels.shape[0]
        parts: list[Tensor] = []
        for number in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[number]
            slopes = layer.slopes(xp, kept[number], above)
            parts = [xp.reshape(slopes[name], (-1,)) for name in slopes] + parts
            if number:
                above = layer.back(xp, parameters[number], kept[number], above)
        return xp.concat(parts)

    def _split(self, xp: Any, vector: Tensor) -> list[dict[str, Tensor]]:
        """Return each layer's parameters by name."""
        lead = tuple(vector.shape[:-1])
        return [
            {name: xp.reshape(vector[..., first:end], (*lead, *shape)) for name, first, end, shape in own}
            for own in self._places
        ]


def softmax_regression(inputs: int, classes: int) -> Layered:
    """Return a network without hidden layers: scores x W + b. Its loss is convex."""
    return mlp(inputs, (), classes)


def mlp(inputs: int, hidden: Sequence[int], classes: int) -> Layered:
    """Return a multilayer perceptron: fully connected layers of the widths ``hidden``, each with a ReLU after it."""
    widths = [check.integer("inputs", inputs, low=1)]
    widths += [check.integer(f"hidden[{place}]", width, low=1) for place, width in enumerate(hidden)]
    layers: list[Layer] = []
    for width, after in pairwise(widths):
        layers += [Dense(width, after), ReLU(after)]
    return Layered((*layers, Dense(widths[-1], check.integer("classes", classes, low=2))))


def cnn(side: int, classes: int, *, filters: Sequence[int] = (8, 16), channels: int = 1, kernel: int = 3) -> Layered:
    """Return a small convolutional network for images of side × side pixels.

    Each number in ``filters`` stands for a convolution with this number of filters, a ReLU, and means of 2 × 2 pixels;
    a fully connected layer follows. The order of layers is that of LeNet-5 (LeCun, Bottou, Bengio and Haffner 1998).

    Raises
    ------
    BadInput
        If a number is outside its range, or the side cannot be halved once for each convolution.
    """
    check.integer("classes", classes, low=2)
    check.integer("side", side, low=2 ** len(filters))
    check.integer("channels", channels, low=1)
    layers: list[Layer] = []
    for place, count in enumerate(filters):
        check.integer(f"filters[{place}]", count, low=1)
        layers += [Convolution(side, channels, count, kernel), ReLU(side * side * count), MeanPool(side, count)]
        side, channels = side // 2, count
    return Layered((*layers, Dense(side * side * channels, classes)))


def semi_random(features: Sequence[RandomFourier], outputs: int, *, squared: bool = False) -> Layered:
    """Return a deep semi-random network: f(x) = θᵀ w_M, with the layers of `SemiRandom` (dissertation, section 5.7).

    It has d L_1 + L_1 L_2 + … + L_M C parameters, and no biases. The layers may be those of DKL
    (`netsim.agents.maps.deep.fourier_layers`).

    Parameters
    ----------
    features : sequence of RandomFourier
        The random features of each layer; their inputs are the features of the layer before.
    outputs : int
        Number C of classes or, if ``squared``, of predicted numbers.
    squared : bool
        Whether to predict numbers instead of classes.

    Raises
    ------
    BadInput
        If there is no layer, or the lengths of successive layers are inconsistent.
    """
    if not features:
        raise check.refuse("features", features, "at least one layer")
    widths = [0, *(each.size for each in features)]
    last = len(features) - 1
    layers = [SemiRandom(each, widths[place], place == last) for place, each in enumerate(features)]
    count = check.integer("outputs", outputs, low=1 if squared else 2)
    return Layered((*layers, Dense(widths[-1], count, bias=False)), squared)
