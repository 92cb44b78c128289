"""D-PSGD with models of a million parameters, compared with a bare numpy loop: 64 agents, float32, on two graphs.

Both compute θ_i ← Σ_n w θ_n − η ∇R_i(θ_i) with the same numpy operations. netsim also encodes every model, checks its
CRC, delays it on each link, counts it and passes it to the neighbours. Each measurement is a separate process, which
reports its CPU seconds and its peak memory; the two programs alternate. By default both keep freed memory (malloc's
thresholds are raised), because new pages from the system may cost as much as everything else; ``--plain`` keeps
malloc's defaults. With ``--capacities`` the frames of each agent share an uplink and a downlink.
"""

import math
import statistics
import time

import numpy as np

import netsim
from benchmarks.dpsgd_loop import ETA, PARAMETERS, Model, graph_of, targets, weight_of
from benchmarks.report import apart, parser, show
from netsim import Link, Network, latency
from netsim.transport import Heard


class Learner(netsim.Agent):
    """One agent of D-PSGD with the cost ½‖θ − c_i‖²."""

    def __init__(self, minimum: Model, weight: np.float32, rounds: int) -> None:
        self.model: Model = np.zeros(PARAMETERS, dtype=np.float32)
        self.minimum, self.weight, self.count = minimum, weight, rounds

    async def run(self) -> None:
        """Take part in the rounds."""
        async for _ in self.rounds(self.count):
            await self.broadcast("model", self.model)
            self.update(await self.collect())

    def update(self, heard: Heard) -> None:
        """Compute θ_i ← Σ_n w θ_n − η (θ_i − c_i)."""
        step = ETA * (self.model - self.minimum)
        self.model *= self.weight
        for frame in heard:
            self.model += self.weight * frame.payload
        self.model -= step


def train(name: str, rounds: int, capacities: bool = False) -> tuple[float, float]:
    """Return the CPU seconds of the run, and the sum of all parameters, as `benchmarks.dpsgd_loop.train` does."""
    graph, minima = graph_of(name), targets()
    agents = {node: Learner(minima[node], weight_of(graph, node), rounds) for node in graph}
    # Agents have different capacities, so that frames hardly ever leave at one instant; all arrive within the round.
    bits = {node: (40 * degree + node) * 32 * PARAMETERS for node, degree in graph.degree} if capacities else None
    link = Link(latency=latency.uniform(0.01, 0.05))
    network = Network(graph, link, round_period=0.1, seed=1, uplink=bits, downlink=bits)
    start = time.process_time()
    network.run(agents)
    seconds = time.process_time() - start
    return seconds, float(sum(agent.model.sum(dtype=np.float64) for agent in agents.values()))


def measured(module: str, keeps: bool, *settings: object) -> list[float]:
    """Return CPU seconds, the sum of parameters and the peak memory (MB) of a process."""
    kept = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)} if keeps else {}
    train = f"{module}.train(*{settings!r})"
    call = f"[*{train}, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3]"
    return list(map(float, apart(module, call, kept)))


def compared(graph: str, rounds: int, repeats: int, keeps: bool, capacities: bool) -> dict[str, float]:
    """Return the medians of both and their ratios."""
    found: dict[str, list[list[float]]] = {"loop": [], "netsim": []}
    for _ in range(repeats):
        found["loop"].append(measured("dpsgd_loop", keeps, graph, rounds))
        found["netsim"].append(measured("dpsgd", keeps, graph, rounds, capacities))
    # The sums differ by rounding, because frames arrive in another order than the loop's.
    assert math.isclose(found["loop"][0][1], found["netsim"][0][1], rel_tol=1e-6)
    loop, emulated = ([statistics.median(column) for column in zip(*rows, strict=True)] for rows in found.values())
    ratios = [b[0] / a[0] for a, b in zip(found["loop"], found["netsim"], strict=True)]
    return {
        "loop_s": loop[0],
        "netsim_s": emulated[0],
        "times_the_loop": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
        "loop_MB": loop[2],
        "netsim_MB": emulated[2],
        "times_its_memory": emulated[2] / loop[2],
    }


def main() -> None:
    """Run the benchmark."""
    command = parser(__doc__, repeats=5, rounds=10)
    command.add_argument("--plain", action="store_true", help="leave malloc's thresholds as they are")
    command.add_argument("--capacities", action="store_true", help="let frames share the capacities of their ends")
    chosen = command.parse_args()
    rows = {
        name: compared(name, chosen.rounds, chosen.repeats, not chosen.plain, chosen.capacities)
        for name in ("ring", "random, 6 neighbours")
    }
    show(rows, chosen.json, f"D-PSGD, {len(graph_of('ring'))} agents × {PARAMETERS:,} float32 × {chosen.rounds} rounds")


if __name__ == "__main__":
    main()
