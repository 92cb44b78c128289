"""Bregman divergences, the losses of kernel regression by successive projections, and projections by Newton's method.

Source: Predd, Kulkarni and Poor 2006, section IV, which extends the method to other losses by Bregman's algorithm. A
convex function φ of one number has the divergence d(z, z') = φ(z) − φ(z') − φ'(z')(z − z') ≥ 0, which in general is not
symmetric. The method uses φ only through its conjugate φ*(u) = max_z uz − φ(z): (φ*)' is the inverse of φ'.
"""

from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import expit, logit, rel_entr

from netsim.errors import BadInput
from netsim.util.typing import Array, Matrix, Vector

_STEPS = 200
_GOOD, _BEST = 1e-9, 1e-13  # relative to the largest of the terms whose sum is the gradient
_LARGEST = 1e-6  # relative to the largest z
_ROUNDING = 1e-14  # relative to the terms whose sum is a value
_SHORTEST = 2.0**-60  # share of a step of Newton's


class Divergence(Protocol):
    """A convex function φ of a real variable. Methods apply to each element of an array; u stands for values of φ'."""

    @property
    def name(self) -> str:
        """The divergence's name in error messages."""

    @property
    def domain(self) -> str:
        """The domain of φ as text."""

    def check_targets(self, y: Array, /) -> None:
        """Raise BadInput unless all targets are inside φ's domain; at the boundary φ' is infinite."""

    def between(self, z: Array, other: Array, /) -> Array:
        """Return d(z, other)."""

    def slope(self, z: Array, /) -> Array:
        """Return φ'(z)."""

    def conjugate(self, u: Array, /) -> Array:
        """Return φ*(u)."""

    def inverse(self, u: Array, /) -> Array:
        """Return (φ*)'(u), the z with φ'(z) = u."""

    def curvature(self, u: Array, /) -> Array:
        """Return (φ*)''(u) = 1/φ''(z)."""


class HalfSquare:
    """Squares: φ(z) = z²/2, d(z, z') = (z − z')²/2. Projections are orthogonal, and one Newton step is exact."""

    name: ClassVar[str] = "half square"
    domain: ClassVar[str] = "any number"

    def check_targets(self, y: Array, /) -> None:
        """Accept every target."""

    def between(self, z: Array, other: Array, /) -> Array:
        """Return (z − other)²/2."""
        return 0.5 * np.square(z - other)

    def slope(self, z: Array, /) -> Array:
        """Return z."""
        return z

    def conjugate(self, u: Array, /) -> Array:
        """Return u²/2."""
        return 0.5 * np.square(u)

    def inverse(self, u: Array, /) -> Array:
        """Return u."""
        return u

    def curvature(self, u: Array, /) -> Array:
        """Return 1."""
        return np.ones_like(u)


class Entropy:
    """The divergence d(z, z') = z log(z/z') − z + z' of φ(z) = z log z − z, for counts and other amounts above 0."""

    name: ClassVar[str] = "entropy"
    domain: ClassVar[str] = "above 0"

    def check_targets(self, y: Array, /) -> None:
        """Raise BadInput unless every target is above 0."""
        _inside(self, y, y > 0.0)

    def between(self, z: Array, other: Array, /) -> Array:
        """Return z log(z/other) − z + other."""
        found: Array = rel_entr(z, other) - z + other
        return found

    def slope(self, z: Array, /) -> Array:
        """Return log z."""
        return np.log(z)

    def conjugate(self, u: Array, /) -> Array:
        """Return exp u."""
        return np.exp(u)

    def inverse(self, u: Array, /) -> Array:
        """Return exp u."""
        return np.exp(u)

    def curvature(self, u: Array, /) -> Array:
        """Return exp u."""
        return np.exp(u)


class BinaryEntropy:
    """The divergence of φ(z) = z log z + (1 − z) log(1 − z), the relative entropy of coins, for shares in (0, 1)."""

    name: ClassVar[str] = "binary entropy"
    domain: ClassVar[str] = "above 0 and below 1"

    def check_targets(self, y: Array, /) -> None:
        """Raise BadInput unless every target is above 0 and below 1."""
        _inside(self, y, (y > 0.0) & (y < 1.0))

    def between(self, z: Array, other: Array, /) -> Array:
        """Return z log(z/other) + (1 − z) log((1 − z)/(1 − other))."""
        found: Array = rel_entr(z, other) + rel_entr(1.0 - z, 1.0 - other)
        return found

    def slope(self, z: Array, /) -> Array:
        """Return log(z/(1 − z))."""
        found: Array = logit(z)
        return found

    def conjugate(self, u: Array, /) -> Array:
        """Return log(1 + exp u)."""
        return np.logaddexp(0.0, u)

    def inverse(self, u: Array, /) -> Array:
        """Return 1/(1 + exp(−u))."""
        found: Array = expit(u)
        return found

    def curvature(self, u: Array, /) -> Array:
        """Return 1/((1 + exp u)(1 + exp(−u)))."""
        found: Array = expit(u) * expit(-u)
        return found


SQUARES: Divergence = HalfSquare()
"""The loss of the paper's algorithm, apart from a factor of two."""


def _inside(divergence: Divergence, y: Array, is_inside: NDArray[np.bool_]) -> None:
    bad = np.flatnonzero(~is_inside)
    if len(bad):
        raise BadInput(f"targets[{bad[0]}] = {y[bad[0]]:g}: must be {divergence.domain} for the {divergence.name}")


def multipliers(
    divergence: Divergence, matrix: Matrix, linear: Vector, places: NDArray[np.intp], targets: Vector
) -> Vector:
    """Return the multipliers μ of a projection: argmin ½ μᵀAμ + bᵀμ + Σ_j φ*(φ'(y_j) − Σ_{l: places_l = j} μ_l).

    This is the dual of min Σ_j d(z_j, y_j) + ½‖f‖² subject to f + b = z at each of ``places``. Its gradient is Aμ + b −
    z, with z_j = (φ*)'(φ'(y_j) − Σ μ_l). The dual function is convex, and finite everywhere even if φ's domain is
    bounded. So Newton's method with halved steps converges from μ = 0; for `HalfSquare` its first step is exact.

    Parameters
    ----------
    matrix : ndarray of shape (L, L)
        The positive semi-definite matrix A.
    linear : ndarray of shape (L,)
        The vector b.
    places : int array of shape (L,)
        For each multiplier, the index j of its target y_j.
    targets : ndarray of shape (n,)
        The targets y, inside the domain of φ.

    Raises
    ------
    BadInput
        If Newton's method does not converge, because no function has values inside the domain at all examples.
    """
    slopes, same, sizes = divergence.slope(targets), places[:, None] == places, np.abs(matrix)
    found, before = np.zeros(len(linear)), np.inf

    def dual(mu: Vector) -> Vector:
        return slopes - np.bincount(places, mu, minlength=len(slopes))

    def value(mu: Vector) -> float:
        return float(mu @ (0.5 * (matrix @ mu) + linear) + divergence.conjugate(dual(mu)).sum())

    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_STEPS):
            u = dual(found)
            z = divergence.inverse(u)[places]
            gradient = matrix @ found + linear - z
            step = -_solved(matrix + same * divergence.curvature(u)[places], gradient)
            summed = sizes @ np.abs(found) + np.abs(linear)
            residual, largest = np.abs(gradient).max(), max(summed.max(), np.abs(z).max())
            is_least = residual <= _BEST * largest or before <= residual <= _GOOD * largest
            # If no function has values inside the domain, μ grows without bound, and z approaches the boundary.
            if is_least and residual <= _LARGEST * np.abs(z).max():
                return found + step
            # Near the minimum, values differ only by rounding errors, so a rise of this size is allowed.
            most = value(found) + _ROUNDING * (np.abs(found) @ summed + np.abs(divergence.conjugate(u)).sum())
            fall, share = 1e-4 * float(gradient @ step), 1.0
            while share > _SHORTEST and not value(found + share * step) <= most + share * fall:
                share /= 2.0
            found, before = found + share * step, residual
    what = f"values {divergence.domain} at all examples of an agent, as the {divergence.name} needs"
    raise BadInput(f"gram: must have a function with {what}; Newton's method found none in {_STEPS} steps")


def _solved(matrix: Matrix, right: Vector) -> Vector:
    """Return the solution of a positive semi-definite system; if there are several, the shortest one."""
    try:
        return np.asarray(cho_solve(cho_factor(matrix), right), dtype=np.float64)
    except LinAlgError:
        # Constraints may be dependent, for a linear kernel or for examples that several agents share.
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0], dtype=np.float64)
