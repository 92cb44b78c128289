"""A function of a kernel's Hilbert space, represented by an expansion over few points, its dictionary.

f(x) = Σ_n w_n κ(d_n, x). Learning adds points; destructive kernel orthogonal matching pursuit (KOMP with pre-fitting:
Vincent and Bengio, "Kernel matching pursuit", 2002; Koppel, Paternain, Richard and Ribeiro, "Decentralized online
learning with kernels", 2018, algorithm 2) removes points that the function hardly needs.

Both use the inverse P of the kernel matrix K, which is updated. Removing element j of a fitted set and fitting the
others again changes the weights to w − P_:j w_j/P_jj and costs w_j²/P_jj of squared norm. Each fit is a projection onto
a subspace of the previous one, so the squared errors of successive removals add up.
"""

from typing import get_args

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dger
from scipy.linalg.lapack import dpstrf

from netsim.agents.maps.features import Kernel, kernel_values
from netsim.util import check
from netsim.util.typing import Array

SPAN = 1e-6
"""A point x is not added if the squared distance of κ(x, ·) from the span of the dictionary is at most this number."""

_DRIFT = 1e-9  # the largest rounding error of K P k, for columns k of kernel values, with which P is still used
_REFINEMENTS = 5


class Dictionary:
    """An expansion f(x) = Σ_n w_n κ(d_n, x) over M points; f has one value, or C values.

    κ(x, x) must be 1, as for the kernels of `netsim.agents.maps.features`. A new point within rounding of the span of
    the others (a duplicate, for example) would make K singular. It is not added: the others take the representable part
    of its weight, and the rest, of squared norm at most `SPAN` · ‖w‖², counts as error.

    P is updated at each addition and removal. Its rounding error is measured whenever points are added; if it exceeds
    1e-9, P is recomputed.

    Parameters
    ----------
    inputs : int
        Length d of a point.
    classes : int, optional
        Number C of values of f(x): one function for each value, over the same points; by default f(x) is a number.
    kernel : {"gaussian", "laplacian", "cauchy"}
        The kernel κ, as in `netsim.agents.maps.features.kernel_matrix`.
    sigma : float
        The kernel's bandwidth, in the units of the points.

    Attributes
    ----------
    points : ndarray of shape (M, d)
        The points d_n, in order of their arrival.
    gram, inverse : ndarray of shape (M, M)
        The matrices K and P = K⁻¹.

    Raises
    ------
    BadInput
        If an argument is outside its range.
    """

    def __init__(
        self, inputs: int, classes: int | None = None, *, kernel: Kernel = "gaussian", sigma: float = 1.0
    ) -> None:
        check.integer("inputs", inputs, low=1)
        self._values = () if classes is None else (check.integer("classes", classes, low=1),)
        check.one_of("kernel", kernel, get_args(Kernel))
        self.kernel = kernel
        self.sigma = check.finite("sigma", sigma, above=0.0)
        self.points: Array = np.zeros((0, inputs))
        self.gram: Array = np.zeros((0, 0))
        self.inverse: Array = np.zeros((0, 0))
        # There is one column for each value of f.
        self._weights: Array = np.zeros((0, *(self._values or (1,))))

    def __len__(self) -> int:
        """Return the model order M."""
        return len(self.points)

    def __call__(self, x: Array) -> Array:
        """Return f at inputs of shape (n, d): shape (n,), or (n, C)."""
        values = kernel_values(self.kernel, x, self.points, self.sigma) @ self._weights
        return values.reshape(len(x), *self._values)

    @property
    def weights(self) -> Array:
        """The weights w_n, shape (M,) or (M, C)."""
        return self._weights.reshape(len(self), *self._values)

    @property
    def squared_norm(self) -> float:
        """‖f‖² in the Hilbert space, summed over the values."""
        return max(float(np.vdot(self._weights, self.gram @ self._weights)), 0.0)

    def scale(self, factor: float) -> None:
        """Multiply f by a number."""
        self._weights = factor * self._weights

    def add(self, points: Array, weights: Array) -> float:
        """Add Σ_b v_b κ(x_b, ·) to f; return the summed squared norm of the parts that were not added (see the class).

        Parameters
        ----------
        points : ndarray of shape (B, d)
            The points x_b.
        weights : ndarray of shape (B,) or (B, C)
            The weights v_b.
        """
        v = weights.reshape(len(points), -1)
        across = kernel_values(self.kernel, self.points, points, self.sigma)
        own = kernel_values(self.kernel, points, points, self.sigma)
        # The part of each new element that the old ones can express, and the inner products of the rest.
        expressed, unmet = self._express(across)
        # In this form an error of ``expressed`` has only a second-order effect.
        left = own - across.T @ expressed - expressed.T @ unmet
        new, rest, factor = _independent(left)
        lost = 0.0
        if len(rest):
            # The added elements also help to express those that are not added.
            share = left[np.ix_(new, rest)]
            if len(new):
                share = cho_solve((factor, True), share)
            beyond = left[np.ix_(rest, rest)] - left[np.ix_(rest, new)] @ share
            lost = max(float(np.vdot(v[rest], beyond @ v[rest])), 0.0)
            self._weights = self._weights + (expressed[:, rest] - expressed[:, new] @ share) @ v[rest]
            v_new = v[new] + share @ v[rest]
        else:
            v_new = v[new]
        if len(new):
            corner = cho_solve((factor, True), np.eye(len(new)))
            side = -expressed[:, new] @ corner
            self.inverse = np.block([[self.inverse - side @ expressed[:, new].T, side], [side.T, corner]])
            self.gram = np.block([[self.gram, across[:, new]], [across[:, new].T, own[np.ix_(new, new)]]])
            self.points = np.concatenate([self.points, points[new]])
            self._weights = np.concatenate([self._weights, v_new])
        return lost

    def prune(self, epsilon: float, lost: float = 0.0) -> float:
        """Repeatedly remove the least important point, and fit the others again, while the error is at most ε.

        Parameters
        ----------
        epsilon : float
            The largest change of f, in the norm of the Hilbert space (over all values together).
        lost : float
            The squared norm of the change so far, as `add` returned it.

        Returns
        -------
        float
            The squared norm of the change of f, including ``lost``: at most ε², or ``lost`` if that is larger.
        """
        w = self._weights.copy()
        # Removed elements stay as zeros until the end, with a one on the diagonal.
        p = np.array(self.inverse, order="F")
        diagonal = np.einsum("nn->n", p)
        kept = np.ones(len(w), dtype=bool)
        allowance = epsilon**2
        for _ in range(len(w)):
            costs = np.einsum("nc,nc->n", w, w) / diagonal
            costs[~kept] = np.inf
            j = int(costs.argmin())
            if not lost + costs[j] <= allowance:
                break
            lost += float(costs[j])
            column = p[:, j].copy()
            scale = 1.0 / column[j]
            w -= column[:, None] * (scale * w[j])
            dger(-scale, column, column, a=p, overwrite_a=1)
            p[:, j] = p[j] = w[j] = 0.0
            p[j, j] = 1.0
            kept[j] = False
        if not kept.all():
            self.points = self.points[kept]
            self.gram = self.gram[np.ix_(kept, kept)]
            self.inverse = p[np.ix_(kept, kept)]
            self._weights = w[kept]
        return lost

    def _express(self, across: Array) -> tuple[Array, Array]:
        """Return E that solves K E = ``across``, and the residual ``across`` − K E; both of shape (M, B)."""
        expressed = self.inverse @ across
        unmet = across - self.gram @ expressed
        if np.abs(unmet).max(initial=0.0) > _DRIFT:
            # In order of arrival no pivot of K is below `SPAN`, so K can be factored.
            self.inverse = cho_solve(cho_factor(self.gram, lower=True), np.eye(len(self.gram)))
            expressed = self.inverse @ across
            unmet = across - self.gram @ expressed
        # If K is nearly singular, even the best inverse leaves a larger residual; each refinement removes most of it.
        for _ in range(_REFINEMENTS):
            if np.abs(unmet).max(initial=0.0) <= _DRIFT:
                break
            expressed += self.inverse @ unmet
            unmet = across - self.gram @ expressed
        return expressed, unmet


def _independent(left: Array) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Choose, largest remainder first, the elements that the others cannot express to within `SPAN`.

    From the inner products of the elements, shape (B, B), it returns the indices of the chosen ones in order of choice,
    those of the others, and the lower Cholesky factor of the chosen ones' inner products.
    """
    # LAPACK compares every pivot with the tolerance except the first, the largest element.
    factor, pivots, rank, _ = dpstrf(left, tol=SPAN, lower=1)
    if left.max(initial=0.0) <= SPAN:
        rank = 0
    order = np.asarray(pivots, dtype=np.intp) - 1
    return order[:rank], order[rank:], factor[:rank, :rank]
