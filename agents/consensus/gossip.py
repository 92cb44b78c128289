"""Gossip with coded states: each agent moves its model towards its copies of the neighbours' states."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from netsim.agents import papers
from netsim.agents.consensus.base import Weighted, asks
from netsim.agents.costs.local import Problem
from netsim.agents.schedule import Scheduled
from netsim.agents.theory import gossip
from netsim.util.typing import Array


@dataclass(eq=False, repr=False)
class Gossip(Weighted):
    """Base class of the methods with a term γ Σ_n w_in (θ̂_n − θ̂_i) (Koloskova, Stich and Jaggi 2019, CHOCO-gossip).

    θ̂_i is the state that agent i last broadcast, of which its neighbours keep copies.

    Parameters
    ----------
    gamma : float or schedule
        Step γ > 0 of the gossip.
    weights : mapping
        w_in of each neighbour, by name: a row of a symmetric, doubly stochastic matrix.
    unheard : {"kept", "dropped"}
        Whether a neighbour from which no frame arrived in this round counts with its last θ̂_n ("kept") or not at all
        ("dropped"), as in `Diffusion`.
    cost, count, censor, coder, coded_start
        As in `SharingAgent`.
    """

    paper = papers.KOLOSKOVA
    _: KW_ONLY
    gamma: Scheduled = Scheduled(above=0.0)
    weights: Mapping[Any, float]
    unheard: str = "kept"
    weighs_itself = False


@dataclass(eq=False, repr=False)
class CHOCO(Gossip):
    """CHOCO-SGD: gradient steps, and gossip of coded changes (Koloskova, Stich and Jaggi 2019, algorithm 2).

    θ_i ← θ_i − η ∇R_i(θ_i); broadcast Q(θ_i − θ̂_i), which both ends add to θ̂_i; θ_i ← θ_i + γ Σ_n w_in (θ̂_n − θ̂_i).
    Q may be unbiased or a contraction; a coarser Q needs a smaller γ.

    A lost change stays missing from a copy of θ̂_i, so the loss of 1 % of the frames already biases the models. With
    ``Link(reliability="ack")`` the result is the same as without loss; with "nack" and "keyframe" it is nearly the
    same.

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i.
    eta : float or schedule
        Step size η ≥ 0; with 0 the agents only average (CHOCO-gossip).
    count, gamma, weights, censor, coder, coded_start
        As in `Gossip`.
    """

    theorems = (gossip.ChocoStep(),)
    cost: Problem
    _: KW_ONLY
    eta: Scheduled = Scheduled(low=0.0)

    @asks("gradient")
    def local_step(self) -> Array:
        """Return θ_i − η ∇R_i(θ_i)."""
        return self.theta - self.eta * self.cost.gradient(self.theta)

    def after_sharing(self) -> None:
        """Gossip: θ_i ← θ_i + γ Σ_n w_in (θ̂_n − θ̂_i)."""
        self.theta = self.theta + self.gamma * self.pull()
