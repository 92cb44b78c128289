"""Distributed kernel regression by successive orthogonal projections: what each order of turns costs on a network."""

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from netsim import check
from netsim.agents.projections.estimate import Ensemble, Estimate, State, alone, distance, limit, state_of, together
from netsim.agents.projections.orders import ORDERS, network_graph, projectors
from netsim.agents.projections.projector import Projector, largest_message, sure_timeout
from netsim.errors import BadInput
from netsim.scenarios.projections.ensembles import Drawn, Plane, field
from netsim.scenarios.projections.figures import Picture, draw_field
from netsim.scenarios.tasks.labels import measure
from netsim.scenarios.tasks.mapping import choose_sigma
from netsim.scenarios.tasks.settings import Bandwidth, Channel, names_in
from netsim.studies import Study
from netsim.studies.figures import Axis, curves

if TYPE_CHECKING:
    import pandas as pd

_GRID = 41  # points a side
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
    bandwidth: Bandwidth = Bandwidth(),
    channel: Channel = Channel(),
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
    if len(set(wanted)) < len(wanted):
        raise check.refuse("orders", orders, "different ones")
    check.integer("sweeps", sweeps, low=1)
    check.finite("duration", duration, above=0.0)
    if pause is not None:
        check.finite("pause", pause, above=0.0)
    if bandwidth.median or bandwidth.tune:
        examples = plane.draw(ensemble, seed).ensemble
        sigma = choose_sigma(study, plane.sigma, examples.inputs, examples.targets, regularizer=1e-2, seed=seed)
        plane = dataclasses.replace(plane, sigma=sigma)
    drawn = plane.draw(ensemble, seed)
    networks = {order: channel.network(network_graph(drawn.ensemble, order), seed) for order in wanted}
    timing = Timing(drawn.ensemble, channel, sweeps, duration, pause)
    study.settings["pause"] = timing.pause
    task = Task(drawn)
    for order, network in networks.items():
        learners = projectors(
            task.ensemble,
            order,
            sweeps,
            duration=duration,
            pause=timing.pause,
            radio=channel.medium == "radio",
            reliable=not channel.is_ideal,
            timeout=timing.timeout,
        )
        study.run(order, network, learners, [task.measure], timing.rounds(order))
    study.centralised = {"test_mse": task.together}
    _report(study, task)


class Task:
    """What is learned, and how well.

    Attributes
    ----------
    ensemble : Ensemble
    goal : State
        The limit.
    unrest : float
        How far a turn moves the limit at most, which but for rounding stays where it is.
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
        self.unrest = max(self._moved(i) for i in range(len(ensemble)))
        self.centralised = ensemble.gram(self.grid, ensemble.inputs) @ together(ensemble)
        self.together = float(np.mean((self.centralised - self.truth) ** 2))
        self.limit = self.errors(self.goal.coefficients)["test_mse"]
        own = [self._alone(2.0**k)["test_mse"] for k in range(12)]
        self.alone, self.alone_at_best = own[0], min(own)

    def _alone(self, factor: float) -> dict[str, float]:
        ensemble = self.ensemble
        weights = factor * ensemble.regularizers
        return self.errors([alone(ensemble, i, float(weight)) for i, weight in enumerate(weights)])

    def _moved(self, agent: int) -> float:
        ensemble, own = self.ensemble, self.ensemble.access[agent]
        gram, weight = ensemble.grams[agent], float(ensemble.regularizers[agent])
        estimate = Estimate(gram, weight)
        estimate.coefficients = self.goal.coefficients[agent]
        moved = estimate.project(self.goal.z[own]) - self.goal.z[own]
        change = estimate.coefficients - self.goal.coefficients[agent]
        return math.sqrt(float(moved @ moved) + weight * max(float(change @ gram @ change), 0.0))

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


class Timing:
    """How long things take on the network.

    Parameters
    ----------
    sweeps, duration, pause
        As in `projections`.

    Attributes
    ----------
    timeout : float
        Seconds until a message that is not acknowledged is repeated.
    pause : float
        Mean seconds between an agent's claims: as given, or as long as the turns of an agent and all its sharers take,
        one after another.

    Raises
    ------
    BadInput
        If a budget is less than what a message needs.
    """

    def __init__(self, ensemble: Ensemble, channel: Channel, sweeps: int, duration: float, pause: float | None) -> None:
        self._ensemble, self._channel, self._sweeps, self._duration = ensemble, channel, sweeps, duration
        radio = channel.medium == "radio"
        largest = largest_message(ensemble, radio=radio)
        if channel.budget is not None and channel.budget < largest:
            raise BadInput(
                f"budget = {channel.budget:g}: must be at least {largest} bits, the largest message's values"
            )
        self.timeout = sure_timeout(
            ensemble, latency=channel.latency, rate=channel.rate, round_period=channel.round_period, radio=radio
        )
        self._exchange = 2 * channel.latency + (largest / channel.rate if channel.rate else 0.0)
        self._degree = 2 * ensemble.sharers.number_of_edges() / len(ensemble)
        usual = (1 + self._degree) * (duration + 2 * self._degree * self._exchange)
        self.pause = usual if pause is None else pause

    def rounds(self, order: str) -> int:
        """Return about how many rounds a run takes, rather too many than too few."""
        duration, degree = self._duration, max(len(near) for _, near in self._ensemble.sharers.adjacency())
        # On a radio each sharer is spoken to by itself, on wires all at once: then the unluckiest counts.
        spoken = degree if self._channel.medium == "radio" else min(degree, 4)
        told = 0.0 if self._channel.is_ideal else self._exchange + self._waiting()
        if order == "coloured":
            colours = 1 + int(max(nx.greedy_color(self._ensemble.sharers).values()))
            seconds = self._sweeps * colours * (duration + spoken * told)
        elif order == "contention":
            # Claims and releases are spoken, too, and some fail.
            neighborhood = (1 + self._degree) * (duration + 3 * spoken * told)
            seconds = 3 * self._sweeps * (self.pause + neighborhood)
        else:
            seconds = self._sweeps * len(self._ensemble) * (duration + (1 + spoken) * told)
        return math.ceil(seconds / self._channel.round_period) + 3

    def _waiting(self) -> float:
        """Return the mean seconds that a message waits until it and its answer come through."""
        failure = min(1 - (1 - self._channel.loss) ** 2, 0.999)
        doubled = failure + 2 * failure**2 + 4 * failure**3 + 8 * failure**4 / (1 - failure)
        return 1.5 * self.timeout * doubled


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
        # A turn may move away by as much as it moves the limit.
        rounding = 1e-9 * task.start + task.unrest * rows["turns"].diff()
        if (rows["limit_distance"].diff() > rounding).any():
            study.note(f"{name}: the distance to the limit grew, which it must not.")
    _draw(study, task)


def _draw(study: Study, task: Task) -> None:
    rounds, ensemble = study.rounds, task.ensemble
    axes = [Axis("transmissions", log=True), Axis("wire_bits", log=True), Axis("time_s", log=True)]
    title = f"Successive projections, {len(ensemble)} agents, {len(ensemble.targets)} examples"
    named = rounds.rename(columns={"limit_distance": "distance to the limit"})
    study.figure("distance", curves(named, Axis("distance to the limit", log=True), axes, title))
    levels = {"centralised": task.together, "limit": task.limit, "own examples only": task.alone}
    study.figure("errors", curves(rounds, measure("test_mse", log=True), axes, title, levels))
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
