"""The methods as recursions for given frame arrivals, agent by agent and neighbour by neighbour.

A lossy link affects a method only through its frames: agent i has its own copy of each neighbour's θ̂, and a lost frame
leaves the copy unchanged. ``arrived[t − 1, i, n]`` is whether n's frame of round t arrived at i before the round
closed; these determine the models and duals of a run. The equations are those of `tests.oracle.batch` and
`tests.oracle.online`; the results agree with theirs if everything arrives.
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
"""``heard[t - 1, i, n]`` is the index of the round in which i heard what n sent in round t; never: larger than any."""

Step = Callable[[int, int, Vector, Vector, Vector], Vector]
"""From (t − 1, i, θ_i, linear term of a sum, linear term of a difference) the new θ_i, the terms being
γ_i − ρ Σ_n (θ̂_i + θ̂_n) and γ_i + ρ Σ_n (θ̂_i − θ̂_n)."""


def arrivals(run: Run, rounds: int) -> Arrived:
    """Return the frames that arrived in their round, from the trace of agents 0, 1, … in rounds of one second."""
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
        Agent i is silent in a round in which ‖θ_i − θ̂_i‖ is below the round's.
    quantize : callable, optional
        What is decoded of a change θ_i − θ̂_i, which is then added to θ̂_i; without it the state travels.
    rounded : callable, optional
        What is decoded of a state.
    """

    thresholds: Vector | None = None
    quantize: Quantizer | None = None
    rounded: Quantizer = lambda state: state


class Result(NamedTuple):
    """Models, duals and senders: shapes (rounds, N, D), (rounds, N, D) and (rounds, N)."""

    thetas: Vector
    duals: Vector
    sent: NDArray[np.bool_]


class _Copies:
    """θ̂_i of every agent, and ``of[i][n]``, i's copy of θ̂_n; None if it never heard n."""

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
        """Let all agents broadcast that no threshold silences; return them."""
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
    """Return the result of an ADMM method: a local step, the sharing, and γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n)."""
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

    After round k, agent i's copy of n's state in a round j ≤ k is the one it would have had if every frame heard by now
    had come in its own round; γ_i = Σ_{j≤k} ρ_j Σ_n (θ̂_i,j − that copy), summed anew in each round.
    """
    rounds, agents = len(rho), len(A)
    neighbors = [np.flatnonzero(row).tolist() for row in A]
    # θ̂ after each round, and the message of that round, a state or a change; ``said`` is whether one was sent.
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

    Without thresholds a neighbour that was never heard is left out, and the other weights are scaled up.
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

    θ = θ' + γ Σ_n w_in (h_n − h_i), the sharing, θ' = θ − η ∇L(θ). Without thresholds a neighbour that was never heard
    is left out.
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
    """Return the step of COKE: argmin R_i(θ) + ρ d_i‖θ‖² + θᵀ(linear term of a sum), R_i of squares."""
    size = gram.shape[1]

    def step(t: int, i: int, theta: Vector, to_sum: Vector, to_difference: Vector) -> Vector:
        hessian = 2.0 * (gram[i] + (lam_local + _in_round(rho, t) * A[i].sum()) * np.eye(size))
        solution: Vector = np.linalg.solve(hessian, 2.0 * cross[i] - to_sum)
        return solution

    return step


def online_argmin(
    features: Vector, targets: Vector, A: Vector, lam_local: float, rho: float | Vector, eta: float
) -> Step:
    """Return the step of DOKL: argmin L_i,t(θ) + (η/2)‖θ − θ_i‖² + ρ d_i‖θ‖² + θᵀ(linear term of a sum), of squares."""
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
    """Return the step of ODKLA: θ_i − [∇L_i,t(θ_i) + linear term of a difference]/(η + 2ρ d_i), of squares."""

    def step(t: int, i: int, theta: Vector, to_sum: Vector, to_difference: Vector) -> Vector:
        phi, y = features[t, i], targets[t, i]
        gradient = 2.0 * (phi @ theta - y) * phi + 2.0 * lam_local * theta
        result: Vector = theta - (gradient + to_difference) / (eta + 2.0 * _in_round(rho, t) * A[i].sum())
        return result

    return step


def _in_round(rho: float | Vector, t: int) -> float:
    """Return the penalty of round t + 1, from one for all rounds or one per round."""
    return float(rho) if np.ndim(rho) == 0 else float(np.asarray(rho)[t])
