"""The settings that an experiment tries: mappings of paths to values, which combine."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.studies.experiment.paths import brief


class Grid(list[dict[str, Any]]):
    """Settings, each a mapping of paths to values: ``a * b`` combines each of one with each of another, ``a + b``
    appends.
    """

    def __mul__(self, other: "Grid") -> "Grid":  # type: ignore[override]
        return Grid({**a, **b} for a, b in itertools.product(self, other))

    def __add__(self, other: "Grid") -> "Grid":  # type: ignore[override]
        return Grid([*self, *other])


@dataclass(frozen=True)
class Named:
    """A value, and the name by which tables show it."""

    name: str
    value: Any


def sweep(path: str, values: Iterable[Any] | Mapping[str, Any]) -> Grid:
    """Return a grid over one path.

    Parameters
    ----------
    path : str
        A path of an experiment, or one of its short names.
    values : iterable or mapping
        The values; of a mapping, by the names that tables show.
    """
    if isinstance(values, Mapping):
        return Grid({path: Named(name, value)} for name, value in values.items())
    return Grid({path: value} for value in values)


def value_of(given: Any) -> Any:
    """Return a value without its name."""
    return given.value if isinstance(given, Named) else given


def plain(value: Any) -> Any:
    """Return a number, switch or word of numpy's as one of Python's, anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def shown(value: Any) -> Any:
    """Return a value as a column of tables has it."""
    if isinstance(value, Named):
        return value.name
    return value if isinstance(value, int | float | str | None) else brief(value)
