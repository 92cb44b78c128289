"""Odd but legal agents in several processes (docs/sockets.md): the books are those of the simulation."""

import asyncio
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from netsim import UDP, Agent, Link, Network, Run, Stalled, gather, latency, topology
from netsim.faults import ClockSkew
from netsim.sockets import job
from netsim.sockets.envelope import Heartbeat, unseal
from tests.parts import PERIOD, Average, Made, addresses, deployed, in_parts, played, shares

PACE = 0.3


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_MARGIN", 0.4)


class Word(Agent):
    """Tells its neighbours a word each round."""

    def __init__(self, rounds: int = 6) -> None:
        self.count = rounds

    async def run(self) -> None:
        async for number in self.rounds(self.count):
            await self.broadcast("word", [number, str(self.name)])
            await self.collect()


def must_be_the_same(simulated: Run, run: Run) -> None:
    assert run.rounds[list(simulated.rounds.columns)].equals(simulated.rounds)
    assert run.trace_hash == simulated.trace_hash == run.trace.hash
    table = run.ledger.table()
    assert (table.pop("missing") == 0).all()
    by = ["sender", "receiver", "kind"]
    assert table.set_index(by).sort_index().equals(simulated.ledger.table().set_index(by).sort_index())
    assert run.ended_at == simulated.ended_at


def held_against(make: Any, folder: Path, **settings: Any) -> None:
    made, agents = make()
    simulated = made.run(agents, trace=True)
    run, _ = deployed(make, folder, parts=3, **({"pace": PACE} | settings))
    must_be_the_same(simulated, run)


def test_watched_states_are_those_of_the_simulation(tmp_path: Path) -> None:
    def make() -> Made:
        made = Network(nx.cycle_graph(6), Link(latency=0.02), round_period=PERIOD, seed=3)
        made.watch({"first": lambda agent: agent.value[0]})
        return made, {i: Average(float(i), 5) for i in range(6)}

    made, agents = make()
    simulated = made.run(agents, trace=True)
    run, _ = deployed(make, tmp_path, parts=3, pace=PACE)
    order = ["time_s", "agent", "sent"]
    ours, theirs = (each.states.sort_values(order).to_numpy().tolist() for each in (run, simulated))
    assert ours == theirs
    assert len(ours) > 24
    assert run.trace.scene == simulated.trace.scene


def test_what_arrives_damaged_after_the_end_is_corrupted(tmp_path: Path) -> None:
    def make() -> Made:
        link = Link(corrupt=0.3, crc=False, latency=latency.uniform(1e-3, 0.2))
        return Network(nx.cycle_graph(6), link, round_period=0.1, seed=3), {i: Word() for i in range(6)}

    made, agents = make()
    simulated = made.run(agents)
    assert simulated.ledger.table()["corrupted"].sum() > 0
    held_against(make, tmp_path)


class Questioner(Agent):
    """Asks in the background, and ends before the question has arrived."""

    def answer(self, frame: Any) -> int:
        return int(frame.payload) + 1

    async def ask(self) -> None:
        for other in self.neighbors:
            await self.request(other, "question", 1, timeout=5)

    async def run(self) -> None:
        self.asking = asyncio.create_task(self.ask())
        await asyncio.sleep(0.1)

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Beating(UDP):
    """Notes the sizes of the beats that it sends."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.sizes: list[int] = []

    def send(self, to: str, data: bytes) -> None:
        if isinstance(unseal(data, self.key or b""), Heartbeat):
            self.sizes.append(len(data))
        super().send(to, data)


def test_beats_are_small_however_many_links_there_are() -> None:
    def make() -> tuple[Network, dict[Any, Agent]]:
        graph = topology.complete(60)
        return Network(graph, round_period=PERIOD), {name: Average(float(name), 3) for name in graph}

    peers = shares(addresses(2), range(60))
    transports = {here: Beating(here, others, pace=PACE / 2) for here, others in peers.items()}
    # Of a second run, beats tell how the first one ended.
    for _ in range(2):
        for outcome in played(make, transports).values():
            assert isinstance(outcome, Run), outcome
            assert outcome.ledger.link_messages == 3 * 30 * 59
    for transport in transports.values():
        assert len(transport.sizes) > 20
        assert max(transport.sizes) < 300


def test_probes_may_ask_in_which_round_an_agent_is(tmp_path: Path) -> None:
    def in_round(agents: Any) -> dict[str, float]:
        return {"in_round": float(sum(agent.round for agent in agents.values()))}

    def make() -> Made:
        graph = nx.cycle_graph(6)
        return Network(graph, Link(), round_period=0.1, seed=2), {name: Word(2 + name % 3) for name in graph}

    made, agents = make()
    simulated = made.run(agents, [in_round])
    run, _ = deployed(make, tmp_path, [in_round], parts=2)
    assert run.rounds["in_round"].tolist() == simulated.rounds["in_round"].tolist()
    assert simulated.rounds["in_round"].nunique() > 1


def test_a_run_without_rounds_has_the_rows_of_the_simulation(tmp_path: Path) -> None:
    def count(agents: Any) -> dict[str, float]:
        return {"agents": float(len(agents))}

    def make() -> Made:
        graph = nx.cycle_graph(6)
        return Network(graph, Link(), round_period=0.1, seed=2), {name: Word(0) for name in graph}

    for sample in (None, 0.05):
        made, agents = make()
        simulated = made.run(agents, [count], sample=sample)
        folder = tmp_path / str(sample)
        peers = shares(addresses(2), range(6))
        transports = {here: UDP(here, others, pace=PACE, folder=folder) for here, others in peers.items()}
        for outcome in played(make, transports, [count], sample=sample).values():
            assert isinstance(outcome, Run), outcome
        made, agents = make()
        run = gather(made, agents, folder, [count])
        assert run.rounds[list(simulated.rounds.columns)].equals(simulated.rounds)


def test_what_is_sent_once_the_books_are_closed_counts_for_nothing(tmp_path: Path) -> None:
    def make() -> Made:
        # Questions arrive one real millisecond after the end: before processes know of it.
        made = Network(nx.cycle_graph(6), Link(latency=0.1003), round_period=0.1, seed=3)
        return made, {i: Questioner() for i in range(6)}

    held_against(make, tmp_path)


def test_rows_go_on_while_an_agent_whose_clock_is_late_takes_part(tmp_path: Path) -> None:
    def make() -> Made:
        faults = [ClockSkew(3, offset=0.25), ClockSkew(1, offset=-0.02)]
        made = Network(nx.cycle_graph(6), Link(latency=0.02), round_period=0.1, seed=3, faults=faults)
        return made, {i: Word() for i in range(6)}

    made, agents = make()
    assert len(made.run(agents).rounds) == 8
    held_against(make, tmp_path)


@pytest.mark.parametrize(
    ("offsets", "rows"),
    [
        ({i: 0.37 + 0.02 * i for i in range(6)}, [4, 5, 6, 7, 8, 9, 10]),
        (dict.fromkeys(range(6), 0.15), [2, 3, 4, 5, 6, 7]),
        ({3: 1.5}, [*range(1, 7), *range(16, 22)]),
    ],
)
def test_rows_are_of_rounds_in_which_anybody_anywhere_takes_part(
    offsets: dict[int, float], rows: list[int], tmp_path: Path
) -> None:
    def make() -> Made:
        faults = [ClockSkew(agent, offset=offset) for agent, offset in offsets.items()]
        made = Network(nx.cycle_graph(6), Link(latency=0.02), round_period=0.1, seed=3, faults=faults)
        return made, {i: Word() for i in range(6)}

    made, agents = make()
    assert made.run(agents).rounds["round"].tolist() == rows
    held_against(make, tmp_path)


class Taker(Agent):
    """Takes all that will ever come."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    async def run(self) -> None:
        await self.broadcast("word", 1)
        async for frame in self.inbox:
            self.got.append(frame.sender)


def test_iterations_over_inboxes_end_when_nothing_comes_any_more(tmp_path: Path) -> None:
    def make() -> Made:
        return Network(nx.cycle_graph(4), Link(latency=0.1), round_period=0.1), {i: Taker() for i in range(4)}

    made, agents = make()
    simulated = made.run(agents)
    run, found = deployed(make, tmp_path, parts=2, pace=PACE, patience=1.0)
    assert [agent.got for agent in found.values()] == [agent.got for agent in agents.values()]  # type: ignore[attr-defined]
    assert run.trace_hash == simulated.trace_hash


class Pump(Agent):
    """Waits for what its own background task is to bring."""

    async def pump(self, queue: "asyncio.Queue[Any]") -> None:
        queue.put_nowait(await self.inbox.get())

    async def run(self) -> None:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        pump = asyncio.create_task(self.pump(queue))
        await queue.get()
        await pump


def test_who_waits_for_anything_that_never_comes_hangs_not(tmp_path: Path) -> None:
    def make() -> Made:
        return Network(nx.cycle_graph(4), Link(latency=0.1), round_period=0.1), {i: Pump() for i in range(4)}

    outcome = in_parts(make, tmp_path, parts=2, patience=1.0)
    for each in outcome.values():
        assert isinstance(each, Stalled)
        assert "waits for Queue.get() (test_sockets_more.py" in str(each)


class Patient(Agent):
    """Gives up after a time, and goes on."""

    def __init__(self) -> None:
        self.gave_up = False

    async def run(self) -> None:
        try:
            async with asyncio.timeout(0.9):
                await self.inbox.get()
        except TimeoutError:
            self.gave_up = True
        await self.broadcast("word", 1)


class Waiter(Agent):
    """Waits for two frames."""

    async def run(self) -> None:
        await self.broadcast("word", 1)
        for _ in self.neighbors:
            await self.inbox.get()


@pytest.mark.parametrize(("kind", "delay"), [(Patient, 0.1), (Waiter, 0.9)])
def test_who_has_a_time_out_or_a_frame_under_way_does_not_stand_still(
    kind: type[Agent], delay: float, tmp_path: Path
) -> None:
    def make() -> Made:
        return Network(nx.cycle_graph(4), Link(latency=delay), round_period=0.1), {i: kind() for i in range(4)}

    outcome = in_parts(make, tmp_path, parts=2, pace=PACE, patience=1.0)
    assert all(isinstance(each, Run) for each in outcome.values()), outcome
    made, agents = make()
    simulated = made.run(agents)
    made, agents = make()
    run = gather(made, agents, tmp_path)
    assert run.trace_hash == simulated.trace_hash
    assert [vars(agent).get("gave_up") for agent in agents.values()] == [True if kind is Patient else None] * 4


@dataclass(frozen=True)
class Note:
    """Comes to be held during the run only."""

    heard: int


class Holder(Word):
    """Holds what belongs to its process, and comes to hold more."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.log = sys.__stderr__
        self.numbers = (number for number in range(10))
        self.heard = 0

    async def listen(self) -> None:
        while True:
            await self.queue.get()
            self.heard += 1

    async def run(self) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue()
        self.listening = asyncio.create_task(self.listen())
        async for _ in self.rounds(4):
            await self.broadcast("number", next(self.numbers))
            self.last = Note(self.heard)
            for frame in await self.collect():
                self.queue.put_nowait(frame.payload)


def test_agents_may_hold_what_belongs_to_their_process(tmp_path: Path) -> None:
    def make() -> Made:
        made = Network(nx.cycle_graph(4), Link(latency=0.02), round_period=0.1)
        return made, {i: Holder() for i in range(4)}

    made, agents = make()
    made.run(agents)
    _, found = deployed(make, tmp_path, parts=2, pace=PACE)
    assert [agent.last for agent in found.values()] == [agent.last for agent in agents.values()]  # type: ignore[attr-defined]
    assert [agent.heard for agent in found.values()] == [agent.heard for agent in agents.values()]  # type: ignore[attr-defined]
