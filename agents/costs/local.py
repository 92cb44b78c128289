"""One agent's batch cost, solvers for its local steps, and the optimum of the whole network.

The cost of agent i is R_i(θ) = (1/T_i) Σ_t ℓ(θᵀφ_t, y_t) + (λ/N) ‖θ‖²: eq. 15 of Xu, Wang, Chen and Tian,
"COKE: communication-censored decentralized kernel learning", 2021.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dpocon

from netsim.agents.costs.losses import LossFunction, Squared
from netsim.errors import BadInput, NetsimError
from netsim.util import check
from netsim.util.typing import Array

Solver = Callable[[Array], Array]


class Problem(Protocol):
    """Protocol of an agent's batch cost, such as `LocalProblem` and `netsim.agents.costs.classes.ClassProblem`."""

    @property
    def size(self) -> int | tuple[int, ...]:
        """The shape of θ."""

    def gradient(self, theta: Array, /) -> Array:
        """Return ∇R(θ)."""

    def proximal(self, quadratic: float, /) -> Solver:
        """Return a function from ``linear`` to argmin_θ R(θ) + quadratic ‖θ‖² + ⟨linear, θ⟩."""


_NEWTON_STEPS = 100
# Newton's method stops when the gradient's norm is this small, relative to the norms of the terms that add up to
# the gradient.
_NEWTON_TOLERANCE = 1e-12


class LocalProblem:
    """The batch cost R(θ) = (1/T) Σ_t ℓ(θᵀφ_t, y_t) + regularizer ‖θ‖² of one agent (COKE, eq. 15).

    For the squared loss the constructor returns a `LeastSquares`, whose methods take a time that does not depend
    on T. For other losses each evaluation uses all T samples.

    Parameters
    ----------
    features : ndarray of shape (T, D)
        Feature vectors φ, one in each row. Not copied.
    targets : ndarray of shape (T,)
        Targets y; ±1 for the logistic loss. Not copied.
    loss : LossFunction
        The loss ℓ.
    regularizer : float
        The agent's own share of the regulariser, λ/N.

    Attributes
    ----------
    size : int
        Length D of θ.
    features, targets, loss, regularizer
        As given.

    Raises
    ------
    BadInput
        For inconsistent shapes, no sample, NaN or infinity, a loss with kinks, labels that the loss does not accept, or
        regularizer < 0. The methods raise it for a θ of another shape.
    """

    def __new__(cls, *samples: object, loss: LossFunction, regularizer: float) -> "LocalProblem":
        """Create a `LeastSquares` in place of a `LocalProblem` if the loss is `Squared`."""
        return super().__new__(LeastSquares if cls is LocalProblem and isinstance(loss, Squared) else cls)

    def __init__(self, features: Array, targets: Array, *, loss: LossFunction, regularizer: float) -> None:
        self.features, self.targets = samples("features", features, "targets", targets)
        if not loss.smooth:
            raise check.refuse("loss", loss.name, "a loss with a derivative everywhere, such as squared_hinge")
        loss.check_targets(self.targets)
        self.loss = loss
        self.regularizer = check.finite("regularizer", regularizer, low=0.0)
        self.size = self.features.shape[1]

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(LocalProblem, loss=self.loss, regularizer=self.regularizer)
        return made, (self.features, self.targets)

    def value(self, theta: Array) -> float:
        """Return R(θ) for θ of shape (D,)."""
        theta = self._vector("theta", theta)
        mean = np.mean(self.loss.value(self.features @ theta, self.targets))
        return float(mean + self.regularizer * (theta @ theta))

    def gradient(self, theta: Array) -> Array:
        """Return ∇R(θ), of shape (D,), for θ of shape (D,)."""
        theta = self._vector("theta", theta)
        return self._loss_gradient(theta) + 2.0 * self.regularizer * theta

    def mean_squared_error(self, theta: Array) -> float:
        """Return (1/T) Σ_t (θᵀφ_t − y_t)² over the agent's own samples, whatever the loss."""
        return float(np.mean(np.square(self.features @ self._vector("theta", theta) - self.targets)))

    def proximal(self, quadratic: float) -> Solver:
        """Return a solver for the local step of the ADMM methods.

        The solver maps ``linear`` to argmin_θ R(θ) + quadratic ‖θ‖² + linearᵀθ, both of shape (D,). With
        quadratic = ρ d_i and linear = γ_i − ρ Σ_n (θ̂_i + θ̂_n) the result is the primal update of DKLA and COKE
        (COKE, eqs. 18a and 21a).

        The solver runs a damped Newton method, starting from its last answer (at first, from zero), until the gradient
        is at most 1e-12 of the terms that add up to the gradient. Within this tolerance the answers of a solver depend
        on its earlier calls, so each agent needs a solver of its own.

        Raises
        ------
        BadInput
            If quadratic < 0, or if regularizer + quadratic = 0, where the minimum may not be unique. Raised by the
            solver for another shape of ``linear``.
        NetsimError
            Raised by the solver, if Newton's method does not converge, for example with a NaN in ``linear``.
        """
        curvature = self.regularizer + check.finite("quadratic", quadratic, low=0.0)
        if curvature == 0.0:
            raise check.refuse("quadratic", quadratic, "> 0 where regularizer = 0")
        last = np.zeros(self.size)

        def solve(linear: Array) -> Array:
            nonlocal last
            last = _newton([self], curvature, self._vector("linear", linear), last)
            return last.copy()

        return solve

    def _loss_gradient(self, theta: Array) -> Array:
        slopes = self.loss.derivative(self.features @ theta, self.targets)
        return slopes @ self.features / len(self.targets)

    def _loss_slope(self, theta: Array) -> float:
        """Return (1/T) Σ_t |ℓ'| ‖φ_t‖, the sum of the norms of the samples' terms in the mean loss's gradient."""
        slopes = self.loss.derivative(self.features @ theta, self.targets)
        return float(np.mean(np.abs(slopes) * np.linalg.norm(self.features, axis=1)))

    def _loss_hessian(self, theta: Array) -> Array:
        weights = self.loss.second_derivative(self.features @ theta, self.targets)
        return (self.features.T * weights) @ self.features / len(self.targets)

    def _vector(self, name: str, value: Array) -> Array:
        if np.shape(value) != (self.size,):
            raise _wrong_shape(name, value, self.size)
        return np.asarray(value, dtype=np.float64)


class LeastSquares(LocalProblem):
    """`LocalProblem` with the squared loss, computed from ΦᵀΦ/T and Φᵀy/T."""

    def __init__(self, features: Array, targets: Array, *, loss: LossFunction, regularizer: float) -> None:
        super().__init__(features, targets, loss=loss, regularizer=regularizer)
        gram, cross, self._energy = moments(self.features, self.targets)
        # ``hessian`` is H and ``linear`` is b in R(θ) = ½ θᵀHθ − bᵀθ + Σy²/T.
        self.hessian = 2.0 * (gram + self.regularizer * np.eye(self.size))
        self.linear = 2.0 * cross

    @cached_property
    def curvatures(self) -> Array:
        """The eigenvalues of the Hessian, from small to large, shape (D,)."""
        return np.linalg.eigvalsh(self.hessian).astype(np.float64, copy=False)

    def value(self, theta: Array) -> float:
        """Return R(θ) for θ of shape (D,)."""
        theta = self._vector("theta", theta)
        return float((0.5 * (self.hessian @ theta) - self.linear) @ theta + self._energy)

    def gradient(self, theta: Array) -> Array:
        """Return ∇R(θ), of shape (D,), for θ of shape (D,)."""
        return self.hessian @ self._vector("theta", theta) - self.linear

    def mean_squared_error(self, theta: Array) -> float:
        """Return (1/T) Σ_t (θᵀφ_t − y_t)² over the agent's own samples.

        The error is computed as a difference of large terms, so its rounding error is about 1e-15 of these terms.
        """
        theta = self._vector("theta", theta)
        return float(np.maximum(self.value(theta) - self.regularizer * (theta @ theta), 0.0))

    def proximal(self, quadratic: float) -> Solver:
        """Return a solver as `LocalProblem.proximal` does; the solver's matrix is inverted once, here.

        The solver does not check for NaN: a NaN in ``linear`` gives NaN in θ.

        Raises
        ------
        BadInput
            If quadratic < 0, or the matrix is singular. Raised by the solver for another shape of ``linear``.
        """
        check.finite("quadratic", quadratic, low=0.0)
        identity = np.eye(self.size)
        factor = _factor(self.hessian + 2.0 * quadratic * identity, "quadratic", quadratic)
        return Minimizer(np.asfortranarray(cho_solve(factor, identity)), self.linear)


class Minimizer:
    """The solver of a `LeastSquares` problem: it maps ``linear`` to argmin_θ ½ θᵀHθ − bᵀθ + linearᵀθ = H⁻¹(b − linear).

    H includes the quadratic term of the local step. ``inverse`` is H⁻¹, of shape (D, D), and ``constant`` is H⁻¹b.
    """

    __slots__ = ("constant", "inverse")

    def __init__(self, inverse: Array, linear: Array) -> None:
        self.inverse = inverse
        self.constant = inverse @ linear

    def __call__(self, linear: Array) -> Array:
        """Return H⁻¹(b − linear); raises BadInput for another shape of ``linear``."""
        if np.shape(linear) != self.constant.shape:
            raise _wrong_shape("linear", linear, len(self.constant))
        # This is called once per agent and round, so overhead matters. Measured at D = 100: cho_solve took 16 µs (11
        # without its search for NaN), dpotrs 6, products with both factors' inverses 3.3, inverse @ b 1.9, and dsymv,
        # which reads only half of the inverse, 1.2. The explicit inverse of a positive definite matrix costs little
        # accuracy: at condition numbers from 1e2 to 1e11 its error was one to four times that of dpotrs.
        return dsymv(-1.0, self.inverse, linear, beta=1.0, y=self.constant)


def centralised(problems: Sequence[LocalProblem], regularizer: float) -> Array:
    """Return the model learned centrally from the data of all agents.

    The model minimises Σ_i (1/T_i) Σ_t ℓ(θᵀφ_t, y_t) + λ‖θ‖² (COKE, eq. 16): for the squared loss by solving the linear
    system (Σ_i Φ_iᵀΦ_i/T_i + λI) θ* = Σ_i Φ_iᵀy_i/T_i (COKE, eq. 26), for other losses by a damped Newton method.

    Parameters
    ----------
    problems : sequence of LocalProblem
        One problem for each agent, all of the same size and loss. Their own regularizers are ignored.
    regularizer : float
        The whole λ.

    Returns
    -------
    ndarray of shape (D,)

    Raises
    ------
    BadInput
        For no problem, problems of different sizes or losses, λ < 0, or a λ too small for a unique minimum.
    NetsimError
        If Newton's method does not converge.
    """
    check.finite("regularizer", regularizer, low=0.0)
    if not problems:
        raise check.refuse("problems", problems, "at least one problem")
    size, loss = problems[0].size, problems[0].loss
    for i, problem in enumerate(problems):
        if problem.size != size or problem.loss.name != loss.name:
            raise BadInput(
                f"problems[{i}] has {problem.size} features and the {problem.loss.name} loss: "
                f"must be {size} and {loss.name}, as in problems[0]"
            )
    squares = [problem for problem in problems if isinstance(problem, LeastSquares)]
    if not squares:
        if regularizer == 0.0:
            raise check.refuse("regularizer", regularizer, f"> 0 for the {loss.name} loss")
        return _newton(problems, regularizer, np.zeros(size), np.zeros(size))
    hessian = 2.0 * regularizer * np.eye(size)
    linear = np.zeros(size)
    for problem in squares:
        hessian += problem.hessian - 2.0 * problem.regularizer * np.eye(size)
        linear += problem.linear
    return cho_solve(_factor(hessian, "regularizer", regularizer), linear)


def samples(features_name: str, features: object, targets_name: str, targets: object) -> tuple[Array, Array]:
    """Return features of shape (T, D) and targets of shape (T,) as finite arrays, with T and D at least 1.

    Raises BadInput, with the given names, for other shapes, NaN or infinity.
    """
    x = check.finite_array(features_name, features)
    y = check.finite_array(targets_name, targets)
    if x.ndim != 2 or x.size == 0:
        raise BadInput(f"{features_name}.shape = {x.shape}: must be (T, D) with T and D at least 1")
    if y.shape != x.shape[:1]:
        raise BadInput(f"{targets_name}.shape = {y.shape}: must be ({len(x)},), one a row of {features_name}")
    return x, y


def moments(features: Array, targets: Array) -> tuple[Array, Array, float]:
    """Return the moments of T samples that determine the squared loss: ΦᵀΦ/T, Φᵀy/T and Σy²/T."""
    count = len(targets)
    return features.T @ features / count, targets @ features / count, float(targets @ targets) / count


def _newton(
    problems: Sequence[LocalProblem],
    curvature: float,
    linear: Array,
    start: Array,
) -> Array:
    """Minimise Σ_i (1/T_i) Σ ℓ + curvature ‖θ‖² + linearᵀθ by Newton's method from ``start``; curvature > 0.

    Each step is halved until the gradient's norm falls. The criterion is not a fall of the cost, because near the
    minimum the cost is constant within rounding.
    """

    def gradient(theta: Array) -> tuple[Array, float, float]:
        data = sum((p._loss_gradient(theta) for p in problems), np.zeros_like(theta))
        pull = 2.0 * curvature * theta
        total = data + pull + linear
        scale = sum(float(np.linalg.norm(term)) for term in (data, pull, linear))
        return total, float(np.linalg.norm(total)), scale

    theta = start
    slope, norm, scale = gradient(theta)
    for _ in range(_NEWTON_STEPS):
        if norm <= _NEWTON_TOLERANCE * scale:
            return theta
        if not np.isfinite(norm):
            break
        hessian = sum((p._loss_hessian(theta) for p in problems), 2.0 * curvature * np.eye(len(theta)))
        step = cho_solve(_factor(hessian, "quadratic term", curvature), slope)
        length = 1.0
        while length > 1e-6:
            trial = theta - length * step
            trial_slope, trial_norm, trial_scale = gradient(trial)
            if trial_norm <= (1.0 - 0.1 * length) * norm:
                theta, slope, norm, scale = trial, trial_slope, trial_norm, trial_scale
                break
            length /= 2.0
        else:
            break
    # In the loss's gradient, the terms of single samples may cancel. Rounding may then keep the gradient above the
    # tolerance of the loop. So here the tolerance is also relative to the norms of these terms.
    if norm <= _NEWTON_TOLERANCE * (scale + sum(p._loss_slope(theta) for p in problems)):
        return theta
    raise NetsimError(f"Newton's method stopped at a gradient of norm {norm:.3g} beside terms of {scale:.3g}")


def _factor(matrix: Array, name: str, value: float) -> tuple[Array, bool]:
    """Return the Cholesky factor of a symmetric matrix.

    If the matrix is singular, raise BadInput with the message that the parameter ``name``, now ``value``, is too small.
    """
    try:
        factor, lower = cho_factor(matrix, lower=True)
        inverse_condition, _ = dpocon(factor, np.linalg.norm(matrix, 1), uplo="L")
    except LinAlgError:
        inverse_condition = 0.0
    if inverse_condition < len(matrix) * np.finfo(np.float64).eps:
        raise check.refuse(name, value, "greater: the matrix to invert is singular")
    return factor, lower


def _wrong_shape(name: str, value: Array, size: int) -> BadInput:
    return BadInput(f"{name}.shape = {np.shape(value)}: must be ({size},)")
