"""Random networks whose messages are forwarded over several links, and the conservation of messages."""

import asyncio
from collections import Counter
from collections.abc import Hashable
from typing import Any

import networkx as nx
import numpy as np

from netsim import Agent, Link, Network, Run, topology
from netsim.faults import Crash, LinkDown
from tests.fuzzers.networks import a_latency, a_loss, at_the_sender, on_the_way

Plan = list[tuple[float, Any, str, Any]]
ALL = "everyone"


class Node(Agent):
    """An agent that sends at planned times, and records received frames until a given time."""

    def __init__(self, plan: Plan = [], until: float = 100.0, pause: float = 0.0) -> None:  # noqa: B006  never changed
        self.plan, self.until, self.pause = plan, until, pause
        self.heard: list[tuple[float, Hashable, str, Any]] = []
        self.sent: Counter[str] = Counter()

    async def run(self) -> None:
        listens = asyncio.get_running_loop().create_task(self.listen())
        for time, to, kind, payload in self.plan:
            await asyncio.sleep(time - self.now)
            if to == ALL:
                self.sent[kind] += await self.broadcast(kind, payload, everyone=True)
            else:
                await self.send(to, kind, payload)
                self.sent[kind] += 1
        await asyncio.sleep(self.until - self.now)
        listens.cancel()

    async def listen(self) -> None:
        while True:
            frame = await self.inbox.get()
            self.heard.append((self.now, frame.sender, frame.kind, frame.payload))
            await asyncio.sleep(self.pause)


def nodes(graph: "nx.Graph[Any]", plans: dict[Any, Plan], until: float = 100.0, pause: float = 0.0) -> dict[Any, Node]:
    return {name: Node(plans.get(name, []), until, pause) for name in graph}


def a_case(seed: int) -> tuple[Network, dict[Any, Node]]:
    """Return a network with random links and faults, and agents that send to single nodes and to all."""
    rng = np.random.default_rng(seed)
    graph = topology.erdos_renyi(int(rng.integers(4, 12)), p=0.35, seed=seed)
    link = {"latency": a_latency(rng, 1.0), "loss": a_loss(rng), **at_the_sender(rng, 1.0), **on_the_way(rng, 1.0)}
    link["crc"] = True
    ways = ["shortest", "cost"]
    for _, _, data in graph.edges(data=True):
        data["cost"] = float(rng.integers(1, 5))
    count = len(graph)
    plans: dict[Any, Plan] = {name: [] for name in graph}
    for _ in range(60):
        sender = int(rng.integers(count))
        to: Any = ALL if rng.random() < 0.1 else int(rng.choice([n for n in range(count) if n != sender]))
        kind = "all" if to == ALL else "one"
        plans[sender].append((round(float(rng.random() * 20), 1), to, kind, bytes(int(rng.integers(0, 300)))))
    plans = {name: sorted(plan, key=lambda each: each[0]) for name, plan in plans.items()}
    a, b = next(iter(graph.edges))
    faults: list[Any] = [LinkDown(a, b, at=3.0, until=12.0), Crash(int(rng.integers(count)), at=5.0, until=9.0)]
    network = Network(
        graph,
        Link(**link),
        seed=seed,
        routing=ways[int(rng.integers(2))],
        hop_limit=int(rng.choice([2, 3, 20])),
        inbox_limit=None if rng.random() < 0.7 else 2,
        uplink=4000.0 if seed % 3 == 0 else None,
        medium="radio" if seed % 3 == 1 else "wires",
        faults=faults[: int(rng.integers(3))],
    )
    return network, nodes(graph, plans, until=4000.0, pause=0.5)


def conserved(run: Run, agents: dict[Any, Node]) -> Counter[str]:
    """Check: messages sent + copies = messages delivered + messages dropped on links, by cause + messages in flight.

    A message delivered to a forwarder is then offered to another link, so that it cancels in the sum over the links.
    """
    ends: Counter[str] = Counter()
    for row in run.ledger.table().to_dict("records"):
        dropped = {each: row[each] for each in run.ledger.causes if each != "delivered"}
        assert row["offered"] + row["duplicated"] == row["delivered"] + sum(dropped.values()) + row["in_flight"]
        if row["kind"] == "one":
            ends.update({"copies": row["duplicated"], "in_flight": row["in_flight"], **dropped})
    sent, heard = sum(agent.sent["one"] for agent in agents.values()), 0
    for agent in agents.values():
        heard += sum(kind == "one" for _, _, kind, _ in agent.heard)
    lost = sum(count for cause, count in ends.items() if cause != "copies")
    assert sent + ends["copies"] == heard + lost
    return ends + Counter(heard=heard)


def check_seeds(seeds: range) -> list[str]:
    hashes, met = [], Counter[str]()
    for seed in seeds:
        network, agents = a_case(seed)
        run = network.run(agents)
        # A crashed node restarts its plan and loses unread frames, so this count does not hold with crashes.
        if not any(isinstance(fault, Crash) for fault in network.faults):
            met.update(conserved(run, agents))
        hashes.append(run.trace_hash)
    if len(seeds) > 20:
        assert all(
            met[each] for each in ("copies", "lost", "queue_full", "hop_limit", "inbox_full", "link_down", "heard")
        ), met
    return hashes
