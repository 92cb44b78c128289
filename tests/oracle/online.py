"""The online and dynamic methods as recursions on stacked arrays, for all agents together and without losses.

In round t = 1, 2, … agent i has the cost L_i,t(θ) = ℓ(θᵀφ_i,t, y_i,t) + lam_local ‖θ‖² of one sample, with features[t −
1, i] = φ_i,t and targets[t − 1, i] = y_i,t. The equations are those of P. Xu's dissertation, chapters 3 (3.29, 3.30)
and 4 (4.18, 4.19). Tests compare the agents with this module, in results and in speed, so it shares no code with them.

Every function starts from θ = 0 and θ̂ = 0, or with ``coded_start`` from θ̂ = Q(0). It returns

- thetas, ndarray of shape (T, N, D): the models at the end of each round;
- sent, bool ndarray of shape (T, N): who broadcast;
- errors, ndarray of shape (T, N): θᵀφ − y of each prediction, made before the round's sample was learned from.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Result = tuple[Vector, NDArray[np.bool_], Vector]
Quantizer = Callable[[Vector], Vector]
Slope = Callable[[Vector, Vector], Vector]
Step = Callable[[Vector, Vector, Vector, Vector, Vector, Vector, Vector], Vector]


def squared(f: Vector, y: Vector) -> Vector:
    """Return the derivative in f of (f − y)²."""
    return 2.0 * (f - y)


def logistic(f: Vector, y: Vector) -> Vector:
    """Return the derivative in f of log(1 + exp(−y f)): −y/(1 + exp(y f))."""
    return -0.5 * y * (1.0 - np.tanh(0.5 * y * f))


def rff_dokl(features: Vector, targets: Vector, W: Vector, lam_local: float, eta: float) -> Result:
    """Diffusion: ψ_i = Σ_n W[i, n] θ_n, then θ_i = ψ_i − η ∇L_i,t(ψ_i), for the squared loss."""
    rounds, agents, size = features.shape
    theta = np.zeros((agents, size))
    thetas, errors = np.empty((rounds, agents, size)), np.empty((rounds, agents))
    for t in range(rounds):
        phi, y = features[t], targets[t]
        errors[t] = _dot(phi, theta) - y
        psi = W @ theta
        slope = 2.0 * eta * (_dot(phi, psi) - y)
        theta = (1.0 - 2.0 * eta * lam_local) * psi - slope[:, None] * phi
        thetas[t] = theta
    return thetas, np.ones((rounds, agents), dtype=bool), errors


def odkla(  # noqa: PLR0913  the recursion's symbols
    features: Vector,
    targets: Vector,
    A: Vector,
    lam_local: float,
    rho: float,
    eta: float,
    v: float = 0.0,
    mu: float = 1.0,
    quantize: Quantizer | None = None,
    slope: Slope = squared,
    coded_start: bool = False,
) -> Result:
    """ODKLA, and QC-ODKLA with a threshold v μᵗ and a quantizer, on the graph of adjacency matrix A.

    First θ_i ← θ_i − [∇L_i,t(θ_i) + ρ Σ_n (θ̂_i − θ̂_n) + γ_i]/(η + 2ρ d_i), where d_i is the degree. Let h = θ_i −
    θ̂_i. If ‖h‖ ≥ v μᵗ, agent i broadcasts: θ̂_i = θ_i, or θ̂_i + quantize(h) if ``quantize`` is given. Then γ_i ← γ_i
    + ρ Σ_n (θ̂_i − θ̂_n).
    """
    shrink = 1.0 / (eta + 2.0 * rho * A.sum(axis=1)[:, None])

    def step(phi: Vector, y: Vector, f: Vector, theta: Vector, dual: Vector, own: Vector, others: Vector) -> Vector:
        gradient = slope(f, y)[:, None] * phi + 2.0 * lam_local * theta
        return theta - shrink * (gradient + rho * (own - others) + dual)

    thresholds = v * mu ** np.arange(1.0, len(features) + 1)
    return _admm(features, targets, A, rho, step, thresholds, quantize, coded_start)


def dokl(
    features: Vector,
    targets: Vector,
    A: Vector,
    lam_local: float,
    rho: float,
    eta: float,
    thresholds: Vector | None = None,
    quantize: Quantizer | None = None,
    coded_start: bool = False,
) -> Result:
    """Online ADMM for the squared loss; ``thresholds``, shape (T,), has the censor's threshold for each round.

    θ_i ← argmin L_i,t(θ) + (η/2)‖θ − θ_i‖² + ρ d_i ‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)]; broadcasts and duals are as in
    `odkla`.
    """
    # The Hessian is a·I + 2φφᵀ. By Sherman and Morrison (a·I + 2φφᵀ)⁻¹ b = (b − φ·2φᵀb/(a + 2‖φ‖²))/a.
    a = 2.0 * lam_local + eta + 2.0 * rho * A.sum(axis=1)

    def step(phi: Vector, y: Vector, f: Vector, theta: Vector, dual: Vector, own: Vector, others: Vector) -> Vector:
        b = rho * (own + others) - dual + eta * theta + (2.0 * y)[:, None] * phi
        along = 2.0 * _dot(phi, b) / (a + 2.0 * _dot(phi, phi))
        return (b - along[:, None] * phi) / a[:, None]

    if thresholds is None:
        thresholds = np.zeros(len(features))
    return _admm(features, targets, A, rho, step, thresholds, quantize, coded_start)


def ddkl(
    features: Vector,
    targets: Vector,
    A: Vector,
    lam_local: float,
    rho: float,
    v: float = 0.0,
    mu: float = 0.0,
    quantize: Quantizer | None = None,
    coded_start: bool = False,
) -> Result:
    """DDKL, and CoDDKL, QDDKL and QC-DDKL: `dokl` with η = 0, the threshold v·t^(−μ) and a quantizer."""
    thresholds = v * np.arange(1.0, len(features) + 1) ** -mu
    return dokl(features, targets, A, lam_local, rho, 0.0, thresholds, quantize, coded_start)


def _admm(
    features: Vector,
    targets: Vector,
    A: Vector,
    rho: float,
    step: Step,
    thresholds: Vector,
    quantize: Quantizer | None,
    coded_start: bool,
) -> Result:
    rounds, agents, size = features.shape
    degree = A.sum(axis=1)[:, None]
    theta, heard, dual = (np.zeros((agents, size)) for _ in range(3))
    if coded_start and quantize is not None:
        # Algorithms 4 and 5 begin with θ̂_i,1 = Q(θ_i,1).
        heard += quantize(np.zeros(size))
    own, others = degree * heard, A @ heard
    thetas, errors = np.empty((rounds, agents, size)), np.empty((rounds, agents))
    sent = np.empty((rounds, agents), dtype=bool)
    for t in range(rounds):
        phi, y = features[t], targets[t]
        f = _dot(phi, theta)
        errors[t] = f - y
        theta = step(phi, y, f, theta, dual, own, others)
        change = theta - heard
        sent[t] = np.sqrt(_dot(change, change)) >= thresholds[t]
        if quantize is None:
            heard = np.where(sent[t][:, None], theta, heard)
        else:
            for i in np.flatnonzero(sent[t]):
                heard[i] += quantize(change[i])
        own, others = degree * heard, A @ heard
        dual += rho * (own - others)
        thetas[t] = theta
    return thetas, sent, errors


def _dot(a: Vector, b: Vector) -> Vector:
    """Return the inner products of the rows, shape (N,)."""
    products: Vector = np.einsum("nd,nd->n", a, b)
    return products
