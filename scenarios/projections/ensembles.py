"""Ensembles of agents that share some examples, drawn from a known field on the unit square or from a table.

There are three kinds, as in figures 2 to 4 of Predd, Kulkarni and Poor, "Distributed kernel regression": all agents
read all examples; a public database and private examples; sensors that read nearby examples.
"""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim.agents.maps.bandwidth import median_distance
from netsim.agents.maps.features import kernel_values
from netsim.agents.projections.estimate import Ensemble
from netsim.errors import BadInput
from netsim.scenarios.data.choice import Columns
from netsim.scenarios.data.files import check_data
from netsim.scenarios.data.tables import Table, load_table, scale_unit
from netsim.scenarios.tasks.settings import Bandwidth
from netsim.util import check
from netsim.util.typing import Vector

ENSEMBLES = ("centralised", "public", "sensors")
FIELD = "field"
"""Name of the generated data: a known function of the position, with noise."""

_TRIES = 1_000
_NOISE = 0.3
_SIGMA = 0.25
_EXAMPLES = 120
_GRID = 41  # points per side
_TESTED = 1_000

Points = NDArray[np.float64]


def field(points: Points) -> Vector:
    """Return the true field at points of the unit square, one per row: a hill, a valley and a slope."""
    hill = 1.3 * np.exp(-((points[:, 0] - 0.3) ** 2 + (points[:, 1] - 0.7) ** 2) / 0.05)
    dale = 1.1 * np.exp(-((points[:, 0] - 0.7) ** 2 + (points[:, 1] - 0.3) ** 2) / 0.08)
    slope: Vector = 0.5 * (points[:, 0] - 0.5)
    return hill - dale + slope


def grid() -> Points:
    """Return the points of a square grid on the unit square, row by row from the bottom, shape (41², 2)."""
    side = np.linspace(0.0, 1.0, _GRID)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The source of examples: a known field, or a table."""

    width: int = 2
    """Number d of inputs."""
    points: Points
    """Points at which learned functions are evaluated, shape (n, d)."""
    truth: Vector
    """Target values at these points, shape (n,)."""
    is_field: bool = True
    """Whether the points are those of `grid`, where the truth is known without noise."""
    usual_examples: int = _EXAMPLES
    most_examples: int | None = None
    usual_sigma: float = _SIGMA
    usual_noise: float = _NOISE
    notes: tuple[str, ...] = ()
    """Lines for the study's notes."""
    stands: Callable[[int, np.random.Generator], Points]
    """Draws positions for a given number of sensors, shape (count, d)."""
    examples: Callable[[int, np.random.Generator], tuple[Points, Vector]]
    """Draws a given number of random examples: inputs of shape (count, d), targets of shape (count,)."""


def ground_of(data: str, columns: Columns, seed: int) -> Ground:
    """Return the source of examples: "field", or a table by name or path, whose test rows are drawn by ``seed``.

    Raises BadInput if there is no such table, or columns are chosen for the field.
    """
    check_data(data, (FIELD,))
    check.integer("seed", seed, low=0)
    if data != FIELD:
        return _table(scale_unit(load_table(data, columns)), seed)
    columns.check_left_out(data)

    def examples(count: int, rng: np.random.Generator) -> tuple[Points, Vector]:
        inputs = rng.random((count, 2))
        return inputs, field(inputs)

    return Ground(
        points=grid(), truth=field(grid()), stands=lambda count, rng: rng.random((count, 2)), examples=examples
    )


def _table(table: Table, seed: int) -> Ground:
    """Return a table as a source, scaled to [0, 1]; 30 % of the rows, at most 1000, are used for tests."""
    order = np.random.default_rng(seed).permutation(len(table.target))
    tested = min(max(round(0.3 * len(order)), 1), _TESTED)
    if len(order) - tested < 2:
        raise BadInput(f"data = {table.name!r}: must have 3 rows at least; there are {len(order)}")
    inputs, target, width = table.inputs[order[tested:]], table.target[order[tested:]], table.inputs.shape[1]

    def examples(count: int, rng: np.random.Generator) -> tuple[Points, Vector]:
        drawn = rng.permutation(len(target))[:count]
        return inputs[drawn], target[drawn]

    return Ground(
        width=width,
        points=table.inputs[order[:tested]],
        truth=table.target[order[:tested]],
        is_field=False,
        usual_examples=min(_EXAMPLES, len(target)),
        most_examples=len(target),
        usual_sigma=_SIGMA if width == 2 else median_distance(inputs, seed=0),
        usual_noise=0.0,
        notes=table.notes,
        # Sensors are placed at examples, because at other positions they might read none.
        stands=lambda count, rng: inputs[rng.integers(len(inputs), size=count)],
        examples=examples,
    )


@dataclass(frozen=True, kw_only=True)
class Plane(Bandwidth):
    """The kind of ensemble, the numbers of agents and examples, and the learning criterion.

    Parameters
    ----------
    ensemble : str
        "sensors": each agent reads the examples near it. "public": a public database, and private examples of each
        agent. "centralised": all agents read all examples.
    agents : int
        Number of agents.
    examples : int
        Number of examples, drawn at random from the unit square or from the rows of a table.
    public : int
        Number of examples that all agents read ("public" only); the others are divided among the agents.
    radius : float
        Distance within which a sensor reads examples ("sensors" only); inputs lie between 0 and 1.
    sigma : float
        Bandwidth of the Gaussian kernel.
    median : bool
        Use the median distance between examples as the bandwidth sigma.
    noise : float
        Standard deviation of the noise on the field's targets; the field lies between about -1 and 1. Not used with a
        table.
    regularizer : float
        The regulariser lambda of the centralised solution; each agent's is lambda / agents.
    """

    ensemble: str = "sensors"
    agents: int = 30
    examples: int | None = None
    public: int = 10
    radius: float = 0.2
    sigma: float | None = None
    noise: float | None = None
    regularizer: float = 1.0

    @classmethod
    def by_data(cls) -> dict[str, dict[str, Any]]:
        """Return the defaults that depend on the data set."""
        return {
            "examples": {FIELD: _EXAMPLES, "other": f"{_EXAMPLES}, or as many as there are"},
            "sigma": {FIELD: _SIGMA, "other": f"{_SIGMA} of two inputs, else the median distance"},
            "noise": {FIELD: _NOISE},
        }

    def resolved(self, ground: Ground) -> Self:
        """Return the setting with unset values filled in for the data; raises BadInput for unsuitable ones."""
        check.one_of("ensemble", self.ensemble, ENSEMBLES)
        check.integer("agents", self.agents, low=1)
        count = ground.usual_examples if self.examples is None else self.examples
        examples = check.integer("examples", count, low=1, high=ground.most_examples)
        check.fits("agents", self.agents, 100 * self.agents, "that many")
        check.fits("examples", examples, 8 * (ground.width + 1) * examples, "that many")
        check.integer("public", self.public, low=1, high=examples if self.ensemble == "public" else None)
        check.finite("radius", self.radius, above=0.0)
        if self.sigma is not None and (self.median or self.tune):
            raise BadInput(f"sigma = {self.sigma:g}: must be left out where median or tune = True")
        sigma = check.finite("sigma", ground.usual_sigma if self.sigma is None else self.sigma, above=0.0)
        if self.noise is not None and not ground.is_field:
            raise BadInput(f"noise = {self.noise:g}: must be left out for a table, whose targets are what they are")
        noise = check.finite("noise", ground.usual_noise if self.noise is None else self.noise, low=0.0)
        check.finite("regularizer", self.regularizer, above=0.0)
        if self.ensemble == "sensors" and ground.width != 2:
            raise BadInput(
                f"ensemble = 'sensors': must be public or centralised for {ground.width} inputs: sensors stand in a "
                "plane, so that their inputs are two, the place of an example"
            )
        return dataclasses.replace(self, examples=examples, sigma=sigma, noise=noise)

    def draw(self, ground: Ground, seed: int) -> "Drawn":
        """Draw an ensemble for a resolved setting; raises BadInput if the radius is too small to connect it."""
        rng = np.random.default_rng(check.integer("seed", seed, low=0))
        if self.ensemble == "sensors":
            return self._sensors(ground, rng)
        count = check.integer("examples", self.examples, low=1)
        examples = ground.examples(count, rng)
        if self.ensemble == "centralised":
            access: list[Iterable[int]] = [range(count)] * self.agents
        else:
            private = np.array_split(np.arange(self.public, count), self.agents)
            access = [[*range(self.public), *own.tolist()] for own in private]
        return Drawn(self._ensemble(examples, access, rng), ground)

    def _sensors(self, ground: Ground, rng: np.random.Generator) -> "Drawn":
        count = check.integer("examples", self.examples, low=1)
        both = self.agents, count
        check.fits("agents, examples", both, 8 * self.agents * count, "the distances between them")
        for _ in range(_TRIES):
            places, examples = ground.stands(self.agents, rng), ground.examples(count, rng)
            near = np.linalg.norm(places[:, None] - examples[0], axis=2) <= self.radius
            if not near.any(axis=1).all():
                continue
            ensemble = self._ensemble(examples, [np.flatnonzero(each).tolist() for each in near], rng)
            if nx.is_connected(ensemble.sharers):
                return Drawn(ensemble, ground, places)
        given = f"radius = {self.radius:g}, agents = {self.agents}, examples = {self.examples}"
        raise BadInput(f"{given}: must make it likely that all sensors are joined by shared examples; try a larger one")

    def _ensemble(self, examples: tuple[Points, Vector], access: list[Any], rng: np.random.Generator) -> Ensemble:
        inputs, exact = examples
        noise = check.finite("noise", self.noise, low=0.0)
        targets = exact + noise * rng.standard_normal(len(exact)) if noise else exact
        gram = partial(kernel_values, "gaussian", sigma=check.finite("sigma", self.sigma, above=0.0))
        return Ensemble(inputs, targets, access, regularizers=self.regularizer / self.agents, gram=gram)


@dataclass(frozen=True)
class Drawn:
    """An ensemble, the source of its examples and, for sensors, their positions: shape (agents, 2)."""

    ensemble: Ensemble
    ground: Ground
    places: Points | None = None
