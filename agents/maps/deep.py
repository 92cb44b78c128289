"""Deep feature maps: random Fourier maps of random Fourier maps, of which only a linear last layer is learned.

DKL is the composition of the layers, DKL-MLP the concatenation of the features of every layer (P. Xu's dissertation,
eqs. 5.9 and 5.10). Both are ordinary feature maps, so every algorithm on random features accepts them.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netsim.agents.maps.features import FeatureMap, Form, Kernel, RandomFourier
from netsim.errors import BadInput
from netsim.util import check


class Deep:
    """DKL: the composition φ_M ∘ … ∘ φ_2 ∘ φ_1 of feature maps (dissertation, eq. 5.9).

    Parameters
    ----------
    layers : sequence of FeatureMap
        The maps φ_1, φ_2, …; the inputs of each are the features of the one before.

    Attributes
    ----------
    inputs, size : int
        Length of one input and of one feature vector.

    Raises
    ------
    BadInput
        If there is no layer, or the lengths of successive layers are inconsistent.
    """

    def __init__(self, layers: Sequence[FeatureMap]) -> None:
        if not layers:
            raise check.refuse("layers", layers, "at least one feature map")
        for number, (before, after) in enumerate(itertools.pairwise(layers)):
            if after.inputs != before.size:
                raise BadInput(
                    f"layers[{number + 1}].inputs = {after.inputs}: must be {before.size}, the size of layers[{number}]"
                )
        self.layers = tuple(layers)
        self.inputs = layers[0].inputs
        self.size = layers[-1].size

    def __call__(self, x: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Map inputs of shape (n, inputs) to features of shape (n, size); raises BadInput as the first layer does."""
        for layer in self.layers:
            x = layer(x)
        return x


class MultiPath(Deep):
    """DKL-MLP: the concatenated features of all layers, deepest first: [φ_M∘…∘φ_1; …; φ_2∘φ_1; φ_1] (eq. 5.10).

    Its kernel is the sum of the layers' kernels. Parameters, attributes and errors are those of `Deep`.
    """

    def __init__(self, layers: Sequence[FeatureMap]) -> None:
        super().__init__(layers)
        self.size = sum(layer.size for layer in self.layers)

    def __call__(self, x: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Map inputs of shape (n, inputs) to features of shape (n, size); raises BadInput as the first layer does."""
        paths = []
        for layer in self.layers:
            x = layer(x)
            paths.append(x)
        return np.hstack(paths[::-1])


MAPS = ("RF-KL", "DKL", "DKL-MLP")
"""The maps that `composed` creates: random Fourier features, the composition of layers, and all layers' features."""


def composed(name: str, layers: Sequence[FeatureMap]) -> FeatureMap:
    """Return the first layer alone ("RF-KL"), the layers' `Deep` ("DKL") or `MultiPath` map ("DKL-MLP").

    Raises BadInput for another name, or for arguments invalid for `Deep`.
    """
    check.one_of("map", name, MAPS)
    deep = MultiPath(layers) if name == "DKL-MLP" else Deep(layers)
    return deep.layers[0] if name == "RF-KL" else deep


def fourier_layers(
    inputs: int,
    widths: Sequence[int],
    *,
    sigmas: Sequence[float],
    kernels: Sequence[Kernel] | Kernel = "gaussian",
    form: Form = "cos",
    orthogonal: bool = False,
    seed: int = 0,
) -> list[RandomFourier]:
    """Return random Fourier layers for `Deep` or `MultiPath`, all from one seed.

    The first layer is ``RandomFourier(inputs, widths[0], …, seed=seed)``; a layer does not depend on later ones.

    Parameters
    ----------
    inputs : int
        Length of one raw input.
    widths : sequence of int
        Number of frequencies of each layer.
    sigmas : sequence of float
        Bandwidth of each layer, in the units of the layer's inputs. Features have length about 1, so that their
        distances are at most about 1.4: the bandwidths of later layers should be of this order
        (`netsim.agents.maps.bandwidth`).
    kernels : {"gaussian", "laplacian", "cauchy"} or a sequence of these
        Kernel of all layers, or of each.
    form, orthogonal
        As in `RandomFourier`, for all layers; orthogonal frequencies are drawn for Gaussian layers only.
    seed : int
        The seed that all agents share.

    Raises
    ------
    BadInput
        If the numbers of widths, bandwidths and kernels differ, or `RandomFourier` refuses an argument.
    """
    check.integer("seed", seed, low=0)
    chosen: Sequence[Kernel] = [kernels] * len(widths) if isinstance(kernels, str) else kernels
    if not len(widths) == len(sigmas) == len(chosen) > 0:
        raise BadInput(
            f"widths, sigmas, kernels: must be as many as there are layers; they are {len(widths)}, {len(sigmas)}, "
            f"{len(chosen)}"
        )
    layers: list[RandomFourier] = []
    for number, (width, sigma, kernel) in enumerate(zip(widths, sigmas, chosen, strict=True)):
        own = int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]) if number else seed
        layers.append(
            RandomFourier(
                layers[-1].size if layers else inputs,
                width,
                sigma=sigma,
                kernel=kernel,
                form=form,
                orthogonal=orthogonal and kernel == "gaussian",
                seed=own,
            )
        )
    return layers
