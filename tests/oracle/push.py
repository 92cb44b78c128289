"""Push-sum recursions in matrix form: SGP and Push-DIGing on changing graphs and with lost messages.

A graph is a matrix with A[i, j] = 1 if i sends to j. Gradients take and return arrays of shape (N, D).
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Gradient = Callable[[Vector], Vector]


def mixing(A: Vector) -> Vector:
    """Return the column-stochastic matrix of equal shares: C[j, i] = 1/(1 + out-degree of i)."""
    n = len(A)
    C = np.zeros((n, n))
    for i in range(n):
        receivers = [i, *(j for j in range(n) if A[i, j])]
        for j in receivers:
            C[j, i] = 1.0 / len(receivers)
    return C


def sgp(gradient: Gradient, graphs: Sequence[Vector], x: Vector, steps: Sequence[float]) -> tuple[Vector, Vector]:
    """Return z = x/w, shape (rounds, N, D), and w, shape (rounds, N), after each round (Assran et al. 2019, alg. 1)."""
    w = np.ones(len(x))
    models, weights = [], []
    for A, step in zip(graphs, steps, strict=True):
        C = mixing(A)
        z = x / w[:, None]
        x = C @ (x - step * gradient(z))
        w = C @ w
        models.append(x / w[:, None])
        weights.append(w)
    return np.array(models), np.array(weights)


def push_diging(gradient: Gradient, graphs: Sequence[Vector], steps: Sequence[float], size: int) -> Vector:
    """Return x, shape (rounds, N, D), after each round (Nedić, Olshevsky and Shi 2017, algorithm 2), from u = 0."""
    n = len(graphs[0])
    u, v = np.zeros((n, size)), np.ones(n)
    x = u
    y = gradient(x)
    found = []
    for A, step in zip(graphs, steps, strict=True):
        C = mixing(A)
        u, v = C @ (u - step * y), C @ v
        x, before = u / v[:, None], x
        y = C @ y + gradient(x) - gradient(before)
        found.append(x)
    return np.array(found)


def lossy_sgp(
    gradient: Gradient, A: Vector, arrived: NDArray[np.bool_], x: Vector, step: float, *, running: bool
) -> tuple[Vector, Vector]:
    """Return models and weights of SGP, where arrived[k, i, j] is whether i's message to j in round k arrives.

    With ``running``, the mass of a lost message is added to the next message over the same link.
    """
    n, C = len(A), mixing(A)
    mass = np.hstack([x, np.ones((n, 1))])
    waiting = np.zeros((n, n, mass.shape[1]))
    models, weights = [], []
    for k in range(len(arrived)):
        z = mass[:, :-1] / mass[:, -1:]
        mass = np.hstack([mass[:, :-1] - step * gradient(z), mass[:, -1:]])
        after = np.diag(C)[:, None] * mass
        for i in range(n):
            for j in range(n):
                if not A[i, j]:
                    continue
                waiting[i, j] += C[j, i] * mass[i]
                if arrived[k, i, j]:
                    after[j] += waiting[i, j]
                    waiting[i, j] = 0.0
                elif not running:
                    waiting[i, j] = 0.0
        mass = after
        models.append(mass[:, :-1] / mass[:, -1:])
        weights.append(mass[:, -1])
    return np.array(models), np.array(weights)
