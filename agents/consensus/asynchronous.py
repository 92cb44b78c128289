"""AD-PSGD: pairs of agents average whenever one of them has a gradient; nobody waits for a round."""

import asyncio
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

import netsim
from netsim import Frame
from netsim.agents import papers
from netsim.agents.consensus.base import check_cost
from netsim.agents.costs.local import Problem
from netsim.agents.papers import Cited
from netsim.agents.schedule import Scheduled, advance
from netsim.core.copies import as_state
from netsim.util import check
from netsim.util.typing import Array


@dataclass(eq=False, repr=False)
class ADPSGD(Cited, netsim.Agent):
    """AD-PSGD (Lian, Zhang, Zhang and Liu 2018, algorithm 1): asynchronous, by arrival.

    Over and over: read x̂ ← θ_i and compute ∇R_i(x̂), which takes a time of its own;  draw a neighbour j at random, and
    both take the mean of θ_i and θ_j;  θ_i ← θ_i − η ∇R_i(x̂).

    i sends θ_i, and j answers at once with its θ_j and moves by half the difference; i moves by half the difference
    when the answer comes, so the sum of both is kept also if others averaged with i meanwhile. A gradient takes the
    network's compute times (``Network(…, compute=…)``), else ``seconds`` on average, log-normal with the standard
    deviation ``spread`` of its logarithm. Agents stop when ``count`` rounds are over; rounds only tell them the time,
    and are as long as those of a synchronous method on that network.

    It needs links both ways, no weights, and a cost with a gradient, which may be stochastic. Steps of one size end
    beside the optimum, as those of `DPSGD`; agents that are faster count for more. A request that is lost is an average
    less. If the answer is lost, j has moved and i has not, which moves the mean of all models a little: it forgets that
    as it learns, so losses cost little. Nobody waits longer for an answer than ``patience``.

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i, of which it needs the gradient.
    count : int
        Number of rounds until it stops.
    eta : float or schedule
        Step size η > 0, by the agent's own number of steps.
    seconds : float
        Mean time (s) that a gradient takes, on a network without compute times.
    spread : float
        Standard deviation of its logarithm; 0: always the same.
    patience : float
        Longest time (s) to wait for an answer.

    Attributes
    ----------
    theta : ndarray
        θ_i, zeros at first. Replaced, never changed in place.
    steps : int
        The number of gradient steps so far.
    """

    paper = papers.ADPSGD
    needs_links_both_ways = True

    cost: Problem
    count: int
    _: KW_ONLY
    eta: Scheduled = Scheduled(above=0.0)
    seconds: float = 1.0
    spread: float = 0.5
    patience: float = 1.0
    theta: Array = field(init=False)
    steps: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.count = check.integer("count", self.count, low=0)
        check_cost(type(self), self.cost, "size", "gradient")
        self.seconds = check.finite("seconds", self.seconds, above=0.0)
        self.spread = check.finite("spread", self.spread, low=0.0)
        self.patience = check.finite("patience", self.patience, above=0.0)
        self.theta = np.zeros(self.cost.size)

    async def run(self) -> None:
        """Compute and average until the rounds are over."""
        working = asyncio.create_task(self._work())
        async for _ in self.rounds(self.count, keep_late=True):
            if working.done():
                # It ends by an error only.
                working.result()
        working.cancel()

    async def _work(self) -> None:
        while True:
            read = self.theta
            await self.compute(None if self.has_compute_times else self._drawn())
            gradient = self.cost.gradient(read)
            if self.neighbors:
                await self._average()
            self.steps += 1
            advance(self, self.steps)
            self.theta = self.theta - self.eta * gradient

    def _drawn(self) -> float:
        """Return the time (s) of a gradient by the agent's own parameters."""
        return self.seconds * self.rng.lognormal(-0.5 * self.spread**2, self.spread)

    async def _average(self) -> None:
        """Take the mean with a neighbour drawn at random, if its answer comes."""
        other, sent = self.neighbors[int(self.rng.integers(len(self.neighbors)))], self.theta
        try:
            reply = await self.request(other, "model", sent, self.patience)
        except TimeoutError:
            return
        self.theta = self.theta + 0.5 * (self._state(reply) - sent)

    def answer(self, frame: Frame) -> Array:
        """Return θ_j, and move half the way to the θ_i that asks."""
        before = self.theta
        self.theta = before + 0.5 * (self._state(frame) - before)
        return before

    def _state(self, frame: Frame) -> Array:
        return np.asarray(as_state(frame, self.theta.shape), dtype=np.float64)
