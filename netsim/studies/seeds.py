"""The seeds of a study: a common one and, optionally, separate ones for its data, its graph and its links.

A study takes the class with the seeds of its draws. Seeds left open follow ``seed``.
"""

import dataclasses
from dataclasses import dataclass
from typing import Self

import numpy as np

from netsim.util import check

SEEDS = ("seed", "data_seed", "graph_seed", "loss_seed")
"""The parameters over whose values results may be put together, one of them at a time."""


def over_text(over: str) -> str:
    """Return a seed in words: "seed", "data seed"."""
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
        """Return a separate seed if it is set, else ``seed``."""
        return self.seed if given is None else given

    @property
    def text(self) -> str:
        """The seeds in words: "seed 3", or "seed 3, data seed 1"."""
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self._given().items())

    def repeated(self, count: int) -> list[Self]:
        """Return the seeds of ``count`` repetitions, derived from each seed."""
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
        Seed of the data: which samples are drawn, who has them, and in which order they come. By default that of
        --seed.
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
        Seed of the random graph. By default that of --seed.
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
        Seed of what the links and the radio draw: losses, delays, back-offs. By default that of --seed.
    """

    loss_seed: int | None = None

    @property
    def network(self) -> tuple[int, int]:
        """The seeds of a network: of its agents, and of its links."""
        return self.seed, self.own(self.loss_seed)


@dataclass(frozen=True, kw_only=True)
class GraphSeeds(LossSeed, GraphSeed):
    """The seeds of a study that draws a graph, and whose links draw."""


@dataclass(frozen=True, kw_only=True)
class DataSeeds(LossSeed, DataSeed):
    """The seeds of a study that draws data, and whose links draw."""


@dataclass(frozen=True, kw_only=True)
class Seeds(LossSeed, GraphSeed, DataSeed):
    """The seeds of a study that draws data and a graph, and whose links draw."""
