"""Successive orthogonal projections as a recursion on whole arrays, and the problem that they solve.

Table I and eq. (7) of Predd, Kulkarni and Poor, "Distributed kernel regression". K is the kernel matrix of all n
examples, ``access[i]`` the indices of those that agent i reads, y the targets, lams the λ_i. A function is a vector of
n coefficients over all examples, zero outside those that its agent reads. Shares no code with the agents.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Access = Sequence[Sequence[int]]


def serial(
    K: Vector, access: Access, y: Vector, lams: Sequence[float], order: Iterable[int]
) -> list[tuple[int, Vector, Vector]]:
    """Let agents take turns in an order; return after each turn (agent, z of shape (n,), its f of shape (n,))."""
    z = y.astype(float).copy()
    functions = np.zeros((len(access), len(y)))
    trail = []
    for i in order:
        own = np.array(access[i])
        block = K[np.ix_(own, own)]
        step = np.linalg.solve(block + lams[i] * np.eye(len(own)), z[own] - K[own] @ functions[i])
        functions[i, own] += step
        z[own] = K[own] @ functions[i]
        trail.append((i, z.copy(), functions[i].copy()))
    return trail


def relaxed(K: Vector, access: Access, y: Vector, lams: Sequence[float]) -> tuple[Vector, list[Vector]]:
    """Solve (7) from its Karush-Kuhn-Tucker conditions; return z and each agent's values f_i at all n inputs.

    With multipliers ν_i: 2(z − y) + Σ_i E_iᵀν_i = 0, 2λ_i K_i c_i = K_i ν_i, E_i z = K_i c_i.
    """
    n, sizes = len(y), [len(own) for own in access]
    total = sum(sizes)
    starts = np.cumsum([0, *sizes])
    matrix, right = np.zeros((n + 2 * total, n + 2 * total)), np.zeros(n + 2 * total)
    matrix[:n, :n], right[:n] = 2 * np.eye(n), 2 * y
    for i, own in enumerate(access):
        block = K[np.ix_(own, own)]
        c = np.arange(n + starts[i], n + starts[i + 1])
        nu = c + total
        matrix[np.array(own), nu] = 1
        matrix[np.ix_(c, c)] = 2 * lams[i] * block
        matrix[np.ix_(c, nu)] = -block
        matrix[nu, np.array(own)] = 1
        matrix[np.ix_(nu, c)] = -block
    solution = np.linalg.lstsq(matrix, right, rcond=1e-13)[0]
    values = [K[:, list(own)] @ solution[n + starts[i] : n + starts[i + 1]] for i, own in enumerate(access)]
    return solution[:n], values
