"""Gaussian mixtures, one for each class, and the Bayes error.

The problem of Zhu and Hastie, "Kernel logistic regression and the import vector machine", 2005, as Koppel, Paternain,
Richard and Ribeiro, "Decentralized online learning with kernels", 2018, §V, describe it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from netsim.util import check
from netsim.util.typing import Array


@dataclass(frozen=True)
class Mixtures:
    """C equally likely classes, each of which is a mixture of round Gaussians in the plane with equal weights.

    The Gaussians have the centres ``means``, shape (C, modes, 2), and the standard deviation ``spread`` on each axis.
    """

    means: Array
    spread: float

    @property
    def classes(self) -> int:
        """Number C of classes."""
        return len(self.means)

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.int64]]:
        """Return samples: inputs of shape (count, 2), and their classes of shape (count,)."""
        labels = rng.integers(self.classes, size=count)
        modes = rng.integers(self.means.shape[1], size=count)
        return self.means[labels, modes] + self.spread * rng.standard_normal((count, 2)), labels

    def densities(self, inputs: Array) -> Array:
        """Return p(x | class) up to a factor common to all classes, shape (n, C).

        The factor depends on the input, so that the densities of the most probable classes do not underflow.
        """
        squares = cdist(inputs, self.means.reshape(-1, 2), "sqeuclidean")
        nearest = squares.min(axis=1, keepdims=True)
        each = np.exp((squares - nearest) / (-2.0 * self.spread**2))
        result: Array = each.reshape(len(inputs), *self.means.shape[:2]).mean(axis=2)
        return result

    def bayes(self, inputs: Array) -> NDArray[np.int64]:
        """Return the most probable class of each input, shape (n,); no classifier is right more often."""
        best: NDArray[np.int64] = self.densities(inputs).argmax(axis=1)
        return best


def draw_mixtures(rng: np.random.Generator, *, classes: int = 5, modes: int = 3, spread: float = 0.2) -> Mixtures:
    """Draw the centres: μ_{y,j} ~ N(θ_y, I), with θ_y at equal distances on the unit circle.

    Raises BadInput for an argument outside its range.
    """
    check.integer("classes", classes, low=2)
    check.integer("modes", modes, low=1)
    check.finite("spread", spread, above=0.0)
    angles = 2.0 * np.pi * np.arange(classes) / classes
    centres = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return Mixtures(centres[:, None, :] + rng.standard_normal((classes, modes, 2)), spread)
