"""The multipliers of the problem that successive projections solve (`netsim.agents.projections.estimate.limit`).

With A_i = K_i/λ_i, and E_i the matrix that selects the examples S_i among all n, the multipliers solve the system

    A_i μ_i + E_i Σ_k E_kᵀ μ_k = E_i y   for every i,

of Σ_i |S_i| equations, which is symmetric. It is solved by conjugate gradients. The system's matrix is never formed,
only the blocks A_i and one n × n matrix.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh

from netsim.errors import BadInput
from netsim.util.typing import Matrix, Vector

Places = NDArray[np.intp]

_SHIFT = 1e-12  # relative to the largest eigenvalue; rounding loses more
_ENOUGH = 1e-12  # relative to the first residual
_STEPS = 300
_LARGEST = 2**28  # the numbers in all matrices of one kind


def check_size(sizes: Sequence[int], count: int) -> None:
    """Raise BadInput if the matrices for |S_i| = ``sizes`` and n = ``count`` do not fit in memory."""
    numbers = max(sum(size**2 for size in sizes), count**2)
    if numbers > _LARGEST:
        raise BadInput(
            f"ensemble: {count} examples, read {sum(sizes)} times, must be fewer for the limit to be computed; its "
            f"matrices would be of {8e-9 * numbers:.1f} GB, and at most {8e-9 * _LARGEST:.1f} GB are allowed"
        )


def solve(blocks: Sequence[Matrix], places: Sequence[Places], targets: Vector) -> list[Vector]:
    """Return the multipliers μ_i of all agents, each of shape (|S_i|,), from the blocks A_i, the indices S_i, and y.

    The system may be singular, as with agents that have equal examples, or a linear kernel. Conjugate gradients need no
    inverse, and minimise the distance of z and all f_i from the solution. A smooth kernel of very many examples is
    singular up to rounding; the error is then larger than rounding, and depends on the number of steps.
    """
    system = _System(blocks, places, len(targets))
    residual = np.concatenate([targets[own] for own in places])
    solution = np.zeros(len(residual))
    best, least = solution, np.inf
    step = towards = system.shifted_inverse(residual)
    size = first = float(residual @ towards)
    for _ in range(_STEPS):
        changed = system.times(step)
        curvature = step @ changed
        if size <= _ENOUGH**2 * first or curvature <= 0:
            break
        solution = solution + size / curvature * step
        before, residual = residual, residual - size / curvature * changed
        towards = system.shifted_inverse(residual)
        # Polak and Ribière's coefficient tolerates the rounding of the approximate inverse.
        step = towards + (residual - before) @ towards / size * step
        size = float(residual @ towards)
        if abs(size) < least:
            best, least = solution, abs(size)
    return np.split(best, system.ends)


class _System:
    """The system's matrix M = A + E Eᵀ, and the inverse of M + shift.

    By the Woodbury identity (D + E Eᵀ)⁻¹ = D⁻¹ − D⁻¹E (I + Eᵀ D⁻¹ E)⁻¹ Eᵀ D⁻¹, with the blocks D_i = A_i + shift.
    """

    def __init__(self, blocks: Sequence[Matrix], places: Sequence[Places], count: int) -> None:
        self.blocks, self.places, self.count = blocks, places, count
        self.ends = np.cumsum([len(own) for own in places])[:-1]
        parts = [eigh(block) for block in blocks]
        shift = _SHIFT * (max(values[-1] for values, _ in parts) + np.bincount(np.concatenate(places)).max())
        self.inverses = [(vectors / (np.maximum(values, 0.0) + shift)) @ vectors.T for values, vectors in parts]
        inner = np.eye(count)
        for own, inverse in zip(places, self.inverses, strict=True):
            inner[np.ix_(own, own)] += inverse
        self._inner = cho_factor(inner, overwrite_a=True)

    def times(self, vector: Vector) -> Vector:
        """Return M times a vector."""
        parts = np.split(vector, self.ends)
        total = self._sum(parts)
        return np.concatenate(
            [a @ part + total[own] for a, part, own in zip(self.blocks, parts, self.places, strict=True)]
        )

    def shifted_inverse(self, vector: Vector) -> Vector:
        """Return (M + shift)⁻¹ times a vector."""
        parts = np.split(vector, self.ends)
        inner = cho_solve(self._inner, self._sum([d @ part for d, part in zip(self.inverses, parts, strict=True)]))
        return np.concatenate(
            [d @ (part - inner[own]) for d, part, own in zip(self.inverses, parts, self.places, strict=True)]
        )

    def _sum(self, parts: Sequence[Vector]) -> Vector:
        """Return Eᵀ times a vector: for each example the sum over its readers."""
        total = np.zeros(self.count)
        for own, part in zip(self.places, parts, strict=True):
            total[own] += part
        return total
