"""Where the samples of the scenario `polk` come from: mixtures, textures, or a table of classes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netsim.agents.maps.bandwidth import median_distance
from netsim.scenarios.data.choice import ClassChoice
from netsim.scenarios.data.classes import Labelled, load_labelled
from netsim.scenarios.data.files import check_data
from netsim.scenarios.data.mixtures import draw_mixtures
from netsim.scenarios.data.tables import unit
from netsim.scenarios.data.textures import TEXTURES, cut_patches, load_textures
from netsim.util import check
from netsim.util.typing import Array

Labels = NDArray[np.int64]

MIXTURES, BRODATZ = "mixtures", "brodatz"

_TESTED = 2500
_SAMPLES = 5000
_TRAIN_SHARE = 0.7


@dataclass(frozen=True)
class Split:
    """Samples to train on and to test on: inputs of shape (n, d), numbers of classes of shape (n,).

    Attributes
    ----------
    classes : tuple of str
        Names of the classes.
    reference : callable
        From a kernel's bandwidth to the accuracy, on the test samples, of what is compared with.
    reference_name : str
        What that is.
    """

    inputs: Array
    labels: Labels
    test_inputs: Array
    test_labels: Labels
    classes: tuple[str, ...]
    reference: Callable[[float], float]
    reference_name: str

    def signs(self) -> Array:
        """Return a column of ±1 for each class, shape (n, C)."""
        return np.where(self.labels[:, None] == np.arange(len(self.classes)), 1.0, -1.0)


class Source(Protocol):
    """Where samples come from."""

    most_samples: int | None
    """There are no more to train on; None: as many as are asked for."""
    usual_samples: int
    usual_sigma: float
    said: tuple[str, ...]
    """Lines for the study's notes."""

    def draw(self, count: int, seed: int) -> Split:
        """Draw so many samples to train on, and others to test on."""
        ...


def source_of(data: str, choice: ClassChoice) -> Source:
    """Return where the samples of a data set come from.

    Parameters
    ----------
    data : str
        "mixtures", "brodatz", or the name or path of a table of classes.
    choice : ClassChoice
        The columns of a table; nothing, for others.

    Raises
    ------
    BadInput
        If there is no such data set, or the choice cannot be.
    """
    check_data(data, (MIXTURES, BRODATZ))
    if data not in (MIXTURES, BRODATZ):
        return _Rows(load_labelled(data, choice))
    choice.check_left_out(data)
    return _Mixtures() if data == MIXTURES else _Textures()


class _Mixtures:
    most_samples: int | None = None
    usual_samples = _SAMPLES
    usual_sigma = 0.5
    said: tuple[str, ...] = ()

    def draw(self, count: int, seed: int) -> Split:
        rng = np.random.default_rng(check.integer("seed", seed, low=0))
        mixtures = draw_mixtures(rng)
        train, test = mixtures.draw(count, rng), mixtures.draw(_TESTED, rng)
        best = float(np.mean(mixtures.bayes(test[0]) == test[1]))
        names = tuple(str(number) for number in range(mixtures.classes))
        return Split(*train, *test, names, lambda sigma: best, "Bayes")


class _Textures:
    most_samples: int | None = None
    usual_samples = _SAMPLES
    usual_sigma = 0.6
    said: tuple[str, ...] = ()

    def draw(self, count: int, seed: int) -> Split:
        patches = cut_patches(load_textures(), count, _TESTED, seed=seed)
        train, test = (patches.train_inputs, patches.train_labels), (patches.test_inputs, patches.test_labels)
        return _beside_svm(train, test, tuple(TEXTURES))


class _Rows:
    """The rows of a table, its inputs scaled to [0, 1]; another part of them is trained on in each draw."""

    def __init__(self, labelled: Labelled) -> None:
        self._inputs, self._labels = unit(labelled.inputs), labelled.labels
        self._classes, self.said = labelled.classes, labelled.said
        self.most_samples: int | None = max(len(self._labels) - 1, 1)
        self.usual_samples = max(min(round(_TRAIN_SHARE * len(self._labels)), _SAMPLES), 1)
        # Wider kernels tell classes apart less well, narrower ones take many more points.
        self.usual_sigma = 0.5 * median_distance(self._inputs, seed=0)

    def draw(self, count: int, seed: int) -> Split:
        order = np.random.default_rng(check.integer("seed", seed, low=0)).permutation(len(self._labels))
        rows, tested = order[:count], order[count : count + _TESTED]
        train, test = ((self._inputs[each], self._labels[each]) for each in (rows, tested))
        return _beside_svm(train, test, self._classes)


def _beside_svm(train: tuple[Array, Labels], test: tuple[Array, Labels], classes: tuple[str, ...]) -> Split:
    return Split(*train, *test, classes, lambda sigma: centralised_accuracy(train, test, sigma), "central SVM")


def centralised_accuracy(
    train: tuple[Array, Labels], test: tuple[Array, Labels], sigma: float, strength: float = 10.0
) -> float:
    """Return the test accuracy of scikit-learn's support vector machine on the same inputs, all in one place.

    Parameters
    ----------
    train, test : pairs of arrays of shape (n, d) and (n,)
        Inputs and numbers of classes.
    sigma : float
        Bandwidth of its Gaussian kernel.
    strength : float
        Its parameter C.
    """
    from sklearn.svm import SVC

    machine = SVC(C=strength, gamma=0.5 / sigma**2).fit(*train)
    return float(machine.score(*test))
