"""Layers of a network with gradients by backpropagation, using only functions of the array API standard.

Arrays may come from any library that follows the standard; ``xp`` is the library's namespace. No array is changed in
place. Between layers the samples are an array of shape (n, width), with one sample per row; an image is flattened row
by row, with its channels innermost. Parameters may have additional leading axes, such as one for agents, which the
result of `forward` then has, too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.agents.maps.features import RandomFourier
from netsim.util import check
from netsim.util.typing import Array

Tensor = Any
"""An array of a library that follows the array API standard."""

Tensors = Mapping[str, Tensor]
"""A layer's parameters by name."""


class Layer:
    """A function of samples and parameters.

    Attributes
    ----------
    inputs, outputs : int
        Length of a sample before and after the layer.
    """

    inputs: int
    outputs: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters by name; none by default."""
        return {}

    def start(self, rng: np.random.Generator) -> dict[str, Array]:
        """Return random initial parameters, in float64."""
        return {}

    def forward(self, xp: Any, parameters: Tensors, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return the layer's values, shape (..., n, outputs), and intermediate values for `slopes` and `back`."""
        raise NotImplementedError

    def slopes(self, xp: Any, kept: Tensor, above: Tensor) -> dict[str, Tensor]:
        """Return the gradient by the parameters, given ``above``, the gradient by the values, shape (n, outputs)."""
        return {}

    def back(self, xp: Any, parameters: Tensors, kept: Tensor, above: Tensor) -> Tensor:
        """Return the gradient by the samples, shape (n, inputs), given ``above``, the gradient by the values."""
        raise NotImplementedError


@dataclass(frozen=True)
class Dense(Layer):
    """A fully connected layer x W + b; without b if ``bias`` is False.

    Initially W is normal with variance 2/inputs, as in He, Zhang, Ren and Sun 2015, and b is zero.
    """

    inputs: int
    outputs: int
    bias: bool = True

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of weight, (inputs, outputs), and bias, (outputs,)."""
        return {"weight": (self.inputs, self.outputs)} | ({"bias": (self.outputs,)} if self.bias else {})

    def start(self, rng: np.random.Generator) -> dict[str, Array]:
        """Return random weights, and a bias of zeros."""
        return _he(rng, self.shapes, self.inputs)

    def forward(self, xp: Any, parameters: Tensors, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return x W + b, and the samples."""
        values = samples @ parameters["weight"]
        return values + parameters["bias"][..., None, :] if self.bias else values, samples

    def slopes(self, xp: Any, kept: Tensor, above: Tensor) -> dict[str, Tensor]:
        """Return xᵀ g, and the sum of g over the samples, where g is ``above``."""
        return {"weight": kept.mT @ above} | ({"bias": xp.sum(above, axis=0)} if self.bias else {})

    def back(self, xp: Any, parameters: Tensors, kept: Tensor, above: Tensor) -> Tensor:
        """Return g Wᵀ, where g is ``above``."""
        return above @ parameters["weight"].mT


@dataclass(frozen=True)
class ReLU(Layer):
    """The function max(x, 0) of each element; its slope at 0 is taken as 0."""

    inputs: int

    @property
    def outputs(self) -> int:  # type: ignore[override]
        """The number of inputs."""
        return self.inputs

    def forward(self, xp: Any, parameters: Tensors, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return max(x, 0), and the samples."""
        return xp.where(samples > 0.0, samples, xp.zeros_like(samples)), samples

    def back(self, xp: Any, parameters: Tensors, kept: Tensor, above: Tensor) -> Tensor:
        """Return g where x > 0, and 0 elsewhere."""
        return xp.where(kept > 0.0, above, xp.zeros_like(above))


@dataclass(frozen=True)
class _OfImages(Layer):
    """Base class of layers of square images of side × side."""

    side: int
    channels: int

    @property
    def inputs(self) -> int:  # type: ignore[override]
        """The number of values of an image."""
        return self.side * self.side * self.channels


@dataclass(frozen=True)
class Convolution(_OfImages):
    """A convolution of square images of side × side pixels, padded with zeros to keep their size.

    As usual in networks, it is a correlation: y[i, j, c] = Σ_{a, b, d} x[i + a − k/2, j + b − k/2, d] w[a, b, d, c] +
    b[c].

    Attributes
    ----------
    side : int
        Number of pixels in a row.
    channels, filters : int
        Number of values of a pixel before and after the layer.
    kernel : int
        Side k of the filters, an odd number.
    """

    filters: int
    kernel: int = 3

    def __post_init__(self) -> None:
        if check.integer("kernel", self.kernel, low=1) % 2 == 0:
            raise check.refuse("kernel", self.kernel, "odd")

    @property
    def outputs(self) -> int:  # type: ignore[override]
        """The number of values of a filtered image."""
        return self.side * self.side * self.filters

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of weight, (k, k, channels, filters), and bias, (filters,)."""
        return {"weight": (self.kernel, self.kernel, self.channels, self.filters), "bias": (self.filters,)}

    def start(self, rng: np.random.Generator) -> dict[str, Array]:
        """Return random filters, drawn as the weights of `Dense`, and a bias of zeros."""
        return _he(rng, self.shapes, self.kernel * self.kernel * self.channels)

    def forward(self, xp: Any, parameters: Tensors, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return the filtered images, and the patch of pixels from which each value is computed."""
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
class MeanPool(_OfImages):
    """Means of 2 × 2 pixels of square images of side × side; an odd side loses its last row and column."""

    @property
    def outputs(self) -> int:  # type: ignore[override]
        """The number of values of a reduced image."""
        return (self.side // 2) ** 2 * self.channels

    def forward(self, xp: Any, parameters: Tensors, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean of each square of pixels, and None: the gradient needs no stored values."""
        lead, even = samples.shape[:-1], self.side - self.side % 2
        images = xp.reshape(samples, (*lead, self.side, self.side, self.channels))
        rows = images[..., 0:even:2, :, :] + images[..., 1:even:2, :, :]
        means = 0.25 * (rows[..., 0:even:2, :] + rows[..., 1:even:2, :])
        return xp.reshape(means, (*lead, self.outputs)), None

    def back(self, xp: Any, parameters: Tensors, kept: Tensor, above: Tensor) -> Tensor:
        """Return a quarter of the gradient for each of the four pixels, and 0 for pixels that were left out."""
        half, count = self.side // 2, above.shape[-2]
        images = 0.25 * xp.reshape(above, (count, half, half, self.channels))
        images = xp.repeat(xp.repeat(images, 2, axis=1), 2, axis=2)
        if self.side % 2:
            for axis in (1, 2):
                edge = list(images.shape)
                edge[axis] = 1
                images = xp.concat([images, xp.zeros(tuple(edge), dtype=images.dtype)], axis=axis)
        return xp.reshape(images, (count, self.inputs))


@dataclass(frozen=True)
class SemiRandom(Layer):
    """A layer with fixed features r_l = √(2/L) cos(R r_{l−1} + b), and w_l = r_l ⊙ (Wᵀ w_{l−1}) with a learned W.

    This is a layer of a deep semi-random network (Kawaguchi, Xie and Song 2018). It follows P. Xu's dissertation,
    section 5.7, "Deep-semi", which replaces the original's step functions by random features of a Gaussian kernel. r_l
    is a layer of DKL (eq. 5.9), and gates the learned values. A sample is the concatenation of r_{l−1} and w_{l−1}; at
    the first layer it is the raw input, r_0 = w_0 = x.

    W is initially standard normal. Then ‖w_l‖² equals ‖w_{l−1}‖² on average, because features have squares of mean 1/L.

    Attributes
    ----------
    features : RandomFourier
        The random features, in the cos form: R is their ``frequencies``, and b their ``phases``.
    learned : int
        Length of w_{l−1}; 0 for the first layer.
    is_last : bool
        Whether to return w_l alone, without r_l.

    Raises
    ------
    BadInput
        If the features have another form.
    """

    features: RandomFourier
    learned: int = 0
    is_last: bool = False

    def __post_init__(self) -> None:
        if self.features.size != len(self.features.frequencies):
            raise check.refuse("features.form", "cos+sin", "cos")
        check.integer("learned", self.learned, low=0)

    @property
    def inputs(self) -> int:  # type: ignore[override]
        """The length of a sample: of r_{l−1} and w_{l−1} together, or of x."""
        return self.features.inputs + self.learned

    @property
    def outputs(self) -> int:  # type: ignore[override]
        """The number of values: L for w_l and, unless the layer is the last, L for r_l."""
        return self.features.size * (1 if self.is_last else 2)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of weight: (length of w_{l−1}, L)."""
        return {"weight": (self.learned or self.features.inputs, self.features.size)}

    def start(self, rng: np.random.Generator) -> dict[str, Array]:
        """Return W drawn from N(0, 1)."""
        return {"weight": rng.standard_normal(self.shapes["weight"])}

    def forward(self, xp: Any, parameters: Tensors, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return r_l and w_l; for gradients w_{l−1}, Wᵀ w_{l−1}, r_l and its slope −√(2/L) sin(R r_{l−1} + b)."""
        width, scale = self.features.inputs, math.sqrt(2.0 / self.features.size)
        before = samples[..., width:] if self.learned else samples
        phases = xp.asarray(self.features.phases, dtype=samples.dtype)
        angles = samples[..., :width] @ self._frequencies(xp, samples).mT + phases
        fixed, linear = scale * xp.cos(angles), before @ parameters["weight"]
        values, kept = fixed * linear, (before, linear, fixed, -scale * xp.sin(angles))
        return (values if self.is_last else xp.concat([xp.broadcast_to(fixed, values.shape), values], axis=-1)), kept

    def slopes(self, xp: Any, kept: Tensor, above: Tensor) -> dict[str, Tensor]:
        """Return w_{l−1} (g ⊙ r_l)ᵀ, where g is the gradient by w_l."""
        before, _, fixed, _ = kept
        return {"weight": before.mT @ (above[:, -self.features.size :] * fixed)}

    def back(self, xp: Any, parameters: Tensors, kept: Tensor, above: Tensor) -> Tensor:
        """Return the gradients by r_{l−1} and by w_{l−1}; at the first layer their sum, the gradient by x."""
        _, linear, fixed, slope = kept
        size = self.features.size
        learned = above[:, -size:]
        by_fixed = learned * linear if self.is_last else learned * linear + above[:, :size]
        by_random = (by_fixed * slope) @ self._frequencies(xp, above)
        by_learned = (learned * fixed) @ parameters["weight"].mT
        return xp.concat([by_random, by_learned], axis=-1) if self.learned else by_random + by_learned

    def _frequencies(self, xp: Any, like: Tensor) -> Tensor:
        return xp.asarray(self.features.frequencies, dtype=like.dtype)


def _he(rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]], inputs: int) -> dict[str, Array]:
    """Return weights of variance 2/inputs and a bias of zeros."""
    weight = rng.standard_normal(shapes["weight"]) * np.sqrt(2.0 / inputs)
    return {"weight": weight} | {name: np.zeros(shape) for name, shape in shapes.items() if name != "weight"}
