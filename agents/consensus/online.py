"""Online and dynamic methods: one sample an agent and round, predicted first and then learned from.

Chapter 3 of P. Xu's dissertation: RFF-DOKL (diffusion; Bouboulis et al. 2018), DOKL (online ADMM), ODKLA (linearised
ADMM) and, censored and quantized, QC-ODKLA. Chapter 4: DDKL for streams whose truth moves, and, censored and/or
quantized, CoDDKL, QDDKL and QC-DDKL. Every one takes any censor and any coder, so the last five need no class:
QC-ODKLA is `ODKLA` with `censor=Geometric(…)` and `coder=Uniform(…)`, QC-DDKL is `DDKL` with `censor=PowerLaw(…)` and a
coder. The dissertation's two begin with `coded_start=True`.

The cost of agent i in round t is L_i,t(θ) = ℓ(θᵀφ(x_i,t), y_i,t) + (λ/N)‖θ‖².
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from netsim import check
from netsim.agents.consensus.base import Diffusion, Dual, Vector
from netsim.agents.consensus.censor import Censor
from netsim.agents.costs.losses import Loss, Squared
from netsim.errors import BadInput
from netsim.quantize import Coder

Samples = Iterator[tuple[Vector, float]]
"""An agent's stream: φ(x_t), shape (D,), and y_t."""


class StreamCost:
    """One agent's cost, a sample at a time: L_t(θ) = ℓ(θᵀφ_t, y_t) + r‖θ‖². Base of `OnlineCost`.

    Parameters
    ----------
    samples : iterator of (φ, y)
        Read once, one sample a round.
    size : int or tuple of int
        Shape of θ.
    regularizer : float
        The agent's own share r = λ/N of the regulariser.

    Attributes
    ----------
    count : int
        Samples so far, t.
    loss_sum : float
        Sum over the samples so far of L_t(θ_t), each with the model from before the sample.
    """

    def __init__(self, samples: Samples, size: int | tuple[int, ...], regularizer: float) -> None:
        self.size = size
        self.regularizer = check.finite("regularizer", regularizer, low=0.0)
        self.count = 0
        self.loss_sum = 0.0
        self._samples = samples
        self.features: Vector
        # A number; numpy's functions, by which losses are defined, take it for an array of no dimension.
        self.target: Any

    def draw(self, theta: Vector) -> None:
        """Take the next sample, and predict it with ``theta`` before anything is learned from it.

        Raises
        ------
        BadInput
            If the stream has ended, or a label is none that the loss knows.
        """
        try:
            self.features, self.target = next(self._samples)
        except StopIteration:
            raise BadInput(f"samples: must be one for each round; the stream ended after {self.count}") from None
        loss = self.meet(self.features @ theta)
        self.count += 1
        self.loss_sum += loss + self.regularizer * float(np.vdot(theta, theta))

    def meet(self, prediction: Any) -> float:
        """Return ℓ of a prediction of the sample just drawn; count its error."""
        raise NotImplementedError

    def gradient(self, theta: Vector) -> Vector:
        """Return ∇L_t(θ), in the shape of θ."""
        raise NotImplementedError

    def argmin(self, quadratic: float, linear: Vector) -> Vector:
        """Return argmin L_t(θ) + quadratic‖θ‖² + ⟨linear, θ⟩, in the shape of θ."""
        raise NotImplementedError


class OnlineCost(StreamCost):
    """One agent's cost, a sample at a time, for predictions that are numbers.

    Parameters
    ----------
    samples : iterator of (φ, y)
        Read once, one sample a round.
    size : int
        Length D of φ.
    loss : Loss
        The loss ℓ.
    regularizer : float
        The agent's own share r = λ/N of the regulariser.

    Attributes
    ----------
    count : int
        Samples so far, t.
    squared_error, loss_sum : float
        Sums over the samples so far of (θ_tᵀφ_t − y_t)² and L_t(θ_t), each with the model from before the sample.
    """

    size: int

    def __init__(self, samples: Samples, size: int, *, loss: Loss, regularizer: float) -> None:
        super().__init__(samples, check.integer("size", size, low=1), regularizer)
        self.loss = loss
        self.squared_error = 0.0
        # Only a regression takes any target.
        self._labels = not isinstance(loss, Squared)

    def meet(self, prediction: Any) -> float:
        """Return ℓ of a prediction of the sample just drawn; count its squared error."""
        if self._labels:
            self.loss.check_targets(np.array([self.target]))
        error = float(prediction - self.target)
        self.squared_error += error * error
        return float(self.loss.value(prediction, self.target))

    def gradient(self, theta: Vector) -> Vector:
        """Return ∇L_t(θ), shape (D,)."""
        slope = float(self.loss.derivative(self.features @ theta, self.target))
        return slope * self.features + (2.0 * self.regularizer) * theta

    def argmin(self, quadratic: float, linear: Vector) -> Vector:
        """Return argmin L_t(θ) + quadratic‖θ‖² + linearᵀθ, shape (D,), at a cost of O(D).

        With a = r + quadratic the minimum is θ = −(linear + s·φ)/(2a), where s = ℓ'(θᵀφ, y): one equation in one
        number, s = ℓ'(f₀ − k·s), f₀ = −linearᵀφ/(2a), k = ‖φ‖²/(2a), which the loss solves (`Loss.slope`).
        """
        double = 2.0 * (self.regularizer + quadratic)
        phi = self.features
        slope = self.loss.slope(-float(linear @ phi) / double, float(phi @ phi) / double, self.target)
        return (linear + slope * phi) / -double


class RFFDOKL(Diffusion):
    """Diffusion: ψ_i = Σ_n w_in θ_n, θ_i = ψ_i − η ∇L_i,t(ψ_i) (Bouboulis et al. 2018; dissertation §3.5).

    Parameters
    ----------
    cost : StreamCost
        The agent's stream and loss.
    count, eta, weights, censor, coder
        As in `Diffusion`.
    """

    def __init__(
        self,
        cost: StreamCost,
        count: int,
        *,
        eta: float,
        weights: Mapping[Any, float],
        censor: Censor | None = None,
        coder: Coder | None = None,
    ) -> None:
        super().__init__(cost.size, count, eta=eta, weights=weights, censor=censor, coder=coder)
        self.cost = cost

    def local_step(self) -> Vector:
        """Return ψ_i − η ∇L_i,t(ψ_i)."""
        self.cost.draw(self.theta)
        psi = self.combined()
        return psi - self.eta * self.cost.gradient(psi)


class OnlineDual(Dual):
    """Base of the online ADMM methods.

    Parameters
    ----------
    cost : StreamCost
        The agent's stream and loss.
    eta : float
        Weight η ≥ 0 of staying where one is: the larger, the shorter the step.
    coded_start : bool
        θ̂ begins as Q(θ_1) = Q(0), as in the dissertation's algorithms 4 and 5 (QC-ODKLA, QC-DDKL), which differs from
        the default, 0, where the coder's range is fixed (see `Sharing`). There DDKL's first models differ by it, those
        of ODKLA only from the first coded change on: at first all agents have the same θ̂.
    count, rho, censor, coder
        As in `Dual`.
    """

    linearised: ClassVar[bool] = False

    def __init__(
        self,
        cost: StreamCost,
        count: int,
        *,
        rho: float,
        eta: float,
        censor: Censor | None = None,
        coder: Coder | None = None,
        coded_start: bool = False,
    ) -> None:
        super().__init__(cost.size, count, rho=rho, censor=censor, coder=coder, coded_start=coded_start)
        self.cost = cost
        # A linearised step is divided by η + 2ρd_i, which an agent without neighbours must not make zero.
        self.eta = check.finite("eta", eta, low=0.0, above=0.0 if self.linearised else None)


class ODKLA(OnlineDual):
    """Linearised online ADMM (dissertation 3.17, 3.18; with censor and coder 3.22, 3.23).

    θ_i ← θ_i − [∇L_i,t(θ_i) + ρ Σ_n (θ̂_i − θ̂_n) + γ_i]/(η + 2ρd_i);  γ_i ← γ_i + ρ Σ_n (θ̂_i − θ̂_n).
    Its parameters are those of `OnlineDual`, with η > 0.
    """

    linearised = True

    def local_step(self) -> Vector:
        """Return θ_i − [∇L_i,t(θ_i) + ρ Σ_n (θ̂_i − θ̂_n) + γ_i]/(η + 2ρd_i)."""
        self.cost.draw(self.theta)
        step = self.cost.gradient(self.theta) + self.pull_to_difference()
        return self.theta - step / (self.eta + 2.0 * self.rho * self.degree)


class DOKL(OnlineDual):
    """Online ADMM (dissertation §3.5 and its reference 109).

    θ_i ← argmin L_i,t(θ) + (η/2)‖θ − θ_i‖² + ρd_i‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)];  γ_i as in `ODKLA`.
    Its parameters are those of `OnlineDual`.
    """

    def local_step(self) -> Vector:
        """Return argmin L_i,t(θ) + (η/2)‖θ − θ_i‖² + ρd_i‖θ‖² + θᵀ[γ_i − ρ Σ_n (θ̂_i + θ̂_n)]."""
        self.cost.draw(self.theta)
        return self.cost.argmin(self.eta / 2.0 + self.rho * self.degree, self.pull_to_sum() - self.eta * self.theta)


class DDKL(DOKL):
    """Dynamic ADMM (dissertation 4.11, 4.12; with censor and coder 4.16, 4.17): `DOKL` without memory, η = 0."""

    def __init__(
        self,
        cost: StreamCost,
        count: int,
        *,
        rho: float,
        censor: Censor | None = None,
        coder: Coder | None = None,
        coded_start: bool = False,
    ) -> None:
        super().__init__(cost, count, rho=rho, eta=0.0, censor=censor, coder=coder, coded_start=coded_start)
