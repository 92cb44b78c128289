"""Samples with numeric or class targets: the parameters by which a study chooses a data set, and how it is loaded."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from netsim.errors import BadInput
from netsim.scenarios.data.choice import ClassChoice, TableChoice, choose
from netsim.scenarios.data.classes import drawn_rows, inputs_of, labelled
from netsim.scenarios.data.tables import Table, unit
from netsim.util import check
from netsim.util.typing import Array

DIGITS = "digits"
"""Images of 8 × 8 pixels of ten handwritten digits, which come with netsim.

They are the test set of Alpaydin and Kaynak, "Optical recognition of handwritten digits", UCI Machine Learning
Repository, 1998 (doi:10.24432/C50P49, CC BY 4.0). In digits.csv a pixel is a digit to the base 17.
"""

_Loaded = tuple[Array, Array, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Samples(TableChoice):
    """The samples to learn from, and how their target is interpreted.

    Parameters
    ----------
    rows : int
        Use only this many rows, taken at random.
    """

    rows: int | None = None

    def load(self, data: str, seed: int) -> tuple[Table, tuple[str, ...]]:
        """Return samples with inputs in [0, 1], and the names of their classes; no names for a regression.

        The data are "digits", or the name or path of a table or of images. The target is the number of the class, or a
        number in [0, 1]. Raises BadInput for an unknown or damaged table, an impossible choice, or too many rows.
        """
        inputs, target, classes, notes = self._digits(seed) if data == DIGITS else self._table(data, seed)
        names = tuple(f"x{i}" for i in range(inputs.shape[1]))
        return Table(data, unit(inputs), target, names, "target", notes), classes

    def _digits(self, seed: int) -> _Loaded:
        self.check_left_out(DIGITS)
        lines = Path(__file__).with_name("digits.csv").read_text(encoding="ascii").split()
        rows = [line.split(",") for line in lines[1:]]
        inputs = np.array([[int(pixel, 17) for pixel in pixels] for _, pixels in rows], dtype=np.float64)
        numbers = np.array([int(digit) for digit, _ in rows])
        drawn = self._drawn(len(inputs), seed)
        return inputs[drawn], numbers[drawn].astype(np.float64), tuple(str(digit) for digit in range(10)), ()

    def _table(self, data: str, seed: int) -> _Loaded:
        chosen = choose(data, self)
        drawn = self._drawn(len(chosen.frame), seed)
        if chosen.classes:
            found = labelled(chosen, rows=self.rows, seed=seed)
            return found.inputs, found.labels.astype(np.float64), found.classes, chosen.notes
        target = unit(chosen.column(chosen.target))
        return inputs_of(chosen, drawn), target[drawn], (), chosen.notes

    def _drawn(self, count: int, seed: int) -> NDArray[np.int64]:
        if self.rows is not None:
            check.integer("rows", self.rows, low=2, high=count)
        return drawn_rows(count, self.rows, seed)


@dataclass(frozen=True, kw_only=True)
class SomeRows(Samples):
    """The samples to learn from; by default only a part of the data sets in ``USUAL_ROWS``."""

    USUAL_ROWS: ClassVar[Mapping[str, int]] = {}

    @classmethod
    def by_data(cls) -> dict[str, dict[str, Any]]:
        """Return the defaults that depend on the data set."""
        return {"rows": {**cls.USUAL_ROWS, "other": "all"}}

    def resolved(self, data: str) -> Self:
        """Return the choice; if its number of rows is open, set it to the usual number for the data set."""
        return dataclasses.replace(self, rows=self.USUAL_ROWS.get(data)) if self.rows is None else self


@dataclass(frozen=True, kw_only=True)
class ClassSamples(ClassChoice, Samples):
    """The samples to learn from, in a study of classification."""

    def load(self, data: str, seed: int) -> tuple[Table, tuple[str, ...]]:
        """Return samples and the names of their classes, as `Samples.load` does; raises BadInput without classes."""
        table, classes = super().load(data, seed)
        if not classes:
            raise BadInput(f"data = {data!r}: must have classes to tell apart; {table.notes[0]}")
        return table, classes
