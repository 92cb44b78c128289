"""Federated methods with sampled clients around a server: FedAvg and SCAFFOLD.

In a round the server sends its model to the sampled clients, and each client replies within the same round. So a round
must last longer than two link latencies.
"""

from collections.abc import Hashable, Mapping
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from netsim import Frame
from netsim.agents import papers
from netsim.agents.consensus.base import asks
from netsim.agents.consensus.censor import Always
from netsim.agents.consensus.star import OverStar
from netsim.agents.schedule import advance
from netsim.core.copies import as_state
from netsim.errors import BadInput
from netsim.util import check
from netsim.util.typing import Array


@dataclass(eq=False, repr=False)
class FedAvg(OverStar):
    """FedAvg: sampled clients take τ local steps each, and the server averages the results (McMahan et al. 2017).

    The server draws a set S of agents and sends them θ. Each agent i ∈ S sets y_i ← θ, repeats y_i ← y_i − η ∇R_i(y_i)
    τ times, and sends y_i back. The server sets θ to the mean of the y_i received. This is algorithm 1 of the paper,
    with equal weights.

    The server has data, too, and may be in S; its y_i needs no message. The random sets S depend only on the network's
    seed and the server's name. The graph must be a star. The cost needs a gradient, which may be stochastic. If τ > 1
    and the costs differ, the model only approaches the optimum. A lost frame removes one client from one round, without
    lasting effect.

    Parameters
    ----------
    cost : Problem
        The cost R_i of the agent (the server or a client), with its gradient.
    eta : float or schedule
        Step size η of the local steps.
    tau : int
        Number τ of local steps.
    share : float
        The fraction of all agents drawn into S, in (0, 1]; S has at least one agent.
    count, server, coder
        As in `OverStar`; the coder must encode states (`Exact`, `Float`).
    """

    paper = papers.FEDAVG
    _: KW_ONLY
    tau: int = 5
    share: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tau = check.integer("tau", self.tau, low=1)
        self.share = check.finite("share", self.share, above=0.0)
        if self.share > 1.0:
            raise check.refuse("share", self.share, "> 0 and <= 1")
        kind = type(self).__name__
        if not self.coder.whole:
            raise BadInput(f"coder = {type(self.coder).__name__}: must code states (Exact or Float) with {kind}")
        if not isinstance(self.censor, Always):
            censor = type(self.censor).__name__
            raise BadInput(f"censor = {censor}: must be left out with {kind}, whose clients are drawn")

    async def run(self) -> None:
        """Run the rounds, as the server or as a client."""
        self.start()
        async for k in self.rounds(self.count):
            advance(self, k)
            if self.is_server:
                drawn = self._draw()
                for name in drawn:
                    if name != self.server:
                        await self.send(name, "model", self._coded(self.down()))
                heard = {frame.sender: self._values(frame) for frame in await self.collect()}
                if self.server in drawn:
                    heard[self.server] = self.up(self.down())
                # Sort the replies in the order of ``drawn``: the rounding of their sum must not depend on arrivals.
                self.theta = self.after_round({name: heard[name] for name in drawn if name in heard})
            else:
                await self._take_part(k)

    def down(self) -> Array:
        """Return the array that the server sends: θ."""
        return self.theta

    @asks("gradient")
    def local_step(self) -> Array:
        """Return y_i after τ local steps from θ."""
        y = self.theta
        for _ in range(self.tau):
            y = y - self.eta * self.cost.gradient(y)
        return y

    def up(self, heard: Array) -> Array:
        """Return a client's reply y_i to the array ``heard`` that the server sent."""
        self.theta = heard
        return self.local_step()

    def after_round(self, answers: Mapping[Hashable, Array]) -> Array:
        """Return the server's new model, given the replies received."""
        return np.mean(list(answers.values()), axis=0) if answers else self.theta

    def _draw(self) -> list[Hashable]:
        """Return the agents in S: the server, if drawn, comes first, then the clients in the order of `neighbors`."""
        everyone = [self.server, *self.neighbors]
        size = max(1, round(self.share * len(everyone)))
        return [everyone[place] for place in sorted(self.rng.choice(len(everyone), size, replace=False).tolist())]

    async def _answer(self, k: int) -> None:
        """Wait for the server's frame, and reply to it."""
        frame = await self.inbox.get()
        await self.send(self.server, "update", self._coded(self.up(self._values(frame))))

    def _coded(self, state: Array) -> object:
        return self.coder.encode(state, self.rng)

    def _values(self, frame: Frame) -> Array:
        return np.asarray(as_state(frame, self.down().shape), dtype=np.float64)


@dataclass(eq=False, repr=False)
class SCAFFOLD(FedAvg):
    """SCAFFOLD: FedAvg whose local steps are corrected by control variates (Karimireddy et al. 2020, algorithm 1).

    The server sends (θ, c). Each agent i ∈ S sets y_i ← θ, repeats y_i ← y_i − η (∇R_i(y_i) − c_i + c) τ times, sets
    c_i⁺ = c_i − c + (θ − y_i)/(τ η) (option II), and sends y_i and c_i⁺ − c_i. The server sets θ ← θ + mean(y_i − θ)
    and c ← c + Σ_{i ∈ S} (c_i⁺ − c_i)/N. With constant η the method converges to the optimum.

    In the published method, the client of a lost reply has changed its c_i, but the server never changes c accordingly,
    so any loss biases the limit. With ``resends_state``, clients send c_i⁺, and c is the mean of the server's table of
    all c_i⁺. A client's next reply then corrects the loss, and the limit is exact. On ideal links both variants give
    the same models.

    Parameters
    ----------
    resends_state : bool
        Whether clients send c_i⁺ instead of c_i⁺ − c_i.
    cost, count, eta, tau, share, server, coder
        As in `FedAvg`.

    Attributes
    ----------
    control : ndarray
        c_i at a client, c at the server. The attribute ``own_control`` holds the c_i of the server's own data.
    """

    paper = papers.SCAFFOLD
    _: KW_ONLY
    resends_state: bool = False
    control: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.resends_state = check.flag("resends_state", self.resends_state)

    def _forget(self) -> None:
        super()._forget()
        self.control = np.zeros_like(self.theta)
        self.own_control = np.zeros_like(self.theta)
        # At the server: the last known c_i of each agent.
        self._table: dict[Hashable, Array] = {}

    def imbalance(self) -> dict[str, Array]:
        """Return c_i at a client and c_i − N c at the server; these sum to zero while no frame is lost."""
        if not self.is_server:
            return {"dual_residual": self.control}
        return {"dual_residual": self.own_control - (1 + len(self.neighbors)) * self.control}

    def down(self) -> Array:
        """Return θ and c, concatenated along the first axis."""
        return np.concatenate([self.theta, self.control])

    def up(self, heard: Array) -> Array:
        """Return y_i and c_i⁺ − c_i, or y_i and c_i⁺ with ``resends_state``, concatenated along the first axis."""
        self.theta, control = heard[: len(self.theta)], heard[len(self.theta) :]
        before = self.own_control if self.is_server else self.control
        y = self.theta
        for _ in range(self.tau):
            y = y - self.eta * (self.cost.gradient(y) - before + control)
        after = before - control + (self.theta - y) / (self.tau * self.eta)
        if self.is_server:
            self.own_control = after
        else:
            self.control = after
        return np.concatenate([y, after if self.resends_state else after - before])

    def after_round(self, answers: Mapping[Hashable, Array]) -> Array:
        """Update c, and return the server's new model."""
        size, everyone = len(self.theta), 1 + len(self.neighbors)
        for name, answer in answers.items():
            known = self._table.get(name, np.zeros_like(self.theta))
            after = answer[size:] if self.resends_state else known + answer[size:]
            self.control = self.control + (after - known) / everyone
            self._table[name] = after
        return np.mean([answer[:size] for answer in answers.values()], axis=0) if answers else self.theta
