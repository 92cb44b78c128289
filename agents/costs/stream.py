"""One agent's costs on a stream of samples; the agent predicts each sample before it learns from the sample.

The cost of agent i in round t is L_i,t(θ) = ℓ(θᵀφ(x_i,t), y_i,t) + (λ/N)‖θ‖² (P. Xu's dissertation, ch. 3).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.agents.costs.losses import LossFunction, Squared
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Vector

Samples = Iterator[tuple[Vector, float]]
"""An agent's stream: φ(x_t), shape (D,), and y_t."""


class StreamCost:
    """Base class of an agent's cost over one sample at a time: L_t(θ) = ℓ(θᵀφ_t, y_t) + r‖θ‖².

    The iterator ``samples`` is read once, one sample a round; ``size`` is the shape of θ, ``regularizer`` the agent's
    own share r = λ/N. ``count`` is the number of samples so far; ``loss_sum`` is the sum of L_t(θ_t) over them, where
    θ_t is the model before it learns from sample t.
    """

    def __init__(self, samples: Samples, size: int | tuple[int, ...], regularizer: float) -> None:
        self.size = size
        self.regularizer = check.finite("regularizer", regularizer, low=0.0)
        self.count = 0
        self.loss_sum = 0.0
        self._samples = samples
        # The next sample, or the error that the iterator raised, if `look_ahead` was called; else None.
        self._ahead: tuple[Vector, Any] | BaseException | None = None
        self.features: Vector
        # The target of the last sample: a number. It is declared as Any, because the losses' methods declare arrays.
        self.target: Any

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise BadInput for ``features`` and ``target``, which do not exist before the first `draw`."""
            if name in ("features", "target"):
                raise BadInput(
                    "cost: must have a sample; call cost.draw(theta) once a round, before gradient or argmin"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def draw(self, theta: Vector) -> None:
        """Take the next sample, and predict it with ``theta``, before learning from it.

        Raises BadInput if the stream has ended, or the loss does not accept the label.
        """
        try:
            self.features, self.target = self._next()
        except StopIteration:
            raise BadInput(f"samples: must be one for each round; the stream ended after {self.count}") from None
        loss = self.meet(self.features @ theta)
        self.count += 1
        self.loss_sum += loss + self.regularizer * float(np.vdot(theta, theta))

    def look_ahead(self) -> None:
        """Read the next sample, or the error that the iterator raises, and store it for `draw`."""
        if self._ahead is None:
            try:
                self._ahead = next(self._samples)
            except Exception as error:
                self._ahead = error

    def _next(self) -> tuple[Vector, Any]:
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return next(self._samples)
        if isinstance(ahead, BaseException):
            raise ahead
        return ahead

    def meet(self, prediction: Any) -> float:
        """Return the loss of ``prediction`` for the last sample, and update the subclass's error counts."""
        raise NotImplementedError

    def gradient(self, theta: Vector) -> Vector:
        """Return ∇L_t(θ), in the shape of θ."""
        raise NotImplementedError

    def argmin(self, quadratic: float, linear: Vector) -> Vector:
        """Return argmin L_t(θ) + quadratic‖θ‖² + ⟨linear, θ⟩, in the shape of θ."""
        raise NotImplementedError

    def dense_argmin(self, quadratic: float, linear: Vector) -> Vector:
        """Return the result of `argmin` by solving a linear system; raises BadInput if the loss does not allow that."""
        raise BadInput(f'solve = "dense": must go with a squared loss of numbers; the cost is {type(self).__name__}')


class OnlineCost(StreamCost):
    """One agent's cost over one sample at a time, for scalar predictions.

    Parameters
    ----------
    samples : iterator of (φ, y)
        The stream, read once, one sample a round.
    size : int
        Length D of φ.
    loss : LossFunction
        The loss ℓ.
    regularizer : float
        The agent's own share r = λ/N of the regulariser.

    Attributes
    ----------
    count : int
        Number t of samples so far.
    squared_error : float
        Sum of (θ_tᵀφ_t − y_t)² over the samples so far; θ_t is the model before it learns from sample t.
    loss_sum : float
        Sum of L_t(θ_t) over the samples so far.
    right : int
        Number of samples so far whose label, ±1, has the sign of the prediction.
    """

    size: int

    def __init__(self, samples: Samples, size: int, *, loss: LossFunction, regularizer: float) -> None:
        super().__init__(samples, check.integer("size", size, low=1), regularizer)
        self.loss = loss
        self.squared_error = 0.0
        self.right = 0
        # The squared loss is for regression; all other losses are for labels ±1.
        self._labels = not isinstance(loss, Squared)

    def meet(self, prediction: Any) -> float:
        """Return the loss of ``prediction`` for the last sample, and update `squared_error` and `right`."""
        if self._labels:
            self.loss.check_targets(np.array([self.target]))
        self._count_error(prediction)
        return float(self.loss.value(prediction, self.target))

    def _count_error(self, prediction: Any) -> None:
        if self._labels:
            self.right += bool(prediction * self.target > 0.0)
        error = float(prediction - self.target)
        self.squared_error += error * error

    def take_predicted(self, prediction: float, loss: float, square: float) -> None:
        """Take the next sample as `draw` does, given ``prediction`` = θᵀφ, ``loss`` = ℓ(θᵀφ, y), ``square`` = ‖θ‖²."""
        self.features, self.target = self._next()
        self._count_error(prediction)
        self.count += 1
        self.loss_sum += loss + self.regularizer * square

    def gradient(self, theta: Vector) -> Vector:
        """Return ∇L_t(θ), shape (D,)."""
        slope = float(self.loss.derivative(self.features @ theta, self.target))
        return slope * self.features + (2.0 * self.regularizer) * theta

    def argmin(self, quadratic: float, linear: Vector) -> Vector:
        """Return argmin L_t(θ) + quadratic‖θ‖² + linearᵀθ, shape (D,), in O(D) time.

        With a = r + quadratic, the minimum is θ = −(linear + s·φ)/(2a), where s = ℓ'(θᵀφ, y). So s solves the scalar
        equation s = ℓ'(f₀ − k·s, y) with f₀ = −linearᵀφ/(2a) and k = ‖φ‖²/(2a). `LossFunction.slope` solves it.
        """
        double = 2.0 * (self.regularizer + quadratic)
        phi = self.features
        slope = self.loss.slope(-float(linear @ phi) / double, float(phi @ phi) / double, self.target)
        return (linear + slope * phi) / -double

    def dense_argmin(self, quadratic: float, linear: Vector) -> Vector:
        """Return `argmin` for the squared loss by solving [2φφᵀ + 2(r + quadratic)I]θ = 2yφ − linear in O(D³)."""
        if not isinstance(self.loss, Squared):
            raise BadInput(f'solve = "dense": must go with a squared loss; the cost has {type(self.loss).__name__}')
        phi = self.features
        system = 2.0 * np.outer(phi, phi) + 2.0 * (self.regularizer + quadratic) * np.eye(len(phi))
        return np.linalg.solve(system, 2.0 * self.target * phi - linear)
