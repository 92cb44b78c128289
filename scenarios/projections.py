"""Distributed kernel regression by successive orthogonal projections: what each order of turns costs on a network."""

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agents.orders import ORDERS, network_graph, projectors
from agents.projections import State, alone, distance, limit, state_of, together
from agents.turns import Projector
from netsim import check
from netsim.plots import Axis, curves
from netsim.study import Study
from scenarios.common import Bandwidth, Channel, names_in
from scenarios.ensembles import Drawn, Plane, field
from scenarios.mapping import choose_sigma
from scenarios.projections_figures import Picture, draw_field

if TYPE_CHECKING:
    import pandas as pd

_GRID = 41  # points a side
_HEADER = 400  # bits of a frame beside its values, about
_SHARES = (0.5, 0.3, 0.2, 0.1, 0.01, 1e-3)


def projections(
    study: Study,
    *,
    ensemble: str = "sensors",
    sweeps: int = 40,
    orders: str = "token,coloured,random,contention",
    duration: float = 0.1,
    pause: float | None = None,
    plane: Plane = Plane(),  # noqa: B008 (frozen)
    bandwidth: Bandwidth = Bandwidth(),  # noqa: B008 (frozen)
    channel: Channel = Channel(),  # noqa: B008 (frozen)
    seed: int = 0,
) -> None:
    """Kernel regression by successive projections among agents that share examples (Predd, Kulkarni and Poor).

    A round is no part of the method here, only the time between two rows of the results.

    Parameters
    ----------
    ensemble : str
        "sensors" that read what is near, a "public" database and private examples, or "centralised": all read all.
    sweeps : int
        Turns of each agent.
    orders : str
        Orders of turns, with commas between: token (passed round a ring), coloured (in parallel, by colours), random (a
        token that wanders), contention (claims).
    duration : float
        Seconds that one projection takes.
    pause : float
        Mean seconds between an agent's claims in the order "contention"; by default what suits links and ensemble.
    plane : Plane
        The ensemble and its examples.
    bandwidth : Bandwidth
        How sigma is chosen, if not as given.
    channel : Channel
        The links.
    seed : int
        Seed of everything random.
    """
    wanted = [check.one_of("orders", name, ORDERS) for name in names_in(orders)]
    check.integer("sweeps", sweeps, low=1)
    check.finite("duration", duration, above=0.0)
    if bandwidth.median or bandwidth.tune:
        drawn = plane.draw(ensemble, seed).ensemble
        sigma = choose_sigma(study, plane.sigma, drawn.inputs, drawn.targets, regularizer=1e-2, seed=seed)
        plane = dataclasses.replace(plane, sigma=sigma)
    task = Task(plane.draw(ensemble, seed))
    each = _exchange_time(task, channel)
    if pause is None:
        pause = _usual_pause(task, duration, each)
    study.settings["pause"] = pause
    networks = {order: channel.network(network_graph(task.ensemble, order), seed) for order in wanted}
    for order, network in networks.items():
        learners = projectors(
            task.ensemble,
            order,
            sweeps,
            duration=duration,
            pause=pause,
            radio=channel.medium == "radio",
            reliable=not channel.is_ideal,
            timeout=4 * each + 0.01 * duration,
        )
        turns = sweeps * len(learners)
        study.run(order, network, learners, [task.measure], math.ceil(turns * duration / channel.round_period))
    study.centralised = {"test_mse": task.together}
    _report(study, task)


class Task:
    """What is learned, and how well.

    Attributes
    ----------
    ensemble : Ensemble
    goal : State
        The limit.
    start, together, limit, alone, alone_at_best : float
        Distance from the start to the limit; mean squared errors against the true field of the centralised solution,
        of the limit, and of agents that learn from their own examples only, with λ/N and with the λ that is best
        for them.
    """

    def __init__(self, drawn: Drawn) -> None:
        self.ensemble, self.places = drawn.ensemble, drawn.places
        ensemble = self.ensemble
        side = np.linspace(0.0, 1.0, _GRID)
        self.grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
        self.truth = field(self.grid)
        self._seen = [ensemble.gram(self.grid, ensemble.inputs[own]) for own in ensemble.access]
        self.nearest: NDArray[np.intp] | None = None
        if self.places is not None:
            self.nearest = np.argmin(np.linalg.norm(self.grid[:, None] - self.places, axis=2), axis=1)
        self.goal = limit(ensemble)
        nothing = State(ensemble.targets, [np.zeros(len(own)) for own in ensemble.access])
        self.start = distance(ensemble, nothing, self.goal)
        self.centralised = ensemble.gram(self.grid, ensemble.inputs) @ together(ensemble)
        self.together = float(np.mean((self.centralised - self.truth) ** 2))
        self.limit = self.errors(self.goal.coefficients)["test_mse"]
        own = [self._alone(2.0**k)["test_mse"] for k in range(12)]
        self.alone, self.alone_at_best = own[0], min(own)

    def _alone(self, factor: float) -> dict[str, float]:
        ensemble = self.ensemble
        weights = factor * ensemble.regularizers
        return self.errors([alone(ensemble, i, float(weight)) for i, weight in enumerate(weights)])

    def predictions(self, coefficients: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return each agent's function on the grid, shape (agents, points)."""
        return np.stack([seen @ c for seen, c in zip(self._seen, coefficients, strict=True)])

    def patchwork(self, predicted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the field as the agents know it, shape (points,): each point from the nearest sensor, or the mean."""
        if self.nearest is None:
            return np.asarray(predicted.mean(axis=0), dtype=np.float64)
        return predicted[self.nearest, np.arange(len(self.grid))]

    def errors(self, coefficients: list[NDArray[np.float64]]) -> dict[str, float]:
        """Return mean squared errors against the true field.

        ``plane_mse``: every agent on the whole plane. ``test_mse``: every point by the sensor nearest to it; the
        same as ``plane_mse`` where agents have no places.
        """
        squares = (self.predictions(coefficients) - self.truth) ** 2
        plane = float(squares.mean())
        near = plane if self.nearest is None else float(squares[self.nearest, np.arange(len(self.grid))].mean())
        return {"test_mse": near, "plane_mse": plane}

    def measure(self, agents: Mapping[Any, Projector]) -> dict[str, float]:
        """Return the columns of a round: errors, ``limit_distance`` (from the limit), and ``turns`` so far."""
        state = state_of(self.ensemble, agents)
        columns = self.errors(state.coefficients)
        columns["limit_distance"] = distance(self.ensemble, state, self.goal)
        columns["turns"] = sum(agent.taken for agent in agents.values())
        return columns


# --- the network ------------------------------------------------------------------------------------------------------


def _exchange_time(task: Task, channel: Channel) -> float:
    """Return about how long the largest message and its answer are under way, in seconds."""
    largest = 64 * max(len(own) for own in task.ensemble.access) + 2 * _HEADER
    return 2 * channel.latency + (largest / channel.rate if channel.rate else 0.0)


def _usual_pause(task: Task, duration: float, exchange: float) -> float:
    """Return about how long the turns of an agent and all its sharers take, one after another, in seconds."""
    degree = 2 * task.ensemble.sharers.number_of_edges() / len(task.ensemble)
    return (1 + degree) * (duration + 2 * degree * exchange)


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(study: Study, task: Task) -> None:
    rounds = study.rounds
    ends = rounds.groupby("algorithm", sort=False).last().reset_index()
    columns = ["transmissions", "payload_bits", "wire_bits", "time_s", "turns", "limit_distance"]
    table = ends[["algorithm", *columns, "test_mse", "plane_mse"]]
    study.table("ends", f"At the end (at the start the limit is {task.start:.4g} away)", table)
    study.table(
        "cost_to_reach", "Cost to come near the limit, by share of the distance at the start", _costs(study, task)
    )
    study.note(
        f"Test MSE: centralised {task.together:.4g}; limit {task.limit:.4g}; own examples only {task.alone:.4g}, or "
        f"{task.alone_at_best:.4g} with the best of twelve regularisers, which takes the true field to choose."
    )
    for name, rows in rounds.groupby("algorithm", sort=False):
        if rows["limit_distance"].diff().max() > 1e-9 * task.start:
            study.note(f"{name}: the distance to the limit grew, which it must not.")
    _draw(study, task)


def _draw(study: Study, task: Task) -> None:
    rounds, ensemble = study.rounds, task.ensemble
    axes = [Axis("transmissions", log=True), Axis("wire_bits", log=True), Axis("time_s", log=True)]
    title = f"Successive projections, {len(ensemble)} agents, {len(ensemble.targets)} examples"
    named = rounds.rename(columns={"limit_distance": "distance to the limit"})
    study.figure("distance", curves(named, Axis("distance to the limit", log=True), axes, title))
    levels = {"centralised": task.together, "limit": task.limit, "own examples only": task.alone}
    study.figure("errors", curves(rounds, Axis("test_mse", log=True), axes, title, levels))
    # Whatever the order, it leads to the same: the first one's is shown.
    learned = state_of(ensemble, next(iter(study.runs.values())).agents).coefficients
    pictures = [
        Picture("true field, examples", task.truth, ensemble.inputs),
        Picture(f"centralised (MSE {task.together:.3g})", task.centralised),
        _picture("own examples only", task, [alone(ensemble, i) for i in range(len(ensemble))]),
        _picture("trained together", task, learned),
    ]
    study.figure("field", draw_field(pictures, task.places, ensemble.sharers, title))


def _picture(name: str, task: Task, coefficients: list[NDArray[np.float64]]) -> Picture:
    shown = task.patchwork(task.predictions(coefficients))
    return Picture(f"{name} (MSE {np.mean((shown - task.truth) ** 2):.3g})", shown)


def _costs(study: Study, task: Task) -> "pd.DataFrame":
    """Return, for each share of the distance at the start and each order, what it cost to come so near."""
    import pandas as pd

    rows = []
    for share in _SHARES:
        for name, part in study.rounds.groupby("algorithm", sort=False):
            near = part[part["limit_distance"] <= share * task.start]
            if len(near):
                costs = near.iloc[0][["turns", "transmissions", "payload_bits", "wire_bits", "time_s"]]
                rows.append({"share": share, "algorithm": name, **costs.astype(float).to_dict()})
    return pd.DataFrame(rows)
