"""Successive projections, orthogonal and Bregman, as recursions on whole arrays, and the problems that they solve.

Source: table I, eq. (7) and section IV of Predd, Kulkarni and Poor, "Distributed kernel regression". K is the kernel
matrix of all n examples, ``access[i]`` holds the indices of agent i's examples, y the targets, and lams the λ_i. A
function is a vector of n coefficients over all examples, zero for examples that its agent does not read. This module
shares no code with the agents.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root

Vector = NDArray[np.float64]
Access = Sequence[Sequence[int]]


def serial(
    K: Vector, access: Access, y: Vector, lams: Sequence[float], order: Iterable[int]
) -> list[tuple[int, Vector, Vector]]:
    """Let agents take turns in a given order; return (agent, z of shape (n,), its f of shape (n,)) after each turn."""
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

    The conditions, with multipliers ν_i and with E_i selecting agent i's examples, are 2(z − y) + Σ_i E_iᵀν_i = 0, 2λ_i
    K_i c_i = K_i ν_i, and E_i z = K_i c_i.
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


# For each loss: φ', and a map from an unbounded variable s to z, which keeps the search inside the domain of φ.
SLOPES = {
    "half square": (lambda z: z, lambda s: s, lambda z: z),
    "entropy": (np.log, np.exp, np.log),
    "binary entropy": (
        lambda z: np.log(z) - np.log1p(-z),
        lambda s: 0.5 + np.arctan(s) / np.pi,
        lambda z: np.tan(np.pi * (z - 0.5)),
    ),
}


def bregman(
    K: Vector, access: Access, y: Vector, lams: Sequence[float], order: Iterable[int], loss: str
) -> list[tuple[int, Vector, Vector]]:
    """As `serial` with the Bregman divergence of φ; scipy finds each projection as a root of its optimality condition.

    With w = f(x) the projection minimises Σ d(w, z) + (λ/2)(w − f₀)ᵀK⁻¹(w − f₀). Its condition is K (φ'(w) − φ'(z)) + λ
    (w − f₀) = 0.
    """
    slope, inside, outside = SLOPES[loss]
    z = y.astype(float).copy()
    functions = np.zeros((len(access), len(y)))
    trail = []
    for i in order:
        own = np.array(access[i])
        block, held, known, lam = K[np.ix_(own, own)], K[own] @ functions[i], z[own], lams[i]

        def condition(
            s: Vector, block: Vector = block, held: Vector = held, known: Vector = known, lam: float = lam
        ) -> Vector:
            return np.asarray(block @ (slope(inside(s)) - slope(known)) + lam * (inside(s) - held))

        w = inside(_root(condition, outside(known)))
        functions[i, own] -= (slope(w) - slope(known)) / lams[i]
        z[own] = w
        trail.append((i, z.copy(), functions[i].copy()))
    return trail


def bregman_limit(K: Vector, access: Access, y: Vector, lams: Sequence[float], loss: str) -> Vector:
    """Return the minimiser z of Σ_j d(z_j, y_j) + ½ Σ_i λ_i z_iᵀK_i⁻¹z_i, for nonsingular kernel matrices K_i."""
    slope, inside, outside = SLOPES[loss]
    blocks = [lam * np.linalg.inv(K[np.ix_(own, own)]) for lam, own in zip(lams, access, strict=True)]

    def condition(s: Vector) -> Vector:
        z = inside(s)
        left = slope(z) - slope(y)
        for own, block in zip(access, blocks, strict=True):
            left[list(own)] += block @ z[list(own)]
        return left

    return np.asarray(inside(_root(condition, outside(y))))


def _root(condition: Callable[[Vector], Vector], start: Vector) -> Vector:
    found = root(condition, start, tol=1e-13)
    assert np.abs(condition(found.x)).max() < 1e-9, found.message
    return np.asarray(found.x)
