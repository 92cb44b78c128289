"""One agent's costs of a stream, one for each kernel (Ortega and Jafarkhani 2023).

The cost of kernel p at agent i in round t is L_p(θ_p) = ℓ(θ_pᵀz_p(x_i,t), y_i,t) + λ‖θ_p‖² (eqs. 5, 27): every agent
has the whole λ. With weights w̄_p that sum to 1 the prediction is Σ_p w̄_p θ_pᵀz_p(x), and its own cost is
ℓ(Σ_p w̄_p θ_pᵀz_p, y) + λ Σ_p w̄_p²‖θ_p‖²: the squared norm of the combination is that of the vectors w̄_pθ_p side by
side. It is never above Σ_p w̄_p L_p(θ_p) (eq. 26).
"""

import numpy as np

from netsim.agents.costs.losses import Logistic, Loss
from netsim.agents.costs.stream import OnlineCost, Samples
from netsim.util import check
from netsim.util.typing import Vector


class MultiKernelCost:
    """One agent's costs, one for each kernel, a sample at a time.

    Parameters
    ----------
    samples : iterator of (z, y)
        z of shape (P·K,), the kernels' features side by side (`SideBySide`). Read once, one sample a round.
    kernels, features : int
        Number P of kernels, and K of features of each (2D for D frequencies).
    loss : Loss
        The loss ℓ.
    regularizer : float
        λ, the whole of it.

    Attributes
    ----------
    combined : OnlineCost
        The cost of the combined prediction: its ``loss_sum`` is the sum over the samples so far, each predicted before
        it was learned from, its ``count`` their number.
    weighted_sum : float
        The same sum of Σ_p w̄_p L_p(θ_p).
    """

    def __init__(
        self, samples: Samples, kernels: int, features: int, *, loss: Loss | None = None, regularizer: float
    ) -> None:
        self.kernels = check.integer("kernels", kernels, low=1)
        self.features = check.integer("features", features, low=1)
        # The combination Σ_p w̄_p θ_pᵀz_p is one linear model, whose vector is that of all w̄_pθ_p side by side.
        self.combined = OnlineCost(samples, kernels * features, loss=loss or Logistic(), regularizer=regularizer)
        self.weighted_sum = 0.0
        self._z: Vector

    @property
    def size(self) -> tuple[int, int]:
        """The shape (P, K) of the kernels' models."""
        return self.kernels, self.features

    def draw(self, models: Vector, weights: Vector) -> Vector:
        """Take the next sample, predict it with the models before; return the kernels' costs L_p(θ_p), shape (P,).

        The models θ_p, shape (P, K), are one a row; the weights w̄_p have shape (P,). Raises BadInput if the stream has
        ended, or a label is none that the loss knows.
        """
        self.combined.draw((weights[:, None] * models).ravel())
        self._z = self.combined.features.reshape(self.kernels, self.features)
        values = self.combined.loss.value(_dots(models, self._z), self.combined.target)
        costs: Vector = values + self.combined.regularizer * _dots(models, models)
        self.weighted_sum += float(weights @ costs)
        return costs

    def gradient(self, models: Vector) -> Vector:
        """Return ∇L_p(θ_p) of the sample drawn last, one a row, shape (P, K)."""
        slopes = self.combined.loss.derivative(_dots(models, self._z), self.combined.target)
        gradients: Vector = slopes[:, None] * self._z + (2.0 * self.combined.regularizer) * models
        return gradients


def _dots(a: Vector, b: Vector) -> Vector:
    """Return the inner products of the rows, shape (P,)."""
    products: Vector = np.einsum("pk,pk->p", a, b)
    return products
