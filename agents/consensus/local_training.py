"""Relaxed ADMM with exact local steps, and LT-ADMM, which takes a few gradient steps instead.

Agent i holds a variable z_in for each neighbour n, and sends each neighbour one message per round. A lost message only
delays convergence, because the methods do not rely on a sum over all agents.
"""

from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import netsim
from netsim import Frame
from netsim.agents import papers
from netsim.agents.consensus.base import Proximal, asks
from netsim.agents.consensus.duals import Rho, Sending
from netsim.agents.consensus.edges import EdgeSharing, checked_relaxation
from netsim.agents.consensus.sharing import Sharing
from netsim.agents.costs.local import Problem
from netsim.agents.schedule import Scheduled
from netsim.errors import AgentError, BadInput
from netsim.util import check
from netsim.util.typing import Array, Vector


@dataclass(eq=False, repr=False)
class RelaxedADMM(Proximal):
    """Relaxed ADMM (Bastianello, Todescato, Carli and Schenato 2018, algorithm R-ADMM).

    θ_i = argmin R_i(θ) − (Σ_n z_in)ᵀθ + (ρ d_i/2)‖θ‖²; send 2ρ θ_i − z_in to each neighbour n; when the message of n
    arrives, z_in ← (1 − α) z_in + α (2ρ θ_n − z_ni).

    The method needs no weights. A lost message leaves z_in unchanged, so the limit is exact at any loss rate below 1.
    Each neighbour needs a different frame, so agent i, with d_i neighbours, transmits d_i frames per round. `DKLA` with
    `EdgeDuals` and the penalty ρ/2 is the same method.

    A coder that encodes states (`Exact`, `Float`) is applied to each message. Any other coder is applied to the
    difference between the message and an older message that the neighbour is known to have (`KnownEdges`). Frames then
    also carry three integers that number and acknowledge messages, so neither lost frames nor lost acknowledgements do
    harm.

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i, with its proximal step.
    rho : float or schedule
        Penalty ρ > 0.
    relaxation : float
        α, in (0, 1).
    count, censor, coder
        As in `SharingAgent`.
    """

    paper = papers.BASTIANELLO
    cost: Problem
    _: KW_ONLY
    rho: Scheduled = Scheduled(above=0.0)
    relaxation: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.relaxation = checked_relaxation(self.relaxation)
        if self.coded_start:
            raise BadInput(f"coded_start = True: must be False for {type(self).__name__}, whose z begin as zeros")
        if self.coder.fresh() is not self.coder:
            kind = type(self.coder).__name__
            raise BadInput(f"coder = {kind}: must have no memory for {type(self).__name__}, whose frames are for one")

    def new_sharing(self) -> Sharing:
        """Return a `Sharing` that sends 2ρ θ_i − z_in to each neighbour n."""
        kind = EdgeSharing if self.coder.whole else KnownEdges
        return kind(self, self.theta.shape, self._sending, lambda: self.rho / 2.0, self.relaxation)

    @property
    def degree(self) -> int:
        """The number of neighbours d_i."""
        return len(self.neighbors)

    def edges_sum(self) -> Array:
        """Return Σ_n z_in."""
        assert isinstance(self.sharing, EdgeSharing)
        return self.sharing.edges_sum()

    @asks("proximal")
    def local_step(self) -> Array:
        """Return argmin R_i(θ) − (Σ_n z_in)ᵀθ + (ρ d_i/2)‖θ‖²."""
        return self.minimum(0.5 * self.rho * self.degree, -self.edges_sum())


@dataclass(eq=False, repr=False)
class LTADMM(RelaxedADMM):
    """LT-ADMM: relaxed ADMM with τ gradient steps for the local problem (Ren, Bastianello, Johansson, Parisini 2025).

    φ ← θ_i;  τ times φ ← φ − η ∇R_i(φ) − β (ρ d_i θ_i − Σ_n z_in);  θ_i ← φ;  messages and z as in `RelaxedADMM`.

    The term with β uses the θ_i of the previous round in all τ steps, as in the implementation by one of the paper's
    authors (decent-bench, LT_ADMM). With stochastic gradients θ_i stays in a neighbourhood of the optimum. The method
    needs no weights, and lost messages leave the limit exact. Messages are encoded as in `RelaxedADMM`. The authors'
    compressed method (LT-ADMM-CC, arXiv 2508.15509) differs: it encodes θ and z separately.

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i, with its gradient, which may be stochastic.
    eta : float or schedule
        Step size η > 0 of the local steps.
    beta : float or schedule
        Step size β > 0 of the term that pulls θ_i towards the neighbours' states.
    tau : int
        Number τ of local steps in each round.
    count, rho, relaxation, censor, coder
        As in `RelaxedADMM`.
    """

    paper = papers.LTADMM
    _: KW_ONLY
    eta: Scheduled = Scheduled(above=0.0)
    beta: Scheduled = Scheduled(above=0.0)
    tau: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tau = check.integer("tau", self.tau, low=1)

    @asks("gradient")
    def local_step(self) -> Array:
        """Return φ after τ steps from θ_i."""
        pull = self.beta * (self.rho * self.degree * self.theta - self.edges_sum())
        phi = self.theta
        for _ in range(self.tau):
            phi = phi - self.eta * self.cost.gradient(phi) - pull
        return phi


class KnownEdges(EdgeSharing):
    """An `EdgeSharing` that encodes the difference Q(message − base) to a base that the receiver is known to have.

    The base is an older message from the same sender. A frame from i to n holds [number of the message, number of the
    base, number of the last message that i received from n, Q(message − base)]. The third number is an acknowledgement:
    n uses the acknowledged message as the base of its next messages. Both ends store all messages that may still serve
    as a base. Message 0 is the zero vector, which both ends know from the start.
    """

    def __init__(
        self, agent: netsim.Agent, size: int | tuple[int, ...], sending: Sending, rho: Rho, alpha: float
    ) -> None:
        super().__init__(agent, size, sending, rho, alpha)
        # Messages sent to each neighbour, {neighbour: {number: message}}, oldest first.
        self._mine = {name: {0: self._start} for name in agent.neighbors}
        # Messages received from each neighbour, {neighbour: {number: message}}, oldest first.
        self._theirs = {name: {0: self._start} for name in agent.neighbors}

    async def _send(self, name: Hashable, message: Vector) -> bool:
        """Send a message to a neighbour, encoded as a difference; return whether the link accepted it."""
        mine = self._mine[name]
        base, known = next(iter(mine.items()))
        coded = self._coder.encode(message - known, self._rng)
        taken = await self._agent.send(name, "edge", [self._number, base, max(self._theirs[name]), coded])
        if taken:
            mine[self._number] = known + self._coder.decode(coded)
        return taken

    def hear(self, frames: Sequence[Frame], round_number: int) -> None:
        """Update z_in and the stored messages with the last frame from each neighbour n."""
        for name, frame in {frame.sender: frame for frame in frames}.items():
            number, base, heard, coded = _parts_of(frame, self.own.shape)
            mine, theirs = self._mine[name], self._theirs[name]
            if heard in mine:
                self._mine[name] = {each: value for each, value in mine.items() if each >= heard}
            if number <= max(theirs) or base not in theirs:
                continue
            value = theirs[base] + self._coder.decode(coded)
            self._theirs[name] = {each: kept for each, kept in theirs.items() if each >= base} | {number: value}
            self.edges[name] = (1.0 - self._alpha) * self.edges[name] + self._alpha * value
            self._ever.add(name)


def _parts_of(frame: Frame, shape: tuple[int, ...]) -> tuple[int, int, int, Any]:
    """Return the four fields of a frame's payload; raise AgentError if the payload has another form."""
    payload = frame.payload
    if type(payload) is list and len(payload) == 4:
        number, base, heard, coded = payload
        if type(number) is type(base) is type(heard) is int and getattr(coded, "shape", None) == shape:
            return number, base, heard, coded
    allowed = f"three numbers and a coded array of shape {shape}"
    raise AgentError(f"{frame!r}: its payload must be {allowed}, not {frame.payload!r:.60}")
