"""Ensembles of agents that read noisy examples of a known field on the unit square.

The three kinds of Predd, Kulkarni and Poor, "Distributed kernel regression" (their figures 2 to 4): all agents read all
examples; a public database and private examples; sensors that read what is near.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim import check
from netsim.agents.maps.features import kernel_values
from netsim.agents.projections.estimate import Ensemble
from netsim.errors import BadInput

ENSEMBLES = ("centralised", "public", "sensors")

_TRIES = 1_000

Points = NDArray[np.float64]


def field(points: Points) -> NDArray[np.float64]:
    """Return the true field at points of the unit square, one a row: a hill, a dale and a slope, about −1 to 1."""
    hill = 1.3 * np.exp(-((points[:, 0] - 0.3) ** 2 + (points[:, 1] - 0.7) ** 2) / 0.05)
    dale = 1.1 * np.exp(-((points[:, 0] - 0.7) ** 2 + (points[:, 1] - 0.3) ** 2) / 0.08)
    slope: NDArray[np.float64] = 0.5 * (points[:, 0] - 0.5)
    return hill - dale + slope


@dataclass(frozen=True, kw_only=True)
class Plane:
    """How many read how much, and what is learned from it.

    Parameters
    ----------
    agents : int
        Number of agents.
    examples : int
        Number of examples, at random places of the unit square.
    public : int
        Examples that everybody reads ("public" only); the others are dealt out.
    radius : float
        Distance within which a sensor reads examples ("sensors" only).
    sigma : float
        Bandwidth of the Gaussian kernel.
    noise : float
        Standard deviation of the noise on the targets; the field lies between about -1 and 1.
    regularizer : float
        The regulariser lambda of the centralised solution; each agent's is lambda / agents.
    """

    agents: int = 30
    examples: int = 120
    public: int = 10
    radius: float = 0.2
    sigma: float = 0.25
    noise: float = 0.3
    regularizer: float = 1.0

    def draw(self, kind: str, seed: int) -> "Drawn":
        """Return an ensemble of one of the `ENSEMBLES`.

        Raises
        ------
        BadInput
            If an argument is outside its range, or the sensors' radius too small for a connected ensemble.
        """
        check.one_of("ensemble", kind, ENSEMBLES)
        check.integer("agents", self.agents, low=1)
        check.integer("examples", self.examples, low=1)
        check.integer("public", self.public, low=1, high=self.examples if kind == "public" else None)
        check.finite("radius", self.radius, above=0.0)
        check.finite("sigma", self.sigma, above=0.0)
        check.finite("noise", self.noise, low=0.0)
        check.finite("regularizer", self.regularizer, above=0.0)
        rng = np.random.default_rng(check.integer("seed", seed, low=0))
        if kind == "sensors":
            return self._sensors(rng)
        inputs = rng.random((self.examples, 2))
        if kind == "centralised":
            access: list[Iterable[int]] = [range(self.examples)] * self.agents
        else:
            private = np.array_split(np.arange(self.public, self.examples), self.agents)
            access = [[*range(self.public), *own.tolist()] for own in private]
        return Drawn(self._ensemble(inputs, access, rng))

    def _sensors(self, rng: np.random.Generator) -> "Drawn":
        for _ in range(_TRIES):
            places, inputs = rng.random((self.agents, 2)), rng.random((self.examples, 2))
            near = np.linalg.norm(places[:, None] - inputs, axis=2) <= self.radius
            if not near.any(axis=1).all():
                continue
            ensemble = self._ensemble(inputs, [np.flatnonzero(each).tolist() for each in near], rng)
            if nx.is_connected(ensemble.sharers):
                return Drawn(ensemble, places)
        given = f"radius = {self.radius:g}, agents = {self.agents}, examples = {self.examples}"
        raise BadInput(f"{given}: must make it likely that all sensors are joined by shared examples; try a larger one")

    def _ensemble(self, inputs: Points, access: list[Any], rng: np.random.Generator) -> Ensemble:
        targets = field(inputs) + self.noise * rng.standard_normal(len(inputs))
        gram = partial(kernel_values, "gaussian", sigma=self.sigma)
        return Ensemble(inputs, targets, access, regularizers=self.regularizer / self.agents, gram=gram)


@dataclass(frozen=True)
class Drawn:
    """An ensemble and, of sensors, their places: shape (agents, 2)."""

    ensemble: Ensemble
    places: Points | None = None
