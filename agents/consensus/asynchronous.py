"""AD-PSGD: two agents average their models whenever one has computed a gradient; no agent waits for a round."""

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
    """AD-PSGD: asynchronous SGD with pairwise averaging (Lian, Zhang, Zhang and Liu 2018, algorithm 1).

    Each agent i repeats: x̂ ← θ_i; compute ∇R_i(x̂), which takes simulated time; draw a neighbour j, and set θ_i and
    θ_j to their mean; θ_i ← θ_i − η ∇R_i(x̂).

    To average, agent i sends θ_i. Agent j replies immediately with θ_j, and then adds (θ_i − θ_j)/2 to its model. When
    the reply arrives, agent i subtracts the same (θ_i − θ_j)/2 from its model, even if other agents have averaged with
    i meanwhile. So an average never changes the sum of the models. The network's compute times
    (``Network(…, compute=…)``) determine how long a gradient takes. On a network without compute times, the time is
    log-normal with mean ``seconds``, and its logarithm has the standard deviation ``spread``. Agents stop after
    ``count`` rounds. The rounds only measure time here; they are as long as for a synchronous method on the same
    network.

    The method needs links in both directions and a cost with a gradient, which may be stochastic, but no weights. With
    constant η the models only approach the optimum, as with `DPSGD`, and the costs of faster agents weigh more. After a
    lost request there is no average. After a lost reply only the model of j has changed, which shifts the mean of all
    models slightly. Later gradient steps undo the shift, so losses cost little. An agent waits at most ``patience`` for
    a reply.

    Parameters
    ----------
    cost : Problem
        The agent's cost R_i, with its gradient.
    count : int
        Number of rounds after which the agent stops.
    eta : float or schedule
        Step size η > 0; a schedule is evaluated at the agent's number of steps.
    seconds : float
        Mean time (s) of a gradient, on a network without compute times.
    spread : float
        Standard deviation of the logarithm of the gradient's time; with 0 the time is constant.
    patience : float
        Maximum time (s) to wait for a reply.

    Attributes
    ----------
    theta : ndarray
        θ_i, initially zeros. Replaced by a new array, never modified in place.
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
        check.fields(self, check.finite, "seconds", "patience", above=0.0)
        check.fields(self, check.finite, "spread", low=0.0)
        self.theta = np.zeros(self.cost.size)

    async def run(self) -> None:
        """Take gradient steps and average the model with neighbours' models, until the rounds are over."""
        working = asyncio.create_task(self._work())
        async for _ in self.rounds(self.count, keep_late=True):
            if working.done():
                # The task loops for ever, so it is done only after an error; result() raises this error.
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
        """Return a random duration (s) of a gradient computation: log-normal with ``seconds`` and ``spread``."""
        return self.seconds * self.rng.lognormal(-0.5 * self.spread**2, self.spread)

    async def _average(self) -> None:
        """Average the model with that of a random neighbour, unless the neighbour's reply times out."""
        other, sent = self.neighbors[int(self.rng.integers(len(self.neighbors)))], self.theta
        try:
            reply = await self.request(other, "model", sent, self.patience)
        except TimeoutError:
            return
        self.theta = self.theta + 0.5 * (self._state(reply) - sent)

    def answer(self, frame: Frame) -> Array:
        """Move this agent's model θ_j halfway to the received θ_i, and return the old θ_j as the reply."""
        before = self.theta
        self.theta = before + 0.5 * (self._state(frame) - before)
        return before

    def _state(self, frame: Frame) -> Array:
        return np.asarray(as_state(frame, self.theta.shape), dtype=np.float64)
