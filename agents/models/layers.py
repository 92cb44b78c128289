"""Layers of a network with their gradients by backpropagation, in functions of the array API standard only.

Arrays may be of any library that the standard covers; ``xp`` is its namespace. Nothing is changed in place. Between
layers a sample is a row: an array of shape (n, width), in which an image is flattened row by row with its channels
innermost. Parameters may have leading axes, the same for all, such as one for the agents: then so has what `forward`
returns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.util import check
from netsim.util.typing import Array

Tensor = Any
"""An array of some library."""

Tensors = Mapping[str, Tensor]
"""A layer's parameters by name."""


class Layer:
    """A function of samples and parameters.

    Attributes
    ----------
    inputs, outputs : int
        Length of a sample before and after.
    """

    inputs: int
    outputs: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters by name; none by default."""
        return {}

    def start(self, rng: np.random.Generator) -> dict[str, Array]:
        """Return parameters to start from, in float64."""
        return {}

    def forward(self, xp: Any, parameters: Tensors, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return the layer's values, shape (..., n, outputs), and what `slopes` and `back` need besides."""
        raise NotImplementedError

    def slopes(self, xp: Any, kept: Tensor, above: Tensor) -> dict[str, Tensor]:
        """Return the gradient by the parameters, from that by the layer's values, shape (n, outputs)."""
        return {}

    def back(self, xp: Any, parameters: Tensors, kept: Tensor, above: Tensor) -> Tensor:
        """Return the gradient by the samples, shape (n, inputs), from that by the layer's values."""
        raise NotImplementedError


@dataclass(frozen=True)
class Dense(Layer):
    """x W + b, with all values of a sample in each of the layer's.

    W starts as in He, Zhang, Ren and Sun 2015, normal with variance 2/inputs, b as zeros.
    """

    inputs: int
    outputs: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """weight: (inputs, outputs); bias: (outputs,)."""
        return {"weight": (self.inputs, self.outputs), "bias": (self.outputs,)}

    def start(self, rng: np.random.Generator) -> dict[str, Array]:
        """Return the weights drawn, and a bias of zeros."""
        return _he(rng, self.shapes, self.inputs)

    def forward(self, xp: Any, parameters: Tensors, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return x W + b, and the samples."""
        return samples @ parameters["weight"] + parameters["bias"][..., None, :], samples

    def slopes(self, xp: Any, kept: Tensor, above: Tensor) -> dict[str, Tensor]:
        """Return xᵀ g and the sum of g over the samples."""
        return {"weight": kept.mT @ above, "bias": xp.sum(above, axis=0)}

    def back(self, xp: Any, parameters: Tensors, kept: Tensor, above: Tensor) -> Tensor:
        """Return g Wᵀ."""
        return above @ parameters["weight"].mT


@dataclass(frozen=True)
class ReLU(Layer):
    """max(x, 0), element by element; its slope at 0 is 0."""

    inputs: int

    @property
    def outputs(self) -> int:  # type: ignore[override]
        """As many as inputs."""
        return self.inputs

    def forward(self, xp: Any, parameters: Tensors, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return max(x, 0), and the samples."""
        return xp.where(samples > 0.0, samples, xp.zeros_like(samples)), samples

    def back(self, xp: Any, parameters: Tensors, kept: Tensor, above: Tensor) -> Tensor:
        """Return g where x > 0, and 0 elsewhere."""
        return xp.where(kept > 0.0, above, xp.zeros_like(above))


@dataclass(frozen=True)
class Convolution(Layer):
    """A convolution of square images of side × side pixels, which keeps their size: zeros surround them.

    As is usual, it is a correlation: y[i, j, c] = Σ_{a, b, d} x[i + a − k/2, j + b − k/2, d] w[a, b, d, c] + b[c].

    Attributes
    ----------
    side : int
        Pixels of a row.
    channels, filters : int
        Values of a pixel before and after.
    kernel : int
        Side k of the filters, odd.
    """

    side: int
    channels: int
    filters: int
    kernel: int = 3

    def __post_init__(self) -> None:
        if check.integer("kernel", self.kernel, low=1) % 2 == 0:
            raise check.refuse("kernel", self.kernel, "odd")

    @property
    def inputs(self) -> int:  # type: ignore[override]
        """All values of an image."""
        return self.side * self.side * self.channels

    @property
    def outputs(self) -> int:  # type: ignore[override]
        """All values of a filtered image."""
        return self.side * self.side * self.filters

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """weight: (k, k, channels, filters); bias: (filters,)."""
        return {"weight": (self.kernel, self.kernel, self.channels, self.filters), "bias": (self.filters,)}

    def start(self, rng: np.random.Generator) -> dict[str, Array]:
        """Return the filters drawn as the weights of `Dense`, and a bias of zeros."""
        return _he(rng, self.shapes, self.kernel * self.kernel * self.channels)

    def forward(self, xp: Any, parameters: Tensors, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return the filtered images, and the patches of pixels that each value is of."""
        weight = parameters["weight"]
        matrix = xp.reshape(weight, (*weight.shape[:-4], -1, self.filters))
        patches = self._patches(xp, samples, self.channels)
        values = patches @ matrix + parameters["bias"][..., None, :]
        return xp.reshape(values, (*values.shape[:-2], samples.shape[-2], self.outputs)), patches

    def slopes(self, xp: Any, kept: Tensor, above: Tensor) -> dict[str, Tensor]:
        """Return the gradient by the filters and by the bias."""
        pixels = xp.reshape(above, (-1, self.filters))
        return {"weight": xp.reshape(kept.mT @ pixels, self.shapes["weight"]), "bias": xp.sum(pixels, axis=0)}

    def back(self, xp: Any, parameters: Tensors, kept: Tensor, above: Tensor) -> Tensor:
        """Return the gradient by the images: a convolution with the filters turned by 180°."""
        turned = xp.permute_dims(xp.flip(parameters["weight"], axis=(0, 1)), (0, 1, 3, 2))
        patches = self._patches(xp, above, self.filters)
        return xp.reshape(patches @ xp.reshape(turned, (-1, self.channels)), (-1, self.inputs))

    def _patches(self, xp: Any, samples: Tensor, channels: int) -> Tensor:
        """Return the k × k pixels around each pixel, shape (..., n·side², k²·channels)."""
        side, around = self.side, self.kernel // 2
        images = xp.reshape(samples, (*samples.shape[:-1], side, side, channels))
        for axis in (-3, -2) if around else ():
            edge = list(images.shape)
            edge[axis] = around
            zeros = xp.zeros(tuple(edge), dtype=images.dtype)
            images = xp.concat([zeros, images, zeros], axis=axis)
        parts = [images[..., i : i + side, j : j + side, :] for i in range(self.kernel) for j in range(self.kernel)]
        count = samples.shape[-2] * side * side
        return xp.reshape(xp.concat(parts, axis=-1), (*samples.shape[:-2], count, -1))


@dataclass(frozen=True)
class MeanPool(Layer):
    """Means of 2 × 2 pixels of square images of side × side; the last row and column of an odd side are left out."""

    side: int
    channels: int

    @property
    def inputs(self) -> int:  # type: ignore[override]
        """All values of an image."""
        return self.side * self.side * self.channels

    @property
    def outputs(self) -> int:  # type: ignore[override]
        """A quarter of them."""
        return (self.side // 2) ** 2 * self.channels

    def forward(self, xp: Any, parameters: Tensors, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return the means; nothing else is needed."""
        lead, even = samples.shape[:-1], self.side - self.side % 2
        images = xp.reshape(samples, (*lead, self.side, self.side, self.channels))
        rows = images[..., 0:even:2, :, :] + images[..., 1:even:2, :, :]
        means = 0.25 * (rows[..., 0:even:2, :] + rows[..., 1:even:2, :])
        return xp.reshape(means, (*lead, self.outputs)), None

    def back(self, xp: Any, parameters: Tensors, kept: Tensor, above: Tensor) -> Tensor:
        """Return a quarter of g for each of the four pixels, 0 for what was left out."""
        half, count = self.side // 2, above.shape[-2]
        images = 0.25 * xp.reshape(above, (count, half, half, self.channels))
        images = xp.repeat(xp.repeat(images, 2, axis=1), 2, axis=2)
        if self.side % 2:
            for axis in (1, 2):
                edge = list(images.shape)
                edge[axis] = 1
                images = xp.concat([images, xp.zeros(tuple(edge), dtype=images.dtype)], axis=axis)
        return xp.reshape(images, (count, self.inputs))


def _he(rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]], inputs: int) -> dict[str, Array]:
    """Return weights of variance 2/inputs and a bias of zeros."""
    weight = rng.standard_normal(shapes["weight"]) * np.sqrt(2.0 / inputs)
    return {"weight": weight, "bias": np.zeros(shapes["bias"])}
