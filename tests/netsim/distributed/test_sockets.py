"""A network in several processes (docs/sockets.md) gives a simulation's results, and reports where it cannot."""

import asyncio
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import Agent, AgentError, BadInput, Link, NetsimError, Network, Radio, Run, Stalled, latency, loss, topology
from netsim.clock import new_loop, pacing
from netsim.clock.clock import Loop
from netsim.clock.pacing import PacedSelector
from netsim.clock.virtual_clock import PATIENCE, WallSelector
from netsim.distributed import UDP, merge_parts, node
from netsim.distributed.envelope import Heartbeat, unseal
from netsim.faults import ClockSkew
from netsim.links import Reliability
from netsim.run import Probe
from tests.parts import (
    PERIOD,
    Average,
    Made,
    addresses,
    deployed,
    every,
    in_parts,
    must_be_the_same,
    played,
    shares,
    slow,
    spread,
)

HARD = Link(
    latency=latency.uniform(5e-3, 40e-3),
    loss=loss.gilbert_elliott(mean=0.1, burst=3),
    rate=1e6,
    queue=8,
    mtu=64,
    header_bits=8 * 28,
    duplicate=0.1,
    corrupt=0.1,
)
# A round takes an eighth of a second of real time. If the machine is late, `deployed` doubles it.
PACE = 0.8


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait for the other parts: threads start faster than processes, but still not instantly."""
    monkeypatch.setattr(node, "_START_MARGIN", 1.5)


def network(link: Link | None = None, rounds: int = 12, **settings: Any) -> Made:
    graph = topology.random_geometric(12, radius=0.6, seed=1)
    made = Network(graph, link or Link(), round_period=0.1, seed=7, **settings)
    return made, {node: Average(float(node), rounds) for node in graph}


def ring(make: Callable[[int], Agent], count: int = 6, latency: Any = 0.02, **settings: Any) -> Made:
    link = settings.pop("link", None) or Link(latency=latency)
    made = Network(nx.cycle_graph(count), link, **({"round_period": PERIOD, "seed": 3} | settings))
    return made, {i: make(i) for i in range(count)}


def conserved(run: Run) -> None:
    table = run.ledger.table()
    ends = table[[*run.ledger.causes, "in_flight"]].sum(axis=1)
    assert (table["offered"] + table["duplicated"] == ends).all()
    assert (ends >= 0).all()


# --- agents -----------------------------------------------------------------------------------------------------------


class Staggered(Agent):
    """Runs for a given number of rounds, which differs between agents, and counts received frames."""

    def __init__(self, rounds: int) -> None:
        self.count = rounds
        self.heard = 0

    async def run(self) -> None:
        async for _ in self.rounds(self.count):
            await self.broadcast("word", self.name)
            self.heard += len(await self.collect())


class Word(Agent):
    """Broadcasts a short message each round."""

    def __init__(self, number: int = 0, rounds: int = 6) -> None:
        self.count = rounds

    async def run(self) -> None:
        async for number in self.rounds(self.count):
            await self.broadcast("word", [number, str(self.name)])
            await self.collect()


class Questioner(Agent):
    """Sends requests in the background, and ends before they arrive."""

    def __init__(self, number: int) -> None: ...

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


class Taker(Agent):
    """Reads its inbox until no frame can arrive any more."""

    def __init__(self, number: int) -> None:
        self.got: list[Any] = []

    async def run(self) -> None:
        await self.broadcast("word", 1)
        async for frame in self.inbox:
            self.got.append(frame.sender)


class Patient(Agent):
    """Waits for a frame with a time limit, and then continues."""

    def __init__(self, number: int) -> None:
        self.gave_up = False

    async def run(self) -> None:
        try:
            async with asyncio.timeout(0.9):
                await self.inbox.get()
        except TimeoutError:
            self.gave_up = True
        await self.broadcast("word", 1)


class Waiter(Agent):
    """Waits for one frame from each of its two neighbours."""

    def __init__(self, number: int) -> None: ...

    async def run(self) -> None:
        await self.broadcast("word", 1)
        for _ in self.neighbors:
            await self.inbox.get()


@dataclass(frozen=True)
class Note:
    """An object that agents store only during the run."""

    heard: int


class Holder(Word):
    """Holds objects that cannot leave their process, and acquires more of them during the run."""

    def __init__(self, number: int) -> None:
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


# --- as in a simulation -----------------------------------------------------------------------------------------------


def in_round(agents: Any) -> dict[str, float]:
    return {"in_round": float(sum(agent.round for agent in agents.values()))}


def watched() -> Made:
    made, agents = ring(lambda i: Average(float(i), 5))
    made.watch({"first": lambda agent: agent.value[0]})
    return made, agents


def skewed(offsets: dict[int, float]) -> Callable[[], Made]:
    return partial(ring, Word, faults=[ClockSkew(agent, offset=offset) for agent, offset in offsets.items()])


@dataclass(frozen=True)
class Case:
    """A network with its agents, probes, deployment, and the attributes to compare at the end."""

    make: Callable[[], Made]
    probes: Sequence[Probe] = ()
    deployed: dict[str, Any] = field(default_factory=dict)
    attributes: Sequence[str] = ()
    # The indices of the rows to compare; None compares all.
    rows: Sequence[int] | None = None
    # Without rounds, processes wait for each other at the end: then only the frames equal the simulation's.
    is_whole: bool = True


THREE: dict[str, Any] = {"parts": 3, "pace": 0.6}
TWO: dict[str, Any] = {"parts": 2, "pace": 0.6}
# Answers really have to arrive by the time that the link's model gives them, so these links are slow.
SLOW = {"rounds": 3}
CASES = {
    "ideal": Case(network, [spread], attributes=["value"]),
    "hard": Case(partial(network, HARD), [spread], attributes=["value"]),
    "radio": Case(partial(network, Link(loss=0.1, rate=1e6, latency=1e-3), medium="radio"), [spread]),
    **{
        f"reliable by {how}": Case(
            partial(network, Link(loss=0.2, latency=0.03, reliability=each), **SLOW), [spread], {"pace": PACE / 8}
        )
        for how, each in {"ack": "ack", "nack": Reliability("nack")}.items()
    },
    "some end early": Case(partial(ring, lambda i: Staggered(2 + i), latency=0.13), attributes=["heard"]),
    "watched states": Case(watched, deployed=THREE),
    "damaged after the end": Case(
        partial(ring, Word, link=Link(corrupt=0.3, crc=False, latency=latency.uniform(1e-3, 0.2))), deployed=THREE
    ),
    # The requests arrive a real millisecond after the end, before the other processes know of the end.
    "sent once the books are closed": Case(partial(ring, Questioner, latency=0.1003), deployed=THREE),
    "a clock is late": Case(skewed({3: 0.25, 1: -0.02}), deployed=THREE, rows=range(1, 9)),
    "all clocks are late": Case(skewed({i: 0.37 + 0.02 * i for i in range(6)}), deployed=THREE, rows=range(4, 11)),
    "clocks late alike": Case(skewed(dict.fromkeys(range(6), 0.15)), deployed=THREE, rows=range(2, 8)),
    "a clock very late": Case(skewed({3: 1.5}), deployed=THREE, rows=[*range(1, 7), *range(16, 22)]),
    "rows at an interval": Case(network, [spread], {"parts": 2, "sample": 0.25}),
    "the agents' rounds": Case(lambda: ring(lambda i: Word(i, 2 + i % 3)), [in_round], TWO),
    "no rounds": Case(lambda: ring(lambda i: Word(i, 0)), [len], TWO),
    "no rounds, but rows": Case(lambda: ring(lambda i: Word(i, 0)), [len], TWO | {"sample": 0.05}),
    "what belongs to a process": Case(partial(ring, Holder, 4), deployed=TWO, attributes=["last", "heard"]),
    "iterations over inboxes end": Case(
        partial(ring, Taker, 4, 0.1), deployed=TWO | {"patience": 1.0}, attributes=["got"], is_whole=False
    ),
    "a time-out": Case(
        partial(ring, Patient, 4, 0.1), deployed=TWO | {"patience": 1.0}, attributes=["gave_up"], is_whole=False
    ),
    "frames long under way": Case(partial(ring, Waiter, 4, 0.9), deployed=TWO | {"patience": 1.0}, is_whole=False),
}


@pytest.mark.parametrize("name", [name if number < 2 else slow(name) for number, name in enumerate(CASES)])
def test_it_is_the_simulation_to_the_last_bit(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    made, agents = case.make()
    simulated = made.run(agents, case.probes, trace=True, sample=case.deployed.get("sample"))
    run, found = deployed(case.make, tmp_path, case.probes, **({"pace": PACE} | case.deployed))
    for attribute in case.attributes:
        ours, theirs = ({node: repr(vars(each)[attribute]) for node, each in some.items()} for some in (found, agents))
        assert ours == theirs
    if not case.is_whole:
        assert run.trace_hash == simulated.trace_hash
        return
    must_be_the_same(simulated, run)
    if case.rows is not None:
        assert simulated.rounds["round"].tolist() == [*case.rows]
    if simulated.watch is not None:
        assert run.trace.scene == simulated.trace.scene
        order = ["time_s", "agent", "sent"]
        ours, theirs = (each.states.sort_values(order).to_numpy().tolist() for each in (run, simulated))
        assert ours == theirs
        assert len(ours) > 24


class Asker(Agent):
    """Sends its neighbours requests, and sends one of them a final message."""

    def __init__(self) -> None:
        self.got: list[float] = []

    def answer(self, frame: Any) -> float:
        return float(frame.payload) * 2

    async def run(self) -> None:
        for other in self.neighbors:
            reply = await self.request(other, "twice", self.name, timeout=20)
            self.got.append(reply.payload)
        await self.send(self.neighbors[0], "word", "done")
        await self.inbox.get()


@pytest.mark.slow
def test_requests_replies_and_words_cross(tmp_path: Path) -> None:
    def make() -> Made:
        graph = nx.cycle_graph(4)
        return Network(graph, Link(latency=0.01), round_period=1.0), {i: Asker() for i in graph}

    # Each agent sends its final message to its first neighbour. Agent 3 is nobody's first neighbour, so it waits for
    # ever.
    outcome = in_parts(make, tmp_path, pace=1.0, patience=5.0)
    raised = [each for each in outcome.values() if isinstance(each, BaseException)]
    assert len(raised) == 1
    assert isinstance(raised[0], Stalled)
    assert "no frame arrived for 5 real seconds; agent 3 waits for a frame in its inbox (test_sockets.py" in str(
        raised[0]
    )
    made, agents = make()
    run = merge_parts(made, agents, tmp_path)
    conserved(run)
    assert [agent.got for agent in agents.values()] == [[0, 0], [2, 2], [4, 4], [6, 6]]  # type: ignore[attr-defined]


class Beating(UDP):
    """A transport that records the sizes of its heartbeats."""

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
    # The patience is so long that no part gives up on another that the machine suspends.
    transports = {here: Beating(here, others, pace=PACE / 4, patience=100.0) for here, others in peers.items()}
    # In a second run, heartbeats also report how the first run ended.
    for _ in range(2):
        for outcome in played(make, transports).values():
            assert isinstance(outcome, Run), outcome
            assert outcome.ledger.link_messages == 3 * 30 * 59
    for transport in transports.values():
        assert transport.sizes
        assert max(transport.sizes) < 300


# --- what is not as in a simulation -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_rounds_too_short_for_the_machine_are_late_and_nothing_hangs(tmp_path: Path) -> None:
    def make() -> Made:
        made, agents = network()
        return made, {node: Average(float(node), rounds=200) for node in agents}

    outcome = in_parts(make, tmp_path, pace=100.0)
    assert not [each for each in outcome.values() if isinstance(each, BaseException)]
    made, agents = make()
    run = merge_parts(made, agents, tmp_path)
    conserved(run)
    assert run.ledger.table()["late"].sum() > 0


def test_a_part_alone_counts_what_it_saw() -> None:
    outcome = in_parts(lambda: network(), None, probes=[lambda agents: len(agents)], pace=PACE / 2)
    for run in outcome.values():
        assert isinstance(run, Run)
        assert len(run.agents) == 3
        assert (run.rounds["<lambda>"] == 3).all()
        table = run.ledger.table()
        here = table["sender"].isin(run.agents)
        # 12 rounds, or fewer if the machine delayed the process; each agent makes one broadcast a round.
        taken = run.ledger.transmissions // len(run.agents)
        assert 0 < taken <= 12
        assert (table[here]["offered"] == taken).all()
        assert table[table["receiver"].isin(run.agents)]["delivered"].between(0, 12).all()


class Ready(Agent):
    """Becomes ready to start only during the run; one of the agents never does."""

    async def run(self) -> None:
        if self.name == 0:
            raise ValueError("not today")
        self.value = np.ones(3)
        async for _ in self.rounds(4):
            await self.broadcast("state", self.value)
            await self.collect()


def ready(agents: Any) -> float:
    return float(sum(agent.value.sum() for agent in agents.values()))


@pytest.mark.slow
def test_agents_of_a_process_that_came_to_nothing_are_not_measured(tmp_path: Path) -> None:
    def make() -> Made:
        graph = nx.complete_graph(4)
        return Network(graph, round_period=0.1), {i: Ready() for i in graph}

    outcome = in_parts(make, tmp_path, parts=2, probes=[ready], pace=PACE, silence=1.0)
    assert sum(isinstance(each, AgentError) for each in outcome.values()) == 1
    made, agents = make()
    run = merge_parts(made, agents, tmp_path, [ready])
    conserved(run)
    assert len(run.rounds) == 4
    assert "ready" not in run.rounds or run.rounds["ready"].isna().all()


class Pump(Agent):
    """Waits for a value that its background task provides."""

    async def pump(self, queue: "asyncio.Queue[Any]") -> None:
        queue.put_nowait(await self.inbox.get())

    async def run(self) -> None:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        pump = asyncio.create_task(self.pump(queue))
        await queue.get()
        await pump


@pytest.mark.slow
def test_an_agent_that_waits_for_what_never_comes_is_named(tmp_path: Path) -> None:
    def make() -> Made:
        return Network(nx.cycle_graph(4), Link(latency=0.1), round_period=0.1), {i: Pump() for i in range(4)}

    outcome = in_parts(make, tmp_path, parts=2, patience=1.0)
    for each in outcome.values():
        assert isinstance(each, Stalled)
        assert "waits for Queue.get() (test_sockets.py" in str(each)


# --- what must not be -------------------------------------------------------------------------------------------------


def two(
    make: Callable[[], Made] = network,
    other: Callable[[], Made] | None = None,
    keys: Any = (None, None),
    **settings: Any,
) -> list[Run | BaseException]:
    """Run two parts, which may differ in settings and keys; return the outcome of each."""
    peers = shares(addresses(2), list(make()[0].graph))
    transports = {
        here: UDP(here, others, pace=PACE, key=key, **settings)
        for (here, others), key in zip(peers.items(), keys, strict=True)
    }
    return [*played(dict(zip(peers, (make, other or make), strict=True)), transports, ()).values()]


def test_who_has_another_key_is_a_stranger() -> None:
    for each in two(keys=(b"k" * 16, b"l" * 16), patience=1.0):
        assert isinstance(each, NetsimError)
        assert "no answer from '127.0.0.1:" in str(each)
        assert "in 1 real seconds" in str(each)


def test_who_runs_something_else_is_refused() -> None:
    outcome = two(other=lambda: network(Link(loss=0.1)), patience=1.0)
    message = "runs something else: graph, links, seed, agents and the process of each agent"
    assert any(message in str(each) for each in outcome)


class Shouter(Agent):
    async def run(self) -> None:
        # The loop is long because a process that starts late joins in the round that is then open.
        async for _ in self.rounds(100):
            await self.broadcast("much", np.zeros(9000))
            await self.collect()


def test_a_frame_too_large_for_a_datagram_is_refused_by_name() -> None:
    def make() -> Made:
        graph = nx.path_graph(2)
        return Network(graph, round_period=0.1), {i: Shouter() for i in graph}

    for each in two(make, silence=1.0):
        assert isinstance(each, AgentError)
        assert "a frame 'much' of 72," in str(each)
        assert "is too large for UDP: at most 65,307" in str(each)


@every(
    ("change", "says"),
    [
        ({"here": "0.0.0.0:9000"}, "must be a loopback address unless a key is given"),
        ({"here": "nowhere"}, "here = 'nowhere': must be an address like 127.0.0.1:9000"),
        ({"here": "127.0.0.1:0"}, "must be an address"),
        ({"here": "127.0.0.1:9001"}, "must be the other processes, without this one"),
        ({"peers": {}}, "peers = {}: must be a mapping"),
        ({"peers": {"127.0.0.1:9001": "ab"}}, "must be a list of agents' names"),
        ({"key": b"short"}, "key: must be at least 16 bytes"),
        ({"pace": 0}, "pace = 0: must be a number > 0"),
        ({"patience": float("nan")}, "patience = nan"),
        ({"silence": -1}, "silence = -1"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, Any], says: str) -> None:
    arguments: dict[str, Any] = {"here": "127.0.0.1:9000", "peers": {"127.0.0.1:9001": [0]}} | change
    with pytest.raises(BadInput, match=re.escape(says)) as found:
        UDP(**arguments)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("peers", "says"),
    [
        ({"127.0.0.1:9001": [99]}, "99 is not one"),
        ({"127.0.0.1:9001": [1], "127.0.0.1:9002": [1]}, "1 is in two"),
        ({"127.0.0.1:9001": list(range(12))}, "must leave an agent to run here"),
    ],
)
def test_agents_have_one_place_each(peers: dict[str, list[int]], says: str) -> None:
    made, agents = network()
    with pytest.raises(BadInput, match="peers") as found:
        made.run(agents, transport=UDP("127.0.0.1:9000", peers))
    assert says in str(found.value)


def test_what_cannot_be_taken_apart_is_refused() -> None:
    transport = UDP("127.0.0.1:9000", {"127.0.0.1:9001": [1]})
    shared = Network(nx.path_graph(2), Link(rate=1e6), medium=Radio())
    with pytest.raises(BadInput, match="medium: must be wires, or a radio without collisions"):
        shared.run({0: Average(1), 1: Average(2)}, transport=transport)
    timed = Network(nx.path_graph(2), compute=0.1)
    with pytest.raises(BadInput, match="compute: must be left out for agents in several processes in real time"):
        timed.run({0: Average(1), 1: Average(2)}, transport=transport)
    made, agents = network()
    with pytest.raises(BadInput, match=r"transport = 'udp': must be a netsim.distributed.Transport"):
        made.run(agents, transport="udp")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="pace: cannot be combined with a transport"):
        made.run(agents, transport=transport, pace=2)
    with pytest.raises(BadInput, match=r"argument of Network.run = 'sped'"):
        made.run(agents, sped=2)  # type: ignore[call-arg]


def test_an_address_that_is_taken_is_named() -> None:
    held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    held.bind(("127.0.0.1", 0))
    here = f"127.0.0.1:{held.getsockname()[1]}"
    made, agents = network()
    with held, pytest.raises(NetsimError, match=r"must be an available address \(Address already in use\)"):
        made.run(agents, transport=UDP(here, {"127.0.0.1:9001": [1]}))


# --- time -------------------------------------------------------------------------------------------------------------


class Wall:
    """Replaces the wall clock: only sleep advances it, however slow the machine is."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> list[Any]:
        """Advance slightly more than the given seconds, as real sleeps do; report no socket as ready."""
        self.seconds += seconds + 1e-9
        return []

    def paced(self, epoch: float) -> PacedSelector:
        """Return a selector that sleeps on this clock, with pace 10 and a slack of half a second."""
        selector = PacedSelector(epoch, pace=10.0, slack=0.5)
        selector._sockets.select = self.sleep
        return selector


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    clock = Wall()
    monkeypatch.setattr(pacing, "time", clock)
    return clock


def test_an_instant_is_what_it_was_to_be_though_the_machine_comes_late(wall: Wall) -> None:
    selector = wall.paced(0.05)
    loop = Loop(selector)
    times = []

    def late() -> None:
        times.append(loop.time())
        wall.sleep(0.03)  # 0.3 s of simulated time at pace 10

    for when in (0.0, 0.1, 2.0):
        loop.call_at(when, late)
    loop.call_at(2.1, loop.stop)
    assert loop.time() < 0
    loop.run_forever()
    loop.close()
    assert times == [0.0, 0.1, 2.0]
    assert selector.overruns == 0
    # The event at 0.1 s is due at 10 ms on the wall, and handled at 30 ms.
    assert selector.longest_lag == pytest.approx(0.02, rel=1e-6)


def test_a_clock_that_falls_behind_jumps(wall: Wall) -> None:
    selector = wall.paced(0.0)
    loop = Loop(selector)
    times = []
    loop.call_at(0.1, wall.sleep, 0.2)
    loop.call_at(1.0, lambda: times.append(loop.time()))
    loop.call_at(10.0, loop.stop)
    loop.run_forever()
    loop.close()
    # The event at 0.1 s blocks the loop for 2 s of simulated time, more than the slack, so the clock jumps to 2.1 s.
    assert times == [pytest.approx(2.1, rel=1e-6)]
    assert selector.overruns == 1


def say(to: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"word", to)


class Listener(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.came: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if not self.came.done():
            self.came.set_result(data)


def test_on_the_walls_clock_a_loop_waits_for_sockets() -> None:
    loop = new_loop("wall", 50.0)

    async def listen() -> bytes:
        transport, protocol = await loop.create_datagram_endpoint(Listener, local_addr=("127.0.0.1", 0))
        to = transport.get_extra_info("sockname")
        threading.Timer(0.5, say, (to,)).start()
        try:
            return await protocol.came
        finally:
            transport.close()
            await asyncio.sleep(0)

    try:
        assert loop.run_until_complete(listen()) == b"word"
    finally:
        loop.close()


@pytest.mark.slow
def test_a_silence_of_open_sockets_is_a_standstill_in_the_end() -> None:
    selector = WallSelector(50.0, patience=0.3)
    loop = Loop(selector)

    async def listen() -> None:
        transport, protocol = await loop.create_datagram_endpoint(Listener, local_addr=("127.0.0.1", 0))
        try:
            await protocol.came
        finally:
            transport.close()

    begun = time.monotonic()
    with pytest.raises(Stalled, match="waits for what can never come"):
        loop.run_until_complete(listen())
    assert 0.3 < time.monotonic() - begun < PATIENCE
    for task in asyncio.all_tasks(loop):
        task.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
