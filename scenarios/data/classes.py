"""Data sets whose target is a class: tables with text labels, and images."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim import check
from netsim.errors import BadInput
from netsim.scenarios.data.files import load_arrays, numbers
from netsim.scenarios.data.tables import read_columns

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

# Columns in which empty cells are known to occur; the median of the others takes their place.
_MAY_BE_EMPTY = {"wisdm_har": ("XPEAK", "YPEAK", "ZPEAK")}
# Marks that stand for an unknown cell; rows with one are left out.
_UNKNOWN = {"adult": "?"}
_MOST_CLASSES = 1000
IMAGES = ("mnist",)
"""Sets that are files of arrays, not tables."""


@dataclass(frozen=True)
class Labelled:
    """Samples of a classification problem.

    Attributes
    ----------
    name : str
        Name of the data set.
    inputs : ndarray of shape (n, d)
        Inputs, one sample a row, in the units of the file; a column of text is one column of 0 and 1 for
        each of its values.
    labels : ndarray of shape (n,)
        The number of each sample's class, 0 … C − 1.
    classes : tuple of str
        Names of the C classes, in order of their numbers.
    """

    name: str
    inputs: NDArray[np.float64]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    def signs(self, positive: str | None = None) -> NDArray[np.float64]:
        """Return +1 for one class and −1 for all others, shape (n,).

        Parameters
        ----------
        positive : str, optional
            Name of the class; the last by default, if there are two.
        """
        if positive is None and len(self.classes) != 2:
            raise check.refuse("positive", positive, f"one of the {len(self.classes)} classes of {self.name}")
        name = self.classes[-1] if positive is None else check.one_of("positive", positive, self.classes)
        return np.where(self.labels == self.classes.index(name), 1.0, -1.0)


def load_labelled(name: str, *, target: str | None = None, rows: int | None = None, seed: int = 0) -> Labelled:
    """Read a data set of classes from the folder NETSIM_DATA: ``<name>.csv.gz``, or the images ``mnist.npz``.

    Columns of text become a column of 0 and 1 for each value. Columns that are no inputs
    (`netsim.scenarios.data.tables.NOT_INPUTS`) are left out. Empty cells are refused, but for the columns of wisdm_har
    that are known for them. Rows of adult with an unknown cell, "?", are left out, which leaves 45,222.

    Parameters
    ----------
    name : str
        Name of the data set.
    target : str, optional
        Column of the class; the last one by default. Not for images.
    rows : int, optional
        Number of samples to draw at random; all, in file order, by default.
    seed : int
        Seed of that draw.

    Raises
    ------
    BadInput
        If the file is missing or damaged, a number is missing, or the target is no column of classes.
    """
    if name in IMAGES:
        if target is not None:
            raise check.refuse("target", target, f"left out for the images of {name}")
        return _images(name, rows, seed)
    path, frame, target = read_columns(name, target)
    if name in _UNKNOWN:
        frame = frame[~(frame == _UNKNOWN[name]).any(axis=1)].reset_index(drop=True)
        if not len(frame):
            raise BadInput(f"{path} has no row without {_UNKNOWN[name]!r}: must have one at least")
    labels, classes = _classes(path, frame[target])
    empty = _MAY_BE_EMPTY.get(name, ())
    inputs = np.hstack([_columns(path, frame[each], each in empty) for each in frame.columns if each != target])
    chosen = _draw(len(labels), rows, seed)
    return Labelled(name, inputs[chosen], labels[chosen], classes)


def _images(name: str, rows: int | None, seed: int) -> Labelled:
    """Return the images ``x`` (n, …) and their classes ``y`` (n,) of a file."""
    arrays = load_arrays(name, ("x", "y"))
    images, classes = arrays["x"], arrays["y"]
    if images.ndim < 2 or not len(images) or images.dtype.kind not in "uif" or not np.isfinite(images).all():
        raise BadInput(f"{name}.npz: x is {images.dtype} {images.shape}: must be finite numbers, an image in each row")
    if classes.shape != images.shape[:1] or classes.dtype.kind not in "ui":
        wanted = f"whole numbers of shape ({len(images)},)"
        raise BadInput(f"{name}.npz: y is {classes.dtype} {classes.shape}: must be {wanted}, a class for each image")
    chosen = _draw(len(classes), rows, seed)
    flat = images[chosen].reshape(len(chosen), -1).astype(np.float64)
    kinds = np.unique(classes)
    return Labelled(name, flat, np.searchsorted(kinds, classes[chosen]), tuple(str(kind) for kind in kinds))


def _draw(count: int, rows: int | None, seed: int) -> NDArray[np.int64]:
    if rows is None:
        return np.arange(count)
    rng = np.random.default_rng(check.integer("seed", seed, low=0))
    return rng.permutation(count)[: check.integer("rows", rows, low=1, high=count)]


def _classes(path: "Path", column: "pd.Series[Any]") -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the class number of each cell and the classes' names, numbers in their order."""
    import pandas as pd

    allowed = f"column {column.name!r} of {path}: must hold a class in each row"
    if column.isna().any():
        raise BadInput(f"{allowed}; data row {int(np.flatnonzero(column.isna())[0]) + 1} is empty")
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    broken = np.flatnonzero(column % 1 != 0) if numeric else np.zeros(0, dtype=np.intp)
    if len(broken):
        row = int(broken[0])
        raise BadInput(f"{allowed}, whole numbers or text; data row {row + 1} = {column.iloc[row]:g}")
    kinds, labels = np.unique(column.to_numpy(), return_inverse=True)
    if not 2 <= len(kinds) <= _MOST_CLASSES:
        raise BadInput(f"{allowed}, of 2 to {_MOST_CLASSES} classes; there are {len(kinds)}")
    names = tuple(str(int(kind)) if numeric else str(kind) for kind in kinds)
    return labels.astype(np.int64), names


def _columns(path: "Path", column: "pd.Series[Any]", may_be_empty: bool) -> NDArray[np.float64]:
    """Return a column as inputs, shape (n, 1), or (n, values) if it holds text."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) or pd.to_numeric(column, errors="coerce").notna().mean() > 0.5:
        if may_be_empty:
            column = column.fillna(column.median())
        # Mostly numbers: a cell that is none is a mistake, not a category.
        return numbers(path, column)[:, None]
    if column.isna().any():
        row = int(np.flatnonzero(column.isna())[0])
        raise BadInput(f"{path}: column {column.name!r}, data row {row + 1} is empty: must be text")
    return pd.get_dummies(column).to_numpy(dtype=np.float64)
