"""First-order methods as recursions on stacked arrays, from their papers; row i of an array belongs to agent i.

``gradient(X)`` returns in row i the gradient of agent i at row i of X. W is symmetric and doubly stochastic. ``Q``
returns one agent's vector as decoded after coding. Each function starts from X = 0 and returns the models after each
round, of shape (rounds, N, …).

Sources: Lian et al. 2017, algorithm 1; Shi, Ling, Wu and Yin 2015, EXTRA and PG-EXTRA, algorithm 1 each, with
W̃ = (I + W)/2; Nedić, Olshevsky and Shi 2017, algorithm 1; Liu et al. 2021, algorithm 1; Zhao et al. 2022, algorithm 1;
Richtárik, Sokolov and Fatkhullin 2021, EF21 of several nodes; Gruntkowska, Tyurin and Richtárik 2023, EF21-P; Chen,
Giannakis, Sun and Yin 2018, LAG-WK.

As in `tests.oracle.lossy`, ``arrived[t, i, n]`` is whether n's frame of round t + 1 reached i in that round. Functions
with this parameter loop over the neighbours.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Gradient = Callable[[Vector], Vector]
Quantizer = Callable[[Vector], Vector]
Arrived = NDArray[np.bool_]


def squares(gram: Vector, cross: Vector, lam_local: float) -> Gradient:
    """Return the gradients of R_i(θ) = θᵀ gram[i] θ − 2 cross[i]ᵀθ + lam_local ‖θ‖²."""
    return lambda x: 2.0 * (np.einsum("nij,nj->ni", gram, x) - cross + lam_local * x)


def mix(W: Vector, x: Vector) -> Vector:
    return np.tensordot(W, x, axes=1)


def each(Q: Quantizer, x: Vector) -> Vector:
    return np.stack([Q(row) for row in x])


def dpsgd(gradient: Gradient, W: Vector, shape: tuple[int, ...], steps: Vector) -> Vector:
    x = np.zeros(shape)
    found = []
    for eta in steps:
        x = mix(W, x) - eta * gradient(x)
        found.append(x)
    return np.array(found)


def extra(gradient: Gradient, W: Vector, shape: tuple[int, ...], eta: float, rounds: int) -> Vector:
    identity = np.eye(len(W))
    before = np.zeros(shape)
    x = mix(W, before) - eta * gradient(before)
    found = [x]
    for _ in range(rounds - 1):
        step = eta * (gradient(x) - gradient(before))
        before, x = x, mix(identity + W, x) - mix((identity + W) / 2.0, before) - step
        found.append(x)
    return np.array(found)


def pg_extra(gradient: Gradient, prox: Quantizer, W: Vector, shape: tuple[int, ...], eta: float, rounds: int) -> Vector:
    """PG-EXTRA, where ``prox(z)`` is the argmin over θ of r(θ) + ‖θ − z‖²/(2η)."""
    tilde = (np.eye(len(W)) + W) / 2.0
    before = np.zeros(shape)
    half = mix(W, before) - eta * gradient(before)
    x = prox(half)
    found = [x]
    for _ in range(rounds - 1):
        half = mix(W, x) + half - mix(tilde, before) - eta * (gradient(x) - gradient(before))
        before, x = x, prox(half)
        found.append(x)
    return np.array(found)


def diging(gradient: Gradient, W: Vector, shape: tuple[int, ...], steps: Vector) -> Vector:
    x = np.zeros(shape)
    y = gradient(x)
    found = []
    for eta in steps:
        before, x = x, mix(W, x) - eta * y
        y = mix(W, y) + gradient(x) - gradient(before)
        found.append(x)
    return np.array(found)


def lead(
    gradient: Gradient,
    W: Vector,
    shape: tuple[int, ...],
    steps: tuple[float, float, float],
    rounds: int,
    Q: Quantizer = lambda change: change,
) -> Vector:
    """LEAD, with ``steps`` η, γ and α; the last row is X after ``rounds`` exchanges."""
    eta, gamma, alpha = steps
    x = np.zeros(shape)
    x = x - eta * gradient(x)
    H, Hw, D = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    found = []
    for _ in range(rounds):
        slope = gradient(x)
        Y = x - eta * slope - eta * D
        coded = each(Q, Y - H)
        Yh, Yw = H + coded, Hw + mix(W, coded)
        H, Hw = (1.0 - alpha) * H + alpha * Yh, (1.0 - alpha) * Hw + alpha * Yw
        D = D + gamma / (2.0 * eta) * (Yh - Yw)
        x = x - eta * slope - eta * D
        found.append(x)
    return np.array(found)


def beer(
    gradient: Gradient,
    W: Vector,
    shape: tuple[int, ...],
    steps: tuple[float, float],
    rounds: int,
    Q: Quantizer = lambda change: change,
) -> Vector:
    """BEER, with ``steps`` η and γ."""
    eta, gamma = steps
    laplacian = W - np.eye(len(W))
    x = np.zeros(shape)
    V = gradient(x)
    H, G = np.zeros(shape), np.zeros(shape)
    found = []
    for _ in range(rounds):
        before, x = x, x + gamma * mix(laplacian, H) - eta * V
        H = H + each(Q, x - H)
        V = V + gamma * mix(laplacian, G) + gradient(x) - gradient(before)
        G = G + each(Q, V - G)
        found.append(x)
    return np.array(found)


def ef21(gradient: Gradient, shape: tuple[int, ...], eta: float, rounds: int, Q: Quantizer) -> Vector:
    """EF21 with agent 0 as server, whose own gradient is uncoded; each row is the server's model after a round."""
    x = np.zeros(shape)
    g = np.zeros(shape)
    found = []
    for _ in range(rounds):
        slope = gradient(x)
        g = g + each(Q, slope - g)
        g[0] = slope[0]
        x = x - eta * g.mean(axis=0)
        found.append(x)
    return np.array(found)


def ef21p(gradient: Gradient, shape: tuple[int, ...], eta: float, rounds: int, Q: Quantizer) -> Vector:
    """EF21-P, with the same server and rows as `ef21`."""
    x, w = np.zeros(shape), np.zeros(shape)
    found = []
    for _ in range(rounds):
        w = w + each(Q, x - w)
        x = x - eta * gradient(w).mean(axis=0)
        found.append(x)
    return np.array(found)


def lag(
    gradient: Gradient, shape: tuple[int, ...], eta: float, rounds: int, xi: Sequence[float], Q: Quantizer
) -> tuple[Vector, Vector]:
    """Return the server's models, shape (rounds + 1, D), and the uploads of each round, shape (rounds, N).

    This is LAG-WK, where the paper's α is η/N and its M is N. Agent 0 is the server, which always knows its own
    gradient. With Q, uploads are coded changes of the gradient.
    """
    alpha, M = eta / shape[0], shape[0]
    models = [np.zeros(shape[1:])]
    g = np.zeros(shape)
    uploads = np.zeros((rounds, M), dtype=bool)
    for k in range(rounds):
        fresh = gradient(np.tile(models[k], (M, 1)))
        moved = sum(
            xi[d - 1] * np.linalg.norm(models[k + 1 - d] - models[k - d]) ** 2
            for d in range(1, len(xi) + 1)
            if k - d >= 0
        )
        for m in range(1, M):
            uploads[k, m] = np.linalg.norm(g[m] - fresh[m]) ** 2 > moved / (alpha**2 * M**2)
            if uploads[k, m]:
                g[m] = g[m] + Q(fresh[m] - g[m])
        g[0] = fresh[0]
        models.append(models[k] - alpha * g.sum(axis=0))
    return np.array(models), uploads


# --- told which frames arrived ----------------------------------------------------------------------------------------


def near(W: Vector) -> list[list[int]]:
    return [[n for n in np.flatnonzero(row).tolist() if n != i] for i, row in enumerate(W)]


def lossy_diging(
    gradient: Gradient, W: Vector, shape: tuple[int, ...], eta: float, arrived: Arrived, *, sums: bool
) -> tuple[Vector, Vector]:
    """Return models and trackers of DIGing with lost frames.

    With ``sums``, frames carry Σ y, and a receiver uses the increase since the last received frame. Without, it uses
    each neighbour's last received y and x, and omits a neighbour from which it has received nothing.
    """
    x = np.zeros(shape)
    g = y = gradient(x)
    total = np.zeros(shape)
    copies: list[dict[int, tuple[Vector, Vector]]] = [{} for _ in W]
    models, trackers = [], []
    for heard in arrived:
        total = total + y
        mean_x, mean_y = np.empty(shape), np.empty(shape)
        for i, neighbours in enumerate(near(W)):
            before = dict(copies[i])
            for n in neighbours:
                if heard[i, n]:
                    copies[i][n] = (x[n], total[n] if sums else y[n])
            mean_x[i] = x[i] + sum((W[i, n] * (copies[i][n][0] - x[i]) for n in copies[i]), np.zeros(shape[1:]))
            if sums:
                taken = (
                    W[i, n] * (copies[i][n][1] - (before[n][1] if n in before else 0.0))
                    for n in neighbours
                    if n in copies[i]
                )
                mean_y[i] = W[i, i] * y[i] + sum(taken, np.zeros(shape[1:]))
            else:
                mean_y[i] = y[i] + sum((W[i, n] * (copies[i][n][1] - y[i]) for n in copies[i]), np.zeros(shape[1:]))
        x = mean_x - eta * y
        g, old = gradient(x), g
        y = mean_y + g - old
        models.append(x)
        trackers.append(y)
    return np.array(models), np.array(trackers)


def lossy_extra(
    gradient: Gradient, W: Vector, shape: tuple[int, ...], eta: float, arrived: Arrived
) -> tuple[Vector, Vector]:
    """Return models and duals q; for a lost frame the last received x is used, if any was ever received."""
    x, q = np.zeros(shape), np.zeros(shape)
    copies: list[dict[int, Vector]] = [{} for _ in W]
    models, duals = [], []
    for heard in arrived:
        pull = np.zeros(shape)
        for i, held in enumerate(copies):
            for n, copy in held.items():
                pull[i] += W[i, n] * (copy - x[i])
        x, q = x + pull - eta * gradient(x) - q, q - pull / 2.0
        for i, neighbours in enumerate(near(W)):
            for n in neighbours:
                if heard[i, n]:
                    copies[i][n] = x[n]
        models.append(x)
        duals.append(q)
    return np.array(models), np.array(duals)


def lossy_lead(
    gradient: Gradient,
    W: Vector,
    shape: tuple[int, ...],
    steps: tuple[float, float, float],
    arrived: Arrived,
    Q: Quantizer,
) -> tuple[Vector, Vector]:
    """Return models and duals D; after a lost frame the receiver's copy of H lacks that difference."""
    eta, gamma, alpha = steps
    x = -eta * gradient(np.zeros(shape))
    H, D = np.zeros(shape), np.zeros(shape)
    held = np.zeros((len(W), *shape))
    ever = np.zeros((len(W), len(W)), dtype=bool)
    models, duals = [], []
    for heard in arrived:
        slope = gradient(x)
        coded = each(Q, x - eta * slope - eta * D - H)
        ever |= heard
        pull = np.zeros(shape)
        for i, neighbours in enumerate(near(W)):
            for n in neighbours:
                got = coded[n] if heard[i, n] else 0.0
                if ever[i, n]:
                    pull[i] += W[i, n] * (held[i, n] + got - H[i] - coded[i])
                held[i, n] = held[i, n] + alpha * got
        H = H + alpha * coded
        D = D - gamma / (2.0 * eta) * pull
        x = x - eta * slope - eta * D
        models.append(x)
        duals.append(D)
    return np.array(models), np.array(duals)


def lossy_beer(
    gradient: Gradient, W: Vector, shape: tuple[int, ...], steps: tuple[float, float], arrived: Arrived, Q: Quantizer
) -> tuple[Vector, Vector]:
    """Return models and trackers V; after a lost frame the receiver's copies of H and G lack its differences."""
    eta, gamma = steps
    x = np.zeros(shape)
    g = V = gradient(x)
    H, G = np.zeros(shape), np.zeros(shape)
    held_H, held_G = np.zeros((2, len(W), *shape))
    ever = np.zeros((len(W), len(W)), dtype=bool)
    models, trackers = [], []
    for heard in arrived:
        pull_x, pull_v = np.zeros(shape), np.zeros(shape)
        for i, neighbours in enumerate(near(W)):
            for n in neighbours:
                if ever[i, n]:
                    pull_x[i] += W[i, n] * (held_H[i, n] - H[i])
                    pull_v[i] += W[i, n] * (held_G[i, n] - G[i])
        x = x + gamma * pull_x - eta * V
        before, g = g, gradient(x)
        V = V + gamma * pull_v + g - before
        coded_x, coded_v = each(Q, x - H), each(Q, V - G)
        H, G = H + coded_x, G + coded_v
        for i, neighbours in enumerate(near(W)):
            for n in neighbours:
                if heard[i, n]:
                    held_H[i, n] += coded_x[n]
                    held_G[i, n] += coded_v[n]
        ever |= heard
        models.append(x)
        trackers.append(V)
    return np.array(models), np.array(trackers)


def lossy_ef21(
    gradient: Gradient, shape: tuple[int, ...], eta: float, down: Arrived, up: Arrived, Q: Quantizer
) -> Vector:
    """Return the server's models; ``down[t, n]`` and ``up[t, n]``: whether the frame to or from client n arrived."""
    x = np.zeros(shape[1:])
    at_client, at_server = np.zeros(shape), np.zeros(shape)
    found = []
    for heard, answered in zip(down, up, strict=True):
        slope = gradient(np.tile(x, (shape[0], *[1] * (len(shape) - 1))))
        for n in range(1, shape[0]):
            if heard[n]:
                coded = Q(slope[n] - at_client[n])
                at_client[n] = at_client[n] + coded
                if answered[n]:
                    at_server[n] = at_server[n] + coded
        x = x - eta * (slope[0] + at_server[1:].sum(axis=0)) / shape[0]
        found.append(x)
    return np.array(found)


def error_feedback(gradient: Gradient, shape: tuple[int, ...], eta: float, rounds: int, Q: Quantizer) -> Vector:
    """Return the server's models of gradient descent with error feedback (Seide et al. 2014); rows as in `ef21`.

    Client i sends Q(e_i + η ∇f_i(x)) and stores the coding error as e_i; the server subtracts the mean message from x.
    """
    x, error = np.zeros(shape), np.zeros(shape)
    found = []
    for _ in range(rounds):
        wanted = error + eta * gradient(x)
        sent = each(Q, wanted)
        error = wanted - sent
        x = x - sent.mean(axis=0)
        found.append(x)
    return np.array(found)
