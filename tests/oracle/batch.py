"""The batch methods as recursions on stacked arrays, for all agents together and without losses.

Agent i has T_i samples and squared loss. With gram[i] = Φ_iᵀΦ_i/T_i and cross[i] = Φ_iᵀy_i/T_i its cost is R_i(θ) = θᵀ
gram[i] θ − 2 cross[i]ᵀθ + lam_local ‖θ‖² up to a constant. The equations are those of Xu, Wang, Chen and Tian, "COKE:
communication-censored decentralized kernel learning", 2021. Tests compare the agents with this module, which therefore
shares no code with them.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def stack(data: Sequence[tuple[Vector, Vector]]) -> tuple[Vector, Vector]:
    """Return gram, shape (N, D, D), and cross, shape (N, D), for N pairs (features, targets)."""
    gram = np.stack([x.T @ x / len(y) for x, y in data])
    cross = np.stack([x.T @ y / len(y) for x, y in data])
    return gram, cross


def optimum(gram: Vector, cross: Vector, lam: float) -> Vector:
    """Return the centralised solution (Σ gram + λI)⁻¹ Σ cross, eq. 26, of shape (D,)."""
    return np.linalg.solve(gram.sum(axis=0) + lam * np.eye(gram.shape[1]), cross.sum(axis=0))


def cta(
    gram: Vector,
    cross: Vector,
    W: Vector,
    lam_local: float,
    eta: float,
    rounds: int,
    thresholds: Vector | None = None,
) -> tuple[Vector, NDArray[np.bool_]]:
    """Combine then adapt: ψ_i = Σ_n W[i, n] θ_n, then θ_i = ψ_i − η ∇R_i(ψ_i), from θ = 0 (COKE, §5).

    With ``thresholds``, shape (rounds,), agent i broadcasts in rounds in which ‖θ_i − θ̂_i‖ reaches the threshold. θ̂_i
    is its last broadcast model, initially 0, which its neighbours combine.

    Returns
    -------
    thetas : ndarray of shape (rounds, N, D)
        The models at the end of each round.
    sent : ndarray of shape (rounds, N)
        Who broadcast.
    """
    agents, size = cross.shape
    # The gradient step ψ − 2η (gram ψ − cross + lam_local ψ) equals step ψ + push.
    step = (1.0 - 2.0 * eta * lam_local) * np.eye(size) - 2.0 * eta * gram
    push = 2.0 * eta * cross
    theta, heard = np.zeros((2, agents, size))
    own = np.diag(W)[:, None]
    thetas = np.empty((rounds, agents, size))
    sent = np.ones((rounds, agents), dtype=bool)
    for k in range(rounds):
        mixed = own * theta + (W - np.diag(np.diag(W))) @ heard
        theta = np.matmul(step, mixed[:, :, None])[:, :, 0] + push
        if thresholds is not None:
            sent[k] = np.linalg.norm(theta - heard, axis=1) >= thresholds[k]
        heard = np.where(sent[k][:, None], theta, heard)
        thetas[k] = theta
    return thetas, sent


def coke(
    gram: Vector,
    cross: Vector,
    A: Vector,
    lam_local: float,
    rho: float,
    rounds: int,
    v: float = 0.0,
    mu: float = 1.0,
    quantize: Callable[[Vector], Vector] | None = None,
    *,
    squared: bool = False,
) -> tuple[Vector, NDArray[np.bool_]]:
    """COKE, eqs. 20 and 21, on the graph with adjacency matrix A; v = 0 is DKLA, eq. 18.

    In round k = 1, 2, … first θ_i = argmin R_i(θ) + ρ d_i ‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)], where d_i is the
    degree. Let h = θ_i − θ̂_i. If ‖h‖ ≥ v μᵏ, agent i broadcasts: θ̂_i = θ_i, or θ̂_i + quantize(h) if ``quantize`` is
    given. Then γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n). All variables start at 0. With ``squared`` the censor compares ‖h‖².

    Returns
    -------
    thetas : ndarray of shape (rounds, N, D)
        The models at the end of each round.
    sent : ndarray of shape (rounds, N)
        Who broadcast.
    """
    agents, size = cross.shape
    degree = A.sum(axis=1)[:, None]
    identity = np.eye(size)
    hessian = 2.0 * (gram + (lam_local + rho * degree[:, :, None]) * identity)
    lower = np.linalg.solve(np.linalg.cholesky(hessian), identity[None])
    inverse = np.matmul(lower.transpose(0, 2, 1), lower)
    dual = np.zeros((agents, size))
    heard = np.zeros((agents, size))
    own, others = degree * heard, A @ heard
    thetas = np.empty((rounds, agents, size))
    sent = np.empty((rounds, agents), dtype=bool)
    for k in range(rounds):
        right = 2.0 * cross - dual + rho * (own + others)
        theta = np.matmul(inverse, right[:, :, None])[:, :, 0]
        change = theta - heard
        square = np.einsum("ij,ij->i", change, change)
        sent[k] = (square if squared else np.sqrt(square)) >= v * mu ** (k + 1)
        if quantize is None:
            heard = np.where(sent[k][:, None], theta, heard)
        else:
            for i in np.flatnonzero(sent[k]):
                heard[i] += quantize(change[i])
        own, others = degree * heard, A @ heard
        dual += rho * (own - others)
        thetas[k] = theta
    return thetas, sent


def uniform_quantizer(
    bits: int, scale: float | None = None, low: float | None = None, high: float | None = None
) -> Callable[[Vector], Vector]:
    """Return a function that maps h to its decoded value: the midpoint of one of 2ᵇ equal cells of a range.

    The range is [low, high) if given, else [−scale, scale) if ``scale`` is given. Otherwise it is [−r, r) for each
    message, with r = max|h| rounded up to a float32; then h = 0 decodes to 0. Elements outside the range saturate.
    """
    levels = 2**bits
    if scale is not None:
        low, high = -scale, scale

    def decode(h: Vector, u: float, step: float) -> Vector:
        index = np.clip(np.floor((h - u) / step), 0, levels - 1)
        return u + (index + 0.5) * step

    if low is not None and high is not None:
        start, width = low, (high - low) / levels
        return lambda h: decode(h, start, width)

    def own_range(h: Vector) -> Vector:
        peak = float(np.max(np.abs(h)))
        if peak == 0.0:
            return np.zeros_like(h)
        r = np.float32(peak)
        if float(r) < peak:
            r = np.nextafter(r, np.float32(np.inf))
        return decode(h, -float(r), 2.0 * float(r) / levels)

    return own_range


def choco(
    gram: Vector,
    cross: Vector,
    W: Vector,
    lam_local: float,
    steps: Vector,
    gamma: float,
    compress: Callable[[Vector], Vector] = lambda change: change,
) -> Vector:
    """CHOCO-SGD with full gradients (Koloskova, Stich and Jaggi 2019, algorithm 2), from x = x̂ = 0.

    Each round computes x ← x − η_t ∇R(x), then x̂ ← x̂ + Q(x − x̂), row by row, then x ← x + γ (W − I) x̂.

    Returns
    -------
    ndarray of shape (rounds, N, D)
        The models at the end of each round; there is a round for each of ``steps``.
    """
    x, known = np.zeros((2, *cross.shape))
    found = []
    for eta in steps:
        x = x - eta * 2.0 * (np.einsum("nij,nj->ni", gram, x) - cross + lam_local * x)
        known = known + np.stack([compress(change) for change in x - known])
        x = x + gamma * (W - np.eye(len(W))) @ known
        found.append(x)
    return np.array(found)


def push_diging(gram: Vector, cross: Vector, A: Vector, lam_local: float, steps: Vector) -> Vector:
    """Push-DIGing on the directed graph A[i, j] = 1 where i sends to j (Nedić, Olshevsky and Shi 2017), from u = 0.

    The mixing matrix is C = (I + Aᵀ) diag(1/(1 + out-degree)), whose columns sum to 1.

    Returns
    -------
    ndarray of shape (rounds, N, D)
        x = u/v at the end of each round; there is a round for each of ``steps``.
    """
    C = (np.eye(len(A)) + A.T) / (1.0 + A.sum(axis=1))

    def gradient(x: Vector) -> Vector:
        return 2.0 * (np.einsum("nij,nj->ni", gram, x) - cross + lam_local * x)

    u, v = np.zeros_like(cross), np.ones((len(A), 1))
    x = u / v
    y = gradient(x)
    found = []
    for eta in steps:
        u, v = C @ (u - eta * y), C @ v
        before, x = x, u / v
        y = C @ y + gradient(x) - gradient(before)
        found.append(x)
    return np.array(found)
