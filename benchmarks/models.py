"""The cost of delivering a large model: 32 agents on a ring, a million parameters each, float64 and float32.

netsim is compared, in CPU seconds, with the least work of any emulator: one copy of each message, its CRC, and one
addition at each neighbour, on the same arrays. Both keep freed memory, as netsim's settings of malloc cause. Each row
runs in a separate process, so that it has its own peak memory.
"""

import gc
import resource
from typing import Any
from zlib import crc32

import networkx as nx
import numpy as np
from numpy.typing import NDArray

import netsim
from benchmarks.report import apart, median_seconds, parser, show
from netsim import Link, Network, latency

AGENTS, PARAMETERS, ROUNDS = 32, 1_000_000, 4


class Learner(netsim.Agent):
    """Sends its model, and sums received ones."""

    def __init__(self, model: NDArray[np.floating[Any]], at_once: bool) -> None:
        self.model = model
        self.total = np.zeros(len(model))
        self.at_once = at_once

    async def run(self) -> None:
        """Take part in the rounds."""
        async for _ in self.rounds(ROUNDS):
            await self.broadcast("model", self.model)
            heard = await self.collect()
            if self.at_once:
                self.total = np.asarray(heard.sum())
            else:
                for frame in heard:
                    self.total += frame.payload


def one_kind(dtype: str, at_once: bool, repeats: int) -> dict[str, float]:
    """Return the CPU seconds of large models in netsim and of the least work (medians), and the peak memory (MB)."""
    graph = nx.cycle_graph(AGENTS)
    models = [np.random.default_rng(node).random(PARAMETERS).astype(dtype) for node in graph]
    totals = [np.zeros(PARAMETERS) for _ in graph]

    def bound() -> None:
        for _ in range(ROUNDS):
            sent = []
            for model in models:
                sent.append(model.tobytes())
                crc32(sent[-1])
            for node, total in enumerate(totals):
                for other in graph[node]:
                    total += np.frombuffer(sent[other], dtype)

    def emulated() -> None:
        network = Network(graph, Link(latency=latency.uniform(0.01, 0.05)), round_period=0.1, seed=1)
        network.run({node: Learner(models[node], at_once) for node in graph})
        # Free the agents and their frames, which form reference cycles.
        gc.collect()

    seconds = median_seconds({"netsim": emulated, "bound": bound}, repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {**seconds, "times_the_bound": seconds["netsim"] / seconds["bound"], "peak_MB": peak}


def large_models(repeats: int) -> dict[str, dict[str, float]]:
    """Return the costs of large models, each kind in a separate process."""
    return {
        f"1M parameters, {dtype}, {way}": apart("models", f"models.one_kind({dtype!r}, {way == 'sum'}, {repeats})")
        for dtype in ("float64", "float32")
        for way in ("sum", "payload")
    }


def main() -> None:
    """Run the benchmark."""
    chosen = parser(__doc__, repeats=5).parse_args()
    show(large_models(chosen.repeats), chosen.json, f"{AGENTS} agents on a ring × {PARAMETERS:,} × {ROUNDS} rounds")


if __name__ == "__main__":
    main()
