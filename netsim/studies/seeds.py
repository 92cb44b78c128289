"""The seeds of a study: a common seed and, optionally, separate seeds for its data, its graph and its links.

A study takes the class with the seeds that it needs. A separate seed that is not set follows ``seed``.
"""

import dataclasses
from dataclasses import dataclass
from typing import Self

import numpy as np

from netsim.util import check

SEEDS = ("seed", "data_seed", "graph_seed", "loss_seed")
"""The parameters over whose values results may be put together, one of them at a time."""


def over_text(over: str) -> str:
    """Return a seed's name as text: "seed", "data seed"."""
    return over.replace("_", " ")


@dataclass(frozen=True, kw_only=True)
class Seed:
    """The seed of a study.

    Parameters
    ----------
    seed : int
        Seed of everything random that has no seed of its own.

    Raises
    ------
    BadInput
        For a seed that is not a whole number >= 0.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in self._given().items():
            check.integer(name, value, low=0)

    def _given(self) -> dict[str, int]:
        """Return the seeds that are set."""
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def own(self, given: int | None) -> int:
        """Return a separate seed if it is set, else the common ``seed``."""
        return self.seed if given is None else given

    @property
    def text(self) -> str:
        """The seeds as text: "seed 3", or "seed 3, data seed 1"."""
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self._given().items())

    def repeated(self, count: int) -> list[Self]:
        """Return the seeds of ``count`` repetitions, derived from the seeds that are set."""
        drawn = {
            name: np.random.SeedSequence(value).generate_state(count).tolist() for name, value in self._given().items()
        }
        return [
            dataclasses.replace(self, **dict(zip(drawn, each, strict=True)))
            for each in zip(*drawn.values(), strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class DataSeed(Seed):
    """The seeds of a study that draws data.

    Parameters
    ----------
    data_seed : int
        Seed of the data: the drawn samples, their agents and their order. Default: the value of --seed.
    """

    data_seed: int | None = None

    @property
    def data(self) -> int:
        """The seed of the data."""
        return self.own(self.data_seed)


@dataclass(frozen=True, kw_only=True)
class GraphSeed(Seed):
    """The seeds of a study that draws a graph.

    Parameters
    ----------
    graph_seed : int
        Seed of the random graph. Default: the value of --seed.
    """

    graph_seed: int | None = None

    @property
    def graph(self) -> int:
        """The seed of the graph."""
        return self.own(self.graph_seed)


@dataclass(frozen=True, kw_only=True)
class LossSeed(Seed):
    """The seeds of a study whose links draw random numbers.

    Parameters
    ----------
    loss_seed : int
        Seed of the random numbers of links and radio: losses, delays, back-offs. Default: the value of --seed.
    """

    loss_seed: int | None = None

    @property
    def network(self) -> tuple[int, int]:
        """The seeds of a network: that of its agents, and that of its links."""
        return self.seed, self.own(self.loss_seed)


@dataclass(frozen=True, kw_only=True)
class GraphSeeds(LossSeed, GraphSeed):
    """The seeds of a study that draws a graph, and whose links draw random numbers."""


@dataclass(frozen=True, kw_only=True)
class DataSeeds(LossSeed, DataSeed):
    """The seeds of a study that draws data, and whose links draw random numbers."""


@dataclass(frozen=True, kw_only=True)
class Seeds(LossSeed, GraphSeed, DataSeed):
    """The seeds of a study that draws data and a graph, and whose links draw random numbers."""
