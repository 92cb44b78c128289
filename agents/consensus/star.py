"""Methods of a server and its clients, over a star: EF21 and EF21-P, which send coded differences one way.

A round is down and up: the server broadcasts, and a client answers as soon as it hears it, so two latencies must be
shorter than a round.
"""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass

import netsim
from netsim import Frame
from netsim.agents import papers
from netsim.agents.consensus.base import SharingAgent, asks
from netsim.agents.consensus.censor import Censor
from netsim.agents.consensus.sharing import Sharing
from netsim.agents.costs.local import Problem
from netsim.agents.schedule import Scheduled, advance
from netsim.coders import Coder, Exact
from netsim.errors import BadInput
from netsim.util.typing import Array


class StarSharing(Sharing):
    """A sharing whose ends send by different coders: one of them codes differences, or none."""

    def __init__(
        self, agent: netsim.Agent, size: int | tuple[int, ...], censor: Censor, coder: Coder, other: Coder
    ) -> None:
        super().__init__(agent, size, censor, coder)
        self._hears_changes = not other.whole


@dataclass(eq=False, repr=False)
class OverStar(SharingAgent):
    """Base of methods in which a server has the model, and clients tell it of their gradients.

    In each round the server broadcasts its state. A client that hears it answers, and the server takes the step with
    what it knows of all. The server's own data need no message: it knows their gradient as it is.

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i, the server's, too, of which it needs the gradient (stochastic, if it likes).
    eta : float or schedule
        Step size η > 0.
    server : hashable
        The name of the server. All links must be its own.
    count, censor, coder
        As in `SharingAgent`.

    Attributes
    ----------
    theta : ndarray
        The server's model; at a client what it knows of it.

    Raises
    ------
    BadInput
        When the run begins, unless the graph is a star with the server in its middle.
    """

    cost: Problem
    _: KW_ONLY
    eta: Scheduled = Scheduled(above=0.0)
    server: Hashable = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coded_start:
            raise BadInput(f"coded_start = True: must be False for {type(self).__name__}, which codes in one direction")

    @property
    def is_server(self) -> bool:
        """Whether this is the server."""
        return self.name == self.server

    def start(self) -> None:
        """Check the graph."""
        if not self.is_server and self.neighbors != (self.server,):
            shown = ", ".join(map(repr, self.neighbors[:4])) or "none"
            allowed = f"must be a star around server = {self.server!r} for {type(self).__name__}"
            raise BadInput(f"graph: {allowed}; the neighbours of {self.name!r} are {shown}")

    async def run(self) -> None:
        """Take part in the rounds."""
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
        """Answer the server in a round, and return the round's frames; an error of the answer is raised here."""
        answering = asyncio.create_task(self._answer(k))
        frames = await self.collect()
        if answering.done():
            answering.result()
        else:
            answering.cancel()
        return frames

    async def _answer(self, k: int) -> None:
        """Answer the server once it is heard; repeats of earlier frames may come before."""
        number = 0
        while number != k:
            frame = await self.inbox.get()
            number = frame.round
            self._hear_server([frame], k)
        if "sharing" in vars(self):
            self.theta = self.sharing.copies[self.server].copy()
            await self.sharing.say(self.local_step(), k)

    def _hear_server(self, frames: Sequence[Frame], k: int) -> None:
        """Take in frames, unless the agent has just restarted."""
        if "sharing" in vars(self):
            self.sharing.hear(frames, k)

    def after_sharing(self) -> None:
        """Take the server's step: θ ← θ − η/N (∇R_0 + Σ_n g_n), g_n what it knows of client n's gradient."""
        total = self.local_step() + self.sharing.sum_of_copies()
        self.theta = self.theta - self.eta / (1 + len(self.neighbors)) * total

    @asks("gradient")
    def local_step(self) -> Array:
        """Return ∇R_i at what is known of the model."""
        return self.cost.gradient(self.theta)

    def _sharing(self, *, codes: bool) -> Sharing:
        """Return a sharing in which this agent, or else those at the other ends, code differences."""
        plain = self.coder if self.coder.whole else Exact()
        coder, other = (self.coder, plain) if codes else (plain, self.coder)
        return StarSharing(self, self.theta.shape, self.censor, coder, other)


@dataclass(eq=False, repr=False)
class EF21(OverStar):
    """EF21: error feedback by coded differences of gradients (Richtárik, Sokolov and Fatkhullin 2021).

    The server sends θ; a client sends Q(∇R_i(θ) − g_i) and both ends add it to g_i, at first 0;  θ ← θ − η/N Σ_i g_i.

    It is a method of a server, over a star; `BEER` has the same differences on any graph. Q is any contraction (`TopK`,
    `Sign`, `Uniform`; not `QSGD` of few bits). With smooth costs it converges as fast as gradient descent up to a
    constant, linearly under strong convexity or the Polyak-Łojasiewicz inequality, where error feedback
    (`ErrorFeedback`) with steps of one size does not.

    Up go coded differences, down goes the model in the bits of `Exact` (or of ``coder``, if it codes states). A model
    that is lost costs nothing but time: that client's g_i waits at both ends. A difference that is lost stays missing
    from the server's g_i, so that the limit moves, for good. With ``Link(reliability="ack")`` it is as without loss.
    With "nack" and "keyframe" it is exact in the limit: nothing but g_i remembers what was lost, g_i lacks it until the
    repair or the next key frame only, and the differences fade.

    Parameters
    ----------
    cost, count, eta, server, censor, coder
        As in `OverStar`.
    """

    paper = papers.EF21

    def new_sharing(self) -> Sharing:
        """Return a sharing of θ, or of coded differences of the gradient."""
        return self._sharing(codes=not self.is_server)


@dataclass(eq=False, repr=False)
class EF21P(OverStar):
    """EF21-P: the server's model travels in coded differences (Gruntkowska, Tyurin and Richtárik 2023).

    The server sends Q(θ − w) and both ends add it to w, at first 0; a client sends ∇R_i(w);  θ ← θ − η/N Σ_i ∇R_i(w).

    It is a method of a server, over a star. Q is any contraction (`TopK`, `Sign`, `Uniform`). Down go coded
    differences, up go gradients in the bits of `Exact` (or of ``coder``, if it codes states). The server's own gradient
    is at w, too. Clients' ``theta`` is w.

    A gradient that is lost leaves the last one in its place, which costs nothing but time. A difference that is lost
    stays missing from that client's w, so that its gradient is taken elsewhere and the limit moves, for good.
    With ``Link(reliability="ack")`` it is as without loss, with "nack" and "keyframe" exact in the limit, as `EF21`.

    Parameters
    ----------
    cost, count, eta, server, censor, coder
        As in `OverStar`.
    """

    paper = papers.EF21P

    def new_sharing(self) -> Sharing:
        """Return a sharing of coded differences of θ, or of the gradient."""
        return self._sharing(codes=self.is_server)

    @asks("gradient")
    def local_step(self) -> Array:
        """Return ∇R_i(w)."""
        return self.cost.gradient(self.sharing.own if self.is_server else self.theta)
