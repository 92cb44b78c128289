"""Tests of snapshots of a bank: a snapshot contains all the money, and equals the cut computed from the trace."""

import asyncio
from typing import Any

import pytest

import netsim
from netsim import Link, Network, latency, topology
from netsim.agents.classics import ChandyLamport
from netsim.core import Frame
from netsim.faults import Straggler
from tests.parts import every

SEEDS = range(30)
RICH = 100
LATE = latency.uniform(0.01, 0.5)


class Bank(ChandyLamport):
    """Sends coins to random neighbours; ``begins`` maps the snapshots that this agent starts to their times."""

    def __init__(self, begins: dict[int, float] | None = None) -> None:
        super().__init__()
        self.balance = RICH
        self.begins = begins or {}

    def state(self) -> int:
        return self.balance

    async def handle(self, frame: Frame) -> None:
        self.balance += frame.payload

    async def work(self) -> None:
        tasks = [asyncio.create_task(self.begin(number, time)) for number, time in self.begins.items()]
        for _ in range(30):
            await asyncio.sleep(self.rng.exponential(0.1))
            amount = int(self.rng.integers(1, 20))
            if amount <= self.balance:
                self.balance -= amount
                await self.send(self.neighbors[self.rng.integers(len(self.neighbors))], "money", amount)
        await asyncio.gather(*tasks)

    async def begin(self, number: int, time: float) -> None:
        await asyncio.sleep(time)
        await self.record(number)


def banks(graph: Any, begins: dict[int, dict[int, float]], seed: int, faults: Any = (), **link: Any) -> Any:
    settings: dict[str, Any] = {"latency": LATE, "fifo": True} | link
    agents = {i: Bank(begins.get(i)) for i in graph}
    return Network(graph, Link(**settings), seed=seed, faults=faults).run(agents, trace=True)


def total(run: Any, number: int) -> int:
    parts = [agent.parts[number] for agent in run.agents.values()]
    return sum(part.state + sum(map(sum, part.channels.values())) for part in parts)


def check_cut(run: Any, number: int) -> None:
    """Check that each channel holds the messages sent before the sender's, received after the receiver's snapshot."""
    notes = run.notes[run.notes["note"].str.startswith(f"snapshot {number}:")]
    cut = {row.agent: (row.time_s, row.sent) for row in notes.itertuples()}
    assert cut.keys() == run.agents.keys()
    table = run.trace.table()
    crossing = []
    for row in table[(table["kind"] == "money") & (table["event"] == "delivered")].itertuples():
        sent_before = row.message < cut[row.sender][1]
        # A message may arrive at the same time as the marker that follows it, at which the receiver records its state.
        # On a FIFO link the message was nevertheless received first.
        received_before = (row.time_s, not sent_before) <= (cut[row.receiver][0], False)
        assert sent_before or not received_before, "received in the snapshot, but not sent in it"
        if sent_before and not received_before:
            crossing.append((row.sender, row.receiver))
    kept = [
        (sender, receiver)
        for receiver, agent in run.agents.items()
        for sender, payloads in agent.parts[number].channels.items()
        for _ in payloads
    ]
    assert sorted(kept) == sorted(crossing)


@every("seed", SEEDS)
def test_a_snapshot_has_all_the_money(seed: int) -> None:
    graph = [topology.ring(6), topology.complete(4), topology.random_geometric(8, 0.6, seed=2)][seed % 3]
    run = banks(graph, {seed % 4: {1: 1.0}}, seed)
    assert sum(agent.balance for agent in run.agents.values()) == RICH * len(graph)
    assert total(run, 1) == RICH * len(graph)
    check_cut(run, 1)
    assert all(agent.status == "recorded" and not agent.parts[1].awaited for agent in run.agents.values())


def test_without_fifo_it_does_not() -> None:
    wrong = [total(banks(topology.ring(6), {0: {1: 1.0}}, seed, fifo=False), 1) != 6 * RICH for seed in SEEDS]
    assert sum(wrong) >= 20


@pytest.mark.parametrize("seed", range(5))
def test_two_agents_begin_the_same_and_others_overlap(seed: int) -> None:
    begins = {0: {1: 0.5, 2: 0.7, 3: 2.0}, 3: {1: 0.5, 4: 0.6}}
    run = banks(topology.complete(5), begins, seed)
    for number in (1, 2, 3, 4):
        assert total(run, number) == 5 * RICH
        check_cut(run, number)


@pytest.mark.parametrize("seed", range(5))
def test_on_one_way_links_and_with_a_straggler(seed: int) -> None:
    graph = topology.directed_ring(6, (1, 2))
    run = banks(graph, {2: {1: 0.8}}, seed, faults=[Straggler(4, delay=0.3)])
    assert total(run, 1) == 6 * RICH
    assert all(set(agent.parts[1].channels) == set(graph.predecessors(i)) for i, agent in run.agents.items())


def test_acknowledged_links_lose_nothing_but_the_order() -> None:
    runs = [banks(topology.ring(5), {0: {1: 1.0}}, seed, loss=0.2, reliability="ack") for seed in range(10)]
    assert all(sum(agent.balance for agent in run.agents.values()) == 5 * RICH for run in runs)
    assert any(total(run, 1) != 5 * RICH for run in runs)


def test_a_lost_marker_leaves_parts_open() -> None:
    open_parts = 0
    for seed in range(10):
        run = banks(topology.ring(5), {0: {1: 1.0}}, seed, loss=0.3)
        open_parts += sum(bool(part.awaited) for agent in run.agents.values() for part in agent.parts.values())
    assert open_parts


def test_an_application_must_say_what_it_is() -> None:
    class Idle(ChandyLamport):
        pass

    agent = Idle()
    with pytest.raises(NotImplementedError, match="Idle must define: def state"):
        agent.state()
    assert isinstance(agent, netsim.Agent)
    assert agent.status == "working"
