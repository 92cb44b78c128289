"""The page of a replay: its size, time to ready and drawing time, in a real Chromium without a GPU.

The pages show runs of a hundred agents, one with constant latencies, and one with uniform latencies, whose random
digits cannot be compressed. The drawing time is the script's time for a picture of the map and of the space–time
diagram, at evenly spaced times of the run, without the browser's own time. Without Chromium the benchmark is skipped.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import parser, show
from netsim import topology
from netsim.replay.html import html
from tests import chromium

PERIOD = 0.1
PICTURES = 200
CAUSES = ["delivered", "late", "lost"]


def network_of(agents: int) -> tuple[list[list[float]], NDArray[np.int64]]:
    """Return positions and directed links."""
    graph = topology.random_geometric(agents, radius=1.6 / agents**0.5, seed=1)
    places = [[float(x) for x in graph.nodes[name]["pos"]] for name in graph]
    pairs = np.array(list(graph.edges), dtype=np.int64)
    return places, np.concatenate([pairs, pairs[:, ::-1]])


def made(agents: int, events: int, random: bool) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a run of broadcasts in rounds; each link loses 5 % of them, and delays 2 % beyond their round."""
    draw, (places, links) = np.random.default_rng(1), network_of(agents)
    order = np.lexsort((links[:, 1], links[:, 0]))
    link = np.resize(order, events)
    number = np.arange(events) // len(links)
    start = number * PERIOD
    delay = draw.uniform(0.02, 0.1, events) if random else np.full(events, 0.05)
    cause = draw.choice(3, size=events, p=[0.93, 0.02, 0.05])
    end = start + np.where(cause == 2, 0.0, np.where(cause == 1, delay + PERIOD, delay))
    rounds = int(number[-1]) + 1
    x = [PERIOD * (k + 1) for k in range(rounds)]
    counts = np.bincount(cause, minlength=3).tolist()
    meta: dict[str, Any] = {
        "title": "benchmark",
        "command": "python -m benchmarks.replay",
        "versions": {},
        "agents": [str(name) for name in range(agents)],
        "positions": places,
        "has_positions": True,
        "paths": {},
        "links": links[: len(links) // 2].tolist(),
        "round_period": PERIOD,
        "ended_at": x[-1],
        "kinds": ["state"],
        "causes": CAUSES,
        "counts": dict(zip(CAUSES, counts, strict=True)),
        "total": events,
        "shown": events,
        "omitted": "",
        "rounds": rounds,
        "states": {
            "times": np.repeat(x, agents),
            "agents": np.tile(np.arange(agents), rounds),
            "sent": np.repeat(np.arange(rounds), agents),
            "values": {"value": draw.normal(size=rounds * agents)},
        },
        "curves": {"x": x, "columns": {"spread": np.exp(-np.array(x) / 5).tolist()}},
        "notes": [],
    }
    columns: dict[str, NDArray[Any]] = {
        "start": start,
        "depart": start,
        "end": end,
        "sender": links[link, 0],
        "receiver": links[link, 1],
        "kind": np.zeros(events, dtype=np.int16),
        "cause": cause,
        "round": number + 1,
        "bits": np.full(events, 104),
        "reply": np.zeros(events, dtype=np.uint8),
        "number": number,
    }
    return meta, columns


def measured(page: chromium.Page, path: Path, repeats: int) -> dict[str, float]:
    """Return times of a page in milliseconds: by the clock, which is longer on a busy machine, and of the CPU."""
    ready, worked = [], []
    for _ in range(repeats):
        page.open(Path(__file__).parent.parent / "docs" / "index.md", "true")
        before = page.processor_ms()
        page.open(path)
        ready.append(float(page.run("replay.readyAfter")))
        after = page.processor_ms()
        # The CPU time of a new process starts at zero.
        worked.append(after - before if after > before else after)
    result = {"ready_ms": min(ready), "ready_cpu_ms": min(worked)}
    for view in ("map", "spacetime"):
        page.run(f"replay.show('{view}'), replay.measure(40).then(() => 0)")
        before = page.processor_ms()
        drawn = page.run(f"replay.measure({PICTURES})")
        result[f"{view}_ms"] = statistics.median(drawn)
        result[f"{view}_p95_ms"] = float(np.quantile(drawn, 0.95))
        result[f"{view}_cpu_ms"] = (page.processor_ms() - before) / PICTURES
    return result


def main() -> None:
    """Run the benchmark."""
    chosen = parser(__doc__, agents=100, events=500_000, repeats=3).parse_args()
    if chromium.program() is None:
        print("skipped: no chromium (apt-get install chromium)", file=sys.stderr)
        return
    result: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder, chromium.browser() as page:
        page.look(1400, 850)
        for name, random in (("constant latency", False), ("uniform latency", True)):
            data = made(chosen.agents, chosen.events, random)
            begun = time.perf_counter()
            text = html(*data)
            written = time.perf_counter() - begun
            path = Path(folder) / "page.html"
            path.write_text(text, encoding="utf-8")
            result[name] = {"MB": len(text) / 1e6, "written_s": written, **measured(page, path, chosen.repeats)}
    show(result, chosen.json, f"{chosen.events:,} events of {chosen.agents} agents")


if __name__ == "__main__":
    main()
