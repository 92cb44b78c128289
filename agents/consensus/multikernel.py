"""Online multi-kernel learning: a model for each of P kernels, and weights that favour kernels with small losses.

`GossipOMKL` is the method of Ortega and Jafarkhani, "Gossiped and quantized online multi-kernel learning", 2023, for
any connected graph: agents broadcast coded changes of their hidden states, and keep copies of their neighbours' hidden
states. With one kernel it is the method of Koloskova, Stich and Jaggi, "Decentralized stochastic optimization and
gossip algorithms with compressed communication", 2019. In `CompleteOMKL`, all agents receive all models and losses.
Ortega and Jafarkhani use it for comparison; its source is Shen, Karimi-Bidhendi and Jafarkhani, "Distributed and
quantized online multi-kernel learning", 2021.
"""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

import netsim
from netsim.agents import papers
from netsim.agents.consensus.gossip import Gossip
from netsim.agents.consensus.shared_rounds import steps
from netsim.agents.costs.kernels import MultiKernelCost, gradients, predict_all, take_all
from netsim.agents.papers import Cited
from netsim.agents.schedule import Scheduled, advance
from netsim.agents.theory import gossip
from netsim.coders import Coder, Encoded, Exact, decoded
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.draws import plain_name
from netsim.util.typing import Array, Vector


class KernelWeights:
    """The kernels' weights in the combined prediction, initially equal: w_p ← w_p exp(−η L_p) (eqs. 8, 9).

    L_p is the loss of kernel p. The logarithms of the weights are stored, because the weight of a bad kernel soon
    underflows.
    """

    def __init__(self, kernels: int) -> None:
        self._logarithms: Vector = np.zeros(kernels)

    @property
    def values(self) -> Vector:
        """The normalised weights w̄_p = w_p/Σw_p, shape (P,)."""
        return _normalised(self._logarithms)

    def learn(self, costs: Vector, eta: float) -> None:
        """Update the weights: ``costs`` are the kernels' losses L_p, shape (P,), and ``eta`` is the step size."""
        self._logarithms = self._logarithms - eta * costs


def _normalised(logarithms: Vector) -> Vector:
    """Return the normalised weights w̄_p from the logarithms of the w_p, shape (P,), or (N, P) for N agents."""
    weights = np.exp(logarithms - logarithms.max(axis=-1, keepdims=True))
    normalised: Vector = weights / weights.sum(axis=-1, keepdims=True)
    return normalised


@dataclass(eq=False, repr=False)
class GossipOMKL(Gossip):
    """Gossiped and quantized online multi-kernel learning; CHOCO-SGD (Koloskova et al. 2019) with one kernel.

    For each kernel p, agent i has a hidden state h_i, of which all its neighbours keep copies (`Sharing`). In each
    round the agent predicts its sample with θ'_p and w̄_p, sets w_p ← w_p exp(−η L_p(θ'_p)) and
    θ_p = θ'_p + γ Σ_n w'_in (h_n − h_i), and broadcasts q_p = Q(θ_p − h_i). Both ends of each link add q_p to h_i.
    Finally the agent sets θ'_p = θ_p − η ∇L_p(θ_p). This is algorithm 1 of Ortega and Jafarkhani.

    Two details differ from the paper's listing. First, lines 4 and 6 of the listing use the losses of the models θ_p,t
    before line 8 computes these models. Here the losses of the θ'_p of the previous round are used, the newest models
    available. Second, line 5 of the listing updates the weights before line 6 predicts. Here the prediction uses the
    weights from before the update, as in the paper's eqs. 8 and 9.

    A neighbour from which no frame has arrived counts with h_n = 0, the initial state (line 1), if a censor may have
    suppressed all its broadcasts. Otherwise its frames were lost, and the sum omits it (`Sharing.known`).

    Parameters
    ----------
    cost : MultiKernelCost
        The agent's stream and loss.
    count : int
        Number of rounds.
    eta : float or schedule
        Step size η > 0, for the models and for the kernels' weights.
    gamma, weights, censor, coder
        As in `Gossip`. The paper uses no censor, and the coder ``QSGD(b, by_row=True)``, which sends one norm for each
        kernel.

    Attributes
    ----------
    theta : ndarray of shape (P, K)
        θ_p after the gossip, one per row.
    model : ndarray of shape (P, K)
        θ'_p after the gradient step, used to predict. Replaced by a new array, never modified in place.
    kernel_weights : KernelWeights
        The normalised weights w̄_p of the kernels.
    """

    paper = papers.ORTEGA
    theorems = (gossip.ChocoStep(), gossip.OMKLRegret(), gossip.QSGDBits())
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
        """Return the new θ_p of several agents, or None if a number overflows or an agent is not supported.

        An agent is supported if its cost, loss and weights are instances of netsim's classes, and if its arrays have
        the same shapes as the other agents' arrays.
        """
        costs = [agent.cost for agent in agents]
        samples: tuple[Vector, Vector] | None = None if steps is None else steps.samples(costs, True)
        states = None if samples is None else steps.gossiped(agents)
        known = all(type(agent.kernel_weights) is KernelWeights for agent in agents)
        if samples is None or states is None or not known:
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
        # The results must equal those of single steps to the last bit, but the bits of a NaN may depend on its position
        # in an array. So if a number is not finite, each agent takes its own step.
        if found is None or learned is None or not np.isfinite(learned).all():
            return None
        take_all(costs, found[1])
        for agent, row in zip(agents, learned, strict=True):
            agent.kernel_weights._logarithms = row
        return list(states)

    @classmethod
    def _updates(cls, agents: list[Any]) -> bool:
        costs = [agent.cost for agent in agents]
        samples: tuple[Vector, Vector] | None = steps.samples(costs, False) if steps is not None and agents else None
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
    """Return a context manager that makes numpy raise FloatingPointError instead of a warning.

    After the error each agent takes its own step, in which numpy issues the warning.
    """
    return np.errstate(over="raise", divide="raise", invalid="raise")


def _steps_of(agents: list[Any]) -> Vector:
    """Return the step sizes η of N agents, shape (N, 1)."""
    return np.array([[agent.eta] for agent in agents])


@dataclass(eq=False, repr=False)
class CompleteOMKL(Cited, netsim.Agent):
    """Online multi-kernel learning on a complete graph, where every agent averages all models.

    All agents have the same models θ_p and weights w̄_p. In each round an agent predicts its sample, and broadcasts one
    message with its models after a step, Q(θ_p − η ∇L_p(θ_p)), and its P costs L_p(θ_p) as float32. Then θ_p becomes
    the mean of the models that all agents sent, and w_p ← w_p exp(−η Σ_i L_i,p). This is the method of Shen et al. 2021
    as described by Ortega and Jafarkhani. If a frame is lost, θ_p becomes the mean of the models received, and the
    number of agents times the mean cost received replaces Σ_i L_i,p. From then on the agents' models differ.

    A coder for changes encodes the step −η ∇L_p(θ_p) instead of the model. If it encoded the model itself, the error of
    each round would be proportional to the model, however small η is.

    Parameters
    ----------
    cost : MultiKernelCost
        The agent's stream and loss.
    count : int
        Number of rounds.
    agents : int
        Number of agents, all of which must be neighbours of each other.
    eta : float or schedule
        Step size η > 0, for the models and for the kernels' weights.
    coder : netsim.coders.Coder, optional
        Encodes the models or, for a coder of changes, the steps. By default the models are sent unencoded (float64).

    Attributes
    ----------
    model : ndarray of shape (P, K)
        θ_p, one per row. Replaced by a new array, never modified in place.
    kernel_weights : KernelWeights
        The normalised weights w̄_p of the kernels.
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

    @staticmethod
    def graph_of(graph: "nx.Graph[Any]") -> "nx.Graph[Any]":
        """Return the complete graph with the nodes of ``graph``, because the agents need links between all pairs."""
        complete: nx.Graph[Any] = nx.complete_graph(list(graph))
        return complete

    async def run(self) -> None:
        """Run the rounds; raise BadInput unless all other agents are neighbours."""
        if len(self.neighbors) != self.agents - 1:
            raise BadInput(
                f"agent {self.name!r} has {len(self.neighbors)} neighbours: must be {self.agents - 1}, all others "
                "(complete OMKL needs a complete graph)"
            )
        # All agents add the terms in the same order, so that all get the same rounded sums.
        order = sorted((self.name, *self.neighbors), key=lambda name: repr(plain_name(name)))
        async for k in self.rounds(self.count):
            advance(self, k)
            costs = self.cost.draw(self.model, self.kernel_weights.values)
            step = -self.eta * self.cost.gradient(self.model)
            coded = self.coder.encode(self.model + step if self.coder.whole else step, self.rng)
            sent = coded, costs.astype(np.float32)
            await self.broadcast("model", sent)
            self._learn({self.name: sent} | {frame.sender: frame.payload for frame in await self.collect()}, order)

    def _learn(self, sent: Mapping[Hashable, tuple[Encoded, NDArray[np.float32]]], order: Sequence[Hashable]) -> None:
        """Update the model with the mean of the models (or steps) in ``sent``, and the weights with the mean costs."""
        heard = [sent[name] for name in order if name in sent]
        mean = np.mean([decoded(coded) for coded, _ in heard], axis=0)
        self.model = mean if self.coder.whole else self.model + mean
        costs = np.asarray(np.mean([costs for _, costs in heard], axis=0, dtype=np.float64))
        self.kernel_weights.learn(self.agents * costs, self.eta)
