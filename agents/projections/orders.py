"""The orders in which agents take their turns, with the network and the agents for each, by name.

The orders are `Token` (a token that is passed round a ring), `Coloured` (in parallel, by colours), `Walk` (a token that
moves at random), and `netsim.agents.projections.contention.Contention`, whose agents negotiate turns.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

import networkx as nx

from netsim.agents.projections.contention import Contention
from netsim.agents.projections.estimate import Ensemble, Part
from netsim.agents.projections.projector import Projector, number_of
from netsim.core import Frame
from netsim.errors import BadInput
from netsim.util import check

ORDERS = ("token", "coloured", "random", "contention")


class InOrder(Projector):
    """Base class of fixed orders: agents take turns by rank, lower ranks first, cyclically.

    The sharers of an agent are the agents that have an example in common with it. An agent begins its turn once it has
    received the results of its sharers' preceding turns. So for any links the run equals the serial one. Agents of one
    rank, which must not share an example, act in parallel. ``ranks`` holds the sharers' ranks, all different from the
    agent's ``rank``; ranks are 0, 1, …, ``period`` − 1. Other parameters are those of `Projector`.
    """

    def __init__(
        self, part: Part, sweeps: int, *, rank: int, ranks: Mapping[int, int], period: int, **settings: Any
    ) -> None:
        super().__init__(part, sweeps, **settings)
        self.rank, self.period = rank, period
        self.latest = {sharer: ranks[sharer] - period for sharer in part.sharers}
        if rank in (ranks[sharer] for sharer in part.sharers):
            raise BadInput(f"rank = {rank}: must differ from the ranks of all sharers")

    def version(self) -> int:
        """Return the turn's index in the serial order."""
        return self.taken * self.period + self.rank

    async def all_heard(self) -> None:
        """Wait until each sharer's last turn before this agent's next one has been received."""
        earliest = self.version() - self.period
        while min(self.latest.values(), default=earliest + 1) <= earliest:
            self._news.clear()
            await self._news.wait()


class Coloured(InOrder):
    """An order in which agents of one colour act at the same time; ranks are the colours of the graph of sharers."""

    async def turns(self) -> None:
        """Take each turn as soon as the results of all preceding turns of sharers have arrived."""
        while self.taken < self.sweeps:
            await self.all_heard()
            await self.turn()


class TokenHolder(Projector):
    """Base class of agents that pass a token, a message "token" with the number of turns that all agents have taken."""

    def __init__(self, part: Part, sweeps: int, **settings: Any) -> None:
        super().__init__(part, sweeps, **settings)
        self.tokens: asyncio.Queue[int] = asyncio.Queue()
        self._last = -1

    def receive(self, frame: Frame) -> Any:
        """Process a message; accept a token only once, even if its message is duplicated."""
        if frame.kind == "token" and frame.payload > self._last:
            self._last = frame.payload
            self.tokens.put_nowait(frame.payload)
        return super().receive(frame)


class Token(TokenHolder, InOrder):
    """An order in which each agent passes a token to the ``following`` one on a ring, after sending its values.

    The rank of an agent is its position on the ring.
    """

    def __init__(self, part: Part, sweeps: int, *, following: int, **settings: Any) -> None:
        super().__init__(part, sweeps, **settings)
        self.following = following

    async def turns(self) -> None:
        """Take a turn whenever the token arrives; the first agent on the ring has the token initially."""
        while self.taken < self.sweeps:
            if self.period > 1 and self.version() > 0:
                await self.tokens.get()
            await self.all_heard()
            await self.turn()
            passed = (self.taken - 1) * self.period + self.rank + 1
            if self.period > 1 and passed < self.sweeps * self.period:
                await self.tell(self.following, "token", passed)


class Walk(TokenHolder):
    """An order in which a token moves to random neighbours, until all agents together took ``turns_in_all`` turns.

    The agent of the last turn sends "over" to its neighbours, which forward it. The agent with ``first`` has the token
    initially.
    Other parameters are those of `Projector`.
    """

    OVER: ClassVar[int] = -1

    def __init__(self, part: Part, turns_in_all: int, *, first: bool, **settings: Any) -> None:
        super().__init__(part, turns_in_all, **settings)
        if first:
            self.tokens.put_nowait(0)

    def receive(self, frame: Frame) -> Any:
        """Process a message, which may be the one that the run is over."""
        if frame.kind == "over":
            self.tokens.put_nowait(self.OVER)
        return super().receive(frame)

    async def turns(self) -> None:
        """Take a turn whenever the token arrives, and forward it."""
        number = await self.tokens.get()
        while 0 <= number < self.sweeps:
            await self.turn()
            number += 1
            if self.neighbors and number < self.sweeps:
                other = self.neighbors[self.rng.integers(len(self.neighbors))]
                await self.tell(number_of(other), "token", number)
                number = await self.tokens.get()
        if not self.reliable:
            await self.broadcast("over", None)
            return

        async def say(other: int) -> None:
            await self.tell(other, "over", None)

        await self.each([number_of(other) for other in self.neighbors], say)


# --- by name ----------------------------------------------------------------------------------------------------------


def network_graph(ensemble: Ensemble, order: str) -> "nx.Graph[int]":
    """Return the graph of the agents 0 … m − 1, with edges between sharers and, for the order "token", along the ring.

    Raises
    ------
    BadInput
        If it is not connected, or the order is unknown.
    """
    check.one_of("order", order, ORDERS)
    graph: nx.Graph[int] = ensemble.sharers.copy()
    count = len(ensemble)
    if order == "token" and count > 1:
        graph.add_edges_from((i, (i + 1) % count) for i in range(count))
    if not nx.is_connected(graph):
        parts = sorted(nx.connected_components(graph), key=len)
        raise BadInput(
            f"ensemble: must join all agents by examples that they share for order = {order!r}; it has {len(parts)} "
            f"parts, the smallest of {len(parts[0])} with agent {min(parts[0])}"
        )
    return graph


def projectors(
    ensemble: Ensemble, order: str, sweeps: int, *, pause: float = 1.0, radio: bool = False, **settings: Any
) -> dict[int, Projector]:
    """Return new agents, one for each node of `network_graph`, that take turns in an order.

    Parameters
    ----------
    order : {"token", "coloured", "random", "contention"}
        "token": a token on the ring 0, 1, …; "coloured": in parallel, by the colours of the graph of sharers
        (networkx.greedy_color); "random": a token that moves at random, from agent 0; "contention": by claims.
    sweeps : int
        The number of turns of each agent; for "random", the mean number over the agents.
    pause : float
        Mean seconds between an agent's claims ("contention" only).
    radio, settings
        As in `netsim.agents.projections.projector.Projector`: duration, reliable, timeout.
    """
    check.one_of("order", order, ORDERS)
    count = len(ensemble)
    parts = [Part(ensemble, i, radio) for i in range(count)]
    settings["radio"] = radio
    if order == "token":
        ranks = {i: i for i in range(count)}
        return {
            i: Token(part, sweeps, rank=i, ranks=ranks, period=count, following=(i + 1) % count, **settings)
            for i, part in enumerate(parts)
        }
    if order == "coloured":
        colours = nx.greedy_color(ensemble.sharers)
        period = 1 + max(colours.values())
        return {
            i: Coloured(part, sweeps, rank=colours[i], ranks=colours, period=period, **settings)
            for i, part in enumerate(parts)
        }
    if order == "random":
        return {i: Walk(part, sweeps * count, first=i == 0, **settings) for i, part in enumerate(parts)}
    return {i: Contention(part, sweeps, pause=pause, **settings) for i, part in enumerate(parts)}
