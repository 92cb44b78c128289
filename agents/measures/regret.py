"""Regret: how much more the agents lost, round by round, than they would have with the best model.

L_i,t(θ) = (θᵀφ_i,t − y_i,t)² + (λ/N)‖θ‖² is the cost of agent i in round t, and θ_i,t the model with which it met its
sample. Static regret compares with the one model that is best for all rounds together (P. Xu's dissertation, eq. 3.4);
dynamic regret with the best of each round (eq. 4.8). Neither keeps the samples: memory does not grow with the rounds.

On the step sizes of ODKLA's O(√T) bound (theorem 9): in its proof (3.53) a term grows with η_t and ρ and the sum over
the rounds of another falls as T/(η_t + 2ρd_i), so both must grow as √T for the bound to hold, and the step, their
inverse, shrinks as 1/√T. The statement's "η_t = ρ = 1/O(√T)" is therefore about the step: with ODKLA as written here,
which divides by η_t + 2ρd_i, take ρ = η = c·√T; with c/√T it diverges.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, eigh
from scipy.linalg.lapack import dpotrf, dpotrs

from netsim.agents.costs.local import samples
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Vector

_SAFE = 1e-7  # of the trace: with a regulariser above it, what a Cholesky solve loses to rounding does not matter


class _Regret:
    """The agents' own losses, ``loss`` = Σ_t Σ_i L_i,t(θ_i,t) so far; inf or nan if the models grew without bound."""

    def __init__(self, size: int, regularizer: float) -> None:
        self.size = check.integer("size", size, low=1)
        self.regularizer = check.finite("regularizer", regularizer, low=0.0)
        self.rounds = 0
        self.loss = 0.0

    def add(
        self,
        features: ArrayLike,
        targets: ArrayLike,
        *,
        thetas: Vector | None = None,
        losses: Vector | None = None,
    ) -> None:
        """Take in a round.

        Parameters
        ----------
        features : array of shape (N, D)
            φ_i,t of every agent.
        targets : array of shape (N,)
            y_i,t.
        thetas : ndarray of shape (N, D), optional
            The models θ_i,t from *before* this round's samples were learned from.
        losses : ndarray of shape (N,), optional
            L_i,t(θ_i,t) instead, if known: the growth of `OnlineCost.loss_sum`. One of the two must be given.

        Raises
        ------
        BadInput
            For shapes that do not fit, NaN or infinity in the samples, or not just one of thetas and losses.
        """
        x, y = samples("features", features, "targets", targets)
        if x.shape[1] != self.size:
            raise BadInput(f"features.shape = {x.shape}: must be (N, {self.size})")
        if thetas is not None and losses is None:
            if np.shape(thetas) != x.shape:
                raise BadInput(f"thetas.shape = {np.shape(thetas)}: must be {x.shape}, as features")
            with np.errstate(over="ignore", invalid="ignore"):
                errors = np.einsum("nd,nd->n", x, thetas) - y
                loss = float(errors @ errors) + self.regularizer * float(np.vdot(thetas, thetas))
        elif losses is not None and thetas is None:
            if np.shape(losses) != y.shape:
                raise BadInput(f"losses.shape = {np.shape(losses)}: must be {y.shape}, as targets")
            with np.errstate(over="ignore", invalid="ignore"):
                loss = float(np.sum(losses))
        else:
            raise BadInput("thetas, losses: must be one of the two, not both or neither")
        self.take(x, y, loss)

    def take(self, x: Vector, y: Vector, loss: float) -> None:
        """Take in a round's finite features and targets, and what all agents lost in it, without a check."""
        self.rounds += 1
        self.loss += loss
        self._compare(x, y)

    def _compare(self, x: Vector, y: Vector) -> None:
        """Take in what the model to compare with is computed from."""
        raise NotImplementedError


class StaticRegret(_Regret):
    """Σ_t Σ_i L_i,t(θ_i,t) − min_θ Σ_t Σ_i L_i,t(θ), from running moments: O(D²) memory, O(N·D²) time a round.

    Parameters
    ----------
    size, regularizer
        Length D of a model, and an agent's own share λ/N of the regulariser.

    Attributes
    ----------
    rounds, loss
        Rounds so far, and what the agents lost in them.
    count : int
        Samples so far, N·t.
    """

    def __init__(self, size: int, regularizer: float) -> None:
        super().__init__(size, regularizer)
        self.count = 0
        self._gram = np.zeros((self.size, self.size))
        self._cross = np.zeros(self.size)
        self._energy = 0.0

    def _compare(self, x: Vector, y: Vector) -> None:
        self.count += len(y)
        self._gram += x.T @ x
        self._cross += y @ x
        self._energy += float(y @ y)

    def best(self) -> Vector:
        """Return θ*, the model that is best for all rounds so far (of several the shortest), shape (D,): O(D³)."""
        total = self.count * self.regularizer
        if total > _SAFE * np.trace(self._gram):
            return _solve(self._gram, total, self._cross)
        values, vectors = _eigenpairs(self._gram)
        # Where the samples do not reach, the model is zero.
        along = np.divide(vectors.T @ self._cross, values + total, out=np.zeros_like(values), where=values > 0.0)
        result: Vector = vectors @ along
        return result

    @property
    def best_loss(self) -> float:
        """Σ_t Σ_i L_i,t(θ*), correct to 1e-8 of Σ y² at worst: one solve, O(D³)."""
        return max(self._energy - float(self._cross @ self.best()), 0.0)

    @property
    def value(self) -> float:
        """The regret so far."""
        return self.loss - self.best_loss


class DynamicRegret(_Regret):
    """Σ_t Σ_i [L_i,t(θ_i,t) − L_i,t(θ*_t)], θ*_t = argmin_θ Σ_i L_i,t(θ) of that round's N samples.

    θ*_t = Φᵀa lies in the span of the round's samples Φ, so a round costs a problem of size N, not D: with K = ΦΦᵀ,
    (K + λI) a = y and the least loss is λ·yᵀa.

    Parameters
    ----------
    size, regularizer
        Length D of a model, and an agent's own share λ/N of the regulariser.

    Attributes
    ----------
    rounds, loss
        Rounds so far, and what the agents lost in them.
    best_loss : float
        Σ_t Σ_i L_i,t(θ*_t) so far.
    """

    def __init__(self, size: int, regularizer: float) -> None:
        super().__init__(size, regularizer)
        self.best_loss = 0.0

    def _compare(self, x: Vector, y: Vector) -> None:
        total = len(y) * self.regularizer
        gram = x @ x.T
        if total > _SAFE * np.trace(gram):
            self.best_loss += total * float(y @ _solve(gram, total, y))
            return
        # For the eigenpairs (w_j, u_j) of K it is Σ_j (u_jᵀy)²·λ/(w_j + λ), in which the zeros are told from the rest.
        values, vectors = _eigenpairs(gram)
        unmet = np.divide(total, values + total, out=np.ones_like(values), where=values > 0.0)
        self.best_loss += float(unmet @ np.square(y @ vectors))

    @property
    def value(self) -> float:
        """The regret so far."""
        return self.loss - self.best_loss


def _solve(gram: Vector, regularizer: float, right: Vector) -> Vector:
    """Return the solution x of (gram + regularizer·I) x = right, shape (n,)."""
    # As scipy's cho_factor and cho_solve, which take ten times as long as LAPACK to factor a few agents' matrix.
    factor, info = dpotrf(gram + regularizer * np.eye(len(gram)), clean=False)
    if info:
        raise LinAlgError(f"the leading minor of order {info} is not positive definite")
    solution: Vector = dpotrs(factor, right)[0]
    return solution


def _eigenpairs(gram: Vector) -> tuple[Vector, Vector]:
    """Return eigenvalues, those within rounding of zero as zeros, and eigenvectors (columns)."""
    # For n = 100, on two cores of a larger machine, numpy's eigh took 200 ms, scipy's 14 and the Cholesky solve 0.1.
    values, vectors = eigh(gram, driver="evd")
    noise = len(gram) * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
    return np.where(values > noise, values, 0.0), vectors
