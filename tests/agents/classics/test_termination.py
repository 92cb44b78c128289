"""Tests of termination detection against the trace: always after the last task is handled, never before."""

import asyncio
from collections import Counter
from typing import Any

import networkx as nx
import pytest

from netsim import AgentError, BadInput, Link, Network, Stalled, latency, topology
from netsim.agents.classics import DijkstraScholten
from netsim.core import Frame
from netsim.faults import Straggler
from tests.parts import slow

LATE = latency.uniform(0.01, 0.5)
GRAPHS = [topology.ring(6), topology.complete(5), topology.star(6), topology.grid(3, 3), topology.path(2)]


class Splitting(DijkstraScholten):
    """Splits each task of size above 1, after a random time, into two halves that are sent to random neighbours."""

    def __init__(self, root: bool, size: int = 40) -> None:
        super().__init__(root)
        self.size, self.done = size, 0
        self.handled: list[float] = []

    async def begin(self) -> None:
        await self.split(self.size)

    async def handle(self, frame: Frame) -> None:
        await self.split(frame.payload)
        self.handled.append(self.now)

    async def split(self, size: int) -> None:
        await asyncio.sleep(self.rng.exponential(0.1) * self.rng.integers(2))
        if size == 1:
            self.done += 1
            return
        for part in (size // 2, size - size // 2):
            await self.give(self.neighbors[self.rng.integers(len(self.neighbors))], part)


def compute(graph: Any, seed: int, faults: Any = (), **settings: Any) -> Any:
    network = Network(graph, Link(**{"latency": LATE} | settings), seed=seed, faults=faults)
    network.watch(["status", "parent"])
    return network.run({i: Splitting(i == 0) for i in graph}, trace=True)


@pytest.mark.parametrize("seed", [*range(12), *map(slow, range(12, 40))])
def test_the_root_knows_when_it_is_over_and_not_before(seed: int) -> None:
    graph = GRAPHS[seed % len(GRAPHS)]
    late = [Straggler(1, delay=0.4)] if seed % 3 == 0 else []
    run = compute(graph, seed, late)
    agents = run.agents
    assert sum(agent.done for agent in agents.values()) == 40
    table = run.trace.table()
    tasks = table[(table["event"] == "delivered") & (table["kind"] == "task")]
    # The last delivered task was handled before the root detected the termination.
    last = max(time for agent in agents.values() for time in agent.handled)
    assert last >= tasks["time_s"].max()
    assert agents[0].over_at >= last
    kinds = Counter(table[table["event"] == "sent"]["kind"])
    assert kinds["task"] == kinds["signal"] == len(tasks) == sum(len(agent.handled) for agent in agents.values())
    assert kinds["over"] == len(graph)
    for agent in agents.values():
        assert (agent.status, agent.deficit, agent.parent) == ("over", 0, None)
        assert agent.over_at >= agents[0].over_at


@pytest.mark.parametrize("seed", range(10))
def test_the_busy_are_a_tree_below_the_root(seed: int) -> None:
    """At all times the parents lead to the root, and each busy or waiting agent is in this tree."""
    run = compute(topology.complete(6), seed)
    parents: dict[Any, Any] = dict.fromkeys(run.agents)
    statuses: dict[Any, str] = dict.fromkeys(run.agents, "idle")
    for _, changes in run.states.groupby("time_s", sort=True):
        for row in changes.itertuples():
            statuses[row.agent] = row.status
            parents[row.agent] = None if row.parent != row.parent else row.parent
        tree: nx.DiGraph[Any] = nx.DiGraph([(i, parent) for i, parent in parents.items() if parent is not None])
        tree.add_node(0)
        assert nx.is_directed_acyclic_graph(tree)
        assert all(i == 0 or nx.has_path(tree, i, 0) for i in tree)
        assert all(i in tree for i, status in statuses.items() if status in ("busy", "waiting"))


def test_a_root_without_work_is_over_at_once() -> None:
    class Lazy(DijkstraScholten):
        async def begin(self) -> None:
            pass

    run = Network(topology.path(3), Link(latency=0.1), seed=1).run({i: Lazy(i == 1) for i in range(3)})
    assert [agent.over_at for agent in run.agents.values()] == [0.1, 0.0, 0.1]


def test_a_lost_frame_is_never_taken_for_the_end() -> None:
    for seed in range(10):
        with pytest.raises(Stalled):
            compute(topology.complete(5), seed, loss=0.1)
        run = compute(topology.complete(5), seed, loss=0.1, reliability="ack")
        assert sum(agent.done for agent in run.agents.values()) == 40


def test_bad_arguments_and_what_a_subclass_must_define() -> None:
    with pytest.raises(BadInput, match="root = 'yes'"):
        DijkstraScholten("yes")  # type: ignore[arg-type]
    with pytest.raises(AgentError, match="must define: async def begin"):
        Network(topology.path(2)).run({i: DijkstraScholten(i == 0) for i in range(2)})
