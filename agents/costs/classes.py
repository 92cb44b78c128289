"""Costs of classification into C classes: the model is a matrix θ of shape (D, C), and θᵀφ(x) holds the scores.

The costs have the interfaces of `netsim.agents.costs.local.LocalProblem` and `netsim.agents.costs.stream.OnlineCost`,
so every batch and online method accepts them. The method then sends a matrix instead of a vector, and a censor compares
the Frobenius norm of the matrix's change.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular

from netsim.agents.costs.local import Solver
from netsim.agents.costs.losses import Squared
from netsim.agents.costs.multiclass import MulticlassLoss, OneVsRest
from netsim.agents.costs.stream import Samples, StreamCost
from netsim.errors import BadInput, NetsimError
from netsim.util import check
from netsim.util.typing import Matrix

_MOST_STEPS = 5000
# L-BFGS stops when the gradient is this small, relative to the terms that add up to the gradient.
_TOLERANCE = 1e-9
# If rounding stops L-BFGS earlier, a gradient of this relative size is accepted, too.
_ROUNDING_TOLERANCE = 1e-6
_NEWTON_STEPS = 5


class ClassProblem:
    """The batch cost R(θ) = (1/T) Σ_t ℓ(θᵀφ_t, y_t) + regularizer ‖θ‖² of one agent, for C classes.

    Parameters
    ----------
    features : ndarray of shape (T, D)
        Feature vectors φ, one in each row. Not copied.
    labels : ndarray of shape (T,)
        The samples' classes 0 … C − 1.
    loss : MulticlassLoss
        The loss ℓ, which defines C.
    regularizer : float
        The agent's own share of the regulariser, λ/N.

    Attributes
    ----------
    size : (int, int)
        Shape (D, C) of θ.
    features, labels, loss, regularizer
        As given.

    Raises
    ------
    BadInput
        For inconsistent shapes, no sample, NaN or infinity, labels that are no classes, or regularizer < 0. The methods
        raise it for a θ of another shape.
    """

    def __init__(self, features: Matrix, labels: NDArray[Any], *, loss: MulticlassLoss, regularizer: float) -> None:
        self.features = check.finite_array("features", features)
        if self.features.ndim != 2 or self.features.size == 0:
            raise BadInput(f"features.shape = {self.features.shape}: must be (T, D) with T and D at least 1")
        if np.shape(labels) != self.features.shape[:1]:
            raise BadInput(f"labels.shape = {np.shape(labels)}: must be ({len(self.features)},), one a row of features")
        loss.check_targets(labels)
        self.labels = np.asarray(labels, dtype=np.int64)
        self.loss = loss
        self.regularizer = check.finite("regularizer", regularizer, low=0.0)
        self.size = (self.features.shape[1], loss.classes)

    def value(self, theta: Matrix) -> float:
        """Return R(θ) for θ of shape (D, C)."""
        mean = float(np.mean(self.loss.value(self.features @ self._matrix(theta), self.labels)))
        return mean + self.regularizer * float(np.vdot(theta, theta))

    def gradient(self, theta: Matrix) -> Matrix:
        """Return ∇R(θ), or a subgradient at a kink of the loss, of shape (D, C)."""
        _, gradient = self._data(self._matrix(theta))
        return gradient + 2.0 * self.regularizer * theta

    def proximal(self, quadratic: float) -> Solver:
        """Return a solver for the local step of the ADMM methods.

        The solver maps ``linear`` to argmin_θ R(θ) + quadratic ‖θ‖² + ⟨linear, θ⟩, both of shape (D, C). For
        `OneVsRest` with the squared loss, the solver multiplies by a matrix that is computed once, here. For other
        losses the solver runs L-BFGS, starting from its last answer. L-BFGS stops when the gradient is about 1e-9 times
        as large as the largest of the terms that add up to it, or as small as rounding allows.

        Raises
        ------
        BadInput
            If quadratic < 0, regularizer + quadratic = 0, or the loss is not smooth.
        NetsimError
            Raised by the solver, if L-BFGS does not converge, for example with a NaN in ``linear``.
        """
        curvature = self.regularizer + check.finite("quadratic", quadratic, low=0.0)
        if curvature == 0.0:
            raise check.refuse("quadratic", quadratic, "> 0 where regularizer = 0")
        if isinstance(self.loss, OneVsRest) and isinstance(self.loss.loss, Squared):
            inverse, constant = self._normal_equations(curvature)
            return lambda linear: inverse @ (constant - self._matrix(linear))
        _must_be_smooth(self.loss)
        root = _root([self], curvature)
        last = np.zeros(self.size)

        def solve(linear: Matrix) -> Matrix:
            nonlocal last
            last = _minimise([self], curvature, self._matrix(linear), last, root)
            return last.copy()

        return solve

    def _data(self, theta: Matrix) -> tuple[float, Matrix]:
        """Return (1/T) Σ ℓ and its gradient."""
        scores = self.features @ theta
        mean = float(np.mean(self.loss.value(scores, self.labels)))
        return mean, self.features.T @ self.loss.derivative(scores, self.labels) / len(self.labels)

    def _normal_equations(self, curvature: float) -> tuple[Matrix, Matrix]:
        """Return (2ΦᵀΦ/T + 2·curvature·I)⁻¹ and 2ΦᵀY/T, where Y holds the labels as columns of ±1."""
        signs = np.where(self.labels[:, None] == np.arange(self.loss.classes), 1.0, -1.0)
        count = len(self.labels)
        hessian = 2.0 * self.features.T @ self.features / count + 2.0 * curvature * np.eye(self.size[0])
        try:
            inverse: Matrix = cho_solve(cho_factor(hessian), np.eye(self.size[0]))
        except LinAlgError:
            raise check.refuse("regularizer", self.regularizer, "greater: the matrix to invert is singular") from None
        return inverse, 2.0 * self.features.T @ signs / count

    def _matrix(self, value: Matrix) -> Matrix:
        if np.shape(value) != self.size:
            raise BadInput(f"theta.shape = {np.shape(value)}: must be {self.size}")
        return value


def centralised_classes(problems: Sequence[ClassProblem], regularizer: float) -> Matrix:
    """Return the model learned centrally from all agents' data: argmin Σ_i (1/T_i) Σ_t ℓ(θᵀφ_t, y_t) + λ‖θ‖².

    Parameters
    ----------
    problems : sequence of ClassProblem
        One problem for each agent, all of the same size and loss. Their own regularizers are ignored.
    regularizer : float
        The whole λ > 0.

    Returns
    -------
    ndarray of shape (D, C)

    Raises
    ------
    BadInput
        For no problem, problems of different sizes or losses, λ ≤ 0, or a loss that is not smooth.
    NetsimError
        If L-BFGS does not converge.
    """
    check.finite("regularizer", regularizer, above=0.0)
    if not problems:
        raise check.refuse("problems", problems, "at least one problem")
    for i, problem in enumerate(problems):
        if (problem.size, _described(problem.loss)) != (problems[0].size, _described(problems[0].loss)):
            raise BadInput(
                f"problems[{i}] has the shape {problem.size} and the loss {_described(problem.loss)}: "
                f"must be {problems[0].size} and {_described(problems[0].loss)}, as in problems[0]"
            )
    _must_be_smooth(problems[0].loss)
    zeros = np.zeros(problems[0].size)
    return _minimise(problems, regularizer, zeros, zeros, _root(problems, regularizer))


def _described(loss: MulticlassLoss) -> str:
    """Return a loss's type, name and, if it has one, temperature as text, by which losses are compared."""
    temperature = getattr(loss, "temperature", None)
    return f"{type(loss).__name__} {loss.name}" + ("" if temperature is None else f" at temperature {temperature:g}")


def _must_be_smooth(loss: MulticlassLoss) -> None:
    if not loss.smooth:
        raise BadInput(f"loss = {loss.name!r}: must be smooth for an exact step: give the hinge a temperature > 0")


def _root(problems: Sequence[ClassProblem], curvature: float) -> Matrix:
    """Return the Cholesky factor S (lower) of ½ Σ_i Φ_iᵀΦ_i/T_i + 2·curvature·I, an estimate of the Hessian.

    In the coordinates u = Sᵀθ the cost is well conditioned.
    """
    identity = np.eye(problems[0].size[0])
    gram = sum((p.features.T @ p.features / len(p.labels) for p in problems), np.zeros_like(identity))
    try:
        root: Matrix = cholesky(0.5 * gram + 2.0 * curvature * identity, lower=True)
    except LinAlgError:
        raise check.refuse("regularizer", curvature, "greater: the matrix to invert is singular") from None
    return root


def _minimise(
    problems: Sequence[ClassProblem], curvature: float, linear: Matrix, start: Matrix, root: Matrix
) -> Matrix:
    """Minimise Σ_i (1/T_i) Σ ℓ + curvature ‖θ‖² + ⟨linear, θ⟩ by L-BFGS in the coordinates u = Sᵀθ; S is ``root``."""
    from scipy.optimize import minimize

    shape = start.shape
    scale = 0.0

    def cost(u: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal scale
        theta = solve_triangular(root, u.reshape(shape), lower=True, trans=1, check_finite=False)
        parts = [problem._data(theta) for problem in problems]
        value = (
            sum(part for part, _ in parts) + curvature * float(np.vdot(theta, theta)) + float(np.vdot(linear, theta))
        )
        slopes = sum((slope for _, slope in parts), np.zeros(shape))
        pull = 2.0 * curvature * theta
        scale = max(float(np.abs(term).max(initial=0.0)) for term in (slopes, pull, linear))
        gradient = solve_triangular(root, slopes + pull + linear, lower=True, check_finite=False)
        return value, gradient.ravel()

    first = (root.T @ start).ravel()
    _, slope = cost(first)
    if not np.isfinite(slope).all():
        raise NetsimError("the local step cannot be solved: its terms are not finite")
    # ``scale`` is the size of the terms of the gradient in θ, which is S times the gradient in u. Division by the norm
    # of S gives the size of the terms in u.
    unit = max(scale, 1e-300) / float(np.linalg.norm(root, np.inf))
    goal = _TOLERANCE * unit
    found = minimize(
        cost,
        first,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _MOST_STEPS, "maxfun": 2 * _MOST_STEPS, "maxcor": 20, "ftol": 0.0, "gtol": goal},
    )
    u, slope = found.x, found.jac
    for _ in range(_NEWTON_STEPS):
        if np.abs(slope).max() <= _ROUNDING_TOLERANCE * unit:
            break
        # Near the minimum, costs are equal within rounding. L-BFGS compares costs, and so stops there; Newton's steps
        # do not compare costs.
        u = u + _newton_step(problems, curvature, root, u.reshape(shape), slope.reshape(shape)).ravel()
        _, slope = cost(u)
    norm = float(np.abs(slope).max())
    if not norm <= _ROUNDING_TOLERANCE * unit:
        raise NetsimError(f"L-BFGS stopped at a gradient of {norm:.3g} beside terms of {unit:.3g}")
    return solve_triangular(root, u.reshape(shape), lower=True, trans=1, check_finite=False)


def _newton_step(problems: Sequence[ClassProblem], curvature: float, root: Matrix, u: Matrix, slope: Matrix) -> Matrix:
    """Solve H d = −slope by conjugate gradients, where H is the Hessian in the coordinates u.

    The norm of the residual is at most about 1e-3 of the norm of the slope.
    """
    from scipy.sparse.linalg import LinearOperator, cg

    theta = solve_triangular(root, u, lower=True, trans=1, check_finite=False)
    scores = [problem.features @ theta for problem in problems]

    def product(v: NDArray[np.float64]) -> NDArray[np.float64]:
        w = solve_triangular(root, v.reshape(u.shape), lower=True, trans=1, check_finite=False)
        bent = 2.0 * curvature * w
        for p, f in zip(problems, scores, strict=True):
            bent += p.features.T @ p.loss.curvature(f, p.labels, p.features @ w) / len(p.labels)
        return np.asarray(solve_triangular(root, bent, lower=True, check_finite=False).ravel())

    hessian = LinearOperator((u.size, u.size), matvec=product, dtype=np.float64)
    step, _ = cg(hessian, -slope.ravel(), rtol=1e-3, maxiter=_MOST_STEPS)
    return np.asarray(step.reshape(u.shape))


class OnlineClasses(StreamCost):
    """One agent's cost for C classes, over one sample at a time: L_t(θ) = ℓ(θᵀφ_t, y_t) + r‖θ‖², θ of shape (D, C).

    Parameters
    ----------
    samples : iterator of (φ, y)
        The stream, read once, one sample a round; y is the number of a class.
    size : int
        Length D of φ.
    loss : MulticlassLoss
        The loss ℓ, which defines C.
    regularizer : float
        The agent's own share r = λ/N of the regulariser.

    Attributes
    ----------
    size : (int, int)
        Shape (D, C) of θ.
    count : int
        Number t of samples so far.
    mistakes : int
        Number of samples so far that were predicted wrongly, each by the model before it learned from the sample.
    loss_sum : float
        Sum of L_t(θ_t) over the samples so far.
    """

    size: tuple[int, int]

    def __init__(self, samples: Samples, size: int, *, loss: MulticlassLoss, regularizer: float) -> None:
        super().__init__(samples, (check.integer("size", size, low=1), loss.classes), regularizer)
        self.loss = loss
        self.mistakes = 0

    def meet(self, prediction: Any) -> float:
        """Return the loss of ``prediction``, the scores of the last sample.

        Also count a mistake if the largest score is that of a wrong class.
        """
        self._label = np.array([self.target])
        self.loss.check_targets(self._label)
        self.mistakes += int(np.argmax(prediction) != self.target)
        return float(self.loss.value(prediction[None], self._label)[0])

    def gradient(self, theta: Matrix) -> Matrix:
        """Return ∇L_t(θ), or a subgradient at a kink of the loss, shape (D, C)."""
        slopes = self.loss.derivative((self.features @ theta)[None], self._label)[0]
        gradient: Matrix = np.multiply.outer(self.features, slopes) + (2.0 * self.regularizer) * theta
        return gradient

    def argmin(self, quadratic: float, linear: Matrix) -> Matrix:
        """Return argmin L_t(θ) + quadratic‖θ‖² + ⟨linear, θ⟩, shape (D, C), in O(DC) time.

        The computation is that of `OnlineCost.argmin`, with one slope s for each class.
        """
        double = 2.0 * (self.regularizer + quadratic)
        phi = self.features
        scores, k = phi @ linear / -double, float(phi @ phi) / double
        # `slope` needs k > 0. If φ = 0, then k = 0, and the scores do not depend on θ.
        slopes = self.loss.slope(scores, k, int(self.target)) if k else np.zeros_like(scores)
        return (linear + np.multiply.outer(phi, slopes)) / -double
