"""Kernel expansions pruned by direct re-fits, and the greedy projected penalty method as a synchronous recursion.

Unlike the agents, this module updates no inverse: to try the removal of a point it solves the remaining least squares
problem, and it computes errors in full. Tests compare `netsim.agents.greedy.dictionary` and
`netsim.agents.greedy.penalty` with this module, which therefore shares no code with them.

Weights have shape (M, C) throughout, with C = 1 for scalar values.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Slope = Callable[[Array, Array], Array]


def gaussian(x: Array, z: Array, sigma: float) -> Array:
    """Return exp(−‖x − z‖²/2σ²) for all pairs of rows of x and z."""
    return np.exp(-np.sum((x[:, None, :] - z[None, :, :]) ** 2, axis=2) / (2.0 * sigma**2))


def fitted(points: Array, weights: Array, kept: Sequence[int], sigma: float) -> tuple[Array, float]:
    """Return the weights over the ``kept`` points that best approximate f, and the norm of the error."""
    K = gaussian(points, points, sigma)
    rows = list(kept)
    w = np.linalg.lstsq(K[np.ix_(rows, rows)], K[rows] @ weights, rcond=None)[0]
    difference = weights.copy()
    difference[rows] -= w
    return w, float(np.sqrt(max(np.sum(difference * (K @ difference)), 0.0)))


def pruned(points: Array, weights: Array, epsilon: float, sigma: float) -> tuple[list[int], Array, float]:
    """Return the indices of the points that destructive matching pursuit keeps, their weights, and the error."""
    kept, w, error = list(range(len(points))), weights, 0.0
    while kept:
        trials = [fitted(points, weights, [*kept[:n], *kept[n + 1 :]], sigma) for n in range(len(kept))]
        best = int(np.argmin([trial[1] for trial in trials]))
        if trials[best][1] > epsilon:
            break
        w, error = trials[best]
        del kept[best]
    return kept, w, error


def greedy_penalty(
    batches: Sequence[Sequence[tuple[Array, Array]]],
    A: Array,
    slope: Slope,
    penalty: Callable[[int, int], float],
    *,
    values: int,
    sigma: float,
    eta: float,
    regularizer: float,
    parsimony: float,
) -> list[list[tuple[Array, Array]]]:
    """Run all agents synchronously, without losses.

    Parameters
    ----------
    batches : sequence of sequences
        batches[t][i] = inputs (B, d) and targets (B,) of agent i in round t.
    A : ndarray of shape (N, N)
        Adjacency matrix.
    slope : callable
        ∂ℓ/∂f, shape (B, C), of scores (B, C) and targets.
    penalty : callable
        Returns the penalty c for the number of samples so far and the agent's degree.

    Returns
    -------
    list of lists
        Points and weights of every agent after each round.
    """
    models = [(np.zeros((0, batches[0][0][0].shape[1])), np.zeros((0, values))) for _ in A]
    history, seen = [], 0
    for batch in batches:
        after = []
        for i, (x, y) in enumerate(batch):
            f = [gaussian(x, points, sigma) @ weights for points, weights in models]
            gradient = slope(f[i], y)
            for j in np.flatnonzero(A[i]):
                gradient = gradient + penalty(seen, int(A[i].sum())) * (f[i] - f[j])
            points = np.concatenate([models[i][0], x])
            weights = np.concatenate([(1 - eta * regularizer) * models[i][1], -eta / len(x) * gradient])
            kept, weights, _ = pruned(points, weights, parsimony * eta**1.5, sigma)
            after.append((points[kept], weights))
        models = after
        seen += len(batch[0][0])
        history.append(models)
    return history
