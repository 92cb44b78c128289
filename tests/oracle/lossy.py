"""The methods as recursions for given frame arrivals, with loops over agents and neighbours.

Agent i has a copy of each neighbour's θ̂, and a lost frame leaves the copy unchanged. ``arrived[t − 1, i, n]`` is
whether n's frame of round t arrived at i before the round closed; these values determine the models and duals of a run.
The equations are those of `tests.oracle.batch` and `tests.oracle.online`; without losses the results agree with theirs.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim import Run

Vector = NDArray[np.float64]
Arrived = NDArray[np.bool_]
Quantizer = Callable[[Vector], Vector]

Heard = NDArray[np.int64]
"""``heard[t - 1, i, n]``: index of the round in which i received n's frame of round t; if never, a larger number."""

Step = Callable[[int, int, Vector, Vector, Vector], Vector]
"""Maps (t − 1, i, θ_i, a, b) to the new θ_i, where a = γ_i − ρ Σ_n (θ̂_i + θ̂_n) and b = γ_i + ρ Σ_n (θ̂_i − θ̂_n)."""


def arrivals(run: Run, rounds: int) -> Arrived:
    """Return which frames arrived in their round, from the trace of agents 0, 1, … with rounds of one second."""
    assert run.trace is not None
    agents = len(run.agents)
    arrived = np.zeros((rounds, agents, agents), dtype=bool)
    events = run.trace.table()
    for event in events[events["event"] == "delivered"].itertuples():
        arrived[int(event.time_s), event.receiver, event.sender] = True
    return arrived


class Coding(NamedTuple):
    """The censoring and coding of broadcasts.

    Attributes
    ----------
    thresholds : ndarray of shape (rounds,), optional
        Agent i does not broadcast in rounds in which ‖θ_i − θ̂_i‖ is below the threshold.
    quantize : callable, optional
        Returns a change θ_i − θ̂_i as decoded after coding, which receivers add to θ̂_i. Without it, agents send
        states.
    rounded : callable, optional
        Returns a state as decoded after coding.
    """

    thresholds: Vector | None = None
    quantize: Quantizer | None = None
    rounded: Quantizer = lambda state: state


class Result(NamedTuple):
    """Models and duals, both of shape (rounds, N, D), and who broadcast, of shape (rounds, N)."""

    thetas: Vector
    duals: Vector
    sent: NDArray[np.bool_]


class _Copies:
    """θ̂_i of every agent in ``own``, and i's copy of θ̂_n in ``of[i][n]``, or None before the first frame."""

    def __init__(
        self, neighbors: list[list[int]], size: int | tuple[int, int], arrived: Arrived, coding: Coding
    ) -> None:
        self.own = [np.zeros(size) for _ in neighbors]
        self.of: list[dict[int, Vector | None]] = [dict.fromkeys(near) for near in neighbors]
        self._arrived, self._coding = arrived, coding

    def known(self, i: int, n: int) -> Vector:
        copy = self.of[i][n]
        return np.zeros_like(self.own[n]) if copy is None else copy

    def share(self, t: int, theta: list[Vector]) -> list[bool]:
        """Let all agents broadcast, except those below their threshold; return who broadcast."""
        spoke, before = [], list(self.own)
        for i, state in enumerate(theta):
            change = state - before[i]
            limit = -1.0 if self._coding.thresholds is None else self._coding.thresholds[t]
            spoke.append(bool(np.linalg.norm(change) >= limit))
            if not spoke[i]:
                continue
            coded = None if self._coding.quantize is None else self._coding.quantize(change)
            self.own[i] = self._coding.rounded(state) if coded is None else before[i] + coded
            for j, copies in enumerate(self.of):
                if i in copies and self._arrived[t, j, i]:
                    copies[i] = self.own[i] if coded is None else self.known(j, i) + coded
        return spoke


def admm(step: Step, A: Vector, size: int, rho: float, arrived: Arrived, coding: Coding) -> Result:
    """Return the result of an ADMM method: a local step, a broadcast, and then γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n)."""
    neighbors = [np.flatnonzero(row).tolist() for row in A]
    copies = _Copies(neighbors, size, arrived, coding)
    theta, dual = [np.zeros(size) for _ in neighbors], [np.zeros(size) for _ in neighbors]
    history: tuple[list[list[Vector]], list[list[Vector]], list[list[bool]]] = ([], [], [])
    for t in range(len(arrived)):
        fresh = []
        for i, near in enumerate(neighbors):
            own = copies.own[i]
            to_sum = dual[i] - rho * sum((own + copies.known(i, n) for n in near), np.zeros(size))
            to_difference = dual[i] + rho * sum((own - copies.known(i, n) for n in near), np.zeros(size))
            fresh.append(step(t, i, theta[i], to_sum, to_difference))
        theta = fresh
        spoke = copies.share(t, theta)
        dual = [
            dual[i] + rho * sum((copies.own[i] - copies.known(i, n) for n in near), np.zeros(size))
            for i, near in enumerate(neighbors)
        ]
        for kept, now in zip(history, (theta, dual, spoke), strict=True):
            kept.append(now)  # type: ignore[arg-type]
    return Result(*(np.array(kept) for kept in history))


def repaired(step: Step, A: Vector, size: int, rho: Vector, heard: Heard, coding: Coding) -> Result:
    """Return the result of an ADMM method with late frames, with penalty ``rho[t - 1]`` in round t.

    After round k, let c_i,n,j be the copy of n's state that i would have had in round j ≤ k, if every frame received by
    now had arrived in its own round. Then γ_i = Σ_{j≤k} ρ_j Σ_n (θ̂_i,j − c_i,n,j), recomputed in each round.
    """
    rounds, agents = len(rho), len(A)
    neighbors = [np.flatnonzero(row).tolist() for row in A]
    # ``own``: θ̂ after each round; ``told``: the message of each round, a state or change; ``said``: whether it was
    # sent.
    own, told = np.zeros((rounds, agents, size)), np.zeros((rounds, agents, size))
    said = np.zeros((rounds, agents), dtype=bool)
    theta, dual, now = (np.zeros((agents, size)) for _ in range(3))
    copies = np.zeros((agents, agents, size))
    thetas, duals = np.empty((rounds, agents, size)), np.empty((rounds, agents, size))
    for t in range(rounds):
        fresh = []
        for i, near in enumerate(neighbors):
            others = sum((copies[i, n] for n in near), np.zeros(size))
            to_sum = dual[i] - rho[t] * (len(near) * now[i] + others)
            fresh.append(step(t, i, theta[i], to_sum, dual[i] + rho[t] * (len(near) * now[i] - others)))
        theta = np.array(fresh)
        for i in range(agents):
            change = theta[i] - now[i]
            if coding.thresholds is not None and np.linalg.norm(change) < coding.thresholds[t]:
                continue
            said[t, i] = True
            coded = None if coding.quantize is None else coding.quantize(change)
            told[t, i] = coding.rounded(theta[i]) if coded is None else coded
            now[i] = told[t, i] if coded is None else now[i] + coded
        own[t] = now
        for i, near in enumerate(neighbors):
            dual[i] = 0.0
            for n in near:
                arrived = (said[: t + 1, n] & (heard[: t + 1, i, n] <= t))[:, None]
                if coding.quantize is None:
                    last = np.maximum.accumulate(np.where(arrived[:, 0], np.arange(t + 1), -1))
                    taken = np.where((last >= 0)[:, None], told[last, n], 0.0)
                else:
                    taken = np.cumsum(np.where(arrived, told[: t + 1, n], 0.0), axis=0)
                dual[i] += rho[: t + 1] @ (own[: t + 1, i] - taken)
                copies[i, n] = taken[-1]
        thetas[t], duals[t] = theta, dual
    return Result(thetas, duals, said)


def diffusion(
    adapt: Callable[[int, int, Vector], Vector], W: Vector, size: int, arrived: Arrived, coding: Coding
) -> Result:
    """Return a diffusion method's result: ψ_i = w_ii θ_i + Σ_n w_in θ̂_n, θ_i = adapt(t − 1, i, ψ_i); duals are 0.

    Without thresholds, a neighbour from which i has received nothing is left out, and the other weights are scaled up.
    """
    neighbors = [[n for n in np.flatnonzero(row).tolist() if n != i] for i, row in enumerate(W)]
    copies = _Copies(neighbors, size, arrived, coding)
    theta = [np.zeros(size) for _ in neighbors]
    thetas, sent = [], []
    for t in range(len(arrived)):
        fresh = []
        for i, near in enumerate(neighbors):
            believed = [n for n in near if copies.of[i][n] is not None or coding.thresholds is not None]
            total = W[i, i] + sum(W[i, n] for n in believed)
            psi = (W[i, i] * theta[i] + sum((W[i, n] * copies.known(i, n) for n in believed), np.zeros(size))) / total
            fresh.append(adapt(t, i, psi))
        theta = fresh
        sent.append(copies.share(t, theta))
        thetas.append(theta)
    return Result(np.array(thetas), np.zeros((len(arrived), len(W), size)), np.array(sent))


def gossip(
    gradient: Callable[[int, int, Vector], Vector],
    W: Vector,
    size: tuple[int, int],
    gamma: float,
    eta: float,
    arrived: Arrived,
    coding: Coding,
) -> Vector:
    """Return the models θ' of gossiped OMKL after each round, shape (rounds, N, P, K).

    A round computes θ = θ' + γ Σ_n w_in (h_n − h_i), broadcasts, and computes θ' = θ − η ∇L(θ). Without thresholds, a
    neighbour from which i has received nothing is left out.
    """
    neighbors = [[n for n in np.flatnonzero(row).tolist() if n != i] for i, row in enumerate(W)]
    copies = _Copies(neighbors, size, arrived, coding)
    models = [np.zeros(size) for _ in neighbors]
    history = []
    for t in range(len(arrived)):
        theta = []
        for i, near in enumerate(neighbors):
            believed = [n for n in near if copies.of[i][n] is not None or coding.thresholds is not None]
            pulls = (W[i, n] * (copies.known(i, n) - copies.own[i]) for n in believed)
            theta.append(models[i] + gamma * sum(pulls, np.zeros(size)))
        copies.share(t, theta)
        models = [each - eta * gradient(t, i, each) for i, each in enumerate(theta)]
        history.append(models)
    return np.array(history)


def batch_argmin(gram: Vector, cross: Vector, A: Vector, lam_local: float, rho: float | Vector) -> Step:
    """Return the step of COKE for squared loss: argmin R_i(θ) + ρ d_i‖θ‖² + θᵀa, with a as in `Step`."""
    size = gram.shape[1]

    def step(t: int, i: int, theta: Vector, to_sum: Vector, to_difference: Vector) -> Vector:
        hessian = 2.0 * (gram[i] + (lam_local + _in_round(rho, t) * A[i].sum()) * np.eye(size))
        solution: Vector = np.linalg.solve(hessian, 2.0 * cross[i] - to_sum)
        return solution

    return step


def online_argmin(
    features: Vector, targets: Vector, A: Vector, lam_local: float, rho: float | Vector, eta: float
) -> Step:
    """Return the step of DOKL for squared loss: argmin L_i,t(θ) + (η/2)‖θ − θ_i‖² + ρ d_i‖θ‖² + θᵀa, a as in `Step`."""
    size = features.shape[2]

    def step(t: int, i: int, theta: Vector, to_sum: Vector, to_difference: Vector) -> Vector:
        phi, y = features[t, i], targets[t, i]
        hessian = 2.0 * np.outer(phi, phi) + (2.0 * (lam_local + _in_round(rho, t) * A[i].sum()) + eta) * np.eye(size)
        solution: Vector = np.linalg.solve(hessian, 2.0 * y * phi + eta * theta - to_sum)
        return solution

    return step


def online_gradient(
    features: Vector, targets: Vector, A: Vector, lam_local: float, rho: float | Vector, eta: float
) -> Step:
    """Return the step of ODKLA for squared loss: θ_i − [∇L_i,t(θ_i) + b]/(η + 2ρ d_i), with b as in `Step`."""

    def step(t: int, i: int, theta: Vector, to_sum: Vector, to_difference: Vector) -> Vector:
        phi, y = features[t, i], targets[t, i]
        gradient = 2.0 * (phi @ theta - y) * phi + 2.0 * lam_local * theta
        result: Vector = theta - (gradient + to_difference) / (eta + 2.0 * _in_round(rho, t) * A[i].sum())
        return result

    return step


def _in_round(rho: float | Vector, t: int) -> float:
    """Return the penalty in round t + 1; ``rho`` is one penalty for all rounds, or an array of one per round."""
    return float(rho) if np.ndim(rho) == 0 else float(np.asarray(rho)[t])
