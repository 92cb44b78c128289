"""The remedies for lost frames as recursions for given frame arrivals, with loops over the agents.

Running sums: γ_i = ρ Σ_n (S_i − S_n) with S_i = Σ_k θ̂_i over the rounds k. Agent i's copy of S_n is the sum in n's
last received frame plus θ̂_n for each later round. Relaxed ADMM with a dual on each edge (Bastianello et al., arXiv
1809.09887, whose penalty is 2ρ here): z_ij ← (1 − α) z_ij + α (4ρ θ_j − z_ji) if j's message arrived.
"""

import numpy as np
from numpy.typing import NDArray

from tests.oracle.lossy import Arrived, Step

Vector = NDArray[np.float64]


def running_sums(
    step: Step, A: Vector, size: int, rho: float, arrived: Arrived, thresholds: Vector | None = None
) -> tuple[Vector, Vector]:
    """Return models and duals after each round, both of shape (rounds, N, D)."""
    agents, rounds = len(A), len(arrived)
    theta, dual, own = np.zeros((3, agents, size))
    spoken = np.zeros((rounds + 1, agents, size))
    totals = np.zeros((rounds + 1, agents, size))
    # The round of n's last frame that i received; 0 before the first, because then θ̂ and S are known to be 0.
    last = np.zeros((agents, agents), dtype=int)
    copy, total = np.zeros((2, agents, agents, size))
    thetas, duals = np.empty((2, rounds, agents, size))
    for t in range(rounds):
        fresh = np.empty_like(theta)
        for i in range(agents):
            near = np.flatnonzero(A[i])
            to_sum = dual[i] - rho * sum((own[i] + copy[i, n] for n in near), np.zeros(size))
            to_difference = dual[i] + rho * sum((own[i] - copy[i, n] for n in near), np.zeros(size))
            fresh[i] = step(t, i, theta[i], to_sum, to_difference)
        theta = fresh
        limit = -1.0 if thresholds is None else thresholds[t]
        speaks = np.linalg.norm(theta - own, axis=1) >= limit
        own = np.where(speaks[:, None], theta, own)
        spoken[t + 1], totals[t + 1] = own, totals[t] + own
        for i in range(agents):
            for n in np.flatnonzero(A[i]):
                if speaks[n] and arrived[t, i, n]:
                    last[i, n] = t + 1
                copy[i, n] = spoken[last[i, n]][n]
                total[i, n] = totals[last[i, n]][n] + (t + 1 - last[i, n]) * copy[i, n]
            dual[i] = rho * sum((totals[t + 1, i] - total[i, n] for n in np.flatnonzero(A[i])), np.zeros(size))
        thetas[t], duals[t] = theta, dual
    return thetas, duals


def edge_duals(step: Step, A: Vector, size: int, rho: float, alpha: float, arrived: Arrived) -> Vector:
    """Return the models after each round, of shape (rounds, N, D)."""
    agents = len(A)
    theta = np.zeros((agents, size))
    z = np.zeros((agents, agents, size))
    thetas = np.empty((len(arrived), agents, size))
    for t in range(len(arrived)):
        fresh = np.empty_like(theta)
        for i in range(agents):
            linear = -z[i][np.flatnonzero(A[i])].sum(axis=0)
            fresh[i] = step(t, i, theta[i], linear, linear + 2.0 * rho * A[i].sum() * theta[i])
        theta = fresh
        before = z.copy()
        for i in range(agents):
            for j in np.flatnonzero(A[i]):
                if arrived[t, i, j]:
                    z[i, j] = (1.0 - alpha) * before[i, j] + alpha * (4.0 * rho * theta[j] - before[j, i])
        thetas[t] = theta
    return thetas
