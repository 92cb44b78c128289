"""Online multi-kernel learning as recursions on stacked arrays, for all agents and kernels together, without losses.

Sources: Ortega and Jafarkhani, "Gossiped and quantized online multi-kernel learning", 2023, algorithm 1, and the
complete-graph method of Shen et al. 2021 as described there. Tests compare the agents with this module, which shares no
code with them.

The arguments are features[t − 1, i, p] = z_p(x_i,t), shape (T, N, P, K), for round t, agent i and kernel p, and
targets[t − 1, i] = y_i,t = ±1. The loss is logistic. Every function starts from zero models and equal weights.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Quantizer = Callable[[Vector], Vector]


class Result(NamedTuple):
    """The models, weights and costs of each round.

    Attributes
    ----------
    models : ndarray of shape (T, N, P, K)
        θ' at the end of the round, used for predictions in the next round.
    weights : ndarray of shape (T, N, P)
        The normalised weights of the kernels at the end of the round.
    combined, kernels : ndarray of shape (T, N) and (T, N, P)
        The costs of the combined prediction and of each kernel's prediction, before learning from the sample.
    """

    models: Vector
    weights: Vector
    combined: Vector
    kernels: Vector


def gossip(
    features: Vector,
    targets: Vector,
    W: Vector,
    lam: float,
    eta: float,
    gamma: float,
    quantize: Quantizer | None = None,
    thresholds: Vector | None = None,
) -> Result:
    """Gossiped OMKL with the mixing matrix W; ``quantize`` codes the change of one kernel at one agent.

    With ``thresholds``, shape (T,), an agent does not broadcast if the norm of its change, over all kernels, is below
    the round's threshold. Its hidden states, initially zero, then stay unchanged.
    """
    _, agents, kernels, size = features.shape
    learned, hidden = np.zeros((2, agents, kernels, size))
    weights = np.full((agents, kernels), 1.0 / kernels)
    history = []
    for t, (z, y) in enumerate(zip(features, targets, strict=True)):
        combined, costs = _costs(learned, weights, z, y, lam)
        weights = _reweighted(weights, eta * costs)
        theta = learned + gamma * np.tensordot(W - np.eye(agents), hidden, axes=1)
        change = theta - hidden
        if thresholds is None:
            speaks = np.ones(agents, dtype=bool)
        else:
            speaks = np.sqrt((change**2).sum(axis=(1, 2))) >= thresholds[t]
        if quantize is not None:
            change = np.array([[quantize(row) for row in rows] for rows in change])
        hidden = hidden + np.where(speaks[:, None, None], change, 0.0)
        learned = theta - eta * _gradient(theta, z, y, lam)
        history.append((learned, weights, combined, costs))
    return Result(*(np.array(column) for column in zip(*history, strict=True)))


def complete(features: Vector, targets: Vector, lam: float, eta: float, quantize: Quantizer | None = None) -> Result:
    """OMKL on a complete graph: the mean of all (quantized) steps; weights by the sum of all agents' costs."""
    _, agents, kernels, size = features.shape
    model, weights = np.zeros((kernels, size)), np.full(kernels, 1.0 / kernels)
    history = []
    for z, y in zip(features, targets, strict=True):
        models, same = np.broadcast_to(model, z.shape), np.broadcast_to(weights, (agents, kernels))
        combined, costs = _costs(models, same, z, y, lam)
        steps = -eta * _gradient(models, z, y, lam)
        if quantize is not None:
            steps = np.array([[quantize(row) for row in rows] for rows in steps])
        model = model + steps.mean(axis=0)
        weights = _reweighted(weights, eta * costs.astype(np.float32).astype(np.float64).sum(axis=0))
        history.append((np.broadcast_to(model, z.shape), np.broadcast_to(weights, same.shape), combined, costs))
    return Result(*(np.array(column) for column in zip(*history, strict=True)))


def _costs(models: Vector, weights: Vector, z: Vector, y: Vector, lam: float) -> tuple[Vector, Vector]:
    """Return the costs of the combined predictions, shape (N,), and of each kernel's predictions, shape (N, P)."""
    f = (models * z).sum(axis=2)
    sizes = (models**2).sum(axis=2)
    combined = np.log1p(np.exp(-y * (weights * f).sum(axis=1))) + lam * (weights**2 * sizes).sum(axis=1)
    return combined, np.log1p(np.exp(-y[:, None] * f)) + lam * sizes


def _gradient(models: Vector, z: Vector, y: Vector, lam: float) -> Vector:
    f = (models * z).sum(axis=2)
    slope = -y[:, None] / (1.0 + np.exp(y[:, None] * f))
    gradient: Vector = slope[:, :, None] * z + 2.0 * lam * models
    return gradient


def _reweighted(weights: Vector, exponent: Vector) -> Vector:
    fresh = weights * np.exp(-exponent)
    normalised: Vector = fresh / fresh.sum(axis=-1, keepdims=True)
    return normalised
