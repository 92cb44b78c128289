"""Online multi-kernel learning: a model for each of P kernels, and weights that favour kernels with small losses.

Ortega and Jafarkhani, "Gossiped and quantized online multi-kernel learning", 2023: agents gossip coded changes of
hidden states that their neighbours know, on any connected graph (`GossipOMKL`). With one kernel that is the method of
Koloskova, Stich and Jaggi, "Decentralized stochastic optimization and gossip algorithms with compressed communication",
2019. `CompleteOMKL` is the paper's benchmark, in which all agents receive all models and losses: Shen, Karimi-Bidhendi
and Jafarkhani, "Distributed and quantized online multi-kernel learning", 2021.
"""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import netsim
from netsim.agents import papers
from netsim.agents.consensus.gossip import Gossip
from netsim.agents.consensus.shared_rounds import steps
from netsim.agents.costs.kernels import MultiKernelCost, gradients, predict_all, take_all
from netsim.agents.papers import Cited
from netsim.agents.schedule import Scheduled, advance
from netsim.coders import Coder, Encoded, Exact, decoded
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.draws import plain_name
from netsim.util.typing import Array, Vector


class KernelWeights:
    """The kernels' weights: w_p ← w_p exp(−η L_p), initially equal (eqs. 8, 9).

    Stored as logarithms, because the weight of a bad kernel soon underflows.
    """

    def __init__(self, kernels: int) -> None:
        self._logarithms: Vector = np.zeros(kernels)

    @property
    def values(self) -> Vector:
        """The weights w̄_p = w_p/Σw_p, shape (P,)."""
        return _normalised(self._logarithms)

    def learn(self, costs: Vector, eta: float) -> None:
        """Update the weights with the kernels' losses, shape (P,), and step η."""
        self._logarithms = self._logarithms - eta * costs


def _normalised(logarithms: Vector) -> Vector:
    """Return the weights w̄_p from logarithms of w_p, for one agent or for each row."""
    weights = np.exp(logarithms - logarithms.max(axis=-1, keepdims=True))
    normalised: Vector = weights / weights.sum(axis=-1, keepdims=True)
    return normalised


@dataclass(eq=False, repr=False)
class GossipOMKL(Gossip):
    """Gossiped and quantized online multi-kernel learning; CHOCO-SGD (Koloskova et al. 2019) with one kernel.

    For each kernel p, h_i is the hidden state of agent i, known to all its neighbours (`Sharing`). In round t:
    predict with θ'_p and w̄_p; w_p ← w_p exp(−η L_p(θ'_p)); θ_p = θ'_p + γ Σ_n w'_in (h_n − h_i); broadcast
    q_p = Q(θ_p − h_i); h ← h + q at both ends; θ'_p = θ_p − η ∇L_p(θ_p) (algorithm 1 of Ortega and Jafarkhani).

    Two details differ from the paper's listing. Its lines 4 and 6 use losses of θ_p,t, which only line 8 computes: here
    they are losses of the newest models, θ'_p of the previous round. Its line 5 updates the weights before line 6
    predicts: here, as in its eqs. 8 and 9, the prediction uses the weights from before the sample.

    A neighbour that its censor may have silenced so far counts with h_n = 0, the initial state (line 1). One whose
    frames must have been lost so far is left out (`Sharing.known`).

    Parameters
    ----------
    cost : MultiKernelCost
        The agent's stream and loss.
    count : int
        Number of rounds.
    eta : float or schedule
        Step η > 0 of learning, of models and weights alike.
    gamma, weights, censor, coder
        As in `Gossip`; the paper's coder is ``QSGD(b, by_row=True)``, a norm for each kernel, and no censor.

    Attributes
    ----------
    theta : ndarray of shape (P, K)
        θ_p after the gossip, one per row.
    model : ndarray of shape (P, K)
        θ'_p after the gradient step, used to predict. Replaced by a new array, never modified in place.
    kernel_weights : KernelWeights
        w̄_p.
    """

    paper = papers.ORTEGA
    cost: MultiKernelCost
    _: KW_ONLY
    eta: Scheduled = Scheduled(above=0.0)
    model: Array = field(init=False)
    kernel_weights: KernelWeights = field(init=False)

    def _forget(self) -> None:
        super()._forget()
        self.model = self.theta
        self.kernel_weights = KernelWeights(self.cost.kernels)

    def local_step(self) -> Vector:
        """Predict, update the weights, and return θ'_p + γ Σ_n w'_in (h_n − h_i)."""
        self.kernel_weights.learn(self.cost.draw(self.model, self.kernel_weights.values), self.eta)
        return self.model + self.gamma * self.pull()

    def after_sharing(self) -> None:
        """Take the gradient step: θ'_p = θ_p − η ∇L_p(θ_p)."""
        self.model = self.theta - self.eta * self.cost.gradient(self.theta)

    @classmethod
    def local_steps(cls, agents: list[Any]) -> list[Array] | None:
        """Return the new θ_p of several agents in one call; None if an agent does not fit, or a number overflows."""
        costs = [agent.cost for agent in agents]
        samples: tuple[Vector, Vector] | None = None if steps is None else steps.samples_ahead(costs)
        states = None if samples is None else steps.gossiped(agents)
        if samples is None or states is None:
            return None
        if any(type(agent.kernel_weights) is not KernelWeights for agent in agents):
            return None
        models = steps.table([agent.model for agent in agents])
        logarithms = steps.table([agent.kernel_weights._logarithms for agent in agents])
        if models is None or logarithms is None or logarithms.shape != models.shape[:2]:
            return None
        found = learned = None
        with suppress(FloatingPointError), _strict():
            found = predict_all(costs, models, _normalised(logarithms), *samples)
            if found is not None:
                learned = logarithms - _steps_of(agents) * found[0]
        # The bit pattern of a NaN may depend on its position in a table, so leave that case to each agent.
        if found is None or learned is None or not np.isfinite(learned).all():
            return None
        take_all(costs, found[1])
        for agent, row in zip(agents, learned, strict=True):
            agent.kernel_weights._logarithms = row
        return list(states)

    @classmethod
    def _updates(cls, agents: list[Any]) -> bool:
        costs = [agent.cost for agent in agents]
        samples: tuple[Vector, Vector] | None = None
        if steps is not None and agents:
            samples = steps.samples_drawn(costs)
        thetas = None if samples is None else steps.table([agent.theta for agent in agents])
        if samples is None or thetas is None:
            return False
        models = None
        with suppress(FloatingPointError), _strict():
            slopes = gradients(costs, thetas, *samples)
            if slopes is not None:
                models = thetas - _steps_of(agents)[:, :, None] * slopes
        if models is None or not np.isfinite(models).all():
            return False
        for agent, model in zip(agents, models, strict=True):
            agent.model = model
        return True


def _strict() -> np.errstate:
    """Return a context in which numpy raises instead of warning; each agent then takes its own step, and warns."""
    return np.errstate(over="raise", divide="raise", invalid="raise")


def _steps_of(agents: list[Any]) -> Vector:
    """Return η of each agent, shape (N, 1)."""
    return np.array([[agent.eta] for agent in agents])


@dataclass(eq=False, repr=False)
class CompleteOMKL(Cited, netsim.Agent):
    """Online multi-kernel learning on a complete graph, where every agent averages all models.

    In each round, with models θ_p and weights w̄_p common to all agents: predict; broadcast the model after a step,
    Q(θ_p − η ∇L_p(θ_p)), and the P costs L_p(θ_p) as float32, in one message; θ_p ← mean of the models sent;
    w_p ← w_p exp(−η Σ_i L_i,p). This is Shen et al. 2021 as described by Ortega and Jafarkhani. A lost frame is left
    out: the mean is that of the models received, the sum is the mean cost received times the number of agents, and the
    agents' models differ from then on.

    A coder of changes encodes the step from the common θ_p, because encoding the model itself would cause an error
    proportional to the model in every round, however small η.

    Parameters
    ----------
    cost : MultiKernelCost
        The agent's stream and loss.
    count : int
        Number of rounds.
    agents : int
        Number of agents, all of which must be neighbours of each other.
    eta : float or schedule
        Step η > 0 of learning, of models and weights alike.
    coder : netsim.coders.Coder, optional
        Encodes the model, or its change; default: the model is sent unencoded (float64).

    Attributes
    ----------
    model : ndarray of shape (P, K)
        θ_p, one per row. Replaced by a new array, never modified in place.
    kernel_weights : KernelWeights
        w̄_p.
    """

    paper = papers.SHEN
    cost: MultiKernelCost
    count: int
    _: KW_ONLY
    agents: int
    eta: Scheduled = Scheduled(above=0.0)
    coder: Coder = Exact()
    model: Array = field(init=False)
    kernel_weights: KernelWeights = field(init=False)

    def __post_init__(self) -> None:
        self.count = check.integer("count", self.count, low=0)
        self.agents = check.integer("agents", self.agents, low=1)
        self.model = np.zeros(self.cost.size)
        self.kernel_weights = KernelWeights(self.cost.kernels)
        self.coder = self.coder.fresh()

    async def run(self) -> None:
        """Take part in the rounds; raise BadInput unless all other agents are neighbours."""
        if len(self.neighbors) != self.agents - 1:
            raise BadInput(
                f"agent {self.name!r} has {len(self.neighbors)} neighbours: must be {self.agents - 1}, all others "
                "(complete OMKL needs a complete graph)"
            )
        # All agents sum in the same order, so that their sums round alike.
        order = sorted((self.name, *self.neighbors), key=lambda name: repr(plain_name(name)))
        async for k in self.rounds(self.count):
            advance(self, k)
            costs = self.cost.draw(self.model, self.kernel_weights.values)
            step = -self.eta * self.cost.gradient(self.model)
            sent = self._coded(step), costs.astype(np.float32)
            await self.broadcast("model", sent)
            self._learn({self.name: sent} | {frame.sender: frame.payload for frame in await self.collect()}, order)

    def _coded(self, step: Vector) -> Encoded:
        """Return the encoded model after a step, or the encoded step if the coder encodes changes."""
        return self.coder.encode(self.model + step if self.coder.whole else step, self.rng)

    def _learn(self, sent: Mapping[Hashable, tuple[Encoded, NDArray[np.float32]]], order: Sequence[Hashable]) -> None:
        """Update the model by the mean of the models (or steps) received, and the weights by the mean costs."""
        heard = [sent[name] for name in order if name in sent]
        mean = np.mean([decoded(coded) for coded, _ in heard], axis=0)
        self.model = mean if self.coder.whole else self.model + mean
        costs = np.asarray(np.mean([costs for _, costs in heard], axis=0, dtype=np.float64))
        self.kernel_weights.learn(self.agents * costs, self.eta)
