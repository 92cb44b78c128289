"""Gradient tracking: y_i tracks the mean of all agents' gradients, so constant η leads to the optimum."""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from netsim.agents import papers
from netsim.agents.consensus.base import Diffusion, SharingAgent, asks
from netsim.agents.consensus.gossip import Gossip
from netsim.agents.consensus.sharing import Sharing
from netsim.agents.costs.local import Problem
from netsim.agents.schedule import Scheduled
from netsim.agents.theory import gradient, recursions
from netsim.coders import InParts
from netsim.core import add_weighted_rows
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Array


class Tracking(SharingAgent):
    """Base class of the gradient-tracking methods, with the tracker y_i and the last gradient ∇R_i(θ_i).

    In each round a subclass averages y_i with the neighbours' y_n. Then `track` adds ∇R_i(θ_i⁺) − ∇R_i(θ_i), where θ_i⁺
    is the new θ_i. So Σ_i y_i = Σ_i ∇R_i(θ_i) while no frame is lost. One gradient is computed per round; it may be
    stochastic.

    Attributes
    ----------
    tracker : ndarray
        y_i, in the shape of θ; initially ∇R_i(θ_i).
    gradient : ndarray
        ∇R_i(θ_i).
    """

    cost: Problem
    tracker: Array
    gradient: Array

    def _forget(self) -> None:
        super()._forget()
        self.tracker = self.gradient = np.zeros_like(self.theta)

    def start(self) -> None:
        """Compute the first gradient; a subclass that overrides `start` must call this method."""
        super().start()
        self.tracker = self.gradient = self.cost.gradient(self.theta)

    def outgoing(self) -> Array:
        """Return θ_i and y_i, concatenated along the first axis."""
        return np.concatenate([self.theta, self.tracker])

    def new_sharing(self) -> Sharing:
        """Return a `Sharing` of θ_i and y_i; a coder that encodes changes encodes the two separately."""
        coder = self.coder if self.coder.whole else InParts(self.coder, 2)
        return Sharing(self, self.outgoing().shape, self.censor, coder, coded_start=self.coded_start)

    def track(self, mixed: Array) -> None:
        """Set y_i to ``mixed`` + ∇R_i(θ_i) − the previous round's gradient."""
        before, self.gradient = self.gradient, self.cost.gradient(self.theta)
        self.tracker = mixed + self.gradient - before

    def imbalance(self) -> dict[str, Array]:
        """Return y_i − ∇R_i(θ_i), whose sum over all agents is zero while no frame is lost."""
        return {"tracking_residual": self.tracker - self.gradient}

    def halves(self, stack: Array) -> tuple[Array, Array]:
        """Split a shared array into θ and y, each in the shape of θ."""
        return stack[: len(self.theta)], stack[len(self.theta) :]


@dataclass(eq=False, repr=False)
class DIGing(Tracking, Diffusion):
    """DIGing: θ_i ← Σ_n w_in θ_n − η y_i; y_i ← Σ_n w_in y_n + ∇R_i(θ_i⁺) − ∇R_i(θ_i) (Nedić, Olshevsky, Shi 2017).

    This is algorithm 1 of the paper; θ_i⁺ is the new θ_i. Frames carry θ_i and y_i, so they are twice as long as the
    model. The method needs symmetric, doubly stochastic weights; `PushDIGing` needs no weights.

    A lost frame leaves Σ y_i ≠ Σ ∇R_i(θ_i) for good, so the agents agree on a biased model. With ``running_sums``,
    frames carry S_i, the sum of all y_i so far, instead of y_i. Then y_i = ∇R_i(θ_i) + Σ_n w_in (S_n − S_i), so the
    next frame that arrives over a link corrects the earlier losses on this link, and the limit is exact at any loss
    rate below 1. On ideal links both variants give the same models. Sums sent as float32 lose digits: the final error
    is nearer 1e-4 than 1e-8. After a restart of an agent Σ y_i ≠ Σ ∇R_i(θ_i), with or without running sums.

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i, with its gradient, which may be stochastic.
    running_sums : bool
        Whether frames carry S_i instead of y_i.
    count, eta, weights, unheard, censor, coder
        As in `Diffusion`.
    """

    paper = papers.DIGING
    theorems = (gradient.DIGingStep(), recursions.ExactRate(recursions.diging, "eta"))
    _: KW_ONLY
    running_sums: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.running_sums = check.flag("running_sums", self.running_sums)
        if self.running_sums and not self.coder.whole:
            coder = type(self.coder).__name__
            raise BadInput(f"coder = {coder}: must code states (Exact or Float) with running_sums, for changes add up")

    def _forget(self) -> None:
        super()._forget()
        # Σ_n w_in (S_n − S_i) after the last round.
        self._flow: Array = np.zeros_like(self.theta)

    def outgoing(self) -> Array:
        """Return θ_i and y_i, or θ_i and S_i with running sums, concatenated along the first axis."""
        if not self.running_sums or "sharing" not in vars(self):
            return super().outgoing()
        return np.concatenate([self.theta, self.halves(self.sharing.own)[1] + self.tracker])

    def after_sharing(self) -> None:
        """Set θ_i to the mean Σ_n w_in θ_n minus η y_i, and update y_i."""
        theta_pull, tracker_pull = self.halves(self.pull())
        if self.running_sums:
            before, self._flow = self._flow, self._pull_of_sums()
            tracker_pull = self._flow - before
        mixed = self.tracker + tracker_pull
        self.theta = self.theta + theta_pull - self.eta * self.tracker
        self.track(mixed)

    def _pull_of_sums(self) -> Array:
        """Return Σ_n w_in (S_n − S_i) over all neighbours, with S_n = 0 until the first frame from n arrives.

        `pull` omits a neighbour n from which no frame has arrived, but this method must include n. If n has received
        S_i, n has added w_in S_i to y_n, so agent i must subtract w_in S_i from y_i.
        """
        row = np.array([self.weights[name] for name, _ in self.sharing.copies.items()])
        own = self.sharing.own
        return self.halves(add_weighted_rows(np.zeros_like(own), row, self.sharing.copies.table) - row.sum() * own)[1]

    @asks("gradient")
    def local_step(self) -> Array:
        """Return θ_i unchanged, because `after_sharing` takes the step."""
        return self.theta


@dataclass(eq=False, repr=False)
class BEER(Tracking, Gossip):
    """BEER: gradient tracking over coded differences (Zhao, Li, Li, Richtárik and Chi 2022, algorithm 1).

    θ_i ← θ_i + γ Σ_n w_in (H_n − H_i) − η y_i;  y_i ← y_i + γ Σ_n w_in (G_n − G_i) + ∇R_i(θ_i⁺) − ∇R_i(θ_i);
    H_i ← H_i + Q(θ_i − H_i) and G_i ← G_i + Q(y_i − G_i), both at i and in its neighbours' copies. θ_i⁺ is the new θ_i.
    H and G are initially 0.

    A frame carries both differences, encoded separately, and so has twice the bits of a frame of `CHOCO`. Q must be a
    contraction (`Uniform`, `TopK`, `Sign`; not `QSGD` of few bits); a coarser Q needs a smaller γ. With exact Q and
    γ = 1 the method is gradient tracking.

    A lost difference stays missing from a copy. With 1 % of the frames lost, the models end nearer to zero than to the
    optimum. ``Link(reliability="ack")``, which acknowledges each difference on each link, keeps the limit exact.

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i, with its gradient, which may be stochastic.
    eta : float or schedule
        Step size η > 0.
    count, gamma, weights, censor, coder, unheard
        As in `Gossip`.
    """

    paper = papers.BEER
    _: KW_ONLY
    eta: Scheduled = Scheduled(above=0.0)

    @asks("gradient")
    def local_step(self) -> Array:
        """Return the new θ_i, and update y_i."""
        theta_pull, tracker_pull = self.halves(self.gamma * self.pull())
        mixed = self.tracker + tracker_pull
        self.theta = self.theta + theta_pull - self.eta * self.tracker
        self.track(mixed)
        return self.theta
