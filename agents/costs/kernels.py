"""One agent's costs on a stream of samples, one for each kernel (Ortega and Jafarkhani 2023).

The cost of kernel p at agent i in round t is L_p(θ_p) = ℓ(θ_pᵀz_p(x_i,t), y_i,t) + λ‖θ_p‖² (eqs. 5, 27), with the whole
λ at every agent. With weights w̄_p that sum to 1, the combined prediction is Σ_p w̄_p θ_pᵀz_p(x). It is the prediction
of one linear model, whose parameter vector concatenates all w̄_pθ_p. The cost of this model is
ℓ(Σ_p w̄_p θ_pᵀz_p, y) + λ Σ_p w̄_p²‖θ_p‖², which never exceeds Σ_p w̄_p L_p(θ_p) (eq. 26).
"""

from collections.abc import Sequence

import numpy as np

from netsim.agents.costs.losses import Logistic, LossFunction, Squared
from netsim.agents.costs.stream import OnlineCost, Samples
from netsim.util import check
from netsim.util.typing import Vector


class MultiKernelCost:
    """One agent's costs, one for each kernel, over one sample at a time.

    Parameters
    ----------
    samples : iterator of (z, y)
        z, of shape (P·K,), concatenates the kernels' features (`SideBySide`). The iterator is read once, one sample a
        round.
    kernels : int
        Number P of kernels.
    features : int
        Number K of features of each kernel (2D for D frequencies).
    loss : LossFunction
        The loss ℓ.
    regularizer : float
        The whole λ, not an agent's share λ/N.

    Attributes
    ----------
    combined : OnlineCost
        The cost of the combined prediction. Its ``count`` is the number of samples so far. Its ``loss_sum`` is the sum
        of the samples' costs, each computed with the models before they learn from the sample.
    weighted_sum : float
        The sum of Σ_p w̄_p L_p(θ_p) over the same samples.
    """

    def __init__(
        self, samples: Samples, kernels: int, features: int, *, loss: LossFunction | None = None, regularizer: float
    ) -> None:
        self.kernels = check.integer("kernels", kernels, low=1)
        self.features = check.integer("features", features, low=1)
        self.combined = OnlineCost(samples, kernels * features, loss=loss or Logistic(), regularizer=regularizer)
        self.weighted_sum = 0.0
        self._z: Vector

    @property
    def size(self) -> tuple[int, int]:
        """The shape (P, K) of the kernels' models."""
        return self.kernels, self.features

    def draw(self, models: Vector, weights: Vector) -> Vector:
        """Take the next sample and predict it; return the kernels' costs L_p(θ_p), shape (P,).

        ``models`` holds a θ_p in each row, shape (P, K); ``weights`` holds the w̄_p, shape (P,). Raises BadInput if the
        stream has ended, or the loss does not accept the label.
        """
        self.combined.draw((weights[:, None] * models).ravel())
        self._z = self.combined.features.reshape(self.kernels, self.features)
        values = self.combined.loss.value(_dots(models, self._z), self.combined.target)
        costs: Vector = values + self.combined.regularizer * _dots(models, models)
        self.weighted_sum += float(weights @ costs)
        return costs

    def gradient(self, models: Vector) -> Vector:
        """Return ∇L_p(θ_p) for the last sample drawn, one in each row, shape (P, K)."""
        slopes = self.combined.loss.derivative(_dots(models, self._z), self.combined.target)
        return slopes[:, None] * self._z + (2.0 * self.combined.regularizer) * models


def predict_all(
    costs: Sequence[MultiKernelCost], models: Vector, weights: Vector, z: Vector, y: Vector
) -> tuple[Vector, list[Vector]] | None:
    """Predict the next samples of N agents, as `MultiKernelCost.draw` does, but leave the samples to `take_all`.

    Return the kernels' costs, shape (N, P), and the predictions to pass to `take_all`. ``models`` has the shape
    (N, P, K) and ``weights`` (N, P). The next samples ``z``, shape (N, PK), and ``y``, shape (N,), are those that
    `StreamCost.look_ahead` stored. The results equal those of each agent's `draw` to the last bit. If the function
    cannot ensure this equality, or if a label is invalid, it returns None.
    """
    count, kernels, features = models.shape
    loss = costs[0].combined.loss
    if not _fit(costs, models, z) or not (isinstance(loss, Squared) or np.all(np.abs(y) == 1.0)):
        return None
    vectors = (weights[:, :, None] * models).reshape(count, -1)
    predictions, squares = np.vecdot(z, vectors), np.vecdot(vectors, vectors)
    rows, regularizers = models.reshape(-1, features), np.array([cost.combined.regularizer for cost in costs])
    values = loss.value(_dots(rows, z.reshape(-1, features)).reshape(count, kernels), y[:, None])
    found: Vector = values + regularizers[:, None] * _dots(rows, rows).reshape(count, kernels)
    return found, [predictions, loss.value(predictions, y), squares, np.vecdot(weights, found)]


def take_all(costs: Sequence[MultiKernelCost], predicted: list[Vector]) -> None:
    """Take each agent's next sample, as `MultiKernelCost.draw` does, with the predictions from `predict_all`."""
    columns = (each.tolist() for each in predicted)
    for cost, prediction, value, square, weighted in zip(costs, *columns, strict=True):
        cost.combined.take_predicted(prediction, value, square)
        cost._z = cost.combined.features.reshape(cost.kernels, cost.features)
        cost.weighted_sum += weighted


def gradients(costs: Sequence[MultiKernelCost], models: Vector, z: Vector, y: Vector) -> Vector | None:
    """Return the gradients of N agents' costs, shape (N, P, K).

    The gradients equal those of each agent's `MultiKernelCost.gradient` to the last bit. If the function cannot ensure
    this equality, it returns None. ``models`` has the same shape as the gradients. ``z``, shape (N, PK), and ``y``,
    shape (N,), are the samples drawn last.
    """
    count, kernels, features = models.shape
    if not _fit(costs, models, z):
        return None
    products = _dots(models.reshape(-1, features), z.reshape(-1, features)).reshape(count, kernels)
    slopes = costs[0].combined.loss.derivative(products, y[:, None])
    doubles = np.array([2.0 * cost.combined.regularizer for cost in costs])
    return slopes[:, :, None] * z.reshape(models.shape) + doubles[:, None, None] * models


def _fit(costs: Sequence[MultiKernelCost], models: Vector, z: Vector) -> bool:
    """Return whether the shapes are consistent, and all losses have the same class.

    The class must be one of those that `netsim.agents.costs.losses` defines.
    """
    count, kernels, features = models.shape
    kind = type(costs[0].combined.loss)
    return (
        z.shape == (count, kernels * features)
        # If a single row is longer than numpy's buffer, einsum sums the row in pieces, and so rounds differently.
        and features <= np.getbufsize()
        and kind.__module__ == Squared.__module__
        and all(type(cost.combined.loss) is kind and cost.size == (kernels, features) for cost in costs)
    )


def _dots(a: Vector, b: Vector) -> Vector:
    """Return the inner products of corresponding rows, shape (P,)."""
    products: Vector = np.einsum("pk,pk->p", a, b)
    return products
