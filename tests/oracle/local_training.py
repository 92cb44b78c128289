"""Relaxed ADMM and LT-ADMM in plain numpy, with lost and coded messages; A is a symmetric adjacency matrix."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Gradient = Callable[[Vector], Vector]
Coding = Callable[[Vector], Vector]


def proximal(hessians: Vector, linear: Vector) -> Callable[[Vector, Vector], Vector]:
    """Return (v, c) ↦ each agent's argmin of ½ xᵀHx − bᵀx − vᵀx + (c/2)‖x‖², for costs ½ xᵀHx − bᵀx."""

    def argmin(v: Vector, c: Vector) -> Vector:
        shifted = hessians + c[:, None, None] * np.eye(hessians.shape[1])
        return np.linalg.solve(shifted, (linear + v)[:, :, None])[:, :, 0]

    return argmin


def radmm(
    argmin: Callable[[Vector, Vector], Vector],
    A: Vector,
    rho: float,
    alpha: float,
    arrived: NDArray[np.bool_],
    size: int,
) -> Vector:
    """Return x, shape (rounds, N, D): Bastianello et al. 2018; arrived[k, i, j] is whether i's message reaches j."""
    z = np.zeros((len(A), len(A), size))
    degree, found = A.sum(axis=1), []
    for k in range(len(arrived)):
        x = argmin(np.einsum("ij,ijd->id", A, z), rho * degree)
        z = exchanged(z, 2 * rho * x[:, None] - z, A, alpha, arrived[k])
        found.append(x)
    return np.array(found)


def exchanged(z: Vector, message: Vector, A: Vector, alpha: float, arrived: NDArray[np.bool_]) -> Vector:
    """Return z with the entries updated for which message[i, j], from i, reached j."""
    after = z.copy()
    for i in range(len(A)):
        for j in range(len(A)):
            if A[i, j] and arrived[i, j]:
                after[j, i] = (1 - alpha) * z[j, i] + alpha * message[i, j]
    return after


def lt_admm(
    gradient: Gradient,
    A: Vector,
    steps: tuple[float, float, float],
    tau: int,
    arrived: NDArray[np.bool_],
    size: int,
    alpha: float = 0.5,
    code: Coding | None = None,
) -> Vector:
    """Return x, shape (rounds, N, D), of LT-ADMM from x = z = 0; ``steps`` are γ, β and ρ.

    ``code`` returns a difference as decoded after coding. If it is given, i codes 2ρx_i − z_ij relative to its last
    message that j has acknowledged. Each message from j acknowledges the last message that j had received before.
    """
    gamma, beta, rho = steps
    n = len(A)
    x, z = np.zeros((n, size)), np.zeros((n, n, size))
    sent: dict[tuple[int, int], list[Vector]] = {(i, j): [np.zeros(size)] for i in range(n) for j in range(n)}
    # Indices of i's last message received by j, and of i's last message whose acknowledgement i received.
    has, knows = np.zeros((2, n, n), dtype=int)
    found = []
    for k in range(len(arrived)):
        pull = beta * (rho * A.sum(axis=1)[:, None] * x - np.einsum("ij,ijd->id", A, z))
        for _ in range(tau):
            x = x - gamma * gradient(x) - pull
        message = 2 * rho * x[:, None] - z
        if code is not None:
            said = has.copy()
            for i in range(n):
                for j in range(n):
                    if not A[i, j]:
                        continue
                    base = sent[i, j][knows[i, j]]
                    message[i, j] = base + code(message[i, j] - base)
                    sent[i, j].append(message[i, j].copy())
                    if arrived[k, i, j]:
                        has[i, j] = k + 1
            for i in range(n):
                for j in range(n):
                    if A[i, j] and arrived[k, j, i]:
                        knows[i, j] = said[i, j]
        z = exchanged(z, message, A, alpha, arrived[k])
        found.append(x)
    return np.array(found)
