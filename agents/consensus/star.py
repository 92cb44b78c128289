"""Server-client methods over a star: EF21 and EF21-P, which send coded differences in one direction, and LAG.

In a round the server broadcasts, and each client replies within the same round. So a round must last longer than two
link latencies.
"""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import networkx as nx

from netsim import Frame
from netsim.agents import papers
from netsim.agents.consensus.base import SharingAgent, asks
from netsim.agents.consensus.censor import Always, Censor, Lazy
from netsim.agents.consensus.sharing import Sharing
from netsim.agents.costs.local import Problem
from netsim.agents.schedule import Scheduled, advance
from netsim.coders import Exact
from netsim.errors import BadInput
from netsim.util.typing import Array


@dataclass(eq=False, repr=False)
class OverStar(SharingAgent):
    """Base class of the methods in which a server holds the model, and clients send it their gradients.

    In each round the server broadcasts its state, the clients that receive it reply, and the server takes a step with
    the last known gradient of each client. The gradient of the server's own data needs no message.

    Without a coder this class is gradient descent, θ ← θ − η/N Σ_i ∇R_i(θ). With ``censor=Lazy()`` it is LAG (Chen,
    Giannakis, Sun and Yin 2018): a client replies only if its gradient has changed by more than a threshold that the
    server's last steps determine. A lost model only costs time. A lost reply only costs time, too, if the client sends
    another reply later; a censor may suppress all later replies.

    Parameters
    ----------
    cost : Problem
        The cost R_i of the agent (the server or a client), with its gradient, which may be stochastic.
    eta : float or schedule
        Step size η > 0.
    server : hashable
        The server's name. Each link must connect the server and a client.
    count, censor, coder
        As in `SharingAgent`. The censor `Lazy` applies to the clients only; the server sends its model in every round.

    Attributes
    ----------
    theta : ndarray
        At the server, the model; at a client, its copy of the model.

    Raises
    ------
    BadInput
        When the run begins, unless the graph is a star with the server at its centre.
    """

    paper = papers.LAG
    has_server = True

    cost: Problem
    _: KW_ONLY
    eta: Scheduled = Scheduled(above=0.0)
    server: Hashable = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coded_start:
            raise BadInput(f"coded_start = True: must be False for {type(self).__name__}, which codes in one direction")

    @staticmethod
    def graph_of(graph: "nx.Graph[Any]") -> "nx.Graph[Any]":
        """Return a star with the nodes of ``graph``, whose first node is the centre."""
        star: nx.Graph[Any] = nx.star_graph(list(graph))
        return star

    @property
    def is_server(self) -> bool:
        """Whether this agent is the server."""
        return self.name == self.server

    def start(self) -> None:
        """Raise BadInput unless the graph is a star around the server."""
        if not self.is_server and self.neighbors != (self.server,):
            shown = ", ".join(map(repr, self.neighbors[:4])) or "none"
            allowed = f"must be a star around server = {self.server!r} for {type(self).__name__}"
            raise BadInput(f"graph: {allowed}; the neighbours of {self.name!r} are {shown}")

    async def run(self) -> None:
        """Run the rounds, as the server or as a client."""
        self.begin()
        async for k in self.rounds(self.count):
            advance(self, k)
            if "sharing" not in vars(self):
                self.begin()
            if self.is_server:
                await self.sharing.say(self.theta, k)
                self.hear(await self.collect(), k)
            else:
                self._hear_server(await self._take_part(k), k)

    async def _take_part(self, k: int) -> Sequence[Frame]:
        """Reply to the server's frame when it arrives, and return all frames of the round.

        An error raised while the reply is computed or sent is raised here.
        """
        answering = asyncio.create_task(self._answer(k))
        frames = await self.collect()
        if answering.done():
            answering.result()
        else:
            answering.cancel()
        return frames

    async def _answer(self, k: int) -> None:
        """Wait for the server's frame of round k, and reply to it. Retransmitted older frames may arrive before it."""
        number = 0
        while number != k:
            frame = await self.inbox.get()
            number = frame.round
            self._hear_server([frame], k)
        if "sharing" in vars(self):
            self.theta = self.sharing.copies[self.server].copy()
            await self.sharing.say(self.local_step(), k)

    def _hear_server(self, frames: Sequence[Frame], k: int) -> None:
        """Apply the server's frames. An agent that has just restarted ignores them, because it has no copy yet."""
        if "sharing" in vars(self):
            self.sharing.hear(frames, k)

    def after_sharing(self) -> None:
        """Take the server's step: θ ← θ − η/N (∇R_0 + Σ_n g_n), where g_n is the last known gradient of client n."""
        total = self.local_step() + self.sharing.sum_of_copies()
        self.theta = self.theta - self.eta / (1 + len(self.neighbors)) * total

    @asks("gradient")
    def local_step(self) -> Array:
        """Return ∇R_i at the agent's θ."""
        return self.cost.gradient(self.theta)

    def new_sharing(self) -> Sharing:
        """Return a `Sharing` that sends θ at the server, and the gradient at a client."""
        return Sharing(self, self.theta.shape, self._censor(), self.coder)

    def _censor(self) -> Censor:
        """Return the censor that this agent uses in this run."""
        if not isinstance(self.censor, Lazy):
            return self.censor
        return Always() if self.is_server else self.censor.at(self)

    def _sharing(self, *, codes: bool) -> Sharing:
        """Return a `Sharing` in which either this agent (if ``codes``) or its neighbours send encoded differences."""
        plain = self.coder if self.coder.whole else Exact()
        coder, other = (self.coder, plain) if codes else (plain, self.coder)
        sharing = Sharing(self, self.theta.shape, self._censor(), coder)
        sharing.hears_changes = not other.whole
        return sharing


@dataclass(eq=False, repr=False)
class EF21(OverStar):
    """EF21: error feedback by coded differences of gradients (Richtárik, Sokolov and Fatkhullin 2021).

    The server sends θ; a client sends Q(∇R_i(θ) − g_i), which both ends add to g_i, initially 0; θ ← θ − η/N Σ_i g_i.

    The graph must be a star; `BEER` sends similar differences on any graph. Q is any contraction (`TopK`, `Sign`,
    `Uniform`; not `QSGD` of few bits). For smooth costs EF21 converges as fast as gradient descent up to a constant
    factor. Under strong convexity or the Polyak-Łojasiewicz inequality it converges linearly, which error feedback
    (`ErrorFeedback`) with constant η does not.

    Clients send coded differences. The server encodes the model with `Exact`, or with ``coder`` if that encodes states.
    A lost model only costs time: the client's g_i stays unchanged at both ends. A lost difference stays missing from
    the server's g_i, and so biases the limit permanently. With ``Link(reliability="ack")`` the result is the same as
    without loss. With "nack" and "keyframe" the limit is exact: a lost difference affects only g_i, the retransmission
    or the next key frame restores g_i, and the differences vanish as the models converge.

    Parameters
    ----------
    cost, count, eta, server, censor, coder
        As in `OverStar`.
    """

    paper = papers.EF21

    def new_sharing(self) -> Sharing:
        """Return a `Sharing` that sends θ at the server, and coded differences of the gradient at a client."""
        return self._sharing(codes=not self.is_server)


@dataclass(eq=False, repr=False)
class EF21P(OverStar):
    """EF21-P: the server sends its model as coded differences (Gruntkowska, Tyurin and Richtárik 2023).

    The server sends Q(θ − w), which both ends add to w, initially 0; a client sends ∇R_i(w); θ ← θ − η/N Σ_i ∇R_i(w).

    The graph must be a star. Q is any contraction (`TopK`, `Sign`, `Uniform`). Clients encode gradients with `Exact`,
    or with ``coder`` if that encodes states. The gradient of the server's own data is also computed at w. A client's
    ``theta`` is w.

    After a lost gradient the server uses the client's previous gradient, and the loss only costs time. A lost
    difference stays missing from that client's w, so the client computes its gradients at another point, and the limit
    is biased permanently. With ``Link(reliability="ack")`` the result is the same as without loss; with "nack" and
    "keyframe" the limit is exact, as for `EF21`.

    Parameters
    ----------
    cost, count, eta, server, censor, coder
        As in `OverStar`.
    """

    paper = papers.EF21P

    def new_sharing(self) -> Sharing:
        """Return a `Sharing` that sends coded differences of θ at the server, and the gradient at a client."""
        return self._sharing(codes=self.is_server)

    @asks("gradient")
    def local_step(self) -> Array:
        """Return ∇R_i(w)."""
        return self.cost.gradient(self.sharing.own if self.is_server else self.theta)
