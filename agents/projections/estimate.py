"""Kernel regression with overlapping examples: the problem, one agent's part of it, and its limit.

Source: Predd, Kulkarni and Poor, "Distributed kernel regression: an algorithm for training collaboratively", 2006.
Agent i reads the examples S_i and learns a function f_i of a reproducing kernel Hilbert space H; example j has one
message value z_j, at first its target y_j. Training solves the relaxed problem (7),

    min Σ_j (z_j − y_j)² + Σ_i λ_i ‖f_i‖²   with f_i(x_j) = z_j for every i and every j in S_i,

by projecting (z, f_1, …, f_m) orthogonally onto one agent's constraints after another, from (y, 0, …, 0). The network's
agents that do this are in `netsim.agents.projections.projector` and `netsim.agents.projections.contention`.

With another loss, a Bregman divergence d in place of the square (section IV), the problem is

    min Σ_j d(z_j, y_j) + ½ Σ_i λ_i ‖f_i‖²   with f_i(x_j) = z_j for every i and every j in S_i,

and the projections are Bregman's, of the least divergence (`netsim.agents.projections.divergences`).
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
"""A kernel between all rows of two arrays: shapes (n, d) and (m, d) to (n, m). Positive semi-definite."""


def linear(x: Matrix, z: Matrix) -> Matrix:
    """Return the linear kernel xᵀz between all rows: shapes (n, d) and (m, d) to (n, m)."""
    return x @ z.T


class Ensemble:
    """Examples, and which agent reads which.

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
        The kernel, of which all agents use the same.
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
        For shapes that do not fit, NaN or infinity, targets outside or at the edge of the divergence's domain,
        λ_i ≤ 0, an agent without examples, an example named twice or one that does not exist.
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
        """The graph of agents, with an edge between two that share an example, and so must not act at the same time."""
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
        """How many agents read each example, shape (n,)."""
        return np.bincount(np.concatenate(self.access), minlength=len(self.targets))


class Part:
    """One agent's initial information: its examples, and which of them it shares with each other agent.

    Both ends of a link know their common examples, and send their values in ascending order of the examples' numbers,
    without indices. On a radio an agent broadcasts the values of all examples that any other agent shares with it; each
    receiver knows which of them it reads itself.

    ``inputs``, ``targets``, ``gram``, ``regularizer`` and ``divergence`` are x_j (one a row) and y_j for j in S_i, K_i,
    λ_i, and the loss; ``sharers`` are the agents with which it shares an example. Keyed by sharer, there are indices
    into S_i: ``to_send`` for the values sent to it (on a radio the same for all), ``in_common`` for the common
    examples; and ``in_message`` holds the indices of the latter in a message from it.
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
    """One agent's function f_i = Σ_j c_j k(·, x_j) over its own examples, zero at first.

    ``coefficients`` are c, shape (|S_i|,); they are replaced, never changed in place.
    """

    def __init__(self, gram: Matrix, regularizer: float, divergence: Divergence = SQUARES) -> None:
        self._gram, self._regularizer, self._divergence = gram, regularizer, divergence
        self._factor = _factor(gram, regularizer) if isinstance(divergence, HalfSquare) else None
        self.coefficients: Vector = np.zeros(len(gram))

    def project(self, z: Vector) -> Vector:
        """Replace f_i by argmin_f Σ_j (f(x_j) − z_j)² + λ_i ‖f − f_i‖²; return its values f_i(x_j), shape (|S_i|,).

        The minimum is f_i + Σ_j a_j k(·, x_j) with (K_i + λ_i I) a = z − f_i(x). Together they are the orthogonal
        projection of (z, f_i) onto the agent's constraints.

        With another divergence it is argmin_f Σ_j d(f(x_j), z_j) + ½ λ_i ‖f − f_i‖², where a solves
        φ'(f_i(x) + K_i a) − φ'(z) + λ_i a = 0, by Newton's method.
        """
        before = self._gram @ self.coefficients
        if self._factor is not None:
            self.coefficients = self.coefficients + cho_solve(self._factor, z - before)
            values: Vector = self._gram @ self.coefficients
            return values
        every, scaled = np.arange(len(z)), self._gram / self._regularizer
        mu = divergences.multipliers(self._divergence, scaled, before, every, z)
        self.coefficients = self.coefficients + mu / self._regularizer
        # These equal f_i(x_j) up to rounding, and always lie inside the domain of φ.
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

    If constraints are dependent (a linear kernel, a singular K_i) many μ solve it, all with the same z and f_i.
    `netsim.agents.projections.multipliers.solve` describes their accuracy.

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
    """Return the distance of two states: √(Σ_j (z_j − z'_j)² + Σ_i λ_i ‖f_i − f'_i‖²). No turn increases it."""
    total = float(np.sum((one.z - other.z) ** 2))
    for gram, weight, c, d in zip(
        ensemble.grams, ensemble.regularizers, one.coefficients, other.coefficients, strict=True
    ):
        # Rounding may make the square of a tiny norm slightly negative.
        total += float(weight) * max(float((c - d) @ gram @ (c - d)), 0.0)
    return float(np.sqrt(total))


def divergence(ensemble: Ensemble, one: State, other: State) -> float:
    """Return Σ_j d(z_j, z'_j) + ½ Σ_i λ_i ‖f_i − f'_i‖², from one state to another.

    No turn increases the divergence from the limit, or from any state that meets all constraints, to the agents' state.
    For squares it is half the square of the `distance`.
    """
    functions = 0.5 * distance(ensemble, State(other.z, one.coefficients), other) ** 2
    return functions + float(ensemble.divergence.between(one.z, other.z).sum())


def alone(ensemble: Ensemble, agent: int, regularizer: float | None = None) -> Vector:
    """Return the coefficients learned from an agent's own examples only, shape (|S_i|,); λ_i by default."""
    weight = float(ensemble.regularizers[agent]) if regularizer is None else regularizer
    return _learned(ensemble, ensemble.grams[agent], weight, ensemble.targets[ensemble.access[agent]])


def together(ensemble: Ensemble) -> Vector:
    """Return the coefficients, shape (n,), of the centralised solution: all examples, λ = Σ_i λ_i."""
    weight = float(ensemble.regularizers.sum())
    return _learned(ensemble, ensemble.gram(ensemble.inputs, ensemble.inputs), weight, ensemble.targets)


def _learned(ensemble: Ensemble, gram: Matrix, weight: float, targets: Vector) -> Vector:
    estimate = Estimate(gram, weight, ensemble.divergence)
    estimate.project(targets)
    return estimate.coefficients


def state_of(ensemble: Ensemble, agents: Mapping[Any, Any]) -> State:
    """Return the state of the agents 0 … m − 1 on a network, with the newest copy of each z_j.

    Each agent has ``z`` and ``versions`` of its own examples, and an ``estimate``.
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
