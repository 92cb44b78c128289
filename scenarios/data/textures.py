"""Patches of Brodatz's textures, described by histograms of textons.

A texton is a typical small neighbourhood of a pixel (Leung and Malik, "Representing and recognizing the visual
appearance of materials using three-dimensional textons", 2001). Here neighbourhoods are the 5 × 5 grey values around a
pixel minus their mean, and textons are the centres of clusters (k-means). Koppel, Paternain, Richard and Ribeiro,
"Decentralized online learning with kernels", 2018, §V, do not say which 13 of the 112 pictures they used; these are the
13 of the mosaics in the USC-SIPI texture database.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.errors import BadInput
from netsim.scenarios.data.formats import load_arrays
from netsim.util import check
from netsim.util.typing import Array

FILE = "brodatz_center256"
TEXTURES = {
    "grass": 9,
    "bark": 12,
    "straw": 15,
    "herringbone weave": 16,
    "woolen cloth": 19,
    "pressed calf leather": 24,
    "beach sand": 29,
    "water": 38,
    "wood grain": 68,
    "raffia": 84,
    "pigskin": 92,
    "brick": 94,
    "plastic bubbles": 112,
}
"""{name: number in Brodatz's album (1966)} of the pictures."""

WINDOW = 5  # pixels across a neighbourhood
PATCH = 24  # pixels across a patch
_NEIGHBORHOODS = 4000  # clustered, from each picture


@dataclass(frozen=True)
class Patches:
    """Patches for training and for testing, from parts of the pictures that share no pixel.

    Inputs, shape (n, textons), are the square roots of the texton frequencies of each patch: vectors of length 1, whose
    distance is proportional to Hellinger's distance of the histograms. Labels, shape (n,), are the number of each
    patch's picture, 0, 1, ….
    """

    train_inputs: Array
    train_labels: NDArray[np.int64]
    test_inputs: Array
    test_labels: NDArray[np.int64]


def load_textures(numbers: Sequence[int] = tuple(TEXTURES.values())) -> NDArray[np.uint8]:
    """Return some of Brodatz's pictures, shape (n, height, width), as grey values from 0 to 255.

    The file ``brodatz_center256.npz`` in NETSIM_DATA or the cache holds the pictures ``x`` of shape (images, height,
    width), and their numbers in the album, ``ids``. Raises BadInput if the file, an array or a picture is missing or
    invalid.
    """
    arrays = load_arrays(FILE, ("x", "ids"))
    x, ids = arrays["x"], arrays["ids"]
    if x.ndim != 3 or x.dtype != np.uint8:
        raise BadInput(f"{FILE}.npz: x is {x.dtype} {x.shape}: must be uint8 of shape (images, height, width)")
    if ids.shape != x.shape[:1]:
        raise BadInput(f"{FILE}.npz: ids.shape = {ids.shape}: must be ({len(x)},), a number for each image of x")
    places = {int(number): place for place, number in enumerate(ids)}
    for number in numbers:
        if number not in places:
            raise BadInput(f"{FILE}.npz: ids has no picture {number}: must hold {', '.join(map(str, numbers))}")
    return x[[places[number] for number in numbers]]


def cut_patches(
    images: NDArray[np.uint8],
    train: int,
    test: int,
    *,
    textons: int = 256,
    train_share: float = 0.6,
    seed: int = 0,
) -> Patches:
    """Draw patches of pictures, one class each, and describe them by their texton histograms.

    Training patches, and the neighbourhoods that define the textons, come from the left part of each picture, a share
    ``train_share`` of its width; test patches come from the right part. Patches of one part may overlap; patches of
    different parts, including their neighbourhoods, have no pixel in common. Class sizes differ by at most one. Raises
    BadInput if an argument is outside its range, or a picture is too small for a patch in each part.
    """
    check.integer("train", train, low=1)
    check.fits("train", train, 8 * textons * train, "the histograms of that many patches")
    check.integer("test", test, low=1)
    check.integer("textons", textons, low=2)
    check.number("train_share", train_share, above=0.0, high=1.0)
    least = PATCH + WINDOW - 1
    height, width = images.shape[1:]
    edge = round(train_share * width)
    if min(height, edge, width - edge) < least:
        raise BadInput(f"images.shape = {images.shape}: each part must be {least} x {least} pixels or more")
    rng = np.random.default_rng(check.integer("seed", seed, low=0))
    left = [neighborhoods(image[:, :edge]) for image in images]
    right = [neighborhoods(image[:, edge:]) for image in images]
    sample = np.concatenate([rng.permutation(each.reshape(-1, each.shape[2]))[:_NEIGHBORHOODS] for each in left])
    centres = _cluster(sample, textons, int(rng.integers(2**31)))
    parts = []
    for regions, count in ((left, train), (right, test)):
        maps = [nearest_texton(region, centres) for region in regions]
        labels = rng.permutation(np.arange(count) % len(images))
        parts.append((np.stack([_histogram(maps[label], textons, rng) for label in labels]), labels))
    (train_inputs, train_labels), (test_inputs, test_labels) = parts
    return Patches(train_inputs, train_labels, test_inputs, test_labels)


def neighborhoods(image: NDArray[np.uint8]) -> Array:
    """Return each pixel's neighbourhood, scaled to [−1, 1], minus its mean; shape (height − 4, width − 4, 25)."""
    windows = np.lib.stride_tricks.sliding_window_view(image / 255.0, (WINDOW, WINDOW))
    flat = windows.reshape(*windows.shape[:2], -1)
    result: Array = flat - flat.mean(axis=2, keepdims=True)
    return result


def nearest_texton(region: Array, centres: Array) -> NDArray[np.intp]:
    """Return the number of the texton nearest to each neighbourhood, shape (height, width)."""
    # The nearest centre c has the largest vᵀc − ‖c‖²/2, because ‖v − c‖² = ‖v‖² − 2(vᵀc − ‖c‖²/2).
    nearness = region @ centres.T - 0.5 * np.sum(np.square(centres), axis=1)
    result: NDArray[np.intp] = nearness.argmax(axis=2)
    return result


def _histogram(textons: NDArray[np.intp], count: int, rng: np.random.Generator) -> Array:
    """Return the square roots of the texton frequencies of a random patch, shape (count,)."""
    row, column = (int(rng.integers(size - PATCH + 1)) for size in textons.shape)
    patch = textons[row : row + PATCH, column : column + PATCH]
    return np.sqrt(np.bincount(patch.ravel(), minlength=count) / patch.size)


def _cluster(sample: Array, textons: int, seed: int) -> Array:
    """Return the centres of clusters of the neighbourhoods ``sample``, shape (textons, 25)."""
    from sklearn.cluster import MiniBatchKMeans

    if textons > len(sample):
        raise check.refuse("textons", textons, f"at most {len(sample)}, the number of neighbourhoods")
    clusters = MiniBatchKMeans(textons, random_state=seed, n_init=1, batch_size=4096, max_iter=30).fit(sample)
    centres: Array = clusters.cluster_centers_
    return centres
