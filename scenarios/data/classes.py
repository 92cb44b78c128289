"""Data sets whose target is a class: tables with text labels, and images."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.errors import BadInput
from netsim.scenarios.data.choice import MOST_TEXTS, Chosen, TableChoice, choose, is_numeric
from netsim.scenarios.data.formats import place_in
from netsim.util import check

_SHOWN = 10  # the largest number of class names in an error message


@dataclass(frozen=True)
class Labelled:
    """Samples of a classification problem: inputs of shape (n, d), one sample a row, in the units of the file.

    A column of text becomes one column of 0 and 1 for each of its values. ``labels``, shape (n,), are the numbers of
    the classes, 0 … C − 1, and ``classes`` their names. ``notes`` describe, for the study's notes, how the target was
    interpreted.
    """

    name: str
    inputs: NDArray[np.float64]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def signs(self, positive: str | None = None) -> NDArray[np.float64]:
        """Return labels of shape (n,): +1 for one class, by default the last of two, and −1 for all others."""
        if positive is None and len(self.classes) != 2:
            some = ", ".join(self.classes[:_SHOWN]) + (", …" if len(self.classes) > _SHOWN else "")
            raise check.refuse("positive", positive, f"one of the {len(self.classes)} classes of {self.name}: {some}")
        name = self.classes[-1] if positive is None else check.one_of("positive", positive, self.classes)
        return np.where(self.labels == self.classes.index(name), 1.0, -1.0)


def load_labelled(data: str, choice: TableChoice | None = None, *, rows: int | None = None, seed: int = 0) -> Labelled:
    """Read a data set of classes, by its name in NETSIM_DATA or the cache, or by path.

    Columns of text become a column of 0 and 1 for each value. Columns that are not inputs
    (`netsim.scenarios.data.choice.NOT_INPUTS`) are left out. Empty cells are refused, except in the known columns of
    wisdm_har. Rows of adult with an unknown cell, "?", are left out, which leaves 45,222.

    Parameters
    ----------
    data : str
        Name or path, as for `netsim.scenarios.data.files.find_table`.
    choice : TableChoice, optional
        The target, as classes by default, and the columns to leave out.
    rows : int, optional
        Number of samples to draw at random; all, in file order, by default.
    seed : int
        Seed of that draw.

    Raises
    ------
    BadInput
        If the file is missing or damaged, a number is missing, or the target is no column of classes.
    """
    chosen = choose(data, TableChoice(classes=True) if choice is None else choice)
    if not chosen.classes:
        hint = "" if choice is not None and choice.classes is False else "; --target names another column"
        raise BadInput(f"data = {data!r}: must have classes to tell apart; {chosen.notes[0]}{hint}")
    return labelled(chosen, rows=rows, seed=seed)


def labelled(chosen: Chosen, *, rows: int | None = None, seed: int = 0) -> Labelled:
    """Return a table with its target interpreted as classes; other parameters as in `load_labelled`."""
    labels, classes = _classes(chosen)
    drawn = drawn_rows(len(labels), rows, seed)
    return Labelled(chosen.name, inputs_of(chosen, drawn), labels[drawn], classes, chosen.notes)


def inputs_of(chosen: Chosen, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the inputs of some rows as numbers, text as columns of 0 and 1, shape (len(rows), d)."""
    inputs = chosen.frame.drop(columns=chosen.target)
    if all(isinstance(dtype, np.dtype) and dtype.kind in "iu" for dtype in inputs.dtypes):
        # Integers cannot be missing, so they need no check. Images are large, so only the drawn ones become floats.
        return np.ascontiguousarray(inputs.to_numpy()[rows], dtype=np.float64)
    return np.hstack([chosen.encoded(each) for each in chosen.input_columns])[rows]


def drawn_rows(count: int, rows: int | None, seed: int) -> NDArray[np.int64]:
    """Return the numbers of some rows of ``count``, drawn at random; of all, in order, by default."""
    if rows is None:
        return np.arange(count)
    rng = np.random.default_rng(check.integer("seed", seed, low=0))
    return rng.permutation(count)[: check.integer("rows", rows, low=1, high=count)]


def _classes(chosen: Chosen) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return each cell's class number, and the classes' names, which are sorted."""
    column = chosen.frame[chosen.target]
    allowed = f"column {chosen.target!r} of {chosen.path}: must hold a class in each row"
    if column.isna().any():
        where = place_in(chosen.path, column, int(np.flatnonzero(column.isna())[0]))
        raise BadInput(f"{where} is empty: must hold a class in each row; --missing drop leaves such rows out")
    numeric = is_numeric(column)
    broken = np.flatnonzero(column % 1 != 0) if numeric else np.zeros(0, dtype=np.intp)
    if len(broken):
        row = int(broken[0])
        where = place_in(chosen.path, column, row)
        raise BadInput(f"{where} = {column.iloc[row]:g}: must hold a class in each row, whole numbers or text")
    kinds, labels = np.unique(column.to_numpy(), return_inverse=True)
    if not 2 <= len(kinds) <= MOST_TEXTS:
        raise BadInput(f"{allowed}, of 2 to {MOST_TEXTS} classes; there are {len(kinds)}")
    names = tuple(str(int(kind)) if numeric else str(kind) for kind in kinds)
    return labels.astype(np.int64), names
