"""Gossip over many kernels against its matrix recursion, and pruning by updates against pruning by new fits.

Pruning removes as many elements as the error allows from a dictionary that a mini-batch has extended: by updates of the
inverse matrix (`agents.Dictionary`), or by a least-squares fit for each candidate, as the tests' oracle does.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Task, compared, parser, show
from netsim import Network, topology
from netsim.agents import Dictionary, GossipOMKL, MultiKernelCost
from netsim.coders import QSGD, Coder, Exact
from tests.oracle import dictionary, multikernel

AGENTS, KERNELS, SIZE, LAMBDA, ETA, GAMMA = 20, 3, 40, 1e-3, 0.01, 0.009
BATCH, SIGMA, EPSILON = 32, 0.5, 0.3


class Gossip:
    """The streams of features for gossip, as arrays."""

    def __init__(self, rounds: int) -> None:
        rng = np.random.default_rng(0)
        self.features = rng.standard_normal((rounds, AGENTS, KERNELS, SIZE)) / np.sqrt(SIZE)
        self.targets = rng.choice([-1.0, 1.0], (rounds, AGENTS))
        self.graph = topology.path(AGENTS)
        self.weights = topology.metropolis_weights(self.graph)

    def emulated(self, bits: int | None) -> None:
        """Run on the network."""
        agents = {}
        for i in self.graph:
            rows = self.features[:, i].reshape(len(self.features), -1)
            samples = zip(rows, self.targets[:, i].tolist(), strict=True)
            cost = MultiKernelCost(samples, KERNELS, SIZE, regularizer=LAMBDA)
            coder: Coder = Exact() if bits is None else QSGD(bits, by_row=True)
            weights = dict(enumerate(self.weights[i]))
            agents[i] = GossipOMKL(cost, len(self.features), eta=ETA, gamma=GAMMA, weights=weights, coder=coder)
        Network(self.graph, seed=0).run(agents)

    def recursion(self, bits: int | None) -> None:
        """Run all agents as one array."""
        rng = np.random.default_rng(0)

        def quantize(v: NDArray[np.float64]) -> NDArray[np.float64]:
            norm, top = np.linalg.norm(v) or 1.0, 2 ** (bits or 1) - 1
            rounded: NDArray[np.float64] = (
                np.sign(v) * norm * np.floor(top * np.abs(v) / norm + rng.random(len(v))) / top
            )
            return rounded

        coded = None if bits is None else quantize
        multikernel.gossip(self.features, self.targets, self.weights, LAMBDA, ETA, GAMMA, coded)


class Pruning:
    """A dictionary with a given number of elements, and a mini-batch that extends it."""

    def __init__(self, order: int) -> None:
        rng = np.random.default_rng(0)
        self.points = rng.standard_normal((order + BATCH, 2))
        self.weights = (
            rng.standard_normal((order + BATCH, 1)) * np.append(np.ones(order), np.full(BATCH, 0.05))[:, None]
        )

    def updated(self) -> None:
        """Prune by updates of the inverse matrix, including the time to compute it."""
        model = Dictionary(2, sigma=SIGMA)
        model.prune(EPSILON, model.add(self.points, self.weights[:, 0]))

    def fitted(self) -> None:
        """Prune by a fit for each candidate."""
        dictionary.pruned(self.points, self.weights, EPSILON, SIGMA)


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__, rounds=200, order=20, repeats=3).parse_args()
    gossip, pruning = Gossip(options.rounds), Pruning(options.order)
    pairs: dict[str, tuple[Task, Task]] = {
        "gossip OMKL": (partial(gossip.emulated, None), partial(gossip.recursion, None)),
        "gossip OMKL 3-bit": (partial(gossip.emulated, 3), partial(gossip.recursion, 3)),
        "pruning": (pruning.updated, pruning.fitted),
    }
    result = compared(pairs, options.repeats, ("seconds", "beside_s"))
    show(result, options.json, "seconds, beside those of the matrix recursion (gossip) or of re-fits (pruning)")


if __name__ == "__main__":
    main()
