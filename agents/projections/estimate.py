"""Kernel regression with overlapping examples: the problem, one agent's part of it, and its limit.

Source: Predd, Kulkarni and Poor, "Distributed kernel regression: an algorithm for training collaboratively", 2006.
Agent i reads the examples S_i and learns a function f_i of a reproducing kernel Hilbert space H; example j has one
message value z_j, whose initial value is the target y_j. Training solves the relaxed problem (7),

    min Σ_j (z_j − y_j)² + Σ_i λ_i ‖f_i‖²   with f_i(x_j) = z_j for every i and every j in S_i,

by projecting (z, f_1, …, f_m) orthogonally onto one agent's constraints after another, from (y, 0, …, 0). The network's
agents that do this are in `netsim.agents.projections.projector` and `netsim.agents.projections.contention`.

With another loss, a Bregman divergence d in place of the square (section IV), the problem is

    min Σ_j d(z_j, y_j) + ½ Σ_i λ_i ‖f_i‖²   with f_i(x_j) = z_j for every i and every j in S_i,

and the projections minimise this divergence (`netsim.agents.projections.divergences`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, block_diag, cho_factor, cho_solve

from netsim.agents.projections import divergences, multipliers
from netsim.agents.projections.divergences import SQUARES, Divergence, HalfSquare
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Matrix, Vector

Places = NDArray[np.intp]

Gram = Callable[[Matrix, Matrix], Matrix]
"""A positive semi-definite kernel between all rows of two arrays of shapes (n, d) and (m, d); returns shape (n, m)."""


def linear(x: Matrix, z: Matrix) -> Matrix:
    """Return the linear kernel xᵀz between all rows of arrays of shapes (n, d) and (m, d), as shape (n, m)."""
    return x @ z.T


class Ensemble:
    """The examples of a problem, and which agents read each example.

    Parameters
    ----------
    inputs : ndarray of shape (n, d)
        The inputs x_j, one a row.
    targets : ndarray of shape (n,)
        The targets y_j.
    access : sequence of sequences of int
        The examples S_i that each agent reads, one or more, counted from 0; agents are numbered from 0, too.
    regularizers : float or sequence of float
        λ_i > 0: one for each agent, or the same for all.
    gram : callable
        The kernel, which is the same for all agents.
    divergence : Divergence
        The loss: squares by default, `Entropy` for amounts, `BinaryEntropy` for shares.

    Attributes
    ----------
    access : list of int arrays
        Each ascending.
    regularizers : ndarray of shape (m,)
    inputs, targets, gram, divergence
        As given.

    Raises
    ------
    BadInput
        If shapes are inconsistent, a number is NaN or infinite, a target is outside or at the edge of the divergence's
        domain, a λ_i is not positive, an agent has no examples, or an example is named twice or does not exist.
    """

    def __init__(
        self,
        inputs: ArrayLike,
        targets: ArrayLike,
        access: Sequence[Iterable[int]],
        *,
        regularizers: float | Sequence[float],
        gram: Gram,
        divergence: Divergence = SQUARES,
    ) -> None:
        self.inputs: Matrix = check.finite_array("inputs", inputs)
        self.targets: Vector = check.finite_array("targets", targets)
        if self.inputs.ndim != 2 or not len(self.inputs):
            raise BadInput(f"inputs.shape = {self.inputs.shape}: must be (n, d) with n at least 1, one input a row")
        if self.targets.shape != self.inputs.shape[:1]:
            raise BadInput(f"targets.shape = {self.targets.shape}: must be ({len(self.inputs)},), one for each input")
        divergence.check_targets(self.targets)
        parts = _listed("access", access, "the examples of at least one agent")
        self.access = [_indices(f"access[{i}]", each, len(self.inputs)) for i, each in enumerate(parts)]
        given = list(regularizers) if isinstance(regularizers, Iterable) else [regularizers] * len(self.access)
        if len(given) != len(self.access):
            raise BadInput(f"regularizers: must be {len(self.access)}, one for each agent; there are {len(given)}")
        self.regularizers = np.array(
            [check.finite(f"regularizers[{i}]", value, above=0.0) for i, value in enumerate(given)]
        )
        self.gram, self.divergence = gram, divergence

    def __len__(self) -> int:
        """Return the number m of agents."""
        return len(self.access)

    @cached_property
    def grams(self) -> list[Matrix]:
        """Each agent's K_i, the kernel between the examples that it reads, shape (|S_i|, |S_i|)."""
        return [self.gram(self.inputs[own], self.inputs[own]) for own in self.access]

    @cached_property
    def sharers(self) -> "nx.Graph[int]":
        """The graph of agents, with an edge between agents that share an example: these must not act at one time."""
        graph: nx.Graph[int] = nx.empty_graph(len(self))
        readers: list[list[int]] = [[] for _ in self.inputs]
        for agent, own in enumerate(self.access):
            for example in own:
                readers[example].append(agent)
        graph.add_edges_from((a, b) for each in readers for k, a in enumerate(each) for b in each[k + 1 :])
        return graph

    def shared(self, agent: int, other: int) -> Places:
        """Return which examples two agents share, ascending."""
        return np.intersect1d(self.access[agent], self.access[other], assume_unique=True)

    def on_air(self, agent: int) -> Places:
        """Return an agent's examples that any other agent reads, ascending."""
        own = self.access[agent]
        return own[self.readers[own] > 1]

    @cached_property
    def readers(self) -> Places:
        """The number of agents that read each example, shape (n,)."""
        return np.bincount(np.concatenate(self.access), minlength=len(self.targets))


class Part:
    """The initial information of an agent i: its examples, and the examples that it shares with each other agent.

    Both ends of a link know their common examples, and send the values in ascending order of the examples' numbers,
    without indices. On a radio an agent broadcasts the values of all examples that any other agent shares with it; each
    receiver knows which of these it reads itself.

    ``inputs`` has the x_j for j in S_i as rows, and ``targets`` the y_j; ``gram`` is K_i, ``regularizer`` λ_i, and
    ``divergence`` the loss. ``sharers`` are the agents with which agent i shares an example. The other attributes are
    keyed by sharer. ``to_send`` has the indices in S_i of the values that are sent to the sharer (on a radio the same
    for all), ``in_common`` the indices in S_i of the common examples, and ``in_message`` the indices of the common
    examples in a message from the sharer.
    """

    def __init__(self, ensemble: Ensemble, agent: int, radio: bool = False) -> None:
        own = ensemble.access[agent]
        self.inputs, self.targets = ensemble.inputs[own], ensemble.targets[own]
        self.gram, self.regularizer = ensemble.grams[agent], float(ensemble.regularizers[agent])
        self.divergence = ensemble.divergence
        self.sharers: list[int] = sorted(ensemble.sharers[agent])
        both = {other: ensemble.shared(agent, other) for other in self.sharers}
        self.in_common = {other: np.searchsorted(own, examples) for other, examples in both.items()}
        if radio:
            self.to_send = dict.fromkeys(self.sharers, np.searchsorted(own, ensemble.on_air(agent)))
            self.in_message = {other: np.searchsorted(ensemble.on_air(other), both[other]) for other in self.sharers}
        else:
            self.to_send = self.in_common
            self.in_message = {other: np.arange(len(examples)) for other, examples in both.items()}


class Estimate:
    """The function f_i = Σ_j c_j k(·, x_j) of an agent, a sum over its examples; initially zero.

    ``coefficients`` is the array c, shape (|S_i|,), which is replaced, never changed in place.
    """

    def __init__(self, gram: Matrix, regularizer: float, divergence: Divergence = SQUARES) -> None:
        self._gram, self._regularizer, self._divergence = gram, regularizer, divergence
        self._factor = _factor(gram, regularizer) if isinstance(divergence, HalfSquare) else None
        self.coefficients: Vector = np.zeros(len(gram))

    def project(self, z: Vector) -> Vector:
        """Replace f_i by argmin_f Σ_j (f(x_j) − z_j)² + λ_i ‖f − f_i‖²; return its values f_i(x_j), shape (|S_i|,).

        The minimum is f_i + Σ_j a_j k(·, x_j) with (K_i + λ_i I) a = z − f_i(x). The minimum and its values are the
        orthogonal projection of (z, f_i) onto the agent's constraints.

        With another divergence the new f_i is argmin_f Σ_j d(f(x_j), z_j) + ½ λ_i ‖f − f_i‖². Then a solves
        φ'(f_i(x) + K_i a) − φ'(z) + λ_i a = 0, which is solved by Newton's method.
        """
        before = self._gram @ self.coefficients
        if self._factor is not None:
            self.coefficients = self.coefficients + cho_solve(self._factor, z - before)
            values: Vector = self._gram @ self.coefficients
            return values
        every, scaled = np.arange(len(z)), self._gram / self._regularizer
        mu = divergences.multipliers(self._divergence, scaled, before, every, z)
        self.coefficients = self.coefficients + mu / self._regularizer
        # These values equal f_i(x_j) up to rounding, but always lie inside the domain of φ.
        return self._divergence.inverse(self._divergence.slope(z) - mu)


@dataclass(frozen=True)
class State:
    """A point (z, f_1, …, f_m) of the product space: z of shape (n,), and each f_i's coefficients of shape (|S_i|,)."""

    z: Vector
    coefficients: list[Vector]


def limit(ensemble: Ensemble) -> State:
    """Return the solution of the relaxed problem (7), the limit for every order of turns.

    With a multiplier μ_ij for each constraint f_i(x_j) = z_j, the solution is z_j = y_j − Σ_i μ_ij and
    f_i = Σ_j (μ_ij/λ_i) k(·, x_j), where

        (K_i μ_i)_j / λ_i + Σ_k μ_kj = y_j   for every i and every j in S_i.

    If constraints are dependent (a linear kernel, a singular K_i), many μ solve these equations, all with the same z
    and f_i. `netsim.agents.projections.multipliers.solve` describes the accuracy.

    With another divergence z_j = (φ*)'(φ'(y_j) − Σ_i μ_ij), and the equations (K_i μ_i)_j / λ_i = z_j are solved by
    Newton's method, with one matrix for all constraints.

    Raises
    ------
    BadInput
        If the ensemble is too large, or the problem has no solution inside the domain of φ.
    """
    sizes, loss = [len(own) for own in ensemble.access], ensemble.divergence
    is_square = isinstance(loss, HalfSquare)
    multipliers.check_size(sizes if is_square else [sum(sizes)], len(ensemble.targets))
    weights = ensemble.regularizers
    blocks = [gram / weight for gram, weight in zip(ensemble.grams, weights, strict=True)]
    if is_square:
        found = multipliers.solve(blocks, ensemble.access, ensemble.targets)
    else:
        matrix, places = block_diag(*blocks), np.concatenate(ensemble.access)
        mu = divergences.multipliers(loss, matrix, np.zeros(len(places)), places, ensemble.targets)
        found = np.split(mu, np.cumsum(sizes)[:-1])
    z = loss.slope(ensemble.targets).copy()
    for own, part in zip(ensemble.access, found, strict=True):
        z[own] -= part
    z = loss.inverse(z)
    return State(z, [part / weight for part, weight in zip(found, weights, strict=True)])


def distance(ensemble: Ensemble, one: State, other: State) -> float:
    """Return the distance of two states, √(Σ_j (z_j − z'_j)² + Σ_i λ_i ‖f_i − f'_i‖²); no turn increases it."""
    total = float(np.sum((one.z - other.z) ** 2))
    for gram, weight, c, d in zip(
        ensemble.grams, ensemble.regularizers, one.coefficients, other.coefficients, strict=True
    ):
        # Rounding may make the square of a tiny norm slightly negative.
        total += float(weight) * max(float((c - d) @ gram @ (c - d)), 0.0)
    return float(np.sqrt(total))


def divergence(ensemble: Ensemble, one: State, other: State) -> float:
    """Return the divergence Σ_j d(z_j, z'_j) + ½ Σ_i λ_i ‖f_i − f'_i‖² between two states.

    No turn increases the divergence from the limit, or from any state that meets all constraints, to the agents' state.
    For squares it is half the square of the `distance`.
    """
    functions = 0.5 * distance(ensemble, State(other.z, one.coefficients), other) ** 2
    return functions + float(ensemble.divergence.between(one.z, other.z).sum())


def alone(ensemble: Ensemble, agent: int, regularizer: float | None = None) -> Vector:
    """Return the coefficients learned from one agent's examples alone, shape (|S_i|,); by default with its λ_i."""
    weight = float(ensemble.regularizers[agent]) if regularizer is None else regularizer
    return _learned(ensemble, ensemble.grams[agent], weight, ensemble.targets[ensemble.access[agent]])


def together(ensemble: Ensemble) -> Vector:
    """Return the coefficients, shape (n,), of the centralised solution, with all examples and λ = Σ_i λ_i."""
    weight = float(ensemble.regularizers.sum())
    return _learned(ensemble, ensemble.gram(ensemble.inputs, ensemble.inputs), weight, ensemble.targets)


def _learned(ensemble: Ensemble, gram: Matrix, weight: float, targets: Vector) -> Vector:
    estimate = Estimate(gram, weight, ensemble.divergence)
    estimate.project(targets)
    return estimate.coefficients


def state_of(ensemble: Ensemble, agents: Mapping[Any, Any]) -> State:
    """Return the state of the agents 0 … m − 1 on a network, with the newest copy of each z_j.

    Each agent must have ``z`` and ``versions`` for its examples, and an ``estimate``.
    """
    z, newest = ensemble.targets.copy(), np.full(len(ensemble.targets), -1)
    for i, own in enumerate(ensemble.access):
        newer = agents[i].versions > newest[own]
        z[own[newer]], newest[own[newer]] = agents[i].z[newer], agents[i].versions[newer]
    return State(z, [agents[i].estimate.coefficients for i in range(len(ensemble))])


def _listed(name: str, given: Any, wanted: str) -> list[Any]:
    """Return an iterable as a non-empty list."""
    found = list(given) if isinstance(given, Iterable) else []
    if not found:
        raise check.refuse(name, given, wanted)
    return found


def _indices(name: str, given: Iterable[int], count: int) -> Places:
    listed = _listed(name, given, "the numbers of at least one example")
    found = sorted(check.integer(name, each, low=0, high=count - 1) for each in listed)
    if len(set(found)) < len(found):
        raise BadInput(f"{name}: must name each example once; {next(a for a in found if found.count(a) > 1)} is twice")
    return np.array(found, dtype=np.intp)


def _factor(gram: Matrix, weight: float) -> tuple[Matrix, bool]:
    try:
        factor: tuple[Matrix, bool] = cho_factor(gram + weight * np.eye(len(gram)))
    except LinAlgError:
        reason = "K + regularizer * I is not positive definite"
        raise BadInput(f"regularizer = {weight:g}: must be larger, or gram another kernel; {reason}") from None
    return factor
