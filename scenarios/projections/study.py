"""Distributed kernel regression by successive orthogonal projections: the cost of each order of turns."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netsim.agents.projections.estimate import Ensemble, Estimate, State, alone, distance, limit, state_of, together
from netsim.agents.projections.orders import ORDERS, network_graph, projectors
from netsim.agents.projections.projector import Projector, largest_message, sure_timeout
from netsim.agents.theory.sweeps import Sweeps
from netsim.errors import BadInput
from netsim.scenarios.data.choice import Columns
from netsim.scenarios.projections.ensembles import FIELD, Drawn, Plane, grid, ground_of
from netsim.scenarios.projections.figures import Picture, draw_field
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.scenarios.tasks.mapping import choose_sigma
from netsim.scenarios.tasks.settings import Channel, names_in
from netsim.scenarios.tasks.theory import Promises
from netsim.studies import Study
from netsim.studies.figures import Axis, curves
from netsim.studies.seeds import DataSeeds
from netsim.util import check
from netsim.util.typing import Array

_SHARES = (0.5, 0.3, 0.2, 0.1, 0.01, 1e-3)


@dataclass(frozen=True, kw_only=True)
class Turns:
    """The order of turns, and their duration.

    Parameters
    ----------
    sweeps : int
        Number of turns of each agent.
    orders : str
        Orders of turns, separated by commas: token (passed round a ring), coloured (agents of one colour in parallel),
        random (a token on a random walk), contention (agents claim turns).
    duration : float
        Seconds that one projection takes.
    pause : float
        Mean seconds between an agent's claims in the order "contention"; by default derived from the links and the
        ensemble.
    """

    sweeps: int = 40
    orders: str = "token,coloured,random,contention"
    duration: float = 0.1
    pause: float | None = None

    def wanted(self) -> list[str]:
        """Return the orders; raises BadInput for an unknown or repeated order, and for numbers outside their range."""
        found = [check.one_of("orders", name, ORDERS) for name in names_in(self.orders)]
        if len(set(found)) < len(found):
            raise check.refuse("orders", self.orders, "different ones")
        check.integer("sweeps", self.sweeps, low=1)
        check.finite("duration", self.duration, above=0.0)
        if self.pause is not None:
            check.finite("pause", self.pause, above=0.0)
        return found


def projections(
    study: Study,
    *,
    data: str = FIELD,
    columns: Columns = Columns(),
    plane: Plane = Plane(),  # noqa: B008 (frozen)
    turns: Turns = Turns(),
    channel: Channel = Channel(),
    promises: Promises = Promises(),
    seeds: DataSeeds = DataSeeds(),
) -> None:
    """Kernel regression by successive projections among agents that share examples (Predd, Kulkarni and Poor).

    The method itself has no rounds; a round here is only the time between two rows of the results.

    Parameters
    ----------
    data : str
        "field" (a known function of the position, with noise), or a table of numbers: its name in NETSIM_DATA or the
        cache, or its path (.csv.gz, .csv, .npz, .parquet). The ensemble "sensors" needs a table with two inputs, which
        are the positions. A table's inputs and target are scaled to [0, 1], and errors refer to rows that no agent
        reads.
    """
    wanted = turns.wanted()
    ground = ground_of(data, columns, seeds.data)
    plane = plane.resolved(ground)
    if plane.median or plane.tune:
        examples = plane.draw(ground, seeds.data).ensemble
        given = check.finite("sigma", plane.sigma, above=0.0)
        sigma = choose_sigma(study, given, plane, examples.inputs, examples.targets, regularizer=1e-2, seed=seeds.seed)
        plane = dataclasses.replace(plane, sigma=sigma)
    drawn = plane.draw(ground, seeds.data)
    graphs = {order: network_graph(drawn.ensemble, order) for order in wanted}
    networks = {order: channel.over(each, seeds.network) for order, each in graphs.items()}
    timing = Timing(drawn.ensemble, channel, turns)
    study.note(*ground.notes)
    study.record(plane, timing.turns)
    task = ProjectionTask(drawn)
    for order, network in networks.items():
        learners = projectors(
            task.ensemble,
            order,
            turns.sweeps,
            duration=turns.duration,
            pause=timing.pause,
            radio=channel.medium == "radio",
            reliable=not channel.ideal,
            timeout=timing.timeout,
        )
        promised = promises.probes(study, order, learners, network, timing.rounds(order), Sweeps(task.ensemble))
        study.run(order, network, learners, [task.measure, *promised], timing.rounds(order))
    study.centralised, study.constant = {"test_mse": task.together}, {"test_mse": float(np.var(task.truth))}
    _report(study, task)
    promises.show(study)


class FieldView:
    """Evaluates the agents' functions at points of shape (n, d), and combines them into one field."""

    def __init__(self, drawn: Drawn, points: Array) -> None:
        ensemble = drawn.ensemble
        self.points = points
        self._seen = [ensemble.gram(points, ensemble.inputs[own]) for own in ensemble.access]
        self.nearest: NDArray[np.intp] | None = None
        if drawn.places is not None:
            self.nearest = np.argmin(np.linalg.norm(points[:, None] - drawn.places, axis=2), axis=1)
        self.centralised = ensemble.gram(points, ensemble.inputs) @ together(ensemble)

    def predictions(self, coefficients: list[Array]) -> Array:
        """Return each agent's function at the points, shape (agents, n)."""
        return np.stack([seen @ c for seen, c in zip(self._seen, coefficients, strict=True)])

    def patchwork(self, coefficients: list[Array]) -> Array:
        """Return the field learned by all agents, shape (n,): the nearest sensor's at each point, or the mean."""
        predicted = self.predictions(coefficients)
        if self.nearest is None:
            return np.asarray(predicted.mean(axis=0), dtype=np.float64)
        return predicted[self.nearest, np.arange(len(self.points))]


class ProjectionTask:
    """The learning problem, its limit, and the errors of estimates.

    ``goal`` is the limit of the projections, and ``start`` the distance from the initial state to it. ``unrest`` is the
    most by which a turn moves the limit; it is 0 up to rounding. The mean squared errors against the truth are
    ``together`` for the centralised solution, ``limit`` for the limit, and ``alone`` and ``alone_at_best`` for agents
    that use only their own examples, with λ/N and with the best λ.
    """

    def __init__(self, drawn: Drawn) -> None:
        self.drawn, self.ensemble, self.truth = drawn, drawn.ensemble, drawn.ground.truth
        ensemble = self.ensemble
        self.view = FieldView(drawn, drawn.ground.points)
        self.goal = limit(ensemble)
        nothing = State(ensemble.targets, [np.zeros(len(own)) for own in ensemble.access])
        self.start = distance(ensemble, nothing, self.goal)
        self.unrest = max(self._moved(i) for i in range(len(ensemble)))
        self.together = float(np.mean((self.view.centralised - self.truth) ** 2))
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

    def errors(self, coefficients: list[Array]) -> dict[str, float]:
        """Return mean squared errors against the truth.

        ``plane_mse`` averages over all agents and points. ``test_mse`` uses the prediction of the nearest sensor at
        each point; it equals ``plane_mse`` if agents have no positions.
        """
        squares = (self.view.predictions(coefficients) - self.truth) ** 2
        plane = float(squares.mean())
        nearest = self.view.nearest
        near = plane if nearest is None else float(squares[nearest, np.arange(len(self.truth))].mean())
        return {"test_mse": near, "plane_mse": plane}

    def measure(self, agents: Mapping[Any, Projector]) -> dict[str, float]:
        """Return the columns of a round: errors, distance to the limit (``limit_distance``), and ``turns`` so far."""
        state = state_of(self.ensemble, agents)
        columns = self.errors(state.coefficients)
        columns["limit_distance"] = distance(self.ensemble, state, self.goal)
        columns["turns"] = sum(agent.taken for agent in agents.values())
        return columns


# --- the network ------------------------------------------------------------------------------------------------------


class Timing:
    """Timeouts and durations on the network; raises BadInput if a budget is too small for the largest message.

    ``timeout`` is the time (s) after which an unacknowledged message is repeated. ``pause`` is the mean time (s)
    between an agent's claims, by default the total duration of the turns of an agent and all its sharers. ``turns`` is
    the given setting with all values set.
    """

    def __init__(self, ensemble: Ensemble, channel: Channel, turns: Turns) -> None:
        self._ensemble, self._channel = ensemble, channel
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
        usual = (1 + self._degree) * (turns.duration + 2 * self._degree * self._exchange)
        self.pause = usual if turns.pause is None else turns.pause
        self.turns = dataclasses.replace(turns, pause=self.pause)

    def rounds(self, order: str) -> int:
        """Return an upper estimate of the number of rounds of a run."""
        turns, degree = self.turns, max(len(near) for _, near in self._ensemble.sharers.adjacency())
        # Over a radio a message is sent to one sharer after another; over wires to all at the same time: the slowest
        # counts.
        receivers = degree if self._channel.medium == "radio" else min(degree, 4)
        sent = 0.0 if self._channel.ideal else self._exchange + self._waiting()
        if order == "coloured":
            colours = 1 + int(max(nx.greedy_color(self._ensemble.sharers).values()))
            seconds = turns.sweeps * colours * (turns.duration + receivers * sent)
        elif order == "contention":
            # Claims and releases are messages, too, and some claims fail.
            neighborhood = (1 + self._degree) * (turns.duration + 3 * receivers * sent)
            seconds = 3 * turns.sweeps * (self.pause + neighborhood)
        else:
            seconds = turns.sweeps * len(self._ensemble) * (turns.duration + (1 + receivers) * sent)
        return math.ceil(seconds / self._channel.round_period) + 3

    def _waiting(self) -> float:
        """Return the mean time (s) spent on repetitions until a message and its answer have arrived."""
        failure = min(1 - (1 - self._channel.loss) ** 2, 0.999)
        doubled = failure + 2 * failure**2 + 4 * failure**3 + 8 * failure**4 / (1 - failure)
        return 1.5 * self.timeout * doubled


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(study: Study, task: ProjectionTask) -> None:
    rounds = study.rounds
    ends = rounds.groupby("algorithm", sort=False).last().reset_index()
    columns = ["transmissions", "payload_bits", "wire_bits", "time_s", "turns", "limit_distance"]
    table = ends[["algorithm", *columns, "test_mse", "plane_mse"]]
    costs = _costs(study, task)
    _answer(study, costs)
    study.table("ends", f"At the end (at the start the limit is {task.start:.4g} away)", table)
    study.table("cost_to_reach", "Cost to come near the limit, by share of the distance at the start", costs)
    known = "the true field" if task.drawn.ground.is_field else "the test rows"
    study.note(
        f"Test MSE: centralised {task.together:.4g}; limit {task.limit:.4g}; own examples only {task.alone:.4g}, or "
        f"{task.alone_at_best:.4g} with the best of twelve regularisers, which takes {known} to choose."
    )
    for name, rows in rounds.groupby("algorithm", sort=False):
        # In exact arithmetic a projection never increases the distance, so growth beyond rounding errors is reported.
        rounding = 1e-9 * task.start + task.unrest * rows["turns"].diff()
        if (rows["limit_distance"].diff() > rounding).any():
            study.note(f"{name}: the distance to the limit grew, which it must not.")
    _draw(study, task)


def _answer(study: Study, costs: pd.DataFrame) -> None:
    """State which order comes near the limit with the fewest messages; nothing if no order does."""
    study.ask("In which order do projections come near their limit with the fewest messages?")
    if costs.empty:
        return
    # The smallest distance that the largest number of orders reached.
    share = costs.groupby("share", sort=False).size().iloc[::-1].idxmax()
    found = costs[costs["share"] == share].sort_values("transmissions", kind="stable")
    answer(
        study,
        "The order {name} comes within {share:g} of the distance at the start with {least:,.0f} messages, in "
        "{seconds:.3g} s; the {count} orders that come so near send {all:,.0f}.",
        of_one_run(study),
        **{"share": share, "name": found["algorithm"].iloc[0], "least": found["transmissions"].iloc[0]},
        **{"seconds": found["time_s"].iloc[0], "count": len(found)},
        all=(found["transmissions"].iloc[0], found["transmissions"].iloc[-1]),
    )


def _draw(study: Study, task: ProjectionTask) -> None:
    rounds, ensemble = study.rounds, task.ensemble
    axes = [Axis("transmissions", log=True), Axis("wire_bits", log=True), Axis("time_s", log=True)]
    title = f"Successive projections, {len(ensemble)} agents, {len(ensemble.targets)} examples"
    study.figure(
        "distance",
        partial(curves, rounds, Axis("limit_distance", log=True), axes, title),
        "How far the agents' estimates are from their limit, by transmissions, bits on the wire and simulated time.",
        hero=True,
    )
    levels = {"centralised": task.together, "limit": task.limit, "own examples only": task.alone}
    study.figure(
        "errors",
        partial(curves, rounds, Axis("test_mse", log=True), axes, title, levels),
        "The test error by transmissions, bits on the wire and simulated time; the grey lines are a centre with all "
        "examples, the limit, and agents that learn alone.",
    )
    if task.drawn.ground.width == 2:
        # All orders converge to the same limit, so the first order's result is shown.
        learned = state_of(ensemble, next(iter(study.runs.values())).agents).coefficients
        study.figure(
            "field",
            partial(draw_field, _pictures(task, learned), task.drawn.places, ensemble.sharers, title),
            "The field as it is, if that is known, as a centre learns it, and as the agents do, with the sensors and "
            "who shares examples with whom.",
        )


def _pictures(task: ProjectionTask, learned: list[Array]) -> list[Picture]:
    """Return the true field, if known, and the fields learned centrally and by the agents."""
    ensemble, examples = task.ensemble, task.ensemble.inputs
    alone_each = [alone(ensemble, i) for i in range(len(ensemble))]
    if not task.drawn.ground.is_field:
        view = FieldView(task.drawn, grid())
        return [
            Picture("centralised, examples", view.centralised, examples),
            Picture("own examples only", view.patchwork(alone_each)),
            Picture("trained together", view.patchwork(learned)),
        ]
    patchwork = task.view.patchwork
    return [
        Picture("true field, examples", task.truth, examples),
        Picture(f"centralised (MSE {task.together:.3g})", task.view.centralised),
        *(
            Picture(f"{name} (MSE {np.mean((shown - task.truth) ** 2):.3g})", shown)
            for name, shown in (("own examples only", patchwork(alone_each)), ("trained together", patchwork(learned)))
        ),
    ]


def _costs(study: Study, task: ProjectionTask) -> pd.DataFrame:
    """Return, for each share of the initial distance and each order, the cost of coming that near to the limit."""
    rows = []
    for share in _SHARES:
        for name, part in study.rounds.groupby("algorithm", sort=False):
            near = part[part["limit_distance"] <= share * task.start]
            if len(near):
                costs = near.iloc[0][["turns", "transmissions", "payload_bits", "wire_bits", "time_s"]]
                rows.append({"share": share, "algorithm": name, **costs.astype(float).to_dict()})
    return pd.DataFrame(rows)
