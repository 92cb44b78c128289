"""Sources of the samples of the study `polk`: mixtures, textures, or a table of classes."""

from collections.abc import Callable
from dataclasses import dataclass

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
    """Training and test samples: inputs of shape (n, d), and class indices of shape (n,)."""

    inputs: Array
    labels: Labels
    test_inputs: Array
    test_labels: Labels
    classes: tuple[str, ...]
    """Names of the classes."""
    reference: Callable[[float], float]
    """Returns the reference's accuracy on the test samples, for a kernel bandwidth."""
    reference_name: str


@dataclass(frozen=True)
class Source:
    """A source of samples: ``draw(count, seed)`` returns ``count`` training samples, and separate test samples."""

    draw: Callable[[int, int], Split]
    usual_sigma: float
    usual_samples: int = _SAMPLES
    most_samples: int | None = None
    """Number of training samples available; None: unlimited."""
    notes: tuple[str, ...] = ()
    """Lines for the study's notes."""


def source_of(data: str, choice: ClassChoice) -> Source:
    """Return the source of a data set's samples: "mixtures", "brodatz", or the name or path of a table.

    Raises BadInput for an unknown data set, or an impossible choice of columns.
    """
    check_data(data, (MIXTURES, BRODATZ))
    if data != MIXTURES:
        check.installed(f"data = {data!r}", "sklearn", "learn")
    if data not in (MIXTURES, BRODATZ):
        return _table(load_labelled(data, choice))
    choice.check_left_out(data)
    return Source(_mixtures, 0.5) if data == MIXTURES else Source(_textures, 0.6)


def _mixtures(count: int, seed: int) -> Split:
    rng = np.random.default_rng(check.integer("seed", seed, low=0))
    mixtures = draw_mixtures(rng)
    train, test = mixtures.draw(count, rng), mixtures.draw(_TESTED, rng)
    best = float(np.mean(mixtures.bayes(test[0]) == test[1]))
    names = tuple(str(number) for number in range(mixtures.classes))
    return Split(*train, *test, names, lambda sigma: best, "Bayes")


def _textures(count: int, seed: int) -> Split:
    patches = cut_patches(load_textures(), count, _TESTED, seed=seed)
    train, test = (patches.train_inputs, patches.train_labels), (patches.test_inputs, patches.test_labels)
    return _beside_svm(train, test, tuple(TEXTURES))


def _table(labelled: Labelled) -> Source:
    """Return a table as a source, with inputs scaled to [0, 1]; each draw chooses other rows for training."""
    inputs, labels = unit(labelled.inputs), labelled.labels

    def draw(count: int, seed: int) -> Split:
        order = np.random.default_rng(check.integer("seed", seed, low=0)).permutation(len(labels))
        rows, tested = order[:count], order[count : count + _TESTED]
        return _beside_svm((inputs[rows], labels[rows]), (inputs[tested], labels[tested]), labelled.classes)

    # Wider kernels separate classes less well; narrower ones need many more dictionary points.
    sigma = 0.5 * median_distance(inputs, seed=0)
    usual = max(min(round(_TRAIN_SHARE * len(labels)), _SAMPLES), 1)
    return Source(draw, sigma, usual, max(len(labels) - 1, 1), labelled.notes)


def _beside_svm(train: tuple[Array, Labels], test: tuple[Array, Labels], classes: tuple[str, ...]) -> Split:
    return Split(*train, *test, classes, lambda sigma: centralised_accuracy(train, test, sigma), "central SVM")


def centralised_accuracy(
    train: tuple[Array, Labels], test: tuple[Array, Labels], sigma: float, strength: float = 10.0
) -> float:
    """Return the test accuracy of scikit-learn's support vector machine, trained on all inputs together.

    Samples are inputs of shape (n, d) and class indices of shape (n,); ``strength`` is the machine's parameter C.
    """
    from sklearn.svm import SVC

    machine = SVC(C=strength, gamma=0.5 / sigma**2).fit(*train)
    return float(machine.score(*test))
