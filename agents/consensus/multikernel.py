"""Online multi-kernel learning: a model for each of P kernels, and weights that tell which kernels to believe.

Ortega and Jafarkhani, "Gossiped and quantized online multi-kernel learning", 2023: agents gossip coded changes of
hidden states that their neighbours know, on any connected graph (`GossipOMKL`). With one kernel that is the method of
Koloskova, Stich and Jaggi, "Decentralized stochastic optimization and gossip algorithms with compressed communication",
2019. `CompleteOMKL` is their benchmark, in which everybody hears everybody's models and losses: Shen, Karimi-Bidhendi
and Jafarkhani, "Distributed and quantized online multi-kernel learning", 2021.

The cost of kernel p at agent i in round t is L_p(θ_p) = ℓ(θ_pᵀz_p(x_i,t), y_i,t) + λ‖θ_p‖² (eqs. 5, 27): every agent
has the whole λ. With weights w̄_p that sum to 1 the prediction is Σ_p w̄_p θ_pᵀz_p(x), and its own cost is
ℓ(Σ_p w̄_p θ_pᵀz_p, y) + λ Σ_p w̄_p²‖θ_p‖²: the squared norm of the combination is that of the vectors w̄_pθ_p side by
side. It is never above Σ_p w̄_p L_p(θ_p) (eq. 26).
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import netsim
from netsim import check
from netsim.agents.consensus.base import SharingAgent, Vector
from netsim.agents.consensus.censor import Censor
from netsim.agents.consensus.online import OnlineCost, Samples
from netsim.agents.costs.losses import Logistic, Loss
from netsim.agents.maps.features import FeatureMap
from netsim.errors import BadInput
from netsim.quantize import Coded, Coder, decoded


class SideBySide:
    """The features of several maps, one for each kernel, in one vector: z(x) = [z_1(x), …, z_P(x)].

    Parameters
    ----------
    maps : sequence of FeatureMap
        One for each kernel; all take the same inputs and have as many features.

    Attributes
    ----------
    inputs, size : int
        Length of one input and of one feature vector, P times that of a map.

    Raises
    ------
    BadInput
        For no map, or maps of different lengths.
    """

    def __init__(self, maps: Sequence[FeatureMap]) -> None:
        if not maps:
            raise check.refuse("maps", maps, "at least one feature map")
        for number, each in enumerate(maps):
            for name in ("inputs", "size"):
                if getattr(each, name) != getattr(maps[0], name):
                    raise check.refuse(
                        f"maps[{number}].{name}", getattr(each, name), f"{getattr(maps[0], name)}, as of maps[0]"
                    )
        self.maps = tuple(maps)
        self.inputs = maps[0].inputs
        self.size = len(maps) * maps[0].size

    def __call__(self, x: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Map inputs of shape (n, inputs) to features of shape (n, size); raises BadInput as the first map does."""
        return np.hstack([each(x) for each in self.maps])


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

    def draw(self, models: Vector, weights: Vector) -> Vector:
        """Take the next sample, and predict it before anything is learned from it.

        Parameters
        ----------
        models : ndarray of shape (P, K)
            θ_p, one a row.
        weights : ndarray of shape (P,)
            w̄_p.

        Returns
        -------
        ndarray of shape (P,)
            The kernels' costs L_p(θ_p).

        Raises
        ------
        BadInput
            If the stream has ended, or a label is none that the loss knows.
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


class KernelWeights:
    """The kernels' weights: w_p ← w_p exp(−η L_p), at first all the same (eqs. 8, 9).

    Kept as logarithms, for the weight of a bad kernel soon is too small a number.
    """

    def __init__(self, kernels: int, eta: float) -> None:
        self._eta = eta
        self._logarithms: Vector = np.zeros(kernels)

    @property
    def values(self) -> Vector:
        """The weights w̄_p = w_p/Σw_p, shape (P,)."""
        weights = np.exp(self._logarithms - self._logarithms.max())
        normalised: Vector = weights / weights.sum()
        return normalised

    def learn(self, costs: Vector) -> None:
        """Lower the weights by what the kernels lost, shape (P,)."""
        self._logarithms = self._logarithms - self._eta * costs


class GossipOMKL(SharingAgent):
    """Gossiped and quantized online multi-kernel learning; CHOCO-SGD (Koloskova et al. 2019) with one kernel.

    For each kernel p, h_i is the hidden state of agent i, known to all its neighbours (`Sharing`). In round t:
    predict with θ'_p and w̄_p; w_p ← w_p exp(−η L_p(θ'_p)); θ_p = θ'_p + γ Σ_n w'_in (h_n − h_i); broadcast
    q_p = Q(θ_p − h_i); h ← h + q at both ends; θ'_p = θ_p − η ∇L_p(θ_p) (algorithm 1 of Ortega and Jafarkhani).

    The paper leaves two things open. It writes the losses of its lines 4 and 6 as those of θ_p,t, which only line 8
    computes: here they are taken at the newest models there are, θ'_p of the round before. And line 5 updates the
    weights before line 6 predicts: here, as its eqs. 8 and 9 have it, the prediction is made with the weights from
    before the sample, which has not been seen.

    A neighbour that a censor has kept silent so far takes part with h_n = 0, which everybody knows (line 1). One that
    was never heard for another reason, as far as that can be told, is left out (`Sharing.known`).

    Parameters
    ----------
    cost : MultiKernelCost
        The agent's stream and loss.
    count : int
        Number of rounds.
    eta : float
        Step η > 0 of learning, of models and weights alike.
    gamma : float
        Step γ > 0 of the gossip.
    weights : mapping
        w'_in of each neighbour, by name: a row of a symmetric, doubly stochastic matrix.
    censor, coder
        As in `SharingAgent`; the paper's coder is ``QSGD(b, by_row=True)``, a norm for each kernel, and no censor.

    Attributes
    ----------
    theta : ndarray of shape (P, K)
        θ_p after the gossip, one a row.
    model : ndarray of shape (P, K)
        θ'_p after learning, which predicts. Replaced, never changed in place.
    kernel_weights : KernelWeights
        w̄_p.
    """

    def __init__(
        self,
        cost: MultiKernelCost,
        count: int,
        *,
        eta: float,
        gamma: float,
        weights: Mapping[Any, float],
        censor: Censor | None = None,
        coder: Coder | None = None,
    ) -> None:
        super().__init__((cost.kernels, cost.features), count, censor=censor, coder=coder)
        self.cost = cost
        self.eta = check.finite("eta", eta, above=0.0)
        self.gamma = check.finite("gamma", gamma, above=0.0)
        self.weights = weights
        self.model: Vector = self.theta
        self.kernel_weights = KernelWeights(cost.kernels, self.eta)

    def local_step(self) -> Vector:
        """Predict, learn the weights, and return θ'_p + γ Σ_n w'_in (h_n − h_i)."""
        self.kernel_weights.learn(self.cost.draw(self.model, self.kernel_weights.values))
        return self.model + self.gamma * self.pull()

    def pull(self) -> Vector:
        """Return Σ_n w'_in (h_n − h_i) over the neighbours whose h_n is known, shape (P, K)."""
        pull, total = np.zeros_like(self.theta), 0.0
        for neighbor, hidden in self.sharing.copies.items():
            if self.sharing.known(neighbor):
                pull += self.weights[neighbor] * hidden
                total += self.weights[neighbor]
        pull -= total * self.sharing.own
        return pull

    def after_sharing(self) -> None:
        """Learn: θ'_p = θ_p − η ∇L_p(θ_p)."""
        self.model = self.theta - self.eta * self.cost.gradient(self.theta)


class CompleteOMKL(netsim.Agent):
    """Online multi-kernel learning on a complete graph, where everybody averages over everybody.

    In each round, with models θ_p and weights w̄_p that all agents have in common: predict; broadcast the model after a
    step, Q(θ_p − η ∇L_p(θ_p)), and the P costs L_p(θ_p) as float32, in one message; θ_p ← the mean of what all agents
    sent; w_p ← w_p exp(−η Σ_i L_i,p). This is Shen et al. 2021 as Ortega and Jafarkhani describe it. A frame that does
    not come is left out of the mean, and the sum is then that of the mean loss times the number of agents; the agents
    then no longer have all in common.

    What a coder of changes codes is the step away from the common θ_p: the error of coding the model itself is as large
    as the model in every round, and does not fade with η.

    Parameters
    ----------
    cost : MultiKernelCost
        The agent's stream and loss.
    count : int
        Number of rounds.
    agents : int
        Number of agents, all of which must be neighbours of each other.
    eta : float
        Step η > 0 of learning, of models and weights alike.
    coder : netsim.quantize.Coder, optional
        Codes what is sent; default: the models travel as they are (float64).

    Attributes
    ----------
    model : ndarray of shape (P, K)
        θ_p, one a row. Replaced, never changed in place.
    kernel_weights : KernelWeights
        w̄_p.
    """

    def __init__(
        self, cost: MultiKernelCost, count: int, *, agents: int, eta: float, coder: Coder | None = None
    ) -> None:
        self.cost = cost
        self.count = check.integer("count", count, low=0)
        self.agents = check.integer("agents", agents, low=1)
        self.eta = check.finite("eta", eta, above=0.0)
        self.coder = coder
        self.model: Vector = np.zeros((cost.kernels, cost.features))
        self.kernel_weights = KernelWeights(cost.kernels, self.eta)

    async def run(self) -> None:
        """Take part in the rounds; raises BadInput if some agent is no neighbour."""
        if len(self.neighbors) != self.agents - 1:
            raise BadInput(
                f"agent {self.name!r} has {len(self.neighbors)} neighbours: must be {self.agents - 1}, all others "
                "(complete OMKL needs a complete graph)"
            )
        # Sums in the same order everywhere, so that all agents round alike.
        order = sorted((self.name, *self.neighbors), key=repr)
        async for _ in self.rounds(self.count):
            costs = self.cost.draw(self.model, self.kernel_weights.values)
            step = -self.eta * self.cost.gradient(self.model)
            said = self._coded(step), costs.astype(np.float32)
            await self.broadcast("model", said)
            self._learn({self.name: said} | {frame.sender: frame.payload for frame in await self.collect()}, order)

    def _coded(self, step: Vector) -> Coded:
        """Return what is sent of the model after a step: the model, or the step if that is what the coder codes."""
        if self.coder is None:
            return self.model + step
        return self.coder.encode(self.model + step if self.coder.whole else step, self.rng)

    def _learn(self, said: Mapping[Hashable, tuple[Coded, NDArray[np.float32]]], order: Sequence[Hashable]) -> None:
        """Take the mean of what was said for the model, and learn the weights."""
        heard = [said[name] for name in order if name in said]
        mean = np.mean([decoded(coded) for coded, _ in heard], axis=0)
        self.model = self.model + mean if self.coder is not None and not self.coder.whole else mean
        costs = np.asarray(np.mean([costs for _, costs in heard], axis=0, dtype=np.float64))
        self.kernel_weights.learn(self.agents * costs)


def _dots(a: Vector, b: Vector) -> Vector:
    """Return the inner products of the rows, shape (P,)."""
    products: Vector = np.einsum("pk,pk->p", a, b)
    return products
