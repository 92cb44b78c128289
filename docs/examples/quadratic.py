"""Steps whose best is known: gradient descent on xᵀHx / 2 with the curvatures 1 and 9, and with momentum."""

from dataclasses import dataclass

import networkx as nx
import numpy as np

from netsim import Agent, Experiment, Method

CURVATURES = np.array([1.0, 9.0])


@dataclass(eq=False, repr=False)
class Descent(Agent):
    """x ← x − η ∇f(x) + β (x − x₋): the slower of the factors |1 − η| and |1 − 9η| is least with η = 2 / (1 + 9)."""

    cost: np.ndarray
    rounds_: int
    eta: float = 0.05
    beta: float = 0.0

    async def run(self):
        self.theta, before = self.cost.copy(), self.cost.copy()
        async for _ in self.rounds(self.rounds_):
            x = self.theta
            self.theta, before = x - self.eta * CURVATURES * x + self.beta * (x - before), x


def quadratic(seed, scale=1.0):
    """Return a start that the seed draws, for one agent, and the distance to the minimum, its largest element."""
    start = scale * np.random.default_rng(seed).choice([-1.0, 1.0], 2)
    return [start], nx.empty_graph(1), lambda models: {"error": float(np.max(np.abs(models)))}


experiment = Experiment(
    problem=quadratic,
    methods={"descent": Method(Descent), "momentum": Method(Descent, beta=0.25)},
    rounds=20,
    seeds=[0],
)
