"""Gossip over many kernels against its matrix recursion, and pruning by updates against pruning by re-fits.

Pruning: of a dictionary that a mini-batch has grown, as many elements are removed as the error allows, by updates of
the inverse (`agents.Dictionary`) and by a least-squares fit for each candidate (the oracle's).
"""

from functools import partial

import numpy as np

from agents import Dictionary, GossipOMKL, MultiKernelCost
from benchmarks.report import median_seconds, parser, show
from netsim import Network, topology
from netsim.quantize import QSGD, Rows
from tests.oracle import dictionary, multikernel

AGENTS, KERNELS, SIZE, LAMBDA, ETA, GAMMA = 20, 3, 40, 1e-3, 0.01, 0.009
BATCH, SIGMA, EPSILON = 32, 0.5, 0.3


class Gossip:
    """Streams of features, as arrays."""

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
            coder = None if bits is None else Rows(QSGD(bits))
            weights = dict(enumerate(self.weights[i]))
            agents[i] = GossipOMKL(cost, len(self.features), eta=ETA, gamma=GAMMA, weights=weights, coder=coder)
        Network(self.graph, seed=0).run(agents)

    def recursion(self) -> None:
        """Run all agents as one array."""
        multikernel.gossip(self.features, self.targets, self.weights, LAMBDA, ETA, GAMMA)


class Pruning:
    """A dictionary of so many elements and a mini-batch."""

    def __init__(self, order: int) -> None:
        rng = np.random.default_rng(0)
        self.points = rng.standard_normal((order + BATCH, 2))
        self.weights = (
            rng.standard_normal((order + BATCH, 1)) * np.append(np.ones(order), np.full(BATCH, 0.05))[:, None]
        )

    def updated(self) -> None:
        """Prune by updates of the inverse, which is built on the way."""
        model = Dictionary(2, sigma=SIGMA)
        model.prune(EPSILON, model.add(self.points, self.weights[:, 0]))

    def fitted(self) -> None:
        """Prune by a fit for each candidate."""
        dictionary.pruned(self.points, self.weights, EPSILON, SIGMA)


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__, rounds=200, order=20, repeats=3).parse_args()
    gossip, pruning = Gossip(options.rounds), Pruning(options.order)
    seconds = median_seconds(
        {
            "recursion": gossip.recursion,
            "gossip OMKL": partial(gossip.emulated, None),
            "gossip OMKL 3-bit": partial(gossip.emulated, 3),
            "updates": pruning.updated,
            "re-fits": pruning.fitted,
        },
        options.repeats,
    )
    result = {
        "gossip OMKL": {"seconds": seconds["gossip OMKL"], "ratio": seconds["gossip OMKL"] / seconds["recursion"]},
        "gossip OMKL 3-bit": {
            "seconds": seconds["gossip OMKL 3-bit"],
            "ratio": seconds["gossip OMKL 3-bit"] / seconds["recursion"],
        },
        "pruning": {"seconds": seconds["updates"], "ratio": seconds["updates"] / seconds["re-fits"]},
    }
    show(result, options.json, "seconds, and times those of the matrix recursion (gossip) or of re-fits (pruning)")


if __name__ == "__main__":
    main()
