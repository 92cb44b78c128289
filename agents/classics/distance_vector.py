"""Distance-vector routing: each node tells its neighbours how far everything is, and believes what they tell it."""

import asyncio
import math
from collections.abc import Hashable, Mapping
from typing import ClassVar

import netsim
from netsim.agents import papers
from netsim.agents.papers import Cited
from netsim.draw import Number
from netsim.util import check

__all__ = ["DistanceVector"]


class DistanceVector(netsim.Agent, Cited):
    """A router that learns distances and next hops from its neighbours, as in RIP.

    It sends its table of distances to each neighbour at once, and again every ``period`` seconds. A destination is as
    far as the neighbour says and the link to the neighbour costs; the neighbour that offers the least is the next hop.
    The next hop is believed whatever it says; another neighbour is believed if it offers less. A route of which the
    next hop says nothing for ``timeout`` seconds is lost: its distance becomes ``infinity``. The agent does not end by
    itself: run it with ``until``.

    Parameters
    ----------
    costs : mapping, optional
        What the link to a neighbour costs, by the neighbour's name, as a number above 0; by default, and where there
        is none, 1.
    split_horizon : str
        What a neighbour is told of the routes that lead through itself: "off" their distances, "simple" nothing,
        "poisoned" that they are infinitely far.
    infinity : float
        The distance that means "unreachable". Greater ones do not occur.
    period : float
        Mean time between two tables, in seconds; each is drawn within a sixth of it, so that routers do not keep step.
    timeout : float, optional
        Seconds of silence until a route is lost; by default six periods.
    triggered : bool
        Whether a change is told at once, and not only with the next table; but from one table to the next a router
        waits at least a thirtieth to a sixth of the period (drawn): 1 to 5 s of RIP's 30.

    Attributes
    ----------
    distance : dict
        The distance to each known destination.
    hop : dict
        The next hop to each known destination; the last one, if the destination is unreachable.

    Raises
    ------
    BadInput
        If an argument is outside its range.

    Notes
    -----
    RFC 1058: the rules of section 3.4.2, split horizon and triggered updates in sections 2.2.1 and 2.2.2. The method is
    that of Bellman (1957), and of Ford and Fulkerson (1962). RIP forgets lost routes after a while; this agent
    keeps them at ``infinity``.
    """

    draw: ClassVar = {"destinations": Number(lambda a: sum(each < a.infinity for each in a.distance.values()))}

    paper = papers.RIP

    def __init__(
        self,
        costs: Mapping[Hashable, float] | None = None,
        *,
        split_horizon: str = "poisoned",
        infinity: float = 16,
        period: float = 30.0,
        timeout: float | None = None,
        triggered: bool = True,
    ) -> None:
        given = check.mapping("costs", {} if costs is None else costs)
        self.costs = {each: check.finite("costs", cost, above=0) for each, cost in given.items()}
        self.split_horizon = check.one_of("split_horizon", split_horizon, ("off", "simple", "poisoned"))
        self.infinity = check.finite("infinity", infinity, low=1)
        self.period = check.finite("period", period, above=0)
        self.timeout = 6 * self.period if timeout is None else check.finite("timeout", timeout, above=0)
        self.triggered = check.flag("triggered", triggered)
        self.distance: dict[Hashable, float] = {}
        self.hop: dict[Hashable, Hashable] = {}
        self.lost_at: dict[Hashable, float] = {}

    async def run(self) -> None:
        """Advertise at once and periodically, and take in what the neighbours advertise."""
        self.distance, self.hop, self.lost_at = {self.name: 0}, {self.name: self.name}, {self.name: math.inf}
        due = free = self.now
        while True:
            if self.now >= due:
                await self.advertise()
                # Without a pause between tables a change would set off more of them at each neighbour, without end.
                free = self.now + self.period * self.rng.uniform(1 / 30, 1 / 6)
                due = self.now + self.period * self.rng.uniform(5 / 6, 7 / 6)
            before = dict(self.distance)
            try:
                async with asyncio.timeout_at(min(due, *self.lost_at.values())):
                    frame = await self.inbox.get()
                self.take_in(frame.sender, frame.payload)
            except TimeoutError:
                self.give_up_silent()
            if self.triggered and self.distance != before:
                due = min(due, max(free, self.now))

    async def advertise(self) -> None:
        """Tell each neighbour all distances, but for those that split horizon keeps from it."""
        for to in self.neighbors:
            vector = {each: far for each, far in self.distance.items() if self.hop[each] != to}
            for each in self.distance.keys() - vector.keys():
                if self.split_horizon == "off":
                    vector[each] = self.distance[each]
                elif self.split_horizon == "poisoned":
                    vector[each] = self.infinity
            shown = " ".join(f"{each}:{self._shown(far)}" for each, far in sorted(vector.items(), key=str))
            await self.send(to, "table", vector, label=shown if len(shown) <= 40 else f"{len(vector)} distances")

    def take_in(self, sender: Hashable, vector: Mapping[Hashable, float]) -> None:
        """Believe the next hop whatever it says, and another neighbour if it is nearer."""
        for each, said in vector.items():
            far = min(said + self.costs.get(sender, 1), self.infinity)
            known = self.distance.get(each, self.infinity)
            if far < known or self.hop.get(each) == sender:
                self.distance[each], self.hop[each] = far, sender
                self.lost_at[each] = self.now + self.timeout if far < self.infinity else math.inf
                if far == self.infinity > known:
                    self.note(f"{each} is unreachable, says {sender}")

    def give_up_silent(self) -> None:
        """Mark the routes as lost of which the next hop has said nothing for too long."""
        for each in [each for each, time in self.lost_at.items() if time <= self.now]:
            self.distance[each], self.lost_at[each] = self.infinity, math.inf
            self.note(f"{each} is lost: {self.hop[each]} is silent")

    def route(self, to: Hashable) -> str:
        """Return the route to a destination in words: "2 via B", "unreachable", "unknown", or "here"."""
        if to not in self.distance:
            return "unknown"
        if self.distance[to] == self.infinity:
            return "unreachable"
        return "here" if self.distance[to] == 0 else f"{self._shown(self.distance[to])} via {self.hop[to]}"

    def _shown(self, far: float) -> str:
        return "∞" if far == self.infinity else f"{far:g}"
